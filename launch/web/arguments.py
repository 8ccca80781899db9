"""Arguments of commands that serve pages; without the packages of the extra `serve`."""

import argparse
import importlib.util

from common_jax.errors import missing_extra

_MODULES = ("starlette", "uvicorn", "prometheus_client")


def add_address(parser: argparse.ArgumentParser, port: int) -> None:
    """Adds `--host`, `--allowed_hosts`, a list of names, and `--port`."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    add(
        "--allowed_hosts",
        default=[],
        type=_names,
        metavar="NAME,NAME",
        help="names of this server in URLs, beside its address and localhost",
    )
    add("--port", type=int, default=port, metavar="N", help=f"0: a free port ({port})")


def require_extra(command: str) -> None:
    """Raises UserError unless the packages of the extra `serve` are installed."""
    for module in _MODULES:
        if importlib.util.find_spec(module) is None:
            raise missing_extra(f"{module} is not installed; launch.{command}", "serve")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]

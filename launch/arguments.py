"""Arguments of the commands: their parser, types of values, and flags that several have."""

import argparse
import ast
import contextlib
import functools
import importlib.util
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from common_jax.errors import UserError
from common_jax.io.paths import AnyPath, as_path, disk_path
from launch.cli import TRACEBACK, spelled

if TYPE_CHECKING:
    from common_jax.deploy.predictor import Option


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, with one-line errors.

    With `--config`, `--help` lists the config's fields.
    """

    def __init__(self, **kwargs):
        raw = functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
        if "prog" in kwargs and kwargs.get("description", "") is None:  # by `python -OO`
            kwargs["description"] = _docstring(kwargs["prog"].split()[-1])
        kwargs |= {k: spelled(kwargs[k]) for k in ("prog", "description") if kwargs.get(k)}
        super().__init__(**{"formatter_class": raw, "allow_abbrev": False, **kwargs})
        if self.add_help:
            text = "print the traceback of an error too"
            self.add_argument(TRACEBACK, action="store_true", help=text)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[override]
        """As in the base class; an output must not be a file that another option names."""
        takes_config = self.add_help and "--config" in self._option_string_actions
        if takes_config and {"-h", "--help"} & {*(args or ())}:
            self.add_fields(args)
        parsed, rest = super().parse_known_args(args, namespace)
        given = {action: getattr(parsed, action.dest, None) for action in self._actions}
        outputs = {
            action: path for action, path in given.items() if action.type in _OUTPUTS and path
        }
        pairs = itertools.product(outputs.items(), given.items())
        for (output, file), (other, value) in pairs:
            for path in value if isinstance(value, list) else [value]:
                if other is not output and isinstance(path, (str, Path)):
                    _require_another(output, file, other, Path(path))
        return parsed, rest

    def add_fields(self, args: Sequence[str]) -> None:
        """Adds the fields of the config that arguments name, for help and completion."""
        if file := early_arguments("", args, "--config").config:
            from launch.config_fields import add_fields

            add_fields(self, file, [arg for arg in args if arg.startswith("--config.")])

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def _docstring(command: str) -> str | None:
    """The docstring of a command's module, from its source."""
    spec = importlib.util.find_spec(command)
    if spec is not None and spec.submodule_search_locations:
        spec = importlib.util.find_spec(f"{command}.__main__")
    if spec is None or spec.origin is None:
        return None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text("utf-8")), clean=False)


def positive(text: str) -> int:
    """Argument type: an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {text!r}")
    return int(text)


def natural(text: str) -> int:
    """Argument type: an integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    return int(text)


def folder(text: str) -> AnyPath:
    """Argument type: a folder."""
    if not text:
        raise argparse.ArgumentTypeError("name a folder")
    return as_path(text)


def output_file(text: str) -> AnyPath:
    """Argument type: a file that can be written in a folder that exists."""
    from common_jax.io.storage import folder_of  # not for --help

    path = as_path(text)
    if obstacle := folder_of(path.parent).obstacle(path.name):
        raise argparse.ArgumentTypeError(obstacle)
    return path


def output_on_disk(text: str) -> AnyPath:
    """Argument type: a file to write, in a folder that exists on a disk."""
    return output_file(str(disk_path(text)))


_OUTPUTS = (output_file, output_on_disk)


def _require_another(
    output: argparse.Action, file: AnyPath, other: argparse.Action, path: Path
) -> None:
    if not os.path.isfile(path):
        path = Path(str(path).partition(":")[0])  # of --config FILE:ARGUMENT
    is_file = other.type in _OUTPUTS or os.path.isfile(path)
    if is_file and os.path.realpath(file) == os.path.realpath(path):
        first, second = (
            "".join(action.option_strings) or action.dest for action in (output, other)
        )
        raise UserError(f"{first}: the same file as {second}; name another")


def add_config(parser: argparse.ArgumentParser, override: str) -> None:
    """Adds `--config`, and `--config.KEY` to the help; overrides are the unknown arguments.

    Args:
      override: the help of `--config.KEY`.
    """
    text = "config file, or the name of an installed one: csan/quickstart"
    config = parser.add_argument("--config", required=True, metavar="FILE[:ARG]", help=text)
    config.completer = _config_names  # type: ignore[attr-defined]
    parser.add_argument("--config.KEY", metavar="VALUE", dest="_", help=override)


def _config_names(prefix: str, **_: Any) -> list[str]:
    """Completes the names of installed configs, and after a ":" systems; else files."""
    import argcomplete

    from common_jax.training.config_files import installed_configs

    file, colon, _argument = prefix.partition(":")
    if colon:
        from common_jax.training.config import systems_of

        return [f"{file}:{system}" for system in systems_of(file)]
    files = argcomplete.FilesCompleter(("py",))(prefix)
    return [*installed_configs(), *files]


def _systems(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Completes the last of some systems, SYSTEM,SYSTEM,..."""
    from common_jax.training.config import systems_of

    before, comma, _last = prefix.rpartition(",")
    return [f"{before}{comma}{system}" for system in systems_of(parsed_args.config or "")]


def add_systems(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Adds `--systems A,B,C`: systems of the config file, as in FILE:SYSTEM."""

    def names(text: str) -> list[str]:
        listed = [name.strip() for name in text.split(",")]
        if not all(listed):
            raise argparse.ArgumentTypeError(f"{text!r}: write SYSTEM,SYSTEM,...")
        return listed

    text = f"systems of the config file, FILE:SYSTEM each: {purpose}"
    systems = parser.add_argument("--systems", type=names, default=[], metavar="A,B,...", help=text)
    systems.completer = _systems  # type: ignore[attr-defined]


def system_files(file: str, systems: Sequence[str]) -> dict[str, str]:
    """`--config` of each system by its name: FILE:SYSTEM; {"": file} for no systems.

    Raises:
      UserError: for a repeated system, or a file with an argument.
    """
    if systems and ":" in file:
        raise UserError(f"--systems: --config {file} names one already")
    if twice := [name for name in systems if list(systems).count(name) > 1]:
        raise UserError(f"--systems: {twice[0]} is given twice")
    return {name: f"{file}:{name}" for name in systems} or {"": file}


def gigabytes(text: str) -> float:
    """Argument type: an amount of memory above 0, in GiB."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number of GiB above 0, not {text!r}")


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Adds `--max_memory`, the limit of `common_jax.deploy.load`."""
    text = "memory for computing a text or a batch, in GiB (4)"
    parser.add_argument("--max_memory", type=gigabytes, default=4.0, metavar="GIB", help=text)


def add_options(parser: argparse.ArgumentParser, options: Sequence["Option"]) -> None:
    """Adds a flag for each option of a predictor."""
    group = parser.add_argument_group("options of this model") if options else parser
    for option in options:
        keywords: dict[str, Any] = {"type": option.kind, "metavar": option.metavar}
        if option.kind is bool:
            keywords = {"action": "store_true", "default": None}
        group.add_argument(f"--{option.name}", help=option.help, **keywords)


def option_values(args: argparse.Namespace, options: Sequence["Option"]) -> dict[str, Any]:
    """The values of the flags of `add_options` that are given, by name."""
    return {o.name: v for o in options if (v := getattr(args, o.name)) is not None}


def add_untrusted(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `trust`."""
    group = parser.add_argument_group("exports of strangers, as those of a hub always are")
    text = "run no program of an export; compute by this suite's own code"
    group.add_argument("--untrusted", action="store_true", help=text)
    text = "a package whose classes such an export may name; may be repeated"
    group.add_argument("--trust_package", action="append", default=[], metavar="NAME", help=text)


def trust(args: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `common_jax.deploy.loading.export_at` by the flags of
    `add_untrusted`."""
    return {"untrusted": args.untrusted, "trusted_packages": args.trust_package}


def add_output(parser: argparse.ArgumentParser, result: str) -> None:
    """Adds `--json`, which prints the result instead of text, and `--quiet`."""
    parser.add_argument("--json", action="store_true", help=f"print {result} as JSON, alone")
    parser.add_argument("--quiet", action="store_true", help="no messages but warnings and errors")


def early_arguments(
    command: str, argv: Sequence[str], *flags: str | Callable[[Parser], None]
) -> argparse.Namespace:
    """The values of some flags, needed to add the flags of a model to the command's parser.

    Args:
      flags: their names, or functions that add them.
    """
    parser = Parser(prog=f"python -m launch.{command}", add_help=False)
    for flag in flags:
        if isinstance(flag, str):
            parser.add_argument(flag)
        else:
            flag(parser)
    return parser.parse_known_args(argv)[0]

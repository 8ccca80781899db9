"""Times what the library computes, on this machine."""

import argparse
import functools
import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from common_jax import masks
from common_jax.attention import attention
from common_jax.errors import UserError
from common_jax.masks import Mask
from launch.cli import Parser, run

ATTENTION = """Time and temporary memory of attention with its gradient, float32, for each length:
"vanilla" is jax.nn.dot_product_attention without a mask; 1D attends in a token window, 2D in an
area of tokens and heads; "auto" is what the models use.

All forms take turns within one run, in an order drawn anew for each round, and the table shows
medians: a busy machine slows all alike, and the ratios mean more than the milliseconds. "speed"
is how many times faster than the dense form (than vanilla) a form is.

example:
  python -m launch.bench attention --lengths 64,512,2048 --json attention.json"""

ROUNDS = (3, 60)  # at least, at most
SECONDS_A_LENGTH = 8.0  # rounds go on until then
SHORTEST_SAMPLE = 0.01  # seconds; shorter calls are repeated to fill it

Row = dict[str, Any]


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_attention(commands)
    args = parser.parse_args(argv)
    if args.json and not args.json.absolute().parent.is_dir():
        raise UserError(f"--json: there is no folder {args.json.absolute().parent}")
    busy = os.getloadavg()[0]
    rows = args.measure(args)
    print(table(rows))
    if args.json:
        command = " ".join(["python -m launch.bench", *argv])
        report = {"command": command, **machine(busy), "rows": rows}
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def machine(busy: float) -> Row:
    """Where the numbers come from; `busy` is the load that others put on it."""
    return {
        "device": jax.devices()[0].device_kind,
        "devices": jax.device_count(),
        "cpu_cores": os.cpu_count(),
        "load_before": round(busy, 2),
        "versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
    }


# Any benchmark: calls that take turns, and a table of rows.


def medians(calls: dict[str, Callable[[], Any]], rounds: int | None) -> dict[str, float]:
    """Seconds of each call, the calls taking turns.

    Args:
      calls: by name; what they return is waited for.
      rounds: how many; as many as fit in `SECONDS_A_LENGTH` if None.
    """
    repeats = {name: _repeats(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    least, most = (rounds, rounds) if rounds else ROUNDS
    order, start = list(calls), time.perf_counter()
    for done in range(most):
        if done >= least and time.perf_counter() - start > SECONDS_A_LENGTH:
            break
        random.Random(done).shuffle(order)
        for name in order:
            _seconds(calls[name])  # pays for what the call before has left in caches and heap
            samples[name].append(_seconds(calls[name], repeats[name]))
    return {name: statistics.median(seconds) for name, seconds in samples.items()}


def _repeats(call: Callable[[], Any]) -> int:
    once = _seconds(call)
    return 1 if once > SHORTEST_SAMPLE else math.ceil(SHORTEST_SAMPLE / _seconds(call))


def _seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        result = call()
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / repeats


def table(rows: list[Row]) -> str:
    """Rows under their names, aligned; a blank line where the first column changes."""
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for before, row in zip([cells[0], *cells], cells, strict=False):
        if row[0] != before[0]:
            lines.append("")
        lines.append("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


# Attention.


def add_attention(commands) -> None:
    parser = commands.add_parser(
        "attention", help="attention with its gradient: time and memory", description=ATTENTION
    )
    parser.set_defaults(measure=measure_attention)
    default = "16,32,64,128,256,512,1024,2048,4096"
    parser.add_argument(
        "--lengths",
        type=lengths,
        default=lengths(default),
        metavar="T,T,...",
        help=f"tokens in a sequence ({default})",
    )
    for flag, number, meaning in (
        ("--heads", 8, "heads"),
        ("--head_size", 64, "size of a head's queries, keys and values"),
        ("--window", 11, "tokens in the window, odd"),
        ("--head_window", 3, "heads in the area of the 2D forms, odd"),
        ("--batch", 1, "sequences"),
    ):
        text = f"{meaning} ({number})"
        parser.add_argument(flag, type=positive, default=number, metavar="N", help=text)
    text = f"timed rounds ({ROUNDS[0]} to {ROUNDS[1]}, as fit in {SECONDS_A_LENGTH:.0f} s a length)"
    parser.add_argument("--repeats", type=positive, metavar="N", help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number above 0 is wanted, not {text!r}")
    return int(text)


def lengths(text: str) -> list[int]:
    return [positive(part.strip()) for part in text.split(",")]


def measure_attention(args: argparse.Namespace) -> list[Row]:
    """A row for each length and form."""
    forms = attention_forms(args)
    return [row for length in args.lengths for row in measure_length(args, forms, length)]


def attention_forms(args: argparse.Namespace) -> dict[str, Callable]:
    """What is compared, each a function of query, key and value."""
    try:
        masks.head_table(args.heads, args.head_window, "truncate")
        one = masks.token_window(args.window)
        two = one & masks.head_window(args.head_window)
    except ValueError as error:
        raise UserError(str(error)) from error

    def form(mask: Mask, implementation: Any) -> Callable:
        return lambda q, k, v: attention(q, k, v, mask, implementation=implementation)

    return {"vanilla": jax.nn.dot_product_attention} | {
        f"{implementation} {dims}": form(mask, implementation)
        for dims, mask in (("1D", one), ("2D", two))
        for implementation in ("dense", "banded", "auto")
    }


def measure_length(args: argparse.Namespace, forms: dict[str, Callable], length: int) -> list[Row]:
    shape = (args.batch, length, args.heads, args.head_size)
    inputs = [jax.random.normal(key, shape) for key in jax.random.split(jax.random.key(0), 4)]
    programs = {
        name: jax.jit(with_gradient(form)).lower(*inputs).compile() for name, form in forms.items()
    }
    seconds = medians(
        {name: functools.partial(program, *inputs) for name, program in programs.items()},
        args.repeats,
    )
    memory = {
        name: program.memory_analysis().temp_size_in_bytes for name, program in programs.items()
    }
    rows = []
    for name in forms:
        dense = "dense 1D" if name == "vanilla" else f"dense {name[-2:]}"
        rows.append(
            {
                "length": length,
                "form": name,
                "milliseconds": 1e3 * seconds[name],
                "temporary_mib": memory[name] / 2**20,
                "speed_to_dense": seconds[dense] / seconds[name],
                "speed_to_vanilla": seconds["vanilla"] / seconds[name],
                "memory_to_dense": memory[name] / memory[dense],
            }
        )
    return rows


def with_gradient(form: Callable) -> Callable:
    """The output and the gradients of all inputs, for a given cotangent of the output."""

    def forward_and_backward(query, key, value, cotangent):
        out, back = jax.vjp(form, query, key, value)
        return out, back(cotangent)

    return forward_and_backward


if __name__ == "__main__":
    run(main)

"""Times what the library computes, on this machine.

    python -m launch.bench attention --lengths 64,512,2048 --json attention.json

`attention` measures one call with its gradient: plain attention (`jax.nn.dot_product_attention`),
attention in a token window (1D) and in an area of tokens and heads (2D), dense, banded and as
"auto" chooses. All forms take turns within one run, so that a busy machine slows them alike: the
ratios mean more than the milliseconds.
"""

import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from launch.cli import Parser, run


def main(arguments: Sequence[str]) -> None:
    parser = Parser(prog="python -m launch.bench", description=__doc__)
    commands = parser.add_subparsers(
        dest="command", required=True, parser_class=Parser, metavar="attention"
    )
    add_attention(commands)
    options = parser.parse_args(arguments)
    rows = options.measure(options)
    print(table(rows))
    if options.json:
        save(options.json, rows, arguments)


def add_attention(commands) -> None:
    parser = commands.add_parser(
        "attention",
        help="attention in a window of tokens and heads, forward and backward",
        description="Forward and backward time and temporary memory of each form of attention.",
        epilog="example: python -m launch.bench attention --lengths 64,512 --json attention.json",
    )
    parser.set_defaults(measure=measure_attention)
    parser.add_argument(
        "--lengths",
        type=lengths,
        default=lengths("16,32,64,128,256,512,1024,2048,4096"),
        metavar="T,T,...",
        help="tokens in a sequence (default: 16,32,64,... to 4096)",
    )
    for name, default, meaning in (
        ("heads", 8, "number of heads"),
        ("head_size", 64, "numbers in a head's query, key or value"),
        ("window", 11, "tokens in the window, odd"),
        ("head_window", 3, "heads in the area of the 2D forms, odd"),
        ("batch", 1, "sequences"),
    ):
        parser.add_argument(
            f"--{name}",
            type=positive,
            default=default,
            metavar="N",
            help=f"{meaning} (default: {default})",
        )
    parser.add_argument(
        "--repeats",
        type=positive,
        metavar="N",
        help="timed rounds at each length (default: 15, fewer where a round takes seconds)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the table's numbers to FILE"
    )


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def lengths(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def measure_attention(options) -> list[dict[str, Any]]:
    """One row for each length and form."""
    rows = []
    for length in options.lengths:
        forms = attention_forms(options, length)
        programs = {form: compiled(call, options, length) for form, call in forms.items()}
        seconds = interleaved({form: call for form, (call, _) in programs.items()}, options.repeats)
        for form, (_, memory) in programs.items():
            dense = "dense 1D" if form.endswith("1D") else "dense 2D"
            rows.append(
                {
                    "length": length,
                    "form": form,
                    "milliseconds": 1e3 * seconds[form],
                    "temporary_mib": memory / 2**20,
                    "speed_over_dense": seconds[dense] / seconds[form] if dense else None,
                    "speed_over_vanilla": seconds["vanilla"] / seconds[form],
                    "memory_of_dense": memory / programs[dense][1],
                }
            )
    return rows

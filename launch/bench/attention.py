"""`launch.bench attention`: time and memory of the implementations of attention."""

import argparse

from launch.arguments import positive
from launch.measure.timing import ROUNDS, SECONDS_A_LENGTH
from launch.text_table import Row

ATTENTION = """Time and temporary memory of attention with its gradient, float32, for each length:
"vanilla" is jax.nn.dot_product_attention without a mask; 1D attends in a token window, 2D in an
area of tokens and heads; translation uses "auto", QANet "chunked", without a window; on a GPU,
"cudnn" is vanilla in bfloat16.

All forms are timed in turn within one run, in a new random order in each round; the table shows
medians. On a busy machine compare the ratios, not the milliseconds. "speed" is relative to the
dense form (or to vanilla). A form that does not fit into memory has no time.

example:
  python -m launch.bench attention --lengths 64,512,2048 --json attention.json"""


def add_attention(commands) -> argparse.ArgumentParser:
    """Adds the command and its arguments."""
    parser = commands.add_parser(
        "attention", help="attention with its gradient: time and memory", description=ATTENTION
    )
    add = parser.add_argument
    parser.set_defaults(measure=measure_attention)

    # The sizes, by default those of the paper's base model.
    default = "16,32,64,128,256,512,1024,2048,4096"
    text = f"tokens in a sequence ({default})"
    add("--lengths", type=lengths, default=lengths(default), metavar="T,T,...", help=text)
    for flag, number, meaning in (
        ("--heads", 8, "heads"),
        ("--head_size", 64, "size of a head's queries, keys and values"),
        ("--window", 11, "tokens in the window, odd"),
        ("--head_window", 3, "heads in the area of the 2D forms, odd"),
        ("--batch", 1, "sequences"),
    ):
        text = f"{meaning} ({number})"
        add(flag, type=positive, default=number, metavar="N", help=text)
    text = f"timed rounds ({ROUNDS[0]} to {ROUNDS[1]}, as fit in {SECONDS_A_LENGTH:.0f} s a length)"
    add("--repeats", type=positive, metavar="N", help=text)
    return parser


def lengths(text: str) -> list[int]:
    """Argument type: positive integers, separated by commas."""
    return [positive(part.strip()) for part in text.split(",")]


def measure_attention(args: argparse.Namespace) -> list[Row]:
    """A row for each length and form."""
    from launch.bench.forms import attention_forms, measure_length

    forms = attention_forms(args)
    return [row for length in args.lengths for row in measure_length(args, forms, length)]

"""Compiles a training step for absent TPUs and GPUs: memory, arithmetic and times.

A topology is CHIP:SHAPE, the devices of a slice of TPUs (v5e:4x4, v5p:2x2x1) or the number of GPUs
(h100:8; eight a machine). It needs the extra `tpu` or `cuda`, but no such device. A shape gives the
sizes of a batch: its rows, then lengths (source and target for translation, passage and question
for reading, the texts for classification; packed batches have rows only). Without --shape, each
shape of the prepared corpus is planned.

Memory and collectives are the compiler's exact numbers. The rest is an estimate: each time is at
the maker's peak rate, a GPU's kernels are chosen without timing, and bytes accessed, by XLA's cost
analysis, include a GPU's cache and a TPU's on-chip memory, and the body of a loop once.

example:
  python -m launch.plan --config configs/csan/wmt14_ende.py:big --topology v5e:4x4 --shape 512,32,32
  python -m launch.plan --config configs/csan/wmt14_ende.py --topology h100:8 --shape 3072,64,64
"""

import argparse
import os
import re
import sys

from common_jax.errors import UserError
from common_jax.io.atomic import write_json, writing
from launch.arguments import Parser, add_config, output_file
from launch.cli import command_line, configure_logging, run
from launch.measure.chips import CHIPS, GIB
from launch.plan.topology import ENVIRONMENT, topology, topology_devices
from launch.text_table import table

_LESS_MEMORY = "fewer rows, train.accumulate, mesh.fsdp over more devices or bfloat16 need less"


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.plan", description=__doc__)
    add_config(parser, "set a field: --config.mesh.fsdp=4")
    add = parser.add_argument
    add(
        "--topology",
        required=True,
        metavar="CHIP:SHAPE,...",
        type=lambda text: [topology(entry) for entry in text.split(",")],
        help=f"{' | '.join(CHIPS)}, each with a shape",
    )
    text = "sizes of a batch; may be repeated"
    add("--shape", action="append", metavar="N,N,...", type=_sizes, help=text)
    add("--json", type=output_file, metavar="FILE", help="also write the numbers to FILE")
    args, overrides = parser.parse_known_args(argv)

    # the task and the shapes of its batches
    os.environ |= ENVIRONMENT
    configure_logging()
    from launch.api.configs import config
    from launch.plan.compile import batch_dims, compile_plan, prepared_shapes

    task = config(args.config, overrides).make_task()
    dims = batch_dims(task)
    shapes = args.shape or prepared_shapes(task)
    for shape in shapes:
        if len(shape) != len(dims):
            raise UserError(
                f"--shape {','.join(map(str, shape))}: a batch has {len(dims)} sizes, "
                f"{','.join(dims)}"
            )

    # a plan of each, for each topology
    plans = []
    for name in args.topology:
        devices = topology_devices(name)
        plans += [compile_plan(task, name, devices, shape) for shape in shapes]

    # their table, and what it has no columns for
    print(table([plan.cells for plan in plans]))
    for plan in plans:
        if plan.loops:
            print(f"{plan.label}: {plan.loops} loops, whose bytes accessed count once")
        for collective in plan.collectives:
            print(
                f"{plan.label}: {collective.count} {collective.kind} over "
                f"{' x '.join(collective.axes)}, {collective.bytes / 1e6:,.1f} MB"
            )
    if args.json:
        report = {"command": command_line("plan", argv), "rows": [plan.row for plan in plans]}
        with writing(args.json):
            write_json(args.json, report)

    # status 1 for steps that do not fit
    too_large = [plan for plan in plans if not plan.fits]
    for plan in too_large:
        print(
            f"{plan.label}: does not fit: {sum(plan.memory_bytes.values()) / GIB:.1f} GiB a device"
            f", which has {plan.chip.memory / GIB:.1f}; {_LESS_MEMORY}",
            file=sys.stderr,
        )
    if too_large:
        sys.exit(1)


def _sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d{0,8}(,[1-9]\d{0,8})*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: write sizes above 0, such as 512,32,32")
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    run(main)

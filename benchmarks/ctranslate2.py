"""`python -m benchmarks.ctranslate2`: a run's translator, by this suite and by CTranslate2."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import SUITE, Side, arguments, compare, translations
from benchmarks.workers.suite import trained
from launch.cli import run

DESCRIPTION = """Times the translation of a run's test set, greedy and with a beam of 4, without a
length penalty: by XLA, and by CTranslate2 with the same parameters, in float32 and int8, with one
batch on two threads and with two batches on one thread each. Needs the extra ctranslate2.

example:
  python -m launch.train --config configs/csan/multi30k.py:transformer \\
    --config.data.dir=DATA/multi30k
  python -m benchmarks.ctranslate2 --data DATA --run runs/csan/multi30k-transformer"""
UNEQUAL = (
    "The suite computes the batches of its final evaluation, in their fixed shapes, one or two at "
    "a time; CTranslate2 gets all sentences in one call, sorts them and makes batches of 64.",
    "CTranslate2 drops each finished sentence from its batch; the suite continues with half of the "
    "rows, then with an eighth, when no more sentences are open.",
    "The suite limits each translation by its own source's length, CTranslate2 all by the longest.",
    "First pass: the suite compiles each shape, CTranslate2 does not compile.",
    "For one or two sentences at a time CTranslate2's int8 was slower here than its float32: the "
    "factor beside it is not reliable.",
    "In int8, sums of CTranslate2 may saturate on a processor without AVX-512, which changes more "
    "translations.",
    "Parameters: those of the run, for all sides.",
)


def main(argv: list[str]) -> None:
    parser = arguments(DESCRIPTION)
    parser.add_argument("--run", type=Path, required=True, help="trained run of a Transformer")
    args = parser.parse_args(argv)
    task, params = trained(str(args.run))
    task.prepare()
    batches = [*task.split_batches("test").epoch(0)]
    job = {"run": str(args.run), "length_penalty": 0.0}
    job["extra_length"] = task.config.decode.extra_length
    with tempfile.TemporaryDirectory() as folder:
        sides = _sides(Path(folder), task, params)
        compare(args, "ctranslate2", sides, translations(batches, job), UNEQUAL)


def _sides(folder: Path, task: Any, params: Any) -> list[Side]:
    from csan_jax import engine

    pieces = task.data.target_subwords.size
    for dtype in ("float32", "int8"):
        engine.write(task.model.config, params, folder / dtype, dtype, pieces)
    import jax

    size = sum(leaf.size for leaf in jax.tree.leaves(params))

    def peer(dtype: str, inter: int, intra: int) -> Side:
        job = {
            "model": str(folder / dtype),
            "inter_threads": inter,
            "intra_threads": intra,
            "parameters": size,
            "pieces": max(pieces, task.data.source_subwords.size),
        }
        return Side(f"CTranslate2, {dtype}, {inter} x {intra}", Path(sys.executable), "engine", job)

    python = Path(sys.executable)
    return [
        Side(SUITE, python, "suite", {"at_once": 2}),
        Side(f"{SUITE}, one batch at a time", python, "suite"),
        *(peer(dtype, *threads) for dtype in ("float32", "int8") for threads in ((1, 2), (2, 1))),
    ]


if __name__ == "__main__":
    run(main)

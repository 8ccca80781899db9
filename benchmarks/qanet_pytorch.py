"""`python -m benchmarks.qanet_pytorch`: QANet of this suite and one in PyTorch, on SQuAD."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import (
    FIRST_PASS,
    TORCH,
    Measure,
    Side,
    arguments,
    compare,
    eager_and_compiled,
    environment,
    first_batches,
    require_checkout,
    suite,
)
from benchmarks.workers.suite import task_of
from common_jax.data.batches import Batch
from launch.cli import run

REPOSITORY = "https://github.com/BangLiu/QANet-PyTorch"
COMMIT = "0ce11ca1494c6c30d61c0bf2b78907fe27369962"
DESCRIPTION = f"""Times training steps and predictions of QANet and of {REPOSITORY} at
{COMMIT[:12]}: d 128, 8 heads, seven blocks, characters of 64 dimensions, batches of 32 of SQuAD,
grouped by length and padded to 400 + 50 words.

example:
  python -m benchmarks.qanet_pytorch --checkout QANet-PyTorch --data DATA"""
BATCHES = 6
LENGTHS = {"context": 400, "question": 50}
SIZES = {"dim": 128, "heads": 8, "char_dim": 64, "word_dim": 50}
UNEQUAL = (
    "The peer adds position encodings at each block. It applies dropout to inputs of sub-layers, "
    "attention weights, in the highway network and to outputs; the suite to embeddings and to each "
    "sub-layer's output. Both have stochastic depth.",
    "The suite's answers include the search for the best span, the peer's are logits.",
    "The peer looks up word vectors on the device, the suite reads them from host memory.",
    "The peer's highway network has the width of the model, the suite's that of words and "
    "characters together.",
    "The suite computes a batch in eight parts, the peer in one, which needs more memory; the "
    "suite unrolls the loops over blocks.",
    FIRST_PASS,
)


def main(argv: list[str]) -> None:
    args = arguments(DESCRIPTION, ["checkout"]).parse_args(argv)
    require_checkout(args.checkout, COMMIT)

    # Batches at the lengths of SQuAD, and one padded to the program's fixed lengths.
    config = "configs/qanet/squad.py"
    overrides = settings(args.data)
    batches = first_batches(task_of(config, overrides), BATCHES)
    words = 1 + max(int(batch["context"].max()) for batch in batches)
    fixed = [padded(batches[0])]
    python = environment(args.environments / "qanet_pytorch", TORCH)
    measures = [
        Measure("training, SQuAD's lengths", "train", batches),
        Measure("answers, SQuAD's lengths", "answer", batches, passes=2),
        Measure("training, 32 x 400", "train", fixed, passes=2),
        Measure("answers, 32 x 400", "answer", fixed, passes=4),
    ]

    # The program of QANet-PyTorch, eager and compiled, beside the suite.
    job = {"checkout": str(args.checkout.absolute()), "words": words, **SIZES}
    peers = eager_and_compiled(Side("PyTorch", python, "qanet_pytorch", job))
    sides = [suite(config, overrides), *peers]
    compare(args, "qanet_pytorch", sides, measures, UNEQUAL)


def settings(data: Path) -> dict[str, Any]:
    """Overrides of the config."""
    return {
        "train.compute_dtype": "float32",
        "train.accumulate": 8,  # parts of a batch, which fit a CPU's cache
        "model.unroll": True,
        "model.final_norm": False,
        "data.dir": data / "squad",
        "data.vectors": data / "glove" / "glove.6B.50d.top9163.txt.gz",
        "data.batch_size": 32,
        "words.dim": SIZES["word_dim"],
        "model.char_dim": SIZES["char_dim"],
    }


def padded(batch: Batch) -> Batch:
    """The batch with texts of the full length: their words, repeated."""
    result = dict(batch)
    for name, array in batch.items():
        if length := LENGTHS.get(name.partition("_")[0]):
            repeated = np.resize(array.swapaxes(0, 1), (length, len(array), *array.shape[2:]))
            result[name] = np.ascontiguousarray(repeated.swapaxes(0, 1))
    return result


if __name__ == "__main__":
    run(main)

"""`python -m benchmarks.joeynmt`: training a Transformer beside Joey NMT, on Multi30k."""

import gzip
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import (
    Measure,
    Side,
    arguments,
    compare,
    environment,
    first_batches,
    ours,
)
from benchmarks.workers.ours import task_of
from common_jax.io.atomic import replace_text
from launch.cli import run

VERSION = "2.3.0"
DESCRIPTION = f"""Times training steps of a Transformer, En-De, beside Joey NMT {VERSION}: 3 + 3
layers of 256, three-way tied embeddings of the same 8,000 pieces, some 1,000 real target tokens a
step in each side's own batches.

example:
  python -m benchmarks.joeynmt --data DATA"""
CONFIG, BATCHES = "configs/csan/multi30k.py:transformer", 60
PACKAGES = (
    *("torch==2.13.0", "numpy==1.26.4", "setuptools==80.9.0", "importlib_metadata==8.7.0"),
    *("sentencepiece==0.2.0", f"joeynmt=={VERSION}"),
)
UNEQUAL = (
    "Batches are each side's own, of some 1,000 real target tokens: Joey NMT pads pairs of any "
    "length to the longest, ours buckets or packs them by length.",
    "First passes: ours compiles each shape, the peer does not compile.",
)


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(DESCRIPTION).parse_args(argv)
    corpus = args.data / "multi30k"
    overrides = {"data.dir": corpus, "data.batch_tokens": 1024}
    task = task_of(CONFIG, overrides)
    batches, counted = first_batches(task, BATCHES), ("source", "target")
    python = environment(args.environments / "joeynmt", PACKAGES)
    measures = [Measure("training", "train", batches, counted=counted)]
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "folder": f"{folder}/model",
            "train": f"{folder}/train",
            "items": BATCHES,
            "batch_tokens": 2048,
            **written(Path(folder), corpus, task),
        }
        sides = [ours(CONFIG, overrides), Side("Joey NMT", python, "joey", job)]
        compare(args, "joeynmt", sides, measures, UNEQUAL)


def written(folder: Path, corpus: Path, task: Any) -> dict[str, str]:
    """Writes the text and our pieces as Joey NMT reads them: the fields of its job."""
    for language in ("en", "de"):
        plain, packed = corpus / f"train.{language}", corpus / f"train.{language}.gz"
        text = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
        (folder / f"train.{language}").write_bytes(text)
    task.data.write_vocabulary(folder)
    (model,) = folder.glob("*.model")
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    special = ("<unk>", "<pad>", "<s>", "</s>")
    names = [*special, *(name for name in names if name not in special)]
    replace_text(folder / "vocabulary.txt", "\n".join(names) + "\n")
    return {"vocabulary": str(folder / "vocabulary.txt"), "sentencepiece": str(model)}


if __name__ == "__main__":
    run(main)

"""`python -m benchmarks.joeynmt`: a Transformer of this suite and of Joey NMT, on Multi30k."""

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import (
    Measure,
    Side,
    arguments,
    compare,
    environment,
    first_batches,
    suite,
    translations,
)
from benchmarks.workers.suite import task_of, trained
from common_jax.io.atomic import replace_text
from launch.cli import run

VERSION = "2.3.0"
CONFIG = "configs/csan/multi30k.py:transformer"
BATCHES = 60
SIZES = {
    "model.dim": 256,
    "model.mlp_dim": 1024,
    "model.num_heads": 4,
    "model.encoder_layers": 3,
    "model.decoder_layers": 3,
    "model.dropout": 0.1,
    "data.batch_tokens": 1024,
}
MAX_PIECES = 1000  # of a translation
DESCRIPTION = f"""Times a Transformer, En-De, of this suite and of Joey NMT {VERSION}: 3 + 3 layers
of 256, three-way tied embeddings of the same 8,000 pieces. Training: about 1,000 real target tokens
a step, in each side's own batches. With --run also translation of the test set, greedy and with a
beam of 4, with the same batches and parameters.

example:
  python -m launch.train --config {CONFIG} --config.data.dir=DATA/multi30k \\
    {" ".join(f"--config.{field}={value}" for field, value in SIZES.items())}
  python -m benchmarks.joeynmt --data DATA --run runs/csan/multi30k-transformer"""
PACKAGES = (
    *("torch==2.13.0", "numpy==1.26.4", "setuptools==80.9.0", "importlib_metadata==8.7.0"),
    *("sentencepiece==0.2.0", f"joeynmt=={VERSION}"),
)
UNEQUAL = (
    "Each side has its own batches of about 1,000 real target tokens: Joey NMT pads pairs of any "
    "length to the longest, the suite groups or packs them by length.",
    "Joey NMT also applies dropout to attention weights and in feed-forward layers, the suite to "
    "embeddings and sub-layers alone.",
    "Joey NMT's search computes all earlier positions again at each step, the suite keeps their "
    "keys and values; Joey NMT limits the length by the batch's longest source.",
    "Translation: Joey NMT's vocabulary has a start symbol, here with the zeros that the suite "
    "starts with; the suite ends a sentence when no open hypothesis can be better.",
    "Tokens are of both languages.",
    "First pass: the suite compiles each shape, the peer does not compile.",
)


def main(argv: list[str]) -> None:
    parser = arguments(DESCRIPTION)
    parser.add_argument("--run", type=Path, help=f"trained run of {CONFIG}")
    args = parser.parse_args(argv)

    # Batches of the suite, which Joey NMT reads too.
    corpus = args.data / "multi30k"
    overrides = {"data.dir": corpus, **SIZES}
    task = task_of(CONFIG, overrides)
    batches = first_batches(task, BATCHES)
    counted = ("source", "target")
    python = environment(args.environments / "joeynmt", PACKAGES)

    # Training, and with a trained run also its translations.
    measures = [Measure("training", "train", batches, counted=counted)]
    with tempfile.TemporaryDirectory() as folder:
        if args.run is not None:
            measures += of_run(args.run, Path(folder) / "parameters.npz")
        job = {
            "folder": f"{folder}/model",
            "train": f"{folder}/train",
            "items": BATCHES,
            "batch_tokens": 2048,
            "sizes": {field.removeprefix("model."): size for field, size in SIZES.items()},
            **write_data(Path(folder), corpus, task),
        }
        sides = [suite(CONFIG, overrides), Side("Joey NMT", python, "joey", job)]
        compare(args, "joeynmt", sides, measures, UNEQUAL)


def of_run(run: Path, parameters: Path) -> list[Measure]:
    """Measures of greedy search and beam search on the run's test set.

    Writes the run's parameters by name to the file `parameters`.
    """
    from common_jax.io.parameters import named_parameters
    from common_jax.layers import sinusoids

    task, values = trained(str(run))
    task.prepare()
    arrays: dict[str, Any] = {n: np.asarray(array) for n, array in named_parameters(values).items()}
    np.savez(parameters, **arrays, positions=sinusoids(MAX_PIECES, task.model.config.dim))
    batches = [*task.split_batches("test").epoch(0)]
    decode = task.config.decode
    job = {
        "run": str(run),
        "parameters": str(parameters),
        "length_penalty": decode.length_penalty,
        "extra_length": decode.extra_length,
    }
    return translations(batches, job)


def write_data(folder: Path, corpus: Path, task: Any) -> dict[str, Any]:
    """Writes the text and the suite's pieces in Joey NMT's formats; returns fields of its job."""
    for language in ("en", "de"):
        plain = corpus / f"train.{language}"
        packed = corpus / f"train.{language}.gz"
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
    id_of = {name: number for number, name in enumerate(names)}
    ids = [id_of[pieces.id_to_piece(n)] for n in range(pieces.get_piece_size())]
    return {
        "vocabulary": str(folder / "vocabulary.txt"),
        "sentencepiece": str(model),
        "ids": ids,  # in Joey NMT's vocabulary, by the suite's ids
    }


if __name__ == "__main__":
    run(main)

"""Makes invalid files, and damaged copies of runs and exports."""

import functools
import gzip
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from common_jax.io import checksums

DEEP = "[" * 100_000

Make = Callable[[Path, Path], None]  # arguments: the folder of the mistake, and that of the runs


def nothing(here: Path, runs: Path) -> None:
    """A mistake that needs no file."""


def files(**contents: str | bytes) -> Make:
    """Writes files; in their names "_" stands for ".", "__" for "/"."""

    def make(here: Path, runs: Path) -> None:
        for name, content in contents.items():
            path = here / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def damaged(source: str, change: Callable[[Path], object]) -> Make:
    """Copies a run or an export to `run`, and changes the copy."""

    def make(here: Path, runs: Path) -> None:
        change(shutil.copytree(runs / source, here / "run"))

    return make


def text(name: str, content: str | bytes) -> Callable[[Path], object]:
    """Replaces the content of a file."""
    data = content if isinstance(content, bytes) else content.encode()

    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)

    return change


def score(**values: object) -> Callable[[Path], object]:
    """Writes scores of the split test, and the predictions that a report reads too."""

    def change(folder: Path) -> None:
        text("eval/test.json", json.dumps(values))(folder)
        text("eval/test.predictions.tsv", "gold\tlabel\n")(folder)

    return change


def values(name: str, **changes: object) -> Callable[[Path], object]:
    """Replaces values in a JSON file; "__" separates nested keys."""

    def change(folder: Path) -> None:
        saved = json.loads((folder / name).read_text())
        for key, value in changes.items():
            *above, last = key.split("__")
            functools.reduce(dict.__getitem__, above, saved)[last] = value
        (folder / name).write_text(json.dumps(saved))

    return change


def sealed(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """Makes a change and updates the checksums."""

    def forged(folder: Path) -> None:
        change(folder)
        (folder / checksums.NAME).unlink()
        checksums.seal(folder)

    return forged


def listed(name: str) -> Callable[[Path], object]:
    """Adds another file to the checksums, and updates their own."""

    def forged(folder: Path) -> None:
        path = folder / checksums.NAME
        saved = json.loads(path.read_text())["files"] | {name: {"bytes": 1, "sha256": "x"}}
        path.write_text(json.dumps({"files": saved, "sha256": checksums._digest(saved)}))

    return forged


def tensors(header: object, behind: int = 12) -> Callable[[Path], object]:
    """Writes parameters.safetensors with the given header, and updates the checksums."""
    encoded = json.dumps(header).encode()
    return sealed(
        text("parameters.safetensors", struct.pack("<Q", len(encoded)) + encoded + bytes(behind))
    )


def tensor(shape: int, *offsets: int) -> dict[str, object]:
    return {"dtype": "F32", "shape": [shape], "data_offsets": offsets}


def bomb(name: str) -> Make:
    """Writes a small file that unpacks to one line of 300 MB."""
    return lambda here, runs: (here / name).write_bytes(gzip.compress(bytes(300_000_000), 1))


def zipped(*names: str) -> Make:
    def make(here: Path, runs: Path) -> None:
        with zipfile.ZipFile(here / "v.zip", "w") as archive:
            for name in names:
                archive.writestr(name, "a 1 2\n")

    return make


def squad(**changes: object) -> str:
    """A file in SQuAD's format with one question."""
    question = {"id": "1", "question": "q", "answers": [{"text": "b", "answer_start": 2}]}
    questions = [question | changes] * (2 if changes.pop("twice", False) else 1)
    return json.dumps({"data": [{"paragraphs": [{"context": "a b c", "qas": questions}]}]})


def trivia(name: str) -> Make:
    """A file of TriviaQA's release with one question, about the page `name`."""
    answer = {"Value": "b", "Aliases": ["b"], "NormalizedAliases": ["b"]}
    question = {"QuestionId": "1", "Question": "q", "Answer": answer}
    data = json.dumps({"Data": [{**question, "EntityPages": [{"Filename": name}]}]})
    questions = {"qa__t_json": data, "qa__d_json": data}
    return files(**questions, evidence__wikipedia__x_txt="a b c", secret_txt="b")


def flipped(path):
    """Flips one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

"""The three families' own files, tiny configs and lines, and a run of each, trained once a session.

A test has a run by the fixture `tiny` of conftest.py, in a folder of its own:
`tiny("csan", tmp_path)` copies the files, the prepared corpus and the run.
"""

import contextlib
import dataclasses
import fcntl
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from attconv_jax.data.synthetic import generate as generate_pairs
from common_jax.text.squad import write_squad
from launch.export import __main__ as export
from launch.train import __main__ as train
from qanet_jax.data.synthetic import generate
from tests.launch import commands
from tests.launch.tiny_runs import EVERY_STEP, TINY

WORDS = ["green", "blue", "house", "garden", "dog", "cat", "sleeps", "runs", "in", "on", "the", "a"]
SIZES = {"train": 60, "dev": 12, "test": 12}  # examples by split
STEPS = EVERY_STEP["train.steps"]


@dataclasses.dataclass(frozen=True)
class Family:
    """A family's tiny runs on files of its own.

    Attributes:
      write: writes the files of all splits to a folder; another number gives other examples.
      fields: those in which the tiny config differs from the quickstart.
      test: the name of the test split's files, as `--data` takes it.
      vocabulary: a file of the run's vocabulary.
      metrics: of a split.
      lines: two lines that a predictor answers.
      programs: options of the export.
    """

    name: str
    write: Callable[[Path, int], None]
    fields: dict[str, object]
    test: str
    vocabulary: str
    metrics: tuple[str, ...]
    lines: tuple[str, str]
    programs: tuple[str, ...] = ()

    def written(self, folder: Path, first: int = 0) -> Path:
        """A folder, made if it is not there, with the files."""
        folder.mkdir(exist_ok=True)
        self.write(folder, first)
        return folder

    def arguments(
        self, folder: Path, run: str = "run", config: str = "", **changes: object
    ) -> list[str]:
        """Arguments of `launch.train` for a run on the folder's files, by the quickstart's config
        or another."""
        ending = self.test.removeprefix("test")
        values = {f"data.{split}": f"{split}{ending}" for split in SIZES}
        values |= {
            **EVERY_STEP,
            **TINY[self.name],
            "data.source": "files",
            **self.fields,
            **changes,
        }
        config = config or f"configs/{self.name}/quickstart.py"
        return commands.arguments(config, folder, run, **values)


def sentences(count: int, first: int = 0) -> list[str]:
    """Distinct sentences of six words."""
    words = lambda n: (WORDS[(n // len(WORDS) ** place + place) % len(WORDS)] for place in range(6))
    return [" ".join(words(number)) for number in range(first, first + count)]


def _write_translations(folder: Path, first: int) -> None:
    for split, count in SIZES.items():
        source = sentences(count, first)
        target = [" ".join(reversed(line.upper().split())) for line in source]
        for language, lines in (("en", source), ("de", target)):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))


def _write_questions(folder: Path, first: int) -> None:
    for split, count in SIZES.items():
        write_squad(folder / f"{split}.json", generate(count, first, split))


def _write_pairs(folder: Path, first: int) -> None:
    """With a fourth column, which is not read."""
    for split, count in SIZES.items():
        rows = generate_pairs(count, first, split)
        lines = (f"{label}\t{premise}\t{text}\tmore\n" for premise, text, label in rows)
        (folder / f"{split}.tsv").write_text("".join(lines))


def _question(number: int, text: str) -> str:
    return json.dumps({"id": number, "context": "Ada has nine cats.", "question": text})


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "csan",
            _write_translations,
            {
                "data.source_language": "en",
                "data.target_language": "de",
                "data.vocab_size": 310,
            },
            test="test",
            vocabulary="joint.model",
            metrics=("sacrebleu", "chrf", "tokenized_bleu", "nll"),
            lines=("The train leaves at noon.", "Three cats and a dog"),
            programs=("--beam_size", "2", "--beam_size", "1"),
        ),
        Family(
            "qanet",
            _write_questions,
            {"words.rows": 60},
            test="test.json",
            vocabulary="lexicon.json",
            metrics=("exact_match", "f1", "nll"),
            lines=(_question(0, "How many?"), _question(1, "Who has cats?")),
        ),
        Family(
            "attconv",
            _write_pairs,
            {"words.rows": 90, "data.columns": "1,2,3"},
            test="test.tsv",
            vocabulary="lexicon.json",
            metrics=("accuracy", "nll"),
            lines=("a cat\ta dog", "the dog sits\ta cat sits"),
        ),
    )
}


@contextlib.contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """Whether this process makes the folder; others of the session wait until it has done so."""
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.with_name(f"{folder.name}.done")
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
        yield not done.exists()
        done.touch()


class TinyRuns:
    """Trains and exports each family's tiny run once for all processes of a session of tests."""

    def __init__(self, shared: Path):
        self._shared = shared

    def __call__(self, family: str, folder: Path) -> Path:
        """Copies the family's files and prepared corpus and `run` to a folder; returns it."""
        source = self._shared / family
        with made_once(source) as makes, _printing_nothing():
            if makes:
                FAMILIES[family].written(source)
                train.main(FAMILIES[family].arguments(source))
        shutil.copytree(source, folder, dirs_exist_ok=True, symlinks=True)
        config = folder / "run" / "config.json"
        config.write_text(config.read_text().replace(str(source), str(folder)))
        return folder

    def exported(self, family: str, folder: Path) -> Path:
        """Copies an export of the family's tiny run to a folder; returns it."""
        source = self._shared / f"{family}-export"
        with made_once(source) as makes, _printing_nothing():
            if makes:
                run = self(family, source.with_suffix(".run")) / "run"
                export.main(
                    ["--workdir", str(run), "--out", str(source), *FAMILIES[family].programs]
                )
        return shutil.copytree(source, folder)


@contextlib.contextmanager
def _printing_nothing() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield

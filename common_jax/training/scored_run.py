"""Reads the scores of a run, for evaluations and reports."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from common_jax.errors import UserError
from common_jax.io.files import read_lines
from common_jax.io.json_files import Node, parse_json, read_json
from common_jax.io.paths import AnyPath
from common_jax.training.example_results import Results, read_tsv
from common_jax.training.run_folder import (
    ERRORS,
    EXAMPLES,
    REFERENCES,
    RESULT,
    SOURCES,
    RunFolder,
    require_same_data,
)

_PREDICTIONS = ".predictions.*"


class ScoredRun(RunFolder):
    """The folder of a run, with its scores.

    Methods raise a UserError for a file that is missing or damaged.
    """

    def require_data(self, task: Any, splits: Iterable[str]) -> None:
        """Raises UserError if prepared splits of the run's task are not those with which it was
        trained."""
        recorded = self.data_digests()
        if recorded is None:
            return
        starts = tuple(f"{split}/" for split in splits)
        current, wanted = (
            {name: digest for name, digest in digests.items() if name.startswith(starts)}
            for digests in (task.data_digests(), recorded)
        )
        owner = f"{self.path} was trained with"
        advice = "score others with --data"
        require_same_data(current, wanted, owner, task, advice)

    def is_scored(self, split: str) -> bool:
        """Whether there are scores of a split."""
        return self._split_file(split, ".json").exists()

    def scores(self, split: str) -> Node:
        """A split's metrics and notes (`common_jax.training.task.Scores`)."""
        file = self._split_file(split, ".json")
        if not file.exists():
            raise UserError(f"{file}: not there; score {split} of that run first")
        node = read_json(file)
        if type(node.value) is not dict:
            raise UserError(f"{file}: no scores; score {split} of that run again")
        return node

    def example_results(self, split: str) -> Results | None:
        """`common_jax.training.task.Scores.results`; None if there are none, as in older runs."""
        file = self._split_file(split, EXAMPLES)
        return read_tsv(file) if file.exists() else None

    def errors(self, split: str) -> list[dict[str, Any]]:
        """`common_jax.training.task.Scores.errors`; empty if there are none, as in older runs."""
        file = self._split_file(split, ERRORS)
        lines = enumerate(read_lines(file), start=1) if file.exists() else ()
        return [parse_json(line, f"{file}:{number}").value for number, line in lines]

    def predictions_file(self, split: str, format: str) -> AnyPath:
        """The file of a split's predictions in a format of `Scores.predictions`."""
        return self._split_file(split, f".predictions.{format}")

    def predictions(self, split: str, format: str) -> list[str]:
        """The lines of `predictions_file`."""
        return list(read_lines(self.predictions_file(split, format)))

    def references(self, split: str) -> list[str]:
        """The references of a split's predictions."""
        return list(read_lines(self._split_file(split, REFERENCES)))

    def sources(self, split: str) -> list[str] | None:
        """The inputs of a split's predictions; None if there are none, as in older runs."""
        file = self._split_file(split, SOURCES)
        return list(read_lines(file)) if file.exists() else None

    def texts(self, split: str, predictions: bool) -> dict[str, str]:
        """The contents of the result, the log, all scores, and the results of a split's examples,
        by file name.

        Args:
          predictions: whether to add the split's predictions, references and sources.
        """
        texts = [f"eval/{split}{ending}" for ending in (_PREDICTIONS, REFERENCES, SOURCES)]
        patterns = (RESULT, self.metrics_file.name, "eval/*.json", f"eval/{split}{EXAMPLES}")
        files = {file for pattern in patterns for file in self.path.glob(pattern)}
        files -= {*self.path.glob(f"eval/*{_PREDICTIONS}")}
        files |= {file for pattern in texts * predictions for file in self.path.glob(pattern)}
        return {f.relative_to(self.path).as_posix(): f.read_text("utf-8") for f in sorted(files)}


def not_finite(lines: Sequence[Mapping[str, Any]]) -> str:
    """The steps of a log that were not applied: "4 of 5 steps not finite", or ""."""
    bad = sum(line.get("bad_steps", 0) for line in lines)
    taken = max((line["step"] for line in lines), default=0)
    return f"{bad:,} of {taken:,} steps not finite" if bad else ""


def has_texts(names: Sequence[str], split: str, predictions: bool) -> bool:
    """Whether names of `RunFolder.texts` include a split's results, and if wanted predictions."""
    wanted = [EXAMPLES, _PREDICTIONS] if predictions else [EXAMPLES]
    return all(fnmatch.filter(names, f"eval/{split}{ending}") for ending in wanted)


def scores_name(
    split: str, average: int = 1, decoding: Mapping[str, int | float] | None = None
) -> str:
    """The name of a split's scores with the mean of `average` checkpoints and with options of
    decoding, such as test-average5-length_penalty0."""
    averaged = f"{split}-average{average}" if average > 1 else split
    return averaged + "".join(f"-{k}{value:g}" for k, value in sorted((decoding or {}).items()))


def devices(result: Mapping[str, Any]) -> str:
    """The devices of a result's run, as in "8 NVIDIA H100"."""
    names = result.get("devices", [])
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "?"

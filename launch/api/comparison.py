"""Comparisons of runs."""

import functools
from collections.abc import Sequence

from common_jax.compare import Paired, evaluation_of, read_runs
from common_jax.compare import Run as ComparedRun
from common_jax.document import Report
from common_jax.errors import UserError
from common_jax.io.atomic import replace_text, writing
from common_jax.io.paths import AnyPath, as_path
from launch.api.messages import messages
from launch.api.runs import Folder
from launch.pages import html, markdown
from launch.pages.runs import report


class Comparison:
    """A comparison of runs: in a notebook, the page of `launch.report` without its examples.

    Attributes:
      runs: with their labels, a baseline first.
      split: of the paired tests; None is the task's last.
    """

    def __init__(self, runs: Sequence[ComparedRun], split: str | None = None):
        self.runs = runs
        self.split = split
        _ = self._summary  # reports errors early

    @functools.cached_property
    def _summary(self) -> Report:
        with messages():
            return report(self.runs, self.split, examples=False)

    @functools.cached_property
    def report(self) -> Report:
        """The page, with examples and pictures of attention, which need the runs' checkpoints."""
        with messages():
            return report(self.runs, self.split)

    @functools.cached_property
    def differences(self) -> dict[str, Paired]:
        """The paired tests of each later run against the first, by label.

        Raises:
          IncomparableError: for a run of other examples.
          UserError: for a run of another task, or without scores of the split.
        """
        first, *later = self.runs
        split = self.split or first.task.splits[-1]
        for run in later:
            if type(run.task) is not type(first.task):
                raise UserError(f"{run.label}: a run of another task than {first.label}")
        evaluations = [evaluation_of(run, split) for run in self.runs]
        for evaluation in evaluations:
            evaluation.require()
        baseline, *compared = evaluations
        return {evaluation.run.label: evaluation.paired(baseline) for evaluation in compared}

    def write(self, file: Folder, form: str | None = None) -> None:
        """Writes the page: Markdown for form "md" or a name that ends with .md, else HTML."""
        write_page(as_path(file), self.report, form)

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(run.label for run in self.runs)}"

    def _repr_html_(self) -> str:
        return html.to_fragment(self._summary.sections)


def write_page(
    path: AnyPath, page: Report, form: str | None = None, every: float | None = None
) -> None:
    """Writes a page: Markdown for form "md" or a name that ends with .md, else HTML, which reloads
    itself `every` so many seconds if that is not None."""
    with writing(path):
        if (form or path.suffix) in ("md", ".md"):
            markdown.write(path, page)
        else:
            replace_text(path, html.to_html(page, every))


def compare(*runs: Folder, split: str | None = None) -> Comparison:
    """Compares runs: settings, scores with intervals, learning, and paired tests against the first.

    Args:
      *runs: their folders, a baseline first.
      split: of the paired tests; None is the task's last.

    Raises:
      UserError: for a folder that is not a run's, or is given twice, or a split that no run has.
    """
    if not runs:
        raise UserError("compare: name a run")
    return Comparison(read_runs([as_path(run) for run in runs]), split)

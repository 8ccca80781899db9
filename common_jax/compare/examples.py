"""Examples of a split in a report: those where runs differ most, and pictures of one."""

import textwrap
from collections.abc import Mapping, Sequence

from common_jax.compare.comparison import Comparison, Example, comparison_of
from common_jax.compare.runs import NoCorpusError, Run
from common_jax.deploy import load
from common_jax.errors import UserError
from common_jax.report.document import Cell, Part, Section, Table

_DIFFERING = 3  # examples of a table
_CANDIDATES = 50  # first examples, of which the one with the shortest input is drawn
_DRAWN = 2  # runs
_LONGEST = 300  # letters of a text

Predictions = Mapping[Run, Sequence[Example]]


def examples(runs: Sequence[Run], split: str) -> list[Section]:
    """Sections on the examples where the runs differ most, and with pictures of a short example.

    Args:
      runs: of one task, all scored on the split.

    Raises:
      UserError: as `Comparison.predictions`, but for texts that cannot be read.
    """
    comparison = comparison_of(type(runs[0].task))
    try:
        predictions = {run: comparison.predictions(run, split) for run in runs}
    except NoCorpusError as error:
        return [Section(f"examples of {split}", [f"Not shown without the corpus: {error}"])]
    drawn: list[Part] = []
    known = [(n, one) for n, one in enumerate(predictions[runs[0]][:_CANDIDATES]) if one.line]
    if known:
        number, one = min(known, key=lambda pair: len(pair[1].line))
        drawn = [f"Example {number} of {split}: {_short(one.text)} (reference: {one.reference})"]
        answers = [_drawn(comparison, run, one) for run in runs[:_DRAWN]]
        drawn += [text for text, _ in answers]
        drawn += [picture for _, pictures in answers for picture in pictures]
    return [
        Section(f"examples of {split} that differ most", differing(comparison, predictions)),
        Section(f"pictures of an example of {split}", drawn),
    ]


def differing(comparison: type[Comparison], predictions: Predictions) -> list[Part]:
    """A table of the examples with the largest differences of scores between runs, if there are
    any, side by side. Runs with other references than the first are left out."""
    references = [[one.reference for one in own] for own in predictions.values()]
    each = {
        run: own
        for (run, own), of_run in zip(predictions.items(), references, strict=True)
        if of_run == references[0]
    }
    ranked = []
    for number, row in enumerate(zip(*each.values(), strict=True)):
        scores = [one.score for one in row]
        if len({one.prediction for one in row}) > 1:
            ranked.append((min(scores) - max(scores), number, row))
    chosen = sorted(ranked, key=lambda one: one[:2])[:_DIFFERING]
    if not chosen:
        return []
    known = any(row[0].text for _, _, row in chosen)
    rows: list[list[Cell]] = [
        [str(number), *([_short(row[0].text)] if known else ()), row[0].reference,
         *(f"{one.prediction or '-'} ({one.score:.1f})" for one in row)]
        for _, number, row in chosen
    ]  # fmt: skip
    head = ("example", *(["input"] if known else ()), "reference", *(run.label for run in each))
    note = (
        f"The examples, counted from 0, whose {comparison.example_score}, in brackets, differs "
        "most between the runs."
    )
    return [Table(head, rows, note)]


def _drawn(comparison: type[Comparison], run: Run, example: Example) -> tuple[str, Sequence[Part]]:
    """A run's answer for an example, and the pictures of its attention."""
    try:
        (answer,) = load(run.workdir.path, explain=True).predict([example.line])
    except UserError as error:  # such as no checkpoint, in an archived run
        return f"{run.label}: no picture: {error}", []
    text, pictures = comparison.pictured(answer, run.label, example.line, example.span)
    return f"{run.label}: {text}", pictures


def _short(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")

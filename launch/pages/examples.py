"""Examples of a split in a report: those where runs differ most, and pictures of one."""

import textwrap
from collections.abc import Sequence

from common_jax.compare.evaluation import Evaluation, ScoredExample
from common_jax.compare.runs import NoCorpusError
from common_jax.document import Cell, Element, Section, Table
from common_jax.errors import UserError

_DIFFERING = 3  # examples of a table
_CANDIDATES = 50  # first examples, of which the one with the shortest input is drawn
_DRAWN = 2  # runs
_LONGEST = 300  # letters of a text


def example_sections(evaluations: Sequence[Evaluation]) -> list[Section]:
    """Sections on the examples where runs differ most, and with attention maps of a short one.

    Args:
      evaluations: of one task on one split.

    Raises:
      UserError: as `Evaluation.predictions`, but for texts that cannot be read.
    """
    # Examples of the first run, and where runs differ; both need the corpus.
    split = evaluations[0].split
    try:
        differing_most = differing(evaluations)
        first = list(enumerate(evaluations[0].predictions[:_CANDIDATES]))
    except NoCorpusError as error:
        return [Section(f"examples of {split}", [f"Not shown without the corpus: {error}"])]

    # The shortest of these with its inputs, as each run answers it.
    drawn: list[Element] = []
    known = [(number, example) for number, example in first if example.line]
    if known:
        number, example = min(known, key=lambda pair: len(pair[1].line))
        text = _short(example.text)
        reference = example.reference
        drawn = [f"Example {number} of {split}: {text} (reference: {reference})"]
        answers = [_drawn(evaluation, example) for evaluation in evaluations[:_DRAWN]]
        drawn += [text for text, _ in answers]
        drawn += [picture for _, pictures in answers for picture in pictures]

    return [
        Section(f"examples of {split} that differ most", differing_most),
        Section(f"pictures of an example of {split}", drawn),
    ]


def differing(evaluations: Sequence[Evaluation]) -> list[Element]:
    """A table of the examples whose scores differ most between runs, if any. Runs with other
    references than the first are left out.

    Raises:
      UserError: as `Evaluation.predictions`.
    """
    # The runs with the references of the first.
    references = [[example.reference for example in e.predictions] for e in evaluations]
    compared = [
        evaluation
        for evaluation, texts in zip(evaluations, references, strict=True)
        if texts == references[0]
    ]

    # The examples with different predictions, by the gap between best and worst score.
    ranked = []
    for number, row in enumerate(zip(*(e.predictions for e in compared), strict=True)):
        scores = [example.score for example in row]
        if len({example.prediction for example in row}) > 1:
            ranked.append((min(scores) - max(scores), number, row))
    chosen = sorted(ranked, key=lambda rank: rank[:2])[:_DIFFERING]
    if not chosen:
        return []

    # Inputs have a column unless no run knows them.
    known = any(row[0].text for _, _, row in chosen)
    rows: list[list[Cell]] = [
        [str(number), *([_short(row[0].text)] if known else ()), row[0].reference,
         *(f"{example.prediction or '-'} ({example.score:.1f})" for example in row)]
        for _, number, row in chosen
    ]  # fmt: skip
    labels = [evaluation.run.label for evaluation in compared]
    head = ("example", *(["input"] if known else ()), "reference", *labels)
    note = (
        f"The examples, counted from 0, whose {evaluations[0].example_score}, in brackets, differs "
        "most between the runs."
    )
    return [Table(head, rows, note)]


def _drawn(evaluation: Evaluation, example: ScoredExample) -> tuple[str, Sequence[Element]]:
    """A run's answer for an example, and the pictures of its attention."""
    from common_jax.deploy import load

    run = evaluation.run
    try:
        (answer,) = load(run.workdir.path, explain=True).predict([example.line])
    except UserError as error:  # such as no checkpoint, in an archived run
        return f"{run.label}: no picture: {error}", []
    text, pictures = evaluation.pictured(answer.line, run.label, example.line, example.span)
    return f"{run.label}: {text}", pictures


def _short(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" …")

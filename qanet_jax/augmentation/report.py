"""Report on augmented passages: counts, similarities of relocated answers, and examples."""

from collections.abc import Sequence

from common_jax.document import Cell, Chart, Report, Section, Series, Table
from qanet_jax.augmentation.augment import CURVE, Augmented, Counts

_EXAMPLES = 50


def report(augmented: Augmented, threshold: float, command: str) -> Report:
    """The report; `command` is the command line that made the passages."""
    counts = augmented.counts
    numbers: list[list[Cell]] = [[name, count] for name, count in counts.events.items()]
    sections = [Section("Counts", [f"Made by: {command}", Table(("", "number"), numbers)])]
    if counts.scores:
        sections.append(Section("Similarity of relocated answers", [_curve(counts, threshold)]))
    if augmented.replacements:
        sections.append(Section("Relocated answers", [_examples(augmented)]))
    return Report("Augmented passages", sections)


def _curve(counts: Counts, threshold: float) -> Chart:
    total = counts.events["of sentences with answers"]
    shares = [
        100 * sum(n for score, n in counts.scores.items() if score >= edge) / total
        for edge in CURVE
    ]
    return Chart(
        title="paraphrases with all answers located",
        x_label="least similarity (Dice, character 2-grams)",
        y_label="% of paraphrases with answers",
        series=[Series("", CURVE, shares)],
        form="lines",
        note=f"{total:,} paraphrases of sentences with answers; --threshold {threshold:g}.",
    )


def _examples(augmented: Augmented) -> Table:
    every = augmented.replacements
    step = max(1, len(every) // _EXAMPLES)
    rows: Sequence[Sequence[Cell]] = [
        (r.original, r.paraphrase, *r.answers, r.score) for r in every[::step][:_EXAMPLES]
    ]
    head = ("sentence", "paraphrase", "answer", "relocated answer", "similarity")
    return Table(head, rows, "A sample at equal distances in the list of new passages.")

"""Simulated pages: how often the rule decides a claim wrongly, and how often rightly.

A page is that of CSAN's Table 1: its 24 claims on ten rows, most of them with the Transformer,
1D-CSAN or 2D-CSAN in common. A value is row + seed + trial: the luck of a seed is a share of the
variance of a row that all rows have in common; the deviation of one row's trials can be eight times
the others'.
`python -m tests.nightly.launch.simulation` writes docs/results/rule.json, and rule.md of it.
"""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from common_jax.document import markdown_table
from launch.reproduce.evidence import FALSE_RATE, Trials
from launch.reproduce.verdict import benjamini_hochberg

FILE = Path(__file__).parents[3] / "docs" / "results" / "rule.json"
TRANSFORMER, FIRST, ONE, TWO = 0, 1, 8, 9  # FIRST to 7 are the seven other systems
ROWS = 10
OTHERS = range(FIRST, ONE)
CLAIMS = [
    *((row, TRANSFORMER) for row in range(FIRST, ROWS)),
    *((ONE, row) for row in OTHERS),
    *((TWO, row) for row in OTHERS),
    (TWO, ONE),
]
SEEDS = {"2": [2] * ROWS, "3": [3] * ROWS, "5": [5] * ROWS, "8": [8] * ROWS,
         "3 and 8": [8, *[3] * 7, 8, 8]}  # fmt: skip
LUCK = (0.0, 0.5, 0.8, 0.95)
NOISY = {"equal": None, "noisy system": 4, "noisy Transformer": TRANSFORMER}
# means of the rows, in standard deviations of a row times `EFFECT` over the root of the seeds
EFFECTS = {
    "all": [0.0] * ROWS,
    "a third": [0.0, 0, 0, 0, 1, 1, 2, 2, 1, 1],  # 8 of 24
    "none": [0.0, 1, 1, 1, -1, -1, 3, 3, 2, 4],
}
EFFECT = 2.5


@dataclasses.dataclass(frozen=True)
class Cell:
    """What a page is simulated with.

    Attributes:
      zero: the share of the claims without an effect, of `EFFECTS`.
      example_error: of the difference of two rows, in standard errors of a row's mean.
    """

    seeds: str
    luck: float
    deviations: str
    zero: str
    example_error: float = 0.0

    @property
    def paired(self) -> bool:
        """Whether a page is paired whose common seeds correlate so."""
        return self.luck > 0.5


def cells() -> list[Cell]:
    grid = itertools.product(SEEDS, LUCK, NOISY, EFFECTS)
    return [
        *itertools.starmap(Cell, grid),
        *(Cell(seeds, luck, "equal", "all", 1.0) for seeds in SEEDS for luck in (0.0, 0.8)),
    ]


def simulated(cell: Cell, draws: int) -> dict[str, float]:
    """Shares of decided claims over pages."""
    random = np.random.default_rng(7)
    counts = SEEDS[cell.seeds]
    most, least = max(counts), min(counts)

    # values of the trials
    deviations = np.ones(ROWS)
    if (noisy := NOISY[cell.deviations]) is not None:
        deviations[noisy] = 8.0
    means = np.array(EFFECTS[cell.zero]) * EFFECT / np.sqrt(least)
    values = np.sqrt(cell.luck) * random.normal(size=(draws, 1, most))
    noise = random.normal(size=(draws, ROWS, most)) * deviations[:, None]
    values = values + np.sqrt(1 - cell.luck) * noise + means[:, None]
    of_examples = cell.example_error / np.sqrt(2 * least)
    values += random.normal(size=(draws, ROWS, 1)) * of_examples
    for row, count in enumerate(counts):
        values[:, row, count:] = np.nan

    trials = Trials(values)
    error = of_examples * np.sqrt(2)

    # claims: by the interval alone, then by the page's correction
    signs = {}
    p = np.ones((draws, len(CLAIMS)))
    for name, pairs in (("before", False), ("after", cell.paired)):
        signs[name] = np.zeros((draws, len(CLAIMS)))
        for number, (first, second) in enumerate(CLAIMS):
            evidence = trials.difference(first, second, paired=pairs, example_error=error)
            low, high = evidence.interval()
            signs[name][:, number] = (low > 0) * 1.0 - (high < 0)
            if name == "after":
                p[:, number] = evidence.p()
    signs["corrected"] = signs["after"] * (benjamini_hochberg(p) <= FALSE_RATE)

    truth = np.sign([means[first] - means[second] for first, second in CLAIMS])
    zero = truth == 0
    result = {}
    for name, decided in signs.items():
        wrong = (decided != 0) & (decided != truth)
        if zero.any():
            share = max((decided[:, zero] == sign).mean(0).max() for sign in (-1, 1))
            result[f"false_{name}"] = float(share)
        if not zero.all():
            result[f"power_{name}"] = float((decided == truth)[:, ~zero].mean())
        discoveries = np.maximum((decided != 0).sum(1), 1)
        result[f"false_discoveries_{name}"] = float((wrong.sum(1) / discoveries).mean())
    return result


def page(stored: dict[str, Any]) -> str:
    """The page of the stored shares: the largest of errors over the shares of claims without an
    effect, and the power beside that of unpaired intervals."""
    groups: dict[tuple[Any, ...], dict[str, dict[str, float]]] = {}
    for line in stored["cells"]:
        key = tuple(line[name] for name in ("seeds", "luck", "deviations", "example_error"))
        groups.setdefault(key, {})[line["zero"]] = line
    rows = []
    for (seeds, luck, deviations, error), lines in groups.items():
        worst = lambda name, lines=lines: max(line.get(name, 0.0) for line in lines.values())
        cells = [f"{seeds}, {luck}, {deviations}{', with noise of examples' if error else ''}"]
        names = ("false_after", "false_corrected", "false_discoveries_corrected")
        cells += [f"{worst(name):.3f}" for name in names]
        for zero in ("a third", "none"):
            names = ("power_before", "power_after", "power_corrected")
            cells += [f"{lines[zero][n]:.3f}" if zero in lines else "-" for n in names]
        rows.append(cells)
    head = ["seeds, shared luck, deviations", "false by the interval", "false", "false of a page",
            "a third: unpaired", "paired as set", "corrected",
            "none: unpaired", "paired as set", "corrected"]  # fmt: skip
    return f"""# How often the rule of the verdicts errs

Simulated pages with 24 claims of CSAN's Table 1, most of which have the Transformer, 1D-CSAN
or 2D-CSAN in common: the seeds of each row ("3 and 8" of other rows and of these), the share of a
row's variance that is its seeds' luck, which all rows have in common, and whether the trials of
one row, a system or the Transformer, deviate eight times as much. A page with a share above a half
is paired, the others are not.

False is the largest share, over the claims without an effect and both directions, that is decided
by the interval alone, or also by the page's correction; of a page, the mean share of decided
claims that are wrong; both are the largest where all, a third and none of the claims have no
effect. Then the share of claims with an effect that is decided rightly, where a third or none of
the claims has no effect: by unpaired intervals, as before pairing, by intervals of a page that is
paired as its file sets it, and with the correction. Not simulated: a metric or a plan of seeds that
was chosen after trials, which the pages name, and judging by later seeds alone.
{stored["draws"]:,} pages each, made by `python -m tests.nightly.launch.simulation`.

<!-- raw: rule.json -->

{markdown_table(head, rows)}
"""


if __name__ == "__main__":
    DRAWS = 10_000
    LINES = [{**dataclasses.asdict(cell), "paired": cell.paired, **simulated(cell, DRAWS)}
             for cell in cells()]  # fmt: skip
    STORED = {"draws": DRAWS, "cells": LINES}
    FILE.write_text(json.dumps(STORED, indent=1) + "\n")
    FILE.with_suffix(".md").write_text(page(STORED))

"""Verdicts on a table's claims."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from common_jax.compare import IncomparableError
from common_jax.training.identity import SEED
from launch.reproduce.results import TableResults
from launch.reproduce.table_file import HOURS, Claim
from launch.reproduce.verdict import Verdict, judge

RULE = (
    "A claim that A is better than B is confirmed if the 95 % interval of the mean difference over "
    "the seeds is above 0, contradicted if it is below 0, and otherwise undecidable; that A is "
    "comparable with B, if the interval is within the bounds, or outside of them. The interval has "
    "the noise of the seeds (Student's t) and of the examples; with one seed, that of the examples "
    "alone, and the claim is undecidable. A ratio of speeds is judged by its "
    "logarithm in several rounds of timing. A claim on several metrics must hold for all; the one "
    "with the lowest interval is shown. Each verdict holds at 95 % by itself, so that among many "
    "some are wrong by chance. Detectable is the true difference that is confirmed with a "
    "probability of 80 % under this noise; of comparable systems, the bound."
)


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim and its verdict, as cells; without numbers if it cannot be judged.

    Attributes:
      decision: "confirmed", "contradicted", or "undecidable" with the reason.
    """

    claim: Claim
    decision: str
    difference: str = ""
    detectable: str = ""


def judged(results: TableResults) -> list[Judged]:
    """The verdicts on the claims of a scale."""
    return [_judged(results, claim) for claim in results.scale.claims]


def _judged(results: TableResults, claim: Claim) -> Judged:
    for row in results.scale.rows:
        if row.missing and row.name in (claim.row, claim.than):
            return Judged(claim, f"undecidable: {row.name} has no runs here")
    if claim.relation == "equal":
        first, second = results.parameters(claim.row), results.parameters(claim.than)
        if first is None or second is None:
            return Judged(claim, "undecidable: finished runs of both rows are needed")
        decision = "confirmed" if first == second else "contradicted"
        return Judged(claim, decision, f"{first - second:+,}")
    try:
        verdicts = [_verdict(results, claim, metric) for metric in claim.metrics]
    except IncomparableError as reason:
        return Judged(claim, f"undecidable: {reason}")
    decisions = [verdict.decision for verdict in verdicts]
    shown = min(verdicts, key=lambda verdict: verdict.low)
    wrong = "contradicted" if "contradicted" in decisions else "undecidable"
    decision = "confirmed" if {*decisions} == {"confirmed"} else wrong

    def written(value: float) -> str:
        is_ratio = claim.relation == "ratio"
        return f"{claim.factor * math.exp(value):.2f} times" if is_ratio else f"{value:+.2f}"

    if not math.isfinite(shown.low):
        half = shown.example_half_width
        bounds = f"{written(shown.mean - half)} to {written(shown.mean + half)} by the examples; "
        return Judged(claim, decision, f"{written(shown.mean)} ({bounds if half else ''}one seed)")
    interval = f"{written(shown.mean)} ({written(shown.low)} to {written(shown.high)})"
    if HOURS in claim.metrics and results.unreached(claim.row):
        interval = f"at least {interval}"
    return Judged(claim, decision, interval, written(shown.detectable).removeprefix("+"))


def _verdict(results: TableResults, claim: Claim, metric: str) -> Verdict:
    """Raises IncomparableError if runs are missing or their examples differ."""
    first, second = (results.values(row, metric) for row in (claim.row, claim.than))
    if claim.relation == "ratio":
        if not first or not second:
            raise IncomparableError("no speeds were measured")
        return speed_ratio(first, second, claim.factor)
    at_least = results.unreached(claim.row) if metric == HOURS else {}
    first |= at_least
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        raise IncomparableError(f"{metric} of both rows with the same seed is needed")
    error = 0.0
    if metric != HOURS:
        evaluation, baseline = (
            results.evaluation(next(t for t, _ in results.of(row) if t.values[SEED] == seeds[0]))
            for row in (claim.row, claim.than)
        )
        error = evaluation.example_error(baseline, metric)
    differences = np.array([first[seed] - second[seed] for seed in seeds])
    verdict = judge(differences, error, claim.within or None)
    if at_least and verdict.decision == "contradicted":
        raise IncomparableError(f"{claim.row} does not reach the target")
    return verdict


def speed_ratio(
    speeds: Mapping[int, float], baseline: Mapping[int, float], factor: float = 1.0
) -> Verdict:
    """The logarithm of a ratio of speeds, relative to `factor`, over the rounds."""
    ratios = [math.log(speeds[number] / baseline[number] / factor) for number in speeds]
    return judge(np.array(ratios))

"""Verdicts on a table's claims."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from common_jax.compare import IncomparableError
from common_jax.metrics.seeds import Deviation, pooled_deviation
from launch.reproduce.results import TableResults
from launch.reproduce.table_file import HOURS, MEASURED, SPEEDS, Claim
from launch.reproduce.verdict import Verdict, judge

RULE = (
    "A claim that A is better than B is confirmed if the 95 % interval of the difference of the "
    "means over the seeds is above 0, contradicted if it is below 0, and otherwise undecidable; "
    "that A is comparable with B, if the interval is within the bounds, or outside of them. The "
    "interval has the noise of the seeds (Student's t) and of the examples. The deviation over "
    "seeds is pooled over all rows; an interval is not narrower than the 90 % interval of its two "
    "rows alone (Welch). If both rows have five seeds or more, it is the 95 % interval of these "
    "two rows alone. With one seed a claim is undecidable. A ratio of speeds is judged by its "
    "logarithm in several rounds of timing. Detectable is the true difference that is confirmed "
    "with a probability of 80 % under this noise; of comparable systems, the bound."
)
BY_CHANCE = 0.025  # of claims without an effect are confirmed


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim and its verdict, as cells; without numbers if it cannot be judged.

    Attributes:
      decision: "confirmed", "contradicted", or "undecidable" or "not judged" with the reason.
      published: the paper's difference or ratio.
    """

    claim: Claim
    decision: str
    difference: str = ""
    detectable: str = ""
    published: str = ""


class _NotJudgedError(Exception):
    """The reason why a claim is not judged."""


def judged(results: TableResults) -> list[Judged]:
    """The verdicts on the claims of a scale."""
    return [
        dataclasses.replace(_judged(results, claim), published=_published(results, claim))
        for claim in results.scale.claims
    ]


def rule(results: TableResults, verdicts: Sequence[Judged]) -> str:
    """How the claims were judged: the rule, the deviations, and the share expected by chance."""
    sentences = [RULE]
    for metric in dict.fromkeys(verdict.claim.metric for verdict in verdicts):
        deviation = _deviation(results, metric)
        if metric not in SPEEDS and deviation is not None:
            sentences.append(
                f"Pooled deviation over seeds, {results.spec.columns.get(metric, metric)}: "
                f"{deviation.value:.2f} ({deviation.freedom} degrees of freedom)."
            )
    if not all(row.trained for row in results.scale.rows):
        sentences.append("A row without training has one result, and no deviation.")
    count = sum(verdict.detectable != "" for verdict in verdicts)
    if count > 1:
        sentences.append(
            f"Of {count} claims judged by intervals {BY_CHANCE * count:.1f} would be confirmed by "
            "chance if no two rows differed."
        )
    return " ".join(sentences)


def _published(results: TableResults, claim: Claim) -> str:
    """The paper's difference or ratio, by the claim's metric or else by another of the paper's."""
    first, second = (results.row(name).published for name in (claim.row, claim.than))
    metrics = [claim.metric] if claim.metric in MEASURED else [claim.metric, *first]
    metric = next((metric for metric in metrics if metric in first.keys() & second.keys()), None)
    if metric is None:
        return ""
    if claim.relation == "ratio":
        return f"{first[metric] / second[metric]:.2f} times"
    title = "" if metric == claim.metric else f" {results.spec.columns.get(metric, metric)}"
    return f"{first[metric] - second[metric]:+.2f}{title}"


def _judged(results: TableResults, claim: Claim) -> Judged:
    for row in results.scale.rows:
        needed = (claim.row,) if claim.than_published else (claim.row, claim.than)
        if row.missing and row.name in needed:
            return Judged(claim, f"undecidable: {row.name} has no runs here")
    if claim.relation == "equal":
        first, second = results.parameters(claim.row), results.parameters(claim.than)
        if first is None or second is None:
            return Judged(claim, "undecidable: finished runs of both rows are needed")
        decision = "confirmed" if first == second else "contradicted"
        return Judged(claim, decision, f"{first - second:+,}")
    try:
        verdict, decision = _verdict(results, claim), ""
    except IncomparableError as reason:
        return Judged(claim, f"undecidable: {reason}")
    try:
        decision = _decision(results, claim, verdict)
    except _NotJudgedError as reason:
        decision = f"not judged: {reason}"

    def written(value: float) -> str:
        is_ratio = claim.relation == "ratio"
        return f"{claim.factor * math.exp(value):.2f} times" if is_ratio else f"{value:+.2f}"

    if not math.isfinite(verdict.low):
        half = verdict.example_half_width
        low, high = written(verdict.mean - half), written(verdict.mean + half)
        bounds = f"{low} to {high} by the examples; " if half else ""
        return Judged(claim, decision, f"{written(verdict.mean)} ({bounds}one seed)")
    interval = f"{written(verdict.mean)} ({written(verdict.low)} to {written(verdict.high)})"
    if claim.metric == HOURS and results.unreached(claim.row):
        interval = f"at least {interval}"
    if decision.startswith("not judged"):
        return Judged(claim, decision, interval)
    return Judged(claim, decision, interval, written(verdict.detectable).removeprefix("+"))


def _decision(results: TableResults, claim: Claim, verdict: Verdict) -> str:
    """The decision on a claim; raises _NotJudgedError if its rows cannot decide it."""
    if claim.relation == "ratio" and claim.device not in ("", results.device_kind):
        raise _NotJudgedError(
            f"measured on another kind of device, a {results.device_kind}; the paper's claim is "
            f"on a {claim.device}"
        )
    if claim.relation == "ratio" and results.busy:
        raise _NotJudgedError(f"measured beside other programs, at {results.busy}")
    if claim.metric == HOURS and not results.scale.matched_times:
        raise _NotJudgedError(
            "the readers do not have the sizes of the paper, or learning rates tuned for each"
        )
    half = verdict.example_half_width
    if claim.relation == "comparable" and half >= claim.within:
        raise _NotJudgedError(
            f"the noise of the test set alone is {half:.2f}, above the bound of {claim.within:g}, "
            "whatever the number of seeds"
        )
    if verdict.decision != "undecidable":
        return verdict.decision
    return f"undecidable: {_undecidable_reason(claim, verdict)}"


def _undecidable_reason(claim: Claim, verdict: Verdict) -> str:
    """Why a verdict is undecidable."""
    if claim.relation == "ratio":
        return "too few rounds"
    if not math.isfinite(verdict.low):
        return "one seed"
    distance = abs(verdict.mean) if verdict.within is None else verdict.within - abs(verdict.mean)
    if verdict.example_half_width > abs(distance):
        return "within the noise of the test set"
    return "too few seeds"


def _verdict(results: TableResults, claim: Claim) -> Verdict:
    """Raises IncomparableError if runs are missing or their examples differ."""
    metric = claim.metric
    first = results.values(claim.row, metric)
    if claim.than_published:
        return _published_verdict(results, claim, first)
    second = results.values(claim.than, metric)
    if claim.relation == "ratio":
        if not first or not second:
            raise IncomparableError("no speeds were measured")
        return speed_ratio(first, second, claim.factor)
    at_least = results.unreached(claim.row) if metric == HOURS else {}
    first |= at_least
    for row, found in ((claim.row, first), (claim.than, second)):
        if not found:
            raise IncomparableError(f"{row} has no {metric} here")
    if metric == HOURS and results.unreached(claim.than):
        raise IncomparableError(f"not all runs of {claim.than} reach the target")
    error = 0.0 if metric == HOURS else results.example_error(claim.row, claim.than, metric)
    values, others = [*first.values()], [*second.values()]
    deviation, within = _deviation(results, metric), claim.within or None
    if all(results.row(name).trained for name in (claim.row, claim.than)):
        verdict = judge(values, others, deviation, error, within)
    else:  # one of the two has a single result, without noise of seeds
        differences = [value - other for value in values for other in others]
        verdict = judge(differences, None, deviation, error, within)
    if at_least and verdict.decision == "contradicted":
        raise IncomparableError(f"{claim.row} does not reach the target")
    return verdict


def _published_verdict(results: TableResults, claim: Claim, values: Mapping[int, float]) -> Verdict:
    """The verdict beside the paper's number, which has no interval."""
    published = {row.name: row.published for row in results.scale.rows}[claim.than]
    if not values or claim.metric not in published:
        raise IncomparableError(f"{claim.metric} of {claim.row}, and the paper's, are needed")
    differences = [value - published[claim.metric] for value in values.values()]
    error = results.example_error(claim.row, None, claim.metric)
    deviation, within = _deviation(results, claim.metric), claim.within or None
    return judge(differences, None, deviation, error, within)


def _deviation(results: TableResults, metric: str) -> Deviation | None:
    """The deviation of a metric over seeds, pooled over all rows that are trained."""
    rows = [results.values(row.name, metric) for row in results.scale.made if row.trained]
    return pooled_deviation([[*values.values()] for values in rows if values])


def speed_ratio(
    speeds: Mapping[int, float], baseline: Mapping[int, float], factor: float = 1.0
) -> Verdict:
    """The logarithm of a ratio of speeds, relative to `factor`, over the rounds."""
    return judge([math.log(speeds[number] / baseline[number] / factor) for number in speeds])

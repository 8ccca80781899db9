"""Verdicts on a table's claims."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from common_jax.compare import IncomparableError
from launch.reproduce.evidence import FALSE_RATE, Evidence, Trials
from launch.reproduce.results import TableResults
from launch.reproduce.table_file import HOURS, MEASURED, PARAMETERS, SPEEDS, Claim, Scale
from launch.reproduce.verdict import Verdict, benjamini_hochberg, holm, judge

WORDS = {"holds": "holds here", "fails": "does not hold here"}
AWAITS = "awaits new seeds"


class Estimate(NamedTuple):
    """A difference A - B by a metric, or a ratio A / B of speeds.

    Attributes:
      low, high: the ends of its 95 % interval; infinite with one seed.
      example_half_width: half the width of the 95 % interval with the noise of the examples only.
      is_bound: whether the value is a lower bound, of hours.
    """

    metric: str
    mean: float
    low: float = -math.inf
    high: float = math.inf
    example_half_width: float = 0.0
    is_bound: bool = False

    @property
    def has_interval(self) -> bool:
        """Whether there are two seeds or more."""
        return math.isfinite(self.low)

    @property
    def is_ratio(self) -> bool:
        """Whether it is a ratio."""
        return self.metric in SPEEDS


class Judged(NamedTuple):
    """A claim and its verdict; without numbers if it cannot be judged.

    Attributes:
      decision: "holds here", "does not hold here", perhaps provisional, "awaits new seeds", or
        "open" or "not judged" with the reason.
      estimate: by the claim's metric.
      published: the paper's, by the claim's metric or else by another of the paper's.
      beside: by other metrics.
      of_all_seeds: that of all seeds, where the later ones alone judge the claim.
      seeds: of the row, and of the other row: the finished ones, and the planned.
      later: of both rows, the number of later seeds, where they alone judge the claim.
      detectable: as of `Verdict`; a ratio for a claim on a ratio.
      p: of the page's family; None if the claim takes no part.
      holm: whether Holm's correction keeps it, too.
    """

    claim: Claim
    decision: str
    estimate: Estimate | None = None
    published: Estimate | None = None
    beside: Sequence[Estimate] = ()
    of_all_seeds: Estimate | None = None
    seeds: Sequence[tuple[int, int]] = ()
    later: Sequence[int] = ()
    detectable: float | None = None
    p: float | None = None
    holm: bool | None = None

    @property
    def state(self) -> str:
        """The decision without its reason."""
        return state_of(self.decision)


def state_of(decision: str) -> str:
    """A decision without its reason, as "holds here, provisional"."""
    return decision.partition(":")[0]


def judged(results: TableResults) -> list[Judged]:
    """The verdicts on the claims of a scale, those on speeds a family of their own."""
    verdicts = [_judged(results, claim) for claim in results.scale.claims]

    # The corrections are within a family: the claims with a p on speeds, and the others.
    for ratio in (False, True):
        family = [
            number
            for number, verdict in enumerate(verdicts)
            if verdict.p is not None and (verdict.claim.relation == "ratio") == ratio
        ]
        p = np.array([verdicts[number].p for number in family])
        for number, rate, error in zip(family, benjamini_hochberg(p), holm(p), strict=True):
            verdicts[number] = _corrected(verdicts[number], rate, error)

    # What the paper has of each claim, other metrics, and the seeds.
    return [
        verdict._replace(
            published=published(results.scale, verdict.claim),
            beside=_beside(results, verdict.claim),
            seeds=_seeds(results, verdict.claim),
        )
        for verdict in verdicts
    ]


def _corrected(verdict: Judged, rate: float, error: float) -> Judged:
    """A verdict after the page's correction.

    Args:
      rate: the false discovery rate at which it is decided.
      error: the probability of any false decision at which Holm's correction keeps it.
    """
    if verdict.decision.startswith("open"):
        return verdict
    if rate > FALSE_RATE:
        return verdict._replace(decision="open: does not pass the page's correction")
    return verdict._replace(holm=bool(error <= FALSE_RATE))


def published(scale: Scale, claim: Claim) -> Estimate | None:
    """The paper's difference or ratio, by the claim's metric or else by another of the paper's."""
    first, second = (scale.row(name).published for name in (claim.row, claim.than))
    metrics = [claim.metric] if claim.metric in MEASURED else [claim.metric, *first]
    metric = next((metric for metric in metrics if metric in first.keys() & second.keys()), None)

    # or the paper has only the row's difference from the other
    if metric is None:
        metric = claim.metric
        difference = first.get(f"{metric}_difference")
        if difference is None or metric not in second:
            return None
        first = {metric: second[metric] + difference}

    is_ratio = claim.relation == "ratio"
    value = first[metric] / second[metric] if is_ratio else first[metric] - second[metric]
    return Estimate(metric, value)


def _beside(results: TableResults, claim: Claim) -> list[Estimate]:
    """The differences by the metrics beside that of a claim."""
    estimates = []
    for metric in claim.beside:
        try:
            verdict = _verdict(results, dataclasses.replace(claim, metric=metric))
        except IncomparableError:
            continue
        estimates.append(_estimate(metric, claim, verdict))
    return estimates


def _judged(results: TableResults, claim: Claim) -> Judged:
    """The verdict before the page's correction."""
    needed = _rows(claim)
    for row in results.scale.systems:
        if row.missing and row.name in needed:
            return Judged(claim, f"open: not run: {row.name}")
    if claim.relation == "equal":
        first = results.parameters(claim.row)
        second = results.parameters(claim.than)
        if first is None or second is None:
            return Judged(claim, "open: finished runs of both rows are needed")
        decision = WORDS["holds" if first == second else "fails"]
        return Judged(claim, decision, Estimate(PARAMETERS, first - second))
    try:
        verdict = _verdict(results, claim)
    except IncomparableError as reason:
        return Judged(claim, f"open: {reason}")

    # What the rows cannot decide.
    estimate = _estimate(claim.metric, claim, verdict)
    if claim.metric == HOURS and results.unreached(claim.row):
        estimate = estimate._replace(is_bound=True)
    if obstacle := _obstacle(results, claim, verdict):
        return Judged(claim, f"not judged: {obstacle}", estimate)
    if not estimate.has_interval:
        return Judged(claim, "open: one seed", estimate)

    # What the seeds that were new when the rule was fixed have to decide.
    decision = _decision(claim, verdict)
    of_all_seeds = None
    later_seeds: list[int] = []
    if results.scale.name in claim.awaits and verdict.decision != "open":
        later = _later(results, claim)
        if later is None:
            words = WORDS[verdict.decision].removesuffix(" here")
            decision = f"{AWAITS}: {words} by a rule chosen after the trials"
        else:
            verdict = later
            of_all_seeds = estimate
            later_seeds = [results.later.finished(row) for row in needed]
            estimate = _estimate(claim.metric, claim, later)
            decision = _decision(claim, later)

    if decision in WORDS.values() and (missing := _missing_seeds(results, needed)):
        decision = f"{decision}, provisional: {missing}"
    detectable = verdict.detectable
    if claim.relation == "ratio":
        detectable = claim.factor * math.exp(detectable)
    return Judged(
        claim,
        decision,
        estimate,
        of_all_seeds=of_all_seeds,
        later=later_seeds,
        detectable=detectable,
        p=verdict.p,
    )


def _rows(claim: Claim) -> tuple[str, ...]:
    """The rows whose runs a claim needs."""
    return (claim.row,) if claim.than_published else (claim.row, claim.than)


def _seeds(results: TableResults, claim: Claim) -> list[tuple[int, int]]:
    """The numbers of finished and of planned seeds of each row of a claim on trials."""
    if claim.metric in (PARAMETERS, *SPEEDS):
        return []
    return [(results.finished(row), results.planned(row)) for row in _rows(claim)]


def _estimate(metric: str, claim: Claim, verdict: Verdict) -> Estimate:
    """The numbers of a verdict; of a ratio, not of its logarithm."""
    mean = verdict.mean
    low = verdict.low
    high = verdict.high
    if claim.relation == "ratio":
        mean, low, high = (claim.factor * math.exp(value) for value in (mean, low, high))
    return Estimate(metric, mean, low, high, verdict.example_half_width)


def _later(results: TableResults, claim: Claim) -> Verdict | None:
    """The verdict by the seeds that are new in both rows; None with fewer than two in a row."""
    try:
        verdict = _verdict(results.later, claim)
    except IncomparableError:
        return None
    return verdict if math.isfinite(verdict.low) else None


def _missing_seeds(results: TableResults, rows: Sequence[str]) -> str:
    """The rows with fewer finished seeds than planned."""
    counts = {row: (results.finished(row), results.planned(row)) for row in rows}
    return ", ".join(
        f"{number} of {planned} planned seeds of {row}"
        for row, (number, planned) in counts.items()
        if number < planned
    )


def _obstacle(results: TableResults, claim: Claim, verdict: Verdict) -> str:
    """The reason why the rows cannot decide a claim; "" if they can."""
    # What the table's file, or the device and its load, rule out.
    scale = results.scale
    if reason := claim.not_judged.get(scale.name):
        return reason
    if claim.relation == "ratio" and claim.device not in ("", results.device_kind):
        return (
            f"measured on another kind of device, a {results.device_kind}; the paper's claim is "
            f"on a {claim.device}"
        )
    if claim.relation == "ratio" and results.busy:
        return f"measured beside other programs, at {results.busy}"

    # What no number of seeds can decide.
    if claim.metric == HOURS and not scale.matched_times:
        return "the readers do not have the sizes of the paper, or learning rates tuned for each"
    half = verdict.example_half_width
    if claim.relation == "comparable" and half >= claim.within:
        return (
            f"the noise of the test set alone is {half:.2f}, above the bound of {claim.within:g}, "
            "whatever the number of seeds"
        )
    return ""


def _decision(claim: Claim, verdict: Verdict) -> str:
    """A verdict in words, with the reason why it is open."""
    if verdict.decision != "open":
        return WORDS[verdict.decision]
    if claim.relation == "ratio":
        return "open: too few rounds"
    distance = abs(verdict.mean) if verdict.within is None else verdict.within - abs(verdict.mean)
    if verdict.example_half_width > abs(distance):
        return "open: within the noise of the test set"
    return "open: too few seeds"


def _verdict(results: TableResults, claim: Claim) -> Verdict:
    """Raises IncomparableError if runs are missing or their examples differ."""
    # A ratio of speeds is judged by its rounds.
    metric = claim.metric
    names = [claim.row, claim.than][: 1 if claim.than_published else 2]
    groups = [results.values(name, metric) for name in names]
    if claim.relation == "ratio":
        first, second = groups
        if not first or not second:
            raise IncomparableError("not run: no speeds")
        return speed_ratio(first, second, claim.factor)

    # Runs that do not reach the target take at least their hours.
    at_least = results.unreached(claim.row) if metric == HOURS else {}
    groups[0] |= at_least
    for row, values in zip(names, groups, strict=True):
        if not values:
            has_runs = results.finished(row) > 0
            raise IncomparableError(f"no {metric}: {row}" if has_runs else f"not run: {row}")
    if metric == HOURS and results.unreached(claim.than):
        raise IncomparableError(f"not all runs of {claim.than} reach the target")

    # Such a bound can show that the claim holds, not that it fails.
    verdict = judge(_evidence(results, claim, names, at_least), claim.within or None)
    if at_least and verdict.decision == "fails":
        raise IncomparableError(f"{claim.row} does not reach the target")
    return verdict


def _evidence(
    results: TableResults, claim: Claim, names: Sequence[str], at_least: Mapping[int, float]
) -> Evidence:
    """What the trials show of the difference of a claim's rows, or of one and the paper's number.

    A row without training is a constant, as is the paper's number.
    """
    metric = claim.metric
    seeds, values, pool = results.matrix(metric)
    index = {row.name: number for number, row in enumerate(results.scale.systems)}
    for seed, hours in at_least.items():
        values[0, index[claim.row], seeds.index(seed)] = hours

    # Constants: the mean of a row without training, the paper's number.
    first, *second = names
    trained = [name for name in names if results.scale.row(name).trained]
    constants = [float(np.nanmean(values[0, index[name]])) for name in names if name not in trained]
    if claim.than_published:
        published = results.scale.row(claim.than).published
        if metric not in published:
            raise IncomparableError(f"{metric} of {claim.row}, and the paper's, are needed")
        constants.append(published[metric])

    error = 0.0 if metric == HOURS else results.example_error(first, second, metric)
    options: dict[str, Any] = {"paired": results.scale.paired, "example_error": error}

    # The difference, by which of the rows have deviations over seeds.
    if not trained:
        difference = np.array([constants[0] - constants[1]])
        return Evidence(difference, np.zeros(0, int), np.zeros((0, 1)), None, error)
    if first not in trained:
        trials = Trials(-values, pool)
        return trials.difference(index[second[0]], constant=-constants[0], **options)
    rows = [index[name] for name in trained]
    return Trials(values, pool).difference(*rows, constant=sum(constants), **options)


def speed_ratio(
    speeds: Mapping[int, float], baseline: Mapping[int, float], factor: float = 1.0
) -> Verdict:
    """The logarithm of a ratio of speeds, relative to `factor`, over the rounds."""
    ratios = [math.log(speeds[number] / baseline[number] / factor) for number in speeds]
    return judge(Trials(np.array([[ratios]]), np.array([False])).difference(0))

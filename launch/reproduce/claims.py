"""Verdicts on a table's claims."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common_jax.compare import IncomparableError
from launch.reproduce.evidence import FALSE_RATE, Evidence, Trials
from launch.reproduce.results import TableResults
from launch.reproduce.table_file import HOURS, MEASURED, SPEEDS, Claim
from launch.reproduce.verdict import Verdict, benjamini_hochberg, holm, judge

RULE = (
    "A claim that A is better than B holds here if the 95 % interval of the difference is above 0 "
    "and p passes Benjamini and Hochberg's correction, at 5 %, over the page's claims that have a "
    "p; it does not hold here if the interval is below 0; that A is comparable with B, if the "
    "interval is within the bounds, or outside of them. The interval has the noise of the seeds "
    "(Student's t) and of the examples, that of the mean over all seeds. {pairing} The interval "
    "reaches over the 90 % interval of the two rows alone; with five {seeds} or more it is the "
    "95 % interval of these alone. p is the level at which the interval reaches 0, or the bound. "
    "With one seed a claim is open, and has no p. A ratio of speeds is judged by its logarithm in "
    "several rounds of timing; these claims are corrected apart. Detectable is the true difference "
    "whose interval excludes 0 with a probability of 80 % under this noise; of comparable systems, "
    "the bound. A verdict on fewer seeds than were planned is provisional."
)
PAIRED = (
    "Rows are paired by seed: differences and their deviation are those of an additive model of "
    "rows and seeds."
)
UNPAIRED = "The deviation over seeds is pooled over all rows."
LATER = (
    "What was decided on trials already seen only by this rule, which was chosen after them, "
    "awaits new seeds; it is then judged by the seeds that are new in both rows, alone, beside "
    "which stands the value of all."
)
WORDS = {"holds": "holds here", "fails": "does not hold here"}
AWAITS = "awaits new seeds"
CLAIMS = ("claim", "metric", "paper", "ours", "verdict", "detectable", "p", "Holm", "beside")


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim and its verdict, as cells; without numbers if it cannot be judged.

    Attributes:
      decision: "holds here", "does not hold here", perhaps provisional, "awaits new seeds", or
        "open" or "not judged" with the reason.
      published: the paper's difference or ratio.
      beside: the difference by other metrics.
      p: of the page's family; "" if it takes no part.
      holm: whether Holm's correction keeps it, too.
    """

    claim: Claim
    decision: str
    difference: str = ""
    detectable: str = ""
    published: str = ""
    beside: str = ""
    p: float | None = None
    holm: str = ""


def state(decision: str) -> str:
    """A decision without its reason, as "holds here, provisional"."""
    return decision.partition(":")[0]


def judged(results: TableResults) -> list[Judged]:
    """The verdicts on the claims of a scale, those on speeds a family of their own."""
    verdicts = [_judged(results, claim) for claim in results.scale.claims]
    for ratio in (False, True):
        family = [
            number
            for number, verdict in enumerate(verdicts)
            if verdict.p is not None and (verdict.claim.relation == "ratio") == ratio
        ]
        p = np.array([verdicts[number].p for number in family])
        for number, rate, error in zip(family, benjamini_hochberg(p), holm(p), strict=True):
            verdicts[number] = _corrected(verdicts[number], rate, error)
    return [
        dataclasses.replace(
            verdict,
            published=_published(results, verdict.claim),
            beside="; ".join([*filter(None, [verdict.beside]), *_beside(results, verdict.claim)]),
        )
        for verdict in verdicts
    ]


def rule(results: TableResults, verdicts: Sequence[Judged]) -> str:
    """How the claims were judged: the rule, the deviations, and what the correction keeps."""
    paired = results.scale.paired
    pairing, seeds = (PAIRED, "common seeds") if paired else (UNPAIRED, "seeds")
    sentences = [RULE.format(pairing=pairing, seeds=seeds)]
    for metric in dict.fromkeys(verdict.claim.metric for verdict in verdicts):
        if metric in SPEEDS:
            continue
        _, values, pool = results.matrix(metric)
        deviation = Trials(values, pool).deviation(paired)
        if deviation is not None:
            name = "Residual" if paired else "Pooled"
            sentences.append(
                f"{name} deviation over seeds, {results.spec.columns.get(metric, metric)}: "
                f"{deviation.value:.2f} ({deviation.freedom} degrees of freedom)."
            )
    if not all(row.trained for row in results.scale.rows):
        sentences.append("A row that does not depend on the seed has no deviation.")
    if any(results.scale.name in verdict.claim.awaits for verdict in verdicts):
        sentences.append(LATER)
    for ratio in (False, True):
        family = [v for v in verdicts if v.p is not None and (v.claim.relation == "ratio") == ratio]
        if family:
            passed = sum(verdict.holm == "yes" for verdict in family)
            kept = sum(not verdict.decision.startswith("open") for verdict in family)
            name = "claims on speeds" if ratio else "claims with a p"
            sentences.append(
                f"Of {len(family)} {name} {kept} are decided; {passed} of these also pass Holm's "
                "correction."
            )
    return " ".join(sentences)


def _corrected(verdict: Judged, rate: float, error: float) -> Judged:
    """A verdict after the page's correction.

    Args:
      rate: the false discovery rate at which it is decided.
      error: the probability of any false decision at which Holm's correction keeps it.
    """
    if verdict.decision.startswith("open"):
        return verdict
    if rate > FALSE_RATE:
        return dataclasses.replace(verdict, decision="open: does not pass the page's correction")
    return dataclasses.replace(verdict, holm="yes" if error <= FALSE_RATE else "no")


def _published(results: TableResults, claim: Claim) -> str:
    """The paper's difference or ratio, by the claim's metric or else by another of the paper's."""
    first, second = (results.scale.row(name).published for name in (claim.row, claim.than))
    metrics = [claim.metric] if claim.metric in MEASURED else [claim.metric, *first]
    metric = next((metric for metric in metrics if metric in first.keys() & second.keys()), None)
    if metric is None:
        return ""
    if claim.relation == "ratio":
        return f"{first[metric] / second[metric]:.2f} times"
    title = "" if metric == claim.metric else f" {results.spec.columns.get(metric, metric)}"
    return f"{first[metric] - second[metric]:+.2f}{title}"


def _beside(results: TableResults, claim: Claim) -> list[str]:
    """The differences by the metrics beside that of a claim."""
    found = []
    for metric in claim.beside:
        try:
            verdict = _verdict(results, dataclasses.replace(claim, metric=metric))
        except IncomparableError:
            continue
        title = results.spec.columns.get(metric, metric)
        found.append(f"{title} {_interval(claim, verdict)}")
    return found


def _judged(results: TableResults, claim: Claim) -> Judged:
    """The verdict before the page's correction."""
    needed = (claim.row,) if claim.than_published else (claim.row, claim.than)
    for row in results.scale.rows:
        if row.missing and row.name in needed:
            return Judged(claim, f"open: {row.name} has no runs here")
    if claim.relation == "equal":
        first, second = results.parameters(claim.row), results.parameters(claim.than)
        if first is None or second is None:
            return Judged(claim, "open: finished runs of both rows are needed")
        decision = WORDS["holds" if first == second else "fails"]
        return Judged(claim, decision, f"{first - second:+,}")
    try:
        verdict = _verdict(results, claim)
    except IncomparableError as reason:
        return Judged(claim, f"open: {reason}")
    interval = _interval(claim, verdict)
    if claim.metric == HOURS and results.unreached(claim.row):
        interval = f"at least {interval}"
    if obstacle := _obstacle(results, claim, verdict):
        return Judged(claim, f"not judged: {obstacle}", interval)
    if not math.isfinite(verdict.low):
        return Judged(claim, "open: one seed", interval)
    decision, beside = _decision(claim, verdict), ""
    if results.scale.name in claim.awaits and verdict.decision != "open":
        later = _later(results, claim)
        if later is None:
            words = WORDS[verdict.decision].removesuffix(" here")
            decision = f"{AWAITS}: {words} by a rule chosen after the trials"
        else:
            verdict, beside = later, f"all seeds {interval}"
            interval, decision = _interval(claim, later), _decision(claim, later)
    if decision in WORDS.values() and (missing := _missing_seeds(results, needed)):
        decision = f"{decision}, provisional: {missing}"
    detectable = _written(claim, verdict.detectable).removeprefix("+")
    return Judged(claim, decision, interval, detectable, beside=beside, p=verdict.p)


def _written(claim: Claim, value: float) -> str:
    is_ratio = claim.relation == "ratio"
    return f"{claim.factor * math.exp(value):.2f} times" if is_ratio else f"{value:+.2f}"


def _interval(claim: Claim, verdict: Verdict) -> str:
    """The difference with its interval; with one seed, that of the examples."""
    mean, half = verdict.mean, verdict.example_half_width
    if math.isfinite(verdict.low):
        low, high = verdict.low, verdict.high
        return f"{_written(claim, mean)} ({_written(claim, low)} to {_written(claim, high)})"
    low, high = mean - half, mean + half
    bounds = f"{_written(claim, low)} to {_written(claim, high)} by the examples; " if half else ""
    return f"{_written(claim, mean)} ({bounds}one seed)"


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
    metric, names = claim.metric, [claim.row, claim.than][: 1 if claim.than_published else 2]
    groups = [results.values(name, metric) for name in names]
    if claim.relation == "ratio":
        first, second = groups
        if not first or not second:
            raise IncomparableError("no speeds were measured")
        return speed_ratio(first, second, claim.factor)
    at_least = results.unreached(claim.row) if metric == HOURS else {}
    groups[0] |= at_least
    for row, found in zip(names, groups, strict=True):
        if not found:
            raise IncomparableError(f"{row} has no {metric} here")
    if metric == HOURS and results.unreached(claim.than):
        raise IncomparableError(f"not all runs of {claim.than} reach the target")
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
    index = {row.name: number for number, row in enumerate(results.scale.rows)}
    for seed, hours in at_least.items():
        values[0, index[claim.row], seeds.index(seed)] = hours
    first, *others = names
    trained = [name for name in names if results.scale.row(name).trained]
    constants = [float(np.nanmean(values[0, index[name]])) for name in names if name not in trained]
    if claim.than_published:
        published = results.scale.row(claim.than).published
        if metric not in published:
            raise IncomparableError(f"{metric} of {claim.row}, and the paper's, are needed")
        constants.append(published[metric])
    error = 0.0 if metric == HOURS else results.example_error(first, others, metric)
    options: dict[str, Any] = {"paired": results.scale.paired, "example_error": error}
    if not trained:
        difference = np.array([constants[0] - constants[1]])
        return Evidence(difference, np.zeros(0, int), np.zeros((0, 1)), None, error)
    if first not in trained:
        trials = Trials(-values, pool)
        return trials.difference(index[others[0]], constant=-constants[0], **options)
    rows = [index[name] for name in trained]
    return Trials(values, pool).difference(*rows, constant=sum(constants), **options)


def speed_ratio(
    speeds: Mapping[int, float], baseline: Mapping[int, float], factor: float = 1.0
) -> Verdict:
    """The logarithm of a ratio of speeds, relative to `factor`, over the rounds."""
    ratios = [math.log(speeds[number] / baseline[number] / factor) for number in speeds]
    return judge(Trials(np.array([[ratios]]), np.array([False])).difference(0))

"""The claims of a page as tables, forest plots and CSV, and how they were judged."""

import collections
from collections.abc import Iterable, Mapping, Sequence

from common_jax.document import Cell, Element, Forest, Interval, Table, without_empty
from launch.reproduce.claims import AWAITS, WORDS, Estimate, Judged
from launch.reproduce.evidence import Trials
from launch.reproduce.results import TableResults
from launch.reproduce.table_file import PARAMETERS, SPEEDS
from launch.trials.status import csv_text

RULE = (
    "A claim that A is better than B holds here if the 95 % interval of the difference is above 0 "
    "and p passes Benjamini and Hochberg's correction, at 5 %, over the page's claims that have a "
    "p; it does not hold here if the interval is below 0 and p passes; that A is comparable with "
    "B, if the interval is within the bounds, or outside of them, and p passes. The interval has "
    "the noise of the seeds (Student's t) and of the examples, that of the mean over all seeds. "
    "{pairing} The interval reaches over the 90 % interval of the two rows alone; with five "
    "{seeds} or more it is the 95 % interval of these alone. p is the larger of the levels at "
    "which the pooled interval and that of the two rows alone reach 0, or the bound: with fewer "
    "than five seeds it can be above 5 % where the printed interval excludes 0. With one seed a "
    "claim is open, and has no p. A ratio of speeds is judged by its logarithm in several rounds "
    "of timing; these claims are corrected apart. Detectable is the true difference whose interval "
    "excludes 0 with a probability of 80 % under this noise; of comparable systems, the bound. A "
    "verdict on fewer seeds than were planned is provisional."
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
CSV_HEAD = ("claim", "row", "than", "metric", "use", "published", "published_metric", "mean",
            "low", "high", "here", "verdict", "seeds", "detectable", "p", "holm")  # fmt: skip
_ONE_SEED = " (one seed)"
# values of "use": the claim's metric, or one beside it
JUDGED = "judged"
BESIDE = "beside"


def estimate_text(estimate: Estimate, units: Mapping[str, str]) -> str:
    """An estimate with its unit and its interval, as "+0.97 nats (+0.65 to +1.27)".

    Args:
      units: by metric.
    """
    if estimate.metric == PARAMETERS:
        return f"{estimate.mean:+,.0f}"
    number = "{:.2f}" if estimate.is_ratio else "{:+.2f}"
    unit = "times" if estimate.is_ratio else units.get(estimate.metric, "")
    text = f"{number.format(estimate.mean)} {unit}".strip()
    if estimate.is_bound:
        text = f"at least {text}"
    half = estimate.example_half_width
    if estimate.has_interval:
        return f"{text} ({number.format(estimate.low)} to {number.format(estimate.high)})"
    if half and not estimate.is_ratio:
        low = number.format(estimate.mean - half)
        high = number.format(estimate.mean + half)
        return f"{text} ({low} to {high} by the examples; one seed)"
    return text + _ONE_SEED


def published_text(published: Estimate | None, units: Mapping[str, str]) -> str:
    """The paper's difference or ratio with its unit; "" if it has none."""
    return estimate_text(published, units).removesuffix(_ONE_SEED) if published else ""


def seeds_text(judged: Judged) -> str:
    """The numbers of seeds of both rows, as "8 of 16, 3" or, where later seeds alone judge the
    claim, "8 later of 16, 5 later of 13"; "" for speeds."""
    texts = [
        str(finished) if finished >= planned else f"{finished} of {planned}"
        for finished, planned in judged.seeds
    ]
    if judged.later:
        texts = [f"{n} later of {text}" for n, text in zip(judged.later, texts, strict=True)]
    return ", ".join(texts)


def counts_text(states: Iterable[str]) -> str:
    """The numbers of verdicts, the most frequent first."""
    counts = collections.Counter(states).most_common()
    return ", ".join(f"{state} ({number})" for state, number in counts)


def verdict_elements(results: TableResults, verdicts: Sequence[Judged]) -> list[Element]:
    """The claims with their verdicts, the decided ones first, and a forest plot for each metric."""
    units = results.spec.units
    verdicts = sorted(verdicts, key=_rank)
    rows: list[list[Cell]] = []

    # A row for each claim.
    for verdict in verdicts:
        decision = verdict.state if verdict.state.endswith("provisional") else verdict.decision
        here = estimate_text(verdict.estimate, units) if verdict.estimate else None
        rows.append(
            [
                verdict.claim.text,
                decision,
                here,
                published_text(verdict.published, units) or None,
                seeds_text(verdict) or None,
            ]
        )

    head = ("claim", "verdict", "here", "in the paper", "seeds")
    note = f"{len(verdicts)} claims: {counts_text(verdict.state for verdict in verdicts)}."
    return [note, Table(head, rows), *_forests(results, verdicts)]


def _rank(verdict: Judged) -> int:
    """The order of verdicts: those that are decided first."""
    order = (*WORDS.values(), AWAITS, "open")
    return next((n for n, word in enumerate(order) if verdict.state.startswith(word)), len(order))


def _forests(results: TableResults, verdicts: Sequence[Judged]) -> list[Forest]:
    """For each metric the estimates with an interval, those that judge their claim emphasised."""
    # The estimates with an interval; the paper's number beside those of its unit.
    by_metric: dict[str, list[Interval]] = {}
    units = results.spec.units
    for verdict in verdicts:
        estimates = [verdict.estimate, *verdict.beside] if verdict.estimate else []
        for estimate in estimates:
            if not estimate.has_interval or estimate.is_bound:
                continue
            published = verdict.published
            unit = units.get(estimate.metric, estimate.metric)
            same = published and units.get(published.metric, published.metric) == unit
            interval = Interval(
                f"{verdict.claim.row} {'/' if estimate.is_ratio else '−'} {verdict.claim.than}",
                estimate.mean,
                estimate.low,
                estimate.high,
                published.mean if published and same else None,
                estimate is verdict.estimate,
            )
            by_metric.setdefault(estimate.metric, []).append(interval)

    # Metrics of which an interval judges a claim, or has the paper's number.
    titles = results.spec.columns
    forests = []
    for metric, intervals in by_metric.items():
        if any(interval.emphasised or interval.marked is not None for interval in intervals):
            title = titles.get(metric, metric)
            is_ratio = metric in SPEEDS
            name = f"{'Ratios' if is_ratio else 'Differences'}: {title}"
            unit = "times" if is_ratio else units.get(metric, title)
            forests.append(Forest(name, unit, intervals, is_ratio=is_ratio))
    return forests


def evidence_elements(results: TableResults, verdicts: Sequence[Judged]) -> list[Element]:
    """The rule, and the numbers of each claim that its verdict does not show."""
    units = results.spec.units
    titles = results.spec.columns
    rows: list[list[Cell]] = []

    # A row for each claim that has an estimate.
    for verdict in verdicts:
        if verdict.estimate is None:
            continue
        estimates = [(f"{titles.get(e.metric, e.metric)} ", e) for e in verdict.beside]
        if verdict.of_all_seeds:
            estimates.insert(0, ("all seeds ", verdict.of_all_seeds))
        beside = "; ".join(name + estimate_text(e, units) for name, e in estimates)
        _, _, reason = verdict.decision.partition("provisional: ")
        rows.append(
            [
                verdict.claim.text,
                titles.get(verdict.claim.metric, verdict.claim.metric),
                verdict.detectable,
                None if verdict.p is None else f"{verdict.p:.2g}",
                None if verdict.holm is None else "yes" if verdict.holm else "no",
                beside or None,
                reason or None,
            ]
        )

    head = ("claim", "metric", "detectable", "p", "Holm", "beside", "missing")
    return [rule(results, verdicts), *([Table(*without_empty(head, rows))] if rows else [])]


def rule(results: TableResults, verdicts: Sequence[Judged]) -> str:
    """How the claims were judged: the rule, the deviations, and what the correction keeps."""
    # How seeds are compared, and the deviation of each metric over them.
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

    # What some claims lack.
    if not all(row.trained for row in results.scale.systems):
        sentences.append("A row that does not depend on the seed has no deviation.")
    if any(results.scale.name in verdict.claim.awaits for verdict in verdicts):
        sentences.append(LATER)

    # What Holm's correction keeps of each family of claims.
    for ratio in (False, True):
        family = [v for v in verdicts if v.p is not None and (v.claim.relation == "ratio") == ratio]
        if family:
            passed = sum(verdict.holm or False for verdict in family)
            kept = sum(v.decision.startswith((*WORDS.values(),)) for v in family)
            name = "claims on speeds" if ratio else "claims with a p"
            sentences.append(
                f"Of {len(family)} {name} {kept} are decided; {passed} of these also pass Holm's "
                "correction."
            )
    return " ".join(sentences)


def claims_csv(results: TableResults, verdicts: Sequence[Judged]) -> str:
    """The claims as CSV with the columns of `CSV_HEAD`: a line for the metric that judges a claim,
    and one for each metric beside it. Numbers have six significant digits."""
    units = results.spec.units
    rows = []
    for verdict in verdicts:
        claim = verdict.claim
        published = verdict.published
        shared = (claim.text, claim.row, claim.than)
        paper = (_short(published.mean), published.metric) if published else (None, None)
        cells = (*shared, claim.metric, JUDGED, *paper, *_numbers(verdict.estimate, units),
                 verdict.decision, seeds_text(verdict), _short(verdict.detectable),
                 _short(verdict.p), verdict.holm)  # fmt: skip
        rows.append(cells)
        for estimate in verdict.beside:
            cells = (*shared, estimate.metric, BESIDE, None, None, *_numbers(estimate, units))
            rows.append((*cells, *[None] * (len(CSV_HEAD) - len(cells))))
    return csv_text(CSV_HEAD, [dict(zip(CSV_HEAD, row, strict=True)) for row in rows])


def _numbers(estimate: Estimate | None, units: Mapping[str, str]) -> tuple[str | None, ...]:
    """Mean, low and high, with one seed the mean alone; and all of it as a text."""
    if estimate is None:
        return None, None, None, None
    ends = (estimate.low, estimate.high) if estimate.has_interval else (None, None)
    return (*map(_short, (estimate.mean, *ends)), estimate_text(estimate, units))


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.6g}"

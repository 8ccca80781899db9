"""Comparison of translations of several runs: paired bootstrap, and n-grams (Figure 3)."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from common_jax.compare import Comparison, Example, Paired, Run
from common_jax.errors import UserError
from common_jax.report.document import (
    Cell,
    Chart,
    Heatmap,
    Outline,
    Panel,
    Part,
    Section,
    Series,
    Table,
)
from csan_jax import metrics as translation

_BY_ORDER = tuple(f"bleu_{n}" for n in range(1, 9))  # BLEU of n-grams up to n, unsmoothed
_THIRD = "_longest_third"
_CHARTS = {
    "BLEU-n": "BLEU of n-grams up to n, with the brevity penalty.",
    "precision of n-grams": "Of n-grams of exactly n words.",
}


class TranslationComparison(Comparison):
    """Paired bootstrap of BLEU and chrF, paired t-test of the sentences' nll, and scores by n-gram
    order (Figure 3)."""

    tests = (
        "sacreBLEU's paired bootstrap of BLEU and chrF (1,000 resamples); of the nll, in nats a "
        "sentence, the paired t-test over sentences."
    )

    findings: ClassVar[Mapping[str, str]] = {
        "model.token_window": "The paper (section 5.1, Figure 2a, validation of WMT14 En-De): of "
        "1D-CSAN's windows 11 is the best.",
        "model.head_window": "The paper (Figure 2b): at a window of 11, attending to more than one "
        "head is better than to one, and to many is worse.",
    }

    example_score = "chrF of the sentence"
    needs_corpus = False

    metrics = (
        *_BY_ORDER,
        *("log_likelihood", f"log_likelihood{_THIRD}", f"sacrebleu{_THIRD}"),
    )

    @classmethod
    def further(cls, run: Run, split: str) -> Mapping[str, float]:
        """BLEU of n-grams up to n, from the notes of `Task.score`; the mean log-likelihood of a
        sentence, in nats, and that and BLEU of the third of the sentences with the most words."""
        scores = run.workdir.read_scored(split).get("bleu_by_order", list[float], [])
        return {**dict(zip(_BY_ORDER, scores, strict=False)), **_sentence_metrics(run, split)}

    @classmethod
    def example_differences(
        cls, run: Run, other: Run, split: str, metric: str
    ) -> Float[np.ndarray, "n"]:
        """As the base class; also of the log-likelihood."""
        if not metric.startswith("log_likelihood"):
            return super().example_differences(run, other, split, metric)
        differences = -super().example_differences(run, other, split, "nll")
        return differences[_members(run, run.file(split, ".references"), metric)]

    @classmethod
    def predictions(cls, run: Run, split: str) -> list[Example]:
        """As the base class; without inputs if the score has no sources, as in older runs."""
        hypotheses, references = _hypotheses(run, split), run.file(split, ".references")
        _require_own(run, split)
        has_sources = (run.workdir.path / "eval" / f"{split}.sources").exists()
        sources = run.file(split, ".sources") if has_sources else [""] * len(references)
        if len(sources) != len(references):
            raise UserError(
                f"{run.workdir.path}: {len(sources)} sources of {split} for {len(references)} "
                "references; score it again"
            )
        scores = translation.sentence_chrf(hypotheses, references)
        return [
            Example(source, source, reference, hypothesis, score)
            for source, reference, hypothesis, score in zip(
                sources, references, hypotheses, scores, strict=True
            )
        ]

    @classmethod
    def pictured(
        cls, answer: str, run: str, line: str, span: tuple[int, int] | None = None
    ) -> tuple[str, Sequence[Part]]:
        """The translation, and a picture of the attention of all heads of the lowest layer, with
        a panel for each head that a head attends to, and outlines of the windows."""
        explained = json.loads(answer)
        if not explained["attention"]:
            return explained["translation"], []
        pieces = [piece.replace("▁", "") or "·" for piece in explained["pieces"]]
        layer, reach = explained["attention"][0], [*explained.get("reach", ())][:1]
        heads, area = len(layer), len(layer[0][0])
        panels: list[Panel | None] = []
        for head, of in itertools.product(range(heads), range(area)):
            at = head + of - area // 2
            values = [query[of] for query in layer[head]]
            keys = f"keys of {at + 1}" if 0 <= at < heads else "keys beyond the edge"
            what = f"head {head + 1}" + (f", {keys}" if area > 1 else "")
            spans = [(first, last) for each in reach for first, last in each[head]]
            everything = {*spans} <= {(0, len(pieces) - 1)}
            window = [] if everything else [Outline("window", spans)]
            attends = area == 1 or any(map(any, values))
            panels.append(Panel(what, values, window) if attends else None)
        note = "Lowest encoder layer; heads are counted from 1."
        across = area if area > 1 else min(2, heads)
        names = f"{run}: attention of the heads", "key", "query"
        return explained["translation"], [Heatmap(*names, pieces, pieces, panels, across, note)]

    @classmethod
    def intervals(cls, run: Run, split: str) -> Mapping[str, Sequence[float]]:
        """The bootstrap's 95 % intervals of a run's scores; empty if its texts are missing."""
        try:
            compared, _ = _bootstrap_scores(run, split)
        except UserError:
            return {}
        return {metric: (one.low, one.high) for metric, one in compared.items()}

    @classmethod
    def examples(cls, run: Run, split: str) -> Mapping[str, Any]:
        """The references; not the sentences' lengths, which depend on the vocabulary."""
        return {"references": run.file(split, ".references")}

    @classmethod
    def paired(cls, run: Run, other: Run, split: str, name: str = "") -> Paired:
        """As the base class, with sacreBLEU's paired bootstrap."""
        sentences = super().paired(run, other, split, name)
        systems = {"other": _hypotheses(other, split), "run": _hypotheses(run, name or split)}
        references = other.file(split, ".references")
        compared, _ = translation.paired_bootstrap(systems, references, language=_language(run))
        numbers: dict[str, float] = {}
        for metric, score in compared["run"].items():
            assert score.p is not None
            numbers[f"{metric}_difference"] = score.score - compared["other"][metric].score
            numbers[f"p_{metric}"] = score.p
        return Paired({**numbers, **sentences.numbers}, sentences.notes)

    @classmethod
    def example_error(cls, run: Run, other: Run, split: str, metric: str) -> float:
        """As the base class; of BLEU by resampling the sentences."""
        if "bleu" not in metric or metric == "tokenized_bleu":
            return super().example_error(run, other, split, metric)
        cls.require_same(run, other, split, split)
        references = run.file(split, ".references")
        members = _members(run, references, metric)
        texts = (_hypotheses(run, split), _hypotheses(other, split), references)
        own, others, references = ([text[n] for n in members] for text in texts)
        order = int(metric.removeprefix("bleu_")) if metric in _BY_ORDER else None
        language = _language(run)
        return translation.bleu_error(own, others, references, language=language, order=order)

    @classmethod
    def scores(cls, run: Run, split: str) -> Mapping[str, Cell]:
        """BLEU and chrF with their 95 % intervals."""
        compared, _ = _bootstrap_scores(run, split)
        return {
            metric: f"{one.score:.2f} ({one.low:.2f} to {one.high:.2f})"
            for metric, one in compared.items()
        }

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> list[Section]:
        """Sections on the differences, and on the gap by n-grams for runs with the first run's
        references."""
        same = [run for run in runs if cls.examples(run, split) == cls.examples(runs[0], split)]
        systems = {run.label: _hypotheses(run, split) for run in same}
        references, language = runs[0].file(split, ".references"), _language(runs[0])
        differences = cls.differences(runs, split)
        signatures = f"Signatures: {', '.join(_bootstrap_scores(runs[0], split)[1].values())}."
        return [
            dataclasses.replace(differences, parts=[*differences.parts, signatures]),
            Section(f"n-grams on {split}", _ngrams(systems, references, language)),
        ]


def _sentence_metrics(run: Run, split: str) -> dict[str, float]:
    """The metrics computed from a run's sentences; no log-likelihoods without the results of each
    sentence, as in older runs."""
    references, results = run.file(split, ".references"), run.workdir.example_results(split)
    values: dict[str, float] = {}
    if results and "nll" in results:
        for suffix in ("", _THIRD):
            nll = results["nll"][_members(run, references, suffix)]
            values[f"log_likelihood{suffix}"] = float(-nll.mean())
    longest = _members(run, references, _THIRD)
    pairs = [[text[n] for n in longest] for text in (_hypotheses(run, split), references)]
    values[f"sacrebleu{_THIRD}"] = translation.bleu(*pairs, language=_language(run))
    return values


def _members(run: Run, references: Sequence[str], metric: str) -> Int[np.ndarray, "n"]:
    """Indices of a metric's sentences: all, or the third with the most words in the reference."""
    lengths = [translation.count_words(reference, _language(run)) for reference in references]
    order = np.argsort([-length for length in lengths], kind="stable")
    return np.sort(order[: -(-len(order) // 3)] if metric.endswith(_THIRD) else order)


@functools.cache  # a page shows the intervals twice
def _bootstrap_scores(
    run: Run, split: str
) -> tuple[dict[str, translation.Compared], dict[str, str]]:
    """A run's scores with bootstrap intervals, by metric, and the metrics' signatures."""
    systems, references = {"run": _hypotheses(run, split)}, run.file(split, ".references")
    compared, signatures = translation.paired_bootstrap(
        systems, references, language=_language(run)
    )
    return compared["run"], signatures


def _ngrams(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], language: str
) -> list[Chart | Table]:
    """Scores by n-gram order: charts of the gaps to the first system, and a table of all."""
    scores = {
        name: translation.ngrams(hypotheses, references, language=language)
        for name, hypotheses in systems.items()
    }
    baseline, *others = scores
    orders = list(range(1, len(scores[baseline]) + 1))
    charts: list[Chart | Table] = []
    for at, (what, note) in enumerate(_CHARTS.items()):
        gaps = {
            name: [
                own[at] - base[at] for own, base in zip(scores[name], scores[baseline], strict=True)
            ]
            for name in others
        }
        series = [Series(name, orders, gap) for name, gap in gaps.items()]
        if series:
            caption = f"{note} Against {baseline}."
            charts.append(Chart(f"Gap in {what}", "n", "percent", series, note=caption, zero=True))
    rows = [
        [name, *(f"{bleu:.2f} / {precision:.2f}" for bleu, precision in by_order)]
        for name, by_order in scores.items()
    ]
    note = "BLEU-n / precision of n-grams of exactly n words, in percent, unsmoothed."
    return [*charts, Table(("run", *(f"n={n}" for n in orders)), rows, note)]


def _hypotheses(run: Run, split: str) -> list[str]:
    """A run's translations; raises UserError unless there is one for each reference."""
    hypotheses, references = (
        run.file(split, ending) for ending in (".predictions.txt", ".references")
    )
    if not references or len(hypotheses) != len(references):
        raise UserError(
            f"{run.workdir.path}: {len(hypotheses)} translations of {split} for {len(references)} "
            "references; score it again"
        )
    return hypotheses


def _require_own(run: Run, split: str) -> None:
    """Raises UserError if a run's translations do not have the BLEU of its score."""
    stored = run.workdir.read_scored(split).value.get("sacrebleu")
    own = _bootstrap_scores(run, split)[0]["sacrebleu"].score
    if isinstance(stored, int | float) and abs(own - stored) > 0.01:
        raise UserError(
            f"{run.workdir.path}/eval/{split}.predictions.txt: not the translations of its score, "
            f"whose BLEU is {stored:.2f}, not {own:.2f}; score it again"
        )


def _language(run: Run) -> str:
    return run.task.config.data.target_language

"""Evaluations of translations: paired bootstrap, and n-grams (Figure 3)."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from common_jax.compare import Evaluation, ScoredExample, require_same_examples
from common_jax.document import (
    Cell,
    Chart,
    Element,
    Heatmap,
    Outline,
    Panel,
    Section,
    Series,
    Table,
)
from common_jax.errors import UserError
from csan_jax import metrics as translation
from csan_jax import significance
from csan_jax.languages import code_of, count_words

_BY_ORDER = tuple(f"bleu_{n}" for n in range(1, 9))  # BLEU of n-grams up to n, unsmoothed
_THIRD = "_longest_third"
_CHARTS = {
    "BLEU-n": "BLEU of n-grams up to n, with the brevity penalty.",
    "precision of n-grams": "Of n-grams of exactly n words.",
}


class TranslationEvaluation(Evaluation):
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
    needs_predictions = True
    needs_corpus = False

    metrics = (
        *_BY_ORDER,
        *("log_likelihood", f"log_likelihood{_THIRD}", f"sacrebleu{_THIRD}"),
    )

    @functools.cached_property
    def references(self) -> list[str]:
        """The references."""
        return self.run.workdir.references(self.split)

    @functools.cached_property
    def hypotheses(self) -> list[str]:
        """The translations; raises UserError unless there is one for each reference."""
        hypotheses = self.run.workdir.predictions(self.split, "txt")
        self._require_equal_number(hypotheses, "translations")
        return hypotheses

    @functools.cached_property
    def identity(self) -> Mapping[str, Any]:
        """The references; not the sentences' lengths, which depend on the vocabulary."""
        return {"references": self.references}

    @property
    def language(self) -> str:
        """The target language."""
        return self.run.task.config.data.target_language

    @functools.cached_property
    def _bootstrap(self) -> tuple[dict[str, significance.Compared], dict[str, str]]:
        """The scores with bootstrap intervals, by metric, and the metrics' signatures."""
        systems = {"run": self.hypotheses}
        compared, signatures = significance.paired_bootstrap(
            systems, self.references, language=self.language
        )
        return compared["run"], signatures

    @functools.cached_property
    def further_metrics(self) -> Mapping[str, float]:
        """BLEU of n-grams up to n; a sentence's mean log-likelihood in nats, unless in older runs;
        the latter and BLEU also on the third of the sentences with the most words."""
        values = dict(zip(_BY_ORDER, self.note("bleu_by_order", list[float]), strict=False))
        if "nll" in self.results:
            for suffix in ("", _THIRD):
                members = _members(tuple(self.references), suffix, self.language)
                nll = self.results["nll"][members]
                values[f"log_likelihood{suffix}"] = float(-nll.mean())
        longest = _members(tuple(self.references), _THIRD, self.language)
        pairs = [[text[n] for n in longest] for text in (self.hypotheses, self.references)]
        values[f"sacrebleu{_THIRD}"] = translation.bleu(*pairs, language=self.language)
        return values

    @functools.cached_property
    def intervals(self) -> Mapping[str, Sequence[float]]:
        """The bootstrap's 95 % intervals; empty if the texts are missing."""
        try:
            compared, _ = self._bootstrap
        except UserError:
            return {}
        return {metric: (score.low, score.high) for metric, score in compared.items()}

    @functools.cached_property
    def cells(self) -> Mapping[str, Cell]:
        """BLEU and chrF with their 95 % intervals."""
        compared, _ = self._bootstrap
        return {
            metric: f"{score.score:.2f} ({score.low:.2f} to {score.high:.2f})"
            for metric, score in compared.items()
        }

    @functools.cached_property
    def predictions(self) -> list[ScoredExample]:
        """As the base class; without inputs if the score has no sources, as in older runs."""
        # The stored translations must have the BLEU of the score.
        stored = self.run.workdir.scores(self.split).value.get("sacrebleu")
        bleu = self._bootstrap[0]["sacrebleu"].score
        if isinstance(stored, int | float) and abs(bleu - stored) > 0.01:
            raise UserError(
                f"{self.run.workdir.predictions_file(self.split, 'txt')}: not the translations of "
                f"its score, whose BLEU is {stored:.2f}, not {bleu:.2f}; score it again"
            )

        # Each sentence with its chrF.
        sources = self.run.workdir.sources(self.split)
        sources = [""] * len(self.references) if sources is None else sources
        self._require_equal_number(sources, "sources")
        scores = translation.sentence_chrf(self.hypotheses, self.references)
        return [
            ScoredExample(source, source, reference, hypothesis, score)
            for source, reference, hypothesis, score in zip(
                sources, self.references, self.hypotheses, scores, strict=True
            )
        ]

    @staticmethod
    def pictured(
        answer: str, run: str, line: str, span: tuple[int, int] | None = None
    ) -> tuple[str, Sequence[Element]]:
        """The translation, and a picture of the lowest layer's attention, with a panel for each
        pair of a head and a head that it attends to, and outlines of the windows."""
        explained = json.loads(answer)
        if not explained["attention"]:
            return explained["translation"], []

        # The lowest layer [heads, queries, area, keys], and the windows of its queries.
        pieces = [piece.replace("▁", "") or "·" for piece in explained["pieces"]]
        layer = explained["attention"][0]
        reach = [*explained.get("reach", ())][:1]
        heads = len(layer)
        area = len(layer[0][0])
        panels: list[Panel | None] = []

        # A panel for each head and each head of its area; None where it attends to no key.
        for head, offset in itertools.product(range(heads), range(area)):
            key_head = head + offset - area // 2
            values = [query[offset] for query in layer[head]]
            keys = f"keys of {key_head + 1}" if 0 <= key_head < heads else "keys beyond the edge"
            title = f"head {head + 1}" + (f", {keys}" if area > 1 else "")
            spans = [(first, last) for by_head in reach for first, last in by_head[head]]
            everything = {*spans} <= {(0, len(pieces) - 1)}
            window = [] if everything else [Outline("window", spans)]
            attends = area == 1 or any(map(any, values))
            panels.append(Panel(title, values, window) if attends else None)

        note = "Lowest encoder layer; heads are counted from 1."
        across = area if area > 1 else min(2, heads)
        names = f"{run}: attention of the heads", "key", "query"
        return explained["translation"], [Heatmap(*names, pieces, pieces, panels, across, note)]

    def example_values(self, metric: str) -> Float[np.ndarray, "n"]:
        """As the base class; also of the log-likelihood."""
        if not metric.startswith("log_likelihood"):
            return super().example_values(metric)
        values = -super().example_values("nll")
        return values[_members(tuple(self.references), metric, self.language)]

    @classmethod
    def example_error(cls, runs: Sequence[Any], baselines: Sequence[Any], metric: str) -> float:
        """As the base class; of BLEU by resampling the sentences."""
        if "bleu" not in metric:
            return super().example_error(runs, baselines, metric)
        require_same_examples([*runs, *baselines])
        references = runs[0].references
        language = runs[0].language
        members = _members(tuple(references), metric, language)

        def of_members(lines: Sequence[str]) -> list[str]:
            return [lines[n] for n in members]

        return significance.bleu_error(
            [of_members(run.hypotheses) for run in runs],
            [of_members(run.hypotheses) for run in baselines],
            of_members(references),
            language=language,
            order=int(metric.removeprefix("bleu_")) if metric in _BY_ORDER else None,
            tokenized=metric == "tokenized_bleu",
        )

    def tested_overall(self, baseline: Any) -> dict[str, float]:
        """sacreBLEU's paired bootstrap."""
        systems = {"other": baseline.hypotheses, "run": self.hypotheses}
        compared, _ = significance.paired_bootstrap(
            systems, baseline.references, language=self.language
        )
        numbers: dict[str, float] = {}
        for metric, score in compared["run"].items():
            assert score.p is not None
            numbers[f"{metric}_difference"] = score.score - compared["other"][metric].score
            numbers[f"p_{metric}"] = score.p
        return numbers

    def sections(self, compared: Sequence[Any]) -> list[Section]:
        """Sections on the differences, and, for runs with the same references, on n-grams."""
        differences = self.differences(compared)
        signatures = f"Signatures: {', '.join(self._bootstrap[1].values())}."
        same = [e for e in (self, *compared) if e.identity == self.identity]
        systems = {evaluation.run.label: evaluation.hypotheses for evaluation in same}
        return [
            dataclasses.replace(differences, elements=[*differences.elements, signatures]),
            Section(f"n-grams on {self.split}", _ngrams(systems, self.references, self.language)),
        ]

    def _require_equal_number(self, lines: Sequence[str], name: str) -> None:
        """Raises UserError unless there is a line for each reference."""
        if not self.references or len(lines) != len(self.references):
            raise UserError(
                f"{self.run.workdir.path}: {len(lines)} {name} of {self.split} for "
                f"{len(self.references)} references; score it again"
            )


@functools.lru_cache(maxsize=64)  # a page asks for those of each trial many times
def _members(references: tuple[str, ...], metric: str, language: str) -> Int[np.ndarray, "n"]:
    """Indices of a metric's sentences: all, or the third with the most words in the reference."""
    code = code_of(language, references)
    lengths = [count_words(reference, code) for reference in references]
    order = np.argsort([-length for length in lengths], kind="stable")
    return np.sort(order[: -(-len(order) // 3)] if metric.endswith(_THIRD) else order)


def _ngrams(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], language: str
) -> list[Chart | Table]:
    """Scores by n-gram order: charts of the gaps to the first system, and a table of all."""
    # The first system is the baseline of the others' gaps.
    scores = {
        name: translation.ngrams(hypotheses, references, language=language)
        for name, hypotheses in systems.items()
    }
    baseline, *other_systems = scores
    orders = list(range(1, len(scores[baseline]) + 1))
    charts: list[Chart | Table] = []

    # A chart of each measure.
    for column, (measure, note) in enumerate(_CHARTS.items()):
        series = []
        for name in other_systems:
            pairs = zip(scores[name], scores[baseline], strict=True)
            gaps = [score[column] - reference[column] for score, reference in pairs]
            series.append(Series(name, orders, gaps))
        if series:
            title = f"Gap in {measure}"
            caption = f"{note} Against {baseline}."
            charts.append(Chart(title, "n", "percent", series, note=caption, zero=True))

    # The table has the scores themselves.
    rows = [
        [name, *(f"{bleu:.2f} / {precision:.2f}" for bleu, precision in by_order)]
        for name, by_order in scores.items()
    ]
    note = "BLEU-n / precision of n-grams of exactly n words, in percent, unsmoothed."
    return [*charts, Table(("run", *(f"n={n}" for n in orders)), rows, note)]

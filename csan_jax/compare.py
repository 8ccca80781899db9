"""Translations of several runs beside each other: the paired bootstrap, and n-grams (Figure 3)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from common_jax.compare import Comparison, Run
from common_jax.errors import UserError
from common_jax.metrics import translation
from common_jax.report.document import Cell, Chart, Section, Series, Table

METRICS = ("sacrebleu", "chrf")
_PICTURED = {
    "BLEU-n": "BLEU of n-grams up to n, with the brevity penalty.",
    "precision of n-grams": "Of n-grams of n words alone.",
}


class TranslationComparison(Comparison):
    """Paired bootstrap of BLEU and chrF, and scores by n-gram order (Figure 3)."""

    findings: ClassVar[Mapping[str, str]] = {
        "model.token_window": "The paper (section 5.1, Figure 2a, validation of WMT14 En-De): of "
        "1D-CSAN's windows 11 is the best.",
        "model.head_window": "The paper (Figure 2b): at a window of 11, attending to more than one "
        "head is better than to one, and to many is worse again.",
    }

    @classmethod
    def intervals(cls, run: Run, split: str) -> Mapping[str, Sequence[float]]:
        """The bootstrap's 95 % intervals of a run's scores; none where its texts are gone."""
        try:
            systems, references = (
                {run.label: _hypotheses(run, split)},
                run.file(split, ".references"),
            )
        except UserError:
            return {}
        found, _ = translation.paired_bootstrap(systems, references, language=_language(run))
        return {metric: (one.low, one.high) for metric, one in found[run.label].items()}

    @classmethod
    def compare(cls, runs: Sequence[Run], split: str) -> list[Section]:
        """Runs whose references are the first one's: significance, and the gap to it by n-grams."""
        references = runs[0].file(split, ".references")
        alike = [run for run in runs if run.file(split, ".references") == references]
        others = [run.label for run in runs if run not in alike]
        said = [f"Not compared, having other references: {', '.join(others)}."]
        systems = {run.label: _hypotheses(run, split) for run in alike}
        language = _language(runs[0])
        return [
            Section(
                f"differences on {split}",
                [_significance(systems, references, language), *(said if others else [])],
            ),
            Section(f"n-grams on {split}", _ngrams(systems, references, language)),
        ]


def _significance(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], language: str
) -> Table:
    found, signatures = translation.paired_bootstrap(systems, references, language=language)
    first = found[next(iter(systems))]
    head = ["run", *(f"{metric}{what}" for metric in METRICS for what in ("", " gap", " p"))]
    rows: list[list[Cell]] = []
    for name, by_metric in found.items():
        rows.append([name])
        for metric in METRICS:
            one = by_metric[metric]
            said = f"{one.score:.2f} ({one.low:.2f} to {one.high:.2f})"
            alone = one.p is None
            rows[-1] += [said, None if alone else f"{one.score - first[metric].score:+.2f}"]
            rows[-1].append(None if one.p is None else f"{one.p:.3f}")
    note = (
        f"sacreBLEU's paired bootstrap against {next(iter(systems))}; in brackets 95 % intervals. "
        "It knows the noise of the test's sentences, not that between seeds. Signatures: "
    )
    return Table(head, rows, note + ", ".join(signatures.values()))


def _ngrams(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], language: str
) -> list[Chart | Table]:
    scores = {
        name: translation.ngrams(hypotheses, references, language=language)
        for name, hypotheses in systems.items()
    }
    baseline, *others = scores
    orders = list(range(1, len(scores[baseline]) + 1))
    charts: list[Chart | Table] = []
    for at, (what, note) in enumerate(_PICTURED.items()):
        gaps = {
            name: [
                ours[at] - theirs[at]
                for ours, theirs in zip(scores[name], scores[baseline], strict=True)
            ]
            for name in others
        }
        series = [Series(name, orders, gap) for name, gap in gaps.items()]
        if series:
            said = f"{note} Against {baseline}."
            charts.append(Chart(f"Gap in {what}", "n", "percent", series, note=said, zero=True))
    rows = [
        [name, *(f"{bleu:.2f} / {alone:.2f}" for bleu, alone in s)] for name, s in scores.items()
    ]
    note = "BLEU-n / precision of n-grams of n words alone, in percent, unsmoothed."
    return [*charts, Table(("run", *(f"n={n}" for n in orders)), rows, note)]


def _hypotheses(run: Run, split: str) -> list[str]:
    """A run's translations, as many as there are references."""
    found, wanted = (run.file(split, ending) for ending in (".predictions.txt", ".references"))
    if not wanted or len(found) != len(wanted):
        raise UserError(
            f"{run.workdir.path}: {len(found)} translations of {split} for {len(wanted)} "
            "references; score it again"
        )
    return found


def _language(run: Run) -> str:
    return run.task.config.data.target_language

"""Comparison of translations against the command `sacrebleu` and by counting n-grams."""

import collections
import json
import math
import statistics
import subprocess
import sys

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy import stats

from common_jax.compare import IncomparableError
from csan_jax import metrics as translation
from csan_jax import significance
from csan_jax.compare import TranslationEvaluation
from tests.families.stored_runs import EVALUATIONS, NLL, REFERENCES, SYSTEMS, translations

evaluation = EVALUATIONS["csan"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [translations(folder, system) for system in SYSTEMS]


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """The output of `sacrebleu --paired-bs` for BLEU (it fails to write chrF)."""
    folder = tmp_path_factory.mktemp("official")
    for name, lines in {"references": REFERENCES, **SYSTEMS}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", *SYSTEMS, "--paired-bs"]
    command += ["-m", "bleu", "-w", "8", "-f", "json"]
    return json.loads(subprocess.check_output(command, cwd=folder))


def test_differences_are_those_of_the_official_command(official):
    compared, signatures = significance.paired_bootstrap(SYSTEMS, REFERENCES, language="en")
    for row in official:
        actual = compared[row["system"].removeprefix("Baseline: ")]["sacrebleu"]
        expected = row["BLEU"]
        assert actual.score == pytest.approx(expected["score"], abs=1e-6)
        assert (actual.low + actual.high) / 2 == pytest.approx(expected["mean"], abs=1e-6)
        assert (actual.high - actual.low) / 2 == pytest.approx(expected["ci"], abs=1e-6)
        assert actual.p == expected["p_value"]
    assert [actual["sacrebleu"].p is None for actual in compared.values()] == [True, False, False]
    assert compared["better"]["sacrebleu"].p < 0.01 < compared["similar"]["sacrebleu"].p
    assert "bs:1000|seed:12345" in signatures["sacrebleu"]


@pytest.mark.parametrize("lines", [["x"] * len(REFERENCES), [*SYSTEMS["first"]]])
def test_equal_scores_have_a_p_of_one(lines):
    """Also scores of 0 in all resamples."""
    systems = {"first": lines, "second": lines[:1] * len(lines) if lines[0] == "x" else lines}
    compared, _ = significance.paired_bootstrap(systems, REFERENCES, language="en")
    assert {metric: scores.p for metric, scores in compared["second"].items()} == {
        "sacrebleu": 1,
        "chrf": 1,
    }


def sacrebleu(**options):
    bleu = BLEU(tokenize="13a", **options)
    return lambda lines, references: bleu.corpus_score(lines, [references]).score


def tokenized(lines, references):
    return translation.score(lines, references, language="de").metrics["tokenized_bleu"]


@pytest.mark.parametrize(
    ("score", "systems", "baselines", "options"),
    [
        (sacrebleu(), ["first"], ["better"], {"language": "en"}),
        (
            sacrebleu(max_ngram_order=2, smooth_method="none"),
            *(["first"], ["better"], {"language": "en", "order": 2}),
        ),
        (sacrebleu(), ["better", "similar"], ["first"], {"language": "en"}),
        (tokenized, ["better"], [], {"language": "de", "tokenized": True}),
    ],
    ids=["a difference", "another order", "a mean", "tokenized"],
)
def test_the_error_of_bleu_is_that_of_scoring_each_resample(score, systems, baselines, options):
    """Against scoring 20 resamples of the sentences with sacrebleu."""
    random = np.random.default_rng(12345)
    differences = []
    for _ in range(20):
        chosen = random.integers(0, len(REFERENCES), len(REFERENCES))
        pick = lambda lines, chosen=chosen: [lines[at] for at in chosen]
        scores = {n: score(pick(SYSTEMS[n]), pick(REFERENCES)) for n in (*systems, *baselines)}
        mean = lambda names, scores=scores: sum(scores[n] for n in names) / max(1, len(names))
        differences.append(mean(systems) - mean(baselines))
    texts = ([SYSTEMS[name] for name in names] for names in (systems, baselines))
    error = significance.bleu_error(*texts, REFERENCES, resamples=20, **options)
    assert error == pytest.approx(statistics.stdev(differences), rel=1e-9)


def error_of(runs, baselines, metric):
    return TranslationEvaluation.example_error(
        [*map(evaluation, runs)], [*map(evaluation, baselines)], metric
    )


def test_the_error_of_a_difference_of_metrics(runs):
    """Of BLEU, also by order of n-grams, by its bootstrap; of the nll by its examples."""
    first, better, _ = runs
    error = lambda metric: error_of([better], [first], metric)
    texts = ([SYSTEMS["better"]], [SYSTEMS["first"]], REFERENCES)
    assert error("sacrebleu") == significance.bleu_error(*texts, language="en")
    assert error("bleu_5") == significance.bleu_error(*texts, language="en", order=5)
    assert error("bleu_5") != error("bleu_6")
    assert error("tokenized_bleu") == significance.bleu_error(*texts, language="en", tokenized=True)
    alone = error_of([better], [], "sacrebleu")
    assert alone == significance.bleu_error(texts[0], [], REFERENCES, language="en")
    assert error_of([better], [], "nll") == pytest.approx(stats.sem(NLL["better"]))
    assert error("nll") == pytest.approx(stats.sem(NLL["better"] - NLL["first"]))
    with pytest.raises(IncomparableError, match="chrf"):
        error("chrf")


def test_the_longest_third_has_the_most_words(runs):
    first, better, _ = runs
    error = lambda metric: error_of([better], [first], metric)
    by_words = sorted(range(60), key=lambda n: (-len(REFERENCES[n].split()), n))
    third = sorted(by_words[:20])
    pick = lambda lines: [lines[n] for n in third]
    texts = [pick(SYSTEMS["better"])], [pick(SYSTEMS["first"])], pick(REFERENCES)
    assert error("sacrebleu_longest_third") == significance.bleu_error(*texts, language="en")
    differences = NLL["better"] - NLL["first"]
    assert error("log_likelihood") == pytest.approx(stats.sem(differences))
    assert error("log_likelihood_longest_third") == pytest.approx(stats.sem(differences[third]))
    assert evaluation(better).further_metrics == pytest.approx(
        {
            "log_likelihood": -NLL["better"].mean(),
            "log_likelihood_longest_third": -NLL["better"][third].mean(),
            "sacrebleu_longest_third": BLEU().corpus_score(texts[0][0], [texts[2]]).score,
        }
    )


def test_ngrams_are_counted_right():
    hypotheses = SYSTEMS["first"]
    expected = []
    log = 0.0
    shorter = sum(len(line.split()) for line in hypotheses)
    longer = sum(len(line.split()) for line in REFERENCES)
    brevity = min(1.0, math.exp(1 - longer / shorter))
    for n in range(1, 5):
        hits = total = 0
        for hypothesis, reference in zip(hypotheses, REFERENCES, strict=True):
            grams = [
                collections.Counter(tuple(w[i : i + n]) for i in range(len(w) - n + 1))
                for w in (hypothesis.split(), reference.split())
            ]
            hits += (grams[0] & grams[1]).total()
            total += grams[0].total()
        log += math.log(hits / total)
        expected.append((100 * brevity * math.exp(log / n), 100 * hits / total))
    hypothesis = translation.ngrams(hypotheses, REFERENCES, language="en", most=4)
    assert np.array(hypothesis) == pytest.approx(np.array(expected))


def test_two_runs_are_tested_as_the_official_command_and_scipy_do(official, runs):
    first, better, _ = runs
    paired = evaluation(better).paired(evaluation(first))
    numbers, (base, row, _) = paired.numbers, official
    difference = row["BLEU"]["score"] - base["BLEU"]["score"]
    assert numbers["sacrebleu_difference"] == pytest.approx(difference, abs=1e-6)
    assert numbers["p_sacrebleu"] == row["BLEU"]["p_value"]
    expected = stats.ttest_rel(NLL["better"], NLL["first"])
    assert numbers["p_nll"] == pytest.approx(expected.pvalue, rel=1e-6)
    interval = [numbers[f"nll_difference_{end}"] for end in ("low", "high")]
    assert interval == pytest.approx([*expected.confidence_interval(0.95)], rel=1e-6)
    assert paired.notes == []

"""Comparison of translations against the command `sacrebleu` and by counting n-grams."""

import collections
import json
import math
import statistics
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from scipy import stats

from common_jax.compare import IncomparableError, Run
from common_jax.errors import UserError
from common_jax.training.run_writer import RunWriter
from common_jax.training.task import Scores
from csan_jax import metrics as translation
from csan_jax.compare import TranslationEvaluation

RANDOM = np.random.default_rng(3)
WORDS = ["the", "a", "cat", "dog", "sat", "on", "under", "mat", "tree", "and", "then", "rain"]
REFERENCES = [" ".join(RANDOM.choice(WORDS, RANDOM.integers(5, 14))) for _ in range(60)]


def noisy(rate):
    """The references with some of their words changed."""
    swap = lambda word: RANDOM.choice(WORDS) if RANDOM.random() < rate else word
    return [" ".join(map(swap, line.split())) for line in REFERENCES]


SYSTEMS = {"first": noisy(0.3), "better": noisy(0.1), "similar": noisy(0.3)}


NLL = {name: RANDOM.gamma(4, 5, 60) for name in SYSTEMS}


def evaluation(run):
    return TranslationEvaluation(run, "test")


def sections_of(runs):
    baseline, *others = map(evaluation, runs)
    return baseline.sections(others)


@pytest.fixture(scope="module")
def as_run(tmp_path_factory):
    def make(label, hypotheses, references=REFERENCES, nll=None):
        predictions = {"txt": "".join(f"{text}\n" for text in hypotheses)}
        workdir = RunWriter(tmp_path_factory.mktemp("runs") / label)
        workdir.path.mkdir()
        lengths = RANDOM.integers(3, 9, len(references))  # of another vocabulary in each run
        results = {} if nll is None else {"length": lengths, "nll": nll}
        workdir.write_scores("test", Scores({}, {}, predictions, [], results, references))
        run = Run(label, workdir)
        data = SimpleNamespace(target_language="en")
        run.__dict__["task"] = SimpleNamespace(config=SimpleNamespace(data=data))
        return run

    return make


@pytest.fixture(scope="module")
def runs(as_run):
    return [as_run(*system, nll=NLL[system[0]]) for system in SYSTEMS.items()]


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """The output of `sacrebleu --paired-bs` for BLEU (it fails to write chrF)."""
    folder = tmp_path_factory.mktemp("official")
    write = lambda name, lines: (folder / name).write_text("".join(f"{x}\n" for x in lines))
    write("references", REFERENCES)
    for name, lines in SYSTEMS.items():
        write(name, lines)
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", *SYSTEMS, "--paired-bs"]
    done = subprocess.run(
        [*command, "-m", "bleu", "-w", "8", "-f", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_differences_are_those_of_the_official_command(official):
    compared, signatures = translation.paired_bootstrap(SYSTEMS, REFERENCES, language="en")
    for row in official:
        actual, expected = (
            compared[row["system"].removeprefix("Baseline: ")]["sacrebleu"],
            row["BLEU"],
        )
        assert actual.score == pytest.approx(expected["score"], abs=1e-6)
        assert (actual.low + actual.high) / 2 == pytest.approx(expected["mean"], abs=1e-6)
        assert (actual.high - actual.low) / 2 == pytest.approx(expected["ci"], abs=1e-6)
        assert actual.p == expected["p_value"]
    assert [actual["sacrebleu"].p is None for actual in compared.values()] == [True, False, False]
    assert compared["better"]["sacrebleu"].p < 0.01 < compared["similar"]["sacrebleu"].p
    assert "bs:1000|seed:12345" in signatures["sacrebleu"]


def error_of(runs, baselines, metric):
    return TranslationEvaluation.example_error(
        [*map(evaluation, runs)], [*map(evaluation, baselines)], metric
    )


@pytest.mark.parametrize("order", [None, 2])
def test_the_error_of_a_difference_of_bleu_is_that_of_scoring_each_resample(order):
    """Against scoring 20 resamples of the sentences with sacrebleu."""
    options = {"max_ngram_order": order, "smooth_method": "none"} if order else {}
    bleu, random = BLEU(tokenize="13a", **options), np.random.default_rng(12345)
    first, better = SYSTEMS["first"], SYSTEMS["better"]
    differences = []
    for _ in range(20):
        chosen = random.integers(0, len(REFERENCES), len(REFERENCES))
        pick = lambda lines, chosen=chosen: [lines[at] for at in chosen]
        scores = [bleu.corpus_score(pick(x), [pick(REFERENCES)]).score for x in (first, better)]
        differences.append(scores[0] - scores[1])
    error = translation.bleu_error(
        [first], [better], REFERENCES, language="en", order=order, resamples=20
    )
    assert error == pytest.approx(statistics.stdev(differences), rel=1e-9)


def test_the_error_of_a_mean_of_bleu_is_that_of_the_mean_of_each_resample():
    """Of two systems beside a third, against scoring 20 resamples with sacrebleu."""
    bleu, random, differences = BLEU(tokenize="13a"), np.random.default_rng(12345), []
    for _ in range(20):
        chosen = random.integers(0, len(REFERENCES), len(REFERENCES))
        pick = lambda lines, chosen=chosen: [lines[at] for at in chosen]
        score = lambda lines, pick=pick: bleu.corpus_score(pick(lines), [pick(REFERENCES)]).score
        better, similar, first = (score(SYSTEMS[name]) for name in ("better", "similar", "first"))
        differences.append((better + similar) / 2 - first)
    systems = [SYSTEMS["better"], SYSTEMS["similar"]]
    error = translation.bleu_error(
        systems, [SYSTEMS["first"]], REFERENCES, language="en", resamples=20
    )
    assert error == pytest.approx(statistics.stdev(differences), rel=1e-9)


def test_the_error_of_tokenized_bleu_is_that_of_scoring_each_resample():
    random, scores = np.random.default_rng(12345), []
    for _ in range(20):
        chosen = random.integers(0, len(REFERENCES), len(REFERENCES))
        lines = [SYSTEMS["better"][at] for at in chosen], [REFERENCES[at] for at in chosen]
        scores.append(translation.score(*lines, language="de").metrics["tokenized_bleu"])
    error = translation.bleu_error(
        [SYSTEMS["better"]], [], REFERENCES, language="de", tokenized=True, resamples=20
    )
    assert error == pytest.approx(statistics.stdev(scores), rel=1e-9)


def test_the_error_of_a_difference_of_metrics(runs):
    """Of BLEU by its bootstrap, of the nll by its examples, of BLEU by n-gram order from the
    notes."""
    first, better, _ = runs
    error = lambda metric: error_of([better], [first], metric)
    texts = ([SYSTEMS["better"]], [SYSTEMS["first"]], REFERENCES)
    assert error("sacrebleu") == translation.bleu_error(*texts, language="en")
    assert error("bleu_5") == translation.bleu_error(*texts, language="en", order=5)
    assert error("bleu_5") != error("bleu_6")
    assert error("tokenized_bleu") == translation.bleu_error(*texts, language="en", tokenized=True)
    alone = error_of([better], [], "sacrebleu")
    assert alone == translation.bleu_error(texts[0], [], REFERENCES, language="en")
    assert error_of([better], [], "nll") == pytest.approx(stats.sem(NLL["better"]))
    differences = NLL["better"] - NLL["first"]
    assert error("nll") == pytest.approx(stats.sem(differences))
    with pytest.raises(IncomparableError, match="no chrf of the examples"):
        error("chrf")


def test_the_longest_third_has_the_most_words(runs):
    first, better, _ = runs
    error = lambda metric: error_of([better], [first], metric)
    by_words = sorted(range(60), key=lambda n: (-len(REFERENCES[n].split()), n))
    third = sorted(by_words[:20])
    pick = lambda lines: [lines[n] for n in third]
    texts = [pick(SYSTEMS["better"])], [pick(SYSTEMS["first"])], pick(REFERENCES)
    assert error("sacrebleu_longest_third") == translation.bleu_error(*texts, language="en")
    differences = NLL["better"] - NLL["first"]
    assert error("log_likelihood") == pytest.approx(stats.sem(differences))
    assert error("log_likelihood_longest_third") == pytest.approx(stats.sem(differences[third]))
    values = evaluation(better).further_metrics
    bleu = BLEU().corpus_score(texts[0][0], [texts[2]]).score
    assert values == pytest.approx(
        {
            "log_likelihood": -NLL["better"].mean(),
            "log_likelihood_longest_third": -NLL["better"][third].mean(),
            "sacrebleu_longest_third": bleu,
        }
    )


def test_ngrams_are_counted_right():
    hypotheses, expected = SYSTEMS["first"], []
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


def test_a_run_without_results_of_sentences_is_compared_by_its_text(as_run, runs):
    older = as_run("older", SYSTEMS["better"])
    paired = evaluation(older).paired(evaluation(runs[0]))
    expected = evaluation(runs[1]).paired(evaluation(runs[0])).numbers
    assert "p_nll" in expected
    assert paired.numbers == {k: v for k, v in expected.items() if "nll" not in k}
    (note,) = paired.notes
    assert note.startswith(f"{older.workdir.path}: no eval/test.examples.tsv; score test")


def test_the_report_has_gaps_to_the_first_run(official, runs):
    differences, grams = sections_of(runs)
    table, signatures = differences.elements
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    scores = [row["BLEU"]["score"] for row in official]
    assert rows["better"]["sacrebleu gap"] == f"{scores[1] - scores[0]:+.2f}"
    assert rows["first"]["sacrebleu gap"] is rows["first"]["sacrebleu p"] is None
    low, high = evaluation(runs[1]).intervals["sacrebleu"]
    assert rows["better"]["sacrebleu"] == f"{scores[1]:.2f} ({low:.2f} to {high:.2f})"
    assert "bs:1000|seed:12345" in signatures
    by_order, alone, table = grams.elements
    ours, base = (
        translation.ngrams(SYSTEMS[name], REFERENCES, language="en") for name in ("better", "first")
    )
    assert [series.name for series in by_order.series] == ["better", "similar"]
    assert by_order.series[0].y == [a[0] - b[0] for a, b in zip(ours, base, strict=True)]
    assert alone.series[0].y == [a[1] - b[1] for a, b in zip(ours, base, strict=True)]
    assert alone.series[0].x == [*range(1, 9)]
    assert len(table.rows) == 3


def test_a_run_alone_has_intervals_and_ngrams_but_no_gap(runs):
    low, high = evaluation(runs[0]).intervals["sacrebleu"]
    bleu = translation.score(SYSTEMS["first"], REFERENCES, language="en").metrics["sacrebleu"]
    assert low < bleu < high
    differences, grams = sections_of(runs[:1])
    assert len(differences.elements[0].rows) == len(grams.elements) == 1


def test_runs_on_another_test_are_not_compared(as_run, runs):
    first, better, _ = runs
    other = as_run("other", REFERENCES[:9], REFERENCES[:9])
    differences, grams = sections_of([first, other, better])
    table, note, _ = differences.elements
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert rows["other"]["sacrebleu p"] is None and rows["better"]["sacrebleu p"] is not None
    assert note == f"{first.workdir.path}: its test differs from that of {other.workdir.path}"
    assert [row[0] for row in grams.elements[-1].rows] == ["first", "better"]


def test_examples_have_the_chrf_of_their_sentences(as_run):
    run = as_run("scored", SYSTEMS["first"])
    examples = evaluation(run).predictions
    assert [(one.reference, one.prediction, one.line) for one in examples] == [
        (*pair, "") for pair in zip(REFERENCES, SYSTEMS["first"], strict=True)
    ]
    sentence = CHRF().sentence_score(SYSTEMS["first"][7], [REFERENCES[7]]).score
    assert examples[7].score == sentence
    (run.workdir.path / "eval" / "test.sources").write_text("a source\n" * 60)
    assert evaluation(run).predictions[59].line == "a source"
    (run.workdir.path / "eval" / "test.sources").write_text("a source\n" * 59)
    with pytest.raises(UserError, match="59 sources of test for 60 references"):
        _ = evaluation(run).predictions


def test_translations_of_another_run_are_rejected(as_run):
    run = as_run("own", SYSTEMS["first"])
    bleu = translation.bleu(SYSTEMS["first"], REFERENCES, language="en")
    file = run.workdir.path / "eval" / "test.json"
    file.write_text(json.dumps({"sacrebleu": bleu}))
    assert len(evaluation(run).predictions) == 60
    file.write_text(json.dumps({"sacrebleu": bleu + 0.5}))
    with pytest.raises(UserError, match=r"test\.predictions\.txt: not the translations of its sc"):
        _ = evaluation(run).predictions


def explained(attention, reach):
    pieces = [f"▁{n}" for n in range(attention.shape[1])]
    values = {"attention": [attention.tolist()], "reach": [reach.tolist()]}
    return json.dumps({"translation": "t", "pieces": pieces, **values})


def test_heads_are_drawn_with_the_keys_of_their_neighbours():
    """Of 3 heads with windows of 3 heads and 1 piece, the outermost have one neighbour."""
    attention, reach = np.zeros((3, 2, 3, 2)), np.zeros((3, 2, 2), int)
    for head, of in [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]:
        attention[head, [0, 1], of, [0, 1]] = 0.1 * head + 0.01 * of + 0.1
    reach[:, 1] = 1
    text, (picture,) = TranslationEvaluation.pictured(explained(attention, reach), "2D", "0 1")
    assert text == "t" and picture.across == 3 and picture.rows == ["0", "1"]
    keys = lambda panel: panel and panel.title.removeprefix("head ")
    assert [*map(keys, picture.panels)] == [
        *(None, "1, keys of 1", "1, keys of 2"),
        *("2, keys of 1", "2, keys of 2", "2, keys of 3"),
        *("3, keys of 2", "3, keys of 3", None),
    ]
    np.testing.assert_array_equal(picture.panels[5].values, attention[1, :, 2])
    (window,) = picture.panels[5].outlines
    assert [*window.spans] == [(0, 0), (1, 1)]


def test_heads_without_neighbours_and_windows_have_one_panel_each():
    attention, reach = np.full((4, 2, 1, 2), 0.5), np.tile([0, 1], (4, 2, 1))
    _, (picture,) = TranslationEvaluation.pictured(explained(attention, reach), "vanilla", "0 1")
    assert [(one.title, one.outlines) for one in picture.panels] == [
        (f"head {n}", []) for n in range(1, 5)
    ]

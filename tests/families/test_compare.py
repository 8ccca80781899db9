"""What comparisons of translations, answers and labels have in common, and those of answers."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from sacrebleu.metrics import CHRF
from scipy import stats

from attconv_jax.compare import LabelEvaluation
from common_jax.compare import Evaluation, IncomparableError
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad
from csan_jax import metrics as translation
from csan_jax.compare import TranslationEvaluation
from qanet_jax.compare import SpanEvaluation
from tests.families import stored_runs
from tests.families.stored_runs import EVALUATIONS, REFERENCES, SYSTEMS, answers, sections_of
from tests.families.tasks import by_head, stored


def runs_of(family, folder, *systems):
    return [stored_runs.RUNS[family](folder, system) for system in systems]


def paired(family, baseline, run):
    return EVALUATIONS[family](run).paired(EVALUATIONS[family](baseline))


def p_values(row):
    return {name: value for name, value in row.items() if name.endswith(" p") and value is not None}


@pytest.mark.parametrize(
    ("family", "result", "tests"),
    [
        ("qanet", "f1", ("f1", "exact_match")),
        ("attconv", "right", ("mcnemar", "equal_proportions")),
    ],
)
def test_the_report_has_the_numbers_of_the_paired_tests(family, result, tests, tmp_path):
    runs = runs_of(family, tmp_path, "first", "better")
    numbers = paired(family, *runs).numbers
    (section,) = sections_of(family, runs)
    (table,) = section.elements
    first, second = by_head(table).values()
    assert first[f"{result} gap"] is None and not p_values(first)
    assert p_values(second) == {f"{name} p": f"{numbers[f'p_{name}']:.4f}" for name in tests}
    gap, low, high = (numbers[f"{result}_difference{end}"] for end in ("", "_low", "_high"))
    assert second[f"{result} gap"] == f"{gap:+.2f} ({low:+.2f} to {high:+.2f})"
    assert second[f"{result} detectable"] == f"{numbers[f'{result}_detectable']:.2f}"
    counts = {"wins", "losses"} & {*table.head}
    assert {name: second[name] for name in counts} == {name: numbers[name] for name in counts}
    assert bool(counts) == (family == "attconv")


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("csan", {"hypotheses": REFERENCES[:9], "references": REFERENCES[:9]}),
        ("qanet", {"texts": dict.fromkeys("01234568", "x")}),
        ("qanet", {"lengths": range(8)}),
        ("qanet", {"golds_sha256": "bb"}),
        ("attconv", {"gold": "yes"}),
        ("attconv", {"lengths": stored_runs.LENGTHS + 1}),
    ],
    ids=[
        *("references", "questions", "lengths of passages", "gold answers"),
        *("gold labels", "lengths of texts"),
    ],
)
def test_runs_of_other_examples_are_not_compared(family, changes, tmp_path):
    first, better = runs_of(family, tmp_path, "first", "better")
    other = stored_runs.RUNS[family](tmp_path, "better", "other", **changes)
    with pytest.raises(IncomparableError, match="differs from that of") as error:
        paired(family, first, other)
    message = str(error.value)
    assert message.startswith(str(first.workdir.path)) and message.endswith(str(other.workdir.path))
    table, *notes = sections_of(family, [first, other, better])[0].elements
    rows = by_head(table)
    assert message in notes and not p_values(rows["other"]) and p_values(rows["better"])
    table, *notes = sections_of(family, [first, other])[0].elements
    assert message in notes and not p_values(by_head(table)["other"])


@pytest.mark.parametrize(
    ("family", "known"),
    [
        ("csan", {"sacrebleu_difference", "p_sacrebleu"}),
        ("attconv", {"right_difference", "p_equal_proportions"}),
    ],
)
def test_runs_without_results_of_examples_are_compared_by_their_scores(family, known, tmp_path):
    first, better = runs_of(family, tmp_path, "first", "better")
    older = stored_runs.RUNS[family](tmp_path, "better", "older", results=False)
    found = paired(family, first, older)
    every = paired(family, first, better).numbers
    assert known <= found.numbers.keys() < every.keys()
    assert found.numbers == pytest.approx({name: every[name] for name in found.numbers})
    assert not {*found.numbers} & {"p_nll", "p_mcnemar", "wins"}
    (note,) = found.notes
    assert note.startswith(f"{older.workdir.path}: no eval/test.examples.tsv; score test")
    assert note in sections_of(family, [first, older])[0].elements


def test_answers_of_older_runs_whose_golds_are_unknown_are_compared(tmp_path):
    older = answers(tmp_path, "first", golds_sha256=None)
    assert "p_f1" in paired("qanet", older, answers(tmp_path, "better")).numbers


def test_answers_are_tested_by_permutation_of_questions(tmp_path):
    numbers = paired("qanet", *runs_of("qanet", tmp_path, "first", "better")).numbers
    for name, scores in (("exact_match", stored_runs.EXACT), ("f1", stored_runs.F1)):
        differences = 100 * (scores["better"].astype(float) - scores["first"])
        expected = [differences.mean(), *stats.ttest_1samp(differences, 0).confidence_interval()]
        interval = [numbers[f"{name}_difference{end}"] for end in ("", "_low", "_high")]
        assert interval == pytest.approx(expected)
        test = stats.permutation_test((differences,), np.mean, permutation_type="samples")  # exact
        p = test.pvalue
        assert numbers[f"p_{name}"] == pytest.approx(p, abs=0.02) and 0.02 < p < 0.98


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [stored_runs.translations(folder, system) for system in SYSTEMS]


def test_translations_have_gaps_to_the_first_run(runs):
    differences, grams = sections_of("csan", runs)
    table, signatures = differences.elements
    rows = by_head(table)
    bleu = lambda name: translation.bleu(SYSTEMS[name], REFERENCES, language="en")
    better = bleu("better")
    assert rows["better"]["sacrebleu gap"] == f"{better - bleu('first'):+.2f}"
    assert rows["first"]["sacrebleu gap"] is rows["first"]["sacrebleu p"] is None
    low, high = EVALUATIONS["csan"](runs[1]).intervals["sacrebleu"]
    assert rows["better"]["sacrebleu"] == f"{better:.2f} ({low:.2f} to {high:.2f})"
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


def test_translations_without_others_on_their_test_have_intervals_but_no_gap(runs, tmp_path):
    low, high = EVALUATIONS["csan"](runs[0]).intervals["sacrebleu"]
    assert low < translation.bleu(SYSTEMS["first"], REFERENCES, language="en") < high
    differences, grams = sections_of("csan", runs[:1])
    assert len(differences.elements[0].rows) == len(grams.elements) == 1
    other = stored_runs.translations(tmp_path, "first", "other", REFERENCES[:9], REFERENCES[:9])
    _, grams = sections_of("csan", [runs[0], other, runs[1]])
    assert [row[0] for row in grams.elements[-1].rows] == ["first", "better"]


TYPES = {"what": [6, 50.0, 60.0], "who": [2, 0.0, 12.5]}

BY_LENGTH = {"10+": [1, 0.0, 20.0], "1": [4, 75.0, 75.0], "4-5": [3, 10.0, 15.0]}


def test_each_kind_of_question_has_its_scores_in_their_order(tmp_path):
    kinds = {"who": [2, 1.0, 2.0], "what": [6, 60.0, 70.0]}
    first = answers(tmp_path, "first", by_question_type=TYPES, by_answer_length=BY_LENGTH)
    better = answers(tmp_path, "better", by_question_type=kinds)
    _, types, lengths = sections_of("qanet", [first, better])
    chart, table = types.elements
    assert [(s.name, s.x, s.y) for s in chart.series] == [
        ("first", ["what", "who"], [60.0, 12.5]),
        ("better", ["what", "who"], [70.0, 2.0]),
    ]
    assert table.rows == [
        ["what", 6, "50.00 / 60.00", "60.00 / 70.00"],
        ["who", 2, "0.00 / 12.50", "1.00 / 2.00"],
    ]
    chart, table = lengths.elements
    assert chart.series[0].x == [row[0] for row in table.rows] == ["1", "4-5", "10+"]


def test_kinds_of_other_questions_are_not_compared(tmp_path):
    first = answers(tmp_path, "first", by_question_type=TYPES)
    other = answers(tmp_path, "better", by_question_type={"why": [8, 1, 2]})
    _, types = sections_of("qanet", [first, other])
    chart, _, note = types.elements
    assert [series.name for series in chart.series] == ["first"]
    assert note == "Not compared, due to other questions: better."
    assert sections_of("qanet", [answers(tmp_path, "first", "alone", results=False)]) == []


def test_lengths_and_confusions_of_labels_are_optional(tmp_path):
    notes = {
        "by_length": [[1, 3, 80.0], [4, 9, 70.0]],
        "confusion": {"no": {"no": 3, "yes": 1}, "yes": {"no": 0, "yes": 6}},
    }
    runs = [stored_runs.labels(tmp_path, "first", **notes), stored_runs.labels(tmp_path, "better")]
    _, lengths, confusion = sections_of("attconv", runs)
    (chart,) = lengths.elements
    assert [(s.name, s.x, s.y) for s in chart.series] == [("first", ["1-3", "4-9"], [80.0, 70.0])]
    _, table = confusion.elements
    assert (table.head, table.rows) == (("first", "no", "yes"), [["no", 3, 1], ["yes", 0, 6]])
    assert table.shaded


CONTEXT = "Ada lives in Rome. Ben, her brother, is a painter in Turin."

SQUAD = Squad(
    [CONTEXT],
    [
        Question("0", "Who lives in Rome?", 0, (Answer("Ada", 0),)),
        Question("1", "Where is Ben?", 0, (Answer("Turin", 53), Answer("in Turin", 50))),
    ],
)


def translated(folder, bleu):
    run = stored_runs.translations(folder, "first")
    (run.workdir.path / "eval" / "test.json").write_text(json.dumps({"sacrebleu": bleu}))
    return EVALUATIONS["csan"](run)


def answered(folder, f1, texts):
    run = answers(folder, "first", texts=texts, f1=f1)
    run.__dict__["corpus"] = SimpleNamespace(
        golds=lambda _: None, texts=lambda _: SQUAD, vocabulary=SimpleNamespace(rule="english")
    )
    return EVALUATIONS["qanet"](run)


def labelled(folder, right, gold):
    """A run whose labels are all "yes", with a corpus of pairs of these labels."""
    run = stored_runs.labels(folder, "first", right=np.full(200, right))
    label = SimpleNamespace(column=lambda _: np.array(gold))
    run.__dict__["corpus"] = SimpleNamespace(
        config=SimpleNamespace(names=("no", "yes"), format="pairs"),
        texts=lambda _: [[f"first\t{n}", "second"] for n in range(len(gold))],
        corpus=lambda _: label,
    )
    return EVALUATIONS["attconv"](run)


BLEU = translation.bleu(SYSTEMS["first"], REFERENCES, language="en")


def test_examples_of_translations_have_the_chrf_of_their_sentences(tmp_path):
    evaluation = translated(tmp_path, BLEU)
    examples = evaluation.predictions
    assert [(one.reference, one.prediction, one.line) for one in examples] == [
        (*pair, "") for pair in zip(REFERENCES, SYSTEMS["first"], strict=True)
    ]
    sentence = CHRF().sentence_score(SYSTEMS["first"][7], [REFERENCES[7]]).score
    assert examples[7].score == sentence
    sources = evaluation.run.workdir.path / "eval" / "test.sources"
    sources.write_text("a source\n" * 60)
    assert EVALUATIONS["csan"](evaluation.run).predictions[59].line == "a source"
    sources.write_text("a source\n" * 59)
    with pytest.raises(UserError, match=r"59 .* 60"):
        _ = EVALUATIONS["csan"](evaluation.run).predictions


def test_examples_of_answers_have_their_f1(tmp_path):
    first, second = answered(tmp_path, 50 * 2 / 3, {"0": "Ben", "1": "Turin Rome"}).predictions
    assert (first.score, second.score) == (0, pytest.approx(100 * 2 / 3))
    assert json.loads(second.line) == {"context": CONTEXT, "question": "Where is Ben?"}
    assert CONTEXT[slice(*second.span)] == second.reference == "Turin"
    assert second.text == f"Where is Ben? {CONTEXT}"


def test_examples_of_labels_have_the_probability_of_the_gold_label(tmp_path):
    *_, last = labelled(tmp_path, 0.0, [0] * 200).predictions
    assert (last.reference, last.prediction, last.score) == ("no", "yes", 40)
    # a tab in a text does not separate texts
    assert (last.line, last.text) == ("first\v199\tsecond", "first\t199 / second")


@pytest.mark.parametrize(
    ("stored", "arguments", "file"),
    [
        (translated, (BLEU + 0.5,), r"test\.predictions\.txt"),
        (answered, (100.0, {"0": "Ada", "2": "Turin"}), r"dev\.predictions\.json"),
        (answered, (100.0, {"0": "Ada", "1": "Rome"}), r"dev\.predictions\.json"),
        (labelled, (0.0, [0] * 199 + [1]), r"test\.predictions\.tsv"),
        (labelled, (1.0, [0] * 200), r"test\.predictions\.tsv"),
    ],
)
def test_predictions_of_another_run_are_rejected(stored, arguments, file, tmp_path):
    with pytest.raises(UserError, match=file):
        _ = stored(tmp_path, *arguments).predictions


def heads(attention, reach):
    pieces = [f"▁{n}" for n in range(attention.shape[1])]
    values = {"attention": [attention.tolist()], "reach": [reach.tolist()]}
    explained = json.dumps({"translation": "t", "pieces": pieces, **values})
    text, (picture,) = TranslationEvaluation.pictured(explained, "system", "0 1")
    assert text == "t"
    return picture


def test_heads_are_drawn_with_the_keys_of_their_neighbours():
    """Of 3 heads with windows of 3 heads and 1 piece, the outermost have one neighbour."""
    attention = np.zeros((3, 2, 3, 2))
    reach = np.zeros((3, 2, 2), int)
    reach[:, 1] = 1
    for head, of in [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]:
        attention[head, [0, 1], of, [0, 1]] = 0.1 * head + 0.01 * of + 0.1
    picture = heads(attention, reach)
    assert picture.across == 3 and picture.rows == ["0", "1"]
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
    picture = heads(np.full((4, 2, 1, 2), 0.5), np.tile([0, 1], (4, 2, 1)))
    assert [(one.title, one.outlines) for one in picture.panels] == [
        (f"head {n}", []) for n in range(1, 5)
    ]


def test_attention_is_drawn_around_the_answer():
    """The answer "painter" is the context's word 12, the reference "Turin" word 14."""
    context = re.findall(r"\w+|[.,]", CONTEXT)
    weights = np.random.default_rng(0).random((len(context), 3)).tolist()
    words, layers = [context, ["Where", "?", "x"]], [[{"weights": weights}]]
    explained = {"answer": "painter", "start": 42, "end": 49, "words": words, "layers": layers}
    line = json.dumps({"context": CONTEXT, "question": "Where? x"})
    _, (picture,) = SpanEvaluation.pictured(json.dumps(explained), "a", line, (53, 58))
    top = 12 - 8
    assert picture.rows == context[top:] and picture.panels[0].values == weights[top:]
    answer, reference = picture.panels[0].outlines
    assert (answer.name, answer.top, [*answer.spans]) == ("answer", 12 - top, [(0, 2)])
    assert (reference.name, reference.top) == ("reference", 14 - top)
    _, (same,) = SpanEvaluation.pictured(json.dumps(explained), "a", line, (42, 49))
    assert [one.name for one in same.panels[0].outlines] == ["answer"]
    del explained["layers"]  # a reader without such attention
    assert SpanEvaluation.pictured(json.dumps(explained), "a", line) == ("painter", [])


def test_attention_between_words_is_drawn():
    weights = [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]
    maps = [
        {"text": 0, "context": 1, "weights": weights},
        {"text": None, "context": 0, "weights": [[0.2, 0.3, 0.5]]},
    ]
    answer = {"label": "yes", "probabilities": {"no": 0.1, "yes": 0.9}, "layers": [maps]}
    answer["words"] = [["a", "b", "c"], ["d", "e"]]
    text, (pair, pooled) = LabelEvaluation.pictured(json.dumps(answer), "run", "a b c\td e")
    assert text == "yes (0.90)"
    assert (pair.rows, pair.columns, pair.panels[0].values) == (*answer["words"], weights)
    assert (pair.y_label, pair.x_label) == ("words of text 1", "words of text 2")
    assert (pooled.rows, pooled.columns) == (["sum 1"], ["a", "b", "c"])
    without = json.dumps({**answer, "layers": []})
    assert LabelEvaluation.pictured(without, "run", "")[1] == []


RANDOM = np.random.default_rng(0)

LENGTHS = RANDOM.integers(3, 9, 40)


@pytest.fixture
def evaluated(tmp_path):
    def make(label, lengths=LENGTHS, **results):
        results = {"length": lengths, **results}
        return Evaluation(stored(tmp_path / label, "dev", {}, results=results), "dev")

    return make


def test_it_is_that_of_the_mean_over_the_runs(evaluated):
    f1 = RANDOM.random((3, 40))
    *runs, baseline = (evaluated(name, f1=own) for name, own in zip("abc", f1, strict=True))
    expected = 100 * np.sqrt(np.var(f1[:2].mean(0) - f1[2], ddof=1) / 40)
    assert Evaluation.example_error(runs, [baseline], "f1") == pytest.approx(expected, rel=1e-4)
    expected = 100 * np.sqrt(np.var(f1[:2].mean(0), ddof=1) / 40)
    assert Evaluation.example_error(runs, [], "f1") == pytest.approx(expected, rel=1e-4)


def test_scores_without_results_or_of_other_examples_have_none(evaluated):
    right = RANDOM.integers(0, 2, 40)
    evaluations = (
        evaluated("a", right=right),
        evaluated("b", right=right),
        evaluated("c", 1 + LENGTHS, right=right),
    )
    for metric in ("f1", "sacrebleu"):
        with pytest.raises(IncomparableError, match=f"no {metric} of the examples of dev"):
            Evaluation.example_error(evaluations[:1], evaluations[1:2], metric)
    with pytest.raises(IncomparableError, match="differs"):
        Evaluation.example_error(evaluations[:1], evaluations[2:], "accuracy")

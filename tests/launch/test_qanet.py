"""The commands on a tiny QANet: scores of files, answers about any text, a report."""

import dataclasses
import functools
import gzip
import json
import os
import string
from collections import Counter

import numpy as np
import pytest

from common_jax.text.squad import Answer, Question, Squad, write_squad
from common_jax.training.config import parse
from common_jax.training.run_writer import RunWriter
from launch import evaluate
from launch.predict import __main__ as predict
from launch.train import __main__ as train
from qanet_jax.data.synthetic import generate
from tests.families.runs import FAMILIES, SIZES
from tests.launch import commands
from tests.launch.commands import fails, scores, squad_scores
from tests.launch.tiny_runs import evaluated, result

FAMILY = FAMILIES["qanet"]
TESTED = SIZES["test"]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    return tiny("qanet", tmp_path_factory.mktemp("qanet"))


def test_another_file_is_scored_under_its_own_name(folder, capsys):
    run, path = folder / "run", folder / "other" / "test.json"
    before = evaluated(run)
    path.parent.mkdir()
    squad = generate(TESTED, 0, "test")
    adversarial = [dataclasses.replace(q, id=f"{q.id}-high-conf-turk0") for q in squad.questions]
    write_squad(path, Squad(squad.contexts, [*squad.questions, *adversarial]))
    printed = scores(capsys, run, "--data", os.path.relpath(path), "--adversarial")
    split = "test.json-adversarial"  # other scores than those of each question by itself
    assert (printed["split"], printed["questions"]) == (split, 2 * TESTED)
    for name in ("f1", "f1_worst"):
        assert printed[name] == pytest.approx(result(run)["metrics"]["test"]["f1"])
    answers = json.loads((run / "eval" / f"{split}.predictions.json").read_text())
    assert len(answers) == 2 * TESTED
    results = commands.example_results(run, split)  # scores of the original questions
    assert results == commands.example_results(run, "test")
    assert before.items() <= evaluated(run).items()


def test_questions_about_any_text_are_answered_from_it(folder, monkeypatch, capsys):
    context = "Ada lives in Zürich. Ben, her 😀 brother, moved to Rome in 1950."
    questions = ["Where does Ada live?", "When did Ben move?"]
    lines = [json.dumps({"id": q, "context": context, "question": q}) for q in questions]
    printed = commands.answers(
        monkeypatch, capsys, lines, "--workdir", folder / "run", "--count", "2"
    )
    answers = [json.loads(line) for line in printed]
    assert [answer["id"] for answer in answers] == questions
    for answer in answers:
        assert len(answer["next"]) == 1
        for span in (answer, *answer["next"]):
            assert context[span["start"] : span["end"]] == span["answer"] != ""
        likely = [span["probability"] for span in (answer, *answer["next"])]
        assert sorted(likely, reverse=True) == likely and sum(likely) <= 1
    crlf = f"{context}\r\nCarl\r\nwas there.\r\n"
    (folder / "context.txt").write_bytes(f"\ufeff{crlf}".encode())
    file = ["--context", str(folder / "context.txt"), "--question", "Who was there?"]
    predict.main(["--workdir", str(folder / "run"), "--count", "9", *file])
    answer = json.loads(capsys.readouterr().out)
    for span in (answer, *answer["next"]):
        assert crlf[span["start"] : span["end"]] == span["answer"] != ""


def test_a_run_without_a_vocabulary_takes_no_file(tmp_path, monkeypatch, capsys):
    RunWriter(tmp_path / "run").claim(parse("configs/qanet/quickstart.py", []))
    argv = ["--workdir", str(tmp_path / "run"), "--data", "dev.json"]
    assert "run: has not been trained" in fails(monkeypatch, capsys, argv, evaluate.main)


def official(predictions, golds):
    """Exact match and F1 as SQuAD v1.1 defines them (Rajpurkar et al. 2016, section 6.1): the means
    over questions of equal words, and of twice the common words among all of both."""

    def words(text):
        letters = "".join(c for c in text.lower() if c not in string.punctuation)
        return [word for word in letters.split() if word not in ("a", "an", "the")]

    scores = []
    for key, text in golds.items():
        own = words(predictions[key])
        gold = words(text)
        common = (Counter(own) & Counter(gold)).total()
        scores.append((own == gold, 2 * common / (len(own) + len(gold))))
    return dict(zip(("exact_match", "f1"), 100 * np.mean(scores, axis=0), strict=True))


IDS = {
    "number and suffix": ("5", "5-1", "6"),
    "UUIDs": ("9a1c-41d2-a", "9a1c-41d2-b", "9a1c"),
    "AddSent's": ("56be", "56be-high-conf-turk0", "56bf"),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
def test_scores_are_the_official_ones_whatever_the_ids(ids, tmp_path, capsys):
    """As the official scorer, which ignores the positions of answers."""
    answers = dict(zip(ids, ["the red cat", "dog!", "green"], strict=True))
    golds = dict(zip(ids, ["red cat", "blue dog", "green"], strict=True))
    asked = [
        {"id": key, "question": "q", "answers": [{"text": text, "answer_start": 0}]}
        for key, text in golds.items()
    ]
    data = json.dumps({"data": [{"paragraphs": [{"context": "a b c", "qas": asked}]}]})
    predictions = tmp_path / "predictions.json"
    plain = tmp_path / "data.json"
    published = tmp_path / "sample1k-HCVerifyAll.json.gz"
    predictions.write_text(json.dumps(answers))
    plain.write_text(data)
    published.write_bytes(gzip.compress(data.encode()))

    scored = functools.partial(squad_scores, capsys, predictions)
    found = scored("--data", plain)
    exact = {name: found[name] for name in ("exact_match", "f1")}
    assert (found["questions"], found["unanswered"], type(found["questions"])) == (3, 0, int)
    assert exact == pytest.approx(official(answers, golds))
    assert "f1_worst" not in found and found["exact_match"] == pytest.approx(200 / 3)
    adversarial = scored("--data", plain, "--adversarial")
    assert adversarial["exact_match_worst"] < found["exact_match"] and "f1_worst" in adversarial
    assert scored("--data", published) == adversarial


def test_ids_that_may_be_questions_or_variants_are_refused(tmp_path, monkeypatch, capsys):
    """They were scored as variants of one question, "dev"."""
    predictions, data = tmp_path / "predictions.json", tmp_path / "dev.json"
    squad = generate(2, 0, "test")
    questions = [dataclasses.replace(q, id=f"dev-{n}") for n, q in enumerate(squad.questions)]
    write_squad(data, Squad(squad.contexts, questions))
    predictions.write_text(json.dumps({q.id: "Rome" for q in questions}))
    argv = ["--task", "squad", "--predictions", str(predictions), "--data", str(data)]
    line = fails(monkeypatch, capsys, [*argv, "--adversarial"], evaluate.main)
    assert "adversarial: 'dev-0' may be a question or a variant" in line
    assert squad_scores(capsys, predictions, "--data", data)["questions"] == 2


def test_a_text_without_spaces_is_refused_unless_accepted(folder, tmp_path, monkeypatch, capsys):
    context = "巴黎是法国的首都。阿达一九〇一年生于罗马。"
    answers = [Answer(text, context.index(text)) for text in ("巴黎", "罗马")] * 3
    questions = [Question(str(n), "哪里", 0, (answer,)) for n, answer in enumerate(answers)]
    for split in SIZES:
        write_squad(tmp_path / f"{split}.json", Squad([context], questions))
    english = [*FAMILY.arguments(tmp_path), "--config.words.rule=english", "--prepare"]
    line = fails(monkeypatch, capsys, english)
    assert "train (train.json): 6 of 6 questions have no gold answer of whole words" in line
    assert "('巴黎' in '巴黎是法国的首都', '罗马' in '阿达一九〇一年生于罗马')" in line
    assert "data.max_unreachable_answers (now 0.1)" in line
    accepted = FAMILY.arguments(tmp_path, **{"data.max_unreachable_answers": 1.0})
    train.main([*accepted, "--prepare"])
    assert scores(capsys, folder / "run", "--data", tmp_path / "test.json")["exact_match"] == 0


def test_report_has_kinds_of_questions(folder):
    page = commands.reported(folder, "run")
    assert commands.titles(page)[-5:] == [
        "Span extraction: by question on test",
        "Span extraction: by words of the answer on test",
        "Span extraction: pictures of an example of test",
        "Span extraction: most confident mistakes on test",
        "Span extraction: calibration on test",
    ]
    assert "run: context-query attention" in page and "no picture" not in page
    stored = json.loads((folder / "run" / "eval" / "test.json").read_text())
    low, high = stored["intervals"]["f1"]
    results = commands.example_results(folder / "run", "test")
    assert stored["f1"] == pytest.approx(100 * sum(results["f1"]) / stored["questions"])
    assert f"{stored['f1']:.2f} ({low:.2f} to {high:.2f})" in page
    for kinds in ("by_question_type", "by_answer_length"):
        counts = [count for count, *_ in stored[kinds].values()]
        weighted = sum(count * f1 for count, _, f1 in stored[kinds].values()) / sum(counts)
        assert sum(counts) == stored["questions"]
        assert weighted == pytest.approx(stored["f1"], abs=0.01)

"""The commands on a tiny QANet: train, evaluate, predict, export, report."""

import dataclasses
import functools
import gzip
import json
import os
import string
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad, write_squad
from common_jax.training.config import parse
from common_jax.training.run_writer import RunWriter
from launch import evaluate, predict, train
from launch.api import evaluation
from qanet_jax.data.synthetic import generate
from tests.launch import commands, tiny_runs
from tests.launch.commands import fails
from tests.launch.tiny_runs import result
from tests.real import needs_real_data, real_data

TINY = {
    **tiny_runs.EVERY_STEP,
    **tiny_runs.TINY["qanet"],
    "data.source": "files",
    "data.train": "train.json",
    "data.dev": "dev.json",
    "data.test": "test.json",
    "words.rows": 60,
}


def arguments(folder, run="run", **changes):
    return commands.arguments("configs/qanet/quickstart.py", folder, run, **(TINY | changes))


def write_data(folder):
    for split, count in (("train", 40), ("dev", 6), ("test", 6)):
        write_squad(folder / f"{split}.json", generate(count, 0, split))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qanet")
    write_data(folder)
    train.main(arguments(folder))
    return folder


def test_train_leaves_the_files_of_the_contract(folder):
    run = folder / "run"
    assert set(result(run)["metrics"]) == {"dev", "test"}
    assert set(result(run)["metrics"]["test"]) == {"exact_match", "f1"}
    answers = json.loads((run / "eval" / "test.predictions.json").read_text())
    assert len(answers) == 6 and all(answers.values())
    results = commands.example_results(run, "test")
    for name, value in result(run)["metrics"]["test"].items():
        assert 100 * sum(results[name]) / 6 == pytest.approx(value)


def test_another_file_is_scored_under_its_own_name(folder, capsys):
    run, path = folder / "run", folder / "other" / "test.json"
    before = {file.name: file.read_bytes() for file in (run / "eval").iterdir()}
    path.parent.mkdir()
    squad = generate(6, 0, "test")
    adversarial = [dataclasses.replace(q, id=f"{q.id}-high-conf-turk0") for q in squad.questions]
    write_squad(path, Squad(squad.contexts, [*squad.questions, *adversarial]))
    evaluate.main(["--workdir", str(run), "--data", os.path.relpath(path), "--adversarial"])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["split"], printed["questions"]) == ("test.json", 12)
    for name in ("f1", "f1_worst"):
        assert printed[name] == pytest.approx(result(run)["metrics"]["test"]["f1"])
    answers = json.loads((run / "eval" / "test.json.predictions.json").read_text())
    assert len(answers) == 12
    results = commands.example_results(run, "test.json")  # scores of the original questions
    assert results == commands.example_results(run, "test")
    for name, content in before.items():
        assert (run / "eval" / name).read_bytes() == content


@pytest.mark.parametrize(
    "file,name",
    [("a/dev-v1.1.json.gz", "dev-v1.1"), ("x.jsonl", "x"), ("test.json.gz", "test.json.gz")],
)
def test_scores_of_a_file_do_not_have_the_name_of_a_split(file, name):
    assert evaluation.name_of(file, ("dev", "test")) == name


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


@pytest.mark.slow
def test_exports_answer_as_the_run_does(folder, monkeypatch, capsys):
    squad = generate(1, 5, "test")
    questions = [(squad.contexts[0], squad.questions[0].text)]
    lines = [json.dumps({"context": c, "question": q}) for c, q in questions]
    ask = functools.partial(commands.answers, monkeypatch, capsys)
    exports = commands.exports(folder, "--count", "5")
    expected = ask(lines, "--workdir", folder / "run", "--count", "2")
    assert json.loads(expected[0])["answer"] and len(json.loads(expected[0])["next"]) == 1
    model = exports["stablehlo"]
    assert commands.same_answers(ask(lines, "--model", model, "--count", "2"), expected)
    # several windows; fewer words than requested spans
    questions += [(f"{squad.contexts[0]} " * 20, "what?"), ("one", "two")]
    lines = [json.dumps({"context": c, "question": q}) for c, q in questions]
    expected = ask(lines, "--workdir", folder / "run", "--count", "5")
    assert [len(json.loads(line)["next"]) for line in expected] == [4, 4, 0]
    assert commands.same_answers(
        commands.answered_without_a_model(model, lines, "--count", "5"), expected
    )
    with pytest.raises(UserError, match="has no program for count=6, but for count=5"):
        ask(lines, "--model", model, "--count", "6")


def test_mistakes_are_one_line(folder, tmp_path, monkeypatch, capsys):
    run = ["--workdir", str(folder / "run")]
    empty, broken = str(tmp_path / "empty.txt"), str(tmp_path / "broken.txt")
    Path(empty).write_bytes(b" \r\n")
    Path(broken).write_bytes(b"abc\xff")
    for argv, main, words in (
        ([*run, "--question", "What?"], predict.main, "--context and --question belong together"),
        ([*run, "--context", "no/file", "--question", "What?"], predict.main, "no/file: No such"),
        (
            [*run, "--context", empty, "--question", "What?"],
            predict.main,
            f"{empty}:1: the context",
        ),
        ([*run, "--context", empty, "--question", " "], predict.main, "--question: has no word"),
        ([*run, "--context", broken, "--question", "x"], predict.main, "not UTF-8 (after 3 bytes)"),
        ([*run, "--data", "no/file"], evaluate.main, "no/file: no such file"),
        ([*run, "--data", "x", "--split", "dev"], evaluate.main, "instead of --split"),
        ([*run, "--predictions", "x"], evaluate.main, "--predictions does not go with --workdir"),
        (["--task", "squad", "--split", "dev"], evaluate.main, "--split does not go with --task"),
        (["--task", "squad", "--average", "1"], evaluate.main, "--average does not go with"),
        (["--task", "squad"], evaluate.main, "--task needs --predictions and --data"),
        (arguments(tmp_path, **{"words.rows": 0}), train.main, "data.vectors"),
        (arguments(tmp_path, **{"data.stride": 400}), train.main, "data.stride=400"),
    ):
        assert words in fails(monkeypatch, capsys, argv, main)


def test_a_run_without_a_vocabulary_takes_no_file(tmp_path, monkeypatch, capsys):
    RunWriter(tmp_path / "run").claim(parse("configs/qanet/quickstart.py", []))
    argv = ["--workdir", str(tmp_path / "run"), "--data", "dev.json"]
    assert "not a complete vocabulary" in fails(monkeypatch, capsys, argv, evaluate.main)


PUBLISHED = "squad/dev-predictions-match-lstm-ensemble.json.gz"


def score(answers, data, capsys, *flags):
    evaluate.main(["--task", "squad", "--predictions", str(answers), "--data", str(data), *flags])
    return json.loads(capsys.readouterr().out)


@needs_real_data
def test_a_published_systems_predictions_have_its_scores(capsys):
    scores = score(real_data(PUBLISHED), real_data("squad/dev-v1.1.json.gz"), capsys)
    assert (scores.pop("questions"), scores.pop("unanswered")) == (10_570, 0)
    assert {k: round(v, 3) for k, v in scores.items()} == {"exact_match": 67.635, "f1": 76.756}


@needs_real_data
def test_adversarial_squad_is_scored_by_both_rules(tmp_path, capsys):
    """A system that answers all variants right has the score of the originals by both rules."""
    data = real_data("squad_adversarial/sample1k-HCVerifyAll.json.gz")
    published = json.loads(gzip.decompress(real_data(PUBLISHED).read_bytes()))
    articles = json.loads(gzip.decompress(data.read_bytes()))["data"]
    ids = [q["id"] for a in articles for p in a["paragraphs"] for q in p["qas"]]
    answers = {key: published[key.split("-")[0]] for key in ids}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    scores = score(tmp_path / "answers.json", data, capsys)
    assert (scores["questions"], scores["unanswered"]) == (3560, 0)
    assert 50 < scores["exact_match"] == scores["exact_match_worst"] < scores["f1"]
    answers |= {key: "x" for key in ids if key.endswith("-turk0")}
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    fooled = score(tmp_path / "answers.json", data, capsys)
    assert fooled["f1"] < scores["f1"] - 20


def one_question(*answers):
    question = {"id": "1", "question": "q", "answers": [*answers]}
    return {"data": [{"paragraphs": [{"context": "a b c", "qas": [question]}]}]}


def test_only_the_texts_of_answers_are_read(tmp_path, capsys):
    """As the official scorer, which ignores the positions of answers."""
    (tmp_path / "data.json").write_text(json.dumps(one_question({"text": "b", "answer_start": 0})))
    (tmp_path / "answers.json").write_text('{"1": "B.", "2": "x"}')
    scores = score(tmp_path / "answers.json", tmp_path / "data.json", capsys)
    assert scores == {"exact_match": 100, "f1": 100, "questions": 1, "unanswered": 0}
    assert type(scores["questions"]) is int


def official(predictions, data):
    """Exact match and F1 as SQuAD v1.1 defines them (Rajpurkar et al. 2016, section 6.1): the mean
    over questions of the best score against any gold answer."""

    def words(text):
        letters = "".join(c for c in text.lower() if c not in string.punctuation)
        return [word for word in letters.split() if word not in ("a", "an", "the")]

    def overlap(words, gold):
        common = sum(min(words.count(word), gold.count(word)) for word in {*words})
        precision, recall = common / max(len(words), 1), common / max(len(gold), 1)
        return 2 * precision * recall / (precision + recall) if common else 0.0

    totals = [0.0, 0.0]
    qas = [q for a in data["data"] for p in a["paragraphs"] for q in p["qas"]]
    for question in qas:
        golds = [words(answer["text"]) for answer in question["answers"]]
        own = words(predictions[question["id"]])
        totals[0] += any(own == gold for gold in golds)
        totals[1] += max(overlap(own, gold) for gold in golds)
    return {
        name: 100 * total / len(qas)
        for name, total in zip(("exact_match", "f1"), totals, strict=True)
    }


IDS = {
    "number and suffix": ("5", "5-1", "6"),
    "UUIDs": ("9a1c-41d2-a", "9a1c-41d2-b", "9a1c"),
    "AddSent's": ("56be", "56be-high-conf-turk0", "56bf"),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
def test_scores_are_the_official_ones_whatever_the_ids(ids, tmp_path, capsys):
    texts = ["red cat", "blue dog", "green"]
    answers = dict(zip(ids, ["the red cat", "dog!", "green"], strict=True))
    qas = [
        {"id": key, "question": "q", "answers": [{"text": text, "answer_start": 0}]}
        for key, text in zip(ids, texts, strict=True)
    ]
    data = {"data": [{"paragraphs": [{"context": "c", "qas": qas}]}]}
    (tmp_path / "data.json").write_text(json.dumps(data))
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    scores = score(tmp_path / "answers.json", tmp_path / "data.json", capsys)
    assert {name: scores[name] for name in ("exact_match", "f1")} == pytest.approx(
        official(answers, data)
    )
    assert "f1_worst" not in scores and scores["exact_match"] == pytest.approx(200 / 3)
    asked = score(tmp_path / "answers.json", tmp_path / "data.json", capsys, "--adversarial")
    assert asked["exact_match_worst"] < scores["exact_match"] and "f1_worst" in asked
    published = tmp_path / "sample1k-HCVerifyAll.json.gz"
    published.write_bytes(gzip.compress(json.dumps(data).encode()))
    assert score(tmp_path / "answers.json", published, capsys) == asked


def test_a_text_without_spaces_is_refused_unless_accepted(folder, tmp_path, monkeypatch, capsys):
    context = "巴黎是法国的首都。阿达一九〇一年生于罗马。"
    for name in ("train", "dev", "test"):
        starts = [context.index(text) for text in ("巴黎", "罗马")]
        answers = [Answer(text, at) for text, at in zip(("巴黎", "罗马"), starts, strict=True)]
        questions = [Question(str(n), "哪里", 0, (answer,)) for n, answer in enumerate(answers * 3)]
        write_squad(tmp_path / f"{name}.json", Squad([context], questions))
    english = [*arguments(tmp_path), "--config.words.rule=english"]
    line = fails(monkeypatch, capsys, [*english, "--prepare"], train.main)
    assert line.startswith(
        "error: train (train.json): 6 of 6 questions have no gold answer of whole words ("
    )
    assert (
        "('巴黎' in '巴黎是法国的首都', '罗马' in '阿达一九〇一年生于罗马'), which no" in line
        and "data.max_unreachable_answers (now 0.1)" in line
    )
    accepted = {"data.max_unreachable_answers": 1.0}
    train.main([*arguments(tmp_path, **accepted), "--prepare"])
    other = ["--workdir", str(folder / "run"), "--data", str(tmp_path / "test.json")]
    evaluate.main(other)
    assert json.loads(capsys.readouterr().out)["exact_match"] == 0


SQUAD = {
    "broken": ('{"data": [', "dev.json:1:", "not JSON"),
    "shape": ('{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "data[0].paragraphs[0].qas[0]", "id"),
    "unanswerable": (json.dumps(one_question()), "qas[0]", "no answers"),
    "empty": ('{"data": []}', "dev.json", "no question"),
}


@pytest.mark.parametrize("name", SQUAD)
def test_invalid_questions_are_one_line_with_their_location(name, tmp_path, monkeypatch, capsys):
    text, place, words = SQUAD[name]
    (tmp_path / "dev.json").write_text(text)
    (tmp_path / "answers.json").write_text('{"1": "b"}')
    files = ["--predictions", str(tmp_path / "answers.json"), "--data", str(tmp_path / "dev.json")]
    line = fails(monkeypatch, capsys, ["--task", "squad", *files], evaluate.main)
    assert place in line and words in line and "on_bad_example" not in line


def test_report_has_kinds_of_questions(folder):
    page = commands.reported(folder, "run")
    assert commands.titles(page)[-3:] == [
        "Span extraction: by question on test",
        "Span extraction: by words of the answer on test",
        "Span extraction: pictures of an example of test",
    ]
    assert "run: context-query attention" in page and "no picture" not in page
    scored = json.loads((folder / "run" / "eval" / "test.json").read_text())
    low, high = scored["intervals"]["f1"]
    results = commands.example_results(folder / "run", "test")
    assert scored["f1"] == pytest.approx(100 * sum(results["f1"]) / scored["questions"])
    assert f"{scored['f1']:.2f} ({low:.2f} to {high:.2f})" in page
    for kinds in ("by_question_type", "by_answer_length"):
        counts = [count for count, *_ in scored[kinds].values()]
        weighted = sum(count * f1 for count, _, f1 in scored[kinds].values()) / sum(counts)
        assert sum(counts) == scored["questions"]
        assert weighted == pytest.approx(scored["f1"], abs=0.01)

"""Answers in Chinese: whole words by either rule, spans of characters, rows for characters."""

import itertools
import json

import jax
import pytest

from common_jax.deploy.service import service_of
from common_jax.text.squad import Answer, Question, Squad, write_squad
from common_jax.text.word_tokenizer import split_words
from qanet_jax.config import Config, DataConfig
from qanet_jax.data.text import TokenizedText, unreachable
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.rnn import RecurrentReader
from qanet_jax.task import SpanExtraction
from tests.common_jax.data.other_tools import copied

_ANSWERS = "北京 上海博物馆 长城 三峡大坝 中山大学 黄河 颐和园 西安 故宫 广州"
_SENTENCES = (
    "我们昨天参观了{}，那里很热闹。",
    "他第一次去{}是在1998年。",
    "“{}”是这本书的题目。",
    "会议于3月5日在{}举行！",
    "最有名的地方是{}。",
)


def gold_answers() -> list[tuple[str, Answer]]:
    """Fifty sentences, each with an answer in it."""
    pairs = itertools.product(_ANSWERS.split(), _SENTENCES)
    return [(text.format(name), Answer(name, text.index("{"))) for name, text in pairs]


@pytest.mark.parametrize(("rule", "count"), [("english", 10), ("unicode", 50)])
def test_gold_answers_that_are_whole_words(rule, count):
    """By the rule for all scripts all, of other languages too (`test_splitting.py`)."""
    found = [
        not unreachable(text, TokenizedText.of(text, rule), [answer])
        for text, answer in gold_answers()
    ]
    assert sum(found) == count


TEXT = "我👩‍👩‍👧住在北京🇨🇳🇨🇳，喝cafe\u0301。हिन्दी में।"


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chinese")
    answers = gold_answers()
    questions = [
        Question(str(n), "在哪里？", n, (answer,)) for n, (_, answer) in enumerate(answers)
    ]
    write_squad(folder / "t.json", Squad([text for text, _ in answers], questions))
    config = Config(
        words=WordsConfig(dim=6, rows=90, char_rows=40),
        model=RecurrentReader(char_dim=4, lstm_size=4),
        data=DataConfig(
            dir=str(folder), train="t.json", dev=copied(folder, "t.json"), cache_dir=str(folder)
        ),
    )
    task = SpanExtraction(config)
    task.prepare()
    return task


def test_predicted_spans_are_exact_characters_of_the_rules_words(task, tmp_path):
    assert not task.data.split("train").questions.meta["unreachable"]["count"]
    task.write_vocabulary(tmp_path)
    task.read_vocabulary(tmp_path)  # as a served run
    params = task.init(jax.random.key(0))
    line = json.dumps({"context": TEXT, "question": "在哪里？"})
    answer = next(service_of(task).predictor(params, explain=True).predict([line])).to_dict()
    words = answer["pointers"]["words"]
    assert words == [TEXT[start:end] for start, end in split_words(TEXT, "unicode")]
    assert {"👩‍👩‍👧", "🇨🇳", "cafe\u0301", "北", "हिन्दी"} <= {*words}
    for span in (answer, *answer["next"]):
        assert span["answer"] == TEXT[span["start"] : span["end"]] != ""


def test_characters_without_rows_are_reported(task, tmp_path, caplog):
    with caplog.at_level("WARNING"):
        task.data.builder().build(tmp_path)
    letters = {c for text, _ in gold_answers() for c in f"{text}在哪里？"}
    assert "words.char_rows=40: " in caplog.text
    assert f"words.char_rows={len(letters) + 2} would have a row for each" in caplog.text

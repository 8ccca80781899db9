"""Gold answers in other languages that are whole words, by either rule of words."""

import json

import jax
import pytest

from common_jax.text.squad import Question, Squad, write_squad
from common_jax.text.word_tokenizer import split_words
from qanet_jax.config import Config, DataConfig
from qanet_jax.data.text import TokenizedText, unreachable
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.rnn import RecurrentReader
from qanet_jax.task import SpanExtraction
from tests.common_jax.data.other_tools import copied
from tests.multilingual import LANGUAGES, gold_answers

# Of fifty; Arabic's others are behind a particle that is part of the word.
REACHABLE = {
    "Chinese": (10, 50),
    "Japanese": (10, 50),
    "Korean": (20, 50),
    "Thai": (10, 50),
    "Arabic": (10, 40),
    "Hindi": (30, 50),
    "Spanish": (30, 50),
}


def _reachable(language, rule):
    answers = gold_answers(language)
    assert all(text[a.start : a.start + len(a.text)] == a.text for text, a in answers)
    words = [TokenizedText.of(text, rule) for text, _ in answers]
    return sum(
        not unreachable(text, w, [answer]) for w, (text, answer) in zip(words, answers, strict=True)
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_fifty_gold_answers(language):
    counts = tuple(_reachable(language, rule) for rule in ("english", "unicode"))
    print(f"{language:10s} english {counts[0]:2d} of 50, unicode {counts[1]:2d} of 50")
    assert counts == REACHABLE[language]
    answers = [(text, a.start, a.start + len(a.text)) for text, a in gold_answers(language)]
    spans = [split_words(text, "unicode") for text, *_ in answers]
    whole = [
        {start, end} <= {edge for span in words for edge in span}
        for words, (_, start, end) in zip(spans, answers, strict=True)
    ]
    assert sum(whole) == counts[1]  # by exact characters


TEXT = "我👩‍👩‍👧住在北京🇨🇳🇨🇳，喝cafe\u0301。हिन्दी में।"


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chinese")
    answers = gold_answers("Chinese")
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
    answer = next(task.predictor(params, explain=True).predict([line])).to_dict()
    words = answer["pointers"]["words"]
    assert words == [TEXT[start:end] for start, end in split_words(TEXT, "unicode")]
    assert {"👩‍👩‍👧", "🇨🇳", "cafe\u0301", "北", "हिन्दी"} <= {*words}
    for span in (answer, *answer["next"]):
        assert span["answer"] == TEXT[span["start"] : span["end"]] != ""


def test_characters_without_rows_are_reported(task, tmp_path, caplog):
    with caplog.at_level("WARNING"):
        task.data.builder().build(tmp_path)
    letters = {c for text, _ in gold_answers("Chinese") for c in f"{text}在哪里？"}
    assert "words.char_rows=40: " in caplog.text
    assert f"words.char_rows={len(letters) + 2} would have a row for each" in caplog.text

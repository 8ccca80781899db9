"""SQuAD, its sentences and words, and word vectors, of the published files."""

import gzip
import json

import numpy as np
import pytest

from common_jax.bad_examples import BadExamples
from common_jax.text.sentence_splitter import split_sentences
from common_jax.text.squad import read_squad
from common_jax.text.vectors import read_vectors
from common_jax.text.word_tokenizer import split_words
from tests.real import needs_real_data, real_data


def paragraphs():
    with gzip.open(real_data("squad/dev-v1.1.json.gz")) as file:
        articles = json.load(file)["data"]
    return [paragraph for article in articles for paragraph in article["paragraphs"]]


@needs_real_data
@pytest.mark.parametrize(
    ("name", "passages", "questions", "answers"),
    [
        pytest.param("squad/train-v1.1.json.gz", 18_896, 87_599, 87_599, marks=pytest.mark.slow),
        ("squad/dev-v1.1.json.gz", 2_067, 10_570, 34_726),
        ("squad_adversarial/sample1k-HCVerifyAll.json.gz", None, 3_560, None),
    ],
)
def test_real_counts(name, passages, questions, answers):
    squad = read_squad(real_data(name), BadExamples("error"))
    assert len(squad.questions) == questions
    if passages:
        assert len(squad.contexts) == passages
        assert sum(len(q.answers) for q in squad.questions) == answers
    else:
        originals = {q.id.split("-")[0] for q in squad.questions}
        assert len(originals) == 1_000 == sum("-" not in q.id for q in squad.questions)


@needs_real_data
def test_glove():
    path = real_data("glove/glove.6B.50d.top9163.txt.gz")
    lines = gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n")
    rows = {line.split(" ")[0]: line.split(" ")[1:] for line in lines}
    words = ["The", "PARIS", "cat", "dog", "king", "queen", ",", "Zyxwv"]
    vectors = read_vectors(path, words, 50, BadExamples("error"))
    for word in words[:-1]:
        row = vectors.table[vectors.rows[word]]
        np.testing.assert_array_equal(row, np.float32(rows[word.lower()]))
    assert vectors.matched == {"exact": 5, "lower": 2, "capitalized": 0, "upper": 0, "missing": 1}
    unit = vectors.table / np.linalg.norm(vectors.table, axis=1, keepdims=True)
    for one, other, cosine in (("cat", "dog", 0.92), ("king", "queen", 0.78)):
        computed = unit[vectors.rows[one]] @ unit[vectors.rows[other]]
        assert computed == pytest.approx(cosine, abs=5e-3)
    assert len(read_vectors(path, rows, 50, BadExamples("error")).table) == 9163


@needs_real_data
def test_paragraphs_of_wikipedia():
    contexts = [paragraph["context"] for paragraph in paragraphs()]
    sentences = [c[start:end] for c in contexts for start, end in split_sentences(c)]
    # About five sentences in a paragraph; few begin in lower case, none end in a title.
    assert 4.5 < len(sentences) / len(contexts) < 5.5
    assert sum(sentence[0].islower() for sentence in sentences) < 0.01 * len(sentences)
    assert not any(sentence.endswith((" Mr.", " Dr.", " Prof.", " Gen.")) for sentence in sentences)


@needs_real_data
def test_answers_of_squad_begin_and_end_with_words():
    answers = hits = 0
    for paragraph in paragraphs()[::6]:
        spans = split_words(paragraph["context"])
        starts, ends = ({span[side] for span in spans} for side in (0, 1))
        for answer in [a for question in paragraph["qas"] for a in question["answers"]]:
            begin = answer["answer_start"]
            answers += 1
            hits += begin in starts and begin + len(answer["text"]) in ends
    assert answers > 5000
    assert hits / answers > 0.995

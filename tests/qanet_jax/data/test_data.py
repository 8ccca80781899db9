"""From SQuAD's JSON to batches: words, answers and windows."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.data import word_level
from common_jax.data.corpus import recorded_identity
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad, write_squad
from common_jax.text.vocabulary import UNKNOWN
from common_jax.text.word_tokenizer import split_words
from qanet_jax.config import Config, DataConfig
from qanet_jax.data import triviaqa
from qanet_jax.data.dataset import ReadingData
from qanet_jax.data.prepare import Builder
from qanet_jax.data.text import TokenizedText, windows
from qanet_jax.models.base import WordsConfig

FACTS = "Ada was born in Paris in 1901. Her brother, Ben, lived in Rome (Italy) until 1950."
LONG = " ".join(f"Word{n} and number {n}." for n in range(60))
FIXED = WordsConfig(dim=3, char_rows=80, rule="english")
TRAINED = WordsConfig(rows=300, char_rows=80, rule="english")
GLOVE = "ada 1 2 3\nparis 4 5 6\nBen 7 8 9\n. 1 1 1\n"


TRAIN = [
    (FACTS, [("a", "Where was Ada born?", "Paris"), ("b", "When was she born?", "1901")]),
    (LONG, [("c", "Which is the last?", "Word59"), ("d", "And the tenth?", "Word9 and number 9")]),
    ("Two words.", [("e", "How many words are there?", "Two")]),
]


def write(path, passages):
    questions = [
        Question(name, text, number, (Answer(answer, context.index(answer)),))
        for number, (context, triples) in enumerate(passages)
        for name, text, answer in triples
    ]
    write_squad(path, Squad([context for context, _ in passages], questions))


@pytest.fixture
def folder(tmp_path):
    for name in ("train", "dev"):
        write(tmp_path / f"{name}.json", TRAIN)
    (tmp_path / "glove.txt").write_text(GLOVE)
    return tmp_path


def prepared(folder, words=None, **changes):
    fields = {
        **{"train": "train.json", "dev": "dev.json", "dir": str(folder)},
        **{"cache_dir": str(folder / "cache"), "batch_size": 2, "max_shapes": 2},
        **{"word_length": 6, "window": 50, "stride": 20},
    }
    config = DataConfig(**{**fields, **changes})
    data = ReadingData(Config(words=words or TRAINED, data=config))
    data.prepare()
    return data


def test_questions_of_train_and_dev_are_counted(folder, caplog):
    write(folder / "dev.json", [*TRAIN[:1], ("One word.", [("x", "How many?", "One")])])
    prepared(folder).report()
    assert "2 of 3 questions of dev are also in train" in caplog.text


def epoch(batches, number=0):
    rows = {}
    for batch in batches.epoch(number):
        for row, index in enumerate(batch["index"]):
            if index >= 0:
                rows[int(index)] = {name: values[row] for name, values in batch.items()}
    return [rows[index] for index in sorted(rows)]


def words(text):
    return [text[start:end] for start, end in split_words(text)]


def test_a_training_batch_has_the_passage_the_question_and_the_answers_words(folder):
    data = prepared(folder)
    texts = [(c, q, a) for c, questions in TRAIN for _, q, a in questions]
    mappings = {"word": {}, "letter": {}}
    rows = epoch(data.train_batches(0))
    assert len(rows) == len(texts)
    for row, (context, question, answer) in zip(rows, texts, strict=True):
        for name, text in (("context", words(context)), ("question", words(question))):
            ids, characters = row[name], row[f"{name}_characters"]
            assert np.count_nonzero(ids) == len(text) and (ids[: len(text)] > 0).all()
            for word, number, letters in zip(text, ids, characters, strict=False):
                length = min(6, len(word))
                assert (letters[:length] > 0).all() and not letters[length:].any()
                assert mappings["word"].setdefault(word, int(number)) == number
                for letter, value in zip(word, letters.tolist(), strict=False):
                    assert mappings["letter"].setdefault(letter, value) == value
            assert not characters[len(text) :].any()
        assert words(context)[row["start"] : row["end"] + 1] == words(answer)
    for numbers in mappings.values():
        assert len(set(numbers.values())) == len(numbers) and min(numbers.values()) > 1


def test_batches_have_the_configured_rows_and_an_epoch_every_question_once(folder):
    batches = prepared(folder, batch_size=3).train_batches(1)
    for number in range(3):
        read = list(batches.epoch(number))
        assert all(len(batch["index"]) == 3 for batch in read)
        index = np.concatenate([batch["index"] for batch in read])
        assert sorted(index[index >= 0]) == list(range(5))


def test_fixed_vectors_are_the_files_and_unknown_words_have_none(folder):
    data = prepared(folder, FIXED, vectors=str(folder / "glove.txt"))
    row = epoch(data.train_batches(0))[0]
    expected = {"Ada": [1, 2, 3], "Paris": [4, 5, 6], "Ben": [7, 8, 9], ".": [1, 1, 1]}
    for word, number, vector in zip(
        words(FACTS), row["context"], row["context_vectors"], strict=False
    ):
        np.testing.assert_array_equal(vector, expected.get(word, [0, 0, 0]))
        assert (number == 1) == (word not in expected)
    assert not row["context_vectors"][len(words(FACTS)) :].any()


def test_evaluation_reads_every_word_of_every_question(folder):
    data = prepared(folder)
    corpus, texts = data.split("dev"), data.texts("dev")
    rows = epoch(data.split_batches("dev"))
    covered = {number: set() for number in range(len(texts.questions))}
    for example, row in enumerate(rows):
        number = int(corpus.numbers[example])
        length = np.count_nonzero(row["context"])
        assert length <= 50
        covered[number] |= {corpus.characters(example, at, at) for at in range(length)}
    for number, question in enumerate(texts.questions):
        assert covered[number] == set(split_words(texts.contexts[question.context]))


def test_long_training_examples_are_dropped_counted_and_reported(folder):
    data = prepared(folder, context_length=30, answer_length=2, question_length=5)
    kinds = data.split("train").questions.meta["dropped"]
    assert {kind: fault["count"] for kind, fault in kinds.items()} == {
        "over data.context_length=30 words": 2,
        "over data.question_length=5 words": 1,
    }
    assert "question e" in kinds["over data.question_length=5 words"]["first"][0]
    assert len(data.texts("dev").questions) == 5


def test_no_remaining_training_examples_is_one_line(folder):
    with pytest.raises(UserError, match=r"train\.json: no questions left for train: 5 over"):
        prepared(folder, context_length=1)


def other_file(folder):
    """Another file, all of whose words and letters but "Ben" the corpus lacks."""
    path = folder / "elsewhere" / "other.json"
    path.parent.mkdir(exist_ok=True)
    write(path, [("Ben 北京 zebra.", [("z", "Who?", "zebra")])])
    return path


def again(data, folder, words, **changes):
    """The data of a later run, whose vocabulary is in `folder`."""
    other = ReadingData(Config(words=words, data=dataclasses.replace(data.config, **changes)))
    other.read_vocabulary(folder)
    other.prepare()
    return other


@pytest.mark.parametrize("numbers", [FIXED, TRAINED])
def test_a_run_reads_other_files_but_notices_other_words(folder, numbers):
    vectors = "" if numbers.rows else str(folder / "glove.txt")
    (folder / "glove.txt").write_text(GLOVE + "zebra 5 6 7\n")
    data = prepared(folder, numbers, vectors=vectors)
    run = folder / "run"
    run.mkdir()
    data.vocabulary.save(run)
    for key in ("dev", "test"):
        other = again(data, run, numbers, **{key: str(other_file(folder))})
        (row,) = epoch(other.split_batches(key))
        ben, town, zebra, _ = row["context"].tolist()[:4]
        assert town == UNKNOWN and row["context_characters"][1, :2].tolist() == [UNKNOWN] * 2
        assert ben == other.vocabulary.word_ids(["Ben"])[0] > UNKNOWN
        if numbers.rows:
            assert ben == data.vocabulary.word_ids(["Ben"])[0] and zebra == UNKNOWN
        else:
            assert row["context_vectors"][:3].tolist() == [[7, 8, 9], [0, 0, 0], [5, 6, 7]]
        expected = data.vocabulary.char_ids(["Ben"], 3).tolist()
        assert row["context_characters"][0, :3].tolist() == expected[0]
    changes = [({"train": str(other_file(folder))}, numbers)]
    if numbers.rows:
        changes.append(({}, dataclasses.replace(numbers, rows=90)))
    else:
        (folder / "others.txt").write_text(GLOVE.replace("7 8 9", "7 8 8"))
        changes.append(({"vectors": str(folder / "others.txt")}, numbers))
    for fields, others in changes:
        with pytest.raises(UserError, match="other words or characters than the run was trained"):
            again(data, run, others, **fields)


@pytest.mark.parametrize("numbers", [FIXED, TRAINED])
def test_characters_and_trained_words_are_those_of_the_training_split(folder, numbers):
    vectors = "" if numbers.rows else str(folder / "glove.txt")
    data = prepared(folder, numbers, vectors=vectors, dev=str(other_file(folder)))
    letters = {letter for context, questions in TRAIN for letter in context + str(questions)}
    numbers = data.vocabulary.char_ids(["zebra北京"], 7)[0].tolist()
    assert [n == UNKNOWN for n in numbers] == [letter not in letters for letter in "zebra北京"]
    assert numbers[-2:] == [UNKNOWN, UNKNOWN]


def test_the_home_folders_vectors_and_how_many_words_have_one(folder, monkeypatch, caplog):
    monkeypatch.setenv("HOME", str(folder))
    (folder / "glove.txt").write_text(GLOVE + "cat 1 2\n")
    with pytest.raises(UserError, match=r"^data\.vectors: .*glove\.txt:5: 2 numbers after"):
        prepared(folder, FIXED, vectors="~/glove.txt")
    data = prepared(folder, FIXED, vectors="~/glove.txt", on_bad_example="skip")
    with caplog.at_level("INFO"):
        data.report()
    texts = [text for c, questions in TRAIN for text in (c, *(q for _, q, _ in questions))]
    every = {word for text in texts for word in words(text)}
    in_file = [word for word in every if word in {"Ada", "Paris", "Ben", "."}]
    share = f"{100 * len(in_file) / len(every):.1f}% of {len(every)} distinct words have a vector"
    assert share in caplog.text
    assert "~/glove.txt: left out 1 2 numbers after a word, not 3 (" in caplog.text


def test_vectors_of_few_tokens_are_reported(folder, caplog):
    def reported(text):
        (folder / "glove.txt").write_text(text)
        caplog.clear()
        prepared(folder, FIXED, vectors="~/glove.txt", on_bad_example="skip").report()
        return caplog.text

    texts = [text for c, questions in TRAIN for text in (c, *(q for _, q, _ in questions))] * 2
    tokens = [word.lower() for text in texts for word in words(text)]
    covered = 100 * tokens.count("and") / len(tokens)
    assert covered < 20
    few = f"only {covered:.1f}% of the text's {len(tokens)} tokens have a vector; is the file of"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        assert few in reported("and 1 2 3\n") and "rows are left out" not in caplog.text
        assert "1 words have none, as their rows are left out" in reported("and 1 2 3\n. 1 x 3\n")
        frequent = ["and", "number", ".", "in", "was", "the", ",", "?"]
        many = "".join(f"{word} 1 2 3\n" for word in frequent)
        assert sum(tokens.count(word) for word in frequent) > 0.2 * len(tokens)
        assert "tokens have a vector" not in reported(many)


def test_answers_that_are_not_whole_words_are_counted(folder, caplog):
    context = "It began in the 1990s, and Anna's brother-in-law came."
    answers = ["1990", "beg", "Anna's", "the 1990s,", "came", "It", "in", "and", "began", "law"]
    write(folder / "dev.json", [(context, [(str(n), "?", a) for n, a in enumerate(answers)])])
    with pytest.raises(
        UserError, match=r"^dev \(dev\.json\): 2 of 10 questions have no gold answer of"
    ):
        prepared(folder)
    with caplog.at_level("INFO"):
        prepared(folder, max_unreachable_answers=0.2).report()
    assert (
        "dev: 2 of 10 questions have no gold answer of whole words ('1990' in '1990s', 'beg' in "
        "'began')" in caplog.text
    )
    assert "train: 0 of 5 questions have no gold answer of whole words\n" in caplog.text


def test_another_tokeniser_prepares_anew(folder, monkeypatch):
    config = Config(words=TRAINED, data=prepared(folder).config)
    before = Builder(config).fingerprint()
    changes = [
        ("importlib.metadata.version", lambda name: "0.0"),
        (f"{word_level.__name__}.TOKENISER", recorded_identity(0, "")),
        (f"{triviaqa.__name__}.IDENTITY", recorded_identity(0, "")),
    ]
    for name, other in changes:
        with monkeypatch.context() as patch:
            patch.setattr(name, other)
            assert Builder(config).fingerprint() != before
    assert Builder(config).fingerprint() == before


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_dev_is_held_out_by_passages(tmp_path, form):
    passages = [
        (
            f"Box {n} has {n + 100} red and {n + 200} green cups.",
            [(f"{n}", "How many are red?", f"{n + 100}")],
        )
        for n in range(30)
    ]
    passages = [
        (text, [*asked, (f"{asked[0][0]}b", "Which box?", "Box")]) for text, asked in passages
    ]
    if form == "json":
        write(tmp_path / "all.json", passages)
    else:
        rows = [
            {"context": text, "question": question, "id": name, "answers": [answer]}
            for text, asked in passages
            for name, question, answer in asked
        ]
        (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ids = {}
    for seed in (0, 0, 1):
        fields = {"train": f"all.{form}", "dev": "", "holdout_size": 9, "seed": seed}
        data = prepared(tmp_path, TRAINED, **fields)
        dev = data.texts("dev")
        assert len(data.split("train").numbers) == 50 and len(dev.questions) == 10
        contexts = {question.context for question in dev.questions}
        assert contexts == {*range(5)} == {*range(len(dev.contexts))}
        for question in dev.questions:
            text = dict(passages)[dev.contexts[question.context]]
            assert (question.id, question.text, question.answers[0].text) in text
        assert ids.setdefault(seed, dev) == dev
    assert ids[0] != ids[1]
    with pytest.raises(UserError, match="holdout_size=60: too many for 60 questions to train on"):
        prepared(tmp_path, TRAINED, train=f"all.{form}", dev="", holdout_size=60)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"dev": "", "train": "a.json,b.json"},
            "data.dev: name the file; it is held out of a single",
        ),
        ({"dev": "", "format": "triviaqa"}, "data.dev: name the file; it is held out of a single"),
        ({"train": ""}, "data.train: name the file"),
        (
            {"source": "tfds", "tfds": "trivia_qa/rc", "format": "triviaqa_lines"},
            "data.format=triviaqa_lines: a dataset has the format squad or triviaqa",
        ),
    ],
)
def test_configs_that_cannot_be(fields, message):
    with pytest.raises(UserError, match=message):
        DataConfig(**{"dir": "data", **fields})


@pytest.mark.parametrize("rows", [-1, 1, 2])
def test_a_table_of_words_has_one_for_a_word(rows):
    with pytest.raises(UserError, match=f"words.rows={rows}: 0, or at least 3"):
        WordsConfig(rows=rows)


TRIVIA = [
    {"id": "a", "question": "Who?", "aliases": ["Ada"], "context": FACTS},
    {"id": "b", "question": "Where?", "aliases": ["Oslo"], "context": FACTS},
    {"id": "c", "question": "Where?", "aliases": ["Rome"], "context": FACTS},
]


def test_the_oracles_questions_are_those_with_a_window(folder):
    for name in ("train", "dev"):
        lines = "".join(json.dumps(row) + "\n" for row in TRIVIA)
        (folder / f"{name}.json").write_text(lines)
    data = prepared(folder, format="triviaqa_lines")
    assert data.splits == ("train", "dev_oracle", "dev")
    names = {split: [gold["QuestionId"] for gold in data.golds(split)] for split in data.splits[1:]}
    assert names == {"dev_oracle": ["a", "c"], "dev": ["a", "b", "c"]}
    dropped = data.split("dev_oracle").questions.meta["dropped"]
    assert dropped["question without a window"] == {"count": 1, "first": ["b"]}
    assert not data.split("dev").questions.meta["dropped"]
    assert not (data.path / "train" / "golds.json").exists()
    with_test = dataclasses.replace(data.config, test="dev.json")
    assert ReadingData(Config(words=TRAINED, data=with_test)).splits == (
        "train",
        "dev_oracle",
        "dev",
        "test",
    )


@given(st.integers(0, 400), st.integers(1, 30), st.data())
def test_every_short_span_lies_in_a_window(length, answer, draw):
    stride = draw.draw(st.integers(1, 60))
    window = stride + answer + draw.draw(st.integers(0, 20))
    cuts = windows(length, window, stride)
    assert all(0 <= start <= stop <= length and stop - start <= window for start, stop in cuts)
    for first in range(max(0, length - answer + 1)):
        assert any(start <= first and first + answer <= stop for start, stop in cuts)


@given(st.text(alphabet="ab .-\u05d0😀", max_size=30), st.data())
def test_an_answers_words_are_those_it_has_a_character_of(text, draw):
    start = draw.draw(st.integers(0, len(text)))
    end = draw.draw(st.integers(start, len(text)))
    span = TokenizedText.of(text, "english").locate(Answer(text[start:end], start))
    inside = [n for n, (a, b) in enumerate(split_words(text)) if a < end and b > start]
    assert span == ((inside[0], inside[-1]) if inside else None)

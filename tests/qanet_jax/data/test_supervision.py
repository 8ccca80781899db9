"""Distantly supervised spans and their windows, by hand and against brute force."""

import collections
import gzip
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common_jax.bad_examples import BadExamples
from common_jax.text.word_tokenizer import split_words
from qanet_jax.data.triviaqa import (
    DEV_WINDOW,
    SUPERVISED_WORDS,
    TRAIN_WINDOW,
    Document,
    Trivia,
    first_words,
    read_sample,
    supervise,
    window_start,
)
from tests.real import needs_real_data, real_data


def question(text: str, *aliases: str, name="q") -> Trivia:
    return Trivia(name, "Who?", aliases, aliases, False, (Document("d", text),))


def span(text: str, *aliases: str) -> str | None:
    squad = supervise([question(text, *aliases)], 10_000, 0, BadExamples("error"), answered=False)
    (supervised,) = squad.questions
    for answer in supervised.answers:
        assert squad.contexts[supervised.context][answer.start :].startswith(answer.text)
    return supervised.answers[0].text if supervised.answers else None


@pytest.mark.parametrize(
    ("text", "aliases", "expected"),
    [
        ("Then SUNSET blvd came.", ["Sunset Blvd"], "SUNSET blvd"),
        ("In sunset\n\u00a0boulevard, then Sunset Blvd", ["Sunset Blvd", "Sunset Boulevard"], 0),
        ("Boxers boxed; the boxer won.", ["Boxer"], "boxer"),
        ("New York City", ["York", "New York", "New York City", "City"], "New York City"),
        ("C++ or C?", ["C", "C++"], "C++"),
        ("the band (R.E.M.)", ["R.E.M."], "R.E.M."),
        ("naïve Na naïf", ["na"], "Na"),
        ("İstanbul and Istanbul", ["istanbul"], None),
        ("a 🚁 flew", ["🚁"], "🚁"),
        ("It was 1743-built", ["743", "1743"], "1743"),
        ("nothing", [], None),
        ("nothing", ["", " "], None),
    ],
)
def test_spans_by_hand(text, aliases, expected):
    if expected == 0:
        expected = text[3:20]
    if text.startswith("İ"):  # its lower case has two characters: offsets must not change
        assert span(text, *aliases) in ("İstanbul", "Istanbul")
    else:
        assert span(text, *aliases) == expected


def brute_force(text: str, aliases: list[str]) -> str | None:
    """The first of all substrings that are an alias; the longest of those with the same start."""
    plain = lambda string: " ".join(string.split()).lower()
    names = {plain(alias) for alias in aliases} - {""}
    word = lambda at: 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")
    for start in range(len(text)):
        for stop in range(len(text), start, -1):
            inside = text[start:stop]
            complete = not word(start - 1) and not word(stop)
            if complete and inside == inside.strip() and plain(inside) in names:
                return inside
    return None


@given(st.text("abA -.\n", max_size=25), st.lists(st.text("abA -.", max_size=4), max_size=4))
@settings(max_examples=300)
def test_spans_against_brute_force(text, aliases):
    if text.strip():
        assert span(text, *aliases) == brute_force(text, aliases)


@pytest.mark.parametrize(
    ("count", "first", "stop", "width"),
    [(30, 10, 12, 8), (30, 0, 1, 8), (30, 29, 30, 8), (30, 3, 11, 8), (5, 2, 3, 8), (8, 7, 8, 8)],
)
def test_every_window_that_can_be_is_as_likely(count, first, stop, width):
    length = min(width, count)
    possible = [
        start for start in range(count - length + 1) if start <= first and stop <= start + length
    ]
    rounds = 300 * len(possible)
    draws = [window_start(count, (first, stop), width, random.Random(n)) for n in range(rounds)]
    counts = collections.Counter(draws)
    assert set(counts) == set(possible)
    assert all(220 < number < 380 for number in counts.values())  # 300 expected, within 5 sigma


def long_text(length: int, answer: int) -> str:
    return " ".join("Zebra" if n == answer else f"word{n}" for n in range(length))


@pytest.mark.parametrize("width", [TRAIN_WINDOW, DEV_WINDOW])
def test_windows(width):
    names = [f"q{n}" for n in range(40)]
    many = [question(long_text(2_000, 20 * n), "zebra", name=q) for n, q in enumerate(names)]
    bad_examples = BadExamples("error")
    squad = supervise(many, width, 5, bad_examples)
    assert not bad_examples.counts and [q.id for q in squad.questions] == [f"{q}--d" for q in names]
    starts = []
    for number, (each, context) in enumerate(zip(squad.questions, squad.contexts, strict=True)):
        words = context.split(" ")
        assert len(words) == width and each.context == number
        (answer,) = each.answers
        assert answer.text == "Zebra" and context[answer.start :].startswith("Zebra")
        starts.append(words.index("Zebra"))
        assert long_text(2_000, 20 * number).startswith(context) or words[0] != "word0"
        last = int(words[-1].removeprefix("word")) if words[-1] != "Zebra" else 20 * number
        assert last < SUPERVISED_WORDS
    assert len(set(starts)) > 20  # anywhere in the window
    alone = supervise([many[17]], width, 5, bad_examples)
    assert alone.contexts == [squad.contexts[17]]  # independent of the other documents
    others = supervise(many, width, 6, bad_examples).contexts
    assert sum(a != b for a, b in zip(others, squad.contexts, strict=True)) > 30


def test_what_has_no_window():
    texts = {
        "inside": long_text(900, 799),
        "outside": long_text(900, 800),
        "none": long_text(900, 900),
        "empty": " \n",
        "short": "Zebra",
    }
    many = [question(text, "zebra", name=name) for name, text in texts.items()]
    bad_examples = BadExamples("error")
    squad = supervise(many, 400, 0, bad_examples)
    assert [q.id for q in squad.questions] == ["inside--d", "short--d"]
    assert squad.contexts[1] == "Zebra"
    assert bad_examples.counts == {
        "document without an answer": {"count": 2, "first": ["outside--d", "none--d"]},
        "empty document": {"count": 1, "first": ["empty--d"]},
    }
    squad = supervise(many, 400, 0, BadExamples("error"), answered=False)
    assert [len(q.answers) for q in squad.questions] == [1, 0, 0, 1]
    assert squad.contexts[1] == " ".join(f"word{n}" for n in range(400))
    bad_examples = BadExamples("error")
    assert not supervise([question("one two three", "one two three")], 2, 0, bad_examples).questions
    assert bad_examples.counts["answer longer than the window"]["count"] == 1


PROSE = (
    "In 1743 Dr. Smith (b. 1701) said: “We'll go to St. Ives, won't we?” It rained... "
    "The U.S. and the U.K. agreed; prices rose 3.5% to $4,000.\n\n== History ==\n"
)


@given(st.integers(0, 80), st.integers(0, 60))
@settings(max_examples=40)
def test_first_words_equal_those_of_the_complete_text(start, count):
    text = (PROSE * 12)[start:]
    assert first_words(text, count) == split_words(text)[:count]


@needs_real_data
@pytest.mark.parametrize(
    ("name", "questions", "expected", "blank"),
    [("wiki_dev_7993", 7_983, 4_719, 3), ("wiki_train_sample", 772, 492, 0)],
)
def test_real_spans(name, questions, expected, blank):
    """Agrees with reference spans, except for a no-break space in a name."""
    path = real_data(f"triviaqa_short/{name}.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        spans = {row["id"]: row["span"] for row in map(json.loads, file)}
    read = list(read_sample(path, BadExamples("error")))
    assert len(read) == len(spans) == questions
    assert sum(span is not None for span in spans.values()) == expected
    # A subset in both formats, for speed: one in ten, and all that could differ.
    odd = [q for q in read if spans[q.id] is None and "\u00a0" in q.documents[0].text]
    some = [q for q in read[::10] if q not in odd]
    bad_examples = BadExamples("error")
    squad = supervise(odd + some, TRAIN_WINDOW, 0, bad_examples)
    by_id = {q.id.split("--")[0]: q for q in squad.questions}
    assert len([q for q in odd if q.id in by_id]) == blank
    assert {q.id for q in some if q.id in by_id} == {q.id for q in some if spans[q.id]}
    for trivia in some:
        if trivia.id in by_id:  # contexts are short: the window is all of them
            question = by_id[trivia.id]
            shift = trivia.documents[0].text.index(squad.contexts[question.context])
            assert question.answers[0].start + shift <= spans[trivia.id][0]

"""TriviaQA's release, JSON lines and TensorFlow Dataset; distantly supervised spans and their
windows, by hand and against brute force."""

import collections
import functools
import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common_jax.bad_examples import BadExamples
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.text.word_tokenizer import split_words
from qanet_jax.data import triviaqa
from qanet_jax.data.sources import File
from qanet_jax.data.triviaqa import Document, Trivia, read_release, read_sample, supervise
from tests.common_jax.data import tfds_builder
from tests.families.data.corpora import write_trivia
from tests.real import needs_real_data, real_data
from tests.refusals import refusal

SUNSET = {
    "Answer": {
        "Aliases": ["Sunset Blvd", "Sunset Boulevard", "Sunset Blvd."],
        "NormalizedAliases": ["sunset blvd", "sunset boulevard"],
        "Type": "WikipediaEntity",
        "Value": "Sunset Boulevard",
    },
    "EntityPages": [
        {"DocSource": "TagMe", "Filename": "Andrew_Lloyd_Webber.txt", "Title": "A. L. W."},
        {"DocSource": "Search", "Filename": "Évita.txt", "Title": "Évita"},
    ],
    "Question": "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
    "QuestionId": "tc_33",
    "QuestionPartOfVerifiedEval": True,
    "QuestionSource": "http://www.triviacountry.com/",
}
TEXTS = {
    "Andrew_Lloyd_Webber.txt": "He wrote Cats.\nThen came  sunset\nblvd. and more.\n",
    "Évita.txt": "Nothing of it here.",
}
PLAIN = Trivia(
    "tc_33",
    SUNSET["Question"],
    ("Sunset Boulevard", "Sunset Blvd", "Sunset Blvd.", "sunset blvd", "sunset boulevard"),
    ("sunset blvd", "sunset boulevard"),
    True,
    tuple(Document(name, text.removesuffix("\n")) for name, text in TEXTS.items()),
)


def release(folder: Path, *questions: dict) -> Path:
    return write_trivia(folder, "dev", questions, TEXTS)


def read(path: Path, policy="error") -> tuple[list[Trivia], dict[str, int]]:
    bad_examples = BadExamples(policy)
    questions = list(read_release(path, bad_examples))
    return questions, {kind: fault["count"] for kind, fault in bad_examples.counts.items()}


def another(**changes):
    return {**SUNSET, "QuestionId": "b", **changes}


def test_the_release(tmp_path):
    assert read(release(tmp_path, SUNSET)) == ([PLAIN], {})
    human = {**SUNSET["Answer"], "HumanAnswers": ["Sunset", "The Boulevard!"]}
    number = {"Type": "Numerical", "Value": "7", "Aliases": ["7", "seven"], "Number": "7"}
    number |= {"NormalizedAliases": ["7", "seven"]}
    other = another(Answer=number, QuestionPartOfVerifiedEval=False)
    (first, second), dropped = read(release(tmp_path, {**SUNSET, "Answer": human}, other))
    assert first.golds == ("sunset blvd", "sunset boulevard", "sunset", "boulevard")
    assert first.aliases == PLAIN.aliases  # what annotators answered is not searched in documents
    assert (second.aliases, second.verified) == (("7", "seven"), False)
    assert not dropped


def test_file_names_in_another_case(tmp_path):
    pages = [{"Filename": "andrew_lloyd_WEBBER.txt"}, {"Filename": "E\u0301vita.txt"}]
    ((trivia,), _) = read(release(tmp_path, {**SUNSET, "EntityPages": pages}))
    assert [document.text for document in trivia.documents] == [d.text for d in PLAIN.documents]


PAGES = SUNSET["EntityPages"]
UNSTORED = {"Title": "a page that was never stored"}
UNANSWERED = {key: SUNSET[key] for key in ("Question", "EntityPages")} | {"QuestionId": "b"}
# Questions, the error after the file's name (None: there is none), and what is skipped.
SKIPPED = [
    (
        [{**SUNSET, "EntityPages": [*PAGES, UNSTORED]}, another(EntityPages=[])],
        *(None, {"page without a file": 1, "question without a document": 1}),
    ),
    (
        [{**SUNSET, "EntityPages": [*PAGES, UNSTORED, {"Filename": "Gone.txt"}]}],
        "Data[0].EntityPages[3] 'Gone.txt': no such file in evidence/wikipedia; fix",
        {"page without a file": 1, "no such file in evidence/wikipedia": 1},
    ),
    ([SUNSET, another(Question=" ")], "Data[1]: empty question; fix it", {"empty question": 1}),
    *(
        ([SUNSET, {**UNANSWERED, **answer}], "Data[1]: no answers; fix it", {"no answers": 1})
        for answer in (
            *({}, {"Answer": {}}),  # as in the test file
            {"Answer": {"Aliases": [], "NormalizedAliases": [" "]}},
        )
    ),
    *(
        ([SUNSET, {**SUNSET, **changes}], f"Data[1]{message}", None)
        for changes, message in (
            ({"QuestionId": 3}, ".QuestionId: a whole number where a string is needed"),
            ({"Answer": {"Aliases": ["a", None]}}, ".Answer.Aliases[1]: null where a string"),
            ({"Question": "\ud83d"}, ".Question: '\\ud83d' is an unpaired surrogate"),
            ({"EntityPages": [{"Filename": 3}]}, ".EntityPages[0].Filename: a whole number"),
            ({}, " 'tc_33': an id that an earlier question has; fix it"),
        )
    ),
]


@pytest.mark.parametrize(("questions", "message", "counts"), SKIPPED)
def test_pages_and_questions_that_cannot_be_read(tmp_path, questions, message, counts):
    path = release(tmp_path, *questions)
    if message:
        line = refusal(read, path).replace(f"{tmp_path}/", "")
        assert line.startswith(f"qa/wikipedia-dev.json: {message}")
    read_questions, skipped = read(path, "skip" if message else "error")
    assert [question for question in read_questions if question.documents] == [PLAIN]
    if counts:
        assert {k.replace(f"{tmp_path}/", ""): count for k, count in skipped.items()} == counts


def test_a_question_without_a_document_is_scored_as_unanswered(tmp_path):
    """It counts 0 by the official script, which reads all questions of the file."""
    path = release(tmp_path, SUNSET, another(EntityPages=[]))
    dev = triviaqa.Supervised(File(path), lines=False, split="dev", seed=0, rule="english")
    content = dev.read(BadExamples("error"))
    assert [gold["QuestionId"] for gold in content.golds] == [SUNSET["QuestionId"], "b"]
    assert {question.id.partition("--")[0] for question in content.squad.questions} == {"tc_33"}


def test_a_corpus_is_that_of_its_documents(tmp_path):
    path = release(tmp_path, SUNSET)
    dev = triviaqa.Supervised(File(path), lines=False, split="dev", seed=0, rule="english")
    before = dev.identity()
    assert dev.identity() == before
    (tmp_path / "evidence" / "wikipedia" / "Évita.txt").write_text("Nothing of it is here.")
    assert dev.identity() != before


def test_a_document_that_is_no_text(tmp_path):
    path = release(tmp_path, SUNSET)
    file = tmp_path / "evidence" / "wikipedia" / "Évita.txt"
    file.write_bytes(b"one\n\xff")
    assert refusal(read, path).startswith(f"{file}:2: not UTF-8 (byte 0xff")
    ((trivia,), counts) = read(path, "skip")
    assert trivia.documents == PLAIN.documents[:1] and counts == {"unreadable": 1}
    (tmp_path / "evidence").rename(tmp_path / "elsewhere")
    assert refusal(read, path).startswith(f"{tmp_path}/evidence/wikipedia: no such folder; ")


ROW = {"id": "a", "question": "Who?", "aliases": ["Bo", "Bo", " "], "context": "Bo.", "span": 3}


def test_the_sample(tmp_path):
    path = tmp_path / "dev.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(ROW).encode() + b"\n\n"))
    assert list(read_sample(path, BadExamples("error"))) == [
        Trivia("a", "Who?", ("Bo",), ("Bo",), False, (Document("a", "Bo."),))
    ]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (ROW, " 'a': an id that an earlier question has; fix it, or set "),
        ({**ROW, "id": "b", "question": ""}, ": empty question; fix it, or set "),
        ({**ROW, "id": "b", "aliases": [" "]}, ": no answers; fix it, or set "),
        (3, ": a whole number where an object is needed"),
        ("[" * 100_000, ": not JSON that can be read"),
        ({**ROW, "id": "b", "context": "Bo \ud83d"}, ": context: '\\ud83d' is an unpaired"),
        ("\udcff", ": not UTF-8 (byte 0xff after 0 bytes)"),
    ],
    ids=range(7),
)
def test_a_bad_line_of_the_sample(tmp_path, bad, message):
    line = bad if isinstance(bad, str) else json.dumps(bad)
    lines = [json.dumps(ROW), line, json.dumps({**ROW, "id": "last"})]
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(lines), "utf-8", "surrogateescape")
    with pytest.raises(UserError, match="on_bad_example=skip") as error:
        list(read_sample(path, BadExamples("error")))
    assert str(error.value).startswith(f"{path}:2{message}")
    bad_examples = BadExamples("skip")
    assert [trivia.id for trivia in read_sample(path, bad_examples)] == ["a", "last"]
    assert [fault["count"] for fault in bad_examples.counts.values()] == [1]


def question(text: str, *aliases: str, name="q") -> Trivia:
    return Trivia(name, "Who?", aliases, aliases, False, (Document("d", text),))


def span(text: str, *aliases: str) -> str | None:
    squad = supervise([question(text, *aliases)], 10_000, 0, BadExamples("error"), answered=False)
    (supervised,) = squad.questions
    for answer in supervised.answers:
        assert squad.contexts[supervised.context][answer.start :].startswith(answer.text)
    return supervised.answers[0].text if supervised.answers else None


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
@example("In sunset\n\u00a0boulevard, then Sunset Blvd", ["Sunset Blvd", "Sunset Boulevard"])
@example("Boxers boxed; the boxer won.", ["Boxer"])
@example("New York City", ["York", "New York", "New York City", "City"])
@example("C++ or C?", ["C", "C++"])
@example("the band (R.E.M.)", ["R.E.M."])
@example("naïve Na naïf", ["na"])
@example("a 🚁 flew", ["🚁"])
@example("It was 1743-built", ["743", "1743"])
def test_spans_against_brute_force(text, aliases):
    if text.strip():
        assert span(text, *aliases) == brute_force(text, aliases)


def test_a_lower_case_of_two_characters_moves_no_offset():
    assert span("İstanbul and Istanbul", "istanbul") in ("İstanbul", "Istanbul")


@pytest.mark.parametrize(
    ("count", "first", "stop", "width"),
    [(30, 10, 12, 8), (30, 0, 1, 8), (30, 29, 30, 8), (30, 3, 11, 8), (5, 2, 3, 8), (8, 7, 8, 8)],
)
def test_every_window_that_can_be_is_as_likely(count, first, stop, width):
    length = min(width, count)
    possible = [
        start for start in range(count - length + 1) if start <= first and stop <= start + length
    ]
    draw = functools.partial(triviaqa.window_start, count, (first, stop), width)
    draws = [draw(random.Random(n)) for n in range(300 * len(possible))]
    counts = collections.Counter(draws)
    assert set(counts) == set(possible)
    assert all(220 < number < 380 for number in counts.values())  # 300 expected, within 5 sigma


def long_text(length: int, answer: int) -> str:
    return " ".join("Zebra" if n == answer else f"word{n}" for n in range(length))


@pytest.mark.parametrize("width", [triviaqa.TRAIN_WINDOW, triviaqa.DEV_WINDOW])
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
        assert last < triviaqa.SUPERVISED_WORDS
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
    assert triviaqa.first_words(text, count) == split_words(text)[:count]


def features(types, config):
    """Those of trivia_qa that are read."""
    texts = lambda *names: {name: types.Text() for name in names}
    described = texts("question", "question_id")
    if config == "rc":
        aliases = {name: types.Sequence(types.Text()) for name in ("aliases", "normalized_aliases")}
        described |= {
            "entity_pages": types.Sequence(texts("filename", "wiki_context")),
            "search_results": types.Sequence(texts("filename")),
            "answer": aliases,
        }
    return types.FeaturesDict(described)


def examples(config):
    for key, name, web in [("a", "q1", 0), ("b", "q1", 0), ("c", "q2", 2), ("d", "q3", 0)]:
        row = {"question": f"Who is {name}?", "question_id": name}
        if config == "rc":
            pages = ["x", "y"] if name != "q3" else []
            row["entity_pages"] = {
                "filename": [f"{page}.txt" for page in pages],
                "wiki_context": [f"Bo of {page} – é" for page in pages],
            }
            row["search_results"] = {"filename": ["w"] * web}
            row["answer"] = {"aliases": ["Bo", "Bó"], "normalized_aliases": ["bo"]}
        yield key, row


@pytest.mark.slow
def test_tensorflow_datasets(tmp_path):
    splits = lambda config: {"validation": examples(config)}
    tfds_builder.register("pubquiz", ("rc", "other"), features, splits)
    dataset = Dataset("pubquiz/rc", str(tmp_path))
    bad_examples = BadExamples("error")
    trivia, alone = triviaqa.read_dataset(dataset, "validation", "data.dev", bad_examples)
    assert (alone.id, alone.documents) == ("q3", ())
    documents = tuple(Document(f"{page}.txt", f"Bo of {page} – é") for page in "xy")
    assert trivia == Trivia("q1", "Who is q1?", ("Bo", "Bó", "bo"), ("bo",), False, documents)
    assert {kind: fault["count"] for kind, fault in bad_examples.counts.items()} == {
        "question of the web domain": 1,
        "repeated question": 1,
        "question without a document": 1,
    }
    with pytest.raises(UserError, match=r"data\.dev='dev': pubquiz/rc has the splits validation"):
        list(triviaqa.read_dataset(dataset, "dev", "data.dev", bad_examples))
    other = Dataset("pubquiz/other", str(tmp_path))
    with pytest.raises(UserError, match=r"pubquiz/other: not of the form of trivia_qa/rc \(KeyEr"):
        list(triviaqa.read_dataset(other, "validation", "data.dev", bad_examples))


@pytest.mark.slow
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
    squad = supervise(odd + some, triviaqa.TRAIN_WINDOW, 0, bad_examples)
    by_id = {q.id.split("--")[0]: q for q in squad.questions}
    assert len([q for q in odd if q.id in by_id]) == blank
    assert {q.id for q in some if q.id in by_id} == {q.id for q in some if spans[q.id]}
    for trivia in some:
        if trivia.id in by_id:  # contexts are short: the window is all of them
            question = by_id[trivia.id]
            shift = trivia.documents[0].text.index(squad.contexts[question.context])
            assert question.answers[0].start + shift <= spans[trivia.id][0]

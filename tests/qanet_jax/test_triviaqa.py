"""TriviaQA in its three forms, and spans and windows against brute force."""

import collections
import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.faults import Faults
from common_jax.text.words import split_words
from qanet_jax.triviaqa import (
    DEV_WINDOW,
    SUPERVISED_WORDS,
    TRAIN_WINDOW,
    Document,
    Trivia,
    first_words,
    read_dataset,
    read_release,
    read_sample,
    supervise,
    window_start,
)
from tests.real import needs_real_data, real_data

SUNSET = {
    "Answer": {
        "Aliases": ["Sunset Blvd", "Sunset Boulevard", "Sunset Blvd."],
        "MatchedWikiEntityName": "Sunset Boulevard",
        "NormalizedAliases": ["sunset blvd", "sunset boulevard"],
        "NormalizedMatchedWikiEntityName": "sunset boulevard",
        "NormalizedValue": "sunset boulevard",
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
    "QuestionVerifiedEvalAttempt": True,
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
    """The official folders, with these questions."""
    (folder / "qa").mkdir(exist_ok=True)
    (folder / "evidence" / "wikipedia").mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        (folder / "evidence" / "wikipedia" / name).write_text(text, "utf-8")
    path = folder / "qa" / "wikipedia-dev.json"
    data = {"Data": questions, "Domain": "Wikipedia", "VerifiedEval": False, "Version": 1.0}
    path.write_text(json.dumps(data, indent=4))
    return path


def read(path: Path, policy="error") -> tuple[list[Trivia], dict[str, int]]:
    faults = Faults(policy)
    questions = list(read_release(path, faults))
    return questions, {kind: fault["count"] for kind, fault in faults.kinds.items()}


def says(path: Path) -> str:
    with pytest.raises(UserError) as error:
        read(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_release(tmp_path):
    assert read(release(tmp_path, SUNSET)) == ([PLAIN], {})
    human = {**SUNSET["Answer"], "HumanAnswers": ["Sunset", "The Boulevard!"]}
    number = {"Type": "Numerical", "Value": "7", "Aliases": ["7", "seven"], "Number": "7"}
    number |= {"NormalizedAliases": ["7", "seven"]}
    (first, second), dropped = read(
        release(
            tmp_path,
            {**SUNSET, "Answer": human},
            {**SUNSET, "QuestionId": "b", "Answer": number, "QuestionPartOfVerifiedEval": False},
        )
    )
    assert first.golds == ("sunset blvd", "sunset boulevard", "sunset", "boulevard")
    assert first.aliases == PLAIN.aliases  # people's answers are the gold's, not the document's
    assert (second.aliases, second.verified) == (("7", "seven"), False)
    assert not dropped


def test_files_named_in_another_case(tmp_path):
    pages = [{"Filename": "andrew_lloyd_WEBBER.txt"}, {"Filename": "E\u0301vita.txt"}]
    ((found,), _) = read(release(tmp_path, {**SUNSET, "EntityPages": pages}))
    assert [document.text for document in found.documents] == [d.text for d in PLAIN.documents]


def test_pages_and_questions_that_are_left_out(tmp_path):
    pages = [*SUNSET["EntityPages"], {"Title": "a page that was never stored"}]
    path = release(
        tmp_path, {**SUNSET, "EntityPages": pages}, {**SUNSET, "QuestionId": "b", "EntityPages": []}
    )
    assert read(path) == ([PLAIN], {"page without a file": 1, "question without a document": 1})
    path = release(tmp_path, {**SUNSET, "EntityPages": [*pages, {"Filename": "Gone.txt"}]})
    place = f"{path}: Data[0].EntityPages[3] 'Gone.txt'"
    assert says(path).startswith(f"{place}: no such file in {tmp_path}/evidence/wikipedia; mend")
    questions, counts = read(path, "skip")
    assert questions == [PLAIN]
    assert counts[f"no such file in {tmp_path}/evidence/wikipedia"] == 1
    path = release(tmp_path, SUNSET, {**SUNSET, "QuestionId": "b", "Question": " "})
    assert f"{path}: Data[1]: empty question; mend it" in says(path)
    asked = {key: SUNSET[key] for key in ("Question", "EntityPages")} | {"QuestionId": "b"}
    for answer in ({}, {"Answer": {}}, {"Answer": {"Aliases": [], "NormalizedAliases": [" "]}}):
        path = release(tmp_path, SUNSET, {**asked, **answer})  # as in the test file
        assert f"{path}: Data[1]: no answers; mend it" in says(path)
        assert read(path, "skip") == ([PLAIN], {"no answers": 1})


def test_a_document_that_is_no_text(tmp_path):
    path = release(tmp_path, SUNSET)
    file = tmp_path / "evidence" / "wikipedia" / "Évita.txt"
    file.write_bytes(b"one\n\xff")
    assert says(path).startswith(f"{file}:2: not UTF-8 (byte 0xff")
    ((found,), counts) = read(path, "skip")
    assert found.documents == PLAIN.documents[:1] and counts == {"unreadable": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"QuestionId": 3}, "Data[1].QuestionId: a whole number where a string is needed"),
        ({"Answer": []}, "Data[1].Answer: a list where an object is needed"),
        ({"Answer": {"Aliases": ["a", None]}}, "Data[1].Answer.Aliases[1]: null where a string"),
        ({"Question": "\ud83d"}, "Data[1].Question: '\\ud83d' is half a character"),
        ({"EntityPages": 3}, "Data[1].EntityPages: a whole number where a list is needed"),
        ({"EntityPages": [{"Filename": 3}]}, "Data[1].EntityPages[0].Filename: a whole number"),
        ({}, "Data[1] 'tc_33': an id that an earlier question has; mend it"),
    ],
)
def test_another_form(tmp_path, changes, message):
    path = release(tmp_path, SUNSET, {**SUNSET, **changes})
    assert says(path).startswith(f"{path}: {message}")
    assert read(path, "skip")[0] == [PLAIN]


def test_a_question_that_is_none(tmp_path):
    path = release(tmp_path, SUNSET, 3)
    assert says(path).startswith(f"{path}: Data[1]: a whole number where an object is needed")
    assert read(path, "skip") == ([PLAIN], {"unreadable": 1})


def test_missing_evidence(tmp_path):
    path = release(tmp_path, SUNSET)
    (tmp_path / "evidence").rename(tmp_path / "elsewhere")
    assert says(path) == (
        f"{tmp_path}/evidence/wikipedia: no such folder; unpack the release's evidence"
    )


def test_the_sample(tmp_path):
    path = tmp_path / "dev.jsonl.gz"
    row = {"id": "a", "question": "Who?", "aliases": ["Bo", "Bo", " "], "context": "Bo.", "span": 3}
    path.write_bytes(gzip.compress(json.dumps(row).encode() + b"\n\n"))
    assert list(read_sample(path, Faults("error"))) == [
        Trivia("a", "Who?", ("Bo",), ("Bo",), False, (Document("a", "Bo."),))
    ]
    path = tmp_path / "dev.jsonl"
    for bad, message in [
        (row, ":2 'a': an id that an earlier question has; mend it, or set "),
        ({**row, "id": "b", "question": ""}, ":2: empty question; mend it, or set "),
        ({**row, "id": "b", "aliases": [" "]}, ":2: no answers; mend it, or set "),
        ({"id": "b"}, ":2: no 'aliases'; it has id"),
        (3, ":2: a whole number where an object is needed"),
        ('{"id"}', ":2:6: not JSON"),
        ("[" * 100_000, ":2: not JSON that can be read"),
        ({**row, "id": "b", "context": "Bo \ud83d"}, ": context: '\\ud83d' is half a character"),
        ({**row, "id": "\udc00"}, ": id: '\\udc00' is half a character"),
        ({**row, "id": "b", "aliases": ["\udc00"]}, ": aliases[0]: '\\udc00' is half a "),
        ("\udcff", ":2: not UTF-8 (byte 0xff after 0 bytes)"),
    ]:
        line = bad if isinstance(bad, str) else json.dumps(bad)
        lines = [json.dumps(row), line, json.dumps({**row, "id": "last"})]
        path.write_text("\n".join(lines), "utf-8", "surrogateescape")
        with pytest.raises(UserError) as error:
            list(read_sample(path, Faults("error")))
        said = str(error.value)
        assert said.startswith(f"{path}:2") and message in said and "on_bad_example=skip" in said
        faults = Faults("skip")
        assert [trivia.id for trivia in read_sample(path, faults)] == ["a", "last"]
        assert [fault["count"] for fault in faults.kinds.values()] == [1]


def question(text: str, *aliases: str, name="q") -> Trivia:
    return Trivia(name, "Who?", aliases, aliases, False, (Document("d", text),))


def span(text: str, *aliases: str) -> str | None:
    squad = supervise([question(text, *aliases)], 10_000, 0, Faults("error"), answered=False)
    (asked,) = squad.questions
    for answer in asked.answers:
        assert squad.contexts[asked.context][answer.start :].startswith(answer.text)
    return asked.answers[0].text if asked.answers else None


@pytest.mark.parametrize(
    ("text", "aliases", "found"),
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
def test_spans_by_hand(text, aliases, found):
    if found == 0:
        found = text[3:20]
    if text.startswith("İ"):  # whose small letter is two: offsets must not move
        assert span(text, *aliases) in ("İstanbul", "Istanbul")
    else:
        assert span(text, *aliases) == found


def brute_force(text: str, aliases: list[str]) -> str | None:
    """The first of all substrings that are a name, the longest of those that start there."""
    plain = lambda string: " ".join(string.split()).lower()
    names = {plain(alias) for alias in aliases} - {""}
    word = lambda at: 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")
    for start in range(len(text)):
        for stop in range(len(text), start, -1):
            inside = text[start:stop]
            whole = not word(start - 1) and not word(stop)
            if whole and inside == inside.strip() and plain(inside) in names:
                return inside
    return None


@given(st.text("abA -.\n", max_size=25), st.lists(st.text("abA -.", max_size=4), max_size=4))
@settings(max_examples=300, deadline=None)
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
    faults = Faults("error")
    squad = supervise(many, width, 5, faults)
    assert not faults.kinds and [q.id for q in squad.questions] == [f"{q}--d" for q in names]
    starts = []
    for number, (asked, context) in enumerate(zip(squad.questions, squad.contexts, strict=True)):
        words = context.split(" ")
        assert len(words) == width and asked.context == number
        (answer,) = asked.answers
        assert answer.text == "Zebra" and context[answer.start :].startswith("Zebra")
        starts.append(words.index("Zebra"))
        assert long_text(2_000, 20 * number).startswith(context) or words[0] != "word0"
        last = int(words[-1].removeprefix("word")) if words[-1] != "Zebra" else 20 * number
        assert last < SUPERVISED_WORDS
    assert len(set(starts)) > 20  # anywhere in the window
    alone = supervise([many[17]], width, 5, faults)
    assert alone.contexts == [squad.contexts[17]]  # whatever else there is
    others = supervise(many, width, 6, faults).contexts
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
    faults = Faults("error")
    squad = supervise(many, 400, 0, faults)
    assert [q.id for q in squad.questions] == ["inside--d", "short--d"]
    assert squad.contexts[1] == "Zebra"
    assert faults.kinds == {
        "document that names no answer": {"count": 2, "first": ["outside--d", "none--d"]},
        "empty document": {"count": 1, "first": ["empty--d"]},
    }
    squad = supervise(many, 400, 0, Faults("error"), answered=False)
    assert [len(q.answers) for q in squad.questions] == [1, 0, 0, 1]
    assert squad.contexts[1] == " ".join(f"word{n}" for n in range(400))
    faults = Faults("error")
    assert not supervise([question("one two three", "one two three")], 2, 0, faults).questions
    assert faults.kinds["answer longer than the window"]["count"] == 1


def test_each_document_is_its_own_question():
    both = Trivia(
        "q", "Who?", ("Bo",), ("bo",), False, (Document("a", "Bo"), Document("b", "a Bo"))
    )
    squad = supervise([both], 256, 0, Faults("error"))
    assert [q.id for q in squad.questions] == ["q--a", "q--b"]
    assert squad.contexts == ["Bo", "a Bo"]


PROSE = (
    "In 1743 Dr. Smith (b. 1701) said: “We'll go to St. Ives, won't we?” It rained... "
    "The U.S. and the U.K. agreed; prices rose 3.5% to $4,000.\n\n== History ==\n"
)


@given(st.integers(0, 80), st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_first_words_are_those_of_the_whole_text(start, count):
    text = (PROSE * 12)[start:]
    assert first_words(text, count) == split_words(text)[:count]


def register() -> None:
    """Makes `tfds.builder("pubquiz/...")` known, with trivia_qa's features."""
    import numpy as np
    import tensorflow_datasets as tfds

    if "pubquiz" in tfds.list_builders(with_community_datasets=False):
        return
    text = tfds.features.Text()
    texts = lambda *names: {name: text for name in names}

    class Pubquiz(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [  # noqa: RUF012
            tfds.core.BuilderConfig(name=name) for name in ("rc", "other")
        ]

        def _info(self):
            features = {
                **texts("question", "question_id", "question_source"),
                "entity_pages": tfds.features.Sequence(
                    texts("doc_source", "filename", "title", "wiki_context")
                ),
                "search_results": tfds.features.Sequence(
                    {**texts("description", "filename", "title", "url"), "rank": np.int32}
                    | texts("search_context")
                ),
                "answer": {
                    "aliases": tfds.features.Sequence(text),
                    "normalized_aliases": tfds.features.Sequence(text),
                    **texts("matched_wiki_entity_name", "normalized_matched_wiki_entity_name"),
                    **texts("normalized_value", "type", "value"),
                },
            }
            if self.builder_config.name == "other":
                features = texts("question", "question_id")
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, dl_manager):
            return {"validation": self._generate_examples()}

        def _generate_examples(self):
            for key, name, web in [("a", "q1", 0), ("b", "q1", 0), ("c", "q2", 2), ("d", "q3", 0)]:
                row = {"question": f"Who is {name}?", "question_id": name}
                if self.builder_config.name == "other":
                    yield key, row
                    continue
                pages = ["x", "y"] if name != "q3" else []
                yield (
                    key,
                    {
                        **row,
                        "question_source": "",
                        "entity_pages": {
                            "doc_source": [""] * len(pages),
                            "filename": [f"{page}.txt" for page in pages],
                            "title": pages,
                            "wiki_context": [f"Bo of {page} – é" for page in pages],
                        },
                        "search_results": {
                            **{
                                field: ["w"] * web
                                for field in ("description", "filename", "title", "url")
                            },
                            "rank": [0] * web,
                            "search_context": ["Bo"] * web,
                        },
                        "answer": {
                            "aliases": ["Bo", "Bó"],
                            "normalized_aliases": ["bo"],
                            "matched_wiki_entity_name": "",
                            "normalized_matched_wiki_entity_name": "",
                            "normalized_value": "bo",
                            "type": "",
                            "value": "Bo",
                        },
                    },
                )


def test_tensorflow_datasets(tmp_path):
    register()
    dataset = Dataset("pubquiz/rc", str(tmp_path))
    faults = Faults("error")
    (found,) = read_dataset(dataset, "validation", "data.dev", faults)
    documents = tuple(Document(f"{page}.txt", f"Bo of {page} – é") for page in "xy")
    assert found == Trivia("q1", "Who is q1?", ("Bo", "Bó", "bo"), ("bo",), False, documents)
    assert {kind: fault["count"] for kind, fault in faults.kinds.items()} == {
        "question of the web's": 1,
        "question that was there already": 1,
        "question without a document": 1,
    }
    with pytest.raises(UserError, match=r"data\.dev='dev': pubquiz/rc has the splits validation"):
        list(read_dataset(dataset, "dev", "data.dev", faults))
    other = Dataset("pubquiz/other", str(tmp_path))
    with pytest.raises(UserError, match=r"pubquiz/other: not of the form of trivia_qa/rc \(KeyEr"):
        list(read_dataset(other, "validation", "data.dev", faults))


@needs_real_data
@pytest.mark.parametrize(
    ("name", "questions", "theirs", "blank"),
    [("wiki_dev_7993", 7_983, 4_719, 3), ("wiki_train_sample", 772, 492, 0)],
)
def test_real_spans(name, questions, theirs, blank):
    """Agrees with spans that others found, but for a no-break space in a name."""
    path = real_data(f"triviaqa_short/{name}.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        given = {row["id"]: row["span"] for row in map(json.loads, file)}
    read = list(read_sample(path, Faults("error")))
    assert len(read) == len(given) == questions
    assert sum(span is not None for span in given.values()) == theirs
    # The same few in either form, so that nobody waits: one in ten, and all that could differ.
    odd = [q for q in read if given[q.id] is None and "\u00a0" in q.documents[0].text]
    some = [q for q in read[::10] if q not in odd]
    faults = Faults("error")
    squad = supervise(odd + some, TRAIN_WINDOW, 0, faults)
    found = {q.id.split("--")[0]: q for q in squad.questions}
    assert len([q for q in odd if q.id in found]) == blank
    assert {q.id for q in some if q.id in found} == {q.id for q in some if given[q.id]}
    for trivia in some:
        if trivia.id in found:  # contexts are short: the window is all of them
            asked = found[trivia.id]
            shift = trivia.documents[0].text.index(squad.contexts[asked.context])
            assert asked.answers[0].start + shift <= given[trivia.id][0]

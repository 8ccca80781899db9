"""Files as people have them are prepared as each family's own files are (formats and compressions:
tests/common_jax/data/test_formats.py); an example that cannot be read, or has no text or label, is
an error in one line that names its place, or skipped, counted and reported."""

import dataclasses
import functools
import gzip
import json
import logging
from typing import Any

import numpy as np
import pytest

from attconv_jax.predictor import schema_of
from common_jax.data.corpus import Corpus
from common_jax.errors import UserError
from common_jax.training.config import parse
from launch.predict.records import file_records
from tests.common_jax.data import other_tools
from tests.common_jax.data.other_tools import comma_separated, indented, json_lines, parquet
from tests.families.data import corpora
from tests.families.data.corpora import LABELLED, NAMES, PAIRS, PREPARED, QUESTIONS, TITLES, squad


def write_files(folder, pattern, write, rows):
    """The file of a name, or those of a pattern, whose numbers have one digit or two."""
    if "*" not in pattern:
        (folder / pattern).write_bytes(write(rows))
        return
    for number, part in enumerate(np.array_split(np.arange(len(rows)), 3), start=8):
        file = folder / pattern.replace("*", f"{number}-of-3")
        file.write_bytes(write([rows[n] for n in part]))


def wmt(pairs):
    """As the hub stores WMT."""
    return [{"translation": {"de": target, "en": source}} for source, target in pairs]


def flat(pairs):
    return [{"id": n, "en": en, "de": de} for n, (en, de) in enumerate(pairs)]


def spreadsheet(rows):
    """Semicolons, a byte order mark and CRLF."""
    return comma_separated(rows, ";", bom=True, lineterminator="\r\n")


def one(value):
    """A file that is a single value of JSON."""
    return json.dumps(value).encode()


def hub_squad(impossible=()):
    """Rows of the hub's squad and squad_v2."""
    rows = []
    for context, name, question, texts in QUESTIONS:
        texts = [] if name in impossible else texts
        answers = {"text": texts, "answer_start": [context.index(text) for text in texts]}
        row = {"id": name, "title": TITLES[context], "context": context, "question": question}
        rows.append(row | {"answers": answers})
    return rows


def mrqa():
    """MRQA's lines."""
    lines: list[dict[str, Any]] = [{"header": {"dataset": "SQuAD", "split": "train"}}]
    for context in TITLES:
        qas = []
        for of, name, question, texts in QUESTIONS:
            if of != context:
                continue
            found = [
                {"text": text, "char_spans": [span(context, text)], "token_spans": [[0, 0]]}
                for text in texts
            ]
            qa = {"qid": name, "question": question, "question_tokens": [["x", 0]]}
            qas.append(qa | {"answers": texts, "detected_answers": found})
        lines.append({"id": "", "context": context, "context_tokens": [["x", 0]], "qas": qas})
    return lines


def span(context, text):
    start = context.index(text)
    return [start, start + len(text) - 1]


def hub_mrqa():
    rows = []
    for context, name, question, texts in QUESTIONS:
        spans = [span(context, text) for text in texts]
        starts = [{"start": [start], "end": [end]} for start, end in spans]
        row = {"subset": "SQuAD", "context": context, "qid": name, "question": question}
        row |= {"context_tokens": {"tokens": ["x"], "offsets": [0]}, "answers": texts}
        rows.append(row | {"detected_answers": {"text": texts, "char_spans": starts}})
    return rows


def other_questions():
    rows = []
    for number, (context, _, question, texts) in enumerate(QUESTIONS):
        gold = {"texts": texts[:1], "text": texts}
        gold["answer_start"] = [context.index(text) for text in texts]
        rows.append({"passage": context, "uid": number, "q": question, "gold": gold})
    return rows


def flat_questions():
    return [
        {"context": c, "question": q, "answer": t[0], "answer_start": float(c.index(t[0])), "x": 1}
        for c, _, q, t in QUESTIONS
    ]


def annotation_tool():
    """No version, an id that is missing and others that are numbers."""
    saved = squad()
    qas = [qa for a in saved["data"] for p in a["paragraphs"] for qa in p["qas"]]
    del saved["version"], qas[0]["id"], qas[0]["is_impossible"]
    for number, qa in enumerate(qas[1:]):
        qa["id"] = number
    return saved


def snli(keys=("gold_label", "sentence1", "sentence2"), label=str, **more):
    """Rows of SNLI's JSON lines, or with other keys and labels."""
    return [{**more, **dict(zip(keys, (label(n), *texts), strict=True))} for n, *texts in LABELLED]


HUB = ("label", "premise", "hypothesis")


def numbers(names=NAMES):
    return lambda label: -1 if label == "-" else names.index(label)


def as_floats(label):
    return f"{numbers()(label)}.0"


REVERSED = NAMES[::-1]
WITHOUT_TABS = [
    {"sentence1_binary_parse": "( a )", **row, "sentence2": row["sentence2"].replace("\t", " ")}
    for row in snli(label1="x")
]
REVIEWS = [(1 + n % 5, f'Good, "{n}";\nreally\n\ngood.') for n in range(15)]
YELP = [{"review_id": "x", "stars": float(s), "useful": 0, "text": t} for s, t in REVIEWS]
YELP_HUB = [{"label": stars - 1, "text": text} for stars, text in REVIEWS]
STARS = [f"{n} star{'s' * (n > 1)}" for n in range(1, 6)]


def yelp_review_full(reviews):
    rows = [(stars, text.replace('"', '""').replace("\n", "\\n")) for stars, text in reviews]
    return "".join(f'"{stars}","{text}"\n' for stars, text in rows).encode()


def wikiqa(*keys, label=int):
    """Rows of question id, question, title, sentence and label, with these keys."""
    rows = [
        (f"Q{q}", f"who is person {q}?", f"Title {q // 2}", f"Person {q} is {s}.", label(s == 1))
        for q in range(6)
        for s in range(3)
    ]
    return [dict(zip(keys, row, strict=True)) for row in rows]


WIKIQA_HUB = wikiqa("question_id", "question", "document_title", "answer", "label")
WIKIQA_NAMES = wikiqa(
    *("qid", "question", "title", "sentence", "answer"), label=lambda right: ("no", "yes")[right]
)


QUESTION_COLUMNS = "context=passage,question=q,answers=gold.text"
TEXTS = {"format": "texts"}
RANKING = {"format": "ranking"}
# The corpus that is equal, and how the rows are written; the name or pattern, options, and what
# the log says.
LAYOUTS = {
    "SQuAD of the hub": (
        *("squad_v2", parquet, hub_squad(("b", "e")), "t-*.parquet", {}),
        "t-8-of-3.parquet: columns as in SQuAD: context = context, question = question, "
        "answers = answers, id = id, title = title",
    ),
    "MRQA": (
        *("squad", lambda rows: gzip.compress(json_lines(rows)), mrqa(), "m.jsonl.gz", {}),
        "m.jsonl.gz: columns as in MRQA's own files: ",
    ),
    "MRQA of the hub": (
        *("squad", parquet, hub_mrqa(), "m.parquet", {}),
        "m.parquet: columns as in MRQA, an answer's of",
    ),
    "questions with other names": (
        *("squad", indented, other_questions(), "o.json", {"columns": QUESTION_COLUMNS}, ""),
    ),
    "questions of a spreadsheet": (
        *("squad", spreadsheet, flat_questions(), "flat.csv"),
        {"columns": "context=context,question=question,answers=answer"},
        "",
    ),
    "answers as JSON in a cell": (
        *("squad", comma_separated),
        [{**row, "answers": json.dumps(row["answers"])} for row in hub_squad()],
        *("hub.csv", {}, ""),
    ),
    "an annotation tool": ("squad", one, annotation_tool(), "tool.json", {}, ""),
    "SNLI of the hub": (
        *("snli", parquet, snli(HUB, numbers()), "hub-*.parquet", {}),
        "hub-8-of-3.parquet: labels by number: 0 = entailment, 1 = neutral, 2 = contradiction",
    ),
    "MultiNLI's own text": (
        *("snli", other_tools.tab_separated, WITHOUT_TABS, "multinli_1.0_train.txt", {}, ""),
    ),
    "labels in another order": (
        *("snli", lambda rows: parquet(rows, {"label": REVERSED})),
        *(snli(HUB, numbers(REVERSED)), "t.parquet", {}, ""),
    ),
    "labels as floats": ("snli", parquet, snli(label=as_floats), "t.parquet", {}, ""),
    "Yelp's full reviews": (
        *("yelp", yelp_review_full, REVIEWS, "y.csv", TEXTS | {"escaped_breaks": True}, ""),
    ),
    "Yelp of the hub": (
        *("yelp", lambda rows: parquet(rows, {"label": STARS}), YELP_HUB, "y.parquet"),
        TEXTS | {"labels": ",".join(STARS)},
        "y.parquet: labels by number: 0 = 1 star, 1 = 2 stars, 2 = 3 stars, 3 = 4 stars, 4 =",
    ),
    "WikiQA of the hub": (
        *("wikiqa", lambda rows: parquet(rows, {"label": ("0", "1")}), WIKIQA_HUB, "hub.parquet"),
        RANKING,
        "hub.parquet: columns as in WikiQA: question = question, sentence = answer, label = label",
    ),
    "passages of the hub": ("articles", parquet, hub_squad(), "hub-*.parquet", RANKING, ""),
    "sentences with answers": (
        *("wikiqa", json_lines, WIKIQA_NAMES, "names.jsonl", RANKING),
        "names.jsonl: columns as in sentences with answer as label: question = question, s",
    ),
}

WORDS_ONLY = ("squad", "MultiNLI's own text")  # other ids and titles, or blanks for tabs
OWN_WIKIQA = wikiqa("QuestionID", "Question", "DocumentTitle", "Sentence", "Label")
OWN_SNLI = snli(annotator_labels=[], pairID="x")
# For each corpus its family, its own file, and the examples that are left out of dev.
NATIVE = {
    "squad": ("qanet", one, squad(), "own.json", {}, {}),
    "squad_v2": (
        *("qanet", one, squad(impossible=("b", "e")), "own.json", {}),
        {"impossible question": 2},
    ),
    "snli": ("attconv", json_lines, OWN_SNLI, "snli.jsonl", {}, {"labelled '-'": 3}),
    "yelp": ("attconv", json_lines, YELP, "y.json", TEXTS, {}),
    "articles": ("attconv", one, squad(), "own.json", RANKING, {}),
    "wikiqa": ("attconv", other_tools.tab_separated, OWN_WIKIQA, "WikiQA-train.tsv", RANKING, {}),
}


def words_of(digests):
    return {k: v for k, v in digests.items() if k.endswith((".tokens", ".offsets"))}


@pytest.fixture(scope="module")
def natives(tmp_path_factory):
    """The digests of each corpus's own files."""
    digests = {}
    for key, (family, write, rows, name, options, expected) in NATIVE.items():
        folder = tmp_path_factory.mktemp(key)
        write_files(folder, name, write, rows)
        data = PREPARED[family](folder, name, **options)
        assert corpora.dropped(data, "dev") == expected
        digests[key] = data.digests()
    return digests


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_prepared_as_the_familys_own_files(layout, natives, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    native, write, rows, name, options, said = LAYOUTS[layout]
    write_files(tmp_path, name, write, rows)
    family, *_, expected = NATIVE[native]
    data = PREPARED[family](tmp_path, name, **options)
    parts = words_of if {native, layout} & {*WORDS_ONLY} else dict
    assert parts(data.digests()) == parts(natives[native])
    assert corpora.dropped(data, "dev") == expected
    assert said in caplog.text


# How each split's pairs are written, the pattern of the files, and the name in the config.
PAIR_LAYOUTS = {
    "WMT of the hub": (lambda pairs: parquet(wmt(pairs)), "{}-*.parquet", ""),
    "a spreadsheet": (lambda pairs: spreadsheet(flat(pairs)), "{}_*.csv", "{}_?*-of-3.csv"),
    "a table of any name": (lambda pairs: parquet(flat(pairs)), "{}.table", ""),
}


@pytest.mark.parametrize("layout", PAIR_LAYOUTS)
def test_tables_of_pairs_are_prepared_as_parallel_files(layout, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    corpora.write_parallel(tmp_path)
    translation = functools.partial(corpora.translation, tmp_path)
    native = translation().digests()
    write, pattern, name = PAIR_LAYOUTS[layout]
    for split, pairs in corpora.SPLITS.items():
        write_files(tmp_path, pattern.format(split), write, pairs)
    names = {split: (name or pattern).format(split) for split in corpora.SPLITS}
    assert translation(**names).digests() == native
    assert translation().digests() == native  # beside tables of the same stem
    if layout == "WMT of the hub":
        columns = "source = translation.en, target = translation.de"
        assert f"train-8-of-3.parquet: columns as in WMT: {columns}" in caplog.text
        paths = "source=translation.de,target=translation.en"
        by_path = translation(**names, columns=paths)
        turned = translation(**names, source_language="de", target_language="en")
        assert by_path.digests() == turned.digests() != native
    for number, part in ((2, PAIRS[:80]), (10, PAIRS[80:200])):
        corpora.write_pairs(tmp_path, f"part{number}", part)
    assert translation(train="part*").digests() == native  # parallel files by a pattern


def test_yelps_full_reviews_are_predicted_as_they_are_trained_on(tmp_path):
    (tmp_path / "y.csv").write_bytes(yelp_review_full(REVIEWS))
    schema = dataclasses.replace(schema_of(1, False), escaped_breaks=True)
    predicted = file_records(tmp_path / "y.csv", "text=2", schema).rows
    assert [record.input.value["text"] for record in predicted] == [text for _, text in REVIEWS]


PASSAGE = {"context": "a", "question": "b"}
UNEVEN = {**PASSAGE, "answers": {"text": ["a"], "answer_start": []}}
ENDINGS = {"parquet": parquet, "jsonl": json_lines, "json": indented, "csv": comma_separated}
MISTAKES = [  # family, file, rows, options, message
    ("csan", "w.csv", b"", {}, "w.csv:1: no pairs to train on"),
    ("csan", "a.csv", b"source,en,de\n", {}, "a.csv:1: several columns can be the source: "),
    ("qanet", "a.json", [[1]], {}, "a.json: [0]: a list where an object is needed"),
    ("qanet", "a.jsonl", [{**PASSAGE, "answers": 3}], {}, 'a.jsonl:1: answers: needs {"text": ['),
    ("qanet", "a.csv", [{**PASSAGE, "answers": "['a' 'b']"}], {}, "a.csv:2: answers: not JSON, "),
    ("qanet", "a.parquet", [UNEVEN], {}, "a.parquet: row 1: answers: lists of different lengths"),
    ("attconv", "t.parquet", [{"a": 1, "b": 2}], {}, "t.parquet: no columns that are known: a, b"),
    ("attconv", "y.parquet", (YELP_HUB, {"label": STARS}), TEXTS, "y.parquet: its labels are "),
]


@pytest.mark.parametrize(("family", "name", "content", "options", "message"), MISTAKES)
def test_a_table_that_is_refused_is_one_line_and_nothing_is_written(
    family, name, content, options, message, tmp_path
):
    corpora.write_own(family, tmp_path)
    if isinstance(content, tuple):
        content = parquet(*content)
    elif isinstance(content, list):
        content = ENDINGS[name.rpartition(".")[2]](content)
    (tmp_path / name).write_bytes(content)
    key = "name" if family == "attconv" else "train"
    assert corpora.fails(family, tmp_path, **{key: name}, **options).startswith(message)
    assert not other_tools.prepared_folders(tmp_path / "cache")


SHARDS = {  # a first file with a header, a second one, and the columns that are advised
    "csan": ("de\ten\nZug\ttrain\n", "Ein Haus.\tA house.\n", "source=2,target=1"),
    "attconv": (
        "label\thypothesis\tpremise\nneutral\ta b\tc d\n",
        "neutral\te f\tg h\n",
        "label=1,first=3,second=2",
    ),
}


@pytest.mark.parametrize("names", ["s*.tsv", "s1.tsv,s2.tsv", "s2.tsv,s1.tsv"])
@pytest.mark.parametrize("family", SHARDS)
def test_a_table_without_a_header_beside_one_with_a_header_is_refused(family, names, tmp_path):
    """As `split -l` writes them; their columns would be read in two orders."""
    first, second, columns = SHARDS[family]
    corpora.write_own(family, tmp_path)
    (tmp_path / "s1.tsv").write_text(first)
    (tmp_path / "s2.tsv").write_text(second)
    line = corpora.fails(family, tmp_path, train=names)
    assert line.startswith("s2.tsv: no header, where s1.tsv has one; ")
    assert line.endswith(f"set data.columns={columns}")
    accepted = [{"train": names, "columns": columns}, {"train": "s1.tsv"}, {"train": "s2.tsv"}]
    for options in accepted:
        PREPARED[family](tmp_path, prepare=False, **options).builder().fingerprint()
    (tmp_path / "s2.tsv").write_text("")
    PREPARED[family](tmp_path, prepare=False, train=names).builder().fingerprint()


FIRST_ROWS = {  # of sentence pairs, and whether they may be a header
    "Go.\tGeh.": False,
    "Hi.\tHallo!": False,
    "Do you speak English?\tSprechen Sie Deutsch?": False,
    "he said that it is late\ter sagt , es ist spät": False,
    "你好吗？\tHow are you?": False,
    "- Guten Tag, Deutsch!\t- Hello": False,
    "train\tZug": True,
    "German text\tEnglish text": True,
    "A text\tIts text in German": True,
    "译文\t原文": True,
    "Überschrift\tтекст": True,
    "text (DE)\ttext (EN)": True,
    "the source\tthe translation": True,
}


@pytest.mark.parametrize("row", FIRST_ROWS)
def test_pairs_without_a_header_are_read_unless_their_first_row_may_be_one(row, tmp_path, caplog):
    """It could have the other order."""
    caplog.set_level(logging.INFO)
    corpora.write_own("csan", tmp_path)
    (tmp_path / "p.tsv").write_text(f"{row}\nA house.\tEin Haus.\n")
    numbered = {"train": "p.tsv", "columns": "source=2,target=1"}
    PREPARED["csan"](tmp_path, prepare=False, **numbered).builder().fingerprint()
    assert caplog.messages[-1] == f"{tmp_path}/p.tsv: source = column 2, target = column 1"
    if FIRST_ROWS[row]:
        line = corpora.fails("csan", tmp_path, train="p.tsv")
        assert line.startswith("p.tsv:1: no header that is known, and not surely an example: ")
    else:
        PREPARED["csan"](tmp_path, prepare=False, train="p.tsv").builder().fingerprint()
        assert caplog.messages[-1].endswith("p.tsv: source = column 1, target = column 2")


def no_ids(questions=QUESTIONS):
    saved = squad(questions)
    for qa in (qa for a in saved["data"] for p in a["paragraphs"] for qa in p["qas"]):
        del qa["id"]
    return json.dumps(saved).encode()


@pytest.mark.parametrize(
    ("names", "first"),
    [("a.json,b.json", "0.0.0"), ("[ab].json", "0.0.0"), ("a.parquet,b.parquet", "1")],
)
def test_questions_of_two_files_without_ids_are_distinct(names, first, tmp_path):
    corpora.write_squad(tmp_path, "train.json")
    rows = [{key: row[key] for key in ("context", "question", "answers")} for row in hub_squad()]
    for file in "ab":
        (tmp_path / f"{file}.json").write_bytes(no_ids())
        (tmp_path / f"{file}.parquet").write_bytes(parquet(rows))
    data = corpora.reading(tmp_path, dev=names)
    ids = [question.id for question in data.texts("dev").questions]
    ending = names.rpartition(".")[2]
    assert len(ids) == len({*ids}) == 10
    assert (ids[0], ids[5]) == (f"a.{ending}:{first}", f"b.{ending}:{first}")


def test_questions_of_two_files_with_equal_ids_are_refused(tmp_path):
    corpora.write_squad(tmp_path, "train.json", "dev.json", "s0.json", "s1.json")
    message = "json 'a': an id that an earlier question has"
    assert corpora.fails("qanet", tmp_path, train="s*.json").startswith(f"s1.{message}")
    assert message in corpora.fails("qanet", tmp_path, dev="s0.json,s1.json")
    other = [(context, f"{n}x", *more) for context, n, *more in QUESTIONS]
    corpora.write_squad(tmp_path, "s1.json", questions=other)
    assert corpora.reading(tmp_path, train="s0.json,s1.json").split_sizes()["train"][0] > 4


@pytest.mark.parametrize(
    ("family", "names", "twice"),
    [
        ("csan", "test,test", "test.en"),
        ("csan", "p.tsv,link.tsv", "link.tsv"),
        ("qanet", "test.json,t*.json", "test.json"),
        ("attconv", "test.tsv,t*t.tsv", "test.tsv"),
        ("attconv", "test.tsv,./test.tsv", "test.tsv"),
    ],
)
def test_a_file_that_is_named_twice_is_refused(family, names, twice, tmp_path):
    corpora.write_own(family, tmp_path)
    corpora.write_squad(tmp_path, "test.json")
    corpora.write_rows(tmp_path, "p.tsv", PAIRS[220:250])
    (tmp_path / "link.tsv").symlink_to("p.tsv")
    line = f"data.test: {twice}: named twice; name it once"
    assert corpora.fails(family, tmp_path, test=names) == line


def test_translations_of_the_same_sources_are_no_repetition(tmp_path):
    corpora.write_parallel(tmp_path)
    corpora.write_pairs(tmp_path, "other", [(en, f"{de}!") for en, de in corpora.SPLITS["test"]])
    (tmp_path / "other.en").unlink()
    (tmp_path / "other.en").symlink_to("test.en")
    assert corpora.translation(tmp_path, test="test,other").split_sizes()["test"][0] == 60


def test_ids_are_those_of_the_column_or_numbers(tmp_path):
    for columns, second in ((QUESTION_COLUMNS, "2"), (f"{QUESTION_COLUMNS},id=uid", "1")):
        (tmp_path / "o.jsonl").write_bytes(json_lines(other_questions()))
        data = corpora.reading(tmp_path, "o.jsonl", columns=columns)
        assert data.texts("dev").questions[1].id == second
    (tmp_path / "tool.json").write_text(json.dumps(annotation_tool()))
    questions = corpora.reading(tmp_path, "tool.json").texts("dev").questions
    assert [question.id for question in questions] == ["0.0.0", "0", "1", "2", "3"]


def test_ranked_questions_of_two_files_are_distinct(tmp_path):
    """Also if the files number them alike."""
    for file, city in (("a", "Rome"), ("b", "Oslo")):
        rows = [
            {"question_id": q, "question": f"Who is {q} in {city}?", "answer": f"{s}", "label": s}
            for q in range(2)
            for s in range(2)
        ]
        (tmp_path / f"{file}.csv").write_bytes(comma_separated(rows))
        questions = [(f"Ada lives in {city}. It rains.", "", "Where?", [city])]
        (tmp_path / f"{file}.json").write_bytes(no_ids(questions))
    for names, count in (("a.csv,b.csv", 4), ("a.json,b.json", 2), ("?.json", 2)):
        data = corpora.labelled(tmp_path, names, format="ranking")
        numbers = Corpus.open(data.path / "test").column("question").tolist()
        assert numbers == [n // 2 for n in range(2 * count)]


@pytest.mark.parametrize("title", ["", "document_title"])
def test_rows_of_one_id_are_one_question_however_spelled_and_titled(title, tmp_path):
    """In one split too; two questions that a file numbers alike stay two."""
    spellings = ("Who is {}?", "Who is {}? ", "who is {} ?", "Who is {}?")
    rows = [
        {"question_id": q // 2, "question": spellings[s].format(q), title or "x": f"{q} {s % 3}"}
        | {"answer": f"{s}", "label": int(s == q % 4)}
        for q in range(12)
        for s in range(4)
    ]
    (tmp_path / "t.csv").write_bytes(comma_separated(rows))
    test = corpora.labelled(tmp_path, "t.csv", format="ranking")
    numbers = Corpus.open(test.path / "test").column("question").tolist()
    assert numbers == [n // 4 for n in range(48)]

    options = {"format": "ranking", "train": "t.csv", "dev": "", "holdout_size": 4}
    held = corpora.labelled(tmp_path, "t.csv", **options)
    for split in ("train", "dev"):
        _, counts = np.unique(Corpus.open(held.path / split).column("question"), return_counts=True)
        assert {*counts} == {4}


def test_an_answer_that_occurs_several_times_needs_a_position(tmp_path):
    rows = [{"context": c, "question": q, "answers": t} for c, _, q, t in QUESTIONS[:2]]
    (tmp_path / "t.jsonl").write_bytes(json_lines([*rows, {**rows[0], "answers": ["in"]}]))
    message = "t.jsonl:3.answers[0]: answer without an answer_start, and several times"
    assert message in corpora.fails("qanet", tmp_path, name="t.jsonl")


def test_languages_of_a_config_file_are_those_of_the_paths(tmp_path):
    (tmp_path / "w.parquet").write_bytes(parquet(wmt(PAIRS[:9])))
    given = [f"--config.data.dir={tmp_path}", "--config.data.train=w.parquet"]
    columns = "--config.data.columns=source=translation.de,target=translation.en"
    config = parse("configs/csan/multi30k_small.py", [*given, columns]).data
    assert (config.source_language, config.target_language) == ("de", "en")
    with pytest.raises(UserError, match=r"^data\.train=w\.parquet: name its languages"):
        parse("configs/csan/multi30k_small.py", given)


def parallel(split, pairs, encoding="utf-8"):
    """The files of a split, in which another encoding is that of the additional pairs."""
    own, files = set(corpora.SPLITS[split]), {}
    for side, language in enumerate(("en", "de")):
        lines = [f"{p[side]}\n".encode("utf-8" if p in own else encoding) for p in pairs]
        files[f"{split}.{language}"] = b"".join(lines)
    return files


def inserted(split, *pairs):
    own = corpora.SPLITS[split]
    return [*own[:4], *pairs, *own[4:]]


BAD_LINES = {3: "no tab", 7: "\tno source", 9: "no target\t", 10: "", 12: "none\t\tx", 15: "a\\tb"}


def bad_table():
    lines = [f"{source}\t{target}\tx" for source, target in PAIRS]
    for at, line in BAD_LINES.items():
        lines.insert(at, line)
    return gzip.compress("".join(f"{line}\n" for line in lines).encode())


NULLS = [{"translation": {"de": None, "en": "a"}}, {"translation": None}]

NULLS += [{"translation": {"en": "", "de": "x"}}]

WMT = [*wmt(PAIRS[:200]), *NULLS]

WMT_DROPPED = {"unreadable": 2, "empty source": 1}


def pairs(labels):
    return [{"label": label, "premise": "a b", "hypothesis": "c d"} for label in labels]


MIXED = pairs(["neutral", "2", ""])

MIXED_DROPPED = {"none of data.labels=" + ",".join(NAMES): 1, "no label": 1}

UNLABELLED = pairs(["neutral", "-1", "-", "", " ", "neutral"])

NO_LABEL_DROPPED = {"labelled '-'": 2, "no label": 2}

GOOD = '{"stars": 4, "text": "Good soup."}\n'


# The family, files beside its own, options, the message's beginning, the split, the number of its
# remaining examples, and the skipped ones.
CASES = {
    **{
        kind: (
            *("csan", parallel("train", inserted("train", pair)), {}),
            f"train.{'de' if kind == 'empty target' else 'en'}:5: {kind}; ",
            *("train", 200, {kind: 1}),
        )
        for kind, pair in {
            "empty source": ("", "ja"),
            "empty target": ("yes", " \t"),
            "both sides empty": ("", ""),
        }.items()
    },
    "empty source of dev": (
        *("csan", parallel("dev", inserted("dev", ("", "ja"))), {}),
        *("dev.en:5: empty source; ", "dev", 20, {"empty source": 1}),
    ),
    "Latin-1": (
        *("csan", parallel("train", inserted("train", ("for", "für")), "latin-1"), {}),
        *("train.de:5: not UTF-8; ", "train", 200, {"not UTF-8": 1}),
    ),
    "lines of a table": (
        *("csan", {"all.tsv.gz": bad_table()}, {"train": "all.tsv", "columns": "1,2"}),
        *("all.tsv.gz:4: 1 columns where 2 are needed", "train", 256),
        {"1 columns where 2 are needed": 3, "empty source": 1, "empty target": 2},
    ),
    "nulls in parquet": (
        *("csan", {"bad.parquet": parquet(WMT)}, {"train": "bad.parquet"}),
        *("bad.parquet: row 201", "train", 200, WMT_DROPPED),
    ),
    "names and numbers": (
        *("attconv", {"t.csv": comma_separated(MIXED)}, {"name": "t.csv"}),
        "t.csv:3: label '2': none of data.labels=entailment,neutral,c",
        *("train", 1, MIXED_DROPPED),
    ),
    "no label": (
        *("attconv", {"t.csv": comma_separated(UNLABELLED)}, {"name": "t.csv"}),
        *("t.csv:5: no label", "train", 2, NO_LABEL_DROPPED),
    ),
    "no label is ignored": (
        *("attconv", {"t.csv": comma_separated(UNLABELLED)}),
        *({"name": "t.csv", "ignored_labels": ""}, "t.csv:3: no label", "train", 2),
        {"no label": 4},
    ),
    **{
        f"review {place}": (
            *("attconv", {"x.json": content.encode()}, {**TEXTS, "name": "x.json"}),
            *(f"x.json:{place}", "train", 1, 1),
        )
        for content, place in (
            (GOOD + '{"stars": 1.5, "text": "b"}', "2: label '1.5': none of data.labels=1,2,3,4,5"),
            (GOOD + '{"stars": 4, "text": " \\n"}', "2: a text without a word"),
            (
                GOOD + f'{{"stars": 4, "text": "{"a " * 5000}"}}',
                "2: 5000 words: over data.max_length",
            ),
            (GOOD + '{"stars": 4, "body": "a"}', "2: no 'text'; it has stars, body"),
            (GOOD + '{"stars": [4], "text": "b"}', "2: stars: a list where a string is"),
            (GOOD + '{"stars": 4, "text": "Go', "2:22: not JSON"),
            (f'[{GOOD}, {{"stars": 1, "text": 5}}]', " [1].text: a whole number where a string"),
        )
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_example_is_one_line_or_skipped_and_counted(case, tmp_path, caplog):
    family, files, options, message, split, kept, reasons = CASES[case]
    corpora.write_own(family, tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    line = corpora.fails(family, tmp_path, **options)
    assert line.startswith(message) and len(line) < 300
    assert line.endswith("fix it, or set data.on_bad_example=skip")
    data = PREPARED[family](tmp_path, **options, on_bad_example="skip")
    counts = corpora.dropped(data, split)
    assert data.split_sizes()[split][0] == kept
    if isinstance(reasons, dict):
        assert counts == reasons
    else:
        assert sum(counts.values()) == reasons
    for reason, count in counts.items():
        assert f"{count} {reason} (" in caplog.text


# The family, options, and what is said if nothing is left.
NOTHING = [
    ("csan", {"max_length": 1}, "train.en:1: no pairs left for train: 200 over"),
    ("qanet", {"context_length": 1}, "train.json: no questions left for train: 5 over"),
    ("attconv", {}, "train.tsv: no examples left for train: 1 labelled '-' (train.tsv:1)"),
    ("attconv", {"dev": "", "test": ""}, "train.tsv: no examples left for train: 1 labelled '-' ("),
]


@pytest.mark.parametrize(("family", "options", "message"), NOTHING)
def test_no_remaining_examples_is_one_line(family, options, message, tmp_path):
    corpora.write_own(family, tmp_path)
    corpora.write_rows(tmp_path, "train.tsv", [("-", "a", "b")])
    assert corpora.fails(family, tmp_path, **options).startswith(message)

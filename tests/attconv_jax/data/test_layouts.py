"""Labelled texts as people have them are prepared as the corpora's own files are."""

import csv
import io
import json
import logging
import re
from pathlib import Path

import pytest

from attconv_jax.config import DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.predictor import Label
from attconv_jax.predictor_schema import schema_of
from common_jax.data.corpus import Corpus
from common_jax.deploy.records import file_records, results_to
from common_jax.errors import UserError
from tests.attconv_jax import anss
from tests.common_jax.data.other_tools import (
    FORMATS,
    comma_separated,
    copied,
    indented,
    json_lines,
    parquet,
    prepared_folders,
    shards,
    tab_separated,
)

NAMES = ("entailment", "neutral", "contradiction")
PAIRS = [
    (("-", *NAMES)[n % 4], f"A man {n // 2} — “Zoë” — plays.", f"Somebody, {n}; plays\twell.")
    for n in range(12)
]
FORMS = {
    "pairs": {},
    "texts": {"labels": "1,2,3,4,5"},
    "ranking": {"labels": "no,yes", "ignored_labels": ""},
}


def prepared(folder, name, format="pairs", **options):
    fields = {**FORMS[format], "format": format, "dir": str(folder)}
    fields |= {"train": name, "cache_dir": str(folder / "cache")}
    fields |= dict.fromkeys(("dev", "test"), copied(folder, name))
    data = LabelledData(DataConfig(**fields | options), WordsConfig(dim=2, rows=90))
    data.prepare()
    data.report()
    return data


def write(folder, name, content):
    (folder / name).write_bytes(content)
    return name


def dropped(data):
    return {reason: entry["count"] for reason, entry in data.split_sizes()["dev"][1].items()}


@pytest.fixture
def snli(tmp_path):
    """The prepared files of SNLI's JSON lines."""
    rows = [{"annotator_labels": [], "gold_label": label, "pairID": "x", "sentence1": first,
             "sentence2": second} for label, first, second in PAIRS]  # fmt: skip
    data = prepared(tmp_path, write(tmp_path, "snli.jsonl", json_lines(rows)))
    assert dropped(data) == {"labelled '-'": 3}
    return data.digests()


def hub(numbers=lambda label: {"-": -1}.get(label, (*NAMES, "-").index(label)), **more):
    """Rows of the hub's snli and multi_nli."""
    names = ("premise", "hypothesis")
    return [{**more, **dict(zip(names, texts, strict=True)), "label": numbers(label)}
            for label, *texts in PAIRS]  # fmt: skip


MULTINLI = {"promptID": 1, "premise_binary_parse": "( x )", "premise_parse": "(x)", "genre": "g"}


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "json", "csv"])
@pytest.mark.parametrize("more", [{}, MULTINLI])
def test_snli_and_multinli_of_the_hub(tmp_path, snli, ending, more, caplog):
    caplog.set_level(logging.INFO)
    data = prepared(tmp_path, shards(tmp_path, "hub", ending, hub(**more)))
    assert data.digests() == snli and dropped(data) == {"labelled '-'": 3}
    columns = "label = label, first = premise, second = hypothesis"
    file = f"{tmp_path}/hub-8-of-3.{ending}"
    left_out = "; not read: promptID, premise_binary_parse, premise_parse, genre" if more else ""
    assert f"{file}: columns as in SNLI, MultiNLI: {columns}{left_out}" in caplog.messages
    numbers = "labels by number: 0 = entailment, 1 = neutral, 2 = contradiction"
    assert f"{file}: {numbers}" in caplog.messages


def test_names_of_the_hub_decide_over_the_order_of_the_labels(tmp_path, snli):
    """Numbers of another order than data.labels, with their names in the file."""
    order = ("contradiction", "neutral", "entailment")
    rows = hub(lambda label: {"-": -1}.get(label, (*order, "-").index(label)))
    data = prepared(tmp_path, write(tmp_path, "t.parquet", parquet(rows, {"label": order})))
    assert data.digests() == snli


@pytest.mark.parametrize("label", [str, lambda label: f"{NAMES.index(label)}.0" if label in NAMES
                                   else "-1.0"])  # fmt: skip
def test_labels_by_name_and_numbers_as_floats(tmp_path, snli, label):
    rows = [dict(zip(("gold_label", "sentence1", "sentence2"), (label(p[0]), *p[1:]), strict=True))
            for p in PAIRS]  # fmt: skip
    written = {"t.csv": comma_separated(rows), "t.parquet": parquet(rows), "t.json": indented(rows)}
    for name, content in written.items():
        assert prepared(tmp_path, write(tmp_path, name, content)).digests() == snli


def test_multinlis_own_text(tmp_path, snli):
    names = ("gold_label", "sentence1_binary_parse", "sentence1", "sentence2", "label1")
    cells = [
        (label, "( a )", first, second.replace("\t", " "), "x") for label, first, second in PAIRS
    ]
    rows = [dict(zip(names, row, strict=True)) for row in cells]
    name = write(tmp_path, "multinli_1.0_train.txt", tab_separated(rows))
    assert prepared(tmp_path, name).digests() != snli  # the texts with a tab
    arrays = lambda data: {k: v for k, v in data.items() if k.endswith(("tokens", "offsets"))}
    assert arrays(prepared(tmp_path, name).digests()) == arrays(snli)


def test_names_and_numbers_are_not_mixed(tmp_path):
    rows = [
        {"label": label, "premise": "a b", "hypothesis": "c d"} for label in ("neutral", "2", "")
    ]
    for name, write_rows in (("t.csv", comma_separated), ("t.jsonl", json_lines)):
        write(tmp_path, name, write_rows(rows))
        with pytest.raises(
            UserError, match=r"label '2': none of data\.labels=entailment,neutral,c"
        ):
            prepared(tmp_path, name)
        data = prepared(tmp_path, name, on_bad_example="skip")
        assert dropped(data) == {"none of data.labels=" + ",".join(NAMES): 1, "no label": 1}


def test_rows_without_a_label(tmp_path):
    labels = ["neutral", "-1", "-", "", " ", "neutral"]
    rows = [{"label": label, "premise": "a b", "hypothesis": "c d"} for label in labels]
    for name, content in (
        ("t.csv", comma_separated(rows)),
        ("t.jsonl", json_lines([*rows[:4], {**rows[0], "label": None}, rows[0]])),
        ("t.parquet", parquet([*rows[:4], {**rows[0], "label": None}, rows[0]])),
    ):
        with pytest.raises(
            UserError, match=r"(:|row )[45]: no label; fix it, or set data\.on_bad_"
        ):
            prepared(tmp_path, write(tmp_path, name, content))
        data = prepared(tmp_path, name, on_bad_example="skip")
        assert dropped(data) == {"labelled '-'": 2, "no label": 2}
        data = prepared(tmp_path, name, on_bad_example="skip", ignored_labels="")
        assert dropped(data) == {"no label": 4}


REVIEWS = [(1 + n % 5, f'Good, "{n}";\nreally\n\ngood.') for n in range(15)]


def test_yelp(tmp_path, caplog):
    """Its JSON lines, the CSV of yelp_review_full, and the hub's parquet."""
    caplog.set_level(logging.INFO)
    rows = [{"review_id": "x", "stars": float(s), "useful": 0, "text": t} for s, t in REVIEWS]
    native = prepared(tmp_path, write(tmp_path, "y.json", json_lines(rows)), "texts").digests()
    assert (
        "columns as in Yelp: label = stars, text = text; not read: review_id, useful" in caplog.text
    )
    full = "".join('"{}","{}"\n'.format(s, t.replace('"', '""').replace("\n", "\\n"))
                   for s, t in REVIEWS)  # fmt: skip
    stars = [f"{n} star{'s' * (n > 1)}" for n in range(1, 6)]
    numbered = [{"label": s - 1, "text": t} for s, t in REVIEWS]
    other = [{"Rating": float(s), "Title": "x", "Review": t} for s, t in REVIEWS]
    name = write(tmp_path, "y.csv", full.encode())
    assert prepared(tmp_path, name, "texts", escaped_breaks=True).digests() == native
    name = write(tmp_path, "y.parquet", parquet(numbered, {"label": stars}))
    with pytest.raises(UserError, match=r"'--config\.data\.labels=1 star,.*,5 stars' accepts them"):
        prepared(tmp_path, name, "texts")
    assert prepared(tmp_path, name, "texts", labels=",".join(stars)).digests() == native
    for name, content in (
        ("other.csv", comma_separated(other, ";", bom=True)),
        ("other.parquet", parquet(other)),
        ("list.json", indented(rows)),
    ):
        assert prepared(tmp_path, write(tmp_path, name, content), "texts").digests() == native
    labels = "y.parquet: labels by number: 0 = 1 star, 1 = 2 stars, 2 = 3 stars, 3 = 4 stars, 4 ="
    assert labels in caplog.text
    write(tmp_path, "y.jsonl", json_lines(numbered))
    with pytest.raises(UserError, match=r"y\.jsonl:1: label '0': none of data\.labels=1,2,3,4,5"):
        prepared(tmp_path, "y.jsonl", "texts")
    named = prepared(tmp_path, "y.jsonl", "texts", labels="0,1,2,3,4")
    assert named.digests() == native
    predicted = file_records(tmp_path / "y.csv", "text=2", schema_of(1, False, escaped_breaks=True))
    assert [record.input.value["text"] for record in predicted] == [text for _, text in REVIEWS]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_predictions_have_a_name_that_no_row_has(tmp_path, ending):
    """Also where the first row lacks the column of the gold labels."""
    (tmp_path / "t.tsv").write_text("text\tlabel\nno label\nbad\tnegative\n")
    rows = [{"text": "no label"}, {"text": "bad", "label": "negative"}]
    (tmp_path / "t.jsonl").write_bytes(json_lines(rows))
    name = {"csv": "t.tsv", "jsonl": "t.jsonl"}[ending]
    schema, output = schema_of(1, ranking=False), io.StringIO()
    records = file_records(tmp_path / name, "", schema)
    results = results_to(Path(f"o.{ending}"), records, output, schema)
    for record in records:
        results.write(record, Label("positive", {"positive": 1.0}, 40.75))
    results.close()
    rows = output.getvalue().splitlines()
    if ending == "csv":
        written = [*csv.DictReader(rows)]
        assert rows[0] == "text,label,predicted_label,probabilities,score,error"
    else:
        written = [*map(json.loads, rows)]
    assert [row["predicted_label"] for row in written] == ["positive"] * 2
    assert [row.get("label") or "" for row in written] == ["", "negative"]


QUESTIONS = [(f"Q{q}", f"who is person {q}?", f"Title {q // 2}", f"Person {q} is {s}.", int(s == 1))
             for q in range(6) for s in range(3)]  # fmt: skip


def test_wikiqa(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    own = [{"QuestionID": i, "Question": q, "DocumentID": "D1", "DocumentTitle": t,
            "SentenceID": "x", "Sentence": s, "Label": label}
            for i, q, t, s, label in QUESTIONS]  # fmt: skip
    hubs = [{"question_id": i, "question": q, "document_title": t, "answer": s, "label": label}
            for i, q, t, s, label in QUESTIONS]  # fmt: skip
    names = [{"question": q, "sentence": s, "answer": ("no", "yes")[label], "qid": i, "title": t}
             for i, q, t, s, label in QUESTIONS]  # fmt: skip
    name = write(tmp_path, "WikiQA-train.tsv", tab_separated(own))
    native = prepared(tmp_path, name, "ranking").digests()
    hubs_order = parquet(hubs, {"label": ("0", "1")})
    for name, content, columns in (
        (
            "hub.parquet",
            hubs_order,
            "WikiQA: question = question, sentence = answer, label = label",
        ),
        ("hub.csv", comma_separated(hubs), "WikiQA: question = question, sentence = answer, label"),
        (
            "names.jsonl",
            json_lines(names),
            "sentences with answer as label: question = question, s",
        ),
    ):
        assert prepared(tmp_path, write(tmp_path, name, content), "ranking").digests() == native
        assert f"{name}: columns as in {columns}" in caplog.text
    other = [{"q": q, "a": s, "ok": label} for _, q, _, s, label in QUESTIONS]
    write(tmp_path, "o.parquet", parquet(other))
    with pytest.raises(
        UserError, match=r"o\.parquet: no columns that are known: q, a, ok; set data"
    ):
        prepared(tmp_path, "o.parquet", "ranking")
    data = prepared(tmp_path, "o.parquet", "ranking", columns="question=q,sentence=a,label=ok")
    assert data.digests() == native


def test_labels_that_count_from_one_are_refused(tmp_path):
    rows = [{"label": 1 + n % 3, "first": f"a {n}", "second": "b"} for n in range(9)]
    name = write(tmp_path, "t.csv", comma_separated(rows))
    options = {"labels": "World,Sports,Business", "on_bad_example": "skip"}
    message = (
        r"t\.csv: labels by number, with 3 and without 0, where 0 to 2 are the positions in "
        r"data\.labels; if they count from 1, set data\.labels=1,2,3$"
    )
    with pytest.raises(UserError, match=message):
        prepared(tmp_path, name, **options)
    assert len(prepared(tmp_path, name, labels="1,2,3").digests())


def test_questions_of_several_files_are_distinct(tmp_path):
    """Also if the files number them alike."""
    for file, city in (("a", "Rome"), ("b", "Oslo")):
        rows = [
            {"question_id": q, "question": f"Who is {q} in {city}?", "answer": f"{s}", "label": s}
            for q in range(2) for s in range(2)
        ]  # fmt: skip
        write(tmp_path, f"{file}.csv", comma_separated(rows))
        context = f"Ada lives in {city}. It rains."
        qas = [{"question": "Where?", "answers": [{"text": city, "answer_start": 13}]}]
        data = [{"title": city, "paragraphs": [{"context": context, "qas": qas}]}]
        write(tmp_path, f"{file}.json", json.dumps({"data": data}).encode())
    for names, count in (("a.csv,b.csv", 4), ("a.json,b.json", 2), ("?.json", 2)):
        data = prepared(tmp_path, names, "ranking")
        questions = Corpus.open(data.path / "test").column("question")
        assert questions.tolist() == [n // 2 for n in range(2 * count)]


def test_squads_sentences(tmp_path):
    """Questions about passages as tables, of which the sentences are ranked."""
    anss.write(tmp_path)
    native = prepared(tmp_path, "train.json", "ranking").digests()
    saved = json.loads((tmp_path / "train.json").read_text())
    rows = []
    for article in saved["data"]:
        for paragraph, qa in ((p, qa) for p in article["paragraphs"] for qa in p["qas"]):
            answers = {k: [answer[k] for answer in qa["answers"]] for k in ("text", "answer_start")}
            texts = {"id": qa["id"], "title": article["title"], "question": qa["question"]}
            rows.append({**texts, "context": paragraph["context"], "answers": answers})
    for ending in ("parquet", "jsonl", "json"):
        name = shards(tmp_path, "hub", ending, rows)
        assert prepared(tmp_path, name, "ranking").digests() == native


COLUMNS = "label=x,first=premise,second=hypothesis"
ONE = {"stars": 1}
MISTAKES = [
    (
        "pairs",
        "t.parquet",
        [{"a": 1, "b": 2}],
        "",
        "t.parquet: no columns that are known: a, b; set",
    ),
    (
        "pairs",
        "t.parquet",
        hub(),
        COLUMNS,
        "data.columns: t.parquet has no column 'x'; it has premis",
    ),
    (
        "texts",
        "t.csv",
        [{"stars": 9, "text": "a b"}],
        "",
        "t.csv:2: label '9': none of data.labels",
    ),
    (
        "texts",
        "t.json",
        [{**ONE, "text": 5}],
        "",
        "t.json: [0].text: a whole number where a string",
    ),
    ("texts", "t.jsonl", [{**ONE, "body": "a"}], "", "t.jsonl:1: no 'text'; it has stars, body"),
    (
        "ranking",
        "t.csv",
        [{"x": 1, "y": "a"}],
        "",
        "t.csv:1: 2 columns where 3 are needed",
    ),
]


@pytest.mark.parametrize(("format", "name", "rows", "columns", "message"), MISTAKES)
def test_mistakes_are_one_line(tmp_path, format, name, rows, columns, message):
    write(tmp_path, name, FORMATS[name.rpartition(".")[2]](rows))
    with pytest.raises(UserError) as error:
        prepared(tmp_path, name, format, columns=columns)
    line = str(error.value).replace(f"{tmp_path}/", "")
    assert re.match(re.escape(message), line), line
    assert "\n" not in line and not prepared_folders(tmp_path / "cache")

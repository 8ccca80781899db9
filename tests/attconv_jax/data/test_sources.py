"""Labelled texts from published formats."""

import csv
import dataclasses
import functools
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.data.selection import candidates
from attconv_jax.data.sources import source_of
from attconv_jax.data.squad_anss import build
from attconv_jax.predictor import Label, schema_of
from attconv_jax.score import score_ranking
from common_jax.bad_examples import BadExamples
from common_jax.config import from_values
from common_jax.text.squad import read_squad
from common_jax.training.identity import result_fields
from launch.predict.records import file_records, results_to
from tests.attconv_jax import anss, entailments
from tests.families.data.corpora import NAMES, labelled_config
from tests.real import needs_real_data, real_data
from tests.refusals import refusal


def read(folder, format="pairs", policy="error", split="train", **options):
    """A split's examples, and the counts of bad ones."""
    config = labelled_config(folder, format, **options)
    bad_examples = BadExamples(policy)
    return list(source_of(config, split).read(bad_examples)), bad_examples.counts


def write(folder, name, content):
    content = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


SNLI = [
    {"annotator_labels": ["neutral"], "gold_label": "neutral", "pairID": "1#r1n"}
    | {"sentence1": "A man — “Zoë” — plays.", "sentence2": "A man\tplays\nwell."},
    {"gold_label": "-", "sentence1": "A dog.", "sentence2": "A cat."},
]
MAN = "A man — “Zoë” — plays."
YELP = '"5","dr. goldberg ""the best"", says\\n\\nI."\n"1","two\nlines"\n3,plain\n\n"2","last"'
STARS = [{"review_id": "x", "stars": s, "text": "t"} for s in (5, 4.0, "3", 6, 2.5)]
# Format, file, content, options, and the label and texts of each example.
READ = [
    (
        *("pairs", "train.jsonl.gz", "".join(json.dumps(row) + "\n\n" for row in SNLI), {}),
        [("neutral", MAN, "A man\tplays\nwell."), ("-", "A dog.", "A cat.")],
    ),
    (
        *("pairs", "a.tsv", 'neutral\ta "b\tc\tmore\tand more\r\n\nentailment\td\te'),
        *({"columns": "1,2,3"}, [("neutral", 'a "b', "c"), ("entailment", "d", "e")]),
    ),
    (
        *("texts", "b.tsv.gz", "5\tGood, \\n really\tmore\n", {"columns": "1,2"}),
        [("5", "Good, \\n really")],
    ),
    *(
        (
            *("texts", name, YELP, {"escaped_breaks": True}),
            [
                ("5", 'dr. goldberg "the best", says\n\nI.'),
                *(("1", "two\nlines"), ("3", "plain"), ("2", "last")),
            ],
        )
        for name in ("train.csv", "other.csv.gz")
    ),
    (
        *("texts", "a.csv", 'class,title,text\n5,"Good, cheap","Fine,\nreally"\n', {}),
        [("5", "Fine,\nreally")],
    ),
    (
        *("texts", "b.csv", '5,"Good, cheap","Fine, really"\n1,Bad,Poor\n'),
        *({"columns": "text=3,label=1"}, [("5", "Fine, really"), ("1", "Poor")]),
    ),
    *(
        ("texts", "a.jsonl", '{"score": 4, "body": "Good.", "text": "x", "stars": 1}', *expected)
        for expected in (
            ({"columns": "text=body,label=score"}, [("4", "Good.")]),
            ({"columns": "1,2"}, [("1", "x")]),
            ({}, [("1", "x")]),
        )
    ),
    (
        *("pairs", "a.tsv", "neutral\t\u200b\tb\nneutral\t\ufeffa\tb\u200b\n", {}),
        [("neutral", "", "b"), ("neutral", "a", "b\u200b")],
    ),
    (
        *("pairs", "b.jsonl", '{"gold_label": "-", "sentence1": "\u00ad", "sentence2": "b"}'),
        *({}, [("-", "", "b")]),
    ),
    (
        *("texts", "reviews.json", "\n".join(map(json.dumps, STARS)), {}),
        [(stars, "t") for stars in ("5", "4", "3", "6", "2.5")],
    ),
]
PLACES = {"train.jsonl.gz": [1, 3], "train.csv": [1, 2, 4, 6], "a.tsv": None}


@pytest.mark.parametrize(("format", "name", "content", "options", "expected"), READ)
def test_labels_texts_groups_and_places(tmp_path, format, name, content, options, expected):
    path = write(tmp_path, name, content)
    for train in {name, name.removesuffix(".gz")}:
        examples, bad_examples = read(tmp_path, format, train=train, **options)
        assert [(e.label, *e.texts) for e in examples] == expected and not bad_examples
        assert [e.group for e in examples] == [texts[0] for _, *texts in expected]
    if places := PLACES.get(name):
        assert [e.place for e in examples] == [f"{path}:{line}" for line in places]


SNLI_HEADER = (
    *("gold_label", "sentence1_binary_parse", "sentence2_binary_parse"),
    *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "captionID", "pairID"),
    *("label1", "label2", "label3", "label4", "label5"),
)


@pytest.mark.parametrize("annotated", [False, True])
def test_snlis_own_text_is_its_json_lines(tmp_path, annotated):
    rows = [
        {name: f"{name} {n}" for name in SNLI_HEADER} | {"sentence1": f'A "man" {n}.'}
        for n in range(3)
    ]
    lines = ["\t".join(SNLI_HEADER), *("\t".join(row.values()) for row in rows)]
    text = write(tmp_path, "snli_1.0_train.txt", "\n".join(lines) + "\n")
    write(tmp_path, "train.jsonl", "\n".join(map(json.dumps, rows)))
    expected, actual = (
        [*source_of(labelled_config(tmp_path, train=name), "train", annotated).read(bad_examples)]
        for name in ("train.jsonl", text.name)
        for bad_examples in [BadExamples("error")]
    )
    placeless = lambda examples: [dataclasses.replace(e, place="") for e in examples]
    assert placeless(actual) == placeless(expected)
    assert [e.place for e in actual] == [f"{text}:{n}" for n in (2, 3, 4)]
    if annotated:
        assert actual[0].annotations[1]["binary_parse"] == "sentence2_binary_parse 0"


def test_runs_of_earlier_versions_read_the_first_columns(tmp_path):
    write(tmp_path, "a.tsv", "neutral\ta\tb\tmore\n")
    data = {"dir": str(tmp_path), "train": "a.tsv", "format": "pairs"}
    old = from_values(Config, {"data": data, "words": {}})
    new = Config(data=DataConfig(**data), words=WordsConfig(rule="english"))
    source = source_of(old.data, "train")
    assert [e.texts for e in source.read(BadExamples("error"))] == [("a", "b")]
    assert result_fields(old) == result_fields(new)
    other = dataclasses.replace(new.data, columns="label=1,first=3,second=2")
    assert result_fields(dataclasses.replace(new, data=other)) != result_fields(new)
    assert source_of(other, "train").identity() != source.identity()


def test_columns_that_accept_longer_rows_have_another_identity(tmp_path):
    write(tmp_path, "a.tsv", "neutral\ta\tb\nneutral\ta\tb\tmore")
    identities, counts = [], []
    for columns in ("", "1,2,3"):
        source = source_of(labelled_config(tmp_path, train="a.tsv", columns=columns), "train")
        identities.append(source.identity())
        counts.append(len([*source.read(BadExamples("skip"))]))
    assert identities[0] != identities[1] and counts == [1, 2]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_predictions_have_a_name_that_no_row_has(tmp_path, ending):
    """Also where the first row lacks the column of the gold labels."""
    write(tmp_path, "t.csv", "text,label,probability_positive\nno label\nbad,negative,1\n")
    rows = [{"text": "no label"}, {"text": "bad", "label": "negative"}]
    write(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows)))
    schema, output = schema_of(1, ranking=False), io.StringIO()
    records = file_records(tmp_path / f"t.{ending}", "", schema)
    results = results_to(Path(f"o.{ending}"), records, output, schema)
    for record in records.rows:
        results.write(record, Label("positive", {"positive": 1.0}, 40.75, 0))
    results.close()
    lines = output.getvalue().splitlines()
    if ending == "csv":
        written = [*csv.DictReader(lines)]
        names = "predicted_label,predicted_probability_positive,score,unknown_words,error"
        assert lines[0] == f"text,label,probability_positive,{names}"
    else:
        written = [*map(json.loads, lines)]
    assert [row["predicted_label"] for row in written] == ["positive"] * 2
    assert [row.get("label") or "" for row in written] == ["", "negative"]


@pytest.fixture(scope="module")
def tfds(tmp_path_factory):
    entailments.register()
    return tmp_path_factory.mktemp("tfds")


def records(folder, name="pairs", format="pairs", policy="error", **options):
    options = {"source": "tfds", "tfds": f"entailments/{name}", "train": "train", **options}
    return read(folder, format, policy, **options)


@pytest.mark.parametrize("format", ["pairs", "texts"])
def test_a_datasets_labels_have_the_datasets_names(tfds, format):
    examples, _ = records(tfds, format, format, labels=",".join(NAMES))
    texts = [p if format == "pairs" else p[:1] for p in entailments.PAIRS[:14]]
    assert [e.texts for e in examples] == texts
    assert [e.label for e in examples] == [entailments.label(n) for n in range(14)]
    assert examples[3].label == "-"
    assert [e.group for e in examples] == [text[0] for text in texts]
    assert examples[2].place == f"entailments/{format} train:3"
    assert len(records(tfds, train="validation")[0]) == 6


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            *("texts", {}),
            "data.tfds=entailments/texts: not of data.format=pairs, which needs the label 'label' "
            "and the texts premise, hypothesis; it has label and the texts text",
        ),
        ("unlabelled", {}, "it has no label and the texts premise, hypothesis"),
        ("pairs", {"format": "ranking"}, "which needs the label 'label' and the texts question, "),
        ("pairs", {"train": "dev"}, "data.train='dev': entailments/pairs has the splits train, "),
        ("bytes", {}, "entailments/bytes train:6: not UTF-8; fix it, or set"),
    ],
)
def test_what_is_wrong_with_a_dataset_is_one_line(tfds, name, options, message):
    assert message in refusal(records, tfds, name, **options)
    if name == "bytes":
        examples, bad_examples = records(tfds, name, policy="skip")
        assert len(examples) == 13 and bad_examples["not UTF-8"]["count"] == 1


@pytest.fixture(scope="module")
def squad(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    anss.write(folder)
    return folder


def test_the_dataset_has_what_the_files_have(squad, tmp_path):
    path = build(squad / "train.json", squad / "dev.json", tmp_path, holdout_size=20)
    assert path.is_dir() and path.parent.parent == tmp_path
    splits = {split: split for split in ("train", "dev", "test")}
    options = {"source": "tfds", "tfds": "squad_anss", **splits}
    plain = lambda examples: [(e.texts, e.label, e.group, e.question) for e in examples]
    by_split = {s: plain(read(tmp_path, "ranking", split=s, **options)[0]) for s in splits}
    assert by_split["test"] == plain(read(squad, "ranking", train="dev.json")[0])
    everything = plain(read(squad, "ranking", train="train.json")[0])
    articles = {split: {group for _, _, group, _ in rows} for split, rows in by_split.items()}
    assert articles["train"] | articles["dev"] == {f"Article {n}" for n in range(12)}
    assert not articles["train"] & articles["dev"]
    for split in ("train", "dev"):  # in the order of the file
        assert by_split[split] == [row for row in everything if row[2] in articles[split]]
    largest = max(sum(row[2] == article for row in everything) for article in articles["dev"])
    assert 20 <= len(by_split["dev"]) < 20 + largest


def test_a_dataset_that_cannot_be_built_is_one_line(squad, tmp_path):
    fails = functools.partial(refusal, build)
    train, dev = squad / "train.json", squad / "dev.json"
    assert "none.json: no such file" in fails(squad / "none.json", dev, tmp_path)
    assert "holdout_size=48307: too many for" in fails(train, dev, tmp_path)
    content = json.loads(dev.read_text())
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["text"] = "absent"
    broken = write(tmp_path, "broken.json", json.dumps(content))
    message = fails(train, broken, tmp_path, holdout_size=9)
    assert "broken.json: data[0].paragraphs[0].qas[0].answers[0]: answer not in its" in message
    build(train, broken, tmp_path, holdout_size=9, on_bad_example="skip")
    assert "already exists; delete it, or" in fails(train, dev, tmp_path, holdout_size=9)
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file" in fails(train, dev, tmp_path / "file", holdout_size=9)


@pytest.mark.slow
@needs_real_data
def test_real_counts():
    """The paper has 105,980 pairs; its 10,570 questions are all here."""
    squad = read_squad(real_data("squad/dev-v1.1.json.gz"), BadExamples("error"))
    selected = list(candidates(squad))
    by_question: dict[str, list[bool]] = {}
    for candidate in selected:
        by_question.setdefault(candidate.question.id, []).append(candidate.right)
    assert len(by_question) == 10_570 and all(map(any, by_question.values()))
    assert 50_000 < len(selected) < 56_000
    assert len(set(squad.articles)) == 48


@pytest.mark.slow
@needs_real_data
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("dev.tsv", [3329, 3235, 3278]),
        ("train_partial.tsv", [8165, 8055, 8255]),
        ("mnli_subset_train.tsv", None),
    ],
)
def test_real_pairs(name, counts):
    examples, bad_examples = read(real_data("snli"), train=name, columns="1,2,3")
    labels = [e.label for e in examples]
    actual = [labels.count(label) for label in NAMES]
    assert sum(actual) == len(labels) and not bad_examples
    assert actual == counts if counts else len(labels) == 20_000


@pytest.mark.slow
@needs_real_data
def test_word_overlap_on_squad(tmp_path):
    """The paper has 68.87 and 79.59, on a test of twice as many pairs."""
    anss.write(tmp_path)
    files = {split: str(tmp_path / f"{split}.json") for split in ("train", "dev")}
    files["test"] = "dev-v1.1.json"
    folders = {"dir": str(real_data("squad")), "cache_dir": str(tmp_path)}
    data = LabelledData(DataConfig(**anss.FORM, **files, **folders), WordsConfig())
    data.prepare()
    corpus = data.corpus("test")
    _, notes, _ = score_ranking(corpus, np.zeros((len(corpus), 2)))
    assert (notes["examples"], notes["pairs"]) == (10_570, 53_658)
    assert (notes["WordC1"], notes["WordC2"]) == (69.05, 79.5)

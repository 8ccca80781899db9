"""Labelled texts from published formats; each mistake is one line."""

import dataclasses
import gzip
import json

import pytest

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.data.sources import Example, source_of
from attconv_jax.data.squad_anss import build
from common_jax.bad_examples import BadExamples
from common_jax.config import from_values
from common_jax.data.corpus import file_identity
from common_jax.data.sources import held_out_splits
from common_jax.errors import UserError
from common_jax.training.identity import result_fields
from tests.attconv_jax import anss, entailments
from tests.real import needs_real_data, real_data

FORMS = {
    "pairs": {},
    "texts": {"labels": "1,2,3,4,5"},
    "ranking": {"labels": "no,yes", "ignored_labels": ""},
}


def config(folder, format="pairs", **options) -> DataConfig:
    fields = {
        "dir": str(folder),
        "cache_dir": str(folder / "cache"),
        "format": format,
        **FORMS[format],
    }
    return DataConfig(**(fields | options))


def read(folder, format="pairs", policy="error", split="train", **options):
    """A split's examples, and the counts of bad ones."""
    source, bad_examples = source_of(config(folder, format, **options), split), BadExamples(policy)
    return list(source.read(bad_examples)), bad_examples.counts


def contents(examples):
    """The label, texts and group of each example."""
    return [(example.label, *example.texts, example.group) for example in examples]


def write(folder, name, content):
    content = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


SNLI = [
    {"annotator_labels": ["neutral"], "gold_label": "neutral", "pairID": "1#r1n",
     "sentence1": "A man — “Zoë” — plays.", "sentence2": "A man\tplays\nwell."},
    {"gold_label": "-", "sentence1": "A dog.", "sentence2": "A cat."},
]  # fmt: skip


@pytest.mark.parametrize("name", ["train.jsonl", "train.jsonl.gz", "train.json"])
def test_snlis_json_lines(tmp_path, name):
    path = write(tmp_path, name, "".join(json.dumps(row) + "\n\n" for row in SNLI))
    examples, bad_examples = read(tmp_path, train=name.removesuffix(".gz"))
    assert contents(examples) == [
        ("neutral", "A man — “Zoë” — plays.", "A man\tplays\nwell.", "A man — “Zoë” — plays."),
        ("-", "A dog.", "A cat.", "A dog."),
    ]
    assert [e.place for e in examples] == [f"{path}:1", f"{path}:3"] and not bad_examples


def test_tables_of_pairs_and_of_texts(tmp_path):
    write(tmp_path, "a.tsv", 'neutral\ta "b\tc\tmore\tand more\r\n\nentailment\td\te')
    write(tmp_path, "b.tsv.gz", "5\tGood, \\n really\tmore\n")
    assert contents(read(tmp_path, train="a.tsv", columns="1,2,3")[0]) == [
        ("neutral", 'a "b', "c", 'a "b'),
        ("entailment", "d", "e", "d"),
    ]
    (example,) = read(tmp_path, "texts", train="b.tsv", columns="1,2")[0]
    assert example.texts == ("Good, \\n really",) == (example.group,) and example.label == "5"


YELP = '"5","dr. goldberg ""the best"", says\\n\\nI."\n"1","two\nlines"\n3,plain\n\n"2","last"'


def test_yelp_review_full(tmp_path):
    for name in ("train.csv", "other.csv.gz"):
        path = write(tmp_path, name, YELP)
        examples, _ = read(tmp_path, "texts", train=name, escaped_breaks=True)
        assert [(e.label, *e.texts) for e in examples] == [
            ("5", 'dr. goldberg "the best", says\n\nI.'),
            ("1", "two\nlines"),
            ("3", "plain"),
            ("2", "last"),
        ]
        assert [e.place for e in examples] == [f"{path}:{n}" for n in (1, 2, 4, 6)]


SNLI_HEADER = (
    *("gold_label", "sentence1_binary_parse", "sentence2_binary_parse"),
    *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "captionID", "pairID"),
    *("label1", "label2", "label3", "label4", "label5"),
)


def test_snlis_own_text_is_its_json_lines(tmp_path):
    rows = [
        {name: f"{name} {n}" for name in SNLI_HEADER} | {"sentence1": f'A "man" {n}.'}
        for n in range(3)
    ]
    lines = ["\t".join(SNLI_HEADER), *("\t".join(row.values()) for row in rows)]
    path = write(tmp_path, "snli_1.0_train.txt", "\n".join(lines) + "\n")
    write(tmp_path, "train.jsonl", "\n".join(map(json.dumps, rows)))
    for annotated in (False, True):
        expected, actual = (
            [
                *source_of(config(tmp_path, train=name), "train", annotated).read(
                    BadExamples("error")
                )
            ]
            for name in ("train.jsonl", path.name)
        )
        assert [dataclasses.replace(e, place="") for e in actual] == [
            dataclasses.replace(e, place="") for e in expected
        ]
        assert [e.place for e in actual] == [f"{path}:{n}" for n in (2, 3, 4)]
    assert actual[0].annotations[1]["binary_parse"] == "sentence2_binary_parse 0"


def test_reviews_with_titles(tmp_path):
    write(tmp_path, "a.csv", 'class,title,text\n5,"Good, cheap","Fine,\nreally"\n')
    assert [e.texts for e in read(tmp_path, "texts", train="a.csv")[0]] == [("Fine,\nreally",)]
    write(tmp_path, "b.csv", '5,"Good, cheap","Fine, really"\n1,Bad,Poor\n')
    with pytest.raises(
        UserError, match=r"b\.csv:1: 3 columns where 2 are needed, .* Good, cheap, F"
    ):
        read(tmp_path, "texts", train="b.csv")
    named = read(tmp_path, "texts", train="b.csv", columns="text=3,label=1")[0]
    assert contents(named)[0] == ("5", "Fine, really", "Fine, really")


def test_columns_of_json_lines_are_names(tmp_path):
    write(tmp_path, "a.jsonl", '{"score": 4, "body": "Good.", "text": "x", "stars": 1}')
    for columns, expected in (("text=body,label=score", "Good."), ("1,2", "x"), ("", "x")):
        ((example,), _) = read(tmp_path, "texts", train="a.jsonl", columns=columns)
        assert example.texts == (expected,)
    with pytest.raises(
        UserError, match=r"data\.columns='1,2': name a column for each of question, "
    ):
        config(tmp_path, "ranking", train="a.json", columns="1,2")


def test_texts_that_look_blank_are_empty(tmp_path):
    write(tmp_path, "a.tsv", "neutral\t\u200b\tb\nneutral\t\ufeffa\tb\u200b\n")
    write(tmp_path, "b.jsonl", '{"gold_label": "-", "sentence1": "\u00ad", "sentence2": "b"}')
    examples, _ = read(tmp_path, train="a.tsv,b.jsonl")
    assert [e.texts for e in examples] == [("", "b"), ("a", "b\u200b"), ("", "b")]


def test_runs_of_earlier_versions_read_the_first_columns(tmp_path):
    write(tmp_path, "a.tsv", "neutral\ta\tb\tmore\n")
    data = {"dir": str(tmp_path), "train": "a.tsv", "format": "pairs"}
    words = WordsConfig(rule="english")
    old, new = (
        from_values(Config, {"data": data, "words": {}}),
        Config(data=DataConfig(**data), words=words),
    )
    assert [e.texts for e in source_of(old.data, "train").read(BadExamples("error"))] == [
        ("a", "b")
    ]
    assert result_fields(old) == result_fields(new)
    identity = source_of(old.data, "train").identity()
    assert identity == [file_identity(tmp_path / "a.tsv"), "tsv", "pairs"]
    other = dataclasses.replace(new.data, columns="label=1,first=3,second=2")
    assert result_fields(dataclasses.replace(new, data=other)) != result_fields(new)
    assert source_of(other, "train").identity() != identity


@pytest.mark.parametrize("name,separator", [("a.tsv", "\t"), ("a.csv", ",")])
def test_columns_that_accept_longer_rows_have_another_identity(tmp_path, name, separator):
    rows = ["neutral", "a", "b"], ["neutral", "a", "b", "more"]
    write(tmp_path, name, "\n".join(map(separator.join, rows)))
    identities, counts = [], []
    for columns in ("", "1,2,3"):
        data = DataConfig(dir=str(tmp_path), train=name, format="pairs", columns=columns)
        source = source_of(data, "train")
        identities.append(source.identity())
        counts.append(len([*source.read(BadExamples("skip"))]))
    assert (identities[0] == identities[1]) == (counts[0] == counts[1]), counts


def test_yelps_json_lines_have_stars_as_numbers(tmp_path):
    stars = [5, 4.0, "3", 6, 2.5]
    rows = [{"review_id": "x", "stars": s, "text": f"text {s}"} for s in stars]
    write(tmp_path, "reviews.json", "\n".join(map(json.dumps, rows)))
    examples, _ = read(tmp_path, "texts", train="reviews.json")
    assert [e.label for e in examples] == ["5", "4", "3", "6", "2.5"]


BAD = [
    ("pairs", "x.tsv", "neutral\ta\n", 0, "1: 2 columns where 3 are needed"),
    ("pairs", "x.tsv", "-\tb\tc\nno tabs\n", 1, "2: 1 columns where 3 are needed"),
    ("texts", "x.csv", '"5","a" b\n', 0, "1: not CSV (',' expected after '\"')"),
    ("texts", "x.csv", '1,a\n"5","a\nb\n', 1, "2: not CSV (unexpected end of data)"),
    ("pairs", "x.tsv", b"neutral\ta\xff\tb\n", 0, "1: not UTF-8 (byte 0xff after 9 bytes)"),
    ("pairs", "x.jsonl", "{}\n", 0, "1: no 'gold_label'; it has nothing"),
    ("pairs", "x.jsonl", '{"gold_label": "a", "sentence1": ""}', 0, "1: no 'sentence2'; it has"),
    ("pairs", "x.jsonl", '\n{"gold_label": "a",\n', 0, "2:20: not JSON ("),
    ("pairs", "x.jsonl", "[1]\n", 0, "1: a list where an object is needed"),
    ("texts", "x.json", '{"stars": [4], "text": "b"}', 0, "1: stars: a list where a string is"),
    ("texts", "x.json", '{"stars": 4, "text": null}', 0, "1: text: null where a string is"),
]


@pytest.mark.parametrize(("format", "name", "content", "expected", "message"), BAD)
def test_bad_lines_are_errors_or_skipped_and_counted(
    tmp_path, format, name, content, expected, message
):
    path = write(tmp_path, name, content)
    with pytest.raises(UserError) as error:
        read(tmp_path, format, train=name)
    line = str(error.value)
    assert line.startswith(f"{path}:{message}") and "\n" not in line
    assert line.endswith("; fix it, or set data.on_bad_example=skip")
    examples, bad_examples = read(tmp_path, format, "skip", train=name)
    assert len(examples) == expected
    assert [fault["count"] for fault in bad_examples.values()] == [1]


def test_rows_behind_one_that_is_not_csv_are_read(tmp_path):
    write(tmp_path, "x.csv", '"1","a" b\n"2","c"\n"3,"d"\n"4","e"\n')
    examples, bad_examples = read(tmp_path, "texts", "skip", train="x.csv")
    assert [e.label for e in examples] == ["2", "4"]
    ((kind, fault),) = bad_examples.items()
    assert kind.startswith("not CSV") and [p[-2:] for p in fault["first"]] == [":1", ":3"]


def test_files_are_joined_and_missing_ones_reported(tmp_path):
    write(tmp_path, "a.tsv", "neutral\ta\tb\n")
    write(tmp_path, "b.tsv.gz", "neutral\tc\td\n")
    examples, _ = read(tmp_path, train="a.tsv, b.tsv")
    assert [e.texts for e in examples] == [("a", "b"), ("c", "d")]
    names = ("a.tsv,b.tsv", "b.tsv,a.tsv", "a.tsv")
    assert (
        len({json.dumps(source_of(config(tmp_path, train=n), "train").identity()) for n in names})
        == 3
    )
    for train, message in (
        ("a.tsv,c.tsv", r"c\.tsv: no such file"),
        ("a.tsv,", "name its"),
    ):
        with pytest.raises(UserError, match=message):
            read(tmp_path, train=train)
    with pytest.raises(UserError, match=r"^data\.dir=.*/none: no such folder$"):
        read(tmp_path / "none", train="a.tsv")


def test_what_is_generated_has_splits_of_its_own(tmp_path):
    options = {"source": "generated", "examples": 9, "holdout_size": 6}
    assert [len(read(tmp_path, split=s, **options)[0]) for s in ("train", "dev", "test")] == [
        9,
        6,
        6,
    ]
    assert held_out_splits(config(tmp_path, **options)) == []
    assert held_out_splits(config(tmp_path, train="a", dev="b")) == ["test"]


@pytest.fixture(scope="module")
def tfds(tmp_path_factory):
    entailments.register()
    return tmp_path_factory.mktemp("tfds")


def records(folder, name="pairs", format="pairs", split="train", policy="error", **options):
    options = {"source": "tfds", "tfds": f"entailments/{name}", "train": "train", **options}
    return read(folder, format, policy, split, **options)


def test_a_datasets_labels_have_the_datasets_names(tfds):
    for name, format in (("pairs", "pairs"), ("texts", "texts")):
        examples, _ = records(tfds, name, format, labels="entailment,neutral,contradiction")
        texts = [p if format == "pairs" else p[:1] for p in entailments.PAIRS[:14]]
        assert [e.texts for e in examples] == texts
        assert [e.label for e in examples] == [entailments.label(n) for n in range(14)]
        assert examples[3].label == "-"
        assert [e.group for e in examples] == [text[0] for text in texts]
        assert examples[2].place == f"entailments/{name} train:3"
    assert len(records(tfds, train="validation")[0]) == 6


def test_what_is_wrong_with_a_dataset_is_one_line(tfds):
    def fails(*args, **options):
        with pytest.raises(UserError) as error:
            records(tfds, *args, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert fails("texts") == (
        "data.tfds=entailments/texts: not of data.format=pairs, which needs the label 'label' and "
        "the texts premise, hypothesis; it has label and the texts text"
    )
    assert "it has no label and the texts premise, hypothesis" in fails("unlabelled")
    assert "which needs the label 'label' and the texts question, " in fails(format="ranking")
    assert "data.train='dev': entailments/pairs has the splits train, val" in fails(train="dev")
    assert "entailments/bytes train:6: not UTF-8; fix it, or set" in fails("bytes")
    examples, bad_examples = records(tfds, "bytes", policy="skip")
    assert len(examples) == 13 and bad_examples["not UTF-8"]["count"] == 1


@pytest.fixture(scope="module")
def squad(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    anss.write(folder)
    return folder


def test_candidates_of_squads_file(squad):
    examples, _ = read(squad, "ranking", train="train.json")
    context, questions = anss.passage(0, 1)
    sentences = [f"{part}." for part in context.removesuffix(".").split(". ")]
    expected = [
        Example(
            (question, sentence),
            "yes" if place in sentence else "no",
            "Article 0",
            f"{squad}/train.json: question 0-1-{place}",
            f"0-1-{place}",
        )
        for question, place in questions.items()
        for sentence in sentences
    ]
    assert [e for e in examples if e.question.startswith("0-1-")] == expected
    assert len({e.question for e in examples}) == 2 * (1 + 2 + 3 + 4) * 12 // 4


def test_the_dataset_has_what_the_files_have(squad, tmp_path):
    path = build(squad / "train.json", squad / "dev.json", tmp_path, holdout_size=20)
    assert path.is_dir() and path.parent.parent == tmp_path
    options = {
        "source": "tfds",
        "tfds": "squad_anss",
        "train": "train",
        "dev": "dev",
        "test": "test",
    }
    plain = lambda examples: [(e.texts, e.label, e.group, e.question) for e in examples]
    by_split = {
        split: plain(read(tmp_path, "ranking", split=split, **options)[0])
        for split in ("train", "dev", "test")
    }
    assert by_split["test"] == plain(read(squad, "ranking", train="dev.json")[0])
    everything = plain(read(squad, "ranking", train="train.json")[0])
    articles = {split: {group for _, _, group, _ in rows} for split, rows in by_split.items()}
    assert articles["train"] | articles["dev"] == {f"Article {n}" for n in range(12)}
    for split in ("train", "dev"):  # in the order of the file
        assert by_split[split] == [row for row in everything if row[2] in articles[split]]
    assert not articles["train"] & articles["dev"]
    assert (
        20
        <= len(by_split["dev"])
        < 20 + max(sum(row[2] == article for row in everything) for article in articles["dev"])
    )


def test_a_dataset_that_cannot_be_built_is_one_line(squad, tmp_path):
    def fails(*args, **options):
        with pytest.raises(UserError) as error:
            build(*args, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    train, dev = squad / "train.json", squad / "dev.json"
    assert "none.json: no such file" in fails(squad / "none.json", dev, tmp_path)
    assert "holdout_size=48307: too many for" in fails(train, dev, tmp_path)
    broken = json.loads(dev.read_text())
    broken["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 500
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    message = fails(train, tmp_path / "broken.json", tmp_path, holdout_size=9)
    assert "broken.json: data[0].paragraphs[0].qas[0].answers[0]: answer not at its" in message
    build(train, tmp_path / "broken.json", tmp_path, holdout_size=9, on_bad_example="skip")
    assert "already exists; delete it, or" in fails(train, dev, tmp_path, holdout_size=9)
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file" in fails(train, dev, tmp_path / "file", holdout_size=9)


@needs_real_data
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("dev.tsv", (3329, 3235, 3278)),
        ("train_partial.tsv", (8165, 8055, 8255)),
        ("mnli_subset_train.tsv", None),
    ],
)
def test_real_pairs(name, counts):
    examples, bad_examples = read(real_data("snli"), train=name, columns="1,2,3")
    labels = [e.label for e in examples]
    actual = tuple(labels.count(n) for n in ("entailment", "neutral", "contradiction"))
    assert sum(actual) == len(labels) and not bad_examples
    assert actual == counts if counts else len(labels) == 20_000

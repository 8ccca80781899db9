"""Labels of tables: by name, by number, and the names that a file has for its numbers."""

import dataclasses
import logging

import pytest

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.data.labels import LabelReader
from common_jax.config import from_values, to_config_dict
from common_jax.data.corpus import Corpus
from common_jax.errors import UserError
from tests.common_jax.data.other_tools import comma_separated, json_lines
from tests.families.data.corpora import labelled
from tests.refusals import refusal

NAMES = [  # data.labels, the file's names of 0, 1, ..., and the labels of these
    ("bad,good", ["Good", "Bad"], ["good", "bad"]),
    ("bad,good", ["good ", " bad"], ["good", "bad"]),
    ("Bad,bad", ["bad", "Bad"], ["bad", "Bad"]),  # exactly first
    ("bad,good", ["-", "good", "bad"], ["-", "good", "bad"]),  # one that is ignored
    ("bad,good,mixed", ["good", "bad"], ["good", "bad"]),
    ('"Food, Drink",Rooms', ["Rooms", "Food, Drink"], ["Rooms", "Food, Drink"]),
    ("bad,good", ["0", "1"], ["bad", "good"]),  # no names
    ("bad,good", [], ["bad", "good"]),
]


@pytest.mark.parametrize(("labels", "names", "expected"), NAMES)
def test_names_of_a_file_decide_over_positions(labels, names, expected):
    reader = LabelReader(DataConfig(dir="x", train="x", labels=labels).names, ["-"], "f", names)
    assert [reader(str(number)) for number in range(len(expected))] == expected
    assert reader("-1") == "-"


UNKNOWN = [
    ("bad,good", ["positive", "negative"], False, "--config.data.labels=positive,negative accepts"),
    ("bad,good", ["good", "Bad", "?"], False, "'--config.data.ignored_labels=-,?' accepts them"),
    ("bad,good", ["-", "a, b", "c"], False, "'--config.data.labels=\"a, b\",c' accepts them"),
    ("bad,good", ["Good", "good", "bad"], False, "several of which are the same"),
    ("good,Good", ["GOOD", "x"], False, "--config.data.labels=GOOD,x accepts them"),
    ("no,yes", ["wrong", "right"], True, "rename them to no,yes"),
]


@pytest.mark.parametrize(("labels", "names", "fixed", "advice"), UNKNOWN)
def test_names_that_are_no_labels_are_refused(labels, names, fixed, advice):
    message = refusal(LabelReader, labels.split(","), ["-"], "f.parquet", names, fixed=fixed)
    assert message.startswith("f.parquet: its labels are ") and advice in message
    assert f"data.labels={labels} and data.ignored_labels=-" in message


def prepared(folder, name, content, **options):
    (folder / name).write_bytes(content)
    return labelled(folder, name, **{"format": "texts", **options})


def labels_of(data):
    return Corpus.open(data.path / "test").column("label").tolist()


TABLES = {"t.jsonl": json_lines, "t.csv": comma_separated}
BOOLS = [(False, "sad"), (True, "glad"), (True, "fine")]


@pytest.mark.parametrize("labels", ["bad,good", "no,yes", "False,True", "false,true", "0,1"])
@pytest.mark.parametrize("name", TABLES)
def test_true_and_false(tmp_path, name, labels):
    content = TABLES[name]([{"label": label, "text": text} for label, text in BOOLS])
    data = prepared(tmp_path, name, content, labels=labels)
    assert labels_of(data) == [0, 1, 1]


def test_true_and_false_are_labels_by_name_before_their_order(tmp_path):
    content = json_lines([{"label": label, "text": text} for label, text in BOOLS])
    assert labels_of(prepared(tmp_path, "t.jsonl", content, labels="yes,no")) == [1, 0, 0]
    with pytest.raises(UserError, match=r"label 'False': none of data\.labels=a,b,c"):
        prepared(tmp_path, "t.jsonl", content, labels="a,b,c")


@pytest.mark.parametrize("name", TABLES)
def test_labels_with_commas_and_with_blanks_around_them(tmp_path, name):
    content = TABLES[name]([{"label": f" {n} ", "text": n} for n in ("Food, Drink", "Rooms")])
    data = prepared(tmp_path, name, content, labels='"Food, Drink",Rooms')
    assert data.config.names == ("Food, Drink", "Rooms") and labels_of(data) == [0, 1]
    with pytest.raises(UserError, match="labels with commas in quotation marks"):
        prepared(tmp_path, name, content, labels="Food, Drink,Rooms")


PATH = "Saved in C:\\new\\rooms"


@pytest.mark.parametrize(("breaks", "text"), [(False, PATH), (True, "Saved in C:\new\\rooms")])
def test_a_backslash_is_text_but_in_yelps_layout(tmp_path, breaks, text, caplog):
    caplog.set_level(logging.INFO)
    rows = [{"label": "1", "text": PATH}, {"label": "2", "text": "a\\nb"}]
    csv = prepared(tmp_path, "t.csv", comma_separated(rows), labels="1,2", escaped_breaks=breaks)
    assert csv.texts("test")[0] == [text]
    notice = 't.csv:2: a backslash before "n" is text; data.escaped_breaks=True makes it a line br'
    assert (notice in caplog.text) == (not breaks)
    plain = prepared(tmp_path, "t.jsonl", json_lines(rows), labels="1,2", escaped_breaks=breaks)
    assert plain.texts("test")[0] == [PATH]
    assert (csv.digests() == plain.digests()) == (not breaks)


def test_stored_configs_keep_their_readings():
    config = Config(data=DataConfig(dir="x", train="t.csv"))
    values = to_config_dict(config).to_dict()
    assert from_values(Config, values) == config
    for field in ("escaped_breaks", "quotes"):
        del values["data"][field]
    values["data"]["labels"] = '"a",b'
    old = from_values(Config, values).data
    assert (old.escaped_breaks, old.quotes, old.names) == (True, "text", ('"a"', "b"))


@pytest.mark.parametrize(("name", "equal"), [("t.jsonl", True), ("t.csv", False), ("t.tsv", False)])
def test_records_of_missing_files_are_those_of_the_reading(tmp_path, name, equal):
    """A corpus of an earlier version is used without its files where the reading has no effect."""
    new = DataConfig(dir=str(tmp_path), train=name, format="texts")
    old = dataclasses.replace(new, escaped_breaks=True, quotes="text")
    made = [LabelledData(config, WordsConfig(dim=2, rows=90)) for config in (old, new)]
    requests = [data._request(data.builder()) for data in made]
    assert not {"escaped_breaks", "quotes"} & requests[0]["fields"].keys()
    assert (requests[0] == requests[1]) == equal


def test_labels_that_count_from_one_are_refused(tmp_path):
    rows = [{"label": 1 + n % 3, "first": f"a {n}", "second": "b"} for n in range(9)]
    options = {"format": "pairs", "on_bad_example": "skip"}
    message = r"t\.csv: labels by number, with 3 and without 0, .* set data\.labels=1,2,3$"
    with pytest.raises(UserError, match=message):
        prepared(tmp_path, "t.csv", comma_separated(rows), labels="World,Sports,News", **options)
    data = prepared(tmp_path, "t.csv", comma_separated(rows), labels="1,2,3", format="pairs")
    assert labels_of(data) == [0, 1, 2] * 3


NUMBERED = [  # data.labels, the table's labels, and how they are read
    ("bad,good", ["False", "True"], ["bad", "good"]),
    ("no,yes", ["0", "1"], ["no", "yes"]),
    ("False,True", ["0", "1"], ["False", "True"]),
    ("good,bad", ["0", "1"], ["good", "bad"]),  # the order of a file's names
    ("bad,good", ["good", "bad"], ["good", "bad"]),
    ("bad,good", ["0", "1"], None),
    ("contradiction,entailment,neutral", ["0", "1", "2", "-1"], None),
]


@pytest.mark.parametrize(("labels", "table", "expected"), NUMBERED)
def test_names_in_alphabetical_order_have_no_numbers(labels, table, expected):
    for inferred in (True, False):
        reader = LabelReader(labels.split(","), ["-"], "t.csv", inferred=inferred)
        read = [reader(label) for label in table]
        if inferred and expected is None:
            line = f"write names, or set data.labels={labels} if they are 0 to "
            assert line in refusal(reader.require_positions)
        else:
            reader.require_positions()
            assert expected in (None, read)


SIGNED = [  # data.labels, the table's labels, and a part of the refusal
    ("no,yes", ["1", "-1"], "with -1, which is no label, and without 0 or 1; "),
    (
        "neg,neu,pos",
        ["-1", "0", "1.0"],
        "set data.labels=-1,0,1, else set data.ignored_labels=-,-1",
    ),
    ("no,yes", ["0", "-1"], "without 0 or 1; if it is one, set data.labels=-1,0, "),
    ("no,yes", ["0", "-1", "1"], ""),
    ("no,yes", ["yes", "no", "-1"], ""),
    ("no,yes", ["-1"], ""),
    ("-1,0,1", ["-1", "0"], ""),
]


@pytest.mark.parametrize(("labels", "table", "message"), SIGNED)
def test_minus_one_that_may_be_a_label(labels, table, message):
    reader = LabelReader(labels.split(","), ["-"], "t.csv")
    assert all(map(reader, table))
    if message:
        assert message in refusal(reader.require_positions)
        ignoring = LabelReader(labels.split(","), ["-", "-1"], "t.csv")
        assert ignoring("-1") == "-1"
        [ignoring(label) for label in table]
        ignoring.require_positions()
    else:
        reader.require_positions()
    names = LabelReader(["no", "yes"], ["-"], "t.parquet", ["yes", "no"])
    assert [names("-1"), names("0")] == ["-", "yes"]
    names.require_positions()


def test_minus_one_of_a_ranking_is_refused(tmp_path):
    rows = [
        {"question": f"who {n // 2}", "sentence": f"a {n}", "label": 1 - n % 2 * 2}
        for n in range(8)
    ]
    with pytest.raises(
        UserError, match=r"with -1, .* write no and yes, else set data\.ignored_labels=-,-1$"
    ):
        prepared(tmp_path, "t.csv", comma_separated(rows), format="ranking", ignored_labels="-")

"""Tables in every format and compression have the same rows; what is none is one line."""

import logging

import pytest

from common_jax.bad_examples import BadExamples
from common_jax.data.layouts import Layout
from common_jax.errors import UserError
from common_jax.io.files import find_files
from csan_jax.data.sources import find_stems
from tests.common_jax.data import other_tools
from tests.common_jax.data.other_tools import fails, fields, json_lines, json_list, parquet, table

ROWS = [
    {"id": f"r{n}", "Label": str(n % 5), "text": f'“{n}”, "good"; é \U0001f600 line{n}'}
    for n in range(10)
]
EXPECTED = [[row["Label"], row["text"]] for row in ROWS]


@pytest.mark.parametrize("compression", other_tools.COMPRESSIONS)
@pytest.mark.parametrize("format", other_tools.FORMATS)
def test_formats_and_compressions(tmp_path, format, compression, caplog):
    caplog.set_level(logging.INFO)
    content = other_tools.COMPRESSIONS[compression](other_tools.FORMATS[format](ROWS))
    names = [f"t.{format}{compression}", f"T.{format.upper()}{compression.upper()}"]
    for name in (*names, "any") if format in ("parquet", "tsv") else names:
        made = table(tmp_path, name, content)
        assert fields(made) == EXPECTED
        assert caplog.messages[-1] == (
            f"{made.path}: columns as in reviews: label = Label, text = text; not read: id"
        )


FORMS = {
    "t.parquet: row 3": parquet(ROWS),
    "t.jsonl:3": json_lines(ROWS),
    "t.json:3": json_lines(ROWS),
    "t.json: [2]": other_tools.indented(ROWS),
    "t.jsonl: [2]": json_list(ROWS),
    "t.csv:4": other_tools.comma_separated(ROWS, ";", bom=True, lineterminator="\r\n"),
    "pairs.zip:4": other_tools.zipped(other_tools.comma_separated(ROWS), "t.csv"),
    "t.txt:4": other_tools.tab_separated(ROWS),
}


@pytest.mark.parametrize("place", FORMS)
def test_locations_and_other_forms(tmp_path, place):
    """The place is that of the third row."""
    made = table(tmp_path, place.partition(":")[0], FORMS[place])
    rows = list(made.rows(BadExamples("error")))
    assert [[*row.fields.values()] for row in rows] == EXPECTED
    assert rows[2].place == f"{tmp_path}/{place}" and len({row.place for row in rows}) == 10


NESTED = [{"x": {"de": f"d{n}", "en": f"e{n}", "more": [n]}, "x.y": "flat"} for n in range(4)]
WRITERS = [("t.parquet", parquet), ("t.jsonl", json_lines), ("t.json", json_list)]


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_columns_by_path_and_those_that_are_not_known_or_not_certain(tmp_path, name, write):
    made = table(tmp_path, name, write(NESTED), {"label": "x.de", "text": "x.y"})
    assert fields(made) == [[f"d{n}", "flat"] for n in range(4)]
    unknown = fails(table(tmp_path, name, write(NESTED)), "skip")
    assert unknown.startswith(f"{name}: no columns that are known: x, x.de, x.en, x.more, x.y; ")
    assert unknown.endswith("; set data.columns=label=NAME,text=NAME with names of columns")
    both = table(tmp_path, name, write([{"stars": "1", "label": "2", "review": "a"}]))
    assert fails(both, "skip").startswith(f"{name}: several columns can be the label: stars, label")


@pytest.mark.parametrize(
    ("name", "content", "columns", "expected"),
    [
        ("t.parquet", parquet(ROWS), (2, -1), EXPECTED),
        ("t.parquet", parquet(ROWS), (2, 4), "t.parquet has 3 columns, none with number 4: id, "),
        ("t.parquet", parquet(NESTED), ("x.fr", "x.y"), "t.parquet has no column 'x.fr'; it has x"),
        ("t.jsonl", json_lines(ROWS), ("rating", "text"), "t.jsonl has no column 'rating'; it has"),
        ("t.jsonl", json_lines(ROWS), (2, 1), "t.jsonl: columns of JSON have no numbers"),
        ("t.jsonl", json_lines(ROWS), (1, 3), "t.jsonl: columns of JSON have no numbers"),
        ("t.json", json_list(ROWS), (-2, -1), "t.json: columns of JSON have no numbers"),
        # 1, 2 as in a table without a header
        ("t.json", b'[{"text": "a", "label": "3"}]', (1, 2), [["3", "a"]]),
        ("t.jsonl", b'{"text": "a", "label": "3"}', (1, 2), [["3", "a"]]),
    ],
)
def test_columns_by_name_and_number(tmp_path, name, content, columns, expected):
    made = table(tmp_path, name, content, zip(("label", "text"), columns, strict=True))
    if isinstance(expected, list):
        assert fields(made) == expected
    else:
        assert fails(made, "skip").startswith(f"data.columns: {expected}")


@pytest.mark.parametrize(("name", "write"), WRITERS[:2])
def test_a_layout_of_which_all_columns_are_there(tmp_path, name, write, caplog):
    caplog.set_level(logging.INFO)
    layouts = [
        Layout("first", {"label": ("a",), "text": ("b",)}, {"id": ("key", "id")}),
        Layout("second", {"label": ("b",), "text": ("c.d",)}),
    ]
    first = {"a": "1", "b": "2", "c": {"d": "3"}, "id": 7}
    second = {"a": "1", "b": "2", "c": None, "id": 8}
    made = table(tmp_path, name, write([first, second]), layouts=layouts)
    assert fields(made) == [["1", "2", "7"], ["1", "2", "8"]]
    rest = [{name: first[name] for name in "bc"}]
    assert fields(table(tmp_path, name, write(rest), layouts=layouts)) == [["2", "3"]]
    assert "columns as in second: label = b, text = c.d" in caplog.messages[-1]
    text = table(tmp_path, "t.csv", "key,B,a\nk,2,1\n", layouts=layouts)
    assert fields(text) == [["1", "2", "k"]]


def test_values_of_another_form_are_bad_examples(tmp_path):
    null = {"label": "3", "text": None}
    rows = [{"label": "1", "text": {"en": "a"}}, {"label": "2", "text": ["x"]}, null]
    rows += [{"text": {"en": "b"}}, ["list"]]
    made = table(tmp_path, "t.jsonl", json_lines(rows), {"label": "label", "text": "text.en"})
    bad_examples = BadExamples("skip")
    assert len(list(made.rows(bad_examples))) == 1
    ((_, entry),) = bad_examples.counts.items()
    assert entry["count"] == 4
    assert entry["first"][0].startswith(f"{made.path}:2: text: a list")
    nulls = table(tmp_path, "t.parquet", parquet([null, {"label": "4", "text": "a"}]))
    assert fails(nulls).startswith("t.parquet: row 1.text: null")
    assert fields(nulls, "skip") == [["4", "a"]]


GOOD = parquet(ROWS)
TWICE = b'[\n{"label": "1", "text": "a", "text": "b"}]'
NONE = [
    ("t.parquet", b"", "t.parquet: not a parquet file that can be read (Parquet file size is 0"),
    ("t.parquet", b"a,b\n1,2\n", "t.parquet: not a parquet file"),
    ("t.parquet", GOOD[:-20], "t.parquet: not a parquet file"),
    ("t.parquet", GOOD[:40] + b"\0" * 60 + GOOD[100:], "t.parquet: not a parquet file"),
    ("t.jsonl", b'{\n"label": "1"}', "t.jsonl:1: an object over several lines"),
    ("t.json", b'{\n"label": "1"}', "t.json:1: an object over several lines"),
    ("t.json", b'[\n{"label": "1", "text": "a"},\n{"label" "1"}]', "t.json:3:10: not JSON"),
    ("t.json", TWICE, "t.json: not JSON that can be read (two values of 'text')"),
    ("t.json", b'[{"label": "1", "text": "a"}', "t.json:1:29: not JSON (Expecting"),
    ("t.json", b'[{"label": "\xff"}]', "t.json:1: not UTF-8"),
    ("t.csv.zst", b"label,text\n", "t.csv.zst:1: the zstd data is damaged or cut off ("),
    ("t.csv.xz", b"label,text\n", "t.csv.xz:1: the xz data is damaged or cut off ("),
    ("t.csv.bz2", b"label,text\n", "t.csv.bz2:1: the bzip2 data is damaged or cut off ("),
    ("t.parquet.gz", GOOD, "t.parquet.gz: the gzip data is damaged or cut off (no gzip header)"),
]


@pytest.mark.parametrize(("name", "content", "message"), NONE, ids=[row[2] for row in NONE])
def test_a_file_that_is_none(tmp_path, name, content, message):
    assert fails(table(tmp_path, name, content), "skip").startswith(message)


def test_shards_are_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 9, 1):
        (tmp_path / f"a-{number}.csv").touch()
        for language in ("de", "en.gz"):
            (tmp_path / f"p-{number}.x.{language}").touch()
    names = lambda paths: [path.name for path in paths]
    assert names(find_files(tmp_path, "a-*.csv", "k")) == ["a-1.csv", "a-9.csv", "a-10.csv"]
    for language in ("de", "en"):
        assert names(find_stems(tmp_path, "p-*", language)) == ["p-1.x", "p-9.x", "p-10.x"]
    with pytest.raises(UserError, match=r"^k=b-\*: no file"):
        find_files(tmp_path, "b-*", "k")
    (tmp_path / "a-[1].csv").touch()
    assert names(find_files(tmp_path, "a-[1].csv", "k")) == ["a-[1].csv"]
    assert names(find_files(tmp_path / "none", f"{tmp_path}/a-1*", "k")) == ["a-1.csv", "a-10.csv"]

"""Tables: what Python's csv writes is read; all else is refused or counted."""

import csv
import gzip
import io
import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.bad_examples import BadExamples
from common_jax.data.layouts import Layout
from common_jax.data.tables import Table
from common_jax.errors import UserError

NAMES = {"label": ("label", "stars"), "text": ("text", "review")}


def table(folder, content, name="t.csv", columns=(), **options) -> Table:
    path = Path(folder) / name
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return Table(path, [Layout("", NAMES)], dict(columns), **options)


def texts(made, policy="error"):
    """The fields of all rows, the lines of the rows, and the counts of bad ones."""
    bad_examples = BadExamples(policy)
    rows = list(made.rows(bad_examples))
    lines = [int(row.place.rpartition(":")[2]) for row in rows]
    return [[*row.fields.values()] for row in rows], lines, bad_examples.counts


def fails(made) -> str:
    with pytest.raises(UserError) as error:
        texts(made)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{made.path.parent}/", "")


CELLS = st.text("ab é,;\t\"'\n\u2028", max_size=8)


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["t.csv", "t.CSV", "t.csv.gz"]),
    st.booleans(),
)
def test_what_a_writer_of_csv_wrote(rows, separator, end, quoting, name, bom):
    """pandas quotes minimally; spreadsheets have semicolons, CRLF and a byte order mark, and blank
    rows at the end, which are none."""
    written = io.StringIO(newline="")
    writer = csv.writer(written, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerows([("Stars", "title", "text"), *rows])
    content = ("\ufeff" if bom else "") + written.getvalue()
    with tempfile.TemporaryDirectory() as folder:
        actual, lines, _ = texts(table(folder, content, name))
    while rows and not any(map(str.strip, rows[-1])):
        rows = rows[:-1]
    assert actual == [[label, text] for label, _, text in rows]
    starts = [2 + sum("".join(row).count("\n") + 1 for row in rows[:n]) for n in range(len(rows))]
    assert lines == starts


def test_a_tab_separated_line_is_its_cells_as_they_are(tmp_path):
    content = '\ufefftext\tlabel\r\nsay "a, b";\t4\r\n"open\t"5"\n'
    made = table(tmp_path, content, "t.tsv")
    assert texts(made)[:2] == ([["4", 'say "a, b";'], ['"5"', '"open']], [2, 3])


def test_columns_by_name_and_by_number(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    content = "id,body,text,rating\n7,b,t,3\n"
    by_name = table(tmp_path, content, columns={"label": "rating", "text": "body"})
    assert texts(by_name)[0] == [["3", "b"]]
    assert caplog.messages == [f"{by_name.path}: label = rating, text = body; not read: id, text"]
    for columns in ({"label": 4, "text": 2}, {"label": -1, "text": -3}):
        by_number = table(tmp_path, content, columns=columns)
        assert texts(by_number)[:2] == ([["rating", "body"], ["3", "b"]], [1, 2])
    known = table(tmp_path, "id,review,stars\n7,b,3\n", columns={"label": 3, "text": 2})
    assert texts(known)[0] == [["3", "b"]]


def test_a_header_is_one_also_where_the_numbers_exchange_its_columns(tmp_path):
    made = table(tmp_path, "review,stars\nb,3\n", columns={"label": 1, "text": 2})
    assert texts(made)[:2] == ([["b", "3"]], [2])


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_columns_of_json_have_no_numbers(tmp_path, name):
    row = '{"text": "a", "label": "3"}'
    content = row if name == "t.jsonl" else f"[{row}]"
    for numbers in ((2, 1), (1, 3), (-2, -1)):
        made = table(tmp_path, content, name, columns=zip(("label", "text"), numbers, strict=True))
        assert fails(made) == (
            f"data.columns: {name}: columns of JSON have no numbers; set "
            "data.columns=label=NAME,text=NAME with names of columns"
        )
    in_order = table(tmp_path, content, name, columns={"label": 1, "text": 2})
    assert [*next(in_order.rows(BadExamples("error"))).fields.values()] == ["3", "a"]


HEADERS = [
    ("label,text,stars\n1,a,b\n", "t.csv:1: several columns can be the label: label, stars; set "),
    ("stars,body\n1,a\n", "t.csv:1: no header that is known, and not surely an example: stars, b"),
    ("5,title,body\n", "t.csv:1: 3 columns where 2 are needed, and no header that is known: 5, t"),
    ("5;a,b\n4;c,d\n", "t.csv: its columns may be separated by ',' or ';'; put texts in quotat"),
]


@pytest.mark.parametrize(("content", "message"), HEADERS)
def test_what_is_not_known_is_refused_until_columns_are_named(tmp_path, content, message):
    line = fails(table(tmp_path, content))
    assert line.startswith(message)
    if "separated" not in line:
        names = "data.columns=label=NAME,text=NAME with names of the header"
        assert line.endswith(f"; set {names}, or by number, label=1,text=2")
        named = table(tmp_path, content, columns={"label": 1, "text": 2})
        assert texts(named)[0][-1] == content.splitlines()[-1].split(",")[:2]


def test_names_that_the_header_does_not_have_or_has_twice(tmp_path):
    made = table(tmp_path, "id,text,text\n", columns={"label": "stars", "text": "text"})
    message = "data.columns: t.csv has no column 'stars'; it has id, text, text"
    assert fails(made) == message
    made = table(tmp_path, "id,text,text\n", columns={"label": "id", "text": "text"})
    assert fails(made) == "data.columns: t.csv has several columns 'text'; give its number"


def test_a_semicolon_is_found_beside_commas_in_texts(tmp_path):
    content = '5;"a, b"\n4;c\n3;d, e\n'
    assert texts(table(tmp_path, content))[0] == [["5", "a, b"], ["4", "c"], ["3", "d, e"]]
    content = '5,"a; b"\n4,c\n'
    assert texts(table(tmp_path, content))[0] == [["5", "a; b"], ["4", "c"]]


BAD = [
    ("t.csv", 'label,text\n1,"a\nb"\n2\n3,c\n', 4, "1 columns where 2 are needed"),
    ("t.csv", "1,a\n2,b,c\n3,c\n", 2, "3 columns where 2 are needed"),
    ("t.csv", 'label,text,id\n1,a,0\n2,"b"\n3,c,0\n', 3, "2 columns where 3 are needed"),
    ("t.csv", '1,a\n3,c\n2,"open\n4,d\n', 3, "not CSV (unexpected end of data)"),
    ("t.csv", '1,a\n2,"open\n3,"c"\n3,c\n', 2, "not CSV (',' expected after '\"')"),
    ("t.csv", b'1,a\n2,"x\n\xff"\n3,c\n', 3, "not UTF-8 (byte 0xff after 0 bytes)"),
    ("t.tsv", "1\ta\n2\n3\tc\n", 2, "1 columns where 2 are needed"),
    ("t.tsv", "1\ta\n2\tb\tc\n3\tc\n", 2, "3 columns where 2 are needed"),
    ("t.tsv", "1\ta\n \t\n\n3\tc\n".replace(" \t", "2"), 2, "1 columns where 2 are needed"),
]


@pytest.mark.parametrize(("name", "content", "line", "message"), BAD)
def test_rows_of_another_length_and_broken_ones(tmp_path, name, content, line, message):
    made = table(tmp_path, content, name, skips_blank=True)
    assert fails(made) == f"{name}:{line}: {message}; fix it, or set data.on_bad_example=skip"
    rows, _, counts = texts(made, "skip")
    assert rows == [["1", "a\nb" if "\nb" in str(content) else "a"], ["3", "c"]]
    assert sum(entry["count"] for entry in counts.values()) == 1


def test_blank_lines(tmp_path):
    assert texts(table(tmp_path, "\n1,a\n\n2,b\n\n"))[1] == [2, 4]
    content = "1\ta\n\n2\tb\n"
    assert texts(table(tmp_path, content, "t.tsv", skips_blank=True))[1] == [1, 3]
    assert fails(table(tmp_path, content, "t.tsv")).startswith("t.tsv:2: 1 columns where 2 are")


@pytest.mark.parametrize("content", ["", "\n", "\ufefflabel,text\r\n", "text;id;label\n"])
def test_no_rows(tmp_path, content):
    assert texts(table(tmp_path, content)) == ([], [], {})


HEADER = "label,text\n"
FIRST_ROWS = [
    ("sep=;\ntext;label\na, b;3\n", [["3", "a, b"]]),  # Excel's declaration
    ('\ufeff"SEP=|"\r\ntext|label\r\n\'a|3\r\n', [["3", "'a"]]),
    (
        "Reviews 2024\n" + HEADER + "3,a\n",
        "t.csv:1: a row above the header, which is line 2; delet",
    ),
    ("Reviews;\n\nlabel;text\n3;a\n", "t.csv:1: a row above the header, which is line 3; delete"),
    ("Reviews, 2024\nlabel;text\n3;a\n", "t.csv:1: a row above the header, which is line 2; delet"),
    (
        "Reviews\n3,a\n",
        "t.csv:1: 1 columns where 2 are needed, and no header that is known: Reviews",
    ),
    ('"label"x,text\n3,a\n', "t.csv:1: not CSV (',' expected after '\"')"),
]


@pytest.mark.parametrize(("content", "expected"), FIRST_ROWS)
def test_what_may_be_a_header_is_never_skipped(tmp_path, content, expected, monkeypatch):
    """Else columns would be read by their order, which a header may name otherwise."""
    monkeypatch.setattr(Table, "example_fault", lambda _, cells: "no" * (not cells[0].isdigit()))
    made = table(tmp_path, content)
    for policy in ("error", "skip"):
        if isinstance(expected, list):
            assert texts(made, policy)[0] == expected
        else:
            with pytest.raises(UserError) as error:
                texts(made, policy)
            assert str(error.value).replace(f"{tmp_path}/", "").startswith(expected)
            assert "on_bad_example" not in str(error.value)


def test_a_header_below_a_title_is_named(tmp_path):
    made = table(tmp_path, "Reviews\nid,body\n1,a\n", columns={"label": "id", "text": "body"})
    assert fails(made).endswith("it has Reviews; the header is line 2: delete what is above it")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_rows_of_separators_at_the_end_are_none(tmp_path, name, caplog):
    caplog.set_level(logging.INFO)
    content = "label,text\n1,a\n,\n2,b\n,\n\n,\n".replace(",", "," if name == "t.csv" else "\t")
    made = table(tmp_path, content, name)
    assert texts(made)[:2] == ([["1", "a"], ["", ""], ["2", "b"]], [2, 3, 4])
    count = "2 rows of separators only, at its end, are left out"
    assert caplog.messages[-1] == f"{made.path}:5: {count}"


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_carriage_returns_end_lines_only_without_line_feeds(tmp_path, name):
    content = "label,text\r1,a\r2,b\u2028\x0b\x0c\x85c".replace(
        ",", "," if name[2] == "c" else "\t"
    )
    alone = table(tmp_path, content, name)
    assert texts(alone)[:2] == ([["1", "a"], ["2", "b\u2028\x0b\x0c\x85c"]], [2, 3])
    mixed = table(tmp_path, '1,a\rb\n2,"c\rd"\n', "m.csv")
    assert texts(mixed)[:2] == ([["1", "a\rb"], ["2", "c\rd"]], [1, 2])


MARKS = [  # lines with "|" for a tab, and whether they are read as CSV
    ('label|text\n1|"say ""a"""\n2|b', True),
    ('label|text\n1|"a|b"\n2|b', True),
    ('label|text\n1|"a\n\nb"\n2|b', True),
    ('"label"|"text"\n"1"|"a"\n"2"|"b"', True),
    ('label|text\n1|"a"\n2|b', False),
    ('label|text\n1|"a" he said\n2|"say ""b"""', False),
    ('label|text\n1|5" high\n2|b', False),
    ('label|text\n1|"open\n2|closed"\n', False),  # a cell of two lines, which are rows
    ('label|text\n1|"open\n2|b', False),
    ('label|text\n1|""\n2|b', False),
]


@pytest.mark.parametrize(("content", "is_csv"), MARKS)
def test_quotation_marks_of_tab_separated_tables(tmp_path, content, is_csv, caplog):
    """As pandas writes and reads them, if only a writer of CSV would have written them."""
    caplog.set_level(logging.INFO)
    content = content.replace("|", "\t")
    as_csv = [*csv.reader(io.StringIO(content), delimiter="\t")][1:]
    as_text = [line.split("\t") for line in content.splitlines()][1:]
    assert texts(table(tmp_path, content, "t.tsv"))[0] == (as_csv if is_csv else as_text)
    chosen, other = ("as in CSV", "text") if is_csv else ("part of the text", "csv")
    (message,) = [m for m in caplog.messages if "quotation marks" in m]
    assert chosen in message and f"data.quotes={other}" in message
    for quotes, rows in (("text", as_text), ("csv", as_csv)):
        if is_csv and content.startswith("label") and all(len(row) == 2 for row in rows):
            assert texts(table(tmp_path, content, "t.tsv", quotes=quotes))[0] == rows

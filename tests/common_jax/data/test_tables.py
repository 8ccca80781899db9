"""Tables of text: what Python's csv writes is read; all else is refused or counted."""

import csv
import gzip
import io
import logging
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.bad_examples import BadExamples
from common_jax.data.tables import Table
from tests.common_jax.data.other_tools import fails, fields, table


def texts(made, policy="error"):
    """The fields of all rows, the lines of the rows, and the counts of bad ones."""
    bad_examples = BadExamples(policy)
    rows = list(made.rows(bad_examples))
    lines = [int(row.place.rpartition(":")[2]) for row in rows]
    return [[*row.fields.values()] for row in rows], lines, bad_examples.counts


CHARACTERS = [*"ab é,;\t\"'\n\u2028", "\r\n"]
CELLS = st.lists(st.sampled_from(CHARACTERS), max_size=8).map("".join)


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
    content = (("\ufeff" if bom else "") + written.getvalue()).encode()
    content = gzip.compress(content) if name.endswith(".gz") else content
    with tempfile.TemporaryDirectory() as folder:
        actual, lines, _ = texts(table(folder, name, content))
    while rows and not any(map(str.strip, rows[-1])):
        rows = rows[:-1]
    assert actual == [[label, text] for label, _, text in rows]
    starts = [2 + sum("".join(row).count("\n") + 1 for row in rows[:n]) for n in range(len(rows))]
    assert lines == starts


BOM = "\ufeff"
FOUR = "id,body,text,rating\n7,b,t,3\n"
AS_THEY_ARE = [["4", 'say "a, b";'], ['"5"', '"open']]
BREAKS = "b\u2028\x0b\x0c\x85c"  # which str.splitlines takes for ends of lines
# name, content, columns (label, text), rows and their lines
READ = [
    ("t.tsv", f'{BOM}text\tlabel\r\nsay "a, b";\t4\r\n"open\t"5"\n', None, AS_THEY_ARE, [2, 3]),
    ("t.csv", FOUR, (4, 2), [["rating", "body"], ["3", "b"]], [1, 2]),
    ("t.csv", FOUR, (-1, -3), [["rating", "body"], ["3", "b"]], [1, 2]),
    ("t.csv", "id,review,stars\n7,b,3\n", (3, 2), [["3", "b"]], [2]),
    # Numbers exchange the columns of a header, which is one all the same.
    ("t.csv", "review,stars\nb,3\n", (1, 2), [["b", "3"]], [2]),
    # The separator is the one that all rows have.
    (
        "t.csv",
        '5;"a, b"\n4;c\n3;d, e\n',
        None,
        [["5", "a, b"], ["4", "c"], ["3", "d, e"]],
        [1, 2, 3],
    ),
    ("t.csv", '5,"a; b"\n4,c\n', None, [["5", "a; b"], ["4", "c"]], [1, 2]),
    ("t.csv", "\n1,a\n\n2,b\n\n", None, [["1", "a"], ["2", "b"]], [2, 4]),
    ("t.csv", "", None, [], []),
    ("t.csv", "\n", None, [], []),
    ("t.csv", f"{BOM}label,text\r\n", None, [], []),
    ("t.csv", "text;id;label\n", None, [], []),
    # Carriage returns end lines only in a file without line feeds.
    ("t.csv", f"label,text\r1,a\r2,{BREAKS}", None, [["1", "a"], ["2", BREAKS]], [2, 3]),
    ("t.tsv", f"label\ttext\r1\ta\r2\t{BREAKS}", None, [["1", "a"], ["2", BREAKS]], [2, 3]),
    ("t.csv", '1,a\rb\n2,"c\rd"\n', None, [["1", "a\rb"], ["2", "c\rd"]], [1, 2]),
    # The line ends of a cell are those of the file.
    ("t.csv", '1,"a\r\nb"\n2,"c\nd"\r\n', None, [["1", "a\r\nb"], ["2", "c\nd"]], [1, 3]),
    ("t.tsv", '1\t"a\r\n""b"""\r\n2\tc\r\n', None, [["1", 'a\r\n"b"'], ["2", "c"]], [1, 3]),
    ("t.csv", '1,"a\rb"\r2,c\r', None, [["1", "a\rb"], ["2", "c"]], [1, 3]),
]


@pytest.mark.parametrize(("name", "content", "columns", "rows", "lines"), READ)
def test_rows_and_their_lines(tmp_path, name, content, columns, rows, lines):
    columns = zip(("label", "text"), columns or (), strict=False)
    assert texts(table(tmp_path, name, content, columns)) == (rows, lines, {})


RETURNS = {  # whether a cell has a line end with a carriage return
    '1,"a\nb"\n2,c\n': False,
    '1,"a\nb"\r\n2,c\r\n': False,
    "1,a\r2,c\r": False,
    '1,"a\rb"\n2,c\n': False,
    '1,"a\r\nb"\n2,c\n': True,
    '1,"a\r\nb"\r\n2,c\r\n': True,
    '1,"a\rb"\r2,c\r': True,
}


@pytest.mark.parametrize("content", RETURNS)
def test_tables_of_which_earlier_versions_left_out_returns_are_prepared_anew(tmp_path, content):
    made = table(tmp_path, "t.csv", content)
    assert (made.identity()[-1] == "returns") == RETURNS[content]


def test_blank_lines_of_tab_separated_tables(tmp_path):
    content = "1\ta\n\n2\tb\n"
    assert texts(table(tmp_path, "t.tsv", content, skips_blank=True))[1] == [1, 3]
    assert fails(table(tmp_path, "t.tsv", content)).startswith("t.tsv:2: 1 columns")


HEADERS = [
    ("label,text,stars\n1,a,b\n", "t.csv:1: several columns can be the label: label, stars; set "),
    ("stars,body\n1,a\n", "t.csv:1: no header that is known, and not surely an example: stars, b"),
    ("5,title,body\n", "t.csv:1: 3 columns where 2 are needed, and no header that is known: 5, t"),
    ("5;a,b\n4;c,d\n", "t.csv: its columns may be separated by ',' or ';'; put texts in quotat"),
]


@pytest.mark.parametrize(("content", "message"), HEADERS)
def test_what_is_not_known_is_refused_until_columns_are_named(tmp_path, content, message):
    line = fails(table(tmp_path, "t.csv", content))
    assert line.startswith(message)
    if "separated" not in line:
        assert "data.columns=label=NAME,text=NAME" in line and line.endswith("label=1,text=2")
        named = table(tmp_path, "t.csv", content, {"label": 1, "text": 2})
        assert fields(named)[-1] == content.splitlines()[-1].split(",")[:2]


@pytest.mark.parametrize(
    ("content", "names", "message"),
    [
        ("id,text,text\n", ("stars", "text"), "t.csv has no column 'stars'; it has id, text, text"),
        ("id,text,text\n", ("id", "text"), "t.csv: several columns are named 'text'"),
        ("Reviews\nid,body\n1,a\n", ("id", "body"), "a row above the header, which is line 2"),
    ],
)
def test_names_that_the_header_does_not_have_or_has_twice(tmp_path, content, names, message):
    made = table(tmp_path, "t.csv", content, zip(("label", "text"), names, strict=True))
    line = fails(made)
    assert message in line


BAD = [
    ("t.csv", 'label,text\n1,"a\nb"\n2\n3,c\n', 4, "1 columns where 2 are needed"),
    ("t.csv", "1,a\n2,b,c\n3,c\n", 2, "3 columns where 2 are needed"),
    ("t.csv", 'label,text,id\n1,a,0\n2,"b"\n3,c,0\n', 3, "2 columns where 3 are needed"),
    ("t.csv", '1,a\n3,c\n2,"open\n4,d\n', 3, "not CSV (unexpected end of data)"),
    ("t.csv", '1,a\n2,"open\n3,"c"\n3,c\n', 2, "not CSV (',' expected after '\"')"),
    ("t.csv", b'1,a\n2,"x\n\xff"\n3,c\n', 3, "not UTF-8 (byte 0xff after 0 bytes)"),
    ("t.tsv", "1\ta\n2\n3\tc\n", 2, "1 columns where 2 are needed"),
    ("t.tsv", "1\ta\n2\tb\tc\n3\tc\n", 2, "3 columns where 2 are needed"),
    ("t.tsv", "1\ta\n2\n\n3\tc\n", 2, "1 columns where 2 are needed"),
]


@pytest.mark.parametrize(("name", "content", "line", "message"), BAD)
def test_rows_of_another_length_and_broken_ones(tmp_path, name, content, line, message):
    made = table(tmp_path, name, content, skips_blank=True)
    assert fails(made) == f"{name}:{line}: {message}; fix it, or set data.on_bad_example=skip"
    rows, _, counts = texts(made, "skip")
    assert rows == [["1", "a\nb" if "\nb" in str(content) else "a"], ["3", "c"]]
    assert sum(entry["count"] for entry in counts.values()) == 1


ABOVE = "t.csv:1: a row above the header, which is line"
FIRST_ROWS = [
    ("sep=;\ntext;label\na, b;3\n", [["3", "a, b"]]),  # Excel's declaration
    (f'{BOM}"SEP=|"\r\ntext|label\r\n\'a|3\r\n', [["3", "'a"]]),
    ("Reviews 2024\nlabel,text\n3,a\n", f"{ABOVE} 2"),
    ("Reviews;\n\nlabel;text\n3;a\n", f"{ABOVE} 3"),
    ("Reviews, 2024\nlabel;text\n3;a\n", "t.csv:1: no header that is known, and no"),
    ("Reviews\n3,a\n", "t.csv:1: 1 columns where 2 are needed, and no header that is known"),
    ('"label"x,text\n3,a\n', "t.csv:1: not CSV (',' expected after '\"')"),
]


@pytest.mark.parametrize("policy", ["error", "skip"])
@pytest.mark.parametrize(("content", "expected"), FIRST_ROWS)
def test_what_may_be_a_header_is_never_skipped(tmp_path, content, expected, policy, monkeypatch):
    """Else columns would be read by their order, which a header may name otherwise."""
    monkeypatch.setattr(Table, "example_fault", lambda _, cells: "no" * (not cells[0].isdigit()))
    made = table(tmp_path, "t.csv", content)
    if isinstance(expected, list):
        assert fields(made, policy) == expected
    else:
        message = fails(made, policy)
        assert message.startswith(expected) and "on_bad_example" not in message


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.tsv", "\t")])
def test_rows_of_separators_at_the_end_are_none(tmp_path, name, separator, caplog):
    caplog.set_level(logging.INFO)
    content = "label,text\n1,a\n,\n2,b\n,\n\n,\n".replace(",", separator)
    made = table(tmp_path, name, content)
    assert texts(made)[:2] == ([["1", "a"], ["", ""], ["2", "b"]], [2, 3, 4])
    assert caplog.messages[-1].startswith(f"{made.path}:5: 2 rows of separators only")


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
    assert fields(table(tmp_path, "t.tsv", content)) == (as_csv if is_csv else as_text)
    chosen, other = ("as in CSV", "text") if is_csv else ("part of the text", "csv")
    (message,) = [m for m in caplog.messages if "quotation marks" in m]
    assert chosen in message and f"data.quotes={other}" in message
    for quotes, rows in (("text", as_text), ("csv", as_csv)):
        if is_csv and content.startswith("label") and all(len(row) == 2 for row in rows):
            assert fields(table(tmp_path, "t.tsv", content, quotes=quotes)) == rows

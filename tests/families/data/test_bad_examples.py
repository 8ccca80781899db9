"""An example that cannot be read, or has no text or label, is an error in one line that names its
place, or skipped, counted and reported."""

import gzip

import pytest

from tests.common_jax.data.other_tools import comma_separated, parquet
from tests.families.data import corpora
from tests.families.data.corpora import NAMES, PAIRS, PREPARED, SPLITS, dropped, fails
from tests.families.data.test_layouts import wmt


def parallel(split, pairs, encoding="utf-8"):
    """The files of a split, in which another encoding is that of the additional pairs."""
    own, files = set(SPLITS[split]), {}
    for side, language in enumerate(("en", "de")):
        lines = [f"{p[side]}\n".encode("utf-8" if p in own else encoding) for p in pairs]
        files[f"{split}.{language}"] = b"".join(lines)
    return files


def inserted(split, *pairs):
    own = SPLITS[split]
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
TEXTS = {"format": "texts"}
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
    line = fails(family, tmp_path, **options)
    assert line.startswith(message) and len(line) < 300
    assert line.endswith("fix it, or set data.on_bad_example=skip")
    data = PREPARED[family](tmp_path, **options, on_bad_example="skip")
    counts = dropped(data, split)
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
    assert fails(family, tmp_path, **options).startswith(message)

"""Sentence pairs as people have them are prepared as the parallel files are."""

import gzip
import logging

import pytest

from common_jax.errors import UserError
from common_jax.io.files import read_lines
from common_jax.training.config import parse
from tests.common_jax.data.other_tools import (
    FORMATS,
    comma_separated,
    indented,
    prepared_folders,
    shards,
    zipped,
)
from tests.csan_jax.data.test_data import PAIRS, folder, prepared, sizes
from tests.real import needs_real_data, real_data

__all__ = ["folder"]
SPLITS = {"train": PAIRS[:200], "dev": PAIRS[200:220], "test": PAIRS[220:250]}


def wmt(pairs):
    """As the hub stores WMT."""
    return [{"translation": {"de": target, "en": source}} for source, target in pairs]


def flat(pairs):
    return [{"id": n, "en": en, "de": de} for n, (en, de) in enumerate(pairs)]


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "json", "PARQUET"])
def test_wmt_of_the_hub(folder, ending, caplog):
    native = prepared(folder).digests()
    caplog.set_level(logging.INFO)
    names = {s: shards(folder, s, ending, wmt(pairs)) for s, pairs in SPLITS.items()}
    assert prepared(folder, **names).digests() == native
    columns = "source = translation.en, target = translation.de"
    assert f"{folder}/train-8-of-3.{ending}: columns as in WMT: {columns}" in caplog.messages
    named = "source=translation.de,target=translation.en"
    turned = prepared(folder, **names, source_language="de", target_language="en")
    by_path = prepared(folder, **names, columns=named)
    assert by_path.digests() == turned.digests() != native


def test_csv_of_a_spreadsheet_in_shards(folder):
    """Semicolons, a byte order mark, CRLF, a header with other columns."""
    native = prepared(folder).digests()
    for split, pairs in SPLITS.items():
        rows, half = flat(pairs), len(pairs) // 2
        for number, part in enumerate((rows[:half], rows[half:])):
            content = comma_separated(part, ";", bom=True, lineterminator="\r\n")
            (folder / f"{split}_{number}.csv").write_bytes(content)
    names = {split: f"{split}_?.csv" for split in SPLITS}
    assert prepared(folder, **names).digests() == native


def test_tables_of_any_name(folder):
    native = prepared(folder).digests()
    for split, pairs in SPLITS.items():
        (folder / f"{split}.table").write_bytes(FORMATS["parquet"](flat(pairs)))
        (folder / f"{split}.zip").write_bytes(zipped(indented(flat(pairs)), "pairs.json"))
        (folder / f"{split}-lines.gz").write_bytes(
            gzip.compress("".join(f"{en}\t{de}\n" for en, de in pairs).encode())
        )
    for name in ("{}.table", "{}.zip", "{}-lines", "{}-lines.gz"):
        names = {split: name.format(split) for split in SPLITS}
        assert prepared(folder, **names).digests() == native
    assert prepared(folder).digests() == native  # train.en, beside train.zip and train.table


def test_parallel_files_by_a_pattern(folder):
    native = prepared(folder).digests()
    for number, part in ((2, PAIRS[:80]), (10, PAIRS[80:200])):
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (folder / f"part{number}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    assert prepared(folder, train="part*").digests() == native


def test_bad_rows_are_counted(folder):
    rows = [*wmt(PAIRS[:200]), {"translation": {"de": None, "en": "a"}}, {"translation": None},
            {"translation": {"en": "", "de": "x"}}]  # fmt: skip
    for ending in ("parquet", "jsonl"):
        name = shards(folder, "bad", ending, rows, 1)
        with pytest.raises(UserError, match=r"translation.*: null where .* is needed; fix it, or"):
            prepared(folder, train=name)
        data = prepared(folder, train=name, on_bad_example="skip")
        assert sizes(data)["train"] == {
            "pairs": 200,
            "dropped": {"unreadable": 2, "empty source": 1},
        }


def test_languages_from_paths(folder):
    name = shards(folder, "w", "parquet", wmt(PAIRS[:200]))
    given = [f"--config.data.dir={folder}", f"--config.data.train={name}"]
    columns = "--config.data.columns=source=translation.de,target=translation.en"
    config = parse("configs/csan/multi30k_small.py", [*given, columns]).data
    assert (config.source_language, config.target_language) == ("de", "en")
    with pytest.raises(UserError, match=r"data\.train=w-\*\.parquet: name its languages, as in"):
        parse("configs/csan/multi30k_small.py", given)


MISTAKES = [
    (
        "w.parquet",
        [{"german": "a", "english": "b"}],
        "w.parquet: no columns that are known: german",
    ),
    (
        "w.parquet",
        wmt([("a", "b")]),
        "data.columns: .*w.parquet has no column 'translation.fr'; it",
    ),
    ("w-*.parquet", None, r"data\.train=w-\*\.parquet: no file in .* matches this pattern"),
    ("w.csv", [], r"w\.csv.*no pairs to train on"),
]


@pytest.mark.parametrize(("name", "rows", "message"), MISTAKES)
def test_mistakes_are_one_line_and_nothing_is_written(folder, name, rows, message):
    if rows is not None:
        content = FORMATS[name.rpartition(".")[2]](rows) if rows else b""
        (folder / name).write_bytes(content)
    columns = "source=translation.fr,target=translation.de" if "fr" in message else ""
    with pytest.raises(UserError, match=message) as error:
        prepared(folder, train=name, columns=columns)
    assert "\n" not in str(error.value)
    assert not prepared_folders(folder / "cache")


@needs_real_data
def test_multi30k_as_people_have_it(tmp_path):
    folder = real_data("multi30k")
    files = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
    options = dict(vocab_size=4000, cache_dir=str(tmp_path / "cache"))
    native = prepared(folder, **files, **options).digests()
    for split, name in files.items():
        rows = flat(
            zip(*(read_lines(folder / f"{name}.{s}.gz") for s in ("en", "de")), strict=True)
        )
        for number in range(3):
            part = rows[number * len(rows) // 3 : (number + 1) * len(rows) // 3]
            content = comma_separated(part, ";", bom=True, lineterminator="\r\n")
            (tmp_path / f"{split}-{number}.csv").write_bytes(content)
        shards(tmp_path, split, "parquet", wmt([(row["en"], row["de"]) for row in rows]))
    for ending in ("csv", "parquet"):
        names = {split: f"{split}-*.{ending}" for split in files}
        assert prepared(tmp_path, **names, **options).digests() == native

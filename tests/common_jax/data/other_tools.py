"""Files as other tools write them (pyarrow, the Hugging Face hub, json, csv, compressors), and the
tables that are read from them."""

import bz2
import csv
import gzip
import io
import json
import lzma
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from common_jax.bad_examples import BadExamples
from common_jax.data.layouts import Layout
from common_jax.data.tables import Table
from tests.refusals import refusal

Rows = Sequence[Mapping[str, Any]]


def parquet(rows: Rows, features: Mapping[str, Sequence[str]] | None = None) -> bytes:
    """A parquet file in row groups, with names of labels by column as the hub stores them."""
    table = pyarrow.Table.from_pylist(list(rows))
    if features:
        described = {
            n: {"names": [*labels], "_type": "ClassLabel"} for n, labels in features.items()
        }
        metadata = {"huggingface": json.dumps({"info": {"features": described}})}
        table = table.replace_schema_metadata(metadata)
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, row_group_size=3)
    return file.getvalue()


def json_lines(rows: Rows) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def json_list(rows: Rows) -> bytes:
    """As pandas' to_json(orient="records"), in one line."""
    return json.dumps(list(rows)).encode()


def indented(rows: Rows) -> bytes:
    return json.dumps(list(rows), indent=2, ensure_ascii=False).encode()


def comma_separated(rows: Rows, delimiter: str = ",", bom: bool = False, **dialect: Any) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, [*rows[0]], delimiter=delimiter, **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return (("\ufeff" if bom else "") + file.getvalue()).encode()


def tab_separated(rows: Rows) -> bytes:
    """Without quotation marks, as corpora are published."""
    lines = [[*rows[0]], *([str(value) for value in row.values()] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines).encode()


def zstd(content: bytes) -> bytes:
    return pyarrow.compress(content, codec="zstd", asbytes=True)


def archive(files: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as written:
        for name, content in files.items():
            written.writestr(name, content)
    return data.getvalue()


def zipped(content: bytes, name: str = "folder/member.bin") -> bytes:
    return archive({"__MACOSX/._x": b"", name: content})


FORMATS: dict[str, Callable[[Rows], bytes]] = {
    "parquet": parquet,
    "jsonl": json_lines,
    "json": json_list,
    "csv": comma_separated,
    "tsv": tab_separated,
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
    ".zip": zipped,
}


def prepared_folders(cache):
    """The prepared corpora in a cache, beside which are the records of raw files."""
    return [path for path in cache.glob("*") if path.is_dir() and path.name != "raw"]


def copied(folder, names):
    """Other names of the same content, as train and dev cannot be the same files."""
    for name in names.split(","):
        for path in folder.glob(name):
            copy = folder / "copies" / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return ",".join(f"copies/{name}" for name in names.split(","))


REVIEWS = [Layout("reviews", {"label": ("stars", "label"), "text": ("text", "review")})]


def table(folder, name, content, columns=(), layouts=REVIEWS, **options) -> Table:
    path = Path(folder) / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Table(path, layouts, dict(columns), **options)


def fields(made: Table, policy: str = "error") -> list[list[str]]:
    return [[*row.fields.values()] for row in made.rows(BadExamples(policy))]


def fails(made: Table, policy: str = "error") -> str:
    """The message without the folder."""
    return refusal(fields, made, policy).replace(f"{made.path.parent}/", "")

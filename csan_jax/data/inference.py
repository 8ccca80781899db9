"""Fields that files of sentence pairs decide."""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common_jax.bad_examples import BadExamples
from common_jax.data.holdout import SmallestHashes
from common_jax.data.inference import (
    Inference,
    infer_folder,
    infer_size,
    paths_of,
    read_columns,
)
from common_jax.data.layouts import are_names, translation
from common_jax.data.object_rows import ObjectTable
from common_jax.data.sources import held_out_splits
from common_jax.data.table_format import format_of
from common_jax.errors import UserError
from csan_jax.data.prepare import Builder
from csan_jax.data.sources import Table, source_of
from csan_jax.data.subwords import TooManyPiecesError
from csan_jax.languages import language_of

if TYPE_CHECKING:
    from csan_jax.config import Config, DataConfig

_LANGUAGES = ("source_language", "target_language")
_MANY = 20_000  # pairs, of which no usual vocabulary is too large


def infer(config: "Config") -> Inference:
    """The folder, the columns and languages by their names, the number of held-out sentences, and
    the size of the vocabulary."""
    inference = Inference(config.data)
    infer_folder(inference)
    wanted = [name for name in _LANGUAGES if inference.wants(name)]
    if inference.wants("columns") and len(wanted) != 1 and not inference.problems:
        _infer_languages(inference)
    splits = held_out_splits(config.data)
    if inference.problems:
        return inference
    data = inference.data
    if inference.wants("holdout_size") and splits:
        source = source_of(data, "train")
        held_out = SmallestHashes(splits, data.holdout_size, data.seed, "source sentences")
        groups = ((pair.source,) for pair in source.read(BadExamples("skip")))
        infer_size(inference, held_out, groups, source.place)
    if inference.wants("vocab_size") and not (data.vocabulary_from or inference.problems):
        _infer_vocabulary(inference)
    return inference


def _infer_languages(inference: Inference) -> None:
    """Sets the columns of the config's two languages; they are refused if they have other names,
    since nothing else shows the direction."""
    data: DataConfig = inference.data
    name = data.names_of("train")[0]
    if not data.is_table(name):
        if inference.wants(*_LANGUAGES):  # two files, which have the languages' endings
            data.with_languages({"data.train"})
            languages = {name: getattr(data, name) for name in _LANGUAGES}
            inference.set(**languages)
        return

    # The columns of each language.
    path = paths_of(data, "train")[0]
    pair = (data.source_language, data.target_language)
    if not inference.wants(*_LANGUAGES):
        with contextlib.suppress(UserError):
            _ = Table(path, translation(pair), {}, data.separator, quotes=data.quotes).content
            return
    table = read_columns(data, path, ())
    names = _paths(path) or [column.name for column in table.columns]
    languages = {name: language_of(name.rpartition(".")[2]) for name in names}
    at = [_columns_of(code, languages) for code in pair]
    if all(len(named) == 1 for named in at) and pair[0] != pair[1]:
        source, target = (named[0] for named in at)
        if inference.wants(*_LANGUAGES):
            inference.set(source_language=pair[0], target_language=pair[1])
        inference.set(columns=f"source={source},target={target}")
        return

    # Else it is refused, with both directions.
    listed = " and ".join(repr("  ".join(cells)[:80]) for cells in table.head)
    shown = f"the first rows are {listed}" if listed else f"it has {', '.join(names)[:300]}"
    what = f"no two columns are surely {pair[0]} and {pair[1]}"
    in_order = bool(table.head) and not are_names(names)  # without a header
    inference.refuse(f"{path}: {what}; {shown}", *_meanings(pair, languages, at, in_order))


def _meanings(
    pair: tuple[str, str],
    languages: Mapping[str, str],
    at: Sequence[Sequence[str]],
    in_order: bool,
) -> list[dict[str, str]]:
    """The fields of the directions that a table can mean.

    Args:
      pair: the config's languages.
      languages: of each column, "" if its name is none's.
      at: the columns of each of the config's languages.
      in_order: whether columns have numbers instead of names.
    """
    names = [*languages]
    both = [name for name in names if languages[name]]
    if all(at):
        return [_meaning(pair, sides) for sides in itertools.product(*at)]
    if len(both) == 2:
        codes = [languages[name] for name in both]
        return [_meaning(codes, both), _meaning(codes[::-1], both[::-1])]
    if {"source", "src"} & {*map(str.lower, names)}:
        return [dict(zip(_LANGUAGES, codes, strict=True)) for codes in (pair, pair[::-1])]
    sides = ["1", "2"] if in_order else names[:2]
    return [_meaning(pair, sides), _meaning(pair, sides[::-1])] if len(names) > 1 else []


def _columns_of(code: str, languages: Mapping[str, str]) -> list[str]:
    """The columns of a language: named by its code, or else of the same language."""
    exact = [name for name in languages if name.rpartition(".")[2].lower() == code.lower()]
    language = language_of(code)
    return exact or [name for name in languages if language and languages[name] == language]


def _paths(path: Path) -> list[str]:
    """The paths of the columns of a table of objects; empty for other tables."""
    format = format_of(path)
    return ObjectTable(path, format).paths if format in ("parquet", "jsonl", "json") else []


def _meaning(languages: Sequence[str], sides: Sequence[str]) -> dict[str, str]:
    """The fields of a direction."""
    columns = f"source={sides[0]},target={sides[1]}"
    return {**dict(zip(_LANGUAGES, languages, strict=True)), "columns": columns}


def _infer_vocabulary(inference: Inference) -> None:
    """Lowers the number of pieces to that of a small text."""
    data: DataConfig = inference.data
    pairs = source_of(data, "train").read(BadExamples("skip"))
    if sum(1 for _ in itertools.islice(pairs, _MANY)) == _MANY:
        return
    try:
        Builder(data).train_subwords()
    except TooManyPiecesError as error:
        inference.notes.append(f"data.vocab_size={data.vocab_size}: the text has {error.most}")
        inference.set(vocab_size=error.most)
    except UserError as error:
        inference.refuse(str(error))

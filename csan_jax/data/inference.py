"""Fields that files of sentence pairs decide."""

import contextlib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from common_jax.data.holdout import SmallestHashes
from common_jax.data.inference import (
    MANY,
    Inference,
    first_rows,
    infer_size,
    inference_of,
    paths_of,
    read_columns,
)
from common_jax.data.layouts import are_names, translation
from common_jax.data.sources import held_out_splits
from common_jax.errors import UserError
from csan_jax.data.prepare import Builder
from csan_jax.data.sources import Table, source_of
from csan_jax.data.subwords import TooManyPiecesError
from csan_jax.languages import language_of

if TYPE_CHECKING:
    from csan_jax.config import Config, DataConfig

_LANGUAGES = ("source_language", "target_language")


def infer(config: "Config") -> Inference:
    """The folder, the columns and languages by their names, the number of held-out sentences, and
    the size of the vocabulary."""
    inference = inference_of(config.data, _infer_languages)

    # The held-out sentences, with all of their translations.
    data: DataConfig = inference.data
    splits = held_out_splits(data)
    if inference.wants("holdout_size") and splits:
        source = source_of(data, "train")
        held_out = SmallestHashes(splits, data.holdout_size, data.seed, "source sentences")
        groups = ((pair.source,) for pair in source.read(inference.bad_examples))
        infer_size(inference, held_out, groups, source.place)

    # The pieces, of the sentences that remain to train on.
    if inference.wants("vocab_size") and not (data.vocabulary_from or inference.problems):
        _infer_vocabulary(inference)
    return inference


def _infer_languages(inference: Inference) -> None:
    """Sets the columns of the config's two languages; they are refused if they have other names,
    since nothing else shows the direction."""
    data: DataConfig = inference.data
    given = [f"data.{name}" for name in _LANGUAGES if not inference.wants(name)]
    if not data.is_table(data.names_of("train")[0]):
        inference.data = data.with_languages(["data.train", *given])  # of the files' endings
        return
    if len(given) == 1:
        return

    # The columns of each language, unless they are known.
    path = paths_of(data, "train")[0]
    pair = (data.source_language, data.target_language)
    if not inference.wants(*_LANGUAGES):
        with contextlib.suppress(UserError):
            _ = Table(path, translation(pair), {}, data.separator, quotes=data.quotes).content
            return
    columns, head, _ = read_columns(inference, path)
    names = [column.name for column in columns]
    languages = {name: language_of(name.rpartition(".")[2]) for name in names}
    codes = [language_of(code) or code for code in pair]
    at = [[name for name in names if languages[name] == code] for code in codes]

    # The directions that these can mean: languages, and their columns or numbers.
    both = [name for name in names if languages[name]]
    directions: list[tuple[Sequence[str], Sequence[str]]]
    if all(at):
        directions = [(pair, sides) for sides in itertools.product(*at)]
    elif len(both) == 2:
        codes = [languages[name] for name in both]
        directions = [(codes, both), (codes[::-1], both[::-1])]
    else:
        sides = ["1", "2"] if head and not are_names(names) else [*names, "NAME"][:2]
        directions = [(pair, sides), (pair, sides[::-1])]
    meanings = [
        {**dict(zip(_LANGUAGES, codes, strict=True)), "columns": f"source={source},target={target}"}
        for codes, (source, target) in directions
    ]

    # The only one; others are refused.
    if len(meanings) == 1 and pair[0] != pair[1]:
        inference.set(**{key: v for key, v in meanings[0].items() if inference.wants(key)})
        return
    shown = first_rows(head) if head else f"it has {', '.join(names)[:300]}"
    what = f"no two columns are surely {pair[0]} and {pair[1]}"
    inference.refuse(f"{path}: {what}; {shown}", *meanings)


def _infer_vocabulary(inference: Inference) -> None:
    """Lowers the number of pieces to that of a small text."""
    data: DataConfig = inference.data
    pairs = source_of(data, "train").read(inference.bad_examples)
    if sum(1 for _ in itertools.islice(pairs, MANY)) == MANY:
        return
    try:
        Builder(data).train_subwords()
    except TooManyPiecesError as error:
        inference.set(vocab_size=error.most)
        inference.notes.append(f"{error}, hence the vocabulary is made smaller")
    except UserError as error:
        inference.refuse(str(error))

"""Paraphrases of sentences: reads files of them, and makes them by back-translation."""

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.io.atomic import writing
from common_jax.io.json_files import read_json_lines
from common_jax.io.progress import progress

Paraphrases = Mapping[str, Sequence[str]]  # of each sentence
Translate = Callable[[Sequence[str]], Sequence[Sequence[str]]]  # several of each sentence

_SENTENCES = 32  # translated at once, before their paraphrases are written


def read_paraphrases(path: Path, sentences: Collection[str]) -> Paraphrases:
    """Reads the paraphrases of `sentences` from JSON lines {"sentence": ..., "paraphrases": [...]};
    if several lines have the same sentence, their paraphrases are joined.

    Raises:
      UserError: if the file cannot be read, or a line has another form.
    """
    needed = set(sentences)
    result: dict[str, list[str]] = {}
    for node in read_json_lines(path, BadExamples("error", option="")):
        sentence = node.get("sentence", str)
        paraphrases = node.get("paraphrases", list[str])
        if sentence in needed:
            result.setdefault(sentence, []).extend(" ".join(p.split()) for p in paraphrases)
    if not result:
        raise UserError(f"{path}: has paraphrases of none of the corpus's sentences")
    return result


def back_translate(
    sentences: Sequence[str], forward: Translate, backward: Translate
) -> Iterator[list[str]]:
    """The paraphrases of each sentence: the back-translations of each of its translations."""
    translated = forward(sentences)
    returned = iter(backward([text for texts in translated for text in texts]))
    for texts in translated:
        yield [text for _ in texts for text in next(returned)]


def write_paraphrases(
    path: Path, sentences: Sequence[str], translators: Callable[[], tuple[Translate, Translate]]
) -> None:
    """Writes a file for `read_paraphrases`, with a line for each sentence, in their order.

    Continues what an earlier call with the same arguments has written.

    Args:
      translators: loads both, forward and backward; not called if the file is complete.

    Raises:
      UserError: if the file cannot be written.
    """
    state = "; the sentences already translated are in it, and the same command continues"
    with writing(path, lambda: state), path.open("ab+") as file:
        start = _complete_lines(file, len(sentences))
    if start == len(sentences):
        return
    both = translators()
    groups = range(start, len(sentences), _SENTENCES)
    for at in progress(groups, "paraphrasing", f"groups of {_SENTENCES} sentences"):
        group = sentences[at : at + _SENTENCES]
        pairs = zip(group, back_translate(group, *both), strict=True)
        lines = [{"sentence": sentence, "paraphrases": texts} for sentence, texts in pairs]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        with writing(path, lambda: state), path.open("ab") as file:
            file.write(text.encode())


def _complete_lines(file: BinaryIO, total: int) -> int:
    """The number of lines in complete groups of `_SENTENCES`; removes the lines after them, so that
    the groups are those of an uninterrupted call."""
    file.seek(0)
    ends = [0, *itertools.accumulate(len(line) for line in file if line.endswith(b"\n"))]
    lines = len(ends) - 1
    lines -= 0 if lines == total else lines % _SENTENCES
    file.seek(ends[lines])
    file.truncate()
    return lines

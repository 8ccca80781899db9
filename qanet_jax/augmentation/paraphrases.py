"""Paraphrases of sentences: files of them, and their translation there and back."""

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
Translate = Callable[[Sequence[str]], Sequence[Sequence[str]]]  # some translations of each sentence

_SENTENCES = 32  # translated before their paraphrases are written


def read_paraphrases(path: Path, sentences: Collection[str]) -> Paraphrases:
    """The paraphrases of `sentences`, of a file with a line {"sentence": ..., "paraphrases": [...]}
    for each; those of several lines of a sentence follow one another.

    Raises:
      UserError: if the file cannot be read, or a line has another form.
    """
    needed = set(sentences)
    result: dict[str, list[str]] = {}
    for node in read_json_lines(path, BadExamples("error")):
        sentence, paraphrases = node.get("sentence", str), node.get("paraphrases", list[str])
        if sentence in needed:
            result.setdefault(sentence, []).extend(" ".join(p.split()) for p in paraphrases)
    if not result:
        raise UserError(f"{path}: paraphrases none of the sentences")
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
    path: Path, sentences: Sequence[str], forward: Translate, backward: Translate
) -> None:
    """Completes a file as `read_paraphrases` reads it, a line for each sentence, in their order.

    Continues what an earlier call with the same arguments has written.

    Raises:
      UserError: if the file cannot be written.
    """
    state = "; the sentences already translated are in it, and the same command continues"
    with writing(path, lambda: state), path.open("ab+") as file:
        start = _complete_lines(file, len(sentences))
        groups = range(start, len(sentences), _SENTENCES)
        for at in progress(groups, "paraphrasing", f"groups of {_SENTENCES} sentences"):
            group = sentences[at : at + _SENTENCES]
            for sentence, texts in zip(
                group, back_translate(group, forward, backward), strict=True
            ):
                line = {"sentence": sentence, "paraphrases": texts}
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            file.flush()


def _complete_lines(file: BinaryIO, total: int) -> int:
    """The number of lines in complete groups, so that the groups are those of one uninterrupted
    call; removes what follows them."""
    file.seek(0)
    ends = [0, *itertools.accumulate(len(line) for line in file if line.endswith(b"\n"))]
    lines = len(ends) - 1
    lines -= 0 if lines == total else lines % _SENTENCES
    file.seek(ends[lines])
    file.truncate()
    return lines

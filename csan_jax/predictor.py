"""Text interface of the translator: encodes sentences, decodes translations; imports no model."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from common_jax.columns import Quotes
from common_jax.data.padding import Group, groups, padded, padded_width
from common_jax.deploy.answer import Answer
from common_jax.deploy.predictor import CompiledFunctions, Option, Predictor, outputs_of
from common_jax.deploy.schema import Schema, Text, View, json_schema
from common_jax.errors import Location, UserError
from common_jax.fields import require
from common_jax.text.cleaning import clean, with_blanks
from csan_jax.data import JOINT, SEPARATE
from csan_jax.data.subwords import END, Subwords, to_text
from csan_jax.data.text import one_line, undo_escapes


class Sentence(NamedTuple):
    """An input line: the ids of its pieces, without an end symbol."""

    pieces: list[int]

    @property
    def lengths(self) -> tuple[int]:
        """The number of pieces, including the end symbol."""
        return (len(self.pieces) + 1,)


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A hypothesis of the beam; `score` is its log-probability over the length penalty."""

    translation: str
    score: float


@dataclasses.dataclass(frozen=True, eq=False)
class Translation(Answer):
    """A translated sentence.

    Attributes:
      translation: "" for an empty line.
      pieces: of the source, with the end symbol; only with `explain`, like the next two.
      attention: of each encoder layer, [heads, pieces, head window, pieces].
      reach: of each encoder layer, [heads, pieces, 2]: the first and the last piece with a weight.
      hypotheses: best first; with `n_best` or `hypotheses`.
    """

    plain: ClassVar[str] = "translation"

    translation: str
    pieces: list[str] | None = None
    attention: list[Float[np.ndarray, "H T N T"]] | None = None
    reach: list[Int[np.ndarray, "H T 2"]] | None = None
    hypotheses: list[Hypothesis] | None = None


class Translator(Predictor):
    """Translates lines in batches."""

    options = (
        Option(
            *("beam_size", int, "hypotheses of the beam; 1 is greedy (the run's)"),
            compiled=True,
            decoding=True,
        ),
        Option(
            *("length_penalty", float, "exponent alpha of the length penalty (the run's)", "ALPHA"),
            decoding=True,
        ),
        Option(
            *("extra_length", int, "pieces a translation may have beyond its source's (the run's)"),
            decoding=True,
        ),
        Option("n_best", int, "the N best translations with scores, as JSON; at most the beam's"),
        Option("hypotheses", bool, "all hypotheses of the beam with scores, as JSON", detail=True),
        Option("explain", bool, "also the encoder's attention weights", detail=True),
    )
    formats: ClassVar[Mapping[str, str]] = {"ctranslate2": "csan_jax.engine:CTranslate2"}

    @dataclasses.dataclass(frozen=True)
    class Settings:
        """The predictor's part of a run's config.

        Attributes:
          beam_size: default number of hypotheses.
          batch_tokens: source positions of a batch.
          max_length: longest sentence of training in pieces, with the end symbol; 0 if unknown.
          length_penalty, extra_length: of the search; None if unknown, in older exports.
          white_space, moses_escapes, quotes, separator: as in training
            (`csan_jax.config.DataConfig`).
          columns: of tables, as of `Schema`.
        """

        beam_size: int
        batch_tokens: int
        max_length: int = 0
        length_penalty: float | None = None
        extra_length: int | None = None
        white_space: str = "keep"
        moses_escapes: str = "keep"
        quotes: Quotes = "auto"
        separator: str = "\t"
        columns: str = ""

        def __post_init__(self):
            for name in ("beam_size", "batch_tokens", "extra_length"):
                value = getattr(self, name)
                require(value is None or value >= 1, f"{name}={value}: at least 1")
            penalty = self.length_penalty
            require(
                penalty is None or 0 <= penalty < math.inf,
                f"length_penalty={penalty}: not negative, and finite",
            )

    def __init__(
        self,
        vocabulary: Sequence[Subwords],
        settings: Settings,
        programs: CompiledFunctions,
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        extra_length: int | None = None,
        n_best: int | None = None,
        hypotheses: bool = False,
        explain: bool = False,
    ):
        """
        Args:
          vocabulary: the source's subwords first, the target's last; one object if they are joint.
          programs: "source" [B, S], with end symbol and padded with 0, to "pieces" [B, steps], or
            with `hypotheses` "pieces" [B, k, steps] and "scores" [B, k] (`csan_jax.decode`).
          beam_size: number of hypotheses; 1 is greedy, None the run's.
          length_penalty, extra_length: of the search (`csan_jax.config.DecodeConfig`); None for
            the run's.
          n_best: number of hypotheses to return; None for the best without its score.
          hypotheses: whether to return all hypotheses.
          explain: whether to return attention weights.
        """
        self._source = vocabulary[0]
        self._target = vocabulary[-1]

        # The options of the search that are not the run's, against the vocabulary and each other.
        search = {
            "beam_size": beam_size,
            "length_penalty": length_penalty,
            "extra_length": extra_length,
        }
        changed: dict[str, Any] = {
            name: value
            for name, value in search.items()
            if value is not None and value != getattr(settings, name)
        }
        self._settings = settings = dataclasses.replace(settings, **changed)
        beam_size = settings.beam_size
        size = self._target.size
        require(
            beam_size <= size, f"beam_size={beam_size}: at most {size}, the vocabulary's pieces"
        )
        require(
            n_best is None or 1 <= n_best <= beam_size,
            f"n_best={n_best}: 1 to beam_size={beam_size}",
        )

        # The program for them.
        self._count = n_best or (beam_size if hypotheses else 0)
        count = {"hypotheses": beam_size} if self._count else {}
        self._translate = programs(**{"beam_size": beam_size, **count, **changed})
        self._attention = programs(attention=1) if explain else None
        self._at_once = programs.at_once

    @classmethod
    def read_vocabulary(cls, folder: Path) -> list[Subwords]:
        names = JOINT if (folder / JOINT[0]).exists() else SEPARATE
        return [Subwords.load(folder / name) for name in names]

    @classmethod
    def tables(cls, vocabulary: Sequence[Subwords]) -> dict[str, int]:
        source = vocabulary[0].size
        target = vocabulary[-1].size
        return {"source_embedding": source, "target_embedding": target, "output_embedding": target}

    def parse(self, line: str, place: str | Location) -> Sentence:
        text = clean(one_line(line))
        text = undo_escapes(text) if self._settings.moses_escapes == "undo" else text
        text = with_blanks(text) if self._settings.white_space == "blanks" else text
        return Sentence(*self._source.encode([text.strip()], workers=1))

    @property
    def longest(self) -> tuple[int, ...]:
        return (self._settings.max_length,)

    def answers(self, sentences: Sequence[Sentence]) -> Iterator[Translation]:
        """The translation of each sentence, in order; an empty one for an empty line.

        A line is the plain translation, or with `n_best`, `hypotheses` or `explain` a JSON object.
        """
        for sentence, scores in zip(sentences, self._translated(sentences), strict=True):
            translation = next(iter(scores), "")
            details = self._explained(sentence.pieces) if self._attention else {}
            if self._count:
                hypotheses = [Hypothesis(text, round(score, 6)) for text, score in scores.items()]
                details["hypotheses"] = hypotheses[: self._count]
            yield Translation(translation, **details)

    @property
    def schema(self) -> Schema:
        return Schema(
            title="Translation (CSAN)",
            about="Translates a text; some heads of CSAN's encoder see a window of nearby words.",
            texts=(Text("source", "Text", columns=("src",), hint="a sentence to translate"),),
            output=json_schema(Translation),
            plain=not (self._count or self._attention),
            quotes=self._settings.quotes,
            separator=self._settings.separator,
            columns=self._settings.columns,
            views=(
                View("text", "translation", "Translation"),
                View("table", "hypotheses", "Hypotheses and their scores"),
                View("heads", "attention", "Attention of the encoder's heads", of="pieces"),
            ),
            explained_length=64,
            generated="It is trained on generated sentences with a number, a date, a time or a "
            "price.",
            outside=("A man rides a horse.",),
        )

    def _translated(self, sentences: Sequence[Sentence]) -> list[dict[str, float]]:
        """The distinct translations of each sentence with their scores, best first."""

        # Sentences of similar lengths are one batch; an empty one is in none.
        answers: list[dict[str, float]] = [{} for _ in sentences]
        filled = [i for i, sentence in enumerate(sentences) if sentence.pieces]
        lengths = [sentences[i].lengths for i in filled]
        batches = [*groups(lengths, self._settings.batch_tokens)]

        def arrays(group: Group) -> dict[str, Any]:
            encoded = [[*sentences[filled[at]].pieces, END] for at in group.members]
            return {"source": padded(encoded, group.rows, *group.widths)}

        results = outputs_of(self._translate, map(arrays, batches), self._at_once, ["pieces"])

        # Of equal translations, the first has the best score.
        for group, outputs in zip(batches, results, strict=True):
            pieces = np.asarray(outputs["pieces"])
            pieces = pieces.reshape(len(pieces), -1, pieces.shape[-1])
            if not 0 <= pieces.min() <= pieces.max() < self._target.size:
                raise UserError(
                    f"the model's pieces are from {pieces.min()} to {pieces.max()}, but the "
                    f"vocabulary has {self._target.size}"
                )
            unknown = np.full(pieces.shape[:2], np.nan)  # for exports that return no scores
            scores = np.asarray(outputs.get("scores", unknown)).reshape(unknown.shape)
            for row, at in enumerate(group.members):
                texts = to_text(self._target, pieces[row])
                for text, score in zip(texts, scores[row].tolist(), strict=True):
                    if score != -np.inf:  # an empty slot
                        answers[filled[at]].setdefault(text, score)
        return answers

    def _explained(self, encoded: Sequence[int]) -> dict[str, Any]:
        if not encoded:
            return {"pieces": [], "attention": [], "reach": []}
        assert self._attention is not None
        pieces = [*encoded, END]
        count = len(pieces)
        outputs = self._attention({"source": padded([pieces], 1, padded_width(count))})
        layers = [np.asarray(layer)[0, :, :count, :, :count] for layer in outputs["attention"]]
        return {
            "pieces": [*self._source.pieces(encoded), "</s>"],
            "attention": [np.round(weights, 4) for weights in layers],
            "reach": [reach(weights.sum(axis=2) > 0) for weights in layers],
        }


def reach(attended: Bool[np.ndarray, "H T S"]) -> Int[np.ndarray, "H T 2"]:
    """The first and the last attended key of each query."""
    keys = attended.shape[-1]
    return np.stack([attended.argmax(-1), keys - 1 - attended[..., ::-1].argmax(-1)], axis=-1)

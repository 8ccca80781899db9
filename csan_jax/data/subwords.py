"""Subword pieces: SentencePiece BPE (Sennrich et al. 2016; Kudo and Richardson 2018)."""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from common_jax.data.corpus import FlatRows
from common_jax.errors import UserError

PAD = 0
END = 1
UNKNOWN = 2


class TooManyPiecesError(UserError):
    """The vocabulary is larger than the text's pieces, of which there are `most`."""

    most: int


class Subwords:
    """A trained subword model: text to piece ids and back.

    Ids: 0 is padding, 1 ends a sequence, 2 is unknown; there is no start symbol. Text is not
    normalised ("identity", not SentencePiece's default nmt_nfkc), since NFKC could not produce the
    "…", "½" or fullwidth letters of raw references; only blanks are collapsed and trimmed, which
    scorers ignore. Unseen characters and the rarest 0.01 % are encoded as bytes, so that every text
    can be restored.
    """

    def __init__(self, model: bytes):
        """Loads a SentencePiece model from its bytes.

        Raises:
          RuntimeError, UnicodeDecodeError: for invalid bytes.
        """
        import sentencepiece

        if not model:  # SentencePiece treats empty bytes as a missing argument
            raise RuntimeError("an empty model")
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subwords) and self._model == other._model

    def __hash__(self) -> int:
        return hash(self._model)

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        vocab_size: int,
        key: str = "data.vocab_size",
    ) -> "Subwords":
        """Trains `vocab_size` pieces; the same sentences in the same order give the same bytes.

        Args:
          sentences: read once; all are held in memory.
          vocab_size: number of pieces, including the 3 symbols and 256 bytes.
          key: the config key for error messages.

        Raises:
          UserError: for a vocabulary larger than the text's pieces or smaller than its characters,
            with the size that is possible, or for no text.
        """
        import sentencepiece

        sample = list(sentences)
        if not any(sentence.strip() for sentence in sample):
            raise UserError(f"{key}={vocab_size}: no text to train subwords on")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sample),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocab_size,
                pad_id=PAD,
                eos_id=END,
                unk_id=UNKNOWN,
                bos_id=-1,
                byte_fallback=True,
                character_coverage=0.9999,
                normalization_rule_name="identity",
                max_sentence_length=1 << 16,
                num_threads=1,
                minloglevel=5,
            )
        except RuntimeError as error:
            raise _explained(str(error), vocab_size, key) from error
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> "Subwords":
        """Reads a model that `save` wrote.

        Raises:
          UserError: if the file is missing or no model.
        """
        try:
            return cls(Path(path).read_bytes())
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error
        except (RuntimeError, UnicodeDecodeError) as error:  # a piece that its message cannot quote
            raise UserError(f"{path}: not a SentencePiece model") from error

    def save(self, path: str | Path) -> None:
        """Writes the model in SentencePiece's own format (a protocol buffer)."""
        Path(path).write_bytes(self._model)

    @property
    def size(self) -> int:
        """The number of pieces: ids are 0 .. size - 1."""
        return self._processor.get_piece_size()

    def encode(self, sentences: Sequence[str], *, workers: int | None = None) -> list[list[int]]:
        """The piece ids of each sentence, without an end symbol.

        Args:
          workers: number of threads; None is the number of cores.
        """
        threads = -1 if workers is None else workers
        return self._processor.encode(list(sentences), out_type=int, num_threads=threads)

    def encode_flat(self, sentences: list[str], workers: int) -> FlatRows:
        """The piece ids of each sentence with an end symbol, concatenated.

        Args:
          workers: number of threads, beside which other Python threads run.
        """
        encode = self._processor.encode
        rows = encode(sentences, out_type="numpy", add_eos=True, num_threads=workers)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return FlatRows(np.concatenate([np.zeros(0, np.int32), *rows]), lengths)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each piece, "▁" for a space."""
        return [self._processor.id_to_piece(piece) for piece in ids]

    def decode(self, ids: Sequence[Sequence[int] | Int[np.ndarray, "_"]]) -> list[str]:
        """The text of each sequence of ids; padding and end symbols write nothing."""
        rows = [[int(i) for i in row] for row in ids]
        return self._processor.decode(rows) if rows else []  # `decode` returns "" for no rows


def _explained(error: str, vocab_size: int, key: str) -> UserError:
    if match := re.search(r"too high.*?<= (\d+)", error):
        text = f"{key}={vocab_size}: this text has pieces for {match[1]} at most"
        too_many = TooManyPiecesError(text)
        too_many.most = int(match[1])
        return too_many
    if match := re.search(r"smaller than required_chars.*?(\d+) vs (\d+)", error):
        return UserError(f"{key}={vocab_size}: the characters and symbols alone need {match[2]}")
    return UserError(f"{key}={vocab_size}: SentencePiece says: {' '.join(error.split())}")


def to_text(subwords: Subwords, pieces: Int[np.ndarray, "B steps"]) -> list[str]:
    """Decodes each row up to its end symbol or padding, as one line."""
    rows = []
    for row in pieces:
        stop = np.flatnonzero((row == END) | (row == 0))
        rows.append(row[: stop[0] if stop.size else None].tolist())
    return [" ".join(text.splitlines()) for text in subwords.decode(rows)]

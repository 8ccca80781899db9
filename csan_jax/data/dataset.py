"""Parallel text for training and evaluation: reads and batches the prepared folder."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Int

from common_jax.data.batches import Batches
from common_jax.data.cached_arrays import cached_arrays
from common_jax.data.corpus import Corpus
from common_jax.data.epoch_plan import BucketPlan, Plan, choose_shapes
from common_jax.data.prepared import PreparedData
from common_jax.errors import UserError
from csan_jax.data import COLUMNS, JOINT, SEPARATE, TEXT_FILES
from csan_jax.data.packing import PackedBatches, PackedPlan, Packing, pack
from csan_jax.data.subwords import Subwords

if TYPE_CHECKING:
    from csan_jax.config import DataConfig
    from csan_jax.data.prepare import Builder


_log = logging.getLogger(__name__)

EVALUATION_SHAPES = 3  # at most; the search is compiled for each


class TranslationData(PreparedData):
    """One run's sentence pairs (see `PreparedData`), with subword vocabularies."""

    unit = "pairs"
    other_test_fields: ClassVar[Mapping[str, Any]] = {"max_equal_pairs": 1.0}

    def __init__(self, config: "DataConfig"):
        super().__init__()
        self.config = config
        self._workers: int | None = None
        self._subwords: list[Subwords] = []

    def prepare(self, workers: int | None = None) -> None:
        """As `PreparedData.prepare`.

        Args:
          workers: number of encoding threads; None is the number of cores.
        """
        self._workers = workers
        super().prepare()

    def builder(self) -> "Builder":
        from csan_jax.data.prepare import Builder

        return Builder(self.config, self._workers, self.preparation)

    @property
    def longest(self) -> int:
        return self.config.max_length

    def _adopt_vocabulary(self, folder: Path) -> None:
        previous = self._subwords
        self.read_vocabulary(folder)
        if previous and previous != self._subwords:
            raise UserError(
                f"data.dir={self.config.dir}: this text gives other subwords than the run has; "
                "use the text (and data.*) that it was trained on"
            )

    def _require_usable(self, folder: Path) -> None:
        limit = self.config.max_equal_pairs
        for split in self.splits:
            meta = Corpus.open(folder / split).meta
            equal, pairs = meta.get("equal", (0, 1))
            files = getattr(self.config, split) or f"(held out of {self.config.train})"

            # text that is cut into pieces already
            if 2 * (cut := meta.get("counts", {}).get("▁", 0)) > pairs:
                raise UserError(
                    f"data.{split}={files}: {cut:,} of {pairs:,} pairs have ▁ (U+2581): already "
                    "cut into pieces, as by SentencePiece; use the text from before that"
                )

            # too many equal sides for a translation
            if equal > limit * pairs:
                raise UserError(
                    f"data.{split}={files}: {equal:,} of {pairs:,} pairs have equal sides; set the "
                    "files, columns or languages of a translation, or accept it with "
                    f"data.max_equal_pairs (now {limit:g})"
                )

    def report(self) -> None:
        """As `PreparedData.report`; also many pairs with equal sides, most with the marks of
        subword-nmt, and those with white space that is read as blanks."""
        super().report()
        for split in self.splits:
            meta = self.corpus(split).meta
            equal, pairs = meta.get("equal", (0, 1))
            counts = meta.get("counts", {})
            self._report_equal(split, equal, pairs)

            # text with the marks of subword-nmt
            if 2 * counts.get("@@", 0) > pairs:
                _log.warning(
                    "%s: %d of %d pairs have @@, as text that subword-nmt has cut into pieces; "
                    "scores are of these pieces; use the text from before that",
                    *(split, counts["@@"], pairs),
                )

            # white space that is read as blanks
            if spaces := counts.get("white_space"):
                _log.info(
                    "%s: %d of %d pairs have tabs, NBSP, CR or other white space, read as blanks "
                    "(data.white_space)",
                    *(split, spaces, pairs),
                )

    def _size_line(self, total: int) -> str:
        corpora = [self.corpus(split) for split in self.splits]
        tokens = sum(corpus.tokens(column) for corpus in corpora for column in COLUMNS)
        if self._seconds is None:
            return f"found {total:,} prepared pairs, {tokens:,} tokens,"
        rate = total / max(self._seconds, 1e-3)
        speed = f"in {self._seconds:.0f} s ({rate:,.0f} pairs/s)"
        return f"prepared {total:,} pairs {speed}, {tokens:,} tokens,"

    def input_lengths(self, split: str) -> Int[np.ndarray, "n"]:
        return self.corpus(split).lengths("source")[:, 0]

    @property
    def _files(self) -> tuple[str, ...]:
        return JOINT if self.config.joint_vocabulary else SEPARATE

    def write_vocabulary(self, folder: Path) -> None:
        """Writes the subword models, after `prepare` or `read_vocabulary`."""
        for name, subwords in zip(self._files, self._subwords, strict=True):
            subwords.save(folder / name)

    def read_vocabulary(self, folder: Path) -> None:
        """Reads the subword models; a later `prepare` checks that those of its folder are equal."""
        self._subwords = [Subwords.load(folder / name) for name in self._files]

    @property
    def source_subwords(self) -> Subwords:
        """The source side's subword model."""
        return self._subwords[0]

    @property
    def target_subwords(self) -> Subwords:
        """The target side's subword model; the source's if the vocabulary is joint."""
        return self._subwords[-1]

    def train_batches(self, seed: int = 0) -> Batches:
        """The training split, its order a function of `seed` and the epoch."""
        corpus = self.corpus("train")
        batches = PackedBatches if self.config.batching == "packed" else Batches
        return batches(corpus, COLUMNS, self._train_plan(corpus.lengths(*COLUMNS), seed))

    def _train_plan(self, lengths: np.ndarray, seed: int) -> Plan:
        """The epoch plan, whose slow parts are cached beside the corpus."""
        config = self.config
        folder = self.path / "train" / "plans"
        if config.batching == "packed":
            widths = [config.row_tokens] * len(COLUMNS)
            arrays = cached_arrays(
                folder, f"packed-{config.row_tokens}", lambda: pack(lengths, widths)._asdict()
            )
            return PackedPlan(lengths, Packing(**arrays), config.batch_tokens, seed)
        arrays = cached_arrays(
            folder,
            f"buckets-{config.max_shapes}",
            lambda: {"shapes": choose_shapes(lengths, config.max_shapes)},
        )
        return BucketPlan(lengths, arrays["shapes"], config.batch_tokens, seed)

    def split_batches(self, split: str, batch_tokens: int) -> Batches:
        """All pairs of a split once, ordered by length, without truncation.

        Args:
          split: "dev" or "test", which have the same shapes, to share the compiled search.
          batch_tokens: rows x the longer padded side; a longer sentence is a batch of its own.
        """
        evaluated = [name for name in self.splits if name != "train"]
        lengths = {name: self.corpus(name).lengths(*COLUMNS) for name in evaluated}
        both = np.concatenate(list(lengths.values()))
        shapes = choose_shapes(both, min(EVALUATION_SHAPES, self.config.max_shapes))
        plan = BucketPlan(lengths[split], shapes, batch_tokens, seed=None)
        return Batches(self.corpus(split), COLUMNS, plan)

    def sources(self, split: str) -> list[str]:
        """The raw source sentences of "dev" or "test", in the order of the batches' index."""
        return self._text(split, TEXT_FILES[0])

    def references(self, split: str) -> list[str]:
        """The raw target sentences of "dev" or "test", in the order of the batches' index, with a
        blank for "▁", as decoded pieces have."""
        return [text.replace("▁", " ") for text in self._text(split, TEXT_FILES[1])]

    def _text(self, split: str, name: str) -> list[str]:
        with (self.path / split / name).open(encoding="utf-8", newline="") as file:
            return file.read().split("\n")[:-1]

"""Parallel text for training and evaluation: prepared once, then batched.

`csan_jax.data.sources` reads sources, `csan_jax.data.prepare` builds the folder, this opens it. A
corpus has the columns "source" and "target", whose rows end with the end symbol.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common_jax.bad_examples import summary
from common_jax.data.batches import Batches
from common_jax.data.cached_arrays import cached_arrays
from common_jax.data.corpus import Corpus, prepare
from common_jax.data.packing import PackedPlan, Packing, pack
from common_jax.data.plan import BucketPlan, Plan, choose_shapes
from common_jax.errors import UserError
from common_jax.text.subwords import Subwords
from csan_jax.data.prepare import COLUMNS, EVALUATED, Builder, model_names

if TYPE_CHECKING:
    from csan_jax.config import DataConfig

SPLITS = ("train", "dev", "test")
_log = logging.getLogger(__name__)


class TranslationData:
    """One run's sentence pairs. Making it touches no file; `prepare` does, once for all runs alike.

    Subwords are there after `prepare` or `read_vocabulary`, all else after `prepare`.
    """

    def __init__(self, config: "DataConfig"):
        self.config = config
        self._path: Path | None = None
        self._seconds: float | None = None
        self._subwords: list[Subwords] = []

    def prepare(self, workers: int | None = None) -> None:
        """Builds the prepared folder, or finds it; a second call does nothing.

        Args:
          workers: threads that encode; None is as many as there are cores.

        Raises:
          UserError: a missing file, files of unequal length, a bad pair (data.on_bad_example),
            nothing left to train on, a vocabulary or held-out part that the text is too small for,
            a cache folder that cannot be written, subwords unlike those that were read before.
        """
        if self._path is not None:
            return
        builder = Builder(self.config, workers)
        path = prepare(self.config.cache_dir, builder.fingerprint(), builder.build)
        known = self._subwords
        self.read_vocabulary(path)
        if known and known != self._subwords:
            raise UserError(
                f"data.dir={self.config.dir}: this text gives other subwords than the run has; "
                "give it the text (and data.*) that it was trained on"
            )
        self._path, self._seconds = path, builder.seconds

    def report(self) -> None:
        """Logs how much is prepared, how fast it was if it was now, and what was left out."""
        sizes = self.sizes.values()
        pairs = sum(split["pairs"] for split in sizes)
        tokens = sum(split[f"{column}_tokens"] for split in sizes for column in COLUMNS)
        if self._seconds is None:
            said = f"found {pairs:,} prepared pairs"
        else:
            rate = pairs / max(self._seconds, 1e-3)
            said = f"prepared {pairs:,} pairs in {self._seconds:.0f} s ({rate:,.0f} pairs/s)"
        _log.info("%s, %s tokens, in %s", said, f"{tokens:,}", self.path)
        for split in SPLITS:
            corpus = self._corpus(split)
            if dropped := summary(corpus.meta["dropped"]):
                _log.warning("%s: kept %d pairs, left out %s", split, len(corpus), dropped)

    def write_vocabulary(self, folder: Path) -> None:
        """Writes the subword models, after `prepare` or `read_vocabulary`."""
        for name, subwords in zip(model_names(self.config), self._subwords, strict=True):
            subwords.save(folder / name)

    def read_vocabulary(self, folder: Path) -> None:
        """Reads the subword models; a `prepare` that follows checks that its own are the same.

        Raises:
          UserError: if one is missing or broken.
        """
        self._subwords = [Subwords.load(folder / name) for name in model_names(self.config)]

    @property
    def source_subwords(self) -> Subwords:
        """The source side's subword model."""
        return self._subwords[0]

    @property
    def target_subwords(self) -> Subwords:
        """The target side's; the same object if the vocabulary is joint."""
        return self._subwords[-1]

    def train_batches(self, seed: int = 0) -> Batches:
        """The training split, its order a function of `seed` and the epoch."""
        corpus = self._corpus("train")
        return Batches(corpus, COLUMNS, self._train_plan(corpus.lengths(*COLUMNS), seed))

    def _train_plan(self, lengths: np.ndarray, seed: int) -> Plan:
        """What takes long to find is kept beside the corpus."""
        config, folder = self.config, self.path / "train" / "plans"
        if config.batching == "packed":
            widths = [config.row_tokens] * len(COLUMNS)
            found = cached_arrays(
                folder, f"packed-{config.row_tokens}", lambda: pack(lengths, widths)._asdict()
            )
            return PackedPlan(lengths, Packing(**found), config.batch_tokens, seed)
        most = config.max_shapes
        found = cached_arrays(
            folder, f"buckets-{most}", lambda: {"shapes": choose_shapes(lengths, most)}
        )
        return BucketPlan(lengths, found["shapes"], config.batch_tokens, seed)

    def split_batches(
        self, split: str, batch_tokens: int, max_shapes: int | None = None
    ) -> Batches:
        """Every pair of "dev" or "test" once, by length; none is truncated, however long.

        Args:
          split: "dev" or "test"; their shapes are the same, so that a search compiled for one
            serves the other.
          batch_tokens: rows x the longer padded side; a longer sentence is a batch of its own.
          max_shapes: None is the config's.
        """
        lengths = {str(name): self._corpus(name).lengths(*COLUMNS) for name in EVALUATED}
        both = np.concatenate(list(lengths.values()))
        shapes = choose_shapes(both, max_shapes or self.config.max_shapes)
        plan = BucketPlan.ordered(lengths[split], shapes, batch_tokens)
        return Batches(self._corpus(split), COLUMNS, plan)

    def sources(self, split: str) -> list[str]:
        """The raw source sentences of "dev" or "test", in the order of the batches' index."""
        return self._text(split, "sources.txt")

    def references(self, split: str) -> list[str]:
        """The raw target sentences of "dev" or "test", in the order of the batches' index."""
        return self._text(split, "references.txt")

    @property
    def sizes(self) -> dict[str, dict[str, Any]]:
        """For each split: pairs, source_tokens and target_tokens (end symbols included), and
        `dropped`, how many pairs were left out for which reason."""
        sizes = {}
        for split in SPLITS:
            corpus = self._corpus(split)
            dropped = {kind: fault["count"] for kind, fault in corpus.meta["dropped"].items()}
            tokens = {f"{column}_tokens": corpus.tokens(column) for column in COLUMNS}
            sizes[split] = {"pairs": len(corpus), **tokens, "dropped": dropped}
        return sizes

    @property
    def path(self) -> Path:
        """The prepared folder."""
        if self._path is None:
            raise RuntimeError("TranslationData: call prepare() first")
        return self._path

    def _corpus(self, split: str) -> Corpus:
        return Corpus.open(self.path / split)

    def _text(self, split: str, name: str) -> list[str]:
        with (self.path / split / name).open(encoding="utf-8", newline="") as file:
            return file.read().split("\n")[:-1]

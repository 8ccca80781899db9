"""A run's prepared corpus with a vocabulary of words."""

import abc
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from common_jax.bad_examples import summary
from common_jax.data.batches import Batches
from common_jax.data.cached_arrays import cached_arrays
from common_jax.data.corpus import file_identity, recorded_identity
from common_jax.data.epoch_plan import BucketPlan, Mixture, choose_shapes
from common_jax.data.prepared import SPLITS, Builder, Preparation, PreparedData
from common_jax.errors import UserError, error_context
from common_jax.io.paths import expand_user
from common_jax.io.storage import local_copy
from common_jax.text.vectors import ROWS, Vectors, read_vectors
from common_jax.text.vocabulary import Vocabulary
from common_jax.text.word_tokenizer import ENGLISH, Rule

# Identities of `word_tokenizer` and `sentence_splitter` for the rule `ENGLISH`.
TOKENISER = [
    recorded_identity(3905, "c21f87d7412ea89871179f98692cff68adcfa8fb41952049a19d9aed8e7d209d"),
    recorded_identity(4727, "fdcfdff97301ba9cc037ef62390a7771d6b5cc29e847de5b2aec6b425381a3d6"),
]

_COVERAGE = "vectors.json"
_LEAST_COVERAGE = 0.2  # share of a text's tokens; with less there is a warning
_log = logging.getLogger(__name__)


class WordLevelData(PreparedData):
    """One run's corpus of words (see `PreparedData`)."""

    def __init__(self) -> None:
        super().__init__()
        self._vocabulary: Vocabulary | None = None

    @abc.abstractmethod
    def reconcile_vocabulary(self, own: Vocabulary, prepared: Vocabulary) -> Vocabulary:
        """The vocabulary to use, given the run's own and that of the prepared folder.

        Raises:
          UserError: if the two are not compatible.
        """

    @abc.abstractmethod
    def train_batches(self, seed: int) -> Batches:
        """The training split, its order a function of `seed` and the epoch.

        Raises:
          UserError: if the prepared corpus cannot be trained on.
        """

    @abc.abstractmethod
    def split_batches(self, split: str) -> Batches:
        """All examples of an evaluated split once, by length."""

    def _adopt_vocabulary(self, folder: Path) -> None:
        prepared = Vocabulary.load(folder)
        current = self._vocabulary
        if current is not None:
            prepared = self.reconcile_vocabulary(current, prepared)
        self._vocabulary = prepared

    def report(self) -> None:
        """As `PreparedData.report`, and the rule and the share of words with vectors."""
        super().report()
        _log.info("words.rule=%s splits the texts into words", self.vocabulary.rule)

        # the share of distinct words that have a vector
        file = self.path / _COVERAGE
        if not file.exists():
            _log.info("no data.vectors: word vectors are trained from scratch")
            return
        coverage = json.loads(file.read_text("utf-8"))
        distinct = sum(coverage["found"].values())
        share = 100 * (1 - coverage["found"]["missing"] / max(1, distinct))
        source = self.config.vectors
        _log.info("%.1f%% of %s distinct words have a vector in %s", share, f"{distinct:,}", source)

        # the rows of the vector file that are left out
        if dropped := summary(coverage["dropped"]):
            _log.warning("%s: left out %s", source, dropped)
        if faulty := coverage.get("faulty"):
            _log.warning("%s: %d words have none, as their rows are left out", source, faulty)

        # few covered tokens suggest another language or encoding
        covered, tokens = coverage.get("tokens", (1, 1))
        if covered < _LEAST_COVERAGE * tokens:
            _log.warning(
                "%s: only %.1f%% of the text's %s tokens have a vector; is the file of the text's "
                "language, in UTF-8?",
                *(source, 100 * covered / tokens, f"{tokens:,}"),
            )

    @property
    def vocabulary(self) -> Vocabulary:
        """The words, and the characters if the family uses them."""
        if self._vocabulary is None:
            raise RuntimeError(f"{type(self).__name__}: call prepare() or read_vocabulary() first")
        return self._vocabulary

    def read_vocabulary(self, folder: Path) -> None:
        """Reads the run's vocabulary, which a later `prepare` reconciles with the corpus's."""
        self._vocabulary = Vocabulary.load(folder)

    def train_plan(
        self, lengths: Int[np.ndarray, "n c"], seed: int, mixture: Mixture | None = None
    ) -> BucketPlan:
        """Batches of `data.batch_size` training examples, their order a function of `seed` and the
        epoch.

        Args:
          lengths: of all examples, a function of the prepared folder.
          mixture: of several corpora.
        """
        most = self.config.max_shapes
        size = self.config.batch_size

        def choose():
            return {"shapes": choose_shapes(lengths, most)}

        shapes = cached_arrays(self.path / "train" / "plans", f"buckets-{most}", choose)["shapes"]
        return BucketPlan(lengths, shapes, 0, seed, batch_size=size, mixture=mixture)

    def split_plan(self, split: str, lengths: Mapping[str, Int[np.ndarray, "_ c"]]) -> BucketPlan:
        """All examples of an evaluated split once, by length.

        Args:
          lengths: of all evaluated splits, which share their shapes and thus compiled functions.
        """
        shapes = choose_shapes(np.concatenate([*lengths.values()]), self.config.max_shapes)
        return BucketPlan(lengths[split], shapes, self.config.eval_batch_tokens, seed=None)


def given_vocabulary(
    folder: Path, rule: Rule, rows: int, char_rows: int = 0, vectors: Vectors | None = None
) -> Vocabulary:
    """The vocabulary of another run, extended by the words of `vectors` if its vectors are fixed.

    Args:
      rule: `words.rule`.
      rows: `words.rows`; 0 if vectors are fixed.
      char_rows: `words.char_rows`; 0 if characters are not used.

    Raises:
      UserError: if it has another rule, more ids than `rows`, or other vectors.
    """
    vocabulary = Vocabulary.load(folder)

    # the same rule, and vectors that are fixed or trained as there
    if vocabulary.rule != rule:
        raise UserError(
            f"words.rule={rule}: {folder} has words of words.rule={vocabulary.rule}; set it to that"
        )
    if (vocabulary.table is None) != bool(rows):
        kind = "fixed" if rows else "trained"
        needed = "data.vectors and words.rows=0" if rows else "words.rows, and no data.vectors"
        raise UserError(f"{folder}: its word vectors are {kind}; set {needed}")

    # ids that the tables have rows for
    if vocabulary.size > rows > 0:
        raise UserError(f"words.rows={rows}: {folder} has {vocabulary.size}; set it to that run's")
    if vocabulary.char_size > char_rows > 0:
        raise UserError(
            f"words.char_rows={char_rows}: {folder} has {vocabulary.char_size}; set it to that "
            "run's"
        )

    # fixed vectors, of the same file, whose other words are added
    if vectors is None:
        return vocabulary
    if not vocabulary.has_vectors_of(vectors):
        raise UserError(f"data.vectors: other vectors than {folder} has; use the same file")
    return vocabulary.extended(vectors)


def tokeniser_identity(rule: Rule) -> Any:
    """Identifies the word tokenizer, for a fingerprint."""
    further = {} if rule == ENGLISH else {"rule": rule, "regex": metadata.version("regex")}
    return {"code": TOKENISER, "nltk": metadata.version("nltk"), **further}


class WordLevelBuilder(Builder):
    """A builder of texts of words, which may have vectors."""

    def __init__(
        self,
        config: Any,
        words: Any,
        inputs: str,
        preparation: Preparation,
        splits: Sequence[str] = SPLITS,
    ):
        """
        Args:
          config: the section `data`.
          words: the section `words`.
          inputs: those of the model beside words, as text (`common_jax.inputs.inputs_to_text`).
          splits: those of the config.
        """
        super().__init__(config, preparation, splits)
        self._words = words
        self._inputs_text = inputs

    @property
    def _vectors(self) -> str:
        """The file of vectors, `data.vectors`; "" without."""
        return self._config.vectors

    def settings(self) -> dict[str, Any]:
        return {
            "words": tokeniser_identity(self._words.rule),
            "on_bad_example": self._config.on_bad_example,
            **({"inputs": self._inputs_text} if self._inputs_text else {}),
        }

    def fingerprint(self) -> dict[str, Any]:
        """As the base class; also the content of the file of vectors, and the rule of its rows."""
        vectors = None
        if file := self._vectors:
            vectors = {**file_identity(local_copy(expand_user(file))), "rows": ROWS}
        return {**super().fingerprint(), "vectors": vectors}

    def _given_vocabulary(
        self, char_rows: int = 0, vectors: Vectors | None = None
    ) -> Vocabulary | None:
        """The vocabulary of another run, as of `given_vocabulary`; None without."""
        folder = self._preparation.vocabulary
        if folder is None:
            return None
        return given_vocabulary(folder, self._words.rule, self._words.rows, char_rows, vectors)

    def _read_vectors(self, words: Counter[str], folder: Path) -> Vectors:
        """The vectors; writes their coverage to `folder` for `WordLevelData.report`.

        Args:
          words: with their frequencies in the text.

        Raises:
          UserError: as `common_jax.text.vectors.read_vectors`, naming the key.
        """
        bad_examples = self._bad_examples()
        with error_context("data.vectors"):
            file = local_copy(expand_user(self._vectors))
            vectors = read_vectors(file, words, self._words.dim, bad_examples)
        covered = sum(words[word] for word in vectors.rows)
        coverage = {
            "found": vectors.matched,
            "dropped": bad_examples.counts,
            "faulty": vectors.faulty,
            "tokens": [covered, words.total()],
        }
        (folder / _COVERAGE).write_text(json.dumps(coverage, ensure_ascii=False) + "\n", "utf-8")
        return vectors

"""Errors and tests of the scores of translations, over their sentences."""

import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from csan_jax.languages import code_of
from csan_jax.metrics import bleu_metric, moses_tokens, require_pairs


@dataclasses.dataclass(frozen=True)
class Compared:
    """Comparison of a system with a baseline, by one metric.

    Attributes:
      score: in percent.
      low, high: its 95 % interval over resampled sentences.
      p: of the difference from the baseline; None for the baseline itself.
    """

    score: float
    low: float
    high: float
    p: float | None


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], *, language: str
) -> tuple[dict[str, dict[str, Compared]], dict[str, str]]:
    """Compares `sacrebleu` and `chrf` of each system with those of the first, by sacreBLEU's paired
    bootstrap (1,000 resamples, seed 12345), as the command `sacrebleu --paired-bs`.

    Equal scores have a p of 1; sacreBLEU prints its smallest for those that are 0 in all resamples.

    Returns: by system and metric, and each metric's signature.

    Raises:
      ValueError: for a system of another length than the references, or no references.

    References:
      Koehn (2004), Statistical Significance Tests for Machine Translation Evaluation.
    """
    for hypotheses in systems.values():
        require_pairs(hypotheses, references)
    metrics = {"sacrebleu": bleu_metric(language, references), "chrf": CHRF()}
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    test = PairedTest([*systems.items()], metrics, [references], test_type="bs")
    signatures, results = test()
    compared: dict[str, dict[str, Compared]] = {name: {} for name in systems}
    for metric, signature in zip(metrics, signatures, strict=True):
        baseline = results[signature][0]
        assert isinstance(baseline, Result)
        for name, result in zip(systems, results[signature], strict=True):
            assert isinstance(result, Result) and result.mean is not None and result.ci is not None
            low = float(result.mean - result.ci)
            high = float(result.mean + result.ci)
            is_equal = result.p_value is not None and result.score == baseline.score
            p = 1.0 if is_equal else result.p_value
            compared[name][metric] = Compared(float(result.score), low, high, p)
    return compared, dict(zip(metrics, map(str, signatures.values()), strict=True))


def bleu_error(
    systems: Sequence[Sequence[str]],
    baselines: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    language: str,
    order: int | None = None,
    tokenized: bool = False,
    resamples: int = 1000,
) -> float:
    """The bootstrap standard error, over sentences, of the difference of the mean BLEU of systems
    to that of the baselines (Koehn 2004; seed 12345).

    Args:
      baselines: empty for the error of the mean itself.
      order: of the longest n-grams, unsmoothed as in `ngrams`; None for BLEU as in `score`.
      tokenized: whether BLEU is the `tokenized_bleu` of `score`.
    """
    of = None if tokenized else language

    def words(lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(moses_tokens(lines, code_of(language)) if tokenized else lines)

    reference = words(references)

    def bleu(lines: Sequence[str]) -> Float[np.ndarray, "resamples"]:
        return _resampled_bleu(words(lines), reference, of, order, resamples)

    def mean(group: Sequence[Sequence[str]]) -> Float[np.ndarray, "resamples"]:
        return np.mean([bleu(lines) for lines in group], axis=0)

    differences = mean(systems) - (mean(baselines) if baselines else 0.0)
    return float(np.std(differences, ddof=1))


@functools.lru_cache(maxsize=256)  # a page compares each system with several others
def _resampled_bleu(
    hypotheses: tuple[str, ...],
    references: tuple[str, ...],
    language: str | None,
    order: int | None,
    resamples: int,
) -> Float[np.ndarray, "resamples"]:
    """BLEU of resamples of the sentences, the same for all; language as of `bleu_metric`."""
    longest = order or 4
    options = {"max_ngram_order": longest, "smooth_method": "none" if order else "exp"}
    counts = _ngram_counts(hypotheses, references, language, longest)
    random = np.random.default_rng(12345)
    size = len(references)
    draws = (random.integers(0, size, size) for _ in range(resamples))
    weights = (np.bincount(draw, minlength=size) for draw in draws)
    return np.array([_corpus_bleu(weight @ counts, options) for weight in weights])


def _ngram_counts(
    hypotheses: tuple[str, ...], references: tuple[str, ...], language: str | None, order: int
) -> Int[np.ndarray, "n counts"]:
    """For each sentence both lengths, and the matches and totals of n-grams of each order; language
    as of `bleu_metric`."""
    bleu = bleu_metric(language, references, effective_order=True, max_ngram_order=order)
    scores = (bleu.sentence_score(h, [r]) for h, r in zip(hypotheses, references, strict=True))
    return np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores])


def _corpus_bleu(counts: Shaped[np.ndarray, "n"], options: Mapping[str, Any]) -> float:
    """BLEU from the sums of `_ngram_counts`."""
    system_length, reference, *grams = map(int, counts)
    middle = len(grams) // 2
    return BLEU.compute_bleu(
        grams[:middle], grams[middle:], system_length, reference, **options
    ).score

"""Scores of a translated corpus: sacreBLEU, chrF and tokenised BLEU, each with its signature."""

import dataclasses
import functools
import importlib.metadata
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from csan_jax.languages import code_of, has_moses, sacrebleu_tokenizer


@dataclasses.dataclass(frozen=True)
class Scores:
    """Corpus scores.

    Attributes:
      metrics: `sacrebleu`, `chrf` and, if the text `has_moses`, `tokenized_bleu`, in percent.
      signatures: by the same names, the settings that reproduce each score.
    """

    metrics: dict[str, float]
    signatures: dict[str, str]


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str,
    lowercase: bool = False,
) -> Scores:
    """Scores detokenised hypotheses against one reference each.

    `sacrebleu` and `chrf` (character order 6, beta 2) are as the command `sacrebleu` prints them.
    `tokenized_bleu` is BLEU on Moses tokens, for comparison with papers that report it: it depends
    on the tokeniser, by a point or two. Words with hyphens are one token; scripts that split such
    compounds, as is usual for WMT14 En-De, give a larger BLEU.

    Args:
      hypotheses: one a sentence; an empty one counts as wrong.
      references: likewise, in the same order.
      language: of the references, as in "de", "zh-CN", "zho_Hant" or "jpn"; selects the tokenisers,
        with the references' script (`csan_jax.languages`).
      lowercase: whether to ignore case, in all three.

    Raises:
      ValueError: for no sentences, or unequal numbers.

    References:
      Post (2018), A Call for Clarity in Reporting BLEU Scores; Popović (2015), chrF.
    """
    _check(hypotheses, references)

    # Scores of detokenised text, as sacreBLEU prints them.
    bleu = _bleu(language, references, lowercase=lowercase)
    chrf = CHRF(lowercase=lowercase)
    metrics = {
        "sacrebleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
    }
    signatures = {"sacrebleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}

    # BLEU on Moses tokens, for languages that Moses knows.
    if has_moses(language, references):
        tokenized = _bleu(None, (), lowercase=lowercase)
        code = code_of(language)
        metrics["tokenized_bleu"] = tokenized.corpus_score(
            _moses(hypotheses, code), [_moses(references, code)]
        ).score
        moses = f"sacremoses-{importlib.metadata.version('sacremoses')}.{code}"
        signatures["tokenized_bleu"] = f"{tokenized.get_signature()}|pretok:{moses}"
    return Scores(metrics, signatures)


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> float:
    """`sacrebleu` of `score`, alone."""
    _check(hypotheses, references)
    return _bleu(language, references).corpus_score(hypotheses, [references]).score


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of each sentence, in percent."""
    _check(hypotheses, references)
    chrf = CHRF()
    pairs = zip(hypotheses, references, strict=True)
    return [chrf.sentence_score(hypothesis, [reference]).score for hypothesis, reference in pairs]


def errors(
    sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Each sentence with its chrF in percent, as `common_jax.training.task.Scores.errors`."""
    scores = sentence_chrf(hypotheses, references)
    rows = zip(sources, references, hypotheses, scores, strict=True)
    for number, (source, reference, hypothesis, chrf) in enumerate(rows, start=1):
        yield {
            "row": number,
            "source": source,
            "reference": reference,
            "hypothesis": hypothesis,
            "chrf": round(chrf, 2),
        }


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
        _check(hypotheses, references)
    metrics = {"sacrebleu": _bleu(language, references), "chrf": CHRF()}
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
        return tuple(_moses(lines, code_of(language)) if tokenized else lines)

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
    """BLEU of resamples of the sentences, the same for all systems; language as of `_bleu`."""
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
    as of `_bleu`."""
    bleu = _bleu(language, references, effective_order=True, max_ngram_order=order)
    scores = (bleu.sentence_score(h, [r]) for h, r in zip(hypotheses, references, strict=True))
    return np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores])


def _corpus_bleu(counts: Shaped[np.ndarray, "n"], options: Mapping[str, Any]) -> float:
    """BLEU from the sums of `_ngram_counts`."""
    system_length, reference, *grams = map(int, counts)
    middle = len(grams) // 2
    return BLEU.compute_bleu(
        grams[:middle], grams[middle:], system_length, reference, **options
    ).score


def ngrams(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str, most: int = 8
) -> list[tuple[float, float]]:
    """For n from 1 to `most`: BLEU of n-grams up to n (BLEU-n, with the brevity penalty), and the
    precision of n-grams of exactly n words; both in percent, unsmoothed.

    The paper does not state which of the two its Figure 3 shows (Yang et al. 2019).

    Raises:
      ValueError: as `score`.
    """
    _check(hypotheses, references)
    scores = [
        _bleu(language, references, max_ngram_order=n, smooth_method="none").corpus_score(
            hypotheses, [references]
        )
        for n in range(1, most + 1)
    ]
    return [(score.score, score.precisions[-1]) for score in scores]


def _bleu(language: str | None, references: Sequence[str], **options: Any) -> BLEU:
    """BLEU of texts in a language, or if it is None of tokens separated by spaces."""
    if language is None:  # forced: sacreBLEU would warn that the text is tokenised
        return _cached_bleu(tokenize="none", force=True, **options)
    return _cached_bleu(tokenize=sacrebleu_tokenizer(language, references), **options)


@functools.lru_cache(maxsize=32)  # each remembers the sentences that it has tokenised
def _cached_bleu(**options: Any) -> BLEU:
    return BLEU(**options)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} references: must be equally many, "
            "at least one"
        )


def _moses(sentences: Sequence[str], language: str) -> list[str]:
    """Moses tokens separated by spaces, without XML escapes."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=language)
    return [tokenizer.tokenize(sentence, return_str=True, escape=False) for sentence in sentences]

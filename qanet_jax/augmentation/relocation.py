"""Locates an answer in a paraphrase of its sentence (Yu et al. 2018, section 3)."""

import functools
from collections import Counter
from collections.abc import Iterator

from common_jax.text.squad import Answer
from common_jax.text.word_tokenizer import split_words

LONGEST = 30  # words of a relocated answer
# Default of the least similarity to the original answer. The paper's example has 0.667. Of answers
# relocated in the paraphrases of weak translators, those of 0.5 to 0.65 were wrong
# (docs/results/qanet/augmentation/page.md).
THRESHOLD = 0.65


def similarity(a: str, b: str) -> float:
    """Dice's coefficient of the multisets of character 2-grams, lower-cased, from 0 to 1.

    2 |A and B| / (|A| + |B|); a text of one character is its own 2-gram. The paper's example:
    "Department of Pre-Professional Studies", "Department of Preparatory Studies" -> 0.667. Its
    formula and its threshold are not published.
    """
    first = _bigrams(a)
    second = _bigrams(b)
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 0.0


def relocate(answer: str, sentence: str) -> tuple[Answer, float] | None:
    """The span of a sentence that is most similar to an answer, and the similarity.

    The span's first word shares a 2-gram with the answer's first word, its last with the last; it
    has at most `LONGEST` words. Among equally similar spans, the first start, then the shortest.
    None if there is no such span.
    """
    spans = split_words(sentence)
    answer_words = split_words(answer)
    if not answer_words:
        return None

    def similar(start: int, end: int) -> list[int]:
        word = answer[start:end]
        return [n for n, (i, j) in enumerate(spans) if similarity(word, sentence[i:j])]

    # The most similar of the candidates, whose similarity is computed only if it may be the best.
    size = _bigrams(answer).total()
    best = None
    for start, end in _candidates(similar(*answer_words[0]), similar(*answer_words[-1])):
        i = spans[start][0]
        j = spans[end][1]
        count = max(1, j - i - 1)
        highest = 2 * min(count, size) / (count + size)  # if the shorter's 2-grams are all shared
        if best is None or highest > best[1]:
            score = similarity(answer, sentence[i:j])
            if best is None or score > best[1]:
                best = Answer(sentence[i:j], i), score
    return best


def _candidates(starts: list[int], ends: list[int]) -> Iterator[tuple[int, int]]:
    for start in starts:
        yield from ((start, end) for end in ends if start <= end < start + LONGEST)


@functools.lru_cache(maxsize=1 << 14)
def _bigrams(text: str) -> Counter[str]:
    text = text.lower()
    return Counter(text[n : n + 2] for n in range(max(1, len(text) - 1)) if text)

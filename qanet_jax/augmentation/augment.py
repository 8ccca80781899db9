"""Assembles new passages from paraphrased sentences (Yu et al. 2018, section 3).

Each sentence gives way to one of its paraphrases, drawn at random from those in which all answers
of the sentence are found again. Sentences that an answer crosses, or without such a paraphrase,
stay as they are; the text between sentences stays. A copy of a passage shares its questions, of
which the first answer is relocated.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from common_jax.text.sentence_splitter import split_sentences
from common_jax.text.squad import Answer, Question, Squad
from qanet_jax.augmentation.paraphrases import Paraphrases
from qanet_jax.augmentation.relocation import relocate

CURVE = tuple(n / 20 for n in range(21))  # thresholds at which relocations are counted


@dataclasses.dataclass(frozen=True)
class Relocated:
    """A paraphrase of a sentence.

    Attributes:
      answers: of the sentence, at their offsets in `text`, in their order.
      scores: the similarity of each to the original.
    """

    text: str
    answers: tuple[Answer, ...] = ()
    scores: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence of a passage.

    Attributes:
      start, end: in characters of the passage.
      answers: at their offsets in the sentence, of the questions with these numbers.
      questions: numbers of the passage's questions whose answer is in it.
      crossed: whether an answer is in it and in another one.
    """

    start: int
    end: int
    answers: tuple[Answer, ...]
    questions: tuple[int, ...]
    crossed: bool


@dataclasses.dataclass
class Counts:
    """What became of sentences, paraphrases and passages.

    Attributes:
      events: by name.
      scores: of the least similar answer of each paraphrase with answers, in bins of `CURVE`.
    """

    events: Counter[str] = dataclasses.field(default_factory=Counter)
    scores: Counter[float] = dataclasses.field(default_factory=Counter)


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A relocated answer, for reading.

    Attributes:
      answers: the original and the new one.
      score: their similarity.
    """

    original: str
    paraphrase: str
    answers: tuple[str, str]
    score: float


@dataclasses.dataclass(frozen=True)
class Augmented:
    """New passages.

    Attributes:
      replacements: a relocated answer of each new passage that has one.
    """

    squad: Squad
    counts: Counts
    replacements: Sequence[Replacement]


def sentences_of(context: str, answers: Sequence[Answer]) -> list[Sentence]:
    """The sentences of a passage, with the answers to its questions."""
    result = []
    for start, end in split_sentences(context):
        inside, numbers, crossed = [], [], False
        for number, answer in enumerate(answers):
            stop = answer.start + len(answer.text)
            if start <= answer.start and stop <= end:
                inside.append(Answer(answer.text, answer.start - start))
                numbers.append(number)
            else:
                crossed |= answer.start < end and start < stop
        result.append(Sentence(start, end, tuple(inside), tuple(numbers), crossed))
    return result


def augment(
    squad: Squad, paraphrases: Paraphrases, *, count: int, threshold: float, seed: int
) -> Augmented:
    """New passages with the questions about them, whose ids are ID-copyN.

    Copies that equal the passage, or an earlier copy of it, are left out.

    Args:
      count: copies of each passage.
      threshold: least similarity of an answer to the original.
      seed: of the draws.
    """
    counts, result = Counts(), Squad([], [], [])
    replacements: list[Replacement] = []
    of_passage: dict[int, list[Question]] = {}
    for question in squad.questions:
        of_passage.setdefault(question.context, []).append(question)
    for number, questions in sorted(of_passage.items()):
        context = squad.contexts[number]
        answers = [question.answers[0] for question in questions]
        sentences = sentences_of(context, answers)
        choices = [_choices(s, context, paraphrases, threshold, counts) for s in sentences]
        seen = {context}
        for copy in range(count):
            random = np.random.default_rng([seed, number, copy])
            drawn = [c[random.integers(len(c))] if c else None for c in choices]
            text, new = _assembled(context, answers, sentences, drawn)
            if text in seen:
                counts.events["copies without a change"] += 1
                continue
            seen.add(text)
            for question, answer in zip(questions, new, strict=True):
                name, at = f"{question.id}-copy{copy + 1}", len(result.contexts)
                result.questions.append(Question(name, question.text, at, (answer,)))
            replacements += _example(context, sentences, drawn)
            result.contexts.append(text)
            if squad.articles:
                result.articles.append(squad.articles[number])
    counts.events["new passages"] = len(result.contexts)
    counts.events["new questions"] = len(result.questions)
    return Augmented(result, counts, replacements)


def _choices(
    sentence: Sentence, context: str, paraphrases: Paraphrases, threshold: float, counts: Counts
) -> list[Relocated]:
    """The paraphrases of a sentence in which all its answers are found."""
    text = context[sentence.start : sentence.end]
    texts = paraphrases.get(text, ())
    events = counts.events
    events["sentences"] += 1
    events["paraphrases"] += len(texts)
    other = [paraphrase for paraphrase in texts if paraphrase not in (text, "")]
    different = dict.fromkeys(other)
    events["equal to the sentence, or empty"] += len(texts) - len(other)
    events["repeated"] += len(other) - len(different)
    if sentence.crossed:
        events["sentences that an answer crosses"] += 1
        return []
    result = []
    for paraphrase in different:
        relocated = [relocate(answer.text, paraphrase) for answer in sentence.answers]
        located = [one for one in relocated if one is not None]
        complete = len(located) == len(relocated)
        least = min((score for _, score in located), default=1.0) if complete else 0.0
        if relocated:
            events["with answers to be found"] += 1
            counts.scores[max(edge for edge in CURVE if edge <= least)] += 1
        if least < threshold or not complete:
            events["answer not found"] += 1
            continue
        answers, scores = zip(*located, strict=True) if located else ((), ())
        result.append(Relocated(paraphrase, answers, scores))
    events["sentences that stay"] += not result
    return result


def _assembled(
    context: str,
    answers: Sequence[Answer],
    sentences: Sequence[Sentence],
    drawn: Sequence[Relocated | None],
) -> tuple[str, list[Answer]]:
    """The new passage, and the answers in it."""
    text, end, new = "", 0, dict[int, Answer]()
    for sentence, choice in zip(sentences, drawn, strict=True):
        text += context[end : sentence.start]
        end, start = sentence.end, len(text)
        text += context[sentence.start : end] if choice is None else choice.text
        if choice is not None:
            for number, answer in zip(sentence.questions, choice.answers, strict=True):
                new[number] = Answer(answer.text, start + answer.start)
            continue
        for number, answer in enumerate(answers):  # of a sentence that stays
            if answer.start < end and sentence.start < answer.start + len(answer.text):
                moved = Answer(answer.text, answer.start + start - sentence.start)
                new.setdefault(number, moved)
    return text + context[end:], [new[number] for number in range(len(answers))]


def _example(
    context: str, sentences: Sequence[Sentence], drawn: Sequence[Relocated | None]
) -> Iterator[Replacement]:
    """The first relocated answer of a passage, if there is one."""
    for sentence, choice in zip(sentences, drawn, strict=True):
        if choice is not None and choice.answers:
            texts = sentence.answers[0].text, choice.answers[0].text
            original = context[sentence.start : sentence.end]
            yield Replacement(original, choice.text, texts, choice.scores[0])
            return

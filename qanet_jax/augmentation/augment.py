"""Assembles new passages from paraphrased sentences (Yu et al. 2018, section 3).

Each sentence is replaced by one of its paraphrases, drawn at random from those in which all answers
of the sentence are located. Sentences without such a paraphrase, sentences that an answer crosses,
and the text between sentences are not changed. A new passage has the questions of the original,
each with its first answer, relocated.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from common_jax.document import Cell, Chart, Report, Section, Series, Table
from common_jax.text.squad import Answer, Question, Squad
from qanet_jax.augmentation.paraphrases import Paraphrases
from qanet_jax.augmentation.relocation import relocate

Span = tuple[int, int]  # start and end, in characters of a passage
_SHOWN = 50  # relocated answers in a report
CURVE = tuple(n / 20 for n in range(21))  # thresholds at which paraphrases are counted


@dataclasses.dataclass(frozen=True)
class Relocated:
    """A paraphrase of a sentence, with the sentence's answers.

    Attributes:
      answers: in the sentence's order, at their offsets in `text`.
      scores: the similarity of each answer to the original one.
    """

    text: str
    answers: tuple[Answer, ...] = ()
    scores: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence of a passage.

    Attributes:
      start, end: in characters of the passage.
      answers: those inside the sentence, at their offsets in it.
      questions: the question of each of `answers`, as its index among the passage's questions.
      crossed: whether an answer is partly in this sentence and partly outside.
    """

    start: int
    end: int
    answers: tuple[Answer, ...]
    questions: tuple[int, ...]
    crossed: bool


@dataclasses.dataclass
class Counts:
    """Numbers of sentences, paraphrases and passages by outcome.

    Attributes:
      events: by name.
      scores: paraphrases in which all answers are located, by the similarity of the least similar
        one, in bins of `CURVE`.
    """

    events: Counter[str] = dataclasses.field(default_factory=Counter)
    scores: Counter[float] = dataclasses.field(default_factory=Counter)


@dataclasses.dataclass(frozen=True)
class Replacement:
    """An example of a relocated answer, for the report.

    Attributes:
      original, paraphrase: the sentences.
      answers: the original and the relocated one.
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
      replacements: the first relocated answer of each new passage that has any.
    """

    squad: Squad
    counts: Counts
    replacements: Sequence[Replacement]


def sample_passages(squad: Squad, count: int | None, seed: int) -> Squad:
    """A random sample of `count` passages with questions, in their order; None is all."""
    numbers = sorted({question.context for question in squad.questions})
    if count is not None and count < len(numbers):
        random = np.random.default_rng(seed)
        numbers = sorted(random.choice(numbers, count, replace=False).tolist())
    new = {old: number for number, old in enumerate(numbers)}
    return Squad(
        [squad.contexts[number] for number in numbers],
        [
            dataclasses.replace(question, context=new[question.context])
            for question in squad.questions
            if question.context in new
        ],
        [squad.articles[number] for number in numbers] if squad.articles else [],
    )


def sentences_of(spans: Sequence[Span], answers: Sequence[Answer]) -> list[Sentence]:
    """The sentences of a passage, with the answers to its questions."""
    result = []
    for start, end in spans:
        inside = []
        numbers = []
        crossed = False
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
    squad: Squad,
    spans: Sequence[Sequence[Span]],
    paraphrases: Paraphrases,
    *,
    count: int,
    threshold: float,
    seed: int,
) -> Augmented:
    """New passages with the questions about them, whose ids are ID-copyN.

    Copies that equal the passage, or an earlier copy of it, are left out.

    Args:
      spans: the sentences of each passage.
      count: copies of each passage.
      threshold: least similarity of a relocated answer to the original.
      seed: of the choice of paraphrases.
    """
    counts = Counts()
    result = Squad([], [], [])
    replacements: list[Replacement] = []
    by_context: dict[int, list[Question]] = {}

    # The questions of each passage.
    for question in squad.questions:
        by_context.setdefault(question.context, []).append(question)
    for number, questions in sorted(by_context.items()):
        context = squad.contexts[number]
        answers = [question.answers[0] for question in questions]

        # Each sentence is replaced by one of its paraphrases, which are drawn anew for each copy.
        sentences = sentences_of(spans[number], answers)
        choices = [_choices(s, context, paraphrases, threshold, counts) for s in sentences]
        seen = {context}
        for copy in range(count):
            random = np.random.default_rng([seed, number, copy])
            drawn = [c[random.integers(len(c))] if c else None for c in choices]
            text, new = _assembled(context, answers, sentences, drawn)
            if text in seen:
                counts.events["copies without a change"] += 1
                continue

            # A new passage has all questions of the old one.
            seen.add(text)
            for question, answer in zip(questions, new, strict=True):
                name = f"{question.id}-copy{copy + 1}"
                at = len(result.contexts)
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
    """The paraphrases of a sentence in which all its answers are located."""
    # Paraphrases that are different, of a sentence that no answer crosses.
    text = context[sentence.start : sentence.end]
    texts = paraphrases.get(text, ())
    events = counts.events
    events["sentences"] += 1
    events["paraphrases"] += len(texts)
    unchanged = " ".join(text.split())  # as the white space of paraphrases is
    other = [paraphrase for paraphrase in texts if paraphrase not in (unchanged, "")]
    different = dict.fromkeys(other)
    events["equal to the sentence, or empty"] += len(texts) - len(other)
    events["repeated"] += len(other) - len(different)
    if sentence.crossed:
        events["sentences that an answer crosses"] += 1
        return []

    # Those in which all its answers are located, by the least similar of them.
    result = []
    for paraphrase in different:
        relocated = [relocate(answer.text, paraphrase) for answer in sentence.answers]
        located = [pair for pair in relocated if pair is not None]
        complete = len(located) == len(relocated)
        least = min((score for _, score in located), default=1.0)
        events["of sentences with answers"] += bool(relocated)
        if relocated and complete:
            counts.scores[max(edge for edge in CURVE if edge <= least)] += 1
        if least < threshold or not complete:
            events["without one of the answers"] += 1
            continue
        answers, scores = zip(*located, strict=True) if located else ((), ())
        result.append(Relocated(paraphrase, answers, scores))
    events["unchanged sentences"] += not result
    return result


def _assembled(
    context: str,
    answers: Sequence[Answer],
    sentences: Sequence[Sentence],
    drawn: Sequence[Relocated | None],
) -> tuple[str, list[Answer]]:
    """The new passage, and the answers in it."""
    text = ""
    end = 0
    new = dict[int, Answer]()
    for sentence, choice in zip(sentences, drawn, strict=True):
        # The sentence or its paraphrase, in which answers are relocated.
        text += context[end : sentence.start]
        end = sentence.end
        start = len(text)
        text += context[sentence.start : end] if choice is None else choice.text
        if choice is not None:
            for number, answer in zip(sentence.questions, choice.answers, strict=True):
                new[number] = Answer(answer.text, start + answer.start)
            continue

        # Answers in an unchanged sentence move with it.
        for number, answer in enumerate(answers):  # of an unchanged sentence
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


def report(augmented: Augmented, threshold: float, command: str) -> Report:
    """The report; `command` is the command line that made the passages."""
    counts = augmented.counts
    numbers: list[list[Cell]] = [[name, count] for name, count in counts.events.items()]
    sections = [Section("Counts", [f"Made by: {command}", Table(("", "number"), numbers)])]
    if counts.scores:
        sections.append(Section("Similarity of relocated answers", [_curve(counts, threshold)]))
    if augmented.replacements:
        sections.append(Section("Relocated answers", [_examples(augmented)]))
    return Report("Augmented passages", sections)


def _curve(counts: Counts, threshold: float) -> Chart:
    total = counts.events["of sentences with answers"]
    shares = [
        100 * sum(n for score, n in counts.scores.items() if score >= edge) / total
        for edge in CURVE
    ]
    return Chart(
        title="paraphrases with all answers located",
        x_label="least similarity (Dice, character 2-grams)",
        y_label="% of paraphrases with answers",
        series=[Series("", CURVE, shares)],
        form="lines",
        note=f"{total:,} paraphrases of sentences with answers; --threshold {threshold:g}.",
    )


def _examples(augmented: Augmented) -> Table:
    every = augmented.replacements
    step = max(1, len(every) // _SHOWN)
    rows: Sequence[Sequence[Cell]] = [
        (r.original, r.paraphrase, *r.answers, r.score) for r in every[::step][:_SHOWN]
    ]
    head = ("sentence", "paraphrase", "answer", "relocated answer", "similarity")
    return Table(head, rows, "A sample at equal distances in the list of new passages.")

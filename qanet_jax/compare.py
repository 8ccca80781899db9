"""Evaluations of answers: paired tests, and scores by type of question and length of answer."""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from common_jax.compare import Evaluation, ScoredExample, notes_by_label
from common_jax.document import (
    Cell,
    Chart,
    Element,
    Heatmap,
    Outline,
    Panel,
    Section,
    Series,
    Table,
)
from common_jax.errors import UserError
from common_jax.io.json_files import read_json
from common_jax.metrics.paired import permutation_p
from common_jax.text.squad import Answer, Question
from qanet_jax.answer_files import read_predictions
from qanet_jax.data.text import TokenizedText, input_line
from qanet_jax.metrics import ANSWER_LENGTHS
from qanet_jax.metrics import scores as question_scores

# Notes of `SpanExtraction.score`: number of questions, exact match and F1 of each kind.
ByKind = dict[str, tuple[int, float, float]]
_KINDS = {
    "by_question_type": ("question", "The first question word in the question."),
    "by_answer_length": ("words of the answer", "Words of the shortest gold answer."),
}

# words of a picture: around the answer, and of the question
_AROUND = 8
_LONGEST = 30
_SHOWN = 20  # words of a context before and after the answer in a table


class SpanEvaluation(Evaluation):
    """Compares exact match and F1: paired tests, by type of question, by length of answer."""

    tests = "p of the paired permutation test over questions (10,000 samples)."
    metrics = ("verified_exact_match", "verified_f1")  # of TriviaQA
    example_score = "F1"

    @property
    def _file(self) -> Path:
        return self.run.workdir.predictions_file(self.split, "json")

    @functools.cached_property
    def identity(self) -> Mapping[str, Any]:
        """The questions' lengths and gold answers if known, and their ids if predictions are
        stored."""
        identity = {**super().identity}
        if self._file.exists():
            identity["ids"] = [*read_json(self._file).value]
        if self.run.workdir.is_scored(self.split) and (golds := self._golds_sha256):
            identity["golds"] = golds
        return identity

    @property
    def _golds_sha256(self) -> str:
        """Identifies the gold answers; "" if unknown, in older runs."""
        return self.run.workdir.scores(self.split).get("golds_sha256", str, "")

    @functools.cached_property
    def predictions(self) -> list[ScoredExample]:
        """As the base class; none for TriviaQA, whose questions have several contexts."""
        answers = read_predictions(self._file)
        stored = self.run.workdir.scores(self.split).value
        if self.run.corpus.golds(self.split) is not None:
            return []

        # The stored answers must have the F1 of the score.
        squad = self.run.corpus.texts(self.split)
        golds = {q.id: q.golds for q in squad.questions}
        scores = question_scores(answers, golds) if answers.keys() == golds.keys() else {}
        f1 = 100 * float(np.mean([f1 for _, f1 in scores.values()])) if scores else 0.0
        matches = "f1_worst" in stored or abs(f1 - stored.get("f1", f1)) <= 0.01
        if not scores or not matches:
            raise UserError(f"{self._file}: not the answers of its score; score {self.split} again")

        # The words around each answer, for a table.
        rule = self.run.corpus.vocabulary.rule
        words = [TokenizedText.of(context, rule) for context in squad.contexts]
        examples = []
        for question in squad.questions:
            context = squad.contexts[question.context]
            reference = question.answers[0]
            example = ScoredExample(
                line=input_line(context, question.text),
                text=_around(question, context, words[question.context]),
                reference=reference.text,
                prediction=answers[question.id],
                score=100 * scores[question.id][1],
                span=(reference.start, reference.start + len(reference.text)),
            )
            examples.append(example)
        return examples

    @staticmethod
    def pictured(
        answer: str, run: str, line: str, span: tuple[int, int] | None = None
    ) -> tuple[str, Sequence[Element]]:
        """The answer, and a picture of the context-query attention around it, with outlines of the
        answer and of a different reference."""
        explained = json.loads(answer)
        if not explained.get("layers"):
            return explained["answer"], []

        # The answer and a different reference, in words of the context.
        text = json.loads(line)["context"]
        context, question = explained["words"]
        spans = {"answer": (explained["start"], explained["end"])}
        if span is not None and span != spans["answer"]:
            spans["reference"] = span
        words = {name: _words_of(text, context, *ends) for name, ends in spans.items()}

        # The words around the answer, and the outlines within them.
        top = max(0, words["answer"][0] - _AROUND)
        stop = min(len(context), words["answer"][1] + 1 + _AROUND)
        outlines = []
        for name, (first, last) in words.items():
            first = max(first, top)
            last = min(last, stop - 1)
            if first <= last:
                ends = [(0, len(question[:_LONGEST]) - 1)] * (last + 1 - first)
                outlines.append(Outline(name, ends, first - top))

        weights = explained["layers"][0][0]["weights"][top:stop]
        panel = Panel("", [row[:_LONGEST] for row in weights], outlines)
        names = f"{run}: context-query attention", "question", "context"
        note = "Each word of the context attends to the words of the question."
        return explained["answer"], [
            Heatmap(*names, context[top:stop], question[:_LONGEST], [panel], note=note)
        ]

    @staticmethod
    def tested(result: str, differences: Float[np.ndarray, "n"]) -> dict[str, float]:
        """As the base class, with p of a permutation test, since most differences are 0."""
        numbers = Evaluation.tested(result, differences)
        return {**numbers, f"p_{result}": permutation_p(differences)}

    def sections(self, compared: Sequence[Any]) -> list[Section]:
        """Sections on the differences, and on kinds of questions, for runs with the same questions
        as the first run with such scores."""
        sections = super().sections(compared)
        for note, (category, text) in _KINDS.items():
            scores = notes_by_label([self, *compared], note, ByKind)
            counts = [_counts(by_kind) for by_kind in scores.values()]
            comparable = {label: by for label, by in scores.items() if _counts(by) == counts[0]}
            if comparable:
                elements = _by_kind(comparable, category, text)
                if omitted := [label for label in scores if label not in comparable]:
                    labels = ", ".join(omitted)
                    elements.append(f"Not compared, due to other questions: {labels}.")
                sections.append(Section(f"by {category} on {self.split}", elements))
        return sections


def _around(question: Question, context: str, words: TokenizedText) -> str:
    """A question, and its context around the first answer."""
    answer = question.answers[0]
    first, last = words.locate(answer) or (0, 0)
    spans = words.spans[max(0, first - _SHOWN) : last + 1 + _SHOWN]
    start = spans[0][0]
    stop = spans[-1][1]
    ends = ("… " if start else ""), (" …" if stop < len(context) else "")
    return f"{question.text} {ends[0]}{context[start:stop]}{ends[1]}"


def _words_of(text: str, words: list[str], start: int, end: int) -> tuple[int, int]:
    """The first and the last of a text's words in a span of characters."""
    spans = []
    at = 0
    for word in words:
        at = text.index(word, at)
        spans.append((at, at := at + len(word)))
    located = TokenizedText(words, spans).locate(Answer(text[start:end], start))
    assert located is not None
    return located


def _counts(by_kind: ByKind) -> dict[str, int]:
    return {name: scores[0] for name, scores in by_kind.items()}


def _by_kind(notes: Mapping[str, ByKind], kind: str, text: str) -> list[Element]:
    """A chart and a table of the scores of each run by kind of question."""
    counts = _counts(next(iter(notes.values())))
    order = {name: number for number, name in enumerate(ANSWER_LENGTHS)}
    # A stable sort: types of question keep the order of the baseline's score.
    kinds = sorted(counts, key=lambda name: order.get(name, len(order)))
    series = [
        Series(label, kinds, [by_kind[name][2] for name in kinds])
        for label, by_kind in notes.items()
    ]
    rows: list[list[Cell]] = [
        [
            name,
            counts[name],
            *(f"{by_kind[name][1]:.2f} / {by_kind[name][2]:.2f}" for by_kind in notes.values()),
        ]
        for name in kinds
    ]
    head = (kind, "questions", *(f"{label}: EM / F1" for label in notes))
    return [Chart(f"F1 by {kind}", kind, "F1", series, "bars", text), Table(head, rows)]

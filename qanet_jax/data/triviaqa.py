"""TriviaQA's Wikipedia domain (Joshi et al., ACL 2017), as the paper trains on it (section 4.2).

Questions have complete documents and aliases of the answer, but no spans. Spans are distantly
supervised: the first occurrence of an alias in a document. Training uses a window around it.
"""

import dataclasses
import os
import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import file_identity
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.files import read_lines
from common_jax.io.json_files import Node, read_json, read_json_lines
from common_jax.text.squad import REPEATED, Answer, Question, Squad
from common_jax.text.word_tokenizer import ENGLISH, Rule, split_words
from qanet_jax.data import Golds, Split
from qanet_jax.data.sources import Content, Records, Source
from qanet_jax.triviaqa_metrics import golds

SUPERVISED_WORDS = 800  # of a document, searched for aliases (Joshi et al., section 6)
# words (QANet, section 4.2)
TRAIN_WINDOW = 256
DEV_WINDOW = 400

_MARGIN = 8  # extra words before truncation, since the last ones depend on the following text


class Document(NamedTuple):
    """An evidence document.

    Attributes:
      id: its file name.
    """

    id: str
    text: str


class Trivia(NamedTuple):
    """A question, the aliases of its answer, and documents that may contain one.

    Attributes:
      aliases: as they may occur in a document.
      golds: gold answers: aliases, and answers of annotators.
      verified: whether annotators have verified that the documents answer it.
    """

    id: str
    text: str
    aliases: tuple[str, ...]
    golds: tuple[str, ...]
    verified: bool
    documents: tuple[Document, ...]


def read_release(path: str | Path, bad_examples: BadExamples) -> Iterator[Trivia]:
    """Streams a file of the official release, qa/wikipedia-{train,dev}.json or the verified one.

    Documents are read from the folder evidence/wikipedia beside qa, for one question at a time.
    Rejects questions that are empty or malformed, have the id of an earlier one, or no answer (as
    in the test file), and documents that cannot be read; skips pages without a file.

    Raises:
      UserError: if the file cannot be read, is not JSON, or has no list of questions; or by
        `bad_examples`.
    """
    evidence = _Evidence(_documents_folder(path))
    ids = set[str]()
    for node in read_json(path).nodes("Data"):
        if read := bad_examples.parse(_of_release, node):
            trivia, pages = read
            documents = tuple(_documents(pages, evidence, bad_examples))
            trivia = trivia._replace(documents=documents)
            if _is_valid(trivia, node.place, ids, bad_examples):
                yield trivia


def _documents_folder(path: str | Path) -> Path:
    """The folder of the documents of a file of the release; raises UserError without one."""
    folder = Path(path).parent.parent / "evidence" / "wikipedia"
    require(folder.is_dir(), f"{folder}: no such folder; unpack the release's evidence")
    return folder


def read_sample(path: str | Path, bad_examples: BadExamples) -> Iterator[Trivia]:
    """Streams JSON lines of id, question, aliases and context, each with one short document.

    Rejects lines that are not JSON or malformed, are empty, or have the id of an earlier one or no
    alias.

    Raises:
      UserError: if the file cannot be read; or by `bad_examples`.
    """
    ids = set[str]()
    for node in read_json_lines(path, bad_examples):
        trivia = bad_examples.parse(_of_line, node)
        if trivia and _is_valid(trivia, node.place, ids, bad_examples):
            yield trivia


def read_dataset(
    dataset: Dataset, split: str, key: str, bad_examples: BadExamples
) -> Iterator[Trivia]:
    """Streams the Wikipedia domain of a split of TensorFlow Datasets' "trivia_qa/rc".

    The dataset has both domains, and the verified questions a second time: questions with search
    results, which are those of the web domain, and repeated ids are skipped. The dataset neither
    marks verified questions nor has answers of annotators.

    Args:
      key: the config key of the split.

    Raises:
      UserError: for another dataset, or an unknown split.
    """
    ids = set[str]()
    for number, row in enumerate(dataset.source(split, key), start=1):
        location = f"{dataset.name} {split}:{number}"
        try:
            of_web = len(row["search_results"]["filename"]) > 0
            trivia = _of_row(row)
        except (KeyError, TypeError, IndexError) as error:
            raise UserError(
                f"data.tfds={dataset.name}: not of the form of trivia_qa/rc ({error!r})"
            ) from error

        # of Wikipedia, once
        if of_web:
            bad_examples.skip("question of the web domain", location)
        elif trivia.id in ids:
            bad_examples.skip("repeated question", location)
        elif _is_valid(trivia, location, ids, bad_examples):
            yield trivia


def supervise(
    questions: Iterable[Trivia],
    width: int,
    seed: int,
    bad_examples: BadExamples,
    rule: Rule = ENGLISH,
    *,
    answered: bool = True,
) -> Squad:
    """Distantly supervised spans, and a window of each document around its span.

    The span is the first occurrence of an alias, ignoring case, in complete words, in the
    document's first `SUPERVISED_WORDS`. The window has `width` of these words, or all, and contains
    the span; its start is uniformly random, by `seed` and the question's id. In evaluation, such
    windows are an oracle, which the official scores do not use.

    Args:
      width: of a window in words: `TRAIN_WINDOW` or `DEV_WINDOW`.
      rule: of words.
      answered: whether to skip documents without a span, as in training; otherwise their first
        words are used, without an answer.

    Returns:
      One question for each document, with the id "question--document" (the separator is the
      official evaluation's) and at most one answer.
    """
    squad = Squad([], [])
    for trivia in questions:
        names = _pattern(trivia.aliases)
        for document in trivia.documents:
            name = f"{trivia.id}--{document.id}"
            words = first_words(document.text, SUPERVISED_WORDS, rule)
            end = words[-1][1] if words else 0
            match = names.search(document.text, 0, end) if names else None
            covered = _covered(words, match.span()) if match else (0, 0)

            # the window around it, unless the document is skipped
            if covered[1] - covered[0] > width:
                bad_examples.skip("answer longer than the window", name)
            elif not words:
                bad_examples.skip("empty document", name)
            elif answered and not match:
                bad_examples.skip("document without an answer", name)
            else:
                rng = random.Random(f"{seed} {name}")
                first = window_start(len(words), covered, width, rng) if match else 0
                start = words[first][0]
                stop = words[min(first + width, len(words)) - 1][1]
                answers = (Answer(match[0], match.start() - start),) if match else ()
                number = len(squad.contexts)
                squad.contexts.append(document.text[start:stop])
                squad.questions.append(Question(name, trivia.text, number, answers))
    return squad


def first_words(text: str, count: int, rule: Rule = ENGLISH) -> list[tuple[int, int]]:
    """The first `count` of `split_words(text, rule)`, without tokenizing all of a long text."""
    size = 8 * (count + _MARGIN)
    while True:
        words = split_words(text[:size], rule)
        if size >= len(text) or len(words) >= count + _MARGIN:
            return words[:count]
        size *= 2


def window_start(count: int, span: tuple[int, int], width: int, rng: random.Random) -> int:
    """A random start of a window in `count` words that contains the words [start, end) of `span`.

    Uniform over all possible starts; the window does not extend past the last word, unless `width`
    exceeds `count`.
    """
    low = max(0, span[1] - width)
    high = min(span[0], max(0, count - width))
    return rng.randint(low, high)


def _covered(words: Sequence[tuple[int, int]], span: tuple[int, int]) -> tuple[int, int]:
    """The words [first, last + 1) that contain characters of `span`."""
    inside = [n for n, (start, end) in enumerate(words) if start < span[1] and end > span[0]]
    return inside[0], inside[-1] + 1


def _pattern(aliases: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern for any of the aliases in complete words, longer ones first; None without aliases.

    The pattern ignores case, instead of changing the text's, so that offsets are valid in the text.
    """
    names = sorted({" ".join(alias.split()) for alias in aliases} - {""}, key=len, reverse=True)
    if not names:
        return None
    choices = "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in names)
    return re.compile(rf"(?<!\w)(?:{choices})(?!\w)", re.IGNORECASE)


def _is_valid(trivia: Trivia, place: str, ids: set[str], bad_examples: BadExamples) -> bool:
    """Whether a question is valid, which adds its id to `ids`; otherwise rejects it. One without a
    document is counted, and has a score of 0 in evaluation, as by the official script."""
    if trivia.id in ids:
        bad_examples.reject(REPEATED, f"{place} {trivia.id!r}")
    elif not trivia.text.strip():
        bad_examples.reject("empty question", place)
    elif not trivia.golds:
        bad_examples.reject("no answers", place)
    else:
        if not trivia.documents:
            bad_examples.skip("question without a document", place)
        ids.add(trivia.id)
        return True
    return False


def _of_release(node: Node) -> tuple[Trivia, list[Node]]:
    """A question without its documents, and its pages."""
    answer = node.node("Answer", default={})
    names = answer.get("Aliases", list[str], default=[])
    normalised = answer.get("NormalizedAliases", list[str], default=[])
    human = answer.get("HumanAnswers", list[str], default=[])
    trivia = Trivia(
        node.get("QuestionId", str),
        node.get("Question", str),
        _distinct(answer.get("Value", str, default=""), *names, *normalised),
        _distinct(*golds({"NormalizedAliases": normalised, "HumanAnswers": human})),
        node.get("QuestionPartOfVerifiedEval", bool, default=False),
        documents=(),
    )
    return trivia, list(node.nodes("EntityPages", default=[]))


def _documents(
    pages: list[Node], evidence: "_Evidence", bad_examples: BadExamples
) -> Iterator[Document]:
    for page in pages:
        name = bad_examples.parse(page.get, "Filename", str, default="")
        if name is None:
            continue
        if not name:
            bad_examples.skip("page without a file", page.place)
        elif file := evidence.find(name):
            text = bad_examples.parse(lambda file: "\n".join(read_lines(file)), file)
            if text is not None:
                yield Document(name, text)
        else:
            bad_examples.reject(f"no such file in {evidence.folder}", f"{page.place} {name!r}")


def _of_line(node: Node) -> Trivia:
    name = node.get("id", str)
    require(
        "--" not in name, f"{node.place}: id {name!r}: has --, which separates ids of documents"
    )
    aliases = _distinct(*node.get("aliases", list[str]))
    documents = (Document(name, node.get("context", str)),)
    return Trivia(name, node.get("question", str), aliases, aliases, False, documents)


def _of_row(row: Mapping[str, Any]) -> Trivia:
    names, normalised = (
        [alias.decode() for alias in row["answer"][field]]
        for field in ("aliases", "normalized_aliases")
    )
    pages = row["entity_pages"]
    documents = zip(pages["filename"], pages["wiki_context"], strict=True)
    return Trivia(
        row["question_id"].decode(),
        row["question"].decode(),
        _distinct(*names, *normalised),
        _distinct(*normalised),
        False,
        tuple(Document(name.decode(), text.decode()) for name, text in documents),
    )


def _distinct(*names: str) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name.strip())


class _Evidence:
    """The files of a folder by name, ignoring case, in which the release is inconsistent."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._files: dict[str, Path] | None = None

    def find(self, name: str) -> Path | None:
        """The file; None if there is none."""
        if Path(name).name == name and os.path.isfile(self.folder / name):
            return self.folder / name
        if self._files is None:
            self._files = {_plain(path.name): path for path in self.folder.iterdir()}
        return self._files.get(_plain(name))


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


@dataclasses.dataclass(frozen=True)
class Supervised:
    """A split of TriviaQA with distantly supervised spans.

    Training uses windows with an answer. Evaluation uses the beginning of every document, as the
    official scores require; "dev_oracle" uses windows with an answer, and scores only questions
    that have one.

    Attributes:
      source: the `File` or the dataset's split.
      lines: whether the file has JSON lines.
      rule: of the words in which windows are measured.
    """

    source: Source
    lines: bool
    split: Split
    seed: int
    rule: Rule

    @property
    def place(self) -> str:
        return self.source.place

    def identity(self) -> Any:
        documents = {}
        if not (self.lines or isinstance(self.source, Records)):
            documents["documents"] = file_identity(_documents_folder(self.source.place))
        source = self.source.identity()
        return {"triviaqa": source, **documents, "split": self.split, "seed": self.seed}

    def read(self, bad_examples: BadExamples) -> Content:
        golds: Golds = []

        def questions() -> Iterator[Trivia]:  # does not store documents
            for question in self._questions(bad_examples):
                golds.append(_gold(question))
                yield question

        window = {"train": TRAIN_WINDOW, "dev_oracle": DEV_WINDOW}.get(self.split)
        width = window or SUPERVISED_WORDS
        answered = window is not None
        squad = supervise(questions(), width, self.seed, bad_examples, self.rule, answered=answered)
        if self.split == "train":
            return Content(squad)
        if self.split == "dev_oracle":
            windowed = {question.id.partition("--")[0] for question in squad.questions}
            for gold in golds:
                if gold["QuestionId"] not in windowed:
                    bad_examples.skip("question without a window", gold["QuestionId"])
            golds = [gold for gold in golds if gold["QuestionId"] in windowed]
        return Content(squad, golds)

    def _questions(self, bad_examples: BadExamples) -> Iterable[Trivia]:
        source = self.source
        if isinstance(source, Records):
            return read_dataset(source.dataset, source.split, source.key, bad_examples)
        return (read_sample if self.lines else read_release)(source.place, bad_examples)


def _gold(question: Trivia) -> dict[str, Any]:
    return {
        "QuestionId": question.id,
        "Answer": {"NormalizedAliases": list(question.golds)},
        "QuestionPartOfVerifiedEval": question.verified,
    }

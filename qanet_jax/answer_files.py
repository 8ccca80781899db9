"""Files of answers to questions, {id: answer} or rows of `id` and `answer` (`launch.predict`), and
their scores."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from common_jax.bad_examples import BadExamples
from common_jax.data.object_rows import ObjectTable, read_scalar
from common_jax.data.questions import QuestionTable, question_rows
from common_jax.data.tables import named_rows
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.json_files import Node, filled_lines, has_one_value, read_json
from common_jax.text.cleaning import clean
from common_jax.text.squad import is_impossible, is_squad, question_id
from qanet_jax.score import is_adversarial, score_squad

_IDS = ("id", "qid")  # as in tables of questions
_Golds = tuple[str, str, list[str] | None]  # place, id, texts of answers; None if impossible
_NEEDED = "needs one object, {id: answer, ...}, or rows of id and answer"


def score_files(
    predictions: str | Path, data: str | Path, adversarial: bool = False
) -> dict[str, float]:
    """Scores a file of predictions (`read_predictions`) on a file of SQuAD's format, or a table.

    Returns the scores and the numbers of `questions`, of `unanswered` ones, and of `impossible`
    ones if there are any, which are left out. Only the texts of answers are used, as in the
    official scorer.

    Args:
      adversarial: whether `data` has variants of questions; files of adversarial SQuAD always do.

    Raises:
      UserError: if a file cannot be read or is malformed, or no question is answered.
    """
    answers = read_predictions(predictions)
    golds, impossible = _read_golds(data)
    unanswered = sum(key not in answers for key in golds)
    if unanswered == len(golds):
        raise UserError(f"{predictions}: no answer to any question of {data}")
    metrics = score_squad(answers, golds, adversarial or is_adversarial(data))
    counts = {"questions": len(golds), "unanswered": unanswered}
    return metrics | counts | ({"impossible": impossible} if impossible else {})


def _read_golds(path: str | Path) -> tuple[dict[str, list[str]], int]:
    """The texts of the answers by question id, and the number of impossible questions."""
    rows = _squad_golds(path) if is_squad(Path(path)) else _table_golds(Path(path))
    golds = dict[str, list[str]]()
    impossible = 0
    for place, key, texts in rows:
        if texts is None:
            impossible += 1
            continue
        require(key not in golds, f"{place}: repeats the id {key!r}")
        require(bool(texts), f"{place}: no answers to score by")
        golds[key] = texts
    if not golds:
        raise UserError(f"{path}: no question in it")
    return golds, impossible


def _squad_golds(path: str | Path) -> Iterator[_Golds]:
    """The gold answers of a file of SQuAD's format."""
    for number, article in enumerate(read_json(path).nodes("data")):
        for paragraph_number, paragraph in enumerate(article.nodes("paragraphs")):
            for question_number, question in enumerate(paragraph.nodes("qas")):
                if is_impossible(question):
                    yield question.place, "", None
                    continue
                key = question_id(question, f"{number}.{paragraph_number}.{question_number}")
                texts = [answer.get("text", str) for answer in question.nodes("answers")]
                yield question.place, key, texts


def _table_golds(path: Path) -> Iterator[_Golds]:
    """The gold answers of a table, in which a question without one is impossible; one of a
    question's answers at least is in its passage."""
    for row in question_rows([QuestionTable(path)], BadExamples("error", option="")):
        texts = [text for text, _ in row.answers]
        is_found = any(clean(text) and text.strip() in row.context for text in texts)
        none = f"{row.place}: none of the answers is in the context: {str(texts)[:60]}"
        require(is_found or not texts, f"{none}; write several as a JSON list of texts")
        yield row.place, row.id, texts or None


def read_predictions(path: str | Path) -> dict[str, str]:
    """The answers by question id of a file {id: answer}, or of a table in any format.

    Of a table that `launch.predict` wrote, questions that have an error instead of an answer are
    left out, and `predicted_answer` is read where the questions had a column `answer`.

    Raises:
      UserError: if the file cannot be read or is malformed, or an id is missing or repeated.
    """
    if next(filled_lines(path), b"").startswith(b"{") and has_one_value(path):
        node = read_json(path)
        if "answer" not in node.value:  # else the only row
            return _of_object(node)
    return _of_rows(path)


def _of_object(node: Node) -> dict[str, str]:
    """The answers of an object {id: answer}."""
    wrong = next((key for key, text in node.value.items() if type(text) is not str), None)
    if wrong is not None:
        raise UserError(f"{node.place}: the answer of {wrong!r} is not a string")
    return node.value


def _of_rows(path: str | Path) -> dict[str, str]:
    """The answers of a table."""
    # The columns: answers and errors have the names that no column of the questions had.
    rows = [*_rows(Path(path))]
    names = list(dict.fromkeys(name for row in rows for name in row.value))
    answer, error = (_last_named(column, names) for column in ("answer", "error"))
    known = (name for wanted in _IDS for name in names if name.lower() == wanted)
    key_name = next(known, _IDS[0])
    if answer is None and error is None:
        listed = ", ".join(names)[:200] or "no row"
        raise UserError(f"{path}: {_NEEDED}; it has {listed}")

    # The answers, without those of questions that could not be answered.
    answers: dict[str, str] = {}
    for row in rows:
        if row.value.get(error):
            both = f"{row.place}: has both {answer} and {error}; leave out one of these columns"
            require(not row.value.get(answer), both)
            continue
        key = read_scalar(row, (key_name,))
        require(bool(key), f"{row.place}: {key_name}: empty")
        require(key not in answers, f"{row.place}: repeats the id {key!r}")
        answers[key] = row.get(answer or "answer", str)
    return answers


def _rows(path: Path) -> Iterator[Node]:
    """The rows of a table as objects; those of JSON lines in a file of any name."""
    bad_examples = BadExamples("error", option="")
    is_json = next(filled_lines(path), b"").startswith(b"{")
    rows = ObjectTable(path, "jsonl").rows(bad_examples) if is_json else named_rows(path)
    for node in rows:
        require(isinstance(node.value, dict), f"{node.place}: {_NEEDED}")
        yield node


def _last_named(column: str, names: Iterable[str]) -> str | None:
    """The name that `launch.predict` gave a column beside those of the questions; None if there is
    none: it puts "predicted_" in front until no column has the name."""
    candidates = [name for name in names if re.fullmatch(f"(predicted_)*{column}", name)]
    return max(candidates, key=len, default=None)

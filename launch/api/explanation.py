"""Predictors, and explained predictions."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax import deploy
from common_jax.compare import evaluation_class
from common_jax.deploy.answer import Answer
from common_jax.deploy.named import located, short_name
from common_jax.deploy.predictor import Predictor
from common_jax.document import Element, Section
from common_jax.training.config import make_task
from common_jax.training.run_folder import RunFolder
from launch.api.messages import messages
from launch.api.runs import Folder
from launch.pages.html import to_fragment


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A model's answer to an input: in a notebook, with pictures of its attention.

    Attributes:
      input: the line of the input.
      answer: with all its fields.
      text: the answer as text.
      pictures: of its attention; empty if the model has none for it.
    """

    input: str
    answer: Answer = dataclasses.field(repr=False)
    text: str
    pictures: Sequence[Element] = dataclasses.field(repr=False)

    def _repr_html_(self) -> str:
        return to_fragment([Section(self.text, [self.input, *self.pictures])])


def load(model: Folder, **options: Any) -> Predictor:
    """A run or an export as a predictor, whose `predict` yields an object for each line.

    Args:
      model: its folder or name, as of `common_jax.deploy.load`.
      **options: as of `common_jax.deploy.load`, such as `beam_size` of a translator.

    Raises:
      UserError: for a folder that is neither, or an invalid option.
    """
    with messages():
        return deploy.load(os.fspath(model), **options)


def explain(model: Folder, text: str | Mapping[str, Any], **options: Any) -> Explanation:
    """The answer of a run or an export to one input, and pictures of its attention.

    Args:
      model: as of `load`.
      text: a line as `launch.predict` reads it, or an object of the texts:
        {"context": ..., "question": ...}.
      **options: as of `load`.

    Raises:
      UserError: for an input that cannot be used, or an export without attention.
    """
    name = os.fspath(model)
    predictor = load(name, explain=True, **options)
    line = predictor.schema.to_line(text, "input")
    (answer,) = predictor.predict([line], "input")
    evaluation = evaluation_class(type(make_task(RunFolder(located(name)))))
    shown, pictures = evaluation.pictured(answer.line, short_name(name), line)
    return Explanation(line, answer, shown, pictures)

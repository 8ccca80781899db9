"""What the tasks of answers and labels have in common: the loss, and the lines that are read."""

import dataclasses
import json

import flax.linen as nn
import jax
import numpy as np
import pytest
import scipy.special

from attconv_jax.predictor import schema_of
from common_jax.deploy.predictor import Input, Unanswered
from common_jax.deploy.schema import Schema, Text
from common_jax.deploy.service import service_of
from common_jax.errors import UserError
from common_jax.training.mesh import make_mesh
from common_jax.training.state import init_state
from tests.families import tasks


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The task and the initial parameters of a family."""
    found = {}

    def make(family):
        if family not in found:
            task = tasks.TASKS[family](tmp_path_factory.mktemp(family))
            params = init_state(task, make_mesh(task.config.mesh)).params
            found[family] = task, params, service_of(task).predictor(params)
        return found[family]

    return make


@pytest.mark.parametrize("family", ["qanet", "attconv"])
@pytest.mark.parametrize(("rule", "languages"), [("english", ("en",)), ("unicode", ("und",))])
def test_the_language_is_english_if_words_are_cut_as_english(prepared, family, rule, languages):
    task, _, _ = prepared(family)
    words = dataclasses.replace(task.config.words, rule=rule)
    changed = type(task)(dataclasses.replace(task.config, words=words))
    assert service_of(changed).languages == languages


def of_answers(task, params, batch):
    """-log p1[start] - log p2[end] of each row."""
    pointers = jax.device_get(jax.jit(task.logits)(params, batch))
    of = lambda logits, at: scipy.special.log_softmax(logits.astype(np.float64), 1)[range(12), at]
    return -sum(map(of, pointers, (batch["start"], batch["end"])))


def of_labels(task, params, batch):
    predict = jax.jit(lambda params, batch: task.predict_step(params, batch, final=True))
    likely = np.asarray(nn.softmax(predict(params, batch)["logits"]), np.float64)
    return -np.log(likely[range(12), batch["label"]])


@pytest.mark.parametrize(("family", "by_row"), [("qanet", of_answers), ("attconv", of_labels)])
def test_the_loss_is_that_of_logarithms_summed_over_real_rows(prepared, family, by_row):
    task, params, _ = prepared(family)
    batch = task.train_batches().epoch(0)[0]
    expected = by_row(task, params, batch)
    loss = jax.jit(task.loss)
    filler = {"index": np.where(np.arange(12) < 7, batch["index"], -1)}
    empty = {name: np.concatenate([v[:7], np.zeros_like(v[7:])]) for name, v in batch.items()}
    for inputs, rows in ((batch, 12), ({**batch, **filler}, 7), (empty | filler, 7)):
        sums = loss(params, inputs, jax.random.key(0))
        assert float(sums["loss"]) == pytest.approx(expected[:rows].sum(), rel=1e-5)
        assert sums["weight"] == rows


def asked(context="Ada has nine cats.", question="How many?", **fields):
    return json.dumps({"context": context, "question": question, **fields})


GOOD = {"qanet": asked(id=7), "attconv": "a b\tc"}


@pytest.mark.parametrize(
    ("family", "long", "count", "limit"),
    [
        ("qanet", asked(question="why " * 200), 200, "question_length"),
        ("attconv", f"a\t{'a ' * 801}", 801, "max_length"),
    ],
)
def test_lines_are_cleaned_and_those_far_longer_than_in_training_are_named(
    prepared, family, long, count, limit, caplog
):
    task, _, predictor = prepared(family)
    good = GOOD[family]
    first, second, _ = predictor.predict([f"\ufeff{good}", good, long], "here")
    assert first == second
    longest = getattr(task.config.data, limit)
    assert caplog.messages == [f"here:3: {count} tokens, where training has at most {longest}"]


@pytest.mark.parametrize(
    ("family", "line", "reason"),
    [
        *(
            ("attconv", line, "")
            for line in ("one text", "a\tb\tc", "\tb", "a\t ", "", "a\t\u200b")
        ),
        ("qanet", "", "1: not JSON"),
        ("qanet", "[" * 200_000, "not JSON"),
        ("qanet", "[]", "a list"),
        ("qanet", '{"context": "a b", "question": 3}', "question: a whole number"),
        ("qanet", '{"context": "a b"}', "no 'question'"),
        ("qanet", asked(context=""), "context has no word"),
        ("qanet", asked(question="  "), "question has no word"),
        ("qanet", asked(context="\u200b"), "context has no word"),
        ("qanet", r'{"id": "\ud800", "context": "a", "question": "b"}', "id: .*surrogate"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_and_those_before_are_answered(
    prepared, family, line, reason
):
    _, _, predictor = prepared(family)
    answers = predictor.predict([GOOD[family], line], "here")
    first = next(answers)
    assert first.to_dict().get("id") == (7 if family == "qanet" else None)
    with pytest.raises(UserError, match=f"^here:2:.*{reason}"):
        next(answers)
    (result,) = predictor.results([Input("here:2", line)])
    assert isinstance(result, Unanswered) and result.reason.startswith("here:2:")


PAIR = (Text("first", "First"), Text("second", "Second"))
BOTH = {"first": "a\tb\nc", "second": "d"}
AS_TAB, AS_JSON = (Schema("t", PAIR, form) for form in ("tab", "json"))


def test_a_string_is_the_line_and_an_object_becomes_it():
    assert AS_TAB.to_line("a\tb", "here") == "a\tb"
    assert AS_TAB.to_line(BOTH, "here") == "a\vb\nc\td"  # a tab separates texts
    assert AS_TAB.to_line(AS_TAB.to_line(BOTH, "here"), "here") == "a\vb\nc\td"
    assert json.loads(AS_JSON.to_line({**BOTH, "id": 3}, "here")) == {**BOTH, "id": 3}
    assert Schema("t", PAIR[:1]).to_line({"first": "a\r\n\tb"}, "here") == "a\r\n\tb"
    assert AS_JSON.to_texts(AS_JSON.to_line(BOTH, "here")) == (*BOTH.values(),)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *((None, ""), (3, ""), (["a"], ""), ({"first": "a"}, ""), ({**BOTH, "second": 1}, "")),
        ({**BOTH, "id": 3}, "unknown field 'id'.* 'first' and 'second'"),  # only JSON lines have it
    ],
)
def test_another_value_is_refused(value, key):
    with pytest.raises(UserError, match=f"^here.*{key}"):
        AS_TAB.to_line(value, "here")


@pytest.mark.parametrize(
    ("texts", "ranking", "title"),
    [(1, False, "Texts and"), (2, False, "Pairs and"), (2, True, "Answer selection")],
)
def test_the_classifiers_schema_is_of_its_texts(texts, ranking, title):
    schema = schema_of(texts, ranking)
    assert schema.title.startswith(title) and len(schema.texts) == texts
    line = schema.to_line({text.name: "a b" for text in schema.texts}, "example")
    assert schema.to_texts(line) == ("a b",) * texts
    assert all(view.field in schema.output["properties"] for view in schema.views)

"""The classifier's schemas: their examples are valid inputs."""

import pytest

from attconv_jax.predictor_schema import schema_of


@pytest.mark.parametrize(
    ("texts", "ranking", "title"),
    [(1, False, "Reviews"), (2, False, "Sentence pairs"), (2, True, "Answer selection")],
)
def test_examples_are_inputs(texts, ranking, title):
    schema = schema_of(texts, ranking)
    assert schema.title == title and len(schema.texts) == texts and schema.examples
    names = [text.name for text in schema.texts]
    for example in schema.examples:
        line = schema.to_line(dict(zip(names, example, strict=True)), "example")
        assert len(line.split("\t")) == texts and all(line.split("\t"))
    fields = schema.output["properties"]
    assert all(view.field in fields for view in schema.views)

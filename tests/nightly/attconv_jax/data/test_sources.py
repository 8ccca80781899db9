"""Datasets that cannot be built from SQuAD's files, and real data."""

import json

import numpy as np
import pytest

from attconv_jax.config import DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.data.selection import candidates
from attconv_jax.data.squad_anss import build
from attconv_jax.score import score_ranking
from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.text.squad import read_squad
from tests.attconv_jax import anss
from tests.attconv_jax.data.test_sources import read, squad, write
from tests.families.data.corpora import NAMES
from tests.real import needs_real_data, real_data

__all__ = ["squad"]


def test_a_dataset_that_cannot_be_built_is_one_line(squad, tmp_path):
    def fails(*args, **options):
        with pytest.raises(UserError) as error:
            build(*args, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    train, dev = squad / "train.json", squad / "dev.json"
    assert "none.json: no such file" in fails(squad / "none.json", dev, tmp_path)
    assert "holdout_size=48307: too many for" in fails(train, dev, tmp_path)
    content = json.loads(dev.read_text())
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["text"] = "absent"
    broken = write(tmp_path, "broken.json", json.dumps(content))
    message = fails(train, broken, tmp_path, holdout_size=9)
    assert "broken.json: data[0].paragraphs[0].qas[0].answers[0]: answer not in its" in message
    build(train, broken, tmp_path, holdout_size=9, on_bad_example="skip")
    assert "already exists; delete it, or" in fails(train, dev, tmp_path, holdout_size=9)
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file" in fails(train, dev, tmp_path / "file", holdout_size=9)


@needs_real_data
def test_real_counts():
    """The paper has 105,980 pairs; its 10,570 questions are all here."""
    squad = read_squad(real_data("squad/dev-v1.1.json.gz"), BadExamples("error"))
    selected = list(candidates(squad))
    by_question: dict[str, list[bool]] = {}
    for candidate in selected:
        by_question.setdefault(candidate.question.id, []).append(candidate.right)
    assert len(by_question) == 10_570 and all(map(any, by_question.values()))
    assert 50_000 < len(selected) < 56_000
    assert len(set(squad.articles)) == 48


@needs_real_data
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("dev.tsv", [3329, 3235, 3278]),
        ("train_partial.tsv", [8165, 8055, 8255]),
        ("mnli_subset_train.tsv", None),
    ],
)
def test_real_pairs(name, counts):
    examples, bad_examples = read(real_data("snli"), train=name, columns="1,2,3")
    labels = [e.label for e in examples]
    actual = [labels.count(label) for label in NAMES]
    assert sum(actual) == len(labels) and not bad_examples
    assert actual == counts if counts else len(labels) == 20_000


@needs_real_data
def test_word_overlap_on_squad(tmp_path):
    """The paper has 68.87 and 79.59, on a test of twice as many pairs."""
    anss.write(tmp_path)
    files = {split: str(tmp_path / f"{split}.json") for split in ("train", "dev")}
    files["test"] = "dev-v1.1.json"
    folders = {"dir": str(real_data("squad")), "cache_dir": str(tmp_path)}
    data = LabelledData(DataConfig(**anss.FORM, **files, **folders), WordsConfig())
    data.prepare()
    corpus = data.corpus("test")
    _, notes, _ = score_ranking(corpus, np.zeros((len(corpus), 2)))
    assert (notes["examples"], notes["pairs"]) == (10_570, 53_658)
    assert (notes["WordC1"], notes["WordC2"]) == (69.05, 79.5)

"""Stored runs of the three families for comparisons: a baseline, one that is better, and others."""

import json
from types import SimpleNamespace

import numpy as np

from attconv_jax.compare import LabelEvaluation
from common_jax.metrics.classification import count_of
from csan_jax.compare import TranslationEvaluation
from qanet_jax.compare import SpanEvaluation
from tests.families.tasks import stored

RANDOM = np.random.default_rng(3)
WORDS = ["the", "a", "cat", "dog", "sat", "on", "under", "mat", "tree", "and", "then", "rain"]
REFERENCES = [" ".join(RANDOM.choice(WORDS, RANDOM.integers(5, 14))) for _ in range(60)]


def noisy(rate):
    """The references with some of their words changed."""
    swap = lambda word: RANDOM.choice(WORDS) if RANDOM.random() < rate else word
    return [" ".join(map(swap, line.split())) for line in REFERENCES]


SYSTEMS = {"first": noisy(0.3), "better": noisy(0.1), "similar": noisy(0.3)}
NLL = {name: RANDOM.gamma(4, 5, 60) for name in SYSTEMS}
F1 = {
    "first": np.array([0, 0.5, 1, 0.2, 0, 1, 0.4, 0]),
    "better": np.array([1, 1, 1, 0, 0.4, 1, 0.8, 0.5]),
}
EXACT = {name: f1 == 1 for name, f1 in F1.items()}
CHANCE = np.random.default_rng(0)
RIGHT = {"first": CHANCE.random(200) < 0.5, "better": CHANCE.random(200) < 0.7}
LENGTHS = CHANCE.integers(1, 9, 200)


def translations(folder, system, label=None, hypotheses=None, references=REFERENCES, results=True):
    hypotheses = hypotheses or SYSTEMS[system]
    lengths = RANDOM.integers(3, 9, len(references))  # of another vocabulary in each run
    each = {"length": lengths, "nll": NLL[system][: len(lengths)]} if results else {}
    text = "".join(f"{line}\n" for line in hypotheses)
    run = stored(folder / (label or system), "test", {"txt": text}, {}, each, references)
    data = SimpleNamespace(target_language="en")
    run.__dict__["task"] = SimpleNamespace(config=SimpleNamespace(data=data))
    return run


def answers(folder, system, label=None, texts=None, lengths=(30,) * 8, results=True, **notes):
    """`texts` are the answers by the ids of their questions."""
    each = {"length": np.array(lengths), "exact_match": EXACT[system], "f1": F1[system]}
    files = {"json": json.dumps(texts or dict.fromkeys("01234567", "x"))}
    notes = {"golds_sha256": "aa", **notes}
    return stored(folder / (label or system), "dev", files, notes, each if results else {})


def labels(
    folder, system, label=None, right=None, gold="no", lengths=LENGTHS, results=True, **notes
):
    """`right` is whether each example is right; None is RIGHT's."""
    right = RIGHT[system] if right is None else right
    table = "\n".join(["gold\tlabel\tno\tyes", *[f"{gold}\tyes\t0.4\t0.6"] * len(right)]) + "\n"
    notes = {"correct": count_of(float(right.sum())), "examples": len(right), **notes}
    each = {"length": lengths, "right": right} if results else {}
    return stored(folder / (label or system), "test", {"tsv": table}, notes, each)


RUNS = {"csan": translations, "qanet": answers, "attconv": labels}
EVALUATIONS = {
    "csan": lambda run: TranslationEvaluation(run, "test"),
    "qanet": lambda run: SpanEvaluation(run, "dev"),
    "attconv": lambda run: LabelEvaluation(run, "test"),
}


def sections_of(family, runs):
    baseline, *others = map(EVALUATIONS[family], runs)
    return baseline.sections(others)

"""Translations beside each other, against the command `sacrebleu` and by counting n-grams."""

import collections
import json
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from common_jax.metrics import translation
from csan_jax.compare import TranslationComparison

RANDOM = np.random.default_rng(3)
WORDS = ["the", "a", "cat", "dog", "sat", "on", "under", "mat", "tree", "and", "then", "rain"]
REFERENCES = [" ".join(RANDOM.choice(WORDS, RANDOM.integers(5, 14))) for _ in range(60)]


def noisy(rate):
    """The references with some of their words changed."""
    swap = lambda word: RANDOM.choice(WORDS) if RANDOM.random() < rate else word
    return [" ".join(map(swap, line.split())) for line in REFERENCES]


SYSTEMS = {"first": noisy(0.3), "better": noisy(0.1), "alike": noisy(0.3)}


def as_run(label, hypotheses, references=REFERENCES):
    files = {".predictions.txt": hypotheses, ".references": references}
    data = SimpleNamespace(target_language="en")
    return SimpleNamespace(
        label=label,
        file=lambda split, ending: files[ending],
        task=SimpleNamespace(config=SimpleNamespace(data=data)),
    )


RUNS = [as_run(*system) for system in SYSTEMS.items()]


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """What `sacrebleu --paired-bs` prints of the systems (of BLEU: it fails to write chrF)."""
    folder = tmp_path_factory.mktemp("official")
    write = lambda name, lines: (folder / name).write_text("".join(f"{x}\n" for x in lines))
    write("references", REFERENCES)
    for name, lines in SYSTEMS.items():
        write(name, lines)
    command = [sys.executable, "-m", "sacrebleu", "references", "-i", *SYSTEMS, "--paired-bs"]
    done = subprocess.run(
        [*command, "-m", "bleu", "-w", "8", "-f", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_differences_are_those_of_the_official_command(official):
    found, signatures = translation.paired_bootstrap(SYSTEMS, REFERENCES, language="en")
    for row in official:
        one, theirs = found[row["system"].removeprefix("Baseline: ")]["sacrebleu"], row["BLEU"]
        assert one.score == pytest.approx(theirs["score"], abs=1e-6)
        assert (one.low + one.high) / 2 == pytest.approx(theirs["mean"], abs=1e-6)
        assert (one.high - one.low) / 2 == pytest.approx(theirs["ci"], abs=1e-6)
        assert one.p == theirs["p_value"]
    assert [one["sacrebleu"].p is None for one in found.values()] == [True, False, False]
    assert found["better"]["sacrebleu"].p < 0.01 < found["alike"]["sacrebleu"].p
    assert "bs:1000|seed:12345" in signatures["sacrebleu"]


def test_ngrams_are_counted_right():
    hypotheses, found = SYSTEMS["first"], []
    log = 0.0
    shorter = sum(len(line.split()) for line in hypotheses)
    longer = sum(len(line.split()) for line in REFERENCES)
    brevity = min(1.0, math.exp(1 - longer / shorter))
    for n in range(1, 5):
        hits = total = 0
        for ours, theirs in zip(hypotheses, REFERENCES, strict=True):
            grams = [
                collections.Counter(tuple(w[i : i + n]) for i in range(len(w) - n + 1))
                for w in (ours.split(), theirs.split())
            ]
            hits += (grams[0] & grams[1]).total()
            total += grams[0].total()
        log += math.log(hits / total)
        found.append((100 * brevity * math.exp(log / n), 100 * hits / total))
    ours = translation.ngrams(hypotheses, REFERENCES, language="en", most=4)
    assert np.array(ours) == pytest.approx(np.array(found))


def test_the_report_has_gaps_to_the_first_run(official):
    differences, grams = TranslationComparison.compare(RUNS, "test")
    (table,) = differences.parts
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    scores = [row["BLEU"]["score"] for row in official]
    assert rows["better"]["sacrebleu gap"] == f"{scores[1] - scores[0]:+.2f}"
    assert rows["first"]["sacrebleu gap"] is rows["first"]["sacrebleu p"] is None
    by_order, alone, table = grams.parts
    ours, base = (
        translation.ngrams(SYSTEMS[name], REFERENCES, language="en") for name in ("better", "first")
    )
    assert [series.name for series in by_order.series] == ["better", "alike"]
    assert by_order.series[0].y == [a[0] - b[0] for a, b in zip(ours, base, strict=True)]
    assert alone.series[0].y == [a[1] - b[1] for a, b in zip(ours, base, strict=True)]
    assert alone.series[0].x == [*range(1, 9)]
    assert len(table.rows) == 3


def test_a_run_alone_has_intervals_and_ngrams_but_no_gap():
    low, high = TranslationComparison.intervals(RUNS[0], "test")["sacrebleu"]
    bleu = translation.score(SYSTEMS["first"], REFERENCES, language="en").metrics["sacrebleu"]
    assert low < bleu < high
    differences, grams = TranslationComparison.compare(RUNS[:1], "test")
    assert len(differences.parts[0].rows) == len(grams.parts) == 1


def test_runs_on_another_test_are_not_compared():
    other = as_run("other", REFERENCES[:9], REFERENCES[:9])
    differences, grams = TranslationComparison.compare([RUNS[0], other, RUNS[1]], "test")
    table, said = differences.parts
    assert [row[0] for row in table.rows] == ["first", "better"]
    assert said == "Not compared, having other references: other."
    assert [row[0] for row in grams.parts[-1].rows] == ["first", "better"]

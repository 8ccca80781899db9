"""A folder with tiny data, in which the blocks of README and the manual run."""

import csv
import json
import os
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet

from attconv_jax.data import synthetic as labelled_pairs
from attconv_jax.data import synthetic_reviews as reviews
from common_jax.text.squad import write_squad
from csan_jax.data import synthetic as translations
from qanet_jax.data import synthetic as questions
from tests.docs.manual import ROOT
from tests.launch.tiny_runs import EVERY_STEP, TINY

_EVERY_RUN = EVERY_STEP | {"data.cache_dir": "cache", "optimizer.warmup_steps": 2}
_SIZES = {
    "csan": {"model.num_heads": 4, "model.local_layers": 1},
    "qanet": {"data.examples": 40, "data.holdout_size": 12},
    "attconv": {"data.examples": 60, "data.holdout_size": 12},
}


def workplace(folder: Path) -> dict[str, str]:
    """Fills a folder in which the blocks can be run; returns the environment variables.

    `uv run ... python` is replaced by this interpreter, and trained configs are made tiny (`TINY`).
    """
    for name in ("configs", "tables", "docs"):
        (folder / name).symlink_to(ROOT / name)
    _write_data(folder)
    commands = folder / "bin"
    commands.mkdir()
    uv = '#!/bin/sh\nwhile [ "$1" != python ]; do shift; done\nexec "$@"\n'
    overrides = {
        family: [f"--config.{k}={v}" for k, v in (_EVERY_RUN | TINY[family] | own).items()]
        for family, own in _SIZES.items()
    }
    python = f"""#!{sys.executable}
import os, re, sys
words = sys.argv[1:]
for at, word in enumerate(words):
    family = re.match(r"configs/(\\w+)/", word)
    if family and words[at - 1] == "--config" and not {{"--describe", "--dry_run"}} & {{*words}}:
        generated = "quickstart" in word and "--config.data.source=files" not in words
        sampled = generated or family[1] == "attconv" and "rankings.py" not in word
        words[at + 1 : at + 1] = [
            flag for flag in {overrides!r}[family[1]] if sampled or "data.examples" not in flag
        ]
        break
os.execv({sys.executable!r}, [{sys.executable!r}, *words])
"""
    for name, script in (("uv", uv), ("python", python)):
        (commands / name).write_text(script)
        (commands / name).chmod(0o755)
    flags = [f for f in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in f]
    return {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": " ".join(flags),
        "HOME": str(folder),
    }


def _write_data(folder: Path) -> None:
    """Writes the data files that the pages name."""
    data = folder / "my" / "folder"
    data.mkdir(parents=True)
    for split, count in (("train", 300), ("dev", 12), ("test", 12)):
        pairs = list(translations.generate(count, 0, split))
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (data / f"{split}.{language}").write_text(text, "utf-8")
    rows = [f"{english}\t{german}\n" for english, german in translations.generate(300, 0, "train")]
    (data / "pairs.tsv").write_text("".join(rows), "utf-8")
    pairs = [{"en": en, "de": de} for en, de in translations.generate(300, 1, "train")]
    pyarrow.parquet.write_table(pyarrow.table({"translation": pairs}), data / "sentences.parquet")
    names = {"entailment": "yes", "neutral": "no", "contradiction": "no"}
    triples = labelled_pairs.generate(900, 0, "train")
    text = "".join(f"{names[label]}\t{premise}\t{other}\n" for premise, other, label in triples)
    (data / "labelled.tsv").write_text(text)
    for split, count in (("train", 40), ("dev", 6)):
        squad = questions.generate(count, 0, split)
        write_squad(data / f"{split}-v1.1.json", squad)
    _write_tables(data)
    answers = {question.id: question.answers[0].text for question in squad.questions}
    (folder / "answers.json").write_text(json.dumps(answers))
    (folder / "story.txt").write_text(squad.contexts[0])
    passages = questions.generate(40, 0, "train").contexts
    sentences = [f"{one.strip()}." for text in passages for one in text.split(".") if one.strip()]
    lines = [{"sentence": one, "paraphrases": [f"Well , {one}"]} for one in sentences]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "paraphrases.jsonl").write_text(text)


def _write_tables(data: Path) -> None:
    """Writes the files of readers and classifiers as other tools do: JSON lines, CSV."""
    squad = questions.generate(60, 1, "train")
    lines = [
        {
            "id": question.id,
            "context": squad.contexts[question.context],
            "question": question.text,
            "answers": {
                "text": [answer.text for answer in question.answers],
                "answer_start": [answer.start for answer in question.answers],
            },
        }
        for question in squad.questions
    ]
    (data / "questions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with (data / "reviews.csv").open("w", newline="", encoding="utf-8-sig") as file:
        rows = reviews.generate(200, 0, "train")
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["id", "Stars", "Review"])
        writer.writerows([number, stars, text] for number, (text, stars) in enumerate(rows))
    with (data / "ranked.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "label"])
        for question in squad.questions:
            for sentence in squad.contexts[question.context].split(". "):
                right = int(question.answers[0].text in sentence)
                writer.writerow([question.text, sentence, right])

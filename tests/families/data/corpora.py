"""A small corpus of each family in its own files, and how these and others are prepared."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attconv_jax.config
import csan_jax.config
import qanet_jax.config
from attconv_jax.data.dataset import LabelledData
from common_jax.data.prepared import PreparedData
from common_jax.fields import from_mapping
from csan_jax.data.dataset import TranslationData
from qanet_jax.data.dataset import ReadingData
from qanet_jax.models.base import WordsConfig
from tests.common_jax.data.other_tools import copied
from tests.refusals import refusal

_COLOURS = {"red": "rote", "green": "grüne", "blue": "blaue", "black": "schwarze"}
_COLOURS |= {"white": "weiße", "grey": "graue", "brown": "braune", "pink": "rosa"}
_THINGS = {"cat": "Katze", "lamp": "Lampe", "clock": "Uhr", "flower": "Blume"}
_THINGS |= {"bird": "Meise", "door": "Tür", "cup": "Tasse", "shop": "Werkstatt"}
PAIRS = [
    (f"the {colour} {thing} {n}", f"die {farbe} {ding} {n}")
    for n in range(4)
    for colour, farbe in _COLOURS.items()
    for thing, ding in _THINGS.items()
]
SPLITS = {"train": PAIRS[:200], "dev": PAIRS[200:220], "test": PAIRS[220:250]}

FACTS = "Ada was born in Paris in 1901. Her brother, Ben, lived in Rome (Italy) until 1950."
LONG = " ".join(f"Word{n} and number {n}." for n in range(60))
SHORT = "Two words."
QUESTIONS = [  # context, id, question, answers
    (FACTS, "a", "Where was Ada born?", ["Paris", "in Paris"]),
    (FACTS, "b", "When was she born?", ["1901"]),
    (LONG, "c", "Which is the last?", ["Word59"]),
    (LONG, "d", "And the tenth?", ["Word9 and number 9"]),
    (SHORT, "e", "How many words are there?", ["Two", "Two words"]),
]
TITLES = {FACTS: "Ada", LONG: "Numbers", SHORT: "Numbers"}

NAMES = ("entailment", "neutral", "contradiction")
LABELLED = [
    (("-", *NAMES)[n % 4], f"A man {n // 2} — “Zoë” — plays.", f"Somebody, {n}; plays\twell.")
    for n in range(12)
]
FORMS: dict[str, dict[str, str]] = {
    "pairs": {},
    "texts": {"labels": "1,2,3,4,5"},
    "ranking": {"labels": "no,yes", "ignored_labels": ""},
}

TRAINED = WordsConfig(rows=300, char_rows=80, rule="english")
WORDS = attconv_jax.config.WordsConfig(dim=2, rows=90)


def write_pairs(folder: Path, name: str, pairs, languages=("en", "de")) -> None:
    """Parallel files."""
    for side, language in enumerate(languages):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{language}").write_bytes(text.encode())


def write_parallel(folder: Path) -> None:
    for split, pairs in SPLITS.items():
        write_pairs(folder, split, pairs)


def squad(questions=QUESTIONS, impossible=()) -> dict[str, Any]:
    """SQuAD's JSON; questions that are impossible have no answer."""
    articles: dict[str, dict[str, list]] = {}
    for context, name, question, texts in questions:
        answers = [] if name in impossible else texts
        passages = articles.setdefault(TITLES.get(context, "Title"), {})
        passages.setdefault(context, []).append(
            {
                "id": name,
                "question": question,
                "is_impossible": name in impossible,
                "answers": [{"text": t, "answer_start": context.index(t)} for t in answers],
            }
        )
    data = [
        {"title": title, "paragraphs": [{"context": c, "qas": qas} for c, qas in passages.items()]}
        for title, passages in articles.items()
    ]
    return {"version": "v2.0", "data": data}


def write_squad(folder: Path, *names: str, questions=QUESTIONS) -> None:
    for name in names:
        (folder / name).write_text(json.dumps(squad(questions)))


def write_trivia(folder: Path, name: str, questions, texts: Mapping[str, str]) -> Path:
    """A file of TriviaQA's release, and the documents."""
    evidence = folder / "evidence" / "wikipedia"
    for new in (folder / "qa", evidence):
        new.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (evidence / file).write_text(text, "utf-8")
    path = folder / "qa" / f"wikipedia-{name}.json"
    data = {"Data": questions, "Domain": "Wikipedia", "VerifiedEval": False, "Version": 1.0}
    path.write_text(json.dumps(data, indent=4))
    return path


def write_rows(folder: Path, name: str, rows) -> None:
    """A tab-separated table."""
    (folder / name).write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")


def translation_config(folder: Path, **options: Any) -> csan_jax.config.DataConfig:
    fields: dict[str, Any] = dict(
        dir=str(folder), cache_dir=str(folder / "cache"), vocab_size=330, max_length=40
    )
    fields |= dict(source_language="en", target_language="de", batch_tokens=128, max_shapes=2)
    return from_mapping(csan_jax.config.DataConfig, fields | options, "data.")


def reading_config(folder: Path, **options: Any) -> qanet_jax.config.DataConfig:
    fields: dict[str, Any] = dict(
        dir=str(folder), cache_dir=str(folder / "cache"), batch_size=2, max_shapes=2
    )
    fields |= dict(train="train.json", dev="dev.json", word_length=6, window=50, stride=20)
    return qanet_jax.config.DataConfig(**fields | options)


def labelled_config(
    folder: Path, format: str = "pairs", **options: Any
) -> attconv_jax.config.DataConfig:
    fields: dict[str, Any] = dict(
        dir=str(folder), cache_dir=str(folder / "cache"), batch_size=4, format=format
    )
    fields |= dict(train="train.tsv", dev="dev.tsv", test="test.tsv")
    return attconv_jax.config.DataConfig(**fields | FORMS[format] | options)


def translation(folder: Path, prepare: bool = True, **options: Any) -> TranslationData:
    return _made(TranslationData(translation_config(folder, **options)), prepare)


def reading(
    folder: Path, name: str = "", words: Any = TRAINED, prepare: bool = True, **options: Any
) -> ReadingData:
    """With `name`, of which dev is a copy."""
    files = {"train": name, "dev": copied(folder, name)} if name else {}
    data = reading_config(folder, **files | options)
    return _made(ReadingData(qanet_jax.config.Config(words=words, data=data)), prepare)


def labelled(
    folder: Path, name: str = "", words: Any = WORDS, prepare: bool = True, **options: Any
) -> LabelledData:
    """With `name`, of which dev and test are copies."""
    files = {"train": name, **dict.fromkeys(("dev", "test"), copied(folder, name))} if name else {}
    return _made(LabelledData(labelled_config(folder, **files | options), words), prepare)


def _made(data: Any, prepare: bool) -> Any:
    if prepare:
        data.prepare()
        data.report()
    return data


PREPARED: dict[str, Callable[..., Any]] = {
    "csan": translation,
    "qanet": reading,
    "attconv": labelled,
}


def write_own(family: str, folder: Path) -> None:
    """The files that the family's defaults above name."""
    if family == "csan":
        write_parallel(folder)
    elif family == "qanet":
        write_squad(folder, "train.json", "dev.json")
    else:
        rows = [(label, first, second.replace("\t", " ")) for label, first, second in LABELLED]
        for split in ("train", "dev", "test"):
            write_rows(folder, f"{split}.tsv", rows)


def dropped(data: PreparedData, split: str = "train") -> dict[str, int]:
    """The number of examples left out, by reason."""
    return {reason: entry["count"] for reason, entry in data.split_sizes()[split][1].items()}


def fails(family: str, folder: Path, **options: Any) -> str:
    """The line that refuses to prepare, without the folder's name; nothing is left behind."""
    line = refusal(PREPARED[family], folder, **options)
    assert not list((folder / "cache").glob("*.tmp"))
    return line.replace(f"{folder}/", "")


def rows_of(batches, epoch: int = 0) -> list[dict[str, Any]]:
    """The rows of an epoch by example index; each example once, and padding without an index."""
    rows: dict[int, dict[str, Any]] = {}
    for batch in batches.epoch(epoch):
        for row, index in enumerate(batch["index"].tolist()):
            if index < 0:
                continue
            assert index not in rows
            rows[index] = {name: values[row] for name, values in batch.items()}
    return [rows[index] for index in sorted(rows)]

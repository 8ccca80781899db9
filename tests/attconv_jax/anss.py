"""Small files of SQuAD's format for ranking sentences."""

import itertools
from pathlib import Path

from common_jax.text.squad import Answer, Question, Squad, write_squad

FORM = {"format": "ranking", "labels": "no,yes", "ignored_labels": ""}
FILES = {"train": "train.json", "dev": "dev.json", "test": "dev.json"}
PLACES = ("Rome", "Oslo", "Bern", "Lima")


def passage(article: int, number: int) -> tuple[str, dict[str, str]]:
    """A passage of one to four sentences, and questions with their answers."""
    places = PLACES[: 1 + (article + number) % 4]
    names = [f"Person{article}{number}{n}" for n in range(len(places))]
    pairs = list(zip(names, places, strict=True))
    sentences = (f"The train took {name} to {place} by train." for name, place in pairs)
    return " ".join(sentences), {
        f"Where did the train take {name}?": place for name, place in pairs
    }


def squad(articles: range) -> Squad:
    """A file's content, with two passages in each article."""
    contexts, questions, titles = [], [], []
    for article, number in itertools.product(articles, range(2)):
        context, answers = passage(article, number)
        questions += [
            Question(f"{article}-{number}-{place}", text, len(contexts), (answer,))
            for text, place in answers.items()
            for answer in [Answer(place, context.index(place))]
        ]
        contexts.append(context)
        titles.append(f"Article {article}")
    return Squad(contexts, questions, titles)


def write(folder: Path) -> None:
    """Writes train.json, with twelve articles, and dev.json, with three."""
    for name, articles in (("train", range(12)), ("dev", range(20, 23))):
        write_squad(folder / f"{name}.json", squad(articles))

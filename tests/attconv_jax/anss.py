"""Small files of SQuAD's format for ranking sentences."""

import json
from pathlib import Path

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


def squad(articles: range) -> dict:
    """A file's content, with two passages in each article."""
    data = []
    for article in articles:
        paragraphs = []
        for number in range(2):
            context, questions = passage(article, number)
            qas = [
                {
                    "id": f"{article}-{number}-{answer}",
                    "question": question,
                    "answers": [{"text": answer, "answer_start": context.index(answer)}],
                }
                for question, answer in questions.items()
            ]
            paragraphs.append({"context": context, "qas": qas})
        data.append({"title": f"Article {article}", "paragraphs": paragraphs})
    return {"data": data}


def write(folder: Path) -> None:
    """Writes train.json, with twelve articles, and dev.json, with three."""
    for name, articles in (("train", range(12)), ("dev", range(20, 23))):
        (folder / f"{name}.json").write_text(json.dumps(squad(articles)), "utf-8")

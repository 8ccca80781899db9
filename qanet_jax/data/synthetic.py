"""A generated corpus of reading comprehension: short English passages with questions.

For quick runs with meaningful scores. Passages state facts about invented people, villages and
things, in sentences of `synthetic.toml`. The answer is determined by entity and relation: other
sentences state other relations of the entity, and the same relation of other entities. Names,
places and numbers of dev and test never occur in train and must be represented by their characters.
"""

import functools
import itertools
import random
import string
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from common_jax.data.generated import bucket_split, read_data
from common_jax.data.prepared import Split
from common_jax.text.squad import Answer, Question, Squad

MOST_FACTS = 5  # in a passage; the fewest are three


class Relation(NamedTuple):
    """A type of fact about a scene's entities, its keys.

    Attributes:
      value: the kind of the values.
      statements: sentences that each state `value` of `key`.
      ask_value, ask_key: questions whose answer is the value, or the key.
    """

    value: str
    statements: tuple[str, ...]
    ask_value: tuple[str, ...]
    ask_key: tuple[str, ...]


class Scene(NamedTuple):
    """A type of passage, as in `synthetic.toml`; `openings` and `closings` are one a line."""

    key: str
    setting: dict[str, str]
    openings: str
    closings: str
    relations: list[Relation]


def _relation(value: str, sentences: str) -> Relation:
    lines = sentences.splitlines()
    questions = [line for line in lines if line.endswith("?")]
    return Relation(
        value,
        tuple(line for line in lines if line not in questions),
        tuple(line for line in questions if "{key}" in line),
        tuple(line for line in questions if "{value}" in line),
    )


def _scene(relations: list[dict[str, str]], **fields: Any) -> Scene:
    facts = [fact for relation in relations for fact in relation.items()]
    return Scene(**fields, relations=[_relation(*fact) for fact in facts])


_DATA = read_data(__name__)
WORDS = {word_kind: tuple(words.split()) for word_kind, words in _DATA["words"].items()}
SCENES = tuple(_scene(**scene) for scene in _DATA["scenes"].values())


def split_of(word: str) -> Split:
    """The split in which a name or a number occurs."""
    return bucket_split(zlib.crc32(word.encode()))


@functools.cache
def words(kind: str, split: Split) -> tuple[str, ...]:
    """All words of a kind in a split; closed kinds, such as weekdays, do not depend on it."""
    if kind in WORDS:
        return WORDS[kind]
    return tuple(word for word in _open_words(kind) if split_of(word) == split)


def _open_words(kind: str) -> Iterator[str]:
    if kind == "number":
        return map(str, range(11, 1_000))
    if kind == "year":
        return map(str, range(1_400, 2_000))
    if kind == "time":
        return (f"{hour}:{minute:02d}" for hour in range(6, 22) for minute in range(60))
    piece_lists = [pieces.split() for pieces in _DATA["names"][kind].values()]
    return ("".join(pieces) for pieces in itertools.product(*piece_lists) if _sounds(*pieces))


def _sounds(first: str, *rest: str) -> bool:
    """Whether a name is pronounceable; excludes "Woodwood" and "Saltton"."""
    return first.lower() != rest[-1] and first[-1] != rest[-1][0]


def generate(count: int, seed: int, split: Split) -> Squad:
    """Passages of four to seven sentences, with `count` questions, one or two about each.

    Deterministic on all platforms; a smaller `count` gives a prefix.

    Args:
      seed: of the choice of passages; the words of a split are the same for every seed.
    """
    squad = Squad([], [])
    while len(squad.questions) < count:
        number = len(squad.contexts)
        rng = random.Random(f"{seed} {split} {number}")
        text, questions = _passage(_Draw(rng, split))
        squad.contexts.append(text)
        for letter, (question, answer) in zip("ab", questions, strict=False):
            name = f"{split}{number:07d}{letter}"
            squad.questions.append(Question(name, question, number, (answer,)))
    del squad.questions[count:]
    return squad


class _Draw:
    """Samples distinct words for one passage."""

    def __init__(self, rng: random.Random, split: Split):
        self.rng = rng
        self._split = split
        self._taken: set[str] = set()

    def __call__(self, kind: str) -> str:
        """A new word; names also differ in their first two letters."""
        pool = words(kind, self._split)
        while True:
            word = self.rng.choice(pool)
            mark = word[:2] if kind in _DATA["names"] else word
            if mark not in self._taken:
                self._taken.add(mark)
                return word


class _Fact(NamedTuple):
    """A stated fact; `fields` are the values of the fields in its sentences."""

    relation: Relation
    statement: str
    fields: dict[str, str]


def _passage(draw: _Draw) -> tuple[str, list[tuple[str, Answer]]]:
    """A passage, and its questions with their answers."""
    rng = draw.rng
    scene = rng.choice(SCENES)
    setting = {name: draw(word_kind) for name, word_kind in scene.setting.items()}
    facts = _facts(scene, setting, draw)
    first, *distractors = facts  # the distractors have its entity or relation
    chosen = [first, rng.choice(distractors)] if rng.random() < 0.5 else [first]

    # the passage
    rng.shuffle(facts)
    sentences = [(rng.choice(scene.openings.splitlines()), setting)]
    sentences += [(fact.statement, fact.fields) for fact in facts]
    if rng.random() < 0.5:
        sentences.append((rng.choice(scene.closings.splitlines()), setting))
    text, offsets = _write(sentences)

    # a question for each chosen fact
    questions = []
    for fact in chosen:
        at = offsets[1 + facts.index(fact)]
        field = "value" if rng.random() < 0.7 else "key"
        ask = fact.relation.ask_value if field == "value" else fact.relation.ask_key
        answer = Answer(fact.fields[field], at[field])
        questions.append((rng.choice(ask).format_map(fact.fields), answer))
    return text, questions


def _facts(scene: Scene, setting: dict[str, str], draw: _Draw) -> list[_Fact]:
    """Three to five facts; the second has the first's relation, the third its entity."""
    relations = draw.rng.sample(scene.relations, 2)
    unused = {r: draw.rng.sample(r.statements, len(r.statements)) for r in relations}
    keys = [draw(scene.key) for _ in range(3)]
    pairs = [(keys[0], relations[0]), (keys[1], relations[0]), (keys[0], relations[1])]
    rest = [pair for pair in itertools.product(keys, relations) if pair not in pairs]
    pairs += draw.rng.sample(rest, draw.rng.randint(0, MOST_FACTS - len(pairs)))
    facts = []
    for key, relation in pairs:
        fields = {**setting, "key": key, "value": draw(relation.value)}
        facts.append(_Fact(relation, unused[relation].pop(), fields))
    return facts


def _write(sentences: list[tuple[str, dict[str, str]]]) -> tuple[str, list[dict[str, int]]]:
    """The sentences as one text, and the offsets of each one's fields in it."""
    text = ""
    offsets = []
    for template, fields in sentences:
        text += " " if text else ""
        offsets.append(dict[str, int]())
        for literal, field, _, _ in string.Formatter().parse(template):
            text += literal
            if field:
                offsets[-1][field] = len(text)
                text += fields[field]
    return text, offsets

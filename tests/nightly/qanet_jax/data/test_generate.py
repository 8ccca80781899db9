"""The generated passages, parsed by hand-written patterns, independent of the templates."""

import re

import pytest

from common_jax.text.squad import Squad
from qanet_jax.data.synthetic import WORDS, generate

COUNTS = {"train": 3_000, "dev": 800, "test": 800}

# K (a name) or k (another word) is a fact's key, V, v or D (digits) its value.
# Statements come first, then questions.
FACTS = {
    "leaves": (
        r"to K leaves at D|At D the \w+ to K leaves|go to K takes .* at D|leaves for K .* at D",
        r"(?:When|what time) .* to K leave|leave for K|(?:Where|which place) .* leaves at D",
    ),
    "arrives": (
        r"from K arrives at D|At D the \w+ from K arrives|from K arrive with .* at D",
        r"(?:When|what time) .* from K arrive|(?:Where|From which place) .* arrives? at D",
    ),
    "ticket": (
        r"ticket to K (?:costs|is) D pence|pay D pence for a ticket to K",
        r"(?:How many|price) .* ticket to K|ticket (?:cost|for) D pence",
    ),
    "moved": (r"K (?:packed a bag and )?moved to V", r"did K move|K move to|moved to V"),
    "born": (r"K was born in V|in V that K was born", r"was K born|where K was born|was born in V"),
    "married": (r"K married V", r"did K marry|married V"),
    "works": (r"K works as a v", r"does K work|works as a v"),
    "church": (
        r"church of K was built in D|In D the church of K|church that stands in K .* in D",
        r"church (?:of|in) K built|church that was built in D",
    ),
    "fire": (
        r"fire destroyed half of K in D|In D a great fire .* of K|destroyed K broke out in D",
        r"fire destroy K|fire in K|fire (?:destroy )?in D",
    ),
    "people": (
        r"D people live in K|In K there live D|D people who live in K",
        r"How many people (?:live|are there) in K|do D people live",
    ),
    "mayor": (
        r"mayor of K is V|V has been the mayor of K|people of K chose V",
        r"mayor of K|is V the mayor",
    ),
    "shelf": (
        r"There are D k on the long|On the long shelf D k|long shelf holds D k",
        r"How many k (?:are on|does) the long shelf|long shelf hold D",
    ),
    "cellar": (
        r"cellar there are D k|cellar holds D k|In the cellar D k",
        r"How many k (?:are in|does) the cellar|cellar hold D",
    ),
    "delivers": (
        r"V delivers the k|k are delivered by V|is V who delivers the k",
        r"(?:delivers|are) the k|does V deliver",
    ),
    "crowns": (
        r"The k cost D crowns|of the k costs D|of the k buyers pay D",
        r"do the k cost|dozen of the k|costs? D crowns",
    ),
    "doctor": (
        r"K sees the doctor at D|At D the doctor sees K|doctor will see K at D",
        r"(?:does|see) K (?:see|\?)|doctor see K|doctor (?:see )?at D",
    ),
    "taxi": (
        r"picks up K at D|At D a taxi picks up K|picks up K is due at D",
        r"picks? up K|taxi (?:pick up )?at D",
    ),
    "room": (
        r"K waits in room D|In room D there is K|asked K to wait in room D",
        r"does K wait|room of K|in room D",
    ),
    "back": (
        r"K has to come back on V|On V the nurse expects K|asks K to come back on V",
        r"does K (?:have to )?come back|back on V",
    ),
    "finished": (
        r"K finished the race in D|After D minutes K finished|took K D minutes",
        r"did K finish|take K to finish|(?:in|took) D minutes",
    ),
    "number": (
        r"shirt of K was the number D|K wore the number D|number D was worn by K",
        r"did K wear|worn by K|shirt of K|(?:wore|was) the number D",
    ),
    "came": (
        r"K had come from V|[Ff]rom V came K",
        r"did K come|(?:came|come all the way) from V",
    ),
    "trained": (r"K had trained with V", r"did K train|that K trained with|trained with V"),
}
NAME, SMALL, DIGITS = r"[A-Z][a-z]+", r"[a-z]+", r"\d+:\d\d|\d+"
WORD = {"K": ("key", NAME), "k": ("key", SMALL)}
WORD |= {"V": ("value", NAME), "v": ("value", SMALL), "D": ("value", DIGITS)}


def patterns(relation: str, which: int) -> list[re.Pattern]:
    """The alternatives, as separate patterns, since a group's name may occur only once in each."""
    group = lambda letter: r"(?P<{}>{})\b".format(*WORD[letter[0]])
    alternatives = re.split(r"\|(?![^(]*\))", FACTS[relation][which].replace(".*", "[^.?]*"))
    return [re.compile(re.sub(r"\b[kKvVD]\b", group, pattern)) for pattern in alternatives]


STATEMENTS = {relation: patterns(relation, 0) for relation in FACTS}
QUESTIONS = {relation: patterns(relation, 1) for relation in FACTS}


def facts(context: str) -> list[tuple[str, dict[str, str], dict[str, int]]]:
    """Relation, words and their positions for every statement; openings and closings state none."""
    return [
        (relation, match.groupdict(), {field: match.start(field) for field in ("key", "value")})
        for relation, alternatives in STATEMENTS.items()
        for pattern in alternatives
        for match in pattern.finditer(context)
    ]


def parse_question(question: str) -> tuple[str, dict[str, str]]:
    """The relation, and what the question names: a key or a value."""
    (parsed,) = {
        (relation, *match.groupdict().items())
        for relation, alternatives in QUESTIONS.items()
        for pattern in alternatives
        if (match := pattern.search(question))
    }
    return parsed[0], dict(parsed[1:])


@pytest.fixture(scope="module")
def corpora() -> dict[str, Squad]:
    return {split: generate(count, 7, split) for split, count in COUNTS.items()}


@pytest.mark.parametrize("split", COUNTS)
def test_one_sentence_answers_each_question(corpora, split):
    read = [facts(context) for context in corpora[split].contexts]
    for question in corpora[split].questions:
        relation, fields = parse_question(question.text)
        ((field, word),) = fields.items()
        stated = read[question.context]
        (fact,) = [f for f in stated if f[0] == relation and f[1][field] == word]
        other = {"key": "value", "value": "key"}[field]
        (answer,) = question.answers
        assert (answer.text, answer.start) == (fact[1][other], fact[2][other])
        context = corpora[split].contexts[question.context]
        assert context[answer.start :].startswith(answer.text)


def test_names_and_numbers_are_held_out(corpora):
    """By the text only: capitalized words inside sentences, and words with digits."""
    words_by_split = {}
    for split, squad in corpora.items():
        text = " ".join([*squad.contexts, *(q.text for q in squad.questions)])
        names = set(re.findall(r"(?<=[a-z,] )[A-Z][a-z]+|[\d:]*\d", text))
        words_by_split[split] = names, set(re.findall(r"[A-Za-z]+|[\d:]*\d", text))
    months = {"May"}
    for split in COUNTS:
        for other in set(COUNTS) - {split}:
            assert words_by_split[split][0] & words_by_split[other][1] <= set(WORDS["day"]) | months
    assert len(words_by_split["train"][0]) > 3_000

"""The generated corpus: German sentences by hand; splits parsed from the English side only."""

import itertools
import re
import tracemalloc

import pytest

from csan_jax.data import synthetic_phrases as say
from csan_jax.data.synthetic import _template_streams, generate, split_of
from csan_jax.data.synthetic_templates import TEMPLATES, WORDS

COUNTS = {"train": 30_000, "dev": 8_000, "test": 8_000}

# A phrase, located independently of the generator: the longest run of these words.
_PHRASE_WORDS = {
    *re.findall(r"[a-z']+", " ".join(map(say.english_number, range(1_000))) + " thousand o'clock"),
    *re.findall(r"\w+", " ".join(say.english_date(day, 1) for day in range(1, 32))),
    *(month for month, _, _ in say.MONTHS),
    *["past", "to", "half", "quarter", "euro", "euros", "cent", "cents", "and"],
}
_EDGES = {"of", "to", "and", "past"}  # also between a phrase and the rest of the sentence


def _phrase(english: str) -> str:
    words = english.rstrip(".").split(" ")
    inside = [all(part in _PHRASE_WORDS for part in word.split("-")) for word in words]
    runs = [
        [word for _, word in run]
        for is_phrase, run in itertools.groupby(
            zip(inside, words, strict=True), lambda pair: pair[0]
        )
        if is_phrase
    ]
    longest = max(runs, key=lambda run: (len(run), not set(run) <= _EDGES))
    while longest[0] in _EDGES:
        longest = longest[1:]
    while longest[-1] in _EDGES:
        longest = longest[:-1]
    # A day is held out in every year.
    return re.sub(r" nineteen [a-z-]+$", "", " ".join(longest))


@pytest.fixture(scope="module")
def corpora():
    return {split: list(generate(count, 7, split)) for split, count in COUNTS.items()}


def _render(name: str, value: int, *words) -> tuple[str, str]:
    (template,) = [t for t in TEMPLATES if t.name == name]
    chosen = [
        next(w for w in options if w["english"] == word)
        for options, word in zip(template.fillers, words, strict=True)
    ]
    return template.render(value, *chosen)


# by template, value and words
SENTENCES = {
    ("traded", 21_300, "my sister", "sold", "apple", "at the market"): (
        "Yesterday my sister sold twenty-one thousand three hundred apples at the market.",
        "Gestern hat meine Schwester auf dem Markt einundzwanzigtausenddreihundert Äpfel verkauft.",
    ),
    ("traded", 1, "I", "bought", "apple", "in the city"): (
        "Yesterday I bought one apple in the city.",
        "Gestern habe ich in der Stadt einen Apfel gekauft.",
    ),
    ("there_are", 1, "flower", "kitchen"): (
        "There is one flower in the kitchen.",
        "In der Küche gibt es eine Blume.",
    ),
    ("there_are", 17, "glass", "garden"): (
        "There are seventeen glasses in the garden.",
        "Im Garten gibt es siebzehn Gläser.",
    ),
    ("container", 1, "box", "letter", "heavy"): (
        "The box with one letter is very heavy.",
        "Die Kiste mit einem Brief ist sehr schwer.",
    ),
    ("container", 62, "parcel", "book", "full"): (
        "The parcel with sixty-two books is very full.",
        "Das Paket mit zweiundsechzig Büchern ist sehr voll.",
    ),
    ("quantity", 101, "The code for the gate", "was"): (
        "The code for the gate was one hundred and one.",
        "Der Code für das Tor war einhunderteins.",
    ),
    ("page", 30, "the book", "read"): (
        "Please read page thirty of the book.",
        "Bitte lesen Sie Seite dreißig des Buches.",
    ),
    ("event", 32 * 5 + 3, "course", "begins", "Vienna"): (
        "The course in Vienna begins on the third of May.",
        "Der Kurs in Wien beginnt am dritten Mai.",
    ),
    ("weekday", 32 * 5 + 3, "Monday", "next year"): (
        "The third of May is a Monday next year.",
        "Der dritte Mai ist im nächsten Jahr ein Montag.",
    ),
    ("on_the_evening", 32 * 5 + 3, "evening", "they", "danced"): (
        "On the evening of the third of May they danced.",
        "Am Abend des dritten Mai haben sie getanzt.",
    ),
    ("born", 32 * 12 + 31, "the teachers", "nineteen ninety-eight"): (
        "The teachers were born on the thirty-first of December nineteen ninety-eight.",
        "Die Lehrer wurden am einunddreißigsten Dezember neunzehnhundertachtundneunzig geboren.",
    ),
    ("stays", 32 * 3 + 1, "the child", "Munich"): (
        "The child will stay in Munich until the first of March.",
        "Das Kind bleibt bis zum ersten März in München.",
    ),
    ("departure", 60 * 3 + 30, "train", "Cologne", "Friday"): (
        "The train to Cologne leaves at half past three on Friday.",
        "Der Zug nach Köln fährt am Freitag um halb vier ab.",
    ),
    ("meeting", 60 * 7 + 50, "Saturday", "evening", "school"): (
        "We will meet at ten to eight on Saturday evening in front of the school.",
        "Wir treffen uns am Samstagabend um zehn vor acht vor der Schule.",
    ),
    ("time_there", 60 * 1, "almost", "Berlin"): (
        "In Berlin it is almost one o'clock.",
        "In Berlin ist es fast ein Uhr.",
    ),
    ("costs", 350, "table", "in this shop"): (
        "The table costs three euros and fifty cents in this shop.",
        "Der Tisch kostet in diesem Laden drei Euro fünfzig.",
    ),
    ("paid", 110, "he", "chair"): (
        "He paid one euro and ten cents for the chair.",
        "Er hat für den Stuhl einen Euro und zehn Cent bezahlt.",
    ),
}


@pytest.mark.parametrize(("case", "sentences"), SENTENCES.items())
def test_sentences_written_by_hand(case, sentences):
    assert _render(*case) == sentences


def test_every_template_is_written_by_hand_above():
    assert {template for template, *_ in SENTENCES} == {t.name for t in TEMPLATES}


def test_sentences_are_distinct_and_a_function(corpora):
    """The same English sentence has the same translation, in all splits and with any seed."""
    german = dict(itertools.chain(*corpora.values()))
    assert len(german) == sum(COUNTS.values())
    shared = [(en, de) for en, de in generate(COUNTS["train"], 8, "train") if en in german]
    assert len(shared) > 1_000 and all(german[en] == de for en, de in shared)


def test_every_sentence_has_five_words_and_ends(corpora):
    for sentence in itertools.chain.from_iterable(itertools.chain(*corpora.values())):
        assert 5 <= len(sentence.split(" ")) <= 20, sentence
        assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß' -]*\.", sentence), sentence


def test_splits_share_no_phrase(corpora):
    phrases = {split: {_phrase(e) for e, _ in pairs} for split, pairs in corpora.items()}
    assert all(len(values) > 1_000 for values in phrases.values())
    assert not phrases["train"] & phrases["dev"]
    assert not phrases["train"] & phrases["test"]
    assert not phrases["dev"] & phrases["test"]


def test_held_out_phrases_consist_of_words_of_training(corpora):
    words = set(" ".join(e for e, _ in corpora["train"][:20_000]).split(" "))
    for split in ("dev", "test"):
        unseen = {word for e, _ in corpora[split][:5_000] for word in e.split(" ")} - words
        assert {word for word in unseen if "-" not in word} <= set(), split


def test_what_cannot_be_composed_is_always_in_training():
    assert set(split_of("number", [*range(20), *range(20, 100, 10)])) == {"train"}


def test_splits_take_the_shares_they_should():
    split = split_of("number", range(1_000, 200_000))
    assert 0.79 < (split == "train").mean() < 0.81
    assert 0.09 < (split == "dev").mean() < 0.11


def test_memory_does_not_grow_with_the_count():
    list(generate(1, 0, "train"))  # fills the table of phrases
    tracemalloc.start()
    stream = generate(2_000_000, 0, "train")
    for _ in itertools.islice(stream, 8_000):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400_000


def test_other_templates_go_on_where_one_is_exhausted():
    lanes = {lane.template.name: lane.size for lane in _template_streams("dev")}
    count = sum(e.startswith("In ") for e, _ in generate(20_000, 0, "dev"))
    assert count == lanes["time_there"]


def test_words_agree_with_their_tables():
    for noun in (*WORDS["things"], *WORDS["events"]):
        assert noun["german"][0].isupper() and noun["gender"] in "mfn"
    for noun in WORDS["things"]:
        # Dative plurals end in n, except for foreign plurals in s.
        assert noun["dative_plural"].endswith("n") or noun["plural"].endswith("s"), noun
        assert noun["dative_plural"] in (noun["plural"], noun["plural"] + "n")
    assert {who["have"] for who in WORDS["subjects"]} == {"habe", "hat", "haben"}

"""Augmentation: relocation of answers, unchanged sentences, reproducibility by seed, the files."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common_jax.errors import UserError
from common_jax.text.sentence_splitter import split_sentences
from common_jax.text.squad import Answer, Question, Squad
from qanet_jax.augmentation import paraphrases as module
from qanet_jax.augmentation.augment import augment, report, sample_passages
from qanet_jax.augmentation.paraphrases import read_paraphrases, write_paraphrases
from qanet_jax.augmentation.relocation import relocate, similarity

CONTEXT = (
    "Ada was born in Paris.  She lived in Rome until 1950.\n\nBen, her brother, moved to Oslo!"
)
ANSWERS = {"q1": "Paris", "q2": "until 1950", "q3": "Rome", "q4": "Ben, her brother"}
TEXTS = [CONTEXT[slice(*span)] for span in ((0, 22), (24, 53), (55, 88))]


def squad_of(answers=None, context=CONTEXT):
    """A passage with a question for each answer."""
    each = (answers or ANSWERS).items()
    questions = [Question(n, f"{n}?", 0, (Answer(a, context.index(a)),)) for n, a in each]
    return Squad([context], questions, ["title"])


def augmented(paraphrases, squad=None, **changes):
    options = {"count": 1, "threshold": 0.5, "seed": 0, **changes}
    squad = squad or squad_of()
    return augment(squad, [*map(split_sentences, squad.contexts)], paraphrases, **options)


def answer_texts(result):
    """The text at each question's offset."""
    squad = result.squad
    return [
        squad.contexts[q.context][q.answers[0].start :][: len(q.answers[0].text)]
        for q in squad.questions
    ]


@pytest.mark.parametrize("count", [None, 1, 7, 19, 50])
def test_a_sample_of_passages_has_their_questions(count):
    contexts = [f"The number is {n}." for n in range(20)]
    numbers = [n for n in range(20) if n != 5] * 2  # no question about the sixth
    questions = [Question(f"{i}", f"{n}?", n, (Answer(f"{n}", 14),)) for i, n in enumerate(numbers)]
    squad = Squad(contexts, questions, [f"title {n}" for n in range(20)])
    sample = sample_passages(squad, count, seed=3)
    assert sample == sample_passages(squad, count, seed=3)
    assert len(sample.contexts) == min(count or 19, 19)
    assert len(sample.questions) == 2 * len(sample.contexts)
    for question in sample.questions:
        number = question.text[:-1]
        assert sample.contexts[question.context] == f"The number is {number}."
        assert sample.articles[question.context] == f"title {number}"
    others = [sample_passages(squad, count, seed).contexts for seed in range(9)]
    assert (sample.contexts in others) and (count in (None, 19, 50) or others[0] != others[8])


# Table 1 of the paper; similarities by hand
ORIGINAL = "Department of Pre-Professional Studies"
PARAPHRASE = (
    "All departments in the College of Science offer PHD programs with the exception of the "
    "Department of Preparatory Studies."
)


RELOCATED = "Department of Preparatory Studies"


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("Department", "Department", 1),
        ("Department", "departments", 0.947),
        (ORIGINAL, RELOCATED, 0.667),
        (ORIGINAL, f"of the {RELOCATED}", 0.632),
    ],
)
def test_similarities_of_the_papers_example(text, other, expected):
    assert similarity(text, other) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("answer", "sentence", "relocated"),
    [
        (ORIGINAL, PARAPHRASE, Answer(RELOCATED, PARAPHRASE.index(RELOCATED))),
        ("3", "Of 13 there are 3 left", Answer("3", 16)),
        ("3", "there are none", None),
        ("Rome", "", None),
    ],
)
def test_relocated_answers(answer, sentence, relocated):
    result = relocate(answer, sentence)
    assert (result and result[0]) == relocated


def dice(a, b):
    """Dice's coefficient by counting pairs of equal 2-grams, each used once."""
    grams = lambda t: [t.lower()[n : n + 2] for n in range(max(1, len(t) - 1))] if t else []
    first, second, shared = grams(a), grams(b), 0
    total = len(first) + len(second)
    for gram in first:
        if gram in second:
            second.remove(gram)
            shared += 1
    return 2 * shared / total if total else 0.0


words = st.text("abAB", min_size=1, max_size=4)


@settings(max_examples=100)
@given(answer=st.lists(words, min_size=1, max_size=3), sentence=st.lists(words, max_size=7))
def test_relocation_is_the_best_of_all_spans(answer, sentence):
    """Against a search through every span."""
    text, best = " ".join(sentence), None
    for start in range(len(sentence)):
        for end in range(start, len(sentence)):
            ends = (sentence[start], answer[0]), (sentence[end], answer[-1])
            if all(dice(*pair) > 0 for pair in ends):
                score = dice(" ".join(answer), " ".join(sentence[start : end + 1]))
                best = score if best is None else max(best, score)
    result = relocate(" ".join(answer), text)
    assert (result is None) == (best is None)
    if result is not None:
        answer_texts, score = result
        assert score == pytest.approx(best) == dice(" ".join(answer), answer_texts.text)
        assert text[answer_texts.start :].startswith(answer_texts.text)


@pytest.mark.parametrize("context", [CONTEXT, "Ada was  born in Paris. She lived\nin Rome.  Ben!"])
def test_a_translator_that_copies_changes_nothing(context):
    texts = [context[start:end] for start, end in split_sentences(context)]
    copies = {text: [" ".join(text.split()), ""] for text in texts}
    result = augmented(copies, squad_of({"q": "Rome"}, context))
    assert not result.squad.contexts and not result.squad.questions
    events = result.counts.events
    assert events["equal to the sentence, or empty"] == 6 and events["copies without a change"] == 1


CROSSED = {"q": "Paris.  She lived", "r": "Oslo"}
UPPER = {text: [text.upper()] for text in TEXTS}
PREFIXED = {text: [f"It is said: {text}"] for text in TEXTS}


@pytest.mark.parametrize(
    ("answers", "paraphrases", "sentences", "event"),
    [
        (ANSWERS, UPPER, [text.upper() for text in TEXTS], {}),
        (ANSWERS, PREFIXED, [f"It is said: {text}" for text in TEXTS], {}),
        (  # one paraphrase loses one of the sentence's two answers, the other loses both
            ANSWERS,
            {TEXTS[1]: ["She lived in Rome.", "No."], TEXTS[0]: ["Paris saw the birth of Ada."]},
            ["Paris saw the birth of Ada.", *TEXTS[1:]],
            {"without one of the answers": 2},
        ),
        (
            CROSSED,
            {text: [f"Well, {text}"] for text in TEXTS},
            [*TEXTS[:2], f"Well, {TEXTS[2]}"],
            {"sentences that an answer crosses": 2},
        ),
    ],
    ids=["case", "prefix", "lost answers stay", "crossed sentences stay"],
)
def test_answers_stay_findable(answers, paraphrases, sentences, event):
    """The text between sentences is unchanged."""
    result = augmented(paraphrases, squad_of(answers))
    assert result.squad.contexts == ["{}  {}\n\n{}".format(*sentences)]
    assert [x.lower() for x in answer_texts(result)] == [x.lower() for x in answers.values()]
    assert paraphrases is UPPER or answer_texts(result) == [*answers.values()]
    assert [q.id for q in result.squad.questions] == [f"{name}-copy1" for name in answers]
    assert event.items() <= result.counts.events.items()


def test_the_threshold_decides():
    squad = squad_of({"q": ORIGINAL}, f"Except for the {ORIGINAL}.")
    paraphrases = {squad.contexts[0]: [PARAPHRASE]}
    assert answer_texts(augmented(paraphrases, squad, threshold=0.66)) == [RELOCATED]
    assert not augmented(paraphrases, squad, threshold=0.67).squad.contexts


def test_copies_are_drawn_by_seed():
    paraphrases = {text: [f"{n} {text}" for n in range(9)] for text in TEXTS}
    one = augmented(paraphrases, count=4)
    assert augmented(paraphrases, count=4).squad == one.squad
    assert augmented(paraphrases, count=4, seed=1).squad != one.squad
    assert len(set(one.squad.contexts)) == 4 and answer_texts(one) == 4 * [*ANSWERS.values()]
    assert augmented(paraphrases, count=2).squad.contexts == one.squad.contexts[:2]


@settings(max_examples=50)
@given(data=st.data())
def test_every_answer_is_at_its_offset(data):
    """Passages, answers and paraphrases at random."""
    sentence = st.lists(words, min_size=1, max_size=5).map(lambda w: f"A{' '.join(w)} x.")
    context = " ".join(data.draw(st.lists(sentence, min_size=1, max_size=4)))
    answers = {}
    for name in ("q1", "q2", "q3"):
        start = data.draw(st.integers(0, len(context) - 1))
        text = context[start : data.draw(st.integers(start + 1, len(context)))]
        if text.strip():
            answers[name] = Answer(text, start)
    questions = [Question(name, "?", 0, (answer,)) for name, answer in answers.items()]
    texts = [context[start:end] for start, end in split_sentences(context)]
    paraphrases = {text: data.draw(st.lists(sentence, max_size=3)) for text in texts}
    squad = Squad([context], questions, ["t"])
    result = augmented(
        paraphrases, squad, count=2, threshold=0.3, seed=data.draw(st.integers(0, 9))
    )
    assert answer_texts(result) == [q.answers[0].text for q in result.squad.questions]
    for question in result.squad.questions:
        original = answers[question.id.partition("-")[0]].text
        assert similarity(original, question.answers[0].text) >= 0.3


def forward(sentences):
    return [[f"{sentence} {n}" for n in range(3)] for sentence in sentences]


def backward(sentences):
    return [[f"{sentence}{letter}" for letter in "ab"] for sentence in sentences]


def test_an_interrupted_translation_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SENTENCES", 2)
    sentences, calls = [f"s{n}" for n in range(5)], Counter()

    def counted(batch):
        calls.update(batch)
        return forward(batch)

    write_paraphrases(tmp_path / "one", sentences, lambda: (counted, backward))
    assert calls == Counter(sentences)
    complete = (tmp_path / "one").read_bytes()
    for size in range(0, len(complete), 7):
        (tmp_path / "killed").write_bytes(complete[:size])
        write_paraphrases(tmp_path / "killed", sentences, lambda: (forward, backward))
        assert (tmp_path / "killed").read_bytes() == complete
    write_paraphrases(tmp_path / "one", sentences, lambda: pytest.fail("nothing to translate"))
    (texts,) = module.back_translate(["s3"], forward, backward)
    assert texts == ["s3 0a", "s3 0b", "s3 1a", "s3 1b", "s3 2a", "s3 2b"]
    assert read_paraphrases(tmp_path / "one", ["s3"]) == {"s3": texts}


def test_files_of_paraphrases_by_others(tmp_path):
    file = tmp_path / "p.jsonl"
    lines = [{"sentence": "s", "paraphrases": [" a \n b"]}, {"sentence": "t", "paraphrases": []}]
    lines.append({"sentence": "s", "paraphrases": ["c"]})
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert read_paraphrases(file, ["s"]) == {"s": ["a b", "c"]}
    with pytest.raises(UserError, match="has paraphrases of none"):
        read_paraphrases(file, ["u"])
    for broken in ('{"sentence": "s"', '{"sentence": "s"}', '{"sentence": 1, "paraphrases": []}'):
        file.write_text(broken + "\n")
        with pytest.raises(UserError, match=r"p\.jsonl:1") as error:
            read_paraphrases(file, ["s"])
        assert "on_bad_example" not in str(error.value)


def curve_of(page):
    (curve,) = page.sections[1].elements
    return dict(zip(curve.series[0].x, curve.series[0].y, strict=True))


def test_the_page_shows_what_was_relocated():
    page = report(augmented(UPPER), 0.5, "python -m launch.augment")
    titles = ["Counts", "Similarity of relocated answers", "Relocated answers"]
    assert [section.title for section in page.sections] == titles
    (table,) = page.sections[2].elements
    assert table.rows == [(TEXTS[0], TEXTS[0].upper(), "Paris", "PARIS", 1.0)]
    assert [*curve_of(page).values()] == [100.0] * 21


def test_the_curve_counts_answers_that_are_nowhere():
    """By similarity: none, 0.667 (the paper's example), 1."""
    squad = squad_of({"q": ORIGINAL}, f"Except for the {ORIGINAL}.")
    paraphrases = {squad.contexts[0]: ["No.", PARAPHRASE, f"But for the {ORIGINAL}."]}
    shares = curve_of(report(augmented(paraphrases, squad, threshold=0.0), 0.0, ""))
    expected = {0: 200 / 3, 0.65: 200 / 3, 0.7: 100 / 3, 1: 100 / 3}
    assert {x: shares[x] for x in expected} == pytest.approx(expected)

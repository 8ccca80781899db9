"""SQuAD-AnSS: the sentences of passages, and which of them is right."""

from hypothesis import given
from hypothesis import strategies as st

from attconv_jax.data.selection import Candidate, candidates, split_by_punkt
from common_jax.text.squad import Answer, Question, Squad

PASSAGE = 'Ada lived in Rome.  "Was it hot?" She liked it (the sun)! It rained.'
SENTENCES = ["Ada lived in Rome.", '"Was it hot?"', "She liked it (the sun)!", "It rained."]


def candidates_of(*answers, context=PASSAGE):
    """The candidates of one question with answers at these offsets."""
    spans = tuple(Answer(text, start) for text, start in answers)
    return list(candidates(Squad([context], [Question("q", "Who?", 0, spans)], ["a"])))


def test_the_sentence_in_which_an_answer_starts_is_right():
    for number, sentence in enumerate(SENTENCES):
        start = PASSAGE.index(sentence)
        for first in range(start, start + len(sentence)):
            if not PASSAGE[first].isspace():
                selected = candidates_of((PASSAGE[first : first + 40], first))
                assert [c.sentence for c in selected] == SENTENCES
                assert [c.right for c in selected] == [n == number for n in range(4)]


def test_an_answer_that_starts_with_space_is_in_the_sentence_of_its_word():
    start = PASSAGE.index(' "Was')
    assert [c.right for c in candidates_of((' "Was', start))] == [False, True, False, False]
    assert [c.right for c in candidates_of(("  Yes", 0), context="  Yes. It is so.")] == [
        True,
        False,
    ]


def test_each_of_several_answers_makes_its_sentence_right():
    places = [(text, PASSAGE.index(text)) for text in ("Rome", "sun", "it (the")]
    assert [c.right for c in candidates_of(*places)] == [True, False, True, False]


def test_questions_come_one_after_the_other_each_with_its_own_passage():
    contexts = ["One here. Two there.", "Only one."]
    questions = [
        Question(name, name.upper(), context, (Answer(text, contexts[context].index(text)),))
        for name, context, text in [("b", 1, "one"), ("a", 0, "Two"), ("c", 0, "One")]
    ]
    assert list(candidates(Squad(contexts, questions, ["x", "x"]))) == [
        Candidate(questions[0], "Only one.", True),
        Candidate(questions[1], "One here.", False),
        Candidate(questions[1], "Two there.", True),
        Candidate(questions[2], "One here.", True),
        Candidate(questions[2], "Two there.", False),
    ]


TEXTS = st.lists(st.text("aB.?!\"”')( \n1", min_size=1).filter(str.strip), min_size=1, max_size=4)


@given(TEXTS)
def test_each_character_is_in_one_sentence(texts):
    for text, spans in zip(texts, split_by_punkt(texts), strict=True):
        counts = [0] * len(text)
        for start, end in spans:
            assert start < end
            for at in range(start, end):
                counts[at] += 1
        assert all(n == 1 or (n == 0 and c.isspace()) for n, c in zip(counts, text, strict=True))
        assert spans == sorted(spans)


def test_punkt_learns_abbreviations_from_the_passages():
    learnt = [f"The ch. {n} of book {n} is long. It ends." for n in range(60)]
    assert len(split_by_punkt(["The ch. Five is short."])[0]) == 2
    assert len(split_by_punkt([*learnt, "The ch. Five is short."])[-1]) == 1


def test_with_the_rule_for_all_scripts_sentences_end_with_the_marks_of_all_scripts():
    text = "北京很大。「上海更大！」有长城吗？ राम गया। हाँ! هل عاد؟ نعم. Yes."
    question = Question("1", "?", 0, (Answer("长城", text.index("长城")),))
    squad = Squad([text], [question], ["t"])
    found = [(c.sentence, c.right) for c in candidates(squad, "unicode")]
    sentences = [
        "北京很大。",
        "「上海更大！」",
        "有长城吗？",
        "राम गया।",
        "हाँ!",
        "هل عاد؟",
        "نعم.",
        "Yes.",
    ]
    assert [sentence for sentence, _ in found] == sentences
    assert [right for _, right in found] == [s == "有长城吗？" for s in sentences]
    assert len([*candidates(squad)]) < len(sentences)

"""Gold answers in sentences of other languages, from templates: whole words, by either rule."""

import itertools
import json

import jax
import pytest

from common_jax.deploy.service import service_of
from common_jax.text.squad import Answer, Question, Squad, write_squad
from common_jax.text.word_tokenizer import split_words
from qanet_jax.config import Config, DataConfig
from qanet_jax.data.text import TokenizedText, unreachable
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.rnn import RecurrentReader
from qanet_jax.task import SpanExtraction
from tests.common_jax.data.other_tools import copied

# For each language ten answers and five sentences that contain one.
_ANSWERS = {
    "Chinese": "北京 上海博物馆 长城 三峡大坝 中山大学 黄河 颐和园 西安 故宫 广州",
    "Japanese": "東京 京都 富士山 大阪城 奈良公園 北海道 スカイツリー 琵琶湖 横浜 沖縄",
    "Korean": "서울 부산 제주도 경복궁 한라산 인천 대구 광주 남산 설악산",
    "Thai": "กรุงเทพ เชียงใหม่ ภูเก็ต อยุธยา พัทยา วัดพระแก้ว ขอนแก่น หัวหิน สุโขทัย แม่น้ำเจ้าพระยา",
    "Arabic": "القاهرة دمشق بغداد الرباط تونس عمان الخرطوم بيروت مكة صنعاء",
    "Hindi": "दिल्ली मुंबई आगरा जयपुर वाराणसी कोलकाता लखनऊ पटना चेन्नई शिमला",
    "Spanish": "Madrid Sevilla Granada Toledo Bilbao Lima Bogotá Quito Cádiz Málaga",
}
_SENTENCES = {
    "Chinese": (
        "我们昨天参观了{}，那里很热闹。",
        "他第一次去{}是在1998年。",
        "“{}”是这本书的题目。",
        "会议于3月5日在{}举行！",
        "最有名的地方是{}。",
    ),
    "Japanese": (
        "{}は日本でとても有名です。",
        "昨日、友達と{}へ行きました。",
        "彼が一番好きな所は{}だ。",
        "「{}」という本を読んだ。",
        "写真は5月3日に{}で撮られた。",
    ),
    "Korean": (
        "지난달 {}에서 회의가 열렸다.",
        "우리는 어제 {}까지 걸어갔다.",
        "{}의 봄은 아름답다.",
        "‘{}’라는 책을 읽었다.",
        "우리 집은 {} 근처에 있다.",
    ),
    "Thai": (
        "เมื่อวานเราไปเที่ยว{}กับเพื่อน",
        "เขาเกิดที่{}",
        "{}เป็นสถานที่ที่มีชื่อเสียง",
        "การประชุมจัดขึ้นที่{}ในเดือนมีนาคม",
        "หนังสือชื่อ “{}” สนุกมาก",
    ),
    "Arabic": (
        "زرنا {}، ثم عدنا إلى البيت.",
        "هل تعرف {}؟",
        "«{}» اسم الكتاب.",
        "سكن في {}؛ وعمل فيها.",
        "سافر إلى الهند و{} في العام الماضي.",  # a particle that is part of the word
    ),
    "Hindi": (
        "वह पिछले साल {} गया।",
        "उसका जन्मस्थान है {}।",
        "“{}” एक किताब का नाम है।",
        "क्या तुमने देखा है {}॥",
        "राम {}, आगे और दूर गया।",
    ),
    "Spanish": (
        "¿{} es la capital?",
        "¡{} es hermosa!",
        "«{}» es el título del libro.",
        "Ayer viajamos a {}.",
        "Nació en {}, cerca del mar.",
    ),
}
LANGUAGES = tuple(_ANSWERS)


def gold_answers(language: str) -> list[tuple[str, Answer]]:
    """Fifty sentences, each with an answer in it."""
    pairs = itertools.product(_ANSWERS[language].split(), _SENTENCES[language])
    return [(text.format(name), Answer(name, text.index("{"))) for name, text in pairs]


# Of fifty; Arabic's others are behind a particle that is part of the word.
REACHABLE = {
    "Chinese": (10, 50),
    "Japanese": (10, 50),
    "Korean": (20, 50),
    "Thai": (10, 50),
    "Arabic": (10, 40),
    "Hindi": (30, 50),
    "Spanish": (30, 50),
}


def _reachable(language, rule):
    answers = gold_answers(language)
    words = [TokenizedText.of(text, rule) for text, _ in answers]
    return sum(
        not unreachable(text, w, [answer]) for w, (text, answer) in zip(words, answers, strict=True)
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_fifty_gold_answers(language):
    counts = tuple(_reachable(language, rule) for rule in ("english", "unicode"))
    assert counts == REACHABLE[language]
    answers = [(text, a.start, a.start + len(a.text)) for text, a in gold_answers(language)]
    spans = [split_words(text, "unicode") for text, *_ in answers]
    whole = [
        {start, end} <= {edge for span in words for edge in span}
        for words, (_, start, end) in zip(spans, answers, strict=True)
    ]
    assert sum(whole) == counts[1]  # by exact characters


TEXT = "我👩‍👩‍👧住在北京🇨🇳🇨🇳，喝cafe\u0301。हिन्दी में।"


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chinese")
    answers = gold_answers("Chinese")
    questions = [
        Question(str(n), "在哪里？", n, (answer,)) for n, (_, answer) in enumerate(answers)
    ]
    write_squad(folder / "t.json", Squad([text for text, _ in answers], questions))
    config = Config(
        words=WordsConfig(dim=6, rows=90, char_rows=40),
        model=RecurrentReader(char_dim=4, lstm_size=4),
        data=DataConfig(
            dir=str(folder), train="t.json", dev=copied(folder, "t.json"), cache_dir=str(folder)
        ),
    )
    task = SpanExtraction(config)
    task.prepare()
    return task


def test_predicted_spans_are_exact_characters_of_the_rules_words(task, tmp_path):
    assert not task.data.split("train").questions.meta["unreachable"]["count"]
    task.write_vocabulary(tmp_path)
    task.read_vocabulary(tmp_path)  # as a served run
    params = task.init(jax.random.key(0))
    line = json.dumps({"context": TEXT, "question": "在哪里？"})
    answer = next(service_of(task).predictor(params, explain=True).predict([line])).to_dict()
    words = answer["pointers"]["words"]
    assert words == [TEXT[start:end] for start, end in split_words(TEXT, "unicode")]
    assert {"👩‍👩‍👧", "🇨🇳", "cafe\u0301", "北", "हिन्दी"} <= {*words}
    for span in (answer, *answer["next"]):
        assert span["answer"] == TEXT[span["start"] : span["end"]] != ""


def test_characters_without_rows_are_reported(task, tmp_path, caplog):
    with caplog.at_level("WARNING"):
        task.data.builder().build(tmp_path)
    letters = {c for text, _ in gold_answers("Chinese") for c in f"{text}在哪里？"}
    assert "words.char_rows=40: " in caplog.text
    assert f"words.char_rows={len(letters) + 2} would have a row for each" in caplog.text

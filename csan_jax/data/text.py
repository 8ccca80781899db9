"""Changes of a sentence before its subwords, in a corpus and in a prediction."""

import re

# Moses's escapes, as in old corpora.
_CHARACTERS = {
    "&apos;": "'",
    "&quot;": '"',
    "&lt;": "<",
    "&gt;": ">",
    "&#91;": "[",
    "&#93;": "]",
    "&#124;": "|",
    "&amp;": "&",
}
_ESCAPE = re.compile("|".join(_CHARACTERS))


def one_line(text: str) -> str:
    """The text with spaces for line ends, as raw texts are stored one a line."""
    return text.replace("\r\n", " ").replace("\n", " ")


def undo_escapes(text: str) -> str:
    """Replaces `&apos; &quot; &lt; &gt; &#91; &#93; &#124; &amp;` by their characters.

    Other entities (`&eacute;`, `&#39;`) are not Moses's and stay. Replacement is not repeated:
    "&amp;lt;" is the escape of "&lt;".
    """
    return _ESCAPE.sub(lambda match: _CHARACTERS[match[0]], text) if "&" in text else text

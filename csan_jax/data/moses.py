"""Unescapes text from Moses's tokenizer, as in old corpora."""

import re

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


def undo_escapes(text: str) -> str:
    """Replaces `&apos; &quot; &lt; &gt; &#91; &#93; &#124; &amp;` by their characters.

    Other entities (`&eacute;`, `&#39;`) are not Moses's and stay. Replacement is not repeated:
    "&amp;lt;" is the escape of "&lt;".
    """
    return _ESCAPE.sub(lambda match: _CHARACTERS[match[0]], text) if "&" in text else text

"""The escapes of Moses's tokenizer, which old corpora still carry."""

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
    """The text with `&apos; &quot; &lt; &gt; &#91; &#93; &#124; &amp;` as the characters they are.

    Other entities (`&eacute;`, `&#39;`) are not Moses's and stay. What comes out is not looked at
    again: "&amp;lt;" is the escape of "&lt;".
    """
    return _ESCAPE.sub(lambda found: _CHARACTERS[found[0]], text) if "&" in text else text

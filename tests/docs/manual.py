"""Commands and snippets of README and the manual."""

import dataclasses
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# in the order of the navigation: blocks use the runs of earlier pages
_CONFIG = (ROOT / "mkdocs.yml").read_text("utf-8")
NAV = re.findall(r"^ +- [^:\n]+: ([\w/]+\.md)$", _CONFIG, re.MULTILINE)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += [ROOT / "docs" / name for name in [*NAV, "api/index.md"]]
RESULTS = sorted((ROOT / "docs" / "results").rglob("*.md"))

_FENCE = re.compile(
    r"(?:^<!-- needs: (?P<needs>.+?) -->\n\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_OPERATOR = re.compile(r"[|&;<>()]+")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
      needs: requirements beside this project; empty if a test runs the block.
    """

    page: Path
    line: int
    language: str
    text: str
    needs: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page; those of results need the corpora of their runs."""
    text = page.read_text("utf-8")
    listed = []
    for one in _FENCE.finditer(text):
        line = text.count("\n", 0, one.start("text"))
        needs = one["needs"] or ("data" if page in RESULTS else "")
        listed.append(Block(page, line, one["language"], one["text"], needs))
    return listed


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The name and the arguments of each `python -m launch.NAME ...` of a block, and of each
    `conv-attention train ...`."""
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"\n\s+(?=--)", " ", text)  # YAML folds lines
    for one in re.finditer(r"python -m launch\b(?:\.(\w+))?|\bconv-attention (train)\b", text):
        rest = text[one.end() :].partition("\n")[0]
        yield one[1] or one[2] or "", _words(re.sub(r"\$\w+", "1", rest))


def _words(line: str) -> list[str]:
    """The arguments up to the next shell operator."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    try:
        for word in lexer:
            if _OPERATOR.fullmatch(word):
                break
            words.append(word)
    except ValueError:  # the line is inside quotes
        return _words(line.replace("'", "", 1))
    return words

"""The page of all statements of the papers: one line each, the decided ones first."""

import collections
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from common_jax.document import markdown_table
from launch.reproduce.claim_tables import JUDGED, published_text
from launch.reproduce.claims import AWAITS, WORDS, Estimate, published, state_of
from launch.reproduce.table_file import Claim, TableSpec
from launch.trials.status import read_csv

CLAIMS_FILE = "claims.csv"
PAPERS = {"csan": "CSAN", "qanet": "QANet", "attconv": "AttentiveConvNet"}
_NO_PAGE = "open: not run: no page"
_NOT_JUDGED = "not judged"
_HEAD = ("statement", "verdict", "here", "in the paper", "seeds", "page")


class Statement(NamedTuple):
    """A statement of a paper with its verdict at one scale.

    Attributes:
      table: PAPER/NAME.
      source: the paper, and its table or figure.
      scale: at which it is listed; "" if no page has it.
      decision: as of `Judged`.
      here, published, seeds: as texts; "" if unknown.
      others: the scales with two seeds or more whose verdict is another one, and these.
    """

    claim: Claim
    table: str
    source: str
    scale: str
    decision: str
    here: str
    published: str
    seeds: str
    others: Mapping[str, str]

    @property
    def state(self) -> str:
        """The decision without its reason."""
        return state_of(self.decision)

    @property
    def reason(self) -> str:
        """Of an open verdict: the reason without names and numbers, as "not run"."""
        return re.split("[:,]", self.decision.partition(": ")[2])[0]

    @property
    def is_decided(self) -> bool:
        """Whether it holds here or does not, perhaps provisionally."""
        return self.state.startswith(tuple(WORDS.values()))


def statements(specs: Iterable[TableSpec], stored: Path) -> list[Statement]:
    """The claims of all tables, each at the scale that its table's file names, or else at the first
    scale with it that has a page.

    Args:
      stored: the folder of the pages of all tables.
    """
    result = []

    # A claim that stands at several scales is one, with the row of each scale's page.
    for spec in specs:
        pages = {scale: _read(stored / spec.name / scale / CLAIMS_FILE) for scale in spec.scales}
        claims: dict[tuple[str, str, str], dict[str, Claim]] = {}
        for scale in spec.scales.values():
            for claim in scale.claims:
                if not claim.repeats:
                    key = (claim.text, claim.row, claim.than)
                    claims.setdefault(key, {})[scale.name] = claim

        # The scale that the file lists, or the first with a page, or the first.
        for key, by_scale in claims.items():
            rows = {name: pages[name][key] for name in by_scale if key in pages[name]}
            listed = spec.listed if spec.listed in rows else next(iter(rows), "")
            name = listed or next(iter(by_scale))
            paper = published(spec.scales[name], by_scale[name])
            result.append(_statement(spec, by_scale[name], paper, listed, rows))
    return result


def _read(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    """The lines of a page's claims by text and rows; none if there is no page."""
    if not path.exists():
        return {}
    rows = [row for row in read_csv(path) if row["use"] == JUDGED]
    return {(row["claim"], row["row"], row["than"]): row for row in rows}


def _statement(
    spec: TableSpec,
    claim: Claim,
    paper: Estimate | None,
    scale: str,
    rows: Mapping[str, Mapping[str, str]],
) -> Statement:
    """A claim at a scale.

    Args:
      paper: the paper's difference or ratio.
      rows: of claims.csv, by scale.
    """
    # Scales that decide otherwise, or leave it open, stand beside it.
    row = rows.get(scale, {})
    decision = row.get("verdict", _NO_PAGE)
    contrary = {
        name: state_of(fields["verdict"])
        for name, fields in rows.items()
        if fields["low"]
        and not fields["verdict"].startswith(_NOT_JUDGED)
        and _outcome(fields["verdict"]) != _outcome(decision)
    }

    return Statement(
        claim,
        spec.name,
        spec.source,
        scale,
        decision,
        row.get("here", ""),
        published_text(paper, spec.units),
        row.get("seeds", ""),
        contrary,
    )


def _outcome(decision: str) -> str:
    """A decision without its reason, and whether it is provisional."""
    return state_of(decision).partition(",")[0]


def statements_page(specs: Iterable[TableSpec], stored: Path) -> str:
    """A Markdown page with one line for each statement of a paper: the decided ones by paper, the
    open ones by reason, and this suite's own questions.

    Args:
      stored: as for `statements`.
    """
    # The statements of papers, decided, waiting and open; and this suite's questions.
    listed = statements(specs, stored)
    of_papers = [statement for statement in listed if not statement.claim.ours]
    ours = [statement for statement in listed if statement.claim.ours]
    decided = [statement for statement in of_papers if statement.is_decided]
    waiting = [statement for statement in of_papers if statement.state == AWAITS]
    rest = [s for s in of_papers if not s.is_decided and s.state != AWAITS]
    states = collections.Counter(statement.state for statement in of_papers)
    counts = "\n".join(f"- {state}: {number}" for state, number in states.most_common())

    return "\n\n".join(
        [
            "# What the papers state, and what holds here",
            f"The {len(of_papers)} comparable statements of the papers on their results, one "
            "line each, at the scale that the table's file names: in general the largest with the "
            "planned seeds of its rows. Another scale with two seeds or more stands in the line if "
            'its verdict is another. What a verdict means, and what "here" is, each page says; '
            "[Tables](../tables.md) has the rule. Made by `python -m launch.reproduce --list "
            "--keep`.",
            counts,
            "## Decided",
            *_by_paper(decided),
            *(["## Awaiting new seeds", _table(waiting)] if waiting else []),
            "## Open or not judged",
            *_folded(rest),
            "## Questions of this suite",
            "They are no statements of the papers.",
            *_folded(ours),
            "",
        ]
    )


def _by_paper(listed: Sequence[Statement]) -> Iterator[str]:
    """A table for each paper, the statements that hold before the others."""
    papers = dict.fromkeys([*PAPERS, *(s.table.partition("/")[0] for s in listed)])
    for paper in papers:
        chosen = [s for s in listed if s.table.startswith(f"{paper}/")]
        if chosen:
            yield f"### {PAPERS.get(paper, paper)} ({chosen[0].source.partition(',')[0]})"
            yield _table(sorted(chosen, key=lambda s: not s.state.startswith(WORDS["holds"])))


def _folded(listed: Sequence[Statement]) -> Iterator[str]:
    """A folded table for each verdict and reason, the most frequent first."""
    groups: dict[str, list[Statement]] = {}
    for statement in listed:
        name = statement.state if statement.is_decided else f"{statement.state}: {statement.reason}"
        groups.setdefault(name, []).append(statement)
    for name, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        summary = f'<details markdown="1"><summary>{name} ({len(group)})</summary>'
        yield f"{summary}\n\n{_table(group)}\n\n</details>"


def _table(listed: Sequence[Statement]) -> str:
    rows = []
    for statement in listed:
        verdict = statement.state if statement.is_decided else statement.decision
        contrary = [f"at {scale}: {decision}" for scale, decision in statement.others.items()]
        page = f"{statement.table}/{statement.scale}"
        link = f"[{page}]({page}/page.md)" if statement.scale else statement.table
        cells = (statement.here, statement.published, statement.seeds)
        shown = [cell or "-" for cell in cells]
        rows.append((statement.claim.text, "; ".join([verdict, *contrary]), *shown, link))
    return markdown_table(_HEAD, rows)

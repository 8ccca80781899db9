"""The page of watched runs, in parts that a script replaces as they change."""

import html
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from common_jax.compare.labels import shortened
from common_jax.document import Section, shown
from common_jax.training.run_folder import not_finite
from launch.pages.curves import learning_curves, task_title
from launch.pages.html import section_html
from launch.pages.settings import differing_settings
from launch.trials.trials import TRIALS
from launch.watch.run import STATES, WatchedRun, duration
from launch.web import html as frame

MOST_CHOSEN = 7  # runs that are chosen at first: the number of colours
_MOST_POINTS = 600  # of a curve
_LONGEST = 120  # characters of a setting
_HEAD = ("run", "state", "step", "loss", "dev", "best dev", "scores", "steps/s", "time left")


class Labelled(NamedTuple):
    """A run in a chart: `launch.pages.curves.Logged`."""

    label: str
    lines: Sequence[Mapping[str, Any]]


def page(title: str, parts: Mapping[str, str]) -> str:
    """The page, with the HTML of `parts`."""
    sections = "".join(f'<div id="{name}">{part}</div>' for name, part in parts.items())
    body = (
        '<p id="time" role="status"></p><form id="form" method="get">'
        '<input type="hidden" name="run" value="">'  # so that none can be chosen
        f"{sections}</form>"
    )
    return frame.page(title, body, styles=("report.css", "watch.css"), script="watch.js")


def parts(runs: Sequence[WatchedRun], chosen: Sequence[WatchedRun]) -> dict[str, str]:
    """The HTML of each part of the page, by the id of its element."""
    names = (f"chart{number}" for number in itertools.count())
    labels = _labels(chosen)
    curves, settings = _curves(chosen, labels), _settings(chosen, labels)
    return {
        "runs": _tables(runs, {run.name for run in chosen}),
        "curves": "".join(section_html(section, names) for section in curves),
        "settings": section_html(settings, names),
    }


def initially_chosen(runs: Sequence[WatchedRun]) -> list[WatchedRun]:
    """At most `MOST_CHOSEN` runs, in the order of `runs`: preferably those that train, then the
    most recently changed of those that have begun."""
    order = sorted(runs, key=lambda run: (run.status.state == "running", run.changed), reverse=True)
    names = {run.name for run in [run for run in order if run.fields][:MOST_CHOSEN]}
    return [run for run in runs if run.name in names]


def _labels(runs: Sequence[WatchedRun]) -> dict[str, str]:
    """Short names of runs, by their names."""
    last = [run.name.rpartition("/")[2] for run in runs]
    labels = shortened(last) if len({*last}) == len(last) else [run.name for run in runs]
    return {run.name: printable(label) for run, label in zip(runs, labels, strict=True)}


def _curves(runs: Sequence[WatchedRun], labels: Mapping[str, str]) -> list[Section]:
    families: dict[tuple[str, str], list[WatchedRun]] = {}
    for run in runs:
        if run.lines:
            families.setdefault((run.task, run.metric), []).append(run)
    sections = []
    for (task, metric), members in families.items():
        logged = [Labelled(labels[run.name], _thinned(run.lines)) for run in members]
        if charts := learning_curves(logged, metric):
            title = f"{task_title(task)}: learning" if task else "Learning"
            sections.append(Section(title, charts))
    return sections


def _thinned(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Evenly spaced lines, including the last: at most about `_MOST_POINTS` of training, and of
    validations."""
    thinned: list[Mapping[str, Any]] = []
    for validation in (False, True):
        group = [line for line in lines if (line.get("split") == "dev") == validation]
        step = math.ceil(len(group) / _MOST_POINTS) or 1
        thinned += group[::-step][::-1]
    return thinned


def _settings(runs: Sequence[WatchedRun], labels: Mapping[str, str]) -> Section:
    fields = {
        labels[run.name]: {name: str(value)[:_LONGEST] for name, value in run.fields.items()}
        for run in runs
        if run.fields
    }
    table = differing_settings(fields)
    equal = "The chosen runs have the same settings."
    text = equal if len(fields) > 1 else "Choose two runs to see in which settings they differ."
    return Section("Settings that differ", [table or text])


def _tables(runs: Sequence[WatchedRun], chosen: set[str]) -> str:
    groups: dict[str, list[WatchedRun]] = {}
    for run in runs:
        groups.setdefault(run.name.rpartition("/")[0], []).append(run)
    sections = []
    for folder, members in groups.items():
        name = folder.removesuffix(TRIALS).rstrip("/") if folder else ""
        title = f"<h2>{html.escape(printable(name))}</h2>" if name else ""
        rows = "".join(_row(run, run.name in chosen) for run in members)
        head = "".join(f'<th scope="col">{name}</th>' for name in _HEAD)
        sections.append(
            f"<section>{title}<p>{_summary(members)}</p><div class='wide'><table class='runs'>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
        )
    return "".join([*sections, '<p><button type="submit">Show the chosen runs</button></p>'])


def _summary(runs: Sequence[WatchedRun]) -> str:
    """The number of runs in each state, and the time left of all."""
    states = [run.status.state for run in runs]
    counts = [f"{states.count(state)} {state}" for state in STATES if state in states]
    left = seconds_left(runs)
    return ", ".join([*counts, *([f"about {duration(left)} left"] if left else [])])


def seconds_left(runs: Iterable[WatchedRun]) -> float | None:
    """The time until runs that train, and those of a sweep that have not begun, are finished.

    Assumes that the number of concurrent runs stays, and that a run that has not begun takes the
    others' mean time. None if no run trains, or the time is unknown.
    """
    runs = [*runs]
    lefts = [r.status.seconds_left for r in runs if r.status.state == "running"]
    known = [left for left in lefts if left is not None]
    if not known:
        return None
    totals = [run.seconds + (run.status.seconds_left or 0.0) for run in runs
              if run.status.state in ("running", "finished") and run.seconds]  # fmt: skip
    waiting = sum(run.status.state == "not begun" for run in runs)
    work = sum(known) + waiting * (sum(totals) / len(totals) if totals else 0.0)
    return max(*known, work / len(lefts)) if waiting else max(known)


def _row(run: WatchedRun, chosen: bool) -> str:
    name, status = printable(run.name), run.status
    steps, latest, best = run.steps, run.validations[-1:], run.best
    checked = " checked" if chosen else ""
    done = f'<progress max="{steps}" value="{min(run.step, steps)}"></progress>' if steps else ""
    note = f'<span class="note">{html.escape(printable(status.note))}</span>' if status.note else ""
    bad = f'<span class="note">{text}</span>' if (text := not_finite(run.lines)) else ""
    left = "" if status.seconds_left is None else duration(status.seconds_left)
    rate = run.latest("steps_per_second")
    cells = (
        f'<label><input type="checkbox" name="run" value="{html.escape(name)}"{checked}> '
        f"{html.escape(name.rpartition('/')[2])}</label>",
        f'<span class="state {status.state.replace(" ", "-")}">{status.state}</span>{note}',
        f"<span class='step'>{run.step:,}{f' of {steps:,}' if steps else ''}</span>{done}{bad}"
        if run.fields
        else "",
        _number(run.latest("loss")),
        f"{html.escape(run.metric)} {_number(latest[0][run.metric])}" if latest else "",
        f"{_number(best[run.metric])} at step {best['step']:,}" if best else "",
        html.escape(_scores(run)),
        _number(rate),
        f"at most {left}" if left and run.fields.get("train.patience") else left,
    )
    filled = "".join(
        f'<td data-name="{column}">{cell}</td>' if cell else '<td class="empty"></td>'
        for column, cell in zip(_HEAD, cells, strict=True)
    )
    return f"<tr>{filled}</tr>"


def _scores(run: WatchedRun) -> str:
    """The final scores of all splits but dev: "test: sacrebleu 34.20, chrf 60.10"."""
    metrics, texts = run.result.get("metrics"), []
    for split, values in metrics.items() if isinstance(metrics, dict) else ():
        if split != "dev" and isinstance(values, dict):
            numbers = (f"{k} {_number(v)}" for k, v in values.items())
            texts.append(f"{split}: {', '.join(numbers)}")
    return printable("; ".join(texts))


def _number(value: Any) -> str:
    return shown(float(value)) if isinstance(value, int | float) else ""


def printable(text: str) -> str:
    """A text with escapes for surrogates, which UTF-8 lacks and names of files may have."""
    return text.encode(errors="backslashreplace").decode()

"""Listings: of tables, of stored trials, and of a table's trials."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from common_jax.document import markdown_table
from launch.cli import command_line, spelled
from launch.reproduce.archive import path_of
from launch.reproduce.make import TableRequest
from launch.reproduce.table_file import TableSpec
from launch.reproduce.trials import ROW, corpora_of, first_trials, missing_data, trials_of
from launch.trials.local_executor import arguments
from launch.trials.status import find
from launch.trials.train import summary


def listed(spec: TableSpec, stored: Path) -> str:
    """A table in a few lines: scales, systems, data, stored trials, what cannot be made and why.

    Args:
      stored: the folder of the stored trials of all tables.
    """
    lines = [f"{spec.name}: {spec.title} ({spec.source})"]
    for name, scale in spec.scales.items():
        if scale.unavailable:
            lines.append(f"  --scale {name}: cannot be made: {scale.unavailable}")
            continue

        # What a scale trains: rows, trials, systems and data.
        archives = len([*(stored / spec.name / name).glob("*.zip")])
        counts = f"{len(scale.made)} rows, {sum(row.planned for row in scale.made)} trials"
        files = ", ".join(dict.fromkeys(row.file.partition(":")[0] for row in scale.made))
        lines.append(f"  --scale {name}: {counts} of {files}; {archives} stored")
        systems = dict.fromkeys(row.file.partition(":")[2] or "its default" for row in scale.made)
        lines.append(f"    systems {', '.join(systems)}")
        for corpus in corpora_of(spec, scale):
            note = f"; {corpus.note}" if corpus.note else ""
            needed = ", ".join(corpus.files) or "an empty folder"
            lines.append(f"    data {corpus.folder}: {needed} ({corpus.origin}{note})")

        # What it cannot train.
        for reason in dict.fromkeys(row.missing for row in scale.systems if row.missing):
            names = [row.name for row in scale.systems if row.missing == reason]
            lines.append(f"    not run: {', '.join(names)}: {reason}")
    return "\n".join(lines)


def stored_page(specs: Iterable[TableSpec], stored: Path) -> str:
    """A Markdown page with the stored trials of each table, and what is not stored.

    Args:
      stored: as for `listed`.
    """
    rows = []
    for spec in specs:
        for name, scale in spec.scales.items():
            folder = f"{spec.name}/{name}"
            has_page = (stored / folder / "page.md").exists()
            link = f"[{folder}]({folder}/page.md)" if has_page else folder
            if scale.unavailable or spec.kind == "speed":
                absent = scale.unavailable or ("" if has_page else "speeds")
                rows.append((link, spec.title, "", absent))
                continue
            trials = trials_of(spec, scale, Path("data"), Path("out"))
            seeds = Counter(trial.values[ROW] for trial in trials)
            archived = [trial for trial in trials if path_of(trial, stored / folder).exists()]
            archives = Counter(trial.values[ROW] for trial in archived)
            absent = "; ".join(
                f"{row} ({archives[row]} of {number} seeds)" if archives[row] else row
                for row, number in seeds.items()
                if archives[row] < number
            )
            counts = f"{len(archived)} of {len(trials)}"
            rows.append((link, spec.title, counts, absent if archived else "all"))
    head = ("table", "title", "stored trials", "not here")
    return f"""# What is here and what is not

Each table of the papers at each of its scales, with the rows without all their seeds, or the reason
why it cannot be made. Made by `python -m launch.reproduce --list --keep`.

{markdown_table(head, rows)}
"""


def print_trials(request: TableRequest) -> None:
    """Prints the state of each trial, with its command, and the number of trials in each state:
    "finished", "stored", "data missing", "to train", or "to time" for a table of speeds."""
    archived = request.archived() if request.has_trials else {}
    missing = {
        trial.values[ROW]: missing_data(request.spec, request.scale, trial, request.data)
        for trial in first_trials(request.trials)
    }
    counts = Counter[str]()
    for trial in request.trials:
        status = find(trial)
        file, note = archived.get(trial.name, (None, None))
        details = [summary(status) if status.state != "new" else None, note]

        # The state, which names the corpora that the trial's row lacks.
        lacks = missing[trial.values[ROW]]
        state = "to train" if request.has_trials else "to time"
        if file or status.state == "finished":
            state = "stored" if file else "finished"
        elif lacks:
            state = "data missing"
            details += [text.partition(";")[0] for text in lacks]

        # One line, and the command in another.
        counts[state] += 1
        command = spelled(command_line("train", arguments(trial)), uv=True)
        print(f"{trial.name}: {'; '.join(filter(None, [state, *details]))}\n  {command}")
    numbers = ", ".join(f"{number} {state}" for state, number in counts.items())
    print(f"{len(request.trials)} trials: {numbers}")

"""What a table needs beside its trials: speeds of its rows, and answers to its examples."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common_jax.fields import flat, to_mapping
from common_jax.io.atomic import write_json, writing
from common_jax.training.identity import result_fields

if TYPE_CHECKING:
    from launch.reproduce.results import TableResults
    from launch.reproduce.table_file import Scale
    from launch.trials.trials import Trial

SPEED = "speed.json"
ANSWERS = "examples.json"
DIGESTS = "digests"  # in both files: of what each of the rows depends on
_MEASURED_WITH = ("mesh.", "model.unroll")  # fields that change a speed and no result


def _once(
    name: str,
    table: str,
    folders: Sequence[Path],
    digests: Mapping[str, Any],
    make: Callable[[], dict[str, Any]],
    fits: Callable[[Mapping[str, Any], Mapping[str, Any]], bool],
) -> dict[str, Any]:
    """The content of the JSON file `name`: from the first folder where its "of" is this table and
    its "rows" fit; else made, and written to the first folder with the machine.

    Args:
      table: the names of the table and the scale.
      digests: of what the rows depend on, now; also those of a stored page's file that has none.
      fits: whether rows with their digests can be used.
    """
    from common_jax.io.json_files import read_json
    from launch.measure.timing import machine

    for number, file in enumerate(folder / name for folder in folders):
        known = read_json(file).value if file.exists() else {}
        rows = known.get("rows", {}) if known.get("of") == table else {}
        if rows and fits(rows, known.get(DIGESTS, digests if number else {})):
            return known
    busy = os.getloadavg()[0]
    rows = make()
    values = {"of": table, **machine(busy), DIGESTS: digests, "rows": rows}
    with writing(folders[0]):
        folders[0].mkdir(parents=True, exist_ok=True)
        write_json(folders[0] / name, values)
    return values


def speeds_of(
    table: str, scale: "Scale", trials: Sequence["Trial"], folders: Sequence[Path], data: Path
) -> dict[str, Any]:
    """The file of the rows' batches a second in each round of timing, measured once (`_once`).

    If some of the rows were timed before, the others have no speed.

    Args:
      table: as for `_once`.
      scale: of the table; inference is timed if its metrics have it.
      data: the folder of the corpora.
    """
    from launch.measure.rows import measure_rounds
    from launch.reproduce.table_file import SPEEDS
    from launch.reproduce.trials import ROW

    configs: dict[str, Any] = {}
    for trial in trials:
        configs.setdefault(trial.values[ROW], trial.config)
    digests = speed_digests(configs, scale.timed_steps, data)
    inference = SPEEDS[1] in (*scale.metrics, *(claim.metric for claim in scale.claims))

    def measure() -> dict[str, Any]:
        return speeds_by_row(measure_rounds(configs, scale.timed_steps, inference))

    def are_known(rows: Mapping[str, Any], made_from: Mapping[str, Any]) -> bool:
        return all(row in configs and made_from.get(row) == digests[row] for row in rows)

    return _once(SPEED, table, folders, digests, measure, are_known) if len(configs) > 1 else {}


def speed_digests(configs: Mapping[str, Any], steps: int, data: Path) -> dict[str, str]:
    """By row, a digest of what its speed depends on: its config and the number of timed steps.

    Args:
      data: the folder of the corpora, which differs between machines.
    """

    def digest(config: Any) -> str:
        fields = flat(to_mapping(config))
        measured_with = {k: v for k, v in fields.items() if k.startswith(_MEASURED_WITH)}
        values = [f"{k}={v}" for k, v in sorted((result_fields(config) | measured_with).items())]
        return _digest([str(steps), *(value.replace(f"={data}", "={data}") for value in values)])

    return {row: digest(config) for row, config in configs.items()}


def _digest(values: Any) -> str:
    """Of values as JSON."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def speeds_by_row(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rates of each row in the rounds of `launch.measure.rows`, by the names of metrics."""
    from launch.measure.rows import INFERENCE, TRAINING
    from launch.reproduce.table_file import SPEEDS

    names = dict(zip(SPEEDS, (TRAINING, INFERENCE), strict=True))
    return {
        row: {
            name: [rates[row][rate] for rates in rounds]
            for name, rate in names.items()
            if rate in first
        }
        for row, first in rounds[0].items()
    }


def answers_of(table: str, results: "TableResults", folders: Sequence[Path]) -> dict[str, Any]:
    """The file of the predictions of each row's first run for each example, made once (`_once`).

    Its "rows" have them by the names of example and row, with attention if the predictor has
    `explain`. For an example with `through`, each row's prediction is the next row's input.
    """
    from common_jax.deploy import load
    from common_jax.deploy.service import service_class
    from common_jax.training.config import task_class

    folders_of = {e.run.label: e.run.workdir for e in results.first_evaluations()}
    runs = {row: folder.path for row, folder in folders_of.items()}
    task_type = task_class(results.trials[0].config.task)
    options = service_class(task_type).predictor_class.options
    explained: dict[str, Any] = {o.name: True for o in options if o.name == "explain"}

    def answer(texts: Sequence[str], names: Sequence[str]) -> str:
        text = "\t".join(texts)
        for name in names:
            options = explained if len(names) == 1 else {}  # the next row reads a plain answer
            (prediction,) = load(runs[name], **options).predict([text])
            text = prediction.line
        return text

    examples = results.scale.examples
    rows_of: dict[str, dict[str, Sequence[str]]] = {}
    for example in examples:
        chains = [example.through] if example.through else [[name] for name in runs]
        present = [names for names in chains if {*names} <= {*runs}]
        rows_of[example.name] = {", ".join(names): names for names in present}

    # What the answers depend on: the texts and the runs' parameters.
    run_results = {row: folder.result() or {} for row, folder in folders_of.items()}
    models = {row: r.get("parameters_sha256", r.get("metrics")) for row, r in run_results.items()}
    digests = {
        example.name: {
            row: _digest([example.texts, *(models[name] for name in names)])
            for row, names in rows_of[example.name].items()
        }
        for example in examples
    }

    def make() -> dict[str, Any]:
        answers = {}
        for example in examples:
            rows = rows_of[example.name]
            answers[example.name] = {row: answer(example.texts, rows[row]) for row in rows}
        return answers

    def has_all(known: Mapping[str, Any], made_from: Mapping[str, Any]) -> bool:
        return known.keys() == rows_of.keys() and all(
            row in known[name] and made_from.get(name, {}).get(row) == digest
            for name, by_row in digests.items()
            for row, digest in by_row.items()
        )

    # Of answers made before, those of the rows and examples that there are now.
    if not examples:
        return {}
    values = _once(ANSWERS, table, folders, digests, make, has_all)
    answers = {
        name: {row: values["rows"][name][row] for row in rows} for name, rows in rows_of.items()
    }
    return {**values, "rows": answers}

"""Archives of finished trials in the repository: one deterministic zip file for each trial.

References and sources that the trials of a folder share are in a file beside the archives,
test.references.xz; in an archive they are empty.
"""

import functools
import io
import json
import lzma
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from common_jax.compare import evaluation_class
from common_jax.config import from_values
from common_jax.errors import PACKAGE, UserError, error_context
from common_jax.fields import to_mapping
from common_jax.io.atomic import replace_bytes, writing
from common_jax.io.json_files import parse_json
from common_jax.renames import current_class
from common_jax.training.config import task_class
from common_jax.training.identity import result_fields
from common_jax.training.run_folder import (
    CONFIG,
    EXAMPLES,
    REFERENCES,
    RESULT,
    SOURCES,
)
from common_jax.training.run_writer import RunWriter
from common_jax.training.scored_run import has_texts
from common_jax.versions import versions
from launch.reproduce.table_file import Scale
from launch.reproduce.trials import ROW
from launch.trials.trials import Trial

_SHARED = (REFERENCES, SOURCES)  # endings
_DAMAGED = (zipfile.BadZipFile, lzma.LZMAError, LookupError, ValueError, EOFError, OSError)
_DATE = (1980, 1, 1, 0, 0, 0)
# in archives, for the folders of the corpora and of the run
_DATA = "{data}"
_RUN = "{run}"


def path_of(trial: Trial, folder: Path) -> Path:
    """The file of a trial in a table's folder of archives."""
    return folder / f"{trial.name}.zip"


def needs_predictions(trial: Trial, scale: Scale) -> bool:
    """Whether a scale's page is made from a trial's predictions, beside the results of examples."""
    joined = [row.ensemble.of for row in scale.systems if row.ensemble]
    evaluation = evaluation_class(task_class(trial.config.task))
    return evaluation.needs_predictions or trial.values[ROW] in joined


def keep(trial: Trial, folder: Path, data: Path, scale: Scale) -> None:
    """Archives a finished trial's config, result, log, scores, and what its scale's page needs.

    An archive with the same settings and results stays as it is, also one of an earlier version.

    Args:
      data: the folder of the corpora, "{data}" in the archive as the run's is "{run}".
    """
    values = to_mapping(trial.config)
    config = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    files = {CONFIG: config.replace(str(data), _DATA)}
    for name, text in trial.workdir.texts(scale.split, needs_predictions(trial, scale)).items():
        files[name] = _rounded(text) if name.endswith(EXAMPLES) else text
    result = files[RESULT].replace(str(data), _DATA).replace(str(trial.workdir.path), _RUN)
    files[RESULT] = re.sub(r"--workdir (?:'[^']*'|\S+)", f"--workdir {_RUN}", result)  # if moved
    path = path_of(trial, folder)
    if path.exists() and _has_results(path, trial, data, files):
        return
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_archive(path, files)


def _has_results(path: Path, trial: Trial, data: Path, files: Mapping[str, str]) -> bool:
    """Whether an archive has a trial's settings and, but for the text of its config, `files`."""
    identity = _identity(path, path.stat().st_mtime_ns, data, trial.config.task)
    if identity is None or identity[0] != result_fields(trial.config):
        return False
    return read_archive(path) | {CONFIG: files[CONFIG]} == files


def write_archive(path: Path, files: Mapping[str, str]) -> None:
    """Writes an archive of texts, and beside it those that the folder's trials share."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            unshared = _unshared(path, name, text)
            archive.writestr(zipfile.ZipInfo(name, _DATE), unshared, zipfile.ZIP_LZMA)
    replace_bytes(path, packed.getvalue())


def stored_as(
    trial: Trial, folder: Path, stored: Iterable[Path], data: Path, scale: Scale
) -> tuple[Path | None, str | None]:
    """The file of an archived trial: its own in `folder`, or else an equal trial's in `stored`.

    Returns: the file, None if there is none, and why its own cannot be used, None if it can or does
      not exist.

    Raises:
      UserError: for a damaged file.
    """
    own = path_of(trial, folder)
    settings = result_fields(trial.config)
    for path in [own] if own.exists() else stored:
        obstacle = _obstacle(trial, settings, path, data, scale)
        if obstacle is None:
            return path, None
        if path == own:
            return None, f"{path.name}: {obstacle}"
    return None, None


def _obstacle(
    trial: Trial, settings: Mapping[str, Any], path: Path, data: Path, scale: Scale
) -> str | None:
    """The reason why an archive is not this trial's, whose settings are given; None if it is."""
    identity = _identity(path, path.stat().st_mtime_ns, data, trial.config.task)
    if identity is None:
        return "has another task"

    # It must have this trial's settings and version.
    values, earlier = identity
    if values != settings:
        keys = values.keys() | settings.keys()
        differing = sorted(key for key in keys if values.get(key) != settings.get(key))
        return f"has another {', '.join(differing[:3])}"
    current = versions().get(PACKAGE)
    if current != earlier:
        return f"is of version {earlier}, not {current}"

    # It must have the scores of this scale's split.
    with zipfile.ZipFile(path) as archive:
        complete = has_texts(archive.namelist(), scale.split, needs_predictions(trial, scale))
    return None if complete else f"lacks results of {scale.split}"


@functools.cache
def _identity(
    path: Path, changed: int, data: Path, task: str
) -> tuple[Mapping[str, Any], str | None] | None:
    """The settings of an archived trial with this machine's folder of corpora, and the version of
    this package; None if it has another task. `changed` is when the file was."""
    files = read_archive(path, CONFIG, RESULT)
    texts = files[CONFIG].replace(_DATA, str(data)), files[RESULT]
    values, result = (parse_json(text, path).value for text in texts)
    if current_class(str(values.get("task"))) != task:
        return None
    with error_context(f"{path}: {CONFIG}"):
        config: Any = from_values(task_class(task).config_class, values)
    return result_fields(config), result["versions"].get(PACKAGE)


def unpack(trial: Trial, path: Path) -> None:
    """Unpacks an archive into a trial's workdir, without comparing configs and versions."""
    RunWriter(trial.workdir.path).restore(trial.config, read_archive(path))


def read_archive(path: Path, *names: str) -> dict[str, str]:
    """Files of an archive by name; all if no name is given.

    Raises:
      UserError: for a damaged file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name).decode() for name in names or archive.namelist()}
        for name, text in files.items():
            if not text and name.endswith(_SHARED):
                files[name] = lzma.decompress(_shared(path, name).read_bytes()).decode()
        return {CONFIG: files.pop(CONFIG), RESULT: files.pop(RESULT), **files}
    except _DAMAGED as error:
        raise UserError(f"{path}: not an archived trial ({error})") from error


def _shared(path: Path, name: str) -> Path:
    """The file of a text that the archive `path` shares with others."""
    return path.with_name(f"{Path(name).name}.xz")


def _unshared(path: Path, name: str, text: str) -> str:
    """A text as it is in the archive `path`: empty if its folder's file has it."""
    if not name.endswith(_SHARED):
        return text
    file = _shared(path, name)
    if not file.exists():
        replace_bytes(file, lzma.compress(text.encode()))
    return "" if lzma.decompress(file.read_bytes()).decode() == text else text


def _rounded(table: str) -> str:
    """A TSV table with numbers of four significant digits."""
    head, *rows = table.splitlines()

    def short(field: str) -> str:
        return f"{float(field):.4g}" if "." in field or "e" in field else field

    return "\n".join([head, *("\t".join(map(short, row.split("\t"))) for row in rows)]) + "\n"

"""Where the numbers of a run go: metrics.jsonl, TensorBoard, and a progress bar."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm


class MetricsLog:
    """metrics.jsonl and its twin for TensorBoard, continued without repetition after a restart.

    Attributes:
      resumed_from: the steps at which the run was taken up again, oldest first.
      wall_seconds: training time of the process before this one.
    """

    def __init__(self, path: Path, start: int):
        from tensorboardX import SummaryWriter  # slow to import

        self.resumed_from: list[int] = []
        self.wall_seconds = 0.0
        kept = _lines_until(path, start)
        for line in kept:
            self.resumed_from += [line["resumed_from"]] if "resumed_from" in line else []
            self.wall_seconds = line.get("wall_seconds", self.wall_seconds)
        path.write_text("".join(json.dumps(line) + "\n" for line in kept))
        self._file = path.open("a", buffering=1)
        self._board = SummaryWriter(str(path.parent / "tensorboard"), purge_step=start + 1)
        if start:
            self.resumed_from.append(start)
            self._file.write(json.dumps({"step": start, "resumed_from": start}) + "\n")

    def write(self, step: int, values: dict[str, Any]) -> None:
        """One line, and its numbers to TensorBoard under their split."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        group = values.get("split", "train")
        for name, value in values.items():
            if isinstance(value, int | float):
                self._board.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        """Flushes both."""
        self._file.close()
        self._board.close()


def _lines_until(path: Path, step: int) -> list[dict[str, Any]]:
    """The lines up to a step; those after it, and one cut short by a kill, will be written anew."""
    lines = []
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except ValueError:
            break
        if line["step"] <= step:
            lines.append(line)
    return lines


class Progress:
    """A bar on a terminal, a line now and then elsewhere, both on standard error."""

    def __init__(self, start: int, total: int):
        self._bar = tqdm(
            initial=start,
            total=total,
            unit="step",
            dynamic_ncols=True,
            disable=None,
            smoothing=0.05,
        )
        self._plain = not sys.stderr.isatty()
        self._total, self._said = total, 0.0

    def advance(self) -> None:
        """One step more."""
        self._bar.update()

    def show(self, step: int, values: dict[str, Any], *, always: bool = False) -> None:
        """The latest numbers; without a terminal at most one line in ten seconds."""
        text = "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in values.items()
        )
        if not self._plain and not always:
            self._bar.set_postfix_str(text)
        elif always or time.monotonic() - self._said > 10:
            self._said = time.monotonic()
            self.say(f"step {step}/{self._total}  {text}")

    def say(self, text: str) -> None:
        """A line above the bar."""
        tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Leaves the bar as it stands."""
        self._bar.close()

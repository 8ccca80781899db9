"""`python -m benchmarks.accelerator`: speeds on a GPU, as many as fit into some minutes."""

import importlib.util
import os
import re
import shlex
import signal
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from benchmarks import qanet_pytorch
from benchmarks.pages import SUITE
from benchmarks.side_by_side import TORCH, Side, environment
from benchmarks.turns import ROOT, Part, measure
from common_jax.config import SourceConfig
from common_jax.errors import Interrupted
from launch.arguments import Parser
from launch.cli import run
from launch.text_table import table

DESCRIPTION = """Times on a GPU, in this order: the tables qanet/table8, qanet/table3, csan/speed, a
Transformer-base and a QANet beside PyTorch, in rounds in which the sides take turns, with the
kernels of one more round. All are compiled together, the first with the highest priority; while one
is timed, the others are stopped. A round is some steps, of the suite within one call.

OUT/PART/measured.json is written after each round. launch.reproduce TABLE --scale h100 --data DIR
--out OUT/TABLE makes the page of a table.

example:
  python -m benchmarks.accelerator --data DATA --out OUT --checkout QANet-PyTorch --plan
  python -m benchmarks.accelerator --data DATA --out OUT --checkout QANet-PyTorch --minutes 9
  python -m benchmarks.accelerator --out OUT --checkout QANet-PyTorch --small"""
SCALE = "h100"
STEPS = 20  # in a round
ROUNDS = 5
ENDING = 10.0  # seconds before the limit, to end all processes
TINY = {  # --small: on generated corpora
    "csan": {
        "data.examples": 2000,
        "model.decoder_layers": 1,
        "model.dim": 16,
        "model.mlp_dim": 32,
        "data.batch_tokens": 256,
        "data.max_shapes": 1,
    },
    "qanet": {
        "data.examples": 200,
        "data.holdout_size": 20,
        "data.batch_size": 4,
        "words.dim": 16,
        "model.char_dim": 8,
    },
}
TINY_SIZES = {"dim": 32, "heads": 2, "char_dim": 8, "word_dim": 16}  # of the QANet in PyTorch
WORDS = 60_000  # its vectors, more than the suite's words


def parts_of(args: Any, python: Path) -> list[Part]:
    """All parts, in order of value.

    Args:
      python: an interpreter that has PyTorch.
    """
    # The tables.
    seconds = {"qanet/table8": (200, 60), "qanet/table3": (220, 90), "csan/speed": (240, 80)}
    parts = [_table(name, seconds[name], args) for name in seconds]

    # Beside PyTorch: rows of these tables, the QANet with the sizes of the peer's.
    transformer = parts[2].rows["Transformer-base"]
    sizes = TINY_SIZES if args.small else qanet_pytorch.SIZES
    file, overrides = parts[1].rows["QANet"]
    changed = {
        "model.final_norm": False,
        "words.dim": sizes["word_dim"],
        "model.char_dim": sizes["char_dim"],
    }
    qanet = (file, [*overrides, *_flags(changed)])
    checkout = {"checkout": str(args.checkout.absolute()), "words": WORDS}
    return [
        *parts,
        _beside("transformer", transformer, python, _transformer(*transformer), args),
        _beside("qanet_pytorch", qanet, python, {**sizes, **checkout}, args),
    ]


def _flags(overrides: dict[str, Any]) -> list[str]:
    return [f"--config.{field}={value}" for field, value in overrides.items()]


def _table(name: str, seconds: tuple[float, float], args: Any) -> Part:
    """The rows of a table, at `SCALE` or tiny."""
    from launch.reproduce.__main__ import TABLES
    from launch.reproduce.measurements import speed_digests
    from launch.reproduce.spec import read_table
    from launch.reproduce.table_file import SPEEDS
    from launch.reproduce.trials import ROW, corpora_of, trials_of

    spec = read_table(TABLES / f"{name}.toml")
    scale = spec.scales[SCALE].only((), 1)
    trials = trials_of(spec, scale, args.data, args.out)
    rows = {trial.values[ROW]: (trial.file, [*trial.overrides]) for trial in trials}
    if args.small:
        paper = name.partition("/")[0]
        file = f"configs/{paper}/quickstart.py"
        rows = {row.name: (f"{file}:{row.system}", _flags(TINY[paper])) for row in scale.made}
    job = {"rows": rows, "steps": args.steps, "inference": SPEEDS[1] in scale.metrics}
    corpora = [f"{c.folder}/{file}" for c in corpora_of(spec, scale) for file in c.files]
    sides = [Side(SUITE, Path(sys.executable), "rows", job)]
    configs = {trial.values[ROW]: trial.config for trial in trials}
    digests = {} if args.small else speed_digests(configs, args.steps, args.data)
    return Part(name, sides, seconds, corpora, digests)


def _beside(
    peer: str, row: tuple[str, list[str]], python: Path, fields: dict[str, Any], args: Any
) -> Part:
    """The suite's row and a worker of PyTorch, which reads the batches that the suite writes."""
    batches = {"batches": str((args.out / peer / "batches.npz").absolute())}
    job = {"rows": {SUITE: row}, "steps": args.steps, "inference": False, **batches}
    beside = {"phase": "train", "compile": not args.small, **fields, **batches}
    sides = [
        Side(SUITE, Path(sys.executable), "rows", job),
        Side("PyTorch", python, peer, beside),
    ]
    return Part(peer, sides, (260, 30))


def _transformer(file: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The fields of PyTorch's job for a config of the suite."""
    from common_jax.deploy.configs import parse

    config = parse(file, overrides)
    model = config.model
    names = ("dim", "mlp_dim", "num_heads", "encoder_layers", "decoder_layers")
    data = config.data
    sizes = {
        **{name: getattr(model, name) for name in names},
        "source_vocab": data.source_vocab_size or data.vocab_size,
        "target_vocab": data.target_vocab_size or data.vocab_size,
        "length": 2 * data.max_length,
    }
    return {"sizes": sizes, "bfloat16": config.train.compute_dtype == "bfloat16"}


def plan(parts: Sequence[Part], args: Any) -> str:
    """When each part is expected to be compiled and timed, and what all of them need."""
    rows = []
    end = 0.0
    for part in parts:
        compiled, timed = part.seconds
        begin = max(end, compiled)
        end = begin + timed
        fits = end <= 60 * args.minutes - ENDING
        rows.append(
            {"part": part.name, "compiled by, s": compiled, "timed from, s": begin, "to, s": end,
             "in time": "yes" if fits else "no"}
        )  # fmt: skip

    needs = [
        {"needs": need, "there": "yes" if there else "no"} for need, there in _needs(parts, args)
    ]
    return f"{table(rows)}\n\n{table(needs)}"


def _needs(parts: Sequence[Part], args: Any) -> Iterator[tuple[str, bool]]:
    """What has to be on the machine, and whether it is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for requirement in (*project["dependencies"], "torch"):
        name = re.split(r"[^\w.-]", requirement)[0]
        try:
            metadata.version(name)
            yield f"package {requirement}", True
        except metadata.PackageNotFoundError:
            yield f"package {requirement}", False
    yield f"checkout {qanet_pytorch.REPOSITORY} at {qanet_pytorch.COMMIT}", args.checkout.is_dir()
    if args.small:
        return
    for name in dict.fromkeys(name for part in parts for name in part.corpora):
        paths = [args.data / f"{name}{ending}" for ending in ("", ".gz")]
        yield f"data {paths[0]}", any(path.exists() for path in paths)
    cache = Path(SourceConfig.cache_dir).expanduser()
    yield f"prepared corpora in {cache}, else some minutes", cache.is_dir()


def main(argv: list[str]) -> None:
    start = time.monotonic()
    parser = Parser(description=DESCRIPTION)
    add = parser.add_argument
    add("--data", type=Path, default=Path("data"), help="folder with a folder for each corpus")
    add("--out", type=Path, required=True, help="folder of the results")
    text = f"folder with the program of {qanet_pytorch.REPOSITORY}"
    add("--checkout", type=Path, required=True, help=text)
    add("--minutes", type=float, default=9.0, help="when all ends (9)")
    text = "tiny models on generated corpora, to try it on two CPU cores"
    add("--small", action="store_true", help=text)
    add("--plan", action="store_true", help="print when what would be timed, and what it needs")
    text = "folder of PyTorch's environment, unless this one has it (.benchmarks)"
    add("--environments", type=Path, default=Path(".benchmarks"), help=text)
    args = parser.parse_args(argv)
    args.steps = 2 if args.small else STEPS

    # Where PyTorch is, and what is timed.
    python = Path(sys.executable)
    if not args.plan and importlib.util.find_spec("torch") is None:
        python = environment(args.environments / "qanet_pytorch", TORCH)
    parts = parts_of(args, python)
    if args.plan:
        print(plan(parts, args))
        return

    # The measurements, which SIGTERM ends like the time.
    signal.signal(signal.SIGTERM, _interrupt)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str((args.out / "compiled").absolute())
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if args.small:  # compiled in a sixth of the time
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    command = shlex.join(["python", "-m", "benchmarks.accelerator", *argv])
    scale = "tiny" if args.small else SCALE
    about = {"command": command, "scale": scale, "seed": 0, "steps": args.steps}
    limit = start + 60 * args.minutes - ENDING
    rounds = 2 if args.small else ROUNDS
    measure(parts, args.out, rounds, about, limit)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise Interrupted(number)


if __name__ == "__main__":
    run(main)

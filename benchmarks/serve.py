"""Measures the server under load, with and without batches, and the predictor without a server.

  python -m benchmarks.serve --workdir runs/csan/quickstart --input sentences.txt --out results

1, 8 and 64 clients in another process send requests in turn to two servers, one of them with
--max_batch 1; each client sends one request at a time. In the same rounds the predictor answers the
same lines in a loop in this process, one line and 64 lines at a time, which bounds what batches can
bring. Last, a third server shows the growth of memory.
"""

import argparse
import contextlib
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import served, server
from common_jax.errors import UserError
from common_jax.io.atomic import write_json
from common_jax.io.files import read_lines
from launch.arguments import Parser, positive
from launch.cli import run
from launch.compiled import keep_compiled
from launch.measure.timing import machine
from launch.pages import markdown
from launch.text_table import Row, table

CLIENTS = (1, 8, 64)
SIDES = {"batches": (), "--max_batch 1": ("--max_batch", "1")}
LOOPS = {"predictor's loop": 1, "predictor's loop, 64 lines": CLIENTS[-1]}
WORKER = Path(__file__).parent / "workers" / "load.py"
STOP_SECONDS = 20
TITLES = {
    "serve_pairs": "Server of a classifier of pairs",
    "serve_reading": "Server of a reader",
    "serve_translation": "Server of a translator",
}


def main(argv: list[str]) -> None:
    args = _parser().parse_args(argv)
    lines = list(read_lines(args.input))
    if not lines:
        raise UserError(f"{args.input}: has no line")
    about = {"command": f"python -m benchmarks.serve {' '.join(argv)}"}
    about |= machine(os.getloadavg()[0])
    rows = measure(args, lines)
    memory = measure_memory(args, lines) if args.memory else []
    args.out.mkdir(parents=True, exist_ok=True)
    results = {"title": TITLES.get(args.name, args.name), **about, "rows": rows, "memory": memory}
    file = args.out / f"{args.name}.json"
    write_json(file, results)
    markdown.write(file.with_suffix(".md"), server(file.name, results))
    print(table(served(rows)))


def _parser() -> Parser:
    parser = Parser(prog="python -m benchmarks.serve", description=__doc__)
    add = parser.add_argument
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--workdir", metavar="RUN", help="folder of the run")
    where.add_argument("--model", metavar="DIR", help="folder of an export")
    add("--input", type=Path, required=True, help="lines for launch.predict")
    add("--rounds", type=positive, default=3, help="rounds (3)")
    add("--requests", type=positive, default=500, help="requests of a measurement (500)")
    add("--memory", type=int, default=10_000, help="requests after which memory is read (10,000)")
    add("--out", type=Path, required=True, help="folder of the results")
    add("--name", default="serve", help="name of the results' files (serve)")
    return parser


def measure(args: argparse.Namespace, lines: Sequence[str]) -> list[Row]:
    """A row for each round, number of clients and side."""
    from common_jax.deploy import load

    keep_compiled()
    predictor = load(args.workdir or args.model)
    rows = list[Row]()
    with contextlib.ExitStack() as stack:
        ports = {side: stack.enter_context(serving(args, flags)) for side, flags in SIDES.items()}
        for port in ports.values():
            warm_up(port, lines)
        for size in LOOPS.values():
            _loop(predictor, lines, len(lines), size)
        for number in range(args.rounds):
            for clients in CLIENTS:
                for side in random.Random(f"{number} {clients}").sample([*ports], len(ports)):
                    result = load_server(ports[side], _bodies(lines), clients, args.requests)
                    rows.append({"round": number, "clients": clients, "side": side, **result})
            for side, size in LOOPS.items():
                result = figures(*_loop(predictor, lines, args.requests, size))
                rows.append({"round": number, "clients": size, "side": side, **result})
    return rows


def measure_memory(args: argparse.Namespace, lines: Sequence[str]) -> list[Row]:
    """The server's memory after a tenth of `args.memory` requests and after all of them."""
    first = max(1, args.memory // 10)
    rows = list[Row]()
    with serving(args, ()) as port:
        warm_up(port, lines)
        for requests in (first, args.memory - first):
            load_server(port, _bodies(lines), CLIENTS[-1], requests)
            done = first if not rows else args.memory
            rows.append(
                {
                    "requests": done,
                    "resident MiB": _metric(port, "process_resident_memory_bytes") / 2**20,
                }
            )
    return rows


def figures(seconds: Sequence[float], total: float) -> Row:
    """Throughput, and percentiles of the latencies."""
    ordered = sorted(seconds)

    def percentile(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    percentiles = {f"p{n}_ms": percentile(n / 100) for n in (50, 95, 99)}
    return {"requests_per_second": len(seconds) / total, **percentiles}


@contextlib.contextmanager
def serving(args: argparse.Namespace, flags: Sequence[str]) -> Iterator[int]:
    """Runs a server of the model; yields its port.

    Raises:
      UserError: if it does not start.
    """
    # A free port, which the server prints when it is ready.
    flag, path = ("--workdir", args.workdir) if args.workdir else ("--model", args.model)
    command = [sys.executable, "-m", "launch.serve", flag, f"measured={path}", *flags]
    command += ["--port", "0", "--timeout", "300"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    try:
        assert process.stdout is not None
        match = re.search(r":(\d+)/$", process.stdout.readline().strip())
        if match is None:
            raise UserError("launch.serve did not start (see its message above)")
        yield int(match[1])
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        process.kill()
        process.communicate()


def warm_up(port: int, lines: Sequence[str]) -> None:
    """Makes the server compile all shapes, with batches of copies of each line; waits until it is
    idle, as it compiles in the background."""
    for size in (1, 2, 4, 8, 16):
        bodies = _bodies(lines, size)
        load_server(port, bodies, 1, len(bodies))
    used = -math.inf
    while (now := _metric(port, "process_cpu_seconds_total")) > used + 0.1:
        used = now
        time.sleep(1)


def load_server(port: int, bodies: Sequence[str], clients: int, requests: int) -> Row:
    """The figures of a number of requests, sent by a number of clients.

    Raises:
      UserError: if a request was refused.
    """
    job: Row = {"port": port, "path": "/v1/models/measured:predict", "bodies": [*bodies]}
    job |= {"clients": min(clients, requests), "requests": requests}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(job, file)
        file.flush()
        command = [sys.executable, str(WORKER), file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"a request failed: {done.stderr.strip().splitlines()[-1]}")
    result = json.loads(done.stdout)
    return figures(result["seconds"], result["total"])


def _bodies(lines: Sequence[str], count: int = 1) -> list[str]:
    return [json.dumps({"inputs": [line] * count}, ensure_ascii=False) for line in lines]


def _loop(
    predictor: Any, lines: Sequence[str], requests: int, size: int
) -> tuple[list[float], float]:
    """The seconds until each prediction, `size` lines at a time, and their total."""
    seconds = list[float]()
    begun = time.perf_counter()
    for first in range(0, requests, size):
        start = time.perf_counter()
        numbers = range(first, min(first + size, requests))
        list(predictor.predict([lines[number % len(lines)] for number in numbers]))
        seconds += [time.perf_counter() - start] * len(numbers)
    return seconds, time.perf_counter() - begun


def _metric(port: int, name: str) -> float:
    """A number of the server's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        text = response.read().decode()
    match = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(match[1]) if match else float("nan")


if __name__ == "__main__":
    run(main)

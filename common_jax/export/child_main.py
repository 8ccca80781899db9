"""The process of `common_jax.export.child`."""

import json
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import jax
import numpy as np
from safetensors.numpy import load, save

from common_jax.errors import UserError
from common_jax.export.stablehlo import Programs
from common_jax.predictor import Compute, InputTooLargeError


def _serve(connection: Connection, path: Path, seconds: float) -> None:
    """Answers calls until the other side closes, or one has taken `seconds`."""
    digests = json.loads(connection.recv_bytes())
    programs = Programs(path, digests, store=False)  # what they leave on disk is not trusted
    computes: dict[str, Compute] = {}
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            request, arrays = json.loads(connection.recv_bytes()), connection.recv_bytes()
        except EOFError:
            return
        # SIGALRM ends the process, also inside a program, and without the other side
        signal.setitimer(signal.ITIMER_REAL, seconds)
        file = request["program"]
        try:
            if file not in computes:
                computes[file] = programs.compute(file, request["memory"])
            outputs = jax.device_get(computes[file](load(arrays))) if arrays else {}
        except UserError as error:
            name = "too large" if isinstance(error, InputTooLargeError) else "error"
            connection.send_bytes(json.dumps({name: str(error)}).encode())
            continue
        except Exception as error:  # of the compiler or the program
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            connection.send_bytes(json.dumps({"error": f"{path / file}: {reason}"}).encode())
            continue
        leaves, structure = jax.tree.flatten(outputs)
        tree = jax.tree.unflatten(structure, range(len(leaves)))
        connection.send_bytes(json.dumps({"tree": tree}).encode())
        connection.send_bytes(
            save({str(n): np.asarray(leaf, order="C") for n, leaf in enumerate(leaves)})
        )


def _end_with(connection: Connection) -> None:
    """Ends this process, also in a call, when the other side is closed."""
    closed = select.poll()
    closed.register(connection.fileno(), 0)  # reports only that
    closed.poll()
    os._exit(1)


def main() -> None:
    """Serves the connection of the file descriptor argv[1] for the export in the folder argv[2],
    with at most argv[3] seconds for a call."""
    connection = Connection(int(sys.argv[1]))
    threading.Thread(target=_end_with, args=[connection], daemon=True).start()
    _serve(connection, Path(sys.argv[2]), float(sys.argv[3]))

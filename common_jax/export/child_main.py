"""The process of `common_jax.export.child`."""

import json
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import jax
import numpy as np
from safetensors.numpy import load, save

from common_jax.errors import UserError
from common_jax.export.stablehlo import Programs
from common_jax.predictor import Compute, InputTooLargeError


def _serve(connection: Connection, path: Path) -> None:
    """Answers calls until the other side closes."""
    programs = Programs(path, store=False)  # what they leave on disk is not trusted
    computes: dict[str, Compute] = {}
    while True:
        try:
            request, arrays = json.loads(connection.recv_bytes()), connection.recv_bytes()
        except EOFError:
            return
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


def main() -> None:
    """Serves the connection of the file descriptor argv[1] for the export in the folder argv[2]."""
    _serve(Connection(int(sys.argv[1])), Path(sys.argv[2]))

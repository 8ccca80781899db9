"""Exports as versions before wrote them: weights in bfloat16 or int8, and Orbax's format.

By NumPy's arithmetic: bfloat16 is the nearest number, ties to even; int8 is the whole number
next to w / scale, ties to even, with scale = max |w| / 127 over the inputs of an output channel.
"""

import shutil

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from safetensors.flax import save_file
from safetensors.numpy import load_file

from common_jax.deploy.stablehlo import serialized
from common_jax.deploy.weights import restored
from common_jax.io.parameters import nested_parameters
from tests.launch.corrupt_files import sealed, values

PARAMETERS, PROGRAM = "parameters.safetensors", "programs/program.stablehlo"
AXES = {"kernel": -2, "recurrent": -2, "embedding": -1}  # of the inputs of an output channel
SMALL = 1024  # numbers; smaller arrays stay float32


def in_type(arrays, dtype):
    """Float32 arrays by name, as an export stored them in a type."""
    if dtype == "float32":
        return dict(arrays)
    stored = {}
    for name, array in arrays.items():
        axis = AXES.get(name.rpartition("/")[2].rpartition("_")[2])
        if axis is None or array.ndim < 2 or array.size < SMALL:
            stored[name] = array
        elif dtype == "bfloat16":
            stored[name] = array.astype(ml_dtypes.bfloat16)
        else:
            scale = np.abs(array).max(axis, keepdims=True) / np.float32(127)
            scale = np.where(scale > 0, scale, np.float32(1))
            stored[name] = np.rint(array / scale).astype(np.int8)
            stored[f"{name}.scale"] = scale
    return stored


def write_in_type(source, folder, dtype, serve=None, inputs=None):
    """A copy of a float32 export in another type; of `serve`, if it has a program."""
    model = shutil.copytree(source, folder)
    stored = in_type(load_file(source / PARAMETERS), dtype)

    def change(model):
        save_file({name: jax.numpy.asarray(a) for name, a in stored.items()}, model / PARAMETERS)
        if serve is not None:
            params = jax.eval_shape(lambda: nested_parameters(stored))
            program = serialized(lambda w, a: serve(restored(w), a), params, inputs)
            (model / PROGRAM).write_bytes(program)
        values("export.json", dtype=dtype)(model)

    sealed(change)(model)
    return model


def write_orbax(source, folder):
    """A copy of a "safetensors" export in Orbax's format."""
    model = shutil.copytree(source, folder)

    def change(model):
        params = nested_parameters(load_file(model / PARAMETERS))
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as saver:
            saver.save((model / "parameters").absolute(), params)
        (model / PARAMETERS).unlink()
        values("export.json", format="orbax")(model)

    sealed(change)(model)
    return model

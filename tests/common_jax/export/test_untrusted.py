"""Forged programs of exports: refused before they are compiled, or ended with their process."""

import contextlib
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from safetensors.numpy import save_file

from common_jax.errors import UserError
from common_jax.export.child import ChildPrograms, Limits
from common_jax.export.format import PARAMETERS, PROGRAMS
from common_jax.export.stablehlo import Programs
from common_jax.io.checksums import digests, seal
from common_jax.predictor import MEMORY

ARRAYS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
FILE = "program.stablehlo"


def write(folder, serve, *, unchecked=()):
    """An export with one program of one parameter."""
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in unchecked]
    rows, columns = export.symbolic_shape("n, m")
    shapes = {"x": jax.ShapeDtypeStruct((rows, columns), jnp.float32)}
    params = {"scale": jax.ShapeDtypeStruct((), jnp.float32)}
    made = export.export(jax.jit(serve), platforms=["cpu"], disabled_checks=checks)(params, shapes)
    (folder / PROGRAMS).mkdir(parents=True)
    (folder / PROGRAMS / FILE).write_bytes(bytes(made.serialize()))
    save_file({"scale": np.asarray(2, np.float32)}, folder / PARAMETERS)
    return folder


def calls(target):
    return lambda params, arrays: {
        "y": jax.ffi.ffi_call(target, jax.ShapeDtypeStruct((), jnp.float32))(arrays["x"])
    }


def right(params, arrays):
    sums = arrays["x"].sum(1) * params["scale"]
    return {"y": sums, "layers": [{"z": arrays["x"] + 1}, {"z": sums > 5}]}


@contextlib.contextmanager
def child(folder, digests=None, **limits):
    programs = ChildPrograms(folder, digests, Limits(**limits))
    try:
        yield programs
    finally:
        programs.stop()


def require_refused(programs, folder, target):
    with pytest.raises(UserError) as error:
        programs.compute(FILE, MEMORY)
    assert str(folder / PROGRAMS / FILE) in str(error.value)
    assert f"a call of {target!r} is not allowed" in str(error.value)


TARGETS = ["xla_ffi_python_cpu_callback", "unknown", "a name"]


@pytest.mark.parametrize("target", TARGETS)
def test_native_functions_are_refused(target, tmp_path):
    folder = write(tmp_path / "export", calls(target), unchecked=[target])
    require_refused(Programs(folder), folder, target)


def test_a_child_computes_what_this_process_does(tmp_path):
    folder = write(tmp_path / "export", right)
    expected = jax.device_get(Programs(folder).compute(FILE, MEMORY)(ARRAYS))
    with child(folder) as programs:
        compute = programs.compute(FILE, MEMORY)
        for _ in range(2):
            jax.tree.map(np.testing.assert_array_equal, compute(ARRAYS), expected)
        with pytest.raises(UserError, match="does not fit the export's settings or vocabulary"):
            compute({"z": ARRAYS["x"]})
        os.kill(programs._process.pid, signal.SIGSEGV)
        with pytest.raises(UserError, match=r"program.stablehlo: ended its process \(SIGSEGV\)"):
            compute(ARRAYS)
        assert compute(ARRAYS)["y"].tolist() == [6, 24]  # by a new process


def require_refused_when_changed(programs, folder, name):
    """Exchanges a file of an export that `programs` has loaded."""
    other = write(folder.with_name("other"), lambda params, arrays: {"y": arrays["x"]})
    save_file({"scale": np.asarray(3, np.float32)}, other / PARAMETERS)
    (other / name).replace(folder / name)
    with pytest.raises(UserError, match=f"{name}: has changed since the export was loaded"):
        programs.compute(FILE, MEMORY)(ARRAYS)


FILES = [f"{PROGRAMS}/{FILE}", PARAMETERS]


@pytest.mark.parametrize("name", FILES)
def test_an_exchanged_export_is_refused(name, tmp_path):
    folder = write(tmp_path / "export", right)
    seal(folder)
    require_refused_when_changed(Programs(folder, digests(folder)), folder, name)

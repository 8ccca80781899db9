"""Forged programs of exports: refused before they are compiled, or ended by a limit."""

import os
import signal
import threading
import time

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


def endless(params, arrays):
    total = jax.lax.while_loop(lambda x: x < 1, lambda x: x * 0.5, jnp.sum(arrays["x"]) * 0)
    return {"y": total}


def huge(params, arrays):
    grown = jnp.broadcast_to(arrays["x"].reshape(-1)[:1], (2**30,)) + jnp.arange(2.0**30)
    return {"y": jnp.sort(grown) * params["scale"]}


def right(params, arrays):
    sums = arrays["x"].sum(1) * params["scale"]
    return {"y": sums, "layers": [{"z": arrays["x"] + 1}, {"z": sums > 5}]}


def child(folder, **limits):
    return ChildPrograms(folder, Limits(**limits))


@pytest.fixture
def ended():
    """Ends the process of a test."""
    made = []
    yield lambda programs: made.append(programs) or programs
    for programs in made:
        programs.stop()


@pytest.mark.parametrize("make", [Programs, child])
@pytest.mark.parametrize("target", ["xla_ffi_python_cpu_callback", "unknown", "a name"])
def test_native_functions_are_refused(target, make, tmp_path, ended):
    write(tmp_path / "export", calls(target), unchecked=[target])
    programs = make(tmp_path / "export")
    if make is child:
        ended(programs)
    with pytest.raises(UserError) as error:
        programs.compute(FILE, MEMORY)
    assert str(tmp_path / "export" / PROGRAMS / FILE) in str(error.value)
    assert f"a call of {target!r} is not allowed" in str(error.value)


def test_a_child_computes_what_this_process_does(tmp_path, ended):
    folder = write(tmp_path / "export", right)
    programs = ended(child(folder))
    expected = Programs(folder).compute(FILE, MEMORY)(ARRAYS)
    compute = programs.compute(FILE, MEMORY)
    for _ in range(2):
        jax.tree.map(np.testing.assert_array_equal, compute(ARRAYS), jax.device_get(expected))
    with pytest.raises(UserError, match="does not fit the export's settings or vocabulary"):
        compute({"z": ARRAYS["x"]})
    os.kill(programs._process.pid, signal.SIGSEGV)
    with pytest.raises(UserError, match=r"program.stablehlo: ended its process \(SIGSEGV\)"):
        compute(ARRAYS)
    assert compute(ARRAYS)["y"].tolist() == [6, 24]  # by a new process


def test_a_loop_is_ended_while_others_are_answered(tmp_path, ended):
    loop = ended(child(write(tmp_path / "loop", endless), seconds=20.0)).compute(FILE, MEMORY)
    other = Programs(write(tmp_path / "right", right)).compute(FILE, MEMORY)
    errors = []

    def run():
        with pytest.raises(UserError) as error:
            loop(ARRAYS)
        errors.append(str(error.value))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)
    assert np.asarray(other(ARRAYS)["y"]).tolist() == [6, 24]
    assert thread.is_alive()
    thread.join(60)
    assert errors[0].endswith("program.stablehlo: ran for more than 20 s, and was ended")


def test_memory_is_bounded(tmp_path, ended):
    compute = ended(child(write(tmp_path / "export", huge), memory=2**30)).compute(FILE, MEMORY)
    with pytest.raises(UserError, match="used more than 1 GiB of memory, and was ended"):
        compute(ARRAYS)


def test_an_answer_that_is_none_is_one_line(tmp_path, ended, monkeypatch):
    compute = ended(child(write(tmp_path / "export", right))).compute(FILE, MEMORY)
    for message in (b"", b"[]", b'{"tree": 3}', b'{"error": 1, "tree": {}}'):
        monkeypatch.setattr(ChildPrograms, "_receive", lambda *_, message=message: message)
        with pytest.raises(UserError, match="gave no answer that can be read"):
            compute(ARRAYS)

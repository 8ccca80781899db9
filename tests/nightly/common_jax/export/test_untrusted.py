"""Programs of exports in a process of their own: what is refused, and its limits.

The day's tests of it are those of `--untrusted` in tests/launch/test_export.py.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common_jax.deploy.child import ChildPrograms, Limits
from jax import export
from safetensors.numpy import save, save_file

from common_jax.deploy.format import PARAMETERS, PROGRAMS
from common_jax.deploy.predictor import MEMORY
from common_jax.deploy.stablehlo import Programs
from common_jax.errors import UserError
from common_jax.io.checksums import digests, seal
from tests.launch.tiny_runs import ROOT

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


@contextlib.contextmanager
def child(folder, digests=None, **limits):
    programs = ChildPrograms(folder, digests, Limits(**limits))
    try:
        yield programs
    finally:
        programs.stop()


@contextlib.contextmanager
def in_this_process(folder, digests=None):
    yield Programs(folder, digests)


@pytest.mark.parametrize("make", [in_this_process, child])
@pytest.mark.parametrize("target", ["xla_ffi_python_cpu_callback", "unknown", "a name"])
def test_native_functions_are_refused(target, make, tmp_path):
    folder = write(tmp_path / "export", calls(target), unchecked=[target])
    with make(folder) as programs, pytest.raises(UserError) as error:
        programs.compute(FILE, MEMORY)
    assert str(folder / PROGRAMS / FILE) in str(error.value)
    assert f"a call of {target!r} is not allowed" in str(error.value)


@pytest.mark.parametrize("make", [in_this_process, child])
@pytest.mark.parametrize("name", [f"{PROGRAMS}/{FILE}", PARAMETERS])
def test_an_exchanged_export_is_refused(name, make, tmp_path):
    folder = write(tmp_path / "export", right)
    other = write(tmp_path / "other", endless)
    save_file({"scale": np.asarray(3, np.float32)}, other / PARAMETERS)
    seal(folder)
    with make(folder, digests(folder)) as programs:
        if make is child:
            assert programs.compute(FILE, MEMORY)(ARRAYS)["y"].tolist() == [6, 24]
            programs.stop()  # as a limit does
        (other / name).replace(folder / name)
        with pytest.raises(UserError, match=f"{name}: has changed since the export was loaded"):
            programs.compute(FILE, MEMORY)(ARRAYS)


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


def test_a_loop_is_ended_while_others_are_answered(tmp_path):
    def run(loop):
        with pytest.raises(UserError) as error:
            loop.compute(FILE, MEMORY)(ARRAYS)
        return str(error.value)

    other = Programs(write(tmp_path / "right", right)).compute(FILE, MEMORY)
    folder = write(tmp_path / "loop", endless)
    with child(folder, seconds=20.0) as loop, ThreadPoolExecutor(1) as pool:
        loop.compute(FILE, MEMORY)
        running = pool.submit(run, loop)
        time.sleep(0.5)
        assert np.asarray(other(ARRAYS)["y"]).tolist() == [6, 24]
        assert not running.done()
        message = running.result(60)
    assert message.endswith("program.stablehlo: ran for more than 20 s, and was ended")


COMMAND = """
import os, signal, sys, threading
from pathlib import Path
from safetensors.numpy import load
from common_jax.deploy.child import ChildPrograms, Limits
folder, file, number, seconds = sys.argv[1:]
programs = ChildPrograms(Path(folder), None, Limits(float(seconds)))
programs._start() if int(number) == signal.SIGSTOP else programs.compute(file, 4.0)
print(programs._process.pid, flush=True)
threading.Timer(2.0, os.kill, [os.getpid(), int(number)]).start()
programs._call(file, 4.0, load(sys.stdin.buffer.read()))
"""


@pytest.mark.parametrize(
    ("number", "seconds"), [(signal.SIGTERM, 200), (signal.SIGKILL, 200), (signal.SIGSTOP, 4)]
)
def test_a_loop_ends_with_its_command_and_within_its_time(number, seconds, tmp_path):
    """Also if the command is stopped before it could end the loop."""
    folder = write(tmp_path / "loop", endless)
    arguments = [str(folder), FILE, str(int(number)), str(seconds)]
    command = [sys.executable, "-c", COMMAND, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as parent:
        parent.stdin.write(save(ARRAYS))
        parent.stdin.close()
        process = int(parent.stdout.readline())
        try:
            ends = time.monotonic() + 60
            while is_running(process):
                assert time.monotonic() < ends
                time.sleep(0.1)
        finally:
            parent.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def is_running(process):
    """Whether a process has not ended; a zombie has."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def test_memory_is_bounded(tmp_path):
    with child(write(tmp_path / "export", huge), memory=2**30) as programs:
        compute = programs.compute(FILE, MEMORY)
        with pytest.raises(UserError, match="used more than 1 GiB of memory, and was ended"):
            compute(ARRAYS)


def test_an_answer_that_is_none_is_one_line(tmp_path, monkeypatch):
    with child(write(tmp_path / "export", right)) as programs:
        compute = programs.compute(FILE, MEMORY)
        for message in (b"", b"[]", b'{"tree": 3}', b'{"error": 1, "tree": {}}'):
            monkeypatch.setattr(ChildPrograms, "_receive", lambda *_, message=message: message)
            with pytest.raises(UserError, match="gave no answer that can be read"):
                compute(ARRAYS)

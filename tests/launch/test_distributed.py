"""Distributed runs equal those of one process, also after signals, deaths and failures.

They are on one machine here, with CPU devices and Gloo between them. One pair of processes of
the toy task, stopped and started again, is for every day; the others are among the slow tests:

  uv run pytest -m slow tests/launch/test_distributed.py -n 0 -s
"""

import argparse
import re
import signal
import socket
import time

import jax
import pytest

from common_jax.errors import UserError
from launch import distributed, train
from launch.distributed import LOST, DistributedArgs, scheduler
from tests.launch.commands import fails, toy_config
from tests.launch.tiny_runs import RHYTHM, SMALL, evaluated, lines, numbers, result, start

TOY_RHYTHM = {
    "train.steps": 150,
    "train.evaluate_every": 50,
    "train.checkpoint_every": 10,
    "train.log_every": 5,
}
# Faster, QANet magnifies the last digit of a sum tenfold every two steps.
CALM = {"optimizer.learning_rate": 1e-3, "optimizer.schedule": "constant"}
NUMBERS = ("loss", "nll", "grad_norm", "padding_fraction")


class Job:
    """The running processes of one run."""

    def __init__(self, folder, name, family, processes, devices, own=None, **overrides):
        """
        Args:
          devices: number of devices of each process.
          own: differences of the last process: "overrides", "run" or "environment".
        """
        self.run = folder / name
        config = f"configs/{family}/quickstart.py"
        values = {**RHYTHM, **SMALL[family], **CALM} if family in SMALL else TOY_RHYTHM
        if family not in SMALL:
            config = toy_config(folder)
        values = {**values, "data.cache_dir": folder / "corpus", **overrides}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.logs = [folder / f"{name}.{number}.stderr" for number in range(processes)]
        self.processes = []
        for number, log in enumerate(self.logs):
            flags = ["--coordinator", f"127.0.0.1:{port}", "--num_processes", processes]
            flags = [*flags, "--process_id", number] if processes > 1 else []
            different = dict(own or {}) if number == processes - 1 else {}
            self.processes.append(
                start(
                    config,
                    {**values, **different.get("overrides", {})},
                    different.get("run", self.run),
                    devices,
                    log,
                    flags,
                    folder / "compiled",
                    different.get("environment", {}),
                )
            )

    def reach(self, step):
        """Waits until the log has the step."""
        path = self.run / "metrics.jsonl"
        while not path.exists() or max((x["step"] for x in lines(self.run)), default=0) < step:
            assert all(process.poll() is None for process in self.processes), self.output
            time.sleep(0.02)

    def end(self):
        """Waits for the processes; returns their exit statuses."""
        return [process.wait(600) for process in self.processes]

    @property
    def output(self):
        return [log.read_text(errors="replace") for log in self.logs]


def complete(*args, **overrides):
    job = Job(*args, **overrides)
    statuses = job.end()
    assert statuses == [0] * len(statuses), "\n".join(job.output)
    return job


def differences(one, other):
    """The largest relative differences of two runs' numbers, by name.

    Without the lines that contain steps of a process before a restart.
    """
    far = dict.fromkeys(NUMBERS, 0.0)
    every = TOY_RHYTHM["train.log_every"]
    broken = {every * -(-step // every) for step in result(other)["resumed_from"]}
    for a, b in zip(numbers(one), numbers(other), strict=True):
        assert a["step"] == b["step"]
        if a["step"] in broken and "split" not in a:
            continue
        for name in far:
            if name in a:
                far[name] = max(far[name], abs(a[name] - b[name]) / max(abs(a[name]), 1e-12))
    return far


def same(one, other):
    """Requires equal runs, bit for bit, except the log line with steps before a restart."""
    assert result(one)["parameters_sha256"] == result(other)["parameters_sha256"]
    assert result(one)["metrics"] == result(other)["metrics"]
    first, second = ([x for x in numbers(run) if x.get("split") == "dev"] for run in (one, other))
    assert first == second and len(first) > 2
    assert evaluated(one) == evaluated(other)


@pytest.fixture(scope="module", params=["toy", *SMALL])
def undisturbed(request, tmp_path_factory):
    """A folder, a family, and an uninterrupted run of two processes with two devices each."""
    folder = tmp_path_factory.mktemp(request.param)
    return folder, request.param, complete(folder, "two", request.param, 2, 2).run


def agree(one, two):
    """Requires that two runs on four devices agree up to rounding of sums; returns differences."""
    far = differences(one, two)
    assert max(far.values()) < 1e-5
    assert result(two)["devices"] == result(one)["devices"] and len(result(two)["devices"]) == 4
    assert evaluated(two).keys() == evaluated(one).keys()
    for name, text in evaluated(one).items():  # every example once
        assert len(evaluated(two)[name].splitlines()) == len(text.splitlines())
    return far


def stopped(folder, family, number, request=signal.SIGTERM):
    """A run of two processes that was stopped by a signal to one of them, and resumed."""
    job = Job(folder, f"stopped{number}", family, 2, 2)
    job.reach(21)
    job.processes[number].send_signal(request)
    statuses = [143, 143]
    statuses[number] = 128 + request
    assert job.end() == statuses
    steps = {re.search(r"^SIGTERM: stopped at step (\d+)", s, re.M)[1] for s in job.output}
    print(f"\n{family}: process {number} was requested to stop; all stopped at step {steps}")
    (step,) = steps
    complete(folder, f"stopped{number}", family, 2, 2)
    assert result(job.run)["resumed_from"] == [int(step)]
    return job.run


def test_two_processes_stopped_by_a_signal_to_one_equal_a_single_process(tmp_path):
    """Both stop at the same step, and resume to the results of an uninterrupted process."""
    two = stopped(tmp_path, "toy", 1)
    values = {**TOY_RHYTHM, "data.cache_dir": tmp_path / "corpus", "mesh.data": 4}
    overrides = [f"--config.{key}={value}" for key, value in values.items()]
    config = ["--config", str(tmp_path / "toy.py"), *overrides]
    train.main([*config, "--workdir", str(tmp_path / "one")])
    agree(tmp_path / "one", two)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_sighup_to_one_stops_all_at_the_same_step(tmp_path, number):
    stopped(tmp_path, "toy", number, signal.SIGHUP)


@pytest.mark.slow
def test_two_processes_equal_a_single_process(undisturbed):
    folder, family, two = undisturbed
    one = complete(folder, "one", family, 1, 4).run
    print(f"\n{family}: two processes and one differ by {agree(one, two)}")


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_sigterm_to_one_stops_all_at_the_same_step(undisturbed, number):
    folder, family, run = undisturbed
    same(stopped(folder, family, number), run)


@pytest.mark.slow
@pytest.mark.parametrize("dead", [0, 1])
def test_the_death_of_one_ends_the_others_with_a_line(undisturbed, dead):
    folder, family, run = undisturbed
    job = Job(folder, f"killed{dead}", family, 2, 2)
    job.reach(21)
    job.processes[dead].kill()
    began = time.monotonic()
    statuses = job.end()
    seconds = time.monotonic() - began
    assert statuses[dead] == -signal.SIGKILL and statuses[1 - dead] == LOST
    line = job.output[1 - dead].splitlines()[-1]
    print(f"\n{family}: process {dead} killed; after {seconds:.0f} s the other says: {line}")
    assert line.startswith("error: JAX has ended this process")
    assert seconds < 60
    complete(folder, f"killed{dead}", family, 2, 2)
    assert len(result(job.run)["resumed_from"]) == 1
    same(job.run, run)


def lines_of_a_mistake(folder, own):
    job = Job(folder, "run", "toy", 2, 1, own=own, **{"data.cache_dir": "~/corpus"})
    assert job.end() == [2, 2]
    return [
        next(line for line in output.splitlines() if line.startswith("error: "))
        for output in job.output
    ]


@pytest.mark.slow
def test_a_mistake_on_one_machine_is_reported_by_all(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no home")
    monkeypatch.setenv("HOME", str(tmp_path))
    lines = lines_of_a_mistake(tmp_path, {"environment": {"HOME": tmp_path / "file"}})
    for line in lines:
        assert re.match(r"error: process 1: data.cache_dir=.*/file/corpus: cannot prepare", line)


@pytest.mark.slow
@pytest.mark.parametrize(
    "own,message",
    [
        ({"overrides": {"train.steps": 9}}, "differs from the first process in train.steps"),
        ({"run": "elsewhere"}, "not the folder that the first process sees there"),
    ],
)
def test_machines_that_differ(tmp_path, monkeypatch, own, message):
    monkeypatch.setenv("HOME", str(tmp_path))
    if "run" in own:
        own = {"run": tmp_path / own["run"]}
    lines = lines_of_a_mistake(tmp_path, own)
    assert all(line.startswith("error: process 1: ") and message in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("family", SMALL)
def test_a_run_resumes_with_any_number_of_processes(tmp_path, family):
    """8 devices, 2 processes with 4 each, 1 device, 2 processes with 1 each."""
    once = {"train.evaluate_every": 48, **({"decode.beam_size": 1} if family == "csan" else {})}
    uninterrupted = complete(tmp_path, "uninterrupted", family, 1, 8, **once).run
    for steps, processes, devices in [(12, 1, 8), (24, 2, 4), (36, 1, 1), (48, 2, 1)]:
        part = {**once, "train.steps": steps}
        moved = complete(tmp_path, "moved", family, processes, devices, **part).run
    assert result(moved)["resumed_from"] == [12, 24, 36]
    losses = [
        {x["step"]: x["loss"] for x in numbers(run) if "learning_rate" in x}
        for run in (uninterrupted, moved)
    ]
    far = max(abs(losses[1][step] / loss - 1) for step, loss in losses[0].items())
    print(f"\n{family}: moved between devices and processes, losses differ by {far:.1e} at most")
    assert far < 1e-5


@pytest.mark.parametrize(
    "environment,expected",
    [
        ({}, ""),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}, ""),  # the batch script, outside of a step
        ({"SLURM_STEP_NODELIST": "a[1-4]", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, "SLURM"),
        ({"SLURM_STEP_NODELIST": "a1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, ""),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "Open MPI"),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, ""),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ""),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"}, "Kubernetes"),
        ({"TPU_WORKER_HOSTNAMES": "t-0"}, ""),
        ({"TPU_WORKER_HOSTNAMES": "t-0,t-1"}, "Cloud TPU"),
    ],
)
def test_which_scheduler_has_started_several(environment, expected):
    assert scheduler(environment) == expected


TORCHRUN = {"MASTER_ADDR": "a", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "RANK": "3"}


@pytest.mark.parametrize(
    "changes,expected",
    [
        ({}, DistributedArgs("", "a:29500", 4, 3)),
        ({"TORCHELASTIC_USE_AGENT_STORE": "True"}, DistributedArgs("", "a:29501", 4, 3)),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, DistributedArgs("", "a:29500", 4, 3, (1,))),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, DistributedArgs("", "a:29500", 4, 3)),
        ({"WORLD_SIZE": "1", "RANK": "0"}, DistributedArgs()),
        ({"MASTER_PORT": ""}, DistributedArgs()),
        ({"SLURM_STEP_NODELIST": "a1", "SLURM_NTASKS": "2"}, DistributedArgs("", "a:29500", 4, 3)),
    ],
)
def test_variables_of_torchrun(monkeypatch, changes, expected):
    for name, value in {**TORCHRUN, **changes}.items():
        monkeypatch.setenv(name, value)
    assert DistributedArgs.of(_no_flags()) == expected


def test_a_rank_beyond_the_world_is_refused(monkeypatch):
    for name, value in {**TORCHRUN, "RANK": "4"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="RANK=4: from 0 to WORLD_SIZE - 1, 3"):
        DistributedArgs.of(_no_flags())


SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "node[01-02]",
    "SLURM_NTASKS": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
}
FOUR_A_NODE = {
    **{"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"},
    **{"SLURM_PROCID": "6", "SLURM_LOCALID": "2"},
}
TWO_A_NODE = {
    **{"SLURM_NTASKS": "3", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "1,2"},
    **{"SLURM_PROCID": "2", "SLURM_LOCALID": "1"},
}
OMPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    **{"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"},
    **{"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
}
GPUS = {
    f"{n} GPUs": {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(n)))} for n in (1, 2, 3, 4, 8)
}
ON_NODE = {"SLURM_GPUS_ON_NODE": "8"}
FIRST = "node01:61447"


def passed_to_jax(monkeypatch, environment):
    """What `jax.distributed.initialize` gets: coordinator, count and number, and the devices."""
    for name in (*SLURM, *OMPI, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    calls, met = [], []
    monkeypatch.setattr(distributed, "meet", lambda *arguments: met.append(arguments))
    monkeypatch.setattr(distributed, "_redirect_libraries", lambda: None)
    initialize = lambda *address, **options: calls.append((address, options))
    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    DistributedArgs.of(_no_flags()).join()
    ((address, options),) = calls
    assert options["cluster_detection_method"] == "deactivate"
    assert met == [(*address, distributed.JOIN_SECONDS, distributed.ALONE)]
    return address, options["local_device_ids"]


@pytest.mark.parametrize(
    "environment,address,devices",
    [
        # one task a node uses all of its GPUs, of which JAX's detection gives it the first
        ({**SLURM, **GPUS["8 GPUs"]}, (FIRST, 2, 1), None),
        ({**SLURM, **GPUS["8 GPUs"], **ON_NODE}, (FIRST, 2, 1), None),
        ({**SLURM, **FOUR_A_NODE, **GPUS["4 GPUs"]}, (FIRST, 8, 6), (2,)),
        ({**SLURM, **FOUR_A_NODE, **GPUS["8 GPUs"], **ON_NODE}, (FIRST, 8, 6), (4, 5)),
        # --gpus-per-task: each sees its own
        ({**SLURM, **FOUR_A_NODE, **GPUS["1 GPUs"]}, (FIRST, 8, 6), None),
        ({**SLURM, **FOUR_A_NODE, **GPUS["2 GPUs"], **ON_NODE}, (FIRST, 8, 6), None),
        ({**SLURM, **TWO_A_NODE, **GPUS["2 GPUs"]}, (FIRST, 3, 2), (1,)),
        ({**SLURM, **TWO_A_NODE, **GPUS["4 GPUs"], **ON_NODE}, (FIRST, 3, 2), None),
        ({**SLURM, **FOUR_A_NODE, "CUDA_VISIBLE_DEVICES": ""}, (FIRST, 8, 6), (2,)),  # no GPU
        ({**OMPI, **GPUS["4 GPUs"]}, ("10.96.0.1:62624", 4, 1), (2, 3)),
        ({**OMPI, **GPUS["2 GPUs"]}, ("10.96.0.1:62624", 4, 1), (1,)),
        (
            {**OMPI, **GPUS["4 GPUs"], "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
            ("10.96.0.1:62624", 4, 1),
            None,
        ),
    ],
)
def test_what_is_passed_to_jax(monkeypatch, environment, address, devices):
    assert passed_to_jax(monkeypatch, environment) == (address, devices)


def test_gpus_that_cannot_be_shared_equally_are_refused(monkeypatch):
    with pytest.raises(UserError, match="3 GPUs cannot be shared equally by the 2 processes"):
        passed_to_jax(monkeypatch, {**SLURM, **TWO_A_NODE, **GPUS["3 GPUs"]})


def test_the_shell_of_salloc_is_told_how_to_train_alone(monkeypatch):
    """Its step has one task; SLURM_NTASKS is that of the allocation."""
    shell = {**SLURM, "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
    line = "SLURM_NTASKS=4, but this is the only task .* --num_processes=1, which trains alone"
    with pytest.raises(UserError, match=line):
        passed_to_jax(monkeypatch, shell)
    alone = argparse.Namespace(coordinator=None, num_processes=1, process_id=None)
    assert DistributedArgs.of(alone) == DistributedArgs()


def _no_flags():
    return argparse.Namespace(coordinator=None, num_processes=None, process_id=None)


@pytest.mark.parametrize(
    "flags,line",
    [
        (["--num_processes", "0"], "--num_processes 0: at least 1"),
        (["--num_processes", "2"], "--coordinator, --num_processes and --process_id: give all"),
        (["--coordinator", "a:1", "--num_processes", "2", "--process_id", "2"], "from 0 to 1"),
        (["--coordinator", "a", "--num_processes", "2", "--process_id", "1"], "write HOST:PORT"),
        (["--coordinator", "a:99999", "--num_processes", "2", "--process_id", "1"], "HOST:PORT"),
        (["--num_processes", "two"], "invalid int value: 'two'"),
    ],
)
def test_inconsistent_flags(monkeypatch, capsys, flags, line):
    argv = ["--config", "configs/csan/quickstart.py", *flags]
    assert line in fails(monkeypatch, capsys, argv, train.main)

"""What a process learns of the others: from schedulers, variables and flags.

Real processes are in tests/launch/test_processes.py and tests/nightly/launch/test_distributed.py.
"""

import argparse

import jax
import pytest

from common_jax.errors import UserError
from launch.train import __main__ as train
from launch.train import rendezvous
from launch.train.schedulers import DistributedArgs, scheduler
from tests.launch.commands import fails


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


def slurm(tasks, by_node, number, local):
    """The variables of a task on the second node of a step of Slurm."""
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_NODELIST": "node[01-02]",
        "SLURM_NTASKS": tasks,
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": by_node,
        "SLURM_PROCID": number,
        "SLURM_LOCALID": local,
        "SLURM_NODEID": "1",
    }


def gpus(number):
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(number)))}


ONE_A_NODE = slurm("2", "1(x2)", "1", "0")
FOUR_A_NODE = slurm("8", "4(x2)", "6", "2")
TWO_ON_IT = slurm("3", "1,2", "2", "1")
OMPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}
ON_NODE = {"SLURM_GPUS_ON_NODE": "8"}
FIRST = "node01:61447"
ROOT = "10.96.0.1:62624"


def passed_to_jax(monkeypatch, environment):
    """What `jax.distributed.initialize` gets: coordinator, count and number, and the devices."""
    for name in (*ONE_A_NODE, *OMPI, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    calls = []

    def initialize(*address, **options):
        calls.append((address, options))

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    for name in ("_redirect_libraries", "_require_equal_counts"):
        monkeypatch.setattr(rendezvous, name, lambda *_: None)
    rendezvous.join(DistributedArgs.of(_no_flags()))
    ((address, options),) = calls
    assert options["cluster_detection_method"] == "deactivate"
    assert options["initialization_timeout"] > rendezvous.JOIN_SECONDS
    return address, options["local_device_ids"]


@pytest.mark.parametrize(
    "environment,address,devices",
    [
        # one task a node uses all of its GPUs, of which JAX's detection gives it the first
        (ONE_A_NODE | gpus(8), (FIRST, 2, 1), None),
        (ONE_A_NODE | gpus(8) | ON_NODE, (FIRST, 2, 1), None),
        (FOUR_A_NODE | gpus(4), (FIRST, 8, 6), (2,)),
        (FOUR_A_NODE | gpus(8) | ON_NODE, (FIRST, 8, 6), (4, 5)),
        # --gpus-per-task: each sees its own
        (FOUR_A_NODE | gpus(1), (FIRST, 8, 6), None),
        (FOUR_A_NODE | gpus(2) | ON_NODE, (FIRST, 8, 6), None),
        (TWO_ON_IT | gpus(2), (FIRST, 3, 2), (1,)),
        (TWO_ON_IT | gpus(4) | ON_NODE, (FIRST, 3, 2), None),
        (FOUR_A_NODE | gpus(0), (FIRST, 8, 6), (2,)),
        (OMPI | gpus(4), (ROOT, 4, 1), (2, 3)),
        (OMPI | gpus(2), (ROOT, 4, 1), (1,)),
        (OMPI | gpus(4) | {"OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, (ROOT, 4, 1), None),
    ],
)
def test_what_is_passed_to_jax(monkeypatch, environment, address, devices):
    assert passed_to_jax(monkeypatch, environment) == (address, devices)


def test_gpus_that_cannot_be_shared_equally_are_refused(monkeypatch):
    with pytest.raises(UserError, match="3 GPUs cannot be shared equally by the 2 processes"):
        passed_to_jax(monkeypatch, TWO_ON_IT | gpus(3))


def test_the_shell_of_salloc_is_told_how_to_train_alone(monkeypatch):
    """Its step has one task; SLURM_NTASKS is that of the allocation."""
    shell = slurm("1", "1", "0", "0") | {"SLURM_NTASKS": "4"}
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

"""The processes of a run and this one's number, by flags or by a scheduler's variables."""

import argparse
import dataclasses
import glob
import importlib.util
import os
import re
from collections.abc import Mapping
from typing import Self

from common_jax.errors import UserError

CLOUD_TPU = "Cloud TPU"
SLURM = "SLURM"
OPEN_MPI = "Open MPI"


@dataclasses.dataclass(frozen=True)
class DistributedArgs:
    """The processes of a run, and this one's number.

    Attributes:
      scheduler: name of the scheduler from which JAX gets the other values; "" for none.
      coordinator: HOST:PORT of the first process, without a scheduler.
      count: number of processes.
      number: number of this process, from 0.
      devices: numbers of this machine's devices that this process uses; None for all that it sees.
    """

    scheduler: str = ""
    coordinator: str = ""
    count: int = 1
    number: int = 0
    devices: tuple[int, ...] | None = None

    @staticmethod
    def add_flags(parser: argparse.ArgumentParser) -> None:
        """Adds the flags for processes started without a scheduler."""
        group = parser.add_argument_group("several processes")
        group.add_argument("--coordinator", metavar="HOST:PORT", help="address of the first")
        group.add_argument(
            "--num_processes", type=int, metavar="N", help="number of processes (1: a single one)"
        )
        group.add_argument("--process_id", type=int, metavar="I", help="number of this one, from 0")

    @classmethod
    def of(cls, args: argparse.Namespace) -> Self:
        """The processes by the flags, or else by a scheduler's environment variables.

        Raises:
          UserError: for inconsistent flags.
        """
        coordinator = args.coordinator
        count = args.num_processes
        number = args.process_id

        # no flags, or a single process
        if coordinator is None and count is None and number is None:
            return cls._of_torchrun(os.environ) or cls._of_scheduler(os.environ)
        if count is not None and count < 1:
            raise UserError(f"--num_processes {count}: at least 1")
        if count == 1 and coordinator is None and number in (None, 0):
            return cls()

        # all three flags
        if None in (coordinator, count, number):
            raise UserError("--coordinator, --num_processes and --process_id: give all three")
        if not 0 <= number < count:
            raise UserError(f"--process_id {number}: from 0 to {count - 1}")
        host, _, port = coordinator.rpartition(":")
        if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 2**16:
            raise UserError(f"--coordinator {coordinator}: write HOST:PORT")
        return cls("", coordinator, count, number)

    @classmethod
    def _of_torchrun(cls, environment: Mapping[str, str]) -> Self | None:
        """The processes by the variables of torchrun, which Kubeflow's PyTorchJob sets too; None
        without them, or for a single process."""
        # its variables, without which there is no torchrun
        names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
        host, *values = (environment.get(name, "") for name in names)
        if not host or not all(value.isdecimal() for value in values):
            return None
        port, count, number = map(int, values)
        if count == 1:
            return None
        if not number < count:
            raise UserError(f"RANK={number}: from 0 to WORLD_SIZE - 1, {count - 1}")

        # torchrun's own store listens at MASTER_PORT
        port += environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        devices = local_devices(environment, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        return cls("", f"{host}:{port}", count, number, devices)

    @classmethod
    def _of_scheduler(cls, environment: Mapping[str, str]) -> Self:
        """The processes of a scheduler; the first ones of a machine use the first of its GPUs."""
        name = scheduler(environment)
        if name == SLURM:
            if environment.get("SLURM_STEP_NUM_TASKS") == "1":
                raise UserError(
                    f"SLURM_NTASKS={environment['SLURM_NTASKS']}, but this is the only task of its "
                    "step, as in salloc's shell: start all tasks with srun, or give "
                    "--num_processes=1, which trains alone"
                )
            return cls(SLURM, devices=local_devices(_slurm_node(environment), "rank", "size"))
        names = ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
        return cls(name, devices=local_devices(environment, *names))


def scheduler(environment: Mapping[str, str]) -> str:
    """The scheduler that seems to have started several processes; "" for none.

    JAX's own detection also takes a SLURM step of one process for a cluster, with a single GPU.
    """
    in_step = {"SLURM_STEP_NODELIST", "SLURM_PROCID"} <= environment.keys()
    if in_step and _is_above_1(environment, "SLURM_NTASKS"):
        return SLURM
    if _is_above_1(environment, "OMPI_COMM_WORLD_SIZE"):
        return OPEN_MPI
    if {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"} <= environment.keys():
        return "Kubernetes"
    tpu = several_hosts(environment) or (
        importlib.util.find_spec("libtpu") and glob.glob("/dev/accel*") + glob.glob("/dev/vfio/*")
    )
    return CLOUD_TPU if tpu else ""


def _is_above_1(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "")
    return value.isdecimal() and int(value) > 1


def several_hosts(environment: Mapping[str, str]) -> bool:
    """Whether a slice of TPUs has several machines."""
    return "," in environment.get("TPU_WORKER_HOSTNAMES", "")


def local_devices(
    environment: Mapping[str, str], rank_name: str, size_name: str
) -> tuple[int, ...] | None:
    """The GPUs of a process that shares its machine with others; None for all that it sees.

    JAX's detection would give each process one and leave the rest unused.

    Args:
      rank_name, size_name: the variables with the number of the process on its machine, and with
        the number of processes there.

    Raises:
      UserError: for GPUs that cannot be shared equally.
    """
    # alone on its machine
    rank = environment.get(rank_name, "")
    size = environment.get(size_name, "")
    if not (rank.isdecimal() and size.isdecimal()) or int(size) < 2:
        return None

    # it sees only its own GPUs
    seen = _gpus(environment)
    on_node = environment.get("SLURM_GPUS_ON_NODE", "")
    if 0 < seen < max(int(size), int(on_node) if on_node.isdecimal() else 0):
        return None

    # an equal share, by the number on the machine
    if seen % int(size):
        raise UserError(
            f"{seen} GPUs cannot be shared equally by the {size} processes of this machine: start "
            "one, which uses all of them, or one for each GPU"
        )
    share = max(seen // int(size), 1)
    return tuple(range(int(rank) * share, (int(rank) + 1) * share))


def _gpus(environment: Mapping[str, str]) -> int:
    """The number of NVIDIA GPUs that this process sees."""
    if (visible := environment.get("CUDA_VISIBLE_DEVICES")) is not None:
        return len([name for name in visible.split(",") if name.strip() not in ("", "-1")])
    return len(glob.glob("/dev/nvidia[0-9]*"))


def _slurm_node(environment: Mapping[str, str]) -> dict[str, str]:
    """Adds "rank" and "size" on its node, of a task of a SLURM step, to the variables.

    SLURM_STEP_TASKS_PER_NODE is as "2(x3),1": three nodes with two tasks, one with one.
    """
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    sizes = [size for size, nodes in counts for _ in range(int(nodes or 1))]
    node = environment.get("SLURM_NODEID", "")
    size = sizes[int(node)] if node.isdecimal() and int(node) < len(sizes) else ""
    return {**environment, "rank": environment.get("SLURM_LOCALID", ""), "size": size}

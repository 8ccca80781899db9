"""Descriptions of devices that are not present, for XLA's compilers."""

import argparse
import importlib.util
import re
from collections.abc import Sequence
from typing import Any

from common_jax.errors import UserError, missing_extra
from launch.measure.chips import CHIPS, Chip, Gpu

ENVIRONMENT = {  # read when jax and libtpu are imported
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",  # any value: libtpu requires one
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_GPUS_A_MACHINE = 8


def topology_devices(topology: str) -> Sequence[Any]:
    """Descriptions of the devices of a topology "CHIP:SHAPE", to compile for.

    Raises:
      UserError: for a missing extra or an impossible shape.
    """
    from jax.experimental import topologies

    name, _, shape = topology.partition(":")
    gpu = CHIPS[name].gpu
    extra = "cuda" if gpu else "tpu"
    needed = "jax_cuda13_plugin" if gpu else "libtpu"
    if importlib.util.find_spec(needed) is None:
        raise missing_extra(
            f"--topology {topology}: its compiler", extra, "; the device need not be here"
        )
    try:
        if gpu is None:
            return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
        machines = -(-int(shape) // _GPUS_A_MACHINE)
        if int(shape) > _GPUS_A_MACHINE and int(shape) % _GPUS_A_MACHINE:
            raise ValueError(f"machines have {_GPUS_A_MACHINE} GPUs")
        return topologies.get_topology_desc(
            platform="cuda",
            target_config=_target(CHIPS[name], gpu),
            topology=f"1x{machines}x{int(shape) // machines}",
        ).devices
    except (ValueError, RuntimeError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"--topology {topology}: no such topology ({reason})") from error


def _target(chip: Chip, gpu: Gpu) -> str:
    """XLA's GpuTargetConfig of a GPU, as text."""
    major, minor = gpu.capability

    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_core: {gpu.shared_memory}
  shared_memory_per_block_optin: {gpu.block_memory}
  core_count: {gpu.cores} fpus_per_core: {gpu.fpus} clock_rate_ghz: {gpu.clock}
  l2_cache_size: {gpu.l2} memory_bandwidth: {int(chip.bandwidth)}
  device_memory_size: {chip.memory}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
runtime_version {{ major: 13 minor: 0 patch: 0 }}
device_description_str: "{chip.kind}"
"""


def topology(text: str) -> str:
    """Argument type: CHIP:SHAPE of a known chip."""
    name, _, shape = text.partition(":")
    if name not in CHIPS:
        raise argparse.ArgumentTypeError(f"{text!r}: the chips are {', '.join(CHIPS)}")
    number = r"[1-9]\d*"
    if CHIPS[name].gpu and not re.fullmatch(number, shape):
        raise argparse.ArgumentTypeError(f"{text!r}: write {name}:8")
    if not CHIPS[name].gpu and not re.fullmatch(f"{number}(x{number})+", shape):
        raise argparse.ArgumentTypeError(f"{text!r}: write {name}:2x2")
    return text

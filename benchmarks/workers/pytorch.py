"""Common part of PyTorch's workers: the device and its kernels; runs in a peer's environment."""

from collections.abc import Callable
from pathlib import Path

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cuda":
    torch.set_float32_matmul_precision("high")  # TF32, as jax's default


def synchronize() -> None:
    """Waits for the device."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def kernels(call: Callable[[], object], folder: str) -> dict[str, float]:
    """The seconds of each of the device's kernels in a call, by name; on a CPU, of each operation.

    Writes the trace to FOLDER/pytorch.json.
    """
    with torch.profiler.profile() as trace:
        call()
    Path(folder).mkdir(parents=True, exist_ok=True)
    trace.export_chrome_trace(f"{folder}/pytorch.json")
    seconds = {}
    for event in trace.key_averages():
        is_kernel = event.device_type.name == "CUDA"
        if is_kernel or DEVICE.type == "cpu":
            spent = event.self_device_time_total if is_kernel else event.self_cpu_time_total
            seconds[event.key] = spent / 1e6
    return seconds

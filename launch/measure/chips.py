"""Accelerators: FLOP/s, memory and bandwidths, by their vendors' figures.

Sources: Google Cloud's pages of each TPU (docs.cloud.google.com/tpu/docs/v4, v5e, v5p, v6e, tpu7x),
NVIDIA's data sheets (A100 80GB SXM, H100 SXM, H200 SXM, B200 in HGX), and for `Gpu` the target
configurations in XLA's repository (xla/backends/gpu/target_config/specs).
"""

from collections.abc import Mapping
from typing import NamedTuple

GIB = 2**30


class Gpu(NamedTuple):
    """The properties of a GPU that XLA's compiler needs.

    Attributes:
      capability: the CUDA compute capability, major and minor.
      cores: streaming multiprocessors.
      fpus: float32 units of each.
      shared_memory: bytes of each core.
      block_memory: largest shared memory of one block, in bytes.
      l2: bytes of cache.
      clock: GHz.
    """

    capability: tuple[int, int]
    cores: int
    fpus: int
    shared_memory: int
    block_memory: int
    l2: int
    clock: float


class Chip(NamedTuple):
    """One JAX device.

    Attributes:
      kind: `jax.Device.device_kind`.
      peak: dense products, FLOP/s by compute dtype. By default JAX multiplies float32 on a TPU as
        bfloat16, and on a GPU as TensorFloat-32, at half the rate of bfloat16.
      memory: bytes.
      bandwidth: of the memory, bytes/s.
      links: bytes/s to other devices of its slice or machine, over all its links.
      gpu: None for a TPU.
    """

    kind: str
    peak: Mapping[str, float]
    memory: int
    bandwidth: float
    links: float
    gpu: Gpu | None = None


def _tpu(kind: str, teraflops: float, gib: int, bandwidth: float, gigabits: float) -> Chip:
    peak = dict.fromkeys(("bfloat16", "float32"), teraflops * 1e12)
    return Chip(kind, peak, gib * GIB, bandwidth * 1e9, gigabits / 8 * 1e9)


def _nvidia(
    kind: str,
    teraflops: float,
    memory: int,
    bandwidth: float,
    links: float,
    gpu: Gpu,
) -> Chip:
    peak = {"bfloat16": teraflops * 1e12, "float32": teraflops / 2 * 1e12}
    return Chip(kind, peak, memory, bandwidth, links * 1e9, gpu)


_HOPPER = Gpu((9, 0), 132, 128, 233_472, 232_448, 52_428_800, 1.98)

CHIPS: Mapping[str, Chip] = {
    "v4": _tpu("TPU v4", 275.0, 32, 1228.0, 2400.0),
    "v5e": _tpu("TPU v5 lite", 197.0, 16, 819.0, 1600.0),
    "v5p": _tpu("TPU v5", 459.0, 95, 2765.0, 4800.0),
    "v6e": _tpu("TPU v6 lite", 918.0, 32, 1640.0, 3584.0),
    "tpu7x": _tpu("TPU7x", 2307 / 2, 96, 7380 / 2, 9600 / 2),  # a chip is two devices
    "a100": _nvidia(
        "NVIDIA A100-SXM4-80GB",
        *(312.0, 85_100_068_864, 2.03904e12, 300.0),
        Gpu((8, 0), 108, 64, 167_936, 166_912, 41_943_040, 1.41),
    ),
    "h100": _nvidia("NVIDIA H100 80GB HBM3", 989.0, 84_942_979_072, 3.35232e12, 450.0, _HOPPER),
    "h200": _nvidia("NVIDIA H200", 989.0, 151_397_597_184, 4.8e12, 450.0, _HOPPER),
    "b200": _nvidia(
        "NVIDIA B200",
        *(2250.0, 191_514_411_008, 7.67232e12, 900.0),
        Gpu((10, 0), 148, 128, 233_472, 232_448, 132_644_864, 1.965),
    ),
}


def chip_of(kind: str) -> Chip | None:
    """The chip with this device kind; None if unknown."""
    return next((chip for chip in CHIPS.values() if chip.kind == kind), None)

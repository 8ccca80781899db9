"""Collectives of a compiled program, from the HLO text for one device."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) [^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"\b(?:body|calls|to_apply|\w+_computations?)=\{?([^,}]*(?:, %[^,}]*)*)")
_COLLECTIVE = re.compile(
    r" = (\(.*?\)|\S+)"
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?\((.*)"
)
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Collective:
    """The collectives of one kind along some axes of the mesh.

    Attributes:
      kind: "all-reduce", "all-gather", "reduce-scatter", "all-to-all" or "collective-permute".
      axes: of the mesh, those along which the devices of a group differ.
      count: their number in a step.
      bytes: sent by each device in a step, with ring algorithms.
    """

    kind: str
    axes: tuple[str, ...]
    count: int
    bytes: int


def collectives(text: str, mesh: Mapping[str, int]) -> list[Collective]:
    """The collectives of a program, by kind and axes, those with most bytes first.

    Of a conditional, all branches count.

    Args:
      text: of `jax.stages.Compiled.as_text()`.
      mesh: sizes of its axes, by name.
    """
    computations = dict(_COMPUTATION.findall(text))
    times: dict[str, int] = {}
    sent: dict[tuple[str, tuple[str, ...]], dict[str, tuple[int, int]]] = {}

    # a computation is printed after those that it calls, the program's last
    for name, lines in reversed(computations.items()):
        runs = times.get(name, 1)
        for line in lines.splitlines():
            length = _length(line, computations) if " while(" in line else 1
            for called in re.findall(r"[\w.\-]+", " ".join(_CALL.findall(line))):
                times[called] = runs * length

            # several fusions of a TPU contain the same collective: its channel and its arrays
            match = _COLLECTIVE.search(line)
            group = _first_group(line, math.prod(mesh.values())) if match else ()
            if match and len(group) > 1:
                kind, size = _kind_and_bytes(name, match, len(group))
                channel = re.search(r"channel_id=\d+", line)
                key = f"{channel[0] if channel else line} {_ARRAY.findall(match[1])}"
                sent.setdefault((kind, _axes(group, mesh)), {})[key] = (runs, runs * size)

    summed = []
    for (kind, axes), found in sent.items():
        counts, sizes = zip(*found.values(), strict=True)
        summed.append(Collective(kind, axes, sum(counts), sum(sizes)))
    return sorted(summed, key=lambda collective: -collective.bytes)


def _length(loop: str, computations: Mapping[str, str]) -> int:
    """The iterations of a loop: those that the compiler notes, or its condition's limit."""
    if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop):
        return int(known[1])
    condition = re.search(r"condition=%?([\w.\-]+)", loop)
    limits = re.findall(r" constant\((\d+)\)", computations[condition[1]]) if condition else []
    return max(map(int, limits), default=1)


def _kind_and_bytes(computation: str, match: re.Match[str], devices: int) -> tuple[str, int]:
    """The kind of a collective, and the bytes that a device sends in a ring of `devices`.

    Args:
      match: of `_COLLECTIVE`.
    """
    result, kind, start, _ = match.groups()
    sizes = [_bytes(*array) for array in _ARRAY.findall(result)]

    # an asynchronous one returns its operands before the results
    if start and kind == "all-gather":
        sizes = sizes[len(sizes) // 2 :]
    if start and kind == "collective-permute":
        sizes = sizes[:1]

    total = sum(sizes)
    peers = devices - 1
    if kind == "all-reduce" and computation.startswith("all-reduce-scatter"):  # on a TPU
        return "reduce-scatter", total * peers // devices
    if kind == "all-reduce":
        return kind, 2 * total * peers // devices
    if kind == "reduce-scatter":
        return kind, total * peers
    return kind, total if kind == "collective-permute" else total * peers // devices


def _bytes(dtype: str, dims: str) -> int:
    width = re.search(r"\d+", dtype)
    bits = int(width[0]) if width else 8  # "pred"
    return -(-math.prod(int(size) for size in dims.split(",") if size) * bits // 8)


def _first_group(text: str, devices: int) -> Sequence[int]:
    """The devices of the first group of a collective.

    Groups are listed, or consecutive devices of an array of all, with its axes in another order:
    `[groups,size]<=[array]T(order)`, or `mesh['axis'=length,...] {'axis of a group',...}`.
    """
    if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{\{([\d,]+)\}", text):
        return _integers(listed[1])
    if iota := re.search(r"replica_groups=\[\d+,(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text):
        size = int(iota[1])
        shape = _integers(iota[2])
        order = _integers(iota[3] or "") or list(range(len(shape)))
    elif mesh := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", text):
        lengths = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        shape = [int(length) for length in lengths.values()]
        inside = [list(lengths).index(axis) for axis in re.findall(r"'(\w+)'", mesh[2])]
        size = math.prod(shape[axis] for axis in inside)
        order = [axis for axis in range(len(shape)) if axis not in inside] + inside
    else:
        return range(devices)
    return np.arange(devices).reshape(shape).transpose(order).ravel()[:size].tolist()


def _integers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _axes(group: Sequence[int], mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The axes of the mesh along which the devices of a group differ."""
    positions = np.stack(np.unravel_index(np.array(group), tuple(mesh.values())))
    differing = (positions != positions[:, :1]).any(axis=1)
    return tuple(name for name, differs in zip(mesh, differing, strict=True) if differs)

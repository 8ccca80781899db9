"""Memory traffic and collectives of a compiled program, from the HLO text for one device."""

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

_CONTEXT = 8  # bytes of the handle that a "-start" returns with its arrays
_BITS = {"pred": 8, "c64": 64, "c128": 128, "token": 0, "opaque": 0}
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
# Instructions without memory traffic of their own.
_FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "iota"),
    *("partition-id", "replica-id", "opt-barrier", "broadcast", "domain"),
}
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)$")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](\{[^{}]*\})?")


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


@dataclasses.dataclass(frozen=True)
class _Array:
    bytes: int
    on_chip: bool  # in a TPU's on-chip memory, not in its HBM


@dataclasses.dataclass(frozen=True)
class _Instruction:
    name: str
    arrays: tuple[_Array, ...]
    kind: str
    operands: tuple[str, ...]
    text: str  # operands and attributes

    @property
    def bytes(self) -> int:
        """In the device's memory."""
        return sum(array.bytes for array in self.arrays if not array.on_chip)

    def called(self, *names: str) -> list[str]:
        """The computations in the attributes `names`."""
        pattern = rf"\b(?:{'|'.join(names)})=(?:%?([\w.\-]+)|\{{([^}}]*)\}})"
        values = [single or listed for single, listed in re.findall(pattern, self.text)]
        return [name.strip().lstrip("%") for value in values for name in value.split(",")]


class Program:
    """A compiled program of one device, `jax.stages.Compiled.as_text()`."""

    def __init__(self, text: str, mesh_shape: dict[str, int]):
        self._mesh = mesh_shape
        self._computations: dict[str, dict[str, _Instruction]] = {}
        self._entry = ""
        for block in re.split(r"\n(?=\S)", text):
            head = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{", block)
            if head is None:
                continue
            if head[1]:
                self._entry = head[2]
            lines = map(_LINE.match, block.splitlines())
            self._computations[head[2]] = {m[1]: _instruction(*m.groups()) for m in lines if m}

    @functools.cached_property
    def bytes_moved(self) -> int:
        """The bytes that the kernels of a step read and write in the device's memory; an upper
        bound, since caches serve some of them."""
        return self._total(self._executed(self._entry))

    @functools.cached_property
    def collectives(self) -> list[Collective]:
        """The collectives of a step, by kind and axes, those with most bytes first."""
        count: collections.Counter[tuple[str, tuple[str, ...]]] = collections.Counter()
        sent: collections.Counter[tuple[str, tuple[str, ...]]] = collections.Counter()
        for times, _, instruction in self._executed(self._entry):
            for collective, exchange in self._exchanges(instruction):
                group = self._group(exchange.text)
                if len(group) > 1:
                    key = collective, self._axes(group)
                    count[key] += times
                    sent[key] += times * _sent(collective, exchange, len(group))
        return [Collective(*key, count[key], size) for key, size in sent.most_common()]

    def _exchanges(self, instruction: _Instruction) -> Iterator[tuple[str, _Instruction]]:
        """The collectives that an instruction starts; on a TPU also those inside fusions, of which
        several (start, continue, finish) may contain the same one."""
        opcode = instruction.kind.removesuffix("-start")
        if opcode in _COLLECTIVES:
            yield opcode, instruction
        if opcode == "fusion":
            (called,) = instruction.called("calls")
            if called.startswith("async_collective_fusion") or instruction.name.startswith(
                "async-collective-done"
            ):
                return
            for inner in self._computations[called].values():
                for collective, exchange in self._exchanges(inner):
                    scattered = collective == "all-reduce" and called.startswith(
                        "all-reduce-scatter"
                    )
                    yield "reduce-scatter" if scattered else collective, exchange

    def _executed(self, name: str, times: int = 1) -> Iterator[tuple[int, str, _Instruction]]:
        """(times, computation, instruction) for each instruction that runs in a computation and in
        those that it calls; of conditional branches the one with most traffic."""
        for instruction in self._computations[name].values():
            opcode = instruction.kind
            if opcode == "while":
                (body,) = instruction.called("body")
                yield from self._executed(body, times * self._length(instruction))
            elif opcode == "conditional":
                branches = instruction.called(
                    "true_computation", "false_computation", "branch_computations"
                )
                runs = [list(self._executed(branch, times)) for branch in branches]
                yield from max(runs, key=self._total)
            elif opcode in ("call", "async-start"):
                for called in instruction.called("to_apply", "calls"):
                    yield from self._executed(called, times)
            elif opcode not in _FREE and not opcode.endswith(("-done", "-update")):
                yield times, name, instruction

    def _total(self, executed: Iterable[tuple[int, str, _Instruction]]) -> int:
        return sum(times * self._moved(name, instruction) for times, name, instruction in executed)

    def _length(self, loop: _Instruction) -> int:
        if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.text):
            return int(known[1])
        (condition,) = loop.called("condition")
        ends = [
            int(number[1])
            for instruction in self._computations[condition].values()
            if instruction.kind == "constant" and (number := re.match(r"(\d+)\)", instruction.text))
        ]
        return max(ends, default=1)

    def _moved(self, computation: str, instruction: _Instruction) -> int:
        arrays = self._computations[computation]
        if instruction.kind == "fusion":
            (called,) = instruction.called("calls")
            return self._of_fusion(called, instruction)
        if instruction.kind in ("copy-start", "slice-start"):  # between HBM and on-chip memory
            moving = [array for array in instruction.arrays if array.bytes > _CONTEXT]
            sides = 1 if any(array.on_chip for array in moving) else 2
            return sides * min((array.bytes for array in moving), default=0)
        if instruction.kind.endswith("-start"):
            return instruction.bytes
        if instruction.kind in ("dynamic-slice", "slice", "gather"):
            return 2 * instruction.bytes
        if instruction.kind == "dynamic-update-slice":
            return 2 * arrays[instruction.operands[1]].bytes
        return instruction.bytes + sum(arrays[n].bytes for n in instruction.operands if n in arrays)

    def _of_fusion(self, name: str, fusion: _Instruction) -> int:
        """The traffic of a fusion: of operands that it only slices, the slices; of an array that it
        updates in place, the updated part."""
        inside = self._computations[name]
        uses = collections.defaultdict(list)
        for instruction in inside.values():
            for operand in instruction.operands:
                uses[operand].append(instruction)
        in_place = 0
        for instruction in inside.values():
            if instruction.kind == "dynamic-update-slice":
                array, update = instruction.operands[:2]
                in_place += instruction.bytes - inside[update].bytes
                uses[array].remove(instruction)
        read = 0
        for instruction in inside.values():
            if instruction.kind == "parameter":
                slices = [
                    use
                    for use in uses[instruction.name]
                    if use.kind in ("dynamic-slice", "slice", "gather")
                    and use.operands[0] == instruction.name
                ]
                sliced = instruction.bytes and len(slices) == len(uses[instruction.name])
                read += sum(use.bytes for use in slices) if sliced else instruction.bytes
        return read + max(0, fusion.bytes - in_place)

    def _group(self, text: str) -> Sequence[int]:
        """The devices of the first group of a collective."""
        devices = math.prod(self._mesh.values())
        if pairs := re.search(r"source_target_pairs=\{\{(\d+),(\d+)\}", text):
            return [int(pairs[1]), int(pairs[2])]
        if mesh := re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", text):
            sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
            names, shape = list(sizes), [int(size) for size in sizes.values()]
            inside = [names.index(name) for name in re.findall(r"'(\w+)'", mesh[2])]
            ids = np.arange(math.prod(shape)).reshape(shape)
            at = tuple(slice(None) if axis in inside else 0 for axis in range(len(shape)))
            return ids[at].ravel().tolist()
        if iota := _IOTA.search(text):
            shape, dims, order = (
                [int(n) for n in (s or "").split(",") if n] for s in iota.groups()
            )
            ids = np.arange(devices).reshape(dims)
            return ids.transpose(order or range(ids.ndim)).reshape(shape)[0].tolist()
        if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", text):
            return [int(n) for n in listed[1].split(",")]
        return list(range(devices))

    def _axes(self, group: Sequence[int]) -> tuple[str, ...]:
        positions = np.stack(np.unravel_index(np.array(group), tuple(self._mesh.values())))
        differing = (positions != positions[:, :1]).any(axis=1)
        return tuple(name for name, differs in zip(self._mesh, differing, strict=True) if differs)


def _instruction(name: str, shape: str, kind: str, text: str) -> _Instruction:
    inside = re.split(r"\), |\)$", text, maxsplit=1)[0]
    arrays, operands = map(_array, _ARRAY.finditer(shape)), re.findall(r"%([\w.\-]+)", inside)
    return _Instruction(name, tuple(arrays), kind, tuple(operands), text)


def _array(match: re.Match[str]) -> _Array:
    dtype, dims, layout = match.groups()
    width = re.search(r"\d+", dtype)
    bits = _BITS.get(dtype, int(width[0]) if width else 0)
    size = math.prod(int(n) for n in dims.split(",") if n)
    return _Array(-(-size * bits // 8), bool(re.search(r"S\([1-9]\)", layout or "")))


def _sent(kind: str, instruction: _Instruction, devices: int) -> int:
    """The bytes that a device sends in a ring of `devices`."""
    sizes = [array.bytes for array in instruction.arrays]
    if instruction.kind == "all-gather-start":
        sizes = sizes[len(sizes) // 2 :]  # the results follow the operands
    if instruction.kind == "collective-permute-start":
        sizes = sizes[:1]
    total, peers = sum(sizes), devices - 1
    if kind == "all-reduce":
        return 2 * total * peers // devices
    if kind == "reduce-scatter" and instruction.kind != "all-reduce":
        return total * peers
    return total if kind == "collective-permute" else total * peers // devices

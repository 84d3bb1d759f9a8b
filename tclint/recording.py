"""Recorded launches: the folders that ``tclint capture`` writes (``docs/capture.md``).

A folder contains ``launch.json``, the contents of each allocation before and after the launch, and the PTX of the
kernel. It is created under another name and renamed when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from operator import le
from pathlib import Path
from typing import Any, NoReturn

from tclint._dataclass import dataclass
from tclint._read import read_file
from tclint.ir.nodes import MAX_BLOCK, MAX_CLUSTER_CTAS, MAX_CTA_THREADS, MAX_GRID, MAX_SHARED_BYTES
from tclint.syntax.source import SourceError

__all__ = [
    "DESCRIPTION",
    "VERSION",
    "Allocation",
    "RecordedMap",
    "Recording",
    "RecordingError",
    "decode_map",
    "read_recording",
]

VERSION = 1
"""The version of the format that is read and written."""
DESCRIPTION = "launch.json"
MAP_SIZE = 128
"""Bytes of a tensor map."""
_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 8, 8)
"""Bits of an element in shared memory, in the order of CUDA's enumeration; the last two types are padded there."""

_MEANINGFUL = 64
"""The first bytes of a tensor map, which describe it."""
_KNOWN_FORMAT = [9, 0]
"""The compute capability on which the bytes of tensor maps were compared with their arguments."""
_MAP_TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9)
"""The types of CUDA's enumeration, in the order of the numbers in a tensor map."""
_MAP_TF32 = {7: 11, 10: 12}
"""Those of them that another bit makes ``tf32``."""

Three = tuple[int, int, int]
_CLUSTER: Three = (MAX_CLUSTER_CTAS,) * 3


class RecordingError(SourceError):
    """A folder is not a recorded launch that can be used; the message names the folder."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocation that the parameters of the launch lead to."""

    address: int
    size: int
    """Bytes."""
    before: Path | None
    """The file with its contents before the launch; None if they were not recorded."""
    after: Path | None
    """The file with its contents after the launch; None if they are unchanged or were not recorded."""
    problem: str = ""
    """Why something of it was not recorded."""
    variable: str = ""
    """The name of the variable of the module that it is; empty for any other memory."""


@dataclass(frozen=True, slots=True)
class RecordedMap:
    """The arguments of a ``cuTensorMapEncode*``, with the numbers of CUDA's enumerations; innermost dimension first."""

    data: bytes
    """The 128 bytes that the driver made of them."""
    mode: str
    """``tile``, ``im2col`` or ``im2col-wide``."""
    address: int
    type: int
    dimensions: tuple[int, ...]
    strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    box: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    interleave: int
    swizzle: int
    fill: int

    @property
    def box_bytes(self) -> int | None:
        """The bytes that one copy through the map completes on an mbarrier; None if they are unknown."""
        if self.mode != "tile" or self.type >= len(_BITS) or not self.box:
            return None
        rows = prod(-(-n // step) for n, step in zip(self.box[1:], self.element_strides[1:], strict=True))
        return -(-self.box[0] * _BITS[self.type] // 8) * rows


def decode_map(data: bytes) -> RecordedMap | None:
    """The tensor map in these 128 bytes, as compute capability 9.0 has it; None if they are none.

    Programs such as those of CuTe DSL write the bytes themselves: the first 64, as the others have no meaning.
    """
    word = int.from_bytes(data[:_MEANINGFUL], "little")

    def field(at: int, bits: int) -> int:
        return word >> at & (1 << bits) - 1

    rank, kind = field(68, 3) + 1, field(71, 4)
    unused = field(83, 2) | field(86, 10) | field(431, 9) | field(240, 16)
    if rank > 5 or kind >= len(_MAP_TYPES) or unused:
        return None
    number = _MAP_TYPES[kind]
    if field(80, 1):
        number = _MAP_TF32.get(number, -1)
    beyond = any(field(256 + 32 * i, 32) or field(416 + 3 * i, 3) for i in range(rank, 5))
    width = field(440, 8) + 1
    if number < 0 or width * _BITS[number] % 128 or beyond or field(0, 4) or not field(0, 64):
        return None
    dimensions = tuple(field(256 + 32 * i, 32) + 1 for i in range(rank))
    strides = tuple((field(96 + 32 * i, 32) | field(224 + 4 * i, 4) << 32) << 4 for i in range(rank - 1))
    steps = tuple(field(416 + 3 * i, 3) + 1 for i in range(rank))
    shown = dimensions, strides, steps
    last = field(75, 2), field(77, 2), field(79, 1)
    if not field(64, 1):
        box = (width, *(field(448 + 8 * i, 8) + 1 for i in range(rank - 1)))
        if field(440 + 8 * rank, 72 - 8 * rank):
            return None
        return RecordedMap(data, "tile", field(0, 64), number, *shown, box, (), (), 0, 0, *last)
    if rank < 3:
        return None
    size = 16 // (rank - 2)
    lower, upper = (
        tuple(_signed(field(at + size * i, size), size) for i in range(rank - 2)) for at in (448, 464)
    )
    pixels = field(480, 10) + 1
    return RecordedMap(data, "im2col", field(0, 64), number, *shown, (), lower, upper, width, pixels, *last)


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


@dataclass(frozen=True, slots=True)
class Recording:
    """One launch of a program, as the driver received it."""

    path: Path
    kernel: str
    grid: Three
    block: Three
    cluster: Three | None
    """The cluster that the launch asked for; None for that of the kernel."""
    shared: int
    """Bytes of dynamic shared memory."""
    parameters: bytes
    """The parameter space."""
    layout: tuple[tuple[int, int], ...]
    """Offset and size of each parameter."""
    maps: tuple[RecordedMap, ...]
    allocations: tuple[Allocation, ...]
    ptx: Path | None
    end: str
    """``done``, ``unfinished`` for a kernel that hung, or the name of the error with which the launch failed."""
    decodes_maps: bool = False
    """Whether the tensor maps that the program made without the driver are known too."""
    cooperative: bool = False
    """Whether the CTAs of the grid may wait for each other, as all of them run at the same time."""

    def require_kernel(self, name: str, sizes: Sequence[int] | None) -> None:
        """Raises :class:`RecordingError` unless the parameters have these *sizes*.

        They are those of the kernel in the input *name*; None if it has no such kernel.
        """
        if sizes is None:
            _fail(self.path, f"a launch of {self.kernel}, which {name} does not contain")
        if list(sizes) != [size for _, size in self.layout]:
            recorded = ", ".join(str(size) for _, size in self.layout)
            given = ", ".join(map(str, sizes))
            _fail(
                self.path,
                f"{self.kernel} has parameters of {recorded or 0} bytes; in {name}, of {given or 0} bytes",
            )

    def map_of(self, data: bytes) -> RecordedMap | None:
        """The tensor map that these bytes of a parameter or of memory are; None if they are none that is known.

        One that the program made without the driver is that of a tensor in a recorded allocation.
        """
        for recorded in self.maps:
            if recorded.data == data:
                return recorded
        found = decode_map(data) if self.decodes_maps and len(data) == MAP_SIZE else None
        return found if found is not None and self._allocation(found.address, 1) is not None else None

    def map_at(self, parameter: int, offset: int) -> RecordedMap | None:
        """The tensor map that begins at this offset of a parameter; None if none that is known does."""
        data = self.values[parameter] if parameter < len(self.layout) else b""
        return self.map_of(data[offset : offset + MAP_SIZE])

    def map_in(self, address: int) -> RecordedMap | None:
        """The tensor map at this address of memory before the launch; None if none that is known is there."""
        found = self._allocation(address, MAP_SIZE)
        if found is None or found.before is None:
            return None
        try:
            with found.before.open("rb") as file:
                file.seek(address - found.address)
                return self.map_of(file.read(MAP_SIZE))
        except OSError as error:
            _fail(self.path, f"{found.before.name} cannot be read: {error.strerror}")

    def variable(self, name: str) -> int:
        """The address of a variable of the module; 0 if it was not recorded."""
        return next((a.address for a in self.allocations if a.variable == name), 0)

    def _allocation(self, address: int, size: int) -> Allocation | None:
        """The allocation with these bytes; None if they are not in one."""
        inside = (
            a for a in self.allocations if a.address <= address and address + size <= a.address + a.size
        )
        return next(inside, None)

    @property
    def values(self) -> tuple[bytes, ...]:
        """The bytes of each parameter."""
        return tuple(self.parameters[at : at + size] for at, size in self.layout)

    def require_memory(self) -> None:
        """Raises :class:`RecordingError` if the contents of an allocation before the launch are missing."""
        for allocation in self.allocations:
            if allocation.before is None:
                _fail(
                    self.path,
                    f"the {allocation.size} bytes at {allocation.address:#x} are not recorded: {allocation.problem}",
                )


def _fail(path: Path, what: str) -> NoReturn:
    raise RecordingError(f"{path}: {what}")


def read_recording(path: Path | str) -> Recording:
    """The recorded launch in the folder at *path*. Raises :class:`RecordingError`."""
    path = Path(path)
    description = path / DESCRIPTION
    if not description.is_file():
        parts = any(path.glob(f"*/{DESCRIPTION}")) or any(path.glob("*/log")) or any(path.glob("*.before"))
        _fail(path, "an incomplete capture" if parts else f"not a recorded launch: it has no {DESCRIPTION}")
    try:
        found = json.loads(read_file(description).decode())
    except (OSError, ValueError, RecursionError) as error:
        _fail(path, f"{DESCRIPTION}: {error}")
    return _Reader(path, found).recording()


class _Reader:
    """Turns the description of a launch into a :class:`Recording`."""

    def __init__(self, path: Path, found: Any) -> None:
        self.path = path
        if not isinstance(found, dict) or not isinstance(found.get("version"), int):
            _fail(path, f"{DESCRIPTION} does not describe a launch")
        if found["version"] > VERSION:
            _fail(path, f"has version {found['version']} of the format; this tclint reads {VERSION}")
        self.found: dict[str, Any] = found

    def recording(self) -> Recording:
        parameters = self._take(self.found, "parameters", _is_table)
        data = self._bytes(parameters, "bytes")
        layout = tuple(map(tuple, self._take(parameters, "layout", _is_layout)))
        for at, size in layout:
            if at + size > len(data):
                _fail(self.path, f"parameters.layout: {size} bytes at {at} are not in the {len(data)} bytes")
        maps = tuple(map(self._map, self._take(self.found, "maps", _is_tables)))
        allocations = tuple(map(self._allocation, self._take(self.found, "buffers", _is_tables)))
        ordered = sorted((a.address, a.size) for a in allocations)
        for (address, size), (following, _) in pairwise(ordered):
            if address + size > following:
                _fail(self.path, f"buffers: those at {address:#x} and {following:#x} overlap")
        ptx = self.found.get("ptx")
        return Recording(
            self.path, self._take(self.found, "kernel", lambda v: isinstance(v, str)),
            self._three("grid", MAX_GRID), self._three("block", MAX_BLOCK, MAX_CTA_THREADS),
            self._three("cluster", _CLUSTER, MAX_CLUSTER_CTAS) if "cluster" in self.found else None,
            self._take(self.found, "shared", lambda v: _is_count(v) and v <= MAX_SHARED_BYTES), data, layout, maps, allocations,
            self._file(ptx, None) if ptx is not None else None,
            self._take(self.found, "end", lambda v: isinstance(v, str)), self.found.get("capability") == _KNOWN_FORMAT,
            "cooperative" in self.found and self._take(self.found, "cooperative", lambda v: isinstance(v, bool)),
        )  # fmt: skip

    def _take(self, table: dict[str, Any], key: str, valid: Callable[[Any], bool]) -> Any:
        if key not in table:
            _fail(self.path, f"{DESCRIPTION}: {key} is missing")
        if not valid(table[key]):
            _fail(self.path, f"{DESCRIPTION}: {key} is {str(table[key])[:60]!r}")
        return table[key]

    def _three(self, key: str, limits: Three, most: int | None = None) -> Three:
        """A size of the launch within the *limits* of each dimension, and of *most* altogether."""

        def valid(value: Any) -> bool:
            if not (_is_counts(value) and len(value) == 3 and min(value) > 0):
                return False
            return all(map(le, value, limits)) and (most is None or prod(value) <= most)

        x, y, z = self._take(self.found, key, valid)
        return x, y, z

    def _bytes(self, table: dict[str, Any], key: str) -> bytes:
        text = self._take(table, key, lambda v: isinstance(v, str))
        try:
            return bytes.fromhex(text)
        except ValueError:
            _fail(self.path, f"{DESCRIPTION}: {key} is not hexadecimal")

    def _file(self, name: Any, size: int | None) -> Path:
        """A file of the folder, which must have *size* bytes if that is given."""
        if not isinstance(name, str) or Path(name).name != name:
            _fail(self.path, f"{DESCRIPTION}: {name!r} is not the name of a file in the folder")
        file = self.path / name
        try:
            if not file.is_file():
                _fail(self.path, f"an incomplete capture: {name} is missing")
            if size is not None and file.stat().st_size != size:
                _fail(self.path, f"{name} has {file.stat().st_size} bytes, not {size}")
        except OSError as error:
            _fail(self.path, f"{name[:60]} cannot be read: {error.strerror}")
        return file

    def _allocation(self, table: dict[str, Any]) -> Allocation:
        size = self._take(table, "size", lambda v: _is_count(v) and v > 0)
        before, after = (
            self._file(table[key], size) if key in table else None for key in ("before", "after")
        )
        problem = str(table.get("problem", ""))
        address = self._take(table, "address", lambda v: _is_count(v) and v + size <= 1 << 57)
        return Allocation(address, size, before, after, problem, str(table.get("variable", "")))

    def _map(self, table: dict[str, Any]) -> RecordedMap:
        data = self._bytes(table, "bytes")
        if len(data) != MAP_SIZE:
            _fail(self.path, f"{DESCRIPTION}: a tensor map of {len(data)} bytes")

        def count(key: str) -> int:
            found: int = self._take(table, key, _is_count)
            return found

        def counts(key: str, optional: bool = False) -> tuple[int, ...]:
            if optional and key not in table:
                return ()
            return tuple(self._take(table, key, _is_integers))

        im2col = "channels" in table
        found = RecordedMap(
            data, self._take(table, "mode", lambda v: v in ("tile", "im2col", "im2col-wide")), count("address"),
            count("type"), counts("dimensions"), counts("strides"), counts("element_strides"),
            counts("box", True), counts("lower", True), counts("upper", True),
            count("channels") if im2col else 0, count("pixels") if im2col else 0,
            count("interleave"), count("swizzle"), count("fill"),
        )  # fmt: skip
        rank = len(found.dimensions)
        ranks = len(found.strides) + 1, len(found.element_strides), len(found.box) if "box" in table else rank
        if not rank or any(each != rank for each in ranks):
            _fail(self.path, f"{DESCRIPTION}: a tensor map with lists for different numbers of dimensions")
        if min(found.dimensions + found.element_strides + found.box) < 1:
            _fail(self.path, f"{DESCRIPTION}: a tensor map with a size or step below 1")
        return found


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_table, value))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_integers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in value)


def _is_counts(value: Any) -> bool:
    return _is_integers(value) and all(map(_is_count, value))


def _is_layout(value: Any) -> bool:
    return isinstance(value, list) and all(_is_counts(pair) and len(pair) == 2 for pair in value)

"""Launch files, ``kernel.launch.toml``, which describe how a kernel is launched (``docs/launch-files.md``).

Lists of sizes are ordered as in numpy, the outermost dimension first; those of a
:class:`~tclint.executor.tensor_maps.TensorMap` have the opposite order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from pathlib import Path, PurePath
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tclint._dataclass import dataclass
from tclint._read import read_file, size_words
from tclint.executor.formats import encode
from tclint.executor.tensor_maps import SIZE, TensorMap
from tclint.executor.tensor_maps import TYPES as MAP_TYPES
from tclint.ir.nodes import (
    MAX_BLOCK,
    MAX_CLUSTER_CTAS,
    MAX_CTA_THREADS,
    MAX_GRID,
    MAX_SHARED_BYTES,
    Function,
)
from tclint.isa.documents import TableError, parse_toml
from tclint.recording import Recording

__all__ = [
    "TYPES", "Argument", "Buffer", "Expectation", "Launch", "LaunchError", "LaunchFile", "MapSpec", "MapValue", "Metadata", "Pointer",
    "fits", "geometry", "load_array", "metadata_of", "read", "triton_beside", "triton_launch",
]  # fmt: skip

Array = NDArray[Any]
Three = tuple[int, int, int]

_FORMATS = {
    "bf16": np.uint16, "e4m3": np.uint8, "e5m2": np.uint8, "e3m2": np.uint8, "e2m3": np.uint8, "e2m1": np.uint8,
    "ue8m0": np.uint8,
}  # fmt: skip
TYPES: dict[str, np.dtype[Any]] = {
    **{f"u{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"{sign}{bits}": np.dtype(f"i{bits // 8}") for sign in "si" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    **{name: np.dtype(kind) for name, kind in _FORMATS.items()},
}
"""Types of buffers and scalars, and their numpy types.

numpy has no equivalent of ``bf16`` and the types after it: their elements are bit patterns.
"""

_MAP_TYPES = {f"{sign}{bits}": f"u{bits}" for sign in "usi" for bits in (8, 16)}
_MAP_TYPES |= {f"i{bits}": f"s{bits}" for bits in (32, 64)}
_MAP_TYPES |= {name: "u8" for name in _FORMATS if name != "bf16"}
"""The element type of a map of a buffer, where its name differs from the type of the buffer."""

_POISON = 0xFF
"""Fills buffers that a kernel must write; NaN if it is read as a floating-point number."""
MAX_BUFFER_BYTES = 4 * 2**30
"""What all buffers of a launch file may have together, since a short file can ask for any amount of memory."""


class LaunchError(ValueError):
    """A launch file is invalid, or a launch does not fit its kernel."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in global memory."""

    type: str
    """A key of :data:`TYPES`."""
    shape: tuple[int, ...]
    values: float | tuple[float, float] | None = None
    """A number for all elements, the bounds of random numbers, or None for poison: all bits set.

    The numbers are integers if both bounds are, and otherwise uniformly distributed.
    """
    seed: int | None = None
    """The seed of the random numbers; None for the position among the buffers."""
    file: Path | None = None
    """The file with the contents, instead of ``values``: ``.npy``, or raw bytes under any other name."""
    output: str = ""
    """The file that the contents are written to after the launches, in the same two formats: a relative path, with
    slashes, below the folder that the user names; empty for none."""
    address: int | None = None
    """The address in a recorded launch; None for one that may be anywhere."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return TYPES[self.type]

    @property
    def has_bit_patterns(self) -> bool:
        """Whether numpy has no equivalent of the type, so that elements are bit patterns."""
        return self.type in _FORMATS

    @property
    def size(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class MapSpec:
    """A tensor map of a part of a buffer."""

    buffer: str
    tensor: TensorMap
    """The map, whose address is an offset in the buffer."""

    def at(self, address: int) -> TensorMap:
        """The map if the buffer is at *address*."""
        return replace(self.tensor, address=address + self.tensor.address)


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument: the address of a buffer, or of the 128 bytes of a map, plus an offset in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MapValue:
    """An argument: the 128 bytes of a map, in the parameter itself."""

    name: str


Argument = Pointer | MapValue | bytes
"""An argument; bytes are a scalar or a structure."""

Expectation = Path | float
"""The expected contents of a buffer: an ``.npy`` file, or a number for all elements."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel."""

    entry: str
    grid: Three
    block: Three
    cluster: Three | None = None
    """None for the ``.reqnctapercluster`` of the kernel, or no clusters without one."""
    shared: int = 0
    """Bytes of dynamic shared memory."""
    arguments: tuple[Argument, ...] = ()
    dependent: bool = False
    """Whether it may begin before the previous launch ends (programmatic dependent launch)."""


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """The contents of a launch file; no name is in both ``buffers`` and ``maps``."""

    path: Path
    ptx: Path | None
    buffers: Mapping[str, Buffer]
    maps: Mapping[str, MapSpec]
    launches: tuple[Launch, ...]
    expected: Mapping[str, Expectation] = field(default_factory=dict)
    """The contents that buffers must have after the launches."""
    unevaluated: tuple[str, ...] = ()
    """Buffers whose expected contents are an expression, which only the benchmarks of tclint evaluate."""
    tolerance: float | None = None
    """The largest difference from an expected value, relative to that value if it is larger than 1; None: what rounding to the
    type of the elements explains (:mod:`tclint.executor.results`)."""
    files: tuple[Path, ...] = ()
    """The launch file and all files that it names; for a recorded launch, those in its folder."""
    recorded: Recording | None = None
    """The launch of a program that this is; None for a file that someone wrote."""
    element_type: str = ""
    """A key of :data:`TYPES`, as which the results of a recorded launch are compared; empty for bytes."""
    recorded_map: Callable[[bytes], TensorMap | None] | None = None
    """The tensor map that 128 bytes in the format of the GPU are, if any; None without a recorded launch."""

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each allocation in global memory: every buffer, and the maps that a launch passes by pointer."""
        found = {name: buffer.size for name, buffer in self.buffers.items()}
        for launch in self.launches:
            for argument in launch.arguments:
                if isinstance(argument, Pointer) and argument.name in self.maps:
                    found[argument.name] = SIZE
        return found

    def arrays(self, number: int = 0) -> dict[str, Array]:
        """The contents of every buffer before run *number*, which seeds the random integers."""
        return {name: self._array(name, index, number) for index, name in enumerate(self.buffers)}

    def _array(self, name: str, index: int, number: int) -> Array:
        buffer = self.buffers[name]
        if buffer.file:
            return np.array(_opened(buffer, self.path, name), order="C")
        if buffer.values is None:
            return np.full(buffer.size, _POISON, np.uint8).view(buffer.dtype).reshape(buffer.shape)
        if isinstance(buffer.values, tuple):
            low, high = buffer.values
            seed = index if buffer.seed is None else buffer.seed
            generator = np.random.default_rng([number, seed])
            if _whole(low) and _whole(high):
                return _stored(buffer.type, generator.integers(int(low), int(high) + 1, buffer.shape))
            return _stored(buffer.type, generator.uniform(low, high, buffer.shape))
        return np.full(buffer.shape, _stored(buffer.type, np.array(buffer.values)))

    def parameters(self, launch: Launch, addresses: Mapping[str, int]) -> tuple[bytes, ...]:
        """The bytes of each parameter, given the *addresses* of the allocations in :attr:`sizes`."""
        return tuple(self._parameter(argument, addresses) for argument in launch.arguments)

    def _parameter(self, argument: Argument, addresses: Mapping[str, int]) -> bytes:
        if isinstance(argument, Pointer):
            return (addresses[argument.name] + argument.offset).to_bytes(8, "little")
        if isinstance(argument, MapValue):
            return self.map_bytes(argument.name, addresses)
        return argument

    def map_bytes(self, name: str, addresses: Mapping[str, int]) -> bytes:
        """The 128 bytes of a map, given the *addresses* of the buffers."""
        spec = self.maps[name]
        return spec.at(addresses[spec.buffer]).encode()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that its buffers are written to."""
        return tuple(buffer.output for buffer in self.buffers.values() if buffer.output)


def _stored(type: str, numbers: Array) -> Array:
    """*numbers* converted to the representation of a buffer of *type*."""
    with np.errstate(over="ignore"):
        return encode(type, numbers.astype(np.float64)) if type in _FORMATS else numbers.astype(TYPES[type])


def _opened(buffer: Buffer, path: Path, name: str) -> Array:
    """The contents of a buffer that comes from a file, mapped into memory. Raises :class:`LaunchError`."""
    file, key = buffer.file, f"buffers.{name}.file"
    assert file is not None
    try:
        if not file.is_file():
            _fail(path, f"{file.name}: No such file", key)
        if file.suffix != ".npy":
            if file.stat().st_size != buffer.size:
                _fail(path, f"{file.name} has {file.stat().st_size} bytes, not {buffer.size}", key)
            return np.memmap(file, buffer.dtype, "r", shape=buffer.shape)
        found = load_array(file)
    except (OSError, ValueError) as error:
        if isinstance(error, LaunchError):
            raise
        _fail(path, f"{file.name}: {error}", key)
    if found.dtype.kind == "V" and found.dtype.itemsize == buffer.dtype.itemsize:
        found = found.view(buffer.dtype)  # numpy saves the types of ml_dtypes as void
    if found.dtype != buffer.dtype:
        _fail(path, f"{file.name} holds {found.dtype}, not {buffer.dtype}", key)
    if found.shape != buffer.shape:
        _fail(path, f"{file.name} has shape {list(found.shape)}, not {list(buffer.shape)}", key)
    return found


def load_array(file: Path) -> Array:
    """The array in an ``.npy`` file, mapped into memory. Raises OSError, and ValueError for any other contents."""
    if not file.is_file():
        raise FileNotFoundError("No such file")
    try:
        found = np.load(file, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise TypeError("it is an archive")
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - numpy has Python's tokenizer and parser read the header
        raise ValueError(f"not an .npy file: {error}") from None
    return found


# ---------------------------------------------------------------- reading


def _fail(path: Path, what: str, key: str) -> NoReturn:
    raise LaunchError(f"{path}: {what}: {key}")


def read(path: Path | str) -> LaunchFile:
    """Read and validate the launch file at *path*.

    Raises :class:`LaunchError`, whose message has the form ``file: what is wrong: key``.
    """
    path = Path(path)
    try:
        document = parse_toml(read_file(path, special=True).decode(), path)
    except TableError as error:
        raise LaunchError(f"{path}: {str(error).removeprefix(path.name + ': ')}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{path}: {error}") from error
    return _Reader(path).file(document)


def beside(path: str) -> Path | None:
    """The launch file ``kernel.launch.toml`` beside ``kernel.ptx``; None if there is none."""
    kernel = Path(path)
    launch = kernel.with_name(kernel.name.partition(".ptx")[0] + ".launch.toml")
    return launch if launch.is_file() else None


class _Table:
    """A table of the file. Keys are removed as they are read; :meth:`end` refuses those that remain."""

    def __init__(self, path: Path, key: str, values: Any) -> None:
        self.path, self.key = path, key
        if not isinstance(values, dict):
            self.fail("not a table")
        self.values: dict[str, Any] = dict(values)

    def fail(self, what: str, key: str = "") -> NoReturn:
        _fail(self.path, what, ".".join(part for part in (self.key, key) if part))

    def take(self, key: str, expected: str, valid: Callable[[Any], bool], default: Any = ...) -> Any:
        """The value of *key*, or *default*; an invalid or, without a default, missing value is an error."""
        value = self.values.pop(key, default)
        if value is ...:
            self.fail("missing", key)
        if value is not default and not valid(value):
            self.fail(f"{value!r} is not {expected}", key)
        return value

    def text(self, key: str, default: Any = ...) -> Any:
        return self.take(key, "a string", lambda value: isinstance(value, str), default)

    def flag(self, key: str) -> bool:
        return bool(self.take(key, "true or false", lambda value: isinstance(value, bool), False))

    def integer(self, key: str, default: Any = ..., low: int = 0, high: int | None = None) -> Any:
        expected = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
        return self.take(
            key,
            expected,
            lambda value: _whole(value) and low <= value and (high is None or value <= high),
            default,
        )

    def integers(self, key: str, default: Any = ...) -> Any:
        """A list of integers, as a tuple."""
        found = self.take(
            key,
            "a list of integers",
            lambda value: isinstance(value, list) and all(map(_whole, value)),
            default,
        )
        return found if found is default else tuple(found)

    def tables(self, key: str) -> dict[str, _Table]:
        """The tables inside the table *key*, by name."""
        inside = _Table(self.path, key, self.values.pop(key, {}))
        return {name: _Table(self.path, f"{key}.{name}", value) for name, value in inside.values.items()}

    def end(self) -> None:
        """Refuse the keys that were not read."""
        for key in self.values:
            self.fail("unknown key", key)


def _is_below(name: str) -> bool:
    """Whether a path leads below the folder that it is relative to: a launch file may be from a stranger."""
    path = PurePath(name)
    return not path.anchor and ".." not in path.parts and path.parts != () and "\0" not in name


_MOST_DRAWN = 1 << 63
"""The bound of what random numbers are drawn from, as a magnitude."""


def _whole(value: Any) -> bool:
    """Whether a value of the file is an integer; TOML's booleans are Python integers."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_tolerance(value: Any) -> bool:
    return (_whole(value) or isinstance(value, float)) and value >= 0


class _Reader:
    """Turns the document of a launch file into a :class:`LaunchFile`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.buffers: dict[str, Buffer] = {}
        self.maps: dict[str, MapSpec] = {}
        self.files = [path]

    def file(self, document: dict[str, Any]) -> LaunchFile:
        top = _Table(self.path, "", document)
        ptx = self._named(top, "ptx")
        for name, table in top.tables("buffers").items():
            self.buffers[name] = self._buffer(name, table)
            if sum(buffer.size for buffer in self.buffers.values()) > MAX_BUFFER_BYTES:
                table.fail(f"the buffers have more than {size_words(MAX_BUFFER_BYTES)}", "shape")
        for name, table in top.tables("maps").items():
            if name in self.buffers:
                table.fail("a buffer has the same name")
            self.maps[name] = self._map(table)
        steps = top.take(
            "launches", "a list of tables", lambda value: isinstance(value, list) and bool(value)
        )
        launches = tuple(
            self._launch(_Table(self.path, f"launches[{index}]", step)) for index, step in enumerate(steps)
        )
        expected, unevaluated = self._expected(_Table(self.path, "expected", top.values.pop("expected", {})))
        tolerance = top.take("tolerance", "a number of at least 0", _is_tolerance, None)
        top.values.pop("observed", None)  # expressions, which only tclint's benchmarks evaluate
        top.end()
        return LaunchFile(
            self.path, ptx, self.buffers, self.maps, launches, expected, unevaluated, tolerance, tuple(self.files)
        )  # fmt: skip

    def _named(self, table: _Table, key: str) -> Path | None:
        """The file that a key of the table names, to be read."""
        name = table.text(key, None)
        if name is None:
            return None
        self.files.append(self.path.parent / name)
        return self.files[-1]

    def _expected(self, table: _Table) -> tuple[dict[str, Expectation], tuple[str, ...]]:
        """The expected contents of buffers, and the names of those for which the file has an expression."""
        found: dict[str, Expectation] = {}
        expressions = []
        for name, value in table.values.items():
            if isinstance(value, str) and not value.endswith(".npy"):
                expressions.append(name)
                continue
            if name not in self.buffers:
                table.fail(f"no buffer {name!r}", name)
            if isinstance(value, str):
                found[name] = self.path.parent / value
                self.files.append(self.path.parent / value)
            else:
                _scalar(table, name, self.buffers[name].type, value)
                found[name] = value
        return found, tuple(expressions)

    def _buffer(self, name: str, table: _Table) -> Buffer:
        type = table.take(
            "type", f"one of {', '.join(TYPES)}", lambda value: isinstance(value, str) and value in TYPES
        )
        shape = table.integers("shape")
        if not shape or min(shape) < 1:
            table.fail("a size below 1" if shape else "no dimensions", "shape")
        values, seed = self._values(table, type), table.integer("seed", None)
        output = table.text("output", None)
        buffer = Buffer(type, shape, values, seed, self._named(table, "file"), output or "")
        table.end()
        if output is not None and not _is_below(output):
            table.fail("not a file below the folder of the outputs", "output")
        if buffer.file and buffer.values is not None:
            table.fail("values and file are mutually exclusive", "values")
        if buffer.seed is not None and not isinstance(buffer.values, tuple):
            table.fail("seed without random numbers", "seed")
        if buffer.file:
            _opened(buffer, self.path, name)
        return buffer

    def _values(self, table: _Table, type: str) -> float | tuple[float, float] | None:
        values = table.values.pop("values", None)
        if isinstance(values, list):
            numbers = all(_whole(value) or isinstance(value, float) for value in values)
            if len(values) != 2 or not numbers or not values[0] <= values[1]:
                table.fail(f"{values!r} is not [low, high]", "values")
            if not all(abs(value) < _MOST_DRAWN for value in values):
                table.fail(f"no number can be drawn from {values!r}", "values")
            _scalar(table, "values", type, values[0])
            _scalar(table, "values", type, values[1])
            return values[0], values[1]
        if values is not None:
            _scalar(table, "values", type, values)
        found: float | None = values
        return found

    def _map(self, table: _Table) -> MapSpec:
        name = self._known(table, "buffer", self.buffers)
        buffer = self.buffers[name]
        default_type = _MAP_TYPES.get(buffer.type, buffer.type)
        type = table.text("type", default_type)
        dimensions = table.integers("dimensions", None)
        if dimensions is None and type != default_type:
            table.fail("missing, but required with a type", "dimensions")
        sizes = _innermost_first(dimensions or buffer.shape)
        strides = table.integers("strides", None)
        steps = _dense(sizes, MAP_TYPES.get(type, 8)) if strides is None else _innermost_first(strides)
        fields: dict[str, Any] = {"type": type, "dimensions": sizes, "strides": steps}
        fields["mode"] = table.text("mode", "tile")
        tiled = fields["mode"] == "tile"
        for key in ("box",) if tiled else ("lower", "upper"):
            fields[key] = _innermost_first(table.integers(key))
        for key in () if tiled else ("channels", "pixels"):
            fields[key] = table.integer(key)
        fields["element_strides"] = _innermost_first(table.integers("element_strides", ()))
        fields |= {key: table.integer(key, 0) for key in ("swizzle", "interleave")}
        fields |= {"atomicity": table.text("atomicity", "16B"), "fill": table.text("fill", "zeros")}
        offset = table.integer("offset", 0, high=buffer.size - 1)
        table.end()
        try:
            return MapSpec(name, TensorMap(offset, **fields))
        except ValueError as error:
            field, _, what = str(error).partition(": ")
            table.fail(what, "offset" if field == "address" else field)

    def _known(self, table: _Table, key: str, names: Mapping[str, Any]) -> str:
        name: str = table.text(key)
        if name not in names:
            table.fail(f"no {key} {name!r}", key)
        return name

    def _launch(self, table: _Table) -> Launch:
        metadata = None
        if file := self._named(table, "metadata"):
            try:
                metadata = triton_launch(file)
            except LaunchError as error:
                table.fail(str(error), "metadata")
        entry = table.text("entry", metadata.entry if metadata else ...)
        grid = _three(table, "grid", MAX_GRID, ...)
        block = _three(table, "block", MAX_BLOCK, metadata.block if metadata else ...)
        if prod(block) > MAX_CTA_THREADS:
            table.fail(f"{prod(block)} threads, more than {MAX_CTA_THREADS}", "block")
        cluster = _three(table, "cluster", (MAX_CLUSTER_CTAS,) * 3, metadata.cluster if metadata else None)
        if cluster and prod(cluster) > MAX_CLUSTER_CTAS:
            table.fail(f"{prod(cluster)} CTAs, more than {MAX_CLUSTER_CTAS}", "cluster")
        if cluster and any(size % part for size, part in zip(grid, cluster, strict=True)):
            table.fail(f"{list(grid)} is not a multiple of the cluster, {list(cluster)}", "grid")
        shared = table.integer("shared", metadata.shared if metadata else 0, high=MAX_SHARED_BYTES)
        arguments = table.take("arguments", "a list", lambda value: isinstance(value, list), ())
        found = tuple(
            self._argument(table, f"arguments[{index}]", argument) for index, argument in enumerate(arguments)
        )
        dependent = table.flag("dependent")
        table.end()
        return Launch(entry, grid, block, cluster, shared, found, dependent)

    def _argument(self, parent: _Table, key: str, given: Any) -> Argument:
        if isinstance(given, str):
            if given in self.buffers:
                return Pointer(given)
            if given in self.maps:
                return MapValue(given)
            parent.fail(f"no buffer or map {given!r}", key)
        table = _Table(self.path, f"{parent.key}.{key}", given)
        found: Argument
        if "buffer" in table.values:
            name = self._known(table, "buffer", self.buffers)
            found = Pointer(name, table.integer("offset", 0, high=self.buffers[name].size))
        elif "map" in table.values:
            name = self._known(table, "map", self.maps)
            found = Pointer(name) if table.flag("pointer") else MapValue(name)
        elif "bytes" in table.values:
            text = table.text("bytes")
            try:
                found = bytes.fromhex(text)
            except ValueError:
                table.fail(f"{text!r} is not hexadecimal", "bytes")
        else:
            kind = next(iter(table.values), "")
            if kind not in TYPES:
                table.fail(f"needs one of buffer, map, bytes, {', '.join(TYPES)}")
            found = _scalar(table, kind, kind, table.values.pop(kind))
        table.end()
        return found


def _three(table: _Table, key: str, limits: Three, default: Any) -> Any:
    """A list of one to three sizes up to *limits*; omitted ones are 1."""
    sizes = table.integers(key, default)
    if sizes is default:
        return default
    if not 1 <= len(sizes) <= 3:
        table.fail(f"{len(sizes)} sizes, expected 1 to 3", key)
    x, y, z = [*sizes, 1, 1][:3]
    for size, limit in zip((x, y, z), limits, strict=True):
        if not 1 <= size <= limit:
            table.fail(f"{size} is not in 1 to {limit}", key)
    return x, y, z


def _innermost_first(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(reversed(sizes))


def _dense(sizes: Sequence[int], bits: int) -> tuple[int, ...]:
    """The strides in bytes of an array without gaps; *sizes*, and the result, are innermost first."""
    return tuple(prod(sizes[:axis]) * bits // 8 for axis in range(1, len(sizes)))


def _scalar(table: _Table, key: str, type: str, value: Any) -> bytes:
    """The bytes of a number of *type*; the value must be a number that the type can hold."""
    whole = TYPES[type].kind in "ui" and type not in _FORMATS
    if not (_whole(value) or (isinstance(value, float) and not whole)):
        table.fail(f"{value!r} is not {'an integer' if whole else 'a number'}", key)
    if whole:
        limits = np.iinfo(TYPES[type])
        if not limits.min <= value <= limits.max:
            table.fail(f"{value} is not in {limits.min} to {limits.max}", key)
    return _stored(type, np.array(value)).tobytes()


# ---------------------------------------------------------------- launches and kernels


def geometry(launch: Launch, function: Function) -> tuple[Three, Three]:
    """The sizes of the grid and of a cluster in CTAs, after the directives of the kernel (11.7.1, 11.8.1)."""
    cluster = launch.cluster or _three_of(function, ".reqnctapercluster") or (1, 1, 1)
    if ".blocksareclusters" not in function.directives:
        return launch.grid, cluster
    (x, y, z), (a, b, c) = launch.grid, cluster
    return (x * a, y * b, z * c), cluster


def fits(launch: Launch, function: Function) -> None:
    """Raises :class:`LaunchError` if a launch does not fit the kernel, as the driver would refuse it."""

    def need(holds: bool, what: str, key: str) -> None:
        if not holds:
            raise LaunchError(f"{launch.entry}: {what}: {key}")

    need(function.entry and function.name == launch.entry, f"the kernel is named {function.name}", "entry")
    sizes = [variable.size for variable in function.parameters]
    given = [
        len(a) if isinstance(a, bytes) else SIZE if isinstance(a, MapValue) else 8 for a in launch.arguments
    ]
    need(len(given) == len(sizes), f"{len(given)} arguments for {len(sizes)} parameters", "arguments")
    for index, (have, want) in enumerate(zip(given, sizes, strict=True)):
        name = function.parameters[index].name
        need(have == want, f"{have} bytes for {name}, which has {want}", f"arguments[{index}]")
    wanted = _three_of(function, ".reqntid")
    need(
        wanted in (None, launch.block),
        f"{list(launch.block)} does not match .reqntid {list(wanted or ())}",
        "block",
    )
    limit = prod(function.directives.get(".maxntid", (MAX_CTA_THREADS,)))
    need(
        prod(launch.block) <= limit,
        f"{prod(launch.block)} threads, more than the .maxntid of {limit}",
        "block",
    )
    _fits_cluster(launch, function, need)


def _fits_cluster(launch: Launch, function: Function, need: Callable[[bool, str, str], None]) -> None:
    wanted = _three_of(function, ".reqnctapercluster")
    need(
        None in (wanted, launch.cluster) or wanted == launch.cluster,
        f"{list(launch.cluster or ())} does not match .reqnctapercluster {list(wanted or ())}",
        "cluster",
    )
    need(
        ".explicitcluster" not in function.directives or bool(wanted or launch.cluster), "missing", "cluster"
    )
    grid, cluster = geometry(launch, function)
    limit = prod(function.directives.get(".maxclusterrank", (MAX_CLUSTER_CTAS,)))
    need(prod(cluster) <= limit, f"{prod(cluster)} CTAs, more than the .maxclusterrank of {limit}", "cluster")
    whole = not any(size % part for size, part in zip(grid, cluster, strict=True))
    need(whole, f"{list(grid)} is not a multiple of the cluster, {list(cluster)}", "grid")


def _three_of(function: Function, directive: str) -> Three | None:
    """The sizes of a directive; None if the kernel does not have it."""
    numbers = function.directives.get(directive)
    if not numbers:
        return None
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


# ---------------------------------------------------------------- Triton


@dataclass(frozen=True, slots=True)
class Metadata:
    """The launch parameters in the ``.json`` that Triton writes beside a kernel."""

    entry: str
    block: Three
    shared: int
    """Bytes of dynamic shared memory."""
    cluster: Three | None
    """None if the kernel has no clusters."""


def triton_launch(path: Path) -> Metadata:
    """The metadata in a ``.json`` of Triton's cache. Raises :class:`LaunchError`."""
    try:
        found = json.loads(read_file(path).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise LaunchError(f"{path}: {error}") from error
    if not isinstance(found, dict) or "num_warps" not in found:
        raise LaunchError(f"{path}: not the metadata of a Triton kernel")
    table = _Table(path, "", found)
    entry, shared = table.text("name"), table.integer("shared", high=MAX_SHARED_BYTES)
    threads = table.integer("num_warps", low=1) * table.integer("warp_size", 32, low=1)
    if threads > MAX_CTA_THREADS:
        table.fail(f"{threads} threads, more than {MAX_CTA_THREADS}", "num_warps")
    ctas = table.integer("num_ctas", 1, low=1, high=MAX_CLUSTER_CTAS)
    cluster = _three(table, "cluster_dims", (MAX_CLUSTER_CTAS,) * 3, (1, 1, 1))  # written by older versions
    if prod(cluster) != ctas:
        cluster = (ctas, 1, 1)
    return Metadata(entry, (threads, 1, 1), shared, cluster if ctas > 1 else None)


def metadata_of(path: str) -> Path:
    """Where Triton writes the metadata of the kernel in a file."""
    kernel = Path(path)
    return kernel.with_name(kernel.name.partition(".ptx")[0] + ".json")


def triton_beside(path: str) -> Metadata | None:
    """The metadata in ``kernel.json`` beside ``kernel.ptx``; None if Triton wrote none there."""
    try:
        return triton_launch(metadata_of(path))
    except LaunchError:
        return None

"""Launch files, ``kernel.launch.toml``: what a kernel is launched with (``docs/launch-files.md``).

Lists go as in numpy, outermost dimension first; a :class:`~tclint.executor.tensor_maps.TensorMap` has them the other
way round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tclint.executor.formats import encode
from tclint.executor.tensor_maps import SIZE, TensorMap
from tclint.executor.tensor_maps import TYPES as MAP_TYPES
from tclint.ir.nodes import MOST_THREADS, Function
from tclint.isa.table import TableError, read_toml

__all__ = [
    "TYPES", "Argument", "Buffer", "Launch", "LaunchError", "LaunchFile", "MapSpec", "MapValue", "Metadata", "Pointer",
    "fits", "geometry", "read", "triton_beside", "triton_launch",
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
"""Types of buffers and scalars, and what holds them; numpy has no ``bf16`` and smaller: those are bit patterns."""

_MAP_TYPES = {f"{sign}{bits}": f"u{bits}" for sign in "usi" for bits in (8, 16)}
_MAP_TYPES |= {f"i{bits}": f"s{bits}" for bits in (32, 64)}
_MAP_TYPES |= {name: "u8" for name in _FORMATS if name != "bf16"}
"""The element type of a map of a buffer, where it is not called as that of the buffer."""

_POISON = 0xFF
"""Fills what a kernel must write: NaN where it is read as a floating-point number."""
_MOST_SHARED = 232448
"""Bytes of dynamic shared memory that a CTA can have on any target (227 KiB)."""
_MOST_CLUSTER = 16
_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)


class LaunchError(ValueError):
    """A launch file says what it cannot say, or does not suit the kernel."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array in global memory."""

    type: str
    """A key of :data:`TYPES`."""
    shape: tuple[int, ...]
    values: float | tuple[int, int] | None = None
    """One number; the least and the largest of random integers; or None: poison, all bits set."""
    seed: int | None = None
    """Of the random integers; the position among the buffers if None."""
    file: Path | None = None
    """The contents, instead of ``values``: ``.npy``, or else raw bytes."""
    output: Path | None = None
    """Where the contents go after the launches, in one of the same two forms."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return TYPES[self.type]

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class MapSpec:
    """A tensor map of a part of a buffer."""

    buffer: str
    tensor: TensorMap
    """With the offset in the buffer for an address."""

    def at(self, address: int) -> TensorMap:
        """The map when the buffer lies at *address*."""
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


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel."""

    entry: str
    grid: Three
    block: Three
    cluster: Three | None = None
    """None: what the kernel's ``.reqnctapercluster`` says, or no clusters."""
    shared: int = 0
    """Bytes of dynamic shared memory."""
    arguments: tuple[Argument, ...] = ()
    dependent: bool = False
    """May begin before the launch in front of it ends (programmatic dependent launch)."""


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """What a launch file says; ``buffers`` and ``maps`` have no name in common."""

    path: Path
    ptx: Path | None
    buffers: Mapping[str, Buffer]
    maps: Mapping[str, MapSpec]
    launches: tuple[Launch, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of global memory: of every buffer, and of the maps that a launch passes by pointer."""
        found = {name: buffer.size for name, buffer in self.buffers.items()}
        for launch in self.launches:
            for argument in launch.arguments:
                if isinstance(argument, Pointer) and argument.name in self.maps:
                    found[argument.name] = SIZE
        return found

    def arrays(self, number: int = 0) -> dict[str, Array]:
        """The contents of every buffer before run *number*; each run has other random integers."""
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
            numbers = np.random.default_rng([number, seed]).integers(low, high + 1, buffer.shape)
            return _stored(buffer.type, numbers)
        return np.full(buffer.shape, _stored(buffer.type, np.array(buffer.values)))

    def parameters(self, launch: Launch, addresses: Mapping[str, int]) -> tuple[bytes, ...]:
        """The bytes of each parameter when what :attr:`sizes` names lies at *addresses*."""
        return tuple(self._parameter(argument, addresses) for argument in launch.arguments)

    def _parameter(self, argument: Argument, addresses: Mapping[str, int]) -> bytes:
        if isinstance(argument, Pointer):
            return (addresses[argument.name] + argument.offset).to_bytes(8, "little")
        if isinstance(argument, MapValue):
            return self.map_bytes(argument.name, addresses)
        return argument

    def map_bytes(self, name: str, addresses: Mapping[str, int]) -> bytes:
        """The 128 bytes of a map."""
        spec = self.maps[name]
        return spec.at(addresses[spec.buffer]).encode()

    def write(self, arrays: Mapping[str, Array]) -> None:
        """Write what the buffers hold to the files that they are to go to."""
        for name, buffer in self.buffers.items():
            if buffer.output and buffer.output.suffix == ".npy":
                np.save(buffer.output, arrays[name])
            elif buffer.output:
                buffer.output.write_bytes(arrays[name].tobytes())


def _stored(type: str, numbers: Array) -> Array:
    """Numbers as a buffer of *type* holds them."""
    with np.errstate(over="ignore"):
        return encode(type, numbers.astype(np.float64)) if type in _FORMATS else numbers.astype(TYPES[type])


def _opened(buffer: Buffer, path: Path, name: str) -> Array:
    """The contents of a buffer in a file, not read yet. Raises :class:`LaunchError`."""
    file, key = buffer.file, f"buffers.{name}.file"
    assert file is not None
    try:
        if file.suffix != ".npy":
            if file.stat().st_size != buffer.size:
                _fail(path, f"{file.name} has {file.stat().st_size} bytes, not {buffer.size}", key)
            return np.memmap(file, buffer.dtype, "r", shape=buffer.shape)
        found: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        if isinstance(error, LaunchError):
            raise
        _fail(path, f"{file.name}: {error}", key)
    if found.dtype.kind == "V" and found.dtype.itemsize == buffer.dtype.itemsize:
        found = found.view(buffer.dtype)  # so numpy saves the types of ml_dtypes
    if found.dtype != buffer.dtype:
        _fail(path, f"{file.name} holds {found.dtype}, not {buffer.dtype}", key)
    if found.shape != buffer.shape:
        _fail(path, f"{file.name} has the shape {list(found.shape)}, not {list(buffer.shape)}", key)
    return found


# ---------------------------------------------------------------- reading


def _fail(path: Path, what: str, key: str) -> NoReturn:
    raise LaunchError(f"{path}: {what}: {key}")


def read(path: Path | str) -> LaunchFile:
    """The launch file at *path*. Raises :class:`LaunchError`, whose message is ``file: what is wrong: where``."""
    path = Path(path)
    try:
        document = read_toml(path)
    except TableError as error:
        raise LaunchError(f"{path}: {str(error).removeprefix(path.name + ': ')}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{path}: {error}") from error
    return _Reader(path).file(document)


def beside(path: str) -> Path | None:
    """The launch file that goes with a kernel: ``kernel.launch.toml`` beside ``kernel.ptx``, if there is one."""
    kernel = Path(path)
    launch = kernel.with_name(kernel.name.partition(".ptx")[0] + ".launch.toml")
    return launch if launch.is_file() else None


class _Table:
    """A table of the file, of which every key must be asked for."""

    def __init__(self, path: Path, key: str, values: Any) -> None:
        self.path, self.key = path, key
        if not isinstance(values, dict):
            self.fail("not a table")
        self.values: dict[str, Any] = dict(values)

    def fail(self, what: str, key: str = "") -> NoReturn:
        _fail(self.path, what, ".".join(part for part in (self.key, key) if part))

    def take(self, key: str, wanted: str, right: Callable[[Any], bool], default: Any = ...) -> Any:
        """The value of *key*, or *default* if there is one."""
        value = self.values.pop(key, default)
        if value is ...:
            self.fail("missing", key)
        if value is not default and not right(value):
            self.fail(f"{value!r} is not {wanted}", key)
        return value

    def text(self, key: str, default: Any = ...) -> Any:
        return self.take(key, "a string", lambda value: isinstance(value, str), default)

    def flag(self, key: str) -> bool:
        return bool(self.take(key, "true or false", lambda value: isinstance(value, bool), False))

    def integer(self, key: str, default: Any = ..., least: int = 0, most: int | None = None) -> Any:
        wanted = f"an integer from {least}" + ("" if most is None else f" to {most}")
        return self.take(
            key,
            wanted,
            lambda value: _whole(value) and least <= value and (most is None or value <= most),
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

    def file(self, key: str) -> Path | None:
        name = self.text(key, None)
        return None if name is None else self.path.parent / name

    def tables(self, key: str) -> dict[str, _Table]:
        """The tables in the table *key*."""
        inside = _Table(self.path, key, self.values.pop(key, {}))
        return {name: _Table(self.path, f"{key}.{name}", value) for name, value in inside.values.items()}

    def end(self) -> None:
        for key in self.values:
            self.fail("unknown key", key)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.buffers: dict[str, Buffer] = {}
        self.maps: dict[str, MapSpec] = {}

    def file(self, document: dict[str, Any]) -> LaunchFile:
        top = _Table(self.path, "", document)
        ptx = top.file("ptx")
        for name, table in top.tables("buffers").items():
            self.buffers[name] = self._buffer(name, table)
        for name, table in top.tables("maps").items():
            if name in self.buffers:
                table.fail("a buffer is called so, too")
            self.maps[name] = self._map(table)
        steps = top.take(
            "launches", "a list of tables", lambda value: isinstance(value, list) and bool(value)
        )
        launches = tuple(
            self._launch(_Table(self.path, f"launches[{index}]", step)) for index, step in enumerate(steps)
        )
        for key in ("expected", "observed", "tolerance"):  # the benchmarks' own
            top.values.pop(key, None)
        top.end()
        return LaunchFile(self.path, ptx, self.buffers, self.maps, launches)

    def _buffer(self, name: str, table: _Table) -> Buffer:
        type = table.take("type", f"one of {', '.join(TYPES)}", lambda value: value in TYPES)
        shape = table.integers("shape")
        if not shape or min(shape) < 1:
            table.fail("sizes below 1" if shape else "no dimension", "shape")
        values, seed = self._values(table, type), table.integer("seed", None)
        buffer = Buffer(type, shape, values, seed, table.file("file"), table.file("output"))
        table.end()
        if buffer.file and buffer.values is not None:
            table.fail("both file and values", "values")
        if buffer.seed is not None and not isinstance(buffer.values, tuple):
            table.fail("a seed without random integers", "seed")
        if buffer.file:
            _opened(buffer, self.path, name)
        return buffer

    def _values(self, table: _Table, type: str) -> float | tuple[int, int] | None:
        values = table.values.pop("values", None)
        if isinstance(values, list):
            if len(values) != 2 or not all(map(_whole, values)) or values[0] > values[1]:
                table.fail(f"{values!r} is not [low, high]", "values")
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
        usual = _MAP_TYPES.get(buffer.type, buffer.type)
        type = table.text("type", usual)
        dimensions = table.integers("dimensions", None)
        if dimensions is None and type != usual:
            table.fail("missing beside a type", "dimensions")
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
        offset = table.integer("offset", 0, most=buffer.size - 1)
        table.end()
        try:
            return MapSpec(name, TensorMap(offset, **fields))
        except ValueError as error:
            field, _, what = str(error).partition(": ")
            table.fail(what, "offset" if field == "address" else field)

    def _known(self, table: _Table, key: str, names: Mapping[str, Any]) -> str:
        name: str = table.text(key)
        if name not in names:
            table.fail(f"no {key} is called {name!r}", key)
        return name

    def _launch(self, table: _Table) -> Launch:
        metadata = None
        if file := table.file("metadata"):
            try:
                metadata = triton_launch(file)
            except LaunchError as error:
                table.fail(str(error), "metadata")
        entry = table.text("entry", metadata.entry if metadata else ...)
        grid = _three(table, "grid", _GRID, ...)
        block = _three(table, "block", _BLOCK, metadata.block if metadata else ...)
        if prod(block) > MOST_THREADS:
            table.fail(f"{prod(block)} threads, more than {MOST_THREADS}", "block")
        cluster = _three(table, "cluster", (_MOST_CLUSTER,) * 3, metadata.cluster if metadata else None)
        if cluster and prod(cluster) > _MOST_CLUSTER:
            table.fail(f"{prod(cluster)} CTAs, more than {_MOST_CLUSTER}", "cluster")
        if cluster and any(size % part for size, part in zip(grid, cluster, strict=True)):
            table.fail(f"{list(grid)} is not a multiple of the cluster, {list(cluster)}", "grid")
        shared = table.integer("shared", metadata.shared if metadata else 0, most=_MOST_SHARED)
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
            parent.fail(f"no buffer and no map is called {given!r}", key)
        table = _Table(self.path, f"{parent.key}.{key}", given)
        found: Argument
        if "buffer" in table.values:
            name = self._known(table, "buffer", self.buffers)
            found = Pointer(name, table.integer("offset", 0, most=self.buffers[name].size))
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
                table.fail(f"none of buffer, map, bytes, {', '.join(TYPES)}")
            found = _scalar(table, kind, kind, table.values.pop(kind))
        table.end()
        return found


def _three(table: _Table, key: str, most: Three, default: Any) -> Any:
    sizes = table.integers(key, default)
    if sizes is default:
        return default
    if not 1 <= len(sizes) <= 3:
        table.fail(f"{len(sizes)} sizes, not 1 to 3", key)
    x, y, z = [*sizes, 1, 1][:3]
    for size, limit in zip((x, y, z), most, strict=True):
        if not 1 <= size <= limit:
            table.fail(f"{size} is not in 1 to {limit}", key)
    return x, y, z


def _innermost_first(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(reversed(sizes))


def _dense(sizes: Sequence[int], bits: int) -> tuple[int, ...]:
    """The strides in bytes of an array without gaps, sizes innermost first."""
    return tuple(prod(sizes[:axis]) * bits // 8 for axis in range(1, len(sizes)))


def _scalar(table: _Table, key: str, type: str, value: Any) -> bytes:
    """The bytes of a number of *type*."""
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
    """The CTAs of the grid and of a cluster, as directives of the kernel make them (11.7.1, 11.8.1)."""
    cluster = launch.cluster or _three_of(function, ".reqnctapercluster") or (1, 1, 1)
    if ".blocksareclusters" not in function.directives:
        return launch.grid, cluster
    (x, y, z), (a, b, c) = launch.grid, cluster
    return (x * a, y * b, z * c), cluster


def fits(launch: Launch, function: Function) -> None:
    """Raises :class:`LaunchError` when a launch does not suit the kernel, as the driver would."""

    def need(true: bool, what: str, key: str) -> None:
        if not true:
            raise LaunchError(f"{launch.entry}: {what}: {key}")

    need(function.entry and function.name == launch.entry, f"the kernel is {function.name}", "entry")
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
        f"{list(launch.block)} is not the .reqntid, {list(wanted or ())}",
        "block",
    )
    most = prod(function.directives.get(".maxntid", (MOST_THREADS,)))
    need(
        prod(launch.block) <= most, f"{prod(launch.block)} threads, more than the .maxntid of {most}", "block"
    )
    _fits_cluster(launch, function, need)


def _fits_cluster(launch: Launch, function: Function, need: Callable[[bool, str, str], None]) -> None:
    wanted = _three_of(function, ".reqnctapercluster")
    need(
        None in (wanted, launch.cluster) or wanted == launch.cluster,
        f"{list(launch.cluster or ())} is not the .reqnctapercluster, {list(wanted or ())}",
        "cluster",
    )
    need(
        ".explicitcluster" not in function.directives or bool(wanted or launch.cluster), "missing", "cluster"
    )
    grid, cluster = geometry(launch, function)
    most = prod(function.directives.get(".maxclusterrank", (_MOST_CLUSTER,)))
    need(prod(cluster) <= most, f"{prod(cluster)} CTAs, more than the .maxclusterrank of {most}", "cluster")
    whole = not any(size % part for size, part in zip(grid, cluster, strict=True))
    need(whole, f"{list(grid)} is not a multiple of the cluster, {list(cluster)}", "grid")


def _three_of(function: Function, directive: str) -> Three | None:
    numbers = function.directives.get(directive)
    if not numbers:
        return None
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


# ---------------------------------------------------------------- Triton


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the ``.json`` that Triton writes beside a kernel says of its launch."""

    entry: str
    block: Three
    shared: int
    """Bytes of dynamic shared memory."""
    cluster: Three | None
    """None without clusters."""


def triton_launch(path: Path) -> Metadata:
    """The metadata in a ``.json`` of Triton's cache. Raises :class:`LaunchError`."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LaunchError(f"{path}: {error}") from error
    if not isinstance(found, dict) or "num_warps" not in found:
        raise LaunchError(f"{path}: not the metadata of a kernel of Triton")
    table = _Table(path, "", found)
    entry, shared = table.text("name"), table.integer("shared", most=_MOST_SHARED)
    threads = table.integer("num_warps", least=1) * table.integer("warp_size", 32, least=1)
    if threads > MOST_THREADS:
        table.fail(f"{threads} threads, more than {MOST_THREADS}", "num_warps")
    ctas = table.integer("num_ctas", 1, least=1, most=_MOST_CLUSTER)
    cluster = _three(table, "cluster_dims", (_MOST_CLUSTER,) * 3, (1, 1, 1))  # of older versions
    if prod(cluster) != ctas:
        cluster = (ctas, 1, 1)
    return Metadata(entry, (threads, 1, 1), shared, cluster if ctas > 1 else None)


def triton_beside(path: str) -> Metadata | None:
    """The metadata in ``kernel.json`` beside ``kernel.ptx``, where Triton wrote it."""
    kernel = Path(path)
    try:
        return triton_launch(kernel.with_name(kernel.name.partition(".ptx")[0] + ".json"))
    except LaunchError:
        return None

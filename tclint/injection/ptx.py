"""The PTX of a recorded kernel: in the image that was loaded, or beside its cubin in the caches of compilers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from getpass import getuser
from glob import glob
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from tclint._read import size_words
from tclint.driver.inputs import read_sources
from tclint.syntax.source import SourceError, unreadable

__all__ = ["find", "not_found"]

_NO_PTX = (
    "only SASS of the kernel was found. Compile it with PTX: nvcc -gencode arch=compute_90a,code=[compute_90a,sm_90a]"
    " or nvcc --keep; CUTE_DSL_KEEP_PTX=1 for CuTe DSL; CUPY_COMPILE_WITH_PTX=1 for CuPy; MOSAIC_GPU_DUMP_PTX=1"
    " MOSAIC_GPU_DUMP_TO=. for Pallas on Mosaic GPU; an existing TRITON_CACHE_DIR for Triton and Inductor."
    " XLA, cuBLAS and cuDNN keep no PTX of their kernels"
)
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
_MAX_OBJECT = 1 << 30
"""Mapped files larger than this are not searched."""


def find(
    folder: Path, launch: dict[str, Any], environment: dict[str, str], unused: dict[Path, str]
) -> tuple[str, str] | None:
    """The PTX of the kernel of *launch*, recorded in *folder*, and where it was found; None if only SASS was.

    *environment* is that of the program, for the caches of compilers. Files that may contain it and cannot be used are
    added to *unused*, with the reason.
    """
    kernel, capability = launch["kernel"], launch.get("capability", [0, 0])
    entry = re.compile(rf"\.entry\s+{re.escape(kernel)}\s*[(\s]")
    image = folder / launch["image"] if "image" in launch else None
    for path, origin in _images(image, launch):
        if text := _best(_modules(path, unused), entry, capability):
            return text, origin
    cubins = [p for p in (image, folder / launch["cubin"] if "cubin" in launch else None) if p is not None]
    if found := _beside_cubin(cubins, environment, unused):
        return found
    if found := _kept(entry, environment, unused):
        return found
    for path in _objects(launch, unused):
        if text := _best(_modules(path, unused), entry, capability):
            return text, str(path)
    return None


def not_found(unused: dict[Path, str]) -> str:
    """The problem that the PTX was not found, with the files that are *unused*."""
    return "; ".join((_NO_PTX, *(f"{path} {why}" for path, why in unused.items())))


def _images(image: Path | None, launch: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    if image is not None:
        yield image, "the image that the program loaded"
    if given := launch.get("image_path"):
        yield Path(given), given
        yield Path(given).with_suffix(".ptx"), str(Path(given).with_suffix(".ptx"))


def _modules(path: Path, unused: dict[Path, str]) -> list[str]:
    """The PTX modules in a file; those before the first that cannot be read, which is added to *unused*."""
    found: list[str] = []
    try:
        for source in read_sources(str(path), str(path)):
            found.append(source.text)
    except SourceError as error:
        if os.path.isfile(path):
            unused[path] = str(error)
    return found


def _best(modules: Iterable[str], entry: re.Pattern[str], capability: list[int]) -> str | None:
    """Of the modules with the kernel that the GPU runs, that with the highest target."""
    level = capability[0] * 10 + capability[1]
    found: list[tuple[int, bool, str]] = []
    for text in modules:
        target = _TARGET.search(text)
        if target is None or not entry.search(text):
            continue
        number, specific = int(target[1]), bool(target[2])
        same = number == level or (target[2] == "f" and number // 10 == level // 10)
        if not level or (number <= level and (same or not specific)):
            found.append((number, specific, text))
    return max(found, default=(0, False, None))[2]


def _beside_cubin(
    cubins: list[Path], environment: dict[str, str], unused: dict[Path, str]
) -> tuple[str, str] | None:
    """The PTX beside a cubin with the same contents, in the caches of Triton and Inductor."""
    digests = {path.stat().st_size: sha256(path.read_bytes()).digest() for path in cubins if path.is_file()}
    for root in _caches(environment):
        for path in map(Path, glob(os.path.join(root, "**", "*.cubin"), recursive=True)):
            try:
                wanted = digests.get(path.stat().st_size)
                if wanted is None or sha256(path.read_bytes()).digest() != wanted:
                    continue
            except OSError as error:
                if os.path.isfile(path):
                    unused[path] = str(unreadable(error))
                continue
            beside = path.with_suffix(".ptx")
            if modules := _modules(beside, unused):
                return modules[0], str(beside)
    return None


def _caches(environment: dict[str, str]) -> Iterator[str]:
    home = environment.get("HOME", os.path.expanduser("~"))
    triton = environment.get("TRITON_HOME", home)
    yield environment.get("TRITON_CACHE_DIR") or os.path.join(triton, ".triton", "cache")
    inductor = environment.get("TORCHINDUCTOR_CACHE_DIR")
    yield inductor or os.path.join(gettempdir(), f"torchinductor_{_user()}")


def _user() -> str:
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getuser())
    except (KeyError, OSError):  # an account without a name
        return str(os.getuid()) if hasattr(os, "getuid") else ""


def _kept(
    entry: re.Pattern[str], environment: dict[str, str], unused: dict[Path, str]
) -> tuple[str, str] | None:
    """The only PTX with the kernel among the files that CuTe DSL (CUTE_DSL_KEEP_PTX) and nvcc --keep leave."""
    here = environment.get("PWD", os.getcwd())
    folders = dict.fromkeys([environment.get("CUTE_DSL_DUMP_DIR", here), here])
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted(glob(os.path.join(folder, "*.ptx"))):
            for text in _modules(Path(path), unused):
                if entry.search(text):
                    found.setdefault(text, path)
    if len(found) != 1:
        reason = f"has one of {len(found)} different PTX modules with the kernel"
        unused.update((Path(path), reason) for path in found.values())
        return None
    ((text, path),) = found.items()
    return text, f"{path}, by the name of the kernel alone"


def _objects(launch: dict[str, Any], unused: dict[Path, str]) -> Iterator[Path]:
    """The mapped files that contain device code, and the name with which a program of nvcc registers the kernel."""
    kernel = launch["kernel"].encode()
    for name in launch.get("objects", ()):
        path = Path(name)
        if path.name.startswith(("libcuda.", "libcupti", "libnvrtc")):
            continue
        try:
            with path.open("rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
                if path.stat().st_size > _MAX_OBJECT:
                    unused[path] = f"has more than {size_words(_MAX_OBJECT)}"
                    continue
                with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                    wanted = data.find(b".nv_fatbin") >= 0 and data.find(kernel) >= 0
        except (OSError, ValueError):  # it was removed or has changed
            continue
        if wanted:
            yield path

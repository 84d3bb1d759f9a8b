"""Compiles the injection library, once for each version of it, of the headers and of the compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory

from tclint._version import installs
from tclint.cache.hashing import digest
from tclint.cache.store import default_folder
from tclint.driver.cuda_tools import complaint, packaged, toolkits

__all__ = ["CaptureError", "cupti_libraries", "injection_library"]

_HERE = Path(__file__).parent
_SOURCES = ("inject.c", "record.c", "elf.c")
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs")
_LIBRARIES = ("-ldl", "-lpthread")


class CaptureError(Exception):
    """A launch cannot be recorded; the message is for the user."""


def injection_library() -> Path:
    """The injection library, compiled if need be. Raises :class:`CaptureError`."""
    if sys.platform != "linux":
        raise CaptureError("recording a launch needs Linux")
    compiler, headers = _compiler(), _headers()
    texts = [(_HERE / name).read_bytes() for name in ("capture.h", *_SOURCES)]
    versions = [(folder / name).read_bytes() for folder, name in headers]
    key = digest(*texts, *versions, *compiler, *_FLAGS, os.uname().machine)
    folder = os.environ.get("TCLINT_CACHE_DIR") or os.path.dirname(default_folder())
    if not folder:
        raise CaptureError("there is no home folder for the compiled library; set TCLINT_CACHE_DIR")
    library = Path(folder, "injection", f"libtclint_capture_{key}.so").absolute()
    if not library.is_file():
        _compile(compiler, dict.fromkeys(folder for folder, _ in headers), library)
    return library


def _compiler() -> list[str]:
    if given := shlex.split(os.environ.get("CC", "")):
        return given
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    raise CaptureError("recording a launch needs a C compiler: install gcc or clang, or set CC")


def _headers() -> list[tuple[Path, str]]:
    """The folder of each header that is included."""
    folders = list(_header_folders())
    found = []
    for name, package in (
        ("cupti.h", "nvidia-cuda-cupti"),
        ("cuda.h", "nvidia-cuda-runtime"),
        ("crt/host_defines.h", "nvidia-cuda-crt"),
    ):
        folder = next((f for f in folders if (f / name).is_file()), None)
        if folder is None:
            raise CaptureError(
                f"no header {name} was found, which {package} contains: {installs('capture')}, or set CUDA_HOME"
            )
        found.append((folder, name))
    return found


def _header_folders() -> Iterator[Path]:
    yield from map(Path, filter(None, [os.environ.get("TCLINT_CUDA_INCLUDE")]))
    for home in map(Path, toolkits()):
        yield from (home / "extras/CUPTI/include", home / "include")
    yield from map(Path, packaged("nvidia", "*/include"))


def _compile(compiler: list[str], folders: Iterable[Path], library: Path) -> None:
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".build-", dir=library.parent) as folder:
            made = Path(folder, library.name)
            command = [*compiler, *_FLAGS, *(f"-I{f}" for f in folders)]
            command += [*(str(_HERE / name) for name in _SOURCES), "-o", str(made), *_LIBRARIES]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if done.returncode:
                raise CaptureError(f"the injection library cannot be compiled: {complaint(done)}")
            os.replace(made, library)
    except OSError as error:
        raise CaptureError(f"{error.filename or library}: {error.strerror}") from None


def cupti_libraries() -> list[str]:
    """CUPTI libraries in order of preference.

    A name without a slash stands for the library that the program itself has loaded: a process needs only one.
    """
    found = ["libcupti.so.13", "libcupti.so.12"]
    folders = [os.path.join(home, below) for home in toolkits() for below in ("extras/CUPTI/lib64", "lib64")]
    if given := os.environ.get("TCLINT_CUPTI"):
        return [given]
    for folder in (*folders, *packaged("nvidia", "*/lib")):
        found += sorted(glob(os.path.join(folder, "libcupti.so.1[23]")))
    return found

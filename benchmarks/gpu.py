"""What a launcher needs on a machine with a GPU: the driver's library, and the standard library of Python.

``prepare`` of ``benchmarks.hangs`` and ``benchmarks.needed`` copies this module beside the launcher (:func:`stand_alone`),
since tclint need not be installed there.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Driver", "machine", "pointers", "stand_alone"]


class Driver:
    """The driver's library. A call that fails raises RuntimeError, and OSError if there is no driver."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {self.error(code) or code}")

    def error(self, code: int) -> str:
        """The name of an error; "" if it has none."""
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or b"").decode()

    def load(self, cubin: Path, entry: str) -> ctypes.c_void_p:
        """The kernel *entry* of a cubin, in a new context on the first device."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self("cuModuleLoadData", ctypes.byref(module), cubin.read_bytes())
        self("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        return function


def pointers(values: Sequence[Any]) -> Any:
    """The arguments *values* as the driver takes them. The values must outlive them."""
    return (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))


def machine() -> dict[str, str]:
    """The name of the first GPU, and the version of the driver or why it is unknown."""
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            check=True, capture_output=True, text=True, timeout=60,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return {"gpu": "unknown", "driver": str(error)}
    name, driver = said.splitlines()[0].split(", ")
    return {"gpu": name, "driver": driver}


def stand_alone(folder: Path, *files: Path) -> None:
    """Copies *files* into *folder*, where they can import this module and nothing else of tclint."""
    package = folder / "benchmarks"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    shutil.copyfile(__file__, package / "gpu.py")
    for file in files:
        shutil.copyfile(file, folder / file.name)

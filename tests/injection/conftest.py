"""A driver that runs on the processor, and a program that uses it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

STUB = Path(__file__).parent / "stub"
COMPILER = shutil.which("cc")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if COMPILER is None or sys.platform != "linux":
        for item in items:
            item.add_marker(pytest.mark.skip(reason="needs Linux and a C compiler"))


def compiled(*arguments: str | Path) -> None:
    assert COMPILER is not None
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{STUB}"]
    subprocess.run([COMPILER, *flags, *map(str, arguments)], check=True)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A folder with the driver, without the functions that are named, and the program `host` that is linked with it."""
    made: dict[tuple[str, ...], Path] = {}

    def make(*without: str) -> Path:
        if without not in made:
            made[without] = folder = tmp_path_factory.mktemp("driver")
            library = folder / "libcuda.so.1"
            options = [f"-DWITHOUT_{name}" for name in without]
            compiled(
                "-shared",
                "-fPIC",
                *options,
                STUB / "driver.c",
                "-Wl,-soname,libcuda.so.1",
                "-o",
                library,
                "-ldl",
            )
            unresolved = ["-Wl,--allow-shlib-undefined"]
            compiled(STUB / "host.c", "-o", folder / "host", library, f"-Wl,-rpath,{folder}", *unresolved)
        return made[without]

    return make


@pytest.fixture
def with_stub(
    driver: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Makes this process record with the stub; returns its folder."""
    cache = tmp_path_factory.getbasetemp() / "cache"

    def use(*without: str) -> Path:
        folder = driver(*without)
        monkeypatch.setenv("TCLINT_CUDA_INCLUDE", str(STUB))
        monkeypatch.setenv("TCLINT_CUPTI", str(folder / "libcuda.so.1"))
        monkeypatch.setenv("TCLINT_CACHE_DIR", str(cache))
        for name in ("CUDA_INJECTION64_PATH", "CC", *(n for n in os.environ if n.startswith("STUB_"))):
            monkeypatch.delenv(name, raising=False)
        return folder

    return use

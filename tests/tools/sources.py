"""Kernels with a fault, their sources, and the PTX that was compiled from them, as a project of a user has them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.tools.project import ROOT

SOURCES = ROOT / "fixtures" / "sources"
NAMES = sorted(path.stem for path in SOURCES.glob("*.ptx"))


def project(folder: Path) -> Path:
    """*folder* with the sources in ``kernels``, older than the PTX in ``out``, and with the root of a work tree."""
    for name in ("kernels", "out", ".git"):
        (folder / name).mkdir()
    for path in SOURCES.iterdir():
        if path.is_file():
            to = shutil.copyfile(path, folder / ("out" if path.suffix == ".ptx" else "kernels") / path.name)
            os.utime(to, (1_000_000, 1_000_000 + (path.suffix == ".ptx")))
    return folder


def edited(path: Path, old: str, new: str) -> None:
    """Replaces *old*, which is there once, in a file whose time stays as it is."""
    text, times = path.read_text(encoding="utf-8"), path.stat()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

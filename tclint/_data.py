"""Where the data folders ``rules``, ``queries`` and ``docs`` are, which modules are found by being there, and when tclint started."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

STARTED_NS = time.time_ns()
"""When this process began to import tclint, in nanoseconds since the epoch."""

PACKAGE = Path(__file__).resolve().parent
"""The folder of the package ``tclint``."""


def data(name: str) -> Path:
    """The folder of data files called ``name``: inside an installed package, beside the package in a checkout."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def modules(package: Iterable[str]) -> list[str]:
    """The names of the modules in the folders of a *package* (``__path__``), sorted; not those that begin with an underscore.

    ``pkgutil.iter_modules`` would look at what is compiled of each as well, whenever tclint starts.
    """
    files = (file for folder in package for file in os.listdir(folder))
    return sorted(file[:-3] for file in files if file.endswith(".py") and not file.startswith("_"))

"""Where the data folders ``rules`` and ``queries`` are, and which modules are found by being there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data(name: str) -> Path:
    """The folder of data files called ``name``: inside an installed package, beside the package in a checkout."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def modules(package: Iterable[str]) -> list[str]:
    """The names of the modules in the folders of a *package* (``__path__``), sorted; not those that begin with an underscore.

    ``pkgutil.iter_modules`` would look at what is compiled of each as well, whenever tclint starts.
    """
    files = (file for folder in package for file in os.listdir(folder))
    return sorted(file[:-3] for file in files if file.endswith(".py") and not file.startswith("_"))

"""Where the data folders ``rules`` and ``queries`` are."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data(name: str) -> Path:
    """The folder of data files called ``name``: inside an installed package, beside the package in a checkout."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name

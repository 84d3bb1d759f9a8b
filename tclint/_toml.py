"""TOML, which the standard library reads since Python 3.11."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["parse"]


def parse(text: str) -> dict[str, Any]:
    """The TOML document *text*. Raises ValueError if it is malformed or nested too deeply, and says where."""
    if sys.version_info >= (3, 11):  # imported here, as most runs read no TOML
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)  # a number of too many digits is a plain ValueError
    except RecursionError as error:
        raise ValueError(str(error)) from error

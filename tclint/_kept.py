"""What is made of data files, kept in a file for the next runs.

Like the compiled modules of Python, it is made again when what it was made of has changed, and kept if the folder can be
written. A damaged file is made again, too.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable
from contextlib import suppress
from importlib.util import source_hash
from pathlib import Path
from typing import Any

__all__ = ["VERSION", "keep", "kept"]

VERSION = 2
"""The format of marshal: the last one in which the same content is always the same bytes."""
_HASH = 8
"""The bytes of a hash, of what was read and of what is kept. As for the compiled modules of Python, accidents count."""


def kept(path: Path, made_of: bytes, make: Callable[[], Any]) -> Any:
    """What *make* returns, which is of types that marshal knows; *path* keeps it for those who have *made_of* too."""
    with suppress(OSError):
        content = path.read_bytes()
        if content[: 2 * _HASH] == source_hash(made_of) + source_hash(content[2 * _HASH :]):
            return marshal.loads(content[2 * _HASH :])
    made = make()
    with suppress(OSError):  # the folder may be read-only, or the disk full
        keep(path, made_of, made)
    return made


def keep(path: Path, made_of: bytes, made: Any) -> None:
    """Keep what was *made*. Other processes see the file as a whole or not at all. Raises OSError."""
    packed = marshal.dumps(made, VERSION)
    written = path.with_suffix(f".{os.getpid()}")
    try:
        written.write_bytes(source_hash(made_of) + source_hash(packed) + packed)
        os.replace(written, path)
    except OSError:
        with suppress(OSError):
            written.unlink()
        raise

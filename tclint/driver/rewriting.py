"""An input that is replaced by a changed text, in place: by ``check --fix``, ``--add-ignore`` and ``format``.

A file is replaced atomically, keeping its permissions, and only if its content has not changed since it was read. A file with
another hard link is left as it is, since replacing it would separate the two.
"""

from __future__ import annotations

import os

from tclint._named_tuple import NamedTuple
from tclint.syntax.source import BYTE_ORDER_MARK, GZIP, ZSTD, Source, SourceError, read_bytes

__all__ = ["Rewritten", "rewritten"]


class Rewritten(NamedTuple):
    """What became of a changed text."""

    reason: str = ""
    """Why it could not be kept; empty if it was."""
    failed: bool = False
    """Whether it should have been possible, as opposed to an input that is a part of something else."""
    diff: str = ""
    """The change in the format of ``diff -u``, if that was all that was wanted."""


def rewritten(name: str | None, source: Source, text: bytes, limit: int, diff: bool) -> Rewritten:
    """Replaces *source*, which was read from the file *name*, by *text*; with *diff*, only shows the change.

    *name* is None for standard input, which is never written. *limit* is that of the size of an input.
    """
    if source.member is not None:
        return Rewritten("it is a module of a container")
    if name is not None and not os.path.isfile(name):
        return Rewritten("it is not a regular file")
    if name is not None and os.stat(name).st_nlink > 1:
        return Rewritten("it has another hard link, which would keep the old text")
    try:
        raw = b"" if name is None else read_bytes(name, limit)
    except SourceError as error:
        return Rewritten(f"the file {error}", failed=True)
    begin = raw.find(source.data)
    if name is not None and (
        begin not in (0, len(BYTE_ORDER_MARK)) or raw[begin + len(source.data) :].strip(b"\0")
    ):
        if raw.startswith((GZIP, ZSTD)):
            return Rewritten("the file is compressed")
        return Rewritten("the file has changed since it was read", failed=True)
    if diff:
        return Rewritten(diff=_diff(name or source.path, source.data, text))
    if name is None:
        return Rewritten()
    reason = _store(name, raw, raw[:begin] + text + raw[begin + len(source.data) :])
    return Rewritten(reason, failed=bool(reason))


def _store(path: str, old: bytes, new: bytes) -> str:
    """Replaces *old* by *new* in a file; returns the reason if that is impossible, else an empty string."""
    from contextlib import suppress

    from tclint._write import OutputError, beside, locked

    if not os.access(path, os.W_OK):
        return "the file cannot be written: Permission denied"
    target = os.path.realpath(path)
    try:
        temporary = beside(path, target, new)
    except OutputError as error:
        return str(error)
    try:
        with locked(path):  # otherwise two runs may both find it unchanged, and the fixes of one are lost
            if read_bytes(target, len(old)) != old:
                return "the file has changed since it was read"
            os.replace(temporary, target)
    except OutputError as error:
        return str(error)
    except (SourceError, OSError) as error:
        return f"the file cannot be written: {error}"
    finally:
        with suppress(OSError):
            os.unlink(temporary)  # absent if it has replaced the target
    return ""


def _diff(name: str, old: bytes, new: bytes) -> str:
    """The change in the format of ``diff -u``."""
    from difflib import unified_diff

    before, after = (data.decode(errors="surrogateescape").split("\n") for data in (old, new))
    lines = []
    for line in unified_diff(_ended(before), _ended(after), name, name):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def _ended(lines: list[str]) -> list[str]:
    """Lines with their line feeds. A carriage return is an ordinary character."""
    *whole, last = lines
    return [f"{line}\n" for line in whole] + ([last] if last else [])

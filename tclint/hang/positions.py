"""Where the warps of a hang are: as a person types it, or as a program lists it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tclint._named_tuple import NamedTuple

__all__ = ["FORMS", "CodePosition", "PositionError", "listed", "position"]

FORMS = "72, 72x4, 0:3=72, kernel.cu:41, 0x1a0 or kernel+0x1a0"
"""Examples of all forms of a position, for error messages."""

_WARP = re.compile(r"(\d+):(\d+)=(.+)")
_OFFSET = re.compile(r"<?(?:([A-Za-z_$%][\w$.]*)\+(0x[0-9a-fA-F]+|\d+)|(0x[0-9a-fA-F]+))>?(?:x(\d+))?")
_LINE = re.compile(r"(?:(.+):)?(\d+)(?:x(\d+))?")
_KEYS = frozenset(("line", "file", "offset", "kernel", "cta", "warp", "lanes", "warps"))


class PositionError(ValueError):
    """A position that cannot be read, or that is not in the kernel."""


class CodePosition(NamedTuple):
    """A position in the code, and the warps that are there."""

    line: int = 0
    """A line of the PTX, or of *file*; 0: *offset* is the position."""
    file: str = ""
    """The source file, as ``.loc`` names it or the end of that name; empty: the PTX."""
    offset: int = -1
    """The offset of an instruction in the machine code of *kernel*."""
    kernel: str = ""
    """The function of *offset*; empty: the only one."""
    cta: int | None = None
    warp: int | None = None
    """The numbers of a CTA in its grid and of a warp in that CTA; None: not given."""
    lanes: int = 0xFFFFFFFF
    """The lanes of the warp that are there."""
    warps: int = 0
    """How many warps are there; 0: not given."""

    def __str__(self) -> str:
        offset = f"{self.offset:#x}"
        place = f"{self.file}:{self.line}" if self.file else str(self.line)
        if self.offset >= 0:
            place = f"{self.kernel}+{offset}" if self.kernel else offset
        warp = "" if self.warp is None else f"{self.cta}:{self.warp}="
        return f"{warp}{place}{f'x{self.warps}' if self.warps else ''}"


def position(text: str) -> CodePosition:
    """The position that *text* denotes, in one of :data:`FORMS`. Raises PositionError."""
    named, warp = text, _WARP.fullmatch(text)
    cta = number = None
    if warp is not None:
        cta, number, named = int(warp[1]), int(warp[2]), warp[3]
    if found := _OFFSET.fullmatch(named):
        offset = int(found[2] or found[3], 0)
        made = CodePosition(offset=offset, kernel=found[1] or "", warps=int(found[4] or 0))
    elif found := _LINE.fullmatch(named):
        made = CodePosition(int(found[2]), found[1] or "", warps=int(found[3] or 0))
        if not made.line:
            raise PositionError(f"'{text}' is not a position: lines begin at 1")
    else:
        raise PositionError(f"'{text}' is not a position: expected one such as {FORMS}")
    if warp is not None and made.warps:
        raise PositionError(f"'{text}' names one warp and counts several")
    return made._replace(cta=cta, warp=number)


def listed(text: str) -> list[CodePosition]:
    """The positions in *text*: JSON, or positions between spaces and commas; ``#`` begins a comment.

    Raises PositionError.
    """
    if text.lstrip()[:1] in ("[", "{"):
        return list(_decoded(text))
    words = re.sub(r"#.*", "", text).replace(",", " ").split()
    return [position(word) for word in words]


def _decoded(text: str) -> Iterator[CodePosition]:
    """The positions of a JSON list, or of the list ``at`` of a JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise PositionError(f"the list of positions is not JSON: {error}") from None
    items = found.get("at") if isinstance(found, Mapping) else found
    if not isinstance(items, list):
        raise PositionError("the JSON has no list 'at' of positions")
    for item in items:
        if isinstance(item, Mapping):
            yield _from_fields(item)
        elif isinstance(item, (int, str)) and not isinstance(item, bool):
            yield position(str(item))
        else:
            raise PositionError(
                f"{json.dumps(item)} is not a position: expected a number, a string or an object"
            )


def _from_fields(item: Mapping[str, Any]) -> CodePosition:
    """The position of a JSON object with the fields of :class:`CodePosition`."""
    shown = json.dumps(item)
    if unknown := sorted(item.keys() - _KEYS):
        raise PositionError(f"{shown}: unknown key '{unknown[0]}'")
    if ("line" in item) == ("offset" in item):
        raise PositionError(f"{shown}: needs either 'line' or 'offset'")
    values = dict(item)
    if isinstance(offset := values.get("offset"), str):
        values["offset"] = _parsed(offset, shown)
    for key, value in values.items():
        good = isinstance(value, str) if key in ("file", "kernel") else _whole(value)
        if not good:
            raise PositionError(f"{shown}: '{key}' has the wrong type")
    if "warp" in values:
        values.setdefault("cta", 0)
    return CodePosition(**values)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parsed(number: str, shown: str) -> int:
    try:
        return int(number, 0)
    except ValueError:
        raise PositionError(f"{shown}: 'offset' is not a number") from None


def merged(positions: Iterable[CodePosition]) -> list[CodePosition]:
    """*positions* with equal ones merged, in the order of their first occurrence."""
    return list(dict.fromkeys(positions))

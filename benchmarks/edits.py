"""Edits such as people make in a kernel, drawn at random; a seed makes the same ones again.

A third of them change what follows what: control flow, or synchronisation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random

__all__ = ["KINDS", "ORDERING", "edits"]

Edit = tuple[int, int, bytes]
"""The bytes from, to, and what takes their place."""
_STATEMENT = re.compile(rb"^[ \t]*(?:@!?%\w+[ \t]+)?[a-z][\w.:]*[ \t][^\n]*;[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(rb"(?<![\w%$.])\d{1,4}(?![\w.])")
_REGISTER = re.compile(rb"%[a-z]+\d+")
_BRANCH = re.compile(rb"^[ \t]*(?:@!?%\w+[ \t]+)?bra(?:\.uni)?[ \t]+([\w$]+);[ \t]*$", re.MULTILINE)
_PREDICATE = re.compile(rb"@!?(%\w+)")
_SYNCHRONISES = re.compile(
    rb"^[ \t]*(?:@!?%\w+[ \t]+)?(?:bar|barrier|fence|membar|mbarrier|wgmma\.(?:fence|commit|wait)\w*"
    rb"|cp\.async(?:\.bulk)?\.(?:commit|wait)\w*|tcgen05\.(?:fence|commit|wait))[.\w:]*[ \t]*[^\n;]*;[ \t]*$",
    re.MULTILINE,
)


def _statement(data: bytes, random: Random) -> tuple[int, int]:
    """A line with one instruction, or any line where none is near."""
    start = random.randrange(len(data) or 1)
    match = _STATEMENT.search(data, start) or _STATEMENT.search(data)
    if match is None:
        end = data.find(b"\n", start)
        return start, end if end >= 0 else len(data)
    return match.span()


def _within(data: bytes, random: Random, what: re.Pattern[bytes]) -> tuple[int, int] | None:
    for _ in range(50):
        found = list(what.finditer(data, *_statement(data, random)))
        if found:
            return random.choice(found).span()
    return None


def _comment(data: bytes, random: Random) -> Edit:
    _, end = _statement(data, random)
    return end, end, random.choice((b" // note", b" /* here */", b" // x"))


def _blank(data: bytes, random: Random) -> Edit:
    start, _ = _statement(data, random)
    return start, start, random.choice((b"\n", b"  ", b"\t", b"   \n"))


def _immediate(data: bytes, random: Random) -> Edit:
    where = _within(data, random, _NUMBER) or (0, 0)
    return (*where, b"%d" % random.choice((0, 1, 2, 4, 8, 16, 32, 64, 128)) if where[1] else b"")


def _register(data: bytes, random: Random) -> Edit:
    """One register takes the place of another one of its kind."""
    where = _within(data, random, _REGISTER)
    if where is None:
        return 0, 0, b""
    old = data[slice(*where)]
    prefix = old.rstrip(b"0123456789")
    return (*where, b"%b%d" % (prefix, random.randrange(1, 20)))


def _type(data: bytes, random: Random) -> Edit:
    """A character is typed inside an operand, as an intermediate step to another one."""
    where = _within(data, random, _REGISTER) or (0, 0)
    return where[1], where[1], random.choice((b"1", b"2", b"0", b"x", b",", b" "))


def _delete(data: bytes, random: Random) -> Edit:
    """A character of an operand is deleted."""
    where = _within(data, random, _REGISTER) or (1, 1)
    return where[1] - 1, where[1], b""


def _insert(data: bytes, random: Random) -> Edit:
    """A copy of another line is inserted."""
    start, _ = _statement(data, random)
    return start, start, data[slice(*_statement(data, random))] + b"\n"


def _remove(data: bytes, random: Random) -> Edit:
    """A line is deleted."""
    start, end = _statement(data, random)
    return start, min(end + 1, len(data)), b""


def _break(data: bytes, random: Random) -> Edit:
    """A character that belongs somewhere else is typed anywhere."""
    at = random.randrange(len(data) + 1)
    return at, at, random.choice((b"{", b"}", b";", b"[", b'"', b"/*", b"%", b".", b"(", b":", b"\n", b"q"))


def _near(data: bytes, random: Random, what: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """The first match after a random position, or any match where none is after it."""
    return what.search(data, random.randrange(len(data) or 1)) or what.search(data)


def _control_flow(data: bytes, random: Random) -> Edit:
    """A branch is deleted, gets another target, or is inserted before another instruction."""
    branch, other = (_near(data, random, _BRANCH) for _ in range(2))
    if branch is None or other is None:
        return 0, 0, b""
    match random.choice(("delete", "retarget", "insert")):
        case "delete":
            return branch.start(), min(branch.end() + 1, len(data)), b""
        case "retarget":
            return (*branch.span(1), other[1])
    guard = _near(data, random, _PREDICATE)
    at, _ = _statement(data, random)
    return at, at, (b"@" + guard[1] + b" " if guard else b"") + b"bra " + branch[1] + b";\n"


def _synchronisation(data: bytes, random: Random) -> Edit:
    """A barrier, fence, commit, wait or arrival is deleted, or copied to another line."""
    found = _near(data, random, _SYNCHRONISES)
    if found is None:
        return 0, 0, b""
    if random.random() < 0.5:
        return found.start(), min(found.end() + 1, len(data)), b""
    at, _ = _statement(data, random)
    return at, at, found[0] + b"\n"


ORDERING: dict[str, Callable[[bytes, Random], Edit]] = {
    "control flow": _control_flow,
    "synchronisation": _synchronisation,
}
"""The kinds that are a third of the edits."""
KINDS: dict[str, Callable[[bytes, Random], Edit]] = {
    "comment": _comment,
    "blank": _blank,
    "immediate": _immediate,
    "register": _register,
    "type a character": _type,
    "delete a character": _delete,
    "insert a line": _insert,
    "delete a line": _remove,
    "break anything": _break,
    **ORDERING,
}


def edits(data: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    """States of a text without end, each with the kind of the edit that made it. About half of them are undone next."""
    others = [kind for kind in KINDS if kind not in ORDERING]
    while True:
        kind = random.choice([*ORDERING] if random.random() < 1 / 3 else others)
        start, end, text = KINDS[kind](data, random)
        new = data[:start] + text + data[end:]
        yield kind, new
        if kind == "break anything" or random.random() < 0.5:
            yield "undo", data
        else:
            data = new

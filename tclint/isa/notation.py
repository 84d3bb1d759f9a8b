"""The manual's notation for instructions: parsing, and matching of modifiers.

A *syntax line* is written as in the PTX ISA: an opcode whose modifiers are literals or named choices, optional parts in
braces, then the operands::

    cp.async.bulk.dst.src.completion{.level} [dstMem], [srcMem], size, [mbar] {, policy}

A choice is a key of the form's ``where`` table. A spelling in that table may contain ``{8..256/8}`` (a range with a
step) or ``{a,b}``; both are expanded when the table is loaded. Modifiers match in any order, as in ptxas, except that
types, layouts and the like keep theirs (``cvt.f16.f32`` is not ``cvt.f32.f16``), and that the first modifiers belong
to the name of many instructions (there is no ``cp.bulk.async``). Several choices over the same spellings are filled from
left to right.
"""

from __future__ import annotations

from dataclasses import field
from functools import cache, cached_property
from itertools import product, takewhile

from tclint._dataclass import dataclass
from tclint._pattern import pattern

__all__ = [
    "MODIFIER_KINDS",
    "TYPE",
    "NotationError",
    "OperandSlot",
    "Slot",
    "Syntax",
    "expand",
    "keeps_order",
    "parse_syntax",
]


class NotationError(ValueError):
    """A syntax line or a spelling of the ISA table violates the notation."""


TYPE = pattern(r"\.(?!b1024)(?:pred|(?:[usb]|b?f)\d+(?:x\d)?|tf32|u?e\d+m\d(?:p\d)?(?:x\d)?|s2f6(?:x2)?)")
"""A modifier that is the type of an operand; ``.b1024`` is the size of a tensor map."""
_ORDERED = (
    TYPE,
    pattern(r"\.(?:row|col)"),
    pattern(r"\.(?:global|shared|local|const|param)(?:::\w+)?"),
    pattern(r"\.b\dx16(?:_p\d+)?"),
    pattern(r"\.(?:and|xor|popc)"),
    pattern(r"\.L2::evict_\w+"),
)
"""The kinds of modifiers that keep their order among themselves: types, layouts of matrices, state spaces, formats of
packed elements, the operations on single bits, priorities in the cache."""

MODIFIER_KINDS = (
    (TYPE, "type"),
    (pattern(r"\.(?:r[nzmp]i?|rna|rs)"), "rounding modifier"),
    (pattern(r"\.(?:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan)"), "comparison"),
    (pattern(r"\.v\d+"), "vector size"),
    (
        pattern(r"\.(?:global|shared|local|const(?:ant)?|param|s?reg|tex(?:ture)?|surf(?:ace)?)(?:::\w+)?"),
        "state space",
    ),
    (pattern(r"\.(?:cta|cluster|gpu|sys)"), "scope"),
    (pattern(r"\.(?:relaxed|acquire|release|acq_rel|weak|volatile|sc)"), "memory order"),
    (pattern(r"\.m\d+n\d+k\d+"), "shape"),
    (pattern(r"\.(?:row|col)"), "layout"),
)
"""The kinds of modifiers that messages name."""

_BRACES = pattern(r"\{([^{}]*)\}")


@cache
def expand(spellings: str) -> tuple[str, ...]:
    """All spellings that *spellings* (separated by blanks) expands to, in order.

    >>> expand(".m64n{8..24/8}k16 .x{1,2}")
    ('.m64n8k16', '.m64n16k16', '.m64n24k16', '.x1', '.x2')
    """
    found: list[str] = []
    for word in spellings.split():
        parts = _BRACES.split(word)
        choices: list[list[str]] = []
        for index, part in enumerate(parts):
            if index % 2 == 0:
                choices.append([part])
            elif ".." in part:
                low, _, rest = part.partition("..")
                high, _, step = rest.partition("/")
                choices.append([str(n) for n in range(int(low), int(high) + 1, int(step or 1))])
            else:
                choices.append(part.split(","))
        found.extend("".join(parts) for parts in product(*choices))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Slot:
    """One modifier position: a literal (one spelling) or a named choice."""

    name: str
    spellings: frozenset[str]
    optional: bool


@dataclass(frozen=True, slots=True)
class OperandSlot:
    """One operand position of a syntax line.

    ``style`` is ``plain``, ``memory`` (``[a]``, with ``names`` for its parts) or ``pair`` (``d|p``).
    """

    names: tuple[str, ...]
    style: str
    optional: bool

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass(frozen=True)
class Syntax:
    """One line of a form: its opcode root, modifier slots and operands."""

    text: str
    root: str
    slots: tuple[Slot, ...]
    operands: tuple[OperandSlot, ...]
    open: bool = field(default=False)
    """Any operands match; ``operands`` is empty. Written as a lone ``...``."""
    stem: int = 0
    """The number of slots at the front whose modifiers come before all others, in this order."""

    @cached_property
    def accepts(self) -> frozenset[str]:
        """Every modifier spelling that some slot accepts."""
        return frozenset().union(*(slot.spellings for slot in self.slots))

    def named(self, modifiers: tuple[str, ...]) -> int:
        """How many of *modifiers*, from the first on, are words of the name of the instruction."""
        stem = zip(modifiers, self.slots[: self.stem], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] in pair[1].spellings, stem))

    def short_name(self, modifiers: tuple[str, ...]) -> str:
        """The words of an opcode with *modifiers* that name the instruction: ``cp.async.bulk``."""
        return "".join((self.root, *modifiers[: self.named(modifiers)]))

    def bind(self, modifiers: tuple[str, ...]) -> dict[str, str] | None:
        """Slot name -> the spelling of *modifiers* that fills it; None if they do not match this line."""
        taken = self._fill(modifiers, whole=True)
        if taken is None:
            return None
        return {s.name: t for s, t in zip(self.slots, taken, strict=True) if t is not None}

    def continuations(self, modifiers: tuple[str, ...]) -> dict[str, int]:
        """The modifiers that may follow *modifiers*, each with the index of its slot; empty if none may."""
        taken = self._fill(modifiers, whole=False)
        if taken is None:
            return {}
        found: dict[str, int] = {}
        for index, slot in enumerate(self.slots):
            if taken[index] is None:
                for spelling in slot.spellings:
                    if spelling not in found and self._fill((*modifiers, spelling), whole=False) is not None:
                        found[spelling] = index
        return found

    def placed(self, modifiers: tuple[str, ...]) -> dict[int, str] | None:
        """Slot -> which of *modifiers* fills it, if in their order they may be some of those of an opcode of this line; else
        None."""
        taken = self._fill(modifiers, whole=False)
        return None if taken is None else {i: word for i, word in enumerate(taken) if word is not None}

    def _fill(self, modifiers: tuple[str, ...], *, whole: bool) -> list[str | None] | None:
        """The spelling in each slot; None if *modifiers* do not fit, or if a *whole* opcode lacks one."""
        slots = self.slots
        if len(modifiers) > len(slots):
            return None
        accepts = self.accepts
        if any(m not in accepts for m in modifiers):
            return None
        taken: list[str | None] = [None] * len(slots)
        first = [0] * len(_ORDERED)

        def place(k: int) -> bool:
            if k == len(modifiers):
                return not whole or all(
                    t is not None or s.optional for t, s in zip(taken, slots, strict=True)
                )
            kind = _order(modifiers[k])
            before = first[kind] if kind >= 0 else 0
            for index in range(before, len(slots)):
                if index < self.stem and any(taken[index:]):
                    continue
                if taken[index] is None and modifiers[k] in slots[index].spellings:
                    taken[index] = modifiers[k]
                    if kind >= 0:
                        first[kind] = index
                    if place(k + 1):
                        return True
                    taken[index] = None
            if kind >= 0:
                first[kind] = before
            return False

        return taken if place(0) else None


@cache
def _order(modifier: str) -> int:
    """The index in :data:`_ORDERED` of the kind of a modifier; -1 if its position is free."""
    return next((kind for kind, each in enumerate(_ORDERED) if each.fullmatch(modifier)), -1)


def keeps_order(modifier: str) -> bool:
    """Whether the order of *modifier* among others of its kind has a meaning, as that of types has."""
    return _order(modifier) >= 0


_OPCODE = pattern(r"[A-Za-z_][\w:]*|\{\.[\w:]+\}|\.[\w:]+")
_OPERAND = pattern(
    r"\s*(?:(?P<open>\{)|(?P<close>\})|(?P<comma>,)|(?P<memory>\[[^\]]*\])|(?P<name>[A-Za-z][\w-]*(?:\|[A-Za-z][\w-]*)?))"
)


@cache
def _parse_operands(text: str) -> tuple[OperandSlot, ...]:
    operands: list[OperandSlot] = []
    depth, position = 0, 0
    while position < len(text):
        if not text[position:].strip():
            break
        match = _OPERAND.match(text, position)
        if not match:
            raise NotationError(f"cannot read the operands {text!r} at {text[position:]!r}")
        position = match.end()
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        elif match["memory"]:
            names = tuple(part.strip(" {}") for part in match["memory"][1:-1].split(","))
            operands.append(OperandSlot(names, "memory", depth > 0))
        elif match["name"]:
            names = tuple(match["name"].split("|"))
            operands.append(OperandSlot(names, "pair" if len(names) > 1 else "plain", depth > 0))
    if depth:
        raise NotationError(f"unbalanced braces in the operands {text!r}")
    return tuple(operands)


def parse_syntax(line: str, where: dict[str, str], stem: int = 0) -> Syntax:
    """Parse one syntax line; *where* maps choice names to their spellings, and *stem* is that of the line.

    Raises :class:`NotationError` if the line violates the notation.
    """
    opcode, _, rest = line.strip().partition(" ")
    words = _OPCODE.findall(opcode)
    if "".join(words) != opcode or not words or words[0].startswith((".", "{")):
        raise NotationError(f"cannot read the opcode of {line!r}")
    slots = []
    for word in words[1:]:
        optional = word.startswith("{")
        bare = word.strip("{}")
        name = bare[1:]
        choice = where.get(name)
        spellings = frozenset(expand(choice)) if choice is not None else frozenset((bare,))
        slots.append(Slot(name if choice is not None else bare, spellings, optional))
    rest = rest.strip().rstrip(";")
    if rest == "...":
        return Syntax(line, words[0], tuple(slots), (), True, stem)
    return Syntax(line, words[0], tuple(slots), _parse_operands(rest), False, stem)

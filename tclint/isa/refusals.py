"""Why an opcode matches no form: what the nearest lines of the table lack, exclude or order differently.

Each syntax line of the instruction is compared with the modifiers as written. A modifier that fits no slot, one that
finds its slot taken, and an empty slot that must be filled each make a line more distant; the nearest lines say what is
wrong, and what is legal in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain

from tclint._dataclass import dataclass
from tclint.isa.forms import Form
from tclint.isa.notation import MODIFIER_KINDS, TYPE, Slot, Syntax, keeps_order
from tclint.isa.table import Table, split_opcode

__all__ = ["Refusal", "nearest_words", "refusal_of"]

_NUMBER = re.compile(r"\d+")
_ROUNDING = "rounding modifier"
_MAX_CHOICES = 8
"""Spellings that a message lists; of more, it lists the first ones."""
_MAX_ROOTS = 8
"""Known instructions that are compared with an unknown one."""
_CLOSE = 0.75
"""How similar a word must be to be suggested if it is more than one letter away (0 to 1)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an opcode matches no form."""

    message: str
    help: str = ""
    wrong: str = ""
    """The first word of the opcode if that is unknown, or the first modifier that is; else empty."""
    near: str = ""
    """The known word that was probably meant by ``wrong``; empty if none is close."""
    similar: tuple[str, ...] = ()
    """The known words that differ from ``wrong`` by one letter."""
    reordered: str = ""
    """The opcode with its modifiers in the order of the syntax, if nothing else is wrong and no type has moved."""

    @property
    def unknown_instruction(self) -> bool:
        """Whether no instruction begins with the first word."""
        return bool(self.wrong) and not self.wrong.startswith(".")


def refusal_of(isa: Table, opcode: str) -> Refusal:
    """What is wrong with *opcode*, which matches no form of *isa*.

    Only the lines count that have most of the words with which it begins: of ``cp.async.bulk.shared``, those of bulk copies.
    """
    root, modifiers = split_opcode(opcode)
    given = isa.roots.get(root, ())
    if not given:
        return _unknown_root(isa, opcode)
    named = max(syntax.named(modifiers) for _, syntax in given)
    given = [line for line in given if line[1].named(modifiers) == named]
    known = frozenset(chain.from_iterable(syntax.accepts for _, syntax in given))
    lines = [_Line(form, syntax, modifiers, known) for form, syntax in given]
    best = min(lines, key=lambda line: (line.distance, len(line.syntax.slots)))
    if best.unknown:
        return _unknown_modifier(isa, opcode, best, lines)
    help_ = f"the syntax is {best.syntax.text}"
    if best.surplus:
        return Refusal(f"{opcode}: {_excluded(best)}", help_)
    if best.missing:
        nearest = [line for line in lines if line.distance == best.distance and line.only_lacks]
        return Refusal(f"{opcode} lacks {_lacking(nearest)}", help_)
    if best.disordered:
        return _disordered(isa, opcode, best)
    return Refusal(f"{opcode}: {best.contradiction or 'these modifiers cannot be combined'}", help_)


class _Line:
    """A syntax line, compared with the modifiers of an opcode."""

    def __init__(self, form: Form, syntax: Syntax, modifiers: tuple[str, ...], known: frozenset[str]) -> None:
        """*known* are the modifiers of all lines that may have been meant: none of these is misspelt."""
        self.form, self.syntax, self.modifiers = form, syntax, modifiers
        self.unknown = [m for m in modifiers if m not in syntax.accepts]
        self.filled: dict[int, int] = {}
        """Slot -> the modifier that fills it, whatever their order."""
        accepted = [k for k, m in enumerate(modifiers) if m in syntax.accepts]
        self.surplus = [modifiers[k] for k in accepted if not self._place(k, set())]
        """The modifiers for which no slot is left."""
        fitting = tuple(modifiers[k] for k in sorted(self.filled.values()))
        self.disordered = not syntax.begins(fitting)
        self.free = [slot for i, slot in enumerate(syntax.slots) if i not in self.filled]
        misspelt = [m for m in self.unknown if m not in known]
        self.meant = {m: slot for m in misspelt if (slot := self._free(m, _one_letter_apart)) is not None}
        """Misspelt modifier -> a free slot with a spelling that differs by one letter."""
        replaced = (m for m in self.unknown if m in misspelt or _kind(m) == _ROUNDING)
        self.alike = {m: slot for m in replaced if (slot := self._free(m, _same_kind)) is not None}
        """Modifier that is misspelt, or rounds as in another line -> a free slot with a spelling of the same kind."""
        wanted = [*self.meant.values(), *self.alike.values()]
        self.missing = [slot for slot in self.free if not slot.optional and slot not in wanted]

    def _place(self, k: int, tried: set[int]) -> bool:
        """Fill a slot with modifier *k*, and move those that are in its place, by an augmenting path."""
        for i, slot in enumerate(self.syntax.slots):
            if i in tried or self.modifiers[k] not in slot.spellings:
                continue
            tried.add(i)
            if i not in self.filled or self._place(self.filled[i], tried):
                self.filled[i] = k
                return True
        return False

    def _free(self, unknown: str, similar: Callable[[str, str], bool]) -> Slot | None:
        slots = (slot for slot in self.free if any(similar(unknown, s) for s in slot.spellings))
        return min(slots, key=lambda slot: slot.optional, default=None)

    @cached_property
    def distance(self) -> int:
        """How much of the opcode this line contradicts. A type that it does not have weighs most."""
        unknown = sum(
            1 if m in self.meant else 2 if m in self.alike else 4 if TYPE.fullmatch(m) else 3
            for m in self.unknown
        )
        others = 2 * len(self.surplus) + 2 * len(self.missing) + self.disordered * (3 if self.moved else 1)
        return unknown + others or bool(self.contradiction)

    @property
    def only_lacks(self) -> bool:
        return not (self.unknown or self.surplus or self.disordered)

    @property
    def sorted(self) -> list[str]:
        """The modifiers in the order of the slots."""
        return [self.modifiers[k] for _, k in sorted(self.filled.items())]

    @property
    def moved(self) -> bool:
        """Whether :attr:`sorted` moves types, layouts and the like, whose order has a meaning."""
        return [m for m in self.sorted if keeps_order(m)] != [m for m in self.modifiers if keeps_order(m)]

    @cached_property
    def contradiction(self) -> str:
        """The rule of the form that a combination of the modifiers violates; empty if there is none."""
        have = frozenset(self.modifiers)
        for rule in self.form.combinations:
            if not rule.when <= have:
                continue
            when = " with ".join(m for m in self.modifiers if m in rule.when)
            if clash := [m for m in self.modifiers if m in rule.forbids]:
                return f"{when} and {clash[0]} exclude each other" if when else f"{clash[0]} is not allowed"
            if rule.needs and not rule.needs & have:
                return f"{when or 'it'} requires {_choice(_sorted(rule.needs & self.syntax.accepts) or _sorted(rule.needs))}"
        return ""

    @property
    def stem(self) -> str:
        """The words of the opcode that name the instruction: ``cp.async.bulk``."""
        return self.syntax.short_name(self.modifiers)

    @property
    def opcode(self) -> str:
        """The opcode as the syntax line writes it."""
        return self.syntax.text.partition(" ")[0]


def _unknown_root(isa: Table, opcode: str) -> Refusal:
    root, dot, rest = opcode.partition(".")
    lower = root.lower()
    similar = tuple(word for word in isa.roots if word == lower or _one_letter_apart(root, word))
    words = list(dict.fromkeys((*similar, *nearest_words(lower, isa.roots, _MAX_ROOTS))))
    near = next((word for word in words if isa.candidates(f"{word}{dot}{rest}")), words[0] if words else "")
    hint = f"did you mean {near}?" if near else "" if root.islower() else f"if it is a label, write {root}:"
    return Refusal(f"unknown instruction {root}", hint, root, near, similar)


def _unknown_modifier(isa: Table, opcode: str, best: _Line, lines: Sequence[_Line]) -> Refusal:
    """The refusal of the first modifier that the nearest of the *lines* does not have."""
    wrong = best.unknown[0]
    everything = list(dict.fromkeys(chain.from_iterable(_sorted(line.syntax.accepts) for line in lines)))
    similar = tuple(word for word in everything if _one_letter_apart(wrong, word))
    near = "" if wrong in everything else _meant_by(wrong, best, similar, everything)
    message = f"{best.stem} does not accept the modifier {wrong} here"
    return Refusal(message, _instead(isa, opcode, best, lines, near), wrong, near, similar)


def _meant_by(wrong: str, best: _Line, similar: Sequence[str], everything: Sequence[str]) -> str:
    """The spelling that was probably meant by *wrong*, of the nearest line if it has one; empty if none is close. One of
    the numbers, sizes or shapes is as likely as another."""
    kind = _kind(wrong)
    if kind != "type" and (kind or _alternatives(best, wrong)):
        return ""
    slot = best.meant.get(wrong)
    close = [m for m in _sorted(slot.spellings if slot else best.syntax.accepts) if m in similar]
    close = [m for m in close if _kind(m) == kind] or close
    if not close and not kind:
        longer = [m for m in everything if m.startswith(f"{wrong}_")]
        close = nearest_words(wrong, best.syntax.accepts) or nearest_words(wrong, everything) or longer
    return close[0] if close else ""


def _instead(isa: Table, opcode: str, best: _Line, lines: Sequence[_Line], near: str) -> str:
    """What to write in place of the first modifier that the nearest of the *lines* does not have."""
    wrong = best.unknown[0]
    kind = _kind(wrong)
    without = ".".join(word for word in opcode.split(".") if f".{word}" != wrong)
    choices = _alternatives(best, wrong)
    if near:
        alike = [m for m in choices if _one_letter_apart(wrong, m)] if kind else []
        return f"did you mean {_choice(alike) if near in alike else near}?"
    if choices:
        return f"it accepts {_choice(choices)}"
    others = [line for line in lines if wrong in line.syntax.accepts]
    belongs = f"{wrong} is for {min(others, key=lambda line: line.distance).opcode}" if others else ""
    lacks = f"it lacks {_described([best.missing[0]])}" if best.missing else ""
    more = f"write {without}" if isa.candidates(without) else lacks
    return "; ".join(filter(None, (more, belongs))) or f"the syntax is {best.syntax.text}"


def _alternatives(best: _Line, wrong: str) -> list[str]:
    """The modifiers like *wrong* that the free slots of the line accept; of many, the nearest sizes first."""
    words = (m for slot in best.free for m in _sorted(slot.spellings) if _same_kind(m, wrong))
    found = list(dict.fromkeys(words))
    if len(found) > _MAX_CHOICES and _kind(wrong) != "type":
        found.sort(key=lambda m: sum(abs(a - b) for a, b in zip(_numbers(m), _numbers(wrong), strict=False)))
    return found


def _excluded(best: _Line) -> str:
    """In words, which modifiers exclude each other, or that one appears twice."""
    wrong = best.surplus[0]
    if best.modifiers.count(wrong) > sum(wrong in slot.spellings for slot in best.syntax.slots):
        return f"{wrong} appears twice"
    holders = [best.modifiers[k] for i, k in best.filled.items() if wrong in best.syntax.slots[i].spellings]
    if len(holders) > 1:
        return f"{_kind(wrong)} {wrong} is one too many".lstrip()
    return f"{holders[0]} and {wrong} exclude each other"


def _lacking(lines: Sequence[_Line]) -> str:
    """In words, what the nearest lines have in the slots that nothing fills."""
    least = min(len(line.missing) for line in lines)
    if least > 1:
        parts = (_described([slot]) for slot in lines[0].missing)
        return " and ".join(parts)
    return _described([line.missing[0] for line in lines if len(line.missing) == least])


def _described(slots: Iterable[Slot]) -> str:
    """What any of *slots* accepts: its kind and some spellings."""
    kinds: dict[str, dict[str, None]] = {}
    for slot in slots:
        for spelling in _sorted(slot.spellings):
            kinds.setdefault(_kind(spelling), {})[spelling] = None
    words: list[str] = []
    for kind, spellings in kinds.items():
        listed = list(spellings)
        if not kind and len(listed) <= _MAX_CHOICES:
            words += listed
        elif not kind:
            words.append(_choice(listed))
        elif len(listed) == 1:
            words.append(f"the {kind} {listed[0]}")
        else:
            words.append(f"a {kind} ({_choice(listed)})")
    return ", ".join(words[:-1]) + (" or " if len(words) > 1 else "") + words[-1]


def _disordered(isa: Table, opcode: str, best: _Line) -> Refusal:
    """The refusal of modifiers that the nearest line has in another order."""
    written = best.syntax.root + "".join(best.sorted)
    if not isa.candidates(written):
        return Refusal(f"{opcode}: the modifiers are in the wrong order", f"the syntax is {best.syntax.text}")
    if best.moved:
        what = "layouts" if any(_kind(m) == "layout" for m in best.modifiers) else "types"
        return Refusal(f"{opcode}: no form has its {what} in this order", f"there is {written}")
    return Refusal(f"{opcode}: the modifiers are in the wrong order", f"write {written}", reordered=written)


def _kind(modifier: str) -> str:
    """What a modifier is, in words: ``rounding modifier``; empty if it is of no kind that has a name."""
    return next((words for pattern, words in MODIFIER_KINDS if pattern.fullmatch(modifier)), "")


def _same_kind(a: str, b: str) -> bool:
    """Whether both are of one kind, or differ in numbers alone."""
    kinds = _kind(a), _kind(b)
    return kinds[0] == kinds[1] and (kinds[0] != "" or _NUMBER.split(a) == _NUMBER.split(b) != [b])


def _sorted(spellings: Iterable[str]) -> list[str]:
    """*spellings* by letters, then by numbers: ``.v2 .v4 .v16``."""
    return sorted(spellings, key=lambda s: (_NUMBER.split(s), _numbers(s)))


def _numbers(spelling: str) -> list[int]:
    return [int(digits) for digits in _NUMBER.findall(spelling)]


def _choice(words: Sequence[str]) -> str:
    """*words* as alternatives: ``.rn, .rz or .rm``."""
    if len(words) > _MAX_CHOICES:
        return f"{', '.join(words[:_MAX_CHOICES])} or another of {len(words)}"
    return ", ".join(words[:-1]) + (" or " if len(words) > 1 else "") + words[-1] if words else "nothing"


def nearest_words(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The *known* words that may have been meant by *word*, the closest first. In a long word, two letters may differ."""
    from difflib import get_close_matches

    return get_close_matches(word, sorted(known), n=most, cutoff=max(_CLOSE, 1 - 2 / max(len(word), 1)))


def _one_letter_apart(a: str, b: str) -> bool:
    """Whether one letter that is added, left out or replaced, or two that are exchanged, make *b* of *a*."""
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return max(len(a), len(b)) == 1 or (len(a) == 2 and a == b[::-1])

"""Why an opcode matches no form: what the nearest lines of the table lack, exclude or order differently.

Each syntax line of the instruction is compared with the modifiers as written. A modifier that fits no slot, one that
finds its slot taken, and an empty slot that must be filled each make a line more distant; the nearest lines say what is
wrong, and what is legal in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import chain, permutations

from tclint._dataclass import dataclass
from tclint._pattern import pattern
from tclint.isa.forms import Form
from tclint.isa.notation import MODIFIER_KINDS, TYPE, Slot, Syntax, keeps_order
from tclint.isa.table import Table, split_opcode

__all__ = ["Refusal", "Usage", "nearest_words", "refusal_of"]

_NUMBER = pattern(r"\d+")
_NUMERIC = pattern(r"\.(?:(?P<integer>[us])|t?f|bf|u?e)\d")
_ROUNDING = "rounding modifier"
_MAX_CHOICES = 8
"""Spellings that a message lists; of more, it lists the first ones."""
_MAX_LINES = 3
"""Syntax lines that a message shows."""
_MAX_SHOWN = 4
"""Spellings of a modifier that a syntax line shows; of more, it shows the first ones if one is required."""
_MAX_TYPES = 4
"""Types of an opcode of which all orders are tried."""
_MAX_ROOTS = 8
"""Known instructions that are compared with an unknown one."""
_CLOSE = 0.75
"""How similar a word must be to be suggested if it is more than one letter away (0 to 1)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Where an opcode is written, which decides what may be written instead."""

    has: Callable[[str], bool]
    """Whether the target has an instruction with an opcode."""
    takes: Callable[[str], bool]
    """Whether one that it has takes the operands."""
    typed: bool = True
    """Whether the operands are known, so that the order of types follows from them."""

    def fitting(self, words: Iterable[str], opcode: Callable[[str], str]) -> list[str]:
        """Those of *words* whose *opcode* takes the operands; if there are none, those that the target has; else all."""
        listed = list(words)
        taken = [word for word in listed if self.takes(opcode(word))]
        return taken or [word for word in listed if self.has(opcode(word))] or listed


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


def refusal_of(isa: Table, opcode: str, usage: Usage | None = None) -> Refusal:
    """What is wrong with *opcode*, which matches no form of *isa*; without *usage*, whatever its operands and its target.

    Only the lines count that have most of the words with which it begins: of ``cp.async.bulk.shared``, those of bulk copies.
    """
    root, modifiers = split_opcode(opcode)
    given = isa.roots.get(root, ())
    if not given:
        return _unknown_root(isa, opcode)
    if usage is None:
        usage = Usage(lambda one: bool(isa.candidates(one)), lambda one: bool(isa.candidates(one)), False)
    named = max(syntax.named(modifiers) for _, syntax in given)
    given = [line for line in given if line[1].named(modifiers) == named]
    known = frozenset(chain.from_iterable(syntax.accepts for _, syntax in given))
    lines = [_Line(form, syntax, modifiers, known) for form, syntax in given]
    best = min(lines, key=lambda line: (line.distance, len(line.syntax.slots)))
    if turned := _turned(best, usage):
        return Refusal(f"{opcode}: its operands have these types in another order", f"write {turned}")
    if best.unknown:
        return _unknown_modifier(opcode, best, lines, usage)
    if best.surplus:
        return Refusal(f"{opcode}: {_excluded(best)}", _syntax([best]))
    if best.missing:
        nearest = [line for line in lines if line.distance == best.distance and line.only_lacks]
        what, shown = _lacking(nearest, usage)
        return Refusal(f"{opcode} lacks {what}", _syntax(shown))
    if best.disordered:
        return _disordered(isa, opcode, best)
    help_ = _compatible(best, usage) or _syntax([best])
    return Refusal(f"{opcode}: {best.contradiction or 'these modifiers cannot be combined'}", help_)


class _Line:
    """A syntax line, compared with the modifiers of an opcode."""

    def __init__(self, form: Form, syntax: Syntax, modifiers: tuple[str, ...], known: frozenset[str]) -> None:
        """*known* are the modifiers of all lines that may have been meant: none of these is misspelt."""
        self.form, self.syntax, self.modifiers = form, syntax, modifiers
        self.unknown = [m for m in modifiers if m not in syntax.accepts]
        self.filled: dict[int, int] = {}
        """Slot -> the index of the modifier that fills it, whatever their order."""
        accepted = [k for k, m in enumerate(modifiers) if m in syntax.accepts]
        self.surplus = [modifiers[k] for k in accepted if not self._place(k, set())]
        """The modifiers for which no slot is left."""
        fitting = tuple(modifiers[k] for k in sorted(self.filled.values()))
        placed = syntax.placed(fitting)
        self.disordered = placed is None
        self.at = {i: modifiers[k] for i, k in self.filled.items()} if placed is None else placed
        """Slot -> the modifier in it, in the order of the opcode if the line has that."""
        self.free = [slot for i, slot in enumerate(syntax.slots) if i not in self.at]
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
        return [self.at[i] for i in sorted(self.at)]

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

    def replaced(self, old: str, new: str) -> str:
        """The opcode with the modifier *new* in place of *old*, or without it if *new* is empty."""
        return self.syntax.root + "".join(new if m == old else m for m in self.modifiers)

    def completed(self, slot: Slot, spelling: str) -> str:
        """The fitting modifiers in the order of the slots, with *spelling* in *slot*, which is empty."""
        at = self.at | {self.syntax.slots.index(slot): spelling}
        return self.syntax.root + "".join(at[i] for i in sorted(at))

    def shown(self, *, whole: bool) -> str:
        """The opcode of the syntax line, with the modifiers as written, and in place of each choice what it stands for:
        ``fma(.rm|.rn|.rp|.rz).f32``. If *whole*, with what may be added; else empty if a choice has too many spellings."""
        words = [self.syntax.root]
        for i, slot in enumerate(self.syntax.slots):
            spellings = _sorted(slot.spellings)
            few = "|".join(spellings[:_MAX_SHOWN]) + "|..." * (len(spellings) > _MAX_SHOWN)
            if i in self.at:
                words.append(self.at[i])
            elif not slot.optional:
                if len(spellings) > _MAX_SHOWN and not whole:
                    return ""
                words.append(f"({few})" if len(spellings) > 1 else few)
            elif whole and len(spellings) <= _MAX_SHOWN:
                words.append(f"{{{few}}}")
        return "".join(words)


def _unknown_root(isa: Table, opcode: str) -> Refusal:
    root, dot, rest = opcode.partition(".")
    lower = root.lower()
    similar = tuple(word for word in isa.roots if word == lower or _one_letter_apart(root, word))
    words = list(dict.fromkeys((*similar, *nearest_words(lower, isa.roots, _MAX_ROOTS))))
    near = next((word for word in words if isa.candidates(f"{word}{dot}{rest}")), words[0] if words else "")
    hint = f"did you mean {near}?" if near else "" if root.islower() else f"if it is a label, write {root}:"
    return Refusal(f"unknown instruction {root}", hint, root, near, similar)


def _turned(best: _Line, usage: Usage) -> str:
    """The opcode with its types in another order, if the operands have that order and not the one that is written; else
    empty."""
    types = [m for m in best.modifiers if TYPE.fullmatch(m)]
    if not usage.typed or not 2 <= len(types) <= _MAX_TYPES:
        return ""
    kept = ("", *(_alternatives(best, best.unknown[0]) if best.unknown else ()))
    if best.unknown and any(usage.takes(best.replaced(best.unknown[0], word)) for word in kept):
        return ""
    for order in permutations(types):
        rest = iter(order)
        opcode = best.syntax.root + "".join(next(rest) if m in types else m for m in best.modifiers)
        if list(order) != types and usage.takes(opcode):
            return opcode
    return ""


def _unknown_modifier(opcode: str, best: _Line, lines: Sequence[_Line], usage: Usage) -> Refusal:
    """The refusal of the first modifier that the nearest of the *lines* does not have."""
    wrong = best.unknown[0]
    everything = list(dict.fromkeys(chain.from_iterable(_sorted(line.syntax.accepts) for line in lines)))
    similar = tuple(w for w in everything if _one_letter_apart(wrong, w) and _may_replace(w, wrong))
    near = "" if wrong in everything else _meant_by(wrong, best, similar, everything)
    message = f"{best.stem} does not accept the modifier {wrong} here"
    return Refusal(message, _instead(best, lines, near, everything, usage), wrong, near, similar)


def _meant_by(wrong: str, best: _Line, similar: Sequence[str], everything: Sequence[str]) -> str:
    """The spelling that was probably meant by *wrong*, of the nearest line if it has one; empty if none is close. One of
    the numbers, sizes or shapes is as likely as another."""
    kind = _kind(wrong)
    if kind != "type" and (kind or _alternatives(best, wrong)):
        return ""
    slot = best.meant.get(wrong)
    close = [m for m in _sorted(slot.spellings if slot else best.syntax.accepts) if m in similar]
    close = [m for m in close if _kind(m) == kind] or close
    if not close and kind:
        close = list(similar)  # a type of another line
    elif not close:
        longer = [m for m in everything if m.startswith(f"{wrong}_")]
        close = nearest_words(wrong, best.syntax.accepts) or nearest_words(wrong, everything) or longer
    return close[0] if close else ""


def _instead(best: _Line, lines: Sequence[_Line], near: str, everything: Sequence[str], usage: Usage) -> str:
    """What to write in place of the first modifier that the nearest of the *lines* does not have."""
    wrong = best.unknown[0]
    kind = _kind(wrong)
    choices = _alternatives(best, wrong)
    if kind == "type":  # of any line
        fitting = [m for m in everything if _kind(m) == kind and usage.takes(best.replaced(wrong, m))]
        choices = [m for m in fitting if _may_replace(m, wrong)] or fitting or choices
        near = near if near in choices else ""
    elif choices:
        choices = usage.fitting(choices, partial(best.replaced, wrong))
    without = best.replaced(wrong, "")
    if near and (usage.has(best.replaced(wrong, near)) or not usage.has(without)):
        alike = [m for m in choices if _one_letter_apart(wrong, m)] if kind else []
        return f"did you mean {_choice(alike) if alike else near}?"
    if choices:
        return f"it accepts {_choice(choices)}"
    having = [line for line in lines if wrong in line.syntax.accepts]
    shown = min(having, key=lambda line: line.distance).shown(whole=False) if having else ""
    belongs = f"{wrong} is for {shown}" if shown else ""
    if usage.takes(without):
        return f"{belongs}; without it, write {without}" if belongs else f"write {without}"
    return "; ".join(filter(None, (_still_lacking(best, lines, usage), belongs))) or _syntax([best])


def _still_lacking(best: _Line, lines: Sequence[_Line], usage: Usage) -> str:
    """In words, what the nearest lines have in a slot that nothing fills, if that alone makes an opcode of them; else
    empty."""
    wrong = best.unknown[0]
    nearest = [
        line
        for line in lines
        if line.distance == best.distance and line.unknown[:1] == [wrong] and line.missing
    ]
    each = ((line, slot, s) for line in nearest for slot in line.missing[:1] for s in _sorted(slot.spellings))
    words = [s for line, slot, s in each if usage.has(line.completed(slot, s))]
    if not words:
        return ""
    known = _kind(wrong) or any(wrong in line.syntax.accepts for line in lines)
    return f"{'it lacks' if known else 'in its place, it needs'} {_described(words)}"


def _may_replace(word: str, wrong: str) -> bool:
    """Whether *word* may have been meant by *wrong*: an integer type never stands for a floating-point type."""
    kinds = [_NUMERIC.match(m) for m in (word, wrong)]
    return None in kinds or len({kind["integer"] is None for kind in kinds if kind}) == 1


def _compatible(best: _Line, usage: Usage) -> str:
    """What the target has in place of one of two modifiers that exclude each other, in words; empty if there is nothing.
    The registers have a type, so another modifier is the one to change."""
    for m in sorted(best.modifiers, key=lambda m: TYPE.fullmatch(m) is not None):
        slot = next((best.syntax.slots[i] for i, word in best.at.items() if word == m), None)
        others = _sorted(slot.spellings - {m}) if slot is not None and m in best.contradiction.split() else []
        if any(usage.has(best.replaced(m, s)) for s in others):
            found = usage.fitting(others, partial(best.replaced, m))
            return f"in place of {m}, it accepts {_choice(found)}"
    return ""


def _syntax(lines: Sequence[_Line]) -> str:
    """The syntax of the *lines*, in words."""
    shown = {line.shown(whole=True): line.syntax.text.partition(" ")[2] for line in lines[:_MAX_LINES]}
    if len({*shown.values()}) == 1:
        text = " ".join(filter(None, (_choice([*shown]), *{*shown.values()})))
    else:
        text = _choice([" ".join(filter(None, both)) for both in shown.items()])
    return f"the syntax is {text}"


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
    holders = [word for i, word in best.at.items() if wrong in best.syntax.slots[i].spellings]
    if len(holders) > 1:
        return f"{_kind(wrong)} {wrong} is one too many".lstrip()
    return f"{holders[0]} and {wrong} exclude each other"


def _lacking(lines: Sequence[_Line], usage: Usage) -> tuple[str, list[_Line]]:
    """In words, what the nearest lines have in the slots that nothing fills, and the lines that have it."""
    least = min(len(line.missing) for line in lines)
    if least > 1:
        return " and ".join(_described(_sorted(slot.spellings)) for slot in lines[0].missing), [lines[0]]
    lacking = [line for line in lines if len(line.missing) == least]
    each = [(line, s) for line in lacking for s in _sorted(line.missing[0].spellings)]
    opcodes = {f"{line.completed(line.missing[0], s)} {s}": (line, s) for line, s in each}
    fitting = [opcodes[key] for key in usage.fitting(opcodes, lambda key: key.partition(" ")[0])]
    shown = list({id(line): line for line, _ in fitting}.values())
    return _described(s for _, s in fitting), shown


def _described(accepted: Iterable[str]) -> str:
    """What is accepted: the kinds and some of the spellings."""
    kinds: dict[str, dict[str, None]] = {}
    for spelling in accepted:
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
        return Refusal(f"{opcode}: the modifiers are in the wrong order", _syntax([best]))
    if best.moved:
        what = "layouts" if any(_kind(m) == "layout" for m in best.modifiers) else "types"
        return Refusal(f"{opcode}: no form has its {what} in this order", f"there is {written}")
    return Refusal(f"{opcode}: the modifiers are in the wrong order", f"write {written}", reordered=written)


def _kind(modifier: str) -> str:
    """What a modifier is, in words: ``rounding modifier``; empty if it is of no kind that has a name."""
    return next((words for kind, words in MODIFIER_KINDS if kind.fullmatch(modifier)), "")


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
    if len(words) > _MAX_CHOICES + 1:
        return f"{', '.join(words[:_MAX_CHOICES])} or one of {len(words) - _MAX_CHOICES} more"
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

"""The ISA table: every instruction form, as the TOML files beside this module describe it.

A form is a group of syntax lines with one meaning. ``README.md`` in this folder describes the keys of a form. This
module reads them, rejects unknown ones, and matches instructions against the forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tclint._pattern import pattern
from tclint.isa.documents import Documents, Raw, TableError, documents, read_documents
from tclint.isa.effects import ENGINES, Engine, effects_of
from tclint.isa.forms import DEFAULT, CombinationRule, Form, FormRequirement, Match, OperandSpec, Replacement
from tclint.isa.notation import NotationError, OperandSlot, Syntax, expand, parse_syntax
from tclint.isa.target import Availability

__all__ = ["EVENTS", "LOWERINGS", "Table", "split_opcode", "table"]

EVENTS = frozenset(
    """issue submit commit wait register-fence
    tmem-alloc tmem-dealloc tmem-relinquish tcgen05-fence-before tcgen05-fence-after
    mbarrier-init mbarrier-inval mbarrier-arrive mbarrier-expect mbarrier-complete mbarrier-wait mbarrier-pending
    barrier-sync barrier-arrive barrier-wait proxy-fence memory-fence
    elect setmaxnreg pdl-wait pdl-launch clc-request clc-query vote shuffle match redux""".split()
)
"""The meanings that an instruction can have to the analyses (key ``event``)."""

GROUPS = frozenset((*ENGINES, "cluster"))
"""What an event is about (key ``group``): the engine of an asynchronous operation, or the cluster barrier."""

LOWERINGS: Mapping[str, str] = {
    "trap": "becomes a trap",
    "synchronous": "is executed synchronously",
    "call": "becomes a call of the driver",
    "emulation": "is emulated",
}
"""What ``ptxas`` makes of an instruction that a target accepts but does not implement (key ``lowered``), in words."""

SCOPES = ("thread", "active", "lanes", "warp", "warpgroup", "cta", "cluster")
FLOWS = frozenset("branch branch-table call return exit trap".split())


_REPEATABLE = frozenset(".NaN .approx .cc .relu .sat .satfinite .shiftamt .sync .uni".split())
"""The modifiers that ptxas 13.5 accepts more than once in an opcode."""


def split_opcode(opcode: str) -> tuple[str, tuple[str, ...]]:
    """``"cp.async.ca"`` as ``("cp", (".async", ".ca"))``, without the repetitions that ptxas ignores."""
    root, *rest = opcode.split(".")
    modifiers = tuple("." + word for word in rest)
    if len({*modifiers}) < len(modifiers):
        kept = dict.fromkeys(m for m in modifiers if m in _REPEATABLE)
        modifiers = tuple(m for m in modifiers if m not in _REPEATABLE or kept.pop(m, 0) is None)
    return root, modifiers


def fits(spec: OperandSpec, operand: OperandSlot, shape: str, length: int | None) -> str:
    """What is wrong with an operand of *shape* at the position of *operand*; empty if it fits.

    Shapes: ``r`` register, ``i``/``f`` integer or floating-point immediate, ``s`` symbol or label, ``n`` negated
    predicate, ``-`` negated register, ``_`` sink, ``e`` element of an array ``a[2]``, ``v4`` vector of four, ``a|b`` pair
    of these, ``m`` address, ``m+v2`` address with the shapes of its further parts.
    """
    kind = shape[0]
    if "|" in shape:
        if operand.style != "pair":
            return "a pair is not allowed here"
        if kind != "v":
            return ""
        shape = shape.partition("|")[0]
    elif operand.style == "pair" and "single" not in spec.access:
        return "a pair d|p is required"
    if kind == "e":
        return "" if "element" in spec.access else "an element of an array is not allowed here"
    if operand.style == "memory":
        if kind != "m":
            if kind in _BARE and "bare" in spec.access:
                return ""
            return f"an address [{', '.join(operand.names)}] is required"
        parts = 1 + shape.count("+")
        return (
            ""
            if parts == len(operand.names)
            else f"the address must have {len(operand.names)} parts, not {parts}"
        )
    if kind == "m":
        return "an address is not allowed here"
    if kind == "v":
        if length is None:
            # A vector of one is equivalent to a register wherever a vector is allowed.
            return (
                ""
                if spec.vector == "*" or (spec.vector and shape == "v1")
                else "a vector is not allowed here"
            )
        return "" if int(shape[1:]) == length else f"a vector of {length} is required, not of {shape[1:]}"
    if length is not None and not (length == 1 and "single" in spec.access):
        return f"a vector of {length} is required"
    return "" if kind in spec.kinds else f"{_KINDS.get(kind, 'this')} is not allowed here"


_KINDS = {
    "r": "a register", "i": "an integer", "f": "a floating-point constant", "s": "a symbol",
    "n": "a negated predicate", "-": "a negated register", "_": "the sink _",
}  # fmt: skip
_BARE = "rsf"
"""The kinds of what ptxas takes for an address without brackets, where it does."""


class Table:
    """All forms, indexed by the first word of the opcode.

    A form is read when one of its opcodes is first looked up: most kernels use few of them.
    """

    def __init__(self, unread: Documents) -> None:
        self._unread = unread
        self._taken: set[int] = set()
        self._forms: dict[str, Form] = {}
        self._roots: dict[str, list[tuple[Form, Syntax]]] = {}
        self._candidates: dict[str, list[tuple[Form, Syntax, dict[str, str]]]] = {}
        self._matches: dict[tuple[str, tuple[str, ...]], Match | None] = {}

    @property
    def forms(self) -> Mapping[str, Form]:
        """All forms by name, in the order of their families."""
        self.read()
        return self._forms

    @property
    def roots(self) -> Mapping[str, list[tuple[Form, Syntax]]]:
        """First word of the opcode -> the forms and their syntax lines."""
        self.read()
        return self._roots

    def read(self) -> None:
        """Read all forms. Raises :class:`TableError`."""
        if len(self._taken) < len(self._unread.forms):
            self._add(range(len(self._unread.forms)))
            self._forms = dict(sorted(self._forms.items(), key=lambda item: item[1].place))

    def _add(self, indices: Iterable[int]) -> None:
        """Read forms. The order of the forms of an opcode does not depend on the order in which they are read."""
        roots = set()
        for index in indices:
            if index in self._taken:
                continue
            self._taken.add(index)
            raw = self._unread.raw(index)
            form = _form(raw, self._unread.document(raw.family))
            if form.name in self._forms:
                raise TableError(f"two forms have the name {form.name}")
            self._forms[form.name] = form
            for syntax in form.syntax:
                self._roots.setdefault(syntax.root, []).append((form, syntax))
                roots.add(syntax.root)
        for root in roots:
            self._roots[root].sort(key=lambda line: line[0].place)

    def candidates(self, opcode: str) -> list[tuple[Form, Syntax, dict[str, str]]]:
        """The forms that accept the modifiers of *opcode*, each with its syntax line and the bound modifiers."""
        found = self._candidates.get(opcode)
        if found is None:
            root, modifiers = split_opcode(opcode)
            self._add(self._unread.may_accept(root, frozenset(modifiers)))
            found = self._candidates[opcode] = []
            for form, syntax in self._roots.get(root, ()):
                binding = syntax.bind(modifiers)
                if binding is not None and self._combines(form, frozenset(modifiers)):
                    found.append((form, syntax, binding))
        return found

    def continuations(self, opcode: str) -> dict[str, list[Form]]:
        """The modifiers that may follow *opcode*, in the order of the syntax lines, each with the forms that accept it."""
        root, modifiers = split_opcode(opcode)
        places: dict[str, tuple[int, str]] = {}
        forms: dict[str, list[Form]] = {}
        for form, syntax in self.roots.get(root, ()):
            for spelling, place in syntax.continuations(modifiers).items():
                if any(
                    rule.forbids & {*modifiers, spelling}
                    for rule in form.combinations
                    if rule.when <= {*modifiers, spelling}
                ):
                    continue
                places[spelling] = min((place, spelling), places.get(spelling, (place, spelling)))
                if form not in forms.setdefault(spelling, []):
                    forms[spelling].append(form)
        return {spelling: forms[spelling] for spelling in sorted(places, key=lambda s: places[s])}

    @staticmethod
    def _combines(form: Form, modifiers: frozenset[str]) -> bool:
        return all(
            (not rule.needs or rule.needs & modifiers) and not rule.forbids & modifiers
            for rule in form.combinations
            if rule.when <= modifiers
        )

    def match(self, opcode: str, shapes: tuple[str, ...]) -> Match | None:
        """The form for *opcode* with operands of *shapes*; None for an unknown opcode.

        If the opcode is known but no form accepts these operands, the match of the nearest form is returned with
        :attr:`Match.problem` set.
        """
        key = (opcode, shapes)
        try:
            return self._matches[key]
        except KeyError:
            self._matches[key] = found = self._match(opcode, shapes)
            return found

    def _match(self, opcode: str, shapes: tuple[str, ...]) -> Match | None:
        modifiers = split_opcode(opcode)[1]
        nearest: tuple[int, Match] | None = None
        for form, syntax, binding in self.candidates(opcode):
            named, score, problem = self._align(form, syntax, binding, shapes)
            reads, writes = _accesses(form, syntax, named)
            match = Match(form, syntax, binding, modifiers, named, reads, writes, problem)
            if not problem:
                return match
            if nearest is None or score > nearest[0]:
                nearest = (score, match)
        return nearest[1] if nearest else None

    @staticmethod
    def _align(
        form: Form, syntax: Syntax, binding: Mapping[str, str], shapes: tuple[str, ...]
    ) -> tuple[dict[str, int], int, str]:
        """Operand name -> index, the number of operands that fit, and what is wrong with the first that does not."""
        if syntax.open:
            return {}, len(shapes), ""
        operands = form.operands_for(syntax.operands, binding)
        spare = len(shapes) - sum(not optional for _, optional in operands)
        best: tuple[int, str] = (-1, "")

        def place(k: int, at: int, spare: int, named: dict[str, int]) -> dict[str, int] | None:
            nonlocal best
            if k == len(operands):
                if at == len(shapes):
                    return named
                best = max(
                    best,
                    (at, _wrong_count(syntax, shapes)),
                )
                return None
            operand, optional = operands[k]
            if at < len(shapes) and (not optional or spare > 0):
                spec = form.operands.get(operand.name, DEFAULT)
                wrong = fits(spec, operand, shapes[at], form.vector_length(spec, binding))
                wrong = wrong or _wrong_part(form, operand, binding, shapes[at])
                if not wrong:
                    alone = operand.style == "pair" and "|" not in shapes[at]
                    names = operand.names[:1] if alone else operand.names
                    placed = place(k + 1, at + 1, spare - optional, named | dict.fromkeys(names, at))
                    if placed is not None:
                        return placed
                else:
                    best = max(best, (at, f"operand {at + 1} ({operand.name}): {wrong}"))
            if optional:
                return place(k + 1, at, spare, named)
            if at >= len(shapes):
                best = max(best, (at, _wrong_count(syntax, shapes)))
            return None

        if spare < 0:
            return {}, -1, _wrong_count(syntax, shapes)
        named = place(0, 0, spare, {})
        return (named, len(shapes), "") if named is not None else ({}, best[0], best[1])

    def __iter__(self) -> Iterator[Form]:
        return iter(self.forms.values())


def _wrong_part(form: Form, operand: OperandSlot, binding: Mapping[str, str], shape: str) -> str:
    """What is wrong with the length of a vector in an address, such as the coordinates of a tensor; empty if nothing is."""
    for name, part in zip(operand.names[1:], shape.split("+")[1:], strict=False):
        length = form.vector_length(form.operands.get(name, DEFAULT), binding)
        if length is not None and part[0] == "v" and int(part[1:]) != length:
            return f"{name} must be a vector of {length}, not of {part[1:]}"
    return ""


def _wrong_count(syntax: Syntax, shapes: tuple[str, ...]) -> str:
    count = "1 operand" if len(shapes) == 1 else f"{len(shapes)} operands"
    wanted = syntax.text.partition(" ")[2].strip()
    return f"{count}, but {f'the syntax is {wanted!r}' if wanted else 'it takes none'}"


def _accesses(
    form: Form, syntax: Syntax, named: Mapping[str, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    reads, writes = [], []
    for operand in syntax.operands:
        at = named.get(operand.name)
        if at is None:
            continue
        access = form.operands.get(operand.name, DEFAULT).access
        if "write" in access and operand.style != "memory":
            writes.append(at)
        if "read" in access or operand.style == "memory":
            reads.append(at)
    return tuple(reads), tuple(writes)


# ---------------------------------------------------------------- the forms of the TOML files

_FORM_KEYS = frozenset(
    """name syntax stem where since targets requires optimized lowered combinations operands with numbers manual examples
    summary event group flow compute scope scope_when issued_by completion proxy space memory async roles align types
    address_lanes all_lanes_valid""".split()
)
_SPEC_WORD = re.compile(r"(?P<word>[a-z]+)(?:\((?P<inside>[^)]*)\))?")
_GIVEN = pattern(r"_|register|\.\w+|\d+(?:\.\.\d+)?")
_SPEC_KINDS = {"reg": "r", "imm": "i", "float": "f", "symbol": "s", "pred": "rn", "neg": "-", "sink": "_"}


@cache
def parse_operand(text: str) -> OperandSpec:
    """Parse an operand description: ``"write reg"``, ``"read vec(shape*num)"``, ``"imm(0..15, 31)"``.

    Words: ``read``, ``write``, ``single`` (a pair may be reduced to its first name, a vector of one to a plain
    register), ``bare`` (an address may lack its brackets), ``element`` (it may be an element of an array, ``a[2]``), ``reg``, ``imm``, ``float``, ``symbol``, ``pred``,
    ``sink``, ``vec(EXPRESSION)``, ``imm(RANGES)``, and
    ``ptxas(RANGES)`` for integers outside these that ptxas accepts. Raises
    :class:`TableError` for any other word.
    """
    access: list[str] = []
    kinds = ""
    vector = ""
    immediates: tuple[range, ...] | None = None
    passed: tuple[range, ...] = ()
    for match in _SPEC_WORD.finditer(text):
        word, inside = match["word"], match["inside"]
        if word in ("read", "write", "single", "bare", "element"):
            access.append(word)
        elif word == "vec":
            vector = inside or "*"
        elif word in _SPEC_KINDS:
            kinds += _SPEC_KINDS[word]
            if inside is not None and word == "imm":
                immediates = _ranges(inside)
        elif word == "ptxas":
            passed = _ranges(inside or "")
        else:
            raise TableError(f"unknown word {word!r} in operand description {text!r}")
    if not kinds and vector != "*":
        kinds = "r" if "write" in access and "read" not in access else DEFAULT.kinds
    if not set(access) & {"read", "write"}:
        access.insert(0, "read")
    return OperandSpec(" ".join(access), kinds, vector, immediates, passed)


def _ranges(text: str) -> tuple[range, ...]:
    """The integers of ``"0..15, 31"`` or ``"32..1024/32"``; every integer for an empty text."""
    found = []
    for part in (text or "-0x8000000000000000..0xFFFFFFFFFFFFFFFF").split(","):
        low, dots, high = part.strip().partition("..")
        high, _, step = high.partition("/")
        found.append(range(int(low, 0), (int(high, 0) if dots else int(low, 0)) + 1, int(step or "1", 0)))
    return tuple(found)


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _form(given: Raw, shared: Mapping[str, Any]) -> Form:
    """A form; *shared* are the keys of its file."""
    family, number, raw = given
    name = raw.get("name", "")
    if not name:
        raise TableError(f"{family}.toml: a form without a name: {raw.get('syntax')}")
    unknown = set(raw) - _FORM_KEYS
    if unknown:
        raise TableError(f"{family}.toml: form {name} has unknown keys: {', '.join(sorted(unknown))}")
    where, types, with_ = ({**shared.get(key, {}), **raw.get(key, {})} for key in ("where", "types", "with"))
    try:
        lines, stems = _texts(raw["syntax"]), raw.get("stem", 0)
        stems = stems if isinstance(stems, list) else [stems] * len(lines)
        syntax = tuple(parse_syntax(line, where, stem) for line, stem in zip(lines, stems, strict=True))
        available = Availability.parse(str(raw.get("since", "1.0")), raw.get("targets", ""))
        requires, optimized = (_requirements(raw.get(key, ())) for key in ("requires", "optimized"))
        lowered = tuple((r["to"], one) for r in raw.get("lowered", ()) for one in _requirements((r,)))
        combinations = tuple(
            CombinationRule(frozenset(when), _set(r.get("needs", "")), _set(r.get("forbids", "")))
            for r in raw.get("combinations", ())
            for when in _alternatives(r.get("when", ""))
        )
        replacements = tuple(_replacements(shared.get("instead", ()), name))
        operands = {k: parse_operand(v) for k, v in raw.get("operands", {}).items()}
    except (KeyError, ValueError, NotationError) as error:
        raise TableError(f"{family}.toml: form {name}: {error}") from error
    if "operands" not in raw and syntax and not syntax[0].open and syntax[0].operands:
        # By the manual's convention, the destination is the first operand and is called d.
        operands = {"d": OperandSpec("write", "r")}
    elif "d" not in operands:
        operands["d"] = OperandSpec("write", "r")
    event, group, flow = raw.get("event", ""), raw.get("group", ""), raw.get("flow", "")
    scope = raw.get("scope", "thread")
    for value, known, key in (
        (event, EVENTS, "event"),
        (group, GROUPS, "group"),
        (flow, FLOWS, "flow"),
        (scope, SCOPES, "scope"),
        *((to, LOWERINGS, "lowering") for to, _ in lowered),
    ):
        if value and value not in known:
            raise TableError(f"{family}.toml: form {name}: unknown {key} {value!r}")
    asynchronous = raw.get("async", {})
    memory = tuple(
        (m.partition(" ")[0], m.partition(" ")[2].lstrip("*")) for m in _texts(raw.get("memory", ()))
    )
    return Form(
        name=name, family=family, place=(family, number), syntax=syntax, available=available,
        requires=requires, optimized=optimized, lowered=lowered, combinations=combinations, replacements=replacements, operands=operands,
        with_={name: _set(modifiers) for name, modifiers in with_.items()}, numbers=raw.get("numbers", {}),
        manual=raw.get("manual", ""), examples=_texts(raw.get("examples", ())), summary=raw.get("summary", ""),
        event=event, group=ENGINES.get(group) or Engine(group), effects=effects_of(event, group, scope, asynchronous.get("completion", "")), flow=flow, compute=raw.get("compute", ""), scope=scope,
        scope_when=raw.get("scope_when", ""), issued_by=raw.get("issued_by", ""),
        proxy=asynchronous.get("proxy", raw.get("proxy", "")),
        space=raw.get("space", ""), memory=memory, async_reads=_texts(asynchronous.get("reads", ())),
        async_writes=_texts(asynchronous.get("writes", ())), roles=raw.get("roles", {}), align=raw.get("align", {}),
        types=types, address_lanes=raw.get("address_lanes", {}),
        all_lanes_valid=Availability.parse("1.0", raw["all_lanes_valid"]) if "all_lanes_valid" in raw else None,
    )  # fmt: skip


def _replacements(raw: Iterable[Mapping[str, str]], name: str) -> Iterator[Replacement]:
    """The entries ``instead`` of a file that are about the form *name*."""
    for r in raw:
        if unknown := set(r) - {"of", "when", "targets", "use"}:
            raise ValueError(f"instead has unknown keys: {', '.join(sorted(unknown))}")
        if name in r.get("of", name).split():
            for when in _alternatives(r.get("when", "")):
                yield Replacement(frozenset(when), Availability.parse("1.0", r.get("targets", "")), r["use"])


def _requirements(raw: Iterable[Mapping[str, Any]]) -> tuple[FormRequirement, ...]:
    for r in raw:
        given = r.get("given", "")
        if given and not ("operand" in r and _GIVEN.fullmatch(given)):
            raise ValueError(f"an operand is given as {given!r}")
    return tuple(
        FormRequirement(
            frozenset(when),
            r.get("operand", ""),
            Availability.parse(str(r.get("since", "1.0")), r.get("targets", "")),
            r.get("given", ""),
        )
        for r in raw
        for when in _alternatives(r.get("when", ""))
    )


@cache
def _set(text: str) -> frozenset[str]:
    return frozenset(expand(text))


@cache
def _alternatives(text: str) -> list[list[str]]:
    """``".a .b, .c{1,2}"`` as ``[[".a", ".b"], [".c1"], [".c2"]]``: a comma outside braces means or."""
    found: list[list[str]] = []
    for part in re.split(r",(?![^{]*\})", text):
        combinations: list[list[str]] = [[]]
        for word in part.split():
            combinations = [[*c, w] for c in combinations for w in expand(word)]
        found.extend(combinations)
    return found


def load(folder: Path) -> Table:
    """The table of every ``*.toml`` in *folder*, all read. Raises :class:`TableError`."""
    read = Table(read_documents(folder))
    read.read()
    return read


@cache
def table() -> Table:
    """The ISA table of this package."""
    return Table(documents())

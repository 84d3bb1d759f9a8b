"""Spellings of a form of the ISA table, and operands to try with each.

For every syntax line: a base spelling, then every modifier value one at a time around it. Operands are taken from the
examples of the form where they fit, and otherwise made for the types and geometries that the modifiers name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product, zip_longest

from benchmarks.shapes import operands_of, shape, statement
from tclint.ir.operands import split_operands
from tclint.isa.forms import DEFAULT, Form
from tclint.isa.notation import OperandSlot, Slot, Syntax
from tclint.isa.table import Table, fits, split_opcode

__all__ = ["Spelling", "operand_lists", "spellings"]

Choice = tuple[str | None, ...]
"""The spelling of each slot of a syntax line, None where an optional modifier is absent."""


# ---------------------------------------------------------------- spellings


@dataclass(frozen=True)
class Spelling:
    """One opcode spelling of a syntax line and the modifier that it was made to try (``""``: the base)."""

    form: Form
    syntax: Syntax
    choice: Choice
    about: str
    allowed: bool = True
    """False when a combination rule of the form excludes it."""

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(c for c in self.choice if c is not None)

    @property
    def opcode(self) -> str:
        return self.syntax.root + "".join(self.modifiers)

    @property
    def mode(self) -> str:
        """What must follow the target: samplers apart from textures need another texturing mode (11.1.2)."""
        return ", texmode_independent" if any(len(o.names) == 3 for o in self.syntax.operands) else ""


def _options(slot: Slot) -> list[str | None]:
    """What may be at *slot*, absence first."""
    return ([None] if slot.optional else []) + sorted(slot.spellings, key=_natural)


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (-1, word) for word in re.split(r"(\d+)", text)]


def _valid(form: Form, choice: Choice) -> bool:
    return Table._combines(form, frozenset(c for c in choice if c is not None))


def nearest(form: Form, syntax: Syntax, start: Choice, keep: frozenset[int]) -> Choice | None:
    """The valid choice that differs from *start* in the fewest slots outside *keep*; None when there is none near."""
    free = [i for i in range(len(start)) if i not in keep and len(_options(syntax.slots[i])) > 1]
    for changes in range(4):
        tries = (
            (slots, values)
            for slots in combinations(free, changes)
            for values in product(*(_options(syntax.slots[i]) for i in slots))
        )
        for slots, values in islice(tries, 40_000):
            choice = list(start)
            for i, value in zip(slots, values, strict=True):
                choice[i] = value
            if _valid(form, tuple(choice)):
                return tuple(choice)
    return None


def spellings(form: Form, syntax: Syntax, pairs: bool = False) -> Iterator[Spelling]:
    """The base spelling of *syntax* and its neighbours; with *pairs*, two modifiers are varied at a time."""
    start: Choice = tuple(_options(slot)[0] for slot in syntax.slots)
    for opcode, _ in map(statement, form.examples):
        root, modifiers = split_opcode(opcode)
        choice = _assign(syntax, modifiers) if root == syntax.root else None
        if choice is not None:
            start = choice
            break
    base = nearest(form, syntax, start, frozenset())
    if base is None:
        return
    yield Spelling(form, syntax, base, "")
    seen = {base}
    for many in (1, 2) if pairs else (1,):
        for slots in combinations(range(len(syntax.slots)), many):
            for values in product(*(_options(syntax.slots[i]) for i in slots)):
                varied = list(base)
                for i, value in zip(slots, values, strict=True):
                    varied[i] = value
                choice = tuple(varied)
                about = " ".join(
                    v or f"no {syntax.slots[i].name}" for i, v in zip(slots, values, strict=True)
                )
                near = choice if _valid(form, choice) else nearest(form, syntax, choice, frozenset(slots))
                if near is not None and near not in seen:
                    seen.add(near)
                    yield Spelling(form, syntax, near, about)
                if choice != near and choice not in seen:
                    seen.add(choice)
                    yield Spelling(form, syntax, choice, about, allowed=False)


def _assign(syntax: Syntax, modifiers: Sequence[str]) -> Choice | None:
    """*modifiers* laid into the slots of *syntax*, in order where that works."""
    binding = syntax.bind(tuple(modifiers))
    if binding is None:
        return None
    left = list(modifiers)
    choice: list[str | None] = []
    for slot in syntax.slots:
        found = next((m for m in left if m in slot.spellings), None)
        if slot.optional and slot.name not in binding:
            found = None
        if found is not None:
            left.remove(found)
        choice.append(found)
    if left or any(c is None and not s.optional for c, s in zip(choice, syntax.slots, strict=True)):
        return tuple(binding.get(slot.name) for slot in syntax.slots)
    return tuple(choice)


# ---------------------------------------------------------------- operands

REGISTERS = {"h": 64, "r": 400, "f": 300, "rd": 64, "fd": 64, "rq": 16, "p": 32, "b": 16}
_CLASS_OF_WIDTH = {"8": "h", "16": "h", "32": "r", "64": "rd", "128": "rq"}


def _class(modifier: str) -> str:
    """The register class of a type modifier: ``.f32`` is ``f``; ``""`` for anything else."""
    if modifier == ".pred":
        return "p"
    if re.fullmatch(r"\.e\dm\d", modifier):
        return "b"
    match = re.match(r"\.([busf])(8|16|32|64|128)(x2|x4)?$", modifier)
    if match is None:
        return {".f16x2": "r", ".bf16x2": "r", ".bf16": "h", ".tf32": "r"}.get(modifier, "")
    if match[1] == "f" and not match[3] and match[2] in ("32", "64"):
        return {"32": "f", "64": "fd"}[match[2]]
    width = int(match[2]) * int((match[3] or "x1")[1:])
    return _CLASS_OF_WIDTH.get(str(width), "")


def _register(kind: str, position: int, offset: int = 0) -> str:
    """A register that differs from position to position: destinations must not be sources."""
    return f"%{kind}{(1 + 4 * position + offset) % REGISTERS[kind]}"


def _vector(kind: str, position: int, length: int) -> str:
    return "{" + ", ".join(_register(kind, position, i) for i in range(length)) + "}"


def _choices(
    form: Form,
    spelling: Spelling,
    operand: OperandSlot,
    position: int,
    kinds: Sequence[str],
    parts: Mapping[str, _Part],
) -> list[str]:
    """Texts that may be at *operand*, the likeliest first; *kinds* are the register classes in order."""
    spec = form.operands.get(operand.name, DEFAULT)
    binding = spelling.syntax.bind(spelling.modifiers) or {}
    length = form.vector_length(spec, binding)
    if operand.style == "memory":
        return _addresses(operand, position, spelling, kinds, parts)
    if length is not None:
        # A length of 0 says that the form has no such vector: nothing to write.
        kinds = kinds if length > 0 else ()
        return [_vector(kind, position, length) for kind in kinds if kind != "p" and length < REGISTERS[kind]]
    if operand.style == "pair":
        pairs = [f"{_register(k, position)}|%p{position + 9}" for k in kinds]
        return pairs + ([_register(k, position) for k in kinds] if "single" in spec.access else [])
    found = [_register(kind, position) for kind in kinds if set("rn") & set(spec.kinds)]
    if spec.vector == "*":
        for n in _offsets(spelling):
            found += [
                _vector(kind, position, n) for kind in kinds if kind != "p" and (n < 8 or kind == kinds[0])
            ]
    if "i" in spec.kinds:
        found += [str(spec.immediates[0][0])] if spec.immediates else ["0", "1"]
    if "f" in spec.kinds:
        found += ["0f3F800000", "0d3FF0000000000000"]
    if "s" in spec.kinds:
        found += ["L0", "TS", "tex0", "surf0", "smem", "fn"]
    if spec.kinds == "_":
        found += ["_"]
    return found


def _addresses(
    operand: OperandSlot,
    position: int,
    spelling: Spelling,
    kinds: Sequence[str],
    parts: Mapping[str, _Part],
) -> list[str]:
    modifiers = spelling.modifiers
    if len(operand.names) == 1:
        space = next((m.split("::")[0] for m in modifiers if m.split("::")[0] in _SYMBOLS), "")
        names = ["%rd60", "%r390", _SYMBOLS.get(space, "smem"), "smem", "P0", "lparam", "tex0", "surf0"]
        return [f"[{name}]" for name in dict.fromkeys(names)]
    # [texture, sampler, coordinates] or [address, coordinates]: only the last part may be a vector.
    kinds = [kind for kind in kinds if kind in ("r", "f", "rd")]
    vectors = [_vector(kind, position, n) for n in _dimensions(spelling) for kind in kinds]
    # An array of textures is indexed by an integer, also among floating-point coordinates.
    mixed = [re.sub(r"^\{%f", "{%r", v) for v in vectors if v.startswith("{%f")]
    array = any(re.fullmatch(r"\.a(\dd|cube|2dms)", m) for m in modifiers)
    vectors = mixed + vectors if array else vectors + mixed
    scalars = [_register(kind, position) for kind in kinds]
    heads = ["tex0", "surf0", "%rd60"] if _samples(spelling) else ["%rd60", "tex0", "surf0"]
    between = [["%rd59"]] * (len(operand.names) - 2)
    found = [f"[{', '.join(texts)}]" for texts in product(heads, *between, vectors + scalars)]
    if len(operand.names) > 2 and all(name in parts for name in operand.names):
        dimensions = _dimensions(spelling)[0]
        found.insert(0, f"[{', '.join(parts[name].at(dimensions) for name in operand.names)}]")
    return found


@dataclass(frozen=True)
class _Part:
    """A part of a composite address in an example, and the number of dimensions that the example has."""

    text: str
    dimensions: int

    def at(self, dimensions: int) -> str:
        """The part for another number of dimensions: a vector grows with it."""
        vector = re.match(r"\{%([a-z]+)(\d+)", self.text)
        if vector is None:
            return self.text
        length = self.text.count(",") + 1 + dimensions - self.dimensions
        return "{" + ", ".join(f"%{vector[1]}{int(vector[2]) + i}" for i in range(max(length, 1))) + "}"


def _example_parts(form: Form, isa: Table) -> dict[str, _Part]:
    """The parts of the composite addresses in the examples of *form*, by name."""
    found: dict[str, _Part] = {}
    for example in form.examples:
        match = isa.match(*statement(example))
        if match is None or match.form is not form:
            continue
        texts, dimensions = (
            operands_of(example),
            _dimensions(Spelling(form, match.syntax, match.modifiers, ""))[0],
        )
        for operand in match.syntax.operands:
            at = match.named.get(operand.name)
            if at is not None and operand.style == "memory" and len(operand.names) > 2:
                inside = split_operands(texts[at].strip("[] "))
                found |= {n: _Part(t, dimensions) for n, t in zip(operand.names, inside, strict=True)}
    return found


def _samples(spelling: Spelling) -> bool:
    """Whether it accesses a texture or a surface."""
    return spelling.syntax.root.startswith(("tex", "tld4", "txq", "su"))


_GEOMETRY = re.compile(r"\.(a?)(\d|cube)(?:d|dms)?$")


def _dimensions(spelling: Spelling) -> list[int]:
    """Lengths of a vector of coordinates, the likeliest first: textures pad three coordinates to four."""
    found = []
    for array, geometry in (m.groups() for word in spelling.modifiers if (m := _GEOMETRY.match(word))):
        count = (3 if geometry == "cube" else int(geometry)) + bool(array)
        found.append(4 if count == 3 and _samples(spelling) else count)
    return list(dict.fromkeys((*found, 1, 2, 3, 4, 5)))


def _offsets(spelling: Spelling) -> list[int]:
    """Lengths of other vectors: gradients have no array index, im2col offsets two numbers less than coordinates."""
    found = []
    for _, geometry in (m.groups() for word in spelling.modifiers if (m := _GEOMETRY.match(word))):
        count = 4 if geometry in ("3", "cube") else int(geometry)
        found.append(count if _samples(spelling) else count - 2)
    return list(dict.fromkeys((*(n for n in found if n > 0), 1, 2, 3, 4, 8, 16, 32, 64)))


_SYMBOLS = {".shared": "smem", ".global": "gmem", ".const": "cmem", ".local": "lmem", ".param": "P0"}


def _example_operands(
    form: Form, syntax: Syntax, isa: Table
) -> Iterator[tuple[Mapping[str, str], dict[str, str]]]:
    """Modifiers by choice and operands by name, for each example; those of *syntax* itself first."""
    found: list[tuple[bool, Mapping[str, str], dict[str, str]]] = []
    for example in form.examples:
        opcode, shapes = statement(example)
        texts = operands_of(example)
        for candidate, line, binding in isa.candidates(opcode):
            if candidate is not form:
                continue
            named, _, problem = Table._align(form, line, binding, shapes)
            if not problem:
                found.append((line is not syntax, binding, {n: texts[at] for n, at in named.items()}))
    yield from (pair[1:] for pair in sorted(found, key=lambda item: item[0]))


def operand_lists(spelling: Spelling, isa: Table) -> Iterator[str]:
    """Operand texts to try for *spelling*, the likeliest first.

    Three starting points, for every set of optional operands: what the examples have, the same with the register
    classes that the modifiers have now, and registers of the type that the modifiers name.
    """
    form, syntax = spelling.form, spelling.syntax
    if syntax.open:
        yield from (", ".join(operands_of(example)) for example in form.examples)
        return
    examples, parts = list(_example_operands(form, syntax, isa)), _example_parts(form, isa)
    kinds = list(dict.fromkeys(k for m in reversed(spelling.modifiers) if (k := _class(m))))
    kinds += [k for k in ("r", "rd", "f", "p", "h", "fd", "rq", "b") if k not in kinds]
    binding = syntax.bind(spelling.modifiers) or {}
    optional = [i for i, o in enumerate(syntax.operands) if o.optional]
    required = [i for i, o in enumerate(syntax.operands) if not o.optional]
    starts: list[Iterator[tuple[str, ...]]] = []
    for chosen in (s for n in range(len(optional) + 1) for s in combinations(optional, n)):
        exact, retyped, plain = [], [], []
        for i in sorted((*required, *chosen)):
            operand = syntax.operands[i]
            spec = form.operands.get(operand.name, DEFAULT)
            length = form.vector_length(spec, binding)
            seeds = [
                (named[operand.name], _retyped(named[operand.name], then, binding))
                for then, named in examples
                if operand.name in named
            ]
            first = [k for _, new in seeds for k in re.findall(r"%([a-z]+)\d", new)[:1] if k in REGISTERS]
            choices = _choices(form, spelling, operand, i, list(dict.fromkeys(first + kinds)), parts)
            fitting = [t for t, _ in seeds if not fits(spec, operand, shape(t), length)]
            renewed = [t for _, t in seeds if not fits(spec, operand, shape(t), length)]
            exact.append(list(dict.fromkeys(fitting + choices)))
            retyped.append(list(dict.fromkeys(renewed + choices)))
            plain.append(_choices(form, spelling, operand, i, kinds, parts))
        starts += [_by_rank(exact), _by_rank(retyped), _by_rank(plain)]
    seen = set()
    for texts in (t for row in zip_longest(*starts) for t in row):
        if texts is not None and texts not in seen:
            seen.add(texts)
            yield ", ".join(texts)


def _retyped(text: str, then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """An operand of an example with its registers' classes changed as the type modifiers changed."""
    changed = {
        old: new
        for slot, spelling in now.items()
        if (new := _class(spelling)) and (old := _class(then.get(slot, ""))) and old != new
    }
    if not changed:
        old, new = (
            next((k for m in reversed(list(b.values())) if (k := _class(m))), "") for b in (then, now)
        )
        changed = {old: new} if old and new else {}
    return re.sub(r"%([a-z]+)(?=\d)", lambda m: "%" + changed.get(m[1], m[1]), text)


def _by_rank(choices: Sequence[Sequence[str]], most: int = 4000) -> Iterator[tuple[str, ...]]:
    """The product of *choices*: all firsts, then what deviates at one place, at two, ... up to *most*."""
    if not all(choices):
        return
    first = tuple(c[0] for c in choices)
    yield first
    count = 0
    for many in range(1, len(choices) + 1):
        for places in combinations(range(len(choices)), many):
            for values in product(*(choices[i][1:] for i in places)):
                texts = list(first)
                for i, value in zip(places, values, strict=True):
                    texts[i] = value
                yield tuple(texts)
                count += 1
                if count >= most:
                    return

"""Does the ISA table say what ptxas says? Every form, every modifier, on a grid of versions and targets.

    python -m benchmarks.availability [--form tcgen05.] [--family matrix] [--limit 40] [--pairs] [--every-version] [--record]

For every syntax line: a base spelling, then every modifier value one at a time around it. Operands are taken from
the form's examples where they fit, else found by trial. Each instruction is judged by ``Match.missing`` and by
ptxas on every target it knows, at the first ``.version`` that the table allows there, one step below it, 9.1 and
the newest, or at every one. Printed are

* spellings that ptxas refuses everywhere, with its reason (a table too permissive, or operands not found),
* spellings that a ``combinations`` rule excludes and ptxas accepts (a table too strict),
* disagreements on availability: form, instruction, targets, version, which side accepts what,
* the scores: points that agree, and (form, modifier) pairs that agree on all points.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations, islice, product, zip_longest
from typing import Any

from benchmarks import results
from benchmarks.coverage import operands_of, shape, statement
from benchmarks.ptxas import OLDEST, VERSIONS, Ptxas, PtxasMissing, before, find, without_target
from tclint.isa.notation import OperandSlot, Slot, Syntax
from tclint.isa.table import DEFAULT, Form, Match, Table, fits, split_opcode, table
from tclint.isa.target import Target, Version, dotted

NEWEST = VERSIONS[-1]
GRID = ((9, 1), NEWEST)
EVERYWHERE: list[tuple[Version, str]] = [
    *((NEWEST, f"sm_{n}") for n in ("100a", "90a", "103a", "107a", "110a", "120a", "75")),
    (OLDEST, "sm_75"),
]
"""Places that together have every instruction ptxas 13.5 knows, also those that were removed later."""
FEW = 8
"""Operand lists for a spelling that the table excludes: nearly all of these are rightly excluded."""


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
    form: Form, spelling: Spelling, operand: OperandSlot, position: int, kinds: Sequence[str]
) -> list[str]:
    """Texts that may be at *operand*, the likeliest first; *kinds* are the register classes in order."""
    spec = form.operands.get(operand.name, DEFAULT)
    binding = spelling.syntax.bind(spelling.modifiers) or {}
    length = form.vector_length(spec, binding)
    if operand.style == "memory":
        return _addresses(operand, position, spelling, kinds)
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


def _addresses(operand: OperandSlot, position: int, spelling: Spelling, kinds: Sequence[str]) -> list[str]:
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
    heads = ["%rd60", "tex0", "surf0"] if spelling.syntax.root == "cp" else ["tex0", "surf0", "%rd60"]
    between = [["%rd59"]] * (len(operand.names) - 2)
    return [f"[{', '.join(parts)}]" for parts in product(heads, *between, vectors + scalars)]


_GEOMETRY = re.compile(r"\.(a?)(\d|cube)(?:d|dms)?$")


def _dimensions(spelling: Spelling) -> list[int]:
    """Lengths of a vector of coordinates, the likeliest first: textures pad three coordinates to four."""
    found = []
    for array, geometry in (m.groups() for word in spelling.modifiers if (m := _GEOMETRY.match(word))):
        count = (3 if geometry == "cube" else int(geometry)) + bool(array)
        found.append(4 if count == 3 and spelling.syntax.root != "cp" else count)
    return list(dict.fromkeys((*found, 1, 2, 3, 4, 5)))


def _offsets(spelling: Spelling) -> list[int]:
    """Lengths of other vectors: gradients have no array index, im2col offsets two numbers less than coordinates."""
    found = []
    for _, geometry in (m.groups() for word in spelling.modifiers if (m := _GEOMETRY.match(word))):
        count = 4 if geometry in ("3", "cube") else int(geometry)
        found.append(count - 2 if spelling.syntax.root == "cp" else count)
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
    examples = list(_example_operands(form, syntax, isa))
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
            choices = _choices(form, spelling, operand, i, list(dict.fromkeys(first + kinds)))
            fitting = [t for t, _ in seeds if not fits(spec, operand, shape(t), length)]
            renewed = [t for _, t in seeds if not fits(spec, operand, shape(t), length)]
            exact.append(list(dict.fromkeys(fitting + choices)))
            retyped.append(list(dict.fromkeys(renewed + choices)))
            plain.append(_choices(form, spelling, operand, i, kinds))
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


# ---------------------------------------------------------------- asking ptxas


@dataclass
class Probe:
    """A spelling with the operands that ptxas takes, and the match of that text in the table."""

    spelling: Spelling
    text: str = ""
    match: Match | None = None
    refused: str = ""
    points: dict[tuple[Version, str], bool] = field(default_factory=dict)


_OPERANDS = re.compile(
    r"[Aa]rgument|[Aa]rray|[Oo]perand|expression|symbol|vector|crashes|mmediate|onstant|ddress|Parsing|Label|Call "
)
_PLACE = re.compile(r"\.target|PTX ISA|not supported on")


def find_operands(oracle: Ptxas, isa: Table, found: Sequence[Spelling], most: int) -> list[Probe]:
    """Give each spelling operands: the first operand list that ptxas takes somewhere, or its reason to refuse.

    The first list is tried everywhere, the others (at most *most*) where the table says that the instruction
    exists. ptxas looks at operands first, so an error about anything else ends the search.
    """
    probes = [Probe(spelling) for spelling in found]
    tries = [islice(operand_lists(s, isa), most if s.allowed else FEW) for s in found]
    hosts = [_hosts(spelling) for spelling in found]
    left, width = list(range(len(probes))), 1
    while left:
        asked: dict[tuple[Version, str], list[tuple[int, str]]] = defaultdict(list)
        exhausted = set()
        for i in left:
            lists = list(islice(tries[i], width))
            if not lists:
                exhausted.add(i)
            lines = [f"{probes[i].spelling.opcode} {operands}".strip() + ";" for operands in lists]
            for version, name in hosts[i] if width > 1 else EVERYWHERE:
                asked[version, name + probes[i].spelling.mode] += [(i, line) for line in lines]
        for (version, target), pairs in asked.items():
            pairs = [(i, line) for i, line in pairs if not probes[i].text]
            errors = oracle.errors([line for _, line in pairs], version, target)
            for (i, line), error in zip(pairs, errors, strict=True):
                if not error:
                    probes[i].text = probes[i].text or line
                elif _weight(error) > _weight(probes[i].refused):
                    probes[i].refused = f"{error}   [{line}]"
        left = [
            i for i in left if i not in exhausted and not probes[i].text and _weight(probes[i].refused) < 3
        ]
        width = min(max(width * 4, 20), 400)
    for probe in probes:
        if probe.text:
            probe.refused = ""
            probe.match = isa.match(*statement(probe.text))
        elif not probe.refused:
            probe.refused = "no operands could be made"
    return probes


def _weight(error: str) -> int:
    """How much an error says about the spelling itself: 3 when it is neither about operands nor about the place."""
    return 0 if not error else 1 if _PLACE.search(error) else 2 if _OPERANDS.search(error) else 3


def _hosts(spelling: Spelling) -> list[tuple[Version, str]]:
    """One or two places where the table says that the instruction exists."""
    needed = [a for _, a in spelling.form.availability(spelling.modifiers)]
    found = [
        (version, name)
        for version, name in EVERYWHERE
        if (target := Target.parse(name)) and all(a.on(target) for a in needed)
    ]
    return [*found[:1], *found[-1:]] if len(found) > 1 else found or EVERYWHERE


def grid(probe: Probe, target: Target, every: bool = False) -> Iterator[tuple[Version, bool]]:
    """The versions to ask about under *target*, each with the table's verdict; *every*: all since it came."""
    match = probe.match
    assert match is not None
    needed = [a for _, a in match.needs]
    oldest = max(target.introduced, OLDEST)
    versions = {*VERSIONS} if every else {*GRID}
    if all(a.on(target) for a in needed):
        first = max(oldest, *(a.version_for(target) for a in needed))
        versions |= {first, before(first)}
    for version in sorted(versions):
        if oldest <= version <= NEWEST:
            yield version, not match.missing(target, version)


def ask(
    oracle: Ptxas, probes: Sequence[Probe], every: bool = False
) -> list[tuple[Probe, Version, str, bool, str]]:
    """Every point of the grid: ``(probe, version, target, the table's verdict, ptxas' error)``."""
    batches: dict[tuple[Version, str], list[tuple[Probe, bool]]] = defaultdict(list)
    for name in oracle.targets:
        target = Target.parse(name)
        if target is None:
            continue
        for probe in probes:
            for version, verdict in grid(probe, target, every):
                batches[version, name + probe.spelling.mode].append((probe, verdict))

    def run(item: tuple[tuple[Version, str], list[tuple[Probe, bool]]]) -> list[str]:
        (version, name), points = item
        return oracle.errors([probe.text for probe, _ in points], version, name)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(run, batches.items()))
    return [
        (probe, version, name.partition(",")[0], verdict, error)
        for ((version, name), points), errors in zip(batches.items(), answers, strict=True)
        for (probe, verdict), error in zip(points, errors, strict=True)
    ]


# ---------------------------------------------------------------- the report

TITLE = "Availability of instructions"
COMMAND = "python -m benchmarks.availability --every-version --record"
SLICE = "python -m benchmarks.availability"
ABOUT = """\
Every modifier of every syntax line of the ISA table, on every target that ptxas knows, at every `.version` since the
target came: does the table's answer (exists, or needs another target or version) equal that of ptxas?"""


def section(data: Any) -> list[str]:
    """What a grid said, for the results page."""
    summary = (
        f"{data['agreed']:,} of {data['points']:,} points agree ({data['agreed'] / max(data['points'], 1):.4%}), over"
        f" {data['forms']} forms, {data['probed']:,} spellings, {len(data['targets'])} targets and"
        f" {len(data['versions'])} versions ({data['versions'][0]} to {data['versions'][-1]}). On all of its points"
        f" agree {data['whole']:,} of {data['pairs']:,} pairs of form and modifier."
    )
    lines = [summary, ""]
    head = ["family", "forms", "spellings", "points", "agree", "differ"]
    families = sorted(data["families"].items())
    rows = [
        [
            name,
            f["forms"],
            f"{f['probed']:,}",
            f"{f['points']:,}",
            f"{f['agreed']:,}",
            f["points"] - f["agreed"],
        ]
        for name, f in families
    ]
    lines += results.table(head, rows)
    rows = [[f"`{d['text']}`", d["who"], d["places"]] for d in data["differences"][:SHOWN]]
    lines += results.table(
        [f"differences ({len(data['differences'])})", "which side accepts what", "where"], rows
    )
    for key, about in (
        ("refused", "The table has it and ptxas refuses it everywhere with every operand list tried"),
        ("excluded", "ptxas accepts it and a combination rule of the table excludes it"),
        ("operands", "ptxas takes operands that the table does not"),
    ):
        found = [f"`{text.partition(' ')[0]}`" for _, text in data[key]]
        some = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
        lines.append(f"- {about}: {len(found)}{': ' if found else ''}{some}")
    return lines


SHOWN = 20
"""Differences, and spellings of a kind, on the results page; the record has all."""


def _short(names: Sequence[str], targets: Sequence[str]) -> str:
    if len(names) == len(targets):
        return "every target"
    if len(names) > len(targets) * 2 // 3:
        return "all but " + " ".join(t for t in targets if t not in names)
    return " ".join(names)


def measure(oracle: Ptxas, forms: Sequence[Form], pairs: bool, most: int, every: bool) -> dict[str, Any]:
    """Ask about *forms*; what :func:`section` shows, and every difference. *every*: at every version."""
    isa = table()
    found = [s for form in forms for line in form.syntax for s in spellings(form, line, pairs)]
    found = [s for s in found if s.allowed or not isa.candidates(s.opcode)]
    probes = find_operands(oracle, isa, found, most)
    usable = [p for p in probes if p.spelling.allowed and p.text]
    unfit = [p for p in usable if p.match is None or p.match.problem]
    usable = [p for p in usable if p.match is not None and not p.match.problem]
    points = ask(oracle, usable, every)
    wrong: dict[tuple[str, str, str], dict[Version, list[str]]] = defaultdict(lambda: defaultdict(list))
    about: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    families: dict[str, Counter[str]] = defaultdict(Counter)
    for form in forms:
        families[form.family]["forms"] += 1
    for probe in usable:
        families[probe.spelling.form.family]["probed"] += 1
    for probe, version, name, verdict, error in points:
        form = probe.spelling.form
        agree = verdict == (not error)
        families[form.family].update(points=1, agreed=agree)
        score = about[form.name, probe.spelling.about]
        score[0] += agree
        score[1] += 1
        if agree:
            continue
        who = f"table: yes, ptxas: {without_target(error)}" if verdict else "table: NO, ptxas: accepts"
        if name not in wrong[form.name, probe.text, who][version]:
            wrong[form.name, probe.text, who][version].append(name)
    differences = []
    for (name, text, who), at in sorted(wrong.items()):
        places = "; ".join(
            f"{dotted(version)} {_short(names, oracle.targets)}" for version, names in sorted(at.items())
        )
        differences.append({"form": name, "text": text, "who": who, "places": places})
    return {
        "targets": list(oracle.targets),
        "versions": [dotted(v) for v in sorted({version for _, version, *_ in points})],
        "forms": len(forms),
        "spellings": len(found),
        "probed": len(usable),
        "points": len(points),
        "agreed": sum(good for good, _ in about.values()),
        "pairs": len(about),
        "whole": sum(good == total for good, total in about.values()),
        "families": families,
        "differences": differences,
        "refused": [(p.refused, p.spelling.opcode) for p in probes if p.spelling.allowed and not p.text],
        "excluded": [(p.spelling.form.name, p.text) for p in probes if not p.spelling.allowed and p.text],
        "operands": [(p.match.problem if p.match else "no form", p.text) for p in unfit],
    }


def report(data: Mapping[str, Any], limit: int) -> None:
    """Print what :func:`measure` found, *limit* differences of each form."""
    print("\ntable accepts, ptxas refuses everywhere:")
    for why, opcode in data["refused"]:
        print(f"  {opcode} - {why}")
    print("\nptxas accepts, a combination rule of the table refuses:")
    for form, text in data["excluded"]:
        print(f"  {form}: {text}")
    print("\noperands that ptxas takes and the table does not:")
    for problem, text in data["operands"]:
        print(f"  {text} - {problem}")
    print("\navailability:")
    shown: Counter[str] = Counter()
    for d in data["differences"]:
        shown[d["form"]] += 1
        if shown[d["form"]] <= limit:
            print(f"  {d['form']}: {d['text']}\n      {d['who']}\n      at {d['places']}")
    if hidden := sum(max(n - limit, 0) for n in shown.values()):
        print(f"  ... and {hidden} more (--limit)")
    share = data["agreed"] / max(data["points"], 1)
    print(f"points that agree: {data['agreed']} of {data['points']} ({share:.4%})")
    print(f"(form, modifier) pairs that agree on all points: {data['whole']} of {data['pairs']}")


def main() -> None:
    """Run the grid; exit 1 when less than 99.9 % of the points agree."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--form", action="append", default=[], help="only forms whose name starts so (repeatable)"
    )
    arguments.add_argument("--family", action="append", default=[], help="only this TOML file (repeatable)")
    arguments.add_argument("--limit", type=int, default=12, help="disagreements shown per form (default 12)")
    arguments.add_argument("--pairs", action="store_true", help="vary two modifiers at a time (slow)")
    arguments.add_argument(
        "--most", type=int, default=800, help="operand lists tried per spelling (default 800)"
    )
    arguments.add_argument(
        "--every-version", action="store_true", help="ask at every .version (a few minutes)"
    )
    arguments.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    options = arguments.parse_args()
    started = time.monotonic()
    try:
        oracle = find()
        print(f"ptxas {oracle.release}, {len(oracle.targets)} targets")
    except PtxasMissing as error:
        sys.exit(f"availability: {error}")
    forms = [
        form
        for form in table()
        if (not options.form or form.name.startswith(tuple(options.form)))
        and (not options.family or form.family in options.family)
    ]
    data = measure(oracle, forms, options.pairs, options.most, options.every_version)
    report(data, options.limit)
    print(
        f"{len(forms)} forms, {data['spellings']} spellings, {data['probed']} probed,"
        f" {time.monotonic() - started:.0f} s"
    )
    if options.record:
        results.save("availability", data, {"ptxas": oracle.release})
    sys.exit(data["agreed"] < 0.999 * data["points"])


if __name__ == "__main__":
    main()

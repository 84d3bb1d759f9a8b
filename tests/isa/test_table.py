"""The ISA table: that it loads, that its examples stand for it, and that ptxas agrees with them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from benchmarks.availability import required
from benchmarks.ptxas import OLDEST, PRELUDE, Ptxas, PtxasMissing, before, find
from benchmarks.shapes import shape, statement
from tclint.ir.build import build
from tclint.ir.operands import split_operands
from tclint.isa.documents import TableError, documents
from tclint.isa.table import (
    EVENTS,
    Form,
    Table,
    load,
    parse_operand,
    split_opcode,
    table,
)  # fmt: skip
from tclint.isa.target import FAMILIES, INTRODUCED, Availability, Target, Version, parse_version
from tclint.syntax import parse, problems

ISA = table()
FORMS = list(ISA)
EXAMPLES = [(form, example) for form in FORMS for example in form.examples]


# ---------------------------------------------------------------- every form


def test_every_form_says_what_it_is() -> None:
    assert [f.name for f in FORMS if not f.summary.strip()] == []
    # A form newer than the manual of 9.1 has no section there.
    documented = [f for f in FORMS if f.available.since <= (9, 1)]
    assert [f.name for f in documented if not re.fullmatch(r"9\.7\.\d+(\.\d+)*", f.manual)] == []
    assert [f.name for f in FORMS if not f.examples] == []
    assert [f.name for f in FORMS if not f.syntax] == []


def test_every_syntax_line_has_an_example_that_reaches_it_or_a_neighbour() -> None:
    """A line of another root than every example would be a line that nothing tests."""
    untested = [
        f"{form.name}: {line.text}"
        for form in FORMS
        for line in form.syntax
        if line.root not in {statement(e)[0].split(".")[0] for e in form.examples}
    ]
    assert untested == []


def _names(form: Form) -> set[str]:
    return {name for line in form.syntax for operand in line.operands for name in operand.names}


def test_described_operands_are_in_a_syntax_line() -> None:
    for form in FORMS:
        open_line = any(line.open for line in form.syntax)
        unknown = set(form.operands) - _names(form) - {"d"}
        assert open_line or not unknown, f"{form.name} describes {sorted(unknown)}"


def test_roles_and_asynchronous_accesses_name_operands() -> None:
    for form in FORMS:
        names = _names(form)
        said = {*form.roles.values(), *(n.lstrip("*") for n in (*form.async_reads, *form.async_writes))}
        said |= {name for _, name in form.memory}
        assert said <= names, f"{form.name} speaks of {sorted(said - names)}"


def test_required_and_combined_modifiers_exist() -> None:
    """A misspelt modifier in ``requires`` or ``combinations`` would never hold, silently."""
    for form in FORMS:
        spellings = frozenset().union(*(line.accepts for line in form.syntax))
        named = {m for r in (*form.requires, *form.optimized) for m in r.when}
        named |= {m for r in form.combinations for m in (*r.when, *r.needs, *r.forbids)}
        assert named <= spellings, f"{form.name}: no such modifier: {sorted(named - spellings)}"
        operands = {r.operand for r in form.requires} - {""}
        assert operands <= _names(form), f"{form.name}: no such operand: {sorted(operands - _names(form))}"


def test_operands_that_go_with_a_modifier_are_optional_where_it_is() -> None:
    """Otherwise the key ``with`` would have no effect, silently; that of a whole file may be about other forms."""
    used: dict[str, set[str]] = defaultdict(set)
    stated: dict[str, set[str]] = defaultdict(set)
    for form in FORMS:
        stated[form.family] |= set(form.with_)
        for line in form.syntax:
            for operand in line.operands:
                modifiers = form.with_.get(operand.name) if operand.optional else None
                if modifiers is not None:
                    used[form.family].add(operand.name)
                    assert modifiers & line.accepts, f"{form.name}: {line.text}: {operand.name}"
    assert used == {family: names for family, names in stated.items() if names}


def test_vector_lengths_use_choices_of_the_form() -> None:
    for form in FORMS:
        slots = {slot.name for line in form.syntax for slot in line.slots}
        for name, spec in form.operands.items():
            used = {w.partition(".")[0] for w in re.findall(r"[a-zA-Z_][\w.-]*", spec.vector)}
            assert used <= slots, (
                f"{form.name}, operand {name}: vec({spec.vector}) uses {sorted(used - slots)}"
            )


def test_space_and_scope_conditions_name_modifiers() -> None:
    for form in FORMS:
        slots = {slot.name for line in form.syntax for slot in line.slots}
        if form.space and not form.space.startswith("."):
            assert form.space in slots, f"{form.name}: space = {form.space}"
        if form.scope_when:
            assert form.scope_when in slots, f"{form.name}: scope_when = {form.scope_when}"
        assert form.issued_by in ("", "thread", "warp"), form.name


def test_no_two_forms_have_the_same_line() -> None:
    seen: dict[tuple[object, ...], str] = {}
    for form in FORMS:
        for line in form.syntax:
            lengths = tuple(form.operands[o.name].vector for o in line.operands if o.name in form.operands)
            slots = tuple(sorted((tuple(sorted(s.spellings)), s.optional) for s in line.slots))
            key = (line.root, slots, line.operands, lengths, form.combinations if form.combinations else ())
            assert seen.setdefault(key, form.name) == form.name, f"{form.name}, {seen[key]}: {line.text}"


def test_every_event_is_used() -> None:
    assert {form.event for form in FORMS} - {""} == EVENTS


# ---------------------------------------------------------------- examples


def _takers(isa: Table, opcode: str, shapes: tuple[str, ...]) -> set[str]:
    """The forms that take an instruction without complaint."""
    return {
        form.name
        for form, line, binding in isa.candidates(opcode)
        if not isa._align(form, line, binding, shapes)[2]
    }


@pytest.mark.parametrize("family", sorted({f.family for f in FORMS}))
def test_examples_match_their_own_form_alone(family: str) -> None:
    for form, example in EXAMPLES:
        if form.family != family:
            continue
        opcode, shapes = statement(example)
        match = ISA.match(opcode, shapes)
        assert match is not None, f"{form.name}: no form for {example}"
        assert match.problem == "", f"{form.name}: {example}: {match.form.name}: {match.problem}"
        assert _takers(ISA, opcode, shapes) == {form.name}, example


@pytest.mark.parametrize("family", sorted({f.family for f in FORMS}))
def test_the_parser_reads_examples_as_the_table_means_them(family: str) -> None:
    """Through the grammar and the IR, which know no form."""
    asked = [(form, example) for form, example in EXAMPLES if form.family == family]
    header = PRELUDE.format(version="9.5", target="sm_107a", wide=".reg .b128 %rq<16>;")
    data = (header + "".join(f"{example}\n" for _, example in asked) + "L0: bra L1;\nL1: ret;\n}\n").encode()
    tree = parse(data)
    assert problems(tree) == []
    function = build(tree, data).functions[-1]
    read = [i.match.form.name if i.match and not i.match.problem else i.opcode for i in function.instructions]
    assert read[: len(asked)] == [form.name for form, _ in asked]


def test_an_example_with_one_modifier_more_or_less_is_not_the_same() -> None:
    """No line takes an unknown modifier, so that ``unknown modifier`` can be said."""
    for form, example in EXAMPLES:
        opcode, shapes = statement(example)
        assert ISA.match(opcode + ".nosuchmodifier", shapes) is None, form.name


def _minimum(
    needed: Sequence[Availability], targets: tuple[str, ...], oldest: Version
) -> tuple[Version, str] | None:
    """The first version that the table allows an instruction in, with a target of the oracle that has it."""
    allowed: list[tuple[Version, str]] = []
    for name in targets:
        target = Target.parse(name)
        if target is not None and all(a.on(target) for a in needed):
            allowed.append((max(target.introduced, oldest, *(a.version_for(target) for a in needed)), name))
    return min(allowed, default=None)


@pytest.fixture(scope="module")
def oracle() -> Ptxas:
    try:
        return find()
    except PtxasMissing as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_ptxas_takes_examples_from_their_minimum_on(oracle: Ptxas) -> None:
    """Each example is accepted at its first version and refused one step below, wherever ptxas distinguishes them."""
    at: dict[tuple[Version, str], list[tuple[str, str, bool]]] = defaultdict(list)
    for (form, example), needed in zip(EXAMPLES, required([e for _, e in EXAMPLES]), strict=True):
        minimum = _minimum(needed, oracle.targets, OLDEST)
        if minimum is None:
            continue  # for targets older than this ptxas knows
        version, name = minimum
        at[version, name].append((form.name, example, True))
        target = Target.parse(name)
        assert target is not None
        if max(target.introduced, OLDEST) <= before(version) < version:
            at[before(version), name].append((form.name, example, False))
    wrong = []
    for (version, name), asked in at.items():
        errors = oracle.errors([example for _, example, _ in asked], version, name)
        for (form_name, example, allowed), error in zip(asked, errors, strict=True):
            if allowed == bool(error):
                wrong.append(f"{form_name}: {example} {version} {name}: {error or 'accepted'}")
    assert wrong == []


# ---------------------------------------------------------------- spot checks, written by hand


@pytest.mark.parametrize(
    ("instruction", "version", "target", "missing"),
    [
        # 9.7.16.7.1: sm_100a from 8.6 on, its family from 8.8 on, never plain sm_100.
        ("tcgen05.wait::ld.sync.aligned;", "8.6", "sm_100a", ""),
        ("tcgen05.wait::ld.sync.aligned;", "8.6", "sm_101a", ""),
        ("tcgen05.wait::ld.sync.aligned;", "8.8", "sm_103f", ""),
        ("tcgen05.wait::ld.sync.aligned;", "9.1", "sm_100", "target"),
        ("tcgen05.wait::ld.sync.aligned;", "9.1", "sm_120a", "target"),
        ("tcgen05.wait::ld.sync.aligned;", "9.1", "sm_110f", ""),
        # 9.7.15: wgmma belongs to sm_90a alone.
        ("wgmma.fence.sync.aligned;", "8.0", "sm_90a", ""),
        ("wgmma.fence.sync.aligned;", "8.0", "sm_90", "target"),
        ("wgmma.fence.sync.aligned;", "9.1", "sm_100a", "target"),
        ("add.s32 %r1, %r2, %r3;", "1.0", "sm_10", ""),
        ("cp.async.commit_group;", "6.5", "sm_80", "version"),
        ("cp.async.commit_group;", "7.0", "sm_80", ""),
        ("cp.async.commit_group;", "7.0", "sm_75", "target"),
        ("shfl.up.b32 %r1, %r2, 1, 0;", "6.3", "sm_75", ""),
        ("shfl.up.b32 %r1, %r2, 1, 0;", "6.4", "sm_75", "target"),
        ("shfl.up.b32 %r1, %r2, 1, 0;", "9.1", "sm_62", ""),
    ],
)
def test_availability(instruction: str, version: str, target: str, missing: str) -> None:
    match = ISA.match(*statement(instruction))
    assert match is not None
    assert match.problem == ""
    named = Target.parse(target)
    assert named is not None
    assert "".join(kind for kind, _, _ in match.missing(named, parse_version(version))[:1]) == missing


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        ("add.s32 %r1, %r2;", "2 operands"),
        ("add.s32 [%r1], %r2, %r3;", "an address is not"),
        ("ld.global.v2.b32 {%r1, %r2, %r3}, [%rd1];", "vector of 2"),
        ("ld.global.b32 %r1, %rd1;", "an address"),
        ("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2, %r3}, [%r9];", "vector of 4"),
    ],
)
def test_operand_problems(instruction: str, says: str) -> None:
    match = ISA.match(*statement(instruction))
    assert match is not None
    assert says in match.problem


@pytest.mark.parametrize(
    "opcode", ["frobnicate.s32", "add.s33", "tcgen05.mma.cta_group::3.kind::f16", "ret.foo"]
)
def test_what_no_form_knows(opcode: str) -> None:
    assert ISA.match(opcode, ("r", "r", "r")) is None


# ---------------------------------------------------------------- reading the table

MINIMAL = """
[where]
type = ".u32 .s32"
[[form]]
name = "add"
syntax = ["add{.sat}.type d, a, b", "add.v.type d, x"]
since = "2.0"
requires = [{ when = ".sat, .v", since = "3.0", targets = "sm_30+" }, { operand = "x", since = "4.0" }]
combinations = [{ when = ".sat", needs = ".s32" }]
operands = { x = "imm(0..3, 8)" }
manual = "9.7.1.1"
summary = "Adds."
examples = ["add.u32 %r1, %r2, 3;"]
"""


def test_forms_are_read_when_asked_for_and_end_up_in_the_same_order() -> None:
    eager = Table(documents())
    assert list(eager.forms) == [form.name for form in sorted(eager, key=lambda form: form.place)]
    for shuffle in map(Random, range(3)):
        lazy = Table(documents())
        assert lazy.candidates("bra")
        assert 0 < len(lazy._forms) < len(eager.forms)
        for root in shuffle.sample(list(eager.roots), len(eager.roots)):
            assert [(f.name, s.text) for f, s, _ in lazy.candidates(root)] == [
                (f.name, s.text) for f, s, _ in eager.candidates(root)
            ]
        assert list(lazy.forms) == list(eager.forms)
        assert {root: [s.text for _, s in lines] for root, lines in lazy.roots.items()} == {
            root: [s.text for _, s in lines] for root, lines in eager.roots.items()
        }


def _load(folder: Path, text: str) -> Table:
    (folder / "small.toml").write_text(text, "utf-8")
    return load(folder)


def test_every_form_that_accepts_an_opcode_is_read_when_the_opcode_is_looked_up() -> None:
    unread, asked, skipped = documents(), 0, 0
    for opcode in {example.split()[0].rstrip(";") for form in ISA for example in form.examples}:
        root, modifiers = split_opcode(opcode)
        read = {unread.forms[index][:2] for index in unread.may_accept(root, frozenset(modifiers))}
        accepting = {form.place for form, _, _ in ISA.candidates(opcode)}
        assert accepting <= read, opcode
        of_root = {form.place for form, _ in ISA.roots[root]}
        asked += len(of_root)
        skipped += len(of_root - read)
    assert skipped > asked / 2


def test_a_small_table(tmp_path: Path) -> None:
    isa = _load(tmp_path, MINIMAL)
    match = isa.match("add.sat.s32", ("r", "r", "i"))
    assert match is not None
    assert (match.problem, match.reads, match.writes) == ("", (1, 2), (0,))
    assert match.named == {"d": 0, "a": 1, "b": 2}
    assert isa.match("add.sat.u32", ("r", "r", "i")) is None, "a combination rule excludes it"
    sm_20, sm_30 = Target(20, ""), Target(30, "")
    assert [m[:2] for m in match.missing(sm_20, (2, 0))] == [("target", ".sat")]
    assert [m[:2] for m in match.missing(sm_30, (2, 3))] == [("version", ".sat")]
    assert [m[:2] for m in match.missing(sm_30, (1, 0))] == [("version", ""), ("version", ".sat")]
    assert match.missing(sm_30, (3, 0)) == []
    by_operand = isa.match("add.v.s32", ("r", "i"))
    assert by_operand is not None
    assert [m[1] for m in by_operand.missing(sm_30, (3, 0))] == ["operand x"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('since = "2.0"', 'sinse = "2.0"'),
        ('since = "2.0"', 'since = "two"'),
        ('since = "2.0"', 'targets = "sm_30?"'),
        ('since = "2.0"', 'event = "frob"'),
        ('since = "2.0"', 'scope = "galaxy"'),
        ("imm(0..3, 8)", "immediate"),
        ("add{.sat}.type d, a, b", "add{.sat.type d, a, b"),
        ("[[form]]", "[[form"),
        ('name = "add"', ""),
    ],
)
def test_what_the_table_refuses(tmp_path: Path, old: str, new: str) -> None:
    assert old in MINIMAL
    with pytest.raises(TableError, match=r"small\.toml"):
        _load(tmp_path, MINIMAL.replace(old, new, 1))


@pytest.mark.parametrize(
    ("opcode", "shapes", "problem"),
    [
        ("cp", ("m",), ""),
        ("cp.hint", ("m", "r"), ""),
        ("cp.hint", ("m",), "1 operand, but the syntax is '[a] {, n} {, policy}'"),
        ("cp", ("m", "r", "r"), "3 operands, but the syntax is '[a] {, n} {, policy}'"),
        ("cp.hint", ("m", "i", "r"), ""),
    ],
)
def test_an_operand_that_goes_with_a_modifier(
    tmp_path: Path, opcode: str, shapes: tuple[str, ...], problem: str
) -> None:
    form = """
[[form]]
name     = "cp"
syntax   = "cp{.hint} [a] {, n} {, policy}"
with     = { policy = ".hint" }
operands = { n = "imm reg", policy = "reg" }
"""
    match = _load(tmp_path, form).match(opcode, shapes)
    assert match is not None
    assert match.problem == problem
    assert problem or ("policy" in match.named) == (".hint" in match.modifiers)


def test_two_forms_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="two forms"):
        _load(tmp_path, MINIMAL + MINIMAL.partition("[[form]]")[1] + MINIMAL.partition("[[form]]")[2])


def test_operand_descriptions() -> None:
    spec = parse_operand("imm(0..15, 31, 0x40..0x80/0x20)")
    assert (spec.access, spec.kinds) == ("read", "i")
    assert spec.immediates is not None
    assert [n for r in spec.immediates for n in r][-4:] == [31, 64, 96, 128]
    assert parse_operand("write").kinds == "r"
    assert parse_operand("read write vec(shape*num)").vector == "shape*num"
    assert parse_operand("vec").vector == "*"


# ---------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("targets", "has", "lacks"),
    [
        ("sm_90+", "sm_90 sm_90a sm_100 sm_103f sm_120a", "sm_89 sm_75"),
        ("sm_90", "sm_90", "sm_90a sm_100"),
        ("sm_90a", "sm_90a", "sm_90 sm_100a"),
        ("sm_100f+", "sm_100f sm_100a sm_103f sm_103a sm_107a", "sm_100 sm_103 sm_110f sm_120a sm_90a"),
        ("sm_103f+", "sm_103f sm_103a", "sm_100f sm_100a sm_103"),
        # 11.1.2: sm_101 was renamed sm_110 in 9.0, so they are one family.
        ("sm_101f+", "sm_101f sm_101a sm_110f sm_110a", "sm_100f sm_101 sm_110"),
        ("", "sm_10 sm_121f", ""),
    ],
)
def test_target_patterns(targets: str, has: str, lacks: str) -> None:
    available = Availability.parse("1.0", targets)
    for name in (has + " " + lacks).split():
        target = Target.parse(name)
        assert target is not None, name
        assert available.on(target) == (name in has.split()), name


def test_the_first_version_of_a_target() -> None:
    available = Availability.parse("8.6", "sm_100a, sm_100f+@8.8")
    assert available.version_for(Target(100, "a")) == (8, 6)
    assert available.version_for(Target(103, "a")) == (8, 8)


def test_target_names() -> None:
    assert Target.parse("compute_90a") == Target(90, "a") == Target.parse("sm_90a")
    for name in ("sm_91", "sm_90f", "sm_75a", "90", "sm_", "debug"):
        assert Target.parse(name) is None, name
    assert {n for family in FAMILIES for n in family} <= {
        t.number for n in INTRODUCED if (t := Target.parse(n))
    }


def test_ptxas_introduces_targets_in_the_same_version(oracle: Ptxas) -> None:
    """11.1.2: every target of ptxas is in INTRODUCED, with the first version ptxas takes it in."""
    for name in oracle.targets:
        target = Target.parse(name)
        assert target is not None, name
        assert oracle.errors(["ret;"], target.introduced, name) == [""], name
        with pytest.raises(ValueError, match="ptxas"):
            oracle.errors(["ret;"], before(target.introduced), name)


# ---------------------------------------------------------------- cutting statements out of text


@pytest.mark.parametrize(
    ("operand", "letter"),
    [
        ("%r1", "r"), ("%tid.x", "r"), ("x", "s"), ("g+4", "s"), ("4", "i"), ("-0x4U", "i"), ("WARP_SZ", "i"),
        ("1.5", "f"), ("0d3FF0000000000000", "f"), ("_", "_"), ("!%p1", "n"), ("{%r1, _}", "v2"), ("[%rd1+8]", "m"),
        ("[%rd1, {%r1, %r2}]", "m+v2"), ("[g, %rd1, {%r1}]", "m+r+v1"), ("%r1|%p1", "r|r"), ("{%r1, %r2}|%p1", "v2|r"), ("(%r1)", "s"), ("(1+2)", "i"),
    ],
)  # fmt: skip
def test_shapes(operand: str, letter: str) -> None:
    assert shape(operand) == letter
    assert split_operands(f"{operand}, {operand}") == [operand, operand]


def test_opcodes_split() -> None:
    assert split_opcode("cp.async.bulk.shared::cta") == ("cp", (".async", ".bulk", ".shared::cta"))

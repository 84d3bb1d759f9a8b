"""Changes that know the syntax tree of a kernel and the ISA table: the text stays PTX, or nearly so.

A change looks at the parts of a kernel and returns edits: spans, and the text that replaces each.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from benchmarks.fuzz.kernels import Kernel, Parts, Span
from tclint.isa.directives import directives
from tclint.isa.table import split_opcode, table
from tclint.isa.target import RELEASED, TOOLKITS

__all__ = ["CHANGES", "Edit", "apply"]

Edit = tuple[int, int, bytes]
"""Start, end, and the bytes that replace what is between them."""
Change = Callable[[random.Random, Kernel, Sequence[Kernel]], list[Edit]]
"""The kernel to change, and all others. No edit when the kernel has no place for it."""


def apply(data: bytes, edits: Iterable[Edit]) -> bytes:
    """*data* with the edits made; of two that overlap, the one that begins first."""
    made: list[bytes] = []
    at = 0
    for start, end, text in sorted(edits):
        if start >= at:
            made += (data[at:start], text)
            at = end
    return b"".join((*made, data[at:]))


# ---------------------------------------------------------------- operands and names


def _exchange_operands(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """Two operands of one class take each other's place."""
    pools = [spans for spans in kernel.parts.by_class.values() if len(spans) > 1]
    if not pools:
        return []
    a, b = rng.sample(rng.choice(pools), 2)
    return [(*a, kernel.data[slice(*b)]), (*b, kernel.data[slice(*a)])]


def _replace_operand(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """An operand, and another one in its place: three times of four of its class."""
    pools = kernel.parts.by_class
    if not pools:
        return []
    kind = rng.choice(sorted(pools))
    from_pool = pools[kind] if rng.randrange(4) else pools[rng.choice(sorted(pools))]
    return [(*rng.choice(pools[kind]), kernel.data[slice(*rng.choice(from_pool))])]


_NUMBERS = (
    b"0", b"1", b"-1", b"2", b"7", b"31", b"32", b"33", b"63", b"127", b"128", b"255", b"256", b"1024", b"65535", b"65536",
    b"2147483647", b"2147483648", b"-2147483649", b"4294967295", b"4294967296", b"9223372036854775808",
    b"18446744073709551615", b"18446744073709551616", b"340282366920938463463374607431768211456", b"1" * 400,
    b"0x0", b"0xFFFFFFFF", b"0xFFFFFFFFFFFFFFFFFF", b"0b1010", b"0777", b"08", b"1U", b"0f00000000", b"0f7FC00000",
    b"0dFFF0000000000000", b"1e400", b"1.5", b".5", b"-0",
)  # fmt: skip


def _change_number(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    if not kernel.parts.numbers:
        return []
    return [(*rng.choice(kernel.parts.numbers), rng.choice(_NUMBERS))]


def _rename(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """A name, at one place or everywhere, becomes another one of the kernel or one that was not there."""
    names = kernel.parts.names
    if not names:
        return []
    old = rng.choice(sorted(names))
    new = rng.choice((b"%fresh", b"$x", b"_", b"ret", b"WARP_SZ", b"%laneid", rng.choice(sorted(names))))
    places = names[old] if rng.randrange(2) else [rng.choice(names[old])]
    return [(*span, new) for span in places]


# ---------------------------------------------------------------- instructions


def _change_modifier(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """A modifier becomes another one of its place in the ISA table, an optional one comes or goes."""
    if not kernel.parts.instructions:
        return []
    span = rng.choice(kernel.parts.instructions).opcode
    opcode = kernel.data[slice(*span)].decode(errors="replace")
    found = table().candidates(re.sub(r"\s", "", opcode))
    if not found:
        return []
    _, syntax, binding = rng.choice(found)
    chosen = dict(binding)
    slot = rng.choice(syntax.slots) if syntax.slots else None
    if slot is None:
        return []
    if slot.optional and slot.name in chosen and rng.randrange(2):
        del chosen[slot.name]
    else:
        chosen[slot.name] = rng.choice(sorted(slot.spellings))
    words = [chosen[s.name] for s in syntax.slots if s.name in chosen]
    return [(*span, (syntax.root + "".join(words)).encode())]


def _shuffle_modifiers(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    if not kernel.parts.instructions:
        return []
    span = rng.choice(kernel.parts.instructions).opcode
    root, modifiers = split_opcode(kernel.data[slice(*span)].decode(errors="replace"))
    words = list(modifiers)
    if rng.randrange(2):
        rng.shuffle(words)
    elif words:
        words.insert(rng.randrange(len(words) + 1), rng.choice(words))
    return [(*span, (root + "".join(words)).encode())]


def _exchange_opcodes(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """Two instructions with as many operands take each other's opcode."""
    if len(kernel.parts.instructions) < 2:
        return []
    a = rng.choice(kernel.parts.instructions)
    alike = [i for i in kernel.parts.instructions if len(i.operands) == len(a.operands)]
    b = rng.choice(alike)
    return [(*a.opcode, kernel.data[slice(*b.opcode)]), (*b.opcode, kernel.data[slice(*a.opcode)])]


@cache
def _examples() -> tuple[str, ...]:
    return tuple(example for form in table() for example in form.examples)


def _insert_example(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """One to six instructions of the ISA table, with registers of the kernel where it has some of that kind."""
    if not kernel.parts.instructions:
        return []
    registers: dict[str, list[str]] = {}
    for name in sorted(kernel.parts.names):
        if match := re.fullmatch(r"(%[a-z]+)\d+", name.decode(errors="replace")):
            registers.setdefault(match[1], []).append(match[0])

    def known(match: re.Match[str]) -> str:
        return rng.choice(registers.get(match[1], [match[0]]))

    edits = []
    for _ in range(rng.randrange(1, 7)):
        text = re.sub(r"(%[a-z]+)\d+\b", known, rng.choice(_examples()))
        at = rng.choice(kernel.parts.instructions).span[rng.randrange(2)]
        edits.append((at, at, f"\n{text}\n".encode()))
    return edits


def _change_guard(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    if not kernel.parts.instructions:
        return []
    instruction = rng.choice(kernel.parts.instructions)
    predicates = [name for name in kernel.parts.names if re.match(rb"%p\d", name)] or [b"%p1"]
    text = rng.choice((b"@", b"@!", b"@!")) + rng.choice(sorted(predicates)) + b" "
    if instruction.guard is None:
        return [(instruction.span[0], instruction.span[0], text)]
    return [(*instruction.guard, rng.choice((b"", text)))]


# ---------------------------------------------------------------- statements, blocks, labels


def _some(rng: random.Random, parts: Parts) -> Span | None:
    """Statements in a row of one block."""
    if not parts.runs:
        return None
    run = rng.choice(parts.runs)
    first = rng.randrange(len(run))
    last = min(len(run) - 1, first + rng.choice((0, 1, 3, 10, 50)))
    return run[first][0], run[last][1]


def _place(rng: random.Random, parts: Parts) -> int:
    return rng.choice(rng.choice(parts.runs))[rng.randrange(2)]


def _move_statements(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    some = _some(rng, kernel.parts)
    if some is None:
        return []
    at = _place(rng, kernel.parts)
    moved = b"\n" + kernel.data[slice(*some)] + b"\n"
    return [(at, at, moved)] if some[0] < at < some[1] else [(*some, b""), (at, at, moved)]


def _drop_statements(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    some = _some(rng, kernel.parts)
    return [(*some, b"")] if some else []


def _repeat_block(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """What is between two labels, repeated in another position; half of the times under another label."""
    if not kernel.parts.stretches:
        return []
    start, end = rng.choice(kernel.parts.stretches)
    text = kernel.data[start:end]
    if rng.randrange(2):
        text = re.sub(rb"^[$%\w]+\s*:", b"$again%d:" % rng.randrange(4), text, count=1)
    at = _place(rng, kernel.parts)
    return [(at, at, b"\n" + text + b"\n")]


def _move_block(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    if len(kernel.parts.stretches) < 2:
        return []
    a, b = rng.sample(kernel.parts.stretches, 2)
    return [(*a, kernel.data[slice(*b)]), (*b, kernel.data[slice(*a)])]


def _change_label(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """A label moves, goes, comes twice; or a branch goes somewhere else."""
    labels = kernel.parts.labels
    if not labels:
        return []
    span = rng.choice(labels)
    text = kernel.data[slice(*span)]
    at = _place(rng, kernel.parts)
    way = rng.randrange(4)
    if way < 3:
        return [[(*span, b"")], [(at, at, text + b" ")], [(*span, b""), (at, at, text + b" ")]][way]
    names = [kernel.data[slice(*label)].rstrip(b": \t") for label in labels]
    uses = [use for name in names for use in kernel.parts.names.get(name, ())]
    return [(*rng.choice(uses), rng.choice(names))] if uses else []


def _insert_branch(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """A loop, a way out, or a branch to a label of the kernel."""
    if not kernel.parts.runs:
        return []
    names = [kernel.data[slice(*label)].rstrip(b": \t") for label in kernel.parts.labels] or [b"$here"]
    at = _place(rng, kernel.parts)
    text = rng.choice(
        (
            b"$here: bra $here;",
            b"@%p1 bra LABEL;",
            b"bra.uni LABEL;",
            b"@%p1 ret;",
            b"exit;",
            b"trap;",
            b"ret.uni;",
        )
    )
    return [(at, at, b" " + text.replace(b"LABEL", rng.choice(names)) + b" ")]


def _nest(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """Statements get a scope of their own, with registers that hide others, or many scopes."""
    some = _some(rng, kernel.parts)
    if some is None:
        return []
    names = sorted(name for name in kernel.parts.names if name.startswith(b"%"))
    inside = b""
    if names and rng.randrange(2):
        inside = b" .reg %s %s; " % (rng.choice((b".b32", b".pred", b".b64", b".f32")), rng.choice(names))
    depth = rng.choice((1, 1, 1, 2, 30))
    return [(some[0], some[0], b"{" * depth + inside), (some[1], some[1], b"}" * depth)]


def _unnest(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    if not kernel.parts.blocks:
        return []
    start, end = rng.choice(kernel.parts.blocks)
    return [(start, start + 1, b" "), (end - 1, end, b" ")][: rng.randrange(1, 3)]


# ---------------------------------------------------------------- modules and directives


def _change_directive(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """A directive or declaration goes, comes twice, or moves."""
    if not kernel.parts.directives:
        return []
    span = rng.choice(kernel.parts.directives)
    text = b"\n" + kernel.data[slice(*span)] + b"\n"
    other = rng.choice(kernel.parts.directives)
    return rng.choice(
        ([(*span, b"")], [(span[1], span[1], text)], [(*span, b""), (other[1], other[1], text)])
    )


_DIRECTIVES = (
    ".version {version}", ".target {target}", ".address_size 32", ".maxntid {n}, {n}, {n}", ".pragma \"{n}\";",
    ".loc {n} {n} {n}", '.file {n} "a\\"b.cu"', ".loc 1 {n} 0, function_name $x, inlined_at 1 {n} 0",
    ".extern .func (.reg .b32 a) f{n} (.param .b64 b);", ".shared .align {n} .b8 s{n}[{n}];", ".reg .b32 %r<{n}>;",
    ".global .b32 g{n}[] = {{ 1, {n}, g{n} }};", ".reg .v4 .b32 %v;", ".alias f{n}, f1;", ".const[{n}] .b32 c;",
    ".section .debug_x {{ .b8 {n} }}", "L{n}: .branchtargets L1, L{n};", "P{n}: .callprototype _ (.param .b32 _);",
    "// tclint: ignore[WG001] why", "// tclint: ignore[", "/* tclint: ignore-entry[ALL] */", "// tclint: ignor[PX]",
    "// tclint:", "# {n} \"x.cu\"", "@@DWARF .4byte {n}",
)  # fmt: skip


def _insert_directive(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """A directive of any kind, or a comment for tclint, before or after a statement, directive or function."""
    texts = (*_DIRECTIVES, *(spec.example for spec in directives().values()))
    text = rng.choice(texts)
    if text in _DIRECTIVES:
        version = "{}.{}".format(*rng.choice(RELEASED))
        target = rng.choice(("sm_75", "sm_90a", "sm_100a", "sm_103f", "sm_999", "debug", "sm_80, sm_90"))
        number = rng.choice(_NUMBERS).decode()
        text = text.format(n=number, version=version, target=target)
    runs = [span for run in kernel.parts.runs for span in run]
    places = rng.choice(
        [spans for spans in (runs, kernel.parts.directives, kernel.parts.functions) if spans] or [[(0, 0)]]
    )
    at = rng.choice(places)[rng.randrange(2)]
    return [(at, at, f"\n{text}\n".encode())]


def _retarget(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """The module is of another version or for another target."""
    spans = [s for s in kernel.parts.directives if kernel.data.startswith((b".version", b".target"), s[0])]
    if not spans:
        return []
    span = rng.choice(spans)
    if kernel.data.startswith(b".version", span[0]):
        return [
            (*span, ".version {}.{}".format(*rng.choice([*RELEASED, *TOOLKITS.values(), (99, 9)])).encode())
        ]
    name = rng.choice(
        ("sm_20", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_120a")
    )
    return [(*span, f".target {name}".encode())]


def _repeat_function(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """A function once more, most often under another name, now and then as one that the first calls."""
    if not kernel.parts.functions:
        return []
    start, end = rng.choice(kernel.parts.functions)
    text = kernel.data[start:end]
    name = b"again%d" % rng.randrange(3)
    made = re.sub(rb"(\.entry|\.func)\s+[$%\w]+", rng.choice((rb"\1 ", rb".func ")) + name, text, count=1)
    edits = [(end, end, b"\n" + rng.choice((made, made, text)) + b"\n")]
    if rng.randrange(2) and kernel.parts.instructions:
        at = rng.choice(kernel.parts.instructions).span[0]
        edits.append((at, at, b" call %s; " % name))
    return edits


def _mix(rng: random.Random, kernel: Kernel, others: Sequence[Kernel]) -> list[Edit]:
    """Statements or a function of another kernel."""
    other = rng.choice(others)
    parts = other.parts
    if rng.randrange(4) == 0 and parts.functions and kernel.parts.functions:
        at = rng.choice(kernel.parts.functions)[rng.randrange(2)]
        return [(at, at, b"\n" + other.data[slice(*rng.choice(parts.functions))] + b"\n")]
    some = _some(rng, parts)
    if some is None or not kernel.parts.runs:
        return []
    at = _place(rng, kernel.parts)
    return [(at, at, b"\n" + other.data[slice(*some)] + b"\n")]


CHANGES: tuple[Change, ...] = (
    _exchange_operands, _replace_operand, _change_number, _rename, _change_modifier, _shuffle_modifiers,
    _exchange_opcodes, _insert_example, _change_guard, _move_statements, _drop_statements, _repeat_block, _move_block,
    _change_label, _insert_branch, _nest, _unnest, _change_directive, _insert_directive, _retarget, _repeat_function,
    _mix,
)  # fmt: skip

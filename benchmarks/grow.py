"""Inputs that grow: more kernels in a module, or more code in a function.

What they are made of is real PTX, so that only the size changes from one to the next. Besides, :data:`SHAPES` are kernels
of one construct, far more of it than real kernels have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tclint.ir import build
from tclint.linting.check import check_source
from tclint.syntax import parse
from tclint.syntax.source import Source

__all__ = ["BOUNDED", "FAMILIES", "SHAPES", "alike", "concatenated", "repeatable", "repeated"]

FAMILIES = {"wgmma": b"wgmma.", "tcgen05": b"tcgen05.", "cp.async": b"cp.async.c", "mbarrier": b"mbarrier."}
"""Each has analyses of its own, so a function of each is repeated inside itself: name, and what it contains."""

LARGEST = 250_000
"""Bytes of the largest module whose function is repeated."""

_WORD = re.compile(r"(?<![\w$%.:])[A-Za-z_$%][\w$%]*")
_LOC = re.compile(r"^[ \t]*\.loc\b[^\n]*\n", re.MULTILINE)
_REGISTERS = re.compile(r"\.reg\s+(?:\.\w+\s+)+([^;]*);")
_LABEL = re.compile(r"(?:^|[;{}])\s*([A-Za-z_$%][\w$]*)\s*:(?!:)", re.MULTILINE)
_LEAVE = re.compile(r"\b(?:ret(?:\.uni)?|exit)\s*;")
_DIGITS = "0123456789"


def _functions_and_variables(data: bytes) -> tuple[list[str], frozenset[str]] | None:
    """The functions and variables of a module without line information, and the names that they define.

    None when there is more in the module than these can stand for: declarations of other modules' functions,
    aliases, something that tclint takes exception to.
    """
    tree = parse(data)
    module = build(tree, data)
    if tree.root_node.has_error or any(f.declared_only or f.errors for f in module.functions):
        return None
    if any(node.type == "alias_directive" for node in tree.root_node.named_children):
        return None
    kept = [n for n in tree.root_node.named_children if n.type in ("function", "variable_declaration")]
    parts = [_LOC.sub("", data[n.start_byte : n.end_byte].decode() + "\n") for n in kept]
    return parts, frozenset({f.name for f in module.functions} | set(module.variables))


def concatenated(sources: Sequence[bytes], size: int, header: str) -> str:
    """One module of at least *size* bytes after *header*: *sources* over and over, each time under new names.

    The same kernels at every size, so that only the size changes. Raises ValueError when a source cannot be used.
    """
    modules = []
    for data in sources:
        found = _functions_and_variables(data)
        if found is None:
            raise ValueError("a module that cannot be repeated")
        modules.append(found)
    if not modules:
        raise ValueError("no module to repeat")
    text, length, copy = [header], len(header), 0
    while length < size:
        parts, names = modules[copy % len(modules)]

        def rename(match: re.Match[str], names: frozenset[str] = names, copy: int = copy) -> str:
            return f"{match[0]}_{copy}" if match[0] in names else match[0]

        for part in parts:
            text.append(_WORD.sub(rename, part))
            length += len(text[-1])
        copy += 1
    return "".join(text)


def repeated(data: bytes, times: int) -> str:
    """The module *data* with the body of its only function *times* over, each time with new registers and labels.

    Leaving the function becomes a branch to the next copy. Raises ValueError when the module has another number of
    functions, or cannot be repeated.
    """
    tree = parse(data)
    module = build(tree, data)
    nodes = [n for n in tree.root_node.named_children if n.type == "function"]
    if _functions_and_variables(data) is None or len(nodes) != 1:
        raise ValueError("not a module of one function that can be repeated")
    node, function = nodes[0], module.functions[0]
    block = node.child_by_field_name("body")
    assert block is not None
    body = _LOC.sub("", data[block.start_byte + 1 : block.end_byte - 1].decode())
    declared = [d.strip() for found in _REGISTERS.findall(body) for d in found.split(",")]
    stems = {d.partition("<")[0].strip() for d in declared if "<" in d}
    plain = {d for d in declared if "<" not in d} | set(_LABEL.findall(body))
    plain |= function.variables.keys() - {p.name for p in function.parameters}

    copies = []
    for copy in range(times):

        def rename(match: re.Match[str], copy: int = copy) -> str:
            name = match[0]
            stem = name.rstrip(_DIGITS)
            if name in plain:
                return f"{name}_c{copy}"
            return f"{stem}c{copy}_{name[len(stem) :]}" if stem in stems else name

        text = _WORD.sub(rename, body)
        copies.append(_LEAVE.sub(f"bra $next_copy_{copy};", text) + f"$next_copy_{copy}:\n")
    before = data[node.start_byte : block.start_byte].decode()
    variables = [
        data[n.start_byte : n.end_byte].decode() + "\n"
        for n in tree.root_node.named_children
        if n.type == "variable_declaration"
    ]
    return f"{_header(data)}{''.join(variables)}{before}{{\n{''.join(copies)}\tret;\n}}\n"


def _header(data: bytes, version: str = "") -> str:
    """The three directives that a module begins with (PTX ISA 11.1), as *data* has them."""
    found = []
    for directive in ("version", "target", "address_size"):
        match = re.search(rf"^\s*\.{directive}\s+([^\n/]+)".encode(), data, re.MULTILINE)
        value = version if directive == "version" and version else match[1].decode().strip() if match else ""
        if value:
            found.append(f".{directive} {value}\n")
    return "".join(found)


def alike(paths: Sequence[Path], size: int) -> tuple[list[bytes], str]:
    """Kernels of about *size* bytes together and of one target, the commonest, and the header of their module.

    Raises ValueError when there is none.
    """
    by_target: dict[str, list[Path]] = {}
    for path in paths:
        if 4_000 <= path.stat().st_size <= size // 2:
            match = re.search(r"\.target (.*)", _header(path.read_bytes()))
            if match:
                by_target.setdefault(match[1], []).append(path)
    if not by_target:
        raise ValueError(f"no file of 4 to {size // 2000} kB to concatenate")
    candidates = max(by_target.values(), key=len)
    step = max(1, len(candidates) // 8)
    # Evenly spaced through the folders, which hold one compiler each; then the ones between.
    chosen: list[bytes] = []
    versions = []
    for path in [path for start in range(step) for path in candidates[start::step]]:
        data = path.read_bytes()
        if _functions_and_variables(data) is not None:
            chosen.append(data)
            versions.append(tuple(int(n) for n in re.findall(r"\d+", _header(data).splitlines()[0])))
        if sum(map(len, chosen)) >= size:
            break
    major, minor = max(versions)
    return chosen, _header(chosen[0], f"{major}.{minor}")


def repeatable(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """For each of :data:`FAMILIES` that has one, the largest file whose function :func:`repeated` can repeat.

    Repeated, it must break no rule that it keeps alone, such as to allocate after the end of allocations: what is then
    reported costs a search for a path that the function itself does not.
    """
    sizes = sorted((p for p in paths if p.stat().st_size <= LARGEST), key=lambda p: -p.stat().st_size)
    used = set()
    for family, words in FAMILIES.items():
        for path in sizes:
            if path not in used and words in (data := path.read_bytes()):
                try:
                    once, twice = (_broken(repeated(data, times)) for times in (1, 2))
                except ValueError:
                    continue
                if twice - once:
                    continue
                used.add(path)
                yield family, path
                break


def _broken(text: str) -> set[str]:
    """The rules that have findings."""
    return {finding.rule.id for finding in check_source(Source(text.encode(), "grown.ptx")).findings}


# ---------------------------------------------------------------- one construct

_MODULE = ".version 8.7\n.target sm_90a\n.address_size 64\n"
_KERNEL = """.visible .entry k(.param .u64 p, .param .u32 n)
.reqntid 128
{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .shared .align 128 .b8 tile[65536];
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r8, [n];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, tile;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r2, 16, %r1;
    setp.eq.u32 %p1, %r2, 0;
"""


def _kernel(*statements: str) -> str:
    return "\n".join((f"{_MODULE}{_KERNEL}", *statements, "ret;\n}\n"))


def _loops(count: int) -> str:
    """So many loops, each in the one before, with counters of their own."""
    counters = [f"%counter{i}" for i in range(count)]
    heads = (f"mov.u32 {counter}, 0;\nL{i}:" for i, counter in enumerate(counters))
    ends = (
        f"add.u32 {counter}, {counter}, 1;\nsetp.lt.u32 %p2, {counter}, %r8;\n@%p2 bra L{i};"
        for i, counter in reversed([*enumerate(counters)])
    )
    return _kernel(f".reg .b32 {', '.join(counters)};", *heads, "st.global.u32 [%rd1], %r2;", *ends)


def _copies(count: int, between: str = "", commit: str = "cp.async.commit_group;") -> str:
    """So many copies into the stages of a ring, each in a group, with what is *between* two of them."""
    each = (
        f"cp.async.cg.shared.global [%r3+{i % 32 * 2048}], [%rd1+{i * 16}], 16;\n{commit}\n"
        f"{between.format(read=(i + 29) % 32 * 2048)}"
        for i in range(count)
    )
    return _kernel(*each, "cp.async.wait_all;\nbar.sync 0;")


_PIPELINED = (
    "cp.async.wait_group 3;\nbar.sync 0;\nld.shared.u32 %r4, [%r3+{read}];\nst.global.u32 [%rd1], %r4;"
)


def _relaxed(count: int) -> str:
    """So many words that threads pass by relaxed arrivals and waits at one mbarrier, one after another."""
    passed = (
        f"st.shared.u32 [%r1+{i % 8192 * 4}], %r4;\nmbarrier.arrive.relaxed.cluster.shared::cta.b64 %rd2, [full];\n"
        f"W{i}: mbarrier.try_wait.relaxed.cluster.shared::cta.b64 %p2, [full], %rd2;\n@!%p2 bra W{i};\n"
        f"ld.shared.u32 %r4, [%r1+{i % 8192 * 4}];"
        for i in range(count)
    )
    return _kernel(
        ".shared .align 8 .b64 full;\nmov.u32 %r4, %tid.x;\n@%p1 mbarrier.init.shared::cta.b64 [full], 128;\nbar.sync 0;",
        *passed,
        "st.global.u32 [%rd1], %r4;",
    )


def _mbarriers(count: int) -> str:
    """So many mbarriers, each of which one bulk copy signals."""
    each = range(count)
    inits = (f"mbarrier.init.shared::cta.b64 [%r7+{8 * i}], 1;" for i in each)
    fills = (
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7+{8 * i}], 1024;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        f" [%r1+{i % 32 * 1024}], [%rd1], 1024, [%r7+{8 * i}];"
        for i in each
    )
    waits = (
        f"W{i}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7+{8 * i}], 0;\n@!%p2 bra W{i};"
        for i in each
    )
    return _kernel(
        f".shared .align 8 .b64 full[{count}];\nmov.u32 %r7, full;\n@!%p1 bra made;",
        *inits,
        "fence.proxy.async.shared::cta;\nmade: bar.sync 0;\n@!%p1 bra filled;",
        *fills,
        "filled:",
        *waits,
        "ld.shared.u32 %r4, [%r1];\nst.global.u32 [%rd1], %r4;",
    )


def _roles(count: int) -> str:
    """So many accesses to shared memory, each by some lanes only, and skipped with some argument."""
    each = (
        f"setp.eq.u32 %p2, %r8, {i};\n@%p2 bra S{i};\nsetp.eq.u32 %p3, %r2, {i % 128};\n@%p3 bra S{i};\n"
        f"st.shared.u32 [%r3+{i % 256 * 4}], %r4;\nS{i}:\nld.shared.u32 %r4, [%r1+{i % 128 * 4}];"
        for i in range(count)
    )
    return _kernel("mov.u32 %r4, %tid.x;", *each, "st.global.u32 [%rd1], %r4;")


def _bulk_loads(count: int) -> str:
    """So many bulk copies into a ring, each with a wait by parity and a read of what it copied."""
    each = (
        f"@!%p1 bra N{i};\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1024;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        f" [%r1+{i % 32 * 1024}], [%rd1], 1024, [full];\n"
        f"N{i}:\nW{i}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], {i % 2};\n@!%p2 bra W{i};\n"
        f"ld.shared.u32 %r4, [%r1+{i % 32 * 1024}];\nbar.sync 0;"
        for i in range(count)
    )
    return _kernel(
        ".shared .align 8 .b64 full;\n@%p1 mbarrier.init.shared::cta.b64 [full], 1;",
        "fence.proxy.async.shared::cta;\nbar.sync 0;",
        *each,
        "st.global.u32 [%rd1], %r4;",
    )


def _branches(count: int) -> str:
    """So many branches one after the other."""
    each = (
        f"setp.lt.u32 %p2, %r4, {i};\n@%p2 bra S{i};\nadd.u32 %r4, %r4, 3;\nS{i}: add.u32 %r4, %r4, 1;"
        for i in range(count)
    )
    return _kernel("ld.global.u32 %r4, [%rd1];", *each, "st.global.u32 [%rd1], %r4;")


def _ends(count: int) -> str:
    """So many branches to one exit, with a loop before each."""
    each = (
        f"mov.u32 %r4, 0;\nL{i}: add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, %r8;\n@%p2 bra L{i};\n"
        f"setp.eq.u32 %p3, %r8, {i};\n@%p3 bra end;"
        for i in range(count)
    )
    return _kernel(*each, "end:")


def _statements(count: int) -> str:
    """A straight line of so many statements, each with a named register of its own."""
    declared = (f".reg .b32 named{i};" for i in range(count + 1))
    each = (f"mad.lo.u32 named{i + 1}, named{i}, named{i * 3 // 4}, {i};" for i in range(count))
    last = f"st.global.u32 [%rd1], named{count};"
    return _kernel(*declared, "ld.global.u32 named0, [%rd1];", *each, last)


def _barriers(count: int) -> str:
    """So many times a store, a barrier, a load and a barrier."""
    return _kernel(
        *["st.shared.u32 [%r3], %r2;\nbar.sync 0;\nld.shared.u32 %r4, [%r3];\nbar.sync 0;"] * count
    )


def _functions(count: int) -> str:
    """So many small functions."""
    text = ".func f{0}()\n{{\n.reg .b32 %r<4>;\nmov.u32 %r1, {0};\nadd.u32 %r2, %r1, 1;\nret;\n}}\n"
    return _MODULE + "".join(map(text.format, range(count)))


SHAPES: Mapping[str, tuple[Callable[[int], str], int]] = {
    "nested loops": (_loops, 120),
    "copies in flight": (_copies, 120),
    "copies in one group": (partial(_copies, commit=""), 150),
    "copies in a pipeline": (partial(_copies, between=_PIPELINED), 100),
    "mbarriers": (_mbarriers, 50),
    "relaxed mbarriers": (_relaxed, 50),
    "branches": (_branches, 200),
    "loops and branches to one exit": (_ends, 150),
    "statements": (_statements, 1600),
    "barriers": (_barriers, 150),
    "functions": (_functions, 150),
}
"""Construct -> the text with so many of it, and how many show already whether the work is linear in their number."""

BOUNDED: Mapping[str, Callable[[int], str]] = {"lanes and arguments": _roles, "bulk loads": _bulk_loads}
"""Construct -> the text with so many of it. Questions about them are pairs, of which only so many are answered as limits in the
size of the kernel permit."""

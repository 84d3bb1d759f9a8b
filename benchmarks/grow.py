"""Inputs that grow: more kernels in a module, or more code in a function.

What they are made of is real PTX, so that only the size changes from one to the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tclint.ir import build
from tclint.linting.check import check_source
from tclint.syntax import parse
from tclint.syntax.source import Source

__all__ = ["FAMILIES", "alike", "concatenated", "repeatable", "repeated"]

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

"""Small pieces of real kernels, and what the syntax tree says about each.

A change somewhere in a small kernel breaks tclint as well as one in a large kernel does, and takes a hundredth of the
time. So a long function is cut down to its declarations and a stretch of its statements.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks import results
from tclint.syntax import Node, parse

__all__ = ["Instruction", "Kernel", "Parts", "Span", "draw"]

SMALL = 1_500
"""Bytes of the statements that are left of a function."""
LARGEST = 400_000
"""Bytes of the largest file that a piece is cut from."""
WHOLE = 30_000
"""Bytes of the largest file that is also taken whole."""

Span = tuple[int, int]
_ASYNCHRONOUS = re.compile(rb"wgmma|tcgen05|cp\.async|mbarrier|elect|setmaxnreg|bar(rier)?\.")


@dataclass(frozen=True, slots=True)
class Instruction:
    """Where the parts of an instruction statement are."""

    span: Span
    guard: Span | None
    opcode: Span
    operands: tuple[tuple[str, Span], ...]
    """The class of each (identifiers by the letters they begin with, so that ``%rd1`` is none of ``%r1``), and place."""


class Parts:
    """The places in a kernel that can be changed, read off its syntax tree once."""

    def __init__(self, data: bytes) -> None:
        self.instructions: list[Instruction] = []
        self.functions: list[Span] = []
        self.blocks: list[Span] = []
        self.labels: list[Span] = []
        self.numbers: list[Span] = []
        self.directives: list[Span] = []
        self.runs: list[list[Span]] = []
        """The statements of each block."""
        self.stretches: list[Span] = []
        """From each label to the next one of its block."""
        self.names: defaultdict[bytes, list[Span]] = defaultdict(list)
        stack = [parse(data).root_node]
        while stack:
            node = stack.pop()
            self._take(node, data)
            stack += node.children

    def _take(self, node: Node, data: bytes) -> None:
        span, kind = (node.start_byte, node.end_byte), node.type
        if kind == "identifier":
            self.names[data[slice(*span)]].append(span)
        elif kind in ("integer", "float"):
            self.numbers.append(span)
        elif kind == "instruction":
            self.instructions.append(_instruction(node, data))
        elif kind == "function":
            self.functions.append(span)
        elif kind == "label":
            self.labels.append(span)
        elif kind == "block":
            self._block(node, span)
        elif kind.endswith(("_directive", "_declaration")) or kind == "directive":
            self.directives.append(span)

    def _block(self, node: Node, span: Span) -> None:
        self.blocks.append(span)
        inner = [child for child in node.named_children if child.type != "unclosed"]
        if not inner:
            return
        self.runs.append([(child.start_byte, child.end_byte) for child in inner])
        starts = [child.start_byte for child in inner if child.type == "label"]
        self.stretches += zip(starts, [*starts[1:], inner[-1].end_byte], strict=False)

    @cached_property
    def by_class(self) -> dict[str, list[Span]]:
        """The operands of all instructions by class."""
        found = defaultdict(list)
        for instruction in self.instructions:
            for kind, span in instruction.operands:
                found[kind].append(span)
        return found


def _instruction(node: Node, data: bytes) -> Instruction:
    guard = next((child for child in node.children if child.type == "guard"), None)
    opcode = node.child_by_field_name("opcode") or node
    operands = []
    for child in node.named_children:
        if child.type not in ("guard", "opcode"):
            nested = child.named_children if child.type in ("address", "vector", "group") else ()
            operands += [_operand(term, data) for term in (child, *nested)]
    return Instruction(
        (node.start_byte, node.end_byte),
        (guard.start_byte, guard.end_byte) if guard else None,
        (opcode.start_byte, opcode.end_byte),
        tuple(operands),
    )


def _operand(node: Node, data: bytes) -> tuple[str, Span]:
    span = node.start_byte, node.end_byte
    kind = node.type
    if kind == "identifier":
        prefix = re.match(rb"[%$_]*[A-Za-z]*", data[slice(*span)])
        kind = prefix[0].decode() if prefix else kind
    elif kind == "vector":
        kind += str(node.named_child_count)
    return kind, span


@dataclass(frozen=True)
class Kernel:
    """What a run begins with."""

    name: str
    """Path below the corpus; with ``:`` and the name of the function when it is a piece of it."""
    producer: str
    data: bytes

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.data)


def draw(folders: Iterable[Path], count: int, seed: int) -> list[Kernel]:
    """*count* kernels of the ``.ptx`` files below *folders*, as many of each producer as can be; few of the large ones whole.

    The producer is the folder of a file.
    """
    rng = random.Random(seed)
    pools: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    for folder in folders:
        for path in results.kernels(folder):
            if path.stat().st_size <= LARGEST:
                below = path.relative_to(folder)
                producer = below.parts[0] if len(below.parts) > 1 else folder.name
                pools[producer].append((str(below), path))
    for pool in pools.values():
        rng.shuffle(pool)
    kernels: list[Kernel] = []
    while pools and len(kernels) < count:
        for producer in sorted(pools):
            name, path = pools[producer].pop()
            if not pools[producer]:
                del pools[producer]
            data = path.read_bytes()
            whole = len(data) <= SMALL or (len(data) <= WHOLE and rng.randrange(40) == 0)
            piece = ("", data) if whole else _piece(rng, data)
            if piece is not None and len(kernels) < count:
                kernels.append(Kernel(f"{name}:{piece[0]}" if piece[0] else name, producer, piece[1]))
    return kernels


def _piece(rng: random.Random, data: bytes) -> tuple[str, bytes] | None:
    """The name of one function of a module, and the module with no other and a stretch of its statements."""
    root = parse(data).root_node
    bodies = [
        (node, body)
        for node in root.children
        if node.type == "function" and (body := node.child_by_field_name("body")) is not None
    ]
    if root.has_error or not bodies:
        return None
    function, body = rng.choice(bodies)
    head = b"\n".join(
        data[node.start_byte : node.end_byte]
        for node in root.children
        if node.type != "function"
        and "section" not in node.type
        and "file" not in node.type
        and node.end_byte - node.start_byte < SMALL // 3
    )
    others = b"".join(
        data[node.start_byte : inner.start_byte] + b";\n"
        for node, inner in bodies
        if node != function and data.find(b".func", node.start_byte, inner.start_byte) >= 0
    )
    declared = [node for node in body.named_children if node.type == "variable_declaration"]
    statements = [
        node for node in body.named_children if node.type not in ("variable_declaration", "loc_directive")
    ]
    kept = _stretch(rng, data, statements)
    labels = [_name(node, data) for node in statements if node.type == "label"]
    have = {_name(node, data) for node in kept if node.type == "label"}
    text = b"\n".join(data[node.start_byte : node.end_byte] for node in (*declared, *kept))
    used = set(re.findall(rb"[$%\w]+", text))
    missing = b"".join(name + b":\n" for name in labels if name in used - have)
    signature = data[function.start_byte : body.start_byte]
    name = function.child_by_field_name("name")
    made = b"\n".join((head, others + signature + b"{", text, missing + b"ret;", b"}", b""))
    return (data[name.start_byte : name.end_byte].decode() if name else ""), made


def _stretch(rng: random.Random, data: bytes, nodes: Sequence[Node]) -> list[Node]:
    """Statements in a row of ``SMALL`` bytes, most often with one of an asynchronous instruction among them."""
    if not nodes:
        return []
    begin = rng.randrange(len(nodes))
    special = [
        index
        for index, node in enumerate(nodes)
        if node.type == "instruction" and _ASYNCHRONOUS.search(data, node.start_byte, node.end_byte)
    ]
    if special and rng.randrange(4):
        begin = max(0, rng.choice(special) - rng.randrange(40))
    kept: list[Node] = []
    size = 0
    for node in nodes[begin:]:
        size += node.end_byte - node.start_byte + 1
        if size > SMALL and kept:
            break
        kept.append(node)
    return kept


def _name(node: Node, data: bytes) -> bytes:
    named = node.child_by_field_name("name")
    return data[named.start_byte : named.end_byte] if named else b""

"""What words does a new ptxas know that the ISA table lacks? The first step to the next version of PTX.

    python -m benchmarks.vocabulary [--older PTXAS]

The program contains the names of its opcodes, modifiers, special registers and directives as text. Every piece of text
in it that may be such a name is tried in an instruction: what ptxas says then shows whether it knows the word, and as
what. Printed are the newest ``.version`` that it takes, its targets that the table lacks, and each word that the table
lacks; with ``--older`` also each word that an older ptxas lacks, whether the table has it or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.arguments import command_line
from benchmarks.ptxas import Ptxas, find, needing_ptxas
from tclint.isa.directives import directives
from tclint.isa.features import features
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.table import table
from tclint.isa.target import RELEASED, Target, Version, dotted

__all__ = ["KINDS", "Words", "known", "newest", "pieces", "words"]

KINDS = ("opcode", "modifier", "special register", "keyword")
_STRING = re.compile(rb"[A-Za-z0-9_.:%]{2,60}(?=\0)")
_MODIFIER = re.compile(r"\.[A-Za-z_]\w*(?:::\w+)*")
_REGISTER = re.compile(r"%[a-z_][a-z0-9_]*(?:\.[xyzw])?")
_OPCODE = re.compile(r"[a-z][a-z0-9_]+(?:\.[a-z][a-z0-9_]*)*")
_UNKNOWN = re.compile(r"Not a name of any known instruction|Unknown modifier")
_TYPES = {".u32": "%r1", ".u64": "%rd1", ".pred": "%p1", ".v4.u32": "{%r1, %r2, %r3, %r4}"}

IDLE = frozenset(
    """atom.async cctl cctl.tex.invall cctlu tex.invall .L2::no_allocate .evict_first .evict_last .evict_normal
    .evict_unchanged .invall .matrix::A .matrix::D .matrix::scaleA .matrix::scaleB .matrix::sparseMetadata .maxabs
    .mbarrier::meet_tx::bytes .no_allocate .safeadd .scratch .tex .FORCE_INLINE .MACRO ._ ._5d ._h .abi_preserve_after
    .allocno .fused .metadata .metadata_domain .negA .negB .reserved .retaddr_allocno .transA .transB .unified
    .unique""".split()
)
"""Words that ptxas 13.5 knows and takes nowhere: the modifiers at no position in the examples of the table, the keywords in
no declaration, function or attribute. Only ``.unified`` is taken, in an attribute with an option of the command."""

Words = dict[str, set[str]]
"""The words of each of :data:`KINDS`."""


@dataclass(frozen=True)
class Place:
    """Where the words are tried: the newest version and target, which have the most."""

    version: Version
    target: str


def newest(ptxas: Ptxas) -> Place:
    """The newest ``.version`` that *ptxas* takes, and the target of that version with the highest number that is specific
    to an architecture, unless it is for graphics alone."""
    name = next(name for name in ("sm_107a", "sm_100a", "sm_90a", ptxas.targets[-1]) if name in ptxas.targets)
    version = RELEASED[0]
    later = [(major, minor) for major in range(RELEASED[-1][0], RELEASED[-1][0] + 3) for minor in range(10)]
    for candidate in sorted({*RELEASED, *later}):
        if candidate >= (8, 0) and _takes(ptxas, candidate, name):
            version = candidate
    return Place(version, name)


def _takes(ptxas: Ptxas, version: Version, target: str) -> bool:
    try:
        ptxas.errors(["ret;"], version, target)
    except ValueError:
        return False
    return True


def pieces(data: bytes) -> set[str]:
    """The pieces of text in a program that may be words. A linker lets a word share the end of a longer one."""
    found: set[str] = set()
    for text in {match[0].decode() for match in _STRING.finditer(data)}:
        ends = {match.start() for match in re.finditer(r"[.%]|(?<![a-z])[a-z]", text)}
        found |= {text[start:] for start in ends}
    return found


def words(ptxas: Ptxas, place: Place, some: Iterable[str]) -> Words:
    """The words that *ptxas* knows, of *some*."""
    found: Words = {kind: set() for kind in KINDS}

    def tried(names: Iterable[str], line: str) -> Iterator[tuple[str, str]]:
        chosen = sorted(names)
        errors = ptxas.errors([line.format(name) for name in chosen], place.version, place.target)
        return zip(chosen, errors, strict=True)

    for name, error in tried(filter(_OPCODE.fullmatch, some), "{};"):
        if not _UNKNOWN.match(error) and "syntax error" not in error:
            found["opcode"].add(name)
    for name, error in tried(filter(_MODIFIER.fullmatch, some), "add{}.u32 %r1, %r2, %r3;"):
        if not _UNKNOWN.match(error):
            found["keyword" if "syntax error" in error else "modifier"].add(name)
    registers = [*filter(_REGISTER.fullmatch, some)]
    for type_, to in _TYPES.items():
        to = to.replace("{", "{{").replace("}", "}}")
        accepted = (name for name, error in tried(registers, f"mov{type_} {to}, {{}};") if not error)
        found["special register"] |= {*accepted}
    return found


@cache
def known() -> Words:
    """The words that the table knows."""
    lines = [(root, line) for root, some in table().roots.items() for _, line in some]
    accepted: dict[str, set[str]] = {}
    for root, line in lines:
        accepted.setdefault(root, set()).update(line.accepts)
    text = " ".join([*directives(), *(f"{spec.name} {spec.example}" for spec in features())])
    return {
        "opcode": {*accepted, *(root + word for root, some in accepted.items() for word in some)},
        "modifier": set().union(*accepted.values()),
        "special register": {*SPECIAL_REGISTERS},
        "keyword": {*re.findall(r"\.\w+", text)},
    }


def lacking(found: Words) -> Words:
    """The words of *found* that the table does not know; an opcode if it lacks one of its words. A word that begins
    longer ones (``.multicast::cluster``) is known with them."""
    have = {kind: {*some, *(name.partition("::")[0] for name in some)} for kind, some in known().items()}
    lacks = {kind: some - have[kind] - IDLE for kind, some in found.items()}
    lacks["opcode"] = {
        name
        for name in found["opcode"]
        for root, *rest in [name.split(".")]
        if name not in IDLE and not have["opcode"].issuperset((root, *(f"{root}.{word}" for word in rest)))
    }
    return lacks


def _show(title: str, found: Words, marks: Words | None = None) -> None:
    print(f"\n{title}: {sum(map(len, found.values()))}")
    for kind in KINDS:
        for name in sorted(found[kind]):
            print(f"  {kind:17} {name}{' (not in the table)' if marks and name in marks[kind] else ''}")


def main() -> None:
    """Print the words that a ptxas adds to the table."""
    arguments = command_line("benchmarks.vocabulary", __doc__)
    arguments.add_argument("--older", type=Path, help="an older ptxas: show what it lacks")
    options = arguments.parse_args()
    with needing_ptxas():
        ptxas = find()
        print(f"ptxas {ptxas.build}")
    place = newest(ptxas)
    print(
        f"newest .version: {dotted(place.version)} (the table: {dotted(RELEASED[-1])}), tried on {place.target}"
    )
    lacks_targets = [name for name in ptxas.targets if Target.parse(name) is None]
    print(f"targets that the table lacks: {' '.join(lacks_targets) or 'none'}")
    some = pieces(ptxas.path.read_bytes())
    found = words(ptxas, place, some)
    print("words: " + ", ".join(f"{len(found[kind])} {kind}s" for kind in KINDS))
    lacks = lacking(found)
    _show("not in the table", lacks)
    if options.older:
        older = Ptxas(options.older)
        before = words(older, newest(older), some)
        _show(f"new since {older.build}", {kind: found[kind] - before[kind] for kind in KINDS}, lacks)


if __name__ == "__main__":
    main()

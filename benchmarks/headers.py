"""Does the ISA table know every instruction of NVIDIA's ``cuda::ptx`` headers, and where ptxas accepts it?

    python -m benchmarks.headers [--folder HEADERS] [--limit 40] [--record]

The headers of libcu++ wrap the asynchronous part of the ISA in inline assembly: some 2,700 strings, written by others.
Each is read as tclint reads a user's source. All of its instructions must match exactly one form, and the string must
be available on the targets and in the versions in which ptxas accepts it: on every target that ptxas knows, at the
first ``.version`` that the table allows there, one step below it, and at the newest. Without a ptxas, strings that the
table does not know are counted and nothing else.

The headers come from the packages of :data:`PACKAGES`, or from a folder that contains them.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.corpus.builder import default_cache
from benchmarks.ptxas import OLDEST, Ptxas, PtxasMissing, before, find, without_target
from benchmarks.strangers.sources import Source as Package
from benchmarks.strangers.sources import Unreachable, fetch
from tclint.inline.asm import Ptx
from tclint.inline.module import strings
from tclint.ir.build import build
from tclint.ir.needs import Need, first_version, needs
from tclint.ir.nodes import Immediate, Instruction
from tclint.ir.operands import clean, shape
from tclint.isa.forms import DEFAULT, Match
from tclint.isa.table import Table, table
from tclint.isa.target import RELEASED, Target, Version, dotted
from tclint.syntax import parse, problems
from tclint.syntax.source import Source

__all__ = ["PACKAGES", "Wrapper", "main", "measure", "wrappers"]

PACKAGES = ("nvidia-cuda-cccl==13.3.5.0.6", "nvidia-cuda-cccl-cu12==12.9.27")
"""The newest release of the headers, and one of the toolkit before."""

_IMMEDIATES = (b"1", b"128", b"0")
"""Values for the immediates that a caller gives: each of them can have one of these."""
_GENERATED = "cuda/__ptx/instructions/generated"
NEWEST = RELEASED[-1]


@dataclass(frozen=True, eq=False)
class Wrapper:
    """One string of inline assembly, on one line."""

    header: str
    line: int
    text: str
    """The string as a block that declares its operands."""
    matches: tuple[Match, ...] = ()
    needs: tuple[Need, ...] = ()
    unknown: str = ""
    """Why tclint does not know it: a problem of syntax, an opcode without a form, operands that do not fit. Empty if
    tclint knows it."""

    def available(self, target: Target, version: Version) -> bool:
        """Whether the table has all that it uses."""
        return all(need.allows(target, version) for need in self.needs)

    def first(self, target: Target) -> Version | None:
        """The first version that has all that it uses on *target*; None if none has."""
        return first_version(self.needs, target, OLDEST)


# ---------------------------------------------------------------- reading the headers


def headers(folder: Path) -> list[Path]:
    """The generated headers below *folder*."""
    return sorted(path for path in folder.rglob("*.h") if path.parent.as_posix().endswith(_GENERATED))


def wrappers(paths: Iterable[Path]) -> list[Wrapper]:
    """The strings of the headers, each once, with what tclint makes of them."""
    found: dict[tuple[str, ...], tuple[str, int]] = {}
    for path in paths:
        source = Source(path.read_bytes(), str(path.with_suffix(".cuh")))
        for asm, ptx in strings(source):
            texts = tuple(_block(ptx, value) for value in _IMMEDIATES)
            found.setdefault(texts, (path.name, source.position(asm.statement.start).line))
    return [_first(texts, *at) for texts, at in found.items()]


def _block(ptx: Ptx, immediate: bytes) -> str:
    data = bytearray(ptx.text.data)
    for start, end in reversed(ptx.values):
        data[start:end] = immediate
    body = " ".join(clean(data.decode()).split())
    return f"{{ {' '.join(ptx.declarations)} {body}{'' if body.rstrip('} ').endswith(';') else ';'} }}"


def _first(texts: Iterable[str], header: str, line: int) -> Wrapper:
    """What tclint makes of the first of *texts* that it knows, or else of the last one."""
    for text in texts:
        wrapper = _read(text, header, line)
        if not wrapper.unknown:
            break
    return wrapper


_HEAD = f".version {dotted(NEWEST)}\n.target sm_107a\n.address_size 64\n.func f() "


def _read(text: str, header: str, line: int) -> Wrapper:
    data = f"{_HEAD}{text}\n".encode()
    tree = parse(data)
    if wrong := problems(tree):
        return Wrapper(header, line, text, unknown=wrong[0].message)
    module = build(tree, data)
    function = module.functions[0]
    if function.errors:
        return Wrapper(header, line, text, unknown=function.errors[0].message)
    isa = table()
    unknown = next(filter(None, (_unknown(isa, i) for i in function.instructions)), "")
    matches = tuple(i.match for i in function.instructions if i.match is not None)
    return Wrapper(header, line, text, matches, tuple(needs(module, None)), unknown)


def _unknown(isa: Table, instruction: Instruction) -> str:
    """Why an instruction does not match exactly one form; empty if it does."""
    match = instruction.match
    if match is None:
        return f"no form for {instruction.opcode}"
    if match.problem:
        return f"{instruction.opcode}: {match.problem}"
    for name, at in match.named.items():
        operand, allowed = instruction.operands[at], match.form.operands.get(name, DEFAULT).immediates
        if (
            allowed is not None
            and isinstance(operand, Immediate)
            and not any(operand.value in r for r in allowed)
        ):
            return f"{instruction.opcode}: {name} is {operand.value}"
    shapes = tuple(map(shape, instruction.operands))
    takers = {
        form.name
        for form, line, binding in isa.candidates(instruction.opcode)
        if not Table._align(form, line, binding, shapes)[2]
    }
    return (
        "" if len(takers) == 1 else f"{instruction.opcode} matches {', '.join(sorted(takers)) or 'no form'}"
    )


# ---------------------------------------------------------------- asking ptxas


def _points(some: Sequence[Wrapper], targets: Iterable[Target]) -> Iterator[tuple[Version, Target, Wrapper]]:
    for target in targets:
        for wrapper in some:
            oldest = max(target.introduced, OLDEST)
            first = wrapper.first(target)
            asked = {NEWEST} if first is None else {NEWEST, first, before(first)}
            yield from ((version, target, wrapper) for version in asked if oldest <= version <= NEWEST)


def differences(oracle: Ptxas, some: Sequence[Wrapper]) -> tuple[int, int, list[tuple[Wrapper, str]]]:
    """How many points were asked and how many agree, and each string with what differs, once for each reason."""
    batches: dict[tuple[Version, Target], list[Wrapper]] = defaultdict(list)
    for version, target, wrapper in _points(some, filter(None, map(Target.parse, oracle.targets))):
        batches[version, target].append(wrapper)
    points = agreed = 0
    places: dict[tuple[Wrapper, str], list[str]] = defaultdict(list)
    for (version, target), asked in batches.items():
        errors = oracle.errors([wrapper.text for wrapper in asked], version, str(target))
        points += len(asked)
        for wrapper, error in zip(asked, errors, strict=True):
            known = not wrapper.unknown and wrapper.available(target, version)
            if known != bool(error):
                agreed += 1
            else:
                why = without_target(error) or wrapper.unknown or "ptxas accepts it"
                places[wrapper, why].append(f"{dotted(version)} {target}")
    differ = [
        (wrapper, f"{why} ({', '.join(at[:4])}{f' and {len(at) - 4} more' if len(at) > 4 else ''})")
        for (wrapper, why), at in places.items()
    ]
    return points, agreed, differ


# ---------------------------------------------------------------- the report

TITLE = "NVIDIA's headers"
COMMAND = "python -m benchmarks.headers --record"
SLICE = "python -m benchmarks.headers"
ABOUT = """\
Every string of inline assembly in the `cuda::ptx` headers of libcu++, the newest and an older release: does the ISA
table have exactly one form for each instruction, and does its availability equal what ptxas says?"""


def figure(data: Any) -> str:
    """What matches and agrees."""
    found = f"{data['strings']:,} strings in {data['headers']} headers of {' and '.join(data['packages'])}"
    matched = f"all instructions of {data['known']:,} match one form each"
    agreed = f"{data['agreed']:,} of {data['points']:,} points agree with ptxas"
    return f"{found}; {matched}. {agreed}."


def tables(data: Any) -> list[str]:
    """What differs."""
    return results.table(["string", "what differs"], data["differences"])


def measure(found: Sequence[Wrapper], oracle: Ptxas | None) -> dict[str, Any]:
    """Counts and differences, as :func:`tables` shows them."""
    points, agreed, wrong = differences(oracle, found) if oracle is not None else (0, 0, [])
    shown = [[f"`{w.text}`", why] for w, why in wrong]
    return {
        "strings": len(found),
        "headers": len({wrapper.header for wrapper in found}),
        "known": sum(not wrapper.unknown for wrapper in found),
        "unknown": sorted(Counter(w.unknown for w in found if w.unknown).items()),
        "points": points,
        "agreed": agreed,
        "differences": shown,
    }


def _folders(cache: Path) -> Iterator[Path]:
    """The unpacked packages, fetched where they are not there yet. Raises Unreachable."""
    for package in PACKAGES:
        folder = cache / "headers" / package
        if not headers(folder):
            folder.mkdir(parents=True, exist_ok=True)
            fetch(Package(name=package, gives="headers", package=package), folder)
        yield folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 where the table does not know a string that ptxas accepts, or its availability differs."""
    parser = command_line("benchmarks.headers", __doc__)
    parser.add_argument("--folder", type=Path, help="use the headers below this folder, and fetch nothing")
    parser.add_argument("--limit", type=int, default=40, help="differences shown (default 40)")
    parser.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    options = parser.parse_args(arguments)
    try:
        folders = [options.folder] if options.folder else list(_folders(default_cache().parent))
    except Unreachable as why:
        print(f"headers: {why}", file=sys.stderr)
        return 2
    try:
        oracle = find()
    except PtxasMissing as why:
        print(f"headers: {why}; only what tclint knows is counted", file=sys.stderr)
        oracle = None
    found = wrappers(path for folder in folders for path in headers(folder))
    data = measure(found, oracle)
    shown = data["differences"] if oracle is not None else data["unknown"]
    for text, reason in shown[: options.limit]:
        print(f"{text}\n    {reason}")
    counts = f"{data['strings']} strings, {data['known']} known; {data['points']} points"
    print(f"{counts}, {len(data['differences'])} differences")
    if options.record and oracle is not None:
        data["packages"] = list(PACKAGES)
        results.save("headers", data, {"ptxas": oracle.release})
    return int(bool(shown))


if __name__ == "__main__":
    sys.exit(main())

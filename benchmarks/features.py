"""Does the ISA table agree with ptxas on special registers, directives, and all other features?

    python -m benchmarks.features [--kind registers] [--name .weak] [--every-version] [--record]

Each special register is read by one instruction, each directive of a function and each feature is the example of its
entry, in every kind of statement that has it. The verdict of tclint is what it requires (:mod:`tclint.ir.needs`); ptxas
compiles the module. Both are asked about every target that ptxas knows, at the first ``.version`` that the table allows
there, one step below it, 9.1 and the newest, or at every one since the target came.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.availability import GRID, NEWEST
from benchmarks.ptxas import OLDEST, Ptxas, before, find, needing_ptxas, without_target
from tclint.ir.frontend import analyse
from tclint.ir.needs import needs
from tclint.isa.directives import directives
from tclint.isa.features import FeatureSpec, features
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.isa.target import RELEASED, Availability, Target, Version, dotted
from tclint.syntax.source import Source

__all__ = ["KINDS", "Sample", "available", "modules", "refusal", "samples"]

KINDS = ("registers", "directives", "features")
_OF_TYPE = {".u64": "%rd1", ".pred": "%p1", ".v4.u32": "{%r1, %r2, %r3, %r4}"}


@dataclass(frozen=True)
class Sample:
    """A special register, a directive or another feature, and a module that has it."""

    kind: str
    """One of :data:`KINDS`."""
    name: str
    text: str
    """The module without its version and target, or all of it if it starts with a ``.version``."""
    available: Availability
    until: Version | None = None
    line: str = ""
    """An instruction that has it, about which ptxas is asked together with others; empty if only a module has it."""

    def module(self, version: Version, target: str) -> str:
        """The module for *version* and *target*."""
        if self.text.startswith(".version"):
            return self.text.replace("9.5", dotted(version)).replace("sm_100", target)
        size = "" if version < (2, 3) or ".address_size" in self.text else ".address_size 64\n"
        return f".version {dotted(version)}\n.target {target}\n{size}{self.text}"

    def versions(self, target: Target, every: bool) -> list[Version]:
        """The versions to ask about under *target*; *every*: all since it came."""
        asked = {*RELEASED} if every else {*GRID}
        first = self.available.version_for(target) if self.available.on(target) else OLDEST
        oldest = max(OLDEST, target.introduced)
        for begin in filter(None, (max(first, oldest), self.until)):
            asked |= {begin, before(begin)}
        return sorted(version for version in asked if oldest <= version <= NEWEST)


def _kernel(before: str = "", head: str = "", body: str = "") -> str:
    return f"{before}\n.visible .entry k()\n{head}\n{{\n{body}\nret;\n}}\n"


def _examples(spec: FeatureSpec) -> Iterator[str]:
    """The text of a module with the example of a feature, for each kind of statement that has it."""
    example = spec.example
    if example.startswith(".version"):
        yield f"{example}\n{_kernel()}"
        return
    if "address-size" in spec.on:
        yield example + _kernel()
        return
    if spec.on & {"variable", "pragma"}:
        yield _kernel(body=example)
    if "head-pragma" in spec.on:
        yield _kernel(head=example)
    in_function = example.startswith((".local", ".reg")) and "module-variable" not in spec.on
    if spec.on - {"variable", "pragma", "head-pragma"} and not in_function:
        yield _kernel(before=example)


def modules(spec: FeatureSpec, version: Version, target: str) -> list[str]:
    """The example of a feature in each kind of statement that has it, for *version* and *target*."""
    return [sample.module(version, target) for sample in _of_feature(spec)]


def _of_feature(spec: FeatureSpec) -> Iterator[Sample]:
    for text in _examples(spec):
        yield Sample("features", spec.name, text, spec.available, spec.until)


def samples() -> Iterator[Sample]:
    """Everything in the table but the instructions."""
    for name, register in SPECIAL_REGISTERS.items():
        declared = ".reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<2>;"
        read = f"mov{register.type} {_OF_TYPE.get(register.type, '%r1')}, {name};"
        # The memory of each CTA is a special register only of kernels that ask for it, so these need a module.
        own = ".minperctamemory 32" if name.startswith("%percta") else ""
        text = _kernel(head=own, body=f"{declared} {read}")
        yield Sample("registers", name, text, register.available, line="" if own else read)
    for directive in directives().values():
        for on in sorted(directive.on):
            text = _kernel(head=directive.example)
            if on == "func":
                text = f".func f() {directive.example} {{ trap; }}\n{_kernel()}"
            yield Sample("directives", directive.name, text, directive.available, directive.until)
    for spec in features():
        yield from _of_feature(spec)


def available(text: str, target: Target, version: Version) -> bool:
    """Whether *target* and *version* have all that the module *text* uses, as tclint sees it."""
    module, _ = analyse(Source(text.encode(), "sample.ptx"))
    return all(need.allows(target, version) for need in needs(module, target))


def refusal(ptxas: Path, text: str, target: str) -> str:
    """Why ptxas rejects a module, as a whole program or as a part of one; empty if it accepts it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "sample.ptx")
        source.write_text(text)
        command: list[str | Path] = [ptxas, "-arch", target, source, "-o", Path(folder, "sample.cubin")]
        for options in ([], ["-c"]):
            run = subprocess.run(
                [*command, *options], check=False, capture_output=True, text=True, timeout=60
            )
            said = run.stdout + run.stderr
            if run.returncode == 0:
                return ""
            if "Unresolved extern" not in said:
                break
    first = next((line for line in said.splitlines() if "error" in line or "fatal" in line), "it crashes")
    return first.partition(": ")[2].strip() or first


# ---------------------------------------------------------------- the report

TITLE = "Availability of everything else"
COMMAND = "python -m benchmarks.features --record"
SLICE = "python -m benchmarks.features --kind directives --name .reqnctapercluster --name .abi_preserve --name .language"
ABOUT = """\
Every special register, directive of functions and other feature of the ISA table, in a module of its own, on every target
that ptxas knows, at the first `.version` that the table allows there, one step below it, 9.1 and the newest: is it
available where ptxas accepts the module?"""


def figure(data: Any) -> str:
    """How many points of the grid agree."""
    points, agreed = (sum(counts[key] for counts in data["kinds"].values()) for key in ("points", "agreed"))
    modules = sum(counts["samples"] for counts in data["kinds"].values())
    return f"{agreed:,} of {points:,} points of {modules} modules agree ({agreed / max(points, 1):.4%})."


def tables(data: Any) -> list[str]:
    """The points of each kind, and what differs."""
    rows = [
        [kind, f"{c['samples']:,}", f"{c['points']:,}", f"{c['agreed']:,}", c["points"] - c["agreed"]]
        for kind, c in data["kinds"].items()
    ]
    lines = results.table(["kind", "modules", "points", "agree", "differ"], rows)
    rows = [[f"`{d['name']}`", d["who"], d["places"]] for d in data["differences"]]
    if rows:
        lines += results.table([f"differences ({len(rows)})", "which side accepts what", "where"], rows)
    return lines


def measure(ptxas: Ptxas, asked: Sequence[Sample], every: bool) -> dict[str, Any]:
    """Ask about *asked*; what :func:`tables` shows."""
    places: dict[tuple[Version, Target], list[Sample]] = defaultdict(list)
    for target in filter(None, map(Target.parse, ptxas.targets)):
        for sample in asked:
            for version in sample.versions(target, every):
                places[version, target].append(sample)

    def answer(place: tuple[Version, Target]) -> list[str]:
        version, target = place[0], str(place[1])
        lines = iter(ptxas.errors([s.line for s in places[place] if s.line], version, target))
        return [
            next(lines) if sample.line else refusal(ptxas.path, sample.module(version, target), target)
            for sample in places[place]
        ]

    with ThreadPoolExecutor(2) as pool:
        refused = chain.from_iterable(pool.map(answer, places))
    points = [(sample, *place) for place, some in places.items() for sample in some]
    kinds: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for sample in asked:
        kinds[sample.kind]["samples"] += 1
    wrong: dict[tuple[str, str], dict[Version, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (sample, version, target), why in zip(points, refused, strict=True):
        verdict = available(sample.module(version, str(target)), target, version)
        agree = verdict == (not why)
        kinds[sample.kind].update(points=1, agreed=agree)
        if not agree:
            who = f"table: yes, ptxas: {without_target(why)}" if verdict else "table: NO, ptxas: accepts"
            wrong[sample.name, who][version].append(str(target))
    differences = [
        {
            "name": name,
            "who": who,
            "places": "; ".join(
                f"{dotted(version)} {' '.join(names)}" for version, names in sorted(at.items())
            ),
        }
        for (name, who), at in sorted(wrong.items())
    ]
    return {"targets": list(ptxas.targets), "kinds": kinds, "differences": differences}


def main() -> None:
    """Run the grid; exit 1 when less than 99.9 % of the points agree."""
    arguments = command_line("benchmarks.features", __doc__)
    arguments.add_argument("--kind", action="append", choices=KINDS, help="only these (repeatable)")
    arguments.add_argument("--name", action="append", default=[], help="only what is called so (repeatable)")
    arguments.add_argument("--every-version", action="store_true", help="ask at every .version")
    arguments.add_argument("--record", action="store_true", help="keep the result for docs/results.md")
    options = arguments.parse_args()
    with needing_ptxas():
        ptxas = find()
        print(f"ptxas {ptxas.release}, {len(ptxas.targets)} targets")
    asked = [
        sample
        for sample in samples()
        if (not options.kind or sample.kind in options.kind)
        and (not options.name or sample.name in options.name)
    ]
    data = measure(ptxas, asked, options.every_version)
    print(figure(data), "", *tables(data), sep="\n")
    if options.record:
        results.save("features", data, {"ptxas": ptxas.release})
    kinds = data["kinds"].values()
    sys.exit(sum(c["agreed"] for c in kinds) < 0.999 * sum(c["points"] for c in kinds))


if __name__ == "__main__":
    main()

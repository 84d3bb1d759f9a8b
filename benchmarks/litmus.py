"""Does happens-before agree with litmus tests of the PTX memory model (PTX ISA 8)?

    python -m benchmarks.litmus PATH

PATH is a checkout of Dat3M (https://github.com/hernanponcedeleon/Dat3M), with the tests in ``litmus/PTX`` and the
verdicts of their authors in ``PTXv7_5-expected.csv``. Each thread of a test becomes a warp. Translated are the tests
that consist of weak loads and stores and of CTA barriers of one CTA, and whose condition is about one load and the value
that another thread stores once. tclint takes a load for an acquire only where it polls, so all others are left out, and
so are tests that their authors call a deadlock, of which every condition holds.

An answer contradicts a test if it is ``Unordered`` although the test shows that the two are ordered, or ``Ordered``
without assumptions although they are not. Exit status 1 if one does.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tclint.analyses.happens_before import HappensBefore, Ordered, Ordering, Unordered
from tclint.analyses.model import KernelModel
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source

__all__ = ["Litmus", "answer", "contradicts", "main", "parse"]

_WARP = 32
_THREAD = re.compile(r"P(\d+)@cta (\d+),\s*gpu (\d+)")
_CONDITION = re.compile(r"(~?exists|forall)\s*\(\s*P(\d+):(\w+)\s*==\s*(\d+)\s*\)\s*$")
_DEADLOCK = re.compile(r"deadlock|-hang", re.IGNORECASE)
_STATEMENTS = {
    re.compile(r"st\.weak (\w+), (\d+)"): "@%lane st.shared.u32 [{0}], {1};",
    re.compile(r"ld\.weak (\w+), (\w+)"): "@%lane ld.shared.u32 %r{thread}, [{1}];",
    re.compile(r"bar\.cta\.(sync|arrive) (\d+)"): "bar.{0} {1}, {every};",
    re.compile(r"bar\.cta\.(sync|arrive) (\d+), \d+, (\d+)"): "bar.{0} {1}, {count};",
}


class Litmus(NamedTuple):
    """A test that could be translated."""

    ptx: str
    ordered: bool
    """Whether the test shows that *then* is ordered after *first*."""
    first: str
    """The labels of the two accesses, a load and a store."""
    then: str


def parse(text: str, holds: bool) -> Litmus | None:
    """The test in *text*, whose condition *holds* or not; None if it is not translated."""
    rows = [line.strip() for line in text.split("}", 1)[-1].splitlines() if line.strip().endswith(";")]
    condition = _CONDITION.search(text.strip())
    threads = _THREAD.findall(rows[0]) if rows else []
    if (
        condition is None
        or not threads
        or len({place[1:] for place in threads}) > 1
        or _DEADLOCK.search(text)
    ):
        return None
    quantifier, reader, register, value = condition.groups()
    columns = [[cell.strip() for cell in row.rstrip(";").split("|")] for row in rows[1:]]
    programs = [[row[t] for row in columns if row[t]] for t in range(len(threads))]
    reads = [i for i, s in enumerate(programs[int(reader)]) if s.startswith(f"ld.weak {register},")]
    if len(reads) != 1:
        return None
    variable = programs[int(reader)][reads[0]].split()[-1]
    stores = [
        (t, i)
        for t, p in enumerate(programs)
        for i, s in enumerate(p)
        if s.startswith(f"st.weak {variable},")
    ]
    if len(stores) != 1 or stores[0][0] == int(reader) or value not in ("0", "1"):
        return None
    (t, i) = stores[0]
    # A load that always reads 1 is ordered after the store; one that never does is ordered before it.
    after = (quantifier == "forall") is (value == "1")
    ordered = holds if quantifier != "exists" else not holds
    ptx, accesses = _translated(programs), (f"S{t}_{i}", f"S{reader}_{reads[0]}")
    return None if ptx is None else Litmus(ptx, ordered, *(accesses if after else accesses[::-1]))


def _translated(programs: Sequence[Sequence[str]]) -> str | None:
    variables = sorted({m[1] for p in programs for s in p if (m := re.match(r"st\.weak (\w+)", s))})
    bodies = []
    for thread, program in enumerate(programs):
        lines = [_statement(s, thread, len(programs)) for s in program]
        if None in lines:
            return None
        body = "\n".join(f"S{thread}_{i}: {line}" for i, line in enumerate(lines))
        bodies.append(
            f"setp.ne.u32 %role, %warp, {thread};\n@%role bra T{thread};\n{body}\nbra.uni end;\nT{thread}:"
        )
    declared = "\n".join(f".shared .align 4 .b32 {v};" for v in variables)
    return (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry litmus()\n"
        f".reqntid {_WARP * len(programs)}\n{{\n.reg .pred %lane, %role;\n.reg .b32 %t, %l, %warp, %r<9>;\n{declared}\n"
        f"mov.u32 %t, %tid.x;\nand.b32 %l, %t, 31;\nsetp.eq.u32 %lane, %l, 0;\nshr.u32 %warp, %t, 5;\n"
        + "\n".join(bodies)
        + "\nend: ret;\n}\n"
    )


def _statement(statement: str, thread: int, threads: int) -> str | None:
    for pattern, ptx in _STATEMENTS.items():
        if match := pattern.fullmatch(statement):
            count = _WARP * int(match[3]) if pattern.groups == 3 else 0
            return ptx.format(*match.groups(), thread=thread, every=_WARP * threads, count=count)
    return None


def answer(litmus: Litmus) -> Ordering:
    """What tclint answers about the load and the store."""
    module, problems = analyse(Source.from_bytes(litmus.ptx.encode(), "litmus.ptx"))
    assert not problems, problems
    model = KernelModel(module.functions[0], module)
    labels = {name: site for site, name in module.functions[0].labels.items()}
    return model.fact(HappensBefore).order([labels[litmus.first]], labels[litmus.then])


def contradicts(litmus: Litmus, found: Ordering) -> bool:
    """Whether the answer is wrong by the verdict on the test."""
    if litmus.ordered:
        return isinstance(found, Unordered)
    return isinstance(found, Ordered) and not found.assumptions


def _tests(folder: Path) -> Iterator[tuple[str, Litmus | None]]:
    expected = next(folder.rglob("PTXv7_5-expected.csv"))
    with expected.open(newline="") as rows:
        for name, verdict in csv.reader(rows):
            path = folder / name
            if path.is_file():
                yield name, parse(path.read_text(), verdict.strip() == "1")


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    kinds, wrong, total = Counter[str](), 0, 0
    for name, litmus in _tests(Path(arguments[0])):
        total += 1
        if litmus is None:
            continue
        found = answer(litmus)
        kinds[f"{type(found).__name__}, {'ordered' if litmus.ordered else 'not ordered'} by the test"] += 1
        if contradicts(litmus, found):
            wrong += 1
            print(f"{name}: {found}")
    print(f"{sum(kinds.values())} of {total} tests translated, {wrong} contradicted")
    for kind, count in sorted(kinds.items()):
        print(f"{count:5} {kind}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

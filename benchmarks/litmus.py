"""Does happens-before agree with litmus tests of the PTX memory model (PTX ISA 8)?

    python -m benchmarks.litmus PATH

PATH is a checkout of Dat3M (https://github.com/hernanponcedeleon/Dat3M), with the tests in ``litmus/PTX`` and the
verdicts of their authors in ``PTXv7_5-expected.csv``. Each thread of a test becomes a warp, in the CTA that the test
names, and all variables are in global memory. Translated are the tests

- of loads, stores, ``red``, fences and CTA barriers, with branches between them, on one GPU and without proxies;
- whose condition is about one load, the *data*, and the value that another thread stores once. It may require of other
  loads, the *flags*, the value that another thread stores once. Each of those becomes a loop that polls until it has
  that value, which excludes exactly the executions that the condition excludes.

Not translated are conditions about several loads that may miss a store (store buffering, independent reads) or about a
variable with several stores (coherence), which no order of two events answers; about final values of memory, and about
values that atomics compute; accesses through other proxies and to aliases, of which half of the tests consist; several
GPUs; and tests that their authors call a deadlock, of which every condition holds.

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

from tclint.analyses.happens_before import HappensBefore, Ordered, Ordering, OrderScope, Unordered
from tclint.analyses.model import KernelModel
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source

__all__ = ["Litmus", "answer", "contradicts", "main", "parse"]

_WARP = 32
_THREAD = re.compile(r"P(\d+)\s*@\s*cta (\d+),\s*gpu (\d+)")
_CONDITION = re.compile(r"(~exists|exists|forall)\s*\((.*)\)\s*$", re.DOTALL)
_LITERAL = re.compile(r"P?(\d+):\s*(\w+)\s*(==|!=|=)\s*(\d+)")
_DEADLOCK = re.compile(r"deadlock|-hang", re.IGNORECASE)
_LOAD = re.compile(r"ld\.\S+ (\w+), (\w+)")
_CONSTANT = re.compile(r"ld (\w+), (\d+)")
_STORE = re.compile(r"st\.\S+ (\w+), (\d+)")
_INITIAL = re.compile(r"\b(\w+)\s*=\s*(\d+)\s*;")
_STATEMENTS = {
    _STORE: "@%lane {qualified}.global.u32 [{0}], {1};",
    _LOAD: "{qualified}.global.u32 %{0}, [{1}];",
    re.compile(r"red\.\S+\.add (\w+), (\d+)"): "@%lane {qualified}.global.add.u32 [{0}], {1};",
    re.compile(r"fence\.(?:sc|acq_rel)\.(?:cta|cluster|gpu|sys)"): "{qualified};",
    re.compile(r"bar\.cta\.(sync|arrive) (\d+)"): "bar.{0} {1}, {every};",
    re.compile(r"bar\.cta\.(sync|arrive) (\d+), \d+, (\d+)"): "bar.{0} {1}, {count};",
    re.compile(r"(\w+):"): "{label}{0}:",
    re.compile(r"goto (\w+)"): "bra {label}{0};",
    re.compile(r"b(eq|ne) (\w+), (\d+), (\w+)"): "setp.{0}.u32 %taken, %{1}, {2};\n@%taken bra {label}{3};",
}


class Litmus(NamedTuple):
    """A test that could be translated."""

    ptx: str
    ordered: bool
    """Whether the test shows that *then* is ordered after *first*."""
    first: str
    """The labels of the two accesses, a load and a store."""
    then: str
    scope: OrderScope


class _Literal(NamedTuple):
    thread: int
    register: str
    equal: bool
    value: str


class _Access(NamedTuple):
    thread: int
    at: int
    variable: str


_Programs = Sequence[Sequence[str]]


def parse(text: str, holds: bool) -> Litmus | None:
    """The test in *text*, whose condition *holds* or not; None if it is not translated."""
    body = text.split("}", 1)[-1]
    rows = [line.strip() for line in body.splitlines() if line.strip().endswith(";")]
    threads = _THREAD.findall(rows[0]) if rows else []
    condition = _CONDITION.search(body.strip())
    initial = {value for _, value in _INITIAL.findall(text.split("}", 1)[0])}
    if not threads or condition is None or _DEADLOCK.search(text) or initial - {"0"}:
        return None
    if len({gpu for _, _, gpu in threads}) > 1:
        return None
    columns = [[cell.strip() for cell in row.rstrip(";").split("|")] for row in rows[1:]]
    programs = [_without_constants([row[t] for row in columns if row[t]]) for t in range(len(threads))]
    literals = _literals(*condition.groups())
    question = _question(literals, programs) if literals else None
    if question is None:
        return None
    load, store, after, flags = question
    ctas = [int(cta) for _, cta, _ in threads]
    ptx = _translated(programs, ctas, flags)
    if ptx is None:
        return None
    labels = [f"S{access.thread}_{access.at}" for access in ((store, load) if after else (load, store))]
    scope = OrderScope.WARPS if ctas[load.thread] == ctas[store.thread] else OrderScope.CTAS
    # The literals describe an execution in which the two are not in order.
    return Litmus(ptx, holds is not (condition[1] == "exists"), labels[0], labels[1], scope)


def _without_constants(program: Sequence[str]) -> list[str]:
    """*program* with the values of registers that hold constants in their place."""
    constants, found = dict[str, str](), list[str]()
    for statement in program:
        if match := _CONSTANT.fullmatch(statement):
            constants[match[1]] = match[2]
        else:
            opcode, *operands = statement.split(" ", 1)
            found.append(
                " ".join(
                    (opcode, *(re.sub(r"\w+", lambda m: constants.get(m[0], m[0]), o) for o in operands))
                )
                if opcode.startswith("st.")
                else statement
            )
    return found


def _literals(quantifier: str, condition: str) -> list[_Literal]:
    """The conjunction that is asked to exist, or whose negation is to hold always; empty if it is not one."""
    separator = r"\\/" if quantifier == "forall" else r"/\\"
    found = []
    for part in re.split(separator, condition):
        match = _LITERAL.fullmatch(part.strip())
        if match is None:
            return []
        thread, register, operator, value = match.groups()
        found.append(_Literal(int(thread), register, (operator != "!=") is (quantifier != "forall"), value))
    return found


def _question(
    literals: Sequence[_Literal], programs: _Programs
) -> tuple[_Access, _Access, bool, dict[tuple[int, int], str]] | None:
    """The load and store of a test, whether the load is to come after the store, and the flags with their values."""
    accesses = list[tuple[_Access, _Access, bool]]()
    for literal in literals:
        load = _only_load(literal, programs)
        missed = literal.equal is (literal.value == "0")
        store = _only_store(load, programs, literal.value, missed) if load is not None else None
        if load is None or store is None or literal.value not in ("0", _stored(store, programs)):
            return None
        accesses.append((load, store, missed))
    missing = [access for access in accesses if access[2]]
    # If no load misses its store, one reads a store that is to come after it (load buffering). Which one it is, a weak
    # access shows, since the others may synchronise.
    weak = [access for access in accesses if _weak(access[0], programs) or _weak(access[1], programs)]
    candidates = missing or (weak if len(accesses) > 1 else accesses)
    if len(missing) > 1 or not candidates:
        return None
    data = candidates[0]
    if _only_store(data[0], programs, "", True) is None:
        return None
    flags = {
        (load.thread, load.at): _stored(store, programs) for load, store, _ in accesses if load != data[0]
    }
    return *data, flags


def _weak(access: _Access, programs: _Programs) -> bool:
    return ".weak " in programs[access.thread][access.at]


def _stored(store: _Access, programs: _Programs) -> str:
    return programs[store.thread][store.at].split()[-1]


def _only_load(literal: _Literal, programs: _Programs) -> _Access | None:
    found = [
        _Access(literal.thread, at, match[2])
        for at, statement in enumerate(programs[literal.thread])
        if (match := _LOAD.fullmatch(statement)) and match[1] == literal.register
    ]
    return found[0] if len(found) == 1 else None


def _only_store(load: _Access, programs: _Programs, value: str, missed: bool) -> _Access | None:
    """The store by another thread of the *value* that *load* reads, if nothing else writes that.

    If the value is *missed*, the only write to its variable, of another value than 0.
    """
    writes = [
        (t, at, statement)
        for t, program in enumerate(programs)
        for at, statement in enumerate(program)
        if statement.startswith(("st", "red", "atom")) and re.search(rf"\b{load.variable}\b", statement)
    ]
    stores = [(t, at, match[2]) for t, at, statement in writes if (match := _STORE.fullmatch(statement))]
    wanted = stores if missed else [store for store in stores if store[2] == value]
    if len(wanted) != 1 or len(stores) < len(writes) or (missed and wanted[0][2] == "0"):
        return None
    thread, at, _ = wanted[0]
    return None if thread == load.thread else _Access(thread, at, load.variable)


def _translated(programs: _Programs, ctas: Sequence[int], flags: dict[tuple[int, int], str]) -> str | None:
    variables = sorted(
        {
            m[i]
            for p in programs
            for s in p
            for pattern, i in ((_STORE, 1), (_LOAD, 2))
            if (m := pattern.fullmatch(s))
        }
    )
    registers = sorted({m[1] for p in programs for s in p if (m := _LOAD.fullmatch(s))})
    bodies = []
    for thread, program in enumerate(programs):
        lines = [_statement(s, thread, ctas.count(ctas[thread])) for s in program]
        if None in lines:
            return None
        body = "\n".join(
            f"S{thread}_{i}: {line}" + _poll(program[i], thread, i, flags) for i, line in enumerate(lines)
        )
        warp = ctas[:thread].count(ctas[thread])
        bodies.append(
            f"setp.ne.u32 %role, %warp, {warp};\n@%role bra T{thread};\n"
            f"setp.ne.u32 %role, %cta, {sorted(set(ctas)).index(ctas[thread])};\n@%role bra T{thread};\n"
            f"{body}\nbra.uni end;\nT{thread}:"
        )
    declared = "\n".join(f".global .align 4 .b32 {v};" for v in variables)
    clustered = f".reqnctapercluster {len(set(ctas))}\n" if len(set(ctas)) > 1 else ""
    return (
        f".version 8.0\n.target sm_90\n.address_size 64\n{declared}\n.visible .entry litmus()\n"
        f".reqntid {_WARP * max(map(ctas.count, ctas))}\n{clustered}{{\n.reg .pred %lane, %role, %taken;\n"
        f".reg .b32 %t, %l, %warp, %cta{''.join(f', %{r}' for r in registers)};\n"
        "mov.u32 %t, %tid.x;\nand.b32 %l, %t, 31;\nsetp.eq.u32 %lane, %l, 0;\nshr.u32 %warp, %t, 5;\n"
        "mov.u32 %cta, %cluster_ctarank;\n" + "\n".join(bodies) + "\nend: ret;\n}\n"
    )


def _statement(statement: str, thread: int, threads: int) -> str | None:
    for pattern, ptx in _STATEMENTS.items():
        if match := pattern.fullmatch(statement):
            count = _WARP * int(match[3]) if pattern.groups == 3 and "count" in ptx else 0
            qualified = statement.split()[0].removesuffix(".add")
            return ptx.format(
                *match.groups(), every=_WARP * threads, count=count, label=f"B{thread}_", qualified=qualified
            )
    return None


def _poll(statement: str, thread: int, at: int, flags: dict[tuple[int, int], str]) -> str:
    """The rest of a loop around the load of a flag, which ends when it has the value in question; empty for others."""
    match = _LOAD.fullmatch(statement)
    if match is None or (thread, at) not in flags:
        return ""
    return f"\nsetp.ne.u32 %taken, %{match[1]}, {flags[thread, at]};\n@%taken bra S{thread}_{at};"


def answer(litmus: Litmus) -> Ordering:
    """What tclint answers about the load and the store."""
    module, problems = analyse(Source.from_bytes(litmus.ptx.encode(), "litmus.ptx"))
    assert not problems, problems
    model = KernelModel(module.functions[0], module)
    labels = {name: site for site, name in module.functions[0].labels.items()}
    return model.fact(HappensBefore).order([labels[litmus.first]], labels[litmus.then], scope=litmus.scope)


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

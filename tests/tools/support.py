"""PTX made for a test: modules, kernels, and what the stages of the analysis make of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tclint.analyses.model import KernelModel
from tclint.checks import Check, Hit, KernelCheck, kernel_checks
from tclint.findings.finding import FileReport, Finding
from tclint.findings.selection import Request, Selected
from tclint.ir import Function, Module, build
from tclint.ir.frontend import analyse
from tclint.linting import check as driver
from tclint.linting.check import check_source
from tclint.syntax import parse
from tclint.syntax.source import Source

REGISTERS = """\
    .reg .pred %p<64>;
    .reg .b16 %h<32>;
    .reg .b32 %r<200>;
    .reg .f32 %f<64>;
    .reg .b64 %rd<64>;
"""
HEADER = ".version 8.6\n.target sm_100a\n.address_size 64\n"
HOPPER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
OWN_WORD = """ld.param.u64 %rd0, [pointer];
    ld.param.u32 %r9, [number];
    cvta.to.global.u64 %rd1, %rd0;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 2;
    add.u32 %r3, %r1, %r2;"""
"""The parameters of a :func:`kernel`, and in ``%r3`` the address of the word of ``tile`` that is of the thread ``%r0``."""
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;"


def kernel(
    body: str,
    name: str = "k",
    *,
    parameters: str = ".param .u64 pointer, .param .u32 number",
    directives: str = ".reqntid 128",
    registers: str = REGISTERS,
) -> str:
    """A kernel with registers of every kind and *body*, one statement a line."""
    return f".visible .entry {name}({parameters})\n{directives}\n{{\n{registers}{body}\n}}\n"


def loop(body: str, bound: str = "%r9", first: str = "0", step: str = "1") -> str:
    """A loop that executes *body* for each counter from *first* up to *bound*, at least once."""
    return f"mov.b32 %r10, {first};\ntop:\n{body}\nadd.s32 %r10, %r10, {step};\nsetp.lt.s32 %p5, %r10, {bound};\n@%p5 bra top;"


def before_the_wait(use: str, name: str = "k") -> str:
    """A kernel with a wgmma, committed, and *use* before it is waited for."""
    return kernel(
        f"""
    setp.ne.b32 %p0, 0, 0; ld.param.u64 %rd0, [pointer]; mov.b64 %rd1, %rd0;
    wgmma.fence.sync.aligned;
    {WGMMA}
    wgmma.commit_group.sync.aligned;
{use}
    wgmma.wait_group.sync.aligned 0;
    ret;
    """,
        name,
    )


def module(*functions: str, header: str = HEADER) -> str:
    """A module of *functions*."""
    return header + "\n".join(functions)


def built(text: str) -> Module:
    """The IR of a whole module."""
    data = text.encode()
    return build(parse(data), data)


def function(text: str, name: str = "k") -> Function:
    """One function of a whole module."""
    found = built(text).function(name)
    assert found is not None
    return found


def model(body: str, *, before: str = "", **options: str) -> KernelModel:
    """The model of a kernel with *body*, which must be sound PTX; *before* are declarations of the module."""
    made = built(module(before, kernel(body, **options)))
    (only,) = (f for f in made.functions if not f.declared_only)
    assert not only.damaged, body
    assert not only.errors, only.errors
    return KernelModel(only, made)


def analysed(text: str) -> KernelModel:
    """The model of the first kernel of a module, as ``tclint check`` has it."""
    made, problems = analyse(Source.from_bytes(text.encode(), "k.ptx"))
    assert not problems, problems
    return KernelModel(made.functions[0], made)


def last_kernel(*functions: str, header: str = HOPPER) -> KernelModel:
    """The model of the last of *functions*, as it is written: what it calls is not inlined."""
    made = built(module(*functions, header=header))
    return KernelModel(made.functions[-1], made)


def register(of: Function, name: str) -> int:
    """The number of the register called *name*; it must be the only one."""
    (number,) = [i for i, r in enumerate(of.registers) if r.name == name]
    return number


def label(of: Function, name: str) -> int:
    """The instruction that follows the label *name*."""
    (at,) = [at for at, found in of.labels.items() if found == name]
    return at


def value(of: KernelModel, name: str, at: str = "end") -> int:
    """What the register *name* holds at the label *at*."""
    return of.values.before(register(of.function, name), label(of.function, at))


def lint(text: str | bytes, path: str = "t.ptx", selected: Selected | None = None) -> FileReport:
    """What tclint says about a whole file."""
    return check_source(
        Source.from_bytes(text.encode() if isinstance(text, str) else text, path),
        Request(selected or Selected()),
    )


def found(report: FileReport, *, low: bool = True) -> list[tuple[str, int]]:
    """``(rule, line)`` of every finding in the order of the text, those of low confidence only if *low*."""
    assert report.source is not None
    return [
        (f.rule.id, report.source.position(f.span.start).line)
        for f in report.findings
        if low or f.confidence.label != "low"
    ]


def by_rule(report: FileReport, rule: str) -> list[Finding]:
    """The findings of one rule."""
    return [f for f in report.findings if f.rule.id == rule]


def line_of(text: str, words: str) -> int:
    """The line on which *words* stand for the first time."""
    return text[: text.index(words)].count("\n") + 1


def agrees(text: str, *families: str) -> None:
    """The findings of *families* that are shown by default are exactly where ``// want RULE`` says so."""
    report = lint(text)
    assert report.status == "analysed", report.problems
    wanted = [
        (rule, n)
        for n, line in enumerate(text.splitlines(), 1)
        for rule in line.partition("// want ")[2].split()
    ]
    shown = [(rule, n) for rule, n in found(report, low=False) if rule.startswith(families)]
    assert sorted(shown) == sorted(wanted), [f"{f.rule.id}: {f.message}" for f in report.findings]


def checked_kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by the name of each function whose checks run from now on."""
    asked: list[str] = []
    hits = driver._kernel_hits

    def noted(model: KernelModel, *rest: object) -> object:
        asked.append(model.function.name)
        return hits(model, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(driver, "_kernel_hits", noted)
    return asked


@contextmanager
def recording() -> Iterator[dict[KernelCheck, set[type]]]:
    """The analyses that each check over kernels asks for meanwhile, from code in ``tclint.checks``.

    Left out are those that analyses ask for, and the classes of ``tclint.checks`` that a model keeps for a check.
    """
    asked: dict[KernelCheck, set[type]] = {check.run: set() for check in kernel_checks()}
    running: set[type] = set()

    def noted(method: str) -> Callable[[KernelModel, type], object]:
        real = getattr(KernelModel, method)

        def ask(model: KernelModel, kind: type, *given: object) -> object:
            caller = sys._getframe(1).f_globals["__name__"]
            if caller.startswith("tclint.checks") and not kind.__module__.startswith("tclint.checks"):
                running.add(kind)
            return real(model, kind, *given)

        return ask

    def recorded(check: Check[KernelCheck]) -> Check[KernelCheck]:
        def run(model: KernelModel) -> Iterator[Hit]:
            running.clear()
            yield from check.run(model)
            asked[check.run] |= running

        return replace(check, run=run)

    with pytest.MonkeyPatch.context() as patch:
        for method in ("solution", "fact"):
            patch.setattr(KernelModel, method, noted(method))
        patch.setattr(driver, "kernel_checks", lambda *how: map(recorded, kernel_checks(*how)))
        yield asked

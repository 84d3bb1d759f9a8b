"""From a source to its report: parse, build, check, and turn hits into findings."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from tclint.causes import without_consequences
from tclint.checks import Hit, kernel_checks, module_checks
from tclint.config import Config
from tclint.dataflow.engine import LimitExceeded
from tclint.finding import Edit, FileReport, Finding, Fingerprints, Problem, SourceLocation, Span, Step
from tclint.fixes import resolve
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Location, Module, Variable
from tclint.ir.rebuild import Builds, same_program
from tclint.isa.target import Target, Version
from tclint.model import KernelModel
from tclint.rules import Rule, all_rules
from tclint.select import ignored, wants_entry
from tclint.source import Source
from tclint.suppress import apply

__all__ = ["Past", "analyse", "as_findings", "check_source", "source_location"]

_RECENT = 3
"""States of a function that stay known, so that what is undone or typed again costs no analysis."""
_Hits = tuple[tuple[tuple[Rule, Hit], ...], tuple[str, ...]]
_NAME = re.compile(r"[%$]?[A-Za-z_$%][\w$]*(?:\.\w+)*|\d[\w.]*|[^\s\w]")


def analyse(source: Source, past: Past | None = None) -> tuple[Module, list[Problem]]:
    """The module of *source*, and what is wrong with it as a whole."""
    from tclint.syntax import problems

    tree, module = (past or Past()).builds.build(source.data)
    found = [Problem(source.position(p.start_byte).line, p.message) for p in problems(tree)]
    if not found and not module.functions and module.version is None and not module.variables:
        found.append(Problem(1, "no PTX in it: neither .version nor a function"))
        return module, found
    if module.version is None:
        found.append(Problem(1, ".version is missing"))
    if not module.targets:
        found.append(Problem(1, ".target is missing"))
    for name in module.targets:
        if Target.parse(name) is None and name not in _TARGET_OPTIONS:
            found.append(Problem(source.position(module.target_span[0]).line, f"unknown target {name}"))
    found += [Problem(source.position(t.start).line, t.message) for t in module.troubles]
    for function in module.functions:
        for trouble in function.troubles:
            line = source.position(function.start + trouble.start).line
            found.append(Problem(line, f"{function.name}: {trouble.message}"))
    return module, found


_TARGET_OPTIONS = frozenset(("texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"))


@dataclass(frozen=True)
class _Facts:
    """What the checks of a function may ask of its module, and of the run."""

    config: Config
    version: Version | None
    targets: tuple[str, ...]
    address_size: int
    variables: dict[str, Variable]
    bodies: tuple[str, ...]
    """The functions that have one."""

    @classmethod
    def of(cls, module: Module, config: Config) -> _Facts:
        bodies = tuple(f.name for f in module.functions if f.instructions)
        return cls(config, module.version, module.targets, module.address_size, module.variables, bodies)


@dataclass(frozen=True, eq=False)
class _Checked:
    """What the checks said of one function, and all that they could look at."""

    function: Function
    facts: _Facts
    called: tuple[Function, ...]
    """Where it calls anything: all functions of the module."""
    hits: tuple[tuple[Rule, Hit], ...]
    limits: tuple[str, ...]
    """Which analyses gave up."""

    def holds(self, function: Function, facts: _Facts, called: tuple[Function, ...]) -> bool:
        """Whether they would say the same of *function*, but for where it stands."""
        return (
            not any(map(_placed, self.hits))
            and self.facts == facts
            and same_program(self.function, function)
            and len(self.called) == len(called)
            and all(map(same_program, self.called, called))
        )


def _placed(hit: tuple[Rule, Hit]) -> bool:
    """Whether it says where in the text something is, and not only at which instruction: an edit would move that."""
    _, found = hit
    return found.span is not None or any(isinstance(c, Edit) for fix in found.fixes for c in fix.changes)


class Past:
    """What earlier runs over a text found out, for the run over its next state; one that has none starts afresh.

    A run that an exception ended leaves it as good as it was.
    """

    def __init__(self) -> None:
        self.builds = Builds()
        self._checked: dict[tuple[str, int], list[_Checked]] = {}
        """By name, and which of that name: the last states that were checked, the latest first."""

    def checked(
        self, module: Module, function: Function, facts: _Facts, check: Callable[[Function], _Hits]
    ) -> _Checked:
        """What the checks say of *function*, its calls inlined; they are run (*check*) if that is not known."""
        same = [f for f in module.functions if f.name == function.name]
        key = function.name, next(n for n, f in enumerate(same) if f.start == function.start)
        calls = any(use.match is not None and use.match.form.flow == "call" for use in function.uses)
        called = tuple(module.functions) if calls else ()
        recent = self._checked.setdefault(key, [])
        known = next((past for past in recent if past.holds(function, facts, called)), None)
        if known is None:
            known = _Checked(function, facts, called, *check(function))
        else:
            recent.remove(known)
        self._checked[key] = [known, *recent[: _RECENT - 1]]
        return known

    def forget_all_but(self, module: Module) -> None:
        """Forget functions that *module* lacks. One that is only broken for the moment should stay known."""
        names = {function.name for function in module.functions}
        self._checked = {key: known for key, known in self._checked.items() if key[0] in names}


def check_source(
    source: Source,
    config: Config | None = None,
    clock: Callable[[str, float], None] | None = None,
    past: Past | None = None,
) -> FileReport:
    """Lint one source.

    The cyclic garbage collector rests meanwhile: what is made for a source is
    dropped as a whole, and looking for cycles in it costs a tenth of the time.

    *clock* is told the seconds that each stage took. A function whose
    analysis exceeds its limit, or that a syntax error lies in, is reported as
    a problem; the others are still checked.

    *past* knows earlier states of the same text, and learns this one. What it
    says is what a run without it says.
    """
    with _without_collector():
        return _check(source, config or Config(), clock, past or Past())


@contextmanager
def _without_collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check(
    source: Source, config: Config, clock: Callable[[str, float], None] | None, past: Past
) -> FileReport:
    rules = all_rules()
    on = frozenset(rules) if config.rules is None else config.rules
    began = perf_counter()

    def tick(stage: str) -> None:
        nonlocal began
        now = perf_counter()
        if clock is not None:
            clock(stage, now - began)
        began = now

    module, problems = analyse(source, past)
    tick("parse and build")
    found: list[tuple[Rule, Function | None, Hit]] = []
    if module.functions or module.version is not None:
        for names, module_check in module_checks():
            if on.isdisjoint(names):
                continue
            for rule, hit in module_check(module, config):
                about = hit.function
                if rule in on and (about is None or _wanted(about, config)):
                    found.append((rules[rule], about, hit))
            tick("check " + names[0])
    callees = inlinable(module)
    facts = _Facts.of(module, config)

    def check(function: Function) -> _Hits:
        return _kernel_hits(KernelModel(function, module, config), on, tick)

    for function in module.functions:
        if not function.instructions or function.declared_only or not _wanted(function, config):
            continue
        if any(
            t.kind in ("undefined-guard", "undefined-label", "duplicate-label") for t in function.troubles
        ):
            continue
        whole = inline(function, callees)
        checked = past.checked(module, whole, facts, check)
        line = source.position(function.start).line if checked.limits else 0
        problems += [Problem(line, limit) for limit in checked.limits]
        off = ignored(config, source.path, function.name) if checked.hits else ()
        told = without_consequences(checked.hits, config.confidence, off)
        found += [(rule, whole, hit) for rule, hit in told]
    if not problems:
        past.forget_all_but(module)
    findings = apply(source, module, as_findings(source, module, found), config, complete=not problems)
    tick("findings")
    status = "analysed" if not problems else "partial" if module.functions else "failed"
    return FileReport(
        path=source.path,
        member=source.member,
        status=status,  # type: ignore[arg-type]
        problems=tuple(problems),
        findings=findings,
        source=source,
        entries=tuple(function.name for function in module.functions if function.instructions),
    )


def _kernel_hits(model: KernelModel, on: frozenset[str], tick: Callable[[str], None]) -> _Hits:
    """What the checks of the rules that are *on* say of a function, and which of them gave up."""
    rules = all_rules()
    hits: list[tuple[Rule, Hit]] = []
    limits: list[str] = []
    roots = {use.opcode.partition(".")[0] for use in model.function.uses}
    for names, kernel_check, needs in kernel_checks():
        if (needs and needs not in roots) or on.isdisjoint(names):
            continue
        try:
            for rule, hit in kernel_check(model):
                if rule in on:
                    hits.append((rules[rule], hit))
        except LimitExceeded as error:
            limits.append(str(error))
        tick("check " + names[0])
    model.release()
    return tuple(hits), tuple(limits)


def _wanted(function: Function, config: Config) -> bool:
    """Whether findings about a function can be trusted, and are asked for."""
    return not function.damaged and wants_entry(config, function.name)


def as_findings(
    source: Source,
    module: Module,
    found: list[tuple[Rule, Function | None, Hit]],
    prints: Fingerprints | None = None,
) -> tuple[Finding, ...]:
    """The findings that *found*, hits of rules in functions of *module*, stand for; by place, then by rule."""
    if not found:
        return ()
    from tclint.vocabulary import source_help

    prints = prints or Fingerprints()
    made = []
    for rule, function, hit in sorted(found, key=lambda item: (_span(item[2], item[1]).start, item[0].id)):
        owner = hit.function or function
        span = _span(hit, owner)
        steps = []
        for mark in hit.steps:
            where = mark.function or owner
            assert where is not None
            ins = where.instructions[mark.site]
            steps.append(
                Step(
                    Span(where.start + ins.start, where.start + ins.end),
                    mark.message,
                    where.name,
                    mark.role,
                    source_location(module, where.location(mark.site)),
                )
            )
        location = None
        if owner is not None and hit.site >= 0:
            location = source_location(module, owner.location(hit.site))
        parts = _parts(source, [span, *(s.span for s in steps)])
        entry = owner.name if owner is not None else None
        made.append(
            Finding(
                rule=rule,
                severity=hit.severity or rule.severity,
                confidence=hit.confidence or rule.confidence,
                span=span,
                message=hit.message,
                entry=entry,
                steps=tuple(steps),
                count=hit.count,
                help=hit.help,
                help_source=source_help(rule.id, entry, source.data),
                fingerprint=prints.make(rule.id, entry, parts),
                source_location=location,
                fixes=resolve(source, owner, hit.fixes),
            )
        )
    return tuple(made)


def _span(hit: Hit, function: Function | None) -> Span:
    if hit.span is not None:
        return Span(*hit.span)
    owner = hit.function or function
    assert owner is not None, "a hit without a span needs a function"
    instruction = owner.instructions[hit.site]
    return Span(owner.start + instruction.start, owner.start + instruction.end)


def _parts(source: Source, spans: list[Span]) -> Iterator[str]:
    """The tokens of *spans*, names numbered by first occurrence: what a recompile leaves alone."""
    numbers: dict[str, str] = {}
    for span in spans:
        text = source.data[span.start : span.end].decode("latin-1")
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
        tokens = _NAME.findall(text)
        seen_opcode = False
        for token in tokens:
            if token[0] in "%$" or (seen_opcode and (token[0].isalpha() or token[0] == "_")):
                token = numbers.setdefault(token, f"n{len(numbers)}")
            elif "." in token or token in ("ret", "exit", "bra", "trap"):
                seen_opcode = True
            yield token


def source_location(module: Module, location: Location | None) -> SourceLocation | None:
    """The place that ``.loc`` gives, with the calls through which it was inlined; None where there is none."""
    if location is None:
        return None
    chain = [location]
    while chain[-1].inlined_at is not None:
        chain.append(chain[-1].inlined_at)
    chain = [place for place in chain if place.line > 0]  # line 0: the compiler made it
    if not chain:
        return None
    places = [SourceLocation(module.files.get(l.file, f"file {l.file}"), l.line, l.column) for l in chain]
    first, *rest = places
    return SourceLocation(first.file, first.line, first.column, tuple(rest))

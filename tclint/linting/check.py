"""From a source to its report: parse, build, check, and turn hits into findings."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from tclint._named_tuple import NamedTuple
from tclint._pattern import pattern
from tclint.analyses.budget import Budget, Spent
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, kernel_checks, module_checks
from tclint.dataflow import Unanswered
from tclint.dataflow.solver import MAX_VISITS_PER_BLOCK, LimitExceeded
from tclint.findings.edits import resolve
from tclint.findings.figures import RULES as FIGURES
from tclint.findings.finding import BlockedWait, FileReport, Finding, Fingerprints, OpenQuestion, Pair, Step
from tclint.findings.moved import Former, former
from tclint.findings.places import source_location
from tclint.findings.rules import all_rules
from tclint.findings.scales import Severity
from tclint.findings.selection import Request, Selected
from tclint.findings.spans import Span, span
from tclint.ir.frontend import analyse
from tclint.ir.inline import inlinable, inline
from tclint.ir.nodes import Function, Module
from tclint.isa.newer import beyond_table, may_synchronise
from tclint.linting.cache import CheckResult, Facts, IncrementalCache
from tclint.linting.iterations import in_order
from tclint.linting.subsumption import without_subsumed
from tclint.linting.suppress import apply
from tclint.syntax.source import Problem, Source

if TYPE_CHECKING:
    from tclint.findings.verdicts import Executed
    from tclint.linting.verdicts import Judge, Shown

__all__ = ["Observer", "as_findings", "check_source"]


class Observer(Protocol):
    """What observes the functions of a module besides the checks."""

    def __call__(self, module: Module, function: Function, hits: Sequence[Hit]) -> Iterable[Hit]:
        """The hits that it adds to *hits*; *function* has the callees inlined that these refer to."""
        ...

    def executed(self, function: Function) -> Executed | None:
        """The executions of a function that bound its verdicts; None if there are none."""
        ...


_SHARE_OF_MODULE = 0.2
"""What the checks of the module take for an instruction, compared with those of its function."""
_NAME = pattern(r"[%$]?[A-Za-z_$%][\w$]*(?:\.\w+)*|\d[\w.]*|[^\s\w]")


def check_source(
    source: Source,
    request: Request | None = None,
    *,
    clock: Callable[[str, float], None] | None = None,
    past: IncrementalCache | None = None,
    observer: Observer | None = None,
) -> FileReport:
    """The report of linting one source: the findings of the rules that are selected, by default all.

    The cyclic garbage collector is disabled meanwhile: the objects of a source are dropped as a whole, and searching them
    for cycles would take a tenth of the time.

    *clock* is called with each stage and the seconds that it took. A function whose analysis exceeds its limit, or that
    contains a syntax error, is reported as a problem; the other functions are still checked.

    *past* has the results for earlier states of the same text, and is updated. With it, the report is the same as without,
    unless a deadline is set (:attr:`IncrementalCache.until`).

    *observer* adds hits to those of each function; *past* does not keep them.

    Raises :class:`~tclint.recording.RecordingError` if the recorded launch is one of no kernel of the source.
    """
    with _without_collector():
        return _Run(
            source, request or Request(), clock, past or IncrementalCache(edited=False), observer
        ).report()


@contextmanager
def _without_collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Ahead(NamedTuple):
    """What was made before its turn, maybe in another process: the result for a function, or the hits of the module."""

    result: CheckResult | None
    hits: tuple[tuple[Function | None, Hit], ...]
    shown: Shown | None
    """What the judge noted about the function, if there is one."""
    stages: list[tuple[str, float]]


class _Run:
    """The run over one source."""

    def __init__(
        self,
        source: Source,
        request: Request,
        clock: Callable[[str, float], None] | None,
        past: IncrementalCache,
        observer: Observer | None,
    ) -> None:
        rules = request.selected.rules
        if request.judged is None and rules is not None and not rules.isdisjoint(FIGURES):
            # They are off where there are no figures, so that no comment about them counts as unused.
            request = replace(request, selected=replace(request.selected, rules=rules.difference(FIGURES)))
        self.source, self.request, self.past, self.observer = source, request, past, observer
        self.on = request.selected.on
        self.clock = clock
        self.ahead: dict[int | None, _Ahead] = {}
        """What was made before its turn, by the start of the function; None: of the module."""
        self.tick = _ticking(clock, past.pause)
        past.stale.clear()
        self.module, self.problems = analyse(source, past.builds)
        self.tick("parse and build")
        if request.recorded is not None:
            kernel = self.module.function(request.recorded.kernel)
            sizes = [p.size for p in kernel.parameters] if kernel is not None else None
            request.recorded.require_kernel(source.path, sizes)
        self.found: list[tuple[Function | None, Hit]] = []
        self.facts = Facts.of(self.module, self.on, request)
        self.open_questions: list[OpenQuestion] = []
        self.judge: Judge | None = None
        if request.assume is not None:
            from tclint.linting import verdicts  # a run without verdicts does not pay for the imports

            limited = Budget(past.pause)
            self.judge = verdicts.Judge(self.module, request, past.pause, limited)
            if request.bounded:
                past.pause = limited

    def report(self) -> FileReport:
        """Check each function, and make the findings."""
        module, past, selected = self.module, self.past, self.request.selected
        callees = inlinable(module)
        functions = [function for function in module.functions if selected.wants(function.name)]
        wholes = {f.start: inline(f, callees) for f in functions if not _unchecked(f)}
        self._begin(list(wholes.values()))
        for function in functions:
            if why := _unchecked(function):
                if self.judge is not None:
                    self.judge.leave(function, why)
                continue
            try:
                self._check(wholes.pop(function.start))
            except Spent as spent:
                assert self.judge is not None
                self.judge.leave(function, f"the budget was spent: {spent}")
        if not self.problems:
            past.forget_all_but(module)
        made = as_findings(self.source, module, self.found, strict=selected.strict)
        findings = apply(self.source, module, made, selected, complete=not (self.problems or past.owing))
        self.tick("findings")
        status = "analysed" if not self.problems else "partial" if module.functions else "failed"
        return FileReport(
            path=self.source.path,
            member=self.source.member,
            status=status,  # type: ignore[arg-type]
            problems=tuple(self.problems),
            findings=findings,
            source=self.source,
            entries=tuple(function.name for function in module.functions if function.instructions),
            open_questions=tuple(self.open_questions),
            verdicts=tuple(self.judge.verdicts) if self.judge is not None else (),
            assembled=self.request.judged.made if self.request.judged is not None else None,
        )

    def _begin(self, wholes: Sequence[Function]) -> None:
        """Find the hits of the module and, if the run has several processes, check functions ahead of their turn."""
        module, request = self.module, self.request
        self._share(wholes)
        known = self.ahead.pop(None, None)
        self.found += known.hits if known is not None else _module_hits(module, request, self.tick)
        if known is not None:
            self._count(known)
        if request.judged is not None:
            from tclint.linting import budget  # a run without a gate does not pay for the imports

            self.found += budget.hits(self.source, module, request.judged, request.selected)
            self.problems += budget.problems(module, request.judged)
        if self.judge is not None:
            self.judge.found = tuple(self.found)

    def _share(self, wholes: Sequence[Function]) -> None:
        """Have several processes do what no earlier run has done, if this run has them."""
        past, share, module = self.past, self.past.share, self.module
        # What is tried in search of facts is limited for the module as a whole.
        if share is None or len(wholes) < 2 or self.request.what_if is not None:
            return
        work: list[Function | None] = [f for f in wholes if not past.knows(module, f, self.facts)]
        kernel_checks(
            [use for f in work if f is not None for use in f.uses], self.on
        )  # imported once, and not in each
        sizes = [len(whole.instructions) for whole in work if whole is not None]
        work.append(None)
        sizes.append(int(sum(sizes) * _SHARE_OF_MODULE))
        made = share(sizes, lambda number: self._in_advance(work[number]), [*module.functions, *wholes])
        self.ahead = {
            None if whole is None else whole.start: made[n] for n, whole in enumerate(work) if n in made
        }
        if made:
            self.tick = _ticking(self.clock, past.pause)  # what was made has its own stages

    def _in_advance(self, whole: Function | None) -> _Ahead:
        stages: list[tuple[str, float]] = []
        tick = _ticking(lambda stage, seconds: stages.append((stage, seconds)), self.past.pause)
        if whole is None:
            return _Ahead(None, tuple(_module_hits(self.module, self.request, tick)), None, stages)
        result = self._made(whole, tick)
        return _Ahead(result, (), self.judge.shown(whole) if self.judge is not None else None, stages)

    def _count(self, ahead: _Ahead) -> None:
        clock = self.clock or (lambda stage, seconds: None)
        for stage, seconds in ahead.stages:
            clock(stage, seconds)

    def _check(self, whole: Function) -> None:
        """Add the hits, problems, open questions and verdicts of a function with its callees inlined."""
        source, past, judge = self.source, self.past, self.judge
        all_hits, limits, unanswered = past.checked(self.module, whole, self.facts, self._result)
        self.open_questions += _located(source, whole, unanswered)
        line = source.position(whole.start).line if limits else 0
        self.problems += [Problem(line, limit) for limit in limits]
        hits = self._remaining(whole, all_hits)
        self.found += [(whole, hit) for hit in hits]
        if judge is not None:
            executed = self.observer.executed(whole) if self.observer is not None else None
            judge.add(whole, hits, all_hits, changed=past.owing, executed=executed)
            self.tick("verdicts")

    def _result(self, function: Function) -> CheckResult:
        """The result of the checks of a function, made now or ahead."""
        ahead = self.ahead.pop(function.start, None)
        if ahead is None:
            return self._made(function, self.tick)
        self._count(ahead)
        if self.judge is not None and ahead.shown is not None:
            self.judge.keep(function, ahead.shown)
        assert ahead.result is not None  # it is of a function
        return ahead.result

    def _made(self, function: Function, tick: Callable[[str], None]) -> CheckResult:
        """The result of the checks of a function, whatever an earlier run found."""
        request = self.request
        launch = request.recorded
        if launch is not None and launch.kernel != function.name:
            launch = None
        model = KernelModel(function, self.module, request.toolkit, self.past.pause, recorded=launch)
        model.on, model.dependent = self.on, request.dependent
        model.by_letter = request.selected.strict
        return _result(model, self.on, tick, self.judge)

    def _remaining(self, whole: Function, all_hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits that are no consequence of others, with the fixes that are proved, and those of the observer."""
        selected = self.request.selected
        off = selected.ignored(self.source.path, whole.name) if all_hits else ()
        hits = tuple(without_subsumed(all_hits, selected.min_confidence, off, selected.strict))
        if any(hit.provided or any(fix.proves for fix in hit.fixes) for hit in hits):
            from tclint.linting import proofs  # no run without rules that are off by default needs it

            hits = tuple(proofs.proved_hits(self.source, self.module, whole, hits, self.past.pause))
            self.tick("proofs of edits")
        if self.observer is not None:
            added = self.observer(self.module, whole, hits)
            hits = (*hits, *(hit for hit in added if hit.subject in self.on))
            self.tick("execute")
        return hits


def _ticking(clock: Callable[[str, float], None] | None, pause: Callable[[], None]) -> Callable[[str], None]:
    """A function to call at the end of each stage, which reports the seconds since the previous one to *clock*."""
    began = perf_counter()

    def tick(stage: str) -> None:
        nonlocal began
        now = perf_counter()
        if clock is not None:
            clock(stage, now - began)
        began = now
        pause()

    return tick


def _result(
    model: KernelModel, on: frozenset[str], tick: Callable[[str], None], judge: Judge | None
) -> CheckResult:
    """The result of the checks of a function, whose *model* is released."""
    hits, limits = _kernel_hits(model, on, tick)
    hits = tuple(_described(model, hit) for hit in hits)
    unanswered = dict(model.ledger.unanswered)
    tick("describe findings")
    if judge is not None:
        judge.see(model)  # now, since the checks have replayed it
        tick("verdicts")
    model.release()
    return CheckResult(hits, limits, unanswered)


def _module_hits(
    module: Module, request: Request, tick: Callable[[str], None]
) -> list[tuple[Function | None, Hit]]:
    """The hits of the checks of whole modules, each with the function that it is about, if it is about one."""
    selected, on = request.selected, request.selected.on
    found: list[tuple[Function | None, Hit]] = []
    if module.functions or module.version is not None:
        for module_check in module_checks(
            [use for function in module.functions for use in function.uses], on
        ):
            if on.isdisjoint(module_check.rules):
                continue
            for hit in module_check.run(module, request.toolkit):
                about = hit.function
                if hit.subject in on and (about is None or _wanted(about, selected)):
                    found.append((about, hit))
            tick("check " + module_check.rules[0])
    return found


def _unchecked(function: Function) -> str:
    """Why no check runs on a function; empty if the checks do."""
    if function.damaged:
        return "it contains a syntax error"
    if not function.instructions or function.declared_only:
        return "it has no body"
    if function.flow_errors:
        return "a guard or a label is undefined or ambiguous"
    return ""


def _kernel_hits(
    model: KernelModel, on: frozenset[str], tick: Callable[[str], None]
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The hits of the rules that are *on* in a function, and the messages of the checks that exceeded a limit."""
    hits: list[Hit] = []
    limits: list[str] = []
    for kernel_check in kernel_checks(model.function.uses, on):
        if on.isdisjoint(kernel_check.subjects):
            continue
        try:
            for hit in kernel_check.run(model):
                if hit.subject in on:
                    hits.append(hit)
        except LimitExceeded as error:
            limits.append(str(error))
            model.ledger.drop("fixpoint", -1, f"more than {MAX_VISITS_PER_BLOCK} visits of a block: {error}")
        tick("check " + kernel_check.rules[0])
    if hits and model.reachability.aborted:
        doubt = "some thread aborts the kernel in every launch"
        hits = [hit.doubted(doubt) for hit in hits]
    if hits and (unknown := _unknown_synchronisation(model)):
        doubt = f"what {unknown} does is unknown to tclint"
        hits = [hit.doubted(doubt) for hit in hits]
    return tuple(hits), tuple(limits)


def _unknown_synchronisation(model: KernelModel) -> str:
    """An instruction of the function that the ISA table lacks, its version being newer, and that may synchronise
    something, so that what is missing elsewhere may be there; empty if there is none."""
    if not beyond_table(model.module.version):
        return ""
    opcodes = (use.opcode for use in model.function.uses if use.match is None)
    return next(filter(may_synchronise, opcodes), "")


def _described(model: KernelModel, hit: Hit) -> Hit:
    """*hit* with the threads and the object of each of its steps, as far as the check has not stated them, and with short
    names of parameters.

    Which warps reach an instruction is not known if a value from memory decides which role a warp has.
    """
    from tclint.analyses.objects import ObjectNames  # a run without findings does not pay for the imports

    dispatched = bool(model.reachability.unresolved_dispatchers)

    def described(mark: Mark) -> Mark:
        if mark.function is not None and mark.function is not model.function:
            return mark
        role, object_ = mark.role, mark.object
        if role is None and not dispatched and (threads := model.present(mark.site)):
            role = model.describe_threads(threads)
        if object_ is None:
            with suppress(LimitExceeded):
                object_ = model.fact(ObjectNames).about(mark.site)
        return replace(mark, message=mark.message.replace(*parameters), role=role, object=object_)

    # nvcc and Triton call the parameters of a kernel by its name, which may be mangled and long.
    parameters = f"{model.function.name}_param_", "param_"
    return replace(
        hit,
        message=hit.message.replace(*parameters),
        steps=tuple(in_order(model, hit, map(described, hit.steps))),
        deadlock=tuple(
            replace(party, wait=described(party.wait), arrivals=tuple(map(described, party.arrivals)))
            for party in hit.deadlock
        ),
    )


def _located(source: Source, function: Function, unanswered: Mapping[Unanswered, int]) -> list[OpenQuestion]:
    """The unanswered questions about *function*, each at the line of its instruction or of the function, by line."""
    found = []
    for open_, times in unanswered.items():
        start = function.instructions[open_.site].start if open_.site >= 0 else 0
        line = source.position(function.start + start).line
        found.append(OpenQuestion(function.name, line, open_.question, open_.why, times))
    return sorted(found, key=lambda q: (q.line, q.question, q.why))


def _wanted(function: Function, selected: Selected) -> bool:
    """Whether a function has no syntax errors and is selected."""
    return not function.damaged and selected.wants(function.name)


def as_findings(
    source: Source,
    module: Module,
    found: list[tuple[Function | None, Hit]],
    prints: Fingerprints | None = None,
    *,
    strict: bool = False,
) -> tuple[Finding, ...]:
    """The findings for *found*, hits of rules in functions of *module*, ordered by position and then by rule.

    *strict* is the setting of that name, which raises the severity of what is only against the letter of the ISA.
    """
    prints = prints or Fingerprints()
    ordered = sorted(found, key=lambda item: (_span(item[1], item[0]).start, item[1].rule))
    return tuple(_finding(source, module, function, hit, prints, strict) for function, hit in ordered)


def _finding(
    source: Source, module: Module, function: Function | None, hit: Hit, prints: Fingerprints, strict: bool
) -> Finding:
    from tclint.findings.vocabulary import source_help  # a run without findings does not pay for it

    rule = all_rules()[hit.rule]
    owner = hit.function or function
    span = _span(hit, owner)
    steps = [_step(module, mark, owner) for mark in hit.steps]
    location, severity = None, hit.severity_if(rule, strict)
    if owner is not None and hit.site >= 0:
        location = source_location(module, owner.location(hit.site))
    parts = list(_parts(source, [span, *(s.span for s in steps if not s.aside)]))
    if hit.figure:
        parts.append(hit.figure)
    old = former(rule.id, hit.method)
    entry = owner.name if owner is not None else None
    return Finding(
        rule=rule,
        severity=severity,
        confidence=hit.confidence or rule.confidence,
        span=span,
        message=hit.message,
        entry=entry,
        steps=tuple(steps),
        method=hit.method,
        replayed=hit.replayed,
        confirmation=hit.confirmation,
        deadlock=_parties(module, hit, owner),
        count=hit.count,
        pairs=_pairs(hit, owner),
        doubt=hit.doubt,
        help=hit.help,
        help_source=source_help(rule.id, entry, source.data),
        fingerprint=prints.make(rule.id, entry, parts),
        former=Former(old, prints.make(old, entry, parts)) if old else None,
        source_location=location,
        fixes=resolve(source, owner, hit.fixes, note=severity is Severity.INFO),
    )


def _parties(module: Module, hit: Hit, owner: Function | None) -> tuple[BlockedWait, ...]:
    """The waits of a deadlock, each with the arrivals that would complete it."""
    return tuple(
        BlockedWait(
            _step(module, party.wait, owner),
            tuple(_step(module, mark, owner) for mark in party.arrivals),
        )
        for party in hit.deadlock
    )


def _step(module: Module, mark: Mark, owner: Function | None) -> Step:
    where = mark.function or owner
    assert where is not None
    return Step(
        span(where, mark.site),
        mark.message,
        where.name,
        mark.role or None,
        source_location(module, where.location(mark.site)),
        mark.object,
        mark.aside,
    )


def _pairs(hit: Hit, owner: Function | None) -> tuple[Pair, ...]:
    if owner is None or len(hit.pairs) < 2:
        return ()
    spans = {site: span(owner, site) for site in chain.from_iterable(hit.pairs)}  # most are in several pairs
    return tuple(Pair(spans[first], spans[second]) for first, second in sorted(set(hit.pairs)))


def _span(hit: Hit, function: Function | None) -> Span:
    if hit.span is not None:
        return Span(*hit.span)
    owner = hit.function or function
    assert owner is not None, "a hit without a span needs a function"
    return span(owner, hit.site)


def _parts(source: Source, spans: list[Span]) -> Iterator[str]:
    """The tokens of *spans*, with names numbered by first occurrence: the part of the text that recompiling
    preserves."""
    numbers: dict[str, str] = {}
    for at in spans:
        text = source.data[at.start : at.end].decode("latin-1")
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
        tokens = _NAME.findall(text)
        seen_opcode = False
        for token in tokens:
            if token[0] in "%$" or (seen_opcode and (token[0].isalpha() or token[0] == "_")):
                token = numbers.setdefault(token, f"n{len(numbers)}")
            elif "." in token or token in ("ret", "exit", "bra", "trap"):
                seen_opcode = True
            yield token

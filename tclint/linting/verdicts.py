"""What is known of each class of hazards in a kernel, from the findings, proofs, replays and executions together.

In this order: a class that a finding violates is *violated*; one whose proof a checker has accepted is *proved*; one that
the replays or executions of the run observed to hold is *bounded*; any other is *unknown*, with the first reasons. A finding counts
whether or not a comment, the baseline or a setting that ignores it hides it: it is known to be there. A note, a finding
that a launch shows only under a condition, and one below ``min-confidence`` violate nothing, but their class is not proved
or bounded either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tclint.analyses.budget import Budget
from tclint.analyses.gaps import gaps
from tclint.analyses.model import KernelModel
from tclint.checks import Hit
from tclint.findings.facts import Fact
from tclint.findings.rules import Rule, all_rules
from tclint.findings.scales import Severity
from tclint.findings.selection import Request
from tclint.findings.spans import Span, span
from tclint.findings.verdicts import Assumption, Decided, Executed, HazardClass, Reason, Status, Verdict
from tclint.ir.nodes import Function, Module
from tclint.isa.effects import Resource
from tclint.linting.facts import candidates, under
from tclint.replay.bounds import mbarriers
from tclint.verdicts import PROVABLE
from tclint.verdicts import verdicts as proved
from tclint.verdicts.invalidation import Invalidations
from tclint.verdicts.outcome import merged, ordered
from tclint.verdicts.uses import events

__all__ = ["Judge", "Shown"]

MAX_WORK = 6_000
"""Instructions that are judged in search of facts for one file: those of a kernel, once for each fact that is tried."""
_EVERYTHING = "every assumption"
_OF_LAUNCHES = PROVABLE - {HazardClass.AVAILABILITY}
"""The classes that a proof covers and that a launch may decide."""

_Rules = dict[str, Reason]
"""Rule -> the location of its first hit, and why it leaves a class open; "" if it violates the class."""
_Violations = dict[str, _Rules]
"""Class -> the rules of the hits about it."""

Shown = tuple[tuple[Verdict, ...], dict[HazardClass, frozenset[int]]]
"""What is shown of each class that a kernel uses, and the instructions for which it does."""


class Judge:
    """Makes the verdicts of one run over one module. They are made anew in each run, whatever a cache has of the checks,
    since what the module has elsewhere may decide them."""

    def __init__(
        self,
        module: Module,
        request: Request,
        pause: Callable[[], None],
        budget: Budget,
    ) -> None:
        self._module, self._request, self._pause = module, request, pause
        self._budget = budget
        self._work = 0
        """Instructions that were judged in search of facts."""
        self._assume = request.assume or frozenset[Assumption]()
        self.found: Sequence[tuple[Function | None, Hit]] = ()
        """The hits of the checks of the module, each with the function that it is about, if it is about one."""
        self._seen: dict[int, Shown] = {}
        """The kernels that were checked in this run, by their positions."""
        self.verdicts: list[Verdict] = []
        """Those of the kernels so far."""

    def see(self, model: KernelModel) -> None:
        """Notes what proofs and replays show of each class that the kernel of *model* uses, whatever its findings are."""
        if model.function.entry:
            shown = proved(model, (), self._assume, pause=self._budget)
            if self._request.what_if is not None:
                known = self._decided(model, shown, self._request.what_if)
                shown = tuple(replace(verdict, decided=known.get(verdict.hazard)) for verdict in shown)
            shown = tuple(_bounded(model, verdict, self._assume) for verdict in shown)
            self.keep(model.function, (shown, events(model)))

    def keep(self, function: Function, shown: Shown) -> None:
        """Notes what :meth:`see` has shown of a kernel, maybe in another process."""
        self._seen[function.start] = shown

    def shown(self, function: Function) -> Shown | None:
        """What is noted of a function; None if it is not a kernel."""
        return self._seen.get(function.start)

    def _decided(
        self, model: KernelModel, shown: Sequence[Verdict], what_if: Fact
    ) -> dict[HazardClass, Decided]:
        """What is known of each class that is unknown and that a proof could cover if a fact is true.

        The fact is *what_if*, or the first one of some that proves the class if *what_if* states nothing. None is searched
        for where a prover lists no obligations, since it then lacks more than a number. Where the code of the kernel is not
        understood as a whole, no fact is tried.
        """
        given = what_if != Fact()
        open_ = (v.hazard for v in shown if v.status is Status.UNKNOWN and (given or v.obligations))
        left = set(open_) & _OF_LAUNCHES
        if not left or next(gaps(model), None) is not None:
            return {}
        tried, found = list[str](), dict[HazardClass, Decided]()
        for fact in (what_if,) if given else candidates(model.function, self._assume):
            function = under(model.function, fact)
            if function is None or not left or not (given or self._affords(function)):
                break
            tried.append(str(fact) if given or not fact.assume else _EVERYTHING)
            for verdict in self._proofs(function, self._assume | fact.assume, left):
                needed = replace(fact, assume=fact.assume.intersection(verdict.assumptions))
                found[verdict.hazard] = Decided(str(needed), verdict.assumptions)
            left -= found.keys()
        return found | {hazard: Decided("", tried=tuple(tried)) for hazard in left}

    def _affords(self, function: Function) -> bool:
        """Whether a kernel can be judged once more in search of a fact, which is then counted."""
        self._work += len(function.instructions)
        return self._work <= MAX_WORK

    def _proofs(
        self, function: Function, assume: frozenset[Assumption], classes: Collection[HazardClass]
    ) -> list[Verdict]:
        """The proofs of *classes* for *function*, which states a fact."""
        trial = KernelModel(function, self._module, self._request.toolkit, self._budget)
        found = proved(trial, assume=assume, only=classes)
        trial.release()
        return [verdict for verdict in found if verdict.status is Status.PROVED]

    def add(
        self,
        function: Function,
        reported: Iterable[Hit] = (),
        found: Iterable[Hit] = (),
        *,
        changed: bool = False,
        executed: Executed | None = None,
    ) -> None:
        """Adds the verdicts on *function*, whose calls are inlined, if it is a kernel. *executed* are its executions.

        A class that only a consequence of another defect violates, which is *found* and not *reported*, is violated too.
        If the function has *changed* since it was checked, nothing is known.
        """
        if not function.entry:
            return
        if changed:
            shown = _open(function, "it has changed since it was checked")
        else:
            if function.start not in self._seen:
                model = KernelModel(function, self._module, self._request.toolkit, self._pause)
                self.see(model)
                model.release()
            shown, sites = self._seen[function.start]
            if executed is not None:
                shown = tuple(_by_execution(function, verdict, sites, executed) for verdict in shown)
        self._judge(function, shown, reported, found)

    def _judge(
        self,
        function: Function,
        shown: Sequence[Verdict],
        reported: Iterable[Hit] = (),
        found: Iterable[Hit] = (),
    ) -> None:
        # What a function lacks that the kernel may call, the module lacks.
        about = [
            (owner, hit)
            for owner, hit in self.found
            if owner is None or owner.start == function.start or not owner.entry
        ]
        certain, doubtful = self._violated((*about, *((function, hit) for hit in reported)))
        own = self._violated((function, hit) for hit in found)
        for consequences, known in zip(own, (certain, doubtful), strict=True):
            for hazard, rules in consequences.items():
                known.setdefault(hazard, rules)
        for verdict in () if self._request.selected.strict else shown:
            _settle(verdict, doubtful)
        self.verdicts += _judged(function.name, shown, certain, doubtful)

    def leave(self, function: Function, why: str) -> None:
        """Adds the verdicts on a kernel with a body on which no check runs."""
        if function.entry and not function.declared_only:
            self._judge(function, _open(function, why))

    def _violated(self, hits: Iterable[tuple[Function | None, Hit]]) -> tuple[_Violations, _Violations]:
        """What the hits violate, and what those leave open that violate nothing."""
        rules = all_rules()
        certain: _Violations = {}
        doubtful: _Violations = {}
        for function, hit in hits:
            reason = replace(self._doubt(rules[hit.rule], hit), at=_location(function, hit))
            by_class = doubtful if reason.what else certain
            for hazard in rules[hit.rule].hazards:
                by_class.setdefault(hazard, {}).setdefault(str(hit.rule), reason)
        return certain, doubtful

    def _doubt(self, rule: Rule, hit: Hit) -> Reason:
        """Why a hit does not violate the classes of its rule; "" if it does."""
        if (hit.confidence or rule.confidence) < self._request.selected.min_confidence:
            return Reason(
                None, f"a low-confidence finding of {rule.id} may be right", "check --pedantic shows it"
            )
        if hit.condition:
            return Reason(None, f"{rule.id} reports a fault that occurs if {hit.condition}")
        if hit.severity_if(rule, self._request.selected.strict) is Severity.INFO:
            return Reason(None, f"a note of {rule.id} applies to it")
        return Reason(None, "")


def _bounded(model: KernelModel, verdict: Verdict, assume: frozenset[Assumption]) -> Verdict:
    """*verdict*, bounded if it is open and the replays observed that the class holds; else with their reasons."""
    if verdict.hazard is not HazardClass.MBARRIER or verdict.status is not Status.UNKNOWN:
        return verdict
    ends = Invalidations(model, assume) if model.sites(Resource.MBARRIER_INVAL) else None
    launches, reasons = mbarriers(model, ends.last() if ends is not None else ())
    reasons = (*gaps(model), *reasons)
    if not reasons:
        return replace(
            verdict,
            status=Status.BOUNDED,
            launches=launches,
            reasons=(),
            assumptions=ordered(ends.assumed) if ends is not None else (),
        )
    return replace(verdict, reasons=merged((*reasons, *verdict.reasons)))


def _by_execution(
    function: Function, verdict: Verdict, sites: Mapping[HazardClass, frozenset[int]], executed: Executed
) -> Verdict:
    """*verdict*, bounded if it is open and executions reached all that it is about; else with what they did not reach."""
    if verdict.hazard not in executed.observed or verdict.status is not Status.UNKNOWN:
        return verdict
    needed = {span(function, site) for site in sites.get(verdict.hazard, ())}
    missed = sorted(needed - executed.reached, key=lambda each: each.start)
    if not missed:
        return replace(verdict, status=Status.BOUNDED, launches=executed.launches, reasons=())
    reason = Reason(missed[0], "no launch that was executed reaches it", "a launch file that does")
    return replace(verdict, reasons=merged((*verdict.reasons, reason)))


def _settle(verdict: Verdict, doubtful: _Violations) -> None:
    """Takes out of what is *doubtful* the rules that deny no more than what a proof assumes."""
    doubts = doubtful.get(verdict.hazard.value, {})
    assumed = {assumption.value for assumption in verdict.assumptions}
    if verdict.status is Status.PROVED and all(all_rules()[rule].denies in assumed for rule in doubts):
        doubtful.pop(verdict.hazard.value, None)


def _judged(
    kernel: str, found: Sequence[Verdict], certain: _Violations, doubtful: _Violations
) -> tuple[Verdict, ...]:
    """The verdicts on a kernel in the order of the classes: what is *found*, unless rules violate it, for *certain* or
    *doubtful*."""
    known = {verdict.hazard: verdict for verdict in found}
    made = []
    for each in HazardClass:
        verdict = known.get(each)
        obligations = verdict.obligations if verdict is not None else ()
        if each.value in certain:
            rules = tuple(sorted(certain[each.value]))
            made.append(Verdict(kernel, each, Status.VIOLATED, obligations, rules=rules))
        elif each.value in doubtful:
            reasons = [reason for _, reason in sorted(doubtful[each.value].items())]
            reasons += verdict.reasons if verdict is not None else ()
            made.append(Verdict(kernel, each, Status.UNKNOWN, obligations, reasons=merged(reasons)))
        elif verdict is not None:
            made.append(verdict)
    return tuple(made)


def _location(function: Function | None, hit: Hit) -> Span | None:
    """Where a hit is, in the module; None if it is about the module as a whole."""
    if hit.span is not None:
        return Span(*hit.span)
    owner = hit.function or function
    return None if owner is None or hit.site < 0 else span(owner, hit.site)


def _open(function: Function, why: str) -> tuple[Verdict, ...]:
    """The verdicts on a kernel that was not analysed: it may use every class, and nothing is known."""
    reason = Reason(Span(function.start, function.start + 1), f"not analysed: {why}")
    return tuple(Verdict(function.name, hazard, Status.UNKNOWN, reasons=(reason,)) for hazard in HazardClass)

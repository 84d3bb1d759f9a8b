"""The checks: functions registered under a rule id, one file for each question of a rule family.

A check takes a :class:`~tclint.analyses.model.KernelModel` (or a module and the CUDA toolkit that will compile it) and yields :class:`Hit`
objects, which the :class:`RuleId` of its rule builds; ``linting`` turns them into findings. A check declares the rules
that it decides and the analyses that it uses where it is registered (:func:`check`). A file of this package is imported
when a kernel contains what its checks look at (:mod:`tclint.checks._needs`); those whose names begin with an underscore
are shared by the others, and no check imports another one. Imports ``analyses``, ``replay`` and what they import.

Change this package to add a rule: a function here and its page in ``rules/`` (CONTRIBUTING.md, "Add a rule").
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import KW_ONLY, replace
from functools import cache, lru_cache
from importlib import import_module
from typing import Concatenate, Generic, ParamSpec, TypeVar

from tclint._data import modules
from tclint._dataclass import dataclass
from tclint.analyses.model import KernelModel
from tclint.checks._needs import contents, idle, needed, needs
from tclint.findings.edits import Repair
from tclint.findings.finding import Confirmation
from tclint.findings.front_matter import ID
from tclint.findings.moved import former, subject
from tclint.findings.rules import Rule
from tclint.findings.scales import Confidence, Method, Severity
from tclint.ir.nodes import FormUse, Function, Module
from tclint.isa.target import Version

__all__ = [
    "Blocked",
    "Check",
    "Hit",
    "KernelCheck",
    "Mark",
    "ModuleCheck",
    "RuleId",
    "check",
    "grouped",
    "kernel_checks",
    "module_check",
    "module_checks",
    "registered",
]


@dataclass(frozen=True, slots=True)
class Mark:
    """One step of a path: an instruction and what happens there."""

    site: int
    message: str
    function: Function | None = None
    """The function that contains the site, if it is not the one of the hit."""
    role: str | None = None
    """The threads that execute it, in words; if None, those that may reach the instruction; if empty, none are named."""
    object: str | None = None
    """What it operates on, in words; if None, what :mod:`tclint.analyses.objects` knows of the instruction."""
    aside: bool = False
    """Whether it explains the path, and is not one of the events that identify the finding."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """One party of a deadlock: a wait, and the operations that would complete it, with why they are not executed."""

    wait: Mark
    arrivals: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A defect that a check found, in terms of instructions.

    ``site`` is the instruction at fault; a hit about the module itself has ``span`` (absolute byte offsets) instead.
    ``severity``, ``strict`` and ``confidence`` default to those of the rule. ``count`` is the number of operations or uses with the
    same cause, of which the hit shows the first.
    """

    rule: RuleId
    _: KW_ONLY
    message: str
    site: int = -1
    span: tuple[int, int] | None = None
    function: Function | None = None
    steps: tuple[Mark, ...] = ()
    one_path: bool = True
    """Whether each step follows the one before it; those in different CTAs do not."""
    count: int = 1
    pairs: tuple[tuple[int, int], ...] = ()
    """The conflicts with this cause: the operation or access in each, and what conflicts with it. Empty if the hit shows
    them all."""
    help: str = ""
    fixes: tuple[Repair, ...] = ()
    """Edits that remove the defect, the best one first; empty if no edit is certain to do so."""
    severity: Severity | None = None
    strict: Severity | None = None
    """The severity with the setting ``strict``, if it differs from ``severity``."""
    confidence: Confidence | None = None
    about: frozenset[int] = frozenset()
    """The instructions that are wrong, or after which something is missing. A hit of another rule about the same
    instructions may be a consequence of this one (:mod:`tclint.linting.subsumption`)."""
    doubt: str = ""
    """Why the confidence is low, if it is lower than that of the rule."""
    method: Method = Method.STATIC
    """If it is a replay (:mod:`tclint.replay`), another defect of the same kind may be the cause."""
    replayed: bool = False
    """Whether it follows from the code, and a replay shows it too."""
    deadlock: tuple[Blocked, ...] = ()
    """The parties of a deadlock, in the order of the cycle."""
    confirmation: Confirmation | None = None
    """The execution that observed it, if that is how it was found; no check assigns this."""
    provided: Repair | None = None
    """An edit after which the classes that it names must be proved for the hit to be reported; the edit is not offered."""
    condition: str = ""
    """What a launch must do for the defect to occur, in words that follow *if*, as ``message`` states; empty if every launch
    that reaches it does. A class of hazards is then not *violated*."""
    missing_before: bool = False
    """What is missing is missing before ``site``, so hits before ``site`` are not consequences of this one."""
    figure: str = ""
    """What it is about if not its instructions, so that the hits of one kernel have different fingerprints."""

    @property
    def subject(self) -> str:
        """What a selector must denote to apply to it (:mod:`tclint.findings.moved`)."""
        return subject(self.rule, former(self.rule, self.method))

    def unshown(self, strict: Severity | None) -> Hit:
        """The hit as a note, and with severity *strict* if the setting ``strict`` is on: the ISA forbids the code, and
        neither hardware nor machine code has shown it to go wrong. The hit unchanged if *strict* is None."""
        return replace(self, severity=Severity.INFO, strict=strict) if strict is not None else self

    def severity_if(self, rule: Rule, strict: bool) -> Severity:
        """The severity of the finding of *rule* that the hit becomes, with or without the setting *strict*."""
        own = self.strict if strict and self.strict is not None else self.severity
        return own if own is not None else rule.severity_if(strict)

    def doubted(self, why: str) -> Hit:
        """The hit with low confidence and *why* as its doubt; the hit unchanged if *why* is empty."""
        return replace(self, confidence=Confidence.LOW, doubt=why) if why else self


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
P = ParamSpec("P")


def _builder(make: Callable[Concatenate[RuleId, P], Hit]) -> Callable[Concatenate[RuleId, P], Hit]:
    """*make* as a method of its first argument; it keeps the signature, so the fields of :class:`Hit` are checked."""

    def hit(rule: RuleId, /, *args: P.args, **fields: P.kwargs) -> Hit:
        return make(rule, *args, **fields)

    return hit


class RuleId(str):
    """The id of a rule, which builds the hits of that rule. Its page describes the rule (:mod:`tclint.findings.rules`).

    Raises ValueError if the id is not the letters of a family followed by three digits.
    """

    __slots__ = ()

    def __init__(self, id: str) -> None:
        if not ID.fullmatch(id):
            raise ValueError(
                f"{id!r} is not a rule id: expected the letters of a family and three digits, as in WG001"
            )

    hit = _builder(Hit)
    """A hit of this rule; the arguments are the other fields of :class:`Hit`."""


def grouped(found: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """The second elements of the pairs *found*, grouped by the first.

    The key is usually a cause, which a check reports with one hit and a count. Keys and the members of each group keep
    the order of *found*, so the first member is the one shown.
    """
    groups: dict[K, list[T]] = {}
    for key, one in found:
        groups.setdefault(key, []).append(one)
    return groups


KernelCheck = Callable[[KernelModel], Iterable[Hit]]
ModuleCheck = Callable[[Module, Version | None], Iterable[Hit]]
F = TypeVar("F", KernelCheck, ModuleCheck)


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """A check function with what :func:`check` declares about it."""

    rules: tuple[RuleId, ...]
    run: F
    needs: frozenset[str] = frozenset()
    """What a kernel must contain one of; empty if the check runs on any."""
    analyses: tuple[type, ...] = ()
    method: Method = Method.STATIC
    """How the check decides its cases of rules that another check owns."""

    @property
    def subjects(self) -> frozenset[str]:
        """The subjects of all hits that the check can yield. If none of them is checked, the check need not run."""
        return _subjects(self.rules, self.run, self.method)


@cache
def _subjects(rules: tuple[RuleId, ...], run: Callable[..., object], method: Method) -> frozenset[str]:
    """See :attr:`Check.subjects`; asked once for each check and not for each function."""
    return frozenset(
        rule if _owners.get(rule) is run else subject(rule, former(rule, method)) for rule in rules
    )


_kernel: list[Check[KernelCheck]] = []
_module: list[Check[ModuleCheck]] = []
_owners: dict[RuleId, Callable[..., object]] = {}


def check(
    *rules: RuleId,
    also: tuple[RuleId, ...] = (),
    method: Method = Method.STATIC,
    analyses: tuple[type, ...] = (),
) -> Callable[[KernelCheck], KernelCheck]:
    """Register a function that yields the hits of the *rules* that it decides.

    *also* are rules that another check owns and of which this one decides some cases, by the *method*.

    The check does not run on a kernel that contains nothing of what the pages of the *rules* name as ``needs``; those of
    *also* count if there are no *rules*.

    *analyses* are the classes that the check, or a helper in this package, passes to :meth:`KernelModel.solution` and
    :meth:`KernelModel.fact`. Analyses that these use in turn are not declared.

    Raises ValueError if a rule already has a check, or if an analysis is not a class of ``analyses`` or ``replay``.
    """
    for analysis in analyses:
        if not analysis.__module__.startswith(("tclint.analyses.", "tclint.replay")):
            raise ValueError(
                f"{_name(analysis)} is not an analysis: it is outside tclint.analyses and tclint.replay"
            )

    def register(function: KernelCheck) -> KernelCheck:
        _own(rules, function)
        _kernel.append(Check((*rules, *also), function, needs(rules or also), analyses, method))
        return function

    return register


def module_check(*rules: RuleId) -> Callable[[ModuleCheck], ModuleCheck]:
    """Register a function that yields the hits of the *rules* in a whole module, as :func:`check` does for kernels."""

    def register(function: ModuleCheck) -> ModuleCheck:
        _own(rules, function)
        _module.append(Check(rules, function))
        return function

    return register


def _own(rules: tuple[RuleId, ...], function: Callable[..., object]) -> None:
    """Make *function* the owner of the *rules*. Raises ValueError if one of them has an owner."""
    for rule in rules:
        if rule in _owners:
            raise ValueError(
                f"{rule} is already decided by {_name(_owners[rule])}; {_name(function)} can declare it in also="
            )
        _owners[rule] = function


def _name(what: Callable[..., object]) -> str:
    return f"{what.__module__}.{what.__qualname__}"


@cache
def _modules() -> list[str]:
    return modules(__path__)


@cache
def _import(name: str) -> str:
    """The full name of a module of this package, which is imported, so that its checks are registered.

    The order of the checks does not depend on that of the imports.
    """
    module = import_module(f"{__name__}.{name}").__name__
    _kernel.sort(key=lambda check: check.run.__module__)
    _module.sort(key=lambda check: check.run.__module__)
    return module


@cache
def _discover() -> None:
    """Import every module of this package, once. Raises ValueError if ``also`` names a rule that no check owns."""
    for name in _modules():
        _import(name)
    for each in _kernel:
        if unowned := [rule for rule in each.rules if rule not in _owners]:
            raise ValueError(f"{_name(each.run)} declares {unowned[0]} in also=, which no check decides")


@lru_cache(maxsize=64)
def _imported(found: frozenset[str], idle: frozenset[str]) -> frozenset[str]:
    """The modules whose checks may find something in what contains *found*, but for those that are *idle*; these are
    imported."""
    return frozenset(_import(name) for name in _modules() if name not in idle and needed(name, found))


def kernel_checks(
    uses: Iterable[FormUse] | None = None, on: frozenset[str] | None = None
) -> list[Check[KernelCheck]]:
    """Every check over kernels, or only those that may find something in a function with these *uses*.

    Checks of rules that are off by default are left out if none of their rules is *on*; None: all rules are.
    """
    return _chosen(_kernel, uses, on)


def module_checks(
    uses: Iterable[FormUse] | None = None, on: frozenset[str] | None = None
) -> list[Check[ModuleCheck]]:
    """Every check over modules, or only those that may find something in a module with these *uses*; *on* as for
    :func:`kernel_checks`."""
    return _chosen(_module, uses, on)


def _chosen(
    checks: list[Check[F]], uses: Iterable[FormUse] | None, on: frozenset[str] | None
) -> list[Check[F]]:
    """Those of *checks* that these *uses* need, once their modules are imported; all if *uses* is None."""
    if uses is None:
        _discover()
        return list(checks)
    found = contents(uses)
    imported = _imported(found, frozenset() if on is None else idle(on))
    return [
        check
        for check in checks
        if check.run.__module__ in imported and (not check.needs or not check.needs.isdisjoint(found))
    ]


def registered() -> Mapping[RuleId, Callable[..., object]]:
    """Every rule id that a check of this package owns -> that check.

    The rules about suppression comments are not included: :mod:`tclint.linting.suppress` decides those.
    """
    _discover()
    return _owners

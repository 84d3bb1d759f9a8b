"""The checks: functions registered under a rule id, one file for each question of a rule family.

A check takes a :class:`~tclint.analyses.model.KernelModel` (or a module and the configuration) and yields
:class:`Hit` objects, which the :class:`RuleId` of its rule builds; ``linting`` turns them into findings. What a check
decides, and which analyses it asks for, is declared where it is registered (:func:`check`). Files are found by discovery; those whose names begin with
an underscore are shared by the others, and no check imports another one. Imports ``analyses``, ``replay`` and what
they import.

Change this package to add a rule: a function here and its page in ``rules/`` (CONTRIBUTING.md, "Add a rule").
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from importlib import import_module
from typing import Concatenate, Generic, ParamSpec, TypeVar

from tclint._data import modules
from tclint.analyses.model import KernelModel
from tclint.config.config import Config
from tclint.findings.edits import Repair
from tclint.findings.rules import ID
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Function, Module

__all__ = [
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
    """The function that the site is in, when it is another one than the hit's."""
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """What a check found, in terms of instructions.

    ``site`` is the instruction at fault; a hit about the module itself has
    ``span`` (absolute byte offsets) instead. ``severity`` and ``confidence``
    default to those of the rule.
    """

    rule: RuleId
    _: KW_ONLY
    message: str
    site: int = -1
    span: tuple[int, int] | None = None
    function: Function | None = None
    steps: tuple[Mark, ...] = ()
    count: int = 1
    help: str = ""
    fixes: tuple[Repair, ...] = ()
    """Changes of the text that remove it, the best one first; none where no edit is exact."""
    severity: Severity | None = None
    confidence: Confidence | None = None
    about: frozenset[int] = frozenset()
    """The instructions that lack something, or are wrong. A hit of another rule that is about them may follow from
    this one (:mod:`tclint.linting.subsumption`)."""
    doubt: str = ""
    """Why the confidence is low, where the rule alone does not say."""
    replayed: bool = False
    """Seen in a replay (:mod:`tclint.replay`), where any other fault of the same kind may be the cause."""
    before_it: bool = False
    """What is lacking is lacking before ``site``: what comes before that does not follow."""

    def doubted(self, why: str) -> Hit:
        """The same with low confidence, because of *why*; itself if there is nothing to say against it."""
        return replace(self, confidence=Confidence.LOW, doubt=why) if why else self


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
P = ParamSpec("P")


def _builder(make: Callable[Concatenate[RuleId, P], Hit]) -> Callable[Concatenate[RuleId, P], Hit]:
    """*make* as a method of its first argument. Its signature keeps the fields of :class:`Hit`, so they are type-checked."""

    def hit(rule: RuleId, /, *args: P.args, **fields: P.kwargs) -> Hit:
        return make(rule, *args, **fields)

    return hit


class RuleId(str):
    """The id of a rule, which builds its hits. The meaning of the rule is on its page (:mod:`tclint.findings.rules`).

    Raises ValueError if it is not letters of a family and three digits.
    """

    __slots__ = ()

    def __init__(self, id: str) -> None:
        if not ID.fullmatch(id):
            raise ValueError(
                f"{id!r} is not the id of a rule: letters of its family and three digits, as in WG001"
            )

    hit = _builder(Hit)
    """A hit of this rule; the arguments are the other fields of :class:`Hit`."""


def grouped(found: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Group pairs of a key and something *found*. The key is mostly a cause: a check reports each with one hit and a count.

    Keys are in the order in which each was first found, and so are the members of a group: the first one is shown.
    """
    groups: dict[K, list[T]] = {}
    for key, one in found:
        groups.setdefault(key, []).append(one)
    return groups


KernelCheck = Callable[[KernelModel], Iterable[Hit]]
ModuleCheck = Callable[[Module, Config], Iterable[Hit]]
F = TypeVar("F", KernelCheck, ModuleCheck)


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """A function that decides rules, with what :func:`check` declares about it."""

    rules: tuple[RuleId, ...]
    run: F
    needs: str = ""
    analyses: tuple[type, ...] = ()


_kernel: list[Check[KernelCheck]] = []
_module: list[Check[ModuleCheck]] = []
_owners: dict[RuleId, Callable[..., object]] = {}


def check(
    *rules: RuleId, also: tuple[RuleId, ...] = (), needs: str = "", analyses: tuple[type, ...] = ()
) -> Callable[[KernelCheck], KernelCheck]:
    """Register a function that yields the hits of the *rules* that it decides.

    *also* are rules that another check owns, and of which this one decides some cases.

    *needs* is the first word of an opcode without which the check has nothing
    to look at: a kernel that has none does not pay for it.

    *analyses* are the classes that the check, or a helper in this package, passes to :meth:`KernelModel.solution` and
    :meth:`KernelModel.fact`. Analyses that these ask for in turn are not declared.

    Raises ValueError if a rule has a check already, or if an analysis is not a class of ``analyses`` or ``replay``.
    """
    for analysis in analyses:
        if not analysis.__module__.startswith(("tclint.analyses.", "tclint.replay")):
            raise ValueError(
                f"{_name(analysis)} is not an analysis: it is outside tclint.analyses and tclint.replay"
            )

    def register(function: KernelCheck) -> KernelCheck:
        _own(rules, function)
        _kernel.append(Check((*rules, *also), function, needs, analyses))
        return function

    return register


def module_check(*rules: RuleId) -> Callable[[ModuleCheck], ModuleCheck]:
    """Register a function over whole modules, as :func:`check` does over kernels."""

    def register(function: ModuleCheck) -> ModuleCheck:
        _own(rules, function)
        _module.append(Check(rules, function))
        return function

    return register


def _own(rules: tuple[RuleId, ...], function: Callable[..., object]) -> None:
    """Make *function* the check of the *rules*."""
    for rule in rules:
        if rule in _owners:
            raise ValueError(
                f"{rule} is a rule of {_name(_owners[rule])}; {_name(function)} may declare it in also="
            )
        _owners[rule] = function


def _name(what: Callable[..., object]) -> str:
    return f"{what.__module__}.{what.__qualname__}"


@cache
def _discover() -> None:
    for name in modules(__path__):
        import_module(f"{__name__}.{name}")
    for each in _kernel:
        if unowned := [rule for rule in each.rules if rule not in _owners]:
            raise ValueError(f"{_name(each.run)} declares {unowned[0]} in also=, which no check decides")


def kernel_checks() -> Iterator[Check[KernelCheck]]:
    """Every check over kernels."""
    _discover()
    yield from _kernel


def module_checks() -> Iterator[Check[ModuleCheck]]:
    """Every check over modules."""
    _discover()
    yield from _module


def registered() -> Mapping[RuleId, Callable[..., object]]:
    """Every rule id that a check of this package decides, and that check.

    The rules about comments that hide findings are not among them: :mod:`tclint.linting.suppress` decides those.
    """
    _discover()
    return _owners

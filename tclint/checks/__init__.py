"""The checks: functions registered under a rule id, one file for each question of a rule family.

A check takes a :class:`~tclint.analyses.model.KernelModel` (or a module and the configuration) and yields
:class:`Hit` objects; ``linting`` turns them into findings. Files are found by discovery; those whose names begin with
an underscore are shared by the others, and no check imports another one. Imports ``analyses``, ``replay`` and what
they import.

Change this package to add a rule: a function here and its page in ``rules/`` (CONTRIBUTING.md, "Add a rule").
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from importlib import import_module
from typing import Concatenate, ParamSpec, TypeVar

from tclint._data import modules
from tclint.analyses.model import KernelModel
from tclint.config.config import Config
from tclint.findings.edits import Repair
from tclint.findings.rules import ID
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Function, Module

__all__ = ["Hit", "Mark", "check", "grouped", "module_check", "registered"]


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

_kernel: dict[tuple[str, ...], KernelCheck] = {}
_module: dict[tuple[str, ...], ModuleCheck] = {}
_needs: dict[KernelCheck, str] = {}


def check(*rules: str, needs: str = "") -> Callable[[KernelCheck], KernelCheck]:
    """Register a function that yields the hits of the *rules* that it decides.

    *needs* is the first word of an opcode without which the check has nothing
    to look at: a kernel that has none does not pay for it.
    """

    def register(function: KernelCheck) -> KernelCheck:
        _kernel[rules] = function
        _needs[function] = needs
        return function

    return register


def module_check(*rules: str) -> Callable[[ModuleCheck], ModuleCheck]:
    """Register a function over whole modules, as :func:`check` does over kernels."""

    def register(function: ModuleCheck) -> ModuleCheck:
        _module[rules] = function
        return function

    return register


@cache
def _discover() -> None:
    for name in modules(__path__):
        import_module(f"{__name__}.{name}")


def kernel_checks() -> Iterator[tuple[tuple[str, ...], KernelCheck, str]]:
    """``(rules, function, needed opcode word)`` of every check over kernels."""
    _discover()
    for rules, function in _kernel.items():
        yield rules, function, _needs[function]


def module_checks() -> Iterator[tuple[tuple[str, ...], ModuleCheck]]:
    """``(rules, function)`` of every check over modules."""
    _discover()
    yield from _module.items()


def registered() -> Mapping[str, Callable[..., object]]:
    """Every rule id that a check of this package decides, and that check.

    The rules about comments that hide findings are not among them: :mod:`tclint.linting.suppress` decides those.
    """
    _discover()
    by_names: dict[tuple[str, ...], Callable[..., object]] = {**_kernel, **_module}
    return {rule: function for rules, function in by_names.items() for rule in rules}

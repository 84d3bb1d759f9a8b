"""What a function must contain for the checks of a module to find anything: only then is the module imported.

Importing all checks, with the analyses that they use, takes longer than linting a kernel of ordinary size, and most
kernels need few of them: those for Ampere contain neither mbarriers nor bulk copies. The pages of the rules say which
module decides a rule (``checks``) and what a function without findings of the rule lacks (``needs``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial

from tclint.findings.rules import declared
from tclint.ir.nodes import FormUse
from tclint.isa.effects import (
    BARRIERS,
    BULK,
    ENDLESS,
    FABRIC,
    GROUPED,
    NO_ENGINE,
    TCGEN05,
    TENSOR_MEMORY,
    TRANSACTIONS,
    Barrier,
    Engine,
    Fence,
    Query,
    Resource,
)
from tclint.isa.forms import Form
from tclint.values.shared_memory import SharedMemory

__all__ = [
    "CONTENTS",
    "OBSERVES",
    "SHARED",
    "STORES",
    "WRITES",
    "contents",
    "deciding",
    "idle",
    "needed",
    "needs",
]

SHARED = "shared memory"
"""Contained in a function with an instruction that may access shared memory."""
STORES = "store to global memory"
"""Contained in a function with a plain store that may be to global memory."""
WRITES = "write to global memory"
"""Contained in a function with an instruction that may write global memory, strong or not."""
OBSERVES = "strong read"
"""Contained in a function with a strong read of memory outside the CTA, by which it may observe what others have done."""

_BULK = (BULK, ENDLESS, FABRIC, TRANSACTIONS)


def _mbarrier(form: Form) -> bool:
    does = form.effects
    return (
        does.changes_phase
        or does.barrier is Barrier.MBARRIER
        or does.bounds_mbarrier
        or does.query is Query.PENDING_COUNT
    )


def _prefetches(form: Form) -> bool:
    """Whether it is a bulk prefetch, whose completion no thread can await."""
    return form.group == NO_ENGINE and ("coords" in form.roles or bool(form.align))


def _of_engine(engine: Engine, form: Form) -> bool:
    return form.group == engine


CONTENTS: Mapping[str, Callable[[Form], bool]] = {
    "atomic operation": lambda form: form.updates,
    "barrier": lambda form: form.effects.barrier in BARRIERS,
    "bulk copy": lambda form: (
        form.group in _BULK or _prefetches(form) or form.effects.query is Query.CANCELLED
    ),
    "collective instruction": lambda form: form.scope != "thread",
    "cluster barrier": lambda form: form.effects.barrier is Barrier.CLUSTER,
    "clusterlaunchcontrol": lambda form: form.effects.query in (Query.CANCEL, Query.CANCELLED),
    "fabric": lambda form: form.group == FABRIC or form.proxy == "fabric",
    "fence": lambda form: form.effects.fence in (Fence.MEMORY, Fence.PROXY),
    "griddepcontrol": lambda form: form.effects.barrier is Barrier.GRIDS,
    "mapa": lambda form: form.compute == "mapa",
    "mbarrier": _mbarrier,
    "membermask": lambda form: form.effects.exchange is not None or form.effects.barrier is Barrier.WARP,
    "setmaxnreg": lambda form: form.effects.resource is Resource.REGISTERS,
    "sparse mma": lambda form: "metadata" in form.roles,
    "tcgen05": lambda form: (
        form.group in (TCGEN05, *TENSOR_MEMORY)
        or form.effects.manages_tensor_memory
        or form.effects.fence in (Fence.TCGEN05_BEFORE, Fence.TCGEN05_AFTER)
    ),
    "tensormap": lambda form: "tensormap" in form.roles or form.proxy == "tensormap",
    **{engine: partial(_of_engine, engine) for engine in GROUPED if engine not in _BULK},
}
"""What ``needs`` may name, besides :data:`SHARED`, :data:`OBSERVES`, :data:`STORES` and :data:`WRITES`, and which instructions are meant. ``bulk copy``
stands for all asynchronous operations that complete in a bulk group or on an mbarrier, as opposed to ``cp.async``."""


def contents(uses: Iterable[FormUse]) -> frozenset[str]:
    """What instructions contain, in the terms of the pages."""
    matches = [use.match for use in uses if use.match is not None]
    forms = {match.form.place: match.form for match in matches}
    found = {name for name, is_in in CONTENTS.items() if any(map(is_in, forms.values()))}
    if any(map(SharedMemory.touches, matches)):
        found.add(SHARED)
    if any(
        match.strong and match.writes and any(a.outside and not a.writes for a in match.accesses)
        for match in matches
    ):
        found.add(OBSERVES)
    writes = [match for match in matches if any(a.outside and a.writes for a in match.accesses)]
    if writes:
        found.add(WRITES)
    if not all(match.strong for match in writes):
        found.add(STORES)
    return frozenset(found)


def needs(rules: Iterable[str]) -> frozenset[str]:
    """What a function must contain one of for a finding of one of the *rules*; empty if there may be one in any function."""
    stated = declared("needs")
    each = [stated.get(rule, ()) for rule in rules]
    return frozenset().union(*each) if all(each) else frozenset()


@cache
def deciding() -> Mapping[str, tuple[str, ...]]:
    """Module -> the rules whose pages name it."""
    found: dict[str, tuple[str, ...]] = {}
    for rule, modules in declared("checks").items():
        for module in modules:
            found[module] = (*found.get(module, ()), rule)
    return found


@cache
def _needs_of(module: str) -> frozenset[str]:
    return needs(deciding().get(module, ()))


def needed(module: str, found: frozenset[str]) -> bool:
    """Whether the checks of a *module* may find something in what contains *found*."""
    wanted = _needs_of(module)
    return not wanted or not found.isdisjoint(wanted)


def idle(on: Collection[str]) -> frozenset[str]:
    """The modules that decide nothing in a run of the rules that are *on*: theirs are all off by default."""
    off, rules_of = declared("default"), deciding()
    modules = {module for rule in off for module in declared("checks").get(rule, ())}
    return frozenset(m for m in modules if all(rule in off and rule not in on for rule in rules_of[m]))

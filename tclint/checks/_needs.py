"""What a function must contain for the checks of a module to find anything: only then is the module imported.

Importing all checks, with the analyses that they use, takes longer than linting a kernel of ordinary size, and most
kernels need few of them: those for Ampere contain neither mbarriers nor bulk copies. This is the one place that states
what the modules need. A single check of a module may need more (``needs`` of :func:`tclint.checks.check`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tclint.ir.nodes import Use
from tclint.isa.effects import TCGEN05, WGMMA
from tclint.values.shared_memory import SharedMemory

__all__ = ["NEEDS", "OPTIONAL", "SHARED", "contents", "idle", "needed"]

SHARED = "shared memory"
"""Contained in a function with an instruction that may access shared memory."""

_COPIES = (
    "applypriority.async",
    "clusterlaunchcontrol",
    "cp.bulk",
    "fabric",
    "multimem.async",
    "red.async",
    "st.async",
)
"""The asynchronous operations that complete in a bulk group or on an mbarrier, as opposed to ``cp.async``."""
_ASYNC = (*_COPIES, "tcgen05", "wgmma")
_BARRIERS = ("bar", "barrier")

NEEDS: dict[str, tuple[str, ...]] = {
    "async_reads": _ASYNC,
    "barrier_phases": _BARRIERS,
    "barrier_races": (SHARED,),
    "barriers": _BARRIERS,
    "bulk": _COPIES,
    "bulk_loads": _COPIES,
    "bulk_operands": (*_COPIES, "mbarrier", "tcgen05"),
    "bulk_signals": _COPIES,
    "busy_polls": ("mbarrier",),
    "clc": ("clusterlaunchcontrol",),
    "clusters": (*_COPIES, "barrier.cluster", "mapa", "tcgen05"),
    "cp_async": (*_COPIES, "cp.async", "mbarrier", "tcgen05"),
    "cta_group": ("tcgen05",),
    "early_waits": ("griddepcontrol", "tcgen05"),
    "fabric": ("fabric",),
    "grid_control": ("griddepcontrol",),
    "lane_races": (SHARED,),
    "mbarrier": ("mbarrier",),
    "mbarrier_lifetime": ("mbarrier.inval",),
    "mbarrier_objects": ("mbarrier",),
    "mbarrier_order": ("mbarrier",),
    "mbarrier_parity": ("mbarrier",),
    "mbarrier_phases": ("mbarrier",),
    "mbarrier_release": ("mbarrier",),
    "membermasks": ("bar.warp", "elect", "match", "redux", "shfl", "vote"),
    "needless_fences": ("fence", "membar"),
    "needless_waits": ("cp", "tcgen05", "wgmma"),
    "operands": ("mma", "wgmma"),
    "proxies": (*_ASYNC, "fence.tensormap::generic", "tensormap"),
    "refills": _COPIES,
    "relaxed_polls": (".relaxed",),
    "replay": ("mbarrier",),
    "serialised_wgmma": ("wgmma",),
    "setmaxnreg": ("setmaxnreg",),
    "shared_operands": (TCGEN05, WGMMA),
    "shared_races": (SHARED,),
    "tcgen05": ("tcgen05",),
    "tcgen05_fence": ("tcgen05",),
    "tcgen05_issue": (*_COPIES, "tcgen05"),
    "tcgen05_operands": ("tcgen05",),
    "tcgen05_order": ("tcgen05",),
    "tmem_balance": ("tcgen05",),
    "tmem_columns": ("tcgen05",),
    "tmem_in_use": ("tcgen05",),
    "tmem_pairs": ("tcgen05",),
    "tmem_races": ("tcgen05",),
    "tmem_results": ("tcgen05",),
    "tmem_warps": ("tcgen05",),
    "warpgroups": ("setmaxnreg", "wgmma"),
    "wgmma": ("wgmma",),
    "wgmma_operands": ("wgmma",),
    "wgmma_order": ("wgmma",),
}
"""Module -> what a function must contain one of: the first word of an opcode (``cp``), with one of its modifiers
(``cp.bulk``), a modifier of any opcode (``.relaxed``), or :data:`SHARED`. A module that is not listed is always
imported. The order of modifiers is free in PTX, so a second modifier cannot be stated."""

OPTIONAL: dict[str, tuple[str, ...]] = {
    "busy_polls": ("CO007",),
    "early_waits": ("CO006", "CO009"),
    "needless_fences": ("CO003", "CO004", "CO005"),
    "needless_waits": ("CO001", "CO008"),
    "serialised_wgmma": ("CO002",),
}
"""Module -> the rules that it decides, if all of them are off by default: a run without them does not import it."""


def idle(on: Collection[str]) -> frozenset[str]:
    """The modules that decide nothing in a run of the rules that are *on*."""
    return frozenset(module for module, rules in OPTIONAL.items() if not any(rule in on for rule in rules))


def contents(uses: Iterable[Use]) -> frozenset[str]:
    """What instructions contain, in the terms of :data:`NEEDS`."""
    found: set[str] = set()
    for use in uses:
        root, *modifiers = use.opcode.split(".")
        found.add(root)
        for modifier in modifiers:
            found.add(f".{modifier}")
            found.add(f"{root}.{modifier}")
        if use.match is not None and SHARED not in found and SharedMemory.touches(use.match):
            found.add(SHARED)
    return frozenset(found)


def needed(module: str, found: frozenset[str]) -> bool:
    """Whether the checks of a *module* may find something in what contains *found*."""
    needs = NEEDS.get(module)
    return needs is None or not found.isdisjoint(needs)

"""The five families of hazards that tclint is for, and which of them a rule or a planted fault is about."""

from __future__ import annotations

from collections.abc import Collection

from benchmarks.faults import OPERATORS

__all__ = ["FAMILIES", "of_operator", "of_rule"]

_PREFIXES = {
    "pending operations": ("WG", "CA", "BK", "TC", "TM"),
    "cta_group": ("TC006", "TM010", "TM011"),
    "divergent .aligned": ("CV001", "CV002", "CV003", "CV004", "CV005", "CV006", "TC010", "TM007"),
    "architecture and version": ("AV", "TL001", "PX001", "PX002", "PX008"),
    "synchronisation between threads": (
        "MB",
        "SM",
        "PR",
        "CL",
        "CV",
        "MO003",
        "MO004",
        "MO005",
        "MO007",
        "MO008",
        "MO009",
        "MO010",
        "GD",
        "FB",
    ),
}
"""The ids of the rules of each family, or what they begin with; the longest prefix decides."""
_NO_HAZARDS = (
    "TC015",
    "TC016",
    "TC017",
    "TC018",
    "TC019",
    "TC020",
    "TC021",
    "TM002",
    "CA004",
    "CV007",
    "CV009",
)
"""Rules of these prefixes that are about operands and resources."""
FAMILIES = tuple(_PREFIXES)


def of_rule(rule: str) -> str:
    """The family of a rule, or ``other``."""
    if rule in _NO_HAZARDS:
        return "other"
    fits = [
        (len(prefix), family)
        for family, prefixes in _PREFIXES.items()
        for prefix in prefixes
        if rule.startswith(prefix)
    ]
    return max(fits)[1] if fits else "other"


def of_operator(name: str) -> str:
    """The family of most of the rules that may report the fault of an operator, the first of those with equally many."""
    rules: Collection[str] = OPERATORS[name].rules if name in OPERATORS else ()
    families = [family for family in map(of_rule, rules) if family != "other"]
    return max(FAMILIES, key=families.count) if families else "other"

"""What an unknown value depends on, in words that end a sentence: "the parity depends on ..."."""

from __future__ import annotations

from itertools import islice

from tclint.dataflow.kernel import Kernel
from tclint.isa.effects import Exchange
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.values.nodes import (
    CollectiveResult,
    Loaded,
    Node,
    ParameterRead,
    Phi,
    SpecialRead,
    Undefined,
    Unmodelled,
)

__all__ = ["origin"]

_MAX_SUBEXPRESSIONS = 256
"""Subexpressions of a value that are examined for its origin, so that a message costs little."""
_ORIGINS = {
    "load": "memory",
    "collective": "other lanes of the warp",
    "call": "a caller or a callee",
    "unknown": "arithmetic that is not tracked",
    "loop": "a value that a loop changes",
    "phi": "the path that leads there",
    "undefined": "a caller or an uninitialised register",
    "thread": "the thread index",
    "launch": "the launch",
}
"""The kinds of subexpressions that an unknown value may have, the least predictable first."""
_KINDS = {
    Loaded: "load",
    CollectiveResult: "collective",
    Undefined: "undefined",
    ParameterRead: "launch",
}
"""Those of nodes whose class alone decides it."""


def origin(model: Kernel, value: int | None) -> str:
    """What *value* depends on, such as ``memory``; of several such things, the least predictable one."""
    subexpressions = () if value is None else islice(model.values.subexpressions(value), _MAX_SUBEXPRESSIONS)
    found = {_kind(model, model.values.node(v)) for v in subexpressions}
    return next((words for kind, words in _ORIGINS.items() if kind in found), _ORIGINS["unknown"])


def _kind(model: Kernel, node: Node) -> str:
    if type(node) is Unmodelled:
        return _made_by(model, node.site)
    if type(node) is Phi:
        return "loop" if node.block in model.cfg.loops else "phi"
    if type(node) is SpecialRead:
        return "thread" if SPECIAL_REGISTERS[node.name].distinguishes_threads else "launch"
    return _KINDS.get(type(node), "")


def _made_by(model: Kernel, site: int) -> str:
    """The kind of the result of an instruction that has no expression."""
    match = model.instruction(site).match
    if match is not None and match.form.effects.exchange is Exchange.SHUFFLE:
        return "collective"
    if match is not None and match.form.memory:
        return "call" if match.space.startswith(".param") else "load"
    return "unknown"

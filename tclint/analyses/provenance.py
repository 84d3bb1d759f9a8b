"""What a value that is not known depends on, in words that end a sentence."""

from __future__ import annotations

from itertools import islice

from tclint.analyses.model import KernelModel
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.values import Node

__all__ = ["origin"]

_FOLLOWED = 256
"""Expressions that a value is made of, of which more are not looked at."""
_ORIGINS = {
    "load": "memory",
    "collective": "other lanes of the warp",
    "call": "a caller, or a call",
    "unknown": "arithmetic that is not followed",
    "loop": "what a loop changes",
    "phi": "the way that leads there",
    "undefined": "a caller, or a register that is never set",
    "thread": "the thread index",
    "launch": "the launch",
}
"""What there may be among the expressions that a value is made of, that of which least is known first."""


def origin(model: KernelModel, value: int | None) -> str:
    """``memory``: what *value* comes from, and of several such things the one of which least is known."""
    made_of = () if value is None else islice(model.values.made_of(value), _FOLLOWED)
    found = {_kind(model, model.values.node(v)) for v in made_of}
    return next((words for kind, words in _ORIGINS.items() if kind in found), _ORIGINS["unknown"])


def _kind(model: KernelModel, node: Node) -> str:
    kind = str(node[0])
    if kind == "unknown":
        return _made_by(model, node[1])
    if kind == "phi":
        return "loop" if node[1] in model.cfg.loops else kind
    if kind == "special":
        return "thread" if SPECIAL_REGISTERS[node[1]].distinguishes_threads else "launch"
    return "launch" if kind == "parameter" else kind


def _made_by(model: KernelModel, site: int) -> str:
    """What an instruction is whose result has no expression."""
    match = model.instruction(site).match
    if match is not None and match.form.event == "shuffle":
        return "collective"
    if match is not None and match.form.memory:
        return "call" if match.space.startswith(".param") else "load"
    return "unknown"

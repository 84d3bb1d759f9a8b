"""Inlay hints: what a commit leaves in flight, what a wait completes, and which phase a wait is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lsprotocol import types

from tclint.analyses.model import KernelModel
from tclint.analyses.pretty import ValuePrinter
from tclint.dataflow import LimitExceeded
from tclint.findings.spans import Span
from tclint.inspect.in_flight import CHANNELS
from tclint.ir.nodes import Function, Module
from tclint.isa.effects import Barrier
from tclint.lsp.text import DocumentText
from tclint.report.summary import count

__all__ = ["hints"]

_MAX_LINES = 3
"""The lines that a hint names; further operations are counted."""
_MAX_EXPRESSION = 40
"""The length of a parity in words."""


def hints(
    module: Module, text: DocumentText, place: Span, model_of: Callable[[Function], KernelModel]
) -> list[types.InlayHint]:
    """The hints in *place*; none for functions into which calls are inlined, whose sites differ from the text."""
    found: list[types.InlayHint] = []
    for function in module.functions:
        if function.declared_only or function.start >= place.end or function.end <= place.start:
            continue
        begin, end = place.start - function.start, place.end - function.start
        shown = [
            i
            for i, instruction in enumerate(function.instructions)
            if begin <= instruction.start < end
            and (
                instruction.effects.commits is not None
                or instruction.effects.waits is not None
                or instruction.effects.awaits is Barrier.MBARRIER
            )
        ]
        if not shown:
            continue
        model = model_of(function)
        if model.function is function:
            found.extend(_of_function(function, model, shown, text))
    return found


def _of_function(
    function: Function, model: KernelModel, shown: list[int], text: DocumentText
) -> Iterator[types.InlayHint]:
    words = ValuePrinter(model.values)
    for site in shown:
        if model.cfg.block_of[site] not in model.cfg.rank:
            continue
        instruction = function.instructions[site]
        if instruction.effects.awaits is Barrier.MBARRIER:
            label, tooltip = _parity(model, words, site), "The phase that completes the wait (tclint)"
        else:
            label = _groups(model, site, text)
            tooltip = "Operations that may be in flight, on any path (tclint)"
        if label:
            position = text.position(function.start + instruction.end)
            yield types.InlayHint(position, label, padding_left=True, tooltip=tooltip)


def _groups(model: KernelModel, site: int, text: DocumentText) -> str:
    """What a wait completes, and what stays in flight after it or after a commit."""
    group = model.instruction(site).group
    for channel in CHANNELS:
        if group not in channel.groups or not model.begins(group):
            continue
        try:
            analysis, results = model.solution(channel.analysis)
        except LimitExceeded:
            return "operations in flight unknown: the analysis reached no fixpoint"
        before = {at for at, _, _ in channel.render(analysis, results.before(site), model)}
        after = {at for at, _, _ in channel.render(analysis, results.after(site), model)}
        left = f"{count(len(after), 'operation')} in flight" if after else "nothing in flight"
        if model.instruction(site).effects.commits is not None:
            return left
        done = sorted(before - after)
        return f"{_completed(model, done, text)}, {left}" if done else left
    return ""


def _completed(model: KernelModel, done: list[int], text: DocumentText) -> str:
    start = model.function.start
    lines = [str(text.line_of(start + model.instruction(i).start) + 1) for i in done[:_MAX_LINES]]
    more = f" and {len(done) - _MAX_LINES} more" if len(done) > _MAX_LINES else ""
    return f"completes line{'s' * (len(lines) > 1)} {', '.join(lines)}{more}"


def _parity(model: KernelModel, words: ValuePrinter, site: int) -> str:
    """The parity of a wait: a number, or what it is computed from."""
    parity = model.value(site, "parity")
    if parity is None:
        return ""
    known = model.values.constant_of(parity)
    said = str(known) if known is not None else words.text(parity, _MAX_EXPRESSION)
    return f"waits for the phase with parity {said}" if said else ""

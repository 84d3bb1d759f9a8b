"""The words of messages: short names of instructions, sets of values and threads, and what agrees with them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from tclint.analyses.execution import Condition
from tclint.analyses.plausibility import skipped
from tclint.analyses.pretty import ValuePrinter
from tclint.checks import Mark
from tclint.dataflow import Path
from tclint.dataflow.kernel import Kernel
from tclint.ir.nodes import Instruction
from tclint.isa.special_registers import WARP

__all__ = [
    "TWICE",
    "agreeing",
    "avoided",
    "called",
    "copied_from",
    "decided",
    "if_repeated",
    "in_words",
    "only_if",
    "repeats",
    "several_warps",
    "times",
]

TWICE = "the loop runs twice"
"""The condition of a fault that needs a second iteration, in words that follow *if*."""


def repeats(model: Kernel, head: int) -> bool:
    """Whether the loop of *head*, once entered, is certain to have a second iteration: nothing but its latch leaves it."""
    cfg, count = model.cfg, model.values.trip_count(head)
    latches = {edge.source for edge in cfg.back_edges[head]}
    return count is not None and count > 1 and {edge.source for edge in cfg.leaving[head]} == latches


def if_repeated(model: Kernel, path: Path) -> str:
    """The condition of a fault on a path around a loop that need not have a second iteration, in words; else ""."""
    heads = {edge.target for edge in path.edges if edge.source in model.cfg.loops.get(edge.target, ())}
    return "" if all(repeats(model, head) for head in heads) else TWICE


def only_if(condition: str) -> str:
    """A *condition* as the end of a clause of a message; empty if there is none."""
    return f", if {condition}" if condition else ""


def avoided(
    model: Kernel, path: Path, waits: Iterable[int], role: str | None = None, what: str = "the wait"
) -> tuple[Mark, ...]:
    """The steps about the branch by which a *path* of the threads *role* avoids the last of the *waits* that it would have
    executed, of which *what* names one; none if it avoids none."""
    found = skipped(model, path, waits)
    if found is None:
        return ()
    when = f" when {found.condition}" if found.condition else ""
    if found.branch == found.site:
        return (Mark(found.site, f"is not executed{when}", role=role, aside=True),)
    return (
        Mark(found.branch, f"skips {what}{when}", role=role, aside=True),
        Mark(found.site, f"{what} that is skipped", role="", aside=True),
    )


def decided(model: Kernel, predicate: int | None, truth: bool) -> str:
    """The condition that a *predicate* has the value *truth*, as the end of a clause; empty if it cannot be written."""
    if predicate is None or predicate < 0:
        return ""
    values = model.values
    condition = ValuePrinter(values).text(predicate if truth else values.negate(predicate))
    return f" when {condition}" if condition else ""


def several_warps(model: Kernel) -> str:
    """The condition that the CTA has several warps; empty if the kernel states so many threads."""
    return "" if (model.function.threads or 0) > WARP else f"the CTA has more than {WARP} threads"


def copied_from(model: Kernel, site: int) -> tuple[int, int] | None:
    """The file and line of the source of *site*, of which a compiler may have made several copies; None if unknown.

    It is the line that the user has written, into which others were inlined.
    """
    location = model.function.location(site)
    while location is not None and location.inlined_at is not None:
        location = location.inlined_at
    return None if location is None else (location.file, location.line)


def of_warps(model: Kernel, site: int) -> str:
    """The threads at *site* for a step about one of their warps; empty if all threads come there, which says nothing of it."""
    words = model.describe_threads(model.views.context_of(site).threads)
    return "" if words == model.describe_threads(-1) else words


def called(model: Kernel, site: int) -> str:
    """A short name for the instruction at *site*: its opcode without the modifiers that do not change what it does."""
    instruction = model.instruction(site)
    if instruction.match is not None and instruction.match.scope == "warp":
        return instruction.root
    return instruction.full_name


def together(instruction: Instruction) -> str:
    """A short name for what threads execute together: ``bar.sync``, ``mma.sync``, but ``tcgen05.ld``."""
    name = instruction.opcode.partition(".sync")[0]
    return name if "." in name else f"{name}.sync"


def split_at(model: Kernel, condition: Condition) -> Hashable:
    """What is the same for all conditions that are one in the source: a compiler copies loops that it unrolls."""
    location = model.function.location(condition.at)
    return condition if location is None else (location, condition.edge is None)


def in_words(ranges: tuple[range, ...]) -> str:
    """Ranges of allowed values in words: ``16, 32 or a multiple of 64 from 64 to 256``."""
    words = []
    for r in ranges:
        last = r[-1]
        if last == r[0]:  # the length of a range of 64 bits is not representable
            words.append(str(r[0]))
        else:
            words.append(f"{f'a multiple of {r.step} from ' if r.step > 1 else ''}{r[0]} to {last}")
    return ", ".join(words[:-1]) + (" or " if len(words) > 1 else "") + words[-1]


def times(number: int | None) -> str:
    """A number of arrivals in words: ``1 arrival``, ``4 arrivals``."""
    return "1 arrival" if number == 1 else f"{number} arrivals"


def agreeing(threads: str, singular: str, plural: str) -> str:
    """*threads*, as worded by :meth:`Kernel.describe_threads`, followed by the form of the verb that agrees."""
    one = threads.partition(" ")[0] in ("thread", "lane", "warp", "no")
    return f"{threads} {singular if one else plural}"

"""The checks of flags in global memory that threads poll or set with no acquire or release (PTX ISA 8.8, 8.9).

A thread polls a flag in global memory until another CTA, or another GPU, sets it. A relaxed load of the flag orders no
other access: an acquire, or a fence after the load, must precede the reads of the data. Nor does a relaxed write of the
flag: a release, or a fence before it, must follow the writes of the data. A CTA barrier replaces neither, because it
orders the threads of one CTA only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial

from tclint.analyses import role_paths
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._global_memory import global_operands, origins
from tclint.checks._repairs import with_opcode
from tclint.dataflow import Path
from tclint.isa.accesses import Proxy, StateSpace
from tclint.isa.effects import Barrier, Fence, Order
from tclint.isa.forms import Match

MO003 = RuleId("MO003")
MO005 = RuleId("MO005")

_WIDE = frozenset((".gpu", ".sys"))
_NEXT_ITERATION = "the read is in the next iteration of a loop around the poll, and may be of other data"
_PREVIOUS_ITERATION = (
    "the write is in the previous iteration of a loop around the flag, and may be of other data"
)
_NEVER_WRITTEN = "the kernel sets the flag itself, and writes nothing through the pointer that is read"


@check(MO003, analyses=(HappensBefore,))
def polled_without_acquire(model: KernelModel) -> Iterator[Hit]:
    """Report relaxed polls of a flag in global memory after which data is read with no intervening acquire."""
    polls = _Polls(model)
    for poll in polls.relaxed:
        written, others = polls.data(poll)
        found = polls.early_read(poll, written) or polls.early_read(poll, others)
        if found is None:
            continue
        barriers, path = found
        doubt = _NEVER_WRITTEN if path.end in others else ""
        if _iterates(model, path, poll, innermost=False):
            doubt = _NEXT_ITERATION
        opcode = model.instruction(poll).opcode
        yield MO003.hit(
            site=poll,
            message="polls a flag with a relaxed load, and data in global memory is then read without an acquire",
            steps=(
                Mark(poll, "orders no other access after the flag"),
                *(Mark(i, "orders the threads of this CTA only") for i in barriers),
                Mark(path.end, "may read the data from before the flag was set"),
            ),
            help="poll with .acquire of the scope that includes the writing thread, or add fence.acq_rel of that scope "
            "after the loop",
            fixes=with_opcode(
                poll, opcode.replace(".relaxed", ".acquire"), "acquire with the load of the flag"
            ),
            about=frozenset((poll,)),
        ).doubted(doubt)


@check(MO005, analyses=(HappensBefore,))
def signalled_without_release(model: KernelModel) -> Iterator[Hit]:
    """Report relaxed writes of a polled flag that follow writes of the announced data with no intervening release."""
    polls = _Polls(model)
    for signal, polled in polls.relaxed_signals():
        path = polls.unreleased_write(signal, polled)
        if path is None:
            continue
        write, taken = path
        yield MO005.hit(
            site=signal,
            message="sets a flag with a relaxed write, and nothing releases the data that was written before it",
            steps=(
                Mark(write, "writes the data"),
                Mark(signal, "orders no other access before the flag"),
                Mark(polled, "acquires the flag in another CTA, and the data is then read"),
            ),
            help="set the flag with .release of the scope that includes the polling thread, or add fence.acq_rel of that "
            "scope in the thread that sets it, between the CTA barrier and the flag",
            about=frozenset((signal,)),
        ).doubted(_PREVIOUS_ITERATION if _iterates(model, taken, signal) else "")


class _Polls:
    """The loops of a kernel that poll memory, and what follows them."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._origins = cache(partial(origins, model))

    @cached_property
    def relaxed(self) -> list[int]:
        """The relaxed loads of flags in global memory, of a scope wider than the cluster, in the order of the text."""
        cfg = self.model.cfg
        loads = [i for i in self._matching(_is_relaxed_load) if cfg.block_of[i] in cfg.in_cycle]
        spins = self.model.fact(HappensBefore).points.spin_loads if loads else frozenset()
        return sorted(i for i in loads if i in spins and self._is_flag(i))

    def _is_flag(self, poll: int) -> bool:
        """Whether the loop waits for what it loads from one address, and the loaded value decides branches only.

        What some iterations load is not what the loop waits for: a word that ends the wait early announces no data. A
        loop that also acquires waits for the word that it acquires.
        """
        model, cfg = self.model, self.model.cfg
        instruction, block = model.instruction(poll), cfg.block_of[poll]
        header = next(cfg.nest.around(block), -1)
        if header < 0:
            return False
        loop = cfg.loops[header]
        deciding = [model.values.operand(instruction.operands[1], poll)]
        if instruction.guard >= 0:
            deciding.append(model.values.before(instruction.guard, poll))
        varying = {at for value in deciding for kind, at in model.values.varying_at(value) if kind == "block"}
        return (
            varying.isdisjoint(loop)
            and cfg.in_every_iteration(block, header)
            and not any(cfg.block_of[i] in loop for i in self._acquiring_polls)
            and all(model.instruction(i).flow for i, _ in model.transitive_users(poll))
        )

    @cached_property
    def _acquiring_polls(self) -> list[int]:
        """The loads in loops that acquire, and whose result decides a branch."""
        polls = self.model.fact(HappensBefore).points.spin_loads
        return [i for i in self._matching(_acquires) if i in polls]

    @cached_property
    def reads(self) -> frozenset[int]:
        """The weak reads of global memory that the kernel does not declare to be read-only."""
        return frozenset(self._matching(_is_weak_read))

    @cached_property
    def acquires(self) -> frozenset[int]:
        """What may order later reads after a flag, or ends what is known: fences, acquires, calls."""
        model = self.model
        ordered = self._matching(_acquires)
        return frozenset((*ordered, *model.awaits(Barrier.GRIDS), *role_paths.calls(model)))

    def _matching(self, wanted: Callable[[Match], bool]) -> Iterator[int]:
        """The reachable instructions whose match is *wanted*."""
        cfg = self.model.cfg
        for use in self.model.function.uses:
            if use.match is not None and wanted(use.match):
                yield from (i for i in use.sites if cfg.block_of[i] in cfg.rank)

    def early_read(self, poll: int, reads: frozenset[int]) -> tuple[tuple[int, ...], Path] | None:
        """A path with no acquire from *poll*, or from a CTA barrier after it, to one of *reads*.

        With it, the CTA barrier after *poll*, if there is one.
        """
        model = self.model
        if not reads:
            return None
        ends = self.acquires | {poll}
        own = role_paths.follow_first(model, poll, model.views.context_of(poll), reads, ends).witness
        if own is not None:
            passed = own.passed(model.cfg, poll)
            return tuple(i for i in sorted(self._barriers) if i in passed)[:1], own
        for barrier in sorted(self._barriers):
            start = role_paths.follow_first(model, poll, model.views.context_of(poll), (barrier,), ends)
            if start.witness is None:
                continue
            joined = role_paths.follow_first(
                model, barrier, model.views.context_of(barrier), reads, ends
            ).witness
            if joined is not None:
                return (barrier,), joined
        return None

    def relaxed_signals(self) -> Iterator[tuple[int, int]]:
        """The writes that set a flag without releasing anything, each with a poll of the flag that acquires."""
        polls = [(i, self._origins(i, "read")) for i in self._acquiring_polls]
        spins = self.model.fact(HappensBefore).points.spin_loads
        for signal in (i for i in self._strong_writes if i not in spins) if polls else ():
            match = self.model.instruction(signal).match
            if match is None or match.order is not Order.RELAXED:
                continue
            flag = self._origins(signal, "write")
            polled = next((i for i, read in polls if not flag.isdisjoint(read)), None)
            if polled is not None:
                yield signal, polled

    def unreleased_write(self, signal: int, polled: int) -> tuple[int, Path] | None:
        """A weak write of data that is read after *polled*, and a path from it to *signal* with no release."""
        model = self.model
        # Without regard to the conditions of branches first, which costs far less than a search for a path.
        writes = [
            i
            for i in sorted(self._writes.difference(self._strong_writes))
            if not model.instruction(i).event and model.reaches(i, signal, self._releases)
        ]
        read = frozenset[int]().union(
            *(self._origins(i, "read") for i in (self.reads if writes else ()) if model.reaches(polled, i))
        )
        for write in writes:
            if read.isdisjoint(self._origins(write, "write")):
                continue
            path = role_paths.follow_first(
                model, write, model.views.context_of(write), (signal,), self._releases | {write}
            ).witness
            if path is not None:
                return write, path
        return None

    @cached_property
    def _releases(self) -> frozenset[int]:
        """What may order earlier writes before a flag, or ends what is known: fences, releases, calls."""
        model = self.model
        released = self._matching(lambda match: _ordering(match).releases)
        return frozenset((*released, *role_paths.calls(model)))

    def data(self, poll: int) -> tuple[frozenset[int], frozenset[int]]:
        """The reads of what the flag may announce, and those of what the kernel writes through no pointer of theirs.

        If the kernel does not write the flag, all reads are of the first kind. If it does, the flag announces what this
        kernel writes to global memory before that, and nothing if it writes nothing before.
        """
        sets = self._sets(poll)
        if not sets:
            return self.reads, frozenset()
        model = self.model
        published = {i for i in self._writes.difference(sets) if any(model.reaches(i, flag) for flag in sets)}
        if not published:
            return frozenset(), frozenset()
        buffers = [self._origins(i, "write") for i in published]
        if not all(buffers):
            return self.reads, frozenset()
        written = frozenset().union(*buffers)
        others = frozenset(
            i for i in self.reads if (read := self._origins(i, "read")) and read.isdisjoint(written)
        )
        return self.reads - others, others

    def _sets(self, poll: int) -> list[int]:
        """The writes for which *poll* may wait, as far as this kernel writes the flag.

        CTAs that wait for each other write the flag, then poll it, and may write it again after their work. What only
        follows the poll is then for a later wait. Without a write before the poll, CTAs wait for what others write
        after their own poll.
        """
        reaches, flag = self.model.reaches, self._origins(poll, "read")
        sets = [i for i in self._strong_writes if not flag.isdisjoint(self._origins(i, "write"))]
        before = {i for i in sets if reaches(i, poll)}
        return [i for i in sets if i in before or not reaches(poll, i)] if before else sets

    @cached_property
    def _writes(self) -> frozenset[int]:
        """What may write data to global memory: writes, asynchronous ones as well, and calls."""
        written = self._matching(lambda match: bool(global_operands(match, "write")))
        return frozenset((*written, *role_paths.calls(self.model)))

    @cached_property
    def _strong_writes(self) -> list[int]:
        """The writes that may set a flag: strong ones of an integer other than 0, which resets a flag."""
        model = self.model

        def resets(site: int) -> bool:
            value = model.instruction(site).named("b")
            return value is not None and model.values.constant_operand(value, site) == 0

        return [i for i in self._matching(_may_set) if not resets(i)]

    @cached_property
    def _barriers(self) -> frozenset[int]:
        order = self.model.fact(HappensBefore)
        return frozenset(
            i for i in order.points.barrier_sites(OrderScope.WARPS) if order.points.releases_together(i)
        )


def _iterates(model: KernelModel, path: Path, site: int, *, innermost: bool = True) -> bool:
    """Whether *path* takes the back edge of a loop around *site*; of the *innermost* one only if that counts."""
    around = list(model.cfg.nest.around(model.cfg.block_of[site]))
    loops = {head: model.cfg.loops[head] for head in (around if innermost else around[1:])}
    return any(edge.source in loops.get(edge.target, ()) for edge in path.edges)


def _is_relaxed_load(match: Match) -> bool:
    """Whether an instruction is a relaxed load of global memory that may observe a write of another CTA."""
    return (
        {verb for verb, _ in match.form.memory} == {"read"}
        and match.order is Order.RELAXED
        and match.space in ("", ".global")
        and not _WIDE.isdisjoint(match.modifiers)
    )


def _ordering(match: Match) -> Order:
    """The memory order of an access or a fence: a barrier orders the threads that meet there, and not those of a flag."""
    effects = match.form.effects
    if effects.arrives is not None or effects.awaits is not None:
        return Order.WEAK
    return match.fence_order() if effects.fence is Fence.MEMORY else match.order


def _acquires(match: Match) -> bool:
    return _ordering(match).acquires


def _may_set(match: Match) -> bool:
    """Whether an instruction is a strong write of one integer to global memory."""
    return (
        match.strong
        and bool(global_operands(match, "write"))
        and match.element[:2] in (".b", ".u", ".s")
        and match.form.event == ""
    )


def _is_weak_read(match: Match) -> bool:
    """Whether an instruction reads global memory that other threads may write, and is not strong."""
    if match.strong or match.form.name == "ld.nc":
        return False
    return any(
        not a.writes and a.space is StateSpace.GLOBAL and a.proxy is Proxy.GENERIC for a in match.accesses
    )

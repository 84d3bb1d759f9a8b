"""Checks of tcgen05: tensor memory used too early, and completion never signalled (PTX ISA 9.7.16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tclint.analyses import threads as T
from tclint.analyses.tensor_memory import ISSUED, State, TensorMemory
from tclint.checks import Hit, Mark, check
from tclint.dataflow import EXIT, Path, Results
from tclint.finding import Confidence
from tclint.ir.nodes import Instruction
from tclint.model import KernelModel

_TRIES = 6


def _name(model: KernelModel, site: int) -> str:
    return ".".join(model.instruction(site).opcode.split(".")[:2])


def _follow(
    model: KernelModel,
    tmem: TensorMemory,
    results: Results[State],
    site: int,
    use: int,
    wanted: frozenset[int],
) -> Path | None:
    """A path from *site* to *use* on which the operation stays outstanding with a status in *wanted*."""

    def step(state: State, i: int, instruction: Instruction) -> State | None:
        return tmem.follow(site, state, i, instruction)

    def goal(state: State, i: int) -> bool:
        return i == use and any(status in wanted for _, status in state)

    return model.path(site, frozenset(((site, ISSUED),)), results, step, goal, use)


_SIGNALS = ("mbarrier-arrive", "barrier-sync", "barrier-arrive")


@check("TC001", "TC002", "TC003", "TC004", needs="tcgen05")
def tensor_memory_hazards(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """Tensor memory used again, or released to other threads, while an operation on it is outstanding (9.7.16.6.4).

    A missing wait shows at every later use: each operation is reported for
    the first of them.
    """
    if not model.sites("issue"):
        return
    tmem, results = model.solved(TensorMemory)
    reported: set[tuple[str, int]] = set()
    for b in model.cfg.order:
        for i, state in results.walk(b):
            if not state:
                continue
            instruction = model.instruction(i)
            if instruction.event in _SIGNALS and not instruction.opcode.startswith("bar.warp"):
                for sites, what in ((tmem.loads, "ld"), (tmem.stores, "st")):
                    outstanding = sorted(
                        s
                        for s, status in state
                        if s in sites and status == ISSUED and (what, s) not in reported
                    )
                    hit = _signalled(model, tmem, results, i, outstanding, what) if outstanding else None
                    if hit is not None:
                        if hit.confidence is None:
                            reported.update((what, s) for s in outstanding)
                        yield "TC002", hit
            elif instruction.event == "tmem-dealloc" or (
                instruction.event == "issue" and instruction.group.startswith("tcgen05")
            ):
                for rule, cause, site, status, message, remedy in _conflicts(
                    model, tmem, state, i, instruction
                ):
                    if (cause, site) in reported:
                        continue
                    path = _follow(model, tmem, results, site, i, frozenset((status,)))
                    if path is None:
                        continue
                    reported.add((cause, site))
                    role = tmem.role_of(path.threads)
                    yield (
                        rule,
                        Hit(
                            site=i,
                            message=message,
                            steps=(
                                Mark(site, f"{_name(model, site)} starts", role=role),
                                Mark(i, f"{_name(model, i)} on the same columns", role=role),
                            ),
                            help=remedy,
                        ),
                    )


def _conflicts(
    model: KernelModel, tmem: TensorMemory, state: State, i: int, instruction: Instruction
) -> Iterator[tuple[str, str, int, int, str, str]]:
    """``(rule, kind of the outstanding operation, the operation, its status, message, remedy)``."""
    group = instruction.group
    dealloc = instruction.event == "tmem-dealloc"
    if dealloc or group in ("tcgen05.ld", "tcgen05.st"):
        touched = [("taddr", dealloc or group == "tcgen05.st")]
    else:
        touched = [("d", True), ("a", False)]
    ranges = [(tmem.range(i, role), writes) for role, writes in touched]
    for site, status in sorted(state):
        if site == i:
            continue
        if site in tmem.loads:
            mine = tmem.range(site, "taddr")
            # An instruction that takes the loaded registers waits for the load by itself.
            taken = any(site in tmem.filled.get(r, ()) for r in instruction.reads)
            if status == ISSUED and not taken and any(writes and tmem.meet(mine, r) for r, writes in ranges):
                yield (
                    "TC003", "ld", site, ISSUED,
                    "overwrites columns of tensor memory that an earlier tcgen05.ld may still be reading",
                    "add tcgen05.wait::ld.sync.aligned before this instruction",
                )  # fmt: skip
        elif site in tmem.stores:
            mine = tmem.range(site, "taddr")
            if any(tmem.meet(mine, r) for r, _ in ranges) and group != "tcgen05.st":
                yield (
                    "TC004", "st", site, ISSUED,
                    "uses columns of tensor memory that an earlier tcgen05.st may not have written yet",
                    "add tcgen05.wait::st.sync.aligned before this instruction",
                )  # fmt: skip
        elif group in ("tcgen05.ld", "tcgen05.st"):
            mine = tmem.range(site, "d")
            if any(tmem.meet(mine, r) for r, _ in ranges):
                what = "has not been waited for" if status else "was never committed"
                yield (
                    "TC001", "op", site, status,
                    f"accesses the result of {_name(model, site)} in tensor memory before it is complete: it {what}",
                    "commit to an mbarrier and wait for it (mbarrier.try_wait) before this instruction",
                )  # fmt: skip


def _signalled(
    model: KernelModel, tmem: TensorMemory, results: Results[State], i: int, outstanding: list[int], what: str
) -> Hit | None:
    for site in sorted(outstanding, reverse=True)[:_TRIES]:
        path = _follow(model, tmem, results, site, i, frozenset((ISSUED,)))
        if path is not None:
            break
    else:
        return None
    # A barrier that protects something else makes a load late, not wrong; an arrival releases the tensor memory itself.
    barrier = model.instruction(i).event != "mbarrier-arrive"
    doubtful = (
        not _others_use(model, tmem, path.threads)
        or (barrier and what == "ld")
        or _released_later(model, site, i, f"tcgen05.{what}")
    )
    role = tmem.role_of(path.threads)
    done = "read" if what == "ld" else "written"
    return Hit(
        site=i,
        message=f"lets other threads go on while a tcgen05.{what} of this thread is outstanding: "
        f"its tensor memory may not have been {done} yet",
        steps=(
            Mark(site, f"tcgen05.{what} starts", role=role),
            Mark(i, "other threads may go on from here", role=role),
        ),
        count=len(outstanding),
        help=f"add tcgen05.wait::{what}.sync.aligned (and tcgen05.fence::before_thread_sync) before this instruction",
        confidence=Confidence.LOW if doubtful else None,
    )


def _released_later(model: KernelModel, site: int, signal: int, group: str) -> bool:
    """Whether every way on from *signal* waits for *group* and then arrives again: that arrival is the release.

    The first one may then be about something else, such as the buffer that
    the values came from.
    """
    cfg, instructions = model.cfg, model.function.instructions

    def first(start: int, wanted: Callable[[Instruction], bool]) -> tuple[list[int], bool]:
        """The nearest wanted instructions on all ways from *start*, and whether some way has none."""
        found: list[int] = []
        escapes = False
        seen: set[int] = set()
        work = [(cfg.block_of[start], start + 1)]
        while work:
            block, begin = work.pop()
            for i in range(begin, cfg.blocks[block].end):
                if wanted(instructions[i]):
                    found.append(i)
                    break
                if i == site:
                    escapes = True
                    break
            else:
                escapes |= block in cfg.exits
                for edge in cfg.successors[block]:
                    if edge.target not in seen:
                        seen.add(edge.target)
                        work.append((edge.target, cfg.blocks[edge.target].start))
        return found, escapes

    waits, escapes = first(signal, lambda ins: ins.event == "wait" and ins.group == group)
    if escapes or not waits:
        return False
    return all(first(w, lambda ins: ins.event == "mbarrier-arrive")[0] for w in waits)


def _others_use(model: KernelModel, tmem: TensorMemory, threads: int) -> bool:
    """Whether threads other than *threads* use tensor memory at all."""
    every = T.full(model.values.threads)
    for site in (*tmem.operations, *tmem.stores, *tmem.loads):
        reach = model.views.at(site).threads
        if reach & ~threads & every:
            return True
    return False


@check("TC005", needs="tcgen05")
def missing_commit(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """An MMA, copy or shift whose thread ends without ever committing it (9.7.16.6.2.1.1)."""
    if not model.sites("issue", "tcgen05") or not model.function.entry:
        return
    tmem, results = model.solved(TensorMemory)
    open_at_end: set[int] = set()
    for b in model.cfg.order:
        if b in model.cfg.exits or b in model.views.dispatchers:
            open_at_end |= {s for s, status in results.leave(b) if s in tmem.operations and status == ISSUED}
    found: dict[tuple[int, ...], list[tuple[int, Path]]] = {}
    for site in sorted(open_at_end):

        def step(state: State, i: int, instruction: Instruction, site: int = site) -> State | None:
            after = tmem.follow(site, state, i, instruction)
            if instruction.event == "mbarrier-arrive" and not model.instruction(site).opcode.startswith(
                "tcgen05.mma"
            ):
                return None  # a copy or shift may be handed to another thread's MMA, which is pipelined behind it
            return after if after and (site, ISSUED) in after else None

        def goal(state: State, i: int) -> bool:
            return i == EXIT

        path = model.path(site, frozenset(((site, ISSUED),)), results, step, goal, EXIT)
        if path is not None:
            found.setdefault(tuple(e.target for e in path.edges[-3:]), []).append((site, path))
    for group in found.values():
        site, path = group[-1]
        role = tmem.role_of(path.threads)
        yield (
            "TC005",
            Hit(
                site=site,
                message=f"{_name(model, site)} is never followed by a tcgen05.commit of its thread: nothing can learn that it is complete",
                steps=(
                    Mark(site, f"{_name(model, site)} starts", role=role),
                    Mark(_last(model, path), "the thread ends without a commit", role=role),
                ),
                count=len(group),
                help="add tcgen05.commit with the same .cta_group, by the same thread, to the mbarrier that is waited for",
            ),
        )


def _last(model: KernelModel, path: Path) -> int:
    block = path.edges[-1].target if path.edges else model.cfg.block_of[max(path.end, 0)]
    return model.cfg.blocks[block].end - 1


@check("TC007", needs="tcgen05")
def register_use_before_wait(model: KernelModel) -> Iterator[tuple[str, Hit]]:
    """One note per kernel: registers of tcgen05.ld used before wait::ld (legal, 9.7.16.6.4.5)."""
    if not model.sites("issue", "tcgen05.ld"):
        return
    tmem, results = model.solved(TensorMemory)
    first: tuple[int, int] | None = None
    loads: set[int] = set()
    for b in model.cfg.order:
        for i, state in results.walk(b):
            instruction = model.instruction(i)
            if not state or instruction.group == "tcgen05.ld":
                continue
            early = {s for r in instruction.reads for s in tmem.filled.get(r, ()) if (s, ISSUED) in state}
            if not early:
                continue
            loads |= early
            if first is None:
                site = max(early)
                if _follow(model, tmem, results, site, i, frozenset((ISSUED,))) is not None:
                    first = (site, i)
    if first is None:
        return
    site, use = first
    yield (
        "TC007",
        Hit(
            site=use,
            message="a register of tcgen05.ld is used before tcgen05.wait::ld: the register dependency itself is respected "
            "(9.7.16.6.4.5), but nothing orders the load before later writes to the same tensor memory or before a signal to other threads",
            steps=(Mark(site, "tcgen05.ld starts"), Mark(use, "uses its register")),
            count=len(loads),
            help="wait with tcgen05.wait::ld before the tensor memory is reused or another thread is signalled",
        ),
    )

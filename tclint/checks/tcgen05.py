"""Checks of tcgen05: tensor memory used before an operation on it has completed, and missing commits (PTX ISA
9.7.16)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any

from tclint._dataclass import dataclass
from tclint._named_tuple import NamedTuple
from tclint.analyses.happens_before import HappensBefore
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.tcgen05 import ISSUED, OperationsState, Tcgen05Operations
from tclint.analyses.tcgen05_liveness import LoadLiveness
from tclint.analyses.tensor_memory import ColumnRange, TensorMemory
from tclint.analyses.tmem_release import ReleaseByLetter, TmemRelease
from tclint.analyses.tmem_transfers import (
    TmemTransfers,
    Transfers,
    TransfersByLetter,
    TransfersState,
    TransferStatus,
    computes,
)
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._repairs import wait_in_block
from tclint.dataflow import EXIT, Path, Results
from tclint.dataflow.feasible_paths import FEASIBLE_PATH
from tclint.findings.scales import Severity
from tclint.ir.nodes import Instruction
from tclint.isa.effects import (
    TCGEN05,
    TCGEN05_LD,
    TCGEN05_ST,
    TENSOR_MEMORY,
    Barrier,
    Effects,
    Exchange,
    Fence,
    Resource,
)
from tclint.values.nodes import Compare, Negation, Phi

TC001 = RuleId("TC001")
TC002 = RuleId("TC002")
TC003 = RuleId("TC003")
TC004 = RuleId("TC004")
TC005 = RuleId("TC005")
TC007 = RuleId("TC007")
TC008 = RuleId("TC008")


MAX_CONFLICTS_PER_OPERATION = 6
"""Candidates tried for one operation, nearest first; the operation is not reported if none of them is a finding."""


class _Pending(NamedTuple):
    """What completes a load of tensor memory: a use of its registers, as on hardware, or a wait alone."""

    transfers: type[Transfers]
    release: type[TmemRelease]


_ON_HARDWARE = _Pending(TmemTransfers, TmemRelease)
_BY_LETTER = _Pending(TransfersByLetter, ReleaseByLetter)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An instruction that must not be executed while an operation is pending."""

    rule: RuleId
    site: int
    what: str
    """The kind of the pending operation: ``ld``, ``st`` or ``op`` (MMA, copy or shift)."""
    message: str
    help: str
    user: int = -1
    """The operation of another thread that a signal lets start too early; -1 for other rules."""
    arrival: int = -1
    """The arrival that follows the barrier *site* on behalf of all its threads, and lets *user* start; -1 if none."""


@check(
    TC001,
    TC002,
    TC003,
    TC004,
    analyses=(
        LoadLiveness,
        HappensBefore,
        ReleaseByLetter,
        Tcgen05Operations,
        TensorMemory,
        TmemRelease,
        TmemTransfers,
        TransfersByLetter,
    ),
)
def tensor_memory_hazards(model: KernelModel) -> Iterator[Hit]:
    """Tensor memory reused, or released to other threads, while an operation on it is pending (9.7.16.6.4).

    A missing wait affects every later use. Each operation is reported at the use that is nearest on a path.
    """
    if not model.begins():
        return
    memory, found, doubtful = model.fact(TensorMemory), set[int](), list[Hit]()
    for hit in _hits(model, (*_before_transfers(model), *_before_operations(model)), _ON_HARDWARE):
        if model.by_letter and hit.doubt:
            doubtful.append(hit)
            continue
        found.update(start for start, _ in hit.pairs)
        yield hit
    if model.by_letter and not memory.loads | memory.stores <= found:
        open_ = ((site, use) for site, use in _before_transfers(model, _BY_LETTER) if site not in found)
        for hit in _hits(model, open_, _BY_LETTER):
            if not hit.doubt:
                found.update(start for start, _ in hit.pairs)
            yield _by_letter(model, hit)
    yield from (hit for hit in doubtful if not found.issuperset(start for start, _ in hit.pairs))


def _by_letter(model: KernelModel, hit: Hit) -> Hit:
    """The *hit* about what is pending by the letter of the ISA, with what hardware does about it."""
    transfers, results = model.solution(TmemTransfers)
    pending = transfers.in_flight(results.before(hit.site)) & ~transfers.takes(model.instruction(hit.site))
    if not any(transfers.bits[load] & pending for load, _ in hit.pairs):
        why = "; hardware waits for the load where its registers are used, but the ISA orders nothing else by that"
        hit = replace(hit, message=hit.message + why)
    return hit.unshown(Severity.WARNING)


def _hits(model: KernelModel, found: Iterable[tuple[int, _Candidate]], pending: _Pending) -> Iterator[Hit]:
    """A hit for each cause of the operations *found*, each with an instruction that may be executed too early."""
    candidates: dict[int, dict[int, _Candidate]] = {}
    for site, candidate in found:
        candidates.setdefault(site, {}).setdefault(candidate.site, candidate)
    causes = grouped(
        ((candidate.rule, candidate.what, candidate.site, bool(doubt)), (candidate, doubt, site, path))
        for site in sorted(candidates)
        for candidate, path, doubt in filter(None, (_nearest(model, site, candidates[site], pending),))
    )
    for same_cause in causes.values():
        candidate, doubt, site, path = same_cause[0]
        end, paths = candidate.site, [(site, path) for *_, site, path in same_cause]
        role = model.describe_threads(path.threads)
        then = (
            "other threads may continue from here"
            if candidate.rule == TC002
            else f"{model.name(end)} uses the same columns"
        )
        yield candidate.rule.hit(
            site=end,
            message=f"{model.name(end)} {candidate.message}",
            steps=(
                Mark(site, f"{model.name(site)} starts", role=role),
                Mark(end, then, role=role),
                *_started(model, candidate),
            ),
            count=len(paths),
            pairs=tuple((start, end) for start, _ in paths),
            help=candidate.help,
            fixes=wait_in_block(model, candidate.what, {s for s, _ in paths})
            if candidate.what
            != "op"  # it is unknown which mbarrier should signal the completion of an operation
            else (),
            confidence=model.confidence(path, site),
            about=_pending_causes(model, candidate, paths),
        ).doubted(doubt)


def _pending_causes(
    model: KernelModel, candidate: _Candidate, paths: list[tuple[int, Path]]
) -> frozenset[int]:
    """What leaves the operations in flight at the ends of *paths*."""
    if candidate.what != "op":
        return frozenset(site for site, _ in paths)
    return model.solution(Tcgen05Operations)[0].pending_causes(paths)


def _started(model: KernelModel, candidate: _Candidate) -> Iterator[Mark]:
    """The steps for what a signal lets start too early: an arrival for other threads, and the operation."""

    def role(site: int) -> str:
        return model.describe_threads(model.views.context_of(site).threads)

    if candidate.arrival >= 0:
        what = "arrives for all of them; no wait of the other warps precedes this"
        yield Mark(candidate.arrival, what, role=role(candidate.arrival))
    if candidate.user >= 0:
        what = f"{model.name(candidate.user)} may access the same columns before that"
        yield Mark(candidate.user, what, role=role(candidate.user))


def _nearest(
    model: KernelModel, site: int, candidates: dict[int, _Candidate], pending: _Pending
) -> tuple[_Candidate, Path, str] | None:
    """The candidate that a finding is reported at, the path, and its doubt (empty if there is none).

    A use by the thread itself that no signal precedes comes first: program order alone decides it, while whether a
    signal on another path lets a thread start too early depends on phases.
    """
    signals = [i for i, candidate in candidates.items() if candidate.rule == TC002]
    direct = {i: candidate for i, candidate in candidates.items() if candidate.rule != TC002}
    if signals and direct:
        before = {i: candidate for i, candidate in direct.items() if model.reaches(site, i, signals)}
        found = _first(model, site, before, pending, frozenset(signals))
        if found is not None and not found[2]:
            return found
    return _first(model, site, candidates, pending)


def _first(
    model: KernelModel,
    site: int,
    candidates: dict[int, _Candidate],
    pending: _Pending,
    ends: frozenset[int] = frozenset(),
) -> tuple[_Candidate, Path, str] | None:
    """The first candidate on a feasible path from the operation that passes none of *ends*, the path, and its doubt.

    A candidate without a doubt is preferred. None if no candidate is a finding.
    """
    memory = model.fact(TensorMemory)
    what = "d" if site in memory.operations else "taddr"
    analysis: Tcgen05Operations | Transfers
    analysis, results = model.solution(Tcgen05Operations if site in memory.operations else pending.transfers)
    left = dict(candidates)
    doubtful: tuple[_Candidate, Path, str] | None = None

    def step(state: Any, i: int, instruction: Instruction) -> Any:
        return None if i in ends else analysis.follow(site, state, i, instruction)

    def goal(state: Any, i: int) -> bool:
        return i in left

    for _ in range(MAX_CONFLICTS_PER_OPERATION):
        if not left:
            break
        path = model.path(FactQuery(site, analysis.issued(site), results, step, goal, left)).witness
        if path is None:
            break
        candidate = left.pop(path.end)
        if (
            candidate.what == "ld"
            and _used(model, site, path.state)
            and not _used(model, site, results.before(path.end))
        ):
            continue
        columns = memory.range(site, what)
        if candidate.rule != TC002 and columns is not None and model.changes(columns.start, path, site):
            continue  # the path passes the update of an induction variable, so the address has another value at its end
        doubt = _doubt(model, candidate, site, path, pending)
        if not doubt:
            return candidate, path, ""
        doubtful = doubtful or (candidate, path, doubt)
    else:
        if left and doubtful is None:
            why = f"more than {MAX_CONFLICTS_PER_OPERATION} conflicts of an operation"
            model.ledger.give_up(FEASIBLE_PATH, site, why)
    return doubtful


def _used(model: KernelModel, load: int, state: TransfersState) -> bool:
    """Whether a value may have been computed from the registers of *load*."""
    transfers, _ = model.solution(TmemTransfers)
    return bool(transfers.having(state, TransferStatus.USED) & transfers.bits[load])


def _accessed(model: KernelModel, i: int) -> list[tuple[ColumnRange | None, bool]]:
    """The columns of tensor memory that an instruction accesses, each with whether it writes or frees them."""
    memory, instruction = model.fact(TensorMemory), model.instruction(i)
    dealloc = instruction.effects.resource is Resource.TMEM_DEALLOC
    if dealloc or instruction.group in TENSOR_MEMORY:
        return [(memory.range(i, "taddr"), dealloc or instruction.group == TCGEN05_ST)]
    if instruction.effects.begins == TCGEN05:
        return [(memory.range(i, "d"), True), (memory.range(i, "a"), False)]
    return []


def _before_transfers(
    model: KernelModel, pending_until: _Pending = _ON_HARDWARE
) -> Iterator[tuple[int, _Candidate]]:
    """Loads and stores of tensor memory with what should not be executed before they are complete."""
    transfers, results = model.solution(pending_until.transfers)
    wanted = 0
    for sites, rules in (transfers.loads, (TC002, TC003)), (transfers.stores, (TC002, TC004)):
        wanted |= transfers.set_of(sites) if model.wants(*rules) else 0
    signals = model.fact(HappensBefore).points.release_points.intersection(
        model.where(lambda e: e.arrives_for_threads)
    )
    for b in model.cfg.order if wanted else ():
        for i, state in results.walk(b):
            pending = transfers.in_flight(state) & wanted
            if not pending:
                continue
            if i in signals:
                yield from _signalled(model, sorted(transfers.members(pending)), i, pending_until)
            elif accessed := _accessed(model, i):
                yield from _conflicts(model, transfers, pending, i, accessed)


def _frees_all(model: KernelModel, i: int) -> bool:
    """Whether instruction *i* frees the only tensor memory that the kernel allocates, and so any columns that it uses."""
    freed = model.sites(Resource.TMEM_DEALLOC)
    return i in freed and len(freed) == len(model.sites(Resource.TMEM_ALLOC)) == 1


def _conflicts(
    model: KernelModel,
    transfers: Transfers,
    pending: int,
    i: int,
    accessed: list[tuple[ColumnRange | None, bool]],
) -> Iterator[tuple[int, _Candidate]]:
    """Those of the *pending* loads and stores that instruction *i* conflicts with, as it uses columns of theirs too."""
    memory, instruction = model.fact(TensorMemory), model.instruction(i)
    dealloc = instruction.effects.resource is Resource.TMEM_DEALLOC
    threads = model.views.context_of(i).threads
    whole = not transfers.uses_complete and _frees_all(model, i)
    # An instruction that reads a loaded value, or one computed from it, depends on the load and so waits for it.
    depends = 0
    for register in instruction.reads:
        depends |= transfers.derived.get(register, 0)
    for site in transfers.members(pending):
        if site == i:
            continue
        mine = memory.range(site, "taddr")
        if site in transfers.loads:
            if not transfers.bits[site] & depends and any(
                writes and (whole or memory.overlap(mine, r, threads)) for r, writes in accessed
            ):
                how = "frees" if dealloc else "overwrites"
                message = (
                    f"{how} columns of tensor memory that an earlier tcgen05.ld may still be reading: "
                    "no intervening tcgen05.wait::ld"
                )
                yield site, _Candidate(TC003, i, "ld", message, _WAIT.format("ld"))
        elif instruction.group != TCGEN05_ST and any(memory.overlap(mine, r, threads) for r, _ in accessed):
            message = (
                f"{'frees' if dealloc else 'uses'} columns of tensor memory that an earlier tcgen05.st "
                "may not have written yet: no intervening tcgen05.wait::st"
            )
            yield site, _Candidate(TC004, i, "st", message, _WAIT.format("st"))


def _before_operations(model: KernelModel) -> Iterator[tuple[int, _Candidate]]:
    """MMAs, copies and shifts with the loads and stores that access their results before they are complete."""
    memory = model.fact(TensorMemory)
    accesses = memory.loads | memory.stores
    if not memory.operations or not accesses or not model.wants(TC001):
        return
    _, results = model.solution(Tcgen05Operations)
    for b in model.cfg.order:
        for i, state in results.walk(b):
            if i not in accesses:
                continue
            threads, read = model.views.context_of(i).threads, memory.range(i, "taddr")
            for site, status in sorted(state):
                # The columns of the first iteration count too, unless that iteration precedes the operation.
                first = None if model.reaches(i, site) else memory.at_first(i, "taddr")
                mine = memory.range(site, "d")
                if memory.overlap(mine, read, threads) or memory.overlap(mine, first, threads):
                    missing = "tcgen05.commit" if status == ISSUED else "wait for its tcgen05.commit"
                    message = (
                        f"accesses the result of {model.name(site)}, which may not have completed yet: "
                        f"no intervening {missing}"
                    )
                    remedy = (
                        "commit to an mbarrier and wait for it (mbarrier.try_wait) before this instruction"
                    )
                    yield site, _Candidate(TC001, i, "op", message, remedy)


_WAIT = "add tcgen05.wait::{}.sync.aligned before this instruction"


def _signalled(
    model: KernelModel, pending: Iterable[int], i: int, pending_until: _Pending
) -> Iterator[tuple[int, _Candidate]]:
    """The loads and stores that are *pending* where *i* lets another thread use their columns."""
    release = model.fact(pending_until.release)
    barrier = model.instruction(i).effects.synchronises is not None
    loads = model.fact(TensorMemory).loads
    for site in pending:
        what = "ld" if site in loads else "st"
        arrivals = [*(release.arrivals_for_others(site, i) if barrier else ()), i]
        found = ((release.started_early(site, signal), signal) for signal in arrivals)
        user, arrival = next((pair for pair in found if pair[0] is not None), (None, i))
        if user is not None:
            done = "read" if what == "ld" else "written"
            message = (
                f"signals other threads while tcgen05.{what} of this thread is pending: "
                f"it may not have {done} its tensor memory yet"
            )
            later = -1 if arrival == i else arrival
            yield site, _Candidate(TC002, i, what, message, _WAIT.format(what), user, later)


def _doubt(model: KernelModel, candidate: _Candidate, site: int, path: Path, pending: _Pending) -> str:
    """Why the finding may be harmless, or rests on a guess about the purpose of the signal; empty if neither."""
    if candidate.what == "ld" and pending is _ON_HARDWARE:
        transfers, _ = model.solution(TmemTransfers)
        used, copied = (
            transfers.having(path.state, status) for status in (TransferStatus.USED, TransferStatus.COPIED)
        )
        if copied and not _at_once(model, site, candidate.site):
            return "a move of the loaded registers may already have waited for the load"
        if not model.fact(LoadLiveness).read_after(site, candidate.site, computed=bool(used)):
            return "the loaded registers are not read afterwards"
    if candidate.rule != TC002:
        return ""
    if _of_one_iteration(model, site, candidate.site):
        return "the signal is given in one iteration of a loop, in which the pending columns may be others"
    # If the barrier protects something else, a load that completes after it is harmless, unless a wait alone completes it.
    arrives = candidate.arrival >= 0 or model.instruction(candidate.site).effects.arrives is Barrier.MBARRIER
    if candidate.what == "ld" and not arrives and pending is _ON_HARDWARE:
        return "the barrier may protect something else"
    return ""


def _of_one_iteration(model: KernelModel, site: int, signal: int) -> bool:
    """Whether the columns of *site* differ between the iterations of a loop, and *signal* is reached in one of them only:
    in a branch, without *site*, that is taken if an induction variable of the same loop has a certain value."""
    values, cfg = model.values, model.cfg

    def loops(value: int) -> set[object]:
        nodes = map(values.node, values.subexpressions(value))
        return {node.block for node in nodes if type(node) is Phi}

    columns = model.value(site, "taddr")
    of_columns = loops(columns) if columns is not None else set()
    if not of_columns:
        return False
    everywhere = cfg.control_dependences(cfg.block_of[site])
    for edge in cfg.control_dependences(cfg.block_of[signal]):
        p, holds = model.reachability.edge_predicate(edge), edge.value
        if p is None or edge in everywhere:
            continue
        while type(node := values.node(p)) is Negation:
            p, holds = node.operand, not holds
        if holds and type(node) is Compare and node.relation == "eq" and of_columns & loops(p):
            return True
    return False


def _at_once(model: KernelModel, load: int, signal: int) -> bool:
    """Whether no instruction between *load* and *signal* can use the value before the signal is given.

    ptxas may move arithmetic after the signal, so only an access, a wait or a branch could be such a use.
    """
    cfg, instructions = model.cfg, model.function.instructions
    return (
        load < signal
        and cfg.block_of[load] == cfg.block_of[signal]
        and all(computes(i.match) or _uses_no_value(i.effects) for i in instructions[load + 1 : signal])
    )


_HOISTED = "the path may skip the multiplications, in which case nothing uses the copied data"


def _uses_no_value(effects: Effects) -> bool:
    """Whether an instruction accesses no memory and reads no values."""
    return effects.exchange is Exchange.ELECT or effects.fence in (Fence.TCGEN05_BEFORE, Fence.TCGEN05_AFTER)


@check(TC005, TC008, analyses=(Mbarriers, Tcgen05Operations))
def missing_commit(model: KernelModel) -> Iterator[Hit]:
    """An MMA, copy or shift that its thread never commits on some path to the end (9.7.16.6.2.1.1).

    If another thread executes the commit, the commit is reported instead.
    """
    if not model.begins(TCGEN05) or not model.function.entry:
        return
    operations, results = model.solution(Tcgen05Operations)
    open_at_end: set[int] = set()
    for b in model.cfg.order:
        if b in model.cfg.exits or b in model.reachability.dispatchers:
            open_at_end |= {s for s, status in results.leave(b) if status == ISSUED}
    elsewhere = _commits_of_others(model, operations)
    for commit, sites in elsewhere.items():
        yield _committed_elsewhere(model, commit, sites)
    open_at_end -= {site for sites in elsewhere.values() for site in sites}
    commits = bool(model.commits(TCGEN05))
    for group in grouped(_uncommitted(model, operations, results, open_at_end)).values():
        site, path = group[-1]
        role = model.describe_threads(path.threads)
        multiplies = any(model.instruction(site).name == "tcgen05.mma" for site, _ in group)
        yield TC005.hit(
            site=site,
            message=f"{model.name(site)} is never committed: no tcgen05.commit of its thread follows, "
            "so no mbarrier can signal its completion",
            steps=(
                Mark(site, f"{model.name(site)} starts", role=role),
                *_rejoining(model, site, path, role),
                *_unsignalled(model, site),
                Mark(path.last(model.cfg, site), "the thread ends without a commit", role=role),
            ),
            count=len(group),
            about=frozenset(site for site, _ in group),
            help="add tcgen05.commit with the same .cta_group, by the same thread, to the mbarrier that is waited for",
        ).doubted(_HOISTED if commits and not multiplies else "")


def _rejoining(model: KernelModel, site: int, path: Path, role: str) -> Iterator[Mark]:
    """The step where a *path* leaves the branch in which the operation *site* is issued, if it does.

    The condition of a loop around it is not such a branch: a commit after the loop covers all iterations.
    """
    cfg = model.cfg
    block = cfg.block_of[site]
    around = [cfg.loops[header] for header in cfg.nest.around(block)]
    deciding = {
        edge
        for edge in cfg.control_dependences(block)
        if all(
            e.target in loop for loop in around if edge.source in loop for e in cfg.successors[edge.source]
        )
    }
    passed = list(path.sites(cfg, site))
    inside = list(takewhile(lambda i: deciding.issubset(cfg.control_dependences(cfg.block_of[i])), passed))
    if 0 < len(inside) < len(passed):
        yield Mark(
            inside[-1], "no longer under the condition that issues it, still without a commit", role=role
        )


def _unsignalled(model: KernelModel, site: int) -> Iterator[Mark]:
    """The step of the first wait for the one mbarrier that nothing but commits of tcgen05 signals, after *site*."""
    mbarriers, commits = model.fact(Mbarriers), model.commits(TCGEN05)
    waits = {
        ring: [wait for wait in ring.waits if model.reaches(site, wait)]
        for ring in mbarriers.rings
        if not mbarriers.copies(ring)
        and all(i in commits for stage in ring.stages for i in mbarriers.arriving_at(stage))
    }
    found = [sites for sites in waits.values() if sites]
    if len(found) == 1:
        yield Mark(found[0][0], "waits for the mbarrier that a commit has to signal", aside=True)


def _uncommitted(
    model: KernelModel, operations: Tcgen05Operations, results: Results[OperationsState], sites: Iterable[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, Path]]]:
    """The operations *sites* with a path to the end of their thread that has no commit; the key is the last blocks of the
    path."""
    for site in sorted(sites):

        def step(
            state: OperationsState, i: int, instruction: Instruction, site: int = site
        ) -> OperationsState | None:
            after = operations.follow(site, state, i, instruction)
            if instruction.effects.arrives is Barrier.MBARRIER and _feeds_another_thread(model, site):
                return None  # that MMA is pipelined after the copy or shift
            return after if after and (site, ISSUED) in after else None

        def goal(state: OperationsState, i: int) -> bool:
            return i == EXIT

        path = model.path(FactQuery(site, operations.issued(site), results, step, goal, ())).witness
        if path is not None:
            yield tuple(e.target for e in path.edges[-3:]), (site, path)


def _feeds_another_thread(model: KernelModel, site: int) -> bool:
    """Whether *site* is a copy or a shift whose result an MMA of another thread may use."""
    threads = model.views.context_of(site).threads
    mmas = [i for i in model.begins(TCGEN05) if model.instruction(i).name == "tcgen05.mma"]
    return site not in mmas and any(model.views.context_of(i).threads & ~threads for i in mmas)


def _commits_of_others(model: KernelModel, analysis: Tcgen05Operations) -> dict[int, list[int]]:
    """Commits whose threads have issued nothing before them -> the preceding operations, all issued by other
    threads."""
    found = {}
    operations = sorted(analysis.memory.operations)
    for commit in model.commits(TCGEN05):
        if not model.views.context_of(commit).threads:
            continue
        pair = analysis.cta_groups[commit]
        # Most commits track the operations just before them, so these are tried first.
        here = bisect_left(operations, commit)
        nearest = (*reversed(operations[:here]), *operations[here:])

        def tracked(
            commit: int = commit, pair: str = pair, sites: tuple[int, ...] = nearest
        ) -> Iterator[int]:
            for site in sites:
                if analysis.cta_groups[site] == pair and model.reaches(site, commit):
                    yield site

        if all(model.views.mutually_exclusive(site, commit) for site in tracked()):
            before = sorted(tracked())
            if before:
                found[commit] = before
    return found


def _committed_elsewhere(model: KernelModel, commit: int, sites: list[int]) -> Hit:
    site = max((s for s in sites if s < commit), default=sites[-1])
    issuer, other = (model.describe_threads(model.views.context_of(i).threads) for i in (site, commit))
    name = model.name(site)
    return TC008.hit(
        site=commit,
        message=f"{model.name(commit)} commits nothing: tcgen05.commit tracks only operations of its own thread, and is executed by {other}, "
        f"while {name} was issued by {issuer}",
        steps=(
            Mark(site, f"{name} starts", role=issuer),
            Mark(commit, "arrives on the mbarrier immediately", role=other),
        ),
        count=len(sites),
        about=frozenset((commit, *sites)),
        help="execute the commit in the thread that issues the operations, under the same predicate",
    )


@check(TC007, analyses=(TmemTransfers,))
def register_use_before_wait(model: KernelModel) -> Iterator[Hit]:
    """One note per kernel: registers of tcgen05.ld used before tcgen05.wait::ld, which is legal (9.7.16.6.4.5)."""
    if not model.begins(TCGEN05_LD):
        return
    transfers, results = model.solution(TmemTransfers)
    first: tuple[int, int] | None = None
    loads = 0
    for b in model.cfg.order:
        for i, state in results.walk(b):
            instruction = model.instruction(i)
            if not state or instruction.group == TCGEN05_LD:
                continue
            early = 0
            for register in instruction.reads:
                early |= transfers.filled.get(register, 0)
            early &= transfers.having(state, TransferStatus.ISSUED)
            if not early:
                continue
            loads |= early
            if first is None:
                site = max(transfers.members(early))
                if _reaches_issued(model, site, i):
                    first = (site, i)
    if first is None:
        return
    site, use = first
    load, filling = transfers.bits[site], transfers.filled
    filled = (r for r in model.instruction(use).reads if filling.get(r, 0) & load)
    name = model.function.registers[next(filled)].name
    yield TC007.hit(
        site=use,
        message=f"{model.name(use)} uses {name} of tcgen05.ld before tcgen05.wait::ld: the register dependency is respected (9.7.16.6.4.5), "
        "but the load is not ordered before later writes to the same tensor memory, or before a signal to other threads",
        steps=(Mark(site, "tcgen05.ld starts"), Mark(use, f"uses {name}")),
        count=loads.bit_count(),
        about=(about := frozenset(transfers.members(loads))),
        help="add tcgen05.wait::ld before the tensor memory is reused or another thread is signalled",
        fixes=wait_in_block(model, "ld", about),
    )


def _reaches_issued(model: KernelModel, load: int, use: int) -> bool:
    """Whether there is a path from *load* to *use* on which none of its registers is used before."""
    transfers, results = model.solution(TmemTransfers)

    def step(state: TransfersState, i: int, instruction: Instruction) -> TransfersState | None:
        return transfers.follow(load, state, i, instruction)

    def goal(state: TransfersState, i: int) -> bool:
        return i == use and bool(transfers.having(state, TransferStatus.ISSUED))

    query = FactQuery(load, transfers.issued(load), results, step, goal, (use,))
    return model.path(query).witness is not None

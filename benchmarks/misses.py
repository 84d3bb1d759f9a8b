"""Why a planted fault was not found, as far as a program can say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from benchmarks.equivalence import (
    Change,
    change,
    observers,
    orders_reads_alone,
)
from benchmarks.faults import Fault, Kernel, Operator, apply
from tclint.analyses.extents import Extents
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.proxies import (
    COMPLETED,
    CompletedCopies,
    Overwritten,
    Unfenced,
    UnfencedReads,
    fences,
    through_async,
)
from tclint.dataflow import GaveUp
from tclint.ir.cfg import CFG
from tclint.ir.frontend import analyse
from tclint.ir.nodes import Immediate, Instruction, Memory
from tclint.replay.interface import Faulty
from tclint.replay.verdict import Replay
from tclint.syntax.source import Source
from tclint.values import UniformityScope
from tclint.values.nodes import AddressOf
from tclint.values.shared_memory import SharedAccess

__all__ = ["CAUSES", "cause"]

CAUSES = {
    "equivalent": "no fault: proven to do the same, by the ISA",
    "accepted": "no fault: ptxas accepts the target",
    "no rule": "no rule yet for this operator",
    "unresolved": "the model does not resolve the mbarrier, and `tclint barriers` says so",
    "note": "reported as a note, which does not fail a run",
    "low": "reported with low confidence, which --pedantic shows",
    "same code": "ptxas makes the same machine code of both",
    "refused by ptxas": "ptxas refuses the mutant",
    "other": "reported by another rule, or at another place",
    "launch": "a replay of the kernel ends early: what its threads do depends on what the text does not say",
    "long": "a replay of the kernel takes too long",
    "arrival": "another commit covers the operations: what is lost is an arrival on an mbarrier, and those are not counted",
    "reads": "its thread has read at most: the fence is for copies that overwrite what was read, and code in use goes without",
    "in order": "a replay that executes it still has all bulk copies, MMAs, stores and reads in order",
    "unreached": "no replayed launch reaches it",
    "once": "no replayed launch executes the iteration of the loop in which it would go wrong",
    "threads": "only other threads can observe it: what orders them is not analysed",
    "end": "nothing after it accesses such memory, and what becomes of a copy when the kernel ends is not specified",
    "memory": "whether a later access is to the same bytes of memory is unknown",
    "overlap": "whether the kernel may begin while the one before it runs is said where it is launched",
    "box": "the bytes that a tensor copy loads are in its tensor map, which the host makes",
    "executed by": "whether the other lanes get there depends on a branch",
    "value": "depends on what the kernel does not determine: registers or threads at launch, an address, which threads share a value",
    "count": "the warp may own just that many registers there, and then both directions are the same",
    "already": "the original has a finding of that rule, which is reported once per kernel",
    "unexplained": "not explained",
}
"""The causes in the order in which they are tried, and what they mean."""


def cause(
    record: Mapping[str, Any],
    kernel: Kernel,
    fault: Fault,
    operator: Operator,
    known: frozenset[str],
) -> str:
    """The cause of a fault that was not found, a key of :data:`CAUSES`.

    *record* has its ``verdict`` and, as far as they were asked, ``equivalent`` and ``code``; *known* are the rules of
    which the original has a finding.
    """
    code = record.get("code", "")
    if "equivalent" in record:
        return "equivalent"
    if operator.family == "arch" and code in ("same", "different"):
        return "accepted"
    if not operator.rules:
        return "no rule"
    if record["verdict"] in ("note", "low", "other"):
        return str(record["verdict"])
    if _unresolved(kernel, fault):
        return "unresolved"
    if code in ("same", "refused"):
        return {"same": "same code", "refused": "refused by ptxas"}[code]
    found = _unknown(kernel, fault, operator)
    if not found and "CV010" not in operator.rules:
        found = _witness(kernel, fault)
    if not found and not known.isdisjoint(operator.rules):
        return "already"
    # A replay looks at the outermost loads and stores alone: it shows nothing of a barrier that is gone.
    if "MB016" in operator.rules and operator.family != "barrier" and found in ("", "threads"):
        found = _replays_show(kernel, fault) or found
    return found or "unexplained"


def _changed(kernel: Kernel, fault: Fault) -> list[int]:
    """The instructions that a fault takes away or writes anew."""
    starts = {kernel.span(i).start: i for i in range(len(kernel.instructions))}
    return [starts[e.span.start] for e in fault.edits if e.span.start in starts]


def _unresolved(kernel: Kernel, fault: Fault) -> bool:
    """Whether it is not known which mbarrier a changed instruction names."""
    sites = [i for i in _changed(kernel, fault) if kernel.instructions[i].event.startswith("mbarrier-")]
    if not sites:
        return False
    mbarriers = KernelModel(kernel.function, kernel.module).fact(Mbarriers)
    return not set(mbarriers.unresolved).isdisjoint(sites)


def _replays_show(kernel: Kernel, fault: Fault) -> str:
    """The cause that replays show: a deadlock, no replayed launch executes the change, or nothing goes wrong when it does."""
    site = _site(kernel, fault)
    before = KernelModel(kernel.function, kernel.module).fact(Replay)
    verdict = before.verdict
    if isinstance(verdict, GaveUp) and not verdict.why.truncated:
        return "launch"
    if site is None or isinstance(verdict, Faulty):
        return ""
    if not any(run.finished for run in before.runs):
        return "long" if isinstance(verdict, GaveUp) else ""
    cfg = CFG(kernel.function)
    block = cfg.block_of[site]
    if not any(block in run.entered for run in before.runs):
        return "unreached"
    module, _ = analyse(Source.from_bytes(apply(kernel.data, fault.edits), "mutant.ptx"))
    function = module.function(kernel.function.name)
    after = function and KernelModel(function, module).fact(Replay)
    if not after or isinstance(after.verdict, Faulty):
        return ""
    if not any(run.finished for run in after.runs):
        return (
            ""
            if not isinstance(after.verdict, GaveUp)
            else "long"
            if after.verdict.why.truncated
            else "launch"
        )
    followed = any(kernel.sites("issue", group) for group in ("mbarrier", "wgmma", "tcgen05"))
    if followed and (
        not kernel.sites("issue", "cp.async") or _releases_nothing(_asked(kernel, site), before)
    ):
        return "in order"
    # What is handed over is not replayed.
    loops = [head for head, body in cfg.loops.items() if block in body and _does_more(kernel, cfg, body)]
    return "once" if loops and not any(run.repeated.intersection(loops) for run in before.runs) else ""


def _asked(kernel: Kernel, site: int) -> int:
    """The wait of which the instruction at *site* is part: itself, or what it follows."""
    return next((i for i in (site, site - 1) if kernel.instructions[i].event == "mbarrier-wait"), site)


def _releases_nothing(site: int, replay: Replay) -> bool:
    """Whether a wait for commits alone releases nothing new in any launch: its threads have observed these MMAs, or later ones.

    Plain arrivals are not considered: threads on one path observe nothing of each other in a replay.
    """
    rings = replay.model.fact(Mbarriers).rings_at(site)
    uses = [effects for ring in rings for effects in ring.uses.values()]
    commits = all(e.bounds_mbarrier or e.commits or e.awaits for e in uses)
    return bool(rings) and commits and not any(site in run.acquiring_waits for run in replay.runs)


def _does_more(kernel: Kernel, cfg: CFG, body: Collection[int]) -> bool:
    """Whether a loop does more than to ask about an mbarrier again."""
    events = {
        kernel.instructions[i].event for b in body for i in range(cfg.blocks[b].start, cfg.blocks[b].end)
    }
    return not events <= {"", "mbarrier-wait"}


def _by_tensor_map(kernel: Kernel) -> bool:
    """Whether a copy that reports to an mbarrier goes by a tensor map."""
    copies = (kernel.instructions[i] for i in kernel.sites("issue", "mbarrier"))
    return any(i.role("tensormap") is not None for i in copies)


def _site(kernel: Kernel, fault: Fault) -> int | None:
    """The instruction that the fault is about: of those that it changes, the first that waits, orders or commits."""
    starts = {kernel.span(i).start: i for i in range(len(kernel.instructions))}
    sites = [starts[e.span.start] for e in fault.edits if e.span.start in starts]
    return min(sites, key=lambda i: kernel.instructions[i].event in ("", "issue"), default=None)


_BETWEEN_THREADS = ("barrier", "mbarrier", "memory-fence", "proxy-fence", "tcgen05-fence")


def _witness(kernel: Kernel, fault: Fault) -> str:
    """Which threads can observe that a wait, commit, fence or barrier is not what it was."""
    site = _site(kernel, fault)
    if site is None:
        return ""
    first = kernel.instructions[site]
    if first.event == "commit" and first.group == "tcgen05":
        return "arrival" if _another_commit(kernel, site) else ""
    changed = change(kernel, fault)
    if first.event == "proxy-fence" and changed is not None:
        found = _of_fence(kernel, site, changed)
        if found:
            return found
    if first.event.startswith(_BETWEEN_THREADS) and first.role("mask") is None:
        return "threads"
    seen = observers(changed) if changed else None
    if changed is None or changed.group is None or seen is None:
        return ""
    registers = {r for at in kernel.sites("issue", changed.group) for r in changed.accessed_by(at)}
    witnesses = [changed.instructions[i] for i in seen if i >= 0]
    own = [i for i in witnesses if not (i.group == changed.group and i.event == "issue")]
    if any(not registers.isdisjoint((*i.reads, *i.writes)) for i in own) or not own:
        return ""
    weaker = any(i.effects.sources for i in changed.added)
    ways = ("read",) if weaker else ("read", "write")
    if changed.group == "bulk" and not any(_spoils(i, ways) for i in witnesses):
        return "end"
    if changed.group in ("wgmma", "tcgen05.ld"):
        return "threads"  # other users of the memory that they read are ordered by what follows
    return "memory"


def _of_fence(kernel: Kernel, site: int, changed: Change) -> str:
    """Why nothing is known to lack a proxy fence of shared memory that is gone."""
    if not fences(kernel.instructions[site]):
        return ""
    model = KernelModel(kernel.function, kernel.module)
    shared, copies = model.shared, model.solution(CompletedCopies)[1].before(site)[0]
    before = [a for i, age in copies if age == COMPLETED for a in shared.accesses(i) if a.writes]
    for unfenced, results in (model.solution(Unfenced), model.solution(UnfencedReads)):
        sites = (i for start, _ in results.before(site) for i in unfenced.classes[start])
        before += [a for i in sites for a in shared.accesses(i) if unfenced.begins(a)]
    uses = [
        use
        for writes in (False, True)
        for i in sorted(through_async(model, writes=writes))
        for use in shared.accesses(i)
        if use.writes is writes
    ]
    meeting = [(a, use, _meet(model, a, use)) for a in before for use in uses if a.writes or use.writes]
    touching = any(surely is not False for _, _, surely in meeting)
    if not touching and not any(model.fact(Overwritten).may(a.address) for a in before):
        return ""  # it is for what other threads have released, or access
    met = {a.writes for a, _, surely in meeting if surely}
    if orders_reads_alone(changed) or met == {False}:
        return "reads"
    return "" if met else "memory"


def _meet(model: KernelModel, a: SharedAccess, b: SharedAccess) -> bool | None:
    """Whether two accesses are of the same bytes in some iterations; None where it is not known which bytes they may be of."""
    bases = {model.values.addresses.form(access.address).base for access in (a, b)}
    if len(bases) == 2 and all(type(model.values.node(base)) is AddressOf for base in bases):
        return False
    extents = model.fact(Extents)
    here, there = extents.of(a), extents.of(b)
    return None if here is None or there is None or here.base != there.base else here.may_overlap(there)


_SPACES = {"write": (".shared", ".shared::cta", ".shared::cluster", ""), "read": (".global", "")}
"""What may spoil a bulk copy to global memory: a write where it reads, a read where it writes."""


def _spoils(instruction: Instruction, verbs: Collection[str]) -> bool:
    """Whether an instruction may access the memory of a bulk copy to global memory, by one of the *verbs* that spoil it."""
    match = instruction.match
    if match is None or instruction.flow == "call":
        return True
    form = match.form
    later = {"write": form.async_writes, "read": form.async_reads}
    return any(verb in verbs and match.space in _SPACES[verb] for verb, _ in form.memory) or (
        form.group != "bulk" and any(name.startswith("*") for verb in verbs for name in later[verb])
    )


def _another_commit(kernel: Kernel, site: int) -> bool:
    """Whether another tcgen05.commit follows on some path, or precedes it with no operation in between."""
    cfg = CFG(kernel.function)
    own = cfg.block_of[site]
    commits = set(kernel.sites("commit", "tcgen05")) - {site}
    if any(
        (cfg.block_of[i] == own and i > site) or cfg.reachable_from[own] >> cfg.block_of[i] & 1
        for i in commits
    ):
        return True
    earlier = [i for i in (*commits, *kernel.sites("issue", "tcgen05")) if i < site]
    return bool(earlier) and max(earlier) in commits


def _numbers(instruction: Instruction) -> list[int]:
    return [int(o.value) for o in instruction.operands if isinstance(o, Immediate)]


def _unknown(kernel: Kernel, fault: Fault, operator: Operator) -> str:
    """What the fault depends on that the text of the kernel does not say."""
    site = _site(kernel, fault)
    if site is None:
        return ""
    function, instruction = kernel.function, kernel.instructions[site]
    if instruction.role("mask") is not None and instruction.group != "tcgen05":
        cfg = CFG(function)
        return "executed by" if cfg.control_dependences(cfg.block_of[site]) else ""
    if instruction.event == "setmaxnreg":
        owned = [*function.directives.get(".maxnreg", ())]
        owned += [
            o for i in kernel.sites("setmaxnreg") if i != site for o in _numbers(kernel.instructions[i])
        ]
        same = not set(owned).isdisjoint(_numbers(instruction))
        return "count" if same else "" if ".maxnreg" in function.directives else "value"
    if instruction.event == "pdl-wait":
        return "overlap"
    if "CV010" in operator.rules:
        return "value" if function.most_threads is None else ""
    if "expect_tx" in operator.name and _by_tensor_map(kernel):
        return "box"
    if operator.rules & {"WG012", "TC022"}:
        model = KernelModel(function, kernel.module)
        value = model.value(site, "taddr" if "TC022" in operator.rules else "b")
        return (
            "value" if value is not None and model.values.uniformity(value) is UniformityScope.UNKNOWN else ""
        )
    if operator.rules & {"CA004", "TC017", "MO001"}:
        bases = [o.base for o in instruction.operands if isinstance(o, Memory)]
        return "value" if bases and isinstance(bases[0], int) else ""
    return ""

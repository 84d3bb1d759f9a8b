"""Registers that warps request and release with setmaxnreg (PTX ISA 9.7.19.5)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.execution import executing
from tclint.analyses.happens_before import HappensBefore, OrderScope
from tclint.analyses.model import FactQuery, KernelModel
from tclint.analyses.role_paths import calls, path_avoiding
from tclint.analyses.setmaxnreg import (
    START,
    UNKNOWN,
    RegisterCounts,
    SetmaxnregState,
    bound,
    pool,
    raises,
    requested,
)
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.findings.edits import DirectiveEdit, Repair, without_word
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Instruction
from tclint.isa.effects import Resource
from tclint.values import thread_masks as T

CV007 = RuleId("CV007")
CV008 = RuleId("CV008")
CV012 = RuleId("CV012")
CV013 = RuleId("CV013")


@check(CV007)
def no_entry_count(model: KernelModel) -> Iterator[Hit]:
    """setmaxnreg in a kernel whose directives do not specify how many registers a thread has at launch."""
    sites = model.sites(Resource.REGISTERS)
    if not sites or not model.function.entry or bound(model.function) is not None:
        return
    stated = model.function.directives
    threads = next((name for name in (".reqntid", ".maxntid") if name in stated), None)
    yield CV007.hit(
        site=sites[0],
        message="ptxas ignores setmaxnreg: no directive specifies how many registers a thread has at launch",
        count=len(sites),
        help="add .maxnreg, or .minnctapersm with .reqntid or .maxntid, or compile with -maxrregcount"
        if threads is None
        else f"add .minnctapersm 1 next to {threads}, or add .maxnreg",
        fixes=_bounded(model, threads),
        # With the number of threads alone, another release of ptxas may find out how many registers a thread has.
        severity=None if threads is None else Severity.INFO,
    )


def _bounded(model: KernelModel, threads: str | None) -> tuple[Repair, ...]:
    """``.minnctapersm 1`` after the directive *threads*; empty if the kernel does not state that directive itself."""
    stated = next((d for d in model.function.stated if d.name == threads), None)
    if stated is None:
        return ()
    return (Repair("add .minnctapersm 1", (DirectiveEdit(stated.name, " .minnctapersm 1"),)),)


@check(CV008, analyses=(RegisterCounts,))
def direction(model: KernelModel) -> Iterator[Hit]:
    """A .dec that requests more registers than the warp owns, or an .inc that requests fewer."""
    sites = model.sites(Resource.REGISTERS)
    if not sites:
        return
    analysis = RegisterCounts(model)
    counts = {requested(model.instruction(i)) for i in sites}
    counts.update(() if analysis.launch is None else (analysis.launch,))
    if not any(_contradicts(model.instruction(i), owned) for i in sites for owned in counts):
        return  # as in most kernels, which alternate between two counts
    _, results = model.solution(RegisterCounts)

    def step(state: SetmaxnregState, i: int, instruction: Instruction) -> SetmaxnregState | None:
        return None  # the next setmaxnreg replaces the count

    for site in sites:

        def goal(state: SetmaxnregState, i: int, site: int = site) -> bool:
            return i == site

        before = sorted(results.before(site))
        contradicting = [fact for fact in before if _contradicts(model.instruction(site), fact[1])]
        for origin, owned in contradicting:
            # If every possible count contradicts it, no path needs to be found.
            fact = frozenset(((origin, owned),))
            if (
                contradicting == before
                or model.path(FactQuery(origin, fact, results, step, goal, (site,))).witness is not None
            ):
                yield _wrong_direction(model, site, origin, owned)
                break


def _contradicts(instruction: Instruction, owned: int) -> bool:
    """Whether a setmaxnreg changes the count against its qualifier if the warp owns *owned* registers."""
    wanted = requested(instruction)
    return owned != UNKNOWN and (wanted < owned if raises(instruction) else wanted > owned)


def _wrong_direction(model: KernelModel, site: int, origin: int, owned: int) -> Hit:
    instruction, start = model.instruction(site), origin == START
    wanted = requested(instruction)
    action, other, relation = (
        (".inc", ".dec", "fewer than") if raises(instruction) else (".dec", ".inc", "more than")
    )
    source = "at launch" if start else "after the previous setmaxnreg"
    return CV008.hit(
        site=site,
        message=f"setmaxnreg{action} requests {wanted} registers, {relation} the {owned} that the warp owns {source}",
        steps=(
            *(() if start else (Mark(origin, f"sets the count to {owned}"),)),
            Mark(site, f"requests {wanted} with {action}"),
        ),
        help=f"use setmaxnreg{other}, or another count",
        fixes=(Repair(f"use setmaxnreg{other}", (without_word(site, instruction, action, other),)),),
        # ptxas chooses the count at launch; another assembler may choose a different one.
        confidence=Confidence.MEDIUM if start else None,
    )


@check(CV012)
def pool_overflow(model: KernelModel) -> Iterator[Hit]:
    """Warps that together request more registers than the CTA has at launch."""
    sites, available = model.sites(Resource.REGISTERS), pool(model.function)
    if not any(raises(model.instruction(i)) for i in sites) or available is None:
        return
    executed: dict[int, int] = {}
    held: dict[int, int] = {}
    """The first thread of each warp -> the smallest count per thread that the warp requests."""
    for site in sites:
        found = executing(model, site)
        if found is None or not found[1]:
            return
        executed[site] = found[0]
        warps = found[0] & T.lane_zero(model.values.threads)
        for warp in range(0, warps.bit_length(), 32):
            if warps >> warp & 1:
                count = requested(model.instruction(site))
                held[warp] = min(held.get(warp, count), count)
    idle = model.cta & T.lane_zero(model.values.threads) & ~sum(1 << warp for warp in held)
    each = RegisterCounts(model).launch
    total = 32 * (sum(held.values()) + (each or 0) * idle.bit_count())
    if total <= available:
        return
    site = max(
        (i for i in sites if raises(model.instruction(i))), key=lambda i: requested(model.instruction(i))
    )
    yield CV012.hit(
        site=site,
        message=f"{model.name(site)} blocks indefinitely: the warps of the CTA together {'hold or ' * bool(each and idle)}request {total} "
        f"registers, but it has at most {available} at launch",
        steps=tuple(
            Mark(
                i,
                f"requests {requested(model.instruction(i))} registers per thread",
                role=model.describe_threads(executed[i]),
            )
            for i in sites
        ),
        help="request fewer registers here, or release "
        + (
            f"some in {model.describe_threads(T.whole(idle, 32))}, which keep {each} per thread"
            if each and idle
            else "more in the other warps"
        ),
        # Without a bound, ptxas may drop every setmaxnreg.
        severity=None if bound(model.function) is not None else Severity.WARNING,
        confidence=None if model.function.threads else Confidence.MEDIUM,
    )


@check(CV013, analyses=(HappensBefore,))
def repeated_unsynchronised(model: KernelModel) -> Iterator[Hit]:
    """A setmaxnreg after another one with no intervening barrier at which the warps of the warpgroup synchronise."""
    sites = model.sites(Resource.REGISTERS)
    ends = {*model.fact(HappensBefore).points.barrier_sites(OrderScope.WARPS), *calls(model)}
    every = T.full(model.values.threads)
    again = (
        (path.end, i)
        for i in sites
        if (path := path_avoiding(model, i, every, sites, ends).witness) is not None
    )
    for site, before in grouped(again).items():
        yield CV013.hit(
            site=site,
            message=f"{model.name(site)} changes the register count of the warp again, with no intervening barrier of the warpgroup",
            steps=(Mark(before[0], "changes the count"), Mark(site, "changes it again")),
            help="add bar.sync with the 128 threads of the warpgroup between the two",
            about=frozenset((site,)),
        )

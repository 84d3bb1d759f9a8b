"""Registers that a warp asks for and gives back (PTX ISA 9.7.19.5)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.execution import executing
from tclint.analyses.happens_before import HappensBefore, Scope
from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import calls, path_avoiding
from tclint.analyses.setmaxnreg import START, UNKNOWN, RegisterCounts, State, bound, pool, raises, requested
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.findings.edits import Repair, without_word
from tclint.findings.finding import Edit, Span
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Instruction
from tclint.values import thread_masks as T

CV007 = RuleId("CV007")
CV008 = RuleId("CV008")
CV012 = RuleId("CV012")
CV013 = RuleId("CV013")

_UNHEARD = (
    "ptxas ignores setmaxnreg here unless the kernel needs all registers that its threads leave to each"
)
"""What there is to say where no directive bounds the registers at launch."""


@check(CV007, needs="setmaxnreg")
def no_entry_count(model: KernelModel) -> Iterator[Hit]:
    """setmaxnreg in a kernel whose registers at launch are not known to the assembler."""
    sites = model.sites("setmaxnreg")
    if not sites or not model.function.entry or bound(model.function) is not None:
        return
    stated = model.function.directives
    threads = next((name for name in (".reqntid", ".maxntid") if name in stated), None)
    yield CV007.hit(
        site=sites[0],
        message="ptxas ignores setmaxnreg: nothing says how many registers a thread has at launch"
        if threads is None
        else f"ptxas ignores setmaxnreg unless the kernel uses all registers that {threads} leaves it: "
        "nothing says how many a thread has at launch",
        count=len(sites),
        help="add .maxnreg, or .minnctapersm beside .reqntid or .maxntid, or compile with -maxrregcount"
        if threads is None
        else f"add .minnctapersm 1 beside {threads}, or .maxnreg",
        fixes=_bounded(model, threads),
        # With the threads alone it depends on how many registers the rest of the kernel needs.
        severity=None if threads is None else Severity.INFO,
    )


def _bounded(model: KernelModel, threads: str | None) -> tuple[Repair, ...]:
    """``.minnctapersm 1`` beside the directive that gives the number of threads."""
    function = model.function
    stated = next((d for d in function.stated if d.name == threads), None)
    if stated is None:
        return ()
    at = function.start + stated.end
    return (Repair("add .minnctapersm 1", (Edit(Span(at, at), " .minnctapersm 1"),)),)


@check(CV008, needs="setmaxnreg", analyses=(RegisterCounts,))
def direction(model: KernelModel) -> Iterator[Hit]:
    """A .dec to more registers than the warp owns, or an .inc to fewer."""
    sites = model.sites("setmaxnreg")
    if not sites:
        return
    analysis = RegisterCounts(model)
    counts = {requested(model.instruction(i)) for i in sites}
    counts.update(() if analysis.launch is None else (analysis.launch,))
    if not any(_against(model.instruction(i), owned) for i in sites for owned in counts):
        return  # as in most kernels, which go down and up between two numbers
    _, results = model.solution(RegisterCounts)

    def step(state: State, i: int, instruction: Instruction) -> State | None:
        return None  # the next setmaxnreg sets another count

    for site in sites:

        def goal(state: State, i: int, site: int = site) -> bool:
            return i == site

        before = sorted(results.before(site))
        against = [fact for fact in before if _against(model.instruction(site), fact[1])]
        for origin, owned in against:
            # Where it is wrong whatever came before, the way does not matter.
            fact = frozenset(((origin, owned),))
            if (
                against == before
                or model.path(origin, fact, results, step, goal, (site,)).witness is not None
            ):
                yield _wrong_way(model, site, origin, owned)
                break


def _against(instruction: Instruction, owned: int) -> bool:
    """Whether a setmaxnreg goes the other way than its qualifier says, when the warp owns *owned* registers."""
    wanted = requested(instruction)
    return owned != UNKNOWN and (wanted < owned if raises(instruction) else wanted > owned)


def _wrong_way(model: KernelModel, site: int, origin: int, owned: int) -> Hit:
    instruction, start = model.instruction(site), origin == START
    wanted = requested(instruction)
    action, other, relation = (
        (".inc", ".dec", "lowers") if raises(instruction) else (".dec", ".inc", "raises")
    )
    source = "at launch" if start else "from the setmaxnreg before it"
    return CV008.hit(
        site=site,
        message=f"setmaxnreg{action} to {wanted} {relation} the count: the warp owns {owned} registers {source}",
        steps=(
            *(() if start else (Mark(origin, f"sets {owned} registers"),)),
            Mark(site, f"{action} to {wanted}"),
        ),
        help=f"use setmaxnreg{other}, or another count",
        fixes=(Repair(f"use setmaxnreg{other}", (without_word(site, instruction, action, other),)),),
        # The count at launch is ptxas's choice; another assembler may choose otherwise.
        confidence=Confidence.MEDIUM if start else None,
    ).doubted(_UNHEARD if start and bound(model.function) is None else "")


@check(CV012, needs="setmaxnreg")
def pool_overflow(model: KernelModel) -> Iterator[Hit]:
    """Warps that ask for more registers together than the CTA was launched with."""
    sites, available = model.sites("setmaxnreg"), pool(model.function)
    if not any(raises(model.instruction(i)) for i in sites) or available is None:
        return
    executed: dict[int, int] = {}
    held: dict[int, int] = {}
    """Warp -> the fewest registers of a thread that it may end up with."""
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
    total = 32 * sum(held.values())
    if total <= available:
        return
    site = max(
        (i for i in sites if raises(model.instruction(i))), key=lambda i: requested(model.instruction(i))
    )
    yield CV012.hit(
        site=site,
        message=f"blocks for good: the warps of the CTA ask for {total} registers together, "
        f"and it was launched with {available} at most",
        steps=tuple(
            Mark(
                i,
                f"{requested(model.instruction(i))} for each thread",
                role=model.describe_threads(executed[i]),
            )
            for i in sites
        ),
        help="ask for less here, or give back more in the other warps",
        confidence=None if model.function.threads else Confidence.MEDIUM,
    )


@check(CV013, needs="setmaxnreg", analyses=(HappensBefore,))
def repeated_unsynchronised(model: KernelModel) -> Iterator[Hit]:
    """A setmaxnreg behind another one, with nothing between at which the warps of the warpgroup meet."""
    sites = model.sites("setmaxnreg")
    ends = {*model.fact(HappensBefore).barrier_sites(Scope.WARPS), *calls(model)}
    every = T.full(model.values.threads)
    again = (
        (path.end, i)
        for i in sites
        if (path := path_avoiding(model, i, every, sites, ends).witness) is not None
    )
    for site, before in grouped(again).items():
        yield CV013.hit(
            site=site,
            message="changes the registers of the warp again, and the warps of the warpgroup have not synchronised since",
            steps=(Mark(before[0], "changes them first"), Mark(site, "and again")),
            help="put bar.sync with the 128 threads of the warpgroup between the two",
            about=frozenset((site,)),
        )

"""CTA barriers: their index, their thread count, and how many threads reach them (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._wording import in_words
from tclint.ir.nodes import Immediate
from tclint.isa.effects import Barrier
from tclint.isa.forms import Match
from tclint.values import thread_masks as T

CV010 = RuleId("CV010")
CV011 = RuleId("CV011")

MAX_STEPS = 4
"""Uses of a barrier that a finding shows, besides one with another thread count."""


@check(CV010)
def barrier_operands(model: KernelModel) -> Iterator[Hit]:
    """Barrier indices that are out of range, and thread counts that exceed the size of the CTA."""
    wrong = (
        (fault, i)
        for use in model.function.uses
        if use.match is not None and "id" in use.match.form.roles and not use.match.problem
        for i in use.sites
        if (fault := _wrong(model, use.match, i)) is not None and model.views.context_of(i).threads
    )
    for (message, remedy), sites in grouped(wrong).items():
        yield CV010.hit(site=min(sites), message=message, help=remedy, count=len(sites))


def _wrong(model: KernelModel, match: Match, site: int) -> tuple[str, str] | None:
    """The message and the remedy for a wrong operand of the barrier at *site*; None if both are right or unknown."""
    for role, name in (("id", "barrier index"), ("count", "thread count")):
        known = model.constant_of(site, role)
        if known is None:
            continue
        allowed = match.form.operands[match.form.roles[role]].immediates or ()
        if not any(known in r for r in allowed):
            # PX004 reports an immediate that is out of range.
            return (
                None
                if isinstance(model.instruction(site).role(role), Immediate)
                else (
                    f"{model.name(site)}: the {name} is {known}, but must be {in_words(allowed)}",
                    f"use another {name}",
                )
            )
        limit = model.function.most_threads
        if (
            role == "count"
            and limit is not None
            and known > -(-limit // 32) * 32
            and not model.fact(_Completion).possible(model.constant_of(site, "id"), known)
        ):
            bound = "only" if model.function.threads else "at most"
            return (
                f"{model.name(site)} expects {known} threads, but the CTA has {bound} {limit}: the barrier never completes",
                f"use a thread count of at most {limit}, or raise the thread bound of the kernel",
            )
    return None


class _Completion:
    """Which phases of CTA barriers may complete."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._sites = grouped(
            ((model.constant_of(i, "id"), model.constant_of(i, "count")), i)
            for i in model.arrives(Barrier.CTA)
        )
        """Number and count -> the barriers that state them; None: unknown."""
        self._possible: dict[tuple[int | None, int], bool] = {}

    def possible(self, number: int | None, count: int) -> bool:
        """Whether *count* threads may arrive at a barrier: a warp may arrive twice in a phase, without waiting."""
        if (number, count) not in self._possible:
            alike = [
                i
                for (id, expected), sites in self._sites.items()
                if expected in (count, None) and (number is None or id in (number, None))
                for i in sites
            ]
            reaching = _max_threads(self.model, sorted(alike))
            self._possible[number, count] = reaching is None or reaching >= count
        return self._possible[number, count]


@check(CV011)
def too_few_arrive(model: KernelModel) -> Iterator[Hit]:
    """Named barriers that fewer threads can reach than their thread count, or at which no thread waits."""
    barriers = model.where(lambda e: e.at_barrier)
    if all(model.instruction(i).role("count") is None for i in barriers) or not whole_program(model):
        return  # as in most kernels, whose barriers all wait for the whole CTA
    sites = _named(model, barriers)
    waited = {id for (id, _), found in sites.items() if any(_waits(model, i) for i in found)}
    if None in waited:
        return  # a wait at an unknown barrier may be at any of them
    counts = grouped((id, count) for id, count in sites if id is not None and count is not None)
    for (id, count), found in sites.items():
        if id is None or count is None:
            continue
        others = [i for c in counts[id] if c != count for i in sites[id, c]]
        if id not in waited:
            yield _no_wait(model, id, found)
        elif (None, None) not in sites and (id, None) not in sites and (None, count) not in sites:
            hit = _never_complete(model, id, count, found, others)
            if hit is not None:
                yield hit


def _named(model: KernelModel, barriers: list[int]) -> dict[tuple[int | None, int | None], list[int]]:
    """The barriers with an index operand, by index and thread count.

    Each is None if unknown, and the count also if the barrier has none.
    """
    return grouped(
        ((model.constant_of(site, "id"), model.constant_of(site, "count")), site)
        for site in barriers
        if model.instruction(site).role("id") is not None and model.views.context_of(site).threads
    )


def _waits(model: KernelModel, site: int) -> bool:
    return model.instruction(site).effects.synchronises is not None


def _no_wait(model: KernelModel, id: int, arrivals: list[int]) -> Hit:
    return CV011.hit(
        site=min(arrivals),
        message=f"{model.name(min(arrivals))} arrives at barrier {id}, at which no thread of the kernel waits",
        count=len(arrivals),
        help="execute bar.sync with the same barrier and thread count in the threads that depend on the arrival",
        about=frozenset(arrivals),
    )


def _never_complete(
    model: KernelModel, id: int, count: int, sites: list[int], others: list[int]
) -> Hit | None:
    """A hit for a barrier that waits for more threads than can reach it with that count; None if enough can.

    *sites* use the barrier with this *count*, and *others* with another one.
    """
    reaching, conflicting = _max_threads(model, sites), others[:1]
    if reaching is None or reaching >= count:
        # The threads that reach this barrier also wait at the others, whose smaller count bounds how many they are.
        alike = [i for i in others if len(sites) == 1 and _waits(model, i) and _together(model, i, sites[0])]
        reaching = min((n for i in alike if (n := model.constant_of(i, "count"))), default=count)
        conflicting = alike[:1]
    waits = [i for i in sites if _waits(model, i)]
    if reaching >= count or not waits:
        return None
    return CV011.hit(
        site=min(waits),
        message=f"{model.name(min(waits))} waits for {count} threads at barrier {id}, but at most {reaching} can reach it"
        + (
            f" with that count; others use a count of {model.constant_of(conflicting[0], 'count')}"
            if conflicting
            else ""
        ),
        steps=tuple(
            Mark(
                i,
                f"{'waits' if _waits(model, i) else 'arrives'} with a count of {model.constant_of(i, 'count')}",
                role=model.describe_threads(model.views.context_of(i).threads),
            )
            for i in sorted({*sites[:MAX_STEPS], *conflicting})
        ),
        help="use one thread count at this barrier: the number of waiting threads plus that of arriving threads"
        if conflicting
        else f"use a count of {reaching}, or let the missing threads reach the barrier, too",
        about=frozenset(sites),
    )


def _max_threads(model: KernelModel, sites: list[int]) -> int | None:
    """An upper bound of the arrivals in one phase of the barrier at *sites*, in threads; None if one may arrive in each
    iteration of a loop.
    """
    cfg, waiting, arriving = model.cfg, 0, 0
    for site in sites:
        threads = T.whole(model.views.context_of(site).threads, 32)
        if _waits(model, site):
            waiting |= threads
        elif cfg.block_of[site] in cfg.in_cycle:
            return None  # a thread that does not wait may arrive again in the next iteration
        else:
            arriving += threads.bit_count()
    return waiting.bit_count() + arriving


def _together(model: KernelModel, a: int, b: int) -> bool:
    """Whether the same threads execute *a* and *b*."""
    if model.instruction(a).guard >= 0 or model.instruction(b).guard >= 0:
        return False
    cfg = model.cfg
    first, second = sorted((cfg.block_of[a], cfg.block_of[b]), key=lambda block: cfg.rank[block])
    after = first
    while after not in (second, -1):
        after = cfg.ipdom.get(after, -1)
    return after == second and cfg.dominates(first, second)

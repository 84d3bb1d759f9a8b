"""Barriers of a CTA: which one, how many threads it waits for, and how many come (PTX ISA 9.7.13.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.analyses.model import KernelModel
from tclint.analyses.role_paths import whole_program
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._wording import in_words
from tclint.ir.nodes import Immediate
from tclint.isa.table import Match
from tclint.values import thread_masks as T

CV010 = RuleId("CV010")
CV011 = RuleId("CV011")


@check(CV010)
def barrier_operands(model: KernelModel) -> Iterator[Hit]:
    """Barriers that do not exist, and thread counts that the CTA can never reach."""
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
    """What is wrong with the operands of the barrier at *site*, and the remedy."""
    for role, name in (("id", "barrier"), ("count", "thread count")):
        known = model.constant_of(site, role)
        if known is None:
            continue
        allowed = match.form.operands[match.form.roles[role]].immediates or ()
        if not any(known in r for r in allowed):
            # A literal out of range is told as any other literal (PX004).
            return (
                None
                if isinstance(model.instruction(site).role(role), Immediate)
                else (f"its {name} is {known}, which is not {in_words(allowed)}", f"use another {name}")
            )
        most = model.function.most_threads
        if role == "count" and most is not None and known > -(-most // 32) * 32:
            bound = "" if model.function.threads else "at most "
            return (
                f"waits for {known} threads, but the CTA has {bound}{most}: the barrier never completes",
                f"count {most} threads at most, or raise the bound of the kernel",
            )
    return None


@check(CV011)
def too_few_arrive(model: KernelModel) -> Iterator[Hit]:
    """Named barriers that fewer threads can come to than are counted, or that nobody waits at."""
    barriers = [i for event in ("barrier-sync", "barrier-arrive") for i in model.sites(event)]
    if all(model.instruction(i).role("count") is None for i in barriers) or not whole_program(model):
        return  # as in most kernels, whose barriers are for the whole CTA
    sites = _named(model, barriers)
    waited = {id for (id, _), found in sites.items() if any(_waits(model, i) for i in found)}
    if None in waited:
        return  # one that is not known may be any of them
    counts = grouped((id, count) for id, count in sites if id is not None and count is not None)
    for (id, count), found in sites.items():
        if id is None or count is None:
            continue
        others = [i for c in counts[id] if c != count for i in sites[id, c]]
        if id not in waited:
            yield _nobody_waits(id, found)
        elif (None, None) not in sites and (id, None) not in sites and (None, count) not in sites:
            hit = _never_complete(model, id, count, found, others)
            if hit is not None:
                yield hit


def _named(model: KernelModel, barriers: list[int]) -> dict[tuple[int | None, int | None], list[int]]:
    """The barriers with a number, by it and their thread count; None: not known, or no count."""
    return grouped(
        ((model.constant_of(site, "id"), model.constant_of(site, "count")), site)
        for site in barriers
        if model.instruction(site).role("id") is not None and model.views.context_of(site).threads
    )


def _waits(model: KernelModel, site: int) -> bool:
    return model.instruction(site).event == "barrier-sync"


def _nobody_waits(id: int, arrivals: list[int]) -> Hit:
    return CV011.hit(
        site=min(arrivals),
        message=f"arrives at barrier {id}, at which no thread of the kernel ever waits",
        count=len(arrivals),
        help="let the threads that depend on it execute bar.sync with the same barrier and thread count",
        about=frozenset(arrivals),
    )


def _never_complete(
    model: KernelModel, id: int, count: int, sites: list[int], others: list[int]
) -> Hit | None:
    """A barrier that waits for more threads than ever come to it with that count."""
    most, why = _most(model, sites), others[:1]
    if most is None or most >= count:
        # Whoever comes here comes to the others too, where fewer are enough.
        alike = [i for i in others if len(sites) == 1 and _waits(model, i) and _together(model, i, sites[0])]
        most = min((n for i in alike if (n := model.constant_of(i, "count"))), default=count)
        why = alike[:1]
    waits = [i for i in sites if _waits(model, i)]
    if most >= count or not waits:
        return None
    return CV011.hit(
        site=min(waits),
        message=f"waits for {count} threads at barrier {id}, but at most {most} ever come with that count"
        + (f", and others with a count of {model.constant_of(why[0], 'count')}" if why else ""),
        steps=tuple(
            Mark(
                i,
                f"{'waits' if _waits(model, i) else 'arrives'} here, with a count of {model.constant_of(i, 'count')}",
                role=model.describe_threads(model.views.context_of(i).threads),
            )
            for i in sorted({*sites[:4], *why})
        ),
        help="use one thread count for all that meet at this barrier: the number of those that wait and those that arrive",
        about=frozenset(sites),
    )


def _most(model: KernelModel, sites: list[int]) -> int | None:
    """How many threads come to one of *sites* at most; None when some may come twice."""
    cfg, waiting, arriving = model.cfg, 0, 0
    for site in sites:
        threads = T.whole(model.views.context_of(site).threads, 32)
        if _waits(model, site):
            waiting |= threads
        elif cfg.block_of[site] in cfg.in_cycle:
            return None  # who does not wait may arrive again
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

"""Checks of what completes a phase of an mbarrier: arrivals, and bytes of transactions (PTX ISA 9.7.13.15.2,
9.7.13.15.5).

A phase completes when no arrival is pending and the tx-count is zero. ``expect_tx`` raises the tx-count, and a copy
that completes on the mbarrier (``complete_tx``) lowers it. A *ring* is an array of mbarriers that the same instructions
use in turn, and each of its mbarriers is a *stage*. A *delivery* is what one set of threads expects and copies between
two of its waits, so in one phase.

Byte counts are compared only if the sizes of all copies of a phase are known. The size of a tensor copy is not in the
text: expectations for copies of the same tensor maps are compared with each other, and with the space and the row width
of the matrices that are read there. Operations whose conditions differ may belong to different phases, and are not
compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from tclint._named_tuple import NamedTuple
from tclint.analyses.bulk_rings import WIDEST, Rooms, rows
from tclint.analyses.execution import branches
from tclint.analyses.issuers import by_several_threads, same_in_all_lanes
from tclint.analyses.mbarriers import (
    RESPONSE,
    Arrivals,
    Delivery,
    MbarrierObject,
    Mbarriers,
    Ring,
    first_waits_for,
)
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._wording import times
from tclint.findings.edits import Repair, operand
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Immediate
from tclint.isa.effects import Query, Resource
from tclint.values import PathCondition
from tclint.values import thread_masks as T
from tclint.values.nodes import Logic, Negation, Node

MB004 = RuleId("MB004")
MB005 = RuleId("MB005")
MB006 = RuleId("MB006")
MB008 = RuleId("MB008")

__all__ = []


Condition = frozenset[tuple[int, bool]]


class _Conditions:
    """The predicates, with their values, under which instructions are executed."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._known: dict[int, Condition] = {}

    def of(self, site: int) -> Condition:
        if site not in self._known:
            self._known[site] = self._find(site)
        return self._known[site]

    def _find(self, site: int) -> Condition:
        cfg, values, views = self.model.cfg, self.model.values, self.model.views
        decided = [
            (views.reachability.edge_predicate(edge), edge.value)
            for edge in cfg.control_dependences(cfg.block_of[site])
        ]
        instruction = self.model.instruction(site)
        if instruction.guard >= 0:
            decided.append((values.before(instruction.guard, site), not instruction.negated))
        facts = PathCondition()
        for p, truth in decided:
            if p is not None:
                facts = values.refine(p, truth, facts)
        return frozenset(
            (p, truth)
            for p, truth in facts.items()
            if values.mask(p) is None and not _implies_operands(values.node(p), truth)
        )


def _condition(model: KernelModel, site: int) -> Condition:
    """The condition under which *site* is executed, apart from the thread index.

    Two sites with equal conditions are executed together or not at all.
    """
    return model.fact(_Conditions).of(site)


def _implies_operands(node: Node, truth: bool) -> bool:
    """True if the value *truth* of a predicate determines the values of its operands."""
    return type(node) is Negation or (type(node) is Logic and node.name == ("and" if truth else "or"))


# ---------------------------------------------------------------- arrivals


@check(MB006, MB008, analyses=(Mbarriers,))
def arrivals(model: KernelModel) -> Iterator[Hit]:
    """Report phases whose number of arrivals differs from the count of the mbarrier.

    One hit stands for the mbarriers of all warps that execute the same instructions.
    """
    mbarriers = model.fact(Mbarriers)
    if not model.function.entry or not mbarriers.objects:
        return
    hits = (hit for ring in mbarriers.rings if (hit := _counted_wrongly(model, mbarriers, ring)) is not None)
    for equivalent in grouped(((hit.site, hit.message, hit.about), hit) for hit in hits).values():
        yield replace(equivalent[0], count=len(equivalent)) if len(equivalent) > 1 else equivalent[0]


def _counted_wrongly(model: KernelModel, mbarriers: Mbarriers, ring: Ring) -> Hit | None:
    """The first finding about the arrivals at a ring; None if there is none."""
    if not ring.waits or _reinitialised(model, ring):
        return None
    uneven = _uneven(model, mbarriers, ring)
    if uneven is not None:
        return uneven
    found = (_miscounted(model, mbarriers, ring, stage) for stage in ring.stages)
    return next((hit for hit in found if hit is not None), None)


def _reinitialised(model: KernelModel, ring: Ring) -> bool:
    """True if the memory may be initialised again after an mbarrier.inval, perhaps with another count."""
    ends = ring.where(lambda effects: effects.resource is Resource.MBARRIER_INVAL)
    return any(model.reaches(i, j) for i in ends for j in ring.inits)


def _uneven(model: KernelModel, mbarriers: Mbarriers, ring: Ring) -> Hit | None:
    """The finding about a ring whose stages differ in count, although threads arrive at each in turn; or None."""
    counts = [(stage.count, stage.inits[0]) for stage in ring.stages]
    numbers = Counter(count for count, _ in counts)
    if len(numbers) < 2 or None in numbers or 0 in numbers:
        return None  # MB003 reports a count of 0
    every = set(ring.stages)
    if all(set(mbarriers.named(i)) != every for i in mbarriers.arriving):
        return None  # the index may be known less precisely than it is
    usual = max(numbers, key=lambda n: numbers[n])
    odd, site = next((n, i) for n, i in counts if n != usual)
    other = next(i for n, i in counts if n == usual)
    return MB006.hit(
        site=site,
        message=f"{model.name(site)} expects {times(odd)}, but other stages of the same ring expect {usual}: "
        "the same threads arrive at each in turn",
        steps=(Mark(other, f"expects {times(usual)}"), Mark(site, f"expects {times(odd)}")),
        help="give all stages of the ring the same count in mbarrier.init",
        fixes=(
            Repair(
                f"use count {usual} for all stages",
                tuple(
                    operand(i, "count", str(usual)) for s in ring.stages if s.count != usual for i in s.inits
                ),
            ),
        ),
        about=frozenset((site,)),
    )


def _miscounted(model: KernelModel, mbarriers: Mbarriers, ring: Ring, stage: MbarrierObject) -> Hit | None:
    """The finding about a phase of *stage* with too few arrivals, or too many; None if neither is certain."""
    bounds = mbarriers.arrivals(stage)
    if bounds is None or not stage.count:
        return None
    arriving = mbarriers.arriving_at(stage)
    # Without an arrival, a copy shows where one would be: it completes bytes only.
    copies = [i for i in mbarriers.copies(ring) if stage in mbarriers.named(i)] if not arriving else []
    steps = (
        Mark(stage.inits[0], f"expects {times(stage.count)} in each phase"),
        *(Mark(i, "arrives", role=model.describe_threads(mbarriers.named(i)[stage])) for i in arriving),
        *(_mark(model, i, "completes its bytes on the mbarrier, but does not arrive") for i in copies[:1]),
    )
    # Without .reqntid the CTA may have fewer or more threads than assumed here.
    confidence = None if model.function.threads else Confidence.MEDIUM
    if bounds.most is not None and not bounds.usual(stage.count) and stage.count > bounds.least:
        wait = _first_wait(model, mbarriers, ring, stage)
        return None if wait is None else _too_few(model, stage, bounds, wait, steps, confidence)
    if bounds.least > stage.count and not _alternatives(model, arriving):
        about = (*ring.where(lambda effects: effects.expects), *arriving)
        hit = _too_many(stage, stage.count, bounds, about, steps, confidence)
        arrive = [mbarriers.named(i)[stage] for i in arriving]
        return hit.doubted("" if model.function.threads else _fits_smaller_cta(stage.count, arrive))
    return None


def _fits_smaller_cta(count: int, arrive: list[int]) -> str:
    """The doubt that a smaller CTA, which the thread bound allows, performs *count* arrivals; "" if none does."""
    for threads in range(32, max(arrive, default=0).bit_length(), 32):
        if sum((mask & T.full(threads)).bit_count() for mask in arrive) == count:
            return f"in a CTA of {threads} threads, which the bound allows, the arrivals of a phase match the count"
    return ""


def _alternatives(model: KernelModel, arriving: list[int]) -> bool:
    """True if arrivals in one block have different conditions."""
    conditions: dict[int, Condition] = {}
    return any(
        conditions.setdefault(model.cfg.block_of[i], condition) != condition
        for i in arriving
        for condition in (_condition(model, i),)
    )


def _first_wait(model: KernelModel, mbarriers: Mbarriers, ring: Ring, stage: MbarrierObject) -> int | None:
    """A wait for the first phase of *stage* that names this stage alone or the whole ring; None without one."""
    whole = (1, len(ring.stages))
    for wait in ring.waits:
        named = mbarriers.named(wait)
        if stage in named and len(named) in whole and first_waits_for(model, wait, 0):
            return wait
    return None


def _too_few(
    model: KernelModel,
    stage: MbarrierObject,
    bounds: Arrivals,
    wait: int,
    steps: tuple[Mark, ...],
    confidence: Confidence | None,
) -> Hit:
    count = stage.count
    assert count is not None
    fewer = max(n + bounds.open for n in bounds.known if n + bounds.open < count)
    skipped = _skipped(model, [mark.site for mark in steps[1:]], count - fewer)
    return MB006.hit(
        site=wait,
        message=f"{model.name(wait)} waits for a phase that never completes: "
        f"the mbarrier expects {times(count)}, but a phase receives {fewer or 'none'}",
        steps=(
            *steps,
            *skipped,
            Mark(wait, f"waits for {times(count)}"),
        ),
        help="set the count of mbarrier.init to the number of arrivals in a phase"
        + (", or let the threads that skip the arrival arrive, too" if skipped else ""),
        fixes=_counted(stage, bounds),
        about=frozenset(stage.inits),
        confidence=confidence,
        severity=Severity.WARNING if bounds.most is not None and count <= bounds.most else None,
    )


def _skipped(model: KernelModel, arriving: Sequence[int], missing: int) -> tuple[Mark, ...]:
    """The step about the branch at which as many threads as arrivals are *missing* pass by one that is *arriving*."""
    for i in arriving:
        for condition in branches(model, model.cfg.block_of[i]):
            mask = model.values.mask(model.values.before(condition.register, condition.at))
            if mask is not None:
                threads = model.present(condition.at) & (~mask if condition.value else mask)
                if threads.bit_count() == missing:
                    who = model.describe_threads(threads)
                    return (Mark(condition.at, "skip the arrival", role=who, object="", aside=True),)
    return ()


def _counted(stage: MbarrierObject, bounds: Arrivals) -> tuple[Repair, ...]:
    """The fix that sets the count with which every phase completes; empty if there is no single one."""
    if bounds.least < 1 or bounds.most != bounds.least:
        return ()
    changes = tuple(operand(i, "count", str(bounds.least)) for i in stage.inits)
    return (Repair(f"use count {bounds.least} in mbarrier.init", changes),)


def _too_many(
    stage: MbarrierObject,
    count: int,
    bounds: Arrivals,
    about: Sequence[int],
    steps: tuple[Mark, ...],
    confidence: Confidence | None,
) -> Hit:
    """The hit about the instructions that arrive or expect bytes, at the last of them."""
    phases, rest = divmod(bounds.least, count)
    return (MB006 if rest else MB008).hit(
        site=about[-1],
        message=(
            f"the mbarrier expects {times(count)}, but a phase receives {bounds.least}: "
            "it completes too early, and the excess counts towards the next phase"
            if rest
            else f"the arrivals of one path complete {phases} phases of the mbarrier with no intervening wait, so a wait "
            "may miss its phase"
        ),
        steps=steps,
        help="set the count of mbarrier.init to the number of arrivals in a phase, or let one thread arrive",
        fixes=_counted(stage, bounds),
        about=frozenset(about),
        confidence=confidence,
    )


# ---------------------------------------------------------------- bytes


@check(MB004, MB005, analyses=(Mbarriers, Rooms))
def transactions(model: KernelModel) -> Iterator[Hit]:
    """Report phases whose expected bytes differ from what their copies transfer."""
    mbarriers = model.fact(Mbarriers)
    if not model.function.entry or not mbarriers.objects:
        return
    if any(_counts_bytes(model, i) for i in mbarriers.unresolved):
        return  # it may count at any of the mbarriers
    rest: dict[Ring, list[Delivery] | None] = {}
    for ring in mbarriers.rings:
        if not ring.waits or not mbarriers.copies(ring):
            continue
        known = [found for stage in ring.stages if (found := mbarriers.deliveries(stage)) is not None]
        split = [[part for delivery in found for part in _parts(model, delivery)] for found in known]
        mistakes = (_mistaken(model, ring, *stage) for stage in zip(known, split, strict=True))
        first = next((mistake for mistake in mistakes if mistake is not None), None)
        if first is not None:
            yield first
        else:
            paid = [parts for parts in split if all(part.expects and part.copies for part in parts)]
            rest[ring] = [part for parts in paid for part in parts] if known else None
    reported = set[int]()
    for hit in (*_inconsistent(model, rest), *_oversized(model, rest), *_partial_rows(model, rest)):
        if hit.site not in reported:
            reported |= hit.about
            yield hit


def _counts_bytes(model: KernelModel, site: int) -> bool:
    """True if the instruction at *site* performs expect_tx or complete_tx on an mbarrier."""
    instruction = model.instruction(site)
    return instruction.effects.transacts or instruction.role("tx") is not None


def _mistaken(
    model: KernelModel, ring: Ring, deliveries: list[Delivery], parts: list[Delivery]
) -> Hit | None:
    """The finding about one stage of *ring*, or None. *parts* are its *deliveries*, divided by condition."""
    copies = [i for d in deliveries for i in d.copies]
    if not copies:
        return None
    if any(d.expects for d in deliveries):
        hit = _compared(model, ring, parts)
        copies = [] if hit is not None else _unpaid(model, ring, deliveries, parts)
        if not copies:
            return hit
    elsewhere = " for this copy" if any(d.expects for d in deliveries) else ""
    wait = ring.waits[0]
    return MB005.hit(
        site=copies[0],
        message=f"{model.name(copies[0])} completes its bytes on an mbarrier that expects none{elsewhere}: "
        "the phase completes on arrivals alone, so a wait may return before the bytes have arrived",
        steps=(
            _mark(model, copies[0], "completes its bytes on the mbarrier"),
            _mark(model, wait, "waits for the mbarrier"),
        ),
        help="raise the expected bytes first, by mbarrier.arrive.expect_tx or mbarrier.expect_tx",
        count=len(copies),
        about=frozenset((*copies, *ring.inits)),  # the arrival may be missing with the bytes
    )


def _unpaid(model: KernelModel, ring: Ring, deliveries: list[Delivery], parts: list[Delivery]) -> list[int]:
    """Copies for which their thread expects nothing in their phase, although it expects bytes for other copies."""
    if len({d.threads for d in deliveries}) > 1 or any(p.expects and not p.copies for p in parts):
        return []
    block_of = model.cfg.block_of
    paid = {block_of[i] for d in deliveries for i in d.expects}
    for part in parts:
        if not part.expects and part.copies:
            around = model.cfg.innermost(*map(block_of.__getitem__, part.copies))
            if (around and paid.isdisjoint(around)) or _completed_by_issuer(model, ring, deliveries, part):
                return part.copies
    return []


def _completed_by_issuer(model: KernelModel, ring: Ring, deliveries: list[Delivery], part: Delivery) -> bool:
    """True if the issuing thread completes the phase of the copies itself, as it does wherever it expects bytes."""
    mbarriers = model.fact(Mbarriers)
    arrivals = [i for i in mbarriers.arriving if i in ring.uses and ring.uses[i].commits is None]
    expects = [i for d in deliveries for i in d.expects]
    threads = {model.views.context_of(i).threads for i in arrivals}
    if len(threads) != 1 or any(ring.count != t.bit_count() or part.threads & ~t for t in threads):
        return False  # a thread arrives several times in a phase, or not in every phase
    for bunch in mbarriers.between_waits({*arrivals, *expects, *part.copies}):
        raised = [i for i in bunch if i in expects]
        last = max((i for i in bunch if i in arrivals), default=-1)
        if last < max(raised, default=0) or (raised and not set(bunch).isdisjoint(part.copies)):
            return False
    return True


def _mark(model: KernelModel, site: int, message: str) -> Mark:
    return Mark(site, message, role=model.describe_threads(model.views.context_of(site).threads))


def _parts(model: KernelModel, delivery: Delivery) -> list[Delivery]:
    """A delivery divided by the condition under which its bytes are expected and copied."""
    parts: dict[Condition, Delivery] = {}
    for site in (*delivery.expects, *delivery.copies):
        part = parts.setdefault(_condition(model, site), Delivery(delivery.threads, [], []))
        (part.expects if site in delivery.expects else part.copies).append(site)
    return list(parts.values())


_REMEDY = "expect the sum of the bytes of all copies that complete on the mbarrier in this phase"
_ISSUED_ONCE = (
    "issue the copy from one thread, under the predicate of elect.sync in one warp: each of the threads that execute it "
    "copies the same bytes to the same place (BK006)"
)


def _compared(model: KernelModel, ring: Ring, deliveries: list[Delivery]) -> Hit | None:
    """The finding about a group of deliveries whose sizes are known and differ from what they expect; None without one.

    A group is the delivery of one set of threads between two waits, or all of them if some threads only expect or copy.
    """
    groups = [[d] for d in deliveries if d.expects and d.copies]
    if len(groups) < len(deliveries):
        if len({_condition(model, i) for d in deliveries for i in (*d.expects, *d.copies)}) > 1:
            return None  # some of them may be executed without the others
        if any(a.threads & b.threads for k, a in enumerate(deliveries) for b in deliveries[:k]):
            return None  # which of them belong to the same phase is unknown
        groups = [deliveries]
    values = model.values
    for group in groups:
        expected, copied = _total(model, group, "tx"), _total(model, group, "bytes")
        if expected is None or copied is None:
            continue
        difference = values.constant_of(values.add(expected, values.times(copied, -1)))
        if difference:
            expects = list(dict.fromkeys(i for d in group for i in d.expects))
            copies = list(dict.fromkeys(i for d in group for i in d.copies))
            repeated = any(
                same_in_all_lanes(model, i) for i in chain(*by_several_threads(model, copies).values())
            )
            return MB004.hit(
                site=expects[0],
                message=f"{model.name(expects[0])} "
                + _amounts(values.constant_of(expected), values.constant_of(copied), difference),
                steps=(
                    *(_mark(model, i, _with_bytes(model, i, "tx", "expects")) for i in expects),
                    *(_mark(model, i, _with_bytes(model, i, "bytes", "transfers")) for i in copies),
                ),
                help=_ISSUED_ONCE if repeated else _REMEDY,
                fixes=() if repeated else _expecting(model, expects, values.constant_of(copied)),
                # If an expectation is missing, the arrival that it is part of may be missing, too.
                about=frozenset((*expects, *(ring.inits if difference < 0 else ()))),
            )
    return None


def _with_bytes(model: KernelModel, site: int, role: str, verb: str) -> str:
    """What *site* does to the tx-count, with the number of bytes if it is constant."""
    amount = _amount(model, site, role)
    constant = None if amount is None else model.values.constant_of(amount)
    each = " per thread" if model.views.context_of(site).threads.bit_count() > 1 else ""
    return f"{verb} bytes{each}" if constant is None else f"{verb} {constant} bytes{each}"


def _expecting(model: KernelModel, expects: list[int], copied: int | None) -> tuple[Repair, ...]:
    """The fix that expects what the copies transfer; empty unless one instruction expects it as a constant."""
    if len(expects) != 1 or not isinstance(model.instruction(expects[0]).role("tx"), Immediate):
        return ()
    executions = model.fact(Mbarriers).executions(expects[0])
    if copied is None or len(executions) != 1 or copied % executions[0]:
        return ()
    each, per_thread = copied // executions[0], " in each thread" if executions[0] > 1 else ""
    return (Repair(f"expect {each} bytes{per_thread}", (operand(expects[0], "tx", str(each)),)),)


def _amounts(expected: int | None, copied: int | None, difference: int) -> str:
    """The message about *expected* and *copied* bytes. Either is None if only their *difference* is known."""
    more = difference > 0
    effect = (
        "the phase never completes"
        if more
        else "the phase may complete before the copies have, or never complete"
    )
    if expected is None or copied is None:
        return (
            f"expects {abs(difference)} bytes {'more' if more else 'fewer'} than the copies of the phase "
            f"transfer: {effect}"
        )
    return f"expects {expected} bytes, but the copies of the phase transfer {copied}: {effect}"


def _total(model: KernelModel, group: Iterable[Delivery], role: str) -> int | None:
    """The bytes that are expected (``tx``), or copied (``bytes``), as a value; None if some are unknown."""
    values, total = model.values, model.values.constant(0)
    for delivery in group:
        for site in delivery.expects if role == "tx" else delivery.copies:
            amount = _amount(model, site, role)
            if amount is None:
                return None
            total = values.add(total, values.times(amount, delivery.threads.bit_count()))
    return total


def _amount(model: KernelModel, site: int, role: str) -> int | None:
    """What one thread expects (``tx``) or completes (``bytes``) at *site*, as a value; None if unknown."""
    match, amount = model.instruction(site).match, model.value(site, role)
    if role == "tx" or match is None:
        return amount
    if match.form.effects.query is Query.CANCEL:
        return model.values.constant(RESPONSE)
    if match.form.scope != "thread":
        return None
    unit = match.transaction_unit
    constant = None if amount is None else model.values.constant_of(amount)
    return amount if unit == 1 else None if constant is None else model.values.constant(constant // unit)


Rest = Mapping[Ring, list[Delivery] | None]
"""What is expected and copied together at each ring, for stages whose parts have both; None if none is known."""


def _oversized(model: KernelModel, rings: Rest) -> Iterator[Hit]:
    """Report expectations of more bytes than tensor copies can write before they run into the next stage."""
    for ring, parts in rings.items():
        for part in parts or ():
            total = _sum(model, part.expects)
            expected = None if total is None else model.values.constant_of(total)
            if expected is None or part.threads.bit_count() != 1:
                continue
            most = model.fact(Rooms).of(ring, part.copies)
            if not all(i in most for i in part.copies):
                continue
            fits = sum(model.constant_of(i, "bytes") or most[i] for i in part.copies)
            if expected > fits:
                yield MB004.hit(
                    site=part.expects[0],
                    message=f"{model.name(part.expects[0])} expects {expected} bytes, but only {fits} fit between the destinations of the "
                    "copies and the data that follows: the phase never completes, or the copies overwrite other data",
                    steps=(
                        *(_mark(model, i, _with_bytes(model, i, "tx", "expects")) for i in part.expects),
                        *(
                            _mark(model, i, f"its destination has room for {most[i]} bytes")
                            for i in part.copies
                        ),
                    ),
                    help=_REMEDY,
                    about=frozenset(part.expects),
                    confidence=Confidence.MEDIUM,
                )
                break


def _partial_rows(model: KernelModel, rings: Rest) -> Iterator[Hit]:
    """Report expectations that are not a multiple of the rows of the matrices that tensor copies fill.

    All threads that execute an instruction add to what the phase expects, and so may all other instructions.
    """
    mbarriers = model.fact(Mbarriers)
    for ring in rings:
        expects = mbarriers.expects(ring)
        expected = {i: model.constant_of(i, "tx") for i in expects}
        odd = {i: number for i, number in expected.items() if number is not None and number % WIDEST}
        # A response of clusterlaunchcontrol is a few bytes that belong to no matrix.
        asked = any(model.instruction(i).effects.query is Query.CANCEL for i in mbarriers.copies(ring))
        row, read = (
            rows(model, ring)
            if odd and not asked and not ring.where(lambda effects: effects.completes)
            else (1, -1)
        )
        if row <= RESPONSE:
            continue
        totals = {i: _remainders(mbarriers, i, expected[i], row) for i in expects}
        for site, number in odd.items():
            if not number % row or 0 in _sums(totals[site], [totals[i] for i in expects if i != site], row):
                continue
            yield MB004.hit(
                site=site,
                message=f"{model.name(site)} expects {_with_executions(mbarriers, site, number)} for copies that each transfer whole rows "
                f"of {row} bytes: the phase may complete before the copies have, or never complete",
                steps=(
                    _mark(model, site, _with_bytes(model, site, "tx", "expects")),
                    *(_mark(model, i, "transfers whole rows") for i in mbarriers.copies(ring)[:2]),
                    _mark(model, read, f"reads rows of {row} bytes, as its descriptor swizzles them"),
                ),
                help=_REMEDY,
                about=frozenset((site,)),
                confidence=Confidence.MEDIUM,
            )


def _remainders(mbarriers: Mbarriers, site: int, number: int | None, row: int) -> set[int]:
    """The remainders, divided by *row*, of the bytes that a phase may expect at *site*, where a thread expects *number*."""
    if number is None:
        return set(range(row))
    return {number * times % row for times in mbarriers.executions(site)[:row]}


def _sums(totals: set[int], others: Iterable[set[int]], row: int) -> set[int]:
    """The remainders of one of *totals* and at most one of each of *others* together."""
    for other in others:
        totals = totals.union((a + b) % row for a in totals for b in other)
    return totals


def _with_executions(mbarriers: Mbarriers, site: int, number: int) -> str:
    """The bytes that a phase expects at *site*, in words: ``24 bytes``, ``24 bytes in each of 128 threads``."""
    threads = mbarriers.executions(site)
    return f"{number} bytes" + (f" in each of {threads[0]} threads" if len(threads) == 1 < threads[0] else "")


class _Expectation(NamedTuple):
    """An instruction that expects the bytes of tensor copies."""

    site: int
    amount: int
    """As a value."""


def _inconsistent(model: KernelModel, rings: Rest) -> Iterator[Hit]:
    """Report expectations that differ from most others for the same tensor copies: a box always has the same size."""
    equivalent: dict[tuple[Hashable, ...], dict[int, _Expectation]] = {}
    for ring, parts in rings.items():
        for key, expectation in _expectations(model, ring, parts):
            equivalent.setdefault(key, {}).setdefault(expectation.site, expectation)
    for key, those in equivalent.items():
        amounts = Counter(expectation.amount for expectation in those.values())
        usual, frequency = amounts.most_common(1)[0]
        other = next(expectation for expectation in those.values() if expectation.amount == usual)
        if len(key) > 1 and (frequency == 1 or len(amounts) > 2):
            continue  # the copies of other CTAs are unknown
        for expectation in those.values():
            more = _difference(model, expectation.amount, usual)
            if more:
                yield _unlike_others(model, expectation, other, more)
                break


def _expectations(
    model: KernelModel, ring: Ring, parts: list[Delivery] | None
) -> Iterator[tuple[tuple[Hashable, ...], _Expectation]]:
    """The expectations for copies to *ring*, each with the key that it shares with those it must agree with."""
    for part in model.fact(Mbarriers).wait_free_deliveries(ring) if parts is None else parts:
        maps, amount = _maps(model, part.copies), _sum(model, part.expects)
        if maps and part.expects and amount is not None:
            # Other CTAs may copy to the ring as well. How much is unknown, but equal under equal conditions.
            equivalent = (
                ()
                if parts is not None
                else (ring, *_invariant_conditions(model, part), *_shares(model, part))
            )
            yield (maps, *equivalent), _Expectation(part.expects[0], amount)


def _invariant_conditions(model: KernelModel, part: Delivery) -> Iterator[Condition]:
    """The loop-invariant part of the condition of each instruction of *part*."""
    for site in (*part.expects, *part.copies):
        yield frozenset(fact for fact in _condition(model, site) if not model.values.varying_at(fact[0]))


def _shares(model: KernelModel, part: Delivery) -> Iterator[range]:
    """The number of threads that execute each instruction of *part*: equal sums need equal shares of each thread."""
    yield from map(model.fact(Mbarriers).executions, (*part.expects, *part.copies))


def _sum(model: KernelModel, expects: list[int]) -> int | None:
    """The bytes that one thread expects at all of *expects*, as a value; None if some are unknown."""
    total = model.values.constant(0)
    for site in expects:
        amount = model.value(site, "tx")
        if amount is None:
            return None
        total = model.values.add(total, amount)
    return total


def _difference(model: KernelModel, a: int, b: int) -> int | None:
    """The difference of two values; None if it is not constant."""
    return model.values.constant_of(model.values.add(a, model.values.times(b, -1)))


def _unlike_others(model: KernelModel, odd: _Expectation, usual: _Expectation, more: int) -> Hit:
    here, there = (model.values.constant_of(e.amount) for e in (odd, usual))
    if here is None or there is None:
        mark, reference = (
            f"{abs(more)} bytes {'more' if more > 0 else 'fewer'}",
            "expects bytes for the same copies",
        )
        message = f"expects {mark} than is expected elsewhere for the same copies"
    else:
        mark, reference = f"{here} bytes", f"expects {there} bytes for the same copies"
        message = f"expects {mark} for copies for which {there} are expected elsewhere"
    return MB004.hit(
        site=odd.site,
        message=f"{model.name(odd.site)} {message}: a copy through a tensor map always transfers its whole box",
        steps=(_mark(model, usual.site, reference), _mark(model, odd.site, f"expects {mark}")),
        help=_REMEDY,
        about=frozenset((odd.site, usual.site)),
    )


def _maps(model: KernelModel, copies: list[int]) -> tuple[tuple[str, int], ...]:
    """The opcode and the tensor map of each copy, sorted; empty if a tensor map is unknown or varies."""
    found = []
    for site in copies:
        tensor_map = model.value(site, "tensormap")
        if tensor_map is None or model.values.varying_at(tensor_map):
            return ()
        found.append((model.instruction(site).opcode, tensor_map))
    return tuple(sorted(found))

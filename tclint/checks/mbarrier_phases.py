"""Checks of what completes a phase of an mbarrier: arrivals, and bytes of transactions (PTX ISA 9.7.13.15.2, 9.7.13.15.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from tclint.analyses.bulk_rings import WIDEST, room, rows
from tclint.analyses.mbarriers import RESPONSE, Arrivals, Delivery, Mbarrier, Mbarriers, Ring, first_parity
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import times
from tclint.findings.edits import Repair, operand
from tclint.findings.scales import Confidence, Severity
from tclint.ir.nodes import Immediate
from tclint.values import PathCondition
from tclint.values import thread_masks as T

MB004 = RuleId("MB004")
MB005 = RuleId("MB005")
MB006 = RuleId("MB006")
MB008 = RuleId("MB008")

__all__ = []


Condition = frozenset[tuple[int, bool]]


class _Conditions:
    """What decides whether instructions are executed."""

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
            if values.mask(p) is None and not _says_it_all(values.node(p), truth)
        )


def _condition(model: KernelModel, site: int) -> Condition:
    """What decides whether *site* is executed, but for the thread index: of two places with the same, none comes alone."""
    return model.fact(_Conditions).of(site)


def _says_it_all(node: tuple[Any, ...], truth: bool) -> bool:
    """Whether that a predicate is so says what those are that it is made of."""
    return node[0] == "not" or node[:2] == ("logic", "and" if truth else "or")


# ---------------------------------------------------------------- arrivals


@check(MB006, MB008, needs="mbarrier", analyses=(Mbarriers,))
def arrivals(model: KernelModel) -> Iterator[Hit]:
    """Phases that get other numbers of arrivals than the mbarrier was made for."""
    mbarriers = model.fact(Mbarriers)
    if not model.function.entry or not mbarriers.sites.get("mbarrier-init"):
        return
    for ring in mbarriers.rings:
        if not ring.uses.get("mbarrier-wait") or _made_again(model, ring):
            continue
        unlike = _unlike(mbarriers, ring)
        if unlike is not None:
            yield unlike
            continue
        found = (_miscounted(model, mbarriers, ring, stage) for stage in ring.stages)
        yield from islice((hit for hit in found if hit is not None), 1)


def _made_again(model: KernelModel, ring: Ring) -> bool:
    """Whether the same memory becomes an mbarrier again, with another count perhaps."""
    return any(model.reaches(i, j) for i in ring.uses.get("mbarrier-inval", ()) for j in ring.inits)


def _unlike(mbarriers: Mbarriers, ring: Ring) -> Hit | None:
    """Stages of one ring that were made for different numbers of arrivals, by a thread that arrives at each in turn."""
    counts = [(stage.count, stage.inits[0]) for stage in ring.stages]
    numbers = Counter(count for count, _ in counts)
    if len(numbers) < 2 or None in numbers or 0 in numbers:
        return None  # MB003 tells of a count of 0
    every = set(ring.stages)
    if all(set(mbarriers.named(i)) != every for i in mbarriers.arriving):
        return None  # an index may be known less well than it is
    usual = max(numbers, key=lambda n: numbers[n])
    odd, site = next((n, i) for n, i in counts if n != usual)
    other = next(i for n, i in counts if n == usual)
    return MB006.hit(
        site=site,
        message=f"counts {times(odd)}, and other stages of the same ring count {usual}: "
        "the same threads arrive at each in turn",
        steps=(Mark(other, f"counts {times(usual)}"), Mark(site, f"counts {times(odd)}")),
        help="give all stages of the ring the same count in mbarrier.init",
        fixes=(
            Repair(
                f"count {usual} at all stages",
                tuple(
                    operand(i, "count", str(usual)) for s in ring.stages if s.count != usual for i in s.inits
                ),
            ),
        ),
        about=frozenset((site,)),
    )


def _miscounted(model: KernelModel, mbarriers: Mbarriers, ring: Ring, stage: Mbarrier) -> Hit | None:
    """A phase of *stage* that gets fewer arrivals than it needs, or more."""
    bounds = mbarriers.arrivals(stage)
    if bounds is None or not stage.count:
        return None
    arriving = [i for i in mbarriers.arriving if stage in mbarriers.named(i)]
    steps = (
        Mark(stage.inits[0], f"counts {times(stage.count)} for each phase"),
        *(Mark(i, "arrives", role=model.describe_threads(mbarriers.named(i)[stage])) for i in arriving),
    )
    # Without .reqntid there may be fewer threads than are counted here, or more.
    confidence = None if model.function.threads else Confidence.MEDIUM
    if bounds.most is not None and not bounds.usual(stage.count) and stage.count > bounds.least:
        wait = _first_wait(model, mbarriers, ring, stage)
        return None if wait is None else _too_few(stage, stage.count, bounds, wait, steps, confidence)
    if bounds.least > stage.count and not _alternatives(model, arriving):
        about = (*arriving, *ring.uses.get("mbarrier-expect", ()))
        hit = _too_many(stage, stage.count, bounds, arriving[-1], steps, confidence, frozenset(about))
        arrive = [mbarriers.named(i)[stage] for i in arriving]
        return hit.doubted("" if model.function.threads else _fewer(stage.count, arrive))
    return None


def _fewer(count: int, arrive: list[int]) -> str:
    """What speaks against too many arrivals where a bound is taken for the size of the CTA: the count may say what it is."""
    for threads in range(32, max(arrive, default=0).bit_length(), 32):
        if sum((mask & T.full(threads)).bit_count() for mask in arrive) == count:
            return (
                f"a CTA of {threads} threads, which the bound allows, gets just as many arrivals as it counts"
            )
    return ""


def _alternatives(model: KernelModel, arriving: list[int]) -> bool:
    """Whether of arrivals in one block a condition chooses some."""
    conditions: dict[int, Condition] = {}
    return any(
        conditions.setdefault(model.cfg.block_of[i], condition) != condition
        for i in arriving
        for condition in (_condition(model, i),)
    )


def _first_wait(model: KernelModel, mbarriers: Mbarriers, ring: Ring, stage: Mbarrier) -> int | None:
    """What waits for the first phase of *stage* to complete, and is not for other mbarriers."""
    whole = (1, len(ring.stages))
    for wait in ring.uses["mbarrier-wait"]:
        named = mbarriers.named(wait)
        if stage in named and len(named) in whole and first_parity(model, wait) == 0:
            return wait
    return None


def _too_few(
    stage: Mbarrier,
    count: int,
    bounds: Arrivals,
    wait: int,
    steps: tuple[Mark, ...],
    confidence: Confidence | None,
) -> Hit:
    fewer = max(n + bounds.open for n in bounds.known if n + bounds.open < count)
    return MB006.hit(
        site=wait,
        message="waits for a phase that does not complete: "
        f"the mbarrier counts {times(count)}, and a phase gets {fewer or 'none'}",
        steps=(*steps, Mark(wait, "waits for all of them")),
        help="make the count of mbarrier.init the number of arrivals in a phase",
        fixes=_counted(stage, bounds),
        about=frozenset(stage.inits),
        confidence=confidence,
        severity=Severity.WARNING if bounds.most is not None and count <= bounds.most else None,
    )


def _counted(stage: Mbarrier, bounds: Arrivals) -> tuple[Repair, ...]:
    """The only count that all phases complete with."""
    if bounds.least < 1 or bounds.most != bounds.least:
        return ()
    changes = tuple(operand(i, "count", str(bounds.least)) for i in stage.inits)
    return (Repair(f"count {bounds.least} in mbarrier.init", changes),)


def _too_many(
    stage: Mbarrier,
    count: int,
    bounds: Arrivals,
    last: int,
    steps: tuple[Mark, ...],
    confidence: Confidence | None,
    about: frozenset[int],
) -> Hit:
    phases, rest = divmod(bounds.least, count)
    return (MB006 if rest else MB008).hit(
        site=last,
        message=(
            f"the mbarrier counts {times(count)}, and a phase gets {bounds.least}: "
            "it completes too early, and the rest counts for the next"
            if rest
            else f"completes {phases} phases of the mbarrier at once, so that a wait for the first may miss it"
        ),
        steps=steps,
        help="make the count of mbarrier.init the number of arrivals in a phase, or let one thread arrive",
        fixes=_counted(stage, bounds),
        about=about,
        confidence=confidence,
    )


# ---------------------------------------------------------------- bytes


@check(MB004, MB005, needs="mbarrier", analyses=(Mbarriers,))
def transactions(model: KernelModel) -> Iterator[Hit]:
    """Phases that expect other numbers of bytes than the copies bring."""
    mbarriers = model.fact(Mbarriers)
    if not model.function.entry or not mbarriers.sites.get("mbarrier-init"):
        return
    if any(_counts_bytes(model, i) for i in mbarriers.unresolved):
        return  # which may be at any of them
    rest: dict[Ring, list[Delivery] | None] = {}
    for ring in mbarriers.rings:
        if not ring.uses.get("mbarrier-wait") or not mbarriers.copies(ring):
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
    told = set[int]()
    for hit in (*_differ(model, rest), *_oversized(model, rest), *_broken(model, rest)):
        if hit.site not in told:
            told |= hit.about
            yield hit


def _counts_bytes(model: KernelModel, site: int) -> bool:
    """Whether an instruction expects bytes at an mbarrier, or brings them."""
    instruction = model.instruction(site)
    return instruction.event in ("issue", "clc-request") or instruction.role("tx") is not None


def _mistaken(
    model: KernelModel, ring: Ring, deliveries: list[Delivery], parts: list[Delivery]
) -> Hit | None:
    """What is wrong with one stage of *ring*; *parts* of the deliveries are those under the same conditions."""
    copies = [i for d in deliveries for i in d.copies]
    if not copies:
        return None
    if any(d.expects for d in deliveries):
        hit = _compared(model, ring, parts)
        copies = [] if hit is not None else _unpaid(model, ring, deliveries, parts)
        if not copies:
            return hit
    elsewhere = " for them" if any(d.expects for d in deliveries) else ""
    wait = ring.uses["mbarrier-wait"][0]
    return MB005.hit(
        site=copies[0],
        message=f"completes its bytes at an mbarrier that expects none{elsewhere}: "
        "nothing but arrivals holds the phase, and a wait may return before the bytes are there",
        steps=(_mark(model, copies[0], "reports its bytes to the mbarrier"), _mark(model, wait, "waits")),
        help="raise the expected bytes before, by mbarrier.arrive.expect_tx or mbarrier.expect_tx",
        count=len(copies),
        about=frozenset((*copies, *ring.inits)),  # the arrival may be missing with the bytes
    )


def _unpaid(model: KernelModel, ring: Ring, deliveries: list[Delivery], parts: list[Delivery]) -> list[int]:
    """Copies whose thread expects nothing at their mbarrier in their phase, while all that is expected is for others."""
    if len({d.threads for d in deliveries}) > 1 or any(p.expects and not p.copies for p in parts):
        return []
    block_of, loops = model.cfg.block_of, sorted(model.cfg.loops.values(), key=len)
    paid = {block_of[i] for d in deliveries for i in d.expects}
    for part in parts:
        if not part.expects:
            around = next((loop for loop in loops if all(block_of[i] in loop for i in part.copies)), None)
            if (around is not None and paid.isdisjoint(around)) or _let_go(model, ring, deliveries, part):
                return part.copies
    return []


def _let_go(model: KernelModel, ring: Ring, deliveries: list[Delivery], part: Delivery) -> bool:
    """Whether the thread itself completes the phase of the copies, as it does wherever it expects something."""
    mbarriers = model.fact(Mbarriers)
    arrivals = [i for i in mbarriers.arriving if i in ring.uses.get("mbarrier-arrive", ())]
    expects = [i for d in deliveries for i in d.expects]
    threads = {model.views.context_of(i).threads for i in arrivals}
    if len(threads) != 1 or any(ring.count != t.bit_count() or part.threads & ~t for t in threads):
        return False  # a thread arrives several times in a phase, or not in each
    for bunch in mbarriers.between_waits({*arrivals, *expects, *part.copies}):
        raised = [i for i in bunch if i in expects]
        last = max((i for i in bunch if i in arrivals), default=-1)
        if last < max(raised, default=0) or (raised and not set(bunch).isdisjoint(part.copies)):
            return False
    return True


def _mark(model: KernelModel, site: int, message: str) -> Mark:
    return Mark(site, message, role=model.describe_threads(model.views.context_of(site).threads))


def _parts(model: KernelModel, delivery: Delivery) -> list[Delivery]:
    """What is expected and brought under the same conditions."""
    parts: dict[Condition, Delivery] = {}
    for site in (*delivery.expects, *delivery.copies):
        part = parts.setdefault(_condition(model, site), Delivery(delivery.threads, [], []))
        (part.expects if site in delivery.expects else part.copies).append(site)
    return list(parts.values())


_REMEDY = "expect the sum of the bytes of all copies that report to the mbarrier in this phase"


def _compared(model: KernelModel, ring: Ring, deliveries: list[Delivery]) -> Hit | None:
    """Where the sizes of all copies are known: those between two waits of a thread, or all of the threads together."""
    groups = [[d] for d in deliveries if d.expects and d.copies]
    if len(groups) < len(deliveries):
        if len({_condition(model, i) for d in deliveries for i in (*d.expects, *d.copies)}) > 1:
            return None  # some of them may come without the others
        if any(a.threads & b.threads for k, a in enumerate(deliveries) for b in deliveries[:k]):
            return None  # which of them are of one phase is not known
        groups = [deliveries]
    values = model.values
    for group in groups:
        expected, brought = _total(model, group, "tx"), _total(model, group, "bytes")
        if expected is None or brought is None:
            continue
        difference = values.constant_of(values.add(expected, values.times(brought, -1)))
        if difference:
            expects, copies = [i for d in group for i in d.expects], [i for d in group for i in d.copies]
            return MB004.hit(
                site=expects[0],
                message=_amounts(values.constant_of(expected), values.constant_of(brought), difference),
                steps=(
                    *(_mark(model, i, "expects bytes") for i in expects),
                    *(_mark(model, i, "brings bytes") for i in copies),
                ),
                help=_REMEDY,
                fixes=_expecting(model, expects, values.constant_of(brought)),
                # Where bytes are missing, the arrival may be missing with them.
                about=frozenset((*expects, *(ring.inits if difference < 0 else ()))),
            )
    return None


def _expecting(model: KernelModel, expects: list[int], brought: int | None) -> tuple[Repair, ...]:
    """What the copies bring, where one instruction expects it as a constant."""
    if (
        len(expects) != 1
        or brought is None
        or not isinstance(model.instruction(expects[0]).role("tx"), Immediate)
    ):
        return ()
    return (Repair(f"expect {brought} bytes", (operand(expects[0], "tx", str(brought)),)),)


def _amounts(expected: int | None, brought: int | None, difference: int) -> str:
    more = difference > 0
    effect = (
        "the phase never completes"
        if more
        else "the phase may complete before all of them are there, or never"
    )
    if expected is None or brought is None:
        return (
            f"expects {abs(difference)} bytes {'more' if more else 'fewer'} than the copies bring: {effect}"
        )
    return f"expects {expected} bytes, and the copies of the phase bring {brought}: {effect}"


def _total(model: KernelModel, group: Iterable[Delivery], role: str) -> int | None:
    """The bytes that are expected (``tx``), or brought (``bytes``), as a value; None when some are not known."""
    values, total = model.values, model.values.constant(0)
    for delivery in group:
        for site in delivery.expects if role == "tx" else delivery.copies:
            amount = _amount(model, site, role)
            if amount is None:
                return None
            total = values.add(total, values.times(amount, delivery.threads.bit_count()))
    return total


def _amount(model: KernelModel, site: int, role: str) -> int | None:
    if role == "bytes" and model.instruction(site).event == "clc-request":
        return model.values.constant(RESPONSE)
    return model.value(site, role)


Rest = Mapping[Ring, list[Delivery] | None]
"""What is expected and brought together at each ring, in the stages where all is; None: of no stage it is known."""


def _oversized(model: KernelModel, rings: Rest) -> Iterator[Hit]:
    """Places that expect more bytes than tensor copies can bring without running into what lies behind."""
    for ring, parts in rings.items():
        for part in parts or ():
            total = _sum(model, part.expects)
            expected = None if total is None else model.values.constant_of(total)
            if expected is None or part.threads.bit_count() != 1:
                continue
            most = room(model, ring, part.copies)
            if not all(i in most for i in part.copies):
                continue
            fits = sum(model.constant_of(i, "bytes") or most[i] for i in part.copies)
            if expected > fits:
                yield MB004.hit(
                    site=part.expects[0],
                    message=f"expects {expected} bytes, and {fits} fit between the destinations of its copies and what lies "
                    "behind them: the phase never completes, or the copies overwrite other data",
                    steps=(
                        *(_mark(model, i, "expects bytes") for i in part.expects),
                        *(_mark(model, i, f"{most[i]} bytes fit here") for i in part.copies),
                    ),
                    help=_REMEDY,
                    about=frozenset(part.expects),
                    confidence=Confidence.MEDIUM,
                )
                break


def _broken(model: KernelModel, rings: Rest) -> Iterator[Hit]:
    """Places that expect no whole number of rows of the matrices that tensor copies fill."""
    mbarriers = model.fact(Mbarriers)
    for ring in rings:
        expected = {i: model.constant_of(i, "tx") for i in mbarriers.expects(ring)}
        odd = {i: number for i, number in expected.items() if number is not None and number % WIDEST}
        # What is asked of another launch answers with a few bytes, and fills no matrix.
        asked = any(model.instruction(i).event == "clc-request" for i in mbarriers.copies(ring))
        row, read = (
            rows(model, ring) if odd and not asked and "mbarrier-complete" not in ring.uses else (1, -1)
        )
        for site, number in odd.items():
            if row > RESPONSE and number % row:
                yield MB004.hit(
                    site=site,
                    message=f"expects {number} bytes for copies of which each brings whole rows of {row} bytes: "
                    "the phase may complete before all of them are there, or never",
                    steps=(
                        _mark(model, site, f"expects {number} bytes"),
                        *(_mark(model, i, "brings whole rows") for i in mbarriers.copies(ring)[:2]),
                        _mark(model, read, f"reads rows of {row} bytes, as its descriptor swizzles them"),
                    ),
                    help=_REMEDY,
                    about=frozenset((site,)),
                    confidence=Confidence.MEDIUM,
                )


class _Place(NamedTuple):
    """Where bytes are expected for tensor copies."""

    site: int
    amount: int
    """As a value."""


def _differ(model: KernelModel, rings: Rest) -> Iterator[Hit]:
    """Places that expect other numbers of bytes for the same tensor copies than most: a box has the same size each time."""
    alike: dict[tuple[Hashable, ...], dict[int, _Place]] = {}
    for ring, parts in rings.items():
        for key, place in _places(model, ring, parts):
            alike.setdefault(key, {}).setdefault(place.site, place)
    for key, those in alike.items():
        amounts = Counter(place.amount for place in those.values())
        usual, times = amounts.most_common(1)[0]
        other = next(place for place in those.values() if place.amount == usual)
        if len(key) > 1 and (times == 1 or len(amounts) > 2):
            continue  # what other CTAs bring is not seen
        for place in those.values():
            more = _apart(model, place.amount, usual)
            if more:
                yield _unlike_others(model, place, other, more)
                break


def _places(
    model: KernelModel, ring: Ring, parts: list[Delivery] | None
) -> Iterator[tuple[tuple[Hashable, ...], _Place]]:
    """Where bytes of copies to *ring* are expected, with what makes two places alike."""
    for part in model.fact(Mbarriers).stretches(ring) if parts is None else parts:
        maps, amount = _maps(model, part.copies), _sum(model, part.expects)
        if maps and part.expects and amount is not None:
            # Of what other CTAs do as well, nothing is known but that it is alike in places that are.
            alike = () if parts is not None else (ring, *_lasting(model, part))
            yield (maps, *alike), _Place(part.expects[0], amount)


def _lasting(model: KernelModel, part: Delivery) -> Iterator[Condition]:
    """What decides whether each instruction is executed, as far as it is the same in all rounds."""
    for site in (*part.expects, *part.copies):
        yield frozenset(fact for fact in _condition(model, site) if not model.values.varying_at(fact[0]))


def _sum(model: KernelModel, expects: list[int]) -> int | None:
    """The bytes that one thread expects, as a value."""
    total = model.values.constant(0)
    for site in expects:
        amount = model.value(site, "tx")
        if amount is None:
            return None
        total = model.values.add(total, amount)
    return total


def _apart(model: KernelModel, a: int, b: int) -> int | None:
    """By how much one value is more than another, if that is known."""
    return model.values.constant_of(model.values.add(a, model.values.times(b, -1)))


def _unlike_others(model: KernelModel, place: _Place, other: _Place, more: int) -> Hit:
    here, there = (model.values.constant_of(p.amount) for p in (place, other))
    if here is None or there is None:
        number, mark = "other", f"{abs(more)} bytes {'more' if more > 0 else 'fewer'}"
        message = f"expects {mark} than elsewhere for the same copies"
    else:
        number, mark = str(there), f"{here} bytes"
        message = f"expects {mark} for copies that bring {there} elsewhere"
    return MB004.hit(
        site=place.site,
        message=f"{message}: a copy of a tensor map always brings its whole box",
        steps=(
            _mark(model, other.site, f"expects {number} bytes for the same copies"),
            _mark(model, place.site, f"expects {mark}"),
        ),
        help=_REMEDY,
        about=frozenset((place.site, other.site)),
    )


def _maps(model: KernelModel, copies: list[int]) -> tuple[tuple[str, int], ...]:
    """What tensor copies are of, with their kinds; nothing when that is not known of all, or changes."""
    found = []
    for site in copies:
        tensor_map = model.value(site, "tensormap")
        if tensor_map is None or model.values.varying_at(tensor_map):
            return ()
        found.append((model.instruction(site).opcode, tensor_map))
    return tuple(sorted(found))

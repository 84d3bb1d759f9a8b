"""Which mbarrier an address names, for the checks of mbarriers."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from tclint.analyses.mbarriers import SIZE
from tclint.analyses.model import KernelModel

__all__ = ["Place", "alike", "at_home", "differ", "place_at_first", "places", "times"]

_STAGES = 64
"""Places that one address may stand for; a ring has a few."""
_RANGE = 1 << 10
"""Numbers that are looked through for those of a ring."""
_OWN = (0xFEFFFFFF, -16777217)
"""CUTLASS clears this bit of an address to name the CTA of a pair that leads."""


class Place(NamedTuple):
    """Where an mbarrier lies: a base that is the same wherever it is named, and bytes from there."""

    base: int
    offset: int


def at_home(model: KernelModel, address: int) -> tuple[int, bool]:
    """*address* as it is in the CTA itself, and whether it has been mapped to another one of the cluster."""
    values = model.values
    terms, constant = values.linear(address)
    home, mapped = values.constant(constant), False
    for term, factor in terms:
        node = values.node(term)
        if node[:2] == ("op", "mapa") and factor == 1:
            term, mapped = at_home(model, node[3])[0], True
        elif node[:2] == ("op", "mask") and node[3] in _OWN and factor == 1:
            term, mapped = at_home(model, node[2])[0], True
        home = values.add(home, values.times(term, factor))
    return home, mapped


def places(model: KernelModel, site: int, each: bool = False) -> frozenset[Place] | None:
    """Every mbarrier that the instruction at *site* may name; None: not known.

    A stage of a ring is any of those that its number can be. With *each*, it also becomes each of them: bounds that are
    no more than a width in bits do not say so, nor do threads that a launch may not have.
    """
    known = model.made(_known_places)
    if (site, each) not in known:
        known[site, each] = _places(model, site, each)
    return known[site, each]


def _known_places(model: KernelModel) -> dict[tuple[int, bool], frozenset[Place] | None]:
    return {}


def _places(model: KernelModel, site: int, each: bool) -> frozenset[Place] | None:
    address = model.value(site, "mbarrier")
    return None if address is None else _places_of(model, site, address, each)


def place_at_first(model: KernelModel, site: int) -> Place | None:
    """The mbarrier that the instruction at *site* names when it is executed for the first time; None: not known."""
    address, resolve = model.value(site, "mbarrier"), model.at_first(site).witness
    if address is None or resolve is None:
        return None
    found = _places_of(model, site, resolve(address), False)
    return min(found) if found is not None and len(found) == 1 else None


def _places_of(model: KernelModel, site: int, address: int, each: bool) -> frozenset[Place] | None:
    values, shared = model.values, model.shared
    start, moved = _begun(model, at_home(model, address)[0])
    base, mine, constant = shared.split(start)
    terms, _ = values.linear(base)
    moving = [t for t in terms if values.volatile(t[0])]
    if each and places(model, site) is None:
        return None
    threads = model.views.at(site).threads
    if each and model.function.most_threads is None:
        threads = shared.sure(threads, _making(model))
    own = shared.offsets(mine, threads)
    numbers = [_numbers(model, term, each) for term, _ in moving]
    if own is None or len(own) > _STAGES or any(n is None for n in numbers):
        return None
    lasting = values.total(tuple(t for t in terms if t not in moving), 0)
    steps = [[n * factor for n in known or ()] for known, (_, factor) in zip(numbers, moving, strict=True)]
    steps += [moved] if moved else []
    if len(steps) > 1:  # whose sum may have fewer values than its terms
        return None
    return frozenset(Place(lasting, constant + sum(s) + n) for s in product(*steps) for n in own)


def _making(model: KernelModel) -> int:
    """A thread that is there in every launch, as it initialises an mbarrier that no thread before it does."""
    makers = (model.views.at(i).threads for i in model.sites("mbarrier-init"))
    return max((threads & -threads for threads in makers), default=0)


def _begun(model: KernelModel, address: int) -> tuple[int, list[int]]:
    """An address with where a pointer began that a loop of so many rounds moves, and how far it moves it in each."""
    values = model.values
    for term, factor in values.linear(address)[0]:
        start, step, modulus = values.induction(term) or (-1, 0, None)
        rounds = values.rounds(values.node(term)[1]) if factor == 1 and step and modulus is None else None
        if rounds is not None and rounds <= _STAGES and values.known(start) is None:
            began = values.add(address, values.add(start, values.times(term, -1)))
            return began, [step * k for k in range(rounds)]
    return address, []


def _numbers(model: KernelModel, value: int, bounded: bool) -> list[int] | None:
    """What *value* can be, when that is not much: its bounds, and its bits that are known."""
    values = model.values
    node = values.node(value)
    if node[:2] == ("op", "mask") and not node[3] & node[3] + 1:
        inner = values.interval(node[2])
        if inner is not None and inner[0] >= 0 and inner[1] <= node[3]:
            return _numbers(model, node[2], bounded)  # a mask that only narrows the type
    zeros, ones = values.known_bits(value)
    bounds = values.interval(value)
    if bounded and (bounds is None or not _counts(model, value, bounds)):
        return None
    if bounds is None:
        unknown = ~(zeros | ones) & (1 << 32) - 1
        bounds = 0, ones | unknown
    low, high = bounds
    if low < 0 or high - low > _RANGE:
        return None
    found = [n for n in range(low, high + 1) if not n & zeros and n & ones == ones]
    return found if len(found) <= _STAGES else None


def _counts(model: KernelModel, value: int, bounds: tuple[int, int]) -> bool:
    """Whether *value* is a number that a loop counts, which comes to both of its bounds, or bits of one, or of any number.

    A loop that packs a stage and a phase into one number need not come to all bits.
    """
    values = model.values
    node = values.node(value)
    if node[0] == "phi":
        # Where ways meet, it is what one of them brings.
        brought = () if node[1] in model.cfg.loops else values.arguments(value)
        parts = [(a, values.interval(a)) for a in brought if values.known(a) is None]
        return all(ends is not None and _counts(model, a, ends) for a, ends in parts)
    if node[:2] == ("op", "mask"):
        moving = [t for t, _ in values.linear(node[2])[0] if values.node(t)[0] in ("phi", "select", "op")]
        return all(values.node(t)[0] == "phi" and values.induction(t) for t in moving)
    if node[0] != "select":
        return False
    for arm in node[2:4]:  # the next stage of a ring: 0, or one more
        terms, _ = values.linear(arm)
        if not terms:
            continue
        within = values.interval(terms[0][0]) if len(terms) == 1 and terms[0][1] == 1 else None
        if within is None or bounds[0] < within[0] or bounds[1] > within[1]:
            return False
    return True


def differ(model: KernelModel, a: Place, b: Place) -> bool | None:
    """Whether two mbarriers have no byte in common; None: not known."""
    if a.base == b.base:
        return abs(a.offset - b.offset) >= SIZE
    return True if model.separate(a.base, b.base) else None


def alike(model: KernelModel, some: frozenset[Place] | None, others: frozenset[Place] | None) -> bool:
    """Whether an mbarrier of *some* may be one of the *others*; None: not known which these are."""
    if some is None or others is None:
        return True
    return any(differ(model, a, b) is not True for a in some for b in others)


def times(number: int | None) -> str:
    """A number of arrivals in words."""
    return "1 arrival" if number == 1 else f"{number} arrivals"

"""The rules of a set, and the draw: which kernels are in it follows from the pool and a seed, and from nothing else."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from benchmarks.strangers.kernels import family
from benchmarks.strangers.pool import Candidate

__all__ = ["SHARE", "SIZE", "SOURCES", "breaches", "draw"]

SIZE = 250
SOURCES = 25
"""The fewest kernels and sources of a set."""
SHARE = 0.1
"""The largest part of a set that one source may be."""
ASYNCHRONOUS = 0.5
"""The smallest part of a set that uses mbarriers, wgmma, tcgen05 or bulk copies."""


def draw(pool: Iterable[Candidate], seed: int, seen: Collection[str], size: int = SIZE) -> list[Candidate]:
    """*size* kernels of *pool*, or fewer, whose skeletons are not in *seen*.

    Half of them are asynchronous if there are so many. The sources take turns, and within a source the templates, so
    that a library of a thousand instances of one template does not fill its share with them.
    """
    rng = random.Random(seed)
    skeletons = set(seen)
    fresh = []
    for candidate in sorted(pool, key=lambda c: (c.source, c.digest)):
        if candidate.skeleton not in skeletons:
            skeletons.add(candidate.skeleton)
            fresh.append(candidate)
    most = int(size * SHARE)
    taken: Counter[str] = Counter()
    drawn: list[Candidate] = []
    for wanted, kind in ((-(-size // 2), True), (size, False)):
        queues = _queues([c for c in fresh if c.asynchronous is kind], rng)
        while len(drawn) < wanted and queues:
            for name in list(queues):
                chosen = next(queues[name], None) if taken[name] < most else None
                if chosen is None:
                    del queues[name]
                elif len(drawn) < wanted:
                    drawn.append(chosen)
                    taken[name] += 1
    return sorted(drawn, key=lambda c: (c.source, c.digest))


def _queues(candidates: Sequence[Candidate], rng: random.Random) -> dict[str, Iterator[Candidate]]:
    """The kernels of each source, one template after the other; the sources are in random order."""
    by_source: dict[str, dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    for candidate in candidates:
        by_source[candidate.source][family(candidate.name)].append(candidate)
    names = sorted(by_source)
    rng.shuffle(names)
    return {name: iter(_in_turn(by_source[name], rng)) for name in names}


def _in_turn(families: dict[str, list[Candidate]], rng: random.Random) -> list[Candidate]:
    """One kernel of each family, then a second one of each, and so on."""
    lists = [rng.sample(members, len(members)) for _, members in sorted(families.items())]
    rng.shuffle(lists)
    order = []
    while lists:
        order += [members.pop() for members in lists]
        lists = [members for members in lists if members]
    return order


def breaches(drawn: Sequence[Candidate]) -> list[str]:
    """The rules of a set that *drawn* does not keep, in words."""
    found = []
    if len(drawn) < SIZE:
        found.append(f"{len(drawn)} kernels, not {SIZE}")
    sources = Counter(candidate.source for candidate in drawn)
    if len(sources) < SOURCES:
        found.append(f"{len(sources)} sources, not {SOURCES}")
    found += [
        f"{name} is {count} of {len(drawn)} kernels, more than {SHARE:.0%}"
        for name, count in sorted(sources.items())
        if count > SHARE * len(drawn)
    ]
    number = sum(candidate.asynchronous for candidate in drawn)
    if number < ASYNCHRONOUS * len(drawn):
        found.append(f"{number} of {len(drawn)} kernels use asynchronous operations, not {ASYNCHRONOUS:.0%}")
    repeated = len(drawn) - len({candidate.skeleton for candidate in drawn})
    if repeated:
        found.append(f"{repeated} kernels have the skeleton of another one")
    return found

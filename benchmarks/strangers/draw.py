"""The rules of a set, and the draw: which kernels are in it follows from the pool and a seed, and from nothing else."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from benchmarks.strangers.kernels import family
from benchmarks.strangers.pool import Candidate

__all__ = ["RULES", "Rules", "breaches", "composition", "draw"]


@dataclass(frozen=True)
class Rules:
    """What a set must be for its shares to be about the code of strangers."""

    size: int
    """How many kernels or files it has."""
    sources: int
    """The fewest sources that they come from."""
    share: float
    """The largest part of a set that one source may be."""
    asynchronous: float
    """The smallest part that uses mbarriers, wgmma, tcgen05 or bulk copies."""
    asynchronous_sources: int
    """The fewest sources of that part."""
    new_sources: bool
    """Whether a source may be in one set only."""


RULES = {
    "kernel": Rules(250, 25, 0.1, 0.5, 1, new_sources=False),
    "file": Rules(250, 12, 0.2, 0.6, 12, new_sources=True),
    "program": Rules(300, 100, 0.02, 0.0, 0, new_sources=True),
}
"""By unit. A set of kernels has each kernel as a module of its own, so that many are instances of one template; the files
of a set are as their authors compile and run them, and so are those of programs, which are ordinary CUDA from collections.
All are named in ``sets.toml``."""


def draw(pool: Iterable[Candidate], seed: int, seen: Collection[str], rules: Rules) -> list[Candidate]:
    """As many members of *pool* as a set has, or fewer, whose skeletons are not in *seen*.

    As many as must be are asynchronous, if there are so many, and more where the others are too few. The sources take turns, and within a source the templates,
    so that a library of a thousand instances of one template does not fill its share with them.
    """
    rng = random.Random(seed)
    skeletons = set(seen)
    fresh = []
    for candidate in sorted(pool, key=lambda c: (c.source, c.digest)):
        if candidate.skeleton not in skeletons:
            skeletons.add(candidate.skeleton)
            fresh.append(candidate)
    most = int(rules.size * rules.share)
    taken: Counter[str] = Counter()
    drawn: list[Candidate] = []
    hard = ceil(rules.size * rules.asynchronous)
    for wanted, kind in ((hard, True), (rules.size, False), (rules.size, True)):
        left = {c.skeleton for c in fresh}.difference(c.skeleton for c in drawn)
        queues = _queues([c for c in fresh if c.asynchronous is kind and c.skeleton in left], rng)
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


def breaches(drawn: Sequence[Candidate], rules: Rules, sources_before: Collection[str] = ()) -> list[str]:
    """The rules of a set that *drawn* does not keep, in words; *sources_before* are those of the sets before it."""
    found = []
    if len(drawn) < rules.size:
        found.append(f"it has {len(drawn)} members, not {rules.size}")
    sources = Counter(candidate.source for candidate in drawn)
    hard = Counter(candidate.source for candidate in drawn if candidate.asynchronous)
    if len(sources) < rules.sources:
        found.append(f"{len(sources)} sources, not {rules.sources}")
    if len(hard) < rules.asynchronous_sources:
        found.append(f"{len(hard)} sources with asynchronous operations, not {rules.asynchronous_sources}")
    found += [
        f"{name} is {count} of {len(drawn)} members, more than {rules.share:.0%}"
        for name, count in sorted(sources.items())
        if count > rules.share * len(drawn)
    ]
    if hard.total() < rules.asynchronous * len(drawn):
        found.append(
            f"{hard.total()} of {len(drawn)} members use asynchronous operations, not {rules.asynchronous:.0%}"
        )
    if rules.new_sources and (again := sorted(set(sources_before) & set(sources))):
        found.append(f"an earlier set has members of {', '.join(again)}")
    if repeated := len(drawn) - len({candidate.skeleton for candidate in drawn}):
        found.append(f"{repeated} members have the skeleton of another one")
    return found


def composition(drawn: Sequence[Candidate]) -> list[str]:
    """A line for each source of a set, and one for all of them: members, hard ones, lines of PTX."""
    by_source: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in drawn:
        by_source[candidate.source].append(candidate)
    return [
        f"{name}: {len(members)} members, {sum(c.asynchronous for c in members)} hard,"
        f" {sum(c.text.count(chr(10)) for c in members)} lines"
        for name, members in (*sorted(by_source.items()), (f"{len(by_source)} sources", list(drawn)))
    ]

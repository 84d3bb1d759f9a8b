"""What a replay shows, in words: unordered accesses, each under the rule of the hazard, deadlocks, and late waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from tclint._named_tuple import NamedTuple
from tclint.analyses.mbarriers import Mbarriers
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.checks import Hit, Mark, RuleId, grouped
from tclint.checks._deadlocks import (
    MAX_PARTIES,
    arrivals,
    called,
    completing,
    incomplete,
    parties,
    threads_in_words,
)
from tclint.checks._race_rules import AWAIT, AWAIT_HERE, READERS_ARRIVE, UNWAITED, race_rule
from tclint.checks._wording import decided, times
from tclint.findings.scales import Confidence, Method, Severity
from tclint.isa.effects import BULK, TENSOR_MEMORY, Engine
from tclint.replay.accesses import ReplayAccess
from tclint.replay.interface import EmptyItem, EqualWords
from tclint.replay.launches import ReplayRun
from tclint.replay.program import relaxes
from tclint.replay.races import Race
from tclint.replay.sync import ReleasedWaiter, ReplayMbarrier
from tclint.replay.thread_groups import Stuck

__all__ = ["MB016", "conditional", "seen"]

MB016 = RuleId("MB016")

_NEVER_EMPTY = "the kernel does not test whether the two words are equal, so they may never be"
"""The doubt about a fault for which words of memory must be equal that no branch before their loop compares."""


def conditional(model: KernelModel, hit: Hit, needs: EqualWords | EmptyItem) -> Hit:
    """The hit with the condition that two words of memory are equal, or that one is 0 for some items."""
    if isinstance(needs, EmptyItem):
        return _if_empty(model, hit, needs)
    return _if_equal(hit, needs)


def _if_empty(model: KernelModel, hit: Hit, item: EmptyItem) -> Hit:
    """The hit as one about what threads do at an mbarrier only for an item of size 0, or only for any other."""
    unless = "" if item.if_zero else "not "
    return replace(
        hit,
        site=item.site,
        message=f"{model.name(item.site)} is executed only if {item.name} is {unless}0, as of an {'' if item.if_zero else 'item that is not '}empty"
        f"{' item' if item.if_zero else ''}, and other threads do not match that: where such items alternate with others, "
        f"{hit.message}",
        steps=(
            *hit.steps,
            Mark(item.load, f"loads {item.name}, which is 0 for every second item of this launch"),
            Mark(item.site, f"is executed only where it is {unless}0"),
        ),
        severity=Severity.WARNING,
        condition=f"{item.name} is 0 for one item and not for another",
    )


def _if_equal(hit: Hit, equal: EqualWords) -> Hit:
    """The hit with the condition that two words of memory are equal."""
    a, b = equal.names
    load = Mark(max(equal.loads), f"loads {a} or {b}, which are equal in this launch")
    branch = Mark(equal.branch, f"decides what is skipped when {a} == {b}", aside=True)
    conditional = replace(
        hit,
        message=f"{hit.message} (only if {a} == {b}, neighbouring words of memory, as of an empty item)",
        steps=(*hit.steps[:-1], load, branch, *hit.steps[-1:]),
        severity=Severity.WARNING,
        condition=f"{a} == {b}",
    )
    return conditional.doubted("" if equal.tested else _NEVER_EMPTY)


def seen(model: KernelModel, run: ReplayRun) -> Iterator[Hit]:
    """The findings about the races of *run*, one for each rule; without races, the one about its first failure."""
    for hit in _seen(model, run):
        if model.recorded is not None:
            hit = replace(
                hit, message=f"{hit.message} (in the launch recorded in {model.recorded.path}: {run.launch})"
            )
        elif hit.rule == MB016:
            hit = replace(hit, message=f"{hit.message} (replayed: {run.launch})")
        yield hit


def _seen(model: KernelModel, run: ReplayRun) -> Iterator[Hit]:
    if run.races:
        for rule, races in grouped((_hazard(model, race), race) for race in run.races).items():
            yield _raced(model, rule, races[0], len(races))
    elif run.overrun is not None:
        yield _overrun(model, run.overrun)
    elif (deadlock := _deadlocked(model, run)) is not None:
        yield deadlock
    elif run.late:
        yield _late(model, *run.late[0])


def _hazard(model: KernelModel, race: Race) -> RuleId:
    """The rule that describes what goes wrong in *race*."""
    first, second = race
    group = model.instruction(first.site).group
    if first.tensor:  # loads and stores of one warp are ordered in a replay
        return race_rule("tensor-memory-across-warps" if group in TENSOR_MEMORY else "tensor-memory")
    if first.writes:
        plain = second.plain or second.writes
        return race_rule("read-too-early", group, "unordered" if plain else "unordered-operand")
    return race_rule(
        "source-overwritten", group, "unordered" if second.mbarrier is None else "unordered-refill"
    )


def _relaxed_note(model: KernelModel) -> str:
    """The end of a help text if the kernel has relaxed mbarrier operations; "" otherwise."""
    return "; a .relaxed arrival or wait orders no memory without a fence" if relaxes(model) else ""


def _mark(model: KernelModel, access: ReplayAccess, message: str) -> Mark:
    object_ = (
        model.fact(ObjectNames).accessed(access.site, access.writes, tensor=True) if access.tensor else None
    )
    return Mark(access.site, message, role=threads_in_words(model, access.group.threads), object=object_)


def _raced(model: KernelModel, rule: RuleId, race: Race, count: int) -> Hit:
    """The finding of *rule* about *race*, the first of *count* races of that rule.

    Its severity and confidence are those of a replay, whatever those of the rule are for what follows from the code.
    """
    described = _unordered
    if race.first.released_early(race.second.clock):
        described = _released_too_early
    elif race.first.mbarrier is not None and not race.early:
        described = _read_too_soon
    elif race.second.mbarrier is not None and not race.first.writes:
        described = _refilled
    return replace(
        described(model, rule, race),
        count=count,
        severity=Severity.ERROR,
        confidence=Confidence.MEDIUM,
        method=Method.REPLAY,
    )


def _refilled(model: KernelModel, rule: RuleId, race: Race) -> Hit:
    """The finding about a copy into shared memory that may still be read."""
    read, copy = race
    group = model.instruction(read.site).group
    last = [*copy.waited.values()][-1] if copy.waited else None
    return rule.hit(
        site=copy.site,
        message=f"{model.name(copy.site)} refills shared memory that {_name(model, read)} may still be reading: "
        "no wait in this thread guarantees that the read has completed",
        steps=(
            _mark(
                model, read, "starts to read it" if group == BULK else "reads what was copied there before"
            ),
            *_released(model, read, last),
            *(_waited(model, copy, last, "waits for an mbarrier; this does not cover the read")),
            _mark(model, copy, "starts to refill it"),
        ),
        help=(group.words.observed or READERS_ARRIVE)
        + ", and wait for that phase before the copy"
        + _relaxed_note(model),
    )


def _read_too_soon(model: KernelModel, rule: RuleId, race: Race) -> Hit:
    """The finding about a read of bytes that a copy may still be writing."""
    copy, read = race
    assert copy.mbarrier is not None
    last = read.waited.get(copy.mbarrier.address)
    if last is None:
        why, remedy = UNWAITED, AWAIT_HERE
    else:
        why = "the last wait for its mbarrier is for another phase"
        remedy = f"{AWAIT}; flip the parity each time the stage is reused"
    return rule.hit(
        site=read.site,
        message=f"{model.name(read.site)} reads shared memory that a bulk copy may still be writing: {why}",
        steps=(
            _mark(model, copy, "starts to fill it"),
            *_waited(model, read, last, "waits for its mbarrier; this does not cover the copy"),
            _mark(model, read, "reads it"),
        ),
        help=remedy + _relaxed_note(model),
    )


def _unordered(model: KernelModel, rule: RuleId, race: Race) -> Hit:
    """The finding about any other race, in shared or tensor memory."""
    first, second = race
    memory = "tensor memory" if first.tensor else "shared memory"
    what = _name(model, first) + " of another warp" * race.together
    group = model.instruction(first.site).group
    last = [*second.waited.values()][-1] if second.waited else None
    verb = "write" if first.writes else "read"
    done = "may not have written yet"
    if race.early:
        done = "may still be writing" if first.writes else "may still be reading"
    return rule.hit(
        site=second.site,
        message=f"{model.name(second.site)} {'overwrites' if race.early else 'reads'} {memory} that {what} {done}: "
        "no wait in this thread guarantees that it has completed",
        steps=(
            _mark(model, first, _begun(first)),
            *_released(model, first, last),
            *(_waited(model, second, last, f"waits for an mbarrier; this does not cover the {verb}")),
            _mark(
                model,
                second,
                ("overwrites it" if race.early else "reads it") + ", in another warp" * race.together,
            ),
        ),
        help=(
            group.words.observed
            or f"let {'all of ' * race.together}those threads arrive at an mbarrier after that access"
        )
        + f", and wait for that phase before {model.name(second.site)}"
        + _relaxed_note(model),
    )


def _released_too_early(model: KernelModel, rule: RuleId, race: Race) -> Hit:
    """The finding about threads that arrive while a copy of theirs may be in flight, which other warps then access.

    It is about the access if they did not arrive at an mbarrier.
    """
    copy, use = race
    last = [*use.waited.values()][-1] if use.waited else None
    arrival = next(_released(model, copy, last), None)
    if arrival is None:
        return _unordered(model, rule, race)
    verb, group = "overwrite" if use.writes else "read", model.instruction(copy.site).group
    words, wait = group.words, _wait_before(model, group, arrival.site)
    left = None if wait is None else model.instruction(wait).groups_left
    why = f"no {words.wait} before it covers the copy"
    if left:
        why = f"{words.wait} {left} leaves the newest {'group' if left == 1 else f'{left} groups'} in flight"
    return rule.hit(
        site=arrival.site,
        message=f"{model.name(arrival.site)} arrives at an mbarrier although a {words.operation} of this thread may not have written yet what other "
        f"warps then {verb}: {why}",
        steps=(
            _mark(model, copy, "starts to write it"),
            *(() if wait is None else (Mark(wait, "waits for earlier copies only", role=arrival.role),)),
            Mark(arrival.site, "arrives while the copy may be in flight", role=arrival.role),
            *_waited(model, use, last, "waits for the mbarrier"),
            _mark(model, use, f"{verb}s it"),
        ),
        pairs=((copy.site, use.site),),
        help=f"wait for the copy before the arrival ({words.wait}), or let the mbarrier track it "
        "(cp.async.mbarrier.arrive)",
        about=frozenset((arrival.site, use.site)),
    )


def _wait_before(model: KernelModel, group: Engine, site: int) -> int | None:
    """The last wait for operations of *group* that every path to *site* passes; None if there is none."""
    cfg, waits = model.cfg, model.waits(group)
    block, first = cfg.block_of[site], -1
    while block != first:
        if before := [i for i in waits if cfg.block_of[i] == block and i < site]:
            return before[-1]
        block, first = cfg.idom[block], block
    return None


def _begun(access: ReplayAccess) -> str:
    """What an access does, in words: an asynchronous one only starts at its instruction."""
    verb = "write" if access.writes else "read"
    return f"{verb}s it" if access.plain else f"starts to {verb} it"


def _name(model: KernelModel, access: ReplayAccess) -> str:
    """The name of the instruction that performs *access*."""
    return model.name(access.site)


def _released(model: KernelModel, access: ReplayAccess, wait: int | None) -> Iterator[Mark]:
    """The step of the arrival by the threads of *access* at the mbarrier of a *wait* that does not order it.

    Empty if they do not arrive there. Of several arrivals, it is the next one that a thread may reach.
    """
    mbarriers = model.fact(Mbarriers)
    rings = mbarriers.rings_at(wait) if wait is not None else frozenset()
    arrivals = [
        i
        for i in mbarriers.arriving
        if not rings.isdisjoint(mbarriers.rings_at(i))
        and any(model.present(i) >> thread & 1 for thread in access.group.threads)
    ]
    arrival = _next(model, access.site, arrivals)
    if arrival is not None:
        yield Mark(
            arrival,
            "arrives at the mbarrier; this does not order the access before the wait",
            role=threads_in_words(model, access.group.threads),
        )


def _next(model: KernelModel, start: int, sites: list[int]) -> int | None:
    """The one of *sites* that the fewest blocks separate from *start* on a path from there; None if none is reached.

    If a loop leads back to the block of *start*, sites before it count, too.
    """
    cfg = model.cfg
    first = cfg.block_of[start]
    if after := [i for i in sites if i > start and cfg.block_of[i] == first]:
        return after[0]
    reached = list(dict.fromkeys(e.target for e in cfg.successors[first]))
    for block in reached:
        if here := [i for i in sites if cfg.block_of[i] == block]:
            return here[0]
        reached += [e.target for e in cfg.successors[block] if e.target not in reached]
    return None


def _waited(model: KernelModel, access: ReplayAccess, wait: int | None, message: str) -> tuple[Mark, ...]:
    """The step of a *wait* before *access* that does not order it; empty if the thread has not waited."""
    return () if wait is None else (Mark(wait, message, role=threads_in_words(model, access.group.threads)),)


def _overrun(model: KernelModel, at: Stuck) -> Hit:
    mbarrier = at.what
    assert isinstance(mbarrier, ReplayMbarrier)
    return MB016.hit(
        site=at.site,
        message=f"{model.name(at.site)} arrives in excess of the count of the mbarrier: phase {mbarrier.phase} takes {times(mbarrier.count)}",
        steps=(
            *_initialised(mbarrier),
            Mark(
                at.site,
                f"arrives once more in phase {mbarrier.phase}",
                role=threads_in_words(model, at.threads),
            ),
        ),
        help="set the count of mbarrier.init to the number of arrivals in a phase, "
        "or wait for the phase before arriving in the next one",
        method=Method.REPLAY,
    )


def _deadlocked(model: KernelModel, run: ReplayRun) -> Hit | None:
    """The finding about a deadlock: threads blocked at an mbarrier when all remaining ones are blocked.

    None if no thread is blocked at an mbarrier.
    """
    awaited = [(s, s.what) for s in run.deadlocks if isinstance(s.what, ReplayMbarrier)]
    if not awaited:
        return None
    # Of the waits for the first phase, one whose parity is wrong is the cause of the others.
    first, mbarrier = min(awaited, key=lambda w: (w[1].phase, not _starts_wrong(model, w[1]), w[0].site))
    others = {s.site: s for s, _ in awaited if s.site != first.site}
    skipped = _skipped_arrival(model, run, first)
    blocked = *list(others.values())[: MAX_PARTIES - 1], first
    return MB016.hit(
        site=first.site if skipped is None else skipped.site,
        message=("" if skipped is None else f"{model.name(skipped.site)} {skipped.why}: ")
        + f"deadlock: phase {mbarrier.phase} of {called(model, mbarrier)} {incomplete(mbarrier)}, "
        + (
            f"and with that parity, the wait returns at once only until phase {mbarrier.phase - 1} completes"
            if mbarrier.phase and mbarrier.untouched
            else "and all remaining threads are blocked as well"
        ),
        steps=(
            *_initialised(mbarrier),
            *_without_arrival(model, run, (first, *others.values())),
            *(_blocked(model, s) for s in blocked),
            *(() if skipped is None else skipped.marks),
        ),
        deadlock=parties(model, run, first),
        help=_first_remedy(model, mbarrier)
        + "use tclint barriers to follow the phases of the mbarriers through each iteration: each wait needs all "
        "arrivals and bytes of its phase, and a parity that flips when the stage is reused",
        method=Method.REPLAY,
    )


class _SkippedArrival(NamedTuple):
    """An arrival that no thread executes, although a phase needs it."""

    site: int
    why: str
    marks: tuple[Mark, ...]


def _skipped_arrival(model: KernelModel, run: ReplayRun, stuck: Stuck) -> _SkippedArrival | None:
    """The arrival that would complete what *stuck* waits for, if a branch or a guard skips all such arrivals; or None.

    What follows a wait that is stuck is not skipped, but blocked.
    """
    found = [
        _skipped(model, run, site) if site not in run.executed else None for site in completing(model, stuck)
    ]
    return found[0] if found and None not in found else None


def _skipped(model: KernelModel, run: ReplayRun, site: int) -> _SkippedArrival | None:
    """How each execution of a branch, or of *site* with its guard, skips the arrival at *site*; None if none does."""
    cfg, values = model.cfg, model.values
    instruction, block = model.instruction(site), cfg.block_of[site]
    if block in run.entered:
        before = range(cfg.blocks[block].start, site)
        if instruction.guard < 0 or any(s.site in before for s in run.deadlocks):
            return None
        guard = values.before(instruction.guard, site)
        why = f"is not executed{decided(model, guard, instruction.negated)}"
        return _SkippedArrival(site, why, (Mark(site, why),))
    for edge in cfg.control_dependences(block):
        predicate = model.reachability.edge_predicate(edge)
        if edge.source not in run.entered or edge.target in run.entered or predicate is None:
            continue
        changes = (at for kind, at in values.varying_at(predicate) if kind == "site")
        if any(model.instruction(at).effects.awaits is not None for at in changes):
            continue
        when = decided(model, predicate, not edge.value)
        branch = Mark(cfg.blocks[edge.source].end - 1, f"skips the arrival{when}", aside=True)
        return _SkippedArrival(site, f"is skipped{when}", (branch, Mark(site, "the arrival that is skipped")))
    return None


def _without_arrival(model: KernelModel, run: ReplayRun, waits: Iterable[Stuck]) -> Iterator[Mark]:
    """The step of a copy that completes on the first mbarrier of *waits* that has one but no arrival.

    Where the bytes of a copy are expected, a thread usually arrives, too. Of several copies, it is the one that names
    the fewest mbarriers.
    """
    mbarriers = model.fact(Mbarriers)
    named = {
        i: mbarriers.named(i)
        for ring in mbarriers.rings
        for i in mbarriers.copies(ring)
        if model.cfg.block_of[i] in run.entered
    }
    for awaited in (s.what for s in waits):
        if not isinstance(awaited, ReplayMbarrier) or awaited.pending < awaited.count:
            continue
        fitting = [i for i, objects in named.items() if any(awaited.site in o.inits for o in objects)]
        if fitting:
            site = min(fitting, key=lambda i: (len(named[i]), i))
            words = "completes its bytes on the mbarrier, but does not arrive"
            yield Mark(site, words, object=called(model, awaited))
            return


def _blocked(model: KernelModel, at: Stuck) -> Mark:
    """The step of threads that are blocked at an mbarrier."""
    assert isinstance(at.what, ReplayMbarrier)
    role, name = threads_in_words(model, at.threads), called(model, at.what)
    return Mark(at.site, f"blocked: waits for phase {at.what.phase}", role=role, object=name)


def _releases_stages(model: KernelModel, mbarrier: ReplayMbarrier) -> bool:
    """Whether threads release stages by arrivals at the *mbarrier*."""
    rings = (ring for ring in model.fact(Mbarriers).rings if mbarrier.site in ring.inits)
    return any(map(model.fact(ObjectNames).releases_stages, rings))


def _starts_wrong(model: KernelModel, awaited: ReplayMbarrier) -> bool:
    """Whether the first wait is for the release of a stage that no thread can have released, since none has filled it."""
    return not awaited.phase and awaited.untouched and _releases_stages(model, awaited)


def _first_remedy(model: KernelModel, awaited: ReplayMbarrier) -> str:
    """The start of the help, if it is known what is wrong with the mbarrier; else ""."""
    if _starts_wrong(model, awaited):
        return "start with parity 1, for which the wait returns at once as long as the stage is unused; "
    arrived = awaited.count - awaited.pending
    if arrived and awaited.pending:
        return f"if the phase has {times(arrived)}, initialise the mbarrier with that count, else add the missing ones; "
    return ""


def _late(model: KernelModel, mbarrier: ReplayMbarrier, wait: ReleasedWaiter) -> Hit:
    """The finding about a *wait* before which the current phase may complete: its parity then denotes the next one."""
    who, releases = threads_in_words(model, wait.threads), _releases_stages(model, mbarrier)
    return MB016.hit(
        site=wait.site,
        message=f"{model.name(wait.site)} may wait for a later phase of the mbarrier: phase {wait.phase} can complete before this wait "
        "tests it, "
        "and the same parity then denotes the following phase",
        steps=(
            *_initialised(mbarrier),
            *(
                Mark(
                    i,
                    f"may complete phase {wait.phase}",
                    role=model.describe_threads(model.present(i)),
                    aside=True,
                )
                for i in islice(arrivals(model, mbarrier), MAX_PARTIES)
            ),
            Mark(wait.site, f"continues while phase {wait.phase} is incomplete", role=who),
        ),
        help=(
            "release a stage only after the wait for it to be filled and after the reads; or "
            if releases
            else ""
        )
        + "wait for the parity of the phase that the next step needs, or let the arriving threads wait for this one "
        "first",
        severity=Severity.WARNING,  # only for a thread that is late by a whole phase
        method=Method.REPLAY,
    )


def _initialised(mbarrier: ReplayMbarrier) -> tuple[Mark, ...]:
    return (Mark(mbarrier.site, f"expects {times(mbarrier.count)} in each phase"),)

"""The check of what goes wrong when the synchronisation of a kernel is replayed (PTX ISA 9.7.13.15, 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._wording import copy_name, times
from tclint.findings.scales import Severity
from tclint.replay import Access, Faulty, Race, Replay, Run, Stuck
from tclint.replay.program import relaxes
from tclint.replay.sync import Barrier, Mbarrier, ReleasedWaiter

MB016 = RuleId("MB016")

_IDLE = (
    "no launch that was tried has a round to go of some loop that waits: their sizes may go together in none"
)
"""What there is to say where :meth:`Replay.misses_loop` holds."""
_UNRELATED = "different numbers that come with the launch say how often the two sides go round, and how they go together is not said"
"""What there is to say where :meth:`Replay.mixes_trip_counts` holds."""
_MOST = 4
"""Waits that are told of: of a whole pipeline that stands still, each role has one."""


@check(MB016, needs="mbarrier", analyses=(Replay,))
def replayed(model: KernelModel) -> Iterator[Hit]:
    """A read, a copy, a wait or an arrival that goes wrong whatever the launch is taken to be."""
    if not (model.sites("mbarrier-wait") or model.sites("issue", "mbarrier")):
        return
    replay = model.fact(Replay)
    verdict = replay.verdict
    if not isinstance(verdict, Faulty):
        return
    run = verdict.run
    hit = _seen(model, run)
    if hit is None:
        return
    if verdict.assumed_cluster:
        shape = "x".join(map(str, verdict.assumed_cluster))
        hit = replace(
            hit, message=f"{hit.message} (in clusters of {shape}, if launched so; no other shape goes right)"
        )
    yield hit.doubted(
        _IDLE if replay.misses_loop(run) else _UNRELATED if replay.mixes_trip_counts(run) else ""
    )


def _seen(model: KernelModel, run: Run) -> Hit | None:
    """What went wrong in a replay."""
    if run.races:
        return _raced(model, run.races)
    if run.overrun is not None:
        return _overrun(model, run.overrun)
    found = _stood(model, run.stuck)
    return _late(model, *run.late[0]) if found is None and run.late else found


def _orders(model: KernelModel) -> str:
    """What else a remedy has to say where the kernel relaxes the order at mbarriers."""
    return "; a .relaxed arrival or wait orders nothing without a fence" if relaxes(model) else ""


def _mark(model: KernelModel, access: Access, message: str) -> Mark:
    return Mark(access.site, message, role=_who(model, access.group.threads))


def _who(model: KernelModel, threads: tuple[int, ...]) -> str:
    return model.describe_threads(sum(1 << thread for thread in threads))


def _raced(model: KernelModel, races: list[Race]) -> Hit:
    race, count = races[0], len(races)
    if race.first.mbarrier is not None and not race.early:
        return _too_soon(model, race, count)
    if race.second.mbarrier is not None and not race.first.writes:
        return _filled(model, race, count)
    return _unordered(model, race, count)


def _filled(model: KernelModel, race: Race, count: int) -> Hit:
    """A copy into memory that is still read."""
    read, copy = race
    out = model.instruction(read.site).group == "bulk"
    last = [*copy.waited.values()][-1] if copy.waited else None
    return MB016.hit(
        site=copy.site,
        message=f"fills shared memory again that {_name(model, read)} may still read: "
        "nothing that this thread has waited for says that the read is over",
        steps=(
            _mark(model, read, "starts to read it" if out else "reads what was copied there before"),
            *(_waited(model, copy, last, "waits, and is not told of the read")),
            _mark(model, copy, "fills it again"),
        ),
        help=(_OVER["bulk"] if out else "let the readers arrive at an mbarrier when they are done")
        + ", and wait for that phase before the copy"
        + _orders(model),
        count=count,
        replayed=True,
    )


def _too_soon(model: KernelModel, race: Race, count: int) -> Hit:
    """A read of what a copy brings, whose mbarrier tells when it is complete."""
    copy, read = race
    assert copy.mbarrier is not None
    last = read.waited.get(copy.mbarrier.address)
    return MB016.hit(
        site=read.site,
        message="reads shared memory that a bulk copy may still be writing: "
        "no wait on the way is for the phase that the copy completes",
        steps=(
            _mark(model, copy, "starts to fill it"),
            *_waited(model, read, last, "waits for its mbarrier, and is not told of this copy"),
            _mark(model, read, "reads it"),
        ),
        help="wait for the phase of the mbarrier that the copy completes; its parity flips each time the stage is used "
        "again" + _orders(model),
        count=count,
        replayed=True,
    )


_OVER = {
    "bulk": "wait until its source is read (cp.async.bulk.wait_group.read), let that thread arrive at an mbarrier behind it",
    "cp.async": "wait for it (cp.async.wait_group) and let that thread arrive at an mbarrier behind it, or let one track it"
    " (cp.async.mbarrier.arrive)",
    "mbarrier": "take the mbarrier of the copy, which tells when it is complete",
    "tcgen05": "commit that operation to an mbarrier (tcgen05.commit)",
    "tcgen05.ld": "let those threads arrive at an mbarrier behind tcgen05.wait::ld",
    "tcgen05.st": "let those threads arrive at an mbarrier behind tcgen05.wait::st",
    "wgmma": "wait for its group (wgmma.wait_group), let those threads arrive at an mbarrier behind it",
}
"""How others hear that something is over, by the group that it is of."""


def _unordered(model: KernelModel, race: Race, count: int) -> Hit:
    """A race of what multiplies, loads, stores or copies."""
    first, second = race
    memory = "tensor memory" if first.tensor else "shared memory"
    what = _name(model, first) + " of another warp" * race.together
    group = model.instruction(first.site).group
    last = [*second.waited.values()][-1] if second.waited else None
    done = "may not have written yet"
    if race.early:
        done = "may still write" if first.writes else "may still read"
    return MB016.hit(
        site=second.site,
        message=f"{'overwrites' if race.early else 'reads'} {memory} that {what} {done}: "
        "nothing that this thread has waited for says that it is over",
        steps=(
            _mark(model, first, _begun(first)),
            *(_waited(model, second, last, "waits, and is not told of that")),
            _mark(
                model,
                second,
                ("overwrites it" if race.early else "reads it") + ", in another warp" * race.together,
            ),
        ),
        help=_OVER.get(group, f"let {'all of ' * race.together}those threads arrive at an mbarrier behind it")
        + f", and wait for that phase before {model.name(second.site)}"
        + _orders(model),
        count=count,
        replayed=True,
    )


def _begun(access: Access) -> str:
    """What an access does, which may take longer than the instruction."""
    verb = "write" if access.writes else "read"
    return f"{verb}s it" if access.plain else f"starts to {verb} it"


def _name(model: KernelModel, access: Access) -> str:
    """What makes an *access*."""
    bulk = model.instruction(access.site).group in ("bulk", "mbarrier")
    return copy_name(model, access.site) if bulk else model.name(access.site)


def _waited(model: KernelModel, access: Access, wait: int | None, message: str) -> tuple[Mark, ...]:
    """The wait before an access that does not help."""
    return () if wait is None else (Mark(wait, message, role=_who(model, access.group.threads)),)


def _overrun(model: KernelModel, at: Stuck) -> Hit:
    mbarrier = at.what
    assert isinstance(mbarrier, Mbarrier)
    return MB016.hit(
        site=at.site,
        message=f"arrives more often than the mbarrier counts: a phase of it takes {times(mbarrier.count)}",
        steps=(
            *_made(mbarrier),
            Mark(at.site, f"arrives once more in phase {mbarrier.phase}", role=_who(model, at.threads)),
        ),
        help="make the count of mbarrier.init the number of arrivals in a phase, "
        "or wait for the phase before arriving at the next one",
        replayed=True,
    )


def _stood(model: KernelModel, stuck: list[Stuck]) -> Hit | None:
    """Threads that wait for an mbarrier, or else for a barrier, when all threads that are left wait."""
    waits = [s for s in stuck if isinstance(s.what, Mbarrier)]
    if not waits:
        return _short(model, stuck)
    first = min(waits, key=lambda s: (s.what.phase if isinstance(s.what, Mbarrier) else 0, s.site))
    mbarrier = first.what
    assert isinstance(mbarrier, Mbarrier)
    others = {s.site: s for s in waits if s.site != first.site}
    return MB016.hit(
        site=first.site,
        message=f"waits for ever: phase {mbarrier.phase} of the mbarrier {_lacks(mbarrier)}, "
        + (
            "and only before the phase that it does not wait for is complete would it return at once"
            if mbarrier.phase and mbarrier.untouched
            else "and all threads that are left wait as well"
        ),
        steps=(
            *_made(mbarrier),
            *(
                Mark(
                    s.site,
                    f"waits for another mbarrier, of which phase {s.what.phase} {_lacks(s.what)}",
                    role=_who(model, s.threads),
                )
                for s in list(others.values())[:_MOST]
                if isinstance(s.what, Mbarrier)
            ),
            Mark(first.site, f"waits for phase {mbarrier.phase}", role=_who(model, first.threads)),
        ),
        help="follow the phases of both mbarriers round by round (tclint barriers): each wait needs all arrivals "
        "and bytes of its phase, and a parity that flips when the stage is used again",
        replayed=True,
    )


def _short(model: KernelModel, stuck: list[Stuck]) -> Hit | None:
    """Threads at a barrier that not enough others come to, when all threads that are left are at barriers."""
    at = next((s for s in stuck if isinstance(s.what, Barrier) and s.what.wanted > s.what.arrived), None)
    if at is None:
        return None
    assert isinstance(at.what, Barrier)
    name = f"barrier {at.what.number}" if at.what.number >= 0 else "the barrier of the cluster"
    return MB016.hit(
        site=at.site,
        message=f"waits for ever: {name} waits for {at.what.wanted} threads, of which {at.what.arrived} come, "
        "and all threads that are left wait as well",
        steps=tuple(Mark(s.site, "waits", role=_who(model, s.threads)) for s in stuck[:_MOST]),
        help="let as many threads come as it counts, each of them as often as the others",
        replayed=True,
    )


def _late(model: KernelModel, mbarrier: Mbarrier, wait: ReleasedWaiter) -> Hit:
    who = _who(model, wait.threads)
    return MB016.hit(
        site=wait.site,
        message=f"may wait for a later phase of the mbarrier: phase {wait.phase} can be complete before it asks, "
        "and from then on the parity means the one behind it",
        steps=(
            *_made(mbarrier),
            Mark(wait.site, f"goes on while phase {wait.phase} is incomplete", role=who),
        ),
        help="wait for the parity of the phase that the next step needs, or let those who arrive wait for this thread "
        "first",
        severity=Severity.WARNING,  # it takes a thread that is late by a whole phase
        replayed=True,
    )


def _made(mbarrier: Mbarrier) -> tuple[Mark, ...]:
    return (Mark(mbarrier.site, f"counts {times(mbarrier.count)} for each phase"),)


def _lacks(mbarrier: Mbarrier) -> str:
    """What a phase still needs."""
    if mbarrier.pending:
        return f"gets {mbarrier.count - mbarrier.pending} of {times(mbarrier.count)}"
    return f"expects {mbarrier.bytes} bytes more than copies bring"

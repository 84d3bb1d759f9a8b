"""What tclint computes and a report does not show: replays, obligations of proofs, executions.

A change of structure must change none of it, so ``benchmarks.same record --oracle`` records it beside the reports. The
functions that are watched are named here and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from benchmarks import executor, hardware

__all__ = ["Observed", "launches", "watched"]

Observed = dict[str, list[str]]
"""What a file made tclint compute, in order: the lines of its replays, of its proofs and of its executions."""

SCHEDULES = ("lazy", "random:1")
STEPS = 100_000
"""Instructions of warps after which an execution ends; the first ones are compared then."""


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@contextmanager
def watched() -> Iterator[Mapping[str, Observed]]:
    """While the context lasts: file -> what linting it computes. Files are linted in this process, one after another."""
    from tclint import verdicts
    from tclint.driver import pool
    from tclint.executor import machine as machines
    from tclint.replay import machine as replay

    seen: dict[str, Observed] = {}
    now: list[Observed] = []
    check, prove, run, execute = pool.check, verdicts._verdict, replay.ReplayMachine.run, machines.Machine.run

    def checked(item: Any, config: Any, helpers: Any = None) -> Any:  # what helpers do is not observed here
        path, source = item
        now.append({"replays": [], "proofs": [], "executions": []})
        try:
            return check(item, config)
        finally:
            member = getattr(source, "member", None)
            seen["/".join(filter(None, (path, member)))] = now.pop()

    def proved(name: str, hazard: Any, violated: Any, outcome: Any) -> Any:
        if now:
            obligations = [_digest(obligation) for obligation in outcome.obligations]
            now[-1]["proofs"].append(f"{name} {hazard.value} {_digest(*obligations, outcome.reasons)}")
        return prove(name, hazard, violated, outcome)

    def replayed(machine: replay.ReplayMachine) -> Any:
        return _run(machine, run, now[-1]["replays"] if now else [], _replayed)

    def executed(machine: machines.Machine) -> None:
        _run(machine, execute, now[-1]["executions"] if now else [], _executed)

    with (
        patch.object(pool, "check", checked),
        patch.object(verdicts, "_verdict", proved),
        patch.object(replay.ReplayMachine, "run", replayed),
        patch.object(machines.Machine, "run", executed),
    ):
        yield seen


def _run(machine: Any, run: Callable[[Any], Any], lines: list[str], said: Callable[[Any], str]) -> Any:
    """Runs a *machine*, and adds to *lines* how that ended and what is *said* of it."""
    end = "done"
    try:
        found = run(machine)
        end = _digest([(stuck.site, stuck.threads) for stuck in found or ()])
        return found
    except Exception as error:
        end = f"{type(error).__name__}: {_digest(str(error))}"
        raise
    finally:
        lines.append(f"{end} {said(machine)}")


def _replayed(machine: Any) -> str:
    """Of a replay: its steps, the instructions that synchronise, and its accesses with their clocks."""
    digest = hashlib.sha256(repr(sorted(machine.executed)).encode())
    for access in machine.accesses:
        agent, lanes = access.agent, access.lane_addresses
        digest.update(
            repr((
                access.site, access.writes, access.memory, access.offset, access.size, agent.kind, agent.threads,
                access.number, hex(access.clock), access.phase, access.mbarrier and access.mbarrier.address,
                lanes and (lanes.threads, lanes.address, hex(lanes.observed)),
            )).encode()
        )  # fmt: skip
    return f"{machine.spent} steps, {len(machine.accesses)} accesses {digest.hexdigest()[:16]}"


def _executed(machine: Any) -> str:
    """Of an execution: its steps, and what it observed."""
    return f"{machine.steps} steps {_digest(machine.observations, sorted(machine.notes.items()))}"


def launches() -> Iterator[tuple[str, list[str]]]:
    """Each launch of ``benchmarks/launches``, with a line for each schedule: how it ended, and a digest of what it saw
    and of what it left in its buffers."""
    for name in hardware.launches():
        lines = []
        for schedule in SCHEDULES:
            found = executor.run(name, schedule, steps=STEPS)
            outputs = [
                (key, hashlib.sha256(array.tobytes()).hexdigest()) for key, array in found.found.items()
            ]
            last = found.executions[-1]
            lines.append(f"{schedule}: {last.end} {last.steps} steps {_digest(found.observations, outputs)}")
        yield name, lines

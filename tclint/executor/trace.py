"""A trace of an execution, in the JSON that Perfetto and chrome://tracing open.

Time is the number of instructions that the machine has executed, shown as microseconds. Each CTA is a process and each
warp one of its threads, with slices for executing and for waiting. Asynchronous operations extend from their issue to
their completion.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tclint.executor.machine import Machine
from tclint.executor.state import Warp

__all__ = ["Trace"]


class Trace:
    """The events of one or more launches; the machine calls it for each (``machine.tracer``)."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._began = 0
        self._machine: Machine | None = None
        self._open: dict[int, tuple[str, int, int]] = {}
        self._threads: set[tuple[int, int]] = set()
        self._place: Callable[[int], str] = str

    def follow(self, machine: Machine) -> None:
        """Record the launch that *machine* executes, after the launches recorded so far."""
        if self._machine is not None:
            self._began += self._machine.steps + 100
        self._machine = machine
        self._place = machine.code.place
        machine.tracer = self

    def __call__(self, what: str, w: Warp, site: int, text: str) -> None:
        """Record an event of a warp: ``run``, ``stop``, ``park``, ``wake``, ``issue`` or ``land``.

        *text* is the number and name of the operation for the last two.
        """
        now = self._now()
        where = {"pid": w.cta.number, "tid": w.index}
        self._name(w)
        key = w.number + (w.cta.number << 16)
        if what in ("run", "park"):
            self._close(key, now, where)
            name = "executes" if what == "run" else f"waits at {self._place(site)}"
            self._open[key] = (name, now, site)
        elif what in ("stop", "wake"):
            self._close(key, now, where)
        else:
            number, _, name = text.partition(" ")
            self.events.append(
                where
                | {
                    "name": name,
                    "cat": "asynchronous",
                    "ph": "b" if what == "issue" else "e",
                    "id": f"{self._began}.{number}",
                    "ts": now,
                    "args": {"instruction": self._place(site)},
                }
            )

    def _now(self) -> int:
        assert self._machine is not None
        return self._began + self._machine.steps

    def _close(self, key: int, now: int, where: dict[str, int]) -> None:
        name, began, site = self._open.pop(key, ("", 0, 0))
        if name and (now > began or name != "executes"):
            event = {
                "name": name,
                "ph": "X",
                "ts": began,
                "dur": now - began,
                "args": {"from": self._place(site)},
            }
            self.events.append(where | event)

    def _name(self, w: Warp) -> None:
        thread = (w.cta.number, w.index)
        if thread not in self._threads:
            self._threads.add(thread)
            at = {"pid": thread[0], "tid": thread[1], "ph": "M"}
            self.events.append(
                at | {"name": "process_name", "args": {"name": f"CTA {w.cta.number} {w.cta.ctaid}"}}
            )
            self.events.append(at | {"name": "thread_name", "args": {"name": f"warp {w.index}"}})

    def __str__(self) -> str:
        """The trace as JSON."""
        return json.dumps({"traceEvents": self.events})

"""The deadlocks that are planted in the kernels of this folder.

An edit names a line of the kernel by the comment at its end. It replaces text in that line, or deletes its
instruction; the line itself remains, so that line numbers do not change.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HELD_OUT", "PLANTS", "UNSEEN", "Edit", "Plant"]

HELD_OUT = ("pingpong", "partials", "neighbours", "epilogue")
"""The kernels that were written after the analysis, which has since been extended by what it missed in them.

Their expectations were not changed by what it showed, but for the names of the mbarriers of pingpong, which has no symbols.
"""
UNSEEN = ("broadcast", "token_ring")
"""The kernels that were written after that, and of which it was not asked before a GPU had run them."""


class Edit(NamedTuple):
    """One changed line."""

    tag: str
    """The comment at the end of the line."""
    old: str = ""
    """The text that is replaced; empty: the whole instruction is deleted."""
    new: str = ""


class Plant(NamedTuple):
    """One planted deadlock."""

    kernel: str
    name: str
    kind: str
    edits: tuple[Edit, ...]
    waits: tuple[str, ...]
    """The waits, by tag, that a true chain of waits contains: the one that never completes because of the edit, and those
    of a cycle through it. Where a GPU showed threads at other waits than foreseen, they are those of the GPU."""
    objects: tuple[str, ...] = ()
    """The mbarriers or barriers that the edit is about. The edited lines are the other planted places."""
    places: tuple[str, ...] = ()
    """Further lines that are the planted place, by tag: the wait of a parity that was edited."""

    @property
    def job(self) -> str:
        """The name of its launch."""
        return f"{self.kernel}-{self.name}"


_ARRIVAL, _COUNT, _PARITY, _ROLE = "missing arrival", "wrong count", "wrong parity", "lost role"
_BYTES, _OBJECT, _TRIPS, _ORDER = "wrong bytes", "wrong object", "trip counts differ", "crosswise"
_COMMIT, _CLUSTER, _REGISTERS, _BARRIER = "missing commit", "cluster", "setmaxnreg pool", "barrier count"


_WAITS = {
    "ring producer parity": ("wait empty",),
    "ring consumer parity": ("wait full",),
    "ring consumer phase": ("wait full",),
    "handoff first parity": ("wait pong",),
    "handoff second parity": ("wait ping",),
    "exchange sender parity": ("wait taken",),
    "multicast producer parity": ("wait empty",),
    "staged producer flip": ("wait empty",),
    "staged consumer flip": ("wait full",),
    "staged producer parity": ("wait empty",),
    "relay output parity": ("wait stored",),
    "scheduler load parity": ("wait empty",),
    "pingpong producer phase": ("wait empty",),
    "pingpong consumer flip": ("wait full",),
    "partials flip": ("wait parts",),
    "neighbours send parity": ("wait credit",),
    "epilogue parity": ("wait done",),
}
"""The line that computes a parity -> the wait that uses it."""


def _p(
    kernel: str, name: str, kind: str, edits: str, waits: str = "", objects: str = "", more: str = ""
) -> Plant:
    """A plant with edits as lines of ``tag | old | new``; *more* has further tags with the first edit's texts."""
    parsed = [Edit(*(part.strip() for part in line.split("|"))) for line in edits.strip().splitlines()]
    parsed += [parsed[0]._replace(tag=tag.strip()) for tag in more.split(",") if tag]
    named = tuple(tag.strip() for tag in waits.split(",") if tag)
    places = _WAITS.get(f"{kernel} {parsed[0].tag}", ())
    return Plant(kernel, name, kind, tuple(parsed), named, tuple(objects.split()), places)


PLANTS = (
    # ring
    _p("ring", "release-missing", _ARRIVAL, "release", "wait empty, wait full", "empty"),
    _p("ring", "empty-count", _COUNT, "empty 0|128|129", "wait empty, wait full", "empty", "empty 1,empty 2,empty 3"),
    _p("ring", "full-count", _COUNT, "full 0|, 1;|, 2;", "wait full", "full", "full 1,full 2,full 3"),
    _p("ring", "one-count", _COUNT, "empty 2|128|129", "wait empty, wait full", "empty"),
    _p("ring", "producer-parity", _PARITY, "producer parity|, 1;|, 0;", "wait empty, wait full", "empty"),
    _p("ring", "producer-constant", _PARITY, "producer parity|xor.b32 %r10, %r9, 1;|mov.u32 %r10, 0;", "wait empty, wait full", "empty"),
    _p("ring", "consumer-parity", _PARITY, "consumer parity|, 1;|, 1; xor.b32 %r15, %r15, 1;", "wait full", "full"),
    _p("ring", "consumer-phase", _PARITY, "consumer phase|, 2;|, 1;", "wait full", "full"),
    _p("ring", "expect-more", _BYTES, "expect|1024|1040", "wait full", "full"),
    _p(
        "ring",
        "expect-missing",
        _BYTES,
        "expect|arrive.expect_tx.shared::cta.b64 _, [%r12], 1024|arrive.shared::cta.b64 _, [%r12]",
        "wait full",
        "full",
    ),
    _p("ring", "copy-missing", _BYTES, "copy", "wait full", "full"),
    _p("ring", "copy-elsewhere", _OBJECT, "copy|1024, [%r12]|1024, [%r11]", "wait full", "full"),
    _p("ring", "producer-stops", _TRIPS, "producer bound|%r6, %r2|%r6, 7", "wait full", "full"),
    _p("ring", "no-producer", _ROLE, "roles|%r1, 4|%r1, 5", "wait full", "full"),
    _p("ring", "consumer-exits", _ROLE, "consumer phase|shr|setp.eq.u32 %p0, %r1, 3; @%p0 bra $end; shr", "wait empty, wait full", "empty"),
    _p("ring", "release-elsewhere", _OBJECT, "release|%r17|%r16", "wait full", "full empty"),
    # handoff
    _p(
        "handoff",
        "crosswise",
        _ORDER,
        "arrive ping\nfirst bound|setp|mbarrier.arrive.shared::cta.b64 _, [%r3]; setp",
        "wait pong, wait ping",
        "ping",
    ),
    _p("handoff", "first-parity", _PARITY, "first parity|, 1;|, 1; xor.b32 %r7, %r7, 1;", "wait pong, wait ping", "pong"),
    _p("handoff", "second-parity", _PARITY, "second parity|, 1;|, 1; xor.b32 %r9, %r9, 1;", "wait pong, wait ping", "ping"),
    _p("handoff", "second-constant", _PARITY, "second parity|and.b32 %r9, %r6, 1;|mov.u32 %r9, 1;", "wait pong, wait ping", "ping"),
    _p("handoff", "pong-missing", _ARRIVAL, "arrive pong", "wait pong", "pong"),
    _p("handoff", "ping-count", _COUNT, "ping|32;|33;", "wait pong, wait ping", "ping"),
    _p("handoff", "second-stops", _TRIPS, "second bound|%r6, %r2|%r6, 5", "wait pong", "pong"),
    _p("handoff", "pong-elsewhere", _OBJECT, "arrive pong|%r4|%r3", "wait pong", "pong"),
    # named
    _p("named", "sync-count", _BARRIER, "wait full|128|96", "wait empty", "1"),
    _p("named", "arrive-count", _BARRIER, "arrive full|128|96", "wait full", "1"),
    _p("named", "empty-count", _BARRIER, "wait empty|128|64", "wait full", "2"),
    _p("named", "full-elsewhere", _OBJECT, "arrive full|1, 128|3, 128", "wait full, wait empty", "1"),
    _p("named", "empty-missing", _ARRIVAL, "arrive empty", "wait full, wait empty", "2"),
    _p("named", "crosswise", _ORDER, "arrive empty\nconsumer bound|setp|barrier.arrive.aligned 2, 128; setp", "wait full, wait empty", "2"),
    _p("named", "consumer-stops", _TRIPS, "consumer bound|%r4, %r2|%r4, 5", "wait empty", "2"),
    _p("named", "whole-barrier", _ROLE, "wait full|barrier.sync.aligned 1, 128|bar.sync 1", "wait full", "1"),
    # pairs
    _p("pairs", "lower-count", _BARRIER, "lower pair|64|96", "lower pair, meet", "1"),
    _p("pairs", "upper-skipped", _ROLE, "upper pair|barrier|setp.eq.u32 %p2, %r1, 2; @%p2 bra $both; barrier", "upper pair, meet", "2"),
    _p("pairs", "number", _OBJECT, "lower pair|barrier.sync.aligned 1|add.u32 %r7, %r1, 1; barrier.sync.aligned %r7", "lower pair, meet", "1"),
    _p("pairs", "last-exits", _ROLE, "last warp|setp|setp.eq.u32 %p2, %r1, 3; @%p2 ret; setp", "meet", "0"),
    # exchange
    _p("exchange", "sent-missing", _ARRIVAL, "arrive sent", "wait sent", "sent"),
    _p("exchange", "taken-missing", _ARRIVAL, "arrive taken", "wait taken", "taken"),
    _p("exchange", "sent-elsewhere", _OBJECT, "arrive sent|%r7|%r8", "wait sent", "sent"),
    _p("exchange", "sent-count", _COUNT, "sent|32;|64;", "wait sent", "sent"),
    _p("exchange", "sender-parity", _PARITY, "sender parity|, 1;|, 0;", "wait taken", "taken"),
    _p(
        "exchange",
        "one-stops",
        _TRIPS,
        "bound|setp.lt.u32 %p3, %r10, %r3|sub.u32 %r16, %r3, %r1; setp.lt.u32 %p3, %r10, %r16",
        "wait sent, last wait",
        "sent",
    ),
    _p("exchange", "last-arrive-missing", _CLUSTER, "last arrive|barrier|setp.eq.u32 %p4, %r1, 0; @%p4 barrier", "last wait"),
    _p("exchange", "one-way", _ROLE, "arrive sent|mbarrier|setp.eq.u32 %p4, %r1, 0; @%p4 mbarrier", "wait sent", "sent"),
    # cluster_steps
    _p("cluster_steps", "written-missing", _CLUSTER, "arrive written|barrier|@!%p0 barrier", "wait written"),
    _p("cluster_steps", "half-arrives", _CLUSTER, "arrive read|barrier|setp.gt.u32 %p2, %r0, 31; @%p2 barrier", "wait read"),
    _p("cluster_steps", "one-stops", _TRIPS, "bound|setp.lt.u32 %p1, %r6, %r3|sub.u32 %r10, %r3, %r1; setp.lt.u32 %p1, %r6, %r10", "wait written"),
    _p("cluster_steps", "waits-again", _CLUSTER, "arrive read", "wait read"),
    # multicast
    _p("multicast", "mask", _CLUSTER, "mask|3;|1;", "wait empty, consumer wait full", "full"),
    _p("multicast", "home", _CLUSTER, "home|%r5, 0|%r5, %r2", "wait empty, consumer wait full", "empty"),
    _p("multicast", "one-expects", _BYTES, "expect|mbarrier|setp.eq.u32 %p3, %r2, 0; @%p3 mbarrier", "wait empty, consumer wait full", "full"),
    _p("multicast", "one-releases", _ROLE, "release|mbarrier|setp.eq.u32 %p7, %r2, 0; @%p7 mbarrier", "wait empty, consumer wait full", "empty"),
    _p("multicast", "empty-count", _COUNT, "empty|128;|160;", "wait empty, consumer wait full", "empty"),
    _p("multicast", "producer-parity", _PARITY, "producer parity|, 1;|, 0;", "wait empty, consumer wait full", "empty"),
    # pool
    _p("pool", "dec-missing", _REGISTERS, "give", "take", "registers"),
    _p("pool", "inc-too-many", _REGISTERS, "take|240|248", "take"),
    _p("pool", "dec-too-few", _REGISTERS, "give|24;|120;", "take"),
    _p("pool", "no-producer", _ROLE, "roles|, 2;|, 3;", "take", "registers"),
    _p("pool", "full-missing", _ARRIVAL, "arrive full", "wait full, last barrier", "full"),
    _p("pool", "full-count", _COUNT, "full|128;|129;", "wait full, last barrier", "full"),
    # staged
    _p("staged", "commit-missing", _COMMIT, "commit", "wait full, wait empty", "full"),
    _p("staged", "neutral", _COMMIT, "commit|.noinc|", "wait full, wait empty", "full"),
    _p("staged", "full-count", _COUNT, "full 0|64;|65;", "wait full, wait empty", "full", "full 1"),
    _p("staged", "producer-flip", _PARITY, "producer flip", "wait empty, wait full", "empty"),
    _p("staged", "consumer-flip", _PARITY, "consumer flip", "wait empty, wait full", "full"),
    _p("staged", "release-missing", _ARRIVAL, "release", "wait empty, wait full", "empty"),
    _p("staged", "producer-parity", _PARITY, "producer parity|, 1;|, 0;", "wait empty, wait full", "empty"),
    # relay
    _p("relay", "stored-missing", _ARRIVAL, "arrive stored", "wait stored", "stored"),
    _p("relay", "consumed-missing", _ARRIVAL, "arrive consumed", "wait consumed", "consumed"),
    _p("relay", "no-store-role", _ROLE, "store role|, 2;|, 3;", "wait stored", "stored"),
    _p("relay", "output-parity", _PARITY, "output parity|, 1;|, 0;", "wait stored, wait computed", "stored"),
    _p("relay", "computed-count", _COUNT, "computed|32;|64;", "wait computed, wait stored", "computed"),
    _p("relay", "expect-more", _BYTES, "expect|, 128;|, 256;", "wait loaded", "loaded"),
    _p("relay", "consumed-elsewhere", _OBJECT, "arrive consumed|%r5|%r7", "wait consumed", "consumed stored"),
    _p("relay", "store-stops", _TRIPS, "store bound|%r10, %r3|%r10, 5", "wait stored", "stored"),
    # tokens
    _p("tokens", "count", _COUNT, "meet|128;|129;", "wait", "meet"),
    _p("tokens", "one-stops", _TRIPS, "bound|setp|setp.lt.u32 %p2, %r4, 7; @%p4 setp", "wait", "meet"),
    # lanes
    _p("lanes", "ready-missing", _ARRIVAL, "arrive ready", "wait ready", "ready"),
    _p("lanes", "seen-count", _COUNT, "seen|32;|33;", "wait seen", "seen"),
    _p(
        "lanes",
        "crosswise",
        _ORDER,
        "arrive ready\nlast barrier|bar|@%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; bar",
        "wait ready, wait seen",
        "ready",
    ),
    # scheduler
    _p("scheduler", "taken-count", _COUNT, "taken|33;|34;", "wait taken, loader wait published", "taken"),
    _p("scheduler", "loader-taken-missing", _ARRIVAL, "loader arrive taken", "wait taken, user wait published", "taken"),
    _p("scheduler", "user-taken-missing", _ARRIVAL, "user arrive taken", "wait taken, loader wait published", "taken"),
    _p("scheduler", "no-loader", _ROLE, "load role|, 1;|, 3;", "wait taken, user wait published", "taken"),
    _p("scheduler", "empty-missing", _ARRIVAL, "arrive empty", "wait empty", "empty"),
    _p("scheduler", "load-parity", _PARITY, "load parity|, 1;|, 0;", "wait empty, wait full", "empty"),
    _p("scheduler", "use-stops", _TRIPS, "use bound|%r9, %r3|%r9, 5", "wait taken, loader wait published", "taken"),
    _p("scheduler", "published-count", _COUNT, "published|, 1;|, 2;", "loader wait published, wait taken", "published"),
    # pingpong
    _p("pingpong", "turn-missing", _ARRIVAL, "first turn", "wait turn", "2"),
    _p("pingpong", "pass-missing", _ARRIVAL, "pass turn", "wait turn", "3"),
    _p("pingpong", "same-barrier", _OBJECT, "other barrier|add.u32 %r15, %r15, 2;|add.u32 %r15, %r13, 2;", "wait turn", "3"),
    _p("pingpong", "empty-count", _COUNT, "empty 1|128;|256;", "wait empty", "smem+4112"),
    _p("pingpong", "release-missing", _ARRIVAL, "release", "wait empty", "smem+4112"),
    _p("pingpong", "producer-phase", _PARITY, "producer phase|, 1;|, 0;", "wait empty", "smem+4112"),
    _p("pingpong", "producer-stops", _TRIPS, "producer bound|%r5, %r2|%r5, 9", "wait full", "smem+4096"),
    _p("pingpong", "consumer-flip", _PARITY, "consumer flip", "wait empty", "smem+4096"),
    _p("pingpong", "expect-more", _BYTES, "expect|2048|2064", "wait full", "smem+4096"),
    _p("pingpong", "one-stops", _TRIPS, "consumer bound|setp|@%p7 setp.lt.u32 %p9, %r5, 6; @!%p7 setp", "wait turn"),
    # partials
    _p("partials", "count", _COUNT, "parts|, 4;|, 5;", "wait parts, wait added", "parts"),
    _p("partials", "all-threads", _COUNT, "parts|, 4;|, 128;", "wait parts, wait added", "parts"),
    _p("partials", "report-missing", _ARRIVAL, "report", "wait parts, wait added", "parts"),
    _p("partials", "added-missing", _ARRIVAL, "added", "wait added, wait parts", "1"),
    _p("partials", "added-count", _BARRIER, "wait added|1, 160|1, 128", "wait parts", "1"),
    _p("partials", "no-flip", _PARITY, "flip", "wait parts", "parts"),
    _p("partials", "adder-stops", _TRIPS, "adder bound|%r5, %r2|%r5, 4", "wait added", "1"),
    # neighbours
    _p("neighbours", "credit-missing", _ARRIVAL, "return credit", "wait credit, wait got", "credit"),
    _p("neighbours", "send-parity", _PARITY, "send parity|, 1;|, 0;", "wait credit, wait got", "credit"),
    _p("neighbours", "credit-forward", _OBJECT, "previous|, 3;|, 3; mov.u32 %r3, %r1;", "wait credit, wait got", "credit"),
    _p("neighbours", "expect-more", _BYTES, "expect|, 4;|, 8;", "wait got, wait credit", "got"),
    _p("neighbours", "send-missing", _BYTES, "send", "wait got", "got"),
    _p("neighbours", "one-stops", _TRIPS, "send bound|setp|setp.eq.u32 %p8, %r1, 2; @%p8 mov.u32 %r4, 5; setp", "wait got", "got"),
    _p("neighbours", "credit-count", _COUNT, "credit|, 1;|, 2;", "wait credit, wait got", "credit"),
    # epilogue
    _p("epilogue", "done-missing", _ARRIVAL, "arrive done", "wait done, wait free", "done"),
    _p("epilogue", "done-count", _COUNT, "done 1|, 32;|, 64;", "wait done", "done"),
    _p("epilogue", "free-missing", _ARRIVAL, "free", "wait free, wait done", "1"),
    _p("epilogue", "free-first", _ORDER, "first buffer|, 0;|, 99;", "wait free, wait done", "1"),
    _p("epilogue", "one-buffer", _TRIPS, "both|, 2;|, 1;", "wait free", "2"),
    _p("epilogue", "parity", _PARITY, "parity|, 1;|, 1; xor.b32 %r10, %r10, 1;", "wait done", "done"),
    _p("epilogue", "store-stops", _TRIPS, "store bound|%r6, %r3|%r6, 6", "wait free", "1"),
    # broadcast
    _p("broadcast", "ready-missing", _ARRIVAL, "arrive ready", "wait ready", "ready"),
    _p("broadcast", "asked-missing", _ARRIVAL, "arrive asked", "wait asked, wait ready", "asked"),
    _p("broadcast", "team-count", _BARRIER, "wait team|3, 96|3, 128", "wait team", "3"),
    _p("broadcast", "publish-parity", _PARITY, "publish parity", "wait asked, wait ready", "asked"),
    _p("broadcast", "none-asks", _ROLE, "asks|, 32;|, 128;", "wait asked, wait ready", "asked"),
    _p("broadcast", "publish-stops", _TRIPS, "publish bound|%r3, %r4|%r3, 5", "wait ready", "ready"),
    _p("broadcast", "ready-count", _COUNT, "ready|, 1;|, 3;", "wait asked, wait ready", "ready"),
    # token_ring
    _p("token_ring", "skips-one", _OBJECT, "next|, 1;|, 2;", "wait turn", "turn"),
    _p("token_ring", "none-first", _PARITY, "first|, 0;|, 4;", "wait turn", "turn"),
    _p("token_ring", "count", _COUNT, "turn 2|32;|33;", "wait turn", "turn"),
    _p("token_ring", "one-stops", _TRIPS, "bound|setp|setp.eq.u32 %p4, %r1, 2; @%p4 mov.u32 %r4, 6; setp", "wait turn", "turn"),
    _p("token_ring", "turn-missing", _ARRIVAL, "arrive turn", "wait turn", "turn"),
)  # fmt: skip
"""All planted deadlocks. Those that do not hang are named in the record and not counted."""

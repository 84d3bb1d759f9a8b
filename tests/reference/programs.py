"""Random programs for the reference, each also as the body of a kernel.

A thread of a program is a warp of the kernel, whose first lane does what one thread does; a program of one thread has a
kernel of one thread, or of one warpgroup. Each instruction of a program is at the label ``P<thread>_<number>``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.reference.engines import DONE, READ, Behaviour, Place, Program
from tests.tools.support import HEADER, HOPPER

LENGTH = 15
"""The most instructions of a thread."""
BYTES = 16
"""What an operation reads and writes."""
SETUP = "mov.u32 %r1, bars;\nmov.u32 %r2, smem;\nld.param.u64 %rd1, [data];\nsetp.eq.u32 %p0, 0, 0;\n"
WGMMA = """shr.u32 %r5, %r2, 4;
and.b32 %r5, %r5, 0x3fff;
cvt.u64.u32 %rd2, %r5;
or.b64 %rd2, %rd2, 0x0000001000080000;
setp.ne.u32 %p1, 0, 0;
wgmma.fence.sync.aligned;
"""
TCGEN05 = """tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
bar.sync 0;
ld.shared.b32 %r9, [%r2];
"""


class Engine(NamedTuple):
    """How tclint spells and names what an engine of the reference does."""

    issue: Callable[[int], str]
    """An operation on the slot of that number."""
    look: Callable[[int], str]
    """What needs such an operation at *stage*."""
    commit: str = ""
    wait: str = ""
    """For groups; {} is the number that it leaves pending."""
    read: str = ""
    """The same for sources only."""
    all: str = ""
    """For all operations."""
    stage: int = DONE
    rule: str = ""
    """What ``check`` reports of a look that comes too early."""
    hazard: str = ""
    """The class of hazards that it belongs to; empty if it is legal."""
    observed: str = ""
    """What an execution observes there; empty if it does not follow these accesses."""
    followed: bool = True
    """Whether a replay follows the waits."""
    setup: str = ""
    threads: int = 1
    header: str = HOPPER


def _registers(n: int) -> str:
    return ", ".join(f"%f{4 * n + i}" for i in range(4))


ENGINES = {
    "cp.async": Engine(
        lambda n: f"@%p0 cp.async.ca.shared.global [%r2+{BYTES * n}], [%rd1], 16;",
        lambda n: f"ld.shared.u32 %r50, [%r2+{BYTES * n}];",
        "cp.async.commit_group;", "cp.async.wait_group {};", all="cp.async.wait_all;",
        rule="CA001", hazard="cp-async", observed="read-too-early",
    ),
    "cp.async of one lane": Engine(
        lambda n: f"@%p0 cp.async.ca.shared.global [%r2+{BYTES * n}], [%rd1], 16;",
        lambda n: f"@%p0 ld.shared.u32 %r50, [%r2+{BYTES * n}];",
        "cp.async.commit_group;", "cp.async.wait_group {};", all="cp.async.wait_all;",
        rule="CA001", hazard="cp-async", observed="read-too-early",
        setup="setp.eq.u32 %p0, %r199, 0;\n", threads=32,
    ),
    "bulk sources": Engine(
        lambda n: f"cp.async.bulk.global.shared::cta.bulk_group [%rd63+{BYTES * n}], [%r2+{BYTES * n}], 16;",
        lambda n: f"st.shared.u32 [%r2+{BYTES * n}], 0;",
        "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group {};", "cp.async.bulk.wait_group.read {};",
        stage=READ, rule="BK002", hazard="bulk", observed="source-overwritten",
    ),
    "bulk results": Engine(
        lambda n: f"cp.async.bulk.global.shared::cta.bulk_group [%rd63+{BYTES * n}], [%r2+{BYTES * n}], 16;",
        lambda n: f"ld.global.u32 %r50, [%rd63+{BYTES * n}];",
        "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group {};", "cp.async.bulk.wait_group.read {};",
        rule="BK004", hazard="bulk", followed=False,
    ),
    "wgmma": Engine(
        lambda n: f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{_registers(n)}}}, %rd2, %rd2, %p1, 1, 1, 0, 0;",
        lambda n: f"add.f32 %f63, %f{4 * n}, %f{4 * n + 3};",
        "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned {};",
        rule="WG001", hazard="wgmma", observed="register-in-flight", setup=WGMMA, threads=128,
    ),
    "tcgen05.ld": Engine(
        lambda n: f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r{100 + n}}}, [%r9];",
        lambda n: f"add.u32 %r50, %r{100 + n}, 1;",
        all="tcgen05.wait::ld.sync.aligned;",
        rule="TC007", followed=False, setup=TCGEN05, threads=32, header=HEADER,
    ),
    "tcgen05.st": Engine(
        lambda n: f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9+{n}], {{%r2}};",
        lambda n: f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r50}}, [%r9+{n}];\ntcgen05.wait::ld.sync.aligned;",
        all="tcgen05.wait::st.sync.aligned;",
        rule="TC004", hazard="tcgen05-ldst", followed=False, setup=TCGEN05, threads=32, header=HEADER,
    ),
}  # fmt: skip
"""Those whose operations their thread waits for."""
MIX = (
    "arrive arrive arrive drop expect copy copy cp.async track test test await await barrier transact".split()
)
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+{}], [%rd1], 16, [%r1+{}];"


class Kernel(NamedTuple):
    """A program, whose mbarriers have these *counts*, and how a kernel does the same."""

    program: Program
    counts: tuple[int, ...] = ()
    threads: int = 1
    setup: str = ""
    header: str = HOPPER

    def behaviour(self) -> Behaviour:
        return Behaviour(self.program, self.counts)

    def named(self, name: str) -> list[Place]:
        """Where the instructions of that name are."""
        return [
            (t, n) for t, each in enumerate(self.program) for n, (what, *_) in enumerate(each) if what == name
        ]

    def body(self, only: Place | None = None) -> str:
        """The body of the kernel; with *only*, it looks at nothing elsewhere."""
        text = SETUP + self.setup + "setp.eq.u32 %p10, %r199, 0;\n"
        # A replay follows asynchronous operations only beside an mbarrier.
        for number, count in enumerate(self.counts or (1,)):
            text += f"@%p10 mbarrier.init.shared.b64 [%r1+{8 * number}], {count};\n"
        if len(self.program) > 1:
            text += "and.b32 %r6, %r199, 31;\nsetp.eq.u32 %p0, %r6, 0;\nbar.sync 0;\nshr.u32 %r7, %r199, 5;\n"
        for thread in range(1, len(self.program)):
            text += f"setp.eq.u32 %p11, %r7, {thread};\n@%p11 bra P{thread}_0;\n"
        for thread, instructions in enumerate(self.program):
            for number, instruction in enumerate(instructions):
                at = thread, number
                shown = instruction[0] != "look" or only in (None, at)
                text += f"P{thread}_{number}: {spelled(at, *instruction) if shown else ''}\n"
            text += "ret;\n"
        return text


def spelled(at: Place, name: str, *arguments: Any) -> str:
    """An instruction of a program as PTX."""
    thread, number = at
    slot = LENGTH * thread + number
    if name in ("issue", "commit", "wait") and arguments[0] in ENGINES:
        engine = ENGINES[arguments[0]]
        if name != "wait":
            return engine.issue(slot) if name == "issue" else engine.commit
        _, left, stage = arguments
        return engine.all if left is None else (engine.read if stage == READ else engine.wait).format(left)
    if name == "look":
        engine, (of, begun) = ENGINES[arguments[0]], arguments[1]
        return engine.look(LENGTH * of + begun)
    if name == "barrier":
        barrier, warps, waits = arguments
        return f"bar.{'sync' if waits else 'arrive'} {barrier}, {32 * warps};"
    if name == "test":
        return _test(f"P{thread}_{number}", slot, *arguments)
    return "@%p0 " + _signal(number, slot, name, *arguments)


def _signal(number: int, slot: int, name: str, *arguments: Any) -> str:
    """What changes an mbarrier, or what will."""
    if name == "issue":
        return COPY.format(BYTES * slot, 8 * arguments[1])
    if name == "track":
        _, mbarrier, raises = arguments
        return f"cp.async.mbarrier.arrive{'' if raises else '.noinc'}.shared.b64 [%r1+{8 * mbarrier}];"
    if name == "transact":
        mbarrier, size = arguments
        return f"mbarrier.{'expect' if size > 0 else 'complete'}_tx.shared.b64 [%r1+{8 * mbarrier}], {abs(size)};"
    mbarrier, count, expects, drops = arguments
    opcode = f"mbarrier.arrive{'_drop' * drops}{'.expect_tx' * (expects > 0)}.shared.b64"
    return f"{opcode} %rd{10 + number}, [%r1+{8 * mbarrier}], {expects or count};"


def _test(label: str, slot: int, mbarrier: int, parity: int, token: int, blocks: bool) -> str:
    """A test of an mbarrier, which stores 2 for a phase that is complete, else 1."""
    kept = f"selp.u64 %rd5, 2, 1, %p9;\n@%p0 st.global.u64 [%rd63+{8 * slot}], %rd5;"
    if token >= 0:
        return f"@%p0 mbarrier.test_wait.shared.b64 %p9, [%r1+{8 * mbarrier}], %rd{10 + token};\n{kept}"
    again = f"@!%p9 bra {label};\n" if blocks else ""
    opcode = f"mbarrier.{'try' if blocks else 'test'}_wait.parity.shared.b64"
    return f"{opcode} %p9, [%r1+{8 * mbarrier}], {parity};\n{again}{kept}"


def groups(name: str, seed: int) -> Kernel:
    """One thread that begins operations of an engine, commits them, waits, and looks at what they have done."""
    pick, engine = random.Random(f"{name} {seed}"), ENGINES[name]
    waits = [way for way in ("wait", "wait", "read", "all") if getattr(engine, way)]
    made: list[tuple[Any, ...]] = []
    begun: list[Place] = []
    while len(made) < LENGTH - 1:
        what = pick.choice(["issue"] * 3 + ["commit"] * 4 * bool(engine.commit) + waits + ["look"] * 4)
        if what == "issue" and len(begun) < 5:
            begun.append((0, len(made)))
            made.append(("issue", name))
        elif what == "commit":
            made.append(("commit", name))
        elif what in waits:
            left = None if what == "all" else pick.randint(0, 3)
            made.append(("wait", name, left, READ if what == "read" else DONE))
            if begun:
                made.append(("look", name, pick.choice(begun)))
        elif what == "look" and begun:
            made.append(("look", name, pick.choice(begun)))
    return Kernel((tuple(made),), threads=engine.threads, setup=engine.setup, header=engine.header)


def phases(threads: int, seed: int) -> Kernel:
    """Threads that arrive at mbarriers and CTA barriers, wait for them, and look at copies that mbarriers track."""
    pick = random.Random(f"{threads} {seed}")
    counts = tuple(pick.randint(1, 1 + threads) for _ in range(pick.randint(1, 2)))
    begun: list[Place] = []
    program: list[tuple[tuple[Any, ...], ...]] = []
    for thread in range(threads):
        made: list[tuple[Any, ...]] = []
        for _ in range(pick.randint(3, 12 // threads)):
            mbarrier, what = pick.randrange(len(counts)), pick.choice(MIX)
            if what in ("copy", "cp.async"):
                begun.append((thread, len(made)))
                made.append(("issue", "copy", mbarrier, BYTES) if what == "copy" else ("issue", "cp.async"))
            elif what == "track":
                made.append(("track", "cp.async", mbarrier, pick.random() < 0.5))
            elif what == "transact":
                made.append(("transact", mbarrier, pick.choice([BYTES, -BYTES])))
            elif what == "barrier" and threads > 1:
                barrier = pick.randint(1, 2)
                made.append(("barrier", barrier, 2 if barrier == 1 else threads, pick.random() < 0.7))
            elif what in ("test", "await"):
                tokens = [-1, *(n for n, each in enumerate(made) if each[:2] == ("arrive", mbarrier))]
                token = pick.choice(tokens) if what == "test" else -1
                made.append(("test", mbarrier, pick.randint(0, 1), token, what == "await"))
                if begun:
                    made.append(("look", "cp.async", pick.choice(begun)))
            else:
                expects = BYTES * pick.randint(1, 2) if what == "expect" or pick.random() < 0.2 else 0
                made.append(
                    ("arrive", mbarrier, 1 if expects else pick.choice([1, 1, 2]), expects, what == "drop")
                )
        program.append(tuple(made))
    return Kernel(tuple(program), counts, 32 * threads if threads > 1 else 1)

"""Kernels made at random: what tclint proves and reports of them, compared with a simulation of every thread.

    python -m benchmarks.random_kernels --count 100000

A kernel is made of the code that proofs depend on: index arithmetic in 16, 32 and 64 bits with sign and zero extension and
division by constants, in CTAs of one and two dimensions and with a partial warp; barriers with and without ``.aligned``, calls,
accesses of shared memory, rings of ``cp.async``, bulk copies that parameters guard, words of ``tcgen05.alloc``, and parities of
an mbarrier. Each instruction is made together with the Python function that computes it, so the simulation reads no PTX and
shares no code with tclint. It executes every thread of several launches. These are contradictions:

- a class is *proved*, and it is violated in a launch that satisfies the assumptions of the proof;
- a kernel has no verdict of a class, so that ``--require`` is satisfied, and the class is violated in a launch;
- a finding of high confidence violates a class that no launch violates.

``--root W1`` to ``W5`` puts a mistake back that values or provers once made, and ``--trusting`` shows proofs without the exact
evaluation of what they rest on, so that these mistakes become visible. The exit code is 1 if there is a contradiction.
"""

from __future__ import annotations

import operator
import random
import re
import time
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

from tclint.findings.requirements import ALL_ASSUMPTIONS
from tclint.findings.scales import Confidence
from tclint.findings.selection import Request
from tclint.findings.verdicts import Assumption, HazardClass, Status
from tclint.ir.nodes import Memory
from tclint.linting.check import check_source
from tclint.syntax.source import Source
from tclint.values.nodes import Allocated, Applied

__all__ = ["ROOTS", "Contradiction", "Maker", "Op", "Program", "compared", "numbers", "with_root"]

WARP = 32
CONVERGENCE, SHARED, COPIES = HazardClass.CONVERGENCE, HazardClass.SHARED_MEMORY, HazardClass.CP_ASYNC
BULK, MBARRIER = HazardClass.BULK, HazardClass.MBARRIER
Env = dict[str, Any]
Compute = Callable[[Env], int]
Key = tuple[int, ...]
"""When an event happens: its position in the program, with the iterations of the loops around it."""
EDGES = (0, 1, 2, 3, 4, 5, 31, 32, 100, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1)
HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"


# ---------------------------------------------------------------- programs


@dataclass
class Op:
    """An instruction that writes a register."""

    text: str
    register: str
    compute: Compute


@dataclass
class Event:
    """An instruction that other threads or later instructions depend on; *guard* is a predicate, or "!" and one."""

    text: str
    kind: str
    data: Callable[[Env], tuple[Any, ...]] = lambda env: ()
    guard: str = ""


@dataclass
class Block:
    """Statements that execute if *guard* holds, as often as *times* states, whose counter is *register*."""

    body: list[Op | Event | Block]
    guard: str = ""
    register: str = ""
    times: int = 1


@dataclass
class Program:
    """A kernel, and the launches in which it is simulated."""

    body: list[Op | Event | Block]
    directive: str
    shapes: list[tuple[int, int]]
    covered: frozenset[HazardClass]
    """The classes of which the simulation finds every violation."""
    theme: str
    arguments: list[tuple[int, int]] = field(default_factory=lambda: [(5, 4)])
    functions: str = ""
    variable: str = ".shared .align 1024 .b8 sm[16384];"

    def text(self) -> str:
        lines = list(_lines(self.body, iter(range(1000))))
        return f"""{HEADER}{self.functions}
.visible .entry k(.param .u64 pg, .param .u32 pn, .param .u32 pm) {self.directive}
{{
.reg .pred %p<100>; .reg .b16 %h<100>; .reg .b32 %r<200>; .reg .b64 %rd<100>; .reg .f32 %f<8>;
{self.variable}
.shared .align 8 .b64 mb;
{chr(10).join(lines)}
ret;
}}
"""


def _lines(body: Sequence[Op | Event | Block], labels: Iterator[int]) -> Iterator[str]:
    for each in body:
        if isinstance(each, Op):
            yield each.text
        elif isinstance(each, Event):
            yield f"@{each.guard} {each.text}" if each.guard else each.text
        elif each.register:
            label = next(labels)
            yield f"mov.b32 {each.register}, 0;\nT{label}:"
            yield from _lines(each.body, labels)
            yield f"add.s32 {each.register}, {each.register}, 1;\nsetp.lt.s32 %p99, {each.register}, {each.times};"
            yield f"@%p99 bra T{label};"
        else:
            label = next(labels)
            opposite = each.guard[1:] if each.guard[0] == "!" else "!" + each.guard
            yield f"@{opposite} bra S{label};"
            yield from _lines(each.body, labels)
            yield f"S{label}:"


# ---------------------------------------------------------------- simulation


def _holds(guard: str, env: Env) -> bool:
    return not guard or bool(env[guard.lstrip("!")]) is not guard.startswith("!")


def _execute(
    body: Sequence[Op | Event | Block], env: Env, at: Key, events: list[tuple[Key, str, tuple[Any, ...]]]
) -> bool:
    """Whether the thread continues after them."""
    for n, each in enumerate(body):
        key = (*at, n)
        if isinstance(each, Op):
            env[each.register] = each.compute(env)
        elif isinstance(each, Event):
            if _holds(each.guard, env):
                if each.kind == "exit":
                    return False
                events.append((key, each.kind, each.data(env)))
        elif _holds(each.guard, env):
            for k in range(each.times):
                if each.register:
                    env[each.register] = k
                if not _execute(each.body, env, (*key, k), events):
                    return False
    return True


def _environment(shape: tuple[int, int], thread: int, arguments: tuple[int, int]) -> Env:
    """What a thread begins with."""
    width, _ = shape
    n, m = arguments
    return {
        "tid": thread % width,
        "ty": thread // width,
        "ntid": width,
        "n": n,
        "m": m,
        "alloc": 0,
        "wrapped": False,
    }


def numbers(program: Program, shape: tuple[int, int], register: str) -> list[int]:
    """A register where each thread of a CTA ends."""
    found = list[int]()
    for thread in range(shape[0] * shape[1]):
        env = _environment(shape, thread, program.arguments[0])
        _execute(program.body, env, (), [])
        found.append(int(env[register]))
    return found


def violated(
    program: Program, shape: tuple[int, int], arguments: tuple[int, int]
) -> tuple[set[HazardClass], bool]:
    """The classes that one launch violates, and whether signed arithmetic wraps in it."""
    size, wrapped = shape[0] * shape[1], False
    found = list[tuple[Key, int, str, tuple[Any, ...]]]()
    for thread in range(size):
        env = _environment(shape, thread, arguments)
        events = list[tuple[Key, str, tuple[Any, ...]]]()
        _execute(program.body, env, (), events)
        wrapped = wrapped or env["wrapped"]
        found += [(key, thread, kind, data) for key, kind, data in events]
    found.sort(key=lambda e: (e[0], e[1]))
    classes = set[HazardClass]()
    if _diverges(found, size):
        classes.add(CONVERGENCE)
    if _races(found):
        classes.add(SHARED)
    if _overtakes(found):
        classes.add(COPIES)
    if _leaves_copies(found):
        classes.add(BULK)
    if _blocks(found):
        classes.add(MBARRIER)
    return classes, wrapped


Events = Sequence[tuple[Key, int, str, tuple[Any, ...]]]


def _diverges(events: Events, size: int) -> bool:
    """Whether some threads that a collective instruction needs do not execute it, or its count is not one of whole warps."""
    together: dict[tuple[Key, int], set[int]] = defaultdict(set)
    for key, thread, kind, data in events:
        if kind == "barrier":
            together[key, -1 - (data[0] if data else size)].add(thread)
        elif kind == "warp":
            together[key, thread // WARP].add(thread)
    counted = any(kind == "barrier" and data and data[0] % WARP for _, _, kind, data in events)
    return counted or not all(
        len(threads) == WARP if which >= 0 else _opens(threads, -1 - which, size)
        for (_, which), threads in together.items()
    )


def _opens(threads: Collection[int], count: int, size: int) -> bool:
    """Whether *threads* are whole warps of a CTA of *size*, and as many as a barrier counts: an incomplete one is whole."""
    warps = {t // WARP for t in threads}
    return len(warps) == -(-count // WARP) and all(t in threads for t in range(size) if t // WARP in warps)


def _races(events: Events) -> bool:
    """Whether two threads access a byte between the same barriers, one of them by a write, and not with one value."""
    epoch: dict[int, int] = defaultdict(int)
    touched: dict[tuple[int, int], list[tuple[int, bool, Key, int]]] = defaultdict(list)
    for key, thread, kind, data in events:
        if kind == "barrier":
            epoch[thread] += 1
        elif kind in ("read", "write"):
            address, size, value = data
            for byte in range(address, address + size):
                touched[epoch[thread], byte].append((thread, kind == "write", key, value))
    for each in touched.values():
        writes = [a for a in each if a[1]]
        for a in writes:
            for b in each:
                once = b[1] and a[2] == b[2] and a[3] == b[3] and a[0] // WARP == b[0] // WARP
                if a[0] != b[0] and not once:
                    return True
    return False


def _overtakes(events: Events) -> bool:
    """Whether a byte is accessed while a ``cp.async`` that writes it is pending."""
    groups: dict[int, list[list[int]]] = defaultdict(lambda: [[]])
    for _, thread, kind, data in events:
        if kind == "copy":
            groups[thread][-1].append(data[0])
        elif kind == "commit":
            groups[thread].append([])
        elif kind == "wait":
            done = len(groups[thread]) - 1 - data[0]
            groups[thread] = groups[thread][max(done, 0) :]
        elif kind in ("read", "write"):
            first, end = data[0], data[0] + data[1]
            if any(a < end and first < a + 16 for g in groups.values() for copies in g for a in copies):
                return True
    return False


def _leaves_copies(events: Events) -> bool:
    """Whether a thread exits with a bulk copy whose source may not have been read."""
    pending: dict[int, bool] = defaultdict(bool)
    for _, thread, kind, _ in events:
        if kind in ("bulk", "bulk wait"):
            pending[thread] = kind == "bulk"
    return any(pending.values())


def _blocks(events: Events) -> bool:
    """Whether a wait never ends, or ends before the phase that all threads have just arrived in."""
    left: list[int] = []
    phases, count = 0, 0
    for _, _, kind, data in events:
        if kind == "init":
            left, count = [data[0]], data[0]
        elif kind == "arrive" and left:
            left[0] -= 1
            if left[0] == 0:
                phases, left[0] = phases + 1, count
        elif kind == "parity" and (data[0] & 1) == (phases & 1):
            return True
    return False


# ---------------------------------------------------------------- the maker


def _signed(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> width - 1 else number


def _checked(env: Env, exact: int, width: int) -> int:
    """The low bits of a signed result, which is noted if it wraps."""
    if not -(1 << width - 1) <= exact < 1 << width - 1:
        env["wrapped"] = True
    return exact & (1 << width) - 1


def _number(number: int, env: Env) -> int:
    return number


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
PREFIX = {16: "%h", 32: "%r", 64: "%rd", 1: "%p"}
DIVISORS = (3, 5, 6, 7, 12)


class Maker:
    """Makes one kernel of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = Counter[int]()
        self.body: list[Op | Event | Block] = []
        self.known: dict[int, list[str]] = {16: [], 32: [], 64: [], 1: []}

    def program(self) -> Program:
        theme = self.rng.choices(
            ("convergence", "shared", "copies", "bulk", "alloc", "parity"), (8, 5, 3, 3, 1, 1)
        )[0]
        made: Program = getattr(self, f"_{theme}")()
        return made

    # ------------------------------------------------------------ arithmetic

    def new(self, width: int) -> str:
        self.count[width] += 1
        return f"{PREFIX[width]}{self.count[width]}"

    def op(self, width: int, text: str, compute: Compute) -> str:
        """Adds an instruction; ``{}`` in its text is the register that it writes."""
        register = self.new(width)
        self.body.append(Op(text.format(register) + ";", register, compute))
        self.known[width].append(register)
        return register

    def pick(self, width: int) -> str:
        """A register of a width, the newest ones more often; one is made if there is none."""
        known = self.known[width]
        if known:
            return self.rng.choice(known[-3:] if self.rng.random() < 0.7 else known)
        return self.extended() if width == 64 else self.shortened() if width == 16 else self.predicate()

    def extended(self) -> str:
        """A 64-bit register made of one of 32 bits."""
        x, kind = self.pick(32), self.rng.randrange(5)
        if kind == 0:
            return self.op(64, f"cvt.s64.s32 {{}}, {x}", lambda e: _signed(e[x], 32) & (1 << 64) - 1)
        if kind == 1:
            return self.op(64, f"cvt.u64.u32 {{}}, {x}", lambda e: e[x])
        if kind == 2:
            c = self.rng.choice((2, 4, 16))
            return self.op(
                64, f"mul.wide.s32 {{}}, {x}, {c}", lambda e: _signed(e[x], 32) * c & (1 << 64) - 1
            )
        if kind == 3:  # x / 3, 5 or 12
            c, shift = self.rng.choice(((2863311531, 33), (3435973837, 34), (2863311531, 35)))
            wide = self.op(64, f"mul.wide.u32 {{}}, {x}, {c}", lambda e: e[x] * c)
            return self.op(64, f"shr.u64 {{}}, {wide}, {shift}", lambda e: e[wide] >> shift)
        by = self.rng.choice((28, 30, 31, 32))
        wide = self.op(64, f"cvt.u64.u32 {{}}, {x}", lambda e: e[x])
        high = self.op(64, f"shl.b64 {{}}, {wide}, 32", lambda e: e[wide] << 32 & (1 << 64) - 1)
        return self.op(
            64, f"shr.s64 {{}}, {high}, {by}", lambda e: _signed(e[high], 64) >> by & (1 << 64) - 1
        )

    def shortened(self) -> str:
        x = self.pick(32)
        return self.op(16, f"cvt.u16.u32 {{}}, {x}", lambda e: e[x] & 0xFFFF)

    def arithmetic(self) -> str:
        """An instruction that computes a register of a random width."""
        kind = self.rng.randrange(10)
        if kind < 5:
            return self._computed(32)
        if kind == 5:
            return self.extended()
        if kind == 6:
            return self._computed(64)
        if kind == 7:
            x = self.pick(64)
            return self.op(32, f"cvt.u32.u64 {{}}, {x}", lambda e: self._truncated(e, e[x]))
        x = self.pick(16) if kind == 8 else self._computed(16)
        if self.rng.random() < 0.5:
            return self.op(32, f"cvt.u32.u16 {{}}, {x}", lambda e: e[x])
        return self.op(32, f"cvt.s32.s16 {{}}, {x}", lambda e: _signed(e[x], 16) & 0xFFFFFFFF)

    @staticmethod
    def _truncated(env: Env, number: int) -> int:
        if not -(1 << 31) <= _signed(number, 64) < 1 << 32:
            env["wrapped"] = True
        return number & 0xFFFFFFFF

    def _computed(self, width: int) -> str:
        """An instruction on registers of one width."""
        rng, x, mask = self.rng, self.pick(width), (1 << width) - 1
        c, by = (
            rng.choice((1, 2, 3, 4, 7, 8, 31, 32, 33, 64)),
            rng.choice((1, 2, 3, 5, 31, 33) if width == 64 else (1, 2, 3, 5)),
        )
        if width == 64 and rng.random() < 0.3:
            by = rng.choice((30, 32, 34))
        kinds = ["add", "sub", "shl", "shr.u", "shr.s", "and", "xor", "mul", "min.s", "max.s", "or", "plus"]
        if width > 16:
            kinds += ["bfe.u", "bfe.s", "selp"]
        if width == 32:
            kinds += ["div.u", "rem.u", "div.s", "not", "hi"]
        kind = rng.choice(kinds)
        if kind == "add":
            return self.op(
                width, f"add.s{width} {{}}, {x}, {c}", lambda e: _checked(e, _signed(e[x], width) + c, width)
            )
        if kind == "sub":
            return self.op(
                width, f"sub.s{width} {{}}, {x}, {c}", lambda e: _checked(e, _signed(e[x], width) - c, width)
            )
        if kind == "plus":
            y = self.pick(width)
            return self.op(
                width,
                f"add.s{width} {{}}, {x}, {y}",
                lambda e: _checked(e, _signed(e[x], width) + _signed(e[y], width), width),
            )
        if kind == "mul":
            f = rng.choice((2, 3, 4, 5))
            return self.op(
                width,
                f"mul.lo.s{width} {{}}, {x}, {f}",
                lambda e: _checked(e, _signed(e[x], width) * f, width),
            )
        if kind == "shl":

            def shifted(e: Env) -> int:
                exact = _signed(e[x], width) << by
                return exact & mask if by >= 32 else _checked(e, exact, width)

            return self.op(width, f"shl.b{width} {{}}, {x}, {by}", shifted)
        if kind == "shr.u":
            return self.op(width, f"shr.u{width} {{}}, {x}, {by}", lambda e: e[x] >> by)
        if kind == "shr.s":
            return self.op(
                width, f"shr.s{width} {{}}, {x}, {by}", lambda e: _signed(e[x], width) >> by & mask
            )
        if kind in ("and", "or", "xor"):
            m = rng.choice((1, 3, 7, 12, 31, 32, 96, 127))
            bitwise = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[kind]
            return self.op(width, f"{kind}.b{width} {{}}, {x}, {m}", lambda e: bitwise(e[x], m))
        if kind in ("min.s", "max.s"):
            best = min if kind == "min.s" else max
            return self.op(
                width, f"{kind}{width} {{}}, {x}, {c}", lambda e: best(_signed(e[x], width), c) & mask
            )
        if kind.startswith("bfe"):
            at, length = rng.choice((0, 2, 5, 31, 33)) % width, rng.choice((1, 3, 5, 8))

            def field(e: Env) -> int:
                number = (_signed(e[x], width) if kind == "bfe.s" else e[x]) >> at
                number &= (1 << length) - 1
                return (number - (1 << length) if kind == "bfe.s" and number >> length - 1 else number) & mask

            return self.op(width, f"{kind}{width} {{}}, {x}, {at}, {length}", field)
        if kind == "selp":
            p, y = self.pick(1), self.pick(width)
            return self.op(width, f"selp.b{width} {{}}, {x}, {y}, {p}", lambda e: e[x] if e[p] else e[y])
        if kind == "not":
            return self.op(32, f"not.b32 {{}}, {x}", lambda e: ~e[x] & mask)
        if kind == "hi":
            k = rng.choice((2863311531, 3435973837, 1431655766))
            return self.op(32, f"mul.hi.u32 {{}}, {x}, {k}", lambda e: e[x] * k >> 32)
        d = rng.choice((2, 4, 8, *DIVISORS))
        if kind == "div.s":
            return self.op(32, f"div.s32 {{}}, {x}, {d}", lambda e: int(_signed(e[x], 32) / d) & mask)
        if kind == "div.u":
            return self.op(32, f"div.u32 {{}}, {x}, {d}", lambda e: e[x] // d)
        return self.op(32, f"rem.u32 {{}}, {x}, {d}", lambda e: e[x] % d)

    def predicate(self, width: int = 0) -> str:
        rng = self.rng
        width = width or rng.choice((32, 32, 32, 64, 64, 16))
        x, relation, sign = self.pick(width), rng.choice(tuple(COMPARE)), rng.choice("su")
        compare = COMPARE[relation]

        def read(number: int) -> int:
            return _signed(number, width) if sign == "s" else number

        if rng.random() < 0.15 and len(self.known[width]) > 1:
            y = self.pick(width)
            return self.op(
                1, f"setp.{relation}.{sign}{width} {{}}, {x}, {y}", lambda e: compare(read(e[x]), read(e[y]))
            )
        c = rng.choice((0, 0, 1, 2, 31, 32, 32, 40, 64, 64, 96, 127))
        return self.op(1, f"setp.{relation}.{sign}{width} {{}}, {x}, {c}", lambda e: compare(read(e[x]), c))

    def index(self, planar: bool, parameters: bool = True) -> None:
        """The registers that the arithmetic begins with: the position of the thread, and a parameter in some kernels."""
        self.op(32, "mov.u32 {}, %tid.x", lambda e: e["tid"])
        if planar:
            x = self.known[32][-1]
            y = self.op(32, "mov.u32 {}, %tid.y", lambda e: e["ty"])
            kind = self.rng.randrange(3)
            if kind == 0:
                w = self.op(32, "mov.u32 {}, %ntid.x", lambda e: e["ntid"])
                self.op(32, f"mad.lo.s32 {{}}, {y}, {w}, {x}", lambda e: e[y] * e[w] + e[x])
            elif kind == 1:
                self.op(1, f"setp.eq.s32 {{}}, {y}, 0", lambda e: e[y] == 0)
                self.known[32].remove(y)  # nothing else reads it
        if parameters and self.rng.random() < 0.3:
            self.op(32, "ld.param.u32 {}, [pn]", lambda e: e["n"])

    def launch(self, planar: bool, whole: bool = True) -> tuple[str, list[tuple[int, int]]]:
        """The directive, and the shapes of CTAs that it admits."""
        rng = self.rng
        size = rng.choice((32, 64, 96, 128) if whole or rng.random() < 0.7 else (40, 72, 33))
        if planar:
            height = rng.choice((2, 4)) if size % 32 == 0 else 1
            if rng.random() < 0.5:
                return f".reqntid {size // height}, {height}", [(size // height, height)]
            size = rng.choice((64, 128))
            return f".maxntid {size}", [(size, 1), (32, size // 32), (8, size // 8)]
        if rng.random() < 0.8 or size % 32 != 0:
            return f".reqntid {size}", [(size, 1)]
        return f".maxntid {size}", [(size, 1)]

    # ------------------------------------------------------------ themes

    def _guard(self, share: float) -> str:
        """A predicate, negated or not; with *share*, "" for none."""
        if self.rng.random() < share:
            return ""
        p = self.pick(1) if self.known[1] and self.rng.random() < 0.6 else self.predicate()
        return self.rng.choice(("", "!")) + p

    def _collective(self, size: int) -> Event:
        rng = self.rng
        p = self.pick(1)
        count = rng.choice((32, 64, -(-size // WARP) * WARP))
        texts = {
            "bar.sync 0;": ("barrier", ()), "barrier.sync 0;": ("barrier", ()), "barrier.sync.aligned 0;": ("barrier", ()),
            f"bar.red.popc.u32 %r190, 0, {p};": ("barrier", ()), f"barrier.red.popc.u32 %r190, 0, {p};": ("barrier", ()),
            f"bar.sync 1, {count};": ("barrier", (count,)), "call meets, ();": ("barrier", ()),
            f"vote.sync.ballot.b32 %r191, {p}, -1;": ("warp", ()), "bar.warp.sync -1;": ("warp", ()),
            "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r192, %r193}, {%r194}, {%r195}, {%r192, %r193};": ("warp", ()),
            "call %rd90, (), meeting;": ("barrier", ()),
        }  # fmt: skip
        text = rng.choice(tuple(texts))
        kind, data = texts[text]
        return Event(text, kind, lambda e: data)

    def _convergence(self) -> Program:
        rng = self.rng
        planar = rng.random() < 0.3
        directive, shapes = self.launch(planar, whole=False)
        self.index(planar)
        for _ in range(rng.randrange(1, 6)):
            self.arithmetic()
        for _ in range(rng.randrange(1, 3)):
            self.predicate()
        size = shapes[0][0] * shapes[0][1]
        event = self._collective(size)
        inside: list[Op | Event | Block] = [event]
        if rng.random() < 0.2:
            inside = [Block([event], register="%r198", times=3)]
        guard = self._guard(0.15)
        if guard and rng.random() < 0.3 and len(inside) == 1 and isinstance(inside[0], Event):
            event.guard = guard
            self.body += inside
        elif guard:
            self.body.append(Block(inside, guard))
        else:
            self.body += inside
        functions = ""
        if "meet" in event.text:
            functions = ".func meets()\n{\nbarrier.sync 0;\nret;\n}\n"
        if "meeting" in event.text:
            self.body.insert(
                0, Op("mov.u64 %rd90, meets;\nmeeting: .callprototype () _ ();", "%rd90", lambda e: 0)
            )
        return Program(
            self.body, directive, shapes, frozenset((CONVERGENCE,)), "convergence", functions=functions
        )

    def _unused(self, width: int, text: str, compute: Compute) -> str:
        """As :meth:`op`, for an address: neither it nor its base is an operand of other arithmetic."""
        found = self.op(width, text, compute)
        del self.known[width][-2:]
        return found

    def _address(self, scale: int) -> str:
        """A 32- or 64-bit address in shared memory."""
        if self.rng.random() < 0.6:
            for _ in range(self.rng.randrange(0, 3)):
                self.arithmetic()
        if self.rng.random() < 0.35:
            x = self.pick(64)
            scaled = self.op(
                64, f"shl.b64 {{}}, {x}, {scale}", lambda e: _checked(e, _signed(e[x], 64) << scale, 64)
            )
            base = self.op(64, "mov.u64 {}, sm", lambda e: 1 << 20)
            return self._unused(
                64,
                f"add.s64 {{}}, {base}, {scaled}",
                lambda e: _checked(e, e[base] + _signed(e[scaled], 64), 64),
            )
        x = self.pick(32)
        scaled = self.op(
            32, f"shl.b32 {{}}, {x}, {scale}", lambda e: _checked(e, _signed(e[x], 32) << scale, 32)
        )
        base = self.op(32, "mov.u32 {}, sm", lambda e: 1 << 20)
        return self._unused(
            32, f"add.s32 {{}}, {base}, {scaled}", lambda e: _checked(e, e[base] + _signed(e[scaled], 32), 32)
        )

    def _access(self, size: int = 4) -> Event:
        rng = self.rng
        address = self._address({4: 2, 16: 4}[size] if rng.random() < 0.9 else 3)
        offset = rng.choice((0, 0, 0, size, 4 * size))

        def at(e: Env, value: int) -> tuple[int, int, int]:
            return (e[address] + offset) & 0xFFFFFFFF, size, value

        guard = self._guard(0.7)
        if size == 16:
            return Event(
                f"ld.shared.v4.u32 {{%r190, %r191, %r192, %r193}}, [{address}+{offset}];",
                "read",
                lambda e: at(e, 0),
                guard,
            )
        if rng.random() < 0.5:
            return Event(f"ld.shared.u32 %r190, [{address}+{offset}];", "read", lambda e: at(e, 0), guard)
        value = self.pick(32)
        return Event(
            f"st.shared.u32 [{address}+{offset}], {value};", "write", lambda e: at(e, e[value]), guard
        )

    def _shared(self) -> Program:
        rng = self.rng
        planar = rng.random() < 0.25
        directive, shapes = self.launch(planar)
        self.index(planar)
        for _ in range(rng.randrange(2, 5)):
            self.body.append(self._access())
            if rng.random() < 0.5:
                self.body.append(Event("bar.sync 0;", "barrier"))
        covered = frozenset((CONVERGENCE, SHARED))
        return Program(self.body, directive, shapes, covered, "shared")

    def _copies(self) -> Program:
        rng = self.rng
        directive, shapes = self.launch(False)
        self.index(False)
        self.op(64, "ld.param.u64 {}, [pg]", lambda e: 1 << 40)
        pointer = self.known[64].pop()
        commit = Event("cp.async.commit_group;", "commit")

        def wait(depth: int) -> Event:
            return Event(f"cp.async.wait_group {depth};", "wait", lambda e: (depth,))

        if rng.random() < 0.5:
            address = self._address(4)
            self.body += [Event(f"cp.async.cg.shared.global [{address}], [{pointer}], 16;", "copy", lambda e: (e[address] & 0xFFFFFFFF,)), commit]  # fmt: skip
            if rng.random() < 0.4:
                self.body.append(wait(0))
            self.body.append(self._access(16))
            self.body.append(wait(0))
        else:
            stages, ahead, depth = rng.choice((2, 3, 4)), rng.choice((1, 2, 3)), rng.choice((0, 1, 2))
            tid = self.known[32][0]
            own = self.op(32, f"shl.b32 {{}}, {tid}, 4", lambda e: e[tid] << 4)
            base = self.op(32, "mov.u32 {}, sm", lambda e: 1 << 20)
            start = self.op(32, f"add.s32 {{}}, {base}, {own}", lambda e: e[base] + e[own])

            def copied(stage: Compute, register: str) -> list[Op | Event | Block]:
                return [
                    Op(
                        f"mad.lo.s32 %r180, {register}, 2048, {start};",
                        "%r180",
                        lambda e: e[start] + 2048 * stage(e),
                    ),
                    Event(
                        f"cp.async.cg.shared.global [%r180], [{pointer}], 16;",
                        "copy",
                        lambda e: (e["%r180"],),
                    ),
                    commit,
                ]

            for k in range(ahead):
                place = Op(f"mov.b32 %r181, {k};", "%r181", partial(_number, k))
                self.body += [place, *copied(lambda e: e["%r181"], "%r181")]
            inside: list[Op | Event | Block] = [
                wait(depth),
                Op(f"rem.u32 %r182, %r198, {stages};", "%r182", lambda e: e["%r198"] % stages),
                Op(
                    f"mad.lo.s32 %r183, %r182, 2048, {start};",
                    "%r183",
                    lambda e: e[start] + 2048 * e["%r182"],
                ),
                Event(
                    "ld.shared.v4.u32 {%r190, %r191, %r192, %r193}, [%r183];",
                    "read",
                    lambda e: (e["%r183"], 16, 0),
                ),
                Op(f"add.s32 %r184, %r198, {ahead};", "%r184", lambda e: e["%r198"] + ahead),
                Op(f"rem.u32 %r185, %r184, {stages};", "%r185", lambda e: e["%r184"] % stages),
                *copied(lambda e: e["%r185"], "%r185"),
            ]
            self.body.append(Block(inside, register="%r198", times=8))
            self.body.append(wait(0))
        return Program(self.body, directive, shapes, frozenset((COPIES,)), "copies")

    def _guarded_copy(self, first: str, then: str) -> None:
        self.op(64, "ld.param.u64 {}, [pg]", lambda e: 1 << 40)
        pointer = self.known[64][-1]
        self.op(32, "mov.u32 {}, sm", lambda e: 1 << 20)
        shared = self.known[32][-1]
        self.body += [
            Event(
                f"cp.async.bulk.global.shared::cta.bulk_group [{pointer}], [{shared}], 128;",
                "bulk",
                guard=first,
            ),
            Event("cp.async.bulk.commit_group;", "", guard=first),
            Event("cp.async.bulk.wait_group 0;", "bulk wait", guard=then),
        ]

    def _bulk(self) -> Program:
        """A copy and its wait, under conditions on parameters that may be the same."""
        rng = self.rng
        n = self.op(32, "ld.param.u32 {}, [pn]", lambda e: e["n"])
        m = self.op(32, "ld.param.u32 {}, [pm]", lambda e: e["m"])
        c = rng.choice((1, 2, 31))
        if rng.random() < 0.5:
            x = self.op(
                32,
                f"sub.s32 {{}}, {n}, {m}",
                lambda e: _checked(e, _signed(e[n], 32) - _signed(e[m], 32), 32),
            )
        else:
            x = self.op(32, f"add.s32 {{}}, {n}, {-c}", lambda e: _checked(e, _signed(e[n], 32) - c, 32))
        sign = rng.choice(("u", "s"))

        def extended(y: str) -> str:
            return self.op(
                64,
                f"cvt.{sign}64.{sign}32 {{}}, {y}",
                lambda e: (_signed(e[y], 32) if sign == "s" else e[y]) & (1 << 64) - 1,
            )

        wides = extended(x), extended(m)
        d = rng.choice((0, 1, c))
        left = self.op(
            64, f"add.s64 {{}}, {wides[0]}, {d}", lambda e: _checked(e, _signed(e[wides[0]], 64) + d, 64)
        )
        right = self.op(
            64,
            f"add.s64 {{}}, {wides[1]}, {d - c}",
            lambda e: _checked(e, _signed(e[wides[1]], 64) + d - c, 64),
        )
        other = self.op(32, f"add.s32 {{}}, {x}, {d}", lambda e: _checked(e, _signed(e[x], 32) + d, 32))
        predicates = [
            self.op(1, f"setp.eq.s32 {{}}, {x}, {-d}", lambda e: _signed(e[x], 32) == -d),
            self.op(1, f"setp.eq.s64 {{}}, {left}, 0", lambda e: e[left] == 0),
            self.op(1, f"setp.eq.s32 {{}}, {other}, 0", lambda e: e[other] == 0),
            self.op(1, f"setp.eq.s32 {{}}, {n}, {m}", lambda e: e[n] == e[m]),
            self.op(1, f"setp.eq.s64 {{}}, {wides[0]}, {right}", lambda e: e[wides[0]] == e[right]),
            self.op(1, f"setp.lt.s64 {{}}, {left}, {c}", lambda e: _signed(e[left], 64) < c),
            self.op(1, f"setp.lt.s32 {{}}, {other}, {c}", lambda e: _signed(e[other], 32) < c),
        ]
        self._guarded_copy(rng.choice(predicates), rng.choice(predicates))
        arguments = [(a, b) for a in EDGES for b in (0, 1, a, (a + 1) & 0xFFFFFFFF, (a - 1) & 0xFFFFFFFF, 31)]
        return Program(self.body, ".reqntid 1", [(1, 1)], frozenset((BULK,)), "bulk", arguments)

    def _alloc(self) -> Program:
        """A copy and its wait, under conditions on a word that is loaded twice, and allocated before, between or after."""
        rng = self.rng
        place, c = rng.randrange(3), rng.choice((5, 32, 64))
        base = self.op(32, "mov.u32 {}, sm", lambda e: 1 << 20)
        for k in range(3):
            if k == place:
                allocate = f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{base}], 32;"
                self.body.append(Op(allocate, "alloc", lambda e: 1))
            if k < 2:
                self.op(32, f"ld.shared.u32 {{}}, [{base}]", lambda e: 0 if e["alloc"] else e["n"])
        first, second = self.known[32][1:3]
        p = self.op(1, f"setp.eq.u32 {{}}, {first}, {c}", lambda e: e[first] == c)
        q = self.op(1, f"setp.eq.u32 {{}}, {second}, {c}", lambda e: e[second] == c)
        guards = rng.choice(((p, q), (p, p), ("", q), (q, "")))
        self._guarded_copy(*guards)
        self.body.append(Event(f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {second}, 32;", ""))
        return Program(
            self.body, ".reqntid 32", [(32, 1)], frozenset((BULK,)), "alloc", [(c, 0), (0, 0), (c + 1, 0)]
        )

    def _parity(self) -> Program:
        """An mbarrier at which all threads arrive and wait, three times."""
        rng = self.rng
        size = rng.choice((32, 64))
        tid = self.op(32, "mov.u32 {}, %tid.x", lambda e: e["tid"])
        base = self.op(32, "mov.u32 {}, mb", lambda e: 1 << 19)
        p = self.op(1, f"setp.eq.s32 {{}}, {tid}, 0", lambda e: e[tid] == 0)
        begin, flips = rng.choice((0, 0, 0, 1)), rng.random() < 0.8
        self.body += [
            Event(f"mbarrier.init.shared.b64 [{base}], {size};", "init", lambda e: (size,), p),
            Event("bar.sync 0;", "barrier"),
            Op(f"mov.b32 %r170, {begin};", "%r170", lambda e: begin),
        ]
        spin = f"again:\nmbarrier.try_wait.parity.shared.b64 %p80, [{base}], %r170;\n@!%p80 bra again;"
        inside: list[Op | Event | Block] = [
            Event(f"mbarrier.arrive.shared.b64 _, [{base}];", "arrive"),
            Event(spin, "parity", lambda e: (e["%r170"],)),
        ]
        if flips:
            how = rng.choice(("xor.b32 %r170, %r170, 1;", "sub.s32 %r170, 1, %r170;"))
            inside.append(Op(how, "%r170", lambda e: 1 - e["%r170"]))
        self.body.append(Block(inside, register="%r198", times=3))
        return Program(self.body, f".reqntid {size}", [(size, 1)], frozenset((MBARRIER,)), "parity")


# ---------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Contradiction:
    """What tclint states of a kernel and the simulation refutes."""

    seed: int
    theme: str
    hazard: HazardClass
    what: str


def compared(seed: int) -> tuple[list[Contradiction], Counter[str]]:
    """The contradictions of the kernel of a seed, and how often each status was compared."""
    program = Maker(seed).program()
    report = check_source(
        Source.from_bytes(program.text().encode(), f"{seed}.ptx"), Request(assume=ALL_ASSUMPTIONS)
    )
    if report.problems:
        raise ValueError(f"kernel {seed}: {report.problems}\n{program.text()}")
    runs = [(s, *violated(program, s, a)) for s in program.shapes for a in program.arguments]
    certain = {name for f in report.findings if f.confidence is Confidence.HIGH for name in f.rule.hazards}
    found, counted = list[Contradiction](), Counter[str]()
    statuses = {v.hazard: v for v in report.verdicts}
    for hazard in sorted(program.covered, key=lambda h: h.value):
        verdict = statuses.get(hazard)
        bad = [(shape, wrapped) for shape, classes, wrapped in runs if hazard in classes]
        if verdict is None:
            if bad:
                found.append(Contradiction(seed, program.theme, hazard, "no verdict"))
            continue
        counted[f"{hazard.value} {verdict.status.value}"] += 1
        if verdict.status is Status.PROVED:
            admits_wrapping = Assumption.NO_OVERFLOW not in verdict.assumptions
            full = max(w * h for w, h in program.shapes)
            for (w, h), wrapped in bad:
                partial = (
                    Assumption.SHAPE in verdict.assumptions
                    and w * h % WARP
                    and not program.directive.startswith(".reqntid")
                )
                small = Assumption.FULL_CTA in verdict.assumptions and w * h < full
                if (admits_wrapping or not wrapped) and not partial and not small:
                    found.append(Contradiction(seed, program.theme, hazard, f"proved, but not in {w}x{h}"))
                    break
        elif hazard.value in certain and not bad and not _ever(program, hazard):
            found.append(
                Contradiction(seed, program.theme, hazard, "a finding of high confidence, but never violated")
            )
    return found, counted


def _ever(program: Program, hazard: HazardClass) -> bool:
    """Whether a launch with other arguments violates a class: small numbers, the constants of the kernel, what is divided
    or shifted to give one of them, and the neighbours of all these.

    A finding need not occur in each launch.
    """
    constants = [int(n) for n in re.findall(r"(?<=, )\d+(?=;)", program.text())]
    scaled = {n for a in constants for b in constants for n in (a, a * b, a << min(b, 32)) if n < 1 << 32}
    numbers = {*EDGES, *range(256), *(n + by for n in scaled for by in (-1, 0, 1))}
    return any(
        hazard in violated(program, shape, (n, m))[0]
        for shape in program.shapes
        for n in numbers
        for m in EDGES
    )


# ---------------------------------------------------------------- roots


def _narrow(original: Any) -> Any:
    """W1: what is above bit 31 of a value of the thread index is lost, and a shift reads zeros from there."""

    def computed(self: Any, value: int) -> Any:
        node, planes = self.table.nodes[value], original(self, value)
        wide = isinstance(node, Applied) and node.name in ("shr", "bfe") and "64" in node.type
        return original(self, self.table.constant(0)) if wide and planes is not None else planes

    return computed


def _widened(original: Any) -> Any:
    """W2: a zero-extended number counts as the number, also if it is negative."""
    return lambda self, value, *width: value


def _loaded(original: Any) -> Any:
    """W3: a load before ``tcgen05.alloc`` yields what the allocation writes."""

    def loaded(self: Any, instruction: Any, at: int, register: int) -> Any:
        address = next((o for o in instruction.operands if isinstance(o, Memory)), None)
        word = self.operand(address, at)
        for site, other in enumerate(self.function.instructions):
            if other.event == "tmem-alloc" and self.operand(other.role("destination"), site) == word:
                return self.table.intern(Allocated, word)
        return original(self, instruction, at, register)

    return loaded


def _flat(original: Any) -> Any:
    """W4: with ``.maxntid``, a CTA has one dimension whatever the kernel reads."""
    return lambda function, defs: ".maxntid" in function.directives or original(function, defs)


def _whole(original: Any) -> Any:
    """W5: a partial warp matters to instructions with a membermask only."""

    def unlike(self: Any, of: Any, instruction: Any) -> Any:
        why = original(self, of, instruction)
        return why if instruction.role("mask") is not None or "incomplete warp" not in why else ""

    return unlike


ROOTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "W1": ("tclint.values.thread_predicates.ThreadSets._compute_planes", _narrow),
    "W2": ("tclint.values.value_table.ValueTable.widened", _widened),
    "W3": ("tclint.values.ssa.Registers._loaded", _loaded),
    "W4": ("tclint.values.thread_predicates.is_one_dimensional", _flat),
    "W5": ("tclint.verdicts.uniform.Uniform._unlike", _whole),
}
"""Mistakes that values and provers once made: what is replaced, and by what."""
TRUSTING = "tclint.verdicts._tried"


@contextmanager
def with_root(root: str = "", trusting: bool = False) -> Iterator[None]:
    """tclint with a mistake put back, and with proofs that are shown without the exact evaluation if *trusting*."""
    with ExitStack() as stack:
        if root:
            name, make = ROOTS[root]
            stack.enter_context(patch(name, make(resolve_name(name))))
        if trusting:
            stack.enter_context(patch(TRUSTING, lambda model, hazard, outcome: outcome))
        yield


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="kernels to make")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--root", choices=tuple(ROOTS), default="", help="put a mistake back")
    parser.add_argument("--trusting", action="store_true", help="without the exact evaluation")
    parser.add_argument("--stop", action="store_true", help="end at the first contradiction")
    given = parser.parse_args()
    counted, found, begun = Counter[str](), list[Contradiction](), time.monotonic()
    with with_root(given.root, given.trusting):
        for seed in range(given.first, given.first + given.count):
            contradictions, of = compared(seed)
            counted += of
            for each in contradictions:
                found.append(each)
                print(f"{each.seed}: {each.theme}: {each.hazard.value}: {each.what}", flush=True)
            if found and given.stop:
                break
    print(
        f"{seed + 1 - given.first} kernels in {time.monotonic() - begun:.0f} s, {len(found)} contradictions"
    )
    for name, number in sorted(counted.items()):
        print(f"  {name}: {number}")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())

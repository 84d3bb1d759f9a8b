"""Random integer code: whatever is known of its registers holds in an execution of it.

The code is interpreted thread by thread, with the functions of :mod:`tclint.isa.semantics`. An execution in which a signed
number wraps, or one that has no end, shows nothing: values are about all others. What the index of the thread alone decides
is known exactly, whatever wraps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from tclint.analyses.model import KernelModel
from tclint.ir import Function
from tclint.ir.nodes import Immediate, Instruction, Memory, Operand, Special, Symbol
from tclint.isa.semantics import bind
from tclint.values import PathCondition, UniformityScope, Values
from tclint.values import thread_masks as T
from tclint.values.integers import as_signed, type_width
from tests.tools.support import model, register

WORDS = [f"%r{number}" for number in range(1, 13)]
WIDE = [f"%rd{number}" for number in range(1, 6)]
SHORT = [f"%h{number}" for number in range(1, 4)]
WIDTHS = {16: SHORT, 32: WORDS, 64: WIDE}
PREDICATES = [f"%p{number}" for number in range(1, 9)]
NUMBERS = "0 1 2 3 4 7 8 12 15 16 31 32 33 63 64 100 255 4096 65535 -1 -4 -8 0x80000000 0xffffffff 0xfffffff0".split()
PROBE = "membar.cta;"
"""At each of these, all registers are looked at."""
MAX_STEPS = 1200
THREADS = 64
EXACT: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "neg": lambda a: -a,
}
"""What instructions compute if nothing wraps."""


class Maker:
    """Makes the code of a seed."""

    def __init__(self, seed: int, strict: bool) -> None:
        self.rng = Random(seed)
        self.strict = strict
        self.labels = 0
        self.kept = set[str]()
        """The registers that only the loop around this place changes."""

    def code(self, size: int) -> str:
        rng = self.rng
        lines = ["mov.u32 %r1, %tid.x;", "ld.param.u32 %r2, [n];", "ld.param.u32 %r3, [m];"]
        lines += ["ld.param.u64 %rd1, [q];"]
        for name in WORDS[3:]:
            first = (
                f"mov.b32 {name}, {rng.choice(NUMBERS)};",
                f"and.b32 {name}, %r1, {rng.choice(('1', '3', '7', '31'))};",
                f"shr.u32 {name}, %r1, {rng.choice('125')};",
                f"add.s32 {name}, %r2, {rng.choice(('1', '-1', '7'))};",
            )
            lines.append(rng.choice(first))
        lines += [f"cvt.u64.u32 {name}, {rng.choice(WORDS)};" for name in WIDE[1:]]
        lines += [f"setp.lt.s32 {name}, {rng.choice(WORDS)}, {rng.choice(NUMBERS)};" for name in PREDICATES]
        return "\n".join((*lines, *self.block(0, size), PROBE))

    def block(self, depth: int, size: int) -> list[str]:
        return [line for _ in range(size) for line in self.statement(depth)]

    def statement(self, depth: int) -> list[str]:
        rng = self.rng
        kind = rng.choices(
            ("operation", "comparison", "logic", "probe", "branch", "loop"), (12, 5, 2, 1, 2, 2)
        )[0]
        if kind == "branch" and depth < 2:
            return self.branch(depth)
        if kind == "loop" and depth < 2:
            return self.loop(depth)
        if kind == "probe":
            return [PROBE]
        p, q, r = (rng.choice(PREDICATES) for _ in range(3))
        guard = rng.choice(("@", "@!")) + rng.choice(PREDICATES) + " " if rng.random() < 0.15 else ""
        if kind == "logic":
            return [
                guard
                + rng.choice(
                    (f"not.pred {p}, {q};", f"{rng.choice(('and', 'or', 'xor'))}.pred {p}, {q}, {r};")
                )
            ]
        if kind == "comparison":
            relation, combined = rng.choice("eq ne lt le gt ge".split()), rng.choice(("and", "or", "xor"))
            wide = f"setp.{relation}.{rng.choice(('s64', 'u64'))} {p}, {rng.choice(WIDE)}, {rng.choice((rng.choice(WIDE), '64'))};"
            sign = rng.choice(("s32", "s32", "u32"))
            plain = f"setp.{relation}.{sign} {p}, {self.word()}, {self.source()};"
            both = f"setp.{relation}.{combined}.{sign} {p}, {self.word()}, {self.source()}, {q};"
            return [guard + rng.choices((plain, both, wide), (5, 2, 1))[0]]
        return [guard + self.operation()]

    def word(self) -> str:
        return self.rng.choice(WORDS)

    def source(self) -> str:
        return self.rng.choice((self.word(), self.rng.choice(NUMBERS)))

    def operation(self) -> str:
        rng = self.rng
        to = rng.choice([name for name in WORDS if name not in self.kept])
        wide, other, number = rng.choice(WIDE), rng.choice(WIDE), rng.choice(NUMBERS)
        sign, small, mask = (
            rng.choice("su"),
            rng.choice("12348"),
            rng.choice(("1", "3", "7", "31", "-4", "-32", "0xfffc")),
        )
        return rng.choice(
            (
                f"{rng.choice(('add', 'sub', 'min', 'max'))}.{sign}32 {to}, {self.word()}, {self.source()};",
                f"add.s32 {to}, {self.word()}, {rng.choice(('1', '4', '-1', '16'))};",
                f"{rng.choice(('and', 'or', 'xor'))}.b32 {to}, {self.word()}, {self.source()};",
                f"and.b32 {to}, {self.word()}, {mask};",
                f"{rng.choice(('mul.lo', 'mul24.lo'))}.{sign}32 {to}, {self.word()}, {rng.choice((small, '-4', '256'))};",
                f"mad.lo.{sign}32 {to}, {self.word()}, {rng.choice((small, '-2', '64'))}, {self.word()};",
                f"{rng.choice(('shl.b32', 'shr.u32', 'shr.s32'))} {to}, {self.word()}, {rng.choice(('0', small, '31', '33'))};",
                f"{rng.choice(('div', 'rem'))}.{sign}32 {to}, {self.word()}, {rng.choice(('2', '3', '5', '16', '100'))};",
                f"selp.b32 {to}, {self.source()}, {self.source()}, {rng.choice(PREDICATES)};",
                f"bfe.{sign}32 {to}, {self.word()}, {small}, {rng.choice('1358')};",
                f"{rng.choice(('neg.s32', 'not.b32', 'abs.s32', 'cvt.u32.u16', 'cvt.s32.s8'))} {to}, {self.word()};",
                f"mov.b32 {to}, {self.source()};",
                f"cvt.{sign}64.{sign}32 {wide}, {self.word()};",
                f"mul.wide.{sign}32 {wide}, {self.word()}, {rng.choice((small, '-4', '0xaaaaaaab'))};",
                f"mad.wide.{sign}32 {wide}, {self.word()}, {rng.choice((small, '-1'))}, {other};",
                f"{rng.choice(('min', 'max'))}.{sign}64 {wide}, {other}, {rng.choice((wide, '8', '-4'))};",
                f"selp.b64 {wide}, {other}, {rng.choice((wide, '8', '-4'))}, {rng.choice(PREDICATES)};",
                f"bfe.{sign}64 {wide}, {other}, {rng.choice(('0', '8', '32'))}, {rng.choice(('8', '31', '32', '40'))};",
                f"{rng.choice(('add.s64', 'sub.s64'))} {wide}, {other}, {rng.choice((wide, '8', '-4', '1024'))};",
                f"{rng.choice(('shl.b64', 'shr.u64', 'shr.s64'))} {wide}, {other}, {rng.choice((small, '30', '32', '33'))};",
                f"and.b64 {wide}, {other}, {rng.choice(('255', '-8', '0xffffffff'))};",
                f"mov.b64 {wide}, {number};",
                f"cvt.u32.u64 {to}, {wide};",
            )
        )

    def branch(self, depth: int) -> list[str]:
        self.labels += 1
        end, other = f"E{self.labels}", f"F{self.labels}"
        guard = self.rng.choice(("@", "@!")) + self.rng.choice(PREDICATES)
        first, second = (self.block(depth + 1, self.rng.randrange(1, 5)) for _ in range(2))
        return [f"{guard} bra {end};", *first, f"bra {other};", f"{end}:", *second, f"{other}:"]

    def loop(self, depth: int) -> list[str]:
        """A loop with a counter, the number of a stage and its parity, and perhaps another exit."""
        rng, free = self.rng, [name for name in WORDS if name not in self.kept]
        if len(free) < 6:
            return [self.operation()]
        self.labels += 1
        head, end = f"L{self.labels}", f"X{self.labels}"
        counter, bound, stage, parity = rng.sample(free, 4)
        self.kept |= {counter, bound, stage, parity}
        p, q = rng.sample(PREDICATES, 2)
        number = rng.choice([name for name in WORDS if name not in self.kept])
        step = rng.choice((1, 1, 2, 4, -1, -2))
        setup = [f"mov.b32 {stage}, 0;", f"mov.b32 {parity}, 0;"]
        if step > 0:
            setup += [f"mov.b32 {counter}, {rng.choice(('0', '1', number))};"]
            setup += [
                rng.choice(
                    (
                        f"and.b32 {bound}, {number}, 31;",
                        f"mov.b32 {bound}, {rng.choice(('8', '12', number))};",
                    )
                )
            ]
        else:
            setup += [
                f"and.b32 {counter}, {number}, 31;",
                f"mov.b32 {bound}, {rng.choice(('0', '-1', '2'))};",
            ]
        relation = rng.choice(("lt", "le", "ne") if step > 0 else ("gt", "ge", "ne"))
        test = f"setp.{relation}.{rng.choice(('s32', 's32', 'u32'))} {p}, {counter}, {bound};"
        count = rng.choice("234")
        next_stage = rng.choice(
            (
                [f"setp.eq.s32 {q}, {stage}, {count};", f"selp.b32 {stage}, 0, {stage}, {q};"],
                [f"setp.eq.s32 {q}, {stage}, {count};", f"@{q} mov.b32 {stage}, 0;"],
                [f"and.b32 {stage}, {stage}, 3;", f"setp.eq.s32 {q}, {stage}, 0;"],
            )
        )
        ring = [
            f"add.s32 {stage}, {stage}, 1;",
            *next_stage,
            rng.choice(("", f"@{q} ")) + f"xor.b32 {parity}, {parity}, 1;",
        ]
        body = [*self.block(depth + 1, rng.randrange(1, 4)), PROBE, *ring]
        if rng.random() < 0.5:
            body = [*ring, *body[: -len(ring)]]
        if rng.random() < 0.25 and (
            self.strict or relation != "ne"
        ):  # such a loop is taken to start before its end
            body.append(f"@{rng.choice(PREDICATES)} bra {end};")
        advance = f"add.s32 {counter}, {counter}, {step};"
        self.kept -= {counter, bound, stage, parity}
        if rng.random() < 0.5:
            return [
                *setup,
                test,
                f"@!{p} bra {end};",
                f"{head}:",
                *body,
                advance,
                test,
                f"@{p} bra {head};",
                f"{end}:",
            ]
        return [*setup, f"{head}:", test, f"@!{p} bra {end};", *body, advance, f"bra {head};", f"{end}:"]


class Thread:
    """One thread of a function of integer instructions."""

    def __init__(self, function: Function, number: int, parameters: dict[str, int]) -> None:
        self.function, self.number, self.parameters = function, number, parameters
        self.targets = {name: at for at, name in function.labels.items()}
        self.now: dict[int, int] = {}
        self.wraps = False

    def seen(self, wrapping: bool = False) -> list[tuple[int, dict[int, int]]]:
        """The probes that it passes, each with its registers; none if it does not come to its end.

        Unless *wrapping*, those before a number wraps.
        """
        found, at = list[tuple[int, dict[int, int]]](), 0
        for _ in range(MAX_STEPS):
            instruction = self.function.instructions[at]
            if instruction.opcode == "ret" or (self.wraps and not wrapping):
                return found
            at += 1
            if instruction.opcode == "membar.cta":
                found.append((at - 1, dict(self.now)))
            elif instruction.guard < 0 or bool(self.now[instruction.guard]) is not instruction.negated:
                if instruction.opcode == "bra":
                    (at,) = instruction.targets
                else:
                    self.execute(instruction)
        return []

    def execute(self, instruction: Instruction) -> None:
        match, (to, *sources) = instruction.match, instruction.operands
        assert match is not None
        assert isinstance(to, int)
        width = type_width(self.function.registers[to].type)
        values = [self.read(source) for source in sources]
        if not match.form.compute:
            self.now[to] = values[0]
            return
        self.now[to] = bind(match.form.compute, match.binding, width)(*values)
        self.wraps |= self.wrapped(instruction, values)

    def read(self, operand: Operand) -> int:
        if isinstance(operand, int):
            return self.now[operand]
        if isinstance(operand, Special):
            return self.number % 32 if operand.name == "%laneid" else self.number
        if isinstance(operand, Memory):
            assert isinstance(operand.base, Symbol)
            return self.parameters[operand.base.name]
        assert isinstance(operand, Immediate)
        assert isinstance(operand.value, int)
        return operand.value & (1 << 64) - 1

    @staticmethod
    def wrapped(instruction: Instruction, values: Sequence[int]) -> bool:
        """Whether a number does not fit."""
        name, *modifiers = instruction.opcode.split(".")
        width = type_width("." + modifiers[-1])
        if instruction.opcode == "cvt.u32.u64":
            return not -1 << 31 <= as_signed(values[0], 64) < 1 << 31
        if name not in EXACT or "wide" in modifiers:
            return False
        exact = EXACT[name]
        return not -1 << width - 1 <= exact(*(as_signed(value, width) for value in values)) < 1 << width - 1


class Claims:
    """What is known of the registers at one probe."""

    def __init__(self, function: Function, values: Values, at: int) -> None:
        self.known = values
        self.values = {
            name: values.before(register(function, name), at) for name in (*WORDS, *WIDE, *PREDICATES)
        }

    def refuted(self, now: dict[str, int], thread: int, rng: Random) -> Iterator[str]:
        """What does not hold of the registers *now*."""
        known, sums = self.known, defaultdict[tuple[object, int], list[tuple[str, int]]](list)
        for name in (*WORDS, *WIDE):
            value, number, width = self.values[name], now[name], 32 if name in WORDS else 64
            signed = as_signed(number, width)
            if (constant := known.constant_of(value)) is not None and as_signed(constant - number, width):
                yield f"{name} is {constant}"
            interval = known.interval(value)
            if interval is not None and not interval[0] <= signed <= interval[1]:
                yield f"{name} is in {interval}"
            zeros, ones = known.known_bits(value)
            if number & zeros & (1 << width) - 1 or ~number & ones & (1 << width) - 1:
                yield f"{name} has the bits {zeros:x}, {ones:x}"
            terms, constant = known.linear(value)
            sums[terms, width].append((name, number - constant))
        for (_, width), [(first, number), *others] in sums.items():
            yield from (
                f"{first}, {name} are apart" for name, other in others if as_signed(other - number, width)
            )
        for name in PREDICATES:
            value, truth = self.values[name], bool(now[name])
            if not known.feasible_threads(value, truth) >> thread & 1:
                yield f"{name} is {not truth} in thread {thread}"
            facts = PathCondition()
            for other in rng.sample(PREDICATES, 3):
                if other != name:
                    facts = known.refine(self.values[other], bool(now[other]), facts)
            if known.unsatisfiable(facts):
                yield f"{facts} is impossible"
            if known.entails(value, facts) is (not truth):
                yield f"{name} is {not truth} under {facts}"


def made(seed: int, strict: bool) -> tuple[Function, Values]:
    maker = Maker(seed, strict)
    code = maker.code(maker.rng.choice((8, 14, 25)))
    found = model(
        f"{code}\nret;",
        parameters=".param .u32 n, .param .u32 m, .param .u64 q",
        directives=f".reqntid {THREADS}",
    )
    return found.function, KernelModel(found.function, found.module, strict=strict).values


@pytest.mark.parametrize("first", range(220, 300, 20))
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_known_of_random_code_holds_when_it_is_executed(first: int, strict: bool) -> None:
    looked_at = 0
    for seed in range(first, first + 20):
        function, values = made(seed, strict)
        rng, claims = Random(seed), dict[int, Claims]()
        names = {register(function, name): name for name in (*WORDS, *WIDE, *PREDICATES)}
        for thread in (0, 1, rng.randrange(THREADS), THREADS - 1):
            parameters = {
                "n": rng.choice((0, 1, rng.randrange(40), 0xFFFFFFFF)),
                "m": rng.randrange(200),
                "q": 4096,
            }
            for at, now in Thread(function, thread, parameters).seen()[:30]:
                if at not in claims:
                    claims[at] = Claims(function, values, at)
                looked_at += 1
                wrong = list(
                    claims[at].refuted({name: now[number] for number, name in names.items()}, thread, rng)
                )
                assert not wrong, (seed, at, thread, parameters, wrong)
    assert looked_at > 100


# ---------------------------------------------------------------- what the index of the thread alone decides

OPERATIONS = """
add.{s}{w} sub.{s}{w} mul.lo.{s}{w} mul.hi.{s}{w} min.{s}{w} max.{s}{w} div.{s}{w} rem.{s}{w} and.b{w} or.b{w} xor.b{w}
shl.b{w} shr.{s}{w} shr.{s}{w} shr.b{w}
""".split()
FACTORS = (
    "3 5 7 10 12 24 100 0xaaaaaaab 2863311531 -1431655765 0x80000000 1073741824 0x100000001 4 -4 256".split()
)


class IndexCode:
    """Straight-line code over the index of the thread, in registers of 16, 32 and 64 bits."""

    def __init__(self, rng: Random, size: int) -> None:
        self.rng = rng
        self.held: dict[int, list[str]] = {16: [], 32: ["%r1", "%r2"], 64: []}
        self.flags: list[str] = []
        lines = ["mov.u32 %r1, %tid.x;", "mov.u32 %r2, %laneid;"]
        for _ in range(size):
            lines += self.statement()
        self.text = "\n".join((*lines, PROBE))

    def source(self, width: int) -> str:
        """A register with a value, or a number."""
        if not self.held[width] or self.rng.random() < 0.3:
            number = self.rng.choice((*NUMBERS, *FACTORS))
            return str(int(number, 0) & 0x7FFF) if width == 16 else number
        return self.rng.choice(self.held[width])

    def register(self, width: int) -> str:
        return self.rng.choice(self.held[width]) if self.held[width] else self.source(width)

    def statement(self) -> list[str]:
        rng, width = self.rng, self.rng.choice((16, 32, 32, 64, 64))
        names = {"s": rng.choice("su"), "w": width}
        guard = (
            f"{rng.choice(('@', '@!'))}{rng.choice(self.flags)} " if self.flags and rng.random() < 0.1 else ""
        )
        kind = rng.choices(
            ("operation", "cvt", "wide", "field", "select", "compare", "logic", "unary"),
            (8, 6, 3, 3, 2, 5, 1, 1),
        )[0]
        if kind == "compare" or (kind in ("logic", "select") and not self.flags):
            p = rng.choice(PREDICATES)
            relation = rng.choice("eq ne lt le gt ge".split())
            line = f"setp.{relation}.{names['s']}{width} {p}, {self.register(width)}, {self.source(width)};"
            self.flags = sorted({*self.flags, p})
            return [line]
        if kind == "logic":
            p, q = rng.choice(self.flags), rng.choice(self.flags)
            return [
                rng.choice((f"not.pred {p}, {q};", f"{rng.choice(('and', 'or', 'xor'))}.pred {p}, {p}, {q};"))
            ]
        if kind == "wide":
            width = rng.choice((32, 64))
            half = f"{names['s']}{width // 2}"
            a, b = self.register(width // 2), self.source(width // 2)
            text = rng.choice(
                (
                    f"mul.wide.{half} {{to}}, {a}, {b};",
                    f"mad.wide.{half} {{to}}, {a}, {b}, {self.source(width)};",
                )
            )
        elif kind == "cvt":
            source = rng.choice((8, 16, 32, 64))
            to = rng.choice((8, width) if width < 64 else (width,))
            held = self.register(max(source, 16))
            if not held.startswith("%"):
                return []
            text = f"cvt.{rng.choice('su')}{to}.{rng.choice('su')}{source} {{to}}, {held};"
        elif kind == "field":
            width = rng.choice((32, 64))
            at, length = (
                rng.choice("0 1 3 5 16 31 32 33 60".split()),
                rng.choice("0 1 4 8 31 32 40 64".split()),
            )
            extract = f"bfe.{names['s']}{width} {{to}}, {self.register(width)}, {at}, {length};"
            text = rng.choice(
                (
                    extract,
                    f"bfi.b{width} {{to}}, {self.register(width)}, {self.source(width)}, {at}, {length};",
                )
            )
        elif kind == "select":
            text = (
                f"selp.b{width} {{to}}, {self.source(width)}, {self.source(width)}, {rng.choice(self.flags)};"
            )
        elif kind == "unary":
            text = (
                rng.choice(("neg.s{w}", "not.b{w}", "abs.s{w}", "mov.b{w}")).format(**names)
                + f" {{to}}, {self.source(width)};"
            )
        else:
            name = rng.choice(OPERATIONS)
            second = self.source(width)
            if name.startswith(("div", "rem")):
                second = rng.choice(("1", "2", "3", "12", "64", "100"))
            elif name.startswith("sh"):
                second = rng.choice(
                    ("0", "1", "2", "5", "16", "30", "31", "32", "33", "35", "63", "64", "70", "%r2")
                )
            text = f"{name.format(**names)} {{to}}, {self.register(width)}, {second};"
        target = rng.choice(WIDTHS[width][2 if width == 32 else 0 :])
        guard = guard if target in self.held[width] else ""
        self.held[width] = sorted({*self.held[width], target})
        return [guard + text.format(to=target)]


def level_of(numbers: Sequence[int]) -> UniformityScope:
    if len(set(numbers)) == 1:
        return UniformityScope.CTA
    whole = all(len(set(numbers[first : first + 32])) == 1 for first in range(0, THREADS, 32))
    return UniformityScope.WARP if whole else UniformityScope.DIVERGENT


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_what_the_thread_index_decides_is_known_exactly(first: int) -> None:
    for seed in range(first, first + 50):
        code = IndexCode(Random(seed), 16)
        m = model(f"{code.text}\nret;", directives=f".reqntid {THREADS}")
        values = m.values
        ends = [Thread(m.function, t, {}).seen(wrapping=True)[-1] for t in range(THREADS)]
        for width, name in [(w, name) for w in WIDTHS for name in code.held[w]] + [
            (1, p) for p in code.flags
        ]:
            at = ends[0][0]
            number, found = register(m.function, name), values.before(register(m.function, name), at)
            truth, what = [now[number] & (1 << width) - 1 for _, now in ends], (seed, name, code.text)
            if width == 1:
                mask = values.mask(found)
                assert mask == sum(bit << t for t, bit in enumerate(truth)), what
                assert values.feasible_threads(found, True) == mask, what
                assert values.feasible_threads(found, False) == mask ^ T.full(THREADS), what
            else:
                exact, planes = values.exact_slices(found), values.bit_slices(found)
                assert exact is not None, what
                low = T.narrow(exact, width, False)
                assert dict(T.numbers(low, T.full(THREADS))) == {
                    n: sum(1 << t for t in range(THREADS) if truth[t] == n) for n in truth
                }, what
                assert planes is None or width < 32 or T.narrow(exact, width, True) == planes, what
            level, true = values.uniformity(found), level_of(truth)
            assert level in (true, UniformityScope.UNKNOWN) or true < level < UniformityScope.UNKNOWN, what

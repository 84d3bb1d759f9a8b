"""Defects of an ``asm`` statement around its string: qualifiers, clobbers, and constraints that do not fit the text.

A compiler knows of an inline assembly statement only what its operand lists state. The checks compare them with what the
instructions in the string do, and are made only of statements whose string and lists are known completely.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from tclint._named_tuple import NamedTuple
from tclint.findings.finding import Edit, Fix, Step
from tclint.findings.scales import Confidence, Severity
from tclint.findings.spans import Span
from tclint.inline.asm import Asm, AsmOperand, Ptx, unused
from tclint.ir.nodes import Function, Instruction, Memory, specials
from tclint.isa.accesses import Proxy, StateSpace
from tclint.isa.effects import BULK, CP_ASYNC, Barrier, Effects, Fence, Order, Query

__all__ = ["Defect", "defects"]


class Defect(NamedTuple):
    """A finding of a rule about statements (``STATEMENT`` in ``module.py``) at a span of the host."""

    rule: str
    span: Span
    message: str
    help: str = ""
    fixes: tuple[Fix, ...] = ()
    severity: Severity | None = None
    """None: that of the rule."""
    confidence: Confidence | None = None
    """None: that of the rule."""
    steps: tuple[Step, ...] = ()


def defects(asm: Asm, ptx: Ptx, function: Function, start: int, shared: Collection[str]) -> Iterator[Defect]:
    """The defects of a statement. *function* has its text as part of its body; the text begins at byte *start* of the
    source of *function*. Other strings may use the names in *shared*.

    There are none if a piece of the statement is unknown, or an instruction in it: what that does with the operands is
    unknown too.
    """
    if asm.operands is None or not ptx.whole or ptx.unknown or ptx.missing:
        return
    if any(ins.match is None or ins.match.problem or ins.flow == "call" for ins in function.instructions):
        return
    statement = _Statement(asm, ptx, function, start)
    yield from _qualifiers(statement)
    yield from _operands(statement)
    yield from _early(statement)
    yield from _addresses(statement)
    for span, name in unused(ptx, shared):
        yield Defect("IA007", span, f"register {name} is declared, but not used")


class _Statement:
    """A statement and the instructions of its string, with what they do to its operands."""

    def __init__(self, asm: Asm, ptx: Ptx, function: Function, start: int) -> None:
        self.asm = asm
        self.ptx = ptx
        self.instructions = function.instructions
        self.operands: Sequence[AsmOperand] = asm.operands or ()
        self._begin = function.start - start
        self.numbers: dict[int, int] = {}
        """Register -> the number of the operand that it is; of an operand tied to an output, the number of that."""
        for register, declared in enumerate(function.registers):
            number = declared.name[1:]
            if declared.name[:1] in ("%", "$") and number.isdigit() and int(number) < len(self.operands):
                self.numbers[register] = self._tied(int(number))

    def _tied(self, number: int) -> int:
        letters = self.operands[number].constraint
        return int(letters) if letters.isdigit() and int(letters) < len(self.operands) else number

    def span(self, ins: Instruction) -> Span:
        """The instruction in the host."""
        return self.ptx.text.host(self._begin + ins.start, self._begin + ins.end)

    def named(self, found: Iterable[int]) -> set[int]:
        """The operands among some registers."""
        return {self.numbers[register] for register in found if register in self.numbers}

    def word(self, number: int) -> str:
        """How the string spells an operand."""
        return f"{'$' if self.asm.dialect == 'llvm' else '%'}{number}"


# ---------------------------------------------------------------- qualifiers and clobbers

_CHANGING = re.compile(r"%(?:clock|globaltimer|pm\d)")
"""Special registers that change while a thread runs."""

_READS = "reads shared memory"
"""The effect of a load that is right wherever it is executed if no thread writes that memory any more."""


def _is_pure(effects: Effects) -> bool:
    """Whether an instruction changes nothing but registers."""
    return effects.exchange is not None or effects.query in (Query.CANCELLED, Query.PENDING_COUNT)


def _effect(ins: Instruction) -> str:
    """What an instruction does besides computing registers from registers, in words; empty if nothing."""
    match = ins.match
    assert match is not None
    form = match.form
    if any(access == "write" for access, _ in form.memory):
        return "writes memory"
    if (form.event and not _is_pure(form.effects)) or form.flow == "trap":
        return "has side effects"
    if form.memory and match.order in (Order.VOLATILE, Order.RELAXED, Order.ACQUIRE):
        return "reads what other threads may write"
    if any(_CHANGING.match(special.name) for special in specials(ins.operands)):
        return "reads a register that changes"
    if form.memory and match.space.startswith(".shared") and not form.unchanging:
        return _READS
    return ""


def _orders(ins: Instruction) -> bool:
    """Whether an instruction orders accesses to memory that precede or follow it in the program."""
    order, effects = ins.order, ins.effects
    if order is Order.RELAXED:
        return False
    return (
        order.acquires
        or order.releases
        or effects.arrives_for_threads
        or effects.fence is Fence.PROXY
        or effects.awaits is Barrier.GRIDS
    )


_COPIES = frozenset((CP_ASYNC, BULK))
"""The groups of copies. Usually a barrier follows a wait for them, and orders memory."""


def _accesses(ins: Instruction) -> bool:
    """Whether an instruction accesses memory, or waits for one that does."""
    return bool(ins.match and ins.match.form.memory) or (
        ins.effects.waits is not None and ins.group in _COPIES
    )


def _qualifiers(statement: _Statement) -> Iterator[Defect]:
    """Statements that the compiler may drop, merge or move although they have an effect."""
    asm = statement.asm
    if asm.volatile is None or asm.memory is None or asm.memory:
        return
    if not asm.volatile:
        effects = ((ins, effect) for ins in statement.instructions if (effect := _effect(ins)))
        for ins, effect in islice(effects, 1):
            yield Defect(
                "IA001", statement.span(ins),
                f"{ins.opcode} {effect}, but the statement is not volatile: the compiler may drop, merge or move it",
                f"use {asm.qualifier}",
                (Fix(f"use {asm.qualifier}", (asm.qualify,), safe=True),) if asm.qualify else (),
                severity=Severity.INFO if effect == _READS else None,
            )  # fmt: skip
    elif asm.dialect == "gcc":
        ordering = [ins for ins in statement.instructions if _orders(ins)]
        accesses = [ins for ins in statement.instructions if _accesses(ins)]
        for ins in (ordering or accesses)[:1]:
            yield Defect(
                "IA002", statement.span(ins),
                f"{ins.opcode} {'orders' if ordering else 'accesses'} memory, but the statement does not have the "
                'clobber "memory": the compiler may move accesses to memory across it',
                'add the clobber "memory"',
                (Fix('add the clobber "memory"', (asm.clobber,), safe=True),) if asm.clobber else (),
                confidence=None if ordering else Confidence.LOW,
            )  # fmt: skip


# ---------------------------------------------------------------- operands


def _operands(statement: _Statement) -> Iterator[Defect]:
    """Inputs that are written, and outputs that are not."""
    written: dict[int, list[Instruction]] = {}
    for ins in statement.instructions:
        for number in statement.named(ins.writes):
            written.setdefault(number, []).append(ins)
    for number, operand in enumerate(statement.operands):
        name = statement.word(number)
        if operand.constraint.isdigit():
            continue
        if not operand.output and number in written:
            yield Defect(
                "IA003", statement.span(written[number][0]),
                f"writes {name}, which is an input: the compiler still expects its former value there",
                f'declare it as an output with "+{operand.constraint}", or use another register',
            )  # fmt: skip
        if operand.constraint[:1] == "=" and statement.instructions:
            stores = written.get(number, [])
            if not stores and statement.asm.dialect == "llvm":
                continue  # a call must have a result there
            if not stores:
                span = operand.span or statement.asm.statement
                yield Defect("IA004", span, f"{name} is an output, but nothing writes it", "")
            elif all(ins.guard >= 0 for ins in stores) and not _complementary(stores):
                yield Defect(
                    "IA004", statement.span(stores[0]),
                    f"{name} is written only under a predicate: otherwise its value is undefined",
                    f'declare it with "+{operand.constraint.lstrip("=&")}" to keep its value',
                    severity=Severity.INFO, confidence=Confidence.LOW,
                )  # fmt: skip


def _complementary(stores: Sequence[Instruction]) -> bool:
    guards = {(ins.guard, ins.negated) for ins in stores}
    return any((guard, not negated) in guards for guard, negated in guards)


def _early(statement: _Statement) -> Iterator[Defect]:
    """Outputs that are written before an input is read that may be in the same register."""
    operands = statement.operands
    if any(ins.flow for ins in statement.instructions):
        return  # the write and the read may be on different paths
    written: dict[int, list[Instruction]] = {}
    reported = set[int]()
    for ins in statement.instructions:
        for number in sorted(statement.named((*ins.reads, ins.guard))):
            operand = operands[number]
            if operand.output or operand.constraint.isdigit() or not operand.expression:
                continue
            for output, writes in written.items():
                declared = operands[output]
                if (
                    output in reported
                    or "&" in declared.constraint
                    or declared.constraint.lstrip("=+") != operand.constraint
                    or declared.expression != operand.expression
                ):
                    continue
                first = next((one for one in writes if not _keeps(statement, one, ins, number)), None)
                if first is not None:
                    reported.add(output)
                    yield _shared(statement, output, number, first, ins)
        for number in statement.named(ins.writes):
            if operands[number].output:
                written.setdefault(number, []).append(ins)


def _keeps(statement: _Statement, write: Instruction, read: Instruction, number: int) -> bool:
    """Whether *read* still finds the value of an operand if *write* writes to its register: it copies the operand, or is
    executed only if *read* is not."""
    if write.guard >= 0:
        return write.guard == read.guard and write.negated != read.negated
    return write.moves and statement.named(write.reads) == {number}


def _shared(statement: _Statement, output: int, number: int, first: Instruction, then: Instruction) -> Defect:
    out, name = statement.word(output), statement.word(number)
    operand = statement.operands[output]
    constraint = f"{operand.constraint[:1]}&{operand.constraint[1:]}"
    fixes = (
        (Fix(f"declare {out} as early clobber", (Edit(operand.span, constraint),), safe=True),)
        if operand.span
        else ()
    )
    return Defect(
        "IA005", statement.span(then),
        f"reads {name} after {out} was written, and the compiler may assign both the same register",
        f'declare {out} with "{constraint}"', fixes,
        steps=(Step(statement.span(first), f"{out} written"), Step(statement.span(then), f"{name} read")),
    )  # fmt: skip


# ---------------------------------------------------------------- addresses


def _addresses(statement: _Statement) -> Iterator[Defect]:
    """Generic addresses that are used in a state space."""
    for ins in statement.instructions:
        for space, address in _spaces(ins):
            base = address.base
            number = statement.numbers.get(base, -1) if isinstance(base, int) else -1
            if number < 0 or not statement.operands[number].generic:
                continue
            yield Defect(
                "IA006", statement.span(ins),
                f"{statement.word(number)} is a generic address, but {ins.opcode} expects one in {space}",
                f"convert it with {_CONVERSIONS[space]}",
                severity=Severity.WARNING if space == ".local" else None,
            )  # fmt: skip


_CONVERSIONS = {
    ".shared": "__cvta_generic_to_shared",
    ".shared::cta": "__cvta_generic_to_shared",
    ".local": "__cvta_generic_to_local",
}
"""State space -> the function of CUDA C++ that converts a generic address."""


def _spaces(ins: Instruction) -> Iterator[tuple[str, Memory]]:
    """The addresses of an instruction that must be in shared memory of the CTA or in local memory, each with the space."""
    match = ins.match
    assert match is not None
    if match.spelled_space not in _CONVERSIONS:
        return
    spaces = (StateSpace.SHARED, StateSpace.LOCAL)
    own = [a.operand for a in match.accesses if a.proxy is Proxy.GENERIC and a.space in spaces]
    for operand in map(ins.named, dict.fromkeys(own)):
        if isinstance(operand, Memory):
            yield match.space, operand

"""Check of addresses: generic, or offsets in shared memory (PTX ISA 6.4.1.1, 9.7.9.20)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.dataflow.kernel import Kernel
from tclint.findings.edits import Repair, opcode
from tclint.findings.scales import Severity
from tclint.ir.nodes import FormUse, Memory, Operand, Symbol
from tclint.isa.effects import Exchange
from tclint.isa.forms import Match

MO001 = RuleId("MO001")
MO006 = RuleId("MO006")

_OFFSET, _GENERIC = "offset", "generic"
MAX_DEFINITIONS = 40
"""Length of the chain of definitions through which an address is traced; the kind is unknown beyond it."""
_PRESERVING = frozenset("mov cvt and or add sub mad".split())
"""Operations that compute, from an address and values, an address of the same kind."""

_PLAIN = r"(ld|st)((?:\.v[248])?\.[bfsu]\d+)"
"""A generic load or store whose only modifiers are the vector length and the type."""

Kind = tuple[str, int]
"""``offset`` (in the window of shared memory) or ``generic``, and the instruction that created the address."""


@check(MO001, MO006)
def wrong_kind_of_address(model: Kernel) -> Iterator[Hit]:
    """An offset in shared memory where the instruction takes a generic address, and vice versa (6.4.1.1)."""
    uses = [
        (use, names, required)
        for use in model.function.uses
        if use.match is not None
        and not use.match.problem
        and (names := _addresses(use.match))
        and (required := _required(use.match))
    ]
    converted = any(_made_generic(use.match) for use in model.function.uses)
    if not converted and all(required == _OFFSET for _, _, required in uses):
        return
    wrong = _of_other_kind(model, [each for each in uses if converted or each[2] != _OFFSET])
    # A generic address in place of an offset works, and then usually occurs in the whole kernel: it is one cause.
    causes = grouped((kind if kind[0] == _OFFSET else _GENERIC, (site, kind)) for site, kind in wrong)
    for found in causes.values():
        yield _hit(model, found[0][1], sorted(site for site, _ in found))


def _of_other_kind(
    model: Kernel, uses: Iterable[tuple[FormUse, list[str], str]]
) -> Iterator[tuple[tuple[int, int], Kind]]:
    """The instruction, the register and its kind, for each address of a kind that the instruction does not take."""
    kinds = _Kinds(model)
    for use, names, required in uses:
        for site in use.sites:
            for name in names:
                operand = model.instruction(site).named(name)
                if isinstance(operand, Memory) and isinstance(operand.base, int):
                    kind = kinds.of(operand.base, site)
                    if kind is not None and kind[0] != required:
                        yield (site, operand.base), kind


def _addresses(match: Match) -> list[str]:
    """The operands that are addresses in the space of the instruction."""
    form = match.form
    names = [name for _, name in form.memory]
    if form.mbarrier:
        names.append(form.mbarrier)
    return list(dict.fromkeys(names))


def _required(match: Match) -> str:
    """The kind of address that an instruction takes; empty if neither, or if it takes both."""
    if not match.space:
        return _GENERIC
    return _OFFSET if match.spelled_space.startswith(".shared") else ""


def _made_generic(match: Match | None) -> bool:
    return (
        match is not None and match.form.name == "cvta" and match.binding.get("ss", "").startswith(".shared")
    )


def _hit(model: Kernel, kind: Kind, sites: list[tuple[int, int]]) -> Hit:
    """The hit for all uses of an address: reported at the first plain access, or at the first use if there is none."""
    made, origin = kind
    site, register = next((s for s in sites if not model.instruction(s[0]).event), sites[0])
    instruction = model.instruction(site)
    name, root = model.function.registers[register].name, instruction.root
    if made == _OFFSET:
        message = f"{root} takes a generic address here, but {name} is an offset in shared memory"
        step = "computes an offset in shared memory"
        remedy = "name the state space (.shared), or convert the address with cvta.shared"
    else:
        message = f"{root} takes an offset in shared memory here, but {name} is a generic address"
        step = "computes a generic address"
        remedy = "convert the address with cvta.to.shared (in CUDA C++, __cvta_generic_to_shared)"
    # If ptxas knows the state space it uses the low half of the address, which is the same for both kinds from sm_90 on.
    tolerated = made == _GENERIC or bool(instruction.event)
    target = model.function.target
    works = target is not None and target.number >= 90
    return (MO006 if tolerated and works else MO001).hit(
        site=site,
        message=message,
        steps=(Mark(origin, step), Mark(site, f"{name} is used")),
        count=len(sites),
        help=remedy,
        fixes=_spaced(model, [s for s, _ in sites]) if made == _OFFSET else (),
        severity=Severity.WARNING if tolerated and not works else None,
    )


def _spaced(model: Kernel, sites: list[int]) -> tuple[Repair, ...]:
    """The repair that adds the state space to all loads and stores of the address; none if another instruction uses
    it."""
    opcodes = [model.instruction(site).opcode for site in sites]
    if not all(re.fullmatch(_PLAIN, old) for old in opcodes):
        return ()
    changes = (
        opcode(site, re.sub(_PLAIN, r"\1.shared\2", old)) for site, old in zip(sites, opcodes, strict=True)
    )
    return (Repair("name the state space: .shared", tuple(changes)),)


class _Kinds:
    """The kind of address that a register holds, derived from its definitions."""

    def __init__(self, model: Kernel) -> None:
        self.model = model
        self._known: dict[int, Kind | None] = {}

    def of(self, register: int, at: int, depth: int = 0) -> Kind | None:
        """The kind on which all definitions of *register* agree that may reach the instruction at *at*; else None."""
        model = self.model
        defs = model.values.defs.get(register, [])
        nearest = bisect_left(defs, at) - 1
        if nearest >= 0 and model.instruction(defs[nearest]).guard < 0:
            block = model.cfg.block_of
            if block[defs[nearest]] == block[at]:
                defs = defs[nearest : nearest + 1]
        found: dict[str, Kind | None] = {}
        for definition in defs:
            kind = self._made(definition, depth + 1)
            if kind is not None or register not in model.instruction(definition).reads:
                found.setdefault(kind[0] if kind else "", kind)
        return next(iter(found.values())) if len(found) == 1 else None

    def _made(self, at: int, depth: int) -> Kind | None:
        """The kind of the value that the instruction at *at* writes; None if unknown or not an address."""
        if at not in self._known:
            self._known[at] = None  # a definition that depends on itself contributes no kind
            self._known[at] = self._kind(at, depth) if depth < MAX_DEFINITIONS else None
        return self._known[at]

    def _kind(self, at: int, depth: int) -> Kind | None:
        instruction = self.model.instruction(at)
        match = instruction.match
        if match is None or match.problem or len(instruction.writes) != 1:
            return None
        form, space = match.form, match.binding.get("ss", "")
        if form.name in ("cvta", "cvta.to", "mapa") and space:
            made = _GENERIC if form.name == "cvta" else _OFFSET
            return (made, at) if space.startswith(".shared") else None
        sources = instruction.operands[1:]
        if form.name == "mapa" or form.effects.exchange is Exchange.SHUFFLE:
            return self._operand(sources[0], at, depth)
        if form.compute not in _PRESERVING:
            return None
        kinds = [kind for o in sources if (kind := self._operand(o, at, depth)) is not None]
        return kinds[0] if len(kinds) == 1 else None

    def _operand(self, operand: Operand, at: int, depth: int) -> Kind | None:
        if isinstance(operand, int):
            return self.of(operand, at, depth)
        if isinstance(operand, Symbol):
            return (_OFFSET, at) if self.model.space_of(operand.name) == ".shared" else None
        return None

"""Checks of tcgen05 operands: descriptors, tensor memory addresses, immediates, destination registers (PTX ISA
9.7.16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tclint.analyses.model import KernelModel
from tclint.analyses.tensor_memory import LANES, TensorMemory, TmemLocation
from tclint.analyses.tmem_allocation import TensorAllocation
from tclint.checks import Hit, Mark, RuleId, check
from tclint.checks._operand_faults import OperandFault, merged
from tclint.findings.scales import Severity
from tclint.ir.nodes import Instruction, Memory
from tclint.isa.effects import TCGEN05, TCGEN05_LD, TCGEN05_ST, Resource
from tclint.isa.target import Target
from tclint.values import Bits, UniformityScope
from tclint.values import thread_masks as T
from tclint.values.descriptors import (
    INSTRUCTION,
    SHARED,
    SWIZZLE_128,
    SWIZZLE_128_ATOM_32,
    DescriptorForm,
    Field,
    instruction_fields,
)

TC015 = RuleId("TC015")
TC026 = RuleId("TC026")
TC016 = RuleId("TC016")
TC017 = RuleId("TC017")
TC018 = RuleId("TC018")
TC019 = RuleId("TC019")
TC020 = RuleId("TC020")
TC022 = RuleId("TC022")
TC023 = RuleId("TC023")

_NAMES = {"a": "A", "b": "B", "source": "the source"}


# ---------------------------------------------------------------- descriptors


def _listed(numbers: Iterable[int]) -> str:
    """*numbers* in ascending order as text: ``8, 16 or 24``; more than six are shortened to ``8, 16, ... 256``."""
    ordered = sorted(numbers)
    if len(ordered) > 6:
        return f"{ordered[0]}, {ordered[1]}, ... {ordered[-1]}"
    words = [str(n) for n in ordered]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _reason(field: Field, bits: Bits) -> str:
    """What is wrong with the value of *field*, which is not known completely if no single value can be read."""
    number, allowed = field.read(bits), _listed(field.allowed or ())
    return f"{field.name} ({field.where()}) " + (
        f"cannot be {allowed}" if number is None else f"is {number}, not {allowed}"
    )


_REMEDY_16 = "encode the instruction descriptor for this .kind and .cta_group according to tables 42 to 44 of 9.7.16.4.2"
_UNUSED_DIMENSION = "a swizzled operand does not use the leading dimension"
_REMEDY_15 = "encode the descriptor according to table 40 of 9.7.16.4.1: 0b001 in bits 46-48, zeros in bits 53-60, the swizzling mode in bits 61-63"
_REMEDY_WGMMA = "this is a wgmma descriptor: set bit 46, and take the swizzling mode of bits 61-63 from table 40 of 9.7.16.4.1"


@check(TC015, TC016, TC026)
def descriptors(model: KernelModel) -> Iterator[Hit]:
    """Descriptors with a field whose known bits admit no legal value (9.7.16.4)."""
    judged: dict[tuple[DescriptorForm, Bits], tuple[str, Severity | None]] = {}
    faults: list[OperandFault] = []
    for site in model.begins(TCGEN05):
        instruction = model.instruction(site)
        match, idesc = instruction.match, model.value(site, "idesc")
        assert match is not None
        form = bits = None
        if idesc is not None:
            form, bits = key = DescriptorForm.of(match), model.values.known_bits(idesc)
            if key not in judged:
                judged[key] = _instruction_fault(form, bits, model.function.target)
            message, severity = judged[key]
            if message:
                faults.append(
                    OperandFault(
                        TC016, site, instruction.role("idesc"), message, _REMEDY_16, severity=severity
                    )
                )
        for role, name in _NAMES.items():
            operand = instruction.role(role)
            if operand is None or isinstance(operand, Memory):
                continue
            shared = model.values.known_bits(model.values.operand(operand, site))
            reasons = list(_shared_reasons(model, shared, form, bits, name))
            if reasons:
                hopper = SHARED["fixed constant"].read(shared) == 0
                message = f"the shared memory descriptor of {name} is invalid: {'; '.join(reasons)}"
                # Triton 3.5 builds such descriptors, and its kernels are in use.
                rule = TC026 if hopper and len(reasons) == 1 else TC015
                harmless = None if _is_known(model) else Severity.INFO
                remedy = _REMEDY_WGMMA if hopper else _REMEDY_15
                faults.append(OperandFault(rule, site, operand, message, remedy, severity=harmless))
            if target := _unknown_mode(model, shared):
                message = f"the shared memory descriptor of {name} is invalid: the leading dimension is an absolute address (bit 52), which {target} does not support"
                faults.append(
                    OperandFault(TC015, site, operand, message, _REMEDY_15, doubt=_UNUSED_DIMENSION)
                )
    yield from merged(model, faults)


def _instruction_fault(
    form: DescriptorForm, bits: Bits, target: Target | None
) -> tuple[str, Severity | None]:
    """What is wrong with an instruction descriptor, or else unknown on a *target* that is newer than the tables."""
    wrong = [field for field in instruction_fields(form, bits, target) if field.wrong(bits)]
    known = target is not None and target.documented
    sure = [field for field in wrong if known or not field.reserved]
    if sure:
        return f"the instruction descriptor does not fit {form}: {_reasons(sure, bits)}", None
    if wrong:
        where = " and ".join(field.where() for field in wrong)
        return (
            f"{where} of the instruction descriptor of {form} {'are' if len(wrong) > 1 else 'is'} not checked: "
            + (f"tclint does not know what {target or 'the target'} defines there"),
            Severity.INFO,
        )
    return "", None


def _reasons(fields: Iterable[Field], bits: Bits) -> str:
    return "; ".join(_reason(field, bits) for field in fields)


def _is_known(model: KernelModel) -> bool:
    """Whether the tables have every bit that the target of the kernel defines in descriptors."""
    target = model.function.target
    return target is not None and target.documented


def _shared_reasons(
    model: KernelModel, shared: Bits, form: DescriptorForm | None, idesc: Bits | None, name: str
) -> Iterator[str]:
    for field in _FIXED:
        if field.wrong(shared):
            yield _reason(field, shared)
    swizzle = SHARED["swizzling mode"].read(shared)
    absolute = SHARED["leading dimension mode"].read(shared) == 1
    if absolute and not _unknown_mode(model, shared) and swizzle not in (None, SWIZZLE_128):
        yield f"an absolute leading dimension address (bit 52) requires 128-byte swizzling (2), not mode {swizzle}"
    if form is not None and INSTRUCTION[form.kind] and idesc is not None and swizzle is not None:
        transposed = INSTRUCTION[form.kind][f"transposition of {name}"].read(idesc) == 1
        if transposed and (form.kind == ".kind::tf32") != (swizzle == SWIZZLE_128_ATOM_32):
            only = "requires" if form.kind == ".kind::tf32" else "does not allow"
            yield f"a transposed {name} of {form.kind} {only} 128-byte swizzling with 32-byte atoms (1), and the mode is {swizzle}"


def _unknown_mode(model: KernelModel, shared: Bits) -> str:
    """The name of the target if the leading dimension is an absolute address and the target does not support that, else
    empty."""
    target = model.function.target
    absolute = SHARED["leading dimension mode"].read(shared) == 1
    return f"sm_{target.number}" if absolute and target and target.number in _WITHOUT_ABSOLUTE else ""


_FIXED = tuple(field for field in SHARED.values() if field.allowed is not None)
_WITHOUT_ABSOLUTE = frozenset((100, 101, 110))
"""Targets without the absolute leading dimension, which sm_103a introduced (9.7.16.4.1.1)."""


# ---------------------------------------------------------------- immediates and registers


@check(TC019)
def scale_input(model: KernelModel) -> Iterator[Hit]:
    """An MMA with scale-input-d whose kind does not scale D (9.7.16.10.9.1)."""
    faults: list[OperandFault] = []
    for site in model.begins(TCGEN05):
        instruction = model.instruction(site)
        scale = instruction.named("scale-input-d")
        if scale is None or instruction.match is None:
            continue
        kind = instruction.match.binding["kind"]
        if kind in _UNSCALED:
            message = f"scale-input-d with {kind}: only .kind::f16 and .kind::tf32 scale D"
            faults.append(
                OperandFault(
                    TC019,
                    site,
                    None,
                    message,
                    "omit scale-input-d, and scale the accumulator by other means",
                )
            )
    yield from merged(model, faults)


_UNSCALED = frozenset((".kind::f8f6f4", ".kind::i8"))
"""Kinds that do not scale D; of ``.kind::ti16`` it is unknown."""


@check(TC018)
def duplicate_destination(model: KernelModel) -> Iterator[Hit]:
    """A register that appears more than once in the destination of tcgen05.ld (9.7.16.8.3)."""
    for site in model.begins(TCGEN05_LD):
        written = model.instruction(site).writes
        if len(set(written)) == len(written):
            continue
        repeated = {r for r in written if written.count(r) > 1}
        used = any(r in repeated for instruction in model.function.instructions for r in instruction.reads)
        names = ", ".join(sorted(model.function.registers[r].name for r in repeated))
        yield TC018.hit(
            site=site,
            message=f"tcgen05.ld loads more than one value into {names}: which of them remains is undefined",
            help="use a different register for each element of the destination",
            severity=None if used else Severity.INFO,
        )


# ---------------------------------------------------------------- addresses of tensor memory


@check(TC017, TC020, analyses=(TensorAllocation, TensorMemory))
def bounds(model: KernelModel) -> Iterator[Hit]:
    """Addresses of columns out of bounds, and of lanes that do not exist or are not aligned (9.7.16.1.1,
    9.7.16.9.3)."""
    if not model.begins():
        return
    tmem = model.fact(TensorMemory)
    faults: list[OperandFault] = []
    for group, role in ((TCGEN05_LD, "taddr"), (TCGEN05_ST, "taddr"), (TCGEN05, "d"), (TCGEN05, "a")):
        for site in model.begins(group):
            columns, operand = tmem.range(site, role), model.instruction(site).role(role)
            location = tmem.relative(model.values.operand(operand, site)) if columns is not None else None
            if columns is None or location is None:
                continue
            if role == "d" and _is_shift(model.instruction(site)) and location.lane % 32:
                message = f"tcgen05.shift starts at lane {location.lane}, which is not a multiple of 32"
                faults.append(OperandFault(TC020, site, operand, message, "start at lane 0, 32, 64 or 96"))
            else:
                outside = _outside(columns.columns, location)
                if outside:
                    message = f"{model.name(site)} {outside}"
                    whose = (location.base, location.size)
                    faults.append(
                        OperandFault(
                            TC017,
                            site,
                            operand,
                            message,
                            _REMEDY_17,
                            cause=whose,
                            origins=tuple(_allocated(model, location)),
                        )
                    )
    yield from merged(model, faults)


def _allocated(model: KernelModel, location: TmemLocation) -> Iterator[Mark]:
    """The allocations whose columns are too few."""
    if location.base is not None:
        memory, _ = model.solution(TensorAllocation)
        for site in memory.words.get(location.base, ()):
            yield Mark(site, f"{location.size} columns are allocated here")


def _outside(width: int, location: TmemLocation) -> str:
    """How an access to *width* columns at *location* is out of bounds; empty if it may be in bounds."""
    column, lane = location.column, location.lane
    if lane >> 15 and location.base is not None:
        return "accesses columns before the start of the allocation"
    if lane >= LANES:
        return f"starts at lane {lane}, but tensor memory has {LANES} lanes"
    if column + width > location.size:
        which = f"column {column}" if width == 1 else f"columns {column} to {column + width - 1}"
        what = "tensor memory" if location.base is None else "the allocation"
        return f"accesses {which} of {what}, which has {location.size} columns"
    return ""


_REMEDY_17 = "allocate more columns, or use an address whose columns are all in the allocation"


def _is_shift(instruction: Instruction) -> bool:
    """Whether it is a tcgen05.shift: its only operand is an address of tensor memory."""
    return len(instruction.operands) == 1


@check(TC022)
def divergent_address(model: KernelModel) -> Iterator[Hit]:
    """An address of tensor memory that is not warp-uniform (9.7.16.8.3, 9.7.16.8.4)."""
    faults: list[OperandFault] = []
    values = model.values
    for site in _collective(model):
        operand = model.instruction(site).role("taddr")
        value = values.operand(operand, site)
        if values.uniformity(value) is not UniformityScope.DIVERGENT:
            continue
        differing = _differing(model, value, model.views.context_of(site).threads)
        if not differing:
            continue
        message = f"the address of {model.name(site)} differs between the threads of a warp, but must be warp-uniform"
        remedy = "do not add the lane of the thread to the address: it denotes the first lane of the warp, and each thread accesses its own lane"
        # ptxas uses the address of one lane, and the hardware ignores the lane within the warp.
        severity = None if differing & ~_LANE_OF_WARP else Severity.INFO
        faults.append(
            OperandFault(TC022, site, operand, message, remedy, severity=severity, cause="the address")
        )
    yield from merged(model, faults)


_LANE_OF_WARP = 0x1F << 16
"""The bits of an address that select one of the 32 lanes that a warp can access (9.7.16.1.1, 9.7.16.8.1)."""


def _differing(model: KernelModel, value: int, active: int) -> int:
    """The bits of *value* in which *active* threads of one warp may differ; 0 if they provably agree."""
    values = model.values

    def bits(part: int) -> int | None:
        planes = values.exact_slices(part)
        if planes is None:
            return None
        return sum(
            1 << bit for bit, plane in enumerate(T.bits(planes, 32)) if T.partial_groups(plane, active, 32)
        )

    differing = bits(value)
    if differing is not None:
        return differing
    differing = 0
    for term, factor in values.linear(value)[0]:
        if values.uniformity(term) is UniformityScope.DIVERGENT:
            part = values.times(term, factor)
            known = bits(part)
            differing |= ~values.known_bits(part)[0] & 0xFFFFFFFF if known is None else known
    return differing or 0xFFFFFFFF


def _collective(model: KernelModel) -> list[int]:
    """The warp-wide instructions that take an address of tensor memory."""
    groups = (
        model.begins(TCGEN05_LD),
        model.begins(TCGEN05_ST),
        model.sites(Resource.TMEM_DEALLOC),
    )
    return sorted(site for group in groups for site in group)


_NO_WARP = (
    "the address names no warp: the hardware uses the lanes of the warp itself, and some kernels rely on it"
)
_ONE_WARP = "a launch of fewer threads may have only the first of the warps that execute it"


@check(TC023, analyses=(TensorMemory,))
def lane_window(model: KernelModel) -> Iterator[Hit]:
    """Accesses to lanes of tensor memory that belong to another warp (9.7.16.8.1)."""
    sites = (*model.begins(TCGEN05_LD), *model.begins(TCGEN05_ST))
    if not sites:
        return
    tmem = model.fact(TensorMemory)
    faults: list[OperandFault] = []
    for site in sorted(sites):
        operand, threads = model.instruction(site).role("taddr"), model.views.context_of(site).threads
        location = tmem.relative(model.values.operand(operand, site))
        if location is None or location.lane >= LANES:
            continue  # a lane that does not exist is not one of another warp: TC017
        lanes = _lanes(model, location.distance)
        foreign = _foreign(lanes, threads) if lanes is not None else None
        if foreign is None:
            continue
        warp, lane = foreign
        own = warp % 4 * 32
        absent = model.values.cta_size is None and threads & (1 << 32 * warp) - 1
        faults.append(
            OperandFault(
                TC023,
                site,
                operand,
                f"{model.name(site)} of warp {warp} at lane {lane}: this warp can access lanes {own} to {own + 31} only",
                "set the lane field of the address (bits 31-16) to 32 * (warp index % 4): add (warp index % 4) << 21",
                doubt=_NO_WARP if lane < 32 else _ONE_WARP if absent else "",
                cause="the lane",
            )
        )
    yield from merged(model, faults)


def _lanes(model: KernelModel, distance: int) -> T.BitSlices | None:
    """The lanes of an address in every thread, as bit slices; None if they depend on more than the thread index."""
    values = model.values
    terms, constant = values.linear(distance)
    # Terms that only add to the column cannot carry into the lane if all of them together fit into the lower half.
    # Terms that are multiples of the unit of a lane, or known in every thread, decide the lane.
    lanes, columns = [], constant & 0xFFFF
    for term, factor in terms:
        part = values.times(term, factor)
        zeros, _ = values.known_bits(part)
        if zeros & 0xFFFF_0000 == 0xFFFF_0000 and values.exact_slices(part) is None:
            columns += ~zeros & 0xFFFF
        elif zeros & 0xFFFF == 0xFFFF or values.exact_slices(part) is not None:
            lanes.append((term, factor))
        else:
            return None
    if columns > 0xFFFF:
        return None
    planes = values.exact_slices(values.total(tuple(lanes), constant))
    return None if planes is None else T.bits(planes, 32)[16:]


def _foreign(lanes: T.BitSlices, threads: int) -> tuple[int, int] | None:
    """The first warp among *threads* that accesses a lane of another warp, and that lane; None if there is none."""
    warp = 0
    while threads >> 32 * warp:
        present = threads >> 32 * warp & 0xFFFFFFFF
        if present:
            thread = 32 * warp + (present & -present).bit_length() - 1
            lane = sum((plane >> thread & 1) << bit for bit, plane in enumerate(lanes))
            if lane // 32 != warp % 4:
                return warp, lane
        warp += 1
    return None

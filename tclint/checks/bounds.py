"""Accesses that are certainly outside their variable, or misaligned (PTX ISA 5.1, 6.4.1).

What an access to global memory through a pointer from a launch may reach is not known, and neither is the size of dynamic
shared memory. Their alignment is unknown, too, but two addresses a known distance apart can contradict each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tclint.analyses.certain_accesses import CertainAccesses, Witness, launched
from tclint.analyses.model import KernelModel
from tclint.analyses.objects import ObjectNames
from tclint.analyses.pretty import ValuePrinter
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.checks._wording import TWICE, called, copied_from, only_if
from tclint.findings.scales import Confidence, Severity
from tclint.ir.cfg import Edge
from tclint.ir.nodes import Variable
from tclint.values.nodes import Compare, Constant, ParameterRead
from tclint.values.shared_memory import SharedAccess

MA001 = RuleId("MA001")
MA002 = RuleId("MA002")

_WORD = 4
"""Accesses of at most so many bytes are not compared with each other: hardly any is misaligned, and most accesses are such."""
_SELECTED = "a parameter selects this of several accesses, and may never do so in a launch of this kernel"
MAX_NAME = 200
"""Characters of the name of a parameter."""


@check(MA001, analyses=(CertainAccesses, ObjectNames))
def outside(model: KernelModel) -> Iterator[Hit]:
    """Accesses to bytes that do not belong to the variable whose address they are computed from."""
    model = launched(model)
    accesses = model.fact(CertainAccesses)
    found = list[tuple[object, Hit]]()
    for access in accesses.all():
        of = accesses.variable(access)
        if of is None or not accesses.size(of[1]) or accesses.inside(access, *of):
            continue
        base, variable = of
        hit = _outside(model, access, base, variable)
        if hit is not None:
            place = copied_from(model, access.site) or access.site
            found.append(((variable.name, place, access.writes), hit))
    for same in grouped(found).values():
        yield replace(same[0], count=len(same))


def _outside(model: KernelModel, access: SharedAccess, base: int, variable: Variable) -> Hit | None:
    """The hit for an access that a thread certainly makes outside the *variable*, or that all threads make there."""
    accesses = model.fact(CertainAccesses)
    room = accesses.size(variable)
    last = room - access.size
    witness = accesses.first(access, base, lambda offset: not 0 <= offset <= last)
    offset = accesses.always_outside(access, base, variable) if witness is None else witness.offset
    if offset is None:
        return None
    condition = "a thread executes it" if witness is None else _condition(model, witness)
    name = model.fact(ObjectNames).base(base) or variable.name
    high = offset + access.size - 1
    which = f"byte {offset}" if offset == high else f"bytes {offset} to {high}"
    verb = "writes" if access.writes else "reads"
    when = "" if witness is None else _when(model, access, base, witness)
    size = f"{room} byte{'s' * (room != 1)}"
    what = f"{called(model, access.site)} {verb} {which} of {name}{when}, but {name} has {size}"
    return _hit(MA001, access, what, f"keep the access within {size}, or make {name} larger", condition)


def _hit(rule: RuleId, access: SharedAccess, what: str, help: str, condition: str) -> Hit:
    """The hit that says *what* is wrong with an access: of less severity if that is so under a *condition*."""
    return rule.hit(
        site=access.site,
        message=f"{what}{only_if(condition)}",
        help=help,
        condition=condition,
        severity=Severity.WARNING if condition else None,
        confidence=Confidence.MEDIUM if condition else None,
        about=frozenset((access.site,)),
    )


# ------------------------------------------------------------ alignment


@check(MA002, analyses=(CertainAccesses,))
def misaligned(model: KernelModel) -> Iterator[Hit]:
    """Accesses at an address that is not a multiple of their size (6.4.1)."""
    model = launched(model)
    accesses = model.fact(CertainAccesses)
    aligned = [(a, n) for a in accesses.all() if (n := _alignment(model, a)) > 1]
    found, alike = list[Hit](), set[object]()
    for access, multiple in aligned:
        terms, constant = model.values.linear(access.address)
        key = terms, constant % multiple, multiple, model.guarded_block(access.site)
        hit = None if key in alike else _misaligned(model, access, multiple)
        if hit is None:
            alike.add(key)
        else:
            found.append(hit)
    wrong = {hit.site for hit in found}
    found += _contradicting(model, [(a, n) for a, n in aligned if a.site not in wrong])
    by_place = grouped((copied_from(model, hit.site) or hit.site, hit) for hit in found)
    for same in by_place.values():
        yield replace(same[0], count=len(same))


def _alignment(model: KernelModel, access: SharedAccess) -> int:
    """The number of which the address of a plain access must be a multiple: its size. 1 if CA004 states it."""
    match = model.instruction(access.site).match
    if match is None or match.form.align or match.form.mbarrier:
        return 1
    extents = {each.extent for each in match.accesses}
    (size,) = extents if len(extents) == 1 else (1,)
    return size if isinstance(size, int) and size.bit_count() == 1 else 1


def _misaligned(model: KernelModel, access: SharedAccess, multiple: int) -> Hit | None:
    """The hit for an access that is misaligned in every thread, or in one that certainly executes it."""
    accesses = model.fact(CertainAccesses)
    if accesses.is_multiple(access.address, multiple):
        return None
    context = model.views.context_of(access.site)
    least, most, modulus = model.shared.remainder(access.address, multiple, lambda: context.threads)
    if least:
        return _odd_hit(model, access, multiple, f"it is {least} modulo {modulus}")
    base = accesses.base(access)
    offset = model.values.minus(access.address, base)
    apart = model.shared.remainder(offset, multiple, lambda: context.threads)
    if (most, modulus) == (0, multiple) or (apart[0] == apart[1] and apart[2] == multiple):
        return None
    rest, _, modulus = model.shared.remainder(base, multiple, lambda: 1)
    if modulus > 1:
        witness = accesses.first(access, base, lambda n: (n + rest) % modulus != 0, 2, True)
        if witness is not None:
            when = _when(model, access, base, witness)
            why = f"it is {(witness.offset + rest) % modulus} modulo {modulus}{when}"
            return _odd_hit(model, access, multiple, why, witness)
    if modulus == multiple:
        return None
    one = accesses.somewhere(access, base)
    other = one and accesses.first(access, base, lambda n: (n - one.offset) % multiple != 0, 2, True)
    if one is None or other is None:
        return None
    what = f"threads {one.thread} and {other.thread}" if one.thread != other.thread else "two iterations"
    why = f"those of {what} are {abs(other.offset - one.offset)} bytes apart"
    return _odd_hit(model, access, multiple, why, other)


def _odd_hit(
    model: KernelModel, access: SharedAccess, multiple: int, why: str, witness: Witness | None = None
) -> Hit:
    """The hit for an access whose address is no *multiple*, and *why*: so at least in the thread of a *witness*."""
    what = (
        f"the address of {model.instruction(access.site).opcode} must be a multiple of {multiple}, but {why}"
    )
    help = f"align the address to {multiple} bytes, or access it in smaller pieces"
    hit = _hit(MA002, access, what, help, "" if witness is None else _condition(model, witness))
    return hit.doubted(_one_of_several(model, access.site))


def _one_of_several(model: KernelModel, site: int) -> str:
    """The doubt about an access that a parameter selects among at least three: a launch may never select it.

    An instance of a template has the code for all formats of the data, and each format has instances of its own.
    """
    values, cfg = model.values, model.cfg

    def equal(edge: Edge) -> tuple[int, int] | None:
        p = values.before(edge.predicate, cfg.blocks[edge.source].end - 1)
        node = values.node(p)
        if type(node) is not Compare or node.relation != "eq":
            return None
        sides = sorted(node.operands, key=lambda v: type(values.node(v)) is Constant)
        kinds = tuple(type(values.node(v)) for v in sides)
        return (sides[0], sides[1]) if kinds == (ParameterRead, Constant) else None

    block, chosen, rejected = cfg.block_of[site], -1, list[int]()
    while block > 0:
        for edge in cfg.predecessors[block] if len(cfg.predecessors[block]) == 1 else ():
            found = equal(edge) if edge.predicate >= 0 else None
            if found is not None and edge.value and chosen < 0:
                chosen = found[0]
            elif found is not None and not edge.value:
                rejected.append(found[0])
        block = cfg.idom[block]
    return _SELECTED if chosen >= 0 and rejected.count(chosen) > 1 else ""


def _contradicting(model: KernelModel, aligned: list[tuple[SharedAccess, int]]) -> Iterator[Hit]:
    """Accesses of one thread at a distance that is not a multiple of what both need: one of the two is misaligned."""
    values, cfg, seen = model.values, model.cfg, set[int]()
    for multiple in sorted({n for _, n in aligned if n > _WORD}, reverse=True):
        bits = multiple.bit_length() - 1
        groups = grouped(
            ((tuple(cfg.enclosing_loops(cfg.block_of[a.site])), terms), (a, constant % multiple))
            for a, n in aligned
            if n >= multiple and a.site not in seen
            for terms, constant in (values.linear(values.without_aligned(a.address, bits)),)
            if terms
        )
        for same in groups.values():
            for hit in _odd(model, same, multiple):
                seen.add(hit.site)
                yield hit


def _odd(model: KernelModel, same: list[tuple[SharedAccess, int]], multiple: int) -> Iterator[Hit]:
    """The accesses whose remainder modulo *multiple* differs from that of another one that the thread executes as well.

    Which of two is misaligned is unknown: it is the one whose remainder fewer accesses have, or that is further on.
    """
    often = Counter(rest for _, rest in same)
    if len(often) < 2:
        return
    common = min(often, key=lambda rest: (-often[rest], rest))
    for access, rest in same:
        partner = next((a for a, r in same if r == common and _together(model, a.site, access.site)), None)
        if rest == common or partner is None:
            continue
        apart = (rest - common) % multiple
        yield replace(
            _odd_hit(
                model,
                access,
                multiple,
                f"the thread also executes {model.instruction(partner.site).opcode}, which must be aligned alike, "
                f"{apart} bytes modulo {multiple} before it",
            ),
            steps=(
                Mark(partner.site, f"needs an address that is a multiple of {multiple}"),
                Mark(access.site, f"needs one as well, {apart} bytes modulo {multiple} from there"),
            ),
        )


def _together(model: KernelModel, one: int, other: int) -> bool:
    """Whether a thread that executes *one* or the *other* later one has executed the earlier one in the same iteration."""
    cfg = model.cfg
    first, second = sorted((one, other), key=lambda i: (cfg.rank[cfg.block_of[i]], i))
    return model.instruction(first).guard < 0 and cfg.dominates(cfg.block_of[first], cfg.block_of[second])


# ------------------------------------------------------------ words


def _when(model: KernelModel, access: SharedAccess, base: int, witness: Witness) -> str:
    """Which thread and which iteration it is, as far as these decide the address."""
    values = model.values
    terms, _ = values.linear(values.minus(access.address, base))
    if not terms:
        return ""
    known = witness.size is not None or model.function.threads is not None or not witness.thread
    words = [f"thread {witness.thread}" if known else "a thread"]
    words += [f"iteration {over + 1} of its loop" for _, over in witness.loops[-1:] if over]
    return f" in {' and '.join(words)}"


def _condition(model: KernelModel, witness: Witness) -> str:
    """What the launch must have for it, in words that follow *if*; empty if every launch has it."""
    exact = "" if witness.size == model.values.cta_size else "at least "
    words = [] if witness.size is None else [f"the CTA has {exact}{witness.size} threads"]
    printer, values = ValuePrinter(model.values), model.values
    read = (
        v for p in witness.decided for v in values.subexpressions(p) if type(values.node(v)) is ParameterRead
    )
    names = dict.fromkeys(printer.text(v, MAX_NAME) or "what the launch passes" for v in read)
    words += [f"{name} is positive" for name in names]
    words += [TWICE] * witness.repeated
    return " and ".join(words)

"""Checks of the issuing threads, CTA masks, destinations and targets of bulk copies (PTX ISA 9.7.9.25.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tclint._named_tuple import NamedTuple
from tclint.analyses.issuers import (
    by_several_threads,
    copies_in_bulk,
    issued_by_each_lane,
    same_in_all_lanes,
)
from tclint.analyses.model import KernelModel
from tclint.checks import Hit, Mark, RuleId, check, grouped
from tclint.findings.edits import Repair, opcode, retarget
from tclint.findings.scales import Severity
from tclint.ir.nodes import Instruction
from tclint.isa.forms import Match
from tclint.isa.table import split_opcode
from tclint.isa.target import Target, Version
from tclint.isa.widths import needed
from tclint.values import Values
from tclint.values.nodes import AddressOf, Masked, Opaque, Select, SpecialRead

BK006 = RuleId("BK006")
BK007 = RuleId("BK007")
BK008 = RuleId("BK008")
BK009 = RuleId("BK009")
BK012 = RuleId("BK012")

_WINDOW = 1 << 24
"""The size of the part of the ``.shared::cluster`` window that belongs to one CTA: smaller offsets stay within it."""


@check(BK006)
def copied_by_several_threads(model: KernelModel) -> Iterator[Hit]:
    """Report copies that several threads of a warp provably execute with the same addresses."""
    copies = model.matching(lambda match: copies_in_bulk(match.form))
    for threads, every in by_several_threads(model, copies).items():
        same = ((_effect(model, i), i) for i in every if same_in_all_lanes(model, i))
        for effect, sites in grouped(same).items():
            site, who = sites[0], model.describe_threads(threads)
            yield BK006.hit(
                site=site,
                message=f"{model.name(site)} is executed by {who} with the same addresses: {effect.why}",
                steps=(Mark(site, "executed once by each thread", role=who),),
                count=len(sites),
                help="issue it from one thread, under the predicate of elect.sync in one warp",
                severity=effect.severity,
            ).doubted("" if model.function.most_threads is not None else "a launch may have one thread only")


class _Effect(NamedTuple):
    """What it does that each lane of a warp executes the same copy."""

    why: str
    severity: Severity | None = None


_ONE_COPY = _Effect(
    "nothing guarantees that the warp issues the copy only once, although current hardware does",
    Severity.INFO,
)
_MANY_COPIES = _Effect("each of these threads issues the whole copy")
_MANY_UPDATES = _Effect("each of these threads applies the whole reduction", Severity.ERROR)
_IDEMPOTENT = frozenset((".min", ".max", ".and", ".or"))
"""The reductions that change nothing when they are applied again."""


def _effect(model: KernelModel, site: int) -> _Effect:
    match = model.instruction(site).match
    assert match is not None  # it is a bulk copy
    if not issued_by_each_lane(match):
        return _ONE_COPY
    reduction = match.binding.get("redOp")
    return _MANY_COPIES if reduction is None or reduction in _IDEMPOTENT else _MANY_UPDATES


def _cluster(model: KernelModel) -> tuple[int, str] | None:
    """The largest number of CTAs in a cluster of the kernel, and the directive that specifies it; None without one."""
    for directive in (".reqnctapercluster", ".maxclusterrank"):
        numbers = model.function.directives.get(directive)
        if numbers:
            return prod(numbers), f"{directive} {', '.join(map(str, numbers))}"
    return None


def _multicasts(match: Match) -> bool:
    return bool(match.form.mbarrier) and "mask" in match.parts


@check(BK007)
def multicast_mask(model: KernelModel) -> Iterator[Hit]:
    """Report CTA masks that select no CTA, or one that the cluster does not have."""
    for what, sites in grouped(_wrong_masks(model)).items():
        site = sites[0]
        yield BK007.hit(
            site=site,
            message=f"the mask of {model.name(site)} {what}",
            count=len(sites),
            help="set one bit for each CTA of the cluster that is to receive the data and the signal",
        )


def _wrong_masks(model: KernelModel) -> Iterator[tuple[str, int]]:
    """What is wrong with a CTA mask, in words, and the instruction that takes it."""
    size, why = _cluster(model) or (0, "")
    for site in model.matching(_multicasts):
        value, match = model.value(site, "mask"), model.instruction(site).match
        if value is None or match is None:
            continue
        every = (1 << needed(match)[match.parts["mask"][0]].bits) - 1  # one for each CTA (9.7.9.25.4.1)
        zeros, ones = (bits & every for bits in model.values.known_bits(value))
        beyond = ones >> size << size if size else 0
        if zeros == every:
            yield "selects no CTA: nothing is sent to any CTA, and no mbarrier is signalled", site
        elif beyond:
            cta = beyond.bit_length() - 1
            yield f"selects CTA {cta}, but a cluster of this kernel has {size} ({why})", site


@check(BK008)
def copies_to_itself(model: KernelModel) -> Iterator[Hit]:
    """Report destinations and mbarriers in the executing CTA of instructions that must write to another CTA."""
    for site in model.matching(lambda match: "remote" in match.form.roles):
        name = model.name(site)
        named = {"a destination": model.value(site, "remote")}
        match = model.instruction(site).match
        if match is not None and not copies_in_bulk(match.form):
            # The manual does not restrict the mbarrier of a copy; that of red.async must be beside its destination.
            named["an mbarrier"] = model.mbarrier(site)
        for what, value in named.items():
            symbol = None if value is None else _own(model, value)
            if symbol is None:
                continue
            yield BK008.hit(
                site=site,
                message=f"{name} requires {what} in another CTA of the cluster, but {symbol} is in the executing CTA",
                help=f"compute the address with mapa.shared::cluster, from {symbol} and the rank of the other CTA",
            )
            break


def _own(model: KernelModel, address: int) -> str | None:
    """The shared variable of the executing CTA that *address* provably points into; None if there is none."""
    values, found, low, high = model.values, None, 0, 0
    terms, constant = values.linear(address)
    for term, factor in terms:
        node = values.node(term)
        if (
            type(node) is AddressOf
            and factor == 1
            and found is None
            and model.space(term).startswith(".shared")
        ):
            found = node.name
            continue
        bounds = values.interval(term)
        if bounds is None:
            return None
        low += min(bound * factor for bound in bounds)
        high += max(bound * factor for bound in bounds)
    return found if low + constant > -_WINDOW and high + constant < _WINDOW else None


@check(BK009)
def slow_multicast(model: KernelModel) -> Iterator[Hit]:
    """Report instructions that the target supports but executes slowly, with one note per kernel."""
    target = model.function.target
    uses = [use for use in model.function.uses if use.match is not None and use.match.form.optimized]
    if target is None or not uses:
        return
    sites = sorted(i for use in uses if use.match is not None and use.match.slower(target) for i in use.sites)
    sites = [i for i in sites if model.cfg.block_of[i] in model.cfg.rank]
    if sites:
        match = model.instruction(sites[0]).match
        assert match is not None
        slow = match.slower(target)
        assert slow is not None
        what, fast = " ".join(sorted(slow.when)), slow.available.describe()
        own = Target(target.number, "a")
        becomes, _ = match.lowered(target) or ("", "")
        why = ", where it calls a routine of the driver," if becomes == "call" else ""
        yield BK009.hit(
            site=sites[0],
            message=f"{what} of {model.name(sites[0])} may be much slower on {target}{why} than on {fast}",
            count=len(sites),
            help="" if match.slower(own) else f"use .target {own}",
            fixes=() if match.slower(own) else retarget(model.module, own),
        )


@check(BK012)
def calls_the_driver(model: KernelModel) -> Iterator[Hit]:
    """Report copies into ``.shared::cluster`` that call the driver on the target, those into the CTA's own memory apart."""
    target, version = model.function.target, model.module.version
    if target is None or version is None:
        return

    def calls(match: Match) -> bool:
        becomes, _ = match.lowered(target) or ("", "")
        return becomes == "call" and not match.multicast and "destination" in match.form.roles

    sites = model.matching(calls)
    for own, some in grouped((_stays(model, site), site) for site in sites).items():
        into = f"into {_OWN_SPACE}"
        respelled = [(i, _in_own_space(model.instruction(i), target, version)) for i in some if own]
        changes = tuple(opcode(i, new) for i, new in respelled if new)
        yield BK012.hit(
            site=some[0],
            message=f"on {target}, {model.name(some[0])} into .shared::cluster calls a routine of the driver if the "
            "destination is in another CTA: this costs registers and stack memory even if it is never executed",
            count=len(some),
            help=f"copy {into}: the destination and the mbarrier are in the executing CTA"
            if own
            else f"copy {into} if the destination and the mbarrier are in the executing CTA",
            fixes=(Repair(f"copy {into}", changes, True),) if own and len(changes) == len(some) else (),
        )


_OWN_SPACE = ".shared::cta"
_MAPPING = ("mapa", "getctarank")
_RANKS = ("%cluster_ctarank", "%cluster_ctaid")
_MAX_DERIVED = 200
"""The values that are looked at for one address: those of the kernels at hand need fewer than 30."""


def _in_own_space(instruction: Instruction, target: Target, version: Version) -> str:
    """The opcode of a copy with ``.shared::cta``; empty if *target* or *version* does not have it, or it calls the driver too."""
    match = instruction.match
    assert match is not None  # it is a copy
    new = instruction.opcode.replace(match.space, _OWN_SPACE, 1)
    _, modifiers = split_opcode(new)
    found = replace(match, modifiers=modifiers)
    return "" if found.missing(target, version) or found.lowered(target) else new


def _stays(model: KernelModel, site: int) -> bool:
    """Whether the destination and the mbarrier of a copy are derived from variables of the CTA, by arithmetic alone."""
    return all(
        value is not None and _derived(model, value)
        for value in (model.value(site, "destination"), model.mbarrier(site))
    )


def _derived(model: KernelModel, address: int) -> bool:
    """Whether *address* is an offset from a shared variable on every path, and nothing in it names another CTA."""
    values, found = model.values, dict[int, bool]()

    def own(value: int) -> bool:
        if value not in found:
            # A loop that advances a pointer leads back to it. Of too many values, nothing is said.
            terms, offset = values.linear(value)
            found[value] = len(found) < _MAX_DERIVED and abs(offset) < _WINDOW
            found[value] = found[value] and any(
                model.space(term).startswith(".shared") or (bool(bases) and all(map(own, bases)))
                for term, bases in ((term, _bases(values, term)) for term, f in terms if f == 1)
            )
        return found[value]

    return own(address) and not any(
        (type(node) is Opaque and node.name in _MAPPING)
        or (type(node) is SpecialRead and node.name.startswith(_RANKS))
        for node in map(values.node, values.subexpressions(address))
    )


def _bases(values: Values, term: int) -> tuple[int, ...]:
    """The values of which *term* may be one, but for bits that a mask clears and that name no CTA."""
    node = values.node(term)
    if type(node) is Masked:
        return (node.value,) if ~node.mask & (1 << 32) - 1 < _WINDOW else ()
    return node.arms if type(node) is Select else values.arguments(term)

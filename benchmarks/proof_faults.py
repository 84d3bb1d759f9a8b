"""Faults for kernels that are proved for a class, besides those of :mod:`benchmarks.faults`.

Each takes away what a proof of the class rests on: a barrier that all threads execute, the guard of a store, the one
``setmaxnreg`` of a warp. No rule needs to find them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.faults import Fault, Kernel, Plant
from benchmarks.faults.kernel import constant_of
from tclint.findings.finding import Edit
from tclint.findings.spans import Span
from tclint.findings.verdicts import HazardClass
from tclint.ir.cfg import CFG
from tclint.ir.nodes import Immediate
from tclint.isa.special_registers import WARP

__all__ = ["PROOF_FAULTS"]

_ONE_WARP = (
    "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, %tid.x; setp.lt.u32 %tclint_p, %tclint_r, 32; "
    "@%tclint_p {} }}"
)
_POLL = (
    "{ .reg .pred %tclint_p; .reg .b32 %tclint_r; TCLINT_L: ld.volatile.shared.b32 %tclint_r, [0]; "
    "setp.eq.u32 %tclint_p, %tclint_r, 0; @%tclint_p bra TCLINT_L; } "
)
_AS_OFTEN_AS_ITS_WARP = (
    "{{ .reg .pred %tclint_p; .reg .b32 %tclint_r; mov.u32 %tclint_r, %tid.x; shr.u32 %tclint_r, %tclint_r, 5; TCLINT_L: {} "
    "sub.s32 %tclint_r, %tclint_r, 1; setp.ge.s32 %tclint_p, %tclint_r, 0; @%tclint_p bra TCLINT_L; }}"
)


def _barriers(kernel: Kernel) -> Iterator[int]:
    """The CTA barriers without a result and a guard, in a CTA of several warps."""
    for site in kernel.sites("barrier-sync"):
        instruction = kernel.instructions[site]
        form = instruction.match.form if instruction.match is not None else None
        alone = kernel.function.threads is not None and kernel.function.threads <= WARP
        if form is None or form.scope != "cta" or "destination" in form.roles or alone:
            continue
        if instruction.guard < 0 and kernel.flat(site) is not None:
            yield site


def _accesses(kernel: Kernel) -> frozenset[int]:
    return kernel.where(lambda m: bool(m.form.memory) and m.space.startswith(".shared"))


def _replaced(kernel: Kernel, site: int, text: str) -> Fault:
    return Fault((Edit(kernel.span(site), text),), frozenset((site,)), f"{kernel.text(site)} -> {text}")


def _in_one_warp(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier that one warp alone executes."""
    for site in _barriers(kernel):
        yield _replaced(kernel, site, _ONE_WARP.format(kernel.flat(site)))


def _arrives(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier at which threads arrive and do not wait."""
    for site in _barriers(kernel):
        barrier = kernel.instructions[site].role("id")
        if kernel.function.threads and isinstance(barrier, Immediate):
            yield _replaced(kernel, site, f"bar.arrive {barrier.value}, {kernel.function.threads};")


def _by_number_of_warp(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier that a warp executes once more than the warp before it."""
    for site in _barriers(kernel):
        yield _replaced(kernel, site, _AS_OFTEN_AS_ITS_WARP.format(kernel.flat(site)))


def _after_a_poll(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier, right before it a loop that waits until a word of shared memory changes."""
    for site in _barriers(kernel):
        start = kernel.span(site).start
        yield Fault((Edit(Span(start, start), _POLL),), frozenset((site,)), f"{_POLL}{kernel.text(site)}")


def _moved(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier after the access that follows it, or before the one that precedes it, in its block."""
    accesses, cfg = _accesses(kernel), CFG(kernel.function)
    for site in _barriers(kernel):
        block = cfg.blocks[cfg.block_of[site]]
        later = next((i for i in range(site + 1, block.end) if i in accesses), None)
        edits = kernel.move(site, later) if later is not None else None
        if edits and later is not None:
            yield Fault(edits, frozenset((site,)), f"{kernel.text(site)} after {kernel.text(later)}")
        earlier = next((i for i in range(site - 1, block.start - 1, -1) if i in accesses), None)
        edits = kernel.move_up(site, earlier) if earlier is not None else None
        if edits and earlier is not None:
            yield Fault(edits, frozenset((site,)), f"{kernel.text(site)} before {kernel.text(earlier)}")


def _unguarded(kernel: Kernel) -> Iterator[Fault]:
    """A store to shared memory that all threads execute, and not those alone that its guard selects."""
    for site in sorted(_accesses(kernel)):
        instruction, flat = kernel.instructions[site], kernel.flat(site)
        if instruction.guard >= 0 and instruction.opcode.startswith("st.") and flat is not None:
            yield _replaced(kernel, site, flat.partition(" ")[2])


def _fenced_by_one_warp(kernel: Kernel) -> Iterator[Fault]:
    """A fence of tensor memory that one warp alone executes."""
    for event in ("tcgen05-fence-before", "tcgen05-fence-after"):
        for site in kernel.sites(event):
            if kernel.instructions[site].guard < 0 and (flat := kernel.flat(site)) is not None:
                yield _replaced(kernel, site, _ONE_WARP.format(flat))


def _two_warpgroups(kernel: Kernel) -> Iterator[Fault]:
    """A CTA of two warpgroups, whose warps share lanes of tensor memory in pairs."""
    function, most = kernel.function, kernel.function.most_threads
    for stated in function.stated:
        if stated.name in (".reqntid", ".maxntid") and most is not None and most <= 4 * WARP:
            text = f"{stated.name} {8 * WARP}"
            span = Span(function.start + stated.start, function.start + stated.end)
            yield Fault((Edit(span, text),), frozenset(), text)


def _changes(kernel: Kernel) -> Iterator[tuple[int, str, int, str]]:
    """The setmaxnreg: instruction, text, count, and whether it is an ``.inc`` or a ``.dec``."""
    for site in kernel.sites("setmaxnreg"):
        instruction, flat = kernel.instructions[site], kernel.flat(site)
        count = instruction.role("count")
        if flat is not None and isinstance(count, Immediate) and isinstance(count.value, int):
            yield site, flat, count.value, ".inc" if ".inc" in instruction.opcode else ".dec"


def _deleted(kernel: Kernel) -> Iterator[Fault]:
    """A warpgroup that does not release its registers."""
    for site, flat, _, action in _changes(kernel):
        if action == ".dec":
            yield Fault((kernel.blank(site),), frozenset((site,)), flat)


def _twice(kernel: Kernel) -> Iterator[Fault]:
    """Two setmaxnreg without a barrier between them."""
    for site, flat, _, _ in _changes(kernel):
        yield _replaced(kernel, site, f"{flat} {flat}")


def _by_one_warp(kernel: Kernel) -> Iterator[Fault]:
    """A setmaxnreg that one warp of the CTA alone executes."""
    for site, flat, _, _ in _changes(kernel):
        yield _replaced(kernel, site, _ONE_WARP.format(flat))


def _releases_less(kernel: Kernel) -> Iterator[Fault]:
    """A .dec after which the warpgroup keeps 64 registers more."""
    for site, flat, count, action in _changes(kernel):
        if action == ".dec" and count + 64 <= 256:
            yield _replaced(kernel, site, flat.replace(f" {count};", f" {count + 64};"))


def _odd(kernel: Kernel) -> Iterator[Fault]:
    """A count that is not a multiple of 8."""
    for site, flat, count, _ in _changes(kernel):
        yield _replaced(kernel, site, flat.replace(f" {count};", f" {count + 4};"))


def _arrival(kernel: Kernel) -> Iterator[Fault]:
    """A barrier of all threads at which some warp has arrived before, without waiting."""
    threads = kernel.function.most_threads
    for site in _barriers(kernel):
        barrier, start = kernel.instructions[site].role("id"), kernel.span(site).start
        counted = kernel.instructions[site].role("count") is not None
        if isinstance(barrier, Immediate) and threads and not counted:
            text = _ONE_WARP.format(f"bar.arrive {barrier.value}, {threads};")
            yield Fault((Edit(Span(start, start), f"{text} "),), frozenset((site,)), text)


def _counted(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """The CTA barriers that count threads, with their numbers."""
    for site in kernel.sites("barrier-sync"):
        number = constant_of(kernel.instructions[site], "id")
        if number is not None and constant_of(kernel.instructions[site], "count") is not None:
            yield site, number


def _negated(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier that the other threads execute."""
    for site, _ in _counted(kernel):
        edit = kernel.inverted(site)
        if edit is not None:
            yield Fault((edit,), frozenset((site,)), kernel.text(site))


def _others_as_well(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier that counts some threads, right before it a second one for those that its guard leaves out."""
    for site, _ in _counted(kernel):
        flat, start = kernel.flat(site), kernel.span(site).start
        other = kernel.inverted(site) if flat is not None else None
        if other is not None:
            text = " ".join(other.text.split())
            yield Fault((Edit(Span(start, start), f"{text} "),), frozenset((site,)), text)


def _renumbered(kernel: Kernel) -> Iterator[Fault]:
    """A CTA barrier that counts some threads, with the number of another one."""
    numbers = sorted({0, *(number for _, number in _counted(kernel))})
    for site, number in _counted(kernel):
        for other in numbers:
            edit = kernel.operand(site, "id", str(other)) if other != number else None
            if edit is not None:
                yield Fault((edit,), frozenset((site,)), f"{kernel.text(site)} -> {other}")


def _led_elsewhere(kernel: Kernel) -> Iterator[Fault]:
    """A branch before a CTA barrier that the other threads take."""
    for site in kernel.sites("barrier-sync"):
        branches = (
            i
            for i in range(site)
            if kernel.instructions[i].flow == "branch" and kernel.instructions[i].guard >= 0
        )
        last = max(branches, default=None)
        edit = kernel.inverted(last) if last is not None else None
        if edit is not None and last is not None:
            yield Fault((edit,), frozenset((last, site)), kernel.text(last))


def _before(text: str) -> Plant:
    def plant(kernel: Kernel) -> Iterator[Fault]:
        for site, flat, _, _ in _changes(kernel):
            start = kernel.span(site).start
            yield Fault((Edit(Span(start, start), text),), frozenset((site,)), f"{text} before {flat}")

    return plant


PROOF_FAULTS: Mapping[HazardClass, Mapping[str, Plant]] = {
    HazardClass.CONVERGENCE: {
        "CTA barrier in one warp": _in_one_warp,
        "CTA barrier arrived at": _arrives,
        "guard of a counted barrier negated": _negated,
        "counted barrier of the other threads": _others_as_well,
        "counted barrier of another number": _renumbered,
        "branch before a barrier negated": _led_elsewhere,
    },
    HazardClass.DEADLOCK: {
        "CTA barrier in one warp": _in_one_warp,
        "CTA barrier arrived at": _arrives,
        "CTA barrier as often as the number of the warp": _by_number_of_warp,
        "CTA barrier after a poll": _after_a_poll,
        "guard of a counted barrier negated": _negated,
        "counted barrier of the other threads": _others_as_well,
        "counted barrier of another number": _renumbered,
        "branch before a barrier negated": _led_elsewhere,
    },
    HazardClass.SHARED_MEMORY: {
        "CTA barrier in one warp": _in_one_warp,
        "CTA barrier arrived at": _arrives,
        "CTA barrier past the next access": _moved,
        "store to shared memory unguarded": _unguarded,
    },
    HazardClass.TENSOR_MEMORY: {
        "CTA barrier in one warp": _in_one_warp,
        "CTA barrier arrived at": _arrives,
        "tcgen05.fence in one warp": _fenced_by_one_warp,
        "two warpgroups": _two_warpgroups,
    },
    HazardClass.REGISTER_POOL: {
        "setmaxnreg.dec deleted": _deleted,
        "setmaxnreg twice": _twice,
        "setmaxnreg in one warp": _by_one_warp,
        "setmaxnreg releases less": _releases_less,
        "setmaxnreg of an odd count": _odd,
        "poll before setmaxnreg": _before(_POLL),
        "barrier before setmaxnreg": _before("bar.sync 0; "),
        "arrival before a barrier": _arrival,
    },
}
"""Class -> the faults that are about it, by name."""

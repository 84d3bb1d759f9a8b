"""Check of operands with an encoding: the metadata of sparse matrices (PTX ISA 9.7.14.6.1, 9.7.15.6.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tclint.checks import Hit, RuleId, check
from tclint.checks._operand_faults import OperandFault, merged
from tclint.dataflow.kernel import Kernel
from tclint.isa.forms import Match
from tclint.values.descriptors import Field

MO002 = RuleId("MO002")

_ORDERED = frozenset((0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110))
_DIFFERENT = frozenset(range(16)) - {0b0000, 0b0101, 0b1010, 0b1111}
"""Groups with two different indices: if both select the same element, the second stored element has no position."""
_ONE_OF_TWO = frozenset((0b0100, 0b1110))


def _meaningful(match: Match) -> frozenset[int]:
    """The legal values of a group of four bits, which selects the stored elements of A."""
    if match.modes.of_tf32:
        return _ONE_OF_TWO
    return _ORDERED if match.modes.ordered_metadata else _DIFFERENT


@check(MO002)
def sparse_metadata(model: Kernel) -> Iterator[Hit]:
    """Metadata of a sparse A with a group of four bits whose known bits admit no legal value."""
    faults: list[OperandFault] = []
    for use in model.function.uses:
        if use.match is None or "metadata" not in use.match.form.roles:
            continue
        meaningful = _meaningful(use.match)
        groups = [Field("group", low, 4, meaningful) for low in range(0, 32, 4)]
        legal = "two different indices" if meaningful is _DIFFERENT else _binary(meaningful)
        for site in use.sites:
            operand = model.instruction(site).role("metadata")
            bits = model.values.known_bits(model.values.operand(operand, site))
            wrong = next((group for group in groups if group.wrong(bits)), None)
            if wrong is not None:
                number = wrong.read(bits)
                message = (
                    f"the sparsity metadata has {'no legal value' if number is None else f'{number:04b}'} "
                    f"in {wrong.where()}, which must select the stored elements: {legal}"
                )
                faults.append(OperandFault(MO002, site, operand, message, _REMEDY))
    yield from merged(model, faults)


def _binary(groups: frozenset[int]) -> str:
    *first, last = (f"{group:04b}" for group in sorted(groups))
    return f"{', '.join(first)} or {last}"


_REMEDY = (
    "use the metadata produced when A was compressed; 0x44444444 selects the first elements of every group"
)

"""Values that are the same in all warps, although they differ between the lanes of a warp, or may (PTX ISA 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from tclint.dataflow.kernel import Kernel
from tclint.ir.cfg import Edge
from tclint.isa.effects import Barrier
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.nodes import (
    COMPUTED,
    AddressOf,
    Allocated,
    Broadcast,
    CollectiveResult,
    Constant,
    Elected,
    FloatConstant,
    Loaded,
    ParameterRead,
    Phi,
    SpecialRead,
    Unmodelled,
    UnsignedReading,
    VectorOf,
)

__all__ = ["SameInWarps"]

_COMPUTED = COMPUTED | {VectorOf, Broadcast, Elected, UnsignedReading}
"""The kinds of expressions that are the same in all warps if their operands are."""
_GIVEN = frozenset((Constant, AddressOf, ParameterRead, FloatConstant, Allocated))
"""The kinds of expressions that have one value in the whole CTA."""


class SameInWarps:
    """Which values are the same in a lane of one warp as in that lane of any other."""

    def __init__(self, model: Kernel) -> None:
        self.model = model
        self._known: dict[int, bool] = {}

    def holds(self, value: int) -> bool:
        """Whether nothing that *value* is computed from distinguishes warps."""
        values, asked = self.model.values, value
        work, seen = [value], set[int]()
        while work:
            value = values.representative(work.pop())
            if value in seen or self._known.get(value, False):
                continue
            seen.add(value)
            operands = None if value in self._known else self.operands(value)
            if operands is None:
                self._known[value] = self._known[values.representative(asked)] = False
                return False
            work += operands
        self._known.update(dict.fromkeys(seen, True))
        return True

    def operands(self, value: int) -> Sequence[int] | None:
        """What has to be the same for *value* to be so; None if it distinguishes warps, or may."""
        values = self.model.values
        node = values.node(value)
        if type(node) in _GIVEN or values.uniformity(value) is UniformityScope.CTA:
            return []
        planes = values.bit_slices(value)
        if planes is not None:
            return [] if all(plane == _repeated(plane, values.threads) for plane in planes) else None
        if type(node) is SpecialRead:
            return None if SPECIAL_REGISTERS[node.name].distinguishes_threads else []
        if type(node) in _COMPUTED:
            return node.operands
        if type(node) is Loaded:
            return self.loaded(node.space, node.address)
        if type(node) is Phi:
            return self._merged(value, node.block)
        return self._result(node.site) if isinstance(node, Unmodelled | CollectiveResult) else None

    def loaded(self, space: str, address: int) -> list[int] | None:
        """What has to be the same for a load from *space* to be so; None if that does not suffice.

        It is the address, if the memory is not that of the thread.
        """
        private = not space or space.startswith(".local")
        return None if private else [] if space == ".param" else [address]

    def decides(self, block: int, edge: Edge) -> bool:
        """Whether a branch, of which *edge* leads to *block*, may lead some warps there and others not."""
        return True

    def _merged(self, phi: int, block: int) -> list[int] | None:
        """A phi is the same if its arguments are, and the branches that select one of them."""
        arguments = self.model.values.arguments(phi)
        if not arguments:
            return None
        edges = (edge for edge in self.model.cfg.selecting(block) if self.decides(block, edge))
        predicates = map(self.model.reachability.edge_predicate, edges)
        return [*arguments, *(p for p in predicates if p is not None)]

    def _result(self, site: int) -> list[int] | None:
        """The result of an instruction is the same if it depends on the operands of the thread, or of its warp, alone."""
        instruction, values = self.model.instruction(site), self.model.values
        match = instruction.match
        if match is None or match.problem or instruction.guard >= 0:
            return None
        if match.form.effects.awaits is Barrier.MBARRIER:
            return []  # it is repeated until it succeeds
        if match.form.memory or not (match.form.from_operands or match.form.effects.exchanges):
            return None
        return [values.before(register, site) for register in instruction.reads]


def _repeated(plane: int, threads: int) -> int:
    """The lanes of the first warp in *plane*, in each of so many *threads*."""
    return (plane & T.full(32)) * T.lane_zero(threads)

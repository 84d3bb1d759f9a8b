"""An exact interpreter of scalar code, with which answers about values are tried before a proof is shown.

It knows nothing of :mod:`tclint.values`, and an import contract holds that: what an instruction computes is
:mod:`tclint.isa.semantics`, and what reaches an instruction follows from the edges of the control-flow graph. Nothing is
simplified, no value has a symbolic form, and each has the width of its register. What a launch decides (parameters, memory,
the position of the CTA) are numbers of a :class:`World`: edge values, the same whenever they are asked for.

    scalar      what one instruction computes from its operands
    worlds      the shapes of a CTA, and the numbers of a launch
    threads     a register in every thread of a CTA, along one path of the graph
    undefined   which bits of a result are undefined if bits of the operands are
    runs        one thread from the entry, along the path that its predicates select

A wrong answer that no world contradicts is not found: this refutes, and proves nothing. Imports ``ir`` and ``isa``.

Change this package to evaluate an instruction that it leaves open.
"""

from tclint.exact.runs import PathClaim, Runs
from tclint.exact.threads import TooDeep, Vectors
from tclint.exact.worlds import World, shapes, worlds

__all__ = ["PathClaim", "Runs", "TooDeep", "Vectors", "World", "shapes", "worlds"]

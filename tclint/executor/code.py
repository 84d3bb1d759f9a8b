"""A kernel decoded for one launch: a function for each instruction, and what the machine must know beside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tclint.executor.memory import Array
from tclint.executor.special import special
from tclint.executor.state import Warp
from tclint.ir.nodes import Function

__all__ = ["Code", "Op"]

Op = Callable[[Warp], "int | None"]
"""Executes an instruction for the lanes ``warp.mask``: None to go on with the next one, the number of another
instruction, or one of the signals of :mod:`tclint.executor.signals`."""


class Code:
    """A kernel, decoded for one launch."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.ops: list[Op] = []
        self.touches: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Registers that an instruction reads and writes now; not those of an asynchronous operation."""
        self.unfenced: dict[int, dict[int, int]] = {}
        """Instructions that write operands of ``wgmma``: these registers, with the instruction."""
        self.template: list[Array] = []
        self.specials: list[tuple[int, str]] = []
        self.shared_size = 0
        self.local_size = 0
        self.parameters: Array = np.zeros(0, np.uint8)
        self.place: Callable[[int], str] = str
        self.symbols: dict[str, int] = {}
        self.reached: set[int] = set()
        """Of the instructions that are watched, those that some lane executed."""

    def registers(self, warp: Warp) -> list[Array]:
        """The registers of a new warp: zeros, constants and special registers."""
        found = list(self.template)
        for at, name in self.specials:
            found[at] = special(warp, name)
        return found

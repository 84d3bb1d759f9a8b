"""The bytes of shared memory that ``wgmma`` and ``tcgen05`` operations read through descriptors, at most, and those that
other instructions access.

The canonical layouts of 9.7.15.5.1.2 and 9.7.16.10.7 consist of atoms of 8 lines. The strides of the descriptor lead from
atom to atom, and swizzling permutes chunks within a line of the pattern, which begins at a multiple of its width. So a
matrix is within the atoms that its descriptor spans. Where the start of a swizzled matrix is in a line follows from its
address if the variable is aligned as the pattern is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from tclint.analyses.bulk_rings import SWIZZLE_SPANS
from tclint.analyses.mbarriers import largest_expected
from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption
from tclint.ir.nodes import Immediate, Instruction
from tclint.isa.accesses import Access, Via
from tclint.isa.effects import WGMMA, Resource
from tclint.isa.forms import Match
from tclint.values.addresses import MemoryRange
from tclint.values.descriptors import INSTRUCTION, SHARED, DescriptorForm, shape

__all__ = ["Matrices", "ranges"]

_LINES = 8
_K_BYTES = 32
"""The bytes of a row along K that one dense multiplication reads (9.7.15.5.2, 9.7.16.2.1)."""
_TARGETS = frozenset((100, 101, 103, 110))
"""The targets on which rows along K of ``tcgen05.mma`` have that many bytes for certain."""
_HALF = 2
"""The bytes of an element of a matrix that ``wgmma`` may transpose."""
_ATOMS_32 = 1
"""The swizzling mode of atoms with half as many lines, for MN-major matrices of ``tcgen05`` alone."""
_ELEMENT = {".kind::f16": 2, ".kind::tf32": 4, ".kind::f8f6f4": 1, ".kind::i8": 1, ".kind::mxf8f6f4": 1}
"""The bytes of an element in shared memory; a kind that is missing has none of whole bytes."""
_COPIED = {".128x256b": (128, 32), ".4x256b": (4, 32), ".128x128b": (128, 16), ".64x128b": (64, 16), ".32x128b": (32, 16)}  # fmt: skip
"""The rows that a copy reads, and the bytes of each."""


def ranges(model: KernelModel, site: int, accesses: Iterable[Access]) -> list[MemoryRange] | None:
    """The bytes of *accesses* of an instruction; None if there is none, or those of one are not known exactly."""
    found = list[MemoryRange]()
    for access in accesses:
        operand = model.instruction(site).named(access.operand)
        size = model.shared.extent(site, access.extent)
        if operand is None or size is None:
            return None
        found.append((model.values.operand(operand, site), size))
    return found or None


class Matrices:
    """What operations read and other instructions write in one kernel, each answer with what it rests on."""

    def __init__(self, model: KernelModel) -> None:
        self.model, self.values = model, model.values
        self._read: dict[int, tuple[list[MemoryRange], frozenset[Assumption]] | None] = {}

    @property
    def documented(self) -> bool:
        """Whether the target is one on which rows along K have 32 bytes, and A in tensor memory 8 columns."""
        target = self.model.function.target
        return target is not None and target.number in _TARGETS

    # ------------------------------------------------------------ reads

    def read(self, operation: int) -> tuple[list[MemoryRange], frozenset[Assumption]] | None:
        """The ranges within which an operation reads shared memory, and what that rests on; None if one is unknown."""
        if operation not in self._read:
            instruction = self.model.instruction(operation)
            found = [self._matrix(operation, name, *of) for name, of in self._shapes(instruction, operation)]
            known = [each for each in found if each is not None]
            self._read[operation] = (
                ([r for r, _ in known], frozenset[Assumption]().union(*(a for _, a in known)))
                if known and len(known) == len(found)
                else None
            )
        return self._read[operation]

    def _shapes(
        self, instruction: Instruction, site: int
    ) -> Iterator[tuple[str, tuple[int, int, bool, int]]]:
        """The descriptors of an operation, each with rows, bytes along K, whether it is MN-major, and bytes of an element;
        the rows are 0 if they are unknown."""
        match = instruction.match
        assert match is not None
        names = [a.operand for a in match.accesses if a.via is Via.DESCRIPTOR]
        if match.form.group == WGMMA:
            yield from (
                (n, self._of_wgmma(match, site, n)) for n in names if instruction.named(n) is not None
            )
            return
        if match.binding.get("cta_group") != ".cta_group::1" or not self.documented:
            yield from ((name, (0, 0, False, 0)) for name in names)
            return
        if "kind" not in match.binding:
            rows, width = _COPIED.get(match.binding.get("shape", ""), (0, 0))
            whole = rows if "src_fmt" not in match.binding else 0
            yield from ((name, (whole, width, False, 1)) for name in names)
            return
        for name in names:
            yield name, self._operand(match, site, name)

    def _of_wgmma(self, match: Match, site: int, name: str) -> tuple[int, int, bool, int]:
        letter = name[0]
        flag = self.model.instruction(site).named(f"imm-trans-{letter}")
        if not match.shape or match.modes.sparse or not (flag is None or isinstance(flag, Immediate)):
            return 0, 0, False, 0
        rows = match.shape[0 if letter == "a" else 1]
        return rows, _K_BYTES, isinstance(flag, Immediate) and flag.value != 0, _HALF

    def _operand(self, match: Match, site: int, name: str) -> tuple[int, int, bool, int]:
        form, idesc = DescriptorForm.of(match), self.model.value(site, "idesc")
        letter = name[0].upper()
        field = INSTRUCTION[form.kind].get(f"transposition of {letter}")
        if (
            idesc is None
            or field is None
            or form.sparse
            or form.weights
            or match.form.name.startswith("tcgen05.mma.ws")
        ):
            return 0, 0, False, 0
        bits = self.values.known_bits(idesc)
        found, transposed = shape(form, bits), field.read(bits)
        size = _ELEMENT.get(form.kind, 0)
        if found is None or transposed is None or (transposed and not size) or match.modes.decompresses:
            return 0, 0, False, 0
        return (found.m if letter == "A" else found.n), _K_BYTES, bool(transposed), size or 1

    def _matrix(
        self, site: int, name: str, rows: int, along_k: int, mn_major: bool, size: int
    ) -> tuple[MemoryRange, frozenset[Assumption]] | None:
        """The range of one matrix; None if its descriptor is not known."""
        operand = self.model.instruction(site).named(name)
        if operand is None or not rows:
            return None
        descriptor = self.values.operand(operand, site)
        bits = self.values.known_bits(descriptor)
        names = (
            "leading dimension",
            "stride dimension",
            "swizzling mode",
            "leading dimension mode",
            "base offset",
        )
        leading, stride, mode, absolute, base = (SHARED[n].read(bits) for n in names)
        if leading is None or stride is None or mode not in SWIZZLE_SPANS or absolute != 0 or base != 0:
            return None
        if mode == _ATOMS_32 and (not mn_major or self.model.instruction(site).group == WGMMA):
            return None
        width, lines = SWIZZLE_SPANS[mode], _LINES // 2 if mode == _ATOMS_32 else _LINES
        along, across = (rows * size, along_k // size) if mn_major else (along_k, rows)
        if mn_major and mode == 0:
            leading, stride = stride, leading
        atoms, groups = -(-along // width), -(-across // lines)
        steps = (atoms - 1) * leading, (groups - 1) * stride
        span = sum(steps) + lines * width
        start = self.model.shared.start(descriptor)
        if mode == 0:
            return (start, span), frozenset()
        inside = self._inside(start, width)
        if inside is None or inside + min(along, width) > width or any(step % width for step in steps):
            return None  # what is swizzled together would be of two lines
        return (self.values.add(start, self.values.constant(-inside)), span), frozenset((Assumption.ALIGNED,))

    def _inside(self, start: int, width: int) -> int | None:
        """How far an address is in a line of *width* bytes, if variables begin with one."""
        terms, constant = self.values.linear(start)
        for term, factor in terms:
            if factor == 1 and self.values.variable(term) is not None:
                continue
            zeros, ones = self.values.known_bits(self.values.times(term, factor))
            if ~(zeros | ones) & (width - 1):
                return None
            constant += ones & (width - 1)
        return constant % width

    # ------------------------------------------------------------ writes

    def written(self, site: int) -> tuple[list[MemoryRange], frozenset[Assumption]] | None:
        """The bytes of shared memory that an instruction writes, and what that rests on; None if they are unknown."""
        instruction, model = self.model.instruction(site), self.model
        makes = instruction.effects.resource is Resource.MBARRIER_INIT
        writes = [a for a in instruction.accesses if a.writes and a.shared and (makes or not a.object)]
        if any(a.later and not a.extent for a in writes):  # a box
            address, size = model.value(site, "destination"), self._expected
            known = address is not None and size is not None
            return ([(address, size)], frozenset((Assumption.EXPECTED,))) if known else None  # type: ignore[list-item]
        found = ranges(model, site, writes)
        return None if found is None else (found, frozenset())

    @cached_property
    def _expected(self) -> int | None:
        return largest_expected(self.model)

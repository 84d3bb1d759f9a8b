"""Does `tclint run --count` say how long accesses to shared memory take? Measured by the clock of a GPU.

    python -m benchmarks.wavefronts prepare FOLDER
    python3 FOLDER/launcher.py                      # on a machine with an H100 or H200

Each case is an instruction and the offset in shared memory that it accesses in each lane. The kernel of an instruction
executes it in 16 warps of one CTA, so that shared memory is what they wait for, and reads the clock before and after:
cycles for one instruction are then its wavefronts, as far as it takes longer than it takes to issue it. *prepare*
compiles the kernels and counts the wavefronts of each case; the launcher prints these beside what it measures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import ptxas
from benchmarks.gpu import stand_alone
from benchmarks.hardware import assemble
from tclint.executor.costs import Count
from tclint.executor.launch import Launch
from tclint.executor.run import Argument, Policy, call
from tclint.syntax.source import Source

__all__ = ["APART", "CASES", "EMPTY", "INSTRUCTIONS", "OFF", "Case", "counted", "entry", "kernels", "prepare"]

OFF = 0xFFFFFFFF
"""In place of the offset of a lane that does not execute the instruction."""
THREADS = 512
UNROLLED = 16
"""Instructions in one iteration, at different addresses with the same banks."""
APART = 8192
"""Between two of these addresses; no case accesses as many bytes."""


class Instruction(NamedTuple):
    """An instruction that is measured; ``{a}`` is its address, ``{d0}`` and so on are registers of its own."""

    text: str
    loads: int = 0
    """The number of its destination registers."""


INSTRUCTIONS = {
    "ld32": Instruction("ld.shared.u32 {d0}, [{a}];", 1),
    "ld64": Instruction("ld.shared.v2.u32 {{{d0}, {d1}}}, [{a}];", 2),
    "ld128": Instruction("ld.shared.v4.u32 {{{d0}, {d1}, {d2}, {d3}}}, [{a}];", 4),
    "st32": Instruction("st.shared.u32 [{a}], %lane;"),
    "st64": Instruction("st.shared.v2.u32 [{a}], {{%lane, %lane}};"),
    "st128": Instruction("st.shared.v4.u32 [{a}], {{%lane, %lane, %lane, %lane}};"),
    "ldmatrix.x1": Instruction("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{{d0}}}, [{a}];", 1),
    "ldmatrix.x4": Instruction(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{d0}, {d1}, {d2}, {d3}}}, [{a}];", 4
    ),
    "ldmatrix.x4.trans": Instruction(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{d0}, {d1}, {d2}, {d3}}}, [{a}];", 4
    ),
    "stmatrix.x4": Instruction(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{a}], {{%lane, %lane, %lane, %lane}};"
    ),
    "atom.add": Instruction("atom.shared.add.u32 {d0}, [{a}], %lane;", 1),
    "red.add": Instruction("red.shared.add.u32 [{a}], %lane;"),
    "atom.exch": Instruction("atom.shared.exch.b32 {d0}, [{a}], %lane;", 1),
}


class Case(NamedTuple):
    """An instruction with the offset of each lane."""

    instruction: str
    what: str
    offsets: tuple[int, ...]
    known: int
    """The wavefronts that it takes by what is known of the hardware."""

    @property
    def name(self) -> str:
        return f"{self.instruction}, {self.what}"


def _case(instruction: str, what: str, known: int, offset: Callable[[int], int]) -> Case:
    return Case(instruction, what, tuple(offset(lane) for lane in range(32)), known)


def _strided(instruction: str, **known: int) -> Iterator[Case]:
    for words, number in known.items():
        stride = int(words.strip("w"))
        yield _case(instruction, f"stride of {stride} words", number, lambda lane, by=stride: lane * by * 4)  # type: ignore[misc]


def _wide(instruction: str, size: int, pairs: int, apart: int, halves: int) -> Iterator[Case]:
    """Cases in which lanes access the same bytes; *size* is that of an access."""
    yield _case(instruction, "neighbours at one address", pairs, lambda lane: lane // 2 * size)
    yield _case(
        instruction, "lanes n and n + 2 at one address", pairs, lambda lane: (lane // 4 * 2 + lane % 2) * size
    )
    yield _case(
        instruction, "lanes n and n + 4 at one address", apart, lambda lane: (lane // 8 * 4 + lane % 4) * size
    )
    yield _case(instruction, "both halves at one address", halves, lambda lane: lane % 16 * size)


def _matrices(instruction: str, matrices: int) -> Iterator[Case]:
    for what, number, offset in (
        ("rows of 16 bytes", 1, lambda lane: lane * 16),
        ("rows of 32 bytes", 2, lambda lane: lane * 32),
        ("rows of 64 bytes", 4, lambda lane: lane * 64),
        ("rows of 128 bytes", 8, lambda lane: lane * 128),
        ("rows of 144 bytes", 1, lambda lane: lane * 144),
        ("rows of 128 bytes, swizzled", 1, lambda lane: lane * 128 + lane % 8 * 16),
        ("rows of 64 bytes, swizzled", 1, lambda lane: lane * 64 + lane // 2 % 4 * 16),
        ("one row", 1, lambda lane: 0),
    ):
        yield _case(instruction, what, number * matrices, offset)


CASES = (
    *_strided("ld32", w1=1, w2=2, w3=1, w4=4, w8=8, w16=16, w32=32, w33=1, w0=1),
    _case("ld32", "two words of each bank, each read by two lanes", 1, lambda lane: lane // 2 * 4),
    _case("ld32", "half of the lanes, stride of 2 words", 1, lambda lane: OFF if lane & 1 else lane * 4),
    *_strided("ld64", w2=2, w4=4, w8=8, w16=16, w32=32, w34=2, w0=1),
    *_wide("ld64", 8, pairs=1, apart=2, halves=2),
    _case("ld64", "even lanes only", 1, lambda lane: OFF if lane & 1 else lane * 4),
    _case("ld64", "the first 16 lanes only", 1, lambda lane: OFF if lane > 15 else lane * 8),
    *_strided("ld128", w4=4, w8=8, w16=16, w32=32, w36=4, w0=2),
    *_wide("ld128", 16, pairs=2, apart=4, halves=4),
    _case("ld128", "neighbours at one address in the first half", 4, lambda lane: (lane // 2 if lane < 16 else lane) * 16),
    *_strided("st32", w1=1, w2=2, w32=32, w33=1, w0=1),
    *_strided("st64", w2=2, w4=4, w32=32),
    *_strided("st128", w4=4, w8=8, w36=4),
    *_wide("st128", 16, pairs=4, apart=4, halves=4),
    *_matrices("ldmatrix.x1", 1),
    *_matrices("ldmatrix.x4", 4),
    _case("ldmatrix.x4.trans", "rows of 128 bytes", 32, lambda lane: lane * 128),
    _case("ldmatrix.x4.trans", "rows of 144 bytes", 4, lambda lane: lane * 144),
    *_matrices("stmatrix.x4", 4),
    *_strided("atom.add", w1=1, w2=2, w32=32, w0=32),
    *_strided("red.add", w1=1, w32=32, w0=32),
    *_strided("atom.exch", w1=1, w2=2, w32=32, w0=32),
)  # fmt: skip


def _body(instruction: Instruction) -> Iterator[str]:
    for n in range(UNROLLED):
        names = {f"d{k}": f"%d{n * 4 + k}" for k in range(4)}
        yield "    @%on " + instruction.text.format(a=f"%a{n // 4}+{n % 4 * APART}", **names)
    for n in range(UNROLLED):
        for k in range(instruction.loads):
            yield f"    xor.b32 %sum, %sum, %d{n * 4 + k};"


def _kernel(name: str, instruction: Instruction) -> str:
    text = "\n".join(_body(instruction))
    if ".aligned" in text:
        text = text.replace("@%on ", "")
    return _KERNEL.replace("NAME", entry(name)).replace("BODY", text)


_KERNEL = f"""
.visible .entry NAME(.param .u64 offsets, .param .u64 out, .param .u32 iterations, .param .u32 step)
.reqntid {THREADS}
{{
    .reg .pred %on, %more;
    .reg .b32 %lane, %index, %off, %sum, %left, %step, %a<4>, %d<64>;
    .reg .b64 %at, %out, %begin, %end;
    .shared .align 1024 .b8 smem[{4 * APART}];

    ld.param.u64 %at, [offsets];
    ld.param.u64 %out, [out];
    ld.param.u32 %left, [iterations];
    ld.param.u32 %step, [step];
    cvta.to.global.u64 %at, %at;
    cvta.to.global.u64 %out, %out;
    mov.u32 %index, %tid.x;
    and.b32 %lane, %index, 31;
    mad.wide.u32 %at, %lane, 4, %at;
    ld.global.u32 %off, [%at];
    setp.ne.u32 %on, %off, {OFF};
    selp.b32 %off, %off, 0, %on;
    mov.u32 %a0, smem;
    add.u32 %a0, %a0, %off;
    mov.u32 %sum, 0;
    bar.sync 0;
    mov.u64 %begin, %clock64;
again:
    add.u32 %a1, %a0, %step;
    add.u32 %a2, %a1, %step;
    add.u32 %a3, %a2, %step;
BODY
    add.u32 %a0, %a3, %step;
    sub.u32 %left, %left, 1;
    setp.ne.u32 %more, %left, 0;
    @%more bra again;
    bar.sync 0;
    mov.u64 %end, %clock64;
    cvt.u64.u32 %at, %sum;
    mad.wide.u32 %out, %index, 24, %out;
    st.global.u64 [%out], %begin;
    st.global.u64 [%out+8], %end;
    st.global.u64 [%out+16], %at;
    ret;
}}
"""


EMPTY = Instruction("add.u32 {d0}, %index, 1;", 1)
"""In place of an instruction that is measured: it is not in the machine code, so that the loop alone is."""


def kernels(wanted: Mapping[str, Instruction]) -> str:
    """A module with a kernel for each of the *wanted* instructions, by their names."""
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n"
    return head + "".join(_kernel(name, instruction) for name, instruction in wanted.items())


def counted(case: Case) -> Count:
    """What tclint counts for one execution of the instruction of *case* by one warp."""
    instruction = INSTRUCTIONS[case.instruction]
    source = Source(kernels({case.instruction: instruction}).encode(), "wavefronts.ptx")
    launch = Launch(entry(case.instruction), (1, 1, 1), (THREADS, 1, 1))
    given: list[Argument] = [
        np.array(case.offsets, np.uint32),
        np.zeros(THREADS * 3, np.uint64),
        np.uint32(1),
        np.uint32(0),
    ]
    done = call(source, launch, given, Policy(counts=True))
    opcode, found = instruction.text.split()[0], Count()
    for site, count in done.counts.items():
        if done.function.instructions[site].opcode == opcode:
            found.add(count)
    assert found.executions == UNROLLED * THREADS // 32, done.reason
    return Count(1, found.wavefronts // found.executions, found.ideal_wavefronts // found.executions)


def entry(name: str) -> str:
    """The name of the kernel of an instruction."""
    return name.replace(".", "_")


def prepare(folder: Path) -> list[dict[str, Any]]:
    """Write all that the launcher needs; what it will measure. Raises :class:`~benchmarks.ptxas.PtxasMissing`."""
    cubin, wrong = assemble(ptxas.find(), kernels({**INSTRUCTIONS, "empty": EMPTY}).encode())
    if not cubin:
        raise RuntimeError(wrong)
    cases = [
        {
            "name": case.name, "entry": entry(case.instruction), "offsets": case.offsets, "known": case.known,
            "counted": counted(case).wavefronts,
        }
        for case in CASES
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    stand_alone(folder, Path(__file__).parent / "launcher.py")
    (folder / "kernels.cubin").write_bytes(cubin)
    setup = {"cases": cases, "threads": THREADS, "unrolled": UNROLLED}
    (folder / "cases.json").write_text(json.dumps(setup, indent=1), encoding="utf-8")
    return cases

"""Kernels with collective instructions, and what is proved of their convergence."""

from __future__ import annotations

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption, HazardClass, Verdict
from tclint.verdicts import verdicts
from tests.tools.support import kernel, last_kernel

ALL = frozenset(Assumption)
START = """ld.param.u32 %r9, [number];
ld.param.u64 %rd1, [pointer];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
shr.u32 %r3, %r1, 7;
and.b32 %r4, %r1, 31;
mov.u32 %r8, %ctaid.x;"""
MMA = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r20, %r21}, {%r22}, {%r23}, {%r20, %r21};"
BARRIER = "bar.sync 0;"
FENCE = "wgmma.fence.sync.aligned;"
VOTE = "vote.sync.any.pred %p9, %p8, -1;"
TABLE = "t: .branchtargets a, b;"
SPIN = """spin:
mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r30], 0;
@!%p5 bra spin;"""
ARRIVE = "barrier.cluster.arrive.aligned;"
WAIT = "barrier.cluster.wait.aligned;"
SIZE = ".reqntid 256"
PARAMETERS = ".param .u64 pointer, .param .u32 number, .param .u64 other, .param .align 8 .b8 pair[16]"
CONSTANTS = ".const .b32 constants[4];"
EXITS = ".func leaves()\n{\n.reg .pred %p;\n.reg .b32 %r;\nmov.u32 %r, %laneid;\nsetp.eq.s32 %p, %r, 0;\n@%p exit;\nret;\n}"
RETURNS = (
    ".func (.param .b32 out) lane()\n{\n.reg .b32 %r;\nmov.u32 %r, %laneid;\nst.param.b32 [out], %r;\nret;\n}"
)
CALLED = (
    "{\n.param .b32 result;\ncall (result), lane;\nld.param.b32 %r11, [result];\n}\nsetp.eq.s32 %p1, %r11, 0;"
)
"""A predicate of what a function that is not inlined returns."""


def model_of(body: str, size: str = SIZE) -> KernelModel:
    made = kernel(f"{START}\n{body}\nret;", parameters=PARAMETERS, directives=size)
    return last_kernel(CONSTANTS, EXITS, RETURNS, made)


def convergence(body: str, assume: frozenset[Assumption] = ALL, size: str = SIZE) -> Verdict:
    (found,) = verdicts(model_of(body, size), assume=assume, only=[HazardClass.CONVERGENCE])
    return found


def branch(condition: str, body: str) -> str:
    """*body*, executed unless *condition* holds."""
    return f"{condition}\n@%p1 bra over;\n{body}\nover:"


def loop(bound: str, body: str, step: str = "1") -> str:
    """A loop around *body* that leaves at its header."""
    return f"mov.b32 %r10, 0;\ntop:\nsetp.ge.s32 %p1, %r10, {bound};\n@%p1 bra done;\n{body}\nadd.s32 %r10, %r10, {step};\nbra top;\ndone:"  # fmt: skip


DATA = "ld.volatile.global.b32 %r11, [%rd1];"
"""A word of memory that others may write at any time."""
INPUT = "ld.global.b32 %r11, [%rd1];"
"""A word of memory that nothing in the kernel writes."""
PARAMETER = "setp.eq.s32 %p1, %r9, 0;"
WARP = "setp.ne.s32 %p1, %r2, 1;"
WARPGROUP = "setp.ne.s32 %p1, %r3, 1;"
LANE = "setp.eq.s32 %p1, %r4, 0;"
BLOCK = "setp.eq.s32 %p1, %r8, 0;"
LOADED = f"{DATA}\nsetp.eq.s32 %p1, %r11, 0;"
VOTED = f"{DATA}\nsetp.eq.s32 %p8, %r11, 0;\nvote.sync.any.pred %p1, %p8, -1;"
SHUFFLED = f"{DATA}\nshfl.sync.idx.b32 %r12, %r11, 0, 31, -1;\nsetp.eq.s32 %p1, %r12, 0;"
ELECTED = "elect.sync _|%p1, -1;"

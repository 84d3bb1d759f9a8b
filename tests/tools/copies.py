"""Kernels with cp.async, and what is proved of them."""

from __future__ import annotations

from tclint.findings.verdicts import Assumption, HazardClass, Verdict
from tclint.verdicts import verdicts
from tests.tools.support import HOPPER, analysed, kernel, module

SHARED = ".extern .shared .align 128 .b8 smem[];\n.shared .align 128 .b8 other[128];"
START = """ld.param.u64 %rd1, [pointer];
ld.param.u32 %r9, [number];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 4;
mov.u32 %r3, smem;
add.s32 %r4, %r3, %r2;"""
COMMIT = "cp.async.commit_group;"


def copy(address: str) -> str:
    return f"cp.async.cg.shared.global [{address}], [%rd1], 16;"


def read(address: str) -> str:
    return f"ld.shared.v4.u32 {{%r50, %r51, %r52, %r53}}, [{address}];"


def wait(depth: int = 0) -> str:
    return f"cp.async.wait_group {depth};"


def copies(body: str, assume: frozenset[Assumption] = frozenset(Assumption), header: str = HOPPER) -> Verdict:
    text = module(SHARED, kernel(f"{START}\n{body}\nret;"), header=header)
    (found,) = verdicts(analysed(text), assume=assume, only=[HazardClass.CP_ASYNC])
    return found


def ring(
    stages: int = 4, depth: int = 2, ahead: int = 3, wrap: int = 4, size: int = 2048, use: str = ""
) -> str:
    """A pipelined loop over a ring of *stages*, of which *ahead* are copied before it is entered.

    In iteration k, the thread waits for all groups but *depth*, reads stage k, and copies stage k + *ahead*; the counters
    return to 0 at *wrap*.
    """
    first = "\n".join(f"{copy(f'%r4+{stage * size}')}\n{COMMIT}" for stage in range(ahead))
    return f"""{first}
mov.b32 %r10, 0;
mov.b32 %r11, -1;
mov.b32 %r12, {ahead - 1};
top:
add.s32 %r13, %r11, 1;
setp.gt.s32 %p1, %r13, {wrap - 1};
selp.b32 %r11, 0, %r13, %p1;
{wait(depth)}
bar.sync 0;
mul.lo.s32 %r14, %r11, {size};
add.s32 %r15, %r4, %r14;
{use or read("%r15")}
bar.sync 0;
add.s32 %r16, %r12, 1;
setp.gt.s32 %p2, %r16, {wrap - 1};
selp.b32 %r12, 0, %r16, %p2;
mul.lo.s32 %r17, %r12, {size};
add.s32 %r18, %r4, %r17;
{copy("%r18")}
{COMMIT}
add.s32 %r10, %r10, 1;
setp.lt.s32 %p3, %r10, %r9;
@%p3 bra top;
{wait()}"""

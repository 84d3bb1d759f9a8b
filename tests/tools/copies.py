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

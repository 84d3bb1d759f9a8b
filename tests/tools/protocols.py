"""What is proved of the phases of mbarriers in kernels of one CTA size, which their tests share."""

from __future__ import annotations

from tclint.analyses.model import KernelModel
from tclint.findings.verdicts import Assumption, HazardClass, Verdict
from tclint.verdicts import verdicts
from tests.tools.support import built

ALL = frozenset(Assumption)
HEAD = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 smem[];
.visible .entry k(.param .u64 pointer, .param .u32 n, .param .u32 m, .param .align 64 .b8 a[128], .param .align 64 .b8 b[128])
.reqntid 128
{
.reg .pred %p<20>;
.reg .b16 %rs<2>;
.reg .b32 %r<40>;
.reg .b64 %rd<10>;
ld.param.u32 %r1, [n];
ld.param.u32 %r31, [m];
ld.param.u64 %rd1, [pointer];
mov.b64 %rd8, a;
cvta.param.u64 %rd2, %rd8;
mov.b64 %rd9, b;
cvta.param.u64 %rd3, %rd9;
mov.u32 %r2, %tid.x;
mov.u32 %r3, smem;
setp.eq.s32 %p1, %r2, 0;
setp.lt.s32 %p6, %r1, 1;
"""


def phases(body: str, assume: frozenset[Assumption] = ALL) -> Verdict:
    """What is known of the class in a kernel with *body*."""
    made = built(f"{HEAD.replace('sm_90a', 'sm_100a')}{body}}}")
    assert not made.functions[-1].errors, made.functions[-1].errors
    (found,) = verdicts(KernelModel(made.functions[-1], made), assume=assume, only=[HazardClass.MBARRIER])
    return found

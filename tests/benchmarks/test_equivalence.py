"""Proofs that a planted fault is none: each with a change that it covers and one, nearly the same, that it must not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.equivalence import PROOFS, equivalent
from benchmarks.faults import OPERATORS, Fault, Kernel
from benchmarks.mutation import kernels

HEAD = """\
.version 8.7
.target {target}
.address_size 64
{before}
.visible .entry k(.param .u64 in) {directives}
{{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .f32 %f<8>;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b64 bar;
"""
"""Before the instructions of a test, of which the one to change is marked with ``/*!*/`` after it."""

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1, 0, 0;"
OTHER = WGMMA.replace("k16.f32.f16.f16", "k16.f32.bf16.bf16").replace("1, 0, 0;", "1, 0, 1;")
SECOND = WGMMA.replace("%f0, %f1, %f2, %f3", "%f4, %f5, %f6, %f7")
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
COPY = "cp.async.ca.shared.global [tile], [%rd1], 4;"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16;"
FILL = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [bar];"
PROXY = "fence.proxy.async.shared::cta;"
WAITED = "mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;"
CANCEL = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [tile], [bar];"
SIGNAL = "mbarrier.arrive.shared.b64 _, [bar];"
STORED, READ = "st.shared.u32 [tile], %r1;", "ld.shared.u32 %r1, [tile];"
LATER = "ld.global.u32 %r1, [%rd1];"
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
INIT, MADE = "mbarrier.init.shared.b64 [bar], 1;", "fence.mbarrier_init.release.cluster;"
USED = "mbarrier.arrive.shared::cluster.b64 _, [%r2];"
RELAXED = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
TAKEN = (
    f"setp.eq.u32 %p1, %r1, 2; @%p1 bra L; {RELAXED.replace(';', ';/*!*/', 1)} {RELAXED} ret; L: {MEET} ret;"
)
"""Two cluster barriers, the first of them idle, or another one."""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];"


def wait(depth: int) -> str:
    return f"wgmma.wait_group.sync.aligned {depth};"


CASES = [
    # proof, operator, instructions that it covers, and those that it does not, with what was changed
    ("unreachable", "cp.async.wait deleted",
     f"{COPY} cp.async.commit_group; bra.uni END; cp.async.wait_group 0;/*!*/ END: ret;",
     f"{COPY} cp.async.commit_group; @%p1 bra END; cp.async.wait_group 0;/*!*/ END: ret;"),
    # a wait after an equal one, and after a weaker one
    ("same_operations_awaited", "wgmma.wait_group deleted",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)} add.s32 %r1, %r2, 1; {wait(0)}/*!*/ ret;",
     f"{FENCE} {WGMMA} {COMMIT} {wait(1)} add.s32 %r1, %r2, 1; {wait(0)}/*!*/ ret;"),
    # a later wait makes up for it before the result is read, and after
    ("same_operations_awaited", "wgmma.wait_group deleted",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ add.s32 %r1, %r2, 1; @%p1 bra L; L: {wait(0)} add.f32 %f0, %f0, %f1; ret;",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ add.f32 %f4, %f0, %f1; {wait(0)} ret;"),
    # the registers of the operation that is pending, and not of another
    ("same_operations_awaited", "wgmma.wait_group deleted",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)} {SECOND} {COMMIT} {wait(0)}/*!*/ add.f32 %f0, %f0, %f1; {wait(0)} ret;",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)} {SECOND} {COMMIT} {wait(0)}/*!*/ add.f32 %f4, %f4, %f1; {wait(0)} ret;"),
    ("same_operations_awaited", "wgmma.wait_group deleted",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ @%p1 bra L; L: {wait(0)} bar.sync 0; ret;",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ bar.sync 0; {wait(0)} ret;"),
    ("same_operations_awaited", "wgmma.wait_group deleted",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ @%p1 bra L; L: {wait(0)} ret;",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ @%p1 bra L; {wait(0)} L: ret;"),
    # what was not committed at the first wait is at the second
    ("same_operations_awaited", "wgmma.wait_group deleted",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)} {COMMIT} {wait(0)}/*!*/ ret;",
     f"{FENCE} {WGMMA} {wait(0)} {COMMIT} {wait(0)}/*!*/ ret;"),
    # two groups that a wait for all completes, and a wait for all but one
    ("same_operations_awaited", "cp.async.commit_group deleted",
     f"{COPY} cp.async.commit_group;/*!*/ {COPY} cp.async.commit_group; cp.async.wait_group 0; ret;",
     f"{COPY} cp.async.commit_group;/*!*/ {COPY} cp.async.commit_group; cp.async.wait_group 1; ret;"),
    # one group in flight at most, and two because of a loop
    ("same_operations_awaited", "wgmma.wait_group N to N+1",
     f"{FENCE} {WGMMA} {COMMIT} {wait(1)}/*!*/ {wait(0)} ret;",
     f"L: {FENCE} {WGMMA} {COMMIT} {wait(1)}/*!*/ @%p1 bra L; {wait(0)} ret;"),
    # a guard that may skip the first wait
    ("same_operations_awaited", "cp.async.wait deleted",
     f"{COPY} cp.async.commit_group; cp.async.wait_all; cp.async.wait_group 0;/*!*/ ret;",
     f"{COPY} cp.async.commit_group; @%p1 cp.async.wait_all; cp.async.wait_group 0;/*!*/ ret;"),
    # wait_all waits for uncommitted operations; wait_group 0 does not
    ("same_operations_awaited", "cp.async.wait deleted",
     f"{COPY} cp.async.wait_all; cp.async.wait_all;/*!*/ ret;",
     f"{COPY} cp.async.wait_group 0; cp.async.wait_all;/*!*/ ret;"),
    # a function that is called may leave something in flight
    ("same_operations_awaited", "bulk wait_group deleted",
     f"cp.async.bulk.wait_group 0;/*!*/ {STORED} ret;",
     f"call f; cp.async.bulk.wait_group 0;/*!*/ {STORED} ret;"),
    # read sources are not finished writes
    ("same_operations_awaited", "bulk wait_group deleted",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.wait_group.read 0;/*!*/ {LATER} ret;",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;/*!*/ {LATER} ret;"),
    ("same_operations_awaited", "bulk wait_group to .read",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.wait_group 0;/*!*/ {LATER} ret;",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;/*!*/ {LATER} ret;"),
    # nothing but arithmetic on other registers passes the wait
    ("same_operations_awaited", "tcgen05.wait::ld after the use",
     f"{LOAD} tcgen05.wait::ld.sync.aligned; tcgen05.wait::ld.sync.aligned;/*!*/ add.s32 %r3, %r1, 1; ret;",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ add.s32 %r1, %r1, 1; ret;"),
    # what only reads loaded registers comes after the load; an access that another thread may observe as a signal counts
    ("same_operations_awaited", "tcgen05.wait::ld after the use",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ st.shared.u32 [tile], %r1; ret;",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ st.release.cta.shared.u32 [tile], %r1; ret;"),
    ("same_operations_awaited", "tcgen05.wait::ld after the use",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ mov.b64 %rd2, {{%r1, %r3}}; ret;",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ mov.b32 %r1, %r1; ret;"),
    ("same_operations_awaited", "tcgen05.wait::ld deleted",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ add.s32 %r3, %r1, 1; tcgen05.wait::ld.sync.aligned; ret;",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ add.s32 %r3, %r1, 1; {SIGNAL} tcgen05.wait::ld.sync.aligned; ret;"),
    # a guard does not matter where there is nothing to wait for; a loop leads back to the wait
    ("nothing_issued_before", "bulk wait_group deleted",
     f"@%p1 cp.async.bulk.wait_group 0;/*!*/ {STORED} {STORE} cp.async.bulk.commit_group; ret;",
     f"L: @%p1 cp.async.bulk.wait_group 0;/*!*/ {STORED} {STORE} cp.async.bulk.commit_group; @%p2 bra L; ret;"),
    # another load does not need the first one, unless it takes its address from it; a store may overwrite
    ("same_operations_awaited", "tcgen05.wait::ld deleted",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ {LOAD.replace('%r1', '%r3')} tcgen05.wait::ld.sync.aligned; ret;",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ {LOAD.replace('%r2', '%r1')} tcgen05.wait::ld.sync.aligned; ret;"),
    ("same_operations_awaited", "wgmma.wait_group deleted",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ {SECOND} {COMMIT} {wait(0)} ret;",
     f"{FENCE} {WGMMA} {COMMIT} {wait(0)}/*!*/ {OTHER} {COMMIT} {wait(0)} ret;"),
    ("same_operations_awaited", "cp.async.wait deleted",
     f"{COPY} cp.async.wait_all;/*!*/ cp.async.wait_all; {COPY} cp.async.wait_all; ret;",
     f"{COPY} cp.async.wait_all;/*!*/ {COPY} cp.async.wait_all; ret;"),
    # loads and stores are waited for apart
    ("same_operations_awaited", "tcgen05.wait::ld deleted",
     f"{LOAD} tcgen05.wait::ld.sync.aligned; tcgen05.wait::ld.sync.aligned;/*!*/ ret;",
     f"{LOAD} tcgen05.wait::st.sync.aligned; tcgen05.wait::ld.sync.aligned;/*!*/ ret;"),
    ("same_operations_awaited", "tcgen05.wait::ld to ::st",
     f"{LOAD} tcgen05.wait::ld.sync.aligned; tcgen05.wait::ld.sync.aligned;/*!*/ ret;",
     f"{LOAD} tcgen05.wait::ld.sync.aligned;/*!*/ ret;"),
    # what is committed late is waited for late
    ("same_operations_awaited", "cp.async.commit_group after the wait",
     "cp.async.commit_group;/*!*/ cp.async.wait_group 0; ret;",
     f"{COPY} cp.async.commit_group;/*!*/ cp.async.wait_group 0; ret;"),
    ("fence_before_each_wgmma", "wgmma.fence deleted",
     f"{FENCE}/*!*/ mov.f32 %f0, 0f00000000; {FENCE} {WGMMA} {COMMIT} {wait(0)} ret;",
     f"{FENCE}/*!*/ mov.f32 %f0, 0f00000000; @%p1 {FENCE} {WGMMA} {COMMIT} {wait(0)} ret;"),
    ("nothing_accessed_since_the_fence", "wgmma.fence deleted",
     f"{FENCE} add.s32 %r1, %r2, 1; {FENCE}/*!*/ {WGMMA} {COMMIT} {wait(0)} ret;",
     f"{FENCE} mov.f32 %f0, 0f00000000; {FENCE}/*!*/ {WGMMA} {COMMIT} {wait(0)} ret;"),
    ("nothing_accessed_since_the_fence", "wgmma.fence deleted",
     f"{FENCE} L: {FENCE}/*!*/ {WGMMA} {COMMIT} {wait(0)} ret;",
     f"{FENCE} L: {FENCE}/*!*/ {WGMMA} {COMMIT} {wait(0)} add.f32 %f0, %f0, %f1; @%p1 bra L; ret;"),
    # accumulators of one shape are ordered, those of two are not
    ("nothing_accessed_since_the_fence", "wgmma.fence deleted",
     f"{FENCE} {WGMMA} {FENCE}/*!*/ {WGMMA} {COMMIT} {wait(0)} ret;",
     f"{FENCE} {WGMMA} {FENCE}/*!*/ {OTHER} {COMMIT} {wait(0)} ret;"),
    ("second_fence_beside_it", "proxy fence deleted",
     f"st.shared.u32 [tile], %r1; fence.proxy.async; add.s32 %r1, %r1, 1; fence.proxy.async;/*!*/ {WGMMA} ret;",
     f"fence.proxy.async; st.shared.u32 [tile], %r1; fence.proxy.async;/*!*/ {WGMMA} ret;"),
    ("second_fence_beside_it", "proxy fence deleted",
     f"fence.proxy.async.global; fence.proxy.async.global;/*!*/ {WGMMA} ret;",
     f"st.shared.u32 [tile], %r1; fence.proxy.async.global; fence.proxy.async.shared::cta;/*!*/ {WGMMA} ret;"),
    ("mbarriers_alone_before_the_proxy_fence", "proxy fence deleted",
     f"mbarrier.init.shared::cta.b64 [bar], 1; fence.proxy.async.shared::cta;/*!*/ bar.sync 0; {WGMMA} ret;",
     f"st.shared.u32 [tile], %r1; mbarrier.init.shared::cta.b64 [bar], 1; fence.proxy.async.shared::cta;/*!*/ {WGMMA} ret;"),
    # what other threads have done is known after a barrier
    ("mbarriers_alone_before_the_proxy_fence", "proxy fence narrowed",
     f"ld.global.u32 %r1, [%rd1]; fence.proxy.async.shared::cta;/*!*/ {WGMMA} ret;",
     f"{MEET} fence.proxy.async.shared::cta;/*!*/ {WGMMA} ret;"),
    ("mbarriers_alone_before_the_proxy_fence", "proxy fence deleted",
     f"ld.global.u32 %r1, [%rd1]; {PROXY}/*!*/ {WGMMA} ret;",
     f"ld.acquire.gpu.global.u32 %r1, [%rd1]; {PROXY}/*!*/ {WGMMA} ret;"),
    ("mbarriers_alone_before_the_proxy_fence", "proxy fence deleted",
     f"fence.proxy.async.shared::cta;/*!*/ L: st.shared.u32 [tile], %r1; @%p1 bra L; {WGMMA} ret;",
     f"L: fence.proxy.async.shared::cta;/*!*/ st.shared.u32 [tile], %r1; @%p1 bra L; {WGMMA} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"st.shared.u32 [tile], %r1; fence.proxy.async.shared::cta; {WGMMA} ld.global.u32 %r1, [%rd1]; fence.proxy.async.shared::cta;/*!*/ {WGMMA} ret;",
     f"st.shared.u32 [tile], %r1; fence.proxy.async.shared::cta; {WGMMA} st.shared.u32 [tile], %r1; fence.proxy.async.shared::cta;/*!*/ {WGMMA} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence narrowed",
     f"st.shared.u32 [tile], %r1; fence.proxy.async; L: {WGMMA} fence.proxy.async.shared::cta;/*!*/ @%p1 bra L; {WGMMA} ret;",
     f"st.shared.u32 [tile], %r1; @%p1 bra L; fence.proxy.async; L: {WGMMA} fence.proxy.async.shared::cta;/*!*/ @%p1 bra L; {WGMMA} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} {WGMMA} {PROXY}/*!*/ {WGMMA} ret;",
     f"{STORED} {PROXY} call f; {PROXY}/*!*/ {WGMMA} ret;"),
    # all come from a fence to one barrier, or some of them from a store to another one
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} bar.sync 0; {WGMMA} {PROXY}/*!*/ {WGMMA} ret;",
     f"@%p1 bra L; {STORED} bar.sync 0; bra M; L: {PROXY} bar.sync 0; {PROXY}/*!*/ {WGMMA} M: ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence narrowed",
     f"{STORED} {PROXY} bar.sync 0; {PROXY}/*!*/ {WGMMA} ret;",
     f"@%p1 bra L; {STORED} bar.sync 1, 64; bra M; L: {PROXY} bar.sync 1, 64; {PROXY}/*!*/ {WGMMA} M: ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} L: bar.sync 0; {WGMMA} {PROXY}/*!*/ @%p1 bra L; ret;",
     f"{STORED} {PROXY} L: bar.sync 0; {WGMMA} {PROXY}/*!*/ {STORED} @%p1 bra L; ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} barrier.sync.aligned 0; {PROXY}/*!*/ {WGMMA} ret;",
     f"@%p1 bra L; {STORED} barrier.sync 0; bra M; L: {PROXY} barrier.sync 0; {PROXY}/*!*/ {WGMMA} M: ret;"),
    # threads that arrive come from the fence too, or from a store after it
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} {WAITED} {PROXY}/*!*/ {WGMMA} {SIGNAL} ret;",
     f"{STORED} {PROXY} {WAITED} {PROXY}/*!*/ {WGMMA} {STORED} {SIGNAL} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"@%p1 bra L; {SIGNAL} ret; L: {WAITED} {PROXY}/*!*/ {WGMMA} ret;",
     f"@%p1 bra L; {STORED} {SIGNAL} ret; L: {WAITED} {PROXY}/*!*/ {WGMMA} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence narrowed",
     f"{FILL} {WAITED} {STORE} {PROXY}/*!*/ {WGMMA} ret;",
     f"{FILL} {WAITED} {STORE} call f; {PROXY}/*!*/ {WGMMA} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} {CANCEL} {PROXY}/*!*/ {CANCEL} ret;",
     f"{STORED} {PROXY} {CANCEL} {WAITED} {READ} {PROXY}/*!*/ {CANCEL} ret;"),
    # a thread that stores has passed a barrier that all reach after the fence, or perhaps in an earlier iteration
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"L: {WAITED} {PROXY}/*!*/ @%p2 bra L; bar.sync 0; {WGMMA} {STORED} {SIGNAL} ret;",
     f"L: {WAITED} {PROXY}/*!*/ bar.sync 0; {WGMMA} {STORED} {SIGNAL} @%p2 bra L; ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{WAITED} {PROXY}/*!*/ bar.sync 0; {WGMMA} {STORED} {SIGNAL} ret;",
     f"{WAITED} {PROXY}/*!*/ bar.sync 1, 64; {WGMMA} {STORED} {SIGNAL} ret;"),
    # two reads are unordered; a copy overwrites what was read; an acquiring load observes what others wrote
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} {READ} {PROXY}/*!*/ {WGMMA} {STORE} ret;",
     f"{STORED} {PROXY} {READ} {PROXY}/*!*/ {WGMMA} {FILL} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} {READ} {PROXY}/*!*/ {WGMMA} ret;",
     f"{STORED} {PROXY} ld.acquire.cta.shared.u32 %r1, [tile]; {PROXY}/*!*/ {WGMMA} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} ld.global.u32 %r1, [%rd1]; {PROXY}/*!*/ {WGMMA} ret;",
     f"{STORED} {PROXY} atom.global.add.u32 %r1, [%rd1], 1; {PROXY}/*!*/ {WGMMA} ret;"),
    ("nothing_accessed_since_the_proxy_fence", "proxy fence deleted",
     f"{STORED} {PROXY} {READ} {PROXY}/*!*/ {WGMMA} ret;",
     f"{STORED} {PROXY} {COPY} cp.async.wait_all; {PROXY}/*!*/ {WGMMA} ret;"),
    ("no_operation_through_the_async_proxy", "proxy fence deleted",
     "ld.global.u32 %r1, [%rd1]; st.shared.u32 [tile], %r1; fence.proxy.async;/*!*/ st.global.u32 [%rd1], %r1; ret;",
     "st.global.u32 [%rd1], %r1; fence.proxy.async;/*!*/ ret;"),
    ("no_operation_through_the_async_proxy", "proxy fence deleted",
     "st.shared.u32 [tile], %r1; fence.proxy.async.shared::cta;/*!*/ ret;",
     f"st.shared.u32 [tile], %r1; fence.proxy.async.shared::cta;/*!*/ {WGMMA} ret;"),
    # only the end follows, and an access to what the copy reads, by this thread or by one that it signals
    ("copies_in_flight_at_the_end", "bulk wait_group deleted",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;/*!*/ bar.sync 0; ret;",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;/*!*/ bar.sync 0; {STORED} ret;"),
    ("copies_in_flight_at_the_end", "bulk wait_group N to N+1",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;/*!*/ ret;",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;/*!*/ {SIGNAL} ret;"),
    # the sources may be overwritten, and the results not be read
    ("results_that_nothing_reads", "bulk wait_group to .read",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;/*!*/ {STORED} bar.sync 0; ret;",
     f"{STORE} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;/*!*/ {STORED} bar.sync 0; {LATER} ret;"),
    # a barrier before the wait, and a wait that another thread may reach before the barrier
    ("observed_after_a_barrier", "mbarrier arrive relaxed",
     f"{INIT} bar.sync 0; {STORED} {SIGNAL}/*!*/ bar.sync 0; {WAITED} ret;",
     f"{INIT} bar.sync 0; {STORED} {SIGNAL}/*!*/ @%p1 bra L; {WAITED} L: bar.sync 0; ret;"),
    # a loop in which the barriers differ, and one in which the next arrival follows the barrier of the last wait
    ("observed_after_a_barrier", "mbarrier arrive relaxed",
     f"L: {STORED} {SIGNAL}/*!*/ bar.sync 0; {WAITED} bar.sync 0; @%p1 bra L; ret;",
     f"L: {STORED} {SIGNAL}/*!*/ bar.sync 0; {WAITED} @%p1 bra L; ret;"),
    ("single_thread", "CTA barrier deleted",
     ".reqntid 1 | st.shared.u32 [tile], %r1; bar.sync 0;/*!*/ ld.shared.u32 %r1, [tile]; ret;",
     ".reqntid 32 | st.shared.u32 [tile], %r1; bar.sync 0;/*!*/ ld.shared.u32 %r1, [tile]; ret;"),
    # a second barrier, of as many threads as there are, and of fewer
    ("ordered_by_the_barriers_around", "CTA barrier deleted",
     f".maxntid 128 | {STORED} bar.sync 0;/*!*/ add.s32 %r2, %r2, 1; mov.u32 %r3, 128; bar.sync 1, %r3; {READ} ret;",
     f".maxntid 128 | {STORED} bar.sync 0;/*!*/ add.s32 %r2, %r2, 1; mov.u32 %r3, 64; bar.sync 1, %r3; {READ} ret;"),
    ("ordered_by_the_barriers_around", "CTA barrier to warp barrier",
     f"{STORED} bar.sync 0;/*!*/ @%p1 bra L; bar.sync 0; {READ} L: ret;",
     f"{STORED} bar.sync 0;/*!*/ @%p1 bra L; {READ} L: ret;"),
    # nothing after the last one, and something that others read
    ("ordered_by_the_barriers_around", "CTA barrier before the cp.async.wait",
     f"{COPY} cp.async.wait_all;/*!*/ bar.sync 0; ret;",
     f"{COPY} cp.async.wait_all;/*!*/ bar.sync 0; {READ} ret;"),
    # other bytes, of a variable and not of each thread; and a barrier that others do not come to
    ("ordered_by_the_barriers_around", "CTA barrier deleted",
     "mov.b32 %r1, tile; mbarrier.init.shared.b64 [%r1+8], 1; bar.sync 0;/*!*/ mbarrier.init.shared.b64 [%r1+16], 1; bar.sync 0; ret;",
     "mov.u32 %r1, %tid.x; mbarrier.init.shared.b64 [%r1+8], 1; bar.sync 0;/*!*/ mbarrier.init.shared.b64 [%r1+16], 1; bar.sync 0; ret;"),
    ("ordered_by_the_barriers_around", "CTA barrier deleted",
     f"{STORED} @%p1 bra L; bar.sync 1; ret; L: bar.sync 0;/*!*/ bar.sync 0; {READ} ret;",
     f"{STORED} @%p1 bra L; bar.sync 0; ret; L: bar.sync 0;/*!*/ bar.sync 0; {READ} ret;"),
    # another variable, wherever in the first one it is, and the same
    ("ordered_by_the_barriers_around", "CTA barrier deleted",
     "mov.u32 %r1, %tid.x; mov.b32 %r3, tile; add.u32 %r2, %r3, %r1; st.shared.u32 [%r2], %r1; bar.sync 0;/*!*/ ld.shared.u32 %r4, [bar]; ret;",
     "mov.u32 %r1, %tid.x; mov.b32 %r3, tile; add.u32 %r2, %r3, %r1; st.shared.u32 [%r2], %r1; bar.sync 0;/*!*/ ld.shared.u32 %r4, [tile+512]; ret;"),
    # the end of an mbarrier after a copy out of a tile, and another use of the tile
    ("ordered_by_the_barriers_around", "CTA barrier deleted",
     f"{STORE} cp.async.bulk.commit_group; bar.sync 0; cp.async.bulk.wait_group.read 0; bar.sync 0;/*!*/ mbarrier.inval.shared.b64 [bar]; ret;",
     f"{STORE} cp.async.bulk.commit_group; bar.sync 0; cp.async.bulk.wait_group.read 0; bar.sync 0;/*!*/ {STORED} ret;"),
    # two cluster barriers, and one before memory of another CTA is read
    ("ordered_by_the_barriers_around", "cluster barrier and its arrival deleted",
     f"barrier.cluster.arrive;/*!*/ barrier.cluster.wait; {STORED} {MEET} {MEET} ret;",
     f"barrier.cluster.arrive;/*!*/ barrier.cluster.wait; ld.shared::cluster.u32 %r1, [%r2]; {MEET} {MEET} ret;"),
    # the first one of a cluster, with nothing before it, and one after a store
    ("ordered_by_the_barriers_around", "cluster barrier and its arrival deleted",
     f"barrier.cluster.arrive.relaxed;/*!*/ barrier.cluster.wait; {STORED} {RELAXED} ld.shared::cluster.u32 %r1, [%r2]; {RELAXED} ret;",
     f"{STORED} barrier.cluster.arrive.relaxed;/*!*/ barrier.cluster.wait; {STORED} {RELAXED} ld.shared::cluster.u32 %r1, [%r2]; {RELAXED} ret;"),
    # mbarriers made before it, which the next one publishes, by a fence or not
    ("ordered_by_the_barriers_around", "cluster barrier and its arrival deleted",
     f"{INIT} {RELAXED.replace(';', ';/*!*/', 1)} {MADE} {RELAXED} {USED} {RELAXED} ret;",
     f"{INIT} {RELAXED.replace(';', ';/*!*/', 1)} {RELAXED} {USED} {RELAXED} ret;"),
    ("ordered_by_the_barriers_around", "cluster barrier and its arrival deleted",
     f"{INIT} cp.async.bulk.prefetch.L2.global [%rd1], 16; {MADE} {RELAXED.replace(';', ';/*!*/', 1)} {MADE} {RELAXED} {USED} {MEET} ret;",
     f"{INIT} {STORED} {MADE} {RELAXED.replace(';', ';/*!*/', 1)} {MADE} {RELAXED} {USED} {MEET} ret;"),
    # nothing but what an earlier one has published, and what it has not
    ("ordered_by_the_barriers_around", "cluster barrier and its arrival deleted",
     f"{INIT} {MADE} {RELAXED} {RELAXED.replace(';', ';/*!*/', 1)} {USED} {MEET} ret;",
     f"{INIT} {RELAXED} {RELAXED.replace(';', ';/*!*/', 1)} {USED} {MEET} ret;"),
    # alternatives that the launch chooses for all of a cluster, and that each of its CTAs takes
    ("ordered_by_the_barriers_around", "cluster barrier and its arrival deleted",
     f"mov.u32 %r1, %cluster_nctaid.x; {TAKEN}",
     f"mov.u32 %r1, %cluster_ctarank; {TAKEN}"),
    ("grid_awaited_before", "griddepcontrol.wait deleted",
     "griddepcontrol.wait; @%p1 bra L; L: griddepcontrol.wait;/*!*/ ret;",
     "@%p1 bra L; griddepcontrol.wait; L: griddepcontrol.wait;/*!*/ ret;"),
    ("no_bytes", "expect_tx deleted",
     "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 0;/*!*/ ret;",
     "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;/*!*/ ret;"),
    ("no_bytes", "expect_tx deleted",
     "mov.b32 %r1, 0; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], %r1;/*!*/ ret;",
     "mov.b32 %r1, 0; L: mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], %r1;/*!*/ mov.b32 %r1, 16; @%p1 bra L; ret;"),
]  # fmt: skip


def planted(folder: Path, operator: str, text: str) -> tuple[Kernel, Fault]:
    """The kernel with *text* in it, and the fault at the mark."""
    directives, bar, body = text.rpartition("|")
    target = "sm_100a" if "tcgen05" in body else "sm_90a"
    head = HEAD.format(target=target, before=".extern .func f;", directives=directives if bar else "")
    data = head + re.sub(r";(/\*!\*/)? ", r";\1\n", body) + "\n}\n"
    path = folder / "k.ptx"
    path.write_text(data.replace("/*!*/", ""))
    line = data[: data.index("/*!*/")].count("\n")
    kernel = next(k for k in kernels(path) if k.function.entry)
    faults = [
        fault
        for fault in OPERATORS[operator].plant(kernel)
        if kernel.data.count(b"\n", 0, min(e.span.start for e in fault.edits)) == line
    ]
    (fault,) = faults
    return kernel, fault


@pytest.mark.parametrize(
    ("name", "operator", "harmless", "harmful"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)]
)
def test_a_proof_covers_what_it_says_and_no_more(
    tmp_path: Path, name: str, operator: str, harmless: str, harmful: str
) -> None:
    from benchmarks import equivalence

    changed = equivalence.change(*planted(tmp_path, operator, harmless))
    assert changed is not None
    assert name in [argue.__name__ for argue in PROOFS if argue(changed)]
    proof = equivalent(*planted(tmp_path, operator, harmless))
    assert proof is not None
    assert proof.reason
    assert re.fullmatch(r"9(\.\d+)+", proof.manual)
    assert equivalent(*planted(tmp_path, operator, harmful)) is None


def test_every_proof_has_a_case() -> None:
    assert {argue.__name__ for argue in PROOFS} == {case[0] for case in CASES}


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("mbarrier wait loop dropped",
         "L: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;/*!*/ @!%p1 bra L; ret;"),
        ("target without its suffix", f"{WGMMA} ret;"),
        # a barrier that nothing needs, and that is never complete
        ("barrier thread count raised", ".reqntid 128 | barrier.sync 1, 128;/*!*/ bar.sync 0; ret;"),
    ],
)  # fmt: skip
def test_changes_of_control_flow_directives_and_counts_are_not_argued_about(
    tmp_path: Path, operator: str, text: str
) -> None:
    if "/*!*/" in text:
        kernel, fault = planted(tmp_path, operator, text)
    else:
        path = tmp_path / "k.ptx"
        path.write_text(HEAD.format(target="sm_90a", before="", directives="") + text + "\n}\n")
        (kernel,) = kernels(path)
        (fault,) = OPERATORS[operator].plant(kernel)
    assert equivalent(kernel, fault) is None

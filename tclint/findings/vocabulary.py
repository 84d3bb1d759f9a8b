"""What a finding means where the PTX was made from: CUTLASS, CuTe DSL, CUDA C++, Triton.

One table says what a rule misses and how each of these spells it. Who made a module is read off its text: the banner of
the compiler, the files of ``.loc``, the names of entries. What is not known there is not said.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tclint.findings.finding import SourceHelp

__all__ = ["MISSING", "WORDS", "producer", "source_help"]

CUTLASS, CUTE_DSL, CUDA, TRITON = "CUTLASS", "CuTe DSL", "CUDA C++", "Triton"
PRODUCERS = (CUTLASS, CUTE_DSL, CUDA, TRITON)

MISSING = {
    rule: what
    for what, rules in {
        "wgmma wait": "WG001 WG004 WG005 WG007 WG009 WG011",
        "wgmma commit": "WG003 TL002",
        "wgmma fence": "WG002 WG008",
        "first accumulation": "WG013 TC024",
        "copy wait": "CA001 CA003",
        "copy commit": "CA002",
        "CTA barrier": "BK003 CA005 MB015 PR005 SM001 TM008",
        "warp barrier": "MB014",
        "bulk read wait": "BK002",
        "bulk write wait": "BK004",
        "bulk commit": "BK005",
        "proxy fence": "PR001 PR002 PR004",
        "tensor map fence": "PR003",
        "tensor memory wait": "TC002 TC003 TC004 TC007 TC011",
        "tensor core commit": "TC001 TC005 TC008 TC009 TC012 TM006",
        "tensor core fence": "TC013 TC014",
        "election": "BK006 CV002 CV009 TC010",
        "register count": "CV007 CV008 CV012 CV013",
        "mbarrier init": "MB002",
        "mbarrier count": "MB003 MB006 MB008 MB016",
        "mbarrier bytes": "MB004 MB005",
        "mbarrier wait": "BK001 BK010 BK011 CL004 MB001 MB007",
        "cluster barrier": "CL001 CL002 CL003 TM011",
        "grid wait": "GD001 GD002",
        "tensor memory release": "TM001 TM003",
        "target": "AV001 BK009",
    }.items()
    for rule in rules.split()
}
"""Rule -> what is missing or wrong where it finds something. A rule that is not here says enough by itself."""

_ASM = 'asm volatile("{}" ::: "memory")'
_COMPILER = "the compiler places it, so for code of tl operations report it to Triton"

WORDS: dict[str, dict[str, str]] = {
    "wgmma wait": {
        CUTLASS: "call cute::warpgroup_wait<N>() before the accumulators or operands are touched; N = 0 waits for all",
        CUTE_DSL: "call cute.nvgpu.warpgroup.wait_group(N) before the accumulators or operands are touched",
        CUDA: "wait with " + _ASM.format("wgmma.wait_group.sync.aligned 0;") + ", and use the accumulators behind it",
        TRITON: f"{_COMPILER}; in Gluon: hopper.warpgroup_mma_wait(num_outstanding, deps=[accumulator])",
    },
    "wgmma commit": {
        CUTLASS: "call cute::warpgroup_commit_batch() behind the cute::gemm calls of the group",
        CUTE_DSL: "call cute.nvgpu.warpgroup.commit_group() behind the cute.gemm calls of the group",
        CUDA: "commit with " + _ASM.format("wgmma.commit_group.sync.aligned;"),
        TRITON: _COMPILER,
    },
    "wgmma fence": {
        CUTLASS: "call cute::warpgroup_arrive() before the first cute::gemm, and cute::warpgroup_fence_operand() on its registers",
        CUTE_DSL: "call cute.nvgpu.warpgroup.fence() before the first cute.gemm",
        CUDA: "order the registers with " + _ASM.format("wgmma.fence.sync.aligned;"),
        TRITON: _COMPILER,
    },
    "first accumulation": {
        CUTLASS: "set tiled_mma.accumulate_ to ScaleOut::Zero for the first multiplication",
        CUTE_DSL: "call tiled_mma.set(Field.ACCUMULATE, False) for the first multiplication",
        TRITON: f"{_COMPILER}; in Gluon pass use_acc=False for the first multiplication",
    },
    "copy wait": {
        CUTLASS: "call cute::cp_async_wait<N>() and then __syncthreads()",
        CUTE_DSL: "call cute.arch.cp_async_wait_group(N) and then cute.arch.sync_threads()",
        CUDA: "call __pipeline_wait_prior(N), then __syncthreads()",
        TRITON: f"{_COMPILER}; in Gluon: async_copy.wait_group(num_outstanding)",
    },
    "copy commit": {
        CUTLASS: "call cute::cp_async_fence() behind the copies of the group",
        CUTE_DSL: "call cute.arch.cp_async_commit_group() behind the copies of the group",
        CUDA: "call __pipeline_commit() behind the copies of the group",
        TRITON: f"{_COMPILER}; in Gluon: async_copy.commit_group()",
    },
    "CTA barrier": {
        CUTLASS: "call __syncthreads(), or cutlass::arch::NamedBarrier::sync for some of the warps, where all of them come",
        CUTE_DSL: "call cute.arch.sync_threads(), or cute.arch.barrier for some of the warps, where all of them come",
        CUDA: "call __syncthreads() where all threads of the block come",
        TRITON: "the compiler places the barriers of one group of warps: report it to Triton",
    },
    "warp barrier": {
        CUTLASS: "call __syncwarp() before the elected thread arrives",
        CUTE_DSL: "call cute.arch.sync_warp() before the elected thread arrives",
        CUDA: "call __syncwarp() before the elected thread arrives",
        TRITON: _COMPILER,
    },
    "bulk read wait": {
        CUTLASS: "call cute::tma_store_wait<N>() in the thread that stores, then a barrier, before the buffer is written again",
        CUTE_DSL: "call cute.arch.cp_async_bulk_wait_group(N, read=True) in the thread that stores",
        CUDA: "call cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<N>{}) in the thread that stores",
        TRITON: f"{_COMPILER}; in Gluon: tma.store_wait(pendings)",
    },
    "bulk write wait": {
        CUTE_DSL: "call cute.arch.cp_async_bulk_wait_group(N, read=False): the one with read=True waits for the sources only",
        CUDA: "call cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<N>{}): the one with _read waits for the sources only",
        TRITON: f"{_COMPILER}; in Gluon: tma.store_wait(pendings, read_only=False)",
    },
    "bulk commit": {
        CUTLASS: "call cute::tma_store_arrive() in the thread that stores",
        CUTE_DSL: "call cute.arch.cp_async_bulk_commit_group() in the thread that stores",
        CUDA: "call cuda::ptx::cp_async_bulk_commit_group() in the thread that stores",
        TRITON: _COMPILER,
    },
    "proxy fence": {
        CUTLASS: "call cutlass::arch::fence_view_async_shared() (before a TMA store cute::tma_store_fence()) in every thread "
        "that touched the bytes, before it synchronises",
        CUTE_DSL: 'call cute.arch.fence_view_async_shared() or cute.arch.fence_proxy("async.shared", space="cta") in every '
        "thread that touched the bytes, before it synchronises",
        CUDA: "call cuda::ptx::fence_proxy_async(cuda::ptx::space_shared) in every thread that touched the bytes, before it "
        "synchronises",
        TRITON: f"{_COMPILER}; in Gluon: fence_async_shared()",
    },
    "tensor map fence": {
        CUTLASS: "call cute::tma_descriptor_fence_release() behind the change and cute::tma_descriptor_fence_acquire() before the use",
        CUDA: "call cuda::ptx::fence_proxy_tensormap_generic with sem_release behind the change and with sem_acquire before the use",
        TRITON: _COMPILER,
    },
    "tensor memory wait": {
        CUTLASS: "call cutlass::arch::fence_view_async_tmem_load() behind loads, fence_view_async_tmem_store() behind stores",
        CUTE_DSL: "call cute.arch.fence_view_async_tmem_load() behind loads, fence_view_async_tmem_store() behind stores",
        CUDA: "call cuda::ptx::tcgen05_wait_ld() behind loads, cuda::ptx::tcgen05_wait_st() behind stores",
        TRITON: "the compiler waits behind loads and stores of tensor memory: report it to Triton",
    },
    "tensor core commit": {
        CUTLASS: "let the issuing thread call cutlass::arch::umma_arrive(barrier), and whoever goes on wait for its phase",
        CUTE_DSL: "let the issuing thread call cute.nvgpu.tcgen05.commit(mbar_ptr), and whoever goes on wait with cute.arch.mbarrier_wait",
        CUDA: "let the issuing thread call cuda::ptx::tcgen05_commit, and whoever goes on wait for the phase of the mbarrier",
        TRITON: f"{_COMPILER}; in Gluon: blackwell.tcgen05_commit(barrier) and mbarrier.wait(barrier, phase)",
    },
    "tensor core fence": {
        CUDA: "call cuda::ptx::tcgen05_fence_after_thread_sync() behind the wait, tcgen05_fence_before_thread_sync() before "
        "the arrival",
        TRITON: _COMPILER,
    },
    "election": {
        CUTLASS: "put it under if (cute::elect_one_sync()), in one warp; what a whole warp must execute stays outside of it",
        CUTE_DSL: "put it under with cute.arch.elect_one(), in one warp; what a whole warp must execute stays outside of it",
        CUDA: "choose the thread with cuda::ptx::elect_sync(0xffffffff), in one warp; what a whole warp must execute stays outside",
        TRITON: _COMPILER,
    },
    "register count": {
        CUTLASS: "see cutlass::arch::warpgroup_reg_alloc<N>() and warpgroup_reg_dealloc<N>(), and __launch_bounds__(threads, 1)",
        CUTE_DSL: "see cute.arch.warpgroup_reg_alloc(N) and warpgroup_reg_dealloc(N)",
        CUDA: "see cuda::ptx::setmaxnreg_inc and setmaxnreg_dec, and __launch_bounds__(threads, 1)",
        TRITON: "the compiler places it for warp specialisation: report it to Triton",
    },
    "mbarrier init": {
        CUTLASS: "call cutlass::arch::fence_barrier_init() behind the inits, then cute::cluster_sync() or __syncthreads()",
        CUTE_DSL: "call cute.arch.mbarrier_init_fence() behind the inits, then synchronise the CTA or the cluster",
        CUDA: "call cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster) behind the inits in a "
        "cluster, then synchronise; __syncthreads() is enough within a block",
        TRITON: _COMPILER,
    },
    "mbarrier count": {
        CUTLASS: "see the count given to cutlass::arch::ClusterBarrier::init, or the arrival counts in the Params of the pipeline",
        CUTE_DSL: "see the count given to cute.arch.mbarrier_init, or the groups of agents given to the pipeline",
        CUDA: "see the count given to cuda::ptx::mbarrier_init or to init(&barrier, count)",
        TRITON: f"{_COMPILER}; in Gluon see mbarrier.init(barrier, count)",
    },
    "mbarrier bytes": {
        CUTLASS: "see transaction_bytes in the Params of the pipeline, or ClusterTransactionBarrier::arrive_and_expect_tx",
        CUTE_DSL: "see the bytes given to cute.arch.mbarrier_arrive_and_expect_tx, or the tx_count of the pipeline",
        CUDA: "see the bytes given to cuda::ptx::mbarrier_arrive_expect_tx or cuda::device::barrier_arrive_tx",
        TRITON: f"{_COMPILER}; in Gluon see mbarrier.expect(barrier, bytes)",
    },
    "mbarrier wait": {
        CUTLASS: "see ClusterBarrier::wait(phase), or consumer_wait and producer_acquire of the pipeline and the phase of its "
        "PipelineState",
        CUTE_DSL: "see cute.arch.mbarrier_wait(mbar_ptr, phase), or consumer_wait and producer_acquire of the pipeline",
        CUDA: "repeat cuda::ptx::mbarrier_try_wait_parity until it returns true, with a parity that flips at each use",
        TRITON: f"{_COMPILER}; in Gluon see mbarrier.wait(barrier, phase)",
    },
    "cluster barrier": {
        CUTLASS: "see cute::cluster_arrive_relaxed(), which orders no memory, cute::cluster_arrive() and cute::cluster_wait(): one "
        "wait for each arrival",
        CUTE_DSL: "see cute.arch.cluster_arrive_relaxed(), which orders no memory, cluster_arrive() and cluster_wait(): one wait "
        "for each arrival",
        CUDA: "see cuda::ptx::barrier_cluster_arrive and barrier_cluster_wait, or cg::this_cluster().sync()",
        TRITON: _COMPILER,
    },
    "grid wait": {
        CUTLASS: "call cutlass::arch::wait_on_dependent_grids() before what an earlier grid writes is read",
        CUTE_DSL: "call cute.arch.griddepcontrol_wait() before what an earlier grid writes is read",
        CUDA: "call cudaGridDependencySynchronize() before what an earlier grid writes is read",
        TRITON: "call tl.extra.cuda.gdc_wait() before what an earlier grid writes is read",
    },
    "tensor memory release": {
        CUTLASS: "see free() and release_allocation_lock() of cute::TMEM::Allocator1Sm or Allocator2Sm",
        CUTE_DSL: "see cute.arch.alloc_tmem and cute.arch.dealloc_tmem",
        TRITON: "the compiler allocates and frees tensor memory: report it to Triton",
    },
    "target": {
        CUTLASS: "compile for the architecture-specific target: -gencode arch=compute_90a,code=sm_90a and the like",
        CUDA: "compile for the architecture-specific target: -gencode arch=compute_90a,code=sm_90a and the like",
    },
}  # fmt: skip
"""What is missing -> how each producer's users write it; who has no word for it is left out."""

_NVVM, _LLVM = b"// Generated by NVIDIA NVVM Compiler", b"// Generated by LLVM NVPTX Back-End"
_CUTE_ENTRY, _CUTLASS_ENTRY = "kernel_cutlass_", r"_Z\w*(?:7cutlass|4cute)"
_CPP_ENTRY = r"_Z(?!\w*cw51)"
"""A mangled name, but for those of Numba, which mangles likewise and says with what options it compiled."""
_TRITON = rb'(?m)\bglobal_smem\b|^\s*\.file\s+\d+\s+"[^"\n]*/triton/'
_CPP = rb'(?m)^\s*\.file\s+\d+\s+"[^"\n]*\.(?:cuh?|[ch](?:pp|xx)?|inl)"'
_HEAD = 1 << 12
"""Bytes at the beginning in which the banner of a compiler stands."""


def producer(data: bytes, entry: str | None) -> str:
    """What the function *entry* of a module was written in; empty where nothing shows it."""
    head = data[:_HEAD]
    if _NVVM in head:
        if entry and re.match(_CUTE_ENTRY, entry):
            return CUTE_DSL
        if entry and re.match(_CUTLASS_ENTRY, entry):
            return CUTLASS
        return CUDA if (entry and re.match(_CPP_ENTRY, entry)) or _has(_CPP, data) else ""
    return TRITON if _LLVM in head and _has(_TRITON, data) else ""


@lru_cache(maxsize=1)
def _has(pattern: bytes, data: bytes) -> bool:
    """Whether a pattern occurs in a module; its findings ask one after the other."""
    return re.search(pattern, data) is not None


def source_help(rule: str, entry: str | None, data: bytes) -> SourceHelp | None:
    """What a finding of *rule* means in the source of a module; None where that is not known."""
    words = WORDS.get(MISSING.get(rule, ""))
    maker = producer(data, entry) if words else ""
    text = words.get(maker) if words else None
    return SourceHelp(maker, text) if text else None

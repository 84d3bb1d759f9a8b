"""The forms of the ISA table that the executor does not execute, each with the reason.

``docs/executor.md`` lists them (``python docs/site/evidence.py``), and an execution that reaches one ends with its
reason. Remove a form here when you add its factory to :mod:`tclint.executor.instructions`.
"""

from __future__ import annotations

__all__ = ["MISSING"]

_REASONS = {
    "fabric: the memory of an endpoint is that of another device": """
        fabric.submit fabric.submit.commit_group fabric.try_atom fabric.try_get fabric.try_get.tensor
        fabric.try_pullred fabric.try_put fabric.try_put.tensor fabric.try_red fabric.wait.read fabric.wait.reads
        fence.proxy.fabric""",
    "only sm_107 has it, and no such GPU was at hand": """
        applypriority.async.bulk applypriority.async.bulk.tensor cvt.pzo cvt.scaled.n1 cvt.ue5m3x2
        mbarrier.arrive.multicast mbarrier.complete_tx.multicast mbarrier.expect_tx.multicast spcompress spdecompress
        tcgen05.commit.reads tcgen05.ld.spcompress""",
    "textures, samplers and surfaces are objects of the driver": """
        istypep suld suq sured sust sust.formatted tex tex.cube tex.depth tex.multisample tld4 tld4.cube txq""",
    "a multimem address refers to the memory of several devices": """
        multimem.cp.async.bulk multimem.cp.reduce.async.bulk multimem.ld_reduce multimem.red multimem.red.async
        multimem.st multimem.st.async""",
    "only a figure shows which random bits round which element": "cvt.rs",
    "the class of an allocation is a matter of the driver, and no launch file states it": "tensormap.query",
    "no kernel at hand has it, and no GPU to compare with": "tcgen05.alloc.exclusive tcgen05.dealloc.exclusive",
    "no compiler of today emits video instructions": """
        video.scalar video.shift video.simd2 video.simd4 vmad vmad.po vset vset.simd""",
    "no compiler of today emits it, and what it allocates has no bound": "alloca stackrestore stacksave",
}

MISSING = {form: reason for reason, forms in _REASONS.items() for form in forms.split()}
"""Form -> why there is no factory for it, as the end of a sentence that names the form."""

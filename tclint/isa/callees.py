"""Functions that a module may call without their body, because a driver or a compiler provides them."""

from __future__ import annotations

__all__ = ["ASSERTION", "SYSTEM_CALLS", "is_instruction", "needs_no_declaration"]


ASSERTION = "__assertfail"
"""The function that reports a failed assertion. It ends the launch and does not return."""
SYSTEM_CALLS = frozenset({ASSERTION, "__nv_ptx_builtin_ocg_fmax3", "free", "malloc", "vprintf"})
"""The functions that the CUDA driver provides without a body in any module (PTX interoperability guide, "System
calls"), and a maximum of three values that ptxas compiles to one instruction. None accesses tensor memory or waits for
other threads."""

_OPTIX = "_optix_"
"""The prefix of the device functions of OptiX. Its own compiler, and not ptxas, takes modules that call them."""


def needs_no_declaration(callee: str) -> bool:
    """Whether a module may call *callee* without declaring it."""
    return callee.startswith(_OPTIX)


def is_instruction(callee: str) -> bool:
    """Whether ptxas compiles a call of *callee* to an instruction."""
    return callee.startswith("__nv_ptx_builtin_")

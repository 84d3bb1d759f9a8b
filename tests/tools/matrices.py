"""Products of matrices in shared memory that tests write."""

from __future__ import annotations

__all__ = ["ATOMS_32", "LINES_32", "LINES_64", "LINES_128", "NO_SWIZZLE", "descriptor", "wgmma"]

LINES_128, LINES_64, LINES_32, NO_SWIZZLE, ATOMS_32 = (
    0x4000004000000000,
    0x8000002000000000,
    0xC000001000000000,
    0x0000004000800000,
    0x2000004000000000,
)
"""Descriptors with 8 lines from one atom to the next, but for the start address."""


def descriptor(register: str, start: str, bits: int) -> str:
    return f"bfe.u32 %r60, {start}, 4, 14;\ncvt.u64.u32 {register}, %r60;\nor.b64 {register}, {register}, {bits:#x};"


def wgmma(
    a: int | str = 0,
    b: int | str = 8192,
    bits: int = LINES_128,
    transposed: int = 0,
    left: str = "%rd5",
    sparse: bool = False,
) -> str:
    """A product of 64 rows and 64 columns of 32 bytes whose matrices begin at *a* and *b*."""
    starts = [at if isinstance(at, str) else f"%r3, {at}" for at in (a, b)]
    addresses = "\n".join(
        f"add.s32 %r6{n}, {at};" if "," in at else f"mov.b32 %r6{n}, {at};" for n, at in enumerate(starts, 1)
    )
    accumulators = ", ".join(f"%f{n}" for n in range(32))
    flags = f"0, {transposed}" if left.startswith("%") else str(transposed)
    k, metadata = ("32", "%r9, 0, ") if sparse else ("16", "")
    opcode = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n64k{k}.f32.f16.f16"
    return f"""{addresses}
{descriptor("%rd5", "%r61", bits)}
{descriptor("%rd6", "%r62", bits)}
wgmma.fence.sync.aligned;
{opcode} {{{accumulators}}}, {left}, %rd6, {metadata}1, 1, 1, {flags};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""

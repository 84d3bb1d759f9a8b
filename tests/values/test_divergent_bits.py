"""What is said to differ between threads does, whatever the unknown base is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tclint.values import UniformityScope
from tclint.values import thread_masks as T
from tclint.values.divergent_bits import divergent_bits
from tests.tools.support import model, value

EVERY = (1 << 32) - 1
OPERATIONS = {
    "add.u32": lambda v, n: v + n,
    "mul.lo.u32": lambda v, n: v * n,
    "and.b32": lambda v, n: v & n,
    "or.b32": lambda v, n: v | n,
    "xor.b32": lambda v, n: v ^ n,
    "shr.u32": lambda v, n: v >> n,
    "shl.b32": lambda v, n: v << n,
}
SIZES = st.integers(0, 20).map(lambda n: 1 << n)
MASKS = st.tuples(st.integers(0, 12), st.integers(1, 20)).map(lambda t: ((1 << t[1]) - 1) << t[0])
STEP = st.one_of(
    st.tuples(st.sampled_from(("add.u32", "or.b32", "xor.b32")), st.integers(0, 1 << 20)),
    st.tuples(st.just("mul.lo.u32"), st.one_of(SIZES, st.integers(1, 99))),
    st.tuples(st.just("and.b32"), MASKS),
    st.tuples(st.sampled_from(("shr.u32", "shl.b32")), st.integers(0, 12)),
)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 7),
    st.one_of(SIZES, st.integers(1, 999)),
    st.lists(STEP, max_size=6),
    st.lists(st.integers(0, EVERY), min_size=4, max_size=4),
)
def test_values_differ_exactly_where_expected(
    by: int, factor: int, steps: list[tuple[str, int]], bases: list[int]
) -> None:
    code = "\n".join(f"{opcode} %r3, %r3, {n};" for opcode, n in steps)
    kernel = model(
        f"""
    ld.param.u32 %r1, [number];
    mov.u32 %r2, %tid.x;
    shr.u32 %r2, %r2, {by};
    mad.lo.u32 %r3, %r2, {factor}, %r1;
{code}
end:
    ret;
"""
    )
    found = divergent_bits(kernel.values, value(kernel, "%r3"))
    level = found and found.level(T.full(128))
    for base in bases:
        values = []
        for thread in range(128):
            v = base + (thread >> by) * factor & EVERY
            for opcode, n in steps:
                v = OPERATIONS[opcode](v, n) & EVERY
            values.append(v)
        if level is not None:
            assert len(set(values)) > 1
        if level is UniformityScope.DIVERGENT:
            assert any(len(set(values[w : w + 32])) > 1 for w in range(0, 128, 32))


def test_a_descriptor_made_from_an_address_is_followed() -> None:
    kernel = model(
        """
    ld.param.u32 %r1, [number];
    mov.u32 %r2, %tid.x;
    shr.u32 %r2, %r2, 5;
    mad.lo.u32 %r3, %r2, 2048, %r1;
    bfe.u32 %r3, %r3, 4, 14;
    or.b32 %r3, %r3, 0x10000;
end:
    ret;
"""
    )
    found = divergent_bits(kernel.values, value(kernel, "%r3"))
    assert found is not None
    assert found.level(T.full(128)) is UniformityScope.WARP
    assert found.level(T.full(32)) is None

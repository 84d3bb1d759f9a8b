"""What a model knows about a kernel and remembers between questions."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.tools.support import model


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_first_execution_of_an_instruction_is_that_of_its_own_guard(order: tuple[int, int]) -> None:
    m = model(
        """
    ld.global.u32 %r2, [%rd1];
    setp.eq.u32 %p1, %r2, 0;
    mov.u32 %r3, 8;
    @%p1 bra JOIN;
    mov.u32 %r3, 16;
JOIN:
    @%p1 st.shared.u32 [%r3], %r2;
    @!%p1 st.shared.u32 [%r3], %r2;
    ret;
"""
    )
    stores = [i for i, instruction in enumerate(m.function.instructions) if instruction.name == "st.shared"]
    found = dict[int, int | None]()
    for site in (stores[k] for k in order):
        resolve = m.at_first(site).witness
        assert resolve is not None
        (access,) = m.shared.accesses(site)
        found[site] = m.values.constant_of(resolve(access.address))
    assert [found[site] for site in stores] == [8, 16]


def test_what_several_instructions_reach_is_what_each_of_them_reaches() -> None:
    m = model(
        """
    setp.eq.u32 %p1, %r2, 0;
LOOP:
    mov.u32 %r3, 8;
    @%p1 bra SKIP;
    mov.u32 %r3, 16;
    mov.u32 %r4, 16;
SKIP:
    mov.u32 %r5, 16;
    @%p1 bra LOOP;
    ret;
"""
    )
    sites = range(len(m.function.instructions))
    for avoiding in ((), *combinations(sites, 1), *combinations(sites, 2)):
        for start in (-1, *sites):
            expected = {i for i in sites if m.reaches(start, i, avoiding)}
            assert m.reached_from((start,), sites, avoiding) == expected, (start, avoiding)
            for end in sites:
                cut = m.cut(start, end, avoiding)
                assert (cut is None) == (end in expected)
                assert cut is None or (cut <= {*avoiding} and not m.reaches(start, end, cut or avoiding))
        assert m.reached_from((0, 4), sites, avoiding) == {
            i for i in sites if m.reaches(0, i, avoiding) or m.reaches(4, i, avoiding)
        }

"""Loops that wait for a word of memory."""

from __future__ import annotations

import pytest

from tests.tools.support import by_rule, kernel, lint, module

START = "ld.param.u64 %rd0, [pointer];\nld.param.u32 %r9, [number];\n"
TEST = "setp.eq.u32 %p0, %r0, 0;\n"
LOAD = "ld.global.u32 %r0, [%rd0];\n"


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        (f"{LOAD}again:\n{TEST}@%p0 bra again;", True),
        (f"{LOAD}{TEST}again:\nadd.u32 %r1, %r1, 1;\n@%p0 bra again;", True),
        ("ld.shared::cta.u32 %r0, [%r9];\nagain:\n" + TEST + "@%p0 bra again;", True),
        (f"{LOAD}again:\nst.global.u32 [%rd0], 1;\n{TEST}@%p0 bra again;", True),
        (f"{LOAD}{TEST}@%p0 bra again;\nret;\nagain:\nadd.u32 %r1, %r1, 1;\nbra.uni again;", True),
        (f"again:\n{LOAD}{TEST}@%p0 bra again;", False),
        (f"again:\nld.global.nc.u32 %r0, [%rd0];\n{TEST}@%p0 bra again;", False),
        # Something else ends it.
        (f"{LOAD}again:\nadd.u32 %r1, %r1, 1;\nsetp.ne.u32 %p0, %r1, %r0;\n@%p0 bra again;", False),
        (
            f"{LOAD}again:\n{TEST}setp.gt.u32 %p1, %r1, 9;\n@%p1 trap;\nadd.u32 %r1, %r1, 1;\n@%p0 bra again;",
            False,
        ),
        (
            f"{LOAD}again:\n{TEST}setp.gt.u32 %p1, %r1, 9;\n@%p1 exit;\nadd.u32 %r1, %r1, 1;\n@%p0 bra again;",
            False,
        ),
        (f"{LOAD}again:\nmov.u32 %r1, %clock;\nsetp.lt.u32 %p0, %r1, %r0;\n@%p0 bra again;", False),
        (f"{LOAD}again:\nsetp.eq.u32 %p0, %r0, %r1;\nmov.u32 %r1, 1;\n@%p0 bra again;", False),
        # It writes the elements of an array, whose number is loaded: the condition is what unrolling by four left of it.
        (
            f"{LOAD}{TEST}again:\nst.global.u32 [%rd0], 1;\nadd.u64 %rd0, %rd0, 16;\n@%p0 bra again;",
            False,
        ),
        # It does not wait for memory.
        ("setp.eq.u32 %p0, %r9, 0;\nagain:\n@%p0 bra again;", False),
        ("again:\nbra.uni again;", False),
        # Work without an end, whose first word is loaded before it.
        (f"{LOAD}{TEST}@%p0 bra again;\nret;\nagain:\nst.global.u32 [%rd0], 1;\nbra.uni again;", False),
    ],
)
def test_a_loop_that_never_loads_its_word_again_is_reported(body: str, reported: bool) -> None:
    found = by_rule(lint(module(kernel(f"{START}{body}\nret;"))), "MO004")
    assert len(found) == reported
    assert not found or [s.message for s in found[0].steps][:2] == ["loads the word, once", "tests it"]

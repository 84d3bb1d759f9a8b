"""PTX of other producers and times: what nvopencc, Ocelot, ZLUDA, OptiX and others write is accepted."""

from __future__ import annotations

import pytest

from tclint.findings.scales import Confidence
from tests.tools.support import lint

DIALECTS = {
    "a prototype without a semicolon": (
        ".version 1.4\n.target sm_10, map_f64_to_f32\n"
        ".func (.reg .u32 r) f (.reg .u32 a)\n.entry k\n{\n.reg .u32 %r<3>;\ncall.uni (%r1), f, (%r2);\nexit;\n}\n"
        ".func (.reg .u32 r) f (.reg .u32 a)\n{\nmov.u32 r, a;\nret;\n}\n"
    ),
    "vectors in braces and vector registers in one place": (
        ".version 7.0\n.target sm_70\n.address_size 64\n.entry k(.param .u64 p)\n{\n.reg .v4 .u16 %v<1>, %w;\n"
        ".reg .u16 %h<8>;\n.reg .u64 %rd<2>;\nmov.u16 %h1, 1;\nmov.u16 %h2, 2;\nmov.u16 %h3, 3;\nmov.u16 %h4, 4;\n"
        "mov.v4.u16 %w, {%h1, %h2, %h3, %h4};\nmov.v4.u16 {%h1, %h2, %h3, %h4}, %w;\nld.param.u64 %rd1, [p];\n"
        "ld.global.v4.u16 %w, [%rd1];\nld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%rd1];\nret;\n}\n"
    ),
    "a pair of halves as an operand of 32 bits": (
        ".version 7.0\n.target sm_70\n.address_size 64\n.entry k()\n{\n.reg .v2 .b16 %v;\n.reg .b32 %r<3>;\n"
        ".reg .b16 %h<3>;\nmov.b32 %r1, 3;\nmov.b32 %v, %r1;\nmov.b32 %r2, %v;\nmov.b32 %r1, {%h1, %h2};\nret;\n}\n"
    ),
    "a ballot without .sync": (
        ".version 6.2\n.target sm_60\n.address_size 64\n.entry k()\n{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\n"
        "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\nvote.ballot.b32 %r2, %p1;\nret;\n}\n"
    ),
    "calls of OptiX": (
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry __raygen__rg()\n{\n.reg .b32 %r<3>;\n"
        "call (%r1), _optix_get_launch_index_x, ();\ncall _optix_ignore_intersection, ();\nret;\n}\n"
    ),
    "a multiplication and addition without rounding": (
        ".version 1.4\n.target sm_13\n.entry k\n{\n.reg .f32 %f<5>;\nmov.f32 %f1, 0f3F800000;\n"
        "mad.f32 %f2, %f1, %f1, %f1;\nexit;\n}\n"
    ),
    "lines of DWARF": (
        ".version 1.4\n.target sm_10\n@@DWARF .section .debug_info\n@@DWARF .4byte 0x0\n.entry k\n{\nexit;\n}\n"
    ),
    "two targets in a row": (
        ".version 8.6\n.target sm_100a\n.target sm_100a\n.address_size 64\n.entry k()\n{\nret;\n}\n"
    ),
    "the language of a kernel": (
        '.version 9.2\n.target sm_90\n.address_size 64\n.visible .entry k() .language "cuda c++"\n{\nret;\n}\n'
    ),
    "positions in an intermediate representation": (
        '.version 9.4\n.target sm_90\n.address_size 64\n.file 1 "a.py"\n.file 2 "a.tileir"\n.entry k()\n{\n'
        ".loc 1 2 0\n.loc_intermediate 2 42 5\nret;\n}\n.nv_intermediate_source_section {\n.code_block {\n"
        '.ir_name: "tile ir"\n.sourceFileName: 2\n.source_begin\ncuda_tile.module @m { entry @k() { return } }\n'
        ".source_end\n}\n}\n"
    ),
}


@pytest.mark.parametrize("code", DIALECTS.values(), ids=DIALECTS)
def test_a_dialect_is_accepted(code: str) -> None:
    report = lint(code)
    assert not report.problems
    found = [f for f in report.findings if f.rule.id.startswith(("PX", "AV"))]
    assert [f.message for f in found if f.confidence > Confidence.LOW] == []

"""What ptxas makes of instructions that a target accepts and does not implement: the key ``lowered`` of a form."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.availability import required
from benchmarks.shapes import statement
from tclint.driver.cuda_tools import candidates
from tclint.isa.documents import Raw, TableError
from tclint.isa.forms import Form, Match
from tclint.isa.table import _form, table
from tclint.isa.target import Target
from tests.tools.ptxas import find_ptxas

TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103", "sm_107a", "sm_110a", "sm_120a", "sm_121")
EXAMPLES = [(form, example) for form in table() for example in form.examples]
HEAD = """\
.version 9.5
.target {}
.address_size 64
.shared .align 1024 .b8 smem[32768];
.shared .align 8 .b64 mbar;
.global .align 1024 .b8 gmem[65536];
.const .align 16 .b8 cmem[256];
.global .texref tex0;
.global .surfref surf0;
"""
CALLEE = ".func fn(.reg .b32 a) { ret; }\n"
TYPES = {"h": ".b16", "r": ".b32", "f": ".f32", "rd": ".b64", "fd": ".f64"}
ASYNCHRONOUS = re.compile(r"\b(?:USTGR|UREDGR|UBLK|UTMA)")
"""Machine instructions that start an asynchronous operation."""
CALLS = re.compile(r"\bCALL\b")
CONVERTS = re.compile(r"\bF2FP\.\S*UNPACK")
"""In a multiplication: its operands are converted first."""
DRIVER = "__cuda_syscall_"
"""How the routines are called that the driver has."""
BY_ROUTINES = ("div.float", "rcp", "rem", "rsqrt", "sqrt", "tcgen05.dealloc", "tcgen05.dealloc.exclusive")
"""Forms that are implemented everywhere, and call a routine for some operands, or to report a fault."""


def of_example(example: str) -> Match:
    match = table().match(*statement(example))
    assert match is not None
    return match


def becomes(match: Match, name: str) -> str:
    target = Target.parse(name)
    assert target is not None
    return (match.lowered(target) or ("", ""))[0]


def kernel(number: int, example: str) -> str:
    """A kernel that loads all registers of the instruction before it and stores them after it."""
    named = sorted(set(re.findall(r"%(rd|fd|r|f|h)(\d+)\b", example)))
    loads, stores = (
        "".join(
            f"{verb}.volatile.global{TYPES[kind]} "
            + (f"%{kind}{n}, [%base+{8 * at}];" if verb == "ld" else f"[%base+{8 * at}], %{kind}{n};")
            for at, (kind, n) in enumerate(named)
        )
        for verb in ("ld", "st")
    )
    return f""".visible .entry k{number}(.param .u64 p, .param .u64 P0, .param .u32 P1, .param .align 64 .b8 tm[128]) {{
.local .align 16 .b8 lmem[256]; .param .align 16 .b8 lparam[64];
.reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<400>; .reg .f32 %f<300>; .reg .b64 %rd<64>; .reg .f64 %fd<64>;
.reg .b8 %b<16>; .reg .b128 %rq<16>; .reg .b64 %base;
TS: .branchtargets L0, L1;
ld.param.u64 %base, [p]; {loads}
{example}
{stores} L0: L1: ret; }}
"""


def machine_code(ptxas: Path, nvdisasm: str, target: str, examples: list[str], folder: Path) -> Iterator[str]:
    """The opcodes of each of *examples*, one kernel each, and the routines of the driver that it names."""
    source, cubin = folder / "k.ptx", folder / "k.cubin"
    source.write_text(HEAD.format(target) + CALLEE + "".join(map(kernel, range(len(examples)), examples)))
    subprocess.run([ptxas, "-arch", target, source, "-o", cubin], check=True, capture_output=True)
    text = subprocess.run([nvdisasm, cubin], check=True, capture_output=True, text=True).stdout
    sections = dict(
        re.findall(r"\.section\s+\.((?:text|nv\.info)\.k\d+),(.*?)(?=\.section\s|\Z)", text, re.DOTALL)
    )
    for number in range(len(examples)):
        code = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", sections[f"text.k{number}"])
        yield " ".join(code + re.findall(rf"{DRIVER}\w+", sections[f"nv.info.k{number}"]))


def fits(form: Form, to: str, code: str) -> bool:
    """Whether machine code is what the table states: *to*, or the instruction itself if it is empty."""
    if form.flow in ("call", "trap"):
        return True
    if to == "trap":
        return "BPT.TRAP" in code.partition(" BRA")[0]
    if to == "synchronous":
        return not ASYNCHRONOUS.search(code)
    if (DRIVER in code) != (to == "call") or "BPT.TRAP" in code.partition(" BRA")[0]:
        return False
    emulated = CALLS.search(code) or (form.family == "matrix" and CONVERTS.search(code))
    return to == "call" or form.name in BY_ROUTINES or bool(emulated) == (to == "emulation")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_machine_code_is_what_the_table_states(target: str, tmp_path: Path) -> None:
    nvdisasm = next(candidates("nvdisasm"), None)
    if nvdisasm is None:
        pytest.skip("no nvdisasm")
    parsed = Target.parse(target)
    assert parsed is not None
    needed = required([example for _, example in EXAMPLES])
    wanted = [
        (form, example)
        for (form, example), needs in zip(EXAMPLES, needed, strict=True)
        if not any(available.lacking(parsed, (9, 5)) for available in needs)
    ]
    code = machine_code(find_ptxas(), nvdisasm, target, [example for _, example in wanted], tmp_path)
    wrong = [
        (example, to, found)
        for (form, example), found in zip(wanted, code, strict=True)
        if not fits(form, to := becomes(of_example(example), target), found)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32 {%r1,%r2,%r3,%r4}, {%r1,%r2,%r3,%r4}, {%r1,%r2}, {%r1,%r2,%r3,%r4};",
         {"sm_80": "", "sm_89": "", "sm_90a": "emulation", "sm_120a": "emulation"}),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
         {"sm_89": "", "sm_90a": "emulation", "sm_103": "emulation", "sm_110a": "emulation", "sm_120a": "", "sm_121": ""}),
        ("fabric.try_get.async.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys.b128 [smem], [%r1, %rd1], 64, [mbar];",
         {"sm_100a": "", "sm_110a": "", "sm_120a": "trap", "sm_121": "trap"}),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [gmem], 64, [mbar];",
         {"sm_90a": "", "sm_100a": "", "sm_110a": "", "sm_120a": "call", "sm_121": "call"}),
        ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem], [gmem], 64, [mbar];",
         {"sm_90a": "", "sm_120a": "", "sm_121": ""}),
        ("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [smem], [smem], 64, [mbar];",
         {"sm_90a": "", "sm_120a": "", "sm_121": ""}),
    ],
)  # fmt: skip
def test_what_a_target_does_not_implement(example: str, expected: dict[str, str]) -> None:
    assert {target: becomes(of_example(example), target) for target in expected} == expected


def test_an_unknown_lowering_is_refused() -> None:
    raw = {"name": "braid", "syntax": "braid d, a", "lowered": [{"targets": "sm_90+", "to": "magic"}]}
    with pytest.raises(TableError, match="unknown lowering 'magic'"):
        _form(Raw("test", 0, raw), {})

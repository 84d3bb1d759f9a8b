"""What ptxas makes of instructions that a target accepts and does not implement: the key ``lowered`` of a form."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.coverage import statement
from tclint.driver.cuda_tools import candidates
from tclint.isa.documents import Raw, TableError
from tclint.isa.forms import Match
from tclint.isa.table import _form, table
from tclint.isa.target import Target
from tests.tools.ptxas import find_ptxas

TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103", "sm_107a", "sm_110a", "sm_120a", "sm_121")
EXAMPLES = [example for form in table() if form.lowered for example in form.examples]
HEAD = """\
.version 9.5
.target {}
.address_size 64
.shared .align 1024 .b8 smem[32768];
.shared .align 8 .b64 mbar;
.global .align 1024 .b8 gmem[65536];
.global .texref tex0;
.global .surfref surf0;
"""
TYPES = {"h": ".b16", "r": ".b32", "f": ".f32", "rd": ".b64", "fd": ".f64"}
ASYNCHRONOUS = re.compile(r"\b(?:USTGR|UREDGR|UBLK|UTMA)")
"""Machine instructions that start an asynchronous operation."""
EMULATED = re.compile(r"\bCALL\b|\bF2FP\.\S*UNPACK")
"""A call of a routine, or a conversion of the operands."""
ELSEWHERE = re.compile(r"(?!.*multicast)cp\.async\.bulk.*\.shared::cluster\.global")
"""A copy for which ``sm_120`` tests whether its destination is in another CTA, and only then calls a routine."""


def of_example(example: str) -> Match:
    match = table().match(*statement(example))
    assert match is not None
    return match


def available(match: Match, name: str) -> bool:
    target = Target.parse(name)
    assert target is not None
    return not match.missing(target, (9, 5))


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
    return f""".visible .entry k{number}(.param .u64 p) {{
.reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<400>; .reg .f32 %f<300>; .reg .b64 %rd<64>; .reg .f64 %fd<64>;
.reg .b64 %base; ld.param.u64 %base, [p]; {loads}
{example}
{stores} ret; }}
"""


def machine_code(ptxas: Path, nvdisasm: str, target: str, examples: list[str], folder: Path) -> Iterator[str]:
    """The opcodes of each of *examples*, one kernel each."""
    source, cubin = folder / "k.ptx", folder / "k.cubin"
    source.write_text(HEAD.format(target) + "".join(map(kernel, range(len(examples)), examples)))
    subprocess.run([ptxas, "-arch", target, source, "-o", cubin], check=True, capture_output=True)
    text = subprocess.run([nvdisasm, cubin], check=True, capture_output=True, text=True).stdout
    parts = re.split(r"\n\.text\.k(\d+):", text)
    bodies = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    for number in range(len(examples)):
        code = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", bodies[number])
        yield " ".join(code)


def fits(to: str, code: str) -> bool:
    """Whether machine code is what the table states: *to*, or the instruction itself if it is empty."""
    if to == "trap":
        return "BPT.TRAP" in code.partition(" BRA")[0]
    if to == "synchronous":
        return not ASYNCHRONOUS.search(code)
    return bool(EMULATED.search(code)) == (to == "emulation") and "BPT.TRAP" not in code.partition(" BRA")[0]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_machine_code_is_what_the_table_states(target: str, tmp_path: Path) -> None:
    nvdisasm = next(candidates("nvdisasm"), None)
    if nvdisasm is None:
        pytest.skip("no nvdisasm")
    wanted = [example for example in EXAMPLES if available(of_example(example), target)]
    code = machine_code(find_ptxas(), nvdisasm, target, wanted, tmp_path)
    wrong = [
        (example, to, found)
        for example, found in zip(wanted, code, strict=True)
        if not fits(to := becomes(of_example(example), target), found) and not ELSEWHERE.match(example)
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
    ],
)  # fmt: skip
def test_what_a_target_does_not_implement(example: str, expected: dict[str, str]) -> None:
    assert {target: becomes(of_example(example), target) for target in expected} == expected


def test_an_unknown_lowering_is_refused() -> None:
    raw = {"name": "braid", "syntax": "braid d, a", "lowered": [{"targets": "sm_90+", "to": "magic"}]}
    with pytest.raises(TableError, match="unknown lowering 'magic'"):
        _form(Raw("test", 0, raw), {})

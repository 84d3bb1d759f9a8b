"""Which threads issue tcgen05 operations, and in which order: small kernels; the pages of the rules hold the plain cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tclint.analyses.model import KernelModel
from tclint.checks.tcgen05_order import unordered_pair
from tclint.dataflow import Path
from tclint.findings.selection import Selected
from tclint.ir.frontend import analyse
from tclint.syntax.source import Source
from tests.tools.support import agrees, by_rule, kernel, lint, module
from tests.tools.tcgen05 import (
    COMMIT,
    FAR,
    LD_DONE,
    LOAD,
    MMA,
    OVERWRITES,
    ST_DONE,
    STORE,
    USE,
    ZEROS,
    other_role,
    text,
    wait,
)

COPY = "@%p1 tcgen05.cp.cta_group::1.128x256b [%r9], %rd0;"
SHIFT = "@%p1 tcgen05.shift.cta_group::1.down [%r9];"
FROM_TMEM = MMA.replace("%rd0", "[%r9]").replace("[%r9],", "[%r10],", 1)
FILL, REUSE, LAST = (MMA.replace("f16", f"f16.collector::a::{usage}") for usage in ("fill", "use", "lastuse"))
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [other];"
AFTER, BEFORE = "tcgen05.fence::after_thread_sync;", "tcgen05.fence::before_thread_sync;"


def shape(idesc: str) -> str:
    return f"mov.b32 %r7, {idesc};\n{MMA}"


BIG, SMALL, HALF_TYPE = shape("0x08200490"), shape("0x08100490"), shape("0x08200410")
LANE = "and.b32 %r1, %r0, 31;\nsetp.eq.u32 %p5, %r1, 0;"

ISSUE: dict[str, str] = {
    "one thread": f"{MMA}\n{COMMIT}",
    "all threads": f"{MMA.replace('@%p1 ', '')} // want TC010\n{COMMIT.replace('@%p1 ', '')}",
    "one warp": f"setp.lt.u32 %p4, %r0, 32;\n{MMA.replace('%p1', '%p4')} // want TC010\n{COMMIT.replace('%p1', '%p4')}",
    "two lanes": f"setp.lt.u32 %p4, %r0, 2;\n{MMA.replace('%p1', '%p4')} // want TC010\n{COMMIT.replace('%p1', '%p4')}",
    "one lane of each warp": f"{LANE}\n{MMA.replace('%p1', '%p5')}\n{COMMIT.replace('%p1', '%p5')}",
    "elected": f"elect.sync _|%p4, -1;\n{MMA.replace('%p1', '%p4')}\n{COMMIT.replace('%p1', '%p4')}",
    "all threads under a parameter": f"{MMA.replace('%p1', '%p3')} // want TC010\n{COMMIT.replace('%p1', '%p3')}",
    "a thread that memory names": (
        f"ld.shared.b32 %r1, [other];\nsetp.eq.u32 %p4, %r1, %r0;\n{MMA.replace('%p1', '%p4')}\n{COMMIT.replace('%p1', '%p4')}"
    ),
    "lanes that shuffled data choose": (
        f"shfl.sync.down.b32 %r1, %r0, 1, 31, -1;\nsetp.eq.u32 %p4, %r1, 1;\n{MMA.replace('%p1', '%p4')}\n{COMMIT.replace('%p1', '%p4')}"
    ),
    "the other lanes have left": f"@!%p1 ret;\n{MMA.replace('@%p1 ', '')}\n{COMMIT.replace('@%p1 ', '')}",
    "a commit of another thread": f"setp.eq.u32 %p4, %r0, 7;\n{MMA}\n{COMMIT.replace('%p1', '%p4')} // want TC008",
    "a commit of another warp": f"setp.eq.u32 %p4, %r0, 32;\n{MMA}\nbar.sync 0;\n{COMMIT.replace('%p1', '%p4')} // want TC008",
    "a commit of a thread that memory names": (
        f"ld.shared.b32 %r1, [other];\nsetp.eq.u32 %p4, %r1, %r0;\n{MMA} // want TC005\n{COMMIT.replace('%p1', '%p4')}"
    ),
    "two threads with an operation each": (
        f"setp.eq.u32 %p4, %r0, 7;\n{MMA}\n{MMA.replace('%p1', '%p4').replace('[%r9]', FAR)}\n{COMMIT}\n{COMMIT.replace('%p1', '%p4')}"
    ),
    "a commit before the operations": f"setp.eq.u32 %p4, %r0, 7;\n{COMMIT.replace('%p1', '%p4')}\n{MMA}\n{COMMIT}",
}  # fmt: skip


@pytest.mark.parametrize("case", ISSUE)
def test_the_threads_that_issue_are_checked(case: str) -> None:
    agrees(text(ISSUE[case]), "TC005", "TC008", "TC010")


def test_a_device_function_may_be_called_by_one_thread() -> None:
    body = text(f"{MMA.replace('@%p1 ', '')}\n{COMMIT.replace('@%p1 ', '')}")
    assert by_rule(lint(body), "TC010")
    callee = body.replace(
        ".visible .entry k(.param .u64 pointer, .param .u32 number)\n.reqntid 128",
        ".visible .func k(.param .u32 number)",
    )
    assert by_rule(lint(callee), "TC010") == []


ORDER: dict[str, str] = {
    "one shape": f"{BIG}\n{BIG}\n{COMMIT}",
    "another N": f"{BIG}\n{SMALL} // want TC009\n{COMMIT}",
    "another type": f"{BIG}\n{HALF_TYPE}\n{COMMIT}",
    "another N elsewhere": f"{BIG}\nadd.u32 %r1, %r9, 128;\n{SMALL.replace('[%r9]', '[%r1]')}\n{COMMIT}",
    "another N in some of the columns": f"{BIG}\n{SMALL.replace('[%r9]', FAR)} // want TC009\n{COMMIT}",
    "a copy over the accumulator": f"{MMA}\n{COPY} // want TC009\n{COMMIT}",
    "a copy over the accumulator of the previous iteration": f"again: {COPY} // want TC009\n{MMA}\n{COMMIT}\n@%p3 bra again;\n{wait()}\n{LOAD}\n{LD_DONE}",
    "a copy that follows the wait in each iteration": f"again: {COPY}\n{MMA}\n{COMMIT}\n{wait()}\n@%p3 bra again;\n{LOAD}\n{LD_DONE}",
    "a copy elsewhere": f"{MMA}\n{COPY.replace('[%r9]', FAR)}\n{COMMIT}",
    "a copy after the wait": f"{MMA}\n{COMMIT}\n{wait()}\n{COPY}\n{COMMIT}",
    "a copy after a wait, with no commit": f"{MMA}\n{wait()}\n{COPY} // want TC009\n{COMMIT}",
    "a copy after a commit, with no wait": f"{LOAD}\n{LD_DONE}\n{MMA}\n{COMMIT}\n{COPY} // want TC009\n{COMMIT}",
    "a copy after a wait for another operation": f"{LOAD}\n{LD_DONE}\n{MMA}\n{COMMIT}\n{wait().replace('done', 'other')}\n{COPY}\n{COMMIT}",
    "a copy of another thread": f"{MMA}\nsetp.eq.u32 %p4, %r0, 1;\n{COPY.replace('%p1', '%p4')}\n{COMMIT}\n{COMMIT.replace('%p1', '%p4')}",
    "the result as an operand": f"{MMA}\n{FROM_TMEM} // want TC009\n{COMMIT}",
    "what was copied as an operand": f"{COPY}\n{FROM_TMEM}\n{COMMIT}",
    "two copies, which the manual does not order": f"{COPY}\n{COPY}\n{COMMIT}",
    "two copies of other shapes": f"{COPY}\n{COPY.replace('128x256b', '4x256b')}\n{COMMIT}",
    "an mma and a shift": f"{MMA}\n{SHIFT}\n{MMA}\n{COMMIT}",
    "two shifts": f"{SHIFT}\n{SHIFT} // want TC009\n{COMMIT}",
    "a shift and a small copy": f"{SHIFT}\n{COPY.replace('128x256b', '4x256b')}\n{COMMIT}",
    "a shift and a copy": f"{SHIFT}\n{COPY} // want TC009\n{COMMIT}",
    "a copy and a shift": f"{COPY}\n{SHIFT} // want TC009\n{COMMIT}",
    "a copy in another branch": f"@!%p3 bra on;\n{MMA}\nbra off;\non: {COPY}\noff: mov.u32 %r1, 0;\n{COMMIT}",
}  # fmt: skip


@pytest.mark.parametrize("case", ORDER)
def test_pairs_of_operations(case: str) -> None:
    agrees(text(ORDER[case]), "TC009")


def test_a_copy_over_an_operand_is_doubtful() -> None:
    """Block-scaled loops copy the next scale factors over those that the last multiplication may still read."""
    copy = COPY.replace("[%r9]", FAR)
    scaled = "@%p1 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r9], %rd0, %rd1, %r7, [%r10], [%r11], %p0;"
    (finding,) = by_rule(lint(text(f"{copy}\n{scaled}\n{copy}\n{COMMIT}")), "TC009")
    assert finding.confidence.label == "low"
    assert by_rule(lint(text(f"{copy}\n{scaled}\n{COMMIT}\n{wait()}\n{copy}\n{COMMIT}")), "TC009") == []


def test_an_operation_is_followed_once_to_all_that_may_clash_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    real = KernelModel.paths

    def counted(model: KernelModel, start: int, *rest: Any) -> Iterator[Path]:
        starts.append(start)
        return real(model, start, *rest)

    monkeypatch.setattr(KernelModel, "paths", counted)
    copies = "\n".join(COPY.replace("128x256b", shape) for shape in ("128x256b", "4x256b", "128x128b"))
    someone_else = wait().replace("done", "other")
    body = text(f"{LOAD}\n{LD_DONE}\n{MMA}\n{MMA}\n{COMMIT}\n{someone_else}\n{copies}\n{COMMIT}")
    program, _ = analyse(Source(body.encode(), "k.ptx"))
    assert list(unordered_pair(KernelModel(program.functions[0], program))) == []
    assert len(starts) == 2  # each multiplication, not each with each copy


REGISTERS: dict[str, str] = {
    "overwritten": f"{LOAD}\nmov.b32 %r21, 0; // want TC011\n{LD_DONE}\n{USE}",
    "overwritten after the wait": f"{LOAD}\n{LD_DONE}\nmov.b32 %r21, 0;\n{USE}",
    "overwritten after a use": f"{LOAD}\nadd.s32 %r1, %r20, 1;\nmov.b32 %r21, 0;\n{LD_DONE}",
    "overwritten by itself": f"{LOAD}\nadd.s32 %r21, %r21, 1;\n{LD_DONE}",
    "moved first": f"{LOAD}\nmov.b32 %r1, %r21;\nmov.b32 %r21, 0;\n{LD_DONE}",
    "loaded twice": f"{LOAD}\n{LOAD.replace('[%r9]', FAR)}\n{LD_DONE}",
    "overwritten on another path": f"@%p3 bra on;\n{LOAD}\nbra off;\non: mov.b32 %r21, 0;\noff: {LD_DONE}\n{USE}",
    "the source of a store": f"{STORE}\nmov.b32 %r21, 0;\n{ST_DONE}",
    "another register": f"{LOAD}\n{ZEROS.replace('[%r9]', FAR)}\nmov.b32 %r31, 0;\n{LD_DONE}\n{ST_DONE}",
}  # fmt: skip


@pytest.mark.parametrize("case", REGISTERS)
def test_registers_of_loads(case: str) -> None:
    agrees(text(REGISTERS[case]), "TC011")


COLLECTOR: dict[str, str] = {
    "filled": f"{FILL}\n{REUSE}\n{LAST}",
    "never filled": f"{REUSE} // want TC021",
    "used after the last use": f"{FILL}\n{LAST}\n{REUSE} // want TC021",
    "discarded": f"{FILL}\n{MMA}\n{LAST} // want TC021",
    "filled by another thread": f"setp.eq.u32 %p4, %r0, 1;\n{FILL.replace('%p1', '%p4')}\n{REUSE}",
    "filled under the same condition": f"@!%p3 bra on;\n{FILL}\non: mov.u32 %r1, 0;\n@!%p3 bra off;\n{LAST}\noff: mov.u32 %r1, 1;",
    "filled on one path": f"@!%p3 bra on;\n{FILL}\non: {LAST}",
}  # fmt: skip


@pytest.mark.parametrize("case", COLLECTOR)
def test_collector_buffers(case: str) -> None:
    agrees(text(f"{COLLECTOR[case]}\n{COMMIT}"), "TC021")


def test_a_buffer_that_one_path_fills_is_doubtful() -> None:
    (finding,) = by_rule(lint(text(f"{COLLECTOR['filled on one path']}\n{COMMIT}")), "TC021")
    assert finding.confidence.label == "low"


ADD = "setp.eq.u32 %p0, %r0, %r0;\n"
START: dict[str, str] = {
    "the sum starts with the product": f"{MMA}\n{ADD}{MMA}\n{COMMIT}",
    "the sum starts with nothing": f"{ADD}{MMA} // want TC024\n{COMMIT}",
    "by a number": f"{MMA.replace('%p0', '1')} // want TC024\n{COMMIT}",
    "a store": f"{STORE}\n{ST_DONE}\nbar.sync 0;\n{ADD}{MMA}\n{COMMIT}",
    "a store that comes too late": f"{ADD}{MMA}\n{COMMIT}\n{wait()}\n{STORE}\n{ST_DONE}",
    "a copy": f"{COPY}\n{ADD}{MMA}\n{COMMIT}",
    "a store far away": f"add.s32 %r12, %r9, 256;\n{STORE.replace('%r9', '%r12')}\n{ST_DONE}\n{ADD}{MMA} // want TC024\n{COMMIT}",
    "a store to an unknown address": f"{STORE.replace('%r9', '%r8')}\n{ST_DONE}\n{ADD}{MMA}\n{COMMIT}",
    "an unknown predicate": f"{MMA.replace('%p0', '%p3')}\n{COMMIT}",
}  # fmt: skip


@pytest.mark.parametrize("case", START)
def test_what_a_sum_starts_with(case: str) -> None:
    agrees(text(START[case]), "TC024")


WAITING = wait(9).replace("[done]", "[other]")
OVERWRITTEN = f"{WAITING}\n{AFTER}\n{OVERWRITES}"


def fences(body: str, then: str = OVERWRITTEN) -> list[tuple[str, str, str]]:
    """The findings about fences where warps 0 to 3 execute *body*, while warp 4 executes *then*."""
    code = text(f"{other_role(then)}\n{body}\ndone_here: mov.u32 %r1, 0;", 160)
    report = lint(code, selected=Selected(strict=True))
    return [
        (f.rule.id, f.severity.label, f.confidence.label)
        for f in report.findings
        if f.rule.id in ("TC013", "TC014")
    ]


READ = f"{LOAD}\n{LD_DONE}"
TWICE = f"{MMA}\n{COMMIT}\n{wait()}\n{AFTER}\n{READ}\n{BEFORE}\n{ARRIVE}\n{wait(1)}\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{MMA}\n{COMMIT}\n{wait()}\n{READ}\n{BEFORE}\n{ARRIVE}", [("TC013", "warning", "medium")]),
        (f"{MMA}\n{COMMIT}\n{wait()}\n{AFTER}\n{READ}", []),
        (f"{MMA}\n{COMMIT}\n{wait()}\n{AFTER}\n{READ}\n{ARRIVE}", [("TC014", "warning", "medium")]),
        (f"{MMA}\n{COMMIT}\n{wait()}\n{AFTER}\n{READ}\n{BEFORE}\n{ARRIVE}", []),
        (f"{TWICE}{AFTER}\n{READ}\n{BEFORE}\n{ARRIVE}", []),
        (f"{TWICE}{READ}\n{BEFORE}\n{ARRIVE}", [("TC013", "warning", "medium")]),
        (f"{TWICE}{AFTER}\n{READ}\n{ARRIVE}", [("TC014", "warning", "medium")]),
        (f"{MMA}\n{COMMIT}\n{wait().replace('done', 'other')}\n{READ}", []),
        (f"{READ}\n{MMA}\n{COMMIT}\n{wait()}", []),
    ],
)
def test_fences(body: str, expected: list[tuple[str, str, str]]) -> None:
    assert fences(body) == expected


@pytest.mark.parametrize(
    ("then", "found"),
    [
        (OVERWRITTEN, True),
        # The columns are overwritten only after the arrival that follows the fence.
        (f"{WAITING}\n{wait(8)}\n{AFTER}\n{OVERWRITES}", False),
        (f"{wait(8)}\n{WAITING}\n{AFTER}\n{OVERWRITES}", False),
        # The arrival releases something else: the thread accesses no tensor memory, or other columns.
        (WAITING, False),
        (f"{WAITING}\n{OVERWRITES.replace('[%r9]', FAR)}", False),
        (f"{WAITING}\n{READ}", False),
    ],
)
def test_an_arrival_needs_a_fence_for_what_it_alone_lets_start(then: str, found: bool) -> None:
    body = f"{AFTER}\n{READ}\n{ARRIVE}\n{BEFORE}\n{ARRIVE.replace('other', 'done')}"
    assert fences(body, then) == ([("TC014", "warning", "medium")] if found else [])


@pytest.mark.parametrize(
    ("then", "found"),
    [
        (f"{WAITING}\n{AFTER}\n{OVERWRITES}", False),
        (f"{WAITING}\n{OVERWRITES}\n{AFTER}", True),
        (f"{WAITING}\n@%p3 bra skip;\n{AFTER}\nskip: {OVERWRITES}", True),
        # Other columns, or a load after a load.
        (f"{WAITING}\n{OVERWRITES.replace('[%r9]', FAR)}\n{AFTER}", False),
        (f"{WAITING}\n{READ}\n{AFTER}", False),
        # Either mbarrier orders the two.
        (f"{wait(8)}\n{AFTER}\n{WAITING}\n{OVERWRITES}", False),
        (f"{WAITING}\n{AFTER}\n{wait(8)}\n{OVERWRITES}", False),
        (f"{WAITING}\n{wait(8)}\n{OVERWRITES}\n{AFTER}", True),
        # What is done before the wait follows nothing.
        (f"{OVERWRITES}\n{WAITING}\n{AFTER}", False),
    ],
)
def test_by_the_letter_an_operation_needs_a_fence_after_the_wait_for_a_loading_thread(
    then: str, found: bool
) -> None:
    body = f"{READ}\n{BEFORE}\n{ARRIVE}\n{ARRIVE.replace('other', 'done')}"
    assert fences(body, then) == ([("TC013", "warning", "medium")] if found else [])
    assert by_rule(lint(text(f"{other_role(then)}\n{body}\ndone_here: mov.u32 %r1, 0;", 160)), "TC013") == []


LOOP = """
    mov.u32 %r1, 0;
loop:
    {}
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p6, %r1, 4;
    @%p6 bra loop;
"""


@pytest.mark.parametrize(
    ("choice", "noted"),
    [
        ("setp.eq.u32 %p1, %r0, 0;", False),
        ("elect.sync _|%p1, -1;", False),
        ("elect.sync _|%p1, -1;\nand.pred %p1, %p1, %p3;", False),
        ("mov.u32 %r1, %laneid;\nsetp.eq.u32 %p1, %r1, 0;", False),
        ("ld.shared.b32 %r1, [other];\nsetp.eq.u32 %p1, %r0, %r1;", False),
        ("setp.lt.u32 %p1, %r0, 1;", True),
        ("and.b32 %r1, %r0, 31;\nsetp.eq.u32 %p1, %r1, 0;", True),
    ],
)
def test_what_ptxas_takes_for_one_thread(choice: str, noted: bool) -> None:
    """As it was seen in the SASS of ptxas 13.0 and 13.5."""
    report = lint(text(f"{choice}\n{LOOP.format(MMA)}\n{COMMIT}"))
    assert [f.severity.label for f in by_rule(report, "CV009")] == (["info"] if noted else [])


def test_without_reqntid_an_index_may_be_one_of_several() -> None:
    body = text(f"{LOOP.format(MMA)}\n{COMMIT}")
    assert by_rule(lint(body), "CV009") == []
    assert len(by_rule(lint(body.replace(".reqntid 128", "")), "CV009")) == 1


def test_setting_up_costs_nothing() -> None:
    assert by_rule(lint(text(f"setp.lt.u32 %p1, %r0, 1;\n{MMA}\n{COMMIT}")), "CV009") == []


def test_messages() -> None:
    report = lint(text(f"setp.eq.u32 %p4, %r0, 7;\n{MMA}\n{COMMIT.replace('%p1', '%p4')}"))
    (finding,) = by_rule(report, "TC008")
    assert finding.message.endswith("executed by thread 7, while tcgen05.mma was issued by thread 0")
    assert [s.role for s in finding.steps] == ["thread 0", "thread 7"]
    (finding,) = by_rule(lint(module(kernel("tcgen05.shift.cta_group::1.down [%r9];\nret;"))), "TC010")
    assert "tcgen05.shift is executed by all threads" in finding.message

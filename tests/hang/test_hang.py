"""What `tclint hang` makes of positions: the waits, the cycle, its causes, the text, the JSON, and bad input."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hangs
from benchmarks.hangs.plants import PLANTS
from tclint.driver.cuda_tools import candidates
from tclint.hang.cycle import End
from tclint.hang.explain import Explanation, Hang, chosen, explain
from tclint.hang.machine_code import assembled, parsed
from tclint.hang.positions import PositionError, listed
from tclint.hang.render import render_json, render_text
from tclint.hang.waits import CompletionStatus
from tclint.ir.frontend import analyse
from tclint.linting import check
from tclint.replay.verdict import Replay
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.project import ROOT
from tests.tools.ptxas import find_ptxas
from tests.tools.schema import strict
from tests.tools.support import HOPPER, kernel, module

PLANTED = {plant.job: plant for plant in PLANTS}


def planted(name: str) -> str:
    return hangs.planted(PLANTED[name])


@cache
def hang(text: str, at: str, shape: tuple[int, ...] | None = None) -> Explanation:
    """Kept; a test that patches tclint asks ``hang.__wrapped__``."""
    source = Source.from_bytes(text.encode(), "k.ptx")
    parsed_module, _ = analyse(source)
    positions = listed(at)
    return explain(
        source, parsed_module, chosen(source, parsed_module, None, positions), Hang(positions, None, shape)
    )


def chain(found: Explanation) -> list[tuple[int, str]]:
    """The line and the object of each wait of the chain."""
    assert found.chain is not None
    waiters = [found.waiters[n] for n in found.chain.waiters]
    return [(found.locations.line(found.stops[w.stop].site), w.object.name) for w in waiters]


def causes(found: Explanation) -> list[tuple[str, str]]:
    return [(cause.kind, cause.what) for cause in found.causes]


def test_a_missing_arrival_is_the_end_of_the_chain() -> None:
    found = hang(planted("ring-release-missing"), "54, 72")
    assert chain(found) == [(72, "mbarrier full[4]"), (54, "mbarrier empty[4]")]
    assert found.chain is not None
    assert found.chain.end is End.NOTHING
    assert causes(found) == [("no-operation", "no thread arrives at mbarrier empty[4]")]


def test_a_count_that_is_not_reached_is_the_cause_of_a_cycle() -> None:
    found = hang(planted("ring-empty-count"), "54, 72")
    assert found.chain is not None
    assert found.chain.end is End.CYCLE
    assert {line for line, _ in chain(found)} == {54, 72}
    assert causes(found) == [("count", "a phase of mbarrier empty[4] needs 129 arrivals and receives 128")]


def test_phases_are_those_of_a_replay_that_ends_at_the_same_waits() -> None:
    found = hang(planted("ring-empty-count"), "54, 72")
    assert {n: [phase.number for phase in phases] for n, phases in found.phases.items()} == {0: [0], 1: [1]}
    assert not hang(planted("ring-empty-count"), "72").phases


def test_threads_at_no_position_no_longer_arrive() -> None:
    found = hang(planted("handoff-second-stops"), "0:0=41")
    assert found.chain is not None
    assert found.chain.end is End.GONE
    ((kind, what),) = causes(found)
    assert (kind, what) == ("gone", "warp 1 no longer arrives at mbarrier pong: exited, or not listed")


def test_threads_past_an_arrival_are_listed() -> None:
    found = hang(planted("handoff-second-stops"), "0:0=41, 0:1=63")
    assert ("gone", "warp 1 no longer arrives at mbarrier pong") in causes(found)


def test_threads_before_an_arrival_may_still_arrive() -> None:
    found = hang(planted("handoff-second-stops"), "0:0=41, 0:1=55")
    statuses = {share.status for waiter in found.waiters for share in waiter.shares}
    assert CompletionStatus.RUNNING in statuses
    assert not found.decided


def test_a_cycle_that_no_thread_can_enter_has_no_first_phase() -> None:
    found = hang(planted("handoff-crosswise"), "41, 53")
    ((kind, what),) = causes(found)
    assert kind == "first-phase"
    assert "each wait of the cycle is for phase 0 at first" in what


def test_two_waits_that_are_both_passed_at_first_may_miss_a_phase() -> None:
    text = planted("handoff-second-parity")
    ((kind, what),) = causes(hang(text, "41, 53"))
    assert (kind, what.partition(",")[0]) == ("first-phase", "both waits of the cycle are passed at first")
    step = "    add.u32 %r6, %r6, 1;"
    assert causes(hang(text.replace(step, f"    bar.sync 1, 64; {step.strip()}"), "41, 53")) == []


def test_a_cycle_that_works_has_no_cause() -> None:
    assert causes(hang(hangs.text_of("ring"), "54, 72")) == []


def test_threads_of_different_ctas_are_distinguished() -> None:
    found = hang(planted("exchange-one-stops"), "0:0=49, 1:0=58")
    assert chain(found) == [(58, "the cluster barrier"), (49, "mbarrier sent")]
    assert found.chain is not None
    assert found.chain.end is End.GONE


def test_a_copy_that_does_not_reach_a_cta_is_a_cause() -> None:
    found = hang(planted("multicast-mask"), "0:0=65, 0:1=65, 1:0=65, 1:1=65, 0:2=48, 1:2=53")
    assert ("bytes", "no copy to mbarrier full reaches CTA 1 of the cluster") in causes(found)


def test_bytes_that_no_copy_completes_are_a_cause() -> None:
    assert ("bytes", "a phase of mbarrier full[4] expects 1024 bytes, and copies complete 0") in causes(
        hang(planted("ring-copy-missing"), "54, 72")
    )


def test_bytes_that_other_threads_expect_are_not_a_cause() -> None:
    expects = "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128; // expect"
    ready = "    mbarrier.init.shared::cta.b64 [%r4], 1; // loaded"
    text = hangs.text_of("relay")
    assert expects in text
    other = text.replace(expects, "    mbarrier.arrive.shared::cta.b64 _, [%r4];").replace(
        ready, f"{ready.split(';')[0]}; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 128;"
    )
    other = other.replace("setp.lt.u32 %p5, %r10, %r3;\n    @%p5 bra $load;", "bra.uni $end;", 1)
    assert not any(kind == "bytes" for kind, _ in causes(hang(other, "53, 65")))


def test_a_barrier_that_counts_more_threads_than_use_it() -> None:
    found = hang(planted("pairs-upper-skipped"), "0:0=35, 0:1=35, 0:2=35, 0:3=28")
    assert chain(found) == [(35, "barrier 0"), (28, "barrier 2")]
    assert ("count", "barrier 2 counts 64 threads, and 32 threads use it") in causes(found)


def test_the_number_of_a_barrier_may_depend_on_the_thread() -> None:
    found = hang(planted("pairs-number"), "0:0=24, 0:1=35, 0:2=35, 0:3=28")
    assert (24, "barrier 1") in chain(found)


def test_threads_at_one_instruction_may_wait_for_different_barriers() -> None:
    found = hang(planted("pingpong-turn-missing"), "44, 78")
    assert chain(found) == [(78, "barrier 2"), (78, "barrier 3")]
    assert found.chain is not None
    assert found.chain.end is End.CYCLE
    assert [share.status for share in found.waiters[1].operations[1].shares] == [CompletionStatus.BLOCKED]
    ((kind, what),) = causes(found)
    assert kind == "first-phase"
    assert what.endswith("each arrival follows one of them: one arrival must precede the waits")


def test_a_barrier_that_never_completes_ends_the_chain_although_its_threads_arrive_again() -> None:
    at = "0:0=44, " + ", ".join(f"0:{warp}={80 if warp < 8 else 78}" for warp in range(4, 12))
    found = hang(planted("pingpong-same-barrier"), at)
    assert found.chain is not None
    assert found.chain.end is End.SHORT
    assert chain(found)[-1] == (78, "barrier 3")
    assert causes(found) == [("count", "barrier 3 counts 256 threads, and 128 threads use it")]
    assert "barrier 3 counts more threads than use it" in render_text(found)


@pytest.mark.parametrize(("lanes", "short"), [(31, False), (63, True)])
def test_a_barrier_counts_whole_warps(lanes: int, short: bool) -> None:
    text = module(
        kernel(
            f"""
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, {lanes};
    setp.eq.u32 %p1, %r2, 0;
    @%p1 barrier.sync 1, 64;
    ret;""",
            directives=".reqntid 64, 1, 1",
        ),
        header=HOPPER,
    )
    line = 1 + text.splitlines().index("    @%p1 barrier.sync 1, 64;")
    (waiter,) = hang(text, str(line)).waiters
    assert waiter.short is short


def test_a_function_that_is_called_may_use_the_barrier() -> None:
    body = """
    barrier.sync 1, 64;
    call.uni helper;
    ret;"""
    directives = ".reqntid 32, 1, 1"
    text = module(".extern .func helper();\n", kernel(body, directives=directives), header=HOPPER)
    line = 1 + text.splitlines().index("    barrier.sync 1, 64;")
    assert [waiter.short for waiter in hang(text, str(line)).waiters] == [False]
    alone = text.replace("    call.uni helper;", "")
    assert [waiter.short for waiter in hang(alone, str(line)).waiters] == [True]


def test_the_number_of_a_barrier_may_count_iterations() -> None:
    found = hang(planted("epilogue-store-stops"), "0:0=37, 0:1=37")
    assert found.decided
    assert found.chain is not None
    assert found.chain.end is End.GONE
    assert all(operation.certain for waiter in found.waiters for operation in waiter.operations)


def test_a_barrier_whose_number_counts_iterations_is_not_known_at_a_wait() -> None:
    text = planted("epilogue-store-stops").replace("barrier.arrive.aligned %r15", "barrier.sync.aligned %r15")
    line = 1 + next(n for n, code in enumerate(text.splitlines()) if "barrier.sync.aligned %r15" in code)
    found = hang(text, f"0:0=37, 0:1=37, 0:2={line}")
    assert [waiter.object.number for waiter in found.waiters] == [1, 2, None]
    assert not found.decided


def test_the_comparison_before_the_branch_belongs_to_the_place() -> None:
    found = hang(planted("epilogue-store-stops"), "0:0=37, 0:1=37")
    (cause,) = found.causes
    assert {65, 66} <= set(found.locations.lines(cause.sites))


def test_a_replay_that_ends_before_any_arrival_shows_that_no_thread_can_begin() -> None:
    found = hang(planted("epilogue-free-first"), "0:0=37, 0:1=37, 0:2=52")
    ((kind, what),) = causes(found)
    assert kind == "first-phase"
    assert "each arrival follows one of them in a replay" in what
    assert all(phase.is_first_for(found.waiters[n]) for n in range(2) for phase in found.phases[n])


def test_registers_that_no_warp_gives_up() -> None:
    found = hang(planted("pool-dec-missing"), "31, 44")
    assert (31, "registers of the CTA") in chain(found)
    assert ("no-operation", "no thread gives up registers of the CTA") in causes(found)


def test_lanes_of_a_warp_wait_for_each_other() -> None:
    found = hang(planted("lanes-ready-missing"), "33, 36, 48")
    assert chain(found) == [(36, "the other lanes of the warp"), (33, "mbarrier ready")]


def test_a_program_counter_after_a_barrier_is_at_the_barrier() -> None:
    assert chain(hang(planted("pairs-upper-skipped"), "0:3=29, 0:0=36")) == [
        (35, "barrier 0"),
        (28, "barrier 2"),
    ]


def test_a_program_counter_in_a_poll_loop_is_at_its_wait() -> None:
    assert chain(hang(planted("ring-release-missing"), "55, 73")) == chain(
        hang(planted("ring-release-missing"), "54, 72")
    )


def test_threads_that_a_line_is_not_for_are_named_as_such() -> None:
    found = hang(planted("ring-empty-count"), "0:1=54, 0:0=72")
    assert [stop.expected for stop in found.stops] == [False, True]
    assert "where these threads were not expected" in render_text(found)


def test_the_finding_of_check_is_shown_with_the_hang() -> None:
    found = hang(planted("ring-empty-count"), "54, 72")
    assert [finding.rule.id for finding in found.findings[: found.about]] == ["MB016"]


def test_what_could_not_be_checked_is_shown_with_the_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def exceed(model: object, on: object, tick: object) -> tuple[tuple[()], tuple[str, ...]]:
        return (), ("too much",)

    monkeypatch.setattr(check, "_kernel_hits", exceed)
    found = hang.__wrapped__(planted("ring-empty-count"), "54, 72")
    assert "tclint check\n  not checked  too much  line 6\n" in render_text(found)
    assert json.loads(render_json(found))["problems"] == [{"line": 6, "message": "too much"}]


def test_a_replay_of_only_some_launches_is_shown_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "not replayed for all launches: too long"
    monkeypatch.setattr(Replay, "incomplete", why)
    found = hang.__wrapped__(planted("ring-empty-count"), "72")
    assert f"  the phases are unknown: {why}\n" in render_text(found)
    assert json.loads(render_json(found))["not_replayed"] == why


UNRESOLVED = module(
    ".shared .align 8 .b64 done;",
    kernel(
        """\
    ld.param.u32 %r1, [where];
    mbarrier.init.shared::cta.b64 [done], 1;
    mbarrier.arrive.shared::cta.b64 _, [%r1];
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [done], 0;
    @!%p1 bra again;
    ret;""",
        parameters=".param .u32 where",
    ),
    header=HOPPER,
)


def test_an_arrival_at_an_unresolved_address_leaves_the_hang_undecided(tmp_path: Path) -> None:
    line = 1 + UNRESOLVED.splitlines().index("    mbarrier.try_wait.parity.shared::cta.b64 %p1, [done], 0;")
    found = hang(UNRESOLVED, str(line))
    assert found.chain is not None
    assert found.chain.end is End.UNDECIDED
    path = tmp_path / "k.ptx"
    path.write_text(UNRESOLVED, encoding="utf-8")
    code, out = invoke("hang", str(path), "--at", str(line))
    assert code == 1
    assert f"candidates: line {line - 2}" in out


def test_the_shape_of_the_ctas_may_come_from_a_launch_file(tmp_path: Path) -> None:
    text = hangs.text_of("handoff").replace(".reqntid 64\n", "")
    path, launch = tmp_path / "k.ptx", tmp_path / "k.launch.toml"
    path.write_text(text, encoding="utf-8")
    launch.write_text(
        '[buffers.data]\ntype = "u32"\nshape = [4096]\n\n[[launches]]\nentry = "handoff"\ngrid = [1]\n'
        'block = [64]\narguments = ["data", {u32 = 12}]\n',
        encoding="utf-8",
    )
    code, out = invoke("hang", str(path), "--at", "40,52", "--launch", str(launch))
    assert code == 0, out
    assert "warp 1" in out


TEXT = """\
kernel handoff  k.ptx:6

causes
  each wait of the cycle is for phase 0 at first, and each arrival follows one of them: one wait must begin with parity 1, or one arrival must precede the waits  line 41, 53, 58, 45

cycle of waits
  warp 0 at line 41  for mbarrier pong
  warp 1 at line 53  for mbarrier ping
  what arrives at mbarrier ping follows the first of these waits

tclint check
  MB016  deadlock: phase 0 of mbarrier pong receives 0 of 32 arrivals, and all remaining threads are blocked as well (replayed: CTA 0 of 8 with 64 threads; 512 in parameters and memory)  line 41

positions
  warp 0  mbarrier.try_wait  line 41
  warp 1  mbarrier.try_wait  line 53

wait of warp 0 at line 41 for mbarrier pong, parity j & 1, in a replay phase 0: 0 of 32 arrivals
  arrive  warp 1  line 58  only after the wait at line 53

wait of warp 1 at line 53 for mbarrier ping, parity i & 1, in a replay phase 0: 0 of 32 arrivals
  arrive  warp 0  line 45  only after the wait at line 41

where
  j  0, then +1 each iteration  loop from line 37
  i  0, then +1 each iteration  loop from line 51
"""


def test_the_text_of_a_small_hang() -> None:
    assert render_text(hang(planted("handoff-crosswise"), "41 53")).startswith(TEXT)


def test_the_page_shows_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ring.ptx").write_text(planted("ring-release-missing"), encoding="utf-8")
    code, out = invoke("hang", "ring.ptx", "--at", "0:0=72,0:1=72,0:2=72,0:3=72,0:4=54")
    assert code == 0
    assert f"```text\n{out}```" in (ROOT / "docs" / "hang.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("ring-release-missing", "54, 72"),
        ("pairs-upper-skipped", "0:0=35, 0:3=28"),
        ("exchange-one-stops", "0:0=49, 1:0=58"),
        ("ring-no-producer", "72x5"),
        ("handoff-second-stops", "61"),
    ],
)
def test_the_json_follows_its_schema(name: str, at: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = strict(json.loads((ROOT / "docs" / "hang.schema.json").read_text(encoding="utf-8")))
    document: dict[str, Any] = json.loads(render_json(hang(planted(name), at)))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["kernel"] == name.split("-", maxsplit=1)[0]


# ---------------------------------------------------------------- the command

IDLE = module(kernel("    ret;"), header=HOPPER)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", ["--at", "1"], "line 1 is outside of lines 6 to 84 of ring"),
        ("", ["--at", "10"], "line 10 has no instruction of ring"),
        ("", ["--at", "other.cu:10"], "no instruction of ring is from other.cu:10"),
        ("", ["--entry", "rings", "--at", "54"], "there is no kernel rings; there is ring"),
        ("", [], "no position is given"),
        ("", ["--at", ""], "no position is given"),
        ("", ["--at", "54x"], "'54x' is not a position"),
        ("", ["--at", "0:4=54x3"], "names one warp and counts several"),
        ("", ["--at", "0"], "lines begin at 1"),
        ("", ["--at", "0:5=54"], "0:5=54: a CTA of ring has 5 warps"),
        ("", ["--from", "absent.txt"], "absent.txt: No such file or directory"),
        (IDLE, ["--at", "12"], "k has no instruction that waits"),
        (".version 8.0\n.target sm_90a\n", ["--at", "1"], "has no function with a body"),
        (planted("ring-empty-count").replace("bar.sync 0;", "bar sync 0 (;"), ["--at", "54"], "syntax error"),
        (hangs.text_of("ring").replace("bra $end", "bra $ends", 1), ["--at", "54"], "k.ptx:39: label $ends"),
    ],
)
def test_bad_input_is_named(
    text: str, options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.ptx").write_text(text or planted("ring-empty-count"), encoding="utf-8")
    code, out = invoke("hang", "k.ptx", *options)
    assert (code, message in out) == (2, True), out


def test_kernels_must_be_chosen_if_positions_do_not_determine_one(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    one = planted("handoff-crosswise")
    two = hangs.text_of("lanes").split(".address_size 64", maxsplit=1)[1]
    path.write_text(one + two, encoding="utf-8")
    assert invoke("hang", str(path), "--at", "41,53")[0] == 0
    code, out = invoke("hang", str(path), "--at", "kernel.cu:3")
    assert code == 2
    assert "choose one of the 2 kernels with --entry: handoff, lanes" in out


@pytest.mark.parametrize("line", [22, 26])
def test_a_line_below_a_statement_of_inline_assembly_is_one_of_its_text(tmp_path: Path, line: int) -> None:
    """A debugger names the line of the ``.loc``, which counts the lines of the assembly."""
    path = tmp_path / "k.ptx"
    body = """
    .shared .align 8 .b64 full;
    .loc 1 5 3
    mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
    .loc 1 22 9
    // begin inline asm
wait:
    .loc 1 26 9
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    // end inline asm
    .loc 1 28 3
    ret;"""
    text = module(kernel(body), header=HOPPER) + '.file 1 "/src/k.py"\n'
    path.write_text(text, encoding="utf-8")
    _, out = invoke("hang", str(path), "--at", f"k.py:{line}")
    assert "mbarrier.try_wait" in out.partition("positions\n")[2].partition("\n\n")[0]


def test_a_line_of_the_kernel_may_stand_for_a_wait_that_was_inlined_into_it(tmp_path: Path) -> None:
    """Line 8 calls the function that waits, and follows a barrier, at which its first instruction would be."""
    path = tmp_path / "k.ptx"
    body = """
    .shared .align 8 .b64 full;
    .loc 1 5 3
    mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
    .loc 1 8 3
    mov.u32 %r5, 0;
    .loc 1 8 9
    .loc 2 22 5, function_name $name, inlined_at 1 8 9
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;
    @!%p1 bra wait;
    .loc 1 9 3
    ret;"""
    files = '.file 1 "/src/k.cu"\n.file 2 "/src/wait.cuh"\n'
    path.write_text(module(kernel(body), header=HOPPER) + files, encoding="utf-8")
    code, out = invoke("hang", str(path), "--at", "k.cu:8")
    assert code == 1
    positions = out.partition("positions\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split("all threads")[1].split()[0] for line in positions] == [
        "bar.sync",
        "mbarrier.try_wait",
    ]
    assert positions[1].endswith("line 22 (k.cu:8, wait.cuh:22)")
    code, out = invoke("hang", str(path), "--at", "wait.cuh:22")
    assert code == 0
    assert "bar.sync" not in out


def test_positions_are_read_from_a_file(tmp_path: Path) -> None:
    path, listing = tmp_path / "k.ptx", tmp_path / "at.json"
    path.write_text(planted("ring-empty-count"), encoding="utf-8")
    listing.write_text('{"at": [{"line": 54, "cta": 0, "warp": 4, "lanes": 1}, {"line": 72, "warps": 4}]}')
    code, out = invoke("hang", str(path), "--from", str(listing))
    assert code == 0
    assert "cycle of waits" in out


SASS = """\
\t.section\t.text.handoff,"ax",@progbits
handoff:
\t//## File ".nv_debug_ptx_txt", line 40
        /*0000*/                   NOP ;
\t//## File ".nv_debug_ptx_txt", line 41
        /*0010*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2 ;
\t//## File ".nv_debug_ptx_txt", line 53
        /*0020*/              @!P0 BRA `(.L_x_1) ;
"""


def test_offsets_are_found_in_the_given_machine_code(tmp_path: Path) -> None:
    path, sass = tmp_path / "k.ptx", tmp_path / "k.sass"
    path.write_text(planted("handoff-crosswise"), encoding="utf-8")
    sass.write_text(SASS, encoding="utf-8")
    code, out = invoke("hang", str(path), "--at", "handoff+0x10,0x20", "--sass", str(sass))
    assert code == 0, out
    assert "warp 1 at line 53  for mbarrier ping" in out
    code, out = invoke("hang", str(path), "--at", "0x18", "--sass", str(sass))
    assert (code, "handoff+0x18 is not the start of an instruction" in out) == (2, True)


def test_machine_code_without_a_line_table_is_an_error(tmp_path: Path) -> None:
    path, sass = tmp_path / "k.ptx", tmp_path / "k.sass"
    path.write_text(planted("handoff-crosswise"), encoding="utf-8")
    sass.write_text("\n".join(line for line in SASS.splitlines() if "##" not in line), encoding="utf-8")
    code, out = invoke("hang", str(path), "--at", "0x10", "--sass", str(sass))
    assert (code, "has no line table" in out) == (2, True)


def test_what_follows_a_barrier_has_its_line_up_to_where_a_warp_stops() -> None:
    """A warp that waits executes instructions of fixed latency, and stops at the first other one."""
    table = parsed(
        '.section .text.k,"ax"\n//## File ".nv_debug_ptx_txt", line 7\n/*0000*/ BAR.SYNC.DEFER_BLOCKING 0x0 ;\n'
        '//## File ".nv_debug_ptx_txt", line 9\n/*0010*/ IADD3 R1, R2, 0x1, RZ ;\n/*0020*/ @!P0 MOV R3, R1 ;\n'
        "/*0030*/ LDS R1, [R2] ;\n/*0040*/ MOV R1, R2 ;\n"
        '//## File ".nv_debug_ptx_txt", line 12\n/*0050*/ BAR.SYNC.DEFER_BLOCKING 0x0 ;\n'
        '.L_x_1:\n//## File ".nv_debug_ptx_txt", line 13\n/*0060*/ LDS R1, [R2] ;\n'
    )
    lines = [table.at(offset, "k").line for offset in range(0, 0x50, 0x10)]
    assert lines == [7, 7, 7, 7, 9]
    assert [table.at(offset, "k").line for offset in (0x50, 0x60)] == [12, 13]  # a loop begins
    with pytest.raises(PositionError, match="has no function other"):
        table.at(0, "other")


THREADS = """\
  Kernel Parent Dev Grid Status                             SMs Mask GridDim BlockDim Invocation
*      0      -   0    2 Active 0x0030000000000000000000000000000000 (2,1,1) (32,1,1) exchange()
  BlockIdx ThreadIdx To BlockIdx ThreadIdx Count                 PC Filename  Line
Kernel 0
*  (0,0,0)   (0,0,0)     (0,0,0)  (31,0,0)    32 0x00007f858f7acSENT              0
   (1,0,0)   (0,0,0)     (1,0,0)  (31,0,0)    32 0x00007f858f7acTAKEN              0
Symbol "exchange" is a function at address 0x7f858f7ac000.
"""


def test_program_counters_are_mapped_by_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCLINT_PTXAS", str(find_ptxas()))
    if next(candidates("nvdisasm"), None) is None:
        pytest.skip("nvdisasm was not found")
    text = planted("exchange-one-way")
    table = assembled(text.encode(), "sm_90a")
    lines = {table.at(offset, "exchange").line: offset for offset in range(0, 0x600, 16)}
    counters = THREADS.replace("SENT", f"{lines[50]:03x}").replace("TAKEN", f"{lines[45]:03x}")
    path, listing = tmp_path / "k.ptx", tmp_path / "hang.txt"
    path.write_text(text, encoding="utf-8")
    listing.write_text(counters, encoding="utf-8")
    code, out = invoke("hang", str(path), "--from", str(listing))
    assert code == 0, out
    assert "all threads of CTA 1 at line 44  for mbarrier taken" in out
    assert "all threads of CTA 0 at line 49  for mbarrier sent" in out

"""MO003 and MO005: flags that are polled without an acquire, or set without a release."""

from __future__ import annotations

import pytest

from tclint.analyses.global_memory import global_operands
from tclint.findings.scales import Confidence, Severity
from tests.tools.support import by_rule, function, kernel, lint, module

START = """
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [pointer];
    cvta.to.global.u64 %rd0, %rd0;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd1, %rd1, %rd0;
    setp.eq.u32 %p0, %r0, 0;
"""
POLL = "poll:\nld.relaxed.gpu.global.u32 %r1, [%rd0+4096];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra poll;"
LEADER = f"@!%p0 bra ready;\n{POLL}\n{{}}\nready:\nbar.sync 0;"
READ = "ld.global.u32 %r2, [%rd1];"
FENCE = "fence.acq_rel.gpu;"


def text(*body: str) -> str:
    return module(kernel("\n".join((START, *body, "st.global.u32 [%rd1+8192], %r2;", "ret;"))))


@pytest.mark.parametrize(
    ("body", "early"),
    [
        ([POLL, READ], True),
        ([LEADER.format(""), READ], True),
        ([LEADER.format(""), "@!%p0 ld.global.u32 %r2, [%rd1];"], True),
        ([POLL, "cp.async.ca.shared.global [%r5], [%rd1], 4;"], True),
        ([POLL.replace(".gpu", ".sys"), READ], True),
        ([POLL, FENCE, READ], False),
        ([POLL, "membar.gl;", READ], False),
        ([LEADER.format(FENCE), READ], False),
        ([LEADER.format(""), FENCE, READ], False),
        ([POLL, "ld.acquire.gpu.global.u32 %r3, [%rd0+4096];", READ], False),
        ([POLL.replace(".relaxed.", ".acquire."), READ], False),
        ([POLL.replace(".relaxed.gpu.", ".volatile."), READ], False),
        ([POLL.replace(".gpu", ".cta"), READ], False),
        ([POLL, READ.replace("global", "global.nc")], False),
        ([POLL, READ.replace("global", "volatile.global")], False),
        ([POLL, "ld.shared.u32 %r2, [%r5];"], False),
        ([READ, POLL], False),
    ],
)
def test_data_is_read_after_a_relaxed_poll(body: list[str], early: bool) -> None:
    assert len(by_rule(lint(text(*body)), "MO003")) == early


def test_a_polled_value_that_is_also_data_is_not_a_flag() -> None:
    """A look-back reads a status and a prefix in one word, and needs no order with other words."""
    uses = "st.global.u32 [%rd1+4096], %r1;"
    assert not by_rule(lint(text(POLL, uses, READ)), "MO003")


def test_a_loop_over_many_addresses_is_not_a_poll() -> None:
    search = POLL.replace("setp", "add.u64 %rd0, %rd0, 4;\nsetp")
    assert not by_rule(lint(text(search, READ)), "MO003")


def test_a_read_in_the_next_iteration_has_low_confidence() -> None:
    (finding,) = by_rule(lint(text("next:", READ, POLL, "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra next;")), "MO003")
    assert finding.confidence.label == "low"


def test_the_steps_name_the_barrier_that_is_not_an_acquire() -> None:
    (finding,) = by_rule(lint(text(LEADER.format(""), READ)), "MO003")
    assert [step.message for step in finding.steps] == [
        "orders no other access after the flag",
        "orders the threads of this CTA only",
        "may read the data from before the flag was set",
    ]


def test_a_word_that_only_some_iterations_load_is_not_the_flag() -> None:
    """The loop waits for another word, and looks rarely at one that ends the wait early."""
    rarely = "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, 10000;\n@%p2 bra patient;"
    abort = "ld.relaxed.gpu.global.u32 %r5, [%rd0+8];\nsetp.ne.u32 %p3, %r5, 0;\n@%p3 bra over;\npatient:"
    body = ("mov.u32 %r4, 0;", POLL.replace("poll:", f"poll:\n{rarely}\n{abort}"), "over:", READ)
    source = text(*body)
    (finding,) = by_rule(lint(source), "MO003")
    assert "[%rd0+4096]" in source[finding.span.start : finding.span.end]


@pytest.mark.parametrize(("fixed", "found"), [(True, 1), (False, 0)])
def test_a_guarded_poll_is_a_flag_if_the_guard_is_the_same_in_all_iterations(fixed: bool, found: int) -> None:
    guarded = POLL.replace("ld.", "add.u32 %r4, %r4, 1;\nsetp.eq.u32 %p2, %r4, 9;\n@%p2 ld.")
    body = guarded.replace("@%p2", "@%p0") if fixed else guarded
    assert len(by_rule(lint(text("mov.u32 %r1, 0;\nmov.u32 %r4, 0;", body, READ)), "MO003")) == found


def test_a_loop_that_acquires_another_word_waits_for_that_word() -> None:
    abort = "poll:\nld.relaxed.gpu.global.u32 %r3, [%rd0+8];\nsetp.ne.u32 %p2, %r3, 0;\n@%p2 bra over;"
    loop = POLL.replace("poll:", abort).replace(
        "ld.relaxed.gpu.global.u32 %r1", "ld.acquire.gpu.global.u32 %r1"
    )
    assert not by_rule(lint(text(loop, "over:", READ)), "MO003")
    relaxed = loop.replace(".acquire", ".relaxed")
    assert len(by_rule(lint(text(relaxed, "over:", READ)), "MO003")) == 2


SWAP = """swap:
    atom.relaxed.gpu.global.cas.b32 %r4, [%rd9], 1, 2;
    setp.ne.u32 %p2, %r4, 1;
    @%p2 bra swap;"""
SET = "st.relaxed.gpu.global.u32 [%rd0+4096], {};"
WRITE = "st.global.u32 [%rd1], %r0;"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ([SET.format(1), POLL, READ], 0),
        (["red.relaxed.gpu.global.add.u32 [%rd0+4096], 1;", POLL, READ], 0),
        ([SET.format(1), POLL, READ, WRITE, "fence.acq_rel.gpu;", SET.format(2)], 0),
        ([SET.format(1), POLL, "@%p0 bra over;", READ, "over:"], 0),
        ([WRITE, SET.format(1), POLL, READ], 1),
        (["@%p0 bra both;", WRITE, "both:", SET.format(1), POLL, READ], 1),
        ([SET.format(0), POLL, READ], 1),
        (["st.relaxed.gpu.global.f32 [%rd0+4096], %f0;", POLL, READ], 1),
        (["st.global.u32 [%rd0+4096], 1;", POLL, READ], 1),
        ([SET.format(1), "@%p0 bra produce;", POLL, READ, "ret;", "produce:", WRITE, SET.format(2)], 1),
        (["next:", SET.format(1), POLL, READ, WRITE, "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra next;"], 1),
        ([POLL, READ, WRITE, SET.format(1)], 1),
        ([POLL, READ, SET.format(1)], 0),
    ],
)
def test_a_flag_that_the_kernel_sets_before_it_writes_anything_announces_nothing(
    body: list[str], found: int
) -> None:
    assert len(by_rule(lint(text(*body)), "MO003")) == found


PEERS = """
    ld.param.u64 %rd4, [peers];
    ld.param.u64 %rd5, [own];
    ld.param.u64 %rd8, [input];
    mul.wide.u32 %rd6, %r0, 8;
    add.u64 %rd6, %rd4, %rd6;
    ld.global.u64 %rd7, [%rd6];
    ld.global.u64 %rd9, [%rd4];
"""


def among_peers(write: str, read: str) -> str:
    """A kernel that writes data, sets a flag of each peer, waits for its own flag, and reads."""
    body = (
        START,
        PEERS,
        write,
        "st.relaxed.sys.u32 [%rd7], 1;",
        POLL.replace("[%rd0+4096]", "[%rd9]"),
        read,
        "ret;",
    )
    parameters = ".param .u64 pointer, .param .u64 peers, .param .u64 own, .param .u64 input"
    return module(kernel("\n".join(body), parameters=parameters))


def test_pointers_from_one_table_are_to_one_flag() -> None:
    assert not by_rule(lint(among_peers("", "ld.global.u32 %r2, [%rd8];")), "MO003")


@pytest.mark.parametrize(
    ("write", "read", "confidence"),
    [
        ("st.global.u32 [%rd1], %r0;", "ld.global.u32 %r2, [%rd8];", "low"),
        ("st.global.u32 [%rd1], %r0;", "ld.global.u32 %r3, [%rd8];\nld.global.u32 %r2, [%rd1];", "medium"),
        ("st.global.u32 [%rd1], %r0;", "ld.global.u32 %r2, [%rd20];", "medium"),
        ("st.global.u32 [%rd20], %r0;", "ld.global.u32 %r2, [%rd8];", "medium"),
    ],
)
def test_data_that_the_kernel_writes_through_no_pointer_of_the_read_has_low_confidence(
    write: str, read: str, confidence: str
) -> None:
    (finding,) = by_rule(lint(among_peers(write, read)), "MO003")
    assert finding.confidence.label == confidence


def test_the_lower_half_of_a_composed_pointer_is_its_origin() -> None:
    composed = "mov.b64 {%r10, %r11}, %rd5;\nadd.u32 %r11, %r11, %r0;\nmov.b64 %rd7, {%r10, %r11};\nmov.b64 %rd9, %rd7;"
    source = among_peers(composed, "ld.global.u32 %r2, [%rd8];").replace("[%rd9]", "[%rd5]")
    assert not by_rule(lint(source), "MO003")


TURN = "turn:\nld.acquire.gpu.global.u32 %r1, [%rd9];\nsetp.ne.u32 %p1, %r1, 1;\n@%p1 bra turn;"
"""A poll of a flag that another pointer names than that of the data."""
WRITE = "st.global.u32 [%rd1], %r0;"
SWAP = """swap:
    atom.relaxed.gpu.global.cas.b32 %r4, [%rd9], 1, 2;
    setp.ne.u32 %p2, %r4, 1;
    @%p2 bra swap;"""
SET = "st.relaxed.gpu.global.u32 [%rd9], 1;"


def in_turn(*body: str) -> str:
    lines = (START, "ld.param.u64 %rd9, [other];", *body, "st.global.u32 [%rd1+8192], %r2;", "ret;")
    return module(kernel("\n".join(lines), parameters=".param .u64 other, .param .u64 pointer"))


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ([TURN, READ, WRITE, SET], 1),
        ([TURN, READ, WRITE, "bar.sync 0;", f"@%p0 {SET}"], 1),
        ([TURN, READ, "red.relaxed.gpu.global.add.f32 [%rd1], 0f3F800000;", SET], 1),
        ([TURN, READ, WRITE, "atom.relaxed.gpu.global.add.u32 %r4, [%rd9], 1;"], 1),
        ([TURN, READ, WRITE, "red.relaxed.gpu.global.add.u32 [%rd9], 1;"], 1),
        ([TURN, READ, WRITE, "fence.acq_rel.gpu;", SET], 0),
        ([TURN, READ, WRITE, "membar.gl;", "bar.sync 0;", f"@%p0 {SET}"], 0),
        ([TURN, READ, WRITE, SET.replace("relaxed", "release")], 0),
        ([TURN, READ, WRITE, "red.release.gpu.global.add.u32 [%rd9], 1;"], 0),
        ([TURN, READ, WRITE, SET.replace("1;", "0;")], 0),
        ([TURN, READ, WRITE, SET.replace("relaxed.gpu", "volatile")], 1),
        ([TURN.replace("acquire", "relaxed"), READ, WRITE, SET], 1),
        ([TURN, READ, SET, WRITE], 0),
        # A compare-and-swap in a loop waits for the flag as well.
        ([TURN, READ, WRITE, SWAP], 0),
        # What the kernel writes is not what it reads after the poll.
        ([TURN, READ, "st.global.u32 [%rd9+64], %r0;", SET], 0),
        ([TURN, READ, "st.shared.u32 [%r5], %r0;", SET], 0),
    ],
)
def test_a_flag_is_set_after_data_without_a_release(body: list[str], count: int) -> None:
    assert len(by_rule(lint(in_turn(*body)), "MO005")) == count


def test_a_flag_that_announces_data_of_the_previous_iteration_is_doubted() -> None:
    body = [TURN, READ, "next:", SET, WRITE, "setp.ne.u32 %p2, %r2, 0;", "@%p2 bra next;"]
    (finding,) = by_rule(lint(in_turn(*body)), "MO005")
    assert finding.confidence is Confidence.LOW


@pytest.mark.parametrize(
    ("line", "read", "written"),
    [
        ("ld.b32 %r1, [%rd1];", ("a",), ()),
        ("st.global.b32 [%rd1], %r2;", (), ("a",)),
        ("cp.async.ca.shared.global [%r1], [%rd1], 4;", ("src",), ()),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;", (), ("dstMem",)),
        (
            "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1, {%r1}], [%r2];",
            (),
            ("tensorMap",),
        ),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2};", (), ()),
    ],
)
def test_operands_of_global_memory(line: str, read: tuple[str, ...], written: tuple[str, ...]) -> None:
    """A copy to shared memory and a store to tensor memory write no global memory."""
    match = function(module(kernel(line))).instructions[0].match
    assert match is not None
    assert global_operands(match, "read") == read
    assert global_operands(match, "write") == written


LOCK = """take:
    atom.global.cas.b32 %r5, [%rd9], 0, 1;
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra take;"""
CLAIM = "top:\natom.global.exch.b32 %r5, [%rd9], 1;\nsetp.ne.u32 %p2, %r5, 0;\n@%p2 bra over;"
UNLOCK = "atom.global.exch.b32 %r6, [%rd9], 0;"
VOLATILE = POLL.replace("relaxed.gpu.global", "volatile.global").replace("%rd0+4096", "%rd9")
ATOMIC = VOLATILE.replace("ld.volatile.global.u32 %r1, [%rd9]", "atom.global.add.u32 %r1, [%rd9], 0")
LAST = """
    atom.global.add.u32 %r5, [%rd9], 1;
    setp.ne.u32 %p2, %r5, %r20;
    @%p2 bra over;"""
SHARED_LAST = """
    @!%p0 bra joined;
    atom.global.inc.u32 %r5, [%rd9], %r20;
    setp.eq.u32 %p2, %r5, %r20;
    selp.u32 %r6, 1, 0, %p2;
    st.shared.u32 [%r7], %r6;
joined:
    bar.sync 0;
    ld.shared.u32 %r8, [%r7];
    setp.eq.u32 %p3, %r8, 0;
    @%p3 bra over;"""
DONE = "over:"


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        # A lock: each fence alone is half of the order.
        ([LOCK, READ, WRITE, UNLOCK], {"MO003", "MO005"}),
        ([LOCK, FENCE, READ, WRITE, UNLOCK], {"MO005"}),
        ([LOCK, READ, WRITE, FENCE, UNLOCK], {"MO003"}),
        ([LOCK, FENCE, READ, WRITE, FENCE, UNLOCK], set()),
        ([LOCK, FENCE.replace("gpu", "cta"), READ, WRITE, FENCE, UNLOCK], {"MO003"}),
        ([LOCK.replace("atom.", "atom.acquire.gpu."), READ, WRITE, UNLOCK.replace("atom.", "atom.release.gpu.")], set()),
        ([LOCK.replace("cas.b32 %r5, [%rd9], 0, 1", "exch.b32 %r5, [%rd9], 1"), READ, WRITE, UNLOCK], {"MO003", "MO005"}),
        # A lock that a plain store gives back.
        ([LOCK, FENCE, READ, WRITE, "st.global.u32 [%rd9], 0;"], {"MO005"}),
        ([LOCK, FENCE, READ, WRITE, FENCE, "st.global.u32 [%rd9], 0;"], set()),
        # What is locked is neither read nor written, or only read.
        ([LOCK, UNLOCK, READ, WRITE], set()),
        ([LOCK, READ, UNLOCK], set()),
        # A claim, which nothing gives back, and a test that only the first few pass.
        ([CLAIM, READ, WRITE, "bra.uni top;", DONE], set()),
        ([READ, WRITE, LAST.replace("ne.u32 %p2, %r5, %r20", "gt.u32 %p2, %r5, %r20"), READ, DONE], set()),
        ([WRITE, LAST.replace("%p2, %r5, %r20", "%p2, %r5, 0"), READ, DONE], set()),
        # Flags and their polls.
        ([WRITE, "atom.global.exch.b32 %r6, [%rd9], 1;", VOLATILE, READ], {"MO003", "MO005"}),
        ([WRITE, FENCE, "st.volatile.global.u32 [%rd9], 1;", ATOMIC, FENCE, READ], set()),
        ([WRITE, FENCE, "st.volatile.global.u32 [%rd9], 1;", ATOMIC, READ], {"MO003"}),
        ([WRITE, FENCE, "st.volatile.global.u32 [%rd9], 1;", ATOMIC, "red.acq_rel.gpu.global.add.u32 [%rd9+64], 1;", READ],
         {"MO003"}),
        ([WRITE, FENCE, "st.volatile.global.u32 [%rd9+4], 1;", ATOMIC, READ], set()),
        ([WRITE, "st.release.cta.global.u32 [%rd9], 1;", ATOMIC, FENCE, READ], {"MO005"}),
        ([WRITE, FENCE, "st.volatile.global.u32 [%rd9], 1;", ATOMIC.replace("atom.", "atom.acquire.cta."), READ], {"MO003"}),
        # A scope that lacks the other CTA: no fence makes up for it.
        ([WRITE, FENCE, "atom.cta.global.exch.b32 %r6, [%rd9], 1;", ATOMIC, FENCE, READ], {"MO005"}),
        ([WRITE, FENCE, "st.volatile.global.u32 [%rd9], 1;", ATOMIC.replace("atom.", "atom.cta."), FENCE, READ], {"MO003"}),
        ([WRITE, FENCE, "mov.u32 %r20, %nctaid.x;", LAST.replace("atom.", "atom.cta."), FENCE, READ, DONE], {"MO003"}),
        ([WRITE, FENCE, "mov.u32 %r20, %ntid.x;", LAST.replace("atom.", "atom.cta."), FENCE, READ, DONE], set()),
        # The last CTA, as one thread knows it, or as all threads learn it.
        # It adds and tests with one instruction, which is one finding.
        ([WRITE, LAST, READ, DONE], {"MO003"}),
        ([WRITE, FENCE, LAST, READ, DONE], {"MO003"}),
        ([WRITE, LAST, FENCE, READ, DONE], {"MO005"}),
        ([WRITE, FENCE, LAST, FENCE, READ, DONE], set()),
        ([WRITE, "bar.sync 0;", SHARED_LAST, READ, DONE], {"MO003"}),
        ([WRITE, FENCE, SHARED_LAST, FENCE, READ, DONE], {"MO007"}),
        ([WRITE, FENCE, "bar.sync 0;", SHARED_LAST, FENCE, READ, DONE], set()),
        (["@!%p0 bra one;", WRITE, FENCE, "one:", SHARED_LAST, FENCE, READ, DONE], set()),
        # One thread waits, and the others do not.
        ([WRITE, FENCE, "bar.sync 0;", "@!%p0 bra ready;", "st.volatile.global.u32 [%rd9], 1;", VOLATILE, FENCE, "ready:", READ],
         {"MO007"}),
        ([WRITE, FENCE, "bar.sync 0;", "@!%p0 bra ready;", "st.volatile.global.u32 [%rd9], 1;", VOLATILE, FENCE, "ready:",
          "bar.sync 0;", READ], set()),
        # The value is the data, or an index.
        ([WRITE, LAST, "st.global.u32 [%rd1+64], %r5;", READ, DONE], set()),
        ([WRITE, "atom.global.add.u32 %r5, [%rd9], 1;", "mul.wide.u32 %rd1, %r5, 4;", READ], set()),
        # A word of each CTA.
        (["mov.u32 %r10, %ctaid.x;\nmul.wide.u32 %rd10, %r10, 4;\nadd.u64 %rd9, %rd9, %rd10;", WRITE, LAST, READ, DONE], set()),
    ],
)  # fmt: skip
def test_locks_flags_and_counters_without_a_stated_order(body: list[str], rules: set[str]) -> None:
    found = [f for f in lint(in_turn(*body)).findings if f.rule.id in ("MO003", "MO005", "MO007")]
    assert {f.rule.id for f in found} == rules
    stated = [f for f in found if ".cta" in f.message or "takes a lock" in f.message]
    assert all(f.severity is Severity.INFO for f in found if f.rule.id != "MO007" and f not in stated)


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ([LOCK, READ, WRITE, UNLOCK], Severity.WARNING),
        ([LOCK, READ, WRITE, "st.global.u32 [%rd9], 0;"], Severity.WARNING),
        ([LOCK, READ, WRITE, FENCE, UNLOCK], Severity.INFO),
        ([FENCE, LOCK, READ, WRITE, UNLOCK], Severity.INFO),
        ([LOCK, READ.replace("global", "global.cg"), WRITE, UNLOCK], Severity.INFO),
        ([LOCK, READ, "mul.wide.u32 %rd3, %r2, 4;\nadd.u64 %rd3, %rd0, %rd3;\nst.global.u32 [%rd3], %r0;", UNLOCK], Severity.INFO),
        ([WRITE, "st.volatile.global.u32 [%rd9], 1;", VOLATILE, READ, WRITE], Severity.INFO),
    ],
)  # fmt: skip
def test_what_holders_of_a_lock_pass_on_without_a_fence_may_be_stale_in_a_cache(
    body: list[str], severity: Severity
) -> None:
    (finding,) = by_rule(lint(in_turn(*body)), "MO003")
    assert finding.severity is severity


PART = "st.volatile.global.f32 [%rd1], %f0;"
PARTS = "ld.volatile.global.f32 %f1, [%rd1];\nst.global.f32 [%rd1+64], %f1;"


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ([PART, LAST, PARTS, DONE], {"MO005"}),
        ([PART, FENCE.replace("gpu", "cta"), LAST, PARTS, DONE], {"MO005"}),
        ([PART, FENCE, LAST, PARTS, DONE], set()),
        # The word that is read again is one by which threads synchronise.
        ([PART.replace("f32", "u32").replace("%f0", "%r0"), LAST,
          "again:\nld.volatile.global.u32 %r8, [%rd1];\nsetp.eq.u32 %p3, %r8, 0;\n@%p3 bra again;", DONE], set()),
    ],
)  # fmt: skip
def test_data_may_be_volatile(body: list[str], rules: set[str]) -> None:
    """As in the guide of CUDA: what all CTAs have written is only known after the fence before the count."""
    found = [f for f in lint(in_turn(*body)).findings if f.rule.id in ("MO003", "MO005", "MO007")]
    assert {f.rule.id for f in found} == rules
    assert all(f.severity is Severity.INFO for f in found)


BEHIND = "ld.param.u32 %r21, [size];\nmul.wide.u32 %rd12, %r21, 4;\nadd.u64 %rd9, %rd0, %rd12;"
"""The counter is in the buffer of the data, after as many of them as the launch says."""


@pytest.mark.parametrize(("kind", "found"), [("f32", {"MO005"}), ("u32", set())])
def test_what_is_not_an_integer_is_data_although_the_counter_is_in_the_same_buffer(
    kind: str, found: set[str]
) -> None:
    """A store of an integer may be of the counter itself, as far as the addresses are known."""
    value = "%f0" if kind == "f32" else "%r0"
    write = f"st.global.{kind} [%rd1], {value};"
    read = f"ld.global.{kind} {value}, [%rd1+64];\nst.global.{kind} [%rd1+128], {value};"
    parameters = ".param .u32 size, .param .u64 pointer"
    for fence, rules in (("", found), ("membar.gl;", set[str]())):
        body = f"{START}\n{BEHIND}\n{write}\n{fence}\n{LAST}\nmembar.gl;\n{read}\n{DONE}\nret;"
        report = lint(module(kernel(body, parameters=parameters)))
        assert {f.rule.id for f in report.findings if f.rule.id.startswith("MO")} == rules


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ([WRITE, LAST, FENCE, READ, DONE], ("", "adds to a counter with a relaxed atomic operation")),
        ([WRITE, FENCE, LAST, READ, DONE], ("tests a counter with", "")),
        ([LOCK, READ, WRITE, UNLOCK], ("takes a lock with", "gives a lock back with a relaxed atomic operation")),
        ([LOCK, READ, WRITE, "st.global.u32 [%rd9], 0;"], ("takes a lock with", "gives a lock back with a weak write")),
        ([WRITE, "st.volatile.global.u32 [%rd9], 1;", VOLATILE, READ],
         ("polls a flag with a volatile load", "sets a flag with a relaxed write")),
        ([WRITE, "red.global.add.u32 [%rd9], 1;", VOLATILE, READ],
         ("polls a counter with", "adds to a counter with a relaxed atomic operation")),
        # A poll that resets the count.
        ([WRITE, "red.global.add.u32 [%rd9], 1;", LOCK.replace("0, 1;", "1, 0;").replace("%r5, 0", "%r5, 1"), READ],
         ("polls a counter with", "adds to a counter with a relaxed atomic operation")),
    ],
)  # fmt: skip
def test_the_messages_name_the_word_as_what_it_is(body: list[str], messages: tuple[str, str]) -> None:
    report = lint(in_turn(*body))
    for rule, begins in zip(("MO003", "MO005"), messages, strict=True):
        found = [finding.message.partition(" ")[2] for finding in by_rule(report, rule)]
        assert len(found) == bool(begins)
        assert all(message.startswith(begins) for message in found)


def test_one_scope_that_both_sides_lack_is_one_finding() -> None:
    sides = ["st.release.cta.global.u32 [%rd9], 1;", ATOMIC.replace("atom.", "atom.acquire.cta.")]
    roles = "mov.u32 %r10, %ctaid.x;\nsetp.ne.u32 %p4, %r10, 0;\n@%p4 bra reads;"
    report = lint(in_turn(roles, WRITE, sides[0], "bra.uni done;", "reads:", sides[1], READ, "done:"))
    (finding,) = [f for f in report.findings if f.rule.id in ("MO003", "MO005")]
    assert [step.message for step in finding.steps][:2] == [
        "writes the data, in another CTA",
        "sets the flag there, in the scope of its own CTA, too",
    ]
    assert finding.help == "use a scope that includes both threads, on both sides"


def test_a_counter_with_no_fence_on_either_side_is_one_finding_about_both() -> None:
    (both,) = by_rule(lint(in_turn(WRITE, LAST, READ, DONE)), "MO003")
    (after,) = by_rule(lint(in_turn(WRITE, FENCE, LAST, READ, DONE)), "MO003")
    assert [step.message for step in both.steps if step.span == both.span] == [
        "orders no other access before or after the counter"
    ]
    assert both.help.endswith("of that scope before and after it")
    assert [step.message for step in after.steps if step.span == after.span] == [
        "orders no other access after the counter"
    ]
    assert after.help.endswith("of that scope after it")


def test_a_counter_that_states_that_it_is_relaxed_is_one_finding_about_both() -> None:
    """``tl.atomic_add(counter, 1, sem="relaxed")``."""
    stated = LAST.replace("atom.", "atom.relaxed.gpu.")
    (both,) = [f for f in lint(in_turn(WRITE, stated, READ, DONE)).findings if f.rule.family == "memory"]
    assert (both.rule.id, both.severity) == ("MO005", Severity.WARNING)
    assert ".acq_rel of the scope" in both.help
    assert both.help.endswith("and another one after it")


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ([WRITE, SET, VOLATILE, READ],
         ["writes the data, in another CTA", "sets the flag there, and releases nothing either"]),
        ([WRITE, "fence.acq_rel.gpu;", SET, VOLATILE, READ],
         ["writes the data, in another CTA", "sets the flag there"]),
        ([WRITE, "red.release.gpu.global.add.u32 [%rd9], 1;", VOLATILE, READ],
         ["writes the data, in another CTA", "adds to the counter there"]),
        ([LOCK, READ, WRITE, "membar.gl;", "st.global.u32 [%rd9], 0;"],
         ["writes the data, in another CTA", "gives back the lock there"]),
        # One instruction adds to the counter and tests it.
        ([WRITE, "membar.gl;", LAST, READ, DONE], ["writes the data, in another CTA"]),
        ([TURN.replace("acquire", "relaxed"), READ], []),
    ],
)  # fmt: skip
def test_the_path_of_a_poll_has_the_write_and_the_signal_of_the_other_cta(
    body: list[str], before: list[str]
) -> None:
    report = lint(in_turn(*body))
    (finding,) = by_rule(report, "MO003")
    aside = [step for step in finding.steps if step.aside]
    assert [step.message for step in aside] == before
    assert [*finding.steps][: len(aside)] == aside
    for step, line in zip(aside, [line for line in body if line.startswith(("st.", "red."))], strict=False):
        assert report.source is not None
        assert report.source.data[step.span.start : step.span.end].decode() in line


GRID = """
    mov.u32 %r10, %envreg2;
    mov.u32 %r11, %envreg1;
    cvt.u64.u32 %rd10, %r10;
    cvt.u64.u32 %rd11, %r11;
    bfi.b64 %rd9, %rd11, %rd10, 32, 32;"""
"""The workspace of a cooperative grid, whose halves the driver passes."""
ARRIVE = "bar.sync 0;\n@!%p0 bra joined;\natom.add.release.gpu.u32 %r5, [%rd9+4], 1;"
MEET = """meet:
    ld.acquire.gpu.u32 %r1, [%rd9+4];
    xor.b32 %r6, %r1, %r5;
    setp.gt.s32 %p1, %r6, -1;
    @%p1 bra meet;
joined:
    bar.sync 0;"""


@pytest.mark.parametrize(
    ("arrive", "meet", "rules"),
    [
        (ARRIVE, MEET, set()),
        (ARRIVE.replace(".gpu", ".cta"), MEET, {"MO005"}),
        (ARRIVE, MEET.replace(".gpu", ".cta"), {"MO003"}),
        (ARRIVE.replace(".release.gpu", ""), MEET, {"MO005"}),
    ],
)
def test_a_grid_meets_at_a_word_whose_address_the_driver_passes(
    arrive: str, meet: str, rules: set[str]
) -> None:
    found = lint(in_turn(GRID, WRITE, arrive, meet, READ)).findings
    assert {f.rule.id for f in found if f.rule.id in ("MO003", "MO005", "MO007")} == rules


LANE = "and.b32 %r11, %r0, 31;\nsetp.eq.u32 %p5, %r11, 0;"
TELL = "@%p5 atom.global.exch.b32 %r6, [%rd9], 1;"
HEAR = """@!%p5 bra seen;
await:
    ld.volatile.global.u32 %r1, [%rd9];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra await;
seen:"""
MEETING = "bar.warp.sync -1;"
PARTED = """@!%p5 bra others;
    fence.acq_rel.gpu;
    atom.global.exch.b32 %r6, [%rd9], 1;
    bra.uni given;
others:
    {}
    fence.acq_rel.gpu;
given:"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ([WRITE, FENCE, MEETING, TELL, HEAR, MEETING, FENCE, READ], []),
        ([WRITE, FENCE, TELL, HEAR, MEETING, FENCE, READ], [Severity.INFO]),
        ([WRITE, FENCE, "shfl.sync.idx.b32 %r12, %r0, 0, 31, -1;", TELL, HEAR, MEETING, FENCE, READ], [Severity.INFO]),
        ([WRITE, FENCE, MEETING, TELL, HEAR, FENCE, READ], [Severity.INFO]),
        ([WRITE, FENCE, TELL, HEAR, FENCE, READ], [Severity.INFO] * 2),
        # One lane writes, or all lanes of a warp write one word.
        ([f"@%p5 {WRITE}", FENCE, TELL, HEAR, MEETING, FENCE, READ], []),
        (["shr.u32 %r12, %r0, 5;\nmul.wide.u32 %rd1, %r12, 4;\nadd.u64 %rd1, %rd1, %rd0;", WRITE, FENCE, TELL, HEAR, MEETING,
          FENCE, READ], []),
        # All lanes signal.
        ([WRITE, FENCE, TELL.replace("@%p5 ", ""), HEAR, MEETING, FENCE, READ], []),
        # A branch sends the others another way; or they signal later.
        ([PARTED.format(WRITE), HEAR, MEETING, FENCE, READ], [Severity.WARNING]),
        ([PARTED.format(WRITE), MEETING, "red.release.gpu.global.add.u32 [%rd9], 1;", HEAR, MEETING, FENCE, READ], []),
        ([PARTED.format(""), HEAR, MEETING, FENCE, READ], []),
    ],
)  # fmt: skip
def test_a_lane_signals_or_waits_for_its_warp(body: list[str], found: list[Severity]) -> None:
    report = lint(in_turn(LANE, *body))
    assert [f.severity for f in by_rule(report, "MO007")] == found
    assert all("lanes" in f.message for f in by_rule(report, "MO007"))


def test_other_warps_read_after_a_wait_that_a_barrier_precedes() -> None:
    """They reach the read from where the leader leaves them, and no barrier is on the way."""
    body = (
        "bar.sync 0;",
        WRITE,
        FENCE,
        "bar.sync 0;",
        "@%p0 st.volatile.global.u32 [%rd9], 1;",
        HEAR.replace("%p5", "%p0"),
        "{}",
        FENCE,
        READ,
    )
    without, barrier = (lint(in_turn("\n".join(body).format(each))) for each in ("", "bar.sync 0;"))
    (finding,) = by_rule(without, "MO007")
    assert "waits for the CTA" in finding.message
    assert not by_rule(barrier, "MO007")


def test_the_fence_of_the_last_cta_alone_is_enough_if_the_others_continue_only_then() -> None:
    fenced = SHARED_LAST.replace("selp.u32", "@!%p2 bra not_last;\nmembar.gl;\nnot_last:\nselp.u32")
    assert not by_rule(lint(in_turn(WRITE, FENCE, "bar.sync 0;", fenced, READ, DONE)), "MO003")


def test_one_thread_may_poll_in_a_loop_around_a_barrier() -> None:
    loop = """again:
    @!%p0 bra met;
    ld.volatile.global.u32 %r1, [%rd9];
met:
    setp.ne.u32 %p1, %r1, 1;
    bar.red.and.pred %p2, 0, %p1;
    @%p2 bra again;"""
    body = [
        "mov.u32 %r1, 0;",
        loop,
        READ,
        WRITE,
        FENCE,
        "bar.sync 0;",
        "@%p0 st.volatile.global.u32 [%rd9], 1;",
    ]
    assert len(by_rule(lint(in_turn(*body)), "MO003")) == 1
    fenced = [*body[:2], FENCE, *body[2:]]
    assert not by_rule(lint(in_turn(*fenced)), "MO003")


@pytest.mark.parametrize(("width", "confidence"), [(32, Confidence.LOW), (256, Confidence.MEDIUM)])
def test_an_index_of_32_threads_for_each_cta_is_of_ctas_of_one_warp(
    width: int, confidence: Confidence
) -> None:
    body = f"""
    {START}
    ld.param.u64 %rd9, [counter];
    mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r4, %r3, {width}, %r0;
    mul.wide.u32 %rd1, %r4, 4;
    add.u64 %rd1, %rd1, %rd0;
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra first;
    poll:
    atom.global.add.u32 %r1, [%rd9], 0;
    setp.lt.u32 %p1, %r1, %r3;
    @%p1 bra poll;
    bra joined;
    first:
    st.volatile.global.u32 [%rd0], 0;
    joined:
    mul.wide.u32 %rd2, %r3, {4 * width};
    add.u64 %rd2, %rd2, %rd0;
    ld.volatile.global.u32 %r2, [%rd2];
    st.volatile.global.u32 [%rd1+4], %r2;
    @!%p0 bra over;
    membar.gl;
    atom.global.add.u32 %r1, [%rd9], 1;
    over:
    ret;
    """
    found = by_rule(
        lint(module(kernel(body, directives="", parameters=".param .u64 pointer, .param .u64 counter"))),
        "MO007",
    )
    assert [f.confidence for f in found if "warps" in f.message] == [confidence]

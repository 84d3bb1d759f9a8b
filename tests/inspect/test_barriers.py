"""What `tclint barriers` shows: the exact text, the JSON by its schema, and its messages for bad input."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tclint.dataflow import LimitExceeded
from tclint.inspect import barriers
from tclint.inspect.barriers import read, render_json, render_text
from tclint.syntax.source import Source
from tests.tools.command import invoke
from tests.tools.project import PACKAGE, ROOT
from tests.tools.schema import strict
from tests.tools.support import HOPPER, kernel, module

Process = Callable[..., subprocess.CompletedProcess[str]]

PAGE = (ROOT / "docs" / "barriers.md").read_text(encoding="utf-8")
RING = "fixtures/kernels/nvcc-bulk_ring.sm_90.ptx"

SMALL = module(
    ".shared .align 8 .b64 done;",
    kernel(
        """\
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [done], 128;
ready:
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 _, [done];
again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [done], 0;
    @!%p1 bra again;
    ret;""",
        parameters="",
    ),
    header=HOPPER,
)
SHOWN = """\
kernel k  k.ptx:5, 128 threads

roles
  all threads  waits for done  signals done

mbarrier done  at done
  init    thread 0     128       line 16
  arrive  all threads  128 x 1   line 19
  wait    all threads  parity 0  line 21
  per phase: 128 of 128 arrivals

CTA barriers
  0  sync  all threads  line 18

program
  all threads
    init          done, 128       thread 0     line 16
    barrier sync  0               all threads  line 18
    arrive        done            all threads  line 19
    wait          done, parity 0  all threads  line 21
"""


def shown(text: str, *entry: str) -> str:
    return render_text([read(Source.from_bytes(text.encode(), "k.ptx"), entry)])


def document(text: str, *entry: str) -> dict[str, Any]:
    found = json.loads(render_json([read(Source.from_bytes(text.encode(), "k.ptx"), entry)]))
    (file,) = found["files"]
    assert isinstance(file, dict)
    return file


def follows_its_schema(found: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = strict(json.loads((ROOT / "docs" / "barriers.schema.json").read_text(encoding="utf-8")))
    jsonschema.Draft202012Validator(schema).validate(found)


def test_the_text_of_a_small_kernel() -> None:
    assert shown(SMALL) == SHOWN


def test_the_json_of_a_small_kernel() -> None:
    file = document(SMALL)
    assert (file["path"], file["status"], file["problems"]) == ("k.ptx", "analysed", [])
    (found,) = file["kernels"]
    (ring,) = found["mbarriers"]
    assert (ring["name"], ring["count"], ring["stages"]) == ("done", 128, 1)
    assert ring["arrivals"] == {"least": 128, "most": 128, "usual": [0, 128]}
    assert ring["wait"] == [
        {
            "who": "all threads",
            "roles": ["all threads"],
            "places": [{"line": 21, "source": None}],
            "parity": "0",
            "first": 0,
            "state": False,
            "scope": "cta",
        }
    ]
    assert [event["kind"] for event in found["events"]] == ["init", "barrier sync", "arrive", "wait"]
    assert [event["loops"] for event in found["events"]] == [[]] * 4


@pytest.mark.parametrize(
    "name",
    [
        "nvcc-bulk_ring.sm_90",
        "nvcc-hopper.sm_90a",
        "nvcc-pipeline.sm_90a",
        "nvcc-tcgen05_gemm.sm_100a",
        "nvcc-stream-lineinfo.sm_120a",
    ],
)
def test_the_json_follows_its_schema(name: str) -> None:
    text = (ROOT / "fixtures" / "kernels" / f"{name}.ptx").read_bytes()
    once, twice = (render_json([read(Source.from_bytes(text, "k.ptx"))]) for _ in range(2))
    follows_its_schema(json.loads(once))
    assert once == twice


def test_a_multicast_is_shown_with_its_ctas() -> None:
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    text = SMALL.replace("    bar.sync", f"    {copy} [tile], [%rd0], 64, [done], 3;\n    bar.sync").replace(
        ".shared", ".shared .align 16 .b8 tile[64];\n.shared", 1
    )
    out = shown(text)
    assert "64 bytes, cp.async.bulk.load, multicast to CTAs 0, 1  line" in out
    assert "64 bytes, to done, tile+0..64, multicast to CTAs 0, 1  all threads" in out
    file = document(text)
    (found,) = file["kernels"]
    multicast = {"to": "CTAs 0, 1", "ctas": [0, 1]}
    assert [copy["multicast"] for ring in found["mbarriers"] for copy in ring["copy"]] == [multicast]
    assert [e["multicast"] for e in found["events"] if e["kind"] in ("copy", "wait")] == [multicast, None]
    follows_its_schema({"schema": 1, "files": [file]})


def test_the_page_shows_what_the_command_says(run_tclint: Process) -> None:
    (command, shell), (example,) = (
        re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
        for language in ("sh", "text")
    )
    done = run_tclint(*command.split()[1:], cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, example)
    tclint = f"{sys.executable} -m tclint"
    piped = subprocess.run(
        ["sh", "-c", shell.replace("tclint barriers", f"{tclint} barriers")],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert piped.stdout.splitlines() == [
        "bulk_ring full[4] warps 0-3 (i / 4) & 1 0",
        "bulk_ring empty[4] lane 0 of warp 4 (j / 4 + 1) & 1 1",
    ]


# ---------------------------------------------------------------- what is not resolved


def unresolved(body: str, before: str = "", *, entry: str = "k") -> list[tuple[int | None, str]]:
    file = document(module(".shared .align 8 .b64 done;", before, kernel(body), header=HOPPER), entry)
    return [(u["line"], u["why"]) for kernel in file["kernels"] for u in kernel["unresolved"]]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "ld.shared.u32 %r1, [done];\nmbarrier.arrive.shared::cta.b64 _, [%r1];",
            "the address of the mbarrier comes from memory",
        ),
        ("mbarrier.arrive.shared::cta.b64 _, [done];", "no mbarrier.init for the mbarrier at done"),
        ("mov.u32 %r1, %laneid;\nbar.sync %r1;", "the barrier number depends on the thread index"),
        ("call other, (%r1);", "calls other: its effect on barriers is unknown"),
        (
            "prototype: .callprototype _ (.param .b32 x);\ncall %rd1, (%r1), prototype;",
            "calls a function whose address is computed: its effect on barriers is unknown",
        ),
    ],
)
def test_what_is_not_resolved_has_a_reason(body: str, why: str) -> None:
    found = unresolved(body, ".extern .func other(.param .b32 x);")
    assert [reason for _, reason in found] == [why]
    assert all(found[0])


def test_a_reason_is_given_once() -> None:
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [done], %r0;\n"
    text = SMALL.replace("again:", f"ld.shared.u32 %r0, [done];\n{wait * 5}again:")
    assert "unresolved\n  line 21, 22, 23, 24 and 1 more  the parity depends on memory\n" in shown(text)
    file = document(text)
    (kernel,) = file["kernels"]
    assert kernel["unresolved"][0] == {
        "line": 21,
        "count": 5,
        "places": [{"line": line, "source": None} for line in range(21, 26)],
        "why": "the parity depends on memory",
    }
    follows_its_schema({"schema": 1, "files": [file]})


def test_a_callee_may_arrive() -> None:
    text = SMALL.replace("    ret;", "    call other;\n    ret;").replace(
        ".shared .align", ".extern .func other();\n.shared .align"
    )
    assert "per phase: 128 expected, arrivals unknown" in shown(text)
    assert "unresolved\n  line 24  calls other: its effect on barriers is unknown" in shown(text)


def test_an_mbarrier_that_a_caller_passes() -> None:
    text = module(
        ".func arrive(.param .b32 where)\n{\n.reg .b32 %r<2>;\nld.param.u32 %r0, [where];\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r0];\nret;\n}\n",
        header=HOPPER,
    )
    out = shown(text)
    assert out.startswith("function arrive  k.ptx:4, CTA size unknown\n")
    assert "not a kernel: what its callers do before and after it is unknown" in out
    assert "the address of the mbarrier comes from a caller or a call" in out


CUT = (
    "unbalanced `{{` in `{}`: its body is not closed before the end of the file "
    "(the function begins at line {}, the file ends at line {})"
)


@pytest.mark.parametrize(
    "statement", ["mbarrier.arr", "mbarrier.arrive.shared::cta.b64 _, [done", "@%p1 bra"]
)
def test_a_kernel_that_is_cut_in_a_statement(statement: str) -> None:
    cut = SMALL[: SMALL.index("    mbarrier.arrive")] + f"    {statement}"
    file = document(cut)
    assert (file["status"], file["kernels"]) == ("failed", [])
    assert shown(cut) == f"error: k.ptx:7: {CUT.format('k', 5, 19)}\n"


def test_kernels_before_one_that_is_cut() -> None:
    file = document(SMALL + kernel("    ret;", "next")[:60])
    assert (file["status"], [found["name"] for found in file["kernels"]]) == ("partial", ["k"])
    cut = SMALL + kernel("    add.s32 %r1 %r2, %r3;\n    ret;\n    mov.b32 %r", "next").removesuffix("\n}\n")
    out = shown(cut + "\n\n")
    assert CUT.format("next", SMALL.count("\n") + 1, cut.count("\n") + 1) in out
    assert ": unexpected `%r2`: expected `,` or `;` after `%r1`\n" in out
    assert out.endswith(SHOWN)


def test_a_syntax_error_in_a_kernel() -> None:
    file = document(SMALL.replace("bar.sync 0;", "bar.sync 0 0 0;"))
    assert file["status"] == "partial"
    (found,) = file["kernels"]
    assert "mbarriers" not in found
    assert found["problems"][0]["message"] == "contains a syntax error: its barriers are unknown"


def test_a_kernel_that_jumps_nowhere() -> None:
    out = shown(SMALL.replace("bra again", "bra nowhere"))
    assert "not shown: line 22: " in out
    assert "mbarrier done" not in out


def test_a_kernel_with_nothing_to_show() -> None:
    out = shown(module(kernel("    ret;"), header=HOPPER))
    assert out == "kernel k  k.ptx:4, 128 threads\n  no barriers, and nothing asynchronous\n"


def narrowed(options: tuple[str, ...]) -> str:
    code, out = invoke("barriers", str(ROOT / RING), "--entry", "bulk_ring", *options)
    assert code == 0, out
    return out


@pytest.mark.parametrize("name", ["empty", "empty[4]", "empty[2]", "_ZZ9bulk_ringE5empty+8"])
def test_one_mbarrier_is_shown_by_its_name(name: str) -> None:
    out = narrowed(("--object", name))
    assert "mbarrier empty[4]" in out
    assert "then    lane 0 of warp 4  full[4], same stage" in out
    assert "mbarrier full[4]" not in out
    assert "CTA barriers" not in out
    assert "shared memory" not in out


def test_the_objects_of_a_line_are_shown() -> None:
    waits = narrowed(("--at", "181"))
    assert "mbarrier full[4]" in waits
    assert "mbarrier empty[4]" not in waits
    barrier = narrowed(("--at", "86"))
    assert "mbarrier" not in barrier
    assert "0  sync  all threads  line 86" in barrier


def test_the_json_of_one_object_follows_the_schema() -> None:
    document = json.loads(narrowed(("--object", "empty", "--object", "0", "--output-format", "json")))
    follows_its_schema(document)
    (found,) = document["files"][0]["kernels"]
    assert [ring["name"] for ring in found["mbarriers"]] == ["empty[4]"]
    assert [barrier["number"] for barrier in found["barriers"]] == [0]
    assert {name for event in found["events"] for name in event["mbarriers"]} == {"empty[4]"}


def test_the_cluster_barrier_is_shown_with_what_the_program_does_there(tmp_path: Path) -> None:
    code = "bar.sync 0;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;"
    file = tmp_path / "k.ptx"
    file.write_text(module(kernel(code), header=HOPPER))
    _, out = invoke("barriers", str(file), "--object", "cluster")
    assert "cluster arrive  all threads" in out
    assert "cluster wait    all threads" in out
    assert "barrier sync" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--object", "foo"), "no mbarrier or barrier is called 'foo': there is full[4], empty[4], 0"),
        (("--object", "empty[4x]"), "is called 'empty[4x]'"),
        (("--object", "empty[7]"), "is called 'empty[7]'"),
        (("--object", "cluster"), "is called 'cluster'"),
        (("--at", "3"), "no mbarrier or barrier is used at line 3"),
    ],
)
def test_an_object_that_is_not_there(options: tuple[str, ...], message: str) -> None:
    code, out = invoke("barriers", str(ROOT / RING), *options)
    assert (code, message in out) == (2, True), out


UNKNOWN = SMALL.replace(
    "    bar.sync 0;\n", "    bar.sync 0;\n    mbarrier.arrive.shared::cta.b64 _, [%r9];\n"
)


@pytest.mark.parametrize(
    ("options", "mbarrier"),
    [(("--object", "done"), True), (("--at", "19"), False), (("--object", "0"), None)],
)
def test_an_event_on_an_unresolved_mbarrier_remains_beside_one(
    options: tuple[str, ...], mbarrier: bool | None, tmp_path: Path
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(UNKNOWN, encoding="utf-8")
    code, out = invoke("barriers", str(path), *options)
    assert code == 0, out
    assert ("unknown mbarrier" in out) is (mbarrier is not None)
    assert ("the address of the mbarrier comes from" in out) is (mbarrier is not None)
    assert ("mbarrier done" in out) is bool(mbarrier)


def test_what_is_unresolved_in_the_whole_kernel_remains_beside_one_object(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    other = SMALL.replace(".address_size 64", ".address_size 64\n.extern .func other();")
    path.write_text(other.replace("    ret;", "    call other;\n    ret;"), encoding="utf-8")
    code, out = invoke("barriers", str(path), "--object", "done")
    assert code == 0, out
    assert "not replayed: it calls code outside the module" in out


def test_a_kernel_that_exceeds_a_limit_remains_beside_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def exceed(model: object) -> None:
        raise LimitExceeded("too much")

    monkeypatch.setattr(barriers, "protocol", exceed)
    code, out = invoke("barriers", str(ROOT / RING), "--object", "empty")
    assert (code, "not shown: line 20: " in out) == (2, True), out


def test_an_error_of_ours_is_that_of_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: object) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(barriers, "protocol", fail)
    item = ("k.ptx", Source.from_bytes(SMALL.encode(), "k.ptx"))
    monkeypatch.delenv("TCLINT_DEBUG", raising=False)
    said = "internal error: RuntimeError: no such thing (TCLINT_DEBUG=1 shows where)"
    assert render_text([barriers.show(item)]) == f"error: k.ptx: {said}\n"
    monkeypatch.setenv("TCLINT_DEBUG", "1")
    with pytest.raises(RuntimeError):
        barriers.show(item)


def test_names_are_shown_without_control_characters() -> None:
    source = Source.from_bytes(SMALL.encode(), "k\x1b[31m.ptx")
    assert "\x1b" not in render_text([read(source)])
    assert "\x1b[1mkernel k\x1b[0m" in render_text(
        [read(Source.from_bytes(SMALL.encode(), "k.ptx"))], color=True
    )


# ---------------------------------------------------------------- the command


def test_functions_are_chosen_by_name(run_tclint: Process) -> None:
    done = run_tclint("barriers", RING, "--entry", "bulk_o*", "--output-format", "json", cwd=ROOT)
    (file,) = json.loads(done.stdout)["files"]
    assert [found["name"] for found in file["kernels"]] == ["bulk_out"]
    done = run_tclint("barriers", RING, "--entry", "bulk_rign", cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no function matches 'bulk_rign'; did you mean bulk_ring?" in done.stderr


def test_inputs_are_those_of_check(run_tclint: Process, tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(SMALL)
    (tmp_path / "b.ptx.gz").write_bytes(gzip.compress(SMALL.encode()))
    done = run_tclint("barriers", ".")
    blocks = [SHOWN.replace("k.ptx", os_name) for os_name in ("./a.ptx", "./b.ptx.gz")]
    assert (done.returncode, done.stdout) == (0, "\n".join(blocks))
    done = run_tclint("barriers", "-", "--stdin-filename", "k.ptx", input=SMALL, stdin=None)
    assert (done.returncode, done.stdout) == (0, SHOWN)


def test_a_file_that_is_not_there(run_tclint: Process) -> None:
    done = run_tclint("barriers", "absent.ptx")
    assert (done.returncode, done.stdout) == (2, "error: absent.ptx: no such file or directory\n")
    done = run_tclint("barriers", "absent.ptx", "--output-format", "json")
    (file,) = json.loads(done.stdout)["files"]
    assert (file["status"], file["kernels"]) == ("failed", [])
    assert run_tclint("barriers").returncode == 2


def test_why_a_kernel_is_not_replayed() -> None:
    """A deadlock is found by executing the synchronisation; where that is impossible, the reason is reported."""
    body = """
.shared .align 8 .b64 full;
mbarrier.init.shared.b64 [full], 1;
{}
mbarrier.arrive.shared.b64 _, [full];
wait:
mbarrier.try_wait.parity.shared.b64 %p1, [full], 0;
@!%p1 bra wait;
ret;
"""
    loaded = "ld.shared.u32 %r2, [%r1+64];\nsetp.eq.u32 %p2, %r2, 7;\n@%p2 bra wait;"
    assert [why for _, why in unresolved(body.format(loaded))] == [
        "an address in shared memory depends on a caller or an uninitialised register",
        "the arrivals of a phase are unknown: which threads arrive depends on memory",
        "not replayed: a branch depends on an unknown value",
    ]
    assert unresolved(body.format("")) == []


ROUNDS = """
.shared .align 8 .b64 full;
mbarrier.init.shared.b64 [full], 128;
bar.sync 0;
mov.u32 %r3, 0;
mov.u32 %r4, 0;
{left_out}
round:
mbarrier.arrive.shared.b64 _, [full];
wait:
mbarrier.try_wait.parity.shared.b64 %p1, [full], %r4;
@!%p1 bra wait;
xor.b32 %r4, %r4, 1;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, 9999;
@%p2 bra round;
end:
ret;
"""
REST = """
mbarrier.arrive.shared.b64 _, [full];
first:
mbarrier.try_wait.parity.shared.b64 %p1, [full], %r4;
@!%p1 bra first;
mov.u32 %r4, 1;
ld.param.u32 %r2, [number];
rem.u32 %r5, %r2, 128;
setp.eq.u32 %p2, %r5, 0;
@%p2 bra end;
"""
"""A launch of which nothing is left over is replayed to its end."""


@pytest.mark.parametrize(
    ("left_out", "what"), [("", "not replayed"), (REST, "not replayed for all launches")]
)
def test_why_a_replay_ends_early(left_out: str, what: str) -> None:
    """It proves nothing then, though other launches may have been replayed to their end."""
    (found,) = unresolved(ROUNDS.format(left_out=left_out))
    line, why = found
    assert why == f"{what}: a loop has too many iterations to be replayed to its end"
    assert line is not None


def test_a_kernel_that_calls_what_is_not_seen_is_not_replayed() -> None:
    found = unresolved(ROUNDS.format(left_out="call other;"), ".extern .func other();")
    assert (None, "not replayed: it calls code outside the module") in found

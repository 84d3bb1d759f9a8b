"""``tclint mcp`` with the client of the SDK over standard input and output, and with messages that no client sends."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tools.project import ROOT
from tests.tools.recordings import DOUBLE, write_recording

pytest.importorskip("mcp.server.mcpserver", reason="the server needs mcp")

from mcp import Client, StdioServerParameters, stdio_client
from mcp.server.mcpserver.exceptions import ToolError

from tclint.commands import _mcp
from tclint.commands._mcp import Tools

KERNEL = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text(encoding="utf-8")
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", ""), "TCLINT_NO_CACHE": "1"}

Call = tuple[str, dict[str, Any]]
Calls = Callable[..., list[Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a kernel, and a secret beside it."""
    (tmp_path / "secret.ptx").write_text(KERNEL)
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "k.ptx").write_text(KERNEL)
    return folder


def calls(root: Path, *made: Call, options: Sequence[str] = ()) -> list[Any]:
    """The results of calls that a client makes to one server."""
    command = ["-m", "tclint", "mcp", "--root", str(root), *options]

    async def session() -> list[Any]:
        parameters = StdioServerParameters(command=sys.executable, args=command, env=ENVIRONMENT)
        async with Client(stdio_client(parameters)) as client:
            return [await client.call_tool(name, arguments) for name, arguments in made]

    return asyncio.run(session())


def words(result: Any) -> str:
    assert result.is_error
    return str(result.content[0].text)


def test_a_client_checks_explains_runs_and_asks_for_a_hang(root: Path) -> None:
    pytest.importorskip("numpy")
    checked, same, explained, hung, executed = calls(
        root,
        ("check", {"path": "k.ptx", "verdict": True}),
        ("check", {"text": KERNEL, "select": ["WG"]}),
        ("explain", {"rules": ["WG001"]}),
        ("hang", {"path": str(root / "k.ptx"), "at": ["51"]}),
        ("run", {"text": DOUBLE}),
    )
    assert checked.structured_content["outcome"] == same.structured_content["outcome"] == "findings"
    assert json.loads(checked.content[0].text) == checked.structured_content
    (file,) = same.structured_content["files"]
    assert [finding["id"] for finding in file["findings"]] == ["WG001"]
    assert explained.structured_content["rules"][0]["id"] == "WG001"
    assert hung.structured_content["kernel"] == "gemm_unwaited_bad"
    assert executed.structured_content["launches"][0]["entry"] == "double"
    # A kernel has the name that the call used.
    assert checked.structured_content["files"][0]["path"] == "k.ptx"
    assert hung.structured_content["path"] == str(root / "k.ptx")
    assert executed.structured_content["path"] == file["path"] == "text"
    schema = json.loads((ROOT / "docs" / "check.schema.json").read_text(encoding="utf-8"))
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(checked.structured_content, schema)


def test_a_client_fixes_compares_and_looks_at_kernels(root: Path) -> None:
    (root / "waited.ptx").write_text((ROOT / "fixtures" / "wgmma_waited.ptx").read_text(encoding="utf-8"))
    fixed, kept, same, compared, shown, one, line = calls(
        root,
        ("fix", {"path": "k.ptx", "select": ["WG001"], "unsafe": True}),
        ("fix", {"text": DOUBLE}),
        ("diff", {"old_path": "k.ptx", "new_path": "k.ptx"}),
        ("diff", {"old_path": "k.ptx", "new_path": "waited.ptx"}),
        ("isa", {"opcode": "wgmma.fence"}),
        ("barriers", {"path": "k.ptx"}),
        ("hang", {"path": "k.ptx", "at": "51"}),
    )
    assert "wgmma.wait_group" in fixed.structured_content["text"]
    assert fixed.structured_content["changed"] is True
    assert fixed.structured_content["report"]["outcome"] == "clean"
    assert (root / "k.ptx").read_text() == KERNEL
    assert (kept.structured_content["changed"], kept.structured_content["text"]) == (False, DOUBLE)
    (file,) = compared.structured_content["files"]
    assert (file["old"], file["new"]) == ("k.ptx", "waited.ptx")
    assert file["kernels"][0]["changes"]
    assert not any(
        kernel["changes"] for each in same.structured_content["files"] for kernel in each["kernels"]
    )
    assert "wgmma.fence.sync.aligned" in shown.structured_content["text"]
    assert one.structured_content["files"][0]["path"] == "k.ptx"
    assert line.structured_content["kernel"] == "gemm_unwaited_bad"


def test_the_tools_state_what_they_return_and_that_they_change_nothing(root: Path) -> None:
    async def listed() -> Any:
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "tclint", "mcp", "--root", str(root)], env=ENVIRONMENT
        )
        async with Client(stdio_client(parameters)) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asyncio.run(listed())}
    assert list(tools) == ["check", "explain", "fix", "isa", "hang", "barriers", "diff", "run"]
    for tool in tools.values():
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.open_world_hint is False
        assert tool.output_schema["type"] == "object"
    for name in ("check", "hang", "barriers", "diff"):
        schema = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8"))
        assert tools[name].output_schema == schema


def test_no_file_outside_the_roots_is_read(root: Path, tmp_path: Path) -> None:
    (root / "link.ptx").symlink_to(tmp_path / "secret.ptx")
    (root / "folder").symlink_to(tmp_path)
    paths = (
        "../secret.ptx", str(tmp_path / "secret.ptx"), "link.ptx", "folder/secret.ptx", "absent.ptx", "a\0b", "..", "~",
    )  # fmt: skip
    for path, result in zip(paths, calls(root, *(("check", {"path": p}) for p in paths)), strict=True):
        assert words(result).endswith(f"{path}: there is no such file below a root")


def test_a_recorded_launch_with_a_link_out_of_the_roots_is_refused(root: Path, tmp_path: Path) -> None:
    folder = write_recording(root / "launch", DOUBLE, "double", [bytes(8), bytes(8), bytes(4)], {})
    before = calls(root, ("run", {"text": DOUBLE, "launch": "launch"}))[0]
    assert before.structured_content["launches"][0]["end"] == "done"
    (folder / "image").symlink_to(tmp_path / "secret.ptx")
    (refused,) = calls(root, ("run", {"text": DOUBLE, "launch": "launch"}))
    assert "there is no such file below a root" in words(refused)


def test_without_a_root_only_text_is_read(root: Path) -> None:
    tools = Tools((), 60, 1 << 20)
    with pytest.raises(ToolError, match="no such file below a root"):
        asyncio.run(tools.check(path=str(root / "k.ptx")))


def test_an_input_above_the_limit_is_refused(root: Path) -> None:
    large = KERNEL + "// comment\n" * (1 << 17)
    (root / "large.ptx").write_text(large)
    made: tuple[Call, ...] = (("check", {"path": "large.ptx"}), ("run", {"text": large}))
    for result in calls(root, *made, options=("--max-input", "1")):
        assert "it has more than 1 MiB" in words(result)


def test_a_call_above_the_limit_of_time_is_stopped(root: Path) -> None:
    (result,) = calls(root, ("check", {"path": "k.ptx"}), options=("--seconds", "0.1"))
    assert words(result).endswith("stopped after 0.1 s, the limit of --seconds")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize(
    ("then", "reason"),
    [("time.sleep(600)", "stopped after 5 s"), ("[print('x' * 9999) for _ in iter(int, 1)]", "more than 32 MiB")],
)  # fmt: skip
def test_what_a_stopped_call_has_started_is_killed(tmp_path: Path, then: str, reason: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        # The child holds the connection open until it is killed.
        server.bind(str(tmp_path / "socket"))
        server.listen()
        code = (
            "import socket, subprocess, sys, time; s = socket.socket(socket.AF_UNIX); s.connect('socket');"
            f" subprocess.Popen(['sleep', '600'], pass_fds=[s.fileno()]); {then}"
        )
        with pytest.raises(ToolError, match=reason):
            asyncio.run(Tools((), 5, 1)._executed([sys.executable, "-c", code], str(tmp_path)))
        connection, _ = server.accept()
        connection.settimeout(10)
        assert connection.recv(1) == b""
        connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('x' * (33 << 20))", "stopped: the result has more than 32 MiB"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "no result: signal 9 ended tclint"),
    ],
)  # fmt: skip
def test_a_call_that_ends_by_itself_without_a_usable_result_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    monkeypatch.setattr(_mcp, "_POLL_SECONDS", 2)
    with pytest.raises(ToolError, match=reason):
        asyncio.run(Tools((), 60, 1)._executed([sys.executable, "-c", code], str(tmp_path)))


def test_an_error_that_is_too_long_is_marked_as_shortened(root: Path) -> None:
    (result,) = calls(root, ("explain", {"rules": ["x" * 9000]}))
    assert len(words(result)) < 2100
    assert "…" in words(result)


def test_arguments_are_values_and_never_options(root: Path) -> None:
    (root / "--fix.ptx").write_text(KERNEL)
    (root / "json.py").write_text("raise SystemExit('imported')")
    option, rule, entry, named, module = calls(
        root,
        ("explain", {"rules": ["--all"]}),
        ("check", {"text": KERNEL, "select": ["WG --fix"]}),
        ("hang", {"text": KERNEL, "at": ["51"], "entry": "--help"}),
        ("check", {"path": "--fix.ptx"}),
        ("check", {"path": "json.py"}),
    )
    assert "unknown rule --all" in words(option)
    assert "unknown rule" in words(rule)
    assert "--help" in words(entry)
    assert named.structured_content["outcome"] == "findings"
    assert (root / "--fix.ptx").read_text() == KERNEL
    assert "imported" not in str(module)


def test_wrong_arguments_are_errors_and_the_server_continues(root: Path) -> None:
    *wrong, right = calls(
        root,
        ("check", {"text": 5}),
        ("check", {}),
        ("check", {"text": "", "path": "k.ptx"}),
        ("hang", {"text": KERNEL, "at": []}),
        ("hang", {"text": KERNEL, "at": ["nowhere"]}),
        ("isa", {"opcode": "no_such"}),
        ("diff", {"old_text": KERNEL}),
        ("barriers", {"path": "k.ptx", "at": 45}),
        ("fix", {"path": "../secret.ptx"}),
        ("explain", {"rules": ["x\0"]}),
        ("run", {"text": DOUBLE, "schedule": "sometimes"}),
        ("format_disk", {}),
        ("check", {"path": "k.ptx"}),
    )
    for result in wrong:
        assert "Traceback" not in words(result)
    assert right.structured_content["outcome"] == "findings"


def test_a_message_that_is_no_request_does_not_end_the_server(root: Path) -> None:
    initialize = {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }  # fmt: skip
    lines = [
        b"not json", b"[" * 5000, b'{"jsonrpc": "2.0", "id": 1}', b"\xff\xfe", b"null",
        json.dumps({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": initialize}).encode(),
        b'{"jsonrpc": "2.0", "id": 8, "method": "no/such"}',
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "tclint", "mcp", "--root", str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"\n".join(lines) + b"\n")
        server.stdin.flush()
        answers: dict[Any, Any] = {}
        while 8 not in answers:
            answer = json.loads(server.stdout.readline())
            answers[answer.get("id")] = answer
        server.stdin.close()
        assert server.wait(60) == 0
    assert answers[7]["result"]["serverInfo"]["name"] == "tclint"
    assert "error" in answers[8]


def test_a_call_waits_while_four_others_run(tmp_path: Path) -> None:
    tools = Tools((), 2, 1)

    async def many() -> list[Any]:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        folders = [tmp_path / str(number) for number in range(5)]
        for folder in folders:
            folder.mkdir()
        made = [tools._executed(command, str(folder)) for folder in folders]
        return await asyncio.gather(*made, return_exceptions=True)

    said = sorted(map(str, asyncio.run(many())))
    assert ["stopped" in one for one in said[:4]] == [True] * 4
    assert said[4].startswith("the server is busy") or not list(tmp_path.glob("4/stdout"))

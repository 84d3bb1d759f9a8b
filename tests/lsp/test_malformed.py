"""Malformed messages: each request gets an error, nothing is logged with a traceback, and the server continues."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.tools.project import ROOT

pytest.importorskip("pygls", reason="the language server needs pygls")

from tclint.lsp import protocol

CANCELLED = -32800
"""The last request may be: the server is asked to end at once."""
URI = "file:///work/k.ptx"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"capabilities": {}, "processId": None, "rootUri": None},
}
OPEN = {
    "jsonrpc": "2.0", "method": "textDocument/didOpen",
    "params": {"textDocument": {"uri": URI, "languageId": "ptx", "version": 1, "text": "// nothing\n"}},
}  # fmt: skip


def request(method: str, params: object = None, number: object = 1, **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params, **more}


def hover(line: object, character: object = 0, uri: object = URI) -> dict[str, object]:
    position = {"line": line, "character": character}
    return request("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})


def initialize(**root: object) -> dict[str, object]:
    return request("initialize", {"capabilities": {}, "processId": None, **root})


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def sent(*messages: object) -> bytes:
    return b"".join(framed(m if isinstance(m, bytes) else json.dumps(m).encode()) for m in messages)


def answers(data: bytes) -> tuple[list[dict[str, Any]], str]:
    """What a server answers that is sent *data* and then a request which must still work, and what it logs."""
    whole = data + sent(request("shutdown", number="last"), {"jsonrpc": "2.0", "method": "exit"})
    done = subprocess.run(
        [sys.executable, "-m", "tclint", "lsp"], input=whole, capture_output=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    bodies = re.split(rb"Content-Length: \d+\r\nContent-Type: [^\r]*\r\n\r\n", done.stdout)[1:]
    found = [json.loads(body) for body in bodies]
    assert any(each.get("id") == "last" for each in found), (
        found,
        done.stderr,
    )  # a result, or an error after a shutdown
    return [each for each in found if each.get("id") not in (0, "last")], done.stderr.decode()


MALFORMED: list[tuple[object, int | None, int]] = [
    (hover(-1), 1, -32602),
    (hover(2**40), 1, -32602),
    (hover("one"), 1, -32602),
    (request("textDocument/hover"), 1, -32602),
    (request("textDocument/hover", []), 1, -32602),
    (request("textDocument/codeAction", {"textDocument": {"uri": URI}, "range": 3}), 1, -32602),
    (request("tclint/unknown", {}), 1, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "tclint/unknown"}, 1, -32601),
    (request("textDocument/hover", {}, number=[1]), None, -32600),
    (request("textDocument/hover", {}, number=True), None, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": 7}, 1, -32600),
    ({"jsonrpc": "1.0", "id": 1, "method": "textDocument/hover"}, 1, -32600),
    ({"id": 1}, 1, -32600),
    (request("textDocument/didClose", {"textDocument": {"uri": URI}}), 1, -32600),
    (initialize(rootUri="file://["), 1, -32602),
    (initialize(rootUri=None, rootPath="//server"), 1, -32602),
    ([INITIALIZE], None, -32600),
    (b"7", None, -32600),
    (b"null", None, -32600),
    (b"{", None, -32700),
    (b"\xff\xfe{}", None, -32700),
    (b"[" * 100_000, None, -32700),
    (b"1" * 5000, None, -32700),
]
"""Message, the id of the answer, and its error."""
NOTIFICATIONS: list[dict[str, object]] = [
    {"jsonrpc": "2.0", "method": "textDocument/didOpen"},
    {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": {"uri": URI}}},
    {"jsonrpc": "2.0", "method": "textDocument/didClose", "params": {"textDocument": {"uri": 3}}},
    {"jsonrpc": "2.0", "method": "$/unknown", "params": {}},
    {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "absent"}},
    {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {
        "textDocument": {"uri": "file://[/%00\udc80", "languageId": "ptx", "version": 1, "text": "\ud800"}}},
    {"jsonrpc": "2.0", "id": 77, "result": {"jsonrpc": "2.0", "id": 9, "method": "x"}},
]  # fmt: skip
HEADERS = [
    b"Content-Length: -5\r\n\r\n", b"Content-Length: x\r\n\r\n", b"Content-Type: a\r\n\r\n", b"Content-Length: 0\r\n\r\n",
    b"Content-Length: 1e3\r\n\r\n", b"\xff" * 10_000 + b"\r\n\r\n",
]  # fmt: skip


def test_a_malformed_message_is_an_error_and_the_server_continues() -> None:
    found, log = answers(sent(INITIALIZE, OPEN, *(message for message, _, _ in MALFORMED)))
    errors = [(each["id"], each["error"]["code"]) for each in found if "error" in each]
    assert errors == [(number, code) for _, number, code in MALFORMED]
    assert "Traceback" not in json.dumps(found) + log
    assert "traceback" not in json.dumps(found)


def test_a_malformed_notification_is_passed_over() -> None:
    found, log = answers(sent(INITIALIZE, OPEN, *NOTIFICATIONS, hover(0)))
    assert [each["id"] for each in found if "id" in each] == [1]
    assert all(each["error"]["code"] == CANCELLED for each in found if "error" in each)
    assert "Traceback" not in log


def test_a_header_without_a_valid_length_is_refused() -> None:
    found, log = answers(sent(INITIALIZE) + b"".join(HEADERS) + sent(hover(0)))
    codes = [each.get("error", {}).get("code", CANCELLED) for each in found]
    assert codes == [-32700] * len(HEADERS) + [CANCELLED]
    assert "Traceback" not in log


def test_a_request_after_shutdown_is_refused() -> None:
    found, _ = answers(sent(INITIALIZE, request("shutdown", number=0), hover(0)))
    assert [(each["id"], each["error"]["code"]) for each in found] == [(1, -32600)]


def test_header_names_ignore_case_and_a_request_before_initialize_is_refused() -> None:
    body = json.dumps(INITIALIZE).encode()
    early, late = sent(hover(0)), sent(hover(0))
    found, _ = answers(early + b"content-type: x\r\ncontent-LENGTH:%d\n\n%s" % (len(body), body) + late)
    assert [each.get("error", {}).get("code", CANCELLED) for each in found] == [-32002, CANCELLED]


def test_initialize_may_be_repeated_after_a_root_that_is_not_a_uri() -> None:
    found, log = answers(sent(initialize(rootUri="file://["), INITIALIZE, hover(0)))
    assert [each.get("error", {}).get("code", CANCELLED) for each in found] == [-32602, CANCELLED]
    assert log == ""


def test_a_message_that_is_too_large_is_skipped_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from io import BytesIO

    monkeypatch.setattr(protocol, "MAX_BODY", 100)
    refused: list[str] = []
    stream = BytesIO(
        framed(b"x" * 5000) + framed(b"{}") + b"Content-Length: 99999999999999999999\r\n\r\nrest"
    )
    messages = protocol.Messages(stream, lambda error: refused.append(str(error)))
    assert (messages.readline(), messages.readline(), messages.read(2)) == (
        b"Content-Length: 2\r\n",
        b"\r\n",
        b"{}",
    )
    assert messages.readline() == b""
    assert refused == ["a message has at most 100 bytes"] * 2


def test_a_document_may_have_a_name_that_is_not_a_uri() -> None:
    name = "file://["
    document = {"uri": name, "languageId": "ptx", "version": 1, "text": ".version 8.0\n.target sm_90\n"}
    opened = {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": document}}
    place = {"textDocument": {"uri": name}, "position": {"line": 0, "character": 0}}
    found, log = answers(sent(INITIALIZE, opened, request("textDocument/completion", place)))
    assert [bool(each["result"]) for each in found] == [True]
    assert log == ""


def test_the_answer_about_an_internal_error_has_no_traceback() -> None:
    import asyncio

    from tclint.lsp.requests import make_server

    written: list[bytes] = []

    class Writer:
        def write(self, data: bytes) -> None:
            written.append(data)

        def close(self) -> None: ...

    def fail(*_: object) -> None:
        raise KeyError("a secret")

    async def ask() -> None:
        server = make_server()
        server.feature("tclint/fail")(fail)
        server.protocol.set_writer(Writer(), include_headers=False)
        for message in (INITIALIZE, request("tclint/fail", {}, number=7)):
            server.protocol.handle_message(message)
        await asyncio.sleep(0.1)

    asyncio.run(ask())
    (failed,) = (answer for answer in map(json.loads, written) if answer.get("id") == 7)
    assert failed["error"]["code"] == -32603
    assert "traceback" not in json.dumps(failed)

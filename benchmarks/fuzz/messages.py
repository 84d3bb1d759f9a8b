"""Messages of an editor as a surface to fuzz: what a server in this process answers to each."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.fuzz.oracle import where

__all__ = ["read", "seeds"]

ROOT = Path(__file__).resolve().parents[2]


def seeds() -> list[bytes]:
    """Requests and notifications of which each has a valid form."""
    uri = {"uri": "file:///work/k.ptx"}
    at = {"textDocument": uri, "position": {"line": 5, "character": 8}}
    span = {"start": {"line": 3, "character": 0}, "end": {"line": 9, "character": 4}}
    whole = {"version": 2, **uri}
    methods: dict[str, object] = {
        "textDocument/hover": at, "textDocument/definition": at, "textDocument/declaration": at,
        "textDocument/references": {**at, "context": {"includeDeclaration": True}},
        "textDocument/documentSymbol": {"textDocument": uri}, "textDocument/foldingRange": {"textDocument": uri},
        "textDocument/diagnostic": {"textDocument": uri, "previousResultId": "1"},
        "textDocument/codeAction": {"textDocument": uri, "range": span, "context": {"diagnostics": [], "triggerKind": 1}},
        "shutdown": None,
    }  # fmt: skip
    notes: dict[str, object] = {
        "textDocument/didChange": {"textDocument": whole, "contentChanges": [{"range": span, "text": "ret;"}]},
        "textDocument/didOpen": {"textDocument": {**whole, "languageId": "ptx", "text": ".version 8.0\n.target sm_90\n"}},
        "textDocument/didClose": {"textDocument": uri},
        "workspace/didChangeConfiguration": {"settings": {"tclint": {"pedantic": True, "debounce": 0.1}}},
        "workspace/didChangeWatchedFiles": {"changes": [{"uri": "file:///work/tclint-ptx.toml", "type": 2}]},
        "$/cancelRequest": {"id": 1},
    }  # fmt: skip
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": m, "params": p} for m, p in methods.items() if m != "shutdown"
    ]
    others = [{"jsonrpc": "2.0", "method": m, "params": p} for m, p in notes.items()]
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _INITIALIZE}
    return [json.dumps(message).encode() for message in (*requests, *others, initialize)]


_INITIALIZE = {
    "processId": None, "rootUri": "file:///work", "initializationOptions": {"min-severity": "warning"},
    "capabilities": {"textDocument": {"diagnostic": {}}, "workspace": {"configuration": False}},
}  # fmt: skip
_INTERNAL = -32603
_ANSWER_SECONDS = 20
"""After which a request counts as not answered."""


class _Client:
    """A server in this process, with an open document, and what it writes."""

    def __init__(self) -> None:
        from pygls.protocol import json_rpc

        from tclint.lsp.requests import make_server

        # Two fifths of the time would go into texts for a log that is off.
        vars(json_rpc)["traceback"] = SimpleNamespace(format_exc=str)
        self.server = make_server()
        self.left = _MOST_MESSAGES
        self.sent: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.wrote = asyncio.Event()
        self.server.protocol.set_writer(self, include_headers=False)
        self.server.report_server_error = self._note  # type: ignore[method-assign]

    def _note(self, error: Exception, source: object) -> None:
        self.errors.append(where(error))

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data))
        self.wrote.set()

    def close(self) -> None: ...

    async def open(self) -> None:
        text = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text()
        document = {"uri": "file:///work/k.ptx", "languageId": "ptx", "version": 1, "text": text}
        await self.handle({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": _INITIALIZE})
        await self.handle(
            {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": document}}
        )
        self.sent.clear()
        self.errors.clear()

    async def handle(self, message: Any) -> None:
        """Has a message handled, and waits for the answer if it is a request."""
        self.server.protocol.handle_message(message)
        await asyncio.sleep(0)
        if _asks(message):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._answer(message["id"]), _ANSWER_SECONDS)

    async def _answer(self, number: object) -> None:
        while not any(sent.get("id", "") in (number, None) and "method" not in sent for sent in self.sent):
            self.wrote.clear()
            await self.wrote.wait()


def read(data: bytes, folder: Path) -> str:
    """Sends a message to a server; raises AssertionError for an internal error, and for no or several answers."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return "no JSON"
    if isinstance(message, dict) and message.get("method") == "exit":
        return "exit"
    return _LOOP.run_until_complete(_answered(message))


_LOOP = asyncio.new_event_loop()
_CLIENTS: list[_Client] = []
_MOST_MESSAGES = 400
"""Messages that one server gets, with the state that those before left."""


async def _client() -> _Client:
    if _CLIENTS and _CLIENTS[0].left > 0:
        client = _CLIENTS[0]
    else:
        if _CLIENTS:
            _CLIENTS.pop().server._worker.shutdown(wait=False, cancel_futures=True)
        client = _Client()
        await client.open()
        _CLIENTS.append(client)
    client.left -= 1
    client.sent.clear()
    client.errors.clear()
    return client


def _asks(message: Any) -> bool:
    """Whether *message* is a request with an id that JSON-RPC allows, which must be answered."""
    number = message.get("id") if isinstance(message, dict) and "method" in message else None
    return isinstance(number, int | str) and not isinstance(number, bool)


async def _answered(message: Any) -> str:
    client = await _client()
    await client.handle(message)
    if client.errors:
        client.left = 0
    answers = [sent for sent in client.sent if "method" not in sent]
    internal = [a["error"]["message"] for a in answers if a.get("error", {}).get("code") == _INTERNAL]
    if internal or client.errors:
        raise AssertionError(f"internal: {(client.errors or internal)[0]}")
    if _asks(message) and [answer["id"] for answer in answers] != [message["id"]]:
        raise AssertionError(f"{len(answers)} answers")
    return "an error" if any("error" in answer for answer in answers) else "handled"

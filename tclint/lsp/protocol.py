"""Messages of a client, of which any may be malformed: each request gets a result or an error, and none ends the server.

pygls structures messages while it decodes them, and neither answers what it cannot structure nor survives a length that is
not one. Here, :class:`Messages` reads frames, and :class:`MessageProtocol` structures whole messages.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator
from typing import Any, BinaryIO

from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.uris import from_fs_path, to_fs_path

__all__ = ["MAX_BODY", "MessageProtocol", "Messages", "log_plainly"]

MAX_BODY = 512 * 2**20
"""The largest message in bytes. A text of the largest input (``max-input``) fits, though JSON escapes some characters."""
_MAX_HEADER = 4096
"""The longest line of a header."""
_PIECE = 2**20
_BEFORE = (types.INITIALIZE, types.EXIT)
"""The methods that a client may call before the server is initialised."""


class MessageProtocol(LanguageServerProtocol):
    """Refuses malformed messages, and leaves the texts to the server: pygls would split lines at characters that are not
    line endings in the protocol."""

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(
        self, params: types.DidOpenTextDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(
        self, params: types.DidCloseTextDocumentParams
    ) -> Generator[Any, Any, None]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CLOSE], (params,), None

    def structure_message(self, data: dict[str, Any]) -> Any:
        """*data* unchanged: pygls calls this for every object of a message, also for one inside another."""
        return data

    def handle_message(self, message: Any) -> None:
        """Delegates a decoded message to its handler, or sends an error to a request that is malformed."""
        number = message.get("id") if isinstance(message, dict) else None
        valid = isinstance(number, str | int) and not isinstance(number, bool)
        try:
            self._refuse_malformed(message, valid)
            structured = self._structured(message)
        except JsonRpcException as error:
            if valid or not isinstance(message, dict) or "id" in message or "method" not in message:
                self.refuse(error, number if valid else None)
            return
        super().handle_message(structured)

    def refuse(self, error: JsonRpcException, number: str | int | None = None) -> None:
        """Sends *error* as the answer to the request *number*; None if the request could not be read."""
        refusal = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": number, "error": refusal})

    def _refuse_malformed(self, message: Any, valid: bool) -> None:
        """Raises JsonRpcException for what is not a message, or not one that may come now."""
        if not isinstance(message, dict) or message.get("jsonrpc") != self.VERSION:
            raise JsonRpcInvalidRequest("not a message of JSON-RPC 2.0")
        if message.get("id") is not None and not valid:
            raise JsonRpcInvalidRequest("the id is neither a string nor an integer")
        method = message.get("method")
        if method is None:
            if not valid or not ("result" in message or "error" in message):
                raise JsonRpcInvalidRequest("neither a method nor a result")
            return
        if not isinstance(method, str):
            raise JsonRpcInvalidRequest("the method is not a string")
        if self._workspace is None and method not in _BEFORE:
            raise JsonRpcServerNotInitialized()
        if self._shutdown and method != types.EXIT:
            raise JsonRpcInvalidRequest("the server has been shut down")
        if method not in self.fm.features and method not in self.fm.builtin_features:
            raise JsonRpcMethodNotFound.of(method)

    def _structured(self, message: dict[str, Any]) -> Any:
        """The message as an object of the protocol. Raises JsonRpcInvalidParams."""
        if message.get("id") is None:  # a notification; some clients send null
            message = {key: value for key, value in message.items() if key != "id"}
        try:
            structured = super().structure_message(message)
            if isinstance(structured, types.InitializeRequest):
                _refuse_root(structured.params)
        except Exception as error:
            raise JsonRpcInvalidParams() from error
        if self._workspace is not None and isinstance(structured, types.InitializeRequest):
            raise JsonRpcInvalidRequest("the server has been initialised already")
        if "id" in message and not hasattr(structured, "id"):
            raise JsonRpcInvalidRequest(f"{message['method']} is a notification, so it has no id")
        return structured

    def _send_response(
        self, msg_id: Any, result: Any | None = None, error: types.ResponseError | None = None
    ) -> None:
        if error is not None and isinstance(error.data, dict):
            error.data.pop("traceback", None)  # for the log, if it is wanted
        super()._send_response(msg_id, result, error)


def _refuse_root(params: types.InitializeParams) -> None:
    """Raises ValueError for a root of which pygls makes no path."""
    uri = params.root_uri
    if uri is None and params.root_path is not None:
        uri = from_fs_path(params.root_path)
    if uri is not None:
        to_fs_path(uri)


class Messages:
    """A stream of frames, as pygls reads it: a header line with the length, an empty line, and a body of that length.

    A frame without a valid length, or whose body is too large, is skipped, and *refuse* is called with the error. Nothing is
    read into memory beyond the limits, and the end of the stream in the middle of a frame is its end.
    """

    def __init__(self, stream: BinaryIO, refuse: Callable[[JsonRpcException], None]) -> None:
        self._stream = stream
        self._refuse = refuse
        self._lines: list[bytes] = []
        self._body = b""

    def readline(self) -> bytes:
        """The next line of a valid header; b"" at the end of the stream."""
        if not self._lines and not self._next():
            return b""
        return self._lines.pop(0)

    def read(self, count: int) -> bytes:
        """The body that belongs to the header; *count* is its length."""
        body, self._body = self._body, b""
        return body

    def _next(self) -> bool:
        """Reads the next valid frame; returns whether there is one."""
        while (length := self._length()) is not None:
            if length > MAX_BODY:
                self._refuse(JsonRpcInvalidRequest(f"a message has at most {MAX_BODY:,} bytes"))
            pieces, left = [], length
            while left and (piece := self._stream.read(min(left, _PIECE))):
                left -= len(piece)
                if length <= MAX_BODY:
                    pieces.append(piece)
            if left:
                return False
            if length <= MAX_BODY:
                self._body = b"".join(pieces)
                self._lines = [b"Content-Length: %d\r\n" % length, b"\r\n"]
                return True
        return False

    def _length(self) -> int | None:
        """The length that the next header gives; None at the end of the stream. Headers without one are refused."""
        length = -1
        begun = False
        while line := self._stream.readline(_MAX_HEADER):
            name, colon, value = line.partition(b":")
            words = line.strip()
            if colon and name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value.strip()[:18])
            if words:
                begun = True
                continue
            if length > 0:
                return length
            if begun:
                self._refuse(JsonRpcParseError("a header without a valid Content-Length"))
            begun = False
        return None


def log_plainly() -> None:
    """Has errors logged on one line each of standard error, and with tracebacks only if ``TCLINT_DEBUG`` is set."""
    handler = logging.StreamHandler(sys.stderr)
    if not os.environ.get("TCLINT_DEBUG"):
        handler.setFormatter(_OneLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        first, *_ = record.getMessage().splitlines() or [""]
        return f"tclint: {first[:500]}"

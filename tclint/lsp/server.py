"""The server: the documents of a client, and the order in which work on them is done.

The event loop reads messages and keeps the texts of documents up to date. Everything that analyses a text runs on one
worker thread, one task at a time. The analysis of an outdated state ends at its next step, so at most one analysis is
wasted, however fast the user types.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from typing import Protocol as Structural

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcParseError
from pygls.lsp.server import LanguageServer

from tclint._version import __version__
from tclint.analyses.model import KernelModel
from tclint.config.config import Config
from tclint.config.settings import FILE, PROJECT
from tclint.findings.selection import SettingsError
from tclint.findings.spans import Span
from tclint.ir.nodes import Function, Module
from tclint.lsp.configuration import SECTION, Configuration
from tclint.lsp.diagnostics import diagnostics, of_error
from tclint.lsp.document import Document, Lint, Superseded
from tclint.lsp.names import Cursor
from tclint.lsp.protocol import MessageProtocol, Messages, log_plainly
from tclint.lsp.text import DocumentText
from tclint.lsp.workspace import WorkspaceSymbols
from tclint.syntax import Tree

__all__ = ["At", "Server"]

CLIENT_SECONDS = 3.0
"""How often it is looked whether the process of the client lives."""
_log = logging.getLogger(__name__)
R = TypeVar("R")


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _end_after(process: int) -> None:
    """Ends the server when *process* has ended. A thread may wait for input at that time, so nothing is waited for."""
    while _lives(process):
        time.sleep(CLIENT_SECONDS)
    os._exit(1)


class At(Structural):
    """The parameters of a request about a position."""

    text_document: types.TextDocumentIdentifier
    position: types.Position


class Server(LanguageServer):
    """The documents of one client."""

    def __init__(self) -> None:
        super().__init__("tclint", __version__, protocol_cls=MessageProtocol)
        self.documents: dict[str, Document] = {}
        self.configuration = Configuration()
        self.root: Path | None = None
        """The folder of the workspace; None if the client has none."""
        self.symbols = WorkspaceSymbols()
        self.shut_down = False
        """Whether the client has asked for the shutdown."""
        self.code = 0
        """The exit code of the server."""
        self._worker = ThreadPoolExecutor(1, "tclint")
        self._reported: dict[str, tuple[str, list[types.Diagnostic]]] = {}
        """Document -> the result id of its last diagnostics, and these diagnostics."""
        self._ids = 0
        self._complaints: set[str] = set()
        """Errors in configuration files that have been shown."""
        self._pushes: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ---------------------------------------------------------------- the client

    def serve(self, stream: BinaryIO) -> int:
        """Answers the messages in *stream* on standard output until its end; returns the exit code.

        That is 1 if the client asks for the exit without a shutdown before, as the protocol has it.
        """
        log_plainly()
        self.start_io(Messages(stream, self._refuse))  # type: ignore[arg-type]
        return self.code

    def _refuse(self, error: JsonRpcException) -> None:
        assert isinstance(self.protocol, MessageProtocol)
        self.protocol.refuse(error)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Logs an error, and answers a message that could not be decoded."""
        if source is JsonRpcException and isinstance(error, ValueError | RecursionError):
            self._refuse(JsonRpcParseError("a message that is not JSON in UTF-8"))
        else:
            _log.error("%s: %s", type(error).__name__, error)

    @property
    def encoding(self) -> str:
        chosen = self.workspace.position_encoding
        return chosen.value if isinstance(chosen, types.PositionEncodingKind) else str(chosen)

    @property
    def pulls(self) -> bool:
        """Whether the client pulls diagnostics. They must not be pushed to such a client too, as it would show both."""
        capabilities = self.client_capabilities.text_document
        return capabilities is not None and capabilities.diagnostic is not None

    @property
    def refreshes(self) -> bool:
        """Whether the client can be asked to pull diagnostics again."""
        workspace = self.client_capabilities.workspace
        wanted = workspace.diagnostics if workspace is not None else None
        return wanted is not None and bool(wanted.refresh_support)

    @property
    def shows_markdown(self) -> bool:
        """Whether the client shows the documentation of a completion as Markdown."""
        capabilities = self.client_capabilities.text_document
        completion = capabilities.completion if capabilities is not None else None
        item = completion.completion_item if completion is not None else None
        formats = item.documentation_format if item is not None else None
        return types.MarkupKind.Markdown in (formats or ())

    @property
    def patience(self) -> float:
        """The time limit of a first answer in seconds; unlimited if a second answer cannot follow."""
        return self.configuration.own["patience"] if self.refreshes or not self.pulls else inf

    @property
    def versioned(self) -> bool:
        """Whether the client supports edits that refer to a version of a document."""
        workspace = self.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace is not None else None
        return bool(edit is not None and edit.document_changes)

    def complain(self, message: str) -> None:
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"tclint: {message}"))

    def soon(self, work: Any) -> asyncio.Task[None]:
        """Schedules *work* on the event loop."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def watch_client(self, process: int | None) -> None:
        """Has the server end when the *process* of the client does, which may leave standard input open to another one.

        A process that cannot be seen from here, as from within a container, is not watched.
        """
        if process is not None and process > 0 and os.name == "posix" and _lives(process):
            threading.Thread(target=_end_after, args=(process,), name="client", daemon=True).start()

    # ---------------------------------------------------------------- settings

    def config(self, document: Document) -> Config | None:
        """The settings of a document, without those of an invalid file; None if the document is excluded."""
        try:
            return self.configuration.of(document.path)
        except SettingsError as error:
            if str(error) not in self._complaints:  # once, not at every keystroke
                self._complaints.add(str(error))
                self.complain(str(error))
            return self.configuration.without_files()

    def settings_say(self, origin: str, values: object) -> None:
        try:
            self.configuration.say(origin, values)
        except SettingsError as error:
            self.complain(str(error))

    def reread_files(self) -> None:
        """Forgets the configuration files that were read, as they have changed."""
        self.configuration.forget()
        self._complaints.clear()
        self.soon(self.refresh())

    async def ask_settings(self) -> None:
        """Requests the settings from a client that supports it, and then refreshes all diagnostics."""
        workspace = self.client_capabilities.workspace
        if workspace is not None and workspace.configuration:
            items = [types.ConfigurationItem(section=SECTION)]
            try:
                (values,) = await self.workspace_configuration_async(types.ConfigurationParams(items))
            except Exception as error:  # noqa: BLE001 - a client may answer anything
                _log.warning("the client did not provide its settings: %s", error)
            else:
                self.settings_say("the settings of the editor", values)
        await self.refresh()

    async def refresh(self) -> None:
        """Has the diagnostics of all documents computed again."""
        if not self.pulls:
            for document in self.documents.values():
                self.push(document)
        elif self.refreshes:
            await self.workspace_diagnostic_refresh_async(None)

    async def watch_files(self) -> None:
        """Asks the client for a notification when a configuration file changes."""
        workspace = self.client_capabilities.workspace
        watched = workspace.did_change_watched_files if workspace is not None else None
        if watched is None or not watched.dynamic_registration:
            return
        watchers = [types.FileSystemWatcher(f"**/{name}") for name in (FILE, PROJECT)]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
        registration = types.Registration("tclint-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
        await self.client_register_capability_async(types.RegistrationParams([registration]))

    # ---------------------------------------------------------------- work

    async def work(self, task: Callable[[], R]) -> R:
        """Runs *task* on the worker."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, task)

    async def lint(self, document: Document, seconds: float = inf) -> Lint | None:
        """The result for the current state, within *seconds*; None if the document is excluded. Raises Superseded."""
        config, version, text = self.config(document), document.version, document.text
        if config is None:
            return None
        return await self.work(lambda: document.lint(version, text, config, seconds))

    async def diagnose(self, document: Document, seconds: float = inf) -> tuple[str, list[types.Diagnostic]]:
        """The diagnostics of the current state, with a result id that is kept as long as they do not change.

        Findings that would take longer than *seconds* are computed later. Raises Superseded. Any other exception of the
        analysis becomes a diagnostic.
        """
        text = document.text
        try:
            lint = await self.lint(document, seconds)
            found = diagnostics(document, lint) if lint is not None else []
            if lint is not None and not lint.complete:
                self.soon(self._complete(document, lint.version))
        except Superseded:
            raise
        except Exception as error:  # noqa: BLE001 - a failing check must not end the server
            _log.error("%s: %s", document.path, error, exc_info=bool(os.environ.get("TCLINT_DEBUG")))
            found = [of_error(text, error)]
        name, before = self._reported.get(document.uri, ("", None))
        if found != before:
            self._ids += 1
            name = str(self._ids)
            self._reported[document.uri] = name, found
        return name, found

    def push(self, document: Document) -> None:
        """Sends the diagnostics after a pause without changes."""
        if (waiting := self._pushes.pop(document.uri, None)) is not None:
            waiting.cancel()
        self._pushes[document.uri] = self.soon(self._push(document))

    async def _push(self, document: Document) -> None:
        await asyncio.sleep(self.configuration.own["debounce"])
        version = document.version
        try:
            _, found = await self.diagnose(document, self.patience)
        except Superseded:
            return  # a push of the newer state is scheduled
        self._publish(document, version, found)

    def _publish(self, document: Document, version: int, found: list[types.Diagnostic]) -> None:
        """Sends diagnostics, unless the document has changed since."""
        if document.version == version and document.uri in self.documents:
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(document.uri, found, version)
            )

    async def _complete(self, document: Document, version: int) -> None:
        """Completes the last, partial answer for a state, and notifies the client if the diagnostics differ."""
        reported = self._reported[document.uri][0] if document.uri in self._reported else None
        if document.version != version:
            return
        try:
            name, found = await self.diagnose(document)
        except Superseded:
            return
        if name == reported:
            return
        if self.pulls:
            await self.refresh()
        else:
            self._publish(document, version, found)
        workspace = self.client_capabilities.workspace
        if workspace is not None and workspace.code_lens is not None and workspace.code_lens.refresh_support:
            await self.workspace_code_lens_refresh_async(None)

    def close(self, uri: str) -> None:
        document = self.documents.pop(uri, None)
        self._reported.pop(uri, None)
        if (waiting := self._pushes.pop(uri, None)) is not None:
            waiting.cancel()
        if document is not None:
            document.version = -1  # ends a running analysis
            if not self.pulls:
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def look(self, uri: str, work: Callable[[Document, DocumentText, Tree, Module], R]) -> R | None:
        """The result of *work* on the current state of a document; None if it is not open."""
        document = self.documents.get(uri)
        if document is None:
            return None
        text = document.text

        def task() -> R:
            return work(document, text, *document.built(text))

        return await self.work(task)

    async def at(self, params: At, work: Callable[[Cursor, DocumentText], R]) -> R | None:
        """The result of *work* on a position in a document; None if it is not open."""
        opened = self.documents.get(params.text_document.uri)
        config = (self.config(opened) if opened is not None else None) or Config()

        def look(document: Document, text: DocumentText, tree: Tree, module: Module) -> R:
            place = Cursor(
                tree,
                module,
                text.analysed,
                text.offset(params.position),
                lambda function: document.model(module, function, config),
                document.current(text),
            )
            return work(place, text)

        return await self.look(params.text_document.uri, look)

    def typed_at(self, params: At) -> tuple[Document, int, int] | None:
        """The document, the byte at a position, and where the PTX around it begins; None if there is no PTX."""
        document = self.documents.get(params.text_document.uri)
        if document is None:
            return None
        offset = document.text.offset(params.position)
        begin = document.ptx_begin(offset)
        return None if begin is None else (document, offset, begin)

    async def in_range(
        self,
        uri: str,
        place: types.Range,
        work: Callable[[Module, DocumentText, Span, Callable[[Function], KernelModel]], R],
    ) -> R | None:
        """The result of *work* on a range of a document, with the models of its functions; None if it is not open."""
        opened = self.documents.get(uri)
        config = (self.config(opened) if opened is not None else None) or Config()

        def look(document: Document, text: DocumentText, tree: Tree, module: Module) -> R:
            span = Span(text.offset(place.start), text.offset(place.end))
            return work(module, text, span, lambda function: document.model(module, function, config))

        return await self.look(uri, look)

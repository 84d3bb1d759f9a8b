"""The requests and notifications of the protocol that the server answers, each a function of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.uris import to_fs_path

from tclint.findings.spans import Span
from tclint.lsp.actions import FIX_ALL, actions
from tclint.lsp.completion import TRIGGERS, complete, describe, signatures
from tclint.lsp.configuration import SECTION
from tclint.lsp.diagnostics import SOURCE
from tclint.lsp.document import Document, Superseded
from tclint.lsp.formatting import formats
from tclint.lsp.hints import hints
from tclint.lsp.hover import hover
from tclint.lsp.lenses import lenses
from tclint.lsp.names import Cursor
from tclint.lsp.outline import folds, symbols
from tclint.lsp.renaming import RenameError, Renaming, highlights
from tclint.lsp.server import At, Server
from tclint.lsp.text import DocumentText

__all__ = ["make_server"]

F = TypeVar("F", bound=Callable[..., Any])

_HANDLERS: list[tuple[str, Any, Callable[..., Any]]] = []
"""Method, its options, and the function that handles it: pygls passes the server for a parameter named ``ls``."""


def make_server() -> Server:
    """A new server, not started yet."""
    server = Server()
    for method, options, handler in _HANDLERS:
        server.feature(method, options)(handler)
    return server


def _handles(method: str, options: Any = None) -> Callable[[F], F]:
    """Register the handler of a request or notification."""

    def register(handler: F) -> F:
        _HANDLERS.append((method, options, handler))
        return handler

    return register


def _path(uri: str) -> str | None:
    """The path that a URI denotes; None if it denotes none, or is not a URI."""
    try:
        return to_fs_path(uri)
    except ValueError:
        return None


@_handles(types.INITIALIZE)
def initialize(ls: Server, params: types.InitializeParams) -> None:
    root = _path(params.root_uri) if params.root_uri else params.root_path
    ls.root = Path(root) if root else None
    ls.configuration.folder = ls.root or Path.cwd()
    options = params.initialization_options
    nested = options.get("settings") if isinstance(options, dict) else None
    ls.settings_say("initializationOptions", options if nested is None else nested)
    ls.watch_client(params.process_id)


@_handles(types.INITIALIZED)
async def initialized(ls: Server, params: types.InitializedParams) -> None:
    ls.soon(ls.watch_files())
    ls.soon(ls.ask_settings())


@_handles(types.SHUTDOWN)
def shutdown(ls: Server, params: None) -> None:
    ls.shut_down = True
    for uri in [*ls.documents]:
        ls.documents[uri].version = -1


@_handles(types.EXIT)
def exit_asked(ls: Server, params: None) -> None:
    ls.code = 0 if ls.shut_down else 1


@_handles(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
async def settings_changed(ls: Server, params: types.DidChangeConfigurationParams) -> None:
    if isinstance(params.settings, dict) and isinstance(params.settings.get(SECTION), dict):
        ls.settings_say("the settings of the editor", params.settings[SECTION])
    ls.soon(ls.ask_settings())


@_handles(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
async def files_changed(ls: Server, params: types.DidChangeWatchedFilesParams) -> None:
    ls.reread_files()


@_handles(types.TEXT_DOCUMENT_DID_OPEN)
def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    text = DocumentText.of(item.text, ls.encoding)
    document = Document(item.uri, _path(item.uri) or item.uri, text, item.version)
    ls.documents[item.uri] = document
    if not ls.pulls:
        ls.push(document)


@_handles(types.TEXT_DOCUMENT_DID_CHANGE)
def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    document = ls.documents.get(params.text_document.uri)
    if document is None:
        return
    document.text = document.text.changed(params.content_changes)
    document.version = params.text_document.version
    if not ls.pulls:
        ls.push(document)


@_handles(types.TEXT_DOCUMENT_DID_CLOSE)
def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    ls.close(params.text_document.uri)


@_handles(
    types.TEXT_DOCUMENT_DIAGNOSTIC,
    types.DiagnosticOptions(identifier=SOURCE, inter_file_dependencies=False, workspace_diagnostics=False),
)
async def pull(ls: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    document = ls.documents.get(params.text_document.uri)
    if document is None:
        return types.RelatedFullDocumentDiagnosticReport([])
    try:
        name, found = await ls.diagnose(document, ls.patience)
    except Superseded:
        raise JsonRpcException(
            code=types.LSPErrorCodes.ServerCancelled,
            message="the text has changed",
            data={"retriggerRequest": True},
        ) from None
    if name == params.previous_result_id:
        return types.RelatedUnchangedDocumentDiagnosticReport(name)
    return types.RelatedFullDocumentDiagnosticReport(found, result_id=name)


@_handles(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix, FIX_ALL]))
async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    document = ls.documents.get(params.text_document.uri)
    if document is None:
        return []
    asked = params.context.trigger_kind != types.CodeActionTriggerKind.Automatic
    try:
        lint = await ls.lint(document, inf if asked else ls.patience)
    except Superseded:
        return []
    if lint is None:
        return []
    text, wanted = lint.text, params.range
    place = Span(text.offset(wanted.start), text.offset(wanted.end))
    _, module = await ls.work(lambda: document.built(text))
    return actions(document, lint, module, place, params.context.only, ls.versioned)


@_handles(types.TEXT_DOCUMENT_HOVER)
async def hovered(ls: Server, params: types.HoverParams) -> types.Hover | None:
    def show(place: Cursor, text: DocumentText) -> types.Hover | None:
        found = hover(place, text)
        if found is None:
            return None
        markdown = types.MarkupContent(types.MarkupKind.Markdown, found[0])
        return types.Hover(markdown, text.range(found[1]))

    return await ls.at(params, show)


def _locations(ls: Server, params: At, find: Callable[[Cursor], list[Span]]) -> Any:
    """The locations that *find* finds for a position, as an awaitable."""
    uri = params.text_document.uri
    return ls.at(params, lambda place, text: [types.Location(uri, text.range(span)) for span in find(place)])


@_handles(types.TEXT_DOCUMENT_DEFINITION)
async def definition(ls: Server, params: types.DefinitionParams) -> Any:
    return await _locations(ls, params, Cursor.definitions)


@_handles(types.TEXT_DOCUMENT_DECLARATION)
async def declaration(ls: Server, params: types.DeclarationParams) -> Any:
    return await _locations(ls, params, Cursor.declarations)


@_handles(types.TEXT_DOCUMENT_REFERENCES)
async def references(ls: Server, params: types.ReferenceParams) -> Any:
    declared = params.context.include_declaration
    return await _locations(ls, params, lambda place: place.references(declared))


@_handles(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
async def document_highlight(ls: Server, params: types.DocumentHighlightParams) -> Any:
    return await ls.at(params, highlights)


@_handles(types.TEXT_DOCUMENT_PREPARE_RENAME)
async def prepare_rename(ls: Server, params: types.PrepareRenameParams) -> Any:
    def find(place: Cursor, text: DocumentText) -> types.Range | None:
        span = Renaming(place.tree, place.data, place.offset).place
        return None if span is None else text.range(span)

    return await ls.at(params, find)


@_handles(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
async def rename(ls: Server, params: types.RenameParams) -> types.WorkspaceEdit | None:
    uri = params.text_document.uri

    def find(place: Cursor, text: DocumentText) -> list[types.TextEdit]:
        edits = Renaming(place.tree, place.data, place.offset).edits(params.new_name)
        return [types.TextEdit(text.range(Span(each.start, each.end)), each.new.decode()) for each in edits]

    try:
        found = await ls.at(params, find)
    except RenameError as error:
        raise JsonRpcException(code=types.LSPErrorCodes.RequestFailed, message=str(error)) from None
    return None if found is None else types.WorkspaceEdit(changes={uri: found})


@_handles(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions())
async def code_lens(ls: Server, params: types.CodeLensParams) -> list[types.CodeLens]:
    document = ls.documents.get(params.text_document.uri)
    if document is None:
        return []
    try:
        lint = await ls.lint(document, ls.patience)
    except Superseded:
        return []
    if lint is None:
        return []
    _, module = await ls.work(lambda: document.built(lint.text))
    return lenses(lint, module)


@_handles(types.WORKSPACE_SYMBOL)
async def workspace_symbol(ls: Server, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
    opened = {document.uri: document.text for document in ls.documents.values() if not document.host}
    # Beside the worker, which has the analyses: files are read, and nothing that it has is used.
    return await asyncio.to_thread(ls.symbols.find, params.query, opened, ls.root, ls.encoding)


@_handles(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
async def document_symbol(ls: Server, params: types.DocumentSymbolParams) -> Any:
    return await ls.look(params.text_document.uri, lambda document, text, tree, module: symbols(tree, text))


@_handles(types.TEXT_DOCUMENT_FOLDING_RANGE)
async def folding_range(ls: Server, params: types.FoldingRangeParams) -> Any:
    return await ls.look(params.text_document.uri, lambda document, text, tree, module: folds(tree, text))


@_handles(types.TEXT_DOCUMENT_FORMATTING)
async def formatting(ls: Server, params: types.DocumentFormattingParams) -> Any:
    return await ls.look(
        params.text_document.uri, lambda document, text, tree, module: formats(text, document.host)
    )


@_handles(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions([*TRIGGERS], resolve_provider=True))
def completion(ls: Server, params: types.CompletionParams) -> types.CompletionList | None:
    found = ls.typed_at(params)
    if found is None:
        return None
    document, offset, begin = found
    return complete(document.text, offset, begin, inline=document.host)


@_handles(types.COMPLETION_ITEM_RESOLVE)
def resolved(ls: Server, params: types.CompletionItem) -> types.CompletionItem:
    return describe(params, markdown=ls.shows_markdown)


@_handles(types.TEXT_DOCUMENT_SIGNATURE_HELP, types.SignatureHelpOptions([" ", ","]))
def signature_help(ls: Server, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
    found = ls.typed_at(params)
    if found is None:
        return None
    document, offset, begin = found
    return signatures(document.text, offset, begin)


@_handles(types.TEXT_DOCUMENT_INLAY_HINT)
async def inlay_hints(ls: Server, params: types.InlayHintParams) -> Any:
    if not ls.configuration.hints:
        return []
    return await ls.in_range(params.text_document.uri, params.range, hints)

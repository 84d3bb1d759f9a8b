"""The language server, as a client sees it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click import ClickException
from click.testing import CliRunner

from tests.tools import command
from tests.tools.support import HOPPER, before_the_wait, kernel, lint, module

pytest.importorskip("pygls", reason="the language server needs pygls")
pytest_lsp = pytest.importorskip("pytest_lsp", reason="its tests need pytest-lsp")

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient

from tclint.analyses.model import KernelModel
from tclint.commands._cli import cli
from tclint.config.config import Config
from tclint.dataflow import LimitExceeded
from tclint.findings.finding import Edit, Fix
from tclint.findings.rules import all_rules, page
from tclint.findings.spans import Span
from tclint.lsp import document as documents
from tclint.lsp.actions import actions
from tclint.lsp.diagnostics import STALE, diagnostics
from tclint.lsp.document import Document, Superseded
from tclint.lsp.hints import hints
from tclint.lsp.requests import make_server
from tclint.lsp.text import DocumentText

WRONG = module(before_the_wait("    add.f32 %f5, %f0, %f1; // early"), header=HOPPER)
RIGHT = WRONG.replace("    add.f32 %f5, %f0, %f1; // early\n", "")
URI = "file:///work/k.ptx"


def capabilities(*, pull: bool = True, encoding: str | None = None, **workspace: Any) -> t.ClientCapabilities:
    """Those of a client that asks for diagnostics or is sent them."""
    return t.ClientCapabilities(
        general=t.GeneralClientCapabilities(
            position_encodings=None if encoding is None else [t.PositionEncodingKind(encoding)]
        ),
        text_document=t.TextDocumentClientCapabilities(
            diagnostic=t.DiagnosticClientCapabilities() if pull else None,
            publish_diagnostics=t.PublishDiagnosticsClientCapabilities(),
        ),
        workspace=t.WorkspaceClientCapabilities(
            workspace_edit=t.WorkspaceEditClientCapabilities(document_changes=True), **workspace
        ),
    )


PROCESS = ClientServerConfig(server_command=[sys.executable, "-m", "tclint", "lsp"])


class Forked(ClientServerConfig):  # type: ignore[misc]
    """A server in a fork of this process, which has imported and prepared most of what it needs."""

    async def start(self, devtools: str | None = None) -> LanguageClient:
        client = self.client_factory()
        client.child, port = command.served(("lsp",), Path.cwd(), os.environ)
        await client.start_tcp("127.0.0.1", port)
        if hasattr(os, "pidfd_open"):
            end = os.pidfd_open(client.child)
            asyncio.get_running_loop().add_reader(end, self._ended, client, end)
        return client

    @staticmethod
    def _ended(client: LanguageClient, end: int) -> None:
        """A request that a server has not answered when it ends fails, rather than waits."""
        asyncio.get_running_loop().remove_reader(end)
        os.close(end)
        for waiting in [*client.protocol._request_futures.values()]:
            if not waiting.done():
                waiting.set_exception(ConnectionError("the server has ended"))


@pytest_lsp.fixture(config=Forked([]) if hasattr(os, "fork") else PROCESS)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    lsp_client.messages = []  # type: ignore[attr-defined]
    yield
    if lsp_client.capabilities is not None:
        await lsp_client.shutdown_session()
    if child := getattr(lsp_client, "child", 0):
        await asyncio.to_thread(os.waitpid, child, 0)
        lsp_client.protocol.writer.close()


@pytest_lsp.fixture(config=PROCESS)
async def process(lsp_client: LanguageClient) -> AsyncIterator[None]:
    yield
    await lsp_client.shutdown_session()


async def start(
    client: LanguageClient,
    how: t.ClientCapabilities | None = None,
    *,
    options: object = None,
    root: Path | None = None,
) -> t.InitializeResult:
    return await client.initialize_session(
        t.InitializeParams(
            capabilities=how or capabilities(),
            root_uri=root.as_uri() if root is not None else None,
            initialization_options=options,
        )
    )


def open_(client: LanguageClient, text: str, uri: str = URI) -> None:
    client.text_document_did_open(t.DidOpenTextDocumentParams(t.TextDocumentItem(uri, "ptx", 1, text)))


def change(client: LanguageClient, version: int, *changes: Any, uri: str = URI) -> None:
    identifier = t.VersionedTextDocumentIdentifier(version=version, uri=uri)
    client.text_document_did_change(t.DidChangeTextDocumentParams(identifier, [*changes]))


async def pull(client: LanguageClient, previous: str | None = None, uri: str = URI) -> Any:
    return await client.text_document_diagnostic_async(
        t.DocumentDiagnosticParams(t.TextDocumentIdentifier(uri), previous_result_id=previous)
    )


def published(client: LanguageClient) -> asyncio.Queue[t.PublishDiagnosticsParams]:
    """All diagnostics that the server sends from now on: of two that arrive together, a wait for each sees only one."""
    answers = asyncio.Queue[t.PublishDiagnosticsParams]()

    def keep(sent: t.PublishDiagnosticsParams) -> None:
        answers.put_nowait(sent)
        client.protocol.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, keep)

    client.protocol.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, keep)
    return answers


def place(text: str, words: str, inside: int = 0) -> t.Position:
    at = text.index(words) + inside
    return t.Position(text[:at].count("\n"), at - text.rfind("\n", 0, at) - 1)


def of(diagnostics: list[t.Diagnostic]) -> list[tuple[Any, int]]:
    return [(d.code, d.range.start.line) for d in diagnostics]


@pytest.mark.asyncio
async def test_the_command_is_a_server(process: LanguageClient) -> None:
    await start(process)
    open_(process, WRONG)
    assert "WG001" in [d.code for d in (await pull(process)).items]


# ---------------------------------------------------------------- diagnostics


@pytest.mark.asyncio
async def test_a_client_that_asks_gets_the_findings_of_a_run(client: LanguageClient) -> None:
    result = await start(client)
    provider = result.capabilities.diagnostic_provider
    assert isinstance(provider, t.DiagnosticOptions)
    assert provider.identifier == "tclint"
    open_(client, WRONG)
    report = await pull(client)
    expected = [f for f in lint(WRONG).findings if f.confidence.label != "low"]
    assert [d.code for d in report.items] == [f.rule.id for f in expected]
    (found,) = (d for d in report.items if d.code == "WG001")
    assert (found.range.start.line, found.range.start.character) == (
        WRONG[: WRONG.index("add.f32 %f5")].count("\n"),
        4,
    )
    assert found.source == "tclint"
    assert found.severity == t.DiagnosticSeverity.Error
    assert found.code_description.href.startswith("file://")
    assert Path(found.code_description.href[7:]).name == "WG001.md"
    steps = [r.message for r in found.related_information]
    assert [s.partition(".")[0] for s in steps] == [str(n) for n in range(1, len(steps) + 1)]
    assert len(steps) >= 2
    assert not client.diagnostics  # not both ways


@pytest.mark.asyncio
async def test_what_has_not_changed_is_not_sent_again(client: LanguageClient) -> None:
    await start(client)
    open_(client, WRONG)
    first = await pull(client)
    again = await pull(client, first.result_id)
    assert isinstance(again, t.RelatedUnchangedDocumentDiagnosticReport)
    assert again.result_id == first.result_id
    change(
        client,
        2,
        t.TextDocumentContentChangePartial(range=t.Range(t.Position(0, 0), t.Position(0, 0)), text="\n"),
    )
    moved = await pull(client, first.result_id)
    assert of(moved.items) == [(code, line + 1) for code, line in of(first.items)]


@pytest.mark.asyncio
async def test_a_request_about_an_old_state_is_asked_to_repeat(client: LanguageClient) -> None:
    await start(client)
    open_(client, WRONG * 40)
    asked = []
    for version in range(2, 7):
        asked.append(asyncio.ensure_future(pull(client)))
        await asyncio.sleep(0.01)
        change(client, version, t.TextDocumentContentChangeWholeDocument(text=WRONG + "\n" * version))
    last = await pull(client)
    assert "WG001" in [d.code for d in last.items]
    ended = await asyncio.gather(*asked, return_exceptions=True)
    cancelled = [e for e in ended if isinstance(e, JsonRpcException)]
    assert cancelled
    assert {e.code for e in cancelled} == {t.LSPErrorCodes.ServerCancelled}
    assert all(e.data["retriggerRequest"] for e in cancelled)


def fixing_edit() -> t.TextDocumentContentChangePartial:
    """A wait above the instruction that needs one: all that is wrong is fixed by an edit elsewhere."""
    line = next(n for n, line in enumerate(WRONG.split("\n")) if "// early" in line)
    place = t.Position(line, 0)
    wait = "    wgmma.wait_group.sync.aligned 0;\n"
    return t.TextDocumentContentChangePartial(range=t.Range(place, place), text=wait)


@pytest.mark.asyncio
async def test_a_second_answer_follows_a_quick_one(client: LanguageClient) -> None:
    how = capabilities()
    refreshing = t.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    how.workspace = t.WorkspaceClientCapabilities(diagnostics=refreshing)

    async def refreshed(times: int) -> None:
        for _ in range(200):
            if client.diagnostic_refresh_count >= times:
                break
            await asyncio.sleep(0.1)
        assert client.diagnostic_refresh_count == times

    await start(client, how, options={"patience": 0})
    await refreshed(1)  # when the settings are there
    open_(client, WRONG)
    opened = await pull(client)
    assert "WG001" in [d.code for d in opened.items]
    change(client, 2, fixing_edit())
    first = await pull(client, opened.result_id)
    (found,) = [d for d in first.items if d.code == "WG001"]
    assert found.message.endswith(STALE)
    assert found.data["stale"]
    assert not any(d.message.endswith(STALE) or d.data["stale"] for d in opened.items)
    await refreshed(2)
    second = await pull(client, first.result_id)
    assert "WG001" not in [d.code for d in second.items]
    change(client, 3, t.TextDocumentContentChangeWholeDocument(text=WRONG))  # as it was: nothing is to follow
    assert (await pull(client)).items == opened.items
    await refreshed(2)


@pytest.mark.asyncio
async def test_a_client_that_cannot_ask_again_waits_for_all(client: LanguageClient) -> None:
    await start(client, options={"patience": 0})
    open_(client, WRONG)
    await pull(client)
    change(client, 2, fixing_edit())
    assert "WG001" not in [d.code for d in (await pull(client)).items]


@pytest.mark.asyncio
async def test_a_client_that_cannot_ask_is_sent_both_answers(client: LanguageClient) -> None:
    await start(client, capabilities(pull=False), options={"debounce": 0, "patience": 0})
    answers = published(client)
    open_(client, WRONG)
    await answers.get()
    change(client, 2, fixing_edit())
    said = []
    for _ in range(2):
        sent = await answers.get()
        said.append((sent.version, "WG001" in [d.code for d in sent.diagnostics]))
    assert said == [(2, True), (2, False)]


@pytest.mark.asyncio
async def test_a_client_that_cannot_ask_is_sent_them(client: LanguageClient) -> None:
    await start(client, capabilities(pull=False), options={"debounce": 0.05})
    open_(client, WRONG)
    await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert "WG001" in [d.code for d in client.diagnostics[URI]]
    for version in range(2, 8):  # many changes at once, one answer
        change(client, version, t.TextDocumentContentChangeWholeDocument(text=RIGHT + "// " * version))
    sent = await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert sent.version == 7
    assert "WG001" not in [d.code for d in client.diagnostics[URI]]
    client.text_document_did_close(t.DidCloseTextDocumentParams(t.TextDocumentIdentifier(URI)))
    await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert not client.diagnostics[URI]


@pytest.mark.asyncio
@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 15), ("utf-16", 12), ("utf-32", 11), (None, 12)])
async def test_columns_are_counted_as_the_client_counts(
    client: LanguageClient, encoding: str | None, column: int
) -> None:
    await start(client, capabilities(encoding=encoding))
    text = WRONG.replace("    add.f32 %f5", "/* é𝄞 */   add.f32 %f5")
    open_(client, text)
    report = await pull(client)
    (found,) = (d for d in report.items if d.code == "WG001")
    assert found.range.start.character == column
    # A change after such characters, in the same units.
    here = found.range.start
    change(
        client,
        2,
        t.TextDocumentContentChangePartial(
            range=t.Range(here, t.Position(here.line, here.character + 3)), text="sub"
        ),
    )
    found = next(d for d in (await pull(client)).items if d.code == "WG001")
    assert found.range.start == here


@pytest.mark.asyncio
async def test_a_text_that_is_not_ptx_is_reported_as_such(client: LanguageClient) -> None:
    await start(client)
    open_(client, "hello\x00 world\n")
    (found,) = (await pull(client)).items
    assert "NUL" in found.message
    change(client, 2, t.TextDocumentContentChangeWholeDocument(text=RIGHT.replace("ret;", "ret")))
    found = (await pull(client)).items[0]
    assert "expected `;`" in found.message
    assert found.severity == t.DiagnosticSeverity.Error


# ---------------------------------------------------------------- settings


@pytest.mark.asyncio
async def test_settings_come_from_the_file_and_from_the_editor(
    client: LanguageClient, tmp_path: Path
) -> None:
    settings = tmp_path / "tclint-ptx.toml"
    settings.write_text('ignore = ["WG001"]\n')
    uri = (tmp_path / "k.ptx").as_uri()
    await start(client, root=tmp_path)
    open_(client, WRONG, uri)
    assert "WG001" not in [d.code for d in (await pull(client, uri=uri)).items]
    settings.write_text("")
    client.workspace_did_change_watched_files(
        t.DidChangeWatchedFilesParams([t.FileEvent(settings.as_uri(), t.FileChangeType.Changed)])
    )
    assert "WG001" in [d.code for d in (await pull(client, uri=uri)).items]
    client.workspace_did_change_configuration(
        t.DidChangeConfigurationParams(settings={"tclint": {"ignore": ["wgmma"]}})
    )
    assert "WG001" not in [d.code for d in (await pull(client, uri=uri)).items]


@pytest.mark.asyncio
async def test_the_client_is_asked_for_its_settings_and_shown_what_is_wrong(client: LanguageClient) -> None:
    client.set_configuration({"tclint": {"select": ["PX"], "min-severity": None}})
    await start(client, capabilities(configuration=True), options={"settings": {"selct": ["WG001"]}})
    for _ in range(100):
        if client.messages:  # type: ignore[attr-defined]
            break
        await asyncio.sleep(0.02)
    open_(client, WRONG)
    for _ in range(100):
        if not (items := (await pull(client)).items):
            break
        await asyncio.sleep(0.02)
    assert not items
    assert any("unknown setting selct" in m.message for m in client.messages)


@pytest.mark.asyncio
async def test_a_wrong_file_is_reported_once_and_the_editors_settings_still_apply(
    client: LanguageClient, tmp_path: Path
) -> None:
    (tmp_path / "tclint-ptx.toml").write_text("selct = []\n")
    uri = (tmp_path / "k.ptx").as_uri()
    await start(client, root=tmp_path, options={"ignore": ["WG001"]})
    open_(client, WRONG, uri)
    for version in (2, 3):
        assert "WG001" not in [d.code for d in (await pull(client, uri=uri)).items]
        change(
            client, version, t.TextDocumentContentChangeWholeDocument(text=WRONG + "\n" * version), uri=uri
        )
    assert [m.message.partition("unknown")[2] for m in client.messages] == [
        " setting selct; did you mean select?"
    ]


@pytest.mark.asyncio
async def test_an_excluded_file_has_no_diagnostics(client: LanguageClient, tmp_path: Path) -> None:
    (tmp_path / "tclint-ptx.toml").write_text('exclude = ["generated"]\n')
    (tmp_path / "generated").mkdir()
    uri = (tmp_path / "generated" / "k.ptx").as_uri()
    await start(client, root=tmp_path)
    open_(client, WRONG, uri)
    assert not (await pull(client, uri=uri)).items


# ---------------------------------------------------------------- actions


async def act(client: LanguageClient, at: t.Position, only: list[Any] | None = None) -> list[t.CodeAction]:
    found = await client.text_document_code_action_async(
        t.CodeActionParams(
            t.TextDocumentIdentifier(URI), t.Range(at, at), t.CodeActionContext(diagnostics=[], only=only)
        )
    )
    return list(found or [])


def edited(text: str, action: t.CodeAction) -> str:
    """The text after an action, which is about one document."""
    assert action.edit is not None
    (change,) = action.edit.document_changes
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    for edit in sorted(
        change.edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True
    ):
        start = starts[edit.range.start.line] + edit.range.start.character
        end = starts[edit.range.end.line] + edit.range.end.character
        text = text[:start] + edit.new_text + text[end:]
    return text


@pytest.mark.asyncio
@pytest.mark.parametrize("title", ["Ignore WG001 here", "Ignore WG001 in k"])
async def test_a_comment_that_hides_the_finding_can_be_inserted(client: LanguageClient, title: str) -> None:
    await start(client)
    open_(client, WRONG)
    found = await act(client, place(WRONG, "add.f32 %f5"))
    (action,) = (a for a in found if a.title == title)
    assert action.kind == t.CodeActionKind.QuickFix
    assert [d.code for d in action.diagnostics] == ["WG001"]
    assert not action.is_preferred
    after = edited(WRONG, action)
    assert after.count("\n") == WRONG.count("\n") + 1
    hidden = [f.rule.id for f in lint(after).findings if f.suppressed is not None]
    assert hidden == ["WG001"]
    assert not [f for f in lint(after).findings if f.rule.id.startswith("SU")]
    assert await act(client, t.Position(0, 0), ["quickfix"]) == []
    assert await act(client, place(WRONG, "add.f32 %f5"), ["refactor"]) == []


def fixed() -> tuple[Document, Any]:
    """A document in which every finding has a safe fix, an alternative, and one that is not safe."""
    text = DocumentText.of(WRONG, "utf-16")
    document = Document(URI, "/work/k.ptx", text, 1)
    result = document.lint(1, text, Config())
    at = text.data.index(b"add.f32 %f5")
    safe = Fix("wait before", (Edit(Span(at, at), "wgmma.wait_group.sync.aligned 0;\n    "),), True)
    other = Fix("remove it", (Edit(Span(at, at + 30), ""),), False)
    findings = tuple(replace(f, fixes=(other, safe)) for f in result.report.findings)
    return document, replace(result, report=replace(result.report, findings=findings))


def test_fixes_become_actions_and_only_a_safe_one_is_preferred() -> None:
    document, result = fixed()
    text = result.text
    at = text.data.index(b"add.f32 %f5")
    _, built = document.built(text)
    found = actions(document, result, built, Span(at, at), None, True)
    by_title = {a.title: a for a in found}
    assert by_title["wait before"].is_preferred
    assert not by_title["remove it"].is_preferred
    wanted = WRONG.replace("add.f32 %f5", "wgmma.wait_group.sync.aligned 0;\n    add.f32 %f5")
    assert edited(WRONG, by_title["wait before"]) == wanted
    whole = by_title["Apply all safe fixes of tclint"]
    assert whole.kind == "source.fixAll.tclint"
    assert edited(WRONG, whole) == wanted  # once, although more findings than one may propose it
    for only in (["source"], ["source.fixAll"], ["source.fixAll.tclint"]):
        assert [a.kind for a in actions(document, result, built, Span(0, 0), only, True)] == [whole.kind]
    assert {a.kind for a in actions(document, result, built, Span(at, at), ["quickfix"], True)} == {
        "quickfix"
    }
    (plain, *_) = actions(document, result, built, Span(0, 0), ["source"], False)
    assert plain.edit is not None
    assert plain.edit.changes is not None


UNROLLED = module(
    kernel(
        ".shared .align 4 .b32 x[128];\nmov.u32 %r1, %tid.x;\nmov.u32 %r5, %r1;\nshl.b32 %r1, %r1, 2;\nmov.u32 %r2, x;\n"
        "add.u32 %r3, %r2, %r1;\nxor.b32 %r1, %r1, 508;\nadd.u32 %r4, %r2, %r1;\n"
        + "st.shared.u32 [%r3], %r5;\nld.shared.u32 %r5, [%r4];\nbar.sync 0;\n" * 3
        + "st.shared.u32 [%r3], %r5;\nret;"
    ),
    header=HOPPER,
)


def test_copies_of_a_line_are_one_diagnostic_whose_actions_change_them_all() -> None:
    text = DocumentText.of(UNROLLED, "utf-16")
    document = Document(URI, "/work/k.ptx", text, 1)
    result = document.lint(1, text, Config())
    first, *others = (text.range(finding.span) for finding in result.report.findings)
    (found,) = diagnostics(document, result)
    assert found.range == first
    assert [
        r.location.range for r in found.related_information or () if r.message.startswith("the same")
    ] == others
    _, built = document.built(text)
    at = {finding.span.start for finding in result.report.findings}
    for start, changed in zip(sorted(at), (3, 1, 1), strict=True):
        by_title = {a.title: a for a in actions(document, result, built, Span(start, start), None, True)}
        repaired = edited(UNROLLED, by_title["add bar.sync 0, which all threads reach"])
        assert repaired.count("bar.sync 0;") == 3 + changed
        hidden = lint(edited(UNROLLED, by_title["Ignore SM001 here"])).findings
        assert [finding.suppressed is not None for finding in hidden].count(True) == changed


# ---------------------------------------------------------------- looking


async def hover(client: LanguageClient, at: t.Position) -> str:
    found = await client.text_document_hover_async(t.HoverParams(t.TextDocumentIdentifier(URI), at))
    return "" if found is None else found.contents.value


@pytest.mark.asyncio
async def test_hover_on_a_kernel_shows_its_verdicts_if_the_settings_ask_for_them(
    client: LanguageClient,
) -> None:
    await start(client, options={"verdict": True, "patience": 0})
    open_(client, WRONG)
    await pull(client)
    shown = await hover(client, place(WRONG, "k(.param", 0))
    assert "- wgmma: **violated** (WG001)" in shown
    assert "- availability: **proved**" in shown


@pytest.mark.asyncio
async def test_hover_explains_opcodes_registers_and_rules(client: LanguageClient) -> None:
    text = WRONG.replace("// early", "// tclint: ignore[WG001] wanted")
    await start(client)
    open_(client, text)
    opcode = await hover(client, place(text, "wgmma.mma_async", 3))
    assert "syntax" in opcode
    assert "completed by wgmma" in opcode
    register = await hover(client, place(text, "add.f32 %f5, %f0", 14))
    assert "register `.f32`" in register
    assert "written by line" in register
    assert "in flight here, with this register" in register
    assert "wgmma.mma_async" in register
    assert "no asynchronous operation is in flight" in await hover(client, place(text, "setp.ne.b32 %p0", 13))
    assert "WG001 " in await hover(client, place(text, "ignore[WG001]", 8))
    assert "## What it finds" in await hover(client, place(text, "ignore[WG001]", 8))
    assert await hover(client, place(text, "wanted")) == ""
    assert "`.param`, 8 bytes" in await hover(client, place(text, "pointer", 2))


LOOP = module(
    """.extern .func helper(.param .b32 x);
.shared .align 8 .b64 barrier;""",
    kernel(
        """
    .reg .pred %p<70>;
    mov.b32 %r1, barrier;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mov.b32 %r7, 1;
again:
    {
    .reg .b32 %r1;
    mov.b32 %r1, %r7;
    add.s32 %r7, %r1, 1;
    }
    mbarrier.arrive.shared::cta.b64 _, [%r1];
    setp.lt.s32 %p69, %r7, 9;
    @%p69 bra again;
    ret;"""
    ),
)


async def lines(client: LanguageClient, method: str, at: t.Position, **more: Any) -> list[str]:
    """The lines of the text that the locations are on."""
    if method == "references":
        params: Any = t.ReferenceParams(
            t.ReferenceContext(more["declaration"]), t.TextDocumentIdentifier(URI), at
        )
    elif method == "declaration":
        params = t.DeclarationParams(t.TextDocumentIdentifier(URI), at)
    else:
        params = t.DefinitionParams(t.TextDocumentIdentifier(URI), at)
    found = await getattr(client, f"text_document_{method}_async")(params)
    return [LOOP.splitlines()[f.range.start.line].strip() for f in found]


@pytest.mark.asyncio
async def test_names_lead_to_where_they_are_defined_and_used(client: LanguageClient) -> None:
    await start(client)
    open_(client, LOOP)
    label = place(LOOP, "bra again", 5)
    assert await lines(client, "definition", label) == ["again:"]
    assert await lines(client, "references", place(LOOP, "again:"), declaration=False) == ["@%p69 bra again;"]
    # The register of a block is another one than that around it.
    inner, outer = place(LOOP, "add.s32 %r7, %r1", 14), place(LOOP, "mov.b32 %r1, barrier", 9)
    assert await lines(client, "declaration", inner) == [".reg .b32 %r1;"]
    assert await lines(client, "definition", inner) == ["mov.b32 %r1, %r7;"]
    assert await lines(client, "references", inner, declaration=False) == [
        "mov.b32 %r1, %r7;", "add.s32 %r7, %r1, 1;",
    ]  # fmt: skip
    assert await lines(client, "declaration", outer) == [".reg .b32 %r<200>;"]
    assert await lines(client, "definition", outer) == ["mov.b32 %r1, barrier;"]
    # A predicate of two ranges that could have it is that of the longer one.
    assert await lines(client, "declaration", place(LOOP, "@%p69", 2)) == [".reg .pred %p<70>;"]
    assert await lines(client, "declaration", place(LOOP, "%r1, barrier", 6)) == [
        ".shared .align 8 .b64 barrier;"
    ]
    # An mbarrier leads to its init, and to all that names it.
    arrive = place(LOOP, "_, [%r1]", 5)
    init = "mbarrier.init.shared::cta.b64 [%r1], 1;"
    assert init in await lines(client, "definition", arrive)
    assert await lines(client, "references", arrive, declaration=False) == [
        init, "mbarrier.arrive.shared::cta.b64 _, [%r1];",
    ]  # fmt: skip


@pytest.mark.asyncio
async def test_symbols_and_folds(client: LanguageClient) -> None:
    await start(client)
    open_(client, LOOP)
    found = await client.text_document_document_symbol_async(
        t.DocumentSymbolParams(t.TextDocumentIdentifier(URI))
    )
    assert [(s.name, s.kind) for s in found] == [
        ("barrier", t.SymbolKind.Variable), ("k", t.SymbolKind.Function),
    ]  # fmt: skip
    assert [(s.name, s.kind) for s in found[1].children] == [("again", t.SymbolKind.Key)]
    assert found[1].detail == ".entry"
    folds = await client.text_document_folding_range_async(
        t.FoldingRangeParams(t.TextDocumentIdentifier(URI))
    )
    text = LOOP.splitlines()
    assert [(text[f.start_line], text[f.end_line].strip()) for f in folds] == [("{", "}"), ("    {", "}")]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (".version  8.0 // größer\n  .target sm_90", ".version 8.0 // größer\n.target sm_90\n"),
        ("\ufeff.version 8.0 ", "\ufeff.version 8.0\n"),
        (".version 8.0\n", ".version 8.0\n"),
        (".entry k() {", None),
    ],
)
async def test_formatting(client: LanguageClient, text: str, wanted: str | None) -> None:
    await start(client)
    open_(client, text)
    edits = await client.text_document_formatting_async(
        t.DocumentFormattingParams(t.TextDocumentIdentifier(URI), t.FormattingOptions(4, True))
    )
    if wanted is None or wanted == text:
        assert edits == (None if wanted is None else ())
        return
    (edit,) = edits
    change = t.TextDocumentContentChangePartial(edit.range, edit.new_text)
    assert DocumentText.of(text, "utf-16").changed([change]).data.decode() == wanted


# ---------------------------------------------------------------- states


def test_without_pygls_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ClickException, match=r"needs pygls: pip install .*\[lsp\]"):
        cli.main(["lsp"], standalone_mode=False)


def test_an_analysis_of_an_old_state_ends() -> None:
    text = DocumentText.of(WRONG, "utf-16")
    document = Document(URI, "/work/k.ptx", text, 1)
    stages = 0

    def go_on(version: int, go_on: Any = document._check_current) -> None:
        nonlocal stages
        stages += 1
        document.version += stages == 3
        go_on(version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Document, "_check_current", lambda self, version: go_on(version))
        with pytest.raises(Superseded):
            document.lint(1, text, Config())
    assert stages == 3
    again = document.lint(2, text, Config())
    assert [f.rule.id for f in again.report.findings] == [f.rule.id for f in lint(WRONG).findings]


def test_a_slow_check_first_reports_the_state_before() -> None:
    def said(report: Any) -> list[tuple[str, int, int]]:
        return [(f.rule.id, f.span.start, len(f.fixes)) for f in report.findings]

    text = DocumentText.of(WRONG, "utf-16")
    document = Document(URI, "/work/k.ptx", text, 1)
    opened = document.lint(1, text, Config(), 0)
    assert opened.complete  # nothing is known that could be reported instead
    assert any(fixes for _, _, fixes in said(opened.report))

    # A line above it: the same findings further down, without the fixes, which were not tried there.
    at = WRONG.index("    wgmma.fence")
    line = "    mov.b32 %r1, 7;\n"
    document.text = DocumentText.of(WRONG[:at] + line + WRONG[at:], "utf-16")
    document.version = 2
    quick = document.lint(2, document.text, Config(), 0)
    assert not quick.complete
    assert said(quick.report) == [(id, start + len(line), 0) for id, start, _ in said(opened.report)]
    assert document.lint(2, document.text, Config(), 0) is quick
    whole = document.lint(2, document.text, Config())
    assert whole.complete
    assert said(whole.report) == said(lint(document.text.data))
    assert document.lint(2, document.text, Config(), 0) is whole

    # The instruction at fault goes, and with it the finding, whatever else has to be found out.
    document.text = DocumentText.of(RIGHT[:at] + line + RIGHT[at:], "utf-16")
    document.version = 3
    quick = document.lint(3, document.text, Config(), 0)
    assert (quick.complete, quick.report.findings) == (False, ())

    # It is not known yet what a new comment hides.
    document.text = DocumentText.of(
        WRONG[:at] + line * 2 + WRONG[at:].replace("early", "tclint: ignore[TC001] x"), "utf-16"
    )
    document.version = 4
    assert not any(f.rule.id == "SU001" for f in document.lint(4, document.text, Config(), 0).report.findings)
    assert any(f.rule.id == "SU001" for f in document.lint(4, document.text, Config()).report.findings)


def test_nothing_is_completed_if_a_text_is_not_ptx() -> None:
    """After a quick answer that left something open: the next state would be analysed indefinitely."""
    text = DocumentText.of(WRONG, "utf-16")
    document = Document(URI, "/work/k.ptx", text, 1)
    document.lint(1, text, Config())
    document.text, document.version = text.changed([fixing_edit()]), 2
    assert not document.lint(2, document.text, Config(), 0).complete
    document.text, document.version = DocumentText.of("\0" + WRONG, "utf-16"), 3
    broken = document.lint(3, document.text, Config(), 0)
    assert (broken.report.status, broken.complete) == ("failed", True)


def test_an_internal_error_is_shown_and_forgotten(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    server = make_server()
    text = DocumentText.of(WRONG, "utf-16")
    document = Document(URI, "/work/k.ptx", text, 1)
    with monkeypatch.context() as patch:
        patch.setattr(documents, "check_source", lambda *_, **__: 1 / 0)
        with caplog.at_level(logging.CRITICAL):
            _, (found,) = asyncio.run(server.diagnose(document))
    assert "internal error: ZeroDivisionError" in found.message
    _, items = asyncio.run(server.diagnose(document))
    assert "WG001" in [d.code for d in items]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions_and_offsets_agree(encoding: str) -> None:
    text = DocumentText.of("a\r\né𝄞b\n\u2028x\rend", encoding)
    assert text.line_count == 4
    for offset in (0, 1, 3, 5, 9, 10, 11, 14, 15, 16, 19):
        assert text.offset(text.position(offset)) == offset
    assert text.offset(t.Position(1, 99)) == 10  # the end of the line
    assert text.offset(t.Position(99, 0)) == len(text.data)
    assert text.position(7) == text.position(5)  # inside a character


def test_every_rule_has_a_page_to_lead_to() -> None:
    assert all(page(rule).is_file() for rule in all_rules().values())


@pytest.mark.asyncio
async def test_the_strings_of_other_languages_are_looked_into(client: LanguageClient) -> None:
    text = 'void f(int* p) {\n  asm("st.globl.u32 [%0], 1;" :: "l"(p));\n}\n'
    uri = "file:///work/k.cu"
    await start(client)
    open_(client, text, uri)
    found = (await pull(client, uri=uri)).items
    assert of(found) == [("PX002", 1)]
    identifier = t.TextDocumentIdentifier(uri)
    where = t.Range(place(text, "globl"), place(text, "globl"))
    offered = await client.text_document_code_action_async(
        t.CodeActionParams(identifier, where, t.CodeActionContext([]))
    )
    assert [a.title for a in offered or []] == ["write st.global.u32"]
    hover = t.HoverParams(identifier, place(text, "globl"))
    assert await client.text_document_hover_async(hover) is None
    assert not await client.text_document_document_symbol_async(t.DocumentSymbolParams(identifier))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        (
            "k.cu",
            'void f(int a, int* p) {\n  asm("atom.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p));\n}\n',
            "use asm volatile",
        ),
        (
            "k.cuh",
            'void f() {\n  asm volatile("barrier.cluster.wait;" /* atom.add */);\n}\n',
            'add the clobber "memory"',
        ),
        (
            "k.py",
            'x = ir.InlineAsm(t,\n  "atom.add.u32 $0, [$1], 1;", "=r,l", side_effect=False)\n',
            "use side_effect=True",
        ),
    ],
)
async def test_a_statement_of_another_language_offers_its_fixes(
    client: LanguageClient, name: str, text: str, title: str
) -> None:
    uri = f"file:///work/{name}"
    await start(client)
    open_(client, text, uri)
    (diagnostic,) = (await pull(client, uri=uri)).items
    offered = await client.text_document_code_action_async(
        t.CodeActionParams(t.TextDocumentIdentifier(uri), diagnostic.range, t.CodeActionContext([]))
    )
    assert diagnostic.range.start.line == 1
    assert (offered or [])[0].title == title


def test_what_is_in_the_baseline_is_hidden_here_too(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(WRONG, encoding="utf-8")
    document = Document(path.as_uri(), str(path), DocumentText.of(WRONG, "utf-16"), 1)
    assert document.lint(1, document.text, Config()).report.findings
    known = str(tmp_path / "known.json")
    assert CliRunner().invoke(cli, ["baseline", "--isolated", "--output", known, str(path)]).exit_code == 0
    assert document.lint(1, document.text, Config(baseline=known)).report.findings == ()


def test_the_code_leads_to_the_site_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    document = Document(URI, "/work/k.ptx", DocumentText.of(WRONG, "utf-16"), 1)
    lint = document.lint(1, document.text, Config())

    def links() -> set[str]:
        return {d.code_description.href for d in diagnostics(document, lint) if d.code_description}

    monkeypatch.delenv("TCLINT_DOCS_URL", raising=False)
    assert page(all_rules()["WG001"]).absolute().as_uri() in links()
    monkeypatch.setenv("TCLINT_DOCS_URL", "https://example.org/")
    assert "https://example.org/rules/WG001/" in links()


# ---------------------------------------------------------------- typing


async def typed(client: LanguageClient, text: str, uri: str = URI) -> tuple[str, t.Position]:
    """Opens *text* without its ``|``, which is where the cursor is."""
    await start(client)
    open_(client, text.replace("|", ""), uri)
    return uri, place(text, "|")


async def offered(client: LanguageClient, text: str, uri: str = URI) -> list[str]:
    """The labels that the server offers at the ``|`` of a text."""
    uri, at = await typed(client, text, uri)
    found = await client.text_document_completion_async(t.CompletionParams(t.TextDocumentIdentifier(uri), at))
    return [item.label for item in found.items] if found is not None else []


@pytest.mark.asyncio
async def test_an_opcode_is_completed_by_the_modifiers_that_still_fit(client: LanguageClient) -> None:
    labels = await offered(client, RIGHT.replace("wgmma.fence", "cp.async.bulk.|\n wgmma.fence"))
    assert ".commit_group" in labels
    assert ".tensor" in labels
    assert ".x4" not in labels


@pytest.mark.asyncio
async def test_a_root_is_completed_with_the_modifiers_that_it_always_has(client: LanguageClient) -> None:
    labels = await offered(client, RIGHT.replace("wgmma.fence", "wgm|\n wgmma.fence"))
    assert "wgmma.fence.sync" in labels
    assert all(label.startswith("wgmma") for label in labels)


@pytest.mark.asyncio
async def test_what_the_target_lacks_comes_last_with_the_reason(client: LanguageClient) -> None:
    await start(client)
    text = RIGHT.replace("wgmma.fence", "t|\n wgmma.fence")
    open_(client, text.replace("|", ""))
    found = await client.text_document_completion_async(
        t.CompletionParams(t.TextDocumentIdentifier(URI), place(text, "|"))
    )
    details = {item.label: item.detail for item in found.items}
    lacking = [n for n, item in enumerate(found.items) if item.label.startswith("tcgen05")]
    assert min(lacking) > max(n for n, item in enumerate(found.items) if item.label.startswith("trap"))
    assert all("requires" in details[found.items[n].label] for n in lacking)


@pytest.mark.asyncio
async def test_operands_are_completed_by_names_that_were_used_and_special_registers(
    client: LanguageClient,
) -> None:
    labels = await offered(client, RIGHT.replace("wgmma.fence", "mov.u32 %r1, %|;\n wgmma.fence", 1))
    assert labels.index("%p0") < labels.index("%tid.x") < labels.index("%laneid")


@pytest.mark.asyncio
async def test_names_that_were_not_used_yet_are_completed_too(client: LanguageClient) -> None:
    labels = await offered(client, RIGHT.replace("wgmma.fence", "mov.f32 %f1, %f2|;\n wgmma.fence", 1))
    assert {"%f2", "%f20", "%f29"} <= {*labels}
    assert "%f3" not in labels


@pytest.mark.asyncio
async def test_a_branch_is_completed_by_labels_alone(client: LanguageClient) -> None:
    labels = await offered(client, RIGHT.replace("wgmma.fence", "again:\n bra |;\n wgmma.fence", 1))
    assert labels == ["again"]


@pytest.mark.asyncio
async def test_nothing_is_completed_in_a_comment(client: LanguageClient) -> None:
    assert await offered(client, RIGHT.replace("wgmma.fence", "// wgm|\n wgmma.fence", 1)) == []


@pytest.mark.asyncio
async def test_a_string_of_cuda_is_completed_and_the_code_around_it_is_not(client: LanguageClient) -> None:
    text = '__global__ void k() { int a; asm volatile("mbarrier.try_wait.|" : "=r"(a)); }\n'
    assert ".parity" in await offered(client, text, "file:///work/k.cu")


@pytest.mark.asyncio
async def test_code_outside_a_string_is_not_completed(client: LanguageClient) -> None:
    text = '__global__ void k() { int a; asm volatile("mbarrier.try_wait" : "=r"(a)); mba| }\n'
    assert await offered(client, text, "file:///work/k.cu") == []


@pytest.mark.asyncio
async def test_an_offered_modifier_is_described_when_it_is_shown(client: LanguageClient) -> None:
    uri, at = await typed(client, RIGHT.replace("wgmma.fence", "mbarrier.|\n wgmma.fence", 1))
    found = await client.text_document_completion_async(t.CompletionParams(t.TextDocumentIdentifier(uri), at))
    item = await client.completion_item_resolve_async(found.items[0])
    assert isinstance(item.documentation, str)
    assert "completion" in item.documentation or "syntax" in item.documentation


@pytest.mark.asyncio
async def test_a_signature_names_the_operand_at_the_cursor(client: LanguageClient) -> None:
    text = RIGHT.replace("wgmma.fence", "cp.async.ca.shared.global [%rd0], [%rd1], |;\n wgmma.fence", 1)
    uri, at = await typed(client, text)
    found = await client.text_document_signature_help_async(
        t.SignatureHelpParams(t.TextDocumentIdentifier(uri), at)
    )
    signature = found.signatures[found.active_signature]
    begin, end = signature.parameters[found.active_parameter].label
    assert signature.label.startswith("cp.async.")
    assert signature.label[begin:end] == "cp-size"


@pytest.mark.asyncio
async def test_hints_say_what_a_wait_completes_and_can_be_switched_off(client: LanguageClient) -> None:
    await start(client)
    open_(client, RIGHT)
    whole = t.Range(t.Position(0, 0), t.Position(RIGHT.count("\n"), 0))
    asked = t.InlayHintParams(t.TextDocumentIdentifier(URI), whole)
    shown = {hint.position.line: hint.label for hint in await client.text_document_inlay_hint_async(asked)}
    commit, wait = place(RIGHT, "wgmma.commit_group").line, place(RIGHT, "wgmma.wait_group").line
    issued = place(RIGHT, "wgmma.mma_async").line + 1
    assert shown[commit] == "1 operation in flight"
    assert shown[wait] == f"completes line {issued}, nothing in flight"
    client.workspace_did_change_configuration(
        t.DidChangeConfigurationParams({"tclint": {"inlay-hints": False}})
    )
    assert await client.text_document_inlay_hint_async(asked) == ()


def test_a_hint_says_that_an_analysis_reached_no_fixpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(model: KernelModel, analysis: object) -> object:
        raise LimitExceeded("no fixpoint")

    monkeypatch.setattr(KernelModel, "solution", limited)
    text = DocumentText(RIGHT.encode())
    document = Document(URI, "k.ptx", text, 1)
    _, built = document.built(text)
    found = hints(
        built, text, Span(0, len(text.data)), lambda function: document.model(built, function, Config())
    )
    assert [hint.label for hint in found] == [
        "operations in flight unknown: the analysis reached no fixpoint"
    ] * 2


# ---------------------------------------------------------------- names of a module, and of a workspace


async def renamed(client: LanguageClient, text: str, at: t.Position, name: str) -> str:
    """The text after a name was replaced."""
    edit = await client.text_document_rename_async(t.RenameParams(t.TextDocumentIdentifier(URI), at, name))
    assert edit is not None
    assert edit.changes is not None
    changes = sorted(edit.changes[URI], key=lambda each: (each.range.start.line, each.range.start.character))
    pieces = [t.TextDocumentContentChangePartial(each.range, each.new_text) for each in reversed(changes)]
    return DocumentText.of(text, "utf-16").changed(pieces).data.decode()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("words", "inside", "name", "wanted"),
    [
        ("bra again", 5, "once_more", {"again:": "once_more:", "bra again": "bra once_more"}),
        ("barrier;", 1, "full", {".b64 barrier;": ".b64 full;", "%r1, barrier": "%r1, full"}),
        ("k(.param", 0, "gemm", {".entry k(": ".entry gemm("}),
        # The register of the block, and the one around it, which is one of a range.
        ("add.s32 %r7, %r1", 14, "%i", {
            ".reg .b32 %r1;\n    mov.b32 %r1, %r7;\n    add.s32 %r7, %r1, 1;":
            ".reg .b32 %i;\n    mov.b32 %i, %r7;\n    add.s32 %r7, %i, 1;",
        }),
        ("mov.b32 %r1, barrier", 9, "%full", {
            "mov.b32 %r1, barrier": "mov.b32 %full, barrier", "[%r1]": "[%full]",
            ".reg .b32 %r<200>;": ".reg .b32 %r<200>; .reg .b32 %full;",
        }),
        # All registers of a range.
        ("%p<70>", 1, "%is", {"%p<70>": "%is<70>", "%p69": "%is69"}),
    ],
)  # fmt: skip
async def test_a_name_is_replaced_wherever_it_means_the_same(
    client: LanguageClient, words: str, inside: int, name: str, wanted: dict[str, str]
) -> None:
    await start(client)
    open_(client, LOOP)
    at = place(LOOP, words, inside)
    identifier = t.TextDocumentIdentifier(URI)
    here = await client.text_document_prepare_rename_async(t.PrepareRenameParams(identifier, at))
    assert isinstance(here, t.Range)
    assert here.start.line == at.line
    text = LOOP
    for old, new in wanted.items():
        assert old in text
        text = text.replace(old, new)
    found = await renamed(client, LOOP, at, name)
    assert found == text
    assert len(lint(found).problems) <= len(lint(LOOP).problems)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("words", "inside", "name", "reason"),
    [
        ("mov.b32 %r1, barrier", 9, "%r7", "would refer to something else"),
        ("add.s32 %r7, %r1", 14, "%r7", "would refer to something else"),
        ("barrier;", 1, "k", "would refer to something else"),
        ("bra again", 5, "3x", "is not an identifier"),
        ("bra again", 5, "a b", "is not an identifier"),
        ("add.s32", 1, "x", "no name that the module declares"),
    ],
)
async def test_a_name_that_would_mean_something_else_is_refused(
    client: LanguageClient, words: str, inside: int, name: str, reason: str
) -> None:
    await start(client)
    open_(client, LOOP)
    with pytest.raises(JsonRpcException, match=reason):
        await renamed(client, LOOP, place(LOOP, words, inside), name)


@pytest.mark.asyncio
async def test_the_occurrences_of_a_register_say_where_it_is_written(client: LanguageClient) -> None:
    await start(client)
    open_(client, LOOP)
    params = t.DocumentHighlightParams(t.TextDocumentIdentifier(URI), place(LOOP, "mov.b32 %r7", 9))
    found = await client.text_document_document_highlight_async(params)
    assert found is not None
    lines = LOOP.splitlines()
    assert [(lines[h.range.start.line].strip(), h.kind) for h in found] == [
        ("mov.b32 %r7, 1;", t.DocumentHighlightKind.Write),
        ("mov.b32 %r1, %r7;", t.DocumentHighlightKind.Read),
        ("add.s32 %r7, %r1, 1;", t.DocumentHighlightKind.Write),
        ("setp.lt.s32 %p69, %r7, 9;", t.DocumentHighlightKind.Read),
    ]
    label = t.DocumentHighlightParams(t.TextDocumentIdentifier(URI), place(LOOP, "again:"))
    found = await client.text_document_document_highlight_async(label)
    assert found is not None
    assert [h.kind for h in found] == [t.DocumentHighlightKind.Text] * 2


@pytest.mark.asyncio
async def test_a_lens_above_each_kernel_has_its_findings_and_verdicts(client: LanguageClient) -> None:
    await start(client, options={"verdict": True, "patience": 60})
    text = WRONG + kernel("ret;", name="right")
    open_(client, text)
    found = await client.text_document_code_lens_async(t.CodeLensParams(t.TextDocumentIdentifier(URI)))
    assert found is not None
    wrong, right = found
    assert wrong.range.start.line == place(text, ".visible .entry k").line
    assert wrong.command is not None
    assert wrong.command.title.startswith("1 error; violated wgmma; proved ")
    assert right.range.start.line == place(text, ".visible .entry right").line
    assert right.command is not None
    assert right.command.title.startswith("no findings; proved ")


@pytest.mark.asyncio
async def test_without_verdicts_a_lens_counts_the_findings(client: LanguageClient) -> None:
    await start(client)
    open_(client, WRONG)
    await pull(client)
    found = await client.text_document_code_lens_async(t.CodeLensParams(t.TextDocumentIdentifier(URI)))
    assert found is not None
    assert [lens.command and lens.command.title for lens in found] == ["1 error"]


@pytest.mark.asyncio
async def test_symbols_of_the_workspace_are_those_of_its_files_and_of_open_texts(
    client: LanguageClient, tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / ".hidden").mkdir()
    for path in (tmp_path / "below" / "a.ptx", tmp_path / ".hidden" / "b.ptx"):
        path.write_text(module(kernel("ret;", name="gemm_tile")))
    await start(client, root=tmp_path)
    open_(client, module(kernel("ret;", name="GEMM_edited")))

    async def names(query: str) -> list[tuple[str, str | None]]:
        found = await client.workspace_symbol_async(t.WorkspaceSymbolParams(query))
        return [(symbol.name, symbol.container_name) for symbol in found or ()]

    assert await names("gemm") == [("GEMM_edited", "k.ptx"), ("gemm_tile", "a.ptx")]
    assert await names("tile") == [("gemm_tile", "a.ptx")]
    (tmp_path / "below" / "a.ptx").write_text(module(kernel("ret;", name="another")))
    assert await names("") == [("GEMM_edited", "k.ptx"), ("another", "a.ptx")]


@pytest.mark.asyncio
async def test_a_server_is_initialised_once(client: LanguageClient) -> None:
    await start(client)
    with pytest.raises(JsonRpcException, match="initialised already"):
        await client.initialize_async(t.InitializeParams(capabilities()))


@pytest.mark.parametrize(("methods", "code"), [(["shutdown", "exit"], 0), (["exit"], 1)])
def test_an_exit_without_a_shutdown_is_an_error(methods: list[str], code: int) -> None:
    messages = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}
    ]
    messages += [
        {"id": 2, "method": method} if method == "shutdown" else {"method": method} for method in methods
    ]
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    sent = b"".join(b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies)
    done = subprocess.run(
        [sys.executable, "-m", "tclint", "lsp"], input=sent, stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert done.returncode == code


@pytest.mark.skipif(os.name != "posix", reason="only there is the process of the client watched")
def test_the_server_ends_with_the_process_of_its_client_though_its_input_stays_open() -> None:
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    server = subprocess.Popen(
        [sys.executable, "-m", "tclint", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        body = json.dumps({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"processId": editor.pid, "rootUri": None, "capabilities": {}},
        }).encode()  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        server.stdin.flush()
        assert b"Content-Length" in server.stdout.readline()
        assert server.poll() is None
        editor.kill()
        editor.wait()
        assert server.wait(30) == 1
    finally:
        for process in (editor, server):
            process.kill()
            process.communicate()


@pytest.mark.asyncio
async def test_a_hint_names_the_parity_of_the_phase_that_is_waited_for(client: LanguageClient) -> None:
    text = LOOP.replace("    ret;", "    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 1;\n    ret;")
    await start(client)
    open_(client, text)
    whole = t.Range(t.Position(0, 0), t.Position(text.count("\n"), 0))
    found = await client.text_document_inlay_hint_async(
        t.InlayHintParams(t.TextDocumentIdentifier(URI), whole)
    )
    assert "waits for the phase with parity 1" in "".join(str(hint.label) for hint in found or ())

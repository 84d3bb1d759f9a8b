"""Code actions: fixes of findings, and suppression comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lsprotocol import types

from tclint.driver.fixing import compatible
from tclint.findings.finding import Edit, Finding
from tclint.findings.spans import Span
from tclint.ir.nodes import Function, Module
from tclint.linting.suppress import RULES as OF_COMMENTS
from tclint.lsp.diagnostics import merged, of_finding
from tclint.lsp.document import Document, Lint

__all__ = ["FIX_ALL", "actions", "safe_edits"]

FIX_ALL = "source.fixAll.tclint"
_QUICK = types.CodeActionKind.QuickFix


def actions(
    document: Document,
    lint: Lint,
    module: Module,
    place: Span,
    only: Sequence[str] | None,
    versioned: bool,
) -> list[types.CodeAction]:
    """The actions for the findings at *place*, restricted to the kinds *only* if given."""
    shown = [f for f in lint.report.findings if f.suppressed is None]
    found: list[types.CodeAction] = []
    if _wanted(_QUICK, only):
        once = {finding.fingerprint: (finding, others) for finding, others in merged(lint)}
        for one in shown:
            if one.span.start <= place.end and place.start <= one.span.end:
                # At its other places, a defect has no diagnostic, but each place can be changed alone.
                finding, others = once.get(one.fingerprint, (one, []))
                about = [of_finding(document.uri, lint, finding, others)]
                comments = _comments(lint, module, finding, others)
                for title, edits, safe in (*_fixes(finding), *comments):
                    found.append(
                        types.CodeAction(
                            title=title,
                            kind=_QUICK,
                            diagnostics=about,
                            is_preferred=safe or None,
                            edit=_workspace_edit(document, lint, edits, versioned),
                        )
                    )
    if _wanted(FIX_ALL, only) and (edits := safe_edits(shown)):
        found.append(
            types.CodeAction(
                title="Apply all safe fixes of tclint",
                kind=FIX_ALL,
                edit=_workspace_edit(document, lint, edits, versioned),
            )
        )
    return found


def _wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether *kind* is requested, by itself or by a prefix: ``source`` includes ``source.fixAll.tclint``."""
    return only is None or any(kind == k or kind.startswith(f"{k}.") or k == "" for k in map(_name, only))


def _name(kind: str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind


def _fixes(finding: Finding) -> Iterator[tuple[str, Iterable[Edit], bool]]:
    """(title, edits, whether preferred) of each fix. Fixes are alternatives; the first safe one is preferred."""
    preferred = next((fix for fix in finding.fixes if fix.safe), None)
    for fix in finding.fixes:
        yield fix.message, fix.edits, fix is preferred


def _comments(
    lint: Lint, module: Module, finding: Finding, others: Sequence[Span]
) -> Iterator[tuple[str, Iterable[Edit], bool]]:
    """The comments that suppress a finding and its *others* places, or all of its rule in its function; see :func:`_fixes`."""
    id = finding.rule.id
    # In a host language, an added line may be part of a string or end a macro.
    if id in OF_COMMENTS or lint.report.asm is not None:
        return
    owner = next((f for f in module.functions if f.start <= finding.span.start < f.end), None)
    starts = sorted(_statement(owner, span.start) for span in (finding.span, *others))
    above = dict.fromkeys(_line_above(lint, start, f"// tclint: ignore[{id}]") for start in starts)
    yield f"Ignore {id} here", above, False
    if owner is not None:
        edit = _line_above(lint, owner.start, f"// tclint: ignore-entry[{id}]")
        yield f"Ignore {id} in {owner.name}", [edit], False


def _statement(function: Function | None, offset: int) -> int:
    """Where the statement of *function* at *offset* starts; *offset* itself if that is in none."""
    if function is None:
        return offset
    inside = (i for i in function.instructions if i.start <= offset - function.start < i.end)
    return next((function.start + i.start for i in inside), offset)


def _line_above(lint: Lint, offset: int, comment: str) -> Edit:
    """An edit that inserts a line with *comment* above the line at *offset*, with the same indentation."""
    text = lint.text
    line = text.line(text.line_of(offset))
    content = text.data[line.start : line.end]
    indent = content[: len(content) - len(content.lstrip())].decode()
    newline = "\r\n" if b"\r\n" in text.data else "\n"
    return Edit(Span(line.start, line.start), f"{indent}{comment}{newline}")


def safe_edits(findings: Iterable[Finding]) -> list[Edit]:
    """The edits of the preferred safe fixes, without those that conflict with an earlier one."""
    safe = ((finding, [fix for fix in finding.fixes if fix.safe]) for finding in findings)
    made = {edit for _, fix in compatible((f, fixes) for f, fixes in safe if fixes) for edit in fix.edits}
    return sorted(made, key=lambda edit: (edit.span.start, edit.span.end))


def _workspace_edit(
    document: Document, lint: Lint, edits: Iterable[Edit], versioned: bool
) -> types.WorkspaceEdit:
    """The edits in the units of the client, with the version to which they apply if *versioned*."""
    changes = [types.TextEdit(lint.text.range(edit.span), edit.text) for edit in edits]
    if not versioned:
        return types.WorkspaceEdit(changes={document.uri: changes})
    identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, lint.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, [*changes])])

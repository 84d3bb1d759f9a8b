"""A document that was opened before is answered at once, and the checks make up for it."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from tclint.config.config import Config
from tclint.lsp import document as module
from tclint.lsp.document import Document
from tclint.lsp.text import DocumentText
from tests.tools.project import ROOT

KERNEL = (ROOT / "fixtures" / "wgmma_unwaited.ptx").read_text()


@pytest.fixture(autouse=True)
def cache(own_cache: Path) -> Path:
    return own_cache


def opened(path: str = "k.ptx", text: str = KERNEL) -> Document:
    return Document(f"file:///{path}", path, DocumentText(text.encode()), 1)


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("it was checked")


@pytest.mark.parametrize("path", ["k.ptx", "k.cu"])
def test_second_opening_is_answered_without_checks(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(path)
    complete = first.lint(1, first.text, Config(), inf)
    second = opened(path)
    with monkeypatch.context() as without:
        without.setattr(module, "check_source", refuse)
        without.setattr(module.asm, "check", refuse)
        answer = second.lint(1, second.text, Config(), 0.05)
    assert answer.report.findings == complete.report.findings
    assert not answer.complete  # so the server asks again
    assert second.lint(1, second.text, Config(), inf).complete


def test_answer_that_cannot_be_followed_by_another_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened()
    first.lint(1, first.text, Config(), 0.05)
    second = opened()
    monkeypatch.setattr(module, "check_source", refuse)
    with pytest.raises(AssertionError, match="it was checked"):
        second.lint(1, second.text, Config(), inf)


def test_edited_states_are_not_kept(cache: Path) -> None:
    document = opened()
    document.lint(1, document.text, Config(), 0.05)
    files = {path for path in cache.rglob("*") if path.is_file()}
    document.version, document.text = 2, DocumentText((KERNEL + "// more\n").encode())
    document.lint(2, document.text, Config(), 0.05)
    assert {path for path in cache.rglob("*") if path.is_file()} == files

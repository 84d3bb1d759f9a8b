"""How the optional parts of tclint are installed, by what installers write about where it came from (PEP 610)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tclint._version import installs


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, "pip install 'tclint-ptx[lsp]'"),
        ('{"url": "file:///my%20code/tclint", "dir_info": {"editable": true}}', "pip install -e '/my code/tclint[lsp]'"),
        ('{"url": "file:///my/tclint", "dir_info": {}}', "pip install '/my/tclint[lsp]'"),
        ('{"url": "file:///my/tclint_ptx-0.1.0.whl", "archive_info": {}}', "pip install '/my/tclint_ptx-0.1.0.whl[lsp]'"),
        (
            '{"url": "https://example.org/tclint", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}',
            "pip install 'tclint-ptx[lsp] @ git+https://example.org/tclint@0a1b'",
        ),
        ('["url"]', "pip install 'tclint-ptx[lsp]'"),
        ("{", "pip install 'tclint-ptx[lsp]'"),
    ],
)  # fmt: skip
def test_an_optional_part_is_installed_from_where_tclint_was(
    record: str | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, written in ((tmp_path / "checkout", None), (tmp_path / "site", record)):
        (metadata := folder / "tclint_ptx-0.1.0.dist-info").mkdir(parents=True)
        (metadata / "METADATA").write_text("Name: tclint-ptx\n", encoding="utf-8")
        if written is not None:
            (metadata / "direct_url.json").write_text(written, encoding="utf-8")
    monkeypatch.setattr("sys.path", [str(tmp_path / "checkout"), str(tmp_path / "site")])
    assert installs("lsp") == command

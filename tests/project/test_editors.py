"""The recipes for editors, in the editors where they are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tclint.config.settings import FILE, PROJECT
from tests.tools.project import ROOT
from tests.tools.support import HOPPER, before_the_wait, lint, module

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WRONG = module(before_the_wait("    add.f32 %f5, %f0, %f1; // é early"), header=HOPPER)


def neovim(tmp_path: Path, action: str) -> tuple[dict[str, object], str]:
    """What Neovim saw in a kernel, and the kernel after *action*."""
    program = shutil.which("nvim")
    if program is None:
        pytest.skip("there is no nvim")
    pytest.importorskip("pygls", reason="the language server needs pygls")
    kernel, out = tmp_path / "k.ptx", tmp_path / "out.json"
    kernel.write_text(WRONG, encoding="utf-8")
    server = f"vim.g.tclint_cmd = {{ {json.dumps(sys.executable)}, '-m', 'tclint', 'lsp' }}"
    command = [
        program, "--headless", "--clean",
        "--cmd", f"lua {server}",
        "--cmd", f"set runtimepath^={ROOT / 'editors' / 'neovim'}",
        "-c", f"luafile {ROOT / 'tests' / 'tools' / 'neovim.lua'}",
    ]  # fmt: skip
    environment = {
        "KERNEL": str(kernel), "OUT": str(out), "RULE": "WG001", "ACTION": action,
        "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path),
    }  # fmt: skip
    ended = subprocess.run(
        command,
        env={**os.environ, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert out.exists(), ended.stderr
    seen = json.loads(out.read_text())
    assert "error" not in seen, seen
    return seen, kernel.read_text(encoding="utf-8")


def test_neovim_shows_diagnostics_and_applies_an_action(tmp_path: Path) -> None:
    seen, after = neovim(tmp_path, "Ignore WG001 here")
    report = lint(WRONG)
    assert report.source is not None
    expected = sorted(
        (f.rule.id, report.source.position(f.span.start).line - 1)
        for f in report.findings
        if f.confidence.label != "low"
    )
    assert seen["filetype"] == "ptx"
    before = seen["before"]
    assert isinstance(before, list)
    assert sorted((d["code"], d["line"]) for d in before) == expected
    assert {d["source"] for d in before} == {"tclint"}
    assert seen["after"] == [d for d in before if d["code"] != "WG001"]
    assert after != WRONG
    assert [f.rule.id for f in lint(after).findings if f.suppressed is not None] == ["WG001"]


def test_neovim_applies_a_fix(tmp_path: Path) -> None:
    seen, after = neovim(tmp_path, "add wgmma.wait_group.sync.aligned 0")
    assert "add wgmma.wait_group.sync.aligned 0" in seen["actions"]  # type: ignore[operator]
    before = seen["before"]
    assert isinstance(before, list)
    assert seen["after"] == [{**d, "line": d["line"] + 1} for d in before if d["code"] != "WG001"]
    assert WRONG.replace("    add.f32 %f5", "    wgmma.wait_group.sync.aligned 0;\n    add.f32 %f5") == after
    assert not [f for f in lint(after).findings if f.rule.id == "WG001"]


def test_the_recipe_for_helix_is_what_helix_reads() -> None:
    recipe = tomllib.loads((ROOT / "editors" / "helix" / "languages.toml").read_text())
    (language,) = recipe["language"]
    assert language["file-types"] == ["ptx"]
    for name in language["language-servers"]:
        assert recipe["language-server"][name]["command"] == "tclint"
        assert recipe["language-server"][name]["args"] == ["lsp"]
    assert language["roots"] == [FILE, PROJECT]

"""The extension for VS Code: what its manifest promises, its TextMate grammar beside the tree, its snippets, its client."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tclint
from tclint.config import settings
from tclint.ir.nodes import Special
from tclint.ir.operands import parse_operand
from tclint.isa.special_registers import SPECIAL_REGISTERS
from tests.tools.grammar import captures
from tests.tools.project import ROOT
from tests.tools.ptxas import find_ptxas

# Where `npm ci` was run, which need not be the checkout.
EXTENSION = Path(os.environ.get("TCLINT_VSCODE") or ROOT / "editors" / "vscode")
if not EXTENSION.is_dir():
    pytest.skip("the extension is not part of the sdist", allow_module_level=True)

FIXTURES = sorted((ROOT / "fixtures").rglob("*.ptx"))

# What the scopes of a token match, by the capture that queries/highlights.scm gives it.
SCOPES = {
    "attribute": r"entity\.other\.attribute-name",
    "comment": r"comment\.",
    "constant": r"constant\.language\.target",
    "function": r"entity\.name\.function|entity\.name\.label",
    "function.builtin": r"support\.function|storage\.(type|modifier)",
    "keyword.conditional": r"keyword\.control\.guard",
    "keyword.directive": r"keyword\.control\.directive|meta\.(section|location)",
    "keyword.function": r"storage\.type\.function",
    "keyword.modifier": r"storage\.modifier",
    "label": r"entity\.name\.label",
    "number": r"constant\.numeric|punctuation\.separator",  # a run of numbers is one node
    "operator": r"keyword\.operator|punctuation\.definition\.range",
    "property": r"variable\.other\.member",
    "punctuation.bracket": r"punctuation\.",
    "punctuation.delimiter": r"punctuation\.",
    "string": r"string\.",
    "type.builtin": r"storage\.(type|modifier\.state-space)|entity\.other\.attribute-name",  # `.ptr .global`
    "variable": r"variable\.|constant\.language|entity\.name\.label",
    "variable.builtin": r"variable\.language",
    "variable.parameter": r"variable\.parameter",
}


def load(name: str) -> Any:
    return json.loads((EXTENSION / name).read_text("utf-8"))


@pytest.fixture(scope="module")
def built() -> Path:
    """The extension, compiled and type-checked."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if not (EXTENSION / "node_modules").is_dir():
        pytest.skip("the packages of the extension are not installed (npm ci in editors/vscode)")
    run = subprocess.run(
        ["npm", "run", "build"], check=False, cwd=EXTENSION, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return EXTENSION


# ---- highlighting ----


def tokenized(extension: Path, *paths: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    script = extension / "out" / "test" / "tokens.js"
    run = subprocess.run(["node", script, *paths], check=False, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    for path, line in zip(paths, run.stdout.splitlines(), strict=True):
        yield path, json.loads(line)


def disagreements(path: Path, tokens: list[tuple[int, int, int, str]]) -> Counter[tuple[str, str, str]]:
    """Text, capture and scopes of the tokens whose colours differ in kind. The text must be ASCII."""
    text = path.read_bytes()
    starts = [0, *(match.end() for match in re.finditer(rb"\n", text))]
    wanted = captures(text)
    found: Counter[tuple[str, str, str]] = Counter()
    for line, start, end, scopes in tokens:
        for at in range(starts[line] + start, starts[line] + end):
            capture = wanted[at]
            if capture is None or text[at : at + 1].isspace() or re.search(SCOPES[capture], scopes):
                continue
            token = text[starts[line] + start : starts[line] + end].decode()
            found[token, capture, scopes] += 1
            break
    return found


def test_the_textmate_grammar_agrees_with_the_tree(built: Path) -> None:
    """Whatever `queries/highlights.scm` colours has a scope of the same kind, in every fixture."""
    paths = [path for path in FIXTURES if path.read_bytes().isascii()]
    assert len(paths) > 30
    for path, result in tokenized(built, *paths):
        assert disagreements(path, result["tokens"]) == Counter(), path
        assert result["depth"] == 1, f"{path}: something is still open at the end"


# ---- snippets ----

SNIPPETS = {snippet["prefix"]: "\n".join(snippet["body"]) for snippet in load("snippets/ptx.json").values()}
PLACEHOLDER = re.compile(
    r"\$(?:(?P<plain>\d+)|\{(?P<number>\d+)(?::(?P<default>[^}]*)|\|(?P<choices>[^}]*)\|)\})"
)


USED = {"module"}  # by module() below


def snippet(prefix: str, inside: str = "", **values: str) -> str:
    """The text that VS Code inserts: defaults, first choices or *values* (`_1="x"`), and *inside* at the cursor."""
    values["_0"] = inside
    USED.add(prefix)

    def fill(match: re.Match[str]) -> str:
        number = "_" + (match["plain"] or match["number"])
        if match["plain"] is None:
            values.setdefault(number, match["default"] or match["choices"].split(",")[0])
        return values[number]

    return PLACEHOLDER.sub(fill, SNIPPETS[prefix]) + "\n"


DECLARED = """
    .reg .f32 %f<8>;
    .shared .align 1024 .b8 tile[16384];
    .shared .align 8 .b64 full;
    .shared .align 4 .b32 slot;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [out];
    cvta.to.global.u64 %rd0, %rd0;
    mad.wide.u32 %rd3, %r0, 16, %rd0;
"""
COORDINATES = "ld.param.u64 %rd1, [a];\nmov.b32 %r1, 0;\nmov.b32 %r2, 0;\n"
STORED = "st.global.v4.b32 [%rd3], {%r4, %r5, %r6, %r7};\n"

# Kernels that are right, with every snippet in at least one of them.
KERNELS = {
    "elect": ("sm_90", snippet("elect", "st.global.b32 [%rd0], %r0;")),
    "cp-async": (
        "sm_80",
        "ld.param.u64 %rd1, [a];\ncvta.to.global.u64 %rd1, %rd1;\nmad.wide.u32 %rd1, %r0, 16, %rd1;\n"
        "mov.u32 %r1, tile;\nmad.lo.u32 %r1, %r0, 16, %r1;\n"
        + snippet(
            "cp-async", f"ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r1];\n{STORED}cp.async.wait_group 0;"
        ),
    ),
    "mbarrier": (
        "sm_90",
        snippet("mbarrier-init", "mbarrier.arrive.shared::cta.b64 _, [full];", _3="128")
        + snippet("mbarrier-wait"),
    ),
    "tma-load": (
        "sm_90",
        COORDINATES
        + snippet("mbarrier-init")
        + snippet("tma-load", f"ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [tile];\n{STORED}"),
    ),
    "tma-store": (
        "sm_90",
        f"{COORDINATES}mov.u32 %r3, tile;\nmad.lo.u32 %r3, %r0, 16, %r3;\n"
        "st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};\n" + snippet("tma-store"),
    ),
    "wgmma": (
        "sm_90a",
        "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nmov.f32 %f0, 0f00000000;\nmov.f32 %f1, %f0;\n"
        "mov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\n"
        + snippet("wgmma", "st.global.v4.f32 [%rd3], {%f0, %f1, %f2, %f3};"),
    ),
    "tcgen05": (
        "sm_100a",
        snippet("mbarrier-init")
        + snippet(
            "tcgen05-alloc",
            "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nmov.b32 %r2, 0x08200490;\nsetp.ne.b32 %p1, 0, 0;\n"
            "setp.ne.u32 %p0, %r0, 0;\n@%p0 bra issued;\n"
            + snippet("tcgen05-mma")
            + "issued:\n"
            + snippet("mbarrier-wait")
            + "and.b32 %r8, %r0, 96;\nshl.b32 %r8, %r8, 16;\nadd.u32 %r9, %r1, %r8;\n"
            + snippet("tcgen05-ld", STORED, _2="%r9"),
        ),
    ),
    "ignore": ("sm_90a", snippet("ignore", _1="PX001") + "braid.u32 %r1;"),
}


def module(target: str, body: str) -> str:
    return snippet("module", DECLARED + body, _2=target, _4="out,\n    .param .u64 a,\n    .param .u64 b")


@pytest.mark.parametrize("name", KERNELS)
def test_snippets_are_clean(name: str) -> None:
    text = module(*KERNELS[name])
    report = tclint.check(text, pedantic=True)
    assert (report.exit_code, report.findings) == (0, ()), f"{text}\n{report}"


@pytest.mark.parametrize("name", sorted(KERNELS.keys() - {"ignore"}))  # that one hides an error
def test_ptxas_takes_the_snippets(name: str, tmp_path: Path) -> None:
    ptxas = find_ptxas()
    (tmp_path / "kernel.ptx").write_text(module(*KERNELS[name]))
    command = [ptxas, "-arch", KERNELS[name][0], "kernel.ptx", "-o", "kernel.cubin"]
    run = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_snippet_is_in_a_clean_kernel() -> None:
    assert set(SNIPPETS) == USED


# ---- the manifest ----


def test_settings_are_those_of_the_linter() -> None:
    """Each with the meaning, type and values that a configuration file has; what is not set comes from the file."""
    schema = json.loads(settings.schema())["properties"]
    declared = load("package.json")["contributes"]["configuration"]["properties"]
    own = {"tclint.path", "tclint.arguments", "tclint.trace.server", "tclint.inlineAssembly"}
    # They are about a run, not about what is found.
    run = {"fail-on", "exit-zero", "force-exclude", "include", "jobs", "cache", "entry", "max-input"}
    run |= {
        "confirm",
        "confirm-steps",
        "execute",
        "execute-steps",
        "require",
        "ptxas-budget",
        "accept-ptxas-change",
    }
    linter = {
        re.sub("[A-Z]", lambda letter: "-" + letter[0].lower(), name.removeprefix("tclint.")): setting
        for name, setting in declared.items()
        if name not in own
    }
    assert own < declared.keys()
    assert linter.keys() == schema.keys() - run
    for name, setting in linter.items():
        wanted = schema[name]
        assert setting["default"] is None
        assert setting["type"] == [wanted.get("type", "string"), "null"]
        assert setting.get("enum") == ([*wanted["enum"], None] if "enum" in wanted else None)
        for key in ("description", "items", "additionalProperties", "pattern"):
            assert setting.get(key) == wanted.get(key), (name, key)


def test_the_manifest_names_what_is_there() -> None:
    manifest = load("package.json")
    contributes = manifest["contributes"]
    assert manifest["version"] == tclint.__version__
    for part in ("grammars", "snippets"):
        for entry in contributes[part]:
            assert (EXTENSION / entry["path"]).is_file()
    (language,) = contributes["languages"]
    load(language["configuration"])
    grammar = json.loads((ROOT / "tclint/syntax/tree-sitter.json").read_text("utf-8"))["grammars"][0]
    assert contributes["grammars"][0]["scopeName"] == grammar["scope"]
    assert language["extensions"] == [f".{extension}" for extension in grammar["file-types"]]
    assert re.search(language["firstLine"], ".version 8.7")


def test_the_lock_file_names_no_host() -> None:
    lock = load("package-lock.json")
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


def test_special_registers_are_those_of_the_manual() -> None:
    pattern = load("syntaxes/ptx.tmLanguage.json")["repository"]["special-registers"]["match"]
    for name in SPECIAL_REGISTERS:
        assert isinstance(parse_operand(name, lambda _: None), Special), name
        match = re.match(pattern, name)
        assert match is not None, name
        assert match[0] == name
    assert not any(re.match(pattern, name) for name in ("%r1", "%tids", "%clock_", "%pm8", "%ctaid2"))


def test_the_page_names_every_setting_command_and_snippet() -> None:
    page = (ROOT / "docs" / "vscode.md").read_text("utf-8")
    contributes = load("package.json")["contributes"]
    for name in (*contributes["configuration"]["properties"], *SNIPPETS):
        assert f"`{name}`" in page, name
    for command in contributes["commands"]:
        assert f"**{command['category']}: {command['title']}**" in page


# ---- the package ----

STAND_IN = """
const { Module } = require("node:module");
const any = new Proxy(function () {}, { get: (_, key) => (key === Symbol.toPrimitive ? () => "" : any),
    construct: () => ({}), apply: () => any });
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? any : load(name, ...rest));
console.log(Object.keys(require(process.argv[1])).sort().join());
"""
"""Loads the extension where there is no VS Code, and prints what it exports."""


def test_the_package_is_one_bundle_with_its_licences(built: Path) -> None:
    if not (built / "node_modules" / "esbuild").is_dir():
        pytest.skip("esbuild is not installed (npm ci in editors/vscode)")

    def said(*command: str | Path) -> str:
        run = subprocess.run(command, check=False, cwd=built, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    said("npm", "run", "bundle")
    bundle = built / "dist" / "extension.js"
    assert bundle.stat().st_size < 600_000
    assert said("node", "-e", STAND_IN, bundle).strip() == "activate,deactivate"
    notices = (built / "dist" / "NOTICES.txt").read_text("utf-8")
    assert {"semver", "vscode-jsonrpc", "vscode-languageclient"} <= set(
        re.findall(r"^(\S+) [\d.]+ \(", notices, re.MULTILINE)
    )
    assert set(said("npx", "vsce", "ls", "--no-dependencies").split()) == {
        "LICENSE", "README.md", "dist/NOTICES.txt", "dist/extension.js", "images/icon.png", "language-configuration.json",
        "package.json", "snippets/ptx.json", "syntaxes/ptx.tmLanguage.json",
    }  # fmt: skip


# ---- the client ----


def test_a_language_client(built: Path) -> None:
    """Against the real server, which is started as the extension starts it."""
    pytest.importorskip("tclint.commands.lsp")
    pytest.importorskip("pygls")
    command = json.dumps([sys.executable, "-m", "tclint"])
    environment = os.environ | {
        "TCLINT_COMMAND": command,
        "PYTHONPATH": str(Path(tclint.__file__).parent.parent),
    }
    script = built / "out" / "test" / "client.test.js"
    run = subprocess.run(
        ["node", "--test", "--test-timeout=60000", script],
        check=False,
        cwd=built,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout + run.stderr

"""``tclint ptxas`` and ``tclint-ptxas``: what they lint, and that the compile is otherwise the one without them.

Most tests run a script in the place of ptxas; the last ones run ptxas, nvcc and Triton where they are found.
``TCLINT_TRITON_PYTHON`` names a Python that has Triton, ``TCLINT_NVCC`` an nvcc that compiles.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.ptxas import PtxasMissing as NoPtxas
from benchmarks.ptxas import find as find_ptxas
from tclint.commands._ptxas import TRIED, VALUED, Given, PtxasMissing, find, given, release
from tclint.driver import cuda_tools
from tests.tools.project import ROOT

if os.name != "posix":
    pytest.skip("the stand-ins for ptxas are shell scripts", allow_module_level=True)

try:
    PTXAS, NO_PTXAS = find_ptxas().path, ""
except NoPtxas as missing:
    PTXAS, NO_PTXAS = Path(), str(missing)
needs_ptxas = pytest.mark.skipif(bool(NO_PTXAS), reason=NO_PTXAS)

WRONG = ROOT / "fixtures" / "wgmma_unwaited.ptx"
RIGHT = ROOT / "fixtures" / "wgmma_waited.ptx"
Run = Callable[..., subprocess.CompletedProcess[str]]

# What it was given goes to the file said.txt beside it, one argument a line.
STAND_IN = """\
#!/bin/sh
[ "$1" = --version ] && { echo "Cuda compilation tools, release 12.4, V12.4.1"; exit 0; }
printf '%s\\n' "$@" >"$0.said"
echo "ptxas to stdout"
echo "ptxas to stderr" >&2
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that a user has who has set nothing."""
    for name in [n for n in os.environ if n.startswith(("TCLINT_PTXAS", "TRITON_", "CUDA_"))]:
        monkeypatch.delenv(name)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in, as the ptxas to run."""
    path = program(tmp_path / "real" / "ptxas", STAND_IN)
    monkeypatch.setenv("TCLINT_PTXAS", str(path))
    return path


def said(ptxas: Path) -> list[str]:
    """The arguments that the stand-in got; none where it was not run."""
    path = Path(f"{ptxas}.said")
    return path.read_text().splitlines() if path.exists() else []


def scripts(folder: Path) -> Path:
    """``tclint-ptxas``, as pip makes it. Returns the folder."""
    for name in ("tclint-ptxas", "tclint-ptxas-blackwell"):
        text = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        program(folder / name, text + "from tclint.commands._ptxas import main\nmain()\n")
    return folder


# ---------------------------------------------------------------- what is linted


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ("-arch=sm_90a a.ptx -o a.cubin", ["a.ptx"]),
        ("-arch sm_90a -o a.cubin a", ["a"]),
        ("--gpu-name sm_90a --output-file=x.ptx a.ptx b.ptx -v", ["a.ptx", "b.ptx"]),
        ("-O 3 -O3 -m64 -m 64 -lineinfo a.ptx", ["a.ptx"]),
        ("--regAllocOptLevel=2 -suppress-debug-info a.ptx", ["a.ptx"]),
        ("-v - -o x", ["-"]),
        ("--version", []),
        ("", []),
        ("-o", []),
    ],
)
def test_which_arguments_are_inputs(arguments: str, paths: list[str]) -> None:
    assert given(arguments.split()) == Given(tuple(paths), ())


def test_text_as_an_argument_and_files_of_options(tmp_path: Path) -> None:
    assert given(["-ias", ".version 8.0\n", "--input-as-string=.target"]).texts == (
        ".version 8.0\n",
        ".target",
    )
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text(f"-optf {outer} 'b'.ptx\n")  # a circle; single quotes are no quotes
    outer.write_text(f'-arch=sm_90a\n"with space.ptx" with\\ another.ptx -o c.ptx --options-file={inner}')
    asked = given(["-optf", f"{outer},{tmp_path / 'absent'}", "a.ptx"])
    assert asked.paths == ("with space.ptx", "with another.ptx", "'b'.ptx", "a.ptx")


@needs_ptxas
def test_the_options_that_take_a_value_are_those_of_ptxas() -> None:
    text = subprocess.run([PTXAS, "--help"], capture_output=True, text=True, check=True).stdout
    described = re.findall(r"^(--\S+) +<[^\n]*?\((-\S+)\)", text, re.MULTILINE)
    assert len(described) > 15
    assert {name for pair in described for name in pair} <= VALUED
    flags = re.findall(r"^(--\S+) +\((-\S+)\)", text, re.MULTILINE)
    no_placeholder = (
        "--apply-controls --def-load-cache --def-store-cache --force-load-cache --force-store-cache"
    )
    assert {long for long, _ in flags if long in VALUED} == set(no_placeholder.split())


# ---------------------------------------------------------------- findings, and the compile


def test_findings_are_reported_and_ptxas_runs_as_it_was_called(run_tclint: Run, ptxas: Path) -> None:
    arguments = ["-arch=sm_90a", "-o", "a b.cubin", str(WRONG), "--odd", "*", ""]
    done = run_tclint("ptxas", *arguments)
    assert (done.returncode, done.stdout) == (0, "ptxas to stdout\n")
    assert said(ptxas) == arguments
    assert "error[WG001]" in done.stderr
    assert done.stderr.startswith("ptxas to stderr\n")
    assert done.stderr.endswith("Found 1 error in 1 file; 1 fixable with --fix.\n")


def test_a_clean_kernel_adds_no_word(run_tclint: Run, ptxas: Path) -> None:
    done = run_tclint("ptxas", str(RIGHT))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ptxas to stdout\n", "ptxas to stderr\n")


def test_refuse_does_not_compile_what_has_findings(run_tclint: Run, ptxas: Path) -> None:
    for arguments, variables in (
        (["--refuse", "--", str(WRONG)], {}),
        ([str(WRONG)], {"TCLINT_PTXAS_REFUSE": "1"}),
    ):
        done = run_tclint("ptxas", *arguments, env=variables)
        assert (done.returncode, done.stdout, said(ptxas)) == (1, "", [])
        assert done.stderr.endswith("tclint: ptxas was not run (--refuse)\n")
    assert run_tclint("ptxas", str(WRONG), env={"TCLINT_PTXAS_REFUSE": "0"}).returncode == 0
    assert run_tclint("ptxas", "--refuse", "--", "-v", str(RIGHT)).stderr == "ptxas to stderr\n"
    assert said(ptxas) == ["-v", str(RIGHT)]
    assert run_tclint("ptxas", "--refuse", "--fail-on", "never", "--", str(WRONG)).returncode == 0


def test_the_formats_and_the_log(run_tclint: Run, ptxas: Path, tmp_path: Path) -> None:
    variables = {"TCLINT_PTXAS_FORMAT": "concise", "TCLINT_PTXAS_LOG": str(tmp_path / "log")}
    for _ in range(2):
        shown = run_tclint("ptxas", str(WRONG), env=variables).stderr
    assert shown.startswith(f"ptxas to stderr\n{WRONG}:51:5: error WG001")
    assert (tmp_path / "log").read_text() == 2 * shown.removeprefix("ptxas to stderr\n")


def test_the_settings_are_those_of_the_project(run_tclint: Run, ptxas: Path, tmp_path: Path) -> None:
    (tmp_path / "tclint-ptx.toml").write_text('[per-file-ignores]\n"*unwaited*" = ["WG001"]\n')
    assert run_tclint("ptxas", "--refuse", "--", str(WRONG)).returncode == 0
    (tmp_path / "tclint-ptx.toml").write_text('fail-on = "error"\n')
    (tmp_path / "other.toml").write_text('ignore = ["WG001"]\n')
    named = {"TCLINT_PTXAS_REFUSE": "1", "TCLINT_PTXAS_CONFIG": "other.toml"}
    assert run_tclint("ptxas", str(WRONG), env=named).returncode == 0
    assert run_tclint("ptxas", "--isolated", "--", str(WRONG), env=named).returncode == 1


def test_the_toolkit_is_that_of_the_ptxas(run_tclint: Run, ptxas: Path, tmp_path: Path) -> None:
    (tmp_path / "new.ptx").write_text(RIGHT.read_text().replace(".version 8.0", ".version 9.1"))
    assert "the ptxas of CUDA 12.4 supports PTX 8.4 at most" in run_tclint("ptxas", "new.ptx").stderr
    assert "TL001" not in run_tclint("ptxas", "--toolkit", "13.1", "--", "new.ptx").stderr


def test_reports_are_collected_by_the_text_of_the_module(
    run_tclint: Run, ptxas: Path, tmp_path: Path
) -> None:
    copies = [shutil.copy(WRONG, tmp_path / f"{n}.ptx") for n in range(4)]
    variables = {"TCLINT_PTXAS_REPORTS": str(tmp_path / "to" / "reports")}
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda copy: run_tclint("ptxas", copy, str(RIGHT), env=variables), copies))
    assert {one.returncode for one in done} == {0}
    reports = sorted((tmp_path / "to" / "reports").iterdir())
    assert all(re.fullmatch(r"[0-9a-f]{16}\.sarif", path.name) for path in reports)
    results = [json.loads(path.read_text())["runs"][0]["results"] for path in reports]
    assert sorted(map(len, results)) == [0, 1]


# ---------------------------------------------------------------- inputs that are no files


def test_standard_input_is_linted_and_left_to_ptxas(run_tclint: Run, tmp_path: Path) -> None:
    program(tmp_path / "cat", "#!/bin/sh\nexec cat\n")
    variables = {"TCLINT_PTXAS": str(tmp_path / "cat"), "TCLINT_PTXAS_FORMAT": "concise"}
    text = WRONG.read_text()
    for name in ("-", "/dev/stdin"):
        done = run_tclint("ptxas", name, env=variables, stdin=None, input=text)
        assert (done.returncode, done.stdout) == (0, text)
        assert done.stderr.startswith("<stdin>:51:5: error WG001")


def test_an_argument_with_ptx_is_linted(run_tclint: Run, ptxas: Path) -> None:
    done = run_tclint("ptxas", "--refuse", "--", "-ias", WRONG.read_text())
    assert (done.returncode, said(ptxas)) == (1, [])
    assert "<argument>:51:5" in done.stderr


def test_what_can_be_read_once_is_left_to_ptxas(run_tclint: Run, ptxas: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run_tclint("ptxas", "pipe")
    assert (done.returncode, said(ptxas)) == (0, ["pipe"])
    assert done.stderr == "ptxas to stderr\ntclint: pipe is not linted: it can be read only once\n"
    assert run_tclint("ptxas", "--refuse", "--", "pipe").returncode == 2


def test_what_ptxas_cannot_read_either_is_left_to_it(run_tclint: Run, ptxas: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = run_tclint("ptxas", "--refuse", "--", "absent.ptx", "folder")
    assert (done.returncode, done.stderr, said(ptxas)) == (0, "ptxas to stderr\n", ["absent.ptx", "folder"])


# ---------------------------------------------------------------- tclint fails


@pytest.mark.parametrize(
    ("text", "variables", "words"),
    [
        ("int main() {}\n", {}, "unexpected `int main() {}`"),
        ("\xff\xfe", {}, "is UTF-16 text"),
        (".version 8.0\n.target sm_90\n}}}\n", {}, "error: "),
        (
            RIGHT.read_text(),
            {"TCLINT_PTXAS_FORMAT": "txt"},
            "unknown output format 'txt'; did you mean text?",
        ),
        (RIGHT.read_text(), {"TCLINT_PTXAS_CONFIG": "absent.toml"}, "absent.toml: cannot be read"),
        (
            WRONG.read_text(),
            {"TCLINT_PTXAS_LOG": "no/such/folder"},
            "no/such/folder cannot be written: there is no folder no/such",
        ),
        (RIGHT.read_text(), {"TCLINT_PTXAS_REPORTS": "k.ptx/x"}, "k.ptx"),
    ],
)
def test_what_goes_wrong_in_tclint_changes_nothing_unless_asked_to_refuse(
    run_tclint: Run, ptxas: Path, tmp_path: Path, text: str, variables: dict[str, str], words: str
) -> None:
    (tmp_path / "k.ptx").write_bytes(text.encode("latin-1" if text[0] == "\xff" else "utf-8"))
    done = run_tclint("ptxas", "k.ptx", env=variables)
    assert (done.returncode, done.stdout, said(ptxas)) == (0, "ptxas to stdout\n", ["k.ptx"])
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    Path(f"{ptxas}.said").unlink()
    done = run_tclint("ptxas", "k.ptx", env={**variables, "TCLINT_PTXAS_REFUSE": "1"})
    assert (done.returncode, said(ptxas)) == (2, [])
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_configuration_file_stops_no_compile(run_tclint: Run, ptxas: Path, tmp_path: Path) -> None:
    (tmp_path / "tclint-ptx.toml").write_text("slect = 3\n")
    done = run_tclint("ptxas", str(RIGHT))
    assert (done.returncode, said(ptxas)) == (0, [str(RIGHT)])
    assert "unknown setting slect; did you mean select?" in done.stderr
    assert run_tclint("ptxas", "--pedantic", "--", str(RIGHT)).returncode == 2


def test_an_internal_error_stops_no_compile(ptxas: Path, tmp_path: Path) -> None:
    code = (
        "import tclint.api, tclint.commands._cli\n"
        "def crash(*_): raise RuntimeError('out of cheese')\n"
        f"tclint.api.lint = crash\ntclint.commands._cli.main(['ptxas', {str(RIGHT)!r}])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, said(ptxas)) == (0, [str(RIGHT)])
    assert done.stderr.startswith("ptxas to stderr\ntclint: internal error: RuntimeError: out of cheese")


def test_a_closed_standard_error_stops_no_compile(run_tclint: Run, ptxas: Path) -> None:
    closing = ["sh", "-c", f'exec "{sys.executable}" -m tclint ptxas "{WRONG}" 2>&-']
    done = subprocess.run(closing, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said(ptxas) == [str(WRONG)]
    assert done.stdout == "ptxas to stdout\n"


# ---------------------------------------------------------------- the process


def test_it_ends_as_ptxas_does(tmp_path: Path, run_tclint: Run) -> None:
    path = program(tmp_path / "p", "#!/bin/sh\nkill -SEGV $$\n")
    command = [sys.executable, "-m", "tclint", "ptxas", str(RIGHT)]
    environment = {**os.environ, "TCLINT_PTXAS": str(path), "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGSEGV
    program(path, "#!/bin/sh\nexit 255\n")
    assert run_tclint("ptxas", str(RIGHT), env={"TCLINT_PTXAS": str(path)}).returncode == 255


def test_it_becomes_ptxas_where_there_is_nothing_to_lint(tmp_path: Path) -> None:
    path = program(tmp_path / "p", "#!/bin/sh\necho $$\n")
    command = [sys.executable, "-m", "tclint", "ptxas", "--odd"]
    environment = {**os.environ, "TCLINT_PTXAS": str(path), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        said, _ = running.communicate(timeout=60)
    assert said == f"{running.pid}\n"


def test_it_lints_while_ptxas_runs(tmp_path: Path, run_tclint: Run) -> None:
    """The stand-in waits for the report."""
    path = program(
        tmp_path / "p",
        '#!/bin/sh\n[ "$1" = --version ] && exit\n'
        f"for n in $(seq 600); do [ -e {tmp_path}/reports ] && exit 7; sleep 0.05; done\n",
    )
    variables = {"TCLINT_PTXAS": str(path), "TCLINT_PTXAS_REPORTS": str(tmp_path / "reports")}
    assert run_tclint("ptxas", str(RIGHT), env=variables).returncode == 7


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_ptxas_starts_before_the_settings_are_read(tmp_path: Path, run_tclint: Run) -> None:
    """The stand-in writes them."""
    settings = tmp_path / "settings.toml"
    os.mkfifo(settings)
    path = program(
        tmp_path / "p",
        f"#!/bin/sh\n[ \"$1\" = --version ] && exit\necho 'output-format = 3' > {settings}\nexit 7\n",
    )
    variables = {"TCLINT_PTXAS": str(path), "TCLINT_PTXAS_CONFIG": str(settings)}
    done = run_tclint("ptxas", str(RIGHT), env=variables)
    assert done.returncode == 7
    assert "output-format" in done.stderr


def test_ptxas_is_ended_when_the_options_are_wrong(tmp_path: Path, run_tclint: Run) -> None:
    path = program(tmp_path / "p", '#!/bin/sh\n[ "$1" = --version ] && exit\nexec sleep 600\n')
    variables = {"TCLINT_PTXAS": str(path)}
    done = run_tclint("ptxas", "--output-format", "txt", "--", str(RIGHT), env=variables, timeout=60)
    assert done.returncode == 2
    assert "unknown output format" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_ptxas_too(tmp_path: Path, number: int) -> None:
    path = program(tmp_path / "p", f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 60\n")
    command = [sys.executable, "-m", "tclint", "ptxas", "--toolkit", "12.4", "--", str(RIGHT)]
    environment = {**os.environ, "TCLINT_PTXAS": str(path), "PYTHONPATH": str(ROOT)}
    restore = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, preexec_fn=restore) as running:  # noqa: PLW1509
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            time.sleep(0.02)
        running.send_signal(number)
        running.communicate(timeout=20)  # which needs the end of ptxas, too
    assert running.returncode == (-number if number == signal.SIGTERM else 130)


def test_signals_that_python_ignores_are_as_they_were(tmp_path: Path, run_tclint: Run) -> None:
    path = program(tmp_path / "p", "#!/bin/sh\ngrep SigIgn /proc/$$/status\n")
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc")
    ignored = run_tclint("ptxas", str(RIGHT), env={"TCLINT_PTXAS": str(path)}).stdout
    assert int(ignored.split()[1], 16) & 1 << signal.SIGPIPE - 1 == 0


def test_help_is_tclints_and_all_else_is_for_ptxas(run_tclint: Run, ptxas: Path) -> None:
    assert "TCLINT_PTXAS_REFUSE" in run_tclint("ptxas", "--help").stdout
    assert run_tclint("ptxas", "--", "--help").returncode == 0
    assert said(ptxas) == ["--help"]
    assert "release 12.4" in run_tclint("ptxas", "--version").stdout
    assert run_tclint("ptxas").returncode == 0
    assert said(ptxas) == [""]  # what printf makes of no argument
    done = run_tclint("ptxas", "--refuze", "--", str(RIGHT))
    assert done.returncode == 2
    assert "--refuse" in done.stderr


def test_the_program_needs_nothing_of_tclint_to_ask_for_the_version(ptxas: Path, tmp_path: Path) -> None:
    command = scripts(tmp_path / "bin") / "tclint-ptxas"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("Cuda compilation tools, release 12.4, V12.4.1\n", "")
    code = (
        "import os, sys, tclint.commands._ptxas as p\nos.execve = lambda *_: (print(*sys.modules), sys.exit())\n"
        "sys.argv = ['tclint-ptxas', '--version']\np.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith(("tclint", "click"))}
    packages = {"tclint", "tclint._version", "tclint._data", "tclint.commands", "tclint.driver"}
    assert loaded == packages | {"tclint.commands._ptxas", "tclint.driver.cuda_tools"}


# ---------------------------------------------------------------- which ptxas


def test_which_ptxas_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = (program(tmp_path / name / "ptxas", STAND_IN) for name in ("shims", "toolkit"))
    script = program(tmp_path / "venv" / "tclint-ptxas", "")
    own.unlink()
    own.symlink_to(script)
    monkeypatch.setenv("PATH", f"{own.parent}{os.pathsep}{other.parent}")
    assert find(str(script)) == str(other)
    assert find(str(own)) == str(other)
    monkeypatch.setenv("TCLINT_PTXAS", str(own))
    with pytest.raises(PtxasMissing, match="is tclint itself, or has called it"):
        find(str(script))
    monkeypatch.setenv("TCLINT_PTXAS", str(tmp_path / "absent"))
    with pytest.raises(PtxasMissing, match="absent is not an executable"):
        find(str(script))
    monkeypatch.setenv("TCLINT_PTXAS", str(other))
    assert find(str(script)) == str(other)


def test_the_ptxas_of_a_linked_nvcc_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = program(tmp_path / "cuda" / "bin" / "ptxas", STAND_IN)
    nvcc = program(tmp_path / "cuda" / "bin" / "nvcc", "")
    links = tmp_path / "links"
    links.mkdir()
    (links / "nvcc").symlink_to(nvcc)
    (links / "ptxas").symlink_to(program(tmp_path / "venv" / "tclint-ptxas", ""))
    monkeypatch.setenv("PATH", str(program(tmp_path / "other" / "ptxas", STAND_IN).parent))
    assert find(str(links / "ptxas")) == str(real)


def test_triton_gets_the_program_that_it_would_have_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = tmp_path / "triton" / "backends" / "nvidia" / "bin"
    for name in ("ptxas", "ptxas-blackwell"):
        program(bundled / name, STAND_IN)
    monkeypatch.setattr(
        cuda_tools, "packaged", lambda package, below: [bundled] if package == "triton" else []
    )
    on_path = program(tmp_path / "path" / "ptxas", STAND_IN)
    monkeypatch.setenv("PATH", str(on_path.parent))
    old, new = str(tmp_path / "tclint-ptxas"), str(tmp_path / "tclint-ptxas-blackwell")
    assert (find(old), find(new)) == (str(on_path), str(bundled / "ptxas-blackwell"))
    monkeypatch.setenv("TRITON_PTXAS_PATH", old)
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", new)
    assert (find(old), find(new)) == (str(bundled / "ptxas"), str(bundled / "ptxas-blackwell"))
    monkeypatch.setenv("TCLINT_PTXAS", str(on_path))
    assert (find(old), find(new)) == (str(on_path), str(on_path))
    monkeypatch.setenv("TCLINT_PTXAS_BLACKWELL", str(bundled / "ptxas"))
    assert (find(old), find(new)) == (str(on_path), str(bundled / "ptxas"))


def test_no_ptxas_is_a_message(run_tclint: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cuda_tools, "candidates", lambda name: iter(()))
        with pytest.raises(PtxasMissing, match="ptxas was not found: set TCLINT_PTXAS"):
            find("tclint-ptxas")
    done = run_tclint("ptxas", str(RIGHT), env={"TCLINT_PTXAS": str(tmp_path / "absent")})
    assert (done.returncode, done.stdout) == (2, "")
    assert "absent is not an executable" in done.stderr


def test_a_wrapper_on_path_does_not_call_itself_endlessly(tmp_path: Path, run_tclint: Run) -> None:
    real = program(tmp_path / "real" / "ptxas", STAND_IN)
    wrapper = f'#!/bin/sh\nexec "{sys.executable}" -m tclint ptxas "$@"\n'
    shim = program(tmp_path / "shim" / "ptxas", wrapper)
    path = os.pathsep.join([str(shim.parent), str(real.parent), os.environ["PATH"]])
    variables = {"PATH": path, "TCLINT_PTXAS_FORMAT": "concise"}
    done = run_tclint("ptxas", str(WRONG), env=variables)
    assert (done.returncode, said(real)) == (0, [str(WRONG)])
    assert done.stderr.count("WG001") == 1
    log = f'#!/bin/sh\necho called >>"{tmp_path}/calls"\nexec "{sys.executable}" -m tclint ptxas "$@"\n'
    program(shim, log)
    assert run_tclint("ptxas", str(RIGHT), env=variables).returncode == 0
    assert (tmp_path / "calls").read_text().count("called") == 2  # for its release, and to compile
    done = run_tclint("ptxas", str(WRONG), env={**variables, "TCLINT_PTXAS": str(shim)})
    assert done.returncode == 2
    assert "is tclint itself, or has called it" in done.stderr


def test_what_is_not_a_program_for_this_machine_is_a_message(run_tclint: Run, tmp_path: Path) -> None:
    path = program(tmp_path / "p", "\x7fELF nonsense")
    done = run_tclint("ptxas", str(RIGHT), env={"TCLINT_PTXAS": str(path)})
    assert done.returncode == 2
    assert f"Error: cannot run {path}: " in done.stderr


def test_the_release_of_a_ptxas(tmp_path: Path) -> None:
    assert release(str(program(tmp_path / "a", STAND_IN))) == (12, 4)
    assert release(str(program(tmp_path / "b", "#!/bin/sh\necho 9\n"))) is None
    assert release(str(tmp_path / "absent")) is None
    assert TRIED not in os.environ


# ---------------------------------------------------------------- the real thing


def without_times(said: str) -> str:
    return re.sub(r"[\d.]+ ms", "", said)


@needs_ptxas
def test_ptxas_makes_the_same_machine_code(
    run_tclint: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCLINT_PTXAS", str(PTXAS))
    arguments = ["-arch=sm_90a", "-v", str(RIGHT), "-o"]
    alone = subprocess.run([PTXAS, *arguments, tmp_path / "a"], capture_output=True, text=True, check=True)
    linted = run_tclint("ptxas", *arguments, "b")
    assert (linted.returncode, linted.stdout) == (0, alone.stdout)
    assert without_times(linted.stderr) == without_times(alone.stderr)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    broken = run_tclint("ptxas", "-arch=sm_90a", "absent.ptx")
    assert broken.returncode == 255
    assert "Input file 'absent.ptx' could not be opened" in broken.stderr


@pytest.fixture
def nvcc() -> Path:
    """An nvcc with all that it needs to compile, of a folder of NVIDIA's wheels or of a toolkit."""
    found = os.environ.get("TCLINT_NVCC") or next(cuda_tools.candidates("nvcc"), None)
    if not found or not Path(found).is_file():
        pytest.skip(
            "no nvcc: set TCLINT_NVCC to one, or pip install nvidia-cuda-{nvcc,runtime,cccl,crt} nvidia-nvvm"
        )
    path = Path(found)
    if not (path.parents[1] / "nvvm" / "bin" / "cicc").exists() or shutil.which("gcc") is None:
        pytest.skip(f"{path} cannot compile: it has no cicc, or there is no gcc")
    return path


SOURCE = """\
extern "C" __global__ void k(int *out) {
    asm volatile("{ .reg .pred %p; setp.ne.b32 %p, 0, 0; barrier.cluster.wait.acquire.aligned; }");
    out[threadIdx.x] = 1;
}
"""
"""A wait for the cluster at which no thread has arrived."""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["prefix", "links"])
def test_nvcc_calls_it(nvcc: Path, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/ptxas.md says: by ``--ptxas-prefix``, or from a folder of links."""
    (tmp_path / "kernel.cu").write_text(SOURCE)
    monkeypatch.setenv("TCLINT_PTXAS_FORMAT", "concise")
    own = scripts(tmp_path / "venv")
    command = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tclint "$@"\n'
    monkeypatch.setenv("PATH", f"{program(own / 'tclint', command).parent}{os.pathsep}{os.environ['PATH']}")
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / "docs" / "ptxas.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (block,) = [text for text in blocks if ("linted" if how == "links" else "nvcc --ptxas-prefix") in text]
    if how == "prefix":
        block = block.splitlines()[0].replace("nvcc", str(nvcc), 1)
    called = ["sh", "-c", block.replace("/usr/local/cuda", str(nvcc.parents[1]))]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"CL00\d", done.stderr), done.stderr
    assert (tmp_path / "kernel.o").read_bytes().startswith(b"\x7fELF")
    shutil.rmtree(tmp_path / "linted", ignore_errors=True)
    monkeypatch.setenv("TCLINT_PTXAS_REFUSE", "1")
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "tclint: ptxas was not run (--refuse)" in done.stderr


TRITON = os.environ.get("TCLINT_TRITON_PYTHON") or (sys.executable if find_spec("triton") else "")

KERNEL = """\
import sys
import triton
from triton import language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def kernel(out):
    tl.inline_asm_elementwise("SOME_ASM mov.u32 $0, 1;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out, 1)

source = ASTSource(kernel, {"out": "*i32"}, {})
compiled = triton.compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32))
print(sorted(compiled.asm), compiled.asm["cubin"][:4])
"""
WAIT = "barrier.cluster.wait.acquire.aligned;"


@pytest.mark.slow
@pytest.mark.skipif(
    not TRITON, reason="no Triton: pip install triton, or name a Python that has it in TCLINT_TRITON_PYTHON"
)
@pytest.mark.parametrize("target", [80, 90, 100])
def test_triton_compiles_with_it(target: int, tmp_path: Path) -> None:
    """Triton's own call, for a GPU that is not there; the old ptxas for 80, the new one for the others."""
    bundled = subprocess.run(
        [TRITON, "-c", "import triton; print(triton.__path__[0] + '/backends/nvidia/bin/')"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    own = scripts(tmp_path / "venv")
    asm = WAIT if target >= 90 else ""
    (tmp_path / "kernel.py").write_text(KERNEL.replace("SOME_ASM", asm))

    def compiled(name: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "TRITON_CACHE_DIR": str(tmp_path / name),
            "TRITON_DEFAULT_FP_FUSION": "1",
            "TRITON_PTXAS_PATH": str(own / "tclint-ptxas"),
            "TRITON_PTXAS_BLACKWELL_PATH": str(own / "tclint-ptxas-blackwell"),
            "TCLINT_PTXAS": f"{bundled}ptxas",
            "TCLINT_PTXAS_BLACKWELL": f"{bundled}ptxas-blackwell",
            "TCLINT_PTXAS_FORMAT": "concise",
            **variables,
        }
        command = [TRITON, "kernel.py", str(target)]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    reports = tmp_path / "reports"
    done = compiled("a", TCLINT_PTXAS_LOG=str(tmp_path / "log"), TCLINT_PTXAS_REPORTS=str(reports))
    assert (done.returncode, "b'\\x7fELF'" in done.stdout) == (0, True), done.stdout + done.stderr
    (report,) = reports.iterdir()
    results = json.loads(report.read_text())["runs"][0]["results"]
    if not asm:
        assert results == []
        return
    assert {result["ruleId"][:2] for result in results} == {"CL"}
    assert "kernel.py:9" in (tmp_path / "log").read_text()
    assert "CL0" not in done.stdout + done.stderr  # Triton keeps what ptxas says to itself ...
    assert "CL0" in compiled("b", TRITON_DUMP_PTXAS_LOG="1").stdout  # ... unless it is asked
    done = compiled("c", TCLINT_PTXAS_REFUSE="1")
    assert done.returncode == 1
    assert "`ptxas` failed with error code 1" in done.stderr
    assert "tclint: ptxas was not run (--refuse)" in done.stderr

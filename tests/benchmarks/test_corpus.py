"""The builder of the corpus, with producers that need nothing: what is built, kept, dropped, refused and skipped."""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import __main__ as command
from benchmarks.corpus import builder as builder_module
from benchmarks.corpus import worker
from benchmarks.corpus.builder import Builder, Skipped, default_cache, environment
from benchmarks.corpus.producers import PRODUCERS
from benchmarks.corpus.producers.wheels import alone
from benchmarks.corpus.protocol import Refused
from tests.tools.project import ROOT

FAKE = """
import os
from pathlib import Path

from benchmarks.corpus.protocol import Job, Refused

PACKAGES = ("fake==1",)
SOURCE = Path(__file__).with_name("source.txt")


def obstacle():
    return os.environ.get("FAKE_OBSTACLE", "")


def jobs():
    def made(name):
        print("noise of a compiler")
        os.write(1, b"more noise")
        words = SOURCE.read_text()
        if name in words.split():
            raise Refused(f"{name} is refused")
        if f"crash-{name}" in words.split():
            os._exit(3)
        if f"raise-{name}" in words.split():
            try:
                raise KeyError("root")
            except KeyError as error:
                raise ValueError("cover") from error
        if f"empty-{name}" in words.split():
            return "nothing"
        if f"hollow-{name}" in words.split():
            return f".version 8.0\\n.target sm_{name}\\n// .entry k\\n"
        return f".version 8.0\\n.target sm_{name}\\n.visible .entry k() {{ ret; }} // {words}\\n"

    for name in os.environ.get("FAKE_JOBS", "80 90 100").split():
        yield Job(name, "sm_any", f"make {name}", (SOURCE,), lambda name=name: made(name))
"""


class Corpus:
    """A cache, a fake producer and what was printed."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.source = folder / "source.txt"
        self.source.write_text("first")
        (folder / "fake.py").write_text(FAKE)
        self.said: list[str] = []

    def build(self, *, limit: int | None = None, workers: int = 1) -> bool:
        self.said = []
        builder = Builder(
            self.cache, limit, workers, self.said.append, lambda folder, packages: Path(sys.executable)
        )
        return builder.build("fake", "fake")

    @property
    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((self.cache / "manifest.json").read_text())
        return manifest

    @property
    def names(self) -> list[str]:
        """The files that are there; the manifest must agree."""
        listed = [entry["path"] for entry in self.manifest["files"]]
        there = sorted(str(path.relative_to(self.cache)) for path in self.cache.glob("fake/*.ptx"))
        assert sorted(listed) == there
        return [Path(path).stem for path in listed]

    @property
    def built(self) -> list[str]:
        return [line.split()[1] for line in self.said if " bytes, " in line and "files" not in line]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "fake", raising=False)
    return Corpus(tmp_path)


def test_the_manifest_says_what_was_made_of_what(corpus: Corpus) -> None:
    assert corpus.build()
    assert sorted(corpus.names) == ["100", "80", "90"]
    entry = next(e for e in corpus.manifest["files"] if e["name"] == "90")
    data = (corpus.cache / entry["path"]).read_bytes()
    assert entry["sha256"] == hashlib.sha256(data).hexdigest()
    assert entry["bytes"] == len(data)
    assert (entry["target"], entry["version"], entry["command"]) == ("sm_90", "8.0", "make 90")
    about = corpus.manifest["producers"]["fake"]
    assert about["status"] == "complete"
    assert about["files"] == 3
    assert about["targets"] == {"sm_100": 1, "sm_80": 1, "sm_90": 1}
    assert "tree-sitter" in about["packages"]
    assert corpus.manifest["failures"] == []


def test_what_is_there_and_unchanged_is_not_built_again(corpus: Corpus) -> None:
    corpus.build()
    assert corpus.build()
    assert corpus.built == []
    (corpus.cache / "fake/90.ptx").write_text("damaged")
    (corpus.cache / "fake/80.ptx").unlink()
    assert corpus.build()
    assert corpus.built == ["80", "90"]
    corpus.source.write_text("second")
    assert corpus.build()
    assert sorted(corpus.built) == ["100", "80", "90"]


def test_what_is_no_longer_made_goes(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.build()
    monkeypatch.setenv("FAKE_JOBS", "90 120")
    assert corpus.build()
    assert sorted(corpus.names) == ["120", "90"]


def test_a_limit_takes_the_first_and_drops_nothing(corpus: Corpus) -> None:
    assert corpus.build(limit=1)
    assert corpus.names == ["80"]
    assert corpus.manifest["producers"]["fake"]["reason"] == "--limit 1"
    assert corpus.build()
    assert corpus.build(limit=1)
    assert len(corpus.names) == 3


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("90", "90 is refused"),
        ("raise-90", "KeyError: 'root'"),
        ("empty-90", "the output is not a PTX module"),
        ("hollow-90", "there is no function in it: the source has templates or code of the host alone"),
        ("crash-90", "the compiler did not return: status 3, see "),
    ],
)
def test_a_failure_is_recorded_and_the_rest_is_built(corpus: Corpus, word: str, reason: str) -> None:
    corpus.build()
    corpus.source.write_text(word)
    assert not corpus.build()
    assert sorted(corpus.names) == ["100", "80"], "a file that can no longer be made must go"
    (failure,) = corpus.manifest["failures"]
    assert failure["reason"].startswith(reason)
    assert (failure["producer"], failure["name"], failure["command"]) == ("fake", "90", "make 90")
    about = corpus.manifest["producers"]["fake"]
    assert about["status"] == "partial"
    assert about["reason"] == "1 of the files could not be made, see failures"
    corpus.source.write_text("fixed")
    assert corpus.build()
    assert corpus.manifest["failures"] == []


def test_workers_share_the_jobs(corpus: Corpus) -> None:
    corpus.source.write_text("crash-90")
    assert not corpus.build(workers=2)
    assert sorted(corpus.names) == ["100", "80"]
    assert [e["name"] for e in corpus.manifest["failures"]] == ["90"]


def test_an_obstacle_skips_the_producer_and_keeps_its_files(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.build()
    monkeypatch.setenv("FAKE_OBSTACLE", "no compiler")
    assert not corpus.build()
    assert len(corpus.names) == 3
    assert corpus.manifest["producers"]["fake"]["status"] == "skipped"
    assert corpus.manifest["producers"]["fake"]["reason"] == "no compiler"
    assert corpus.said[-1].startswith("fake: skipped (no compiler), 3 files")


def test_a_producer_that_breaks_is_skipped(corpus: Corpus) -> None:
    (corpus.source.parent / "fake.py").write_text(FAKE + "\n\ndef jobs():\n    raise RuntimeError\n")
    assert not corpus.build()
    assert "the worker ended with status 1" in corpus.manifest["producers"]["fake"]["reason"]


def test_a_job_that_takes_too_long_ends_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from benchmarks.corpus import worker; import time; worker._alarm(1); time.sleep(30)"
    assert hasattr(worker, "_alarm")
    run = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT, timeout=20)
    assert run.returncode < 0


NO_NETWORK = """WARNING: Retrying ... NewConnectionError('<...>: Failed to establish a new connection') ...
ERROR: Could not find a version that satisfies the requirement triton==3.9.0 (from versions: none)
ERROR: No matching distribution found for triton==3.9.0
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (NO_NETWORK, "no network: Could not find a version that satisfies the requirement triton==3.9.0"),
        (NO_NETWORK[91:], "pip: Could not find a version that satisfies the requirement triton==3.9.0"),
        ("", "pip: "),
    ],
)
def test_why_packages_could_not_be_installed(said: str, reason: str) -> None:
    assert builder_module._why_pip_failed(said).startswith(reason)


def test_packages_that_cannot_be_installed_skip_the_producer(corpus: Corpus) -> None:
    def fail(folder: Path, packages: tuple[str, ...]) -> Path:
        assert packages == ("fake==1",)
        raise Skipped("no network: no fake")

    builder = Builder(corpus.cache, say=corpus.said.append, make_environment=fail)
    assert not builder.build("fake", "fake")
    assert corpus.said == ["fake: skipped (no network: no fake), no files, 0.0 s"]
    assert corpus.manifest["producers"]["fake"]["reason"] == "no network: no fake"


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str]) -> None:
        commands.append(command)
        (tmp_path / "e").mkdir(exist_ok=True)

    monkeypatch.setattr(builder_module, "_run", run)
    for _ in range(2):
        environment(tmp_path / "e", ("a==1", "b==2"))
    assert len(commands) == 2
    assert commands[1][-2:] == ["a==1", "b==2"]
    environment(tmp_path / "e", ("a==1",))
    assert len(commands) == 4


def test_a_manifest_of_another_version_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(SystemExit):
        command.main(["--cache", str(tmp_path)])
    assert "made by another version" in capsys.readouterr().err


def test_two_builds_do_not_share_a_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fcntl")
    with builder_module.locked(tmp_path), pytest.raises(SystemExit):
        command.main(["--cache", str(tmp_path)])
    assert f"{tmp_path} is in use by another build" in capsys.readouterr().err


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def build(self: Builder, name: str, module: str) -> bool:
        asked.append(module)
        return name != "gluon"

    monkeypatch.setattr(Builder, "build", build)
    assert command.main(["--cache", str(tmp_path), "--only", "triton"]) == 0
    assert command.main(["--cache", str(tmp_path)]) == 1
    assert asked == [f"benchmarks.corpus.producers.{name}" for name in ("triton", *PRODUCERS)]
    assert "0 files of 0 producers, 0.0 MB." in capsys.readouterr().out
    for wrong in (["--limit", "0"], ["--jobs", "x"], ["--only", "gcc"]):
        with pytest.raises(SystemExit):
            command.main(["--cache", str(tmp_path), *wrong])


def test_the_cache_is_outside_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/tclint/corpus")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache/tclint/corpus"


@pytest.mark.parametrize("name", PRODUCERS)
def test_a_producer_pins_its_packages_and_imports_nothing_else(name: str) -> None:
    module: Any = importlib.import_module(f"benchmarks.corpus.producers.{name}")
    assert module.PACKAGES or name == "strangers"  # which copies
    assert all(package.count("==") == 1 for package in module.PACKAGES)
    functions: list[Callable[..., object]] = [module.obstacle, module.jobs]
    assert all(callable(function) for function in functions)
    assert f"| `{name}` |" in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def test_a_kernel_is_taken_out_of_its_module() -> None:
    head, tail = ".version 8.0\n.global .b32 table[2] = {1, 2};\n", ".func after()\n{\n\tret;\n}\n"
    first = ".visible .entry first(\n\t.param .u32 n\n)\n.maxntid 32\n{\n\t// }\n{\n\tmov.b64 %rd1, {%r1, %r2};\n}\n\tret;\n}\n"
    second = ".entry second()\n{\n\tret;\n}\n"
    module = head + first + ".extern .shared .b8 pool[];\n" + second + tail
    assert alone(module, 0) == head + first + ".extern .shared .b8 pool[];\n" + tail
    assert alone(module, 1) == head + ".extern .shared .b8 pool[];\n" + second + tail
    with pytest.raises(Refused, match="has 2 kernels"):
        alone(module, 2)


def test_the_page_counts_what_the_manifest_says() -> None:
    made = {
        "status": "partial",
        "reason": "",
        "packages": {"triton": "3.9.0"},
        "files": 2,
        "bytes": 2_500_000,
    }
    gone = {"status": "skipped", "reason": "no network", "packages": {}, "files": 0, "bytes": 0}
    data = {"triton": made, "nvcc": gone}
    assert command.figure(data) == "2 files of 1 producers, 2.5 MB."
    text = "\n".join(command.tables(data))
    assert "| triton | partial | 2 | 2.5 | triton 3.9.0 |" in text
    assert "| nvcc | skipped | 0 | 0.0 | no network |" in text

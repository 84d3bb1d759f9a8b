"""Inputs without an end or with more in them than they show: one line, exit 2, and little memory."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from tclint.commands._cli import cli
from tclint.driver import inputs as part
from tclint.driver.inputs import inputs
from tclint.syntax.source import SourceError
from tests.tools.project import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs wait4, devices and FIFOs")

LIMIT = 16
"""MiB."""
BOUND = LIMIT + 200
"""MiB of memory that a run may have in use."""
_FACTOR = 1 if sys.platform == "darwin" else 1024
FATBIN = b"\x50\xed\x55\xba\x01\0"


class Ended(NamedTuple):
    code: int
    out: str
    mebibytes: int


def check(folder: Path, *arguments: str, stdin: str = os.devnull, **environment: str) -> Ended:
    """``tclint check`` as a process of its own, with the most memory that it had in use."""
    command = [sys.executable, "-m", "tclint", "check", "--output-format", "concise", f"--max-input={LIMIT}"]
    # A process starts with the memory of the one that it is forked from, which may be a large worker of pytest.
    parent = (
        "import os, sys; p = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ); _, s, u = os.wait4(p, 0)"
    )
    parent += "; print(os.waitstatus_to_exitcode(s), u.ru_maxrss, file=open('used', 'w'))"
    said = folder / "said"
    with said.open("wb") as out, open(stdin, "rb") as given:
        subprocess.run(
            [sys.executable, "-c", parent, *command, *arguments], stdin=given, stdout=out, stderr=out, cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TCLINT_NO_CACHE": "1", **environment}, check=True,
        )  # fmt: skip
    code, used = (folder / "used").read_text().split()
    return Ended(int(code), said.read_text(), int(used) * _FACTOR // 2**20)


def bomb(size: int, piece: bytes = b" " * 2**20) -> bytes:
    """A gzip file that unpacks to *size* MiB."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(piece) for _ in range(size)), packer.flush()])


@pytest.mark.parametrize(
    "command",
    ["check KERNEL", "dump ir KERNEL", "barriers KERNEL", "verdict KERNEL", "targets KERNEL", "show KERNEL",
     "hang KERNEL --at 1", "run KERNEL", "diff KERNEL KERNEL", "baseline KERNEL"],
)  # fmt: skip
def test_every_command_that_reads_a_kernel_has_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = tmp_path / "k.ptx"
    kernel.write_text(".version 8.0\n.target sm_90\n" + "// comment\n" * (1 << 17))
    arguments = [str(kernel) if word == "KERNEL" else word for word in command.split()]
    result = CliRunner().invoke(cli, [*arguments, "--max-input", "1"], standalone_mode=False)
    assert (result.return_value or 2) == 2
    said = f"{result.output} {result.exception}"
    assert "is too large: it has more than 1 MiB, the limit of max-input" in said
    assert CliRunner().invoke(cli, [*arguments, "--max-input", "0"]).exit_code == 2


def test_a_gzip_bomb_is_refused_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.ptx.gz").write_bytes(bomb(256))
    ended = check(tmp_path, "bomb.ptx.gz")
    first, *_ = ended.out.splitlines()
    assert first == "bomb.ptx.gz: error: is too large: it has more than 16 MiB, the limit of max-input"
    assert (ended.code, ended.mebibytes <= BOUND) == (2, True), ended


def test_many_members_and_a_long_packed_text_count_together(tmp_path: Path) -> None:
    (tmp_path / "members.ptx.gz").write_bytes(gzip.compress(b" " * 2**20) * 400)
    (tmp_path / "packed.ptx.gz").write_bytes(gzip.compress(os.urandom(10 * 2**20), 1))
    (tmp_path / "nested.ptx.gz").write_bytes(gzip.compress(bomb(64)))
    ended = check(tmp_path, ".")
    assert ended.out.count("is too large") == 2
    assert (
        "nested.ptx.gz: error: no PTX in it: it is a gzip file" in ended.out
    )  # unpacked once and no further
    assert (ended.code, ended.mebibytes <= BOUND) == (2, True), ended


@pytest.mark.parametrize("path", ["/dev/zero", "-"])
def test_an_endless_input_is_refused_in_little_memory(tmp_path: Path, path: str) -> None:
    ended = check(tmp_path, path, stdin="/dev/zero")
    assert "is too large: it has more than 16 MiB" in ended.out
    assert (ended.code, ended.mebibytes <= BOUND) == (2, True), ended


def test_a_container_that_unpacks_without_end_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "cuobjdump"
    script.write_text(
        f"#!{sys.executable}\nfrom itertools import count\n"
        "for number in count():\n"
        "    with open(f'{number}.ptx', 'wb') as file:\n"
        "        file.write(b' ' * 2**20)\n"
    )
    script.chmod(0o755)
    (tmp_path / "k.fatbin").write_bytes(FATBIN)
    ended = check(tmp_path, "k.fatbin", TCLINT_CUOBJDUMP=str(script), TMPDIR=str(tmp_path))
    assert "k.fatbin: error: is too large: its PTX has more than 16 MiB" in ended.out
    assert (ended.code, ended.mebibytes <= BOUND) == (2, True), ended
    assert not list(tmp_path.glob("tclint-*"))  # nothing of it is left


def test_a_container_of_very_many_members_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "cuobjdump"
    script.write_text(
        f"#!{sys.executable}\nfor n in range(4500):\n    open(f'{{n}}.ptx', 'w').close()\n".replace(
            "{{n}}", "{n}"
        )
    )
    script.chmod(0o755)
    (tmp_path / "k.fatbin").write_bytes(FATBIN)
    assert "its PTX has more than 16 MiB" in check(tmp_path, "k.fatbin", TCLINT_CUOBJDUMP=str(script)).out


def test_a_container_on_disk_may_be_larger_than_its_ptx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "cuobjdump"
    script.write_text(f"#!{sys.executable}\nopen('k.ptx', 'w').write('// PTX')\n")
    script.chmod(0o755)
    monkeypatch.setenv("TCLINT_CUOBJDUMP", str(script))
    (tmp_path / "k.so").write_bytes(b"\x7fELF" + bytes(2**20))
    ((_, source),) = inputs([str(tmp_path / "k.so")], "<stdin>", limit=2**16)
    assert not isinstance(source, SourceError)


def test_what_is_not_regular_is_read_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.ptx")
    (tmp_path / "zero.ptx").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "k.ptx").write_text("// nothing")
    monkeypatch.setattr("tclint._read._MAX_FIFO_SECONDS", 0.2)

    def names(argument: str) -> list[str]:
        return [Path(name).name for name, _ in inputs([argument], "<stdin>", limit=2**20)]

    assert names(str(tmp_path)) == names(str(tmp_path / "*.ptx")) == ["k.ptx"]
    ((_, error),) = inputs([str(tmp_path / "pipe.ptx")], "<stdin>")
    assert "no process opened this FIFO" in str(error)


@pytest.mark.parametrize("kind", ["fifo", "endless", "deep"])
def test_hostile_metadata_beside_a_kernel_is_passed_over(tmp_path: Path, kind: str) -> None:
    beside = tmp_path / "k.json"
    if kind == "fifo":
        os.mkfifo(beside)
    elif kind == "endless":
        beside.symlink_to("/dev/zero")
    else:
        beside.write_text("[" * 100_000)
    assert part.origin(str(tmp_path / "k.ptx")) is None

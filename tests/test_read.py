"""Bounded reading: files without an end, FIFOs without a writer, and what an error says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tclint import _read
from tclint._read import read_file, size_words

needs_fifo = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such FIFOs")


def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 100)
    assert read_file(file, 100) == b"x" * 100
    with pytest.raises(OSError, match="more than 99 bytes"):
        read_file(file, 99)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
def test_an_endless_device_is_read_up_to_the_limit_and_only_if_permitted() -> None:
    with pytest.raises(OSError, match="more than 2 MiB"):
        read_file("/dev/zero", 2 * 2**20, special=True)
    with pytest.raises(OSError, match="not a regular file"):
        read_file("/dev/zero", 2 * 2**20)


@needs_fifo
def test_a_fifo_without_a_writer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_read, "_MAX_FIFO_SECONDS", 0.2)
    os.mkfifo(tmp_path / "f")
    began = time.monotonic()
    with pytest.raises(OSError, match="no process opened this FIFO"):
        read_file(tmp_path / "f", special=True)
    with pytest.raises(OSError, match="not a regular file"):
        read_file(tmp_path / "f")
    assert time.monotonic() - began < 5


@needs_fifo
def test_a_slow_writer_of_a_fifo_is_waited_for_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_read, "_MAX_FIFO_SECONDS", 0.2)
    fifo = tmp_path / "f"
    os.mkfifo(fifo)

    def write() -> None:
        with fifo.open("wb") as file:
            time.sleep(0.6)
            file.write(b"text" * 40_000)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_file(fifo, special=True) == b"text" * 40_000
    writer.join()
    assert "waiting for the process" in capsys.readouterr().err


@needs_fifo
def test_a_process_substitution_is_read(tmp_path: Path) -> None:
    script = "import sys; from tclint._read import read_file; print(read_file(sys.argv[1], special=True))"
    command = f"{sys.executable} -c '{script}' <(printf abc)"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "b'abc'\n", done.stderr


def test_sizes_are_in_the_largest_exact_unit() -> None:
    assert [size_words(n) for n in (7, 2048, 256 * 2**20, 3 * 2**30, 1500)] == [
        "7 bytes", "2 KiB", "256 MiB", "3 GiB", "1,500 bytes",
    ]  # fmt: skip

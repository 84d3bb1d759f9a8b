"""The folder of the cache: what is read was written, whatever else happens to the folder."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tclint.cache import store as module
from tclint.cache.hashing import digest, digest_bytes
from tclint.cache.store import Content, Lookups, Store, default_folder
from tests.tools.project import ROOT

KEY = digest("a key")
ENTRY_LIMIT = 256 * 2 * 4096
"""Two of the smallest entries in each folder."""


def path_of(store: Store, key: str) -> Path:
    return Path(store.folder, key[:2], key[2:])


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "new" / "cache"))


def test_entry_is_read_as_it_was_written(store: Store) -> None:
    assert store.get(KEY) is None
    assert store.put(KEY, b"first") == ""
    assert store.put(KEY, b"second") == ""
    assert store.get(KEY) == b"second"


def test_folder_is_for_its_user_and_is_tagged_as_a_cache(store: Store) -> None:
    store.put(KEY, b"x")
    assert (
        Path(store.folder, "CACHEDIR.TAG")
        .read_text()
        .startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )
    if os.name == "posix":
        assert Path(store.folder).stat().st_mode & 0o077 == 0


def test_entry_with_any_changed_byte_is_ignored(store: Store) -> None:
    store.put(KEY, b"content" * 20)
    path = path_of(store, KEY)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store.get(KEY) is None, at


def test_half_an_entry_is_ignored(store: Store) -> None:
    store.put(KEY, b"content" * 20)
    path = path_of(store, KEY)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert store.get(KEY) is None, size


def test_foreign_and_newer_entries_are_ignored_and_rewritten(store: Store) -> None:
    store.put(KEY, b"old")
    path = path_of(store, KEY)
    for other in (
        b"",
        b"SQLite format 3\0",
        path.read_bytes().replace(b"cache 1", b"cache 2"),
        os.urandom(500),
    ):
        path.write_bytes(other)
        assert store.get(KEY) is None
        assert store.put(KEY, b"new") == ""
        assert store.get(KEY) == b"new"


def test_entry_under_the_name_of_another_is_ignored(store: Store) -> None:
    other = KEY[:2] + "0" * (len(KEY) - 2)
    store.put(KEY, b"x")
    path_of(store, KEY).rename(path_of(store, other))
    assert store.get(other) is None


def test_entry_that_grows_beyond_all_bounds_is_ignored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_PLAIN", 2**16)
    packed = zlib.compress(bytes(2**20))
    store.put(KEY, b"x")
    path_of(store, KEY).write_bytes(module._HEAD + digest_bytes(KEY, packed) + packed)
    assert store.get(KEY) is None


def test_folder_in_the_place_of_an_entry_is_ignored(store: Store) -> None:
    path_of(store, KEY).mkdir(parents=True)
    assert store.get(KEY) is None
    assert store.put(KEY, b"x") != ""


def test_file_in_the_place_of_the_folder_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    store = Store(str(tmp_path / "file"))
    assert store.get(KEY) is None
    assert str(tmp_path / "file") in store.put(KEY, b"x")
    store.count(1, 1)
    assert (store.content(), store.lookups(), store.clear()) == (Content(0, 0), Lookups(0, 0), "")
    assert (tmp_path / "file").read_text() == "mine"


def test_name_that_no_file_can_have_is_a_reason() -> None:
    store = Store("/nul\0name")
    assert store.get(KEY) is None
    assert store.put(KEY, b"x") != ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device to write to")
def test_full_disk_is_a_reason_and_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(digest("earlier"), b"x")
    before = files(Path(store.folder))

    def full(path: str, mode: str) -> object:
        open(path, mode).close()
        return open("/dev/full", "wb")

    monkeypatch.setattr(module, "open", full, raising=False)
    assert os.strerror(errno.ENOSPC) in store.put(KEY, b"x")
    monkeypatch.undo()
    assert files(Path(store.folder)) == before
    assert store.get(KEY) is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
def test_entry_beyond_the_file_size_limit_of_the_process_leaves_nothing(store: Store) -> None:
    store.put(KEY, b"x")
    code = (
        "import os, resource, signal, sys\n"
        "from tclint.cache.store import Store\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "print(Store(sys.argv[1]).put(sys.argv[2], os.urandom(5000)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, store.folder, KEY],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert os.strerror(errno.EFBIG) in done.stdout
    assert store.get(KEY) == b"x"
    assert not [path for path in files(Path(store.folder)) if path.name.startswith(".")]


# ---------------------------------------------------------------- the limit


def keys(number: int) -> list[str]:
    """Keys whose entries are in one folder."""
    return ["aa" + digest(str(n))[2:] for n in range(number)]


def test_limit_holds_after_each_write(tmp_path: Path) -> None:
    store = Store(str(tmp_path), ENTRY_LIMIT)
    for n in range(2_000):
        assert store.put(digest(str(n)), b"x") == ""
    sizes = [len([*folder.iterdir()]) for folder in tmp_path.iterdir() if folder.is_dir()]
    assert max(sizes) == 2
    content = store.content()
    assert content.entries == sum(sizes)
    assert content.size <= ENTRY_LIMIT


def test_entry_that_was_not_used_for_longest_is_removed(tmp_path: Path) -> None:
    store = Store(str(tmp_path), ENTRY_LIMIT)
    first, second, third = keys(3)
    for age, key in ((300, first), (200, second)):
        store.put(key, b"x")
        at = path_of(store, key)
        os.utime(at, (at.stat().st_mtime - age,) * 2)
    assert store.get(first) == b"x"  # used now
    store.put(third, b"x")
    assert [store.get(key) for key in (first, second, third)] == [b"x", None, b"x"]


def test_entry_larger_than_its_folder_is_not_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path), ENTRY_LIMIT)
    assert "too many" in store.put(KEY, os.urandom(9000))
    assert store.get(KEY) is None


def test_file_of_a_writer_that_was_killed_is_removed_after_an_hour(tmp_path: Path) -> None:
    store = Store(str(tmp_path), ENTRY_LIMIT)
    old, new = (tmp_path / "aa" / f".{n}abcdef" for n in (1, 2))
    store.put(keys(1)[0], b"x")
    for path, age in ((old, 4_000), (new, 100)):
        path.write_bytes(b"half")
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    store.put(keys(2)[1], b"x")
    assert (old.exists(), new.exists()) == (False, True)


# ---------------------------------------------------------------- lookups, and clearing


def test_lookups_are_counted_over_processes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(KEY, b"x")
    monkeypatch.setattr(module, "_MAX_LOOKUPS", 100)
    for _ in range(50):
        store.count(2, 1)
    assert store.lookups() == Lookups(100, 50)
    assert Path(store.folder, "lookups").stat().st_size <= 100


def test_damaged_counts_are_ignored(store: Store) -> None:
    store.put(KEY, b"x")
    Path(store.folder, "lookups").write_bytes(b"1 2\n\xff\n7\n-1 2\n1 2 3\n%s 1\n3 4" % (b"9" * 400))
    assert store.lookups() == Lookups(4, 6)


def test_clear_removes_what_was_written_and_nothing_else(store: Store) -> None:
    for key in keys(3):
        store.put(key, b"x")
    store.count(1, 0)
    folder = Path(store.folder)
    mine = [folder / "notes.txt", folder / "aa" / "notes.txt", folder / "home" / "aa" / "bb"]
    for path in mine:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("mine")
    assert store.clear() == ""
    assert store.content() == Content(0, 0)
    assert set(files(folder)) == {*mine, folder / "CACHEDIR.TAG"}


def test_valid_entries_of_another_cache_are_added(store: Store, tmp_path: Path) -> None:
    other = Store(str(tmp_path / "other"))
    first, second, third = keys(3)
    for key in (first, second):
        other.put(key, key.encode())
    path_of(other, second).write_bytes(b"damaged")
    store.put(third, b"mine")
    assert store.add(other.folder) == (1, "")
    assert [store.get(key) for key in (first, second, third)] == [first.encode(), None, b"mine"]
    (tmp_path / "file").write_text("")
    added, problem = Store(str(tmp_path / "file")).add(other.folder)
    assert (added, "Not a directory" in problem) == (0, True)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_clear_follows_no_links(store: Store, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "abcd").write_text("mine")
    store.put(KEY, b"x")
    Path(store.folder, "ab").symlink_to(tmp_path / "other")
    assert store.clear() == ""
    assert (tmp_path / "other" / "abcd").read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege, and there are no FIFOs")
def test_a_hostile_folder_neither_blocks_nor_leads_out(store: Store, tmp_path: Path) -> None:
    store.put(KEY, b"x")
    path_of(store, KEY).unlink()
    os.mkfifo(path_of(store, KEY))
    os.mkfifo(Path(store.folder, "lookups"))
    assert store.get(KEY) is None
    store.count(1, 1)
    assert store.lookups() == (0, 0)
    os.unlink(Path(store.folder, "lookups"))
    (tmp_path / "victim").write_text("mine")
    Path(store.folder, "lookups").symlink_to(tmp_path / "victim")
    store.count(1, 1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "abcd").write_text("mine")
    Path(store.folder, "ab").symlink_to(other)
    assert store.put("ab" + KEY[2:], b"y").endswith("it is a link")
    assert ([path.name for path in other.iterdir()], (tmp_path / "victim").read_text()) == (["abcd"], "mine")


# ---------------------------------------------------------------- processes

_WRITER = """
import random, sys
from tclint.cache.store import Store
store, number, clears = Store(sys.argv[1], int(sys.argv[2])), int(sys.argv[3]), sys.argv[4] == "clears"
random.seed(number)
for round in range(400):
    key = "aa%038x" % random.randrange(8)
    found = store.get(key)
    assert found is None or found == key.encode() * 50, found
    problem = store.put(key, key.encode() * 50)
    assert not problem or clears, problem
    store.count(1, 1)
    if clears and round % 20 == 0:
        store.clear()
"""


@pytest.mark.parametrize("clears", [False, True], ids=["writing", "clearing"])
def test_processes_that_write_at_once_read_whole_entries(store: Store, clears: bool) -> None:
    arguments = [store.folder, str(ENTRY_LIMIT)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, *arguments, str(n), "clears" if clears and n == 0 else ""],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for n in range(4)
    ]  # fmt: skip
    for process in running:
        _, problem = process.communicate(timeout=120)
        assert process.returncode == 0, problem
    if not clears:
        assert store.lookups() == Lookups(1_600, 1_600)
    assert not [path for path in files(Path(store.folder)) if path.name.startswith(".")]


# ---------------------------------------------------------------- the default


@pytest.mark.skipif(sys.platform != "linux", reason="another platform")
def test_default_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == "/caches/tclint/results"
    for relative in ("", "caches"):  # the convention is to ignore a relative one
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert default_folder() == "/home/me/.cache/tclint/results"


def test_default_folder_is_below_that_of_platformdirs() -> None:
    platformdirs = pytest.importorskip("platformdirs")
    assert Path(platformdirs.user_cache_dir("tclint", False)) in Path(default_folder()).parents

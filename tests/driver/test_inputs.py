"""Where PTX is found: files, folders, patterns, compressed files and containers."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.ptxas import PtxasMissing, find
from tclint.driver import cuda_tools
from tclint.driver.inputs import inputs, origin, shard
from tclint.syntax.source import Source, SourceError

PTX = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry %s() { ret; }\n"
FATBIN = b"\x50\xed\x55\xba\x01\0"


def read(*paths: str | Path) -> list[tuple[str, str | None, str]]:
    """``(name, member, text or error)`` of everything that the paths stand for."""
    return [
        (name, None, f"error: {source}")
        if isinstance(source, SourceError)
        else (name, source.member, source.text)
        for name, source in inputs([str(path) for path in paths], "<stdin>")
    ]


def errors(*paths: str | Path) -> list[str]:
    return [text for _, _, text in read(*paths)]


@pytest.fixture
def cuobjdump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a cuobjdump that extracts the modules given, and else lists the cubins given."""

    def make(members: dict[str, bytes], listing: str = "", status: int = 0, said: str = "") -> None:
        script = tmp_path / "fake-cuobjdump"
        script.write_text(
            f"#!{sys.executable}\n"
            "import os, sys\n"
            "assert os.path.isabs(sys.argv[-1]) and os.path.isfile(sys.argv[-1])\n"
            f"members = {members!r}\n"
            "if '-xptx' in sys.argv:\n"
            "    [open(name, 'wb').write(data) for name, data in members.items()]\n"
            "else:\n"
            f"    print({listing!r})\n"
            f"print({said!r}, file=sys.stderr)\n"
            f"sys.exit({status})\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("TCLINT_CUOBJDUMP", str(script))

    return make


@pytest.fixture
def no_cuobjdump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_tools, "candidates", lambda name: iter(()))


def test_a_folder_gives_what_is_ptx_in_it_in_order(tmp_path: Path) -> None:
    for name in ("b.ptx", "sub/a.PTX", "sub/c.ptx.gz", ".git/d.ptx", "e.txt", "f.cubin"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        text = PTX % name[0].encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    found = read(tmp_path, tmp_path / "b.ptx")
    assert [os.path.relpath(name, tmp_path) for name, _, _ in found] == ["b.ptx", "sub/a.PTX", "sub/c.ptx.gz"]
    assert "entry s()" in found[2][2]  # unpacked; the first letter of its path is the name of its kernel


def test_a_folder_that_cannot_be_read_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "k.ptx").write_bytes(PTX % b"k")

    def guarded(function: Callable[[str], object]) -> Callable[[str], object]:
        def call(folder: str) -> object:
            if str(folder).endswith("closed"):  # permissions stop no test that root runs
                raise PermissionError(13, "Permission denied", str(folder))
            return function(folder)

        return call

    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    whole, closed = read(tmp_path)
    assert whole[0] == str(tmp_path / "k.ptx")
    assert closed == (str(tmp_path / "closed"), None, "error: cannot be read: Permission denied")
    assert errors(tmp_path / "closed") == [closed[2]]


def test_damaged_compressed_files_say_so(tmp_path: Path) -> None:
    whole = gzip.compress(PTX % b"k")
    (tmp_path / "short.ptx.gz").write_bytes(whole[:-12])
    (tmp_path / "flipped.ptx.gz").write_bytes(whole[:-5] + b"\xff" + whole[-4:])
    (tmp_path / "k.ptx.zst").write_bytes(b"\x28\xb5\x2f\xfd\0")
    flipped, zstd, short = errors(tmp_path)
    assert "damaged gzip" in flipped
    assert "damaged gzip" in short
    assert "zstd" in zstd


@pytest.mark.usefixtures("no_cuobjdump")
@pytest.mark.parametrize("magic", [b"\x7fELF\x02", FATBIN, b"!<arch>\n", b"MZ\x90"])
def test_a_container_without_cuobjdump_says_how_to_get_it(tmp_path: Path, magic: bytes) -> None:
    (tmp_path / "k").write_bytes(magic)
    (text,) = errors(tmp_path / "k")
    assert "cuobjdump" in text
    assert "TCLINT_CUOBJDUMP" in text


def test_the_modules_of_a_container_have_names(tmp_path: Path, cuobjdump: Callable[..., None]) -> None:
    cuobjdump({f"k.{n}.sm_90.ptx": PTX % b"k%d" % n for n in (10, 2, 1)})
    (tmp_path / "k.fatbin").write_bytes(FATBIN)
    found = read(tmp_path / "k.fatbin")
    assert [member for _, member, _ in found] == ["k.1.sm_90.ptx", "k.2.sm_90.ptx", "k.10.sm_90.ptx"]
    assert {name for name, _, _ in found} == {str(tmp_path / "k.fatbin")}
    assert "k10()" in found[2][2]


def test_a_compressed_container_is_unpacked_for_cuobjdump(
    tmp_path: Path, cuobjdump: Callable[..., None]
) -> None:
    cuobjdump({"x.ptx": PTX % b"k"})
    (tmp_path / "k.fatbin.gz").write_bytes(gzip.compress(FATBIN))
    assert [member for _, member, _ in read(tmp_path / "k.fatbin.gz")] == ["x.ptx"]


@pytest.mark.parametrize(
    ("listing", "words"),
    [
        ("ELF file 1: a.sm_90a.cubin\nELF file 2: a.sm_80.cubin", "only SASS for sm_80, sm_90a"),
        ("", "no device code"),
    ],
)
def test_a_container_without_ptx_is_an_error(
    tmp_path: Path, cuobjdump: Callable[..., None], listing: str, words: str
) -> None:
    cuobjdump({}, listing, status=255, said="cuobjdump info    : File 'k' does not contain device code")
    (tmp_path / "k").write_bytes(b"\x7fELF\x02")
    (text,) = errors(tmp_path / "k")
    assert "contains no PTX" in text
    assert words in text


def test_a_damaged_container_is_not_clean(tmp_path: Path, cuobjdump: Callable[..., None]) -> None:
    (tmp_path / "k").write_bytes(FATBIN)
    for members in ({}, {"a.ptx": PTX % b"k"}):
        cuobjdump(members, status=1, said="cuobjdump fatal   : Invalid fatbin header in 'k'")
        *modules, problem = read(tmp_path / "k")
        assert [member for _, member, _ in modules] == list(members)
        assert problem[2].endswith("cuobjdump failed: cuobjdump fatal : Invalid fatbin header in 'k'")
    cuobjdump({}, status=127)
    assert errors(tmp_path / "k")[0].endswith("cuobjdump failed: exit code 127")


def test_tile_ir_is_not_ptx(tmp_path: Path) -> None:
    (tmp_path / "k.tileir").write_bytes(b"\x7fTileIR\0\x0d\x03")
    assert errors(tmp_path / "k.tileir") == ["error: no PTX in it: it is Tile IR bytecode"]


def test_a_cuobjdump_that_cannot_be_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCLINT_CUOBJDUMP", str(tmp_path / "absent"))
    (tmp_path / "k.fatbin").write_bytes(FATBIN)
    (text,) = errors(tmp_path / "k.fatbin")
    assert f"{tmp_path / 'absent'} cannot be run" in text


def test_a_finding_names_container_and_member(
    tmp_path: Path,
    cuobjdump: Callable[..., None],
    run_tclint: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    cuobjdump(
        {"k.1.sm_90.ptx": b".version 8.0\n.target sm_90\n.entry k() { nonsense.u32; }\n", "k.2.ptx": b"\xff"}
    )
    (tmp_path / "k.so").write_bytes(b"\x7fELF\x02")
    done = run_tclint("check", "--output-format", "concise", "k.so")
    assert done.returncode == 2
    assert "k.so(k.1.sm_90.ptx):3" in done.stdout
    done = run_tclint("check", "--output-format", "json", "k.so")
    files = json.loads(done.stdout)["files"]
    assert [(file["path"], file["member"]) for file in files] == [("k.so", "k.1.sm_90.ptx"), ("k.so", None)]
    assert "k.2.ptx: is not UTF-8" in files[1]["problems"][0]["message"]
    done = run_tclint("dump", "ir", "k.so")
    assert done.returncode == 2


def test_standard_input_may_be_a_container(
    tmp_path: Path,
    cuobjdump: Callable[..., None],
    run_tclint: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    cuobjdump({"stdin.1.ptx": PTX % b"k"})
    (tmp_path / "k.fatbin").write_bytes(FATBIN)
    with (tmp_path / "k.fatbin").open("rb") as stream:
        done = run_tclint("check", "-", stdin=stream)
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file.\n")


METADATA = {"name": "matmul", "num_warps": 8, "num_ctas": 1, "num_stages": 3, "triton_version": "3.9.0"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(METADATA), "matmul, Triton 3.9.0, 8 warps, 3 stages"),
        (
            json.dumps(METADATA | {"num_ctas": 2, "num_stages": 1}),
            "matmul, Triton 3.9.0, 8 warps, 2 CTAs, 1 stage",
        ),
        (json.dumps({"name": "matmul", "num_warps": 1}), "matmul, Triton, 1 warp"),
        (json.dumps({"name": "other"}), None),
        ("[1]", None),
        ("{", None),
        (None, None),
    ],
)
def test_the_metadata_beside_a_kernel_names_it(
    tmp_path: Path, text: str | None, expected: str | None
) -> None:
    if text is not None:
        (tmp_path / "k.json").write_text(text)
    assert origin(str(tmp_path / "k.ptx")) == expected


# ---------------------------------------------------------------- the real tool


@pytest.mark.skipif(
    next(cuda_tools.candidates("cuobjdump"), None) is None,
    reason="no cuobjdump: pip install nvidia-cuda-cuobjdump",
)
def test_real_containers(tmp_path: Path) -> None:
    try:
        ptxas = find().path
    except PtxasMissing as reason:
        pytest.skip(str(reason))
    fatbinary = ptxas.parent / "fatbinary"
    if not fatbinary.exists():
        pytest.skip("no fatbinary beside ptxas")

    def run(*command: object) -> None:
        subprocess.run([str(part) for part in command], cwd=tmp_path, check=True, capture_output=True)

    for name, target in ((b"one", "sm_90"), (b"two", "sm_80")):
        (tmp_path / f"{name.decode()}.ptx").write_bytes((PTX % name).replace(b"sm_90", target.encode()))
        run(ptxas, "-arch", target, f"{name.decode()}.ptx", "-o", f"{name.decode()}.cubin")
    cubin = "--image3=kind=elf,sm=90,file=one.cubin"
    run(fatbinary, "-64", "--create=both.fatbin", cubin, *(
        f"--image3=kind=ptx,sm={sm},file={name}.ptx" for sm, name in ((90, "one"), (80, "two"))
    ))  # fmt: skip
    run(fatbinary, "-64", "--create=sass.fatbin", cubin)
    found = read(tmp_path / "both.fatbin")
    assert [member for _, member, _ in found] == ["both.1.sm_90.ptx", "both.2.sm_80.ptx"]
    assert "entry one()" in found[0][2]
    assert "entry two()" in found[1][2]
    for name in ("sass.fatbin", "one.cubin"):
        (text,) = errors(tmp_path / name)
        assert "contains no PTX" in text
        assert "only SASS for sm_90" in text
    (text,) = errors(sys.executable)
    assert "no device code" in text


def test_every_source_knows_its_container(tmp_path: Path, cuobjdump: Callable[..., None]) -> None:
    cuobjdump({"x.ptx": PTX % b"k"})
    (tmp_path / "k.fatbin").write_bytes(FATBIN)
    ((_, source),) = inputs([str(tmp_path / "k.fatbin")], "<stdin>")
    assert isinstance(source, Source)
    assert (source.path, source.container, source.member) == (str(tmp_path / "k.fatbin"),) * 2 + ("x.ptx",)


def test_every_file_is_in_one_shard_and_shards_have_about_equal_sizes(tmp_path: Path) -> None:
    chosen = []
    for n in range(23):
        path = tmp_path / f"{n:02}.ptx"
        path.write_bytes(b" " * (n * n % 17) * 100)
        chosen.append((str(path), path.name))
    chosen.append(("-", "<stdin>"))
    for shards in (1, 2, 5, 40):
        parts = [shard(chosen, number + 1, shards) for number in range(shards)]
        assert sorted(file for part in parts for file in part) == sorted(chosen)
        assert all(part == sorted(part, key=chosen.index) for part in parts)
    sizes = [
        sum(Path(path).stat().st_size for path, _ in part if path != "-")
        for part in (shard(chosen, 1, 2), shard(chosen, 2, 2))
    ]
    assert abs(sizes[0] - sizes[1]) <= 1_600

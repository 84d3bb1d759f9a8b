"""Kernels that no rule has seen: how they are found, which are drawn, and what is recorded of them."""

from __future__ import annotations

import importlib
import subprocess
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import findings
from benchmarks.corpus.producers import PRODUCERS
from benchmarks.corpus.producers import strangers as producer
from benchmarks.faults import OPERATORS
from benchmarks.strangers import __main__ as command
from benchmarks.strangers import compile as compiler
from benchmarks.strangers import containers, draw, families, kernels, ledger, measure, pool, score, sources
from benchmarks.strangers.pool import Candidate
from benchmarks.strangers.table import table
from tests.tools.project import ROOT

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
MODULE = (
    HEAD
    + """
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.extern .shared .align 16 .b8 smem[];
.func (.param .b32 out) twice(.param .b32 in)
{
    ret;
}
.func unused()
{
    ret;
}
.visible .entry first()
{
    .reg .b32 %r<4>;
    mov.u32 %r1, table;
    { // a block
    add.s32 %r2, %r1, 5;
    }
    ret;
}
.visible .entry second()
{
    .reg .b32 %r<4>;
    call.uni (%r1), twice, (%r2);
    ret;
}
"""
)


def candidate(source: str, number: int, asynchronous: bool = False, name: str = "k") -> Candidate:
    return Candidate(source, "lib.so", name, "sm_90", f"{source} {number}", f"{source}{number}", asynchronous)


# ---------------------------------------------------------------- kernels


def test_a_module_is_split_into_its_kernels_with_what_they_refer_to() -> None:
    first, second = kernels.kernels(MODULE)
    assert (first.name, second.name) == ("first", "second")
    assert first.target == "sm_90a"
    assert "table[8]" in first.text
    assert "twice" not in first.text
    assert "twice(.param" in second.text
    assert "table" not in second.text
    assert all("unused" not in kernel.text for kernel in (first, second))


def test_a_module_with_one_kernel_is_not_changed() -> None:
    text = HEAD + ".func unused()\n{\n ret;\n}\n.entry only()\n{\n ret;\n}\n"
    assert [kernel.text for kernel in kernels.kernels(text)] == [text]


def test_a_kernel_keeps_the_debug_section_that_it_uses() -> None:
    text = MODULE.replace("mov.u32", ".loc 1 2 3, function_name $L__info_string0\n    mov.u32")
    text += (
        ".section .debug_str {\n$L__info_string0:\n.b8 65\n}\n.section .debug_info {\n.b32 .debug_str\n}\n"
    )
    first, second = kernels.kernels(text)
    assert ".b8 65" in first.text
    assert ".debug_str" not in second.text
    assert ".debug_info" not in first.text


def test_a_module_without_a_kernel_gives_none() -> None:
    assert list(kernels.kernels(HEAD + ".func f()\n{\n ret; // .entry no()\n}\n")) == []


def test_a_skeleton_depends_on_opcodes_only() -> None:
    first = "@%p1 add.s32 %r1, %r2, 5; // note\nL1: bra L1;"
    assert kernels.skeleton(first) == kernels.skeleton("@!%q add.s32 %a, %b, 77;\n\n$M: bra $M;")
    assert kernels.skeleton(first) != kernels.skeleton("@%p1 add.u32 %r1, %r2, 5;\nL1: bra L1;")
    assert kernels.skeleton(first) != kernels.skeleton("bra L1; add.s32 %r1, %r2, 5;")


def test_a_comment_makes_no_kernel_asynchronous() -> None:
    assert kernels.asynchronous("mbarrier.init.shared.b64 [%r1], 1;")
    assert not kernels.asynchronous("// mbarrier.init.shared.b64 [%r1], 1;\ncp.async.wait_all;")


def test_instances_of_a_template_are_of_one_family() -> None:
    assert (
        kernels.family("_ZN3lib4gemmILi64EEvPf") == kernels.family("_ZN3lib4gemmILi128EEvPf") == "lib::gemm"
    )
    assert kernels.family("_ZN3lib4copyILi64EEvPf") != kernels.family("_ZN3lib4gemmILi64EEvPf")
    assert kernels.family("gemm_64x32") == kernels.family("gemm_128x8")


# ---------------------------------------------------------------- files


def test_ptx_in_the_strings_of_a_library_is_found(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"\x7fELF" + bytes(300) + MODULE.encode() + b"\0name\0.version 8.0 of the library\0")
    ((name, text),) = containers.modules(library, tmp_path / "absent")
    assert name == "lib.so.string0"
    assert text.startswith(".version 8.0\n.target sm_90a")
    assert text.endswith("ret;\n}\n")


def test_strings_in_a_row_are_modules_without_what_follows_them(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(
        b"\x7fELF" + bytes(300) + (MODULE + "// next\n" + MODULE + "index out of range").encode() + b"\0"
    )
    assert [text for _, text in containers.modules(library, tmp_path)] == [MODULE.lstrip(), MODULE.lstrip()]


@pytest.mark.parametrize("end", ["", "\n}\n"])
def test_the_beginning_of_a_compressed_module_is_not_a_string(tmp_path: Path, end: str) -> None:
    library = tmp_path / "lib.so"
    begin = MODULE[: MODULE.index("add.s32")] + end
    library.write_bytes(b"\x7fELF" + bytes(300) + begin.encode() + b"\0")
    assert not list(containers.modules(library, tmp_path))


def test_a_file_of_another_kind_has_no_modules(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text(MODULE)
    (tmp_path / "lib.so").write_bytes(MODULE.encode())
    assert not list(containers.modules(tmp_path / "note.txt", tmp_path))
    assert not list(containers.modules(tmp_path / "lib.so", tmp_path))


def test_cuobjdump_that_fails_is_reported(tmp_path: Path) -> None:
    tool = tmp_path / "cuobjdump"
    tool.write_text("#!/bin/sh\necho damaged >&2\nexit 1\n")
    tool.chmod(0o755)
    (tmp_path / "lib.so").write_bytes(b"\x7fELF" + bytes(300) + containers.FATBIN)
    with pytest.raises(containers.CannotRead, match="damaged"):
        list(containers.modules(tmp_path / "lib.so", tool))


# ---------------------------------------------------------------- sources


def test_the_list_has_enough_sources_and_none_of_a_corpus() -> None:
    listed = sources.listed()
    assert len(listed) >= 40
    assert all(source.gives for source in listed)
    modules = (importlib.import_module(f"benchmarks.corpus.producers.{name}") for name in PRODUCERS)
    packages = {package.partition("==")[0] for module in modules for package in module.PACKAGES}
    assert not packages & {source.package.partition("==")[0] for source in listed}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[source]]\nname = "a"\ngives = "x"\npackage = "p==1"\n' * 2, "listed twice"),
        ('[[source]]\nname = "a"\ngives = "x"\n', "give a package"),
        ('[[source]]\nname = "a"\ngives = "x"\nrepository = "r"\n', "with a commit"),
        ('[[source]]\nname = "a"\ngives = "x"\npackage = "p==1"\ncolour = "red"\n', "colour"),
        (
            '[[source]]\nname = "a"\ngives = "x"\npackage = "p==1"\n[[source.compile]]\nfiles = ["a.cu"]\n',
            "targets",
        ),
        (
            '[[source]]\nname = "a"\ngives = "x"\npackage = "p==1"\n[[source.compile]]\ntargets = ["sm_90a"]\n',
            "give files or instances",
        ),
        (
            '[[source]]\nname = "a"\ngives = "x"\npackage = "p==1"\nmade = "m"\n[[source.compile]]\ntargets = []\n',
            "give compile jobs, or the compiler that made the PTX",
        ),
        (
            '[[source]]\nname = "a"\ngives = "x"\nrepository = "r"\ncommit = "c"\nprograms = 2\n',
            "give compile jobs for the programs",
        ),
    ],
)
def test_a_wrong_entry_of_the_list_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "list.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        sources.listed(tmp_path / "list.toml")


def test_a_source_is_gathered_again_when_what_is_compiled_of_it_changes() -> None:
    jobs = [(sources.Compile(targets=(target,), instances=("copy<4>",)),) for target in ("sm_90a", "sm_100a")]
    first, second = (sources.Source("p", "x", package="p==1", compile=job) for job in jobs)
    assert first.version != second.version
    assert first.version == replace(first, gives="y").version
    assert sources.Source("p", "x", package="p==1").version == "p==1"
    others = [replace(first, headers=(package,)) for package in ("q==1", "q==2")]
    others += [replace(first, programs=parts) for parts in (1, 2)]
    assert len({source.version for source in (first, *others)}) == 5


def test_a_repository_is_checked_out_at_its_commit(tmp_path: Path) -> None:
    origin, folder = tmp_path / "origin", tmp_path / "here"
    origin.mkdir()
    folder.mkdir()
    git = ["git", "-C", str(origin), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    (origin / "k.ptx").write_text(MODULE)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "k"], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (origin / "k.ptx").write_text("changed")
    sources.fetch(sources.Source("own", "x", repository=str(origin), commit=head), folder)
    assert (folder / "k.ptx").read_text() == MODULE


def test_a_repository_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    source = sources.Source("none", "x", repository=str(tmp_path / "none"), commit="0" * 40)
    with pytest.raises(sources.Unreachable, match="none"):
        sources.fetch(source, tmp_path)


def test_a_wheel_is_unpacked_and_a_source_distribution_is_never_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pip(arguments: list[str]) -> None:
        assert "--only-binary=:all:" in arguments
        assert arguments[-1] == "p==1"
        into = Path(arguments[arguments.index("--dest") + 1])
        into.mkdir()
        with zipfile.ZipFile(into / "p-1-py3-none-any.whl", "w") as archive:
            archive.writestr("p/k.ptx", MODULE)

    monkeypatch.setattr(sources, "_run", pip)
    sources.fetch(sources.Source("p", "x", package="p==1"), tmp_path)
    assert (tmp_path / "p" / "k.ptx").read_text() == MODULE


def test_wheels_of_headers_are_unpacked_beside_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pip(arguments: list[str]) -> None:
        name = arguments[-1].partition("==")[0]
        into = Path(arguments[arguments.index("--dest") + 1])
        into.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(into / f"{name}-1-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}/{name}.h", name)

    monkeypatch.setattr(sources, "_run", pip)
    (tmp_path / "list.toml").write_text(
        '[[source]]\nname = "p"\ngives = "x"\npackage = "p==1"\nheaders = ["q==1", "r==2"]\n'
    )
    (source,) = sources.listed(tmp_path / "list.toml")
    sources.fetch(source, tmp_path)
    assert (tmp_path / "p" / "p.h").is_file()
    assert [(tmp_path / sources.HEADERS / name / f"{name}.h").is_file() for name in "qr"] == [True, True]


# ---------------------------------------------------------------- the compiler


def test_instances_of_templates_are_compiled_one_by_one_after_their_prelude(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: Any) -> Any:
        unit = Path(command[-3]).read_text()
        assert unit.startswith("#include <copy.cuh>\n")
        if "copy<3>" in unit:
            return SimpleNamespace(
                returncode=1, stderr="x.cu(2): error: 3 is not a power of two\n", stdout=""
            )
        Path(command[-1]).write_text(unit + " ".join(command))
        return SimpleNamespace(returncode=0, stderr="", stdout="")

    monkeypatch.setattr(subprocess, "run", run)
    toolkit = object.__new__(compiler.Toolkit)
    toolkit.folder = tmp_path
    (tmp_path / "job").mkdir()
    job = sources.Compile(
        targets=("sm_90a", "sm_100a"),
        instances=("copy<4, float>", "copy<3>"),
        prelude="#include <copy.cuh>\n",
        options=("-I{source}/include",),
    )
    made = dict(toolkit.modules(tmp_path / "job", job))
    assert list(made) == [f"{name}.{target}" for name in job.instances for target in job.targets]
    good, bad = made["copy<4, float>.sm_100a"], made["copy<3>.sm_90a"]
    assert "(void*)&copy<4, float>;" in str(good)
    assert "-arch=sm_100a" in str(good)
    assert f"-I{tmp_path}/job/include" in str(good)
    assert isinstance(bad, containers.CannotRead)
    assert "power of two" in str(bad)


# ---------------------------------------------------------------- pool


class Toolkit:
    """Compiles one file, refuses the other."""

    cuobjdump = Path("absent")

    def modules(self, folder: Path, job: sources.Compile) -> Any:
        yield "good.cu.sm_90a", HEAD + ".entry compiled()\n{\n mbarrier.init.shared.b64 [0], 1;\n ret;\n}\n"
        yield "bad.cu.sm_90a", containers.CannotRead("no such header")


def test_the_pool_keeps_one_kernel_of_each_skeleton_and_names_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(source: sources.Source, folder: Path) -> None:
        (folder / "k.ptx").write_text(MODULE)
        (folder / "same.ptx").write_text(MODULE.replace(" 5;", " 6;"))
        (folder / sources.HEADERS).mkdir()
        (folder / sources.HEADERS / "other.ptx").write_text(
            HEAD + ".entry of_another_project()\n{\n ret;\n}\n"
        )

    monkeypatch.setattr(pool, "fetch", fetch)
    source = sources.Source(
        "p", "x", package="p==1", compile=(sources.Compile(files=("*.cu",), targets=("sm_90a",)),)
    )
    about = pool.gather(source, tmp_path, Toolkit())  # type: ignore[arg-type]
    assert about["failures"] == ["bad.cu.sm_90a: no such header"]
    assert (about["modules"], about["kernels"], about["skeletons"], about["asynchronous"]) == (3, 5, 4, 1)
    assert about["files"] == 2
    held = list(pool.held(tmp_path, [source], "kernel"))
    assert [c.name for c in held] == ["first", "second", "compiled"]
    assert [c.asynchronous for c in held] == [False, False, True]
    files = list(pool.held(tmp_path, [source], "file"))
    assert [(c.name, c.kernels) for c in files] == [("first", 2), ("compiled", 1)]
    assert files[0].text == MODULE
    monkeypatch.setattr(pool, "fetch", None)
    assert pool.gather(source, tmp_path, Toolkit()) == about  # type: ignore[arg-type]


def test_each_program_of_a_collection_counts_as_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Programs(Toolkit):
        def modules(self, folder: Path, job: sources.Compile) -> Any:
            for path in ("src/sort/main.cu", "src/sort/kernels/merge.cu", "src/reduce/main.cu"):
                body = "add.s32 %r1, %r1, 1; " * len(path)
                yield f"{path}.sm_80", HEAD + f".entry k()\n{{\n {body} ret;\n}}\n"

    monkeypatch.setattr(pool, "fetch", lambda source, folder: None)
    job = sources.Compile(files=("src/**/*.cu",), targets=("sm_80",))
    source = sources.Source("many", "x", repository="r", commit="c", compile=(job,), programs=2)
    pool.gather(source, tmp_path, Programs())  # type: ignore[arg-type]
    held = {c.origin: c.source for c in pool.held(tmp_path, [source], "program")}
    assert held == {
        "src/sort/main.cu.sm_80": "many/src/sort",
        "src/sort/kernels/merge.cu.sm_80": "many/src/sort",
        "src/reduce/main.cu.sm_80": "many/src/reduce",
    }


def test_a_source_that_is_unreachable_gives_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(source: sources.Source, folder: Path) -> None:
        raise sources.Unreachable("no network")

    monkeypatch.setattr(pool, "fetch", fetch)
    source = sources.Source("p", "x", package="p==1")
    assert pool.gather(source, tmp_path, Toolkit())["unreachable"] == "no network"  # type: ignore[arg-type]
    monkeypatch.setattr(pool, "fetch", lambda source, folder: (folder / "k.ptx").write_text(MODULE))
    assert pool.gather(source, tmp_path, Toolkit())["skeletons"] == 3  # type: ignore[arg-type]


def test_ptx_of_a_compiler_that_is_not_run_here_is_taken_from_the_cache(tmp_path: Path) -> None:
    source = sources.Source("p", "x", package="p==1", made="Triton 3.9.0")
    about = pool.gather(source, tmp_path, Toolkit())  # type: ignore[arg-type]
    assert about["unreachable"].startswith("Triton 3.9.0 has left no PTX in")
    (tmp_path / "made" / "p").mkdir(parents=True)
    (tmp_path / "made" / "p" / "k.ptx").write_text(MODULE)
    assert pool.gather(source, tmp_path, Toolkit())["files"] == 1  # type: ignore[arg-type]
    assert (tmp_path / "made" / "p" / "k.ptx").is_file()


def test_kernels_of_a_corpus_are_known_by_their_skeleton(tmp_path: Path) -> None:
    (tmp_path / "nvcc").mkdir()
    (tmp_path / "nvcc" / "k.ptx").write_text(MODULE)
    texts = [MODULE, *(kernel.text for kernel in kernels.kernels(MODULE))]
    assert pool.known([tmp_path]) == set(map(kernels.skeleton, texts))


def test_a_kernel_that_is_too_large_alone_is_drawn_as_a_file() -> None:
    large = replace(candidate("a", 1), text="x" * (pool.LARGEST + 1), kernels=1)
    assert large.is_a("file")
    assert not large.is_a("kernel")
    assert not large.is_a("program")


# ---------------------------------------------------------------- the draw

POOL = [
    candidate(f"s{s}", n, asynchronous=s < 10, name=f"k{'abc'[n % 3]}") for s in range(40) for n in range(60)
]


KERNELS, FILES = draw.RULES["kernel"], draw.RULES["file"]


@pytest.mark.parametrize(("rules", "hard"), [(KERNELS, 125), (FILES, 150)])
def test_a_set_keeps_its_rules_and_follows_from_the_seed(rules: draw.Rules, hard: int) -> None:
    members = [candidate(f"s{s}", n, s < 15, f"k{'abc'[n % 3]}") for s in range(40) for n in range(60)]
    drawn = draw.draw(members, 1, (), rules)
    assert not draw.breaches(drawn, rules)
    assert drawn == draw.draw(reversed(members), 1, (), rules)
    assert drawn != draw.draw(members, 2, (), rules)
    assert len(drawn) == rules.size
    assert sum(c.asynchronous for c in drawn) == hard


def test_a_set_of_programs_needs_no_hard_ones() -> None:
    members = [candidate(f"s{s}", n) for s in range(120) for n in range(10)]
    rules = draw.RULES["program"]
    assert not draw.breaches(draw.draw(members, 1, (), rules), rules)


def test_hard_files_take_the_place_of_others_that_are_missing() -> None:
    others = [c for c in POOL if not c.asynchronous][:40]
    drawn = draw.draw([c for c in POOL if c.asynchronous] + others, 1, (), FILES)
    assert len(drawn) == FILES.size
    assert sum(not c.asynchronous for c in drawn) == len(others)
    assert len({c.skeleton for c in drawn}) == len(drawn)


def test_what_was_seen_is_not_drawn_again() -> None:
    first = {c.skeleton for c in draw.draw(POOL, 1, (), KERNELS)}
    assert not first & {c.skeleton for c in draw.draw(POOL, 1, first, KERNELS)}


def test_of_two_kernels_with_one_skeleton_one_is_drawn() -> None:
    twins = [candidate("a", 1), replace(candidate("b", 2), skeleton="a1")]
    assert len(draw.draw(twins, 1, (), KERNELS)) == 1


def test_instances_of_one_template_do_not_fill_the_share_of_a_source() -> None:
    library = [candidate("a", n, name="_Z4gemmILi1EEv") for n in range(500)]
    library += [candidate("a", 1000 + n, name=f"_Z4cop{c}v") for n, c in enumerate("abcdefghij")]
    drawn = draw.draw(library, 1, (), KERNELS)
    assert Counter(kernels.family(c.name) for c in drawn)["gemm"] == KERNELS.size * KERNELS.share - 10


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        (POOL[:100], "it has 100 members, not 250"),
        ([c for c in POOL if c.source < "s2"], "sources, not 25"),
        (POOL[:60] + POOL[-240:], "s0 is 60 of 300 members"),
        ([c for c in POOL if not c.asynchronous], "use asynchronous operations"),
        (POOL + POOL, "have the skeleton of another one"),
    ],
)
def test_a_set_that_breaks_a_rule_is_refused(drawn: list[Candidate], said: str) -> None:
    assert any(said in breach for breach in draw.breaches(drawn, KERNELS))


def test_files_come_from_sources_that_no_set_had() -> None:
    drawn = draw.draw(POOL, 1, (), FILES)
    assert draw.breaches(drawn, FILES, ["s3", "t"]) == [
        "10 sources with asynchronous operations, not 12",
        "an earlier set has members of s3",
    ]
    assert draw.breaches(drawn, KERNELS, ["s3"]) == []


# ---------------------------------------------------------------- the run


def fixture(name: str) -> Candidate:
    text = (ROOT / "fixtures" / f"{name}.ptx").read_text(encoding="utf-8")
    return Candidate("own", f"{name}.ptx", name, "sm_90a", text, kernels.skeleton(text), True)


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ledger.Ledger:
    (tmp_path / "sets.toml").write_text('[[set]]\nname = "one"\nseed = 1\n')
    book = ledger.Ledger(tmp_path)
    monkeypatch.setattr(ledger, "Ledger", lambda: book)
    monkeypatch.setattr(command.pool, "known", lambda folders: frozenset())
    monkeypatch.setattr(
        command.pool,
        "held",
        lambda cache, listed, unit: iter(map(fixture, ("wgmma_unwaited", "wgmma_waited"))),
    )
    monkeypatch.setattr(command.draw, "breaches", lambda *arguments: [])
    monkeypatch.setattr(measure, "FAULTS", 10)
    monkeypatch.setattr(command.ledger, "uncommitted", lambda paths: [])
    return book


def test_a_set_is_linted_once_and_recorded(
    book: ledger.Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "one", "--cache", str(tmp_path / "cache")]
    assert command.main(arguments) == 0
    rows = {row["origin"]: row for row in book.rows("kernels")}
    assert rows["wgmma_unwaited.ptx"]["status"] == "1"
    assert rows["wgmma_waited.ptx"]["status"] == "0"
    (finding,) = book.rows("findings")
    assert (finding["rule"], finding["digest"]) == ("WG001", rows["wgmma_unwaited.ptx"]["digest"])
    planted = book.rows("planted")
    assert {row["digest"] for row in planted} <= {row["digest"] for row in rows.values()}
    assert planted
    assert "1 of 1 not judged" in capsys.readouterr().out
    assert command.main(arguments) == 2
    assert "does not count again" in capsys.readouterr().err


def test_a_draw_shows_the_composition_and_lints_nothing(
    book: ledger.Ledger,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "lint", None)
    arguments = ["draw", "one", "--cache", str(tmp_path / "cache")]
    assert command.main(arguments) == 0
    assert capsys.readouterr().out.startswith("own: 2 members, 2 hard, ")
    assert not book.rows("kernels")
    monkeypatch.setattr(command.draw, "breaches", lambda *arguments: ["too small"])
    assert command.main(arguments) == 1
    assert capsys.readouterr().out.endswith("broken: too small\n")


def test_a_set_is_drawn_from_the_sources_that_it_names(
    book: ledger.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [source.name for source in sources.listed()][:2]
    (tmp_path / "sets.toml").write_text(f'[[set]]\nname = "one"\nseed = 1\nsources = ["{names[1]}"]\n')
    offered: list[str] = []
    monkeypatch.setattr(
        command.pool, "held", lambda cache, listed, unit: offered.extend(s.name for s in listed) or iter(())
    )
    command.main(["draw", "one", "--cache", str(tmp_path / "cache")])
    assert offered == [names[1]]


def test_programs_are_drawn_for_sets_of_programs_only_and_once(
    book: ledger.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    collections = {source.name for source in sources.listed() if source.programs}
    units = {"one": "kernel", "two": "program"}
    (tmp_path / "sets.toml").write_text(
        "".join(f'[[set]]\nname = "{name}"\nunit = "{unit}"\nseed = 1\n' for name, unit in units.items())
    )
    offered: dict[str, set[str]] = {}

    def held(cache: Path, listed: list[sources.Source], unit: str) -> Any:
        offered[unit] = {source.name for source in listed}
        return iter((candidate("hecbench/src/sort", 1), candidate("hecbench/src/scan", 2)))

    monkeypatch.setattr(command.pool, "held", held)
    monkeypatch.setattr(type(book), "sources", lambda self: frozenset(("hecbench/src/sort",)))
    for name in units:
        command.main(["draw", name, "--cache", str(tmp_path / "cache")])
    assert offered["program"] == collections
    assert not offered["kernel"] & collections
    assert capsys.readouterr().out.splitlines() == [
        "hecbench/src/scan: 1 members, 0 hard, 0 lines",
        "hecbench/src/sort: 1 members, 0 hard, 0 lines",
        "2 sources: 2 members, 0 hard, 0 lines",
        "hecbench/src/scan: 1 members, 0 hard, 0 lines",
        "1 sources: 1 members, 0 hard, 0 lines",
    ]


def test_the_sources_that_sets_name_are_listed_and_in_one_set_only() -> None:
    named = [name for entry in ledger.Ledger().sets() for name in entry.get("sources", ())]
    assert len(named) == len(set(named))
    assert set(named) <= {source.name for source in sources.listed()}


def test_the_table_shows_the_instruction_of_each_finding(book: ledger.Ledger, tmp_path: Path) -> None:
    command.main(["run", "one", "--cache", str(tmp_path / "cache")])
    (finding,) = book.rows("findings")
    shown = table(book, "one", tmp_path / "cache" / "sets" / "one")
    line = fixture("wgmma_unwaited").text.split("\n")[int(finding["line"]) - 1]
    assert f"{int(finding['line']):6} {line}" in shown
    assert "Verdict: ?." in shown


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_set_without_a_committed_seed_is_not_run(
    book: ledger.Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(command.ledger, "uncommitted", lambda paths: ["sets.toml"])
    assert command.main(["run", name, "--cache", str(tmp_path)]) == 2
    assert not book.rows("kernels")


def test_the_sets_in_the_ledger_share_no_kernel_and_keep_the_rules() -> None:
    book = ledger.Ledger()
    rows = book.rows("kernels")
    assert len(book.seen()) == len(rows)
    before: set[str] = set()
    for entry in book.sets():
        own = [row for row in rows if row["set"] == entry["name"]]
        if own:
            drawn = [
                Candidate(
                    row["source"],
                    row["origin"],
                    row["name"],
                    row["target"],
                    "",
                    row["skeleton"],
                    row["asynchronous"] == "yes",
                )
                for row in own
            ]
            assert draw.breaches(drawn, draw.RULES[ledger.unit(entry)], before) == []
            before |= {row["source"] for row in own}
    digests = {row["digest"] for row in rows}
    others = [*book.rows("findings"), *book.rows("planted")]
    assert {row["digest"] for row in others} <= digests
    assert {row["verdict"] for row in book.rows("findings")} <= {"", "true", "false", "undecidable"}


def test_a_file_that_is_not_in_the_last_commit_is_uncommitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    here = project / "strangers"
    here.mkdir(parents=True)
    committed, changed, new = (here / f"{name}.toml" for name in ("committed", "changed", "new"))
    for path in (committed, changed):
        path.write_text("seed = 1\n")
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "seeds"]):
        subprocess.run([*git, *arguments], check=True)
    changed.write_text("seed = 2\n")
    new.write_text("seed = 3\n")
    monkeypatch.setattr(ledger, "HERE", here)
    assert ledger.uncommitted([committed]) == []
    assert ledger.uncommitted([committed, changed, new]) == ["strangers/changed.toml", "strangers/new.toml"]
    assert ledger.uncommitted([tmp_path / "outside.toml"]) == ["outside.toml"]


def test_a_crash_is_a_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def crash(source: Any) -> Any:
        raise RuntimeError("no such block")

    monkeypatch.setattr(measure, "check_source", crash)
    about, (found,) = measure.lint("one", fixture("wgmma_waited"), tmp_path / "k.ptx")
    assert about["status"] == "3"
    assert found["message"] == "RuntimeError: no such block"


def test_kernels_of_a_set_are_in_the_corpus_with_their_verdicts(
    book: ledger.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command.main(["run", "one", "--cache", str(tmp_path / "tclint" / "strangers")])
    monkeypatch.setattr(producer, "Ledger", lambda: book)
    monkeypatch.setattr(findings, "Ledger", lambda: book)
    jobs = {job.name: job for job in producer.jobs()}
    (finding,) = book.rows("findings")
    name = f"one-{finding['digest']}"
    assert len(jobs) == 2
    assert jobs[name].make() == fixture("wgmma_unwaited").text
    key = ("WG001", f"strangers/{name}.ptx", finding["line"])
    assert key not in findings.verdicts()
    path = tmp_path / "findings.tsv"
    path.write_text(path.read_text().replace("\t\t\n", "\tfalse\tno use\n"))
    assert findings.verdicts()[key] == "false"


def test_a_crash_while_planting_costs_one_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good, bad = fixture("wgmma_waited"), fixture("wgmma_unwaited")
    for kernel in (good, bad):
        (tmp_path / f"{kernel.digest}.ptx").write_text(kernel.text)
    kernels_of = measure.mutation.kernels

    def crash(path: Path) -> Any:
        if path.name.startswith(bad.digest):
            raise RuntimeError("no such block")
        return kernels_of(path)

    monkeypatch.setattr(measure.mutation, "kernels", crash)
    monkeypatch.setattr(measure, "FAULTS", 10)
    rows = {row["digest"]: row for row in measure.plant("one", [good, bad], 1, tmp_path)}
    assert rows[bad.digest]["result"] == "crash"
    assert rows[good.digest]["result"] != "crash"


def test_each_copy_of_a_kernel_has_a_fault_of_another_operator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = fixture("wgmma_waited")
    (tmp_path / f"{kernel.digest}.ptx").write_text(kernel.text)
    rows = list(measure.plant("one", [kernel], 1, tmp_path))
    assert len(rows) == measure.PER_KERNEL == len({row["operator"] for row in rows})
    for row in rows:
        copy = measure.mutant(tmp_path, row["digest"], row["operator"], row["line"]).read_text()
        assert copy != kernel.text
    monkeypatch.setattr(measure, "FAULTS", 3)
    assert list(measure.plant("one", [kernel], 1, tmp_path)) == rows[:3]


# ---------------------------------------------------------------- the score


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (56, 774, 0.0561, 0.0928), (5, 10, 0.2366, 0.7634)],
)
def test_the_interval_of_a_share(count: int, total: int, low: float, high: float) -> None:
    assert score.wilson(count, total) == pytest.approx((low, high), abs=1e-4)


def test_nothing_is_known_of_an_empty_set() -> None:
    assert score.wilson(0, 0) == (0, 1)


def _judged(*verdicts: str, unit: str = "kernel") -> Any:
    tables = {
        "kernels": [
            {"set": "one", "digest": d, "source": d, "asynchronous": "no" if d == "b" else "yes"} for d in "abcd"
        ],
        "findings": [
            {"set": "one", "digest": "ab"[n % 2], "rule": "WG001", "confidence": "high", "verdict": verdict}
            for n, verdict in enumerate(verdicts)
        ],
        "planted": [
            {"set": "one", "operator": o, "result": r, "proof": p}
            for o, r, p in (
                ("wgmma.wait_group deleted", "found", ""),
                ("cta_group flipped", "missed", ""),
                ("cta_group flipped", "missed", "x"),
            )
        ],
    }  # fmt: skip
    entry = {"name": "one", "seed": 1, "unit": unit}
    return score.score(SimpleNamespace(sets=lambda: [entry], rows=tables.__getitem__))  # type: ignore[arg-type]


def test_a_set_of_files_has_a_row_for_those_that_are_hard() -> None:
    text = "\n".join(score.tables(_judged("false", "false", unit="file")))
    assert "| one | file | 4 | 4 | 3 | 2 of 4: 50.0%" in text
    hard = "2 of 4: 50.0% (15.0% to 85.0%), of the hard ones 1 of 3: 33.3%"
    assert hard in score.figure(_judged("false", "false", unit="file"))
    assert "| one, hard | file | 3 | 3 | 3 | 1 of 3: 33.3%" in text
    assert "hard |" not in "\n".join(score.tables(_judged("false", "false"))).partition("\n")[2]


def test_each_family_has_its_share() -> None:
    families = _judged("false", "true")[0]["families"]
    assert families["pending operations"] == {"false": 1, "findings": 2, "planted": 1, "found": 1}
    assert families["cta_group"] == {"false": 0, "findings": 0, "planted": 1, "found": 0}


@pytest.mark.parametrize(
    ("rule", "family"),
    [
        ("WG001", "pending operations"),
        ("TC006", "cta_group"),
        ("TC001", "pending operations"),
        ("TC016", "other"),
        ("CV001", "divergent .aligned"),
        ("CV015", "synchronisation between threads"),
        ("AV002", "architecture and version"),
        ("PX003", "other"),
    ],
)
def test_the_family_of_a_rule(rule: str, family: str) -> None:
    assert families.of_rule(rule) == family


def test_every_operator_that_a_rule_may_report_has_a_family_or_is_about_operands() -> None:
    others = {name for name, o in OPERATORS.items() if o.rules and families.of_operator(name) == "other"}
    assert {families.of_rule(rule) for name in others for rule in OPERATORS[name].rules} <= {"other"}
    assert families.of_operator("aligned instruction guarded by one lane") == "divergent .aligned"


def test_a_share_counts_files_and_findings_that_were_judged_false() -> None:
    (row,) = data = _judged("false", "true", "false")
    assert (row["files with false findings"], row["false"], row["findings"]) == (1, 2, 3)
    assert row["by confidence"] == {"high": [2, 3], "medium": [0, 0]}
    assert (row["found"], row["planted"]) == (1, 2)
    text = "\n".join(score.tables(data))
    assert "1 of 4: 25.0% (4.6% to 69.9%)" in text
    assert "Set one, kernels of 4 sources: a false finding in 1 of 4: 25.0%" in score.figure(data)
    assert "| one | high | 2 of 3: 66.7%" in text


def test_a_set_that_is_not_judged_has_no_share() -> None:
    text = "\n".join(score.tables(_judged("false", "")))
    assert "not judged" in text
    assert "25.0%" not in text
    assert "high" not in text


def test_sets_that_were_measured_before_are_in_the_table() -> None:
    text = "\n".join(score.tables(score.score(ledger.Ledger())))
    assert "56 of 774: 7.2% (5.6% to 9.3%)" in text
    assert "17 of 286: 5.9%" in text

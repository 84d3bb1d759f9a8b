"""The commands of docs/recipes.md, in folders laid out as the compilers lay them out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tclint.findings.rules import all_rules
from tests.tools.project import PACKAGE, ROOT
from tests.tools.ptxas import fake_ptxas, printed

if os.name != "posix":
    pytest.skip("the recipes are for a shell", allow_module_level=True)

PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
BAD, GOOD = ROOT / "fixtures" / "wgmma_unwaited.ptx", ROOT / "fixtures" / "wgmma_waited.ptx"


def variants(folder: Path) -> None:
    """A cache of Triton: a folder named by a hash for each variant."""
    for name, source, stages in (("KFPR2A", GOOD, 2), ("QX7ZB3", BAD, 3), ("T5MW6C", BAD, 4)):
        (folder / name).mkdir(parents=True)
        shutil.copy(source, folder / name / "matmul.ptx")
        metadata = {"name": "matmul", "num_warps": 4, "num_stages": stages, "triton_version": "3.9.0"}
        (folder / name / "matmul.json").write_text(json.dumps(metadata))
        (folder / name / "matmul.cubin").write_bytes(b"\x7fELF")


def triton(folder: Path) -> None:
    variants(folder / ".triton" / "cache")


def inductor(folder: Path) -> None:
    variants(folder / "inductor" / "triton" / "0")


def cute_dsl(folder: Path) -> None:
    shutil.copy(BAD, folder / "cutlass_add_Ptrgmem_Ptrgmem.sm_90a.ptx")
    (folder / "gemm.py").write_text("import cutlass\n")


def library(folder: Path) -> None:
    (folder / "out").mkdir()
    shutil.copy(BAD, folder / "out" / "gemm.ptx")


def dependents(folder: Path) -> None:
    page = (ROOT / "rules" / "GD001.md").read_text(encoding="utf-8")
    examples = {
        text.split("(")[0].split()[-1]: text for text in re.findall(r"```ptx\n(.*?)```", page, re.DOTALL)
    }
    (folder / "pdl").mkdir()
    for name in ("residual_early", "weights_early"):
        (folder / "pdl" / f"{name}.ptx").write_text(examples[name])


def review(folder: Path) -> None:
    shutil.copy(GOOD, folder / "good.ptx")
    text = GOOD.read_text().replace("wgmma.wait_group.sync.aligned 0;", "", 1)
    (folder / "changed.ptx").write_text(text)


def spilling(folder: Path) -> None:
    example = all_rules()["PB001"].examples[0]
    (folder / "out").mkdir()
    (folder / "out" / "gemm.ptx").write_text(example.code)
    text = printed("has_too_few", registers=24, stores=60, loads=60, stack=64)
    fake_ptxas(folder.parent / "tools" / "ptxas", text, shared={"has_too_few": 0})


def program(folder: Path) -> None:
    # Without the fence, and without the wait: two defects, each with a fix.
    (folder / "broken.ptx").write_text(BAD.read_text().replace("wgmma.fence.sync.aligned;", "", 1))


CASES: dict[str, tuple[Callable[[Path], None], int, list[str]]] = {
    "What Triton has compiled": (triton, 1, ["QX7ZB3/matmul.ptx", "error WG001", "T5MW6C"]),
    "What PyTorch Inductor has compiled": (
        inductor,
        1,
        ["matmul, Triton 3.9.0, 4 warps, 3 stages", "error[WG001]"],
    ),
    "An autotuner that drops wrong variants": (
        triton,
        0,
        ["matmul, 4 warps, 2 stages    .", "matmul, 4 warps, 3 stages    x", "1 of 3 variants are left"],
    ),
    "What CuTe DSL has compiled": (cute_dsl, 1, ["1  WG001  wgmma-unwaited-accumulator-read"]),
    "The CI of a library of kernels": (
        library,
        0,
        ["1 finding (1 new, 0 gone)", "1 finding hidden by the baseline"],
    ),
    "Kernels that are launched as programmatic dependents": (
        dependents,
        1,
        ["error[GD001]", "residual_early.ptx", "1 error in 1 of 2 files"],
    ),
    "The review of a generated or changed kernel": (review, 1, ["lost wait", "1 new finding", "WG001"]),
    "Kernels that must not spill": (
        spilling,
        1,
        [
            "error[PB001]",
            "needs 60 bytes of spill stores",
            "kernel has_too_few in out/gemm.ptx: 24 registers",
        ],
    ),
    "A program that writes kernels": (program, 0, ["1. WG00", "2. WG00", "3. clean"]),
}


def test_every_recipe_is_tested() -> None:
    assert list(BLOCKS) == list(CASES)
    assert PAGE.count("\n## ") == len(CASES)


@pytest.mark.parametrize("title", CASES)
def test_a_recipe_does_what_it_says(title: str, tmp_path: Path) -> None:
    make, code, expected = CASES[title]
    work, tools = tmp_path / "work", tmp_path / "tools"
    work.mkdir()
    tools.mkdir()
    make(work)
    for name, arguments in (("tclint", "-m tclint"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (tools / name).chmod(0o755)
    for path in (ROOT / "docs" / "examples").glob("*.py"):
        shutil.copy(path, work)
    done = subprocess.run(
        ["sh", "-ec", BLOCKS[title]],
        cwd=work,
        env=os.environ
        | {
            "PATH": os.pathsep.join((str(tools), os.environ["PATH"])),
            "PYTHONPATH": str(PACKAGE.parent),
            "HOME": str(work),
            "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
            "TCLINT_NO_CACHE": "1",
            "TCLINT_PTXAS": "",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    for text in expected:
        assert text in done.stdout, done.stdout + done.stderr

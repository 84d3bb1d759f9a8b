"""The programs of docs/examples, where their compilers are found.

``TCLINT_TRITON_PYTHON`` and ``TCLINT_CUTE_DSL_PYTHON`` name a Python, of the version of this one, that has the compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.tools.project import ROOT

EXAMPLES = ROOT / "docs" / "examples"


def has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def interpreter(package: str, variable: str) -> str:
    return os.environ.get(variable) or (sys.executable if find_spec(package) else "")


PYTHONS = {
    "lint_triton.py": interpreter("triton", "TCLINT_TRITON_PYTHON"),
    "lint_cute_dsl.py": interpreter("cutlass", "TCLINT_CUTE_DSL_PYTHON"),
    "lint_inductor.py": sys.executable if has_gpu() else "",
}


WITHOUT_COMPILER = {"prune_variants.py", "repair_loop.py"}
"""tests/project/test_recipes.py runs them."""


def test_every_example_is_tested_and_described() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    assert files == {*PYTHONS, *WITHOUT_COMPILER}
    described = "".join((ROOT / "docs" / name).read_text() for name in ("api.md", "recipes.md"))
    assert all(f"](examples/{name})" in described for name in files)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("lint_triton.py", "90"),
        ("lint_triton.py", "100"),
        ("lint_cute_dsl.py", "sm_90a"),
        ("lint_cute_dsl.py", "sm_100a"),
        ("lint_inductor.py", ""),
    ],
)
def test_examples(name: str, target: str, tmp_path: Path) -> None:
    if not (python := PYTHONS[name]):
        pytest.skip(f"the compiler of {name}, or the GPU that it needs, is not there")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
        "TRITON_CACHE_DIR": str(tmp_path),
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    command = [python, str(EXAMPLES / name), *filter(None, [target])]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " in 1 file" in done.stdout.splitlines()[-1]

"""``tclint.capture`` in a Python program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.tools.project import PACKAGE
from tests.tools.recordings import DOUBLE

PROGRAM = """
import ctypes, tclint
from ctypes import addressof, byref

driver = ctypes.CDLL("libcuda.so.1")
module, function = ctypes.c_void_p(), ctypes.c_void_p()
to, source, count = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int(4)

def launch(name):
    driver.cuModuleGetFunction(byref(function), module, name)
    values = (ctypes.c_void_p * 3)(*map(addressof, (to, source, count)))
    driver.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, values, None)

driver.cuMemAlloc_v2(byref(to), 64)
driver.cuMemAlloc_v2(byref(source), 64)
try:
    with tclint.capture("nothing"):
        image = open("double.ptx", "rb").read() + b"\\0"
        driver.cuModuleLoadData(byref(module), image)
except tclint.CaptureError as error:
    print(error)
launch(b"before")
with tclint.capture("folder", kernel="dou*", nth=2) as region:
    for name in (b"double", b"other", b"double", b"double"):
        launch(name)
launch(b"double")
print(region.kernel, region.problems, region.captured.launch["nth"])
try:
    with tclint.capture("raised"):
        launch(b"double")
        raise KeyError("from the program")
except KeyError as error:
    print("KeyError", error)
"""


def test_a_launch_in_the_block_is_recorded(with_stub: Callable[..., Path], tmp_path: Path) -> None:
    stub = with_stub()
    (tmp_path / "double.ptx").write_text(DOUBLE)
    environment = os.environ | {"LD_LIBRARY_PATH": str(stub), "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    nothing, recorded, raised = done.stdout.splitlines()
    assert nothing == "no kernel named '*' was launched; launched were no kernels"
    assert recorded == "double () 2"
    assert raised == "KeyError 'from the program'"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["double.ptx", "folder"]

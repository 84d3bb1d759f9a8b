"""Launches the jobs of a folder that ``python -m benchmarks.hangs prepare`` made, each in a process of its own.

    python3 launcher.py OUT            # all jobs; the answer is OUT/hangs.json
    python3 launcher.py --one CUBIN ENTRY GRID BLOCK N MARKED SECONDS

Needs the driver's library. A launch that does not complete in three seconds is a hang; its process is killed, which ends
the kernel.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.gpu import Driver, machine, pointers

SECONDS = 3
"""A launch that takes longer is a hang; the kernels take microseconds."""
LIMIT = 45.0
"""Seconds after which the process of a job is given up."""
AT_ONCE = 4
DATA = 1 << 18
_NOT_READY = 600


def launch(
    cubin: str, entry: str, grid: int, block: int, n: int, with_marks: bool, seconds: float
) -> dict[str, Any]:
    """Launches one kernel and watches it: its outcome, and the mark of each thread."""
    cuda = Driver()
    function = cuda.load(Path(cubin), entry)
    data, pinned, mapped = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(DATA))
    cuda("cuMemsetD8_v2", data, ctypes.c_ubyte(0), ctypes.c_size_t(DATA))
    cuda("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(4 * grid * block), 2)
    ctypes.memset(pinned, 0, 4 * grid * block)
    cuda("cuMemHostGetDevicePointer_v2", ctypes.byref(mapped), pinned, 0)
    values = [data, ctypes.c_uint32(n), *([mapped] if with_marks else [])]
    stream = ctypes.c_void_p()
    cuda("cuStreamCreate", ctypes.byref(stream), 1)
    cuda("cuCtxSynchronize")
    cuda("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, stream, pointers(values), None)
    until = time.monotonic() + seconds
    while (code := cuda.library.cuStreamQuery(stream)) == _NOT_READY and time.monotonic() < until:
        time.sleep(0.005)
    marks = list((ctypes.c_uint32 * (grid * block)).from_address(pinned.value or 0)) if with_marks else []
    outcome = {0: "completed", _NOT_READY: "hang"}.get(code) or cuda.error(code)
    return {"outcome": outcome, "marks": marks}


def one(arguments: list[str]) -> None:
    cubin, entry, *numbers = arguments
    grid, block, n, with_marks, seconds = map(int, numbers)
    try:
        result = launch(cubin, entry, grid, block, n, bool(with_marks), seconds)
    except (RuntimeError, OSError) as error:
        result = {"outcome": f"error: {error}", "marks": []}
    print(json.dumps(result), flush=True)
    os._exit(0)  # the context of a hang cannot be destroyed


def watched(job: dict[str, Any], n: int, build: int) -> dict[str, Any]:
    """The result of one build of a job in its own process."""
    numbers = [job["grid"], job["block"], n, build, SECONDS]
    command = [sys.executable, __file__, "--one", job["cubins"][build], job["entry"], *map(str, numbers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        result: dict[str, Any] = json.loads(line) if line else {"outcome": "error: no answer", "marks": []}
    finally:
        process.kill()
    try:
        process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        result["outcome"] += ", and its process did not end"
    return result


def both(job: dict[str, Any], n: int) -> dict[str, Any]:
    """The plain build decides whether it hangs; the other one is launched for the marks, or as a control."""
    plain = watched(job, n, 0)
    if job["planted"] and plain["outcome"] != "hang":
        return {"outcome": plain["outcome"]}
    other = watched(job, n, 1)
    return {"outcome": plain["outcome"], "marked": other["outcome"], "marks": other["marks"]}


def main() -> None:
    if sys.argv[1] == "--one":
        return one(sys.argv[2:])
    out, plan = Path(sys.argv[1]), json.loads(Path("jobs.json").read_text(encoding="utf-8"))
    out.mkdir(parents=True, exist_ok=True)
    answer: dict[str, Any] = {
        **machine(),
        "ptxas": plan["ptxas"],
        "n": plan["n"],
        "refused": plan["refused"],
        "jobs": {},
    }

    def run(name: str) -> None:
        answer["jobs"][name] = result = both(plan["jobs"][name], plan["n"])
        print(name, result["outcome"], result.get("marked", ""), flush=True)
        (out / "hangs.json.new").write_text(json.dumps(dict(answer)), encoding="utf-8")
        (out / "hangs.json.new").replace(out / "hangs.json")

    controls = [name for name, job in plan["jobs"].items() if not job["planted"]]
    for name in controls:
        run(name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, [name for name in plan["jobs"] if name not in controls]))
    return None


if __name__ == "__main__":
    main()

"""Launches the jobs of a folder that ``python -m benchmarks.hangs prepare`` made, each in a process of its own.

    python3 launcher.py OUT            # all jobs; the answer is OUT/hangs.json
    python3 launcher.py --one CUBIN ENTRY GRID BLOCK N MARKED SECONDS

Needs the driver's library, and cuda-gdb for the few jobs that are also shown in a debugger. A launch that does not
complete in three seconds is a hang; its process is killed, which ends the kernel.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
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
LAST_START = 400.0
"""Seconds after which no debugger is started any more."""
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


def started(
    job: dict[str, Any], cubin: str, n: int, marks: int, seconds: int, **environment: str
) -> subprocess.Popen[str]:
    numbers = [job["grid"], job["block"], n, marks, seconds]
    command = [sys.executable, __file__, "--one", cubin, job["entry"], *map(str, numbers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def debugged(job: dict[str, Any], n: int) -> dict[str, str]:
    """What cuda-gdb shows of a hang when it attaches, and in a core dump of it."""
    show = [
        "info cuda kernels", "info cuda blocks", "info cuda warps", "info cuda lanes", "info cuda threads", "bt",
        "x/3i $pc", f"info address {job['entry']}", "cuda block 0 thread 64", "x/3i $pc", "info cuda warps",
    ]  # fmt: skip
    commands = [part for command in show for part in ("-ex", f"echo > {command}\\n", "-ex", command)]
    with tempfile.TemporaryDirectory() as folder:
        pipe, core = f"{folder}/pipe", f"{folder}/hang.core"
        process = started(
            job, job["debugged"], n, 0, 150,
            CUDA_ENABLE_USER_TRIGGERED_COREDUMP="1", CUDA_COREDUMP_PIPE=pipe, CUDA_COREDUMP_FILE=core,
        )  # fmt: skip
        try:
            time.sleep(6)
            found = {}
            if os.path.exists(pipe):
                said(["sh", "-c", f"echo x > {pipe}"])
                time.sleep(5)
                found["core"] = said(["cuda-gdb", "-batch", "-ex", f"target cudacore {core}", *commands])
            else:
                found["core"] = "no pipe"
            if process.poll() is not None:
                process = started(job, job["debugged"], n, 0, 150)
                time.sleep(6)
            found["attached"] = said(["cuda-gdb", "-batch", "-p", str(process.pid), *commands])
        finally:
            process.kill()
    return found


def said(command: list[str]) -> str:
    """What a command prints within a minute, or why it does not run."""
    try:
        run = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return run.stdout


def watched(job: dict[str, Any], n: int, build: int) -> dict[str, Any]:
    """The result of one build of a job in its own process."""
    process = started(job, job["cubins"][build], n, build, SECONDS)
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
    begun = time.monotonic()
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
    for name, job in plan["jobs"].items():
        if "debugged" in job and time.monotonic() - begun < LAST_START:
            answer["jobs"][name]["debugger"] = debugged(job, plan["n"])
            print(name, "in a debugger", flush=True)
            (out / "hangs.json").write_text(json.dumps(answer), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()

"""Launches the jobs of a folder that ``python -m benchmarks.needed prepare`` made, each in a process of its own.

    python3 launcher.py ANSWER [SECONDS]    # all jobs that begin within so many seconds; ANSWER is a file
    python3 launcher.py --one JOB LAUNCHES

Needs the driver's library, and what is in the folder.
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

HERE = Path(__file__).resolve().parent
WORK = 80 << 20
"""Bytes of memory for a kernel, which are zero before each launch."""
LONGEST = 5.0
"""Seconds after which a job is not launched again."""
LIMIT = 15.0
"""Seconds after which the process of a job is given up: a hang."""
AT_ONCE = 3


def one(job: dict[str, Any], launches: int) -> dict[str, Any]:
    """Launches a job: how often, how many launches are wrong, and the most mistakes in one."""
    cuda = Driver()
    function = cuda.load(HERE / job["cubin"], "k")
    out, work, n = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint32(job["n"])
    cuda("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(4096))
    cuda("cuMemAlloc_v2", ctypes.byref(work), ctypes.c_size_t(WORK))
    values = pointers((out, work, n))
    found = (ctypes.c_uint32 * 2)()
    began, done, wrong, most = time.monotonic(), 0, 0, 0
    while done < launches and time.monotonic() - began < LONGEST:
        cuda("cuMemsetD8_v2", out, ctypes.c_ubyte(0), ctypes.c_size_t(4096))
        cuda("cuMemsetD8_v2", work, ctypes.c_ubyte(0), ctypes.c_size_t(WORK))
        cuda("cuLaunchKernel", function, job["grid"], 1, 1, job["block"], 1, 1, 0, None, values, None)
        cuda("cuCtxSynchronize")
        cuda("cuMemcpyDtoH_v2", found, out, ctypes.c_size_t(8))
        done += 1
        wrong += bool(found[0] or found[1] != job["checks"])
        most = max(most, found[0])
    return {"launches": done, "wrong": wrong, "most": most}


def watched(job: dict[str, Any], launches: int) -> dict[str, Any]:
    """The result of a job in its own process."""
    command = [sys.executable, __file__, "--one", json.dumps(job), str(launches)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            return {"hang": True}
    result: dict[str, Any] = json.loads(said) if said.strip() else {"error": "no answer"}
    return result


def main() -> None:
    if sys.argv[1] == "--one":
        try:
            result = one(json.loads(sys.argv[2]), int(sys.argv[3]))
        except (RuntimeError, OSError) as error:
            result = {"error": str(error)}
        print(json.dumps(result), flush=True)
        os._exit(0)
    plan = machine() | json.loads((HERE / "jobs.json").read_text(encoding="utf-8"))
    until = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 600)

    def run(job: dict[str, Any]) -> None:
        late = time.monotonic() > until
        job.update({"error": "not started"} if late else watched(job, plan["launches"]))
        print(*(f"{key}={job[key]}" for key in job if key not in ("cubin", "checks")), flush=True)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, plan["jobs"]))
    Path(sys.argv[1]).write_text(json.dumps(plan) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

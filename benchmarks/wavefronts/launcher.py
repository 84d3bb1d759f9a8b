"""Measures the cases of a folder that ``python -m benchmarks.wavefronts prepare`` made, and prints one line for each.

    python3 launcher.py [ANSWER]    # ANSWER is a file for the result as JSON

Needs the driver's library, and what is in the folder. Cycles are those that the CTA took for one instruction of one of its
warps, less those of the loop without it; the least of several launches counts.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu import Driver, machine, pointers

HERE = Path(__file__).resolve().parent
ITERATIONS = 200
LAUNCHES = 5


class Gpu:
    """The kernels on the first GPU, and memory for their arguments."""

    def __init__(self, threads: int) -> None:
        self.cuda, self.threads = Driver(), threads
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.module = ctypes.c_void_p()
        self.cuda("cuInit", 0)
        self.cuda("cuDeviceGet", ctypes.byref(device), 0)
        self.cuda("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self.cuda("cuModuleLoadData", ctypes.byref(self.module), (HERE / "kernels.cubin").read_bytes())
        self.offsets, self.out = ctypes.c_uint64(), ctypes.c_uint64()
        self.cuda("cuMemAlloc_v2", ctypes.byref(self.offsets), ctypes.c_size_t(128))
        self.cuda("cuMemAlloc_v2", ctypes.byref(self.out), ctypes.c_size_t(threads * 24))

    def cycles(self, entry: str, offsets: list[int]) -> int:
        """The cycles of the fastest launch, from the first warp's beginning to the last one's end."""
        function = ctypes.c_void_p()
        self.cuda("cuModuleGetFunction", ctypes.byref(function), self.module, entry.encode())
        given = (ctypes.c_uint32 * 32)(*offsets)
        self.cuda("cuMemcpyHtoD_v2", self.offsets, given, ctypes.c_size_t(128))
        iterations, step = ctypes.c_uint32(ITERATIONS), ctypes.c_uint32(0)
        arguments = pointers((self.offsets, self.out, iterations, step))
        found = (ctypes.c_uint64 * (3 * self.threads))()
        best = 1 << 62
        for _ in range(LAUNCHES):
            self.cuda("cuLaunchKernel", function, 1, 1, 1, self.threads, 1, 1, 0, None, arguments, None)
            self.cuda("cuCtxSynchronize")
            self.cuda("cuMemcpyDtoH_v2", found, self.out, ctypes.c_size_t(24 * self.threads))
            best = min(best, max(found[1::3]) - min(found[0::3]))
        return best


def main() -> None:
    setup: dict[str, Any] = json.loads((HERE / "cases.json").read_text())
    gpu = Gpu(setup["threads"])
    executed = ITERATIONS * setup["unrolled"] * setup["threads"] // 32
    empty = gpu.cycles("empty", [0] * 32)
    width = max(len(case["name"]) for case in setup["cases"])
    print(f"{'case':{width}}  known  counted  cycles  cycles/counted")
    for case in setup["cases"]:
        case["cycles"] = round((gpu.cycles(case["entry"], case["offsets"]) - empty) / executed, 3)
        share = case["cycles"] / case["counted"]
        print(
            f"{case['name']:{width}}  {case['known']:5}  {case['counted']:7}  {case['cycles']:6.2f}  {share:14.2f}"
        )
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({**machine(), "cases": setup["cases"]}, indent=1))


if __name__ == "__main__":
    main()

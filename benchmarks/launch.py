"""Launch compiled kernels and mutants of them on a GPU, and see whether the right results come out.

    python run.py FOLDER [--jobs 4] [--launches 20] [--limit 10]

``python -m benchmarks.hardware prepare`` makes FOLDER, with a copy of this file as ``run.py``; it needs numpy and
cuda-python's ``cuda-bindings`` and nothing else. ``results.jsonl`` in the folder gets a line for the machine and one
for each job: a kernel that must be right, and a mutant of it or none.

A job is a process of its own, because a fault ends the context and a hang is ended by killing the process. The original
is launched first, then the mutant with other inputs, so that nothing right lies about in shared memory. A launch that
does not end within ``--limit`` seconds hangs.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import reduce
from pathlib import Path
from typing import Any

__all__ = ["TYPES", "Spec", "digests", "expected", "inputs", "main", "mistakes"]

Spec = Mapping[str, Any]
"""What ``benchmarks/launches/KERNEL.launch.toml`` says."""

TYPES = {
    "u8": "uint8",
    "i32": "int32",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "uint16",
    "f32": "float32",
    "f64": "float64",
}
"""Types of buffers and scalars, and what numpy calls them; of a ``bf16`` it has the bits."""
SWIZZLES = (0, 32, 64, 128)
POISON = 0xFF
"""Fills what a kernel must write: NaN where it is read as a floating-point number."""
FIRST_MUTANT = 1000
"""Number of the first launch of a mutant; its inputs are drawn from the number."""
ORIGINALS = 5
"""Launches of an original in front of those of its mutant."""
START = 60
"""Seconds that a process may take until it has a context."""


def _numpy() -> Any:
    """numpy: the rest of the benchmarks does without it."""
    return importlib.import_module("numpy")


def inputs(spec: Spec, number: int) -> dict[str, Any]:
    """The contents of every buffer at launch *number*."""
    np = _numpy()
    found = {}
    for index, (name, buffer) in enumerate(spec["buffers"].items()):
        kind = TYPES[buffer["type"]]
        values = buffer.get("values")
        if isinstance(values, list):
            generator = np.random.default_rng([number, index])
            numbers = generator.integers(values[0], values[1] + 1, buffer["shape"])
            found[name] = _bits(numbers) if buffer["type"] == "bf16" else numbers.astype(kind)
        elif values is not None:
            found[name] = np.full(buffer["shape"], values, kind)
        else:
            size = np.dtype(kind).itemsize
            found[name] = np.full((*buffer["shape"], size), POISON, "uint8").view(kind)[..., 0]
    return found


def _bits(numbers: Any) -> Any:
    """Whole numbers up to 256 as ``bf16``: the upper half of an ``f32``."""
    return (numbers.astype("float32").view("uint32") >> 16).astype("uint16")


def _bf16(bits: Any) -> Any:
    """The numbers that ``bf16`` stand for."""
    return (bits.astype("uint32") << 16).view("float32")


def _evaluate(text: str, names: Mapping[str, Any]) -> Any:
    np = _numpy()
    known = {"np": np, "reduce": reduce, "bf16": _bf16}
    return eval(f"({text}\n)", {**known, **names})  # written by us, beside the kernels


def expected(spec: Spec, given: Mapping[str, Any]) -> dict[str, Any]:
    """What must come out when *given* goes in."""
    return {name: _evaluate(text, given) for name, text in spec["expected"].items()}


def mistakes(spec: Spec, right: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[int, float]:
    """How many values in *found* are not those of *right*, and the largest difference (infinite: not a number)."""
    np = _numpy()
    observed = spec.get("observed", {})
    wrong, worst = 0, 0.0
    for name, value in right.items():
        want = np.asarray(value, "float64")
        got = np.asarray(_evaluate(observed.get(name, name), found), "float64").reshape(want.shape)
        with np.errstate(invalid="ignore"):
            difference = np.abs(got - want)
        difference[~np.isfinite(difference)] = np.inf
        bad = difference > spec.get("tolerance", 0) * np.maximum(1, np.abs(want))
        wrong += int(bad.sum())
        worst = max(worst, float(difference[bad].max(initial=0)))
    return wrong, worst


def digests(spec: Spec, found: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of the bytes of every result in *found*."""
    np = _numpy()
    observed = spec.get("observed", {})
    values = {name: _evaluate(observed.get(name, name), found) for name in spec["expected"]}
    return {
        name: hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        for name, value in values.items()
    }


# ---------------------------------------------------------------- on the GPU


class Fault(Exception):
    """The driver's name of what went wrong."""


def _check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if int(status):
        raise Fault(status.name)
    return values[0] if len(values) == 1 else values


class Gpu:
    """The first GPU, in a context of its own."""

    def __init__(self) -> None:
        self.driver = driver = importlib.import_module("cuda.bindings.driver")
        _check(driver.cuInit(0))
        self.device = _check(driver.cuDeviceGet(0))
        self.context = _check(driver.cuDevicePrimaryCtxRetain(self.device))
        _check(driver.cuCtxSetCurrent(self.context))
        self.stream = _check(driver.cuStreamCreate(1))  # not blocking

    def load(self, cubin: Path, spec: Spec) -> list[Any]:
        """The function of each launch."""
        driver = self.driver
        module = _check(driver.cuModuleLoadData(cubin.read_bytes()))
        functions = []
        for launch in spec["launches"]:
            function = _check(driver.cuModuleGetFunction(module, launch["entry"].encode()))
            dynamic = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            if launch.get("shared", 0) > 48 << 10:
                _check(driver.cuFuncSetAttribute(function, dynamic, launch["shared"]))
            functions.append(function)
        return functions

    def allocate(self, spec: Spec) -> dict[str, Any]:
        return {name: _check(self.driver.cuMemAlloc(value.nbytes)) for name, value in inputs(spec, 0).items()}

    def run(
        self, functions: Sequence[Any], spec: Spec, places: Mapping[str, Any], given: Mapping[str, Any]
    ) -> Any:
        """What the buffers hold after all launches. Raises :class:`Fault`."""
        np = _numpy()
        driver = self.driver
        for name, value in given.items():
            _check(driver.cuMemcpyHtoD(places[name], np.ascontiguousarray(value).ctypes.data, value.nbytes))
        _check(driver.cuCtxSynchronize())  # the copies may still be on their way
        steps = [self._step(launch, spec, places) for launch in spec["launches"]]
        for function, (config, pointers, _) in zip(functions, steps, strict=True):
            _check(driver.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))
        _check(driver.cuStreamSynchronize(self.stream))
        found = {}
        for name, value in given.items():
            found[name] = np.empty_like(value, order="C")
            _check(driver.cuMemcpyDtoH(found[name].ctypes.data, places[name], value.nbytes))
        return found

    def _step(self, launch: Spec, spec: Spec, places: Mapping[str, Any]) -> tuple[Any, Any, list[Any]]:
        """How to launch, the pointers to the arguments, and the arguments, which must stay where they are."""
        driver = self.driver
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = _three(launch["grid"])
        config.blockDimX, config.blockDimY, config.blockDimZ = _three(launch["block"])
        config.sharedMemBytes = launch.get("shared", 0)
        config.hStream = self.stream
        attributes = []
        if "cluster" in launch:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            value = attribute.value
            value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = _three(launch["cluster"])
            attribute.value = value
            attributes.append(attribute)
        if launch.get("dependent"):
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            value = attribute.value
            value.programmaticStreamSerializationAllowed = 1
            attribute.value = value
            attributes.append(attribute)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        arguments = [self._argument(a, spec, places) for a in launch["arguments"]]
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(ctypes.addressof(a) for a in arguments))
        return config, pointers, arguments

    def _argument(self, argument: Any, spec: Spec, places: Mapping[str, Any]) -> Any:
        """A parameter's bytes: of a buffer, a tensor map or a number."""
        np = _numpy()
        if isinstance(argument, str):
            if argument in places:
                data = int(places[argument]).to_bytes(8, "little")
            else:
                data = self._map(spec["maps"][argument], spec, places)
        else:
            ((kind, number),) = argument.items()
            data = np.array(number, TYPES[kind]).tobytes()
        return ctypes.create_string_buffer(data, len(data))

    def _map(self, tensor: Spec, spec: Spec, places: Mapping[str, Any]) -> bytes:
        np = _numpy()
        driver = self.driver
        buffer = spec["buffers"][tensor["buffer"]]
        sizes = list(reversed(buffer["shape"]))
        size = np.dtype(TYPES[buffer["type"]]).itemsize
        strides, step = [], size
        for extent in sizes[:-1]:
            step *= extent
            strides.append(driver.cuuint64_t(step))
        kinds = driver.CUtensorMapDataType
        kind = {"f16": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, "f32": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32}
        encoded = _check(
            driver.cuTensorMapEncodeTiled(
                kind[buffer["type"]],
                len(sizes),
                places[tensor["buffer"]],
                [driver.cuuint64_t(extent) for extent in sizes],
                strides,
                [driver.cuuint32_t(extent) for extent in reversed(tensor["box"])],
                [driver.cuuint32_t(1)] * len(sizes),
                driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                driver.CUtensorMapSwizzle(SWIZZLES.index(tensor.get("swizzle", 0))),
                driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
                driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )
        return ctypes.string_at(encoded.getPtr(), 128)


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


# ---------------------------------------------------------------- one job


def work(
    folder: Path, spec: Spec, cubins: Mapping[str, str], launches: int, tell: Callable[[Any], None]
) -> None:
    """Launch an original and its mutant, and report each launch before and after it."""
    gpu = Gpu()
    places = gpu.allocate(spec)
    originals = ORIGINALS if "mutant" in cubins else launches
    for role, first, count in (("original", 0, originals), ("mutant", FIRST_MUTANT, launches)):
        if role not in cubins:
            continue
        try:
            tell({"role": role, "doing": "load"})
            functions = gpu.load(folder / cubins[role], spec)
            for number in range(first, first + count):
                given = inputs(spec, number)
                right = expected(spec, given)
                tell({"role": role, "doing": number - first})
                found = gpu.run(functions, spec, places, given)
                wrong, worst = mistakes(spec, right, found)
                said = {"role": role, "done": number - first, "wrong": wrong, "error": worst}
                tell(said | {"digests": digests(spec, found)})
        except Fault as fault:
            tell({"role": role, "fault": str(fault)})
            return


def summary(
    events: Sequence[Mapping[str, Any]], hung: bool, status: int, outputs: bool = False
) -> dict[str, Any]:
    """The outcome of the original and of the mutant: ``right``, ``wrong``, ``hang`` or ``fault``.

    With it: launches that ended, those of them that were wrong, how many values were wrong in the worst one, the
    largest error, and the driver's name for a fault; with *outputs* also which launches were wrong, and the digests of
    the results of each.
    """
    found: dict[str, Any] = {}
    for role in ("original", "mutant"):
        own = [event for event in events if event.get("role") == role]
        if not own:
            continue
        done = [event for event in own if "done" in event]
        bad = [event for event in done if event["wrong"]]
        said: dict[str, Any] = {"launches": len(done), "wrong": len(bad)}
        if bad:
            said["values"] = max(event["wrong"] for event in bad)
            errors = [event["error"] for event in bad]
            said["error"] = "not a number" if max(errors) == float("inf") else max(errors)
        if outputs:
            said["mistaken"] = [event["done"] for event in bad]
            said["digests"] = {
                name: [event["digests"][name] for event in done]
                for name in (done[0]["digests"] if done else {})
            }
        last = own[-1]
        if "fault" in last:
            said |= {"outcome": "fault", "fault": last["fault"]}
        elif "doing" in last:
            said |= {"outcome": "hang"} if hung else {"outcome": "fault", "fault": f"exit status {status}"}
        else:
            said["outcome"] = "wrong" if bad else "right"
        found[role] = said
    return found


def attend(folder: Path, name: str, launches: int, limit: float, outputs: bool = False) -> dict[str, Any]:
    """Run a job in a process, and end the process when it hangs."""
    command = [sys.executable, __file__, str(folder), "--job", name, "--launches", str(launches)]
    alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    events: list[dict[str, Any]] = []
    noises: list[str] = []
    moved = [time.monotonic()]

    def listen(stream: Iterable[str]) -> None:
        for line in stream:
            events.append(json.loads(line))
            moved[0] = time.monotonic()

    hung = False
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=alone
    ) as child:
        listeners = [
            threading.Thread(target=listen, args=(child.stdout,)),
            threading.Thread(target=noises.extend, args=(child.stderr,)),
        ]
        for listener in listeners:
            listener.start()
        while not hung and child.poll() is None:
            time.sleep(0.02)
            hung = time.monotonic() - moved[0] > (limit if events else START + limit)
        if hung:
            child.kill()
        status = child.wait()
        for listener in listeners:
            listener.join()
    said = summary(events, hung, status, outputs)
    if not said:
        said = {"trouble": "".join(noises)[-500:] or f"exit status {status}"}
    return {"job": name, **said}


def machine() -> dict[str, str]:
    """Name of the GPU and versions of what launches."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    said = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    name, _, version = said.splitlines()[0].partition(", ") if said else ("", "", "")
    return {
        "device": name,
        "driver": version.strip(),
        "cuda-bindings": importlib.metadata.version("cuda-bindings"),
    }


def main() -> None:
    """Run all jobs of a folder, or one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time (4)")
    parser.add_argument("--launches", type=int, default=20, help="of each mutant (20)")
    parser.add_argument("--limit", type=float, default=10, help="seconds after which a launch hangs (10)")
    parser.add_argument("--digests", action="store_true", help="keep the digests of all results")
    parser.add_argument("--only", default="", help="names of jobs, with commas between them")
    parser.add_argument("--output", type=Path, help="FOLDER/results.jsonl")
    options = parser.parse_args()
    plan = json.loads((options.folder / "jobs.json").read_text(encoding="utf-8"))
    if options.job:
        job = plan["jobs"][options.job]
        work(
            options.folder,
            plan["launches"][job["launch"]],
            job["cubins"],
            options.launches,
            lambda event: print(json.dumps(event), flush=True),
        )
        return
    names = options.only.split(",") if options.only else list(plan["jobs"])

    def results() -> Iterator[dict[str, Any]]:
        yield machine() | {"launches": options.launches, "limit": options.limit}
        with ThreadPoolExecutor(options.jobs) as pool:
            how = (options.launches, options.limit, options.digests)
            running = [pool.submit(attend, options.folder, name, *how) for name in names]
            yield from (done.result() for done in as_completed(running))

    with (options.output or options.folder / "results.jsonl").open("w", encoding="utf-8") as stream:
        for result in results():
            print(json.dumps(result), file=stream, flush=True)


if __name__ == "__main__":
    main()

"""CUDA C++ of a source through nvcc, in the environment of the toolkit, which has NVIDIA's packages and no others."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus.builder import environment
from benchmarks.corpus.producers.nvcc import TOOLKIT, first_error
from benchmarks.strangers.containers import CannotRead
from benchmarks.strangers.sources import Compile

__all__ = ["Toolkit"]

PACKAGES = (*TOOLKIT, "nvidia-cuda-cuobjdump==13.5.37", "nvidia-curand==10.4.5.25")
SECONDS = 900
"""How long nvcc may take for a file and a target."""


class Toolkit:
    """NVIDIA's programs, installed into the cache."""

    def __init__(self, cache: Path) -> None:
        """Install what is missing. Raises ``benchmarks.corpus.builder.Skipped``."""
        python = environment(cache / "environments" / "toolkit", PACKAGES)
        (self.folder,) = python.parents[1].glob("lib/python*/site-packages/nvidia/cu13")

    @property
    def cuobjdump(self) -> Path:
        return self.folder / "bin" / "cuobjdump"

    def modules(self, folder: Path, job: Compile) -> Iterator[tuple[str, str | CannotRead]]:
        """(name, PTX or why there is none) for each file or instance and each target of a job."""
        files = sorted({path for pattern in job.files for path in folder.glob(pattern)})
        units = [(str(path.relative_to(folder)), path) for path in files]
        with tempfile.TemporaryDirectory() as scratch:
            for index, instance in enumerate(job.instances):
                path = Path(scratch) / f"instance{index}.cu"
                path.write_text(f"{job.prelude}\nvoid* kept = (void*)&{instance};\n", encoding="utf-8")
                units.append((instance, path))
            for (name, path), target in itertools.product(units, job.targets):
                try:
                    yield f"{name}.{target}", self._compile(path, folder, target, job.options)
                except CannotRead as why:
                    yield f"{name}.{target}", why

    def _compile(self, path: Path, folder: Path, target: str, options: tuple[str, ...]) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "out.ptx"
            command = [str(self.folder / "bin" / "nvcc"), "--ptx", f"-arch={target}", "-w"]
            command += [f"-I{self.folder / 'include' / 'cccl'}", "--expt-relaxed-constexpr"]
            command += [option.replace("{source}", str(folder)) for option in options]
            try:
                run = subprocess.run(
                    [*command, str(path), "-o", str(out)],
                    check=False, capture_output=True, text=True, timeout=SECONDS, cwd=self.folder,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise CannotRead(f"nvcc took more than {SECONDS} s") from None
            if run.returncode:
                said = first_error(run.stderr + run.stdout).replace(f"{folder}/", "")
                raise CannotRead(said[:200] or f"nvcc: exit status {run.returncode}")
            return out.read_text(encoding="utf-8")

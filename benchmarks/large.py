"""What `tclint check` and ptxas cost on twelve large tensor-core kernels, by the commands themselves.

    python -m benchmarks.large [--without-ptxas]

CPU seconds of the child processes, on both sides: start, imports and the verification of fixes count. The second table
divides one run in this process by layer. The kernels are a fixed list over all producers, and come from the archives in
``../shared/kernels``; nvcc, Triton and CuTe DSL of other versions would make other kernels of the same sources. Exit
status 1 where an archive or ptxas is missing.
"""

from __future__ import annotations

import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest import mock

from benchmarks import results
from benchmarks.arguments import command_line
from benchmarks.ptxas import Ptxas, PtxasMissing, find
from benchmarks.speed import Stopwatch, check_command, process, ptxas_seconds, split
from tclint.analyses.model import KernelModel
from tclint.checks import kernel_checks
from tclint.config.config import Config
from tclint.driver.fixing import verified_fixes
from tclint.driver.one import lint
from tclint.linting.cache import IncrementalCache
from tclint.replay.verdict import Replay
from tclint.syntax.source import Source

__all__ = ["KERNELS", "LAYERS", "Cost", "layers", "main", "table", "unpacked"]

ARCHIVES = results.ROOT.parent / "shared" / "kernels"
KERNELS: Mapping[str, tuple[str, ...]] = {
    "real_kernels.tar.xz": (
        "cutedsl/b_fmha_causal.sm_100a.ptx",
        "cutedsl/h_fp8_gelu.sm_90a.ptx",
        "pyptx/b_gemm_persistent.sm_100a.ptx",
        "triton-libs/sm100-fla-chunk_kda-chunk_kda_bwd_kernel_wy_dqkg_fused-w2s2-b9e673e8.ptx",
        "triton-libs/sm90-fla-parallel_attn-parallel_attn_fwd_kernel-w2s3-ed86b4cb.ptx",
        "triton-tlx/tlx100-blackwell-fa-ws-persistent-d128-c1-_attn_fwd_ws-w4s1-74312168.ptx",
        (
            "triton-tlx/tlx90-hopper-fa-ws-pipelined-pingpong-persistent-d128-"
            "_attn_fwd_ws_pipelined_pingpong_persistent-w4s1-29b478a0.ptx"
        ),
    ),
    "nvcc_kernels.tar.xz": (
        "nvcc/drv__fi_fmha_sm100_bf16_hd192x128_resid.sm_100a.ptx",
        "nvcc/drv__fi_ragged_prefill_sm90_hd128x128_causal.sm_90a.ptx",
        "nvcc/drv__cutlass_h_coop_streamk_bf16.sm_90a.ptx",
        "nvcc/drv__cutlass_b_2sm_dyncluster_streamk.sm_100a.ptx",
        "nvcc/cake_trtllm_mla_blackwell__cake_trtllm_mla_blackwell_6a2644cd7c80243f7cc3_kernel.sm_100a.ptx",
    ),
}
"""Archive -> its kernels with wgmma, tcgen05 or mma, of 0.2 to 3 MB."""

LAYERS: Mapping[str, tuple[str, ...]] = {
    "parse": ("read", "parse", "syntax problems"),
    "IR and ISA table": ("IR", "parse and build", "inline", "CFG"),
    "paths": ("survey of paths", "witness paths"),
    "replay": ("replay",),
    "analyses": ("values", "views", "analysis"),
    "fixes": ("fixes tried",),
    "report": ("findings", "describe"),
    "checks, with the values that they ask for": ("check",),
}
"""Layer -> its stages, or the first words of their names. A stage does not include the stages inside it, but that of the
fixes is everything that verifying them takes."""


class Cost(NamedTuple):
    """CPU seconds of one kernel."""

    kernel: str
    tclint: float
    ptxas: float | None


@contextmanager
def unpacked(archives: Path = ARCHIVES) -> Iterator[list[Path]]:
    """The kernels of the list. Raises FileNotFoundError where an archive is missing."""
    with TemporaryDirectory() as folder:
        found = []
        for name, kernels in KERNELS.items():
            with tarfile.open(archives / name) as archive:
                for kernel in kernels:
                    archive.extract(kernel, folder, filter="data")
                    found.append(Path(folder, kernel))
        yield found


def _check(path: Path) -> list[str | Path]:
    return check_command("--jobs", "1", path)


def compile_modules(path: Path) -> None:
    """Have Python compile its modules, as installing tclint does: otherwise the first kernel would pay for it."""
    process([sys.executable, "-m", "compileall", "-q", results.ROOT / "tclint"])
    process(_check(path))  # and the modules of others


def cost(path: Path, ptxas: Ptxas | None) -> Cost:
    """What both commands take for one kernel. Raises ValueError where ptxas refuses it."""
    return Cost(path.name, process(_check(path)).cpu, None if ptxas is None else ptxas_seconds(ptxas, path))


def layers(paths: Sequence[Path]) -> dict[str, float]:
    """CPU seconds of *paths* by layer of :data:`LAYERS`, without the start of the process."""
    watch, config = Stopwatch(), Config()
    tuple(kernel_checks())  # imported before, as the start is
    replayed = Replay.__init__

    def replay(self: Replay, of: KernelModel) -> None:
        with watch.stage("replay"):
            replayed(self, of)

    for path in paths:
        past = IncrementalCache()
        with split(watch, []), mock.patch.object(Replay, "__init__", replay):
            with watch.stage("read"):
                source = Source.read(path)
            watch.start()
            report = lint(source, config, watch.clock, past)
        with watch.stage("fixes tried"):
            verified_fixes(report, config, past)
    found: defaultdict[str, float] = defaultdict(float)
    for stage, seconds in watch.seconds.items():
        names = {stage, stage.partition(" ")[0]}
        found[next(layer for layer, stages in LAYERS.items() if not names.isdisjoint(stages))] += seconds
    return dict(found)


def table(costs: Sequence[Cost], by_layer: Mapping[str, float]) -> list[str]:
    """Both tables in Markdown."""
    whole = all(one.ptxas is not None for one in costs)
    total = Cost("all", sum(c.tclint for c in costs), sum(c.ptxas or 0.0 for c in costs) if whole else None)
    rows = []
    for one in (*costs, total):
        compared = ["", ""] if one.ptxas is None else [f"{one.ptxas:.2f}", f"{one.tclint / one.ptxas:.2f}"]
        rows.append([one.kernel, f"{one.tclint:.2f}", *compared])
    spent = sum(by_layer.values())
    shares = [
        [name, f"{by_layer.get(name, 0.0):.2f}", f"{by_layer.get(name, 0.0) / spent:.0%}"] for name in LAYERS
    ]
    return [
        *results.table(["kernel", "`tclint check`, CPU s", "ptxas, CPU s", "ratio"], rows),
        *results.table(["layer", "CPU s", "share"], shares),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status."""
    parser = command_line("benchmarks.large", __doc__)
    parser.add_argument("--without-ptxas", action="store_true", help="measure tclint alone")
    options = parser.parse_args(arguments)
    try:
        ptxas = None if options.without_ptxas else find()
        with unpacked() as paths:
            compile_modules(paths[0])
            print("\n".join(table([cost(path, ptxas) for path in paths], layers(paths))))
    except (OSError, PtxasMissing, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

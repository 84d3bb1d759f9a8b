"""Lint what PyTorch Inductor compiles: it compiles through Triton, whose cache it keeps in a folder of its own.

    python lint_inductor.py

This needs a GPU, since Inductor makes kernels for the one that is there.
"""

import os
import sys
from tempfile import TemporaryDirectory

import tclint

folder = TemporaryDirectory(ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name  # an empty one: what is cached already is not compiled

import torch


@torch.compile
def layer(x, weight, bias):
    return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias))


if __name__ == "__main__":
    x = torch.randn(512, 1024, device="cuda", dtype=torch.float16)
    layer(x, x[0], x[1])
    report = tclint.check(folder.name)  # every .ptx file below it
    print(report, end="")
    sys.exit(report.exit_code)

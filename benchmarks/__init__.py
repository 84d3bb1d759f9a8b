"""Measurements against NVIDIA's tools and real kernels; run each as ``python -m benchmarks.NAME``."""

import os

os.environ["TCLINT_NO_CACHE"] = (
    "1"  # what is measured is made anew, in the processes that a benchmark starts too
)

"""The producers; each is a module of this name here. :mod:`benchmarks.corpus.protocol` says what it must have."""

PRODUCERS = (
    "triton",
    "gluon",
    "nvcc",
    "numba",
    "pyptx",
    "cutedsl",
    "tilelang",
    "cutlass",
    "flashinfer",
    "wheels",
    "strangers",
)
"""In the order in which they are built."""

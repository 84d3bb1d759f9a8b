"""Measurements against NVIDIA's tools and real kernels; run each as ``python -m benchmarks.NAME``."""

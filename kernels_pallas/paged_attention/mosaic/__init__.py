"""Paged attention kernels for NVIDIA GPUs, written in Pallas with its Mosaic GPU backend."""

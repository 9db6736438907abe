"""Kernels for the Arm MVE extension (Helium)."""

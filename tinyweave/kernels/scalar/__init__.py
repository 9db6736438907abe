"""Kernels for cores with a multiplier and without DSP."""

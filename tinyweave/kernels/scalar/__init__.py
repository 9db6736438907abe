"""Kernels for cores that have a multiplier but no DSP instructions."""

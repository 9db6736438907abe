"""Kernels for the Arm DSP extension: layouts of weights, scratch and overlap distances."""

"""Kernels for the Arm DSP extension: weight streams, requirements, scratch and overlap distances."""

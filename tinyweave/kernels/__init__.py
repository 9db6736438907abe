"""Kernels: the C files, the table that says which kernel runs an op, and what each kernel needs."""

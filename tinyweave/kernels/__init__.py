"""Kernels: their C, the table that says which kernel runs an op, and what each needs."""

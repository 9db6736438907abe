"""The search for stages, tiles and kernels."""

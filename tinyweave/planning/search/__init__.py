"""The search for stages, tiles and kernels: the planning problem as integers, and the paths that solve it."""

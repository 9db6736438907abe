"""Kernel sets within a Flash limit, and the cycles of a plan."""

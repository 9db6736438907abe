"""Runs of emitted C, on this machine and on emulated cores, and the comparison of their outputs with the reference."""

"""Placement of buffers in one memory, with and without relocations."""

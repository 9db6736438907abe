"""Code generation. In: a Plan. Out: C files as text. Pure functions; they read a plan and never search."""

from .header import Frames, Origin, survives
from .model import Source, constant_bytes, emit
from .names import identifier

__all__ = ["Frames", "Origin", "Source", "constant_bytes", "emit", "identifier", "survives"]

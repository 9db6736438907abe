"""Code generation. In: a Plan. Out: C files as text. Pure functions; they read a plan and never search."""

from .header import Origin, survives
from .model import Source, constant_bytes, emit
from .names import identifier

__all__ = ["Origin", "Source", "constant_bytes", "emit", "identifier", "survives"]

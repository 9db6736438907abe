"""Code generation. In: a Plan. Out: C files as text. Pure functions; they read a plan and never search."""

from .c import identifier
from .header import Origin, survives
from .model import Source, constant_bytes, emit

__all__ = ["Origin", "Source", "constant_bytes", "emit", "identifier", "survives"]

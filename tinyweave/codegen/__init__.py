"""Code generation. In: a Plan. Out: C files as text. Pure functions; they read a plan and never search."""

from .c import identifier
from .model import Origin, Source, emit, survives

__all__ = ["Origin", "Source", "emit", "identifier", "survives"]

"""Code generation: from a Plan to C files as text. The functions have no side effects; they read a plan and never search."""

from .header import Frames, Origin, survives
from .model import Source, constant_bytes, constants_of, emit

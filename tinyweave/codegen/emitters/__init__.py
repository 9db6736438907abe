"""Emitters: the C of each kernel's call. There is one function per type of parameter struct.

In: a Layer. Out: Code. Every number comes from the same function of `ops` that the reference uses. Numbers are members of the
parameter struct, so they have names in the C.
"""

from __future__ import annotations

from . import detection, elementwise, movement, weighted

# type of the kernel's parameter struct -> emitter
EMITTERS = {**weighted.EMITTERS, **elementwise.EMITTERS, **movement.EMITTERS, **detection.EMITTERS}

"""Quantise random PyTorch and ONNX networks to int8, emit C, and run it on an emulated core, where every byte must be right.

The reference is LiteRT's reference kernels, or numpy if LiteRT lacks an op of the network.
"""

from __future__ import annotations

from collections import Counter
from math import inf

import numpy as np
from cases.ops import NOT_IN_LITERT

import tinyweave as tw
from tinyweave.ops import SPECS

SAMPLES, COMPARED = 4, 2
JUMPS = {"ceil", "floor", "round", "shrink", "sign", "threshold"}  # functions of which a small error changes the result much
JUDGED = "LiteRT's reference kernels"


def whole_way(loaded: tw.Model, samples: np.ndarray, core: str, kinds: Counter[str], least_sqnr_db: float = -inf) -> str | None:
    """Return the fault of a network, None if there is none; `kinds` counts the ops of its int8 form.

    A float network is quantised first. Without JUMPS, comparisons and choices of indices, its int8 form must have at least
    `least_sqnr_db`.
    """
    small, sqnr_db = loaded, inf
    if any(tensor.dtype == "float32" for tensor in loaded.graph.tensors.values()):
        done = tw.quantize(loaded, samples, method="minmax")
        small, sqnr_db = done.model, done.fidelity.sqnr_db
    kinds.update(op.kind for op in small.graph.ops)
    left = {tensor.name for tensor in small.graph.tensors.values() if tensor.dtype == "float32"}
    if left:
        return f"left in the int8 network: {', '.join(sorted(left))}"
    kinds_used = {op.kind for op in loaded.graph.ops}
    is_smooth = not kinds_used & JUMPS and not {SPECS[kind].family for kind in kinds_used} & {"comparison", "index"}
    if is_smooth and sqnr_db < least_sqnr_db:
        return f"the int8 network has an SQNR of {sqnr_db:.1f} dB"
    found = tw.verify(small, core, samples=COMPARED)
    if not found.ok:
        return found.first_difference or f"the arena that was touched is {dict(found.touched)}"
    judged = found.reference.startswith(JUDGED) or not NOT_IN_LITERT.isdisjoint(op.kind for op in small.original.ops)
    return None if judged else f"only equal to the {found.reference}"

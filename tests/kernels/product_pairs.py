"""Random pairs of trials for variant_pairs.py: a portable kernel of recurrent layers or matrix products and its DSP kernel.

The kernels of recurrent layers have no form for ranges of the output.
"""

from __future__ import annotations

import numpy as np
from kernels import ring_calls, ring_views
from kernels.elementwise_pairs import Twins, inputs
from kernels.ring_calls import Call, Rng, Trial

from tinyweave.kernels.dsp import dense
from tinyweave.kernels.table import BY_NAME, Variant
from tinyweave.ops.recurrent.sequence import GATES


def recurrent(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials of a gru or simple_rnn; None if the kernel for some cores cannot pack the drawn weights."""
    row, portable = BY_NAME[kernel], BY_NAME[kernel.removesuffix("_dsp")]
    (kind,) = row.kinds
    time, depth, cells = (int(n) for n in rng.integers(1, (5, 40, 23)))
    depth += int(rng.integers(600)) if rng.integers(8) == 0 else 0  # products of more than a segment
    rows, variant, last = GATES[kind] * cells, int(rng.integers(2)), int(rng.integers(2))
    least = -128 if rng.integers(8) == 0 else -127
    weights = [rng.integers(least, 128, (GATES[kind], cells, columns)).astype(np.int8) for columns in (depth, cells)]
    largest = rng.integers(4) == 0  # of all sums
    if largest:
        weights = [rng.choice(np.array([-127, 127], np.int8), (*w.shape[:2], 1)).repeat(w.shape[2], 2) for w in weights]
    if not all(map(dense.lanes_fit, weights)):
        return None
    bias, again = (rng.integers(-(1 << 20), 1 << 20, rows).astype(np.int32) for _ in range(2))
    factors = [(rng.integers(0, 1 << int(rng.integers(16, 28)), rows)).astype(np.int32) for _ in range(2)]
    common = {
        **{"time": time, "depth": depth, "cells": cells, "reverse": int(rng.integers(2)), "last": last, "variant": variant},
        **{f"{name}_zero": -128 if largest else int(rng.integers(-128, 128)) for name in ("in", "out")},
        **{f"{name}_left": int(rng.integers(3)) for name in ("in", "recurrent")},
        **{"multiplier": int(rng.integers(1 << 24)), "bias": bias, "recurrent_bias": again if rng.integers(4) else None},
        **{"in_multiplier": factors[0], "recurrent_multiplier": factors[1]},
    }
    x, state = (inputs(rng, ring_views.operand(rng, shape)) for shape in ((time, 1, depth), (1, 1, cells)))
    if largest:
        x.data[...] = 127

    def trial(row: Variant) -> Trial:
        laid = [row.weights(array) for array in weights]
        params = ring_calls.build("tw_sequence", **common, weights=laid[0], recurrent_weights=laid[1])
        call = Call(row.name, params, (0, 1), cells * (4 - variant if kind == "gru" else 1))
        return Trial([call], [x, state], (1 if last else time, 1, cells), (*laid, bias, again, *factors))

    return trial(portable), trial(row)


def matmul(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials of products of rows and matrices."""
    portable = ring_views.matmul(rng)
    sources = [inputs(rng, x) for x in portable.inputs]
    fast = [Call(kernel, call.params, call.inputs) for call in portable.calls]
    return Trial(portable.calls, sources, portable.out), Trial(fast, sources, portable.out)

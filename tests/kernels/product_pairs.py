"""Random pairs of trials for variant_pairs.py: a portable kernel of recurrent layers or matrix products and a faster kernel.

The kernels of recurrent layers have no form for ranges of the output.
"""

from __future__ import annotations

import numpy as np
from kernels import ring_calls, ring_views
from kernels.elementwise_pairs import Twins, inputs
from kernels.ring_calls import Call, Rng, Trial

from tinyweave.kernels.dsp import dense
from tinyweave.kernels.mve import weights as mve
from tinyweave.kernels.table import BY_NAME, Variant
from tinyweave.ops.recurrent.sequence import GATES


def recurrent(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials of a gru or simple_rnn; None if the kernel for some cores cannot pack the drawn weights."""
    row, portable = BY_NAME[kernel], BY_NAME[kernel.removesuffix("_dsp").removesuffix("_mve")]
    (kind,) = row.kinds
    time, depth, cells = (int(n) for n in rng.integers(1, (5, 40, 23)))
    depth += int(rng.integers(600)) if rng.integers(8) == 0 else 0  # products of more than a segment
    rows, variant, last = GATES[kind] * cells, int(rng.integers(2)), int(rng.integers(2))
    least = -128 if rng.integers(8) == 0 else -127
    weights = [rng.integers(least, 128, (GATES[kind], cells, columns)).astype(np.int8) for columns in (depth, cells)]
    largest = rng.integers(4) == 0  # of all sums
    if largest:
        weights = [rng.choice(np.array([-127, 127], np.int8), (*w.shape[:2], 1)).repeat(w.shape[2], 2) for w in weights]
    if row.isa == "dsp" and not all(map(dense.lanes_fit, weights)):
        return None
    bias, again = (rng.integers(-(1 << 20), 1 << 20, rows).astype(np.int32) for _ in range(2))
    factors = [(rng.integers(0, 1 << int(rng.integers(16, 28)), rows)).astype(np.int32) for _ in range(2)]
    zeros = {name: -128 if largest else int(rng.integers(-128, 128)) for name in ("in", "out")}
    common = {
        **{"time": time, "depth": depth, "cells": cells, "reverse": int(rng.integers(2)), "last": last, "variant": variant},
        **{f"{name}_zero": zero for name, zero in zeros.items()},
        **{f"{name}_left": int(rng.integers(3)) for name in ("in", "recurrent")},
        **{"multiplier": int(rng.integers(1 << 24))},
        **{"in_multiplier": factors[0], "recurrent_multiplier": factors[1]},
    }
    x, state = (inputs(rng, ring_views.operand(rng, shape)) for shape in ((time, 1, depth), (1, 1, cells)))
    if largest:
        x.data[...] = 127

    biases = {"bias": bias, "recurrent_bias": again if rng.integers(4) else None}

    def trial(row: Variant) -> Trial:
        laid = [row.weights(array) for array in weights]
        given = dict(biases)
        if row.isa == "mve":
            flat = (array.reshape(rows, -1) for array in weights)
            given = {
                name: mve.less_zero(0 if values is None else values.astype(np.int64), array, zero)
                for (name, values), array, zero in zip(biases.items(), flat, zeros.values(), strict=True)
            }
        params = ring_calls.build("tw_sequence", **common, **given, weights=laid[0], recurrent_weights=laid[1])
        call = Call(row.name, params, (0, 1), cells * (4 - variant if kind == "gru" else 1))
        return Trial(
            [call],
            [x, state],
            (1 if last else time, 1, cells),
            (*laid, *(array for array in given.values() if array is not None), *factors),
        )

    return trial(portable), trial(row)


def factor(rng: Rng, shift: int) -> tuple[int, int]:
    """Return a multiplier and a shift near the given shift, in an eighth of the calls any shift up to 0, or 0 and 0."""
    if rng.integers(32) == 0:
        return 0, 0
    multiplier = int(rng.choice([1 << 30, (1 << 31) - 1, int(rng.integers(1 << 30, 1 << 31))]))
    return multiplier, int(rng.integers(-31, 1) if rng.integers(8) == 0 else np.clip(shift + rng.integers(-2, 3), -31, 6))


def weights_of(rng: Rng, shape: tuple[int, ...], low: int = -128) -> np.ndarray:
    """Return random int8 weights from `low` on, in a quarter of the calls only of the largest magnitudes."""
    return (rng.choice([low, 127], shape) if rng.integers(4) == 0 else rng.integers(low, 128, shape)).astype(np.int8)


def lstm(rng: Rng, kernel: str) -> Twins | None:
    """Return a pair of trials of an LSTM; None if the DSP kernel cannot pack the drawn weights."""
    batch, time, depth, cells = (int(n) for n in rng.integers(1, (3, 4, 40, 30)))
    depth += int(rng.integers(600)) if rng.integers(8) == 0 else 0
    low = -127 if kernel.endswith("_dsp") and rng.integers(4) else -128  # few large layers with -128 can be packed
    weights, again = (weights_of(rng, (cells, 4, columns), low) for columns in (depth, cells))
    if kernel.endswith("_dsp") and not (dense.lanes_fit(weights) and dense.lanes_fit(again)):
        return None
    bias = rng.integers(-(1 << 20), 1 << 20, (cells, 4)).astype(np.int32)
    in_zero, out_zero, time_major = int(rng.integers(-128, 128)), int(rng.integers(-128, 128)), rng.integers(2)
    steps = (1, batch) if time_major else (time, 1)

    def scales(count: int) -> tuple[tuple[int, ...], ...]:
        return tuple(zip(*(factor(rng, 3 - (count.bit_length() + 1) // 2) for _ in range(4)), strict=True))

    multiplier, shift = factor(rng, -22)
    common = {
        **{"batch": batch, "time": time, "depth": depth, "cells": cells, "batch_step": steps[0], "time_step": steps[1]},
        **{"in_zero": in_zero, "out_zero": out_zero, "cell_bits": int(rng.integers(7)), "in": scales(depth)},
        **{"cell_clip": int(rng.choice([0, 20480, 32767, int(rng.integers(1, 32768))])), "recurrent": scales(cells)},
        **{"multiplier": multiplier, "shift": min(shift, 0)},
    }
    row = BY_NAME[kernel]
    laid, keep = [row.weights(array) for array in (weights, again)], [weights, again, bias]
    portable = ring_calls.build("tw_lstm", **common, weights=weights, recurrent_weights=again, bias=bias)
    if row.isa == "mve":
        keep += [mve.less_zero(bias.astype(np.int64), weights, in_zero), mve.less_zero(0, again, out_zero)]
        inner = ring_calls.build("tw_lstm", **common, weights=weights, recurrent_weights=again, bias=keep[-2])
        fast = ring_calls.build("tw_lstm_mve", lstm=inner, recurrent_bias=keep[-1])
    else:
        fast = ring_calls.build("tw_lstm", **common, weights=laid[0], recurrent_weights=laid[1], bias=bias)
    shapes = (batch * time, 1, depth), (batch, 1, cells), (batch, 1, 2 * cells)
    sources = [inputs(rng, ring_views.operand(rng, shape)) for shape in shapes]
    calls = Call("tw_unidirectional_sequence_lstm_s8", portable, (0, 1, 2)), Call(kernel, fast, (0, 1, 2))
    first, second = (Trial([call], sources, (batch * time, 1, cells), (*keep, *laid), (1, 2)) for call in calls)
    return first, second


def svdf(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials of an SVDF layer with an int8 or an int16 state."""
    batch, depth, units, rank, steps = (int(n) for n in rng.integers(1, (3, 40, 14, 4, 40)))
    depth += int(rng.integers(600)) if rng.integers(8) == 0 else 0
    size, weights = int(rng.integers(1, 3)), weights_of(rng, (units * rank, depth))
    time = weights_of(rng, (units * rank, steps * size)).view(np.dtype(f"int{8 * size}"))
    bias = rng.integers(-(1 << 20), 1 << 20, units).astype(np.int32) if rng.integers(4) else None
    zeros = {f"{name}_zero": int(rng.integers(-128, 128)) for name in ("in", "state", "out")}
    zeros |= {"state_zero": 0} if size == 2 else {}
    (to_state, state_shift), (multiplier, shift) = (
        factor(rng, 8 * size - 14 - depth.bit_length() // 2),
        factor(rng, 7 - 15 * size - (rank * steps).bit_length() // 2),
    )
    common = {
        **{"batch": batch, "depth": depth, "units": units, "rank": rank, "steps": steps, "state_bytes": size, **zeros},
        **{"state_multiplier": to_state, "state_shift": state_shift, "multiplier": multiplier, "shift": min(shift, 0)},
        **{"weights": weights, "time_weights": time},
    }
    portable = fast = ring_calls.build("tw_svdf", **common, bias=bias)
    keep = [weights, time, *([] if bias is None else [bias])]
    if kernel.endswith("_mve"):
        given = 0 if bias is None else bias.astype(np.int64)
        keep += [
            mve.less_zero(given, time.reshape(units, -1), zeros["state_zero"]),
            mve.less_zero(0, weights, zeros["in_zero"]),
        ]
        fast = ring_calls.build("tw_svdf_mve", svdf=ring_calls.build("tw_svdf", **common, bias=keep[-2]), product_bias=keep[-1])
    shapes = (batch, 1, depth), (batch, 1, units * rank * steps * size)
    sources = [inputs(rng, ring_views.operand(rng, shape)) for shape in shapes]
    calls = Call("tw_svdf_s8", portable, (0, 1)), Call(kernel, fast, (0, 1))
    first, second = (Trial([call], sources, (batch, 1, units), tuple(keep), (1,)) for call in calls)
    return first, second


def matmul(rng: Rng, kernel: str) -> Twins:
    """Return a pair of trials of products of rows and matrices."""
    portable = ring_views.matmul(rng)
    sources = [inputs(rng, x) for x in portable.inputs]
    fast = [Call(kernel, call.params, call.inputs) for call in portable.calls]
    return Trial(portable.calls, sources, portable.out), Trial(fast, sources, portable.out)

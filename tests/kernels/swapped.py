"""Compare the kernels that bench/ablation.py swaps in with those that they replace, which have the same names and parameters.

`python -m kernels.swapped PORTABLE SWAPPED SEED LARGEST_SHIFT`, with two libraries, run from the folder above, raises if a byte
differs. Like variant_pairs.py it is a separate program so that the libraries can be built with sanitizers.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np
from kernels import ring_calls, ring_views
from kernels.ring_calls import Rng, Trial
from kernels.variant_pairs import RINGS_EVERY, whole

COUNT = 120  # trials of each kernel
SIDES = (3, 5, 7)  # of windows with unrolled taps
IM2COL_WORDS = 2 * 48  # two of the longest columns that `dense` draws


def dense(rng: Rng) -> Trial:
    """Return a convolution of up to 4 x 4 x 6 inputs per window, of which the im2col buffer holds two or more."""
    return ring_views.convolution(rng, False)


def depthwise(rng: Rng) -> Trial:
    """Return a depthwise convolution with a random or an unrolled square window; usually some pixels meet no border."""
    side = int(rng.choice(SIDES))
    return ring_views.convolution(rng, True, **({"kernel": (side, side)} if rng.integers(4) else {}))


TRIALS: dict[str, Callable[[Rng], Trial]] = {
    "tw_conv_2d_s8": dense,
    "tw_depthwise_conv_2d_s8": depthwise,
    "tw_fully_connected_s8": ring_views.TRIALS["tw_fully_connected_s8"],
}


def main(portable: str, swapped: str, seed: int, largest_shift: int) -> None:
    libraries = [ctypes.CDLL(path) for path in (portable, swapped)]
    for name, draw in TRIALS.items():
        for number in range(COUNT):
            rng, about = np.random.default_rng([seed, number]), f"{name}, seed {seed}, number {number}"
            trial = draw(rng)
            if "conv" in name:
                shift = trial.keep[-1]
                np.minimum(shift, largest_shift, out=shift)
            expected, found = (whole(library, trial) for library in libraries)
            assert np.array_equal(expected, found), about
            if number % RINGS_EVERY == 0:
                ring_calls.check(libraries[1], trial, rng, about)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

"""Images to learn from, in place of your own: noisy stripes 32 x 32 x 3 in one of four directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CLASSES = ("horizontal", "vertical", "rising", "falling")
ACROSS = ((1, 0), (0, 1), (1, 1), (1, -1))  # direction in which the stripes of a class alternate: rows, columns


def images(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return images, float32 [count, 32, 32, 3] about 0, and the number of the class of each."""
    rng = np.random.default_rng(seed)
    classes = np.arange(count) % len(CLASSES)
    rows, columns = np.mgrid[:32, :32]
    along = np.stack([rows * down + columns * right for down, right in np.array(ACROSS)[classes]])
    length, start = rng.uniform(4, 9, (count, 1, 1)), rng.uniform(0, 9, (count, 1, 1))
    waves = np.sin(2 * np.pi * (along - start) / length)[..., None] * rng.uniform(0.5, 1, (count, 1, 1, 3))
    return (waves + rng.normal(0, 0.3, waves.shape)).astype(np.float32), classes

"""What says, before any training, which of two networks learns more. In: an Arch. Out: a number, the higher the better.

Within limits of RAM, Flash and time the larger network is usually the better one (arXiv 2007.10319, section 3.1). No proxy was
shown to beat parameters and multiply-accumulates on networks this small, so these two vote by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .arch import Arch, macs, weights

Proxy = Callable[[Arch], float]
PROXIES: dict[str, Proxy] = {"macs": macs, "parameters": weights}


def ranked(candidates: Sequence[Arch], names: Sequence[str] = ("macs", "parameters")) -> list[int]:
    """Return the candidates' numbers, those that the proxies together put first first; of equals the first."""
    votes = np.zeros(len(candidates))
    for name in names:
        values = np.array([PROXIES[name](arch) for arch in candidates])
        votes += np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return [int(index) for index in np.argsort(-votes, kind="stable")]

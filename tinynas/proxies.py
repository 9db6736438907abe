"""Zero-cost proxies: scores of untrained networks, which predict their ranking by accuracy. In: Archs, samples. Out: an order.

Within limits of RAM, Flash and time, the larger network is usually the more accurate one (arXiv 2007.10319, section 3.1). No
proxy was shown to beat parameters and multiply-accumulates on networks this small, so these two are the default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.planning.planner import PlanSearch

from .arch import Arch, blocks, macs, weights
from .ram.arena import arena, graph_of
from .tasks.dataset import PARTS, SCALE, Dataset, sized

DEFAULT = ("macs", "parameters")
SAMPLES = 64  # training samples on which proxies evaluate a network


Batch = tuple[NDArray[np.int8], NDArray[np.int64]]  # samples [n, rows, columns, channels] of a network's image size, classes


def ram(arch: Arch) -> float:
    """Return the peak RAM of a network's best plan in bytes, with the whole image in RAM.

    As a proxy: networks with larger maps keep more detail.
    """
    try:
        return arena(arch)
    except CompileError:  # not supported by the fast path
        graph = graph_of(blocks(arch), None if arch.anchors else arch.classes, arch.pooling)
        return PlanSearch(graph).least_bytes


BY_ARCH: dict[str, Callable[[Arch], float]] = {"macs": macs, "parameters": weights, "ram": ram}
NEED_CLASSES = ("gradient_norm", "zico")
PROXIES = (*BY_ARCH, "synflow", "naswot", *NEED_CLASSES, "zen")  # those not in BY_ARCH are functions of `learning.zero_cost`


def score(name: str, arch: Arch, batch: Batch | None = None) -> float:
    """Return the score of a network by the proxy `name`, one of PROXIES; higher is better.

    Raises CompileError if the proxy needs samples and `batch` is None.
    """
    if name in BY_ARCH:
        return BY_ARCH[name](arch)
    if batch is None:
        raise CompileError(f"the proxy {name} needs samples", "give a Batch")
    import torch

    from .learning import zero_cost
    from .learning.module import module_of
    from .learning.train import as_tensor

    values, labels = batch
    classes = [torch.from_numpy(np.ascontiguousarray(labels))] if name in NEED_CLASSES else []
    return float(getattr(zero_cost, name)(module_of(arch), as_tensor(values).float() * SCALE, *classes))


def first_batch(data: Dataset, arch: Arch) -> Batch:
    """Return up to SAMPLES training samples and their classes, evenly spaced over the data set.

    The samples are scaled to the image size of `arch`.
    """
    chosen = np.flatnonzero(data.parts == PARTS.index("train"))
    some = chosen[np.linspace(0, len(chosen) - 1, min(SAMPLES, len(chosen))).astype(int)]
    few = replace(data, values=np.asarray(data.values[some]), labels=data.labels[some], parts=data.parts[some])
    return sized(few, arch.image[:2]).values, few.labels


def check_proxies(names: Sequence[str], kind: str = "") -> None:
    """Raise CompileError if `names` is empty, or has an unknown proxy or one that does not support the `kind` of samples."""
    if not names:
        raise CompileError("--proxies is empty", f"give one of {', '.join(PROXIES)}")
    if unknown := [name for name in names if name not in PROXIES]:
        raise CompileError(f"--proxies {unknown[0]} is unknown", f"give one of {', '.join(PROXIES)}")
    if kind == "detection" and (unfit := [name for name in names if name in NEED_CLASSES]):
        others = [name for name in PROXIES if name not in NEED_CLASSES]
        raise CompileError(f"--proxies {unfit[0]} does not support detection", f"give {', '.join(others)}")


def ranked(
    candidates: Sequence[Arch], names: Sequence[str] = DEFAULT, batch_of: Callable[[Arch], Batch | None] = lambda _: None
) -> list[int]:
    """Return the indices of the candidates, best first: rank the candidates by each proxy, and add up their ranks.

    `names` are the proxies. `batch_of` returns the samples for a candidate; it is called only for proxies that need samples.
    """
    ranks = np.zeros(len(candidates))
    for name in names:
        scores = np.array([score(name, arch, None if name in BY_ARCH else batch_of(arch)) for arch in candidates])
        ranks += np.argsort(np.argsort(scores, kind="stable"), kind="stable")
    return [int(index) for index in np.argsort(-ranks, kind="stable")]

"""What says, before any training, which of two networks learns more. In: an Arch, samples. Out: a number, higher is better.

Within limits of RAM, Flash and time the larger network is usually the better one (arXiv 2007.10319, section 3.1). No proxy was
shown to beat parameters and multiply-accumulates on networks this small, so these two vote by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from ..planning.planner import Choices
from ..tasks.dataset import PARTS, SCALE, Dataset, sized
from .arch import Arch, blocks, macs, weights
from .arena import arena, graph_of

DEFAULT = ("macs", "parameters")
SAMPLES = 64  # of the training part, that proxies look at


class Batch(NamedTuple):
    """Samples of the training part, int8 [n, rows, columns, channels], in the network's size, and their classes."""

    values: NDArray[np.int8]
    labels: NDArray[np.int64]


class Proxy(NamedTuple):
    """A function of a network and of samples, and where it comes from.

    needs_samples: it looks at them, by PyTorch; needs_classes: and at their classes.
    """

    of: Callable[[Arch, Batch | None], float]
    source: str
    needs_samples: bool = True
    needs_classes: bool = False


def ram(arch: Arch, batch: Batch | None = None) -> float:
    """Return the bytes that the busiest step of the network's best plan needs, its image in RAM: what uses more sees more."""
    try:
        return arena(arch)
    except CompileError:  # of what has no fast form
        graph = graph_of(blocks(arch), None if arch.anchors else arch.classes)
        return Choices(graph, "best").least_bytes


def _trainless(name: str, *, with_classes: bool = False) -> Callable[[Arch, Batch | None], float]:
    """Return a function of `learning.zero_cost` as one of a network."""

    def of(arch: Arch, batch: Batch | None) -> float:
        import torch

        from .learning import zero_cost
        from .learning.module import module_of
        from .learning.train import as_tensor

        if batch is None:
            raise CompileError(f"the proxy {name} looks at samples", "give a Batch of some")
        samples = as_tensor(batch.values).float() * SCALE
        classes = [torch.from_numpy(np.ascontiguousarray(batch.labels))] if with_classes else []
        return float(getattr(zero_cost, name)(module_of(arch), samples, *classes))

    return of


ZERO_COST = "arXiv 2101.08134, section 3.1"
PROXIES: dict[str, Proxy] = {
    "macs": Proxy(lambda arch, _: macs(arch), "arXiv 2007.10319, section 3.1", needs_samples=False),
    "parameters": Proxy(lambda arch, _: weights(arch), ZERO_COST, needs_samples=False),
    "ram": Proxy(ram, "of our own: the planner's arena", needs_samples=False),
    "synflow": Proxy(_trainless("synflow"), "arXiv 2006.05467, equation 2"),
    "naswot": Proxy(_trainless("naswot"), "arXiv 2006.04647, equation 2"),
    "gradient_norm": Proxy(_trainless("gradient_norm", with_classes=True), ZERO_COST, needs_classes=True),
    "zico": Proxy(_trainless("zico", with_classes=True), "arXiv 2301.11300, section 3.3", needs_classes=True),
    "zen": Proxy(_trainless("zen"), "arXiv 2102.01063, algorithm 1"),
}


def first_batch(data: Dataset, arch: Arch) -> Batch:
    """Return SAMPLES samples of the training part, of all its classes, in the size that a network is for."""
    chosen = np.flatnonzero(data.parts == PARTS.index("train"))
    some = chosen[np.linspace(0, len(chosen) - 1, min(SAMPLES, len(chosen))).astype(int)]
    few = replace(data, values=np.asarray(data.values[some]), labels=data.labels[some], parts=data.parts[some])
    return Batch(sized(few, arch.image[:2]).values, few.labels)


def check_proxies(names: Sequence[str], kind: str = "") -> None:
    """Raise CompileError for a name that is no proxy, or is none for samples of a kind."""
    if not names:
        raise CompileError("--proxies names none", f"give one of {', '.join(PROXIES)}")
    if unknown := [name for name in names if name not in PROXIES]:
        raise CompileError(f"--proxies {unknown[0]} is unknown", f"it is one of {', '.join(PROXIES)}")
    if kind == "detection" and (unfit := [name for name in names if PROXIES[name].needs_classes]):
        others = [name for name in PROXIES if not PROXIES[name].needs_classes]
        raise CompileError(f"--proxies {unfit[0]} looks at classes, of which boxes are not", f"give {', '.join(others)}")


def ranked(
    candidates: Sequence[Arch],
    names: Sequence[str] = DEFAULT,
    batch_of: Callable[[Arch], Batch | None] = lambda _: None,
) -> list[int]:
    """Return the candidates' numbers, those that the proxies together put first first; of equals the first.

    batch_of: returns samples in the size of a network, for proxies that look at them.
    """
    votes = np.zeros(len(candidates))
    for name in names:
        proxy = PROXIES[name]
        values = np.array([proxy.of(arch, batch_of(arch) if proxy.needs_samples else None) for arch in candidates])
        votes += np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return [int(index) for index in np.argsort(-votes, kind="stable")]

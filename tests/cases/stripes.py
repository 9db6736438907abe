"""Images that small networks learn to classify in seconds, a space of such networks, interrupted and shared trainings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinynas.space import ElasticGroup, SearchSpace
from tinynas.training_run import TrainingRun
from tinyweave.support.progress import Progress, silent

TINY = SearchSpace("tiny", ((8, 8),), 1, (0.5, 1.0), 8, (ElasticGroup(16, 2, (1, 2), (3, 5), (1, 2, 3)),))

EXCITED = ElasticGroup(16, 2, (1, 2), (3, 5), (1, 2, 3), 2, "hard_swish")
TINY_V3 = replace(TINY, groups=(EXCITED,), sizes=((6, 6), (8, 8)), activation="hard_swish", joint=True, by_group=True)


class StopError(Exception):
    """Ends what `stop_at` interrupts."""


def stop_at(title: str, count: int) -> Progress:
    """Return a function for progress that raises StopError when `count` are done of what begins with `title`."""

    def progress(what: str, done: int, total: int) -> None:
        if what.startswith(title) and done >= count:
            raise StopError

    return progress


def stripes(count: int, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Return noise with stripes along rows, or along columns."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    values = rng.normal(0, 30, (count, 8, 8, 1))
    wave = 40 * np.where(np.arange(8) % 2, 1, -1)
    values[labels == 0] += wave[:, None, None]
    values[labels == 1] += wave[None, :, None]
    return np.clip(values, -128, 127).astype(np.int8), labels


def trained_together(
    meeting: Path, rank: int, folder: Path, runs: list[dict[str, Any]], size: int = 2
) -> list[dict[str, NDArray[np.float32]]]:
    """Return the weights of supernets that this process trained together with others, which it meets by a file.

    runs: options of `fit_supernet` and the epochs of its recipe; `stop`: number of epochs before an interrupt.
    """
    from tinynas.learning.team import joined
    from tinynas.learning.train import thread_count

    with thread_count(1), joined(init_method=f"file://{meeting}", rank=rank, world_size=size) as team:
        return [trained(number, folder, team=team, net_seed=rank, **run) for number, run in enumerate(runs)]


def trained(
    number: int, folder: Path, epochs: int, *, stop: int = 0, net_seed: int = 0, team: Any = None, **options: Any
) -> dict[str, Any]:
    """Return the weights of a supernet trained in this process, with or without an interrupt."""
    from tinynas.learning.supernet import Supernet, fit_supernet
    from tinynas.learning.train import Recipe

    recipe, state = Recipe(epochs, batch=32, rate=0.05, augmentation="images"), folder / f"state-{number}-{net_seed}"
    for progress in (stop_at("", stop), silent) if stop else (silent,):
        supernet = Supernet(TINY, 2, seed=net_seed)
        with suppress(StopError):
            fit_supernet(supernet, *stripes(96, 0), recipe, TrainingRun(5, state, team, progress=progress), **options)
    return {name: value.detach().numpy() for name, value in supernet.state_dict().items()}

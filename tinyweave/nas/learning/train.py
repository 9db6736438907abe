"""Train a network on a data set's int8 samples. In: a module, arrays, a Recipe. Out: the module's weights, its accuracy.

SGD with momentum and a cosine from the recipe's rate to 0, as in TinyNAS (arXiv 2007.10319). On one thread the same seed gives
the same weights, and a run that was interrupted after an epoch goes on from there to the same end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...progress import Progress, silent
from ...tasks.boxes import Head
from ...tasks.dataset import SCALE
from ..logs import Log, unlogged
from . import detection
from .augment import AUGMENT
from .team import Team

EVALUATED = 256  # samples at once
STEEPEST = 10.0  # norm of the gradient of a step for boxes, whose number differs by image
Losses = Callable[[Tensor, Tensor, int], Iterable[Tensor | None]]
"""Called at each step with samples, their classes, and the step's number: what is to become less, one by one; None where
another process of a team computes it."""


@dataclass(frozen=True)
class Recipe:
    """rate: for 256 samples at once. warm_up: share of the steps before the rate is reached. smoothing: of labels.

    kind: of the samples, by which they are augmented; "": not at all. head: of a detector, whose labels are boxes.
    """

    epochs: int
    batch: int = 128
    rate: float = 0.2
    momentum: float = 0.9
    weight_decay: float = 5e-5
    warm_up: float = 0.1
    smoothing: float = 0.05
    kind: str = ""
    head: Head | None = None


def as_tensor(values: NDArray[np.int8]) -> Tensor:
    """Return samples [n, rows, columns, channels] as int8 [n, channels, rows, columns], channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(values)).permute(0, 3, 1, 2)


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fit(
    module: nn.Module,
    values: NDArray[np.int8],
    labels: NDArray[Any],
    recipe: Recipe,
    seed: int = 0,
    *,
    losses: Losses | None = None,
    checkpoint: Path | None = None,
    team: Team | None = None,
    log: Log = unlogged,
    progress: Progress = silent,
) -> nn.Module:
    """Train the module in place, from the weights that it has; return it, ready to be evaluated.

    losses: by default one, the cross entropy of the module's scores, or that of boxes. checkpoint: a file that is written after
    each epoch, and from which a run that was interrupted goes on; of a team the first process's file. log: told of each epoch's
    mean loss, of this process, and of the rate. A GPU computes in mixed precision.
    """
    where, generator = device(), torch.Generator().manual_seed(seed)
    module = module.to(where).to(memory_format=torch.channels_last)
    x, y = as_tensor(values).to(where), torch.from_numpy(labels).to(where)
    steps = max(1, len(x) // recipe.batch)
    optimiser = torch.optim.SGD(_decayed(module, recipe), recipe.rate, recipe.momentum, nesterov=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_at(step, recipe.epochs * steps, recipe))
    state = _read(checkpoint) if team is None else team.shared(_read(checkpoint) if team.rank == 0 else None)
    first = _resume(state, module, optimiser, schedule, generator)
    augment = AUGMENT.get(recipe.kind)
    losses = losses or _losses(torch.compile(module) if where.type == "cuda" else module, recipe)
    for epoch in range(first, recipe.epochs):
        module.train()
        sums = list[Tensor]()
        order = torch.randperm(len(x), generator=generator)
        for number, part in enumerate(order[: steps * recipe.batch].split(recipe.batch)):
            part = part.to(where)
            samples, wanted = x[part].float() * SCALE, y[part]
            if recipe.head is not None:
                samples, wanted = detection.augment(samples, wanted, generator)
            elif augment:
                samples = augment(samples, generator)
            optimiser.zero_grad(set_to_none=True)  # what no loss depends on stays as it is
            each = losses(samples.contiguous(memory_format=torch.channels_last), wanted, epoch * steps + number)
            each = each if log is unlogged else _noted(each, sums)
            if team is not None:
                team.backward(each, list(module.parameters()))
            else:
                for loss in each:
                    loss.backward()  # type: ignore[union-attr]
            if recipe.head is not None:
                nn.utils.clip_grad_norm_(module.parameters(), STEEPEST)
            optimiser.step()
            schedule.step()
        if checkpoint is not None and (team is None or team.rank == 0):
            state = {"module": module.state_dict(), "optimiser": optimiser.state_dict(), "schedule": schedule.state_dict()}
            save({**state, "generator": generator.get_state(), "epoch": epoch + 1}, checkpoint)
        if sums:
            log("loss", float(torch.stack(sums).mean()), epoch + 1)
            log("rate", float(schedule.get_last_lr()[0]), epoch + 1)
        progress("training", epoch + 1, recipe.epochs)
    return module.eval()


def _noted(losses: Iterable[Tensor | None], noted: list[Tensor]) -> Iterator[Tensor | None]:
    """Yield losses as they come, and note those that this process has."""
    for loss in losses:
        if loss is not None:
            noted.append(loss.detach().float())
        yield loss


def _losses(module: Callable[[Tensor], Tensor], recipe: Recipe) -> Losses:
    """Return the one loss of a classifier's scores, or of a detector's boxes."""

    def losses(samples: Tensor, targets: Tensor, step: int) -> Iterator[Tensor]:
        with mixed(samples):
            output = module(samples)
            if recipe.head is not None:
                loss = detection.loss(output.float(), targets, recipe.head)
            else:
                loss = functional.cross_entropy(output, targets, label_smoothing=recipe.smoothing)
        yield loss

    return losses


def mixed(samples: Tensor) -> torch.autocast:
    """Return a block in which a GPU computes in mixed precision; a CPU computes as always."""
    return torch.autocast(samples.device.type, torch.bfloat16, enabled=samples.is_cuda)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many threads in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Return the factor of the rate at a step: up in a line, then down in a cosine."""
    rising = recipe.warm_up * steps
    scale = recipe.batch / 256
    if step < rising:
        return scale * (step + 1) / (rising + 1)
    return scale * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


def scores(module: nn.Module, values: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the scores [n, classes] of samples, or the heads [n, channels, rows, columns] of a detector."""
    where = next(module.parameters()).device
    module.eval()
    with torch.inference_mode():
        parts = [module(part.to(where).float() * SCALE).cpu() for part in as_tensor(values).split(EVALUATED)]
    return np.asarray(torch.cat(parts).numpy())


def accuracy(module: nn.Module, values: NDArray[np.int8], labels: NDArray[np.int64]) -> float:
    """Return the share of samples whose highest score is their class's."""
    return float((scores(module, values).argmax(axis=1) == labels).mean())


def save(state: dict[str, object], path: Path) -> None:
    """Write a state so that the file is there as a whole or as it was."""
    scratch = path.with_name(f"{path.name}.new")
    torch.save(state, scratch)
    scratch.replace(path)


def _decayed(module: nn.Module, recipe: Recipe) -> list[dict[str, object]]:
    """Return the parameters in two groups: weights decay, biases and norms do not."""
    return [
        {"params": [p for p in module.parameters() if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in module.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _read(checkpoint: Path | None) -> dict[str, Any] | None:
    if checkpoint is None or not checkpoint.is_file():
        return None
    return dict(torch.load(checkpoint, weights_only=True, map_location="cpu"))


def _resume(
    state: dict[str, Any] | None,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LambdaLR,
    generator: torch.Generator,
) -> int:
    """Load what a checkpoint holds; return the epoch to go on with."""
    if state is None:
        return 0
    module.load_state_dict(state["module"])
    optimiser.load_state_dict(state["optimiser"])
    schedule.load_state_dict(state["schedule"])
    generator.set_state(state["generator"])
    return int(state["epoch"])

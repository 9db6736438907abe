"""Train a network on int8 samples. In: a PyTorch module, arrays, a Recipe. Out: the trained module, its accuracy.

SGD with momentum as in TinyNAS (arXiv 2007.10319), or AdamW (arXiv 1711.05101), and a cosine schedule of the learning rate. On
one thread, the same seed gives the same weights, also if the training was interrupted and resumed.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tinyweave.support.files import named

from ..tasks.boxes import Head
from ..tasks.dataset import SCALE
from ..training_run import UNSAVED, TrainingRun
from . import detection
from .augment import AUGMENT, pasted

EVALUATION_BATCH = 256
GPU_BATCH = 640  # evaluation batch on a GPU: for a small network, smaller batches take as long
SAVE_EVERY_S = 5.0  # seconds between two checkpoints: for small sets of samples, one takes as long as an epoch
COMPILED_STEPS = 20_000  # steps on a GPU from which torch.compile is used: it takes longer than a short training
MAX_GRADIENT_NORM = 10.0  # of detectors, because the number of boxes differs by image
ADAM_RATE, ADAM_DECAY = 3e-3, 0.02  # learning rate and weight decay of AdamW
MAX_INPUTS = 1024  # a dense layer with more inputs gets a lower learning rate, because it would diverge
Losses = Callable[[Tensor, Tensor, int], Iterable[Tensor | None]]
"""Called with the samples, the labels and the index of a step. Yields the losses to minimise, one at a time; None for a loss
that another process of a team computes."""


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of a training."""

    epochs: int
    batch: int = 128
    rate: float = 0.2  # learning rate of SGD for a batch of 256, scaled with the batch size; or of AdamW, for all batch sizes
    adam: bool = False  # AdamW in place of SGD
    momentum: float = 0.9
    weight_decay: float = 5e-5
    warm_up: float = 0.1  # share of the steps in which the learning rate rises linearly
    smoothing: float = 0.05  # label smoothing
    augmentation: str = "none"  # of the samples of a classifier, the name of a function of `augment.AUGMENT`
    cutmix: float = 0.0  # share of the steps of a classifier in which a part of another image is pasted into each image
    head: Head | None = None  # of a detector, whose labels are boxes; None for a classifier


def as_tensor(values: NDArray[np.int8]) -> Tensor:
    """Return samples [n, rows, columns, channels] as an int8 tensor [n, channels, rows, columns], channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(values)).permute(0, 3, 1, 2)


def device() -> torch.device:
    """Return the device to train on: the GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fit(
    module: nn.Module,
    values: NDArray[np.int8],
    labels: NDArray[Any],
    recipe: Recipe,
    run: TrainingRun = UNSAVED,
    *,
    losses: Losses | None = None,
) -> nn.Module:
    """Train a module in place, starting from its current weights, and return it in evaluation mode.

    Each epoch drops its last, incomplete batch, but has at least one step. A checkpoint file is continued, and written after an
    epoch, at most every SAVE_EVERY_S seconds. A GPU trains in mixed precision (bfloat16).

    Args:
        values: Samples [n, rows, columns, channels].
        labels: Class indices [n], or boxes [n, boxes, 6] for a detector.
        losses: Computes the losses of a step; None for the cross-entropy, or the detection loss if the recipe has a head.
    """
    where, generator, checkpoint, team = device(), torch.Generator().manual_seed(run.seed), run.checkpoint, run.team
    module = module.to(where).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in torch's stubs
    x, y = as_tensor(values).to(where), torch.from_numpy(labels).to(where)
    steps = max(1, len(x) // recipe.batch)
    groups = _groups(module, recipe)
    optimiser = (
        torch.optim.AdamW(groups, recipe.rate, fused=True)
        if recipe.adam
        else torch.optim.SGD(groups, recipe.rate, recipe.momentum, nesterov=True)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_at(step, recipe.epochs * steps, recipe))
    state = _read(checkpoint) if team is None else team.broadcast(_read(checkpoint) if team.rank == 0 else None)
    first = _resume(state, module, optimiser, schedule, generator)
    augment, saved = AUGMENT[recipe.augmentation], -math.inf
    compiled = torch.compile(module) if pays_to_compile(where, recipe.epochs * steps) else module
    losses = losses or _losses(compiled, recipe, generator)
    for epoch in range(first, recipe.epochs):
        module.train()
        order = torch.randperm(len(x), generator=generator)
        for number, part in enumerate(torch.split(order[: steps * recipe.batch], recipe.batch)):
            part = part.to(where)
            samples, targets = x[part].float() * SCALE, y[part]
            if recipe.head is not None:
                samples, targets = detection.augment(samples, targets, generator)
            else:
                samples = augment(samples, generator)
            optimiser.zero_grad(set_to_none=True)  # parameters without a gradient are not changed
            each = losses(samples.contiguous(memory_format=torch.channels_last), targets, epoch * steps + number)
            if team is not None:
                loss = team.backward(each, list(module.parameters()))
            else:
                for loss in each:
                    assert loss is not None  # only the losses of a team have gaps
                    torch.autograd.backward(loss)
            if recipe.head is not None:
                nn.utils.clip_grad_norm_(module.parameters(), MAX_GRADIENT_NORM)
            optimiser.step()
            schedule.step()
            if run.after_step is not None and loss is not None:
                run.after_step(epoch, loss.detach())
        if checkpoint is not None and (team is None or team.rank == 0) and time.monotonic() >= saved + SAVE_EVERY_S:
            saved = time.monotonic()
            state = {"module": module.state_dict(), "optimiser": optimiser.state_dict(), "schedule": schedule.state_dict()}
            save({**state, "generator": generator.get_state(), "epoch": epoch + 1}, checkpoint)
        run.progress("training", epoch + 1, recipe.epochs)
    return module.eval()


def pays_to_compile(where: torch.device, steps: int) -> bool:
    """Return whether torch.compile saves time in a training of `steps` steps on the device `where`."""
    return where.type == "cuda" and steps >= COMPILED_STEPS


def _losses(module: Callable[[Tensor], Tensor], recipe: Recipe, generator: torch.Generator) -> Losses:
    """Return a function (samples, targets, step) that yields the loss of one training step, the default of `fit`.

    It is the label-smoothed cross-entropy, averaged by area with that of pasted parts, or the detection loss.
    """

    def losses(samples: Tensor, targets: Tensor, step: int) -> Iterator[Tensor]:
        others, own = targets, 1.0
        if recipe.cutmix and float(torch.rand((), generator=generator)) < recipe.cutmix:
            samples, order, own = pasted(samples, generator)
            others = targets[order]
        with mixed(samples):
            output = module(samples)
            if recipe.head is not None:
                loss = detection.loss(output.float(), targets, recipe.head)
            else:
                loss = functional.cross_entropy(output, targets, label_smoothing=recipe.smoothing)
                if own < 1:
                    pasted_loss = functional.cross_entropy(output, others, label_smoothing=recipe.smoothing)
                    loss = own * loss + (1 - own) * pasted_loss
        yield loss

    return losses


def mixed(samples: Tensor) -> torch.autocast:
    """Return a context in which PyTorch computes in mixed precision (bfloat16), if `samples` are on a GPU."""
    return torch.autocast(samples.device.type, torch.bfloat16, enabled=samples.is_cuda)


@contextmanager
def thread_count(count: int) -> Iterator[None]:
    """Limit PyTorch to `count` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Return the factor on the recipe's learning rate: a linear warm-up, then a cosine down to 0; for SGD times batch / 256."""
    rising = recipe.warm_up * steps
    scale = 1.0 if recipe.adam else recipe.batch / 256
    if step < rising:
        return scale * (step + 1) / (rising + 1)
    return scale * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


def scores(module: nn.Module, values: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return a network's scores [n, classes], or a detector's outputs, for samples [n, rows, columns, channels]."""
    where = next(module.parameters()).device
    batch = GPU_BATCH if where.type == "cuda" else EVALUATION_BATCH
    module.eval()
    with torch.inference_mode():
        parts = [module(part.to(where).float() * SCALE).cpu() for part in torch.split(as_tensor(values), batch)]
    return np.asarray(torch.cat(parts).numpy())


def accuracy(module: nn.Module, values: NDArray[np.int8], labels: NDArray[np.int64]) -> float:
    """Return the accuracy of a classifier: the share of samples, 0 to 1, that it assigns to their class."""
    return float((scores(module, values).argmax(axis=1) == labels).mean())


def on_cpu(module: nn.Module) -> dict[str, Tensor]:
    """Return the state dictionary of a module, on the CPU."""
    return {name: value.cpu() for name, value in module.state_dict().items()}


def save(state: Mapping[str, object], path: Path) -> None:
    """Write a PyTorch state dictionary to a file atomically: an interrupted write leaves the old file."""
    scratch = path.with_name(f"{path.name}.new")
    torch.save(state, content := BytesIO())  # written to a file, torch reports a full disk as an internal error
    with named(scratch):
        scratch.write_bytes(content.getbuffer())
    scratch.replace(path)


def _groups(module: nn.Module, recipe: Recipe) -> list[dict[str, object]]:
    """Return parameter groups for the optimiser, with their weight decays and learning rates.

    Biases and normalisation do not decay. The rate of a dense layer with more than MAX_INPUTS inputs is inverse to them, like
    the step size at which gradient descent diverges.
    """
    groups = defaultdict[tuple[float, float], list[Tensor]](list)
    for parameter in module.parameters():
        inputs = parameter.shape[1] if parameter.ndim == 2 else 1
        decay = recipe.weight_decay if parameter.ndim > 1 else 0.0
        groups[decay, recipe.rate * min(1, MAX_INPUTS / inputs)].append(parameter)
    return [{"params": group, "weight_decay": decay, "lr": rate} for (decay, rate), group in groups.items()]


def _read(checkpoint: Path | None) -> dict[str, Any] | None:
    """Return the state that `fit` wrote to a checkpoint file, or None if there is no such file."""
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
    """Restore a training in place from a checkpoint's state, if any, and return the index of the next epoch."""
    if state is None:
        return 0
    module.load_state_dict(state["module"])
    optimiser.load_state_dict(state["optimiser"])
    schedule.load_state_dict(state["schedule"])
    generator.set_state(state["generator"])
    return int(state["epoch"])

"""Settings of a training run that are no hyperparameters: seed, checkpoint, processes, log, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tinyweave.ir import CompileError
from tinyweave.support.installing import install
from tinyweave.support.progress import Progress, silent

if TYPE_CHECKING:
    from torch import Tensor

    from .learning.team import Team


Log = Callable[[str, float, int], None]  # called with the name of a curve, a value (y), and its epoch or count (x)


def unlogged(name: str, value: float, at: int) -> None:
    """Do nothing: the Log of a training that is not logged."""


def check_tensorboard() -> None:
    """Raise CompileError if TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise CompileError("tensorboard needs TensorBoard, which is not installed", install("tensorboard"))


@contextmanager
def logged(folder: Path | None) -> Iterator[Log]:
    """Yield a Log that writes TensorBoard event files into `folder`, or `unlogged` if `folder` is None."""
    if folder is None:
        yield unlogged
        return
    check_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        yield writer.add_scalar


@dataclass(frozen=True)
class TrainingRun:
    """Settings of a training run that are no hyperparameters (`learning.train.Recipe` holds the hyperparameters)."""

    seed: int = 0  # of the order of the samples, of their augmentation, and of the networks that a supernet samples
    checkpoint: Path | None = None  # file from which the training resumes; the first process writes it every few seconds
    team: Team | None = None  # processes that share the training
    log: Log = unlogged  # called after each epoch with the mean loss of this process and the learning rate
    progress: Progress = silent  # called after each epoch
    after_step: Callable[[int, Tensor], None] | None = None  # called with the epochs done and the loss of the last step


UNSAVED = TrainingRun()  # seed 0, no checkpoint, this process alone

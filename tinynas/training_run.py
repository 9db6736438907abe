"""Settings of a training run that are no hyperparameters: seed, checkpoint, processes, progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tinyweave.support.progress import Progress, silent

if TYPE_CHECKING:
    from torch import Tensor

    from .learning.team import Team


@dataclass(frozen=True)
class TrainingRun:
    """Settings of a training run that are no hyperparameters (`learning.train.Recipe` holds the hyperparameters)."""

    seed: int = 0  # of the order of the samples, of their augmentation, and of the networks that a supernet samples
    checkpoint: Path | None = None  # file from which the training resumes; the first process writes it every few seconds
    team: Team | None = None  # processes that share the training
    progress: Progress = silent  # called after each epoch
    after_step: Callable[[int, Tensor], None] | None = None  # called with the epochs done and the loss of the last step


UNSAVED = TrainingRun()  # seed 0, no checkpoint, this process alone

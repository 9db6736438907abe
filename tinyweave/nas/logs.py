"""What a training tells while it runs, for TensorBoard. In: a folder, or None. Out: a Log, and event files in the folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ..ir import CompileError

Log = Callable[[str, float, int], None]
"""Called with a name, its value, and the epoch or the count at which it has it."""


def unlogged(name: str, value: float, at: int) -> None:
    """Log nothing."""


def check_tensorboard() -> None:
    """Raise CompileError where the package is not installed."""
    if find_spec("tensorboard") is None:
        raise CompileError("--tensorboard needs TensorBoard, which is not installed", "pip install 'tinyweave[tensorboard]'")


@contextmanager
def logged(folder: Path | None) -> Iterator[Log]:
    """Log into event files of a folder, in the block; without a folder nowhere."""
    if folder is None:
        yield unlogged
        return
    check_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        yield writer.add_scalar

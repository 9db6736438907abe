"""The oracle: LiteRT's reference kernels on a .tflite file.

In: the file's bytes and lists of input arrays. Out: per list the outputs and, when asked, those of every op. LiteRT aborts on
some files, so it runs in a process of its own with limits on time and memory (litert_process.py), which is kept for further
requests. What keeps LiteRT from running one model is a CannotRunError; a process that does not start is another CompileError.
"""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..ir import CompileError
from .messages import decode, encode
from .run import FOLDER
from .worker import Died, Worker, isolated, worker

Array = NDArray[Any]

TIMEOUT_S = 120.0
MEMORY_BYTES = 8 << 30


class CannotRunError(CompileError):
    """LiteRT has no outputs of this model: it is not installed, refuses the model, dies on it, or takes too long."""


@dataclass(frozen=True)
class LitertRun:
    """One inference. layers: per op of the file that computes, in its order, the op's outputs; empty unless asked for."""

    outputs: list[Array]
    layers: list[list[Array]]


def run(
    model: bytes,
    inputs: list[list[Array]],
    keep: bool = False,
    *,
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = MEMORY_BYTES,
) -> list[LitertRun]:
    """Run a model once per list of inputs, one after the other on the same state.

    Raises CannotRunError when LiteRT is not installed, refuses the model, dies on it, or takes longer than `timeout_s` seconds.
    """
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise CannotRunError("ai-edge-litert is not installed", "pip install 'tinyweave[verify]'")
    child = worker(isolated(FOLDER / "litert_process.py", str(memory_bytes)))
    if not child.is_alive:
        _start(child)
    try:
        with child.session(timeout_s):
            child.send(encode([bytes(model), inputs, keep]))
            answer = decode(child.receive)
            if "refused" not in answer:
                return [LitertRun(run["outputs"], run["layers"]) for run in answer["runs"]]
    except Died as died:
        if died.late:
            raise CannotRunError(f"LiteRT did not finish within {timeout_s:g} s", "allow more time") from died
        raise CannotRunError(f"LiteRT died with code {died.code} on this model", died.last_line) from died
    except (ValueError, KeyError, TypeError) as error:
        raise CannotRunError("LiteRT died on this model", "its answer cannot be read") from error
    raise CannotRunError(f"LiteRT refuses this model: {answer['refused']}")


def _start(child: Worker) -> None:
    """Wait until the process has said that it is ready."""
    code, said = "", "it says something else than that it is ready"
    try:
        with contextlib.suppress(ValueError), child.session(TIMEOUT_S):  # what it says may be no message
            if decode(child.receive) == "ready":
                return
    except Died as died:
        code, said = f" (code {died.code})", died.last_line or "it says nothing"
    child.stop()
    raise CompileError(
        f"LiteRT is installed but does not start{code}: {said}", "pip install --force-reinstall 'tinyweave[verify]'"
    )

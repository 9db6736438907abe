"""Run LiteRT's reference kernels on a .tflite file; their outputs define what is correct.

LiteRT aborts on some files, so it runs in a separate process (litert_process.py), kept for further models, with limits on time
and memory. If it cannot run a model, a CannotRunError is raised; if the process does not start, a CompileError.
"""

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..ir import CompileError, Graph
from ..ops.litert_differences import difference
from ..support.installing import install, pip
from ..support.parent import memory_advice
from .messages import decode, encode
from .run import FOLDER
from .worker import Died, Worker, isolated, worker

Array = NDArray[Any]

TIMEOUT_S = 120.0
MEMORY_BYTES = 8 << 30


class CannotRunError(CompileError):
    """Raised if LiteRT has no usable outputs: it is not installed, rejects or misreads the model, crashes, or is too slow."""


@dataclass(frozen=True)
class LitertRun:
    """The result of one inference by LiteRT: the network's outputs and, if requested, the outputs of each op."""

    outputs: list[Array]  # one per network output
    layers: dict[str, Array]  # outputs of the ops by tensor name, of tensors that alone have their name; {} unless asked for


def run(
    model: bytes,
    inputs: list[list[Array]],
    keep: bool = False,
    *,
    timeout_s: float = TIMEOUT_S,
    memory_bytes: int = MEMORY_BYTES,
) -> list[LitertRun]:
    """Run a model once per list of inputs, its state passes on; with `keep`, also return the outputs of every op."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise CannotRunError("ai-edge-litert is not installed", install("verify"))
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
    raise CannotRunError(f"LiteRT rejects this model: {answer['refused']}")


def check_kernels(graph: Graph) -> None:
    """Raise CannotRunError if DIFFERENCES has an op of an imported graph that LiteRT does not compute as the file means."""
    for op in graph.ops:
        if (row := difference(graph, op)) is not None:
            raise CannotRunError(f"LiteRT's kernel {row.litert}", op=op)


def _start(child: Worker) -> None:
    code, said = "", "it did not report that it is ready"
    try:
        with contextlib.suppress(ValueError), child.session(TIMEOUT_S):  # its output may not be a message
            if decode(child.receive) == "ready":
                return
    except Died as died:
        code, said = f" (code {died.code})", died.last_line or "no error message"
    child.stop()
    what_to_do = memory_advice() or f"{pip()} install --force-reinstall ai-edge-litert"
    raise CompileError(f"LiteRT is installed but does not start{code}: {said}", what_to_do)

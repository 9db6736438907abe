"""The oracle: LiteRT's reference kernels on a .tflite file.

In: the file's bytes and lists of input arrays. Out: per list the outputs and, when asked, those of every op. LiteRT aborts on
some files, so it runs in a process of its own with limits on time and memory (litert_process.py); `Worker` keeps one for many
requests. What keeps LiteRT from running one model is a CannotRunError; a process that does not start is another CompileError.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, Any

from numpy.typing import NDArray

from ..ir import CompileError
from .messages import decode, encode
from .run import FOLDER
from .worker import isolated, neutral_folder

Array = NDArray[Any]

TIMEOUT_S = 120.0
MEMORY_BYTES = 8 << 30


class CannotRunError(CompileError):
    """LiteRT has no outputs of this model: it is not installed, refuses the model, dies on it, or takes too long."""


@dataclass(frozen=True)
class Run:
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
) -> list[Run]:
    """Run a model once per list of inputs, one after the other on the same state, in a process that ends with the call."""
    with Worker(memory_bytes) as worker:
        return worker.run(model, inputs, keep, timeout_s=timeout_s)


class Worker:
    """A process that runs models one after another; started when needed, and again after it died."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES):
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, model: bytes, inputs: list[list[Array]], keep: bool = False, *, timeout_s: float = TIMEOUT_S) -> list[Run]:
        """Run a model once per list of inputs.

        Raises CannotRunError when LiteRT refuses the model, dies on it, or takes longer than `timeout_s` seconds.
        """
        process, log = self._started()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(timeout_s, give_up)
        timer.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(encode([bytes(model), inputs, keep]))
            process.stdin.flush()
            answer = decode(process.stdout.read)
            if "refused" not in answer:
                return [Run(run["outputs"], run["layers"]) for run in answer["runs"]]
        except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
            code, said = self._ended(process, log)
            if late.is_set():
                raise CannotRunError(f"LiteRT did not finish within {timeout_s:g} s", "allow more time") from error
            raise CannotRunError(f"LiteRT died with code {code} on this model", *said) from error
        finally:
            timer.cancel()
        raise CannotRunError(f"LiteRT refuses this model: {answer['refused']}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):  # what was still to be written has no reader
                    pipe.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _ended(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> tuple[int, list[str]]:
        """The exit code of a process whose answer did not come, and the last line that it wrote, if any."""
        process.kill()
        code = process.wait()
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()[-1:]
        self.close()
        return code, said

    def _started(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        """A process that has said that it is ready."""
        if self._process is not None and self._log is not None:
            return self._process, self._log
        if importlib.util.find_spec("ai_edge_litert") is None:
            raise CannotRunError("ai-edge-litert is not installed", "pip install 'tinyweave[verify]'")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = process = subprocess.Popen(
            isolated(FOLDER / "litert_process.py", str(self._memory_bytes)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=neutral_folder(),
        )
        atexit.register(self.close)
        assert process.stdout is not None
        timer = threading.Timer(TIMEOUT_S, process.kill)
        timer.start()
        try:
            if decode(process.stdout.read) != "ready":
                raise ValueError
        except (EOFError, ValueError) as error:
            code, said = self._ended(process, self._log)
            raise CompileError(
                f"LiteRT is installed but does not start (code {code}): {' '.join(said) or 'it says nothing'}",
                "pip install --force-reinstall 'tinyweave[verify]'",
            ) from error
        finally:
            timer.cancel()
        return process, self._log

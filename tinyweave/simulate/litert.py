"""The oracle: LiteRT's reference kernels on a .tflite file.

In: the file's bytes and lists of input arrays. Out: per list the outputs and, when asked, those of every op. LiteRT aborts on
some files, so it runs in a process of its own with limits on time and memory; `Worker` keeps one for many requests.
`serve` is that process: pickled requests on stdin, pickled answers on stdout.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, Any

from numpy.typing import NDArray

from ..ir import CompileError

Array = NDArray[Any]

TIMEOUT_S = 120.0
MEMORY_BYTES = 8 << 30


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
        """Run a model once per list of inputs; CompileError when LiteRT refuses it, crashes, or takes too long."""
        process, log = self._start()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(timeout_s, give_up)
        timer.start()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump((bytes(model), inputs, keep), process.stdin)
            process.stdin.flush()
            answer: list[Run] | str = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            process.kill()
            code = process.wait()
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()[-1:]
            self.close()
            if late.is_set():
                raise CompileError(f"LiteRT did not finish within {timeout_s:g} s", "allow more time") from error
            raise CompileError(f"LiteRT died with code {code} on this model", *said) from error
        finally:
            timer.cancel()
        if isinstance(answer, str):
            raise CompileError(f"LiteRT refuses this model: {answer}", "the reference cannot say what is right here")
        return answer

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

    def _start(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self._process is None or self._log is None:
            if importlib.util.find_spec("ai_edge_litert") is None:
                raise CompileError("ai-edge-litert is not installed", "pip install 'tinyweave[verify]'")
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import serve; serve({self._memory_bytes})"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
            )
            atexit.register(self.close)
        return self._process, self._log


def serve(memory_bytes: int) -> None:
    """Answer requests until stdin ends."""
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # LiteRT prints to stdout: keep that apart from the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            model, inputs, keep = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: list[Run] | str = _infer(model, inputs, keep)
        except (ValueError, RuntimeError, MemoryError) as error:
            answer = " ".join(str(error).split())
        pickle.dump(answer, answers)
        answers.flush()


def _infer(model: bytes, inputs: list[list[Array]], keep: bool) -> list[Run]:
    interpreter = _load(model, keep)
    runs = []
    for arrays in inputs:
        details = interpreter.get_input_details()
        if len(arrays) != len(details):
            raise ValueError(f"the model has {len(details)} inputs, {len(arrays)} were given")
        for detail, array in zip(details, arrays, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        outputs = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
        runs.append(Run(outputs, _layers(interpreter, model) if keep else []))
    return runs


def _layers(interpreter: Any, model: bytes) -> list[list[Array]]:
    import tflite

    root = tflite.Model.GetRootAs(model, 0)
    without_value = (tflite.BuiltinOperator.VAR_HANDLE, tflite.BuiltinOperator.CALL_ONCE)
    codes = [root.OperatorCodes(index) for index in range(root.OperatorCodesLength())]
    kinds = [max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes]
    subgraph = root.Subgraphs(0)
    ops = [subgraph.Operators(index) for index in range(subgraph.OperatorsLength())]
    ops = [op for op in ops if kinds[op.OpcodeIndex()] not in without_value]
    return [[interpreter.get_tensor(op.Outputs(i)) for i in range(op.OutputsLength())] for op in ops]


def _load(model: bytes, keep: bool) -> Any:
    """An interpreter with reference kernels; op versions that its resolver doesn't know are lowered until it does."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    while True:
        try:
            interpreter = Interpreter(
                model_content=model,
                experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=keep,
                num_threads=1,
            )
            interpreter.allocate_tensors()
            return interpreter
        except (ValueError, RuntimeError) as error:
            unknown = re.search(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'", str(error))
            if unknown is None or int(unknown[2]) <= 1:
                raise
            model = _lower_version(model, unknown[1], int(unknown[2]))


def _lower_version(model: bytes, name: str, version: int) -> bytes:
    """The same file with `version` of the builtin op `name` replaced by the version before it."""
    import tflite

    changed = bytearray(model)
    root = tflite.Model.GetRootAs(changed, 0)
    kind = getattr(tflite.BuiltinOperator, name)
    for index in range(root.OperatorCodesLength()):
        code = root.OperatorCodes(index)
        if max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) == kind and code.Version() == version:
            field = code._tab.Pos + code._tab.Offset(8)  # the version's slot in the table's layout
            changed[field : field + 4] = (version - 1).to_bytes(4, "little")
    if changed == model:
        raise ValueError(f"no op {name} of version {version} in the file")
    return bytes(changed)

"""The separate process that runs LiteRT; litert.py sends it requests through its stdin.

`litert_process.py BYTES` limits its memory, sends "ready" to stdout, then answers each request (model, inputs of each
inference, whether to return every op's outputs) with outputs, or LiteRT's reason for rejecting the model. It imports nothing of
tinyweave, but runs two of its files.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections import Counter
from operator import itemgetter
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray

HERE = os.path.dirname(__file__)
encode, decode = itemgetter("encode", "decode")(runpy.run_path(os.path.join(HERE, "messages.py")))
limit_process = runpy.run_path(os.path.join(HERE, os.pardir, "support", "parent.py"))["limit_process"]


def serve(memory_bytes: int) -> None:
    """Limit this process to `memory_bytes` of memory (not on Windows), then answer requests until stdin ends."""
    limit_process(memory_bytes)
    # LiteRT prints to stdout: keep its output out of the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answer: Any = "ready"
    while True:
        answers.write(encode(answer))
        answers.flush()
        try:
            model, inputs, keep = decode(sys.stdin.buffer.read)
        except EOFError:
            return
        try:
            answer = {"runs": _infer(model, inputs, keep)}
        except (ValueError, RuntimeError, MemoryError) as error:
            answer = {"refused": " ".join(str(error).split())}


def _infer(model: bytes, inputs: list[list[NDArray[Any]]], keep: bool) -> list[dict[str, Any]]:
    interpreter, runs = _load(model, keep), []
    for arrays in inputs:
        details = interpreter.get_input_details()
        if len(arrays) != len(details):
            raise ValueError(f"the model has {len(details)} inputs, but {len(arrays)} were given")
        for detail, array in zip(details, arrays, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        outputs = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
        runs.append({"outputs": outputs, "layers": _layers(interpreter, model) if keep else {}})
    return runs


def _layers(interpreter: Any, model: bytes) -> dict[str, NDArray[Any]]:
    """Return the outputs of the ops by tensor name; tensors without a name of their own are left out."""
    import tflite

    root = tflite.Model.GetRootAs(model, 0)
    without_value, subgraph = (tflite.BuiltinOperator.VAR_HANDLE, tflite.BuiltinOperator.CALL_ONCE), root.Subgraphs(0)
    kinds = [kind for _, kind in _codes(root)]
    ops = [subgraph.Operators(index) for index in range(subgraph.OperatorsLength())]
    ops = [op for op in ops if kinds[op.OpcodeIndex()] not in without_value]
    names = [(subgraph.Tensors(index).Name() or b"").decode(errors="replace") for index in range(subgraph.TensorsLength())]
    counts = Counter(names)
    written = [op.Outputs(index) for op in ops for index in range(op.OutputsLength())]
    return {names[i]: np.array(interpreter.get_tensor(i)) for i in written if names[i] and counts[names[i]] == 1}


def _codes(root: Any) -> list[tuple[Any, int]]:
    codes = [root.OperatorCodes(index) for index in range(root.OperatorCodesLength())]
    return [(code, max(code.BuiltinCode(), code.DeprecatedBuiltinCode())) for code in codes]


def _load(model: bytes, keep: bool) -> Any:
    """Return an interpreter with LiteRT's reference kernels; lower the versions of ops until the kernels know them."""
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
    """Return the model with `version` of all ops called `name` lowered by 1, or raise ValueError if there is none."""
    import tflite

    changed = bytearray(model)
    for code, kind in _codes(tflite.Model.GetRootAs(changed, 0)):
        if kind == getattr(tflite.BuiltinOperator, name) and code.Version() == version:
            field = code._tab.Pos + code._tab.Offset(8)  # the version's slot in the table's layout
            changed[field : field + 4] = (version - 1).to_bytes(4, "little")
    if changed == model:
        raise ValueError(f"no op {name} of version {version} in the file")
    return bytes(changed)


if __name__ == "__main__":
    serve(int(sys.argv[1]))

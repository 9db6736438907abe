"""Convert an ONNX model of an old opset with onnx.version_converter, in a process with limited memory and time.

The converter is C++ and the file is untrusted: a crash or an endless loop ends the child process only.
"""

from __future__ import annotations

import subprocess
import sys

from .. import parent
from ..ir import CompileError
from ..toolchain import import_folders

MAX_MEMORY = 1 << 32  # bytes of address space
MAX_SECONDS = 60
# The converters of some opsets read shapes, so these are inferred first. ONNX does not infer the shape of a Reshape before
# opset 5. Its converter aligns the second operand of an op with the attributes axis and broadcast, which ended with opset 6, at
# the wrong axis if its rank is below the first operand's rank minus axis: an Unsqueeze appends the axes that are missing.
CHILD = """\
import runpy, sys
opset, memory, seconds, parent, *folders = sys.argv[1:]
sys.path += [folder for folder in folders if folder not in sys.path]
runpy.run_path(parent)["limit_process"](int(memory), int(seconds))
import onnx, onnx.helper, onnx.shape_inference, onnx.version_converter
model = onnx.ModelProto.FromString(sys.stdin.buffer.read())
graph = model.graph
for node in graph.node:
    for attribute in node.attribute:
        if node.op_type == "Reshape" and attribute.name == "shape" and min(attribute.ints, default=0) > 0:
            for value in [value for value in graph.value_info if value.name == node.output[0]]:
                graph.value_info.remove(value)
            graph.value_info.append(onnx.helper.make_tensor_value_info(node.output[0], 1, attribute.ints))
model = onnx.shape_inference.infer_shapes(model)
graph = model.graph
shapes = {each.name: each.type.tensor_type.shape.dim for each in (*graph.input, *graph.value_info, *graph.output)}
shapes |= {each.name: each.dims for each in graph.initializer}
nodes = []
for node in graph.node:
    attributes = {each.name: each for each in node.attribute}
    if "broadcast" in attributes and "axis" in attributes:
        first, second = (len(shapes[name]) for name in node.input)
        axes = range(second, first - attributes["axis"].i % first)
        if axes:
            aligned = f"{node.output[0]}_{node.input[1]}_aligned"
            nodes.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [aligned], axes=axes))
            node.input[1] = aligned
        node.attribute.remove(attributes["axis"])
    nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
del graph.node[:]
graph.node.extend(nodes)
model = onnx.shape_inference.infer_shapes(model)
sys.stdout.buffer.write(onnx.version_converter.convert_version(model, int(opset)).SerializeToString())
"""


def upgraded(model: bytes, old: int, opset: int) -> bytes:
    """Return the file of a model converted from the opset `old` to `opset`; raise CompileError if it cannot be converted."""
    command = [
        sys.executable,
        "-I",
        "-c",
        CHILD,
        str(opset),
        str(MAX_MEMORY),
        str(MAX_SECONDS),
        parent.__file__,
        *import_folders(),
    ]
    try:
        done = subprocess.run(command, input=model, capture_output=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        why = f"takes longer than {MAX_SECONDS} s"
    else:
        if done.returncode == 0:
            return done.stdout
        why = (done.stderr.decode(errors="replace").strip().splitlines() or ["it crashed"])[-1]
    raise CompileError(
        f"the file has opset {old}, and onnx.version_converter cannot convert it: {why}",
        f"export it again with opset {opset} or later",
    )

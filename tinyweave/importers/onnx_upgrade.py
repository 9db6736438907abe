"""Convert an ONNX model of an old opset with onnx.version_converter, in a process with limited memory and time.

The converter is C++ and the file is untrusted: a crash or an endless loop ends the child process only.
"""

from __future__ import annotations

import subprocess
import sys

from ..ir import CompileError
from ..toolchain import import_folders

MAX_MEMORY = 1 << 32  # bytes of address space
MAX_SECONDS = 60
# the shapes must be known: some converters of opsets read them
CHILD = """\
import sys
opset, memory, seconds, *folders = sys.argv[1:]
sys.path += [folder for folder in folders if folder not in sys.path]
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(memory),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:  # Windows
    pass
import onnx, onnx.shape_inference, onnx.version_converter
model = onnx.ModelProto.FromString(sys.stdin.buffer.read())
model = onnx.shape_inference.infer_shapes(model)
sys.stdout.buffer.write(onnx.version_converter.convert_version(model, int(opset)).SerializeToString())
"""


def upgraded(model: bytes, old: int, opset: int) -> bytes:
    """Return the file of a model converted from the opset `old` to `opset`; raise CompileError if it cannot be converted."""
    command = [sys.executable, "-I", "-c", CHILD, str(opset), str(MAX_MEMORY), str(MAX_SECONDS), *import_folders()]
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

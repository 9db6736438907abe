"""Measure the engines that PyPI has as packages. In: .tflite files. Out: versions, a line on emx-onnx-cgen, a line per file.

peers.py runs this script in an environment that has the engines and not tinyweave. emx-onnx-cgen reads ONNX only, so it gets a
1x1 convolution of the keyword network's size, as an ONNX QLinearConv.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from json import loads
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np

ENGINES = ("bakenn", "tflite-micro", "emx-onnx-cgen")
CHANNELS, MAP = 64, (25, 5)


def of_bakenn(file: str) -> str:
    """Return the bytes of arena and constants that BakeNN plans for a Cortex-M4, or why it refuses the file."""
    import bakenn  # the environment has it

    with tempfile.TemporaryDirectory() as folder:
        try:
            bakenn.compile_tflite(file, f"{folder}/net", name="net", target="cortex-m4")
        except bakenn.BakeNNError as error:
            return f"refused: {' '.join(str(error).split())}"
        report = loads(Path(folder, "net", "bknn_net_memory.json").read_text())["compile_time"]
    arena = report["arena_bytes"] + report["caller_io_bytes"]
    return f"{arena:,} B with inputs and outputs, {report['emitted_constant_payload_bytes']:,} B of constants"


def convolution() -> Any:
    """Return a quantised 1x1 convolution with random weights, as an ONNX model."""
    from onnx import TensorProto, helper, numpy_helper

    rng, shape = np.random.default_rng(0), [1, CHANNELS, *MAP]
    weights = rng.integers(-127, 128, (CHANNELS, CHANNELS, 1, 1)).astype(np.int8)
    scales, zeros = np.full(CHANNELS, 0.01, np.float32), np.zeros(CHANNELS, np.int8)
    constants = {"xs": np.float32(0.05), "xz": np.int8(3), "w": weights, "ws": scales, "wz": zeros}
    constants |= {"ys": np.float32(0.1), "yz": np.int8(-1), "b": rng.integers(-999, 999, CHANNELS).astype(np.int32)}
    node = helper.make_node("QLinearConv", ["x", *constants], ["y"], kernel_shape=[1, 1])
    x, y = (helper.make_tensor_value_info(name, TensorProto.INT8, shape) for name in "xy")
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    return helper.make_model(helper.make_graph([node], "net", [x], [y], held), opset_imports=[helper.make_opsetid("", 13)])


def of_emx() -> str:
    """Return with which arithmetic the C of emx-onnx-cgen computes the convolution."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "net.onnx").write_bytes(convolution().SerializeToString())
        command = [Path(sys.executable).with_name("emx-onnx-cgen"), "compile", f"{folder}/net.onnx", f"{folder}/net.c"]
        run(command, check=True, capture_output=True)
        code = Path(folder, "net.c").read_text()
    sums = "int32" if "int32_t acc" in code else "float"
    return (
        f"emx-onnx-cgen: sums in {sums}, rescaled {'in float' if '(float)acc' in code else 'in integers'}, no kernels of a core"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help=".tflite files")
    files = parser.parse_args().files
    print(", ".join(f"{name} {version(name)}" for name in ENGINES))
    print(of_emx())
    for name in files:
        print(of_bakenn(name), flush=True)

"""What int4 weights save in Flash and cost in instructions.

In: a folder of .tflite files (--models). The weights of all convolutions and dense layers are rounded down to 4 bits; two files
hold the same values, as int8 and as int4. Out: per model and core, of both: Flash of weights and in all, instructions of one
invoke, estimated cycles. Exit code 1 when a byte differs from LiteRT.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from models import lcg_samples, number

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Tensor
from tinyweave.ops import spec_of

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("mlcommons__tiny__kws_ref_model", "mlcommons__tiny__ad01_int8", "mlcommons__tiny__pretrainedResnet_quant")
COLUMNS = ("model", "core", "weights", "equal", "Flash: weights", "Flash", "instructions", "cycles, estimated")


def rounded(graph: Graph, dtype: str) -> Graph:
    """With weights in steps 16 times as large, of type `dtype`; biases follow."""
    tensors = dict(graph.tensors)
    for op in (op for op in graph.ops if spec_of(op).takes_int4_weights):
        weights, bias = graph.input(op, 1), graph.optional_input(op, 2)
        if weights.dtype == "int8":
            tensors[weights.name] = replace(_coarser(weights), dtype=dtype)
            tensors |= {bias.name: _coarser(bias)} if bias else {}
    return replace(graph, tensors=tensors)


def _coarser(tensor: Tensor, by: int = 16) -> Tensor:
    assert tensor.quant is not None
    data = None if tensor.data is None else tensor.data // np.array(by, tensor.data.dtype)
    scales, zeros = tuple(scale * by for scale in tensor.quant.scale), tuple(zero // by for zero in tensor.quant.zero_point)
    return replace(tensor, data=data, quant=replace(tensor.quant, scale=scales, zero_point=zeros))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--cores", nargs="+", default=["cortex-m4", "cortex-m0"])
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    failed = False
    for name in (name for name in MODELS if not options.names or any(part in name for part in options.names)):
        original = api.read(options.models / f"{name}.tflite").original
        for core in options.cores:
            for dtype in ("int8", "int4"):
                with tempfile.TemporaryDirectory() as folder:
                    (Path(folder) / "model.tflite").write_bytes(to_tflite(rounded(original, dtype)))
                    model = api.load(Path(folder) / "model.tflite")
                    made, sample = api.plan(model, core, optimize="speed"), lcg_samples(model.graph, 1)
                    equal = api.verify_plan(model, made, api.ProofOptions(sample, count=1), core=core).ok
                    profile = api.profile_plan(model, made, core, sample[0])
                flash = [number(size) for size in (profile.weights, profile.flash, profile.instructions)]
                cycles = number(profile.cycles.likely) if profile.cycles else "-"
                print(f"| {' | '.join([name, core, dtype, str(equal), *flash, cycles])} |", flush=True)
                failed |= not equal
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""What int4 weights save in Flash and cost in instructions, and int4 maps in RAM.

In: a folder of .tflite files (--models). The weights of all convolutions and dense layers are rounded down to 4 bits; two files
hold the same values, as int8 and as int4. Out: per model and core, of both: Flash of weights and in all, instructions of one
invoke, estimated cycles. Then the same of a MobileNet of random weights, with int8 maps and weights and with int4 ones, and its
arena. Exit code 1 when a byte differs from LiteRT, or of int4 maps from the numpy reference.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from models import lcg_samples, number

from tinynas.arch import blocks, mobilenet_v2
from tinynas.network import to_graph
from tinyweave import api
from tinyweave.codegen import Origin, emit
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Tensor, verify
from tinyweave.ops import check, spec_of
from tinyweave.passes import run_passes
from tinyweave.planning import Request, plan
from tinyweave.simulate import compare, emulated

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("mlcommons__tiny__kws_ref_model", "mlcommons__tiny__ad01_int8", "mlcommons__tiny__pretrainedResnet_quant")
COLUMNS = ("model", "core", "weights", "equal", "Flash: weights", "Flash", "instructions", "cycles, estimated")
MAPS_COLUMNS = ("maps", "core", "equal", "arena", "Flash: weights", "instructions")


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


def int4_twin(graph: Graph) -> Graph:
    """With maps and weights in steps 16 times as large, as int4."""
    narrow = {n: replace(_coarser(t), dtype="int4") for n, t in graph.tensors.items() if t.dtype == "int8"}
    biases = {n: _coarser(t, 256) for n, t in graph.tensors.items() if t.dtype == "int32" and t.quant}
    return check(verify(replace(graph, tensors=graph.tensors | narrow | biases)))


def maps_row(graph: Graph, core: str) -> tuple[object, ...]:
    made, dtype = plan(graph, Request(core=core)), graph.tensors[graph.inputs[0]].dtype
    with tempfile.TemporaryDirectory() as folder:
        for file, text in emit(made, graph.name, Origin("maps", "0" * 64)).files.items():
            (Path(folder) / file).write_text(text)
        samples = compare.samples(graph, 2, 0)
        equal = compare.verify(made, Path(folder), graph.name, samples, cores=[core]).ok
        firmware = emulated.build(Path(folder), graph.name, core)
        run = emulated.invoke(firmware, made.arena, compare.pack(graph, samples[0]), compare.output_bytes(graph))
    return dtype, core, str(equal), sum(made.arena.values()), firmware.sizes["weights"], run.instructions


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
    print(f"\n| {' | '.join(MAPS_COLUMNS)} |\n|{'---|' * len(MAPS_COLUMNS)}", flush=True)
    wide, _ = run_passes(to_graph("mobilenet", blocks(mobilenet_v2(64, 0.35))), float_io=True)
    for core in options.cores:
        for row in (maps_row(wide, core), maps_row(int4_twin(wide), core)):
            print(f"| {' | '.join(map(number, row))} |", flush=True)
            failed |= row[2] != "True"
    return failed


if __name__ == "__main__":
    sys.exit(main())

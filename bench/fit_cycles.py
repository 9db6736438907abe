"""Constants of the kernels in tinyweave/kernels/layer_cycles.json, and how far off the cycles are that follow from them.

In: a folder of .tflite files (--models), and `shapes`, depthwise layers that these lack. Each runs layer by layer on emulated
cores; its cycles are the estimates of simulate/instruction_timing.py, or its instructions on a core for which there are none:
they serve to compare plans. Out: the constants (--write), and per core how far off the sum over a network is, when the
constants are fitted without that network and others much like it: exit code 1 when that is more than 15 % for more than one in
ten.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor
from tinyweave.kernels.dsp import depthwise
from tinyweave.kernels.layer_cycles import CONSTANTS, counts, cut
from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import SPECS, macs
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.assemble import draft, finish, lay_out, one_by_one
from tinyweave.planning.fuse.access import RESAMPLERS
from tinyweave.planning.kernel_choice import FOR_ALL, Kernels
from tinyweave.planning.order.search import file_order
from tinyweave.simulate import compare, emulated

ROOT = Path(__file__).resolve().parents[1]
FOLDS = 6
KERNELS = ((1, 3), (2, 3), (5, 3), (1, 9), (3, 12), (3, 1), (5, 1))  # of `shapes`
MAPS = ((1, 24), (1, 61), (6, 32))
GOAL = 0.15
Row = tuple[str, str, tuple[float, ...], int, str]  # network, constants, counts, cycles, on which kernels or of what


def measured(path: Path, core: str, only: frozenset[str] = frozenset()) -> list[Row]:
    """A row per layer of a network run layer by layer, on the kernels for a core, and where they differ on those that take more
    Flash, those without scratch, those that copy their weights, and those for all cores; whole maps and, as fused stages call
    kernels, single rows of them. only: names of kernels, if not all are of interest."""
    model = api.load(path, io="int8")
    graphs = (model.graph, single_rows(model.graph))
    rows: list[Row] = []
    for part in (replace(model, graph=graph) for graph in graphs if graph.ops):
        sample = compare.pack(part.graph, [drawn(part.graph.tensors[name]) for name in part.graph.inputs])
        before: set[tuple[str, str]] = set()
        everywhere = frozenset(op.name for op in part.graph.ops)
        choices = {"": Kernels(core), "flash_heavy": Kernels(core, flash_heavy=everywhere)}
        choices |= {"lean": Kernels(core, lean=everywhere), "copying": Kernels(core, copying=everywhere), "size": FOR_ALL}
        for what, kernels in choices.items():
            order = file_order(part.graph)
            shared = shared_in(part.graph, order, parts=True)
            plan = finish(draft(lay_out(part.graph, one_by_one(order), shared, "sram", kernels=kernels), moves=False, tries=0))
            if only and only.isdisjoint(plan.variants):
                continue
            with tempfile.TemporaryDirectory() as folder:
                api.write(api.source(part, plan), Path(folder))
                firmware = emulated.build(Path(folder), part.name, core, trace=True)
                run = emulated.invoke(firmware, plan.arena, sample, compare.output_bytes(part.graph))
            cycles = emulated.by_step(emulated.cycles(core, run))
            took = [step.likely for step in cycles] if cycles else run.per_step
            for stage, count in zip(plan.stages, took, strict=False):
                (index,) = stage.ops
                op, variant = plan.graph.ops[index], plan.variants[index]
                if variant and (not only or variant in only) and (op.name, variant) not in before:
                    before.add((op.name, variant))
                    rows.append(
                        (path.stem, *counts(plan.graph, op, variant), count, what if part.graph is model.graph else "rows")
                    )
    return rows


def shapes() -> Graph:
    """Return depthwise layers side by side that public models lack: of one row or column, as sensors have, and wide ones."""
    tensors: dict[str, Tensor] = {}
    ops = list[Op]()
    for number, (kernel, stride, (h, w), channels) in enumerate(product(KERNELS, (1, 2), MAPS, (4, 20, 64))):
        (rows, cols), rng = kernel, np.random.default_rng(number)
        if stride == 2 and max(kernel) > depthwise.ITS_OWN[-1]:
            continue
        along = (stride, 1) if cols == 1 else (1, stride)
        size = (w, 1) if cols == 1 else (h, w)
        out = tuple(-(-extent // step) for extent, step in zip(size, along, strict=True))
        pads = [max((n - 1) * s + k - x, 0) for n, s, k, x in zip(out, along, kernel, size, strict=True)]
        attrs = {"stride": along, "dilation": (1, 1), "activation": "none", "depth_multiplier": 1}
        weights, scales = rng.integers(-127, 128, (1, rows, cols, channels)), (2.0**-7,) * channels
        bias, bias_quant = rng.integers(-99, 99, channels).astype(np.int32), Quant((2.0**-12,) * channels, (0,) * channels, 0)
        made = (
            Tensor(f"x{number}", (1, *size, channels), "int8", Quant((2.0**-5,), (3,))),
            Tensor(f"w{number}", weights.shape, "int8", Quant(scales, (0,) * channels, 3), weights.astype(np.int8), "constant"),
            Tensor(f"b{number}", (channels,), "int32", bias_quant, bias, "constant"),
            Tensor(f"y{number}", (1, *out, channels), "int8", Quant((2.0**-4,), (-5,))),
        )
        tensors |= {tensor.name: tensor for tensor in made}
        *inputs, output = (tensor.name for tensor in made)
        padding = tuple((pad // 2, pad - pad // 2) for pad in pads)
        ops.append(Op(f"op{number}", "depthwise_conv_2d", tuple(inputs), (output,), {**attrs, "padding": padding}))
    return Graph("shapes", tensors, tuple(ops), tuple(op.inputs[0] for op in ops), tuple(op.outputs[0] for op in ops))


def drawn(tensor: Tensor) -> np.ndarray:
    """Random values; the kernels' loops are the same for all."""
    return np.random.default_rng(0).integers(-100, 100, tensor.shape).astype(tensor.dtype)


def single_rows(graph: Graph) -> Graph:
    """Each op of a graph that computes maps of several rows on a row of its own, side by side."""
    tensors: dict[str, Tensor] = {}
    ops, inputs, outputs = list[Op](), list[str](), list[str]()
    for op in graph.ops:
        out = graph.output(op)
        if op.kind in RESAMPLERS:
            continue  # a constant says how large their output is
        if len(op.outputs) > 1 or len(out.shape) != 4 or out.shape[1] == 1 or SPECS[op.kind].windows(graph, op) is None:
            continue
        part, alone = cut(graph, op, (1, out.shape[2]))
        own = {name: replace(tensor, name=f"{op.name}_{name}") for name, tensor in part.tensors.items()}
        tensors |= {tensor.name: tensor for tensor in own.values()}
        names = [None if name is None else own[name].name for name in alone.inputs]
        ops.append(replace(alone, inputs=tuple(names), outputs=(own[out.name].name,)))
        inputs += dict.fromkeys(name for name in names if name is not None and tensors[name].data is None)
        outputs.append(own[out.name].name)
    return Graph(f"{graph.name}_rows", tensors, tuple(ops), tuple(inputs), tuple(outputs))


def fitted(rows: list[Row]) -> dict[str, list[float]]:
    """Constants of no less than 0, with the least sum of squares of errors that count by the layer's size, but not in full."""
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row[1]].append(row)
    return {key: _least_squares(group) for key, group in sorted(by_key.items())}


def _least_squares(rows: list[Row]) -> list[float]:
    did, took = (np.array([row[i] for row in rows], float) for i in (2, 3))
    weight = 1 / np.maximum(took, 50) ** 0.8
    kept = list(range(did.shape[1]))
    while True:
        found = np.linalg.lstsq(did[:, kept] * weight[:, None], took * weight, rcond=None)[0]
        if len(kept) == 1 or (found >= 0).all():
            break
        kept.pop(int(np.argmin(found * did[:, kept].max(axis=0))))
    constants = np.zeros(did.shape[1])
    constants[kept] = np.maximum(found, 0)
    return [float(f"{value:.4g}") for value in constants]


def foreseen(rows: list[Row]) -> dict[str, tuple[float, int, float]]:
    """Per network: cycles foreseen by constants that were fitted without it, cycles, share of the layers that these know."""
    fold = {name: int(hashlib.md5(name.split("__")[-1][:12].encode()).hexdigest(), 16) % FOLDS for name, *_ in rows}
    total: dict[str, list[float]] = defaultdict(lambda: [0.0, 0, 0])
    for number in range(FOLDS):
        known = fitted([row for row in rows if fold[row[0]] != number])
        for name, key, did, took, what in (row for row in rows if fold[row[0]] == number):
            name = f"{name}, {what}" if what else name
            total[name][1] += took
            if key in known:
                total[name][0] += float(np.dot(known[key], did))
                total[name][2] += took
    return {name: (guess, int(took), seen / took) for name, (guess, took, seen) in total.items() if took}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--cores", default=",".join((*api.FORESEEN, "cortex-m55")), help="comma-separated")
    parser.add_argument("--only", nargs="+", default=[], metavar="KERNEL", choices=BY_NAME, help="constants of these kernels")
    parser.add_argument("--largest", type=int, default=25_000_000, help="leave out networks of more multiply-accumulates")
    parser.add_argument("--write", action="store_true", help="write these cores' to tinyweave/kernels/layer_cycles.json")
    options = parser.parse_args()
    constants: dict[str, dict[str, list[float]]] = {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "shapes.tflite"
        made.write_bytes(to_tflite(shapes()))
        for core in options.cores.split(","):
            rows: list[Row] = []
            for path in (*sorted(options.models.glob("*.tflite")), made):
                if options.names and not any(part in path.stem for part in options.names):
                    continue
                try:
                    if macs(api.load(path).graph) <= options.largest:
                        rows += measured(path, core, frozenset(options.only))
                except CompileError:
                    continue
            constants[core] = fitted(rows)
            networks = foreseen(rows)
            off = {name: guess / took - 1 for name, (guess, took, seen) in networks.items() if seen > 0.99}
            print(
                f"{core}: {len(rows)} layers of {len(networks)} networks, {len(networks) - len(off)} with kernels of their own"
            )
            far = sorted(((name, part) for name, part in off.items() if abs(part) > GOAL), key=lambda item: -abs(item[1]))
            median = float(np.median([abs(part) for part in off.values()] or [0.0]))
            print(
                f"  off by {median:.1%} in the median; {len(off) - len(far)} of {len(off)} by at most {GOAL:.0%}, the others:"
            )
            for name, part in far:
                print(f"    {part:+.1%} {name}, {networks[name][1]:,} cycles")
            sys.stdout.flush()
            failed |= len(far) > len(off) / 10
    if options.write:
        known = json.loads(CONSTANTS.read_text())  # those of kernels that no plan took stay
        found = {core: dict(sorted((known.get(core, {}) | new).items())) for core, new in constants.items()}
        CONSTANTS.write_text(json.dumps(known | found, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

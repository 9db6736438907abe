"""Constants of the kernels in tinyweave/kernels/layer_cycles.json, and how far off the cycles are that follow from them.

In: a folder of .tflite files (--models), and what these lack: `shapes`, depthwise layers; `firsts`, convolutions of few
channels; `edges`, ops that quantise; `rare`, ops of few networks; `wide`, ops on int16; `recurrent`, layers that loop over
time; `matrices`, products. Each runs layer by layer on emulated cores; its cycles are the estimates of
simulate/instruction_timing.py, or its instructions on a core for which there are none: they serve to compare plans. Out: the
constants (--write), and per core how far off the sum over a network is, when the constants are fitted without that network and
others much like it: exit code 1 when that is more than 15 % for more than one in ten.
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
from tinyweave.kernels.table import BY_NAME, kernels_for
from tinyweave.ops import SPECS, macs
from tinyweave.ops.recurrent.sequence import GATES, NUMBERS
from tinyweave.planning import check
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.assemble import lay_out, place_layout, unfused_stages
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.planning.order.order_search import file_order
from tinyweave.simulate import compare, emulated

ROOT = Path(__file__).resolve().parents[1]
FOLDS = 6
KERNELS = ((1, 3), (2, 3), (5, 3), (1, 9), (3, 12), (3, 1), (5, 1))  # of `shapes`
MAPS = ((1, 24), (1, 61), (6, 32))
FIRST_KERNELS, FIRST_MAPS = ((3, 1), (5, 1), (9, 1), (3, 3), (5, 5), (10, 4)), ((24, 3), (20, 20))  # of `firsts`
TYPES = ("float32", "int8", "uint8", "int16")  # of `edges`
EDGES = ((1, 10), (1, 250), (1, 12, 12, 1), (1, 24, 24, 3), (1, 7, 7, 32))
RARE = ((6, 9, 16), (12, 10, 24), (24, 24, 3), (5, 4, 64))  # maps of `rare`
SEQUENCES = ((40, 20, 32), (10, 40, 64), (25, 10, 15), (8, 64, 16), (1, 20, 32), (30, 3, 8))  # (time, depth, cells)
MATRICES = ((4, 32, 16, 32), (2, 10, 10, 24), (1, 49, 49, 64), (1, 1, 64, 10), (3, 16, 64, 6))  # (batch, rows, depth, cols)
GOAL = 0.15
Shape = tuple[int, ...]
Row = tuple[str, str, tuple[float, ...], int, str]  # network, constants, counts, cycles, on which kernels or of what


def measured(path: Path, core: str, only: frozenset[str] = frozenset(), io: str = "int8") -> list[Row]:
    """A row per layer of a network on the kernels for a core, run layer by layer, and rows for each other kernel.

    Layers are whole maps and, as fused stages call kernels, single rows and single pixels of them. only: names
    of kernels, if not all are of interest."""
    model = api.load(path, io=io)
    graphs = {
        "": model.graph,
        "rows": single_parts(model.graph, whole_rows=True),
        "pixels": single_parts(model.graph, whole_rows=False),
    }
    rows: list[Row] = []
    for size, part in ((size, replace(model, graph=graph)) for size, graph in graphs.items() if graph.ops):
        sample = compare.pack([drawn(part.graph.tensors[name]) for name in part.graph.inputs])
        before: set[tuple[str, str]] = set()
        names = dict.fromkeys(row.name for op in part.graph.ops for row in kernels_for(part.graph, op, core))
        choices = {"": KernelRule(core)} | {
            name: KernelRule(core, frozenset((op.name, name) for op in part.graph.ops)) for name in names
        }
        for what, kernels in choices.items():
            order = file_order(part.graph)
            shared = shared_in(part.graph, order, parts=True)
            layout = lay_out(part.graph, unfused_stages(order), shared, kernels=kernels)
            plan = check(place_layout(layout, moves=False, tries=0)[0])
            of_interest = {(op.name, variant) for op, variant in zip(plan.graph.ops, plan.variants, strict=True) if variant}
            if not {each for each in of_interest if not only or each[1] in only} - before:
                continue
            with tempfile.TemporaryDirectory() as folder:
                api.write(api.emit_c(part, plan), Path(folder))
                firmware = emulated.build(Path(folder), part.name, core, trace=True)
                run = emulated.invoke(firmware, plan.arena, sample, compare.output_bytes(part.graph))
            cycles = emulated.by_step(emulated.cycles(core, run))
            took = [step.likely for step in cycles] if cycles else run.per_step
            for stage, count in zip(plan.stages, took, strict=False):
                (index,) = stage.ops
                op, variant = plan.graph.ops[index], plan.variants[index]
                if variant and (not only or variant in only) and (op.name, variant) not in before:
                    before.add((op.name, variant))
                    rows.append((path.stem, *counts(plan.graph, op, variant), count, size or what))
    return rows


def convolution(number: int, kind: str, extents: Shape, filters: Shape, out: Shape, **attrs: object) -> tuple[list[Tensor], Op]:
    """Return the tensors and the op of a convolution with random filters, whose names end with `number`.

    extents, out: rows and columns of the input and of the output; filters: the shape of the weights.
    """
    rng, axis = np.random.default_rng(number), 3 if kind == "depthwise_conv_2d" else 0
    weights, count = rng.integers(-127, 128, filters).astype(np.int8), filters[axis]
    bias, zeros = rng.integers(-99, 99, count).astype(np.int32), (0,) * count
    tensors = [
        Tensor(f"x{number}", (1, *extents, filters[3]), "int8", Quant((2.0**-5,), (3,))),
        Tensor(f"w{number}", filters, "int8", Quant((2.0**-7,) * count, zeros, axis), weights, "constant"),
        Tensor(f"b{number}", (count,), "int32", Quant((2.0**-12,) * count, zeros, 0), bias, "constant"),
        Tensor(f"y{number}", (1, *out, count), "int8", Quant((2.0**-4,), (-5,))),
    ]
    *inputs, output = (tensor.name for tensor in tensors)
    return tensors, Op(f"op{number}", kind, tuple(inputs), (output,), {"dilation": (1, 1), "activation": "none", **attrs})


def side_by_side(name: str, layers: list[tuple[list[Tensor], Op]]) -> Graph:
    """Return a graph of layers that share no tensors; each layer has one input that is not constant, its first."""
    ops = tuple(op for _, op in layers)
    tensors = {tensor.name: tensor for own, _ in layers for tensor in own}
    return Graph(name, tensors, ops, tuple(op.inputs[0] for op in ops), tuple(op.outputs[0] for op in ops))


def shapes() -> Graph:
    """Return depthwise layers side by side that public models lack: of one row or column, as sensors have, and wide ones."""
    layers = []
    few = product(((3, 3),), (1, 2), MAPS, (2, 3))  # channels
    for number, (kernel, stride, (h, w), channels) in enumerate([*product(KERNELS, (1, 2), MAPS, (4, 20, 64)), *few]):
        if stride == 2 and max(kernel) > depthwise.ITS_OWN[-1]:
            continue
        is_column = kernel[1] == 1
        along, size = ((stride, 1), (w, 1)) if is_column else ((1, stride), (h, w))
        out = tuple(-(-extent // step) for extent, step in zip(size, along, strict=True))
        pads = [max((n - 1) * s + k - x, 0) for n, s, k, x in zip(out, along, kernel, size, strict=True)]
        padding, filters = tuple((pad // 2, pad - pad // 2) for pad in pads), (1, *kernel, channels)
        attrs = {"stride": along, "padding": padding, "depth_multiplier": 1}
        layers.append(convolution(number, "depthwise_conv_2d", size, filters, out, **attrs))
    return side_by_side("shapes", layers)


def firsts() -> Graph:
    """Return convolutions of one to three channels side by side, as in the first layers of networks for sensors and sound."""
    layers: list[tuple[list[Tensor], Op]] = []
    for kernel, size, depth, filters, same in product(FIRST_KERNELS, FIRST_MAPS, (1, 2, 3), (8, 16), (0, 1)):
        padding = tuple((same * (side - 1) // 2, same * side // 2) for side in kernel)
        out = tuple(whole + sum(pad) - side + 1 for whole, pad, side in zip(size, padding, kernel, strict=True))
        if min(out) >= 1:
            attrs = {"stride": (1, 1), "padding": padding}
            layers.append(convolution(len(layers), "conv_2d", size, (filters, *kernel, depth), out, **attrs))
    return side_by_side("firsts", layers)


def edges() -> Graph:
    """Return ops side by side that quantise, dequantise, rescale and look up, which int8 models have at their edges."""
    tensors, ops = dict[str, Tensor](), list[Op]()
    zeros = {"int8": 3, "uint8": 131}
    pairs = [(a, b) for a, b in product(TYPES, TYPES) if "float32" in (a, b) or "int16" not in (a, b)]
    kinds = [("dequantize" if after == "float32" else "quantize", before, after, 2.0**-4) for before, after in pairs]
    kinds += [("quantize", "uint8", "int8", 2.0**-5), ("quantize", "int8", "uint8", 2.0**-5)]  # of the same scale
    for number, ((kind, *types, after_scale), shape) in enumerate(
        product([*kinds, ("logistic", "int8", "int8", 2.0**-8)], EDGES)
    ):
        if types == ["float32", "float32"]:
            continue
        for name, dtype, scale in zip((f"x{number}", f"y{number}"), types, (2.0**-5, after_scale), strict=True):
            zero = -128 if kind == "logistic" and name[0] == "y" else zeros.get(dtype, 0)
            tensors[name] = Tensor(name, shape, dtype, None if dtype == "float32" else Quant((scale,), (zero,)))
        ops.append(Op(f"op{number}", kind, (f"x{number}",), (f"y{number}",), {}))
    return Graph("edges", tensors, tuple(ops), tuple(op.inputs[0] for op in ops), tuple(op.outputs[0] for op in ops))


def rare() -> Graph:
    """Return ops side by side that few public models have, or only large ones."""
    tensors, ops, quant = dict[str, Tensor](), list[Op](), Quant((2.0**-5,), (3,))
    for h, w, c in RARE:
        shape, twice, other = (1, h, w, c), (1, 2 * h, 2 * w, c), (1, h + 3, w + 5, c)
        corners, centers = ({"align_corners": at, "half_pixel_centers": not at} for at in (True, False))
        sizes = [np.array(out[1:3], np.int32) for out in (twice, other)]
        margins, last, inner = (
            np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32),
            np.array(3, np.int32),
            np.array([1, 2], np.int32),
        )
        slopes = np.random.default_rng(c).integers(-128, 128, (1, 1, c)).astype(np.int8)
        for kind, constant, out, attrs in (
            ("prelu", slopes, shape, {}),
            ("resize_bilinear", sizes[0], twice, centers),
            ("resize_bilinear", sizes[1], other, corners),
            ("resize_nearest_neighbor", sizes[0], twice, centers),
            ("resize_nearest_neighbor", sizes[1], other, corners),
            ("arg_max", last, (1, h, w), {"dtype": "int32"}),
            ("arg_max", last, (1, h, w), {"dtype": "int64"}),
            ("reduce_max", inner, (1, 1, 1, c), {"keep_dims": True}),
            ("mean", last, (1, h, w), {"keep_dims": False}),
            ("pad", margins, (1, h + 3, w + 3, c), {}),
            ("concatenation", None, (1, h, w, 2 * c), {"axis": 3, "activation": "none"}),
            ("concatenation", None, (1, 2 * h, w, c), {"axis": 1, "activation": "none"}),
            ("transpose", np.array([0, 3, 1, 2], np.int32), (1, c, h, w), {}),
            ("transpose", np.array([0, 2, 3, 1], np.int32), (1, w, c, h), {}),
            ("transpose", np.array([0, 2, 1, 3], np.int32), (1, w, h, c), {}),
            ("minimum", None, shape, {}),
            ("mul", None, shape, {"activation": "none"}),
        ):
            number, dtype = len(ops), attrs.get("dtype", "int8")
            of_constant = quant if kind == "prelu" else None
            tensors[f"x{number}"] = Tensor(f"x{number}", shape, "int8", quant)
            tensors[f"k{number}"] = (
                Tensor(f"k{number}", shape, "int8", quant)
                if constant is None
                else Tensor(f"k{number}", constant.shape, str(constant.dtype), of_constant, constant, "constant")
            )
            tensors[f"y{number}"] = Tensor(f"y{number}", out, dtype, quant if dtype == "int8" else None)
            kept = {name: value for name, value in attrs.items() if name != "dtype"}
            ops.append(Op(f"op{number}", kind, (f"x{number}", f"k{number}"), (f"y{number}",), kept))
        for most in (1, min(5, c)):
            number, selected = len(ops), (1, h, w, most)
            tensors[f"x{number}"] = Tensor(f"x{number}", shape, "int8", quant)
            tensors[f"k{number}"] = Tensor(f"k{number}", (), "int32", None, np.array(most, np.int32), "constant")
            tensors[f"y{number}"] = Tensor(f"y{number}", selected, "int8", quant)
            tensors[f"i{number}"] = Tensor(f"i{number}", selected, "int32", None)
            ops.append(Op(f"op{number}", "topk_v2", (f"x{number}", f"k{number}"), (f"y{number}", f"i{number}"), {}))
    inputs = [name for op in ops for name in op.inputs if tensors[name].data is None]
    return Graph("rare", tensors, tuple(ops), tuple(inputs), tuple(name for op in ops for name in op.outputs))


def wide() -> Graph:
    """Return ops on int16 side by side, and other ops that no public model of this size has."""
    tensors, ops, rng = dict[str, Tensor](), list[Op](), np.random.default_rng(0)
    wide, narrow, q15 = Quant((2.0**-9,), (0,)), Quant((2.0**-5,), (3,)), Quant((2.0**-15,), (0,))
    plain, window = {"activation": "none"}, {"stride": (1, 1), "activation": "none", "padding": ((0, 0), (0, 0))}

    def add(kind: str, operands: list[Tensor], shape: tuple[int, ...], quant: Quant = wide, **attrs: object) -> None:
        number, data = len(ops), next(operand for operand in operands if operand.data is None)
        named = [replace(tensor, name=f"{tensor.name}{number}") for tensor in operands]
        named.append(Tensor(f"y{number}", shape, data.dtype, quant))
        tensors.update({tensor.name: tensor for tensor in named})
        ops.append(Op(f"op{number}", kind, tuple(tensor.name for tensor in named[:-1]), (named[-1].name,), attrs))

    def given(name: str, values: np.ndarray, quant: Quant | None = None) -> Tensor:
        return Tensor(name, values.shape, str(values.dtype), quant, values, "constant")

    def filters(units: int, *inner: int, quant: Quant = wide) -> list[Tensor]:
        weights, bias = rng.integers(-99, 100, (units, *inner)).astype(np.int8), rng.integers(-999, 999, units)
        return [
            given("w", weights, Quant((2.0**-7,), (0,))),
            given("b", bias if quant is wide else bias.astype(np.int32), Quant((2.0**-7 * quant.scale[0],), (0,))),
        ]

    for h, w, c in RARE:
        shape = (1, h, w, c)
        x, other, row = (
            Tensor(name, extents, "int16", wide) for name, extents in (("x", shape), ("z", shape), ("z", (1, 1, 1, c)))
        )
        for kind, second in product(("add", "sub", "mul"), (other, row)):
            add(kind, [x, second], shape, **plain)
        int8 = [Tensor(name, shape, "int8", narrow) for name in ("x", "z")]
        for second in (int8[1], replace(int8[1], shape=(1, 1, 1, c))):
            add("div", [int8[0], second], shape, narrow, **plain)
        add("leaky_relu", [x], shape, alpha=0.25)
        add("logistic", [x], shape, q15)
        add("tanh", [x], shape, q15)
        add("softmax", [x], shape, q15, beta=1.0)
        for axes in ([1, 2], [3]):
            mean = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
            add("mean", [x, given("k", np.array(axes, np.int32))], mean, keep_dims=True)
            add("reduce_prod", [int8[0], given("k", np.array(axes, np.int32))], mean, narrow, keep_dims=True)
        add("log_softmax", [int8[0]], shape, Quant((2.0**-4,), (127,)))
        add("l2_normalization", [int8[0]], shape, Quant((2.0**-7,), (0,)), **plain)
        for kind, (side, step) in product(("average_pool_2d", "max_pool_2d"), ((2, 2), (3, 1), (h if h == w else 4, 1))):
            out = (1, (h - side) // step + 1, (w - side) // step + 1, c)
            add(kind, [x], out, **window | {"kernel": (side, side), "stride": (step, step)})
        for side, units, step in ((1, 8, 1), (3, 8, 1), (3, 5, 2)):
            out = (1, (h - side) // step + 1, (w - side) // step + 1, units)
            add("conv_2d", [x, *filters(units, side, side, c)], out, **window | {"stride": (step, step), "dilation": (1, 1)})
            own = [x, *filters(c, side, side, 1)]  # a filter for each channel
            add("conv_2d", own, (*out[:3], c), **window | {"stride": (step, step), "dilation": (1, 1)})
            wanted = (1, (h - 1) * step + side, (w - 1) * step + side, units)
            for maps, quant in ((x, wide), (int8[0], narrow)):
                weights, bias = filters(units, side, side, c, quant=quant)
                operands = [given("k", np.array(wanted, np.int32)), weights, maps, bias]
                add("transpose_conv", operands, wanted, quant, **window | {"stride": (step, step)})
        for axis, extent in enumerate(shape[1:], 1):
            chosen = rng.integers(0, extent, 2 * extent).astype(np.int32)
            gathered = (*shape[:axis], 2 * extent, *shape[axis + 1 :])
            add("gather", [int8[0], given("k", chosen)], gathered, narrow, axis=axis, batch_dims=0)
        margins, twice = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32), (1, 2 * h, 2 * w, c)
        add("mirror_pad", [int8[0], given("k", margins)], (1, h + 3, w + 3, c), narrow, mode="reflect")
        add(
            "resize_bilinear",
            [Tensor("x", shape, "uint8", narrow), given("k", np.array(twice[1:3], np.int32))],
            twice,
            narrow,
            align_corners=False,
            half_pixel_centers=True,
        )
        for units, depth in ((10, c), (7, 16 * c)):
            line = Tensor("x", (3, depth), "int16", wide)
            add("fully_connected", [line, *filters(units, depth)], (3, units), **plain, keep_num_dims=True)
    inputs = [name for op in ops for name in op.inputs if tensors[name].data is None]
    return Graph("wide", tensors, tuple(ops), tuple(inputs), tuple(op.outputs[0] for op in ops))


def recurrent() -> Graph:
    """Return recurrent layers side by side, which no public .tflite model has."""
    tensors, ops, rng = dict[str, Tensor](), list[Op](), np.random.default_rng(0)
    for kind, (time, depth, cells), option in product(GATES, SEQUENCES, (0.0, 1.0)):
        number, rows = len(ops), GATES[kind] * cells
        names = [f"{name}{number}" for name in ("x", "w", "r", "b", "y")]
        quant, scales = Quant((2.0**-7,), (3,)), Quant((2.0**-9,) * rows, (0,) * rows, 0)
        tensors[names[0]] = Tensor(names[0], (1, time, depth), "int8", quant)
        for name, columns in zip(names[1:3], (depth, cells), strict=True):
            data = rng.integers(-127, 128, (rows, columns)).astype(np.int8)
            tensors[name] = Tensor(name, data.shape, "int8", scales, data, "constant")
        bias = rng.integers(-999, 999, rows).astype(np.int32)
        tensors[names[3]] = Tensor(names[3], (rows,), "int32", Quant((2.0**-16,) * rows, (0,) * rows, 0), bias, "constant")
        tensors[names[4]] = Tensor(names[4], (1, time, cells), "int8", quant)
        attrs = dict.fromkeys(NUMBERS[kind], option) | {"reverse": 0.0, "last": 0.0}
        inputs, outputs = [*names[:4], None, None], [names[4]]
        if kind == "stateless_lstm":
            inputs.append(None)
            outputs.append(f"c{number}")
            tensors[f"c{number}"] = Tensor(f"c{number}", (1, cells), "int16", Quant((2.0**-12,), (0,)))
        ops.append(Op(f"op{number}", kind, tuple(inputs), tuple(outputs), attrs))
    return Graph("recurrent", tensors, tuple(ops), tuple(op.inputs[0] for op in ops), tuple(op.outputs[0] for op in ops))


def matrices() -> Graph:
    """Return products of computed matrices side by side, as attention has them."""
    tensors, ops, quant = dict[str, Tensor](), list[Op](), Quant((2.0**-5,), (3,))
    for (batch, rows, depth, cols), turned in product(MATRICES, (False, True)):
        number = len(ops)
        shapes = (batch, rows, depth), (batch, cols, depth) if turned else (batch, depth, cols), (batch, rows, cols)
        names = [f"{name}{number}" for name in "aby"]
        tensors |= {name: Tensor(name, shape, "int8", quant) for name, shape in zip(names, shapes, strict=True)}
        ops.append(Op(f"op{number}", "batch_matmul", (*names[:2],), (names[2],), {"adj_x": False, "adj_y": turned}))
    return Graph(
        "matrices", tensors, tuple(ops), tuple(name for op in ops for name in op.inputs), tuple(op.outputs[0] for op in ops)
    )


def drawn(tensor: Tensor) -> np.ndarray:
    """Random values; the kernels' loops are the same for all, but software's floats take the longer the more bits they have."""
    rng = np.random.default_rng(0)
    if tensor.dtype == "float32":
        return rng.uniform(-4, 4, tensor.shape).astype(np.float32)
    return rng.integers(-100, 100, tensor.shape).astype(tensor.dtype)


def single_parts(graph: Graph, *, whole_rows: bool) -> Graph:
    """Each op of a graph that computes maps of several rows on a row of its own, or on a single pixel of it, side by side."""
    tensors: dict[str, Tensor] = {}
    ops, inputs, outputs = list[Op](), list[str](), list[str]()
    for op in graph.ops:
        out = graph.output(op)
        if SPECS[op.kind].resamples or SPECS[op.kind].family == "pad":
            continue  # a constant says how large their output is
        if len(op.outputs) > 1 or len(out.shape) != 4 or out.shape[1] == 1 or SPECS[op.kind].windows(graph, op) is None:
            continue
        part, alone = cut(graph, op, (1, out.shape[2] if whole_rows else 1))
        own = {name: replace(tensor, name=f"{op.name}_{name}") for name, tensor in part.tensors.items()}
        tensors |= {tensor.name: tensor for tensor in own.values()}
        names = [None if name is None else own[name].name for name in alone.inputs]
        ops.append(replace(alone, inputs=tuple(names), outputs=(own[out.name].name,)))
        inputs += dict.fromkeys(name for name in names if name is not None and tensors[name].data is None)
        outputs.append(own[out.name].name)
    return Graph(f"{graph.name}_{'rows' if whole_rows else 'pixels'}", tensors, tuple(ops), tuple(inputs), tuple(outputs))


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


def timed_as(key: str) -> str:
    """Return the kernel whose constants also serve for the kernel of these constants, "" if it has its own."""
    return BY_NAME[key.partition(",")[0]].timed_as


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--cores", default=",".join((*api.COST_MODEL_CORES, "cortex-m55")), help="comma-separated")
    parser.add_argument("--only", nargs="+", default=[], metavar="KERNEL", choices=BY_NAME, help="constants of these kernels")
    parser.add_argument("--largest", type=int, default=25_000_000, help="leave out networks of more multiply-accumulates")
    parser.add_argument("--write", action="store_true", help="write these cores' to tinyweave/kernels/layer_cycles.json")
    options = parser.parse_args()
    constants: dict[str, dict[str, list[float]]] = {}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        graphs = shapes(), firsts(), edges(), rare(), wide(), recurrent(), matrices()
        made = {Path(folder) / f"{graph.name}.tflite": graph for graph in graphs}
        for path, graph in made.items():
            path.write_bytes(to_tflite(graph))
        for core in options.cores.split(","):
            rows: list[Row] = []
            for path in (*sorted(options.models.glob("*.tflite")), *made):
                if options.names and not any(part in path.stem for part in options.names):
                    continue
                try:
                    if macs(api.load(path).graph) <= options.largest:
                        rows += measured(path, core, frozenset(options.only), "model" if path.stem == "edges" else "int8")
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
        own = {core: {key: new[key] for key in new if not timed_as(key)} for core, new in constants.items()}
        found = {core: dict(sorted((known.get(core, {}) | new).items())) for core, new in own.items()}
        CONSTANTS.write_text(json.dumps(known | found, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

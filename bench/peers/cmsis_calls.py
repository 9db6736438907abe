"""A layer as one direct call of CMSIS-NN: C with the functions of an emitted model `mark`, and their run on an emulated core.

In: a graph of one op; headers and library are the user's. As in TFLite Micro, `init` sizes the scratch and sums the weights of
a dense layer for the library; it is not counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from coremark import linked

from tinyweave.ir import Graph, Tensor
from tinyweave.ops import batch_matmul, conv, elementwise, fully_connected, softmax
from tinyweave.ops.fixed_point import quantize_multipliers
from tinyweave.ops.spec import activation_range
from tinyweave.simulate import emulated
from tinyweave.simulate.run import Inference
from tinyweave.simulate.target import Caches

ALIGN = 16
SUFFIXES = {"int8": "s8", "int16": "s16"}
BRACES = str.maketrans("()[]", "{}{}")
MODEL = """#include <stddef.h>
#include <stdint.h>
#include "arm_nnfunctions.h"
typedef struct {{ struct {{ void *data; size_t bytes; }} sram; }} memory;
#define AT(offset) ((void *)((char *)m->sram.data + (offset)))
static char scratch[1 << 18] __attribute__((aligned(16)));
static const cmsis_nn_context context = {{scratch, sizeof scratch}};
{constants}
int mark_init(const memory *m)
{{
    const int bytes = {bytes};
    (void)m;
    if (bytes > (int)sizeof scratch) return 1;
    {init};
    return 0;
}}
void mark_reset(const memory *m) {{ (void)m; }}
void *mark_input(const memory *m, int i) {{ return AT(inputs[i]); }}
const void *mark_output(const memory *m, int i) {{ (void)i; return {out}; }}
int mark_invoke(const memory *m, const void *io) {{ (void)io; return {call}; }}
"""


class Layer:
    """A graph of one op with its place in memory, its constants in C, and what `init` does for the call."""

    def __init__(self, graph: Graph):
        self.graph, (self.op,), self.end = graph, graph.ops, 0
        self.x, self.out = graph.input(self.op), graph.output(self.op)
        self.y = graph.input(self.op, 1) if len(self.op.inputs) > 1 else self.x
        self.channelwise = self.op.kind == "depthwise_conv_2d"
        if self.op.kind == "conv_2d" and self.y.shape[3] == 1 and len(self.y.data) == self.x.shape[3]:  # lowered from int16
            self.channelwise, filters = True, self.y.data.transpose(3, 1, 2, 0)
            self.y = replace(self.y, data=filters, shape=filters.shape)
        self.suffix, self.bytes, self.init, self.constants = SUFFIXES.get(self.x.dtype), "0", "", list[str]()
        self.places = dict[str, int]()
        for name in (*graph.inputs, self.out.name):
            self.places[name] = self.end
            self.end += -(-graph.tensors[name].bytes // ALIGN) * ALIGN
        self.declare("int", "inputs[]", [self.places[name] for name in graph.inputs])

    def declare(self, kind: str, name: str, values: Sequence[Any] | np.ndarray[Any, Any] | str) -> None:
        """Add a constant: arrays are flattened, tuples in tuples are structs in structs."""
        values = values.ravel().tolist() if isinstance(values, np.ndarray) else values
        self.constants.append(f"static const {kind} {name} = {str(values).translate(BRACES)};")

    def at(self, tensor: Tensor, kind: str = "") -> str:
        """Return a pointer to a tensor; declare a constant, with elements of another type if `kind` is one."""
        if tensor.data is None:
            return f"AT({self.places[tensor.name]})"
        name = f"constant_{self.op.inputs.index(tensor.name)}"
        self.declare(f"{kind or tensor.dtype}_t", f"{name}[]", tensor.data)
        return name

    def clamp(self) -> tuple[int, int]:
        return activation_range(self.op.attrs.get("activation", "none"), self.out)

    def weighted(self, struct: str, params: tuple[Any, ...], factors: Any, *sizes: tuple[int, ...]) -> str:
        """Declare what layers with weights have in common, and return the arguments after the context.

        Args:
            struct: names the type of `params`.
            factors: multipliers and shifts.
            sizes: extents of input, filter and output.
        """
        bias, wide = self.graph.optional_input(self.op, 2), self.suffix == "s16"
        self.declare("int32_t", "multiplier[]", factors[0])
        self.declare("int32_t", "shift[]", factors[1])
        self.declare(f"cmsis_nn_{struct}_params", "params", params)
        for name, extents in zip(("from", "filter", "to", "biases"), (*sizes, (1, 1, 1, sizes[2][3])), strict=True):
            self.declare("cmsis_nn_dims", name, extents)
        at = self.at(bias, "int64" if wide and struct == "fc" else "") if bias else "0"
        if bias and wide and struct == "conv":
            self.declare("cmsis_nn_bias_data", "biased", f"{{{at}, {int(bias.dtype == 'int32')}}}")
            at = "&biased"
        weights = self.at(self.y)
        return f"&params, &scales, &from, {self.at(self.x)}, &filter, {weights}, &biases, {at}, &to, {self.at(self.out)}"


def convolution(a: Layer) -> str:
    depthwise, attrs = a.channelwise, a.op.attrs
    name = f"arm_{'depthwise_conv' if depthwise else 'convolve'}_wrapper_{a.suffix}"
    before = tuple(first for first, _ in attrs["padding"])
    tiles = (tuple(pair[::-1]) for pair in (attrs["stride"], before, attrs.get("dilation", (1, 1))))
    multiples = (a.out.shape[3] // a.x.shape[3],) * depthwise
    params = (-a.x.zero_point, a.out.zero_point, *multiples, *tiles, a.clamp())
    factors, sizes = conv.requant(a.graph, a.op), (a.x.shape, a.y.shape, a.out.shape)
    arguments = a.weighted("dw_conv" if depthwise else "conv", params, factors, *sizes)
    a.declare("cmsis_nn_per_channel_quant_params", "scales", "{multiplier, shift}")
    a.bytes = f"{name}_get_buffer_size(&params, &from, &filter, &to)"
    return f"{name}(&context, {arguments})"


def dense(a: Layer) -> str:
    units, depth = a.y.shape
    rows, offset = a.x.elements // depth, -a.x.zero_point
    multipliers, shifts = quantize_multipliers(fully_connected.scales(a.graph, a.op))
    sizes = ((rows, 1, 1, depth), (depth, 1, 1, units), (rows, 1, 1, units))
    arguments = a.weighted("fc", (offset, 0, a.out.zero_point, a.clamp()), (multipliers, shifts), *sizes)
    a.bytes = f"arm_fully_connected_{a.suffix}_get_buffer_size(&filter)"
    if a.suffix == "s16":
        a.declare("cmsis_nn_per_tensor_quant_params", "scales", (int(multipliers[0]), int(shifts[0])))
        return f"arm_fully_connected_s16(&context, {arguments})"
    a.declare("cmsis_nn_quant_params", "scales", f"{{multiplier, shift, {int(multipliers.size > 1)}}}")
    bias = "constant_2" if a.graph.optional_input(a.op, 2) else "0"
    a.init = f"if (bytes) arm_vector_sum_s8((int32_t *)scratch, {depth}, {units}, constant_1, {offset}, 0, {bias})"
    return f"arm_fully_connected_wrapper_s8(&context, {arguments})"


def binary(a: Layer) -> str:
    zeros = -a.x.zero_point, -a.y.zero_point
    if a.op.kind == "add":
        (first, second, output), left = elementwise.add_rescales(a.graph, a.op), elementwise.add_left_shift(a.graph, a.op)
        scaling: tuple[int, ...] = (zeros[0], *first, zeros[1], *second, left)
    else:
        scaling, output = zeros, elementwise.mul_rescale(a.graph, a.op)
    first_two = [a.at(tensor) for tensor in dict.fromkeys((a.x, a.y))] * (1 + (a.x is a.y))
    values = (*first_two, *scaling, a.at(a.out), a.out.zero_point, *output, *a.clamp(), a.out.elements)
    return f"arm_elementwise_{a.op.kind}_{a.suffix}({', '.join(map(str, values))})"


def pool(a: Layer) -> str:
    attrs, average = a.op.attrs, a.op.kind == "average_pool_2d"
    name, before = f"arm_{'avgpool' if average else 'max_pool'}_{a.suffix}", tuple(first for first, _ in attrs["padding"])
    a.declare("cmsis_nn_pool_params", "params", (tuple(attrs["stride"][::-1]), before[::-1], a.clamp()))
    for dims, extents in {"from": a.x.shape, "window": (1, *attrs["kernel"], 1), "to": a.out.shape}.items():
        a.declare("cmsis_nn_dims", dims, extents)
    a.bytes = f"{name}_get_buffer_size({a.out.shape[2]}, {a.x.shape[3]})" if average else "0"
    return f"{name}(&context, &params, &from, {a.at(a.x)}, &window, &to, {a.at(a.out)})"


def probabilities(a: Layer) -> str:
    depth = a.x.shape[-1]
    values = (a.at(a.x), a.x.elements // depth, depth, *softmax.parameters(a.graph, a.op), a.at(a.out))
    return f"(arm_softmax_s8{'_s16' * (a.out.dtype == 'int16')}({', '.join(map(str, values))}), 0)"


def matrices(a: Layer) -> str:
    a.declare("cmsis_nn_per_tensor_quant_params", "scales", tuple(batch_matmul.rescale(a.graph, a.op)))
    zeros = (-a.x.zero_point, -a.y.zero_point, a.out.zero_point)
    a.declare("cmsis_nn_bmm_params", "params", (0, 0, (*zeros, a.clamp())))
    for name, shape in (("from", a.x.shape), ("second", a.y.shape), ("to", a.out.shape)):
        a.declare("cmsis_nn_dims", name, (1,) * (4 - len(shape)) + shape)
    a.bytes, places = f"4 * {a.y.shape[-2]}", f"&from, {a.at(a.x)}, &second, {a.at(a.y)}, &to, {a.at(a.out)}"
    return f"arm_batch_matmul_{a.suffix}(&context, &params, &scales, {places})"


CALLS = {"conv_2d": convolution, "depthwise_conv_2d": convolution, "fully_connected": dense, "add": binary, "mul": binary}
CALLS |= {"average_pool_2d": pool, "max_pool_2d": pool, "softmax": probabilities, "batch_matmul": matrices}


def has_function(graph: Graph) -> bool:
    """Return whether this module calls the library for a graph of one op; its functions do not broadcast or transpose."""
    a = Layer(graph)
    attrs, kind, wide = a.op.attrs, a.op.kind, a.suffix == "s16"
    if kind not in CALLS or a.suffix is None or attrs.get("unsigned"):  # uint8 in the file, with zero points of weights
        return False
    if kind in ("add", "mul"):
        return a.x.shape == a.y.shape
    if kind == "batch_matmul":
        return not attrs["adj_x"] and attrs["adj_y"] and not attrs.get("once") and len(a.out.shape) <= 4
    if kind == "conv_2d" and wide and not a.channelwise and a.x.shape[3] != a.y.shape[3]:  # groups
        return False
    if kind == "fully_connected" and wide and fully_connected.scales(graph, a.op).size > 1:
        return False
    return "pool" in kind or (not wide if kind == "softmax" else a.y.dtype == "int8")  # softmax on int16 takes tables


def linked_call(a: Layer, core: str, folder: Path, library: Path, include: Sequence[Path]) -> emulated.Firmware:
    """Write the call of a layer into a folder, and link it with the library."""
    text, out = CALLS[a.op.kind](a), f"AT({a.places[a.out.name]})"
    code = MODEL.format(constants="\n".join(a.constants), bytes=a.bytes, init=a.init, out=out, call=text)
    (folder / "mark.c").write_text(code)
    return linked(core, folder, ("-O2", "-w"), include, library)


def parts(graph: Graph, core: str, library: Path, include: Sequence[Path]) -> dict[str, int]:
    """Return the bytes of each function and constant that the call needs after `init`; its own begin with the op's name."""
    with tempfile.TemporaryDirectory() as folder:
        built = linked_call(Layer(graph), core, Path(folder), library, include)
        own, table = Path(folder, "mark.c").read_text(), emulated.elf(built.path).get_section_by_name(".symtab")
    spare = {"scratch", *(f"mark_{name}" for name in emulated.FUNCTIONS if name != "invoke")}
    sizes = {s.name: s["st_size"] for s in table.iter_symbols() if s["st_size"] and s.name not in spare}
    names = {name: f"{graph.ops[0].name} {name}" if name in own and "arm_" not in name else name for name in sizes}
    return {names[name]: size for name, size in sizes.items() if "get_buffer_size" not in name}


def call(
    graph: Graph,
    core: str,
    inputs: Sequence[np.ndarray[Any, Any]],
    library: Path,
    include: Sequence[Path],
    *,
    caches: Caches | None = None,
) -> Inference:
    """Run a graph of one op, for which the library has a function, on an emulated core by a call of this function."""
    a = Layer(graph)
    with tempfile.TemporaryDirectory() as folder:
        firmware = linked_call(a, core, Path(folder), library, include)
        data = [x.tobytes() for x in inputs]
        return emulated.invoke(firmware, {"sram": a.end + 64}, data, [a.out.bytes], caches=caches)

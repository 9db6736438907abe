"""The kernels that exist: per variant its C files, the ops it can run, its scratch, and how far its writes trail its reads.

In: a graph and one of its ops. Out: the row of the kernel that runs it. Knows no plan; the planner picks among the rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, itemsize, packed
from ..ops import SPECS, data, elementwise, resize
from ..ops.conv import groups, weights_zero
from ..ops.data_movement import PIECES, pad_value
from ..ops.reduce import axes
from . import copies, cycle_features, geometry
from . import overlap_distance as distance
from .cycle_features import Features, broadcast, lines, pairs, pixels, taps, tiles
from .dsp import dense, dense_w4, depthwise, winograd
from .dsp import taps as taps_dsp
from .mve import weights as mve
from .overlap_distance import Distances
from .scalar import convolution as scalar

# C files and headers by name; emitted they lie side by side
FILES = dict(sorted((path.name, path) for path in Path(__file__).parent.rglob("*.[ch]")))
CODE_BYTES = Path(__file__).with_name("code_bytes.json")  # of each C file for a Cortex-M4, measured by bench/code_size.py
SETS = ("tw_line.c",)  # files with a function for each size of window and stride

S4, S8, S16, ANY = ("int4", "int4"), ("int8", "int8"), ("int16", "int16"), ("any", "any")
VIEWS = ("reshape", "squeeze", "expand_dims")
RESCALED = ("conv_2d", "depthwise_conv_2d", "fully_connected", "transpose_conv")
RESCALE_BYTES = 5  # a multiplier and a shift
# what all cores have; a multiplier and no DSP; that of RISC-V, with many registers; the Arm DSP extension; the same in an order
# for cores that start two instructions at once; MVE, Helium
Isa = Literal["", "scalar", "rv32m", "dsp", "m7", "mve"]
RV32M = ("rv32imc", "rv32imac", "sifive-e31")
SCALAR = (*RV32M, "cortex-m0", "cortex-m0plus", "cortex-m3")
DSP = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m85")
MVE = ("cortex-m55", "cortex-m85")  # these have DSP too
M7 = ("cortex-m7",)
ASKED_FOR = ("flash_heavy", "lean", "copying")  # kinds of kernels that are taken only where that is asked for
DSP_FORMS: tuple[Isa, ...] = ("m7", "dsp")  # of a kernel that has both, the one that is looked at first
CORES_WITH: dict[Isa, tuple[str, ...]] = {"": (), "scalar": SCALAR, "rv32m": RV32M, "dsp": DSP, "m7": M7, "mve": MVE}


def constant_bytes(graph: Graph, op: Op) -> int:
    """Bytes of an op's constant operands, and where it has weights of how the sums of each output channel are rescaled."""
    constants = sum(x.bytes for x in graph.inputs_of(op) if x is not None and x.data is not None)
    return constants + RESCALE_BYTES * graph.output(op).shape[-1] if op.kind in RESCALED else constants


@dataclass(frozen=True)
class Variant:
    """One C function, `name`, in a C file of its name, and all that is asked of it: nobody looks at its name.

    kinds: the op kinds that it runs. params: the C type of its parameters, its own name where it has none. types: the types of
    the input that it works on and of the output. isa: the instruction set that it needs, "" = what all cores have; "m7" = DSP,
    in an order that only pays on a core that starts two instructions at once, a Cortex-M7. has_part: whether there is a form of
    it for a range of the output, from and to parts of maps; has_rows: one that takes the rows of its input as they come.
    applies: whether it runs this op, kind and types apart. scratch: bytes of working memory for one call. distance: per input
    the bytes by which the output's start must lie below its own when both overlap (the writes trail the reads by it); an input
    without one must not overlap. flash: bytes of constants that it keeps for this op. stream: the words that stand for the
    weights, biases and multipliers where it reads those; weights: how weights lie otherwise. features: what its cycles depend
    on; loop_bytes: of the code of its inner loop, where a small cache may not hold that; timed_as: the kernel whose constants
    count for it, "" = it has its own. computes_in_float: also between whole numbers. Three kinds are taken only where that is
    asked for. flash_heavy: it keeps many more constants than others do and is not always faster. lean: it needs no scratch,
    which another of the core's kernels does that is faster on whole maps. copying: it copies its stream to scratch and reads it
    there, which only pays where Flash waits.
    """

    name: str
    kinds: tuple[str, ...]
    params: str
    types: tuple[str, str] = S8
    isa: Isa = ""
    has_part: bool = True
    has_rows: bool = False
    applies: Callable[[Graph, Op], bool] = lambda graph, op: True
    scratch: Callable[[Graph, Op], int] = lambda graph, op: 0
    distance: Callable[[Graph, Op], Distances] = distance.none
    flash: Callable[[Graph, Op], int] = constant_bytes
    stream: Callable[[Graph, Op], NDArray[np.uint32]] | None = None
    weights: Callable[[NDArray[np.int8]], NDArray[np.int8]] = lambda weights: weights
    features: Callable[[Graph, Op], Features] = cycle_features.plain
    loop_bytes: int = 0
    timed_as: str = ""
    computes_in_float: bool = False
    flash_heavy: bool = False
    lean: bool = False
    copying: bool = False

    @property
    def cores(self) -> tuple[str, ...]:
        """The cores that it is for, empty = all."""
        return CORES_WITH[self.isa]

    @property
    def files(self) -> tuple[str, ...]:
        """Its own C file, without what that includes; none of a function of the C library."""
        return tuple(file for file in (f"{self.name}.c",) if file in FILES)

    @cached_property
    def header(self) -> str:
        """The header that declares it, which its C file includes first; "" for a function of the C library."""
        found = [re.search(r'^#include "(\w+\.h)"', FILES[file].read_text(), re.MULTILINE) for file in self.files]
        return found[0][1] if found and found[0] else ""

    def sums(self, graph: Graph, op: Op) -> int:
        """Bytes of the sums in which its form for rows collects its output; 0: none."""
        x = graph.input(op)
        if not self.has_rows or len(x.shape) != 4 or x.shape[0] != 1:
            return 0
        _, h, w, c = x.shape
        if op.kind == "mean":
            one = geometry.reduction(x.shape, axes(graph, op)) == geometry.Reduction((1, c, 1), (h * w, 1))
        else:
            (top, _), (left, _) = op.attrs["padding"]
            one = (
                graph.output(op).shape[1:3] == (1, 1) and op.attrs["kernel"][0] - top >= h and op.attrs["kernel"][1] - left >= w
            )
        return 4 * c if one else 0


def _broadcasts(graph: Graph, op: Op) -> bool:
    return geometry.broadcast(graph.input(op).shape, graph.input(op, 1).shape) is not None


def _pads(graph: Graph, op: Op) -> bool:
    return _pads_bytes(graph, op) and copies.padded(graph, op) is not None


def _reduces(graph: Graph, op: Op) -> bool:
    return geometry.reduction(graph.input(op).shape, axes(graph, op)) is not None


def _is_signed(graph: Graph, op: Op) -> bool:
    return {graph.input(op).dtype, graph.output(op).dtype} <= {"int8", "int16", "int32"}


def _pads_bytes(graph: Graph, op: Op) -> bool:
    """What is copied needs no padding, or one that memset can write."""
    return itemsize(graph.output(op).dtype) == 1 or pad_value(graph, op) == 0


def packed_by_tap(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """int4 weights two to a byte; what the last axis counts begins in a byte of its own."""
    return packed(weights).view(np.int8)


def packed_by_filter(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """int4 weights two to a byte; a filter begins in a byte of its own."""
    return packed_by_tap(weights.reshape(len(weights), -1))


def _weights_are_offset(graph: Graph, op: Op) -> bool:
    return weights_zero(graph, op) != 0


def _weights_are_int4(graph: Graph, op: Op) -> bool:
    return graph.input(op, 1).dtype == "int4"


def _is_dense(graph: Graph, op: Op) -> bool:
    return groups(graph, op) == 1 and tuple(op.attrs["dilation"]) == (1, 1)


def _pairs_up(graph: Graph, op: Op) -> bool:
    return weights_zero(graph, op) == 0 and _is_dense(graph, op) and dense.is_exact(dense.filters(graph, op))


def _is_lean(graph: Graph, op: Op) -> bool:
    """Pairs up, of pixels of whole words."""
    is_small = graph.input(op).shape[3] % dense.LEAN_DEPTH == 0 and graph.input(op, 1).shape[1] <= dense.LEAN_ROWS
    return is_small and _pairs_up(graph, op)


def _eights(graph: Graph, op: Op) -> bool:
    if weights_zero(graph, op) != 0:
        return False
    given = dense.filters(graph, op)
    return dense.sums_exactly(given) and dense.rescales_once(given)


def _fours(graph: Graph, op: Op) -> bool:
    return _weights_are_int4(graph, op) and _is_dense(graph, op) and dense_w4.is_exact(dense.filters(graph, op))


def _words_of_int4(graph: Graph, op: Op) -> bool:
    """Dense, of pixels of whole words."""
    if not _is_dense(graph, op) or graph.input(op).shape[3] % 8:
        return False
    return dense_w4.is_exact(dense_w4.of_int4(dense.filters(graph, op)))


def _eight_fours(graph: Graph, op: Op) -> bool:
    if not _weights_are_int4(graph, op):
        return False
    given = dense.filters(graph, op)
    return dense_w4.sums_exactly(given) and dense.rescales_once(given)


def _adds_alike(graph: Graph, op: Op) -> bool:
    """One shape, one operand that is halved, shifts that the kernel can do, and a difference that is the sum with a negative
    multiplier."""
    a, b, out = graph.input(op), graph.input(op, 1), graph.output(op)
    if not a.shape == b.shape == out.shape or a.data is not None or b.data is not None:
        return False
    *_, output = elementwise.add_rescales(graph, op)
    fits = elementwise.halved(graph, op) is not None and -output.shift in dense.EXPONENTS
    return fits and elementwise.negates_exactly(graph, op)


def _multiplies_small(graph: Graph, op: Op) -> bool:
    """A shift that the kernel can do, and a multiplier that is not 0."""
    rescale = elementwise.mul_rescale(graph, op)
    return _broadcasts(graph, op) and rescale.multiplier > 0 and -rescale.shift in dense.EXPONENTS


VARIANTS: tuple[Variant, ...] = (
    Variant(
        "tw_conv_2d_s8_offset",
        ("conv_2d",),
        "tw_conv_offset",
        applies=_weights_are_offset,
        distance=distance.by_pixel,
        features=pixels,
    ),
    Variant(
        "tw_conv_2d_s8_mve",
        ("conv_2d",),
        "tw_conv_mve",
        isa="mve",
        applies=mve.multiplies,
        scratch=mve.scratch,
        distance=mve.distances,
        stream=dense.of_filters(mve.stream),
        features=pixels,
    ),
    Variant(
        "tw_conv_2d_s8_w4_dsp",
        ("conv_2d",),
        "tw_conv_dsp",
        isa="dsp",
        applies=_fours,
        scratch=dense.scratch,
        distance=distance.by_two_pixels,
        stream=dense.of_rows(dense_w4.stream),
        features=pairs,
        timed_as="tw_conv_2d_s8_dsp",
    ),
    Variant(
        "tw_conv_2d_s8_winograd_dsp",
        ("conv_2d",),
        "tw_conv_dsp",
        isa="dsp",
        applies=winograd.applies,
        scratch=winograd.scratch,
        distance=winograd.distances,
        flash=winograd.flash,
        flash_heavy=True,
        stream=dense.of_filters(winograd.stream),
        features=tiles,
    ),
    Variant(
        "tw_conv_2d_s8_lean_dsp",
        ("conv_2d",),
        "tw_conv_lean_dsp",
        isa="dsp",
        applies=_is_lean,
        distance=distance.by_pixel_of_fours,
        flash=dense.lean_flash,
        stream=dense.of_rows(dense.stream),
        features=cycle_features.windows,
        lean=True,
    ),
    *(
        Variant(
            f"tw_conv_2d_s8_copying_{isa}",
            ("conv_2d",),
            "tw_conv_dsp",
            isa=isa,
            has_part=False,
            applies=_pairs_up,
            scratch=dense.copying_scratch,
            distance=distance.by_two_pixels,
            flash=dense.flash,
            stream=dense.of_rows(dense.stream),
            features=pairs,
            timed_as=f"tw_conv_2d_s8_{isa}",
            copying=True,
        )
        for isa in DSP_FORMS
    ),
    *(
        Variant(
            f"tw_conv_2d_s8_{isa}",
            ("conv_2d",),
            "tw_conv_dsp",
            isa=isa,
            applies=_pairs_up,
            scratch=dense.scratch,
            distance=distance.by_two_pixels,
            flash=dense.flash,
            stream=dense.of_rows(dense.stream),
            features=pairs,
        )
        for isa in DSP_FORMS
    ),
    Variant(
        "tw_conv_2d_s8_w4",
        ("conv_2d",),
        "tw_conv",
        applies=_weights_are_int4,
        distance=distance.by_pixel,
        weights=packed_by_filter,
        features=pixels,
        timed_as="tw_conv_2d_s8",
    ),
    Variant(
        "tw_conv_2d_s8_scalar",
        ("conv_2d",),
        "tw_conv",
        isa="rv32m",
        applies=scalar.is_dense,
        distance=scalar.by_pixels,
        features=pixels,
    ),
    Variant("tw_conv_2d_s8", ("conv_2d",), "tw_conv", distance=distance.by_pixel, features=pixels),
    Variant(
        "tw_depthwise_conv_2d_s8_offset",
        ("depthwise_conv_2d",),
        "tw_conv_offset",
        applies=_weights_are_offset,
        distance=distance.by_channel,
        features=taps,
    ),
    Variant(
        "tw_depthwise_conv_2d_s8_mve",
        ("depthwise_conv_2d",),
        "tw_depthwise_mve",
        isa="mve",
        applies=mve.takes_taps,
        scratch=mve.taps_scratch,
        distance=mve.taps_distances,
        stream=mve.words_of_taps,
        features=taps,
    ),
    *(
        Variant(
            f"tw_depthwise_{size}x{size}_s8_lean_{isa}",
            ("depthwise_conv_2d",),
            "tw_depthwise_lean_dsp",
            isa=isa,
            applies=partial(taps_dsp.applies, size=size),
            distance=taps_dsp.distances,
            flash=taps_dsp.flash,
            stream=dense.of_filters(taps_dsp.stream),
            features=cycle_features.outputs,
            loop_bytes=taps_dsp.LOOP_BYTES[size],
            lean=True,
        )
        for isa in DSP_FORMS
        for size in taps_dsp.SIZES
    ),
    Variant(
        "tw_depthwise_pixel_s8_dsp",
        ("depthwise_conv_2d",),
        "tw_conv_dsp",
        isa="dsp",
        has_part=False,
        applies=taps_dsp.is_for_a_pixel,
        distance=taps_dsp.distances,
        flash=taps_dsp.flash,
        stream=dense.of_filters(taps_dsp.stream),
        features=cycle_features.pixel,
    ),
    Variant(
        "tw_depthwise_3x3_s8_m7",
        ("depthwise_conv_2d",),
        "tw_depthwise_dsp",
        isa="m7",
        applies=depthwise.is_three_by_three,
        scratch=depthwise.scratch,
        distance=depthwise.distances,
        flash=depthwise.flash,
        stream=depthwise.words,
        features=lines,
    ),
    Variant(
        "tw_depthwise_column_s8_dsp",
        ("depthwise_conv_2d",),
        "tw_depthwise_dsp",
        isa="dsp",
        has_part=False,
        applies=depthwise.is_column_for_it,
        scratch=depthwise.scratch,
        distance=depthwise.distances,
        flash=depthwise.flash,
        stream=depthwise.words,
        features=lines,
    ),
    Variant(
        "tw_depthwise_conv_2d_s8_dsp",
        ("depthwise_conv_2d",),
        "tw_depthwise_dsp",
        isa="dsp",
        applies=depthwise.applies,
        scratch=depthwise.scratch,
        distance=depthwise.distances,
        flash=depthwise.flash,
        stream=depthwise.words,
        features=lines,
    ),
    Variant(
        "tw_depthwise_conv_2d_s8_w4",
        ("depthwise_conv_2d",),
        "tw_conv",
        applies=_weights_are_int4,
        distance=distance.by_four_channels,
        weights=packed_by_tap,
        features=taps,
        timed_as="tw_depthwise_conv_2d_s8",
    ),
    Variant(
        "tw_depthwise_3x3_s8_scalar",
        ("depthwise_conv_2d",),
        "tw_conv",
        isa="scalar",
        applies=scalar.is_depthwise,
        distance=scalar.by_runs,
        features=taps,
    ),
    Variant("tw_depthwise_conv_2d_s8", ("depthwise_conv_2d",), "tw_conv", distance=distance.by_four_channels, features=taps),
    Variant(
        "tw_fully_connected_s8_offset",
        ("fully_connected",),
        "tw_fully_connected_offset",
        applies=_weights_are_offset,
        distance=distance.by_row,
    ),
    Variant("tw_transpose_conv_s8", ("transpose_conv",), "tw_conv", distance=distance.by_meeting),
    Variant(
        "tw_fully_connected_s8_mve",
        ("fully_connected",),
        "tw_fully_connected",
        isa="mve",
        applies=mve.rescales_once,
        distance=partial(distance.by_row_for_some, at_once=4),
    ),
    Variant(
        "tw_fully_connected_s8_w4_dsp",
        ("fully_connected",),
        "tw_fully_connected_dsp",
        isa="dsp",
        applies=_eight_fours,
        distance=partial(distance.by_row_for_some, at_once=8),
        stream=dense.of_filters(dense_w4.eight_at_a_time),
        timed_as="tw_fully_connected_s8_dsp",
    ),
    *(
        Variant(
            f"tw_fully_connected_s8_{isa}",
            ("fully_connected",),
            "tw_fully_connected_dsp",
            isa=isa,
            applies=_eights,
            distance=partial(distance.by_row_for_some, at_once=8),
            flash=dense.flash_of_eights,
            stream=dense.of_filters(dense.eight_at_a_time),
        )
        for isa in DSP_FORMS
    ),
    Variant(
        "tw_fully_connected_s8_w4",
        ("fully_connected",),
        "tw_fully_connected",
        applies=_weights_are_int4,
        distance=distance.by_row,
        weights=packed_by_tap,
        timed_as="tw_fully_connected_s8",
    ),
    Variant("tw_fully_connected_s8", ("fully_connected",), "tw_fully_connected", distance=distance.by_row),
    Variant("tw_average_pool_2d_s8", ("average_pool_2d",), "tw_pool", has_rows=True, distance=distance.by_channel),
    Variant("tw_max_pool_2d_s8", ("max_pool_2d",), "tw_pool", distance=distance.by_channel),
    Variant(
        "tw_resize_bilinear_s8_float",
        ("resize_bilinear",),
        "tw_resize_bilinear_float",
        applies=lambda graph, op: resize.is_unsigned(op),
        distance=distance.resized,
        computes_in_float=True,
    ),
    Variant("tw_resize_bilinear_s8", ("resize_bilinear",), "tw_resize_bilinear", distance=distance.resized),
    Variant("tw_batch_matmul_s8", ("batch_matmul",), "tw_batch_matmul", has_part=False, distance=distance.multiplied),
    Variant("tw_mean_s8", ("mean",), "tw_mean", has_rows=True, applies=_reduces, distance=distance.reduced),
    Variant(
        "tw_add_s8_mve",
        ("add", "sub"),
        "tw_add_mve",
        isa="mve",
        applies=_adds_alike,
        distance=distance.elementwise,
        features=broadcast,
    ),
    Variant(
        "tw_add_s8_dsp",
        ("add", "sub"),
        "tw_add_dsp",
        isa="dsp",
        applies=_adds_alike,
        distance=distance.elementwise,
        features=broadcast,
    ),
    Variant("tw_add_s8", ("add", "sub"), "tw_add", applies=_broadcasts, distance=distance.elementwise, features=broadcast),
    Variant(
        "tw_mul_s8_dsp",
        ("mul",),
        "tw_mul_dsp",
        isa="dsp",
        applies=_multiplies_small,
        distance=distance.elementwise,
        features=broadcast,
    ),
    Variant("tw_mul_s8", ("mul",), "tw_mul", applies=_broadcasts, distance=distance.elementwise, features=broadcast),
    Variant(
        "tw_squared_difference_s8",
        ("squared_difference",),
        "tw_add",
        applies=_broadcasts,
        distance=distance.elementwise,
        features=broadcast,
        timed_as="tw_add_s8",
    ),
    Variant("tw_extremum_s8", ("minimum", "maximum"), "tw_extremum", applies=_broadcasts, distance=distance.elementwise),
    Variant("tw_prelu_s8", ("prelu",), "tw_prelu", applies=_broadcasts, distance=distance.elementwise),
    Variant("tw_leaky_relu_s16", ("leaky_relu",), "tw_leaky_relu", ("int16", "int16"), distance=distance.elementwise),
    Variant(
        "tw_reduce_extremum_s8",
        ("reduce_max", "reduce_min"),
        "tw_reduce_extremum",
        has_part=False,
        applies=_reduces,
        distance=distance.reduced,
    ),
    Variant("tw_arg_max_s8_s32", ("arg_max",), "tw_arg_max", ("int8", "int32"), has_part=False, distance=distance.reduced),
    Variant("tw_arg_max_s8_s64", ("arg_max",), "tw_arg_max", ("int8", "int64"), has_part=False, distance=distance.reduced),
    Variant("tw_softmax_s8", ("softmax",), "tw_softmax", distance=distance.elementwise),
    Variant("tw_log_softmax_s8", ("log_softmax",), "tw_log_softmax", distance=distance.elementwise),
    Variant(
        "tw_lookup_s8",
        ("logistic", "tanh", "leaky_relu", "hard_swish", "elu", "gelu", "rsqrt"),
        "tw_lookup",
        distance=distance.elementwise,
    ),
    Variant(
        "tw_requantize_s8_s8", ("quantize", "relu", "relu6", "relu_n1_to_1"), "tw_requantization", distance=distance.elementwise
    ),
    Variant("tw_requantize_s8_u8", ("quantize",), "tw_requantization", ("int8", "uint8"), distance=distance.elementwise),
    Variant("tw_requantize_u8_s8", ("quantize",), "tw_requantization", ("uint8", "int8"), distance=distance.elementwise),
    Variant("tw_requantize_u8_u8", ("quantize",), "tw_requantization", ("uint8", "uint8"), distance=distance.elementwise),
    Variant(
        "tw_requantize_s8_s4",
        ("quantize",),
        "tw_requantization",
        ("int8", "int4"),
        distance=distance.elementwise,
        timed_as="tw_requantize_s8_s8",
    ),
    Variant(
        "tw_requantize_s4_s8",
        ("quantize",),
        "tw_requantization",
        ("int4", "int8"),
        distance=distance.elementwise,
        timed_as="tw_requantize_s8_s8",
    ),
    Variant("tw_quantize_f32_s8", ("quantize",), "tw_quantization", ("float32", "int8"), distance=distance.elementwise),
    Variant("tw_quantize_f32_u8", ("quantize",), "tw_quantization", ("float32", "uint8"), distance=distance.elementwise),
    Variant("tw_dequantize_s8_f32", ("dequantize",), "tw_quantization", ("int8", "float32"), distance=distance.elementwise),
    Variant("tw_dequantize_u8_f32", ("dequantize",), "tw_quantization", ("uint8", "float32"), distance=distance.elementwise),
    Variant("tw_pad_s8", ("pad", "padv2"), "tw_pad", ANY, applies=_pads, distance=distance.padded),
    Variant("tw_concatenation_s8", ("concatenation", "pack"), "tw_concatenation", ANY, distance=distance.joined),
    Variant(
        "tw_resize_nearest_neighbor_s8",
        ("resize_nearest_neighbor",),
        "tw_resize_nearest",
        ANY,
        distance=distance.shown,
        timed_as="tw_table_copy",
    ),
    Variant(
        "tw_strided_copy",
        tuple(PIECES),
        "tw_strides",
        ANY,
        has_part=False,
        applies=lambda graph, op: copies.moved(graph, op) is not None,
        distance=distance.gathered,
    ),
    Variant("tw_move", VIEWS, "tw_move", ANY, has_part=False, distance=distance.moved),  # also above its input
    Variant("tw_gather_nd", ("gather_nd",), "tw_slices", ANY, has_part=False),
    Variant("tw_cast", ("cast",), "tw_casting", ANY, has_part=False, distance=distance.elementwise),
    Variant("tw_table_copy", tuple(PIECES), "tw_tables", ANY, has_part=False, applies=_pads_bytes, distance=distance.looked_up),
    Variant("tw_softmax_s8_s16", ("softmax",), "tw_softmax", ("int8", "int16"), has_part=False, distance=distance.elementwise),
    Variant(
        "tw_conv_2d_s4_dsp",
        ("conv_2d",),
        "tw_conv_dsp",
        S4,
        isa="dsp",
        applies=_words_of_int4,
        scratch=dense_w4.scratch,
        distance=distance.by_two_pixels,
        stream=dense_w4.words_of_int4,
        features=pairs,
        timed_as="tw_conv_2d_s8_dsp",
    ),
    Variant(
        "tw_conv_2d_s4",
        ("conv_2d",),
        "tw_conv",
        S4,
        distance=distance.by_pixel,
        weights=packed_by_tap,
        features=pixels,
        timed_as="tw_conv_2d_s8",
    ),
    Variant(
        "tw_depthwise_conv_2d_s4",
        ("depthwise_conv_2d",),
        "tw_conv",
        S4,
        distance=distance.by_four_channels,
        weights=packed_by_tap,
        features=taps,
        timed_as="tw_depthwise_conv_2d_s8",
    ),
    Variant(
        "tw_fully_connected_s4",
        ("fully_connected",),
        "tw_fully_connected",
        S4,
        distance=distance.by_row,
        weights=packed_by_tap,
        timed_as="tw_fully_connected_s8",
    ),
    Variant(
        "tw_average_pool_2d_s4",
        ("average_pool_2d",),
        "tw_pool",
        S4,
        distance=distance.by_channel,
        timed_as="tw_average_pool_2d_s8",
    ),
    Variant("tw_max_pool_2d_s4", ("max_pool_2d",), "tw_pool", S4, distance=distance.by_channel, timed_as="tw_max_pool_2d_s8"),
    Variant(
        "tw_add_s4",
        ("add", "sub"),
        "tw_add",
        S4,
        applies=_broadcasts,
        distance=distance.elementwise,
        features=broadcast,
        timed_as="tw_add_s8",
    ),
    Variant("tw_conv_2d_s16", ("conv_2d",), "tw_conv_s16", S16, has_part=False, distance=distance.by_pixel, features=pixels),
    Variant("tw_transpose_conv_s16", ("transpose_conv",), "tw_conv_s16", S16, has_part=False, distance=distance.by_meeting),
    Variant(
        "tw_add_s16",
        ("add", "sub"),
        "tw_add",
        S16,
        has_part=False,
        applies=_broadcasts,
        distance=distance.elementwise,
        features=broadcast,
    ),
    Variant(
        "tw_quantize_f32_s16",
        ("quantize",),
        "tw_quantization",
        ("float32", "int16"),
        has_part=False,
        distance=distance.elementwise,
    ),
    Variant(
        "tw_dequantize_s16_f32",
        ("dequantize",),
        "tw_quantization",
        ("int16", "float32"),
        has_part=False,
        distance=distance.elementwise,
    ),
    Variant(
        "tw_requantize_any",
        ("quantize",),
        "tw_requantization_any",
        ANY,
        has_part=False,
        applies=_is_signed,
        distance=distance.elementwise,
    ),
    Variant(
        "tw_unidirectional_sequence_lstm_s8",
        ("unidirectional_sequence_lstm",),
        "tw_lstm",
        has_part=False,
        distance=distance.by_time,
    ),
    Variant("tw_svdf_s8", ("svdf",), "tw_svdf", has_part=False),
    Variant("memcpy", ("read_variable", "assign_variable"), "memcpy", ANY, has_part=False),
)

BY_NAME = {row.name: row for row in VARIANTS}
# by graph whether a kernel, by name, runs an op: a look at all of its weights, and planning asks many times
_APPLIES: WeakKeyDictionary[Graph, dict[tuple[str, Op], bool]] = WeakKeyDictionary()


def variant_for(
    graph: Graph, op: Op, core: str = "", *, flash_heavy: bool = False, lean: bool = False, copying: bool = False
) -> Variant:
    """Return the first row that runs `op`, of the portable ones and those for `core`; flash-heavy, lean and copying ones only
    if asked for."""
    rows = [row for row in VARIANTS if op.kind in row.kinds and (not row.cores or core in row.cores)]
    pair = (data(graph, op).dtype, graph.output(op).dtype)
    typed = [row for row in rows if row.types in (pair, ANY)]
    tried = _APPLIES.setdefault(graph, {})
    for row in typed:
        if (flash_heavy or not row.flash_heavy) and (lean or not row.lean) and (copying or not row.copying):
            if (row.name, op) not in tried:
                tried[row.name, op] = row.applies(graph, op)
            if tried[row.name, op]:
                return row
    if typed and op.kind in ("pad", "padv2") and not _pads_bytes(graph, op):
        raise CompileError(f"no kernel pads {pair[0]} with other values than 0", "pad with 0, or quantise it to int8", op=op)
    if typed:
        raise CompileError("no kernel runs it with its shape, which needs more than four axes", "reshape around it", op=op)
    taken = ", ".join(f"{a} -> {b}" for a, b in dict.fromkeys(row.types for row in rows)) or "none"
    hint = "; quantise the model to int8 first" if pair == ("float32", "float32") else ""
    raise CompileError(f"no kernel runs it on {pair[0]} -> {pair[1]}", f"types with a kernel: {taken}{hint}", op=op)


def without_kernel(graph: Graph) -> list[CompileError]:
    """Return why no kernel runs an op, for each op of which that is so; views need none."""
    reasons = []
    for op in graph.ops:
        try:
            if op.kind in SPECS and not SPECS[op.kind].view:
                variant_for(graph, op)
        except CompileError as error:
            reasons.append(error)
    return reasons


def foreign(names: Iterable[str], core: str) -> list[str]:
    """Of the kernels with these names, the ones that need instructions of cores other than `core`, sorted."""
    return sorted({name for name in names if name and (cores := BY_NAME[name].cores) and core not in cores})


def sources(names: Iterable[str], more: Iterable[str] = ()) -> list[Path]:
    """The C files of the variants with these names and `more`, the headers that they include, the C files of those, by name."""
    waiting = [*(file for name in names for file in BY_NAME[name].files), *more]
    found: set[str] = set()
    while waiting:
        file = waiting.pop()
        if file not in found and file in FILES:
            found.add(file)
            headers = re.findall(r'^#include "(\w+)\.h"', FILES[file].read_text(), re.MULTILINE)
            waiting += [f"{header}.{suffix}" for header in headers for suffix in "hc"]
    return [FILES[file] for file in sorted(found)]


def code_bytes(names: Iterable[str], *, of_sets: bool = False) -> int:
    """Bytes of the code of the variants with these names, of which a linker leaves out what is not called.

    of_sets: only of files with a function for each size of window and stride, of which a layer calls one.
    """
    files = [path.name for path in sources(names) if path.suffix == ".c"]
    return sum(_file_bytes()[file] for file in files if not of_sets or file in SETS)


@cache
def _file_bytes() -> dict[str, int]:
    """Return the bytes of code of each kernel file."""
    return dict(json.loads(CODE_BYTES.read_text()))

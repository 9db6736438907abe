"""Which kernel runs an op, and the properties in its row of the table."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cases.draw import constant, single_op
from cases.ops import cases

from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor
from tinyweave.kernels.dsp import dense, winograd
from tinyweave.kernels.layer_cycles import CONSTANTS
from tinyweave.kernels.table import BY_NAME, FILES, VARIANTS, Variant, constant_bytes, sources, variant_for
from tinyweave.ops import SPECS
from tinyweave.ops.conv import kernel_size
from tinyweave.ops.window import positions


def test_a_core_gets_its_own_kernels() -> None:
    quant = Quant((0.5,), (3,))
    tensors = {name: Tensor(name, (1, 4, 4, 4), "int8", quant) for name in "xy"}
    tensors["w"] = Tensor(
        "w", (4, 1, 1, 4), "int8", quant=Quant((0.01,), (0,)), data=np.ones((4, 1, 1, 4), np.int8), role="constant"
    )
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    op = Op("conv", "conv_2d", ("x", "w"), ("y",), attrs)
    graph = Graph("g", tensors, (op,), ("x",), ("y",))
    names = {
        core: variant_for(graph, op, core).name
        for core in ("", "cortex-m3", "rv32imc", "cortex-m4", "cortex-m33", "cortex-m7", "cortex-m55", "cortex-m85")
    }
    portable, scalar, dsp, two_at_once, vectors = (
        f"tw_conv_2d_s8{suffix}" for suffix in ("", "_scalar", "_dsp", "_m7", "_mve")
    )
    assert list(names.values()) == [portable, scalar, scalar, dsp, dsp, two_at_once, vectors, vectors]


def test_pads_of_int16_zeros_use_memset_and_other_int16_values_are_refused() -> None:
    """memset writes equal bytes."""
    x = Tensor("input", (1, 3, 4, 2), "int16", Quant((0.5,), (0,)))
    sizes = constant("sizes", np.array([(0, 0), (1, 1), (0, 2), (0, 0)], np.int32))
    by_value = {}
    for value in (0, 3, -1):
        fill = constant("fill", np.array([value], np.int16), x.quant)
        by_value[value] = single_op("padv2", [x, sizes, fill], replace(x, name="output"), {})
    assert variant_for(by_value[0], by_value[0].ops[0]).name == "tw_pad_s8"
    for value in (3, -1):
        with pytest.raises(CompileError, match="no kernel pads int16 with other values than 0"):
            variant_for(by_value[value], by_value[value].ops[0])


def test_flash_heavy_kernels_are_chosen_only_on_request() -> None:
    taken = 0
    for case in (case for case in cases("conv_2d") if case.graph.input(case.graph.ops[0]).dtype == "int8"):
        graph, op = case.graph, case.graph.ops[0]
        row, flash_heavy = (variant_for(graph, op, "cortex-m4", also) for also in ("", "flash_heavy"))
        if flash_heavy is not row:
            assert flash_heavy.name == "tw_conv_2d_s8_winograd_dsp" and not row.flash_heavy
            assert flash_heavy.flash(graph, op) == winograd.stream(dense.filters(graph, op)).nbytes > row.flash(graph, op)
            taken += 1
    assert taken >= 16


def test_kernels_without_scratch_are_chosen_only_on_request() -> None:
    taken = dict.fromkeys(("conv_2d", "depthwise_conv_2d"), 0)
    for case in (case for kind in taken for case in cases(kind)):
        graph, op = case.graph, case.graph.ops[0]
        row, lean = (variant_for(graph, op, "cortex-m4", also) for also in ("", "lean"))
        assert not row.lean
        if lean is not row:
            assert lean.lean and lean.scratch(graph, op) == 0 < row.scratch(graph, op)
            taken[op.kind] += 1
    assert min(taken.values()) >= 16


def padding_bytes(graph: Graph, op: Op) -> int:
    """Return the bytes of a pixel of padding, or of a row of a dense kernel's window, if a window is partly outside."""
    x, out, kernel, attrs = graph.input(op), graph.output(op), kernel_size(graph, op), op.attrs
    inside = [
        positions(
            x.shape[1 + a],
            out.shape[1 + a],
            kernel=kernel[a],
            stride=attrs["stride"][a],
            dilation=1,
            before=attrs["padding"][a][0],
        )
        for a in (0, 1)
    ]
    pixels = kernel[1] if op.kind == "conv_2d" else 1
    return 0 if all(map(np.all, inside)) else pixels * x.shape[3]


SLOWER = tuple(name for name in BY_NAME if "_outliers_" in name or "_segments_" in name)  # few cases need these kernels


def meets(graph: Graph, op: Op, row: Variant) -> bool:
    return all(requirement(graph, op).met for requirement in row.applies)


def test_predicted_flash_of_weight_streams_equals_the_emitted_words() -> None:
    """The planner counts the bytes of constants before they are emitted."""
    found = set()
    for case in (case for kind in ("conv_2d", "depthwise_conv_2d", "fully_connected") for case in cases(kind)):
        graph, op = case.graph, case.graph.ops[0]
        asked = [
            variant_for(graph, op, core, which)
            for core, which in product(("cortex-m3", "cortex-m4", "cortex-m7"), ("", "lean", "copying"))
        ]
        if graph.input(op, 1).dtype == "int8":
            asked += [row for row in (BY_NAME[name] for name in SLOWER) if op.kind in row.kinds and meets(graph, op, row)]
        for row in asked:
            if graph.input(op).dtype != "int8" or row.flash is constant_bytes:
                continue
            assert row.stream is not None
            table = padding_bytes(graph, op) if row.lean and not row.scratch(graph, op) else 0
            assert row.flash(graph, op) == row.stream(graph, op).nbytes + table, case.id
            found.add(row.name)
    streamed = {name: row for name, row in BY_NAME.items() if row.stream is not None and row.flash is not constant_bytes}
    assert found == {name for name, row in streamed.items() if not row.flash_heavy}


def test_a_dense_layer_with_shifts_of_minus_2_or_less_is_rounded_once() -> None:
    """One filter with a larger shift is enough to round all filters twice."""
    shifts = {(-2, -3): True, (-2, -2): True, (-1, -3): False, (0, 0): False}
    for shift, once in shifts.items():
        numbers = (np.array(part, np.int64) for part in (np.zeros((2, 4)), (0, 0), (1 << 30, 1 << 30), shift))
        assert dense.shifts_round_once(dense.Filters(*numbers)).met.all() == once


def test_a_recurrent_layer_whose_weights_do_not_fit_into_lanes_runs_in_portable_c() -> None:
    """The lane w0 + 256 * w1 of two filters is below -2^15 if w1 is -128 and w0 negative. The last of five cells has none."""
    cases = {(0, -1): "tw_simple_rnn_s8", (0, 1): "tw_simple_rnn_s8_dsp", (3, -1): "tw_simple_rnn_s8_dsp"}
    for (cell, weight), name in cases.items():
        data = np.full((5, 4), 3, np.int8)
        data[cell, 2], data[cell + 1, 2] = weight, -128
        quant, scales = Quant((2.0**-7,), (0,)), Quant((2.0**-9,) * 5, (0,) * 5, 0)
        tensors = {"x": Tensor("x", (1, 2, 4), "int8", quant), "y": Tensor("y", (1, 2, 5), "int8", quant)}
        tensors["w"] = Tensor("w", (5, 4), "int8", scales, data, "constant")
        tensors["r"] = Tensor("r", (5, 5), "int8", scales, np.ones((5, 5), np.int8), "constant")
        tensors["b"] = Tensor("b", (5,), "int32", None, np.zeros(5, np.int32), "constant")
        op = Op("rnn", "simple_rnn", ("x", "w", "r", "b", None, None), ("y",), {"reverse": 0, "last": 0, "relu": 0})
        assert variant_for(Graph("g", tensors, (op,), ("x",), ("y",)), op, "cortex-m4").name == name


def test_int4_weights_are_packed_two_to_a_byte_if_their_sums_are_exact() -> None:
    """The fourth of four filters in a lane can sum up to 2^19. With a larger depth each weight takes a byte."""
    names = {}
    for depth in (508, 512):
        data = np.full((4, 1, 1, depth), -8, np.int8)
        w = Tensor("w", data.shape, "int4", Quant((0.01,), (0,)), data, "constant")
        tensors = {"x": Tensor("x", (1, 4, 4, depth), "int8", Quant((0.5,), (0,))), "w": w}
        tensors["y"] = Tensor("y", (1, 4, 4, 4), "int8", Quant((9.0,), (0,)))
        attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
        graph = Graph("g", tensors, (Op("conv", "conv_2d", ("x", "w"), ("y",), attrs),), ("x",), ("y",))
        names[depth] = [variant_for(graph, graph.ops[0], core).name for core in ("cortex-m0", "cortex-m4")]
    assert names == {508: ["tw_conv_2d_s8_w4", "tw_conv_2d_s8_w4_dsp"], 512: ["tw_conv_2d_s8_w4", "tw_conv_2d_s8_dsp"]}


def test_only_kernels_without_their_own_constants_are_timed_as_others() -> None:
    timed = {key.partition(",")[0] for known in json.loads(CONSTANTS.read_text()).values() for key in known}
    borrowed = {row.name: row.timed_as for row in VARIANTS if row.timed_as}
    assert not timed & set(borrowed)
    assert set(borrowed.values()) <= {row.name for row in VARIANTS if not row.timed_as}


def test_every_op_kind_has_a_kernel_and_every_c_file_a_row() -> None:
    """The kind `shape` needs no kernel, because its value is a constant."""
    assert {kind for row in VARIANTS for kind in row.kinds} == set(SPECS) - {"shape"}
    found = sources((row.name for row in VARIANTS), ["tw_tile.c", "tw_weights.c"])  # called by stages with tiles, and by init
    assert {path for path in found if path.suffix == ".c"} == {path for path in FILES.values() if path.suffix == ".c"}
    assert len({(row.name, row.types) for row in VARIANTS}) == len(VARIANTS)
    # rows of one kernel, for int8 and bool, differ only in their types and kinds
    assert len({replace(row, kinds=(), types=("", "")) for row in VARIANTS}) == len({row.name for row in VARIANTS})


def test_sources_are_closed_under_includes() -> None:
    for row in (row for row in VARIANTS if row.files):
        names = {path.name for path in sources([row.name])}
        assert {*row.files, row.header, "tw.h"} <= names
        assert "_w4" in row.name or not [name for name in names if "w4" in name or "int4" in name], row.name
        assert row.stream is None or (row.layout in names and "stream" in FILES[row.layout].read_text()), row.name
        for path in sources([row.name]):
            assert path.is_file()
            assert set(re.findall(r'#include "(.*)"', path.read_text())) <= names
    assert [path.name for path in sources(["tw_fully_connected_s8"])] == [
        "tw.h",
        "tw_dot.c",
        "tw_dot.h",
        "tw_fully_connected.c",
        "tw_fully_connected.h",
        "tw_fully_connected_s8.c",
    ]


def test_an_op_that_no_kernel_runs_is_refused_with_the_supported_types() -> None:
    x = Tensor("x", (4,), "float32")
    op = Op("relu_0", "relu", ("x",), ("y",))
    graph = Graph("g", {"x": x, "y": Tensor("y", (4,), "float32")}, (op,), ("x",), ("y",))
    with pytest.raises(CompileError, match="float32 -> float32; types with a kernel: int8 -> int8"):
        variant_for(graph, op)
    shapes = {"a": (2, 1, 3, 1, 2), "b": (2, 4, 1, 3, 2), "c": (2, 4, 3, 3, 2)}
    add = Op("add_0", "add", ("a", "b"), ("c",), {"activation": "none"})
    for dtype in ("int8", "int16"):
        tensors = {name: Tensor(name, shape, dtype, Quant((1.0,), (3,))) for name, shape in shapes.items()}
        with pytest.raises(CompileError, match="more than four axes"):
            variant_for(Graph("g", tensors, (add,), ("a", "b"), ("c",)), add)


def test_the_page_of_kernels_names_a_user_of_each_row() -> None:
    page = (Path(__file__).parents[2] / "docs" / "KERNELS.md").read_text()
    users = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", page, re.MULTILINE)
    assert [name for name, _ in users] == list(BY_NAME), "bench/kernel_users.py --write writes the page"
    assert all(user.strip() for _, user in users)

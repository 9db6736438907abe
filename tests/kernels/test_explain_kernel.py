"""`explain_kernel` gives, for each faster kernel, the first requirement that the op fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.rows import known
from numpy.typing import NDArray

from tinyweave import api
from tinyweave.ir import Graph, Op, Quant, Tensor, rebuild, verify
from tinyweave.kernels import rows
from tinyweave.kernels.dsp import dense, dense_w4, winograd
from tinyweave.kernels.layer_cycles import layer_cycles
from tinyweave.kernels.mve import weights as mve
from tinyweave.kernels.scalar import convolution as scalar
from tinyweave.kernels.table import ASKED_FOR, BY_NAME, VARIANTS, explain_kernel, variant_for

SHIFTED_BY_1 = 0.4  # scale of a filter's weights that gives a rescale shift of -1; others have -5
CHOSEN = "the first kernel whose requirements the layer meets"


def layer(
    kind: str,
    weights: NDArray[np.int8],
    channels: int,
    *,
    zero: int = 0,
    bias: int | None = None,
    odd: int | None = None,
    scale: float = 0.02,
    activation: str = "none",
) -> Graph:
    """Return a convolution of an 8x8 map. `bias`, `scale`: of each filter. `odd`: the filter whose rescale shift is -1."""
    units = weights.shape[3] if kind == "depthwise_conv_2d" else len(weights)
    scales = tuple(SHIFTED_BY_1 if unit == odd else scale for unit in range(units))
    axis = 3 if kind == "depthwise_conv_2d" else 0
    size = 8 - weights.shape[1] + 1
    attrs: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": activation}
    tensors = [
        Tensor("x", (1, 8, 8, channels), "int8", Quant((0.5,), (0,))),
        Tensor("w", weights.shape, "int8", Quant(scales, (zero,) * units, axis), weights, "constant"),
        Tensor("y", (1, size, size, units), "int8", Quant((0.5,), (0,))),
    ]
    if bias is not None:
        data = np.full(units, bias, np.int32)
        tensors.append(Tensor("b", (units,), "int32", Quant((0.01,), (0,)), data, "constant"))
    op = Op(f"{kind}_0", kind, ("x", "w", None if bias is None else "b"), ("y",), attrs)
    return verify(Graph("layer", {tensor.name: tensor for tensor in tensors}, (op,), ("x",), ("y",)))


def ones(*shape: int) -> NDArray[np.int8]:
    return np.ones(shape, np.int8)


def reasons(graph: Graph, core: str = "cortex-m4") -> dict[str, str]:
    return dict(explain_kernel(graph, graph.ops[0], core))


def test_the_only_outlier_filter_is_named_with_its_shift() -> None:
    found = reasons(layer("conv_2d", ones(6, 1, 1, 4), 4, odd=3))
    assert found["tw_conv_2d_s8_dsp"] == (
        "requires that every filter's rescale shift is between -31 and -2, "
        "but the rescale shift of filter 3 is -1 (the only one of 6 filters)"
    )
    assert list(found.items())[-1] == ("tw_conv_2d_s8_outliers_dsp", CHOSEN)
    assert reasons(layer("conv_2d", ones(6, 1, 1, 4), 4))["tw_conv_2d_s8_dsp"] == CHOSEN


def test_filters_whose_sums_are_too_large_are_counted() -> None:
    found = reasons(layer("conv_2d", 127 * ones(6, 1, 1, 4), 4, bias=1 << 23, scale=1e-5))
    assert found["tw_conv_2d_s8_dsp"] == (
        "requires that every odd filter's sum is between -2^23 and 2^23, so that 256 times the sum is an int32, "
        "but the sum of largest magnitude of filter 1 is 8,453,124 (3 of 6 filters)"
    )


def test_filters_of_any_sum_whose_output_is_always_the_same_are_no_outliers() -> None:
    """Outputs are at most 127, and sums of about 2^24 times 0.02 are larger."""
    found = reasons(layer("conv_2d", ones(6, 1, 1, 4), 4, bias=1 << 24))
    assert found["tw_conv_2d_s8_dsp"] == CHOSEN


def test_a_depthwise_layer_with_an_outlier_gets_the_outlier_kernel() -> None:
    graph = layer("depthwise_conv_2d", ones(1, 3, 3, 8), 8, odd=3)
    assert list(reasons(graph).items())[-1] == ("tw_depthwise_conv_2d_s8_outliers_dsp", CHOSEN)
    assert not variant_for(graph, graph.ops[0], "cortex-m4", "lean").lean


def test_a_depthwise_layer_with_many_outliers_gets_the_scalar_kernel() -> None:
    """An outlier takes longer than a filter of the scalar kernel."""
    for odd, name in (([1], "tw_depthwise_conv_2d_s8_outliers_dsp"), ([0, 1], "tw_depthwise_3x3_s8_scalar")):
        graph = layer("depthwise_conv_2d", ones(1, 3, 3, 8), 8)
        scales = tuple(SHIFTED_BY_1 if unit in odd else 0.02 for unit in range(8))
        weights = replace(graph.tensors["w"], quant=Quant(scales, (0,) * 8, 3))
        graph = rebuild(graph, tensors={**graph.tensors, "w": weights})
        assert variant_for(graph, graph.ops[0], "cortex-m4").name == name


def test_a_depth_multiplier_and_too_few_channels_are_named() -> None:
    found = reasons(layer("depthwise_conv_2d", ones(1, 3, 3, 8), 1))
    assert found["tw_depthwise_conv_2d_s8_dsp"] == (
        "requires that the depth multiplier is 1, but the layer has 1 input and 8 output channels"
    )
    found = reasons(layer("depthwise_conv_2d", ones(1, 3, 3, 3), 3))
    assert found["tw_depthwise_conv_2d_s8_dsp"] == "requires that the layer has at least 4 output channels, but it has 3"


def test_optional_kernels_are_named_with_their_flash() -> None:
    graph = layer("conv_2d", ones(4, 3, 3, 4), 4)
    row, heavy = (variant_for(graph, graph.ops[0], "cortex-m4", also) for also in ("", "flash_heavy"))
    more = heavy.flash(graph, graph.ops[0]) - row.flash(graph, graph.ops[0])
    assert reasons(graph) == {heavy.name: f"could run it, with {more} B more of constants in Flash", row.name: CHOSEN}
    found = reasons(layer("conv_2d", ones(4, 3, 3, 6), 6))
    assert found[heavy.name] == "requires that the number of input channels is a multiple of 4, but it is 6"


def test_kernels_for_other_weight_formats_are_not_explained() -> None:
    tried = [f"tw_conv_2d_s8_{form}" for form in ("winograd_dsp", "dsp")]
    assert list(reasons(layer("conv_2d", ones(4, 1, 1, 4), 4))) == tried
    assert list(reasons(layer("conv_2d", ones(4, 1, 1, 4), 4, zero=3), "cortex-m0")) == ["tw_conv_2d_s8_offset"]


def test_a_filter_with_weights_beyond_int8_is_an_outlier() -> None:
    """Weights of uint8 models have a zero point, so the largest of a layer may be 9 bits wide."""
    weights = ones(6, 1, 1, 4)
    weights[3, 0, 0, 2] = 127
    assert reasons(layer("conv_2d", weights, 4))["tw_conv_2d_s8_dsp"] == CHOSEN
    found = reasons(layer("conv_2d", weights, 4, zero=-3))
    assert found["tw_conv_2d_s8_dsp"] == (
        "requires that every filter's weights, less their zero point, are int8, "
        "but the weight of largest magnitude of filter 3 is 130 (the only one of 6 filters)"
    )
    assert found["tw_conv_2d_s8_outliers_dsp"] == CHOSEN
    depthwise = layer("depthwise_conv_2d", np.moveaxis(weights, 0, 3).reshape(1, 2, 2, 6), 6, zero=-3)
    assert reasons(depthwise)["tw_depthwise_conv_2d_s8_dsp"] == CHOSEN


@pytest.mark.parametrize("kind", ["conv_2d", "depthwise_conv_2d"])
def test_a_core_with_mve_knows_the_cycles_of_kernels_for_dsp(kind: str) -> None:
    """Otherwise `balanced` would take portable C for filters with a zero point, which no kernel in MVE multiplies."""
    weights = ones(1, 3, 3, 8) if kind == "depthwise_conv_2d" else ones(8, 3, 3, 8)
    graph = layer(kind, weights, 8, zero=-3)
    chosen = variant_for(graph, graph.ops[0], "cortex-m55").name
    fast, slow = (layer_cycles(graph, graph.ops[0], name, "cortex-m55") for name in (chosen, f"tw_{kind}_s8_offset"))
    assert chosen.endswith("_dsp") and fast is not None and slow is not None and fast < slow / 2
    assert fast == layer_cycles(graph, graph.ops[0], chosen, "cortex-m33")


@pytest.mark.parametrize(("kind", "shape"), [("conv_2d", (4, 3, 3, 4)), ("depthwise_conv_2d", (1, 3, 3, 4))])
def test_compact_kernels_do_not_support_weights_with_a_zero_point(kind: str, shape: tuple[int, ...]) -> None:
    plain, offset = (layer(kind, ones(*shape), 4, zero=zero) for zero in (0, 3))
    assert variant_for(plain, plain.ops[0], also="compact").compact
    assert variant_for(offset, offset.ops[0], also="compact").name == f"tw_{kind}_s8_offset"


@pytest.mark.parametrize(("second", "kernel"), [(-127, "tw_conv_2d_s8_scalar"), (-128, "tw_conv_2d_s8")])
def test_the_sums_of_two_inputs_must_fit_into_16_bits(second: int, kernel: str) -> None:
    weights = ones(4, 1, 1, 4)
    weights[2, 0, 0, :2] = -128, second
    graph = layer("conv_2d", weights, 4)
    assert variant_for(graph, graph.ops[0], "cortex-m3").name == kernel
    assert scalar.largest_of_quads(np.array([[-128, 0, second, 5, 1]], np.int8)).tolist() == [128 - second]


def test_a_core_without_its_own_kernels_has_only_the_portable_one() -> None:
    assert reasons(known("softmax")[0].graph, "cortex-m0") == {"tw_softmax_s8": "the only kernel for it"}


@pytest.mark.parametrize("kind", ["conv_2d", "depthwise_conv_2d", "fully_connected", "add", "sub", "mul", "pad", "reduce_max"])
@pytest.mark.parametrize("core", ["", "cortex-m7", "cortex-m55", "rv32imc"])
def test_the_last_explained_kernel_runs_the_op_and_earlier_ones_are_faster(kind: str, core: str) -> None:
    passed_over = 0
    for case in known(kind):
        graph, op = case.graph, case.graph.ops[0]
        *passed, (name, _) = explain_kernel(graph, op, core)
        assert name == variant_for(graph, op, core).name
        order = [row.name for row in VARIANTS]
        assert all(core in BY_NAME[other].cores and order.index(other) < order.index(name) for other, _ in passed)
        assert all(reason.startswith(("requires that ", "could run it")) for _, reason in passed)
        passed_over += len(passed)
    own = any(core in row.cores and kind in row.kinds and not row.lean for row in VARIANTS)
    assert (passed_over > 0) == own


@pytest.mark.parametrize(
    "file, op, reason",
    [
        (
            "MohamedElhadidy0019__stm32ai-modelzoo__ssd_mobilenet_v2_fpnlite_035_192_int8",
            "conv_2d_187",
            "the rescale shift of filter 42 is -1 (the only one of 99 filters)",
        ),
        (
            "openmv__openmv__hand_landmarks_full_224",
            "conv_2d_49",
            "the sum of largest magnitude of filter 99 is 14,358,009 (the only one of 192 filters)",
        ),
    ],
)
def test_real_layers_with_an_outlier_filter_run_on_a_fast_kernel(file: str, op: str, reason: str, shared: Path) -> None:
    *passed, chosen = explained(shared, file, op)
    assert chosen == ("tw_conv_2d_s8_outliers_dsp", CHOSEN)
    assert dict(passed)["tw_conv_2d_s8_dsp"].endswith(f"but {reason}")


def test_the_slower_kernel_of_a_real_layer_is_explained(shared: Path) -> None:
    *passed, (kernel, _) = explained(shared, "harvard-edge__Wake_Vision__wv_quality_ymac", "depthwise_conv_2d_1")
    reason = "requires that the layer has at least 4 output channels, but it has 3"
    assert dict(passed)["tw_depthwise_conv_2d_s8_dsp"] == reason
    assert kernel == "tw_depthwise_3x3_s8_scalar"


def explained(shared: Path, file: str, op: str) -> list[tuple[str, str]]:
    graph = api.load(shared / "models" / f"{file}.tflite").graph
    (layer,) = (each for each in graph.ops if each.name == op)
    return explain_kernel(graph, layer, "cortex-m4")


def test_an_op_kind_is_in_only_one_family() -> None:
    """Therefore the order of the families does not matter."""
    homes: dict[str, set[str]] = {}
    for family in rows.FAMILIES:
        for kind in (kind for row in family.ROWS for kind in row.kinds):
            homes.setdefault(kind, set()).add(family.__name__)
    assert {kind: names for kind, names in homes.items() if len(names) > 1} == {}


def test_no_row_is_hidden_by_earlier_rows() -> None:
    """A row without requirements hides later rows of its kinds, types and cores, unless it is optional for the planner."""
    for family in rows.FAMILIES:
        for position, row in enumerate(family.ROWS):
            general = [r for r in family.ROWS[:position] if not (r.applies or any(getattr(r, which) for which in ASKED_FOR))]
            covering = [
                r for r in general if r.types == row.types and (not r.cores or (row.cores and {*row.cores} <= {*r.cores}))
            ]
            assert {*row.kinds} - {kind for each in covering for kind in each.kinds}, row.name


BOUNDARIES: list[tuple[dense.FilterRequirement, int, dict[str, int], dict[str, int]]] = [
    # requirement, filter, values that meet it, values that do not
    (dense.sums_fit, 0, {"bias": (1 << 30) - 1}, {"bias": 1 << 30}),
    (dense.sums_fit, 0, {"bias": 1 - (1 << 30)}, {"bias": -(1 << 30)}),
    (dense.shifts_fit, 1, {"shift": -2}, {"shift": -1}),
    (dense.shifts_fit, 1, {"shift": -31}, {"shift": -32}),
    (dense.shifts_fit, 1, {"shift": -1, "multiplier": 0}, {"shift": -1}),
    (dense.shifts_round_once, 1, {"shift": -2}, {"shift": -1}),
    (dense.packed_sums_fit, 1, {"bias": (1 << 23) - 1}, {"bias": 1 << 23}),
    (dense.packed_sums_fit, 3, {"bias": -(1 << 23)}, {"bias": -(1 << 23) - 1}),
    (dense_w4.packed_sums_fit, 1, {"bias": (1 << 27) - 1}, {"bias": 1 << 27}),
    (dense_w4.packed_sums_fit, 3, {"bias": -(1 << 19)}, {"bias": -(1 << 19) - 1}),
    (winograd.fourfold_sums_fit, 2, {"bias": (1 << 29) - 1}, {"bias": 1 << 29}),
    (mve.shifts_fit, 1, {"shift": -1}, {"shift": 0}),
    (mve.shifts_fit, 1, {"shift": 0, "multiplier": 0}, {"shift": -32}),
    (mve.unsigned_shifts_fit, 1, {"shift": 0}, {"shift": 1}),
    (mve.unsigned_shifts_fit, 1, {"shift": 1, "multiplier": 0}, {"shift": -32}),
]


@pytest.mark.parametrize("requirement, unit, good, bad", BOUNDARIES)
def test_requirements_on_filters_hold_up_to_their_limits(
    requirement: dense.FilterRequirement, unit: int, good: dict[str, int], bad: dict[str, int]
) -> None:
    for changes, met in ((good, True), (bad, False)):
        given = dense.Filters(np.zeros((4, 1), np.int64), *(np.full(4, n, np.int64) for n in (0, 1 << 30, -8)))
        for name, value in changes.items():
            getattr(given, name)[unit] = value
        check = requirement(given).check()
        assert check.met == met
        assert met or f"filter {unit} " in check.found


@pytest.mark.parametrize("taps, met", [((-128,), True), ((-128, -127), True), ((0, -128, -128), True), ((-128, -128), False)])
def test_products_of_the_taps_2n_and_2n_plus_1_add_in_16_bits(taps: tuple[int, ...], met: bool) -> None:
    """An input of -128 times two weights of -128 is 2^15, which 16 bits do not hold."""
    weights = np.zeros((2, len(taps)), np.int64)
    weights[1] = taps
    check = mve.products_add_in_16_bits(dense.Filters(weights, *(np.full(2, n, np.int64) for n in (0, 1 << 30, -8)))).check()
    assert check.met == met
    assert met or "filter 1 " in check.found


@pytest.mark.parametrize("kind, shape", [("conv_2d", (8, 1, 1, 8)), ("depthwise_conv_2d", (1, 3, 3, 8))])
def test_vectors_rescale_by_a_shift_of_0_only_if_the_activation_removes_negative_outputs(kind: str, shape: tuple) -> None:
    """VRSHL rounds negative halves away from zero only after a subtraction, which a shift of 0 would not undo."""
    for scale, activation, met in ((0.75, "relu", True), (0.75, "none", False), (0.25, "none", True), (1.5, "relu", False)):
        graph = layer(kind, ones(*shape), 8, scale=scale, activation=activation)
        assert (reasons(graph, "cortex-m55").get(f"tw_{kind}_s8_mve") == CHOSEN) == met


def test_packed_weights_of_two_filters_fit_a_lane_of_16_bits() -> None:
    """The odd filter's -128 times 256, plus a negative weight of the even filter, is below -2^15."""
    for even, odd, met in ((-1, -127, True), (0, -128, True), (-1, -128, False)):
        given = dense.Filters(np.array([[even], [odd]], np.int64), *(np.zeros(2, np.int64) for _ in range(3)))
        assert dense.weights_pack_in_pairs(given).met.all() == met

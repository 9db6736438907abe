"""Each pass on a small graph with the expected graph; all passes on real models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.sweeps import PARTS, part_of

from tests.cases.ops import GENERATORS, cases
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, diff, fingerprint, verify
from tinyweave.ops import SPECS, run, spec_for
from tinyweave.passes import check_ops, compose, run_passes, source
from tinyweave.passes.copies_to_views import copies_to_views
from tinyweave.passes.drop_unused import drop_unused
from tinyweave.passes.fold_constants import MAX_BYTES, fold_constants
from tinyweave.passes.strip_edges import strip_edges

Q = Quant((0.5,), (3,))
OTHER = Quant((0.25,), (-5,))
NO_MASKS = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0) | {
    "offset": False
}


def int8(name: str, *shape: int, quant: Quant = Q) -> Tensor:
    return Tensor(name, shape, "int8", quant)


def integers(name: str, *values: int) -> Tensor:
    return Tensor(name, (len(values),), "int32", None, np.array(values, np.int32), "constant")


def graph(tensors: list[Tensor], ops: list[Op], inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Graph:
    return verify(Graph("net", {t.name: t for t in tensors}, tuple(ops), inputs, outputs))


def flatten() -> Graph:
    """Return the ops that converters write for Flatten: the batch of the input's shape, packed with -1 for reshape."""
    tensors = [
        int8("x", 1, 4, 5, 2),
        Tensor("shape", (4,), "int32"),
        integers("zero", 0),
        integers("one", 1),
        Tensor("batch", (), "int32"),
        Tensor("rest", (), "int32", None, np.array(-1, np.int32), "constant"),
        Tensor("extents", (2,), "int32"),
        int8("y", 1, 40),
    ]
    ops = [
        Op("shape_0", "shape", ("x",), ("shape",)),
        Op("strided_slice_1", "strided_slice", ("shape", "zero", "one", "one"), ("batch",), NO_MASKS | {"shrink_axis_mask": 1}),
        Op("pack_2", "pack", ("batch", "rest"), ("extents",), {"axis": 0}),
        Op("reshape_3", "reshape", ("x", "extents"), ("y",), {"new_shape": None}),
    ]
    return graph(tensors, ops, ("x",), ("y",))


def test_the_shape_arithmetic_of_flatten_folds() -> None:
    expected = graph(
        [int8("x", 1, 4, 5, 2), integers("extents", 1, -1), int8("y", 1, 40)],
        [Op("reshape_3", "reshape", ("x", "extents"), ("y",), {"new_shape": None})],
        ("x",),
        ("y",),
    )
    folded, tensors = fold_constants(flatten())
    assert diff(folded, expected) == [] and tensors == {}


def test_ops_on_constants_fold_with_their_arithmetic() -> None:
    a = Tensor("a", (3,), "int8", Q, np.array([-128, 3, 127], np.int8), "constant")
    tensors = [int8("x", 3), a, int8("b", 3, quant=OTHER), int8("y", 3)]
    ops = [
        Op("quantize_0", "quantize", ("a",), ("b",)),
        Op("add_1", "add", ("x", "b"), ("y",), {"activation": "none"}),
    ]
    # real = 0.5 * (q - 3) = -65.5, 0, 62; q' = real / 0.25 - 5, within int8
    b = Tensor("b", (3,), "int8", OTHER, np.array([-128, -5, 127], np.int8), "constant")
    expected = graph([int8("x", 3), b, int8("y", 3)], ops[1:], ("x",), ("y",))
    assert diff(fold_constants(graph(tensors, ops, ("x",), ("y",)))[0], expected) == []


def test_ops_on_inputs_and_huge_results_are_not_folded() -> None:
    relu = graph([int8("x", 3), int8("y", 3)], [Op("relu_0", "relu", ("x",), ("y",))], ("x",), ("y",))
    assert diff(fold_constants(relu)[0], relu) == []
    extent = MAX_BYTES // 4 + 1
    wide = [
        Tensor("row", (1, extent), "int8", Q, np.zeros((1, extent), np.int8), "constant"),
        Tensor("column", (4, 1), "int8", Q, np.zeros((4, 1), np.int8), "constant"),
        int8("y", 4, extent),
    ]
    outer = graph(wide, [Op("add_0", "add", ("row", "column"), ("y",), {"activation": "none"})], (), ("y",))
    assert len(fold_constants(outer)[0].ops) == 1


def test_the_total_size_and_work_of_folding_is_limited() -> None:
    """Small files whose constants would grow without bound, or take hours to compute, are folded only in part."""
    half = MAX_BYTES // 2
    seed = Tensor("seed", (1, 1), "int8", Q, np.zeros((1, 1), np.int8), "constant")
    row = Tensor("row", (1, half), "int8", Q, np.zeros((1, half), np.int8), "constant")
    adds = [Op(f"add_{i}", "add", ("row", "seed"), (f"y{i}",), {"activation": "none"}) for i in range(5)]
    outputs = tuple(op.outputs[0] for op in adds)
    many = graph([seed, row, *(int8(name, 1, half) for name in outputs)], adds, (), outputs)
    assert len(fold_constants(many)[0].ops) == 3

    x = Tensor("x", (1, 256, 256, 1), "int8", Q, np.zeros((1, 256, 256, 1), np.int8), "constant")
    weights = Tensor("w", (1, 128, 128, 1), "int8", Quant((1.0,), (0,)), np.zeros((1, 128, 128, 1), np.int8), "constant")
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    conv = Op("conv_2d_0", "conv_2d", ("x", "w"), ("y",), attrs)
    assert len(fold_constants(graph([x, weights, int8("y", 1, 129, 129, 1)], [conv], (), ("y",)))[0].ops) == 1


def test_a_constant_op_that_breaks_its_rules_is_refused() -> None:
    broken = flatten()
    tensors = {**broken.tensors, "extents": Tensor("extents", (3,), "int32")}
    with pytest.raises(CompileError, match=r"pack_2.*\(3,\)"):
        fold_constants(replace(broken, tensors=tensors))


def test_ops_that_no_output_needs_are_dropped() -> None:
    tensors = [int8("x", 3), int8("unused_input", 3), int8("y", 3), int8("dead", 3), int8("deader", 3), integers("axes", 0)]
    ops = [
        Op("relu_0", "relu", ("x",), ("dead",)),
        Op("relu_1", "relu", ("x",), ("y",)),
        Op("transpose_2", "transpose", ("dead", "axes"), ("deader",)),
    ]
    before = graph(tensors, ops, ("x", "unused_input"), ("y",))
    expected = graph([tensors[0], tensors[1], tensors[2]], [ops[1]], ("x", "unused_input"), ("y",))
    assert diff(drop_unused(before)[0], expected) == []


def test_ops_that_change_state_are_kept() -> None:
    first = replace(int8("first", 3), data=np.zeros(3, np.int8), role="constant")
    tensors = [int8("x", 3), replace(int8("memory", 3), role="state"), first, int8("read", 3), int8("y", 3)]
    ops = [
        Op("write", "assign_variable", ("x",), ("memory",)),
        Op("read", "read_variable", ("memory",), ("read",)),
        Op("relu", "relu", ("x",), ("y",)),
    ]
    init = (Op("init", "assign_variable", ("first",), ("memory",)),)
    before = replace(graph(tensors[:1] + tensors[4:], ops[2:], ("x",), ("y",)), init=init, ops=tuple(ops))
    before = verify(replace(before, tensors={t.name: t for t in tensors}))
    after = drop_unused(before)[0]
    assert [op.name for op in after.ops] == ["write", "relu"] and after.init == init
    # a constant that is assigned stays an op
    constant = replace(before, ops=(replace(ops[0], inputs=("first",)), *ops[1:]))
    assert [op.name for op in fold_constants(verify(constant))[0].ops] == ["write", "read", "relu"]


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_correct_ops_pass_the_check_unchanged(kind: str) -> None:
    for case in cases(kind):
        checked, tensors = check_ops(case.graph)
        assert checked is case.graph and tensors == {}


def test_incorrect_ops_are_refused_by_name() -> None:
    relu = graph([int8("x", 3), int8("y", 4)], [Op("relu_0", "relu", ("x",), ("y",))], ("x",), ("y",))
    with pytest.raises(CompileError, match=r"op relu_0 .*'y'.*\(4,\).*\(3,\)"):
        check_ops(relu)
    with pytest.raises(CompileError, match=r"op magic_0 .*not supported"):
        check_ops(replace(relu, ops=(Op("magic_0", "magic", ("x",), ("y",)),)))


def test_copies_of_whole_tensors_become_reshapes_without_changing_values() -> None:
    changed = {}
    for kind in sorted(kind for kind, spec in SPECS.items() if spec.moves and not spec.view):
        for case in cases(kind):
            after, tensors = copies_to_views(case.graph)
            assert tensors == {}
            check_ops(verify(after))
            inputs = dict(zip(case.graph.inputs, case.inputs[0], strict=True))
            before, now = run(case.graph, inputs), run(after, {name: inputs[name] for name in after.inputs})
            assert [a.tobytes() for a in before.values()] == [a.tobytes() for a in now.values()], case.id
            if after.ops[0].kind == "reshape":
                changed[kind] = changed.get(kind, 0) + 1
    assert min(changed[kind] for kind in ("split", "split_v", "transpose", "strided_slice", "pad", "concatenation", "pack")) > 0
    assert {"slice", "mirror_pad", "unpack"}.isdisjoint(changed)


@pytest.mark.parametrize("scale", [0.5, 0.25])
@pytest.mark.parametrize("kind", ["mean", "sum", "reduce_max", "reduce_min", "reduce_prod"])
def test_a_reduction_of_single_elements_is_a_view_unless_it_rescales(kind: str, scale: float) -> None:
    y = replace(int8("y", 1, 7), quant=Quant((scale,), (3,)))
    x = replace(int8("x", 1, 1, 1, 7), quant=Quant((0.5,), (3,)))
    op = Op("op_0", kind, ("x", "axes"), ("y",), {"keep_dims": False})
    single = verify(graph([x, integers("axes", 1, 2), y], [op], ("x",), ("y",)))
    after, _ = copies_to_views(single)
    assert (after.ops[0].kind == "reshape") == (scale == 0.5)
    inputs = {"x": np.arange(-128, 124, 36, np.int8).reshape(1, 1, 1, 7)}
    assert run(verify(after), inputs)["y"].tobytes() == run(single, inputs)["y"].tobytes()


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
def test_a_clamp_at_the_ends_of_int8_is_a_view(kind: str) -> None:
    end = -128 if kind == "maximum" else 127
    x = np.array([[-128, -127, 0, 127]], np.int8)
    for data in ([end], [end] * 4, [end + np.sign(-end)], [end, end, end, 0], [-1 - end]):
        limit = replace(int8("limit", len(data)), data=np.array(data, np.int8), role="constant")
        for operands in (("x", "limit"), ("limit", "x")):
            made = graph([int8("x", 1, 4), limit, int8("y", 1, 4)], [Op("op_0", kind, operands, ("y",))], ("x",), ("y",))
            after, _ = copies_to_views(verify(made))
            assert (after.ops[0].kind == "reshape") == ({*data} == {end}), data
            assert run(verify(after), {"x": x})["y"].tobytes() == run(made, {"x": x})["y"].tobytes()


def test_a_strided_slice_that_reverses_is_not_a_view() -> None:
    operands = [integers("begin", -1, 0), integers("end", -9, 3), integers("strides", -1, 1)]
    op = Op("strided_slice_0", "strided_slice", ("x", "begin", "end", "strides"), ("y",), NO_MASKS)
    reverse = graph([int8("x", 4, 3), *operands, int8("y", 4, 3)], [op], ("x",), ("y",))
    assert fingerprint(copies_to_views(reverse)[0]) == fingerprint(reverse)


def edges(outside: str, first: str, last: str) -> Graph:
    quant = Quant((0.5,), (131,)) if outside == "uint8" else None
    tensors = [
        Tensor("outer_in", (3,), outside, quant),
        int8("x", 3),
        int8("y", 3),
        Tensor("outer_out", (3,), outside, quant),
    ]
    ops = [
        Op("first", first, ("outer_in",), ("x",)),
        Op("relu", "relu", ("x",), ("y",)),
        Op("last", last, ("y",), ("outer_out",)),
    ]
    return graph(tensors, ops, ("outer_in",), ("outer_out",))


@pytest.mark.parametrize("before", [edges("float32", "quantize", "dequantize"), edges("uint8", "quantize", "quantize")])
def test_conversions_at_inputs_and_outputs_are_removed(before: Graph) -> None:
    expected = graph([int8("x", 3), int8("y", 3)], [Op("relu", "relu", ("x",), ("y",))], ("x",), ("y",))
    for stripped in (strip_edges(before)[0], run_passes(before, io="int8")[0]):
        assert diff(stripped, expected) == []
    assert diff(run_passes(before, io="model")[0], before) == []


def test_a_conversion_of_an_input_with_another_reader_is_kept() -> None:
    before = edges("uint8", "quantize", "quantize")
    twice = replace(before, outputs=("outer_out", "outer_in"))
    stripped, _ = strip_edges(twice)
    assert stripped.inputs == ("outer_in",) and stripped.outputs == ("y", "outer_in")
    second = (*before.ops, Op("also", "quantize", ("outer_in",), ("x_2",)))
    branched = replace(before, tensors={**before.tensors, "x_2": int8("x_2", 3)}, ops=second, outputs=("outer_out", "x_2"))
    assert strip_edges(verify(branched))[0].inputs == ("outer_in",)


def test_a_conversion_of_an_output_with_another_reader_is_kept() -> None:
    before = edges("uint8", "quantize", "quantize")
    assert strip_edges(replace(before, outputs=("y", "outer_out")))[0].outputs == ("y", "outer_out")
    conversion_only = graph(
        [Tensor("a", (3,), "float32"), int8("x", 3), Tensor("b", (3,), "float32")],
        [Op("in", "quantize", ("a",), ("x",)), Op("out", "dequantize", ("x",), ("b",))],
        ("a",),
        ("b",),
    )
    stripped, _ = strip_edges(conversion_only)
    assert (stripped.inputs, stripped.outputs, len(stripped.ops)) == (("x",), ("b",), 1)


def test_conversions_inside_the_network_are_kept() -> None:
    tensors = [int8("x", 3), Tensor("real", (3,), "float32"), int8("y", 3, quant=OTHER)]
    ops = [Op("a", "dequantize", ("x",), ("real",)), Op("b", "quantize", ("real",), ("y",))]
    before = graph(tensors, ops, ("x",), ("y",))
    assert diff(strip_edges(before)[0], before) == []


def test_tensor_maps_of_two_rewrites_compose() -> None:
    first = {"b": ("a", (4, 2, 0)), "d": ("c", None)}
    then = {"e": ("b", (2, 1)), "f": ("b", None), "g": ("d", (1,)), "h": ("kept", (3,))}
    joined = compose(first, then)
    assert source(joined, "e") == ("a", (0, 2))
    assert source(joined, "f") == ("a", (4, 2, 0))
    assert source(joined, "g") == ("c", (1,))
    assert source(joined, "h") == ("kept", (3,))
    assert source(joined, "d") == ("c", None)
    assert source(joined, "never mentioned") == ("never mentioned", None)


@pytest.mark.sweep
@pytest.mark.shared
@pytest.mark.parametrize("part", range(PARTS))
def test_passes_remove_shape_arithmetic_and_edge_conversions_of_real_models(part: int, shared: Path) -> None:
    checked = 0
    for path in part_of((shared / "models").glob("*.tflite"), part):
        try:
            before = from_tflite(path.read_bytes(), path.stem)
            kept, stripped = run_passes(before, io="model")[0], run_passes(before, io="int8")[0]
        except CompileError:
            continue
        if any(spec_for(kept, op) is not SPECS[op.kind] for op in kept.ops):
            continue  # computes in float32
        assert not {op.kind for op in kept.ops} & {"shape", "pack"}, path.name
        assert (kept.inputs, kept.outputs) == (before.inputs, before.outputs)
        ends = [stripped.tensors[name] for name in (*stripped.inputs, *stripped.outputs)]
        computes = any(tensor.dtype == "int8" for tensor in stripped.tensors.values())  # else it only moves uint8
        assert not {"float32", "uint8"} & {tensor.dtype for tensor in ends if tensor.data is None} or not computes, path.name
        checked += 1
    assert checked > 3


@pytest.mark.shared
def test_passes_change_no_value_of_a_real_model(shared: Path) -> None:
    path = shared / "models" / "harvard-edge__Wake_Vision__wv_quality_mcunet-10fps_vww.tflite"
    before = from_tflite(path.read_bytes(), path.stem)
    stripped, tensors = run_passes(before, io="int8")
    (given, inner), shape = (before.inputs[0], stripped.inputs[0]), before.tensors[before.inputs[0]].shape
    image = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    old = run(before, {given: image}, keep=True)
    new = run(stripped, {inner: old[inner]}, keep=True)
    for name, value in new.items():
        home, channels = source(tensors, name)
        want = old[home] if channels is None else old[home][..., list(channels)]
        assert value.tobytes() == want.tobytes(), name

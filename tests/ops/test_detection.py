"""detection_postprocess computes LiteRT's bytes, from the uint8 and the float32 tensors that LiteRT's kernel takes."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from cases.ops import Case, cases
from flatbuffers import flexbuffers

from tinyweave import exporters, ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify
from tinyweave.ops.litert_differences import difference
from tinyweave.passes import run_passes

CASES = list(cases("detection_postprocess"))


def in_uint8(case: Case) -> Graph:
    """Return the graph of a case on uint8 boxes, scores and anchors with the same real numbers."""

    def shifted(tensor: Tensor) -> Tensor:
        if tensor.quant is None:
            return tensor
        data = None if tensor.data is None else tensor.data.view(np.uint8) ^ np.uint8(128)
        return replace(tensor, dtype="uint8", quant=Quant(tensor.quant.scale, (tensor.quant.zero_point[0] + 128,)), data=data)

    return verify(replace(case.graph, tensors={name: shifted(tensor) for name, tensor in case.graph.tensors.items()}))


def in_floats(case: Case) -> Graph:
    """Return the graph of a case in which dequantize ops make the boxes and scores float32, as quantised networks have it."""
    (op,), tensors = case.graph.ops, dict(case.graph.tensors)
    turned = []
    for name in ("boxes", "scores"):
        tensors[f"{name}_real"] = replace(tensors[name], name=f"{name}_real", dtype="float32", quant=None)
        turned.append(Op(f"dequantize_{name}", "dequantize", (name,), (f"{name}_real",)))
    whole = replace(op, inputs=("boxes_real", "scores_real", "anchors"))
    return verify(replace(case.graph, tensors=tensors, ops=(*turned, whole)))


@pytest.mark.litert
@pytest.mark.parametrize("is_float", [True, False])
def test_detections_equal_litert(is_float: bool, litert: ModuleType) -> None:
    counts, labels = set[int](), set[int]()
    for case in CASES:
        if (case.graph.tensors["anchors"].dtype == "float32") != is_float:
            continue
        graph = in_floats(case) if is_float else in_uint8(case)
        inputs = case.inputs if is_float else [[x.view(np.uint8) ^ np.uint8(128) for x in arrays] for arrays in case.inputs]
        for ours, theirs in zip(case.inputs, litert.run(to_tflite(graph), inputs), strict=True):
            found = ops.run(case.graph, dict(zip(case.graph.inputs, ours, strict=True)))
            for name, array in zip(case.graph.outputs, ops.defined(graph, theirs.outputs), strict=True):
                assert found[name].tobytes() == array.tobytes(), (case.id, name)
            counts.add(int(found["count_out"][0]))
            labels.update(found["classes_out"].ravel().astype(int))
    assert len(counts) > 5 and len(labels) > 3


@pytest.mark.parametrize("form", [in_uint8, in_floats])
def test_passes_let_the_op_read_int8(form: object) -> None:
    assert callable(form)
    for case in CASES:
        if (form is in_floats) != (case.graph.tensors["anchors"].dtype == "float32"):
            continue
        graph, _ = run_passes(from_tflite(to_tflite(form(case)), "detector"), io="int8")
        (op,) = graph.ops
        assert op.kind == "detection_postprocess" and [x.dtype for x in (graph.input(op), graph.input(op, 1))] == ["int8"] * 2
        assert [tensor.shape for tensor in graph.outputs_of(op)] == ops.SPECS[op.kind].infer(graph, op)


def test_options_that_a_file_lacks_have_defaults_and_outputs_without_a_shape_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, defaults = CASES[0].graph, {"detections_per_class": 100, "use_regular_nms": 0}
    shapeless = {name: replace(graph.tensors[name], shape=()) for name in graph.outputs}
    given = {name: value for name, value in graph.ops[0].attrs.items() if name not in defaults}
    monkeypatch.setattr(exporters.tflite, "custom_options", lambda op: bytes(flexbuffers.Dumps(given)))
    read = from_tflite(to_tflite(replace(graph, tensors={**graph.tensors, **shapeless})), "detector")
    assert read.ops[0].attrs == given | defaults
    assert [read.tensors[name].shape for name in read.outputs] == [graph.tensors[name].shape for name in graph.outputs]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_classes_per_detection": 2.0}, "detections of one class each"),
        ({"max_detections": 0.0}, "detections of one class each"),
        ({"num_classes": 9.0}, "detections of one class each"),
        ({"y_scale": 0.0}, "the scales of boxes must be positive"),
        ({"h_scale": 0.01}, "the sizes that boxes encode at most e.64"),
        ({"nms_iou_threshold": 0.0}, "the overlap above 0"),
    ],
)
def test_attributes_that_no_kernel_has_are_refused(change: dict[str, float], message: str) -> None:
    graph = CASES[0].graph
    with pytest.raises(CompileError, match=message):
        ops.check(replace(graph, ops=(replace(graph.ops[0], attrs={**graph.ops[0].attrs, **change}),)))


def test_anchors_without_a_size_and_computed_anchors_are_refused() -> None:
    graph = CASES[0].graph
    flat = replace(graph.tensors["anchors"], data=np.zeros((1, 4), np.float32))
    with pytest.raises(CompileError, match="positive heights and widths"):
        ops.check(replace(graph, tensors={**graph.tensors, "anchors": flat}))
    computed = replace(flat, data=None, role="activation")
    with pytest.raises(CompileError, match="constant anchors"):
        ops.check(replace(graph, tensors={**graph.tensors, "anchors": computed}, inputs=(*graph.inputs, "anchors")))


def test_detections_whose_number_is_no_output_are_compared_with_numpy_alone() -> None:
    graph = next(case.graph for case in CASES if not case.graph.ops[0].attrs["use_regular_nms"])
    assert difference(graph, graph.ops[0]) is None
    row = difference(replace(graph, outputs=graph.outputs[:3]), graph.ops[0])
    assert row is not None and row.litert == "leaves outputs behind the last detection undefined"

"""The TFLite exporter: LiteRT loads its files with both resolvers, the file layout, and refused graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import tflite

from tests.cases.draw import single_op
from tests.cases.ops import GENERATORS, NOT_IN_LITERT, cases
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Quant, Tensor
from tinyweave.ops import run
from tinyweave.simulate import litert
from tinyweave.tflite_schema import OPS

Q = Quant((0.5,), (3,))
CONV = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
POOL = {"kernel": (3, 3), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}


def activation(name: str, shape: tuple[int, ...], dtype: str = "int8") -> Tensor:
    return Tensor(name, shape, dtype, None if dtype in ("float32", "int32") else Q)


def weights(*shape: int) -> Tensor:
    return Tensor("weights", shape, "int8", Quant((0.25,), (0,)), np.ones(shape, np.int8), "constant")


def bias(channels: int) -> Tensor:
    return Tensor("bias", (channels,), "int32", Quant((0.125,), (0,)), np.arange(channels, dtype=np.int32), "constant")


def convolution(in_c: int = 4, filter_c: int = 4, **attrs: Any) -> Graph:
    return single_op(
        "conv_2d", [activation("x", (1, 6, 6, in_c)), weights(8, 3, 3, filter_c), bias(8)], activation("y", ()), CONV | attrs
    )


def pool(kind: str, **attrs: Any) -> Graph:
    return single_op(kind, [activation("x", (1, 6, 6, 4))], activation("y", ()), POOL | attrs)


def dense(with_bias: bool, keep_num_dims: bool) -> Graph:
    operands = [activation("x", (1, 5)), weights(3, 5), *([bias(3)] if with_bias else [])]
    return single_op("fully_connected", operands, activation("y", ()), {"activation": "none", "keep_num_dims": keep_num_dims})


def refuses(graph: Graph, *words: str) -> None:
    with pytest.raises(CompileError) as error:
        to_tflite(graph)
    for word in words:
        assert word in str(error.value)


@pytest.mark.litert
@pytest.mark.parametrize("kind", sorted(set(GENERATORS) - NOT_IN_LITERT | {"elu"}))
def test_litert_accepts_every_case(kind: str) -> None:
    """The default kernels know all these op versions. They are not run, since they crash on depthwise_conv_2d without bias."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    resolver = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    for case in cases(kind):
        model = interpreter.Interpreter(model_content=to_tflite(case.graph), experimental_op_resolver_type=resolver)
        model.allocate_tensors()
        for names, details in (
            (case.graph.inputs, model.get_input_details()),
            (case.graph.outputs, model.get_output_details()),
        ):
            tensors = [case.graph.tensors[name] for name in names]
            found = [(d["name"], tuple(d["shape"]), d["dtype"]) for d in details]
            assert found == [(t.name, t.shape, np.dtype(t.dtype).type) for t in tensors], case.id


@pytest.mark.litert
def test_litert_computes_the_outputs_of_the_numpy_reference() -> None:
    pytest.importorskip("ai_edge_litert")
    by_chance = {"div", "sum"}  # LiteRT runs them, but not always or with other results: tests/ops/test_references.py
    for case in (case for kind in sorted(set(GENERATORS) - by_chance) for case in islice(cases(kind), 4)):
        if (kind := case.graph.ops[0].kind) in NOT_IN_LITERT:
            custom = OPS[kind].numbers is not None and not OPS[kind].custom
            with pytest.raises(litert.CannotRunError, match=f"custom op: tinyweave.{kind}" if custom else "LiteRT rejects"):
                litert.run(to_tflite(case.graph), case.inputs[:1])
            continue
        (answer,) = litert.run(to_tflite(case.graph), case.inputs[:1])
        expected = run(case.graph, dict(zip(case.graph.inputs, case.inputs[0], strict=True)))
        assert [a.tobytes() for a in answer.outputs] == [a.tobytes() for a in expected.values()], case.id


def test_equal_graphs_give_equal_bytes() -> None:
    assert to_tflite(convolution()) == to_tflite(convolution())


def test_constants_are_stored_once_at_multiples_of_16_bytes() -> None:
    file = to_tflite(convolution())
    assert file[4:8] == b"TFL3"
    model = tflite.Model.GetRootAs(file, 0)
    assert model.Version() == 3 and model.SubgraphsLength() == 1
    buffers = [model.Buffers(i) for i in range(model.BuffersLength())]
    assert [b.DataLength() for b in buffers] == [0, 8 * 3 * 3 * 4, 8 * 4]
    for buffer in buffers[1:]:
        assert buffer._tab.Vector(buffer._tab.Offset(4)) % 16 == 0


def test_per_channel_scales_keep_their_axis() -> None:
    graph = convolution()
    quant = Quant(tuple((i + 1) / 8 for i in range(8)), (0,) * 8, 0)
    filters = replace(graph.tensors["weights"], quant=quant)
    depthwise = replace(weights(1, 3, 3, 8), quant=replace(quant, axis=3))
    other = single_op("depthwise_conv_2d", [activation("x", (1, 6, 6, 8)), depthwise, None], activation("y", ()), CONV)
    for changed, axis in ((replace(graph, tensors={**graph.tensors, "weights": filters}), 0), (other, 3)):
        subgraph = tflite.Model.GetRootAs(to_tflite(changed), 0).Subgraphs(0)
        tables = {subgraph.Tensors(i).Name(): subgraph.Tensors(i) for i in range(subgraph.TensorsLength())}
        found = tables[b"weights"].Quantization()
        assert found.QuantizedDimension() == axis
        assert tuple(found.ScaleAsNumpy()) == quant.scale and tuple(found.ZeroPointAsNumpy()) == quant.zero_point


def test_an_absent_optional_input_is_written_as_minus_one() -> None:
    graph = single_op("conv_2d", [activation("x", (1, 6, 6, 4)), weights(8, 3, 3, 4), None], activation("y", ()), CONV)
    operator = tflite.Model.GetRootAs(to_tflite(graph), 0).Subgraphs(0).Operators(0)
    assert operator.InputsAsNumpy().tolist() == [0, 1, -1]


# least version with these features, from TFLite's op_version.cc
@pytest.mark.parametrize(
    ("graph", "version"),
    [
        (convolution(), 3),
        (convolution(in_c=8), 6),
        (dense(True, False), 4),
        (dense(True, True), 5),
        (dense(False, False), 6),
        (pool("max_pool_2d"), 2),
        (pool("average_pool_2d"), 2),
    ],
)
def test_op_versions_are_the_least_with_the_used_features(graph: Graph, version: int) -> None:
    assert tflite.Model.GetRootAs(to_tflite(graph), 0).OperatorCodes(0).Version() == version


@pytest.mark.parametrize(
    ("padding", "written"),
    [(((0, 0), (0, 0)), tflite.Padding.VALID), (((1, 1), (1, 1)), tflite.Padding.SAME)],
)
def test_padding_is_written_as_same_or_valid(padding: Any, written: int) -> None:
    table = tflite.Model.GetRootAs(to_tflite(convolution(padding=padding)), 0).Subgraphs(0).Operators(0).BuiltinOptions()
    options = tflite.Conv2DOptions()
    options.Init(table.Bytes, table.Pos)
    assert options.Padding() == written


@pytest.mark.parametrize("padding", [((1, 1), (0, 0)), ((2, 0), (1, 1)), ((2, 2), (2, 2))])
def test_other_padding_is_refused(padding: Any) -> None:
    refuses(convolution(padding=padding), "conv_2d_0", "only SAME and VALID", "pad op")


def test_same_padding_with_a_stride_is_asymmetric() -> None:
    to_tflite(pool("max_pool_2d", padding=((0, 1), (0, 1))))
    refuses(pool("max_pool_2d", padding=((1, 0), (1, 0))), "only SAME and VALID")


def test_a_graph_that_the_format_cannot_hold_is_refused() -> None:
    graph = convolution()
    refuses(replace(graph, ops=(replace(graph.ops[0], kind="attention"),)), "attention", "cannot be written", "conv_2d")
    refuses(replace(graph, ops=(replace(graph.ops[0], attrs={}),)), "conv_2d_0", "lacks the attribute")
    refuses(convolution(stride=(1 << 40, 1)), "conv_2d_0", "cannot hold")
    x = replace(graph.tensors["x"], quant=Quant((0.1,), (3,)))
    refuses(replace(graph, tensors={**graph.tensors, "x": x}), "'x'", "0.1 is not a float32 number")


@pytest.mark.litert
def test_signature_and_metadata_are_read_by_litert_and_the_schema() -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    graph = convolution()
    file = to_tflite(graph, metadata={"about": b'{"a": 1}', "more": b""}, signature=True)
    root = tflite.Model.GetRootAs(file, 0)
    entries = [root.Metadata(i) for i in range(root.MetadataLength())]
    assert [entry.Name() for entry in entries] == [b"about", b"more"]
    assert root.Buffers(entries[0].Buffer()).DataAsNumpy().tobytes() == b'{"a": 1}'
    (key,) = interpreter.Interpreter(model_content=file).get_signature_list().items()
    assert key == ("serving_default", {"inputs": ["x"], "outputs": ["y"]})
    runner = interpreter.Interpreter(model_content=file).get_signature_runner()
    x = np.arange(144, dtype=np.int8).reshape(1, 6, 6, 4)
    assert runner(x=x)["y"].tobytes() == run(graph, {"x": x})["y"].tobytes()

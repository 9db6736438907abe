"""A layer on int16 may have an int32 bias if its options say so; else LiteRT reads the bias as int64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases.draw import constant, single_op
from cases.ops import cases

from tinyweave import tflite_schema
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Quant, Tensor
from tinyweave.ops import check
from tinyweave.ops.constraints import has_narrow_bias

KINDS = ("conv_2d", "transpose_conv")


@pytest.mark.parametrize("kind", KINDS)
def test_a_narrow_bias_that_the_options_do_not_name_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = next(case.graph for case in cases(kind) if has_narrow_bias(case.graph, case.graph.ops[0]))
    assert from_tflite(to_tflite(narrow), "network").ops[0].kind == kind
    row = tflite_schema.OPS[kind]
    silent = replace(tflite_schema.BIAS_TYPE, write=lambda graph, op: {})
    fields = tuple(silent if field is tflite_schema.BIAS_TYPE else field for field in row.fields)
    monkeypatch.setitem(tflite_schema.OPS, kind, replace(row, fields=fields))
    with pytest.raises(CompileError, match="TFLite reads the bias as int64"):
        from_tflite(to_tflite(narrow), "network")


@pytest.mark.parametrize(("dtype", "kind"), [("int64", "conv_2d"), ("int32", "depthwise_conv_2d")])
def test_a_depthwise_layer_on_int16_becomes_a_convolution_if_its_bias_is_int64(dtype: str, kind: str) -> None:
    x, wide = Tensor("x", (1, 5, 5, 3), "int16", Quant((2.0**-7,), (0,))), Quant((2.0**-14,), (0,))
    weights = constant("w", np.ones((1, 3, 3, 3), np.int8), Quant((2.0**-7,), (0,)))
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cases.draw.check", lambda graph: graph)  # the kind has no form on int16
        bias = constant("b", np.ones(3, dtype), wide)
        graph = single_op("depthwise_conv_2d", [x, weights, bias], Tensor("y", (), "int16", Quant((0.125,), (0,))), attrs)
    loaded = from_tflite(to_tflite(graph), "network")
    assert [op.kind for op in loaded.ops] == [kind]
    if dtype == "int32":
        with pytest.raises(CompileError, match="on int16, the bias must be int64: LiteRT's depthwise kernel reads"):
            check(loaded)

"""Float models from PyTorch or ONNX are quantised, emitted as C and run on an emulated core with LiteRT's bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.architectures import BUILDERS, network  # noqa: E402
from cases.from_torch import trained  # noqa: E402

import tinyweave as tw  # noqa: E402
from tinyweave.ops import SPECS  # noqa: E402

SMALL = ("ds_cnn", "lstm", "resnet8")
# tests/importers/test_onnx.py compares all architectures with those from torch
BY_ONNX = ("lstm", "gru", "mobilenet_v3_small", "shufflenet_v2", "unet")


def check(model: tw.Model) -> None:
    shape = model.graph.tensors[model.graph.inputs[0]].shape
    samples = np.random.default_rng(0).standard_normal((4, *shape), dtype=np.float32)
    small = tw.quantize(model, samples, method="minmax").model
    assert not any(op.kind == "transpose" for op in small.graph.ops)
    assert not any(tensor.dtype == "float32" for tensor in small.graph.tensors.values())
    verification = tw.verify(small, "cortex-m4", samples=2)
    is_custom = any(SPECS[op.kind].family == "sequence" for op in small.graph.ops)  # LiteRT has no GRU: numpy is its reference
    assert verification.ok and ("LiteRT" in verification.reference) != is_custom


@pytest.mark.emulator
@pytest.mark.litert
@pytest.mark.parametrize("name", [n if n in SMALL else pytest.param(n, marks=pytest.mark.sweep) for n in BUILDERS])
def test_an_architecture_from_torch_gives_the_bytes_of_litert_on_a_core(name: str) -> None:
    module, example = network(name)
    check(tw.load(trained(module), example, name=name))


@pytest.mark.emulator
@pytest.mark.litert
@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")  # torch speaks of its other exporter
@pytest.mark.parametrize("name", BY_ONNX)
def test_an_architecture_from_onnx_gives_the_bytes_of_litert_on_a_core(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")
    module, example = network(name)
    path: Any = tmp_path / f"{name}.onnx"
    file = io.BytesIO()
    torch.onnx.export(trained(module), (example,), file, dynamo=False, opset_version=17)
    path.write_bytes(file.getvalue())
    check(tw.load(path))

"""Quantisation-aware training: a layer computes the same in training as when deployed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from cases.architectures import network
from cases.floats import WINDOW, fixed, float_graph
from cases.from_torch import trained
from torch import nn
from torch.nn import functional

import tinyweave as tw
from tinyweave.ir import CompileError
from tinyweave.quantize import qat
from tinyweave.quantize.calibrate import calibrate
from tinyweave.quantize.convert import as_real, quantised
from tinyweave.quantize.evaluate import evaluate, outputs
from tinyweave.quantize.fidelity import as_int8


class Others(nn.Module):
    """A module of layers that the architectures lack."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.deep = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 5, padding=4, dilation=2, groups=8)
        self.last = nn.Linear(16 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.leaky_relu(self.first(x), 0.1)
        x = torch.tanh(self.deep(functional.avg_pool2d(x, 2)))
        x = functional.interpolate(x * 0.7 + 0.3, scale_factor=2) - 0.5
        x = functional.avg_pool2d(functional.max_pool2d(x, 2), 2) * torch.sigmoid(x.mean((2, 3), keepdim=True))
        left, right = x.chunk(2, 1)
        return torch.softmax(self.last(torch.cat([right, torch.relu(left)], 1).flatten(1)), -1)


def case(name: str, bits: int, count: int = 4) -> tuple[qat.FakeQuantModule, torch.Tensor]:
    torch.manual_seed(0)  # the weights of Others
    module, example = (Others().eval(), torch.zeros(1, 3, 16, 16)) if name == "others" else network(name)
    x = torch.randn(count, *example.shape[1:], generator=torch.Generator().manual_seed(0))
    return tw.prepare_qat(trained(module), example, x, weight_bits=bits), x


def given(module: qat.FakeQuantModule, x: torch.Tensor) -> torch.Tensor:
    """Return samples in the layout of the graph."""
    (name,) = module.graph.inputs
    return (x.permute(0, 2, 3, 1) if module.turned[0] else x).reshape(-1, *module.graph.tensors[name].shape)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", ["resnet8", "mobilenet_v3_small", "shufflenet_v2", "squeezenet", "ds_cnn", "others"])
def test_a_layer_computes_the_same_in_training_and_deployed(name: str, bits: int) -> None:
    module, x = case(name, bits)
    with torch.no_grad():
        held = {module.graph.inputs[0]: module.fake_quantised(module.graph.inputs[0], given(module, x))}
        for index, op in enumerate(module.graph.ops):
            held |= module.layer(index, op, held)
    small = qat.converted(module)
    whole = {n: quantised(values.numpy(), small.tensors[n].quant) for n, values in held.items()}
    kinds = set()
    for op in small.ops:
        kinds.add(op.kind)
        if op.kind == "quantize" and op.outputs[0] not in whole:
            whole |= {op.outputs[0]: evaluate(small, whole, ops={op.name}, keep=True)[op.outputs[0]]}
            continue
        done = evaluate(small, whole, ops={op.name}, keep=True)
        for output in op.outputs:
            away = np.abs(done[output].astype(int) - whole[output])
            most = max(1, away.size // 1000)  # one of a layer with a few values
            assert away.max() <= 1 and (away > 0).sum() <= most, (op.name, op.kind, away.max(), (away > 0).sum())
    assert len(kinds) >= 5
    assert any(t.dtype == "int4" for t in small.tensors.values()) == (bits == 4)


def test_a_network_that_was_evaluated_in_inference_mode_can_be_trained() -> None:
    module, x = case("squeezenet", 8)
    with torch.inference_mode():
        before = module(x)
    after = module(x)
    after.sum().backward()
    assert module.sources and torch.equal(before, after) and all(value.grad is not None for value in module.values.values())


@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.parametrize("bits", [8, 4])
def test_a_trained_network_gives_the_bytes_of_litert_on_the_emulated_core(bits: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Hardswish(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 5))
    x, labels = torch.randn(20, 3, 16, 16), torch.arange(20) % 5
    module = tw.prepare_qat(net, x[:1], x, weight_bits=bits)
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    optimizer, losses = torch.optim.Adam(module.parameters(), 1e-2), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]
    unused = [name for name, value in module.named_parameters() if torch.equal(value, before[name])]
    assert not unused
    model = tw.convert_qat(module)
    small = model.original
    (values,) = outputs(small, as_int8(small, {small.inputs[0]: given(module, x).numpy()}))
    with torch.no_grad():
        expected = module(x).numpy()
    out = small.tensors[small.outputs[0]]
    assert np.abs(as_real(out, values).reshape(expected.shape) - expected).max() < 2.5 * out.scale
    assert tw.verify(model, samples=2).ok


def test_networks_that_cannot_be_trained_are_refused_in_one_line() -> None:
    x = torch.zeros(2, 4, 8, 8)
    with pytest.raises(CompileError, match="transpose_conv"):
        tw.prepare_qat(nn.ConvTranspose2d(4, 4, 2, 2), x[:1], x)
    with pytest.raises(CompileError, match="3 bits"):
        tw.prepare_qat(nn.Conv2d(4, 4, 1), x[:1], x, weight_bits=3)
    with pytest.raises(CompileError, match="prepare_qat"):
        tw.convert_qat(nn.Conv2d(4, 4, 1))
    constants = [fixed("w", np.ones((4, 1, 1, 4))), fixed("b", np.ones(4))]
    layers = [
        ("conv_2d", (name, "w", "b"), WINDOW | {"activation": "none", "padding": ((0, 0), (0, 0))}) for name in ("x", "t0")
    ]
    graph = float_graph(constants, layers)
    with pytest.raises(CompileError, match="weights of its own"):
        qat.FakeQuantModule(graph, calibrate(graph, {"x": np.ones((2, 1, 8, 8, 4), np.float32)}, "minmax"), {})


def test_the_training_example_of_the_guide_runs(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        (Path(__file__).parents[2] / "docs" / "QUANTIZE.md").read_text().split("\n## Training for int8\n")[1].split("\n## ")[0]
    )
    module, _ = network("resnet8")
    batches = [(torch.randn(8, 3, 32, 32), torch.arange(8)) for _ in range(2)]
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"net": trained(module), "images": torch.randn(8, 3, 32, 32), "batches": batches}
    exec(code, names)
    assert (tmp_path / "net_int4.tflite").stat().st_size > 40_000 and names["plan"].arena

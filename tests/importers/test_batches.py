"""Networks on a batch of samples: one call computes all of them, as PyTorch and ONNX Runtime do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from cases.from_onnx import check_refused, distance, model, one, run_by_runtime  # noqa: E402
from cases.from_torch import Of, distances, trained  # noqa: E402
from importers.test_onnx import BY_RUNTIME  # noqa: E402
from importers.test_onnx import CASES as NODES  # noqa: E402
from importers.test_onnx_recurrent import CELLS, DEPTH, TIME, network  # noqa: E402
from importers.test_torch import CASES as MODULES  # noqa: E402
from torch import nn  # noqa: E402

import tinyweave as tw  # noqa: E402
from tinyweave.cli import main  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.ir import CompileError, fingerprint  # noqa: E402
from tinyweave.report.text import samples_per_call  # noqa: E402

RECURRENT = {
    "lstm": Of(lambda m, x: m.layer(x)[0], layer=nn.LSTM(4, 5, 2)),
    "lstm-from-states": Of(
        lambda m, x: torch.cat(m.layer(x, (m.first(x.mean(1)).unsqueeze(0), torch.ones(1, 3, 5)))[1], 2),
        layer=nn.LSTM(4, 5, batch_first=True),
        first=nn.Linear(4, 5),
    ),
    "gru": Of(lambda m, x: m.layer(x)[1], layer=nn.GRU(4, 5, 2, batch_first=True, bidirectional=True)),
    "rnn": Of(lambda m, x: m.layer(x)[0][:, -1], layer=nn.RNN(4, 5, batch_first=True)),
}
Shapes = list[list[int]]
CLOSE = 1e-5  # of the output's range
MAPS = ("adaptive", "avg-pool", "bicubic", "bilinear", "conv", "max-pool", "nearest", "norm", "pixel", "transposed", "unfold")


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("case", [name for name in MODULES if name.startswith(MAPS) and "lstm" not in name])
def test_a_module_computes_a_batch_as_torch_does(case: str) -> None:
    module, shape = MODULES[case]
    torch.manual_seed(17)
    example = torch.randn(3, *shape[1:])
    try:
        trained(module)(example)
    except RuntimeError as error:
        pytest.skip(f"the module takes one sample only: {error}")
    graph, ours, _ = distances(trained(module), example, transposes=None)
    assert ours < CLOSE and graph.tensors[graph.inputs[0]].shape[0] == 3


@pytest.mark.parametrize("case", RECURRENT)
def test_a_recurrent_layer_computes_a_batch_as_torch_does(case: str) -> None:
    assert distances(RECURRENT[case].eval(), torch.randn(3, 6, 4), transposes=None)[1] < CLOSE


@pytest.mark.parametrize("state", ["constant", "input"])
@pytest.mark.parametrize("output", ["y", "h"])
@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
def test_a_recurrent_node_computes_a_batch_as_onnx_runtime_does(kind: str, output: str, state: str) -> None:
    pytest.importorskip("onnxruntime")
    data, rng = network(kind, state, output, batch=3, direction="bidirectional"), np.random.default_rng(4)
    shapes = {"x": (TIME, 3, DEPTH)} | ({"h": (2, 3, CELLS)} if state == "input" else {})
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    assert distance(from_onnx(data, kind), list(given.values()), run_by_runtime(data, given)) < CLOSE


def test_the_samples_of_a_recurrent_layer_share_its_weights() -> None:
    graph = tw.load(RECURRENT["rnn"].eval(), torch.randn(3, 6, 4)).graph
    weights = [op.inputs[1:] for op in graph.ops if op.kind == "simple_rnn"]
    assert len(weights) == 3 and len({*weights}) == 1


def test_the_c_computes_a_batch_with_the_bytes_of_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples are batches, channels first or last; a single image is refused with the number of samples to give."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5), nn.Softmax(-1))
    model, samples = tw.load(trained(net), torch.randn(3, 3, 8, 8)), np.random.default_rng(0).normal(size=(6, 3, 3, 8, 8))
    small = tw.quantize(model, samples).model
    assert small.graph.tensors[small.graph.inputs[0]].shape == (3, 8, 8, 3)
    assert tw.verify(small).ok
    path = tmp_path / "batch.tflite"
    path.write_bytes(small.file)
    assert main(["inspect", str(path)]) == 0
    assert "MACs; each call computes 3 samples" in capsys.readouterr().out
    same = tw.quantize(model, np.moveaxis(samples, 2, -1)).model
    assert fingerprint(same.graph) == fingerprint(small.graph)
    with pytest.raises(CompileError, match=r"it takes 3 samples in one call: export the network with a batch of 1"):
        tw.quantize(model, samples[:, 0])


@pytest.mark.parametrize(
    ("inputs", "outputs", "samples"),
    [
        ([[3, 8, 8, 2]], [[3, 5]], 3),
        ([[3, 8, 8, 2], [3, 4, 4, 1]], [[3, 5], [3]], 3),
        ([[1, 8, 8, 2]], [[1, 5]], 1),
        ([[3, 8, 8, 2]], [[1, 5]], 1),
        ([[3, 8, 8, 2]], [[3, 5], []], 1),
        ([[20, 40]], [[20, 5]], 1),  # steps of a sequence
    ],
)
def test_inspect_says_how_many_samples_a_call_computes(inputs: Shapes, outputs: Shapes, samples: int) -> None:
    assert samples_per_call(inputs, outputs) == samples


ONNX_MAPS = ("average-pool", "conv", "cubic", "group", "instance", "linear", "max-pool", "pad", "resize", "shuffle")


@pytest.mark.parametrize("case", [name for name in {**NODES, **BY_RUNTIME} if name.startswith(ONNX_MAPS)])
def test_an_onnx_file_computes_a_batch_as_onnx_runtime_does(case: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    nodes, inputs, constants = (NODES | BY_RUNTIME)[case]
    given = {name: np.random.default_rng(5).normal(size=(3, *shape[1:])).astype(np.float32) for name, shape in inputs.items()}
    data = model((nodes, {name: x.shape for name, x in given.items()}, constants))
    try:
        expected = run_by_runtime(data, given)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        pytest.skip(f"ONNX Runtime takes one sample only: {error}")
    assert distance(from_onnx(data, case), list(given.values()), expected) < CLOSE


def test_a_mean_over_the_batch_is_refused() -> None:
    check_refused(model(one("MeanVarianceNormalization", 3, 4, 9, 8)), "its axes [0, 2, 3] are not those of the pixels")
    data = model(one("MeanVarianceNormalization", 3, 4, 9, 8, axes=[2, 3]))
    x = np.random.default_rng(3).normal(size=(3, 4, 9, 8)).astype(np.float32)
    assert distance(from_onnx(data, "net"), [x], run_by_runtime(data, {"x": x})) < CLOSE

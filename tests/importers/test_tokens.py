"""Embeddings of token inputs: in float what PyTorch and ONNX compute, in int8 LiteRT's bytes, also on the emulated core."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_onnx import distance  # noqa: E402
from cases.from_torch import Of, of  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import tinyweave as tw  # noqa: E402
from tinyweave import ops  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.importers.pt2 import from_pt2  # noqa: E402
from tinyweave.importers.torch import from_module  # noqa: E402
from tinyweave.ir import CompileError, diff  # noqa: E402

WORDS = 20


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, WORDS, shape))


class Classifier(nn.Module):
    """A text classifier: embeddings of words and of places, a convolution along the text, the mean, a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.word, self.place = nn.Embedding(WORDS, 8), nn.Parameter(torch.randn(7, 8))
        self.conv, self.head = nn.Conv1d(8, 12, 3, padding=1), nn.Linear(12, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.word(tokens) + self.place
        return self.head(self.conv(x.transpose(1, 2)).relu().mean(2))


CASES = {
    "classifier": (Classifier(), (1, 7)),
    "one-token": (Of(lambda m, x: m.head(m.word(x)), word=nn.Embedding(WORDS, 8), head=nn.Linear(8, 3)), (1,)),
    "batch": (nn.Embedding(WORDS, 6, padding_idx=0), (3, 5)),
    "indexed": (
        of(lambda m, x: m.word.weight[x] - m.word.weight.t()[:, x[0]].transpose(0, 1), 1, 4, word=nn.Embedding(WORDS, 5))[0],
        (1, 4),
    ),
    "one-hot": (
        of(lambda m, x: m.linear(functional.one_hot(x.long(), WORDS).float()), 1, 4, linear=nn.Linear(WORDS, 3))[0],
        (1, 4),
    ),
    "one-hot-of-the-largest": (
        Of(lambda m, x: functional.one_hot(m.word(x).argmax(-1), 5).float(), word=nn.Embedding(WORDS, 5)),
        (1, 4),
    ),
    "bags": (
        Of(
            lambda m, x: torch.cat([m.sum(x), m.mean(x), m.max(x)], 1),
            **{mode: nn.EmbeddingBag(WORDS, 6, mode=mode) for mode in ("sum", "mean", "max")},
        ),
        (3, 5),
    ),
    "bags-of-several-sizes": (
        Of(lambda m, x: m.bag(x, torch.tensor([0, 3, 4])), bag=nn.EmbeddingBag(WORDS, 6, mode="mean")),
        (7,),
    ),
    "weighted-bags": (
        Of(lambda m, x: m.bag(x, per_sample_weights=torch.arange(8.0).view(2, 4)), bag=nn.EmbeddingBag(WORDS, 6, mode="sum")),
        (2, 4),
    ),
    "selected": (Of(lambda m, x: m.word.weight.index_select(0, x), word=nn.Embedding(WORDS, 5)), (4,)),
}


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", CASES)
def test_tokens_select_the_rows_that_torch_selects(name: str, dtype: torch.dtype) -> None:
    module, shape = CASES[name]
    example = drawn(*shape).to(dtype)
    graph = from_module(module.eval(), example)
    assert graph.tensors[graph.inputs[0]].dtype == "int32"
    for seed in range(4):
        tokens = drawn(*shape, seed=seed)
        with torch.no_grad():
            expected = module(tokens.to(dtype)).numpy()
        (found,) = ops.run(graph, {graph.inputs[0]: tokens.numpy().astype(np.int32)}).values()
        assert np.abs(found - expected).max() < 1e-5


def test_a_pt2_file_and_its_program_give_the_same_graph() -> None:
    example, file = drawn(1, 7), io.BytesIO()
    torch.export.save(torch.export.export(CASES["classifier"][0].eval(), (example,)), file)
    assert diff(from_pt2(file.getvalue(), "net"), from_module(CASES["classifier"][0].eval(), example, "net")) == []


@pytest.mark.litert
def test_a_quantised_text_classifier_gives_the_bytes_of_litert(emulator: None) -> None:
    module = CASES["classifier"][0].eval()
    samples = [drawn(1, 7, seed=seed).numpy() for seed in range(60)]
    done = tw.quantize(tw.load(module, drawn(1, 7)), samples)
    assert done.fidelity.sqnr_db > 25
    result = tw.verify(done.model, samples=6)
    assert result.ok and result.reference.startswith("LiteRT's reference kernels, equal"), result


def onnx_gather(axis: int, elem_type: str, data: Any, tokens: tuple[int, ...]) -> bytes:
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")
    helper, types = onnx.helper, onnx.TensorProto
    node = helper.make_node("Gather", ["table", "tokens"], ["y"], axis=axis)
    inputs = [helper.make_tensor_value_info("tokens", getattr(types, elem_type), tokens)]
    tables = [onnx.numpy_helper.from_array(data, "table")] if isinstance(data, np.ndarray) else []
    inputs += [] if tables else [helper.make_tensor_value_info("table", types.FLOAT, data)]
    graph = helper.make_graph([node], "net", inputs, [helper.make_tensor_value_info("y", types.FLOAT, None)], tables)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString())


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_onnx_one_hot_sets_the_element_of_each_index(axis: int) -> None:
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")
    helper, types = onnx.helper, onnx.TensorProto
    given = {"depth": np.array([6]), "values": np.array([-1, 2.5], np.float32)}
    graph = helper.make_graph(
        [helper.make_node("OneHot", ["tokens", "depth", "values"], ["y"], axis=axis)],
        "net",
        [helper.make_tensor_value_info("tokens", types.INT64, (2, 3))],
        [helper.make_tensor_value_info("y", types.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in given.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    tokens = np.array([[0, 5, 3], [6, 1, 100]])  # 6 and 100 are out of range
    hit = np.moveaxis(np.arange(6) == tokens[..., None], -1, axis)
    expected = np.where(hit, np.float32(2.5), np.float32(-1))
    assert distance(from_onnx(model.SerializeToString(), "net"), [tokens.astype(np.int32)], [expected]) == 0


@pytest.mark.parametrize("elem_type", ["INT32", "INT64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("is_constant", [True, False])
def test_onnx_gathers_at_computed_indices(elem_type: str, axis: int, is_constant: bool) -> None:
    rng = np.random.default_rng(1)
    table = rng.standard_normal((4, 5, 6)).astype(np.float32)
    graph = from_onnx(onnx_gather(axis, elem_type, table if is_constant else table.shape, (2, 3)), "net")
    tokens = rng.integers(0, 4, (2, 3)).astype(np.int32)
    given = [tokens] if is_constant else [tokens, table]
    assert distance(graph, given, [np.take(table, tokens, axis)]) == 0


def test_arithmetic_on_tokens_is_refused() -> None:
    module = Of(lambda m, x: m.word(x + 1), word=nn.Embedding(WORDS, 5))
    with pytest.raises(CompileError, match=r"add .*: it computes on integers of the input .*, which only an embedding can"):
        from_module(module, drawn(1, 4))


def test_floats_as_tokens_are_refused() -> None:
    with pytest.raises(CompileError, match="its indices are not integers; give them as int32 or int64"):
        from_onnx(onnx_gather(0, "FLOAT", np.ones((4, 5), np.float32), (1, 3)), "net")

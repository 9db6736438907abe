"""The .pt2 files of torch.export.save are read without torch and without unpickling, or refused with the reason.

Modules are read by way of these files: test_torch.py and fuzz/test_torch.py compare what the graphs compute with torch.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from fuzz.steps import steps_apart
from torch import nn

import tinyweave as tw
from tinyweave import ops
from tinyweave.importers import pt2
from tinyweave.importers.pt2 import CONSTANT, computed, from_pt2
from tinyweave.importers.torch import from_module
from tinyweave.ir import CompileError, diff
from tinyweave.passes import run_passes

GRAPH, WEIGHTS, SAMPLES = "models/model.json", "data/weights/model_weights_config.json", "data/sample_inputs/model.pt"


def saved(module: nn.Module, example: Any) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module.eval(), (example,)), out)
    return out.getvalue()


class Small(nn.Module):
    """A module with a parameter, a buffer, a constant, an op of several outputs, and computed constants."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.lstm, self.factor = nn.LSTM(4, 3, batch_first=True), torch.tensor(2.5)
        self.register_buffer("slope", torch.rand(3, 1))

    def forward(self, x: Any) -> Any:
        low, high = torch.relu_(self.norm(self.conv(x))).chunk(2, 1)
        rows = torch.cat([low * self.factor, high.clamp(max=1.0)], 1).mean(3).transpose(1, 2)
        return self.lstm(rows)[0] * (self.slope.t() * 2).reshape(1, 1, 3)


@pytest.fixture(scope="module")
def file() -> bytes:
    return saved(Small(), torch.randn(1, 3, 6, 6))


def changed(file: bytes, **parts: Any) -> bytes:
    """Return the archive with files replaced by bytes, changed by a function of their JSON, or removed."""
    names = {"graph": GRAPH, "weights": WEIGHTS, "samples": SAMPLES, "order": "byteorder", "weight": "data/weights/weight_0"}
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            for key, change in parts.items():
                if entry.filename.endswith(names[key]):
                    content = change if isinstance(change, bytes) else _rewritten(content, change)
            new.writestr(entry.filename, content)
    return out.getvalue()


def _rewritten(content: bytes, change: Callable[[Any], Any]) -> bytes:
    value = json.loads(content)
    change(value)
    return json.dumps(value).encode()


def refusal(file: bytes) -> str:
    with pytest.raises(CompileError) as error:
        from_pt2(file, "net")
    return str(error.value)


class Planted:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_no_pickle_is_loaded(file: bytes, tmp_path: Path) -> None:
    import pickle

    planted, target = pickle.dumps(Planted(tmp_path / "ran")), tmp_path / "ran"
    pickle.loads(planted)
    assert target.exists()  # unpickling does run the object
    target.unlink()
    from_pt2(changed(file, samples=planted), "net")

    def by_pickle(config: Any) -> None:
        config["config"]["conv.weight"]["use_pickle"] = True

    assert "'conv.weight': is stored as a pickle" in refusal(changed(file, weights=by_pickle, weight=planted))
    assert not target.exists()


def test_a_pt2_file_loads_without_torch(file: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.pt2").write_bytes(file)
    code = "import sys; sys.modules['torch'] = None; import tinyweave as tw; print(tw.load('net.pt2'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "<Model 'net': 8 ops, float32[1, 6, 6, 3] -> float32[1, 4, 3]>\n"


class Constants(nn.Module):
    """A module that computes constants from its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(1, 9, 4))

    def forward(self, x: Any) -> Any:
        places = self.places[:, : x.size(1)] + self.places[0, 0].expand(1, 5, -1) + self.places.flatten()[3]
        return x * places + self.places[:, 2:3].squeeze(1)


def test_views_of_constants_are_computed() -> None:
    check_values_of(Constants(), torch.randn(1, 5, 4))


def check_values_of(module: nn.Module, example: Any) -> None:
    graph = from_pt2(saved(module, example), "net")
    (found,) = ops.run(graph, {graph.inputs[0]: example.numpy()}).values()
    assert np.allclose(found, module(example).detach().numpy(), rtol=1e-5, atol=1e-5)


def written_in_parts(x: Any) -> Any:
    """Return a constant of which a view is changed in place."""
    whole = x * 2
    part = whole[1:3]
    part.fill_(0.25)
    whole[3:].add_(part[:1])
    return whole + part.sum()


CONSTANT_ONLY: dict[str, Any] = {
    "transposed": lambda m, x: x @ m.w.T,
    "normed": lambda m, x: x * (m.g**2 + 1e-3).rsqrt() + m.g.abs(),
    "reduced": lambda m, x: x * m.w.mean(0).mean() - m.g.sum(0, keepdim=True),
    "joined": lambda m, x: x + torch.cat([m.g[:2], m.g[2:]]) * torch.stack([m.g, m.g])[1],
    "counted": lambda m, x: x + torch.arange(4.0) - torch.arange(1, 5) / 2,
    "spaced": lambda m, x: x + torch.linspace(0, 1, 4) * torch.full((4,), 3) + torch.logspace(0, 1, 4, dtype=torch.float64),
    "standardised": lambda m, x: x @ ((m.w - m.w.mean(1, keepdim=True)) / (m.w.var(1, keepdim=True) + 1e-5).sqrt()).T,
    "grid": lambda m, x: x + torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1).sum(0),
    "product": lambda m, x: x[:, :3] + torch.mv(m.w, m.g) * torch.outer(m.g, m.g).trace(),
    "written": lambda m, x: x * written_in_parts(m.g),
    "chosen": lambda m, x: (
        x + torch.where(torch.arange(4) % 2 == 0, m.g, -1.0) + m.w.max(0)[0] + m.g[torch.tensor([3, 1, 0, 2])]
    ),
    "either": lambda m, x: x + torch.where((m.g > 0.5) | (m.g < 0) ^ (m.g < -0.5), m.g, 2.0),
    "quotient": lambda m, x: x + torch.div(torch.arange(4), 2, rounding_mode="floor") + torch.arange(4) // 3,
    "powers": lambda m, x: x * 2.0 ** -torch.arange(4) + torch.pow(m.g.abs(), m.w[0]),
    "squeezed": lambda m, x: (
        x * m.g[:, None].squeeze()
        + m.g[None, :, None].squeeze(2).squeeze(0)
        + m.g[None, :, None].squeeze((0, 2))
        + m.g[None].squeeze(1)
    ),
    "triangular": lambda m, x: x + (-m.w.tril()).exp().sum(0) - m.w.t().triu(1).sum(1),
    "bounded": lambda m, x: x * torch.sigmoid(m.g) + torch.tanh(m.g) * torch.relu(m.g),
}


class Of(nn.Module):
    """A module of a function and two parameters."""

    def __init__(self, function: Any):
        super().__init__()
        self.function, self.w, self.g = function, nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(4))

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


@pytest.mark.parametrize("module", [*map(Of, CONSTANT_ONLY.values()), "norm"], ids=[*CONSTANT_ONLY, "weight_norm"])
def test_nodes_on_constants_only_are_computed_at_import(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy computes the ops in CONSTANT, because torch may be missing, unless they have options that only torch knows."""

    def by_torch(op: str, args: Any, options: Any, most: int) -> Any:
        assert op not in CONSTANT or options, f"NumPy does not compute {op}"
        return computed(op, args, options, most)

    monkeypatch.setattr(pt2, "computed", by_torch)
    module = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)) if module == "norm" else module
    check_values_of(module, torch.randn(1, 4))


def test_an_unsupported_op_on_constants_is_named() -> None:
    module = Of(lambda m, x: x * torch.cdist(m.g[None], m.g[None]))
    assert "cdist (in cdist): all of its inputs are constant" in refusal(saved(module, torch.randn(1, 4)))


class Whole(nn.Module):
    """A module that returns `outputs` besides its result."""

    def __init__(self, *outputs: Any):
        super().__init__()
        self.outputs = outputs

    def forward(self, x: Any) -> Any:
        return (x.relu(), *self.outputs)


@pytest.mark.parametrize(("output", "words"), [(None, "is None, not a tensor"), (3, "is 3, not a tensor")])
def test_outputs_that_are_not_tensors_are_refused(output: Any, words: str) -> None:
    assert f"an output of the program {words}" in refusal(saved(Whole(output), torch.randn(1, 4)))


class Buffers(nn.Module):
    """A module with buffers whose values are stored once for several elements, in another order, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        values = torch.randn(1, 4)
        for name, buffer in {"wide": values.expand(3, 4), "turned": torch.randn(4, 3).T, "none": torch.zeros(0, 4)}.items():
            self.register_buffer(name, buffer)

    def forward(self, x: Any) -> Any:
        return torch.cat([x * self.wide, self.none]) + self.turned


def test_buffers_of_any_strides_have_their_values() -> None:
    module, x = Buffers(), torch.randn(3, 4)
    for graph in (from_pt2(saved(module, x), "net"), from_module(module, x)):
        (found,) = ops.run(graph, {graph.inputs[0]: x.numpy()}).values()
        assert found == pytest.approx(module(x).numpy(), abs=1e-6)


class Written(nn.Module):
    """A module that changes a constant in place and then reads it through another view."""

    def forward(self, x: Any) -> Any:
        whole = torch.zeros(1, 4)
        half = whole.view(2, 2)
        whole.add_(x)
        return half.reshape(1, 4) * 2 + x


def test_a_stale_view_of_a_tensor_changed_in_place_is_refused() -> None:
    assert "after the network has changed it in place" in refusal(saved(Written(), torch.randn(1, 4)))


def set_many(program: Any) -> None:
    """Change the program to repeat a large constant."""
    nodes = program["graph_module"]["graph"]["nodes"]
    (made,) = (node for node in nodes if "zeros" in node["target"])
    made["inputs"][0]["arg"]["as_ints"] = [1 << 11, 1 << 12]
    for number in range(100):
        again = json.loads(json.dumps(made))
        again["outputs"][0]["as_tensor"]["name"] = f"again_{number}"
        nodes.insert(0, again)


def test_the_total_size_of_computed_constants_is_limited() -> None:
    file = saved(Written(), torch.randn(1, 4))
    assert "the constants computed at import take more than 536,870,912 bytes" in refusal(changed(file, graph=set_many))


def set_version(program: Any) -> None:
    program["schema_version"]["major"] = 7


def set_pickled_dtype(config: Any) -> None:
    config["config"]["conv.weight"]["tensor_meta"]["dtype"] = 6


def set_unknown_dtype(config: Any) -> None:
    config["config"]["conv.weight"]["tensor_meta"]["dtype"] = 13


def set_shape(config: Any) -> None:
    config["config"]["conv.weight"]["tensor_meta"]["sizes"][0]["as_int"] = 1 << 40


def set_strides(config: Any) -> None:
    config["config"]["conv.weight"]["tensor_meta"]["strides"][0]["as_int"] = 1 << 40


def set_expanded(config: Any) -> None:
    meta = config["config"]["conv.weight"]["tensor_meta"]
    meta["sizes"][0]["as_int"], meta["strides"][0]["as_int"] = 1 << 40, 0


def set_negative(config: Any) -> None:
    config["config"]["conv.weight"]["tensor_meta"]["storage_offset"]["as_int"] = -4


def set_dynamic(program: Any) -> None:
    sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    sizes[2] = {"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 6}}}


def set_large(program: Any) -> None:
    sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    sizes[2] = {"as_int": 1 << 40}


def set_unknown(program: Any) -> None:
    program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.rrelu.default"


def set_zeros(program: Any) -> None:
    for node in program["graph_module"]["graph"]["nodes"]:
        if "zeros" in node["target"]:
            node["inputs"][0]["arg"]["as_ints"] = [1 << 20, 1 << 20]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"graph": set_version}, "the .pt2 schema has version 7; version 8 is supported"),
        ({"weights": set_pickled_dtype}, "'conv.weight': is float16; only float32"),
        ({"weights": set_shape}, "'conv.weight': has the shape"),
        ({"weights": set_strides}, "'conv.weight': has the shape"),
        ({"weights": set_expanded}, "'conv.weight': has the shape"),
        ({"weights": set_negative}, "not a readable .pt2 file; it may be cut short or damaged"),
        ({"graph": set_dynamic}, "'x': has an axis 2 of dynamic size; give its shape, such as --shape x=1,3,6,6 (in Python "),
        ({"weights": set_unknown_dtype}, "'conv.weight': is bfloat16; only float32"),
        ({"graph": set_large}, "elements"),
        ({"graph": set_unknown}, "rrelu (in conv): tinyweave does not import it"),
        ({"graph": set_zeros}, "computes a constant of shape [1048576, 1048576]"),
        ({"weight": b"\0\0\xc0\x7f" * 108}, "'conv.weight': holds values that are not finite"),
        ({"order": b"big"}, "is big-endian"),
        ({"graph": b"{" * 100_000}, "not a readable .pt2 file"),
        ({"graph": b"[" * 100_000}, "not a readable .pt2 file"),
    ],
)
def test_a_faulty_file_is_refused_with_the_reason(file: bytes, change: dict[str, Any], words: str) -> None:
    assert words in refusal(changed(file, **change))


def test_a_file_that_is_not_an_archive_is_refused(file: bytes) -> None:
    assert "not a readable .pt2 file" in refusal(b"TFL3") and "not a readable .pt2 file" in refusal(file[: len(file) // 2])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bomb:
        for part in range(3):
            bomb.writestr(f"m/data/{part}", bytes(100 << 20))
    assert "unpacks to more than" in refusal(out.getvalue())


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_archive_is_refused(file: bytes, packing: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(out, "w", packing) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    assert "has an unsupported zip compression" in refusal(out.getvalue())


def test_a_damaged_file_is_read_or_refused(file: bytes) -> None:
    """Nested values of the graph are replaced by others of the graph or by absurd values; bits of the archive are flipped."""
    rng = random.Random(17)
    for _ in range(300):
        shaken = changed(file, graph=lambda program: shake(program["graph_module"], rng))
        try:
            from_pt2(shaken, "net")
        except CompileError as error:
            assert "\n" not in str(error)
    for _ in range(200):
        flipped = bytearray(file)
        for _ in range(rng.randint(1, 4)):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        try:
            from_pt2(bytes(flipped), "net")
        except CompileError as error:
            assert "\n" not in str(error)


def shake(value: Any, rng: random.Random) -> None:
    """Replace one nested value at random."""
    places: list[tuple[Any, Any]] = []

    def collect(part: Any) -> None:
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            if key != "metadata":
                places.append((part, key))
                if isinstance(inner, (dict, list)):
                    collect(inner)

    collect(value)
    part, key = rng.choice(places)
    other, other_key = rng.choice(places)
    part[key] = rng.choice([None, -1, 0, 1 << 40, 1e30, "x", [], {}, [1] * 9, json.loads(json.dumps(other[other_key]))])


def test_a_loaded_pt2_file_is_written_as_tflite_without_change(file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(file)
    model = tw.load(path)
    again = tmp_path / "net.tflite"
    again.write_bytes(model.file)
    assert diff(tw.load(again).graph, model.graph) == []
    with pytest.raises(CompileError, match="float32"):
        tw.plan(path)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_an_int8_input_of_pytorch_is_read_with_its_scale(dtype: str) -> None:
    pytest.importorskip("torch.ao.quantization.fx._decomposed")  # which defines the ops
    q, kind, limits = torch.ops.quantized_decomposed, getattr(torch, dtype), np.iinfo(dtype)
    how = (0.05, limits.min + 100, limits.min, limits.max, kind)

    def pooled(m: Any, x: Any) -> Any:
        y = torch.max_pool2d(q.dequantize_per_tensor(x, *how), 2)
        return q.dequantize_per_tensor(q.quantize_per_tensor(y, *how), *how)

    module, given = Of(pooled).eval(), np.random.default_rng(0).integers(limits.min, limits.max + 1, (1, 3, 6, 6), dtype)
    example = torch.from_numpy(given)
    graph = from_module(module, example, "net")
    assert graph.tensors[graph.inputs[0]].dtype == dtype
    inner, _ = run_passes(graph, io="int8")
    assert [op.kind for op in inner.ops] == ["max_pool_2d"]
    assert steps_apart(inner, given, module(example).numpy()).max() == 0


@pytest.mark.parametrize(
    "function", [lambda x: (x.float() - 3) * 0.05, lambda x: x / 255, lambda x: x.to(torch.float32).tanh()]
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_that_a_float_network_casts_are_its_input(dtype: str, function: Any) -> None:
    given = np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (1, 6), dtype)
    module, example = Of(lambda m, x: function(x).relu()).eval(), torch.from_numpy(given)
    graph = from_module(module, example, "net")
    assert graph.tensors[graph.inputs[0]].dtype == dtype
    (found,) = ops.run(graph, {graph.inputs[0]: given}).values()
    assert np.allclose(found, module(example).numpy(), atol=1e-5)
    message = f"it computes on {dtype}; cast the integers to float32 first"
    for load in (lambda: from_module(nn.ReLU(), example), lambda: from_pt2(saved(nn.ReLU(), example), "net")):
        with pytest.raises(CompileError, match=message):
            load()

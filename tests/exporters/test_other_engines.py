"""Files for TFLite Micro: where their tensors lie, that all else of the file stays, and the same results in LiteRT."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import tflite
from exporters.spans import is_as_foreseen
from fuzz.generate import random_network

import tinyweave as tw
from tests.passes.padded import padded_layer, random_padded_layer
from tinyweave import api
from tinyweave.api import other_engines
from tinyweave.api.results import Reordering
from tinyweave.exporters.tflite import PLACES, Signature, metadata_of, to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Op
from tinyweave.ops import macs
from tinyweave.simulate import compare, litert

KERAS, PYTORCH = ((0, 1), (0, 1)), ((1, 1), (1, 1))
# file -> the most bytes that TFLite Micro needs for activations, and the MACs as a multiple that this may take
TARGETS = {
    "MohamedElhadidy0019__stm32ai-modelzoo__mobilenet_v2_0.35_224_tfs_int8": (752_640, 1.0),
    "MohamedElhadidy0019__stm32ai-modelzoo__mobilenet_v2_0.35_128_tl_int8": (245_760, 1.0),
    "MohamedElhadidy0019__stm32ai-modelzoo__resnet_v1_32_32_tfs_int8": (49_152, 1.0),
    "benx13__Wake_Vision_Challenge_Data_Centric_Track__mcunet_tiny_int8": (327_936, 1.0),
    "esphome__micro-wake-word-models__okay_nabu": (2_944, 1.0),
    "mit-han-lab__tinyengine__vww": (96_000, 1.07),
    "mlcommons__tiny__vww_96_int8": (55_296, 1.0),
}


def rewritten(folder: Path, file: bytes, overhead: float | None = None, engine: str = "tflm", io: str = "model") -> Reordering:
    path = folder / "model.tflite"
    path.write_bytes(file)
    return tw.reorder(path, engine=engine, max_mac_overhead=overhead, io=io)


def checked_places(file: bytes) -> int:
    """Return the bytes of the arena by a file's metadata; assert that no two tensors share a byte while both are alive."""
    model = tflite.Model.GetRootAs(file, 0)
    version, subgraph, count, *offsets = np.frombuffer(metadata_of(file)[PLACES], np.int32).tolist()
    graphs = [model.Subgraphs(index) for index in range(model.SubgraphsLength())]
    assert (version, subgraph, count) == (1, 0, len(offsets))
    assert count == sum(each.TensorsLength() for each in graphs)
    main, ops = graphs[0], [graphs[0].Operators(index) for index in range(graphs[0].OperatorsLength())]
    inputs, outputs = set(main.InputsAsNumpy().tolist()), set(main.OutputsAsNumpy().tolist())
    alive = dict[int, list[int]]()
    for index in range(main.TensorsLength()):
        writes = [step for step, op in enumerate(ops) if index in op.OutputsAsNumpy()]
        reads = [step for step, op in enumerate(ops) if op.InputsLength() and index in op.InputsAsNumpy()]
        steps = [*writes, *reads, *([0] if index in inputs else []), *([len(ops) - 1] if index in outputs else [])]
        placed = (writes or index in inputs) and main.Tensors(index).Type() != tflite.TensorType.RESOURCE
        assert (offsets[index] >= 0) == bool(placed), main.Tensors(index).Name()
        if placed:
            alive[index] = steps
    assert all(offset == -1 for offset in offsets[main.TensorsLength() :])
    tensors = list(from_tflite(file, "x").tensors.values())
    sizes = {tensor.name: tensor.bytes for tensor in tensors}
    size = {index: sizes[main.Tensors(index).Name().decode()] for index in alive}
    for a, b in ((a, b) for a in alive for b in alive if a < b):
        if min(alive[a]) <= max(alive[b]) and min(alive[b]) <= max(alive[a]):
            assert offsets[a] + size[a] <= offsets[b] or offsets[b] + size[b] <= offsets[a], (a, b)
    assert all(offsets[index] % 16 == 0 for index in alive)
    return max(offsets[index] + -(-size[index] // 16) * 16 for index in alive)


def test_tensors_of_random_networks_lie_apart_and_no_network_needs_more(tmp_path: Path) -> None:
    changed = with_variables = 0
    for seed in range(60):
        file = to_tflite(random_network(seed, 12))
        done = rewritten(tmp_path, file)
        assert done.engine is not None and done.engine.after <= done.engine.before
        assert (
            (gain := api.tflm_gain(done.model)) and gain["before"] == done.engine.before and done.engine.after <= gain["after"]
        )
        assert bool(done.engine.unchanged) == (done.file == file) == (done.engine.after == done.engine.before)
        if done.file != file:
            changed += 1
            with_variables += tflite.Model.GetRootAs(file, 0).SubgraphsLength() > 1
            assert checked_places(done.file) == done.engine.after
            peak = max(sum(step.values()) for step in done.live(done.best.ops))
            state = sum(tensor.bytes for tensor in done.graph.tensors.values() if tensor.role == "state")
            assert done.best.peak == peak and done.best.lower_bound <= peak <= done.engine.after + state
        assert max(sum(step.values()) for step in done.live()) >= done.best.lower_bound
    assert changed > 20 and with_variables > 3


@pytest.mark.litert
@pytest.mark.parametrize("engine", ["tflm", "litert"])
@pytest.mark.parametrize("seed", [*range(12), 21, 23, 27, 31])
def test_litert_computes_the_same_from_a_rewritten_file(seed: int, engine: str, tmp_path: Path) -> None:
    """The last four networks have variables."""
    graph = random_network(seed, 12) if seed % 2 else random_padded_layer(seed)
    file = to_tflite(graph)
    inputs = compare.samples(graph, 5, seed)
    done = rewritten(tmp_path, file, 2.0, engine)
    assert (PLACES in metadata_of(done.file)) == (engine == "tflm" and done.file != file)
    after = litert.run(done.file, inputs)
    for a, b in zip(litert.run(file, inputs), after, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))


@pytest.mark.litert
def test_conversions_are_removed_on_request(tmp_path: Path) -> None:
    graph = padded_layer("conv_2d", KERAS)
    x = graph.tensors["x"]
    pixels = replace(x, name="pixels", dtype="uint8", quant=replace(x.quant, zero_point=(x.zero_point + 128,)))
    convert = Op("convert", "quantize", ("pixels",), ("x",))
    graph = replace(graph, tensors={"pixels": pixels, **graph.tensors}, ops=(convert, *graph.ops), inputs=("pixels",))
    file, inputs = to_tflite(graph, signature=True), compare.samples(graph, 3, 0)
    kept, done = (rewritten(tmp_path, file, io=io) for io in ("model", "int8"))
    assert kept.graph.inputs == ("pixels",) and done.graph.inputs == ("x",)
    assert kept.engine is not None and done.engine is not None and done.engine.after < kept.engine.after
    as_int8 = [[(array.astype(np.int16) - 128).astype(np.int8) for array in arrays] for arrays in inputs]
    for a, b in zip(litert.run(file, inputs), litert.run(done.file, as_int8), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))


@pytest.mark.litert
def test_litert_needs_as_little_as_foreseen(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
    done = rewritten(tmp_path, path.read_bytes(), 1.1, "litert")
    assert done.engine is not None and done.engine.tiled and PLACES not in metadata_of(done.file)
    assert is_as_foreseen(path.read_bytes(), done.model.original) and is_as_foreseen(done.file, done.graph)


def test_kernels_are_extended_within_the_macs_that_are_allowed(tmp_path: Path) -> None:
    file = to_tflite(graph := padded_layer("conv_2d", PYTORCH, (16, 16)))
    kept = rewritten(tmp_path, file)
    assert kept.engine is not None and kept.engine.unchanged and kept.file == file
    folded = rewritten(tmp_path, file, 2.0)
    assert folded.engine is not None and folded.engine.pads == 1 and folded.engine.after < folded.engine.before
    assert folded.engine.macs == macs(folded.graph) / macs(graph) > 1
    assert max(sum(step.values()) for step in folded.live()) > folded.best.peak
    exactly = rewritten(tmp_path, file, folded.engine.macs)
    assert exactly.file == folded.file
    assert rewritten(tmp_path, file, folded.engine.macs - 1e-6).file == file


def test_flash_is_not_spent_where_an_extended_kernel_saves_no_activations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second pad is not at the peak; its kernel grows by 4 * 4 * (4 * 4 - 3 * 3) B, and the pad's amounts of 32 B go."""
    for limit, pads in ((80, 2), (79, 1)):
        monkeypatch.setattr(other_engines, "MOST_ZERO_BYTES", limit)
        done = rewritten(tmp_path, to_tflite(two_pads()), 2.0)
        assert done.engine is not None and done.engine.pads == pads


def two_pads() -> Graph:
    """Return a padded depthwise layer with a stride of 2 at the peak, then a padded convolution."""
    first = padded_layer("depthwise_conv_2d", PYTORCH, (32, 32))
    second = padded_layer("conv_2d", PYTORCH, (16, 16))
    names = {name: f"second.{name}" for name in second.tensors} | {"x": "y"}
    tensors = {names[name]: replace(tensor, name=names[name]) for name, tensor in second.tensors.items() if name != "x"}
    ops = [
        replace(op, name=f"second.{op.name}", inputs=tuple(names[str(n)] for n in op.inputs), outputs=(names[op.outputs[0]],))
        for op in second.ops
    ]
    wide = replace(first.tensors["y"], quant=second.tensors["x"].quant)
    return replace(first, tensors=first.tensors | tensors | {"y": wide}, ops=(*first.ops, *ops), outputs=("second.y",))


def test_metadata_signatures_and_appended_files_stay(tmp_path: Path) -> None:
    graph = padded_layer("conv_2d", KERAS)
    signature = Signature("classify", [("image", "x")], [("scores", "y")])
    file = to_tflite(graph, metadata={"min_runtime_version": b"1.5.0", "empty": b""}, signature=[signature])
    labels = BytesIO(file)
    with zipfile.ZipFile(labels, "a") as archive:
        archive.writestr("labels.txt", "cat\ndog\n")
    new = rewritten(tmp_path, labels.getvalue()).file
    assert new != labels.getvalue()
    assert {**metadata_of(new)} == {**metadata_of(file), PLACES: metadata_of(new)[PLACES]}
    with zipfile.ZipFile(BytesIO(new)) as archive:
        assert archive.read("labels.txt") == b"cat\ndog\n"
    model = tflite.Model.GetRootAs(new, 0)
    found = model.SignatureDefs(0)
    assert model.SignatureDefsLength() == 1 and found.SignatureKey() == b"classify"
    for entry, name, tensor in ((found.Inputs(0), b"image", b"x"), (found.Outputs(0), b"scores", b"y")):
        assert entry.Name() == name and model.Subgraphs(0).Tensors(entry.TensorIndex()).Name() == tensor


def test_a_file_that_says_where_its_tensors_lie_is_unchanged(tmp_path: Path) -> None:
    file = rewritten(tmp_path, to_tflite(padded_layer("conv_2d", KERAS))).file
    again = rewritten(tmp_path, file)
    assert again.engine is not None and again.file == file
    assert again.engine.unchanged == "it already says where its tensors lie"


@pytest.mark.parametrize("slot", ["metadata", "signature"])
def test_a_damaged_entry_is_refused_in_one_line(slot: str, tmp_path: Path) -> None:
    graph = padded_layer("conv_2d", KERAS)
    file = bytearray(to_tflite(graph, metadata={"entry": b"value"}, signature=True))
    model = tflite.Model.GetRootAs(file, 0)
    table = (model.Metadata(0) if slot == "metadata" else model.SignatureDefs(0))._tab.Pos
    file[table : table + 4] = (1 << 30).to_bytes(4, "little")  # the offset of its vtable
    with pytest.raises(CompileError, match="metadata or signatures are damaged"):
        rewritten(tmp_path, bytes(file))


@pytest.mark.litert
@pytest.mark.shared
@pytest.mark.parametrize("name", TARGETS)
def test_real_models_need_less_and_compute_the_same(name: str, shared: Path, tmp_path: Path) -> None:
    most, overhead = TARGETS[name]
    file = (shared / "models" / f"{name}.tflite").read_bytes()
    done = rewritten(tmp_path, file, overhead)
    assert done.engine is not None and done.engine.after <= most and done.engine.macs <= overhead
    assert checked_places(done.file) == done.engine.after
    inputs = compare.samples(api.read(shared / "models" / f"{name}.tflite").original, 2, 0)
    for a, b in zip(litert.run(file, inputs), litert.run(done.file, inputs), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))

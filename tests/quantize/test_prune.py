"""Pruning: the smaller network equals the whole one without the removed channels, limits hold, training raises the SQNR."""

from __future__ import annotations

import itertools
import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.floats import DENSE, WINDOW, fixed, float_graph, random_classifier

import tinyweave as tw
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph
from tinyweave.passes.value_ranges import channels
from tinyweave.quantize.channel_pruning import Footprint, channel_groups, pruned, without_channels
from tinyweave.quantize.evaluate import evaluate, outputs
from tinyweave.quantize.simplify_float import simplify_float


def network() -> Graph:
    """Return a network of convolutions, a sum, a depthwise convolution, a concatenation, a flattening and two dense layers."""
    rng = np.random.default_rng(0)
    shapes = {"a": (8, 3, 3, 3), "b": (8, 1, 1, 8), "d": (1, 3, 3, 8), "c": (6, 3, 3, 8), "e": (5, 4 * 4 * 14), "f": (3, 5)}
    tensors = [fixed(name, rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))) for name, shape in shapes.items()]
    tensors += [fixed(f"{name}0", rng.normal(size=size) / 4) for name, size in zip("abdcef", (8, 8, 8, 6, 5, 3), strict=True)]
    tensors += [fixed("shape", np.array([1, 4 * 4 * 14]))]
    half = {"stride": (2, 2), "dilation": (1, 1), "padding": ((0, 1), (0, 1)), "activation": "relu"}
    steps: list[Any] = [
        ("conv_2d", ("x", "a", "a0"), half),
        ("conv_2d", ("t0", "b", "b0"), WINDOW | {"padding": ((0, 0), (0, 0)), "activation": "none"}),
        ("add", ("t0", "t1"), {"activation": "relu"}),
        ("depthwise_conv_2d", ("t2", "d", "d0"), WINDOW | {"activation": "relu6"}),
        ("hard_swish", ("t3",), {}),
        ("conv_2d", ("t4", "c", "c0"), WINDOW | {"activation": "relu"}),
        ("concatenation", ("t5", "t2"), {"axis": 3, "activation": "none"}),
        ("reshape", ("t6", "shape"), {"new_shape": (1, 4 * 4 * 14)}),
        ("fully_connected", ("t7", "e", "e0"), DENSE | {"activation": "relu"}),
        ("fully_connected", ("t8", "f", "f0"), DENSE),
        ("softmax", ("t9",), {"beta": 1.0}),
    ]
    return simplify_float(float_graph(tensors, steps, x=(1, 8, 8, 3)))


def sizes(graph: Graph) -> Footprint:
    live = max(t.bytes for t in graph.tensors.values() if t.data is None)
    return Footprint(live, sum(t.bytes for t in graph.tensors.values() if t.data is not None))


def test_tied_channels_are_one_group() -> None:
    groups = {group.makers: group for group in channel_groups(network())}
    assert {makers: len(group.members) for makers, group in groups.items()} == {
        ("conv_2d_0", "conv_2d_1"): 8,
        ("conv_2d_5",): 6,
        ("fully_connected_8",): 5,
    }
    first = dict.fromkeys(name for name, _ in groups["conv_2d_0", "conv_2d_1"].members[3])
    assert set(first) == {"t0", "t1", "t2", "t3", "t4", "t6", "t7"}
    assert len([1 for name, _ in groups["conv_2d_0", "conv_2d_1"].members[3] if name == "t7"]) == 16
    for group in groups.values():
        assert group.norms.sum() == pytest.approx(1)


def zeroed(graph: Graph, gone: dict[str, set[int]], values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return all activations of the whole network with the channels `gone` set to 0."""

    def visit(name: str, array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[..., sorted(gone.get(name, ()))] = 0
        return array

    return evaluate(graph, values, visit=visit, keep=True)


@pytest.mark.parametrize("seed", [-1, 0, 1, 2, 3])
def test_the_pruned_network_equals_the_whole_one_with_zeroed_channels(seed: int) -> None:
    graph = network() if seed < 0 else simplify_float(random_classifier(seed))
    x = np.random.default_rng(0).normal(size=(3, *graph.tensors["x"].shape)).astype(np.float32)
    found = channel_groups(graph)
    assert found
    for group in found:
        gone = np.random.default_rng(seed + 1).permutation(len(group.members))[: max(1, len(group.members) // 3)]
        dropped: dict[str, set[int]] = {}
        for number in gone:
            for name, channel in group.members[number]:
                dropped.setdefault(name, set()).add(channel)
        smaller = without_channels(graph, group, gone)
        whole, left = zeroed(graph, dropped, {"x": x}), evaluate(smaller, {"x": x}, keep=True)
        for name in left:
            kept = [c for c in range(channels(graph.tensors[name])) if c not in dropped.get(name, ())]
            assert smaller.tensors[name].shape[-1] == len(kept)
            np.testing.assert_allclose(left[name], whole[name][..., kept], rtol=1e-4, atol=1e-5)
        assert sum(t.elements for t in smaller.tensors.values()) < sum(t.elements for t in graph.tensors.values())


def test_the_limits_hold_and_channels_of_least_norm_are_removed_first() -> None:
    graph = network()
    need = sizes(graph)
    limits = Footprint(need.ram, int(0.6 * need.flash))
    smaller, layers = pruned(graph, limits, sizes)
    assert sizes(smaller).excess(limits) == 0 and layers
    assert all(2 <= layer.after < layer.before and 0 < layer.lost < 1 for layer in layers)
    assert sum(layer.lost * layer.before / (layer.before - layer.after) for layer in layers) < len(layers) * layers[0].before
    dense = next(group for group in channel_groups(graph) if group.makers == ("fully_connected_8",))
    least = int(dense.norms.argmin())
    without_least = without_channels(graph, dense, np.array([least]))
    op = next(op for op in without_least.ops if op.name == "fully_connected_8")
    assert np.array_equal(without_least.input(op, 1).data, np.delete(graph.tensors["e"].data, least, axis=0))  # type: ignore[arg-type]


def test_a_ram_limit_removes_only_channels_of_the_map_at_the_peak() -> None:
    graph = network()
    limits = Footprint(sizes(graph).ram * 7 // 8, 1 << 40)
    _, layers = pruned(graph, limits, sizes)
    peak = max((t for t in graph.tensors.values() if t.data is None and t.name != "x"), key=lambda t: t.bytes).name
    assert peak in ("t6", "t7") and {name for layer in layers for name in layer.layers} <= {
        "conv_2d_0",
        "conv_2d_1",
        "conv_2d_5",
    }


def test_limits_that_cannot_be_reached_are_refused() -> None:
    seen: list[Graph] = []
    with pytest.raises(
        CompileError, match=r"B of RAM and [\d,]+ B of Flash are needed even with 2 channels in every layer that can be pruned"
    ):
        pruned(network(), Footprint(1 << 40, 10), lambda graph: seen.append(graph) or sizes(graph))  # type: ignore[func-returns-value]
    assert [len(group.members) for group in channel_groups(seen[-1])] == [2, 2, 2]


def dense(*widths: int) -> Graph:
    """Return dense layers whose filters differ much in norm."""
    rng, tensors, steps = np.random.default_rng(1), [], []
    for index, (depth, units) in enumerate(itertools.pairwise(widths)):
        weights = rng.normal(size=(units, depth)) * rng.permutation(np.arange(1, units + 1))[:, None]
        tensors += [fixed(f"w{index}", weights), fixed(f"b{index}", rng.normal(size=units))]
        steps.append(("fully_connected", (f"t{index - 1}" if index else "x", f"w{index}", f"b{index}"), DENSE))
    return simplify_float(float_graph(tensors, steps, x=(1, widths[0])))


@pytest.mark.parametrize("widths", [(6, 32, 40, 3), (40, 16, 30, 3), (3, 24, 2, 20, 5)])
def test_a_step_removes_an_eighth_of_the_layer_with_the_best_ratio(widths: tuple[int, ...]) -> None:
    graph = dense(*widths)
    limits = Footprint(1 << 40, sizes(graph).flash - 1)
    worth, smaller = {}, {}
    for group in channel_groups(graph):
        gone = np.argsort(group.norms)[: max(1, len(group.members) // 8)]
        smaller[group.makers] = without_channels(graph, group, gone)
        saved = 1 / limits.flash  # bytes above the limit count fully, bytes below it hardly
        saved += 1e-6 * (sum(astuple(sizes(graph))) - sum(astuple(sizes(smaller[group.makers])))) / sizes(graph).flash
        worth[group.makers] = saved / group.norms[gone].sum()
    best = max(worth, key=lambda makers: worth[makers])
    found, layers = pruned(graph, limits, sizes)
    assert [layer.layers for layer in layers] == [best]
    for name, tensor in smaller[best].tensors.items():
        assert tensor.data is None or np.array_equal(tensor.data, found.tensors[name].data)


def test_the_lost_norm_of_a_layer_adds_up_over_all_steps() -> None:
    graph, told = dense(6, 32, 3), list[int]()
    limits = Footprint(1 << 40, sizes(graph).flash // 3)
    smaller, (layer,) = pruned(graph, limits, sizes, lambda what, done, total: told.append(done))
    before, after = (np.abs(g.input(g.ops[0], 1).data).sum() for g in (graph, smaller))  # type: ignore[arg-type]
    assert layer.before == 32 and layer.after < 16 and layer.lost == pytest.approx(1 - after / before)
    assert len(told) > 2 and told == sorted(told) and told[0] > 0 and told[-1] == 99


def test_grouped_and_per_channel_ops_keep_their_channels() -> None:
    rng = np.random.default_rng(0)
    tensors = [fixed("w0", rng.normal(size=(8, 1, 1, 4))), fixed("w1", rng.normal(size=(8, 3, 3, 2)))]
    tensors += [fixed("w2", rng.normal(size=(4, 1, 1, 8))), fixed("b", rng.normal(size=8)), fixed("b2", rng.normal(size=4))]
    steps: list[Any] = [
        ("conv_2d", ("x", "w0", "b"), WINDOW | {"padding": ((0, 0), (0, 0)), "activation": "relu"}),
        ("conv_2d", ("t0", "w1", "b"), WINDOW | {"activation": "relu"}),  # in four groups
        ("conv_2d", ("t1", "w2", "b2"), WINDOW | {"padding": ((0, 0), (0, 0)), "activation": "none"}),
    ]
    assert channel_groups(simplify_float(float_graph(tensors, steps, x=(1, 6, 6, 4)))) == ()
    tensors = [
        fixed("w0", rng.normal(size=(6, 1, 1, 4))),
        fixed("w1", rng.normal(size=(5, 4))),
        fixed("b1", rng.normal(size=5)),
    ]
    tensors.append(fixed("b", rng.normal(size=6)))
    steps = [steps[0], ("fully_connected", ("t0", "w1", "b1"), DENSE)]  # its rows are parts of two pixels
    assert channel_groups(simplify_float(float_graph(tensors, steps, x=(1, 2, 2, 4)))) == ()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("float") / "net.tflite"
    path.write_bytes(to_tflite(network()))
    return path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_a_pruned_and_trained_network_gives_the_bytes_of_litert(model: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    samples = np.random.default_rng(0).normal(size=(60, 8, 8, 3)).astype(np.float32)
    whole = tw.prune(model, samples, ram="1m", epochs=3)
    assert whole.layers == () and whole.epochs == 0 and whole.needs[0] == whole.needs[1]
    limit = whole.needs[0].flash - 120
    done = tw.prune(model, samples, flash=limit, epochs=1)
    assert done.needs[1].flash <= limit < done.needs[0].flash and done.macs[1] < done.macs[0] and done.layers
    assert done.fidelities[0].samples == 12 and done.trained == 48 and done.fidelities[2] != done.fidelities[1]
    assert {t.dtype for t in from_tflite(done.file, "net").tensors.values()} <= {"int8", "int32"}
    assert tw.verify(done.model, samples=2).ok


@pytest.mark.sweep
def test_training_raises_the_sqnr_of_a_pruned_network(model: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    samples = np.random.default_rng(0).normal(size=(300, 8, 8, 3)).astype(np.float32)
    limit = tw.prune(model, samples, ram="1m", epochs=0).needs[0].flash - 120
    int8, cut, trained = tw.prune(model, samples, flash=limit, epochs=30, rate=3e-3).fidelities
    assert int8.sqnr_db > trained.sqnr_db > cut.sqnr_db + 1


def test_the_command_writes_a_file_and_reports_the_removed_channels(capsys: Any, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 8, 8, 3)).astype(np.float32))
    plain = tw.prune(model, np.load(tmp_path / "x.npy"), ram="1m", epochs=0)
    out, limit = tmp_path / "small.tflite", plain.needs[0].flash - 500
    options = (model, "--inputs", tmp_path / "x.npy", "--flash", limit, "--epochs", "0", "-o", out)
    assert run("prune", *options) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"wrote {out}") and "norm lost" in printed and "pruned and trained" not in printed
    assert max(map(len, printed.splitlines())) <= max(110, len(str(out)) + 6)
    assert run("prune", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["after"]["flash"] <= limit < record["before"]["flash"] and record["layers"]
    assert record["samples"] == {"trained": 0, "compared": 20} and record["pruned"] == record["trained"]
    (values,) = outputs(from_tflite(out.read_bytes(), "net"), {"x": np.zeros((1, 1, 8, 8, 3), np.int8)})
    assert values.shape == (1, 1, 3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "pruning needs a limit; give --ram or --flash"),
        (("--ram", "lots"), "'lots' is not a size"),
        (("--flash", "100"), "are needed even with 2 channels in every layer that can be pruned"),
    ],
)
def test_faulty_input_is_refused_in_one_line(
    capsys: Any, model: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 8, 8, 3), np.float32))
    out = tmp_path / "small.tflite"
    assert run("prune", model, "--inputs", tmp_path / "x.npy", "-o", out, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and message in printed.err and not out.exists()

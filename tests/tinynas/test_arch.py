"""Architectures: MobileNetV2's published counts, JSON, and faulty architectures."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tinynas.arch import (
    Arch,
    Group,
    PlanGene,
    blocks,
    bottleneck,
    from_json,
    head_channels,
    layers,
    linear,
    macs,
    mobilenet_v2,
    nearest,
    rounded,
    stride,
    to_json,
    verify,
    weights,
)
from tinynas.network import to_graph
from tinyweave import ops
from tinyweave.ir import CompileError
from tinyweave.ops import macs_original

SQUEEZED = Group(16, 2, (5, 3, 1), (3, 4, 1), 4, "hard_swish")
V3 = Arch((32, 32, 3), 8, (Group(8, 1, (3,), (1,), 4), SQUEEZED), 32, 10, activation="hard_swish")
SMALL = Arch((32, 32, 3), 8, (Group(8, 1, (3,), (1,)), Group(16, 2, (5, 3), (3, 4))), classes=10)


def test_mobilenet_v2_has_the_macs_and_weights_of_its_paper() -> None:
    """The paper gives 300 M MACs and 3.4 M parameters; biases are left out here."""
    arch = mobilenet_v2()
    assert (macs(arch), weights(arch)) == (300_774_272, 3_469_760)
    assert [len(group.kernels) for group in arch.groups] == [1, 2, 3, 4, 3, 3, 1]
    assert sum(block.residual for block in blocks(arch)) == 10
    narrow = mobilenet_v2(144, 0.35)
    assert (narrow.stem, [group.width for group in narrow.groups], narrow.last) == (16, [8, 8, 16, 24, 32, 56, 112], 1280)
    assert (rounded(7), rounded(11), rounded(11.2), rounded(33.6)) == (8, 16, 16, 32)


def test_blocks_have_the_layers_of_the_architecture() -> None:
    stem, first, down, same = blocks(SMALL)
    assert [layer.kernel for layer in layers([stem, first])] == [(3, 3), (3, 3), (1, 1)], "expansion 1 needs no layer"
    assert [(layer.h, layer.c_in, layer.c_out) for layer in down.layers] == [(16, 8, 24), (16, 24, 24), (8, 24, 16)]
    assert [block.residual for block in (stem, first, down, same)] == [False, True, False, True]
    assert [block.linear for block in (stem, first, down, same)] == [False, True, True, True]
    assert [layer.kernel for layer in bottleneck((8, 8), (4, 4, 6), 1, 1).layers] == [(1, 1)], "nor does kernel 1"


def test_macs_and_weights_equal_those_of_the_graph() -> None:
    graph = to_graph("small", blocks(SMALL), SMALL.classes)
    assert macs_original(graph) == macs(SMALL)
    assert sum(t.bytes for name, t in graph.tensors.items() if name.startswith("weights")) == weights(SMALL)
    activations = [op.attrs.get("activation") for op in graph.ops if op.kind == "conv_2d"]
    assert activations == ["relu6", "none", "relu6", "none", "relu6", "none"]


def test_squeeze_and_excitation_adds_two_layers_per_block() -> None:
    """They compute a gate from the channel means of the projection's input. Blocks with only a projection have none."""
    assert [block.squeezed for block in blocks(V3)] == [0, 8, 8, 16, 0, 0] and rounded(24 / 4) == 8 == rounded(8 / 4)
    excited = 2 * (8 * 8 + 24 * 8 + 64 * 16)
    plain = replace(V3, groups=tuple(replace(group, squeeze=0) for group in V3.groups))
    assert macs(V3) - macs(plain) == weights(V3) - weights(plain) == excited
    graph = to_graph("squeezed", blocks(V3), V3.classes)
    assert macs_original(graph) == macs(V3)
    assert sum(t.bytes for name, t in graph.tensors.items() if name.startswith("weights")) == weights(V3)
    kinds = [op.kind for op in graph.ops]
    assert kinds.count("hard_swish") == 1 + 2 + 2 + 1 and kinds.count("mul") == 2 * 3 and kinds.count("mean") == 3 + 1
    image = np.random.default_rng(0).integers(-128, 128, (1, 32, 32, 3), np.int8)
    values = ops.run(graph, {"image": image}, keep=True)
    assert all(values[op.outputs[0]].std() > 2 for op in graph.ops), "no layer is constant"


@pytest.mark.parametrize(
    "arch",
    [
        V3,
        replace(V3, plan=PlanGene("best", True, 1.5)),
        SMALL,
        mobilenet_v2(96, 0.5),
        Arch((1, 1, 1), 1, ()),
        replace(SMALL, anchors=5),
    ],
)
def test_an_architecture_survives_the_round_trip_through_json(arch: Arch) -> None:
    again = from_json(to_json(arch))
    assert again == arch and hash(again) == hash(arch) and len({arch, again}) == 1
    assert layers(blocks(again))[0][:3] == arch.image


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": [0, 8, 3]}, r"image\[0\] is 0; give a whole number from 1 to 8192"),
        ({"image": [8, 8, True]}, r"image\[2\] is True"),
        ({"image": [8, 8]}, "image is not a list of 3"),
        ({"image": 8}, "image is not a list"),
        ({"stem_kernel": [3, 2]}, r"stem_kernel\[1\] is 2; give an odd number"),
        ({"stem_stride": [0, 1]}, r"stem_stride\[0\] is 0"),
        ({"stem": 1e3}, "stem is 1000.0"),
        ({"last": -1}, "last is -1"),
        ({"classes": [3]}, "classes is list"),
        ({"classes": 10**50}, "classes is 1000"),
        ({"groups": {}}, "groups is not a list"),
        ({"groups": [3]}, r"groups\[0\] is not an object with the fields width, stride"),
        ({"depth": 3}, "the file has the unknown field 'depth'; give image, stem"),
        ({"width": None}, r"groups\[1\].width is NoneType"),
        ({"stride": 3}, r"groups\[1\].stride is 3; give a whole number from 1 to 2"),
        ({"kernels": 3}, r"groups\[1\].kernels is not a list"),
        ({"kernels": [3]}, r"groups\[1\] has 1 kernels and 2 expansions"),
        ({"kernels": [], "expansions": []}, r"groups\[1\] has 0 kernels"),
        ({"kernels": [3, 4]}, r"groups\[1\].kernels\[1\] is 4; give an odd number"),
        ({"kernels": [1, 3]}, r"groups\[1\] has stride 2 and kernel 1"),
        ({"anchors": -1}, "anchors is -1"),
        ({"anchors": 2, "stem_stride": [2, 1]}, "the stem_stride of a detector differs in rows and columns"),
        ({"anchors": 2, "classes": 0}, "it has 2 anchors but no classes; give classes, or no anchors"),
        ({"squeeze": -1}, r"groups\[1\].squeeze is -1"),
        ({"activation": "swish"}, r"groups\[1\].activation is swish; give one of relu6, hard_swish"),
        ({"plan": 3}, "plan is not an object with the fields schedule, stream_inputs"),
        (
            {"plan": {"schedule": "fast", "stream_inputs": True, "max_mac_overhead": None}},
            "plan.schedule is unknown; give one",
        ),
        ({"plan": {"schedule": [], "stream_inputs": True, "max_mac_overhead": None}}, "plan.schedule is unknown"),
        ({"plan": {"schedule": "best", "stream_inputs": 1, "max_mac_overhead": None}}, "plan.stream_inputs is not true or"),
        (
            {"plan": {"schedule": "best", "stream_inputs": True, "max_mac_overhead": 0.5}},
            "not a factor; give 1 to 100",
        ),
        ({"expansions": [-1, 3]}, r"groups\[1\].expansions\[0\] is -1"),
        ({"stem": 0}, "it has stem 0, but more than a classifier; give a stem"),
    ],
)
def test_faulty_architectures_are_refused(change: dict[str, Any], message: str) -> None:
    record = json.loads(to_json(V3 if set(change) <= {"squeeze", "activation"} else SMALL))
    for key, value in change.items():
        (record["groups"][1] if key in record["groups"][1] else record)[key] = value
    with pytest.raises(CompileError, match=message) as error:
        from_json(json.dumps(record))
    assert len(str(error.value)) < 200 and "\n" not in str(error.value)


@pytest.mark.parametrize(("where", "key"), [("the file", "stem"), (r"groups\[1\]", "stride")])
def test_a_missing_field_is_named(where: str, key: str) -> None:
    record = json.loads(to_json(SMALL))
    del (record if key in record else record["groups"][1])[key]
    with pytest.raises(CompileError, match=f"{where} lacks the field {key}; see"):
        from_json(json.dumps(record))


def test_a_linear_network_is_one_dense_layer_on_the_whole_input() -> None:
    arch = linear((4, 6, 2), 5)
    graph = to_graph("linear", blocks(arch), arch.classes, pooling=arch.pooling, image=arch.image)
    assert [op.kind for op in graph.ops] == ["reshape", "fully_connected"] and graph.tensors["image"].shape == (1, 4, 6, 2)
    assert macs_original(graph) == macs(arch) == weights(arch) == 4 * 6 * 2 * 5
    assert from_json(to_json(arch)) == arch
    with pytest.raises(CompileError, match="it has pooling none but no classifier"):
        verify(replace(arch, classes=0))


def test_a_nearest_neighbour_network_has_an_output_per_stored_sample_and_the_maximum_per_class() -> None:
    arch = nearest((4, 6, 2), 5, 7)
    graph = to_graph("nearest", blocks(arch), arch.classes, pooling=arch.pooling, image=arch.image, stored=arch.stored)
    kinds = [op.kind for op in graph.ops]
    assert kinds == ["reshape", "fully_connected", "reshape", "reduce_max"] and graph.ops[1].attrs["activation"] == "relu"
    assert [graph.tensors[op.outputs[0]].shape for op in graph.ops[1:]] == [(1, 35), (1, 7, 5), (1, 5)]
    assert macs_original(graph) == macs(arch) == weights(arch) == 4 * 6 * 2 * 5 * 7
    assert from_json(to_json(arch)) == arch
    with pytest.raises(CompileError, match="it has a stem and 7 stored samples"):
        verify(replace(SMALL, stored=7))


@pytest.mark.parametrize("text", ["", "{", "3", "[]", "NaN", "[" * 100_000, '{"image": ' + "9" * 5000 + "}"])
def test_faulty_json_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match="architecture: "):
        from_json(text)


def test_verify_checks_architectures_built_in_python() -> None:
    assert verify(SMALL) is SMALL
    with pytest.raises(CompileError, match=r"image\[0\] is 0"):
        verify(Arch((0, 8, 3), 8, ()))


@pytest.mark.parametrize(("classes", "channels"), [(1, 5 * 5), (3, 5 * 8)])
def test_a_detector_ends_with_its_head(classes: int, channels: int) -> None:
    """With one class, a box's confidence is its score."""
    arch = replace(SMALL, classes=classes, anchors=5)
    *backbone, head = blocks(arch)
    assert stride(arch) == 4 and head.layers[0].h == 32 // 4
    assert (
        backbone == blocks(replace(SMALL, classes=0))
        and head.linear
        and head.layers[0].c_out == channels == head_channels(arch)
    )
    assert weights(arch) - weights(replace(SMALL, classes=0)) == channels * head.layers[0].c_in
    assert macs(arch) == macs_original(to_graph("detector", blocks(arch), None))


def test_json_without_anchors_is_read_as_a_classifier() -> None:
    record = json.loads(to_json(SMALL))
    assert set(record) == {field.name for field in fields(Arch)} - {"activation", "plan", "pooling", "stored"}, (
        "nor have files of such networks now"
    )
    assert set(record["groups"][0]) == {"width", "stride", "kernels", "expansions"}
    del record["anchors"]
    assert from_json(json.dumps(record)) == SMALL

"""Networks of papers: narrow MobileNets, published TinyNAS results, chains of the fusion paper (JSON files)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinylesson.papers.chain import square
from tinynas.arch import Arch, Block, Group, blocks, mobilenet_v2, verify
from tinyweave.ops.window import ChainLayer


def narrow_mobilenet(side: int, width: float = 0.35) -> list[Block]:
    """Return MobileNetV2 without classifier as in the fusion paper's code, in which the first block expands too."""
    whole = mobilenet_v2(side)
    groups = tuple(replace(group, width=int(group.width * width)) for group in whole.groups)
    arch = Arch((side, side, 3), int(whole.stem * width), groups, int(whole.last * width))
    stem, first, *rest = blocks(arch)
    depthwise = first.layers[0]
    return [stem, first._replace(layers=(square(depthwise.h, depthwise.c_in, depthwise.c_in), *first.layers)), *rest]


def published(path: Path) -> Arch:
    """Return the architecture of a published TinyNAS result."""
    net = json.loads(path.read_text())
    groups = list[Group]()
    for entry in net["blocks"]:
        conv = entry["mobile_inverted_conv"]
        if conv["name"] == "ZeroLayer":  # the search removed the block
            continue
        kernel, expansion, width = conv["kernel_size"], conv["expand_ratio"], conv["out_channels"]
        assert conv.get("mid_channels") in (None, conv["in_channels"] * expansion)
        assert (entry["shortcut"] is not None) == (conv["stride"] == 1 and conv["in_channels"] == width)
        if groups and conv["stride"] == 1 and width == groups[-1].width:
            group = groups.pop()
            groups.append(Group(width, group.stride, (*group.kernels, kernel), (*group.expansions, expansion)))
        else:
            groups.append(Group(width, conv["stride"], (kernel,), (expansion,)))
    image = net["resolution"], net["resolution"], 3
    mix, classes = net["feature_mix_layer"], net["classifier"]["out_features"]
    return verify(Arch(image, net["first_conv"]["out_channels"], tuple(groups), mix["out_channels"] if mix else 0, classes))


def fusion_chains(path: Path) -> dict[str, list[ChainLayer]]:
    """Return the chains of the multi-stage fusion paper by name."""
    return {name: [_from_record(record) for record in net["layers"]] for name, net in json.loads(path.read_text()).items()}


def _from_record(record: dict[str, Any]) -> ChainLayer:
    pad = record["p"], record["p"]
    shape = record["h"], record["w"], record["c"], record["co"]
    return ChainLayer(*shape, (record["k"],) * 2, (record["s"],) * 2, (pad, pad), record["op"] == "dwconv")


def bottlenecks(found: Sequence[ChainLayer]) -> list[Block]:
    """Return the blocks of a chain: a depthwise layer with 1x1 layers around it is a bottleneck, other layers are blocks."""
    made, at = list[Block](), 0
    while at < len(found):
        expanded = found[at].kernel == (1, 1) and not found[at].depthwise
        run = tuple(found[at : at + 2 + expanded])
        if [layer.depthwise for layer in run] != [False] * expanded + [True, False]:
            run = run[:1]
        same = (run[0].h, run[0].w, run[0].c_in) == (run[-1].h_out, run[-1].w_out, run[-1].c_out)
        made.append(Block(run, same and len(run) > 1, linear=len(run) > 1))
        at += len(run)
    return made


# the networks of table 1.1 and figure 5-1 of the thesis, computed by hand: published MACs and weights, input plus output of the
# largest layer, and the layer-by-layer peak including the two operands and the output of a sum
RIGHT = {
    "ResNet-50": (4_089_184_256, 25_557_032 - 53_120 - 1000, 56 * 56 * (256 + 128), 3 * 56 * 56 * 256),
    "ResNet-18": (1_814_073_344, 11_689_512 - 9_600 - 1000, 224 * 224 * 3 + 112 * 112 * 64, None),
    "MobileNetV2": (300_774_272, 3_469_760, 112 * 112 * (16 + 96), 112 * 112 * 96 + 56 * 56 * 96),
    "MobileNetV2 x 0.75": (209_069_792, 2_608_784, 112 * 112 * (16 + 96), 112 * 112 * 96 + 56 * 56 * 96),
    "MCUNet, for 512 kB": (125_874_400, 1_710_232, 80 * 80 * (16 + 48), None),
}

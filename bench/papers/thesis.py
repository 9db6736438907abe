"""The MCUNet thesis, chapters 1 and 4 (J. Lin, MIT): MobileNetV2 by patches, its figures beside ours.

In: nothing; for figure 4-1 the published networks (--nets: mcunet/*.json). Out: a table of what the thesis prints, of what is
exact by its own count (`patch_paper`), and what is reproduced; tinyweave's plans of the same network, everything counted, their
bytes compared on this machine and on an emulated core; and, in the folder -o, figures 1-2, 4-1, 4-4 as SVG. KiB = 1024 bytes.
Exit code 1 when a reproduced figure is not the exact one, or a byte differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from charts import Panel, svg

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cases.mobile import Block, layers, mobilenet_v2, published, redistributed, to_graph  # noqa: E402

from tinyweave import api  # noqa: E402
from tinyweave.cost.chain import macs  # noqa: E402
from tinyweave.cost.macs import macs as macs_of_graph  # noqa: E402
from tinyweave.cost.patch_paper import (  # noqa: E402
    head_bytes,
    largest_input,
    layer_bytes,
    patched_bytes,
    patched_macs,
    peak_bytes,
    receptive_fields,
)
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.plan.streaming import plan_macs  # noqa: E402

KIB = 1024
HEAD, CLASSES = 5, 1000  # blocks that run by patches; the classifier counts in the MACs
PATCHES = (1, 2, 4, 7, 14, 28)  # sides of patches of a 28 x 28 map
MOST_BLOCKS, GRID = 12, 4  # of figure 4-4 a: a map is cut into 4 x 4 patches
FLOAT_BYTES = 4


def head_of(blocks: Sequence[Block]) -> int:
    """The layers of the blocks that run by patches, all before one that reads the map of 28 x 28."""
    first = next(at for at, block in enumerate(blocks) if block.layers[0].h == 28)
    return len(layers(blocks[:first]))


def millions(blocks: Sequence[Block], patch: int = 0, *, clipped: bool = False) -> float:
    """MACs with the classifier, by patches or, without one, layer by layer."""
    found = layers(blocks)
    total = patched_macs(found, head_of(blocks), patch, clipped=clipped) if patch else macs(found)
    return (total + found[-1].c_out * CLASSES) / 1e6


def figures() -> list[tuple[str, str, float, float]]:
    """What, as the thesis prints it, exact (FACTS of the project, or the same), reproduced."""
    net, new = mobilenet_v2(), redistributed()
    head, found, fields = head_of(net), layers(net), receptive_fields(layers(net)[: head_of(net)], 7)
    split = 7 * found[0].h // found[head - 1].h_out  # a patch's part of the image, nothing around it
    whole, side = millions(net), largest_input(3, 16, 256 * KIB)
    return [
        ("peak layer by layer, KiB", "1372", 1372, peak_bytes(found) / KIB),
        ("  depthwise not in place", "-", 1470, peak_bytes(found, in_place=False) / KIB),
        ("peak by patches, OP 7, KiB", "172", 171.5, patched_bytes(found, head, 7) / KIB),
        ("  of the patches alone", "-", 158.5, head_bytes(found[:head], 7) / KIB),
        ("peak by patches, OP 14, KiB", "-", 458.6, patched_bytes(found, head, 14) / KIB),
        ("peak redistributed, OP 7, KiB", "172", 171.5, patched_bytes(layers(new), head_of(new), 7) / KIB),
        ("times less with OP 7", "8", 8, peak_bytes(found) / patched_bytes(found, head, 7)),
        ("block 2 against the largest after the head", "11", 8, peak_bytes(found) / peak_bytes(found[head:])),
        ("receptive field, OP 7", "75", 75, fields[0]),
        ("  on the maps after the image", "-", 37, fields[1]),
        ("  redistributed", "63", 63, receptive_fields(layers(new)[: head_of(new)], 7)[0]),
        ("  image split", "56", 56, split),
        ("MACs layer by layer, M", "300", 300.8, whole),
        ("MACs by patches, OP 7, M", "339", 339.0, millions(net, 7)),
        ("  clipped to the maps", "-", 328.7, millions(net, 7, clipped=True)),
        ("MACs by patches, OP 1, M", "738", 737.9, millions(net, 1)),
        ("  clipped to the maps", "-", 712.9, millions(net, 1, clipped=True)),
        ("overhead, OP 7, %", "12.7", 12.7, 100 * (millions(net, 7) / whole - 1)),
        ("overhead, OP 1, %", "145", 145.3, 100 * (millions(net, 1) / whole - 1)),
        ("MACs redistributed by patches, OP 7, M", "309", 309.2, millions(new, 7)),
        ("overhead redistributed, OP 7, %", "3.7", 3.8, 100 * (millions(new, 7) / millions(new) - 1)),
        ("largest input of 3 -> 16 in 256 KiB", "117", 117, side),
        ("  which takes, KiB", "254", 254.0, side * side * (3 + 16) / KIB),
    ]


def table() -> int:
    """Print the figures; how many are not reproduced."""
    print("MobileNetV2, 224 x 224, int8\n\n| | thesis | exact | reproduced |\n|---|---:|---:|---:|")
    wrong = 0
    for what, printed, exact, found in figures():
        is_same = abs(found - exact) < 0.051  # one digit
        wrong += not is_same
        print(f"| {what.replace('  ', '&ensp;')} | {printed} | {exact:g} | {found:.5g}{'' if is_same else ' DIFFERS'} |")
    print("\n11 is 8 by this count, as the thesis has it elsewhere. Its redistributed network is not given: ours is close.")
    return wrong


def ours(core: str | None) -> int:
    """Print plans of the whole network with skips and classifier, everything counted; how many gave wrong bytes."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        path = Path(folder) / "mobilenet_v2.tflite"
        path.write_bytes(to_tflite(to_graph("mobilenet_v2", mobilenet_v2(), CLASSES)))
        model = api.load(path)
    work, wrong = macs_of_graph(model.graph), 0
    print("\ntinyweave, with skips, input, output and classifier; random weights\n")
    print("| schedule | input | arena, KiB | MACs | bytes equal |\n|---|---|---:|---:|---|")
    for schedule, streamed, overhead in (
        ("layer", False, 1.0),
        ("best", False, 1.0),
        ("best", True, 1.0),
        ("best", True, 1.04),
        ("best", True, 1.13),
    ):
        plan = api.plan(model, schedule, stream_inputs=streamed, max_mac_overhead=overhead, optimize="size")
        equal = api.verify(model, plan, count=1, core=core).ok
        wrong += not equal
        cells = [schedule, "by rows" if streamed else "in RAM", f"{sum(plan.arena.values()) / KIB:.1f}"]
        cells += [f"{sum(plan_macs(plan)) / work:.3f}", "yes" if equal else "NO"]
        print("| " + " | ".join(cells) + " |", flush=True)
    return wrong


def per_block(blocks: Sequence[Block]) -> list[float]:
    """The peak of each block, layer by layer, KiB of int8."""
    return [max(map(layer_bytes, block.layers)) / KIB for block in blocks]


def memory_panels(name: str, blocks: Sequence[Block]) -> list[Panel]:
    """Per block, in fp32 as the thesis shows it and in int8."""
    found, numbers = per_block(blocks), [str(at) for at in range(len(blocks))]
    about = "block, 0 being the first convolution"
    return [
        Panel(f"{name}, fp32: KiB per block", numbers, {"layer by layer": [FLOAT_BYTES * x for x in found]}, about),
        Panel(f"{name}, int8: KiB per block", numbers, {"layer by layer": found}, about, limit=(256, "256 KiB")),
    ]


def figure_1_2() -> str:
    """With patches of 2 x 2 of the map after the fifth block; the thesis shows fp32."""
    net = mobilenet_v2()
    patched = head_bytes(layers(net)[: head_of(net)], 2) / KIB
    panels = []
    for panel, size in zip(memory_panels("MobileNetV2", net), (FLOAT_BYTES, 1), strict=True):
        cut = [size * patched if block < HEAD else None for block in range(len(net))]
        panels.append(panel._replace(series={**panel.series, "first 5 blocks by patches, OP 2": cut}))
    return svg("Figure 1-2: memory of MobileNetV2, 224 x 224, per block", panels)


def figure_4_1(folder: Path) -> str:
    panels = []
    for name, file in (("ProxylessNAS-Mobile", "proxyless_mobile"), ("MCUNet-320KB", "mcunet-320kb-1mb_imagenet")):
        panels += memory_panels(name, published(folder / f"{file}.json"))
    return svg("Figure 4-1: memory of two more networks per block", panels)


def figure_4_4() -> str:
    net, new = mobilenet_v2(), redistributed()
    found, head = layers(net), head_of(net)
    ends = [len(layers(net[:blocks])) for blocks in range(MOST_BLOCKS + 1)]
    sides = [-(-found[end - 1].h_out // GRID) for end in ends]  # of a patch
    memory = [patched_bytes(found, end, side) / KIB for end, side in zip(ends, sides, strict=True)]
    a = Panel("(a) peak, KiB", [str(at) for at in range(len(ends))], {"int8": memory}, "blocks that run by 4 x 4 patches", True)
    labels = [f"{patch} ({receptive_fields(found[:head], patch)[0]})" for patch in PATCHES]
    by_patch = [patched_bytes(found, head, patch) / KIB for patch in PATCHES]
    rest = (peak_bytes(found[head:]) / KIB, "the rest of the network")
    b = Panel("(b) peak, KiB", labels, {"int8, 5 blocks by patches": by_patch}, "OP (receptive field)", True, rest)
    extra = {
        name: [100 * (millions(blocks, patch) / millions(blocks) - 1) for patch in PATCHES]
        for name, blocks in (("MobileNetV2", net), ("redistributed", new))
    }
    c = Panel("(c) computed again, %", [str(patch) for patch in PATCHES], extra, "OP", True)
    return svg("Figure 4-4: MobileNetV2, 224 x 224, its first blocks by patches", [a, b, c])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", type=Path, default=ROOT.parent / "shared" / "nets" / "mcunet")
    parser.add_argument("--core", default=api.DEFAULT_CORE, help="the emulated core that runs the plans, '' for none")
    parser.add_argument("-o", "--output", type=Path, help="write the figures into this folder")
    options = parser.parse_args()
    wrong = table()
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        drawn = {"figure_1_2": figure_1_2(), "figure_4_4": figure_4_4()}
        if options.nets.is_dir():
            drawn["figure_4_1"] = figure_4_1(options.nets)
        else:
            print(f"no networks in {options.nets}: no figure 4-1; name their folder with --nets", file=sys.stderr)
        for name, text in drawn.items():
            (options.output / f"{name}.svg").write_text(text)
        print(f"\nfigures in {options.output}: {', '.join(drawn)}")
    wrong += ours(options.core or None)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""The lecture on MCUNet (MIT 6.5940, lecture 10): its net of five layers and its three formulas, beside true plans.

In: nothing. Out: a table of what the lecture prints, what is exact, and what is computed here, by its formulas or counted; then
plans of the net, everything counted, their bytes compared on this machine and on an emulated core. Exit code 1 when a figure
computed here is not the exact one, or a byte differs. KiB = 1024 bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import plans
from plans import KIB, model_of

from tinylesson import networks
from tinylesson.papers.chain import square
from tinynas.arch import Block, blocks, layers, mobilenet_v2
from tinynas.published.patches import layer_bytes, macs, patched_bytes, patched_macs
from tinyweave import api
from tinyweave.ops.window import ChainLayer

HALO = 0.12  # what the lecture adds to a patch
LARGE = blocks(mobilenet_v2())
HEAD = 5  # blocks of MobileNetV2 that make the map of 28 x 28


def five_layers(side: int = 96) -> list[ChainLayer]:
    """3x3 convolutions on a grey image."""
    return layers(networks.five_layers(side)[0])


def flash_budget(net: Sequence[ChainLayer], bits: int = 8) -> int:
    """The lecture's first formula: bytes of all weights, without biases, tables and code."""
    return sum(layer.kernel[0] * layer.kernel[1] * layer.c_in * layer.c_out for layer in net) * (bits // 8)


def peak_sram(net: Sequence[ChainLayer], bits: int = 8) -> tuple[int, int]:
    """The second: bytes of input and output of the layer where these are largest, and which it is."""
    needs = [layer_bytes(layer, in_place=False) * (bits // 8) for layer in net]
    return max(needs), needs.index(max(needs))


def patch_inference_sram(peak: float, patches: int, halo: float = HALO) -> float:
    """The third: the peak of some layers by patches, as if all the memory of a network shrank with them."""
    return peak * (1 + halo) / patches


def by_patches(grid: int) -> float:
    """What MobileNetV2 needs by the thesis' count with grid x grid patches, KiB."""
    return patched_bytes(layers(LARGE), len(layers(LARGE[:HEAD])), -(-28 // grid)) / KIB


STACK = [square(224, 8, 8, 3)] * 4  # the lecture's example of a halo


def halo_pixels() -> int:
    """Return how far beyond a patch of its output the stack reads its input, pixels on each side."""
    return sum(layer.kernel[0] // 2 for layer in STACK)


def halo_area(sides: int, grid: int = 2) -> float:
    """Return by how much the input of one of grid x grid patches exceeds the patch, area, %.

    sides: how many of its sides, of two along an axis, lie within the map; beyond the others there is only padding.
    """
    side = STACK[0].h // grid
    return 100 * (((side + sides * halo_pixels()) / side) ** 2 - 1)


def four_layers(grid: int) -> float:
    """Return what grid x grid patches of the stack compute again, %."""
    return 100 * (patched_macs(STACK, len(STACK), STACK[0].h // grid, clipped=True) / macs(STACK) - 1)


def again_by_patches(grid: int) -> float:
    """What MobileNetV2 computes again with grid x grid patches of its first blocks, %."""
    found = layers(LARGE)
    return 100 * (patched_macs(found, len(layers(LARGE[:HEAD])), 28 // grid, clipped=True) / macs(found) - 1)


def figures() -> list[tuple[str, str, float, float, str]]:
    """What, as printed, exact, found here, and what is behind a difference."""
    net = five_layers()
    needs = [layer_bytes(layer, in_place=False) for layer in net]
    peak, at = peak_sram(net)
    stem, first, second = (layers([block]) for block in LARGE[:3])
    rows: list[tuple[str, str, float, float, str]] = [
        (f"conv {index}, bytes", f"{exact:,}", exact, found, "")
        for index, (exact, found) in enumerate(zip((46_080, 110_592, 110_592, 73_728, 55_296), needs, strict=True))
    ]
    return [
        *rows,
        ("peak, KiB", "108", 108, peak / KIB, ""),
        ("peak's layer", "1", 1, at, "layer 2 needs as much"),
        ("peak in fp32, KiB", "as in int8", 432, peak_sram(net, 32)[0] / KIB, "int8 quarters activations too"),
        ("conv 1 at 224 x 224, KiB", "596", 588, layer_bytes(five_layers(224)[1]) / KIB, "rounded twice, in kB"),
        ("weights, bytes", "-", 133_776, flash_budget(net), "without biases, tables, code"),
        ("MobileNetV2 stem, KiB", "551", 539, layer_bytes(stem[0]) / KIB, "551.9 kB of 1000"),
        ("  block 1, KiB", "588", 588, layer_bytes(ChainLayer(112, 112, 32, 16)) / KIB, "as one layer"),
        ("  block 1, its largest layer, KiB", "-", 588, max(map(layer_bytes, first)) / KIB, "depthwise in place"),
        ("  block 2's expansion, KiB", "1,367", 1372, layer_bytes(second[0]) / KIB, "1,404.9 kB of 1000"),
        ("  2 x 2 patches by formula, KiB", "385", 384.2, patch_inference_sram(1372, 4), "its code prints 384"),
        ("  2 x 2 patches, counted, KiB", "343 to 385", 458.6, by_patches(2), "receptive fields grow"),
        ("  3 x 3 patches by formula, KiB", "171", 170.7, patch_inference_sram(1372, 9), ""),
        ("  3 x 3 patches, counted, KiB", "153 to 171", 266.1, by_patches(3), "as before"),
        ("  4 x 4 patches, counted, KiB", "-", 171.5, by_patches(4), "the thesis' choice"),
        ("halo of 4 layers, pixels a side", "8", 4, halo_pixels(), "a 3x3 layer reaches 1 pixel beyond, not 2"),
        ("  area of a patch with neighbours all around, %", "14", 14.8, halo_area(2), "its 128 x 128 would be 30.6"),
        ("  of a patch of 2 x 2, all in corners, %", "14", 7.3, halo_area(1), "two sides lie at the map's edge"),
        ("  computed again, %", "14", 2.7, four_layers(2), "a patch has two sides inside"),
        ("  MobileNetV2, computed again, %", "10", 2.9, again_by_patches(2), "clipped to the maps"),
    ]


def table() -> int:
    """Print the figures; how many are not exact."""
    print("The lecture's figures\n\n| | lecture | exact | here | |\n|---|---:|---:|---:|---|")
    wrong = 0
    for what, printed, exact, found, why in figures():
        is_same = abs(found - exact) < 0.051  # one digit
        wrong += not is_same
        name = what.replace("  ", "&ensp;")
        print(f"| {name} | {printed} | {exact:,.7g} | {found:,.7g}{'' if is_same else ' DIFFERS'} | {why} |")
    return wrong


def ours(core: str) -> int:
    """Print plans of the five layers; how many gave wrong bytes."""
    model = model_of("five_layers", [Block((layer,)) for layer in five_layers()])
    print(f"\ntinyweave, all counted; by the lecture's formula {peak_sram(five_layers())[0] / KIB:.1f} KiB\n")
    rows = [("layer", False, 1.0), ("unfused", False, 1.0), ("best", False, 1.0), ("best", True, 1.0), ("best", True, 1.5)]
    wrong, plan = plans.table(model, rows, core or None, samples=3)
    if core:
        measured = api.profile_plan(model, plan, core)
        parts = f"{measured.weights:,} B of weights and biases, {measured.tables:,} B of tables, {measured.code:,} B of code"
        print(f"\nFlash of the last one, measured: {parts}; by formula {flash_budget(five_layers()):,} B")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", default=api.DEFAULT_CORE, help="the emulated core that runs the plans, '' for none")
    options = parser.parse_args()
    wrong = table() + ours(options.core)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

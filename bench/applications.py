"""The applications in one table, like table 6.1 and figure 5-3 of the MCUNet thesis: what each needs, by schedule.

In: the examples' networks, with random weights where none are committed; with --trained the folders that `tinyweave train` left
for some of them, whose accuracy on their own test parts is shown; the winner of the Visual Wake Words challenge where the real
models are. Out: per network MACs, parameters, the arena layer by layer, by patches and of the best plan, with its input in
RAM and by rows, Flash, and an estimate of the time on an STM32F746, and so of frames a second, without the camera's
(`camera.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tinyweave as tw
from tinynas.arch import Arch, blocks, from_json
from tinynas.network import to_graph
from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ops import macs_original

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, SHARED = ROOT / "examples", ROOT.parent / "shared"
WINNER = "mit-han-lab__VWW__model_quantized.tflite"
BOARD = "stm32f746"
NAMES = ("keywords", "wake_words", "face_mask", "person", "winner")
THESIS = {"wake_words": (6.0, 63, 466), "face_mask": (24.5, 217, 91), "person": (21.9, 217, 131)}  # M MACs, kB, kB: table 6.1


@dataclass(frozen=True)
class Row:
    """What one network needs; arenas: by schedule, None where there is no such plan."""

    name: str
    macs: int
    parameters: int
    arenas: dict[str, int | None]
    flash: int
    ms: float | None
    accuracy: str


def random_model(arch: Arch, name: str) -> tw.Model:
    """Return a network of random weights."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        path = Path(folder) / f"{name}.tflite"
        path.write_bytes(to_tflite(to_graph(name, blocks(arch), None if arch.anchors else arch.classes)))
        return tw.load(path)


def arenas(model: tw.Model) -> dict[str, int | None]:
    """Return the arena of each schedule on the board's core."""
    asked = {"layer": {"schedule": "layer"}, "patch": {"schedule": "patch"}, "best": {}, "by rows": {"stream_inputs": True}}
    found: dict[str, int | None] = {}
    for name, options in asked.items():
        try:
            found[name] = sum(api.plan(model, tw.devices.find(BOARD).core, **options).arena.values())
        except tw.CompileError:
            found[name] = None
    return found


def row(name: str, model: tw.Model, accuracy: str) -> Row:
    """Return the figures of a network; Flash and time of its plan for the board, built and run on the emulated core."""
    board = tw.devices.find(BOARD)
    plan = api.make_plan(model, api.Request(limits=api.device_limits(board), core=board.core))
    profile = api.profile_plan(model, plan, api.emulated_core(board), device=board)
    constants = [tensor for tensor in model.graph.tensors.values() if tensor.role == "constant" and tensor.dtype == "int8"]
    parameters = sum(tensor.elements for tensor in constants)
    return Row(
        name, macs_original(model.original), parameters, arenas(model), profile.flash, profile.latency_ms(board), accuracy
    )


def accuracy_of(folder: Path | None) -> str:
    """Return what a training's own record says of its test part, in int8."""
    if folder is None:
        return "random weights, untrained"
    record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    low, high = record["accuracy"]["interval_95"]
    return f"{record['measure']} {100 * record['accuracy']['test_int8']:.1f} % ({100 * low:.0f} to {100 * high:.0f})"


def head() -> None:
    print("arena and Flash in B, on an STM32F746; accuracy: int8, the run's own test part, with the 95 % interval")
    names = " ".join(f"{name:>9}" for name in ("weights", "layer", "patch", "best", "by rows", "Flash"))
    print(f"{'network':12} {'M MACs':>7} {names} {'ms':>6} {'per s':>6}  accuracy")


def show(each: Row) -> None:
    sizes = " ".join(f"{'-' if size is None else f'{size:,}':>9}" for size in each.arenas.values())
    ms, rate = ("-", "-") if each.ms is None else (f"{each.ms:.0f}", f"{1000 / each.ms:.1f}")
    first = f"{each.name:12} {each.macs / 1e6:7.1f} {each.parameters:9,}"
    print(f"{first} {sizes} {each.flash:9,} {ms:>6} {rate:>6}  {each.accuracy}", flush=True)
    if each.name in THESIS:
        millions, sram, flash = THESIS[each.name]
        print(f"{'  thesis':12} {millions:7.1f} {'':29} {f'{sram} kB':>9} {'':9} {f'{flash} kB':>9}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="what the applications need, by schedule")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all if left out")
    parser.add_argument(
        "--trained", nargs="*", default=[], metavar="NAME=DIR", help="folders of trainings, as person=out/vision"
    )
    parser.add_argument("--models", type=Path, default=SHARED / "models", help="the real models")
    given = parser.parse_args()
    folders = {name: Path(folder) for name, _, folder in (each.partition("=") for each in given.trained)}
    head()
    for name in given.names or NAMES:
        if name == "keywords":
            told = json.loads((EXAMPLES / "keywords" / "trained.json").read_text(encoding="utf-8"))
            said = f"{told['right']['int8']} of {told['held_out']} held-out takes"
            show(row(name, tw.load(EXAMPLES / "keywords" / "digits.tflite"), said))
        elif name == "winner":
            if (given.models / WINNER).is_file():
                show(row(name, tw.load(given.models / WINNER, io="int8"), "not measured here"))
        else:
            folder = folders.get(name)
            arch = from_json((EXAMPLES / "vision" / f"{name}.json").read_text(encoding="utf-8"))
            model = tw.load(folder / "network.tflite", io="int8", layout="nhwc") if folder else random_model(arch, name)
            show(row(name, model, accuracy_of(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What streaming in time keeps of networks that listen: work, RAM and cycles of a call against those of the whole window.

In: a folder of .tflite files (--models). Each that can be streamed is planned for a device and run on its emulated core, once
with its whole window, once hop by hop; the others say why not. Out: a row of a Markdown table for each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tinyweave import api
from tinyweave.api import results
from tinyweave.devices import find
from tinyweave.ir import CompileError

ROOT = Path(__file__).resolve().parents[1]
NETWORKS = (
    "str_ww_ref_model",
    "kws_ref_model.tflite",
    "keyword_spotting_on_off_v3",
    "keyword_spotting_pacman_v3",
    "mltk__tflite_micro_speech",
    "microflow-rs__speech",
    "cnn_s_quantized",
    "ds_cnn_s_quantized",
    "model_magic_wand",
    "model_micro_speech",
    "gmp_wl_24",
    "ign_wl_48",
    "miniresnet_2stacks",
    "ad01_int8",
    "keyword_scrambled_8bit",
    "trained_lstm_quant",
    "micro-wake-word-models__vad",
    "micro_speech_lstm",
)


def measured(model: results.Model, device: str) -> tuple[int, int]:
    """Return bytes of the arena and cycles of a call."""
    board = find(device)
    plan = api.make_plan(model, api.Request(limits=api.device_limits(board), core=board.core))
    profile = api.profile_plan(model, plan, api.emulated_core(board), device=board)
    assert profile.cycles is not None
    return sum(plan.arena.values()), profile.cycles.likely


def row(path: Path, device: str) -> str:
    whole = api.load(path)
    name = path.stem.rpartition("__")[2]
    try:
        model = api.streamed(whole, "auto")
    except CompileError as error:
        return f"| {name} | {error.why.removeprefix('nothing can be kept from one call to the next: ')} |"
    stream = model.stream
    assert stream is not None
    work = [sum(getattr(layer, key) for layer in stream.layers) for key in ("macs", "macs_window")]
    (arena, cycles), (arena_window, cycles_window) = measured(model, device), measured(whole, device)
    macs = f"{work[0]:,} of {work[1]:,} ({100 * work[0] / work[1]:.1f} %)"
    share = f"{cycles:,} of {cycles_window:,} ({100 * cycles / cycles_window:.1f} %)"
    frames, ram = f"{stream.hop} of {stream.frames}", f"{arena:,} / {arena_window:,}"
    return f"| {name} | {frames} | {macs} | {share} | {ram} | {stream.state_bytes:,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NETWORKS, help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--device", default="stm32l4r5")
    options = parser.parse_args()
    print("| network | frames | MACs | cycles | arena, B: call / window | state, B |\n|---|---|---|---|---|---|")
    for name in options.names:
        for path in sorted(options.models.glob(f"*{name}*")):
            print(row(path, options.device), flush=True)


if __name__ == "__main__":
    main()

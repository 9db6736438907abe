"""Deploy the network of spoken digits to two boards, and show what its C recognises.

In: digits.tflite and the features of ten held-out recordings. Out: per board a folder of C and report.md under out/, and on
the screen the digits that this C recognises on the emulated core, beside the true ones. Exit code 0 when both boards fit and
every byte is right.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import sys
from pathlib import Path

import numpy as np

from tinyweave import api, cli
from tinyweave.cli.options import DOES_NOT_FIT
from tinyweave.devices import find

HERE = Path(__file__).parent
MODEL, INPUTS, TRUTH = HERE / "digits.tflite", HERE / "inputs.npy", HERE / "inputs.csv"
NAME = "digits"
# the RAM that the network gets, if not all: on the smaller board the rest is for the radio and the audio
BOARDS: dict[str, str | None] = {"stm32f746": None, "nrf52840": "12k"}


def relative(path: Path) -> str:
    """Return a path as a user in the current folder would type it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def recognise(folder: Path, device: str, inputs: np.ndarray) -> list[np.ndarray]:
    """Return the probabilities, int8 [10] for each input, that the C in `folder` computes on the emulated core of a device."""
    model, board = api.load(MODEL), find(device)
    planned = api.make_plan(model, api.Request(limits=api.limits_of(board, BOARDS[device]), core=board.core))
    outputs = api.run_plan(model, planned, folder, [[x] for x in inputs], api.emulated_core(board))
    return [probabilities.reshape(-1) for (probabilities,) in outputs]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="deploy the spoken-digit network to two boards and let it recognise ten recordings"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("out"), help="where the folders of C go")
    output = parser.parse_args().output
    with TRUTH.open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    inputs = np.load(INPUTS, allow_pickle=False)
    failed = 0
    for device, ram in BOARDS.items():
        folder = output / f"{NAME}-{device}"
        command = [
            "deploy",
            relative(MODEL),
            "--device",
            device,
            *(["--ram", ram] if ram else []),
            "--inputs",
            relative(INPUTS),
            "-o",
            str(folder),
        ]
        print(f"\n$ tinyweave {shlex.join(command)}", flush=True)
        code = cli.main(command)
        if code > DOES_NOT_FIT:
            return code
        failed |= code
        print(f"\nrecognised by the C in {folder}, on the emulated {api.emulated_core(find(device))}:")
        probabilities = recognise(folder, device, inputs)
        print("  recording           true  recognised  probability")
        for row, values in zip(rows, probabilities, strict=True):
            digit = int(values.argmax())
            note = "" if digit == int(row["digit"]) else "  wrong"
            print(f"  {row['recording']:18}  {row['digit']:>4}  {digit:10}  {(int(values[digit]) + 128) / 256:11.2f}{note}")
        right = sum(int(values.argmax()) == int(row["digit"]) for row, values in zip(rows, probabilities, strict=True))
        print(f"  {right} of {len(rows)} right")
    return failed


if __name__ == "__main__":
    sys.exit(main())

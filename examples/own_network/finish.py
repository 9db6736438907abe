"""The end of each script here: the C of an int8 model, and held-out images for main.c."""

from __future__ import annotations

import argparse
from pathlib import Path

from stripes import images

import tinyweave as tw

HELD_OUT = 100


def arguments(description: str) -> argparse.ArgumentParser:
    """Return the options that all scripts here have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/own_network"), help="folder to write")
    parser.add_argument("--device", default="nrf52840", help="the board")
    return parser


def finish(model: tw.Model, device: str, output: Path) -> int:
    """Write the C of a model, its proof and images.bin; return the exit code."""
    done = tw.deploy(model, device, out=output / "firmware")
    if done.profile is None or done.verification is None:  # its plan exceeds a limit
        print(done)
        return 1
    print(f"fits {device}: {done.fits}, every output byte is right: {done.verification.ok}, RAM {done.profile.ram:,} B")
    x, _ = images(HELD_OUT, seed=2)
    (output / "images.bin").write_bytes(x.tobytes())
    return 0 if done.fits and done.verification.ok else 1

"""From an ONNX file to C: make it int8, deploy it.

In: a network that PyTorch trains and exports, in place of your own file, and stripes.py, in place of your own samples. Out: in
the folder `-o`, net.onnx, firmware/ with the C, and images.bin, held-out images for main.c. docs/ONNX.md explains the steps.
"""

from __future__ import annotations

import sys

import torch
from finish import arguments, finish
from from_pytorch import samples, trained

import tinyweave as tw


def export(net, path):
    """Write an ONNX file; yours may be of any framework."""
    torch.onnx.export(net.eval(), (samples(1, seed=0)[0],), path, input_names=["image"], verbose=False)


def main() -> int:
    options = arguments("deploy an ONNX file").parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "net.onnx"
    export(trained(), path)
    x, y = samples(128, seed=1)
    done = tw.quantize(path, x.numpy(), labels=y.numpy())  # channels first, as in the file
    print("right answers: float {:.0%}, int8 {:.0%}".format(*done.fidelity.accuracy))
    return finish(done.model, options.device, options.output)


if __name__ == "__main__":
    sys.exit(main())

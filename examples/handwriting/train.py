"""Train a network on handwritten digits of 8 x 8 pixels, make it int8, and write it beside this file.

In: scikit-learn's copy of the digits, which its package contains. Out: handwriting.tflite, and what it recognises of the images
that it has not seen. README.md has its figures and licences.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import tinyweave as tw

HERE = Path(__file__).parent
HELD_OUT = 360  # the last images
EPOCHS = 60


def images():
    """Return images, float32 [1797, 1, 8, 8] with values from 0 to 255, and the digit of each."""
    found = load_digits()
    return (found.images * (255 / 16)).astype(np.float32)[:, None], found.target


def trained(x, y):
    """Return a network that was trained on images, each moved by up to one pixel in each epoch."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # as fast for maps this small, and the same weights on every machine with this processor
    net = nn.Sequential(
        *(nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU()),
        *(nn.Conv2d(12, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU()),
        *(nn.Conv2d(24, 40, 3, 2, 1, bias=False), nn.BatchNorm2d(40), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10), nn.Softmax(1)),
    )
    x, y = torch.tensor(x) / 255, torch.tensor(y)
    optimizer = torch.optim.AdamW(net.parameters(), 4e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, EPOCHS * -(-len(x) // 32))
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(32):
            down, right = torch.randint(-1, 2, (2,)).tolist()
            moved = nn.functional.pad(x[batch], (1, 1, 1, 1))[:, :, 1 + down : 9 + down, 1 + right : 9 + right]
            optimizer.zero_grad()
            nn.functional.nll_loss(torch.log(net(moved) + 1e-6), y[batch]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def main() -> int:
    parser = argparse.ArgumentParser(description="train a network on handwritten digits, and make it int8")
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder to write")
    file = parser.parse_args().output / "handwriting.tflite"
    x, y = images()
    known, unknown = slice(0, -HELD_OUT), slice(-HELD_OUT, None)
    net = trained(x[known], y[known])
    done = tw.quantize(tw.load(net, torch.zeros(1, 1, 8, 8)), x[known], scale=1 / 255)
    file.write_bytes(done.file)
    with torch.no_grad():
        right = int((net(torch.tensor(x[unknown]) / 255).argmax(1).numpy() == y[unknown]).sum())
    found = tw.run(file, x[unknown] / np.float32(255))
    exact = sum(int(scores.argmax()) == digit for (scores,), digit in zip(found.values, y[unknown], strict=True))
    print(f"right of {HELD_OUT}: float {right}, int8 {exact}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Train two small transformers on this machine, make them int8, and deploy them for a Cortex-M4 with 64 KiB of RAM.

In: data sets (--data): spoken digits, a fifth of CIFAR-10. Out: per network parameters, training time, accuracy on the test
part in float and int8, RAM, and whether the C computes the same bytes on this machine and on the emulated core. The int8
network and its C are left in a folder (-o), with the trained weights: networks with weights there are not trained again.
`keywords` is a keyword transformer (arXiv 2104.00769): each frame of the features is a token. `images` is a small vision
transformer, with a convolution of stride 2 before each of two groups of encoder layers, of 256 and 64 tokens.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import tinyweave as tw
from tinynas.int8 import int8_outputs
from tinynas.learning.augment import AUGMENT
from tinynas.learning.train import accuracy, as_tensor, save, thread_count
from tinynas.tasks.dataset import SCALE, Dataset
from tinynas.tasks.images import read_images
from tinynas.tasks.sounds import read_sounds
from tinyweave.support.files import write_file

DEVICE, RAM = "stm32l4r5", "64k"
BATCH, RATE, DECAY, WARM_UP, SMOOTHING = 64, 2e-3, 0.05, 0.1, 0.1
CALIBRATION, METHOD = 64, "minmax"  # training samples that choose the int8 ranges, and how
TESTED = 500  # most test samples that are run in int8, which takes 0.1 s each


def encoder(channels: int, heads: int, layers: int) -> nn.Sequential:
    """Return encoder layers with the layer norms first, GELU, and MLPs twice as wide as the tokens."""
    one = partial(nn.TransformerEncoderLayer, channels, heads, 2 * channels, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.Sequential(*(one() for _ in range(layers)))


class Head(nn.Module):
    """Class scores from the mean of all tokens."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.norm, self.dense = nn.LayerNorm(channels), nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(self.norm(x).mean(1))


class KeywordTransformer(nn.Module):
    """Encoder layers over the frames of log-mel features."""

    def __init__(self, frames: int, bands: int, classes: int, channels: int = 32) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(bands, channels), nn.Parameter(0.02 * torch.randn(1, frames, channels))
        self.layers, self.head = encoder(channels, 4, 4), Head(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(x[:, 0]) + self.place))


class Patches(nn.Module):
    """A convolution that halves the sides of a map, whose pixels become tokens, with a learned number for each place."""

    def __init__(self, inputs: int, channels: int, side: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(inputs, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels)
        self.place = nn.Parameter(0.02 * torch.randn(1, side * side, channels))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2) + self.place


class TinyViT(nn.Module):
    """Encoder layers over the pixels of maps of 16 x 16 x 32 and 8 x 8 x 64, for images of 32 x 32."""

    def __init__(self, classes: int, layers: tuple[int, int] = (1, 3)) -> None:
        super().__init__()
        self.first, self.wide = Patches(3, 32, 16), encoder(32, 4, layers[0])
        self.second, self.deep = Patches(32, 64, 8), encoder(64, 4, layers[1])
        self.head = Head(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.wide(self.first(x)).transpose(1, 2).unflatten(2, (16, 16))
        return self.head(self.deep(self.second(x)))


def keywords(data: Path) -> tuple[Dataset, nn.Module, str]:
    """Return spoken digits, an untrained network, and the augmentation."""
    found = read_sounds(data / "fsdd" / "recordings")
    _, frames, bands, _ = found.values.shape
    return found, KeywordTransformer(frames, bands, len(found.classes)), "sounds"


def images(data: Path) -> tuple[Dataset, nn.Module, str]:
    """Return a fifth of CIFAR-10, an untrained network, and the augmentation."""
    found = read_images(data / "cifar10_fifth" / "train", (32, 32))
    return found, TinyViT(len(found.classes)), "images"


# name -> data, network and augmentation; epochs
NETWORKS: dict[str, tuple[Callable[[Path], tuple[Dataset, nn.Module, str]], int]] = {
    "keywords": (keywords, 25),
    "images": (images, 15),
}


def train(module: nn.Module, data: Dataset, augmentation: str, epochs: int) -> nn.Module:
    """Train a module in place on the training and validation parts: AdamW, one cycle of the learning rate. Return it."""
    generator = torch.Generator().manual_seed(0)
    values, labels = data.part("train", "validation")
    x, y = as_tensor(values), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(module.parameters(), RATE, weight_decay=DECAY)
    steps = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, epochs=epochs, steps_per_epoch=steps, pct_start=WARM_UP)
    for epoch in range(epochs):
        module.train()
        total = 0.0
        for part in torch.randperm(len(x), generator=generator).split(BATCH)[:steps]:
            scores = module(AUGMENT[augmentation](x[part].float() * SCALE, generator))
            loss = functional.cross_entropy(scores, y[part], label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"  epoch {epoch + 1}/{epochs}: loss {total / steps:.3f}", file=sys.stderr, flush=True)
    return module.eval()


def report(name: str, data: Path, output: Path, epochs: int) -> bool:
    """Train and deploy a network, and print its line; return whether it fits and all bytes are equal."""
    torch.manual_seed(0)
    found, module, augmentation = NETWORKS[name][0](data)
    trained = output / f"{name}.pt"
    if not trained.exists():
        begun = time.process_time()
        with thread_count(1):
            train(module, found, augmentation, epochs)
        save({"module": module.state_dict(), "minutes": (time.process_time() - begun) / 60}, trained)
    state = torch.load(trained)
    module.load_state_dict(state["module"])
    module.eval()
    values, labels = (each[:TESTED] for each in found.part("test"))
    training, _ = found.part("train", "validation")
    example = as_tensor(training[:1]).float() * SCALE
    chosen = np.random.default_rng(0).permutation(len(training))[:CALIBRATION]
    quantised = tw.quantize(tw.load(module, example, name=name), training[chosen], scale=SCALE, method=METHOD)
    file = output / f"{name}.tflite"
    write_file(file, quantised.model.file)
    right = accuracy(module, values, labels), float((int8_outputs(quantised.model.graph, values).argmax(1) == labels).mean())
    whole = tw.plan(quantised.model, schedule="unfused", optimize="size").arena["sram"]
    least = tw.plan(quantised.model, optimize="size").arena["sram"]
    deployed = tw.deploy(quantised.model, DEVICE, out=output / name, ram=RAM, optimize="speed", inputs=[*values[:4, None]])
    count, cost = sum(each.numel() for each in module.parameters()), f"{epochs} epochs in {state['minutes']:.1f} minutes"
    print(f"{name}: {count:,} parameters, {len(training):,} samples, {cost} of one core", flush=True)
    print(f"  {len(labels):,} test samples: {right[0]:.1%} in float, {right[1]:.1%} in int8")
    print(f"  arena: {whole:,} B unfused, {least:,} B with attention by rows")
    verified = "the same bytes" if deployed.verification.ok else "other bytes"
    need, cycles = deployed.profile, deployed.profile.cycles
    print(f"  on {DEVICE}: RAM {need.ram:,} B, Flash {need.flash:,} B, {cycles.likely if cycles else 0:,} cycles, {verified}")
    return deployed.fits and deployed.verification.ok


def main() -> int:
    shared = Path(os.environ.get("TINYWEAVE_SHARED", "../shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"networks, of {', '.join(NETWORKS)}")
    parser.add_argument("--data", type=Path, default=shared / "data", help="folder of data sets")
    parser.add_argument("--epochs", type=int, help="epochs of training, instead of 25 for keywords and 15 for images")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the int8 networks and their C")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    names = options.names or list(NETWORKS)
    done = [report(name, options.data, options.output, options.epochs or NETWORKS[name][1]) for name in names]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())

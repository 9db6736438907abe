"""Train the networks of `accuracy.py`: five small ones on a fifth of CIFAR-10, five folds, three seeds.

In: the images (--shared). Out: a folder (-o) with a file per run, NETWORK-FOLD-SEED.pt: its weights and held-out accuracy. What
is there is left out, so that it goes on where it was stopped; all networks and folds of a seed come before the next seed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
import torch
from torch import nn
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from cases.architectures import (  # noqa: E402
    InvertedResidual,
    Layer,
    Residual,
    ShuffleUnit,
    classifier,
    conv,
    of_eight,
)

FOLDS, SEEDS = 5, 3
CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
BATCH, WEIGHT_DECAY = 64, 5e-4
WARMUP = 0.2  # of all steps
SHIFT = 3  # pixels that an image is moved by, at most


def resnet8(width: int = 24) -> nn.Module:
    blocks = Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)
    return nn.Sequential(conv(3, width, 3, 2), *blocks, classifier(4 * width))


def mobilenet_v1() -> nn.Module:
    layers, channels = [conv(3, 24, 3, 2)], 24
    for outputs, stride in ((48, 1), (96, 2), (96, 1), (192, 2), (192, 1)):
        layers += [conv(channels, channels, 3, stride, groups=channels), conv(channels, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, classifier(channels))


Block = tuple[int, int, int, int, bool, Layer]  # kernel, expanded and output channels, stride, squeeze and excite, activation


def inverted(blocks: Sequence[Block], stem: int, last: int, act: Layer, head: nn.Module) -> nn.Module:
    """Return a network of inverted residual blocks."""
    layers, channels = list[nn.Module]([conv(3, stem, 3, 2, act=act)]), stem
    for kernel, expanded, outputs, stride, excite, inner in blocks:
        squeezed = of_eight(expanded / 4) if excite else 0
        layers.append(InvertedResidual(channels, outputs, expanded, kernel=kernel, stride=stride, act=inner, excite=squeezed))
        channels = outputs
    return nn.Sequential(*layers, conv(channels, last, 1, act=act), head)


def mobilenet_v2() -> nn.Module:
    plan = [(16, 16, 1), (64, 24, 2), (96, 24, 1), (96, 32, 1), (128, 64, 2), (256, 64, 1)]
    blocks: list[Block] = [(3, expanded, outputs, stride, False, nn.ReLU6) for expanded, outputs, stride in plan]
    return inverted(blocks, 16, 256, nn.ReLU6, classifier(256))


def mobilenet_v3_small() -> nn.Module:
    soft, hard = nn.ReLU, nn.Hardswish
    blocks: list[Block] = [
        (3, 16, 16, 1, True, soft),
        (3, 64, 24, 2, False, soft),
        (3, 72, 24, 1, False, soft),
        (5, 96, 40, 2, True, hard),
        (5, 160, 40, 1, True, hard),
        (5, 160, 48, 1, True, hard),
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 128), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(128, 10)]
    return inverted(blocks, 16, 192, hard, nn.Sequential(*head))


def shufflenet_v2() -> nn.Module:
    layers, channels = list[nn.Module]([conv(3, 32, 3, 2)]), 32
    for outputs in (64, 128):
        layers += [ShuffleUnit(channels, outputs, 2), *(ShuffleUnit(outputs, outputs, 1) for _ in range(2))]
        channels = outputs
    return nn.Sequential(*layers, conv(channels, 256, 1), classifier(256))


# name -> module, epochs, rate at its greatest; epochs are as many as a minute of one core is enough for
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int, float]] = {
    "mobilenet_v3_small": (mobilenet_v3_small, 10, 0.2),
    "resnet8": (resnet8, 12, 0.2),
    "mobilenet_v1": (mobilenet_v1, 11, 0.2),
    "mobilenet_v2": (mobilenet_v2, 9, 0.2),
    "shufflenet_v2": (shufflenet_v2, 11, 0.2),
}


def images(shared: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return all images, uint8 [count, 32, 32, 3], in the order of their paths, and their classes."""
    from PIL import Image

    paths = sorted((shared / "data" / "cifar10_fifth" / "train").rglob("*.png"))
    pixels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    return pixels, np.array([CLASSES.index(path.parent.name) for path in paths])


def held_out(labels: np.ndarray, fold: int) -> np.ndarray:
    """Return which items a fold holds out: of each class every fifth, in an order drawn once."""
    order = np.random.default_rng(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    chosen = np.zeros(len(labels), bool)
    chosen[order[fold::FOLDS]] = True
    return chosen


def as_input(pixels: np.ndarray) -> torch.Tensor:
    """Return images as the networks take them: [count, 3, 32, 32] in [-1, 1]."""
    return (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def batches(x: torch.Tensor, y: torch.Tensor, rng: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield one epoch in random order, each batch flipped, each image moved by a few pixels; what comes in is 0."""
    order = torch.randperm(len(x), generator=rng)
    wide = functional.pad(x, (SHIFT,) * 4)
    for chosen in order.split(BATCH):
        if len(chosen) < BATCH:
            return
        shifts = torch.randint(0, 2 * SHIFT + 1, (BATCH, 2), generator=rng).tolist()
        moved = torch.stack([wide[i, :, r : r + 32, c : c + 32] for i, (r, c) in zip(chosen.tolist(), shifts, strict=True)])
        flips = torch.rand(BATCH, generator=rng) < 0.5
        moved[flips] = moved[flips].flip(-1)
        yield moved.contiguous(memory_format=torch.channels_last), y[chosen]


def train(
    module: nn.Module, x: torch.Tensor, y: torch.Tensor, *, epochs: int, rate: float, seed: int, decay: float = WEIGHT_DECAY
) -> nn.Module:
    """Return the module trained in place: SGD with momentum, one cycle of the rate."""
    rng = torch.Generator().manual_seed(seed)
    steps = epochs * (len(x) // BATCH)
    plain = [p for p in module.parameters() if p.ndim == 1]
    groups = [{"params": [p for p in module.parameters() if p.ndim > 1], "weight_decay": decay}, {"params": plain}]
    optimizer = torch.optim.SGD(groups, rate, momentum=0.9, nesterov=True)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=WARMUP, cycle_momentum=False)
    module.train()
    for _ in range(epochs):
        for images, labels in batches(x, y, rng):
            optimizer.zero_grad()
            functional.cross_entropy(module(images), labels).backward()
            optimizer.step()
            cycle.step()
    return module.eval()


@torch.no_grad()
def scores(module: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> np.ndarray:
    return np.concatenate([module(part).numpy() for part in x.split(256)])


def network(name: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return NETWORKS[name][0]().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def trained(folder: Path, name: str, fold: int, seed: int) -> nn.Module | None:
    """Return a network that was trained before, or None."""
    path = folder / f"{name}-{fold}-{seed}.pt"
    if not path.is_file():
        return None
    module = network(name, seed)
    module.load_state_dict(torch.load(path, weights_only=True)["weights"])
    return module.eval()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*NETWORKS, []], help="some of them; all if left out")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=FOLDS, help="how many of the five")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    pixels, labels = images(options.shared)
    show = partial(print, flush=True)
    for seed, name, fold in itertools.product(range(options.seeds), options.names or NETWORKS, range(options.folds)):
        path = options.output / f"{name}-{fold}-{seed}.pt"
        if path.is_file():
            continue
        out, start = held_out(labels, fold), time.process_time()
        module, (_, epochs, rate) = network(name, seed), NETWORKS[name]
        train(module, as_input(pixels[~out]), torch.from_numpy(labels[~out]), epochs=epochs, rate=rate, seed=seed)
        accuracy = float((scores(module, as_input(pixels[out])).argmax(1) == labels[out]).mean())
        partial_path = path.with_suffix(".part")
        torch.save({"weights": module.state_dict(), "accuracy": accuracy}, partial_path)
        partial_path.rename(path)
        show(f"{name} fold {fold} seed {seed}: {100 * accuracy:.1f} %, {time.process_time() - start:.0f} s of CPU time")
    return 0


if __name__ == "__main__":
    sys.exit(main())

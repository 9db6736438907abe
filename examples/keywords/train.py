"""Train the spoken-digit network and write it as int8, with the figures that it reached.

In: the wav files of the Free Spoken Digit Dataset; takes 0 to 4 of every speaker and digit are held out, as its authors do.
Out: digits.tflite, trained.json, and of ten held-out recordings the features (inputs.npy) and the digits (inputs.csv). A
seventh of the samples are pieces of words and noise, whose target is the same for all digits, so that the network also works on
a stream. Source of the network: Zhang et al., Hello Edge, 2017 (arXiv 1711.07128). Needs torch==2.13.0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import sounds
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

import tinyweave as tw
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph
from tinyweave.ops import run
from tinyweave.ops.window import same_padding

SEED = 0
EPOCHS = 40
BATCH = 64
NOTHING = 10  # samples of a batch that are no digit, beside it
LEARNING_RATE = 4e-3
CALIBRATION = 500  # recordings that choose the ranges of int8
BLOCKS = ((32, 1), (64, 2), (64, 1), (96, 2), (96, 1))  # channels, stride; behind a convolution of 32 channels and stride 2


class Block(nn.Module):
    """A depthwise and a pointwise convolution; their input is added to their result where it has the same shape."""

    def __init__(self, before: int, channels: int, stride: int):
        super().__init__()
        self.stride, self.is_residual = stride, before == channels and stride == 1
        self.depthwise = nn.Conv2d(before, before, 3, stride, groups=before, bias=False)
        self.pointwise = nn.Conv2d(before, channels, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(before), nn.BatchNorm2d(channels)])

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norms[0](self.depthwise(padded(x, self.stride))))
        y = self.norms[1](self.pointwise(y))
        return torch.relu(x + y if self.is_residual else y)


class Network(nn.Module):
    """Features [n, frames, bands, 1], 0 .. 1, to the logits of the digits [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, 32, 3, 2, bias=False), nn.BatchNorm2d(32)
        widths = [32, *(channels for channels, _ in BLOCKS)]
        self.blocks = nn.Sequential(*(Block(before, *block) for before, block in zip(widths, BLOCKS, strict=False)))
        self.dropout, self.dense = nn.Dropout(0.2), nn.Linear(widths[-1], sounds.DIGITS)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(padded(x.permute(0, 3, 1, 2), 2))))
        return self.dense(self.dropout(self.blocks(x).mean((2, 3))))


def padded(x: Tensor, stride: int) -> Tensor:
    """Return maps [n, channels, rows, columns] with the zeros around them of TFLite's SAME padding, for a 3x3 window."""
    (top, bottom), (left, right) = (same_padding(size, 3, stride) for size in x.shape[2:])
    return functional.pad(x, (left, right, top, bottom))


def as_input(values: NDArray[np.int8]) -> Tensor:
    """Return features as the real numbers that the network takes, 0 .. 1."""
    return torch.from_numpy(values).float() * sounds.SCALE + sounds.OFFSET


def placed(samples: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """Return a second in which a recording begins at sample `start`, which may lie outside."""
    second = np.zeros(sounds.SECOND)
    first, last = max(0, start), min(sounds.SECOND, start + len(samples))
    second[first : max(first, last)] = samples[first - start : max(first, last) - start]
    return second


def heard(samples: NDArray[np.int16], rng: np.random.Generator, *, whole: bool) -> NDArray[np.int16]:
    """Return a second with a recording at another speed, time and loudness, mostly with noise; whole, or at most 40 % of it."""
    speed = rng.uniform(0.85, 1.15)
    voice = np.interp(np.arange(0, len(samples) - 1, speed), np.arange(len(samples)), samples)
    if whole:
        room = max(0, sounds.SECOND - len(voice))
        second = placed(voice, round((sounds.SECOND - len(voice)) / 2 + rng.uniform(-0.45, 0.45) * room))
    else:
        seen = round(rng.uniform(0, 0.4) * len(voice))
        second = placed(voice, sounds.SECOND - seen if rng.random() < 0.5 else seen - len(voice))
    if rng.random() < 0.8:
        loudness = np.sqrt(np.mean(voice**2))
        second += loudness * 10 ** (-rng.uniform(20, 60) / 20) * rng.standard_normal(sounds.SECOND)
    return np.clip(np.rint(second * 10 ** (rng.uniform(-15, 6) / 20)), -(2**15), 2**15 - 1).astype(np.int16)


def train(voices: list[NDArray[np.int16]], labels: NDArray[np.int64]) -> Network:
    """Return a network trained on recordings; the same seed, machine and torch give the same weights."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    rng, network = np.random.default_rng(SEED), Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=1e-3)
    batches = -(-len(voices) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, epochs=EPOCHS, steps_per_epoch=batches)
    begun = time.process_time()
    for epoch in range(EPOCHS):
        network.train()
        total = 0.0
        for batch in np.array_split(rng.permutation(len(voices)), batches):
            words = [heard(voices[i], rng, whole=True) for i in batch]
            pieces = [heard(voices[i], rng, whole=False) for i in rng.integers(len(voices), size=NOTHING)]
            wanted = torch.full((len(words) + NOTHING, sounds.DIGITS), 0.1 / sounds.DIGITS)
            wanted[torch.arange(len(words)), torch.from_numpy(labels[batch])] += 0.9
            wanted[len(words) :] = 1 / sounds.DIGITS
            values = sounds.FEATURES.of(np.stack(words + pieces))[..., None]
            loss = functional.cross_entropy(network(as_input(values)), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1:2}/{EPOCHS}: loss {total / len(voices):.4f}, {time.process_time() - begun:.0f} s", flush=True)
    return network.eval()


def int8_graph(network: Network, values: NDArray[np.int8]) -> Graph:
    """Return the trained network in int8, from `log_mel` to `probabilities`; values: the features that choose its ranges."""
    module = nn.Sequential(network, nn.Softmax(1)).eval()
    loaded = tw.load(module, torch.zeros(1, sounds.FRAMES, sounds.BANDS, 1), name="digits")
    graph = tw.quantize(loaded, values, scale=sounds.SCALE, offset=sounds.OFFSET).model.graph
    names = {graph.inputs[0]: "log_mel", graph.outputs[0]: "probabilities"}
    renamed = {name: names.get(name, name) for name in graph.tensors}
    ops = [
        replace(op, inputs=tuple(renamed[name] for name in op.inputs), outputs=tuple(renamed[name] for name in op.outputs))
        for op in graph.ops
    ]
    tensors = {renamed[name]: replace(tensor, name=renamed[name]) for name, tensor in graph.tensors.items()}
    return Graph("digits", tensors, tuple(ops), ("log_mel",), ("probabilities",))


def chosen_inputs(held_out: list[Path]) -> list[Path]:
    """Return the ten recordings of inputs.npy, by a rule: take 0 of each digit, the speakers in rotation."""
    speakers = sorted({sounds.named(path)[1] for path in held_out})
    return [held_out[0].with_name(f"{digit}_{speakers[digit % len(speakers)]}_0.wav") for digit in range(sounds.DIGITS)]


def main() -> int:
    parser = argparse.ArgumentParser(description="train, quantise and measure the spoken-digit network")
    parser.add_argument("--data", type=Path, default=sounds.RECORDINGS, help="the data set's folder of wav files")
    parser.add_argument("-o", "--output", type=Path, default=sounds.HERE, help="where the network and what belongs to it go")
    arguments = parser.parse_args()
    try:
        write_trained(arguments.data, arguments.output)
    except tw.CompileError as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 2
    return 0


def write_trained(data: Path, output: Path) -> None:
    """Train on the recordings of a folder, and write the network and what belongs to it into `output`."""
    training, held_out = sounds.recordings(data)
    if not training:
        raise tw.CompileError(f"'{data}' has no takes to train on", "add takes from 5 on")
    chosen = chosen_inputs(held_out)
    # before the training, so that a missing file does not cost five minutes
    inputs = np.stack([sounds.features(sounds.read_digit(path)) for path in chosen])
    print(f"{len(training)} recordings to train on, {len(held_out)} held out")
    network = train([sounds.read_digit(path) for path in training], np.array([sounds.named(path)[0] for path in training]))
    plain = np.stack([sounds.features(sounds.read_digit(path)) for path in training[:: max(1, len(training) // CALIBRATION)]])
    graph = int8_graph(network, plain)
    output.mkdir(parents=True, exist_ok=True)
    (output / "digits.tflite").write_bytes(to_tflite(graph))
    np.save(output / "inputs.npy", inputs)
    rows = "".join(f"{path.name},{sounds.named(path)[0]}\n" for path in chosen)
    (output / "inputs.csv").write_text("recording,digit\n" + rows, encoding="ascii", newline="\n")

    values, labels = (
        np.stack([sounds.features(sounds.read_digit(path)) for path in held_out]),
        [sounds.named(path)[0] for path in held_out],
    )
    with torch.no_grad():
        scores = {"float": network(as_input(values)).numpy()}
    scores["int8"] = np.stack([run(graph, {"log_mel": sample[None]})["probabilities"][0] for sample in values])
    right = {name: int((outputs.argmax(1) == labels).sum()) for name, outputs in scores.items()}
    about = {
        "trained_on": len(training),
        "held_out": len(held_out),
        "right": right,
        "epochs": EPOCHS,
        "torch": torch.__version__,
    }
    (output / "trained.json").write_text(json.dumps(about, indent=2) + "\n")
    print(f"recognised of {len(held_out)} held-out recordings: {right['float']} in float, {right['int8']} in int8")


if __name__ == "__main__":
    sys.exit(main())

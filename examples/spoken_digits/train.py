"""Trains the spoken-digit network and writes it as int8.

In: the WAV files of the Free Spoken Digit Dataset; takes 0 to 4 of every speaker and digit are held out, as its authors do.
Out: digits.tflite, the features of ten held-out recordings (inputs.npy) and what is said in them (inputs.csv). The idea: a
small residual network of depthwise-separable blocks, quantised from the ranges seen on the training set.
Sources: Zhang et al., Hello Edge, 2017 (the network); Jacob et al., 2018 (the arithmetic). Needs torch==2.13.0.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import features
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops.window import same_padding
from tinyweave.simulate import litert

HERE = Path(__file__).parent
RECORDINGS = HERE.parents[2] / "shared" / "data" / "fsdd" / "recordings"
DIGITS = 10
HELD_OUT_TAKES = range(5)
SEED = 0
EPOCHS = 30
BATCH = 64
LEARNING_RATE = 4e-3


@dataclass(frozen=True)
class Layer:
    """A convolution; with `skip` the tensor of that name is added to its result, and the sum is called `block`."""

    name: str
    kind: str
    channels: int
    kernel: int = 3
    stride: int = 1
    activation: str = "relu"
    skip: str = ""
    block: str = ""


NETWORK = (
    Layer("stem", "conv_2d", 32, stride=2),
    Layer("block1_depthwise", "depthwise_conv_2d", 32),
    Layer("block1_pointwise", "conv_2d", 32, kernel=1, activation="none", skip="stem", block="block1"),
    Layer("block2_depthwise", "depthwise_conv_2d", 32, stride=2),
    Layer("block2", "conv_2d", 64, kernel=1),
    Layer("block3_depthwise", "depthwise_conv_2d", 64),
    Layer("block3_pointwise", "conv_2d", 64, kernel=1, activation="none", skip="block2", block="block3"),
    Layer("block4_depthwise", "depthwise_conv_2d", 64, stride=2),
    Layer("block4", "conv_2d", 96, kernel=1),
    Layer("block5_depthwise", "depthwise_conv_2d", 96),
    Layer("block5_pointwise", "conv_2d", 96, kernel=1, activation="none", skip="block4", block="block5"),
)


class Network(nn.Module):
    """NETWORK, then the mean over time and bands, and one dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        channels = 1
        for layer in NETWORK:
            groups = channels if layer.kind == "depthwise_conv_2d" else 1
            self.convs.append(nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride, groups=groups, bias=False))
            self.norms.append(nn.BatchNorm2d(layer.channels))
            channels = layer.channels
        self.dense = nn.Linear(channels, DIGITS)

    def forward(self, log_mel: torch.Tensor) -> dict[str, torch.Tensor]:
        """Every activation by name, from `log_mel` [n, 1, h, w] to `logits` [n, DIGITS]."""
        seen, x = {"log_mel": log_mel}, log_mel
        for layer, conv, norm in zip(NETWORK, self.convs, self.norms, strict=True):
            top, bottom = same_padding(x.shape[2], layer.kernel, layer.stride)
            left, right = same_padding(x.shape[3], layer.kernel, layer.stride)
            x = norm(conv(functional.pad(x, (left, right, top, bottom))))
            seen[layer.name] = x = torch.relu(x) if layer.activation == "relu" else x
            if layer.skip:
                seen[layer.block] = x = torch.relu(seen[layer.skip] + x)
        seen["pooled"] = pooled = x.mean(dim=(2, 3))
        seen["logits"] = self.dense(functional.dropout(pooled, 0.2, self.training))
        return seen


def as_input(quantised: np.ndarray) -> torch.Tensor:
    """int8 features [n, h, w, 1] -> their real values [n, 1, h, w]."""
    real = (quantised.astype(np.float32) - features.ZERO_POINT) * np.float32(features.SCALE)
    return torch.from_numpy(real.transpose(0, 3, 1, 2).copy())


def augmented(recording: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A second of `recording`, up to 15 % faster or slower, 100 ms earlier or later, with white noise 20 to 60 dB below it."""
    speed = rng.uniform(0.85, 1.15)
    resampled = np.interp(np.arange(0, len(recording) - 1, speed), np.arange(len(recording)), recording)
    second = features.one_second(resampled, int(rng.integers(-800, 801)))
    noise = np.sqrt(np.mean(resampled**2)) * 10 ** (-rng.uniform(20, 60) / 20)
    return second + noise * rng.standard_normal(features.SAMPLES)


def train(recordings: list[np.ndarray], labels: np.ndarray) -> Network:
    """A network trained on `recordings`; the same seed, machine and torch give the same weights."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    rng = np.random.default_rng(SEED)
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=1e-3)
    batches = -(-len(recordings) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, epochs=EPOCHS, steps_per_epoch=batches)
    started = time.monotonic()
    for epoch in range(EPOCHS):
        network.train()
        total = 0.0
        for batch in np.array_split(rng.permutation(len(recordings)), batches):
            seconds = np.stack([augmented(recordings[i], rng) for i in batch])
            logits = network(as_input(features.log_mel(seconds)))["logits"]
            loss = functional.cross_entropy(logits, torch.from_numpy(labels[batch]), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        print(
            f"epoch {epoch + 1:2}/{EPOCHS}: loss {total / len(recordings):.4f}, {time.monotonic() - started:.0f} s", flush=True
        )
    return network.eval()


def activation_quants(network: Network, calibration: np.ndarray) -> dict[str, Quant]:
    """Per activation the int8 range that holds every value seen on `calibration`; the input's and the output's are fixed."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    with torch.no_grad():
        for batch in np.array_split(calibration, -(-len(calibration) // BATCH)):
            for name, values in network(as_input(batch)).items():
                low[name] = min(low.get(name, 0.0), values.min().item())
                high[name] = max(high.get(name, 0.0), values.max().item())
    quants = {}
    for name, least in low.items():
        scale = float(np.float32((high[name] - least) / 255))
        quants[name] = Quant((scale,), (round(-128 - least / scale),))
    quants["log_mel"] = Quant((features.SCALE,), (features.ZERO_POINT,))
    quants["probabilities"] = Quant((1 / 256,), (-128,))
    return quants


def constants(name: str, weights: np.ndarray, bias: np.ndarray, in_scale: float, axis: int | None) -> tuple[Tensor, Tensor]:
    """int8 weights, symmetric, per channel along `axis` or per tensor, and the int32 bias that goes with them."""
    others = None if axis is None else tuple(i for i in range(weights.ndim) if i != axis)
    scales = np.float32(np.abs(weights).max(axis=others, keepdims=True) / 127)
    scales = np.maximum(scales, np.float32(1e-6))  # a channel that training switched off still needs a scale
    quantised = np.clip(np.rint(weights / scales), -127, 127).astype(np.int8)
    bias_scales = np.float32(in_scale) * scales.ravel()
    bias_quantised = np.rint(bias / bias_scales).astype(np.int32)
    weights_quant = Quant(tuple(map(float, scales.ravel())), (0,) * scales.size, axis)
    bias_quant = Quant(tuple(map(float, bias_scales)), (0,) * scales.size, None if axis is None else 0)
    return (
        Tensor(f"{name}_weights", quantised.shape, "int8", weights_quant, quantised, "constant"),
        Tensor(f"{name}_bias", bias_quantised.shape, "int32", bias_quant, bias_quantised, "constant"),
    )


def quantised_graph(network: Network, calibration: np.ndarray) -> Graph:
    """The trained network as an int8 graph, batch norm folded into the convolutions."""
    quants = activation_quants(network, calibration)
    tensors: dict[str, Tensor] = {}
    graph_ops: list[Op] = []

    def activation(name: str, *shape: int) -> Tensor:
        tensors[name] = Tensor(name, shape, "int8", quants[name])
        return tensors[name]

    def append(kind: str, inputs: list[Tensor], output: Tensor, **attrs: object) -> None:
        tensors.update({t.name: t for t in inputs})
        graph_ops.append(Op(f"{kind}_{len(graph_ops)}", kind, tuple(t.name for t in inputs), (output.name,), attrs))

    x = source = activation("log_mel", 1, features.FRAMES, features.BANDS, 1)
    for layer, conv, norm in zip(NETWORK, network.convs, network.norms, strict=True):
        gain = (norm.weight / torch.sqrt(norm.running_var + norm.eps)).detach().double().numpy()
        bias = norm.bias.detach().double().numpy() - gain * norm.running_mean.double().numpy()
        weights = conv.weight.detach().double().numpy() * gain[:, None, None, None]  # O, I / groups, h, w
        depthwise = layer.kind == "depthwise_conv_2d"
        weights = weights.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
        h, w = x.shape[1:3]
        output = activation(layer.name, 1, -(-h // layer.stride), -(-w // layer.stride), layer.channels)
        append(
            layer.kind,
            [x, *constants(layer.name, weights, bias, x.scale, 3 if depthwise else 0)],
            output,
            stride=(layer.stride, layer.stride),
            dilation=(1, 1),
            padding=(same_padding(h, layer.kernel, layer.stride), same_padding(w, layer.kernel, layer.stride)),
            activation=layer.activation,
        )
        x = output
        if layer.skip:
            total = activation(layer.block, *x.shape)
            append("add", [tensors[layer.skip], x], total, activation="relu")
            x = total
    axes = Tensor("pooled_axes", (2,), "int32", data=np.array([1, 2], np.int32), role="constant")
    pooled = activation("pooled", 1, x.shape[3])
    append("mean", [x, axes], pooled, keep_dims=False)
    weights, bias = (p.detach().double().numpy() for p in (network.dense.weight, network.dense.bias))
    logits = activation("logits", 1, DIGITS)
    append("fully_connected", [pooled, *constants("dense", weights, bias, pooled.scale, None)], logits,
           activation="none", keep_num_dims=False)  # fmt: skip
    probabilities = activation("probabilities", 1, DIGITS)
    append("softmax", [logits], probabilities, beta=1.0)
    return verify(Graph("digits", tensors, tuple(graph_ops), (source.name,), (probabilities.name,)))


def litert_default(model: bytes, inputs: np.ndarray) -> np.ndarray:
    """What LiteRT's default kernels compute; they round differently from its reference."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    outputs = []
    for x in inputs:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x[None])
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0])
    return np.stack(outputs)


def chosen_inputs(names: list[str]) -> list[str]:
    """The ten published inputs, chosen before anything is recognised: take 0 of each digit, the speakers in rotation."""
    speakers = sorted({name.split("_")[1] for name in names})
    return [f"{digit}_{speakers[digit % len(speakers)]}_0.wav" for digit in range(DIGITS)]


def main() -> None:
    parser = argparse.ArgumentParser(description="train, quantise and measure the spoken-digit network")
    parser.add_argument("--data", type=Path, default=RECORDINGS, help="the data set's folder of WAV files")
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="where digits.tflite, inputs.npy and inputs.csv go")
    arguments = parser.parse_args()

    names = sorted(path.name for path in arguments.data.glob("*_*_*.wav"))
    if not names:
        sys.exit(f"no recordings in {arguments.data}; give the data set's folder of WAV files with --data")
    held_out = [name for name in names if features.take(name) in HELD_OUT_TAKES]
    training = [name for name in names if features.take(name) not in HELD_OUT_TAKES]
    recordings = {name: features.read_wav(arguments.data / name) for name in names}
    plain = {name: features.log_mel(features.one_second(r)[None])[0] for name, r in recordings.items()}
    print(f"{len(training)} recordings to train on, {len(held_out)} held out")

    network = train([recordings[name] for name in training], np.array([features.label(name) for name in training]))
    graph = quantised_graph(network, np.stack([plain[name] for name in training]))
    model = to_tflite(graph)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "digits.tflite").write_bytes(model)
    chosen = chosen_inputs(names)
    np.save(arguments.output / "inputs.npy", np.stack([plain[name] for name in chosen]))
    rows = "".join(f"{name},{features.label(name)}\n" for name in chosen)
    (arguments.output / "inputs.csv").write_text("recording,digit\n" + rows, encoding="ascii", newline="\n")

    inputs = np.stack([plain[name] for name in held_out])
    labels = np.array([features.label(name) for name in held_out])
    with torch.no_grad():
        floats = network(as_input(inputs))["logits"].numpy()
    int8 = np.stack([ops.run(graph, {"log_mel": x[None]})["probabilities"][0] for x in inputs])
    reference = np.stack([run.outputs[0][0] for run in litert.run(model, [[x[None]] for x in inputs])])
    parameters = sum(tensor.elements for tensor in graph.tensors.values() if tensor.role == "constant")
    print(f"digits.tflite: {len(model)} bytes, {parameters} parameters")
    print(f"recognised of {len(labels)} held-out recordings:")
    outputs = {"float": floats, "int8, tinyweave's reference": int8, "int8, LiteRT's reference kernels": reference,
               "int8, LiteRT's default kernels": litert_default(model, inputs)}  # fmt: skip
    for name, values in outputs.items():
        right = int((values.argmax(1) == labels).sum())
        print(f"  {name}: {right} ({100 * right / len(labels):.1f} %)")
    print(f"int8 outputs equal to LiteRT's reference, byte for byte: {np.array_equal(int8, reference)}")


if __name__ == "__main__":
    main()

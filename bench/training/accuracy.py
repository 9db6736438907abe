"""What int8 costs on real images: our quantiser and others on the same networks, with the same calibration.

In: the images (--shared) and the folder of `train.py` (--weights), where scores are kept: what is there is not done again. Out:
per network and quantiser, on the images that each fold held out: accuracy in float and int8, the loss in points with its paired
95 % interval, how often the class is the float network's, signal to noise of the scores, and our accuracy less theirs. Ours is
the accuracy of the emitted C on this machine. Not among the default: 4-bit weights without training (--quantisers "ours, 4
bits"); after training on, with 4-bit weights, and in float to compare with ("ours, 4 bits, trained" "float, trained on").
"""

from __future__ import annotations

import argparse
import copy
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
import torch
from rivals import RIVALS
from torch import nn
from torch.nn import functional
from train import BATCH, FOLDS, NETWORKS, SEEDS, as_input, batches, held_out, images, scores, trained

import tinyweave as tw
from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.torch import from_module
from tinyweave.ir import Graph, Tensor
from tinyweave.ops import spec_of
from tinyweave.quantize.calibration_samples import open_samples
from tinyweave.quantize.convert import as_real
from tinyweave.quantize.fidelity import as_int8, decibel
from tinyweave.quantize.mixed_precision import PrecisionLimits
from tinyweave.quantize.ptq import QuantiseOptions, quantise
from tinyweave.quantize.simplify_float import simplify_float
from tinyweave.simulate import compare, host

ROOT = Path(__file__).resolve().parents[2]
CALIBRATION = 200  # images
NARROWED = {"ours, 4 bits": 0.51}  # to this share of the bytes of int8 weights: nearly all layers have 4 bits
TRAINED_ON = {"ours, 4 bits, trained": 4, "float, trained on": None}  # to the bits of weights; in float for comparison
RATE = 1e-3  # of training on, at its greatest
HEADS = (
    "network",
    "quantiser",
    "runs",
    "float",
    "int8",
    "loss, points",
    "as float",
    "signal to noise",
    "ours less this, points",
)


def ours(module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor) -> np.ndarray:
    """Return the scores of our int8 form of a network, computed by its C."""
    real = from_module(module, asked[:1])
    return by_c(quantise(real, open_samples(last(calibrating), real), QuantiseOptions()).graph, last(asked))


def narrowed(module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor, *, share: float) -> np.ndarray:
    """Return the scores of our form with 4-bit weights, computed by its C.

    The layers with 4 bits are chosen so that all weights together have at most `share` times the bytes of int8 weights.
    """
    real = from_module(module, asked[:1])
    most = int(share * sum(each.elements for each in weights(simplify_float(real))))
    options = QuantiseOptions(limits=PrecisionLimits(flash=most))
    samples = open_samples(last(calibrating), real)
    done = quantise(real, samples, options, flash=lambda graph: sum(each.bytes for each in weights(graph)))
    return by_c(done.graph, last(asked))


def weights(graph: Graph) -> list[Tensor]:
    """Return the weights of the ops whose kernels take 4-bit weights."""
    return [graph.input(op, 1) for op in graph.ops if spec_of(op).takes_int4_weights]


def last(images: torch.Tensor) -> np.ndarray:
    """Return images as our graphs take them: channels last, [count, 1, h, w, 3]."""
    return images.permute(0, 2, 3, 1).numpy()[:, None]


def by_c(graph: Graph, values: np.ndarray) -> np.ndarray:
    """Return the real outputs of an int8 graph, by its C on this machine, [count, classes]."""
    (name,), (out,) = graph.inputs, graph.outputs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(to_tflite(graph))
        model = api.load(path)
        plan = api.plan(model, schedule="unfused")
        api.write(api.emit_c(model, plan), Path(folder))
        samples = [[sample.tobytes()] for sample in as_int8(graph, {name: values})[name]]
        program = host.build(Path(folder), model.name)
        run = host.invoke(program, plan.arena, samples[-1], compare.output_bytes(model.graph), earlier=samples[:-1])
    answers = np.stack([arrays[0] for arrays in compare.unpack_all(model.graph, run)])
    return as_real(graph.tensors[out], answers).reshape(len(answers), -1)


def trained_on(
    module: nn.Module,
    calibrating: torch.Tensor,
    asked: torch.Tensor,
    *,
    learnt: torch.Tensor,
    classes: torch.Tensor,
    epochs: int,
    bits: int | None,
) -> np.ndarray:
    """Return the scores of a network that is trained on with images drawn as before: in float, or with weights of so many bits,
    in our form, computed by its C."""
    made = tw.prepare_qat(module, asked[:1], calibrating, weight_bits=bits) if bits else copy.deepcopy(module).train()
    rng, steps = torch.Generator().manual_seed(0), epochs * (len(learnt) // BATCH)
    optimizer = torch.optim.Adam(made.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(epochs):
        for pixels, labels in batches(learnt, classes, rng):
            optimizer.zero_grad()
            functional.cross_entropy(made(pixels), labels).backward()
            optimizer.step()
            schedule.step()
    return by_c(tw.convert_qat(made).original, last(asked)) if bits else scores(made.eval(), asked)


QUANTISERS: dict[str, Callable[[nn.Module, torch.Tensor, torch.Tensor], np.ndarray]] = {
    "ours": ours,
    **{name: partial(narrowed, share=share) for name, share in NARROWED.items()},
    **RIVALS,
}


@dataclass(frozen=True)
class Run:
    """A network of one fold and seed. items: those held out. real, small: their scores, in float and by quantiser."""

    items: np.ndarray
    real: np.ndarray
    small: dict[str, np.ndarray]


class Store:
    """Scores of networks, one file each, worked out when they are first asked for."""

    def __init__(self, folder: Path, shared: Path, epochs: int):
        self.folder, self.epochs = folder, epochs
        self.pixels, self.labels = images(shared)

    def scores(self, quantiser: str, name: str, fold: int, seed: int, module: nn.Module) -> np.ndarray | None:
        """Return the scores of the items held out; None where the quantiser is not installed."""
        path = self.folder / quantiser.replace(", ", "-").replace(" ", "_") / f"{name}-{fold}-{seed}.npy"
        if path.is_file():
            return np.load(path)
        out = held_out(self.labels, fold)
        rest = np.random.default_rng(fold).permutation(np.flatnonzero(~out))[:CALIBRATION]
        calibrating, asked = as_input(self.pixels[rest]), as_input(self.pixels[out])
        quantise = QUANTISERS.get(quantiser)
        if quantiser in TRAINED_ON:
            learnt, classes = as_input(self.pixels[~out]), torch.from_numpy(self.labels[~out])
            quantise = partial(trained_on, learnt=learnt, classes=classes, epochs=self.epochs, bits=TRAINED_ON[quantiser])
        try:
            found = scores(module, asked) if quantise is None else quantise(module, calibrating, asked)
        except ImportError:
            return None
        path.parent.mkdir(exist_ok=True)
        np.save(path, found.astype(np.float32))
        return found

    def run(self, name: str, fold: int, seed: int, wanted: Sequence[str]) -> Run | None:
        """Return the scores of a network by all quantisers that are installed; None if it is not trained."""
        module = trained(self.folder, name, fold, seed)
        if module is None:
            return None
        found = {each: self.scores(each, name, fold, seed, module) for each in ("float", *wanted)}
        small = {each: array for each, array in found.items() if array is not None}
        return Run(np.flatnonzero(held_out(self.labels, fold)), small.pop("float"), small)


def interval(differences: np.ndarray, items: np.ndarray) -> str:
    """Return the mean in points with its 95 % interval; an item that several seeds have answered counts once, by its mean."""
    times = np.bincount(items)
    means = np.bincount(items, differences)[times > 0] / times[times > 0]
    mean, error = 100 * means.mean(), 196 * means.std(ddof=1) / np.sqrt(len(means))
    return f"{mean:+.2f} [{mean - error:+.2f}, {mean + error:+.2f}]"


def rows(name: str, runs: Sequence[Run], labels: np.ndarray, wanted: Sequence[str]) -> Iterator[str]:
    """Yield a line per quantiser, all runs of a network, or of all of them, pooled."""
    items = np.concatenate([run.items for run in runs])
    truth, real = labels[items], np.concatenate([run.real for run in runs])
    right = (real.argmax(1) == truth).astype(float)
    first = np.zeros(0)
    for quantiser in wanted:
        if not all(quantiser in run.small for run in runs):
            yield f"| {name} | {quantiser} | {len(runs)} | not installed |" + " |" * 5
            continue
        small = np.concatenate([run.small[quantiser] for run in runs])
        correct = (small.argmax(1) == truth).astype(float)
        first = first if len(first) else correct
        agreed = float((small.argmax(1) == real.argmax(1)).mean())
        ratio = decibel(float(((small - real) ** 2).sum() / (real**2).sum()))
        against = "" if quantiser == wanted[0] else interval(first - correct, items)
        shown = [name, quantiser, str(len(runs)), f"{100 * right.mean():.2f} %", f"{100 * correct.mean():.2f} %"]
        shown += [interval(right - correct, items), f"{100 * agreed:.2f} %", f"{ratio:.1f} dB", against]
        yield f"| {' | '.join(shown)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*NETWORKS, []], help="some of them; all if left out")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--quantisers", nargs="+", choices=[*QUANTISERS, *TRAINED_ON], default=["ours", *RIVALS])
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--epochs", type=int, default=25, help=f"of {' and '.join(TRAINED_ON)}, which are not among the default"
    )
    options = parser.parse_args()
    if not (options.shared / "data" / "cifar10_fifth").is_dir():
        print(f"no CIFAR images in {options.shared}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    store, done = Store(options.weights, options.shared, options.epochs), dict[str, list[Run]]()
    for seed, name, fold in itertools.product(range(options.seeds), options.names or NETWORKS, range(options.folds)):
        run = store.run(name, fold, seed, options.quantisers)
        done.setdefault(name, []).extend([run] if run else [])
    done = {name: runs for name, runs in done.items() if runs}
    if not done:
        print(f"no trained networks in {options.weights}: run train.py first", file=sys.stderr)
        return 2
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for name, pooled in (*done.items(), ("all", [run for runs in done.values() for run in runs])):
        for line in rows(name, pooled, store.labels, options.quantisers):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Build the record of `quantize` (a dict for `--json`), and show it on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..api import results
from .columns import clean, hanging
from .record import head
from .text import heading, show_lines

if TYPE_CHECKING:
    from rich.console import Console

    from ..quantize.fidelity import Fidelity

EXACT = 200.0  # SQNR in dB above which a layer counts as free of noise
Record = dict[str, Any]


def quantisation_record(done: results.Quantisation, out: Path | None = None) -> Record:
    """Return the record of `quantize`, a dict for json.dumps; `out` is the path of the written file, None if there is none."""
    graph, near, mixed = done.model.original, done.fidelity, done.precision
    said = ("sqnr_db", "int8_sqnr_db", "saved")
    return head(done.model, ops=len(graph.ops)) | {
        "out": str(out) if out else None,
        "bytes": {"float": done.float_bytes, "int8": len(done.file)},
        "inputs": [_edge(done, name) for name in graph.inputs],
        "outputs": [_edge(done, name) for name in graph.outputs],
        "preprocessing": {
            "source": done.preprocessing.source,
            "scale": list(done.preprocessing.scale),
            "offset": list(done.preprocessing.offset),
        },
        "samples": {"calibrated": len(done.used), "compared": near.samples},
        "methods": dict(Counter(done.calibration.methods.values()).most_common()),
        **_fidelity(near),
        "precision": mixed
        and {**{key: getattr(mixed, key) for key in said}, "layers": [asdict(layer) for layer in mixed.layers]},
        "layers": None if done.blame is None else [asdict(layer) for layer in done.blame.layers],
    }


def _edge(done: results.Quantisation, name: str) -> Record:
    """Return an input or output of the int8 model as plain values: name, type, shape, scale and zero point."""
    tensor = done.model.original.tensors[name]
    scale, zero_point = (None, None) if tensor.quant is None else (tensor.scale, tensor.zero_point)
    return {"name": name, "dtype": tensor.dtype, "shape": list(tensor.shape), "scale": scale, "zero_point": zero_point}


def show_quantisation(out: Console, record: Record) -> None:
    """Show the int8 file, its inputs and outputs, and its error relative to the float model."""
    heading(out, f"wrote {clean(record['out'] or record['model']['file'], 200)}")
    samples, right = record["samples"], record["accuracy"]
    lines = [f"size: {record['bytes']['int8']:,} B, the float file has {record['bytes']['float']:,} B"]
    for word, key in (("input", "inputs"), ("output", "outputs")):
        for edge in record[key]:
            shape = "x".join(map(str, edge["shape"]))
            scale = "" if edge["scale"] is None else f", real = {edge['scale']:.7g} * (value - {edge['zero_point']})"
            lines.append(f"{word}: {clean(edge['name'])} {edge['dtype']} {shape}{scale}")
    methods = ", ".join(f"{count} {method}" for method, count in record["methods"].items())
    lines += [
        f"the network was given {_preprocessing(record['preprocessing'])}",
        f"ranges: from {samples['calibrated']:,} samples: {methods}",
    ]
    lines += [
        f"compared with the float model on {samples['compared']:,} samples:",
        f"  signal to noise at the output: {record['sqnr_db']:.1f} dB",
    ]
    lines += [] if record["agreement"] is None else [f"  the same class: {100 * record['agreement']:.1f} %"]
    lines += [] if right is None else [f"  accuracy: float {100 * right['float']:.1f} %, int8 {100 * right['int8']:.1f} %"]
    show_lines(out, lines)
    if record["precision"] is not None:
        _show_precision(out, record["precision"])
    if record["layers"] is not None:
        _show_layers(out, record["layers"])


def _show_precision(out: Console, said: Record) -> None:
    """Show the layers with 4-bit weights or int16 activations of the key `precision`, and what each saves and gains."""
    if not said["layers"]:
        heading(out, "int8 throughout keeps the limits")
        return
    heading(out, "what is not int8: bytes that the layer saves, dB at the output that it gains beside the others; - is a cost")
    rows = [["layer", "weights", "activations", "saves", "gains"]]
    rows += [
        [_short(each["name"]), each["weights"] or "-", each["activations"], f"{each['saved']:,} B", f"{each['gained']:+.2f} dB"]
        for each in said["layers"]
    ]
    for line in hanging(rows, frozenset((3, 4)), out.width):
        out.print(Text(line))
    saved = f"{said['saved']:,} B saved" if said["saved"] >= 0 else f"{-said['saved']:,} B more"
    reached = f"{said['sqnr_db']:.1f} dB on the samples that weighed layers, int8 has {said['int8_sqnr_db']:.1f} dB there"
    show_lines(out, [f"in all: {saved}; {reached}"])


def _show_layers(out: Console, layers: Sequence[Record]) -> None:
    """Show the SQNR of each layer in dB, the worst layer first; layers whose loss has a known cause are highlighted."""
    keys = ("costs", "alone", "cumulated", "output", "weights")
    rows = [["layer", "costs", "alone", "added up", "output", "weights", "what would help"]]
    rows += [[_short(layer["name"]), *(_decibel(layer[key]) for key in keys), clean(layer["helps"], 200)] for layer in layers]
    heading(out, "signal to noise in dB: what the layer costs; it alone, or all up to it quantised; its output, its weights")
    marked = {_short(layer["name"]) for layer in layers if layer["accused"]}
    for line in hanging(rows, frozenset(range(1, 6)), out.width):
        out.print(Text(line, style="bold yellow" if line.split("  ")[0] in marked else ""))


def _short(name: str) -> str:
    return clean(name, 28)


def _decibel(value: float | None) -> str:
    """Return an SQNR as text: "-" for None, "exact" if there is practically no noise."""
    return "-" if value is None else "exact" if value > EXACT else f"{value:.1f}"


def _preprocessing(said: Record) -> str:
    """Return how the samples' values became the network's input, as text; `said` is the key `preprocessing` of the record."""
    scale, offset = (", ".join(f"{number:.7g}" for number in said[key]) for key in ("scale", "offset"))
    source = {"images": "images, 0 .. 255", "waveforms": "recordings, -1 .. 1", "arrays": "the samples"}[said["source"]]
    return f"{source}, as they are" if (scale, offset) == ("1", "0") else f"{source}, times {scale} plus {offset}"


def _fidelity(near: Fidelity) -> Record:
    """Return the error of an int8 network relative to the float model as plain values."""
    accuracy = None if near.accuracy is None else {"float": near.accuracy[0], "int8": near.accuracy[1]}
    return {"sqnr_db": near.sqnr_db, "agreement": near.agreement, "accuracy": accuracy}

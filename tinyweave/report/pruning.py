"""What `prune` tells: one record, and its lines on the terminal."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from .. import __version__, results
from .columns import clean, hanging
from .schema import VERSION
from .text import heading, show_lines

if TYPE_CHECKING:
    from rich.console import Console

STATES = ("int8", "pruned", "trained")
WORDS = ("whole, in int8", "pruned", "pruned and trained")
Record = dict[str, Any]


def pruning_record(done: results.Pruning, out: Path | None = None) -> Record:
    """Return what became of a float model, for `prune`."""
    before, after = done.needs
    return {
        "tinyweave": __version__,
        "schema": VERSION,
        "model": {"name": done.model.name, "file": done.model.path.name, "sha256": done.model.sha256},
        "out": str(out) if out else None,
        "before": {"ram": before.ram, "flash": before.flash, "macs": done.macs[0]},
        "after": {"ram": after.ram, "flash": after.flash, "macs": done.macs[1]},
        "layers": [{**asdict(layer), "layers": list(layer.layers)} for layer in done.layers],
        "samples": {"trained": done.trained if done.epochs else 0, "compared": done.fidelities[0].samples},
        "epochs": done.epochs,
        **{state: _fidelity(near) for state, near in zip(STATES, done.fidelities, strict=True)},
    }


def _fidelity(near: results.Fidelity) -> Record:
    accuracy = None if near.accuracy is None else {"float": near.accuracy[0], "int8": near.accuracy[1]}
    return {"sqnr_db": near.sqnr_db, "agreement": near.agreement, "accuracy": accuracy}


def show_pruning(out: Console, record: Record) -> None:
    """Show which channels went, what that saved, and what it lost."""
    heading(out, f"wrote {clean(record['out'] or record['model']['file'], 200)}")
    rows = [["channels", "now", "norm lost", "layers whose channels go together"]]
    for layer in record["layers"]:
        names = ", ".join(clean(name, 28) for name in layer["layers"])
        rows.append([f"{layer['before']:,}", f"{layer['after']:,}", f"{100 * layer['lost']:.1f} %", names])
    for line in hanging(rows, frozenset((0, 1, 2)), out.width) if record["layers"] else ():
        out.print(Text(line))
    before, after = record["before"], record["after"]
    lines = [] if record["layers"] else ["no channel went: int8 keeps the limits"]
    for key, word, unit in (("ram", "RAM (arena)", " B"), ("flash", "Flash, at most", " B"), ("macs", "MACs", "")):
        lines.append(f"{word}: {after[key]:,}{unit}, before {before[key]:,}{unit}")
    show_lines(out, lines)
    samples = record["samples"]
    seen = f", trained on {samples['trained']:,} others" if samples["trained"] else ""
    heading(out, f"compared with the float model on {samples['compared']:,} samples{seen}")
    shown = [(word, record[state]) for state, word in zip(STATES, WORDS, strict=True)]
    lines = [f"{word}: {_near(near)}" for word, near in (shown if record["epochs"] else shown[:2])]
    if record["epochs"] and record["trained"]["sqnr_db"] <= record["pruned"]["sqnr_db"]:
        lines[-1] += "; left out: try more samples, or another --rate"
    show_lines(out, lines)


def _near(near: Record) -> str:
    parts = [f"{near['sqnr_db']:.1f} dB"]
    if near["agreement"] is not None:
        parts.append(f"{100 * near['agreement']:.1f} % the same class")
    if near["accuracy"] is not None:
        parts.append(f"{100 * near['accuracy']['int8']:.1f} % right (float {100 * near['accuracy']['float']:.1f} %)")
    return ", ".join(parts)

"""Report what a model that streams in time (a few new frames per call) keeps of each layer: for the record, and as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..api.results import Model
from .columns import clean, count_text, counted

RIGHT = frozenset({1, 2, 3, 4, 5, 6, 7})  # columns that align right
HEADS = ("layer", "rows", "top", "new", "kept", "state", "MACs", "of", "why not less")


def stream_record(model: Model) -> dict[str, Any] | None:
    """Return how a model streams in time as plain values: frames, state, MACs, rows of each layer; None if it does not."""
    stream = model.stream
    if stream is None:
        return None
    return {
        "window": stream.frames,
        "hop": stream.hop,
        "calls_until_full": stream.calls_until_full,
        "state": stream.state_bytes,
        "macs": sum(layer.macs for layer in stream.layers),
        "macs_window": sum(layer.macs_window for layer in stream.layers),
        "layers": [asdict(layer) for layer in stream.layers],
    }


def stream_title(stream: dict[str, Any]) -> str:
    """Return a sentence on the result of `stream_record`: frames and MACs per call, and bytes of state."""
    share = f", {100 * stream['macs'] / stream['macs_window']:.1f} % of the window's" if stream["macs_window"] else ""
    return (
        f"streaming in time: a call takes {stream['hop']:,} of {counted(stream['window'], 'frame')} and executes "
        f"{counted(stream['macs'], 'MAC')}{share}; {stream['state']:,} B of state; the window is full after "
        f"{counted(stream['calls_until_full'], 'call')}"
    )


def stream_rows(stream: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the cells of the table of a stream: a header, then a line per layer; those behind the last time axis share one."""
    layers = stream["layers"]
    last = max((i for i, layer in enumerate(layers) if layer["rows"] is not None), default=-1)
    rows: list[tuple[str, ...]] = [HEADS]
    for layer in layers[: last + 2]:
        counts = (layer[key] if layer["rows"] is not None else None for key in ("rows", "top", "new", "kept", "bytes"))
        work = count_text(layer["macs"]), count_text(layer["macs_window"])
        rows.append((clean(layer["name"], 40), *map(count_text, counts), *work, layer["why"] or ""))
    if rest := layers[last + 2 :]:
        sums = (count_text(sum(layer[key] for layer in rest)) for key in ("macs", "macs_window"))
        rows.append((f"{counted(len(rest), 'layer')} after it", *("-",) * 5, *sums, "likewise"))
    return rows

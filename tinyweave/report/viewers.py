"""Convert a record for other programs: a trace for Perfetto and Chrome, and node data for Model Explorer.

An event of the trace lasts as long as its layer is estimated to run, in microseconds, cycles or, if both are unknown,
instructions.
"""

from __future__ import annotations

import json

from .record import Record, costs

COLD, HOT = "#f5f7fa", "#d1495b"  # colours of the smallest and the largest value
FIGURES = ("live", "macs", "constants", "cycles", "instructions")


def trace(record: Record) -> Record:
    """Return a trace (JSON trace format) with an event per layer, in order; a stage's loop over rows follows its layers."""
    cycles = record["cycles"] is not None
    scale = 1e6 / record["device"]["clock_hz"] if record["latency_ms"] is not None else 1.0
    unit = "us, estimated" if scale != 1.0 else "estimated cycles" if cycles else "instructions"
    key = "cycles" if cycles else "instructions"
    events, start = [], 0.0
    for entry in (each for each in costs(record) if each[key] is not None):
        count = entry[key]
        seen = {key: entry[key] for key in ("step", "kind", "kernel", "output", "macs", "instructions", "cycles", "live")}
        events.append({"name": entry["name"], "ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": count * scale, "args": seen})
        start += count * scale
    about = {"model": record["model"]["name"], "core": record["core"], "unit": unit, "tinyweave": record["tinyweave"]}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def node_data(record: Record) -> dict[str, str]:
    """Return file name -> JSON text of Model Explorer's node data: a file per kind of value that is known."""
    gradient = [{"stop": 0, "bgColor": COLD}, {"stop": 1, "bgColor": HOT}]
    layers = [layer | {"cycles": layer["cycles_by_shape"]} if layer["cycles"] is None else layer for layer in record["layers"]]
    known = {
        figure: {name: {"value": each[figure]} for each in layers if each[figure] is not None for name in each["tensors"]}
        for figure in FIGURES
    }
    return {
        f"{figure}.json": json.dumps({"results": results, "gradient": gradient}, indent=1) + "\n"
        for figure, results in known.items()
        if results
    }

"""One inference as a trace that Perfetto and Chrome's trace viewer open.

In: a record with what its layers took. Out: the trace event format's complete events, a layer each, in microseconds of the
device where cycles are estimated and its clock is known, else a cycle or an instruction for a microsecond.
"""

from __future__ import annotations

from .record import Record, costs


def trace(record: Record) -> Record:
    """Return the layers one after the other; those of a stage, which take turns, too, and then its loop."""
    cycles = record["cycles"] is not None
    scale = 1e6 / record["device"]["clock_hz"] if record["latency_ms"] is not None else 1.0
    unit = "us, estimated" if scale != 1.0 else "estimated cycles" if cycles else "instructions"
    events, start = [], 0.0
    for entry in costs(record):
        count = entry["cycles" if cycles else "instructions"]
        if count is None:
            continue
        seen = {key: entry[key] for key in ("step", "kind", "kernel", "output", "macs", "instructions", "cycles", "live")}
        events.append({"name": entry["name"], "ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": count * scale, "args": seen})
        start += count * scale
    about = {"model": record["model"]["name"], "core": record["core"], "unit": unit, "tinyweave": record["tinyweave"]}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}

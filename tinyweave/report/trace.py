"""One inference as a trace that Perfetto and Chrome's trace viewer open.

In: a record with what its layers took. Out: the trace event format's complete events, a step each, in microseconds of the
device where cycles are estimated and its clock is known, else a cycle or an instruction for a microsecond.
"""

from __future__ import annotations

from .record import Record


def trace(record: Record) -> Record:
    """The steps one after the other, a fused stage as one."""
    cycles = record["cycles"] is not None
    scale = 1e6 / record["device"]["clock_hz"] if record["latency_ms"] is not None else 1.0
    unit = "us, estimated" if scale != 1.0 else "estimated cycles" if cycles else "instructions"
    events, start, names = [], 0.0, list[str]()
    for layer in record["layers"]:
        names.append(layer["name"])
        spent = layer["cycles" if cycles else "instructions"]
        if spent is None:
            continue
        seen = {key: layer[key] for key in ("kind", "kernel", "output", "macs", "instructions", "cycles", "live")}
        events.append(
            {"name": ", ".join(names), "ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": spent * scale, "args": seen}
        )
        start, names = start + spent * scale, []
    about = {"model": record["model"]["name"], "core": record["core"], "unit": unit, "tinyweave": record["tinyweave"]}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}

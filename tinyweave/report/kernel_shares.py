"""Say which kernels run a network, their share of the work, why layers have no faster kernel, and what they read in RAM."""

from __future__ import annotations

from collections.abc import Sequence

from ..planning.request import CALLBACK_BYTES_PER_S
from .columns import duration, rounded
from .record import Record

MOST_REASONS, MOST_NAMES = 5, 3  # named reasons for portable kernels, and named layers per reason
COSTLY = 0.01  # share of the cycles; reasons whose layers take less in all are not named


def kernel_text(layer: Record) -> str:
    """Return the name of a layer's kernel, without the prefix "tw_" and the op kind, or "-" if no code runs."""
    return (layer["kernel"] or "-").removeprefix("tw_").removeprefix(f"{layer['kind']}_")


def kernel_rows(record: Record) -> list[tuple[str, ...]]:
    """Return table cells: a header, then a row per kernel with its percentages of MACs and cycles, the costliest first."""
    layers: dict[str, list[Record]] = {}
    for layer in record["layers"]:
        if layer["kernel"]:
            layers.setdefault(layer["kernel"], []).append(layer)
    costs, macs = _costs(record), record["macs"]
    rows: list[tuple[str, ...]] = [("kernel", "MACs", "cycles", "layers")]
    for kernel, own in sorted(layers.items(), key=lambda each: -sum(costs.get(layer["name"], 0) for layer in each[1])):
        done = sum(layer["macs"] for layer in own)
        spent = sum(costs.get(layer["name"], 0) for layer in own)
        names = _abbreviated([layer["name"] for layer in own])
        rows.append((kernel, f"{done / macs:.1%}" if done else "-", f"{spent:.1%}" if spent else "-", names))
    return rows


def _abbreviated(names: Sequence[str]) -> str:
    """Join names with commas, and shorten each name that differs from the previous one only in its number: `add_2, 5, 8`."""
    heads = [name.rpartition("_")[0] for name in names]
    shown = [
        name.rpartition("_")[2] if place and heads[place - 1] == heads[place] else name for place, name in enumerate(names)
    ]
    return ", ".join(shown)


def _costs(record: Record) -> dict[str, float]:
    """Return layer -> its fraction of the estimated cycles, from measured instructions if there are any; {} if unknown."""
    key = "cycles" if record["cycles"] is not None else "cycles_by_shape"
    cycles = {layer["name"]: layer[key] or 0 for layer in record["layers"]}
    whole = sum(cycles.values())
    return {name: count / whole for name, count in cycles.items()} if whole else {}


def fast_share_lines(record: Record) -> list[str]:
    """Return a line with the MACs in kernels of the core, then a line per group of layers in portable C that is COSTLY."""
    if record["fast_macs"] is None:
        return []
    core, costs = record["core"] or record["device"]["core"], _costs(record)
    share = f"{record['fast_macs'] / record['macs']:.1%} of the MACs" if record["fast_macs"] < record["macs"] else "all MACs"
    if record["excess"]["flash"]:
        return [f"kernels: the smallest, for want of Flash; {share} run in kernels written for a {core}"]
    groups: dict[tuple[str, str], list[str]] = {}
    for layer in record["layers"]:
        if layer["fast"] is False:
            groups.setdefault((layer["kernel"], layer["why"]), []).append(layer["name"])
    slow = [(sum(costs.get(name, 0) for name in names), names, *reason) for reason, names in groups.items()]
    slow = sorted((each for each in slow if each[0] >= COSTLY), reverse=True)
    lines = [f"kernels: {share} run in kernels written for a {core}{', the others in portable C' if slow else ''}"]
    for spent, names, kernel, why in slow[:MOST_REASONS]:
        more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        lines.append(f"  {', '.join(names[:MOST_NAMES])}{more}, {spent:.1%} of the cycles, in {kernel}: {why}")
    return [*lines, *(["  and others: see 'why' in --json"] if len(slow) > MOST_REASONS else [])]


def kernel_lines(record: Record) -> list[str]:
    """Return a line per reason why layers, but those in portable C, do not have the fastest kernel of the core."""
    layers: dict[str, list[str]] = {}
    for layer in record["layers"]:
        if layer["fast"] and ("faster" in layer["why"] or "cannot" in layer["why"]):
            layers.setdefault(layer["why"], []).append(layer["name"])
    return [f"  {why}: {', '.join(names)}" for why, names in layers.items()]


def copied_bytes(record: Record) -> int:
    """Return the bytes of constants that init copies, by the record of a plan."""
    copies = record.get("plan", {}).get("copies")
    return sum(copies["arrays"].values()) if copies else 0


def copies_lines(record: Record) -> list[str]:
    """Return a sentence on the constants that init copies to RAM: bytes, time of init, and times of an inference; or [].

    For constants that a callback reads, return the bytes and reads per inference, counted if the record has a run.
    """
    if planned := record["plan"].get("file_reads"):
        reads = record.get("file_reads") or planned
        how = "counted" if record.get("file_reads") else "as planned"
        line = f"constants from the file of weights: {reads['bytes']:,} B in {reads['reads']:,} reads per inference, {how}"
        ends, (slow, fast) = " to ".join(map(rounded, reads["ms_range"])), (speed // 10**6 for speed in CALLBACK_BYTES_PER_S)
        more = f"{ends} ms more at {fast} to {slow} MB per second"
        if reads["ms"] is not None:
            more = f"{duration(reads['ms'])} ({ends}) more if the callback copies from Flash"
        if (hidden := reads["hidden_ms_range"]) and hidden[1]:
            about = " to ".join(dict.fromkeys(map(rounded, hidden)))
            more += f"; with callbacks start and wait, about {about} ms of them pass while layers compute"
        return [f"{line}; the time is without these reads: {more}"]
    if not (count := copied_bytes(record)):
        return []
    copies, after = record["plan"]["copies"], record["plan"]["latency_ms_at_least"]
    before = copies["latency_ms_in_flash"]
    line = f"constants in RAM: {count:,} of {record['flash']['constants']:,} B, copied by init"
    if before is None or after is None:
        return [line]
    took = f"in about {duration(copies['init_ms'])}; read from Flash, an inference would take {duration(before)}"
    return [f"{line} {took} instead of {duration(after)}, estimated from the layers' shapes"]

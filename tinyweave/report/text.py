"""What the terminal shows: aligned plain lines, coloured only where a person looks at them.

In: records and plans. Out: lines printed on a rich Console. A pipe gets the same lines without colour, bars as #.
Names out of model files are cleaned before they are shown, so that no file can write control codes to a terminal.
"""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ..codegen.model import buffer_labels
from ..devices import Device
from ..ir import printable, shortened
from ..planning import Plan
from ..planning.explain import Explanation
from ..planning.picture import memory_picture
from ..simulate.instruction_timing import milliseconds
from .explanation import explanation_lines
from .record import Record, costs

WIDTH, MIN_WIDTH = 100, 40
PICTURE_COLUMNS = 42  # what is left of WIDTH beside offsets of seven digits and a name
MIN_BAR, GOOD_BAR, MAX_BAR = 4, 8, 24
TOTALS = (("ram", "total"), ("ram", "arena"), ("flash", "total"), ("flash", "code"))
NUMBERS = (
    ("MACs", "macs"),
    ("instructions", "instructions"),
    ("constants", "constants"),
    ("in", "bytes_in"),
    ("out", "bytes_out"),
    ("live", "live"),
)


def console() -> Console:
    """Return standard output, as wide as the terminal is; elsewhere COLUMNS wide where that is set, else 100."""
    columns = os.environ.get("COLUMNS", "")
    width = max(MIN_WIDTH, int(columns)) if columns.isdecimal() else WIDTH
    return Console(width=None if sys.stdout.isatty() else width, highlight=False, soft_wrap=True)


def clean(text: str, limit: int = 60) -> str:
    """Text out of a file, safe to print and at most `limit` characters long."""
    shown = printable(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 12]}...{shown[-9:]}"


def size(count: int) -> str:
    """Bytes, and KiB where that reads better."""
    return f"{count:,} B" + (f" ({count / 1024:,.1f} KiB)" if count >= 1024 else "")


def align(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset(), gap: str = "  ") -> list[str]:
    """Rows of cells as lines with aligned columns; those in `right` end flush."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        gap.join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def fitted(rows: Sequence[Sequence[str]], right: frozenset[int], width: int, dispensable: Sequence[str] = ()) -> list[str]:
    """Return headed rows as aligned lines of at most `width`, where that is possible.

    Gaps get narrow first; then the columns with the headings `dispensable` are left out, one after the other.
    """
    lines: list[str] = []
    for count in range(len(dispensable) + 1):
        kept = [index for index, head in enumerate(rows[0]) if head not in dispensable[:count]]
        flush = frozenset(place for place, index in enumerate(kept) if index in right)
        for gap in ("  ", " "):
            lines = align([[row[index] for index in kept] for row in rows], flush, gap)
            if max(map(len, lines)) <= width:
                return lines
    return lines


def beside_bars(rows: Sequence[Sequence[str]], right: frozenset[int], width: int, dispensable: Sequence[str]) -> list[str]:
    """Return headed rows as lines with room for a bar after them; columns are left out only where not even a short one fits."""
    lines = fitted(rows, right, width - GOOD_BAR - 2)
    is_narrow = max(map(len, lines)) > width - MIN_BAR - 1
    return fitted(rows, right, width - GOOD_BAR - 2, dispensable) if is_narrow else lines


def hanging(rows: Sequence[Sequence[str]], right: frozenset[int], width: int) -> list[str]:
    """Return rows as aligned lines, the text of the last column wrapped below itself."""
    heads = align([row[:-1] for row in rows], right)
    start = max(map(len, heads)) + 2
    lines = []
    for head, row in zip(heads, rows, strict=True):
        first, *rest = textwrap.wrap(row[-1], max(16, width - start), break_on_hyphens=False) or [""]
        lines += [f"{head:<{start}}{first}".rstrip(), *(" " * start + part for part in rest)]
    return lines


def rounded(value: float) -> str:
    """Return a number with three significant digits, but never in powers of ten: 0.0712, 70.7, 3,560."""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits):,.{max(0, digits)}f}"


def duration(milliseconds: float) -> str:
    """Return a time as people say it, in milliseconds."""
    return f"{rounded(milliseconds)} ms"


def clock(device: Record) -> str:
    """Return the clock of a device's record."""
    return f"{device['clock_hz'] / 1e6:g} MHz"


def target_text(device: Record) -> str:
    """Return a device's name with its core and its clock, as far as they say more."""
    facts = [] if device["name"] == device["core"] else [device["core"]]
    facts += [] if device["clock_hz"] is None else [clock(device)]
    return device["name"] + (f" ({', '.join(facts)})" if facts else "")


def bar(value: int, largest: int, width: int, blocks: bool) -> str:
    """A bar of at most `width` columns; `blocks` draws it in eighths of a column, else in #."""
    if largest <= 0 or value <= 0:
        return ""
    if not blocks:
        return "#" * max(1, round(value * width / largest))
    eighths = max(1, round(value * width * 8 / largest))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _draws_blocks(out: Console) -> bool:
    return out.is_terminal and out.encoding.lower().startswith("utf")


def show_lines(out: Console, lines: Sequence[str], style: str = "") -> None:
    """Sentences, wrapped to the width with a hanging indent; the first line styled."""
    for index, line in enumerate(lines):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        for part in textwrap.wrap(line, out.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
            out.print(Text(part, style=style if index == 0 else ""))


def heading(out: Console, text: str) -> None:
    out.print(Text(text, style="bold"))


def show_model(out: Console, record: Record) -> None:
    """What the network takes and gives."""
    model = record["model"]
    heading(out, model["name"])
    out.print(Text(f"  {_counted(model['ops'], 'op')}, {record['macs']:,} MACs{_again(record)}{_original(record)}"))
    rows = [
        (word, clean(t["name"], 26), f"{t['dtype']} {'x'.join(map(str, t['shape']))}", f"{t['bytes']:,} B", _scale(t))
        for word, key in (("input", "inputs"), ("output", "outputs"))
        for t in model[key]
    ]
    for line in hanging(rows, frozenset({3}), out.width - 2):
        out.print(Text(f"  {line}"))
    out.print()


def show_layers(out: Console, record: Record) -> None:
    """The layer table with a bar of live bytes per layer, the peak marked."""
    layers, summit = record["layers"], record["peak"]
    if not layers:
        return
    lines = beside_bars(*layer_rows(record), out.width, ("in", "out", "window", "constants"))
    room = max(MIN_BAR, min(MAX_BAR, out.width - max(map(len, lines)) - 1))
    largest = max(layer["live"] for layer in layers)
    blocks = _draws_blocks(out)
    out.print(Text(lines[0], style="dim"))
    for layer, line in zip(layers, lines[1:], strict=True):
        drawn = bar(layer["live"], largest, room, blocks)
        at_peak = (layer["step"], layer["name"]) == (summit["step"], summit["op"])
        out.print(Text(f"{line} {drawn}", style="bold yellow" if at_peak else ""))
    out.print(Text(f"peak: {size(summit['bytes'])} live at {summit['op']}, step {summit['step'] + 1}"))
    out.print()


def show_unsupported(out: Console, record: Record) -> None:
    """The ops that cannot be compiled: one row per kind and reason, the most ops first."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for entry in record["unsupported"]:
        groups.setdefault((entry["kind"], entry["reason"]), []).append(entry)
    if not groups:
        return
    heading(out, f"{_counted(len(record['unsupported']), 'op')} cannot be compiled")
    rows = [["kind", "ops", "first", "reason"]]
    for (kind, reason), entries in sorted(groups.items(), key=lambda group: -len(group[1])):
        where = f"tensor '{entries[0]['tensor']}' " if entries[0]["tensor"] else ""
        rows.append([clean(kind, 30), f"{len(entries):,}", entries[0]["op"], clean(where + reason, 300)])
    width = out.width if out.is_terminal else WIDTH
    heads = align([row[:3] for row in rows], frozenset({1}))
    widest = max(map(len, heads))
    room = max(20, width - widest - 4)
    for head, row in zip(heads, rows, strict=True):
        for index, part in enumerate(textwrap.wrap(row[3], room)):
            out.print(Text(f"  {head if index == 0 else '':<{widest}}  {part}", style="dim" if head is heads[0] else ""))
    out.print()


def layer_rows(record: Record) -> tuple[list[list[str]], frozenset[int]]:
    """The layer table as cells, headed, and which columns are numbers."""
    columns: list[tuple[str, Callable[[Record], str]]] = [
        ("step", lambda layer: str(layer["step"] + 1)),
        ("layer", lambda layer: layer["name"]),
        ("output", lambda layer: clean(layer["output"], 24)),
        ("window", lambda layer: layer["window"]),
        *((head, lambda layer, key=key: f"{layer[key]:,}" if layer[key] else "-") for head, key in NUMBERS),
    ]
    measured = any(layer["instructions"] is not None for layer in record["layers"])
    left_out = "constants" if measured else "instructions"  # either of them fits into 100 columns beside the others
    kept = [column for column in columns if column[0] != left_out]
    rows = [[head for head, _ in kept], *([cell(layer) for _, cell in kept] for layer in record["layers"])]
    return rows, frozenset({0, *range(4, len(kept))})


def show_profile(out: Console, record: Record, before: Record | None = None) -> None:
    """Where the time goes: a row per layer with a bar for its share, then why kernels that could be faster are not."""
    layers = costs(record)
    key = "cycles" if record["cycles"] is not None else "instructions"
    lines = beside_bars(*profile_rows(record), out.width, ("per MAC", "MACs"))
    room = max(MIN_BAR, min(MAX_BAR, out.width - max(map(len, lines)) - 1))
    most, blocks = max((layer[key] or 0 for layer in layers), default=0), _draws_blocks(out)
    out.print(Text(lines[0], style="dim"))
    for layer, line in zip(layers, lines[1:], strict=True):
        spent = layer[key] or 0
        out.print(Text(f"{line} {bar(spent, most, room, blocks)}".rstrip(), style="bold yellow" if 0 < spent == most else ""))
    out.print()
    if before:
        heading(out, "changes")
        for line in align(change_rows(record, before), frozenset({1, 2, 3})):
            out.print(Text(f"  {line}"))
        out.print()
    if reasons := kernel_lines(record):
        heading(out, "kernels that are not the fastest that there are")
        show_lines(out, reasons)
        out.print()


def profile_rows(record: Record) -> tuple[list[list[str]], frozenset[int]]:
    """What each layer and each stage's loop took, as cells, headed, and which columns are numbers."""
    clock_hz = record["device"]["clock_hz"] if record["latency_ms"] is not None else None
    rows = [["step", "layer", "kernel", "MACs", "instructions", "per MAC", "cycles", "ms"]]
    for layer in costs(record):
        count, cycles, macs = layer["instructions"], layer["cycles"], layer["macs"]
        each = f"{count / macs:.2f}" if count and macs else "-"
        ms = f"{milliseconds(cycles, clock_hz):.2f}" if cycles is not None and clock_hz else "-"
        cells = [str(layer["step"] + 1), layer["name"], _kernel(layer), _count(layer["macs"] or None), _count(count)]
        rows.append([*cells, each, _count(cycles), ms])
    kept = [i for i, head in enumerate(rows[0]) if head not in ("cycles", "ms") or any(row[i] != "-" for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows], frozenset({0, *range(3, len(kept))})


def _kernel(layer: Record) -> str:
    """A kernel's name without what its layer's kind says."""
    name = (layer["kernel"] or "-").removeprefix("tw_")
    return name.removeprefix(f"{layer['kind']}_")


def kernel_lines(record: Record) -> list[str]:
    """Per reason the layers whose kernel could be faster."""
    found: dict[str, list[str]] = {}
    for layer in record["layers"]:
        if layer["why"] and ("faster" in layer["why"] or "cannot" in layer["why"]):
            found.setdefault(layer["why"], []).append(layer["name"])
    return [f"  {why}: {', '.join(names)}" for why, names in found.items()]


def change_rows(record: Record, before: Record) -> list[tuple[str, str, str, str]]:
    """What has changed since an earlier record: totals, then the layers of both whose cost differs."""

    def row(name: str, old: int | None, new: int | None) -> tuple[str, str, str, str]:
        share = f"{new / old - 1:+.1%}" if old and new is not None else ""
        return (name, _count(old), _count(new), share)

    rows = [("", "before", "now", "")]
    rows += [row(key, before[key], record[key]) for key in ("macs", "instructions", "cycles")]
    rows += [row(f"{part} {key}", before[part][key], record[part][key]) for part, key in TOTALS]
    key = "cycles" if record["cycles"] is not None and before["cycles"] is not None else "instructions"
    old, new = ({_title(entry): entry[key] for entry in costs(found)} for found in (before, record))
    names = dict.fromkeys([*old, *new])
    rows += [row(clean(name, 32), old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
    return rows


def _title(entry: Record) -> str:
    return entry["name"] if entry["kind"] else f"{entry['name']} of step {entry['step'] + 1}"


def can_be_compared(found: Any) -> bool:
    """Whether this, out of a file, has what `change_rows` reads."""
    try:
        counts = [*(found[key] for key in ("macs", "instructions", "cycles")), *(found[part][key] for part, key in TOTALS)]
        layers = [(_title(entry), entry["instructions"], entry["cycles"]) for entry in costs(found)]
    except (KeyError, TypeError):
        return False
    numbers = [*counts, *(count for _, *both in layers for count in both)]
    return all(isinstance(name, str) for name, *_ in layers) and all(n is None or type(n) is int for n in numbers)


def picture(plan: Plan, width: int = WIDTH) -> list[str]:
    """Return the arena over the steps, with the names that the C has, long ones wrapped below themselves."""
    lines, start = [], 0
    for line in memory_picture(plan, buffer_labels(plan), max(8, PICTURE_COLUMNS - WIDTH + width)):
        start = line.index("tensor") if line.endswith("  tensor") else start
        parts = textwrap.wrap(clean(line[start:], 400), max(16, width - start), break_on_hyphens=False) if start else []
        lines += [line[:start] + parts[0], *(" " * start + part for part in parts[1:])] if parts else [line]
    return lines


def twice_lines(plan: Plan) -> list[str]:
    """Which layers run twice, for how many of their channels, and why."""
    if not plan.channels_once:
        return []
    lines = [
        "  computed twice, for a mean and for what is then scaled by it, since less RAM is needed than to keep it between:"
    ]
    for name, kept in plan.channels_once.items():
        channels, op = plan.graph.tensors[name].shape[-1], plan.graph.ops[plan.graph.producer[name]]
        lines.append(
            f"    {op.name.removesuffix('_joined')}: {channels - kept} of {channels} channels, and the layers before it"
        )
    return lines


def show_plan(out: Console, plan: Plan, record: Record) -> None:
    """The arena over the steps, how good that is, and what each technique of the planner saves."""
    first, *lines = picture(plan, out.width)
    heading(out, first)
    for line in lines:
        out.print(Text(line))
    if plan.scratch:
        out.print(Text(f"  of these at most {plan.scratch:,} B are scratch of one layer"))
    for line in twice_lines(plan):
        out.print(Text(clean(line, 160)))
    out.print()
    show_lines(out, [bound_line(record), *foreseen_lines(record)])
    out.print()
    several = len(record["ram"]["memories"]) > 1
    heading(out, f"the arena{', if it lay in one memory,' if several else ''} with one technique more at a time")
    for line in align(ablation_rows(record["plan"]["ablation"]), frozenset({1, 2})):
        out.print(Text(f"  {line}"))
    out.print()


def show_front(out: Console, record: Record) -> None:
    """Less RAM for more work: a row per plan, with a bar for its arena."""
    points = record["points"]
    heading(out, f"{record['model']['name']}: the least RAM for the work{by_rows(record)}, with --optimize size")
    largest, blocks = points[0]["arena"], _draws_blocks(out)
    missing = list(dict.fromkeys(kind for point in points for kind in point["cycles_missing"] or ()))
    rows = [("MACs", "times", f"cycles, {'at least' if missing else 'about'}", "arena", "")]
    for point in points:
        times = "-" if point["mac_overhead"] is None else f"{point['mac_overhead']:.4f}"
        drawn = bar(point["arena"], largest, MAX_BAR, blocks)
        rows.append((f"{point['macs']:,}", times, _count(point["cycles_at_least"]), f"{point['arena']:,} B", drawn))
    if all(point["cycles_at_least"] is None for point in points):
        rows = [(*row[:2], *row[3:]) for row in rows]
    for line, point in zip(align(rows, frozenset({0, 1, 2, 3} - {len(rows[0]) - 1})), (None, *points), strict=True):
        fits = point is not None and point["fits"]
        out.print(Text(f"  {line}", style="bold" if point is None else "green" if fits else ""))
    if missing:
        out.print()
        show_lines(out, [f"cycles are estimated {without_text(missing)}"])
    if record["limit"] is not None:
        out.print()
        fitting = [point for point in points if point["fits"]]
        said = f"in {record['limit']:,} B of RAM"
        if fitting:
            line = f"fits {said} with --max-mac-overhead {fitting[0]['mac_overhead'] or 1:g} (arena alone)"
        else:
            line = f"does not fit {said}: the least is {points[-1]['arena']:,} B"
        show_lines(out, [line], "bold green" if fitting else "bold red")


def show_explanation(out: Console, plan: Plan, found: Explanation) -> None:
    """Why a tensor lies where it lies."""
    show_lines(out, [clean(line, 400) for line in explanation_lines(plan, found)], "bold")


def bound_line(record: Record) -> str:
    """How far the arena is from what is proved: of its buffers, not of other orders, stages and kernels."""
    gap, bound = record["plan"]["gap"], record["plan"]["lower_bound"]
    same = "these buffers in this order and these stages"
    same += ", so divided among the memories," if len(record["ram"]["memories"]) > 1 else ""
    if not gap:
        return f"proved: no other placement of {same} needs less"
    return f"gap: another placement of {same} could save at most {gap:,} B; none needs less than {bound:,} B"


def foreseen_lines(record: Record) -> list[str]:
    """How long a plan takes on its device, before anything was built."""
    plan, device = record["plan"], record["device"]
    if plan["cycles_missing"] is None:
        return []
    without = without_text(plan["cycles_missing"])
    if plan["cycles_at_least"] is None:
        return [f"time: not known {without}; 'profile' counts them"]
    about = "at least" if without else "about"
    latency_ms = plan["latency_ms_at_least"]
    time = "" if latency_ms is None else f", {duration(latency_ms)} at {clock(device)}"
    said = f"time: {about} {plan['cycles_at_least']:,} cycles{time}, {f'{without}; ' if without else ''}"
    return [f"{said}estimated from the layers' shapes for a {device['core']}; see 'profile'"]


def without_text(missing: Sequence[str]) -> str:
    """Say which kinds of layers an estimate leaves out; empty for none."""
    *others, last = missing or [""]
    names = f"{', '.join(others)} and {last}" if others else last
    return f"without {names}, whose kernels have no timings" if last else ""


def ablation_rows(ablation: dict[str, int]) -> list[tuple[str, str, str]]:
    """Technique, arena, and how much less that is than with none of them."""
    first = next(iter(ablation.values()))
    return [(name, f"{arena:,} B", f"-{1 - arena / first:.1%}" if arena < first else "") for name, arena in ablation.items()]


def by_rows(record: Record) -> str:
    """What of a front comes and goes by rows, to follow its title."""
    ends = [end for end, names in (("inputs", record["streamed_inputs"]), ("outputs", record["streamed_outputs"])) if names]
    return f", {' and '.join(ends)} by rows" if ends else ""


def _held(record: Record) -> str:
    """Which of the network's inputs and outputs lie in the arena, and which do not."""
    ram, outputs = record["ram"], [output["name"] for output in record["model"]["outputs"]]
    kept = [name for name in outputs if name not in ram["streamed_outputs"]]
    names = " and ".join(f"'{shortened(name, 40)}'" for name in ram["streamed_outputs"])
    held = [] if ram["streamed_inputs"] else ["inputs"]
    held += ["outputs" if len(kept) == len(outputs) else "other outputs"] if kept else []
    gone = ["inputs come by rows"] if ram["streamed_inputs"] else []
    gone += [f"{names if kept else 'outputs'} handed out by rows"] if names else []
    return "; ".join(filter(None, [", ".join(held), *gone]))


def show_memory(out: Console, record: Record) -> None:
    """RAM and Flash by part."""
    for line in hanging(memory_rows(record), frozenset({1}), out.width):
        out.print(Text(line))
    out.print()


def memory_rows(record: Record) -> list[tuple[str, str, str, str]]:
    """RAM and Flash by part, against their limits: part, bytes, limit, what."""
    ram, flash, limits = record["ram"], record["flash"], record["limits"]
    room = limits["memories"] or {}
    several = len(room) > 1
    arenas = " + ".join(
        f"{name} {count:,}" + (f" of {room.get(name, 0):,}" if several else "")
        for name, count in (ram["memories"] or {}).items()
    )
    return [
        ("RAM", _count(ram["total"]), f"limit {limits['ram']:,}" if limits["ram"] else "", ""),
        ("  arena", _count(ram["arena"]), "", f"activations, scratch, {_held(record)} ({arenas})" if arenas else ""),
        ("  static data", _count(ram["static"]), "", ""),
        (
            "  stack",
            _count(ram["stack"]),
            "",
            "measured: the deepest that one inference went" if ram["stack"] is not None else "",
        ),
        ("Flash", _count(flash["total"]), f"limit {limits['flash']:,}" if limits["flash"] else "", ""),
        ("  weights", _count(flash["weights"]), "", ""),
        ("  tables", _count(flash["tables"]), "", "requantisation and parameters" if flash["tables"] is not None else ""),
        ("  code", _count(flash["code"]), "", ""),
    ]


def show_proof(out: Console, record: Record) -> None:
    """What was run and compared."""
    verify = record["verify"]
    good = "yellow" if verify["without_litert"] else "green"
    show_lines(out, proof_lines(record), {True: good, False: "bold red", None: ""}[verify["ok"]])
    out.print()


def proof_lines(record: Record) -> list[str]:
    """What was proved, on what, with which compilers; and what was not checked."""
    verify, arena = record["verify"], record["ram"]["memories"]
    if verify["ok"] is None:
        return ["not verified"]
    verdict = "verified: every output byte is equal"
    if verify["without_litert"]:
        verdict = "verified against the numpy reference alone: every output byte is equal"
    verdict = "DIFFERS" if verify["first_difference"] else verdict
    lines = [f"{verdict}, {_counted(verify['samples'], 'input')}", f"  reference: {verify['reference']}"]
    if verify["without_litert"]:
        lines.append(f"  not compared with LiteRT: {clean(verify['without_litert'], 400)}")
    if verify["first_difference"]:
        lines.append(f"  {clean(verify['first_difference'], 400)}")
    for place, compiler in verify["compilers"].items():
        used = verify["touched"].get(place)
        right = (
            "arena touched up to its last byte and no further"
            if used == arena
            else f"arena touched {_bytes_of(used)}, claimed {_bytes_of(arena)}: WRONG"
        )
        lines.append(f"  {'this machine' if place == 'host' else f'emulated {place}'}: {right}; {compiler}")
    if set(verify["compilers"]) == {"host"}:
        lines.append("  not run on an emulated core")
    return lines


def verdict_lines(record: Record) -> list[str]:
    """Fits or not, by how many bytes, where the peak is, and which boards would do."""
    ram, flash, limits, over = record["ram"], record["flash"], record["limits"], record["excess"]
    device = record["device"]["name"] if record["device"] else None
    if limits["ram"] is limits["flash"] is None:
        lines = ["no limit given: pass --device, --ram or --flash for a verdict"]
    else:
        said = {True: "fits", False: "does not fit", None: "may not fit"}[record["fits"]]
        lines = [f"{said} {device}" if device else said]
    need_ram = ram["total"] if ram["total"] is not None else ram["arena"]
    for name, need, key in (("RAM", need_ram, "ram"), ("Flash", flash["total"], "flash")):
        if need is None:
            lines += [flash_estimate_line(record)] if key == "flash" and flash["estimate"] else []
            continue
        if limits[key] is None:
            lines.append(f"  {name}: {need:,} B, no limit known" + (f" (pass --{key})" if device else ""))
            continue
        alone = " (arena alone; deploy measures stack and static data)" if key == "ram" and ram["total"] is None else ""
        state = f"{over[key]:,} B too many" if over[key] else f"{limits[key] - need:,} B left"
        lines.append(f"  {name}: {need:,} of {limits[key]:,} B, {state}{alone}")
        if key == "ram" and len(limits["memories"] or {}) > 1:
            used = (f"{memory} {ram['memories'].get(memory, 0):,} of {size:,} B" for memory, size in limits["memories"].items())
            lines.append(f"    {', '.join(used)}")
    if record["peak"]:
        lines.append(f"  peak: {peak_text(record['peak'])}")
    if record["boards"] is not None:
        lines.append(f"  listed boards with room for it: {', '.join(record['boards']) or 'none'}")
    return lines


def flash_estimate_line(record: Record) -> str:
    """Return what a plan needs of Flash: its constants, exact, and an estimate with its range of what a build adds."""
    flash, limit, over = record["flash"], record["limits"]["flash"], record["excess"]["flash"]
    constants, (least, most) = flash["constants"], flash["estimate"]
    if over:
        return f"  Flash: constants alone {constants:,} of {limit:,} B, {over:,} B too many"
    against = (
        f" of {limit:,} B" if limit is not None else " B, no limit known" + (" (pass --flash)" if record["device"] else "")
    )
    if limit is None:
        state = ""
    elif over == 0:
        state = f", at least {limit - most:,} B left"
    else:
        state = f", which is {'probably' if least > limit else 'perhaps'} too many"
    note = f"(constants {constants:,}; code estimated, deploy measures it)"
    return f"  Flash: about {least:,} to {most:,}{against}{state} {note}"


def peak_text(peak: Record) -> str:
    """The step that needs most, and in a plan what lies in the arena then."""
    found = f"{peak['bytes']:,} B live at {peak['op']}, step {peak['step'] + 1}"
    if not peak["buffers"]:
        return found
    parts = ", ".join(f"{clean(' '.join(b['label'].split()), 40)} {b['bytes']:,}" for b in peak["buffers"])
    shared = sum(b["bytes"] for b in peak["buffers"]) - peak["bytes"]
    return f"{found}: {parts}" + (f"; {shared:,} B of them shared" if shared else "")


def show_verdict(out: Console, record: Record) -> None:
    """The last word."""
    show_lines(out, verdict_lines(record), {True: "bold green", False: "bold red", None: "bold"}[record["fits"]])


def show_advice(out: Console, record: Record) -> None:
    """What would fit instead: a line per proposal, then its command, whole, to be copied."""
    if not record["advice"]:
        return
    out.print()
    heading(out, advice_title(record["advice"]))
    for proposal in record["advice"]:
        out.print(Text(f"  {proposal_line(proposal)}", style="green" if proposal["fits"] else ""))
        out.print(Text(f"    {clean(proposal['command'], 1000)}"))


def advice_title(advice: Sequence[Record]) -> str:
    """Return what the proposals have in common."""
    if any(proposal["fits"] is not False for proposal in advice):
        return "what to change, the least first; each was planned"
    if any(proposal["fits_ram"] for proposal in advice):
        return "nothing that was tried fits the Flash; the RAM would be enough with"
    return f"nothing that was tried fits: the least is {advice[0]['ram']:,} B of RAM; closest"


def proposal_line(proposal: Record) -> str:
    """Return what a proposal changes, what it needs and whether that fits."""
    said = {True: "fits", None: "may fit, deploy measures its Flash", False: "does not fit"}[proposal["fits"]]
    if proposal["fits"] is False and proposal["fits_ram"]:
        said = f"fits the RAM, but not the Flash with {proposal['flash']:,} B of constants"
    return f"{' '.join(proposal['changes'])}: arena {proposal['ram']:,} B, {said}"


def show_misfit(out: Console, record: Record) -> None:
    """That a network cannot be deployed, before anything is built."""
    show_target(out, record)
    show_verdict(out, record)
    show_advice(out, record)
    out.print()
    out.print(Text("nothing was built or written: no build can make this fit"))


def show_instructions(out: Console, record: Record) -> None:
    """The measured count, and per MAC."""
    show_lines(out, [instructions_line(record), *cycle_lines(record)])


def cycle_lines(record: Record) -> list[str]:
    """What one inference takes on the device, estimated, and what the estimate rests on."""
    if record["cycles"] is None and record["plain_c"]:
        return [f"cycles: not estimated, for {_counted(len(record['plain_c']), 'kernel')} ran as plain C"]
    if record["cycles"] is None:
        return (
            [] if record["core"] is None else [f"cycles: not estimated, for nobody has published timings of {record['core']}"]
        )
    (fewest, most), waits = record["cycles_range"], record["flash_waits"]
    line = f"cycles: about {record['cycles']:,}" + (f" ({fewest:,} to {most:,})" if fewest < most else "")
    if record["latency_ms"] is not None:
        low, high = (rounded(milliseconds(count, record["device"]["clock_hz"])) for count in (fewest, most))
        spread = f" ({low} to {high})" if low != high else ""
        line += f", {duration(record['latency_ms'])}{spread} at {clock(record['device'])}"
    if record["energy_mj"] is not None:
        line += f", {rounded(record['energy_mj'])} mJ"
    flash = "Flash that answers at once, for its wait states are not known"
    if waits is not None:
        flash = f"{waits} cycles for each line that its caches miss in Flash"
    return [f"{line}: estimated from the published timings of a {record['core']}, with {flash}"]


def instructions_line(record: Record) -> str:
    count, macs = record["instructions"], record["macs"]
    if count is None:
        return "instructions: not measured"
    each = f", {count / macs:.2f} per MAC executed" if macs else ""
    line = f"instructions: {count:,} for one inference, counted on the emulated {record['core']}{each}"
    device = record["device"]
    if device and device["core"] != record["core"]:
        line += f"; {device['name']} has a {device['core']}, which is not emulated: its counts and code size differ"
    if record["plain_c"]:
        line += f"; {', '.join(record['plain_c'])} ran as plain C, without the instructions of that core"
    return line


def show_devices(out: Console, devices: Sequence[Device]) -> None:
    """One line per board."""
    rows = [("device", "core", "MHz", "RAM", "Flash", "also known as")]
    rows += [
        (
            d.name,
            d.core,
            f"{d.clock_hz / 1e6:g}",
            f"{d.ram // 1024:,} KiB",
            "-" if d.flash is None else f"{d.flash // 1024:,} KiB" + (" *" if d.has_external_flash else "  "),
            _aliases(d),
        )
        for d in devices
    ]
    lines = align(rows, frozenset({2, 3, 4}))
    out.print(Text(lines[0], style="dim"))
    for line in lines[1:]:
        out.print(Text(line if len(line) <= out.width else f"{line[: out.width - 3]}..."))
    show_lines(out, ["RAM: that one arena may use, the largest run of adjoining banks"])
    if any(device.has_external_flash for device in devices):
        out.print(Text("* beside the chip, of the size that its boards usually have"))


def show_device(out: Console, device: Device) -> None:
    """One board with its memories and sources."""
    speed = f", {device.clock_hz / 1e6:g} MHz" if device.clock_hz else ""
    core = "" if device.name == device.core else f": {device.core}"
    heading(out, f"{device.name}{core} ({device.isa}){speed}")
    memories = sorted(device.memories, key=lambda m: m.address)
    rows = [(m.name, m.kind, f"0x{m.address:08x}", f"{m.bytes:,} B", "beside the chip" if m.external else "") for m in memories]
    power = "" if device.run_ma is None else f"takes {device.run_ma:g} mA at {device.volts:g} V while it computes"
    flash = "" if device.flash is None else f"; Flash {size(device.flash)}"
    ram = "" if device.ram is None else f"RAM for one arena {size(device.ram)}, the largest run of adjoining SRAM banks{flash}"
    lines = [
        ram,
        *(f"  {line}" for line in (align(rows, frozenset({3})) if rows else [])),
        power,
        device.note,
        f"in the emulator a {device.nearest} stands for its core" if device.nearest else "",
        f"also known as: {', '.join(device.aliases)}" if device.aliases else "",
        *(f"source: {source}" for source in device.sources),
    ]
    show_lines(out, [line for line in lines if line])


def show_reordering(out: Console, record: Record) -> None:
    """The working set of each step in the best order, a bar of its bytes, and what the order saves."""
    before, after = record["orders"]["file"], record["orders"]["best"]
    width = out.width
    rows = [["step", "layer", "bytes"]]
    rows += [[str(number + 1), clean(step["op"], 32), f"{step['bytes']:,}"] for number, step in enumerate(after["steps"])]
    lines = align(rows, frozenset({0, 2}))
    room = max(MIN_BAR, min(MAX_BAR, (width - len(lines[-1])) // 3))
    blocks = _draws_blocks(out)
    out.print(Text(f"{lines[0]}  {'':{room}}  alive: outputs of", style="dim"))
    for number, (line, step) in enumerate(zip(lines[1:], after["steps"], strict=True)):
        drawn = bar(step["bytes"], before["peak"], room, blocks)
        names = ", ".join(f"{record['producers'].get(name, 'input')} {count:,}" for name, count in step["tensors"].items())
        names = clean(names, max(16, width - len(line) - room - 4))
        out.print(Text(f"{line}  {drawn:<{room}}  {names}", style="bold yellow" if number == after["step"] else ""))
    proof = "no order needs less" if record["optimal"] else f"no order needs less than {size(record['lower_bound'])}"
    show_lines(
        out,
        [
            f"file order: {size(before['peak'])} at {before['op']}, step {(before['step'] or 0) + 1}",
            f"best order: {size(after['peak'])} at {after['op']}, step {(after['step'] or 0) + 1}; {proof}",
            f"saved: {before['peak'] - after['peak']:,} B ({record['count']})",
        ],
    )


def show_comparison(out: Console, record: Record) -> None:
    """One line per board with what is left of its memories, then what would have to shrink where it does not fit."""
    boards = record["compare"]
    heading(out, f"{record['model']['name']} on {_counted(len(boards), 'board')}: fits {len(record['boards'])}")
    lines = fitted(comparison_rows(record), frozenset({2, 3, 4, 5, 6, 7}), out.width, ("MHz", "RAM", "Flash", "core"))
    out.print(Text(lines[0], style="dim"))
    for board, line in zip(boards, lines[1:], strict=True):
        out.print(Text(line, style="" if board["fits"] else "red"))
    out.print()
    show_lines(out, comparison_lines(record))


def comparison_rows(record: Record) -> list[tuple[str, ...]]:
    """A headed row per board: how long an inference takes; needed and left in bytes, left below 0 where it does not fit."""
    rows: list[tuple[str, ...]] = [("board", "core", "MHz", "ms", "RAM", "RAM left", "Flash", "Flash left", "")]
    for board in record["compare"]:
        ram, flash = board["ram"], board["flash"]
        over = [name for name, part in (("RAM", ram), ("Flash", flash)) if part["left"] is not None and part["left"] < 0]
        rows.append(
            (
                board["name"],
                board["core"] + ("" if board["core"] == board["measured_on"] else " *"),
                f"{board['clock_hz'] / 1e6:g}",
                "-" if board["latency_ms"] is None else rounded(board["latency_ms"]),
                *(_count(ram[key]) for key in ("total", "left")),
                _count(flash["total"]),
                _count(flash["left"]),
                f"too little {' and '.join(over)}" if over else "fits",
            )
        )
    return rows


def comparison_lines(record: Record) -> list[str]:
    """Where the RAM goes, whose figures are another core's, and how often the network was run."""
    cores = {board["core"]: board["instructions"] for board in record["compare"] if board["core"] == board["measured_on"]}
    lines = [f"instructions on {', '.join(f'{core} {count:,}' for core, count in sorted(cores.items()))}"]
    if any(board["latency_ms"] is not None for board in record["compare"]):
        lines.append("ms: estimated from published timings, with Flash that answers at once; 'profile' counts its wait states")
    if record["peak"]:
        lines.append(f"peak: {peak_text(record['peak'])}")
    played = [board for board in record["compare"] if board["core"] != board["measured_on"]]
    if played:
        pairs = dict.fromkeys(f"{board['core']} by {board['measured_on']}" for board in played)
        lines.append(f"* not emulated; stack and code were measured on the nearest core: {', '.join(pairs)}")
    return lines


def show_target(out: Console, record: Record) -> None:
    """Which network was compiled for which board."""
    device = record["device"]
    target = f" for {target_text(device)}" if device else ""
    heading(out, f"{record['model']['name']}{target}")
    out.print()


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _aliases(device: Device) -> str:
    shown = ", ".join(device.aliases[:2])
    return shown + (", ..." if len(device.aliases) > 2 else "")


def _bytes_of(memories: Record | None) -> str:
    return ", ".join(f"{name} {count:,} B" for name, count in (memories or {}).items()) or "nothing"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _again(record: Record) -> str:
    return f", {record['mac_overhead']:.3f} times the network's" if (record["mac_overhead"] or 1) > 1 else ""


def _original(record: Record) -> str:
    return f" ({record['macs_original']:,} in the file, padding counted)" if record["macs_original"] != record["macs"] else ""


def _scale(tensor: Record) -> str:
    return f"scale {tensor['scale']:.6g}, zero point {tensor['zero_point']}" if tensor["scale"] is not None else ""

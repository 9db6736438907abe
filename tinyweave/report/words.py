"""Put a record into words: sentences, and rows of cells, the header first, that terminal and Markdown report share."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Collection, Sequence

from ..codegen.model import buffer_labels
from ..ir import shortened
from ..planning import Plan
from ..planning.picture import memory_picture
from ..simulate.instruction_timing import milliseconds
from .columns import WIDTH, bytes_of, clean, count_text, counted, duration, rounded
from .kernel_shares import copied_bytes, kernel_text
from .record import Record, costs

MOST_BOARDS = 3  # named boards
PICTURE_COLUMNS = 42  # columns of the drawing if WIDTH also holds offsets of seven digits and a name
LIMITING = {"--device", "--flash", "--latency-ms"}  # options that change the limits rather than the plan or the network
OPTION_NOTES = {  # option that the advice may propose -> what it asks of the firmware, or costs
    "--stream-inputs": "your firmware delivers the input row by row, from a callback",
    "--stream-outputs": "your firmware takes the output row by row, in a callback",
    "--max-mac-overhead": "some layers compute rows twice, which takes longer; the output stays the same",
    "--io": "your firmware writes and reads int8",
}
NUMBERS = (  # header of a column -> key of a layer's record
    ("MACs", "macs"),
    ("instructions", "instructions"),
    ("constants", "constants"),
    ("in", "bytes_in"),
    ("out", "bytes_out"),
    ("live", "live"),
)


def clock(device: Record) -> str:
    """Return the clock of a device, given as a record, as text in MHz."""
    return f"{device['clock_hz'] / 1e6:g} MHz"


def target_text(device: Record) -> str:
    """Return the name of a device, with its core and clock in brackets if they are known and the core is not the name."""
    facts = ["" if device["name"] == device["core"] else device["core"], clock(device) if device["clock_hz"] else ""]
    said = ", ".join(filter(None, facts))
    return f"{device['name']} ({said})" if said else str(device["name"])


def layer_rows(record: Record) -> tuple[list[list[str]], frozenset[int]]:
    """Return the layer table, the header first, and the indices of the columns that hold numbers."""
    columns: list[tuple[str, Callable[[Record], str]]] = [
        ("step", lambda layer: str(layer["step"] + 1)),
        ("layer", lambda layer: layer["name"]),
        ("output", lambda layer: clean(layer["output"], 24)),
        ("window", lambda layer: layer["window"]),
        ("kernel", kernel_text),
        *((head, lambda layer, key=key: f"{layer[key]:,}" if layer[key] else "-") for head, key in NUMBERS),
    ]
    measured = any(layer["instructions"] is not None for layer in record["layers"])
    left_out = {"constants" if measured else "instructions"}  # only one of the two fits into 100 columns
    left_out |= set() if any(layer["kernel"] for layer in record["layers"]) else {"kernel"}
    shown = [column for column in columns if column[0] not in left_out]
    rows = [[head for head, _ in shown], *([cell(layer) for _, cell in shown] for layer in record["layers"])]
    numbers = {"step", *(head for head, _ in NUMBERS)}
    return rows, frozenset(place for place, (head, _) in enumerate(shown) if head in numbers)


def profile_rows(record: Record) -> tuple[list[list[str]], frozenset[int]]:
    """Return the table of `profile`, the header first, and the indices of the columns that hold numbers."""
    clock_hz = record["device"]["clock_hz"] if record["latency_ms"] is not None else None
    rows = [["step", "layer", "kernel", "MACs", "instructions", "per MAC", "cycles", "ms"]]
    for layer in costs(record):
        count, cycles, macs = layer["instructions"], layer["cycles"], layer["macs"]
        rows.append(
            [
                str(layer["step"] + 1),
                layer["name"],
                kernel_text(layer),
                count_text(macs or None),
                count_text(count),
                f"{count / macs:.2f}" if count and macs else "-",
                count_text(cycles),
                f"{milliseconds(cycles, clock_hz):.2f}" if cycles is not None and clock_hz else "-",
            ]
        )
    shown = [i for i, head in enumerate(rows[0]) if head not in ("cycles", "ms") or any(row[i] != "-" for row in rows[1:])]
    return [[row[i] for i in shown] for row in rows], frozenset({0, *range(3, len(shown))})


def picture(plan: Plan, width: int = WIDTH, only: Collection[str] | None = None) -> list[str]:
    """Return the drawing of a plan as lines, one per buffer, or per buffer in `only`."""
    lines, start = [], 0
    for line in memory_picture(plan, buffer_labels(plan), max(8, PICTURE_COLUMNS - WIDTH + width), only):
        start = line.index("tensor") if line.endswith("  tensor") else start
        parts = textwrap.wrap(clean(line[start:], 400), max(16, width - start), break_on_hyphens=False) if start else []
        lines += [line[:start] + parts[0], *(" " * start + part for part in parts[1:])] if parts else [line]
    return lines


def twice_lines(plan: Plan) -> list[str]:
    """Return a heading, then a line per rematerialised tensor with its channels computed twice; [] if there is none."""
    if not plan.channels_once:
        return []
    makers = {name: plan.graph.ops[plan.graph.producer[name]].name.removesuffix("_joined") for name in plan.channels_once}
    channels = {name: plan.graph.tensors[name].shape[-1] for name in plan.channels_once}
    return [
        "  computed twice, for a mean and for what is then scaled by it, since less RAM is needed than to keep it between:",
        *(
            f"    {makers[name]}: {channels[name] - once} of {channels[name]} channels, and the layers before it"
            for name, once in plan.channels_once.items()
        ),
    ]


def bound_line(record: Record) -> str:
    """Return a sentence on the placement: proved to need the least RAM, or the most bytes that another could save."""
    gap, bound = record["plan"]["gap"], record["plan"]["lower_bound"]
    divided = " and divided among the memories" if len(record["ram"]["memories"]) > 1 else ""
    same = f"with the layers in this order and so fused{divided}"
    if not gap:
        return f"proved: {same}, no other placement of the buffers needs less RAM"
    return f"gap: {same}, another placement of the buffers could save at most {gap:,} B; none needs less than {bound:,} B"


def foreseen_lines(record: Record) -> list[str]:
    """Return a sentence on the estimated cycles and time of an unbuilt plan, or an empty list without a cycle model."""
    plan, device = record["plan"], record["device"]
    if plan["cycles_missing"] is None:
        return []
    without = without_text(plan["cycles_missing"])
    if plan["cycles_at_least"] is None:
        return [f"time: not known {without}; 'profile' counts them"]
    about = "at least" if without else "about"
    latency_ms = plan["latency_ms_at_least"]
    time = "" if latency_ms is None else f", {duration(latency_ms)} at {clock(device)}"
    if reading := plan.get("flash_reads"):
        waits = [milliseconds(count - reading["cycles"], device["clock_hz"]) for count in reading["cycles_range"]]
        low, high = (rounded(latency_ms + wait) for wait in waits)
        time = f"{time.replace(' at ', f' ({low} to {high}) at ')}, {_reading_text(reading, device['clock_hz'])}"
    slow = "with the smallest kernels, for want of Flash; " if record["excess"]["flash"] else ""
    said = f"time: {about} {plan['cycles_at_least']:,} cycles{time}, {slow}{f'{without}; ' if without else ''}"
    return [f"{said}estimated from the layers' shapes for a {device['core']}; see 'profile'"]


def without_text(missing: Sequence[str]) -> str:
    """Return a clause that names the kinds of layers that an estimate leaves out, or "" if it leaves out none."""
    *others, last = missing or [""]
    names = f"{', '.join(others)} and {last}" if others else last
    return f"without {names}, whose kernels have no timings" if last else ""


def ablation_rows(ablation: dict[str, int]) -> list[tuple[str, str, str]]:
    """Return a row per technique of the planner: its name, the arena with it and all before it, and the saving; no header."""
    first = next(iter(ablation.values()))
    return [(name, f"{arena:,} B", f"-{1 - arena / first:.1%}" if arena < first else "") for name, arena in ablation.items()]


def _held(record: Record) -> str:
    """Return a clause that says which inputs and outputs are in the arena, and which are streamed row by row."""
    ram, outputs = record["ram"], [output["name"] for output in record["model"]["outputs"]]
    in_arena = [name for name in outputs if name not in ram["streamed_outputs"]]
    names = " and ".join(f"'{shortened(name, 40)}'" for name in ram["streamed_outputs"])
    held = [f"{copied:,} B of constants"] if (copied := copied_bytes(record)) else []
    held += ["constants of the current step"] * bool(record.get("plan", {}).get("file_reads"))
    held += [] if ram["streamed_inputs"] else ["inputs"]
    held += ["outputs" if len(in_arena) == len(outputs) else "other outputs"] if in_arena else []
    gone = ["inputs come by rows"] if ram["streamed_inputs"] else []
    gone += [f"{names if in_arena else 'outputs'} handed out by rows"] if names else []
    return "; ".join(filter(None, [", ".join(held), *gone]))


def memory_rows(record: Record) -> list[tuple[str, str, str, str]]:
    """Return RAM and Flash by part, as rows of (part, bytes, limit, description) without a header."""
    ram, flash, limits = record["ram"], record["flash"], record["limits"]
    room = limits["memories"] or {}
    arenas = " + ".join(
        f"{name} {count:,}" + (f" of {room.get(name, 0):,}" if len(room) > 1 else "")
        for name, count in (ram["memories"] or {}).items()
    )
    where = f" ({arenas})" if len({*room, *(ram["memories"] or {})}) > 1 else ""
    source, its_code = (
        [("  row source", count_text(part["row_source"]), "", about)] if part["row_source"] else []
        for part, about in ((ram, "brings the input"), (flash, "its code and tables"))
    )
    left = {
        key: "" if over is None else f"{over:,} B too many" if over else f"{limits[key] - record[key]['total']:,} B left"
        for key, over in record["excess"].items()
        if key != "latency_ms" and record[key]["total"] is not None
    }
    return [
        ("RAM", count_text(ram["total"]), f"limit {limits['ram']:,}" if limits["ram"] else "", left.get("ram", "")),
        ("  arena", count_text(ram["arena"]), "", f"activations, scratch, {_held(record)}{where}" if arenas else ""),
        ("  static data", count_text(ram["static"]), "", ""),
        ("  stack", count_text(ram["stack"]), "", "measured maximum of one inference" if ram["stack"] is not None else ""),
        *source,
        ("Flash", count_text(flash["total"]), f"limit {limits['flash']:,}" if limits["flash"] else "", left.get("flash", "")),
        ("  weights", count_text(flash["weights"]), "", ""),
        ("  tables", count_text(flash["tables"]), "", "requantisation and parameters" if flash["tables"] is not None else ""),
        (
            "  code",
            count_text(flash["code"]),
            "",
            f"built by {compiler_name(record['compiler'])}" if record["compiler"] else "",
        ),
        *its_code,
    ]


def compiler_name(compiler: str) -> str:
    """Return name and version of a compiler, such as "arm-none-eabi-gcc 12.2.1", without its package and its flags."""
    return re.sub(r" \(.*?\)| 20\d{6}$", "", compiler.partition(": -")[0])


def proof_lines(record: Record, *, compilers: bool = True) -> list[str]:
    """Return lines on the comparison with the reference: result, reference, machines and, with `compilers`, their compilers."""
    verify, arena = record["verify"], record["ram"]["memories"]
    if verify["ok"] is None:
        return ["not verified"]
    alone = " against the numpy reference alone" if verify["without_litert"] else ""
    verdict = "DIFFERS" if verify["first_difference"] else f"verified{alone}: every output byte equals the reference"
    lines = [f"{verdict}, {counted(verify['samples'], 'input')}", f"  reference: {verify['reference']}"]
    for title, said in (("not compared with LiteRT: ", verify["without_litert"]), ("", verify["first_difference"])):
        lines += [f"  {title}{clean(said, 400)}"] if said else []
    places: dict[str, list[str]] = {}  # what is said of a place -> the places of which it is said
    for place, compiler in verify["compilers"].items():
        used, by = verify["touched"].get(place), f"; {compiler}" if compilers else ""
        right = "arena used to its last byte, not beyond"
        if used != arena:
            right = f"arena touched {bytes_of(used)}, claimed {bytes_of(arena)}: WRONG"
        places.setdefault(f"{right}{by}", []).append("this machine" if place == "host" else f"emulated {place}")
    lines += [f"  {', '.join(names)}: {said}" for said, names in places.items()]
    if set(verify["compilers"]) == {"host"}:
        lines.append("  not run on an emulated core")
    return lines


def fits_line(record: Record) -> str:
    """Return a line that says whether the network fits the device and the limits, and with which objective."""
    device, limits = record["device"]["name"] if record["device"] else "", record["limits"]
    if limits["ram"] is limits["flash"] is limits["latency_ms"] is None:
        return "no limit given: pass --device, --ram or --flash for a verdict"
    verdict = f"{ ({True: 'fits', False: 'does not fit', None: 'may not fit'}[record['fits']]) } {device}".rstrip()
    objective = record["plan"].get("objective")  # records of earlier versions have none
    return f"{verdict} with --optimize {objective}" if objective and record["fits"] is not False else verdict


def _memory_limit_lines(record: Record) -> list[str]:
    """Return a line with the used and the available bytes of each memory for arenas, if there are several."""
    room, used = record["limits"]["memories"] or {}, record["ram"]["memories"]
    over = {memory: used.get(memory, 0) - size for memory, size in room.items()}
    each = (
        f"{memory} {used.get(memory, 0):,} of {size:,} B" + (f", {over[memory]:,} B too many" if over[memory] > 0 else "")
        for memory, size in room.items()
    )
    return [f"    {'; '.join(each)}"] if len(room) > 1 else []


def time_limit_lines(record: Record) -> list[str]:
    """Return a line with the time of an inference and its limit, or an empty list if there is no time limit."""
    return [] if record["limits"]["latency_ms"] is None else [_latency_line(record)]


def board_lines(record: Record) -> list[str]:
    """Return a line that names the known boards with enough memory, at most MOST_BOARDS; [] if none were searched."""
    boards = record["boards"]
    if not boards:
        return [] if boards is None else ["it fits none of the listed boards"]
    shown, more = ", ".join(boards[:MOST_BOARDS]), len(boards) - MOST_BOARDS
    return [f"boards that it fits: {shown}" + (f" and {more:,} with more RAM" if more > 0 else "")]


def next_steps(record: Record, folder: str, model: str) -> list[tuple[str, str]]:
    """Return what a user can do next with the C in `folder`, as pairs (sentence, command or "")."""
    options = f" --device {record['device']['name']}" if record["device"] else ""
    if record["fits"] is False:
        return [(f"the C is in {folder}, but it exceeds a limit; every layer, buffer and kernel:", f"{folder}/report.html")]
    return [
        (
            f"next: add the C of {folder} to your firmware (see {record['model']['name']}.h), or export it:",
            f"tinyweave export {model}{options} --format cmake",
        ),
        (f"report of every layer, buffer and kernel: {folder}/report.html", ""),
    ]


def verdict_lines(record: Record) -> list[str]:
    """Return the verdict, then lines on RAM, Flash and time against their limits, the peak, and boards with enough memory."""
    ram, flash, limits, over = record["ram"], record["flash"], record["limits"], record["excess"]
    device = record["device"]["name"] if record["device"] else ""
    lines = [fits_line(record)]
    need_ram = ram["total"] if ram["total"] is not None else ram["arena"]
    for name, need, key in (("RAM", need_ram, "ram"), ("Flash", flash["total"], "flash")):
        if need is None:
            lines += [flash_estimate_line(record)] if key == "flash" and flash["estimate"] else []
            continue
        if limits[key] is None:
            lines.append(f"  {name}: {need:,} B, no limit known" + (f" (pass --{key})" if device else ""))
            continue
        note = " (arena alone; deploy measures stack and static data)" if key == "ram" and ram["total"] is None else ""
        by_memory = _memory_limit_lines(record) if key == "ram" else []
        state = f", {over[key]:,} B too many" if over[key] else f", {limits[key] - need:,} B left"
        if any("too many" in line for line in by_memory):
            state = ""  # the sum of these excesses is not the difference to the limit
        lines += [f"  {name}: {need:,} of {limits[key]:,} B{state}{note}", *by_memory]
    return [
        *lines,
        *time_limit_lines(record),
        *([f"  peak: {peak_text(record['peak'])}"] if record["peak"] else []),
        *(f"  {line}" for line in board_lines(record)),
    ]


def _latency_line(record: Record) -> str:
    """Return a sentence on the latency against its limit: as measured on the emulated core, else as estimated from shapes."""
    limits, over, plan = record["limits"], record["excess"]["latency_ms"], record["plan"]
    limit = limits["latency_ms"]
    taken, note = record["latency_ms"], "estimated from the instructions that ran"
    if taken is None:
        taken, note = plan["latency_ms_at_least"], f"estimated from the layers' shapes for a {record['device']['core']}"
    if taken is None:
        return f"  time: not known of {limit:g} ms, {without_text(plan['cycles_missing'])}"
    line = f"  time: {'at least' if over is None else 'about'} {duration(taken)} of {limit:g} ms"
    if over and record["latency_ms"] is None and not record["excess"]["ram"]:
        note += f"; the fastest plan {'' if limits['ram'] is None else 'in so much RAM '}with these options"
    reads = record.get("file_reads") or plan.get("file_reads")
    least, most = (reads["ms"],) * 2 if reads and reads["ms"] is not None else reads["ms_range"] if reads else (0, 0)
    state = f", {duration(over)} too long" if over else f", {duration(limit - taken - most)} left" if over == 0 else ""
    if reads:
        line += f", reads of the file {' to '.join(dict.fromkeys(map(rounded, (least, most))))} ms more"
    if reads and over != 0 and taken < limit:
        rate = reads["bytes"] / (limit - taken) / 1e3
        state += f"; within the limit if the callback reads at least {math.ceil(rate * 10) / 10:,} MB per second"
    return f"{line}{state} ({note})"


def flash_estimate_line(record: Record) -> str:
    """Return a sentence on the Flash of a plan that is not built: its exact constants, and the estimated range of the total."""
    flash, limit, over = record["flash"], record["limits"]["flash"], record["excess"]["flash"]
    constants, (lower_bound, upper_bound) = flash["constants"], flash["estimate"]
    if over:
        return f"  Flash: constants alone {constants:,} of {limit:,} B, {over:,} B too many"
    against = (
        f" of {limit:,} B" if limit is not None else " B, no limit known" + (" (pass --flash)" if record["device"] else "")
    )
    state = ""
    if limit is not None:
        many = f"which is {'probably' if lower_bound > limit else 'perhaps'} too many; --optimize flash needs the least"
        state = f", at least {limit - upper_bound:,} B left" if over == 0 else f", {many}"
    note = f"(constants {constants:,}; code estimated, deploy measures it)"
    return f"  Flash: about {lower_bound:,} to {upper_bound:,}{against}{state} {note}"


def peak_text(peak: Record) -> str:
    """Return the peak as text: its bytes, op and step, and the buffers that are live then if there is a plan."""
    line = f"{peak['bytes']:,} B live at {peak['op']}, step {peak['step'] + 1}"
    if not peak["buffers"]:
        return line
    parts = ", ".join(f"{clean(' '.join(b['label'].split()), 40)} {b['bytes']:,}" for b in peak["buffers"])
    shared = sum(b["bytes"] for b in peak["buffers"]) - peak["bytes"]
    return f"{line}: {parts}" + (f"; {shared:,} B of them shared" if shared else "")


def advice_title(record: Record) -> str:
    """Return the heading of the advice, or a sentence that nothing helps."""
    closest = [proposal for proposal in record["advice"] if proposal["fits"] is False]
    shown, least = advice_lines(record), record.get("least")
    if shown and not record["remedies"]:
        return "options with which it fits, the fewest changes first; each was planned"
    others = "; other ways to make it fit" if shown else ""
    if least:
        over = {key: least[key] - record["limits"][key] for key in ("ram", "flash")}
        more = {key: f", {count:,} B too many" if count > 0 else ", which is enough" for key, count in over.items()}
        reached = (
            f"the least arena is {least['ram']:,} B{more['ram']}; the least constants are {least['flash']:,} B{more['flash']}"
        )
        return f"nothing that was tried fits: {reached}{others}"
    if closest:
        least = min(closest, key=lambda proposal: proposal["ram"])
        over = least["ram"] - record["limits"]["ram"]
        need = f"{least['ram']:,} B of RAM" + (f", {over:,} B too many" if over > 0 else "")
        return f"nothing that was tried fits: the least is {need}, with {' '.join(least['changes'])}{others}"
    if record["excess"]["flash"] and not record["excess"]["ram"]:
        return f"no option saves {record['excess']['flash']:,} B of constants{others}"
    return f"no other options fit{others}"


def advice_lines(record: Record) -> list[tuple[str, str | None]]:
    """Return the advice as (text, command or None): what fits within the limits, changes of the network, other limits."""
    fitting = [each for each in record["advice"] or () if each["fits"] is not False]
    keeping = [each for each in fitting if not LIMITING & set(each["changes"])]
    lines = [(proposal_line(each), each["command"]) for each in keeping]
    lines += [(remedy_line(each), each["command"]) for each in record["remedies"] or ()]
    return [*lines, *((proposal_line(each), each["command"]) for each in fitting if each not in keeping)]


def advice_notes(record: Record) -> list[str]:
    """Return a line for each option of the advice that the firmware must serve or that costs time."""
    shown = [each for each in (*(record["advice"] or ()), *(record["remedies"] or ())) if each.get("fits") is not False]
    proposed = {option for each in shown for option in each["changes"]}
    return [f"  {option}: {note}" for option, note in OPTION_NOTES.items() if option in proposed]


def proposal_line(proposal: Record) -> str:
    """Return a proposal as text: the changed options, its arena and time, and whether it fits."""
    said = {True: "fits", None: "may fit, deploy measures its Flash", False: "does not fit"}[proposal["fits"]]
    changes = proposal["changes"]
    beside = ", internal or external Flash" if "--flash" in changes else ""
    beside = ", the least that was reached" if "--latency-ms" in changes else beside
    return f"{' '.join(changes)}{beside}: {_needs(proposal)}, {said}"


def remedy_line(remedy: Record) -> str:
    """Return a change of the network as text, with its planned or estimated result."""
    beside = f" and {' '.join(remedy['changes'])}" if remedy["changes"] else ""
    match remedy["way"]:
        case "quantize":
            said = "fits" if remedy["fits"] else "may fit"
            return f"weights of 4 bits{beside}: constants {remedy['flash']:,} B, {_needs(remedy)}, {said}; planned"
        case "input":
            rows, columns = (max(1, round(remedy["share"] * side)) for side in remedy["input"][1:3])
            old = "x".join(map(str, remedy["input"][1:3]))
            return f"a smaller input: about {rows}x{columns} in place of {old}, trained anew; estimated"
    return "another network: `search` looks for one within the limits and trains it on your samples"


def _needs(plan: Record) -> str:
    """Return the arena, and the time if it is known, of a proposal or remedy as text."""
    time = "" if plan["latency_ms"] is None else f", {duration(plan['latency_ms'])}"
    return f"arena {plan['ram']:,} B{time}"


def cycle_lines(record: Record) -> list[str]:
    """Return a sentence on estimated cycles, time and energy and their sources, or why there is none; [] if not measured."""
    if record["core"] is None:
        return []
    if record["cycles"] is None:
        unknown = f"nobody has published timings of {record['core']}"
        why = f"{counted(len(record['plain_c']), 'kernel')} ran as plain C" if record["plain_c"] else unknown
        return [f"cycles: not estimated, for {why}"]
    (fewest, most), waits = record["cycles_range"], record["flash_waits"]
    line = f"cycles: about {record['cycles']:,}" + (f" ({fewest:,} to {most:,})" if fewest < most else "")
    if record["latency_ms"] is not None:
        low, high = (rounded(milliseconds(count, record["device"]["clock_hz"])) for count in (fewest, most))
        spread = f" ({low} to {high})" if low != high else ""
        line += f", {duration(record['latency_ms'])}{spread} at {clock(record['device'])}"
    line += "" if record["energy_mj"] is None else f", {rounded(record['energy_mj'])} mJ"
    flash = "no Flash wait states" if waits is None else f"with {waits} cycles for each line that its caches miss in Flash"
    if reading := record.get("flash_reads"):
        flash = f"{_reading_text(reading, record['device']['clock_hz'])}, which is a separate chip"
    return [f"{line}: estimated from published timings, {flash}"]


def _reading_text(reading: Record, clock_hz: int) -> str:
    """Return a clause on the time that the core waits for Flash beside the chip, and the bytes that it reads."""
    likely, low, high = (rounded(milliseconds(count, clock_hz)) for count in (reading["cycles"], *reading["cycles_range"]))
    kilobytes = [f"{reading[what] / 1000:,.0f} kB of {name}" for what, name in (("constants", "weights"), ("code", "code"))]
    return f"of these {likely} ms ({low} to {high}) reading {' and '.join(kilobytes)} from Flash"


def instructions_line(record: Record) -> str:
    """Return a sentence on the measured instructions of one inference, per MAC as well, and on the emulated core."""
    count, macs = record["instructions"], record["macs"]
    if count is None:
        return "instructions: not measured"
    each = f" ({count / macs:.2f} per MAC)" if macs else ""
    device, plain = record["device"], record["plain_c"]
    parts = [f"instructions: {count:,}{each}, counted on the emulated {record['core']}"]
    if device and device["core"] != record["core"]:
        parts.append(f"{device['name']} has a {device['core']}, which is not emulated: its counts and code size differ")
    parts += [f"{', '.join(plain)} ran as plain C, without the instructions of that core"] if plain else []
    return "; ".join(parts)


def comparison_rows(record: Record) -> list[tuple[str, ...]]:
    """Return the table of `compare`, the header first: a row per board with time, RAM, Flash, bytes left, and verdict."""
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
                *(count_text(part[key]) for part in (ram, flash) for key in ("total", "left")),
                f"too little {' and '.join(over)}" if over else "fits",
            )
        )
    return rows


def comparison_lines(record: Record) -> list[str]:
    """Return notes on the table of `compare`: instructions per core, the peak, and boards measured on another core."""
    cores = {board["core"]: board["instructions"] for board in record["compare"] if board["core"] == board["measured_on"]}
    is_timed = any(board["latency_ms"] is not None for board in record["compare"])
    flash = "with reads of Flash beside the chip, without wait states of Flash on the chip"
    timed = f"ms: estimated from published timings, {flash}; 'profile' counts all that are known"
    lines = [
        f"instructions on {', '.join(f'{core} {count:,}' for core, count in sorted(cores.items()))}",
        *([timed] if is_timed else []),
        *([f"peak: {peak_text(record['peak'])}"] if record["peak"] else []),
    ]
    others = [board for board in record["compare"] if board["core"] != board["measured_on"]]
    if pairs := dict.fromkeys(f"{board['core']} by {board['measured_on']}" for board in others):
        lines.append(f"* not emulated; stack and code were measured on the nearest core: {', '.join(pairs)}")
    return lines

"""Show records on the terminal as aligned plain lines; only a terminal gets colours.

In: records and plans. Out: lines printed on a rich Console. A pipe gets the same lines without colours, and bars made of #. The
sentences come from `words`.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ..api.models import ON_FLOAT
from ..devices import Device
from ..planning import Plan
from ..planning.explain import Explanation
from ..support.command_words import quoted, shell_lines
from . import words
from .columns import MAX_BAR, MIN_BAR, MIN_WIDTH, WIDTH, align, bar, beside_bars, clean, counted, fitted, hanging, size
from .explanation import explanation_lines
from .front import by_rows, front_entries, front_lines, front_rows, verdict_line
from .in_time import RIGHT as STREAM_RIGHT
from .in_time import stream_rows, stream_title
from .kernel_shares import copies_lines, fast_share_lines, kernel_lines, kernel_rows
from .measured import measured_rows
from .record import Record, costs

PEAK_BUFFERS = 8  # most buffers that `plan` draws without --all
VERDICT_STYLES = {True: "bold green", False: "bold red", None: "bold"}


def console() -> Console:
    """Return a console for standard output, as wide as the terminal, or as COLUMNS says, or else 100 columns."""
    columns = os.environ.get("COLUMNS", "")
    width = max(MIN_WIDTH, int(columns)) if columns.isdecimal() else WIDTH
    return Console(width=None if sys.stdout.isatty() else width, highlight=False, soft_wrap=True)


def show_page(markdown: str) -> None:
    """Show a page of the documentation: formatted on a terminal, else as the Markdown that it is."""
    from rich.markdown import Markdown

    if sys.stdout.isatty():
        Console().print(Markdown(markdown, hyperlinks=False))
    else:
        print(markdown, end="")


def _draws_blocks(out: Console) -> bool:
    """Return whether bars can be drawn with block characters: on a terminal that shows Unicode."""
    return out.is_terminal and out.encoding.lower().startswith("utf")


def show_lines(out: Console, lines: Sequence[str], style: str = "") -> None:
    """Show sentences, wrapped with a hanging indent but not before a unit; the style applies to the first sentence."""
    for index, line in enumerate(lines):
        indent, kept = " " * (len(line) - len(line.lstrip()) + 4), re.sub(r"(?<=\d) (?=%|(?:B|ms|mJ|MHz)\b)", "\xa0", line)
        for part in textwrap.wrap(
            kept, out.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]:
            out.print(Text(part.replace("\xa0", " "), style=style if index == 0 else ""))


def _show_command(out: Console, command: str) -> None:
    """Show a shell command, indented; one that is wider than the console in several lines, which a shell reads as one."""
    for line in shell_lines(command, out.width - 4):
        out.print(Text(f"    {line}"))


def heading(out: Console, text: str) -> None:
    """Show a line of text in bold."""
    out.print(Text(text, style="bold"))


def _show_indented(out: Console, lines: Sequence[str]) -> None:
    for line in lines:
        out.print(Text(f"  {line}"))
    out.print()


def _show_bars(out: Console, lines: Sequence[str], counts: Sequence[int], styles: Sequence[str], head: str = "dim") -> None:
    """Show table lines, the first of which is the header, with a bar after each other line."""
    room = max(MIN_BAR, min(MAX_BAR, out.width - max(map(len, lines)) - 1))
    largest, blocks = max(counts, default=0), _draws_blocks(out)
    out.print(Text(lines[0], style=head))
    for line, count, style in zip(lines[1:], counts, styles, strict=True):
        out.print(Text(f"{line} {bar(count, largest, room, blocks)}".rstrip(), style=style))


def show_model(out: Console, record: Record) -> None:
    """Show the model's name, its number of ops and MACs, the samples of a call if there are several, the inputs and outputs."""
    model = record["model"]
    heading(out, model["name"])
    is_padded = record["macs_original"] != record["macs"]
    original = f" ({record['macs_original']:,} in the file, padding counted)" if is_padded else ""
    samples = samples_per_call([t["shape"] for t in model["inputs"]], [t["shape"] for t in model["outputs"]])
    several = f"; each call computes {samples} samples" if samples > 1 else ""
    out.print(Text(f"  {counted(model['ops'], 'op')}, {record['macs']:,} MACs{original}{several}"))
    rows = [
        (word, clean(t["name"], 26), f"{t['dtype']} {'x'.join(map(str, t['shape']))}", f"{t['bytes']:,} B", _scale(t))
        for word, key in (("input", "inputs"), ("output", "outputs"))
        for t in model[key]
    ]
    _show_indented(out, hanging(rows, frozenset({3}), out.width - 2))


def samples_per_call(inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> int:
    """Return the batch size of a network with these shapes of inputs and outputs, 1 if an input is no batch of images."""
    first = {shape[0] for shape in inputs if len(shape) == 4} | {shape[0] if shape else 1 for shape in outputs}
    return first.pop() if len(first) == 1 and all(len(shape) == 4 for shape in inputs) else 1


def show_layers(out: Console, record: Record) -> None:
    """Show the layer table with a bar of live bytes per layer; the layer at the peak is highlighted."""
    layers, summit = record["layers"], record["peak"]
    if not layers:
        return
    lines = beside_bars(*words.layer_rows(record), out.width, ("in", "out", "window", "constants", "kernel"))
    styles = ["bold yellow" if layer["name"] == summit["op"] else "" for layer in layers]
    _show_bars(out, lines, [layer["live"] for layer in layers], styles)
    unit = " (float32; int8 a quarter)" if record.get("int8") else ""
    show_lines(out, [f"peak: {size(summit['bytes'])} live at {summit['op']}, step {summit['step'] + 1}{unit}"])
    gain = record.get("tflm")
    if gain and gain["after"] < gain["before"]:
        show_lines(
            out, [f"activations in TFLite Micro: {gain['before']:,} B, and at most {gain['after']:,} B with the file of"]
        )
        _show_command(out, f"tinyweave reorder {quoted(record['model']['file'])} --engine tflm -o new.tflite")
    out.print()


def show_unsupported(out: Console, record: Record) -> None:
    """Show the ops that cannot be compiled (of a float model, not as int8 either): a row per op kind and reason."""
    entries, as_int8 = record["unsupported"], record["int8"]
    if as_int8:
        _show_float(out, record)
        entries = [entry for entry in entries if ON_FLOAT not in entry["reason"]]
    groups: dict[tuple[str, str], list[Record]] = {}
    for entry in entries:
        groups.setdefault((entry["kind"], entry["reason"]), []).append(entry)
    if not groups:
        if not as_int8:
            out.print(Text(f"supported: all of {counted(record['model']['ops'], 'op')}"))
        return
    heading(out, f"{counted(len(entries), 'op')} cannot be compiled" + (" as int8 either" if as_int8 else ""))
    rows = [["kind", "ops", "first", "reason"]]
    for (kind, reason), alike in sorted(groups.items(), key=lambda group: -len(group[1])):
        where = f"tensor '{alike[0]['tensor']}' " if alike[0]["tensor"] else ""
        rows.append([clean(kind, 30), f"{len(alike):,}", alike[0]["op"], clean(where + reason, 300)])
    head, *lines = hanging(rows, frozenset({1}), (out.width if out.is_terminal else WIDTH) - 2)
    out.print(Text(f"  {head}", style="dim"))
    _show_indented(out, lines)
    refused = {entry["op"] for entry in entries}
    fine = [layer for layer in record["layers"] if layer["name"] not in refused]
    macs = sum(layer["macs"] for layer in fine)
    out.print(Text(f"supported: {len(fine)} of {counted(len(record['layers']), 'op')}, {macs:,} of {record['macs']:,} MACs"))


def _show_float(out: Console, record: Record) -> None:
    as_int8, floats = record["int8"], sum(ON_FLOAT in entry["reason"] for entry in record["unsupported"])
    heading(out, f"a float model: {counted(floats, 'op')} on float32, for which there are no kernels; make it int8")
    out.print(Text(f"    tinyweave quantize {quoted(record['model']['file'])} --inputs SAMPLES"))
    if as_int8["reason"] is not None:
        if floats == len(record["unsupported"]):  # else the table of the others follows
            show_lines(out, [f"it has no int8 form: {as_int8['reason']}"])
        return
    least, most = as_int8["flash"]
    lines = [
        f"then all of {counted(record['model']['ops'], 'op')} are supported; estimated as int8, for a cortex-m4:",
        f"  RAM: {as_int8['arena']:,} B (arena alone; deploy measures stack and static data)",
        f"  Flash: about {least:,} to {most:,} B",
        *words.board_lines(as_int8),
    ]
    show_lines(out, lines)


def show_profile(out: Console, record: Record) -> None:
    """Show instructions and cycles per layer with a bar for each, and why no kernel is faster."""
    layers = costs(record)
    key = "cycles" if record["cycles"] is not None else "instructions"
    lines = beside_bars(*words.profile_rows(record), out.width, ("per MAC", "MACs", "ms"))
    spent = [layer[key] or 0 for layer in layers]
    _show_bars(out, lines, spent, ["bold yellow" if 0 < count == max(spent) else "" for count in spent])
    out.print()
    if reasons := kernel_lines(record):
        heading(out, "layers that do not run on their fastest kernel (see `tinyweave docs time`)")
        show_lines(out, reasons)
        out.print()


def show_measured(out: Console, record: Record) -> None:
    """Show a table of the estimated cycles per layer and the cycles that a board measured."""
    heading(out, f"cycles of {record['model']['name']} by layer, estimated for a {record['core']} and measured")
    for line in align(measured_rows(record["measured"], record["cycles"]), frozenset({1, 2, 3})):
        out.print(Text(f"  {line}"))


def show_plan(out: Console, record: Record, plan: Plan, *, is_whole: bool) -> None:
    """Show a plan: whether it fits, its time, its lower bound, its memory; if `is_whole`, all buffers and each technique."""
    show_verdict(out, record if is_whole else record | {"peak": None})
    show_lines(out, [*words.foreseen_lines(record), *copies_lines(record), *fast_share_lines(record), words.bound_line(record)])
    out.print()
    if stream := record["stream_time"]:
        show_lines(out, [stream_title(stream)], "bold")
        _show_indented(out, hanging(stream_rows(stream), STREAM_RIGHT, out.width - 2) if is_whole else [])
    peak = record["peak"]["step"] if record["peak"] else 0
    alive = [buffer for buffer in plan.buffers if buffer.start <= peak < buffer.end]
    largest = sorted(alive, key=lambda buffer: -buffer.bytes)[:PEAK_BUFFERS]
    first, *lines = words.picture(plan, out.width, None if is_whole else {buffer.name for buffer in largest})
    heading(out, first)
    for line in lines:
        out.print(Text(line))
    if not is_whole:
        others = f", the largest {len(largest)} of {len(alive)}" if len(alive) > len(largest) else ""
        show_lines(out, [f"  these are alive at the peak, step {peak + 1}{others}"] if alive else [])
    elif plan.scratch:
        out.print(Text(f"  of these at most {plan.scratch:,} B are scratch of one layer"))
    for line in words.twice_lines(plan):
        out.print(Text(clean(line, 160)))
    if not is_whole:
        show_lines(out, [f"all {counted(len(plan.buffers), 'buffer')}, the kernels, and what each technique saves: add --all"])
        return
    out.print()
    if record["fast_macs"] is not None:
        heading(out, "kernels, and their shares of MACs and cycles")
        _show_indented(out, hanging(kernel_rows(record), frozenset({1, 2}), out.width - 2))
    several = len(record["ram"]["memories"]) > 1
    heading(out, f"the arena{', if it lay in one memory,' if several else ''} with one more technique in each line")
    _show_indented(out, align(words.ablation_rows(record["plan"]["ablation"]), frozenset({1, 2})))


def show_front(out: Console, record: Record) -> None:
    """Show the Pareto front: a row per plan with a bar for its arena, and the verdict."""
    labelled = front_entries(record)
    heading(out, f"{record['model']['name']}: what RAM costs in time{by_rows(record)}")
    rows = front_rows(record)
    lines = beside_bars(rows, frozenset(range(1 if labelled[-1][0] else 0, len(rows[0]))), out.width - 2, ("MACs", "cycles x"))
    styles = ["green" if entry["fits"] else "dim" if label else "" for label, entry in labelled]
    _show_bars(out, [f"  {line}" for line in lines], [entry["arena"] for _, entry in labelled], styles, head="bold")
    out.print()
    show_lines(out, front_lines(record))
    if verdict := verdict_line(record):
        show_lines(out, [verdict], "bold green" if verdict.startswith("fits") else "bold red")


def show_explanation(out: Console, plan: Plan, explanation: Explanation) -> None:
    """Show why a tensor has its address."""
    show_lines(out, [clean(line, 400) for line in explanation_lines(plan, explanation)], "bold")


def show_memory(out: Console, record: Record) -> None:
    """Show a table of RAM and Flash by part, with limits."""
    for line in hanging(words.memory_rows(record), frozenset({1}), out.width):
        out.print(Text(line))
    out.print()


def show_proof(out: Console, record: Record) -> None:
    """Show on which machines the C ran, and whether all output bytes were right."""
    show_lines(out, words.proof_lines(record), _proof_style(record["verify"]))
    out.print()


def _proof_style(verify: Record) -> str:
    return {True: "yellow" if verify["without_litert"] else "green", False: "bold red", None: ""}[verify["ok"]]


def show_deployment(out: Console, record: Record, folder: str, model: str) -> None:
    """Show a deployment: verdict, RAM and Flash, time and kernels, proof, and what to do next with the C in `folder`."""
    heading(out, _title(record))
    show_lines(out, [words.fits_line(record)], VERDICT_STYLES[record["fits"]])
    for line in hanging(words.memory_rows(record), frozenset({1}), out.width - 2):
        out.print(Text(f"  {line}"))
    peak = [f"peak: {words.peak_text(record['peak'])}"] if record["peak"] and not record["fits"] else []
    work = [words.instructions_line(record), *words.cycle_lines(record), *copies_lines(record), *fast_share_lines(record)]
    show_lines(out, [*words.time_limit_lines(record), "", *work, *peak])
    show_lines(out, words.proof_lines(record, compilers=False), _proof_style(record["verify"]))
    show_lines(out, [*words.board_lines(record), ""])
    for sentence, command in words.next_steps(record, folder, model):
        show_lines(out, [sentence])
        if command:
            _show_command(out, command)


def show_verdict(out: Console, record: Record) -> None:
    """Show whether the model fits, and RAM, Flash and time against their limits."""
    show_lines(out, words.verdict_lines(record), VERDICT_STYLES[record["fits"]])


def show_advice(out: Console, record: Record) -> None:
    """Show the advice for a plan that does not fit, if the record has any: a line per proposal, then its complete command."""
    if record["advice"] is None:
        return
    out.print()
    show_lines(out, [words.advice_title(record)], "bold")
    for line, command in words.advice_lines(record):
        show_lines(out, [f"  {line}"], "green")
        if command:
            _show_command(out, clean(command, 1000))
    if notes := words.advice_notes(record):
        out.print()
        show_lines(out, ["what these options mean; 'tinyweave docs ram' has more"], "bold")
        show_lines(out, notes)


def show_misfit(out: Console, record: Record) -> None:
    """Show that a model does not fit, with advice, when `deploy` stops before a build."""
    show_target(out, record)
    show_verdict(out, record)
    show_advice(out, record)
    out.print()
    by_time = not (record["excess"]["ram"] or record["excess"]["flash"])
    why = "by the estimate it takes too long" if by_time else "the plan alone exceeds a limit"
    out.print(Text(f"nothing was built or written: {why}"))


def show_instructions(out: Console, record: Record) -> None:
    """Show the measured instructions, also per MAC, the estimated cycles, and which kernels run."""
    show_lines(
        out, [words.instructions_line(record), *words.cycle_lines(record), *copies_lines(record), *fast_share_lines(record)]
    )


def show_devices(out: Console, devices: Sequence[Device]) -> None:
    """Show a table of boards with core, clock, RAM and Flash."""
    rows = [("device", "core", "MHz", "RAM", "Flash", "also known as")]
    rows += [
        (
            d.name,
            d.core,
            f"{(d.clock_hz or 0) / 1e6:g}",
            f"{(d.ram or 0) // 1024:,} KiB",
            "-" if d.flash is None else f"{d.flash // 1024:,} KiB" + (" *" if d.has_external_flash else "  "),
            ", ".join(d.aliases[:2]) + (", ..." if len(d.aliases) > 2 else ""),
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
    """Show one board with its memories, aliases and sources."""
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
    """Show the live bytes of each step in the best order, with a bar and the live tensors, and what the order saves."""
    before, after = record["orders"]["file"], record["orders"]["best"]
    rows = [["step", "layer", "bytes"]]
    rows += [[str(number + 1), clean(step["op"], 32), f"{step['bytes']:,}"] for number, step in enumerate(after["steps"])]
    lines = align(rows, frozenset({0, 2}))
    room = max(MIN_BAR, min(MAX_BAR, (out.width - len(lines[-1])) // 3))
    blocks = _draws_blocks(out)
    out.print(Text(f"{lines[0]}  {'':{room}}  alive: outputs of", style="dim"))
    for number, (line, step) in enumerate(zip(lines[1:], after["steps"], strict=True)):
        drawn = bar(step["bytes"], before["peak"], room, blocks)
        names = ", ".join(f"{record['producers'].get(name, 'input')} {count:,}" for name, count in step["tensors"].items())
        names = clean(names, max(16, out.width - len(line) - room - 4))
        out.print(Text(f"{line}  {drawn:<{room}}  {names}", style="bold yellow" if number == after["step"] else ""))
    proof = "no order needs less" if record["optimal"] else f"no order needs less than {size(record['lower_bound'])}"
    show_lines(
        out,
        [
            f"file order: {size(before['peak'])} at {before['op']}, step {(before['step'] or 0) + 1}",
            f"best order: {size(after['peak'])} at {after['op']}, step {(after['step'] or 0) + 1}; {proof}",
            f"saved: {before['peak'] - after['peak']:,} B ({record['count']})",
            *_engine_lines(record["engine"]),
        ],
    )


def _engine_lines(engine: Record | None) -> list[str]:
    """Return a line on how much less RAM the engine of `reorder --engine` needs, or on why the file was not changed."""
    if engine is None:
        return []
    if engine["unchanged"]:
        return [f"the file is unchanged: {engine['unchanged']}"]
    done = [f"{counted(engine['pads'], 'pad op')} folded"] if engine["pads"] else []
    if engine["tiled"]:
        done.append(f"the first {counted(engine['tiled'], 'op')} in {engine['grid'][0]} x {engine['grid'][1]} patches")
    done += [f"{engine['macs']:.3f} times the MACs"] if done else []
    saved = f"activations need {size(engine['after'])} instead of {size(engine['before'])}"
    beside = "as Vela estimates" if engine["engine"].startswith("vela") else "beside scratch of kernels"
    return ["; ".join(filter(None, (f"{engine['engine']}: {saved}, {beside}", ", ".join(done))))]


def show_outputs(out: Console, record: Record, most: int | None = None) -> None:
    """Show the largest values of each sample, or of the first `most`, and output; of an output that is a map its range."""
    model, samples = record["model"], record["samples"]
    heading(out, f"{model['name']}: {counted(len(samples), 'sample')}, {record['ran']}")
    rows = list[tuple[str, ...]]()
    for sample in samples[:most]:
        for tensor, output in zip(model["outputs"], sample["outputs"], strict=True):
            best = [f"{clean(each['class'], 24)} {each['real']:.4g}" for each in output["best"]]
            values = (
                f"{tensor['dtype']} {'x'.join(map(str, tensor['shape']))}: {min(output['values'])} to {max(output['values'])}"
            )
            name = [clean(tensor["name"], 26)] if len(model["outputs"]) > 1 else []
            rows.append((clean(sample["name"], 32), *name, "   ".join(best) or values))
    for line in hanging(rows, frozenset(), out.width - 2):
        out.print(Text(f"  {line}"))
    if most and len(samples) > most:
        out.print(Text(f"  and {len(samples) - most:,} more, which 'run' shows"))


def show_comparison(out: Console, record: Record) -> None:
    """Show a table of boards with the bytes left on each, then notes."""
    boards = record["compare"]
    heading(out, f"{record['model']['name']} on {counted(len(boards), 'board')}: fits {len(record['boards'])}")
    lines = fitted(words.comparison_rows(record), frozenset({2, 3, 4, 5, 6, 7}), out.width, ("MHz", "RAM", "Flash", "core"))
    out.print(Text(lines[0], style="dim"))
    for board, line in zip(boards, lines[1:], strict=True):
        out.print(Text(line, style="" if board["fits"] else "red"))
    out.print()
    show_lines(out, words.comparison_lines(record))


def show_target(out: Console, record: Record) -> None:
    """Show the name of the model, and the board that it is compiled for."""
    heading(out, _title(record))
    out.print()


def _title(record: Record) -> str:
    target = f" for {words.target_text(record['device'])}" if record["device"] else ""
    return f"{record['model']['name']}{target}"


def _scale(tensor: Record) -> str:
    floats = ", float in the file" if tensor.get("floats") else ""
    return f"scale {tensor['scale']:.6g}, zero point {tensor['zero_point']}{floats}" if tensor["scale"] is not None else ""

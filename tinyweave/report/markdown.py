"""Write the Markdown report, without timestamps, that `deploy` leaves beside the C."""

from __future__ import annotations

from collections.abc import Sequence

from .columns import align, clean
from .kernel_shares import copies_lines, fast_share_lines
from .record import Record
from .words import cycle_lines, instructions_line, layer_rows, memory_rows, proof_lines, target_text, verdict_lines

WIDE = 160  # most columns of the drawing
# explains the method of the proof, so that a reader need not trust its result blindly
PROOF_METHOD = (
    "The arena was filled with noise before each run and the first input was run twice over complementary noise: a byte "
    "that differs from both was written, and a result that depends on the noise would show."
)


def markdown(record: Record, picture: Sequence[str]) -> str:
    """Return the report of one deployment; `picture` has the lines of the drawing of the arena."""
    verdict = verdict_lines(record)
    rows, right = layer_rows(record)
    sections = [
        f"# {record['model']['name']}",
        _about(record),
        "## Verdict",
        f"**{verdict[0]}**",
        "\n".join(f"- {line.strip()}" for line in verdict[1:]),
        "## Memory",
        _memory(record),
        "## Work",
        _work(record),
        "## Proof",
        "\n".join(f"- {_escape(line.strip())}" for line in proof_lines(record)),
        PROOF_METHOD if record["verify"]["ok"] is not None else "",
        "## Layers",
        "Bytes in, out and live are activations; live counts everything that must be in RAM while the layer runs.",
        _code(align(rows, right)),
        _loops(record),
        "## Arena",
        _code([clean(line, WIDE) for line in picture]),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _about(record: Record) -> str:
    model, device = record["model"], record["device"]
    target = f" for {target_text(device)}" if device else ""
    return f"{_escape(model['file'])}, sha256 {model['sha256']}, compiled by tinyweave {record['tinyweave']}{target}."


def _work(record: Record) -> str:
    """Return a Markdown list of what was measured: MACs, instructions, compiler, cycles, and the core's kernels' share."""
    lines = [
        f"MACs executed: {record['macs']:,}; of the imported file with padding counted: {record['macs_original']:,}",
        instructions_line(record),
        *([f"measured with: {_escape(record['compiler'])}"] if record["compiler"] else []),
        *cycle_lines(record),
        *copies_lines(record),
        *fast_share_lines(record),
    ]
    return "\n".join(f"- {line}" for line in lines)


def _loops(record: Record) -> str:
    """Return a sentence on the instructions of the loops over rows in fused stages, which belong to no layer, or ""."""
    loops = [f"step {step['step'] + 1} {step['loop']['instructions']:,}" for step in record["steps"] or () if step["loop"]]
    return f"Stages take instructions for their loops besides: {', '.join(loops)}." if loops else ""


def _memory(record: Record) -> str:
    lines = ["| part | bytes | limit | what |", "|---|---:|---:|---|"]
    for part, count, limit, what in memory_rows(record):
        name = f"of it {part.strip()}" if part.startswith(" ") else f"**{part}**"
        lines.append(f"| {name} | {count} | {limit.removeprefix('limit ')} | {_escape(what)} |")
    return "\n".join(lines)


def _code(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *(line.replace("```", "'''") for line in lines), "```"])


def _escape(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "|`*_<>[]\\" else letter for letter in clean(text, 400))

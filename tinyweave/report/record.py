"""Build the record: the dict of plain values that `--json` prints and that the terminal and Markdown reports show.

In: a Model, and its plan, profile and verification as far as they are known. Out: a dict that always has the same keys. Unknown
values are None, never 0. docs/JSON.md explains each key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__, api
from ..api import results
from ..codegen.buffers import buffer_records, stage_records
from ..codegen.model import buffer_labels
from ..devices import Device, all_devices
from ..ir import CompileError, Graph
from ..kernels.layer_cycles import cycles_to_copy
from ..ops import macs, macs_original
from ..planning import Limits, Plan, without_copies
from ..simulate.instruction_timing import Cycles, milliseconds
from .in_time import stream_record
from .schema import VERSION
from .tables import LayerRow, graph_layers, peak, plan_layers

if TYPE_CHECKING:  # `inspect` needs none of these modules
    from ..api.advice import Proposal, Remedy
    from ..planning.explain import Explanation
    from ..simulate.compare import Verification

Record = dict[str, Any]


def record(
    model: results.Model,
    *,
    plan: Plan | None = None,
    profile: results.Profile | None = None,
    verification: Verification | None = None,
    device: Device | None = None,
    limits: Limits | None = None,
    row_source: str | None = None,
    row_source_flash: int | None = None,
) -> Record:
    """Return the record of one model: a dict for json.dumps, with None for values that are unknown."""
    graph = model.graph
    core = profile.core if profile else device.core if device else ""
    took = (profile.per_layer, _likely(profile.cycles_per_layer)) if profile else ()
    by_shape = api.estimate_layer_cycles(plan, device) if plan else {}
    layers = plan_layers(plan, core, *took) if plan else graph_layers(graph)
    cycles = profile.cycles if profile else None
    summit = peak(layers)
    limits = limits or Limits()
    beside = api.row_source_bytes(model, row_source) if row_source else None
    executed, network_macs = sum(layer.macs for layer in layers), macs(graph)
    boards = api.boards_that_fit(profile, beside or 0, row_source_flash or 0) if profile else ()
    ram, flash = _ram(plan, profile, beside), _flash(plan, profile, device, row_source_flash)
    edges = {key: _tensors(graph, model.outside, key) for key in ("inputs", "outputs")}
    return head(model, io=model.io, layout=model.layout, ops=len(graph.ops), **edges) | {
        "device": device and {key: getattr(device, key) for key in ("name", "core", "clock_hz", "ram", "flash")},
        **_within(plan, profile, device, limits, flash=flash["total"], beside=beside or 0),
        "ram": ram,
        "flash": flash,
        "macs_original": macs_original(model.original),
        "macs": executed,
        "fast_macs": sum(layer.macs for layer in layers if layer.fast) if plan and core else None,
        "mac_overhead": overhead(executed, network_macs) if plan else None,
        "instructions": profile.instructions if profile else None,
        "cycles": cycles.likely if cycles else None,
        "cycles_range": [cycles.fewest, cycles.most] if cycles else None,
        "flash_waits": profile.waits if profile else None,
        "flash_reads": _reading(profile.reading) if profile else None,
        "file_reads": _file_reads(plan, device, by_shape, profile) if profile else None,
        "latency_ms": _latency_ms(profile, device),
        "energy_mj": _energy_mj(profile, device),
        **_of(profile, "core", "compiler"),
        "plain_c": list(profile.foreign) if profile else None,
        "plan": _planned(plan, device, by_shape),
        "advice": None,
        "remedies": None,
        "least": None,
        "peak": _peak(summit, plan) if summit else None,
        "verify": _verify(verification),
        "boards": [board.name for board in sorted(boards, key=lambda board: board.ram)] if profile else None,
        "room": _room(ram["total"] or ram["arena"], flash["total"] or flash["estimate"][1]) if plan or profile else None,
        "layers": [asdict(layer) | {"cycles_by_shape": by_shape.get(layer.name)} for layer in layers],
        "buffers": buffer_records(plan) if plan else None,
        "stages": stage_records(plan) if plan else None,
        "unsupported": [],  # as by `inspection_record`
        "int8": None,  # of a float model, as by `inspection_record`
        "steps": _steps(plan, profile) if plan and profile else None,
        "stream_time": stream_record(model),
    }


def _planned(plan: Plan | None, device: Device | None, by_shape: Mapping[str, int]) -> Record:
    return {
        "steps": len(plan.stages) if plan else None,
        "objective": plan.objective or None if plan else None,
        **_of(plan, "lower_bound", "optimal", "gap"),
        "channels_once": dict(plan.channels_once) if plan else None,
        **foreseen(plan, device),
        "flash_reads": _reading(api.estimate_reading(plan, device)) if plan else None,
        "file_reads": _file_reads(plan, device, by_shape),
        "copies": _copies(plan, device) if plan and plan.copies and not plan.fetches else None,
        "ablation": None,  # technique of the planner -> arena bytes with it and all techniques before it
    }


def _copies(plan: Plan, device: Device | None) -> Record:
    """Return the bytes of constants copied to RAM, the time of copying, and of an inference that reads them from Flash."""
    cycles = round(cycles_to_copy(plan.copy_bytes.values(), api.flash_reads(device) if device else None))
    in_flash = foreseen(without_copies(plan), device)
    return {
        "arrays": plan.copy_bytes,
        "init_cycles": cycles,
        "init_ms": _foreseen_ms(cycles, device),
        "cycles_in_flash": in_flash["cycles_at_least"],
        "latency_ms_in_flash": in_flash["latency_ms_at_least"],
    }


def _file_reads(
    plan: Plan | None, device: Device | None, by_shape: Mapping[str, int], profile: results.Profile | None = None
) -> Record | None:
    counted = [count for _, count in profile.reads] if profile else None
    reads = api.file_reads(plan, device, by_shape, counted) if plan else None
    return reads and reads._asdict()


def _reading(reading: results.FlashTraffic | None) -> Record | None:
    """Return the cycles and bytes of reads from Flash beside the chip."""
    if reading is None:
        return None
    fewest, likely, most = reading.cycles
    return {"cycles": likely, "cycles_range": [fewest, most], "constants": reading.constants, "code": reading.code}


def _ram(plan: Plan | None, profile: results.Profile | None, beside: int | None) -> Record:
    """Return the bytes of RAM by part; `beside` are those of a row source."""
    return {
        "total": profile.ram + (beside or 0) if profile else None,
        "arena": sum(plan.arena.values()) if plan else None,
        "memories": dict(plan.arena) if plan else None,
        **_of(profile, "static", "stack"),
        "row_source": beside,
        "streamed_inputs": list(plan.streamed_inputs) if plan else None,
        "streamed_outputs": list(plan.streamed_outputs) if plan else None,
    }


def _flash(plan: Plan | None, profile: results.Profile | None, device: Device | None, row_source: int | None) -> Record:
    """Return the bytes of Flash by part, estimated if there is no profile; `row_source` are those of a row source."""
    need = api.estimate_flash(plan, device) if plan else None
    return {
        "total": profile.flash + (row_source or 0) if profile else None,
        "constants": need.constants if need else None,
        "estimate": [need.lower_bound, need.upper_bound] if need and not profile else None,
        **_of(profile, "weights", "tables", "code"),
        "row_source": row_source,
    }


def _within(
    plan: Plan | None, profile: results.Profile | None, device: Device | None, limits: Limits, *, flash: int | None, beside: int
) -> Record:
    """Return the limits, the excess over each, and whether all are kept; `flash` is what a build takes, or None."""
    memories = limits.memories(plan.arena) if plan else None
    rest = (profile.static + profile.stack if profile else 0) + beside
    estimate = api.estimate_flash(plan, device) if plan and not profile else None
    cycles = profile.cycles if profile else None
    too_long = api.latency_excess(plan, device, limits, cycles and cycles.likely) if plan else None
    over = {
        "ram": limits.ram_excess(plan.arena, rest) if plan else None,
        "flash": estimate.excess(limits.flash) if estimate else _excess(flash, limits.flash),
        "latency_ms": None if too_long is None else math.ceil(too_long * 1e3) / 1e3,
    }
    is_open = estimate is not None and limits.flash is not None and over["flash"] is None
    is_open |= plan is not None and limits.latency_ms is not None and too_long is None
    allowed = {
        "ram": sum(memories.values()) if memories else limits.ram,
        "memories": dict(memories) if memories else None,
        "flash": limits.flash,
        "latency_ms": limits.latency_ms,
    }
    return {"limits": allowed, "excess": over, "fits": results.verdict(over.values(), is_open=is_open)}


def unsupported_records(errors: Sequence[CompileError]) -> list[Record]:
    """Return an entry for each op that cannot be compiled; `errors` has an error per op."""
    return [
        {
            "op": error.op and error.op.name,
            "kind": error.op and error.op.kind,
            "tensor": error.tensor,
            "reason": error.why,
            "hint": error.what_to_do,
        }
        for error in errors
    ]


def inspection_record(found: results.Inspection) -> Record:
    """Return the record of `inspect`, with the ops that cannot be compiled, and for a float model what it needs as int8."""
    gain = None if found.unsupported else api.tflm_gain(found.model)
    refused = unsupported_records(found.unsupported)
    return record(found.model) | {"unsupported": refused, "int8": _int8_record(found), "tflm": gain}


def _int8_record(found: results.Inspection) -> Record | None:
    """Return the estimated needs of a float model as int8, or the reason why it has no int8 form; None for other models."""
    if found.int8 is None and found.without_int8 is None:
        return None
    try:
        if found.int8 is None:
            raise found.without_int8 or AssertionError
        planned = record(found.int8, plan=api.plan(found.int8))
    except CompileError as error:
        return {"arena": None, "flash": None, "boards": None, "reason": str(error)}
    boards = [board["name"] for board in planned["room"]]
    return {"arena": planned["ram"]["arena"], "flash": planned["flash"]["estimate"], "boards": boards, "reason": None}


def deployment_record(done: results.Deployment) -> Record:
    """Return the record of a deployment, with its plan, measurements and verification."""
    return record(
        done.model,
        plan=done.plan,
        profile=done.profile,
        verification=done.verification,
        device=done.device,
        limits=done.limits,
        row_source=done.row_source,
        row_source_flash=done.row_source_flash if done.row_source and done.profile else None,
    )


def _of(source: object, *keys: str) -> Record:
    """Return the attributes `keys` of an object as a dict; all values are None if the object is None."""
    return {key: getattr(source, key) if source else None for key in keys}


def _likely(cycles: Mapping[str, Cycles]) -> dict[str, int]:
    """Return layer -> likely cycles, from estimates that each have a lowest, a likely and a highest number of cycles."""
    return {layer: count.likely for layer, count in cycles.items()}


def _steps(plan: Plan, profile: results.Profile) -> list[Record]:
    """Return a dict per step of a plan: its layers and costs; `loop` is what a fused stage takes beyond its layers."""
    cycles = [step.likely for step in profile.cycles_per_step]
    counts = {"instructions": (profile.per_step, profile.per_layer), "cycles": (cycles, _likely(profile.cycles_per_layer))}
    records = []
    for step, stage in enumerate(plan.stages):
        names = [plan.graph.ops[index].name for index in stage.ops]
        whole = {key: steps[step] if steps else None for key, (steps, _) in counts.items()}
        rest = {
            key: steps[step] - sum(layers.get(name, 0) for name in names) if steps else None
            for key, (steps, layers) in counts.items()
        }
        is_split = stage.schedule is not None and any(name in profile.per_layer for name in names)
        records.append({"step": step, "layers": names, **whole, "loop": rest if is_split else None})
    return records


def costs(record: Record) -> list[Record]:
    """Return a dict per layer, in order of execution, with its costs, and "(loop)" or "(stage)" for those of a fused stage."""
    layers = {layer["name"]: layer for layer in record["layers"]}
    entries = []
    for step in record["steps"]:
        own = [layers[name] for name in step["layers"]]
        entries += own
        rest = {"step": step["step"], "kind": "", "kernel": None, "output": own[-1]["output"], "live": own[-1]["live"]}
        if step["loop"]:
            entries.append({**rest, "name": "(loop)", "macs": 0, **step["loop"]})
        elif all(layer["instructions"] is None for layer in own):
            whole = {key: step[key] for key in ("instructions", "cycles")}
            entries.append({**rest, "name": "(stage)", "macs": sum(layer["macs"] for layer in own), **whole})
    return entries


def _peak(summit: LayerRow, plan: Plan | None) -> Record:
    """Return the peak as plain values: its step, op and live bytes, and the buffers alive in it (None without a plan)."""
    alive = plan.alive(summit.step) if plan else None
    labels = buffer_labels(plan) if plan else {}
    return {
        "step": summit.step,
        "op": summit.name,
        "bytes": summit.live,
        "buffers": alive and [{"name": b.name, "label": labels[b.name], "bytes": b.bytes} for b in alive],
    }


def proposal_record(proposal: Proposal, command: str, changes: Sequence[str]) -> Record:
    """Return the record of a proposal of the advice: command, changes, needs; `fits` is None if only a build can tell."""
    time = None if proposal.latency_ms is None else round(proposal.latency_ms, 3)
    need = {"ram": proposal.arena, "flash": proposal.need.constants, "latency_ms": time}
    return {"command": command, **need, "fits": proposal.fits, "fits_ram": proposal.fits_ram, "changes": list(changes)}


def remedy_record(remedy: Remedy, command: str | None, changes: Sequence[str], shape: Sequence[int] | None) -> Record:
    """Return the record of a remedy: a change of the network, such as a smaller input, that could make it fit the limits.

    The keys `ram`, `flash`, `latency_ms` and `fits` describe the plan of the changed network; they are None if it was not
    planned. `share` is the estimated fraction that must remain of each side of the input image.
    """
    planned = remedy.planned
    need = {"ram": None, "flash": None, "latency_ms": None, "fits": None}
    if planned is not None:
        need = {key: proposal_record(planned, "", ())[key] for key in need}
    about = {"share": remedy.share, "changes": list(changes), "input": shape and list(shape)}
    return {"way": remedy.way, "command": command, **need, **about}


def _latency_ms(profile: results.Profile | None, device: Device | None) -> float | None:
    """Return the estimated milliseconds of a profile on a device, rounded, or None if unknown."""
    taken = profile.latency_ms(device) if profile else None
    return None if taken is None else round(taken, 3)


def _energy_mj(profile: results.Profile | None, device: Device | None) -> float | None:
    """Return the estimated energy of one inference in mJ, rounded, or None if time or current are unknown."""
    energy_mj = device.energy_mj(_latency_ms(profile, device)) if device else None
    return None if energy_mj is None else round(energy_mj, 4)


def foreseen(plan: Plan | None, device: Device | None) -> Record:
    """Return the cycles and milliseconds of a plan, estimated from its layers' shapes.

    `cycles_at_least` and `latency_ms_at_least` leave out ops without cycle constants; `cycles_missing` has their kinds. If any
    op is left out, `cycles` and `latency_ms` are None. All values are None without a plan or a cycle model of the core.
    """
    needed = api.estimate_cycles(plan, device) if plan else None
    if needed is None:
        return dict.fromkeys(("cycles", "cycles_at_least", "cycles_missing", "latency_ms", "latency_ms_at_least"))
    return {
        "cycles": needed.cycles,
        "cycles_at_least": needed.at_least,
        "cycles_missing": list(needed.missing),
        "latency_ms": _foreseen_ms(needed.cycles, device),
        "latency_ms_at_least": _foreseen_ms(needed.at_least, device),
    }


def _foreseen_ms(cycles: int | None, device: Device | None) -> float | None:
    """Return cycles as milliseconds on a device, rounded, or None if either is unknown."""
    if cycles is None or device is None or device.clock_hz is None:
        return None
    return round(milliseconds(cycles, device.clock_hz), 3)


def overhead(executed: int, network_macs: int) -> float | None:
    """Return executed MACs / network's MACs, rounded up so that `--max-mac-overhead` accepts it; None without MACs."""
    return math.ceil(executed / network_macs * 10_000 - 1e-6) / 10_000 if network_macs else None


def head(model: results.Model, **more: Any) -> Record:
    """Return the first keys of a record: versions of tinyweave and of the schema, and the model, with the keys `more`."""
    named = {"name": model.name, "file": model.path.name, "sha256": model.sha256}
    return {"tinyweave": __version__, "schema": VERSION, "model": named | more}


def explained(model: results.Model, plan: Plan, tensor: str, device: Device | None) -> Explanation:
    """Return why a tensor has its address, and why its op has its kernel on the device's core."""
    return api.explain(model, plan, tensor, device.core if device else api.DEFAULT_CORE)


def explanation_record(explanation: Explanation) -> Record:
    """Return the record of `plan --explain`: why a tensor has its address and why its op has its kernel."""
    touched = explanation.writers, explanation.readers, (explanation.waits,) if explanation.waits else ()
    writers, readers, waits = ([{"step": step, "op": op} for step, op in touches] for touches in touched)
    kernels = [{"kernel": kernel, "reason": reason} for kernel, reason in explanation.kernels]
    return asdict(explanation) | {"writers": writers, "readers": readers, "waits": next(iter(waits), None), "kernels": kernels}


def reorder_record(done: results.Reordering, out: Path | None = None) -> Record:
    """Return the record of `reorder`: the file's order and the best order, with the live tensors of each step."""
    given, graph = done.model.original, done.graph
    producers = {name: each.ops[index].name for each in (given, graph) for name, index in each.producer.items()}
    return head(done.model, ops=len(given.ops)) | {
        "count": done.count,
        "lower_bound": done.best.lower_bound,
        "optimal": True if done.best.peak == done.best.lower_bound else None,
        "out": str(out) if out else None,
        "engine": done.engine._asdict() if done.engine else None,
        "producers": {name: op for name, op in producers.items() if name in done.owner},
        "orders": {
            "file": _order(given, range(len(given.ops)), done.live()),
            "best": _order(graph, done.best.ops, done.live(done.best.ops)),
        },
    }


def outputs_record(done: api.Outputs) -> Record:
    """Return the record of `run`: what ran, and for each sample the values of each output, and the best classes."""
    samples: list[Record] = [
        {
            "name": name,
            "outputs": [
                {
                    "best": [dict(zip(("class", "real", "value"), each, strict=True)) for each in done.best(number, 5, output)],
                    "values": values.reshape(-1).tolist(),
                }
                for output, values in enumerate(done.values[number])
            ],
        }
        for number, name in enumerate(done.names)
    ]
    graph = done.model.outside
    return head(done.model, outputs=_tensors(graph, graph, "outputs")) | {"ran": done.place, "samples": samples}


def _order(graph: Graph, order: Sequence[int], live: list[dict[str, int]]) -> Record:
    """Return one order of ops as plain values: its peak in bytes, and for each step the live tensors with their bytes."""
    steps: list[Record] = [
        {"op": graph.ops[index].name, "kind": graph.ops[index].kind, "bytes": sum(alive.values()), "tensors": alive}
        for index, alive in zip(order, live, strict=False)
    ]
    peak = max((step["bytes"] for step in steps), default=0)
    at = next((number for number, step in enumerate(steps) if step["bytes"] == peak), None)
    return {"peak": peak, "step": at, "op": steps[at]["op"] if at is not None else None, "steps": steps}


def comparison_record(model: results.Model, boards: Sequence[results.Fit]) -> Record:
    """Return the record of `compare`: a model's record with an entry per board; boards that fit first, then by RAM."""
    plan = next(board.plan for board in boards if board.device.core == api.DEFAULT_CORE)
    return record(model, plan=plan) | {
        "fits": any(board.fits for board in boards),
        "boards": [board.device.name for board in sorted(boards, key=lambda b: b.device.ram or 0) if board.fits],
        "compare": [_fit(board) for board in sorted(boards, key=lambda b: (not b.fits, b.device.ram or 0, b.device.name))],
    }


def _fit(board: results.Fit) -> Record:
    """Return a board's entry in the record of `compare`: limits, measured needs, and cycles if its own core was emulated."""
    device = board.device
    return (
        _standing(device, board.profile.ram, board.profile.flash)
        | {"fits": board.fits}
        | {
            "measured_on": board.profile.core,
            "instructions": board.profile.instructions,
            "cycles": board.profile.cycles.likely if board.profile.cycles and device.core == board.profile.core else None,
            "latency_ms": _latency_ms(board.profile, device),
            "compiler": board.profile.compiler,
        }
    )


def _standing(device: Device, ram: int, flash: int) -> Record:
    """Return a device with the RAM and Flash that a model needs, the limits, and the bytes left; negative if missing."""
    parts = {
        key: {"total": size, "limit": limit, "left": None if limit is None else limit - size}
        for key, size, limit in (("ram", ram, device.ram), ("flash", flash, device.flash))
    }
    return {"name": device.name, "core": device.core, "clock_hz": device.clock_hz} | parts


def _room(ram: int, flash: int) -> list[Record]:
    """Return an entry per known device that can hold a model of `ram` and `flash` bytes, or is unknown, sorted by RAM."""
    found = [_standing(device, ram, flash) for device in sorted(all_devices(), key=lambda device: device.ram or 0)]
    return [each for each in found if all((each[key]["left"] or 0) >= 0 for key in ("ram", "flash"))]


def device_record(device: Device) -> Record:
    """Return the record of one device, for `devices --json`."""
    return asdict(device) | {"ram": device.ram, "flash": device.flash}


def _tensors(graph: Graph, outside: Graph, key: str) -> list[Record]:
    """Return `inputs` or `outputs` (`key`) as plain values; names in `Model.outside` differ if the C converts floats."""
    return [
        {
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "bytes": tensor.bytes,
            "scale": tensor.scale if tensor.quant and not tensor.quant.per_channel else None,
            "zero_point": tensor.zero_point if tensor.quant and not tensor.quant.per_channel else None,
            "floats": tensor.name != name,
        }
        for tensor, name in zip(map(graph.tensors.__getitem__, getattr(graph, key)), getattr(outside, key), strict=True)
    ]


def _excess(need: int | None, cap: int | None) -> int | None:
    """Return the bytes of a need above a limit, 0 if within it; None if either is None."""
    return None if need is None or cap is None else max(0, need - cap)


def _verify(verification: Verification | None) -> Record:
    keys = ("ok", "samples", "reference", "without_litert", "max_abs_diff", "first_difference")
    return _of(verification, *keys) | {
        "compilers": dict(verification.compilers) if verification else None,
        "touched": {place: dict(used) for place, used in verification.touched.items()} if verification else None,
    }

"""Compute the page's figures of large plans, which `bench/tinylesson/explorer_plans.py` writes to planned.json."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from tinynas.costs import model_of
from tinyweave import api
from tinyweave.api.results import Model
from tinyweave.ops import SPECS
from tinyweave.planning import Limits, Plan, Request
from tinyweave.report.record import Record, record
from tinyweave.report.tables import plan_layers

from .networks import RUNGS, LadderNetwork, blocks_of, graph_of

CORE = "cortex-m7"  # core of the larger microcontroller on the memory ladder
LEAST = Request(objective="size", core=CORE, limits=Limits(0))  # the least arena, as no plan is within 0 bytes
SCHEDULES = {
    "layer": replace(LEAST, strategy="layer"),
    "patch": replace(LEAST, strategy="patch"),
    "best": LEAST,
    "rows": replace(LEAST, stream_inputs=True),
}
LADDER_SCHEDULES = ("layer", "best", "rows")
BLOCK_SCHEDULES = ("patch", "best", "rows")
BUFFER_KEYS = ("label", "kind", "memory", "offset", "bytes", "begin", "end", "shapes", "why")
SCALES = ("two_scales", 160, 0.35)  # the detector of the page: name, resolution, width


class Compared(NamedTuple):
    """A network of the figure of RAM per block; `setting`: "phone" (as its paper), "small" (for 320 kB of SRAM), "both"."""

    title: str
    network: str
    resolution: int
    width: float
    setting: str
    printed: int | None = None  # its SRAM in kB in table 5.4 of the MCUNet thesis


COMPARED = (
    Compared("MobileNetV2", "mobilenet_v2", 224, 1.0, "phone"),
    Compared("ProxylessNAS", "proxyless", 224, 1.0, "phone"),
    Compared("MobileNetV2", "mobilenet_v2", 144, 0.35, "small", 308),
    Compared("ProxylessNAS", "proxyless", 176, 0.3, "small", 292),
    Compared("MCUNet", "mcunet_320kb", 176, 1.0, "both", 293),
)


def rung(network: LadderNetwork) -> dict[str, Any]:
    """Return `arenas` (bytes by LADDER_SCHEDULES) and `constants` (bytes) of a network, with kernels of a Cortex-M7."""
    model = model_of(graph_of(network.network, network.resolution, network.width))
    plans = {name: api.make_plan(model, SCHEDULES[name]) for name in LADDER_SCHEDULES}
    constants = api.estimate_flash(plans["rows"]).constants
    return {"arenas": {name: sum(plan.arena.values()) for name, plan in plans.items()}, "constants": constants}


def profile(network: Compared) -> dict[str, list[int]]:
    """Return each of BLOCK_SCHEDULES -> most live bytes in any step of each block's layers, without the classifier."""
    found = blocks_of(network.network, network.resolution, network.width)
    assert found
    model = model_of(graph_of(network.network, network.resolution, network.width))
    owner = _owners(model, [len(block.layers) for block in found[0]])
    return {name: _by_block(api.make_plan(model, SCHEDULES[name]), owner) for name in BLOCK_SCHEDULES}


def _owners(model: Model, lengths: list[int]) -> dict[str, int]:
    """Return layer -> index of its block, without the classifier; `lengths` are the blocks' convolutions."""
    convolutions = [block for block, length in enumerate(lengths) for _ in range(length)]
    owner, done = dict[str, int](), 0
    for op in model.graph.ops:
        done += SPECS[op.kind].family == "convolution"
        if op.kind == "mean":  # the classifier begins
            break
        owner[op.name] = convolutions[max(done, 1) - 1]
    return owner


def _by_block(plan: Plan, owner: dict[str, int]) -> list[int]:
    """Return the most bytes that are live while a layer of each block runs; `owner` maps layers to blocks."""
    rows = sorted((owner[row.name], row.live) for row in plan_layers(plan) if row.name in owner)
    return [max(live for _, live in own) for _, own in groupby(rows, key=lambda row: row[0])]


def scales() -> dict[str, Any]:
    """Return schedule -> parts of the record of a plan of the detector of two scales; `fine` names the fine map."""
    model = model_of(graph_of(*SCALES))
    made = {name: api.make_plan(model, SCHEDULES[name]) for name in LADDER_SCHEDULES}
    return {name: _parts(record(model, plan=plan)) | {"fine": _fine_map(plan)} for name, plan in made.items()}


def _fine_map(plan: Plan) -> str:
    """Return the name of the fine map of the detector of two scales: the first input of its only concatenation."""
    (name,) = {str(op.inputs[0]) for op in plan.graph.ops if op.kind == "concatenation"}
    return name


def _parts(whole: Record) -> dict[str, Any]:
    """Return the parts of `whole`, a plan's record, that the pictures of its memory and of its layers need."""
    return {
        "model": {"name": whole["model"]["name"]},
        "plan": {"steps": whole["plan"]["steps"]},
        "ram": {"memories": whole["ram"]["memories"]},
        "layers": [{key: layer[key] for key in ("name", "step", "live", "macs")} for layer in whole["layers"]],
        "buffers": [{key: buffer[key] for key in BUFFER_KEYS} for buffer in whole["buffers"]],
    }


def figures() -> dict[str, Any]:
    """Return the contents of planned.json: the data of all drawings on the page that need plans of large networks."""
    return {
        "ladder": [rung(each) for each in RUNGS],
        "profiles": [profile(each) for each in COMPARED],
        "scales": scales(),
    }

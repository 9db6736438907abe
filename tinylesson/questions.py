"""Answer requests of the explorer's page: a fast estimate, an exact plan, a Pareto front, facts of a dropped model.

In: JSON, which is untrusted. Out: plain values for the page.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from tinynas.costs import model_of
from tinynas.published.patches import macs, peak_bytes
from tinynas.ram.arena import arena_of
from tinyweave import api
from tinyweave.api.results import Model
from tinyweave.devices import all_devices, find
from tinyweave.ir import CompileError
from tinyweave.planning import Limits, Request
from tinyweave.report.front import front_record, proved_lines
from tinyweave.report.page import Entry, told
from tinyweave.report.record import record
from tinyweave.report.tables import plan_layers
from tinyweave.support.parent import end_with_parent, limit_process

from .networks import NETWORKS, RESOLUTIONS, WIDTHS, blocks_of, graph_of, layers_of

SCHEDULES = ("best", "layer", "patch", "msf")
OBJECTIVES = ("size", "speed")
MOST_RAM = 4 << 20  # bytes
MOST_OVERHEAD = 2.0  # of MACs
GRIDS = (0, 2, 3, 4)  # patches along a side of the image; 0 lets the planner choose
KEYS = {"network", "resolution", "width", "schedule", "grid", "stream", "overhead", "ram", "device", "optimize"}
NO_LIMIT = "64m"  # Flash limit that no accepted model exceeds; the page has no Flash limit
WHAT_TO_DO = "reload the page"


@dataclass(frozen=True)
class Asked:
    """A checked request of the page for a plan.

    `network` is a name in NETWORKS, or the SHA-256 of a dropped model, for which `resolution` and `width` are ignored.
    `overhead` limits the MACs, as a multiple of the network's; `ram` is in bytes.
    """

    network: str
    resolution: int
    width: float
    schedule: str
    stream: bool
    overhead: float
    ram: int
    device: str
    optimize: Literal["size", "speed"]


def question(value: Any, known: frozenset[str] = frozenset()) -> Asked:
    """Check a request of the page; `known` has the SHA-256 of dropped models.

    Raise CompileError for other keys or values than the page sends.
    """
    if not isinstance(value, dict) or set(value) != KEYS:
        raise CompileError(f"a question has the keys {', '.join(sorted(KEYS))}", WHAT_TO_DO)
    network, device, schedule, stream, grid = (value[key] for key in ("network", "device", "schedule", "stream", "grid"))
    is_there = {
        "network": isinstance(network, str) and (network in NETWORKS or network in known),
        "device": isinstance(device, str) and device in {each.name for each in all_devices()},
        "schedule": schedule in SCHEDULES and isinstance(stream, bool) and type(grid) is int and grid in GRIDS,
        "objective": value["optimize"] in OBJECTIVES,
    }
    if not all(is_there.values()):
        raise CompileError(f"there is no such {next(key for key in is_there if not is_there[key])}", WHAT_TO_DO)
    return Asked(
        network=network,
        resolution=int(_number(value, "resolution", *RESOLUTIONS)),
        width=_number(value, "width", *WIDTHS),
        schedule=f"patch:{grid}" if schedule == "patch" and grid else schedule,
        stream=stream,
        overhead=_number(value, "overhead", 1.0, MOST_OVERHEAD),
        ram=int(_number(value, "ram", 1, MOST_RAM)),
        device=device,
        optimize=value["optimize"],
    )


def _number(value: dict[str, Any], key: str, least: float, most: float) -> float:
    """Return the number at a key of a request; raise CompileError if it is not within [least, most]."""
    number = value[key]
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not least <= number <= most:
        raise CompileError(f"{key} is to be a number from {least:g} to {most:g}", WHAT_TO_DO)
    return float(number)


def fast(asked: Asked) -> dict[str, Any] | None:
    """Estimate a built-in network without its graph, as `by_formula` and `arena`; None for a dropped model.

    `arena` is the least RAM in bytes without recomputation, or None if no formula covers the network.
    """
    if asked.network not in NETWORKS:
        return None
    setting = asked.network, asked.resolution, asked.width
    found, least = blocks_of(*setting), None
    with suppress(CompileError):
        least = arena_of(*found, stream_inputs=asked.stream) if found else None
    return {"arena": least, **by_formula(*setting)}


def by_formula(network: str, resolution: int, width: float) -> dict[str, int]:
    """Return `macs`, the number of `weights`, and the bytes of the largest `layer`'s input and output, as papers count."""
    layers, classes = layers_of(network, resolution, width)
    dense = layers[-1].c_out * classes
    weights = sum(layer.macs_per_pixel for layer in layers) + dense
    return {"layer": peak_bytes(layers), "macs": macs(layers) + dense, "weights": weights}


def exact(asked: Asked, given: str | None = None) -> dict[str, Any]:
    """Plan a network as a request asks, and return the data for the page.

    `entry` is the plan as a report shows it, `least` the least arena in bytes without the RAM limit, and `layer` the live bytes
    of each layer in a layer-by-layer plan. `given` is the path of a dropped model; None for a built-in network.
    """
    model, board = _model(asked, given), find(asked.device)
    limits = Limits(asked.ram, reads=api.flash_reads(board))
    plan = api.make_plan(model, replace(_request(asked), limits=limits))
    entry = Entry(record(model, plan=plan, device=board, limits=limits))
    least, alone = _least_and_unfused(replace(asked, ram=0), given)
    return {"entry": told(entry, model.name), "least": least, "layer": alone}


@lru_cache(maxsize=8)
def _least_and_unfused(asked: Asked, given: str | None) -> tuple[int, dict[str, int]]:
    """Return the least arena in bytes, and layer -> live bytes unfused; cached, as the RAM limit does not matter."""
    model, request = _model(asked, given), _request(asked)
    least = api.make_plan(model, replace(request, objective="size", limits=Limits(0)))
    layers = plan_layers(api.make_plan(model, Request("layer", core=request.core)))
    return sum(least.arena.values()), {layer.name: layer.live for layer in layers}


def _request(asked: Asked) -> Request:
    """Return the planner's Request for a request of the page, without the RAM limit."""
    return Request(
        asked.schedule,
        asked.optimize,
        max_mac_overhead=asked.overhead if asked.schedule in ("best", "msf") else None,
        stream_inputs=asked.stream and asked.schedule != "layer",
        core=find(asked.device).core,
    )


def front(asked: Asked, given: str | None = None) -> dict[str, Any]:
    """Return the Pareto front of RAM and cycles, with the sentences that `plan --pareto` prints; `given` as for `exact`."""
    model, board = _model(asked, given), find(asked.device)
    limits = Limits(reads=api.flash_reads(board))
    plans = api.front(model, replace(_request(replace(asked, schedule="best", optimize="speed")), limits=limits))
    found = front_record(model, plans, limits, board.core, board)
    return {"front": found, "says": {"front": proved_lines(found)}}


def command(asked: Asked, source: str | None = None, *, is_front: bool = False) -> str:
    """Return the shell command for the answer of `exact`, or of `front`; `source` is the path of the user's model."""
    request = _request(replace(asked, schedule="best")) if is_front else _request(asked)
    words = [f"--schedule {asked.schedule}"] if not is_front and asked.schedule != "best" else []
    words += ["--stream-inputs"] if request.stream_inputs else []
    words += [f"--max-mac-overhead {request.max_mac_overhead:g}"] if request.max_mac_overhead else []
    words += ["--pareto"] if is_front else [f"--optimize {request.objective}", f"--ram {asked.ram}"]
    file = source or f"{asked.network}.tflite"
    plan = " ".join((f"tinyweave plan {shlex.quote(file)} --io int8 --device {asked.device}", *words, f"--flash {NO_LIMIT}"))
    written = f"python -m tinylesson.networks {asked.network} {asked.resolution} {asked.width:g} {file}"
    return plan if source else f"{written} && {plan}"


def look_command(source: str) -> str:
    """Return the shell command that plans the model at the path `source`."""
    return f"tinyweave plan {shlex.quote(source)}"


def _model(asked: Asked, given: str | None) -> Model:
    """Return the model of a request; `given` is the path of a model dropped on the page, None for a built-in network."""
    return _given(given) if given else _built(asked.network, asked.resolution, asked.width)


@lru_cache(maxsize=8)
def _built(network: str, resolution: int, width: float) -> Model:
    """Return a built-in network as a model; the last 8 are cached."""
    return model_of(graph_of(network, resolution, width))


@lru_cache(maxsize=4)
def _given(path: str) -> Model:
    """Return the model in a file, with int8 inputs and outputs; the last 4 are cached."""
    return api.load(path, io="int8")


def look(path: str) -> dict[str, Any]:
    """Import a model and return a dict with its number of `layers`; raise CompileError if it cannot be compiled."""
    return {"layers": len(_given(path).graph.ops)}


def confine(most_bytes: int) -> None:
    """Prepare this worker process: limit its memory to `most_bytes`, and end it with its parent."""
    end_with_parent()
    limit_process(most_bytes)

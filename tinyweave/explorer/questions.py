"""Answer what the explorer is asked: at once by the fast form, exactly by the planner.

In: a question as JSON, which anybody may have sent. Out: plain values for the page.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import api
from ..devices import all_devices, find
from ..ir import CompileError
from ..nas.arena import arena_of
from ..nas.costs import model_of
from ..papers.chain import macs
from ..papers.patches import peak_bytes
from ..report.front import front_record, proved_lines
from ..report.page import Entry, told
from ..report.record import record
from ..report.tables import plan_layers
from ..results import Limits, Model
from .networks import NETWORKS, RESOLUTIONS, RUNGS, WIDTHS, blocks_of, graph_of, layers_of

SCHEDULES = ("best", "layer", "patch", "msf", "stream2d")
BY_ROWS = ("best", "msf", "stream2d")  # their first stage takes an input that comes by rows
LADDER_CORE = "cortex-m7"  # of the ladder's larger microcontroller
MOST_RAM = 4 << 20  # bytes
MOST_OVERHEAD = 2.0
GRIDS = (0, 2, 3, 4)  # patches along a side; 0: searched
KEYS = {"network", "resolution", "width", "schedule", "grid", "stream", "overhead", "ram", "device"}
WHAT_TO_DO = "reload the page"


@dataclass(frozen=True)
class Asked:
    """network: a name, or the SHA-256 of a model that was given. ram: bytes of the budget. overhead: F."""

    network: str
    resolution: int
    width: float
    schedule: str
    stream: bool
    overhead: float
    ram: int
    device: str


def question(value: Any, known: frozenset[str] = frozenset()) -> Asked:
    """Return what was asked, checked; known: models that were given."""
    if not isinstance(value, dict) or set(value) != KEYS:
        raise CompileError(f"a question has the keys {', '.join(sorted(KEYS))}", WHAT_TO_DO)
    network, device, schedule, stream, grid = (value[key] for key in ("network", "device", "schedule", "stream", "grid"))
    is_there = {
        "network": isinstance(network, str) and (network in NETWORKS or network in known),
        "device": isinstance(device, str) and device in {each.name for each in all_devices()},
        "schedule": schedule in SCHEDULES and isinstance(stream, bool) and type(grid) is int and grid in GRIDS,
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
    )


def _number(value: dict[str, Any], key: str, least: float, most: float) -> float:
    number = value[key]
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not least <= number <= most:
        raise CompileError(f"{key} is to be a number from {least:g} to {most:g}", WHAT_TO_DO)
    return float(number)


def fast(asked: Asked) -> dict[str, Any] | None:
    """Return in milliseconds what is known without a graph, None where that is nothing.

    arena: of the plan with the least RAM that computes nothing twice, by nas/ram_model.py, None where that is not known; with
    what `by_formula` says.
    """
    if asked.network not in NETWORKS:
        return None
    setting = asked.network, asked.resolution, asked.width
    found, least = blocks_of(*setting), None
    with suppress(CompileError):
        least = arena_of(*found, stream_inputs=asked.stream) if found else None
    return {"arena": least, **by_formula(*setting)}


def by_formula(network: str, resolution: int, width: float) -> dict[str, int]:
    """Return what papers count of a network: input and output of its largest layer, without skips; its weights, its work."""
    layers, classes = layers_of(network, resolution, width)
    dense = layers[-1].c_out * classes
    weights = sum(layer.macs_per_pixel for layer in layers) + dense
    return {"layer": peak_bytes(layers), "macs": macs(layers) + dense, "weights": weights}


def rung(number: int) -> dict[str, Any]:
    """Return what a network of the memory ladder needs as planned, with kernels of a Cortex-M7.

    arenas: layer by layer; of the best plan that computes nothing twice; of that with its image by rows.
    """
    network = RUNGS[number]
    model = model_of(graph_of(network.network, network.resolution, network.width))
    ways: list[dict[str, Any]] = [{"schedule": "layer"}, {}, {"stream_inputs": True}]
    plans = [api.plan(model, optimize="size", core=LADDER_CORE, **way) for way in ways]
    arenas = [sum(plan.arena.values()) for plan in plans]
    return {"arenas": arenas, "constants": api.flash_need(plans[-1]).constants}


def exact(asked: Asked, given: str | None = None) -> dict[str, Any]:
    """Return the plan that was asked for as an entry of a report, what the same layer by layer needs, and the least arena.

    given: the path of the model, of one that is no network of ours.
    """
    model, board = _model(asked, given), find(asked.device)
    limits = Limits(asked.ram, None, reads=api.flash_reads(board))
    plan = api.plan(model, limits=limits, core=board.core, **_options(asked))
    entry = Entry(record(model, plan=plan, device=board, limits=limits))
    least, alone = _whatever_the_budget(replace(asked, ram=0), given)
    return {"entry": told(entry, model.name), "least": least, "layer": alone}


@lru_cache(maxsize=8)
def _whatever_the_budget(asked: Asked, given: str | None) -> tuple[int, dict[str, int]]:
    """Return the least arena, and what each layer needs by itself; asked again while the budget is dragged."""
    model, core = _model(asked, given), find(asked.device).core
    least = api.plan(model, optimize="size", core=core, **_options(asked))
    layers = plan_layers(api.plan(model, core=core, schedule="layer"))
    return sum(least.arena.values()), {layer.name: layer.live for layer in layers}


def _options(asked: Asked) -> dict[str, Any]:
    """Return what the planner takes; a schedule that has no use for an option is not given it."""
    return {
        "schedule": asked.schedule,
        "stream_inputs": asked.stream and asked.schedule in BY_ROWS,
        "max_mac_overhead": asked.overhead if asked.schedule in ("best", "msf") else None,
    }


def front(asked: Asked, given: str | None = None) -> dict[str, Any]:
    """Return the plans worth having, whatever the budget, as `plan --pareto` does; with its sentences."""
    model, board = _model(asked, given), find(asked.device)
    options = {"max_mac_overhead": asked.overhead, "stream_inputs": asked.stream}
    limits = Limits(None, None, reads=api.flash_reads(board))
    plans = api.front(model, limits, core=board.core, **options)
    found = front_record(model, plans, limits, board.core, board)
    return {"front": found, "says": {"front": proved_lines(found)}}


def _model(asked: Asked, given: str | None) -> Model:
    return _given(given) if given else _built(asked.network, asked.resolution, asked.width)


@lru_cache(maxsize=8)
def _built(network: str, resolution: int, width: float) -> Model:
    return model_of(graph_of(network, resolution, width))


@lru_cache(maxsize=4)
def _given(path: str) -> Model:
    return api.load(Path(path), "int8")


def look(path: str) -> dict[str, Any]:
    """Return what a given model is; CompileError where it cannot be compiled."""
    return {"layers": len(_given(path).graph.ops)}


def confine(most_bytes: int) -> None:
    """Limit the memory of the process that reads what strangers give, where the system can.

    Ctrl-C is for its parent, which then ends it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

"""The settings of a search: of its samples (Preparation) and of its algorithm (SearchOptions).

Fields made by `_setting` are the names of `--set NAME=VALUE` of the commands `search` and `train`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from tinyweave.lazy import lazy

if TYPE_CHECKING:
    from tinyweave import ir

    from .arch import Arch
    from .halving import Rung
    from .one_shot import SupernetBudget
else:
    ir = lazy("tinyweave.ir")  # numpy, which `--help` does not need

TASKS = ("images", "visual-wake-words", "keywords", "sensors", "detection")
SPACES = ("auto", "mobilenet_v3", "mobilenet_v3_by_group")  # search spaces for images
STRATEGIES = ("auto", "halving", "supernet")


def _setting(default: Any, about: str, tasks: str = "", *, trains: bool = False) -> Any:
    """Return a dataclass field that `--set` can set.

    Args:
        about: help text.
        tasks: names of the tasks that have the setting; "" for all.
        trains: whether `train` has the setting, too; it takes the others from the network.
    """
    return field(default=default, metadata={"about": about, "tasks": tuple(tasks.split()) or TASKS, "trains": trains})


@dataclass(frozen=True)
class Preparation:
    """Settings for reading the samples of a task; each task uses the fields that apply to it."""

    size: tuple[int, int] | None = _setting(
        None, "rows and columns of the image, as 96 or 120x160; else the search chooses", "images visual-wake-words detection"
    )
    channels: int = _setting(3, "channels of the image: 3 (RGB) or 1 (grey)", "images visual-wake-words detection")
    seconds: float = _setting(1.0, "length of a recording", "keywords", trains=True)
    bands: int | None = _setting(None, "log-mel bands; else the search chooses, of MFCC 40", "keywords", trains=True)
    hop_ms: float | None = _setting(
        None, "milliseconds from one frame to the next; else the search chooses", "keywords", trains=True
    )
    frames: int = 0  # of a given network for sounds, which has a hop of `prepare.HOPS_MS`; 0 if there is no network
    by_speaker: bool = _setting(False, "yes puts all recordings of a speaker into the same part", "keywords", trains=True)
    window: int = _setting(128, "rows (moments) in an input of the network", "sensors")
    classes: tuple[str, ...] = _setting(
        (), "classes to find, as person,dog; else all, of visual wake words person", "visual-wake-words detection", trains=True
    )
    anchors: int = 5  # boxes per cell of a detector, see `read_detection`
    stride: int = 16  # rows of the image per cell of a detector
    space: str = _setting(
        SPACES[0], f"search space, {', '.join(SPACES)}: see `tinyweave docs search`", "images visual-wake-words"
    )
    coefficients: int = _setting(0, "MFCC per frame, usually 10; 0 for log-mel bands", "keywords", trains=True)


@dataclass(frozen=True)
class SearchOptions:
    """Options of `search`."""

    strategy: str = _setting(
        "auto",
        "halving trains many networks briefly and the best of them longer; supernet trains all at once with shared weights; "
        "auto is halving, or supernet with `against` or under torchrun",
    )
    minutes: float | None = None  # time limit; None: MINUTES, or the budget of the TinyNAS paper for a supernet on a GPU
    seed: int = 0
    supernet: str = _setting(
        "", "folder of another search by supernet on the same samples, whose supernet is used for this device"
    )
    processes: int = 2  # that train and plan networks in parallel
    ray: bool = _setting(False, "yes trains on the Ray cluster of RAY_ADDRESS, or on a local one")
    feasible: float = _setting(
        0.8, "least share of the networks of an input size, or of a supernet's width, that must fit the device"
    )
    search_plan: bool = _setting(
        False, "yes also searches each network's schedule, streaming, recomputation, and smaller kernels in the first blocks"
    )
    rungs: Sequence[Rung] | None = None  # rounds of successive halving, instead of a time limit
    supernet_budget: SupernetBudget | None = None  # epochs and generations of the strategy "supernet", instead of a time limit
    against: Sequence[str] = _setting(
        (), "supernet: costs ram, flash, macs, ms, mj for a Pareto front with accuracy, as ram,ms"
    )
    archs: Sequence[Arch] = ()  # candidates of `rungs`, instead of sampled ones; they need not fit


DEFAULTS = SearchOptions()


def settable() -> dict[str, Field[Any]]:
    """Return the fields that `--set` can set by name: those of samples, then those of the algorithm."""
    return {each.name: each for kind in (Preparation, SearchOptions) for each in fields(kind) if each.metadata}


def settings_help(*, trains: bool = False) -> str:
    """Return a title, and for each setting, or each one that `train` has, a line of its name, a tab, and its help."""
    lines = ["Settings of --set"]
    for name, each in settable().items():
        tasks, default = each.metadata["tasks"], "no" if each.default is False else each.default
        if each.metadata["trains"] or not trains:
            of = "" if tasks == TASKS else f"{', '.join(tasks)}: "
            lines.append(f"{name}\t{of}{each.metadata['about']}.{f'  [default: {default}]' if default else ''}")
    return "\n".join(lines)


def parsed(given: Sequence[str], task: str, *, trains: bool = False) -> tuple[Preparation, dict[str, Any]]:
    """Parse the values of `--set`; return the settings of the samples, and the fields of SearchOptions.

    Each value has one setting, NAME=VALUE, or several separated by commas. A VALUE may have commas itself, if no NAME= follows.

    Raises:
        CompileError: a setting is unknown, is of another task or verb, is given twice, or has a malformed value.
    """
    known = {name: each for name, each in settable().items() if task not in TASKS or task in each.metadata["tasks"]}
    values = dict[str, Any]()
    for name, text in pairs(given):
        if name not in known:
            near = " or ".join(difflib.get_close_matches(name, known, n=3)) or f"one of {', '.join(known)}"
            why = f"{task} has no such setting" if name in settable() else "no task has this setting"
            raise ir.CompileError(f"--set {name[:60]}: {why}", f"give {near}")
        if trains and not known[name].metadata["trains"]:
            raise ir.CompileError(f"--set {name} has no effect on a given network", "leave it out")
        if name in values:
            raise ir.CompileError(f"--set gives {name} twice", "give it once")
        values[name] = _value(name, text, str(known[name].type).removesuffix(" | None"))
    own = {each.name for each in fields(Preparation)}
    return Preparation(**{n: v for n, v in values.items() if n in own}), {n: v for n, v in values.items() if n not in own}


def pairs(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each setting; a part between commas without "=" belongs to the value before it."""
    for text in given:
        joined = list[str]()
        for part in text.split(","):
            if "=" in part:
                joined.append(part)
            elif joined:
                joined[-1] += f",{part}"
            else:
                raise ir.CompileError(f"--set {text[:60]} has no value", f"write --set {part.strip()[:60] or 'NAME'}=VALUE")
        for each in joined:
            name, _, value = each.partition("=")
            yield name.strip().replace("-", "_"), value.strip()


def _value(name: str, text: str, kind: str) -> Any:
    """Return the value of a setting from its text; `kind` is the type of its field."""
    try:
        if kind == "bool":
            return {"yes": True, "no": False}[text]
        if kind == "tuple[int, int]":
            sides = [int(side) for side in text.split("x")]
            (rows, columns) = sides * 2 if len(sides) == 1 else sides
            return rows, columns
        if kind in ("int", "float", "str"):
            return {"int": int, "float": float, "str": str}[kind](text)
        return tuple(filter(None, map(str.strip, text.split(","))))
    except (KeyError, ValueError) as error:
        wants = {"bool": "yes or no", "int": "a whole number", "float": "a number"}.get(kind, "a side 32, or sides 120x160")
        raise ir.CompileError(f"--set {name}={text[:60]} is not a value of {name}", f"give {wants}") from error

"""Record advice for a plan that does not fit: complete commands with changed options, and changes of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..api.options import LIMITS, option_words
from ..api.results import Model
from ..planning import Limits
from ..support.command_words import quoted
from .record import Record, proposal_record, remedy_record

if TYPE_CHECKING:
    from ..api.advice import Advice, Remedy

Options = Mapping[str, Any]  # values of a command's options by parameter name
SIDE, FEWEST_FEATURES = 16, 8  # least rows and columns of an image; least rows and features of a sound
MOST_SENSORS = 16  # channels of a window of sensor values


def advice_record(verb: str, model: Model, limits: Limits, options: Options, found: Advice) -> Record:
    """Return the keys `advice` (commands, best first), `remedies` (changes of the network) and `least` (RAM, Flash reached)."""
    advice = []
    for proposal in found.proposals:
        # RAM and Flash limits of one board do not apply to another
        own_limits = {"ram": None, "flash": None} if "device" in proposal.changes else {}
        words = ["tinyweave", verb, str(model.path), *option_words({**options, **own_limits, **proposal.changes})]
        advice.append(proposal_record(proposal, " ".join(map(quoted, words)), _words(proposal.changes)))
    shape = model.graph.tensors[model.graph.inputs[0]].shape if model.graph.inputs else None
    changes = [
        remedy_record(
            remedy,
            _remedy_command(remedy, model, limits, options),
            _words(remedy.changes),
            shape if remedy.way == "input" else None,
        )
        for remedy in found.remedies
    ]
    return {"advice": advice, "remedies": changes, "least": found.least}


def _words(changes: Mapping[str, Any]) -> list[str]:
    """Return changed options as command-line words, including options that are changed back to their defaults."""
    words = (list(option_words({name: value})) or [f"--{name}", str(value)] for name, value in changes.items())
    return [word for each in words for word in each]


def _task_of(model: Model) -> str:
    """Return the task of `search` for networks with the inputs and outputs of a model, or "TASK" if they may be of several."""
    if len(model.graph.inputs) != 1:
        return "TASK"
    tensors, outputs = model.graph.tensors, len(model.graph.outputs)
    shape, boxes = tensors[model.graph.inputs[0]].shape, [name for name in model.graph.outputs if len(tensors[name].shape) > 2]
    if len(shape) == 4 and shape[3] == 3 and min(shape[1:3]) >= SIDE:
        return "images" if outputs == 1 else "detection" if boxes else "TASK"
    if outputs > 1 or shape[0] != 1:
        return "TASK"
    if (len(shape) == 3 or (len(shape) == 4 and 1 in shape[1:3])) and 1 < shape[-1] <= MOST_SENSORS < max(shape[1:-1]):
        return "sensors"
    is_map = len(shape) == 4 and shape[3] == 1 and min(shape[1:3]) >= FEWEST_FEATURES
    return "TASK" if not is_map else "images" if shape[1] == shape[2] else "keywords"


def _remedy_command(remedy: Remedy, model: Model, limits: Limits, chosen: Options) -> str | None:
    """Return the command for a change of the network, with placeholders in capitals; None for a smaller input."""
    target = {name: chosen[name] for name in ("device", *LIMITS)}
    sizes = {name: chosen[name] or getattr(limits, name) for name in ("ram", "flash")}
    words = {
        "quantize": ["FLOAT_MODEL", "--inputs", "SAMPLES", *option_words({"flash": sizes["flash"]})],
        "prune": ["FLOAT_MODEL", "--inputs", "SAMPLES", *option_words({name: sizes[name] for name in remedy.over})],
        "search": ["--task", _task_of(model), "--data", "FOLDER", *option_words(target), "-o", "found"],
    }
    return " ".join(map(quoted, ["tinyweave", remedy.way, *words[remedy.way]])) if remedy.way in words else None

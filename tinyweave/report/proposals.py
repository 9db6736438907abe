"""Record advice for a plan that does not fit: complete commands with changed options, and changes of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import api
from ..api.options import LIMITS, option_words
from ..api.results import Model
from ..planning import Limits
from ..support.command_words import quoted
from .record import Record, proposal_record, remedy_record

if TYPE_CHECKING:
    from ..api.advice import Advice, Remedy

Options = Mapping[str, Any]  # values of a command's options by parameter name


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


def _remedy_command(remedy: Remedy, model: Model, limits: Limits, chosen: Options) -> str | None:
    """Return the command for a change of the network, with placeholders in capitals; None for a smaller input."""
    target = {name: chosen[name] for name in ("device", *LIMITS)}
    words = {
        "quantize": ["FLOAT_MODEL", "--inputs", "SAMPLES", *option_words({"flash": chosen["flash"] or limits.flash})],
        "search": ["--task", api.task_of(model.graph) or "TASK", "--data", "FOLDER", *option_words(target), "-o", "found"],
    }
    return " ".join(map(quoted, ["tinyweave", remedy.way, *words[remedy.way]])) if remedy.way in words else None

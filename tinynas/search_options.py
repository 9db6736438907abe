"""Check the options of a search, and choose its strategy. In: SearchOptions. Out: their faults; "halving" or "supernet"."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyweave.ir import CompileError
from tinyweave.support.installing import install

from .evolution import OBJECTIVES
from .one_shot import MAX_PROCESSES, SUPERNET
from .settings import STRATEGIES, SearchOptions
from .stage_one import check_share

if TYPE_CHECKING:
    from .learning.team import Team

MINUTES = 20  # default time limit
# what progress reports begin with that the command prints, too
NEEDS, FEW_FIT, TOO_SHORT = "needs about", "few networks to choose from", "too little time for a supernet"
TOOK = "took"
PRINTED = {
    NEEDS: "{} of wall-clock time, if no other program runs",
    FEW_FIT: "has {}; higher limits give it more",
    TOO_SHORT: "has {}",
    TOOK: "{}: other programs ran, or the processors are slower than measured; neither changes the result",
}
LATE = 1.1  # times the predicted time, after which a search says that it took longer
RUN = "search.json"  # file of a run's settings and plan, in the folder of the run


def check_options(options: SearchOptions, kind: str) -> None:
    """Raise CompileError if PyTorch is missing or an option is out of range. `kind` is the kind of the samples."""
    if find_spec("torch") is None:
        raise CompileError("training needs PyTorch, which is not installed", install("search"))
    check_share(options.feasible)
    if options.minutes is not None and not 0 < options.minutes < inf:
        raise CompileError(f"--minutes {options.minutes:g} is out of range", f"give more than 0, for example {MINUTES}")
    if options.archs and options.rungs is None:
        raise CompileError("archs are given without rungs", "give the rungs of their training, too")
    if options.supernet:
        search_of(options.supernet)


def strategy_for(kind: str, options: SearchOptions, folder: Path, team: Team | None) -> str:
    """Return the strategy of a search, "halving" or "supernet": as rungs, a supernet budget or torchrun imply, else by options.

    "auto" is "halving" for detectors, the strategy of the run in the folder, or else "supernet" if `against` names costs.
    `team` is None without torchrun. Raise CompileError if the strategy or a cost in `against` is unknown, or the options
    exclude each other.
    """
    strategy = "supernet" if options.supernet_budget else "halving" if options.rungs else options.strategy
    if options.supernet and strategy == "halving":
        raise CompileError("halving has no use for the supernet of another search", "leave out supernet, or the other strategy")
    strategy = "supernet" if options.supernet else strategy
    if kind == "detection" and strategy == "supernet":
        raise CompileError("a supernet does not support detection", "leave out strategy, or give strategy=halving")
    strategy = "halving" if kind == "detection" and strategy == "auto" else strategy
    if strategy not in STRATEGIES:
        raise CompileError(f"strategy={strategy} is unknown", f"give one of {', '.join(STRATEGIES)}")
    if unknown := set(options.against) - set(OBJECTIVES):
        raise CompileError(f"against={sorted(unknown)[0]} is unknown", f"give one of {', '.join(OBJECTIVES)}")
    if options.against and strategy == "halving":
        raise CompileError("halving has one objective, accuracy", "leave out against, or give strategy=supernet")
    if team is not None:
        if strategy == "halving":
            raise CompileError("torchrun trains supernets only", "give strategy=supernet, or start without torchrun")
        if team.size > MAX_PROCESSES:
            raise CompileError(f"torchrun starts {team.size} processes", f"at most {MAX_PROCESSES} share a supernet")
        return "supernet"
    if strategy != "auto":
        return strategy
    if (folder / RUN).is_file():
        with suppress(ValueError, OSError, AttributeError):  # `_read_run` reports the fault
            return str(json.loads((folder / RUN).read_text()).get("strategy", "halving"))
    return "supernet" if options.against else "halving"


def search_of(folder: str) -> dict[str, Any]:
    """Return facts of the search by supernet in a folder; raise CompileError if there is none, or it has trained none yet."""
    try:
        run = json.loads((Path(folder) / RUN).read_text())
        facts = {name: run[name] for name in ("version", "space")} | {"sizes": [list(size) for size in run["sizes"]]}
        facts |= {name: int(run["supernet"][name]) for name in ("warm_up", "epochs")}
        facts["widths"] = [float(width) for width in run["widths"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CompileError(
            f"'{folder}' holds no search by supernet", "give the folder of one, or leave out supernet"
        ) from error
    if not (Path(folder) / SUPERNET).is_file():
        raise CompileError(f"the supernet in '{folder}' is not trained yet", "let that search go on, or leave out supernet")
    return facts

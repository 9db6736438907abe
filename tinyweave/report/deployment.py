"""Deploy a model: plan, write, prove, measure and report its C, for `tw.deploy` and for the command `deploy`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import api
from ..api.code import CodeOptions
from ..api.options import SAMPLES, SEED, CodeChanges, PlanOptions, command_line
from ..api.references import ProofOptions
from ..api.results import Deployment, Model
from ..api.sample_files import Sample, arrays_of
from ..api.verbs import DEFAULTS, AnyModel, changed, device_of, divided, model_of, output_folder
from ..devices import Device
from ..planning import Plan, Progress, Request, SpaceCache
from ..support.files import write_below
from ..support.manifest import digests, generated_folder
from .front import front_of
from .markdown import markdown
from .page import Entry, page
from .proposals import advice_record
from .record import Record, deployment_record, record
from .words import picture

if TYPE_CHECKING:
    from typing_extensions import Unpack

MORE_STACK = 256  # bytes that advice adds to a measured stack, because other options may need a larger one


def deploy(
    model: AnyModel,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    out: str | Path,
    inputs: Sequence[Sample] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
    **changes: Unpack[CodeChanges],
) -> Deployment:
    """Plan a model, write its C and a report into a folder, verify it, and measure it on an emulated core.

    If the measured sizes or time exceed the limits, the model is planned again with the measured values, a few times at most.
    If the plan already exceeds a limit, nothing is built or written.

    Args:
        model: a model, or the path of its file.
        device: a device or its name, as for `verify`.
        out: the folder of the C and the reports (report.html, report.md, report.json), created if necessary.
        inputs: samples for the comparison, as for `verify`.
        samples: as for `verify`.
        seed: as for `verify`.
        changes: as for `compile`.

    Returns:
        The plan, the measurements and the comparison. The verdicts are `.fits` (within the limits) and `.verification.ok`. If
        the model does not fit, `.record["advice"]` has options or changes with which it would.
    """
    code, typed, progress, more = divided(changes)
    written_to, chosen, target = output_folder(out), changed(options, more), device_of(device)
    loaded = model_of(model, chosen)
    proof = ProofOptions(list(map(arrays_of, inputs)), samples, seed)
    words = _typed(loaded, target, chosen, code, proof) | {"out": written_to} if typed is None else typed
    code = replace(code, command=_command(loaded, words) if typed else "")
    return _deployed(
        loaded, target, api.request_of(chosen, target), written_to, code=code, proof=proof, words=words, progress=progress
    )


def planned(
    model: Model,
    device: Device | None,
    options: PlanOptions,
    typed: Mapping[str, Any],
    *,
    with_front: bool = False,
    progress: Progress | None = None,
) -> tuple[Plan, Entry]:
    """Plan a model; return the plan, and its record with the bytes that each technique saves, and advice if it does not fit."""
    request, known = api.request_of(options, device), SpaceCache()
    plan = api.make_plan(model, request, known=known, progress=progress)
    found = record(model, plan=plan, device=device, limits=request.limits)
    found["plan"]["ablation"] = api.ablation(model.graph, plan, options.schedule)
    if found["fits"] is False:
        advice = api.advise(model, plan, request, board=device, known=known, progress=progress)
        found |= advice_record("plan", model, request.limits, typed, advice)
    is_shown = with_front and request.strategy == "best"
    return plan, Entry(found, front_of(model, device, request, known=known, progress=progress) if is_shown else None)


def _typed(model: Model, device: Device | None, options: PlanOptions, code: CodeOptions, proof: ProofOptions) -> dict[str, Any]:
    """Return the options of the command `deploy` that a call from Python means, by parameter name; arrays are left out."""
    about = {"device": device and device.name, **options.limits, **asdict(options), "io": model.io, "layout": model.layout}
    about |= {"source": code.row_source, "pixels": code.pixels, "kernel_prefix": code.kernel_prefix}
    return about | {"samples": proof.count, "seed": proof.seed}


def _command(model: Model, words: Mapping[str, Any]) -> str:
    return command_line("deploy", [model.path], {name: value for name, value in words.items() if name != "out"})


def _deployed(
    model: Model,
    device: Device | None,
    request: Request,
    folder: Path,
    *,
    code: CodeOptions,
    proof: ProofOptions,
    words: Mapping[str, Any],
    progress: Progress | None,
) -> Deployment:
    """Plan a model; if it fits, write, prove, measure and report its C. `words` has the command's options, for the report."""
    row_source = api.row_source_bytes(model, code.row_source) if code.row_source else 0
    beside = replace(request, limits=request.limits.less(row_source)) if row_source else request
    known: SpaceCache = {}

    def advice(plan: Plan, request: Request, flash: int | None = None) -> Record:
        found = api.advise(model, plan, request, board=device, flash=flash, known=known, progress=progress)
        return advice_record("deploy", model, request.limits, words, found)

    plan = api.make_plan(model, beside, known=known, progress=progress)
    done = Deployment(model, plan, None, None, device, request.limits, code.row_source, row_source)
    found = deployment_record(done)
    if found["fits"] is False:  # measuring a build cannot change this verdict
        return replace(done, record=found | advice(plan, beside))
    with generated_folder(folder, code.command, api.origins([model])) as written:
        about: dict[str, Any] = {"code": code, "proof": proof, "earlier": api.EarlierPlan(plan, known)}
        done = api.deploy_model(model, written.scratch, request, device, **about, progress=progress)
        found = deployment_record(done)
        if found["excess"]["flash"]:
            found |= advice(done.plan, beside, found["flash"]["total"])
        elif found["excess"]["ram"]:
            other = found["ram"]["static"] + found["ram"]["stack"] + MORE_STACK
            found |= advice(done.plan, replace(beside, limits=beside.limits.less(other)))
        found |= {"command": _command(model, words), "digests": digests(written.scratch)}
        is_best = request.strategy == "best"
        reports = _reports(done, found, front_of(model, device, beside, known=known, progress=progress) if is_best else None)
        write_below(written.scratch, reports)
    return replace(done, record=found, files=tuple(folder / name for name in (*found["digests"], *reports)), written=written)


def _reports(done: Deployment, found: Record, front: Record | None) -> dict[str, str]:
    """Return the reports of a deployment, file name -> text, from its record and the record of its Pareto front."""
    return {
        "report.html": page([Entry(found, front)]),
        "report.md": markdown(found, picture(done.plan)),
        "report.json": json.dumps(found, indent=2) + "\n",
    }

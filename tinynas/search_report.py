"""Build the record of `search` and `train` (a dict for `--json`), show it on the terminal, and write the model card."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyweave import __version__
from tinyweave.report.columns import clean
from tinyweave.report.schema import VERSION
from tinyweave.report.text import heading, show_lines

from . import halving, journal
from .arch import from_json, is_fitted, macs, to_json, weights
from .costs import NAME
from .searching import SearchResult
from .tasks.dataset import advice, preparation_at
from .tasks.evaluation.baselines import LOGISTIC, MAX_FEATURES, NEAREST, verdict
from .tasks.evaluation.confusion import class_rates, confusion_matrix, weak_classes
from .trained import FIRMWARE

if TYPE_CHECKING:
    from rich.console import Console

Record = dict[str, Any]
ACCURACY = "accuracy"
MEASURES = {"detection": "mAP"}  # kind of samples -> name of the quality measure, if it is not the accuracy
COMPANIONS = {  # kind of samples -> the output of the C beside a network, and the data that it keeps in RAM
    "detection": ("boxes of its output", "the boxes"),
    "sounds": ("features of sound", "a ring of samples and features"),
}
TOO_MUCH = {"ram": "B of RAM too many", "flash": "B of Flash too many", "latency_ms": "ms too long"}  # words of each excess
LAST = "after the last training of each; those that were dropped early had few epochs"
SHOWN = 10  # most candidates in the table of the model card
RECORDED = 300  # candidates in the record, besides those of the Pareto front


def search_record(found: SearchResult, run: Record) -> Record:
    """Return the record of a finished search; `run` is the dict of settings that the search saved in its folder."""
    profile, done = found.deployment.profile, found.deployment
    assert profile and done.verification, "the deployment was built"
    archs = [arch for arch, _ in found.candidates]
    right = {each["candidate"]: each["accuracy"] for each in found.trained}  # after the last training of each
    candidates = [
        {key: getattr(cost, key) for key in ("ram", "flash", "macs", "ms", "mj")} | {"accuracy": right.get(number)}
        for number, (_, cost) in enumerate(found.candidates)
    ]
    front, chosen = _front(candidates, run["against"] or ["ram"]), archs.index(found.arch)
    recorded = sorted({*range(min(RECORDED, len(candidates))), *front, chosen})
    labels, groups, matrix, said, weak = found.data.part("test")[1], found.data.groups_of("test"), None, None, list[str]()
    if found.predicted is not None:
        own = None if not is_fitted(found.arch) else NEAREST if found.arch.stored else LOGISTIC
        matrix = confusion_matrix(labels, found.predicted, len(found.data.classes)).tolist()
        said = verdict(found.predicted == labels, found.baselines, groups, own)
        weak = weak_classes(labels, found.predicted, found.data.classes, groups)
    return {
        "tinyweave": __version__,
        "schema": VERSION,
        "folder": str(found.folder),
        "firmware": str(found.folder / FIRMWARE),
        "model": str(found.folder / f"{NAME}.tflite"),
        "task": {key: run["data"][key] for key in ("kind", "classes", "train", "validation", "test")}
        | {"preparation": preparation_at(found.data, found.arch.image[:2])},
        "space": run["space"],
        "strategy": run["strategy"],
        "device": run["device"],
        "limits": run["limits"],
        "planning": found.arch.plan._asdict() if found.arch.plan else {**run["planning"], "schedule": "best"},
        "arch": to_json(found.arch),
        "macs": macs(found.arch),
        "parameters": weights(found.arch),
        "measure": MEASURES.get(run["data"]["kind"], ACCURACY),
        "accuracy": {**found.accuracy, "interval_95": list(found.interval)},
        "baselines": [{"name": each.name, "setting": each.setting, "accuracy": each.accuracy} for each in found.baselines],
        "verdict": said,
        "advice": [] if said is None else [*weak, *(line for line in advice(found.data) if line not in said)],
        "confusion": matrix,
        "searched": found.costs.record(),
        "deployed": {
            "ram": profile.ram,
            "arena": dict(profile.arena),
            "static": profile.static,
            "stack": profile.stack,
            "flash": profile.flash,
            "latency_ms": profile.latency_ms(done.device),
            "energy_mj": done.device.energy_mj(profile.latency_ms(done.device)) if done.device else None,
        },
        "companions": found.companions,
        "excess": found.deployment.excess,
        "fits": found.fits,
        "verified": done.verification.ok,
        "trained": _trained(found, run),
        "candidates": [candidates[number] for number in recorded],
        "chosen": recorded.index(chosen),
        "front": [{"candidate": recorded.index(number), "arch": to_json(archs[number])} for number in front],
    }


def _trained(found: SearchResult, run: Record) -> Record:
    """Return what was trained: the numbers of networks, and of epochs of all networks, trials, folds and stage one."""
    folds, supernet, archs = run.get("folds", 1), run.get("supernet"), [arch for arch, _ in found.candidates]
    trials = list(journal.entries(found.folder / halving.TRIALS))
    epochs = sum(each["epochs"] for each in trials)
    networks = set(archs[:1] if trials else ())
    for each in found.trained:
        if each.get("epochs") and not is_fitted(arch := archs[each["candidate"]]):
            networks.add(arch)
            epochs += each["epochs"] * (1 if each.get("rung") == len(run["rungs"]) else folds)
    epochs += sum(each["epochs"] for each in run["data"]["preparation"].get("stage_one", {}).get("tried", ()))
    measured = sum("rung" not in each for each in found.trained)
    epochs += supernet["warm_up"] + supernet["epochs"] if supernet and not run.get("supernet folder") else 0
    return {
        "space": run["networks"],
        "candidates": len(found.candidates),
        "networks": len(networks),
        "sampled": run.get("sampled", None if run["archs"] else len(networks)),
        "computed": len({archs[each["candidate"]] for each in found.trained if is_fitted(archs[each["candidate"]])}),
        "rungs": run["rungs"],
        "folds": folds,
        "epochs": epochs,
        "supernet": _supernet(run, supernet, measured) if supernet else None,
    }


def _summary(trained: Record) -> str:
    """Return a line on how many networks were trained, sampled, computed or measured with a supernet, and on the epochs."""
    epochs = f"{trained['epochs']:,} epochs in all"
    said = f"trained: {trained['networks']:,} network{'s' if trained['networks'] != 1 else ''}"
    if supernet := trained["supernet"]:
        whose = f"the supernet in '{clean(supernet['folder'], 200)}'" if supernet["folder"] else "a supernet"
        weights_of = f"the {supernet['measured']:,} that were measured with the weights of {whose}"
        of = f"{weights_of}, out of {trained['space']:.2g} of the space"
        said += f", of them {trained['sampled']:,} of {of}"
    elif trained["sampled"] is not None:
        said += f", of them {trained['sampled']:,} sampled from the {trained['space']:.2g} of the space"
    if trained["computed"]:
        said += f"; computed from the samples without training: {trained['computed']}"
    by_folds = f", with {trained['folds']} trainings of each network in a cross-validation" if trained["folds"] > 1 else ""
    return f"{said}; {epochs}{by_folds}"


def _shown(record: Record) -> str:
    """Return which quality of the candidates the card and the page show."""
    folds = record["trained"]["folds"]
    cross_validated = f"in a cross-validation on {folds} folds, without the test part,"
    where = cross_validated if folds > 1 else "on the validation part"
    how = "with a supernet's weights, or if trained further, after that" if record["trained"]["supernet"] else LAST
    return f"the {record['measure']} {where} {how}"


def for_page(record: Record) -> Record:
    """Return the record with `told`, the sentences of the page on what was trained, and on what its figure shows."""
    said = _summary(record["trained"])
    return record | {"told": f"{said[0].upper()}{said[1:]}. Shown: {_shown(record)}."}


def _supernet(run: Record, budget: Record, measured: int) -> Record:
    """Return how a supernet was trained, how many networks were `measured` with it, and how its width was chosen.

    `folder`: of the search that trained it, None for this one. `share`: of its networks that fit, None if the width was not
    chosen. `enough` is None, or if this share is too small, looser limits that enough networks would fit.
    """
    chosen = {"widths": run["widths"], "share": run.get("share"), "enough": run.get("enough")}
    trained = {key: budget[key] for key in ("warm_up", "epochs")}
    return trained | chosen | {"measured": measured, "folder": run.get("supernet folder")}


def _front(candidates: list[Record], costs: list[str]) -> list[int]:
    """Return the Pareto-optimal candidates, as indices, in accuracy and in the named costs, the most accurate first."""

    def point(number: int) -> tuple[float, ...]:
        each = candidates[number]
        return (-each["accuracy"], *(each[name] or 0 for name in costs))

    front = list[int]()
    for number in sorted((n for n, each in enumerate(candidates) if each["accuracy"] is not None), key=point):
        if not any(all(a <= b for a, b in zip(point(other), point(number), strict=True)) for other in front):
            front.append(number)
    return front


def show_search(out: Console, record: Record) -> None:
    """Show where the firmware was written, and the main facts of the network that was found."""
    heading(out, f"wrote {clean(record['firmware'], 200)}")
    show_lines(out, [line.replace("**", "") for line in _facts(record)])


def card(record: Record) -> str:
    """Return the model card, as Markdown: the facts of the network, its input, and a table of the best candidates."""
    count = len(record["task"]["classes"])
    lines = [
        f"# {record['task']['kind']}: {count} class{'es' if count != 1 else ''}, {record['space']}",
        "",
        *(f"- {line}" for line in _facts(record)),
        "",
        f"Classes: {', '.join(clean(name, 40) for name in record['task']['classes'])}.",
        "",
        f"The network's input: {_input_of(record['task']['preparation'])}.",
        "",
        *_rates(record),
        f"| RAM, B | Flash, B | M MACs | ms | {record['measure']}, % |",
        "|---:|---:|---:|---:|---:|",
    ]
    trained = sorted(record["candidates"], key=lambda each: -(each["accuracy"] or 0))
    for each in trained[:SHOWN]:
        ms = "-" if each["ms"] is None else f"{each['ms']:.1f}"
        right = "-" if each["accuracy"] is None else f"{100 * each['accuracy']:.1f}"
        lines.append(f"| {each['ram']:,} | {each['flash']:,} | {each['macs'] / 1e6:.2f} | {ms} | {right} |")
    lines += [
        "",
        f"The table has the search's candidates, with {_shown(record)}.",
        "",
        f"`{record['arch']}`",
        "",
    ]
    return "\n".join(lines)


def _rates(record: Record) -> list[str]:
    """Return tables of the baselines and of the rates of each class, on the test samples; none for a detector."""
    if record["confusion"] is None:
        return []
    names = [clean(name, 40).replace("|", r"\|") for name in record["task"]["classes"]]
    rows = [(each["name"], each["setting"] or "-", each["accuracy"]) for each in record["baselines"]]
    rows.append(("**this network**", "int8", record["accuracy"]["test_int8"]))
    return [
        "| on the test samples | setting | accuracy, % |",
        "|---|---|---:|",
        *(f"| {name} | {setting} | {100 * share:.1f} |" for name, setting, share in rows),
        "",
        *class_rates(np.array(record["confusion"]), names),
        "",
    ]


def _facts(record: Record) -> list[str]:
    """Return lines on the network: accuracy, RAM, Flash, time and energy if they are known, training, and whether it fits."""
    accuracy, deployed, limits = record["accuracy"], record["deployed"], record["limits"]
    low, high = accuracy["interval_95"]
    lines = [
        f"{record['measure']} on {record['task']['test']:,} samples that the search did not see: "
        f"**{100 * accuracy['test_int8']:.1f} %** in int8 (95 % interval {100 * low:.1f} to {100 * high:.1f}), "
        f"{100 * accuracy['test']:.1f} % in float",
        f"RAM: **{deployed['ram']:,} B** {_of(limits['ram'])}: arena {sum(deployed['arena'].values()):,}, stack "
        f"{deployed['stack']:,}, static {deployed['static']:,}",
        f"Flash: **{deployed['flash']:,} B** {_of(limits['flash'])}",
    ]
    if record["companions"]:
        what, kept = COMPANIONS[record["task"]["kind"]]
        lines.append(
            f"beside it, not counted in these: the C that makes {what}, {record['companions']['flash']:,} B of Flash and "
            f"{record['companions']['ram']:,} B of RAM for {kept}"
        )
    if record["verdict"]:
        lines[1:1] = [record["verdict"], *record["advice"]]
    if "top_5_int8" in accuracy:
        lines.insert(1, f"in int8 the right class is among the best five for **{100 * accuracy['top_5_int8']:.1f} %** of them")
    if record["measure"] != ACCURACY:
        others = (
            f"{100 * accuracy[key]:.1f} % {how}"
            for key, how in (("voc_11_int8", "by 11 points"), ("coco_int8", "as COCO has it"))
        )
        lines.insert(1, f"that is mAP as PASCAL VOC has it, by all points; in int8 it is {', '.join(others)}")
    ms, mj = ("" if limits[key] is None else f"of {limits[key]:g} " for key in ("latency_ms", "energy_mj"))
    if deployed["latency_ms"] is not None:
        lines.append(
            f"one inference: **{deployed['latency_ms']:.1f} ms** {ms}on {clean(record['device'] or '', 40)}, estimated"
        )
    if deployed["energy_mj"] is not None:
        lines.append(f"energy of one inference: **{deployed['energy_mj']:.3g} mJ** {mj}by the current of the data sheet")
    if "plan" in json.loads(record["arch"]):
        lines.append(f"planned as the search chose it: {_plan_of(record['planning'])}")
    prepared = record["task"]["preparation"]
    if is_fitted(arch := from_json(record["arch"])):
        lines.append(
            f"the network finds the nearest of {arch.stored} stored samples of each class"
            if arch.stored
            else "the network is linear: one dense layer on the whole input, with the weights of logistic regression"
        )
    if "averaged" in prepared:
        of = f" of {_size(prepared['size'])}" if "size" in prepared else ""
        why = f"such a network reads at most {MAX_FEATURES:,} values" if is_fitted(arch) else "the search chose this size"
        lines.append(f"its input is {_size(prepared['averaged'])}: samples{of} are averaged to it, because {why}")
    trained = record["trained"]
    proof = "every byte is that of the reference" if record["verified"] else "ITS BYTES DIFFER FROM THE REFERENCE"
    lines += _input(prepared.get("stage_one"))
    if trained["supernet"]:
        lines += _width(trained["supernet"])
    return [
        *fit_lines(record),
        *lines,
        f"{record['macs'] / 1e6:.2f} M multiply-accumulates, {record['parameters']:,} weights",
        _summary(trained),
        proof,
    ]


def fit_lines(record: Record) -> list[str]:
    """Return a line that says whether the network fits and, if a searched one does not, a line with lower limits.

    Then the estimates before the build were too low, by the ratio of the limit to the measured value.
    """
    over, limits, deployed = record["excess"], record["limits"], record["deployed"]
    device = f" {clean(record['device'], 40)}" if record["device"] else ""
    if record["fits"]:
        return [f"**fits{device}**"]
    exceeded = [key for key in TOO_MUCH if over[key]]
    said = ", ".join(f"{over[key]:,.{int(key == 'latency_ms')}f} {TOO_MUCH[key]}" for key in exceeded)
    lower = " ".join(f"--{key.replace('_', '-')} {math.floor(limits[key] ** 2 / deployed[key])}" for key in exceeded)
    again = f"The estimates before the build were too low. Search again with {lower} and another --out, or allow more."
    return [f"**does not fit{device}**: {said}", *([again] if record["trained"]["candidates"] > 1 else [])]


def _input(choice: Record | None) -> list[str]:
    """Return a line on how stage one chose the input size, of `prepare.task_within`; [] if the user gave it."""
    if choice is None:
        return []
    least, most, by_macs, chosen = (_size(choice[key]) for key in ("smallest", "largest", "by_macs", "input"))
    said = f"stage one chose an input of {by_macs} ({choice['inputs']} sizes of {least} to {most}): there "
    said += f"{100 * choice['share']:.0f} % of the sampled networks of width {choice['width']:g} fit"
    if choice["share"] < choice["feasible"]:
        said += f", fewer than {100 * choice['feasible']:.0f} % as at every other size: higher limits give more choice"
    if choice["macs"]:
        said += f", and 20 % of these have more than {choice['macs'] / 1e6:.2f} M multiply-accumulates"
    if not choice["tried"]:
        return [said]
    measured = ", ".join(f"{_size(each['input'])} {100 * each['accuracy']:.1f} %" for each in choice["tried"])
    kept = f"kept {chosen}" if chosen == by_macs else f"changed it to {chosen}"
    return [
        said,
        f"short trainings of equal time {kept}, the largest that is not clearly worse: on the validation part {measured}",
    ]


def _size(sides: list[int]) -> str:
    return " x ".join(map(str, sides))


def _width(supernet: Record) -> list[str]:
    """Return a line on how the width of a supernet was chosen, as a list; [] if networks of all widths were searched."""
    share, enough = supernet["share"], supernet["enough"]
    if share is None:  # all widths were searched
        return []
    said = f"stage one chose width {supernet['widths'][0]:g}, at which {100 * share:.0f} % of the sampled networks fit"
    if enough is None:
        return [said]
    units = {"ram": "B of RAM", "flash": "B of Flash"}
    limits = [f"{math.ceil(enough[name]):,} {unit}" for name, unit in units.items() if name in enough]
    limits += [f"{math.ceil(100 * enough[name]) / 100:,} {name[-2:]}" for name in ("latency_ms", "energy_mj") if name in enough]
    return [f"{said}: too few at every width; enough would fit within {', '.join(limits)}"]


def _plan_of(planning: Record) -> str:
    """Return the planner's options that the search chose, as text."""
    by_rows = ", its input by rows" if planning["stream_inputs"] else ""
    more = planning["max_mac_overhead"]
    again = f", with up to {more:g} times the multiply-accumulates" if more else ""
    return f"schedule {planning['schedule']}{by_rows}{again}"


def _input_of(prepared: Record) -> str:
    """Return a description of how firmware must turn an image, sound or sensor data into the network's input."""
    said = _sample_of(prepared)
    return f"{said}; then averaged to {_size(prepared['averaged'])}, by area" if "averaged" in prepared else said


def _sample_of(prepared: Record) -> str:
    """Return a description of how firmware must turn an image, sound or sensor data into a sample of the data set."""
    match prepared.get("source"):
        case "images" | "visual-wake-words":
            return f"pixels - 128, of an image resized to {_size(prepared['size'])} as Pillow's bilinear filter does"
        case "detection":
            boxes = f"`tw_boxes` of `{FIRMWARE}/boxes.h` makes boxes of the output"
            return f"pixels - 128, of an image fitted into {_size(prepared['size'])} on grey, 0; {boxes}"
        case "sounds":
            return f"what `log_mel` of `{FIRMWARE}/log_mel.h` makes of {prepared['seconds']:g} s of sound, frame by frame"
        case "sensors":
            scales = ", ".join(
                f"{scale:.9g} * value {'-' if offset < 0 else '+'} {abs(offset):.9g}"
                for scale, offset in zip(prepared["scale"], prepared["offset"], strict=True)
            )
            return f"windows of {prepared['window']} rows, each value rounded and clipped to -128 .. 127 from {scales}"
    return "int8 values as the data set holds them"


def _of(limit: int | None) -> str:
    """Return a limit as text, such as `of 65,536`, or `(no limit)` for None."""
    return "(no limit)" if limit is None else f"of {limit:,}"

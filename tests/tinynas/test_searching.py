"""A search from samples to firmware: results, resumption, options, and messages if no network fits."""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.stripes import TINY_V3, StopError, stop_at, stripes
from cases.waves import wave_files, waves
from pages import measured_alike

pytest.importorskip("torch", reason="needs torch")

import tinyweave as tw
from tinynas import candidates, halving, searching
from tinynas.arch import PlanGene, from_json, linear, macs, nearest, to_json
from tinynas.costs import Overhead, Target, costs, plan_untrained, too_large
from tinynas.halving import Rung
from tinynas.journal import Ledger
from tinynas.prepare import task_of
from tinynas.search_report import card, search_record
from tinynas.searching import SearchResult, best_first, search, with_measured_overhead
from tinynas.settings import Preparation, SearchOptions
from tinynas.space import Choice, arch_of, keywords, largest, mobilenet_v3, sample, sensors, small_images, smallest
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.evaluation import baselines as evaluated
from tinynas.workers import Workers
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.report.schema import faults, kind_of

BOARD = find("stm32f412")
SPACE = replace(sensors(24, 2), poolings=("mean",))
TARGET = Target(BOARD, api.limits_of(BOARD, ram="3k", flash="58k", latency_ms=30))
TWO = [Rung(3, 1), Rung(1, 4)]


pytestmark = pytest.mark.usefixtures("one_worker")


@pytest.fixture(scope="module")
def found(one_worker: Workers, tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    return search(waves(), SPACE, TARGET, tmp_path_factory.mktemp("found"), SearchOptions(rungs=TWO))


@pytest.mark.emulator
def test_the_deployed_network_has_the_costs_that_the_search_reported(found: SearchResult) -> None:
    profile = found.deployment.profile
    assert found.deployment.verification.ok and found.fits and found.deployment.fits and found.accuracy["test_int8"] > 0.6
    assert profile.arena == plan_untrained(found.arch, with_measured_overhead(TARGET, SPACE, 2))[1].arena, (
        "the arena of random weights is that of trained ones"
    )
    assert profile.ram <= 3 * 1024 and profile.flash <= 58 * 1024
    said = next(cost for arch, cost in found.candidates if arch == found.arch)
    assert 0 <= said.ram - profile.ram <= 512, "beside the arena what a network with more kernels takes"
    assert said.flash == pytest.approx(profile.flash, rel=0.15), "its code is an estimate, for any compiler"
    assert found.costs.ram == profile.ram, "as it was built with random weights"
    assert found.costs.flash == pytest.approx(profile.flash, rel=0.05), "trained weights may suit other kernels"
    assert found.costs.macs == macs(found.arch) and found.interval[0] < found.accuracy["test_int8"] <= found.interval[1]
    model = tw.load(found.folder / "network.tflite")
    (name,) = model.graph.inputs
    assert (model.graph.tensors[name].scale, model.graph.tensors[name].zero_point) == (1 / 128, 0), (
        "samples are fed as they are"
    )
    assert (found.folder / "firmware" / "network.h").is_file()


@pytest.mark.emulator
def test_a_notebook_shows_what_a_search_found(found: SearchResult) -> None:
    shown, right, samples = found._repr_html_(), f"{100 * found.accuracy['test_int8']:.1f}", found.data.counts()["test"]
    low, high = (f"{100 * end:.1f}" for end in found.interval)
    assert repr(found) == f"<SearchResult: accuracy {right} % in int8, {found.deployment!r}>"
    assert f"<th>accuracy on {samples} test samples</th>" in shown and found.deployment._repr_html_() in shown
    for cell in (*(each.name for each in found.baselines), f"{right} ({low} to {high})"):
        assert f"<td>{cell}</td>" in shown


@pytest.mark.emulator
def test_an_interrupted_search_resumes_to_the_same_result(found: SearchResult, tmp_path: Path) -> None:
    for count in (1, 3):
        with pytest.raises(StopError):
            search(waves(), SPACE, TARGET, tmp_path, SearchOptions(rungs=TWO), progress=stop_at("rung", count))
        with (tmp_path / "results.jsonl").open("a") as file:
            file.write('{"rung": 0, "cand')  # what a power cut leaves
            file.write("\n")
    resumed = search(waves(), SPACE, TARGET, tmp_path, SearchOptions(rungs=TWO))
    assert resumed.trained == found.trained and resumed.arch == found.arch and resumed.accuracy == found.accuracy
    files = [folder.folder / "network.tflite" for folder in (resumed, found)]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.fixture(scope="module")
def timed(one_worker: Workers, tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "machine_factor", lambda _: 1000.0)  # the shortest search: there is time for nothing
        return search(waves(), SPACE, TARGET, tmp_path_factory.mktemp("timed"), SearchOptions(minutes=0.1))


@pytest.mark.emulator
def test_a_timed_search_also_fits_baselines_as_finalists(timed: SearchResult) -> None:
    final = timed.trained[-1]
    assert (final["rung"], final["weights"]) == (1, f"weights/final-{final['candidate']}.pt") and timed.candidates[0][1].fit
    assert {each.name for each in timed.baselines} == {"majority class", "logistic regression", "k-NN"}
    arch, cost = timed.candidates[0]
    assert cost.record() == Ledger(timed.folder / searching.BUILT)(arch, "built"), "it was built before it was trained"
    fitted = [arch for arch, _ in timed.candidates[-2:]]
    assert fitted == [linear((1, 24, 2), 2), nearest((1, 24, 2), 2, 381)], "all samples of the larger class are stored"
    assert {number for number, (arch, _) in enumerate(timed.candidates) if arch in fitted} <= {
        each["candidate"] for each in timed.trained if each["epochs"] == 0
    }, "they are finalists"
    assert {path.suffix for path in (timed.folder / "weights").iterdir()} == {".pt"}, "files of progress are deleted"
    record = search_record(timed, json.loads((timed.folder / "search.json").read_text()))
    rows = [sum(row) for row in record["confusion"]]
    assert rows == np.bincount(waves().part("test")[1]).tolist() and faults(record, "search") == ""
    assert record["verdict"] in card(record) and "| **this network** | int8 |" in card(record)


@pytest.mark.sweep
@pytest.mark.emulator
@pytest.mark.parametrize("stage", ["to beat", "recipes", "rung", "final training", "quantising"])
def test_a_timed_search_resumes_at_every_stage(
    timed: SearchResult, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stages are baselines, trials of recipes, rungs, the final training, and quantisation."""

    monkeypatch.setattr(searching, "machine_factor", lambda _: 1000.0)
    stop = stop_at(stage, int(stage != "quantising"))
    with pytest.raises(StopError):
        search(waves(), SPACE, TARGET, tmp_path, SearchOptions(minutes=0.1), progress=stop)
    resumed = search(waves(), SPACE, TARGET, tmp_path, SearchOptions(minutes=0.1))
    assert resumed.trained == timed.trained and resumed.arch == timed.arch and resumed.accuracy == timed.accuracy
    assert (tmp_path / "network.tflite").read_bytes() == (timed.folder / "network.tflite").read_bytes()


def test_a_folder_of_another_search_is_refused(found: SearchResult, tmp_path: Path) -> None:
    shutil.copy(found.folder / "search.json", tmp_path)
    with pytest.raises(CompileError, match="holds a search with another seed; give another folder"):
        search(waves(), SPACE, TARGET, tmp_path, SearchOptions(rungs=TWO, seed=1))
    with pytest.raises(CompileError, match="another budget"):
        search(waves(), SPACE, TARGET, tmp_path, SearchOptions(minutes=3))
    (tmp_path / "search.json").write_text("{")
    with pytest.raises(CompileError, match="cannot be read"):
        search(waves(), SPACE, TARGET, tmp_path, SearchOptions(rungs=TWO))


@pytest.mark.emulator
def test_limits_that_no_network_fits_are_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MAX_SAMPLES_IF_INFEASIBLE", 16)
    stages = list[str]()
    target = replace(TARGET, limits=replace(TARGET.limits, flash=1024))
    with pytest.raises(CompileError, match=r"none of .* networks sampled from the space 'sensors' fits"):
        search(waves(), SPACE, target, tmp_path, SearchOptions(minutes=1), progress=lambda stage, *_: stages.append(stage))
    assert set(stages) == {"sampling networks that fit"}


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_minutes_out_of_range_are_refused(tmp_path: Path, minutes: float) -> None:
    with pytest.raises(CompileError, match=r"^--minutes .* is out of range; give more than 0, for example 20$"):
        search(waves(), SPACE, TARGET, tmp_path / "none", SearchOptions(minutes=minutes))
    assert not (tmp_path / "none").exists()


def test_files_of_another_search_are_not_used(found: SearchResult, tmp_path: Path) -> None:
    """Networks built for another device or trained with another seed must not be reused."""
    shutil.copy(found.folder / "built.jsonl", tmp_path)
    assert searching._read_run(tmp_path, {}) is None and not (tmp_path / "built.jsonl").exists()
    shutil.copytree(found.folder, tmp_path / "found")
    (tmp_path / "found" / "search.json").unlink()
    with pytest.raises(CompileError, match=r"holds results.jsonl of a search, but no search.json; give another folder, or"):
        search(waves(), SPACE, TARGET, tmp_path / "found", SearchOptions(rungs=TWO, seed=1))


def test_two_searches_in_one_folder_exclude_each_other(tmp_path: Path) -> None:
    with (
        searching._locked(tmp_path / "new" / "found"),
        pytest.raises(CompileError, match=r"another process searches in '.*found'; wait until it ends, or give another folder"),
    ):
        search(waves(), SPACE, TARGET, tmp_path / "new" / "found", SearchOptions(rungs=TWO))
    with searching._locked(tmp_path / "new" / "found"):
        assert (tmp_path / "new" / "found" / "search.lock").is_file(), "the lock is free again"
    assert list((tmp_path / "new" / "found").iterdir()) == []


def test_a_run_folder_that_contains_the_samples_is_refused(tmp_path: Path) -> None:
    """With `--data data -o .` the next run would read the stored data set as a sample or as annotations."""
    wave_files(tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CompileError, match=r"data' holds '.*', but a run stores its samples there; give another folder"):
        search(waves(), SPACE, TARGET, tmp_path, SearchOptions(rungs=TWO))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_supernet_refuses_detection(tmp_path: Path) -> None:
    """A supernet needs one class per sample, so `auto` never chooses a supernet for boxes."""
    boxes = replace(waves(), kind="detection", labels=np.zeros((len(waves().values), 1, 6), np.float32))
    with pytest.raises(
        CompileError, match="a supernet does not support detection; leave out strategy, or give strategy=halving"
    ):
        search(boxes, SPACE, TARGET, tmp_path, SearchOptions(strategy="supernet"))
    with pytest.raises(CompileError, match="halving has one objective, accuracy; leave out against"):
        search(boxes, SPACE, TARGET, tmp_path, SearchOptions(against=("ram",), minutes=600))


@pytest.mark.emulator
def test_the_best_network_whose_built_code_fits_is_deployed(
    found: SearchResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The two best networks are made to exceed the Flash limit when built, and the third to fit whatever the compiler."""
    real, tried = searching.deploy, list[object]()
    too_much = replace(found.deployment, profile=replace(found.deployment.profile, code=1 << 20))

    def deployed(small: object, *rest: object) -> object:
        tried.append(small)
        if len(tried) < 3:
            return too_much
        done = real(small, *rest)
        return replace(done, profile=replace(done.profile, code=1))

    monkeypatch.setattr(searching, "deploy", deployed)
    shutil.copytree(found.folder, tmp_path / "same")  # all are trained there
    result = search(waves(), SPACE, TARGET, tmp_path / "same", SearchOptions(rungs=TWO))
    order = [record["candidate"] for record in best_first(result.trained, [cost.product for _, cost in result.candidates])]
    assert not too_much.fits and len(tried) == 3 == len(order)
    assert result.fits and result.arch == result.candidates[order[2]][0] and result.trained == found.trained


@pytest.mark.emulator
def test_predicted_code_size_depends_on_the_kernels_of_the_network() -> None:
    """A network that fits gets fast kernels with more code; one that is too large gets the kernels of least Flash."""
    space, rng = replace(keywords((49, 10)), poolings=("mean",)), random.Random(1)
    target = with_measured_overhead(Target(BOARD, api.limits_of(BOARD, ram="24k", flash="96k")), space, 4)
    archs, code = [arch_of(space, sample(space, rng), 4) for _ in range(5)], list[int]()
    for arch in (archs[1], archs[4]):
        model, plan = plan_untrained(arch, target)
        built = api.profile_plan(model, plan, api.emulated_core(BOARD)).flash
        most = 5000 if measured_alike() else 0.1 * built  # sizes of kernels were measured with GCC
        assert abs(target.flash(plan) - built) <= most and costs(arch, target).flash == target.flash(plan)
        code.append(built - api.estimate_flash(plan, BOARD).constants)
    assert code[1] > 1.5 * code[0] and costs(archs[4], target).fit and set(costs(archs[1], target).excess) == {"flash"}


def test_networks_whose_built_code_is_too_large_end_early(found: SearchResult, one_worker: Workers, tmp_path: Path) -> None:
    """If the best network of the first rung does not fit when built, the second best continues; if none fits, the best does.

    The test decides which networks fit, because the code size depends on the compiler.
    """
    first = sorted((each for each in found.trained if each["rung"] == 0), key=lambda each: -each["accuracy"])
    best, second = (each["candidate"] for each in first[:2])
    archs = [arch for arch, _ in found.candidates]
    for case, (refused, goes_on) in enumerate(((set(), best), ({best}, second), (set(range(3)), best))):
        folder = tmp_path / str(case)
        shutil.copytree(found.folder, folder)
        lines = [json.dumps(each) for each in found.trained if each["rung"] == 0]
        (folder / "results.jsonl").write_text("\n".join(lines) + "\n")
        trainings = halving.Trainings(folder, one_worker)
        trained = halving.successive_halving(archs, TWO, trainings, fits=lambda number: number not in refused)  # noqa: B023
        assert [each["candidate"] for each in trained if each["rung"] == 1] == [goes_on]


@pytest.mark.emulator
def test_the_reported_latency_is_that_of_the_built_c(found: SearchResult) -> None:
    ms = found.deployment.profile.latency_ms(found.deployment.device)
    said = next(cost for arch, cost in found.candidates if arch == found.arch)
    assert ms and said.ms and found.costs.ms == pytest.approx(ms, rel=0.05) and said.ms != found.costs.ms
    before = (found.folder / "built.jsonl").read_text()
    assert searching._builder(TARGET, found.folder)(found.arch) == found.costs
    assert (found.folder / "built.jsonl").read_text() == before, "built once"


def test_networks_trained_longest_come_first() -> None:
    records = [(0, 0, 0.9), (0, 1, 0.8), (0, 2, 0.95), (1, 2, 0.5), (1, 0, 0.6)]
    named = [{"rung": rung, "candidate": number, "accuracy": share, "weights": ""} for rung, number, share in records]
    alone, expenses = {"rung": 0, "candidate": 3, "accuracy": 1.0}, [1.0] * 4
    assert best_first([alone, *named], expenses) == best_first(named, expenses), "what was trained by itself"
    assert [each["candidate"] for each in best_first(named, expenses)] == [0, 2, 1]
    equal = [each | {"accuracy": 0.9, "rung": 1} for each in named]
    assert [each["candidate"] for each in best_first(equal, [2, 1, 3])] == [1, 0, 2], "the cheapest of equal ones"


def test_a_network_that_exceeds_the_lower_bound_does_not_fit() -> None:
    import random

    space = small_images()
    target = Target(BOARD, api.limits_of(BOARD, ram="14k", flash="160k"), stream_inputs=True, overhead=Overhead(700, 12000))
    seen = set()
    for seed in range(12):
        arch = arch_of(space, sample(space, random.Random(seed)), 10)
        seen.add(said := too_large(arch, target))
        assert not (said and costs(arch, target).fit)
    assert seen == {True, False}
    assert too_large(arch_of(space, largest(space), 10), target) and not too_large(arch_of(space, smallest(space), 10), target)


def test_a_saved_data_set_is_loaded_unchanged(tmp_path: Path) -> None:
    data = waves(50)
    halving.save_data(data, tmp_path)
    again = halving.load_data(tmp_path)
    assert (again.kind, again.classes, dict(again.preparation)) == (data.kind, data.classes, {"window": 24})
    for part in ("train", "validation", "test"):
        for ours, theirs in zip(data.part(part), again.part(part), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.emulator
def test_search_and_train_commands_write_their_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinyweave.cli import main

    monkeypatch.setattr(searching, "machine_factor", lambda _: 1000.0)  # there is time for nothing
    recipe_of, epochs = halving.recipe_of, list[int]()  # called for each training
    monkeypatch.setattr(halving, "recipe_of", lambda data, count, *rest: epochs.append(count) or recipe_of(data, count, *rest))
    fitted = searching.fitted_networks
    monkeypatch.setattr(searching, "fitted_networks", lambda *about: fitted(*about)[:1])  # nearest neighbours would win
    wave_files(tmp_path / "data")
    given = ["--task", "sensors", "--data", str(tmp_path / "data"), "--device", "stm32f412", "--ram", "4k", "--json"]
    numbers = ["--set", "window=24,search_plan=yes", "--minutes", "0.1", "--processes", "1"]
    code = main(["search", *given, *numbers, "-o", str(tmp_path / "found")])
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    said = r"tinyweave: the search needs about (\d+) minutes of wall-clock time, if no other program runs\n"
    assert (needed := re.fullmatch(said, printed.err)) and int(needed[1]) >= 60 * searching.MINUTES / 20, "on so slow a machine"
    assert code == 0 and record["verified"] and record["fits"] and record["accuracy"]["test_int8"] > 0.5
    run = json.loads((tmp_path / "found" / "search.json").read_text())
    assert run["rungs"] == [[2, 1]] and run["trial"] == [1, 1] and run["folds"] == 3
    assert run["final_epochs"] == [1] * 3, "the first network, another, linear"
    first, second = (from_json(json.dumps(each["arch"])) for each in run["candidates"][:2])
    assert (len(first.groups), len(second.groups)) == (3, 2), "of two families"
    about = record["trained"]
    assert about["epochs"] == sum(epochs) >= 4 + 3 * 2, "of four recipes, and of two candidates in three folds"
    assert (about["networks"], about["sampled"], about["computed"], about["folds"]) == (2, 0, 1, 3)
    said = f"trained: 2 networks, of them 0 sampled from the {about['space']:.2g} of the space; computed from the samples"
    said += f" without training: 1; {sum(epochs)} epochs in all, with 3 trainings of each network in a cross-validation"
    shown = "accuracy in a cross-validation on 3 folds, without the test part, after the last training of each;"
    made = (tmp_path / "found" / "card.md").read_text()
    assert made.startswith("# sensors: 2 classes") and said in made and shown in made and "best five" not in made
    record["accuracy"]["top_5_int8"] = 0.876
    assert "- in int8 the right class is among the best five for **87.6 %** of them\n" in card(record)
    assert faults(record, "search") == "" and record["accuracy"].pop("top_5_int8")
    page = (tmp_path / "found" / "report.html").read_text()
    (entry,) = json.loads(page.split('id="data">')[1].split("</script>")[0])["entries"]
    told = entry["search"].pop("told")
    assert (
        told.startswith(f"T{said[1:]}. Shown: the {shown}")
        and entry["search"] == record
        and entry["record"]["ram"]["total"] == record["deployed"]["ram"]
    )
    assert faults(entry["record"], "record") == "" and entry["record"]["verify"]["ok"] is True
    arch = str(tmp_path / "found" / "arch.json")
    code = main(["train", arch, *given, "--epochs", "2", "-o", str(tmp_path / "trained")])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    trained = json.loads(printed.out)
    assert faults(record, "search") == "" and faults(trained, "search") == "" and kind_of(record) == "search"
    assert json.loads(record["arch"])["plan"] == record["planning"] == trained["planning"] and "_planned" in record["space"]
    assert code == 0 and trained["arch"] == record["arch"] and trained["trained"]["epochs"] == 2
    assert "\n- trained: 1 network; 2 epochs in all\n" in (tmp_path / "trained" / "card.md").read_text()
    assert main(["train", arch, *given, "--task", "speech", "-o", str(tmp_path / "other")]) == 2
    assert "--task speech is unknown; give one of images, visual-wake-words, keywords" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


FITTED = {
    "logistic regression": (linear((1, 24, 2), 2), "the network is linear: one dense layer on the whole input"),
    "k-NN": (nearest((1, 24, 2), 2, 382), "the network finds the nearest of 382 stored samples of each class"),
}


@pytest.mark.emulator
@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_network_is_deployed_and_about_as_accurate_as_its_baseline(
    one_worker: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arch, line = FITTED[name]
    monkeypatch.setattr(evaluated, "NEIGHBOURS", (1,))
    data = waves()
    noise = np.random.default_rng(1).normal(0, 30, data.values.shape)
    values = noise + np.where(data.labels, 9, -9)[:, None, None, None]
    data = replace(data, values=values.clip(-128, 127).round().astype(np.int8))
    found = search(data, SPACE, TARGET, tmp_path, SearchOptions(rungs=[Rung(1, 1)], archs=[arch]))
    (baseline,) = (each for each in found.baselines if each.name == name)
    assert found.arch == arch and found.fits and found.deployment.verification.ok
    assert baseline.accuracy > 0.9 and abs(found.accuracy["test_int8"] - baseline.accuracy) < 0.02
    assert found.deployment.profile.arena == plan_untrained(arch, TARGET)[1].arena
    run = json.loads((tmp_path / "search.json").read_text())
    assert line in card(search_record(found, run))
    poor = replace(found, baselines=(baseline,), predicted=np.zeros_like(found.predicted))
    record = search_record(poor, run)
    assert record["verdict"].startswith(f"The network is the best baseline, {name} ")
    assert re.match(r"only 0.0 % .* test samples of 'fast' are found", record["advice"][0]) and record["confusion"][1][1] == 0
    assert f"- {record['advice'][0]}\n" in card(record)


@pytest.mark.emulator
def test_samples_are_resized_to_the_image_of_the_network(tmp_path: Path) -> None:
    """Also: squeeze-and-excitation and hard-swish are deployed with the plan gene of the network."""
    values, labels = stripes(100, 0)
    parts = np.array([0, 0, 0, 1, 2] * 20, np.uint8)
    data = Dataset("images", ("across", "along"), values, labels, parts, {"source": "images", "size": [8, 8]})
    target = Target(BOARD, api.limits_of(BOARD, ram="8k", flash="96k"))
    arch = arch_of(TINY_V3, Choice((6, 6), 1.0, (((3, 2),),), (0.5,), PlanGene("best", True)), 2)
    found = search(data, TINY_V3, target, tmp_path, SearchOptions(rungs=[Rung(1, 1)], archs=[arch]))
    assert found.deployment.verification.ok and found.deployment.profile.arena == plan_untrained(arch, target)[1].arena
    (name,) = found.deployment.model.graph.inputs
    assert found.deployment.model.graph.tensors[name].shape == (1, 6, 6, 1)
    assert found.deployment.plan.streamed_inputs == (name,), "as the network says, not the target"
    record = search_record(found, json.loads((tmp_path / "search.json").read_text()))
    assert record["task"]["preparation"] == {"source": "images", "size": [8, 8], "averaged": [6, 6]}
    assert "of an image resized to 8 x 8 as Pillow's bilinear filter does; then averaged to 6 x 6, by area" in card(record)
    assert "input is 6 x 6: samples of 8 x 8 are averaged to it, because the search chose this size" in card(record)
    assert faults(record, "search") == ""
    assert "planned as the search chose it: schedule best, its input by rows" in card(record)
    assert record["planning"] == {"schedule": "best", "stream_inputs": True, "max_mac_overhead": None}
    built = api.profile_plan(*plan_untrained(arch, target), "cortex-m4", device=BOARD)
    assert found.costs.ram == built.ram, "with random weights: weights decide which kernels apply, and kernels the stack"


def test_the_image_space_has_sizes_up_to_that_of_the_samples(tmp_path: Path) -> None:
    for number in range(40):
        for label in ("a", "b"):
            (tmp_path / label).mkdir(exist_ok=True)
            image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install '.[images]'")
            image.new("L", (4, 4)).save(tmp_path / label / f"{number}.png")
    _, space = task_of("images", tmp_path, Preparation((96, 64), 1, space="mobilenet_v3_by_group"))
    assert space == mobilenet_v3(((48, 32), (60, 40), (72, 48), (84, 56), (96, 64)), 1, by_group=True)
    for prepared, message in (
        (Preparation((48, 48), space="mobilenet_v3"), "space=mobilenet_v3 needs larger images; give size=64 or more"),
        (Preparation(space="vgg"), "space=vgg is unknown; give one of auto, mobilenet_v3"),
    ):
        with pytest.raises(CompileError, match=message):
            task_of("images", tmp_path, prepared)
    with pytest.raises(CompileError, match="space=mobilenet_v3 needs larger images"):  # before anything is read
        task_of("images", tmp_path / "none", Preparation((48, 48), space="mobilenet_v3"))
    with pytest.raises(CompileError, match="space=mobilenet_v3 is for images only; leave it out for sensors"):
        task_of("sensors", tmp_path, Preparation(space="mobilenet_v3"))


@pytest.mark.sweep
@pytest.mark.emulator
def test_search_from_python_on_a_folder_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install '.[images]'")
    monkeypatch.setattr(searching, "machine_factor", lambda _: 1.0)
    values, labels = stripes(200, 0)
    for number, (value, label) in enumerate(zip(values, labels, strict=True)):
        folder = tmp_path / "photos" / ("across", "along")[label]
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray((value[:, :, 0].astype(np.int16) + 128).astype(np.uint8)).save(folder / f"{number}.png")
    prepared = Preparation((8, 8), channels=1)
    found = tw.search(
        tmp_path / "photos", "stm32f412", out=tmp_path / "found", prepared=prepared, minutes=0.6, ram="8k", flash="96k"
    )
    assert found.fits and found.deployment.verification.ok and found.arch.image == (8, 8, 1) and len(found.trained) > 2
    assert found.accuracy["test_int8"] > 0.8
    (tmp_path / "net.json").write_text(to_json(found.arch))
    given = {"data": tmp_path / "photos", "out": tmp_path / "trained", "ram": "8k", "flash": "96k"}
    trained = tw.train(tmp_path / "net.json", "stm32f412", epochs=1, **given)
    assert trained.arch == found.arch and trained.trained[-1]["epochs"] == 1 and trained.deployment.verification.ok
    with pytest.raises(CompileError, match="the network has 3 classes, the samples 2"):
        tw.train(replace(found.arch, classes=3), "stm32f412", **given)
    with pytest.raises(CompileError, match="0 epochs train nothing"):
        tw.train(found.arch, "stm32f412", epochs=0, **given)


def test_an_energy_limit_becomes_a_latency_limit() -> None:
    """The board draws 11.2 mA at 3.3 V, which is 36.96 mW."""
    arch = arch_of(SPACE, largest(SPACE), 2)
    free = costs(arch, Target(BOARD, api.limits_of(BOARD), overhead=Overhead(500, 9000)))
    assert free.fit and free.ms is not None and free.mj == pytest.approx(free.ms * 36.96e-3)
    tight = Target(BOARD, api.limits_of(BOARD, latency_ms=1e4), overhead=Overhead(500, 9000), energy_mj=free.mj / 2)
    assert tight.all_limits.latency_ms == pytest.approx(free.ms / 2) and tight.limits.latency_ms == 1e4
    over = costs(arch, tight)
    assert set(over.excess) == {"energy_mj"} and over.excess["energy_mj"] == pytest.approx(over.mj - free.mj / 2)
    short = Target(BOARD, api.limits_of(BOARD, latency_ms=free.ms / 4), energy_mj=free.mj)
    assert short.all_limits.latency_ms == free.ms / 4, "the stricter of the two"
    enough = Target(BOARD, api.limits_of(BOARD), overhead=Overhead(500, 9000), energy_mj=2 * free.mj)
    assert costs(arch, enough).fit and enough.all_limits.cycles is not None


@pytest.mark.parametrize(
    ("board", "energy_mj", "message"),
    [
        ("rp2040", 1.0, "--energy-mj: the current of rp2040 is not known; leave it out, or give one of .*stm32f412"),
        (None, 1.0, "--energy-mj: the current of a core alone is not known"),
        ("esp32-s3", 1.0, "--energy-mj: the timings of a xtensa-lx7 are unknown; leave it out"),
        ("stm32f412", 0.0, "--energy-mj 0 is out of range; give millijoules above 0"),
        ("stm32f412", float("nan"), "--energy-mj nan is out of range"),
    ],
)
def test_an_energy_limit_without_a_known_current_is_refused(board: str | None, energy_mj: float, message: str) -> None:
    device = find(board) if board else None
    with pytest.raises(CompileError, match=message):
        Target(device, api.limits_of(device), energy_mj=energy_mj)

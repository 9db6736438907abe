"""The page of evidence follows from its measurements, and says "better" only where Holm's correction leaves it."""

from __future__ import annotations

import fnmatch
import json
import math
import re
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "tinynas"))

# isort: split
import detection
import evidence
import evidence_jobs
import evidence_page
import evidence_results
import holm
import strategies
from evidence_jobs import FAMILIES, packed, unpacked
from evidence_page import page, sections
from evidence_results import Difference, Results, Spread, difference, outcomes, read, spread_of
from evidence_tables import at_equal_accuracy, chart, correlation
from small_sets import kind_of

from tinynas.arch import from_json, macs, to_json
from tinynas.evolution import Evolution
from tinynas.halving import save_data
from tinynas.one_shot import SupernetBudget
from tinynas.space import arch_of, largest, smallest
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.evaluation.intervals import student_t
from tinynas.workers import Workers
from tinyweave.ir import CompileError

# these scripts add `bench`, whose folder `planning` would hide that of the tests
sys.path[:] = [path for path in sys.path if Path(path).name != "bench"]

TEST = 400  # test samples
EVERY = list(evidence.experiments())


def record_of(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return a Record as the measurement `name` would return it, with random accuracies: rivals 60 %, spaces by their rank."""
    step, kind, *_ = name.split()
    if step == "supernet":
        return {"epochs": 5}
    if step == "search":
        return {"arch": name, "curve": (0.5 + rng.random(evidence.RANDOM.evaluations) / 10).tolist()}
    ranks = {evidence.own(each).name: number for number, each in enumerate(evidence.spaces())}
    correct = rng.random(TEST) < (0.6 if kind in FAMILIES else 0.9 - 0.05 * ranks.get(kind, 2))
    record = {"arch": name, "weights": 2048, "ram": 4096, "validation": 0.5, **evidence_jobs.tested(correct)}
    count = int(rng.integers(10**6))
    return record | {"macs": count, "ms": count / 31_000}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results of a complete run, with a random Record for each measurement."""
    folder = tmp_path_factory.mktemp("results")
    rng, file = np.random.default_rng(0), folder / evidence.RESULTS
    header = {"settings": evidence.SETTINGS, "samples": {"train": 10, "validation": 5, "test": TEST}}
    lines: list[dict[str, Any]] = [header, {"key": "train plain 0", "failed": "MemoryError"}]
    for job in evidence.jobs(folder, EVERY):
        lines.append({"key": job.key, "cpu_seconds": 36.0, "device": "2 processors", "result": record_of(job.key, rng)})
    file.write_text("\n".join(map(json.dumps, lines)))
    return read(file)


def set_line(name: str, accuracy: float, over_baseline: tuple[float, float]) -> dict[str, Any]:
    """Return the result of `small_sets.py` for a set on which the network by hand has 85 %."""
    return {
        "set": name,
        "network": {"stem": 8},
        "hand": {"stem": 16},
        "minutes": 5.0,
        "train": 600,
        "test": 400,
        "search": accuracy,
        "interval": [accuracy - 0.05, accuracy + 0.05],
        "baseline": "k-NN",
        "baseline_accuracy": 0.8,
        "baseline_interval": over_baseline,
        "by_hand": 0.85,
        "by_hand_interval": [accuracy - 0.86, accuracy - 0.84],
        "needs": {"ram": 900, "flash": 2000, "latency_ms": 1.5},
        "limits": {"ram": 1000, "flash": 3000, "latency_ms": 2.0},
        "fits": True,
        "bytes_equal": True,
        "in_time": True,
        "seconds": 250.0,
        "cpu_seconds": 400.0,
        "by_hand_cpu_seconds": None,
        "training_share": 0.9,
    }


def hand_line(name: str, accuracy: float, best: float) -> dict[str, Any]:
    """Return the result of `by_hand.py` for a set on which the best CNN by hand has the accuracy `best`."""
    over = accuracy - best
    return {
        "set": name,
        "seed": 0,
        "minutes": 3.0,
        "test": 400,
        "search": accuracy,
        "fits": True,
        "seconds": 180.0,
        "cpu_seconds": 250.0,
        "in_time": True,
        "rivals": {"separable": [best - 0.2, [over + 0.1, over + 0.3]], "full": [best, [over - 0.02, over + 0.02]]},
    }


def survivors(p_values: Sequence[float]) -> list[bool]:
    """Return which p-values survive: the running maximum of p times the number of p-values from it on is at most 5 %."""
    order = np.argsort(p_values)
    adjusted = np.maximum.accumulate(np.array(p_values)[order] * np.arange(len(p_values), 0, -1))
    return [bool(each <= 0.05) for each in adjusted[np.argsort(order)]]


def test_holms_correction_steps_down() -> None:
    p_values = [0.04, 0.005, 0.03, 0.015]
    assert holm.cutoff(p_values) == 0.015 and survivors(p_values) == [False, True, False, True], "0.0125, 0.0167, then 0.025"
    assert holm.cutoff([0.06]) == holm.cutoff([]) == -1 and holm.cutoff([0.05]) == 0.05
    rng = np.random.default_rng(0)
    for count in rng.integers(1, 40, 300):
        drawn = np.repeat(0.05 / np.arange(count, 0, -1) * rng.uniform(0.5, 1.1, count), rng.integers(1, 3))
        assert [p <= holm.cutoff(drawn) for p in drawn] == survivors(drawn)


def test_a_p_value_is_where_the_interval_touches_0() -> None:
    assert holm.p_value(1.96, 1.0) == pytest.approx(0.05, abs=1e-5) == holm.p_value(-1.96, 1.0), "normal"
    assert holm.p_value(4.303, 0.0, 1.0, 2) == pytest.approx(0.05, abs=1e-5), "Student's t of two degrees"
    assert holm.p_value(math.hypot(1.96, 4.303), 1.0, 1.0, 2) == pytest.approx(0.05, abs=1e-5), "both"
    assert holm.p_value(2.576, 1.0) == pytest.approx(0.01, abs=1e-5) and holm.p_value(0.0, 1.0) == 1
    assert holm.p_of((0.0, 0.2)) == pytest.approx(0.05, abs=1e-5) == holm.p_of((-0.2, 0.0)) and holm.p_of((-0.1, 0.1)) == 1


def test_the_page_has_all_tables_and_says_better_only_where_it_survives(results: Results) -> None:
    lines = [set_line("digits", 0.9, (0.01, 0.03)), set_line("UnitTest", 0.5, (-0.3, -0.1))]
    hands = [hand_line("letters", 0.9, 0.8), hand_line("pulses", 0.6, 0.9)]
    text, shown = page(results, lines, hands, {}), sections(results)
    assert text.count("\n### ") == text.count("Command: `bench/tinynas/evidence.py") == len(EVERY) == 7 and "nan" not in text
    cells = [cell for each in shown for table in each.tables for cell in table.differences()]
    correlations = [correlation(results, by)[1] for by in ("p80", "mean")]
    ends = [line[key] for line in lines for key in ("baseline_interval", "by_hand_interval")]
    ends += [line["rivals"]["full"][1] for line in hands]
    survive = survivors([*(each.p for each in cells), *correlations, *map(holm.p_of, ends)])
    assert sorted(p for each in shown for p in each.p_values) == sorted([*(each.p for each in cells), *correlations])
    excluding = sum(each.low > 0 or each.high < 0 for each in cells)
    assert len(cells) > 25 and all(survive[-6:]) and 0 < sum(survive[: len(cells)]) < excluding
    said = re.findall(r"([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\](?: \*\*([a-z ]+)\*\*)?", text)
    for each, is_sure, (*numbers, verdict) in zip(cells, survive, said, strict=False):
        assert numbers == [f"{value:+.1f}" for value in each[:3]]
        sign = "better" if each.low > 0 else "worse" if each.high < 0 else ""
        assert verdict == (sign if is_sure else sign and "not shown"), each
    words = " ".join(text.split())
    assert len(said) == len(cells) and f"has {len(survive)} comparisons;" in text and f"leaves {sum(survive)} of them" in words
    rows = [
        line for line in text.split("(table 5.2")[0].splitlines() if line.startswith("| 8 KiB | scaled MobileNetV2 | 4.0 | 2.0")
    ]
    assert len(rows) == 1 and "**better**" in rows[0], "0.8 against 0.6 of 400 samples"
    assert "evolution finds with a supernet are better than scaled MobileNetV2, scaled ProxylessNAS and plain networks" in words
    assert "shown to be better or worse than random search and evolution layer by layer." in words
    assert "Of 2 other sets the search is better than the best of four CNNs written by hand on 1, and worse on 1;" in words
    assert "it is above the mean of the four on 1." in words and "- Worse than the best of the four CNNs: pulses." in words
    assert "- Below the mean of the four: pulses." in words and "| full 80.0 | +8.0 to +12.0 **better** | 70.0 |" in words
    assert "On 1 of 2 small sets the search is better than the best simple classifier, on 1 it is worse." in words
    total = len(results.lines)
    assert f"{total} measurements, {total * 36 / 3600:.2f} core-hours" in words
    row = "| digits | 600 | 400 | **90.0** [85.0, 95.0] | k-NN 80.0 | +1.0 to +3.0 **better** | 85.0 | +4.0 to +6.0 **better**"
    assert row in text and "| digits | sampled | 900 of 1,000 | 2,000 of 3,000 | 1.5 of 2 | 250 | 90 |\n" in text
    assert "- Worse than the best baseline: UnitTest.\n" in text and "Before, UnitTest had never been searched" in words
    assert "2 sets: mean -15.0 points, median -15.0. 95 % interval of the mean:" in text, "+5 and -35"
    assert "- Compared with the hand-made network, the search is better on digits and worse on UnitTest.\n" in text


def test_an_unfinished_experiment_is_not_on_the_page(results: Results) -> None:
    lines, hands = [set_line("digits", 0.9, (0.01, 0.03))], [hand_line("letters", 0.9, 0.8)]
    some = {name: line for name, line in results.lines.items() if name != "train scaled 300000 2"}
    text = page(results._replace(lines=some), lines, hands, {})
    assert "(table 5.8)" not in text and text.count("\n### ") == len(EVERY) - 1
    text = page(Results({}, {}), lines, hands, {})
    assert "MCUNet thesis" not in text and "evolution" not in text.split("## ")[0] and "has 3 comparisons" in text


def test_each_row_is_compared_with_the_first_of_its_group_or_with_itself(results: Results) -> None:
    for section in sections(results):
        experiment, table = evidence.experiments()[section.experiment], section.tables[-1]
        if section.experiment in ("5-6", "5.2"):
            continue
        rows = iter(table.rows)
        for kinds in experiment.groups.values():
            tested = [outcomes(results, experiment.step, kind.name, experiment.seeds) for kind in kinds.values()]
            for kind, own in zip(kinds.values(), tested, strict=True):
                *_, accuracy, gained = next(rows)
                assert accuracy.startswith(f"{np.mean(own.percent):.1f}")
                if experiment.step == "double":
                    assert gained == difference(own, outcomes(results, "train", kind.name, 1)) and gained.p == 1
                else:
                    assert gained == (None if own is tested[0] else difference(tested[0], own))


def test_curves_are_the_best_so_far(results: Results) -> None:
    (section,) = (each for each in sections(results) if each.experiment == "5-6")
    best, against = section.tables
    ends = dict[str, list[float]]()
    for (name, *cells), kind in zip(best.rows, ("evolution", "random", "evolution layers"), strict=True):
        records = [results.record("search", kind, seed)["curve"] for seed in range(3)]
        assert cells[0].startswith(f"{100 * np.mean([max(each[:24]) for each in records]):.1f} ("), name
        ends[kind] = [100 * max(each) for each in records]
        assert cells[-1].startswith(f"{np.mean(ends[kind]):.1f}") and len(cells) == 5
    (_, each), _ = against.rows
    assert each.middle == pytest.approx(np.mean(np.subtract(ends["evolution"], ends["random"])))


def test_costs_are_compared_at_equal_accuracy(results: Results) -> None:
    def point(accuracy: float, ms: float) -> evidence_results.Tested:
        return evidence_results.Tested({0: {"ms": ms}}, {0: np.arange(100) < accuracy}, Spread(0.0, 0))

    ours = [point(80, 60.0), point(70, 30.0), point(60, 10.0), evidence_results.Tested({}, {}, Spread(0.0, 0))]
    found = [at_equal_accuracy(ours, point(*each), "ms") for each in ((65, 45.0), (70, 45.0), (71, 45.0), (81, 45.0), (1, 5.0))]
    assert found == [1.5, 1.5, 0.75, None, 0.5]
    (section,) = (each for each in sections(results) if each.experiment == "5.2")
    rows = section.tables[1].rows
    assert len(rows) == 6 and rows[0][:2] == ["scaled MobileNetV2", "none"] and all(row[4] == "1.00" for row in rows), "4 KiB"


def test_the_correlation_is_that_of_the_ranks(results: Results) -> None:
    settings = evidence.spaces()
    accuracies = [np.mean(outcomes(results, "train", evidence.own(each).name, 3).percent) for each in settings]
    for by in ("p80", "mean"):
        values = [getattr(each, by) for each in settings]
        ranks = [np.argsort(np.argsort(each)) for each in (values, accuracies)]
        assert correlation(results, by)[0] == pytest.approx(1 - 6 * np.sum((ranks[0] - ranks[1]) ** 2) / (8 * 63))
    assert len(settings) == 8 and correlation(results, "p80")[0] > 0.9 and correlation(results, "p80")[1] < 0.01
    assert settings == sorted(settings, key=lambda each: -each.p80) and settings[0] == evidence.settings()[0]
    assert settings[-1] == evidence.settings()[-1] and min(each.share for each in settings) >= evidence.MIN_SHARE


def test_charts_show_every_point_inside() -> None:
    text = chart("a < b", "ms", {"one": [(1.0, 60.0), (4.0, 70.0)], "two": [(2.0, 65.0)]})
    circles = [each for each in ET.fromstring(text).iter() if each.tag.endswith("circle")]
    places = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in circles]
    left, right, top, bottom = 88, 88 + 620, 56, 56 + 320
    assert [x for x, _ in places] == pytest.approx([left + 155, right, left + 310])
    assert all(top <= y <= bottom for _, y in places) and places[0][1] > places[2][1] > places[1][1], "upwards"


def test_intervals_combine_test_samples_and_seeds(results: Results) -> None:
    found, other = (outcomes(results, "train", kind, 3) for kind in ("evolution", "mobilenet_v2"))
    assert sorted(found.correct) == [0, 1, 2] and difference(found, found) == Difference(0.0, 0.0, 0.0)
    assert found.spread.freedom != other.spread.freedom
    by_sample = 100 * np.mean([1.0 * found.correct[seed] - other.correct[seed] for seed in range(3)], axis=0)
    seeds = (
        student_t(min(found.spread.freedom, other.spread.freedom)) ** 2 * (found.spread.variance + other.spread.variance) / 3
    )
    half = math.sqrt(1.96**2 * by_sample.var(ddof=1) / TEST + seeds)
    each = difference(found, other)
    assert each and each.middle == pytest.approx(by_sample.mean()) and each.verdict(0.05) == "better"
    assert (each.middle - each.low, each.high - each.middle) == pytest.approx((half, half), rel=1e-3)
    assert difference(found, outcomes(results, "train", "no such kind", 3)) is None


def test_equal_networks_do_not_count_twice_in_the_spread(results: Results) -> None:
    names = [name for name in results.lines if name.startswith("train ")]
    for rivals in (False, True):
        own = [name for name in names if (name.split()[1] in FAMILIES) == rivals]
        spread, kinds = spread_of(results, rivals=rivals), {name.rsplit(" ", 1)[0] for name in own}
        assert spread.freedom == len(own) - len(kinds) == 2 * len(kinds) > 10
        assert 1.5**2 < spread.variance < 3.5**2, "about 100^2 * 0.6 * 0.4 / 400"
        twice = {name.replace(" ", " twice ", 1) if not rivals else name: results.lines[name] for name in own}
        assert spread_of(results._replace(lines=results.lines | twice), rivals=rivals) == spread


def test_one_seed_gives_no_verdict(results: Results) -> None:
    alone = results._replace(lines={name: line for name, line in results.lines.items() if name.endswith(" 0")})
    for lines in (alone, results):  # also if other kinds have several seeds
        each = difference(*(outcomes(lines, "train", kind, 1) for kind in ("evolution", "mobilenet_v2")))
        assert each and each.low > 0 and each.p == 1 and each.verdict(0.05) == "not shown", "0.8 against 0.6 of 400 samples"


def test_measurements_come_after_what_they_need_and_are_made_once() -> None:
    every = evidence.jobs(Path("x"), EVERY)
    keys = [job.key for job in every]
    assert len(set(keys)) == len(keys) and all(set(job.needs) <= set(keys[:place]) for place, job in enumerate(every))
    assert {job.key for name in EVERY for job in evidence.jobs(Path("x"), [name])} == set(keys)
    assert not {job.key for job in evidence.jobs(Path("x"), ["5-6"])} - {job.key for job in evidence.jobs(Path("x"), ["5.1"])}
    for kind in (kind for each in evidence.experiments().values() for own in each.groups.values() for kind in own.values()):
        assert set(kind.space.sizes) <= set(kind.shared.sizes) and set(kind.space.widths) <= set(kind.shared.widths), kind.name
    narrow = evidence.experiments()["5.3"].groups["32 KiB"]
    assert narrow["4 bits"].limits == narrow["8 bits"].limits._replace(bits=4)


def test_limits_count_each_resource() -> None:
    limits = evidence.LIMITS
    arch = arch_of(evidence.IMAGES, smallest(evidence.IMAGES), 10)
    flash, ram = evidence_jobs.flash_of(arch), evidence_jobs.ram_of(arch, "streamed")
    ms = evidence_jobs.ms_of(arch, limits.ram)
    exact = limits._replace(ram=ram, flash=flash, macs=macs(arch))
    assert exact.fit(arch) and limits._replace(ms=ms).fit(arch) and evidence_jobs.ram_of(arch, "layers") > ram
    less = ({"ram": ram - 1}, {"flash": flash - 1}, {"macs": macs(arch) - 1}, {"ms": ms - 0.01}, {"engine": "layers"})
    assert not any(exact._replace(**each).fit(arch) for each in less)
    assert exact._replace(flash=flash - 1, bits=4).fit(arch) and limits.costs([arch])[0].fit
    whole = arch_of(evidence.IMAGES, largest(evidence.IMAGES), 10)
    small, limits = evidence_jobs.scaled_down(whole, limits), limits._replace(macs=500_000)
    assert small is not None and small.image[0] < whole.image[0] and evidence.LIMITS.fit(small)
    smaller = evidence_jobs.scaled_down(whole, limits)
    assert smaller is not None and macs(smaller) <= 500_000 < macs(small)
    assert evidence_jobs.scaled_down(whole, limits._replace(ram=10)) is None
    found = evidence_jobs.family("plain", evidence.IMAGES, 10, limits)
    assert len(found) == 2 and macs(found[1]) <= macs(found[0]) <= 500_000 and all(map(limits.fit, found))


def test_a_run_records_and_resumes_and_does_not_repeat(tmp_path: Path) -> None:
    calls = list[str]()

    def job(key: str, *needs: str, fails: bool = False) -> evidence.Job:
        def function(*records: dict[str, Any]) -> dict[str, Any]:
            calls.append(f"{key}{records}")
            if fails:
                raise ValueError("broken")
            return {"value": key}

        return evidence.Job(key, function, lambda limit: 1.0, needs, len(needs[:1]))

    listed = [job("a"), job("b", "a", "c"), job("c"), job("d", fails=True), job("e", "d")]
    with ThreadPoolExecutor(1) as executor:
        workers = Workers(executor.submit, 1)
        evidence.run(listed, workers, tmp_path, time.perf_counter() - 1)
        assert not calls, "after the deadline"
        evidence.run(listed[:1], workers, tmp_path, time.perf_counter() + 60)
        evidence.run(listed, workers, tmp_path, time.perf_counter() + 60)
    assert calls == ["a()", "c()", "b({'value': 'a'},)", "d()"], "nothing twice; e needs d"
    assert evidence.results(tmp_path) == {key: {"value": key} for key in "abc"}
    data = Dataset("images", ("a",), np.zeros((1, 8, 8, 3), np.int8), np.zeros(1, np.int64), np.zeros(1, np.uint8), {})
    evidence.begin(tmp_path, data)
    evidence.begin(tmp_path, data)
    assert read(tmp_path / evidence.RESULTS).header["samples"] == {"train": 1, "validation": 0, "test": 0}
    with pytest.raises(CompileError, match="other settings"):
        evidence.begin(tmp_path, replace(data, parts=data.parts + 1))


def test_a_supernet_is_searched_and_trained_networks_are_kept_and_trained_on_for_few_bits(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    rng = np.random.default_rng(0)
    labels, parts = np.arange(240) % 2, np.repeat([0, 1, 2], 80).astype(np.uint8)
    values = (rng.integers(-20, 20, (240, 12, 12, 3)) + 60 * (2 * labels - 1)[:, None, None, None]).astype(np.int8)
    save_data(Dataset("images", ("dark", "light"), values, labels, parts, {}), tmp_path / "data")
    space = replace(evidence.IMAGES, sizes=((12, 12),), widths=(0.5,), joint=False, by_group=False)
    own, evolution = tmp_path / "own", Evolution(4, 2, 2, 2, generations=1)
    assert evidence_jobs.supernet(own, space, SupernetBudget(1, 1, evolution), 0) == {"epochs": 1}
    found = evidence_jobs.searched(own, (space, space), evidence.LIMITS, evolution, 0)
    assert from_json(found["arch"]).image == (12, 12, 3) and len(found["curve"]) == evolution.evaluations
    arch = arch_of(evidence.IMAGES, smallest(evidence.IMAGES), 2)
    record = evidence_jobs.trained(tmp_path, arch, 20, 0, evidence.LIMITS.ram)
    (file,) = (tmp_path / "trained").glob("*.json")
    file.write_text(json.dumps(record | {"kept": True}))
    again = evidence_jobs.trained_winner({"arch": to_json(arch)}, tmp_path, 20, 0, evidence.LIMITS.ram)
    assert record["test"] > 0.9 and again["kept"] and from_json(again["arch"]) == arch and again["macs"] == macs(arch)
    for bits in (8, 4):
        tuned = evidence_jobs.tuned(again, tmp_path, 4, 0, bits)
        assert tuned["bits"] == bits and tuned["test"] > 0.9 and tuned["test"] == unpacked(tuned["correct"], 80).mean()
    assert evidence_jobs.tuned({}, tmp_path, 2, 0, 8) == evidence_jobs.trained_winner({}, tmp_path, 3, 0, 9) == {}


@pytest.mark.parametrize(
    ("network", "kind"),
    [
        ({"stem": 8}, "hand-made"),
        ({"stem": 8, "pooling": "both"}, "with maxima"),
        ({"stem": 8, "pooling": "none"}, "without pooling"),
        ({"stem": 0, "pooling": "none"}, "linear"),
        ({"stem": 0, "pooling": "none", "stored": 3}, "nearest neighbours"),
        ({"stem": 16}, "sampled"),
    ],
)
def test_the_page_names_the_candidate_that_a_search_returned(network: dict[str, Any], kind: str) -> None:
    assert kind_of({"network": network, "hand": {"stem": 8}}) == kind


PRINTED = {  # table or figure of the thesis -> the measurements that it needs: words of a heading that leaves them out
    "table 5.1": {
        **{f"train {kind} 2": "" for kind in ("evolution", "evolution layers", "mobilenet_v2", "proxyless")},
        "train proxyless layers 2": "without scaled networks layer by layer",
    },
    "table 5.2": {
        **{f"train {kind}{ms} 2": "" for kind in ("evolution", "mobilenet_v2") for ms in ("", " 60.0 ms", " 30.0 ms")},
        "train evolution layers 60.0 ms 2": "without networks layer by layer",
    },
    "figure 5-2": {"train plain 60.0 ms 2": "", "train mobilenet_v2 layers 60.0 ms 2": "without networks layer by layer"},
    "table 5.3": {"tune evolution 4 bits 2": "", "train evolution * other RAM": "at one limit"},
    "table 5.4": {"tune evolution 8 bits 2": "", "tune evolution 4-bit maps": "8-bit maps"},
    "table 5.6": {
        "train space-* 2": "",
        "supernet space-*": "",
        "train evolution 2": "",
        "train resnet18 2": "without ResNet-18",
    },
    "figure 5-4": {"train space-20-* 2": "", "train space-16-* 2": "", "train space-12-* 2": ""},
    "figure 5-6": {"search evolution 2": "", "search random 2": "", "search evolution layers 2": ""},
    "table 5.8": {
        f"train {kind} {most} 2": "" for kind in ("flexible", "uniform", "fixed", "scaled") for most in evidence.MACS
    },
}


def test_headings_name_only_what_was_measured(results: Results) -> None:
    """What a heading names of the thesis is complete, but for what it says to leave out; the page has what its file has."""
    shown, named = sections(results), set[str]()
    for section in shown:
        measured = [job.key for job in evidence.jobs(Path(), [section.experiment])]
        for each in (" ".join(found) for found in re.findall(r"(table|figure) (\d[.-]\d)", section.title)):
            named.add(each)
            for needed, left_out in PRINTED[each].items():
                assert bool(fnmatch.filter(measured, needed)) != bool(left_out and left_out in section.title), (each, needed)
        assert not re.search(r"tables|figures", section.title), "named one by one"
    assert named == set(PRINTED)
    real = read(evidence_page.FILE)
    headings = re.findall("^### (.*)$", evidence_page.PAGE.read_text(), re.MULTILINE)
    assert (
        headings == [section.title for section in sections(real)]
        and real.header.get("settings", evidence.SETTINGS) == evidence.SETTINGS
    )


def test_detectors_are_compared_over_photographs_and_seeds_if_they_fit() -> None:
    for schedule, net in (detection.NETS[name] for name in (detection.OURS, detection.BY_LAYER)):
        larger = replace(net, image=(net.image[0] + detection.STEP, net.image[1] + detection.STEP, 3))
        assert detection.arena(net, schedule) <= detection.RAM < detection.arena(larger, schedule)
    found, true = (
        np.array([[0.0, 0, 0, 8, 8, 0.9], [0, 0, 0, 8, 8, 0.8], [1, 0, 0, 8, 8, 0.7]]),
        np.array([[0.0, 3, 4, 11, 12, 0]]),
    )
    pairs = ((found, 5.0), (found, 4.9), (found[2:], 5.0))
    assert [detection.counted(boxes, true, near)[0] for boxes, near in pairs] == [1, 0, 0]
    assert detection.counted(found, true[:0], 5.0) == (0, 3, 0) and detection.f1(np.array([1, 3, 1])) == 50
    scores = np.full((4, 4, 4), -9.0, np.float32)
    scores[2, 0, 1:3] = scores[2, 1, 3] = scores[3, 3, 3] = 9
    assert detection.fused_cells(scores, 0.5, 8)[:, :5].tolist() == [[1, 0, 8, 16, 32], [2, 24, 24, 32, 32]]
    sizes = dict.fromkeys(("side", "ram", "macs", "weights", "train", "test", "seconds", "cpu_seconds", "epochs"), 9)
    rng, lines = np.random.default_rng(0), dict[str, dict[int, Any]]()
    for value, name in zip((30.0, 20.0, 10.0, 20.0), detection.NETS, strict=True):
        values = [{"map": value + seed, "map_draws": value + seed + rng.normal(0, 1, 200)} for seed in range(3)]
        lines[name] = {seed: sizes | each | {"seed": seed, "f1": 9, "f1_draws": [8, 10]} for seed, each in enumerate(values)}
    text, each = detection.section(lines, 1e-9), detection.difference(lines, detection.OURS, detection.BY_LAYER, "map")
    assert len(detection.p_values(lines)) == 3 and "(table 5.5)" in text and "| 31.0 (30.0 to 32.0) | +20.0 [" in text
    drawn = [
        np.subtract(*(lines[name][seed]["map_draws"] for name in (detection.OURS, detection.BY_LAYER))) for seed in range(3)
    ]
    assert each and each.high - 20 == pytest.approx(1.96 * np.mean(drawn, axis=0).std(ddof=1)) and each.p < 1e-6, "seeds agree"
    alone = {name: {0: by_seed[0]} for name, by_seed in lines.items()}
    assert set(detection.p_values(alone)) == {1.0} and detection.section(alone, 0.05).count("**not shown**") == 2
    text = detection.section({}, -1)
    assert "5.5" not in text and "F1" not in text and "| with halo | 75 | 339.0 | 171.5 |" in text, "not measured"


def test_strategies_are_compared_over_test_samples_groups_and_seeds() -> None:
    rng, lines = np.random.default_rng(0), list[strategies.Line]()
    for strategy, share in zip(strategies.STRATEGIES[:3], (0.9, 0.5, 0.9), strict=True):
        for seed in range(3):
            right = np.random.default_rng(seed).random(900) < share + 0.01 * seed
            line = {"set": "cifar", "limits": None, "strategy": strategy, "seed": seed, "groups": None, "test": 900}
            line |= {"needs": [4000, 9000, 5.25], "kind": "plain", "too_short": seed == 2, "cpu_seconds": 100.0}
            lines.append(line | {"correct": packed(right)})
    text = strategies.section(lines, 0.01)
    rows = [line for line in text.splitlines() if line.startswith("| cifar")]
    assert len(rows) == 3 and rows[1].count("**worse**") == 1 and not re.search(r"\*\*", rows[0] + rows[2])
    assert "4,000 | 9,000 | 5.2 | 100 |" in rows[1] and "a supernet: on cifar." in text and "--seeds 3" in text
    limits, names = ["8k", "40k", 60.0], ("stm32g0b1", "nrf52840")
    boards = [line | {"board": board, "limits": limits} for line, board in zip(lines[:2], names, strict=True)]
    whole = strategies.section([*boards, *lines], 0.01)
    heads = [line.split(" | ")[0] for line in whole.splitlines()[-5:-2]]
    assert whole.startswith(text) and heads == ["| ---", "| nrf52840", "| stm32g0b1"]
    assert strategies.p_values([*boards, *lines]) == strategies.p_values(lines)
    least = {line["seed"]: 100 * strategies.accuracy(line) for line in lines[3:6]}
    assert f"{np.mean(list(least.values())):.1f} ({min(least.values()):.1f} to {max(least.values()):.1f})" in rows[1]
    owners = rng.permutation(np.arange(900) % 3).tolist()
    own, grouped = (
        strategies.difference(*(each[3:6], each[:3]), Spread(0.0, 4))
        for each in (lines, [line | {"groups": owners} for line in lines])
    )
    assert own.middle == grouped.middle < -35 and strategies.p_values(lines)[0] < 1e-6
    right = [unpacked(line["correct"], 900) * 100.0 for line in lines[:6]]
    values = np.mean([b - a for a, b in zip(right[:3], right[3:], strict=True)], axis=0)
    error = [np.std([values[np.array(owners) == owner].mean() for owner in range(3)], ddof=1) / 3**0.5, values.std() / 30]
    for each, expected in zip((grouped, own), error, strict=True):
        assert each.high - each.middle == pytest.approx(1.96 * expected, rel=0.01)
    wider = strategies.difference(lines[3:6], lines[:3], Spread(9.0, 4))
    assert wider.high - wider.middle > own.high - own.middle + 2, "2.78 * sqrt(2 * 9 / 3) = 6.8 points of the seeds"

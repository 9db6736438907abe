"""The page of evidence follows from its measurements, and says "better" only where Holm's correction leaves it."""

from __future__ import annotations

import fnmatch
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench" / "tinynas"))

# isort: split
import detection
import evidence
import evidence_page
import holm
import strategies
from evidence_jobs import packed, unpacked
from evidence_page import page
from evidence_results import Difference, Results, Spread, difference, outcomes, read, spread_of
from small_sets import kind_of

from tinynas.tasks.evaluation.intervals import student_t

# these scripts add `bench`, whose folder `planning` would hide that of the tests
sys.path[:] = [path for path in sys.path if Path(path).name != "bench"]

PLAN = evidence.Plan(epochs=5, supernet_epochs=6, warm_up=2, population=4, generations=2)
TEST = 400  # test samples
RIGHT = dict.fromkeys("train largest tuned finalists longer quantise".split(), 0.8) | {"rival": 0.6}  # shares, by first word


def record_of(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return a Record as the measurement `name` would return it, with random accuracies."""
    word = name.split(maxsplit=1)[0]
    correct = rng.random(TEST) < RIGHT.get(word, 0.5)
    record = {
        "arch": name,
        "weights": 2048,
        "macs": int(rng.integers(10**6)),
        "epochs": 5,
        "test": float(correct.mean()),
        "correct": packed(correct),
    }
    record["validation"] = record["test"]
    return record | {"curve": sorted(rng.random(12).tolist())} if word in ("evolution", "random") else record


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results of a complete run, with a random Record for each measurement."""
    folder = tmp_path_factory.mktemp("results")
    rng, file = np.random.default_rng(0), folder / evidence.RESULTS
    samples = {place: {"train": 10, "validation": 5, "test": TEST} for place in evidence_page.PLACES}
    all_jobs = evidence.jobs(folder, PLAN, 3)
    header = {"plan": PLAN._asdict(), "device": "NVIDIA X", "samples": samples, "measurements": len(all_jobs)}
    command = evidence.without(["-o", "x", "--epochs", "5", "--only", "a", "b", "--seeds", "3"], evidence.UNRECORDED)
    lines: list[dict[str, Any]] = [header | {"command": list(command)}]
    for number, job in enumerate(all_jobs):
        seconds = {"begin": number / 2, "seconds": 1.0, "cpu_seconds": 36.0, "device": "NVIDIA X"}
        lines.append({"key": job.key, **seconds, "result": record_of(job.key, rng)})
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
    text = page(results, lines, hands, {})
    assert text.count("\n### ") == 11 and text.count("Command: `--only ") == 9 and "nan" not in text
    cells = [each for section in evidence_page.sections(results) for one in section.tables for each in one.differences()]
    ends = [line[key] for line in lines for key in ("baseline_interval", "by_hand_interval")]
    ends += [line["rivals"]["full"][1] for line in hands]
    survive = survivors([*(each.p for each in cells), *map(holm.p_of, ends)])
    assert len(cells) > 60 and all(survive[-6:]) and 0 < sum(survive) < 6 + sum(each.low > 0 or each.high < 0 for each in cells)
    said = re.findall(r"([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\](?: \*\*([a-z ]+)\*\*)?", text)
    for each, is_sure, (*numbers, verdict) in zip(cells, survive, said, strict=False):
        assert numbers == [f"{value:+.1f}" for value in each[:3]]
        sign = "better" if each.low > 0 else "worse" if each.high < 0 else ""
        assert verdict == (sign if is_sure else sign and "not shown"), each
    words = " ".join(text.split())
    assert len(said) == len(cells) and f"has {len(survive)} comparisons;" in text and f"leaves {sum(survive)} of them" in words
    rival_rows = [line for line in text.splitlines() if "MobileNetV2, scaled | 2.0" in line]
    assert len(rival_rows) == 3 and all("**better**" in line for line in rival_rows), "0.8 against 0.6 of 400 samples"
    means = [float(line.split(" | ")[-1].split(" [")[0]) for line in rival_rows]
    assert f"\n| evolution minus MobileNetV2, scaled | 3 | 3 | 0 | 0 | 0 | {min(means):+.1f} to {max(means):+.1f} |\n" in text
    assert "is better than scaled MobileNetV2 in 3 of 3 cases (worse in 0), than hand-made" in " ".join(text.split())
    engines = text.split("### Accuracy with")[1].split("Command:")[0].split("streamed input | ")[1:]
    counts = [sum(f"**{verdict}**" in row.split("\n")[0] for row in engines) for verdict in ("better", "worse", "not shown")]
    assert f"streamed input, minus layer by layer | {len(engines)} | {counts[0]} | {counts[1]} | {counts[2]} | 0 |" in text
    assert "Of 2 other sets the search is better than the best of four CNNs written by hand on 1, and worse on 1;" in words
    assert "it is above the mean of the four on 1." in words and "- Worse than the best of the four CNNs: pulses." in words
    assert "- Below the mean of the four: pulses." in words and "| full 80.0 | +8.0 to +12.0 **better** | 70.0 |" in words
    assert "On 1 of 2 small sets the search is better than the best simple classifier, on 1 it is worse." in words
    assert f"{len(results.lines)} measurements, {len(results.lines) * 36 / 3600:.2f} core-hours" in words
    row = "| digits | 600 | 400 | **90.0** [85.0, 95.0] | k-NN 80.0 | +1.0 to +3.0 **better** | 85.0 | +4.0 to +6.0 **better**"
    assert row in text and "| digits | sampled | 900 of 1,000 | 2,000 of 3,000 | 1.5 of 2 | 250 | 90 |\n" in text
    assert "- Worse than the best baseline: UnitTest.\n" in text and "Before, UnitTest had never been searched" in words
    assert "2 sets: mean -15.0 points, median -15.0. 95 % interval of the mean:" in text, "+5 and -35"
    assert "- Compared with the hand-made network, the search is better on digits and worse on UnitTest.\n" in text
    assert "Unfinished" not in text and "not measured" not in text
    assert "Failed: none." in text and "begins with `bench/tinynas/evidence.py --epochs 5 --seeds 3`" in words


def test_an_unfinished_page_says_so(results: Results) -> None:
    some = {name: line for name, line in results.lines.items() if " streamed " in name or name.startswith("supernet")}
    text = page(results._replace(lines=some), [set_line("digits", 0.9, (0.01, 0.03))], [hand_line("letters", 0.9, 0.8)], {})
    assert f"So far {len(some)} of {len(results.lines)} measurements were made." in text
    assert "| images, 8 KiB | layer by layer |  |  | not measured |  |" in text and "### Joint search" not in text


def test_intervals_of_images_combine_test_samples_and_seeds(results: Results) -> None:
    found = outcomes(results, "images", "train evolution {place}", "streamed", 16)
    other = outcomes(results, "images", "rival {place}", "mobilenet_v2", "streamed", 16)
    assert sorted(found.correct) == [0, 1, 2] and difference(found, found) == Difference(0.0, 0.0, 0.0)
    assert found.spread and other.spread and found.spread.freedom != other.spread.freedom
    by_sample = 100 * np.mean([1.0 * found.correct[seed] - other.correct[seed] for seed in range(3)], axis=0)
    seeds = (
        student_t(min(found.spread.freedom, other.spread.freedom)) ** 2 * (found.spread.variance + other.spread.variance) / 3
    )
    half = math.sqrt(1.96**2 * by_sample.var(ddof=1) / TEST + seeds)
    each = difference(found, other)
    assert each and each.middle == pytest.approx(by_sample.mean()) and each.verdict(0.05) == "better"
    assert (each.middle - each.low, each.high - each.middle) == pytest.approx((half, half), rel=1e-3)
    assert difference(found, outcomes(results, "images", "train evolution {place}", "streamed", 17)) is None


def test_equal_and_quantised_networks_do_not_count_in_the_spread(results: Results) -> None:
    lines = [
        line
        for name, line in results.lines.items()
        if " images " in name and "correct" in line["result"] and not name.startswith(("quantise", "rival", "longer rival"))
    ]
    kinds = {line["key"].rsplit(" ", 1)[0] for line in lines}
    spread = spread_of(results, "images", rivals=False)
    assert spread.freedom == len(lines) - len(kinds) > 100
    assert 1.5**2 < spread.variance < 3.0**2, "between 100^2 * 0.8 * 0.2 / 400 and 100^2 * 0.6 * 0.4 / 400"
    twice = {
        name.replace("streamed", "twice"): line
        for name, line in results.lines.items()
        if name.startswith("train evolution images")
    }
    assert len(twice) > 20 and spread_of(results._replace(lines=results.lines | twice), "images", rivals=False) == spread


def test_one_seed_gives_no_verdict(results: Results) -> None:
    alone = results._replace(lines={name: line for name, line in results.lines.items() if name.endswith(" 0")})
    for task, rival in (("images", "mobilenet_v2"), ("keywords", "ds_cnn")):
        found, other = (
            outcomes(alone, task, *words, "streamed", 16) for words in (("train evolution {place}",), ("rival {place}", rival))
        )
        each = difference(found, other)
        assert each and each.low > 0 and each.p == 1 and each.verdict(0.05) == "not shown", "0.8 against 0.6 of 400 samples"


def test_intervals_of_keywords_are_over_rotations(results: Results) -> None:
    found = outcomes(results, "keywords", "train evolution {place}", "streamed", 10)
    other = outcomes(results, "keywords", "rival {place}", "ds_cnn", "streamed", 10)
    values = [100 * (found.correct[seed].mean() - other.correct[seed].mean()) for seed in range(3)]
    each, half = difference(found, other), student_t(2) * np.std(values, ddof=1) / math.sqrt(3)
    p = holm.p_value(each.middle, 0.0, half / student_t(2), 2)
    assert each and each == pytest.approx((np.mean(values), np.mean(values) - half, np.mean(values) + half, p))


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
    "table 5.1": {"rival images * layers *": "", "train evolution images layers *": "", "rival images * streamed *": ""},
    "table 5.6": {"train evolution images space *": "", "train evolution images streamed *": "", "supernet images-own": ""},
    "figure 5-6": {"evolution images streamed *": "", "random images streamed *": "", "evolution images layers *": ""},
    "table 5.8": {
        "train evolution images fixed *": "",
        "train evolution images uniform *": "",
        "train evolution images flexible *": "",
        "scaled evolution *": "without networks scaled after the search",
    },
}


def test_headings_name_only_what_was_measured() -> None:
    """Each heading has measurements; what it names of the thesis is complete, but for what it says to leave out."""
    found = read(evidence_page.FILE)
    measured = [name for name, line in found.lines.items() if line["result"]]
    sections = {section.title: section.patterns for section in evidence_page.sections(found)}
    headings = re.findall("^### (.*)$", evidence_page.PAGE.read_text(), re.MULTILINE)
    assert headings == ["Summary", *sections, "Every trained network"]
    for title, patterns in sections.items():
        assert all(fnmatch.filter(measured, each) for each in patterns), title
        named = re.findall(r"\b(?:table|figure)s? \d.*?(?=\)|$)", title)
        for each in (f"{kind} {number}" for text in named for kind, number in re.findall(r"(table|figure) (\d[.-]\d)", text)):
            for needed, left_out in PRINTED[each].items():
                assert bool(fnmatch.filter(measured, needed)) != bool(left_out and left_out in title), (title, needed)
        assert not re.search(r"tables|figures", title), "named one by one"


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
            line = {"set": "cifar", "strategy": strategy, "seed": seed, "test": 900, "correct": packed(right), "groups": None}
            line |= {"needs": [4000, 9000, 5.25], "kind": "plain", "too_short": seed == 2, "cpu_seconds": 100.0}
            lines.append(line)
    text = strategies.section(lines, 0.01)
    rows = [line for line in text.splitlines() if line.startswith("| cifar")]
    assert len(rows) == 3 and rows[1].count("**worse**") == 1 and not re.search(r"\*\*", rows[0] + rows[2])
    assert "4,000 | 9,000 | 5.2 | 100 |" in rows[1] and "cifar with seed 2" in text and "--seeds 3" in text
    least = {line["seed"]: 100 * strategies.accuracy(line) for line in lines[3:6]}
    assert f"{np.mean(list(least.values())):.1f} ({min(least.values()):.1f} to {max(least.values()):.1f})" in rows[1]
    owners = rng.permutation(np.arange(900) % 3).tolist()
    own, grouped = (
        strategies.difference(*(each[3:6], each[:3]), Spread(0.0, 4))
        for each in (lines, [line | {"groups": owners} for line in lines])
    )
    assert own.middle == grouped.middle < -35 and strategies.p_values(lines)[0] < 1e-6
    values = np.mean(
        [
            unpacked(b["correct"], 900) * 100.0 - unpacked(a["correct"], 900) * 100.0
            for a, b in zip(lines[:3], lines[3:6], strict=True)
        ],
        axis=0,
    )
    error = [np.std([values[np.array(owners) == owner].mean() for owner in range(3)], ddof=1) / 3**0.5, values.std() / 30]
    for each, expected in zip((grouped, own), error, strict=True):
        assert each.high - each.middle == pytest.approx(1.96 * expected, rel=0.01)
    wider = strategies.difference(lines[3:6], lines[:3], Spread(9.0, 4))
    assert wider.high - wider.middle > own.high - own.middle + 2, "2.78 * sqrt(2 * 9 / 3) = 6.8 points of the seeds"

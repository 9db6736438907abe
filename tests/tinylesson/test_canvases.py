"""The lesson's canvases in a browser, from a saved page: each knob changes its figure, also on a phone; answers are hidden."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from cases.browser import seen_by_script

import tinylesson as explorer
from tinylesson import questions
from tinylesson.lesson import page
from tinylesson.networks import NETWORKS, blocks_of, layers_of
from tinylesson.papers.chain import square
from tinylesson.planned import COMPARED, Compared
from tinynas.arch import macs as macs_of
from tinynas.arch import weights
from tinynas.published.patches import layer_bytes, macs, patched_macs
from tinynas.space import MOBILE, Choice, arch_of
from tinynas.stage_one import FEASIBLE, By, Setting, best_setting, limits_for_share, most_feasible
from tinynas.stage_one import layer_bytes as layer_peak

FOLDER = Path(explorer.__file__).parent
PLANNED = json.loads((FOLDER / "planned.json").read_text())
# width of the window in pixels, and whether the knobs are beside their figure
DEVICES = {"desk": (1280, True), "phone": (390, False)}
CHAINS = ((32, 0.1), (144, 0.5), (176, 1.0), (208, 0.35), (256, 1.5))  # resolutions and widths
HALOS = ((2, 4), (2, 1), (3, 4), (5, 16), (8, 9))  # patches along a side, layers

TURNS = (Path(__file__).parent / "turns.js").read_text()


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what the user saw on a device of DEVICES."""

    @cache
    def visit(device: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(device)
        turns = f"const CHAINS = {json.dumps(CHAINS)}, HALOS = {json.dumps(HALOS)};{TURNS}"
        return seen_by_script(page(is_served=False), turns, folder, 60_000, DEVICES[device][0])

    return visit


@pytest.mark.parametrize("device", DEVICES)
def test_every_knob_moves_its_figure_and_names_its_default(visits: Any, device: str) -> None:
    found = visits(device)
    assert found["inner"] == DEVICES[device][0] and found["wide"] <= 0, "the page is as wide as its window"
    knobs = {name: each for of_canvas in found["knobs"].values() for name, each in of_canvas.items()}
    assert len(knobs) == 1 + 3 + 5 + 1 + 3 + 2 + 1 + 1 + 10
    still = {name for name, each in knobs.items() if each["moves"] is not True}
    assert still == set(found["knobs"]["explorer"]), "the explorer's knobs are turned in test_in_browser.py"
    ranges = {"layers-resolution": "32 to 256 px, default 96 px", "layers-width": "0.1 to 1.5 x, default 1 x"}
    ranges |= {
        "map-ram": "8 to 1024 KiB, default 320 KiB",
        "map-rule": "10 to 100 %, default 80 %",
        "resolution": "32 to 256 px, default 144 px",
    }
    assert {name: knobs[name]["note"] for name in ranges} == ranges
    assert all("default" in each["note"] for each in knobs.values())


@pytest.mark.parametrize("device", DEVICES)
def test_knobs_stay_in_view_while_their_figure_scrolls(visits: Any, device: str) -> None:
    for name, place in visits(device)["place"].items():
        assert place["beside"] is DEVICES[device][1], name
        assert 0 <= place["top"] <= 8, name


def test_the_ladder_shows_machines_and_planned_networks(visits: Any) -> None:
    shown = visits("desk")["ladder"]
    for words in ("16 GB memory", "TB to PB storage", ">64 GB storage", "320 kB memory", "Arduino Nano 33 BLE Sense"):
        assert words in shown["formula"]
    assert "1,372 KiB RAM" in shown["formula"] and "1,372 KiB RAM" not in shown["best"]
    arena = PLANNED["ladder"][2]["arenas"]["best"]
    assert f"{arena / 1024:.0f} KiB RAM" in shown["best"] and f"{arena:,}" in shown["formula"], "the table has all schedules"


def test_the_five_layers_grow_as_the_lecture_says(visits: Any) -> None:
    shown = visits("desk")["layers"]
    assert "conv 1 and conv 2, 110,592 B" in shown["first"] and "108 KiB✓ fits" in shown["first"]
    assert f"{4 * 110_592:,} B" in shown["twice"] and f"{2 * 110_592:,} B" in shown["half"]
    assert f"✗ {2 * 110_592 - 64 * 1024:,} B too many" in shown["none"]
    assert "33.8 KiB" in shown["first"] and "34 KiB" in shown["first"], "planned, with the input in RAM and by rows"


def star(column: int, ram: int, flash: int = 1 << 20, by: By = "p80", share: float = FEASIBLE) -> str:
    """Return the begin of the map's caption on the setting that stage one chooses from the networks of map.json.

    column: which arena of a network counts: layer by layer, the best plan, the best plan with its input by rows.
    """
    settings, networks = [], {}
    for name, drawn in json.loads((FOLDER / "map.json").read_text())["networks"].items():
        side, width = name.split()
        macs = tuple(sorted(each[4] for each in drawn if each[column] <= ram and each[3] <= flash))
        settings.append(Setting((int(side), int(side)), float(width), macs, len(drawn)))
        networks[settings[-1]] = drawn
    best = best_setting(settings, by, share)
    if best is not None and best.size is not None:
        return f"★, the best feasible setting: {best.size[0]} x {best.size[0]} at width {best.width:g},"
    near = most_feasible(settings)
    assert near.size is not None
    needs = [{"ram": each[column], "flash": each[3]} for each in networks[near]]
    kib = [-(-int(count) // 1024) for count in limits_for_share(needs, {"ram": ram, "flash": flash}).values()]
    where = f"At {near.size[0]} x {near.size[0]} and width {near.width:g} they do within"
    return (
        f"No setting is feasible: nowhere do 80 % of the networks fit. {where} {kib[0]} KiB of SRAM and {kib[1]} KiB of Flash."
    )


def test_the_map_chooses_the_setting_of_stage_one(visits: Any) -> None:
    shown = visits("desk")["map"]
    for key, column in (("layer", 0), ("best", 1), ("rows", 2)):
        assert star(column, 320 << 10) in shown[key], key
    assert "144 x 144 at width 0.5," in shown["layer"], "as the thesis and the lecture have it"
    for ram in (8, 16, 48, 1024):
        assert star(0, ram << 10) in shown[str(ram)], ram
    assert star(0, 320 << 10, 512 << 10) in shown["flash"]
    assert star(0, 320 << 10, by="mean") in shown["mean"] and "on average" in shown["mean"]
    assert star(0, 320 << 10, share=0.1) in shown["ruleless"] != shown["layer"]
    assert "image resolution, px" in shown["layer"] and "width multiplier" in shown["layer"]


def by_formula(network: Compared) -> tuple[list[int], int]:
    """Return the bytes of each block's largest layer by the thesis' count, and of its buffer for a column (eq. 3.1)."""
    chain, _ = layers_of(*network[1:4])
    found = blocks_of(*network[1:4])
    assert found
    blocks = [max(map(layer_bytes, block.layers)) for block in found[0]]
    return blocks, 2 * max(layer.kernel[0] * layer.kernel[1] * layer.c_in for layer in chain)


def test_ram_per_block_is_compared_on_one_scale_with_its_flatness(visits: Any) -> None:
    found = visits("desk")
    flat = dict[Compared, float]()
    for key, shown in found["profiles"].items():
        setting, schedule = key.split()
        expected = [each for each in zip(COMPARED, PLANNED["profiles"], strict=True) if each[0].setting in (setting, "both")]
        for (network, title, caption, over), (each, planned) in zip(shown, expected, strict=True):
            live, column = by_formula(each) if schedule == "layer" else (planned[schedule], 0)
            assert network == each.network and title.startswith(f"{each.title}, {each.resolution} px")
            assert f"flatness {mean(live) / max(live):.2f}: mean" in caption
            assert ("It fits." in caption) == (max(live) + column <= 320 << 10) == (over == 0)
            assert over == sum(count + column > 320 << 10 for count in live), "blocks over the budget have another colour"
            if schedule == "layer":
                flat[each] = mean(live) / max(live)
                assert f"({(max(live) + column) / 1000:,.0f} kB" in caption and column % 2 == 0
    assert max(flat, key=lambda each: flat[each]).network == "mcunet_320kb", "a searched network is flatter"
    assert all("too many" in caption for *_, caption, _ in found["tight"])


def test_networks_for_320_kb_need_what_the_thesis_prints(visits: Any) -> None:
    """Table 5.4: within 5 %, and each fits."""
    printed = {"mobilenet_v2": 308, "proxyless": 292, "mcunet_320kb": 293}
    shown = {network: caption for network, _, caption, _ in visits("desk")["profiles"]["small layer"]}
    assert shown.keys() == printed.keys() == {each.network for each in COMPARED if each.printed}
    for network, sram in printed.items():
        counted = re.search(r"\((\d+) kB; the thesis prints (\d+) kB\)\. It fits\.", shown[network])
        assert counted and int(counted[2]) == sram and abs(int(counted[1]) / sram - 1) < 0.05


def test_the_supernet_shows_each_sub_network_with_its_costs(visits: Any) -> None:
    seen, edges = list[tuple[int, bool]](), list(accumulate((0, 1, 4, 4, 4, 4, 4, 1)))
    for words, titles in visits("desk")["supernet"]:
        drawn = [re.findall(r"kernel (\d) x \d, expansion (\d)", title) for title in titles]  # none: the block is left out
        stages = [[(int(k), int(e)) for each in drawn[begin:end] for k, e in each] for begin, end in pairwise(edges)]
        arch = arch_of(MOBILE, Choice((144, 144), 0.5, tuple(map(tuple, stages))), 1000)
        ram, flash, work = layer_peak(arch), weights(arch), macs_of(arch)
        said = [float(each.replace(",", "")) for each in re.findall(r"([\d.,]+) (?:KiB of RAM|KiB of Flash|M MACs)", words)]
        assert said == pytest.approx([ram / 1024, flash / 1024, work / 1e6], rel=5e-3)
        assert f"{sum(map(len, drawn))} of 22 blocks" in words
        seen.append((work, "It fits into 320 KiB" in words))
        assert seen[-1][1] == (ram <= 320 << 10 and flash <= 1 << 20)
    assert len(seen) == 24 and seen == sorted(seen) and {fits for _, fits in seen} == {True, False}


def test_a_patch_is_drawn_with_its_halo_and_its_cost(visits: Any) -> None:
    for key, (words, read) in visits("desk")["halo"].items():
        grid, depth = map(int, key.split())
        patch, layers = -(-224 // grid), [square(224, 8, 8, 3)] * depth
        again = patched_macs(layers, depth, patch, clipped=True) / macs(layers) - 1
        assert f"Work{100 * again:.1f} % more" in words and f"Halo on an inner side{depth} px" in words
        middle = grid // 2 * patch
        assert abs(read - (min(middle + patch + depth, 224) - max(middle - depth, 0))) < 0.1


def test_redistribution_and_two_scales_show_their_figures(visits: Any) -> None:
    found = visits("desk")
    four = found["redistribution"]["7"]
    for words in ("75 x 75 pixels", "339.0 M MACs, 12.7 % more", "63 x 63 pixels", "309.2 M MACs, 3.8 % more"):
        assert words in four
    assert "737.9 M MACs" in found["redistribution"]["1"], "the thesis: up to 738 M, with patches of one pixel"
    assert "459 KiB of RAM" in found["redistribution"]["14"]
    for schedule, shown in found["scales"].items():
        record = PLANNED["scales"][schedule]
        assert f"Peak {max(layer['live'] for layer in record['layers']) / 1024:.3g} KiB." in shown
        (fine,) = (each for each in record["buffers"] if each["label"] == record["fine"])
        assert f"stays in RAM from step {fine['begin'] + 1} to {fine['end']} of {record['plan']['steps']}" in shown
        assert ("Nothing is fused." in shown) == (schedule == "layer")


def test_the_page_computes_the_formula_of_every_chain(visits: Any) -> None:
    chains = visits("desk")["chains"]
    assert set(chains) == {name for name, each in NETWORKS.items() if each.blocks}
    for name, peaks in chains.items():
        assert peaks == [questions.by_formula(name, *setting)["layer"] for setting in CHAINS], name


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("number", range(1, 10))
def test_a_question_says_why_an_answer_is_wrong_and_opens_its_solution(visits: Any, device: str, number: int) -> None:
    asked, before, said = visits(device)["questions"][number - 1]
    assert re.fullmatch(rf"{number}\. .*\?", asked) and before is False, "the answers are shown before one is picked"
    assert sorted(said) == [["✓ Righ", True, True], *[["✗ No. ", True, False]] * 2]


def test_the_story_has_one_picture_of_what_fits(visits: Any) -> None:
    over, words, parts, crossed = visits("phone")["story"]
    rows = f"{PLANNED['ladder'][2]['arenas']['rows'] / 1024:.0f} KiB"
    assert (over, parts, crossed) == (1, 4, 0) and "1,372 KiB" in words and rows in words


def test_a_printed_page_has_the_answers(visits: Any) -> None:
    assert visits("desk")["closedInPrint"] == 0

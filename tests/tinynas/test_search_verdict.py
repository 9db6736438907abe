"""The verdict on a network that a search found."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

from tinynas.search_report import _input, fit_lines


@pytest.mark.parametrize(
    ("excess", "candidates", "said"),
    [
        ({}, 6, ["**fits stm32f103**"]),
        (
            {"ram": 1_000.0, "latency_ms": 100.0},
            6,
            [
                "**does not fit stm32f103**: 1,000 B of RAM too many, 100.0 ms too long",
                "The estimates before the build were too low. Search again with --ram 2250 --latency-ms 225 and another --out, "
                "or allow more.",
            ],
        ),
        ({"flash": 7.0}, 1, ["**does not fit stm32f103**: 7 B of Flash too many"]),
    ],
)
def test_the_verdict_names_the_excess_and_limits_for_another_search(excess: dict, candidates: int, said: list[str]) -> None:
    limits = {"ram": 3_000, "flash": 65_536, "latency_ms": 300.0, "energy_mj": None}
    record = {
        "device": "stm32f103",
        "limits": limits,
        "deployed": {key: limits[key] + excess.get(key, 0) for key in ("ram", "flash", "latency_ms")},
        "excess": {"ram": 0, "flash": 0, "latency_ms": 0} | excess,
        "fits": not excess,
        "trained": {"candidates": candidates},
    }
    assert fit_lines(record) == said


def test_the_choice_of_the_input_is_explained() -> None:
    """The line has the size with the most multiply-accumulates, and the next line what short trainings made of it."""
    sizes = {"smallest": [16, 16], "largest": [32, 32], "by_macs": [24, 24]}
    choice = {**sizes, "input": [24, 24], "inputs": 3, "width": 0.5, "share": 0.9, "feasible": 0.8}
    choice |= {"macs": 1_204_475.2, "tried": []}
    first = "stage one chose an input of 24 x 24 (3 sizes of 16 x 16 to 32 x 32): there 90 % of the sampled networks of"
    first += " width 0.5 fit"
    assert _input(None) == []
    few = f"{first.replace('90 %', '6 %')}, fewer than 80 % as at every other size: higher limits give more choice"
    assert _input({**choice, "share": 0.06, "macs": 0.0}) == [few]
    assert _input(choice) == [f"{first}, and 20 % of these have more than 1.20 M multiply-accumulates"]
    tried = [{"input": [24, 24], "epochs": 7, "accuracy": 0.6}, {"input": [32, 32], "epochs": 5, "accuracy": 0.712}]
    for chosen, did in (([24, 24], "kept 24 x 24"), ([32, 32], "changed it to 32 x 32")):
        _, second = _input({**choice, "tried": tried, "input": chosen})
        said = f"short trainings of equal time {did}, the largest that is not clearly worse: "
        assert second == f"{said}on the validation part 24 x 24 60.0 %, 32 x 32 71.2 %"

"""The verdict on a network that a search found."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")

from tinyweave.report.search import fit_lines


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

"""Random networks: LiteRT's reference kernels, the numpy reference, and the emitted C on the host give the same bytes.

Half of them have filters that are zero or saturated, for the passes to remove. Each network's number is its seed;
`--fuzz-seed N --fuzz-count M` runs others. The emulated core takes every eighth.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.generate import random_network

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first, count = (metafunc.config.getoption(f"--fuzz-{name}") for name in ("seed", "count"))
        metafunc.parametrize("seed", range(first, first + count))


@pytest.mark.litert
@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
def test_random_network_gives_the_same_bytes_everywhere(seed: int, damaged: bool, tmp_path: Path) -> None:
    path = tmp_path / f"network_{seed}.tflite"
    path.write_bytes(to_tflite(random_network(seed, damaged=damaged)))
    model = api.load(path)
    result = api.verify(model, api.plan(model), count=5, seed=seed, core="cortex-m4" if seed % 8 == 0 else None)
    assert result.reference.startswith("LiteRT's reference kernels"), result.reference
    assert result.ok, f"seed {seed}: {result.first_difference or dict(result.touched)}"


def test_a_seed_names_one_network() -> None:
    assert to_tflite(random_network(7)) == to_tflite(random_network(7))
    assert to_tflite(random_network(7)) != to_tflite(random_network(8))
    assert to_tflite(random_network(7)) != to_tflite(random_network(7, damaged=True))

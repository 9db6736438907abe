"""Random attention networks give the same bytes with the plans of their Pareto fronts; most networks run in sweeps only."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from fuzz.attention import random_attention, random_stream
from fuzz.random_plans import CORES, Trial, failures

from tinyweave import api
from tinyweave.api import results
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.passes import run_passes
from tinyweave.planning import Request, front
from tinyweave.simulate.compare import Verification

BATCH = 10


def with_cores(seeds: range, *cores: str) -> list[Any]:
    """Return a pair of parameters for each seed: the seed and one of the cores. All but the first two run in sweeps only."""
    marks = [(), (), *(len(seeds) - 2) * [pytest.mark.sweep]]
    return [pytest.param(seed, cores[seed % len(cores)], marks=mark) for seed, mark in zip(seeds, marks, strict=True)]


def trials(seed: int) -> list[Trial]:
    """Return at most four points of the front of a network of this seed."""
    rng = random.Random(seed)
    graph, _ = run_passes(random_attention(seed), io="int8")
    points = front(graph, Request(core=rng.choice(CORES), stream_outputs=False))
    return [Trial(seed, f"net_{seed}_{number}", each, is_exact=True) for number, each in enumerate(points[:4])]


@pytest.mark.parametrize("batch", [0, 1, *(pytest.param(batch, marks=pytest.mark.sweep) for batch in range(2, 20))])
def test_random_attention_with_plans_of_its_front_gives_the_bytes_of_the_reference(batch: int) -> None:
    wanted, failed = failures(range(BATCH * batch, BATCH * (batch + 1)), trials)
    assert not failed and len(wanted) >= BATCH


def verify(model: results.Model, core: str) -> Verification:
    """Assert that the C of the smallest plan computes the reference's bytes on the host and on an emulated core."""
    result = api.verify_plan(model, api.plan(model, optimize="size"), api.ProofOptions(count=3), core=core)
    assert result.ok, result.first_difference
    return result


@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.parametrize(("seed", "core"), with_cores(range(200), "cortex-m4", "cortex-m33", "cortex-m55"))
def test_random_attention_goes_the_whole_way(seed: int, core: str, tmp_path: Path, emulator: None) -> None:
    """LiteRT, the reference, the C on the host and on an emulated core agree; no score matrix of the smallest plan is whole."""
    path = tmp_path / "attention.tflite"
    path.write_bytes(to_tflite(random_attention(seed)))
    verify(api.load(path), core)


@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.parametrize(("seed", "core"), with_cores(range(3, 105), "cortex-m4", "cortex-m55", "cortex-m33"))
def test_random_streams_of_attention_go_the_whole_way(seed: int, core: str, tmp_path: Path, emulator: None) -> None:
    """The C of a call, on the host and on an emulated core, returns the rows that LiteRT computes for the whole window."""
    path = tmp_path / "attention.tflite"
    path.write_bytes(to_tflite(random_stream(seed)))
    whole = api.load(path)
    try:
        model = api.streamed(whole, "auto")
    except CompileError as error:  # about one of four networks has a mask that is too weak, or too short a window
        assert "are independent of the position of the window" in str(error)
        return
    assert verify(model, core).reference == "LiteRT's reference kernels, equal to numpy reference"

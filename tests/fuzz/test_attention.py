"""Random attention networks give the same bytes with the plans of their Pareto fronts; most networks run in sweeps only."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fuzz.attention import random_attention, random_stream
from fuzz.random_plans import CORES, Trial, failures

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.passes import run_passes
from tinyweave.planning import Request, front
from tinyweave.simulate import emulated

BATCH = 10
WHOLE_WAY = [0, 1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 200))]

STREAMS = [3, 4, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(5, 105))]


def emulated_core(core: str) -> str:
    """Return `core`, or skip the test if it cannot be emulated here."""
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    return core


def trials(seed: int) -> list[Trial]:
    """Return at most four points of the front of a network of this seed."""
    rng = random.Random(seed)
    graph, _ = run_passes(random_attention(seed), float_io=False)
    points = front(graph, Request(core=rng.choice(CORES), stream_outputs=False))
    return [Trial(seed, f"net_{seed}_{number}", each, is_exact=True) for number, each in enumerate(points[:4])]


@pytest.mark.parametrize("batch", [0, 1, *(pytest.param(batch, marks=pytest.mark.sweep) for batch in range(2, 20))])
def test_random_attention_with_plans_of_its_front_gives_the_bytes_of_the_reference(batch: int) -> None:
    wanted, failed = failures(range(BATCH * batch, BATCH * (batch + 1)), trials)
    assert not failed and len(wanted) >= BATCH


@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.parametrize("seed", WHOLE_WAY)
def test_random_attention_goes_the_whole_way(seed: int, tmp_path: Path) -> None:
    """LiteRT, the reference, the C on the host and on an emulated core agree; no score matrix of the smallest plan is whole."""
    path = tmp_path / "attention.tflite"
    path.write_bytes(to_tflite(random_attention(seed)))
    model = api.load(path)
    core = emulated_core(("cortex-m4", "cortex-m33", "cortex-m55")[seed % 3])
    result = api.verify_plan(model, api.plan(model, optimize="size"), api.ProofOptions(count=3), core=core)
    assert result.ok, result.first_difference


@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.parametrize("seed", STREAMS)
def test_random_streams_of_attention_go_the_whole_way(seed: int, tmp_path: Path) -> None:
    """The C of a call, on the host and on an emulated core, returns the rows that LiteRT computes for the whole window."""
    path = tmp_path / "attention.tflite"
    path.write_bytes(to_tflite(random_stream(seed)))
    whole = api.load(path)
    try:
        model = api.streamed(whole, "auto")
    except CompileError as error:  # about one of four networks has a mask that is too weak, or too short a window
        assert "are independent of the position of the window" in str(error)
        return
    core = emulated_core(("cortex-m4", "cortex-m55", "cortex-m33")[seed % 3])
    result = api.verify_plan(model, api.plan(model, optimize="size"), api.ProofOptions(count=3), core=core)
    assert result.ok, result.first_difference
    assert result.reference == "LiteRT's reference kernels, equal to numpy reference"

"""Random networks with random plans give the same bytes; `--fuzz-seed N --fuzz-count M` runs others."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fuzz.random_plans import CORES, build, failure, failures, fault_on, file_trials, front_trials, network, trials
from fuzz.seeds import parametrize

from tinyweave.kernels.table import VARIANTS, kernels_for

BATCH = 10
UNREACHED = {
    "tw_move": "no op of a network asks for it: plans put it in, here those that move tensors at random",
    "tw_depthwise_pixel_s8_dsp": "its windows are those of streams of frames: tests/test_streaming.py",
    "tw_one_constant_s8": "no operand of a large map is a single constant: tests/codegen/test_kinds.py",
    "tw_softmax_s8_table_dsp": "its maps have at least 1,024 elements: tests/codegen/test_kinds.py",
    "tw_detection_postprocess_s8": "it needs boxes and scores of the same anchors: tests/codegen/test_kinds.py",
    "tw_topk_v2_s8": "the random networks of every op have it, others do not: tests/codegen/test_kinds.py",
    "tw_fully_connected_s8_segments_dsp": "its rows have more than 500 inputs: tests/codegen/test_kinds.py",
    **dict.fromkeys(
        ("tw_batch_matmul_s16", "tw_compare_s16", "tw_extremum_s16", "tw_prelu_s16", "tw_resize_bilinear_s16"),
        "random networks do not have its op on int16: tests/codegen/test_kinds.py",
    ),
    **dict.fromkeys(
        ("tw_conv_2d_s16_channels_dsp", "tw_conv_2d_s16_channels_mve"),
        "no convolution on int16 has a filter for each channel: tests/codegen/test_kinds.py",
    ),
}
IN_SWEEPS = 30
ON_CORES, ON_CORES_IN_SWEEPS = 4, 200
SEEDS = (1, 2, 3, 4, 5)  # under a wrong plan a kernel of seed 0 reads far outside of its arena
OFFSETS = "tw_conv_2d_s8_lean_scalar"  # it has offsets of the input map in its scratch


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, "seeds", BATCH, IN_SWEEPS, BATCH)
    parametrize(metafunc, "networks", ON_CORES, ON_CORES_IN_SWEEPS, ON_CORES)


def test_random_plans_give_the_bytes_of_the_reference(seeds: range) -> None:
    tried, failed = failures(seeds)
    assert not failed, "\n".join(failed)
    assert sum(trial.overlaps for trial in tried) >= len(seeds), "outputs lie over operands"
    orders = {(trial.seed, tuple(stage.ops for stage in trial.plan.stages)) for trial in tried}
    assert len(orders) >= 2 * len(seeds)


def test_points_of_a_front_give_the_reference_and_touch_exactly_their_arena(seeds: range) -> None:
    tried, failed = failures(seeds, front_trials)
    assert not failed, "\n".join(failed)
    assert any(stage.schedule for trial in tried for stage in trial.plan.stages)


def test_networks_trained_again_only_need_another_file_of_weights(seeds: range) -> None:
    """The C of each network also computes the bytes of the network that was trained again, with its file."""
    tried, failed = failures(seeds, file_trials)
    assert not failed, "\n".join(failed)
    swapped = sum(trial.in_again is not None for trial in tried)
    assert swapped >= 0.7 * len(tried), f"{swapped} of {len(tried)}"


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus", "rv32imc"])
def test_random_places_of_constants_give_the_reference_on_a_core(
    core: str, networks: range, tmp_path: Path, emulator: None
) -> None:
    counts = Counter[str]()
    found = {seed: fault for seed in networks if (fault := fault_on(core, seed, tmp_path / str(seed), counts))}
    assert not found
    assert counts["bytes read"], counts


def test_maps_without_rows_take_no_bytes_in_a_tile() -> None:
    """In a tile of this network only padding is read, so the maps of earlier ops have no rows."""
    tried, failed = failures([41_897], front_trials)
    assert not failed, "\n".join(failed)
    sizes = [size for trial in tried for stage in trial.plan.stages if stage.schedule for size in stage.schedule.tiles.values()]
    assert any(rows == 0 for rows, _ in sizes) and any(rows > 0 for rows, _ in sizes)


def test_a_seed_always_gives_the_same_plans() -> None:
    assert [trial.plan.offsets for trial in trials(3)] == [trial.plan.offsets for trial in trials(3)]
    assert trials(3)[0].plan.offsets != trials(3)[1].plan.offsets


def test_wrong_plans_are_detected(tmp_path: Path) -> None:
    """Plans whose buffers all overlap give other bytes, and a plan with too small an arena writes outside of it.

    Plans with copies or offsets in scratch are left out: an overwritten index may lead anywhere.
    """
    made = (trial for seed in SEEDS for trial in trials(seed) if not trial.plan.copies and OFFSETS not in trial.plan.variants)
    wrong = [replace(trial, plan=_flattened(trial.plan)) for trial in made]
    library = build(tmp_path, wrong)
    assert isinstance(library, ctypes.CDLL)
    found = [failure(library, trial) for trial in wrong]
    assert sum(text is not None for text in found) >= 0.8 * len(wrong), found
    trial = trials(1)[0]
    short = replace(trial, plan=replace(trial.plan, arena={"sram": trial.plan.arena["sram"] - 8}))
    (tmp_path / "short").mkdir()
    assert failure(build(tmp_path / "short", [short]), short) == "writes outside of its arena"
    more = replace(trial, plan=replace(trial.plan, arena={"sram": trial.plan.arena["sram"] + 1}), is_exact=True)
    (tmp_path / "more").mkdir()
    size = trial.plan.arena["sram"]
    assert failure(build(tmp_path / "more", [more]), more) == f"claims {size + 1:,} B and touches {size:,} B"


def _flattened(plan):
    largest = max(buffer.bytes for buffer in plan.buffers)
    return replace(plan, offsets=dict.fromkeys(plan.offsets, 0), arena={"sram": largest})


def test_every_kernel_is_used_by_some_random_network() -> None:
    """Kernels are chosen for the networks of 400 seeds and all cores of random plans, without planning or compiling."""
    missing = {row.name for row in VARIANTS} - set(UNREACHED)
    for seed in range(400):
        graph = network(seed)
        for op, core in itertools.product(graph.ops, set(CORES)):
            missing -= {row.name for row in kernels_for(graph, op, core)}
        if not missing:
            break
    assert not missing, f"no network has an op that is run by {sorted(missing)}"

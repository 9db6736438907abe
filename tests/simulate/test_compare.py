"""Verification passes correct C, and names the layer, the element and the values of wrong C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.maps import segmentation
from cases.tiny import NETWORKS
from codegen.emitted import emitted

from tinyweave import ops
from tinyweave.ir import CompileError, Graph, Tensor, channels_last
from tinyweave.planning import Plan, Request, plan
from tinyweave.simulate import compare, emulated
from tinyweave.simulate.run import Fault

pytestmark = pytest.mark.emulator


def edit(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert text.count(old) == 1, old
    (folder / file).write_text(text.replace(old, new))


def verify(made: Plan, folder: Path, count: int = 4) -> compare.Verification:
    cases = compare.samples(made.graph, count, 0)
    return compare.verify(made, folder, made.graph.name, cases, cores=["cortex-m4"])


@pytest.mark.parametrize("name", NETWORKS)
def test_correct_c_passes_the_verification(name: str, tmp_path: Path) -> None:
    made = plan(NETWORKS[name]())
    result = verify(made, emitted(made, tmp_path))
    assert result.ok
    assert result.first_difference is None
    assert result.max_abs_diff == 0
    assert {place: dict(used) for place, used in result.touched.items()} == {"host": made.arena, "cortex-m4": made.arena}
    assert set(result.compilers) == {"host", "cortex-m4"}


def test_a_core_without_the_kernels_instructions_runs_their_plain_c(tmp_path: Path) -> None:
    made = plan(NETWORKS["chain"](), Request(core="cortex-m55"))
    folder, cases = emitted(made, tmp_path), compare.samples(made.graph, 2, 0)
    result = compare.verify(made, folder, made.graph.name, cases, cores=["cortex-m33"])
    assert result.ok
    assert "-DTW_PLAIN_C" in result.compilers["cortex-m33"]
    with pytest.raises(CompileError, match="no Arm MVE instructions"):
        emulated.build(folder, made.graph.name, "cortex-m33")


def test_the_report_says_whether_litert_equals_numpy(tmp_path: Path) -> None:
    made = plan(NETWORKS["chain"]())
    folder, cases = emitted(made, tmp_path), compare.samples(made.graph, 2, 0)
    right = [[ops.run(made.graph, dict(zip(made.graph.inputs, x, strict=True)))["scores"]] for x in cases]
    wrong = [right[0], [right[1][0] ^ np.int8(1)]]

    said = "LiteRT's reference kernels"
    for reference, words, ok in (
        (lambda cases: right, f"{said}, equal to numpy reference", True),
        (lambda cases: wrong, f"{said}, different from numpy reference", False),
        (None, "numpy reference", True),
    ):
        truth = compare.truth(made.graph, cases, reference)
        result = compare.verify(made, folder, "chain", cases, cores=[], right=truth)
        assert (result.reference, result.ok) == (words, ok)


def test_the_first_differing_layer_is_named(tmp_path: Path) -> None:
    made = plan(NETWORKS["chain"](), Request("layer"))
    folder = emitted(made, tmp_path)
    edit(
        folder, "chain.c", ".in_zero = -128, .out_zero = -10, .out_min = -10", ".in_zero = -128, .out_zero = -9, .out_min = -10"
    )
    result = verify(made, folder)
    assert not result.ok
    assert result.max_abs_diff > 0
    assert result.first_difference is not None
    assert "depthwise_conv_2d_1 (depthwise_conv_2d), step 2 of 5" in result.first_difference
    assert "instead of" in result.first_difference


def test_an_arena_with_unused_bytes_at_its_end_fails(tmp_path: Path) -> None:
    made = plan(NETWORKS["chain"](), Request("layer"))
    claimed = replace(made, arena={"sram": made.arena["sram"] + 4})
    result = verify(claimed, emitted(claimed, tmp_path))
    assert result.first_difference is None
    assert not result.ok


def test_a_write_outside_the_arena_is_a_fault(tmp_path: Path) -> None:
    made = plan(NETWORKS["chain"](), Request("layer"))
    folder = emitted(made, tmp_path)
    edit(folder, "chain.c", "AT_CONV_2D_0           =  0,", "AT_CONV_2D_0           = 96,")
    with pytest.raises(Fault):
        verify(made, folder)


def test_a_read_of_uninitialised_memory_is_a_fault(tmp_path: Path) -> None:
    """The depthwise layer reads four bytes that no step wrote, so the outputs depend on the initial memory."""
    made = plan(NETWORKS["chain"](), Request("layer"))
    wider = replace(made, arena={"sram": made.arena["sram"] + 64})
    folder = emitted(wider, tmp_path)
    edit(folder, "chain.c", "sram + AT_CONV_2D_0, sram + AT_DEPTHWISE", "sram + 128, sram + AT_DEPTHWISE")
    with pytest.raises(Fault, match="was never written"):
        verify(wider, folder)


def test_samples_begin_with_the_given_ones_and_the_extreme_values() -> None:
    graph: Graph = NETWORKS["chain"]()
    given = [[np.full((1, 8, 8, 1), 5, np.int8)]]
    chosen = compare.samples(graph, 6, 1, given)
    assert [int(x[0].min()) for x in chosen[:4]] == [5, -128, 127, -128]
    assert len(chosen) == 6
    assert not np.array_equal(chosen[4][0], chosen[5][0])
    assert len(compare.samples(graph, 1, 0, given * 3)) == 3


def test_a_sample_of_another_type_is_refused() -> None:
    with pytest.raises(CompileError, match="needs int8"):
        compare.samples(NETWORKS["chain"](), 1, 0, [[np.zeros((1, 8, 8, 1), np.int16)]])


def test_samples_of_floats_are_quantised_as_the_emitted_c_does() -> None:
    graph: Graph = NETWORKS["chain"]()
    (x,) = (graph.tensors[name] for name in graph.inputs)
    steps = np.linspace(-200, 200, 64)  # beyond the range of int8 at both ends
    reals = (steps * x.scale).reshape(1, 1, 8, 8)
    ((found,),) = compare.samples(graph, 1, 0, [[reals]])
    expected = np.clip(np.sign(steps) * np.floor(np.abs(steps) + 0.5) + x.zero_point, -128, 127)
    assert found.dtype == np.int8 and np.array_equal(found, expected.reshape(x.shape))


def test_channels_that_come_first_are_moved_last() -> None:
    tensor = Tensor("x", (1, 2, 2, 3), "int8")
    sample = np.arange(12, dtype=np.int8).reshape(1, 3, 2, 2)
    moved = channels_last(sample, tensor)
    assert moved is not None and np.array_equal(moved, sample.transpose(0, 2, 3, 1))
    assert np.array_equal(channels_last(moved[0], tensor), moved) and channels_last(sample.reshape(2, 6), tensor) is None


@pytest.mark.parametrize(
    ("want", "have", "said"),
    [
        (np.array([1, 2, 3], np.int8), np.array([1, 5, 4], np.int8), "2 of 3 elements, the first at [1]: 5 instead of 2"),
        (np.array([[0.5, -0.0]], np.float32), np.array([[0.5, 0.0]], np.float32), "the first at [0, 1]: 0.0 instead of -0.0"),
    ],
)
def test_difference_describes_the_first_differing_element(want: np.ndarray, have: np.ndarray, said: str) -> None:
    text = compare.difference(want, have)
    assert text is not None
    assert said in text
    assert compare.difference(want, want.copy()) is None


def test_streamed_outputs_are_compared(tmp_path: Path) -> None:
    made = plan(segmentation(), Request(stream_outputs=True))
    folder = emitted(made, tmp_path)
    assert verify(made, folder, 2).ok
    edit(folder, "segmentation.c", ".out_zero = 0,", ".out_zero = 1,")
    result = verify(made, folder, 2)
    assert result.first_difference is not None
    assert "differs in output 'classes' of sample 0" in result.first_difference
    assert "the first layer that differs is conv_2d_4" in result.first_difference


def test_state_is_compared_over_all_samples(tmp_path: Path) -> None:
    made = plan(NETWORKS["stream"]())
    folder = emitted(made, tmp_path)
    assert verify(made, folder, 6).ok
    # rows of state read from a wrong offset change the second inference at the earliest
    edit(folder, "stream.c", ".start = 4", ".start = 0")
    result = verify(made, folder, 6)
    assert result.first_difference is not None
    assert "of sample 1:" in result.first_difference or "of sample 2:" in result.first_difference
    assert "strided_slice_2" in result.first_difference or "concatenation_1" in result.first_difference


def test_a_reset_that_forgets_some_state_is_found(tmp_path: Path) -> None:
    made = plan(NETWORKS["stream"]())
    folder = emitted(made, tmp_path)
    set_up = "    memset(sram + AT_STATE_1, 5, 1);"
    edit(folder, "stream.c", set_up, "")
    in_init = f"    stream_reset(memory);\n{set_up.replace('sram', '(uint8_t *)memory->sram.data')}"
    edit(folder, "stream.c", "    stream_reset(memory);", in_init)
    result = verify(made, folder, 3)
    assert result.first_difference is not None and "after a reset" in result.first_difference

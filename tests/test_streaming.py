"""`--stream-time`: the C of a call is verified against the network on its whole window."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.frames import keywords, wake_word
from cases.strict import c99

import tinyweave as tw
from tinynas.tasks.sounds import as_int16, features_of
from tinyweave import api
from tinyweave.api.results import Model
from tinyweave.api.sample_files import read_inputs
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op
from tinyweave.report.schema import faults
from tinyweave.support import toolchain
from tinyweave.support.media import read_recording

WAKE_WORD = "mlcommons__tiny__str_ww_ref_model.tflite"


@pytest.fixture(scope="module")
def wake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "wake.tflite"
    path.write_bytes(to_tflite(wake_word()))
    return path


def streamed(graph: Graph, folder: Path, hop: int | str = "auto", io: str = "auto") -> Model:
    path = folder / f"{graph.name}.tflite"
    path.write_bytes(to_tflite(graph))
    return api.streamed(api.load(path, io=io), hop)


@pytest.mark.emulator
@pytest.mark.parametrize("make", [wake_word, keywords])
def test_the_c_of_a_call_equals_the_network_on_its_window(make: Any, tmp_path: Path, litert: Any, emulator: None) -> None:
    model = streamed(make(), tmp_path)
    assert model.stream
    proof = api.verify_plan(model, api.plan(model), api.ProofOptions(count=4))
    assert proof.ok, proof.first_difference
    assert proof.samples == model.stream.calls_until_full + 3
    assert proof.reference == "LiteRT's reference kernels, equal to numpy reference"


@pytest.mark.parametrize("io", ["int8", "auto"])
def test_a_float_network_is_streamed(io: str, tmp_path: Path, litert: Any) -> None:
    model = streamed(wake_word(dtype="float32"), tmp_path, 2, io)
    proof = api.verify_plan(model, api.plan(model), api.ProofOptions(count=3), core=None)
    assert proof.ok and proof.without_litert is None, proof


def _damages(graph: Graph) -> Iterator[Graph]:
    """Yield valid graphs of a call that compute something other than the network."""
    for number, op in enumerate(graph.ops):
        if op.kind == "slice":  # shift the state by a row too few or too many
            begin = graph.tensors[op.inputs[1] or ""]
            moved = np.array(begin.data) - np.eye(4, dtype=np.int32)[1]
            yield _with(graph, {begin.name: replace(begin, data=moved.astype(np.int32))}, graph.ops)
        if op.name.endswith("_joined"):
            swapped = replace(op, inputs=op.inputs[::-1])
            yield _with(graph, {}, (*graph.ops[:number], swapped, *graph.ops[number + 1 :]))
    name = graph.init[-1].inputs[0] or ""
    initial = graph.tensors[name]
    yield _with(graph, {name: replace(initial, data=np.full_like(initial.data, 77))}, graph.ops)


def _with(graph: Graph, tensors: dict[str, Any], ops: tuple[Op, ...]) -> Graph:
    return replace(graph, tensors={**graph.tensors, **tensors}, ops=ops)


def test_verify_compares_with_the_original_network(tmp_path: Path) -> None:
    model = streamed(wake_word(), tmp_path)
    damaged = list(_damages(model.graph))
    assert len(damaged) == 7
    for graph in damaged:
        wrong = replace(model, graph=graph)
        proof = api.verify_plan(wrong, api.plan(wrong), api.ProofOptions(count=3), core=None)
        assert not proof.ok
        assert "no layer differs from the numpy reference" in (proof.first_difference or ""), "the C is what was planned"


def test_the_header_defines_window_hop_and_calls(wake: Path, tmp_path: Path) -> None:
    tw.compile(wake, out=tmp_path, stream_time=3)
    header = (tmp_path / "wake.h").read_text()
    for line in ("WINDOW_FRAMES 16", "HOP_FRAMES 3", "CALLS_UNTIL_FULL 6", "INPUT_0_SHAPE {1, 3, 1, 8}"):
        assert f"#define WAKE_{line}\n" in header
    assert "zero points. From call number CALLS_UNTIL_FULL on" in header
    tw.compile(wake, out=tmp_path)
    assert "FRAMES" not in (tmp_path / "wake.h").read_text()


def test_scores_depend_only_on_the_frames_of_the_last_window(wake: Path, tmp_path: Path) -> None:
    """A C program feeds one hop of frames per call."""
    tw.compile(wake, out=tmp_path, stream_time="auto", optimize="size")
    (tmp_path / "main.c").write_text(
        """\
#include <stdio.h>
#include <string.h>
#include "wake.h"

static uint8_t sram[WAKE_SRAM_BYTES] __attribute__((aligned(WAKE_ALIGN)));

int main(void)
{
    const wake_memory memory = {.sram = {sram, sizeof sram}};
    int8_t first[WAKE_OUTPUT_0_ELEMENTS];
    if (wake_init(&memory) != 0) {
        return 1;
    }
    for (int call = 1; call <= 3 * WAKE_CALLS_UNTIL_FULL; ++call) {
        int8_t *const frame = wake_input(&memory, 0);
        for (int i = 0; i < WAKE_INPUT_0_ELEMENTS; ++i) {
            frame[i] = (int8_t)(call > WAKE_CALLS_UNTIL_FULL ? (call % WAKE_CALLS_UNTIL_FULL * 37 + i * 11) % 100 : -90 - call);
        }
        if (wake_invoke(&memory, NULL) != 0) {
            return 2;
        }
        if (call == 2 * WAKE_CALLS_UNTIL_FULL) {
            memcpy(first, wake_output(&memory, 0), sizeof first);
        }
    }
    printf("%d\\n", memcmp(first, wake_output(&memory, 0), sizeof first));
    return 0;
}
"""
    )
    tool = toolchain.host()
    flags = [*c99(tool.name), "-I", tmp_path, *sorted(tmp_path.glob("*.c")), "-o", tmp_path / "program"]
    toolchain.compile_c(tool, flags)
    assert subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout == "0\n"


def test_plan_reports_streaming_in_time(wake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(wake), "--stream-time", "auto"]) == 0
    shown = capsys.readouterr().out
    said = " ".join(shown.split())
    assert "streaming in time: a call takes 1 of 16 frames and executes 624 MACs, 15.5 % of the window's" in said
    assert "the window is full after 16 calls" in said
    assert max(map(len, shown.splitlines())) <= 100
    assert main(["plan", str(wake), "--stream-time", "auto", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert not faults(record, "record")
    stream = record["stream_time"]
    assert (stream["window"], stream["hop"], stream["calls_until_full"], stream["macs"]) == (16, 1, 16, record["macs"])
    assert stream["state"] == sum(layer["bytes"] for layer in stream["layers"]) + 2 * 8, "what the layers keep, and frames"
    assert main(["plan", str(wake), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stream_time"] is None


def test_the_command_in_the_c_has_stream_time(wake: Path, tmp_path: Path) -> None:
    assert main(["compile", str(wake), "--stream-time", "2", "-o", str(tmp_path / "a")]) == 0
    header = (tmp_path / "a" / "wake.h").read_text()
    assert "Command: tinyweave compile wake.tflite --stream-time 2\n" in header
    tw.compile(wake, out=tmp_path / "b", options=tw.PlanOptions(stream_time=2))
    assert (tmp_path / "b" / "wake.c").read_text() == (tmp_path / "a" / "wake.c").read_text().replace(
        " * Command: tinyweave compile wake.tflite --stream-time 2\n", ""
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0", "--stream-time 0 is not a number of frames; give a whole number above 0, or auto"),
        ("two", "--stream-time two is not a number"),
        ("-1", "--stream-time -1 is not a number"),
        ("99999999999", "--stream-time 99999999999 is not a number"),
        ("16", "a hop of 16 frames two windows of 16 frames do not overlap"),
    ],
)
def test_a_faulty_hop_is_refused_in_one_line(wake: Path, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(wake), "--stream-time", value]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out


def test_the_example_of_an_export_has_samples_for_a_full_window(wake: Path, tmp_path: Path) -> None:
    files = tw.export(wake, out=tmp_path, format="cmake", stream_time="auto").files
    samples = next(path for path in files if path.name.endswith("_samples.h"))
    assert "#define WAKE_SAMPLES 16" in samples.read_text(), "as many as fill the window"


def test_the_streamed_wake_word_computes_one_row_per_layer(shared: Path) -> None:
    model = api.streamed(api.load(shared / "models" / WAKE_WORD), "auto")
    assert model.stream
    work = [sum(getattr(layer, key) for layer in model.stream.layers) for key in ("macs", "macs_window")]
    assert (work, model.stream.hop, model.stream.frames) == ([46_040, 826_368], 1, 30)


@pytest.mark.sweep
@pytest.mark.emulator
def test_the_streamed_wake_word_is_verified_on_1000_frames_of_speech(shared: Path, litert: Any, emulator: None) -> None:
    """The log-mel features have the scale of the network's input."""
    model = api.streamed(api.load(shared / "models" / WAKE_WORD), "auto")
    recordings = sorted((shared / "data" / "fsdd" / "recordings").glob("*.wav"))[::50]
    rate, _ = read_recording(recordings[0])
    frames = np.concatenate([features_of(rate, 40).of(as_int16(read_recording(path)[1])) for path in recordings])[:1000]
    assert len(frames) == 1000 and len(np.unique(frames)) > 100
    calls = [[frame.reshape(1, 1, 1, 40)] for frame in frames]
    proof = api.verify_plan(model, api.plan(model), api.ProofOptions(calls))
    assert proof.ok, proof.first_difference
    assert proof.reference == "LiteRT's reference kernels, equal to numpy reference" and proof.samples == 1000


def test_a_recording_is_read_as_one_array_of_frames(wake: Path, tmp_path: Path) -> None:
    model, frames = api.streamed(api.load(wake), 2), np.arange(12 * 8, dtype=np.int8).reshape(12, 8)
    np.save(tmp_path / "frames.npy", frames)
    calls = read_inputs(tmp_path / "frames.npy", model)
    assert len(calls) == 6
    assert np.array_equal(calls[1][0], frames[2:4].reshape(1, 2, 1, 8))
    np.save(tmp_path / "frames.npy", frames[:11])
    with pytest.raises(tw.CompileError, match="holds int8"):
        read_inputs(tmp_path / "frames.npy", model)


def test_initial_state_of_equal_rows_is_stored_as_one_row(wake: Path, tmp_path: Path) -> None:
    tw.compile(wake, out=tmp_path, stream_time="auto")
    source, constants = ((tmp_path / name).read_text() for name in ("wake.c", "wake_weights.h"))
    assert "for (int32_t i = 0; i < 10; ++i) {\n        memcpy(sram + AT_STATE_2 + 12 * i, state_2_initial, 12);" in source
    assert "state_2_initial[12]" in constants


def test_models_with_state_are_not_advised_to_share_an_arena(
    wake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(wake.read_bytes())
    for options, says in (([], True), (["--stream-time", "auto"], False)):
        assert main(["compile", str(wake), str(other), "-o", str(tmp_path / "both"), *options]) == 0
        assert ("can share one arena" in capsys.readouterr().out) == says

"""Costs of layers inside fused stages: layers plus loop add up to the stage, in records and tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cases.maps import segmentation
from planning.stages import plan_in_stages

from tinyweave import api
from tinyweave.api import results
from tinyweave.devices import find
from tinyweave.devices.device import Memory
from tinyweave.exporters.tflite import to_tflite
from tinyweave.planning import Tile
from tinyweave.report.record import Record, record
from tinyweave.report.words import profile_rows
from tinyweave.simulate import compare, emulated

pytestmark = pytest.mark.emulator
ALL = (0, 1, 2, 3, 4)  # ops of the segmentation


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> results.Model:
    path = tmp_path_factory.mktemp("model") / "segmentation.tflite"
    path.write_bytes(to_tflite(segmentation()))
    return api.load(path)


def profiled(model: results.Model, device: str, stages: list[tuple[int, ...]], tiles: tuple[Tile, ...] = ()) -> Record:
    board = find(device)
    plan = plan_in_stages(model.graph, stages, tiles=tiles)
    return record(model, plan=plan, profile=api.profile_plan(model, plan, api.emulated_core(board), device=board), device=board)


@pytest.mark.parametrize("device", ["mps2-an386", "stm32f746", "rp2040", "esp32-c6"])  # M4, M7 with caches, M0+, RISC-V
def test_costs_of_layers_and_loop_add_up_to_the_stage(model: results.Model, device: str, emulator: None) -> None:
    found = profiled(model, device, [(0, 1, 2, 3), (4,)], (Tile((1, 2), 5),))
    layers = {layer["name"]: layer for layer in found["layers"]}
    fused, alone = found["steps"]
    assert len(fused["layers"]) == 4 and alone["loop"] is None
    for key in ("instructions", "cycles"):
        if found["cycles"] is None and key == "cycles":
            assert fused[key] is fused["loop"][key] is None and all(layer[key] is None for layer in layers.values())
            continue
        assert all(layer[key] > 0 for layer in layers.values()) and fused["loop"][key] > 0
        assert sum(layers[name][key] for name in fused["layers"]) + fused["loop"][key] == fused[key]
        assert layers[alone["layers"][0]][key] == alone[key]
    assert found["steps"][0]["instructions"] + alone["instructions"] == pytest.approx(found["instructions"], rel=0.01)


def test_the_loop_of_a_stage_is_the_instructions_of_invoke_itself(model: results.Model, tmp_path: Path, emulator: None) -> None:
    """This holds for a stage of the whole network without tiles."""
    plan = plan_in_stages(model.graph, [ALL])
    api.write(api.emit_c(model, plan), tmp_path)
    firmware = emulated.build(tmp_path, model.name, "cortex-m4", trace=True)
    sample = compare.pack(api.samples(model, 1, 0)[0])
    sizes = compare.output_bytes(model.graph)
    names = {op.name: 0 for op in model.graph.ops}
    run = emulated.invoke(firmware, plan.arena, sample, sizes, layers=names)
    assert set(run.per_part) == {(0, ""), *((0, name) for name in names)}
    assert run.per_part[0, ""] == run.functions[f"{model.name}_invoke"]
    assert sum(run.per_part.values()) == run.instructions == sum(run.functions.values())


def test_tables_show_the_loop_after_its_layers(model: results.Model, emulator: None) -> None:
    found = profiled(model, "mps2-an386", [(0, 1), (2, 3), (4,)])
    rows, _ = profile_rows(found)
    names = [layer["name"] for layer in found["layers"]]
    wanted = [*names[:2], "(loop)", *names[2:4], "(loop)", names[4]]
    assert [row[1] for row in rows[1:]] == wanted
    column = rows[0].index("instructions")
    assert sum(int(row[column].replace(",", "")) for row in rows[1:]) == sum(step["instructions"] for step in found["steps"])


def test_a_stage_is_shown_as_a_whole_if_calls_cannot_be_counted_per_layer(model: results.Model, emulator: None) -> None:
    if reason := emulated.missing("cortex-m55"):
        pytest.skip(reason[0])
    found = profiled(model, "mps3-an547", [(0, 1, 2, 3), (4,)])
    fused, alone = found["steps"]
    assert fused["loop"] is None and fused["instructions"] > alone["instructions"] > 0
    assert [layer["instructions"] for layer in found["layers"]] == [None] * 4 + [alone["instructions"]]
    rows, _ = profile_rows(found)
    assert [row[1] for row in rows[-2:]] == ["(stage)", found["layers"][4]["name"]]
    assert rows[-2][rows[0].index("instructions")] == f"{fused['instructions']:,}"
    if emulated.qemu.has_plugins(emulated.qemu.program()):
        assert fused["cycles"] + alone["cycles"] == pytest.approx(found["cycles"], rel=0.01)


def test_flash_waits_are_left_out_where_the_emulator_counts_no_reads_of_flash(model: results.Model, emulator: None) -> None:
    if reason := emulated.missing("cortex-m55"):
        pytest.skip(reason[0])
    plan = plan_in_stages(model.graph, [(0, 1, 2, 3), (4,)])
    for name, core, waits in (("mps3-an547", "cortex-m55", None), ("stm32f412", "cortex-m4", 3)):
        flash = Memory("flash", "flash", 1 << 20, 0x0100_0000, wait_states=3)
        board = replace(find(name), memories=(*(m for m in find(name).memories if m.kind != "flash"), flash))
        assert api.profile_plan(model, plan, core, device=board, by_step=False).waits == waits

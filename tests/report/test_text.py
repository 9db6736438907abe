"""Text output: bars, cleaned names, tables, and verdicts with the excess."""

from __future__ import annotations

from typing import Any

import pytest

from tinyweave.report.columns import align, bar, clean, fitted, hanging, rounded, size
from tinyweave.report.kernel_shares import fast_share_lines, kernel_rows
from tinyweave.report.words import (
    ablation_rows,
    board_lines,
    bound_line,
    cycle_lines,
    foreseen_lines,
    instructions_line,
    memory_rows,
    next_steps,
    proof_lines,
    verdict_lines,
)


def test_bars_are_proportional_and_not_empty_above_0():
    assert bar(8, 8, 10, blocks=False) == "#" * 10
    assert bar(1, 1000, 10, blocks=False) == "#"  # a value above zero is visible
    assert bar(0, 10, 10, blocks=False) == "" == bar(0, 0, 10, blocks=True)
    assert bar(3, 8, 1, blocks=True) == "▍"
    assert bar(12, 16, 2, blocks=True) == "█▌"


def test_control_characters_of_names_are_replaced():
    assert clean("a\x1b[31mb\nc\x9b") == "a?[31mb?c?"
    assert clean("x" * 100, 40) == "x" * 28 + "..." + "x" * 9


def test_columns_are_aligned():
    assert align([["a", "1"], ["bbb", "22"]], frozenset({1})) == ["a     1", "bbb  22"]


def test_narrow_tables_lose_gaps_first_then_columns():
    rows = [["step", "in", "out"], ["1", "1,000", "2,000"]]
    right = frozenset({1, 2})
    assert fitted(rows, right, 20, ["in"]) == ["step     in    out", "1     1,000  2,000"]
    assert fitted(rows, right, 16, ["in"]) == ["step    in   out", "1    1,000 2,000"]
    assert fitted(rows, right, 15, ["in"]) == ["step    out", "1     2,000"]
    assert fitted(rows, right, 3, ["in"]) == ["step   out", "1    2,000"], "as narrow as it gets"


def test_the_last_column_is_wrapped_below_itself():
    rows = [["arena", "8", "activations, scratch, inputs"], ["stack", "9", ""]]
    assert hanging(rows, frozenset(), 26) == ["arena  8  activations,", "          scratch, inputs", "stack  9"]


def test_sizes_are_printed_in_bytes_and_kib():
    assert size(512) == "512 B"
    assert size(65_536) == "65,536 B (64.0 KiB)"


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (0.07123, "0.0712"), (70.66, "70.7"), (72, "72.0"), (999.7, "1,000"), (3561.2, "3,560")]
)
def test_times_have_three_digits_and_no_powers_of_ten(value: float, said: str):
    assert rounded(value) == said


def known(**changes):
    base = {
        "plan": {"objective": "balanced"},
        "device": {"name": "stm32f746", "core": "cortex-m7"},
        "core": "cortex-m7",
        "compiler": "arm-gcc (14:1.rel1-2) 14.1.0 20260101: -mcpu=cortex-m7 -O2",
        "plain_c": [],
        "macs": 1000,
        "instructions": 2500,
        "limits": {"ram": 1000, "memories": None, "flash": 5000, "latency_ms": None},
        "excess": {"ram": 24, "flash": 0},
        "fits": False,
        "ram": {"total": 1024, "arena": 900, "memories": {"sram": 900}, "static": 0, "stack": 124},
        "flash": {"total": 4000, "weights": 3000, "tables": 500, "code": 500, "row_source": None},
        "peak": {
            "step": 2,
            "op": "conv_2d_2",
            "bytes": 900,
            "buffers": [
                {"name": "image", "label": "input", "bytes": 400},
                {"name": "map", "label": "conv_2d_2  (output)", "bytes": 600},
            ],
        },
        "boards": ["nrf52840"],
        "verify": {
            "ok": True,
            "samples": 5,
            "reference": "LiteRT reference kernels",
            "without_litert": None,
            "max_abs_diff": 0,
            "first_difference": None,
            "compilers": {"host": "gcc -O2", "cortex-m7": "arm-gcc -O2"},
            "touched": {"host": {"sram": 900}, "cortex-m7": {"sram": 900}},
        },
    }
    return base | changes


def test_the_verdict_names_the_excess_the_peak_and_boards_with_room():
    assert verdict_lines(known()) == [
        "does not fit stm32f746",
        "  RAM: 1,024 of 1,000 B, 24 B too many",
        "  Flash: 4,000 of 5,000 B, 1,000 B left",
        "  peak: 900 B live at conv_2d_2, step 3: input 400, conv_2d_2 (output) 600; 100 B of them shared",
        "  boards that it fits: nrf52840",
    ]


def test_the_verdict_names_the_memory_that_is_too_small():
    ram, limits = known()["ram"] | {"memories": {"sram1": 900}}, {"memories": {"sram2": 300, "sram1": 700}}
    lines = verdict_lines(known(ram=ram, limits=known()["limits"] | limits))
    assert lines[1:3] == ["  RAM: 1,024 of 1,000 B", "    sram2 0 of 300 B; sram1 900 of 700 B, 200 B too many"]


@pytest.mark.parametrize(
    ("missing", "cycles", "said"),
    [
        ([], 64_000, "time: about 64,000 cycles, 1.00 ms at 64 MHz, estimated from the layers' shapes for a cortex-m4;"),
        (["cast"], 64_000, "at least 64,000 cycles, 1.00 ms at 64 MHz, without cast, whose kernels have no timings; estimated"),
        (["a", "b", "c"], 64_000, "without a, b and c, whose"),
        (["cast"], None, "time: not known without cast"),
        (None, None, ""),
    ],
)
def test_a_partial_time_estimate_names_the_layers_without_cycles(missing: list[str] | None, cycles: int | None, said: str):
    plan = {"cycles_missing": missing, "cycles_at_least": cycles, "latency_ms_at_least": cycles and cycles / 64_000}
    record = {"plan": plan, "device": {"core": "cortex-m4", "clock_hz": 64_000_000}, "excess": {"flash": None}}
    lines = foreseen_lines(record)
    assert said in " ".join(lines) and len(lines) == bool(said)
    if cycles:
        slow = foreseen_lines(record | {"excess": {"flash": 1}})
        assert "64 MHz, with the smallest kernels, for want of Flash; " in slow[0]


def of_kernels(*layers: tuple[str, str, bool | None, int, int, str], flash_excess: int = 0) -> dict[str, Any]:
    keys = ("name", "kernel", "fast", "macs", "cycles_by_shape", "why")
    own = [dict(zip(keys, layer, strict=True)) for layer in layers]
    macs = [layer["macs"] for layer in own if layer["fast"]]
    device = {"core": "cortex-m4"}
    known = {"core": None, "device": device, "cycles": None, "excess": {"flash": flash_excess}, "fast_macs": sum(macs)}
    return known | {"layers": own, "macs": sum(layer["macs"] for layer in own)}


WHY = "tw_b requires that its stride is 1, but it is 3"
LAYERS = (
    ("conv_2d_0", "tw_a", True, 700, 6_000, "the fastest on a cortex-m4"),
    ("conv_2d_1", "tw_c", False, 200, 2_000, WHY),
    ("reshape_2", None, None, 0, 0, "no code"),
    ("conv_2d_3", "tw_c", False, 100, 1_960, WHY),
    ("softmax_4", "tw_d", False, 0, 40, "the only kernel for it"),
)


def test_costly_layers_in_portable_kernels_are_named_with_the_reason():
    assert fast_share_lines(of_kernels(*LAYERS)) == [
        "kernels: 70.0% of the MACs run in kernels written for a cortex-m4, the others in portable C",
        f"  conv_2d_1, conv_2d_3, 39.6% of the cycles, in tw_c: {WHY}",
    ]
    many = [(f"conv_2d_{i}", f"tw_{i % 6}", False, 1, 100 + i % 6, f"for {i % 6}") for i in range(24)]
    _, first, *_, last = lines = fast_share_lines(of_kernels(*many))
    assert first.startswith("  conv_2d_5, conv_2d_11, conv_2d_17 and 1 more, ") and first.endswith(", in tw_5: for 5")
    assert len(lines) == 7 and last == "  and others: see 'why' in --json"
    assert fast_share_lines(of_kernels(LAYERS[0])) == ["kernels: all MACs run in kernels written for a cortex-m4"]


def test_if_flash_is_too_small_it_is_named_as_the_reason_for_small_kernels():
    assert fast_share_lines(of_kernels(*LAYERS, flash_excess=1)) == [
        "kernels: the smallest, for want of Flash; 70.0% of the MACs run in kernels written for a cortex-m4"
    ]
    assert fast_share_lines(of_kernels(*LAYERS) | {"fast_macs": None}) == []


def test_kernels_are_listed_with_their_share_and_layers():
    assert kernel_rows(of_kernels(*LAYERS)) == [
        ("kernel", "MACs", "cycles", "layers"),
        ("tw_a", "70.0%", "60.0%", "conv_2d_0"),
        ("tw_c", "30.0%", "39.6%", "conv_2d_1, 3"),
        ("tw_d", "-", "0.4%", "softmax_4"),
    ]


def test_the_ablation_shows_the_change_by_each_technique():
    rows = ablation_rows({"file order": 1000, "best order": 1000, "+ views": 750})
    assert rows == [("file order", "1,000 B", ""), ("best order", "1,000 B", ""), ("+ views", "750 B", "-25.0%")]


def test_the_lower_bound_is_stated_for_the_buffers_of_the_plan():
    def said(gap: int, bound: int, *memories: str) -> str:
        return bound_line({"plan": {"gap": gap, "lower_bound": bound}, "ram": {"memories": dict.fromkeys(memories, 1)}})

    same, best = "with the layers in this order and so fused", "no other placement of the buffers needs less RAM"
    assert said(0, 900, "sram") == f"proved: {same}, {best}"
    gap = f"gap: {same}, another placement of the buffers could save at most 24 B; none needs less than 876 B"
    assert said(24, 876, "sram") == gap
    assert said(0, 900, "dtcm", "sram") == f"proved: {same} and divided among the memories, {best}"


def test_the_verdict_without_flash_limit_and_without_limits():
    lines = verdict_lines(
        known(
            limits={"ram": 2048, "memories": None, "flash": None, "latency_ms": None},
            excess={"ram": 0, "flash": None},
            fits=True,
        )
    )
    assert lines[0] == "fits stm32f746 with --optimize balanced" and "  Flash: 4,000 B, no limit known (pass --flash)" in lines
    unlimited = {"ram": None, "memories": None, "flash": None, "latency_ms": None}
    assert verdict_lines(known(limits=unlimited, fits=None))[0].startswith("no limit given")


def test_the_verdict_on_a_plan_says_that_it_covers_the_arena_alone():
    ram = {"total": None, "arena": 900, "memories": {"sram": 900}, "static": None, "stack": None}
    flash = dict.fromkeys(("total", "weights", "tables", "code", "row_source")) | {"constants": 3500, "estimate": [3900, 4600]}
    lines = verdict_lines(known(ram=ram, flash=flash, excess={"ram": 0, "flash": 0}, fits=True, boards=None))
    assert lines[1] == "  RAM: 900 of 1,000 B, 100 B left (arena alone; deploy measures stack and static data)"
    about = "(constants 3,500; code estimated, deploy measures it)"
    assert lines[2] == f"  Flash: about 3,900 to 4,600 of 5,000 B, at least 400 B left {about}"


def test_the_emulated_core_is_named_if_it_is_not_the_device_s():
    assert instructions_line(known()) == "instructions: 2,500 (2.50 per MAC), counted on the emulated cortex-m7"
    line = instructions_line(known(device={"name": "rp2040", "core": "cortex-m0plus"}))
    assert "rp2040 has a cortex-m0plus, which is not emulated" in line


def test_kernels_that_ran_as_plain_c_are_named_and_have_no_cycles():
    board = known(device={"name": "ra8d1", "core": "cortex-m85"}, plain_c=["tw_mul_s8_mve"], cycles=None)
    assert instructions_line(board).endswith("tw_mul_s8_mve ran as plain C, without the instructions of that core")
    assert cycle_lines(board) == ["cycles: not estimated, for 1 kernel ran as plain C"]


def test_the_proof_names_cores_and_compilers():
    lines = proof_lines(known())
    assert lines[0] == "verified: every output byte equals the reference, 5 inputs"
    assert lines[1] == "  reference: LiteRT reference kernels"
    assert any("cortex-m7" in line and "arm-gcc -O2" in line for line in lines)


def test_the_proof_says_why_litert_was_not_used():
    verify = known()["verify"] | {"reference": "numpy reference", "without_litert": "LiteRT died with code -6 on this model"}
    lines = proof_lines(known(verify=verify))
    assert lines[0] == "verified against the numpy reference alone: every output byte equals the reference, 5 inputs"
    assert lines[1:3] == ["  reference: numpy reference", "  not compared with LiteRT: LiteRT died with code -6 on this model"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"ok": False, "first_difference": "conv_2d_0 at [0]"}, "DIFFERS"),
        ({"ok": False, "touched": {"host": {"sram": 904}, "cortex-m7": {"sram": 900}}}, "arena touched"),
        ({"compilers": {"host": "gcc"}, "touched": {"host": {"sram": 900}}}, "not run on an emulated core"),
        ({"ok": None}, "not verified"),
    ],
)
def test_the_proof_names_differences_and_skipped_checks(change, expected):
    record = known()
    assert expected in "\n".join(proof_lines(record | {"verify": record["verify"] | change}))


def test_a_deployment_shows_spare_memory_boards_and_next_steps():
    record = known(device={"name": "stm32f746", "core": "cortex-m7"}, boards=[f"board{i}" for i in range(7)])
    record["ram"] |= {"row_source": None, "streamed_inputs": [], "streamed_outputs": []}
    record["model"] = {"name": "net", "outputs": [{"name": "y"}]}
    rows = {name.strip(): row for name, *row in memory_rows(record)}
    assert rows["RAM"] == ["1,024", "limit 1,000", "24 B too many"]
    assert rows["Flash"] == ["4,000", "limit 5,000", "1,000 B left"]
    assert rows["code"] == ["500", "", "built by arm-gcc 14.1.0"]
    assert board_lines(record) == ["boards that it fits: board0, board1, board2 and 4 with more RAM"]
    assert board_lines(known(boards=[])) == ["it fits none of the listed boards"]
    assert "tinyweave export a.tflite --device stm32f746 --format cmake" in [
        command for _, command in next_steps(record | {"fits": True}, "out/net", "a.tflite")
    ]
    ((said, file),) = next_steps(record, "out/net", "a.tflite")
    assert said.startswith("the C is in out/net, but it exceeds a limit") and file == "out/net/report.html"
    assert not any("arm-gcc" in line for line in proof_lines(record, compilers=False))


@pytest.mark.parametrize(
    ("streamed_inputs", "streamed_outputs", "said"),
    [
        ([], [], "inputs, outputs"),
        (["x"], [], "outputs; inputs come by rows"),
        ([], ["a"], "inputs, other outputs; 'a' handed out by rows"),
        ([], ["a", "b"], "inputs; outputs handed out by rows"),
        (["x"], ["a", "b"], "inputs come by rows; outputs handed out by rows"),
    ],
)
def test_memory_rows_name_streamed_inputs_and_outputs(streamed_inputs: list[str], streamed_outputs: list[str], said: str):
    ram = {"total": None, "arena": 9, "memories": {"sram": 9}, "static": None, "stack": None}
    record = {
        "ram": ram | {"row_source": None, "streamed_inputs": streamed_inputs, "streamed_outputs": streamed_outputs},
        "model": {"outputs": [{"name": "a"}, {"name": "b"}]},
        "flash": dict.fromkeys(("total", "weights", "tables", "code", "row_source")),
        "limits": {"ram": None, "memories": None, "flash": None, "latency_ms": None},
        "excess": {"ram": None, "flash": None, "latency_ms": None},
        "compiler": None,
    }
    assert memory_rows(record)[1][3] == f"activations, scratch, {said}"

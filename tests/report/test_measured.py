"""`profile --compare` compares a board's log with the estimate; faulty logs are refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import tinyweave as tw
from tinyweave.cli import main
from tinyweave.codegen.layer import Traced, traced
from tinyweave.ir import CompileError
from tinyweave.report.measured import measured_records, measured_rows, read_log

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
ROWS = [Traced(0, 0, "conv_2d_0"), Traced(0, 1, "add_1"), Traced(1, None, "mean_2")]


def board_log(*inferences: tuple[int, ...], name: str = "kws", rows: list[Traced] = ROWS) -> str:
    """Return a log as terminals record it: with other lines, time stamps, and different line ends."""
    lines = ["boot", "12:00:01.5 > tw-profil kws 1/2 x 1"]
    for cycles in inferences:
        found, steps = zip(rows, cycles, strict=False), rows[-1].step + 1
        lines += [f"12:00:02.7 > tw-profile {name} {row.step + 1}/{steps} {row.name} {count}" for row, count in found]
        lines.append("kws sample 0: class 3, score 0.996")
    return "\r\n".join(lines)


def test_the_time_of_a_layer_is_the_median_over_the_inferences() -> None:
    text = board_log((1200, 40, 7), (1100, 60, 7), (9999, 50, 8)) + board_log((1, 2, 3), name="vww")
    assert read_log(text, "kws", ROWS) == [1200, 50, 7] and read_log(text, "vww", ROWS) == [1, 2, 3]
    assert read_log(board_log((1, 2, 3), name="renamed"), "kws", ROWS) == [1, 2, 3], "the only model of a log is meant"


def test_the_table_has_a_row_per_layer_and_a_total() -> None:
    plan = tw.plan(DIGITS)
    rows = traced(plan)
    assert [row.name for row in rows] == [plan.graph.ops[index].name for stage in plan.stages for index in stage.ops]
    layers = [{"name": row.name, "cycles": None if number == 2 else 100 * number} for number, row in enumerate(rows)]
    record = {"model": {"name": "digits"}, "layers": layers}
    entries = measured_records(record, plan, board_log(tuple(range(50, 50 + len(rows))), name="digits", rows=rows))
    assert [entry["ratio"] for entry in entries[:4]] == [None, 0.51, None, 53 / 300]
    table = measured_rows(entries, 1000)
    assert table[1:4] == [(rows[0].name, "0", "50", "-"), (rows[1].name, "100", "51", "0.51"), (rows[2].name, "-", "52", "-")]
    total = sum(range(50, 50 + len(rows)))
    assert table[-1] == ("all", "1,000", f"{total:,}", f"{total / 1000:.2f}")
    assert measured_rows(entries, None)[-1] == ("all", "-", f"{total:,}", "-")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the log has no line 'tw-profile kws ...'; build the export"),
        (board_log((1, 2, 3), name="vww") + board_log((1, 2, 3), name="ad"), "no line 'tw-profile kws ...', but of ad, vww"),
        (board_log((1, 2), rows=ROWS[:2]), "the log is of 1 steps, and the plan has 2; give the options"),
        (
            board_log((1, 2, 3), rows=[*ROWS[:2], Traced(1, None, "tanh_2")]),
            "step 2 of the log has tanh_2, which the plan does not",
        ),
        (
            board_log((1, 2)) + board_log((3,), rows=ROWS[2:]) + board_log((1, 2)),
            "the log has 1 of 2 lines of mean_2 in step 2; build the export",
        ),
        (board_log((1, 2)), "the log has 0 of 1 lines of mean_2 in step 2"),
        (board_log((0, 0, 0)), "0 cycles for every layer; the board's counter stands still"),
        ("tw-profile kws 9/2 mean_2 7", "step 9 of the log has mean_2"),
        ("tw-profile kws 0/2 mean_2 7", "step 0 of the log has mean_2"),
    ],
)
def test_a_faulty_log_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(CompileError) as error:
        read_log(text, "kws", ROWS)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_damaged_log_is_read_or_refused() -> None:
    chance = random.Random(5)
    for _ in range(300):
        letters = list(board_log((5, 6, 7), (5, 6, 7)))
        for _ in range(chance.randrange(1, 8)):
            letters[chance.randrange(len(letters))] = chance.choice("0123456789/ .\n\x00é")
        try:
            assert len(read_log("".join(letters), "kws", ROWS)) == len(ROWS)
        except CompileError as error:
            assert "\n" not in str(error)


@pytest.mark.emulator
def test_the_command_compares_a_log_with_the_estimate(
    tmp_path: Path, emulator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The board takes exactly twice the estimate."""
    command = ["profile", str(DIGITS), "--device", "nrf52840"]
    rows = traced(tw.plan(DIGITS, "nrf52840"))
    assert main([*command, "--json"]) == 0
    cycles = {layer["name"]: layer["cycles"] for layer in json.loads(capsys.readouterr().out)["layers"]}
    path = tmp_path / "log.txt"
    path.write_bytes(board_log(tuple(2 * cycles[row.name] for row in rows), name="digits", rows=rows).encode() + b"\xff\n")
    assert main([*command, "--compare", str(path), "--json"]) == 0
    assert [entry["ratio"] for entry in json.loads(capsys.readouterr().out)["measured"]] == [2.0] * len(rows)
    assert main([*command, "--compare", str(path)]) == 0
    said = capsys.readouterr().out
    assert "by layer, estimated for a cortex-m4 and measured" in said and said.count("  2.00\n") == len(rows)
    assert main([*command, "--compare", str(tmp_path / "none.txt")]) == 2
    assert "none.txt" in capsys.readouterr().err

"""`profile --measured`: a board's log beside the estimate, and logs that are not what they should be."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tinyweave.cli import main
from tinyweave.ir import CompileError
from tinyweave.report.measured import measured_records, measured_rows, read_log

STEPS = ["conv_2d_0..add_3", "mean_4", "softmax_5"]
DIGITS = Path(__file__).parents[2] / "examples" / "spoken_digits" / "digits.tflite"


def log(*inferences: tuple[int, ...], name: str = "kws", steps: list[str] = STEPS) -> str:
    """Write a log as boards and terminals do: with other lines, times before ours, and any line ends."""
    lines = ["boot", "12:00:01.5 > tw-profil kws 1/3 x 1"]
    for cycles in inferences:
        rows = zip(range(1, len(steps) + 1), steps, cycles, strict=False)
        lines += [f"12:00:02.7 > tw-profile {name} {step}/{len(steps)} {layer} {count}" for step, layer, count in rows]
        lines.append("kws sample 0: class 3, score 0.996")
    return "\r\n".join(lines)


RECORD = {
    "model": {"name": "kws"},
    "core": "cortex-m4",
    "steps": [
        {"step": 0, "layers": ["conv_2d_0", "add_3"], "cycles": 1000},
        {"step": 1, "layers": ["mean_4"], "cycles": 50},
        {"step": 2, "layers": ["softmax_5"], "cycles": 0},
    ],
}


def test_each_step_has_the_median_of_its_inferences() -> None:
    text = log((1200, 40, 7), (1100, 60, 7), (9999, 50, 8)) + log((1, 2, 3), name="vww")
    entries = measured_records(RECORD, text)
    assert [entry["measured"] for entry in entries] == [1200, 50, 7]
    assert [entry["ratio"] for entry in entries] == [1.2, 1.0, None]
    assert [entry["name"] for entry in entries] == STEPS
    rows = measured_rows(entries)
    assert rows[1] == ("conv_2d_0..add_3", "1,000", "1,200", "1.20") and rows[3] == ("softmax_5", "0", "7", "-")
    assert rows[-1] == ("all", "1,050", "1,257", f"{1257 / 1050:.2f}")
    assert read_log(log((1, 2, 3), name="renamed"), "kws", STEPS) == [1, 2, 3], "the only model of a log is meant"
    unknown = {**RECORD, "steps": [{**step, "cycles": None} for step in RECORD["steps"]]}  # type: ignore[index]
    assert measured_rows(measured_records(unknown, text))[-1] == ("all", "-", "1,257", "-")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the log has no line 'tw-profile kws ...'; build the export"),
        (log((1, 2, 3), name="vww") + log((1, 2, 3), name="ad"), "no line 'tw-profile kws ...', but of ad, vww"),
        (log((1, 2), steps=STEPS[:2]), "the log is of 2 steps, and the plan has 3; give the options"),
        (log((1, 2, 3), steps=[*STEPS[:2], "tanh_5"]), "step 3 of the log is tanh_5, which the plan does not have there"),
        (log((1, 2)), "the log lacks a line of step 3, softmax_5, of 1 inferences"),
        (log((1, 2, 3), (1, 2)), "the log lacks a line of step 3, softmax_5, of 2 inferences"),
        (log((0, 0, 0)), "0 cycles for every step; the board's counter stands still"),
        ("tw-profile kws 9/3 mean_4 7", "step 9 of the log is mean_4"),
        ("tw-profile kws 0/3 mean_4 7", "step 0 of the log is mean_4"),
    ],
)
def test_what_is_wrong_with_a_log_is_one_line(text: str, said: str) -> None:
    with pytest.raises(CompileError) as error:
        read_log(text, "kws", STEPS)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_any_bytes_are_a_log_or_one_error() -> None:
    chance = random.Random(5)
    for _ in range(300):
        letters = list(log((5, 6, 7), (5, 6, 7)))
        for _ in range(chance.randrange(1, 8)):
            letters[chance.randrange(len(letters))] = chance.choice("0123456789/ .\n\x00é")
        try:
            assert len(read_log("".join(letters), "kws", STEPS)) == len(STEPS)
        except CompileError as error:
            assert "\n" not in str(error)


@pytest.mark.emulator
def test_the_command_holds_a_log_against_the_estimate(
    tmp_path: Path, emulator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The board takes exactly twice what was estimated."""
    command = ["profile", str(DIGITS), "--device", "nrf52840"]
    assert main([*command, "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    names = [step["layers"][0] + (f"..{step['layers'][-1]}" if len(step["layers"]) > 1 else "") for step in steps]
    path = tmp_path / "log.txt"
    path.write_bytes(log(tuple(2 * step["cycles"] for step in steps), name="digits", steps=names).encode() + b"\xff\n")
    assert main([*command, "--measured", str(path), "--json"]) == 0
    assert [entry["ratio"] for entry in json.loads(capsys.readouterr().out)["measured"]] == [2.0] * len(steps)
    assert main([*command, "--measured", str(path)]) == 0
    said = capsys.readouterr().out
    assert "by step, estimated for a cortex-m4 and measured" in said and said.count("2.00") == len(steps) + 1
    assert main([*command, "--measured", str(tmp_path / "none.txt")]) == 2
    assert "none.txt" in capsys.readouterr().err

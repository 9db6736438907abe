"""`--weights`: what commands print of constants in RAM, and what emulated runs read from Flash and RAM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tinyweave import api
from tinyweave.cli import main
from tinyweave.codegen import constants_of
from tinyweave.devices import find
from tinyweave.kernels.layer_cycles import COPIED_WORD
from tinyweave.planning import check, copy_name, with_copies
from tinyweave.report.columns import duration

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"


@pytest.mark.emulator
@pytest.mark.parametrize("name", ["rp2040", "rp2350", "imxrt1062"])
@pytest.mark.parametrize("optimize", ["speed", "balanced"])
def test_the_time_of_a_plan_with_copies_is_foreseen(name: str, optimize: str, emulator: None) -> None:
    board, model = find(name), api.load(DIGITS)
    options = api.PlanOptions(optimize=optimize)
    plans = [api.make_plan(model, api.request_of(replace(options, weights=w), board)) for w in ("flash", "auto", "ram")]
    runs = [api.profile_plan(model, plan, board.core, device=board) for plan in plans]
    cycles = [run.cycles.likely if run.cycles else 0 for run in runs]
    assert cycles[2] == cycles[1] < 0.995 * cycles[0]
    for plan, run, count in zip(plans, runs, cycles, strict=True):
        estimate = api.estimate_cycles(plan, board)
        assert estimate is not None and estimate.cycles == pytest.approx(count, rel=0.25 if "zig" in run.compiler else 0.1)
        assert run.arena == plan.arena and run.reading is not None
        assert run.instructions == pytest.approx(runs[0].instructions, rel=0.02)
    assert runs[2].reading and runs[0].reading
    assert runs[2].reading.constants < 0.15 * runs[0].reading.constants, "parameters, and literals in the code"


@pytest.mark.emulator
def test_init_takes_the_estimated_time(tmp_path: Path, emulator: None) -> None:
    """The emulator's memcpy is of plain C, so its instructions are only bounds for those of a board's library."""
    from tinyweave.simulate import compare, target

    model = api.load(DIGITS)
    made = api.make_plan(model, api.Request(core="cortex-m33"))
    made = check(with_copies(made, constants_of(made), "sram"))
    api.write(api.emit_c(model, made), tmp_path)
    run = target.invoke(
        target.build(made, tmp_path, model.name, "cortex-m33"), compare.pack(compare.samples(model.graph, 4, 0)[3])
    )
    words = sum(made.buffer(copy_name(name)).bytes for name in made.copies) / 4
    assert run.init_instructions is not None and words < run.init_instructions < 8 * COPIED_WORD * words


@pytest.mark.emulator
def test_deploy_counts_and_prints_the_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None) -> None:
    words = [str(DIGITS), "--device", "rp2350", "--weights", "auto"]

    def printed(*arguments: str) -> str:
        assert main([*arguments]) == 0
        return capsys.readouterr().out

    record = json.loads(printed("deploy", *words, "-o", str(tmp_path / "a"), "--json"))
    copies = record["plan"]["copies"]
    count = sum(copies["arrays"].values())
    header = next((tmp_path / "a").glob("digits.h")).read_text()
    assert f"#define DIGITS_COPIED_BYTES {count}\n" in header and record["fits"] and record["verify"]["ok"]
    bare = json.loads(printed("plan", *words[:3], "--json"))
    assert bare["plan"]["copies"] is None and record["ram"]["arena"] >= bare["ram"]["arena"] + count > count
    assert copies["latency_ms_in_flash"] == bare["plan"]["latency_ms"] > record["plan"]["latency_ms"]
    assert record["plan"]["ablation"] is None and record["ram"]["total"] > record["ram"]["arena"]
    text = " ".join(printed("deploy", *words, "-o", str(tmp_path / "b")).split())
    line = f"constants in RAM: {count:,} of {record['flash']['constants']:,} B, copied by init in about"
    assert f"{line} {duration(copies['init_ms'])}; read from Flash, an inference would take" in text
    assert f"{count:,} B of constants, inputs" in text
    assert line in " ".join((tmp_path / "b" / "report.md").read_text().split())
    whole = json.loads(printed("plan", *words, "--json"))["plan"]["ablation"]
    assert list(whole.values())[-1] == record["ram"]["arena"] and list(whole)[-1] == "+ constants in RAM"
    assert line in " ".join(printed("profile", *words).split())
    steps = json.loads(printed("profile", *words, "--json"))["steps"]
    assert any(len(step["layers"]) > 1 for step in steps) and not any(step["loop"] for step in steps), "counted as a whole"


def test_the_verdict_counts_the_copies_and_advice_is_to_copy_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    board = ["--device", "rp2350", "--ram", "24k"]
    assert main(["plan", str(DIGITS), *board, "--weights", "ram", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["excess"]["ram"] > 0 and record["fits"] is False
    assert record["advice"][0]["changes"] == ["--weights", "auto"] and record["advice"][0]["fits_ram"]
    assert main(["plan", str(DIGITS), *board, "--weights", "auto", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["copies"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", str(DIGITS), "--weights", "rom"], "--weights rom is unknown; it is one of flash, auto, ram"),
        (
            ["compare", str(DIGITS), "--weights", "auto"],
            "compare has one plan for many boards, and copies of weights depend on their RAM",
        ),
        (
            ["compile", str(DIGITS), "--weights", "auto", "--plan", "p.json"],
            "--weights has no effect on the finished plan of --plan",
        ),
    ],
)
def test_what_is_not_possible_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_plan_with_copies_is_compiled_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    assert main(["plan", str(DIGITS), "--device", "rp2350", "--weights", "auto", "-o", str(file)]) == 0
    folders = [tmp_path / "direct", tmp_path / "from a file"]
    assert main(["compile", str(DIGITS), "--device", "rp2350", "--weights", "auto", "-o", str(folders[0])]) == 0
    assert "share one arena" not in capsys.readouterr().out
    assert main(["compile", str(DIGITS), "--device", "rp2350", "--plan", str(file), "-o", str(folders[1])]) == 0
    texts = [(folder / "digits.c").read_text().partition("*/")[2] for folder in folders]
    assert texts[0] == texts[1] and "COPY, " in texts[0]
    record = json.loads(file.read_text())
    name = next(iter(record["copies"]))
    record["copies"][f"{name}_2"] = record["copies"].pop(name)
    for buffer in record["buffers"]:
        buffer["name"] = f"{name}_2.copy" if buffer["name"] == f"{name}.copy" else buffer["name"]
    record["offsets"][f"{name}_2.copy"] = record["offsets"].pop(f"{name}.copy")
    file.write_text(json.dumps(record))
    assert main(["compile", str(DIGITS), "--device", "rp2350", "--plan", str(file), "-o", str(tmp_path / "c")]) == 2
    assert "it copies constants" in capsys.readouterr().err and not (tmp_path / "c").exists()

"""`guard`: models above a project's limits fail, changes are shown, and faulty files are refused in one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from cases import tiny
from cases.as_float import float_case
from cases.ops import Case

import tinyweave as tw
from tinyweave import api
from tinyweave.api.guarding import (
    LOCK,
    MEASURED,
    Accuracy,
    GuardResult,
    Recorded,
    guard_models,
    read_config,
    read_lock,
    write_lock,
)
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.report.guard import guard_markdown, guard_record, guard_rows, trades
from tinyweave.report.schema import faults
from tinyweave.simulate import compare

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "keywords"
LIMITED = '[[model]]\nfile = "chain.tflite"\ndevice = "stm32f412"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "chain.tflite").write_bytes(to_tflite(tiny.chain()))
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "tinyweave.toml"
    path.write_text(text)
    return path


@pytest.mark.emulator
def test_guard_checks_limits_and_shows_changes(project: Path, capsys: pytest.CaptureFixture[str], emulator: None) -> None:
    config = written(project, LIMITED + 'max_ram = "4k"\nmax_latency_ms = 5.0\n')
    assert main(["guard", str(config), "--update", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (first,) = record["guarded"]
    assert record["ok"] is True and first["before"] is None and first["exceeded"] == [] and faults(record, "guard") == ""
    done = tw.profile(project / "chain.tflite", "stm32f412", ram="4k", latency_ms=5.0)
    assert (first["now"]["ram"], first["now"]["flash"]) == (done.ram, done.flash)

    least = tw.profile(project / "chain.tflite", "stm32f412", ram=9).ram
    lock = json.loads((project / LOCK).read_text())
    lock["models"]["chain"]["ram"] = least - 100
    (project / LOCK).write_text(json.dumps(lock))
    config = written(project, LIMITED + "max_ram = 9\n")
    assert main(["guard", str(config), "--summary", str(project / "summary.md")]) == 1
    shown = capsys.readouterr().out
    (ram,) = [line.split() for line in shown.splitlines() if "RAM, B" in line]
    assert f"{least:,}" in ram and "TOO" in ram and "+100" in ram
    command = f"tinyweave deploy {project}/chain.tflite --device stm32f412 --ram 9"
    assert f"chain exceeds max_ram by {least - 9:,} B; raise it, or see what helps: {command}\n" in shown
    assert "(max_ram 4,096 -> 9, max_latency_ms 5.00 -> -)" in shown
    summary = (project / "summary.md").read_text()
    assert "| chain | RAM, B |" in summary and "TOO MUCH" in summary
    assert json.loads((project / LOCK).read_text()) == lock, "only --update writes it"


def test_a_limit_holds_up_to_its_value_and_fails_for_unknown_values(project: Path) -> None:
    config = written(project, LIMITED + "max_ram = 100\nmax_latency_ms = 2.0\n")
    (watched,) = read_config(config)

    def stands(verified: bool = True, **now: float | None) -> GuardResult:
        return GuardResult(watched, "0" * 64, "gcc", verified, dict.fromkeys(MEASURED) | now, None)

    assert stands(ram=100, latency_ms=2.0).ok
    assert stands(ram=101, latency_ms=2.0).exceeded == ["ram"]
    assert stands(ram=100).exceeded == ["latency_ms"] and not stands(ram=100).ok
    assert not stands(verified=False, ram=1, latency_ms=1.0).ok
    table = guard_markdown(guard_record([stands(verified=False, ram=101, latency_ms=2.0)]))
    assert f"**tinyweave guard**: chain: a byte differs; see which: tinyweave verify {project}/chain.tflite\n" in table
    assert "\nchain exceeds max_ram by 1 B; " in table and "| DIFFERS |" in table and "| TOO MUCH |" in table


def test_equal_values_are_not_shown_as_changes(project: Path) -> None:
    (watched,) = read_config(written(project, LIMITED + "max_ram = 100\n"))
    now = dict.fromkeys(MEASURED, 0.0) | {"ram": 96, "latency_ms": 0.0368167, "accuracy_drop": 1 / 3, "instructions": 10**9 + 1}
    one = GuardResult(watched, "0" * 64, "gcc", True, now, None)
    write_lock(project / LOCK, [one])
    recorded = read_lock(project / LOCK)["chain"]
    again = replace(one, before=recorded.values, limits_before=recorded.limits)
    assert trades(guard_record([again])) == []
    assert {row[5] for row in guard_rows(guard_record([again]))[1:]} == {""}
    other = replace(again, now=now | {"latency_ms": 0.0369, "instructions": 10**9 + 3})
    assert [row[5] for row in guard_rows(guard_record([other]))[1:] if row[5]] == ["+0.0000833 (+0.2%)", "+2 (+0.0%)"]


def test_names_are_escaped_in_the_table_of_a_pull_request(project: Path) -> None:
    (watched,) = read_config(written(project, LIMITED + 'max_ram = 9\nname = "a|b\\n| c"\n'))
    table = guard_markdown(guard_record([GuardResult(watched, "0" * 64, "gcc", True, dict.fromkeys(MEASURED), None)]))
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 3 and {row.count("|") for row in rows} == {8}, table


@pytest.mark.emulator
def test_accuracy_is_guarded_as_a_drop_in_percentage_points(
    project: Path, monkeypatch: pytest.MonkeyPatch, emulator: None
) -> None:
    monkeypatch.setattr(api, "accuracies", lambda before, after, samples, read_as: (0.9, 0.875))
    accuracy = 'accuracy = { float = "chain.tflite", samples = "data" }\nmax_accuracy_drop = 2.4\n'
    (one,) = guard_models(written(project, LIMITED + accuracy))
    assert one.now["accuracy"] == 0.875 and one.now["accuracy_drop"] == pytest.approx(2.5)
    assert one.exceeded == ["accuracy_drop"]


def test_accuracies_of_the_int8_and_the_float_model_are_measured(tmp_path: Path) -> None:
    after = api.read(DIGITS / "digits.tflite")
    small = after.original
    (tmp_path / "float.tflite").write_bytes(to_tflite(float_case(Case("digits", small, [])).graph))
    before = api.read(tmp_path / "float.tflite")
    values = np.load(DIGITS / "inputs.npy")
    (tensor,) = (small.tensors[name] for name in small.inputs)
    real = ((values.reshape(-1, *tensor.shape[1:]).astype(np.float32) - tensor.zero_point) * tensor.scale).astype(np.float32)
    truth = compare.truth(small, [[each.reshape(tensor.shape)] for each in values], None).outputs
    classes = np.array([int(np.argmax(outputs[0])) for outputs in truth])
    assert len(set(classes)) == len(classes) == 10
    assert api.accuracies(before, after, real, api.SampleOptions(labels=classes)) == (1.0, 1.0)
    wrong = np.where(np.arange(10) < 3, (classes + 1) % 10, classes)
    assert api.accuracies(before, after, real, api.SampleOptions(labels=wrong)) == (0.7, 0.7)
    with pytest.raises(tw.CompileError, match="no labels"):
        api.accuracies(before, after, real, api.SampleOptions())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it lists no models"),
        ("model = 3\n", "file.model: 3 is of another type"),
        ("[[model]\n", "not TOML"),
        ("[[modle]]\n", "file.modle: there is no such key; known are model"),
        (LIMITED, "no limit is given"),
        (LIMITED + "max_ram = 0\n", "model[0].max_ram: '0' is not a size"),
        (LIMITED + "max_ram = true\n", "model[0].max_ram: true is of another type"),
        (LIMITED + "max_latency_ms = -1\n", "max_latency_ms: -1 is no limit"),
        (LIMITED + "max_latency_ms = nan\n", "max_latency_ms: it is no finite number"),
        (LIMITED + "max_accuracy_drop = nan\n", "max_accuracy_drop: it is no finite number"),
        (LIMITED + "max_accuracy_drop = inf\n", "max_accuracy_drop: it is no finite number"),
        (LIMITED + f"max_ram = 0x{'f' * 5000}\n", "max_ram: it is no finite number, or too large"),
        (LIMITED + f"max_latency_ms = 0x{'f' * 5000}\n", "max_latency_ms: it is no finite number, or too large"),
        (LIMITED + f"max_ram = 9000\nmax_mac_overhead = 0x{'f' * 5000}\n", "max_mac_overhead: it is no finite number"),
        (LIMITED + 'max_ram = 9000\nname = " "\n', "model[0].name: it is empty"),
        (LIMITED + 'max_ram = 9000\nschedule = "bset"\n', "tinyweave.toml: model 'chain': unknown schedule 'bset'"),
        (LIMITED + 'max_ram = 9000\nio = "int9"\n', "tinyweave.toml: model 'chain': --io int9 is unknown"),
        (LIMITED + 'max_ram = "9k"\nmax_rom = 3\n', "model[0].max_rom: there is no such key"),
        (LIMITED + 'max_ram = "9k"\nshapes = { x = [1, 0] }\n', "model[0].shapes: x: [1, 0] is no shape; write shapes = {"),
        (LIMITED + 'max_ram = "9k"\nshapes = { x = 3 }\n', "model[0].shapes: x: 3 is no shape; write shapes = {"),
        (LIMITED + 'max_ram = "9k"\nshapes = { q = [1, 8] }\n', "model 'chain': the model has no input 'q'; its inputs are"),
        (LIMITED + 'max_ram = "9k"\n' + LIMITED + 'max_ram = "9k"\n', "two models are called 'chain'"),
        (LIMITED + "max_accuracy_drop = 1\n", "it needs labelled samples"),
        (LIMITED + 'max_ram = 9000\naccuracy = { float = "x.tflite" }\n', "model[0].accuracy.samples: it is missing"),
        ('[[model]]\nfile = "chain.tflite"\nmax_ram = 9000\n', "model[0].device: it is missing"),
        ('[[model]]\nfile = "no.tflite"\ndevice = "stm32f412"\nmax_ram = 9000\n', "no.tflite"),
        ('[[model]]\nfile = "chain.tflite"\ndevice = "moon"\nmax_ram = 9000\n', "unknown device 'moon'"),
    ],
)
def test_a_faulty_config_is_refused_in_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert main(["guard", str(written(project, text))]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1, error


RECORDED = dict.fromkeys(MEASURED, 1)


@pytest.mark.parametrize("value", ['"much"', "true", "NaN", "1e999", "[]", "1" + "0" * 400])
def test_a_damaged_lock_file_is_refused(project: Path, value: str) -> None:
    right = json.dumps({"models": {"chain": RECORDED}})
    (project / LOCK).write_text(right)
    assert read_lock(project / LOCK) == {"chain": Recorded(RECORDED, None)}
    assert right.count('"ram": 1,') == 1
    (project / LOCK).write_text(right.replace('"ram": 1,', f'"ram": {value},'))
    with pytest.raises(tw.CompileError, match="write it again with --update"):
        read_lock(project / LOCK)


WRONG_LIMITS = json.dumps({"models": {"chain": RECORDED | {"limits": [1]}}})


@pytest.mark.parametrize("text", ["[]", "{", '{"models": []}', '{"models": {"chain": {"ram": 1}}}', WRONG_LIMITS])
def test_a_lock_file_of_another_structure_is_refused(project: Path, text: str) -> None:
    (project / LOCK).write_text(text)
    with pytest.raises(tw.CompileError, match="write it again with --update"):
        read_lock(project / LOCK)


def test_the_config_gives_plan_options_and_the_samples(project: Path) -> None:
    (project / "board.toml").write_text("")
    more = 'max_flash = "1m"\nstream_inputs = true\nmax_mac_overhead = 1.1\noptimize = "size"\nio = "int8"\n'
    accuracy = 'accuracy = { float = "f.tflite", samples = "data", scale = [0.5, 1], offset = -1 }\nmax_accuracy_drop = 0.5\n'
    text = '[[model]]\nname = "a"\nfile = "chain.tflite"\ndevice = "board.toml"\n' + more + accuracy
    (watched,) = read_config(written(project, text))
    assert watched.device == str(project / "board.toml") and watched.io == "int8" and watched.name == "a"
    assert watched.limits == {"flash": 1 << 20, "accuracy_drop": 0.5}
    assert watched.options == tw.PlanOptions(stream_inputs=True, max_mac_overhead=1.1, optimize="size", flash=1 << 20)
    assert watched.accuracy == Accuracy(project / "f.tflite", project / "data", "folders", (0.5, 1.0), (-1.0,))


def test_the_configs_on_the_guard_page_are_read_as_documented(tmp_path: Path) -> None:
    texts = re.findall(r"```toml\n(.*?)```", (DIGITS.parents[1] / "docs" / "GUARD.md").read_text(), re.DOTALL)
    small, first, second = read_config(written(tmp_path, "\n".join(texts)))
    assert set(small.limits) == {"ram", "flash", "latency_ms"}
    assert set(first.limits) == {"accuracy_drop"} and first.accuracy is not None
    assert second.options.stream_inputs and second.limits == {"ram": 40 << 10}


def test_the_action_and_the_hook_guard_a_project(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step of action.yml and the command of the hook, as a shell runs them, fail for a network that is too large."""
    (project / "tinyweave.toml").write_text(LIMITED + "max_ram = 1\n")
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for command in (action["runs"]["steps"][-1]["run"], hook["entry"]):
        done = subprocess.run(["sh", "-c", command], cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "RAM, B" in done.stdout, done.stdout + done.stderr
    assert "chain" in summary.read_text()
    assert all(
        re.search(hook["files"], name) for name in ("a.tflite", "nets/b.onnx", "tinyweave.toml", "x/tinyweave.lock.json")
    )
    assert not re.search(hook["files"], "README.md")

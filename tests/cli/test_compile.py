"""`compile`: reproducible files, plan files, several models, and the command in the C."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases import tiny
from cases.graphs import Net
from cli.running import bad, run

from tinyweave.exporters.tflite import to_tflite
from tinyweave.planning import trades_flash
from tinyweave.support.c_names import identifier


def test_compile_writes_the_same_files_in_any_folder(capsys, chain, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "chain.tflite").write_bytes(chain.read_bytes())
    assert run("compile", chain, "-o", tmp_path / "a") == 0
    assert run("compile", elsewhere / "chain.tflite", "-o", tmp_path / "b" / "deep", "--json") == 0
    a, b = tmp_path / "a", tmp_path / "b" / "deep"
    names = sorted(path.name for path in a.iterdir())
    assert {"chain.h", "chain.c", "chain_weights.h"} <= set(names)
    assert names == sorted(path.name for path in b.iterdir())
    for name in names:
        text = (a / name).read_bytes()
        assert text == (b / name).read_bytes(), name
        assert str(tmp_path).encode() not in text
    assert "tinyweave compile chain.tflite" in (a / "chain.c").read_text() + (a / "chain.h").read_text()


def test_compile_lists_the_files_of_the_model_and_counts_the_files_of_kernels(capsys, chain, tmp_path):
    """The names of kernels begin with the letter t, too."""
    assert run("compile", chain, "--name", "t", "-o", tmp_path / "out") == 0
    listed = re.findall(r"^  (\S+)  [\d,]+ B$", printed := capsys.readouterr().out, re.MULTILINE)
    kernels = list((tmp_path / "out").glob("tw*.[ch]"))
    assert listed == ["t.h", "t.c", "t_weights.h"] and f"with {len(kernels)} files of kernels" in printed


def test_compile_with_a_plan_file_emits_that_plan(capsys, chain, tmp_path):
    plan = tmp_path / "plan.json"
    for core in ("cortex-m4", "cortex-m0"):
        assert run("plan", chain, "--device", core, "-o", plan) == 0
        assert run("compile", chain, "--device", core, "-o", tmp_path / core / "planned") == 0
        assert run("compile", chain, "--device", core, "--plan", plan, "-o", tmp_path / core / "read") == 0
        planned, read = (files_of(tmp_path / core / name) for name in ("planned", "read"))
        assert set(planned) == set(read)
        lines = {
            name: {*planned[name].splitlines()} ^ {*read[name].splitlines()} for name in planned if name != "tinyweave.json"
        }
        differing = b" ".join(line for changed in lines.values() for line in changed)
        assert differing.count(b"Command: ") == 4 and differing.count(b"Memory plan: ") == 2
        assert sum(map(len, lines.values())) == 6, "the command in two files, and of whom the plan is"
    other = tmp_path / "residual.tflite"
    other.write_bytes(to_tflite(tiny.residual()))
    run("plan", chain, "--device", "cortex-m4", "-o", plan)
    capsys.readouterr()
    assert "cannot run" in bad(capsys, "compile", chain, "--device", "cortex-m0", "--plan", plan)
    assert "--schedule has no effect on the finished plan of --plan" in bad(
        capsys, "compile", chain, "--plan", plan, "--schedule", "layer"
    )
    assert "another graph" in bad(capsys, "compile", other, "--plan", plan)
    assert "one model" in bad(capsys, "compile", chain, chain, "--plan", plan, "-o", tmp_path / "x")
    plan.write_text(plan.read_text().replace('"offset": 0', '"offset": 4', 1))
    assert "the plan is damaged" in bad(capsys, "compile", chain, "--plan", plan, "-o", tmp_path / "x")
    plan.write_bytes(b"\xff\xfe")
    assert str(plan) in bad(capsys, "compile", chain, "--plan", plan, "-o", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_compile_puts_several_models_into_one_folder(capsys, chain, tmp_path):
    other, out = tmp_path / "residual.tflite", tmp_path / "both"
    other.write_bytes(to_tflite(tiny.residual()))
    assert run("compile", chain, other, "-o", out, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [record["model"]["name"] for record in found["models"]] == ["chain", "residual"]
    assert sorted(found["files"]) == sorted(str(path) for path in out.iterdir()) and found["removed"] == []
    listed = json.loads((out / "tinyweave.json").read_text())
    assert listed["command"] == "tinyweave compile chain.tflite residual.tflite"
    for path in (chain, other):
        assert run("compile", path, "-o", tmp_path / path.stem) == 0
        alone = files_of(tmp_path / path.stem)
        assert all((out / name).read_bytes() == content for name, content in alone.items() if name != "tinyweave.json")
    capsys.readouterr()
    assert run("compile", chain, other, "-o", out) == 0
    printed = capsys.readouterr().out
    assert "arena of chain: " in printed and "arena of residual: " in printed and "can share one arena" in printed
    assert "--name names one model, and 2 are given" in bad(capsys, "compile", chain, other, "-o", out, "--name", "x")
    assert "give it with -o" in bad(capsys, "compile", chain, other)
    assert "both have a file chain.c" in bad(capsys, "compile", chain, chain, "-o", out)


def test_compile_again_removes_files_of_the_earlier_run(capsys, chain, tmp_path):
    out = tmp_path / "c"
    assert run("compile", chain, "-o", out, "--name", "before") == 0
    (out / "before.h").write_text("mine")
    (out / "notes.c").write_text("mine")
    capsys.readouterr()
    assert run("compile", chain, "-o", out, "--name", "after", "--kernel-prefix", "net") == 0
    printed = capsys.readouterr()
    assert "removed files of an earlier run: before.c, before_weights.h, tw.h" in printed.out
    assert printed.err.count("\n") == 1 and "before.h' of an earlier run, because it was edited" in printed.err
    names = {path.name for path in out.iterdir()}
    assert {"before.h", "notes.c", "after.c", "net_tw.h"} <= names and "tw.h" not in names and "before.c" not in names
    assert "--kernel-prefix net" in (out / "after.h").read_text()
    assert run("compile", chain, "-o", out, "--name", "after", "--json") == 0
    printed = capsys.readouterr()
    assert str(out / "net_tw.h") in json.loads(printed.out)["removed"] and printed.err == ""


def printed_command(folder: Path) -> list[str]:
    """Return the arguments of the command in the C of `folder`."""
    lines = next(folder.glob("*_weights.h")).with_name(f"{folder.name}.h").read_text().splitlines()
    (said,) = (line.partition("Command: ")[2] for line in lines if "Command: " in line)
    shell = shutil.which("bash") or "sh"
    if "$'" in said and shell == "sh":
        pytest.skip("needs bash: a plain POSIX shell does not read $'...'")
    words = subprocess.run([shell, "-c", f"printf '%s\\0' {said}"], check=True, capture_output=True, text=True).stdout
    assert words.split("\0")[0] == "tinyweave"
    return words.split("\0")[1:-1]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--ram", "400", "--flash", "2k", "--optimize", "speed"),
        ("--device", "{folder}/mine.toml", "--ram", "1k"),
        ("--stream-inputs", "--max-mac-overhead", 1.0625, "--schedule", "best"),
        ("--schedule", "patch:2", "--io", "int8", "--layout", "nhwc", "--name", "other"),
    ],
)
@pytest.mark.parametrize("name", ["chain", "it's a Ünit\t(2)"])
def test_the_command_in_the_c_reproduces_it_in_another_folder(chain, tmp_path, monkeypatch, options, name):
    here, there = tmp_path / "here", tmp_path / "there"
    board = 'name = "mine"\ncore = "cortex-m7"\nisa = "armv7e-m"\nclock_hz = 1000\nsources = ["me"]\n'
    board += '[[memory]]\nname = "a"\nkind = "sram"\naddress = 0\nbytes = "4k"\n'
    for folder in (here, there):
        folder.mkdir()
        (folder / f"{name}.tflite").write_bytes(chain.read_bytes())
        (folder / "mine.toml").write_text(board)
    words = [str(word).format(folder=here) for word in options]
    c_name = "other" if "other" in words else identifier(name)
    assert run("compile", here / f"{name}.tflite", *words, "-o", here / "out" / c_name) == 0
    monkeypatch.chdir(there)
    assert run(*printed_command(here / "out" / c_name)) == 0
    assert files_of(there / "out" / c_name) == files_of(here / "out" / c_name)


@pytest.mark.emulator
def test_the_command_in_a_deployment_reproduces_its_c(tmp_path, monkeypatch, emulator):
    """A network that trades Flash for cycles is replanned with the Flash that its first build left."""
    net = Net(10, 10, 8)
    graph = net.finish("convolution", net.conv("image", 8, 3))
    assert trades_flash(graph, "cortex-m4")
    here, there = tmp_path / "out" / "net", tmp_path / "there"
    there.mkdir()
    (tmp_path / "net.tflite").write_bytes(to_tflite(graph))
    (there / "net.tflite").write_bytes(to_tflite(graph))
    for folder in (tmp_path, there):
        np.save(folder / "inputs.npy", np.full(graph.tensors["image"].shape, 5, np.int8))
    options = ("--flash", "24k", "--inputs", tmp_path / "inputs.npy", "--samples", 1, "--seed", 7, "--optimize", "speed")
    assert run("deploy", tmp_path / "net.tflite", *options, "-o", here) == 0
    words = printed_command(here)
    assert words[2:] == ["--flash", "24k", "--optimize", "speed", "--inputs", "inputs.npy", "--samples", "1", "--seed", "7"]
    monkeypatch.chdir(there)
    assert run(*words) == 0
    assert files_of(there / "out" / "net") == files_of(here)


def test_compile_and_verify_apply_limits(capsys, chain, tmp_path):
    assert run("plan", chain, "--json") == 0
    free = json.loads(capsys.readouterr().out)["ram"]["arena"]
    least = free - 1  # the arena without a RAM limit is the least arena, so one byte less may not fit
    assert run("compile", chain, "--ram", free, "-o", tmp_path / "c", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limits"]["ram"] == free and found["ram"]["arena"] <= free and found["fits"] is True
    assert run("compile", chain, "--ram", least, "-o", tmp_path / "c", "--json") in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is (found["ram"]["arena"] <= least)
    assert run("compile", chain, "--ram", "16", "-o", tmp_path / "c") == 0
    assert "does not fit" in capsys.readouterr().out
    assert run("verify", "--help") == 0
    printed = capsys.readouterr().out
    assert "--ram" in printed and "--flash" in printed

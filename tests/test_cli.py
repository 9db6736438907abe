"""The command line: exit codes, one line for bad input, nothing half-written, JSON keys that do not change."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import tflite
from cases import maps, tiny
from cases.graphs import Net

from tinyweave import api
from tinyweave.api import runs
from tinyweave.cli import main
from tinyweave.cli.samples import read_inputs
from tinyweave.codegen import identifier
from tinyweave.devices import all_devices
from tinyweave.devices.device import Memory
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph
from tinyweave.nas.arch import Arch, Group, blocks
from tinyweave.nas.network import to_graph
from tinyweave.planning import trades_flash
from tinyweave.report.schema import faults

# the keys that DESIGN promises
PROMISED = [
    "ram.total", "ram.arena", "ram.memories", "ram.static", "ram.stack",
    "flash.total", "flash.weights", "flash.tables", "flash.code",
    "macs_original", "macs", "instructions", "cycles", "latency_ms", "compiler",
    "plan.lower_bound", "plan.optimal", "verify.max_abs_diff", "verify.first_difference", "fits",
]  # fmt: skip


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "chain.tflite"
    path.write_bytes(to_tflite(tiny.chain()))
    return path


def lookup(record: dict, key: str):
    for part in key.split("."):
        record = record[part]
    return record


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def bad(capsys, *arguments: object) -> str:
    """Run a command that must end with code 2, nothing on standard output and one line on standard error."""
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1 and printed.err.startswith("tinyweave: ")
    assert "Traceback" not in printed.err
    return printed.err


@pytest.mark.parametrize(
    "verb", ["inspect", "plan", "compile", "export", "verify", "profile", "deploy", "compare", "reorder", "devices", "quantize"]
)
def test_every_verb_has_help_with_an_example(capsys, verb: str):
    assert run(verb, "--help") == 0
    printed = capsys.readouterr().out
    assert f"Example: tinyweave {verb}" in printed and "--json" in printed


def test_no_arguments_show_the_help(capsys):
    assert run() == 0
    assert "deploy" in capsys.readouterr().out


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("tinyweave ")


def test_inspect_shows_every_layer_and_the_peak(capsys, chain):
    assert run("inspect", chain) == 0
    printed = capsys.readouterr().out
    for name in ("conv_2d_0", "depthwise_conv_2d_1", "mean_2", "fully_connected_3", "softmax_4", "peak: "):
        assert name in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert "\x1b" not in printed


def test_inspect_json_has_all_keys_and_null_for_what_is_not_known(capsys, chain):
    assert run("inspect", chain, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    values = {key: lookup(record, key) for key in PROMISED}
    assert values["macs"] and values["macs_original"] >= values["macs"]
    assert all(value is None for key, value in values.items() if not key.startswith("macs"))
    assert next(layer["name"] for layer in record["layers"]) == "conv_2d_0"


def other_kinds(file: bytes, **kinds: str) -> bytes:
    """The file with ops of some kinds said to be of others."""
    changed, model = bytearray(file), tflite.Model.GetRootAs(file, 0)
    for code in (model.OperatorCodes(index) for index in range(model.OperatorCodesLength())):
        for old, new in kinds.items():
            if code.BuiltinCode() == getattr(tflite.BuiltinOperator, old):
                number = getattr(tflite.BuiltinOperator, new)
                changed[code._tab.Pos + code._tab.Offset(4)] = min(number, 127)
                struct.pack_into("<i", changed, code._tab.Pos + code._tab.Offset(10), number)
    return bytes(changed)


def test_all_ops_that_are_not_supported_are_named(capsys, chain, tmp_path):
    """`inspect` shows the rest and a table, the others say one line."""
    model = tmp_path / "odd.tflite"
    model.write_bytes(other_kinds(chain.read_bytes(), MEAN="SUM", SOFTMAX="COS"))
    assert run("inspect", model) == 2
    printed = capsys.readouterr()
    assert printed.err == "" and max(map(len, printed.out.splitlines())) <= 100
    lines = [line.split() for line in printed.out.splitlines()]
    assert [line[:3] for line in lines if line[:1] in (["sum"], ["cos"])] == [["sum", "1", "sum_2"], ["cos", "1", "cos_4"]]
    assert "2 ops cannot be compiled" in printed.out and "supported: add" not in printed.out
    assert "conv_2d_0" in printed.out and "peak: " in printed.out

    assert run("inspect", model, "--json") == 2
    record = json.loads(capsys.readouterr().out)
    assert [(entry["op"], entry["kind"], entry["tensor"]) for entry in record["unsupported"]] == [
        ("sum_2", "sum", None),
        ("cos_4", "cos", None),
    ]
    assert all("not supported" in entry["reason"] for entry in record["unsupported"])
    assert run("inspect", chain, "--json") == 0
    right = json.loads(capsys.readouterr().out)
    assert right["unsupported"] == [] and [layer["live"] for layer in right["layers"]] == [
        layer["live"] for layer in record["layers"]
    ]
    macs = {layer["name"]: layer["macs"] for layer in record["layers"]}
    assert all(layer["macs"] == macs[layer["name"]] for layer in right["layers"] if layer["name"] in macs)
    for verb in ("plan", "compile", "verify", "profile", "deploy", "compare"):
        line = bad(capsys, verb, model)
        assert (
            "2 ops cannot be compiled: sum (1), cos (1); op sum_2" in line and f"'tinyweave inspect {model}' lists all" in line
        )


def test_a_float_network_is_shown_with_what_it_lacks(capsys, tmp_path):
    model = tmp_path / "float.tflite"
    model.write_bytes(to_tflite(floats(tiny.residual())))
    assert run("inspect", model, "--json") == 2
    record = json.loads(capsys.readouterr().out)
    assert {entry["kind"] for entry in record["unsupported"]} == {"conv_2d", "add", "max_pool_2d", "average_pool_2d"}
    assert all("no kernel runs it on float32" in entry["reason"] for entry in record["unsupported"])
    assert "a float model: 4 ops compute on float32; make it int8" in bad(capsys, "plan", model) and record["macs"] > 0


def floats(graph: Graph) -> Graph:
    """The network with all int8 tensors as float32."""

    def real(tensor):
        data = None if tensor.data is None else tensor.data.astype(np.float32)
        return tensor if tensor.dtype != "int8" else replace(tensor, dtype="float32", quant=None, data=data)

    return replace(graph, tensors={name: real(tensor) for name, tensor in graph.tensors.items()})


def test_plan_fits_and_does_not_fit(capsys, chain):
    size = ("--optimize", "size")  # what fits no more with the fastest kernels is planned with these
    assert run("plan", chain, "--json", "--optimize", "speed") == 0
    fast = json.loads(capsys.readouterr().out)["ram"]["arena"]
    assert run("plan", chain, "--ram", fast - 1, "--optimize", "speed") == 0
    capsys.readouterr()
    assert run("plan", chain, "--ram", "64k", "--json", *size) == 0
    fits = json.loads(capsys.readouterr().out)
    assert fits["fits"] is True and fits["excess"]["ram"] == 0 and fits["plan"]["steps"] == 6
    arena = fits["ram"]["arena"]
    assert arena < fast
    assert list(fits["plan"]["ablation"]) == [
        *("file order", "best order", "+ views", "+ in-place", "+ overlap", "+ moves", "+ fusion")
    ]
    assert sum(b["bytes"] for b in fits["peak"]["buffers"]) > fits["peak"]["bytes"] == arena  # input and output share bytes
    assert fits["plan"]["lower_bound"] <= arena == sum(fits["ram"]["memories"].values())
    assert run("plan", chain, "--ram", arena - 1, "--json", *size) == 1
    tight = json.loads(capsys.readouterr().out)
    assert tight["fits"] is False and tight["excess"] == {"ram": 1, "flash": None, "latency_ms": None}
    assert run("plan", chain, "--ram", arena, *size) == 0
    printed = capsys.readouterr().out
    assert "fits" in printed and "0 B left" in printed and "offset" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_plan_writes_a_plan_that_can_be_read_back(chain, tmp_path):
    from tinyweave.planning import from_json, to_json

    target = tmp_path / "sub" / "plan.json"
    assert run("plan", chain, "-o", target) == 0
    model = api.load(chain)
    assert to_json(from_json(target.read_text(), model.graph)) == target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["plan.json"]


def test_plan_explains_a_tensor_by_its_own_name_and_by_that_in_the_c(capsys, chain):
    for name in ("conv", "conv_2d_0"):
        assert run("plan", chain, "--explain", name, "--optimize", "size") == 0
        printed = capsys.readouterr().out
        assert printed.startswith("conv_2d_0: ") and "tensor 'conv'" in printed
        assert "read last by move_1 in step 2" in printed
        assert "writes" in printed and "behind its reads" in printed
        assert max(map(len, printed.splitlines())) <= 100
    assert run("plan", chain, "--explain", "scores", "--json", "--ram", "1") == 1
    record = json.loads(capsys.readouterr().out)
    explained = record["explain"]
    assert explained["tensor"] == "scores" and explained["persistent"] == explained["kept"] == ["network output"]
    assert explained["writers"] == [{"step": 5, "op": "softmax_4"}] and explained["readers"] == []
    assert record["plan"]["ablation"] is None
    assert run("plan", chain, "--json") == 0
    assert json.loads(capsys.readouterr().out)["explain"] is None


def test_outputs_that_go_by_rows_are_named(capsys, chain, tmp_path):
    path = tmp_path / "heads.tflite"
    path.write_bytes(to_tflite(maps.heads()))
    assert run("plan", path, "--stream-outputs", "--json", "-o", tmp_path / "plan.json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ram"]["streamed_outputs"] == found["ram"]["handed"] == ["wide"]
    assert found["ram"]["streamed_inputs"] == found["ram"]["streamed"] == []
    assert json.loads((tmp_path / "plan.json").read_text())["streamed_outputs"] == ["wide"]
    assert run("plan", path, "--stream-outputs") == 0
    assert "(ring of 1 row) (output, handed out by rows)" in " ".join(capsys.readouterr().out.split())
    assert run("plan", path, "--stream-outputs", "--explain", "wide") == 0
    assert "a network output, handed out by rows" in capsys.readouterr().out
    assert run("plan", path, "--stream-outputs", "--stream-inputs", "--pareto") == 0
    assert "what RAM costs in time, inputs and outputs by rows" in capsys.readouterr().out
    assert run("compile", path, "--stream-outputs", "-o", tmp_path / "c", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ram"]["streamed_outputs"] == ["wide"]
    assert "--stream-outputs" in (tmp_path / "c" / "heads.h").read_text()
    assert "cannot hand out a network output row by row" in bad(capsys, "plan", chain, "--stream-outputs")
    assert "cannot stream outputs" in bad(capsys, "plan", path, "--stream-outputs", "--schedule", "layer")


def test_constants_alone_decide_that_a_plan_does_not_fit_its_flash_and_an_estimate_that_it_may_not(capsys, chain):
    least_constants = ("--optimize", "size")  # no others fit where these do not
    assert run("plan", chain, *least_constants, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    flash, (least, most) = record["flash"], record["flash"]["estimate"]
    assert 0 < flash["constants"] < least < most and flash["total"] is record["excess"]["flash"] is record["fits"] is None
    for limit, code, fits, over, said in (
        (flash["constants"] - 1, 1, False, 1, "1 B too many"),
        (flash["constants"], 0, None, None, "may not fit"),
        (least, 0, None, None, "which is perhaps too many"),
        (most - 1, 0, None, None, "may not fit"),
        (most, 0, True, 0, "at least 0 B left"),
    ):
        assert run("plan", chain, *least_constants, "--flash", limit, "--json") == code
        record = json.loads(capsys.readouterr().out)
        assert (record["fits"], record["excess"]["flash"]) == (fits, over), limit
        assert run("plan", chain, *least_constants, "--flash", limit) == code
        printed = capsys.readouterr().out
        assert said in printed and f"{flash['constants']:,}" in printed


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus", "rv32imc"])
def test_what_a_build_adds_to_the_constants_lies_in_the_range_that_plan_prints(capsys, chain, core, emulator):
    assert run("plan", chain, "--device", core, "--json") == 0
    foreseen = json.loads(capsys.readouterr().out)["flash"]
    assert run("profile", chain, "--device", core, "--json") == 0
    measured = json.loads(capsys.readouterr().out)["flash"]
    assert foreseen["constants"] == measured["constants"] <= measured["weights"] + measured["tables"]
    least, most = foreseen["estimate"]
    assert least <= measured["total"] <= most and measured["estimate"] is None


def test_a_board_has_no_room_for_more_flash_than_lies_beside_its_chip():
    measured = SimpleNamespace(arena={"sram": 1}, static=0, stack=0, flash=2_600_000)
    boards = {board.name for board in api.boards_that_fit(measured)}
    assert "rp2040" not in boards and {"rp2350", "esp32-s3"} <= boards


def test_limits_of_a_device_and_their_overrides(capsys, chain):
    assert run("plan", chain, "--device", "NUCLEO-F746ZG", "--flash", "10k", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["device"]["name"] == "stm32f746"
    memories = {"dtcm": 64 * 1024, "sram": 256 * 1024}
    assert record["limits"] == {"ram": 320 * 1024, "memories": memories, "flash": 10 * 1024, "latency_ms": None}
    assert record["ram"]["memories"] == {"dtcm": record["ram"]["arena"]}
    assert run("plan", chain, "--device", "NUCLEO-F746ZG", "--ram", "100k", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["limits"] == {"ram": 100 * 1024, "memories": None, "flash": 1024 * 1024, "latency_ms": None}
    assert record["ram"]["memories"] == {"sram": record["ram"]["arena"]}


def test_compile_writes_c_and_the_same_bytes_anywhere(capsys, chain, tmp_path):
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


def test_compile_emits_the_plan_of_a_file(capsys, chain, tmp_path):
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
    assert "--schedule is for planning" in bad(capsys, "compile", chain, "--plan", plan, "--schedule", "layer")
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
    assert "--name is of one model" in bad(capsys, "compile", chain, other, "-o", out, "--name", "x")
    assert "give it with -o" in bad(capsys, "compile", chain, other)
    assert "both have a file chain.c" in bad(capsys, "compile", chain, chain, "-o", out)


def test_compile_again_removes_what_it_wrote_before(capsys, chain, tmp_path):
    out = tmp_path / "c"
    assert run("compile", chain, "-o", out, "--name", "before") == 0
    (out / "before.h").write_text("mine")
    (out / "notes.c").write_text("mine")
    capsys.readouterr()
    assert run("compile", chain, "-o", out, "--name", "after", "--kernel-prefix", "net") == 0
    printed = capsys.readouterr()
    assert "removed what an earlier run left there: before.c, before_weights.h, tw.h" in printed.out
    assert printed.err.count("\n") == 1 and "before.h' is of an earlier run, and was changed since: it stays" in printed.err
    names = {path.name for path in out.iterdir()}
    assert {"before.h", "notes.c", "after.c", "net_tw.h"} <= names and "tw.h" not in names and "before.c" not in names
    assert "--kernel-prefix net" in (out / "after.h").read_text()
    assert run("compile", chain, "-o", out, "--name", "after", "--json") == 0
    printed = capsys.readouterr()
    assert str(out / "net_tw.h") in json.loads(printed.out)["removed"] and printed.err == ""


def printed_command(folder: Path) -> list[str]:
    """The arguments of the command that the C in `folder` names."""
    lines = next(folder.glob("*_weights.h")).with_name(f"{folder.name}.h").read_text().splitlines()
    (said,) = (line.partition("Command: ")[2] for line in lines if "Command: " in line)
    words = subprocess.run(["bash", "-c", f"printf '%s\\0' {said}"], check=True, capture_output=True, text=True).stdout
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
def test_the_command_in_the_c_gives_the_same_bytes_in_another_folder(chain, tmp_path, monkeypatch, options, name):
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
def test_the_command_of_a_deployment_gives_the_same_bytes_with_what_was_measured(tmp_path, monkeypatch, emulator):
    """A network that trades Flash for cycles is planned again with what its first build left."""
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


def test_compile_and_verify_take_limits(capsys, chain, tmp_path):
    assert run("plan", chain, "--json") == 0
    free = json.loads(capsys.readouterr().out)["ram"]["arena"]
    least = free - 1  # the arena that any RAM limit leaves is the least: with it the network fits, with less it does not
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--frob",), "No such option"),
        (("frobnicate",), "No such command 'frobnicate'"),
        (("plan",), "Missing argument 'MODEL'"),
        (("plan", "{chain}", "--frob"), "No such option"),
        (("plan", "{chain}", "--ram", "64q"), "'64q' is not a size"),
        (("plan", "{chain}", "--ram", "0"), "'0' is not a size"),
        (("plan", "{chain}", "--device", "stm32f74"), "did you mean stm32f746"),
        (("plan", "{chain}", "--device", "{folder}/none.toml"), "No such file"),
        (("plan", "{chain}", "--schedule", "magic"), "unknown schedule 'magic'"),
        (("plan", "{chain}", "--optimize", "magic"), "--optimize magic is unknown"),
        (("plan", "{chain}", "--explain", "conv_2d_00"), "no tensor 'conv_2d_00' in the plan; did you mean conv_2d_0"),
        (("plan", "{chain}", "--explain", "fc.weights"), "is a constant of 12 B"),
        (("inspect", "{chain}", "--io", "float"), "--io float"),
        (("inspect", "{folder}/none.tflite"), "No such file"),
        (("inspect", "{folder}"), "Is a directory"),
        (("inspect", "{folder}/empty.tflite"), "empty.tflite: not a readable"),
        (("inspect", "{folder}/noise.tflite"), "noise.tflite: not a readable"),
        (("inspect", "{folder}/cut.tflite"), "cut.tflite: "),
        (("verify", "{chain}", "--samples", "0"), "--samples"),
        (("verify", "{chain}", "--inputs", "{folder}/none.npy"), "No such file"),
        (("compile", "{chain}", "-o", "{folder}/a_file"), "is not a folder"),
        (("compile", "{chain}", "-o", "{folder}/a_file/below"), "a_file"),
        (("compile", "{chain}", "--name", "---"), "cannot be made into a C name"),
        (("devices", "toaster"), "unknown device 'toaster'"),
        (("plan", "{chain}", "--count", "most"), "--count most is unknown; it is one of live, fusion_paper, patch_paper"),
        (("plan", "{chain}", "--count", "patch_paper", "--pareto"), "--count is of one plan, not of --pareto"),
        (("plan", "{chain}", "--explain", "conv_2d_0", "--pareto"), "--explain is of one plan, not of --pareto"),
        (("plan", "{chain}", "--out", "{folder}/plan.json", "--pareto"), "--out is of one plan, not of --pareto"),
        (("plan", "{chain}", "--flash", "1k", "--pareto"), "--flash is of one plan, not of --pareto"),
        (("plan", "{chain}", "--optimize", "balanced", "--pareto"), "--optimize is of one plan, not of --pareto"),
        (("plan", "{chain}", "--figure", "{folder}/a.svg"), "--figure draws what --pareto finds"),
        (("plan", "{chain}", "--schedule", "layer", "--max-mac-overhead", "1.1"), "--schedule layer computes nothing twice"),
        (
            ("compile", "{chain}", "--schedule", "unfused", "--max-mac-overhead", "2"),
            "--schedule unfused computes nothing twice",
        ),
        (
            ("compare", "{chain}", "--schedule", "stream2d", "--max-mac-overhead", "2"),
            "--schedule stream2d computes nothing twice",
        ),
        (("profile", "{chain}", "--compare", "{chain}", "--json"), "--compare shows what changed to people, not in --json"),
        (("reorder", "{chain}", "--count", "most"), "--count most is unknown"),
        (("reorder", "{chain}", "--figure", "{folder}/a.jpg"), "neither .svg nor .png"),
        (("reorder", "{chain}", "-o", "{folder}/new.tflite", "--csv", "{folder}/a_file/a.csv"), "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, chain, tmp_path, arguments, message: str):
    (tmp_path / "empty.tflite").write_bytes(b"")
    (tmp_path / "noise.tflite").write_bytes(np.random.default_rng(1).bytes(5000))
    (tmp_path / "cut.tflite").write_bytes(chain.read_bytes()[: chain.stat().st_size // 2])
    (tmp_path / "a_file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    line = bad(capsys, *(str(a).format(chain=chain, folder=tmp_path) for a in arguments))
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before, "nothing may be left behind"
    assert (tmp_path / "a_file").read_text() == "mine"


def test_every_cut_of_a_file_is_one_line(capsys, chain, tmp_path):
    raw = chain.read_bytes()
    target = tmp_path / "cut.tflite"
    for length in range(0, len(raw) - 1, max(1, len(raw) // 60)):
        target.write_bytes(raw[:length])
        code = run("inspect", target)
        printed = capsys.readouterr()
        assert code in (0, 2) and printed.err.count("\n") == (code == 2), (length, printed.err)


def test_a_file_name_cannot_write_control_codes(capsys, tmp_path):
    assert "\x1b" not in bad(capsys, "inspect", tmp_path / "\x1b[31mred.tflite")


def renamed(graph: Graph, names: dict[str, str]) -> Graph:
    """The graph with some of its tensors called otherwise."""

    def new(old: tuple[str | None, ...]) -> tuple:
        return tuple(names.get(name, name) for name in old)

    tensors = {names.get(n, n): replace(t, name=names.get(n, n)) for n, t in graph.tensors.items()}
    ops = tuple(replace(op, inputs=new(op.inputs), outputs=new(op.outputs)) for op in graph.ops)
    return replace(graph, tensors=tensors, ops=ops, inputs=new(graph.inputs), outputs=new(graph.outputs))


def test_names_of_tensors_and_files_cannot_write_control_codes(capsys, tmp_path):
    evil = "\x1b[2Jgone\0\a\u202eback\u2066\x7f|`<b>\n# title"
    model = tmp_path / "\x1b[31mred*.tflite"
    model.write_bytes(to_tflite(renamed(tiny.chain(), {"image": evil, "conv": f"{evil}2", "scores": f"{evil}3"})))
    files = {f"--{option}": tmp_path / f"a.{end}" for option, end in (("csv", "csv"), ("figure", "svg"))}
    for words in (
        ("inspect", model),
        ("plan", model, "--explain", f"{evil}2"),
        ("plan", model),
        ("reorder", model, *(word for pair in files.items() for word in pair)),
        ("compile", model, "-o", tmp_path / "c", "--device", "stm32f746"),
    ):
        assert run(*words) == 0
        printed = capsys.readouterr()
        assert printed.err == "" and all(line.isprintable() for line in printed.out.splitlines()), words
    ElementTree.fromstring(files["--figure"].read_text())
    for path in [files["--csv"], *(tmp_path / "c").iterdir()]:
        assert all(line.isprintable() for line in path.read_text(encoding="utf-8").replace("\t", " ").split("\n")), path.name


def test_a_mistake_of_ours_is_not_called_a_misfit(capsys, chain, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("tinyweave.api.models.with_edges", broken)  # what every verb calls that reads a model
    assert run("inspect", chain) == 70
    assert "mistake of tinyweave" in capsys.readouterr().err


def sample_files(folder: Path, samples: np.ndarray) -> dict[str, Path]:
    paths = {kind: folder / f"x.{kind}" for kind in ("npy", "npz", "bin")}
    np.save(paths["npy"], samples)
    np.savez(paths["npz"], image=samples)
    paths["bin"].write_bytes(samples.tobytes())
    return paths


def test_inputs_from_files(chain, tmp_path):
    model = api.load(chain)
    wanted = np.arange(3 * 64, dtype=np.uint8).view(np.int8).reshape(3, 8, 8, 1)
    for path in sample_files(tmp_path, wanted).values():
        found = read_inputs(path, model)
        assert len(found) == 3
        for sample, expected in zip(found, wanted, strict=True):
            assert sample[0].dtype == np.int8 and sample[0].tobytes() == expected.tobytes()
    np.save(tmp_path / "one.npy", wanted[0])
    assert read_inputs(tmp_path / "one.npy", model)[0][0].tobytes() == wanted[0].tobytes()
    assert read_inputs(None, model) == []


def bomb(path: Path, size: int) -> None:
    """An archive of few bytes that says of its member that it has `size` of them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(1000))
        archive.filelist[0].file_size = size


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_wrong_inputs(chain, tmp_path):
    model = api.load(chain)
    cases = {
        "holds 65 bytes, one sample has 64": ("a.bin", lambda p: p.write_bytes(b"x" * 65)),
        "holds 0 bytes": ("b.bin", lambda p: p.write_bytes(b"")),
        "the input is int8": ("c.npy", lambda p: np.save(p, np.zeros((3, 7), np.int8))),
        "is not a NumPy file": ("d.npy", lambda p: p.write_bytes(b"not numpy")),
        "is not a NumPy": ("e.npz", lambda p: p.write_bytes(b"PK not a zip")),
        "holds 2 arrays, the model has 1": ("f.npz", lambda p: np.savez(p, a=np.zeros(64, np.int8), b=np.zeros(64, np.int8))),
        "unpacked it has 1,": ("h.npz", lambda p: bomb(p, 1 << 30)),
        "has more than 536,870,912 bytes": ("i.bin", lambda p: sparse(p, 6 << 30)),
        "allow_pickle": ("g.npy", lambda p: np.save(p, np.array([{}], object), allow_pickle=True)),
    }
    for message, (name, make) in cases.items():
        make(tmp_path / name)
        with pytest.raises(CompileError, match=message):
            read_inputs(tmp_path / name, model)


def test_devices(capsys):
    assert run("devices") == 0
    assert "stm32h743" in capsys.readouterr().out
    assert run("devices", "rp2040", "--json") == 0
    (board,) = json.loads(capsys.readouterr().out)
    assert board["ram"] == 264 * 1024 and board["flash"] == 2048 * 1024 and board["sources"]
    assert [memory["name"] for memory in board["memories"] if memory["external"]] == ["flash"]


def test_a_plan_with_layers_of_unknown_cycles_estimates_the_others_and_names_them(capsys, tmp_path):
    path = tmp_path / "edges.tflite"
    path.write_bytes(to_tflite(tiny.edges()))  # float edges, whose conversions have no constants
    assert run("plan", path, "--device", "cortex-m4", "--json") == 0
    found = json.loads(capsys.readouterr().out)["plan"]
    assert found["cycles"] is None and found["latency_ms"] is None and found["cycles_at_least"] > 0
    assert found["cycles_missing"] == ["quantize", "dequantize"]
    assert run("plan", path, "--io", "int8", "--device", "cortex-m4", "--json") == 0
    whole = json.loads(capsys.readouterr().out)["plan"]
    assert whole["cycles"] == whole["cycles_at_least"] and whole["cycles_missing"] == []
    assert run("plan", path, "--device", "cortex-m4") == 0
    assert "without quantize and dequantize" in " ".join(capsys.readouterr().out.split())
    assert run("plan", path, "--device", "stm32f412", "--pareto") == 0
    printed = capsys.readouterr().out
    assert "at least ms" in printed and "without quantize and dequantize" in " ".join(printed.split())


def test_a_core_without_a_board_has_cycles_but_no_milliseconds_and_no_limits(capsys, chain):
    assert run("plan", chain, "--device", "cortex-m4", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["device"] == {"name": "cortex-m4", "core": "cortex-m4", "clock_hz": None, "ram": None, "flash": None}
    assert record["limits"] == {"ram": None, "memories": None, "flash": None, "latency_ms": None} and record["fits"] is None
    assert record["plan"]["cycles"] > 0 and record["plan"]["latency_ms"] is None
    assert run("plan", chain, "--device", "cortex-m4", "--ram", "64k") == 0
    printed = capsys.readouterr().out
    assert "fits cortex-m4" in printed and "MHz" not in printed and " ms" not in printed
    assert run("devices", "cortex-m85") == 0
    assert "a core without a board" in capsys.readouterr().out


@pytest.mark.emulator
def test_deploy_leaves_c_and_reports_that_agree(capsys, chain, tmp_path, emulator):
    out = tmp_path / "firmware" / "net"
    samples = sample_files(tmp_path, np.full((2, 8, 8, 1), 5, np.int8))["npy"]
    assert run("deploy", chain, "--device", "stm32f412", "--inputs", samples, "--samples", 3, "-o", out, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    known = {key: lookup(record, key) for key in PROMISED}
    unknown = {key for key, value in known.items() if value is None}
    assert unknown <= {"verify.first_difference", "plan.optimal"}
    assert known["fits"] is True and known["verify.max_abs_diff"] == 0
    assert record["verify"]["ok"] is True and record["verify"]["samples"] == 3
    ram, flash = record["ram"], record["flash"]
    assert ram["total"] == ram["arena"] + ram["static"] + ram["stack"] and ram["stack"] > 0
    assert flash["total"] == flash["weights"] + flash["tables"] + flash["code"] and flash["code"] > 0
    assert all(touched == ram["memories"] for touched in record["verify"]["touched"].values())
    assert set(record["verify"]["touched"]) == {"host", "cortex-m4"} and record["core"] == "cortex-m4"
    # the traced build calls a hook after each step, so that its steps sum to a little more than the build that ships
    steps = sum(layer["instructions"] for layer in record["layers"])
    assert record["instructions"] > 0 and abs(steps - record["instructions"]) < 0.05 * record["instructions"]
    assert json.loads((out / "report.json").read_text()) == record
    report = (out / "report.md").read_text()
    assert "**fits stm32f412**" in report and f"{ram['total']:,}" in report and "conv_2d_0" in report
    assert "nrf52840" in record["boards"] and (out / "chain.c").exists()
    assert [path.name for path in out.parent.iterdir()] == ["net"]


@pytest.mark.emulator
def test_deploy_plans_once_more_where_the_stack_finds_no_room_beside_the_arena(capsys, emulator, tmp_path):
    model = Path(__file__).parents[1] / "examples" / "keywords" / "digits.tflite"
    options = ("--device", "stm32f412", "--ram", 8500, "--json")
    assert run("plan", model, *options) == 0
    planned = json.loads(capsys.readouterr().out)["ram"]["arena"]
    assert run("deploy", model, *options, "--samples", 1, "-o", tmp_path / "net") == 0
    ram = json.loads(capsys.readouterr().out)["ram"]
    assert planned + ram["static"] + ram["stack"] > 8500 >= ram["total"] and ram["arena"] < planned


@pytest.mark.emulator
def test_deploy_that_does_not_fit_once_measured_says_by_how_much(capsys, chain, tmp_path, emulator):
    """The arena and the constants alone would fit, the stack and the code beside them do not."""
    assert run("plan", chain, "--optimize", "size", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    limits = ("--ram", planned["ram"]["arena"], "--flash", planned["flash"]["constants"], "--optimize", "size")
    assert run("deploy", chain, *limits, "--samples", 1, "-o", tmp_path / "net") == 1
    printed = capsys.readouterr().out
    assert "does not fit" in printed and printed.count("B too many") == 2 and "peak:" in printed
    assert "does not fit" in (tmp_path / "net" / "report.md").read_text()


@pytest.mark.emulator
def test_compare_holds_a_model_against_every_board_and_runs_it_once_per_core_and_kernels(capsys, chain, emulator, monkeypatch):
    built: list[str] = []
    build = runs.emulated.build
    monkeypatch.setattr(runs.emulated, "build", lambda f, n, core, **o: built.append(core) or build(f, n, core, **o))
    assert run("compare", chain, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert faults(found, "record") == ""
    if runs.emulated.missing("cortex-m55") is None:  # else another core stands for it, too
        # the M4 with its own kernels, and with those of an ESP32; RV32IMC with its own, and with those of a CH32V003
        assert sorted(built) == sorted([*set(built), "cortex-m4", "rv32imc"])
    assert {board["name"] for board in found["compare"]} == {device.name for device in all_devices()}
    assert {board["measured_on"] for board in found["compare"]} == set(built)
    by_name = {board["name"]: board for board in found["compare"]}
    assert by_name["stm32l4r5"]["instructions"] < by_name["esp32"]["instructions"]
    assert by_name["stm32l4r5"]["latency_ms"] > 0 and by_name["esp32"]["latency_ms"] is by_name["esp32-c3"]["cycles"] is None
    for board in found["compare"]:
        assert board["ram"]["left"] == board["ram"]["limit"] - board["ram"]["total"]
        assert board["fits"] == (board["ram"]["left"] >= 0 and (board["flash"]["left"] is None or board["flash"]["left"] >= 0))
    assert found["fits"] is True and "stm32f746" in found["boards"]
    assert lookup(found, "ram.arena") == sum(api.plan(api.load(chain)).arena.values()) and lookup(found, "ram.total") is None
    assert run("compare", chain) == 0
    shown = capsys.readouterr().out
    assert f"{len(found['compare'])} boards" in shown and "xtensa-lx6 *" in shown and "xtensa-lx6 by cortex-m4" in shown


@pytest.mark.emulator
def test_compare_says_what_is_missing_and_exits_with_1_when_nothing_fits(capsys, tmp_path, emulator, monkeypatch):
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(tiny.chain()))
    board = replace(all_devices()[0], name="small", memories=(Memory("ram", "sram", 256, 0), Memory("rom", "flash", 512, 512)))
    monkeypatch.setattr(runs, "all_devices", lambda: (board,))
    assert run("compare", path, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False and found["boards"] == []
    assert found["compare"][0]["ram"]["left"] < 0 and found["compare"][0]["flash"]["left"] < 0
    assert run("compare", path) == 1
    assert "too little RAM and Flash" in capsys.readouterr().out


@pytest.mark.emulator
def test_verify_and_profile(capsys, chain, emulator):
    assert run("verify", chain, "--device", "stm32f746", "--samples", 2) == 0
    printed = capsys.readouterr().out
    assert "every output byte is equal, 2 inputs" in printed and "emulated cortex-m7" in printed
    assert run("profile", chain) == 0
    printed = capsys.readouterr().out
    assert "instructions: " in printed and "stack" in printed and "softmax_4" in printed
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.emulator
def test_profile_estimates_cycles_and_compares_with_an_earlier_one(capsys, chain, tmp_path, emulator):
    earlier, events = tmp_path / "earlier.json", tmp_path / "events.json"
    assert run("profile", chain, "--device", "stm32l4r5", "--json", "--trace", events) == 0
    earlier.write_text(capsys.readouterr().out)
    found = json.loads(earlier.read_text())
    assert found["cycles_range"][0] < found["cycles"] < found["cycles_range"][1] and found["flash_waits"] == 5
    assert found["instructions"] < found["cycles"] < 4 * found["instructions"]
    assert found["latency_ms"] == pytest.approx(found["cycles"] / 120e3, abs=0.001)
    assert found["energy_mj"] == pytest.approx(found["latency_ms"] * 13.2 * 3 / 1000, abs=0.0001)
    layers = [layer["cycles"] for layer in found["layers"] if layer["cycles"] is not None]
    assert sum(layers) == pytest.approx(found["cycles"], rel=0.05)
    traced = json.loads(events.read_text())
    assert sum(event["dur"] for event in traced["traceEvents"]) == pytest.approx(sum(layers) / 120)

    assert run("profile", chain, "--device", "stm32l4r5", "--optimize", "size", "--compare", earlier) == 0
    printed = capsys.readouterr().out
    assert "before" in printed and "ms (" in printed and "tw_conv_2d_s8_dsp is faster" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert run("profile", chain, "--device", "mps2-an386", "--compare", earlier) == 0
    assert "answers at once" in " ".join(capsys.readouterr().out.split())
    for broken in ("{", "[]", '{"macs": 1}', json.dumps(found | {"layers": [{"name": 1, "instructions": 2, "cycles": 3}]})):
        earlier.write_text(broken)
        assert str(earlier) in bad(capsys, "profile", chain, "--compare", earlier)


@pytest.mark.emulator
def test_cycles_of_a_core_whose_timings_nobody_knows_are_not_known(capsys, chain, emulator):
    assert run("profile", chain, "--device", "esp32-c3", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert all(found[key] is None for key in ("cycles", "cycles_range", "latency_ms", "energy_mj"))
    assert run("profile", chain, "--device", "esp32-c3") == 0
    assert "cycles: not estimated" in capsys.readouterr().out


@pytest.mark.emulator
def test_verify_says_what_differs(capsys, chain, emulator, monkeypatch):
    """A kernel that computes something else is caught: exit code 1, the layer named."""
    right = api.source

    def wrong(*arguments, **options):
        emitted = right(*arguments, **options)
        files = dict(emitted.files)
        name = next(file for file in files if file.endswith("_weights.h"))
        numbers = files[name].split("{", 1)
        files[name] = numbers[0] + "{" + numbers[1].replace("7", "8", 1)
        return replace(emitted, files=files)

    monkeypatch.setattr(api, "source", wrong)
    monkeypatch.setattr(runs, "source", wrong)
    assert run("verify", chain, "--json", "--optimize", "size") == 1
    record = json.loads(capsys.readouterr().out)
    assert record["verify"]["ok"] is False and record["verify"]["max_abs_diff"] > 0
    assert "conv_2d_0" in record["verify"]["first_difference"]


def command(*arguments: object, **options) -> subprocess.Popen:
    words = [sys.executable, "-m", "tinyweave", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_real_process_gives_the_same_codes(chain, tmp_path):
    with command("inspect", tmp_path / "none.tflite") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    with command("plan", chain, "--ram", "80", "--json") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "") and json.loads(out)["fits"] is False


def test_a_reader_that_leaves_early_is_no_error(chain):
    with command("plan", chain, "--json") as process:
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert "Traceback" not in err and "Exception ignored" not in err
    assert process.returncode == 0


def test_no_terminal_gets_plain_ascii_without_utf_8(tmp_path):
    graph = tiny.chain()
    graph = replace(
        graph,
        tensors={**graph.tensors, "bild\u00e9": replace(graph.tensors["image"], name="bild\u00e9")},
        inputs=("bild\u00e9",),
        ops=(replace(graph.ops[0], inputs=("bild\u00e9", *graph.ops[0].inputs[1:])), *graph.ops[1:]),
    )
    model = tmp_path / "named.tflite"
    model.write_bytes(to_tflite(graph))
    with command("inspect", model, env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.isascii() and "bild?" in out and err == ""


def open_writer(pipe: Path, process: subprocess.Popen) -> int:
    """The pipe's writing end, once the process has opened the other one."""
    while process.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
    raise AssertionError(process.stderr.read())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_ends_with_130_and_leaves_nothing(tmp_path):
    os.mkfifo(tmp_path / "slow.tflite")
    # a parent that ignores the signal, as a shell's background job does, would hand that down
    answers = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with command("compile", tmp_path / "slow.tflite", "-o", tmp_path / "out", **answers) as process:
        writer = open_writer(tmp_path / "slow.tflite", process)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        os.close(writer)
    assert process.returncode == 130 and out == "" and "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["slow.tflite"]


DIGITS = Path(__file__).parents[1] / "examples" / "keywords" / "digits.tflite"


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", DIGITS),
        ("plan", DIGITS, "--device", "nrf52840"),
        ("plan", DIGITS, "--explain", "conv_2d_5"),
        ("plan", DIGITS, "--pareto"),
        ("reorder", DIGITS),
        ("devices",),
        ("devices", "stm32h743"),
    ],
)
@pytest.mark.parametrize("columns", [80, 100])
def test_what_people_read_fits_the_columns_and_has_separators(capsys, monkeypatch, arguments, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(*arguments) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= columns
    assert not re.findall(r"(?<![\w.,-])[1-9]\d{3,}(?![\w.-])", printed), "thousands without separator"
    assert not re.findall(r"\de[+-]\d", printed), "powers of ten"


def test_the_readme_shows_what_plan_prints(capsys, monkeypatch):
    root = Path(__file__).parents[1]
    monkeypatch.chdir(root)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert run("plan", "examples/keywords/digits.tflite", "--device", "nrf52840") == 0
    assert capsys.readouterr().out in (root / "README.md").read_text(encoding="utf-8")


def test_reorder_writes_a_file_a_table_and_a_picture(capsys, chain, tmp_path):
    out, table, picture = tmp_path / "new" / "chain.tflite", tmp_path / "chain.csv", tmp_path / "chain.svg"
    assert run("reorder", chain, "-o", out, "--csv", table, "--figure", picture) == 0
    printed = capsys.readouterr().out
    assert "file order: 128 B" in printed and "no order needs less" in printed and "saved: 0 B (live)" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert out.read_bytes() == chain.read_bytes(), "a chain has one order"
    assert len(table.read_text().splitlines()) == 11 and picture.read_text().startswith("<svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain.csv", "chain.svg", "new"]


def test_reorder_as_json(capsys, chain):
    assert run("reorder", chain, "--count", "working_set", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["optimal"] is True and record["count"] == "working_set" and record["out"] is None
    assert set(record["orders"]) == {"file", "best"}
    best = record["orders"]["best"]
    assert best["peak"] == max(step["bytes"] for step in best["steps"]) == record["lower_bound"]


@pytest.mark.parametrize("count", ["fusion_paper", "patch_paper"])
def test_a_paper_s_count_beside_a_plan(capsys, tmp_path: Path, count: str) -> None:
    model = tmp_path / "mobilenet.tflite"
    arch = Arch((48, 48, 3), 8, (Group(8, 2, (3, 3), (1, 4)),))
    model.write_bytes(to_tflite(to_graph("mobilenet", blocks(arch), classes=10)))
    assert run("plan", model, "--count", count, "--ram", "30k", "--max-mac-overhead", 1.2, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    found = record["count"]
    assert found["name"] == count and len(found["left_out"]) == 3, "a skip, the mean, the classifier"
    plan, whole, least, any_work, least_work = (
        found[key] for key in ("plan", "layer_by_layer", "least_ram", "least_ram_any_work", "least_work")
    )
    assert plan["mac_overhead"] is None and plan["exact_mac_overhead"] == pytest.approx(record["mac_overhead"], abs=1e-4)
    assert plan["ram"] <= record["ram"]["arena"]
    assert whole["mac_overhead"] == 1 and whole["ram"] >= least["ram"] >= any_work["ram"]
    assert least["mac_overhead"] <= 1.2 and least_work["ram"] <= 30 * 1024
    assert run("plan", model, "--count", count, "--explain", record["layers"][-1]["name"]) == 0
    printed = capsys.readouterr().out
    assert f"{count}, for comparison" in printed and "left out of all rows but the plan's: 1 add, 1 mean" in printed
    assert run("plan", model, "--json") == 0
    assert json.loads(capsys.readouterr().out)["count"] is None


def test_what_a_paper_does_not_count_is_refused(capsys, chain: Path, tmp_path: Path) -> None:
    two = tmp_path / "edges.tflite"
    two.write_bytes(to_tflite(tiny.edges()))
    assert "--count fusion_paper: the network has no convolution" in bad(capsys, "plan", two, "--count", "fusion_paper")
    assert run("plan", chain, "--device", "stm32h743", "--count", "fusion_paper") == 0, "one memory of several is enough"
    assert "least F in" in capsys.readouterr().out


def test_the_front_as_table_json_and_picture(chain: Path, tmp_path: Path, capsys) -> None:
    picture = tmp_path / "front.svg"
    assert run("plan", chain, "--pareto", "--json", "--figure", picture) == 0
    found = json.loads(capsys.readouterr().out)
    points = found["points"]
    assert points[0]["mac_overhead"] == 1 and all(point["fits"] is None for point in points)
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")
    assert run("plan", chain, "--pareto", "--ram", points[-1]["arena"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{point['arena']:,}" in printed for point in points) and "fits in" in printed
    assert all(f"  {each['schedule']} " in printed for each in found["schedules"]) and "proved: no plan" in printed
    assert run("plan", chain, "--pareto", "--ram", points[-1]["arena"] - 1) == 1
    assert "does not fit" in capsys.readouterr().out
    assert "leave out --schedule" in bad(capsys, "plan", chain, "--pareto", "--schedule", "layer")
    assert "1.0 or more" in bad(capsys, "plan", chain, "--max-mac-overhead", "0.5")
    assert run("plan", chain, "--max-mac-overhead", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["mac_overhead"] >= 1

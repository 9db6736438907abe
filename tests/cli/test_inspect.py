"""`inspect`: layers, the peak, and unsupported ops."""

from __future__ import annotations

import json
import shlex
import struct
from dataclasses import replace

import numpy as np
import tflite
from cases import tiny
from cli.running import PROMISED, bad, lookup, run

import tinyweave as tw
from tests.passes.padded import padded_layer
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph


def test_inspect_shows_every_layer_and_the_peak(capsys, chain):
    assert run("inspect", chain) == 0
    printed = capsys.readouterr().out
    for name in ("conv_2d_0", "depthwise_conv_2d_1", "mean_2", "fully_connected_3", "softmax_4", "peak: "):
        assert name in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert "\x1b" not in printed


def test_inspect_json_has_all_keys_with_null_for_unknown_values(capsys, chain):
    assert run("inspect", chain, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    values = {key: lookup(record, key) for key in PROMISED}
    assert values["macs"] and values["macs_original"] >= values["macs"]
    assert all(value is None for key, value in values.items() if not key.startswith("macs"))
    assert next(layer["name"] for layer in record["layers"]) == "conv_2d_0"


def test_inspect_names_reorder_where_tflite_micro_needs_less(capsys, chain, tmp_path, monkeypatch):
    padded, done = tmp_path / "pads of it.tflite", tmp_path / "new.tflite"
    padded.write_bytes(to_tflite(padded_layer("conv_2d", ((0, 1), (0, 1)))))
    assert run("inspect", padded) == 0
    printed = capsys.readouterr().out
    command = next(line for line in printed.splitlines() if "tinyweave reorder" in line)
    monkeypatch.chdir(tmp_path)
    assert run(*shlex.split(command)[1:], "--json") == 0
    engine = json.loads(capsys.readouterr().out)["engine"]
    assert not engine["unchanged"] and f"TFLite Micro: {engine['before']:,} B, and at most {engine['after']:,} B" in printed
    assert run("inspect", chain) == 0
    assert "reorder" not in capsys.readouterr().out
    assert run("inspect", done, "--json") == 0
    assert json.loads(capsys.readouterr().out)["tflm"] is None, "the new file says where its tensors lie"


def other_kinds(file: bytes, **kinds: str) -> bytes:
    """Return the file with the kinds of some ops changed."""
    changed, model = bytearray(file), tflite.Model.GetRootAs(file, 0)
    for code in (model.OperatorCodes(index) for index in range(model.OperatorCodesLength())):
        for old, new in kinds.items():
            if code.BuiltinCode() == getattr(tflite.BuiltinOperator, old):
                number = getattr(tflite.BuiltinOperator, new)
                changed[code._tab.Pos + code._tab.Offset(4)] = min(number, 127)
                struct.pack_into("<i", changed, code._tab.Pos + code._tab.Offset(10), number)
    return bytes(changed)


def test_all_unsupported_ops_are_named(capsys, chain, tmp_path):
    """`inspect` shows supported layers and a table of the others; other commands print one line."""
    model = tmp_path / "odd.tflite"
    model.write_bytes(other_kinds(chain.read_bytes(), MEAN="FLOOR_DIV", SOFTMAX="FLOOR_MOD"))
    assert run("inspect", model) == 2
    printed = capsys.readouterr()
    assert printed.err == "" and max(map(len, printed.out.splitlines())) <= 100
    lines = [line.split() for line in printed.out.splitlines()]
    assert [line[:3] for line in lines if line[:1] in (["floor_div"], ["floor_mod"])] == [
        ["floor_div", "1", "floor_div_2"],
        ["floor_mod", "1", "floor_mod_4"],
    ]
    assert "2 ops cannot be compiled" in printed.out and "supported: add" not in printed.out
    assert "conv_2d_0" in printed.out and "peak: " in printed.out

    assert run("inspect", model, "--json") == 2
    record = json.loads(capsys.readouterr().out)
    assert [(entry["op"], entry["kind"], entry["tensor"]) for entry in record["unsupported"]] == [
        ("floor_div_2", "floor_div", None),
        ("floor_mod_4", "floor_mod", None),
    ]
    assert all("not supported" in entry["reason"] for entry in record["unsupported"])
    found = tw.inspect(model)
    assert [error.op.name for error in found.unsupported if error.op] == ["floor_div_2", "floor_mod_4"]
    assert repr(found).startswith("<Inspection: 2 ops not supported") and "floor_mod" in found._repr_html_()
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
            "2 ops cannot be compiled: floor_div (1), floor_mod (1); op floor_div_2" in line
            and f"'tinyweave inspect {model}' lists all" in line
        )


def test_inspect_of_a_float_network_estimates_its_int8_form(capsys, tmp_path):
    """RAM and boards are those of the network itself, quantised with other ranges."""
    model, int8 = tmp_path / "float.tflite", tmp_path / "int8.tflite"
    model.write_bytes(to_tflite(floats(tiny.residual())))
    assert run("inspect", model, "--json") == 2
    record = json.loads(capsys.readouterr().out)
    assert {entry["kind"] for entry in record["unsupported"]} == {"conv_2d", "add", "max_pool_2d", "average_pool_2d"}
    assert all("no kernel runs it on float32" in entry["reason"] for entry in record["unsupported"])
    samples = np.random.default_rng(1).normal(size=(9, *record["model"]["inputs"][0]["shape"][1:]))
    int8.write_bytes(tw.quantize(model, samples, method="minmax").model.file)
    plan = tw.plan(int8)
    assert record["int8"]["arena"] == sum(plan.arena.values()) and record["int8"]["reason"] is None
    least, most = record["int8"]["flash"]
    assert least < most and "stm32f412" in record["int8"]["boards"]
    assert run("inspect", model) == 2
    printed = capsys.readouterr().out
    for said in (
        "a float model: 4 ops on float32, for which there are no kernels; make it int8\n",
        "    tinyweave quantize float.tflite --inputs SAMPLES\nthen all of 6 ops are supported; estimated as int8",
        f"  RAM: {record['int8']['arena']:,} B (arena alone",
        f"  Flash: about {least:,} to {most:,} B\nboards that it fits: ",
    ):
        assert said in printed
    assert "cannot be compiled" not in printed and "0 of" not in printed
    assert " (float32; int8 a quarter) " in " ".join(printed.split())
    found = tw.inspect(model)
    assert found.int8 is not None and tw.plan(found.int8).arena == plan.arena and tw.inspect(int8).int8 is None
    assert "a float model: 4 ops compute on float32; make it int8" in bad(capsys, "plan", model) and record["macs"] > 0
    assert run("inspect", int8, "--json") == 0 and json.loads(capsys.readouterr().out)["int8"] is None


def test_an_unsupported_op_of_a_float_network_does_not_blame_the_others(capsys, tmp_path):
    model = tmp_path / "float.tflite"
    model.write_bytes(other_kinds(to_tflite(floats(tiny.residual())), MAX_POOL_2D="FLOOR_MOD"))
    assert run("inspect", model) == 2
    printed = capsys.readouterr().out
    assert "a float model: 3 ops on float32" in printed and "it has no int8 form" not in printed
    assert "1 op cannot be compiled as int8 either" in printed and "supported: 5 of 6 ops" in printed
    (row,) = [line.split() for line in printed.splitlines() if line.split()[:1] == ["floor_mod"]]
    assert row[1] == "1" and not [line for line in printed.splitlines() if line.split()[:1] in (["conv_2d"], ["add"])]
    line = bad(capsys, "plan", model)
    assert "it is a float model: 3 ops compute on float32, and 1 op cannot be compiled: floor_mod (1)" in line


def floats(graph: Graph) -> Graph:
    """Return the network with float32 instead of int8 tensors."""

    def real(tensor):
        data = None if tensor.data is None else tensor.data.astype(np.float32)
        return tensor if tensor.dtype != "int8" else replace(tensor, dtype="float32", quant=None, data=data)

    return replace(graph, tensors={name: real(tensor) for name, tensor in graph.tensors.items()})

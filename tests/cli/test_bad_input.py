"""Faulty input: a one-line error, exit code 2, no partly written files, no control codes from a file."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import tiny
from cli.running import bad, run, sample_files

from tinyweave import api
from tinyweave.api.sample_files import read_inputs
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op


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
        (("export", "{chain}"), "Missing option '--format' (Build system: cmake, arduino, platformio, "),
        (("plan", "{chain}", "--device", ""), "unknown device ''"),
        (("plan", "{chain}", "--device", "{folder}/none.toml"), "No such file"),
        (("plan", "{chain}", "--schedule", "magic"), "unknown schedule 'magic'"),
        (("plan", "{chain}", "--optimize", "magic"), "--optimize magic is unknown"),
        (("plan", "{chain}", "--explain", "conv_2d_00"), "no tensor 'conv_2d_00' in the plan; did you mean conv_2d_0"),
        (("plan", "{chain}", "--explain", "fc.weights"), "is a constant of 12 B"),
        (("inspect", "{chain}", "--io", "float"), "--io float"),
        (("inspect", "{folder}/none.tflite"), "No such file"),
        (("inspect", "{folder}"), "Is a directory"),
        (("inspect", "{chain}", "--shape", "image"), "--shape image is not a name and its extents; write --shape images=1,3"),
        (("inspect", "{chain}", "--shape", "image=1,-3"), "--shape image=1,-3 is not a name and its extents"),
        (("inspect", "{chain}", "--shape", "image=1,0"), "--shape image=1,0 has the extent 0"),
        (("plan", "{chain}", "--shape", "a=1", "--shape", "a=2"), "--shape gives 'a' twice"),
        (("reorder", "{chain}", "--shape", "nothing=1"), "the model has no input 'nothing'; its inputs are "),
        (("quantize", "{chain}", "--inputs", "{folder}", "--shape", "nothing=1"), "the model has no input 'nothing'"),
        (("inspect", "{folder}/empty.tflite"), "empty.tflite: not a readable"),
        (("inspect", "{folder}/noise.tflite"), "noise.tflite: not a readable"),
        (("inspect", "{folder}/cut.tflite"), "cut.tflite: "),
        (("verify", "{chain}", "--samples", "0"), "--samples"),
        (("verify", "{chain}", "--inputs", "{folder}/none.npy"), "No such file"),
        (("compile", "{chain}", "-o", "{folder}/a_file"), "is not a folder"),
        (("compile", "{chain}", "-o", "{folder}/a_file/below"), "a_file"),
        (("compile", "{chain}", "--name", "---"), "no C name can be made from '---'"),
        (("compile", "{chain}", "--name", "3a"), "the C names cannot begin with the name '3a'; give for example m_3a"),
        (("export", "{chain}", "--format", "cmake", "--name", "KWS"), "begin with the name 'KWS'; give for example kws"),
        (("deploy", "{chain}", "--name", "my net"), "begin with the name 'my net'; give for example my_net"),
        (("deploy", "{chain}", "--name", ""), "no C name can be made from ''"),
        (("devices", "toaster"), "unknown device 'toaster'"),
        (("plan", "{chain}", "--explain", "conv_2d_0", "--pareto"), "--explain needs one plan, and --pareto shows many"),
        (("plan", "{chain}", "--optimize", "balanced", "--pareto"), "--optimize needs one plan, and --pareto shows many"),
        (("plan", "{chain}", "--pareto", "-o", "{folder}/a.json"), "-o needs one plan, and --pareto shows many; leave out one"),
        (("plan", "{chain}", "--schedule", "layer", "--max-mac-overhead", "1.1"), "--schedule layer never recomputes"),
        (("compile", "{chain}", "--schedule", "unfused", "--max-mac-overhead", "2"), "--schedule unfused never recomputes"),
        (("compare", "{chain}", "--schedule", "unfused", "--max-mac-overhead", "2"), "--schedule unfused never recomputes"),
        (("profile", "{chain}", "--compare", "{folder}/none.txt"), "No such file"),
        (("reorder", "{chain}", "-o", "{folder}/a.jpg"), "the name 'a.jpg' does not end in .tflite; give another name"),
        (("reorder", "{chain}", "-o", "{folder}/a_file/a.tflite"), "cannot write"),
        (("reorder", "{chain}", "--engine", "tvm"), "--engine tvm is unknown; it is one of tflm, litert, vela"),
        (("reorder", "{chain}", "--engine", "tflm:m4"), "--engine tflm:m4 is unknown; it is one of tflm, litert, vela"),
        (
            ("reorder", "{chain}", "--engine", "tflm", "--io", "auto"),
            "--io auto is unknown for a file; it is one of model, int8",
        ),
        (("reorder", "{chain}", "--io", "int8"), "--io int8 has no effect without --engine; give an"),
        (("reorder", "{chain}", "--engine", "tflm", "--max-mac-overhead", "0.9"), "--max-mac-overhead 0.9 is below 1"),
        (("reorder", "{chain}", "--engine", "tflm", "--max-mac-overhead", "nan"), "--max-mac-overhead nan is below 1"),
        (("reorder", "{chain}", "--max-mac-overhead", "2"), "--max-mac-overhead has no effect without --engine; give an"),
        (("plan", "{chain}", "--max-mac-overhead", "1e308"), "a network cannot run with 1e+308 times its work"),
        (("plan", "{chain}", "--device", "stm32f412", "--latency-ms", "1e308"), "is too long to count its cycles"),
        (("compile", "{chain}", "--plan", "{chain}"), "not a plan: "),
        (("export", "{chain}", "--format", "cmake", "--package", ""), "'' cannot be the name of a package; give at most 48"),
        (("explore", "{folder}/none.tflite"), "tinyweave: cannot read '{folder}/none.tflite'"),
    ],
)
def test_faulty_input_is_a_one_line_error_and_exit_code_2(capsys, chain, tmp_path, arguments, message: str):
    (tmp_path / "empty.tflite").write_bytes(b"")
    (tmp_path / "noise.tflite").write_bytes(np.random.default_rng(1).bytes(5000))
    (tmp_path / "cut.tflite").write_bytes(chain.read_bytes()[: chain.stat().st_size // 2])
    (tmp_path / "a_file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    line = bad(capsys, *(str(a).format(chain=chain, folder=tmp_path) for a in arguments))
    assert message.format(folder=tmp_path) in line
    assert sorted(tmp_path.rglob("*")) == before, "nothing may be left behind"
    assert (tmp_path / "a_file").read_text() == "mine"


def test_truncated_files_are_a_one_line_error(capsys, chain, tmp_path):
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
    """Return the graph with some tensors renamed."""

    def new(old: tuple[str | None, ...]) -> tuple:
        return tuple(names.get(name, name) for name in old)

    tensors = {names.get(n, n): replace(t, name=names.get(n, n)) for n, t in graph.tensors.items()}
    ops = tuple(replace(op, inputs=new(op.inputs), outputs=new(op.outputs)) for op in graph.ops)
    return replace(graph, tensors=tensors, ops=ops, inputs=new(graph.inputs), outputs=new(graph.outputs))


def test_names_of_tensors_and_files_cannot_write_control_codes(capsys, tmp_path):
    evil = "\x1b[2Jgone\0\a\u202eback\u2066\x7f|`<b>\n# title"
    model = tmp_path / "\x1b[31mred*.tflite"
    model.write_bytes(to_tflite(renamed(tiny.chain(), {"image": evil, "conv": f"{evil}2", "scores": f"{evil}3"})))
    for words in (
        ("inspect", model),
        ("plan", model, "--explain", f"{evil}2"),
        ("plan", model),
        ("reorder", model),
        ("compile", model, "-o", tmp_path / "c", "--device", "stm32f746"),
    ):
        assert run(*words) == 0
        printed = capsys.readouterr()
        assert printed.err == "" and all(line.isprintable() for line in printed.out.splitlines()), words
    for path in (tmp_path / "c").iterdir():
        assert all(line.isprintable() for line in path.read_text(encoding="utf-8").replace("\t", " ").split("\n")), path.name


@pytest.mark.parametrize("error", [ZeroDivisionError, EOFError])  # typer takes the second for Ctrl-D
def test_an_internal_error_is_reported_as_a_bug_with_exit_code_70(capsys, chain, monkeypatch, error):
    def broken(*arguments):
        raise error("boom")

    monkeypatch.setattr("tinyweave.api.models.with_io", broken)  # called by every command that reads a model
    assert run("inspect", chain) == 70
    said = capsys.readouterr().err
    assert f"{error.__name__}: boom" in said and said.splitlines()[-1].startswith("tinyweave: this is a bug of tinyweave")


def test_inputs_are_read_from_npy_npz_and_raw_files(chain, tmp_path):
    model = api.load(chain)
    wanted = np.arange(3 * 64, dtype=np.uint8).view(np.int8).reshape(3, 8, 8, 1)
    for path in sample_files(tmp_path, wanted).values():
        found = read_inputs(path, model)
        assert len(found) == 3
        for sample, expected in zip(found, wanted, strict=True):
            assert sample[0].dtype == np.int8 and sample[0].tobytes() == expected.tobytes()
    np.save(tmp_path / "one.npy", wanted[0])
    (tmp_path / "one.npy").rename(tmp_path / "ONE.NPY")
    assert read_inputs(tmp_path / "ONE.NPY", model)[0][0].tobytes() == wanted[0].tobytes()
    assert read_inputs(None, model) == []


def test_arrays_of_several_inputs_are_matched_by_name(tmp_path):
    a, b = (tiny.activation(name, (1, 2, 2, 1)) for name in "ab")
    total = tiny.activation("sum", (1, 2, 2, 1))
    added = Op("add", "add", ("a", "b"), ("sum",), {"activation": "none"})
    (tmp_path / "two.tflite").write_bytes(
        to_tflite(Graph("two", {t.name: t for t in (a, b, total)}, (added,), ("a", "b"), ("sum",)))
    )
    model = api.load(tmp_path / "two.tflite")
    ones, twos = (np.full((3, 1, 2, 2, 1), value, np.int8) for value in (1, 2))
    for arrays in ({"b": twos, "a": ones, "y": np.arange(3)}, {"first": ones, "second": twos}):
        np.savez(tmp_path / "x.npz", **arrays)
        assert [[int(array.max()) for array in sample] for sample in read_inputs(tmp_path / "x.npz", model)] == [[1, 2]] * 3


def bomb(path: Path, size: int) -> None:
    """Write a small archive whose member claims `size` bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(1000))
        archive.filelist[0].file_size = size


def packed(path: Path, content: bytes, *, damaged: bool = False, encrypted: bool = False) -> None:
    """Write an archive of one member with changed bytes or an encryption flag."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
        if encrypted:
            archive.filelist[0].flag_bits |= 1
    if damaged:
        raw = bytearray(path.read_bytes())
        raw[60:64] = b"\xff\xff\xff\xff"
        path.write_bytes(raw)


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_faulty_input_files_are_refused(chain, tmp_path):
    model = api.load(chain)

    def broken(value: float) -> np.ndarray:
        values = np.zeros((2, 1, 8, 8, 1), np.float32)
        values[1, 0, 2, 3, 0] = value
        return values

    cases = {
        "holds 65 bytes, one sample has 64": ("a.bin", lambda p: p.write_bytes(b"x" * 65)),
        "holds 0 bytes": ("b.bin", lambda p: p.write_bytes(b"")),
        "the input is int8": ("c.npy", lambda p: np.save(p, np.zeros((3, 7), np.int8))),
        "is not a NumPy file: it does not begin as": ("d.npy", lambda p: p.write_bytes(b"not numpy")),
        r"sample 1 of '.*n.npy' holds nan at \[0, 2, 3, 0\]": ("n.npy", lambda p: np.save(p, broken(np.nan))),
        r"sample 1 of '.*o.npz' holds -inf at \[0, 2, 3, 0\]": ("o.npz", lambda p: np.savez(p, broken(-np.inf))),
        "is not a NumPy": ("e.npz", lambda p: p.write_bytes(b"PK not a zip")),
        "holds 2 arrays, the model has 1": ("f.npz", lambda p: np.savez(p, a=np.zeros(64, np.int8), b=np.zeros(64, np.int8))),
        " bytes decompressed, at most": ("h.npz", lambda p: bomb(p, 1 << 30)),
        "has more than 536,870,912 bytes": ("i.bin", lambda p: sparse(p, 6 << 30)),
        "e.npz' is not a NumPy file: it is encrypted, or compressed": ("e.npz", lambda p: packed(p, bytes(9), encrypted=True)),
        "k.npz' holds 0 arrays, the model has 1": ("k.npz", lambda p: packed(p, b"hello")),
        "is not a NumPy file: Error -3": ("l.npz", lambda p: packed(p, bytes(range(256)) * 9, damaged=True)),
        "holds no samples": ("m.npy", lambda p: np.save(p, np.zeros((0, 8, 8, 1), np.int8))),
        "g.npy' holds Python objects, which may run": (
            "g.npy",
            lambda p: np.save(p, np.array([{}], object), allow_pickle=True),
        ),
    }
    for message, (name, make) in cases.items():
        make(tmp_path / name)
        with pytest.raises(CompileError, match=message):
            read_inputs(tmp_path / name, model)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("net.pt", "is a PyTorch file of weights or of a pickled module; save the network itself: torch.export.save("),
        ("net.PTH", "is a PyTorch file of weights"),
        ("net.safetensors", "is a file of weights without their network; save the network itself"),
        ("net.h5", "is a Keras model; convert it with TensorFlow, tf.lite.TFLiteConverter.from_keras_model(net)"),
        ("net.keras", "is a Keras model"),
        ("net.pb", "is a TensorFlow model; convert its folder"),
        ("net.mlmodel", "is a Core ML model"),
        ("net.pte", "is an ExecuTorch program"),
        ("saved/saved_model.pb", "is a TensorFlow model; convert its folder with TensorFlow"),
        ("net.mlpackage/Manifest.json", "is a Core ML model"),
    ],
)
def test_a_model_of_another_format_is_named(capsys, tmp_path, name, words):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"PK")
    assert words in bad(capsys, "plan", path.parent if path.parent != tmp_path else path)

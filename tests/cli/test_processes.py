"""Commands in a separate process: exit codes, a closed pipe, a terminal without UTF-8, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from cases import tiny
from cli.running import run

from tinyweave.exporters.tflite import to_tflite


def command(*arguments: object, **options) -> subprocess.Popen:
    words = [sys.executable, "-m", "tinyweave", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_exit_codes_of_a_process(chain, tmp_path):
    with command("inspect", tmp_path / "none.tflite") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    with command("plan", chain, "--ram", "80", "--json") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "") and json.loads(out)["fits"] is False


@pytest.mark.parametrize(("ram", "code", "options"), [("80", 1, ()), ("80", 1, ("--json",)), ("64k", 0, ()), ("x", 2, ())])
def test_a_closed_output_pipe_leaves_the_exit_code(chain, ram, code, options):
    """As in `tinyweave plan ... | head -2`, in which `head` ends before the command; also with `2>&1`."""
    for closed in ({"stdout"}, {"stdout", "stderr"}):
        with command("plan", chain, "--ram", ram, "--all", *options) as process:
            for stream in closed:
                getattr(process, stream).close()
            err = "" if "stderr" in closed else process.stderr.read()
            process.wait(timeout=60)
        assert process.returncode == code
        assert err.count("\n") == (code == 2 and "stderr" not in closed), err


def test_output_without_utf_8_is_plain_ascii(tmp_path):
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
    """Return the pipe's writing end after the process has opened the reading end."""
    while process.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
    raise AssertionError(process.stderr.read())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_ends_with_code_130_and_leaves_no_files(tmp_path):
    os.mkfifo(tmp_path / "slow.tflite")
    # a child inherits an ignored signal, for example from a background job of a shell
    answers = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with command("compile", tmp_path / "slow.tflite", "-o", tmp_path / "out", **answers) as process:
        writer = open_writer(tmp_path / "slow.tflite", process)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        os.close(writer)
    assert (process.returncode, out, err) == (130, "", "tinyweave: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["slow.tflite"]


def test_an_interrupted_search_says_that_the_same_command_continues(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch", reason="needs torch")
    # not task_of of tinynas.prepare: if nothing has imported verbs before, verbs would keep the mock after this test
    monkeypatch.setattr("tinynas.verbs.task_within", Mock(side_effect=KeyboardInterrupt))
    assert run("search", "--task", "sensors", "--data", tmp_path, "--device", "stm32f412", "-o", "found") == 130
    assert capsys.readouterr().err == "tinyweave: the same command continues the run in 'found'\ntinyweave: interrupted\n"


def test_signals_are_handled_before_anything_slow_is_imported():
    """Until then Ctrl-C prints a traceback."""
    program = (
        "import sys, signal; before = set(sys.modules); import tinyweave.__main__; print(*sorted(set(sys.modules) - before))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert set(printed.split()) <= {"__future__", "gc", "tinyweave", "tinyweave.__main__", "tinyweave.lazy"}

"""`import tinyweave as tw`: each function gives the results of its command, and the pages of the guide are correct."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cached_property, partial
from inspect import signature
from io import StringIO
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from cases import tiny

import tinyweave as tw
from tinynas import searching
from tinyweave import api
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.planning import to_json
from tinyweave.support import toolchain
from tinyweave.support.manifest import MANIFEST

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "keywords" / "digits.tflite"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture(scope="module")
def model() -> tw.Model:
    return tw.load(DIGITS)


def notebook_output(code: str, names: dict[str, Any]) -> str:
    """Run code like a notebook: return its output, then the last expression."""
    *first, last = ast.parse(code).body
    with redirect_stdout(StringIO()) as out:
        exec(compile(ast.Module(first, []), "page", "exec"), names)
        if isinstance(last, ast.Expr):
            value = names["_"] = eval(compile(ast.Expression(last.value), "page", "eval"), names)
            if value is not None:
                print(repr(value))
        else:
            exec(compile(ast.Module([last], []), "page", "exec"), names)
    return out.getvalue()


def run_page(page: str) -> int:
    """Run the blocks of a page of the guide, compare their outputs, and return their number."""
    names: dict[str, Any] = {}
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    for code, text in blocks:
        assert notebook_output(code, names) == text, code
    return len(blocks)


def test_the_blocks_of_the_lesson_give_the_documented_output() -> None:
    text = (ROOT / "docs" / "LESSON.md").read_text()
    assert run_page("LESSON.md") == text.count("```python\n")
    assert re.findall(r"^\*\*(\d)\. .*\?\*\*", text, re.MULTILINE) == list("123456789")
    table, figures = text.partition("## 9. The cheat sheet")[2], ast.literal_eval(BLOCK.findall(text)[-1][1])
    assert len(figures) == 5 and all(f" {figure}" in table.partition("```")[0] for figure in figures)


@pytest.mark.emulator
def test_the_block_of_the_search_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    monkeypatch.setattr(searching, "machine_factor", lambda _: 1000.0)  # the shortest search: there is time for nothing
    monkeypatch.chdir(tmp_path)
    assert run_page("SEARCH.md") == 1
    assert (tmp_path / "found" / "firmware" / "network.c").is_file()


def test_all_public_names_exist_and_are_documented() -> None:
    assert sorted(tw.__all__) == list(tw.__all__) and dir(tw) == sorted([*tw.__all__, "__version__"])
    for name in tw.__all__:
        offered = getattr(tw, name)
        parts = {part: value for part, value in vars(offered).items() if not part.startswith("_") and hasattr(value, "__doc__")}
        methods = {part: value for part, value in parts.items() if isinstance(value, (property, FunctionType, cached_property))}
        assert offered.__doc__ and all(value.__doc__ for value in methods.values()), name
    with pytest.raises(AttributeError, match="tinyweave has no 'plann'"):
        tw.plann  # noqa: B018


def test_devices_are_available_after_import() -> None:
    code = "import tinyweave as tw; assert tw.devices.find('stm32l4r5') in tw.devices.all_devices()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tw_plan_gives_the_plan_of_the_command(model: tw.Model) -> None:
    device = tw.devices.find("stm32l4r5")
    limits = api.device_limits(device)
    request = api.Request(limits=limits, core=device.core)
    for options, asked in (
        ({}, request),
        ({"optimize": "size"}, replace(request, objective="size")),
        ({"max_mac_overhead": 1.2, "stream_inputs": True}, replace(request, max_mac_overhead=1.2, stream_inputs=True)),
    ):
        wanted = to_json(api.make_plan(model, asked))
        assert to_json(tw.plan(model, device, **options)) == wanted
        assert to_json(tw.plan(DIGITS, "stm32l4r5", tw.PlanOptions(**options))) == wanted
    assert sum(tw.plan(model, "nrf52840", optimize="speed", ram="7k").arena.values()) <= 7 * 1024
    fewest = [sum(plan.arena.values()) for plan in tw.pareto(model, "stm32l4r5")]
    assert (
        fewest
        == sorted(fewest, reverse=True)
        == [sum(plan.arena.values()) for plan in api.front(model, api.Request(limits=limits, core=api.DEFAULT_CORE))]
    )
    assert sum(tw.plan(model, device).arena.values()) in fewest
    with pytest.raises(tw.CompileError, match="optimize picks one plan"):
        tw.pareto(model, optimize="balanced")


def test_tw_compile_returns_the_written_files_and_is_reproducible(model: tw.Model, tmp_path: Path) -> None:
    plan = tw.plan(model, "nrf52840")
    written = tw.compile(model, "nrf52840", out=tmp_path / "a").files
    assert all(path.is_file() for path in written) and tmp_path / "a" / "digits.c" in written
    again = tw.compile(model, "nrf52840", out=tmp_path / "b", planned=plan).files
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]


def test_a_plan_of_another_model_or_core_is_refused(model: tw.Model, tmp_path: Path) -> None:
    """Otherwise its C would be that of the other network."""
    graph = tiny.chain()
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(graph))
    other = tw.plan(path)
    weights = {
        name: replace(t, data=t.data ^ 1) for name, t in graph.tensors.items() if t.data is not None and t.dtype == "int8"
    }
    (tmp_path / "trained.tflite").write_bytes(to_tflite(replace(graph, tensors=graph.tensors | weights)))
    for run in (tw.verify, tw.profile, partial(tw.compile, out=tmp_path / "c")):
        for mine in (model, tmp_path / "trained.tflite"):
            with pytest.raises(tw.CompileError, match="made for another graph"):
                run(mine, planned=other)
        with pytest.raises(tw.CompileError, match="kernels that a cortex-m0plus cannot run"):
            run(path, device="rp2040", planned=other)
    assert not (tmp_path / "c").exists() and tw.verify(path, planned=other).ok, "read anew it is the same model"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda model: tw.plan(model, schedul="best"), "there is no option schedul; options are schedule"),
        (lambda model: tw.plan(model, ram="64q"), "64q"),
        (lambda model: tw.plan(model, "stm32f999"), "unknown device"),
        (lambda model: tw.plan(model, optimize="fast"), "fast"),
        (lambda model: tw.load("none.tflite"), "none.tflite"),
        (lambda model: tw.verify(model, inputs=[np.zeros((2, 2), np.int8)]), r"\(2, 2\)|\[2, 2\]|elements|values"),
        (
            lambda model: tw.verify(model, inputs=[[np.zeros((1, 49, 32, 1), np.int8)] * 2]),
            "a sample has 2 arrays, the model 1",
        ),
        (lambda model: tw.verify(model, samples=0), "0 samples"),
        (lambda model: tw.verify(model, seed=-1), "the seed -1"),
        (lambda model: tw.profile(model, sample=np.zeros((1, 49, 32, 1), np.int16)), r"needs int8\[1, 49, 32, 1\]"),
        (lambda model: tw.compare(model, sample=np.zeros(1, np.int8)), r"needs int8\[1, 49, 32, 1\]"),
        (lambda model: tw.compare(model, ram="5k"), "ram has no effect"),
        (lambda model: tw.plan(model, ram=-1), "'-1' is not a size"),
        (lambda model: tw.plan(model, flash=1.5), "flash is of the type float; give int or str or None"),
        (lambda model: tw.plan(model, "nrf52840", latency_ms=1e308), "too long to count its cycles"),
        (lambda model: tw.plan(model, max_mac_overhead=1e308), "cannot run with 1e\\+308 times its work"),
        (lambda model: tw.export([], out="folder", format="cmake"), "there are no models"),
    ],
)
def test_faulty_calls_are_refused_in_one_line(model: tw.Model, call: Any, said: str) -> None:
    with pytest.raises(tw.CompileError, match=said) as error:
        call(model)
    assert "\n" not in str(error.value)


WRITING = {
    "compile": tw.compile,
    "deploy": tw.deploy,
    "export": partial(tw.export, format="cmake"),
    "search": lambda model, **named: tw.search("photos", **named),
}


@pytest.mark.parametrize("verb", ["plan", "pareto", "verify", "profile", *WRITING])
def test_the_device_is_the_second_argument_and_the_folder_is_a_keyword(verb: str) -> None:
    _, second, third, *others = signature(getattr(tw, verb)).parameters.values()
    assert (second.name, third.name) == ("device", "options")
    assert all(other.kind in (other.KEYWORD_ONLY, other.VAR_KEYWORD) for other in others)
    assert (verb in WRITING) == ("out" in [other.name for other in others])


@pytest.mark.parametrize("verb", WRITING)
def test_a_device_name_as_folder_is_refused(
    model: tw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("nrf52840", "STM32F412", "cortex-m4"):
        for folder in (name, Path(name)):
            with pytest.raises(tw.CompileError, match=f"the folder '{name}' is a device's name; give it as the device"):
                WRITING[verb](model, out=folder)
    with pytest.raises(tw.CompileError, match="unknown device 'nrf52841'"):
        WRITING[verb](model, device="nrf52841", out="out")
    assert not list(tmp_path.iterdir())


def test_an_explicit_path_with_a_device_name_is_written(model: tw.Model, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Path("out/nrf52840/digits.c") in tw.compile(model, out="out/nrf52840").files
    (tmp_path / "rp2040").mkdir()
    assert Path("rp2040/digits.c") in tw.compile(model, out="rp2040").files


def test_the_repr_of_results_is_one_line(model: tw.Model) -> None:
    plan = tw.plan(model)
    for value in (model, plan, model.graph, tw.reorder(model), *tw.pareto(model)):
        assert len(repr(value)) < 120 and "\n" not in repr(value) and repr(value).startswith("<")


def test_a_notebook_shows_the_buffers_of_a_plan(model: tw.Model) -> None:
    plan = tw.plan(model)
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", plan._repr_html_())[1:]]
    starts = [plan.offsets[name] for *_, name in rows]
    assert starts == sorted(starts) and len(rows) == len(plan.buffers)
    for buffer in plan.buffers:
        at = plan.offsets[buffer.name]
        places = [f"{size:,}" for size in (at, at + buffer.bytes, buffer.bytes)]
        assert ["sram", *places, f"{buffer.start + 1} to {buffer.end}", buffer.name] in rows
    named = replace(plan, buffers=(replace(plan.buffers[0], memory="<b>"),))
    assert "<td>&lt;b&gt;</td>" in named._repr_html_()


@pytest.mark.emulator
def test_a_notebook_shows_a_deployment_against_its_limits(model: tw.Model, tmp_path: Path) -> None:
    done = tw.deploy(model, "nrf52840", out=tmp_path / "c", samples=1)
    measured, (ms, shown) = done.profile, (done.profile.latency_ms(done.device), done._repr_html_())
    assert measured.cycles is not None and shown.endswith(measured._repr_html_())
    for cell in ("fits", f"{measured.ram:,} B of 262,144 B", f"{measured.flash:,} B of 1,048,576 B", f"{ms:,.1f} ms"):
        assert f"<td>{cell}</td>" in shown
    for count in (measured.cycles.likely, measured.stack, *measured.arena.values(), measured.weights, measured.code):
        assert f"<td>{count:,}</td>" in measured._repr_html_()


@pytest.mark.emulator
@pytest.mark.parametrize("case", ["fits", "plan too large", "code too large"])
def test_tw_deploy_returns_what_the_command_shows(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, advice and files are the same; only comments with the command are missing in the C."""
    path, folder = tmp_path / "chain.tflite", tmp_path / "c"
    path.write_bytes(to_tflite(tiny.chain()))
    constants = api.estimate_flash(tw.plan(path, "stm32f412", optimize="size"), tw.devices.find("stm32f412")).constants
    flash = {"fits": None, "plan too large": constants - 1, "code too large": constants}[case]
    words = [] if flash is None else ["--flash", str(flash)]
    words = ["--device", "stm32f412", *words, "--optimize", "size", "--samples", "1", "-o", str(folder), "--json"]
    code = main(["deploy", str(path), *words])
    wanted = json.loads(capsys.readouterr().out)
    names = {each.name for each in folder.iterdir()} if folder.is_dir() else set()
    if names:
        folder.rename(tmp_path / "command")
    done = tw.deploy(path, "stm32f412", out=folder, samples=1, optimize="size", flash=flash)
    found = json.loads(json.dumps(done.record))
    if names:
        assert found.pop("digests").keys() == wanted.pop("digests").keys()
    assert found == wanted and done.fits is (code == 0) is (case == "fits") is (found["advice"] is None)
    assert {each.name for each in done.files} == names - {MANIFEST} and all(each.is_file() for each in done.files)
    assert (done.profile is None) is (done.written is None) is (not folder.exists()) is (case == "plan too large")
    assert ("nothing was built" in repr(done)) is ("nothing was built" in done._repr_html_()) is (done.profile is None)
    assert ("does not fit stm32f412" in tw.report(done, file=tmp_path / "page.html").read_text()) is not done.fits


def test_using_one_name_loads_no_other_package() -> None:
    code = "import sys, tinyweave as tw\ntw.PlanOptions(ram=1)\nprint({'numpy', 'tinyweave.planning'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_an_inspected_file_shows_its_layers() -> None:
    found = tw.inspect(DIGITS)
    assert found.unsupported == () and repr(found).startswith("<Inspection: 0 ops not supported, <Model 'digits'")
    assert found._repr_html_().count("<tr>") == 1 + len(found.model.graph.ops) == found.model._repr_html_().count("<tr>")


def test_the_cache_is_shown_and_emptied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "cache_folder", lambda: tmp_path)
    (tmp_path / "built").write_bytes(bytes(1000))
    assert tw.cache()[:2] == (tmp_path, 1000) and tw.cache().limit > 1 << 20
    assert tw.cache(clear=True).bytes == 0 and list(tmp_path.iterdir()) == []

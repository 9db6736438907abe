"""`--weights file`, and `weights`, which makes the file of a network that was trained again."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import tiny
from cli.running import bad, run
from codegen.retrained import retrained
from pages import PAGES, blocks, commands

import tinyweave as tw
from tinyweave import api
from tinyweave.api.results import excess
from tinyweave.devices import find
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph
from tinyweave.kernels.layer_cycles import COPIED_WORD
from tinyweave.planning import fetches
from tinyweave.report.columns import rounded

MOBILENET = "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224.tflite"  # 3.5 million weights
DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with C of three models, with a prefix, as `compile --weights file` writes it."""
    folder = tmp_path_factory.mktemp("firmware")
    files = [saved(graph(), folder / f"{graph.__name__}.tflite") for graph in (tiny.chain, tiny.edges)]
    words = ["--device", "stm32f412", "--weights", "file", "--kernel-prefix", "mine"]
    assert run("compile", DIGITS, *files, *words, "-o", folder / "c") == 0
    return folder / "c"


def saved(graph: Graph, path: Path) -> Path:
    path.write_bytes(to_tflite(graph))
    return path


def with_quant(graph: Graph, name: str, **changes: object) -> Graph:
    quant = replace(graph.tensors[name].quant, **changes)
    return replace(graph, tensors=graph.tensors | {name: replace(graph.tensors[name], quant=quant)})


@pytest.mark.emulator
def test_deploy_proves_the_c_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None) -> None:
    words = [DIGITS, "--device", "stm32f412", "--samples", 2, "--json"]
    records = []
    for place in ("flash", "file"):
        assert run("deploy", *words, "--weights", place, "-o", tmp_path / place) == 0
        records.append(json.loads(capsys.readouterr().out))
    before, after = records
    file = (tmp_path / "file/digits.weights").read_bytes()
    assert after["verify"]["ok"] and after["flash"]["weights"] == len(file) and after["digests"]["digits.weights"]
    assert after["ram"]["arena"] == before["ram"]["arena"] and after["ram"]["static"] == 0
    assert before["instructions"] < after["instructions"] < 1.01 * before["instructions"]
    assert not (tmp_path / "file/digits_weights.h").exists() and (tmp_path / "file/digits_plan.json").exists()
    assert run("deploy", *words, "-o", tmp_path / "file") == 0
    assert not (tmp_path / "file/digits.weights").exists(), "files of an earlier run are removed"


@pytest.mark.emulator
def test_deploy_counts_the_reads_of_the_callback(tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None) -> None:
    words = [DIGITS, "--device", "stm32f412", "--weights", "fetch", "--samples", 2]
    assert run("deploy", *words, "-o", tmp_path / "c", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    file = (tmp_path / "c/digits.weights").read_bytes()
    assert record["verify"]["ok"] and record["flash"]["weights"] == record["flash"]["constants"] == 0
    reads, layers = record["file_reads"], len(record["layers"])
    assert record["plan"]["file_reads"] == reads and 0.9 * len(file) < reads["bytes"] < len(file) and reads["reads"] <= layers
    assert reads["ms"] is None and reads["ms_range"] == [round(reads["bytes"] / speed, 3) for speed in (40e3, 1e3)]
    line = f"{reads['bytes']:,} B in {reads['reads']:,} reads per inference, "
    after = (
        f"; the time is without these reads: {' to '.join(map(rounded, reads['ms_range']))} ms more at 40 to 1 MB per second"
    )
    for verb, how in (("plan", "as planned"), ("profile", "counted")):
        assert run(verb, *words[:5]) == 0
        assert line + how + after in " ".join(capsys.readouterr().out.split())
    new = saved(retrained(tw.load(DIGITS).original, 3), tmp_path / "new.tflite")
    made = ["--plan", tmp_path / "c/digits_plan.json", "--samples", 2, "-o", tmp_path / "new.weights"]
    assert run("weights", new, *made) == 0 and len((tmp_path / "new.weights").read_bytes()) == len(file)
    capsys.readouterr()
    assert run("export", *words[:5], "--format", "cmake", "-o", tmp_path / "project") == 0
    assert (tmp_path / "project/src/digits.weights").stat().st_size == len(file)


def test_reads_from_flash_beside_the_chip_take_the_time_of_its_bus(capsys: pytest.CaptureFixture[str]) -> None:
    """The callback is assumed to copy from there; the range goes from the fastest to the slowest case of the bus."""
    assert run("plan", DIGITS, "--device", "rp2350", "--weights", "fetch", "--json") == 0
    reads = json.loads(capsys.readouterr().out)["plan"]["file_reads"]
    board = find("rp2350")
    (cache,) = board.caches
    assert board.bus and board.clock_hz
    lines = board.bus.cycles(cache.line, board.clock_hz, follows=True)
    cycles = [reads["bytes"] / cache.line * wait + reads["bytes"] / 4 * COPIED_WORD for wait in lines]
    expected = [count / board.clock_hz * 1e3 for count in cycles]
    assert [reads["ms_range"][0], reads["ms"], reads["ms_range"][1]] == pytest.approx(expected, abs=1e-3)
    assert run("plan", DIGITS, "--device", "rp2350", "--weights", "fetch") == 0
    fewest, likely, most = map(rounded, expected)
    said = f"the time is without these reads: {likely} ms ({fewest} to {most}) more if the callback copies from Flash"
    hidden = " to ".join(map(rounded, reads["hidden_ms_range"]))
    said += f"; with callbacks start and wait, about {hidden} ms of them pass while layers compute"
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("objective", ["balanced", "size"])
def test_the_time_limit_holds_for_layers_and_reads(objective: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The callback reads from Flash beside the chip. A plan that leaves the reads their time is looked for first."""
    words = ["plan", DIGITS, "--device", "rp2350", "--weights", "fetch", "--optimize", objective, "--json"]

    def planned(*more: object) -> tuple[dict, float]:
        run(*words, *more)
        record = json.loads(capsys.readouterr().out)
        return record, record["plan"]["latency_ms_at_least"] + record["plan"]["file_reads"]["ms"]

    free, fast = planned()[1], planned("--optimize", "speed")[1]
    within, took = planned("--latency-ms", (free + fast) / 2)
    assert within["fits"] and within["excess"]["latency_ms"] == 0 and took <= (free + fast) / 2 + 1e-3
    assert within["plan"]["objective"] == objective or free == pytest.approx(fast)
    limit = fast - within["plan"]["file_reads"]["ms"] / 2
    above, took = planned("--latency-ms", limit)
    assert above["fits"] is False and above["excess"]["latency_ms"] == pytest.approx(took - limit, abs=3e-3)
    assert run(*words[:-1], "--latency-ms", limit) == 1
    said, bytes_ = " ".join(capsys.readouterr().out.split()), above["plan"]["file_reads"]["bytes"]
    rate = bytes_ / (limit - above["plan"]["latency_ms_at_least"]) / 1e3
    assert f"within the limit if the callback reads at least {math.ceil(rate * 10) / 10:,} MB per second" in said
    proposed = {each for each in re.findall(r"--latency-ms ([\d.]+)", said) if float(each) > limit}
    assert all(planned("--optimize", "speed", "--latency-ms", each)[0]["fits"] for each in proposed)


def test_the_time_limit_is_open_if_the_memory_of_the_file_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", DIGITS, "--device", "stm32f412", "--weights", "fetch", "--optimize", "speed", "--json"]
    run(*words)
    plan = json.loads(capsys.readouterr().out)["plan"]
    fast, slow = (plan["latency_ms_at_least"] + ms for ms in plan["file_reads"]["ms_range"])
    verdicts = {}
    for limit in (fast * 0.98, (fast + slow) / 2, slow * 1.01):
        run(*words, "--latency-ms", limit)
        record = json.loads(capsys.readouterr().out)
        verdicts[limit] = record["fits"], record["excess"]["latency_ms"] is None
    assert list(verdicts.values()) == [(False, False), (None, True), (True, False)]
    run(*words[:-1], "--latency-ms", (fast + slow) / 2)
    said = " ".join(capsys.readouterr().out.split())
    assert "may not fit stm32f412" in said and "within the limit if the callback reads at least" in said


@pytest.mark.emulator
def test_a_run_and_its_reads_are_within_the_time_limit(emulator: None) -> None:
    made = tw.plan(DIGITS, weights="fetch", device="rp2350")
    profile, board = tw.profile(DIGITS, weights="fetch", device="rp2350"), find("rp2350")
    reads = api.file_reads(made, board, {}, [count for _, count in profile.reads])
    ms = profile.latency_ms(board)
    assert reads and reads.ms and ms and profile.cycles
    for limit, over in ((ms + reads.ms + 1, 0), (ms + 1, reads.ms - 1)):
        limits = api.limits_of(board, latency_ms=limit)
        assert excess(profile, limits)["latency_ms"] == pytest.approx(over, abs=0.01)
        assert api.latency_excess(made, board, limits, profile.cycles.likely) == pytest.approx(over, abs=0.01)


def test_speed_begins_all_reads_early_if_ram_is_left_for_the_stack() -> None:
    made = tw.plan(DIGITS, weights="fetch", device="rp2350", optimize="speed")
    steps, arena = [step for step in fetches(made) if step >= 0], sum(made.arena.values())
    assert [read.start for step in steps for read in fetches(made)[step]] == [0, *steps[:-1]]
    less = tw.plan(DIGITS, weights="fetch", device="rp2350", optimize="speed", ram=arena)
    assert less.variants == made.variants and sum(less.arena.values()) < arena


@pytest.mark.parametrize("device", ["rp2350", "stm32f412"])
def test_the_time_of_reads_while_layers_compute(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A read hides behind the layers that run until it is needed, and no layer hides two reads; `speed` hides more."""
    hidden = []
    for objective in ("balanced", "speed"):
        run("plan", DIGITS, "--device", device, "--weights", "fetch", "--optimize", objective, "--json")
        record = json.loads(capsys.readouterr().out)
        made, hz = tw.plan(DIGITS, weights="fetch", device=device, optimize=objective), find(device).clock_hz
        assert hz
        layers = {layer["name"]: layer["cycles_by_shape"] or 0 for layer in record["layers"]}
        steps = [sum(layers[made.graph.ops[index].name] for index in stage.ops) / hz * 1e3 for stage in made.stages]
        reads, busy = record["plan"]["file_reads"], set[int]()
        total = [0.0, 0.0]
        for step, (read, *_) in fetches(made).items():
            ms = sum(steps[read.start : step]) if 0 <= read.start < step else 0
            assert busy.isdisjoint(range(read.start, step))
            busy |= {*range(read.start, step)}
            if device == "stm32f412":
                total = [sum(pair) for pair in zip(total, (min(ms, read.bytes / speed) for speed in (40e3, 1e3)), strict=True)]
        assert reads["hidden_ms_range"] == pytest.approx(total, abs=2e-3) or device == "rp2350"
        assert 0 < reads["hidden_ms_range"][0] <= reads["hidden_ms_range"][1] < reads["ms_range"][1]
        hidden.append(reads["hidden_ms_range"])
    assert hidden[0] < hidden[1]
    run("plan", DIGITS, "--weights", "fetch", "--json")
    assert json.loads(capsys.readouterr().out)["plan"]["file_reads"]["hidden_ms_range"] is None


@pytest.mark.emulator
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("file", "options"),
    [
        pytest.param(MOBILENET, ["--ram", "512k", "--flash", "1m"], marks=pytest.mark.sweep),
        ("mlcommons__tiny__ad01_int8.tflite", ["--ram", "26k", "--flash", "16k"]),
        ("mlcommons__tiny__kws_ref_model.tflite", ["--ram", "20k", "--flash", "32k", "--schedule", "unfused"]),
    ],
)
def test_a_network_runs_in_less_memory_than_its_constants(
    file: str, options: list[str], *, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None
) -> None:
    words = ["--device", "stm32f412", "--weights", "fetch", "--samples", 1, *options]
    assert run("deploy", shared / "models" / file, *words, "-o", tmp_path, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    (plan,) = (json.loads(path.read_text()) for path in tmp_path.glob("*_plan.json"))
    (weights,) = (path.stat().st_size for path in tmp_path.glob("*.weights"))
    assert record["verify"]["ok"] and record["fits"] and record["file_reads"] == record["plan"]["file_reads"]
    assert plan["pieces"] or "kws" in file
    assert record["ram"]["total"] + record["flash"]["total"] < weights


def test_flash_holds_no_constants_that_a_callback_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """A network larger than the Flash fits, and its plan takes the fastest kernels."""
    fast, small = (tw.plan(DIGITS, weights="fetch", device="stm32f412", flash=flash) for flash in ("1m", "20k"))
    assert fast.variants == small.variants and len(tw.load(DIGITS).file) > 20 << 10
    found = []
    for where in ("flash", "fetch"):
        run("plan", DIGITS, "--device", "stm32f412", "--flash", "24k", "--weights", where, "--json")
        found.append(json.loads(capsys.readouterr().out)["fits"])
    assert found == [False, None], "without a build the code's size is a range"


def test_a_damaged_file_does_not_pass_the_proof(tmp_path: Path) -> None:
    from tinyweave.simulate import compare
    from tinyweave.simulate.run import Fault

    model, plan = tw.load(DIGITS), tw.plan(DIGITS, weights="file")
    tw.compile(model, planned=plan, out=tmp_path)
    cases, file = compare.samples(model.graph, 1, 0), tmp_path / "digits.weights"
    assert compare.verify(plan, tmp_path, "digits", cases, cores=[]).ok
    file.write_bytes(file.read_bytes()[:-1] + b"\x55")
    with pytest.raises(Fault, match="returned the error -5"):
        compare.verify(plan, tmp_path, "digits", cases, cores=[])


@pytest.mark.emulator
def test_a_network_trained_again_needs_no_other_c(
    firmware: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None
) -> None:
    """The C is that of three models in one folder, with a prefix, and stays as it is; `edges` has float inputs and outputs."""
    before = {path.name: path.read_bytes() for path in firmware.iterdir()}
    for name, graph in (("digits", tw.load(DIGITS).original), ("chain", tiny.chain()), ("edges", tiny.edges())):
        again = retrained(graph, 3)
        ends = {"x", "image", "q", "y"}.intersection(graph.tensors)
        assert all(again.tensors[end].quant != graph.tensors[end].quant for end in ends if graph.tensors[end].quant)
        new = saved(again, tmp_path / "new.tflite")
        words = ["--plan", firmware / f"{name}_plan.json", "--device", "stm32f412", "--samples", 2]
        assert run("weights", new, *words, "-o", tmp_path / f"{name}.weights") == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert "every output byte equals the reference" in printed and f"wrote {tmp_path / name}.weights" in printed
        file = (tmp_path / f"{name}.weights").read_bytes()
        assert len(file) == len(before[f"{name}.weights"]) and file[:12] == before[f"{name}.weights"][:12]
        assert file[16:32] == before[f"{name}.weights"][16:32] and file[64:] != before[f"{name}.weights"][64:]
        same = saved(graph, tmp_path / "same.tflite")
        assert tw.weights(same, firmware / f"{name}_plan.json", samples=1).file == before[f"{name}.weights"]
        assert run("weights", new, *words, "-o", tmp_path / "again.weights", "--json") == 0
        record = json.loads(capsys.readouterr().out)
        assert record["verify"]["ok"] and record["files"] == [str(tmp_path / "again.weights")]
        assert (tmp_path / "again.weights").read_bytes() == file
    assert before == {path.name: path.read_bytes() for path in firmware.iterdir()}


@pytest.mark.emulator
def test_a_channel_that_is_constant_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None) -> None:
    """The network that was trained again may need it. The plan may be from a file."""
    graph = tiny.chain()
    filters, bias = (graph.tensors[name] for name in ("conv.weights", "conv.bias"))
    dead = {t.name: replace(t, data=np.array(t.data)) for t in (filters, bias)}
    for tensor in dead.values():
        tensor.data[1] = 0
    path = saved(replace(graph, tensors=graph.tensors | dead), tmp_path / "chain.tflite")
    assert tw.load(path).graph.tensors["conv"].shape[3] == 3, "without a file the channel is removed"
    assert run("plan", path, "--weights", "file", "-o", tmp_path / "plan.json") == 0
    assert run("compile", path, "--plan", tmp_path / "plan.json", "-o", tmp_path / "c") == 0
    new = saved(graph, tmp_path / "new.tflite")
    words = ["--plan", tmp_path / "c/chain_plan.json", "--samples", 1, "-o", tmp_path / "new.weights"]
    assert run("weights", new, *words) == 0 and (tmp_path / "new.weights").exists()
    for verb in ("verify", "profile"):
        assert run(verb, path, "--weights", "file") == 0
    capsys.readouterr()


@pytest.mark.emulator
def test_the_commands_of_weights_md(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulator: None) -> None:
    page = next(page for page in PAGES if page.name == "WEIGHTS.md")
    by_us = [block for block in blocks(page) if block.mark == ("run by", "tests/cli/test_weights.py")]
    monkeypatch.chdir(tmp_path)
    saved(retrained(tw.load(DIGITS).original, 5), Path("new.tflite"))
    assert run("compile", DIGITS, "--name", "kws", "--weights", "file", "-o", "firmware/kws") == 0
    (words,) = (command.split() for block in by_us for command in commands(block))
    assert run(*words[1:]) == 0 and Path(words[-1]).stat().st_size == Path("firmware/kws/kws.weights").stat().st_size


def test_a_network_that_needs_other_c_is_refused(firmware: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the first difference."""
    chain = tiny.chain()
    tensor = replace(chain.tensors["dw"], name="x")
    renamed = tuple(
        replace(op, inputs=tuple(map(_renamed, op.inputs)), outputs=tuple(map(_renamed, op.outputs))) for op in chain.ops
    )
    wrong = {
        "the plan was made for another graph": replace(chain, ops=chain.ops[:-1], outputs=("logits",)),
        "the place of 'dw', which is no activation": replace(chain, ops=renamed, tensors={**chain.tensors, "x": tensor}),
    }
    for said, graph in wrong.items():
        other = saved(graph, tmp_path / "new.tflite")
        assert said in bad(capsys, "weights", other, "--plan", firmware / "chain_plan.json", "-o", tmp_path / "new.weights")
    shutil.copytree(firmware, tmp_path / "edited")
    text = (tmp_path / "edited/chain.c").read_text()
    (tmp_path / "edited/chain.c").write_text(text.replace(".kernel = {3, 3}", ".kernel = {3, 4}", 1))
    same = saved(chain, tmp_path / "new.tflite")
    said = bad(capsys, "weights", same, "--plan", tmp_path / "edited/chain_plan.json", "-o", tmp_path / "new.weights")
    assert "chain.c' has '.kernel = {3, 4}" in said and "but new.tflite needs '.kernel = {3, 3}" in said
    assert not (tmp_path / "new.weights").exists()


def _renamed(name: str | None) -> str | None:
    return "x" if name == "dw" else name


def test_kernels_that_cannot_run_the_new_numbers_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernels for a Cortex-M4 round right only if the factors of the rescales are small."""
    assert run("compile", saved(tiny.chain(), tmp_path / "chain.tflite"), "--weights", "file", "-o", tmp_path) == 0
    capsys.readouterr()
    graph = with_quant(tiny.chain(), "conv.weights", scale=(40.0,) * 4)
    said = bad(
        capsys, "weights", saved(graph, tmp_path / "x.tflite"), "--plan", tmp_path / "chain_plan.json", "-o", tmp_path / "x"
    )
    assert "the plan does not suit this network: the kernel 'tw_conv_2d_s8" in said and "cannot run conv_2d_0" in said


@pytest.mark.emulator
def test_a_row_source_fixes_the_scale_of_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None) -> None:
    words = ["--weights", "file", "--stream-inputs", "--source", "yuyv:16x16", "-o", tmp_path / "c"]
    assert run("compile", saved(tiny.chain(), tmp_path / "chain.tflite"), *words) == 0
    capsys.readouterr()
    how = ["--plan", tmp_path / "c/chain_plan.json", "--samples", 1, "-o", tmp_path / "new.weights"]
    other = saved(with_quant(tiny.chain(), "image", zero_point=(-120,)), tmp_path / "new.tflite")
    assert "'chain_source.c' is for inputs of another scale" in bad(capsys, "weights", other, *how)
    assert not (tmp_path / "new.weights").exists()
    inside = saved(with_quant(tiny.chain(), "conv", zero_point=(-120,)), tmp_path / "new.tflite")
    assert run("weights", inside, *how) == 0


@pytest.mark.emulator
def test_no_file_is_written_if_the_built_c_computes_other_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], emulator: None
) -> None:
    """The kernels of the folder are built, not those of this tinyweave."""
    chain = saved(tiny.chain(), tmp_path / "chain.tflite")
    assert run("compile", chain, "--weights", "file", "-o", tmp_path / "c") == 0
    capsys.readouterr()
    kernel = next((tmp_path / "c").glob("tw_softmax_s8*.c"))
    kernel.write_text(kernel.read_text().replace("{ tw_softmax_pixel", "{ *to = 0; if (from[0] < 0) tw_softmax_pixel"))
    words = ["--plan", tmp_path / "c/chain_plan.json", "--samples", 1, "-o", tmp_path / "new.weights"]
    assert run("weights", chain, *words) == 1
    assert "DIFFERS" in capsys.readouterr().out and not (tmp_path / "new.weights").exists()


def test_wrong_folders_are_refused(firmware: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain, out = saved(tiny.chain(), tmp_path / "chain.tflite"), tmp_path / "new.weights"

    def said(plan: Path) -> str:
        return bad(capsys, "weights", chain, "--plan", plan, "-o", out)

    assert run("plan", chain, "-o", tmp_path / "plan.json") == 0
    capsys.readouterr()
    assert "plan.json' is no plan beside C; give NAME_plan.json of a folder" in said(tmp_path / "plan.json")
    (tmp_path / "plan.json").rename(tmp_path / "chain_plan.json")
    assert "the weights of this plan are in its C" in said(tmp_path / "chain_plan.json")
    (tmp_path / "chain_plan.json").write_bytes((firmware / "chain_plan.json").read_bytes())
    assert "there is no" in said(tmp_path / "chain_plan.json")
    assert "cannot read" in said(tmp_path / "none_plan.json")
    assert not out.exists()


def test_what_has_no_file_is_refused(firmware: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--weights", "file"]
    assert "the format 'web' has the weights in the program; leave out --weights, or give " in bad(
        capsys, "export", DIGITS, *words, "--format", "web", "-o", tmp_path / "x"
    )
    assert "--weights file or fetch needs one plan" in bad(capsys, "plan", DIGITS, *words, "--pareto")
    assert not (tmp_path / "x").exists()

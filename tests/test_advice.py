"""Advice for a plan that does not fit: each printed command gives the figures printed with it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from cases import maps

from tinynas.arch import Arch, Group, blocks
from tinynas.network import to_graph
from tinyweave import api, planning
from tinyweave.api import advice
from tinyweave.cli import main
from tinyweave.devices import all_devices
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Quant, Tensor

DIGITS = Path(__file__).parents[1] / "examples" / "keywords" / "digits.tflite"


def tflite_file(folder: Path, name: str, graph: Graph) -> Path:
    path = folder / f"{name}.tflite"
    path.write_bytes(to_tflite(graph))
    return path


@pytest.fixture(scope="module")
def mobile(tmp_path_factory) -> Path:
    """Return the file of a classifier of a 3 KiB image that can be streamed."""
    graph = to_graph("mobile", blocks(Arch((32, 32, 3), 8, (Group(8, 1, (3,), (3,)),))), classes=4)
    return tflite_file(tmp_path_factory.mktemp("models"), "mobile", graph)


@pytest.fixture(scope="module")
def ends(tmp_path_factory) -> Path:
    """Return the file of a network whose input and output are large maps."""
    return tflite_file(tmp_path_factory.mktemp("models"), "it's both ends", maps.segmentation())


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def unbroken(printed: str) -> str:
    """Return printed text with each command on one line, without the backslashes at which long ones are broken."""
    return re.sub(r" \\\n +", " ", printed)


def record_of(capsys, *arguments: object) -> dict:
    """Run `plan --json` on a network that does not fit, and return the record."""
    assert run("plan", *arguments, "--json") == 1
    return json.loads(capsys.readouterr().out)


def check_commands(capsys, proposals: list[dict]) -> None:
    """Run each command of the advice, and compare its result with the advice."""
    assert proposals
    for proposal in proposals:
        words = shlex.split(proposal["command"])
        code = run(*words[1:], "--json")
        found = json.loads(capsys.readouterr().out)
        assert code == (1 if proposal["fits"] is False else 0), proposal["command"]
        assert (found["ram"]["arena"], found["fits"]) == (proposal["ram"], proposal["fits"]), proposal["command"]
        assert found["plan"]["latency_ms_at_least"] == proposal["latency_ms"]
        assert found["flash"]["constants"] == proposal["flash"] and (not found["excess"]["ram"]) == proposal["fits_ram"]
        assert set(proposal["changes"]) - {"--schedule", "best"} <= set(words)


def test_advice_with_the_fewest_changes_comes_first_with_correct_figures(capsys, mobile):
    record = record_of(capsys, mobile, "--ram", "2k")
    proposals = record["advice"]
    assert proposals[0]["changes"] == ["--stream-inputs"] and all(each["fits"] for each in proposals)
    check_commands(capsys, proposals)
    assert run("plan", mobile, "--ram", "2k") == 1
    printed = unbroken(capsys.readouterr().out)
    for proposal in proposals:
        assert f"    {proposal['command']}\n" in printed and f"arena {proposal['ram']:,} B, fits" in printed
    assert "  --stream-inputs: your firmware delivers the input row by row" in printed and "  --stream-outputs:" not in printed


@pytest.mark.emulator
def test_advice_after_a_run_reserves_the_measured_stack(capsys, mobile, tmp_path, emulator):
    assert run("plan", mobile, "--optimize", "size", "--json") == 0
    limit = json.loads(capsys.readouterr().out)["ram"]["arena"] + 100
    words = ("--optimize", "size", "--ram", limit, "--samples", 1, "-o", tmp_path / "net")
    assert run("deploy", mobile, *words, "--json") == 1
    record = json.loads(capsys.readouterr().out)
    fitting = [each for each in record["advice"] if each["fits"]]
    assert fitting and all(each["ram"] + record["ram"]["static"] + record["ram"]["stack"] <= limit for each in fitting)
    assert run("deploy", mobile, *words, *fitting[0]["changes"]) == 0
    assert run("deploy", mobile, *words) == 1
    assert "the C is in" in capsys.readouterr().out


def test_two_changes_are_advised_if_one_is_not_enough(capsys, ends):
    alone = {}
    for options in ((), ("--stream-inputs",), ("--stream-outputs",), ("--stream-inputs", "--stream-outputs")):
        assert run("plan", ends, *options, "--optimize", "size", "--json") == 0
        alone[options] = json.loads(capsys.readouterr().out)["ram"]["arena"]
    *less, both = alone.values()
    assert both < min(less)
    proposals = record_of(capsys, ends, "--ram", min(less) - 1)["advice"]
    assert proposals[0]["fits"] is True and len(proposals[0]["changes"]) > 1
    check_commands(capsys, proposals)


def test_if_no_option_fits_the_closest_is_shown(capsys, mobile):
    proposals = record_of(capsys, mobile, "--ram", "100")["advice"]
    assert not any(proposal["fits"] for proposal in proposals)
    check_commands(capsys, proposals)
    assert run("plan", mobile, "--ram", "100") == 1
    printed = capsys.readouterr().out
    over = f"{proposals[0]['ram']:,} B of RAM, {proposals[0]['ram'] - 100:,} B too many"
    assert f"nothing that was tried fits: the least is {over}" in " ".join(printed.split())
    assert not any(proposal["command"] in unbroken(printed) for proposal in proposals), "it changes no verdict"


def test_options_that_need_no_less_than_the_plan_are_not_advised(capsys):
    answer = record_of(capsys, DIGITS, "--ram", "3k")
    assert answer["advice"] == []
    assert run("plan", DIGITS, "--ram", "3k") == 1
    assert "\nno other options fit; other ways to make it fit\n  another network: `search` " in capsys.readouterr().out


def test_other_boards_are_advised_for_a_board_but_not_for_explicit_limits(capsys, mobile):
    proposals = record_of(capsys, mobile, "--device", "ch32v003")["advice"]
    boards = [each for each in proposals if "--device" in each["changes"]]
    assert boards and all(each["fits"] for each in boards)
    check_commands(capsys, proposals)
    ram = {board.name: board.ram for board in all_devices()}
    for proposal in boards:
        name = proposal["changes"][proposal["changes"].index("--device") + 1]
        smaller = [other for other, size in ram.items() if size < proposal["ram"]]
        assert name not in smaller and "--ram" not in proposal["command"]
    named = record_of(capsys, mobile, "--device", "ch32v003", "--ram", "2000")["advice"]
    assert not any("--device" in each["changes"] for each in named)


def test_constants_that_no_option_reduces_are_named_as_the_cause(capsys, mobile):
    assert run("plan", mobile, "--optimize", "flash", "--json") == 0
    constants = json.loads(capsys.readouterr().out)["flash"]["constants"]
    record = record_of(capsys, mobile, "--flash", constants - 1)
    assert record["excess"]["flash"] == 1 and record["fits"] is False
    proposals = record["advice"]
    assert [each["changes"] for each in proposals] == [["--flash", "32k"]] and proposals[0]["fits"]
    check_commands(capsys, proposals)
    assert [each["way"] for each in record["remedies"]] == ["quantize", "search"]
    assert run("plan", mobile, "--flash", constants - 1) == 1
    printed = capsys.readouterr().out
    assert "no option saves 1 B of constants; other ways to make it fit" in printed and "would be enough" not in printed


def test_advice_covers_ram_and_flash_that_are_both_too_small(capsys, mobile):
    assert run("plan", mobile, "--optimize", "flash", "--json") == 0
    constants = json.loads(capsys.readouterr().out)["flash"]["constants"]
    record = record_of(capsys, mobile, "--ram", "2k", "--flash", constants - 1)
    assert record["excess"]["ram"] > 0 and record["excess"]["flash"] > 0
    assert [each["changes"] for each in record["advice"]] == [["--stream-inputs", "--flash", "32k"]]
    check_commands(capsys, record["advice"])
    small, _ = record["remedies"]
    assert (small["way"], small["changes"]) == ("quantize", ["--stream-inputs"])
    assert small["command"].endswith(f"--flash {constants - 1}")


def test_the_remedy_of_4_bit_weights_halves_the_bytes_of_weights(capsys):
    """The first convolution has no kernel for 4-bit weights."""
    record = record_of(capsys, DIGITS, "--device", "stm32f412", "--flash", "31k", "--optimize", "flash")
    remedy = next(each for each in record["remedies"] if each["way"] == "quantize")
    graph = api.load(DIGITS).graph
    weighted = [op for op in graph.ops if op.kind in ("conv_2d", "depthwise_conv_2d", "fully_connected")]
    halved = sum(graph.tensors[op.inputs[1]].bytes // 2 for op in weighted[1:])
    tables = remedy["flash"] - (record["flash"]["constants"] - halved)  # kernels for 4-bit weights have others
    words = 4 * sum(graph.output(op).shape[-1] for op in weighted)
    assert halved > 12_000 and abs(tables) <= words, "a word per output channel at most"
    assert remedy["fits"] is not False and remedy["latency_ms"] != record["plan"]["latency_ms_at_least"]


def test_each_remedy_is_an_existing_command(capsys, mobile):
    """Words in capitals are placeholders; others are options of the command."""
    for arguments in (("--flash", "1k"), ("--ram", "2k", "--flash", "1k"), ("--device", "ch32v003", "--flash", "1k")):
        for remedy in record_of(capsys, mobile, *arguments)["remedies"]:
            verb, *words = shlex.split(remedy["command"] or "tinyweave inspect")[1:]
            assert run(verb, "--help") == 0
            shown = capsys.readouterr().out
            assert all(word.split("=")[0] in shown for word in words if word.startswith("-"))


def test_a_smaller_input_is_advised_for_large_maps_and_not_for_large_constants(capsys):
    for limits, wanted in ((("--ram", "3k"), True), (("--flash", "20k"), False), (("--ram", "3k", "--flash", "20k"), False)):
        remedies = record_of(capsys, DIGITS, *limits)["remedies"]
        assert any(each["way"] == "input" for each in remedies) == wanted
        shares = {each["way"]: each["share"] for each in remedies if each["share"] is not None}
        assert all(0 < share < 1 for share in shares.values()) and set(shares) <= {"input"}
    (smaller,) = (each for each in record_of(capsys, DIGITS, "--ram", "3k")["remedies"] if each["way"] == "input")
    assert smaller["share"] ** 2 * 6528 == pytest.approx(3072), "maps shrink with the area"


def test_no_remedies_are_given_if_options_fit(capsys, mobile):
    assert record_of(capsys, mobile, "--ram", "2k")["remedies"] == []
    assert run("plan", mobile, "--ram", "16k", "--json") == 0
    assert json.loads(capsys.readouterr().out)["remedies"] is None


def test_another_objective_is_taken_if_the_constants_exceed_the_flash(mobile):
    model, found = api.load(mobile), {}
    for optimize in ("size", "speed"):
        found[optimize] = api.estimate_flash(api.plan(model, optimize=optimize)).constants
    assert found["size"] < found["speed"]
    plan = api.plan(model, optimize="speed", flash=found["size"])
    assert api.estimate_flash(plan).constants <= found["size"]


@pytest.mark.emulator
@pytest.mark.parametrize(("objective", "taken"), [("balanced", ("balanced", "flash")), ("size", ("flash",))])
def test_objective_flash_is_taken_if_only_that_fits(capsys, tmp_path: Path, objective: str, taken: tuple[str, ...], emulator):
    """The constants fit, so only the build shows that the code does not. The size of the code depends on the compiler.

    Objective `balanced` has kernels as small as those of `flash`, so with some compilers its plan fits, too.
    """
    deploy = ("deploy", DIGITS, "--device", "stm32f412", "--samples", 1, "--json", "--out", tmp_path / "built")
    assert run(*deploy, "--optimize", "flash") == 0
    least = json.loads(capsys.readouterr().out)["flash"]["total"]
    assert run(*deploy, "--optimize", objective, "--flash", least + 64) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["plan"]["objective"] in taken and record["flash"]["total"] <= least + 64


def test_the_least_ram_and_flash_are_named_if_both_are_too_small(capsys, mobile):
    """The figures are those of the plans that minimise each, with the options that were tried."""
    words = ("--ram", 100, "--flash", 1000)
    record = record_of(capsys, mobile, *words)
    model, least = api.load(mobile), record["least"]
    smallest = api.estimate_flash(api.plan(model, optimize="flash")).constants
    assert least["flash"] == smallest and 100 < least["ram"] < record["ram"]["arena"]
    streamed = api.plan(model, stream_inputs=True, optimize="size")
    assert least["ram"] <= sum(streamed.arena.values())
    assert run("plan", mobile, *words) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"the least arena is {least['ram']:,} B, {least['ram'] - 100:,} B too many" in said
    assert f"the least constants are {smallest:,} B, {smallest - 1000:,} B too many" in said
    assert record_of(capsys, mobile, "--ram", 100)["least"] is None


@pytest.mark.parametrize(
    ("shape", "outputs", "task"),
    [
        ((1, 32, 32, 3), [(1, 4)], "images"),
        ((1, 96, 96, 3), [(1, 9, 8), (1, 9, 4)], "detection"),
        ((1, 96, 96, 3), [(1, 9), (1, 4)], "TASK"),
        ((1, 28, 28, 1), [(1, 10)], "images"),
        ((1, 49, 10, 1), [(1, 12)], "keywords"),
        ((1, 128, 6), [(1, 4)], "sensors"),
        ((1, 128, 1, 3), [(1, 4)], "sensors"),
        ((1, 48, 3, 1), [(1, 4)], "sensors"),
        ((1, 640), [(1, 640)], "TASK"),
    ],
)
def test_the_task_of_a_search_follows_from_inputs_and_outputs(shape, outputs, task):
    tensors = {str(n): Tensor(str(n), each, "int8", Quant((1.0,), (0,))) for n, each in enumerate([shape, *outputs])}
    graph = Graph("model", tensors, (), ("0",), tuple(str(n + 1) for n in range(len(outputs))))
    assert (api.task_of(graph) or "TASK") == task


def test_the_best_strategy_is_advised_in_place_of_another(capsys, mobile):
    proposals = record_of(capsys, mobile, "--schedule", "layer", "--ram", "9k")["advice"]
    assert proposals[0]["changes"] == ["--schedule", "best"] and "--schedule" not in proposals[0]["command"]
    check_commands(capsys, proposals)


def test_a_faster_board_or_the_reachable_latency_is_advised(capsys):
    slow = record_of(capsys, DIGITS, "--device", "stm32f412", "--latency-ms", 33.5)["advice"]
    assert [each["changes"][0] for each in slow] == ["--device"] and slow[0]["latency_ms"] <= 33.5
    check_commands(capsys, slow)
    named = record_of(capsys, DIGITS, "--device", "stm32f412", "--ram", "6700", "--latency-ms", 40)
    reached = named["advice"]
    assert [each["changes"][0] for each in reached] == ["--latency-ms"] and reached[0]["fits"]
    assert 40 < reached[0]["latency_ms"] <= float(reached[0]["changes"][1]) and named["plan"]["latency_ms"] > 40
    check_commands(capsys, reached)


def test_advice_that_cannot_fit_computes_few_plans_and_checks_none(capsys, mobile, monkeypatch):
    """Only the closest plans are computed, to be shown."""
    made, plan = [], planning.PlanSearch.plan
    monkeypatch.setattr(
        planning.PlanSearch, "plan", lambda *arguments, **options: made.append(options) or plan(*arguments, **options)
    )
    record_of(capsys, mobile, "--ram", "100")
    assert len(made) == 1 + advice.MOST_CLOSEST and not any(each["checked"] for each in made)


def test_a_plan_that_fits_gets_no_advice(capsys, mobile):
    assert run("plan", mobile, "--ram", "16k", "--json") == 0
    assert json.loads(capsys.readouterr().out)["advice"] is None


def test_deploy_of_a_network_that_cannot_fit_builds_and_writes_nothing(capsys, mobile, tmp_path, monkeypatch):
    monkeypatch.setattr(api, "deploy_model", lambda *arguments, **options: pytest.fail("built what cannot fit"))
    np_file = tmp_path / "x.bin"
    np_file.write_bytes(bytes(32 * 32 * 3))
    arguments = ("deploy", mobile, "--ram", "2k", "--inputs", np_file, "--samples", 1, "-o", tmp_path / "c")
    assert run(*arguments, "--json") == 1
    proposals = json.loads(capsys.readouterr().out)["advice"]
    words = shlex.split(proposals[0]["command"])
    assert words[:2] == ["tinyweave", "deploy"] and words[-6:] == [
        "--inputs",
        str(np_file),
        "--samples",
        "1",
        "--out",
        str(tmp_path / "c"),
    ]
    assert run(*arguments) == 1
    printed = unbroken(capsys.readouterr().out)
    assert "does not fit" in printed and "nothing was built or written" in printed
    assert f"    {proposals[0]['command']}\n" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["x.bin"]


@pytest.mark.shared
@pytest.mark.sweep
def test_advice_for_a_large_network_is_found_with_few_plans(capsys, shared, monkeypatch):
    made, plan = [], planning.PlanSearch.plan
    monkeypatch.setattr(
        planning.PlanSearch, "plan", lambda *arguments, **options: made.append(options) or plan(*arguments, **options)
    )
    model = shared / "models" / "mit-han-lab__tinyengine__mcunetv2_large.tflite"
    record = record_of(capsys, model, "--device", "stm32f412", "--io", "model")
    assert record["excess"]["ram"] == 339_968
    assert len(made) <= 8, "its own, two with other options, two with room for constants (one in 4 bits) and three boards"
    assert all(each["fits"] for each in record["advice"])
    assert ["--io", "int8", "--flash", "4m"] in [each["changes"] for each in record["advice"]]
    fast = next(each for each in record["advice"] if "--flash" in each["changes"])
    assert fast["latency_ms"] < 4000, "that of the kernels which have room"
    assert {"quantize", "search"} == {each["way"] for each in record["remedies"]}

"""The HTML report shows the values of the record, escapes names, and refuses invalid records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from cases import tiny
from cases.browser import browse, seen
from cases.maps import segmentation

import tinyweave as tw
from tinyweave import planning
from tinyweave.cli import main
from tinyweave.codegen.buffers import buffer_records, stage_records
from tinyweave.devices import all_devices
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.planning import Request
from tinyweave.report import schema
from tinyweave.report.page import Entry, page
from tinyweave.report.schema import SCHEMA, faults, kind_of

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
MOST_BYTES = 1_500_000  # limit for a page
HOSTILE = "</script><img src=x onerror=document.title='broken'>"


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Run a command with --json and return its parsed output."""
    main([*map(str, arguments), "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return records of the example: inspect, plan and Pareto front."""
    folder = tmp_path_factory.mktemp("records")
    found = {}
    board = ["--device", "stm32f412"]
    for name, words in {"inspect": ["inspect"], "plan": ["plan", *board], "front": ["plan", *board, "--pareto"]}.items():
        with (folder / f"{name}.json").open("w") as out, pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", out)
            assert main([*words, str(DIGITS), "--json"]) == 0
        found[name] = json.loads((folder / f"{name}.json").read_text())
    return found


def test_json_output_of_commands_is_valid_by_the_schema(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chain, other = tmp_path / "chain.tflite", tmp_path / "residual.tflite"
    chain.write_bytes(to_tflite(tiny.chain()))
    other.write_bytes(to_tflite(tiny.residual()))
    of_verbs = {
        "record": [["inspect", chain], ["plan", chain, "--device", "stm32h743"], ["plan", chain, "--ram", "10"]],
        "front": [["plan", chain, "--pareto", "--device", "stm32f412"], ["plan", chain, "--pareto"]],
        "reordering": [["reorder", chain]],
        "several": [["compile", chain, other, "-o", tmp_path / "both"]],
        "devices": [["devices"], ["devices", "stm32h743"], ["devices", "cortex-m4"]],
        "cache": [["cache"]],
    }
    of_verbs["record"] += [["compile", chain, "-o", tmp_path / "c"], ["plan", chain, "--explain", "conv"]]
    for kind, commands in of_verbs.items():
        for command in commands:
            record = printed(capsys, *command)
            assert kind_of(record) == kind and faults(record, kind) == "", command


@pytest.mark.emulator
def test_json_output_of_deploy_is_valid_and_its_page_shows_all_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, emulator: None
) -> None:
    chain, out = tmp_path / "chain.tflite", tmp_path / "net"
    chain.write_bytes(to_tflite(tiny.chain()))
    record = printed(capsys, "deploy", chain, "--device", "stm32f412", "--samples", 1, "-o", out)
    assert faults(record, "record") == "" and record["command"].startswith("tinyweave deploy chain.tflite")
    assert set(record["digests"]) | {"report.html", "report.md", "report.json", "tinyweave.json"} == {
        x.name for x in out.iterdir()
    }
    (entry,) = data_of((out / "report.html").read_text())["entries"]
    assert [board["name"] for board in record["room"]] == record["boards"]
    assert entry["record"] == record and min(each["arena"] for each in entry["front"]["points"]) <= record["ram"]["arena"]
    assert faults(entry["front"], "front") == ""
    profiled = printed(capsys, "profile", chain, "--device", "stm32f412")
    assert faults(profiled, "record") == ""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of the values of a record; only the first entry of a list is followed."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:1]):
            yield from leaves(inner, (*path, index))
    else:
        yield path


def put(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = deepcopy(record)
    at: Any = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


UNREAD = {"explain"}  # not part of a report
NEW = {"least", "flash_reads", "file_reads"}  # records of earlier versions do not have it


def test_a_record_with_any_wrong_type_or_missing_key_is_refused(records: dict[str, dict[str, Any]]) -> None:
    for kind, record in (("record", records["plan"]), ("front", records["front"])):
        assert faults(record, kind) == ""
        places = [path for path in leaves(record) if path[0] not in UNREAD]
        assert len(places) > 30
        for path in places:
            assert faults(put(record, path, [[]]), kind), path
        for key in set(record) - UNREAD - NEW:
            assert faults({name: value for name, value in record.items() if name != key}, kind), key


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("buffers",), None, "not all of their plan"),
        (("stages",), None, "not all of their plan"),
        (("ram", "memories"), None, "not all of their plan"),
        (("plan", "steps"), None, "it has buffers, but no steps"),
        (("layers", 0, "step"), 10**9, "its layers do not lie in"),
        (("buffers", 0, "end"), 10**9, "a buffer or a stage lies in no step"),
        (("buffers", 0, "end"), 0, "a buffer or a stage lies in no step"),
        (("stages", 0, "step"), 99, "a buffer or a stage lies in no step"),
        (("buffers", 0, "bytes"), 10**9, "a buffer lies outside the arena"),
        (("buffers", 0, "memory"), "moon", "a buffer lies outside the arena"),
        (("steps",), [{"step": 0, "layers": ["x"], "instructions": 1, "cycles": 1, "loop": None}], "layers that are not there"),
        (("schema",), 1, "schema"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(
    records: dict[str, dict[str, Any]], path: tuple[Any, ...], value: Any, said: str
) -> None:
    assert said in faults(put(records["plan"], path, value), "record")


def test_files_that_are_not_records_are_refused_in_one_line(
    records: dict[str, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "text.json": "no JSON",
        "deep.json": "[" * 100_000,
        "list.json": "[1, 2]",
        "front.json": json.dumps(records["front"]),
        "inspect.json": json.dumps(records["inspect"]),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert main(["report", str(tmp_path / name), "-o", str(tmp_path / "page.html")]) == 2, name
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and error.startswith("tinyweave: ") and ";" in error, error
    (tmp_path / "old.json").write_text(json.dumps(records["plan"] | {"schema": 1}))
    assert main(["report", str(tmp_path / "old.json"), "-o", str(tmp_path / "page.html")]) == 2
    told = "it has version 1 of the keys, and this tinyweave reads version 3; print it again with this tinyweave"
    assert told in capsys.readouterr().err
    (tmp_path / "plan.json").write_text(json.dumps(records["plan"]))
    assert main(["report", str(tmp_path / "plan.json"), "--ram", "9k", "-o", str(tmp_path / "page.html")]) == 2
    assert "--ram has no effect on records" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def data_of(text: str) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return dict(json.loads(data))


def test_a_page_loads_nothing_from_the_network_and_escapes_names(records: dict[str, dict[str, Any]]) -> None:
    hostile = put(put(records["plan"], ("model", "name"), HOSTILE), ("layers", 0, "name"), HOSTILE)
    text = page([Entry(hostile, records["front"]), Entry(records["plan"])])
    assert HOSTILE not in text and text.count("</script>") == 2
    assert data_of(text)["entries"][0]["record"] == hostile
    assert not re.search(r"\w+://", text.replace("http://www.w3.org/2000/svg", ""))
    assert "default-src 'none'" in text and len(text.encode()) < MOST_BYTES


def test_the_page_of_a_large_model_stays_small(shared: Path, tmp_path: Path) -> None:
    model = shared / "models" / "mit-han-lab__tinyengine__mcunetv2_large.tflite"
    out = tmp_path / "page.html"
    assert main(["report", str(model), "--schedule", "unfused", "-o", str(out)]) == 0
    assert out.stat().st_size < MOST_BYTES


def test_buffer_records_name_readers_writers_and_the_reason_of_the_offset() -> None:
    plan = tw.plan(DIGITS, "stm32f412", stream_inputs=True)
    buffers = {buffer["name"]: buffer for buffer in buffer_records(plan)}
    assert set(buffers) == {buffer.name for buffer in plan.buffers}
    for name, buffer in buffers.items():
        assert plan.offsets[name] == buffer["offset"] and plan.buffer(name).bytes == buffer["bytes"]
        touched = [*buffer["written_by"], *buffer["read_by"]]
        assert all(buffer["begin"] <= step < buffer["end"] for step, _ in touched), name
        for other, count in buffer["shares"].items():
            begin = max(buffer["offset"], plan.offsets[other])
            end = min(buffer["offset"] + buffer["bytes"], plan.offsets[other] + plan.buffer(other).bytes)
            assert end - begin == count and buffers[other]["shares"][name] == count
    (streamed,) = plan.streamed_inputs
    assert buffers[streamed]["kind"] == "ring" and "the caller brings them" in buffers[streamed]["why"]
    assert {buffer["kind"] for buffer in buffers.values()} >= {"ring", "map", "output", "scratch"}
    (output,) = plan.graph.outputs
    assert buffers[plan.places[output].buffer]["why"].startswith("a network output")
    for name, other in ((a, b) for a in plan.buffers for b in plan.buffers if a is not b):
        together = max(name.start, other.start) < min(name.end, other.end) and name.memory == other.memory
        begin, at = plan.offsets[name.name], plan.offsets[other.name]
        crossed = min(begin + name.bytes, at + other.bytes) - max(begin, at)
        expected = crossed if together and crossed > 0 else None
        assert buffers[name.name]["shares"].get(other.name) == expected, (name, other)
    for stage in stage_records(plan):
        for each in stage["maps"]:
            (_, height, width, channels) = plan.graph.tensors[each["tensor"]].shape
            rows, cols = each["rows"][0], (each["cols"] or [width])[0]
            assert each["kept_bytes"] == rows * cols * channels and each["rows"][1] == height, each
        rings = {each["tensor"]: each["kept_bytes"] for each in stage["maps"] if each["cols"] is None}
        assert rings, stage
        assert all(buffers[name]["bytes"] == kept for name, kept in rings.items() if name in buffers)


@pytest.mark.parametrize("network", tiny.NETWORKS)
def test_buffer_records_name_their_kind_and_the_ops_that_access_them(network: str) -> None:
    graph = tiny.NETWORKS[network]()
    plan = planning.plan(graph)
    graph, buffers = plan.graph, {buffer["name"]: buffer for buffer in buffer_records(plan)}
    for name in graph.outputs:
        assert buffers[plan.places[name].buffer]["kind"] in ("output", "state")
    for name, place in plan.places.items():
        tensor = graph.tensors[name]
        assert (buffers[place.buffer]["kind"] == "state") or tensor.role != "state", name
    silent = {op.name for op, kernel in zip(graph.ops, plan.variants, strict=True) if not kernel}
    step_of = {graph.ops[index].name: step for step, stage in enumerate(plan.stages) for index in stage.ops}
    for buffer in buffers.values():
        assert not silent.intersection(name for _, name in buffer["written_by"]), buffer
        inside = {name for name, place in plan.places.items() if place.buffer == buffer["name"]}
        readers = {op.name for op in graph.ops if inside.intersection(op.inputs)}
        assert {(step, name) for step, name in buffer["read_by"]} == {(step_of[name], name) for name in readers}
        reads = [step_of[name] for name in readers]
        if reads:
            assert re.search(rf"last read by \w+ in step {max(reads) + 1}\b", buffer["why"]), buffer
            (last,) = re.findall(r"last read by (\w+) in step", buffer["why"])
            assert step_of[last] == max(reads)


def test_the_buffer_record_of_a_streamed_output_says_that_the_caller_takes_rows() -> None:
    plan = planning.plan(segmentation(), Request(stream_outputs=True))
    (name,) = plan.streamed_outputs
    (why,) = [buffer["why"] for buffer in buffer_records(plan) if buffer["name"] == name]
    assert "the caller takes them" in why and "brings" not in why


def test_records_of_the_same_model_are_merged_and_others_are_refused(records: dict[str, dict[str, Any]]) -> None:
    from tinyweave.report.page.merging import entries_of

    plan, front = records["plan"], records["front"]
    assert entries_of([("front", front), ("record", plan), ("record", plan)]) == [Entry(plan, front)] * 2
    planned = Entry(plan, {"of": "its own plan"})
    assert entries_of([planned, ("record", plan)]) == [planned, Entry(plan)], "in the order in which they were given"
    assert entries_of([("record", plan), planned, ("front", front)]) == [Entry(plan, front)] * 2
    other = put(front, ("model", "sha256"), "0" * 64)
    with pytest.raises(CompileError, match="the front of 'digits' has no plan of the same model for the same device; "):
        entries_of([("record", plan), ("front", other)])
    board = put(plan, ("device", "name"), "another board")
    core_alone = put(plan, ("device",), None)
    assert entries_of([("record", board), ("record", core_alone), ("record", plan), ("front", front)]) == [
        Entry(board),
        Entry(core_alone),
        Entry(plan, front),
    ], "milliseconds of another device are not shown"
    with pytest.raises(CompileError, match="for the same device"):
        entries_of([("record", board), ("front", front)])


def test_a_report_from_python_takes_records(records: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    for name, record in records.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    file = tw.report(tmp_path / "plan.json", tmp_path / "front.json", file=tmp_path / "page.html")
    (entry,) = json.loads(file.read_text().split('id="data">')[1].split("</script>")[0])["entries"]
    assert entry["record"] == records["plan"] and entry["front"] == records["front"]
    with pytest.raises(CompileError, match="the record of 'digits' has no plan"):
        tw.report(tmp_path / "inspect.json", file=tmp_path / "none.html")
    with pytest.raises(CompileError, match="a report needs a plan; give a result of deploy"):
        tw.report()
    assert not (tmp_path / "none.html").exists()


# ---- the page in a browser ----

# acts like a reader, and writes what is then visible into the page, which the test reads
READER = """
const all = (what, of = document) => [...(of?.querySelectorAll(what) ?? [])];
const section = (title) => all("section").find((each) => each.querySelector("h2")?.textContent === title);
const map = section("Memory over time"), boxes = () => all("svg .box", map), told = map.querySelector(".told");
const seen = { heads: all("h2").map((head) => head.textContent), boxes: boxes().length, marked: [] };
seen.listed = all("nav a").map((link) => document.querySelector(link.hash).textContent);
boxes()[0].focus();
seen.first = told.textContent;
boxes()[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
seen.second = told.textContent;
seen.tabbed = boxes().filter((box) => box.getAttribute("tabindex") === "0").length;
seen.marked = all("tr.cursor", section("Layers")).map((row) => row.children[1].textContent);
const before = boxes().map((box) => box.getAttribute("width"));
map.querySelector("button[aria-pressed]").click();
seen.wider = boxes().some((box, index) => box.getAttribute("width") !== before[index]);
const layers = section("Layers"), names = () => all("tbody tr", layers).map((row) => row.children[1].textContent);
const head = all("th button", layers).find((button) => button.textContent === "MACs");
head.click();
seen.sorted = names();
head.click();
seen.unsorted = names();
const stage = section("Fused stages"), slider = stage.querySelector("input[type=range]");
const drawn = (what) => all(what, stage.querySelector("svg")), side = (box, name) => Number(box.getAttribute(name));
const turnTo = (turn) => ((slider.value = turn), slider.dispatchEvent(new Event("input")));
turnTo(0);
seen.firstTurn = drawn(".kept").map((box) => side(box, "width") > 0);
seen.begin = drawn(".kept").map((box) => side(box, "x"));
turnTo(slider.max);
seen.end = drawn(".kept").map((box) => side(box, "x"));
seen.right = drawn(".kept").map((box) => side(box, "x") + side(box, "width"));
seen.boxesRight = drawn(".whole").map((box) => side(box, "x") + side(box, "width"));
seen.dots = all("svg circle[tabindex]", section("What RAM costs in time")).length;
seen.chosen = all("svg circle:not([tabindex])", section("What RAM costs in time")).length;
const fits = section("What fits into how much RAM"), budget = fits?.querySelector("input[type=range]");
const budgetOf = (count) => {
  budget.value = count;
  budget.dispatchEvent(new Event("input"));
  const rows = all("tbody tr", fits).map((row) => [...row.children].map((cell) => cell.textContent));
  const said = [fits.querySelector(".verdict").textContent, all("p", fits).at(-1).textContent];
  return { said, rows, bars: all("svg .bar, svg .peak", fits).length, value: Number(budget.value) };
};
seen.budgets = budget ? [0, ...BUDGETS, 1e9].map(budgetOf) : null;
const cellsOf = (what, of) => all(what, of).map((row) => [...row.children].map((cell) => cell.textContent));
const cells = cellsOf("tr", section("Side by side"));
seen.compared = Object.fromEntries(cells.map(([name, ...values]) => [name, values]));
seen.boards = cellsOf("tbody tr", section("Boards on which it fits"));
seen.folded = all("details tbody tr", section("Boards on which it fits")).length;
seen.cards = all(".card").map((card) => card.textContent);
seen.edges = all("tbody tr", layers).map((row) => row.className.replace("cursor", "").trim());
const beside = document.querySelector(".side .scroll");
seen.sideCut = beside ? beside.scrollWidth - beside.clientWidth : 0;
seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.append(Object.assign(document.createElement("output"), { id: "seen", textContent: JSON.stringify(seen) }));
"""


def shown(text: str, folder: Path, width: int = 1200, budgets: Sequence[int] = ()) -> dict[str, Any]:
    """Return what a browser shows of a page, as collected by the script READER."""
    file, reader = folder / "page.html", READER.replace("BUDGETS", json.dumps(budgets))
    file.write_text(text.replace("</body>", f"<script>setTimeout(() => {{{reader}}}, 500);</script></body>"))
    page = browse(file.as_uri(), folder, 2000, width)
    assert "<title>broken" not in page
    return seen(page)


def test_the_page_in_a_browser_shows_every_buffer_and_step(records: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    plan, front = records["plan"], records["front"]
    points, unit = front["points"], 64  # bytes by which the budget moves
    budgets = [-(-point["arena"] // unit) * unit for point in points]
    found = shown(page([Entry(plan, front)]), tmp_path, budgets=budgets)
    assert {"Memory over time", "Fused stages", "What RAM costs in time", "Layers", "Proof", "Reproduce it"} <= set(
        found["heads"]
    )
    assert found["listed"] == found["heads"], "each link of the contents leads to a head, in order"
    assert found["boxes"] == len(plan["buffers"])
    for text, buffer in zip((found["first"], found["second"]), plan["buffers"], strict=False):
        assert text.startswith(buffer["label"]) and f"{buffer['bytes']:,} B" in text and buffer["why"] in text
    assert found["tabbed"] == 1 and found["wider"] is True and found["wide"] <= 0
    names = [layer["name"] for layer in plan["layers"]]
    fused = {stage["step"] for stage in plan["stages"]}
    steps = [layer["step"] for layer in plan["layers"]]
    assert found["edges"] == [f"stage-{'odd' if step % 2 else 'even'}" if step in fused else "" for step in steps] and fused
    assert found["marked"] == [names[0]] and found["unsorted"] == names
    macs = {layer["name"]: layer["macs"] for layer in plan["layers"]}
    assert [macs[name] for name in found["sorted"]] == sorted(macs.values(), reverse=True)
    stage = plan["stages"][0]
    first = {timing["layer"]: timing["first"] for timing in stage["timings"]}
    rings = [(number, each) for number, each in enumerate(stage["maps"]) if each["cols"] is None]
    assert rings and all(found["firstTurn"][number] == (first[each["made_by"]] == 0) for number, each in rings)
    for number, _ in rings:  # at the end the last rows are kept
        assert abs(found["right"][number] - found["boxesRight"][number]) <= 1 and found["end"][number] > found["begin"][number]
    assert found["dots"] == len(front["points"]) and found["chosen"] == 1
    check_budgets(found["budgets"], front)
    check_boards(found["boards"], plan)
    assert found["folded"] == len(found["boards"]) - 5, "the list is folded after five boards"


def test_a_measured_time_stands_beside_the_planned_one(records: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """Otherwise the two figures of one page contradict each other."""
    plan = records["plan"]
    planned = plan["plan"]["latency_ms_at_least"]
    cards = shown(page([Entry(plan | {"cycles": 10**7, "latency_ms": 100.0})]), tmp_path)["cards"]
    (time,) = [card for card in cards if card.startswith("Time of one inference")]
    assert time.startswith("Time of one inference100 ms") and f"As planned, from the layers' shapes: {planned:.1f} ms." in time
    (time,) = [card for card in shown(page([Entry(plan)]), tmp_path)["cards"] if card.startswith("Time of one inference")]
    assert f"{planned:.1f} ms" in time and "As planned" not in time


def check_budgets(found: Sequence[dict[str, Any]], front: dict[str, Any]) -> None:
    """Compare the shown plans for RAM budgets, including the least and the largest, with the plans of the front."""
    points, others = front["points"], [each for each in front["schedules"] if "arena" in each]
    assert len(found) == len(points) + 2 and found[0]["value"] < points[-1]["arena"]
    assert found[-1]["value"] > max(each["arena"] for each in (*points, *others))
    for each in found:
        fitting = [point for point in points if point["arena"] <= each["value"]]
        chosen, (verdict, about) = (fitting or points[-1:])[0], each["said"]
        peak = max(chosen["layers"], key=lambda layer: layer["live"])
        too_many = f"✗ No plan is within this budget: the smallest needs {points[-1]['arena'] - each['value']:,} B more."
        needs = f"needs {chosen['arena']:,} B, "
        assert (needs in verdict and verdict.endswith(" ms as planned.")) if fitting else verdict == too_many
        assert f"The smallest plan needs {points[-1]['arena']:,} B" in about and about.endswith(
            f"{peak['name']}, {peak['live']:,} B."
        )
        assert each["bars"] == len(chosen["layers"])
        plans = {"best": chosen} | {other["schedule"]: other for other in others}
        assert [row[0] for row in each["rows"]] == list(plans)
        for name, fits, arena, *_, bottleneck in each["rows"]:
            plan = plans[name]
            over = plan["arena"] - each["value"]
            assert arena == f"{plan['arena']:,}" and fits == ("✓" if over <= 0 else f"✗ {over:,} B above it")
            assert bottleneck == max(plan["layers"], key=lambda layer: layer["live"])["name"]


def check_boards(found: Sequence[list[str]], plan: dict[str, Any]) -> None:
    """Assert that the table lists each board with enough memory and the bytes that the plan leaves."""
    arena, flash = plan["ram"]["arena"], plan["flash"]["estimate"][1]
    boards = {each.name: each for each in all_devices() if each.ram >= arena and (each.flash or flash) >= flash}
    assert 10 < len(boards) < len(all_devices()) and {row[0] for row in found} == set(boards)
    assert [boards[row[0]].ram for row in found] == sorted(board.ram for board in boards.values())
    for name, core, _, ram, ram_limit, rom, rom_limit in found:
        board = boards[name]
        assert core == board.core and ram.startswith(f"{board.ram - arena:,} (") and ram_limit == f"{board.ram:,}"
        assert board.flash is None or (rom.startswith(f"{board.flash - flash:,} (") and rom_limit == f"{board.flash:,}")


def test_the_page_works_on_a_narrow_screen_and_with_hostile_names(records: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    hostile = put(put(records["plan"], ("model", "name"), HOSTILE), ("buffers", 0, "label"), HOSTILE)
    deployed = {"cycles": 10**9, "latency_ms": 1e4}  # from another source than the other's, so not compared
    more = put(hostile, ("macs",), hostile["macs"] * 2) | deployed
    second = records["plan"] | {"layers": [each | {"name": f"other_{each['name']}"} for each in records["plan"]["layers"]]}
    second["steps"] = None
    found = shown(page([Entry(more, records["front"]), Entry(second, records["front"])]), tmp_path, 500)
    marked, step = found["marked"], records["plan"]["buffers"][1]["begin"]
    assert marked and step == 0
    # no layer has the name, so the cursor is in the step after as much work
    assert marked[1:] == [each["name"] for each in second["layers"] if each["step"] == step]
    cycles, macs = records["plan"]["plan"]["cycles_at_least"], records["plan"]["macs"]
    assert found["compared"]["cycles, by the layers' shapes"] == [f"{cycles:,}"] * 2
    assert found["compared"]["MACs"] == [f"{2 * macs:,}", f"{macs:,}  (−50\u00a0%)"]
    assert (
        "Side by side" in found["heads"] and found["sideCut"] <= 0 and found["first"].startswith(HOSTILE) and found["wide"] <= 0
    )


def test_every_definition_of_the_schema_is_used() -> None:
    text = SCHEMA.read_text()
    for name in json.loads(text)["definitions"]:
        assert f'"#/definitions/{name}"' in text, name
    assert json.loads(text)["definitions"]["version"]["const"] == schema.VERSION

"""The commands of docs/DETECTION.md, from a folder of photographs with boxes to C that prints boxes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch", reason="needs torch")

from tinynas import arch, halving, searching
from tinynas.int8 import int8_outputs, quant_of
from tinynas.tasks.average_precision import means, voc
from tinynas.tasks.boxes import MOST, as_rows, head_of
from tinynas.tasks.detection import boxes_of
from tinyweave import api
from tinyweave.cli import main
from tinyweave.report.schema import faults
from tinyweave.support import toolchain

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "DETECTION.md").read_text()
SIZE = 48  # image size of the page's network in these tests
BOX = "<object><name>person</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"


def block(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def photographs(folder: Path, count: int = 48) -> Path:
    """Write photographs of one bright square on noise, and their annotations."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True)
    (folder / "annotations").mkdir()
    for number in range(count):
        pixels = rng.integers(60, 120, (64, 96, 3), np.uint8)
        side = int(rng.integers(20, 40))
        top, left = int(rng.integers(0, 64 - side)), int(rng.integers(0, 96 - side))
        pixels[top : top + side, left : left + side] = 250
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        edges = left + 1, top + 1, left + side, top + side
        (folder / "annotations" / f"{number}.xml").write_text(f"<annotation>{BOX.format(*edges)}</annotation>")
    return folder


pytestmark = pytest.mark.usefixtures("one_worker")


def command(verb: str, *instead: tuple[str, str]) -> list[str]:
    line = next(line for line in block("sh").splitlines() if line.startswith(f"tinyweave {verb}"))
    for old, new in instead:
        assert old in line
        line = line.replace(old, new)
    return shlex.split(line)[1:]


def _vision() -> Any:
    """Return the module of examples/vision."""
    sys.path.insert(0, str(ROOT / "examples" / "vision"))
    import vision

    return vision


@pytest.mark.emulator
def test_the_visual_wake_words_example_runs_its_classifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], emulator: None
) -> None:
    """Half of the photographs have no person. The network is smaller than the example's."""
    folder = photographs(tmp_path / "people", 60)
    for number in range(0, 60, 2):
        (folder / "annotations" / f"{number}.xml").write_text("<annotation></annotation>")
    net = json.loads((ROOT / "examples" / "vision" / "wake_words.json").read_text())
    groups = [{**net["groups"][0], "stride": 2}]
    (tmp_path / "net.json").write_text(json.dumps({**net, "image": [16, 16, 3], "stem": 8, "groups": groups, "last": 8}))
    words = ["--data", str(folder), "--net", str(tmp_path / "net.json"), "--epochs", "1", "-o", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["vision.py", *words])
    assert _vision().main() == 0
    printed = capsys.readouterr().out
    count = int(re.findall(r"on the emulated core \d+ of (\d+) images are recognised", printed)[0])
    assert f"{count} of {count} outputs are the same bytes" in printed and 5 < count < 30
    drawn = (tmp_path / "out" / "answers.svg").read_text()
    assert ">no person<" in drawn and sum(map(int, re.findall(r">(\d+)</text>", drawn))) == count
    monkeypatch.setattr(sys, "argv", ["vision.py", *words[:2], "--net", str(tmp_path / "none.json")])
    assert _vision().main() == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.emulator
def test_the_commands_of_the_page_give_c_that_prints_the_same_boxes_as_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], emulator: None
) -> None:
    monkeypatch.chdir(tmp_path)
    photographs(Path("people"))
    net = json.loads(block("json"))
    groups = [{**group, "width": 8, "expansions": [1] * len(group["expansions"])} for group in net["groups"]]
    Path("net.json").write_text(json.dumps({**net, "image": [SIZE, SIZE, 3], "groups": groups, "stem": 8}))
    assert main([*command("train", ("--epochs 300", "--epochs 6")), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert faults(record, "search") == "" and record["verified"] and record["measure"] == "mAP"
    card = (Path("found") / "card.md").read_text()
    verdict, accuracy = card.splitlines()[2:4]
    assert verdict == "- **fits stm32f746**" and accuracy.startswith("- mAP on ")
    beside = record["companions"]
    assert beside["ram"] == MOST * 6 * 2 and 256 * (2 + 4) + 300 < beside["flash"] < 5000, "all boxes; two tables, code"
    assert f"{beside['flash']:,} B of Flash and {beside['ram']:,} B of RAM for the boxes" in card

    data = halving.load_data(Path("found") / halving.DATA)
    head, (unseen, labels) = head_of(data), data.part("test")
    assert head is not None
    graph = api.load("found/network.tflite", io="int8", layout="nhwc").graph
    heads = int8_outputs(graph, unseen)
    found = [head.detected(each, quant_of(graph), 0.01) for each in heads]
    true = [boxes_of(each) for each in labels]
    measured = means([as_rows(boxes) for boxes in found], true, 1)
    wanted = record["accuracy"]
    assert (measured["voc"], measured["voc_11"], measured["coco"]) == (
        wanted["test_int8"],
        wanted["voc_11_int8"],
        wanted["coco_int8"],
    )
    low, high = wanted["interval_95"]
    assert low <= wanted["test_int8"] <= high and voc([as_rows(boxes) for boxes in found], true, 1)[0] == wanted["test_int8"]

    vision = _vision()

    assert vision.draw(Path("found"), "stm32f746", 0.01, 5).tolist() == [True] * 5
    with Image.open(Path("found") / vision.PICTURE) as sheet:
        assert sheet.size == (4 * 2 * SIZE, 2 * 2 * SIZE + vision.LEGEND) and {(255, 255, 255), (255, 80, 48)} <= {
            tuple(pixel) for pixel in np.asarray(sheet).reshape(-1, 3).tolist()
        }

    threshold = max(0.005, float(np.median([boxes["score"][0] for boxes in found])) / 2**15)  # the network is hardly trained
    program = block("c").replace("40 * (1 << BOXES_PROBABILITY_BITS) / 100", str(head.limit(threshold)))
    firmware = Path("found") / "firmware"
    (firmware / "main.c").write_text(program)
    files = sorted(firmware.glob("*.c"))
    flags = ["-std=c99", "-O1", "-DTW_PLAIN_C", "-fno-sanitize=all", "-I", firmware]
    toolchain.compile_c(toolchain.host(), [*flags, *files, "-o", tmp_path / "program"])
    said = 0
    for sample, values in zip(unseen, heads, strict=True):
        done = subprocess.run([tmp_path / "program"], input=sample.tobytes(), capture_output=True, check=True)
        lines = done.stdout.decode().splitlines()
        assert lines == [line_of(box) for box in head.detected(values, quant_of(graph), threshold)]
        said += len(lines)
    assert said > 0


def line_of(box: np.void) -> str:
    top, bottom, left, right = (int(box[name]) >> 4 for name in ("top", "bottom", "left", "right"))
    return f"person, {100 * int(box['score']) >> 15} %: rows {top} to {bottom}, columns {left} to {right}"


@pytest.mark.sweep
@pytest.mark.emulator
def test_a_search_finds_a_detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(searching, "machine_factor", lambda _: 1000.0)  # the shortest search: there is time for nothing
    words = "--set size=48 --device stm32f746 --ram 40k --minutes 0.1 --processes 1".split()
    folder = photographs(tmp_path / "people")
    code = main(["search", "--task", "detection", "--data", str(folder), *words, "--json", "-o", str(tmp_path / "found")])
    record = json.loads(capsys.readouterr().out)
    assert code == 0 and record["fits"] and record["verified"] and record["space"] == "detectors"
    assert json.loads(record["arch"])["anchors"] == len(record["task"]["preparation"]["anchors"])
    assert record["deployed"]["ram"] <= 40 * 1024 and (tmp_path / "found" / "firmware" / "boxes.c").is_file()


@pytest.mark.parametrize(
    ("change", "task", "message"),
    [
        ({"anchors": 0}, "detection", "the network has 0 anchors, the samples need 1; 0 means a classifier"),
        ({"classes": 2}, "detection", "the network has 2 classes, the samples 1"),
        ({"image": [40, 48, 3]}, "detection", "images of 40 x 48 are no multiple of the stride, 16 pixels; give"),
        ({}, "images", "there is only one class"),
    ],
)
def test_a_network_of_another_task_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], task: str, message: str
) -> None:
    net = json.loads(block("json"))
    (tmp_path / "net.json").write_text(json.dumps({**net, "image": [SIZE, SIZE, 3], **change}))
    folder = photographs(tmp_path / "people", 30)
    given = ["--task", task, "--data", str(folder), "--device", "stm32f746", "-o", str(tmp_path / "found")]
    assert main(["train", str(tmp_path / "net.json"), *given]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "found").exists()


@pytest.mark.parametrize(("name", "classes", "stride"), [("person", 1, 16), ("face_mask", 3, 8)])
def test_networks_of_the_vision_example_have_the_documented_shape(name: str, classes: int, stride: int) -> None:
    given = arch.from_json((ROOT / "examples" / "vision" / f"{name}.json").read_text())
    assert (given.classes, given.anchors, arch.stride(given)) == (classes, 4, stride)
    assert name != "person" or given == arch.from_json(block("json")), "the page's network"

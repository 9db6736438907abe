"""Visual wake words: an image shows a person if a box covers at least 0.5 % of it; faulty folders are refused in a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tinynas.prepare import task_of
from tinynas.search_report import _input_of
from tinynas.settings import Preparation
from tinynas.tasks.annotations import Annotated, LabelledBox
from tinynas.tasks.dataset import PARTS
from tinynas.tasks.visual_wake_words import read_visual_wake_words, shows
from tinyweave.ir import CompileError

ROWS, COLUMNS, COUNT = 40, 100, 60
LEAST = ROWS * COLUMNS // 200  # 20 pixels are 0.5 %


def coco(folder: Path, boxes: dict[int, list[float]], name: str = "instances_train2017", first: int = 0, **more: Any) -> Path:
    """Write images, some of them with boxes: number -> left, top, width, height."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "annotations").mkdir(exist_ok=True)
    numbers = range(first, first + COUNT)
    for number in numbers:
        pixels = np.full((ROWS, COLUMNS, 3), number, np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
    images = [{"id": n, "file_name": f"{n}.png", "height": ROWS, "width": COLUMNS} for n in numbers]
    kinds = [{"id": 1, "name": "person"}, {"id": 2, "name": "dog"}]
    found = [{"id": n, "image_id": n, "category_id": 1, "bbox": box, **more} for n, box in boxes.items()]
    dogs = [{"id": 1000 + n, "image_id": n, "category_id": 2, "bbox": [0, 0, 50, 20]} for n in numbers if n % 4 == 0]
    record = {"images": images, "annotations": found + dogs, "categories": kinds}
    (folder / "annotations" / f"{name}.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize("crowd", [0, 1])
def test_a_box_of_half_a_percent_of_the_image_gives_the_class_person(tmp_path: Path, crowd: int) -> None:
    """Of three boxes one is large enough, one is a pixel too small, and one is large enough but mostly outside the image."""
    forms = ([50, 10, 5, LEAST / 5], [50, 10, LEAST - 1, 1], [-4, 10, 5, LEAST / 5])
    folder = coco(tmp_path, {n: list(forms[n % 3]) for n in range(COUNT - 6)}, "all", iscrowd=crowd)
    made = read_visual_wake_words(folder, (20, 30), 1)
    assert made.kind == "images" and made.classes == ("no person", "person") and made.values.shape == (COUNT, 20, 30, 1)
    for sample, label in zip(made.values, made.labels, strict=True):
        number = int(sample[0, 0, 0]) + 128
        assert label == (number % 3 == 0 and number < COUNT - 6) and (sample == sample[0, 0, 0]).all()
    assert _input_of(made.preparation) == "pixels - 128, of an image resized to 20 x 30 as Pillow's bilinear filter does"


def test_names_of_coco_files_give_the_parts(tmp_path: Path) -> None:
    """The published validation set becomes the test part; the validation part is split from the training set."""
    half = {n: [0.0, 0.0, 40.0, 30.0] for n in range(0, 2 * COUNT, 2)}
    coco(tmp_path, {n: box for n, box in half.items() if n < COUNT})
    coco(tmp_path, {n: box for n, box in half.items() if n >= COUNT}, "instances_val2017", COUNT)
    made = read_visual_wake_words(tmp_path, (8, 8), 1)
    numbers = made.values[:, 0, 0, 0].astype(int) + 128
    assert {PARTS[part] for part in made.parts[numbers >= COUNT]} == {"test"}
    assert {PARTS[part] for part in made.parts[numbers < COUNT]} == {"train", "validation"}


def test_visual_wake_words_of_another_class(tmp_path: Path) -> None:
    folder = coco(tmp_path, {0: [0, 0, 50, 20]}, "all")
    made, space = task_of("visual-wake-words", folder, Preparation((16, 24), 3, classes=("dog",)))
    assert made.classes == ("dog", "no dog") and (made.labels == 0).sum() == COUNT / 4
    assert space.sizes == ((16, 24),)
    with pytest.raises(CompileError, match="visual wake words has one class, not 2"):
        task_of("visual-wake-words", folder, Preparation((16, 24), 3, classes=("dog", "person")))


def test_a_faulty_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    for number, (boxes, wanted, why) in enumerate(
        (
            ({0: [0, 0, 50, 20]}, "cat", "no box has the class 'cat'; give one of dog, person"),
            ({0: [0, 0, 50, 20]}, "person", "class 'person' has"),
            ({0: [200, 0, 50, 20]}, "person", "has a box outside its 40 rows and 100 columns"),
            ({0: [10, 0, -1, 20]}, "person", "has an empty box"),
        )
    ):
        with pytest.raises(CompileError, match=why):
            read_visual_wake_words(coco(tmp_path / str(number), boxes, "all"), (8, 8), label=wanted)
    folder = coco(tmp_path / "size", {n: [0, 0, 50, 20] for n in range(0, COUNT, 2)}, "all")
    Image.new("RGB", (COLUMNS, ROWS + 1)).save(folder / "images" / "7.png")
    with pytest.raises(CompileError, match=r"7\.png' is 41 x 100, its annotation says 40 x 100"):
        read_visual_wake_words(folder, (8, 8))
    with pytest.raises(CompileError, match="is not a folder"):
        read_visual_wake_words(tmp_path / "none", (8, 8))


def test_an_image_whose_annotation_lacks_its_size_is_opened(tmp_path: Path) -> None:
    Image.new("RGB", (COLUMNS, ROWS)).save(tmp_path / "a.png")
    for share, answer in ((LEAST, True), (LEAST - 1, False)):
        box = LabelledBox("person", 1, 2, 2, 2 + share)
        assert shows(Annotated(tmp_path / "a.png", None, (box,)), "person") is answer


@pytest.mark.shared
def test_a_real_folder_has_its_counts_of_both_classes(shared: Path) -> None:
    made = read_visual_wake_words(shared / "data" / "person_voc", (48, 48))
    assert made.classes == ("no person", "person") and np.bincount(made.labels).tolist() == [132, 209]

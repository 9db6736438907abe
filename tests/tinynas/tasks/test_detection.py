"""Data sets of boxes: VOC and COCO folders, letterboxes, anchors, and one-line messages about faulty folders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tinynas.tasks.annotations import COUNTED, CROWD, DIFFICULT, read_annotations
from tinynas.tasks.boxes import head_of
from tinynas.tasks.dataset import PARTS, part_of
from tinynas.tasks.detection import boxes_of, k_means, read_detection, shape_overlaps
from tinyweave.ir import CompileError

ROWS, COLUMNS, COUNT = 40, 80, 40
EDGES = "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>"
OBJECT = f"<object><name>{{}}</name><difficult>{{}}</difficult>{EDGES}</object>"
INSIDE = ("cat", 0, 11, 6, 30, 25)  # columns 10 .. 30, rows 5 .. 25
XML = "<annotation><filename>{}.jpg</filename><size><width>{}</width><height>{}</height><depth>3</depth></size>{}</annotation>"


def image(path: Path, rows: int = ROWS, columns: int = COLUMNS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((rows, columns, 3), np.uint8)
    pixels[5:25, 10:30] = 255
    Image.fromarray(pixels).save(path)


def annotation(folder: Path, name: str, *objects: tuple[Any, ...], columns: int = COLUMNS, rows: int = ROWS) -> Path:
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    text = XML.format(name, columns, rows, "".join(OBJECT.format(*each) for each in objects))
    (folder / "annotations" / f"{name}.xml").write_text(text)
    return folder


def voc(folder: Path, *more: tuple[Any, ...], count: int = COUNT) -> Path:
    for number in range(count):
        image(folder / "images" / f"{number}.png")
        annotation(folder, str(number), INSIDE, *more)
    return folder


def coco(folder: Path, change: Callable[[dict[str, Any]], None] = lambda record: None) -> Path:
    boxes = [{"id": n, "image_id": n, "category_id": 7, "bbox": [10, 5, 20, 20], "iscrowd": 0} for n in range(COUNT)]
    images = [{"id": n, "file_name": f"{n}.png", "height": ROWS, "width": COLUMNS} for n in range(COUNT)]
    record = {"images": images, "annotations": boxes, "categories": [{"id": 7, "name": "cat"}]}
    change(record)
    for number in range(COUNT):
        image(folder / "images" / f"{number}.png")
    (folder / "instances.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize("make", [voc, coco])
def test_boxes_are_scaled_with_their_letterboxed_image(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    made = read_detection(make(tmp_path), (64, 32), anchors=3, stride=16)
    assert made.kind == "detection" and made.classes == ("cat",) and made.values.shape == (COUNT, 64, 32, 3)
    np.testing.assert_array_equal(made.labels, np.tile(np.float32([0, 26, 4, 34, 12, COUNTED]), (COUNT, 1, 1)))
    sample = made.values[0, ..., 0].astype(int)
    assert (sample[:24] == 0).all() and (sample[40:] == 0).all(), "grey above and below"
    bright = np.argwhere(sample > 0)
    assert (bright.min(axis=0) - (26, 4)).tolist() in ([0, 0], [-1, -1]) and (bright.max(axis=0) - (33, 11)).max() <= 1
    assert [PARTS[part] for part in made.parts[:5]] == [part_of(f"images/{name}.png") for name in (0, 1, 10, 11, 12)]
    assert made.preparation["anchors"] == [[8, 8]] and made.preparation["stride"] == 16, "all boxes are alike"
    head = head_of(made)
    assert head is not None and head.shape == (4, 2, 5) and head.anchors == ((8.0, 8.0),)


def test_only_the_requested_classes_are_read(tmp_path: Path) -> None:
    voc(tmp_path, ("dog", 0, 1, 1, 80, 40), ("ant", 0, 71, 31, 99, 50))
    made = read_detection(tmp_path, (40, 80), stride=8, classes=("dog", "ant"))
    assert made.classes == ("dog", "ant")
    np.testing.assert_array_equal(made.labels[0], [[0, 0, 0, 40, 80, 0], [1, 30, 70, 40, 80, 0]], "clipped to the image")


def test_crowds_and_difficult_boxes_are_marked(tmp_path: Path) -> None:
    voc(tmp_path / "a", ("cat", 1, 1, 1, 80, 40))
    assert boxes_of(read_detection(tmp_path / "a", (40, 80), stride=8).labels[0])[:, 5].tolist() == [COUNTED, DIFFICULT]

    def crowd(record: dict[str, Any]) -> None:
        record["annotations"].append({"id": 99, "image_id": 3, "category_id": 7, "bbox": [0, 0, 80, 40], "iscrowd": 1})

    made = read_detection(coco(tmp_path / "b", crowd), (40, 80), stride=8, anchors=4)
    assert [len(boxes_of(labels)) for labels in made.labels].count(2) == 1 and made.labels[..., 5].max() == CROWD
    assert made.preparation["anchors"] == [[20, 20]], "a crowd is no shape of a thing"


def test_boxes_of_coco_without_height_or_width_are_left_out(tmp_path: Path) -> None:
    def flat(record: dict[str, Any]) -> None:
        record["annotations"] += [
            {"id": 90 + side, "image_id": 3, "category_id": 7, "bbox": [1, 2, *((3, 0) if side else (0, 3))]} for side in (0, 1)
        ]

    with_flat, without = (
        read_detection(coco(tmp_path / name, change), (40, 80), stride=8)
        for name, change in (("a", flat), ("b", lambda record: None))
    )
    np.testing.assert_array_equal(with_flat.labels, without.labels)


def test_images_without_boxes_are_kept_those_without_annotation_are_not(tmp_path: Path) -> None:
    voc(tmp_path)
    image(tmp_path / "images" / "empty.png")
    assert len(read_annotations(tmp_path)) == COUNT
    annotation(tmp_path, "empty")
    made = read_detection(tmp_path, (40, 80), stride=8)
    assert len(made.values) == COUNT + 1 and sum(len(boxes_of(each)) == 0 for each in made.labels) == 1


def test_lists_of_imagesets_give_the_parts(tmp_path: Path) -> None:
    voc(tmp_path)
    lists = tmp_path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "train.txt").write_text("\n".join(f"{n} 1" for n in range(25)))
    (lists / "val.txt").write_text("\n".join(str(n) for n in range(25, 35)))
    made = read_detection(tmp_path, (40, 80), stride=8)
    assert made.counts()["test"] == 10 and made.counts()["train"] + made.counts()["validation"] == 25
    (lists / "test.txt").write_text("\n".join(str(n) for n in range(35, 40)))
    assert read_detection(tmp_path, (40, 80), stride=8).counts() == {"train": 25, "validation": 10, "test": 5}


@pytest.mark.parametrize("wrong", [{"anchors": 0}, {"stride": 0}, {"stride": -8}])
def test_a_number_of_anchors_or_a_stride_of_0_is_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(CompileError, match=r"anchors with a stride of .* pixels are out of range; give whole numbers above 0"):
        read_detection(voc(tmp_path), (40, 80), **{"stride": 8, **wrong})


def test_an_annotation_names_an_image_of_its_folder(tmp_path: Path) -> None:
    annotation(tmp_path, "one")
    file = tmp_path / "annotations" / "one.xml"
    image(tmp_path / "images" / "photo.png")
    image(tmp_path / "outside.png")
    for named in ("../outside.png", str(tmp_path / "outside.png"), ""):
        file.write_text(re.sub("<filename>.*</filename>", f"<filename>{named}</filename>", file.read_text()))
        with pytest.raises(CompileError, match=r"one.xml' has no image one\.jpg in .*; add the image, or delete"):
            read_annotations(tmp_path)
    file.write_text(file.read_text().replace("<filename></filename>", "<filename>photo.png</filename>"))
    assert [each.path for each in read_annotations(tmp_path)] == [tmp_path / "images" / "photo.png"]
    image(tmp_path / "images" / "one.png")
    assert [each.path for each in read_annotations(tmp_path)] == [tmp_path / "images" / "one.png"]


@pytest.mark.parametrize("name", ["latest.json", "retrieval.json", "restrained.json"])
def test_a_file_name_that_only_contains_train_or_val_gives_no_part(tmp_path: Path, name: str) -> None:
    (coco(tmp_path) / "instances.json").rename(tmp_path / name)
    assert {image.part for image in read_annotations(tmp_path)} == {None}


def test_names_of_coco_files_give_the_parts(tmp_path: Path) -> None:
    coco(tmp_path)
    record = json.loads((tmp_path / "instances.json").read_text())
    (tmp_path / "instances.json").unlink()
    (tmp_path / "annotations").mkdir()
    for name, part in (("train2017", slice(0, 30)), ("val2017", slice(30, None))):
        own = {**record, "images": record["images"][part], "annotations": record["annotations"][part]}
        (tmp_path / "annotations" / f"instances_{name}.json").write_text(json.dumps(own))
        for entry in own["images"]:
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / "images" / entry["file_name"]).rename(tmp_path / name / entry["file_name"])
    counts = read_detection(tmp_path, (40, 80), stride=8).counts()
    assert counts["test"] == 10 and counts["train"] + counts["validation"] == 30


def test_k_means_finds_the_shapes_of_boxes_as_anchors() -> None:
    rng = np.random.default_rng(3)
    true = np.array([[4.0, 20.0], [20.0, 8.0], [60.0, 50.0]])
    sides = np.concatenate([shape * rng.uniform(0.9, 1.1, (50, 2)) for shape in true])
    anchors = k_means(rng.permutation(sides), 3)
    np.testing.assert_allclose(anchors, true, rtol=0.05)
    np.testing.assert_allclose(k_means(rng.permutation(sides), 3), anchors, rtol=1e-12, err_msg="in any order")
    assert (
        shape_overlaps(sides, k_means(sides, 9)).max(axis=1).mean() > shape_overlaps(sides, anchors).max(axis=1).mean() > 0.85
    )
    assert k_means(np.array([[3.0, 4.0]] * 5), 5).tolist() == [[3, 4]]
    assert shape_overlaps(np.array([[2.0, 2.0]]), np.array([[4.0, 1.0], [2.0, 2.0]])).tolist() == [[2 / 6, 1]]


def test_only_boxes_of_the_training_part_give_the_anchors(tmp_path: Path) -> None:
    before = read_detection(voc(tmp_path), (40, 80), anchors=2, stride=8)
    for name in range(COUNT):
        if part_of(f"images/{name}.png") != "train":
            annotation(tmp_path, str(name), ("cat", 0, 1, 1, 80, 40))
    after = read_detection(tmp_path, (40, 80), anchors=2, stride=8)
    assert after.preparation == before.preparation and (after.labels != before.labels).any()


def test_an_anchor_has_sides_above_0(tmp_path: Path) -> None:
    """Boxes may be far below a pixel in the network's image. An anchor of 0 could not grow, in training or in C."""

    def tiny(record: dict[str, Any]) -> None:
        for entry in record["annotations"]:
            entry["bbox"] = [10, 5, 0.003, 0.003]

    head = head_of(read_detection(coco(tmp_path, tiny), (16, 16), anchors=3, stride=8))
    assert head is not None and min(min(sides) for sides in head.anchors) > 0 and head.units.min() >= 1


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><annotation><filename>&c;</filename></annotation>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><annotation><filename>&b;</filename></annotation>'


def written(folder: Path, text: str | bytes) -> Path:
    (voc(folder) / "annotations" / "5.xml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def changed(path: str, value: object) -> Callable[[Path], Path]:
    def change(record: dict[str, Any]) -> None:
        *way, last = path.split("/")
        at: Any = record
        for key in way:
            at = at[int(key)] if isinstance(at, list) else at[key]
        at[int(last) if isinstance(at, list) else last] = value

    return lambda folder: coco(folder, change)


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no folder": (lambda p: p / "none", "is not a folder; give a folder with annotations"),
    "nothing": (lambda p: p, "holds no annotations"),
    "no boxes": (lambda p: (annotation(voc(p, count=0), "1", columns=0) and image(p / "images" / "1.png")) or p, "has no box"),
    "no image": (lambda p: annotation(voc(p), "x", INSIDE), "x.xml' has no image x.jpg in"),
    "not an image": (lambda p: (voc(p) / "images" / "3.png").write_text("no") and p, "3.png' cannot be read as an image"),
    "empty box": (
        lambda p: annotation(voc(p), "3", ("cat", 0, 9, 9, 8, 20)),
        "3.png' has an empty box: cat, rows 8 to 20, columns",
    ),
    "outside": (
        lambda p: annotation(voc(p), "3", ("cat", 0, 81, 9, 99, 20)),
        "has a box outside its 40 rows and 80 columns: cat",
    ),
    "not a number": (lambda p: annotation(voc(p), "3", ("cat", 0, "x", 9, 99, 20)), "3.xml' has a box with the coordinate 'x'"),
    "no number": (lambda p: annotation(voc(p), "3", ("cat", 0, "nan", 9, 99, 20)), "has a box with the coordinate 'nan'"),
    "too far": (lambda p: annotation(voc(p), "3", ("cat", 0, 1, 9, "1e9", 20)), "has a box with the coordinate '1e9'"),
    "no name": (lambda p: annotation(voc(p), "3", ("", 0, 1, 9, 9, 20)), "has a box without a name"),
    "other size": (lambda p: annotation(voc(p), "3", INSIDE, columns=90), "3.png' is 40 x 80, its annotation says 40 x 90"),
    "size": (lambda p: annotation(voc(p), "3", INSIDE, columns=1.5), "an image has '1.5' rows or columns"),
    "no size": (lambda p: annotation(voc(p), "3", INSIDE, columns="x"), "3.xml' says that an image has 'x' rows or columns"),
    "few": (lambda p: annotation(voc(p), "3", ("rare", 0, 1, 1, 9, 9)), r"class 'rare' has \d box(es)? for"),
    "difficult": (lambda p: voc(p, ("dog", 1, 1, 1, 9, 9)), "class 'dog' has 0 boxes for train; add files"),
    "not XML": (lambda p: written(p, "<annotation>"), "5.xml' is not XML: no element found"),
    "encoding": (lambda p: written(p, '<?xml version="1.0" encoding="x"?><a/>'), "5.xml' is not XML: unknown encoding"),
    "bomb": (lambda p: written(p, BOMB), "5.xml' declares a document type; delete it"),
    "bomb in UTF-16": (lambda p: written(p, BOMB.encode("utf-16")), "5.xml' declares a document type; delete it"),
    "entity": (lambda p: written(p, OUTSIDE), "5.xml' declares a document type; delete it"),
    "not JSON": (
        lambda p: (coco(p) / "instances.json").write_text("{") and p,
        "instances.json' is not a COCO file: JSONDecodeError",
    ),
    "deep": (lambda p: (coco(p) / "instances.json").write_text("[" * 99999) and p, "is not a COCO file: RecursionError"),
    "no list": (changed("images", 5), "is not a COCO file: TypeError"),
    "no key": (changed("annotations/3", {}), "is not a COCO file: KeyError 'image_id'"),
    "three sides": (changed("annotations/3/bbox", [1, 2, 3]), "is not a COCO file: ValueError"),
    "text": (changed("annotations/3/bbox", [1, 2, 3, None]), "instances.json' has a box with the coordinate 'None'"),
    "infinite": (changed("annotations/3/bbox", [1, 2, 3, float("inf")]), "has a box with the coordinate 'inf'"),
    "huge": (changed("annotations/3/bbox", [1, 2, 3, 10**400]), "has a box with the coordinate '10000000000000000000'"),
    "huge image": (changed("images/3/height", 10**400), "says that an image has '10000000000000000000' rows or columns"),
    "less than nothing": (changed("annotations/3/bbox", [1, 2, 3, -1]), "3.png' has an empty box: cat, rows 2 to 1"),
    "other image": (changed("annotations/3/image_id", 999), "has a box of the image 999, which it does not list"),
    "other class": (changed("annotations/3/category_id", 999), "is not a COCO file: KeyError 999"),
    "list id": (changed("annotations/3/image_id", [1]), r"is not a COCO file: ValueError an id is \[1\]"),
    "gone": (changed("images/3/file_name", "gone.png"), "names 'gone.png', which is not in"),
    "long name": (changed("images/3/file_name", "a" * 300), f"names '{'a' * 60}', which is not in"),
    "long name in XML": (
        lambda p: written(p, f"<a><filename>{'a' * 300}</filename></a>").joinpath("images/5.png").unlink() or p,
        "5.xml' has no image",
    ),
    "above": (changed("images/3/file_name", "../../3.png"), "names the image '../../3.png'; give a path inside the folder"),
    "absolute": (changed("images/3/file_name", "/etc/passwd"), "names the image '/etc/passwd'; give a path inside the folder"),
    "twice": (changed("images/3/file_name", "4.png"), "annotates an image twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_faulty_folder_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(CompileError, match=message) as error:
        read_detection(make(tmp_path), (40, 80), stride=8)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"classes": ("cow",)}, "no box has the class 'cow'; give some of cat"),
        ({"classes": ("cat", "cat")}, "classes names a class twice"),
        ({"stride": 16}, "images of 40 x 80 are no multiple of the stride, 16 pixels; give multiples of 16"),
    ],
)
def test_faulty_options_are_refused(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        read_detection(voc(tmp_path), (40, 80), **{"stride": 8, **given})


def test_real_folders_have_their_published_counts(shared: Path) -> None:
    people = read_annotations(shared / "data" / "person_voc")
    faces = read_annotations(shared / "data" / "face_mask_voc")
    assert (len(people), sum(len(each.boxes) for each in people)) == (341, 817)
    assert (len(faces), sum(len(each.boxes) for each in faces)) == (713, 3121 + 123 + 666)

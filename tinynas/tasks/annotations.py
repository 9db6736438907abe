"""Annotated images: VOC folders (an XML file per image) and COCO folders (a JSON file). In: a folder. Out: Annotated images.

Untrusted: XML with a document type is an error. Sources: the kit of PASCAL VOC 2012, the data format of cocodataset.org.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from tinyweave.ir import CompileError
from tinyweave.support.files import check_inside, read_file
from tinyweave.support.media import IMAGES, MEND

from .dataset import MAX_FILES, PART_NAMES, listed

COUNTED, DIFFICULT, CROWD = 0, 1, 2  # flags of a box: counts for precision; ignored; a group of objects, ignored
XML_FOLDERS, IMAGE_FOLDERS = ("annotations", "Annotations"), ("images", "JPEGImages")
LISTS = Path("ImageSets", "Main")
MAX_XML, MAX_JSON = 1 << 20, 1 << 30  # bytes
MAX_PIXELS = 1 << 20  # limit of a coordinate
FORMS = "give a folder with annotations/*.xml and images/, or with COCO's .json file beside its images"


class LabelledBox(NamedTuple):
    """A labelled box in pixels of its image, from 0; bottom and right are exclusive. `flag` is COUNTED, DIFFICULT or CROWD."""

    label: str
    top: float
    left: float
    bottom: float
    right: float
    flag: int = COUNTED


@dataclass(frozen=True)
class Annotated:
    """An image file with its labelled boxes."""

    path: Path
    size: tuple[int, int] | None  # rows and columns according to the annotation; None if it does not state them
    boxes: tuple[LabelledBox, ...]
    part: str | None = None  # part, from a VOC list or the name of the COCO file; None if neither says it


def read_annotations(folder: Path) -> list[Annotated]:
    """Return the annotated images of a VOC or COCO folder, sorted by path. Images without an annotation are skipped.

    Images that no list of a VOC folder's ImageSets/Main names are skipped, too. A validation part without a test part becomes
    the test part. Raise CompileError if there are no annotations, one is faulty, or an image is missing or annotated twice.
    """
    if not folder.is_dir():
        raise CompileError(f"'{folder}' is not a folder", FORMS)
    files = sorted([*folder.glob("*.json"), *folder.glob("annotations/*.json")])
    voc = next((found for name in XML_FOLDERS if (found := sorted((folder / name).glob("*.xml")))), [])
    check_inside(folder, voc or files)
    if voc:
        images = _voc(folder, voc)
    elif files:
        images = [image for file in files for image in _coco(folder, file)]
        if len({image.path for image in images}) < len(images):
            raise CompileError(f"'{folder}' annotates an image twice", "put all boxes of an image into one .json file")
    else:
        raise CompileError(f"'{folder}' holds no annotations", FORMS)
    check_inside(folder, [image.path for image in images])
    return sorted(_with_a_test(images), key=lambda image: image.path)


def _voc(folder: Path, files: Sequence[Path]) -> list[Annotated]:
    """Read VOC annotations, whose coordinates count pixels from 1 and include the last pixel."""
    if len(files) > MAX_FILES:
        raise CompileError(f"'{folder}' holds {len(files):,} annotations", f"at most {MAX_FILES:,} are supported")
    images = next((folder / name for name in IMAGE_FOLDERS if (folder / name).is_dir()), folder)
    parts = listed(folder / LISTS, {f"{name}.txt": part for name, part in PART_NAMES.items()}, lambda line: line.split()[0])
    annotated = []
    for file in files:
        root = _xml(file)
        size = [_side(file, root.findtext(f"size/{side}") or "0") for side in ("height", "width")]
        boxes = []
        for item in root.iterfind("object"):
            label = (item.findtext("name") or "").strip()
            sides = [_coordinate(file, item.findtext(f"bndbox/{side}")) for side in ("ymin", "xmin", "ymax", "xmax")]
            flag = DIFFICULT if (item.findtext("difficult") or "").strip() == "1" else COUNTED
            boxes.append(LabelledBox(label, sides[0] - 1, sides[1] - 1, sides[2], sides[3], flag))
        path = _image(images, (root.findtext("filename") or "").strip(), file)
        if not parts or file.stem in parts:
            annotated.append(Annotated(path, (size[0], size[1]) if all(size) else None, tuple(boxes), parts.get(file.stem)))
    return annotated


def _image(images: Path, named: str, file: Path) -> Path:
    """Return the image of an annotation: the file of the same name, else that `named` in it; raise CompileError if none."""
    own = [images / f"{file.stem}{suffix}" for suffix in IMAGES]
    inside = [images / named] if Path(named).name == named and named else []
    path = _first_file([*own, *inside])
    if path is None:
        raise CompileError(
            f"'{file}' has no image {file.stem}{IMAGES[1]} in '{images}'", "add the image, or delete the annotation"
        )
    return path


def _first_file(paths: Sequence[Path]) -> Path | None:
    """Return the first path that is a file, or None. Paths that are too long or not accessible are skipped."""
    for path in paths:
        with suppress(OSError):
            if path.is_file():
                return path
    return None


def _with_a_test(images: list[Annotated]) -> list[Annotated]:
    """Use the validation part as test part if there is none: published data sets often withhold the test part."""
    parts = {image.part for image in images}
    if "validation" not in parts or "test" in parts:
        return images
    return [replace(image, part="test") if image.part == "validation" else image for image in images]


def _xml(path: Path) -> Element:
    """Return the root of an XML file; raise CompileError if it declares a document type."""
    raw = read_file(path, MAX_XML, MEND)
    builder, parser = TreeBuilder(), expat.ParserCreate()

    def refuse(*_: object) -> NoReturn:
        raise CompileError(f"'{path}' declares a document type", "delete its <!DOCTYPE> declaration")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(raw, True)
        return builder.close()
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise CompileError(f"'{path}' is not XML: {error}", MEND) from error


def _coordinate(path: Path, value: Any, text: str = "has a box with the coordinate {!r}") -> float:
    """Return a coordinate in pixels; raise CompileError with the message `text` if it is not a number or too large."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and abs(number := float(value)) <= MAX_PIXELS:
            return number
    raise CompileError(f"'{path}' {text.format(str(value)[:20])}", MEND)


def _side(path: Path, value: Any) -> int:
    """Return the rows or columns of an image, 0 for unknown; raise CompileError if they are not a whole number."""
    text = "says that an image has {!r} rows or columns"
    number = _coordinate(path, value, text)
    if number < 0 or number % 1:
        raise CompileError(f"'{path}' {text.format(str(value)[:20])}", MEND)
    return int(number)


def _coco(folder: Path, file: Path) -> list[Annotated]:
    """Read a COCO file, without empty boxes [left, top, width, height]; its name may set the part of its images."""
    try:
        record = json.loads(read_file(file, MAX_JSON, MEND))
        labels = {_key(category["id"]): str(category["name"]) for category in record["categories"]}
        images = {_key(image["id"]): image for image in record["images"]}
        boxes = dict[Any, list[LabelledBox]]()
        for entry in record["annotations"]:
            if _key(entry["image_id"]) not in images:
                raise CompileError(f"'{file}' has a box of the image {entry['image_id']}, which it does not list", MEND)
            left, top, width, height = (_coordinate(file, value) for value in entry["bbox"])
            if 0 in (width, height):  # the published files have a few such boxes
                continue
            flag = CROWD if entry.get("iscrowd") else COUNTED
            box = LabelledBox(labels[_key(entry["category_id"])], top, left, top + height, left + width, flag)
            boxes.setdefault(entry["image_id"], []).append(box)
        words = re.findall("[a-z]+", file.stem.lower())  # latest.json and retrieval.json name no part
        part = next((PART_NAMES[word] for word in words if word in PART_NAMES), None)
        return [_of_coco(folder, file, image, tuple(boxes.get(key, ())), part) for key, image in images.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"{type(error).__name__} {error}".replace("\n", " ")[:80]
        raise CompileError(f"'{file}' is not a COCO file: {said}", FORMS) from error


def _key(value: Any) -> int | str:
    """Return an identifier unchanged; raise ValueError if it is neither an integer nor a string."""
    if type(value) not in (int, str):
        raise ValueError(f"an id is {str(value)[:20]}")
    return str(value) if isinstance(value, str) else int(value)


def _of_coco(folder: Path, file: Path, image: Mapping[str, Any], boxes: tuple[LabelledBox, ...], part: str | None) -> Annotated:
    """Return one image of a COCO file; raise CompileError if its path leads out of the folder or to no file."""
    name = str(image["file_name"])
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts or not parts:
        raise CompileError(f"'{file}' names the image '{name[:60]}'", "give a path inside the folder")
    split = file.stem.removeprefix("instances_")
    places = (folder / "images" / name, folder / "images" / split / name, folder / split / name, folder / name)
    path = _first_file(places)
    if path is None:
        raise CompileError(f"'{file}' names '{name[:60]}', which is not in '{folder}'", "add the image, or delete its entry")
    size = (_side(file, image.get("height", 0)), _side(file, image.get("width", 0)))
    return Annotated(path, size if all(size) else None, boxes, part)

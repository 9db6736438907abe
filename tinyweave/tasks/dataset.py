"""Labelled samples, split into parts for training, validation and test. In: a folder. Out: a Dataset.

The network's input is int8, and a value v stands for v / 128, so that the device computes nothing before the first layer.
A file's part follows from the hash of its name, as in Speech Commands (arXiv 1804.03209): new files move no other file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import read_file
from ..ir import CompileError
from ..progress import Progress, silent

PARTS = ("train", "validation", "test")
PART_NAMES = {"val": "validation", **{name: name for name in PARTS}}
VALIDATION, TEST = 0.15, 0.2  # of all samples
MAX_FILES = 1 << 20
MAX_LIST = 1 << 26  # bytes of a list of files
MAX_BYTES = 1 << 33  # of all samples as the network takes them
RESIZED = 256  # samples at once
MIN_OF_CLASS = 5  # samples of each class in training; fewer teach nothing
SCALE = 1 / 128  # real value of one step of the network's input
FOLDERS = "give a folder that has a folder of files for each class"
PLURALS = {"sample": "samples", "box": "boxes"}
ONE_LABEL = "a network that tells classes apart needs two"


@dataclass(frozen=True, eq=False)
class Dataset:
    """values: int8 [samples, rows, columns, channels]. parts: [samples], indices in PARTS.

    labels: [samples], indices in classes; for detection boxes [samples, most boxes of an image, 6], see `detection.BOX`.
    preparation: what was done to the values of the files, which firmware must do, too; it goes into JSON as it is.
    """

    kind: str
    classes: tuple[str, ...]
    values: NDArray[np.int8]
    labels: NDArray[Any]
    parts: NDArray[np.uint8]
    preparation: Mapping[str, Any]

    def part(self, name: str) -> tuple[NDArray[np.int8], NDArray[Any]]:
        """Return the samples and the labels of one part."""
        chosen = np.flatnonzero(self.parts == PARTS.index(name))
        return self.values[chosen], self.labels[chosen]

    def counts(self) -> dict[str, int]:
        """Return the number of samples by part."""
        return {name: int((self.parts == number).sum()) for number, name in enumerate(PARTS)}


def sized(data: Dataset, size: tuple[int, int]) -> Dataset:
    """Return the data set with images of another size (rows, columns); a pixel is the rounded mean of those that it covers.

    Pixel i covers what it does in torch's interpolation by area: floor(i * side / new) up to ceil((i + 1) * side / new).
    """
    if data.values.shape[1:3] == size:
        return data
    values = np.empty((len(data.values), *size, data.values.shape[3]), np.int8)
    for first in range(0, len(values), RESIZED):
        sums, count = data.values[first : first + RESIZED].astype(np.int64), 1
        for axis, new in ((1, size[0]), (2, size[1])):
            side, at = sums.shape[axis], np.arange(new)
            begin, end = at * side // new, -(-(at + 1) * side // new)
            before = np.insert(np.cumsum(sums, axis), 0, 0, axis)
            sums = before.take(end, axis) - before.take(begin, axis)
            count = count * (end - begin).reshape([-1 if other == axis else 1 for other in range(4)])
        values[first : first + RESIZED] = (2 * sums + count) // (2 * count)
    prepared = {**data.preparation, "size": list(size)} if "size" in data.preparation else data.preparation
    return replace(data, values=values, preparation=prepared)


@dataclass(frozen=True)
class LabelledFile:
    """A file, its class, and the part it must be in; None: the hash of `group` says."""

    path: Path
    label: str
    group: str
    part: str | None = None


def share_of(group: str) -> float:
    """Return a number from 0 to 1 that follows from a name alone: the lowest mean test, the next validation."""
    return int(hashlib.sha1(group.encode(), usedforsecurity=False).hexdigest()[:12], 16) / 16**12


def part_of(group: str) -> str:
    """Return the part of all samples of a group, by the hash of its name: a file, or the person who made several."""
    share = share_of(group)
    return "test" if share < TEST else "validation" if share < TEST + VALIDATION else "train"


def files_of(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files of a folder and of all folders below it, sorted by path; raise CompileError where there are none."""
    if not folder.is_dir():
        raise CompileError(f"'{folder}' is no folder", FOLDERS)
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
    if not paths:
        raise CompileError(f"'{folder}' holds no files {', '.join(suffixes)}", FOLDERS)
    if len(paths) > MAX_FILES:
        raise CompileError(f"'{folder}' holds {len(paths):,} files", f"at most {MAX_FILES:,} are supported")
    return paths


def by_folder(folder: Path, suffixes: Sequence[str], group_of: Callable[[str], str] = str) -> list[LabelledFile]:
    """Return files whose folder is their class; folders above it named `train`, `validation`, `val` or `test` say the part.

    group_of: takes a path below `folder`, and returns the name whose hash decides where no folder does; by default the path.
    """
    labelled = []
    for path in files_of(folder, suffixes):
        *above, label = path.relative_to(folder).parent.parts or ("",)
        if not label:
            raise CompileError(f"'{path}' lies in no class's folder", "put it into one, whose name is its class")
        part = next((PART_NAMES[name.lower()] for name in above if name.lower() in PART_NAMES), None)
        labelled.append(LabelledFile(path, label, group_of(path.relative_to(folder).as_posix()), part))
    return with_all_parts(labelled)


def listed(folder: Path, lists: Mapping[str, str], name_of: Callable[[str], str] = str.strip) -> dict[str, str]:
    """Return the part of each file that lists of a folder name; empty where there are none.

    lists: the part by the list's name. name_of: returns what a line names.
    """
    parts = dict[str, str]()
    for name, part in lists.items():
        if (folder / name).is_file():
            lines = read_file(folder / name, MAX_LIST, "mend it, or take it away").decode(errors="replace").splitlines()
            parts |= {name_of(line): part for line in lines if line.strip()}
    return parts


def with_all_parts(files: list[LabelledFile]) -> list[LabelledFile]:
    """Return files whose parts are complete or left to the hash.

    If they name training alone, or no part, the hash splits all of them; if they name no validation, it takes some of training.
    """
    named = {file.part for file in files} - {None}
    if named <= {"train"}:
        return [replace(file, part=None) for file in files]
    if "validation" in named:
        return files
    moved = {file.path for file in files if file.part == "train" and part_of(file.group) == "validation"}
    return [replace(file, part="validation") if file.path in moved else file for file in files]


def parts_of(files: Sequence[LabelledFile]) -> list[str]:
    """Return the part of each file.

    If a class has so few files that none falls into the test, or into validation, its group with the lowest hash goes there,
    but no group that has files of other classes, too, and nothing where folders or lists say the parts.
    """
    parts = [file.part or part_of(file.group) for file in files]
    if any(file.part for file in files):
        return parts
    by_class, makers = dict[str, list[int]](), dict[str, set[str]]()
    for index, file in enumerate(files):
        by_class.setdefault(file.label, []).append(index)
        makers.setdefault(file.group, set()).add(file.label)
    for own, part in product(by_class.values(), ("test", "validation")):
        if all(parts[index] != part for index in own):
            spare = {files[i].group for i in own if parts[i] == "train" and len(makers[files[i].group]) == 1}
            moved = min(spare, key=share_of) if len(spare) > MIN_OF_CLASS else None
            for index in own:
                parts[index] = part if files[index].group == moved else parts[index]
    return parts


def dataset(
    kind: str,
    files: Sequence[LabelledFile],
    read: Callable[[Path], NDArray[np.int8]],
    preparation: Mapping[str, Any],
    progress: Progress = silent,
) -> Dataset:
    """Return the samples of files; `read` returns one as int8 [rows, columns, channels], all of the same shape.

    Raise CompileError where there is only one class, or a class without enough samples in a part.
    """
    classes = tuple(sorted({file.label for file in files}))
    parts = parts_of(files)
    check_classes(classes, [file.label for file in files], parts)
    sample = read(files[0].path)
    if sample.nbytes * len(files) > MAX_BYTES:
        raise CompileError(f"{len(files):,} samples of {sample.nbytes:,} B are too many", "give fewer, or smaller ones")
    values = np.empty((len(files), *sample.shape), np.int8)
    for index, file in enumerate(files):
        values[index] = read(file.path)
        progress(f"reading {kind}", index + 1, len(files))
    labels = np.array([classes.index(file.label) for file in files])
    return Dataset(kind, classes, values, labels, np.array([PARTS.index(part) for part in parts], np.uint8), preparation)


def check_classes(classes: Sequence[str], labels: Sequence[str], parts: Sequence[str]) -> None:
    """Raise CompileError where there is one class only, or a class that training, validation or test does not see."""
    if len(classes) < 2:
        raise CompileError(f"there is one class only, '{classes[0]}'", ONE_LABEL)
    check_counts(classes, labels, parts, "sample")


def check_counts(classes: Sequence[str], labels: Sequence[str], parts: Sequence[str], what: str) -> None:
    """Raise CompileError where training, validation or test has not enough of a class."""
    counts = Counter(zip(labels, parts, strict=True))
    for label, (part, needed) in product(classes, (("train", MIN_OF_CLASS), ("validation", 1), ("test", 1))):
        if (have := counts[label, part]) < needed:
            raise CompileError(
                f"class '{label}' has {have} {what if have == 1 else PLURALS[what]} for {part}",
                f"give it more files: at least {needed} for {part}; a fifth of all are for test",
            )

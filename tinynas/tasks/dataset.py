"""Labelled samples, split into training, validation and test. In: a folder. Out: a Dataset.

Samples are the network's int8 input, with scale 1 / 128. The hash of a group's name decides its part, as in Speech Commands
(arXiv 1804.03209), so new files do not move others, except by `topped_up`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.files import check_inside, read_file
from tinyweave.support.progress import Progress, silent

from .evaluation.intervals import too_few_groups

PARTS = ("train", "validation", "test")
PART_NAMES = {  # of folders, lists and cells -> part
    **{name: name for name in PARTS},
    "training": "train",
    **dict.fromkeys(("val", "valid"), "validation"),
    "testing": "test",
}
VALIDATION, TEST = 0.15, 0.2  # shares of all samples
MAX_FILES = 1 << 20
MAX_LIST = 1 << 26  # bytes of a list of files
MAX_BYTES = 1 << 33  # of all samples as int8
RESIZED_VALUES = 1 << 22  # most values that are resized at a time
MAX_DIGITS = 18  # of a number in a name; names with more digits are text
SURVEYED = 64  # most image files whose size `survey` reads
MIN_OF_CLASS = 5  # training samples per class at least
MIN_VALIDATION = 10  # validation files per class, if there are enough, see `topped_up`
MAX_SHARE = 4  # validation needs at most 1 / MAX_SHARE of the files of a class; whole groups may move more
FEW = 30  # a class with fewer samples is named in `advice`
SCALE = 1 / 128  # real value of one step of the network's input
FOLDERS = "give a folder with one subfolder of files per class"
PLURALS = {"sample": "samples", "box": "boxes"}
ONE_LABEL = "a classifier needs at least two: add another"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples of a task, each in the training, the validation or the test part."""

    kind: str  # "images", "sounds", "sensors" or "detection"
    classes: tuple[str, ...]
    values: NDArray[np.int8]  # [samples, rows, columns, channels]
    labels: NDArray[Any]  # class indices [samples]; for detection, boxes [samples, boxes, 6], see `detection.BOX`
    parts: NDArray[np.uint8]  # indices in PARTS, [samples]
    preparation: Mapping[str, Any]  # how files were converted to values, which firmware must do as well; JSON values
    groups: NDArray[np.int64] | None = None  # index of each sample's group (speaker, subject, recording); None: one each

    def part(self, *names: str) -> tuple[NDArray[np.int8], NDArray[Any]]:
        """Return the values and the labels of the samples in one or more parts: "train", "validation" or "test"."""
        chosen = np.flatnonzero(np.isin(self.parts, list(map(PARTS.index, names))))
        return self.values[chosen], self.labels[chosen]

    def groups_of(self, *names: str) -> NDArray[np.int64] | None:
        """Return the group (such as the speaker) of each sample of `part(*names)`; None if the samples are independent."""
        return None if self.groups is None else self.groups[np.isin(self.parts, list(map(PARTS.index, names)))]

    def counts(self) -> dict[str, int]:
        """Return the number of samples in each part, by the part's name."""
        return {name: int((self.parts == number).sum()) for number, name in enumerate(PARTS)}


@dataclass(frozen=True)
class Survey:
    """What is known of a task's samples before they are read: enough to choose the size of the network's input."""

    classes: int
    counts: Mapping[str, int]  # samples in each part, by the part's name
    size: tuple[int, int] = (0, 0)  # median rows and columns of the images; 0 if the samples are no images
    rate: int = 0  # of recordings, in Hz; 0 if the samples are no recordings


def survey(files: Sequence[LabelledFile], size_of: Callable[[Path], tuple[int, int]] | None = None, classes: int = 0) -> Survey:
    """Return the survey of labelled files, with `rate` 0; `size_of` (rows, columns) is called for up to SURVEYED images.

    If `classes` is 0, labels are counted, and CompileError is raised for a single class, or too few samples of one in a part.
    """
    labels, parts = [file.label for file in files], parts_of(files)
    if not classes:
        check_classes(sorted_classes(labels), labels, parts)
    counts = Counter(parts)
    sizes = [size_of(file.path) for file in files[:: -(-len(files) // SURVEYED)]] if size_of else [(0, 0)]
    rows, columns = (sorted(sides)[len(sides) // 2] for sides in zip(*sizes, strict=True))
    return Survey(classes or len(set(labels)), {part: counts[part] for part in PARTS}, (rows, columns))


def sized(data: Dataset, size: tuple[int, int]) -> Dataset:
    """Resize the images of a data set to `size` (rows, columns) by averaging pixels, see `pooled`."""
    if data.values.shape[1:3] == size:
        return data
    return replace(data, values=pooled(data.values, size), preparation=preparation_at(data, size))


def preparation_at(data: Dataset, size: tuple[int, int]) -> Mapping[str, Any]:
    """Return how files become samples of `size`; `averaged` is the size if `pooled` resizes the data set's samples to it."""
    if data.values.shape[1:3] == size:
        return data.preparation
    return {**data.preparation, "averaged": list(size)}


def pooled(values: NDArray[np.int8], size: tuple[int, int]) -> NDArray[np.int8]:
    """Resize samples [samples, rows, columns, channels] to `size` (rows, columns) by averaging values.

    Output i is the mean of the inputs floor(i * side / new) to ceil((i + 1) * side / new) - 1, as in torch's area
    interpolation, rounded to the nearest integer, ties upwards.
    """
    if values.shape[1:3] == size:
        return values
    means = np.empty((len(values), *size, values.shape[3]), np.int8)
    batch = max(1, RESIZED_VALUES // max(1, prod(values.shape[1:])))
    for first in range(0, len(values), batch):
        sums, count = values[first : first + batch].astype(np.int64), 1
        for axis, new in ((1, size[0]), (2, size[1])):
            side, at = sums.shape[axis], np.arange(new)
            begin, end = at * side // new, -(-(at + 1) * side // new)
            before = np.insert(np.cumsum(sums, axis), 0, 0, axis)
            sums = before.take(end, axis) - before.take(begin, axis)
            count = count * (end - begin).reshape([-1 if other == axis else 1 for other in range(4)])
        means[first : first + batch] = (2 * sums + count) // (2 * count)
    return means


@dataclass(frozen=True)
class LabelledFile:
    """A file that holds one sample, with its class."""

    path: Path
    label: str
    group: str  # files of one group are in the same part, which the hash of this name decides
    part: str | None = None  # overrides the hash


def share_of(group: str) -> float:
    """Return the hash of a group's name in 0 .. 1: below TEST it is test, below TEST + VALIDATION validation, else train."""
    return int(hashlib.sha1(group.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()[:12], 16) / 16**12


def part_of(group: str) -> str:
    """Return the part ("train", "validation" or "test") of a group of files, by the hash of its name."""
    share = share_of(group)
    return "test" if share < TEST else "validation" if share < TEST + VALIDATION else "train"


def files_of(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files with these suffixes below a folder, sorted, without dot files; raise CompileError if none."""
    if not folder.is_dir():
        raise CompileError(f"'{folder}' is not a folder", FOLDERS)
    paths = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in suffixes
        and not any(name.startswith(".") for name in path.relative_to(folder).parts)
        and path.is_file()
    )
    if not paths:
        raise CompileError(f"'{folder}' holds no files {', '.join(suffixes)}", FOLDERS)
    if len(paths) > MAX_FILES:
        raise CompileError(f"'{folder}' holds {len(paths):,} files", f"at most {MAX_FILES:,} are supported")
    check_inside(folder, paths)
    return paths


def by_folder(folder: Path, suffixes: Sequence[str], group_of: Callable[[str], str] = str) -> list[LabelledFile]:
    """Return the files below a folder, each labelled by the name of the folder that holds it.

    A folder further up named as in PART_NAMES sets the part. `group_of` maps a path below `folder` to its group, by default
    itself.
    """
    labelled = []
    for path in files_of(folder, suffixes):
        *above, label = path.relative_to(folder).parent.parts or ("",)
        if not label:
            raise CompileError(f"'{path}' is not in the folder of a class", "move it to a subfolder with the name of its class")
        part = next((PART_NAMES[name.lower()] for name in above if name.lower() in PART_NAMES), None)
        labelled.append(LabelledFile(path, label, group_of(path.relative_to(folder).as_posix()), part))
    return with_all_parts(labelled)


def listed(folder: Path, lists: Mapping[str, str], name_of: Callable[[str], str] = str.strip) -> dict[str, str]:
    """Return file name -> part, from lists (file name -> part) whose lines `name_of` reads; empty if none exists."""
    parts = dict[str, str]()
    for name, part in lists.items():
        if (folder / name).is_file():
            check_inside(folder, [folder / name])
            lines = read_file(folder / name, MAX_LIST, "repair it, or delete it").decode(errors="replace").splitlines()
            parts |= {name_of(line): part for line in lines if line.strip()}
    return parts


def with_all_parts(files: list[LabelledFile]) -> list[LabelledFile]:
    """Return the files with a complete set of parts, after folders or lists have set some of them.

    If only training is set, all are reset for `parts_of`. Validation without test becomes the test part. Without validation,
    training files move there by the hash of their group, and more by `topped_up` if these are too few.
    """
    named = {file.part for file in files} - {None}
    if named <= {"train"}:
        return [replace(file, part=None) for file in files]
    if {"validation", "test"} <= named:
        return files
    files = [replace(file, part="test") if file.part == "validation" else file for file in files]
    is_moved = [file.part == "train" and part_of(file.group) == "validation" for file in files]
    parts = ["validation" if moved else file.part or "" for file, moved in zip(files, is_moved, strict=True)]
    parts = topped_up(files, parts, "validation")
    return [replace(file, part=part or None) for file, part in zip(files, parts, strict=True)]


def parts_of(files: Sequence[LabelledFile]) -> list[str]:
    """Return each file's part as set, or by the hash of its group; if none is set, `topped_up` fills test and validation."""
    parts = [file.part or part_of(file.group) for file in files]
    return parts if any(file.part for file in files) else topped_up(files, topped_up(files, parts, "test"), "validation")


def topped_up(files: Sequence[LabelledFile], parts: Sequence[str], part: str) -> list[str]:
    """Move groups of files from training to `part`, if it has too few files of a class; return the new part of each file.

    The test part needs one file of each class, validation MIN_VALIDATION, or 1 / MAX_SHARE of the class's files outside the
    test part if less. (With 10 of each of 10 classes, an accuracy of 80 % has a standard error of 4 points; fewer are chance.)
    Groups with the lowest hash move first. A group stays if a class would keep fewer than MIN_OF_CLASS files for training or,
    unless `part` has none of the class, fewer than half of its files.
    """
    parts, members = list(parts), dict[str, list[int]]()
    for index, file in enumerate(files):
        if parts[index] == "train":
            members.setdefault(file.group, []).append(index)
    counts = Counter((file.label, own) for file, own in zip(files, parts, strict=True))
    learned = {label: counts[label, "train"] + counts[label, "validation"] for label in sorted({file.label for file in files})}
    groups_of = dict[str, list[str]]()  # label -> groups with files of this label, by rising hash
    for group in sorted(members, key=share_of):
        for label in {files[index].label for index in members[group]}:
            groups_of.setdefault(label, []).append(group)
    for label, count in learned.items():
        needed = 1 if part == "test" else max(1, min(MIN_VALIDATION, count // MAX_SHARE))
        for group in groups_of.get(label, ()):
            if counts[label, part] >= needed:
                break
            own = Counter(files[index].label for index in members[group])
            least = {each: max(MIN_OF_CLASS, learned[each] / 2 if counts[label, part] else 0) for each in own}
            if parts[members[group][0]] == "train" and all(counts[each, "train"] - own[each] >= least[each] for each in own):
                for index in members[group]:
                    parts[index] = part
                for each in own:
                    counts[each, "train"] -= own[each]
                    counts[each, part] += own[each]
    return parts


def sorted_classes(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct labels, sorted by value if they are numbers, else by name."""

    def key(name: str) -> tuple[int, str]:
        return int(name) if name.isdecimal() and len(name) <= MAX_DIGITS else MAX_FILES, name

    return tuple(sorted(set(labels), key=key))


def group_indices(names: Sequence[str]) -> NDArray[np.int64] | None:
    """Return the index of each sample's group; None if each sample is a group. `names` has the group of each sample."""
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([numbers[name] for name in names]) if len(numbers) < len(names) else None


def advice(data: Dataset) -> list[str]:
    """Return a line of advice per weakness of a classifier's data set: a class below FEW samples, a test part of few groups."""
    counts = np.bincount(data.labels, minlength=len(data.classes))
    lines = [
        f"class '{data.classes[label]}' has {counts[label]} samples; below {FEW} a network learns little: add samples"
        for label in np.flatnonzero(counts < FEW)
    ]
    tested = too_few_groups(data.groups_of("test"))
    return [*lines, tested] if tested else lines


def dataset(
    kind: str,
    files: Sequence[LabelledFile],
    read: Callable[[Path], NDArray[np.int8]],
    preparation: Mapping[str, Any],
    progress: Progress = silent,
) -> Dataset:
    """Read files into a data set of the `kind` "images" or "sounds".

    `read` returns one file as int8 [rows, columns, channels], all of the same shape; `preparation` says how, in JSON values, as
    firmware must do the same. Raise CompileError if there is only one class, or a part has too few samples of a class.
    """
    classes = sorted_classes([file.label for file in files])
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
    numbers = np.array([PARTS.index(part) for part in parts], np.uint8)
    return Dataset(kind, classes, values, labels, numbers, preparation, group_indices([file.group for file in files]))


def check_classes(classes: Sequence[str], labels: Sequence[str], parts: Sequence[str]) -> None:
    """Raise CompileError if there is only one class, or if a part has too few samples of a class."""
    if len(classes) < 2:
        raise CompileError(f"there is only one class, '{classes[0]}'", ONE_LABEL)
    check_counts(classes, labels, parts, "sample")


def check_counts(classes: Sequence[str], labels: Sequence[str], parts: Sequence[str], what: str) -> None:
    """Raise CompileError if a part has too few of a class; `what` is "sample" or "box"."""
    counts = Counter(zip(labels, parts, strict=True))
    for label, (part, needed) in product(classes, (("train", MIN_OF_CLASS), ("validation", 1), ("test", 1))):
        if (have := counts[label, part]) < needed:
            raise CompileError(
                f"class '{label}' has {have} {what if have == 1 else PLURALS[what]} for {part}",
                f"add files: at least {needed} for {part}; a fifth of all files are for test",
            )

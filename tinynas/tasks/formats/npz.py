"""NumPy archives (.npz) of samples and labels. In: a path. Out: Samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.media import MAX_ARRAYS, MEND, read_arrays

from ..dataset import MAX_DIGITS, PART_NAMES
from .sample import GROUPS, LABELS, PARTS, Sample, as_label, as_part, group_of, label_of

X, Y = ("x", "data", "values", "images", "series"), ("y", *LABELS, "targets")
OWNERS = (*GROUPS, "subjects", "speakers", "users", "ids")
NAMES = "save it with numpy.savez(path, x=samples, y=labels), and groups=groups if samples come in groups"


def read_npz(path: Path) -> list[Sample]:
    """Read arrays x [samples, ...], y, maybe groups and parts, or x_train and so on; `classes` names integer labels."""
    arrays = {name.lower(): array for name, array in read_arrays(path, MAX_ARRAYS, MEND).items()}
    samples = _samples(path, arrays, "", None)
    for word, part in PART_NAMES.items():
        samples += _samples(path, arrays, word, part)
    if not samples:
        raise CompileError(f"'{path}' holds the arrays {', '.join(arrays)[:80] or 'of no name'}, not x and y", NAMES)
    return samples


def _samples(path: Path, arrays: Mapping[str, NDArray[Any]], word: str, part: str | None) -> list[Sample]:
    """Return the samples of one part, such as x_train for the `word` "train", or x for ""; [] if there are none."""

    def find(wanted: tuple[str, ...]) -> NDArray[Any] | None:
        names = [form for name in wanted for form in ((f"{name}_{word}", f"{word}_{name}") if word else (name,))]
        return next((arrays[name] for name in names if name in arrays), None)

    values, labels, groups, parts = (find(names) for names in (X, Y, OWNERS, PARTS))
    if values is None or labels is None:
        return []
    count = len(values) if values.ndim else 0
    for array in (labels, groups, parts):
        if array is not None and (array.size != count or not count):
            raise CompileError(f"'{path}' holds {count} samples and an array of {array.size} labels or groups", NAMES)
    classes = arrays.get("classes")
    samples = []
    for index, (label, value) in enumerate(zip(labels.ravel(), values, strict=True)):
        place = f"{path}, {word or 'sample'} {index}"
        name = label_of(label, place)
        if classes is not None and name.isdecimal() and len(name) <= MAX_DIGITS and int(name) < classes.size:
            name = label_of(classes.ravel()[int(name)], place)
        group = None if groups is None else group_of(groups.ravel()[index], place)
        own = part if parts is None else as_part(as_label(parts.ravel()[index]), place)
        samples.append(Sample(value, name, place, group, own))
    return samples

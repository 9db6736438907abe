"""One labelled sample of a file that holds many, and the names that its label, group and part have there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError

from ..dataset import PART_NAMES

MAX_VALUE = 1e30  # of sensor values, so that no product of two overflows

LABELS = ("label", "labels", "class", "target", "activity", "gesture")
GROUPS = ("group", "groups", "subject", "subject_id", "speaker", "user", "person", "participant", "patient", "id")
PARTS = ("part", "parts", "split", "set")


@dataclass(frozen=True, eq=False)
class Sample:
    """A labelled sample, or a recording that is to be cut into samples."""

    value: Any  # array: an image [rows, columns, channels], a series [rows, channels]; or the bytes of an image or wav file
    label: str
    place: str  # file and line or index, for messages
    group: str | None = None  # samples of one group (subject, speaker, recording) stay in one part; None if the file names none
    part: str | None = None
    is_recording: bool = False  # cut `value` into windows


def column_of(names: Sequence[str], wanted: Iterable[str]) -> int | None:
    """Return the index in `names` of the first name in `wanted` that `names` contains, or None if it contains none of them."""
    return next((names.index(name) for name in wanted if name in names), None)


def part_in_name(path: Path) -> str | None:
    """Return the part that a file's name contains as a word, such as "test" for BasicMotions_TEST.ts; else None."""
    words = re.findall("[a-z]+", path.stem.lower())
    return next((PART_NAMES[word] for word in words if word in PART_NAMES), None)


def as_part(text: str, place: str) -> str:
    """Return "train", "validation" or "test" for a cell such as "Training"; raise CompileError, with `place`, for others."""
    if (part := PART_NAMES.get(text.strip().lower())) is None:
        raise CompileError(f"'{place}' has the part '{as_label(text)[:20]}'", "give train, validation or test")
    return part


def as_label(value: Any) -> str:
    """Return a label as one line of printable text. A whole float loses its decimal point; the text "1.0" is not changed."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return "".join(filter(str.isprintable, " ".join(str(value).split())))


def label_of(value: Any, place: str) -> str:
    """Return the label of a sample as text, see `as_label`; raise CompileError if it is missing (None, NaN or empty)."""
    if not (label := _text_of(value)):
        raise CompileError(f"'{place}' has no label", "give one, or leave the sample out")
    return label


def group_of(value: Any, place: str) -> str:
    """Return the name of a sample's group as text, see `as_label`; raise CompileError if it is missing (None, NaN or empty)."""
    if not (group := _text_of(value)):
        raise CompileError(f"'{place}' has no group, such as a subject", "give one, or delete the groups of all samples")
    return group


def _text_of(value: Any) -> str:
    """Return a label or group as text, see `as_label`; "" for None and NaN."""
    is_missing = value is None or (isinstance(value, float | np.floating) and np.isnan(value))
    return "" if is_missing else as_label(value)


def as_series(value: Any, place: str) -> NDArray[np.float64]:
    """Return finite numbers [rows, channels]; raise CompileError, with `place`, if `value` is no such series."""
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        series = np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise CompileError(f"'{place}' is not a series of numbers", "give numbers [rows, channels]") from error
    if series.ndim not in (1, 2) or not series.size:
        raise CompileError(f"'{place}' has the shape {list(series.shape)}", "give numbers [rows, channels]")
    if fault := fault_of(series):
        raise CompileError(f"'{place}' holds {fault}", "fill them in, or leave the sample out")
    return series.reshape(len(series), -1)


def fault_of(values: NDArray[np.float64]) -> str:
    """Return which unusable values an array of sensor values holds, for a message; "" if it holds none."""
    if not np.isfinite(values).all():
        return "NaN or infinite values"
    return f"values beyond {MAX_VALUE:g}" if values.size and np.abs(values).max() > MAX_VALUE else ""


def is_number(cell: str) -> bool:
    """Return whether the text of a cell is a number; "nan" and "inf" count as numbers."""
    try:
        float(cell)
    except ValueError:
        return False
    return True

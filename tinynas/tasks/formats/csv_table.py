"""Tables of sensor values (.csv, .tsv): a header, a column of labels, columns of values. In: a path. Out: Samples.

A row is one time step; successive rows with the same label, group, recording and part are one recording. If all value columns
are numbered, at least MIN_NUMBERED per name (x_0, x_1 .. x_99), a row is a whole series, with a channel per name. A .tsv file
of numbers without a header (UCR archive) has the label in column 1, then the series.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import CompileError
from tinyweave.support.files import read_file
from tinyweave.support.media import MAX_ARRAYS, MEND

from .sample import GROUPS, LABELS, PARTS, Sample, as_label, as_part, as_series, column_of, group_of, is_number, label_of

RECORDINGS = ("recording", "recording_id", "file", "session", "trial")
IGNORED = ("", "time", "timestamp", "date", "datetime", "index", "row", "unnamed: 0")
NO_VALUES = {*LABELS, *GROUPS, *RECORDINGS, *PARTS, *IGNORED}  # a second label column as a value would leak the label
DELIMITERS = ",;\t"
MIN_NUMBERED = 16  # rows of a series in one line; fewer numbered columns are the channels of a sensor


class Columns(NamedTuple):
    """The indices of the columns of a table by what they hold; None if the table has no such column."""

    label: int
    group: int | None
    recording: int | None
    part: int | None
    values: list[int]


def read_table(path: Path) -> list[Sample]:
    """Read a table with columns separated by commas, semicolons or tabs.

    Raise CompileError if a row lacks cells or a label, a value is not a number, or there is no column of labels or of values.
    """
    text = read_file(path, MAX_ARRAYS, MEND).decode("utf-8-sig", errors="replace")
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    try:
        lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise CompileError(f"'{path}' cannot be read as a table: {error}", MEND) from error
    if len(lines) < 2:
        raise CompileError(f"'{path}' holds no rows", MEND)
    is_ucr = path.suffix.lower() == ".tsv" and all(map(is_number, lines[0][1]))
    if is_ucr:
        lines = [(0, ["label", *(f"x_{index}" for index in range(len(lines[0][1]) - 1))]), *lines]
    (_, header), *rows = lines
    names = [as_label(cell).lower() for cell in header]
    columns = _columns(path, names)
    for number, row in rows:
        if len(row) != len(names):
            raise CompileError(f"'{path}', line {number} has {len(row)} cells, the header has {len(names)}", MEND)
    values = _values(path, names, rows, columns.values, decimal_comma=delimiter != ",")
    numbered = _numbered([names[index] for index in columns.values], 1 if is_ucr else MIN_NUMBERED)
    if numbered is not None:
        order = np.array(numbered)  # [rows of the series, channels]
        return [
            Sample(as_series(own[order], place), *_labels(place, row, columns))
            for own, (place, row) in zip(values, _placed(path, rows), strict=True)
        ]
    return _recordings(path, rows, values, columns)


def _columns(path: Path, names: Sequence[str]) -> Columns:
    """Return what each column holds, by its name; raise CompileError if there is no column of labels or of values."""
    label, group, recording, part = (column_of(names, wanted) for wanted in (LABELS, GROUPS, RECORDINGS, PARTS))
    if label is None:
        what = "no header" if any(map(is_number, names)) and not _numbered(names) else "no column of labels"
        shown = ", ".join(names)[:80]
        raise CompileError(f"'{path}' has {what}: its first line is {shown}", "name its columns, the one of labels 'label'")
    values = [index for index, name in enumerate(names) if name not in NO_VALUES]
    if not values:
        raise CompileError(f"'{path}' has no column of values beside '{names[label]}'", "add a column per channel")
    return Columns(label, group, recording, part, values)


def _values(
    path: Path, names: Sequence[str], rows: Sequence[tuple[int, list[str]]], columns: list[int], *, decimal_comma: bool
) -> NDArray[np.float64]:
    """Return cells of `columns` of rows (line, cells) as numbers, "," as a point if `decimal_comma`, or raise CompileError."""
    values = np.empty((len(rows), len(columns)))
    for index, (number, row) in enumerate(rows):
        cells = [row[column] for column in columns]
        try:
            values[index] = [float(cell.replace(",", ".") if decimal_comma else cell) for cell in cells]
        except ValueError as error:
            column = next(
                each for each in columns if not is_number(row[each].replace(",", ".") if decimal_comma else row[each])
            )
            cell = as_label(row[column])[:20]
            said = f"is '{cell}', which is no number" if cell else "is empty"
            what_to_do = "fill it in, leave the line out, or delete the column"
            raise CompileError(f"'{path}', line {number}: column '{names[column]}' {said}", what_to_do) from error
    return values


def _numbered(names: Sequence[str], least: int = MIN_NUMBERED) -> list[list[int]] | None:
    """Return column indices [rows][channels] of series in lines, with columns such as x_0, x_1, y_0, y_1, else None.

    All names must have equally many numbers, without gaps and at least `least`.
    """
    by_stem = dict[str, dict[int, int]]()
    for index, name in enumerate(names):
        match = re.search(r"(\d{1,9})\]?$", name)
        if match is None:
            return None
        by_stem.setdefault(name[: match.start()].rstrip(" _.[-"), {})[int(match[1])] = index
    channels = [[columns[number] for number in sorted(columns)] for columns in by_stem.values()]
    in_turn = all(max(columns) - min(columns) == len(columns) - 1 for columns in by_stem.values())
    lengths = {len(channel) for channel in channels}
    if not in_turn or len(lengths) != 1 or min(lengths) < least or sum(map(len, channels)) != len(names):
        return None
    return [list(row) for row in zip(*channels, strict=True)]


def _placed(path: Path, rows: Sequence[tuple[int, list[str]]]) -> list[tuple[str, list[str]]]:
    return [(f"{path}, line {number}", row) for number, row in rows]


def _labels(place: str, row: list[str], columns: Columns) -> tuple[str, str, str | None, str | None]:
    """Return (label, `place`, group or None, part or None) of a row; raise CompileError for an empty or unknown one."""
    label = label_of(row[columns.label], place)
    group = None if columns.group is None else group_of(row[columns.group], place)
    return label, place, group, None if columns.part is None else as_part(row[columns.part], place)


def _recordings(
    path: Path, rows: Sequence[tuple[int, list[str]]], values: NDArray[np.float64], columns: Columns
) -> list[Sample]:
    """Join successive rows with equal label, group, recording, part; a group that differs in each row is ignored."""
    if columns.group is not None and len({row[columns.group] for _, row in rows}) == len(rows):
        columns = columns._replace(group=None)
    keys = [index for index in (columns.label, columns.group, columns.recording, columns.part) if index is not None]

    def key(pair: tuple[int, Any]) -> list[str]:
        return [pair[1][1][index].strip() for index in keys]

    samples, placed = [], _placed(path, rows)
    for _, run in groupby(enumerate(rows), key):
        indices = [index for index, _ in run]
        place, row = placed[indices[0]]
        series = as_series(values[indices[0] : indices[-1] + 1], place)
        samples.append(Sample(series, *_labels(place, row, columns), is_recording=True))
    return samples

"""Parquet files as the Hugging Face hub has them: images, recordings or series, with labels. In: a path. Out: Samples.

Images and recordings are structures with the bytes of each file. Metadata may name the classes of labels (ClassLabel).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tinyweave.ir import CompileError
from tinyweave.support.files import read_file
from tinyweave.support.installing import install
from tinyweave.support.media import MAX_ARRAYS, MEND

from .sample import GROUPS, LABELS, PARTS, Sample, as_label, as_part, column_of, group_of, label_of

ROWS = 256  # that are decoded at a time
FORM = "give a column of images, recordings or lists of numbers, and a column 'label'"


def read_parquet(path: Path) -> list[Sample]:
    """Read a sample per row; raise CompileError if pyarrow is missing, or the file has no labels or no values."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise CompileError("reading .parquet files needs pyarrow", f"{install('parquet')}, or give an .npz file") from error
    try:
        file = parquet.ParquetFile(BytesIO(read_file(path, MAX_ARRAYS, MEND)))
        batches, unpacked = list[Any](), 0
        for batch in file.iter_batches(ROWS):
            batches.append(batch)
            if (unpacked := unpacked + batch.nbytes) > MAX_ARRAYS:
                raise ValueError(f"it has {unpacked:,} bytes decompressed, at most {MAX_ARRAYS:,} are supported")
        table = pyarrow.Table.from_batches(batches, file.schema_arrow)
        table.validate(full=True)
        cells = [column.to_pylist() for column in table.columns]
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise CompileError(f"'{path}' is not a .parquet file: {' '.join(str(error).split())[:100]}", MEND) from error
    class_names = _class_names(table.schema.metadata or {})
    names = [name.lower() for name in table.column_names]
    label = next((index for index, name in enumerate(table.column_names) if name in class_names), None)
    label = column_of(names, LABELS) if label is None else label
    group, part = (column_of(names, wanted) for wanted in (GROUPS, PARTS))
    others = [(index, field.type) for index, field in enumerate(table.schema) if index not in (label, group, part)]
    files = [index for index, kind in others if pyarrow.types.is_struct(kind)]
    values = files[:1] or [index for index, kind in others if _is_list(kind)]
    if label is None or not values:
        raise CompileError(f"'{path}' has the columns {', '.join(names)[:80]}: no labels or no values", FORM)
    classes = class_names.get(table.column_names[label])
    columns = [cells[index] for index in values]
    owners, parts = (None if index is None else cells[index] for index in (group, part))
    samples = []
    for index, number in enumerate(cells[label]):
        place = f"{path}, row {index}"
        samples.append(
            Sample(
                _value([column[index] for column in columns], place),
                _label(number, classes, place),
                place,
                None if owners is None else group_of(owners[index], place),
                None if parts is None else as_part(as_label(parts[index]), place),
            )
        )
    return samples


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return the class names that Hugging Face writes into the metadata, by column name, or {}."""
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = json.loads(metadata[b"huggingface"])["info"]["features"]
        names = {column: feature["names"] for column, feature in found.items() if "names" in feature}
        return {column: each for column, each in names.items() if isinstance(each, list) and set(map(type, each)) == {str}}
    return {}


def _label(value: Any, classes: Sequence[str] | None, place: str) -> str:
    """Return a label as text, an integer as the name in `classes`; raise CompileError if missing or out of range."""
    if classes is None or not isinstance(value, int):
        return label_of(value, place)
    if not 0 <= value < len(classes):
        raise CompileError(f"'{place}' has the label {value}, but there are {len(classes)} classes", "leave the row out")
    return label_of(classes[value], place)


def _value(cells: Sequence[Any], place: str) -> Any:
    """Return the bytes of an image or wav file, or an array; several columns of numbers are channels on the last axis."""
    if isinstance(cells[0], dict):
        if not isinstance(raw := cells[0].get("bytes"), bytes):
            raise CompileError(f"'{place}' holds no bytes of a file", "save the data set with its files embedded")
        return raw
    try:
        arrays = [np.asarray(cell) for cell in cells]
        arrays = [each if each.dtype.kind in "iu" else each.astype(np.float64) for each in arrays]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=-1)
    except (TypeError, ValueError) as error:
        raise CompileError(f"'{place}' holds lists that are no numbers, or have different lengths", FORM) from error


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

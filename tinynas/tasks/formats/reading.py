"""Find and read files that hold many samples, as labelled files. In: a path. Out: `LabelledFile`s and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tinyweave.ir import CompileError
from tinyweave.support.files import check_inside
from tinyweave.support.media import MEND

from ..dataset import FOLDERS, LabelledFile, with_all_parts
from .csv_table import read_table
from .npz import read_npz
from .parquet import read_parquet
from .sample import Sample, part_in_name
from .ts import read_ts

READERS: Mapping[str, Callable[[Path], list[Sample]]] = {
    ".csv": read_table,
    ".tsv": read_table,
    ".npz": read_npz,
    ".ts": read_ts,
    ".parquet": read_parquet,
}
HUB = "data"  # folder of the .parquet files in a repository of the Hugging Face hub


def sample_files(path: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files of many samples at `path`: itself, or the files in it with one of the suffixes (or of HUB).

    "test" is read with "train" of a file's name. Return [] if there is no path, or it has a subfolder per class. Raise
    CompileError if the suffix is another, or suffixes differ.
    """
    if path.is_file():
        if path.suffix.lower() not in suffixes:
            raise CompileError(f"'{path}' does not have a supported suffix", f"{FOLDERS}, or a file {', '.join(suffixes)}")
        partner = re.sub("train", _test_like, path.name, flags=re.IGNORECASE)
        other = path.with_name(partner)
        return [path, other] if other != path and other.is_file() else [path]
    folder = path / HUB if (path / HUB).is_dir() and ".parquet" in suffixes and any((path / HUB).glob("*.parquet")) else path
    if not folder.is_dir() or any(each.is_dir() and not each.name.startswith(".") for each in folder.iterdir()):
        return []
    files = sorted(each for each in folder.iterdir() if each.suffix.lower() in suffixes and each.is_file())
    if len(kinds := {each.suffix.lower() for each in files}) > 1:
        raise CompileError(f"'{folder}' holds files {' and '.join(sorted(kinds))}", "keep the files of one kind")
    check_inside(path, files)
    return files


def _test_like(train: re.Match[str]) -> str:
    """Return "test" in the case of the matched word: test, TEST or Test."""
    return "TEST" if train[0].isupper() else "Test" if train[0].istitle() else "test"


def read_samples(files: Sequence[Path]) -> dict[LabelledFile, Sample]:
    """Read files of many samples; return each sample, by a `LabelledFile` with the class, group and part of the sample.

    File names may state the part, as in train-00000-of-00001.parquet or NAME_TRAIN.ts. A sample without a group is its own, or,
    of several files that state no part, its file: often the recordings of one subject.
    """
    by_file = len(files) > 1 and not any(map(part_in_name, files))
    found = dict[LabelledFile, Sample]()
    for file in files:
        for sample in READERS[file.suffix.lower()](file):
            own = file.name if by_file else sample.place.removeprefix(f"{file.parent}/")
            group = own if sample.group is None else sample.group
            part = sample.part or (part_in_name(file) if len(files) > 1 else None)
            found[LabelledFile(Path(sample.place), sample.label, group, part)] = sample
    if not found:
        raise CompileError(f"'{files[0]}' holds no samples", MEND)
    moved = with_all_parts(list(found))
    return dict(zip(moved, found.values(), strict=True))

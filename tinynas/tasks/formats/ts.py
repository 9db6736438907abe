"""Time series as sktime, aeon and timeseriesclassification.com have them (.ts). In: a path. Out: Samples.

After `@data`, a line has the channels of a series, separated by colons, then its label; values are separated by commas.
"""

from __future__ import annotations

from pathlib import Path

from tinyweave.ir import CompileError
from tinyweave.support.files import read_file
from tinyweave.support.media import MAX_ARRAYS, MEND

from .sample import Sample, as_series, label_of

FORM = "give a .ts file of labelled series: a header with '@classLabel true ...', then @data"


def read_ts(path: Path) -> list[Sample]:
    """Read a .ts file of labelled series, of equal or different lengths."""
    lines = read_file(path, MAX_ARRAYS, MEND).decode("utf-8-sig", errors="replace").splitlines()
    header = [line.lower().split() for line in lines if line.startswith("@")]
    if ["@data"] not in header or not any(words[:2] == ["@classlabel", "true"] for words in header):
        raise CompileError(f"'{path}' has no class labels or no @data", FORM)
    if ["@timestamps", "true"] in header:
        raise CompileError(f"'{path}' has a time beside each value", "resample its series to equal steps, without times")
    samples, begin = [], [line.strip().lower() for line in lines].index("@data") + 1
    for number, line in enumerate(lines[begin:], begin + 1):
        if not line.strip():
            continue
        *channels, label = line.split(":")
        place = f"{path}, line {number}"
        if "?" in line:
            raise CompileError(f"'{place}' has missing values", "fill them in, or leave the line out")
        lengths = {channel.count(",") for channel in channels}
        if not channels or len(lengths) > 1:
            raise CompileError(f"'{place}' has no channels, or channels of different lengths", FORM)
        series = as_series([channel.split(",") for channel in channels], place).T
        samples.append(Sample(series, label_of(label, place), place))
    return samples

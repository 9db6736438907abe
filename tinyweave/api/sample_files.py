"""Read samples from a .npy, .npz, .csv or raw file, and check that they fit the network's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..ir import CompileError, Tensor
from ..support.files import read_file
from ..support.media import ARRAYS, by_input, check_finite, read_arrays
from .results import Model

MAX_INPUTS = 1 << 29  # bytes of samples
Sample = np.ndarray | Sequence[np.ndarray]  # input arrays of one inference; a network with one input takes the array itself
WHAT_TO_DO = "give a .npy, .npz, .csv or .bin file, with fewer samples if it is too large"


def arrays_of(sample: Sample) -> list[np.ndarray]:
    """Return the input arrays of one inference as a list, with one array per network input."""
    if isinstance(sample, np.ndarray):
        return [sample]
    if isinstance(sample, (list, tuple)) and all(isinstance(each, np.ndarray) for each in sample):
        return list(sample)
    raise CompileError(f"a sample is of the type {type(sample).__name__}", "give an array, or a list with one per input")


def read_inputs(path: Path | None, model: Model) -> list[list[np.ndarray]]:
    """Read samples from a file; return a list with one array per network input for each sample. Without a file it is empty.

    A .npy file has the only input, optionally with a leading axis of samples. A .npz file has one such array per input, by name
    or in the model's order. A .csv or .tsv file has real numbers, a sample in each row or in all. Any other file has raw bytes,
    sample after sample. For a model that streams in time, a sample is the new frames of one call.
    """
    if path is None:
        return []
    graph = model.outside
    wanted = [graph.tensors[name] for name in graph.inputs]
    if path.suffix.lower() not in ARRAYS:
        samples = _raw_samples(path, read_file(path, MAX_INPUTS, WHAT_TO_DO), wanted)
    else:
        arrays = read_arrays(path, MAX_INPUTS, WHAT_TO_DO)
        samples = by_input(arrays, wanted, f"'{path}'", in_frames=model.stream is not None)
    if not samples:
        raise CompileError(f"'{path}' holds no samples", "give at least one")
    for number, sample in enumerate(samples):
        for tensor, values in zip(wanted, sample, strict=True):
            check_finite(values, f"sample {number} of '{path}'", tensor)
    return samples


def _raw_samples(path: Path, raw: bytes, wanted: Sequence[Tensor]) -> list[list[np.ndarray]]:
    """Return samples from raw bytes, in which each sample has the bytes of all inputs in order."""
    each = sum(tensor.bytes for tensor in wanted)
    if not raw or not each or len(raw) % each:
        raise CompileError(f"'{path}' holds {len(raw):,} bytes, one sample has {each:,}", "give whole samples")
    sample = np.dtype([(f"input {index}", tensor.dtype, tensor.shape) for index, tensor in enumerate(wanted)])
    return [[record[name] for name in record.dtype.names] for record in np.frombuffer(raw, sample)]

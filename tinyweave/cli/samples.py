"""Samples from files: .npy, .npz or raw bytes, checked against the network's inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from ..files import read_file
from ..ir import CompileError, Tensor
from ..results import Model

MAX_INPUTS = 1 << 29  # bytes of samples


def read_inputs(path: Path | None, model: Model) -> list[list[np.ndarray]]:
    """Return samples from a file, each with one array per network input.

    .npy holds one input's values, with or without a leading axis of samples; .npz one such array per network input, in
    the file's order; any other file is raw bytes, all inputs of a sample after each other. Where the model takes frames, the
    samples are those of its calls, one after the other.
    """
    if path is None:
        return []
    wanted = [model.graph.tensors[name] for name in model.graph.inputs]
    raw = read_file(path, MAX_INPUTS, "give a .npy, .npz or .bin file, with fewer samples if it is too large")
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(BytesIO(raw)) as members:
                unpacked = sum(member.file_size for member in members.infolist())
            if unpacked > MAX_INPUTS:
                raise ValueError(f"unpacked it has {unpacked:,} bytes, at most {MAX_INPUTS:,} are supported")
            with np.load(BytesIO(raw), allow_pickle=False) as archive:
                arrays = [archive[key] for key in archive.files]
        elif path.suffix == ".npy":
            arrays = [np.load(BytesIO(raw), allow_pickle=False)]
        else:
            return _raw_samples(path, raw, wanted)
    except (OSError, ValueError, EOFError, MemoryError, KeyError, zipfile.BadZipFile) as error:
        raise CompileError(f"'{path}' is not a NumPy file: {error}", "save it with numpy.save or numpy.savez") from error
    if len(arrays) != len(wanted):
        raise CompileError(
            f"'{path}' holds {len(arrays)} arrays, the model has {len(wanted)} inputs", "give one array per input"
        )
    if model.stream:  # a recording may be one array of frames
        arrays = [_calls(array, tensor) for array, tensor in zip(arrays, wanted, strict=True)]
    columns = [_split(path, array, tensor) for array, tensor in zip(arrays, wanted, strict=True)]
    if len({len(column) for column in columns}) != 1:
        raise CompileError(f"'{path}' holds {[len(c) for c in columns]} samples of the inputs", "give equally many of each")
    return [list(sample) for sample in zip(*columns, strict=True)]


def _split(path: Path, array: np.ndarray, tensor: Tensor) -> list[np.ndarray]:
    """Return the samples of one input: the array itself, or its slices along a leading axis."""
    if array.size == tensor.elements:
        return [array]
    if array.ndim and array.shape[0] and array.size == array.shape[0] * tensor.elements:
        return list(array)
    raise CompileError(
        f"'{path}' holds {array.dtype}{list(array.shape)}, the input is {tensor.dtype}{list(tensor.shape)}",
        "give that shape, or several along a leading axis",
        tensor=tensor,
    )


def _calls(array: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return frames as the inputs of the calls that take them, where they fill whole calls."""
    return array.reshape(-1, *tensor.shape) if array.size and array.size % tensor.elements == 0 else array


def _raw_samples(path: Path, raw: bytes, wanted: Sequence[Tensor]) -> list[list[np.ndarray]]:
    each = sum(tensor.bytes for tensor in wanted)
    if not raw or not each or len(raw) % each:
        raise CompileError(f"'{path}' holds {len(raw):,} bytes, one sample has {each:,}", "give whole samples")
    samples = []
    for start in range(0, len(raw), each):
        sample, at = [], start
        for tensor in wanted:
            sample.append(np.frombuffer(raw, tensor.dtype, tensor.elements, at).reshape(tensor.shape))
            at += tensor.bytes
        samples.append(sample)
    return samples

"""What a training left in its folder, opened again. In: a folder of `search` or `train`. Out: its network, its data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import api
from ..devices import Device
from ..ir import CompileError
from ..results import Model
from ..tasks.boxes import Head, head_of
from ..tasks.dataset import Dataset
from .costs import NAME
from .halving import DATA, load_data
from .precision import int8_outputs

FIRMWARE = "firmware"


@dataclass(frozen=True, eq=False)
class Trained:
    """An int8 network, channels last at its edges, the samples that it was trained on, and the head of a detector."""

    model: Model
    data: Dataset
    head: Head | None
    folder: Path


def open_trained(folder: Path, name: str = NAME) -> Trained:
    """Return what lies in the folder of a run; raise CompileError where it has not ended. name: of the model, in C."""
    path = folder / f"{NAME}.tflite"
    if not path.is_file() or not (folder / DATA / "data.json").is_file():
        raise CompileError(f"'{folder}' holds no trained network", "give a folder that 'tinyweave train' wrote")
    data = load_data(folder / DATA)
    return Trained(api.load(path, "int8", name, layout="nhwc"), data, head_of(data), folder)


def outputs_on_core(trained: Trained, device: Device, samples: NDArray[np.int8]) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return what the C in the folder makes of samples on the emulated core of a device, and which of them are all right."""
    model, count = trained.model, len(samples)
    planned = api.plan(model, limits=api.limits_of(device), core=device.core)
    inputs = [[np.ascontiguousarray(sample[None])] for sample in samples]
    ran = api.run(model, planned, trained.folder / FIRMWARE, inputs, api.emulated_core(device))
    wanted = int8_outputs(model.graph, samples)
    made = np.concatenate([output for (output,) in ran]).reshape(wanted.shape)
    return made, (made == wanted).reshape(count, -1).all(axis=1)

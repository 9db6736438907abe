"""The firmware of a trained network: written, with the C that its data need beside it, and opened again.

In: an int8 network and its data, or a folder of `search` or `train`. Out: its C, proved; its network, its data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import api
from ..devices import Device
from ..files import write_file
from ..ir import CompileError
from ..manifest import generated_folder
from ..progress import Progress
from ..results import Deployment, Model
from ..tasks import listening
from ..tasks.boxes import Head, head_of
from ..tasks.dataset import Dataset
from ..tasks.features import LogMel
from .costs import NAME, Target
from .halving import DATA, load_data
from .precision import int8_outputs, quant_of

FIRMWARE = "firmware"
VERIFIED = 5  # samples of the test, whose bytes are compared


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


class Companion(NamedTuple):
    """The C beside a network that makes its input of sound, or boxes of its output: files by name, and as C what firmware keeps
    in RAM for it."""

    files: dict[str, str]
    kept: str


def companion(data: Dataset, model: Model) -> Companion | None:
    """Return the C that a network of such data needs beside it; None where it needs none."""
    if (head := head_of(data)) is not None:
        return Companion(head.c_files(quant_of(model.graph)), '#include "boxes.h"\ntw_box boxes[BOXES_MOST];\n')
    if features := data.preparation.get("features"):
        kept = f'#include "log_mel_ring.h"\nlog_mel_ring ring;\nint8_t features[{data.values.shape[1]} * LOG_MEL_FEATURES];\n'
        return Companion(LogMel(**features).c_files() | listening.c_files(), kept)
    return None


def companion_bytes(data: Dataset, model: Model, device: Device | None) -> dict[str, int] | None:
    """Return the Flash and the RAM of that C on a device's core: of sound those of a ring that feeds the network; None where
    there is none. Not counted is the stack of its functions, which run before the network or after it."""
    made = companion(data, model)
    return None if made is None else api.compiled_bytes({**made.files, "kept.c": made.kept}, device)


def deployed(small: Any, target: Target, data: Dataset, folder: Path, progress: Progress) -> Deployment:
    """Write an int8 network's C into `folder`/firmware and its file beside it, proved byte by byte on samples of the test."""
    write_file(folder / f"{NAME}.tflite", small.file)
    model = api.with_edges(small, "int8", "nhwc")
    unseen, _ = data.part("test")
    inputs = [[np.ascontiguousarray(sample[None])] for sample in unseen[:VERIFIED]]
    with generated_folder(folder / FIRMWARE, "", {model.name: (f"{NAME}.tflite", model.sha256)}) as written:
        done = api.deploy(
            model,
            written.scratch,
            device=target.device,
            limits=target.all_limits,
            inputs=inputs,
            count=0,
            planned=target.plan(model),
            as_planned=True,
            progress=progress,
            **target.planning,
        )
        beside = companion(data, model)
        for name, text in beside.files.items() if beside else ():
            (written.scratch / name).write_text(text)
    return done

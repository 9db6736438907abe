"""The C of a trained network: write and verify it, open the network again.

In: an int8 network and its data set, or the folder of a run. Out: verified C, also companion C; the network and its data set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tinyweave import api
from tinyweave.api.results import Deployment, Model
from tinyweave.devices import Device
from tinyweave.ir import CompileError
from tinyweave.support.files import write_below, write_file
from tinyweave.support.manifest import generated_folder
from tinyweave.support.progress import Progress

from .costs import NAME, Target
from .halving import DATA, load_data
from .int8 import quant_of
from .tasks import listening
from .tasks.boxes import head_of
from .tasks.dataset import Dataset
from .tasks.features import LogMel

FIRMWARE = "firmware"
VERIFIED = 5  # test samples whose outputs are compared


def open_trained(folder: Path, name: str = NAME) -> tuple[Model, Dataset]:
    """Return network (`name` in C) and data set of a run's folder; raise CompileError if it holds no finished run."""
    path = folder / f"{NAME}.tflite"
    if not path.is_file() or not (folder / DATA / "data.json").is_file():
        raise CompileError(
            f"'{folder}' holds no trained network", "give a folder that 'tinyweave search' or 'tinyweave train' wrote"
        )
    return api.load(path, io="int8", layout="nhwc", name=name), load_data(folder / DATA)


def companion(data: Dataset, model: Model) -> tuple[dict[str, str], str]:
    """Return companion C: file name -> text, and the text of the variables that it needs in RAM; both empty for none."""
    if (head := head_of(data)) is not None:
        return head.c_files(quant_of(model.graph)), '#include "boxes.h"\ntw_box boxes[BOXES_MOST];\n'
    if features := data.preparation.get("features"):
        kept = f'#include "log_mel_ring.h"\nlog_mel_ring ring;\nint8_t features[{data.values.shape[1]} * LOG_MEL_FEATURES];\n'
        return LogMel(**features).c_files() | listening.c_files(), kept
    return {}, ""


def companion_bytes(data: Dataset, model: Model, device: Device | None) -> dict[str, int] | None:
    """Return the `ram` (without stack) and `flash` bytes of companion C on a device's core, or None without any."""
    c_files, kept = companion(data, model)
    return api.compiled_bytes({**c_files, "kept.c": kept}, device) if c_files else None


def deploy(small: Any, target: Target, data: Dataset, folder: Path, progress: Progress) -> Deployment:
    """Write the .tflite file of an int8 network into `folder`, and its verified C into `folder`/firmware.

    `small` is from `int8.evaluate_int8`. The C's outputs on some test samples are compared with the reference, byte by byte.
    """
    write_file(folder / f"{NAME}.tflite", small.file)
    model = api.with_io(small, "int8", "nhwc")
    unseen, _ = data.part("test")
    inputs = [[np.ascontiguousarray(sample[None])] for sample in unseen[:VERIFIED]]
    with generated_folder(folder / FIRMWARE, "", {model.name: (f"{NAME}.tflite", model.sha256)}) as written:
        done = api.deploy_model(
            model,
            written.scratch,
            target.request,
            target.device,
            proof=api.ProofOptions(inputs, count=0),
            earlier=api.EarlierPlan(target.plan(model), stays=True),
            progress=progress,
        )
        write_below(written.scratch, companion(data, model)[0])
    return done

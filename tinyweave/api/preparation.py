"""Say how pictures, sounds and tables become the input of a network, and name its classes. In: a Model. Out: JSON values.

They are in the file of the model, or in a JSON file with the keys `classes` and `preparation`, as `search` and `train` write:
NAME.json beside NAME.tflite, or data/data.json in the same folder. Other JSON files are ignored.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np
import tflite

from ..ir import Graph, Tensor, limits
from .quantisation import METADATA
from .results import Model

MAX_CLASSES = 1 << 20  # bytes of a file of class names
SIDE, FEWEST_FEATURES = 16, 8  # least rows and columns of an image; least rows and features of a sound
PIXELS = (1, 3)  # channels of an image
MOST_SENSORS = 16  # channels of a window of sensor values
TASKS = {"images": "images", "visual-wake-words": "images", "detection": "images", "sounds": "keywords", "sensors": "sensors"}


def task_of(graph: Graph) -> str | None:
    """Return the task of `search` for networks with the inputs and outputs of a graph, or None if they may be of several."""
    if len(graph.inputs) != 1:
        return None
    outputs = len(graph.outputs)
    shape = graph.tensors[graph.inputs[0]].shape
    boxes = [name for name in graph.outputs if len(graph.tensors[name].shape) > 2]
    if len(shape) == 4 and shape[3] == 3 and min(shape[1:3]) >= SIDE:
        return "images" if outputs == 1 else "detection" if boxes else None
    if outputs > 1 or shape[0] != 1:
        return None
    if (len(shape) == 3 or (len(shape) == 4 and 1 in shape[1:3])) and 1 < shape[-1] <= MOST_SENSORS < max(shape[1:-1]):
        return "sensors"
    if len(shape) == 4 and shape[3] == 1 and 1 < shape[2] < FEWEST_FEATURES and shape[1] > MOST_SENSORS:
        return "sensors"
    is_map = len(shape) == 4 and shape[3] == 1 and min(shape[1:3]) >= FEWEST_FEATURES
    return None if not is_map else "images" if shape[1] == shape[2] else "keywords"


def preparation_of(model: Model) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of the classes, () if they are unknown, and how the first input is prepared.

    Keys are `task` (images, keywords, sensors or None); `scale` and `offset`, lists of one factor or of one per channel, by
    which values become elements of the input; of sounds, `features` (as in `tinynas/tasks/features.py`) and `seconds`.
    """
    graph, classes, task = model.graph, class_names(model.file), task_of(model.graph)
    found: dict[str, Any] = {"task": "images" if task == "detection" else task}
    found |= _factors(model, graph.tensors[graph.inputs[0]], task) if graph.inputs else {}
    beside = (model.path.with_suffix(".json"), model.path.parent / "data" / "data.json")
    for path in beside if model.path.is_file() else ():  # a model that was made in Python has no file
        with suppress(OSError, ArithmeticError, ValueError, KeyError, TypeError):
            about = json.loads(path.read_bytes())
            classes = tuple(map(str, about["classes"]))
            found |= _read(about["preparation"], graph.tensors[graph.inputs[0]])
            break
    return classes, found


def _factors(model: Model, tensor: Tensor, task: str | None) -> dict[str, list[float]]:
    """Return factors and offsets that the file of the model records, else those of pixels or of the input's scale."""
    if tensor.quant is None or tensor.quant.per_channel:
        return {"scale": [1.0], "offset": [0.0]}
    scale, zero = tensor.scale, tensor.zero_point
    if known := recorded(model.file):
        return {"scale": [factor / scale for factor in known[0]], "offset": [offset / scale + zero for offset in known[1]]}
    if task in ("images", "detection") and tensor.dtype in ("int8", "uint8"):
        return {"scale": [1.0], "offset": [float(limits(tensor.dtype)[0])]}
    return {"scale": [1 / scale], "offset": [float(zero)]}


def _read(prepared: dict[str, Any], tensor: Tensor) -> dict[str, Any]:
    """Return the preparation of a JSON file; raise KeyError, TypeError or ValueError if it is not one of the input `tensor`."""
    found: dict[str, Any] = {"task": TASKS[prepared["source"]]}
    shape, is_image = tensor.shape, found["task"] == "images"
    channels = shape[-1] if is_image else next((extent for extent in reversed(shape) if extent > 1), 1)
    fits = not is_image or (len(shape) == 4 and channels in PIXELS)
    if "scale" in prepared:
        pairs = {key: prepared[key] if isinstance(prepared[key], list) else [prepared[key]] for key in ("scale", "offset")}
        found |= {key: list(map(float, values)) for key, values in pairs.items()}
        fits &= all(channels % len(found[key]) == 0 and all(map(math.isfinite, found[key])) for key in pairs)
    if "features" in prepared:
        found["features"] = sound = {key: float(value) for key, value in prepared["features"].items()}
        found["seconds"] = float(prepared["seconds"])
        left, bits = found["seconds"] * sound["rate"] - sound["frame"], math.log2(sound["frame"])
        frames = left // sound["hop"] + 1
        fits &= 0 <= sound["lowest"] < sound["highest"] and bits == int(bits)
        fits &= frames * (sound.get("coefficients") or sound["bands"]) == tensor.elements
    if not fits:
        raise ValueError(prepared)
    return found


def recorded(file: bytes) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return factor and offset that `quantize` has recorded in a .tflite file, or None."""
    stored = tflite.Model.GetRootAs(file)
    for entry in map(stored.Metadata, range(stored.MetadataLength())):
        if entry.Name() == METADATA.encode():
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                (about,) = json.loads(stored.Buffers(entry.Buffer()).DataAsNumpy().tobytes())["inputs"]
                scale, offset = (tuple(map(float, about[key])) for key in ("scale", "offset"))
                if scale and offset and np.isfinite((*scale, *offset)).all():
                    return scale, offset
    return None


def class_names(file: bytes) -> tuple[str, ...]:
    """Return the names of the classes that TFLite's metadata appends to a .tflite file, as a text file in a zip, or ()."""
    faults = suppress(zipfile.BadZipFile, OSError, UnicodeDecodeError, RuntimeError, NotImplementedError, zlib.error)
    with faults, zipfile.ZipFile(BytesIO(file)) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(".txt") and entry.file_size <= MAX_CLASSES:
                return tuple(archive.read(entry).decode().splitlines())
    return ()

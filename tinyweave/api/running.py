"""Run a model on samples: an int8 network by its C, a float network in numpy. In: a Model, samples. Out: Outputs.

Images and recordings become inputs by a factor and an offset, those of the training. If they are not given, they are those that
`quantize` has recorded in the file; else the 256 values of a pixel become the 256 values of an 8-bit input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from .. import ops
from ..devices import Device
from ..ir import CompileError, Graph, Tensor
from ..quantize.calibration_samples import SOURCES, Samples
from ..quantize.convert import as_real
from ..simulate import compare, target
from ..support import media, toolchain
from ..support.files import named
from ..support.notebook import table
from ..support.progress import Progress, silent
from .code import emit_c, emulated_core, write
from .options import PlanOptions
from .plans import make_plan, request_of
from .preparation import preparation_of, recorded
from .quantisation import SampleOptions
from .references import samples
from .results import Model
from .sample_files import arrays_of, read_inputs

IN_NUMPY = "numpy"
AS_RECORDED = SampleOptions()


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a model for some samples.

    Attributes:
        model: the model.
        place: what ran, such as "C on this machine", or "numpy, because there is no C compiler".
        names: a name of each sample, such as that of its file.
        values: for each sample an array per network output, in the type of the output.
        classes: the names of the classes, as given or as of `preparation_of`; empty if they are unknown.
    """

    model: Model
    place: str
    names: tuple[str, ...]
    values: tuple[tuple[np.ndarray, ...], ...]
    classes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the number of samples, what ran, and the shapes of the outputs."""
        shapes = ", ".join(f"{tensor.dtype}{list(tensor.shape)}" for tensor in self.tensors)
        return f"<Outputs of '{self.model.name}' for {len(self.names)} samples, {self.place}: {shapes}>"

    def _repr_html_(self) -> str:
        rows = [
            (name, ", ".join(f"{label}: {real:.4g}" for label, real, _ in self.best(number)))
            for number, name in enumerate(self.names)
        ]
        return table(["sample", "largest outputs"], rows)

    @property
    def tensors(self) -> list[Tensor]:
        """Return the network outputs."""
        graph = self.model.outside
        return [graph.tensors[name] for name in graph.outputs]

    @property
    def real(self) -> list[np.ndarray]:
        """Return the real numbers that each output represents, float32 [samples, *shape of the output]."""
        columns = zip(*self.values, strict=True)
        return [as_real(tensor, np.stack(column)) for tensor, column in zip(self.tensors, columns, strict=True)]

    def best(self, sample: int, count: int = 5, output: int = 0) -> list[tuple[str, float, int | float]]:
        """Return the largest `count` values of a vector as (class name or index, real number, value in C); [] of a map."""
        tensor, values = self.tensors[output], self.values[sample][output].reshape(-1)
        if values.size != tensor.shape[-1]:
            return []
        real = as_real(tensor, values)
        first = np.argsort(-real, kind="stable")[:count]
        names = self.classes if len(self.classes) == len(values) else tuple(map(str, range(len(values))))
        return [(names[index], float(real[index]), values[index].item()) for index in first]

    def file(self, suffix: str) -> bytes:
        """Return a .npy file of the only output, or an .npz file, with arrays [samples, *shape] in the types of the C."""
        arrays = {
            tensor.name: np.stack(column) for tensor, column in zip(self.tensors, zip(*self.values, strict=True), strict=True)
        }
        if suffix == ".npy" and len(arrays) > 1:
            raise CompileError(f"the model has {len(arrays)} outputs, and a .npy file holds one", "give a name with .npz")
        content = BytesIO()
        if suffix == ".npy":
            np.save(content, next(iter(arrays.values())))
        else:
            np.savez(content, **arrays)  # type: ignore[arg-type]
        return content.getvalue()


def run_model(
    model: Model,
    inputs: Any,
    device: Device | None = None,
    read_as: SampleOptions = AS_RECORDED,
    *,
    is_float: bool = False,
    classes: Sequence[str] = (),
    progress: Progress = silent,
) -> Outputs:
    """Run a model on samples, as `verbs.run` does; `is_float` says that it computes on float32."""
    if is_float and device is not None:
        raise CompileError("the model computes on float32, but only int8 becomes C", "quantise it, or leave out the device")
    names, given = _opened(model, inputs, read_as)
    if not given:
        raise CompileError("there are no samples", "give at least one")
    graph = model.outside
    cases = samples(model, len(given), 0, given)[: len(given)]
    place, values = _in_numpy(graph, cases, "float32") if is_float else _by_c(model, cases, device, progress)
    return Outputs(model, place, tuple(names), tuple(map(tuple, values)), tuple(classes) or preparation_of(model)[0])


def _by_c(
    model: Model, cases: Sequence[Sequence[np.ndarray]], device: Device | None, progress: Progress
) -> tuple[str, list[list[np.ndarray]]]:
    """Return what ran and the outputs of an int8 network: the C on a core or this machine, or numpy without a compiler."""
    core = target.HOST if device is None else emulated_core(device)
    if device is None:
        try:
            toolchain.host()
        except CompileError:
            return _in_numpy(model.outside, cases, "there is no C compiler")
    plan = make_plan(model, request_of(PlanOptions(), device), progress=progress)
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        write(emit_c(model, plan, device), Path(folder))
        progress(f"building for {compare.place_of(core)}", 0, 1)
        *earlier, last = map(compare.pack, cases)
        built = target.build(plan, Path(folder), model.name, core, outside=model.outside)
        ran = target.invoke(built, last, earlier=earlier)
    return f"C on {compare.place_of(core)}", compare.unpack_all(model.outside, ran)


def _in_numpy(graph: Graph, cases: Sequence[Sequence[np.ndarray]], why: str) -> tuple[str, list[list[np.ndarray]]]:
    """Return what ran, with the reason `why`, and the outputs as numpy computes them."""
    state = ops.initial_state(graph)
    found = [ops.run(graph, dict(zip(graph.inputs, case, strict=True)), state=state) for case in cases]
    return f"{IN_NUMPY} ({why})", [[each[name] for name in graph.outputs] for each in found]


def _opened(model: Model, inputs: Any, read_as: SampleOptions) -> tuple[list[str], list[list[np.ndarray]]]:
    """Return a name and the arrays of each sample, one per network input: of files by their factors, else unchanged."""
    graph = model.outside
    tensors = [graph.tensors[name] for name in graph.inputs]
    if isinstance(inputs, (str, Path)) and ((path := Path(inputs)).is_dir() or path.suffix.lower() in SOURCES):
        opened = _preprocessed(model, path, read_as)
        return [Path(source).name for source in opened.sources], [opened.read(index) for index in range(len(opened))]
    if isinstance(inputs, (str, Path)):
        found = read_inputs(Path(inputs), model)
    elif isinstance(inputs, (np.ndarray, Mapping)):
        found = media.by_input(inputs if isinstance(inputs, Mapping) else {"": inputs}, tensors, "the array")
    elif isinstance(inputs, Iterable):
        found = [arrays_of(each) for each in inputs]
    else:
        raise CompileError(f"inputs are of the type {type(inputs).__name__}", "give a path, an array, or a list of samples")
    return [f"sample {number}" for number in range(len(found))], found


def _preprocessed(model: Model, path: Path, read_as: SampleOptions) -> Samples:
    """Open files for a network whose inputs may be integers; the samples are real numbers."""
    graph = model.outside
    if read_as.scale is None:
        known = recorded(model.file)
        if not known and any(file.suffix.lower() in media.IMAGES for file in ([path] if path.is_file() else path.rglob("*"))):
            known = _of_pixels(graph)
        read_as = replace(read_as, scale=known[0], offset=known[1]) if known else read_as
    real = {name: replace(graph.tensors[name], dtype="float32", quant=None) for name in graph.inputs}
    return read_as.open(path, replace(graph, tensors={**graph.tensors, **real}))


def _of_pixels(graph: Graph) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return factor and offset by which the values 0 to 255 become the 256 values of the only input, or None."""
    if len(graph.inputs) != 1:
        return None
    tensor = graph.tensors[graph.inputs[0]]
    readers = [op for op in graph.ops if tensor.name in op.inputs]
    if tensor.dtype == "float32" and len(readers) == 1 and readers[0].kind == "quantize":
        tensor = graph.output(readers[0])
    if tensor.quant is None or tensor.dtype not in ("int8", "uint8") or len(tensor.quant.scale) != 1:
        return None
    (scale,), (zero,) = tensor.quant.scale, tensor.quant.zero_point
    return (scale,), (scale * ((-128 if tensor.dtype == "int8" else 0) - zero),)

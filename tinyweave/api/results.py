"""The results of the functions of `import tinyweave as tw`: frozen values, from which reports and the command line are made."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import api  # its functions are imported when they are first used
from ..ir import CompileError, Graph
from ..support.notebook import table

if TYPE_CHECKING:  # `load` needs none of these modules
    from ..devices import Device
    from ..passes.stream_time import TimeStream
    from ..passes.tensor_map import TensorMap
    from ..planning import Limits, Plan
    from ..planning.order.order_search import Order
    from ..projects import Package
    from ..quantize.blame import Blame
    from ..quantize.calibrate import Calibration
    from ..quantize.calibration_samples import Preprocessing
    from ..quantize.fidelity import Fidelity
    from ..quantize.mixed_precision import MixedPrecision
    from ..simulate.compare import Verification
    from ..simulate.instruction_timing import Cycles
    from ..support.manifest import Written


@dataclass(frozen=True, eq=False)
class Model:
    """A network with the file that it was imported from, its imported graph and its simplified graph.

    Attributes:
        name: prefix of the C names.
        graph: the simplified graph, which is planned and compiled. If `stream` is set, it is the graph of one call.
        original: the graph as imported.
        tensors: maps each tensor of `graph` that a pass made to its source in `original` and the channels taken from it.
        path: path of the file, or of a file that could be written if the model was made in Python.
        file: contents of the .tflite file; other formats are converted to it.
        io: "auto" if float32 conversions of inputs and outputs were removed, for the C to compute them in write_input and
            read_output, "int8" if those of uint8 were removed, too, else "model".
        layout: "nhwc" if transposes of inputs and outputs were removed, else "model".
        stream: how the network takes its window of frames, a few new frames per call; None if each call takes the whole window.
        retrainable: whether channels that are constant stay, since a network of the same shape may replace the weights.
    """

    name: str
    graph: Graph
    original: Graph
    tensors: TensorMap
    path: Path
    file: bytes
    io: str
    layout: str = "model"
    stream: TimeStream | None = None
    retrainable: bool = False

    def __call__(self, inputs: Any) -> api.Outputs:
        """Run the model on samples, as `tw.run(model, inputs)` does."""
        found: api.Outputs = api.with_python_words(api.run)(self, inputs)
        return found

    def __repr__(self) -> str:
        """Return the name, the number of ops, and the types and shapes of inputs and outputs."""
        graph = self.outside
        edges = [[graph.tensors[name] for name in names] for names in (graph.inputs, graph.outputs)]
        inputs, outputs = (", ".join(f"{tensor.dtype}{list(tensor.shape)}" for tensor in tensors) for tensors in edges)
        return f"<Model '{self.name}': {len(self.graph.ops)} ops, {inputs} -> {outputs}>"

    def _repr_html_(self) -> str:
        from ..ops import macs_per_op

        work = macs_per_op(self.graph, clipped=True)
        outputs = [self.graph.tensors[op.outputs[0]] for op in self.graph.ops]
        rows = [
            (op.name, op.kind, f"{tensor.dtype}{list(tensor.shape)}", f"{count:,}")
            for op, tensor, count in zip(self.graph.ops, outputs, work, strict=True)
        ]
        return table(["layer", "kind", "output", "MACs"], rows)

    @property
    def whole(self) -> Model:
        """Return the model that takes a whole window of frames per call; the model itself if `stream` is None."""
        return replace(self, graph=self.stream.window, stream=None) if self.stream else self

    @property
    def outside(self) -> Graph:
        """Return the graph as firmware sees it: with the conversions that write_input and read_output of the C compute."""
        from ..ops.quantization import add_floats

        return add_floats(self.graph, self.original) if self.io == "auto" else self.graph

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the model's .tflite file in hexadecimal."""
        return hashlib.sha256(self.file).hexdigest()


class Inspection(NamedTuple):
    """The result of `inspect`: a model, an error for each op that cannot be compiled, and for a float model its int8 form."""

    model: Model
    unsupported: tuple[CompileError, ...]
    int8: Model | None = None
    without_int8: CompileError | None = None  # why a float model has no int8 form

    def __repr__(self) -> str:
        """Return the number of ops that are not supported, and the model."""
        return f"<Inspection: {len(self.unsupported)} ops not supported, {self.model!r}>"

    def _repr_html_(self) -> str:
        reasons = table(["not supported"], [(str(error),) for error in self.unsupported])
        return (reasons if self.unsupported else "") + self.model._repr_html_()


@dataclass(frozen=True, eq=False)
class Emission:
    """The C of models, written into a folder by `compile` or `export`."""

    models: tuple[Model, ...]
    plans: tuple[Plan, ...]
    folder: Path
    files: tuple[Path, ...]  # paths of all written files, except the list of them
    own: tuple[Path, ...]  # the files without those of kernels, or of an export the files of the build system
    written: Written  # files of an earlier run that were removed or kept
    package: Package | None = None  # None if `compile` wrote the C

    def __repr__(self) -> str:
        """Return the names of the models, and the number of files."""
        return f"<Emission of {', '.join(model.name for model in self.models)}: {len(self.files)} files>"


class FlashTraffic(NamedTuple):
    """The reads of one inference from Flash beside the chip that no cache answered: cycles, and bytes by content."""

    cycles: Cycles
    constants: int
    code: int


class FileReads(NamedTuple):
    """Reads of a file of weights by a callback in one inference; no other time includes theirs."""

    bytes: int
    reads: int
    ms: float | None  # None if the callback reads from an unknown memory
    ms_range: list[float]
    hidden_ms_range: list[float] | None  # of these, what passes while layers compute, if the two do not disturb each other


@dataclass(frozen=True, eq=False)
class Profile:
    """Measurements of one inference on an emulated core. Sizes are measured in bytes; cycles are estimated from instructions.

    Cycles are None or empty if the timings of the core are unknown, or if `foreign` is not empty.

    Attributes:
        core: the emulated core.
        compiler: the compiler, its version and flags.
        foreign: kernels of the plan that the emulated core cannot run; portable C replaced them.
        instructions: instructions of one inference.
        per_step: instructions of each step of the plan (a layer or a fused stage), including the calls of the trace hook.
        per_layer: layer name -> instructions. A layer of a fused stage counts only the instructions of its kernel calls, and is
            missing if they are unknown.
        cycles: lowest, likely and highest number of cycles of the inference.
        cycles_per_step: the same for each step.
        cycles_per_layer: the same for each layer, by name.
        waits: likely wait cycles per Flash read that misses the caches; None if unknown.
        reading: what was read from Flash beside the chip; None for Flash on the chip, or if its timing is unknown.
        reads: (offset, bytes) of each call of the callback that reads a file of weights.
        arena: memory -> bytes of the arena, as planned.
        static: bytes of static data.
        stack: most bytes of stack that the model's functions used.
        weights: bytes of weights in Flash.
        tables: bytes of other constants in Flash.
        code: bytes of code in Flash.
    """

    core: str
    compiler: str
    foreign: tuple[str, ...]
    instructions: int
    per_step: tuple[int, ...]
    per_layer: Mapping[str, int]
    cycles: Cycles | None
    cycles_per_step: tuple[Cycles, ...]
    cycles_per_layer: Mapping[str, Cycles]
    waits: int | None
    reading: FlashTraffic | None
    reads: tuple[tuple[int, int], ...]
    arena: dict[str, int]
    static: int
    stack: int
    weights: int
    tables: int
    code: int

    def __repr__(self) -> str:
        """Return the core, instructions, likely cycles, RAM and Flash."""
        cycles = "" if self.cycles is None else f", about {self.cycles.likely:,} cycles"
        return (
            f"<Profile on {self.core}: {self.instructions:,} instructions{cycles}, RAM {self.ram:,} B, Flash {self.flash:,} B>"
        )

    def _repr_html_(self) -> str:
        counts = {"instructions": self.instructions, "cycles, about": self.cycles.likely if self.cycles else None}
        counts |= {"RAM, B": self.ram, "- arena": sum(self.arena.values()), "- static data": self.static, "- stack": self.stack}
        counts |= {"Flash, B": self.flash, "- weights": self.weights, "- tables": self.tables, "- code": self.code}
        head = table(["emulated core", self.core], [(what, f"{n:,}") for what, n in counts.items() if n is not None])
        layers = [(name, f"{count:,}", f"{count / self.instructions:.1%}") for name, count in self.per_layer.items()]
        return head + table(["layer", "instructions", "share"], layers)

    def latency_ms(self, device: Device | None) -> float | None:
        """Return the likely milliseconds of one inference at the device's clock, or None if unknown.

        They are unknown without a device, its clock or the cycles, or if the emulated core is not the device's own.
        """
        if self.cycles is None or device is None or device.clock_hz is None or device.core != self.core:
            return None
        from ..simulate.instruction_timing import milliseconds

        return milliseconds(self.cycles.likely, device.clock_hz)

    @property
    def ram(self) -> int:
        """Return the bytes of RAM: arenas, static data and stack."""
        return sum(self.arena.values()) + self.static + self.stack

    @property
    def flash(self) -> int:
        """Return the bytes of Flash: weights, tables and code."""
        return self.weights + self.tables + self.code


class FlashEstimate(NamedTuple):
    """Estimated bytes of Flash of a plan that is not built: its constants, and bounds on constants plus code."""

    constants: int
    lower_bound: int
    upper_bound: int

    def excess(self, limit: int | None) -> int | None:
        """Return the bytes by which the constants alone exceed `limit`, or 0 if constants plus code certainly fit.

        None if `limit` is None, or if it is between the constants and the upper bound, so that only a build can tell.
        """
        if limit is None or self.constants <= limit < self.upper_bound:
            return None
        return max(0, self.constants - limit)


def verdict(over: Collection[float | None], *, is_open: bool) -> bool | None:
    """Combine excesses over several limits into one verdict: True if the plan fits, False if not, None if unknown.

    Args:
        over: excess over each limit, 0 if the limit is met, or None if there is no limit or the excess is unknown.
        is_open: whether a limit exists whose excess is unknown; the verdict is then False or None.
    """
    known = [value for value in over if value is not None]
    if any(known):
        return False
    return True if known and not is_open else None


class Rewriting(NamedTuple):
    """The gain of a file that was rewritten for an engine."""

    engine: str  # such as `tflm`
    before: int  # bytes that the engine needs for the activations of the model's file, without scratch of kernels
    after: int  # the same for the new file
    macs: float = 1.0  # MACs of the new file as a multiple of the model's MACs
    pads: int = 0  # that were folded into other ops
    tiled: int = 0  # ops that run patch by patch
    grid: tuple[int, int] = (1, 1)  # patches along rows and columns
    unchanged: str = ""  # why the file was not changed; "" if it was


@dataclass(frozen=True, eq=False)
class Reordering:
    """The op order of a model with the least peak memory, and the model's file in that order.

    Attributes:
        model: the model, in its file's order.
        count: how memory is counted. `live`: views (such as reshapes) share the memory of their source. `working_set`: each
            tensor has its own.
        owner: tensor -> tensor whose memory it uses; itself if it has its own.
        best: the order as op indices, its peak in bytes, and a lower bound on the peak of every order.
        file: the .tflite file with its ops in the best order.
        graph: the graph whose ops `best` orders: the model's, or that of the file for `engine`.
        engine: how much less RAM an engine needs for the file; None if only the order was changed.
    """

    model: Model
    count: str
    owner: dict[str, str]
    best: Order
    file: bytes
    graph: Graph
    engine: Rewriting | None = None

    def __repr__(self) -> str:
        """Return the name and the peak bytes of the best order."""
        return f"<Reordering of '{self.model.name}': at most {self.best.peak:,} B live>"

    def live(self, order: Sequence[int] | None = None) -> list[dict[str, int]]:
        """Return, for each step of an order of `graph`, the live tensors that own memory, with their bytes.

        The order None is that of the model's file.
        """
        from ..planning.order.order_search import live_owners

        graph = self.model.original if order is None else self.graph
        order = range(len(graph.ops)) if order is None else order
        return [{n: graph.tensors[n].bytes for n in names} for names in live_owners(graph, order, self.owner)]


@dataclass(frozen=True, eq=False)
class Deployment:
    """A model planned, built, verified and measured for a device.

    Attributes:
        model: the model.
        plan: the plan whose C was written.
        profile: measurements of one inference; None if nothing was built, because the plan already exceeds a limit.
        verification: comparison of all outputs with the reference; None likewise.
        device: the device; None if only a core was emulated.
        limits: RAM, Flash and time limits of the request.
        row_source: camera or JPEG format whose C was added, such as "jpeg:640x480"; None for no such C.
        row_source_bytes: bytes of RAM of this C.
        row_source_flash: bytes of Flash of this C.
        record: what `tinyweave deploy --json` prints, with `advice` if the model does not fit; empty if `tw.deploy` did not
            make this result.
        files: paths of the written C and reports.
        written: files of an earlier run that were removed or kept; None if nothing was written.
        outputs: outputs of the C for the samples of the caller; None without samples, or if nothing was built.
    """

    model: Model
    plan: Plan
    profile: Profile | None
    verification: Verification | None
    device: Device | None
    limits: Limits
    row_source: str | None = None
    row_source_bytes: int = 0
    row_source_flash: int = 0
    record: dict[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    written: Written | None = None
    outputs: api.Outputs | None = None

    def __repr__(self) -> str:
        """Return whether the model fits, whether its bytes are right, and the profile, as one line."""
        measured = f"{_proof_text(self.verification)}, {self.profile!r}" if self.profile else "nothing was built"
        return f"<Deployment of '{self.model.name}': {_fit_text(self.fits)}, {measured}>"

    def _repr_html_(self) -> str:
        if self.profile is None:
            over = [(name, f"{value:,} too many") for name, value in self.excess.items() if value]
            return table(["model", self.model.name], [("verdict", "does not fit, nothing was built"), *over])
        needs = {"RAM": self.profile.ram + self.row_source_bytes, "Flash": self.profile.flash + self.row_source_flash}
        taken = self.profile.latency_ms(self.device)
        rows = [
            ("board", self.device.name if self.device else "none"),
            ("verdict", _fit_text(self.fits)),
            *((name, _of_limit(need, getattr(self.limits, name.lower()))) for name, need in needs.items()),
            ("time, about", "unknown" if taken is None else f"{taken:,.1f} ms"),
            ("output", _proof_text(self.verification)),
        ]
        return table(["model", self.model.name], rows) + self.profile._repr_html_()

    @property
    def fits(self) -> bool:
        """Return whether RAM, Flash and latency are within the limits; an unknown latency counts as within."""
        return not any(self.excess.values())

    @property
    def excess(self) -> dict[str, float]:
        """Return the bytes (`ram`, `flash`) and milliseconds (`latency_ms`) above each limit.

        A value is 0 if the limit is met, if there is no limit, or if the measurement is unknown.
        """
        if self.profile is None:
            return {name: value or 0 for name, value in self.record["excess"].items()}
        return excess(self.profile, self.limits, self.row_source_bytes, self.row_source_flash)


@dataclass(frozen=True, eq=False)
class Fit:
    """The measurement of a model for one of several compared boards.

    Attributes:
        device: the board.
        plan: the plan for the board's core.
        profile: measurements on this core, or on the nearest core that can be emulated.
    """

    device: Device
    plan: Plan
    profile: Profile

    def __repr__(self) -> str:
        """Return the board, the verdict, RAM and Flash."""
        return (
            f"<Fit on {self.device.name}: {_fit_text(self.fits)}, RAM {self.profile.ram:,} B, Flash {self.profile.flash:,} B>"
        )

    @property
    def limits(self) -> Limits:
        """Return the board's RAM and Flash as limits; None for an unknown size."""
        from ..planning import Limits

        return Limits(self.device.ram, self.device.flash)  # without memory maps: the plan, for all boards, has one arena

    @property
    def excess(self) -> dict[str, float]:
        """Return the bytes (`ram`, `flash`) above the board's memory; 0 if they fit or if that memory's size is unknown."""
        return excess(self.profile, self.limits)

    @property
    def fits(self) -> bool:
        """Return whether measured RAM and Flash are within the RAM and Flash of the board."""
        return not any(self.excess.values())


def excess(profile: Profile, limits: Limits, more_ram: int = 0, more_flash: int = 0) -> dict[str, float]:
    """Return the excess over limits, `ram` and `flash` in bytes, `latency_ms` in milliseconds; 0 if none or unknown."""
    likely = profile.cycles.likely if limits.cycles is not None and profile.cycles else None
    return {
        "ram": limits.ram_excess(profile.arena, profile.static + profile.stack + more_ram) or 0,
        "flash": 0 if limits.flash is None else max(0, profile.flash + more_flash - limits.flash),
        "latency_ms": limits.beside_reads([count for _, count in profile.reads]).latency_excess(likely) or 0,
    }


def _fit_text(fits: bool) -> str:
    return "fits" if fits else "does not fit"


def _of_limit(need: int, limit: int | None) -> str:
    return f"{need:,} B" + ("" if limit is None else f" of {limit:,} B")


def _proof_text(verification: Verification | None) -> str:
    return "every output byte is right" if verification and verification.ok else "a byte differs"


@dataclass(frozen=True, eq=False)
class Quantisation:
    """A float model quantised to int8, and the comparison of both.

    Attributes:
        model: the int8 model, for `plan`, `compile` and `verify`.
        real: the float graph after simplification.
        calibration: the scale chosen for each group of tensors, and the method that chose it.
        preprocessing: scale and offset of the samples' values.
        used: indices of the samples that chose the ranges.
        fidelity: error relative to the float model, on all samples.
        blame: error of each layer; None if it was not requested.
        precision: layers with 4-bit weights or int16 activations; None if there was no limit to meet.
        float_bytes: bytes of the float model's file.
    """

    model: Model
    real: Graph
    calibration: Calibration
    preprocessing: Preprocessing
    used: tuple[int, ...]
    fidelity: Fidelity
    blame: Blame | None
    precision: MixedPrecision | None
    float_bytes: int

    @property
    def file(self) -> bytes:
        """Return the int8 model as the bytes of a .tflite file."""
        return self.model.file

    def __repr__(self) -> str:
        """Return the name, and the file size, SQNR and agreement of the int8 model."""
        near = f"{self.fidelity.sqnr_db:.1f} dB" + (
            "" if self.fidelity.agreement is None else f", {100 * self.fidelity.agreement:.1f} % the same class"
        )
        return f"<Quantisation of '{self.model.name}': {len(self.file):,} B, {near}>"

    def _repr_html_(self) -> str:
        rows = [("file, B", f"{len(self.file):,}"), ("float file, B", f"{self.float_bytes:,}")]
        rows += [("SQNR, dB", f"{self.fidelity.sqnr_db:.1f}")]
        if self.fidelity.agreement is not None:
            rows += [("same class", f"{self.fidelity.agreement:.1%}")]
        if self.fidelity.accuracy is not None:
            rows += [("accuracy, float and int8", " and ".join(f"{share:.1%}" for share in self.fidelity.accuracy))]
        return table(["quantised", self.model.name], rows)

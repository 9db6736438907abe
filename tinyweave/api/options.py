"""The options of the planner, and the default values that the Python functions and the command line share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

from ..support.command_words import quoted, typed
from ..support.progress import Progress

SAMPLES, SEED = 5, 0  # number of samples that verify the C, and the seed of the random ones
PACKAGE_VERSION = "1.0.0"
METHOD = "auto"  # how quantisation ranges are chosen
CONFIG = "tinyweave.toml"  # the file of `guard`
LIMITS = ("ram", "flash", "latency_ms")


@dataclass(frozen=True)
class PlanOptions:
    """Options of the planner, including the limits that a plan must meet.

    Attributes:
        schedule: strategy of the planner. `best` uses every technique. `unfused` runs layer by layer, without fused stages and
            recomputation. `layer`, the baseline, also keeps the file's op order and lets no output overlap an operand. Planners
            of papers: `patch` or `patch:N:K` (N x N patches of the first K layers), `msf`.
        optimize: objective within the limits. `size` minimises the RAM (arena and estimated stack), with portable kernels
            unless the core's own kernels need less or the time is limited; `speed` minimises the estimated cycles, `balanced`
            the product of arena and cycles, `flash` constants and code. None is `balanced`. If the plan exceeds a limit, the
            other objectives are tried.
        stream_inputs: whether a callback delivers the inputs row by row, so that no whole input is in RAM.
        stream_outputs: whether a callback receives outputs row by row. It applies to output maps that are computed by rows and
            that no op reads.
        max_mac_overhead: upper bound on the MACs, as a multiple of the network's MACs. None allows no recomputation, except in
            `patch` and `msf`, which may then recompute without limit.
        stream_time: number of new frames per call, for a network whose input is a window of frames. A call computes only the
            rows that the new frames change; rows of earlier calls are kept as state. "auto" chooses a number that fits the
            network's strides; None computes the whole window in each call.
        ram: RAM limit in bytes, or text such as "64k" or "1m"; None takes the device's RAM.
        flash: Flash limit, likewise; None takes the device's Flash.
        latency_ms: time limit of one inference in milliseconds; None is no limit. It needs a device with a known clock and a
            core with a cycle model.
        weights: where constants are while the network runs. `flash`: in Flash. `ram`: in RAM, copied there once by `init`.
            `auto`: in RAM where that saves the most estimated time within the RAM limit. `file`: in a file beside the C, of
            which `init` takes the address, so that it can be replaced. `fetch`: in such a file, from which a callback reads
            the constants of a layer to RAM before the layer.
    """

    schedule: str = "best"
    optimize: str | None = None
    stream_inputs: bool = False
    stream_outputs: bool = False
    max_mac_overhead: float | None = None
    stream_time: int | str | None = None
    ram: int | str | None = None
    flash: int | str | None = None
    latency_ms: float | None = None
    weights: str = "flash"

    @property
    def in_file(self) -> bool:
        """Return whether constants are in a file beside the C, which must also suit the network trained again."""
        return self.weights in ("file", "fetch")

    @property
    def limits(self) -> dict[str, Any]:
        """Return the values of `ram`, `flash` and `latency_ms` by name, as given."""
        return {name: getattr(self, name) for name in LIMITS}


class PlanChanges(TypedDict, total=False):
    """The fields of PlanOptions, as keyword arguments of functions."""

    schedule: str
    optimize: str | None
    stream_inputs: bool
    stream_outputs: bool
    max_mac_overhead: float | None
    stream_time: int | str | None
    ram: int | str | None
    flash: int | str | None
    latency_ms: float | None
    weights: str


class CodeChanges(PlanChanges, total=False):
    """Options of the emitted C, as keyword arguments of functions, with the fields of PlanOptions.

    Attributes:
        kernel_prefix: prefix of all kernel names, so that kernels of two versions can be linked together.
        source: camera or JPEG format of the input, such as "jpeg:640x480". C that converts it to the network's input, row by
            row, is added (see docs/CAMERA.md). None adds no such C.
        pixels: input values of black and white pixels, such as "0..1"; only with `source`. None uses the ends of the input's
            range.
        typed: options typed at the command line, by parameter name, for comments in the C; else None.
        progress: called with the work, the number of its steps done, and of all.
    """

    kernel_prefix: str
    source: str | None
    pixels: str | None
    typed: Mapping[str, Any] | None
    progress: Progress | None


class ExportChanges(CodeChanges, total=False):
    """Options of `export`, as keyword arguments, with those of CodeChanges.

    Attributes:
        array: for the format "tflm", the name of the array that holds the model's .tflite file in the firmware, or a name per
            model. A file that defines it anew, without the weights, is written for each.
    """

    array: str | Sequence[str]


DEFAULTS = {**asdict(PlanOptions()), "io": "auto", "layout": "model"}
DEFAULTS |= {"kernel_prefix": "", "samples": SAMPLES, "seed": SEED, "package_version": PACKAGE_VERSION}


def command_line(verb: str, models: Sequence[Path], chosen: Mapping[str, Any], **more: Any) -> str:
    """Return the command that reproduces an output, for comments and reports; paths are shortened to file names.

    Args:
        verb: the command's name.
        models: paths of the models.
        chosen: values of the shared options.
        more: values of further options, by parameter name.
    """
    options = {**chosen, **more}
    named = {name: Path(options[name]).name for name in ("device", "inputs", "plan") if options.get(name)}
    return " ".join(map(quoted, ["tinyweave", verb, *(model.name for model in models), *option_words({**options, **named})]))


def option_words(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command-line words of the options that differ from their defaults."""
    return typed(options, DEFAULTS)

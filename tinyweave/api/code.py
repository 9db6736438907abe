"""The C of a plan: emitted, merged with that of other models, written, compiled for the core that is emulated."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..codegen import Frames, Origin, Source, emit
from ..devices import Device
from ..ir import CompileError
from ..planning import Plan
from ..simulate import emulated
from ..support.files import named, write_below
from .plans import DEFAULT_CORE
from .results import Model
from .row_sources import row_source_files


@dataclass(frozen=True)
class CodeOptions:
    """Options of the emitted C, as for `verbs.compile`; `command` is the command that writes it, for comments, or ""."""

    command: str = ""
    kernel_prefix: str = ""
    row_source: str | None = None
    pixels: str | None = None


PLAIN = CodeOptions()


def emit_c(model: Model, plan: Plan, device: Device | None = None, code: CodeOptions = PLAIN) -> Source:
    """Return the C files of a plan, and if the options name a row source, its C files.

    A row source is C that converts a camera's picture or a JPEG file to the network's input, row by row.

    Raises:
        CompileError: the row source does not suit the model's input, or two files would have the same name.
    """
    stream = model.stream
    frames = Frames(stream.frames, stream.hop, stream.calls_until_full, stream.returns_new_rows) if stream else None
    named, core = (device.name, device.core) if device else ("", "")
    origin = Origin(model.path.name, model.sha256, code.command, named, frames, core)
    emitted = emit(plan, model.name, origin, code.kernel_prefix)
    beside = row_source_files(model, code.row_source, code.pixels) if code.row_source else {}
    if code.pixels and not code.row_source:
        raise CompileError("--pixels needs --source, whose pixels it describes", "add --source")
    own = tuple(name for name in beside if name.startswith(f"{model.name}_source."))
    if clash := sorted(set(beside) & set(emitted.files)):
        raise CompileError(f"two files would be called {clash[0]}", "rename the model")
    return Source(emitted.name, (*emitted.own, *own), {**emitted.files, **beside})


def merge_files(sources: Sequence[Source]) -> dict[str, str]:
    """Return the files of several models (name -> text) for one folder, with one copy of each shared kernel.

    Raises:
        CompileError: two models have a file of the same name that is not a shared kernel.
    """
    for index, one in enumerate(sources):
        for other in sources[:index]:
            if clash := sorted(set(one.own) & set(other.files) | set(other.own) & set(one.files)):
                both = f"the models '{other.name}' and '{one.name}' both have a file {clash[0]}"
                raise CompileError(both, "rename one of the files")
    return {file: text for source in sources for file, text in source.files.items()}


def write(source: Source, folder: Path) -> None:
    """Write the emitted C files of a model into an existing folder."""
    write_below(folder, source.files)


def compiled_bytes(files: Mapping[str, str], device: Device | None) -> dict[str, int]:
    """Compile C files for a device's core and return their bytes of `flash` and `ram`, without the compiler's library."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        write_below(Path(folder), files)
        return emulated.compiled_bytes(Path(folder), emulated_core(device))


def emulated_core(device: Device | None) -> str:
    """Return the core that is emulated for a device: its own, or the nearest one; DEFAULT_CORE without a device."""
    if device is None:
        return DEFAULT_CORE
    return emulated.nearest(device.core, device.nearest, DEFAULT_CORE)

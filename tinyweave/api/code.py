"""The C of a plan: emitted, merged with that of other models, written, compiled; new weights for C that is built already."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from ..codegen import Frames, Origin, Source, emit
from ..codegen.header import END_WORDS
from ..codegen.weights_file import HEAD_BYTES, without_comments
from ..devices import Device
from ..ir import CompileError, shortened
from ..planning import Plan, Progress
from ..simulate import emulated
from ..simulate.compare import Verification, verify
from ..support.files import named, read_file, write_below
from .plans import DEFAULT_CORE, read_plan
from .references import USUAL, ProofOptions, reference_outputs
from .results import Model
from .row_sources import row_source_files

PLAN = "_plan.json"  # behind the model's name: the plan that is written beside C that reads a file of weights
HASH = "static const uint32_t plan[4]"  # beginning of the line of the C that has its hash
MAX_SOURCE = 1 << 26  # bytes of a C file
REBUILD = "the file of weights cannot change this: compile the network, and build the firmware again"
HINT = "give NAME_plan.json of a folder that 'compile --weights file' or 'deploy --weights file' wrote"


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

    A row source is C that converts a camera's picture or a JPEG file to the network's input, row by row. Raise CompileError if
    the row source does not suit the model's input, or two files would have the same name.
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
    return replace(emitted, own=(*emitted.own, *own), files={**emitted.files, **beside})


def merge_files(sources: Sequence[Source]) -> dict[str, str]:
    """Return the C files of several models (name -> text) for one folder, with one copy of each shared kernel.

    Raise CompileError if two models have a file of the same name that is not a shared kernel.
    """
    for index, one in enumerate(sources):
        for other in sources[:index]:
            if clash := sorted(set(one.own) & set(other.files) | set(other.own) & set(one.files)):
                both = f"the models '{other.name}' and '{one.name}' both have a file {clash[0]}"
                raise CompileError(both, "rename one of the files")
    return {file: text for source in sources for file, text in source.files.items()}


def write(source: Source, folder: Path) -> None:
    """Write the emitted C files of a model into an existing folder."""
    write_below(folder, source.all)


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


class NewWeights(NamedTuple):
    """A file of weights for C that was built for another network, and the proof that the C computes the right bytes with it."""

    model: Model
    plan: Plan
    file: bytes
    verification: Verification


def new_weights(
    model: Model, planned: Path, device: Device | None = None, proof: ProofOptions = USUAL, progress: Progress | None = None
) -> NewWeights:
    """Return the file of weights with which the C beside the plan `planned` computes the network `model`.

    The C of this network must be equal to the C there, but for comments. The files that are there are then built and run.
    Raise CompileError if the C there is missing, or has numbers or code that this network needs otherwise.
    """
    if not planned.name.endswith(PLAN):
        raise CompileError(f"'{planned}' is no plan beside C", HINT)
    folder, name, core = planned.parent, planned.name.removesuffix(PLAN), emulated_core(device)
    plan = read_plan(planned, model, device.core if device else None, retrained=True)
    if not plan.weights_file:
        raise CompileError(f"{planned}: the weights of this plan are in its C", HINT)
    found = (path for place in (folder, folder.parent / "include") for path in sorted(place.glob("*.[ch]")))
    there = {path.name: read_file(path, MAX_SOURCE, HINT) for path in found}
    own = {file: there.get(file, b"").decode("utf-8", "replace") for file in (f"{name}.h", f"{name}.c")}
    prefix = re.search(r'^#include "(?:(\w+)_)?tw\.h"', own[f"{name}.c"], re.MULTILINE)
    made = emit_c(replace(model, name=name), plan, device, CodeOptions(kernel_prefix=prefix[1] or "" if prefix else ""))
    for file, text in own.items():
        _check_equal(folder / file, text, made.files[file], model)
    weights = made.data[f"{name}.weights"]
    if f"{name}_source.c" in there:  # which has the inputs' scales and zero points
        inputs = slice(HEAD_BYTES, HEAD_BYTES + 4 * END_WORDS * len(plan.graph.inputs))
        if read_file(folder / f"{name}.weights", MAX_SOURCE, HINT)[inputs] != weights[inputs]:
            raise CompileError(f"'{name}_source.c' is for inputs of another scale or zero point", REBUILD)
    cases = proof.samples(model)
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as scratch, named(scratch):
        write_below(Path(scratch), {**there, **made.data})
        right = reference_outputs(model, cases, progress)
        done = verify(plan, Path(scratch), name, cases, cores=[core], outside=model.outside, right=right, progress=progress)
    return NewWeights(model, plan, weights, done)


def _check_equal(path: Path, there: str, needed: str, model: Model) -> None:
    """Raise CompileError, with the first lines that differ, unless the C in a file is the C that a network needs."""
    old, new = ([line.strip() for line in without_comments(text).splitlines() if line.strip()] for text in (there, needed))
    if old == new:
        return
    if not old:
        raise CompileError(f"there is no '{path}'", HINT)
    changes = [change for change in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if change[0] != "equal"]
    # the hash of the C differs whenever another line does
    _, a, b, i, j = next((change for change in changes if not "".join(old[change[1] : change[2]]).startswith(HASH)), changes[0])
    more = f" ({len(changes) - 1} differences in all)" if len(changes) > 1 else ""
    raise CompileError(f"'{path}' has {_quoted(old[a:b])}, but {model.path.name} needs {_quoted(new[i:j])}{more}", REBUILD)


def _quoted(lines: Sequence[str]) -> str:
    return f"'{shortened(' '.join(lines))}'" if lines else "nothing there"

"""Firmware of the examples that reads a file piece by piece and prints the results of networks; QEMU runs it on a board.

In: planned models, and the C that computes their input or decodes boxes from their output. Out: a Package with its own main;
the text that it prints, and its RAM.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import qemu_firmware as firmware

from tinyweave.api import emulated_core
from tinyweave.codegen.memory_header import has_memory_header
from tinyweave.devices import Device, find
from tinyweave.ir import CompileError
from tinyweave.kernels.table import foreign
from tinyweave.projects import BOARDS, Package, firmware_files
from tinyweave.projects.example import memory_includes
from tinyweave.projects.package import arena, filled, memory_name
from tinyweave.simulate.run import Fault
from tinyweave.support.files import named

TEMPLATES = Path(__file__).resolve().parent / "firmware"
LIMIT_S = 600.0  # seconds that a firmware may run
STACK = re.compile(r"\bstack (\d+)\n\Z")  # the last line that the firmware prints: the most bytes of stack
MAIN = "main.c"
MOST_BYTES = 10_000_000  # default limit on the bytes of a photograph's file
LARGEST = (1 << 31) - 1


def listening(
    package: Package, beside: Mapping[str, str], *, every: int, steps: int, threshold: int, pause: int, words: int | None = None
) -> Package:
    """Return a package whose program reads a wav file and prints the class at each inference, and the words it recognised.

    The scores of the last inferences are averaged before a word is recognised. Raise CompileError if there are several models,
    or a number is out of range.

    Args:
        every: frames from one inference to the next.
        steps: number of inferences whose mean score decides.
        threshold: least mean of the int8 scores, -128 to 127, with which a word is recognised.
        pause: inferences after a recognised word in which no other is recognised.
        words: number of the first classes that are words; the other classes are never recognised. None takes all.
    """
    _check_one(package)
    name, graph = package.models[0].name, package.models[0].plan.graph
    classes = graph.tensors[graph.outputs[0]].elements
    words = classes if words is None else words
    if not 1 <= words <= classes:
        raise CompileError(f"{words} of {classes} classes cannot be words", f"give 1 to {classes}")
    numbers = {"every": every, "steps": steps, "threshold": threshold, "pause": pause, "words": words}
    for key, value in numbers.items():
        least, most = {"threshold": (-128, 127), "pause": (0, LARGEST)}.get(key, (1, LARGEST))
        if not least <= value <= most:
            raise CompileError(f"{key} cannot be {value}", f"give {least} to {most}")
    is_streamed = bool(package.models[0].plan.streamed_inputs)
    feed = f"    (void)log_mel_ring_rows(&ring, 0, 0, FRAMES, {name}_input(&{memory_name(package.models[-1])}, 0));"
    feed = f"    const {name}_io io = {{.read_rows = log_mel_ring_rows, .user = &ring}};" if is_streamed else feed
    return _with_main(package, "listen.c", beside, **numbers, feed=feed, io="&io" if is_streamed else "NULL")


def looking(package: Package, beside: Mapping[str, str], *, threshold: int, budget: int = MOST_BYTES) -> Package:
    """Return a package whose program reads a JPEG file and prints the boxes that a detector finds.

    `beside` has C files that decode boxes. `threshold` is the least score printed, as a probability times 2^15; `budget` the
    most bytes read of a file. Raise CompileError if there are several models, or the input does not come from a JPEG row
    source.
    """
    _check_one(package)
    return _with_main(package, "look.c", beside, threshold=threshold, budget=budget, **_pictures(package))


def cascade(
    package: Package,
    beside: Mapping[str, str],
    *,
    label: int,
    at_least: int,
    threshold: int,
    budget: int = MOST_BYTES,
) -> Package:
    """Return a package whose program runs a classifier on a JPEG file, and a detector if the classifier finds a class.

    The two share one arena in the default memory. `label` is the number of the class, `at_least` its least int8 score; the
    others are as for `looking`. Raise CompileError if there are not two models with one memory each, or an input does not come
    from a JPEG row source.
    """
    if len(package.models) != 2 or any(has_memory_header(model.plan) for model in package.models):
        raise CompileError("a cascade is of two models that share one arena", "give two, and a board with one memory for both")
    first, _ = package.models
    given = {"first": first.name, "FIRST": first.name.upper(), "label": label, "at_least": at_least}
    return _with_main(package, "cascade.c", beside, threshold=threshold, budget=budget, **given, **_pictures(package))


def _check_one(package: Package) -> None:
    if len(package.models) > 1:
        raise CompileError("a program of this kind is of one model", "give one model")


def _pictures(package: Package) -> dict[str, str]:
    """Return the C of a program's placeholders for JPEG files and boxes; raise CompileError for another row source."""
    for model in package.models:
        if not model.plan.streamed_inputs or "tw_jpeg_reader" not in package.files.get(f"{model.name}_source.h", ""):
            raise CompileError(
                "a program that looks takes its picture by rows", "give stream_inputs and a source of JPEG files"
            )
    return {name: filled(str(TEMPLATES / f"{name}.c")) for name in ("pictures", "show_boxes")}


def _with_main(package: Package, template: str, beside: Mapping[str, str], **values: object) -> Package:
    """Return the package with the files `beside` and a main made from a template; `values` fill its placeholders."""
    model = package.models[-1]
    if clash := sorted(set(beside) & set(package.files)):
        raise CompileError(f"two files would be called {clash[0]}", "rename the model")
    text = filled(
        str(TEMPLATES / template),
        name=model.name,
        NAME=model.name.upper(),
        includes="\n".join(memory_includes(model)),
        host=filled(str(TEMPLATES / "host.c"), print_integer=filled("print.c")),
        memory=memory_name(model),
        arena=arena(model),
        **values,
    )
    return replace(package, files={**package.files, **beside}, program={MAIN: text})


@dataclass(frozen=True)
class ProgramRun:
    """The result of running a program on an emulated board.

    Attributes:
        printed: the text that the program printed.
        ram: variable -> bytes of RAM; `stack` is the most stack that was used.
        compiler: the compiler with its flags.
    """

    printed: str
    ram: dict[str, int]
    compiler: str

    @property
    def total(self) -> int:
        """Return the bytes of RAM of all variables and the stack."""
        return sum(self.ram.values())


def _qemu_board(device: Device) -> Device:
    """Return the board with a device's core (or the nearest core) that QEMU emulates.

    Raises:
        CompileError: QEMU emulates no such board, or QEMU is not installed.
    """
    core = emulated_core(device)
    boards = {board.core: board for board in map(find, BOARDS)}
    if core not in boards:
        raise CompileError(f"QEMU emulates no {core}, only {', '.join(boards)}", "give a board with one of these cores")
    if not firmware.is_qemu_there():
        raise CompileError("firmware runs in qemu-system-arm, which is not installed", "apt-get install qemu-system-arm")
    return boards[core]


def run_firmware(package: Package, board: Device, file: Path | None = None) -> tuple[str, dict[str, int], str]:
    """Build the firmware of a package and run it on a board that QEMU emulates.

    Returns:
        The text that the firmware printed, variable -> bytes of RAM, and the compiler with its flags.
    """
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name, named(name):
        folder, fed = Path(name), None
        plain = any(foreign(model.plan.variants, board.core) for model in package.models)
        program, compiler = firmware.build(firmware_files(package), folder, board.core, plain=plain)
        if file is not None:
            fed = folder / "input"  # a name that QEMU's options can hold
            fed.write_bytes(file.read_bytes())
        return firmware.run(program, board.name, LIMIT_S, fed), firmware.variables(program), compiler


def run_program(package: Package, file: Path) -> ProgramRun:
    """Run the program of a package on its board, emulated by QEMU, with the contents of `file` as its input.

    Raises:
        CompileError: the package has no program or no board, or QEMU or a compiler is missing.
        Fault: the program ended before it printed its stack use.
    """
    if not package.program or package.device is None:
        raise CompileError("the package has no program for a board", "add a program, and a board that QEMU emulates")
    board = _qemu_board(package.device)
    printed, ram, said = run_firmware(package, board, file)
    deepest = STACK.search(printed)
    if deepest is None:
        raise Fault(f"the firmware on {board.name} ended early: it said {(printed.splitlines() or ['nothing'])[-1][:200]}")
    return ProgramRun(printed, ram | {"stack": int(deepest[1])}, said)

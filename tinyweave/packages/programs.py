"""Write programs that replace the example: firmware that reads a file in pieces and prints the results of networks.

In: planned models, and the C that prepares their input or makes boxes of their output. Out: a Package with a main of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..codegen.header import has_memory_header
from ..ir import CompileError
from .example import memory_includes
from .package import Package, filled

MAIN = "main.c"
MOST_BYTES = 10_000_000  # of a photograph's file, where nothing else is said
LARGEST = (1 << 31) - 1


def listening(
    package: Package, beside: Mapping[str, str], *, every: int, steps: int, threshold: int, pause: int, words: int | None = None
) -> Package:
    """Return a package whose program reads a wav file and prints the class of every few frames, and which words it heard.

    beside: the C of features, ring, smoothing and wav files. every: frames from one inference to the next. steps, threshold,
    pause: of the smoothing, in inferences; the threshold is of the network's int8 scores. words: how many of the first classes
    are words, all if None; the others are never heard.
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
    feed = f"    (void)log_mel_ring_rows(&ring, 0, 0, FRAMES, {name}_input(&{_memory(package)}, 0));"
    feed = f"    const {name}_io io = {{.read_rows = log_mel_ring_rows, .user = &ring}};" if is_streamed else feed
    return _with_main(package, "listen.c", beside, **numbers, feed=feed, io="&io" if is_streamed else "NULL")


def looking(package: Package, beside: Mapping[str, str], *, threshold: int, budget: int = MOST_BYTES) -> Package:
    """Return a package whose program reads a JPEG file and prints the boxes that a detector finds.

    The model's input must be streamed, and its C have a source of JPEG files. beside: the C of boxes. threshold: as `tw_boxes`
    takes it. budget: bytes of a file that are read at most.
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
    """Return a package of a classifier and a detector whose program runs the detector if the classifier finds its class.

    Both share one arena. label, at_least: the class, and its least int8 score, with which the detector runs. The rest: as of
    `looking`.
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
    """Return the C that programs for JPEG files share; raise CompileError if a model's input is no JPEG file."""
    for model in package.models:
        if not model.plan.streamed_inputs or "tw_jpeg_reader" not in package.files.get(f"{model.name}_source.h", ""):
            raise CompileError(
                "a program that looks takes its picture by rows", "give stream_inputs and a source of JPEG files"
            )
    return {name: filled(f"programs/{name}.c") for name in ("pictures", "show_boxes")}


def _with_main(package: Package, template: str, beside: Mapping[str, str], **values: object) -> Package:
    model = package.models[-1]
    if clash := sorted(set(beside) & set(package.files)):
        raise CompileError(f"two files would be called {clash[0]}", "rename the model")
    is_placed = has_memory_header(model.plan)
    text = filled(
        f"programs/{template}",
        name=model.name,
        NAME=model.name.upper(),
        includes="\n".join(memory_includes(model)),
        host=filled("programs/host.c", print_integer=filled("programs/print.c")),
        memory=_memory(package),
        arena="" if is_placed else filled("arena.c", name=model.name, NAME=model.name.upper()),
        **values,
    )
    return replace(package, files={**package.files, **beside}, program={MAIN: text})


def _memory(package: Package) -> str:
    name = package.models[-1].name
    return f"{name}_memories" if has_memory_header(package.models[-1].plan) else f"{name}_ram"

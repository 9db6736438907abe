"""Write programs that replace the example: they read a file piece by piece and print the results of networks.

In: planned models, and the C that computes their input or decodes boxes from their output. Out: a Package with its own main.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..codegen.memory_header import has_memory_header
from ..ir import CompileError
from .example import memory_includes
from .package import Package, filled, memory_name

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
    return {name: filled(f"programs/{name}.c") for name in ("pictures", "show_boxes")}


def _with_main(package: Package, template: str, beside: Mapping[str, str], **values: object) -> Package:
    """Return the package with the files `beside` and a main made from a template; `values` fill its placeholders."""
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
        memory=memory_name(model),
        arena="" if is_placed else filled("arena.c", name=model.name, NAME=model.name.upper()),
        **values,
    )
    return replace(package, files={**package.files, **beside}, program={MAIN: text})

"""Run a detector only where a smaller network sees a person: both share one arena, and read the same JPEG file by rows.

In: a baseline JPEG file, or none for a drawn one of 640 x 480; the folders of both trainings, or a published .tflite file for
the first, or none for random weights, which show how much memory it takes. Out: a CMake project, its RAM on a board that QEMU
emulates, and whether score and boxes are those that each network gives alone in Python. The exit code is 0 if they are.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from math import prod
from pathlib import Path

from photograph import ARCH, BOARD, boxes_in_python, detector, drawn, options, packaged, random_network, seen_by

import tinyweave as tw
from tinynas.int8 import int8_outputs, quant_of
from tinynas.tasks.boxes import Head, head_of
from tinynas.trained import open_trained
from tinyweave import api
from tinyweave.simulate.run import Fault
from tinyweave.support.files import write_below

# isort: split
import firmware_programs  # photograph.py has added its folder
from jpeg_decoder import decode

FIRST, PERSON = "person", "person"  # the first network's name in C, and its class that matters
CLASSIFIER = replace(ARCH, image=(96, 96, 3), classes=2, anchors=0, last=64)


def person_network(place: Path | None) -> tuple[tw.Model, int]:
    """Return a classifier and its class of persons, given a folder that `tinyweave train --task visual-wake-words` wrote.

    Of a .tflite file, such as those published for Visual Wake Words, the second of two outputs is a person. None gives random
    weights.
    """
    if place is None:
        return random_network(CLASSIFIER, FIRST), 1
    if place.is_file():
        model = tw.load(place, io="int8", layout="nhwc", name=FIRST)
        if [prod(model.graph.tensors[name].shape) for name in model.graph.outputs] != [2]:
            raise tw.CompileError(f"'{place}' does not have two outputs, no person and person", "give another file")
        return model, 1
    model, data = open_trained(place, FIRST)
    if head_of(data) is not None or PERSON not in data.classes:
        raise tw.CompileError(f"'{place}' holds no classifier of persons", "train one with --task visual-wake-words")
    return model, data.classes.index(PERSON)


def in_python(models: tuple[tw.Model, tw.Model], head: Head, spec: str, photo: bytes, wanted: dict[str, float]) -> str:
    """Return what the firmware prints before its stack, computed by each network alone.

    wanted: `label`, the class of a person; `at_least`, its least score; `threshold`, that of a box.
    """
    first, second = models
    score = int(int8_outputs(first.graph, seen_by(first, spec, photo)[None]).reshape(-1)[int(wanted["label"])])
    if score < wanted["at_least"]:
        return f"score {score}"
    return f"score {score}\n{boxes_in_python(second, head, seen_by(second, spec, photo), wanted['threshold'])}"


def play(photo: bytes, folders: tuple[Path | None, Path | None], at_least: int, threshold: float, output: Path) -> bool:
    """Write the firmware, run it on a picture, print what it took, and return whether it said what Python says."""
    if not -128 <= at_least <= 127:
        raise tw.CompileError(f"{at_least} is no score of int8", "give --at-least a number of -128 .. 127")
    height, width, _ = decode(photo).shape
    spec = f"jpeg:{width}x{height}"
    first, label = person_network(folders[0])
    second, head = detector(folders[1])
    package = packaged([first, second], spec, "python examples/photograph/cascade.py")
    beside = head.c_files(quant_of(second.graph))
    package = firmware_programs.cascade(package, beside, label=label, at_least=at_least, threshold=head.limit(threshold))
    write_below(output, {**api.export_files(package, "cmake"), "photo.jpg": photo})
    played = firmware_programs.run_program(package, output / "photo.jpg")
    wanted = in_python((first, second), head, spec, photo, {"label": label, "at_least": at_least, "threshold": threshold})
    is_right = played.printed == f"{wanted}, stack {played.ram['stack']}\n"
    arenas = [sum(model.plan.arena.values()) for model in package.models]
    ram = dict(played.ram)
    print(f"arenas: person network {arenas[0]:,} B, detector {arenas[1]:,} B; both run on QEMU's {BOARD}")
    for part, name in (("arena of both", "arena"), ("decoder, resize, boxes", "shared"), ("stack", "stack")):
        print(f"  {part:24} {ram.pop(name):8,} B")
    print(f"  {'everything else':24} {sum(ram.values()):8,} B\n  {'all of its RAM':24} {played.total:8,} B")
    lines = played.printed.splitlines()
    ran = f"the detector ran, {len(lines) - 2} boxes" if len(lines) > 1 else "the detector did not run"
    print(f"{lines[0].split(',')[0]}, {ran}, {'as in Python' if is_right else 'NOT as in Python'}")
    return is_right


def main() -> int:
    parser = options("run a detector only where a smaller network sees a person, in one arena", "out/cascade")
    parser.add_argument(
        "--persons", type=Path, help="a folder of `tinyweave train --task visual-wake-words`, or a .tflite file"
    )
    parser.add_argument("--at-least", type=int, default=0, help="least score of a person, -128 .. 127, to look for boxes")
    arguments = parser.parse_args()
    try:
        photo = arguments.photo.read_bytes() if arguments.photo else drawn()
        return not play(
            photo, (arguments.persons, arguments.network), arguments.at_least, arguments.threshold, arguments.output
        )
    except (tw.CompileError, Fault, OSError) as error:
        print(f"cascade.py: {arguments.photo or 'the drawn picture'}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

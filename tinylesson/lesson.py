"""Write the page of the explorer: the lesson of docs/LESSON.md with a live figure at each of its marks.

In: the lesson in Markdown. Out: one HTML file that loads nothing else. A mark is a line `<!-- canvas NAME -->`. The last
paragraphs of a chapter, from a bold question on, are the question, a list of answers to pick, and the hidden solution.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from tinynas.arch import Arch, blocks, macs, mobilenet_v2, weights
from tinynas.published.redistribute import by_patches, patched_blocks, redistributed
from tinynas.ram.arena import arena_of
from tinynas.space import MOBILE, arch_of, largest, sample, smallest
from tinynas.stage_one import FEASIBLE, layer_bytes
from tinyweave.devices import all_devices
from tinyweave.report.page import filled
from tinyweave.support.files import shipped_folder

from . import questions
from .networks import IMAGENET, LADDER, NETWORKS, PRESETS, RESOLUTIONS, RUNGS, WIDTHS, five_layers
from .planned import COMPARED

HERE = Path(__file__).parent
QUESTION = re.compile(r"^\*\*(\d)\. (.*?\?)\*\*\n+(- .*?)\n\n(?=[^- ])(.*)", re.DOTALL | re.MULTILINE)
CODE = re.compile(r'(<pre><code class="language-python">.*?</pre>)', re.DOTALL)
OTHER_PAGE = re.compile(r'<a href="([A-Z_]+)\.md[^"]*">(.*?)</a>')  # a saved page has no other pages beside it
WIDTHS_OFFERED = [round(step / 20, 2) for step in range(round(20 * WIDTHS[0]), round(20 * WIDTHS[1]) + 1)]
SUPERNET = 144, 0.5  # image side and width that stage one of TinyNAS chooses for 320 KiB and 1 MiB
THESIS_BLOCKS = (2, 5)  # groups of MobileNetV2 that get a block in figure 4-5: those of 32 and of 160 channels
PATCHES = (1, 7, 14)  # sides of a patch of the map of 28 x 28 after MobileNetV2's patched blocks


def chapters(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield the title and the HTML of each chapter of the lesson; the first has the title of the page and its introduction."""
    write = MarkdownIt("commonmark").enable("table").render
    first, *others = re.split(r"^## ", markdown, flags=re.MULTILINE)
    for part in (first.removeprefix("# "), *others):
        title, _, text = part.partition("\n")
        asked = QUESTION.search(text)
        html = write(text[: asked.start()] if asked else text)
        if asked:
            number, words, choices, answer = asked.groups()
            hidden = f"<details><summary>the answer, with its figures</summary>{write(answer)}</details>"
            asking = write(f"### {number}. {words}\n{choices}")
            html += f'<div class="question" id="question-{number}">{asking}{hidden}</div>'
        html = CODE.sub(r'<details class="code"><summary>how it is computed</summary>\1</details>', html)
        html = re.sub(r"<!-- canvas (\w+) -->", r'<div class="canvas" id="canvas-\1"></div>', html)
        html = OTHER_PAGE.sub(lambda link: f"{link[2]} (<code>tinyweave docs {link[1].lower()}</code>)", html)
        yield title, html


def _body() -> str:
    """Return the HTML of the page: title, contents, and chapters."""
    (title, introduction), *others = chapters((shipped_folder("docs") / "LESSON.md").read_text(encoding="utf-8"))
    links = "".join(f'<li><a href="#chapter-{number}">{name}</a></li>' for number, (name, _) in enumerate(others))
    contents = f'<nav aria-label="Chapters"><ul>{links}</ul></nav>'
    parts = [f'<section id="chapter-{number}"><h2>{name}</h2>{html}</section>' for number, (name, html) in enumerate(others)]
    return f"<h1>{title}</h1>{introduction}{contents}{''.join(parts)}"


@cache
def _chains() -> dict[str, Any]:
    """Return the convolutions of each built-in chain of blocks, from which the page computes RAM by formula.

    `layers` has, for each, the image rows per row of its input and of its output, 1 if it is depthwise, the rows of its kernel,
    and the number of its block. `channels` has for each width the channels of the image and of each output.
    """
    side, found = RESOLUTIONS[1], dict[str, Any]()
    for name, each in NETWORKS.items():
        if each.blocks is None:
            continue
        rows, channels = list[tuple[int, ...]](), dict[str, list[int]]()
        for width in WIDTHS_OFFERED:
            owned = [(number, layer) for number, block in enumerate(each.blocks(side, width)[0]) for layer in block.layers]
            rows = [
                (side // layer.h, side // layer.h_out, int(layer.depthwise), layer.kernel[0], number) for number, layer in owned
            ]
            channels[f"{width:g}"] = [owned[0][1].c_in, *(layer.c_out for _, layer in owned)]
        found[name] = {"layers": rows, "channels": channels}
    return found


@cache
def _five() -> dict[str, list[int | None]]:
    """Return "SIDE WIDTH" -> least RAM of `five_layers` without recomputation, with the input whole, and streamed by rows."""
    return {
        f"{side} {width:g}": [arena_of(*five_layers(side, width), stream_inputs=by_rows) for by_rows in (False, True)]
        for side in range(RESOLUTIONS[0], RESOLUTIONS[1] + 1, 16)
        for width in WIDTHS_OFFERED
    }


@cache
def _supernet() -> dict[str, Any]:
    """Return sub-networks of a supernet, by MACs: kernel and expansion of the blocks of each stage, and costs."""
    rng, (side, width) = random.Random(0), SUPERNET
    ends = [each._replace(size=(side, side), width=width) for each in (smallest(MOBILE), largest(MOBILE))]
    networks = []
    for each in [*ends, *(sample(MOBILE, rng, (side, side), width) for _ in range(22))]:
        arch = arch_of(MOBILE, each, IMAGENET)
        networks.append({"stages": each.blocks, "ram": layer_bytes(arch), "weights": weights(arch), "macs": macs(arch)})
    return {"size": side, "width": width, "networks": sorted(networks, key=itemgetter("macs"))}


def _drawn(arch: Arch) -> dict[str, Any]:
    """Return the data of the picture of a network whose first blocks run by patches.

    `blocks` has kernel, stride, expansion, output channels, rows of the map, and whether patched. `patches` has, for each side
    of a patch, the receptive field in pixels, RAM in bytes, MACs, and the recomputed share of MACs, as the thesis counts them.
    """
    patched, sequence = patched_blocks(arch), blocks(arch)
    rows = []
    for index, block in enumerate(sequence):
        widest = max(block.layers, key=lambda layer: layer.kernel[0])
        expansion = block.layers[0].c_out // block.layers[0].c_in if len(block.layers) == 3 else 1
        last = block.layers[-1]
        rows.append((widest.kernel[0], widest.stride[0], expansion, last.c_out, last.h_out, index < patched))
    found = [by_patches(arch, patch) for patch in PATCHES]
    counts = [(patch, each.fields[0], each.ram, each.macs, each.overhead) for patch, each in zip(PATCHES, found, strict=True)]
    return {"blocks": rows, "patches": counts, "macs": macs(arch)}


def _data(*, is_served: bool) -> dict[str, Any]:
    """Return the values that the scripts of the page read."""
    return {
        "served": is_served,
        "networks": {
            name: {"title": each.title, "resolution": each.resolution, "width": each.width} for name, each in NETWORKS.items()
        },
        "chains": _chains(),
        "five": _five(),
        "supernet": _supernet(),
        "presets": [each._asdict() for each in PRESETS],
        "ladder": [each._asdict() for each in LADDER],
        "rungs": [
            each._asdict() | {"formula": questions.by_formula(each.network, each.resolution, each.width)} for each in RUNGS
        ],
        "compared": [each._asdict() for each in COMPARED],
        "redistribution": [_drawn(mobilenet_v2()), _drawn(redistributed(mobilenet_v2(), added=THESIS_BLOCKS))],
        "planned": json.loads((HERE / "planned.json").read_text(encoding="utf-8")),
        "map": json.loads((HERE / "map.json").read_text(encoding="utf-8")),
        "resolutions": RESOLUTIONS,
        "widths": WIDTHS,
        "feasible": FEASIBLE,
        "devices": [{"name": each.name, "core": each.core} for each in all_devices()],
    }


def page(*, is_served: bool) -> str:
    """Return the explorer's page as HTML; if not served by the explorer, it shows formulas and stored plans only."""
    scripts = "".join((HERE / name).read_text(encoding="utf-8") for name in ("canvases.js", "explorer.js"))
    style = (HERE / "lesson.css").read_text(encoding="utf-8")
    connect = "'self'" if is_served else "'none'"
    return filled("tinyweave explorer", scripts, _data(is_served=is_served), body=_body(), style=style, connect=connect)

"""What does each technique of an inference library save? Figures 3-4 and 3-5 of the MCUNet thesis, with tinyweave's kernels.

In: models (--models, names), and the four networks of the thesis' appendix. Out: per model and step, each with all that the
steps before it have, measured on an emulated Cortex-M4: instructions of an inference, per MAC of the file, how many times fewer
than in the first step, bytes of the arena, of all RAM (with static data and stack), of code and of Flash (code, tables,
weights); then the code bytes of each network beside those of others. Exit code 1: a step's bytes or its arena are wrong.

Each table starts from TFLite Micro: as measured with CMSIS-NN for the real models; else, with `--tflite-micro PYTHON`, PyPI's
`tflite-micro` in that Python (64-bit pointers, no scratch of CMSIS-NN). If peers/figures.json has the model, the second row is
CMSIS-NN called without an interpreter, and a column compares each step's instructions with it. Arena and RAM above the thesis'
320 kB are marked "out of memory", as in figure 3-3.

A step is C that is built and run. What tinyweave has no switch for is swapped in from bench/ablation; CHANGES describes each.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import one_line  # noqa: F401

# isort: split
import numpy as np
from bars import OF_BOTH, OURS, THEIRS, Block, svg
from code_size import LEVELS, sizes
from models import RECORD, ROOT, TFLITE_MICRO, lcg_samples, number, tflite_micro_arena
from nets import appendix

from tinyweave import api
from tinyweave.api import results
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op, Tensor, rebuild
from tinyweave.kernels.dsp import dense
from tinyweave.kernels.table import FILES
from tinyweave.ops import macs_original
from tinyweave.passes import PASSES, crop_windows, fuse_pad, merge_rescales, shrink_channels, strip_edges, strip_transposes
from tinyweave.passes.rewrite import each_op, integers
from tinyweave.planning import Plan, constant_bytes
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.planning.kernels.flash_budget import unfused_kernels
from tinyweave.report.figure import check_figure, encoded
from tinyweave.simulate import compare, emulated, litert

SWAPPED = Path(__file__).parent / "ablation"
CORE = api.DEFAULT_CORE
MODELS = {  # with short names for the figure
    "mlcommons__tiny__vww_96_int8": "vww_96",
    "mlcommons__tiny__kws_ref_model": "kws_ref_model",
    "mlcommons__tiny__pretrainedResnet_quant": "pretrainedResnet",
    "mit-han-lab__tinyengine__vww": "TinyEngine's vww",
}
# as TFLITE_MICRO, for TinyEngine (47bb283, -Ofast), which refuses the other three; its outputs are wrong by up to 7
TINYENGINE = {"mit-han-lab__tinyengine__vww": (93_992, 34_747_680, 31_024)}
OTHERS = {"TFLite Micro": TFLITE_MICRO, "TinyEngine": TINYENGINE}
# model -> a measured record of CMSIS-NN, called without an interpreter
CMSIS_NN = {each["model"]: each for each in json.loads(RECORD.read_text())["networks"] if each["engine"] == "CMSIS-NN"}
AS_FILED = (strip_edges, strip_transposes)  # passes that are left out: the types and the layout of inputs and outputs stay
FUSION, SHRINKING = (fuse_pad, merge_rescales), (shrink_channels, crop_windows)
CONVOLUTIONS, ACTIVATED = ("conv_2d", "depthwise_conv_2d"), ("conv_2d", "depthwise_conv_2d", "fully_connected", "add")
SIDES = (3, 5, 7)  # of depthwise windows that can be written out
SRAM = 320_000  # bytes of the thesis' board
LANES = 4  # inputs that the kernel by im2col multiplies at a time
NOT_THERE = "not in it"


class Step(NamedTuple):
    """What a step has. thesis: what the thesis says of it; interpreted: a loop calls the kernels; fused: pads and activations
    are no ops; shrunk: no channels are constant; swapped: files that stand for the portable kernels, unrolled: theirs by im2col
    with its loop written out; schedule and optimize: tinyweave's options; flash_heavy: kernels may keep more constants."""

    name: str
    about: str
    thesis: str
    interpreted: bool = True
    fused: bool = False
    shrunk: bool = False
    swapped: tuple[str, ...] = ()
    unrolled: bool = False
    optimize: str = "size"
    schedule: str = "layer"
    flash_heavy: bool = False


DENSE = ("tw_conv_2d_s8.c",)
UNROLLED = (*DENSE, "tw_depthwise_conv_2d_s8.c", "tw_dot.c")
RESCALED = (*UNROLLED, "tw_conv.c")
SPECIALISED = "22 % faster with fusion, tiling and unrolling"
FIRST = Step(
    "portable C",
    "portable kernels; a loop calls them by a table of layers in RAM, where their parameters are too, as an interpreter leaves"
    " them that reads a file; pads and activations of convolutions, dense layers and sums are ops; no tensor lies over another",
    "CMSIS-NN",
)
CHANGES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (  # name, about, thesis, and what differs from the step before
    (
        "+ code generation",
        "--optimize size --schedule layer, but for pads and activations: one call per layer, parameters constant. Kernels are"
        " shared by layers, not compiled for each, so what is saved is RAM, and the calls through the table",
        "22 % faster, 2.1 times less RAM",
        {"interpreted": False},
    ),
    (
        "+ network-wide im2col",
        "convolutions widen windows into one buffer for the whole network, as large as two columns of its widest layer (the"
        " thesis says one), and multiply two columns by two filters with SMLAD, which needs that widening",
        "13 % faster",
        {"swapped": DENSE},
    ),
    (
        "+ fused pad, activation",
        "pads and activations in the convolutions again, by tinyweave's passes; files have no batch normalisation left to fuse",
        SPECIALISED,
        {"fused": True},
    ),
    (
        "+ constant channels",
        "channels that are the same for every input are folded away, and windows cropped",
        NOT_THERE,
        {"shrunk": True},
    ),
    (
        "+ unrolled loops",
        "four rounds of the inner loops of convolutions and dense layers as one; of depthwise ones all taps of 3x3, 5x5, 7x7",
        SPECIALISED,
        {"swapped": UNROLLED, "unrolled": True},
    ),
    (
        "+ short rescaling",
        "outputs of convolutions are rescaled with SMMULR and SMMLAR instead of 64-bit products",
        NOT_THERE,
        {"swapped": RESCALED},
    ),
    (
        "+ reordered weights",
        "--optimize speed --schedule layer: the product's kernels for the core, whose weights, biases and multipliers are one"
        " stream in the order of use, two weights in each half word. More than an order: assembly with eight sums in registers,"
        " depthwise ones along rows, sums with the DSP extension too; their scratch lies in the arena",
        SPECIALISED,
        {"swapped": (), "unrolled": False, "optimize": "speed"},
    ),
    (
        "+ in-place depthwise",
        "--optimize speed --schedule unfused: outputs over dying inputs, depthwise or not, and the order of ops with the least"
        " peak",
        "1.6 times less RAM",
        {"schedule": "unfused"},
    ),
    (
        "+ Winograd",
        "--optimize speed --schedule unfused with all the Flash that there may be: 3x3 convolutions of stride 1 on tiles of 2x2"
        " outputs, exact in integers, with 16 weights of 16 bits for 9 of 8",
        NOT_THERE,
        {"flash_heavy": True},
    ),
    (
        "+ fused stages",
        "--optimize balanced --schedule best: layers run row by row through rolling buffers, nothing is computed twice, where"
        " that makes the product of memory and estimated cycles less, at most 20 % more of these; Flash as TFLite Micro",
        NOT_THERE,
        {"schedule": "best", "optimize": "balanced"},
    ),
)
STEPS = [FIRST]
for name, about, thesis, change in CHANGES:
    STEPS.append(STEPS[-1]._replace(name=name, about=about, thesis=thesis, **change))


class Row(NamedTuple):
    """What a step needs of a model; differs: where from the reference, in words."""

    model: str
    step: str
    macs: int
    instructions: int
    arena: int
    ram: int
    code: int
    flash: int
    compiler: str
    differs: str | None


def _plan(model: results.Model, step: Step) -> Plan:
    """Kernels that keep many more constants find no Flash for that unless the step has it."""
    usual = constant_bytes(model.graph, unfused_kernels(model.graph, KernelRule(CORE)))
    limits = results.Limits(None, None if step.flash_heavy else usual)
    return api.make_plan(model, api.Request(step.schedule, objective=step.optimize, limits=limits, core=api.DEFAULT_CORE))


def apart(graph: Graph) -> Graph:
    """The graph with the padding of each convolution, and each activation, as an op of its own."""
    return each_op(each_op(graph, _activation_apart), _pad_apart)


def _activation_apart(graph: Graph, op: Op) -> Graph:
    activation = op.attrs.get("activation", "none")
    if op.kind not in ACTIVATED or activation == "none":
        return graph
    out = graph.output(op)
    inner = replace(out, name=f"{out.name}.before_{activation}")
    first = replace(op, outputs=(inner.name,), attrs={**op.attrs, "activation": "none"})
    then = Op(f"{op.name}_{activation}", activation, (inner.name,), op.outputs, {})
    return _instead(graph, op, (first, then), (inner,))


def _pad_apart(graph: Graph, op: Op) -> Graph:
    if op.kind not in CONVOLUTIONS or not np.any(op.attrs["padding"]):
        return graph
    x, padding = graph.input(op), op.attrs["padding"]
    amounts = integers(graph, op, "paddings", [(0, 0), *padding, (0, 0)])
    shape = (x.shape[0], *(size + sum(pad) for size, pad in zip(x.shape[1:3], padding, strict=True)), x.shape[3])
    inner = replace(x, name=f"{op.name}.padded", shape=shape, role="activation")
    pad = Op(f"{op.name}_pad", "pad", (x.name, amounts.name), (inner.name,), {})
    last = replace(op, inputs=(inner.name, *op.inputs[1:]), attrs={**op.attrs, "padding": ((0, 0), (0, 0))})
    return _instead(graph, op, (pad, last), (inner, amounts))


def _instead(graph: Graph, op: Op, ops: tuple[Op, Op], tensors: Sequence[Tensor]) -> Graph:
    """Two ops in the place of one, and the tensors that they have besides."""
    found = [new for old in graph.ops for new in (ops if old.name == op.name else (old,))]
    return rebuild(graph, tensors={**graph.tensors, **{tensor.name: tensor for tensor in tensors}}, ops=tuple(found))


def without(graph: Graph, passes: Sequence[Callable[..., Any]]) -> Graph:
    """What tinyweave's passes but these make of a graph."""
    for rewrite in PASSES:
        if rewrite not in passes:
            graph, _ = rewrite(graph)
    return graph


def prepared(model: results.Model, step: Step) -> results.Model:
    """The model as the passes leave it in a step: all of them undo what `apart` did."""
    left_out = (*AS_FILED, *(() if step.fused else FUSION), *(() if step.shrunk else SHRINKING))
    graph = without(apart(model.original), left_out)
    whole = without(model.original, left_out)
    assert not step.fused or [op.kind for op in graph.ops] == [op.kind for op in whole.ops], "not all is fused again"
    return replace(model, graph=graph)


def write(model: results.Model, plan: Plan, step: Step, folder: Path) -> None:
    """The C of a step."""
    assert step.swapped != RESCALED or rescales_exactly(plan.graph), "some layer needs the portable rescaling"
    api.write(api.emit_c(model, plan), folder)
    for file in step.swapped:
        if (folder / file).is_file():
            shutil.copy(SWAPPED / file, folder / file)
    if step.swapped:
        for file in (FILES["tw_dsp.h"], FILES["tw_word.h"], SWAPPED / "tw_ablation.h"):
            shutil.copy(file, folder)
        macros = {"IM2COL_WORDS": im2col_words(plan), "UNROLLED": int(step.unrolled), **sides(plan.graph)}
        (folder / "tw_network.h").write_text("".join(f"#define TW_{name} {value}\n" for name, value in macros.items()))
    if step.interpreted:
        main = folder / f"{model.name}.c"
        main.write_text(interpreted(main.read_text(), model.name, sum(map(bool, plan.variants))))


def rescales_exactly(graph: Graph) -> bool:
    """Whether SMMULR and SMMLAR give the outputs of all convolutions."""
    return all(check(graph, op).met for op in graph.ops if op.kind in CONVOLUTIONS for check in dense.RESCALED)


def im2col_words(plan: Plan) -> int:
    """Words of two columns of the widest layer that is a convolution by im2col."""
    graph = plan.graph
    ops = [op for op, kernel in zip(graph.ops, plan.variants, strict=True) if f"{kernel}.c" in DENSE]
    return max((2 * 2 * -(-int(np.prod(graph.input(op, 1).shape[1:])) // LANES) for op in ops), default=1)


def sides(graph: Graph) -> dict[str, int]:
    """Which sides the windows of depthwise convolutions have."""
    found = {graph.input(op, 1).shape[1:3] for op in graph.ops if op.kind == "depthwise_conv_2d"}
    return {f"SIDE_{side}": int((side, side) in found) for side in SIDES}


CALL = re.compile(r"^    (tw_\w+)\(&(\w+), ([^;]*)\);$", re.MULTILINE)
INTERPRETER = """\
/* What an interpreter needs of a layer: its kernel behind one signature, its parameters, where its operands are. */
typedef struct layer {{
    void (*run)(const struct layer *, uint8_t *);
    const void *params;
    int32_t at[3];
}} layer;

{runners}
/* In RAM and not static: no compiler knows what they hold. */
layer {name}_layers[] = {{
{layers}
}};
int32_t {name}_layer_count = {count};

int {name}_invoke(const {name}_memory *memory, const {name}_io *io)
{{
    (void)io;
    for (int32_t i = 0; i < {name}_layer_count; ++i) {{
        {name}_layers[i].run(&{name}_layers[i], (uint8_t *)memory->sram.data);
    }}
    return 0;
}}
"""


def interpreted(text: str, name: str, expected: int) -> str:
    """The C of a model whose calls, as many as expected, are a table that is walked, and whose parameters are no constants."""
    head, _, invoke = text.partition(f"int {name}_invoke(")
    calls = [(kernel, params, re.sub(r"sram \+ ", "", places).split(",")) for kernel, params, places in CALL.findall(invoke)]
    if len(calls) != expected or not all(place.strip().startswith("AT_") for *_, places in calls for place in places):
        raise CompileError("has layers that are no plain calls", "name another model")
    for _, params, _ in calls:
        head = re.sub(rf"static const (tw_\w+ {params} = )", r"\1", head)
    runners = ""
    for kernel, count in dict.fromkeys((kernel, len(places)) for kernel, _, places in calls):
        operands = "".join(f", sram + l->at[{i}]" for i in range(count))
        runners += f"static void run_{kernel}(const layer *l, uint8_t *sram) {{ {kernel}(l->params{operands}); }}\n"
    rows = (f"    {{run_{kernel}, &{params}, {{{','.join(places)}}}}}," for kernel, params, places in calls)
    return head + INTERPRETER.format(name=name, runners=runners, layers="\n".join(rows), count=len(calls))


def measured(model: results.Model, step: Step, cases: list[list[np.ndarray]], expected: list[list[np.ndarray]]) -> Row:
    ready = prepared(model, step)
    plan = _plan(ready, step)
    with tempfile.TemporaryDirectory() as folder:
        write(ready, plan, step, Path(folder))
        right = compare.truth(plan.graph, cases, lambda _: expected)
        proof = compare.verify(plan, Path(folder), model.name, cases, cores=[CORE], right=right)
        firmware = emulated.build(Path(folder), model.name, CORE)
        run = emulated.invoke(firmware, plan.arena, compare.pack(cases[0]), compare.output_bytes(plan.graph))
    assert run.instructions is not None and run.stack is not None
    arena, parts = sum(plan.arena.values()), firmware.sizes
    return Row(
        model=model.path.stem,
        step=step.name,
        macs=macs_original(model.original),
        instructions=run.instructions,
        arena=arena,
        ram=arena + parts["static"] + run.stack,
        code=parts["code"],
        flash=parts["weights"] + parts["tables"] + parts["code"],
        compiler=firmware.compiler,
        differs=None if proof.ok else proof.first_difference or f"touched {dict(proof.touched)}",
    )


def files(folder: Path, names: Sequence[str], scratch: Path) -> Iterator[Path]:
    """The models with these names, all if there are none; those of the appendix are written to scratch."""
    nets = appendix()
    for name in (*MODELS, *nets):
        if names and not any(part.lower() in name.lower() for part in names):
            continue
        path = (scratch if name in nets else folder) / f"{name}.tflite"
        if name in nets:
            path.write_bytes(to_tflite(nets[name]))
        if path.is_file():
            yield path
        else:
            print(f"{path} is not there: left out", file=sys.stderr)


def in_sram(size: int, unit: str = "") -> str:
    """Return a number of bytes, marked if it exceeds the RAM of the thesis' board."""
    return f"{number(size)}{unit}{', out of memory' * (size > SRAM)}"


def their_rows(name: str, path: Path, macs: int, python: str | None) -> list[str]:
    """Return the rows of TFLite Micro and of CMSIS-NN; cells without a measurement are empty."""
    rows = [_tflite_micro_row(name, path, macs, python)]
    if known := CMSIS_NN.get(name):
        cells = (number(known["instructions"]), f"{known['instructions'] / macs:.2f}", "", "1.00", in_sram(known["arena"]))
        equal = f"off by {known['difference']}" if known["difference"] else "yes"
        rows.append(f"| CMSIS-NN | {' | '.join(cells)} | | | {number(known['flash'])} | {equal} |")
    return rows


def _tflite_micro_row(name: str, path: Path, macs: int, python: str | None) -> str:
    here = name not in TFLITE_MICRO
    if here and not python:
        return "| TFLite Micro | | | | | | | | | not measured |"
    arena, instructions, code = (tflite_micro_arena(path, python or ""), None, None) if here else TFLITE_MICRO[name]
    shown = in_sram(arena, " (64-bit)" * here)
    cells = ("", "") if instructions is None else (number(instructions), f"{instructions / macs:.2f}")
    return f"| TFLite Micro | {' | '.join(cells)} | | | {shown} | | {'' if code is None else number(code)} | | |"


COLUMNS = ("step", "instructions", "per MAC", "times fewer", "than CMSIS-NN", "arena", "RAM", "code", "Flash", "equal")


def table(rows: Iterator[Row], theirs: Callable[[int], list[str]]) -> list[Row]:
    """Print the rows of other libraries and then the steps of a model as they come.

    Args:
        rows: The steps of one model.
        theirs: Returns the rows of other libraries for a number of multiply-accumulates.

    """
    found: list[Row] = []
    for row in rows:
        if not found:
            print(f"\n{row.model}, {row.macs:,} MACs\n\n| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 2)}---|")
            print(*theirs(row.macs), sep="\n")
        found.append(row)
        fewer = found[0].instructions / row.instructions
        known = CMSIS_NN.get(row.model)
        than_cmsis_nn = f"{known['instructions'] / row.instructions:.2f}" if known else ""
        cells = (number(row.instructions), f"{row.instructions / row.macs:.2f}", f"{fewer:.2f}", than_cmsis_nn)
        cells += (in_sram(row.arena), in_sram(row.ram), number(row.code), number(row.flash))
        print(f"| {row.step} | {' | '.join(cells)} | {row.differs or 'yes'} |", flush=True)
    return found


def summary(rows: Sequence[Row]) -> None:
    """Print what each step saves of what the step before it needs, in the geometric mean of all networks."""
    print("\nEach step beside the one before it, in the geometric mean of the networks, and what the thesis says, of latency\n")
    print("| step | times fewer instructions | times less RAM | the thesis |\n|---|---:|---:|---|")
    found = {step.name: np.log([(row.instructions, row.ram) for row in rows if row.step == step.name]) for step in STEPS}
    for before, step in pairwise(STEPS):
        fewer, less = np.exp((found[before.name] - found[step.name]).mean(axis=0))
        print(f"| {step.name} | {fewer:.2f} | {less:.2f} | {step.thesis} |")


def code_of(model: results.Model) -> dict[str, int | None]:
    """Bytes of code by library, None where nothing was measured."""
    others = {library: their.get(model.path.stem, (None,))[-1] for library, their in OTHERS.items()}
    return others | {f"tinyweave, {level}": sizes(model, level)[0]["code"] for level in LEVELS}


def code_table(code: Mapping[str, Mapping[str, int | None]]) -> None:
    columns = next(iter(code.values()))
    print(
        "\nBytes of code of each network, figure 3-5 (TFLite Micro: kernels of the ops and types that it needs, and CMSIS-NN;"
    )
    print("the thesis says of TinyEngine: up to 4.5 times smaller than TFLite Micro, up to 5.0 than CMSIS-NN)\n")
    print(f"| network | {' | '.join(columns)} | TFLite Micro / balanced |\n|---|{'---:|' * (len(columns) + 1)}")
    for name, row in code.items():
        theirs, ours = row["TFLite Micro"], row["tinyweave, balanced"]
        ratio = f"{theirs / ours:.1f}" if theirs and ours else "-"
        print(f"| {name} | {' | '.join('-' if n is None else number(n) for n in row.values())} | {ratio} |")


KINDS = {
    "other libraries": THEIRS,
    "tinyweave": OF_BOTH,
    "tinyweave, steps that the thesis does not have": OURS,
}
NOTE = (
    "TFLite Micro with CMSIS-NN; CMSIS-NN without an interpreter. TinyEngine gives other bytes than the reference, and refuses"
    " networks marked -. The RAM of all three is without static data and stack."
)
KIND = dict.fromkeys((*OTHERS, "CMSIS-NN"), 0) | {step.name: 2 if step.thesis == NOT_THERE else 1 for step in STEPS}


def picture(rows: Sequence[Row], code: Mapping[str, Mapping[str, int | None]]) -> str:
    """Both figures: per group of networks a block of bars for each question."""
    by_step, blocks = {(row.model, row.step): row for row in rows}, list[Block]()
    direct = {name: (known["arena"], known["instructions"]) for name, known in CMSIS_NN.items()}
    largest = max(n or 0 for row in code.values() for n in row.values()) / 1024
    questions = (
        ("instructions of an inference, million", "instructions", 1, 1e6),
        ("RAM, KiB: arena, static data, stack", "ram", 0, 1024),
    )
    groups = {"Real networks": [name for name in code if name in MODELS]}
    groups["Networks of the thesis' appendix, random weights"] = [name for name in code if name not in MODELS]
    for about, group in groups.items():
        if not group:
            continue
        heads = [f"{MODELS.get(name, name)}, {by_step[name, STEPS[0].name].macs / 1e6:.1f} M MACs" for name in group]
        for title, field, index, unit in questions:
            found: dict[str, list[float | None]] = {
                library: [their[name][index] / unit if name in their else None for name in group]
                for library, their in (OTHERS | {"CMSIS-NN": direct}).items()
            }
            found |= {step.name: [getattr(by_step[name, step.name], field) / unit for name in group] for step in STEPS}
            blocks.append(Block(f"{about}: {title}", heads, found, KIND))
        sizes = {library: [n and n / 1024 for n in (code[name][library] for name in group)] for library in code[group[0]]}
        kinds = {library: KIND.get(library, 1) for library in sizes}
        blocks.append(Block(f"{about}: code, KiB", heads, sizes, kinds, largest))
    return svg("What each technique saves: on an emulated Cortex-M4, each step with all before it", KINDS, NOTE, blocks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--samples", type=int, default=2, help="inputs that are compared with the reference")
    parser.add_argument("--tflite-micro", metavar="PYTHON", help="a Python that has PyPI's tflite-micro")
    parser.add_argument("--json", type=Path, help="also write all rows here")
    parser.add_argument("--figure", type=Path, help="also draw them, as a .svg or .png file")
    options = parser.parse_args()
    if options.figure:
        check_figure(options.figure.name)
    for count, step in enumerate(STEPS):
        print(f"{count}. {step.name}: {step.about}.")
    rows, code = list[Row](), dict[str, dict[str, int | None]]()
    with tempfile.TemporaryDirectory() as scratch:
        for path in files(options.models, options.names, Path(scratch)):
            model = api.load(path)
            cases = lcg_samples(model.original, options.samples)
            expected = [run.outputs for run in litert.run(model.file, cases)]
            theirs = partial(their_rows, path.stem, path, python=options.tflite_micro)
            rows += table((measured(model, step, cases, expected) for step in STEPS), theirs)
            code[path.stem] = code_of(model)
    if not rows:
        print(f"no model in {options.models}", file=sys.stderr)
        return 2
    summary(rows)
    code_table(code)
    print(f"\n{CORE}, {rows[0].compiler}")
    if options.json:
        record = {"compiler": rows[0].compiler, "steps": [row._asdict() for row in rows], "code": code}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if options.figure:
        options.figure.write_bytes(encoded(picture(rows, code), options.figure.name))
    return 1 if any(row.differs for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

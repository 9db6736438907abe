"""Is there a faster order or form of the code of a kernel's inner loop?

In: a folder of .tflite files (--models), and the table SEARCHES: per kernel the file with its loop, and the changes that may
be made to this file. A search takes the most expensive layer of a model that runs the kernel, compiled alone for speed. It
changes the file at random, runs each variant on the emulated core, and continues from the fastest variant whose output is
byte-identical: fewest estimated cycles, then fewest instructions. Out: per search the number of variants; cycles and
instructions of the present code, of the fastest and of the slowest variant; the first two on layers of all models, too; and the
difference of the source. Exit code 1 if the fastest variant has fewer cycles and no more instructions on all these layers: the
kernel should become this variant.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401
from models import lcg_samples
from peers import only, short

from tinyweave import api
from tinyweave.ir import CompileError
from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import macs
from tinyweave.planning import Plan
from tinyweave.simulate import compare, emulated
from tinyweave.simulate.run import Fault

ROOT = Path(__file__).resolve().parents[2]
Change = Callable[[str, Random], str]  # from a file's text to a variant's text; the same text if no change was possible
LINE = re.compile(r'((?: *"[^"]*"| *\b\w+\b)+) *(?:/\*.*\*/)? *\\?')  # strings and parameters, in a macro of assembly
NAMES = re.compile(r"\b(?!lsl|lsr|asr|ror)[a-z_]\w*\b")  # registers, and parameters of the macro that stand for registers
LOADS, STORES, COMPARES = ("ldr", "ldm", "vld"), ("str", "stm", "vst"), ("cmp", "cmn", "tst", "teq")
LONG = ("smull", "umull", "smlal", "umlal")


class Search(NamedTuple):
    """A search: the model whose largest layer with `kernel` is measured, the file to change, and the possible changes."""

    core: str
    model: str
    kernel: str
    file: str
    changes: tuple[Change, ...]


class Cost(NamedTuple):
    """Estimated cycles and counted instructions of a layer's run; costs compare by cycles, because these come first."""

    cycles: int
    instructions: int


class Layer(NamedTuple):
    """A layer compiled alone: the folder and prefix of its C files, its plan, its name in the report, its input and output."""

    folder: Path
    prefix: str
    plan: Plan
    name: str
    sample: list[bytes]
    output: list[bytes]


def other(*forms: tuple[str, ...]) -> Change:
    """Return a change that replaces a form of the code by another one of `forms`; the texts of a form change together.

    The text stays as it is if it has none of the forms, because other changes have moved their lines apart.
    """

    def change(text: str, rng: Random) -> str:
        present = [form for form in forms if all(part in text for part in form)]
        if not present:
            return text
        for old, new in zip(present[0], rng.choice([form for form in forms if form != present[0]]), strict=True):
            text = text.replace(old, new)
        return text

    return change


def order(macro: str) -> Change:
    """Return a change that moves one instruction of a macro of assembly to another place where it computes the same.

    Only lines that consist of one instruction take part; labels, other macros and jumps stay, and nothing moves across them.
    """

    def change(text: str, rng: Random) -> str:
        lines = text.split("\n")
        begin = next(i for i, line in enumerate(lines) if re.match(rf"#define {macro}\b", line)) + 1
        end = next(i for i in range(begin, len(lines)) if not lines[i].endswith("\\")) + 1
        places = [i for i in range(begin, end) if uses(lines[i])]
        moves = [(i, to) for i in places for to in reach(lines, i, begin, end)]
        if not moves:
            return text
        at, to = rng.choice(moves)
        moved = [line.removesuffix("\\").rstrip() for line in lines[begin:end]]
        moved.insert(to - begin, moved.pop(at - begin))
        width = max(lines[begin].rfind("\\"), *(len(line) + 1 for line in moved))
        lines[begin:end] = [*(f"{line:<{width}}\\" for line in moved[:-1]), moved[-1]]
        return "\n".join(lines)

    return change


def reach(lines: list[str], at: int, begin: int, end: int) -> Iterator[int]:
    """Yield the indices in [begin, end) to which the instruction in line `at` can move without a change of its result."""
    for step, last in ((-1, begin - 1), (1, end)):
        for to in range(at + step, last, step):
            if not independent(lines[at], lines[to]):
                break
            yield to


def uses(line: str) -> tuple[set[str], set[str]] | None:
    """Return the registers that an instruction reads and writes; None for a line that is not one instruction, or that jumps.

    Flags and memory count as registers: comparisons write "flags", stores write "memory", and loads read it. Parameters of the
    macro count as registers, too. Two of them may be the same register, so a variant may be wrong; its output tells.
    """
    found = LINE.fullmatch(line.strip())
    if not found or found[1].count("\\n") != 1 or not found[1].endswith('\\n"'):
        return None
    name, _, operands = found[1].replace('"', "").removesuffix("\\n").strip().partition(" ")
    if name.startswith((".", "b", "add pc", "push", "pop")) or name.endswith(":"):
        return None
    registers = NAMES.findall(operands)
    back = {registers[0]} if "!" in operands and "{" in operands else set[str]()
    inside = operands.partition("[")[2] if "[" in operands else operands.partition("{")[0]
    if "]!" in operands or "], #" in operands:
        back = set(NAMES.findall(inside)[:1])
    if name.startswith(STORES):
        return set(registers), back | {"memory"}
    if name.startswith(LOADS):
        addresses = set(NAMES.findall(inside))
        return addresses | {"memory"}, set(registers) - addresses | back
    if name.startswith(COMPARES):
        return set(registers), {"flags"}
    written = set(registers[: 2 if name in LONG else 1]) | ({"flags"} if name.endswith("s") else set())
    return set(registers), written


def independent(first: str, second: str) -> bool:
    """Return whether two lines of assembly are instructions that may swap places."""
    one, two = uses(first), uses(second)
    return one is not None and two is not None and not (one[1] & (two[0] | two[1]) or two[1] & one[0])


FIRST, SECOND = "const uint32_t first = tw_word(from)", "second = tw_word(from + step)"
TWICE = f"""{FIRST}, {SECOND};
        from += 2 * step;
        sums.even = tw_sxtab16(tw_sxtab16(sums.even, first), second);
        sums.odd = tw_sxtab16_odd(tw_sxtab16_odd(sums.odd, first), second);
"""
ADD_FOUR = """sums.even = tw_sxtab16(tw_sxtab16(tw_sxtab16(tw_sxtab16(sums.even, first), second), third), fourth);
        sums.odd = tw_sxtab16_odd(tw_sxtab16_odd(tw_sxtab16_odd(tw_sxtab16_odd(sums.odd, first), second), third), fourth);
"""
STEP_2, STEP_4 = "from += 2 * step;", "from += 4 * step;"
THIRD, FOURTH = "const uint32_t third = tw_word(from)", "fourth = tw_word(from + step)"
LATER = "const uint32_t third = tw_word(from + 2 * step), fourth = tw_word(from + 3 * step);"
INDENT = "\n        "
BODIES = (  # (log2 of the pixels per round, body of the round)
    (2, INDENT.join((f"{FIRST}, {SECOND};", STEP_2, f"{THIRD}, {FOURTH};", STEP_2, ADD_FOUR))),
    (1, TWICE),
    (3, f"for (int two = 0; two < 4; ++two) {{\n        {TWICE}        }}\n"),
    (2, INDENT.join((f"{FIRST}, {SECOND};", LATER, STEP_4, ADD_FOUR))),
)
SUMS = tuple(
    (
        f"for (int32_t fours = count >> {bits}; fours > 0; --fours) {{\n        {body}    }}\n"
        f"    for (int32_t rest = count & {2**bits - 1}; rest",
    )
    for bits, body in BODIES
)
LDR_FOUR = "ldr.w r3, [r0, #4]", "ldr r2, [r0], #8", "ldr.w lr, [r1, #4]", "ldr r12, [r1], #8"
# the loads of half a quad: by LDM, which takes fewest instructions; by LDRD; by four LDR in a row
LOADS_OF_PAIRS = tuple(
    (f'#define STEP_2                  \\\n{code}    "smlad r5, r2, r12, r5\\n"   \\\n    "smlad r9', f'QUAD_BYTES_2 "{size}"')
    for code, size in (
        ('    "ldm r0!, {r2, r3}\\n"       \\\n    "ldm.w r1!, {r12, lr}\\n"    \\\n', 92),
        ('    "ldrd r2, r3, [r0], #8\\n"  \\\n    "ldrd r12, lr, [r1], #8\\n" \\\n', 96),
        (
            "".join(f'    "{line}\\n"{" " * (24 - len(line))}\\\n' for line in LDR_FOUR),
            112,
        ),
    )
)
# the first inputs of two by two outputs, which are loaded directly behind another LDR: by LDRD, or by two LDR
LOADS_OF_QUADS = tuple(
    ("".join(f"    {line:<56}\\\n" for line in lines) + '    QUAD_PRODUCTS("r10"',)
    for lines in (('"ldrd r1, lr, [r0]\\n"',), ('"ldr lr, [r0, #4]\\n"', '"ldr r1, [r0]\\n"'))
)
KWS, RESNET = "mlcommons__tiny__kws_ref_model", "mlcommons__tiny__pretrainedResnet_quant"
VWW = "mlcommons__tiny__vww_96_int8"
SEARCHES = {
    "depthwise": Search(
        "cortex-m4",
        VWW,
        "tw_depthwise_conv_2d_s8_dsp",
        "tw_line_quads.h",
        (order("QUADS"), order("QUAD_PRODUCTS"), other(*LOADS_OF_QUADS)),
    ),
    "pair": Search("cortex-m4", VWW, "tw_conv_2d_s8_dsp", "tw_pair_s8.c", (other(*LOADS_OF_PAIRS), order("STEP_2"))),
    "add": Search("cortex-m4", RESNET, "tw_add_s8_linear_dsp", "tw_add_line.h", (order("ADD_FOURS"),)),
    "pair_m7": Search(
        "cortex-m7", VWW, "tw_conv_2d_s8_m7", "tw_pair_s8_m7.c", (order("STEP"), order("LAST_STEP"), order("OUTPUTS"))
    ),
    "average": Search("cortex-m4", KWS, "tw_average_pool_2d_s8_dsp", "tw_sums_dsp.h", (other(*SUMS),)),
}


def compiled(model: api.Model, plan: Plan, folder: Path, name: str, core: str) -> Layer:
    """Emit the C of a layer into a folder, run it, and return it with its output."""
    api.write(api.emit_c(model, plan), folder)
    sample = compare.pack(model.graph, lcg_samples(model.graph, 1)[0])
    run = emulated.invoke(emulated.build(folder, model.name, core), plan.arena, sample, compare.output_bytes(model.graph))
    return Layer(folder, model.name, plan, name, sample, run.outputs)


def layers(paths: Sequence[Path], search: Search, most_macs: int, folder: Path) -> Iterator[Layer]:
    """Yield each layer of the models that runs the file of a search if it is compiled alone for speed.

    Args:
        paths: The models.
        search: The search.
        most_macs: Larger layers are left out.
        folder: Gets a folder with the C files of each layer.

    """
    for path in paths:
        try:
            model = api.load(path)
        except CompileError:
            continue
        for op in model.graph.ops:
            alone = replace(model, graph=only(model.graph, op))
            if op.kind not in BY_NAME[search.kernel].kinds or macs(alone.graph) > most_macs:
                continue
            plan = api.plan(alone, search.core, optimize="speed")
            if plan.variants == (search.kernel,):
                into = folder / f"{path.stem}_{len(list(folder.iterdir()))}"
                layer = compiled(alone, plan, into, f"{short(path.stem)}, {op.name}", search.core)
                if (into / search.file).exists():
                    yield layer


def cost(layer: Layer, core: str) -> Cost | None:
    """Build and run a layer, and return its cost; None if it does not compile, if a run fails, or if its output differs."""
    try:
        built = emulated.build(layer.folder, layer.prefix, core)
        run = emulated.invoke(built, layer.plan.arena, layer.sample, list(map(len, layer.output)), limit_s=20)
    except (CompileError, Fault):
        return None
    if run.outputs != layer.output:
        return None
    return Cost(emulated.cycles(core, run)[-1, ""].likely, run.instructions or 0)


def searched(layer: Layer, search: Search, trials: int, rng: Random) -> tuple[str, str, dict[str, Cost | None]]:
    """Try variants of a layer's kernel, and return the present text, the fastest text, and the cost of each text tried."""
    file = layer.folder / search.file
    present = best = file.read_text()
    costs = {present: cost(layer, search.core)}
    for _ in range(trials):
        text = best
        for _ in range(rng.choice((1, 1, 2, 3))):
            text = rng.choice(search.changes)(text, rng)
        if text in costs:
            continue
        file.write_text(text)
        costs[text] = found = cost(layer, search.core)
        if found and found < costs[best]:
            best = text
    file.write_text(present)
    return present, best if costs[best] < costs[present] else present, costs


def report(name: str, options: argparse.Namespace) -> bool:
    """Search, print what was found, and return whether the fastest variant should replace the present code."""
    search = SEARCHES[name]
    with tempfile.TemporaryDirectory() as folder:
        own = layers([options.models / f"{search.model}.tflite"], search, options.largest, Path(folder))
        layer = max(own, key=lambda layer: cost(layer, search.core) or Cost(0, 0))
        present, best, costs = searched(layer, search, options.trials, Random(options.seed))
        wrong = sum(each is None for each in costs.values())
        print(f"{name}: {search.file} of {search.kernel} on a {search.core}, {layer.name}")
        print(f"  {len(costs)} variants, {wrong} of which are wrong or were refused by the compiler")
        slowest = max(each for each in costs.values() if each)
        print(f"  present code: {costs[present]}\n  fastest: {costs[best]}\n  slowest: {slowest}", flush=True)
        if best == present:
            print(f"  the present code is the fastest of {len(costs)} variants\n")
            return False
        paths = sorted(options.models.glob("*.tflite"))
        Random(options.seed).shuffle(paths)
        changes = list[tuple[float, float]]()
        for each in islice(layers(paths, search, options.largest, Path(folder)), options.others):
            before = cost(each, search.core)
            (each.folder / search.file).write_text(best)
            after = cost(each, search.core)
            assert before and after, f"the fastest variant is wrong for {each.name}"
            changes.append((after.cycles / before.cycles - 1, after.instructions / before.instructions - 1))
        for unit, relative in zip(Cost._fields, zip(*changes, strict=True), strict=True):
            print(f"  {unit} on {len(changes)} layers: {min(relative):+.1%} to {max(relative):+.1%}")
        print(
            "\n".join(difflib.unified_diff(present.split("\n"), best.split("\n"), search.file, "fastest", lineterm="", n=1)),
            "\n",
        )
        return all(cycles < 0 and instructions <= 0 for cycles, instructions in changes)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=SEARCHES, help="only these searches")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument(
        "--others", type=int, help="compare the fastest variant on at most this many layers, of models in random order"
    )
    parser.add_argument("--largest", type=int, default=2_000_000, help="leave out layers of more multiply-accumulates")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    return int(sum(report(name, options) for name in options.names or SEARCHES) > 0)


if __name__ == "__main__":
    sys.exit(main())

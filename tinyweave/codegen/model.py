"""A plan as C: the files of a model <m> and the kernels that it calls.

The same plan always gives the same text. <m>.h is the API, <m>.c has the memory plan and one call per layer, <m>_weights.h has
the constants. If these are in a file of their own, <m>.weights, then <m>_plan.json is the plan with which it can be replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .. import __version__
from ..ir import CompileError
from ..kernels.table import BY_NAME, sources
from ..ops import initial_state
from ..planning import Constant, Plan, copy_name, fetches, to_json
from ..planning.explain import why_portable
from ..planning.fuse.row_access import row_bytes
from ..planning.picture import memory_picture
from ..support.c_names import identifier
from . import c, weights_file
from .emitters import EMITTERS
from .header import ENDS, Origin, banner, end_words, header, type_text
from .layer import CTYPES, Code, Constants, Layer, layer_note, stored
from .memory_header import has_memory_header, memory_header
from .names import check_memories, with_prefix
from .stage import callback, map_names, ranges, ring_note, stage_lines, stage_note

LONGEST_NAME = 64  # characters of a tensor's name in comments
Codes = Mapping[int, Code | None]  # index of an op -> its C; None for an op without code


@dataclass(frozen=True)
class Source:
    """The emitted files of a model, kernels included; `own` names the files that belong to this model alone."""

    name: str  # of the model
    own: tuple[str, ...]  # names of the files written for this model, as opposed to kernels
    files: Mapping[str, str]  # file name -> text
    data: Mapping[str, bytes] = field(default_factory=dict)  # other files: <m>.weights and <m>_plan.json, if there are any

    @property
    def all(self) -> dict[str, str | bytes]:
        """Return the contents of all files by name."""
        return {**self.files, **self.data}


def emit(plan: Plan, name: str, origin: Origin, kernel_prefix: str = "") -> Source:
    """Return the C files of a checked plan.

    Args:
        name: The model's name, a lower-case C identifier, with which files and functions begin.
        origin: The origin of the model, for comments.
        kernel_prefix: Put before the names of all kernels, so that two versions of them can be linked; "" for none.

    Raises:
        CompileError: `name`, the prefix or the name of a memory cannot be used in C.
    """
    if name != identifier(name):
        raise CompileError(f"'{name}' is not a lower-case C name", f"call the model '{identifier(name)}'")
    check_memories(plan.arena)
    at, data = _addresses(plan), dict[str, bytes]()
    constants = _no_constants(plan, at)
    codes, reset = _codes(plan, at, constants), _reset_lines(plan, at, constants)
    kernels = sources([variant for variant in plan.variants if variant], _others(plan))
    body = _body(plan, name, origin, codes, at=at, constants=constants, reset=reset)
    if plan.weights_file:
        head = header(plan, name, origin, weights_file.offsets(constants)[""])
        digest = weights_file.hash_of((head, body))
        body = body.replace(weights_file.PLAN_WORDS, weights_file.words_of(digest))
        files = {f"{name}.h": head, f"{name}.c": body}
        data = {f"{name}.weights": weights_file.content(constants, digest), f"{name}_plan.json": to_json(plan).encode()}
    else:
        files = {f"{name}.h": header(plan, name, origin), f"{name}.c": body}
        files[f"{name}_weights.h"] = _weights(name, origin, constants)
    _check_copies(plan, constants)
    if has_memory_header(plan):
        files[f"{name}_memory.h"] = memory_header(plan, name, origin.file)
    both = with_prefix(files | {path.name: path.read_text() for path in kernels}, files, kernel_prefix)
    if len(both) < len(files) + len(kernels):
        raise CompileError(f"a file of '{name}' has the name of a kernel's file", "give another --kernel-prefix")
    return Source(name, (*files, *data), both, data)


def constant_bytes(plan: Plan) -> int:
    """Return the total bytes of the arrays in Flash; 0 if a callback reads them."""
    return 0 if plan.fetches else _constants(plan).bytes


def constants_of(plan: Plan) -> list[Constant]:
    """Return the arrays that a plan may copy to RAM: those of a file of weights, or those that only kernels read."""
    return _copyable(_constants(plan))


def _copyable(constants: Constants) -> list[Constant]:
    return [
        Constant(name, values.nbytes, max(4, values.itemsize), tuple(constants.readers[name]))
        for name, values, _ in constants.arrays.values()
        if constants.in_file or "" not in constants.readers[name]
    ]


def _no_constants(plan: Plan, at: Mapping[str, str]) -> Constants:
    """Return the arrays before those of layers: none, or in a file of weights the words of inputs and outputs."""
    constants = Constants(in_file=plan.weights_file, copies={array: at[copy_name(array)] for array in plan.copies})
    if plan.weights_file:
        constants.add(ENDS, end_words(plan), "uint32_t")
    return constants


def _constants(plan: Plan) -> Constants:
    """Return the arrays that `emit` would write to <m>_weights.h."""
    constants = _no_constants(plan, at := _addresses(plan))
    _codes(plan, at, constants)
    _reset_lines(plan, at, constants)
    for which in ("input", "output"):
        _access(plan, "", which, constants)
    return constants


def _check_copies(plan: Plan, constants: Constants) -> None:
    """Raise CompileError unless the copies of a plan, which may be from a file, are those of its kernels' `constants`."""
    known = {each.name: each for each in _copyable(constants)}
    if plan.fetches and [*known] != [*plan.copies]:  # in the order of the file
        raise CompileError("the plan is damaged: the constants that a callback reads differ from its kernels'", "plan again")
    for name, readers in plan.copies.items():
        buffer, array = plan.buffer(copy_name(name)), known.get(name)
        right_align = array and (buffer.align == array.align if plan.fetches else buffer.align % array.align == 0)
        if not array or not right_align or (buffer.bytes, readers) != (array.bytes, array.ops):
            raise CompileError(
                f"the plan is damaged: it copies constants '{name}', which differ from its kernels'", "plan again"
            )


def _codes(plan: Plan, at: Mapping[str, str], constants: Constants) -> dict[int, Code | None]:
    """Return the C of each op by index (None for an op without code), and add the ops' arrays to `constants`."""
    codes: dict[int, Code | None] = {}
    for stage in plan.stages:
        is_fused = stage.tiles is not None
        maps, part = (map_names(plan, stage, _labels(plan)), ranges(plan, stage)) if is_fused else (None, {})
        for index in stage.ops:
            layer = Layer(plan, plan.graph.ops[index], at, constants, maps, part.get(index, ""))
            codes[index] = EMITTERS[layer.row.params](layer) if plan.variants[index] else None
    return codes


def _others(plan: Plan) -> list[str]:
    """Return the C files that the model calls besides kernels: for tiles of fused stages, and to check a file of weights."""
    has_tiles = any(stage.tiles for stage in plan.stages)
    return ["tw_tile.c"] * has_tiles + ["tw_weights.c"] * plan.weights_file


def _labels(plan: Plan) -> dict[str, str]:
    """Return name of a buffer or tensor -> its short name in the C, such as "input", "conv_2d_0" or "state_0"."""
    graph = plan.graph
    labels = {buffer.name: buffer.name for buffer in plan.buffers}
    for position, name in enumerate(graph.inputs):
        labels[name] = "input" if len(graph.inputs) == 1 else f"input_{position}"
    for op in graph.ops:
        for position, name in enumerate(op.outputs):
            labels[name] = op.name if position == 0 else f"{op.name}_{position}"
    labels |= {name: f"state_{position}" for position, name in enumerate(initial_state(graph))}
    return labels


def _copied(plan: Plan, array: str) -> str:
    """Return who makes the copy of an array, for comments."""
    if not plan.fetches:
        return "copied by init"
    return "read by init" if plan.copies[array] == ("",) else "read before the step"


TILES = "  (tiles)"


def buffer_labels(plan: Plan) -> dict[str, str]:
    """Return buffer -> its label in the memory map: its short name, other tensors in it, and its role, such as "output"."""
    graph, labels = plan.graph, _labels(plan)
    shown = dict(labels)
    for name, place in plan.places.items():
        buffer, size = plan.buffer(place.buffer), graph.tensors[name].bytes
        if name == place.buffer:
            rows = buffer.bytes // row_bytes(graph.tensors[name]) if buffer.bytes < size else 0
            shown[name] += f"  (line buffer of {rows} row{'s' if rows > 1 else ''})" if rows else ""
            continue
        if place.buffer not in graph.tensors:  # tensors inside tiles, with different lifetimes
            others = shown[place.buffer].removesuffix(TILES) if shown[place.buffer] != place.buffer else ""
            shown[place.buffer] = f"{others}{', ' if others else ''}{labels[name]}{TILES}"
            continue
        shown[place.buffer] += f", {labels[name]} at {place.offset}" if size < buffer.bytes else f" = {labels[name]}"
    shown |= {copy_name(array): f"{array}  ({_copied(plan, array)})" for array in plan.copies}
    roles: dict[str, Collection[str]] = {"input": graph.inputs, "output": graph.outputs, "streamed": plan.streamed_outputs}
    roles["kept between calls"] = initial_state(graph)
    for name, place in plan.places.items():
        marks = [word for word, names in roles.items() if name in names]
        if marks and shown[place.buffer] != "input":
            shown[place.buffer] += f"  ({', '.join(marks)})"
    return shown


def _addresses(plan: Plan) -> dict[str, str]:
    """Return name of an activation or a scratch buffer -> C expression of its address."""
    labels = _labels(plan)
    at = {name: f"{plan.memory(name)} + AT_{labels[name].upper()}" for name in plan.places}
    for buffer in plan.buffers:
        at.setdefault(buffer.name, f"{buffer.memory} + AT_{buffer.name.upper().replace('.', '_')}")
    return at


def _offsets(plan: Plan, in_file: Mapping[str, int]) -> list[str]:
    """Return an enumerator per tensor, scratch buffer and array of a file (array -> offset): C name, offset, and a comment."""
    labels = _labels(plan)
    rows = [(f"AT_{labels[name].upper()}", plan.offset(name), f"'{name}'") for name in plan.places]
    scratch = [buffer.name for buffer in plan.buffers if buffer.name not in plan.places]
    copies = {copy_name(array): _copied(plan, array) for array in plan.copies}
    rows += [(f"AT_{name.upper().replace('.', '_')}", plan.offsets[name], copies.get(name, "scratch")) for name in scratch]
    rows += [(f"AT_{name.upper()}", offset, "in the file of weights") for name, offset in in_file.items() if name]
    width, digits = (max((len(str(row[i])) for row in rows), default=0) for i in (0, 1))
    return [f"{label:<{width}} = {offset:>{digits}}, {c.comment([_short(name)])}" for label, offset, name in rows]


def _short(name: str) -> str:
    """Return a tensor's name, with its middle cut out if it is too long for a comment."""
    return name if len(name) <= LONGEST_NAME else f"{name[:20]}...{name[23 - LONGEST_NAME :]}"


def _weights(name: str, origin: Origin, constants: Constants) -> str:
    """Return the text of <m>_weights.h."""
    head = c.comment([f"{name}_weights.h - the constants of {name}.c, generated from {origin.file}. Do not edit."])
    guard = f"{name.upper()}_WEIGHTS_H"
    return f"{head}#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n" + "\n".join(constants.texts) + "\n#endif\n"


def _body(
    plan: Plan, name: str, origin: Origin, codes: Codes, *, at: Mapping[str, str], constants: Constants, reset: list[str]
) -> str:
    """Return the text of <m>.c; the addresses of constant outputs are added to `constants`."""
    picture = [
        f"Memory plan: {line}" if i == 0 else f"  {line}" for i, line in enumerate(memory_picture(plan, buffer_labels(plan)))
    ]
    used = [BY_NAME[v] for v in dict.fromkeys(plan.variants) if v]
    headers = {variant.header for variant in used if variant.header} | {f"{name[:-2]}.h" for name in _others(plan)}
    includes = ["tw.h", *sorted(headers - {"tw.h"})] if headers else []
    string = "#include <string.h>\n" if reset or (plan.copies and not plan.fetches) else ""
    access = [_access(plan, name, which, constants) for which in ("input", "output")]
    parts = [
        c.comment([*banner(f"{name}.c", origin), "", *picture]),
        f'#include "{name}.h"\n\n#include <stddef.h>\n{string}\n'
        + ("" if plan.weights_file else f'#include "{name}_weights.h"\n')
        + "".join(f'#include "{file}"\n' for file in includes),
        *([_version_check(name)] if includes else []),
        TRACE,
        "/* Offset of each tensor from the start of its memory, in bytes, and its name in the model. */\nenum {\n"
        + "".join(f"    {line}" for line in _offsets(plan, weights_file.offsets(constants) if plan.weights_file else {}))
        + "};\n",
    ]
    parts += [PARAMETERS, *(code.params for code in codes.values() if code is not None and code.params and not code.in_ram)]
    fetching = _fetching(plan, at)
    parts += [
        _setup(plan, name, reset, at, fetching),
        *access,
        _invoke(plan, name, codes, at, fetching=fetching, core=origin.core),
    ]
    return "\n".join(parts)


def _version_check(name: str) -> str:
    """Return preprocessor lines that stop the compilation if the kernels are of another version than this C."""
    major, minor, patch = (int(number) for number in re.findall(r"\d+", __version__)[:3])
    return f"""\
#if TW_VERSION != {major * 10_000 + minor * 100 + patch}
#error "{name}.c was generated by tinyweave {__version__}, but these kernels are of another version"
#endif
"""


PARAMETERS = """\
/* Parameters of the layers. Shapes are {h, w, c} or {n, h, w, c}; kernel, stride, dilation and pad are {h, w}.
 * The headers of the kernels explain each member. */
"""
TRACE = """\
/* Compile with -DTW_TRACE=function to call function(step, layer) after each step, with layer -1, and after each kernel call
 * of a stage that runs row by row. Steps and layers are counted from 0. */
#ifdef TW_TRACE
#ifdef __cplusplus
extern "C"
#endif
void TW_TRACE(int32_t step, int32_t layer);
#else
#define TW_TRACE(step, layer) ((void)0)
#endif
"""


def _reset_lines(plan: Plan, at: Mapping[str, str], constants: Constants) -> list[str]:
    """Return the statements that set all state to its initial value; [] if there is no state."""
    labels, lines = _labels(plan), list[str]()
    for name, value in initial_state(plan.graph).items():
        raw = value.tobytes()
        lines += ["", *c.comment_lines(f"{labels[name]}: '{name}', {type_text(plan.graph.tensors[name])}")]
        label = f"{labels[name]}_initial"
        if len(set(raw)) <= 1:
            byte: object = np.frombuffer(raw[:1], np.int8)[0] if raw else 0
            if constants.in_file:
                byte = "*" + constants.address(constants.add(label, np.array([byte]), "int8_t"), "int8_t")
            lines.append(f"memset({at[name]}, {byte}, {len(raw)});")
            continue
        part, count = _repeated(value)
        ctype = CTYPES[plan.graph.tensors[name].dtype]
        table = constants.address(constants.add(label, part, ctype), ctype)
        if count == 1:
            lines.append(f"memcpy({at[name]}, {table}, {len(raw)});")
            continue
        lines.append(f"for (int32_t i = 0; i < {count}; ++i) {{")
        lines += [f"    memcpy({at[name]} + {part.nbytes} * i, {table}, {part.nbytes});", "}"]
    return [*_bases(plan, lines), *lines]


def _bases(plan: Plan, lines: Iterable[str]) -> list[str]:
    """Return the definitions of the addresses of the file of weights and of memories that the statements of a function use."""
    used = set(re.findall(r"(\w+) \+ AT_", "\n".join(lines)))
    file = ["const uint8_t *const weights = (const uint8_t *)memory->weights.data;"] * ("weights" in used)
    return file + [f"uint8_t *const {memory} = (uint8_t *)memory->{memory}.data;" for memory in plan.arena if memory in used]


def _repeated(value: np.ndarray) -> tuple[np.ndarray, int]:
    """Split a state's initial value into (part, count), with `count` copies of `part` along the first axis longer than 1."""
    axis = next((axis for axis, extent in enumerate(value.shape) if extent > 1), None)
    if axis is None or (value != value.take([0], axis)).any():
        return value, 1
    return value.take([0], axis), value.shape[axis]


def _setup(plan: Plan, name: str, reset: list[str], at: Mapping[str, str], fetching: Fetching) -> str:
    """Return the C functions init, which checks the memories and copies constants, and reset, with the statements `reset`."""
    prefix = name.upper()
    reset = reset or ["(void)memory; /* this model keeps no state between calls */"]
    statements = "\n".join(f"    {line}".rstrip() for line in reset)
    aligns = dict.fromkeys(plan.arena, f"{prefix}_ALIGN")
    aligns |= {"weights": f"{prefix}_WEIGHTS_ALIGN"} if plan.weights_file and not plan.fetches else {}
    wrong = [f"memory->{m}.data == NULL || (uintptr_t)memory->{m}.data % {align} != 0" for m, align in aligns.items()]
    both = "(memory->weights.start == NULL) != (memory->weights.wait == NULL)"
    wrong += ["memory->weights.read == NULL", both] * plan.fetches
    small = (f"memory->{m}.bytes < {prefix}_{m.upper()}_BYTES" for m in aligns if plan.arena.get(m, 1))
    checks = "".join(
        f"    if ({tests}) {{\n        return {error};\n    }}\n"
        for error, tests in ((-1, " ||\n        ".join(wrong)), (-2, " || ".join(small)))
        if tests
    )
    copies = [f"memcpy({at[copy_name(array)]}, {array}, sizeof {array});" for array in plan.copies if not plan.fetches]
    checks += "".join(f"    {line}\n" for line in [*_bases(plan, copies), *copies])
    if plan.weights_file:
        largest = max(plan.arena, key=lambda m: plan.arena[m])
        piece = f"memory->{largest}.data, {min(plan.arena[largest], PIECE)}"  # init may overwrite the arena
        file = f"_by_read(memory->weights.read, memory->weights.context, {piece}" if plan.fetches else "(memory->weights.data"
        check, kept = CHECK_OF_WEIGHTS.format(P=prefix, file=file).splitlines(), fetching.get(-1, [])
        lines = [*_bases(plan, kept), "{", *(f"    {line}" for line in check), "}", *kept] if plan.fetches else check
        checks += "".join(f"    {line}\n" for line in lines)
    return f"""\
int {name}_init(const {name}_memory *memory)
{{
{checks}    {name}_reset(memory);
    return 0;
}}

void {name}_reset(const {name}_memory *memory)
{{
{statements}
}}
"""


CHECK_OF_WEIGHTS = f"""\
static const uint32_t plan[4] = {{{{{weights_file.PLAN_WORDS}}}}}; /* hash of this C, which the file must have */
const int error = tw_weights_check{{file}}, {{P}}_WEIGHTS_BYTES, plan);
if (error != 0) {{{{
    return error;
}}}}
"""
PIECE = 4096  # most bytes of a file that a callback reads at once for the check
Fetching = Mapping[int, list[str]]
STEP = "/* A step whose parameters take stack only while it runs. */\nTW_NOT_INLINE void "
START = "begin_read"  # C variable of the callback that begins a read for a later step
BEGIN = f"tw_weights_read *const {START} = memory->weights.start != NULL ? memory->weights.start : memory->weights.read;"


def _fetching(plan: Plan, at: Mapping[str, str]) -> Fetching:
    """Return the lines of C before each step that read constants by the callback, and those of init under -1.

    A read for a later step only begins, and the model waits for it before that step.
    """
    lines: dict[int, list[str]] = {}
    for step, reads in fetches(plan).items():
        if any(read.start < step for read in reads):
            wait = "memory->weights.start != NULL ? memory->weights.wait(memory->weights.context) : 0"
            lines.setdefault(step, []).extend(c.block(callback(wait), []))
        for (array, *_), _, count, start in reads:
            call = f"{START if start < step else 'memory->weights.read'}(memory->weights.context, AT_{array.upper()}, "
            read = c.block(callback(f"{call}{at[copy_name(array)]}, {count})"), [])
            note = c.comment_lines(f"for step {step + 1}, while this step runs") if start < step else []
            lines.setdefault(min(start, step), []).extend([*note, *read])
    return lines


def _access(plan: Plan, name: str, which: str, constants: Constants) -> str:
    """Return the C function that returns the address of an input or output (`which`) by index, NULL if it is streamed.

    The array of a constant output is added to `constants`.
    """
    names, by_rows = (
        (plan.graph.inputs, plan.streamed_inputs) if which == "input" else (plan.graph.outputs, plan.streamed_outputs)
    )
    labels = _labels(plan)
    const = "" if which == "input" else "const "
    places = {}
    for position, tensor in enumerate(plan.graph.tensors[key] for key in names):
        if tensor.name in by_rows:
            continue
        if tensor.data is None:
            places[position] = f"(uint8_t *)memory->{plan.memory(tensor.name)}.data + AT_{labels[tensor.name].upper()}"
        else:
            ctype = CTYPES[tensor.dtype]
            places[position] = constants.address(constants.add(f"{which}_{position}", stored(tensor), ctype), ctype)
    cases = "".join(f"    case {position}:\n        return {place};\n" for position, place in places.items())
    declared = "".join(f"    {line}\n" for line in _bases(plan, [cases]))
    unused = "" if declared or any(key in plan.places and key not in by_rows for key in names) else "    (void)memory;\n"
    return f"""\
{const}void *{name}_{which}(const {name}_memory *memory, int32_t index)
{{
{unused}{declared}    switch (index) {{
{cases}    default:
        return NULL;
    }}
}}
"""


def _invoke(plan: Plan, name: str, codes: Codes, at: Mapping[str, str], *, fetching: Fetching, core: str) -> str:
    """Return the C function that runs the network once, behind those of steps whose parameters are on the stack."""
    blocks, functions = list[list[str]](), list[str]()
    for step, stage in enumerate(plan.stages):
        notes, lines = _stage(plan, step, codes, at, core=core)
        if any(code.in_ram for index in stage.ops if (code := codes[index])) and "return " not in "".join(lines):  # of a stream
            inside = "".join(f"    {line}".rstrip() + "\n" for line in [*_bases(plan, lines), *lines])
            head = f"{name}_step_{step + 1}"
            functions.append(f"{STEP}{head}(const {name}_memory *memory)\n{{\n{inside}}}\n")
            lines = [f"{head}(memory);"]
        blocks.append([*notes, *fetching.get(step, []), *lines])
    used = _bases(plan, (line for block in blocks for line in block))
    used += [BEGIN] * any(f" {START}(" in line for block in blocks for line in block)
    lines = [f"int {name}_invoke(const {name}_memory *memory, const {name}_io *io)", "{", *(f"    {line}" for line in used)]
    lines += [] if used or functions else ["    (void)memory; /* every output is an input or a constant */"]
    lines += [] if plan.streamed_inputs or plan.streamed_outputs else ["    (void)io; /* nothing is streamed */"]
    for step, block in enumerate(blocks):
        lines += ["", *(f"    {line}".rstrip() for line in block), f"    TW_TRACE({step}, -1);"]
    return "\n".join([*functions, *lines, "", "    return 0;", "}", ""])


def _stage(plan: Plan, step: int, codes: Codes, at: Mapping[str, str], *, core: str) -> tuple[list[str], list[str]]:
    """Return the lines of a comment on one step of the network, and those that call its kernels.

    If `core` has faster kernels than the portable one of a layer, the comment says why they cannot run it.
    """
    graph, stage, number = plan.graph, plan.stages[step], f"{step + 1}/{len(plan.stages)}"
    notes = []
    for index in stage.ops:
        op, code = graph.ops[index], codes[index]
        same = ", no code: input and output are the same bytes" if code is None else ""
        reason = why_portable(plan, index, core)
        notes.append(layer_note(graph, op, code.note if code else "") + same + (f"; portable C: {reason}" if reason else ""))
    if stage.tiles is None:
        code = codes[stage.ops[0]]
        return c.comment_lines(f"{number} {notes[0]}"), c.block(code.in_ram, code.call.rstrip().split("\n")) if code else []
    notes = [f"  {note}{ring_note(plan, stage, index)}" for note, index in zip(notes, stage.ops, strict=True)]
    head = c.comment([f"{number} {stage_note(plan, stage)}", *notes]).rstrip().split("\n")
    return head, stage_lines(plan, step, at, map_names(plan, stage, _labels(plan)), codes)

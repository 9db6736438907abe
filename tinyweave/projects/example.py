"""Write the C that the examples of all formats share: samples, a function that runs all models on them, and a cycle profile.

The example prints through a callback, so that it needs no C library but memcpy and memcmp.
"""

from __future__ import annotations

from ..codegen.c import comment
from ..codegen.header import converts
from ..codegen.layer import traced
from ..codegen.memory_header import has_memory_header, placed_section, weights_given
from ..ir import Tensor
from .package import Files, Package, PackagedModel, arena, filled, memory_name

SHOWN = 4  # most values printed of an output that has no classes
PER_LINE = 24  # bytes of a sample per line of C
# type of a tensor -> type in C
INTEGERS = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "bool": "uint8_t"}


def example_files(package: Package) -> Files:
    """Return the C files of the example that all formats share: the samples of each model, and the code that runs them."""
    name, models = package.name, package.models
    return {
        **{f"{model.name}_samples.h": _samples(model) for model in models},
        **{f"{model.name}_file.h": _file(model) for model in models if model.plan.weights_file},
        f"{name}_example.h": filled("example.h", name=name, NAME=name.upper()),
        f"{name}_example.c": filled(
            "example.c",
            name=name,
            runs="\n".join(_run(package, model) for model in models),
            calls="\n".join(f"    wrong += run_{model.name}(print);" for model in models),
            includes="\n".join(
                line
                for model in models
                for line in [
                    *memory_includes(model),
                    *[f'#include "{model.name}_file.h"'] * model.plan.weights_file,
                    f'#include "{model.name}_samples.h"',
                ]
            ),
            print_integer=filled("print.c"),
        ),
    }


def library_files(package: Package) -> Files:
    """Return the library's files beside the models' C: a cycle profile, empty without TW_TRACE, and files of weights."""
    steps = max(1, *(len(model.plan.stages) for model in package.models))
    layers = max(1, *(len(model.plan.graph.ops) for model in package.models))
    values = {"name": package.name, "NAME": package.name.upper(), "steps": steps, "layers": layers}
    profile: Files = {f"{package.name}_profile.{kind}": filled(f"profile.{kind}", **values) for kind in ("h", "c")}
    return profile | {name: content for model in package.models for name, content in model.source.data.items()}


def memory_includes(model: PackagedModel) -> list[str]:
    """Return C lines that include a model's header; if its arenas need placing, also macros that name their linker sections."""
    if not has_memory_header(model.plan):
        return [f'#include "{model.name}.h"']
    macros = [f"{model.name.upper()}_{memory.upper()}" for memory in model.plan.arena]
    sections = [
        f'#define {macro}_SECTION __attribute__((section("{placed_section(memory)}.{model.name}")))'
        for macro, memory in zip(macros, model.plan.arena, strict=True)
    ]
    return [
        "#ifdef TW_FIRMWARE /* whose linker script places them */",
        *sections,
        "#endif",
        f'#include "{model.name}_memory.h"',
    ]


def _samples(model: PackagedModel) -> str:
    prefix, graph = model.name.upper(), model.plan.graph
    arrays = []
    for word, count in (("input", len(graph.inputs)), ("output", len(graph.outputs))):
        for position in range(count):
            name = f"{model.name}_sample_{word}_{position}[{prefix}_SAMPLES][{prefix}_{word.upper()}_{position}_BYTES]"
            rows = (_bytes(getattr(trial, f"{word}s")[position]) for trial in model.trials)
            body = ",\n".join(f"    {{\n{row}\n    }}" for row in rows)
            arrays.append(f"static const uint8_t {name} = {{\n{body}\n}};\n")
    what = "and what the reference computes of them, as bytes in memory."
    head = comment([f"{model.name}_samples.h - inputs for the example of {model.file}, {what}"])
    return filled(
        "samples.h", model=model.name, NAME=prefix, head=head.rstrip(), count=len(model.trials), arrays="\n".join(arrays)
    )


def _file(model: PackagedModel) -> str:
    """Return the C header with the model's file of weights as an array, and the callback that reads it, if there is one."""
    name, contents = model.name, model.source.data[f"{model.name}.weights"]
    read = model.plan.fetches
    return filled(
        "weights/file.h",
        model=name,
        NAME=name.upper(),
        kind="static " * read,
        array=f"{name}_{'file' if read else 'weights'}",
        bytes=_bytes(contents),
        callback=filled("weights/callback.c", model=name) if read else "",
    )


def _bytes(raw: bytes) -> str:
    parts = [raw[at : at + PER_LINE] for at in range(0, len(raw), PER_LINE)]
    return "\n".join("        " + " ".join(f"{value}," for value in part) for part in parts)


def _run(package: Package, model: PackagedModel) -> str:
    """Return the C function that runs a model on its samples, compares the outputs, and prints the first one."""
    plan, name, prefix = model.plan, model.name, model.name.upper()
    memory = memory_name(model)
    weights = f", .weights = {weights_given(plan, name)[1]}" if plan.weights_file else ""
    inputs, outputs = plan.graph.inputs, plan.graph.outputs
    feeds = [
        f"memcpy({name}_input(&{memory}, {position}), {name}_sample_input_{position}[sample], {prefix}_INPUT_{position}_BYTES);"
        for position, tensor in enumerate(inputs)
        if tensor not in plan.streamed_inputs
    ]
    feeds += [f"{name}_sample = sample;"] if plan.streamed_inputs else []
    checks = []
    for position, tensor in enumerate(outputs):
        where = f"{name}_streamed_{position}" if tensor in plan.streamed_outputs else f"{name}_output(&{memory}, {position})"
        wanted = f"{name}_sample_output_{position}[sample]"
        checks += [
            f"const void *const output_{position} = {where};",
            f'wrong += check(print, "{name}", sample, {position}, output_{position}, {wanted}, '
            f"{prefix}_OUTPUT_{position}_BYTES);",
        ]
    shown = _shown(model, plan.graph.tensors[outputs[0]]) if outputs else []
    rows = [f'{{{row.step}, {-1 if row.index is None else row.index}, "{row.name}"}}' for row in traced(plan)]
    return filled(
        "run.c",
        name=name,
        NAME=prefix,
        package=package.name,
        memory=memory,
        arena=arena(model, weights),
        streams=_streams(model),
        io=f"&{name}_rows" if plan.streamed_inputs or plan.streamed_outputs else "NULL",
        feeds=_indented(feeds, 2),
        checks=_indented(checks, 2),
        shown=_indented(shown, 2),
        rows="".join(f"\n        {row}," for row in rows or ['{0, -1, ""}']),  # a list must not be empty in C
        count=len(rows),
    )


def _shown(model: PackagedModel, tensor: Tensor) -> list[str]:
    """Return C lines that print an output's best class, or its first values; empty for types that cannot be printed."""
    prefix = f"{model.name.upper()}_OUTPUT_0"
    is_float = tensor.dtype == "float32"
    is_converted = converts(tensor)
    if not is_float and tensor.dtype not in INTEGERS:
        return []
    ctype = "float" if is_float else INTEGERS[tensor.dtype]
    memory = f"&{memory_name(model)}, " * model.plan.weights_file
    value = f"{model.name}_dequantize_output_0({memory}values[{{}}])" if is_converted else "values[{}]"
    show = "print_thousandths(print, {});" if is_float or is_converted else "print_integer(print, {});"
    head = [f"const {ctype} *const values = (const {ctype} *)output_0;"]
    if tensor.elements > 1 and tensor.elements == tensor.shape[-1]:
        return [
            *head,
            "int32_t best = 0;",
            f"for (int32_t i = 1; i < {prefix}_ELEMENTS; ++i) {{",
            "    best = values[i] > values[best] ? i : best;",
            "}",
            'print(": class ");',
            "print_integer(print, best);",
            'print(", score ");',
            show.format(value.format("best")),
        ]
    return [
        *head,
        'print(":");',
        f"for (int32_t i = 0; i < {min(SHOWN, tensor.elements)}; ++i) {{",
        '    print(" ");',
        "    " + show.format(value.format("i")),
        "}",
    ]


def _streams(model: PackagedModel) -> str:
    """Return C callbacks that read input rows from the sample and store output rows, or "" if nothing is streamed."""
    plan, name, prefix = model.plan, model.name, model.name.upper()
    if not plan.streamed_inputs and not plan.streamed_outputs:
        return ""
    text, members = [], {"user": "NULL", "read_rows": "NULL", "write_rows": "NULL"}
    if plan.streamed_inputs:
        numbers = [i for i, tensor in enumerate(plan.graph.inputs) if tensor in plan.streamed_inputs]
        text += [f"static int32_t {name}_sample;\n", _rows(name, prefix, "read", numbers)]
        members["read_rows"] = f"{name}_read_rows"
    if plan.streamed_outputs:
        numbers = [i for i, tensor in enumerate(plan.graph.outputs) if tensor in plan.streamed_outputs]
        kept = (f"static uint8_t {name}_streamed_{i}[{prefix}_OUTPUT_{i}_BYTES];\n" for i in numbers)
        text += [*kept, _rows(name, prefix, "write", numbers)]
        members["write_rows"] = f"{name}_write_rows"
    values = ", ".join(f".{member} = {value}" for member, value in members.items())
    return "\n".join([*text, f"static const {name}_io {name}_rows = {{{values}}};\n\n"])


def _rows(name: str, prefix: str, verb: str, numbers: list[int]) -> str:
    """Return the C of one callback, `verb` "read" for rows of inputs or "write" for rows of outputs with these `numbers`."""
    word, other = ("input", "void *destination") if verb == "read" else ("output", "const void *source")
    cases = []
    for i in numbers:
        row = f"{prefix}_{word.upper()}_{i}_ROW_BYTES"
        copied = f"destination, {name}_sample_input_{i}[{name}_sample] + first * {row}"
        copied = copied if verb == "read" else f"{name}_streamed_{i} + first * {row}, source"
        cases += [f"    case {i}:", f"        memcpy({copied}, (size_t)count * {row});", "        return 0;"]
    head = f"static int {name}_{verb}_rows(void *user, int32_t {word}, int32_t first, int32_t count, {other})"
    body = ["{", "    (void)user;", f"    switch ({word}) {{", *cases, "    default:", "        return -1;", "    }", "}", ""]
    return "\n".join([head, *body])


def _indented(lines: list[str], levels: int) -> str:
    """Return lines as text, indented by four spaces per level."""
    return "\n".join("    " * levels + line for line in lines)

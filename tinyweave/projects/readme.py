"""Write the README of an export: how to build and call it, inputs and outputs, what it needs, how to measure cycles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..codegen.header import example_program, has_scale
from ..ir import limits
from ..support.command_words import quoted
from .package import Package, PackagedModel, filled

SAMPLES = (
    "The example runs samples that lie in its `_samples.h`, prints the results, and says whether every output byte is the"
    " reference's."
)
SECOND = "kernels of the same names: export the models together, or add `--kernel-prefix`"  # what a second export has
PROGRAM = "The program, `example/main.c`, reads a file as it comes and prints what the network says of it."


def readme(
    package: Package,
    title: str,
    build: Sequence[str],
    profile: str = "",
    *,
    place: str = "",
    use: str = SAMPLES,
    how: str = "",
    second: str = SECOND,
) -> str:
    """Return the text of README.md; `build` are lines of Markdown.

    `profile` says how to switch the cycle profile on, "" that there is none; `place` how to place arenas, by default in the
    model's memory header; `use` what runs the samples; `how` what comes before the C that calls the network;
    `second` what a second export in one program shares with this one, "" for nothing.
    """
    arenas = [
        f"{model.name} needs " + " and ".join(f"{size:,} B of {memory}" for memory, size in model.plan.arena.items())
        for model in package.models
    ]
    first = package.models[0]
    place = place or f"`{package.models[0].name}_memory.h` says how to place them elsewhere."
    total = sum(sum(model.plan.arena.values()) for model in package.models)
    placing = f" The arrays are in `.bss`, {total:,} B of the RAM that your linker script has for variables. {place}"
    file = quoted(package.models[0].file)
    options = f" {package.options}" if package.options else ""
    profiled = code(f"tinyweave profile {file}{options} --compare log.txt")
    log = f"Save what it prints, and compare it with the estimate: {profiled}."
    measure = f"\n**Measure:** {profile} The example then prints a line `tw-profile ...` for each layer. {log}\n"
    return filled(
        "README.md",
        title=title,
        models=" and ".join(code(quoted(model.file)) for model in package.models),
        target=package.target,
        build="\n".join(f"- {line}" for line in build),
        ends="\n".join(line for model in package.models for line in _ends(model)),
        how=how,
        second=f"\n**A second export in one program** has {second}.\n" if second else "",
        program="\n".join(example_program(first.plan, first.name)),
        ram="; ".join(arenas),
        costs="; ".join(f"{model.name}: {model.costs}" for model in package.models),
        placing=placing if package.placed else "",
        measure=measure if profile and not package.program else "",
        use=PROGRAM if package.program else use,
        deploy=code(f"tinyweave deploy {file}{options}"),
        command=code(package.command),
        weights=package.weights,
        more=" Models that do not run at the same time can share one arena." if len(package.models) > 1 else "",
    )


def _ends(model: PackagedModel) -> list[str]:
    """Return a row of the table of inputs and outputs for each of a model."""
    plan, rows = model.plan, []
    streamed = {*plan.streamed_inputs, *plan.streamed_outputs}
    for word, names in (("input", plan.graph.inputs), ("output", plan.graph.outputs)):
        for index, name in enumerate(names):
            tensor = plan.graph.tensors[name]
            real = "as they are"
            if has_scale(tensor):
                low, high = ((q - tensor.zero_point) * tensor.scale for q in limits(tensor.dtype))
                real = f"{tensor.scale:.6g} * (q - {tensor.zero_point}), from {low:.4g} to {high:.4g}".replace("- -", "+ ")
            shape = ", ".join(map(str, tensor.shape))
            rows_of = ", row by row during invoke" if name in streamed else ""
            rows.append(f"| {model.name}, {word} {index} | {code(name)} | {tensor.dtype} [{shape}]{rows_of} | {real} |")
    return rows


def code(text: str) -> str:
    """Return a line of printable ASCII as a Markdown code span; the line may contain backticks."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"

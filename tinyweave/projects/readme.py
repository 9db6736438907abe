"""Write the README of an export: how to build it, how much RAM it needs, how to measure cycles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..support.command_words import quoted
from .package import Package, filled

SAMPLES = (
    "The example runs samples that lie in its `_samples.h`, prints the results, and says whether every output byte is the"
    " reference's."
)
PROGRAM = "The program, `example/main.c`, reads a file as it comes and prints what the network says of it."


def readme(package: Package, title: str, build: Sequence[str], profile: str, *, place: str = "") -> str:
    """Return the text of README.md; `build` are lines of Markdown.

    `profile` says how to switch the cycle profile on; `place` how to place arenas, by default in the model's memory header.
    """
    arenas = [
        f"{model.name} needs " + " and ".join(f"{size:,} B of {memory}" for memory, size in model.plan.arena.items())
        for model in package.models
    ]
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
        ram="; ".join(arenas),
        placing=placing if package.placed else "",
        measure="" if package.program else measure,
        use=PROGRAM if package.program else SAMPLES,
        deploy=code(f"tinyweave deploy {file}{options}"),
        command=code(package.command),
        more=" Models that do not run at the same time can share one arena." if len(package.models) > 1 else "",
    )


def code(text: str) -> str:
    """Return a line of printable ASCII as a Markdown code span; the line may contain backticks."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"

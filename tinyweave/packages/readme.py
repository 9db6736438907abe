"""The README of an export: how to build it, where its RAM figure comes from, how to measure it."""

from __future__ import annotations

from collections.abc import Sequence

from .memories import FRAGMENT
from .package import Package, filled

SAMPLES = (
    "The example runs samples that lie in its `_samples.h`, prints the results, and says whether every output byte is the"
    " reference's."
)
PROGRAM = "The program, `example/main.c`, reads a file as it comes and prints what the network says of it."


def readme(package: Package, title: str, build: Sequence[str], profile: str, *, in_sections: bool = True) -> str:
    """Return README.md. build: lines of Markdown; profile: how the profile is switched on, in a sentence.

    in_sections: the example's arenas lie in linker sections, where the plan put them into memories of the board.
    """
    arenas = [
        f"{model.name} needs " + " and ".join(f"{size:,} B of {memory}" for memory, size in model.plan.arena.items())
        for model in package.models
    ]
    models = " and ".join(f"`{model.file}`" for model in package.models)
    placed = package.models[0].name
    linker = f" The example has them as ordinary arrays; `{placed}_memory.h` says how to place them elsewhere."
    linker = f" `{FRAGMENT}` places them: add it to the link." if in_sections else linker
    options = f" {package.options}" if package.options else ""
    profiled = f"`tinyweave profile {package.models[0].file}{options} --measured log.txt`"
    log = f"Save what it prints, and hold it against the estimate: {profiled}."
    measure = f"\n**Measure:** {profile} The example then prints a line `tw-profile ...` for each layer. {log}\n"
    return filled(
        "README.md",
        title=title,
        models=models,
        target=package.target,
        build="\n".join(f"- {line}" for line in build),
        ram="; ".join(arenas),
        linker=linker if package.placed else "",
        measure="" if package.program else measure,
        use=PROGRAM if package.program else SAMPLES,
        file=package.models[0].file,
        options=options,
        command=package.command,
        more=" Models that do not run at the same time can share one arena." if len(package.models) > 1 else "",
    )

"""The command `docs`, which prints the pages of the documentation or copies the example, from the checkout or the wheel."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ..support.command_words import quoted
from .commands import app
from .modules import files, ir, text
from .options import option


def pages() -> dict[str, Path]:
    """Return the files of the pages by name, such as "deploy", in the order of the start page."""
    folder = files.shipped_folder("docs")
    names = re.findall(r"\]\(([A-Z_]+)\.md", (folder / "index.md").read_text("utf-8"))
    return {name.lower(): folder / f"{name}.md" for name in names}


def complete(start: str) -> list[str]:
    """Return the names of the pages that begin with `start`, for completion in the shell; [] if there are no pages."""
    with suppress(ir.CompileError):
        return [name for name in pages() if name.startswith(start.lower())]
    return []


@app.command()
def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="PAGE", help="Page to print, such as deploy.", autocompletion=complete)
    ] = None,
    example: Annotated[
        Path | None, option("--example DIR", "Copy digits.tflite, a network that recognises spoken digits, to DIR.")
    ] = None,
) -> int:
    """Print the documentation, or copy the example network.

    Without PAGE it lists the pages. A terminal shows a page formatted. For a pipe or a file it is printed as Markdown.

    Example: tinyweave docs deploy
    """
    if example is not None:
        network = example / "digits.tflite"
        for path in (network, network.with_suffix(".json")):  # with the names of its classes, and how sound becomes its input
            files.write_file(path, (files.shipped_folder("examples/keywords") / path.name).read_bytes())
        print(f"wrote {network}; deploy it: tinyweave deploy {quoted(str(network))} --device nrf52840")
        return 0
    known = pages()
    sources = {name: re.sub(r"<!--.*?-->\n?", "", path.read_text("utf-8"), flags=re.DOTALL) for name, path in known.items()}
    if page is None:
        width = max(map(len, known))
        for name, source in sources.items():
            print(f"{name:{width}}  {source.splitlines()[0].removeprefix('# ')}")
        print("\nprint a page: tinyweave docs PAGE")
        print("copy the example network: tinyweave docs --example DIR")
        return 0
    name = Path(page).stem.lower()
    if name not in known:
        raise ir.CompileError(f"there is no page '{page}'", f"choose one of {', '.join(known)}")
    text.show_page(sources[name])
    return 0

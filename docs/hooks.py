"""Build the files of the project that pages link to, such as CONTRIBUTING.md, as files/PATH, and mend the links to them."""

from __future__ import annotations

import re
from os.path import relpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INLINE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")  # code in a sentence or a table, not a block of code
LINK = re.compile(r"(?<=\]\()([^()#:\s]+)(?=[)#])")  # the path of a link or picture


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside docs/ that pages link to, and the files that these link to, and so on."""
    linked, found = list(DOCS.glob("*.md")), set[Path]()
    while linked:
        page = linked.pop()
        paths = [_target(page, link) for link in LINK.findall(page.read_text("utf-8"))] if page.suffix == ".md" else []
        new = {path for path in paths if path and not path.is_relative_to(DOCS)} - found
        linked.extend(new)
        found |= new
    for path in sorted(found):
        files.append(File.generated(config, _built(path), content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change the links of a page so that they lead from where it is built to where their targets are built.

    The home page begins with the README's first part, in place of its own first paragraph.
    """
    built = page.file.src_uri
    own = ROOT / built.removeprefix("files/") if built.startswith("files/") else DOCS / built
    if built != "index.md":
        return _mended(markdown, own, built)
    readme, table = ROOT / "README.md", markdown[markdown.index("| you want to") :]
    first = readme.read_text("utf-8").partition("## Install and try it")[0]
    return f"{_mended(first, readme, built)}## Where to read on\n\n{_mended(table, own, built)}"


def _mended(markdown: str, own: Path, built: str) -> str:
    """Change the links of a text of the file `own` so that they lead from the built page `built` to where targets are built."""

    def mended(link: re.Match[str]) -> str:
        path = _target(own, link[0])
        return Path(relpath(_built(path), Path(built).parent)).as_posix() if path else link[0]

    return LINK.sub(mended, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep each option, such as --device, on one line; a browser would break it after its hyphens."""
    return INLINE.sub(lambda code: re.sub(r"--?[a-z][\w-]*", r'<span class="whole">\g<0></span>', code[0]), html)


def _target(page: Path, link: str) -> Path | None:
    """Return the file of the project that a link of `page` leads to; None if there is no such file."""
    path = (page.parent / link).resolve()
    return path if path.is_file() and path.is_relative_to(ROOT) else None


def _built(path: Path) -> str:
    """Return where a file of the project is built, as a path in the site's source."""
    return path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else f"files/{path.relative_to(ROOT).as_posix()}"

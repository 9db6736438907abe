"""Build the pages and files that are not in docs/.

These are the files of the project that pages link to, such as CONTRIBUTING.md, as files/PATH; the reference of the public names
of `import tinyweave`, API.md; and llms.txt, with which coding agents begin: SKILL.md and the list of pages.
"""

from __future__ import annotations

import re
from importlib.util import resolve_name
from os.path import relpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

import tinyweave.api
from tinyweave.lazy import checked_imports

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INLINE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")  # code in a sentence or a table, not a block of code
API = {  # task -> public names
    "Read a model, and run it": "load Model inspect Inspection run Outputs",
    "Plan": "plan PlanOptions Plan pareto compare Fit reorder Reordering",
    "Write C, prove it, measure it": "compile verify Verification profile Profile deploy Deployment weights",
    "Into a build system": "export",
    "From float to int8": "quantize Quantisation prepare_qat convert_qat",
    "Find a network": "search train",
    "Show and check": "report explore guard",
    "Boards, cache, errors": "devices Device cache CompileError",
}
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
    made = {_built(path): path.read_bytes() for path in sorted(found)}
    for uri, content in {**made, "API.md": _reference(), "llms.txt": _for_agents()}.items():
        files.append(File.generated(config, uri, content=content))
    return files


def _reference() -> str:
    """Return the page of the public names, by task, for mkdocstrings."""
    text = "# Python reference\n\nThe public names of `import tinyweave as tw`; [From Python](PYTHON.md) is an introduction.\n"
    for task, names in API.items():
        text += f"\n## {task}\n"
        for name in names.split():
            text += f"\n::: {_home('tinyweave', name)}\n    options:\n      heading: tw.{name}\n      toc_label: {name}\n"
            text += "      members: [find, all_devices]\n" if name == "devices" else ""
    return text


def _home(package: str, name: str) -> str:
    """Return the full name of a public name where it is defined, because some packages have the name of a function in them."""
    module, own = checked_imports(package)[name]
    path = resolve_name(module, package)
    return _home(path, own) if path == tinyweave.api.__name__ else f"{path}.{own}"


def _for_agents() -> str:
    """Return llms.txt (llmstxt.org): SKILL.md without its head, and each row of the home page's list of pages."""
    skill, home = (path.read_text("utf-8") for path in (ROOT / "SKILL.md", DOCS / "index.md"))
    about, body = re.findall(r"^description: (.*)$", skill, re.MULTILINE)[0], skill.partition("\n# ")[2]
    title, _, rest = body.partition("\n")
    rows = re.findall(r"^\| (?!you want)(.+?) \| (.+) \|$", home, re.MULTILINE)
    pages = "".join(f"- {links}: {task}\n" for task, links in rows)
    pages += "- [Python reference](API/): look up a function or a class of `import tinyweave`\n"
    listed = f"# {title}\n\n> {about}\n{rest}\n## Pages\n\n{pages}"
    return LINK.sub(lambda link: _address(link[0]), listed)


def _address(link: str) -> str:
    """Return where the built site has the page or file that a link of SKILL.md or the home page leads to."""
    path = next((path for page in (DOCS / "index.md", ROOT / "SKILL.md") if (path := _target(page, link))), None)
    built = _built(path) if path else link
    return f"{built.removesuffix('.md')}/" if built.endswith(".md") else built


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

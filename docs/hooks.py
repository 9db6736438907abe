"""Files of the project that pages point to, such as the schema, are built beside the pages, as files/NAME."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

INLINE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")  # code in a sentence or a table, not a block of code
OUTSIDE = re.compile(r"\]\((\.\./[^)#]+)\)")  # a link to a file of the project that is no page


def on_files(files: Any, config: Any) -> Any:
    """Add what pages point to outside their folder."""
    docs = Path(config["docs_dir"])
    found = {(docs / link).resolve() for page in docs.glob("*.md") for link in OUTSIDE.findall(page.read_text("utf-8"))}
    for path in sorted(found):
        files.append(File.generated(config, f"files/{path.name}", content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point to where they are built."""
    return OUTSIDE.sub(lambda link: f"](files/{Path(link[1]).name})", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep each option, such as --device, on one line; a browser would break it after its hyphens."""
    return INLINE.sub(lambda code: re.sub(r"--?[a-z][\w-]*", r'<span class="whole">\g<0></span>', code[0]), html)

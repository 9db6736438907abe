"""Blocks of code on the pages of docs/, in README.md and in SKILL.md, and their documented outputs.

A comment above a block, or at the end of the page for all its blocks of some languages, says how it is checked:

    <!-- not run: WHY -->            needs hours, hardware, or downloads
    <!-- run by tests/FILE.py -->    a test with networks and asserts of its own
    <!-- excerpt of FILE -->         its lines are in this file
    <!-- python, sh run by tests/FILE.py -->

Without a comment `tests/test_docs.py` runs it. Above a table with figures of the real models:

    <!-- figures of SCRIPT WORDS -->          SCRIPT: a file of bench/

In LESSON.md, `<!-- canvas NAME -->` is the place of a live figure of the explorer (tests/tinylesson/test_lesson.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tinyweave.ir import CompileError
from tinyweave.support import toolchain

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "SKILL.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ABOVE = re.compile(r"<!-- (not run:|run by|excerpt of) (.+) -->\n$")
OF_PAGE = re.compile(r"^<!-- (\w+(?:, \w+)*) run by (.+) -->$", re.MULTILINE)
FIGURES = re.compile(r"^<!-- figures of (bench/\S+\.py)(.*) -->\n\n?((?:\|.*\n)+)", re.MULTILINE)
COMPILERS = {"arm": "12.2.1 20221205", "host": "12.2.0"}  # the compilers of figures on pages


@dataclass(frozen=True)
class Block:
    """A block of a page. mark: how it is checked, and by which file. prints: the documented output, None without one."""

    page: Path
    at: int
    language: str
    text: str
    mark: tuple[str, str]
    prints: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.at}"


@cache
def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page; a command in the words before a text block counts as a block."""
    source, found = page.read_text("utf-8"), list[Block]()
    of_page = {
        language: ("run by", where) for languages, where in OF_PAGE.findall(source) for language in languages.split(", ")
    }
    for fence in FENCE.finditer(source):
        language, text = fence.groups()
        before, at = source[: fence.start()], source[: fence.start()].count("\n") + 1
        above = ABOVE.search(before)
        mark = (above[1], above[2]) if above else of_page.get(language, ("run", ""))
        named = re.search(r"`(tinyweave [^`]+)`:\n+$", before)
        if language == "text" and named:
            found.append(Block(page, at, "sh", named[1], mark, text))
        elif language == "text" and found and found[-1].prints is None and found[-1].language in {"sh", "python"}:
            last = found.pop()
            found.append(Block(page, last.at, last.language, last.text, last.mark, text))
        else:
            found.append(Block(page, at, language, text, mark))
    return found


def commands(block: Block) -> Iterator[str]:
    """Yield the commands of a block; continued lines are joined."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            yield re.sub(r"^\.venv/bin/", "", line).strip()


def words_of(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def measured_alike() -> bool:
    """Return whether the compilers are those of the figures on pages."""
    found = {"arm": toolchain.arm, "host": toolchain.host}
    try:
        return all(COMPILERS[name] in find().version for name, find in found.items())
    except CompileError:
        return False


def same(expected: str, printed: str, is_exact: bool) -> bool:
    """Compare the output on a page with the printed one; a line of `...` matches any lines.

    is_exact: compare all characters; otherwise only the labels of lines, because figures depend on the compiler.
    """
    if not is_exact:
        expected, printed = _labels(expected), _labels(printed)
    parts = re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)
    return re.fullmatch(r"(?:.*\n)*?".join(map(re.escape, parts)), printed) is not None


def _labels(text: str) -> str:
    """Return the words at the begin of each line that does not continue another line."""
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    return "".join(f"{line if line == '...' else re.split(r'[0-9:;(]|  +', line.strip())[0].strip()}\n" for line in lines)


def check_output(page: str, command: str, printed: str, is_exact: bool = True) -> None:
    """Compare the printed output of a command with figures of built C with its page.

    command: words of the block. is_exact: figures depend on the compilers only.
    """
    (block,) = (block for block in blocks(ROOT / "docs" / page) if command in block.text and block.prints is not None)
    if not same(str(block.prints), printed, is_exact and measured_alike()):
        assert block.prints == printed, block.place

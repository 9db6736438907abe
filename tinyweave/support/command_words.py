"""Convert options to the words of a shell command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any


def typed(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield words such as `--ram 64k` for options not None or default: no second word for True, one option per list element."""
    for option, value in options.items():
        if value is None or value == defaults.get(option):
            continue
        for each in value if isinstance(value, list) else [value]:
            yield f"--{option.replace('_', '-')}"
            if each is not True:
                yield str(each).removesuffix(".0") if isinstance(each, float) else str(each)


def quoted(word: str) -> str:
    """Quote a word for the shell, in printable ASCII on one line for a C comment; others are escaped in $'...'."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    plain = (letter if letter.isascii() and letter.isprintable() and letter not in "'\\" else None for letter in word)
    return "$'" + "".join(p or f"\\U{ord(letter):08x}" for p, letter in zip(plain, word, strict=True)) + "'"


def shell_lines(command: str, width: int) -> list[str]:
    """Return a shell command as lines of at most `width` characters, all but the last of which end with a backslash.

    Lines are broken before options and redirections only, so a long word exceeds `width`. A command with quotes stays one line.
    """
    if len(command) <= width or "'" in command or '"' in command:
        return [command]
    first, *parts = re.split(r" (?=[->])", command)
    lines = [first]
    for part in parts:
        if len(f"{lines[-1]} {part} \\") <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]

"""Convert options to the words of a shell command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any


def typed(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command line words, such as `--ram 64k`, of the options whose value is neither None nor the default.

    An option whose value is True has no second word. An option whose value is a list is repeated for each element.
    """
    for option, value in options.items():
        if value is None or value == defaults.get(option):
            continue
        for each in value if isinstance(value, list) else [value]:
            yield f"--{option.replace('_', '-')}"
            if each is not True:
                yield str(each).removesuffix(".0") if isinstance(each, float) else str(each)


def quoted(word: str) -> str:
    """Quote a word for the shell, in printable ASCII on one line, so that a C comment can contain it.

    Other characters are escaped in a $'...' string.
    """
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    plain = (letter if letter.isascii() and letter.isprintable() and letter not in "'\\" else None for letter in word)
    return "$'" + "".join(p or f"\\U{ord(letter):08x}" for p, letter in zip(plain, word, strict=True)) + "'"


def shell_lines(command: str, width: int) -> list[str]:
    """Return a shell command as lines of at most `width` characters, all but the last of which end with a backslash.

    Lines are broken before options and redirections only, so a line with a long path or value exceeds `width`. A command with
    quotes is returned as one line, because a quoted word must not be broken.
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

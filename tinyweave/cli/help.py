"""The help texts: the commands in groups, and for each command an example that can be pasted into a shell."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ..command_words import shell_lines

Function = TypeVar("Function", bound=Callable[..., Any])

GROUPS = {
    "Start here": "deploy inspect docs",
    "Look": "plan profile verify report explore compare devices",
    "Ship": "compile export",
    "Make": "quantize prune search train reorder",
    "Watch": "guard cache",
}


class GroupedCommands(TyperGroup):
    """The commands of tinyweave, listed in the groups and the order of GROUPS."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands and the first sentences of their docstrings, one section per group."""
        width = max(map(len, self.commands))
        for title, names in GROUPS.items():
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(formatter.width - width - 6)) for name in names.split()]
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])


class Command(TyperCommand):
    """A command whose docstring ends with the paragraph `Example: ...`, one shell command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name in the usage line; typer encloses required arguments in braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the docstring, with the example in lines that end with a backslash if it is too long for one line."""
        about, _, example = cleandoc(self.help or "").rpartition("\n\nExample: ")
        lines = shell_lines(" ".join(f"Example: {example}".split()), formatter.width - 4)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(about)
            formatter.write_paragraph()
            for line in lines:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class App(typer.Typer):
    """The command line, each of whose commands is a `Command`."""

    def command(self, name: str | None = None, **more: Any) -> Callable[[Function], Function]:
        """Return a decorator that adds a function as a command; the arguments are those of typer's `command`."""
        return super().command(name, cls=Command, **more)

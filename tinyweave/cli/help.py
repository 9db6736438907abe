"""The help of `tinyweave` without a command: the commands in groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

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

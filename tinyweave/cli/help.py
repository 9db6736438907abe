"""The help texts: the commands in groups, and for each command an example that can be pasted into a shell.

`--help` lists all options of a command, those that most users need first. `-h` lists only these, on one screen, with the first
part of each text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ..support.command_words import shell_lines
from .modules import ir

Function = TypeVar("Function", bound=Callable[..., Any])

COMMANDS = "tinyweave.commands"  # entry points: the name of a command, and the module that adds it to App when it is imported
# the commands of this package by groups; those of other packages name their group by the argument `rich_help_panel`
GROUPS = {
    "Start here": "deploy inspect docs",
    "Look": "run plan profile verify report compare devices",
    "Ship": "compile weights export",
    "Make": "quantize reorder",
    "Watch": "guard doctor cache",
}


# parameter names of the options that most users need, in the order of the help; required options come before them
COMMON = "form device ram flash minutes epochs settings labels blame inputs is_whole tensor pareto out show as_json help"
FEW = 9  # a command with at most so many options has only one list
SHORT = "tinyweave.short_help"  # key of the context: whether only the common options are shown
NAME_COLUMNS = 22  # width of the column with the names of options; longer names have a line of their own


class GroupedCommands(TyperGroup):
    """The commands of tinyweave, listed in the groups and the order of GROUPS."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        with formatter.section("Options"):
            formatter.write_dl([row for each in self.get_params(ctx) if (row := each.get_help_record(ctx)) is not None])

    def of(self, title: str) -> list[str]:
        """Return the names of the commands of a group: first those of this package, then those of others."""
        others = [name for name, each in self.commands.items() if getattr(each, "rich_help_panel", None) == title]
        return [*GROUPS[title].split(), *others]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands and the first sentences of their docstrings, one section per group."""
        width = max(map(len, self.commands))
        for title in GROUPS:
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(formatter.width - width - 6)) for name in self.of(title)]
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])


class Command(TyperCommand):
    """A command whose docstring ends with the paragraph `Example: ...`, one shell command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name in the usage line; typer encloses required arguments in braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command, and note in the context whether they ask for the short help, `-h`."""
        ctx.meta[SHORT] = "-h" in args and "--help" not in args
        return list(super().parse_args(ctx, args))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the common options and, unless the short help is asked for, all others."""
        params = self.get_params(ctx)
        options = [each for each in params if each.param_type_name == "option"]
        by_name = {each.name: each for each in options if not each.required}
        common = [each for each in options if each.required] + [by_name[name] for name in COMMON.split() if name in by_name]
        if len(options) <= FEW:
            common = options
        sections = {
            "Arguments": [each for each in params if each.param_type_name == "argument"],
            "Options": common,
            "More options": [] if ctx.meta.get(SHORT) else [each for each in options if each not in common],
        }
        for title, listed in sections.items():
            if rows := [row for each in listed if (row := each.get_help_record(ctx)) is not None]:
                if ctx.meta.get(SHORT):
                    rows = [(names, _first_part(text)) for names, text in rows]
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=NAME_COLUMNS)
        if ctx.meta.get(SHORT) and len(common) < len(options):
            formatter.write_paragraph()
            formatter.write_text(f"{len(options) - len(common)} more options: {ctx.command_path} --help")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the epilog as a section: its title, and rows of `name<TAB>text`. The short help has none."""
        if self.epilog and not ctx.meta.get(SHORT):
            title, *rows = self.epilog.splitlines()
            with formatter.section(title):
                formatter.write_dl([tuple(row.split("\t")) for row in rows], col_max=NAME_COLUMNS)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the docstring, with the example in lines that end with a backslash if it is too long for one line.

        The short help has only the first paragraph and the example.
        """
        about, _, example = cleandoc(self.help or "").rpartition("\n\nExample: ")
        if ctx.meta.get(SHORT):
            about, *_ = about.split("\n\n")
        lines = shell_lines(" ".join(f"Example: {example}".split()), formatter.width - 4)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(about)
            formatter.write_paragraph()
            for line in lines:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _first_part(text: str) -> str:
    """Return the help of an option up to its first semicolon or sentence, with the range in brackets at its end."""
    about, bracket, given = text.partition("  [")
    return re.split(r"(?<=\.)\s|;\s", about, maxsplit=1)[0].rstrip(".") + "." + bracket + given


class App(typer.Typer):
    """The command line, each of whose commands is a `Command`."""

    def find(self, name: str | None = None) -> None:
        """Import the modules of other packages that add commands, unless `name` is a command that is already there.

        This takes 40 ms, most of it for `importlib.metadata`, so the commands of this package start without it. Raise
        CompileError if such a module cannot be imported.
        """
        if name in {each.name or getattr(each.callback, "__name__", "") for each in self.registered_commands}:
            return
        from importlib.metadata import entry_points

        for each in entry_points(group=COMMANDS):
            try:
                each.load()
            except ImportError as error:
                why = f"the package of the command '{each.name}' cannot be imported: {error}"
                raise ir.CompileError(why, "install it again") from error

    def command(self, name: str | None = None, **more: Any) -> Callable[[Function], Function]:
        """Return a decorator that adds a function as a command; the arguments are those of typer's `command`."""
        return super().command(name, cls=Command, **more)

"""Messages that name options of the command line, in the words of Python: `ram="64k"` in place of `--ram 64k`."""

from __future__ import annotations

import re
from functools import wraps
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import Any

from ..ir import CompileError
from . import options

# a command in quotes; an option, with the word after it if that can be its value
OPTION = re.compile(
    r"'tinyweave [^;]*'|(?<![\w-])--([a-z][a-z-]*[a-z])"
    r"(?: (?!(?:is|are|as|has|have|needs|names|delivers|fewer|too|or|and|to|of|for|if|with)\b)([^\s,;:)]+))?"
)
NUMBER = re.compile(r"[-+\d./e]+")


def arguments() -> frozenset[str]:
    """Return the names of the arguments of all verbs, and of their options."""
    from . import verbs

    found = [each for name, each in vars(verbs).items() if isinstance(each, FunctionType) and not name.startswith("_")]
    return frozenset(options.ExportChanges.__annotations__).union(*(signature(each).parameters for each in found))


def with_python_words(value: Any) -> Any:
    """Return a function whose CompileErrors name Python's arguments rather than options; return other values as they are."""
    if not isinstance(value, FunctionType):
        return value

    @wraps(value)
    def called(*values: Any, **named: Any) -> Any:
        try:
            return value(*values, **named)
        except CompileError as error:
            known = arguments().union(signature(value).parameters)
            error.why, error.what_to_do = (python_words(text, known) for text in (error.why, error.what_to_do))
            error.args = (str(error),)
            raise

    called.__signature__ = _with_options(value)  # type: ignore[attr-defined]  # `help` reads it
    return called


def _with_options(function: FunctionType) -> Signature:
    """Return the signature of a function with a keyword argument for each of the options that its `**changes` takes."""
    shown = signature(function)
    *own, last = shown.parameters.values()
    named = re.fullmatch(r"Unpack\[(\w+)\]", str(last.annotation))
    if named is None:
        return shown
    given, kind = {parameter.name for parameter in own}, getattr(options, named[1])
    added = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=getattr(options.PlanOptions, name, None), annotation=each.__forward_arg__
        )
        for name, each in kind.__annotations__.items()
        if name not in given
    ]
    return shown.replace(parameters=[*own, *added])


def python_words(message: str, known: frozenset[str]) -> str:
    """Replace the options in a message by arguments of functions: `--ram 64k` by `ram="64k"`.

    Options that are no arguments in `known`, and commands in quotes, stay as they are.
    """

    def words(found: re.Match[str]) -> str:
        name, value = (found[1] or "").replace("-", "_"), found[2]
        if name not in known:
            return found[0]
        if value is None:
            return name
        return f"{name}={value}" if NUMBER.fullmatch(value) else f'{name}="{value}"'

    return OPTION.sub(words, message)

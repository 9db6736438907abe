"""What Python's callers need: arguments are checked by their annotations, and messages name them rather than options.

So a message says `ram="64k"` in place of `--ram 64k`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from ..ir import CompileError
from . import options

# a command in quotes; an option, with the word after it if that can be its value
OPTION = re.compile(
    r"'tinyweave [^;]*'|(?<![\w-])--([a-z][a-z-]*[a-z])"
    r"(?: (?!(?:is|are|as|has|have|needs|names|delivers|fewer|too|or|and|to|of|for|if|with)\b)([^\s,;:)]+))?"
)
NUMBER = re.compile(r"[-+\d./e]+")
UNION = re.compile(r" \| (?![^\[]*\])")  # between the types of an annotation
# name in an annotation -> the types of its values; values of other names are checked where they are used
TYPES: dict[str, Any] = {
    **{"None": type(None), "str": str, "Path": Path, "bool": (Integral, np.bool_), "int": Integral, "float": Real},
    **{"Sequence": (list, tuple, range, np.ndarray), "Mapping": Mapping, "Shapes": Mapping, "Progress": Callable},
}
CLASSES = ("Device", "Plan", "PlanOptions")  # which are not imported for a check


def arguments() -> frozenset[str]:
    """Return the names of the arguments of all verbs, and of their options."""
    from . import verbs

    found = [each for name, each in vars(verbs).items() if isinstance(each, FunctionType) and not name.startswith("_")]
    return frozenset(options.ExportChanges.__annotations__).union(*(signature(each).parameters for each in found))


def with_python_words(value: Any) -> Any:
    """Return a function that checks its arguments and whose CompileErrors name Python's arguments; others unchanged."""
    if not isinstance(value, FunctionType):
        return value
    shown = _with_options(value)
    kinds = {name: UNION.split(str(each.annotation)) for name, each in shown.parameters.items()}

    @wraps(value)
    def called(*values: Any, **named: Any) -> Any:
        try:
            _check_types(kinds, {**dict(zip(kinds, values, strict=False)), **named})
            return value(*values, **named)
        except CompileError as error:
            known = arguments().union(signature(value).parameters)
            error.why, error.what_to_do = (python_words(text, known) for text in (error.why, error.what_to_do))
            error.args = (str(error),)
            raise

    called.__signature__ = shown  # type: ignore[attr-defined]  # `help` reads it
    return called


def _check_types(kinds: Mapping[str, Sequence[str]], given: Mapping[str, Any]) -> None:
    """Raise CompileError if an argument has none of the types in its annotation, `kinds` by name; an unknown name has any."""
    for name, value in given.items():
        if not any(_has_type(value, kind.partition("[")[0]) for kind in kinds.get(name, ["Any"])):
            raise CompileError(f"{name} is of the type {type(value).__name__}", f"give {' or '.join(kinds[name])}")


def _has_type(value: Any, kind: str) -> bool:
    if kind in CLASSES:
        return kind in {each.__name__ for each in type(value).__mro__}
    return isinstance(value, TYPES.get(kind, object))


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
    """Replace options in a message by the arguments that are `known`: `--ram 64k` by `ram="64k"`."""

    def words(found: re.Match[str]) -> str:
        name, value = (found[1] or "").replace("-", "_"), found[2]
        if name not in known:
            return found[0]
        if value is None:
            return name
        return f"{name}={value}" if NUMBER.fullmatch(value) else f'{name}="{value}"'

    return OPTION.sub(words, message)

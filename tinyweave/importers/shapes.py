"""Replace the dynamic extents of a model's inputs by numbers.

In: the axes of each input in the file, and the shapes that the user gives (--shape). Out: shapes without dynamic extents, or an
error that shows the missing option.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..ir import CompileError

Shapes = Mapping[str, Sequence[int]]  # input name -> shape
EXAMPLE = 160  # extent in the message for an axis about whose size the file says nothing


class Dynamic(NamedTuple):
    """A dynamic extent. Extents with the same key are equal."""

    key: str
    label: str = ""  # its name in messages
    hint: int = EXAMPLE  # a size that the model accepts, for messages


Axis = int | Dynamic


def fixed_shapes(
    inputs: Mapping[str, Sequence[Axis]],
    given: Shapes | None,
    computed: Callable[[str, Mapping[str, int]], int | None] = lambda key, sizes: None,
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return the inputs' shapes without dynamic extents, and the size of each dynamic extent by its key.

    A dynamic first axis, the batch, becomes 1 if its input has more axes and `given` does not have the input. `computed`
    returns the size of an extent that follows from other sizes, else None. Raise CompileError if `given` contradicts the file,
    or a dynamic extent has no size.
    """
    sizes = dict[str, int]()
    for name, shape in (given or {}).items():
        if name not in inputs:
            raise CompileError(f"the model has no input '{name}'", f"its inputs are {', '.join(inputs)}")
        axes = inputs[name]
        if len(shape) != len(axes):
            raise CompileError(f"has {len(axes)} axes, and --shape gives {len(shape)}", _advice(name, axes, sizes), tensor=name)
        for index, (axis, extent) in enumerate(zip(axes, shape, strict=True)):
            known = sizes.setdefault(axis.key, extent) if isinstance(axis, Dynamic) else axis
            if known != extent:
                why = f"has the extent {known} on axis {index}, and --shape gives {extent}"
                to_do = "give equal dynamic axes one size" if isinstance(axis, Dynamic) else "export it with this shape"
                raise CompileError(why, to_do, tensor=name)
    for name, axes in inputs.items():
        if name not in (given or {}) and len(axes) > 1 and isinstance(axes[0], Dynamic):
            sizes.setdefault(axes[0].key, 1)
    for name, axes in inputs.items():
        for index, axis in enumerate(axes):
            if not isinstance(axis, Dynamic) or axis.key in sizes:
                continue
            size = computed(axis.key, sizes)
            if size is None or size < 1:
                label = f" '{axis.label}'" if axis.label else ""
                why = f"has an axis {index} of dynamic size{label}"
                raise CompileError(why, _advice(name, axes, sizes), tensor=name)
            sizes[axis.key] = size
    shapes = {
        name: tuple(sizes[axis.key] if isinstance(axis, Dynamic) else axis for axis in axes) for name, axes in inputs.items()
    }
    return shapes, sizes


def _advice(name: str, axes: Sequence[Axis], sizes: Mapping[str, int]) -> str:
    """Return the advice to give the shape of the input `name`, with an example that has the known extents."""
    hints = [1 if not index and len(axes) > 1 else axis.hint for index, axis in enumerate(axes) if isinstance(axis, Dynamic)]
    example = [sizes.get(axis.key, hints.pop(0)) if isinstance(axis, Dynamic) else axis for axis in axes]
    typed = shlex.quote(f"{name}={','.join(map(str, example))}")
    return f"give its shape, such as --shape {typed} (in Python shapes={{{name!r}: {tuple(example)}}})"

"""Generators of cases of ops that copy elements, such as reshape, slice, gather, pad and resize_nearest_neighbor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from tinyweave.ir import Quant, Tensor

from .draw import Drawn, Rng, activation, constant, integers, scale, text


def _layout_types(rng: Rng) -> Iterator[Callable[[str, tuple[int, ...]], Tensor]]:
    """Yield functions that make tensors of the same type and quantisation, usually int8."""
    for dtype in ("int8", "int8", "int8", "float32"):
        quant = activation("x", (), rng, dtype=dtype).quant
        yield lambda name, shape, dtype=dtype, quant=quant: Tensor(name, shape, dtype, quant)  # type: ignore[misc]


def _pad(rng: Rng) -> Iterator[Drawn]:
    chosen = [((1, 4, 5, 3), ((0, 0), (1, 1), (1, 1), (0, 0))), ((1, 4, 5, 3), ((0, 0), (0, 1), (2, 0), (0, 0)))]
    chosen += [((1, 4, 5, 3), ((0, 0), (0, 0), (0, 0), (1, 2))), ((4, 5), ((1, 0), (0, 2))), ((6,), ((2, 3),))]
    chosen += [
        ((2, 3, 2), ((1, 1), (0, 0), (3, 1))),
        ((1, 4, 5, 3), ((0, 0),) * 4),
        ((1, 2, 3, 2), ((1, 0), (0, 1), (1, 0), (0, 1))),
    ]
    for tensor in _layout_types(rng):
        for shape, paddings in chosen:
            yield f"{text(shape)}", [tensor("input", shape), integers("paddings", *paddings)], tensor("output", ()), {}


def _reshape(rng: Rng) -> Iterator[Drawn]:
    chosen = [((1, 4, 5, 3), (1, 60)), ((1, 4, 5, 3), (1, -1)), ((60,), (3, 4, 5)), ((2, 3), (6,)), ((1, 1), ())]
    for tensor, (shape, wanted), operand in itertools.product(_layout_types(rng), chosen, (True, False)):
        operands: list[Tensor | None] = [tensor("input", shape)]
        if operand:
            operands.append(constant("shape", np.array(wanted, np.int32)))
        attrs = {"new_shape": None if operand else wanted}
        yield f"{text(shape)}-to-{text(wanted)}{'' if operand else '-attr'}", operands, tensor("output", ()), attrs


def _squeeze(rng: Rng) -> Iterator[Drawn]:
    chosen = [
        ((1, 4, 1, 3), ()),
        ((1, 4, 1, 3), (0,)),
        ((1, 4, 1, 3), (2,)),
        ((1, 4, 1, 3), (-2, 0)),
        ((1, 1), (1,)),
        ((5, 2), ()),
    ]
    for tensor, (shape, axes) in itertools.product(_layout_types(rng), chosen):
        yield f"{text(shape)}-{axes}", [tensor("input", shape)], tensor("output", ()), {"axes": axes}


def _expand_dims(rng: Rng) -> Iterator[Drawn]:
    for tensor, axis in itertools.product(_layout_types(rng), (0, 1, 2, 3, -1, -4)):
        yield f"at{axis}", [tensor("input", (4, 5, 3)), constant("axis", np.array(axis, np.int32))], tensor("output", ()), {}


def _concatenation(rng: Rng) -> Iterator[Drawn]:
    chosen = [
        (((1, 4, 5, 3), (1, 4, 5, 2)), 3),
        (((1, 4, 5, 3), (1, 4, 5, 2), (1, 4, 5, 7)), -1),
        (((1, 4, 5, 3), (1, 2, 5, 3)), 1),
    ]
    chosen += [
        (((1, 4, 5, 3), (1, 4, 1, 3)), 2),
        (((4, 5), (3, 5)), 0),
        (((4,), (3,)), 0),
        (((1, 6), (1, 9)), 1),
        (((1, 4, 5, 3),), 3),
    ]
    for tensor, (shapes, axis) in itertools.product(_layout_types(rng), chosen):
        operands: list[Tensor | None] = [tensor(f"input{i}", shape) for i, shape in enumerate(shapes)]
        if len(shapes) == 3:
            operands.append(operands[0])  # the same tensor twice
        yield f"{len(operands)}-at{axis}", operands, tensor("output", ()), {"axis": axis, "activation": "none"}


def _transpose(rng: Rng) -> Iterator[Drawn]:
    chosen: list[tuple[int, ...]] = [
        (0, 3, 1, 2),
        (0, 2, 3, 1),
        (0, 2, 1, 3),
        (3, 2, 1, 0),
        (1, 0),
        (0, 1),
        (2, 0, 1),
        (0,),
        (-1, 0),
    ]
    for tensor, perm in itertools.product(_layout_types(rng), chosen):
        shape = (2, 4, 5, 3)[: len(perm)]
        yield text(perm), [tensor("input", shape), integers("perm", *perm)], tensor("output", ()), {}


SLICES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, int]], ...] = (
    ((0, 0, 0, 0), (1, 4, 5, 3), (1, 1, 1, 1), {}),
    ((0, 1, 2, 0), (1, 3, 5, 2), (1, 1, 1, 1), {}),
    ((0, 0, 0, 0), (1, 4, 5, 3), (1, 2, 3, 1), {}),
    ((0, -3, -2, 0), (1, -1, 5, 3), (1, 1, 1, 1), {}),
    ((0, 3, 4, 2), (1, 0, 0, 0), (1, -1, -2, -1), {}),
    ((0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1), {"end_mask": 15}),
    ((0, 2, 0, 1), (0, 0, 0, 0), (1, 1, 1, 1), {"begin_mask": 4, "end_mask": 15}),
    ((0, 2, 0, 1), (1, 3, 5, 2), (1, 1, 1, 1), {"shrink_axis_mask": 2}),
    ((0, -1, 0, 1), (1, 0, 5, 2), (1, 1, 1, 1), {"shrink_axis_mask": 11}),
    ((0, 2, 3, 1), (1, 3, 5, 2), (1, 2, 1, 1), {"begin_mask": 6, "shrink_axis_mask": 6}),
    ((0, 1, 0, 0), (1, 99, 5, 3), (1, 1, 1, 1), {}),
    ((0, 3, 0, 0), (1, -99, 5, 3), (1, -1, 1, 1), {}),
    ((0, 1), (1, 3), (1, 1), {}),
    ((0, 1), (0, 2), (1, 1), {"ellipsis_mask": 1}),
    ((0, 0, 1), (1, 0, 2), (1, 1, 1), {"ellipsis_mask": 2}),
    ((0, 0, 1), (1, 0, 2), (1, 1, 1), {"new_axis_mask": 2}),
    ((0, 1, 2, 0), (1, 2, 3, 2), (1, 1, 1, 1), {"offset": 1}),
)


def _strided_slice(rng: Rng) -> Iterator[Drawn]:
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for tensor, (begin, end, strides, given) in itertools.product(_layout_types(rng), SLICES):
        attrs = {
            **masks,
            **{name: value for name, value in given.items() if name != "offset"},
            "offset": bool(given.get("offset")),
        }
        operands: list[Tensor | None] = [tensor("input", (1, 4, 5, 3))]
        operands += [integers("begin", *begin), integers("end", *end), integers("strides", *strides)]
        yield f"{begin}-{end}-{strides}-{given}".replace(" ", ""), operands, tensor("output", ()), attrs


def _pack(rng: Rng) -> Iterator[Drawn]:
    for tensor, (count, axis) in itertools.product(_layout_types(rng), ((1, 0), (2, 0), (3, 1), (2, 3), (2, -1))):
        operands: list[Tensor | None] = [tensor(f"input{i}", (4, 5, 3)) for i in range(count)]
        yield f"{count}-at{axis}", operands, tensor("output", ()), {"axis": axis}


def _copied_types(rng: Rng) -> Iterator[Callable[[str, tuple[int, ...]], Tensor]]:
    yield from itertools.islice(_layout_types(rng), 1, None)
    quant = Quant((scale(rng),), (0,))
    yield lambda name, shape: Tensor(name, shape, "int16", quant)


def _scalar(name: str, value: int) -> Tensor:
    return constant(name, np.array(value, np.int32))


def _outputs(tensor: Callable[[str, tuple[int, ...]], Tensor], count: int) -> list[Tensor]:
    return [tensor(f"output{index}", ()) for index in range(count)]


def _split(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 6, 3), 2, 2),
        ((1, 4, 5, 6), 3, 3),
        ((1, 4, 5, 6), 6, -1),
        ((4, 5), 2, 0),
        ((6,), 3, 0),
        ((1, 4, 4, 3), 1, 1),
    )
    for tensor, (shape, count, axis) in itertools.product(_copied_types(rng), chosen):
        yield f"{text(shape)}-at{axis}", [_scalar("axis", axis), tensor("input", shape)], _outputs(tensor, count), {}


def _split_v(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 6, 3), (2, 4), 2),
        ((1, 4, 5, 6), (1, -1, 2), 3),
        ((5, 3), (4, 1), -2),
        ((7,), (-1,), 0),
        ((7, 2), (1, 2, 4), 0),
    )
    for tensor, (shape, sizes, axis) in itertools.product(_copied_types(rng), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("sizes", *sizes), _scalar("axis", axis)]
        yield f"{text(shape)}-{sizes}-at{axis}", operands, _outputs(tensor, len(sizes)), {}


def _unpack(rng: Rng) -> Iterator[Drawn]:
    chosen = (((3, 4, 5), 0), ((4, 3, 5), 1), ((4, 5, 3), -1), ((2, 3, 2, 4), 2), ((5,), 0))
    for tensor, (shape, axis) in itertools.product(_copied_types(rng), chosen):
        yield f"{text(shape)}-at{axis}", [tensor("input", shape)], _outputs(tensor, shape[axis]), {"axis": axis}


def _slice(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 5, 3), (0, 1, 2, 0), (1, 2, 3, 3)),
        ((1, 4, 5, 3), (0, 1, 2, 1), (-1, -1, -1, -1)),
        ((4, 5), (1, 0), (2, 5)),
        ((7,), (3,), (-1,)),
        ((2, 3, 4, 2, 3), (0, 1, 1, 0, 2), (2, 2, 3, 1, 1)),
    )
    for tensor, (shape, begin, size) in itertools.product(_copied_types(rng), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("begin", *begin), integers("size", *size)]
        yield f"{text(shape)}-{begin}-{size}".replace(" ", ""), operands, tensor("output", ()), {}


def _tile(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 5, 3), (1, 2, 3, 1)),
        ((1, 1, 1, 6), (1, 4, 5, 1)),
        ((2, 3), (3, 2)),
        ((4,), (3,)),
        ((1, 2, 3, 2), (2, 2, 2, 2)),
    )
    chosen += (((1, 2, 2, 3, 2), (1, 3, 1, 2, 1)),)
    for tensor, (shape, multiples) in itertools.product(_copied_types(rng), chosen):
        yield (
            f"{text(shape)}-by{text(multiples)}",
            [tensor("input", shape), integers("by", *multiples)],
            tensor("output", ()),
            {},
        )


def _broadcast_to(rng: Rng) -> Iterator[Drawn]:
    chosen = (((1, 1, 1, 3), (1, 4, 5, 3)), ((3,), (2, 4, 3)), ((4, 1), (4, 6)), ((1, 3, 1, 2), (2, 3, 4, 2)), ((2, 3), (2, 3)))
    chosen += (((2, 1, 3, 1, 2), (2, 4, 3, 5, 2)), ((1, 2, 1, 3, 1), (4, 2, 3, 3, 2)))
    for tensor, (shape, wanted) in itertools.product(_copied_types(rng), chosen):
        yield (
            f"{text(shape)}-to{text(wanted)}",
            [tensor("input", shape), integers("shape", *wanted)],
            tensor("output", ()),
            {},
        )


def _mirror_pad(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 5, 3), ((0, 0), (1, 2), (3, 1), (0, 0))),
        ((1, 4, 5, 3), ((0, 0), (0, 0), (0, 2), (2, 1))),
        ((4, 5), ((1, 0), (0, 4))),
        ((6,), ((5, 3),)),
        ((2, 3, 2), ((1, 1), (0, 0), (1, 1))),
        ((1, 3, 3, 2), ((0, 0), (2, 2), (2, 2), (1, 1))),
    )
    for tensor, (shape, paddings), mode in itertools.product(_copied_types(rng), chosen, ("reflect", "symmetric")):
        operands: list[Tensor | None] = [tensor("input", shape), integers("paddings", *paddings)]
        yield f"{text(shape)}-{mode}", operands, tensor("output", ()), {"mode": mode}


RESIZES = (
    ((4, 5), (8, 10)),
    ((7, 3), (5, 11)),
    ((1, 1), (3, 4)),
    ((6, 6), (1, 1)),
    ((9, 8), (4, 3)),
    ((5, 5), (5, 5)),
    ((2, 40), (31, 13)),
)


def resize(rng: Rng, dtypes: Iterator[Callable[[str, tuple[int, ...]], Tensor]]) -> Iterator[Drawn]:
    for tensor, (size, out), (aligned, half) in itertools.product(
        dtypes, RESIZES, ((False, False), (True, False), (False, True))
    ):
        n, c = (2, 3) if size == (7, 3) else (1, 1) if size == (5, 5) else (1, 4)
        about = f"{text(size)}-to{text(out)}{'-aligned' if aligned else ''}{'-half' if half else ''}"
        attrs = {"align_corners": aligned, "half_pixel_centers": half}
        yield about, [tensor("input", (n, *size, c)), integers("size", *out)], tensor("output", ()), attrs


def _padv2(rng: Rng) -> Iterator[Drawn]:
    for about, (x, amounts), out, attrs in _pad(rng):
        assert x is not None and isinstance(out, Tensor)
        value = np.array([0.0 if x.dtype == "float32" else rng.integers(-128, 128)]).astype(x.dtype)
        yield about, [x, amounts, constant("value", value, x.quant)], out, attrs


def _gather(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((2, 3, 4, 5), 0, (0,), 0),
        ((1, 4, 5, 8), 3, (0, 4, 1, 5, 2, 6, 3, 7), 0),
        ((1, 4, 5, 8), -1, (7, 0, 0), 0),
        ((1, 4, 5, 3), 1, (3, 1, 0, 2, 2), 0),
        ((6, 4), 0, ((5, 1), (0, 3)), 0),
        ((6, 4), 1, 2, 0),
        ((9,), 0, (3, 8), 0),
        ((2, 3, 4), 1, ((0, 2, 1, 1), (2, 2, 0, 1)), 1),
        ((2, 3, 4), 2, ((0, 3), (2, 1)), 1),
    )
    for tensor, (shape, axis, indices, batch) in itertools.product(_copied_types(rng), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), constant("indices", np.array(indices, np.int32))]
        yield f"{text(shape)}-at{axis}-b{batch}", operands, tensor("output", ()), {"axis": axis, "batch_dims": batch}


def _gather_nd(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((2, 3, 4, 5), (6, 4)),
        ((2, 3, 4, 5), (1, 3)),
        ((5, 4, 3), (2, 3, 2)),
        ((5, 3), (7, 1)),
        ((9,), (4, 1)),
        ((3, 4), (2,)),
    )
    for tensor, (shape, wanted), fixed in itertools.product(_copied_types(rng), chosen, (False, True)):
        indices = Tensor("indices", wanted, "int32")
        if fixed:
            indices = constant("indices", rng.integers(0, shape[: wanted[-1]], wanted).astype(np.int32))
        operands: list[Tensor | None] = [tensor("input", shape), indices]
        yield f"{text(shape)}-by{text(wanted)}{'-fixed' if fixed else ''}", operands, tensor("output", ()), {}


def _depth_to_space(rng: Rng) -> Iterator[Drawn]:
    for tensor, (shape, block) in itertools.product(
        itertools.islice(_copied_types(rng), 3), (((1, 4, 5, 12), 2), ((2, 3, 1, 9), 3), ((1, 2, 3, 4), 1), ((1, 1, 1, 16), 4))
    ):
        yield f"{text(shape)}-by{block}", [tensor("input", shape)], tensor("output", ()), {"block_size": block}


def _space_to_depth(rng: Rng) -> Iterator[Drawn]:
    for tensor, (shape, block) in itertools.product(
        itertools.islice(_copied_types(rng), 3), (((1, 4, 6, 5), 2), ((2, 3, 9, 1), 3), ((1, 2, 3, 4), 1), ((1, 4, 4, 2), 4))
    ):
        yield f"{text(shape)}-by{block}", [tensor("input", shape)], tensor("output", ()), {"block_size": block}


def _space_to_batch_nd(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((1, 4, 6, 3), (2, 2), ((0, 0), (0, 0))),
        ((1, 5, 7, 2), (2, 3), ((1, 2), (0, 2))),
        ((2, 3, 4, 2), (3, 1), ((0, 0), (1, 1))),
        ((1, 7, 3), (2,), ((1, 0),)),
        ((3, 4, 4, 1), (4, 2), ((2, 2), (0, 0))),
        ((1, 1, 5, 3), (2, 2), ((1, 0), (0, 1))),  # pieces of one row, which is padding
    )
    for tensor, (shape, block, pads) in itertools.product(itertools.islice(_copied_types(rng), 4), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("block", *block), integers("pads", *pads)]
        yield f"{text(shape)}-by{text(block)}", operands, tensor("output", ()), {}


def _batch_to_space_nd(rng: Rng) -> Iterator[Drawn]:
    chosen = (
        ((4, 2, 3, 3), (2, 2), ((0, 0), (0, 0))),
        ((6, 4, 3, 2), (2, 3), ((1, 2), (0, 2))),
        ((6, 3, 4, 2), (3, 1), ((0, 0), (1, 1))),
        ((4, 5, 3), (2,), ((1, 0),)),
        ((24, 2, 2, 1), (4, 2), ((2, 3), (0, 0))),
    )
    for tensor, (shape, block, crops) in itertools.product(itertools.islice(_copied_types(rng), 4), chosen):
        operands: list[Tensor | None] = [tensor("input", shape), integers("block", *block), integers("crops", *crops)]
        yield f"{text(shape)}-by{text(block)}", operands, tensor("output", ()), {}


def _shape(rng: Rng) -> Iterator[Drawn]:
    for shape, dtype in itertools.product(((1, 4, 5, 3), (7,), (2, 3)), ("int32", "int64")):
        yield f"{text(shape)}-{dtype}", [activation("input", shape, rng)], Tensor("output", (), dtype), {}


GENERATORS: dict[str, Callable[[Rng], Iterator[Drawn]]] = {
    "batch_to_space_nd": _batch_to_space_nd,
    "broadcast_to": _broadcast_to,
    "concatenation": _concatenation,
    "depth_to_space": _depth_to_space,
    "expand_dims": _expand_dims,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "mirror_pad": _mirror_pad,
    "pack": _pack,
    "pad": _pad,
    "padv2": _padv2,
    "reshape": _reshape,
    "resize_nearest_neighbor": lambda rng: resize(rng, _copied_types(rng)),
    "shape": _shape,
    "slice": _slice,
    "space_to_batch_nd": _space_to_batch_nd,
    "space_to_depth": _space_to_depth,
    "split": _split,
    "split_v": _split_v,
    "squeeze": _squeeze,
    "strided_slice": _strided_slice,
    "tile": _tile,
    "transpose": _transpose,
    "unpack": _unpack,
}

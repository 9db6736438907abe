"""Import the ops of Core ATen that `run_decompositions()` writes in place of the ops of `torch.export`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..channels_last import Builder, Map, Unavailable
from ..unsupported import Unsupported
from . import axes, norms, spatial, spectrum
from .elementwise import OF_BATCH

TRANSFORM_NORMS = ("backward", "ortho", "forward")
UNREAD = Unavailable("only its first output is supported, not the statistics of a norm or the positions of maxima")


def convolution(b: Builder, x: Map, weight: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Map:
    """Import aten.convolution; `rest` is (dilation, transposed, output_padding, groups)."""
    dilation, transposed, output_padding, groups = rest
    if transposed:
        return spatial.transposed_convolution(b, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return spatial.convolution(b, x, weight, bias, stride, padding, dilation, groups)


def _norm_of_batch(b: Builder, x: Map, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Map:
    """Import aten._native_batch_norm_legit.no_stats, the norm of each channel by its own mean and variance."""
    if x.shape[0] > 1:
        raise Unsupported(OF_BATCH)
    return norms.group_norm(b, x, x.shape[1], weight, bias, eps)


def _with_statistics(function: Callable[..., Map]) -> Callable[..., list[Any]]:
    """Return an importer function whose op has two more outputs."""
    return lambda *args, **kwargs: [function(*args, **kwargs), UNREAD, UNREAD]


def _real_transform(b: Builder, x: Map, dims: Sequence[int], norm: int, is_half: bool) -> Any:
    """Import aten._fft_r2c of one axis; `norm` is the position in TRANSFORM_NORMS."""
    if len(dims) > 1 or not is_half:
        raise Unsupported("it transforms several axes, or computes both halves of the spectrum")
    return spectrum.real_transform(b, x, None, dims[0], TRANSFORM_NORMS[norm])


CORE: dict[str, Callable[..., Any]] = {
    "_adaptive_avg_pool2d": spatial.adaptive_average_pool,
    "_fft_r2c": _real_transform,
    "_log_softmax": lambda b, x, dim, _: axes.softmax(b, x, dim, kind="log_softmax"),
    "_native_batch_norm_legit": _with_statistics(_norm_of_batch),
    "_native_batch_norm_legit_no_training": _with_statistics(
        lambda b, x, weight, bias, mean, var, *rest: norms.instance_norm(b, x, weight, bias, mean, var, False, *rest)
    ),
    "_softmax": lambda b, x, dim, _: axes.softmax(b, x, dim),
    "_to_copy": axes.to,
    "convolution": convolution,
    "max_pool2d_with_indices": _with_statistics(spatial.max_pool),
    "native_group_norm": _with_statistics(
        lambda b, x, weight, bias, batch, channels, pixels, *rest: norms.group_norm(b, x, rest[0], weight, bias, rest[1])
    ),
    "native_layer_norm": _with_statistics(norms.layer_norm),
}

"""Ops of PyTorch and ONNX that are refused on purpose, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

AFTER = "sort the output outside the network"
SPECTRUM = "compute the spectrum outside the network, and make its magnitudes the input"
TWO_AXES = "at most two spatial axes are supported; make the third one part of the channels"
OPEN_SIZE = "the size of its output depends on the data; mask elements with where instead"
WRITTEN = "select with where and a constant mask, or join slices with cat"
SAMPLED = "resize to a fixed size, or sample outside the network"
NOT_FINITE = "int8 has neither NaN nor infinity; leave it out"
BRANCHES = "compute both branches and select with where, or unroll the loop"
RANDOM = "remove it for inference, or make the random numbers an input"
POSITIONS = "positions of maxima are not kept; resize with interpolate instead"

# the name of an op, as messages have it -> what to do
ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("argsort", "kthvalue", "median", "msort", "sort"), AFTER),
    **dict.fromkeys(("fft_fft", "fft_irfft", "fft_rfft", "istft", "stft", "DFT", "STFT", "MelWeightMatrix"), SPECTRUM),
    **dict.fromkeys(("adaptive_avg_pool3d", "avg_pool3d", "conv3d", "conv_transpose3d", "max_pool3d"), TWO_AXES),
    **dict.fromkeys(("upsample_nearest3d", "upsample_trilinear3d"), TWO_AXES),
    **dict.fromkeys(("bincount", "masked_select", "nonzero", "unique", "Compress", "NonMaxSuppression"), OPEN_SIZE),
    **dict.fromkeys(("NonZero", "Unique"), OPEN_SIZE),
    **dict.fromkeys(("gather", "index_put", "scatter", "scatter_add", "take_along_dim"), WRITTEN),
    **dict.fromkeys(("GatherElements", "GatherND", "ScatterElements", "ScatterND"), WRITTEN),
    **dict.fromkeys(("affine_grid", "grid_sampler", "AffineGrid", "GridSample", "MaxRoiAlign", "RoiAlign"), SAMPLED),
    **dict.fromkeys(("isfinite", "isinf", "isnan", "nan_to_num", "IsInf", "IsNaN"), NOT_FINITE),
    **dict.fromkeys(("If", "Loop", "Scan", "cond", "while_loop"), BRANCHES),
    **dict.fromkeys(("bernoulli", "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), RANDOM),
    **dict.fromkeys(("max_pool1d_with_indices", "max_pool2d_with_indices", "max_unpool2d", "MaxUnpool"), POSITIONS),
    "col2im": "use a transposed convolution",
    "Col2Im": "use a transposed convolution",
    "rrelu": "use leaky_relu with the mean of its slopes, which is the same in evaluation mode",
}

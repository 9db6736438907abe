"""Ops of PyTorch and ONNX that are refused on purpose, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

# what to write instead -> names of the ops, as messages have them
INSTEAD: Mapping[str, tuple[str, ...]] = {
    advice: tuple(names.split())
    for advice, names in {
        "sort the output outside the network": "argsort kthvalue median msort sort",
        "compute the spectrum outside the network, and make its magnitudes the input": (
            "fft_fft fft_irfft istft stft DFT MelWeightMatrix STFT"
        ),
        "at most two spatial axes are supported; make the third one part of the channels": (
            "adaptive_avg_pool3d avg_pool3d conv3d conv_transpose3d max_pool3d upsample_nearest3d upsample_trilinear3d"
        ),
        "the size of its output depends on the data; mask elements with where instead": (
            "bincount masked_select nonzero unique Compress NonMaxSuppression NonZero Unique"
        ),
        "select with where and a constant mask, or join slices with cat": (
            "gather index_put scatter scatter_add take_along_dim GatherElements GatherND ScatterElements ScatterND"
        ),
        "resize to a fixed size, or sample outside the network": (
            "affine_grid grid_sampler AffineGrid GridSample MaxRoiAlign RoiAlign"
        ),
        "int8 has neither NaN nor infinity; leave it out": "isfinite isinf isnan nan_to_num IsInf IsNaN",
        "compute both branches and select with where, or unroll the loop": "cond while_loop If Loop Scan",
        "remove it for inference, or make the random numbers an input": (
            "bernoulli Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
        ),
        "positions of maxima are not kept; resize with interpolate instead": (
            "max_pool1d_with_indices max_pool2d_with_indices max_unpool2d MaxUnpool"
        ),
        "use a transposed convolution": "col2im Col2Im",
        "use leaky_relu with the mean of its slopes, which is the same in evaluation mode": "rrelu",
    }.items()
}
ADVICE = {name: advice for advice, names in INSTEAD.items() for name in names}

"""Ops of .tflite files, PyTorch and ONNX that are refused on purpose: the reason, and what to do instead."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

FRONT_ENDS = (".tflite", "PyTorch", "ONNX")


class Refusal(NamedTuple):
    """Ops refused for the reason `why`, with the advice `instead`; names per front end, with commas, .tflite's maybe with *."""

    why: str
    instead: str
    tflite: str = ""
    torch: str = ""
    onnx: str = ""

    def names(self) -> dict[str, list[str]]:
        """Return the names of the ops in each of FRONT_ENDS."""
        return {end: [name for name in names.split(", ") if name] for end, names in zip(FRONT_ENDS, self[2:], strict=True)}


REFUSALS = (
    Refusal(
        "sorting is left to the program around the network",
        "select elements with topk (TOPK_V2) and a constant k, or sort the output outside the network",
        torch="argsort, kthvalue, median, msort, sort",
    ),
    Refusal(
        "a spectrum has too wide a range for int8",
        "compute the spectrum outside the network, and make its magnitudes the input",
        "COMPLEX_ABS, IMAG, REAL, RFFT2D",
        "fft_fft, fft_irfft, istft, stft",
        "DFT, MelWeightMatrix, STFT",
    ),
    Refusal(
        "at most two spatial axes are supported",
        "make the third one part of the channels",
        "CONV_3D, CONV_3D_TRANSPOSE",
        "adaptive_avg_pool3d, conv3d, conv_transpose3d, max_pool3d, upsample_nearest3d, upsample_trilinear3d",
    ),
    Refusal(
        "the size of its output depends on the data",
        "mask elements with where (SELECT_V2) instead, or end the network before it",
        "NON_MAX_SUPPRESSION_*, UNIQUE, WHERE",
        "bincount, masked_select, nonzero, unique",
        "Compress, NonMaxSuppression, NonZero, Unique",
    ),
    Refusal(
        "only constant places are read and written",
        "select with where (SELECT_V2) and a constant mask, or join slices with cat (CONCATENATION)",
        "DYNAMIC_UPDATE_SLICE, MATRIX_SET_DIAG, SCATTER_ND, SEGMENT_SUM, SPARSE_TO_DENSE, UNSORTED_SEGMENT_*",
        "gather, scatter, scatter_add, take_along_dim",
    ),
    Refusal(
        "maps are not sampled at computed coordinates",
        "resize to a fixed size, or sample outside the network",
        torch="affine_grid, grid_sampler",
        onnx="AffineGrid, GridSample, MaxRoiAlign, RoiAlign",
    ),
    Refusal(
        "int8 has neither NaN nor infinity", "leave it out", torch="isfinite, isinf, isnan, nan_to_num", onnx="IsInf, IsNaN"
    ),
    Refusal(
        "the order of the ops is fixed before the network runs",
        "compute both branches and select with where (SELECT_V2), or unroll the loop",
        "IF, STABLEHLO_WHILE, WHILE",
        "cond, while_loop",
        "Loop, Scan",
    ),
    Refusal(
        "the C must give the same bytes for the same input",
        "remove it for inference, or make the random numbers an input",
        "MULTINOMIAL, RANDOM_*",
        "bernoulli",
        "Bernoulli, Multinomial, RandomNormal, RandomNormalLike, RandomUniform, RandomUniformLike",
    ),
    Refusal(
        "positions of maxima are not kept",
        "resize with interpolate instead",
        torch="max_pool1d_with_indices, max_unpool2d",
        onnx="MaxUnpool",
    ),
    Refusal("blocks are not added where they overlap", "use a transposed convolution", onnx="Col2Im"),
    Refusal(
        "its slopes are random in training",
        "use leaky_relu with the mean of its slopes, which is the same in evaluation mode",
        torch="rrelu",
    ),
    Refusal(
        "it computes scales at run time",
        "quantise the model statically, or give the float model",
        onnx="ConvInteger, DynamicQuantizeLinear, MatMulInteger, com.microsoft.DynamicQuantizeMatMul",
    ),
    Refusal(
        "ONNX Runtime has stored its channels in blocks for this computer's processor",
        "save the model with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL, or give the original file",
        onnx=", ".join(f"com.microsoft.nchwc.{op}" for op in ("AveragePool", "Conv", "MaxPool", "ReorderInput", "Upsample")),
    ),
    Refusal("it simulates int8 in float32", "convert the trained model to int8 when you export it", "FAKE_QUANT"),
    Refusal(
        "LiteRT has no int8 kernel of it",
        "write it with other ops, or import the float model from PyTorch or ONNX",
        "ADD_N, ATAN2, L2_POOL_2D, LOCAL_RESPONSE_NORMALIZATION, POW",
    ),
    Refusal(
        "of TFLite's recurrent ops only UNIDIRECTIONAL_SEQUENCE_LSTM is supported",
        "export one LSTM per direction, or import the float model from PyTorch or ONNX",
        "BIDIRECTIONAL_SEQUENCE_*, LSTM, RNN, UNIDIRECTIONAL_SEQUENCE_RNN",
    ),
    Refusal(
        "tables of strings and hashes are not supported",
        "look words up outside the network, and make their indices the input",
        "EMBEDDING_LOOKUP_SPARSE, HASHTABLE*, LSH_PROJECTION, SKIP_GRAM",
    ),
    Refusal(
        "only TFLite's own ops are supported, not those of StableHLO", "convert the model without StableHLO ops", "STABLEHLO_*"
    ),
    Refusal(
        "the file was compiled for an accelerator",
        "give the original file, before Vela or a delegate compiled it",
        "custom ethos-u, DELEGATE",
    ),
    Refusal(
        "the file does not say what a custom op computes",
        "write it with TFLite's ops, or end the network before it",
        "custom *",
    ),
)


BY_NAME = {(end, name): each for each in REFUSALS for end, names in each.names().items() for name in names}


def refusal_of(front_end: str, name: str) -> Refusal | None:
    """Return the first entry of REFUSALS that has the op, or None; `front_end` is one of FRONT_ENDS."""
    if front_end != ".tflite":
        return BY_NAME.get((front_end, name))
    return next((each for (end, known), each in BY_NAME.items() if end == front_end and fnmatchcase(name, known)), None)

"""Other quantisers of the same float network with the same calibration images: `RIVALS`, a row each.

In: a PyTorch module, images [count, 3, h, w] that calibrate, images to answer. Out: the scores [count, classes] of the int8
network. All are static: int8 weights per channel, int8 activations, their makers' defaults otherwise. README.md says how to
install them; one that is not there raises ImportError.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.torch import from_module

Scores = Callable[[nn.Module, torch.Tensor, torch.Tensor], np.ndarray]


def onnx_runtime(module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor) -> np.ndarray:
    """ONNX Runtime's quantize_static: QDQ, per channel, MinMax."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.images = iter(calibrating.numpy())

        def get_next(self) -> dict[str, np.ndarray] | None:
            image = next(self.images, None)
            return None if image is None else {"x": image[None]}

    with tempfile.TemporaryDirectory() as folder:
        real, simple, small = (str(Path(folder) / f"{name}.onnx") for name in ("real", "simple", "small"))
        torch.onnx.export(
            module, (asked[:1].contiguous(),), real, input_names=["x"], output_names=["y"], dynamo=True, verbose=False
        )
        quant_pre_process(real, simple)
        quantize_static(simple, small, Reader(), quant_format=QuantFormat.QDQ, per_channel=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(small, options, providers=["CPUExecutionProvider"])
        return np.concatenate([session.run(None, {"x": image[None]})[0] for image in asked.numpy()])


def ai_edge_quantizer(module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor) -> np.ndarray:
    """LiteRT's quantiser on the float .tflite file that we write, run by LiteRT."""
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    graph = from_module(module, asked[:1])
    maker = quantizer.Quantizer(to_tflite(graph, signature=True), recipe.static_wi8_ai8())
    images = calibrating.permute(0, 2, 3, 1).numpy()
    real = Interpreter(model_content=to_tflite(graph, signature=True))
    ((key, entry),) = real.get_signature_list().items()
    (name,) = entry["inputs"]
    found = maker.calibrate({key: [{name: image[None]} for image in images]}, num_threads=1)
    made = Interpreter(model_content=bytes(maker.quantize(found, enable_progress_report=False).quantized_model), num_threads=1)
    run, results = made.get_signature_runner(key), []
    detail, out = next(iter(run.get_input_details().values())), next(iter(run.get_output_details().values()))
    (scale,), (zero,) = (detail["quantization_parameters"][key] for key in ("scales", "zero_points"))
    (out_scale,), (out_zero,) = (out["quantization_parameters"][key] for key in ("scales", "zero_points"))
    for image in asked.permute(0, 2, 3, 1).numpy():
        given = np.clip(np.round(image[None] / scale) + zero, -128, 127).astype(np.int8)
        results.append((next(iter(run(**{name: given}).values())).astype(np.float32) - out_zero) * out_scale)
    return np.concatenate(results)


def torchao(module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor, *, quantizer: Callable[[], Any]) -> np.ndarray:
    """torchao's pt2e with one of its quantisers, run by torch."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    batch = torch.export.Dim("batch", min=2, max=512)
    program = torch.export.export(module, (calibrating[:2],), dynamic_shapes=({0: batch},))
    prepared = prepare_pt2e(program.module(), quantizer())
    with torch.no_grad():
        for part in calibrating.split(50):
            prepared(part)
        made = convert_pt2e(prepared)
        return np.concatenate([made(part).numpy() for part in asked.split(256)])


def x86() -> Any:
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())


def xnnpack() -> Any:
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


@contextlib.contextmanager
def quiet() -> Any:
    """Keep what the rivals tell to themselves."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _quietly(scores: Scores) -> Scores:
    def run(module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor) -> np.ndarray:
        with quiet():
            return scores(module, calibrating, asked)

    return run


RIVALS: dict[str, Scores] = {
    "ONNX Runtime": _quietly(onnx_runtime),
    "ai-edge-quantizer": _quietly(ai_edge_quantizer),
    "torchao, X86": _quietly(lambda *given: torchao(*given, quantizer=x86)),
    "torchao, XNNPACK": _quietly(lambda *given: torchao(*given, quantizer=xnnpack)),
}

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
from functools import partial
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


def ai_edge_quantizer(
    module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor, *, extremes: bool = False
) -> np.ndarray:
    """LiteRT's quantiser on the float .tflite file that we write, run by LiteRT.

    Its ranges are a moving average of each image's own, which clips what single images exceed; extremes: of all images instead.
    """
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import calibrator, quantizer, recipe, recipe_manager
    from ai_edge_quantizer.utils.qsv_utils import min_max_update

    content = to_tflite(from_module(module, asked[:1]), signature=True)
    ((key, entry),) = Interpreter(model_content=content).get_signature_list().items()
    (name,), images = entry["inputs"], calibrating.permute(0, 2, 3, 1).numpy()
    chosen = recipe_manager.RecipeManager()
    chosen.load_quantization_recipe(recipe.static_wi8_ai8())
    found = calibrator.Calibrator(content, num_threads=1, **({"qsv_update_func": min_max_update} if extremes else {}))
    found.calibrate({key: [{name: image[None]} for image in images]}, chosen)
    maker = quantizer.Quantizer(content, recipe.static_wi8_ai8())
    return _by_litert(bytes(maker.quantize(found.get_model_qsvs(), enable_progress_report=False).quantized_model), asked)


def litert_torch(module: nn.Module, calibrating: torch.Tensor, asked: torch.Tensor) -> np.ndarray:
    """litert-torch's conversion with its pt2e quantiser, symmetric and per channel, run by LiteRT."""
    import litert_torch as converter
    from litert_torch.quantize.pt2e_quantizer import PT2EQuantizer, get_symmetric_quantization_config
    from litert_torch.quantize.quant_config import QuantConfig
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    example = (calibrating[:1].contiguous(),)
    quantizer = PT2EQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=False))
    prepared = prepare_pt2e(torch.export.export(module, example).module(), quantizer)
    with torch.no_grad():
        for image in calibrating:
            prepared(image[None].contiguous())
    made = convert_pt2e(prepared, fold_quantize=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.tflite"
        converter.convert(made, example, quant_config=QuantConfig(pt2e_quantizer=quantizer)).export(str(path))
        return _by_litert(path.read_bytes(), asked, first=True)


def _by_litert(content: bytes, asked: torch.Tensor, first: bool = False) -> np.ndarray:
    """Return the real scores of a .tflite file by LiteRT; first: its input has its channels first."""
    from ai_edge_litert.interpreter import Interpreter

    made = Interpreter(model_content=content, num_threads=1)
    made.allocate_tensors()
    (entry,), (out,), results = made.get_input_details(), made.get_output_details(), []
    for image in asked.numpy() if first else asked.permute(0, 2, 3, 1).numpy():
        made.set_tensor(entry["index"], _steps(entry, image[None]))
        made.invoke()
        results.append(_values(out, made.get_tensor(out["index"])))
    return np.concatenate(results)


def _steps(detail: dict[str, Any], values: np.ndarray) -> np.ndarray:
    scale, zero = detail["quantization"]
    return np.clip(np.round(values / scale) + zero, -128, 127).astype(np.int8) if scale else values


def _values(detail: dict[str, Any], values: np.ndarray) -> np.ndarray:
    scale, zero = detail["quantization"]
    return np.asarray((values.astype(np.float32) - zero) * scale if scale else values)


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
    "ai-edge-quantizer, extremes": _quietly(partial(ai_edge_quantizer, extremes=True)),
    "litert-torch": _quietly(litert_torch),
    "torchao, X86": _quietly(lambda *given: torchao(*given, quantizer=x86)),
    "torchao, XNNPACK": _quietly(lambda *given: torchao(*given, quantizer=xnnpack)),
}

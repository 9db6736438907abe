"""PyTorch modules that cannot be imported are refused in one line that names the ops and their modules."""

from __future__ import annotations

import inspect
import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_torch import Of  # noqa: E402
from torch import nn  # noqa: E402

from tinyweave.importers.pt2 import from_pt2  # noqa: E402
from tinyweave.importers.torch import from_module, from_program  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402


def refusal(module: nn.Module, example: Any) -> str:
    with pytest.raises(CompileError) as error:
        from_module(module.eval(), example)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_one_error_names_all_unsupported_ops() -> None:
    parts = [nn.RReLU(), nn.Conv2d(3, 3, 1), nn.RReLU(), nn.LocalResponseNorm(2), nn.AdaptiveAvgPool2d(2)]
    text = refusal(nn.Sequential(*parts), torch.randn(1, 3, 9, 9))
    assert text.startswith("1 op of the PyTorch model") and "rrelu (in 0)" in text  # ops that depend on it are not examined
    both = Of(lambda m, x: m.a(x) + m.b(x) + torch.fft.fft(x).real, a=nn.RReLU(), b=nn.RReLU())
    text = refusal(both, torch.randn(1, 3, 9, 9))
    assert "3 ops of the PyTorch model cannot be imported: rrelu (2 times, first in a)" in text and "fft_fft (in" in text


class Sorted(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.relu().sort(1)[0].tanh().abs()


def test_an_error_names_the_line_what_to_do_and_how_many_ops_are_imported() -> None:
    module = Sorted()
    text = refusal(module, torch.randn(1, 4))
    line = inspect.getsourcelines(Sorted.forward)[1] + 1
    assert text == (
        "1 op of the PyTorch model cannot be imported: sort (in sort): tinyweave does not import it: sorting is left to the "
        "program around the network; select elements with topk (TOPK_V2) and a constant k, or sort the output outside the "
        f"network (line {line} of test_torch_refusals.py); "
        "1 of 4 ops can be imported, and 2 more read the outputs of these"
    )
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, (torch.randn(1, 4),)), file)
    with pytest.raises(CompileError) as error:
        from_pt2(file.getvalue(), "net")
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("module", "shape", "words"),
    [
        (Of(lambda m, x: torch.fft.rfft(x) * torch.fft.rfft(x)), (1, 8), "mul (in mul): its arguments have an unsupported"),
        (Of(lambda m, x: torch.fft.irfft(torch.fft.rfft(x))), (1, 8), "compute the spectrum outside the network"),
        (Of(lambda m, x: x.double().relu().float()), (1, 4), "to (in to): it converts to another dtype"),
        (Of(lambda m, x: x.to(torch.int32) + x), (1, 4), "it converts to another dtype"),
        (Of(lambda m, x: (x > 0) + x), (1, 4), "add (in add): it computes on bools; select by them with where"),
        (Of(lambda m, x: x + x.argmax(1)), (1, 4), "add (in add): it computes on integers, which only an embedding can read"),
        (Of(lambda m, x: x.norm(3)), (1, 4), "its order 3 is not supported; use 1, 2 or infinity"),
        (Of(lambda m, x: torch.std(x, 0)), (1, 4), "its variance of 1 elements divides by 0"),
        (Of(lambda m, x: x ** torch.arange(4.0)), (1, 4), "it has several exponents"),
        (Of(lambda m, x: (-2.0) ** x), (1, 4), "its base is not positive"),
        (nn.GRU(8, 4), (3, 300, 8), "its batch is 300; at most 256 samples are supported"),
        (nn.Conv2d(3, 4, 1), (3, 8, 8), "its map has 3 axes but its filters have 4; it must be [n, c, h, w]"),
        (nn.Conv2d(3, 4, 1).half(), (1, 3, 8, 8), "float16"),
        (
            Of(lambda m, x: m.lstm(x, (x[:, :1, :2], x[:, :1, :4]))[0], lstm=nn.LSTM(8, 4, proj_size=2, batch_first=True)),
            (1, 3, 8),
            "it has a projection and an initial state; start from the state 0",
        ),
        (Of(lambda m, x: m.lstm(x)[1][1], lstm=nn.LSTM(8, 4, batch_first=True)), (1, 3, 8), "cell state"),
        (Of(lambda m, x: x + torch.rand(4)), (1, 4), "rand makes random numbers"),
        (
            Of(lambda m, x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))),
            (1, 4),
            "fixed before the network runs; compute",
        ),
        (Of(lambda m, x: (x.relu(), None)), (1, 4), "an output of the program is None, not a tensor"),
        (Of(lambda m, x: (x.relu(), 3)), (1, 4), "an output of the program is 3, not a tensor"),
        (Of(lambda m, x: (x.relu(), torch.ones(3))), (1, 4), "output (in ones): it is a constant or not a tensor"),
        (nn.Conv2d(1, 8, 3, padding=1), (1, 4, 4), "its map has 3 axes but its filters have 4"),
        (nn.ConvTranspose2d(1, 8, 2, 2), (1, 4, 4), "its map has 3 axes but its filters have 4"),
        (
            Of(lambda m, x: x[:, [0, 1], [1, 0]]),
            (1, 3, 8, 8),
            "it has several index tensors that are no grid; index one axis after the other",
        ),
        (
            Of(lambda m, x: nn.functional.fold(nn.functional.unfold(x, 3), 8, 3)),
            (1, 3, 8, 8),
            "its blocks overlap, or leave out pixels",
        ),
        (
            Of(lambda m, x: nn.functional.fold(nn.functional.unfold(x, 3, stride=3), 8, 3, stride=3)),
            (1, 3, 8, 8),
            "its blocks overlap, or leave out pixels",
        ),
        (
            Of(lambda m, x: x.index_put([x[:, 0] < 0], x[:, 0])),
            (1, 3, 8, 8),
            "it writes to places that are not given by one mask",
        ),
    ],
)
def test_ops_that_tflite_cannot_compute_exactly_are_refused(module: nn.Module, shape: tuple[int, ...], words: str) -> None:
    example = torch.randn(shape)
    assert words in refusal(module, example.half() if words == "float16" else example)


def test_a_batch_norm_without_running_statistics_is_refused() -> None:
    text = refusal(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False)), torch.randn(1, 3, 8, 8))
    assert "batch_norm (in 1)" in text


def test_dynamic_shapes_are_refused() -> None:
    from torch.export import Dim, export

    program = export(nn.Conv2d(3, 4, 1).eval(), (torch.randn(1, 3, 8, 8),), dynamic_shapes=({2: Dim("rows", min=4, max=32)},))
    with pytest.raises(
        CompileError, match=r"'input': has an axis 2 of dynamic size; give its shape, such as --shape input=1,3,8,8 "
    ):
        from_program(program)


def test_parameters_with_nan_are_refused() -> None:
    module = nn.Linear(3, 2)
    module.weight.data[0, 0] = float("nan")
    assert "'weight': holds values that are not finite" in refusal(module, torch.randn(1, 3))


def test_a_sparse_parameter_is_refused() -> None:
    module = Of(lambda m, x: torch.sparse.mm(m.matrix, x), matrix=nn.Parameter(torch.eye(4).to_sparse()))
    assert "torch.export.save cannot write the module: " in refusal(module, torch.randn(4, 4))


def test_arguments_of_a_wrong_type_are_refused() -> None:
    with pytest.raises(CompileError, match=r"a function is not a PyTorch module"):
        from_module(lambda x: x, torch.randn(1, 3))
    with pytest.raises(CompileError, match=r"a Linear is not an ExportedProgram; give an example input beside it"):
        from_program(nn.Linear(3, 2))
    with pytest.raises(CompileError, match=r"an example input is a list"):
        from_module(nn.ReLU(), [1.0])

"""Norms, statistics, products and indices of PyTorch become several ops each that compute what torch does."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_torch import Of, distances, in_core_aten, of, trained  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tinyweave import ops  # noqa: E402
from tinyweave.importers.torch import from_module, from_program  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402

MASK = torch.ones(4, 4, dtype=torch.bool).tril()
CLOSE = 1e-5  # of the output's range
MATRICES = nn.Parameter(torch.linspace(-1, 1, 60).sin().reshape(3, 4, 5))


def stepped(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Write to every second row and column of a copy."""
    y = x.clone()
    y[:, :, 1::2] += 1
    y[..., ::3] = x[:, :, :, 1:3]
    return y


def written(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Write to views of constants, of which copies are also read; torch keeps the numbers as constants without axes."""
    offset = torch.arange(8.0).reshape(2, 4).clone()
    before, mask = offset.clone(), torch.ones(8, dtype=torch.bool)
    offset[1:, 2] = -2.0
    mask[-4:] = False
    for number, view in enumerate(
        (offset[0], offset.t()[3], offset.unsqueeze(0)[0, :, 1], offset.chunk(2, 1)[1], offset.flatten()[4:6])
    ):
        view += number + 1
    offset.unbind(1)[0].mul_(3)
    return x.masked_fill(~mask, 0.0) + (offset - before).reshape(8)


def expanded(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Write to a map that is read as an expanded one."""
    y = x * 2
    both = y.expand(2, 5, 4)
    y.neg_()
    return both.reshape(1, 10, 4)


def filled(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Fill a map with a number, of which another view is read, and computed with."""
    y = x * 2
    flat = y.view(1, 20)
    y.fill_(0.5)
    return x + flat.view(1, 4, 5).transpose(1, 2).exp()


def framed(x: torch.Tensor) -> torch.Tensor:
    """Write zeros to the first and the last sample; torch writes this without in-place ops, and its norm as another op."""
    y = x.clone()
    y[..., 0] = y[..., -1] = 0
    return y


CASES = {
    "group-norm": (nn.Sequential(nn.Conv2d(3, 6, 1), nn.GroupNorm(2, 6)), (1, 3, 5, 4)),
    "group-norm-one": (nn.GroupNorm(1, 6, affine=False), (1, 6, 5, 4)),
    "group-norm-each": (nn.GroupNorm(6, 6, eps=0.1), (1, 6, 9)),
    "group-norm-list": (nn.GroupNorm(3, 12), (1, 12)),
    "instance-norm": (nn.InstanceNorm2d(3, affine=True), (1, 3, 9, 7)),
    "instance-norm-1d": (nn.InstanceNorm1d(3), (1, 3, 9)),
    "instance-norm-running": (nn.InstanceNorm2d(3, track_running_stats=True), (1, 3, 9, 7)),
    "var": of(lambda m, x: x.var((2, 3)) - x.var(1, keepdim=True).mean((2, 3)), 1, 3, 9, 7),
    "var-biased": of(lambda m, x: x.var(2, unbiased=False), 1, 5, 7),
    "std": of(lambda m, x: x.std((2, 3), keepdim=True) * x, 1, 3, 9, 7),
    "std-all": of(lambda m, x: x * x.std(), 1, 5, 7),
    "norm": of(lambda m, x: torch.cat((x.norm(dim=2), x.norm(1, 2), torch.linalg.vector_norm(x, torch.inf, 2)), 1), 1, 5, 7),
    "norm-of-channels": of(lambda m, x: x.norm(dim=1, keepdim=True) - x, 1, 3, 5, 4),
    "cosine-similarity": of(lambda m, x: functional.cosine_similarity(x, m.linear(x), 2), 1, 5, 7, linear=nn.Linear(7, 7)),
    "like-sum": of(lambda m, x: x / torch.ones_like(x).cumsum(1).sum(2, keepdim=True), 1, 3, 5, 4),
    "fill": of(lambda m, x: torch.fill(x, 0.3) + x, 1, 3, 5, 4),
    "mask-written": of(lambda m, x: torch.index_put(x, [x < 0], torch.tensor(0.3)), 1, 3, 5, 4),
    "mask-written-by-a-map": of(lambda m, x: torch.index_put(x, [x < 0], x[0, 0, 0, :1]), 1, 3, 5, 4),
    "fold": of(
        lambda m, x: functional.fold(2 * functional.unfold(x, (2, 3), stride=(2, 3)), (4, 9), (2, 3), stride=(2, 3)), 1, 2, 4, 9
    ),
    "reshape-as": of(lambda m, x: m.linear(x.flatten(1)).reshape_as(x).view_as(x), 1, 2, 4, 9, linear=nn.Linear(72, 72)),
    "windows-apart": of(lambda m, x: x.unfold(-1, 5, 5).mean(2), 1, 3, 16),
    "product": of(lambda m, x: x.prod(1), 1, 5, 4, 3),
    "product-of-all": of(lambda m, x: x.prod() * x, 1, 7),
    "like": of(lambda m, x: torch.cat([x, torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 0.3)], 1), 1, 2, 3, 4),
    "slice-scatter": of(lambda m, x: torch.slice_scatter(x, x[:, :, 1:3] * 2, 2, 2, 4), 1, 2, 5, 4),
    "steps-written": of(stepped, 1, 3, 6, 4),
    "constant-written": of(written, 1, 8),
    "written-after-a-norm": of(lambda m, x: framed(m.norm(x)), 1, 4, 8, norm=nn.BatchNorm1d(4)),
    "expanded-then-written": of(expanded, 1, 5, 4),
    "filled-as-a-whole": of(filled, 1, 5, 4),
    "grid-of-indices": of(lambda m, x: x[:, :, torch.tensor([[2], [0]]), torch.tensor([0, 3, 1])], 1, 3, 5, 4),
    "select-scatter": of(lambda m, x: torch.select_scatter(x, x[:, 0] * 2, 1, -1), 1, 3, 5, 4),
    "mm-left": of(lambda m, x: torch.mm(torch.ones(3, 7).tril(), x[0]), 1, 7, 5),
    "mv": of(lambda m, x: torch.mv(torch.ones(3, 4).tril(), x[0]), 1, 4),
    "mask-times-a-map": of(lambda m, x: (functional.max_pool2d(x, 3, 1, 1) == x) * x, 1, 3, 5, 4),
    "map-times-a-mask": of(lambda m, x: x.mean((2, 3), keepdim=True) * (x > 0), 1, 3, 5, 4),
    "mask-times-a-mask": of(lambda m, x: torch.where((x > 0) * (x < 1), x, -x), 1, 3, 5, 4),
    "logsumexp": of(lambda m, x: torch.logsumexp(x, 1) + x.logsumexp(1, keepdim=True)[:, 0], 1, 3, 5, 4),
    **{
        f"{mode}-by-a-factor": of(lambda m, x, mode=mode: functional.interpolate(x, scale_factor=1.3, mode=mode), 1, 3, 3, 6)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")  # 3 rows stay 3 rows
    },
    "glu": (nn.Sequential(nn.Conv2d(3, 8, 1), nn.GLU(1)), (1, 3, 5, 4)),
    "lerp": of(lambda m, x: torch.lerp(x, x.relu(), 0.3) + x.lerp(x.tanh(), x.sigmoid()), 1, 3, 5, 4),
    "addcmul": of(lambda m, x: torch.addcmul(x, x.tanh(), x.relu(), value=-0.5), 1, 3, 5, 4),
    "constant-first": of(lambda m, x: MATRICES[0] @ x, 1, 5, 7),
    "constant-first-map": of(lambda m, x: MATRICES[0] @ m.conv(x), 1, 2, 5, 4, conv=nn.Conv2d(2, 3, 1)),
    "constant-first-list": of(lambda m, x: torch.matmul(MATRICES[0, 0], x), 1, 5, 7),
    "constant-vector": of(lambda m, x: x @ MATRICES[0, 0], 1, 4, 5),
    "constant-matrices": of(lambda m, x: torch.matmul(x, MATRICES), 3, 2, 4),
    "einsum": of(lambda m, x: torch.einsum("bij,bkj->bik", x.tanh(), x), 1, 4, 6),
    "einsum-of-a-constant": of(lambda m, x: torch.einsum("bij,jk->bik", x, MATRICES[0]), 1, 3, 4),
    "einsum-by-head": of(lambda m, x: torch.einsum("bqhd,bkhd->bhqk", x, x.tanh()), 1, 4, 3, 5),
    "einsum-of-one": of(lambda m, x: torch.einsum("bijk->bk", x), 1, 3, 4, 5),
    "movedim": of(lambda m, x: x.movedim(1, -1).movedim((0, 3), (2, 1)).movedim((2, 1), (0, 3)), 1, 3, 4, 5),
    "einsum-permuted": of(lambda m, x: torch.einsum("bij->bji", x), 1, 3, 4),
    "einsum-of-three": of(lambda m, x: torch.einsum("bij,jk,k->bi", x, MATRICES[0], MATRICES[0][0]), 1, 3, 4),
    "einsum-constants-first": of(lambda m, x: torch.einsum("jk,k,bij->bi", MATRICES[0], MATRICES[0][0], x), 1, 3, 4),
    "einsum-without-output": of(lambda m, x: torch.einsum("...ij,...kj", x.tanh(), x), 1, 4, 6),
    "einsum-with-sums": of(lambda m, x: torch.einsum("bij,bkl->bi", x, x.tanh()), 1, 4, 6),
    "cumsum": of(lambda m, x: x.cumsum(3) - x.cumsum(1), 1, 3, 5, 4),
    "cumsum-of-rows": of(lambda m, x: torch.cumsum(x, 1), 1, 9, 4),
    "masked-attention": of(lambda m, x: functional.scaled_dot_product_attention(x, x.tanh(), x, MASK), 1, 4, 6),
    "causal-attention": of(lambda m, x: functional.scaled_dot_product_attention(x, x.tanh(), x, is_causal=True), 1, 4, 6),
    "scores-plus-a-mask": of(lambda m, x: torch.softmax(x + torch.where(MASK, 0, -torch.inf), -1) @ x, 1, 4, 4),
    "a-list-of-batches": (nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), (3, 4)),
    "where": of(lambda m, x: torch.where(x > 0.3, x.tanh(), 0.1 * x), 1, 3, 9, 7),
    "where-of-channels": of(lambda m, x: torch.where(x[:, :1] <= x[:, 1:], x[:, 1:], 0.5), 1, 4, 5, 7),
    "where-constant": of(lambda m, x: torch.where(MASK, x, -x), 1, 4, 4),
    "masked-fill": of(lambda m, x: x.masked_fill(x < 0, -1) + x.masked_fill(MASK, 0.5), 1, 4, 4),
    "masked-scores": of(lambda m, x: torch.softmax(x.masked_fill(~MASK, float("-inf")), -1), 1, 4, 4),
    "masked-by-far": of(lambda m, x: torch.cat((x.masked_fill(MASK, -200), x.masked_fill(MASK, -100).relu())), 1, 4, 4),
    "masked-fill-of-channels": of(lambda m, x: m.conv(x.masked_fill(MASK, -1e3)), 1, 3, 4, 4, conv=nn.Conv2d(3, 2, 1)),
    "where-masks-scores": of(lambda m, x: torch.softmax(torch.where(MASK, x, -torch.inf), -1) @ x, 1, 4, 4),
    "where-masks-rows": of(lambda m, x: torch.softmax(torch.where(MASK[:, :1], x, -1e9).transpose(1, 2), -1), 1, 4, 4),
    "logic": of(lambda m, x: ((x > 0) & (x < 1) | ~(x >= -0.5)).float() * x, 1, 3, 5, 7),
    "comparisons": of(lambda m, x: (x == x.relu()).float() - (x != x.clamp_min(0.2)).float() + (x < 0.1).float(), 1, 5, 7),
    "top-three": of(lambda m, x: torch.cat([x.topk(3, 1)[0], x.topk(3, 1, largest=False)[0]], 1), 1, 5, 4, 3),
    "top": of(lambda m, x: x.topk(1, 1)[0] + x.topk(1, 1, largest=False)[0], 1, 5, 7),
    "spectrum": of(lambda m, x: torch.fft.rfft(x).abs(), 1, 32),
    "spectrum-of-columns": of(lambda m, x: torch.fft.rfft(x, 7, 2, "ortho").abs() + torch.fft.rfft(x, 7, 2).real, 1, 3, 5, 4),
    "spectrum-of-fewer": of(lambda m, x: torch.view_as_real(torch.fft.rfft(x, 5, norm="forward")), 1, 3, 9),
    "imaginary-part": of(lambda m, x: torch.fft.rfft(x).imag * x[:, :, :5], 1, 3, 8),
    "clamp-by-constants": of(lambda m, x: x.clamp(-torch.arange(4.0), torch.tensor(0.5)).clamp(max=torch.arange(4.0)), 1, 4),
    "clamp-by-maps": of(lambda m, x: torch.clamp(x, x.mean(1, keepdim=True), x.abs()), 1, 5, 4),
    "remainder": of(lambda m, x: torch.remainder(x, 0.7) - x % -1.5 + torch.remainder(x, torch.arange(1.0, 5.0)), 1, 4),
    "fmod": of(lambda m, x: torch.fmod(x, 0.7) + x.fmod(x.abs() + 0.3), 1, 4),
    "pairwise-distance": of(lambda m, x: nn.PairwiseDistance()(x, x.flip(1)) + nn.PairwiseDistance(1)(x, x.tanh()), 3, 4),
    "response-norm": (nn.Sequential(nn.Conv2d(3, 6, 1), nn.LocalResponseNorm(4, 0.5, k=2.0)), (1, 3, 5, 4)),
    "response-norm-power": (nn.LocalResponseNorm(3, 0.3, 0.6), (1, 6, 5, 4)),
    "pool-of-depth": (nn.AvgPool3d((2, 1, 1)), (1, 3, 5, 4, 2)),
    "broadcast-list": of(lambda m, x: torch.exp(-((x.unsqueeze(-1) - torch.arange(6.0)) ** 2)).flatten(1), 1, 4),
    "broadcast-map": of(lambda m, x: m.conv(x).mean(2, keepdim=True) * torch.arange(15.0).view(5, 3) - x[:, :1], 1, 3, 5, 3,
                        conv=nn.Conv2d(3, 4, 1)),
    "broadcast-channels": of(lambda m, x: torch.arange(4.0).view(4, 1, 1) - x.mean(1, keepdim=True), 1, 3, 5, 7),
    "broadcast-rank": of(lambda m, x: x.relu() + torch.arange(6.0).view(6, 1, 1), 1, 5),
    "broadcast-where": of(lambda m, x: torch.where(x[:, None] > torch.arange(-1.0, 1.0).view(2, 1), x.tanh(), 0.5), 1, 4),
    "where-of-itself": of(lambda m, x: torch.where(x[:, :, None] > x[:, None], x[:, :, None], x[:, None]), 1, 4),
    "constant-matrices-first": of(lambda m, x: torch.matmul(MATRICES, x), 3, 5, 2),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_module_computes_what_torch_does(case: str, litert: ModuleType) -> None:
    module, shape = CASES[case]
    torch.manual_seed(17)
    _, ours, by_litert = distances(trained(module), 2 * torch.randn(shape), litert)
    assert ours < CLOSE and by_litert < CLOSE


CORE = {
    "convolutions": (
        nn.Sequential(
            nn.Conv2d(3, 6, (3, 2), 2, (1, 0), groups=3),
            nn.BatchNorm2d(6),
            nn.MaxPool2d(2, 1),
            nn.ConvTranspose2d(6, 4, 3, 2, 1, 1),
        ),
        (1, 3, 9, 8),
    ),
    "signal": (nn.Sequential(nn.Conv1d(3, 4, 3, padding=2, dilation=2), nn.ConvTranspose1d(4, 2, 4, 2, 1)), (1, 3, 9)),
    "norms": (nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.LayerNorm((5, 4)), nn.Softmax(1)), (1, 4, 5, 4)),
    "pools": (nn.Sequential(nn.AdaptiveAvgPool2d((2, 3)), nn.LogSoftmax(1)), (1, 3, 5, 4)),
    "resize": (nn.Sequential(nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=1.5, mode="bilinear")), (1, 3, 5, 4)),
    "spectrum": of(lambda m, x: torch.fft.rfft(x, dim=2, norm="ortho").abs(), 1, 3, 16),
    "attention": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (1, 5, 8)),
    "causal": of(lambda m, x: functional.scaled_dot_product_attention(x, x, x, is_causal=True), 1, 1, 5, 8),
}


@pytest.mark.parametrize("case", CORE)
def test_core_aten_computes_what_torch_does(case: str, litert: ModuleType) -> None:
    module, shape = CORE[case]
    torch.manual_seed(17)
    _, ours, by_litert = distances(trained(module), 2 * torch.randn(shape), litert, transposes=None, core=True)
    assert ours < CLOSE and by_litert < CLOSE


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.BatchNorm2d(3, track_running_stats=False), "it uses the statistics of the batch; call eval"),
        (
            Of(lambda m, x: sum(functional.max_pool2d_with_indices(x, 2))),
            "not the statistics of a norm or the positions of maxima",
        ),
        (Of(lambda m, x: torch.fft.rfft2(x).abs()), "it transforms several axes"),
        (Of(lambda m, x: torch.fft.fft(x).abs()), "or computes both halves of the spectrum"),
    ],
)
def test_core_aten_that_is_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        from_program(in_core_aten(module, (torch.randn(2, 3, 6, 4),)))


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        (of(lambda m, x: x.argmax(1), 1, 12), ["arg_max"]),
        (of(lambda m, x: m.conv(x).argmax(1), 1, 3, 5, 4, conv=nn.Conv2d(3, 6, 1)), ["conv_2d", "arg_max"]),
        (of(lambda m, x: x.max(1)[1], 1, 12), ["arg_max"]),
        (of(lambda m, x: x.argmin(1), 1, 12), ["arg_min"]),
        (of(lambda m, x: x.min(1)[1], 1, 12), ["arg_min"]),
        (of(lambda m, x: x.topk(1, 1)[1], 1, 12), ["arg_max", "reshape"]),
        (of(lambda m, x: x.topk(3, 1)[1], 1, 12), ["topk_v2"]),
        (of(lambda m, x: x.topk(2, 1, largest=False)[1], 1, 12), ["mul", "topk_v2"]),
        (of(lambda m, x: x.argmax(2, keepdim=True), 1, 5, 12), ["arg_max", "reshape"]),
        (of(lambda m, x: x.argmax(), 1, 5, 12), ["reshape", "arg_max"]),
        (of(lambda m, x: x.argmax(), 1, 3, 5, 4), ["reshape", "gather", "arg_max"]),
    ],
)
def test_indices_of_maxima_and_minima_are_those_of_torch(case: tuple[nn.Module, tuple[int, ...]], kinds: list[str]) -> None:
    module, shape = case
    torch.manual_seed(17)
    x = torch.randn(shape)
    graph = from_module(module.eval(), x)
    given = x.permute(0, 2, 3, 1) if x.ndim == 4 else x
    (found,) = ops.run(graph, {graph.inputs[0]: np.ascontiguousarray(given.numpy())}).values()
    assert found.dtype == np.int32 and np.array_equal(found, module(x).numpy())
    assert [op.kind for op in graph.ops if op.kind not in ("reduce_max", "reduce_min")] == kinds


@pytest.mark.parametrize(
    ("resize", "attrs"),
    [
        (nn.Upsample(scale_factor=2, mode="bilinear"), {"align_corners": False, "half_pixel_centers": True}),
        (nn.Upsample(size=(3, 11), mode="bilinear"), {"align_corners": False, "half_pixel_centers": True}),
        (nn.Upsample(size=(9, 11), mode="bilinear", align_corners=True), {"align_corners": True, "half_pixel_centers": False}),
    ],
)
def test_a_resize_that_tflite_has_becomes_one_op(resize: nn.Module, attrs: dict[str, bool]) -> None:
    (op,) = from_module(resize.eval(), torch.randn(1, 3, 5, 6)).ops
    assert op.kind == "resize_bilinear" and {key: op.attrs[key] for key in attrs} == attrs


def test_a_resize_by_another_factor_than_that_of_the_sizes_is_no_resize_of_tflite() -> None:
    graph = from_module(nn.Upsample(scale_factor=(1.5, 2.3), mode="bilinear").eval(), torch.randn(1, 3, 5, 6))
    assert "resize_bilinear" not in {op.kind for op in graph.ops}

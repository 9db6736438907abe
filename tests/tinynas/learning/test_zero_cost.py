"""Zero-cost proxies of tiny networks, compared with results computed by hand or by another method."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from cases.stripes import TINY, TINY_V3, stripes

torch = pytest.importorskip("torch", reason="needs torch")

from tinynas.arch import Arch, Group, blocks, macs, weights  # noqa: E402
from tinynas.learning.module import module_of  # noqa: E402
from tinynas.learning.train import thread_count  # noqa: E402
from tinynas.learning.zero_cost import gradient_norm, naswot, synflow, zen, zico  # noqa: E402
from tinynas.proxies import PROXIES, check_proxies, ranked, score  # noqa: E402
from tinynas.ram.arena import graph_of  # noqa: E402
from tinynas.space import arch_of, keywords, largest, smallest  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402
from tinyweave.planning.planner import PlanSearch  # noqa: E402

POINT = Arch((1, 1, 2), 2, (), classes=2, stem_kernel=(1, 1), stem_stride=(1, 1))  # matrix, norm, relu6, matrix
SAMPLES = torch.tensor([[1.0, 2.0], [3.0, -1.0], [-2.0, 1.0], [0.5, 4.0]])[:, :, None, None]
CLASSES = torch.tensor([0, 1, 1, 0])


@pytest.fixture(autouse=True)
def _one_thread():
    with thread_count(1):
        yield


def point() -> torch.nn.Sequential:
    """Return a network whose matrices are w with rows (1, -2), (0.5, 1) and v with rows (2, -1), (-3, 0.25)."""
    module = module_of(POINT)
    with torch.no_grad():
        module[0].layers[0][0].weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 1.0]])[:, :, None, None])
        module[2].weight.copy_(torch.tensor([[2.0, -1.0], [-3.0, 0.25]]))
    return module


def test_synflow_equals_the_value_computed_by_hand() -> None:
    """|v| |w| 1 = ((2, 1), (3, 0.25)) (3, 1.5) = (7.5, 9.375), whose sum is 16.875 for each of the two layers."""
    assert synflow(point(), SAMPLES) == pytest.approx(math.log(2 * 16.875))


def test_synflow_of_n_layers_is_n_times_the_sum_over_all_paths() -> None:
    """The output R is linear in the weights of each layer, so |w dR/dw| of a layer is R without residuals."""
    arch = Arch((8, 8, 1), 4, (Group(6, 2, (3,), (2,), 2, "hard_swish"),), 5, 3, activation="hard_swish")
    module = module_of(arch).double()
    x = torch.ones(1, 1, 8, 8, dtype=torch.float64)
    convs = [unit[0] for part in list(module)[: len(blocks(arch))] for unit in part.layers]
    for conv in convs:
        x = torch.nn.functional.conv2d(x, conv.weight.abs(), None, conv.stride, conv.padding, groups=conv.groups)
    flow = float((x.mean((2, 3)) @ module[-1].weight.abs().T).sum().detach())
    assert synflow(module, torch.zeros(7, 1, 8, 8)) == pytest.approx(math.log((len(convs) + 1) * flow))


def test_naswot_counts_the_equal_activation_signs_of_two_samples() -> None:
    """Relu6 reads w x minus its mean over the samples, so the signs are (-, -), (+, -), (-, +)."""
    samples = torch.tensor([[1.0, 0.5], [6.0, 0.0], [-3.0, 4.0]])[:, :, None, None]
    made = samples[:, :, 0, 0].numpy() @ np.array([[1.0, -2.0], [0.5, 1.0]]).T
    above, kernel = made > made.mean(axis=0), np.zeros((3, 3))
    for i, j in product(range(3), repeat=2):
        kernel[i, j] = sum(bool(a) == bool(b) for a, b in zip(above[i], above[j], strict=True))
    assert np.linalg.matrix_rank(kernel) == 3
    assert naswot(point(), samples) == pytest.approx(np.linalg.slogdet(kernel)[1])


def logits(w: torch.Tensor, v: torch.Tensor, x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    made = x.flatten(1) @ w.T
    normed = (made - made.mean(0)) / (made.var(0, unbiased=False) + 1e-5).sqrt()
    return (normed * shift[0] + shift[1]).clamp(0, 6) @ v.T + shift[2]


def gradients(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Return the gradients of w, the norm's scale and shift, v and bias by finite differences of the loss, without autograd."""
    module = point()
    w, v = module[0].layers[0][0].weight[:, :, 0, 0].detach().double(), module[2].weight.detach().double()
    values = [w, v, torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]).double()]

    def loss() -> float:
        scores = logits(*values[:2], x.double(), values[2])
        return float((scores.logsumexp(1) - scores.gather(1, y[:, None])[:, 0]).mean())

    found = [torch.zeros_like(value) for value in values]
    for value, gradient in zip(values, found, strict=True):
        for index in np.ndindex(*value.shape):
            own, ends = float(value[index]), list[float]()
            for step in (1e-6, -1e-6):
                value[index] = own + step
                ends.append(loss())
            value[index] = own
            gradient[index] = (ends[0] - ends[1]) / 2e-6
    return [found[0], found[2][0], found[2][1], found[1], found[2][2]]


def test_the_gradient_norm_equals_that_of_finite_differences() -> None:
    expected = sum(float(gradient.norm()) for gradient in gradients(SAMPLES, CLASSES))
    assert gradient_norm(point(), SAMPLES, CLASSES) == pytest.approx(expected, rel=1e-4)


def test_zico_equals_the_mean_over_deviation_of_the_gradients_of_parts() -> None:
    samples, classes = torch.cat([SAMPLES, 2 * SAMPLES.flip(0), SAMPLES**2, SAMPLES - 1]), CLASSES.repeat(4)
    parts = [gradients(samples[i : i + 4], classes[i : i + 4]) for i in range(0, 16, 4)]
    total = 0.0
    for layer in (0, 3):
        sizes = np.stack([part[layer].abs().numpy() for part in parts])
        total += math.log((sizes.mean(0) / sizes.std(0)).sum())
    assert zico(point(), samples, classes) == pytest.approx(total, rel=1e-3)


def test_zen_equals_the_value_computed_by_hand() -> None:
    """The norm of the only layer divides by the standard deviation of its input, which the score adds again."""
    samples = torch.zeros(64, 2, 1, 1)
    torch.manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        w, first, more = torch.empty(2, 2, 1, 1).normal_(), torch.randn(64, 2, 1, 1), torch.randn(64, 2, 1, 1)

    def body(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = x.flatten(1) @ w[:, :, 0, 0].T
        variance = made.var(0, unbiased=False)
        return ((made - made.mean(0)) / (variance + 1e-5).sqrt()).clamp(0, 6), variance

    (one, variance), (two, _) = body(first), body(first + 0.01 * more)
    expected = math.log(float((one - two).abs().sum(1).mean())) + math.log(math.sqrt(float(variance.mean())))
    assert zen(point(), samples, seed=5) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("space", [TINY, TINY_V3], ids=["plain", "squeezed"])
def test_proxies_are_deterministic_and_differ_between_networks(space: object) -> None:
    batch = stripes(16, 0)
    archs = [arch_of(space, choice, 2) for choice in (smallest(space)._replace(size=(8, 8)), largest(space))]
    for name in PROXIES:
        small, large = (score(name, arch, batch) for arch in archs)
        assert math.isfinite(small) and math.isfinite(large) and small != large, name
        assert score(name, archs[0], batch) == small
        assert name in ("naswot", "gradient_norm") or large > small, name
    assert score("macs", archs[0]) == macs(archs[0]) and score("parameters", archs[1]) == weights(archs[1])
    assert score("ram", archs[1]) == PlanSearch(graph_of(blocks(archs[1]), 2)).least_bytes
    assert ranked(archs, ("macs", "synflow", "zen"), lambda _: batch) == [1, 0]


def test_a_proxy_without_its_samples_is_refused() -> None:
    with pytest.raises(CompileError, match="the proxy synflow needs samples; give a Batch"):
        ranked([POINT], ("synflow",))
    with pytest.raises(CompileError, match="--proxies luck is unknown; give one of macs, parameters, ram, synflow"):
        check_proxies(("macs", "luck"))


def test_zen_ignores_residuals_and_leaves_the_module_unchanged() -> None:
    module, samples = module_of(Arch((4, 4, 1), 8, (Group(8, 1, (3,), (2,)),), classes=2)), torch.zeros(8, 1, 4, 4)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    score = zen(module, samples)
    assert module[1].residual and all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    module[1].residual = False
    assert zen(module, samples) == score
    made = module[0].layers.train()(torch.randn(64, 1, 4, 4))
    assert (module[1](made) - made).std() > 0, "the residual would be seen"


@pytest.mark.parametrize("name", PROXIES)
def test_each_proxy_scores_networks_of_each_pooling(name: str) -> None:
    """The Zen-score is computed from the last map, so the pooling does not affect it. The peak RAM is in an earlier layer."""
    space, rng = keywords((12, 10)), np.random.default_rng(0)
    batch = rng.integers(-128, 128, (8, 12, 10, 1), np.int8), rng.integers(0, 3, 8)
    archs = [arch_of(space, smallest(space)._replace(pooling=pooling), 3) for pooling in space.poolings]
    scores = [score(name, arch, batch) for arch in archs]
    assert all(map(math.isfinite, scores)) and (name not in ("zen", "ram") or len(set(scores)) == 1)
    assert name not in ("macs", "parameters") or scores[0] == scores[1] < scores[2]

"""Common PyTorch architectures import without a transpose; their error in numpy and LiteRT is below 1e-4 of the range."""

from __future__ import annotations

from types import ModuleType

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.architectures import BUILDERS, network
from cases.from_torch import distances, trained

CLOSE = 1e-4  # of the output's range
OPS = {  # number of ops: norms are folded, activations fused; layers are left, and pads if torch's padding isn't SAME
    "mobilenet_v1": 35,
    "mobilenet_v2": 70,
    "mobilenet_v3_small": 114,
    "efficientnet_lite0": 66,
    "proxylessnas": 83,
    "mnasnet": 71,
    "ds_cnn": 14,
    "resnet8": 17,
    "resnet18": 37,
    "squeezenet": 39,
    "shufflenet_v2": 113,
    "unet": 24,
    "lstm": 4,
    "gru": 4,
}


@pytest.mark.litert
@pytest.mark.parametrize("name", BUILDERS)
def test_an_architecture_computes_what_torch_does(name: str, litert: ModuleType) -> None:
    module, example = network(name)
    graph, ours, by_litert = distances(trained(module), example, litert)
    assert len(graph.ops) == OPS[name]
    assert ours < CLOSE and by_litert < CLOSE

"""From a PyTorch module to C: train it, make it int8, deploy it.

In: stripes.py, in place of your own samples. Out: in the folder `-o`, firmware/ with the C, and images.bin, held-out images for
main.c. docs/PYTORCH.md explains the steps.
"""

from __future__ import annotations

import sys

import torch
from finish import arguments, finish
from stripes import CLASSES, images
from torch import nn

import tinyweave as tw


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
        )
        self.head = nn.Linear(16, len(CLASSES))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def samples(count, seed):
    x, y = images(count, seed)
    return torch.tensor(x).permute(0, 3, 1, 2).contiguous(), torch.tensor(y)  # channels first


def train(net, rate, epochs):
    x, y = samples(512, seed=0)
    optimizer = torch.optim.Adam(net.parameters(), rate)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()


def trained():
    """Return a float network, trained as always."""
    torch.manual_seed(0)
    net = Net()
    train(net, rate=1e-2, epochs=5)
    return net


def int8_model(net):
    """Return the model with 8-bit weights."""
    x, y = samples(128, seed=1)
    done = tw.quantize(tw.load(net, x[:1]), x.numpy(), labels=y.numpy())
    print("right answers: float {:.0%}, int8 {:.0%}".format(*done.fidelity.accuracy))
    return done.model


def int4_model(net):
    """Return a model with 4-bit weights, trained for them."""
    x, _ = samples(128, seed=1)
    small = tw.prepare_qat(net, x[:1], x.numpy(), weight_bits=4)
    train(small, rate=1e-3, epochs=2)
    return tw.convert_qat(small, name="net")


def main() -> int:
    parser = arguments("deploy a PyTorch module")
    parser.add_argument("--qat", action="store_true", help="train the network for weights of 4 bits")
    options = parser.parse_args()
    net = trained()
    model = int4_model(net) if options.qat else int8_model(net)
    return finish(model, options.device, options.output)


if __name__ == "__main__":
    sys.exit(main())

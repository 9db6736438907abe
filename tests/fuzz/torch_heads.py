"""Heads of random PyTorch networks: dense layers, products of matrices and vectors, recurrent layers and cells."""

from __future__ import annotations

import random
from typing import Any

import torch
from fuzz.torch_growth import Network
from torch import Tensor, nn
from torch.nn import functional

CELLS = {  # cell -> its options
    "gru": (nn.GRUCell, {}),
    "lstm": (nn.LSTMCell, {}),
    "rnn_tanh": (nn.RNNCell, {"nonlinearity": "tanh"}),
    "rnn_relu": (nn.RNNCell, {"nonlinearity": "relu"}),
}


def classifier(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Add a flattening or means, then linear layers."""
    channels = shape[1]
    if rng.random() < 0.5:
        inner = [nn.Linear(channels, 8), rng.choice([nn.BatchNorm1d(8), nn.Identity()]), nn.Linear(8, 5)]
        seen = made.use(nn.Sequential(*inner))
        return rng.choice([
            lambda x: seen(x.mean((2, 3))), lambda x: seen(functional.adaptive_avg_pool2d(x, 1).flatten(1)),
            lambda x: seen(x.mean(3).mean(2)), lambda x: seen(x.mean((2, 3), keepdim=True).squeeze(3).squeeze(2)),
        ])  # fmt: skip
    flat = channels * shape[2] * shape[3]
    matrix, bias = torch.randn(flat, 5) / flat**0.5, torch.randn(5)
    if flat > 2000:
        return None
    seen = made.use(
        nn.Sequential(*rng.choice([[], [nn.BatchNorm1d(flat), nn.ReLU()]]), nn.Linear(flat, 7), nn.ReLU(), nn.Linear(7, 4))
    )
    return rng.choice([
        lambda x: seen(x.flatten(1)), lambda x: seen(x.contiguous().view(x.size(0), -1)),
        lambda x: seen(x.reshape(x.size(0), -1)),
        lambda x: torch.mm(x.flatten(1), matrix), lambda x: torch.addmm(bias, x.flatten(1), matrix),
        lambda x: torch.mv(matrix.T, x[0].flatten()), lambda x: seen(x.flatten(1)).topk(3)[1],
        lambda x: torch.log_softmax(seen(x.flatten(1)), -1), lambda x: x.flatten(1), lambda x: seen(x.flatten(1)).argmax(1),
        lambda x: seen(x.flatten(1)).argmin(1), lambda x: seen(x.flatten(1)).topk(1)[0],
    ])  # fmt: skip


def recurrent(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Add a recurrent layer on the steps of a map, and ops on its outputs; first states may be computed from the map."""
    kind, cells, first = rng.choice([nn.LSTM, nn.GRU, nn.RNN]), rng.randint(1, 8), rng.random() < 0.7
    if shape[2] > 20:
        return None
    more: dict[str, Any] = {"bidirectional": rng.random() < 0.4}
    more |= {"proj_size": rng.randint(1, cells - 1)} if kind is nn.LSTM and cells > 1 and rng.random() < 0.3 else {}
    more |= {"nonlinearity": rng.choice(["tanh", "relu"])} if kind is nn.RNN else {}
    layer = made.use(kind(shape[1], cells, rng.choice([1, 1, 2]), bias=rng.random() < 0.8, batch_first=first, **more))
    width = (layer.proj_size or cells) * (1 + layer.bidirectional)
    head = made.use(nn.Linear(width, 3))
    order = (0, 2, 1) if first else (2, 0, 1)
    if not layer.proj_size and rng.random() < 0.4:
        count = layer.num_layers * (1 + layer.bidirectional)
        states = [made.use(nn.Linear(shape[1], count * cells)) for _ in range(1 + (kind is nn.LSTM))]
        picked = rng.randrange(1 + len(states))

        def from_states(x: Tensor) -> Tensor:
            first = [state(x.mean(2)).tanh().view(count, 1, cells) for state in states]
            y, last = layer(x.permute(order), tuple(first) if kind is nn.LSTM else first[0])
            return (y, *(last if kind is nn.LSTM else [last]))[picked]

        return from_states
    if layer.num_layers == 1 and rng.random() < 0.3:
        hidden = (lambda found: found[1][0]) if kind is nn.LSTM else (lambda found: found[1])
        return lambda x: head(hidden(layer(x.permute(order))).reshape(1, width))
    last = (lambda y: y[:, -1]) if first else (lambda y: y[-1])
    return rng.choice([lambda x: head(last(layer(x.permute(order))[0])), lambda x: head(layer(x.permute(order))[0])])


def linear_of_steps(rng: random.Random, made: Network, shape: list[int]) -> Any:
    linear, (_, c, steps) = made.use(nn.Linear(shape[1] * shape[2], 4)), shape
    return rng.choice([lambda x: linear(x.flatten(1)), lambda x: linear(x.reshape(1, c * steps)), lambda x: x.transpose(1, 2)])


def stepped(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Call a recurrent cell for each step of a map, and a dense layer on its last state."""
    make, more = CELLS[rng.choice(list(CELLS))]
    cells = rng.randint(1, 6)
    cell, head = made.use(make(shape[1], cells, bias=rng.random() < 0.8, **more)), made.use(nn.Linear(cells, 3))
    if shape[2] > 12:
        return None

    def last_state(x: Tensor) -> Tensor:
        state = None
        for step in range(shape[2]):
            state = cell(x[:, :, step], state)
        return head(state[0] if isinstance(state, tuple) else state)

    return last_state

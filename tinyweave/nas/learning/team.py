"""Training of one supernet in several processes, started by torchrun. In: their environment variables. Out: a Team.

Each process sees all samples of a training step and evaluates a share of the step's networks. The gradients of each network are
sent to all processes and added in the order of the networks. On CPUs, the weights therefore equal those of one process with the
same thread count, bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn

PATIENCE = timedelta(days=30)  # if a process fails, torchrun ends the others


@dataclass(frozen=True)
class Team:
    """The processes of a training, and the rank of this one, from 0."""

    rank: int
    size: int

    def broadcast(self, value: Any = None) -> Any:
        """Return the `value` of the first process, in all processes."""
        values = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]

    def evaluates(self, number: int) -> bool:
        """Return whether this process evaluates network `number` of a training step."""
        return number % self.size == self.rank

    def backward(self, losses: Iterable[Tensor | None], parameters: Sequence[nn.Parameter]) -> None:
        """Add up the gradients of the networks of a step over all processes. A loss of None belongs to another process."""
        ours, count = list[Tensor](), 0
        for loss in losses:
            count += 1
            if loss is not None:
                torch.autograd.backward(loss)
                ours.append(_flat(parameters))
        places = -(-count // self.size)  # equal per process, padded with zeros
        own = torch.stack(ours + [torch.zeros_like(_flat(parameters))] * (places - len(ours)))
        everyone = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(everyone, own)
        for number in range(count):
            _add(everyone[number % self.size][number // self.size], parameters)


def _flat(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return all gradients in one tensor, followed by a flag per parameter that has a gradient; clear the gradients."""
    there = torch.tensor([p.grad is not None for p in parameters]).to(parameters[0])
    parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters]
    for parameter in parameters:
        parameter.grad = None
    return torch.cat([*parts, there])


def _add(flat: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Add the gradients in a tensor of `_flat` to those of the parameters."""
    *parts, there = torch.split(flat, [*(p.numel() for p in parameters), len(parameters)])
    for parameter, part, is_there in zip(parameters, parts, there.tolist(), strict=True):
        if is_there:
            gradient = part.view_as(parameter)
            parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient


def is_launched() -> bool:
    """Return whether torchrun started this process as one of several."""
    return distributed.is_available() and distributed.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined(**options: Any) -> Iterator[Team]:
    """Join the process group of torchrun, and leave it after the block. Options are those of `init_process_group`."""
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend, timeout=PATIENCE, **options)
    try:
        yield Team(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()

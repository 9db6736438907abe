"""Processes that train one supernet together, started by torchrun. In: their environment. Out: a Team.

Each process sees every sample of a step and a share of its networks. The gradients of each network go to all processes, and
each adds all of them in the networks' order: on CPUs the weights are, bit for bit, those of one process of as many threads.
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

PATIENCE = timedelta(days=30)  # torchrun ends the others of a process that fails


@dataclass(frozen=True)
class Team:
    """rank: of this process, from 0. size: processes in all."""

    rank: int
    size: int

    def shared(self, value: Any = None) -> Any:
        """Return the value that the first process gives."""
        values = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]

    def has(self, number: int) -> bool:
        """Return whether a network of a step is this process's."""
        return number % self.size == self.rank

    def backward(self, losses: Iterable[Tensor | None], parameters: Sequence[nn.Parameter]) -> None:
        """Add up the gradients of a step's networks; None stands for the loss of one that another process has."""
        ours, count = list[Tensor](), 0
        for loss in losses:
            count += 1
            if loss is not None:
                loss.backward()
                ours.append(_flat(parameters))
        places = -(-count // self.size)  # as many for each process, though the last ones may be nobody's
        own = torch.stack(ours + [torch.zeros_like(_flat(parameters))] * (places - len(ours)))
        everyone = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(everyone, own)
        for number in range(count):
            _add(everyone[number % self.size][number // self.size], parameters)


def _flat(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return the gradients one after the other, then which of them there are; none is left in place."""
    there = torch.tensor([p.grad is not None for p in parameters]).to(parameters[0])
    parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters]
    for parameter in parameters:
        parameter.grad = None
    return torch.cat([*parts, there])


def _add(flat: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Add gradients that `_flat` gave to those in place."""
    *parts, there = flat.split([*(p.numel() for p in parameters), len(parameters)])
    for parameter, part, is_there in zip(parameters, parts, there.tolist(), strict=True):
        if is_there:
            gradient = part.view_as(parameter)
            parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient


def is_launched() -> bool:
    """Return whether torchrun started this process, and others beside it."""
    return distributed.is_available() and distributed.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined(**given: Any) -> Iterator[Team]:
    """Be one of a team in the block. given: as `torch.distributed.init_process_group` takes it, else torchrun says it."""
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend, timeout=PATIENCE, **given)
    try:
        yield Team(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()

"""A training that several processes share. In: torchrun's environment variables. Out: a Team.

A step has several losses, of networks of a supernet, which the processes divide. All add up the gradients in the order of the
losses, so on CPUs the weights equal, bit for bit, those of one process with the same number of threads.
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

PATIENCE = timedelta(days=30)  # timeout of collective operations, in effect none: torchrun ends all processes if one fails


@dataclass(frozen=True)
class Team:
    """The processes that share a training, seen from this process."""

    rank: int  # index of this process
    size: int  # number of processes

    def broadcast(self, value: Any = None) -> Any:
        """Return, in all processes, the argument that the first process passed. All processes must call this."""
        values = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]

    def evaluates(self, number: int) -> bool:
        """Return whether this process computes loss `number` of a training step."""
        return number % self.size == self.rank

    def backward(self, losses: Iterable[Tensor | None], parameters: Sequence[nn.Parameter]) -> Tensor | None:
        """Set the gradients of `parameters` to those of a step's losses (None: another process's), summed over all processes.

        Return the last loss that this process computed; None if it computed none.
        """
        ours, count, last = list[Tensor](), 0, None
        for loss in losses:
            count += 1
            if loss is not None:
                torch.autograd.backward(loss)
                ours.append(_flat(parameters))
                last = loss
        places = -(-count // self.size)  # equal per process, padded with zeros
        own = torch.stack(ours + [torch.zeros_like(_flat(parameters))] * (places - len(ours)))
        everyone = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(everyone, own)
        for number in range(count):
            _add(everyone[number % self.size][number // self.size], parameters)
        return last


def _flat(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Remove the gradients and return them in one tensor, followed by a flag (1 or 0) per parameter: whether it has one."""
    there = torch.tensor([p.grad is not None for p in parameters]).to(parameters[0])
    parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters]
    for parameter in parameters:
        parameter.grad = None
    return torch.cat([*parts, there])


def _add(flat: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Add the gradients in `flat`, a tensor that `_flat` returned, to the gradients of the parameters."""
    *parts, there = torch.split(flat, [*(p.numel() for p in parameters), len(parameters)])
    for parameter, part, is_there in zip(parameters, parts, there.tolist(), strict=True):
        if is_there:
            gradient = torch.empty_like(parameter).copy_(part.view_as(parameter))  # in its memory format, for fused optimisers
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def is_launched() -> bool:
    """Return whether torchrun started this process as one of several."""
    return distributed.is_available() and distributed.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined(**options: Any) -> Iterator[Team]:
    """Join a process group, by default torchrun's, as a Team for the block; `options` are of init_process_group."""
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend, timeout=PATIENCE, **options)
    try:
        yield Team(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()

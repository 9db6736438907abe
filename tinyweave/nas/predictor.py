"""A predictor of accuracy for evolution: which children are worth being measured. In: networks that were. Out: a function.

A linear model of each network's genes, one number for each value that a gene may have, fitted with a penalty on their squares
(ridge regression). Once-for-all (arXiv 1908.09791) has a small network in its place, which needs thousands of samples; here
there are hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .space import Choice, SearchSpace

PENALTY = 1.0
Floats = NDArray[np.float64]


def genes(space: SearchSpace, choices: Sequence[Choice]) -> Floats:
    """Return [networks, numbers]: 1 for the value that each gene has, 0 for the others; of blocks that are not there all 0."""
    return np.array([_genes(space, choice) for choice in choices], np.float64).reshape(len(choices), -1)


def predictor(
    space: SearchSpace, choices: Sequence[Choice], accuracies: Sequence[float]
) -> Callable[[Sequence[Choice]], Floats]:
    """Return a function that predicts the accuracies of networks of a space from those that were measured."""
    known = genes(space, choices)
    means, mean = known.mean(axis=0), np.mean(accuracies)
    centred = known - means
    inner = centred.T @ centred + PENALTY * np.eye(centred.shape[1])
    worth = np.linalg.solve(inner, centred.T @ (np.array(accuracies) - mean))
    return lambda choices: np.asarray((genes(space, choices) - means) @ worth + mean)


def _genes(space: SearchSpace, choice: Choice) -> list[bool]:
    """Return the genes of a network, but for its plan, on which its accuracy does not depend."""
    found = [choice.size == size for size in space.sizes]
    found += [width == value for width in (choice.width, *choice.widths) for value in space.widths]
    found.append(choice.redistributed)
    for group, blocks in zip(space.groups, choice.blocks, strict=True):
        for index in range(max(group.depths)):
            kernel, expansion = blocks[index] if index < len(blocks) else (0, 0)
            found.append(index < len(blocks))
            found += [kernel == value for value in group.kernels]
            found += [expansion == value for value in group.expansions]
    return found

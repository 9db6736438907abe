"""Accuracy predictor for evolution: ridge regression on one-hot genes. In: evaluated networks. Out: a prediction function.

The genes of a network are the numbers that distinguish it in its search space (`space.Choice`). Once-for-all (arXiv 1908.09791)
uses a small neural network as predictor, which needs thousands of evaluated networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .space import Choice, SearchSpace

PENALTY = 1.0  # factor on the squared coefficients
Floats = NDArray[np.float64]


def genes(space: SearchSpace, choices: Sequence[Choice]) -> Floats:
    """Return the genes of networks as an array [networks, columns], with one column (0 or 1) per possible value of a gene.

    Columns of blocks that a network lacks are 0. The plan is left out, because it does not affect the accuracy.
    """
    return np.array([_genes(space, choice) for choice in choices], np.float64).reshape(len(choices), -1)


def predictor(
    space: SearchSpace, choices: Sequence[Choice], accuracies: Sequence[float]
) -> Callable[[Sequence[Choice]], Floats]:
    """Fit a predictor to evaluated networks of a space, and return it.

    Args:
        choices: The evaluated networks.
        accuracies: The accuracy of each.

    Returns:
        A function from a list of networks to their predicted accuracies [networks].
    """
    one_hot = genes(space, choices)
    means, mean = one_hot.mean(axis=0), np.mean(accuracies)
    centred = one_hot - means
    gram = centred.T @ centred + PENALTY * np.eye(centred.shape[1])
    coefficients = np.linalg.solve(gram, centred.T @ (np.array(accuracies) - mean))
    return lambda choices: np.asarray((genes(space, choices) - means) @ coefficients + mean)


def _genes(space: SearchSpace, choice: Choice) -> list[bool]:
    one_hot = [choice.size == size for size in space.sizes]
    one_hot += [width == value for width in (choice.width, *choice.widths) for value in space.widths]
    one_hot += [choice.pooling == pooling for pooling in space.poolings]
    one_hot.append(choice.redistributed)
    for group, blocks in zip(space.groups, choice.blocks, strict=True):
        for index in range(max(group.depths)):
            kernel, expansion = blocks[index] if index < len(blocks) else (0, 0)
            one_hot.append(index < len(blocks))
            one_hot += [kernel == value for value in group.kernels]
            one_hot += [expansion == value for value in group.expansions]
    return one_hot

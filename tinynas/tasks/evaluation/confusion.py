"""Confusion matrix and rates of each class, as figures and as Markdown. In: labels, predicted classes. Out: figures, text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .intervals import Groups, accuracy_interval

Labels = NDArray[np.int64]  # class indices, one per sample
Matrix = NDArray[np.int64]  # [classes, classes]: samples of each class (row) by the class that is predicted (column)
WEAK = 0.5  # recall below which most samples of a class are taken for other classes
UNEVEN = 1.5  # classes are uneven if the largest has this many times the samples of the smallest
MAX_SHOWN = 20  # most classes of a matrix that is shown


def confusion_matrix(labels: Labels, predicted: Labels, classes: int) -> Matrix:
    """Return the number of samples of each class (row) that were predicted as each class (column)."""
    return np.bincount(labels * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def balanced_accuracy(matrix: Matrix) -> float:
    """Return the mean recall of the classes that have samples; chance is 1 / classes."""
    counts = matrix.sum(axis=1)
    return float(np.mean((np.diag(matrix) / np.maximum(counts, 1))[counts > 0]))


def weak_classes(labels: Labels, predicted: Labels, names: Sequence[str], groups: Groups) -> list[str]:
    """Return a line for each class of which less than half of the test samples are right, the weakest first."""
    lines = list[tuple[float, str]]()
    for label, name in enumerate(names):
        own = labels == label
        right, other = predicted[own] == label, np.bincount(predicted[own & (predicted != label)], minlength=len(names))
        if len(right) and right.mean() < WEAK:
            low, high = accuracy_interval(right, None if groups is None else groups[own])
            recall = f"{100 * right.mean():.1f} % (95 % interval {100 * low:.1f} to {100 * high:.1f})"
            taken = f"most often it is taken for '{names[int(other.argmax())]}'"
            lines.append((right.mean(), f"only {recall} of the {len(right)} test samples of '{name}' are found: {taken}"))
    return [line for _, line in sorted(lines)]


def is_uneven(matrix: Matrix) -> bool:
    """Return whether a class has at least UNEVEN times the samples of another, so that the accuracy alone may mislead."""
    counts = matrix.sum(axis=1)
    return bool(counts.max() >= UNEVEN * counts[counts > 0].min())


def class_rates(matrix: Matrix, names: Sequence[str]) -> list[str]:
    """Return the rates of each class and the confusion matrix as the lines of Markdown tables, for a model card.

    Recall is the share of a class's samples, precision that of its predictions, that are right. The matrix is left out for more
    than MAX_SHOWN classes. Names have no `|`.
    """
    lines = ["| class | test samples | recall, % | precision, % | most often taken for |", "|---|---:|---:|---:|---|"]
    for label, name in enumerate(names):
        right, own, called = (int(each) for each in (matrix[label, label], matrix[label].sum(), matrix[:, label].sum()))
        wrong = np.where(np.arange(len(names)) == label, 0, matrix[label])
        taken = f"{names[int(wrong.argmax())]} ({int(wrong.max())})" if wrong.any() else "-"
        lines.append(f"| {name} | {own} | {_percent(right, own)} | {_percent(right, called)} | {taken} |")
    if is_uneven(matrix):
        share = balanced_accuracy(matrix)
        lines += ["", f"The classes are uneven. The balanced accuracy, the mean recall, is {100 * share:.1f} %."]
    if len(names) <= MAX_SHOWN:
        head = ["", f"| true class | {' | '.join(f'as {name}' for name in names)} |", f"|---|{'---:|' * len(names)}"]
        rows = [f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, matrix, strict=True)]
        lines += [*head, *rows]
    return lines


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"

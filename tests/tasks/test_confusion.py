"""Confusion matrix, balanced accuracy, and the tables of rates of a model card."""

from __future__ import annotations

import numpy as np

from tinyweave.tasks.evaluation.confusion import balanced_accuracy, class_rates, confusion_matrix, is_uneven

LABELS = np.array([0] * 6 + [1] * 2 + [2] * 2)
PREDICTED = np.array([0, 0, 0, 0, 0, 1, 1, 0, 0, 0])


def test_figures() -> None:
    assert confusion_matrix(LABELS, PREDICTED, 3).tolist() == [[5, 1, 0], [1, 1, 0], [2, 0, 0]]
    assert balanced_accuracy(LABELS, PREDICTED) == (5 / 6 + 1 / 2 + 0) / 3
    assert balanced_accuracy(np.array([0, 2]), np.array([0, 2])) == 1.0, "a class without samples does not count"
    assert is_uneven(LABELS) and is_uneven(np.array([0] * 3 + [1] * 2)) and not is_uneven(np.array([0] * 4 + [1] * 3))


def test_the_tables_of_a_card() -> None:
    assert class_rates(LABELS, PREDICTED, ["cat", "dog", "a|b"]).splitlines() == [
        "| class | test samples | recall, % | precision, % | most often taken for |",
        "|---|---:|---:|---:|---|",
        "| cat | 6 | 83.3 | 62.5 | dog (1) |",
        "| dog | 2 | 50.0 | 50.0 | cat (1) |",
        r"| a\|b | 2 | 0.0 | - | cat (2) |",
        "",
        "The classes are uneven. The balanced accuracy, the mean recall, is 44.4 %.",
        "",
        r"| true class | as cat | as dog | as a\|b |",
        "|---|---:|---:|---:|",
        "| cat | 5 | 1 | 0 |",
        "| dog | 1 | 1 | 0 |",
        r"| a\|b | 2 | 0 | 0 |",
    ]


def test_even_classes_and_many_classes_have_shorter_tables() -> None:
    even = class_rates(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]), ["yes", "no"])
    assert "balanced" not in even and "| yes | 2 | 100.0 | 66.7 | - |" in even and "| no | 1 | 1 |" in even
    many = class_rates(np.arange(21), np.arange(21), [str(number) for number in range(21)])
    assert len(many.splitlines()) == 23 and "true class" not in many

"""Confusion matrix, balanced accuracy, and the tables of rates of a model card."""

from __future__ import annotations

import numpy as np

from tinynas.tasks.evaluation.confusion import balanced_accuracy, class_rates, confusion_matrix, is_uneven, weak_classes

LABELS = np.array([0] * 6 + [1] * 2 + [2] * 2)
PREDICTED = np.array([0, 0, 0, 0, 0, 1, 1, 0, 0, 0])
MATRIX = confusion_matrix(LABELS, PREDICTED, 3)


def test_matrix_and_balanced_accuracy_by_hand() -> None:
    assert MATRIX.tolist() == [[5, 1, 0], [1, 1, 0], [2, 0, 0]]
    assert balanced_accuracy(MATRIX) == (5 / 6 + 1 / 2 + 0) / 3
    assert balanced_accuracy(np.diag([3, 0, 5])) == 1.0, "a class without samples does not count"
    assert is_uneven(MATRIX) and is_uneven(np.diag([3, 2]))
    assert not is_uneven(np.diag([4, 3])) and not is_uneven(np.diag([4, 0, 3]))


def test_classes_of_which_most_samples_are_not_found_are_named_the_weakest_first() -> None:
    """Classes without samples, and those of which half are found, are not named; groups widen an interval."""
    labels, predicted = np.append(LABELS, [1, 1]), np.append(PREDICTED, [0, 2])
    fox = "only 0.0 % (95 % interval 0.0 to 65.8) of the 2 test samples of 'fox' are found: most often it is taken for 'cat'"
    dog = "only 25.0 % (95 % interval 4.6 to 69.9) of the 4 test samples of 'dog' are found: most often it is taken for 'cat'"
    names = ["cat", "dog", "fox", "emu"]
    assert weak_classes(labels, predicted, names, None) == [fox, dog] and weak_classes(LABELS, PREDICTED, names, None) == [fox]
    assert "taken for 'fox'" in weak_classes(np.zeros(5, int), np.array([0, 0, 2, 1, 2]), names, None)[0], "not for itself"
    assert "'dog'" in dog and weak_classes(labels, predicted, names, np.arange(12) // 11)[1] != dog


def test_class_rates_are_the_tables_of_a_card() -> None:
    assert class_rates(MATRIX, ["cat", "dog", "fox"]) == [
        "| class | test samples | recall, % | precision, % | most often taken for |",
        "|---|---:|---:|---:|---|",
        "| cat | 6 | 83.3 | 62.5 | dog (1) |",
        "| dog | 2 | 50.0 | 50.0 | cat (1) |",
        "| fox | 2 | 0.0 | - | cat (2) |",
        "",
        "The classes are uneven. The balanced accuracy, the mean recall, is 44.4 %.",
        "",
        "| true class | as cat | as dog | as fox |",
        "|---|---:|---:|---:|",
        "| cat | 5 | 1 | 0 |",
        "| dog | 1 | 1 | 0 |",
        "| fox | 2 | 0 | 0 |",
    ]


def test_even_classes_and_many_classes_have_shorter_tables() -> None:
    even = "\n".join(class_rates(np.array([[2, 0], [1, 1]]), ["yes", "no"]))
    assert "balanced" not in even and "| yes | 2 | 100.0 | 66.7 | - |" in even and "| no | 1 | 1 |" in even
    many = "\n".join(class_rates(np.eye(21, dtype=np.int64), [str(number) for number in range(21)]))
    assert len(many.splitlines()) == 23 and "true class" not in many

"""The evaluation of an int8 network: what it predicts, and an interval that knows of groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.waves import SPACE, waves

from tinynas.int8 import evaluate_int8, int8_outputs
from tinynas.space import arch_of, smallest
from tinynas.tasks.evaluation.intervals import accuracy_interval
from tinyweave import api


def test_an_evaluation_says_what_is_predicted_and_resamples_groups(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    from tinynas.learning.module import module_of

    arch, data, weights = arch_of(SPACE, smallest(SPACE), 2), waves(300), tmp_path / "weights.pt"
    torch.save(module_of(arch, 3).state_dict(), weights)
    found = evaluate_int8(arch, weights, data)
    correct = found.predicted == data.part("test")[1]
    assert found.accuracy["test_int8"] == correct.mean() and found.interval == accuracy_interval(correct)
    groups = np.where(
        data.parts == 2, 2 * data.labels + (np.arange(300) > 150), 9
    )  # an untrained network is right on one class
    grouped = evaluate_int8(arch, weights, replace(data, groups=groups))
    np.testing.assert_array_equal(grouped.predicted, found.predicted)
    assert grouped.interval == accuracy_interval(correct, groups[data.parts == 2]) != found.interval


@pytest.mark.parametrize("classes", [9, 10])
def test_from_ten_classes_on_the_right_class_may_be_among_the_best_five(classes: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
    from tinynas.learning.module import module_of

    arch, weights = arch_of(SPACE, smallest(SPACE), classes), tmp_path / "weights.pt"
    data = replace(waves(300), labels=np.arange(300) // 5 % classes, classes=tuple("abcdefghij"[:classes]))
    torch.save(module_of(arch, 3).state_dict(), weights)
    found, (values, labels) = evaluate_int8(arch, weights, data), data.part("test")
    scores = int8_outputs(api.with_io(found.model, "int8", "nhwc").graph, values).reshape(len(values), classes).astype(int)
    order = np.lexsort((np.broadcast_to(np.arange(classes), scores.shape), -scores))
    share = np.mean([label in best[:5] for label, best in zip(labels, order, strict=True)])
    assert found.accuracy.get("top_5_int8") == (share if classes >= 10 else None) and 0.2 < share < 0.9
    assert found.accuracy["test_int8"] == np.mean(labels == order[:, 0])

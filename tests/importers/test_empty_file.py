"""A .tflite file without a network is refused."""

from __future__ import annotations

import pytest
import tflite
from cases.tiny import NETWORKS

from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError

SUBGRAPHS = 8  # slot of the subgraphs in a model's table


def test_a_file_without_a_subgraph_is_refused() -> None:
    data = bytearray(to_tflite(NETWORKS["chain"]()))
    table = tflite.Model.GetRootAs(bytes(data), 0)._tab
    count = table.Vector(table.Offset(SUBGRAPHS)) - 4
    assert data[count : count + 4] == bytes([1, 0, 0, 0])
    data[count : count + 4] = bytes(4)
    with pytest.raises(CompileError, match="the file has no subgraph"):
        from_tflite(bytes(data), "empty")

"""Write a plan's figures for Model Explorer: a file of node data for each, by which it colours the nodes of the model.

In: a record. Out: per figure the JSON of Model Explorer's custom node data, whose nodes are named by their output tensors.
"""

from __future__ import annotations

import json

from .record import Record

COLD, HOT = "#f5f7fa", "#d1495b"
FIGURES = ("live", "macs", "constants", "cycles", "instructions")


def node_data(record: Record) -> dict[str, str]:
    """Return file name -> content, for figures that are known of some layer."""
    files = {}
    for figure in FIGURES:
        results = {}
        for layer in record["layers"]:
            value = layer[figure]
            if figure == "cycles" and value is None:
                value = layer["cycles_by_shape"]
            if value is not None:
                results |= {name: {"value": value} for name in layer["tensors"]}
        if results:
            gradient = [{"stop": 0, "bgColor": COLD}, {"stop": 1, "bgColor": HOT}]
            files[f"{figure}.json"] = json.dumps({"results": results, "gradient": gradient}, indent=1) + "\n"
    return files

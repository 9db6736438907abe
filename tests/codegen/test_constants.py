"""The predicted bytes of constants equal the bytes in the emitted C."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import maps, tiny
from codegen.emitted import compile_strictly, source_of, write
from fuzz.generate import random_network

from tinyweave.codegen import Origin, c, constant_bytes, emit
from tinyweave.ir import Graph, Tensor
from tinyweave.planning import Request, plan
from tinyweave.support import toolchain

BITS = {"float": 32}


def bytes_in_header(text: str) -> int:
    """Return the bytes of all arrays that a `_weights.h` declares."""
    declared = re.findall(r"^static const (\w+) \w+\[(\d+)\] = \{", text, re.MULTILINE)
    assert len(declared) == text.count("static const ")
    return sum((BITS.get(ctype) or int(re.sub(r"\D", "", ctype))) // 8 * int(count) for ctype, count in declared)


@pytest.mark.parametrize(
    "graph",
    [tiny.chain(), tiny.edges(), tiny.residual(), maps.heads(), *(random_network(seed, 14) for seed in range(8))],
    ids=lambda graph: graph.name,
)
@pytest.mark.parametrize("core", ["", "cortex-m4"])
def test_predicted_bytes_of_constants_equal_the_emitted_ones(graph: Graph, core: str):
    made = plan(graph, Request(core=core))
    header = emit(made, "net", Origin("net.tflite", "0")).files["net_weights.h"]
    assert constant_bytes(made) == bytes_in_header(header)


@pytest.mark.parametrize("values", [[-(1 << 63), (1 << 63) - 1, -(1 << 31), 0], []], ids=["limits", "none"])
def test_every_constant_output_compiles(values: list[int], tmp_path: Path) -> None:
    """C has no literal for the minimum of int64, and no empty array."""
    chain = tiny.chain()
    known = Tensor("known", (len(values),), "int64", None, np.array(values, np.int64), "constant")
    graph = replace(chain, tensors={**chain.tensors, "known": known}, outputs=(*chain.outputs, "known"))
    made = plan(graph)
    source = source_of(graph, made)
    write(source, tmp_path)
    compile_strictly(toolchain.host(), tmp_path / f"{graph.name}.c")
    assert constant_bytes(made) == bytes_in_header(source.files[f"{graph.name}_weights.h"])


def test_words_are_hexadecimal_beside_the_header_that_describes_them() -> None:
    text = c.array("uint32_t", "w", np.array([[1, 0xFEDCBA98]], np.uint32), "tw_line.h")
    assert text == "/* [1][2], layout: tw_line.h */\nstatic const uint32_t w[2] = {0x00000001, 0xfedcba98};\n"


@pytest.mark.parametrize("digits", range(1, 12))
def test_lines_of_an_array_are_filled(digits: int) -> None:
    values = np.full(400, 10 ** (digits - 1))
    for count in (1, 2, 9, 10, 11, 12, 400):
        first, *rest = c.array("int64_t", "name", values[:count]).splitlines()
        if not rest:
            assert len(first) <= c.WIDTH and re.findall(r"\d+", first.partition("{")[2]) == [str(values[0])] * count
            continue
        assert len(f"{first}{', '.join(['0' * digits] * count)}}};") >= c.WIDTH, "one line would do"
        *full, last, end = rest
        assert end == "};" and sum(line.count(",") for line in (*full, last)) == count
        for line in full:
            assert len(line) < c.WIDTH <= len(line) + digits + 2
        assert len(last) <= max(map(len, full), default=c.WIDTH)

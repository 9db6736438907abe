"""Custom ops of a .tflite file are read only for op kinds that TFLite lacks; damaged options are refused."""

from __future__ import annotations

import numpy as np
import pytest

from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, verify
from tinyweave.tflite_schema import MAX_CUSTOM, custom_options

Q = Quant((0.5,), (3,))
SOFTPLUS = Op("softplus_0", "softplus", ("x",), ("y",), {"beta": 2.0, "threshold": 20.0})
OPTIONS = custom_options(SOFTPLUS)


def file_of(op: Op) -> bytes:
    return to_tflite(verify(Graph("net", {name: Tensor(name, (1, 4), "int8", Q) for name in "xy"}, (op,), ("x",), ("y",))))


def refuses(changed: bytes, *words: str) -> None:
    with pytest.raises(CompileError) as error:
        from_tflite(changed, "net")
    assert all(word in str(error.value) for word in words), error.value


def test_damaged_custom_options_are_refused_or_read() -> None:
    file, refused = file_of(SOFTPLUS), 0
    assert file.count(OPTIONS) == 1 and len(OPTIONS) <= MAX_CUSTOM
    for position in range(len(OPTIONS)):
        for value in (0, 1, 2, 0x26, 0x7F, 0x80, 0xFE, 0xFF):
            changed = OPTIONS[:position] + bytes([value]) + OPTIONS[position + 1 :]
            try:
                graph = from_tflite(file.replace(OPTIONS, changed), "net")
            except CompileError:
                refused += 1
            else:
                assert set(graph.ops[0].attrs) == {"beta", "threshold"}
    assert refused


def test_options_without_an_attribute_or_with_nan_are_refused() -> None:
    file, number = file_of(SOFTPLUS), np.float32(2).tobytes()
    refuses(file.replace(b"beta", b"beat"), "softplus_0", "has custom options that cannot be read")
    refuses(file.replace(OPTIONS, OPTIONS.replace(number, np.float32(np.nan).tobytes())), "softplus_0", "'beta': nan")


def test_an_op_with_a_missing_or_non_float32_attribute_is_not_written() -> None:
    for attrs, words in (
        ({"beta": 1.0}, "lacks the attribute 'threshold'"),
        ({"beta": 0.1, "threshold": 1.0}, "not a float32"),
    ):
        with pytest.raises(CompileError, match=words):
            file_of(Op("softplus_0", "softplus", ("x",), ("y",), attrs))


def test_only_kinds_that_tflite_lacks_are_custom_ops() -> None:
    file = file_of(SOFTPLUS)
    refuses(file.replace(b"tinyweave.softplus", b"tinyweave.logistic"), "custom tinyweave.logistic are not supported")
    refuses(
        file.replace(b"tinyweave.softplus", b"anyframew.softplus"),
        "custom anyframew.softplus are not supported: the file does not",
    )
    named, vela = (len(name).to_bytes(4, "little") + name for name in (b"tinyweave.softplus", b"ethos-u"))
    vela = file.replace(named, vela.ljust(len(named), b"\0"))
    refuses(vela, "the file was compiled for an accelerator; give the original file")

"""Messages between processes: JSON, followed by the contents of bytes and arrays. Reading a message executes no code.

Data: None, numbers, text, bytes, arrays, and lists, tuples and dicts of these; tuples other than dict keys become lists, numpy
scalars arrays. A message is the lengths of the JSON and of the contents as int64, the JSON, the contents. Processes that import
nothing of tinyweave load this file by its path.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

HEAD = struct.Struct("=qq")
MOST_BYTES = 1 << 34


def encode(value: Any) -> bytes:
    """Return the message that encodes a value: None, numbers, text, bytes, arrays, or lists, tuples and dicts of these."""
    rest: list[bytes] = []
    text = json.dumps(_plain(value, rest)).encode()
    return b"".join((HEAD.pack(len(text), sum(map(len, rest))), text, *rest))


def decode(read: Callable[[int], bytes]) -> Any:
    """Read one message by `read(n)` and return its value; raise EOFError if it is cut short, ValueError if it is none."""
    sizes = HEAD.unpack(_exactly(read, HEAD.size))
    if not all(0 <= size <= MOST_BYTES for size in sizes):
        raise ValueError("not a message: its length is out of range")
    text, rest = (_exactly(read, size) for size in sizes)
    try:
        return _value(json.loads(text), rest)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a message: {error}") from error


def _exactly(read: Callable[[int], bytes], count: int) -> bytes:
    data = read(count)
    if len(data) != count:
        raise EOFError
    return data


def _plain(value: Any, rest: list[bytes]) -> Any:
    """Convert a value to JSON's types: bytes and arrays to (begin, end) in `rest`, dicts to pairs, as keys may be no text."""
    if isinstance(value, dict):
        return {"pairs": [[key, _plain(item, rest)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_plain(item, rest) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": _place(bytes(value), rest)}
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.hasobject:
            raise ValueError("an array of objects cannot be sent")
        return {"array": _place(np.ascontiguousarray(value).tobytes(), rest), "dtype": value.dtype.str, "shape": value.shape}
    return value


def _place(data: bytes, rest: list[bytes]) -> list[int]:
    start = sum(map(len, rest))
    rest.append(data)
    return [start, start + len(data)]


def _value(plain: Any, rest: bytes) -> Any:
    if isinstance(plain, list):
        return [_value(item, rest) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if "pairs" in plain:
        return {tuple(key) if isinstance(key, list) else key: _value(item, rest) for key, item in plain["pairs"]}
    if "bytes" in plain:
        return rest[slice(*plain["bytes"])]
    return np.frombuffer(rest[slice(*plain["array"])], plain["dtype"]).reshape(plain["shape"])

"""The file <m>.weights: all constants of a model outside of its C, so that they can be replaced without building the C again.

Little-endian: the words MAGIC, FORMAT, bytes of the file, CRC-32 of the bytes from 16 on; the hash of the C; the SHA-256 of the
bytes from HEAD_BYTES on; then the arrays, first that of inputs and outputs (`end_words`). The kernel tw_weights.c checks it,
without the SHA-256, which is for an updater.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterable

from ..planning import FILE_HEAD, file_offsets
from .layer import Constants

MAGIC, FORMAT, HEAD_BYTES = b"TWWF", 1, FILE_HEAD
PLAN_WORDS = "PLAN_WORDS"  # in C whose hash is not known yet


def offsets(constants: Constants) -> dict[str, int]:
    """Return C name of each array -> its offset in the file; the key "" has the bytes of the file."""
    return file_offsets((name, values.nbytes, max(4, values.itemsize)) for name, values, _ in constants.arrays.values())


def without_comments(text: str) -> str:
    """Return C text without its comments, which name the model's file: they may differ between equal programs."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def hash_of(texts: Iterable[str]) -> bytes:
    """Return the hash, of 16 bytes, of the C that a file belongs to; comments do not count."""
    return hashlib.sha256("".join(map(without_comments, texts)).encode()).digest()[:16]


def words_of(plan: bytes) -> str:
    """Return the C initialisers of a hash, as words of a little-endian core."""
    return ", ".join(f"0x{word:08x}" for word in struct.unpack("<4I", plan))


def content(constants: Constants, plan: bytes) -> bytes:
    """Return the contents of the file; `plan` is the hash of the C."""
    places = offsets(constants)
    body = bytearray(places[""] - HEAD_BYTES)
    for name, values, _ in constants.arrays.values():
        at = places[name] - HEAD_BYTES
        body[at : at + values.nbytes] = values.astype(values.dtype.newbyteorder("<")).tobytes()
    rest = plan + hashlib.sha256(body).digest() + body
    return MAGIC + struct.pack("<3I", FORMAT, places[""], zlib.crc32(rest)) + rest

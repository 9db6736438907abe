"""The functions that the headers of the kernels declare, also those that they declare by macros."""

from __future__ import annotations

import re

from tinyweave.kernels.table import FILES

MACROS = re.findall(r"^#define (TW_DECLARE_\w+)\(kernel, params\)((?:.*\\\n)+.*)", FILES["tw.h"].read_text(), re.MULTILINE)


def declarations(header: str) -> str:
    """Return the text of a header with each TW_DECLARE macro replaced by the functions that it declares."""
    text = FILES[header].read_text()
    for name, body in reversed(MACROS):  # a later macro may use an earlier one
        lines = "\n".join(line.strip(" \\") for line in body.splitlines()[1:])
        lines = lines.replace("kernel##", r"\1").replace("kernel", r"\1").replace("params", r"\2")
        text = re.sub(rf"^{name}\((\w+), (\w+)\)", lines, text, flags=re.MULTILINE)
    return text

"""Write tinylesson/planned.json: figures of the explorer's page that need plans of large networks.

In: nothing. Out: the file; see tinylesson/planned.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import tinylesson as explorer
from tinylesson.planned import figures


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    path = Path(explorer.__file__).with_name("planned.json")
    path.write_text(json.dumps(figures(), separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} B")
    return 0


if __name__ == "__main__":
    sys.exit(main())

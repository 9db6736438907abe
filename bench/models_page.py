"""Write docs/MODELS.md: what public int8 networks need, and on which boards they run.

In: a folder of .tflite files with index.json, which names the source and the licence of each (--models). Out: a line of JSON
per network in models.jsonl beside this script, and the page that is made of them. A network whose line is there is not measured
again. Each is built and run on the emulated cores of BOARDS, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from models import ROOT
from other_engines import tflite_micro_arena

from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.ops import macs_original
from tinyweave.planning import Request
from tinyweave.support.files import write_file

RESULTS, PAGE = ROOT / "bench" / "models.jsonl", ROOT / "docs" / "MODELS.md"
# board -> the head of its column; the columns RAM and Flash are of the first board
BOARDS = {"nrf52840": "M4", "rp2350": "M33", "stm32h743": "M7", "stm32n657": "M55"}
LIMIT_S = 1800  # of a network
TASKS = {  # expression for the name of a file -> task; the first that is found
    "wake-word|str_ww": "wake words",
    "vad": "voice activity",
    "kws|keyword|speech|ds_cnn|cnn_s": "keywords",
    "miniresnet": "sounds",
    "dtln|preprocessor": "audio",
    "ad01|ToyCar": "anomalies",
    "magic_wand|gmp_wl|ign_wl": "gestures",
    "ssd|yolo|palm_detection|dperson": "detection",
    "landmarks|movenet": "pose",
    "deeplab": "segmentation",
    "vww|wv_|VWW|wake_vision|Wake_Vision|hps_|shared_2022|_pdti8|submission|swiftnet|ColabNAS": "person or not",
    "mnist|qnn_model": "digits",
    "": "images",
}
LICENCES = ("Apache-2.0", "MIT", "Zlib", "BSD-3-Clause", "GPL")
WORDS = """# Public networks

What {count} public int8 networks need, each as `tinyweave deploy FILE --device nrf52840` compiles the file, built by {compiler}
and run on emulated cores. The files are not part of the project: a name links to the file at its source.

- Sizes are KiB. RAM: arena, stack and static data. Least: the arena with `--optimize size --io int8`. By rows: the same with
  `--stream-inputs`, if the input need not lie in RAM as a whole.
- TFLite Micro: its arena for the same file, as its Python package tells it, on a machine of 64 bits, whose structures are
  larger than on a microcontroller; a dash if TFLite Micro refuses the file.
- Milliseconds: {boards}. They are estimated from counted instructions ([how, and how far off](TIME.md)).
- Smallest board: that with the least RAM of `tinyweave devices` whose RAM and Flash hold the program.

On the site a click on a column's head sorts the rows, and the field above the table filters them.

`bench/models_page.py --models DIR` measures the networks and writes this page.
"""
HEAD = ("network", "task", "M MACs", "RAM", "least", "by rows", "TFLite Micro", "Flash", *BOARDS.values(), "smallest board")


def measured(path: Path, micro: str | None) -> dict[str, Any]:
    """Return the line of a network; one that is refused has the reason instead of figures."""
    line: dict[str, Any] = {"file": path.name}
    try:
        model = api.load(path)
        fits = api.compare_boards(model, Request(), [find(name) for name in BOARDS])
        profile = fits[0].profile
        known = [board for board in api.boards_that_fit(profile) if board.ram and board.flash]
        line |= {"macs": macs_original(model.original), "ram": profile.ram, "flash": profile.flash}
        times = [fit.profile.latency_ms(fit.device) for fit in fits]
        compiler = re.sub(r" \(.*?\)| \d{8}", "", (profile.compiler or "").split(": ")[0])  # without its build and flags
        line |= {"ms": [time and round(time, 3) for time in times], "compiler": compiler}
        line["board"] = min(known, key=lambda board: (board.ram, board.flash)).name if known else None
        narrow = api.load(path, io="int8")
        line["least"] = sum(api.plan(narrow, optimize="size").arena.values())
        try:
            line["by rows"] = sum(api.plan(narrow, optimize="size", stream_inputs=True).arena.values())
        except CompileError:
            line["by rows"] = None  # the whole input is needed at once
        line["TFLite Micro"] = tflite_micro_arena(path, micro) if micro else None
    except CompileError as error:
        line["refused"] = re.split("; op |; '", str(error))[0]
    except SystemExit:  # TFLite Micro refuses the file
        line["TFLite Micro"] = None
    return line


def line_of(path: Path, micro: str | None) -> dict[str, Any]:
    """Return the line of a network from a process of its own."""
    command = [sys.executable, __file__, "--one", str(path), *(["--tflite-micro", micro] if micro else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        sys.exit(f"{path.name}: {done.stderr[-2000:]}")
    line: dict[str, Any] = json.loads(done.stdout)
    return line


def row(line: dict[str, Any], source: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a network."""
    repository, path = source["repo"], source["path"]
    licence = next((each for each in LICENCES if each in source["licence"]), "no licence stated")
    owner = repository.split("/", 1)[1]
    name = f"[{Path(path).stem}](https://{repository}/blob/{source['commit']}/{path}), {owner}, {licence}"
    task = next(task for pattern, task in TASKS.items() if re.search(pattern, line["file"]))
    sizes = (
        f"{line[key] / 1024:,.1f}" if line.get(key) else "–" for key in ("ram", "least", "by rows", "TFLite Micro", "flash")
    )
    times = (f"{ms:,.{2 if ms < 10 else 1 if ms < 100 else 0}f}" if ms else "–" for ms in line["ms"])
    return name, task, f"{line['macs'] / 1e6:,.3g}", *sizes, *times, line["board"] or "none"


def page(lines: list[dict[str, Any]], index: dict[str, dict[str, Any]]) -> str:
    """Return the page: a table of the networks by task and RAM, then those that are refused."""
    made = sorted((line for line in lines if "refused" not in line), key=lambda line: line["ram"])
    rows = sorted((row(line, index[line["file"]]) for line in made), key=lambda cells: cells[1])  # stable: by RAM in a task
    boards = (
        f"{label} is {find(name).core.title()} at {find(name).clock_hz / 1e6:g} MHz (`{name}`)"
        for name, label in BOARDS.items()
    )
    compiler = " and ".join(sorted({line["compiler"] for line in made}))
    text = WORDS.format(count=len(rows), compiler=compiler, boards=", ".join(boards))
    rule = ("---", "---", *["--:"] * 10, "---")
    text += "\n".join(["", *(f"| {' | '.join(cells)} |" for cells in (HEAD, rule, *rows))])
    refused = [f"- {line['file']}: {line['refused']}" for line in lines if "refused" in line]
    return f"{text}\n\n## Refused\n\n" + "\n".join(refused) + "\n" if refused else f"{text}\n"


def main() -> int:
    """Measure what has no line, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--tflite-micro", metavar="PYTHON", help="a Python that has the package tflite-micro")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.tflite_micro)))
        return 0
    sources = json.loads((options.models / "index.json").read_text())
    index = {
        each["file"]: each for each in sources if each["repo"].startswith("github.com") and {*each["act_types"]} != {"FLOAT32"}
    }
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    for name in sorted(index.keys() - {line["file"] for line in lines}):
        lines.append(line_of(options.models / name, options.tflite_micro))
        write_file(RESULTS, "".join(f"{json.dumps(line)}\n" for line in lines))
        print(lines[-1], flush=True)
    write_file(PAGE, page(lines, index))
    return 0


if __name__ == "__main__":
    sys.exit(main())

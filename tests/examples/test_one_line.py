"""Scripts of bench/ with a missing package or faulty input end with a one-line error and exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
# runs each named script with --help while optional packages cannot be imported, and prints its error
RUN = """
import io, runpy, sys
from contextlib import redirect_stderr, redirect_stdout
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
OPTIONAL = set("torch torchao onnx onnxruntime PIL ray unicorn capstone elftools ai_edge_litert".split())
sys.meta_path.insert(0, Nothing())
kept, known = [*sys.path], {*sys.modules}
for path in sys.argv[1:]:
    sys.argv, sys.path[:] = [path, "--help"], [path.rpartition("/")[0], *kept[1:]]
    sys.excepthook, said, code = sys.__excepthook__, io.StringIO(), 0
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            try:
                sys.excepthook(type(error), error, error.__traceback__)
                code = 1
            except SystemExit as end:
                code = end.code
    lines = said.getvalue().splitlines()
    if code and (code, len(lines)) != (2, 1):
        print(path, code, lines[-1:])
    if code:
        print("needs", lines[0].split(": ")[1].split()[4])
    for name in {*sys.modules} - known:
        if not name.startswith("tinyweave") and str(getattr(sys.modules[name], "__file__", "")).startswith(BENCH):
            del sys.modules[name]
"""


def test_scripts_name_a_missing_package_in_one_line() -> None:
    scripts = [str(path) for path in sorted(BENCH.rglob("*.py")) if "__main__" in path.read_text()]
    code = f"BENCH = {str(BENCH)!r}\n{RUN}"
    done = subprocess.run([sys.executable, "-c", code, *scripts], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.stderr == "" and all(line in ("needs torch,", "needs PIL,", "needs elftools,") for line in lines), lines
    assert len(lines) >= 7


def test_faulty_input_is_refused_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH / "code_size.py"), "kws", "--models", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"code_size.py: cannot read '{tmp_path}/mlcommons__tiny__kws_ref_model.tflite': No such file")

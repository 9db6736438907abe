"""The pages of docs/ and the README build without a warning, and every code block runs and prints the documented output.

The `sh` and `python` blocks of a page run in order, in a folder with small networks under the page's names; the `text` block
after a block is its output. `c` blocks are compiled. `pages.py` describes the marks of other blocks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import typer
import yaml
from cases import tiny
from cases.as_float import float_case
from cases.browser import browse, screenshot
from cases.frames import wake_word
from cases.ops import Case
from cases.strict import c99
from pages import ABOVE, FENCE, FIGURES, OF_PAGE, PAGES, ROOT, Block, blocks, commands, measured_alike, same, words_of
from test_verbs import notebook_output

import tinyweave as tw
from tinylesson.networks import five_layers
from tinynas.network import to_graph
from tinynas.settings import parsed, settable
from tinynas.tasks.features import log_mel
from tinynas.tasks.listening import c_files
from tinyweave.cli import main
from tinyweave.cli.commands import app
from tinyweave.cli.options import BAD_INPUT, DIFFERS, DOES_NOT_FIT
from tinyweave.exporters.tflite import to_tflite
from tinyweave.report.schema import SCHEMA
from tinyweave.support import toolchain

CHECKED = {"sh", "python", "c"}  # other languages have their own tests: tests/devices, tests/test_guarding, tests/tinynas
# commands that install packages are not run; tests/support/test_installing.py checks them
INSTALLS = re.compile(r"(python3 -m venv \S+( && )?)?(\S*pip install .+)?")
# the outputs of these commands have figures that depend on a C compiler
BUILDS = {"verify", "profile", "deploy", "compare", "guard"}
NEEDS = {
    **dict.fromkeys(("README.md", "DEPLOY.md"), ("onnx", "PIL")),
    "ONNX.md": ("torch", "onnx", "onnxscript"),
    "PYTORCH.md": ("torch",),
    "STREAMING.md": ("torch",),
}
PICTURE = ROOT / "docs" / "images" / "report.png"
NOT_RUN = 9  # number of blocks marked as not run

# functions of the reader, and callers of the listening example in FIRMWARE.md
OURS = """#include <stdint.h>
int32_t sd_card_read(void *, uint8_t *, int32_t);
int camera_rows(int32_t, int32_t, void *);
int display_rows(int32_t, int32_t, const void *);
void read_features(int8_t *, int32_t);
"""


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs mkdocs: pip install '.[docs]'")
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]  # --quiet would hide its warnings
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (site / "files" / "tinyweave" / "report" / "schema.json").is_file()
    links = [
        (page, *link)
        for page in site.rglob("index.html")
        for link in re.findall(r'(?:href|src)="(?!\w+:|/)([^"#]*)#?([^"]*)"', page.read_text())
    ]
    assert len(links) > 1000
    for page, path, anchor in links:
        target = page.parent / unquote(path) if path else page
        target = target / "index.html" if target.is_dir() else target
        assert target.is_file(), f"{page.relative_to(site)} links to {path}"
        assert not anchor or f'id="{unquote(anchor)}"' in target.read_text(), f"{page.relative_to(site)}: {path}#{anchor}"
    names = re.findall(r'<h3 id="[\w.]*\b(\w+)" class="doc doc-heading">\s*tw\.\1\b', (site / "API" / "index.html").read_text())
    assert sorted(names) == tw.__all__, "the reference has each public name once"
    agents = (site / "llms.txt").read_text()
    assert all((site / path.partition("#")[0]).exists() for path in re.findall(r"\]\(([^)]+)\)", agents))
    assert agents.startswith("# tinyweave") and "`doctor`" in agents and "- [Deploy a model](DEPLOY/): " in agents
    assert "&lt;!--" not in "".join(page.read_text() for page in (tmp_path / "site").rglob("index.html")), "marks are not shown"
    deploy = (tmp_path / "site" / "DEPLOY" / "index.html").read_text()
    assert (tmp_path / "site" / "site.css").is_file() and 'href="../site.css"' in deploy
    inline = re.findall(r"<code>([^\n]*?)</code>", deploy)
    assert not [code for code in inline if re.search(r"(?<![\w>-])--\w", code)], "an option in a sentence is not broken"


def test_every_page_is_in_the_navigation() -> None:
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text())
    listed = re.findall(r"[\w]+\.md", yaml.dump(yaml.safe_load(text)["nav"]))
    assert sorted(listed) == sorted(["API.md", *(page.name for page in PAGES if page.parent == ROOT / "docs")])


def test_every_block_is_checked_or_its_mark_says_why_not() -> None:
    """Also: marks are spelt correctly, a named test reads the page, and blocks that are not run are printed."""
    every = [block for page in PAGES for block in blocks(page)]
    assert len([block for block in every if block.language in CHECKED]) > 80
    not_run = [block for block in every if block.mark[0] == "not run:"]
    print(*(f"{block.place}: {block.mark[1]}" for block in not_run), sep="\n")
    of_shell = [(block.place, command) for block in every if block.language == "sh" for command in commands(block)]
    print(*(f"{place}: it installs: {command}" for place, command in of_shell if INSTALLS.fullmatch(command)), sep="\n")
    assert len(not_run) == NOT_RUN
    for page in PAGES:
        comments = re.findall(r"<!--.*?-->", page.read_text(), re.DOTALL)
        tables = FIGURES.findall(page.read_text())
        comments = [comment for comment in comments if not comment.startswith(("<!-- figures of ", "<!-- canvas "))]
        assert len(tables) == page.read_text().count("<!-- figures of "), f"figures of {page.name} stand in no table"
        used = [block.mark for block in blocks(page) if block.mark[0] != "run"]
        assert all(OF_PAGE.fullmatch(comment) or ABOVE.fullmatch(f"{comment}\n") for comment in comments), page.name
        assert len(used) >= len(comments), f"a mark of {page.name} stands above no block"
    for block in every:
        how, where = block.mark
        assert block.language != "text" or how != "run", f"{block.place}: text that nothing prints"
        if how == "run by":
            for test in where.split(", "):
                assert block.page.name in (ROOT / test).read_text(), f"{block.place}: {test} does not read the page"
        if how == "excerpt of":
            _check_excerpt(block, ROOT / where)


@cache
def verbs() -> dict[str, Any]:
    """Return the commands of the command line by name."""
    app.find()
    return typer.main.get_command(app).commands  # type: ignore[attr-defined, no-any-return]


def _check_excerpt(block: Block, file: Path) -> None:
    """Check that each line of an excerpt is in the file; `...` matches omitted lines."""
    there = {_plain(line) for line in file.read_text().splitlines()}
    lines = [_plain(part) for line in block.text.splitlines() for part in line.split("...")]
    wrong = [line for line in lines if line and line not in there]
    assert not wrong, f"{block.place}: not in {file.name}: {wrong}"


def _plain(line: str) -> str:
    return re.sub(r"\s+#.*", "", line).strip().rstrip(",")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    """Commands in blocks are checked completely, commands in the text by their name and options."""
    for block in blocks(page):
        for command in commands(block) if block.language == "sh" else ():
            if command.startswith("tinyweave "):
                words = words_of(command.partition(" > ")[0])[1:]
                given = verbs()[words[0]].make_context(words[0], words[1:]).params
                if given.get("settings"):
                    parsed(given["settings"], given["task"], trains=words[0] == "train")  # or raises CompileError
    assert set(re.findall(r"`--set (\w+)", page.read_text())) <= set(settable())
    for text in re.findall(r"`tinyweave ([a-z][^`]+)`", FENCE.sub("", page.read_text())):
        verb, *words = text.split()
        known = {name for option in verbs()[verb].params for name in (*option.opts, *option.secondary_opts)}
        assert {word for word in words if word[0] == "-" and word[1:]} <= known | {"--help"}, text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_options_of_scripts_on_a_page_exist(page: Path) -> None:
    for script, options in re.findall(r"`((?:bench|examples)/[\w/]+\.py)((?: [^`]+)?)`", page.read_text()):
        text = "".join(path.read_text() for path in (ROOT / script).parent.glob("*.py"))
        for option in re.findall(r"--[a-z][a-z-]+", options):
            assert f'"{option}"' in text, f"{page.name}: {script} has no {option}"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the project's example, and small networks and records for the other names on pages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name in ("digits.tflite", "inputs.npy"):
        shutil.copy(ROOT / "examples" / "keywords" / name, tmp_path)
    chain = tiny.chain()
    Path("kws.tflite").write_bytes(to_tflite(chain))
    Path("vww.tflite").write_bytes(to_tflite(to_graph("vww", *five_layers(32, 0.5))))
    Path("wake.tflite").write_bytes(to_tflite(wake_word()))
    Path("kws_float.tflite").write_bytes(to_tflite(float_case(Case("chain", chain, [])).graph))
    Path("speech").mkdir()
    np.save("speech/0.npy", np.random.default_rng(0).uniform(0, 5, (8, 8, 1)).astype(np.float32))
    np.save("samples.npy", np.random.default_rng(0).standard_normal((16, 3, 32, 32), np.float32))
    return tmp_path


def photographs() -> None:
    """Write a float network for images as ONNX, and a folder of them."""
    from onnx import TensorProto, helper, numpy_helper, save
    from PIL import Image

    rng = np.random.default_rng(0)
    shapes = {"w": (4, 3, 3, 3), "b": (4,)}
    weights = [numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["map"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["map"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["scores"]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in {"image": (1, 3, 16, 16), "scores": (1, 4)}.items()
    ]
    made = helper.make_model(helper.make_graph(nodes, "net", *ends, weights), opset_imports=[helper.make_opsetid("", 13)])
    save(made, "net.onnx")
    Path("photos").mkdir()
    for number in range(8):
        Image.fromarray(rng.integers(0, 256, (20, 24, 3), np.uint8)).save(f"photos/{number}.png")


def in_shell(command: str) -> str:
    """Run a command with bash; `tinyweave` and `python` are those of the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = ["bash", "-e", "-o", "pipefail", "-c", command]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(ran, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def run_commands(block: Block, capsys: pytest.CaptureFixture[str]) -> tuple[str, bool]:
    """Run the commands of a block; return their output, and whether it depends on a compiler."""
    printed, built = "", False
    for command in commands(block):
        words = words_of(command)
        if INSTALLS.fullmatch(command):
            continue
        if words[0] != "tinyweave":
            if shutil.which(words[0]) is None:
                pytest.skip(f"{block.place} needs {words[0]}")
            printed += in_shell(command)
            continue
        until = words.index(">") if ">" in words else len(words)
        capsys.readouterr()
        code = main(words[1:until])
        out, err = capsys.readouterr()
        fails = block.prints is not None and "\ndoes not fit" in block.prints
        assert code == int(fails), (block.place, command, err)
        built |= words[1] in BUILDS
        if ">" in words:
            Path(words[until + 1]).write_text(out)
        else:
            printed += out
    return printed, built


def rewrite(block: Block, printed: str) -> None:
    """Replace the documented output on the page."""
    assert block.prints is not None
    text = block.page.read_text()
    place = text.index(block.text)
    at = text.index(block.prints, place)
    block.page.write_text(text[:at] + printed + text[at + len(block.prints) :])


@pytest.mark.emulator
@pytest.mark.filterwarnings("ignore")  # of torch's exporter
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_print_the_documented_output(
    page: Path, scratch: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest, emulator: None
) -> None:
    for needed in NEEDS.get(page.name, ()):
        pytest.importorskip(needed, reason=f"needs {needed}: pip install {needed}")
    if page.name in ("README.md", "DEPLOY.md"):
        photographs()
    names: dict[str, Any] = {}
    update = request.config.getoption("--update-golden")
    for block in blocks(page):
        if block.mark[0] != "run" or block.language not in {"sh", "python", "toml"}:
            continue
        if block.language == "toml":
            if named := re.match(r"# (\S+\.toml)\n", block.text):
                Path(named[1]).write_text(block.text)
            continue
        printed, built = (
            (notebook_output(block.text, names), False) if block.language == "python" else run_commands(block, capsys)
        )
        if block.prints is None:
            assert block.language == "sh" or not printed, f"{block.place} prints {printed}"
        elif not same(block.prints, printed, not built or measured_alike()):
            if update and "\n...\n" not in block.prints:
                rewrite(block, printed)
            else:
                assert block.prints == printed, block.place


def shown_figures(printed: str) -> list[str]:
    """Return the figures of a printed verdict as the top of a report shows them: RAM, Flash and milliseconds, 58.0 as 58."""
    found = re.search(r"^  RAM +([\d,]+) .*?^  Flash +([\d,]+) .*?, ([\d.]+) ms \(", printed, re.MULTILINE | re.DOTALL)
    assert found, printed
    return [f"{found[1]} B", f"{found[2]} B", f"{found[3].removesuffix('.0')} ms"]


def with_description(picture: bytes, text: str) -> bytes:
    """Return a PNG file with a text, as a chunk after the header."""
    chunk = b"tEXtDescription\0" + text.encode("ascii")
    return picture[:33] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + picture[33:]


def test_the_picture_of_the_readme_has_the_figures_of_its_text(
    scratch: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """The picture names its figures as a PNG's description. With --update-golden it is made from the report of the README."""
    (block,) = (block for block in blocks(ROOT / "README.md") if block.prints and "fits nrf52840" in block.prints)
    if request.config.getoption("--update-golden") and measured_alike():
        figures, report = shown_figures(run_commands(block, capsys)[0]), (scratch / "out" / "digits" / "report.html").as_uri()
        assert all(figure in browse(report, scratch, 3000) for figure in figures)
        screenshot(report, scratch / "report.png", scratch, 1100, 1000)
        pillow = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install '.[images]'")
        pillow.open(scratch / "report.png").convert("RGB").quantize(128).save(scratch / "report.png", optimize=True)
        PICTURE.write_bytes(with_description((scratch / "report.png").read_bytes(), ", ".join(figures)))
        blocks.cache_clear()  # the page may have been rewritten
        return
    described = re.search(rb"tEXtDescription\0([ -~]* ms)", PICTURE.read_bytes())
    assert described, f"{PICTURE} does not name its figures: make it with pytest --update-golden"
    assert described[1].decode() == ", ".join(shown_figures(block.prints or "")), "make it with pytest --update-golden"


def headers(folder: Path) -> list[Path]:
    """Write the headers that C on pages includes: of models with one and two memories, and of sound input."""
    Path("seg.tflite").write_bytes(to_tflite(to_graph("seg", *five_layers(32, 0.25))))
    shutil.copy("kws.tflite", "network.tflite")
    streams: dict[str, Any] = {"vww": {"stream_inputs": True}, "wake": {"stream_time": 1}, "seg": {"stream_outputs": True}}
    names = ("digits", "kws", "network", *streams)
    for name in names:
        tw.compile(f"{name}.tflite", "nrf52840", out=folder / name, **streams.get(name, {}))
    tw.compile("kws.tflite", "stm32f746", out=folder / "memories")
    for name, text in {**log_mel(16000).c_files(), **c_files()}.items():
        (folder / name).write_text(text)
    return [folder, *(folder / name for name in (*names, "memories"))]


def test_the_c_of_the_pages_compiles(scratch: Path) -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language == "c" and block.mark[0] == "run"]
    assert len(found) > 6
    (scratch / "c").mkdir()
    include = [f"-I{folder}" for folder in headers(scratch / "c")]
    compiler = toolchain.host()
    own = ["-Wno-missing-prototypes", "-Wno-missing-declarations", "-Wno-unused-function", "-Wno-unused-const-variable"]
    own += ["-Wno-unused-variable", "-Wno-unused-parameter", "-Wno-sign-conversion"]
    flags = [*c99(compiler.name), *own, *include]
    for number, block in enumerate(found):
        file = scratch / "c" / f"block_{number}.c"
        file.write_text(f'{OURS}#line {block.at + 1} "{block.page.name}"\n{block.text}')
        toolchain.compile_c(compiler, [*flags, "-c", file, "-o", file.with_suffix(".o")])


TABLES = {
    f"{page.name}-{script}-{number}": (script, words, table)
    for page in PAGES
    for number, (script, words, table) in enumerate(FIGURES.findall(page.read_text()))
}
FIGURE = re.compile(r"(?<![\w.])(\d[\d,]*)(?:\.(\d+))?(?!\w)")


def figures(text: str) -> dict[str, tuple[float, float]]:
    """Return each number of a text with its value and half a unit of its last digit."""
    found = {match[0]: match for match in FIGURE.finditer(text)}
    return {each: (float(each.replace(",", "")), 0.5 * 10 ** -len(match[2] or "")) for each, match in found.items()}


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TABLES)
def test_the_figures_of_a_table_are_printed_by_its_script(name: str, shared: Path, emulator: None) -> None:
    """Each figure of the table, also in millions, is printed by the script, rounded to the digits of the table."""
    script, words, table = TABLES[name]
    if not measured_alike():
        pytest.skip("needs the compilers of the figures")
    text, folders = (
        (ROOT / script).read_text(),
        {"--models": "models", "--photos": "data/person_voc", "--times": "BOARD_TIMES.tsv"},
    )
    given = [word for option, name in folders.items() if f'"{option}"' in text for word in (option, str(shared / name))]
    done = ran(script, *words.split(), *given)
    assert missing(table, done.stdout) == [], done.stderr


@cache
def ran(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a script once for all tables with its figures."""
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.sweep
def test_ram_md_gives_the_bytes_of_deeplab_without_its_last_op(shared: Path) -> None:
    """RAM.md compares them with a streamed output."""
    model = tw.load(shared / "models" / "google-coral__test_data__deeplabv3_mnv2_dm05_pascal_quant.tflite")
    *ops, last = model.graph.ops
    named = {name for op in ops for name in (*op.inputs, *op.outputs)}
    tensors = {name: tensor for name, tensor in model.graph.tensors.items() if name in named}
    cut = replace(model, graph=replace(model.graph, ops=tuple(ops), outputs=last.inputs[:1], tensors=tensors))
    (said,) = re.findall(
        r"needs\n([\d,]+) B instead of ([\d,]+) .*?, and ([\d,]+) with", (ROOT / "docs" / "RAM.md").read_text()
    )
    needed = [
        sum(tw.plan(cut, optimize="size", stream_outputs=outputs, stream_inputs=inputs).arena.values())
        for outputs, inputs in ((True, False), (False, False), (True, True))
    ]
    assert [f"{count:,}" for count in needed] == list(said) and last.kind == "arg_max"


def missing(table: str, printed: str) -> list[str]:
    """Return the figures of a table that are not printed, except those of one digit and in the first column."""
    known = [value / unit for value, _ in figures(printed).values() for unit in (1, 1e6)]
    cells = [cell for row in table.splitlines()[2:] for cell in row.strip("|").split("|")[1:]]
    shown_there = figures(re.sub(r"`[^`]*`", "", " ".join(cells)))
    return [
        each
        for each, (x, half) in shown_there.items()
        if len(each) > 1 and all(abs(value - x) > half + 1e-9 for value in known)
    ]


def test_same_and_missing_detect_differences() -> None:
    assert same("a 1\n...\nb 2\n", "a 1\nx\ny\nb 2\n", True) and same("a 1\n...\nb 2\n", "a 1\nb 2\n", True)
    assert not same("a 1\n...\nb 2\n", "a 1\nx\nb 3\n", True) and not same("a 1\n", "a 2\n", True)
    table = "| a | b |\n|---|---|\n| 9 | 34.3 M, 1,070 B of `x 77` |\n"
    assert missing(table, "34,273,600 and 1,070") == [] and missing(table, "34,273,600 and 1,071") == ["1,070"]
    assert same("RAM  1,000  limit 2\n  host: gcc 1\n      more\n", "RAM  900  limit 2\n  host: zig\n", False)
    assert not same("RAM  1,000\nFlash  1\n", "RAM  1,000\n", False) and not same("fits x\n", "does not fit x\n", False)


def test_skill_md_names_each_command_and_the_exit_codes() -> None:
    app.find()
    every = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    text = (ROOT / "SKILL.md").read_text()
    table = text.partition("## Commands")[2].partition("##")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(every)
    without = [name for name, verb in every.items() if "--json" not in {word for each in verb.params for word in each.opts}]
    said = re.search(r"All but (.+) take `--json`", text)
    assert said and sorted(re.findall(r"`(\w+)`", said[1])) == sorted(without)
    codes = re.search(r"Exit codes: 0 done; 1 does not fit, .* 2 bad\n  input", text, re.DOTALL)
    assert codes and (DOES_NOT_FIT, DIFFERS, BAD_INPUT) == (1, 1, 2)
    assert len(text.splitlines()) < 80 and re.match(r"---\nname: tinyweave\ndescription: .{50,1024}\n---\n", text)


def test_contributing_and_changelog_name_existing_files_and_options() -> None:
    """Also in the issue templates; checked are links, paths, make targets and options."""
    app.find()
    every = typer.main.get_command(app)
    options = {name for verb in (every, *every.commands.values()) for each in verb.params for name in each.opts}  # type: ignore[attr-defined]
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(forms) == 2
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *forms):
        text = page.read_text()
        links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
        paths = re.findall(r"`((?:tinyweave|tinynas|tinylesson|tests|bench)/[\w/.]*)`", text)
        assert [path for path in (*links, *paths) if not (ROOT / path).exists() and "NAME" not in path] == [], page.name
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(re.findall(r"\bmake (setup|check|sweep|test)\b", text)) <= set(targets)
        said = set(re.findall(r"`(--[a-z][a-z-]+)", text)) - {"--json", "--help"}
        assert said <= options or page.name == "CHANGELOG.md", said - options  # it also names options that have ended
    newest = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert newest == "Unreleased" or re.fullmatch(rf"{re.escape(tw.__version__)} - \d{{4}}-\d\d-\d\d", newest)


def test_every_key_of_the_schema_is_documented_in_json_md() -> None:
    def keys(schema: Any) -> set[str]:
        inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
        own = schema.get("properties", {}) if isinstance(schema, dict) else {}
        return set(own).union(*map(keys, inner))

    known = keys(json.loads(SCHEMA.read_text()))
    assert len(known) > 200
    assert known - set(re.findall(r"\w+", (ROOT / "docs" / "JSON.md").read_text())) == set()

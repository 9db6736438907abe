"""`tinyweave export` and `tw.export`: names, versions, rewritten folders, and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from projects.export import export, model

import tinyweave as tw
from tinyweave.api.plans import estimate_flash
from tinyweave.cli import main
from tinyweave.devices import find
from tinyweave.exporters.tflite import to_tflite
from tinyweave.projects import FORMATS
from tinyweave.support.manifest import MANIFEST


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(model("chain").original))
    return path


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", FORMATS)
def test_python_and_the_command_write_the_same_files(form: str, chain: Path, tmp_path: Path) -> None:
    words = ["export", str(chain), "--format", form, "--device", "stm32f746", "-o", str(tmp_path / "a")]
    assert main(words) == 0
    written = tw.export(chain, "stm32f746", out=tmp_path / "b", format=form).files
    assert below(tmp_path / "a") == below(tmp_path / "b")
    assert {str(path.relative_to(tmp_path / "b")) for path in written} | {MANIFEST} == below(tmp_path / "b")
    emitted = tw.compile(chain, "stm32f746", out=tmp_path / "c").files
    places = {path.name: path for path in written}
    assert all(places[path.name].read_bytes() == path.read_bytes() for path in emitted), "the C is that of compile"
    readme = places["README.md"].read_text()
    profiled = "`tinyweave profile chain.tflite --device stm32f746 --compare log.txt`"
    assert len(readme.splitlines()) <= 60 and (profiled in readme) is (form != "web"), "a page measures the browser"
    assert ("**A second export in one program** has" in readme) is (form != "web")
    ((memory, size),) = tw.plan(chain, "stm32f746").arena.items()
    assert f"{size:,} B of {memory}" in readme
    (program,) = re.findall(r"```c\n(.*?)```", readme, re.DOTALL)
    comment = "".join(f" *     {line}".rstrip() + "\n" for line in program.splitlines())
    assert comment in places["chain.h"].read_text(), "the program is that of the header"
    flash = estimate_flash(tw.plan(chain, "stm32f746"), find("stm32f746"))
    assert f"chain: {flash.lower_bound:,} to {flash.upper_bound:,} B of Flash" in readme and " ms per inference" in readme


def test_the_command_prints_the_written_files_as_json(chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--package", "parts", "--package-version", "1.2.3", "--json", "-o", str(tmp_path / "a")]
    assert main(["export", str(chain), "--format", "cmake", *more]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["format"], said["package"], said["version"]) == ("cmake", "parts", "1.2.3")
    assert {Path(file).relative_to(tmp_path / "a").as_posix() for file in said["files"]} == below(tmp_path / "a")
    assert said["models"][0]["ram"]["arena"] == sum(tw.plan(chain).arena.values()) and said["removed"] == []


def test_the_profile_command_in_the_readme_has_the_options_of_the_plan(chain: Path, tmp_path: Path) -> None:
    """Otherwise the steps of a log would be compared with another plan."""
    words = "--device nrf52840 --ram 20k --optimize size --stream-inputs"
    out = ["-o", str(tmp_path / "a")]
    assert main(["export", str(chain), "--format", "riot", *words.split(), "--name", "kws", *out]) == 0
    tw.export(chain, "nrf52840", out=tmp_path / "b", format="riot", ram="20k", optimize="size", stream_inputs=True)
    for folder in ("a", "b"):
        said = (tmp_path / folder / "README.md").read_text().split("`tinyweave profile chain.tflite ")[1].split(" --compare")[0]
        assert sorted(said.split()) == sorted(words.split())


def test_the_readme_lists_inputs_and_outputs_with_their_real_values(chain: Path, tmp_path: Path) -> None:
    tw.export(chain, out=tmp_path / "a", format="riot", stream_inputs=True)
    rows = [line for line in (tmp_path / "a" / "README.md").read_text().splitlines() if line.startswith("| chain")]
    assert rows == [
        "| chain, input 0 | `image` | int8 [1, 8, 8, 1], row by row during invoke | 0.02 * (q + 128), from 0 to 5.1 |",
        "| chain, output 0 | `scores` | int8 [1, 3] | 0.00390625 * (q + 128), from 0 to 0.9961 |",
    ]


def test_the_command_in_the_readme_reproduces_the_export(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(chain.parent)
    words = "export chain.tflite --format arduino --package-version 2.0.0 --max-mac-overhead 2.0 --device nrf52840"
    assert main([*words.split(), "-o", "a"]) == 0
    command = Path("a", "README.md").read_text().split("written by `tinyweave ")[1].split("`")[0]
    assert main([*command.split(), "-o", "b"]) == 0
    one, other = ({name: Path(folder, name).read_bytes() for name in below(Path(folder))} for folder in "ab")
    assert one == other


def test_rewriting_a_folder_deletes_stale_files_only(tmp_path: Path) -> None:
    export(tmp_path, "cmake", device="cortex-m4")
    (tmp_path / "src" / "mine.c").write_text("mine")
    before = below(tmp_path)
    assert "src/tw_conv_2d_s8_dsp.c" in before or "src/tw_dsp.c" in before
    export(tmp_path, "cmake", device="cortex-m0")
    after = below(tmp_path)
    assert "src/mine.c" in after and not [name for name in after if "dsp" in name]
    assert "example/chain_example.c" in after


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "make"}, "there is no export format 'make'; formats are cmake"),
        ({"format": "cmake", "package": "Chain"}, "'Chain' cannot be the name of a package"),
        ({"format": "cmake", "package": "../up"}, "cannot be the name of a package"),
        ({"format": "cmake", "package": "if"}, "cannot be the name of a package"),
        ({"format": "cmake", "package": "a" * 49}, "cannot be the name of a package"),
        ({"format": "cmake", "package": "x\n"}, "cannot be the name of a package"),
        ({"format": "cmake", "package_version": "1.0"}, "'1.0' is no version; write three numbers"),
        ({"format": "cmake", "package_version": "01.0.0"}, "is no version"),
    ],
)
def test_a_refused_export_is_a_one_line_error_and_writes_nothing(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(tw.CompileError, match=said.replace(".", r"\.")):
        tw.export(model("chain"), out=tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_a_model_with_the_name_of_a_file_of_the_example_is_refused(tmp_path: Path) -> None:
    named = replace(model("chain"), name="kws_profile")
    with pytest.raises(tw.CompileError, match=r"a model of 'kws' has a file kws_profile\.c, as the example has"):
        tw.export(named, out=tmp_path / "a", format="riot", package="kws")
    assert not (tmp_path / "a").exists()


def test_several_models_need_a_package_name_and_distinct_file_names(tmp_path: Path) -> None:
    with pytest.raises(tw.CompileError, match="a package of several models needs a name; name it with package"):
        tw.export([model("chain"), model("residual")], out=tmp_path / "a", format="cmake")
    with pytest.raises(tw.CompileError, match="both have a file"):
        tw.export([model("chain"), model("chain")], out=tmp_path / "a", format="cmake", package="two")
    assert not (tmp_path / "a").exists()


def test_an_export_has_the_licence_of_the_kernels(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    assert (export(tmp_path, "riot") / "LICENSE").read_bytes() == (root / "LICENSE").read_bytes()


def test_a_user_board_with_the_name_of_a_qemu_board_gets_no_qemu_firmware(tmp_path: Path) -> None:
    """A device file may have any name, and its memories may differ from those of QEMU's board."""
    memory = '[[memory]]\nname = "{0}"\nkind = "{1}"\naddress = {2}\nbytes = "64k"\n'
    board = tmp_path / "board.toml"
    text = 'name = "mps2-an386"\ncore = "cortex-m4"\nclock_hz = 1000000\n'
    board.write_text(text + memory.format("tcm", "dtcm", 0x10000000) + memory.format("big", "sram", 0x20000000))
    folder = export(tmp_path / "a", "cmake", device=str(board))
    assert not (folder / "firmware").exists() and "firmware" not in (folder / "example" / "CMakeLists.txt").read_text()
    assert "in the tcm of mps2-an386 (cortex-m4)" in (folder / "place_tcm.ld").read_text()

"""Exports with weights as a file or by a callback: the examples give the reference's bytes, and the files can be replaced."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from codegen.retrained import retrained
from pages import PAGES, blocks
from projects.export import VENDORS, cmake, export, model, needs, outputs, reference, run, samples

import tinyweave as tw
from tinyweave import ops
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.projects.formats import FORMATS, RECIPES
from tinyweave.projects.linker_scripts import BOARDS

BOARD = "mps2-an386"
QEMU = f"qemu-system-arm -M {BOARD} -nographic -semihosting -kernel".split()
PAGE = next(page for page in PAGES if page.name == "WEIGHTS.md")


@pytest.mark.parametrize("network", ["chain", "residual", "edges", "stream"])
@pytest.mark.parametrize("weights", ["file", "fetch"])
def test_the_example_gives_the_reference_bytes_on_this_computer(weights: str, network: str, tmp_path: Path) -> None:
    folder = export(tmp_path, "cmake", network, weights=weights, inputs=samples(network, 2))
    cmake(folder, folder / "b")
    printed = run(folder / "b" / "example" / f"{network}_example")
    assert f"{network} sample 1" in printed and printed.endswith("every output is the reference's, byte for byte\n")


def test_firmware_runs_another_network_when_its_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the commands of WEIGHTS.md, which are those of the README: the file has a linker section of its own."""
    needs("arm-none-eabi-gcc", "qemu-system-arm", "cmake")
    monkeypatch.chdir(tmp_path)
    (block,) = (each for each in blocks(PAGE) if each.mark == ("run by", "tests/projects/test_weights.py"))
    first, configure, build, replace = block.text.replace("\\\n", "").strip().split("\n")
    given, old = samples("chain", 2), model("chain")
    for name, graph in (("kws", old.original), ("new", retrained(old.original, 1))):
        Path(f"{name}.tflite").write_bytes(to_tflite(graph))
    np.save("inputs.npy", np.stack([sample[0] for sample in given]))
    assert main([*first.split()[1:], "--inputs", "inputs.npy"]) == 0
    for command in (f"{configure} -DTW_PRINT_OUTPUTS=ON", build):
        run("sh", "-c", command)
    program = Path("build/example/kws_example.elf")
    assert re.search(r"\.tw_weights +[0-9a-f]+ +00200000 ", run("arm-none-eabi-objdump", "-h", program))
    assert outputs(run(*QEMU, program), "kws") == reference("chain", given)
    done = tw.weights("new.tflite", "firmware/src/kws_plan.json", BOARD, out="new.weights", samples=1)
    assert done.file != Path("firmware/src/kws.weights").read_bytes()
    run(*replace.split())
    readme = Path("firmware/README.md").read_text()
    assert replace.partition(" build")[0] in readme and "`-Wl,--section-start=.tw_weights=0x" in readme
    with pytest.raises(AssertionError, match="outputs DIFFER from the reference's") as error:  # of the old network
        run(*QEMU, program)
    graph = tw.load("new.tflite").graph
    right = [ops.run(graph, dict(zip(graph.inputs, sample, strict=True))) for sample in given]
    assert outputs(str(error.value), "kws") == [[each[name].tobytes() for name in graph.outputs] for each in right]


def test_the_lines_for_linker_scripts_and_assemblers_work(tmp_path: Path) -> None:
    """WEIGHTS.md has a line of MEMORY for a script of ST, and two directives with which a program holds the file."""
    needs("arm-none-eabi-gcc")
    text = PAGE.read_text()
    (region,) = re.findall(r"`(WEIGHTS \(r\) : [^`]*)`", text)
    ((incbin, align),) = re.findall(r"`(\.incbin [^`]*)` behind `([^`]*)`", text)
    script = (VENDORS / "stm32f407.ld").read_text()
    at = script.index("{", script.index("MEMORY")) + 1
    section = "SECTIONS { .tw_weights : { KEEP(*(.tw_weights)) } > WEIGHTS }"
    (tmp_path / "board.ld").write_text(f"{script[:at]}\n{region}\n{script[at:]}\n{section}")
    (tmp_path / "kws.weights").write_bytes(bytes(range(40)))
    lines = ['.section .tw_weights,"a"', ".byte 1", align, ".global kws_weights", "kws_weights:", incbin, ""]
    (tmp_path / "a.s").write_text("\n".join(lines))
    flags = "-mcpu=cortex-m4 -mthumb -nostdlib -Wl,--entry=kws_weights -T board.ld".split()
    run("arm-none-eabi-gcc", *flags, "a.s", "-o", "a.elf", cwd=tmp_path)
    assert re.search(r"^08080010 .* kws_weights$", run("arm-none-eabi-nm", tmp_path / "a.elf"), re.MULTILINE)


@pytest.mark.parametrize("form", RECIPES)
def test_each_format_has_the_file_its_plan_and_a_recipe(form: str, tmp_path: Path) -> None:
    """From all formats `tinyweave weights` makes the file again, with the C where it is."""
    folder = export(tmp_path, form, device="stm32f412", weights="file")
    (planned,), (file,) = folder.rglob("chain_plan.json"), folder.rglob("chain.weights")
    assert planned.parent == file.parent and len([*folder.rglob("chain_file.h")]) == 1
    assert tw.weights(model("chain"), planned, "stm32f412", samples=1).file == file.read_bytes()
    text = (folder / "README.md").read_text()
    assert text.count("**Weights:**") == 1 and ("not tried on a board" in text) == (RECIPES[form] != "linker")
    assert not re.search(r"@\{", text)


@pytest.mark.parametrize("form", sorted({*FORMATS} - {*RECIPES}))
@pytest.mark.parametrize("weights", ["file", "fetch"])
def test_other_formats_refuse_a_file_of_weights(weights: str, form: str, tmp_path: Path) -> None:
    with pytest.raises(
        tw.CompileError, match=f"the format '{form}' has the weights in the program; leave out weights, or give "
    ):
        export(tmp_path / "a", form, weights=weights)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("board", sorted({*BOARDS} - {BOARD}))
@pytest.mark.parametrize("weights", ["file", "fetch"])
def test_the_example_gives_the_reference_bytes_on_boards_with_several_memories(
    weights: str, board: str, tmp_path: Path
) -> None:
    needs("arm-none-eabi-gcc", "qemu-system-arm")
    folder = export(tmp_path, "cmake", device=board, weights=weights)
    cmake(folder, folder / "b", f"-DCMAKE_TOOLCHAIN_FILE={folder}/cmake/arm-none-eabi.cmake")
    printed = run(
        *f"qemu-system-arm -M {board} -nographic -semihosting -kernel".split(), folder / "b/example/chain_example.elf"
    )
    assert printed.endswith("every output is the reference's, byte for byte\n")

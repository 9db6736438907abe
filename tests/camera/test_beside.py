"""The row source of a model: its C compiles without a warning, gives the input of Python and has the reported RAM."""

from __future__ import annotations

import io
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from camera.jpeg_files import random_jpeg
from cases.strict import CPP, c99
from cases.tiny import activation, constant, graph, ramp
from jpeg_decoder import decode

import tinyweave as tw
from tinyweave import api, ops
from tinyweave.camera.emit import ram_bytes
from tinyweave.camera.row_source import input_of, pixel_values, row_source
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op
from tinyweave.planning import Limits
from tinyweave.simulate.emulated import flags_for
from tinyweave.support import toolchain

PAGE = (Path(__file__).parents[2] / "docs" / "CAMERA.md").read_text()
RUN = r"""
#include <stdio.h>
#include <string.h>
#include "vww.h"
#include "vww_source.h"
static uint8_t sram[VWW_SRAM_BYTES] __attribute__((aligned(VWW_ALIGN)));
static uint8_t picture[1 << 20];
static int32_t at, size;
#ifdef A_FILE
static int32_t read_it(void *user, uint8_t *destination, int32_t count)
{
    (void)user;
    count = count < size - at ? count : size - at;
    memcpy(destination, picture + at, (size_t)count);
    at += count;
    return count;
}
#define BEGIN(source) vww_source_begin(source, read_it, NULL, 1000000)
#else
static int32_t read_it(void *user, int32_t line, uint8_t *destination)
{
    (void)user;
    memcpy(destination, picture + line * LINE_BYTES, LINE_BYTES);
    return 0;
}
#define BEGIN(source) vww_source_begin(source, read_it, NULL)
#endif
int main(void)
{
    const vww_memory memory = {.sram = {sram, sizeof sram}};
    static vww_source source;
    const vww_io io = {.read_rows = tw_row_source_rows, .user = &source.rows};
    size = (int32_t)fread(picture, 1, sizeof picture, stdin);
    int failed = vww_init(&memory);
    for (int again = 0; again < 2 && !failed; ++again) {
        at = 0;
        failed = BEGIN(&source);
#if VWW_INPUT_0_STREAMED
        failed = failed ? failed : vww_invoke(&memory, &io);
#else
        (void)io;
        failed = failed ? failed : tw_row_source_rows(&source.rows, 0, 0, VWW_INPUT_0_DIM_1, vww_input(&memory, 0));
        failed = failed ? failed : vww_invoke(&memory, NULL);
#endif
    }
    if (failed) {
        printf("%d", failed);
        return 1;
    }
    fwrite(vww_output(&memory, 0), 1, VWW_OUTPUT_0_BYTES, stdout);
    return 0;
}
"""


def network(channels: int = 3, zero_point: int = -128) -> Graph:
    """Return a convolution of a small image."""
    tensors = [
        activation("image", (1, 10, 12, channels), 1 / 255, zero_point),
        constant("weights", ramp((4, 3, 3, channels)), (0.01,) * 4, 0),
        constant("bias", np.array([100, -50, 0, 7], np.int32), (float(np.float32(1 / 255) * np.float32(0.01)),) * 4, 0),
        activation("map", (1, 4, 5, 4), 0.02, -10),
    ]
    window = {"stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "activation": "relu"}
    return graph("vww", tensors, [Op("conv", "conv_2d", ("image", "weights", "bias"), ("map",), window)], ("image",), ("map",))


def model(folder: Path, channels: int = 3, zero_point: int = -128) -> Path:
    path = folder / "vww.tflite"
    path.write_bytes(to_tflite(network(channels, zero_point)))
    return path


def built(folder: Path, *flags: str) -> Path:
    """Compile the C of the folder with RUN, without warnings."""
    (folder / "main.c").write_text(RUN)
    compiler, ours = toolchain.host(), sorted(folder.glob("*.c"))
    toolchain.compile_c(compiler, [*c99(compiler.name), "-DTW_PLAIN_C", *flags, f"-I{folder}", *ours, "-o", folder / "run"])
    return folder / "run"


def printed_by(program: Path, picture: bytes) -> bytes:
    return subprocess.run([program], input=picture, capture_output=True, check=False).stdout


@pytest.mark.parametrize(
    ("spec", "channels", "streamed", "pixels"),
    [("yuyv:40x30:24x20+9+5", 3, True, None), ("rgb565be:14x12", 1, False, "-1..1"), ("grey:6x5", 3, True, "0..1")],
)
def test_lines_of_a_camera_give_the_outputs_of_python(
    tmp_path: Path, spec: str, channels: int, streamed: bool, pixels: str | None
) -> None:
    source = row_source(spec)
    path, folder = model(tmp_path, channels, 0 if pixels == "-1..1" else -128), tmp_path / "c"
    tw.compile(path, out=folder, source=spec, pixels=pixels, stream_inputs=streamed)
    size = {"yuyv": 2, "rgb565be": 2, "grey": 1}[source.form] * source.width
    picture = np.random.default_rng(0).integers(0, 256, size * source.height, np.uint8).tobytes()
    loaded = api.load(path)
    tensor = loaded.graph.tensors["image"]
    low, high = map(float, pixels.split("..")) if pixels else (0, 1)
    values = pixel_values(tensor.scale, tensor.zero_point, low, high)
    image = input_of(source, picture, (10, 12, channels), values)
    assert (
        printed_by(built(folder, f"-DLINE_BYTES={size}"), picture)
        == ops.run(loaded.graph, {"image": image[None]})["map"].tobytes()
    )
    (folder / "header.cpp").write_text('#include "vww_source.h"\n')
    toolchain.compile_c(toolchain.host(), [*CPP, "-c", folder / "header.cpp", "-o", tmp_path / "header.o"])


def test_a_jpeg_file_gives_the_outputs_of_python_and_another_size_an_error(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path, folder = model(tmp_path), tmp_path / "c"
    tw.compile(path, out=folder, source="jpeg:40x30", stream_inputs=True)
    program = built(folder, "-DA_FILE")
    for size, wrong in (((40, 30), b""), ((41, 30), b"-22")):
        pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
        image.fromarray(pixels).resize(size).save(stream := io.BytesIO(), "JPEG")
        output = printed_by(program, stream.getvalue())
        if wrong:
            assert output == wrong
        else:
            want = input_of(row_source("jpeg:40x30"), decode(stream.getvalue()).tobytes(), (10, 12, 3), pixel_values())
            assert output == ops.run(api.load(path).graph, {"image": want[None]})["map"].tobytes()
    assert printed_by(program, stream.getvalue()[:200]) == b"-10"


def test_a_4_4_0_jpeg_needs_too_much_memory_in_colour_but_not_in_grey(tmp_path: Path) -> None:
    """As documented in docs/CAMERA.md, 4:4:0 needs 32 bytes per pixel of the width, a source has 24, and grey needs 16."""
    file = random_jpeg((30, 64), [(2, 1), (1, 1), (1, 1)], np.random.default_rng(0))
    for channels, status in ((3, -20), (1, None)):
        path, folder = model(tmp_path, channels), tmp_path / str(channels)
        tw.compile(path, out=folder, source="jpeg:64x30", stream_inputs=True)
        output = printed_by(built(folder, "-DA_FILE"), file)
        image = input_of(row_source("jpeg:64x30"), decode(file, channels).tobytes(), (10, 12, channels), pixel_values())
        want = ops.run(api.load(path).graph, {"image": image[None]})["map"].tobytes()
        assert output == (str(status).encode() if status else want)


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("spec", "channels"), [("jpeg:70x30", 3), ("jpeg:640x480", 1), ("uyvy:42x30:9x9+1+1", 3), ("grey:7x5", 1)]
)
def test_the_struct_of_a_source_has_the_predicted_size(tmp_path: Path, spec: str, channels: int) -> None:
    path = model(tmp_path, channels)
    tw.compile(path, out=tmp_path / "c", source=spec)
    size = ram_bytes(row_source(spec), (10, 12, channels))
    assert size == api.row_source_bytes(api.load(path), spec)
    (tmp_path / "size.c").write_text(
        f'#include "vww_source.h"\nextern char right[sizeof(vww_source) == {size} ? 1 : -1];\n'
        f"extern char lines[TW_ROW_SOURCE_BYTES(TW_LINE_GREY, 7, 5, 7, 10, 12, 1) == {48 + 14} ? 1 : -1];\n"
    )
    compiler = toolchain.arm()
    flags = [*flags_for("cortex-m7", compiler), f"-I{tmp_path / 'c'}"]
    toolchain.compile_c(compiler, [*flags, "-c", tmp_path / "size.c", "-o", tmp_path / "size.o"])


def test_the_report_counts_the_ram_of_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model(tmp_path)
    command = ["compile", str(path), "--source", "jpeg:640x480", "-o", str(tmp_path / "c")]
    assert main([*command, "--json", "--ram", "16k"]) == 0
    record = json.loads(capsys.readouterr().out)
    size = record["ram"]["row_source"]
    assert size == ram_bytes(row_source("jpeg:640x480"), (10, 12, 3)) and record["fits"] is False
    assert record["excess"]["ram"] == record["ram"]["arena"] + size - 16 * 1024
    assert main(command) == 0
    assert f"row source: {size:,} B" in capsys.readouterr().out
    assert main(["compile", str(path), "--json", "-o", str(tmp_path / "d")]) == 0
    assert json.loads(capsys.readouterr().out)["ram"]["row_source"] is None


@pytest.mark.emulator
def test_deploy_reserves_the_ram_of_the_source(tmp_path: Path, emulator: None, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = model(tmp_path), tmp_path / "c"
    command = ["deploy", str(path), "--source", "jpeg:64x48", "--pixels", "0..2", "--samples", "1", "-o", str(out)]
    assert main([*command, "--json", "--ram", "64k"]) == 0
    record = json.loads(capsys.readouterr().out)
    ram, size = record["ram"], ram_bytes(row_source("jpeg:64x48"), (10, 12, 3))
    assert ram["row_source"] == size and ram["total"] == ram["arena"] + ram["static"] + ram["stack"] + size
    assert "--source jpeg:64x48 --pixels 0..2" in record["command"] and "vww_source.c" in record["digests"]
    assert f"row source | {size:,} |" in (out / "report.md").read_text()
    flash = record["flash"]
    assert flash["total"] == flash["weights"] + flash["tables"] + flash["code"] + flash["row_source"]
    assert 5_000 < flash["row_source"] < 20_000 and f"row source | {flash['row_source']:,} |" in (out / "report.md").read_text()
    tw.compile(path, out=tmp_path / "d", source="jpeg:64x48", pixels="0..2")
    written = [(tmp_path / folder / "vww_source.c").read_text() for folder in ("c", "d")]
    assert written[0] == written[1]
    assert main([*command, "--ram", str(ram["total"] - 1)]) == 0, "it is planned for what the source leaves"
    assert f"limit {ram['total'] - 1:,}" in capsys.readouterr().out
    assert main([*command, "--ram", str(size + 100)]) == 1
    assert "does not fit" in capsys.readouterr().out and ram["arena"] < size
    done = tw.deploy(path, out=tmp_path / "e", source="jpeg:64x48", pixels="0..2", samples=1, ram=ram["total"])
    tighter = replace(done, limits=Limits(done.profile.ram + size - 1, None))
    assert done.fits and tighter.excess["ram"] == 1 and done.row_source_bytes == size
    assert done.row_source_flash == flash["row_source"]
    tighter = replace(done, limits=Limits(None, flash["total"] - 1))
    assert tighter.excess["flash"] == 1 and not replace(done, limits=Limits(None, flash["total"])).excess["flash"]
    assert (tmp_path / "e" / "vww_source.h").is_file()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--source", "png:3x3"], "'png:3x3' is not a row source; write jpeg:640x480"),
        (["--source", "grey:5000x5"], "cannot become 12 x 10"),
        (["--pixels", "0..1"], "--pixels needs --source, whose pixels it describes; add --source"),
        (["--source", "grey:8x8", "--pixels", "0-1"], "--pixels 0-1 is not a range"),
        (["--source", "grey:8x8", "--pixels", "1..1"], "--pixels 1..1 is not a range"),
    ],
)
def test_faulty_sources_are_refused_in_one_line(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c"
    for verb in (["compile"], ["export", "--format", "cmake"], ["deploy"]):
        assert main([*verb, str(model(tmp_path)), *words, "-o", str(out)]) == 2
        error = capsys.readouterr().err
        assert why in error and error.count("\n") == 1 and not out.exists()


def test_an_input_of_4_channels_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model(tmp_path, 4)
    assert main(["compile", str(path), "--source", "rgb:20x20", "-o", str(tmp_path / "c")]) == 2
    assert "the input has 4" in capsys.readouterr().err


@pytest.mark.emulator
def test_the_command_and_c_of_the_camera_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model(tmp_path)
    (words,) = re.findall(r"^tinyweave (.*)$", PAGE, re.MULTILINE)
    assert main(words.split()) == 0, capsys.readouterr().err
    (code,) = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
    folder = tmp_path / "firmware" / "vww"
    declared = "static int32_t sd_card_read(void *file, uint8_t *to, int32_t count) { (void)file; (void)to; return count; }\n"
    (folder / "look.c").write_text("#include <stdint.h>\nint look(void *file);\n" + declared + code)
    compiler = toolchain.host()
    toolchain.compile_c(compiler, [*c99(compiler.name), "-c", f"-I{folder}", folder / "look.c", "-o", tmp_path / "look.o"])


def test_exports_compile_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "c"
    words = ["--format", "cmake", "--device", "mps2-an500", "--source", "jpeg:64x48", "-o", str(out)]
    assert main(["export", str(model(tmp_path)), *words]) == 0
    lists = (out / "CMakeLists.txt").read_text()
    assert all(f"src/{name}" in lists for name in ("vww_source.c", "vww_source.h", "tw_jpeg.c", "tw_jpeg_head.c", "tw_idct.c"))
    assert "--source" in (out / "tinyweave.json").read_text() and "--source" not in profile_command(out)


def profile_command(folder: Path) -> str:
    """Return the profile command in the README; `profile` has no option --source."""
    return "\n".join(line for line in (folder / "README.md").read_text().splitlines() if "tinyweave profile" in line)

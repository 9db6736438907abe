"""Files of many samples: tables, NumPy archives, .ts and .parquet files; what is wrong with one in one line."""

from __future__ import annotations

import io
import json
import sys
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import PAGES, blocks
from PIL import Image

from tinynas.tasks.dataset import advice, part_of
from tinynas.tasks.formats import parquet as hub
from tinynas.tasks.formats.reading import read_samples, sample_files
from tinynas.tasks.images import FILES, read_images
from tinynas.tasks.sensors import TABLES, read_sensors
from tinynas.tasks.sounds import read_sounds
from tinyweave.ir import CompileError

RNG = np.random.default_rng(5)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def table(path: Path, *, subjects: int = 8, rows: int = 40, separator: str = ",", extra: str = "") -> Path:
    """Write recordings of two activities by each subject: `rows` successive lines each, two channels, and a time and an id."""
    lines = [separator.join(["Time", "Subject", "X", "y", "Label", "id"])]
    for subject in range(subjects):
        for label in ("rest", "run"):
            values = RNG.normal(0, 1, (rows, 2)).round(3).astype(str)
            lines += [separator.join([str(t), f"s{subject}", *own, label, str(t)]) for t, own in enumerate(values)]
    return written(path, "\n".join(lines) + "\n" + extra)


def values_of(path: Path, suffixes: tuple[str, ...] = TABLES) -> list[Any]:
    return [sample.value for sample in read_samples(sample_files(path, suffixes)).values()]


def test_a_table_of_recordings_keeps_each_subject_in_one_part(tmp_path: Path) -> None:
    made = read_sensors(table(tmp_path / "motion.csv"), 16)
    assert made.classes == ("rest", "run") and made.values.shape == (8 * 2 * 4, 1, 16, 2)
    assert made.groups is not None and len(set(made.groups)) == 8
    assert all(len(set(made.parts[made.groups == group])) == 1 for group in range(8)), "no subject is in two parts"
    assert min(made.counts().values()) >= 8
    (warned,) = (line for line in advice(made) if "groups" in line or "1 group" in line)
    assert "the interval cannot be trusted: test on at least 5 groups" in warned


def test_the_table_of_the_page_is_one(tmp_path: Path) -> None:
    (page,) = (page for page in PAGES if page.name == "SEARCH.md")
    (block,) = (block for block in blocks(page) if block.language == "csv")
    found = read_samples([written(tmp_path / "x.csv", block.text)])
    assert [(file.label, file.group) for file in found] == [("walk", "anna"), ("sit", "ben")]
    assert next(iter(found.values())).value.tolist() == [[0.02, -0.98, 0.11], [0.05, -1.01, 0.09]]


def test_a_table_may_look_different(tmp_path: Path) -> None:
    """Semicolons, decimal commas, a byte order mark, empty lines, capitals, cells in quotes, and labels of two lines."""
    text = '\ufeffLABEL;"a";b;ID\n\nwalk;"1,5";2;k\n walk;3;4,25;k\n\n"si\x1bt\non";5;6;m\n'
    samples = read_samples([written(tmp_path / "x.csv", text)])
    assert [(file.label, file.group) for file in samples] == [("walk", "k"), ("sit on", "m")]
    assert [sample.value.tolist() for sample in samples.values()] == [[[1.5, 2.0], [3.0, 4.25]], [[5.0, 6.0]]]
    tabs = written(tmp_path / "y.tsv", "split\tx\tclass\ntrain\t1\t3\ntest\t2\t3\nval\t2\t10\n")
    found = [(file.label, file.part) for file in read_samples([tabs])]
    assert found == [("3", "train"), ("3", "test"), ("10", "validation")]


def test_an_id_that_numbers_the_lines_is_no_group(tmp_path: Path) -> None:
    lines = "".join(f"{number},{number / 2},{'a' if number < 30 else 'b'}\n" for number in range(50))
    (first, second) = read_samples([written(tmp_path / "x.csv", f"id,x,label\n{lines}")])
    assert (first.group, second.group) == ("x.csv, line 2", "x.csv, line 32")


def test_a_line_of_numbered_columns_is_one_sample(tmp_path: Path) -> None:
    """The columns are those of two channels in any order; fewer than 16 numbered columns are channels."""
    names = [f"{channel}_{number}" for number in reversed(range(20)) for channel in ("gyro", "acc")]
    rows = [f"{','.join(map(str, reversed(range(k, k + 40))))},{'ab'[k % 2]},{k % 10}" for k in range(60)]
    path = written(tmp_path / "x.csv", "\n".join([",".join([*names, "label", "subject"]), *rows]))
    assert values_of(path)[3].tolist() == [[4 + 2 * t, 3 + 2 * t] for t in range(20)]
    made = read_sensors(path, 128)
    assert made.values.shape == (60, 1, 20, 2) and made.preparation["window"] == 20
    assert made.groups is not None and len(set(made.groups)) == 10
    eight = ",".join(f"emg{number}" for number in range(8))
    moments = written(tmp_path / "y.csv", f"{eight},label\n" + "1,2,3,4,5,6,7,8,fist\n" * 30)
    assert [value.shape for value in values_of(moments)] == [(30, 8)]


def test_a_table_of_the_ucr_archive_has_no_header(tmp_path: Path) -> None:
    rows = ["\t".join(map(str, [label, *range(label, label + 20)])) for label in (2, -1)]
    samples = read_samples([written(tmp_path / "x.tsv", "\n".join(rows))])
    assert [(file.label, sample.value[:, 0].tolist()) for file, sample in samples.items()] == [
        ("2", list(range(2, 22))),
        ("-1", list(range(-1, 19))),
    ]


def test_short_series_of_the_ucr_archive_are_series(tmp_path: Path) -> None:
    samples = read_samples([written(tmp_path / "x.tsv", "1\t5\t6\t7\n0\t1\t2\t3\n")]).values()
    assert [(each.is_recording, each.value.tolist()) for each in samples] == [
        (False, [[5], [6], [7]]),
        (False, [[1], [2], [3]]),
    ]


def test_a_folder_of_tables_has_a_group_per_file(tmp_path: Path) -> None:
    for person in range(7):
        text = "x,label\n" + "1,a\n2,a\n" * 20 + "3,b\n4,b\n" * 20
        written(tmp_path / f"person{person}.csv", text)
    made = read_sensors(tmp_path, 8)
    assert made.groups is not None and len(set(made.groups)) == 7
    assert all(len(set(made.parts[made.groups == group])) == 1 for group in range(7))


def test_tables_may_be_named_as_parts(tmp_path: Path) -> None:
    for name in ("train", "test"):
        table(tmp_path / f"{name}.csv", subjects=30)
    found = read_samples(sample_files(tmp_path, TABLES))
    assert sorted({str(file.part) for file in found}) == ["test", "train", "validation"]
    assert {file.part for file in found if "test.csv" in str(file.path)} == {"test"}
    assert sum(file.part == "validation" for file in found) >= 14, "a quarter of each class, at most ten of each"


def test_short_recordings_are_left_out_if_their_class_has_others(tmp_path: Path) -> None:
    made = read_sensors(table(tmp_path / "x.csv", extra="0,s0,1,2,run,5\n" + "0,s1,1,2,rest,6\n" * 3), 16)
    assert len(made.values) == 8 * 2 * 4
    with pytest.raises(CompileError, match="has no 41 successive rows of one recording of the class 'rest'; give a"):
        read_sensors(table(tmp_path / "y.csv"), 41)
    assert len(read_sensors(tmp_path / "y.csv", 40).values) == 8 * 2


def archive(path: Path, **arrays: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path


def test_an_archive_of_series(tmp_path: Path) -> None:
    x, y, people = RNG.normal(0, 1, (60, 30, 2)), np.arange(60) % 3, np.arange(60) // 6
    made = read_sensors(archive(tmp_path / "x.npz", x=x, y=y, groups=people, classes=["zero", "one", "two"]))
    assert made.classes == ("one", "two", "zero") and made.values.shape == (60, 1, 30, 2)
    assert made.groups is not None and (made.groups[:6] == made.groups[0]).all() and len(set(made.groups)) == 10
    assert [made.parts[first] for first in range(0, 60, 6)].count(0) >= 5
    flat = read_sensors(archive(tmp_path / "y.npz", X=x[..., 0], labels=y.astype(float)[:, None]))
    assert flat.values.shape == (60, 1, 30, 1) and flat.classes == ("0", "1", "2") and flat.groups is None
    assert flat.parts[4] == ["train", "validation", "test"].index(part_of("y.npz, sample 4"))


def test_an_archive_of_images_in_parts(tmp_path: Path) -> None:
    pixels, labels = RNG.integers(0, 256, (120, 9, 8), np.uint8), np.arange(120) % 12
    path = archive(tmp_path / "x.npz", x_train=pixels, y_train=labels, test_images=pixels[:36], test_labels=labels[:36])
    made = read_images(path, (9, 8), 1)
    assert made.counts()["test"] == 36 and made.classes == tuple(map(str, range(12))), "classes are sorted as numbers"
    np.testing.assert_array_equal(made.values[0, :, :, 0], pixels[0].astype(int) - 128)
    half = read_images(path, (4, 4), 3).values[0]
    expected = Image.fromarray(pixels[0]).convert("RGB").resize((4, 4), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(half, np.asarray(expected).astype(int) - 128)


TS = "#A comment: one\n%another: 2\n@problemName Motion\n@timestamps false\n@classLabel true walk run\n@data\n"


def test_series_of_sktime(tmp_path: Path) -> None:
    for part, count in (("TRAIN", 40), ("TEST", 20)):
        lines = [f"{k},{k + 1},{k + 2}{',9' * (k % 2)}:0,0,1{',7' * (k % 2)}:{['walk', 'run'][k % 2]}" for k in range(count)]
        written(tmp_path / f"Motion_{part}.ts", TS + "\n".join(lines))
    made = read_sensors(tmp_path / "Motion_TRAIN.ts")
    assert made.classes == ("run", "walk") and made.counts()["test"] == 20 and made.counts()["validation"] >= 8
    assert made.values.shape == (60, 1, 4, 2) and (made.values[0, 0, 3] == made.values[0, 0, 2]).all(), "its last row again"
    assert values_of(tmp_path / "Motion_TRAIN.ts")[1].tolist() == [[1, 0], [2, 0], [3, 1], [9, 7]]
    assert (read_sensors(tmp_path).values == made.values[np.r_[40:60, 0:40]]).all(), "a folder is the same, by name"


def parquet(path: Path, columns: dict[str, list[Any]], features: dict[str, Any] | None = None) -> Path:
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[parquet]'")
    from pyarrow import parquet as file

    metadata = {"huggingface": json.dumps({"info": {"features": features}})} if features else None
    path.parent.mkdir(parents=True, exist_ok=True)
    file.write_table(arrow.table(columns).replace_schema_metadata(metadata), path)
    return path


def png(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((5, 5, 3), value, np.uint8)).save(buffer, "png")
    return buffer.getvalue()


def wav(seed: int) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.random.default_rng(seed).integers(-900, 900, 4000, np.int16).tobytes())
    return buffer.getvalue()


def test_images_of_the_hub(tmp_path: Path) -> None:
    """Two parts, labels that are numbers of named classes, images that are the bytes of their files."""
    features = {"image": {"_type": "Image"}, "fine_label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}
    for part, count in (("train", 60), ("test", 12)):
        columns = {
            "image": [{"bytes": png(k), "path": None} for k in range(count)],
            "fine_label": [k % 2 for k in range(count)],
        }
        parquet(tmp_path / "data" / f"{part}-00000-of-00001.parquet", columns, features)
    made = read_images(tmp_path, (4, 4))
    assert made.classes == ("cat", "dog") and made.counts()["test"] == 12 and made.counts()["validation"] >= 14
    assert made.labels[:2].tolist() == [1, 0] and made.values[5].min() == made.values[5].max() == 5 - 128


def test_recordings_and_series_of_the_hub(tmp_path: Path) -> None:
    speakers, labels = [f"s{k % 12}" for k in range(120)], ["no", "yes"] * 60
    audio = [{"bytes": wav(k), "path": f"{k}.wav"} for k in range(120)]
    made = read_sounds(parquet(tmp_path / "x.parquet", {"audio": audio, "label": labels, "speaker": speakers}), 0.25, 8)
    assert made.classes == ("no", "yes") and made.groups is not None and len(set(made.groups)) == 12
    series = RNG.normal(0, 1, (120, 20)).tolist()
    both = read_sensors(parquet(tmp_path / "y.parquet", {"x": series, "y": series, "label": labels}))
    assert both.values.shape == (120, 1, 20, 2) and (both.values[..., 0] == both.values[..., 1]).all()


def test_without_pyarrow_a_message_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CompileError, match=r"parquet files needs pyarrow; .*\[parquet\].*, or give an .npz file"):
        read_sensors(written(tmp_path / "x.parquet", "x"))


def test_a_folder_of_classes_is_no_folder_of_tables(tmp_path: Path) -> None:
    written(tmp_path / "walk" / "1.csv", "1,2\n")
    written(tmp_path / "all.csv", "x,label\n1,a\n")
    assert sample_files(tmp_path, TABLES) == [] == sample_files(tmp_path / "none", TABLES)
    with pytest.raises(CompileError, match=r"all\.csv' is not in the folder of a class"):
        read_sensors(tmp_path)


ROWS = "1,a\n2,a\n"
TWO = [1, 2] * 30  # labels


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "x,label\n", "x.csv' holds no rows"),
        ("x.csv", "1,2\n3,4\n", "has no header: its first line is 1, 2; name its columns, the one of labels 'label'"),
        ("x.csv", "x,kind\n1,a\n", "has no column of labels: its first line is x, kind; name"),
        ("x.csv", "time,label\n1,a\n", "has no column of values beside 'label'; add a column per channel"),
        ("x.csv", f"x,label\n{ROWS}3\n", "x.csv', line 4 has 1 cells, the header has 2"),
        ("x.csv", f"x,label\n{ROWS}\nu,a\n", "x.csv', line 5: column 'x' is 'u', which is no number; fill it in, leave"),
        ("x.csv", f"x,label\n{ROWS},a\n", "x.csv', line 4: column 'x' is empty"),
        ("x.csv", "x,label\n1,\n2,\n", "x.csv, line 2' has no label; give one, or leave the sample out"),
        ("x.csv", 'x,label\n"1,5",a\n2,b\n', "x.csv', line 2: column 'x' is '1,5', which is no number"),
        ("x.csv", "x,label,subject\n1,a,\n2,a,b\n3,a,b\n", "x.csv, line 2' has no group, such as a subject; give one, or"),
        ("x.csv", "x,label\n1e300,a\n1,a\n", r"x.csv, line 2' holds values beyond 1e\+30; fill them in"),
        ("x.ts", f"{TS}1,2:\n", "x.ts, line 7' has no label; give one"),
        ("x.csv", "x,label\nnan,a\n1,a\n", "x.csv, line 2' holds NaN or infinite values"),
        ("x.csv", "x,label,split\n1,a,lost\n", "x.csv, line 2' has the part 'lost'; give train, validation or test"),
        ("x.csv", 'x,label\n"1,a\n', "x.csv', line 2 has 1 cells"),
        ("x.ts", "@data\n1,2:a\n", "x.ts' has no class labels or no @data; give a .ts file of labelled series"),
        ("x.ts", f"{TS}1,2:3:walk\n", "x.ts, line 7' has no channels, or channels of different lengths"),
        ("x.ts", f"{TS}walk\n", "x.ts, line 7' has no channels"),
        ("x.ts", f"{TS}1,?:walk\n", "x.ts, line 7' has missing values; fill them in, or leave the line out"),
        ("x.ts", f"{TS}1,b:walk\n", "x.ts, line 7' is not a series of numbers"),
        ("x.ts", TS, "x.ts' holds no samples"),
        ("x.ts", TS.replace("timestamps false", "timeStamps true"), "x.ts' has a time beside each value; resample"),
        ("x.npz", "x", "x.npz' is not a NumPy file"),
        (
            "x.txt",
            "x",
            "x.txt' does not have a supported suffix; give a folder with one subfolder of files per class, or",
        ),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as error:
        read_sensors(written(tmp_path / name, content))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("read", "arrays", "message"),
    [
        (read_sensors, {"a": [1], "b": [2]}, r"x.npz' holds the arrays a, b, not x and y; save it with numpy.savez"),
        (read_sensors, {"x": np.zeros((3, 4)), "y": [1, 2]}, "x.npz' holds 3 samples and an array of 2 labels or groups"),
        (read_sensors, {"x": np.float64(1), "y": 2}, "x.npz' holds 0 samples and an array of 1 labels or groups"),
        (read_sensors, {"x": np.zeros((3, 4, 2, 2)), "y": [1, 2, 3]}, r"x.npz, sample 0' has the shape \[4, 2, 2\]; give numb"),
        (read_images, {"x": np.zeros((60, 4, 4)), "y": TWO}, r"x.npz, sample 0' holds float64\[4, 4\], no image; give whole"),
        (read_images, {"x": np.zeros((60, 4, 4, 2), int), "y": TWO}, r"holds int64\[4, 4, 2\], no image"),
        (read_images, {"x": np.full((60, 4, 4), 256), "y": TWO}, "no image; give whole numbers from 0 to 255"),
        (read_images, {"x": np.zeros((3, 4, 4), np.uint8), "y": [1, 1, 1]}, "there is only one class, '1'"),
        (read_sensors, {"x": np.ones((60, 4), complex), "y": TWO}, "x.npz, sample 0' is not a series of numbers"),
        (read_sensors, {"x": np.ones((60, 4)), "y": [np.nan] * 60}, "x.npz, sample 0' has no label"),
        (read_sensors, {"x": np.ones((60, 4)), "y": [""] * 60}, "x.npz, sample 0' has no label"),
        (read_sensors, {"x": np.ones((60, 4)), "y": TWO, "id": [np.nan] * 60}, "x.npz, sample 0' has no group"),
    ],
)
def test_what_is_wrong_with_an_archive_is_one_line(
    tmp_path: Path, read: Callable[..., Any], arrays: dict[str, Any], message: str
) -> None:
    with pytest.raises(CompileError, match=message) as error:
        read(archive(tmp_path / "x.npz", **arrays), *(((4, 4),) if read is read_images else ()))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("read", "columns", "message"),
    [
        (read_sensors, {"label": ["a"]}, "x.parquet' has the columns label: no labels or no values; give a column of images"),
        (read_sensors, {"x": [[1.0]]}, "x.parquet' has the columns x: no labels or no values"),
        (read_sensors, {"x": [[1.0]], "y": [[1.0, 2.0]], "label": ["a"]}, "row 0' holds lists that are no numbers, or have"),
        (read_sensors, {"x": [[1.0]], "label": [None]}, "row 0' has no label; give one, or leave the sample out"),
        (read_sensors, {"x": [[1.0]], "label": [float("nan")]}, "row 0' has no label"),
        (read_sensors, {"x": [[1.0]], "label": ["a"], "speaker": [None]}, "row 0' has no group, such as a subject"),
        (
            read_images,
            {"image": [{"path": "a.png"}], "label": ["a"]},
            "row 0' holds no bytes of a file; save the data set",
        ),
        (read_sounds, {"x": [[1.0]], "label": ["a"]}, "row 0' holds numbers, not the bytes of a wav file"),
    ],
)
def test_what_is_wrong_with_a_parquet_file_is_one_line(
    tmp_path: Path, read: Callable[..., Any], columns: dict[str, list[Any]], message: str
) -> None:
    with pytest.raises(CompileError, match=message) as error:
        read(parquet(tmp_path / "x.parquet", columns), *(((4, 4),) if read is read_images else ()))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("features", [[], {"label": {"names": 5}}, {"label": {"names": {"x": 1}}}, {"label": []}, {"label": 3}])
def test_class_names_of_another_form_are_ignored(tmp_path: Path, features: Any) -> None:
    series = RNG.normal(0, 1, (120, 20)).tolist()
    made = read_sensors(parquet(tmp_path / "y.parquet", {"x": series, "label": [0, 1] * 60}, features or {"": 0}))
    assert made.classes == ("0", "1")


def test_metadata_of_the_hub_may_be_damaged(tmp_path: Path) -> None:
    for metadata in ({}, {b"huggingface": b"[" * 100_000}, {b"huggingface": b'{"info": {"features": []}}'}):
        assert hub._class_names(metadata) == {}


def test_a_label_that_is_no_index_of_the_named_classes(tmp_path: Path) -> None:
    features = {"label": {"names": ["a", "b"]}}
    with pytest.raises(CompileError, match="row 1' has the label 2, but there are 2 classes; leave the row out"):
        read_sensors(parquet(tmp_path / "x.parquet", {"x": [[1.0]] * 2, "label": [0, 2]}, features))


def test_a_parquet_file_that_decodes_to_many_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dictionary has the row once, so the file is small, and so is what its metadata states."""
    path = parquet(tmp_path / "x.parquet", {"x": [[0.0] * 10_000] * 600, "label": ["a", "b"] * 300})
    monkeypatch.setattr(hub, "MAX_ARRAYS", 30_000_000)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(CompileError, match=r"it has 4\d,\d+,\d+ bytes decompressed, at most 30,000,000 are supported"):
        read_sensors(path)


def test_images_as_lists_of_whole_numbers(tmp_path: Path) -> None:
    pixels = [[[k, k], [k, k]] for k in range(60)]
    made = read_images(parquet(tmp_path / "x.parquet", {"image": pixels, "label": [0, 1] * 30}), (2, 2))
    assert made.values[7].min() == made.values[7].max() == 7 - 128


def test_the_test_file_is_found_in_the_same_case(tmp_path: Path) -> None:
    for name in ("Train.csv", "Test.csv", "x_TRAIN.csv", "x_TEST.csv"):
        written(tmp_path / name, "")
    for first, second in (("Train.csv", "Test.csv"), ("x_TRAIN.csv", "x_TEST.csv")):
        assert sample_files(tmp_path / first, TABLES) == [tmp_path / first, tmp_path / second]


def test_long_names_of_columns_are_read_in_time(tmp_path: Path) -> None:
    begin = time.process_time()
    with pytest.raises(CompileError, match="which is no number"):
        read_sensors(written(tmp_path / "x.csv", f"{'_' * 100_000}a,x{'9' * 100_000},label\n1,b,c\n"))
    assert time.process_time() - begin < 5, "a regular expression took 90 s"


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install '.[parquet]'")
    with pytest.raises(CompileError, match=r"x.parquet' is not a \.parquet file: "):
        read_images(written(tmp_path / "x.parquet", "PAR1"), (4, 4))


def test_files_of_two_kinds(tmp_path: Path) -> None:
    archive(tmp_path / "x.npz", x=[1], y=[1])
    written(tmp_path / "x.parquet", "x")
    with pytest.raises(CompileError, match=r"holds files \.npz and \.parquet; keep the files of one kind"):
        sample_files(tmp_path, FILES)

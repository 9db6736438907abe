"""Data sets of images, sounds and sensors: split into parts, values, and one-line messages about faulty folders."""

from __future__ import annotations

import io
import os
import time
import wave
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tinynas.tasks import sensors as reading
from tinynas.tasks.dataset import (
    PARTS,
    TEST,
    VALIDATION,
    Dataset,
    LabelledFile,
    advice,
    by_folder,
    part_of,
    parts_of,
    share_of,
    sorted_classes,
    topped_up,
)
from tinynas.tasks.features import LogMel
from tinynas.tasks.images import read_images
from tinynas.tasks.sensors import read_rows, read_sensors
from tinynas.tasks.sounds import labelled_sounds, read_sounds
from tinyweave.ir import CompileError

COUNT = 60


def images(folder: Path, classes: tuple[str, ...] = ("cat", "dog"), count: int = COUNT) -> Path:
    for label in classes:
        (folder / label).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(np.full((6, 9, 3), number, np.uint8)).save(folder / label / f"{number}.png")
    return folder


def write_wav(path: Path, values: np.ndarray, rate: int = 8000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(values.astype("<i2").tobytes())


def sounds(folder: Path, name: str = "{label}/{speaker}_nohash_{take}.wav", rate: int = 8000) -> Path:
    rng = np.random.default_rng(1)
    for label in ("yes", "no"):
        for speaker in range(20):
            for take in range(3):
                path = folder / name.format(label=label, speaker=speaker, take=take)
                write_wav(path, rng.normal(0, 900, 3000), rate)
    return folder


def sensors(folder: Path, classes: tuple[str, ...] = ("rest", "run"), rows: int = 40) -> Path:
    rng = np.random.default_rng(2)
    for number, label in enumerate(classes):
        (folder / label).mkdir(parents=True)
        for take in range(30):
            values = rng.normal(number, 1 + number, (rows, 3)) * (1, 10, 0.1) + (0, 5, 0)
            lines = ["x,y,z", *(",".join(f"{v:.5f}" for v in row) for row in values)]
            (folder / label / f"{take}.csv").write_text("\n".join(lines))
    return folder


def test_the_part_of_a_file_depends_only_on_its_name() -> None:
    parts = [part_of(f"speaker {number}") for number in range(20_000)]
    assert abs(parts.count("test") / 20_000 - TEST) < 0.01 and abs(parts.count("validation") / 20_000 - VALIDATION) < 0.01
    assert [part_of(name) for name in ("a", "b", "cat/1.png", "")] == ["train", "train", "train", "train"]
    assert [part_of(str(n)) for n in range(8)] == [part_of(str(n)) for n in range(8)]


def files_of_class(label: str, names: list[str]) -> list[LabelledFile]:
    return [LabelledFile(Path(name), label, name) for name in names]


def trained_names(count: int) -> list[str]:
    """Return names of which the hash puts each into training."""
    return [name for name in map(str, range(1000)) if part_of(name) == "train"][:count]


def test_a_class_of_few_files_is_in_all_parts() -> None:
    """Of 17 names that all hash to training, those of the lowest hash move: one to the test, a quarter of 16 to validation."""
    names = trained_names(17)
    few, many = files_of_class("few", names), files_of_class("many", [f"many {number}" for number in range(200)])
    parts = parts_of([*few, *many])
    assert parts[17:] == [part_of(file.group) for file in many]
    least = sorted(names, key=share_of)
    assert [parts[names.index(name)] for name in least[:5]] == ["test"] + 4 * ["validation"] and parts[:17].count("train") == 12
    assert parts_of(few[:6]).count("train") == 5, "too few for three parts: check_classes says so"
    folders = parts_of([few[0], LabelledFile(Path("x"), "few", "x", "test"), *few[1:]])
    assert folders.count("test") == 1 and folders.count("validation") == 0, "folders say the parts"


@pytest.mark.parametrize(("count", "validation"), [(41, 10), (29, 7), (100, 10)])
def test_validation_has_ten_samples_of_a_class_or_a_quarter(count: int, validation: int) -> None:
    assert parts_of(files_of_class("few", trained_names(count))).count("validation") == validation


def test_groups_move_as_a_whole_and_leave_half_of_each_class_for_training() -> None:
    """Each of six speakers says both words eight times, and the hash puts all of them into training."""
    speakers = [name for name in map(str, range(100)) if part_of(name) == "train"][:6]
    files = [
        LabelledFile(Path(f"{speaker} {word} {take}"), word, speaker)
        for speaker in speakers
        for word in ("no", "yes")
        for take in range(8)
    ]
    parts = parts_of(files)
    of_speaker = dict[str, set[str]]()
    for file, part in zip(files, parts, strict=True):
        of_speaker.setdefault(file.group, set()).add(part)
    expected = [{"test"}, {"validation"}, {"validation"}, {"train"}, {"train"}, {"train"}]
    assert [of_speaker[name] for name in sorted(speakers, key=share_of)] == expected
    three = [file for file in files if file.group in sorted(speakers, key=share_of)[:3]]
    assert Counter(parts_of(three)) == {"test": 16, "validation": 16, "train": 16}, "one each leaves a third for training"
    first, second = sorted(speakers, key=share_of)[:2]
    uneven = [LabelledFile(Path(str(take)), "yes", first if take < 10 else second) for take in range(16)]
    assert parts_of(uneven) == 10 * ["test"] + 6 * ["train"], "an empty part may take more than half"
    two = [file for file in files if file.group in sorted(speakers, key=share_of)[:2]]
    assert Counter(parts_of(two)) == {"test": 16, "train": 16}, "training keeps the last speaker"


def test_a_class_in_the_groups_of_many_others_keeps_files_for_training() -> None:
    """Five classes have 8 groups each, and another class one file in the three groups of each that would move first.

    The first group of each of the five moves whatever is left of the other class, the second if half of it is left.
    """
    names = sorted(trained_names(40), key=share_of)
    files = [LabelledFile(Path(f"{name} {label}"), label, name) for at, name in enumerate(names) for label in (f"{at % 5}",)]
    files += [LabelledFile(Path(f"{name} shared"), "shared", name) for name in names[:15]]
    parts = topped_up(files, ["train"] * len(files), "validation")
    counts = Counter((file.label, part) for file, part in zip(files, parts, strict=True))
    assert [counts[f"{label}", "validation"] for label in range(5)] == [2] * 5
    assert counts["shared", "train"] == 7 and counts["shared", "validation"] == 8


def test_images_become_int8_pixels_with_labels_and_parts(tmp_path: Path) -> None:
    made = read_images(images(tmp_path), (4, 5))
    assert made.values.shape == (2 * COUNT, 4, 5, 3) and made.values.dtype == np.int8 and made.classes == ("cat", "dog")
    assert sorted({int(v) for v in made.values.ravel()}) == [n - 128 for n in range(COUNT)], "pixel - 128"
    assert sum(made.counts().values()) == 2 * COUNT and min(made.counts().values()) > 5 and made.groups is None
    values, labels = made.part("test")
    assert len(values) == len(labels) == made.counts()["test"]
    more = read_images(images(tmp_path, ("emu",)), (4, 5))
    cats = made.labels == 0
    assert (more.parts[more.labels == 0] == made.parts[cats]).all(), "a new class moves nothing"
    assert read_images(tmp_path, (4, 5), 1).values.shape[-1] == 1


def test_folders_named_train_test_and_val_give_the_parts(tmp_path: Path) -> None:
    for part, count in (("train", 50), ("test", 12)):
        images(tmp_path / part, count=count)
    made = read_images(tmp_path, (4, 4))
    assert made.counts()["test"] == 24 and made.counts()["train"] + made.counts()["validation"] == 100
    assert min(np.bincount(made.part("validation")[1])) == 10 and made.counts()["validation"] < 30
    images(tmp_path / "val", count=7)
    assert read_images(tmp_path, (4, 4)).counts() == {"train": 100, "validation": 14, "test": 24}


def test_folders_may_have_other_names_of_parts(tmp_path: Path) -> None:
    for part, count in (("training", 50), ("valid", 8), ("Testing", 12)):
        images(tmp_path / part, count=count)
    assert read_images(tmp_path, (4, 4)).counts() == {"train": 100, "validation": 16, "test": 24}


def test_a_validation_folder_without_a_test_folder_is_the_test_part(tmp_path: Path) -> None:
    """As ImageNet has its folders."""
    images(tmp_path / "train", count=50)
    images(tmp_path / "val", count=12)
    counts = read_images(tmp_path, (4, 4)).counts()
    assert counts["test"] == 24 and 20 <= counts["validation"] < 30 and sum(counts.values()) == 124


def test_hidden_folders_are_ignored(tmp_path: Path) -> None:
    images(images(tmp_path) / ".ipynb_checkpoints")
    images(tmp_path / ".hidden", ("bird",))
    assert read_images(tmp_path, (4, 4)).counts() == read_images(images(tmp_path / "x" / "y"), (4, 4)).counts()


def test_file_names_need_not_be_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.png")
    images(tmp_path)
    try:
        (tmp_path / "cat" / "0.png").rename(tmp_path / "cat" / name)
    except OSError:
        pytest.skip("this file system refuses such names")
    assert sum(read_images(tmp_path, (4, 4)).counts().values()) == 2 * COUNT


def test_very_many_classes_are_split_in_time() -> None:
    """A table with a number to predict in its column of labels has a class per row."""
    files = [LabelledFile(Path(str(number)), str(number / 7), str(number)) for number in range(20_000)]
    begin = time.process_time()
    assert len(parts_of(files)) == 20_000
    assert time.process_time() - begin < 10, "it was 0.5 s for 1,400 files, and grew with their square"


def test_labels_of_very_many_digits_are_names() -> None:
    long = "9" * 5000
    assert sorted_classes([long, "10", "9", "b"]) == ("9", "10", long, "b")


def test_advice_names_what_is_weak_in_a_data_set() -> None:
    labels, parts = np.array([0] * 40 + [1] * 29), np.array([2] * 20 + [0] * 49, np.uint8)
    data = Dataset("sensors", ("many", "few"), np.zeros((69, 1, 4, 1), np.int8), labels, parts, {})
    assert advice(data) == ["class 'few' has 29 samples; below 30 a network learns little: add samples"]
    assert len(advice(replace(data, groups=np.arange(69) // 5))) == 2, "four groups in the test part"
    assert "from 5 groups: with fewer than 15" in advice(replace(data, groups=np.arange(69) // 4))[1]
    assert advice(replace(data, groups=np.arange(69))) == advice(data), "twenty groups"


def test_a_train_folder_alone_is_split_into_all_parts(tmp_path: Path) -> None:
    assert min(read_images(images(tmp_path / "train").parent, (4, 4)).counts().values()) > 5


def of_part(made: Dataset, part: str) -> set[bytes]:
    return {sample.tobytes() for sample in made.part(part)[0]}


def test_no_speaker_is_in_two_parts(tmp_path: Path) -> None:
    made = read_sounds(sounds(tmp_path), 0.5, 16)
    assert made.values.shape == (120, (4000 - 256) // 160 + 1, 16, 1) and made.classes == ("no", "yes")
    assert {int(count) % 3 for count in made.counts().values()} == {0}, "three takes a speaker and word"
    assert made.groups is not None and len(set(made.groups)) == 20
    assert sum(len(set(groups)) for part in PARTS if (groups := made.groups_of(part)) is not None) == 20
    write_wav(tmp_path / "_background_noise_" / "hum.wav", np.zeros(100))
    assert len(read_sounds(tmp_path, 0.5, 16).values) == 120
    (tmp_path / "validation_list.txt").write_text("".join(f"{label}/3_nohash_0.wav\n" for label in ("yes", "no")))
    (tmp_path / "testing_list.txt").write_text(
        "".join(f"{label}/{n}_nohash_1.wav\n" for label in ("yes", "no") for n in (1, 2))
    )
    assert read_sounds(tmp_path, 0.5, 16).counts() == {"train": 114, "validation": 2, "test": 4}


def test_a_list_of_the_test_part_alone_leaves_samples_for_validation(tmp_path: Path) -> None:
    tested = [f"./{label}/{speaker}_nohash_1.wav" for label in ("yes", "no") for speaker in (1, 2)]
    (sounds(tmp_path) / "testing_list.txt").write_text("\n".join(tested))
    counts = read_sounds(tmp_path, 0.5, 16).counts()
    assert counts["test"] == 4 and 20 <= counts["validation"] <= 40 and sum(counts.values()) == 120
    (tmp_path / "testing_list.txt").write_text("sounds/yes/1_nohash_1.wav\n")
    with pytest.raises(CompileError, match=r"name no recording of it, for example 'sounds/yes/1_nohash_1.wav'; give paths"):
        read_sounds(tmp_path, 0.5, 16)


def test_no_speaker_is_in_two_parts_if_only_train_and_test_have_folders(tmp_path: Path) -> None:
    sounds(tmp_path / "train")
    sounds(tmp_path / "test", "{label}/tested{speaker}_nohash_{take}.wav")
    parts = {file.path.name.partition("_")[0]: set[str | None]() for file in labelled_sounds(tmp_path, by_speaker=False)}
    for file in labelled_sounds(tmp_path, by_speaker=False):
        parts[file.path.name.partition("_")[0]].add(file.part)
    assert {frozenset(own) for own in parts.values()} == {frozenset({part}) for part in ("train", "validation", "test")}


def test_file_names_give_class_and_speaker_of_a_sound(tmp_path: Path) -> None:
    made = read_sounds(sounds(tmp_path, "{label}_{speaker}_{take}.wav"), 0.5, 16)
    apart = read_sounds(tmp_path, 0.5, 16, by_speaker=True)
    cepstra = read_sounds(tmp_path, 0.5, 16, coefficients=5)
    assert cepstra.values.shape == (*made.values.shape[:2], 5, 1) and "coefficients" not in made.preparation["features"]
    again = LogMel(**cepstra.preparation["features"])
    assert again.coefficients == 5 and replace(again, coefficients=0) == LogMel(**made.preparation["features"])
    with pytest.raises(CompileError, match="17 MFCC of 16 bands are not supported; give 1 to 16"):
        read_sounds(tmp_path, 0.5, 16, coefficients=17)
    assert made.classes == apart.classes == ("no", "yes") and made.counts() != apart.counts()
    assert {count % 3 for count in apart.counts().values()} == {0}
    assert made.groups is None and apart.groups is not None and len(set(apart.groups)) == 20


def test_only_the_training_part_scales_rows_of_sensors(tmp_path: Path) -> None:
    """A search must not know the range of the validation and test samples."""
    before = read_sensors(sensors(tmp_path), 40)
    recordings = by_folder(tmp_path, (".csv",))
    for recording, part in zip(recordings, before.parts, strict=True):
        if PARTS[part] != "train":
            rows = 1000 * read_rows(recording.path)
            recording.path.write_text("\n".join(",".join(map(str, row)) for row in rows))
    after = read_sensors(tmp_path, 40)
    assert after.preparation == before.preparation
    np.testing.assert_array_equal(after.part("train")[0], before.part("train")[0])
    assert np.isin(after.part("validation", "test")[0], (-128, 127)).mean() > 0.9, "other values are clipped"


def test_a_rare_large_value_does_not_decide_the_scale() -> None:
    """Percentiles 0.1 and 99.9 map to -128 and 127, so one value of 10,000 is clipped."""
    values = np.append(np.linspace(-1, 1, 9999), 1e6).reshape(100, 100, 1)
    factor, offset = reading.scaling(values)
    assert factor[0] == pytest.approx(127.5, rel=0.01) and offset[0] == pytest.approx(-0.5, abs=0.5)


def test_rows_of_sensors_become_scaled_windows(tmp_path: Path) -> None:
    made = read_sensors(sensors(tmp_path), 16)
    assert made.values.shape == (60 * 4, 1, 16, 3) and {count % 4 for count in made.counts().values()} == {0}
    assert made.groups is not None and (made.groups == np.repeat(made.groups[::4], 4)).all() and len(set(made.groups)) == 60
    trained = made.part("train")[0]
    assert all(trained[..., c].min() == -128 and trained[..., c].max() == 127 for c in range(3)), "each channel spans all"
    row = read_rows(tmp_path / "rest" / "0.csv")[:16]
    steps = row * made.preparation["scale"] + made.preparation["offset"]
    np.testing.assert_array_equal(made.values[0, 0], np.clip(np.round(steps), -128, 127))
    np.save(tmp_path / "rest" / "0.npy", row)
    np.testing.assert_array_equal(read_rows(tmp_path / "rest" / "0.npy"), row)
    (tmp_path / "rest" / "0.csv").write_bytes(b"\xef\xbb\xbf1,2\n3,4\n")
    np.testing.assert_array_equal(read_rows(tmp_path / "rest" / "0.csv"), [[1, 2], [3, 4]], "a byte order mark is no name")


def archived() -> bytes:
    np.savez(buffer := io.BytesIO(), x=np.zeros(3))
    return buffer.getvalue()


def silent_wav() -> bytes:
    with wave.open(buffer := io.BytesIO(), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
    return buffer.getvalue()


def damaged(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize(
    ("read", "make", "message"),
    [
        (read_images, lambda p: p / "none", "is not a folder; give a folder with one subfolder of files"),
        (read_images, lambda p: p, r"holds no files \.png"),
        (read_images, lambda p: images(p, ("cat",)), "there is only one class, 'cat'"),
        (read_images, lambda p: images(p, count=3), "class 'cat' has . samples? for train; add files"),
        (read_images, lambda p: damaged(images(p), "cat/x.png", "no image"), "x.png' cannot be read as an image"),
        (read_images, lambda p: damaged(images(p), "x.png", "no image"), "x.png' is not in the folder of a class"),
        (read_sounds, lambda p: damaged(sounds(p), "yes/x.wav", b"RIFF"), "x.wav' cannot be read as a wav file"),
        (read_sounds, lambda p: sounds(p / "a", rate=16000) and sounds(p / "b").parent, "8000 samples a second, .* has 16000"),
        (read_sounds, lambda p: sounds(p, rate=100), "100 samples a second are not supported"),
        (read_sounds, lambda p: damaged(p, "_background_noise_/x.wav", b""), "holds no recordings of words; give a folder for"),
        (read_sounds, lambda p: damaged(p, "_x.wav", b""), "_x.wav' does not say its class"),
        (read_sounds, lambda p: damaged(p, "yes.wav", b""), "yes.wav' does not say its class; give a folder for each"),
        (
            read_sensors,
            lambda p: damaged(sensors(p), "run/x.csv", "1,2,3\n1,2\n"),
            "x.csv', line 2 is not a row of 3 numbers: 1,2",
        ),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "a\n1,2,3\n1,b,3\n"), "line 3 is not a row of 3 numbers"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "1,2,3\n\n\n1,2\n"), "line 4 is not a row of 3 numbers"),
        (read_sensors, lambda p: np.save(sensors(p) / "run" / "x.npy", np.zeros((0, 3))) or p, "x.npy' holds no rows"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "nan,2,3\n"), "x.csv' holds NaN"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "x,y,z\n"), "x.csv' holds no rows"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "1,2,3\n"), "fewer rows than a window, 16"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "1,2\n" * 20), "has 2 columns, .* has 3"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.npy", b"\x93NUMPY"), "x.npy' is not a NumPy file"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.npy", archived()), "x.npy' is not a NumPy file: it is an archive;"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "1e300,2,3\n" * 20), "x.csv' holds values beyond 1e\\+30"),
        (read_sensors, lambda p: damaged(sensors(p), "run/x.csv", "1,2,\n1,2,3\n"), "x.csv', line 1 is not a row of 3 numbers"),
        (read_sounds, lambda p: damaged(sounds(p), "yes/x.wav", silent_wav()), "x.wav' cannot be read .* it holds no samples"),
    ],
)
def test_a_faulty_folder_is_refused_in_one_line(tmp_path: Path, read: Any, make: Callable[[Path], Path], message: str) -> None:
    arguments: dict[Any, tuple[Any, ...]] = {read_images: ((4, 4),), read_sounds: (0.25, 8), read_sensors: (16,)}
    with pytest.raises(CompileError, match=message) as error:
        read(make(tmp_path), *arguments[read])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seconds", [0, -1, 0.01, 61.0, float("nan"), float("inf"), float("-inf")])
def test_seconds_out_of_range_are_refused(tmp_path: Path, seconds: float) -> None:
    write_wav(tmp_path / "yes_a_0.wav", np.zeros(8000))
    with pytest.raises(CompileError, match=r"s are shorter than a frame; give at least 0.032 s|give at most 60 s"):
        read_sounds(tmp_path, seconds)


def test_windows_that_need_too_much_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match=r"has fewer rows than a window, 10000000000000; leave it out, or give a shorter"):
        read_sensors(sensors(tmp_path), 10**13)
    monkeypatch.setattr(reading, "MAX_VALUES", 60 * 4 * 16 * 3 - 1)
    with pytest.raises(CompileError, match=r"^the windows of '.*' have more than 11,519 values; give fewer, or shorter ones"):
        read_sensors(tmp_path, 16)
    monkeypatch.setattr(reading, "MAX_VALUES", 60 * 4 * 16 * 3)
    assert sum(read_sensors(tmp_path, 16).counts().values()) == 60 * 4


def test_windows_of_0_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"^windows of 0 rows are out of range; give"):
        read_sensors(tmp_path, 0)

"""Rewritten folders: stale generated files are removed, the user's files are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tinyweave.support.manifest import MANIFEST, Written, generated_folder

MODELS = {"kws": ("kws.tflite", "0" * 64)}


def generate(folder: Path, files: Mapping[str, str]) -> Written:
    with generated_folder(folder, "tinyweave compile kws.tflite", MODELS) as written:
        for name, text in files.items():
            (written.scratch / name).write_text(text)
    return written


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_manifest_lists_files_models_and_the_command(tmp_path: Path) -> None:
    generate(tmp_path / "a", {"kws.h": "1", "kws.c": "2"})
    found = json.loads((tmp_path / "a" / MANIFEST).read_text())
    assert found["files"] == {"kws.c": sha256("2"), "kws.h": sha256("1")}
    assert found["models"] == [{"name": "kws", "file": "kws.tflite", "sha256": "0" * 64}]
    assert found["command"] == "tinyweave compile kws.tflite" and found["tinyweave"]


def test_files_of_an_earlier_run_are_removed_unless_changed(tmp_path: Path) -> None:
    first = generate(tmp_path, {"kws.h": "1", "tw_old.c": "2", "tw_changed.c": "3", "tw_gone.c": "4"})
    assert first.removed == first.changed == []
    (tmp_path / "tw_changed.c").write_text("mine")
    (tmp_path / "tw_gone.c").unlink()
    (tmp_path / "main.c").write_text("mine")
    second = generate(tmp_path, {"kws.h": "5"})
    assert (second.removed, second.changed) == (["tw_old.c"], ["tw_changed.c"])
    assert names(tmp_path) == {"kws.h", "tw_changed.c", "main.c", MANIFEST}
    assert (tmp_path / "kws.h").read_text() == "5" and (tmp_path / "tw_changed.c").read_text() == "mine"
    third = generate(tmp_path, {"kws.h": "5"})
    assert third.removed == third.changed == [], "a file is named once; the list no longer has it"


def test_a_failing_run_removes_nothing(tmp_path: Path) -> None:
    generate(tmp_path, {"kws.h": "1", "tw_old.c": "2"})
    before = names(tmp_path)
    with pytest.raises(ZeroDivisionError), generated_folder(tmp_path, "", MODELS) as written:
        (written.scratch / "kws.h").write_text("3")
        raise ZeroDivisionError
    assert names(tmp_path) == before and (tmp_path / "kws.h").read_text() == "1"


HOSTILE = [
    "../victim.c",
    "/tmp/victim.c",
    "sub/victim.c",
    "..",
    ".",
    "",
    "link.c",
    "folder.c",
    ".hidden.c",
    "a\\b.c",
    "a\0b.c",
    MANIFEST,
]


def test_a_manifest_cannot_delete_files_outside_of_its_folder(tmp_path: Path) -> None:
    """Files elsewhere and targets of links are kept although they have the listed digest."""
    folder, victim = tmp_path / "folder", tmp_path / "victim.c"
    (folder / "sub").mkdir(parents=True)
    (folder / "folder.c").mkdir()
    for path in (victim, folder / "sub" / "victim.c", folder / ".hidden.c"):
        path.write_text("v")
    (folder / "link.c").symlink_to(victim)
    listed = {**dict.fromkeys(HOSTILE, sha256("v")), str(victim): sha256("v")}
    (folder / MANIFEST).write_text(json.dumps({"files": listed}))
    written = generate(folder, {"kws.h": "1"})
    assert written.removed == written.changed == []
    assert victim.exists() and names(folder) == {"sub", "folder.c", ".hidden.c", "link.c", "kws.h", MANIFEST}
    assert (folder / "sub" / "victim.c").exists() and (folder / "link.c").is_symlink()


NO_LISTS = ["", "{", "[]", "7", "NaN", '"a.c"', '{"files": []}', '{"files": {"a.c": 7}}', '{"files": {"a.c": null}}']
NO_LISTS += ['{"files": {"a.c": "00"}}', "[" * 100_000, '{"files": ' + "9" * 10_000 + "}", " " * (1 << 21)]


@pytest.mark.parametrize("text", NO_LISTS, ids=range(len(NO_LISTS)))
def test_a_faulty_manifest_removes_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(text)
    (tmp_path / "a.c").write_text("mine")
    written = generate(tmp_path, {"kws.h": "1"})
    assert written.removed == [] and names(tmp_path) == {"a.c", "kws.h", MANIFEST}
    assert list(json.loads((tmp_path / MANIFEST).read_text())["files"]) == ["kws.h"]


@pytest.mark.parametrize("digest", ["", None])
def test_a_listed_file_that_cannot_be_read_is_kept(digest: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps({"files": {"a.c": digest}}))
    (tmp_path / "a.c").write_text("mine")
    opened = Path.open

    def refuse(path: Path, *mode: str, **options: object) -> object:
        if path.name == "a.c":
            raise PermissionError(13, "Permission denied")
        return opened(path, *mode, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    assert generate(tmp_path, {"kws.h": "1"}).removed == [] and "a.c" in names(tmp_path)


def test_a_manifest_that_is_a_link_is_not_read_and_not_changed(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "list"
    generate(folder, {"kws.h": "1", "old.c": "2"})
    (folder / MANIFEST).rename(elsewhere)
    (folder / MANIFEST).symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert generate(folder, {"kws.h": "1"}).removed == []
    assert names(folder) == {"kws.h", "old.c", MANIFEST} and elsewhere.read_bytes() == before


def generate_nested(folder: Path, files: Mapping[str, str]) -> Written:
    with generated_folder(folder, "tinyweave export kws.tflite", MODELS, is_nested=True) as written:
        for name, text in files.items():
            (written.scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (written.scratch / name).write_text(text)
    return written


def test_nested_folders_are_rewritten(tmp_path: Path) -> None:
    generate_nested(tmp_path / "a", {"README.md": "1", "src/kws.c": "2", "src/old/tw_old.c": "3", "src/old/mine.c": "4"})
    (tmp_path / "a" / "src" / "old" / "mine.c").write_text("mine")
    written = generate_nested(tmp_path / "a", {"README.md": "1", "src/kws.c": "5"})
    assert (written.removed, written.changed) == (["src/old/tw_old.c"], ["src/old/mine.c"])
    (tmp_path / "a" / "src" / "old" / "mine.c").write_text("4")
    generate_nested(tmp_path / "b", {"src/only.c": "6"})
    assert generate_nested(tmp_path / "b", {"README.md": "7"}).removed == ["src/only.c"]
    assert names(tmp_path / "b") == {"README.md", MANIFEST}, "folders that are left empty go"
    assert (tmp_path / "a" / "src" / "kws.c").read_text() == "5"


NESTED_HOSTILE = ["../victim.c", "/tmp/victim.c", "linked/victim.c", "sub/../../victim.c", "sub/./v.c", ".git/config"]


def test_a_nested_manifest_cannot_delete_files_elsewhere_or_through_links(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    for path in (elsewhere / "victim.c", tmp_path / "victim.c", folder / "sub" / "v.c", folder / ".git" / "config"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v")
    (folder / "linked").symlink_to(elsewhere)
    listed = {**dict.fromkeys(NESTED_HOSTILE, sha256("v")), str(tmp_path / "victim.c"): sha256("v")}
    (folder / MANIFEST).write_text(json.dumps({"files": listed}))
    written = generate_nested(folder, {"src/kws.h": "1"})
    assert written.removed == written.changed == []
    assert (elsewhere / "victim.c").exists() and (tmp_path / "victim.c").exists()
    assert (folder / "sub" / "v.c").exists() and (folder / ".git" / "config").exists()

"""The CMSIS-Pack and the csolution project are valid by the schemas of Open-CMSIS-Pack and list all files."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from projects.export import compile_for_arm, export, model

import tinyweave as tw


def faults(shared: Path, kind: str, content: Any) -> list[str]:
    """Return the violations of a csolution schema in the parsed content of a file."""
    jsonschema: Any = pytest.importorskip("jsonschema", reason="needs jsonschema: pip install '.[test]'")
    referencing: Any = pytest.importorskip("referencing", reason="needs referencing, which comes with jsonschema")
    schemas = {name: json.loads((shared / "schemas" / f"{name}.schema.json").read_text()) for name in ("common", kind)}
    common = referencing.Resource.from_contents(schemas["common"])
    folder = schemas[kind]["$id"].rpartition("/")[0]
    registry = referencing.Registry().with_resource(f"{folder}/common.schema.json", common)
    return [error.message for error in jsonschema.Draft7Validator(schemas[kind], registry=registry).iter_errors(content)]


def loaded(path: Path) -> Any:
    yaml: Any = pytest.importorskip("yaml", reason="needs pyyaml: pip install '.[test]'")
    return yaml.safe_load(path.read_text())


@pytest.mark.shared
def test_the_package_description_is_valid_and_the_schema_rejects_faults(shared: Path, tmp_path: Path) -> None:
    xmlschema: Any = pytest.importorskip("xmlschema", reason="needs xmlschema: pip install '.[test]'")
    schema = xmlschema.XMLSchema(shared / "schemas" / "PACK.xsd")
    text = (export(tmp_path, "cmsis-pack", device="stm32h743") / "tinyweave.chain.pdsc").read_text()
    assert [error.reason for error in schema.iter_errors(text)] == []
    for old, new in (("<vendor>tinyweave</vendor>", ""), ('Csub="chain"', 'Kind="x"'), ('"1.0.0">Wri', '"one">Wri')):
        assert old in text and list(schema.iter_errors(text.replace(old, new)))


@pytest.mark.shared
@pytest.mark.parametrize("device", ["stm32h743", "cortex-m33"])
def test_csolution_projects_are_valid_and_the_schemas_reject_faults(device: str, shared: Path, tmp_path: Path) -> None:
    folder = export(tmp_path, "cmsis-pack", device=device)
    for kind, key in (("csolution", "target-types"), ("cproject", "layers"), ("clayer", "groups")):
        content = loaded(folder / f"chain.{kind}.yml")
        assert faults(shared, kind, content) == []
        (body,) = content.values()
        body[key] = "wrong"
        assert faults(shared, kind, content)


def test_all_files_are_listed_and_packed(tmp_path: Path) -> None:
    folder = export(tmp_path / "a", "cmsis-pack", device="stm32h743")
    described = (folder / "tinyweave.chain.pdsc").read_text()
    layer = loaded(folder / "chain.clayer.yml")["layer"]
    listed = {entry["file"] for group in layer["groups"] for entry in group["files"]}
    assert listed == {f"src/{path.name}" for path in (folder / "src").iterdir()}
    assert all(f'category="source" name="{file}"' in described for file in listed if file.endswith(".c"))
    project = loaded(folder / "chain.cproject.yml")["project"]
    assert all((folder / entry["file"]).is_file() for group in project["groups"] for entry in group["files"])
    with zipfile.ZipFile(folder / "tinyweave.chain.1.0.0.pack") as archive:
        rest = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert (
            rest - {"tinyweave.chain.1.0.0.pack", "tinyweave.json"}
            == set(archive.namelist())
            > listed | {"chain.csolution.yml", "example/main.c", "README.md"}
        )
        assert all(archive.read(name) == (folder / name).read_bytes() for name in archive.namelist())
    again = export(tmp_path / "b", "cmsis-pack", device="stm32h743")
    pack = "tinyweave.chain.1.0.0.pack"
    assert (folder / pack).read_bytes() == (again / pack).read_bytes()
    compile_for_arm(folder / "src", "stm32h743")


@pytest.mark.parametrize(("core", "others"), [("cortex-m0plus", 3), ("cortex-m4", 5), ("cortex-m55", 2)])
def test_the_component_is_offered_for_the_cores_that_run_its_kernels(core: str, others: int, tmp_path: Path) -> None:
    described = (export(tmp_path, "cmsis-pack", device=core) / "tinyweave.chain.pdsc").read_text()
    offered = re.findall(r'<accept Dcore="(.*)"/>', described)
    own = core.title().replace("plus", "+")
    assert own in offered and len(offered) == others and 'condition="core"' in described


def test_a_core_other_than_cortex_m_is_refused(tmp_path: Path) -> None:
    for form in ("cmsis-pack", "stm32cube"):
        with pytest.raises(tw.CompileError, match=r"esp32-c3 \(rv32imc-esp\) is none; give another format"):
            tw.export(model("chain"), "esp32-c3", out=tmp_path / "a", format=form)
    assert not (tmp_path / "a").exists()

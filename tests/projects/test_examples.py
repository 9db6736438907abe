"""The example and the profile of an export work for random networks: any type, streamed rows, state, several outputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.formats import AS_UINT8, FILED
from fuzz.generate import BY_SOME_ROWS, GROWERS, random_network
from projects.export import needs, run

from tinyweave.codegen import Origin, emit
from tinyweave.codegen.layer import traced
from tinyweave.ir import CompileError
from tinyweave.planning import Plan, Request, plan
from tinyweave.projects import Package, PackagedModel, Trial
from tinyweave.projects.example import example_files, library_files
from tinyweave.projects.package import filled
from tinyweave.report.measured import read_log
from tinyweave.simulate import compare

STRICT = "-std=c99 -pedantic -Wall -Wextra -Werror -O1 -DTW_PLAIN_C -DTW_TRACE=net_profile_step"
SANITIZED = [*STRICT.split(), "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def planned(seed: int) -> Plan:
    """Plan a random network, with streamed rows if possible."""
    graph = random_network(seed, 6, growers=(GROWERS, FILED, AS_UINT8, BY_SOME_ROWS)[seed % 4], live=3)
    core = ("cortex-m0", "cortex-m4", "cortex-m55")[seed % 3]
    try:
        return plan(graph, Request(core=core, stream_inputs=True, stream_outputs=seed % 2 == 0))
    except CompileError:
        return plan(graph, Request(core=core))


def build_and_check(seed: int, folder: Path) -> None:
    """Compile the example of a random network without warnings, run it with sanitizers, and check its outputs and profile."""
    needs("cc")
    chosen = planned(seed)
    cases = compare.samples(chosen.graph, 2, seed)
    right = compare.truth(chosen.graph, cases).outputs
    packed = [(compare.pack(a), compare.pack(b)) for a, b in zip(cases, right, strict=True)]
    model = PackagedModel(
        chosen,
        emit(chosen, "net", Origin("net.tflite", "0" * 64)),
        "net.tflite",
        tuple(Trial(tuple(inputs), tuple(outputs)) for inputs, outputs in packed),
    )
    package = Package("net", "1.0.0", (model,), model.source.files, "cortex-m4", None, "", "")
    own = {
        **library_files(package),
        **example_files(package),
        "main.c": filled("firmware/main.c", name="net"),
    }
    for name, text in {**package.files, **own}.items():
        (folder / name).write_text(str(text))
    run("cc", *SANITIZED, *sorted(folder.glob("*.c")), "-lm", "-o", folder / "program", cwd=folder)
    printed = run(folder / "program")
    assert printed.endswith("every output is the reference's, byte for byte\n") and printed.count("net sample ") == 2
    if any(int(line.split()[-1]) for line in printed.splitlines() if line.startswith("tw-profile")):
        assert len(read_log(printed, "net", traced(chosen))) == len(chosen.graph.ops)


@pytest.mark.parametrize("seed", range(4))
def test_examples_of_random_networks_give_the_reference_outputs(seed: int, tmp_path: Path) -> None:
    build_and_check(seed, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4, 16))
def test_examples_of_more_random_networks_give_the_reference_outputs(seed: int, tmp_path: Path) -> None:
    build_and_check(seed, tmp_path)

"""Random networks: LiteRT's reference kernels, the numpy reference and the emitted C on the host give the same bytes, in the
file's order, the best order, and any other.

Half of the networks have zero or saturated filters, which the passes remove. Each network's number is its seed;
`--fuzz-seed N --fuzz-count M` runs others. Every eighth also runs on an emulated core. Most networks run in sweeps only. The
networks of every op run in batches.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from fuzz.every_op import may_lack_litert, network_of_every_op
from fuzz.faster_kernels import with_kernels_of
from fuzz.formats import AS_UINT8, FILED, as_uint8
from fuzz.generate import BY_SOME_ROWS, GROWERS, random_network, random_order, random_stages
from fuzz.seeds import parametrize
from planning.stages import plan_in_stages

from tinyweave import api
from tinyweave.api import results
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite_lowering import LOWERED
from tinyweave.ir import Graph
from tinyweave.ops import SPECS
from tinyweave.planning import Plan, plan_in_order

USUAL, IN_SWEEPS = 16, 40
BATCH, OF_EVERY_OP, OF_EACH = 20, 500, 3  # networks of a batch, all networks, least number of networks with a kind of op


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, "seed", USUAL, IN_SWEEPS)
    parametrize(metafunc, "seeds", BATCH, OF_EVERY_OP, BATCH)


@pytest.mark.litert
@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
def test_a_random_network_gives_the_bytes_of_the_reference(seed: int, damaged: bool, tmp_path: Path) -> None:
    model = loaded(random_network(seed, damaged=damaged), tmp_path)
    prove(model, api.plan(model, schedule="layer"), seed, "cortex-m4" if seed % 8 == 0 else None)


@pytest.mark.litert
def test_a_random_network_in_any_order_gives_the_bytes_of_the_reference(seed: int, tmp_path: Path) -> None:
    """In turn the networks are int8, int8 with casts and int4 weights, and uint8 with a zero point of weights."""
    steps = random.Random(seed).randint(8, 20)
    graph = random_network(seed, steps, growers=(GROWERS, FILED, AS_UINT8)[seed % 3])
    model = loaded(as_uint8(graph, seed) if seed % 3 == 2 else graph, tmp_path)
    layer, best = api.plan(model, schedule="layer"), api.plan(model)
    least, by_layer = (api.plan(model, schedule=schedule, optimize="size") for schedule in ("best", "layer"))
    assert least.arena["sram"] <= by_layer.arena["sram"]
    shuffled = plan_in_order(model.graph, random_order(model.graph, random.Random(seed)))
    prove(model, shuffled, seed, "cortex-m4" if seed % 16 == 1 else None)
    if best.arena != layer.arena:
        prove(model, best, seed, "cortex-m4" if seed % 4 == 0 else None)


@pytest.mark.litert
def test_a_random_network_in_random_stages_gives_the_reference(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    model = loaded(random_network(seed, rng.randint(5, 16), growers=BY_SOME_ROWS, live=2), tmp_path)
    stages, options = random_stages(model.graph, rng)
    made = plan_in_stages(model.graph, stages, **options)
    if rng.random() < 0.5:
        made = with_kernels_of(made, "cortex-m4")
    prove(model, made, seed, ("cortex-m4", "rv32imc")[seed // 16 % 2] if seed % 8 == 2 else None)


@pytest.mark.litert
def test_random_networks_of_every_op_give_the_bytes_of_the_reference(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        model = loaded(network_of_every_op(seed), tmp_path)
        schedule = ("layer", "best")[seed // 2 % 2]
        prove(model, api.plan(model, schedule=schedule), seed, "cortex-m4" if seed % 8 == 0 else None, may_lack_litert(seed))


@pytest.mark.sweep
def test_every_kind_of_op_is_in_some_random_networks() -> None:
    """Kinds are the op kinds of a Graph, and the kinds that the importer rewrites."""
    seen: Counter[str] = Counter()
    for seed in range(OF_EVERY_OP):
        seen.update({op.kind for op in network_of_every_op(seed).ops})
    elsewhere = {"densify", "relu_0_to_1"}  # tests/importers/test_tflite_forms.py
    assert not {kind: seen[kind] for kind in {*SPECS, *LOWERED} - elsewhere if seen[kind] < OF_EACH}


def loaded(graph: Graph, folder: Path) -> results.Model:
    """Return the network after writing it to a file and loading it."""
    path = folder / f"{graph.name}.tflite"
    path.write_bytes(to_tflite(graph))
    return api.load(path)


def prove(model: results.Model, plan: Plan, seed: int, core: str | None, may_be_numpy: bool = False) -> None:
    """Compare the C with LiteRT; if LiteRT lacks an op and `may_be_numpy` is set, compare it with the numpy reference."""
    result = api.verify_plan(model, plan, api.ProofOptions(count=5, seed=seed), core=core)
    assert may_be_numpy or result.reference.startswith("LiteRT's reference kernels"), result.reference
    assert result.ok, f"seed {seed}: {result.first_difference or dict(result.touched)}"


def test_a_seed_always_gives_the_same_network() -> None:
    assert to_tflite(random_network(7)) == to_tflite(random_network(7))
    assert to_tflite(random_network(7)) != to_tflite(random_network(8))
    assert to_tflite(random_network(7)) != to_tflite(random_network(7, damaged=True))

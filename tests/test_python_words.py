"""Messages of the public functions name Python's arguments, and results of one function are the models of another."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import tinyweave as tw
from tinyweave import api
from tinyweave.api.options import CodeChanges, ExportChanges, PlanChanges, PlanOptions
from tinyweave.api.python_words import CLASSES, TYPES, UNION, arguments, python_words, with_python_words
from tinyweave.cli import main

DIGITS = Path(__file__).parents[1] / "examples" / "keywords" / "digits.tflite"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("--optimize fast is unknown; it is one of a, b", 'optimize="fast" is unknown; it is one of a, b'),
        ("--latency-ms 0.5 is not a time", "latency_ms=0.5 is not a time"),
        ("--latency-ms needs a clock; name a board with --device", "latency_ms needs a clock; name a board with device"),
        ("--latency-ms: 'x' has no clock", "latency_ms: 'x' has no clock"),
        ("give --ram 64k, or leave out --schedule", 'give ram="64k", or leave out schedule'),
        ("give --stream-time fewer frames", "give stream_time fewer frames"),
        (
            "make it int8 with 'tinyweave quantize a.tflite --flash 1m'",
            "make it int8 with 'tinyweave quantize a.tflite --flash 1m'",
        ),
        ("pip install --force-reinstall x; see 'plan --pareto'", "pip install --force-reinstall x; see 'plan --pareto'"),
        ('ram="64k" and a--ram b', 'ram="64k" and a--ram b'),
    ],
)
def test_options_in_messages_become_arguments(said: str, meant: str) -> None:
    assert python_words(said, arguments()) == meant == python_words(meant, arguments())


def test_functions_of_other_packages_name_their_own_arguments() -> None:
    def search(strategy: str) -> None:
        raise tw.CompileError(f"--strategy {strategy} is unknown", "leave out --epochs-of-others and --ram")

    with pytest.raises(tw.CompileError, match='strategy="x" is unknown; leave out --epochs-of-others and ram'):
        with_python_words(search)("x")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"optimize": "fast"}, 'optimize="fast"'), ({"latency_ms": -1}, "latency_ms=-1"), ({"schedule": "x"}, "x")],
)
def test_python_and_the_command_line_each_name_their_own(
    options: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(tw.CompileError) as raised:
        tw.plan(DIGITS, **options)
    assert words in str(raised.value) and "--" not in str(raised.value) and raised.value.args == (str(raised.value),)
    ((name, value),) = options.items()
    assert main(["plan", str(DIGITS), f"--{name.replace('_', '-')}", str(value)]) == 2
    said = capsys.readouterr().err
    assert (f"--{name.replace('_', '-')} {value}" in said or name == "schedule") and f"{name}=" not in said


def test_a_module_is_quantised_at_once_and_the_result_is_a_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    samples = np.random.default_rng(1).normal(size=(8, 6)).astype(np.float32)
    results = [tw.quantize(module, each) for each in (torch.as_tensor(samples), samples, [row[None] for row in samples])]
    by_hand = tw.quantize(tw.load(module, torch.as_tensor(samples[:1])), samples)
    assert {result.file for result in results} == {by_hand.file}
    planned = tw.plan(results[0])
    assert planned.arena == tw.plan(results[0].model).arena
    assert [path.read_bytes() for path in tw.compile(results[0], out=tmp_path / "a", planned=planned).files]


@pytest.mark.parametrize("verb", [tw.plan, tw.verify, tw.reorder, lambda model: tw.quantize(model, np.zeros((2, 6)))])
def test_other_values_than_models_are_refused_in_one_line(verb: Any) -> None:
    with pytest.raises(tw.CompileError, match=r"a list (is not a model|cannot be quantised); give the path of a file"):
        verb([3])


@pytest.mark.parametrize("verb", [name for name in tw.__all__ if isinstance(getattr(tw, name), FunctionType)])
def test_arguments_of_other_types_are_refused_in_one_line(verb: str) -> None:
    function, known = getattr(tw, verb), {*TYPES, *CLASSES}
    kinds = {name: each.annotation for name, each in inspect.signature(function).parameters.items()}
    checked = [name for name, kind in kinds.items() if {each.partition("[")[0] for each in UNION.split(kind)} <= known]
    assert checked
    for name in checked:
        with pytest.raises(tw.CompileError, match=rf"^{name} is of the type complex; give "):
            function(**{name: 1j})
    with pytest.raises(tw.CompileError, match=r"^device is of the type complex; give "):
        tw.plan(DIGITS, 1j)


def test_numbers_of_numpy_and_models_beside_their_devices_are_arguments() -> None:
    plan = tw.plan(DIGITS, tw.devices.find("nrf52840"), tw.PlanOptions(), ram=np.int64(8192), max_mac_overhead=np.float32(1))
    assert sum(plan.arena.values()) <= 8192 and tw.plan(DIGITS, "nrf52840", stream_inputs=np.bool_(0), latency_ms=200)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tw.compile([], out="c"),
        lambda: tw.compile(3, out="c"),
        lambda: tw.verify(DIGITS, inputs=[3]),
        lambda: tw.profile(DIGITS, sample=[None]),
        lambda: tw.quantize(DIGITS, np.zeros((2, 6)), scale=[]),
        lambda: tw.quantize(DIGITS, np.zeros((2, 6)), offset=[None]),
        lambda: tw.run(DIGITS, np.zeros((49, 32)), scale=float("nan")),
    ],
)
def test_values_that_are_no_models_samples_or_factors_are_refused(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tw.CompileError, match=r"no models|is not a model|a sample is of the type|scale or offset is"):
        call()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        (np.full((5, 6), 3), "all 5 samples are equal"),
        (np.tile(np.arange(6.0), (5, 1)), "all 5 samples are equal"),
        (np.zeros((1, 6)), "all values of the only sample are equal"),
        (np.arange(6.0)[None], None),
        (np.stack([np.zeros(6), np.ones(6)]), None),
    ],
    ids=str,
)
def test_samples_that_are_all_equal_are_refused(samples: np.ndarray, what: str | None) -> None:
    torch = pytest.importorskip("torch")
    model = api.load(torch.nn.Linear(6, 4), torch.zeros(1, 6))
    if what is None:
        assert tw.quantize(model, samples).used
        return
    with pytest.raises(tw.CompileError, match=what):
        tw.quantize(model, samples)


def test_samples_for_a_module_imported_with_a_batch_name_the_batch() -> None:
    torch = pytest.importorskip("torch")
    model = tw.load(torch.nn.Linear(6, 4), torch.zeros(4, 6))
    with pytest.raises(tw.CompileError, match=r"the model takes a batch of 4: import it with an example of a batch of 1"):
        tw.quantize(model, [np.arange(6.0)] * 3)


def test_help_shows_each_option_with_its_type() -> None:
    for verb, kind in ((tw.plan, PlanChanges), (tw.deploy, CodeChanges), (tw.export, ExportChanges), (tw.verify, PlanChanges)):
        shown = inspect.signature(verb).parameters
        assert {name: each.__forward_arg__ for name, each in kind.__annotations__.items()}.items() <= {
            name: parameter.annotation for name, parameter in shown.items()
        }.items()
        assert "changes" not in shown and shown["schedule"].default == "best"
    fields = {name: each.type for name, each in PlanOptions.__dataclass_fields__.items()}
    assert fields == {name: each.__forward_arg__ for name, each in PlanChanges.__annotations__.items()}

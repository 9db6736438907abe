"""Deploy the models of a tinyweave.toml and compare them with its limits and with the earlier values in tinyweave.lock.json."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__, api
from ..devices import find, parse_size
from ..ir import CompileError
from ..planning.fuse.row_schedule import plan_macs
from ..support.files import named, read_file, write_file
from ..support.progress import Progress, silent
from .options import PlanOptions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LOCK = "tinyweave.lock.json"
MAX_FILE = 1 << 20  # bytes of each file
FORM = "'tinyweave docs guard' shows one"
MEASURED = ("ram", "flash", "latency_ms", "instructions", "macs", "accuracy", "accuracy_drop")
Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Accuracy:
    """Labelled samples for measuring the accuracy of an int8 model, and the float model to compare with."""

    float_model: Path
    samples: Path  # as for `quantize`
    labels: str = "folders"  # path of the labels, or "folders" if each class has its own folder of files
    scale: tuple[float, ...] | None = None  # factor of the samples' values, one number or one per channel; None is 1
    offset: tuple[float, ...] = (0.0,)  # number added to the scaled values, or one per channel


@dataclass(frozen=True)
class ModelConfig:
    """The entry of one model in a tinyweave.toml."""

    name: str
    file: Path  # of the model
    device: str  # name of the device, or path of its TOML file
    limits: Values  # `ram` and `flash` in bytes, `latency_ms`, `accuracy_drop` in percentage points
    options: PlanOptions
    io: str  # as for `load`
    layout: str  # as for `load`
    shapes: Mapping[str, tuple[int, ...]] | None  # as for `load`; None if no input has dynamic axes
    accuracy: Accuracy | None  # how to measure the accuracy; None to leave it out


class Recorded(NamedTuple):
    """The entry of a model in a tinyweave.lock.json."""

    values: Values
    limits: Values | None  # the limits for which the model was planned then; None if the file does not have them


@dataclass(frozen=True)
class GuardResult:
    """The measurements of one model, beside the earlier values in tinyweave.lock.json."""

    config: ModelConfig
    sha256: str  # of the model's .tflite file
    compiler: str  # with its flags
    verified: bool  # whether every output byte is right
    now: Values  # name in MEASURED -> value, or None if unknown. `accuracy` is 0 to 1, `accuracy_drop` in percentage points
    before: Values | None  # the earlier values, likewise; None if tinyweave.lock.json does not have the model
    # the limits for which `before` was measured; None if tinyweave.lock.json does not have them
    limits_before: Values | None = None

    @property
    def exceeded(self) -> list[str]:
        """Return the names of the limits that the model exceeds, or whose measurement is unknown."""
        limits = {key: limit for key, limit in self.config.limits.items() if limit is not None}
        return [key for key, limit in limits.items() if (value := self.now[key]) is None or value > limit]

    @property
    def ok(self) -> bool:
        """Return whether every output byte is right and no limit is exceeded."""
        return self.verified and not self.exceeded


def guard_models(path: Path, *, update: bool = False, progress: Progress | None = None) -> list[GuardResult]:
    """Deploy every model of the tinyweave.toml at `path` and measure it; if `update`, write tinyweave.lock.json."""
    watched, before = read_config(path), read_lock(path.with_name(LOCK))
    results = []
    for each in watched:
        try:
            results.append(_guarded(each, before.get(each.name), progress or silent))
        except CompileError as error:
            raise CompileError(f"{path}: model '{each.name}': {error}") from error
    if update:
        write_lock(path.with_name(LOCK), results)
    return results


def _guarded(watched: ModelConfig, before: Recorded | None, progress: Progress) -> GuardResult:
    """Deploy one model in a temporary folder, and return its measurements beside `before`, its entry in the lock file."""
    about: dict[str, Any] = {"io": watched.io, "layout": watched.layout, "shapes": watched.shapes}
    model, board = api.load(watched.file, **about, stream_time=watched.options.stream_time), find(watched.device)
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        done = api.deploy_model(model, Path(folder), api.request_of(watched.options, board), board, progress=progress)
    assert done.profile and done.verification, "it was built"
    profile, given = done.profile, watched.accuracy
    now: dict[str, float | None] = {
        **{key: getattr(profile, key) for key in ("ram", "flash", "instructions")},
        "macs": sum(plan_macs(done.plan)),
        "latency_ms": profile.latency_ms(done.device),
        "accuracy": None,
        "accuracy_drop": None,
    }
    if given is not None:
        read_as = api.SampleOptions(given.scale, given.offset, given.labels)
        of_float, of_int8 = api.accuracies(
            api.read(given.float_model), api.read(watched.file, shapes=watched.shapes), given.samples, read_as
        )
        now |= {"accuracy": of_int8, "accuracy_drop": 100 * (of_float - of_int8)}
    values, limits = before or (None, None)
    return GuardResult(watched, model.sha256, profile.compiler, done.verification.ok, now, values, limits)


def read_lock(path: Path) -> dict[str, Recorded]:
    """Return model name -> measurements and limits, from a tinyweave.lock.json; empty if the file does not exist."""
    if not path.exists():
        return {}
    try:
        models = json.loads(read_file(path, MAX_FILE, "write it again with --update"))["models"]
        return {
            name: Recorded(
                {key: _number_or_none(each[key]) for key in MEASURED},
                {key: _number_or_none(limit) for key, limit in each["limits"].items()} if "limits" in each else None,
            )
            for name, each in models.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CompileError(f"{path}: it is not a file of `guard --update`", "write it again with --update") from error


def _number_or_none(value: Any) -> float | None:
    """Return a value of the lock file; raise ValueError if it is neither None nor a finite number."""
    if value is None or _is_number(value):
        number: float | None = value
        return number
    raise ValueError("no number")


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number that fits a float; False for a bool."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def write_lock(path: Path, results: Sequence[GuardResult]) -> None:
    """Write the measurements of models, sorted by name, into a tinyweave.lock.json, which is replaced."""
    models = {}
    for each in sorted(results, key=lambda one: one.config.name):
        about = {"file": each.config.file.name, "sha256": each.sha256, "device": each.config.device}
        values = {key: _rounded(each.now[key]) for key in MEASURED}
        models[each.config.name] = about | {"compiler": each.compiler, "limits": dict(each.config.limits)} | values
    write_file(path, json.dumps({"tinyweave": __version__, "models": models}, indent=2) + "\n")


def _rounded(value: float | None) -> float | None:
    """Return a float rounded to six significant digits, so that noise does not show as a change; other values as they are."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


@dataclass
class _Table:
    """A TOML table that records which keys were read, so that the other keys can be reported as unknown."""

    path: Path  # of the file
    where: str  # name of the table in messages
    values: dict[str, Any]
    taken: set[str] = field(default_factory=set)  # keys that were read

    def take(
        self, key: str, kind: type | tuple[type, ...], default: Any = None, convert: Callable[[Any], Any] | None = None
    ) -> Any:
        """Return the value of a key, converted, or `default`; errors of its type or of `convert` name the key."""
        self.taken.add(key)
        if key not in self.values:
            return default
        value = self.values[key]
        try:
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise CompileError(f"{json.dumps(value, default=str)[:40]} is of another type")
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not _is_number(value):
                raise CompileError("it is no finite number, or too large")
            return convert(value) if convert else value
        except CompileError as error:
            raise self.mistake(key, error.why, error.what_to_do or FORM) from error

    def need(self, key: str, kind: type) -> Any:
        """Return the value of a key; raise CompileError if it is missing or not of the type `kind`."""
        if key not in self.values:
            raise self.mistake(key, "it is missing", FORM)
        return self.take(key, kind)

    def mistake(self, key: str, why: str, what_to_do: str) -> CompileError:
        """Return an error that names the file, the table and the key."""
        return CompileError(f"{self.path}: {self.where}.{key}: {why}", what_to_do)

    def end(self) -> None:
        """Raise CompileError if the table has a key that was not read."""
        if unknown := sorted(set(self.values) - self.taken):
            raise self.mistake(unknown[0], "there is no such key", f"known are {', '.join(sorted(self.taken))}")


def read_config(path: Path) -> list[ModelConfig]:
    """Return the entries of a tinyweave.toml; paths are relative to its folder, and errors name the file and the key."""
    raw = read_file(path, MAX_FILE, f"write one: {FORM}")
    try:
        tables = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise CompileError(f"{path}: not TOML: {error}", FORM) from error
    whole = _Table(path, "file", tables)
    models = whole.take("model", list, [])
    whole.end()
    if not models or not all(isinstance(each, dict) for each in models):
        raise CompileError(f"{path}: it lists no models", "begin each with a line [[model]]")
    watched = [_watched(_Table(path, f"model[{index}]", each)) for index, each in enumerate(models)]
    names = [each.name for each in watched]
    if twice := [name for name in names if names.count(name) > 1]:
        raise CompileError(f"{path}: two models are called '{twice[0]}'", "give each a name of its own: name = ...")
    return watched


def _watched(table: _Table) -> ModelConfig:
    """Return the entry of one model; raise CompileError if a key is wrong, missing or unknown."""
    folder, file, device = table.path.parent, table.need("file", str), table.need("device", str)
    limits = {
        "ram": table.take("max_ram", (int, str), convert=parse_size),
        "flash": table.take("max_flash", (int, str), convert=parse_size),
        "latency_ms": table.take("max_latency_ms", (int, float), convert=_positive),
        "accuracy_drop": table.take("max_accuracy_drop", (int, float)),
    }
    if all(limit is None for limit in limits.values()):
        raise table.mistake("max_ram", "no limit is given", "give max_ram, max_flash, max_latency_ms or max_accuracy_drop")
    options = PlanOptions(
        schedule=table.take("schedule", str, "best"),
        optimize=table.take("optimize", str),
        stream_inputs=table.take("stream_inputs", bool, False),
        stream_outputs=table.take("stream_outputs", bool, False),
        max_mac_overhead=table.take("max_mac_overhead", (int, float)),
        stream_time=table.take("stream_time", (int, str)),
        ram=limits["ram"],
        flash=limits["flash"],
        latency_ms=limits["latency_ms"],
    )
    watched = ModelConfig(
        name=table.take("name", str, Path(file).stem, convert=_not_empty),
        file=folder / file,
        device=str(folder / device) if device.endswith(".toml") else device,  # relative to the config file
        limits={key: limit for key, limit in limits.items() if limit is not None},
        options=options,
        io=table.take("io", str, "auto"),
        layout=table.take("layout", str, "model"),
        shapes=table.take("shapes", dict, convert=_shapes),
        accuracy=_accuracy(table, folder),
    )
    table.end()
    if "accuracy_drop" in watched.limits and watched.accuracy is None:
        raise table.mistake("max_accuracy_drop", "it needs labelled samples", "add accuracy = { float = ..., samples = ... }")
    return watched


def _accuracy(table: _Table, folder: Path) -> Accuracy | None:
    """Return how to measure a model's accuracy, with paths relative to `folder`; None if its table does not say."""
    given = table.take("accuracy", dict)
    if given is None:
        return None
    inner = _Table(table.path, f"{table.where}.accuracy", given)
    labels = inner.take("labels", str, "folders")
    accuracy = Accuracy(
        folder / inner.need("float", str),
        folder / inner.need("samples", str),
        labels if labels == "folders" else str(folder / labels),
        inner.take("scale", (int, float, list), convert=_numbers),
        inner.take("offset", (int, float, list), (0.0,), convert=_numbers),
    )
    inner.end()
    return accuracy


def _shapes(given: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return input name -> shape; raise CompileError unless each shape is a list of positive integers."""
    for name, shape in given.items():
        if not isinstance(shape, list) or not all(type(extent) is int and extent > 0 for extent in shape):
            raise CompileError(f"{name}: {str(shape)[:40]} is no shape", "write shapes = { images = [1, 3, 160, 160] }")
    return {name: tuple(shape) for name, shape in given.items()}


def _not_empty(name: str) -> str:
    """Return a name; raise CompileError if it is blank."""
    if not name.strip():
        raise CompileError("it is empty", "leave it out: the file's name is the default")
    return name


def _positive(value: float) -> float:
    """Return a limit as a float; raise CompileError if it is not above 0."""
    if value <= 0:
        raise CompileError(f"{value} is no limit", "give a number above 0")
    return float(value)


def _numbers(value: Any) -> tuple[float, ...]:
    """Return a number or a list of numbers as a tuple; raise CompileError for anything else."""
    numbers = value if isinstance(value, list) else [value]
    if not numbers or not all(map(_is_number, numbers)):
        raise CompileError(f"{str(value)[:40]} is no number", "give one number, or a list with one per channel")
    return tuple(map(float, numbers))

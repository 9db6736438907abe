"""Mixed precision: choose layers with int4 weights and layers with int16 activations, so that a network meets its limits.

int4 weights are rounded adaptively: in the search each layer on its own, at the end in execution order, so that a layer
compensates errors before it. The damage of a layer is the noise that its int4 weights add at the outputs. To save enough bytes
with the least damage is a knapsack problem, solved exactly as if noise were additive, then with damages measured beside the
chosen layers, and improved by measured exchanges. Limits are always measured on the graph that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..ir import CompileError, Graph, Op, Quant, is_constant
from ..ops import SPECS, spec_of
from ..passes.rewrite import exchange
from ..support.progress import Progress, silent
from .adaptive_rounding import adaptively_rounded, individually_rounded
from .calibrate import Calibration, collect_histograms, downstream
from .convert import WeightFormat, as_integers, as_real, to_int8
from .evaluate import Array, evaluate, outputs
from .fidelity import decibel, noise_to_signal, signal_tensors
from .int16_activations import int16_quant, takes_int16, with_int16

LEVELS = 2048  # resolution of the knapsack: bytes are rounded down to multiples of (saving to reach) / LEVELS
ROUNDS = 2  # limit on rounds in which damages are measured while the chosen layers have int4 weights
REPLANS = 8  # limit on attempts to save enough bytes; the code size changes with the chosen layers
EXCHANGES = 48  # limit on sets of layers that are measured after the knapsack
TRIALS = 8  # limit on layers that are added or dropped individually at the end, each measured on all samples
INT4 = WeightFormat("int4")
Names = frozenset[str]  # names of ops
NONE: Names = frozenset()


@dataclass(frozen=True)
class PrecisionLimits:
    """Limits that a network with mixed precision must meet; None means no limit."""

    flash: int | None = None  # largest number of bytes
    sqnr_db: float | None = None  # least SQNR at the outputs
    accuracy_drop: float | None = None  # largest loss against the float network, in percentage points

    @property
    def has_quality(self) -> bool:
        """Whether SQNR or accuracy is limited."""
        return self.sqnr_db is not None or self.accuracy_drop is not None


@dataclass(frozen=True)
class LayerPrecision:
    """A layer that has int4 weights or int16 activations."""

    name: str
    kind: str
    weights: str | None  # type of its weights; None for an op without weights
    activations: str  # type of its activations
    saved: int  # bytes of constants that are saved against this layer in int8
    gained: float  # gain in SQNR at the outputs in dB against this layer in int8; negative for a loss


@dataclass(frozen=True, eq=False)
class MixedPrecision:
    """The quantised graph that meets the limits, and its layers that are not int8 throughout."""

    graph: Graph
    layers: tuple[LayerPrecision, ...]
    sqnr_db: float  # SQNR at the outputs, on the samples `Measures.inputs`
    int8_sqnr_db: float  # SQNR of the graph with int8 throughout, on the same samples
    saved: int  # bytes of constants that are saved against int8 throughout


@dataclass(frozen=True)
class Measures:
    """How to measure the damage of layers, and whether a graph meets the limits."""

    inputs: Mapping[str, Array]  # real inputs of a few samples, for the damage of layers
    learning: Mapping[str, Array]  # real inputs of a few samples, for the rounding of int4 weights
    ranging: Mapping[str, Array]  # real inputs of samples, for the ranges of int16 activations
    flash: Callable[[Graph], int]  # returns the bytes of Flash that a graph needs
    quality: Callable[[Graph], tuple[float, float]]  # returns SQNR in dB, and accuracy drop in percentage points


def _meets_quality(graph: Graph, limits: PrecisionLimits, measures: Measures) -> bool:
    sqnr_db, drop = measures.quality(graph)
    is_clear = limits.sqnr_db is None or sqnr_db >= limits.sqnr_db
    return is_clear and (limits.accuracy_drop is None or drop <= limits.accuracy_drop)


class _Search:
    """The search for ops with int4 weights and ops with int16 activations. A choice is a set of op names.

    `candidates` can have int4 weights, `able` int16 activations; `saves` are each candidate's bytes. `small` is the graph
    without int4 weights, `narrow` with int4 in all candidates, rounded individually or, if this gives less noise, to the
    nearest.
    """

    def __init__(
        self, real: Graph, calibration: Calibration, limits: PrecisionLimits, measures: Measures, progress: Progress
    ) -> None:
        self.real, self.limits, self.measures, self.progress = real, limits, measures, progress
        self.groups, self.quants = calibration.groups, calibration.quants
        self.names, self._finished = signal_tensors(real), dict[tuple[Names, Names], Graph]()
        self.expected = dict(zip(self.names, outputs(real, measures.inputs, self.names), strict=True))
        self.small = to_int8(real, self.groups, self.quants)
        self.inputs = {name: as_integers(self.small.tensors[name], array) for name, array in measures.inputs.items()}
        self.candidates = tuple(op.name for op in real.ops if self._takes_int4(op))
        self.narrow = to_int8(real, self.groups, self.quants, weights=dict.fromkeys(self.candidates, INT4))
        if self.candidates:
            rounded = individually_rounded(real, self.small, self.narrow, measures.learning, progress)
            self.narrow = min(rounded, self.narrow, key=self.noise)
        self.able = frozenset(op.name for op in real.ops if takes_int16(real, op, self.groups))
        before, after = _weight_bytes(self.small), _weight_bytes(self.narrow)
        self.saves = {name: before[name] - after[name] for name in self.candidates}

    def _takes_int4(self, op: Op) -> bool:
        """Return whether an op can have int4 weights: a kernel takes them, no other op shares them, and they save bytes."""
        if not SPECS[op.kind].takes_int4_weights or len(self.real.consumers[op.inputs[1] or ""]) > 1:
            return False
        try:
            narrow = to_int8(self.real, self.groups, self.quants, weights={op.name: INT4})
        except CompileError:
            return False
        return _weight_bytes(narrow)[op.name] < _weight_bytes(self.small)[op.name]

    def graph(self, int4: Names, int16: Names = NONE) -> Graph:
        """Return the graph with int4 weights in the ops `int4` and int16 activations in the ops `int16`."""
        small = self.small
        if int4:
            nearest = to_int8(self.real, self.groups, self.quants, weights=dict.fromkeys(int4, INT4))
            small = _with_weights_of(nearest, int4, self.narrow)
        return with_int16(self.real, small, self.groups, int16, self.int16_quants) if int16 else small

    def finished(self, int4: Names, int16: Names = NONE) -> Graph:
        """Return `graph(int4, int16)` with its int4 weights rounded in execution order, if this lowers the noise."""
        if (int4, int16) not in self._finished:
            graph = self.graph(int4, int16)
            if int4:
                rounded = adaptively_rounded(self.real, graph, self.measures.learning, self.progress, ops=int4)
                graph = min(graph, rounded, key=self.noise)
            self._finished[int4, int16] = graph
        return self._finished[int4, int16]

    @cached_property
    def int16_quants(self) -> dict[str, Quant]:
        """Return scale group -> int16 scale, from the largest magnitudes in the samples `Measures.ranging`."""
        seen = collect_histograms(self.real, self.measures.ranging)
        largest = {name: max(-histogram.low, histogram.high) for name, histogram in seen.items()}
        members = self.groups.members().items()
        return {group: int16_quant(max(largest.get(name, 0.0) for name in names)) for group, names in members}

    def noise(self, graph: Graph) -> float:
        """Return the noise to signal ratio at the outputs of a quantised graph."""
        return self._noise(graph, dict(zip(self.names, outputs(graph, self.inputs, self.names), strict=True)))

    def _noise(self, graph: Graph, values: Mapping[str, Array]) -> float:
        real = {name: as_real(graph.tensors[name], values[name]) for name in self.names}
        return noise_to_signal(self.expected, real, self.names)

    def meets_quality(self, int4: Names, int16: Names = NONE) -> bool:
        """Return whether the graph with these int4 and int16 ops meets the limits of SQNR and accuracy."""
        return _meets_quality(self.finished(int4, int16), self.limits, self.measures)

    def damages(self, int4: Names) -> dict[str, float]:
        """Return candidate -> the noise to signal ratio that int4 weights in it add if all others in `int4` have them."""
        base = self.graph(int4)
        held = evaluate(base, self.inputs, keep=True)
        level, damages = self._noise(base, held), dict[str, float]()
        for number, name in enumerate(self.candidates):
            changed = _with_constants_of(base, name, self.narrow if name not in int4 else self.small)
            written = next(op.outputs for op in base.ops if op.name == name)
            ops = {name, *downstream(changed, set(written))}
            now = self._noise(changed, evaluate(changed, held, ops=ops, keep=True))
            damages[name] = now - level if name not in int4 else level - now
            self.progress("measuring layers at 4 bits", number + 1, len(self.candidates))
        return damages

    def least_damage(self, saved: int, damages: Mapping[str, float]) -> Names | None:
        """Return the candidates for int4 weights that save `saved` bytes for the least total damage; None if all save less."""
        return knapsack([(name, self.saves[name], damages[name]) for name in self.candidates], saved)

    def fitting(self, saved: int) -> Names | None:
        """Return candidates for int4 weights that save `saved` bytes for little measured noise; None if all save less."""
        best = self.least_damage(saved, self.damages(NONE))
        if not best:
            return best
        reached = self.noise(self.graph(best))
        for _ in range(ROUNDS):
            damages = self.damages(best)
            other = self.least_damage(saved, damages)
            if other is None or other == best or (now := self.noise(self.graph(other))) >= reached:
                break
            best, reached = other, now
        return self.exchanged(best, reached, saved, damages)

    def exchanged(self, best: Names, reached: float, saved: int, damages: Mapping[str, float]) -> Names:
        """Improve the choice `best` of ops with int4 weights, of noise `reached`, by local search.

        A step adds, drops or swaps ops for less noise, with at least `saved` bytes saved, and tries those of least damage
        first. At most EXCHANGES choices are measured.
        """
        tried = {best}
        while len(tried) < EXCHANGES:
            inside, outside = sorted(best), sorted(set(self.candidates) - best)
            moves = [(a, b) for a in ("", *inside) for b in ("", *outside) if a or b]
            moves.sort(key=lambda move: damages.get(move[1], 0.0) - damages.get(move[0], 0.0))
            for dropped, added in moves:
                other = (best - {dropped}) | ({added} if added else NONE)
                if other in tried or sum(self.saves[name] for name in other) < saved:
                    continue
                tried.add(other)
                self.progress("exchanging layers", len(tried), EXCHANGES)
                if (now := self.noise(self.graph(other))) < reached:
                    best, reached = other, now
                    break
                if len(tried) >= EXCHANGES:
                    return best
            else:
                return best
        return best


def knapsack(items: Sequence[tuple[str, int, float]], saved: int) -> Names | None:
    """Return the items (name, bytes, damage) of least total damage with at least `saved` bytes; None if all have fewer.

    Bytes are rounded down to multiples of saved / LEVELS. If only this makes all items too few, all are returned.
    """
    if saved <= 0:
        return NONE
    if sum(size for _, size, _ in items) < saved:
        return None
    unit = max(1, saved // LEVELS)
    wanted = -(-saved // unit)
    least = np.full(wanted + 1, np.inf)
    least[0] = 0
    taken = np.zeros((len(items), wanted + 1), bool)
    for index, (_, size, damage) in enumerate(items):
        before = np.maximum(np.arange(wanted + 1) - size // unit, 0)
        with_it = least[before] + max(damage, 1e-12)
        taken[index] = with_it < least
        least = np.minimum(with_it, least)
    if not np.isfinite(least[wanted]):
        return frozenset(name for name, _, _ in items)
    chosen, level = set[str](), wanted
    for index in reversed(range(len(items))):
        if taken[index, level]:
            chosen.add(items[index][0])
            level = max(level - items[index][1] // unit, 0)
    return frozenset(chosen)


def choose_precision(
    real: Graph, calibration: Calibration, limits: PrecisionLimits, measures: Measures, progress: Progress = silent
) -> MixedPrecision:
    """Choose ops with int4 weights and int16 activations so that the limits are met with little noise.

    int4 weights meet a Flash limit, or, without one, save as many bytes as the limits of quality allow. If int8 misses these,
    some activations become int16. Raise CompileError if no choice is found.
    """
    search = _Search(real, calibration, limits, measures, progress)
    int4, int16, need, budget = NONE, NONE, 0, 0
    for trial in range(REPLANS):
        int4 = NONE
        if limits.flash is not None and (budget or (need := measures.flash(search.small)) > limits.flash):
            budget = sum(search.saves.values()) if trial == REPLANS - 1 else budget or need - limits.flash
            int4 = _int4_to_fit(search, budget, limits.flash)
        int16 = NONE
        if limits.has_quality:
            if limits.flash is None and search.meets_quality(NONE):
                int4 = _most_int4(search)
            else:
                int16 = _fewest_int16(search, int4)
        if limits.flash is None or (need := measures.flash(search.graph(int4, int16))) <= limits.flash:
            return _described(search, int4, int16)
        budget += need - limits.flash
    raise CompileError(
        f"about {need:,} B of Flash are needed, {limits.flash:,} allowed" + (", with the int16 maps" if int16 else ""),
        "allow more Flash" + (", or ask for less quality" if int16 else ", or give a smaller network"),
    )


def _int4_to_fit(search: _Search, budget: int, flash: int) -> Names:
    """Choose the ops that get int4 weights to save at least `budget` bytes; raise CompileError if all candidates save less."""
    int4 = search.fitting(budget)
    if int4 is None:
        least = min(search.measures.flash(graph) for graph in (search.small, search.narrow))
        raise CompileError(
            f"at least about {least:,} B of Flash are needed, {flash:,} allowed, with 4-bit weights in all layers or in none",
            "allow more, or give a smaller network",
        )
    return int4


def _most_int4(search: _Search) -> Names:
    """Choose by bisection the ops with int4 weights that save as many bytes as the limits of quality allow."""
    damages, total = search.damages(NONE), sum(search.saves.values())
    best, low, high = NONE, 0, LEVELS + 1  # `low` / LEVELS of the total saving meets the limits
    while high - low > 1:
        step = (low + high) // 2
        chosen = search.least_damage(step * total // LEVELS, damages)
        if chosen is not None and (chosen == best or search.meets_quality(chosen)):
            best, low = chosen, step
        else:
            high = step
    rest = sorted(set(search.candidates) - best, key=lambda name: damages[name] / search.saves[name])
    for name in rest[:TRIALS]:  # noise is not quite additive: bisection may have missed some
        if search.meets_quality(best | {name}):
            best |= {name}
    return best


def _fewest_int16(search: _Search, int4: Names) -> Names:
    """Choose few ops, not of `int4`, for int16 activations so that the limits of quality are met, or raise CompileError."""
    if search.meets_quality(int4):
        return NONE
    units = list(dict.fromkeys(_int16_units(search, search.able - int4)))
    noises = dict[Names, float]()
    for number, unit in enumerate(units):
        noises[unit] = search.noise(search.graph(int4, unit))
        search.progress("trying int16 maps", number + 1, len(units))
    units.sort(key=lambda unit: noises[unit])

    def first(count: int) -> Names:
        return NONE.union(*units[:count])

    # errors can cancel each other: int16 activations in all units need not give the least noise
    most = min(range(len(units) + 1), key=lambda count: search.noise(search.graph(int4, first(count))))
    if not search.meets_quality(int4, first(most)):
        sqnr_db, drop = search.measures.quality(search.finished(int4, first(most)))
        lost = "" if search.limits.accuracy_drop is None else f" and loses {drop:.2f} points"
        more = ", allow more Flash" if search.limits.flash else ""
        raise CompileError(
            f"the limit cannot be kept: with int16 maps the network has {sqnr_db:.1f} dB{lost}",
            f"ask for less{more}, or train the network for int8 (tw.prepare_qat)",
        )
    low, high = 0, most  # the first `high` units meet the limits
    while high - low > 1:
        count = (low + high) // 2
        low, high = (low, count) if search.meets_quality(int4, first(count)) else (count, high)
    chosen = units[:high]
    for unit in chosen[-2::-1][:TRIALS]:
        fewer = [other for other in chosen if other != unit]
        if search.meets_quality(int4, NONE.union(*fewer)):
            chosen = fewer
    return NONE.union(*chosen)


def _int16_units(search: _Search, able: Names) -> Iterator[Names]:
    """Yield, for each op in `able` that computes values, the op with its readers in `able`, also through moves, if any."""
    for op in search.real.ops:
        if op.name not in able or SPECS[op.kind].moves:
            continue
        reached, waiting = set[str](), list(op.outputs)
        while waiting:
            for index in search.real.consumers.get(waiting.pop(), ()):
                reader = search.real.ops[index]
                if reader.name in able and reader.name not in reached:
                    reached.add(reader.name)
                    waiting += reader.outputs if SPECS[reader.kind].moves else ()
        if reached:
            yield frozenset({op.name, *reached})


def _described(search: _Search, int4: Names, int16: Names) -> MixedPrecision:
    """Measure the MixedPrecision of this choice, with the bytes saved and SQNR gained by each layer, individually rounded."""
    graph, finished = search.graph(int4, int16), search.finished(int4, int16)
    int8_sqnr, reached, layers = decibel(search.noise(search.small)), decibel(search.noise(graph)), list[LayerPrecision]()
    before, after = _constant_bytes(search.small), _constant_bytes(graph)
    for op in (op for op in search.real.ops if op.name in int4 | int16):
        without = search.graph(int4 - {op.name}, int16 - {op.name})
        gained = reached - decibel(search.noise(without))
        weights = None if SPECS[op.kind].weights is None else "int4" if op.name in int4 else "int8"
        activations = "int16" if op.name in int16 else "int8"
        layers.append(LayerPrecision(op.name, op.kind, weights, activations, _constant_bytes(without) - after, gained))
        search.progress("measuring what each layer gains", len(layers), len(int4 | int16))
    return MixedPrecision(finished, tuple(layers), decibel(search.noise(finished)), int8_sqnr, before - after)


def _with_weights_of(graph: Graph, names: Names, source: Graph) -> Graph:
    """Return `graph`, where the weights of the ops `names` have the values that they have in `source`."""
    weights = {op.name: source.input(op, 1) for op in source.ops if op.name in names}
    own = {op.name: graph.input(op, 1).name for op in graph.ops if op.name in names}
    return replace(graph, tensors={**graph.tensors, **{own[op]: replace(weights[op], name=own[op]) for op in names}})


def _with_constants_of(graph: Graph, name: str, source: Graph) -> Graph:
    """Return `graph`, where the op `name` reads the constants that the op of the same name reads in `source`."""
    op, other = (next(op for op in each.ops if op.name == name) for each in (graph, source))
    new = {t.name: replace(t, name=f"{t.name}.exchanged") for t in source.inputs_of(other) if t is not None and is_constant(t)}
    inputs = [new[name].name if name in new else own for name, own in zip(other.inputs, op.inputs, strict=True)]
    return exchange(graph, [replace(op, inputs=tuple(inputs))], new.values())


def _weight_bytes(graph: Graph) -> dict[str, int]:
    """Return the bytes of the weights of each op whose kind can have int4 weights, by op name."""
    return {op.name: graph.input(op, 1).bytes for op in graph.ops if spec_of(op).takes_int4_weights}


def _constant_bytes(graph: Graph) -> int:
    return sum(tensor.bytes for name, tensor in graph.tensors.items() if name in graph.consumers and tensor.data is not None)

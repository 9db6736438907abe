"""Mixed precision: which layers have weights of 4 bits, and which maps 16, so that a network keeps its limits and loses least.

In: a float graph, its scales, few samples, limits. Out: an int8 graph with int4 weights and int16 maps in some layers, and what
each of them costs and gains. What 4 bits cost is measured at the outputs, layer by layer, in integers; which layers save the
bytes for the least noise is then a knapsack, solved exactly as if noise added up, and solved again with what each layer costs
beside the others. Every limit is measured with the graph that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Op, Quant, is_constant
from ..ops.constraints import TAKE_INT4_WEIGHTS
from ..passes.rewrite import exchange
from ..progress import Progress, silent
from .calibrate import Calibration, collect, decibel, downstream, noise, signals
from .convert import WeightForm, as_integers, as_real, to_int8
from .evaluate import evaluate, outputs
from .rules import RULES
from .widen import MOVES, can_widen, wide_quant, widened

Array = NDArray[Any]
LEVELS = 2048  # to which savings are rounded down in the knapsack
ROUNDS = 2  # of measuring what layers cost beside the others
REPLANS = 8  # until what is saved of constants suits the code around them
EXCHANGES = 48  # choices of layers that are measured after the knapsack's
TRIALS = 8  # of layers that may be left as they were, each measured on all samples
INT4 = WeightForm("int4")
Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True)
class PrecisionLimits:
    """flash: bytes, at most. sqnr_db: at least. accuracy_drop: points below the float network, at most."""

    flash: int | None = None
    sqnr_db: float | None = None
    accuracy_drop: float | None = None

    @property
    def has_quality(self) -> bool:
        return self.sqnr_db is not None or self.accuracy_drop is not None


@dataclass(frozen=True)
class LayerPrecision:
    """A layer that is not int8 throughout. weights, activations: their types; weights is None of an op that has none.

    saved: bytes of constants less than with int8. gained: dB that the outputs would have less with this layer in int8 and all
    others as they are; below 0 it is what the layer costs.
    """

    name: str
    kind: str
    weights: str | None
    activations: str
    saved: int
    gained: float


@dataclass(frozen=True, eq=False)
class Mixed:
    """graph: the one that keeps the limits. layers: what is not int8. int8_sqnr_db: of int8 throughout, on the same samples."""

    graph: Graph
    layers: tuple[LayerPrecision, ...]
    sqnr_db: float
    int8_sqnr_db: float
    saved: int


@dataclass(frozen=True)
class Measures:
    """How layers are weighed and limits measured.

    inputs: real numbers of few samples, on which layers are weighed. ranging: of those that the scales of int16 maps hold.
    flash: bytes that a graph needs. quality: signal to noise in dB, accuracy lost in points.
    """

    inputs: Mapping[str, Array]
    ranging: Mapping[str, Array]
    flash: Callable[[Graph], int]
    quality: Callable[[Graph], tuple[float, float]]


class _Search:
    """What is measured once: the float outputs, the int8 graph, its form with 4-bit weights everywhere."""

    def __init__(self, real: Graph, calibration: Calibration, measures: Measures, progress: Progress) -> None:
        self.real, self.found, self.quants = real, calibration.groups, calibration.quants
        self.ranging, self.progress, inputs = measures.ranging, progress, measures.inputs
        self.names = signals(real)
        self.expected = dict(zip(self.names, outputs(real, inputs, self.names), strict=True))
        self.small = to_int8(real, self.found, self.quants)
        self.inputs = {name: as_integers(self.small.tensors[name], array) for name, array in inputs.items()}
        self.candidates = tuple(op.name for op in real.ops if self._takes_int4(op))
        self.narrow = to_int8(real, self.found, self.quants, weights=dict.fromkeys(self.candidates, INT4))
        self.able = frozenset(op.name for op in real.ops if can_widen(real, op, self.found))
        before, after = _weights(self.small), _weights(self.narrow)
        self.saves = {name: before[name] - after[name] for name in self.candidates}

    def _takes_int4(self, op: Op) -> bool:
        """Return whether 4-bit weights of an op are its own, save bytes, and have a kernel."""
        takes = op.kind in TAKE_INT4_WEIGHTS and RULES[op.kind].weights is not None
        if not takes or len(self.real.consumers[op.inputs[1] or ""]) > 1:
            return False
        try:
            narrow = to_int8(self.real, self.found, self.quants, weights={op.name: INT4})
        except CompileError:
            return False
        return _weights(narrow)[op.name] < _weights(self.small)[op.name]

    def graph(self, narrow: Names, wide: Names) -> Graph:
        """Return the graph with 4-bit weights in some ops and int16 activations in others."""
        small = to_int8(self.real, self.found, self.quants, weights=dict.fromkeys(narrow, INT4)) if narrow else self.small
        if not wide:
            return small
        return widened(self.real, small, self.found, wide, self.wide_quants)

    @cached_property
    def wide_quants(self) -> dict[str, Quant]:
        """Group of tensors -> its scale as int16."""
        seen = collect(self.real, self.ranging)
        largest = {name: max(-histogram.low, histogram.high) for name, histogram in seen.items()}
        members = self.found.members().items()
        return {group: wide_quant(max(largest.get(name, 0.0) for name in names)) for group, names in members}

    def noise(self, graph: Graph) -> float:
        """Return the noise to signal ratio of an int8 graph at its outputs."""
        return self._noise(graph, dict(zip(self.names, outputs(graph, self.inputs, self.names), strict=True)))

    def _noise(self, graph: Graph, values: Mapping[str, Array]) -> float:
        return noise(self.expected, {name: as_real(graph.tensors[name], values[name]) for name in self.names}, self.names)

    def damages(self, narrow: Names) -> dict[str, float]:
        """Return by how much 4 bits of each candidate raise the noise, with 4 bits in the others of `narrow`."""
        base = self.graph(narrow, NONE)
        held = evaluate(base, self.inputs, keep=True)
        level, damages = self._noise(base, held), dict[str, float]()
        for number, name in enumerate(self.candidates):
            other = self.narrow if name not in narrow else self.small
            op = next(op for op in base.ops if op.name == name)
            changed = _exchanged(base, op, next(op for op in other.ops if op.name == name), other)
            ops = {name, *downstream(changed, set(op.outputs))}
            now = self._noise(changed, evaluate(changed, held, ops=ops, keep=True))
            damages[name] = now - level if name not in narrow else level - now
            self.progress("weighing layers", number + 1, len(self.candidates))
        return damages

    def least_noise(self, saved: int, damages: Mapping[str, float]) -> Names | None:
        """Return the layers that save so many bytes for the least noise in sum; None where all do not."""
        return knapsack([(name, self.saves[name], damages[name]) for name in self.candidates], saved)

    def fitting(self, saved: int) -> Names | None:
        """Return the layers that save so many bytes for little noise: chosen as if noise added up, then beside each other."""
        best = self.least_noise(saved, self.damages(NONE))
        if not best:
            return best
        reached = self.noise(self.graph(best, NONE))
        for _ in range(ROUNDS):
            damages = self.damages(best)
            other = self.least_noise(saved, damages)
            if other is None or other == best or (now := self.noise(self.graph(other, NONE))) >= reached:
                break
            best, reached = other, now
        return self.exchanged(best, reached, saved, damages)

    def exchanged(self, best: Names, reached: float, saved: int, damages: Mapping[str, float]) -> Names:
        """Return the layers with some taken in, put out or exchanged, as long as that lowers the noise that is measured."""
        tried = {best}
        while len(tried) < EXCHANGES:
            inside, outside = sorted(best), sorted(set(self.candidates) - best)
            moves = [(a, b) for a in ("", *inside) for b in ("", *outside) if a or b]
            moves.sort(key=lambda move: damages.get(move[1], 0.0) - damages.get(move[0], 0.0))
            for out, into in moves:
                other = (best - {out}) | ({into} if into else NONE)
                if other in tried or sum(self.saves[name] for name in other) < saved:
                    continue
                tried.add(other)
                self.progress("exchanging layers", len(tried), EXCHANGES)
                if (now := self.noise(self.graph(other, NONE))) < reached:
                    best, reached = other, now
                    break
                if len(tried) >= EXCHANGES:
                    return best
            else:
                return best
        return best


def knapsack(items: Sequence[tuple[str, int, float]], saved: int) -> Names | None:
    """Return the items, (name, bytes, damage), of least damage that together have `saved` bytes; None where all do not.

    Bytes are rounded down to one of LEVELS, so that what is chosen has them in any case; all are taken where rounding alone
    keeps a choice from having them.
    """
    if saved <= 0:
        return NONE
    total = sum(size for _, size, _ in items)
    if total < saved:
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


def mixed(
    real: Graph,
    calibration: Calibration,
    limits: PrecisionLimits,
    measures: Measures,
    progress: Progress = silent,
) -> Mixed:
    """Return the graph that keeps the limits and loses least.

    A Flash limit is met by 4-bit weights. A limit of quality alone is met with the fewest bytes: by 4-bit weights in as many
    layers as it allows; where int8 does not keep it, by int16 maps. Raise CompileError where nothing here keeps them all.
    """
    search = _Search(real, calibration, measures, progress)
    narrow, wide, need, budget = NONE, NONE, 0, 0
    for trial in range(REPLANS):
        narrow = NONE
        if limits.flash is not None and (budget or (need := measures.flash(search.small)) > limits.flash):
            budget = sum(search.saves.values()) if trial == REPLANS - 1 else budget or need - limits.flash
            narrow = _fit(search, budget, limits.flash, measures)
        wide = NONE
        if limits.has_quality:
            if limits.flash is None and _kept(search.small, limits, measures):
                narrow = _fewest_bytes(search, limits, measures)
            else:
                wide = _widest(search, narrow, limits, measures)
        if limits.flash is None or (need := measures.flash(search.graph(narrow, wide))) <= limits.flash:
            return _told(search, narrow, wide)
        budget += need - limits.flash
    raise CompileError(
        f"about {need:,} B of Flash are needed, {limits.flash:,} allowed" + (", with the int16 maps" if wide else ""),
        "allow more Flash" + (", or ask for less quality" if wide else ", or give a smaller network"),
    )


def _fit(search: _Search, budget: int, flash: int, measures: Measures) -> Names:
    """Return the layers with 4-bit weights that save so many bytes; raise CompileError where all do not."""
    narrow = search.fitting(budget)
    if narrow is None:
        least = min(measures.flash(graph) for graph in (search.small, search.narrow))
        raise CompileError(
            f"about {least:,} B of Flash are the least, {flash:,} allowed: with 4-bit weights in all layers, or in none",
            "allow more, or give a smaller network",
        )
    return narrow


def keeps(graph: Graph, limits: PrecisionLimits, measures: Measures) -> bool:
    """Return whether a graph keeps all limits."""
    fits = limits.flash is None or measures.flash(graph) <= limits.flash
    return fits and (not limits.has_quality or _kept(graph, limits, measures))


def _kept(graph: Graph, limits: PrecisionLimits, measures: Measures) -> bool:
    """Return whether a graph keeps the limits of quality."""
    sqnr_db, drop = measures.quality(graph)
    is_clear = limits.sqnr_db is None or sqnr_db >= limits.sqnr_db
    return is_clear and (limits.accuracy_drop is None or drop <= limits.accuracy_drop)


def _fewest_bytes(search: _Search, limits: PrecisionLimits, measures: Measures) -> Names:
    """Return the layers with 4-bit weights that save most bytes within the limits of quality, found by bisection."""
    damages, total = search.damages(NONE), sum(search.saves.values())
    best, low, high = NONE, 0, LEVELS + 1  # steps of what all save; `low` keeps the limits
    while high - low > 1:
        step = (low + high) // 2
        chosen = search.least_noise(step * total // LEVELS, damages)
        if chosen is not None and (chosen == best or _kept(search.graph(chosen, NONE), limits, measures)):
            best, low = chosen, step
        else:
            high = step
    rest = sorted(set(search.candidates) - best, key=lambda name: damages[name] / search.saves[name])
    for name in rest[:TRIALS]:  # what bisection left out, since noise does not quite add up
        if _kept(search.graph(best | {name}, NONE), limits, measures):
            best |= {name}
    return best


def _widest(search: _Search, narrow: Names, limits: PrecisionLimits, measures: Measures) -> Names:
    """Return few ops whose maps have to be int16 for the limits of quality; raise CompileError where all are too few."""
    if _kept(search.graph(narrow, NONE), limits, measures):
        return NONE
    units = list(dict.fromkeys(_units(search, search.able - narrow)))
    noises = dict[Names, float]()
    for number, unit in enumerate(units):
        noises[unit] = search.noise(search.graph(narrow, unit))
        search.progress("trying int16 maps", number + 1, len(units))
    units.sort(key=lambda unit: noises[unit])

    def first(count: int) -> Names:
        return NONE.union(*units[:count])

    # noise may cancel noise: all of them need not be the best
    most = min(range(len(units) + 1), key=lambda count: search.noise(search.graph(narrow, first(count))))
    if not _kept(search.graph(narrow, first(most)), limits, measures):
        sqnr_db, drop = measures.quality(search.graph(narrow, first(most)))
        lost = "" if limits.accuracy_drop is None else f" and loses {drop:.2f} points"
        raise CompileError(
            f"the limit cannot be kept: with int16 maps the network has {sqnr_db:.1f} dB{lost}",
            f"ask for less{', allow more Flash' if limits.flash else ''}, or train the network for int8 (tw.prepare_qat)",
        )
    low, high = 0, most  # the first `high` keep the limits
    while high - low > 1:
        count = (low + high) // 2
        low, high = (low, count) if _kept(search.graph(narrow, first(count)), limits, measures) else (count, high)
    chosen = units[:high]
    for unit in chosen[-2::-1][:TRIALS]:
        fewer = [other for other in chosen if other != unit]
        if _kept(search.graph(narrow, NONE.union(*fewer)), limits, measures):
            chosen = fewer
    return NONE.union(*chosen)


def _units(search: _Search, able: Names) -> Iterator[Names]:
    """Yield for each map the ops that have to be int16 so that it is: its maker and its readers, through ops that move."""
    for op in search.real.ops:
        if op.name not in able or op.kind in MOVES:
            continue
        reached, waiting = set[str](), list(op.outputs)
        while waiting:
            for index in search.real.consumers.get(waiting.pop(), ()):
                reader = search.real.ops[index]
                if reader.name in able and reader.name not in reached:
                    reached.add(reader.name)
                    waiting += reader.outputs if reader.kind in MOVES else ()
        if reached:
            yield frozenset({op.name, *reached})


def _told(search: _Search, narrow: Names, wide: Names) -> Mixed:
    """Return the choice with what each layer of it costs and gains."""
    graph, whole = search.graph(narrow, wide), decibel(search.noise(search.small))
    reached, layers = decibel(search.noise(graph)), list[LayerPrecision]()
    before, after = _constants(search.small), _constants(graph)
    for op in (op for op in search.real.ops if op.name in narrow | wide):
        without = search.graph(narrow - {op.name}, wide - {op.name})
        gained = reached - decibel(search.noise(without))
        weights = None if RULES[op.kind].weights is None else "int4" if op.name in narrow else "int8"
        activations = "int16" if op.name in wide else "int8"
        layers.append(LayerPrecision(op.name, op.kind, weights, activations, _constants(without) - after, gained))
        search.progress("counting what each gains", len(layers), len(narrow | wide))
    return Mixed(graph, tuple(layers), reached, whole, before - after)


def _exchanged(graph: Graph, op: Op, other: Op, source: Graph) -> Graph:
    """Return the graph with an op on the constants that it has in another graph."""
    new = {t.name: replace(t, name=f"{t.name}.exchanged") for t in source.inputs_of(other) if t is not None and is_constant(t)}
    inputs = [new[name].name if name in new else own for name, own in zip(other.inputs, op.inputs, strict=True)]
    return exchange(graph, [replace(op, inputs=tuple(inputs))], new.values())


def _weights(graph: Graph) -> dict[str, int]:
    """Return op -> bytes of its weights."""
    return {op.name: graph.input(op, 1).bytes for op in graph.ops if op.kind in TAKE_INT4_WEIGHTS}


def _constants(graph: Graph) -> int:
    """Return the bytes of all constants that ops read."""
    return sum(tensor.bytes for name, tensor in graph.tensors.items() if name in graph.consumers and tensor.data is not None)

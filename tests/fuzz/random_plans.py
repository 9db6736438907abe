"""Random networks with random plans: the C of any valid plan gives the numpy reference's bytes.

Takes seeds and returns failures. A plan has a random order that respects state, views or copies, moves of live tensors, a
random subset of the allowed overlaps, and any valid placement, not only a good one; or it is a random point of a Pareto front.
Many plans are built into one library. Each runs in an arena of exactly its size between guard bytes, filled with random bytes,
and again with their complement; a byte that is equal in both runs was written. The same seed gives the same plans. Fewer plans
run on emulated cores, too, and on this machine with sanitizers.
"""

from __future__ import annotations

import ctypes
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import itemgetter
from pathlib import Path

import numpy as np
from codegen.emitted import emitted, source_of
from codegen.retrained import plan_again, retrained, same_code
from fuzz.formats import ALL
from fuzz.generate import BY_ROW, BY_SOME_ROWS, FILTERED, Growth, random_network, random_order

from tinyweave import ops
from tinyweave.codegen import Source, constants_of
from tinyweave.ir import CompileError, Graph, rebuild
from tinyweave.kernels.table import kernels_for
from tinyweave.planning import (
    Buffer,
    Plan,
    Request,
    check,
    fetches,
    front,
    with_copies,
    with_early_fetches,
    with_fetches,
    with_pieces,
)
from tinyweave.planning.alias.overlap import distances, rules, shared_in, views
from tinyweave.planning.alias.subtensors import Aliases
from tinyweave.planning.assemble import NO_OVERLAP, lay_out, place_layout, unfused_stages
from tinyweave.planning.check import UnsoundPlanError
from tinyweave.planning.fuse.rematerialise import reads_by_channel
from tinyweave.planning.fuse.row_schedule import rules_of
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.planning.order.order_search import file_order, without_views
from tinyweave.planning.place.place import Rules
from tinyweave.planning.place.relocation_ops import lone_tensors, with_moves
from tinyweave.simulate import compare, host, target
from tinyweave.support import toolchain
from tinyweave.support.files import write_below

# zig would compile the library of its sanitizer, which it uses by default with -O0
FLAGS = ("-std=c99", "-DTW_PLAIN_C", "-fPIC", "-O2", "-fno-sanitize=undefined")
GUARD = 256
# cores whose kernels plans have; on the host plain C replaces their instructions
CORES = ("", "", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m55", "rv32imc")
PLANS = 4  # number of plans per network
SAMPLES = 2


def twin(g: Growth) -> None:
    """Add a layer again with the same constants on the same input."""
    layers = [op for op in g.ops if op.kind in FILTERED and op.inputs[0] in g.live]
    if layers:
        op = g.rng.choice(layers)
        attrs = {**op.attrs, "activation": g.rng.choice(("none", "relu"))}
        g.emit(op.kind, list(op.inputs), attrs, g.tensors[op.outputs[0]].quant)


JOINING = ("add", "mul", "concatenation", "split", "split_v")  # kinds that split and join branches are more frequent here
BRANCHING = {kind: (3 * weight if kind in JOINING else weight, grow) for kind, (weight, grow) in ALL.items()}
BRANCHING["twin"] = (4, twin)


@dataclass(frozen=True)
class Trial:
    """A plan of the network of `seed`, with the name of its C.

    is_exact: whether the last byte of its arena is written. again: the plan of the same network, trained again, if the kernels
    can run it.
    """

    seed: int
    name: str
    plan: Plan
    is_exact: bool = False
    again: Plan | None = None

    @property
    def in_again(self) -> Source | None:
        """Return the C of the network that was trained again, or None if it is not the same C."""
        made, source = self.again, source_of(self.plan.graph, self.plan, self.name)
        there = made and source_of(made.graph, made, self.name)
        return there if there and same_code(source.files, there.files) else None

    @property
    def overlaps(self) -> int:
        """Return the number of pairs of buffers that share bytes while both are alive."""
        spans = [(b, self.plan.offsets[b.name], self.plan.offsets[b.name] + b.bytes) for b in self.plan.buffers]
        return sum(
            max(x.start, y.start) < min(x.end, y.end) and max(begin, other) < min(end, stop)
            for (x, begin, end), (y, other, stop) in combinations(spans, 2)
        )


def network(seed: int) -> Graph:
    """Return the network of this seed. In every third network, one filter of each convolution has an outlier scale."""
    graph = random_network(seed, random.Random(seed).randint(5, 18), growers=BRANCHING)
    return with_outliers(graph, random.Random(seed)) if seed % 3 == 0 else graph


def with_outliers(graph: Graph, rng: random.Random) -> Graph:
    """Return the network with one filter of each int8 convolution, and its bias, scaled to a rescale shift of -1 or more."""
    tensors = dict(graph.tensors)
    for op in graph.ops:
        operands = [tensors[name] for name in op.inputs if name is not None]
        quant = operands[1].quant if op.kind in ("conv_2d", "depthwise_conv_2d") else None
        if quant is None or not quant.per_channel or operands[0].dtype != "int8" or len(graph.consumers[op.inputs[1]]) > 1:
            continue
        number, wanted = rng.randrange(len(quant.scale)), rng.uniform(0.3, 3) * graph.output(op).scale / operands[0].scale
        factor = wanted / quant.scale[number]
        for tensor in operands[1:]:
            if tensor.quant is not None and tensor.quant.per_channel:
                scales = [scale * (factor if at == number else 1) for at, scale in enumerate(tensor.quant.scale)]
                tensors[tensor.name] = replace(tensor, quant=replace(tensor.quant, scale=tuple(scales)))
    return rebuild(graph, tensors=tensors)


def trials(seed: int, core: str | None = None, count: int = PLANS) -> list[Trial]:
    """Return random, checked plans of the network of this seed, with kernels of `core`, or each with those of any core."""
    rng, graph = random.Random(seed), network(seed)
    graph = replace(graph, outputs=tuple(rng.sample(graph.outputs, rng.randint(1, min(4, len(graph.outputs))))))
    plans = [random_plan(graph, rng, core) for _ in range(count)]
    return [Trial(seed, f"net_{seed}_{number}", with_random_constants(plan, rng)) for number, plan in enumerate(plans)]


def with_random_constants(plan: Plan, rng: random.Random) -> Plan:
    """Return the plan with copies of random constants in RAM, with all in a file, maybe read by a callback, or in the C."""
    if rng.random() < 0.25:
        return with_random_fetches(plan, rng)
    constants = constants_of(plan)
    chosen = rng.sample(constants, rng.choice((0, 0, rng.randint(0, len(constants)))))
    return check(with_copies(plan, chosen, "sram")) if chosen else replace(plan, weights_file=len(constants) % 2 == 0)


def with_random_fetches(plan: Plan, rng: random.Random) -> Plan:
    """Return the plan with constants that a callback reads, some early, to the least arena or to random places."""
    made = replace(plan, weights_file=True)
    made = with_early_fetches(with_fetches(made, constants_of(made), "sram", early=rng.random() < 0.5))
    if rng.random() < 0.5:
        offsets = random_offsets(made.buffers, {pair: n for pair, n in rules_of(made).items() if rng.random() < 0.5}, rng)
        arena = max(offsets[b.name] + b.bytes for b in made.buffers)
        made = replace(made, offsets=offsets, arena={"sram": arena}, lower_bound=0)
    return check(made)


def file_trials(seed: int) -> list[Trial]:
    """Return random plans of the network of this seed with a file of weights, and of the same network, trained again."""
    graph, rng = network(seed), random.Random(seed)
    again = retrained(graph, seed)
    plans = [replace(random_plan(graph, rng), weights_file=True) for _ in range(PLANS - 1)]
    plans.append(plan_in_pieces(graph, rng))
    plans += [replace(point, weights_file=True) for point in front(graph, Request(core=rng.choice(CORES)))[:PLANS]]
    return [Trial(seed, f"net_{seed}_{number}", plan, again=plan_again(plan, again)) for number, plan in enumerate(plans)]


def plan_in_pieces(graph: Graph, rng: random.Random, core: str | None = None) -> Plan:
    """Return a random plan with constants that a callback reads, in some layers for some channels at a time."""
    splits = [op.outputs[0] for op in graph.ops if reads_by_channel(graph, op) and graph.output(op).shape[-1] > 1]
    pieces = {name: rng.randrange(1, graph.tensors[name].shape[-1]) for name in splits}
    return replace(with_random_fetches(random_plan(with_pieces(graph, pieces), rng, core), rng), pieces=pieces)


def front_trials(seed: int, core: str | None = None, count: int = PLANS) -> list[Trial]:
    """Return random points of the front of a network of this seed with random options, for `core` or a random one."""
    rng = random.Random(seed)
    growers, live = rng.choice(((BY_ROW, 2), (BY_SOME_ROWS, 4), (BRANCHING, 8)))
    graph = random_network(seed, rng.randint(5, 18), growers=growers, live=live)
    options = {"core": core or rng.choice(CORES), "max_mac_overhead": rng.choice((None, 1.1, 1.5, 2.0))}
    streams = {"stream_inputs": rng.random() < 0.4, "stream_outputs": rng.random() < 0.4}
    try:
        points = front(graph, Request(**options, **streams))
    except CompileError:  # an input or output cannot be streamed
        points = front(graph, Request(**options))
    chosen = rng.sample(points, min(count, len(points)))
    named = ((f"net_{seed}_{number}", with_random_constants(plan, rng)) for number, plan in enumerate(chosen))
    return [Trial(seed, name, plan, is_exact=True) for name, plan in named]


def random_plan(graph: Graph, rng: random.Random, core: str | None = None) -> Plan:
    """Return a random unfused plan in one memory with the kernels of `core`, or of any core."""
    order = random_order(graph, rng)
    if rng.random() < 0.5:
        graph, order = moved_at_random(graph, order, rng)
    share, parts = rng.choice(((False, False), (True, False), (True, True), (True, True)))
    shared = shared_in(graph, order, parts=parts) if share else Aliases(without_views(graph), {}, frozenset())
    core = rng.choice(CORES) if core is None else core
    named = frozenset((op.name, rng.choice(kernels_for(graph, op, core)).name) for op in graph.ops if rng.random() < 0.8)
    kernels = KernelRule(core, named)
    laid = lay_out(graph, unfused_stages(order), shared, max_distance=NO_OVERLAP, kernels=kernels)
    made = check(place_layout(laid, moves=False)[0])
    owner = {name: place.buffer for name, place in made.places.items()}
    distance = distances(graph, made.variants, owner, offset={name: place.offset for name, place in made.places.items()})
    allowed = rules(graph, [(index,) for index in order], owner, [distance[index] for index in order], made.buffers)
    kept = rng.choice((0.0, 0.5, 1.0, 1.0))
    offsets = random_offsets(made.buffers, {pair: least for pair, least in allowed.items() if rng.random() < kept}, rng)
    arena = max((offsets[b.name] + b.bytes for b in made.buffers), default=0)
    return check(replace(made, offsets=offsets, arena={"sram": arena}, lower_bound=0))


def moved_at_random(graph: Graph, order: tuple[int, ...], rng: random.Random) -> tuple[Graph, tuple[int, ...]]:
    """Return the graph with additional ops that relocate live tensors, and its order."""
    places = lone_tensors(graph, [(index,) for index in order], views(graph, order))
    chosen = {place for place in places if rng.random() < 0.1}
    steps: list[int | str] = []
    for step, index in enumerate(order):
        steps += [*(name for place, name in places.items() if place in chosen and place[1] == step), index]
    made, _ = with_moves(graph, steps)
    return made, file_order(made)


def random_offsets(buffers: Sequence[Buffer], distance: Rules, rng: random.Random) -> dict[str, int]:
    """Return a valid offset for each buffer in random order: the lowest, adjacent to another buffer, or anywhere."""
    room = int(sum(b.bytes + b.align for b in buffers) * rng.choice((1.0, 1.2, 2.0))) + 64
    offsets: dict[str, int] = {}
    for x in rng.sample(list(buffers), len(buffers)):
        met = [y for y in buffers if y.name in offsets and max(x.start, y.start) < min(x.end, y.end) and x.bytes and y.bytes]
        taken = [  # open intervals of offsets that x cannot have
            (
                offsets[y.name] - min(x.bytes, distance.get((x.name, y.name), x.bytes)),
                offsets[y.name] + min(y.bytes, distance.get((y.name, x.name), y.bytes)),
            )
            for y in met
        ]
        edges = [-(-end // x.align) * x.align for _, end in taken] + [begin // x.align * x.align for begin, _ in taken]
        anywhere = [rng.randrange(room) // x.align * x.align for _ in range(3)]
        free = sorted(at for at in {0, *edges, *anywhere} if not any(begin < at < end for begin, end in taken))
        over = [at for at in free if any(at < offsets[y.name] + y.bytes and offsets[y.name] < at + x.bytes for y in met)]
        offsets[x.name] = rng.choice((free[0], rng.choice(free), rng.choice(over or free)))
    grain = max((b.align for b in buffers), default=1)
    below = min(offsets.values(), default=0) // grain * grain
    return {name: offset - below for name, offset in offsets.items()}


def build(folder: Path, wanted: Sequence[Trial]) -> ctypes.CDLL:
    """Build one library of the C of all trials; kernels are cached."""
    compiler, sources = toolchain.host(), []
    for trial in wanted:
        emitted(trial.plan, folder, trial.name)
        sources.append(folder / f"{trial.name}.c")
    kernels = toolchain.objects(compiler, FLAGS, sorted(folder.glob("tw_*")))
    library = folder / "trials.so"
    toolchain.compile_c(compiler, [*FLAGS, "-O0", "-shared", "-I", folder, *sources, *kernels, "-o", library])
    return ctypes.CDLL(str(library))


READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


def readers(plan: Plan, file: bytes, arena: int, reads: list[tuple[int, int]]) -> list[Callable[..., int]]:
    """Return the callbacks `read`, `start` and `wait` for a file of weights.

    Before a read, constants of earlier steps are overwritten. A destination that was only started is overwritten, too, until
    `wait` writes it; `wait` fails if the model has changed it.

    `arena` is the address of the only memory; the offset and bytes of each read are appended to `reads`.
    """
    wrong, begun = target.spoiled(plan), list[tuple[int, bytes]]()

    def read(_: int | None, offset: int, to: int, count: int) -> int:
        for _, at, size in wrong.get(offset, ()):
            ctypes.memset(arena + at, 0xA5, size)
        ctypes.memmove(to, file[offset : offset + count], count)
        reads.append((offset, count))
        return int(offset + count > len(file))

    def start(_: int | None, offset: int, to: int, count: int) -> int:
        failed = read(_, offset, to, count)
        begun.append((to, ctypes.string_at(to, count)))
        ctypes.memset(to, 0xA5, count)
        return failed

    def wait(_: int | None) -> int:
        changed = any(ctypes.string_at(to, len(data)) != b"\xa5" * len(data) for to, data in begun)
        for to, data in begun:
            ctypes.memmove(to, data, len(data))
        begun.clear()
        return int(changed)

    return [READ(read), READ(start), WAIT(wait)]


class Rows(ctypes.Structure):
    """The callbacks of a model."""

    CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int32] * 3, ctypes.c_void_p)
    _fields_ = (("user", ctypes.c_void_p), ("read_rows", CALLBACK), ("write_rows", CALLBACK))


def failure(library: ctypes.CDLL, trial: Trial) -> str | None:
    """Return the fault of a trial's C, or None if all outputs are right and no byte outside of the arena was written."""
    samples = compare.samples(trial.plan.graph, 3 + SAMPLES, trial.seed)[3:]  # without the extreme values, which saturate
    size = trial.plan.arena["sram"]
    noise = np.random.default_rng(trial.seed).integers(0, 256, (SAMPLES, size + 2 * GUARD), dtype=np.uint8)
    left = list[np.ndarray]()
    for fill in (noise, ~noise):
        text = run(library, trial, samples, fill, left)
        if text:
            return text
    written = np.flatnonzero(left[0] == left[1]) - GUARD
    if written.size and not 0 <= written[0] <= written[-1] < size:
        return "writes outside of its arena"
    touched = written[-1] + 1 if written.size else 0
    return f"claims {size:,} B and touches {touched:,} B" if trial.is_exact and touched != size else None


def run(
    library: ctypes.CDLL, trial: Trial, samples: Sequence[Sequence[np.ndarray]], fill: np.ndarray, left: list
) -> str | None:
    """Run the C of a trial on samples in memory filled with `fill` before each one; return its fault.

    The memory with its guards is appended to `left`.
    """
    plan, graph, size = trial.plan, trial.plan.graph, trial.plan.arena["sram"]
    state = ops.initial_state(graph)
    block = np.empty(fill.shape[1] + 64, np.uint8)
    begin = GUARD + -(block.ctypes.data + GUARD) % 64
    block[begin - GUARD : begin + size + GUARD] = fill[0]
    file = Path(library._name).with_name(f"{trial.name}.weights")
    weights = np.frombuffer(file.read_bytes() if plan.weights_file else b"", np.uint8)
    aligned = np.empty(weights.size + 32, np.uint8)
    home = -aligned.ctypes.data % 16
    aligned[home : home + weights.size] = weights
    # {data, bytes} of the only memory, then of the file of weights, or {read, context, start, wait}
    arena, reads = block.ctypes.data + begin, list[tuple[int, int]]()
    memory = (ctypes.c_size_t * 6)(arena, size, aligned.ctypes.data + home, weights.size)
    if plan.fetches:
        callbacks = readers(plan, weights.tobytes(), arena, reads)
        read, *later = (ctypes.cast(callback, ctypes.c_void_p).value for callback in callbacks)
        memory[2:] = read, 0, *later
    calls = [(each.start, step, each) for step, of_step in fetches(plan).items() if step >= 0 for each in of_step]
    wanted = [(each.offset, each.bytes) for *_, each in sorted(calls, key=lambda call: call[:2])]

    def function(verb: str, result: type = ctypes.c_int) -> Callable[..., int]:
        found = library[f"{trial.name}_{verb}"]
        found.restype = result
        return found

    address = {verb: function(verb, ctypes.c_void_p) for verb in ("input", "output")}
    if function("init")(memory):
        return "init refuses the memory"
    for number, sample in enumerate(samples):
        if number and not state:
            block[begin : begin + size] = fill[number][GUARD : GUARD + size]
            function("init")(memory)  # it copies constants
        for index, array in enumerate(sample):
            if graph.inputs[index] not in plan.streamed_inputs:
                ctypes.memmove(address["input"](memory, index), array.tobytes(), array.nbytes)
        come = {index: bytearray() for index, name in enumerate(graph.outputs) if name in plan.streamed_outputs}
        reads.clear()
        if function("invoke")(memory, ctypes.byref(by_rows(graph, sample, come))):
            return "invoke returns an error, or asks for rows that there are not"
        if reads != wanted:
            return f"invoke reads {reads} of its file, and the plan {wanted}"
        values = ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), state=state)
        for index, name in enumerate(graph.outputs):
            tensor = graph.tensors[name]
            raw = bytes(come[index]) if index in come else ctypes.string_at(address["output"](memory, index), tensor.bytes)
            if len(raw) != tensor.bytes:
                return f"sample {number}, output '{name}': {len(raw)} of {tensor.bytes} B came"
            text = compare.difference(values[name], np.frombuffer(raw, tensor.dtype).reshape(tensor.shape))
            if text:
                return f"sample {number}, output '{name}': {text}"
    left.append(block[begin - GUARD : begin + size + GUARD])
    return None


def by_rows(graph: Graph, sample: Sequence[np.ndarray], come: Mapping[int, bytearray]) -> Rows:
    """Return callbacks that give the rows of a sample and append streamed output rows to `come`."""

    def read(_: object, index: int, first: int, count: int, destination: int) -> int:
        row = sample[index].nbytes // sample[index].shape[1]
        rows = sample[index].tobytes()[first * row : (first + count) * row]
        ctypes.memmove(destination, rows, len(rows))
        return int(len(rows) != count * row)

    def write(_: object, index: int, first: int, count: int, source: int) -> int:
        tensor = graph.tensors[graph.outputs[index]]
        row = tensor.bytes // tensor.shape[1]
        is_next = first * row == len(come[index])
        come[index] += ctypes.string_at(source, count * row)
        return int(not is_next)

    return Rows(None, Rows.CALLBACK(read), Rows.CALLBACK(write))


def failures(seeds: Sequence[int], make: Callable[[int], list[Trial]] = trials) -> tuple[list[Trial], list[str]]:
    """Return all trials of these seeds, and a line per failing one."""
    wanted: list[Trial] = []
    refused = []
    for seed in seeds:
        try:
            wanted += make(seed)
        except (UnsoundPlanError, CompileError) as error:
            refused.append(f"seed {seed}: {error}")
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        library = build(Path(folder), wanted)
        found = [(trial, failure(library, trial)) for trial in wanted]
        for trial in wanted:
            if source := trial.in_again:
                write_below(Path(folder), source.data)
                found.append((trial, failure(library, replace(trial, plan=trial.again))))
    return wanted, refused + [f"seed {trial.seed}, plan {trial.name}: {text}" for trial, text in found if text]


def trial_of(seed: int, core: str) -> Trial:
    """Return a plan of a network of this seed with kernels of a core: in turn unfused, in pieces, and of a front."""
    if seed % 3 == 1:
        return Trial(seed, f"net_{seed}", plan_in_pieces(network(seed), random.Random(seed), core))
    return (trials if seed % 3 == 0 else front_trials)(seed, core, count=1)[0]


def fault_on(core: str, seed: int, folder: Path, counts: Counter[str]) -> str | None:
    """Return the fault of the C of a seed's plan, or None if all output bytes and all reads of the file are right.

    Fetched constants have no address on the emulated core and are overwritten after their step, as are copied constants in
    Flash after init. `counts` counts constants by their place, and the bytes that a callback reads in an inference.
    """
    try:
        trial = trial_of(seed, core)
        made, name = trial.plan, trial.name
        there = target.build(made, emitted(made, folder, name), name, core)
        here = replace(there, target=target.HOST, program=host.build(folder, name, sanitize=True, optimize="-O0"))
        cases = compare.samples(made.graph, 3 + SAMPLES, seed)[3:]
        runs = [compare.run_samples(built, cases) for built in (here, there)]
        found = compare.verdict(compare.truth(made.graph, cases), cases, runs)
    except (UnsoundPlanError, CompileError) as error:
        return str(error)
    in_turn = [(min(each.start, step), each) for step, reads in fetches(made).items() if step >= 0 for each in reads]
    planned = [(each.offset, each.bytes) for _, each in sorted(in_turn, key=itemgetter(0))]  # early ones begin in earlier steps
    elsewhere = "in a file" if made.weights_file else "in Flash"
    counts.update(
        ("read" if made.fetches else "copied") if each.name in made.copies else elsewhere for each in constants_of(made)
    )
    counts["bytes read"] += sum(count for _, count in planned)
    if runs[1].first.reads != planned:
        return f"the callback reads {runs[1].first.reads}, and the plan {planned}"
    return found.first_difference or (str(found.touched) if trial.is_exact and not found.ok else None)

"""The commands: one function per verb, each calls the public API and shows what it returned."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from . import steps
from .modules import (
    api,
    columns,
    counts,
    figure,
    files,
    ir,
    manifest,
    markdown,
    measured,
    page,
    planning,
    records,
    sample_files,
    schema,
    tables,
    text,
    viewers,
    words,
)
from .options import (
    BAD_INPUT,
    DIFFERS,
    DOES_NOT_FIT,
    SAMPLES,
    SEED,
    SHARED,
    Inputs,
    Json,
    KernelPrefix,
    ModelFile,
    Name,
    Options,
    Out,
    Samples,
    Seed,
    check_planned,
    command_line,
    edge_options,
    schedule_options,
    scheduled,
    source_options,
    with_options,
)

app = typer.Typer(
    name="tinyweave",
    help="Fits int8 neural networks into microcontrollers: plans the memory, writes plain C, proves every byte.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@with_options(edge_options)
def inspect(model: ModelFile, *, chosen: Options, as_json: Json = False) -> int:
    """Show a model layer by layer.

    Shapes, MACs, and where the memory goes, before any planning. Of a model with ops that are not supported it shows what it
    can, and which they are and why, and exits with 2.

    Example: tinyweave inspect kws.tflite
    """
    with steps.told(model):
        loaded, reasons = api.look_at(model, chosen["io"], layout=chosen["layout"])
    record = records.record(loaded, unsupported=reasons)
    steps.show(record, lambda: [text.show_model, text.show_layers, text.show_unsupported], as_json=as_json)
    return BAD_INPUT if reasons else 0


@app.command()
@with_options(*SHARED)
def plan(
    model: ModelFile,
    *,
    chosen: Options,
    tensor: Annotated[
        str | None,
        typer.Option("--explain", metavar="TENSOR", help="Say why this tensor, or output of a layer, lies there."),
    ] = None,
    pareto: Annotated[bool, typer.Option("--pareto", help="Show what RAM costs in cycles: all plans worth having.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="With --pareto: draw it, as .svg, or .png with cairosvg.")
    ] = None,
    count: Annotated[
        str,
        typer.Option("--count", metavar="live|fusion_paper|patch_paper", help="Show what a paper finds by its count, too."),
    ] = "live",
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write the plan itself as JSON.")] = None,
    as_json: Json = False,
) -> int:
    """Plan the memory and draw it.

    Every buffer's place, size and lifetime, where the peak is, and what each technique of the planner saves; with --explain
    why one tensor lies where it lies; with --pareto what RAM costs in cycles. Exits with 1 if the arena exceeds
    the RAM limit.

    Example: tinyweave plan kws.tflite --device stm32f412
    """
    if picture is not None:
        figure.check_figure(picture.name)
    of_one = {"--explain": tensor, "--count": count != "live", "--out": out, "--optimize": chosen["optimize"]}
    for option, value in of_one.items():
        if pareto and value:
            raise ir.CompileError(f"{option} is of one plan, not of --pareto", "leave out one of them")
    if picture is not None and not pareto:
        raise ir.CompileError("--figure draws what --pareto finds", "add --pareto, or leave out --figure")
    board, limits = steps.target_of(chosen)
    loaded = steps.load_model(model, chosen)
    chain = api.counted_chain(loaded, count)
    if pareto:
        return steps.show_front(loaded, board, limits, chosen, picture=picture, as_json=as_json)
    planned = steps.make_plan(loaded, board, limits, chosen)
    overhead = chosen["max_mac_overhead"] or 1.0
    bounds = {"max_mac_overhead": overhead, "ram": limits.ram}
    compared = api.counted(loaded, planned, count, chain, **bounds) if chain else None
    explained = None if tensor is None else api.explain(loaded, planned, tensor)
    saved = api.ablation(loaded, planned, chosen["schedule"]) if explained is None else None
    record = records.record(loaded, plan=planned, device=board, limits=limits, ablation=saved)
    record["explain"] = records.explanation_record(explained) if explained else None
    record["count"] = counts.count_record(compared) if compared else None
    if record["fits"] is False and not explained:
        record["advice"] = steps.advise("plan", model, loaded, planned, board=board, limits=limits, chosen=chosen)
    if out is not None:
        files.write_file(out, planning.to_json(planned))

    def shown() -> list[steps.Show]:
        if explained:
            parts: list[steps.Show] = [lambda out, record: text.show_explanation(out, planned, explained)]
        else:
            parts = [partial(text.show_plan, plan=planned), text.show_verdict, text.show_advice]
        lines = ["", *counts.count_lines(loaded.graph, compared, overhead, limits.ram)] if compared else []
        return [*parts, lambda out, record: text.show_lines(out, lines)]

    steps.show(record, shown, as_json=as_json)
    return DOES_NOT_FIT if record["fits"] is False else 0


@app.command(name="compile")
@with_options(*SHARED, source_options)
def compile_model(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="A .tflite, .onnx or .pt2 file, or several that share one folder.")
    ],
    *,
    chosen: Options,
    name: Name = None,
    kernel_prefix: KernelPrefix = None,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Emit this plan, of `plan -o FILE` with the same --io and --layout."),
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Write the C of a model, or of several.

    The folder holds <name>.h, <name>.c, <name>_weights.h of each and the kernels that they use, and no others. What an earlier
    run wrote there and is no longer part of it is removed, unless somebody has changed it.

    Example: tinyweave compile kws.tflite -o firmware/kws
    """
    if len(models) > 1 and name is not None:
        raise ir.CompileError("--name is of one model", "leave it out: the names come from the files")
    if len(models) > 1 and out is None:
        raise ir.CompileError("several models share one folder", "give it with -o")
    if plan_file is not None:
        check_planned(models, chosen)
    board, limits = steps.target_of(chosen)
    loaded = [steps.load_model(path, chosen, name) for path in models]
    if plan_file is not None:
        plans = [api.read_plan(plan_file, loaded[0], board.core if board else None)]
    else:
        plans = [steps.make_plan(model, board, limits, chosen) for model in loaded]
    options = {"name": name, "kernel_prefix": kernel_prefix, "plan": plan_file}
    about = {"kernel_prefix": kernel_prefix or "", "row_source": chosen["source"], "pixels": chosen["pixels"]}
    sources = [
        api.source(model, planned, command_line("compile", [path], chosen, **options), board, **about)
        for model, planned, path in zip(loaded, plans, models, strict=True)
    ]
    emitted, folder = api.together(sources), out or Path("out") / loaded[0].name
    with manifest.generated_folder(
        folder, command_line("compile", models, chosen, **options), steps.origins(loaded)
    ) as written:
        for source in sources:
            api.write(source, written.scratch)
    entries = steps.written_records(loaded, plans, board=board, limits=limits, chosen=chosen)
    if as_json:
        files_of = steps.written_files(folder, [*emitted, manifest.MANIFEST], written)
        whole = {"tinyweave": __version__, "models": entries} if len(entries) > 1 else entries[0]
        return steps.print_json(whole | files_of)
    text.heading(text.console(), f"wrote {len(emitted) + 1} files to {folder}")
    for file, content in emitted.items():
        print(f"  {file}  {len(content):,} B")
    print(f"  {manifest.MANIFEST}  lists them")
    steps.say_removed(folder, written)
    if len(entries) == 1:
        print(f"arena: {columns.size(entries[0]['ram']['arena'])}")
    else:
        for record in entries:
            print(f"arena of {record['model']['name']}: {columns.size(record['ram']['arena'])}")
        if not steps.keeps_state(plans):
            print("models that do not run at the same time can share one arena, as large as the largest")
    steps.show_needs(entries)
    return 0


@app.command()
@with_options(*SHARED)
def verify(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    samples: Samples = SAMPLES,
    seed: Seed = SEED,
    as_json: Json = False,
) -> int:
    """Prove that the C computes the right bytes.

    The C runs on this machine and on an emulated core, and is compared with LiteRT's reference. Exits with 1 if it differs.

    Example: tinyweave verify kws.tflite --device stm32f746 --samples 20
    """
    board, limits = steps.target_of(chosen)
    loaded = steps.load_model(model, chosen)
    planned = steps.make_plan(loaded, board, limits, chosen)
    arrays = sample_files.read_inputs(inputs, loaded)
    with steps.progress_bar() as report:
        result = api.verify(
            loaded, planned, inputs=arrays, count=samples, seed=seed, core=api.emulated_core(board), progress=report
        )
    record = records.record(loaded, plan=planned, verification=result, device=board, limits=limits)
    steps.show(record, lambda: [text.show_proof], as_json=as_json)
    return 0 if result.ok else DIFFERS


@app.command()
@with_options(*SHARED)
def profile(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    compare_with: Annotated[
        Path | None, typer.Option("--compare", metavar="FILE", help="What `profile --json` printed earlier: show what changed.")
    ] = None,
    trace_file: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Also write the layers as a trace for Perfetto or Chrome.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--measured", metavar="FILE", help="What an export printed with its profile on: show it beside the estimate."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Measure one inference on an emulated core.

    Instructions by layer, with the kernel that took them, the cycles and milliseconds that they are estimated to take on the
    device, stack, and the sizes of code and data. With --measured: the estimate beside what a board counted.

    Example: tinyweave profile kws.tflite --device stm32f746 --json > before.json
    """
    if compare_with and as_json:
        raise ir.CompileError("--compare shows what changed to people, not in --json", "leave out one of them")
    before = steps.read_profile(compare_with) if compare_with else None
    printed = files.read_file(log, schema.MAX_BYTES, "give what the example of an export printed") if log else None
    board, limits = steps.target_of(chosen)
    loaded = steps.load_model(model, chosen)
    planned = steps.make_plan(loaded, board, limits, chosen)
    arrays = sample_files.read_inputs(inputs, loaded)
    with steps.progress_bar() as report:
        report("building and running on the emulated core", 0, 1)
        found = api.profile(loaded, planned, api.emulated_core(board), arrays[0] if arrays else None, device=board)
    record = records.record(loaded, plan=planned, profile=found, device=board, limits=limits)
    if printed is not None:
        record["measured"] = measured.measured_records(record, planned, printed.decode("utf-8", "replace"))
    if trace_file:
        files.write_file(trace_file, json.dumps(viewers.trace(record), indent=1) + "\n")

    def shown() -> list[steps.Show]:
        if printed is not None:
            return [text.show_measured]
        return [partial(text.show_profile, before=before), text.show_memory, text.show_instructions]

    steps.show(record, shown, as_json=as_json)
    return 0


@app.command()
@with_options(*SHARED, source_options)
def deploy(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    samples: Samples = SAMPLES,
    seed: Seed = SEED,
    name: Name = None,
    kernel_prefix: KernelPrefix = None,
    second_emulator: Annotated[
        bool, typer.Option("--second-emulator", help="Also run it as complete firmware on a board that QEMU plays.")
    ] = False,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Do the whole job: C that is proved, measured and judged.

    Plans, writes C, builds it, runs it here and on an emulated core, compares every output byte, measures RAM, Flash and
    instructions, and leaves the C and a report. Exits with 1 if it does not fit or if a byte differs.

    Example: tinyweave deploy kws.tflite --device stm32f746 -o firmware/kws
    """
    board, limits = steps.target_of(chosen)
    loaded = steps.load_model(model, chosen, name)
    if second_emulator:
        api.board_for(board)
    arrays = sample_files.read_inputs(inputs, loaded)
    options = {"inputs": inputs, "samples": samples, "seed": seed, "name": name, "kernel_prefix": kernel_prefix}
    options["second_emulator"] = second_emulator or None
    less = limits.less(api.row_source_bytes(loaded, chosen["source"])) if chosen["source"] else limits
    known: planning.KnownSpaces = {}
    planned = steps.make_plan(loaded, board, less, chosen, known=known)
    record = records.record(loaded, plan=planned, device=board, limits=limits, row_source=chosen["source"])
    if record["fits"] is False:  # no build can change that
        record["advice"] = steps.advise(
            "deploy", model, loaded, planned, board=board, limits=less, chosen=chosen, **options, out=out
        )
        steps.show(record, lambda: [text.show_misfit], as_json=as_json)
        return DOES_NOT_FIT
    folder = out or Path("out") / loaded.name
    command = command_line("deploy", [model], chosen, **options)
    with manifest.generated_folder(folder, command, steps.origins([loaded])) as written:
        with steps.progress_bar() as report:
            done = api.deploy(
                loaded,
                written.scratch,
                device=board,
                limits=limits,
                **scheduled(chosen),
                inputs=arrays,
                count=samples,
                seed=seed,
                command=command,
                kernel_prefix=kernel_prefix or "",
                row_source=chosen["source"],
                pixels=chosen["pixels"],
                planned=planned,
                known=known,
                second_emulator=second_emulator,
                progress=report,
            )
        record = records.deployment_record(done)
        record |= {"command": command, "digests": manifest.digests(written.scratch)}
        is_best = chosen["schedule"] == "best"
        entry = page.Entry(record, steps.front_of(loaded, board, less, chosen, known=known) if is_best else None)
        (written.scratch / "report.html").write_text(page.page([entry]), encoding="utf-8")
        (written.scratch / "report.md").write_text(markdown.markdown(record, words.picture(done.plan)), encoding="utf-8")
        (written.scratch / "report.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    steps.show(
        record,
        lambda: [text.show_target, text.show_memory, text.show_instructions, text.show_proof, text.show_verdict],
        as_json=as_json,
    )
    if not as_json:
        print(f"C and the report with every layer: {folder}")
    steps.say_removed(folder, written, as_json=as_json)
    return 0 if done.fits and done.verification.ok else DOES_NOT_FIT


@app.command()
def reorder(
    model: ModelFile,
    *,
    count: Annotated[
        str, typer.Option("--count", metavar="live|working_set", help="Views lie in their source, or each tensor by itself.")
    ] = "live",
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="The reordered .tflite to write.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write both orders as CSV.")] = None,
    picture: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="Draw memory over time: .svg, or .png with cairosvg.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Put a model's ops in the order that needs the least memory.

    The new file computes the same; nothing in it changes but the order. Any runtime that frees tensors gains by it.

    Example: tinyweave reorder kws.tflite -o kws_reordered.tflite --figure kws.svg
    """
    if picture is not None:
        figure.check_figure(picture.name)
    written = [path for path in (out, table, picture) if path is not None]
    if twice := [path for path in written if written.count(path) > 1]:
        raise ir.CompileError(f"two results would be called '{twice[0]}'", "give each a path of its own")
    with steps.told(model):
        loaded = api.read(model)
    done = api.reorder(loaded, count)
    record = records.reorder_record(done, out)
    drawn = figure.figure(record, picture.name) if picture else b""
    wanted = {out: done.file, table: tables.order_csv(record), picture: drawn}
    files.write_files({path: content for path, content in wanted.items() if path is not None})
    steps.show(record, lambda: [text.show_reordering], as_json=as_json)
    return 0


@app.command()
@with_options(schedule_options, edge_options)
def compare(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    as_json: Json = False,
) -> int:
    """Hold a model against every known board.

    Plans, builds and runs it once per core, and says for each board how long it takes there (estimated), and what is left of
    its RAM and Flash, or what is missing. Exits with 1 if it fits none.

    Example: tinyweave compare kws.tflite
    """
    loaded = steps.load_model(model, chosen)
    arrays = sample_files.read_inputs(inputs, loaded)
    with steps.progress_bar() as report:
        boards = api.compare_boards(loaded, sample=arrays[0] if arrays else None, progress=report, **scheduled(chosen))
    planned = next(board.plan for board in boards if board.device.core == api.DEFAULT_CORE)
    record = records.comparison_record(loaded, planned, boards)
    steps.show(record, lambda: [text.show_comparison], as_json=as_json)
    return 0 if record["fits"] else DOES_NOT_FIT


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tinyweave {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())

"""batchstat compare"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli.options import groups as o

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.comparison import Comparison, StrategyResult


@o.takes(
    *(o.OPTIONAL_CORPUS, o.STRATEGIES, o.TABLE, o.BATCHING, o.SAMPLER),
    *(o.EXPORT, o.MODEL, o.READING, o.FILES, o.CONFIGURATION),
)
def command(context: typer.Context, **options: Any) -> None:
    """Simulate batching strategies on the same lengths, side by side at equal peak memory.

    Writes compare.json and plots to the results folder, and the profile if a corpus is given.

    batchstat compare --tokens-per-batch 16384

    batchstat compare reviews.csv --text-column review --tokenizer bert-base-cased

    batchstat compare --strategy static --strategy token-budget:read_ahead=1000

    batchstat compare --preset fairseq --preset trl

    batchstat compare --strategy token-budget --world-size 8 --export plan.parquet
    """
    from dataclasses import replace

    from batchstat.cli import profiles
    from batchstat.cli.inputs import configuration, inputs
    from batchstat.cli.streams import say, written
    from batchstat.documents.base import to_text
    from batchstat.documents.comparison import comparison_json
    from batchstat.errors import OptionError
    from batchstat.render.screens.comparison import comparison_screen
    from batchstat.simulation.compare import check_seeds, compare, parse_strategies
    from batchstat.simulation.comparison import ReportWarning
    from batchstat.simulation.cost_model import load_model
    from batchstat.simulation.estimate import check_share, read_share
    from batchstat.storage.results import check_results

    output, export = options["output"], options["export"]
    if export is not None and export.suffix != ".parquet":
        raise OptionError(f"export={export.as_posix()}: must end in .parquet")
    given = inputs(context, configuration(context).shared)
    settings, presets = given.settings, options["preset"] or ()
    strategies = _strategies(given, every=options["every"])
    seeds = check_seeds(settings, 1 if options["seeds"] is None else options["seeds"])
    parse_strategies(strategies, settings.decide(longest=1, stated_max=None), presets)
    share = None
    if options["subsample"] is not None:
        share = read_share(options["subsample"])
        check_share(share, settings)
        if export is not None:
            raise OptionError("--export writes the batches of the whole corpus: remove --subsample")
    model = None if options["model"] is None else load_model(options["model"])
    check_results(output)
    found = profiles.found(context, given)
    profile = found.profile
    comparison = compare(
        profile,
        strategies=strategies,
        presets=presets,
        model=model,
        seeds=seeds,
        subsample=share,
        **asdict(settings),
    )
    stale = tuple(ReportWarning("stale_profile", change) for change in found.changes)
    if partial := profiles.incomplete(profile):
        stale += (ReportWarning("partial_profile", partial),)
    comparison = replace(comparison, warnings=stale + comparison.warnings)

    plots = {}
    if options["plots"]:
        from batchstat.render.plots.comparison import comparison_plots
        from batchstat.render.plots.ranks import rank_plots

        plots = comparison_plots(comparison) | rank_plots(comparison)
    result = ("compare.json", to_text(comparison_json(comparison)))
    screen = comparison_screen(
        comparison, lambda row: _to_use(context, given, profile, comparison, row)
    )
    files = profiles.publish(context, found, screen, result, plots)
    for warning in comparison.warnings:
        say(f"warning: {warning.message}")
    say(written(files, output))
    if export is not None:
        _export(profile, comparison, export)


def _to_use(
    context: typer.Context,
    given: "Inputs",
    profile: "Profile",
    comparison: "Comparison",
    row: "StrategyResult",
) -> str:
    """Return the command that trains with a row, or that simulates it where no script can reproduce
    its batches.
    """
    from dataclasses import replace

    from batchstat.cli.pasted import command_line
    from batchstat.planning.strategies.spec import parse_strategy
    from batchstat.render.recipes.writing import holds_text, refusal

    basis = replace(
        comparison.basis, order=row.order, distribute=row.distribute, remainder=row.remainder
    )
    strategy = parse_strategy(row.spec, asdict(basis))
    has_script = holds_text(profile) and not refusal("torch", row.spec, strategy, basis)
    size = row.params.get("batch_size")
    decided = {
        "strategy": row.spec,
        "tokens_per_batch": basis.tokens_per_batch,
        "max_length": basis.max_length,
        "batch_size": None if size is None or "batch_size=" in row.spec else size,
    }
    if row.preset is not None:
        decided |= {"order": row.order, "distribute": row.distribute, "remainder": row.remainder}
    return command_line(context, given, "recipe" if has_script else "compare", **decided)


def _export(profile: "Profile", comparison: "Comparison", path: Path) -> None:
    """Write the batches of the best row, and report which row and epoch they are from."""
    from dataclasses import replace
    from io import BytesIO

    from batchstat.cli.streams import say
    from batchstat.render.text import batches
    from batchstat.storage.results import write_file
    from batchstat.training.plan_file import export_plan

    best = comparison.best
    basis = replace(
        comparison.basis, order=best.order, distribute=best.distribute, remainder=best.remainder
    )
    file = BytesIO()
    export_plan(profile, best.spec, basis, file)
    write_file(path, file.getvalue(), remedy="name another with --export")
    say(
        f"wrote {batches(best.counts.batches)} of {best.label}, epoch {basis.epoch}, to "
        f"{path.as_posix()}"
    )


def _strategies(given: "Inputs", *, every: bool) -> tuple[str, ...]:
    """Return the strategies of the rows: those of the flags, or the default ones and the
    configuration's; with `every`, all others too.
    """
    from batchstat.planning.strategies import STRATEGIES
    from batchstat.simulation.compare import DEFAULT_STRATEGIES

    usual = tuple(STRATEGIES) if every else DEFAULT_STRATEGIES
    wanted = given.get("strategy", usual)
    if isinstance(wanted, str):
        return tuple(dict.fromkeys((*usual, wanted)))
    named = {spec.partition(":")[0] for spec in wanted}
    others = [name for name in usual if name not in named] if every else []
    return (*wanted, *others)

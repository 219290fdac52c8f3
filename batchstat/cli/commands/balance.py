"""batchstat balance"""

from typing import Any

import typer

from batchstat.cli.options import groups as o


@o.takes(
    *(o.OPTIONAL_CORPUS, o.SAMPLERS, o.STRATEGY, o.BATCHING),
    *(o.READING, o.FILES, o.CONFIGURATION),
)
def command(context: typer.Context, **options: Any) -> None:
    """Compare class-balancing samplers: which classes each rank and each batch gets.

    Writes balance.json and plots to the results folder, and the profile if a corpus is given.

    batchstat balance reviews.csv --label-column label

    batchstat balance --sampler downsampling --sampler weights=positive:1,negative:3,length=600

    batchstat balance --sampler per-batch:classes=2,samples=8 --strategy static
    """
    from dataclasses import asdict, replace

    from batchstat.cli import profiles
    from batchstat.cli.inputs import configuration, inputs
    from batchstat.cli.pasted import command_line
    from batchstat.cli.streams import say, written
    from batchstat.cli.weights import inlined
    from batchstat.documents.balance import balance_json
    from batchstat.documents.base import to_text
    from batchstat.planning.settings import Settings
    from batchstat.render.screens.balance import balance_screen
    from batchstat.simulation.balance import DEFAULT_EPOCHS, DEFAULT_SAMPLERS, balance, check_epochs
    from batchstat.simulation.compare import parse_strategies
    from batchstat.simulation.comparison import ReportWarning
    from batchstat.storage.results import check_results

    output = options["output"]
    given = inputs(context, configuration(context).shared)
    settings = given.settings
    usual = tuple(dict.fromkeys((*DEFAULT_SAMPLERS, settings.sampler)))
    samplers = tuple(map(inlined, options["samplers"] or usual))
    strategy = given.get("strategy", "token-budget")
    epochs = DEFAULT_EPOCHS if options["epochs"] is None else options["epochs"]
    check_epochs(settings, epochs)
    shared = {key: value for key, value in asdict(settings).items() if key != "sampler"}
    for spec in samplers:
        basis = Settings(**shared, sampler=spec).decide(longest=1, stated_max=None)
        parse_strategies([strategy], basis)
    check_results(output)
    found = profiles.found(context, given)
    report = balance(found.profile, samplers=samplers, strategy=strategy, epochs=epochs, **shared)
    stale = tuple(ReportWarning("stale_profile", change) for change in found.changes)
    report = replace(report, warnings=stale + report.warnings)

    plots = {}
    if options["plots"]:
        from batchstat.render.plots.balance import balance_plots

        plots = balance_plots(report)
    result = ("balance.json", to_text(balance_json(report)))

    def command(spec: str) -> str:
        return command_line(context, given, "compare", sampler=spec, strategy=strategy)

    screen = balance_screen(report, command)
    files = profiles.publish(context, found, screen, result, plots)
    for warning in report.warnings:
        say(f"warning: {warning.message}")
    say(written(files, output))

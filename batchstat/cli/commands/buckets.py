"""batchstat buckets"""

from typing import Any

import typer

from batchstat.cli.options import groups as o


@o.takes(
    *(o.OPTIONAL_CORPUS, o.BUCKETS, o.BATCHING, o.SAMPLER, o.MODEL),
    *(o.READING, o.FILES, o.CONFIGURATION),
)
def command(context: typer.Context, **options: Any) -> None:
    """Find the bucket edges with the least padding, ready to paste, and compare other rules.

    Simulates each result with all other settings too: ranks, order, classes.

    Writes buckets.json and a plot to the results folder, and the profile if a corpus is given.

    batchstat buckets --buckets 8 --pad-to-multiple-of 8

    batchstat buckets corpus.txt --cost quadratic
    """
    from dataclasses import asdict

    from batchstat.cli import profiles
    from batchstat.cli.inputs import configuration, inputs
    from batchstat.cli.pasted import command_line
    from batchstat.cli.streams import say, written
    from batchstat.documents.base import to_text
    from batchstat.documents.buckets import buckets_json
    from batchstat.parameters import one_of, whole_number
    from batchstat.render.screens.buckets import buckets_screen
    from batchstat.simulation.bucket_search import COSTS, find_buckets
    from batchstat.simulation.cost_model import load_model
    from batchstat.storage.results import check_results

    output = options["output"]
    given = inputs(context, configuration(context).shared)
    settings = given.settings
    wanted = {
        key: options[key] for key in ("buckets", "min_bucket_samples") if options[key] is not None
    }
    for key, value in wanted.items():
        whole_number(key, value)
    model = None if options["model"] is None else load_model(options["model"])
    cost = one_of("cost", options["cost"] or ("model" if model else "linear"), COSTS)
    check_results(output)
    found = profiles.found(context, given)
    report = find_buckets(found.profile, **wanted, cost=cost, model=model, **asdict(settings))

    plots = {}
    if options["plots"]:
        from batchstat.render.plots.buckets import bucket_plots

        plots = bucket_plots(report)
    result = ("buckets.json", to_text(buckets_json(report)))
    screen = buckets_screen(
        report, lambda spec: command_line(context, given, "compare", strategy=spec)
    )
    files = profiles.publish(context, found, screen, result, plots)
    for change in found.changes:
        say(f"warning: {change}")
    say(written(files, output))

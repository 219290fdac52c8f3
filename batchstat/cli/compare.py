"""batchstat compare"""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli import options as o

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs

PLOTS = ("plots/padding.png", "plots/batch_lengths.png", "plots/read_ahead.png")


@o.takes(o.OPTIONAL_CORPUS, o.STRATEGIES, o.BATCHING, o.READING, o.FILES, o.CONFIGURATION)
def command(context: typer.Context, **options: Any) -> None:
    """Simulate batching strategies on the same lengths, side by side at equal peak memory.

    Writes compare.json and plots to the results folder; given a corpus, its profile too.

    batchstat compare --tokens-per-batch 16384

    batchstat compare reviews.csv --text-column review --tokenizer bert-base-cased

    batchstat compare --strategy static --strategy token-budget:read_ahead=1000
    """
    from dataclasses import asdict, replace

    from batchstat.cli import profiles
    from batchstat.cli.checking import refuse_counting
    from batchstat.cli.inputs import configuration, inputs
    from batchstat.cli.results import check_writable, write_files
    from batchstat.cli.streams import console, emit, render, say, written
    from batchstat.profiling import changes, load_profile
    from batchstat.render.json import comparison_json, to_text
    from batchstat.render.terminal import comparison_screen, identity
    from batchstat.report import ReportWarning
    from batchstat.simulation import compare, parse_strategies

    output = options["output"]
    given = inputs(context, configuration(context).shared)
    settings, strategies = given.settings, _strategies(given)
    parse_strategies(strategies, settings.decide(longest=1, stated_max=None))
    check_writable(output)
    if given.corpus:
        reuse_from = None if options["no_cache"] else output
        profile, kept = profiles.count(
            given, options["workers"], use_cache=not options["no_cache"], reuse_from=reuse_from
        )
        files = {} if kept else profiles.profile_files(profile, options["plots"])
        stale: tuple[ReportWarning, ...] = ()
    else:
        refuse_counting(context)
        profile = load_profile(output)
        stale = tuple(ReportWarning("stale_profile", change) for change in changes(profile))
        files = {}
    comparison = compare(profile, strategies=strategies, **asdict(settings))
    comparison = replace(comparison, warnings=stale + comparison.warnings)

    text = to_text(comparison_json(comparison))
    files["compare.json"] = profiles.encoded(text)
    if options["plots"]:
        from batchstat.render.plots import comparison_plots

        files |= {f"plots/{name}": png for name, png in comparison_plots(comparison).items()}
    replaced = (*PLOTS, *profiles.PLOTS) if "profile.json" in files else PLOTS
    write_files(output, files, remove=set(replaced) - set(files))

    on = console()
    whose = render(identity(profile, datetime.now(UTC)), on)
    if options["as_json"]:
        say(whose.rstrip())
        emit(text)
    else:
        emit(whose + render(comparison_screen(comparison), on), sys.stdout.encoding)
    for warning in comparison.warnings:
        say(f"warning: {warning.message}")
    say(written(files, output))


def _strategies(given: "Inputs") -> tuple[str, ...]:
    """The rows: those of the flags, or the usual ones and the configuration's."""
    from batchstat.simulation import DEFAULT_STRATEGIES

    wanted = given.get("strategy", DEFAULT_STRATEGIES)
    if isinstance(wanted, str):
        return tuple(dict.fromkeys((*DEFAULT_STRATEGIES, wanted)))
    return tuple(wanted)

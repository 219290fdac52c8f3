"""batchstat compare"""

import sys
from datetime import UTC, datetime

import typer

from batchstat.cli import options as o

PLOTS = ("plots/padding.png", "plots/batch_lengths.png", "plots/read_ahead.png")


def command(
    context: typer.Context,
    corpus: o.OptionalCorpus = None,
    strategy: o.Strategies = None,
    tokens_per_batch: o.TokensPerBatch = None,
    max_length: o.MaxLength = None,
    overflow: o.Overflow = None,
    batch_size: o.BatchSize = None,
    read_ahead: o.ReadAhead = None,
    max_samples: o.MaxSamples = None,
    pad_to_multiple_of: o.PadToMultipleOf = None,
    drop_last: o.DropLast = None,
    accumulate: o.Accumulate = None,
    order: o.Order = None,
    seed: o.Seed = None,
    epoch: o.Epoch = None,
    tokenizer: o.Tokenizer = None,
    input_format: o.InputFormat = None,
    text_column: o.TextColumn = None,
    messages_column: o.MessagesColumn = None,
    chat_template: o.ChatTemplate = None,
    tokens_column: o.TokensColumn = None,
    length_column: o.LengthColumn = None,
    label_column: o.LabelColumn = None,
    header: o.Header = None,
    quote: o.Quote = None,
    strip: o.Strip = None,
    min_chars: o.MinChars = None,
    on_error: o.OnError = None,
    workers: o.Workers = None,
    output: o.Output = o.DEFAULT_FOLDER,
    as_json: o.AsJson = False,
    plots: o.Plots = True,
) -> None:
    """Simulate batching strategies on the same lengths, side by side at equal peak memory.

    Writes compare.json and plots to the results folder; given a corpus, its profile too.

    batchstat compare --tokens-per-batch 16384

    batchstat compare reviews.csv --text-column review --tokenizer bert-base-cased

    batchstat compare --strategy static --strategy token-budget:read_ahead=1000
    """
    from dataclasses import replace

    from batchstat.cli import profiles
    from batchstat.cli.results import check_writable, write_files
    from batchstat.cli.streams import console, emit, render, say, written
    from batchstat.corpus import CorpusOptions
    from batchstat.profiling import changes, load_profile
    from batchstat.render.json import comparison_json, to_text
    from batchstat.render.terminal import comparison_screen, identity
    from batchstat.report import ReportWarning
    from batchstat.settings import Settings
    from batchstat.simulation import DEFAULT_STRATEGIES, compare, parse_strategies

    settings = o.given(context, Settings)
    strategies = strategy or DEFAULT_STRATEGIES
    parse_strategies(strategies, Settings(**settings).decide(longest=1, stated_max=None))
    check_writable(output)
    if corpus:
        read_as = CorpusOptions(**o.given(context, CorpusOptions))
        profile, kept = profiles.count(
            corpus, read_as, tokenizer, chat_template, workers, reuse_from=output
        )
        files = {} if kept else profiles.profile_files(profile, plots)
        stale: tuple[ReportWarning, ...] = ()
    else:
        _refuse_counting_options(context)
        profile = load_profile(output)
        stale = tuple(ReportWarning("stale_profile", change) for change in changes(profile))
        files = {}
    comparison = compare(profile, strategies=strategies, **settings)
    comparison = replace(comparison, warnings=stale + comparison.warnings)

    text = to_text(comparison_json(comparison))
    files["compare.json"] = profiles.encoded(text)
    if plots:
        from batchstat.render.plots import comparison_plots

        files |= {f"plots/{name}": png for name, png in comparison_plots(comparison).items()}
    replaced = (*PLOTS, *profiles.PLOTS) if "profile.json" in files else PLOTS
    write_files(output, files, remove=set(replaced) - set(files))

    on = console()
    whose = render(identity(profile, datetime.now(UTC)), on)
    if as_json:
        say(whose.rstrip())
        emit(text)
    else:
        emit(whose + render(comparison_screen(comparison), on), sys.stdout.encoding)
    for warning in comparison.warnings:
        say(f"warning: {warning.message}")
    say(written(files, output))


def _refuse_counting_options(context: typer.Context) -> None:
    """Raises OptionError where an option says how to count, and nothing is counted."""
    from batchstat.corpus import CorpusOptions
    from batchstat.errors import OptionError

    counting = ("tokenizer", "chat_template", "workers")
    needless = [*o.given(context, CorpusOptions), *(n for n in counting if context.params.get(n))]
    if needless:
        raise OptionError(
            f"--{needless[0].replace('_', '-')} is for counting, and no corpus is named: name one, "
            "or leave it out to use the profile in the results folder"
        )

"""batchstat profile"""

import shlex
import sys

import typer

from batchstat.cli import options as o


def command(
    context: typer.Context,
    corpus: o.Corpus,
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
    """Count the tokens of a corpus: length distribution, what a max_length cuts, classes.

    Writes profile.json, lengths.parquet and plots to the results folder, for compare to use.

    batchstat profile corpus.txt

    batchstat profile reviews.csv --text-column review --label-column label
    """
    from batchstat.cli import profiles
    from batchstat.cli.results import check_writable, write_files
    from batchstat.cli.streams import console, emit, render, say, written
    from batchstat.corpus import CorpusOptions
    from batchstat.render.json import profile_json, to_text
    from batchstat.render.terminal import profile_screen

    read_as = CorpusOptions(**o.given(context, CorpusOptions))
    check_writable(output)
    profile, _ = profiles.count(corpus, read_as, tokenizer, chat_template, workers, reuse_from=None)
    files = profiles.profile_files(profile, plots)
    write_files(output, files, remove=set(profiles.PLOTS) - set(files))

    if as_json:
        emit(to_text(profile_json(profile)))
    else:
        there = "" if output == o.DEFAULT_FOLDER else f" -o {shlex.quote(str(output))}"
        on = console()
        next_command = f"batchstat compare --tokens-per-batch 16384{there}"
        emit(render(profile_screen(profile, on, next_command), on), sys.stdout.encoding)
    if longer := profiles.above_maximum(profile):
        say(f"warning: {longer}")
    say(written(files, output))

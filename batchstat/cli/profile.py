"""batchstat profile"""

import shlex
import sys
from typing import Any

import typer

from batchstat.cli import options as o


@o.takes(o.CORPUS, o.READING, o.FILES, o.CONFIGURATION)
def command(context: typer.Context, **options: Any) -> None:
    """Count the tokens of a corpus: length distribution, what a max_length cuts, classes.

    Writes profile.json, lengths.parquet and plots to the results folder, for compare to use.

    batchstat profile corpus.txt

    batchstat profile reviews.csv --text-column review --label-column label
    """
    from batchstat.cli import profiles
    from batchstat.cli.inputs import configuration, inputs
    from batchstat.cli.results import check_writable, write_files
    from batchstat.cli.streams import console, emit, render, say, written
    from batchstat.errors import OptionError
    from batchstat.render.json import profile_json, to_text
    from batchstat.render.terminal import profile_screen

    output = options["output"]
    given = inputs(context, configuration(context).shared)
    if not given.corpus:
        raise OptionError("no corpus: name at least one file, or - for standard input")
    check_writable(output)
    profile, _ = profiles.count(given, options["workers"], use_cache=not options["no_cache"])
    files = profiles.profile_files(profile, options["plots"])
    write_files(output, files, remove=set(profiles.PLOTS) - set(files))

    if options["as_json"]:
        emit(to_text(profile_json(profile)))
    else:
        there = "" if output == o.DEFAULT_FOLDER else f" -o {shlex.quote(str(output))}"
        on = console()
        next_command = f"batchstat compare --tokens-per-batch 16384{there}"
        emit(render(profile_screen(profile, on, next_command), on), sys.stdout.encoding)
    if longer := profiles.above_maximum(profile):
        say(f"warning: {longer}")
    say(written(files, output))

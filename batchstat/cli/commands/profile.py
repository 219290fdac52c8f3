"""batchstat profile"""

import sys
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli.options import groups as o

if TYPE_CHECKING:
    from batchstat.profiling.shards import Shard


@o.takes(o.CORPUS, o.READING, o.SHARD, o.PARTIAL, o.FILES, o.CONFIGURATION)
def command(context: typer.Context, **options: Any) -> None:
    """Count the tokens of a corpus: length distribution, tokens lost to a max_length, classes.

    Writes profile.json, lengths.parquet and plots to the results folder, where compare finds them.

    batchstat profile corpus.txt

    batchstat profile reviews.csv --text-column review --label-column label

    batchstat profile 's3://bucket/crawl/*.jsonl.zst' --executor dask --scheduler tcp://head:8786

    batchstat profile data/*.parquet --shard 3/100 -o part-3
    """
    from batchstat.cli import profiles
    from batchstat.cli.inputs import configuration, inputs
    from batchstat.cli.pasted import command_line
    from batchstat.errors import OptionError
    from batchstat.profiling.shards import Share
    from batchstat.storage.results import check_results

    output = options["output"]
    given = inputs(context, configuration(context).shared)
    if not given.corpus:
        raise OptionError("no corpus: name at least one file, or - for standard input")
    check_results(output)
    if options["shard"] is not None:
        share = Share.parse(options["shard"])
        _show_shard(profiles.shard(context, given, share, output), options)
        return
    profile, _ = profiles.count(context, given, folder=output)
    basis = given.settings.decide(profile.stats.max, profile.stated_max)
    line = command_line(context, given, "compare", tokens_per_batch=basis.tokens_per_batch)
    profiles.publish_profile(profile, options, line)


def _show_shard(shard: "Shard", options: dict[str, Any]) -> None:
    """Write the counts of a shard, and report what failed."""
    from batchstat.cli.profiles import encoded
    from batchstat.cli.streams import console, emit, render, say, written
    from batchstat.documents.base import to_text
    from batchstat.errors import InputError
    from batchstat.profiling.shards import SHARD_FILE
    from batchstat.render.screens.shard import shard_screen
    from batchstat.render.text import counted
    from batchstat.storage.results import only_writer, write_files

    text = to_text(shard.to_json())
    with only_writer(options["output"]):
        write_files(options["output"], {SHARD_FILE: encoded(text)})
    if options["as_json"]:
        emit(text)
    else:
        on = console()
        emit(render(shard_screen(shard), on), sys.stdout.encoding)
    say(written([SHARD_FILE], options["output"]))
    if shard.failed and not options["allow_partial"]:
        raise InputError(
            f"{counted(len(shard.failed), 'part')} failed after 3 attempts: "
            f"{shard.failed[min(shard.failed)]}: fix or remove what failed and rerun (finished "
            "parts are not recounted), or pass --allow-partial"
        )

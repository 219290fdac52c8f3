"""batchstat profile: count the tokens of a corpus, or of one shard of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchstat.cli.options import Options, takes
from batchstat.cli.records import READING, ConfigFile, Corpus, Ignored, Output, Partial
from batchstat.cli.streams import emit, say, show, wrote_line
from batchstat.errors import InputError, OptionError
from batchstat.parameters import described, option
from batchstat.words import counted

if TYPE_CHECKING:
    from batchstat.profiling.shards import Shard


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """Which splits of a corpus are counted."""

    shard: str | None = option(
        None,
        "Count shard I of N (1 ≤ I ≤ N) of the corpus, for batchstat merge.",
        "Execution",
        "I/N",
    )


@takes(Corpus, *READING, Sharding, Partial, Output, Ignored, ConfigFile)
@described(
    """Count the tokens of a corpus: lengths, tokens lost to a max_length, classes.

    Writes profile.json, lengths.parquet and plots to the results folder, where compare finds them.

    Examples:
        # One sample per line
        batchstat profile corpus.txt

        # A column of a CSV file, with the class of each sample
        batchstat profile reviews.csv --text-column review --label-column label

        # Conversations, as the tokenizer's chat template renders them
        batchstat profile chat.jsonl --messages-column messages --tokenizer ./qwen

        # Files in S3, counted by a Dask cluster
        batchstat profile 's3://bucket/*.zst' --executor dask --scheduler tcp://a:8786

        # One of 100 shards, for batchstat merge
        batchstat profile data/*.parquet --shard 3/100 -o part-3
    """
)
def command(options: Options) -> None:
    from batchstat.cli import profiles
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.pages import check_outputs
    from batchstat.cli.results import publish_profile
    from batchstat.profiling.shards import ShardSpec

    output = options.read(Output)
    inputs = read_inputs(options)
    if not inputs.corpus:
        raise OptionError("no corpus", "name at least one file, or - for standard input")
    check_outputs(output)
    if (shard := options.read(Sharding).shard) is not None:  # a part, for batchstat merge
        result = profiles.shard(inputs, ShardSpec.parse(shard), output.output)
        _publish_shard(result, output, allow_partial=options.read(Partial).allow_partial)
        return
    # Whether a profile may lack splits is in `inputs`, as `--allow-partial`. The second value says
    # whether it was counted before, which does not matter here.
    profile, _ = profiles.count(inputs, folder=output.output)
    publish_profile(inputs, profile, output)


def _publish_shard(shard: "Shard", output: Output, *, allow_partial: bool) -> None:
    """Write the counts of a shard to the results folder, and show them, or with --json print them.

    Args:
        shard: the counts.
        output: the options of output.
        allow_partial: whether splits that could not be counted are accepted.

    Raises:
        InputError: splits could not be counted, unless that is allowed. The others are written.
    """
    from batchstat.documents.base import to_text
    from batchstat.profiling.shards import SHARD_FILE
    from batchstat.render.screens.profile import shard_screen
    from batchstat.storage.results import encoded, only_writer, write_files

    text = to_text(shard.to_json())
    with only_writer(output.output):
        write_files(output.output, {SHARD_FILE: encoded(text)})
    if not output.as_json:
        show(shard_screen(shard))
    say(wrote_line([SHARD_FILE], output.output))
    if shard.failed and not allow_partial:
        # The message quotes the reason of the first failed split: `failed` has reasons by splits.
        raise InputError(
            f"{counted(len(shard.failed), 'split')} failed after 3 attempts: "
            f"{shard.failed[min(shard.failed)]}",
            "fix or remove what failed and rerun (finished "
            "splits are not recounted), or pass --allow-partial",
        )
    if output.as_json:  # at the end: an error before it is JSON, too
        emit(text)

"""batchstat merge: join the counts of shards into one profile."""

from dataclasses import MISSING, dataclass, replace

from batchstat.cli.options import Options, takes
from batchstat.cli.records import Ignored, Output, Partial
from batchstat.parameters import described, option


@dataclass(frozen=True, kw_only=True)
class Shards:
    """The shards to merge."""

    shards: tuple[str, ...] = option(
        MISSING,
        "Folders written by batchstat profile --shard I/N -o FOLDER.",
        "",
        "SHARD",
        is_argument=True,
    )


@takes(Shards, Partial, Output, Ignored)
@described(
    """Merge the shards of a corpus into one profile.

    The files are the same as those of one run over the whole corpus.

    Examples:
        # The shards that batchstat profile --shard wrote
        batchstat merge part-* -o whole
    """
)
def command(options: Options) -> None:
    from batchstat.cli.configuration import is_configured
    from batchstat.cli.inputs import read_ignored, read_inputs
    from batchstat.cli.pages import check_outputs
    from batchstat.cli.results import publish_profile
    from batchstat.profiling.shards import merge

    output = options.read(Output)
    check_outputs(output)
    folders = options.read(Shards).shards
    profile = merge(folders, allow_partial=options.read(Partial).allow_partial)
    # A merge reads no configuration but which findings to ignore, so the command that it suggests
    # next has to ignore one, too.
    # It gets --no-config if the settings name a table; the name of the table is not shown.
    table = "a configuration" if is_configured() else None
    inputs = read_inputs(options, check=replace(read_ignored(), name="merge", table=table))
    publish_profile(inputs, profile, output)

"""batchstat merge"""

from typing import Annotated, Any

import typer

from batchstat.cli.options import groups as o


@o.takes(o.PARTIAL, o.FILES)
def command(
    context: typer.Context,
    shards: Annotated[
        list[str],
        typer.Argument(
            metavar="SHARD", help="Folders written by batchstat profile --shard I/N -o FOLDER."
        ),
    ],
    **options: Any,
) -> None:
    """Merge the shards of a corpus; the files are the same as those of one run over all of it.

    batchstat merge part-* -o whole
    """
    from batchstat.cli.configuration import is_configured
    from batchstat.cli.inputs import Inputs
    from batchstat.cli.pasted import command_line
    from batchstat.cli.profiles import publish_profile
    from batchstat.profiling.shards import merge_shards
    from batchstat.storage.addresses import as_path
    from batchstat.storage.results import check_results

    check_results(options["output"])
    folders = [as_path(each) for each in shards]
    profile = merge_shards(folders, allow_partial=options["allow_partial"])
    given = Inputs("merge", {}, {}, "a configuration" if is_configured() else None)
    basis = given.settings.decide(profile.stats.max, profile.stated_max)
    line = command_line(context, given, "compare", tokens_per_batch=basis.tokens_per_batch)
    publish_profile(profile, options, line)

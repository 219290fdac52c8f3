"""batchstat baseline save"""

from typing import Any

import typer

from batchstat.cli.literal import LiteralCommand, LiteralGroup
from batchstat.cli.options import groups as o

app = typer.Typer(
    cls=LiteralGroup,
    no_args_is_help=True,
    help="Save the numbers of checks, to compare with later.",
)


@app.command("save", cls=LiteralCommand)
@o.takes(
    o.OPTIONAL_CORPUS,
    o.BASELINE,
    o.STRATEGY,
    o.BATCHING,
    o.SAMPLER,
    o.READING,
    o.FOLDER,
    o.CHECKS,
    o.CONFIGURATION,
)
def save(context: typer.Context, **options: Any) -> None:
    """Write the numbers of every check to a small file for the repository.

    `batchstat check --baseline FILE` fails if padding has increased since.

    batchstat baseline save

    batchstat baseline save data/train.jsonl --baseline padding.json
    """
    from batchstat.cli.checking import as_baseline, chosen, measured
    from batchstat.cli.pasted import repeated
    from batchstat.cli.profiles import encoded
    from batchstat.cli.streams import say
    from batchstat.errors import OptionError
    from batchstat.gate.baseline import DEFAULT_FILE, load_baselines, save_baselines
    from batchstat.storage.results import write_file

    every = chosen(context)
    files = {given.get("baseline", DEFAULT_FILE) for given in every}
    if len(files) > 1:
        names = ", ".join(sorted(file.as_posix() for file in files))
        raise OptionError(f"the checks have different baselines ({names}): pick some with --check")
    found = {given.name: as_baseline(measured(given, context)) for given in every}
    path = files.pop()
    if options["check"] and path.exists():
        found = load_baselines(path) | found  # the other checks remain
    write_file(path, encoded(save_baselines(found)), remedy="name another with --baseline")
    say(f"wrote {path.as_posix()}")
    say(f"next: {repeated(context, 'check', baseline=path.as_posix())}")

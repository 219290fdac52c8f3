"""batchstat check"""

from typing import Any

import typer

from batchstat.cli.options import groups as o
from batchstat.errors import InputError, OptionError

_EXCEEDED = 1


@o.takes(
    o.OPTIONAL_CORPUS,
    o.LIMITS,
    o.STRATEGY,
    o.BATCHING,
    o.SAMPLER,
    o.READING,
    o.FOLDER,
    o.GATE,
    o.CHECKS,
    o.CONFIGURATION,
)
def command(context: typer.Context, **options: Any) -> None:
    """Check padding and other numbers of a corpus against limits, for CI.

    Exit code 0: all limits are kept. 1: a limit is exceeded.

    2: the arguments or the configuration are wrong. 3: there is no answer.

    batchstat check data/train.jsonl --tokens-per-batch 16384 --max-padding 5%

    batchstat check --format github

    batchstat check --format text --format junit=report.xml
    """
    from datetime import UTC, datetime

    from batchstat.cli.checking import answer, chosen, require_limits
    from batchstat.cli.formats import as_destinations, check_destinations, write
    from batchstat.cli.streams import say
    from batchstat.gate.check import worst

    created = datetime.now(UTC).isoformat()
    destinations = as_destinations(options["format"] or ["text"])
    if options["subsample"] is not None:
        raise OptionError(
            "--subsample gives an estimate, but limits apply to the whole corpus: remove it"
        )
    every = chosen(context)
    require_limits(every)
    check_destinations(destinations)
    checks = [answer(given, context) for given in every]
    write(checks, destinations, created)
    for check in checks:
        name = f"{check.name}: " if len(checks) > 1 else ""
        for warning in check.warnings:
            say(f"warning: {name}{warning}")
        if check.error is not None:
            say(f"error: {name}{check.error}")
    status = worst(checks)
    if status == "error":
        raise typer.Exit(InputError.exit_code)
    if status == "fail" and not options["warn_only"]:
        raise typer.Exit(_EXCEEDED)

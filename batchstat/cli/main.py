"""The application: its commands, and how their errors end the process."""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from batchstat._version import __version__
from batchstat.cli.commands import (
    balance,
    baseline,
    buckets,
    calibrate,
    check,
    compare,
    config,
    explain,
    init,
    measure,
    merge,
    preflight,
    profile,
    recipe,
)
from batchstat.cli.commands import (
    run as run_,
)
from batchstat.cli.streams import emit, open_closed_streams, say
from batchstat.cli.usage import Commands, Group, Help, Listed
from batchstat.errors import BatchstatError, InputError, flags_named

_PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Analyse": {
        "profile": profile.command,
        "compare": compare.command,
        "balance": balance.command,
        "buckets": buckets.command,
        "preflight": preflight.command,
        "run": run_.command,
        "measure": measure.command,
        "calibrate": calibrate.command,
        "explain": explain.command,
    },
    "Use": {"recipe": recipe.command},
    "CI": {"init": init.command, "check": check.command, "config": config.command},
    "Scale": {"merge": merge.command},
}


class _Main(Group):
    def __init__(self, *, commands: Mapping[str, Any], **given: Any) -> None:
        listed = [
            Listed(name, command.__doc__ or "", panel, command)
            for panel, each in _PANELS.items()
            for name, command in each.items()
        ]
        lazy: Any = Commands(listed, commands)  # click only reads them, as from any mapping
        super().__init__(commands=lazy, **given)


app = typer.Typer(
    name="batchstat",
    cls=_Main,
    help="How much of your training compute is padding, and which batching strategy fixes it.",
    no_args_is_help=True,
    add_help_option=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": lambda flag: flag.replace("_", "-")},
)
app.add_typer(baseline.app, name="baseline", rich_help_panel="CI")


def _print_version(wanted: bool) -> None:
    if wanted:
        emit(f"batchstat {__version__}\n")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    help: Help = None,
) -> None:
    pass


def run() -> None:
    """Run the command line; exit with 2 for wrong usage, with 3 where there is no answer."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is shown escaped instead of raising.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with flags_named():
            app(prog_name="batchstat")
    except BatchstatError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except MemoryError:
        say("error: out of memory")
        sys.exit(InputError.exit_code)

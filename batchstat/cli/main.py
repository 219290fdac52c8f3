"""The application: its commands, and how their errors end the process."""

import sys
from typing import Annotated

import typer

from batchstat._version import __version__
from batchstat.cli.commands import (
    balance,
    baseline,
    buckets,
    check,
    compare,
    config,
    explain,
    init,
    merge,
    profile,
    recipe,
)
from batchstat.cli.streams import open_closed_streams, say
from batchstat.cli.usage import Command, Group, Help
from batchstat.errors import BatchstatError, InputError

app = typer.Typer(
    name="batchstat",
    cls=Group,
    help="How much of your training compute is padding, and which batching strategy fixes it.",
    no_args_is_help=True,
    add_help_option=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": lambda flag: flag.replace("_", "-")},
)
for panel, commands in {
    "Analyse": {
        "profile": profile.command,
        "compare": compare.command,
        "balance": balance.command,
        "buckets": buckets.command,
        "explain": explain.command,
    },
    "Use": {"recipe": recipe.command},
    "CI": {"init": init.command, "check": check.command, "config": config.command},
    "Scale": {"merge": merge.command},
}.items():
    for name, command in commands.items():
        app.command(name, cls=Command, add_help_option=False, rich_help_panel=panel)(command)
app.add_typer(baseline.app, name="baseline", rich_help_panel="CI")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"batchstat {__version__}")
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
        app(prog_name="batchstat")
    except BatchstatError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except MemoryError:
        say("error: out of memory")
        sys.exit(InputError.exit_code)

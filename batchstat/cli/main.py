"""The application: its commands, and how their errors end the process."""

import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from batchstat._version import __version__
from batchstat.cli.streams import emit, open_closed_streams, say
from batchstat.cli.usage import Commands, Group, Help, Listed
from batchstat.errors import BatchstatError, InputError, MemoryFullError
from batchstat.words import flags_named

_PANELS = {
    "Analyse": (
        *("profile", "compare", "balance", "buckets", "preflight"),
        *("run", "measure", "calibrate", "explain"),
    ),
    "Use": ("recipe",),
    "CI": ("init", "check", "config"),
}
"""The commands, each of a module in `commands/`, as help lists them."""


class _Main(Group):
    """The group `batchstat`, in which typer makes a command only when that command is run."""

    def __init__(self, **group_options: Any) -> None:
        """Make the group of the commands in `_PANELS`; typer's own commands are not used."""
        # Modules of commands load fast: each imports what it works with when it runs.
        listed = {
            name: Listed(name, panel, import_module(f"batchstat.cli.commands.{name}").command)
            for panel, names in _PANELS.items()
            for name in names
        }
        lazy_commands: Any = Commands(listed)
        super().__init__(**{**group_options, "commands": lazy_commands})


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
    # The options of batchstat without a command; their callbacks do the work.
    pass


def run() -> None:
    """Run the command line; exit with 2 for wrong usage, with 3 where there is no answer. An error
    that is no `BatchstatError` is a bug, which the caller reports.
    """
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is shown escaped instead of raising.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with flags_named():  # messages say --max-length for max_length
            app(prog_name="batchstat")
    except BatchstatError as error:
        _end(error)
    except MemoryError:
        _end(MemoryFullError("out of memory"))


def _end(error: BatchstatError) -> NoReturn:
    """End the process with what an error says, also as JSON where the user wants that."""
    say(f"error: {error}")
    words = sys.argv[1:]
    formats = zip(("", *words), words, strict=False)
    wants_json = "--json" in words or ("--format", "json") in formats or "--format=json" in words
    # What stands after `run` is the user's own command.
    if wants_json and words[0] != "run":
        from batchstat.documents.base import ErrorFile, to_text

        with suppress(InputError):  # standard output cannot be written, which may be the error
            emit(to_text(ErrorFile.of({"error": error})))
    sys.exit(error.exit_code)

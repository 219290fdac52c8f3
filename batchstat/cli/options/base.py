"""How an option is declared, and under which headings `--help` shows them."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from batchstat.storage.addresses import as_path

BATCHING, RANKS, CORPUS = "Batching", "Ranks", "Corpus"
LIMITS, OUTPUT, CLASSES, ENGINE = "Limits", "Output", "Classes", "Engine"


def option(
    panel: str,
    help: str,
    default: str | bool,
    metavar: str | None,
    *flags: str,
    parser: Callable[[str], Path] | None = None,
) -> Any:
    """An option as `Annotated` takes it; `default` is what `--help` says of it."""
    return typer.Option(
        *flags,
        help=help,
        show_default=default,
        metavar=metavar,
        rich_help_panel=panel,
        readable=False,
        parser=parser,
    )


def local_path(given: str | Path) -> Path:
    """A path of this machine. Raises BadParameter: an empty one."""
    return Path(_filled(given))


def any_path(given: str | Path) -> Path:
    """A path of this machine, or an address. Raises BadParameter: an empty one."""
    return as_path(_filled(given))


def _filled(given: str | Path) -> str | Path:
    if not str(given).strip():
        raise typer.BadParameter("it is empty: name a file or folder, or leave it out")
    return given


def limit(help: str, metavar: str) -> Any:
    """An option for a limit, as text: 5% is no number yet."""
    return Annotated[str | None, option(LIMITS, help, False, metavar)]

"""Declaration of options, and the panels in which `--help` shows them."""

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
    """Return an option for `Annotated`; `default` is what `--help` shows as its default."""
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
    """Return a local path. Raises BadParameter for an empty one."""
    return Path(_filled(given))


def any_path(given: str | Path) -> Path:
    """Return a local path or a URL. Raises BadParameter for an empty one."""
    return as_path(_filled(given))


def _filled(given: str | Path) -> str | Path:
    if not str(given).strip():
        raise typer.BadParameter("it is empty: name a file or folder, or remove the option")
    return given


def limit(help: str, metavar: str) -> Any:
    """Return an option for a limit, as text, because 5% is not a number yet."""
    return Annotated[str | None, option(LIMITS, help, False, metavar)]

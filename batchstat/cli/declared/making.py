"""How an option is declared, and under which headings `--help` shows them."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

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


def limit(help: str, metavar: str) -> Any:
    """An option for a limit, as text: 5% is no number yet."""
    return Annotated[str | None, option(LIMITS, help, False, metavar)]

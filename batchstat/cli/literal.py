"""Commands whose help is plain text: what stands in [brackets] is not markup of Rich."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer import Exit
from typer.core import TyperCommand, TyperGroup


class LiteralCommand(TyperCommand):
    """A command that shows its help, and that of its options, literally."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _escape(self, *self.params)
        with _reader_may_go():
            super().format_help(ctx, formatter)


class LiteralGroup(TyperGroup):
    """The same for a group, and for the first lines of its commands' help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _escape(self, *self.params, *self.commands.values())
        with _reader_may_go():
            super().format_help(ctx, formatter)


@contextmanager
def _reader_may_go() -> Iterator[None]:
    """Exit with 0 if the reader of standard output closes it, as `head` does.

    Rich would make it exit code 1, which is reserved for limits.
    """
    try:
        yield
    except (BrokenPipeError, SystemExit):
        raise Exit(0) from None


def _escape(*shown: Any) -> None:
    from rich.markup import escape

    for each in shown:
        if getattr(each, "help", None):
            each.help = escape(each.help)

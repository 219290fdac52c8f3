"""Help pages: plain text with the options that people use most, or with all of them."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import Any

from batchstat.words import counted

_NARROWEST, _WIDEST = 40, 100  # width of a page: so that options fit, and lines are easy to read
_COLUMN = 26  # where descriptions begin at most; a longer option has its own line
_HELP = ("help", "help_all")  # options that the page of a command shows in its last line only

_COMPLETION = {
    "install_completion": "Complete names and options in this shell: edits its start-up file.",
    "show_completion": "Print the completion script instead of installing it.",
}
"""Descriptions of the options that typer adds."""


def help_page(command: Any, context: Any, *, everything: bool) -> str:
    """Return the help of a command or a group."""
    return "\n".join(_Page(command, context, everything=everything).lines()) + "\n"


class _Page:
    """The help page of one command, or of a group of commands."""

    def __init__(self, command: Any, context: Any, *, everything: bool) -> None:
        self.command, self.path = command, context.command_path
        self.commands = getattr(command, "listed", [])
        columns = shutil.get_terminal_size().columns
        self.width = min(max(columns, _NARROWEST), _WIDEST)
        # The conventions of no-color.org and of force-color.org.
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        is_shown = sys.stdout.isatty() or os.environ.get("FORCE_COLOR")
        self.has_styles = bool(is_shown and not is_plain)
        self.arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option"]
        # The short page of a command names --help-all in its last line, and lists no help options.
        if not (everything or self.commands):
            options = [each for each in options if each.name not in _HELP]
        rare = () if everything else getattr(command.callback, "rare", ())
        self.options = [each for each in options if each.name not in rare]
        self.hidden_count = len(options) - len(self.options)
        names = [_placeholder(each) for each in self.arguments]
        names += [each.name for each in self.commands] + [_flags(each) for each in self.options]
        longest = max(map(len, names), default=0)
        # Two spaces before a name, and two after it.
        self.column = min(_COLUMN, longest + 4, self.width // 2)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the page: usage, description, examples and tables."""
        # -1: any number of words.
        words = [f"[{each.metavar}]{'...' * (each.nargs == -1)}" for each in self.arguments]
        words += ["COMMAND"] if self.commands else []
        yield f"{self._heading('Usage:')} {' '.join([self.path, '[OPTIONS]', *words])}"
        text, _, examples = (self.command.help or "").partition("\n\nExamples:\n")
        for paragraph in text.split("\n\n"):  # a docstring is wrapped for the source
            yield from ("", fill(" ".join(paragraph.split()), self.width, break_on_hyphens=False))
        if examples:
            yield from ("", self._heading("Examples:"))
            for line in filter(None, map(str.strip, examples.splitlines())):
                yield f"  {self._styled(line, '2')}" if line[:1] == "#" else f"  {line}"
        yield from self._section(
            "Arguments", [(_placeholder(each), _described(each)) for each in self.arguments]
        )
        for panel, commands in _by_panel(self.commands, "Commands").items():
            summaries = [(each.help or "").partition("\n\n")[0].split() for each in commands]
            rows = zip((each.name for each in commands), map(" ".join, summaries), strict=True)
            yield from self._section(panel, list(rows))
        for panel, options in _by_panel(self.options, "Options").items():
            yield from self._section(panel, [(_flags(each), _described(each)) for each in options])
        if self.commands:
            yield from ("", f"Options and examples of a command: {self.path} COMMAND --help")
        if self.hidden_count:
            yield from ("", f"{counted(self.hidden_count, 'more option')}: {self.path} --help-all")

    def _section(self, title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
        """Yield a table of names and their descriptions below a title; nothing for no rows."""
        if not rows:
            return
        yield from ("", self._heading(f"{title}:"))
        indent = " " * self.column
        for name, text in rows:
            wrapped = fill(
                text, self.width, initial_indent=indent, subsequent_indent=indent,
                break_on_hyphens=False,
            )  # fmt: skip
            indented_name = "  " + self._styled(name, "36")
            if len(name) + 4 > self.column and text:  # too long for a line with its description
                yield from (indented_name, wrapped)
            else:  # takes the place of as many columns of the first line's indent
                yield indented_name + wrapped[len("  " + name) :]

    def _heading(self, text: str) -> str:
        return self._styled(text, "1")

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.has_styles else text


def _by_panel(items: Iterable[Any], others: str) -> dict[str, list[Any]]:
    """Return commands or options by the panel that they are declared in, else under `others`."""
    by_panel: dict[str, list[Any]] = {}
    for item in items:
        panel = getattr(item, "rich_help_panel", None)
        by_panel.setdefault(panel if isinstance(panel, str) else others, []).append(item)
    return by_panel


def _placeholder(argument: Any) -> str:
    return f"{argument.metavar}{'...' if argument.nargs == -1 else ''}"


def _flags(option: Any) -> str:
    flags = sorted(option.opts, key=len)
    if option.secondary_opts:
        flags = [f"--[no-]{flags[-1].removeprefix('--')}"]
    return ", ".join(flags) + (f" {option.metavar}" if option.metavar else "")


def _described(parameter: Any) -> str:
    default = parameter.show_default
    shown = f" [default: {default}]" if isinstance(default, str) else ""
    return f"{_COMPLETION.get(parameter.name, parameter.help or '')}{shown}"

"""Help pages: plain text with the options that people use most, or with all of them."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import Any

from batchstat.errors import counted

_WIDTHS = (40, 100)
"""Narrowest and widest page: shorter lines cannot hold an option, longer ones are hard to read."""

_COLUMN = 26
"""Where descriptions begin, unless no option is that long; a longer option has its own line."""

_HELP = ("help", "help_all")
"""Options that the page of a command shows in its last line only."""

_COMPLETION = {
    "install_completion": "Complete names and options in this shell: edits its start-up file.",
    "show_completion": "Print the completion script instead of installing it.",
}
"""Descriptions of the options that typer adds."""


def help_page(command: Any, context: Any, *, everything: bool) -> str:
    """Return the help of a command or a group.

    Args:
        command: one of typer's commands; its callback may name the options that are `rare`.
        context: the context that it is invoked in.
        everything: whether to list those, too.
    """
    return "\n".join(_Page(command, context, everything).lines()) + "\n"


class _Page:
    def __init__(self, command: Any, context: Any, everything: bool) -> None:
        self.command, self.path = command, context.command_path
        self.parts = getattr(command, "listed", [])
        columns = shutil.get_terminal_size().columns
        self.width = min(max(columns, _WIDTHS[0]), _WIDTHS[1])
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        is_shown = sys.stdout.isatty() or os.environ.get("FORCE_COLOR")
        self.has_styles = bool(is_shown and not is_plain)
        self.arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option"]
        if not (everything or self.parts):
            options = [each for each in options if each.name not in _HELP]
        rare: frozenset[str] = getattr(command.callback, "rare", frozenset())
        if everything:
            rare = frozenset()
        self.options = [each for each in options if each.name not in rare]
        self.more = len(options) - len(self.options)
        left = [_placed(each) for each in self.arguments] + [each.name for each in self.parts]
        left += [_flags(each) for each in self.options]
        longest = max(map(len, left), default=0)
        self.column = min(_COLUMN, longest + 4, self.width // 2)

    def lines(self) -> Iterator[str]:
        yield f"{self._heading('Usage:')} {' '.join(self._usage())}"
        text, _, examples = (self.command.help or "").partition("\n\nExamples:\n")
        for paragraph in text.split("\n\n"):
            yield from ("", fill(" ".join(paragraph.split()), self.width, break_on_hyphens=False))
        if examples:
            yield from self._examples(examples)
        yield from self._section(
            "Arguments", [(_placed(each), _described(each)) for each in self.arguments]
        )
        for panel, parts in _by_panel(self.parts, "Commands").items():
            yield from self._section(panel, [(each.name, _summary(each)) for each in parts])
        for panel, options in _by_panel(self.options, "Options").items():
            yield from self._section(panel, [(_flags(each), _described(each)) for each in options])
        if self.parts:
            yield from ("", f"Options and examples of a command: {self.path} COMMAND --help")
        if self.more:
            yield from ("", f"{counted(self.more, 'more option')}: {self.path} --help-all")

    def _usage(self) -> Iterator[str]:
        yield self.path
        yield "[OPTIONS]"
        for each in self.arguments:
            yield (each.metavar if each.required else f"[{each.metavar}]") + (
                "..." if each.nargs == -1 else ""
            )
        if self.parts:
            yield "COMMAND"

    def _examples(self, text: str) -> Iterator[str]:
        yield from ("", self._heading("Examples:"))
        for stripped in filter(None, map(str.strip, text.splitlines())):
            yield f"  {self._styled(stripped, '2')}" if stripped[:1] == "#" else f"  {stripped}"

    def _section(self, title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
        if not rows:
            return
        yield from ("", self._heading(f"{title}:"))
        indent = " " * self.column
        for name, text in rows:
            wrapped = fill(
                text, self.width, initial_indent=indent, subsequent_indent=indent,
                break_on_hyphens=False,
            )  # fmt: skip
            styled = "  " + self._styled(name, "36")
            if len(name) + 4 > self.column and text:
                yield from (styled, wrapped)
            else:
                yield styled + wrapped[len(name) + 2 :]

    def _heading(self, text: str) -> str:
        return self._styled(text, "1")

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.has_styles else text


def _by_panel(items: Iterable[Any], others: str) -> dict[str, list[Any]]:
    """Return commands or options by the panel that they are declared in, else under `others`."""
    found: dict[str, list[Any]] = {}
    for item in items:
        panel = getattr(item, "rich_help_panel", None)
        found.setdefault(panel if isinstance(panel, str) else others, []).append(item)
    return found


def _summary(command: Any) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _placed(argument: Any) -> str:
    return f"{argument.metavar}{'...' if argument.nargs == -1 else ''}"


def _flags(option: Any) -> str:
    """Return an option's flags and its placeholder: `-o, --output DIR`, `--[no-]plots`."""
    flags = sorted(option.opts, key=len)
    if option.secondary_opts:
        flags = [f"--[no-]{flags[-1].removeprefix('--')}"]
    return ", ".join(flags) + (f" {option.metavar}" if option.metavar else "")


def _described(parameter: Any) -> str:
    default = parameter.show_default
    shown = f" [default: {default}]" if isinstance(default, str) else ""
    return f"{_COMPLETION.get(parameter.name, parameter.help or '')}{shown}"

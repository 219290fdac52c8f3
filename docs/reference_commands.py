"""The reference of commands, from the options that each declares."""

from collections import Counter
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import typer
from markdown_text import code, prose, table

from batchstat.cli.main import app

_SHARED_BY = 3
"""Number of commands from which on an option is described once for all of them."""


_HELP = ("help", "help_all")
"""Options of every command, which the page explains once."""


def commands() -> Iterator[str]:
    """Yield the blocks of the page."""
    by_name = dict(named(typer.main.get_command(app)))
    options = {
        name: [option for option in each.params if option.name not in _HELP]
        for name, each in by_name.items()
    }
    users = Counter(_key(option) for each in options.values() for option in each)
    shared = {key for key, number in users.items() if number >= _SHARED_BY}
    yield (
        "`batchstat COMMAND --help` shows examples and the usual options of a command, "
        "`--help-all` all options. Numbers may be written `16384`, `16_384` or `16k`. A "
        "specification (`SPEC`) is `name` or `name:key=value,key=value`. "
        "[Shared options](#shared-options) mean the same in every command that lists them."
    )
    for name, command in by_name.items():
        yield f"## {name}"
        yield from _described(command.help)
        own = [option for option in options[name] if _key(option) not in shared]
        if own:
            yield table(["option", "meaning", "default"], map(_option, own))
        others = [option for option in options[name] if _key(option) in shared]
        if others:
            flags = ", ".join(code(_flag(option)) for option in others)
            yield f"Shared options: {flags}."
    yield "## Shared options"
    by_key = {_key(option): option for each in options.values() for option in each}
    panels: dict[str, list[Any]] = {}
    for key in filter(shared.__contains__, by_key):
        panel = getattr(by_key[key], "rich_help_panel", None) or "Arguments"
        panels.setdefault(panel, []).append(by_key[key])
    for panel, those in panels.items():
        yield f"### {panel}"
        yield table(["option", "meaning", "default"], map(_option, those))


def named(group: Any, before: str = "batchstat") -> Iterator[tuple[str, Any]]:
    """Yield the commands of an application with their full names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from named(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def _key(option: Any) -> tuple[str, str]:
    return option.name, option.help


def _described(help: str) -> Iterator[str]:
    """Yield the paragraphs of a command's help, its examples as code."""
    text, _, examples = help.partition("\n\nExamples:\n")
    yield from (prose(" ".join(part.split())) for part in text.split("\n\n"))
    if examples:
        yield f"```sh\n{dedent(examples)}\n```"


def _flag(option: Any) -> str:
    is_argument = option.param_type_name == "argument"
    return str(option.metavar) if is_argument else str(max(option.opts, key=len))


def _option(option: Any) -> tuple[str, str, str]:
    written = _flag(option)
    if option.param_type_name != "argument":
        written = ", ".join([*option.opts, *option.secondary_opts])
        written += f" {option.metavar}" if option.metavar else ""
    shown = option.show_default
    return code(written), prose(option.help), prose(shown) if isinstance(shown, str) else ""

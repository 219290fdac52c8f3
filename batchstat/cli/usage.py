"""Commands with batchstat's help pages, and with its errors for wrong usage."""

import sys
from collections import UserDict
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

from typer import CallbackParam, Context, Exit, Option, Typer, TyperException
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from batchstat.cli.help import help_page
from batchstat.cli.streams import emit
from batchstat.errors import OptionError, nearest, unknown

_WRONG_USAGE = 2


def _print_help(context: Context, parameter: CallbackParam, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        page = help_page(context.command, context, everything=parameter.name == "help_all")
        emit(page, sys.stdout.encoding)
        raise Exit(0)


def _help_option(*flags: str, text: str) -> Any:
    made = Option(*flags, is_eager=True, expose_value=False, callback=_print_help, help=text)
    return Annotated[bool | None, made]


Help = _help_option("-h", "--help", text="Print help.")
"""The parameter `help` of a command or a group, which prints its help."""

HelpAll = _help_option("--help-all", text="Print help with all options.")
"""The parameter `help_all` of a command, which prints its help with every option."""


class _Usage:
    """What is the same for a command and a group."""

    params: list[Any]
    no_args_is_help: bool

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments.

        Raises:
            OptionError: wrong usage, with the remedy.
        """
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            emit(help_page(self, ctx, everything=False), sys.stdout.encoding)
            raise Exit(_WRONG_USAGE)
        try:
            found: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except TyperException as error:
            raise OptionError(_explained(error, self, ctx.command_path)) from None
        return found


class Command(_Usage, TyperCommand):
    """A command."""


class Listed(NamedTuple):
    """A command as a group lists it.

    Attributes:
        name: its name.
        rich_help_panel: where it is listed.
        callback: what runs it.
    """

    name: str
    rich_help_panel: str
    callback: Callable[..., None]

    @property
    def help(self) -> str:
        """Its description."""
        return self.callback.__doc__ or ""


class Commands(UserDict[str, Any]):
    """Commands by name, each made when it is first needed: a run needs one, and help none."""

    def __getitem__(self, name: str) -> Any:
        """Return a command."""
        found = self.data[name]
        if isinstance(found, Listed):
            app = Typer(add_completion=False, rich_markup_mode=None)
            app.command(
                name,
                cls=Command,
                add_help_option=False,
                rich_help_panel=found.rich_help_panel,
                context_settings={
                    "allow_interspersed_args": not getattr(found.callback, "rest", "")
                },
            )(found.callback)
            found = self.data[name] = get_command(app)
        return found


class Group(_Usage, TyperGroup):
    """A group of commands."""

    @property
    def listed(self) -> list[Any]:
        """The commands, as far as help needs them."""
        commands: Any = self.commands
        return list(getattr(commands, "data", commands).values())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name. Raises OptionError if there is none."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


def _explained(error: Any, command: Any, path: str) -> str:
    """Return what is wrong on a command line, and what to do.

    typer's errors are told apart by what they have, as their classes are private to it, and those
    that have more come first.
    """
    parameter: Any = getattr(error, "param", None)
    if hasattr(error, "possibilities"):  # NoSuchOption
        return _unknown_option(error.option_name, command, error.ctx)
    if hasattr(error, "param_type"):  # MissingParameter
        return f"{path} needs {parameter.metavar}: run {path} --help for examples"
    if hasattr(error, "option_name"):  # BadOptionUsage
        flag = error.option_name
        option = next(each for each in command.params if flag in (*each.opts, *each.secondary_opts))
        if option.is_flag:
            return f"{flag} takes no value: write {flag} alone"
        return f"{flag} has no value: write {flag} {option.metavar}"
    if parameter is not None:  # BadParameter
        longest_flag = max(parameter.opts, key=len)
        return f"{longest_flag}={error.message}"
    # Any other UsageError: arguments beyond those of the command, which click names at the end.
    extra = error.message.partition("(s) (")[2].removesuffix(")") or error.message
    places = [each.metavar for each in command.params if each.param_type_name == "argument"]
    takes = f"takes only {' and '.join(places)}" if places else "takes options only"
    return f"unexpected argument {extra!r}: {path} {takes}: remove it"


def _unknown_option(flag: str, command: Any, context: Any) -> str:
    path, root = context.command_path, context.find_root().command
    owners = [name for name, each in root.commands.items() if flag in _flags_of(each.params)]
    written, rare = flag.strip("-"), getattr(command.callback, "rare", ())
    usual = _flags_of(each for each in command.params if each.name not in rare)
    # An option of --help comes before one that only --help-all lists.
    begun = [known for known in usual if written and known.startswith(f"--{written}")]
    near = nearest(f"--{written}" if written else "", begun or _flags_of(command.params))
    if owners:
        remedy = f"it is an option of {' and '.join(owners)}"
    elif near is not None:
        remedy = f"did you mean {near!r}?"
    else:
        page = "--help" if hasattr(command, "commands") else "--help-all"
        remedy = f"run {path} {page} for all options"
    return f"unknown option {flag!r} of {path}: {remedy}"


def _flags_of(options: Iterable[Any]) -> list[str]:
    """Return the long flags of options."""
    flags = [name for each in options for name in (*each.opts, *each.secondary_opts)]
    return [name for name in flags if name.startswith("--")]

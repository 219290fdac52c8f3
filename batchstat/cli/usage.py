"""Commands with batchstat's help pages, and with its errors for wrong usage."""

import sys
from collections import UserDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, NamedTuple

from typer import CallbackParam, Context, Exit, Option, Typer, TyperException
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from batchstat.cli.help import help_page
from batchstat.cli.streams import emit
from batchstat.errors import OptionError, nearest, unknown


def _print_help(context: Context, parameter: CallbackParam, wanted: bool) -> None:
    # A shell that completes a line parses it, too, and wants no help.
    if wanted and not context.resilient_parsing:
        page = help_page(context.command, context, everything=parameter.name == "help_all")
        emit(page, sys.stdout.encoding)
        raise Exit(0)


def _help_option(*flags: str, text: str) -> Any:
    # Eager: help is printed before other options are checked.
    option = Option(*flags, is_eager=True, expose_value=False, callback=_print_help, help=text)
    return Annotated[bool | None, option]


Help = _help_option("-h", "--help", text="Print help.")
HelpAll = _help_option("--help-all", text="Print help with all options.")
"""The parameters `help` and `help_all` of commands, which print their help."""


class _Usage:
    """Parsing with batchstat's messages, for commands and groups: a mixin before typer's class."""

    params: list[Any]
    no_args_is_help: bool

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse words into `ctx`, as typer does, and return those that are left. A group that needs
        a command prints its help where there are no words. Raises OptionError with the remedy.
        """
        # A shell that completes a line parses it, too, and wants no help.
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            emit(help_page(self, ctx, everything=False), sys.stdout.encoding)
            raise Exit(OptionError.exit_code)
        for parameter in self.params:
            parameter.process_value = partial(_converted, parameter)
        try:
            words_left: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except TyperException as error:
            raise _explained(error, self, ctx.command_path) from None
        return words_left


def _converted(parameter: Any, context: Any, value: Any) -> Any:
    # typer's own makes a schema of pydantic for every option, a fourth of the time of a short run.
    parser = parameter.type_descriptor.parameter_info.parser
    if value is not None and parser is not None:
        value = parser(value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class Command(_Usage, TyperCommand):
    """A command."""


class Listed(NamedTuple):
    """A command as a group lists it: with the attributes of typer's command that help reads."""

    name: str
    rich_help_panel: str
    callback: Callable[..., None]  # the function that runs it

    @property
    def help(self) -> str:
        """Its description."""
        return self.callback.__doc__ or ""


class Commands(UserDict[str, Any]):
    """Commands by name, each made when it is first asked for, since that takes time."""

    def __getitem__(self, name: str) -> Any:
        """Return typer's object of the command with this name; it is made once, and kept."""
        command = self.data[name]
        if isinstance(command, Listed):
            # typer makes commands for an application only: this one exists for one command.
            app = Typer(add_completion=False, rich_markup_mode=None)
            app.command(
                name,
                cls=Command,
                add_help_option=False,
                rich_help_panel=command.rich_help_panel,
                # Flags after the first word of a rest argument, the user's command, are its own.
                context_settings={
                    "allow_interspersed_args": not getattr(command.callback, "rest_argument", "")
                },
            )(command.callback)
            command = self.data[name] = get_command(app)
        return command


class Group(_Usage, TyperGroup):
    """A group of commands."""

    @property
    def listed(self) -> list[Any]:
        """The commands, as far as help needs them: those of `Commands` are not made for it."""
        commands: Any = self.commands
        return list(getattr(commands, "data", commands).values())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name. Raises OptionError if there is none."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


def _explained(error: Any, command: Any, path: str) -> OptionError:
    """Return an error of typer as ours: what is wrong on a command line, and what to do."""
    # The classes of these errors are private to typer. So they are told apart by their attributes,
    # which each class adds to those of its base class: the most specific class comes first.
    parameter: Any = getattr(error, "param", None)
    if hasattr(error, "possibilities"):  # NoSuchOption
        return _unknown_option(error.option_name, command, error.ctx)
    if hasattr(error, "option_name"):  # BadOptionUsage
        flag = error.option_name
        option = next(each for each in command.params if flag in (*each.opts, *each.secondary_opts))
        if option.is_flag:
            return OptionError(f"{flag} takes no value", f"write {flag} alone")
        return OptionError(f"{flag} has no value", f"write {flag} {option.metavar}")
    if parameter is not None:  # BadParameter
        longest_flag = max(parameter.opts, key=len)
        value, _, remedy = error.message.rpartition("': ")  # of our own: 'VALUE': what it must be
        if value:
            return OptionError(f"{longest_flag}={value}'", remedy)
        return OptionError(f"{longest_flag}={error.message}")
    # Any other UsageError: too many arguments, as "Got unexpected extra argument(s) (a b)".
    extra = error.message.partition("(s) (")[2].removesuffix(")") or error.message
    places = [each.metavar for each in command.params if each.param_type_name == "argument"]
    takes = f"takes only {' and '.join(places)}" if places else "takes options only"
    return OptionError(f"unexpected argument {extra!r}: {path} {takes}", "remove it")


def _unknown_option(flag: str, command: Any, context: Any) -> OptionError:
    """Return the error for an unknown flag: which commands have it, or which flag is meant."""
    path, all_commands = context.command_path, context.find_root().command.commands
    owners = [name for name, each in all_commands.items() if flag in _flags_of(each.params)]
    name = flag.strip("-")  # empty for a flag of dashes alone, for which no flag is suggested
    rare_options = getattr(command.callback, "rare", ())
    common_flags = _flags_of(each for each in command.params if each.name not in rare_options)
    # Flags that complete the unknown one, as --max-length does --max, come before others.
    completions = [known for known in common_flags if name and known.startswith(f"--{name}")]
    suggestion = nearest(f"--{name}" if name else "", completions or _flags_of(command.params))
    if owners:
        remedy = f"it is an option of {' and '.join(owners)}"
    elif suggestion is not None:
        remedy = f"did you mean {suggestion!r}?"
    else:
        # A group has no --help-all.
        page = "--help" if hasattr(command, "commands") else "--help-all"
        remedy = f"run {path} {page} for all options"
    return OptionError(f"unknown option {flag!r} of {path}", remedy)


def _flags_of(options: Iterable[Any]) -> list[str]:
    flags = [name for each in options for name in (*each.opts, *each.secondary_opts)]
    return [name for name in flags if name.startswith("--")]

"""Options of commands, made from the fields of records; and what the user gave."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer

from batchstat.cli.usage import Help, HelpAll
from batchstat.errors import OptionError
from batchstat.parameters import Option, options_of, parse_whole
from batchstat.storage.addresses import as_path
from batchstat.storage.shown import as_shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


@dataclass(frozen=True)
class Options:
    """The options that the user gave a command, by the names of fields."""

    given: Mapping[str, Any]

    def read(self, record: type[Record]) -> Record:
        """Return a record of the options; what is not given has the field's default."""
        names = {each.name for each in fields(record)} & self.given.keys()
        return record(**{name: self.given[name] for name in names})


Command = Callable[[Options], None]


def takes(
    *records: "type[DataclassInstance]", without: tuple[str, ...] = ()
) -> Callable[[Command], Callable[..., None]]:
    """Give a command the options that the fields of records declare, except those `without`."""
    declared = {
        each.name: each
        for record in records
        for each in fields(record)
        if each.name in options_of(record) and each.name not in without
    }

    return lambda command: _Taking(command, declared)


class _Taking:
    """A command as typer takes it: a function with a parameter for each option.

    Attributes:
        rare: names of options that only the page of all options lists.
        rest: the argument that takes all words from its place on; empty where none does.
    """

    def __init__(self, command: Command, declared: "Mapping[str, Field[Any]]") -> None:
        self._command, self._declared = command, declared
        self.__doc__ = inspect.cleandoc(command.__doc__ or "")
        self.__name__ = command.__name__
        self.__annotations__: dict[str, Any] = {}
        options = {name: each.metadata["option"] for name, each in declared.items()}
        self.rare = {name for name, each in options.items() if not each.is_common}
        self.rest = next((name for name, each in options.items() if each.takes_rest), "")

    @property
    def __signature__(self) -> inspect.Signature:
        """The options as parameters, made when typer asks: one run needs those of one command."""
        return inspect.Signature([*map(_parameter, self._declared.values()), *_HELP])

    def __call__(self, **values: Any) -> None:
        """Run the command with the options that are given."""
        given = {
            name: _shown(value) if name != self.rest else tuple(value)
            for name, value in values.items()
            if value not in (None, [])
        }
        _refuse_empty({k: given[k] for k in given if k != self.rest}, self._declared)
        self._command(Options(given))


_HELP = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    for name, kind in {"help": Help, "help_all": HelpAll}.items()
]


def _parameter(declared: "Field[Any]") -> inspect.Parameter:
    """Return a parameter for typer: None unless given, or without a default if it is required."""
    option: Option = declared.metadata["option"]
    kind, is_required = _kind(declared.type), declared.default is MISSING
    shown = option.shown
    if shown is None and declared.type in (str, int) and not is_required:
        shown = str(declared.default)
    common: dict[str, Any] = {
        "help": _as_flags(option.help),
        "metavar": option.metavar,
        "show_default": _as_flags(shown) if shown else False,
        "parser": {Path: _path, int: _whole, float: _number}.get(kind),
        "autocompletion": _completion(option),
        "readable": False,
    }
    if option.is_argument:
        made = typer.Argument(**common)
    else:
        name = declared.name.replace("_", "-")
        usual = f"--{name}/--no-{name}" if kind is bool else f"--{name}"
        made = typer.Option(*(option.flags or (usual,)), rich_help_panel=option.group, **common)
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_required else None,
        annotation=Annotated[kind if is_required else kind | None, made],
    )


def _completion(option: Option) -> Callable[[str], list[str]] | None:
    """Return what completes a value in a shell; None for a value that is not a name."""
    names = option.names or (lambda: option.values)
    if option.names is None and not option.values:
        return None
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def _kind(declared: Any) -> Any:
    """Return the type of a field's values on a command line: that of an optional one is its own."""
    if get_origin(declared) is tuple:
        return list[str]
    return next((each for each in get_args(declared) if each is not NoneType), declared)


def _as_flags(text: str) -> str:
    """Return text with the fields in backticks as people write them on a command line."""
    return re.sub("`([^`]*)`", lambda match: match[1].replace("_", "-"), text)


def _shown(value: Any) -> Any:
    """Return a value whose addresses hold, but do not show, what may be a secret."""
    if isinstance(value, list):
        return tuple(map(_shown, value))
    return as_shown(value) if isinstance(value, str) else value


def _whole(written: str | int) -> int:
    """Return a whole number. Raises BadParameter for other text."""
    try:
        return written if isinstance(written, int) else parse_whole(written)
    except ValueError as error:
        raise typer.BadParameter(f"{written!r}: {error}") from None


def _number(written: str | float) -> float:
    """Return a number. Raises BadParameter for other text."""
    try:
        return float(written)
    except ValueError:
        raise typer.BadParameter(f"{written!r}: must be a number") from None


def _path(written: str | Path) -> Path:
    """Return a local path or a URL. Raises BadParameter for an empty one."""
    if not str(written).strip():
        raise typer.BadParameter("'': must name a file or folder")
    return as_path(written)


def _refuse_empty(given: Mapping[str, Any], declared: "Mapping[str, Field[Any]]") -> None:
    """Raise OptionError if an option is empty, as from an unset variable in a script."""
    for name, value in given.items():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and not each.strip():
                option: Option = declared[name].metadata["option"]
                flags = option.flags or (f"--{name.replace('_', '-')}",)
                written = option.metavar if option.is_argument else max(flags, key=len)
                raise OptionError(f"{written} is empty: give it a value, or remove it")

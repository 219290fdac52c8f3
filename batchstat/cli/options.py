"""Options of commands, made from the fields of records; and what the user gave."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
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
        names = {declared.name for declared in fields(record)} & self.given.keys()
        return record(**{name: self.given[name] for name in names})


Command = Callable[[Options], None]


def takes(
    *records: "type[DataclassInstance]", without: tuple[str, ...] = ()
) -> Callable[[Command], Callable[..., None]]:
    """Decorate a command's function: it takes what the fields of records declare."""
    options = {
        declared.name: declared
        for record in records
        for declared in fields(record)
        if declared.name in options_of(record) and declared.name not in without
    }

    return lambda command: _WithOptions(command, options)


class _WithOptions:
    """A command as typer takes it: with a function's name, docstring, annotations and signature."""

    def __init__(self, command: Command, declared: "Mapping[str, Field[Any]]") -> None:
        self._command, self._declared = command, declared
        self.__doc__ = inspect.cleandoc(command.__doc__ or "")
        self.__name__ = command.__name__
        self.__annotations__: dict[str, Any] = {}  # empty: typer reads them in the signature
        options = {name: each.metadata["option"] for name, each in declared.items()}
        self.rare = {name for name, each in options.items() if not each.is_common}
        self.rest_argument = next((name for name, each in options.items() if each.takes_rest), "")

    @property
    def __signature__(self) -> inspect.Signature:
        """The options as parameters, made when typer asks: one run needs those of one command."""
        return inspect.Signature([*map(_parameter, self._declared.values()), *_HELP])

    def __call__(self, **values: Any) -> None:
        """Run the command with the options that are given: typer passes None or [] for others."""
        given = {}
        for name, value in values.items():
            if value in (None, []):
                continue
            if name == self.rest_argument:  # a command of the user, which runs as it is written
                given[name] = tuple(value)
            else:
                given[name] = _without_secrets(value)
                _refuse_empty(given[name], self._declared[name])
        self._command(Options(given))


_HELP = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    for name, kind in {"help": Help, "help_all": HelpAll}.items()
]


def _parameter(declared: "Field[Any]") -> inspect.Parameter:
    """Return the parameter from which typer makes an option or an argument."""
    option: Option = declared.metadata["option"]
    kinds, shown_default = get_args(declared.type), option.shown
    value_type: Any = next((kind for kind in kinds if kind is not NoneType), declared.type)
    if get_origin(declared.type) is tuple:  # an option that may be repeated
        value_type = list[str]
    # A number or a name is a default that help can show; an empty tuple or a switch is not.
    if shown_default is None and declared.type in (str, int):
        shown_default = str(declared.default)
    # A function: the names may be those of a registry, whose module is loaded when it is called.
    names = option.names or (lambda: option.values)
    common: dict[str, Any] = {
        "help": _as_flags(option.help),
        "metavar": option.metavar,
        "show_default": _as_flags(shown_default) if shown_default else False,
        "parser": {Path: _path, int: _whole, float: _number}.get(value_type),
        # typer requires the name `incomplete`.
        "autocompletion": (
            (lambda incomplete: [name for name in names() if name.startswith(incomplete)])
            if option.names is not None or option.values
            else None
        ),
    }
    if option.is_argument:
        declaration = typer.Argument(**common)
    else:
        name = declared.name.replace("_", "-")
        usual_flag = f"--{name}/--no-{name}" if value_type is bool else f"--{name}"
        flags = option.flags or (usual_flag,)
        declaration = typer.Option(*flags, rich_help_panel=option.group, **common)
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[value_type | None, declaration],
    )


def _as_flags(text: str) -> str:
    return re.sub("`([^`]*)`", lambda match: match[1].replace("_", "-"), text)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_without_secrets, value))
    return as_shown(value) if isinstance(value, str) else value


def _whole(written: str | int) -> int:
    try:
        return written if isinstance(written, int) else parse_whole(written)
    except ValueError as error:
        raise typer.BadParameter(f"{written!r}: {error}") from None


def _number(written: str | float) -> float:
    try:
        return float(written)
    except ValueError:
        raise typer.BadParameter(f"{written!r}: must be a number") from None


def _path(written: str | Path) -> Path:
    if not str(written).strip():
        raise typer.BadParameter("'': must name a file or folder")
    return as_path(written)


def _refuse_empty(value: Any, declared: "Field[Any]") -> None:
    """Raise OptionError for an option with empty text, as from an unset variable in a script."""
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, str) and not item.strip():
            option: Option = declared.metadata["option"]
            flags = option.flags or (f"--{declared.name.replace('_', '-')}",)
            shown = option.metavar if option.is_argument else max(flags, key=len)
            raise OptionError(f"{shown} is empty", "give it a value, or remove it")

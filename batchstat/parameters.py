"""Numbers and names that users set: checked in one place, under the same names everywhere."""

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from decimal import Decimal
from functools import wraps
from importlib import import_module
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from batchstat.errors import OptionError, arguments_named, unknown
from batchstat.words import short

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Arguments = ParamSpec("_Arguments")
_Item = TypeVar("_Item")
_Record = TypeVar("_Record", bound="DataclassInstance")
_Result = TypeVar("_Result")
_Thing = TypeVar("_Thing")

MAX_INT = 2**31 - 1
"""Largest value of any setting but a seed: tokens and samples of one batch fit in 64 bits."""

MOST_SEED = 2**32 - 1
"""Largest seed of NumPy's legacy generator, and so of whatever seeds all generators."""

MOST_RANKS = 100_000
"""Every round has an entry per rank: a mistyped number must not exhaust a machine's memory."""


@dataclass(frozen=True)
class Option:
    """How people set a field: on a command line, or in a configuration."""

    help: str
    group: str
    metavar: str | None = None  # the value's placeholder; None for a switch
    shown: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # its flags, where they are not the field's name
    is_argument: bool = False
    takes_rest: bool = False
    is_common: bool = False
    names: Callable[[], Iterable[str]] | None = None
    least: int = 1
    most: int = MAX_INT
    told: str = ""


_PLAIN = Option("", "")  # what bounds a field that people do not set


def option(default: Any, help: str, group: str, metavar: str | None = None, **more: Any) -> Any:
    """Return a dataclass field that people can set; `more` are attributes of `Option`."""
    return field(default=default, metadata={"option": Option(help, group, metavar, **more)})


def parameter(help: str, default: Any = MISSING, **more: Any) -> Any:
    """Return a field of a strategy or a sampler; `more` are attributes of `Option`."""
    return field(default=default, metadata={"option": Option(help, "", **more)})


def names_in(module: str, registry: str) -> Callable[[], Iterable[str]]:
    """Return what gives the names in a registry, whose module is loaded when they are needed."""
    return lambda: getattr(import_module(module), registry)


def options_of(*records: "DataclassInstance | type[DataclassInstance]") -> dict[str, Option]:
    """Return the options of records, by the names of their fields."""
    all_fields = (each for record in records for each in fields(record))
    return {each.name: each.metadata["option"] for each in all_fields if "option" in each.metadata}


def described(text: str) -> Callable[[_Thing], _Thing]:
    """Return a decorator that gives a class or a function this docstring. It is for docstrings that
    `explain`, help or a schema shows: python -OO drops all others.
    """

    def decorate(thing: _Thing) -> _Thing:
        thing.__doc__ = inspect.cleandoc(text)
        return thing

    return decorate


def documented(record: type[_Record]) -> type[_Record]:
    """Decorate a record: its docstring gets a section `Attributes` with the sentence that each
    field declares, as the help of an option or as the `told` of a document.
    """
    texts = {name: declared.help for name, declared in options_of(record).items()}
    texts |= {
        each.name: each.metadata["told"] for each in fields(record) if "told" in each.metadata
    }
    lines = [f"    {name}: {text}" for name, text in texts.items()]
    text = inspect.cleandoc(record.__doc__ or "")
    # The new section goes before the section `Raises`; all is empty from `heading` on without it.
    before, heading, raises = text.partition("\n\nRaises:")
    record.__doc__ = "\n".join([before, "", "Attributes:", *lines]) + heading + raises
    return record


def whole_number(name: str, value: object, min_value: int = 1, max_value: int = MAX_INT) -> int:
    """Return `value` as an int in this range; else raise an `OptionError`."""
    try:
        # `index` would take True for 1.
        if isinstance(value, bool):
            raise TypeError
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise OptionError(f"{name}={short(value)}", "must be a whole number") from None
    if not min_value <= number <= max_value:
        raise OptionError(
            f"{name}={short(number)}", f"must be between {min_value} and {max_value:,}"
        )
    return number


def parse_whole(text: str) -> int:
    """Return a whole number as people write it: `16384`, `16_384`, `16k` or `1e6`. Raises
    ValueError: anything else. The message has no name: the caller puts it before.
    """
    written = _WHOLE.fullmatch(text.strip())
    if written is None:
        # A number with commas is shown as it is written without; otherwise an example is shown.
        example = text if re.fullmatch(r"\d{1,3}(,\d{3})+", text) else "16,384"
        digits_only, with_underscores = example.replace(",", ""), example.replace(",", "_")
        raise ValueError(f"must be a whole number: write {digits_only} or {with_underscores}")
    # Group 1 is the number, group 2 is k, m or nothing.
    number = Decimal(written[1].replace("_", "")) * _FACTORS[written[2].lower()]
    if number != number.to_integral_value():
        raise ValueError("must be a whole number")
    return int(number)


_WHOLE = re.compile(r"(-?\d[\d_]{0,30}(?:\.\d{1,9})?(?:e\d{1,2})?)([km]?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_bytes(name: str, text: str) -> int:
    """Return a number of bytes written as `80GiB`, `24 GB` or `512MiB`. Raises OptionError."""
    # Group 1 is the number, group 2 its unit. What cannot be read is refused as the size 0.
    written = _SIZE.fullmatch(text.strip())
    size = 0 if written is None else int(Decimal(written[1]) * _SIZES[written[2].lower()])
    if size < 1:
        raise OptionError(f"{name}={text!r}", "must be a size such as 80GiB or 24GB")
    return size


_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([KMGT]i?B)", re.IGNORECASE)
_SIZES = {
    **{f"{letter}b": 1000 ** (i + 1) for i, letter in enumerate("kmgt")},
    **{f"{letter}ib": 1024 ** (i + 1) for i, letter in enumerate("kmgt")},
}


def one_of(name: str, value: str, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`; else raise an `OptionError` with the nearest."""
    if not isinstance(value, str):
        raise OptionError(f"{name}={short(value)}", f"must be one of {', '.join(sorted(choices))}")
    if value not in choices:
        raise unknown(name, value, choices)
    return value


def listed(name: str, values: Iterable[_Item]) -> tuple[_Item, ...]:
    """Return the items of an argument. Raise OptionError for a value without items, such as 3."""
    try:
        return tuple(values)
    except TypeError:
        raise OptionError(f"{name}={short(values)}", "must be a list") from None


def named_path(name: str, given: str | os.PathLike[str]) -> Path:
    """Return `given` as a path; raise `OptionError` if empty, which Path takes for this folder."""
    if not isinstance(given, str | os.PathLike):
        raise OptionError(f"{name}={short(given)}", "must be a path")
    if not os.fspath(given).strip():
        raise OptionError(f"{name} is empty", "name a file or folder")
    return Path(given)


def check_fields(record: "DataclassInstance") -> None:
    """Check the values of a frozen dataclass. An int is a whole number from 1 to `MAX_INT`, or in
    the range of its option; whole numbers that are written as text or come from NumPy are replaced
    by ints. A bool and a str are what their annotation says. A field annotated with `None` may be
    None. An option that lists its values has one of them. Raises OptionError: a field that does not
    match, named with its value.
    """
    options = options_of(record)
    for each in fields(record):
        name, kind, value = each.name, each.type, getattr(record, each.name)
        allowed = options.get(name, _PLAIN)
        if allowed.values and value is not None:
            one_of(name, value, allowed.values)
        if value is None and kind in (int | None, str | None):
            continue
        if kind in (int, int | None):
            # Text is read as on the command line, such as tokens_per_batch="16k".
            value = _named_whole(name, value) if isinstance(value, str) else value
            number = whole_number(name, value, allowed.least, allowed.most)
            object.__setattr__(record, name, number)  # a frozen record has no other way
        elif kind is bool and not isinstance(value, bool):
            raise OptionError(f"{name}={short(value)}", "must be true or false")
        elif kind in (str, str | None) and not isinstance(value, str):
            raise OptionError(f"{name}={short(value)}", "must be text")


def read_parameters(
    kind: str, name: str, text: str, known: Mapping[str, "Field[Any]"]
) -> dict[str, object]:
    """Parse the parameters in `key=value,key=value`, each with the type of its field's default. A
    comma starts a new parameter only if `key=` follows. Raises OptionError: an unknown parameter
    (with the nearest known one), a repeated parameter, or a missing or wrong value.
    """
    pairs: dict[str, str] = {}
    for part in _split_parameters(text):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(
                f"{kind} parameter {part!r} of {name} has no value", "write key=value"
            )
        if not known:
            raise OptionError(f"{name} has no parameters", f"remove {part!r}")
        if key not in known:
            raise unknown(f"parameter of {name}", key, known)
        if key in pairs:
            raise OptionError(f"{kind} parameter {key!r} of {name} is given twice")
        pairs[key] = value
    return {key: _parse_value(known[key], value) for key, value in pairs.items()}


def checks_keywords(
    settings: "type[DataclassInstance]",
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return a decorator of public functions that take the fields of a record as keywords. A
    keyword that is neither a field nor a parameter of the function raises an OptionError with the
    nearest name. All errors of the function name options as its caller does: see `worded`.
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        parameters = inspect.signature(function).parameters.keys()
        known = {field.name for field in fields(settings)}
        # `**settings` or `**options` takes the fields, and is no keyword itself.
        known |= parameters - {"self", "settings", "options"}

        @wraps(function)
        def checked(*args: _Arguments.args, **keywords: _Arguments.kwargs) -> _Result:
            for key in keywords:
                if key not in known:
                    raise unknown("argument", key, sorted(known))
            with arguments_named():
                return function(*args, **keywords)

        return checked

    return decorate


def with_parameter(spec: str, key: str, value: int | str) -> str:
    """Return `spec` with one of its parameters set or replaced."""
    name, _, rest = spec.partition(":")
    pairs = [part for part in _split_parameters(rest) if part.partition("=")[0] != key]
    pairs.append(f"{key}={value}")
    # A setup in another one stays the last: see `_split_parameters`.
    return f"{name}:{','.join(sorted(pairs, key=lambda pair: pair.startswith(_SETUP)))}"


def _split_parameters(rest: str) -> list[str]:
    if not rest:
        return []
    own, *setup = re.split(rf"(?:^|,)(?={_SETUP})", rest, maxsplit=1)
    return [*(re.split(r",(?=\w+=)", own) if own else []), *setup]


_SETUP = "of="


def _parse_value(field: "Field[Any]", text: str) -> object:
    """Return the value of a parameter from its text, of the type that its field has."""
    if isinstance(field.default, bool):
        if text not in ("true", "false"):
            raise OptionError(f"{field.name}={text!r}", "must be true or false")
        return text == "true"
    if isinstance(field.default, str):
        return text
    if field.type in (float, float | None):
        try:
            return float(text)
        except ValueError:
            raise OptionError(f"{field.name}={text!r}", "must be a number") from None
    # A tuple has whole numbers, such as the edges 128,256. An empty one is written `auto`.
    if isinstance(field.default, tuple):
        parts = () if text == "auto" else text.split(",")
        return tuple(_named_whole(field.name, part) for part in parts)
    return _named_whole(field.name, text)


def _named_whole(name: str, text: str) -> int:
    try:
        return parse_whole(text)
    except ValueError as error:
        raise OptionError(f"{name}={text!r}", str(error)) from None

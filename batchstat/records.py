"""Numbers that reports state, each declared once: on the field of the record that holds it. Its
sentence, type and unit stand there. JSON, schemas, the paths of limits, the glossary and the
columns of frames follow: see `batchstat.documents.parts`.
"""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field
from typing import Annotated, Any, TypeVar, dataclass_transform

_Thing = TypeVar("_Thing")


class Allowed(tuple[tuple[str, Any], ...]):
    """What a value may be, beside its type: keywords of a JSON Schema, with their values."""


def allowed(**keywords: Any) -> Allowed:
    """Return what the type of a field is annotated with; `unit` is batchstat's own keyword."""
    if "unit" in keywords:
        keywords["x-unit"] = keywords.pop("unit")
    return Allowed(keywords.items())


def among(names: Iterable[str]) -> Allowed:
    """Return what a text may be that is one of the names of a registry."""
    return allowed(enum=tuple(names))


Count = Annotated[int, allowed(minimum=0)]
Positive = Annotated[int, allowed(minimum=1)]
Amount = Annotated[float, allowed(minimum=0)]
AtLeastOne = Annotated[float, allowed(minimum=1)]
Ratio = Annotated[float, allowed(minimum=0, maximum=1, unit="ratio")]
"""Shown as a percentage; a limit on it may be written as one."""

UnboundedRatio = Annotated[float, allowed(minimum=0, unit="ratio")]

SAME = "."  # the `of` of a part that no field holds: its keys are those of the record around it


def told(
    text: str = "", *, key: str | None = None, of: str | None = None, default: Any = MISSING
) -> Any:
    """Return a dataclass field of a record or a document that documents show as a key."""
    return field(default=default, metadata={"told": text, "key": key, "of": of})


def untold() -> Any:
    """Return a field of a record that no document has."""
    return field(metadata={"told": None})


def told_of(
    text: str = "", *, after: str | None = None, key: str | None = None
) -> Callable[[_Thing], _Thing]:
    """Return a decorator, below `@property`, of properties that documents show as a key."""

    def decorate(thing: _Thing) -> _Thing:
        thing.__doc__ = text or thing.__doc__
        # What builds the documents reads these from the function.
        thing.told, thing.after, thing.key = text, after, key  # type: ignore[attr-defined]
        return thing

    return decorate


@dataclass_transform(frozen_default=True, field_specifiers=(told, untold))
class Record:
    """A frozen dataclass that documents have as it is: its fields, and properties by `told_of`."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)

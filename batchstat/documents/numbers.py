"""The numbers that the fields of a document declare: where each stands, and of which kind."""

import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from batchstat.documents.base import Document

Kind = Literal["ratio", "count", "number"]
"""A ratio in [0, 1], a whole number, or any other number that is not negative."""


@dataclass(frozen=True)
class Part:
    """A part of a document.

    Attributes:
        kind: the kind of number; None for what is not a number.
        keys: the parts of an object, by key.
        items: what each element of a list is; None for what is not a list.
        default: the value where there is none.
    """

    kind: Kind | None = None
    keys: Mapping[str, "Part"] = field(default_factory=dict)
    items: "Part | None" = None
    default: Any = None


@cache
def parts(document: type[Document]) -> Part:
    """Return the parts of a document."""
    keys = {}
    for name, info in document.model_fields.items():
        default = None if info.is_required() else info.default
        keys[info.serialization_alias or name] = _part(info.annotation, info, default)
    return Part(keys=keys)


def _part(annotation: Any, info: FieldInfo | None = None, default: Any = None) -> Part:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _part(arguments[0], next(each for each in arguments if isinstance(each, FieldInfo)))
    if origin in (Union, types.UnionType):
        own, *others = (_part(each) for each in arguments if each is not types.NoneType)
        assert not others, f"{annotation} has several types, which no path can tell apart"
        return own
    if origin is list:
        return Part(items=_part(arguments[0]))
    if annotation is int:
        return Part("count", default=default)
    if annotation is float:
        extra = info.json_schema_extra if info else None
        is_ratio = isinstance(extra, dict) and extra.get("x-unit") == "ratio"
        return Part("ratio" if is_ratio else "number", default=default)
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return parts(annotation)
    return Part()

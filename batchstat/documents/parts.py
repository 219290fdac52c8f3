"""What documents consist of, as the fields of records declare it: for JSON, schemas and limits."""

import operator
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from batchstat.parameters import options_of
from batchstat.records import SAME, Record

Kind = Literal["ratio", "count", "number"]
"""A ratio in [0, 1], a whole number, or any other number that is not negative."""

_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", dict: "object"}
_EXCEEDS = {
    "minimum": operator.lt,
    "maximum": operator.gt,
    "exclusiveMinimum": operator.le,
    "exclusiveMaximum": operator.ge,
}
"""Keywords of JSON Schemas that bound numbers, and what breaks them."""


@dataclass(frozen=True)
class Part:
    """A part of a document.

    Attributes:
        type: its type in JSON; None for any.
        text: what an object of its kind is.
        told: what it is in this place.
        source: where it is taken from: names joined by dots.
        is_required: whether there always is one.
        default: the value where there is none.
        is_nullable: whether it may be null.
        keys: the parts of an object, by key.
        items: what each element of a list, or each value of an object with any keys, is.
        allowed: other keywords of its JSON Schema.
    """

    type: str | None = None
    text: str = ""
    told: str = ""
    source: str = ""
    is_required: bool = True
    default: Any = None
    is_nullable: bool = False
    keys: Mapping[str, "Part"] = field(default_factory=dict)
    items: "Part | None" = None
    allowed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Kind | None:
        """The kind of number; None for what is not a number."""
        if self.type == "integer":
            return "count"
        if self.type == "number":
            return "ratio" if self.allowed.get("x-unit") == "ratio" else "number"
        return None

    @property
    def is_closed(self) -> bool:
        """Whether an object may have no other keys, as one all of whose keys may be missing."""
        return not any(each.is_required for each in self.keys.values())

    def json(self, value: Any) -> Any:
        """Return a value as `json.dumps` takes it. For an object, the value is one record, or
        several as `Sources`, and each key is taken from the first that has it.

        Raises:
            ValueError: a number out of its range, or a key that is not declared.
        """
        # A part without a type may be anything, and so null.
        if value is None and (self.is_nullable or self.type is None):
            return None
        if value is None:
            raise ValueError(f"{self.source} is None")
        if self.keys:
            return dict(self._filled(value if isinstance(value, Sources) else Sources([value])))
        if self.type == "array" and self.items is not None:
            return [self.items.json(item) for item in value]
        if self.type == "object":
            return dict(value)
        # JSON has a ratio of 1 as 1.0 whether it was computed or given, so that files compare as
        # bytes.
        if self.type == "number":
            value = float(value)
        for keyword, bound in self.allowed.items():
            if keyword in _EXCEEDS and _EXCEEDS[keyword](value, bound):
                raise ValueError(f"{self.source}={value}: {keyword} is {bound}")
        return value

    def _filled(self, sources: "Sources") -> Iterator[tuple[str, Any]]:
        """Yield (key, JSON value) for the keys of an object that its sources have.

        Raises:
            ValueError: no source has a key that is required, or one has a key that is not declared.
        """
        # Where any key may be missing, a misspelt one would be missed by nobody.
        if self.is_closed:
            sources.require(self.keys)
        for name, part in self.keys.items():
            value = sources.get(name, part.source)
            if value is not MISSING:
                yield name, part.json(value)
            elif part.is_required:
                raise ValueError(f"no source has {name}")


class Sources(tuple[Any, ...]):
    """Several records as one: the first that has a key wins."""

    def get(self, name: str, source: str) -> Any:
        """Return the value of a key; `MISSING` where there is none.

        Args:
            name: the key, as mappings have it.
            source: where records have it.
        """
        for record in self:
            value = (
                record.get(name, MISSING) if isinstance(record, Mapping) else _at(record, source)
            )
            if value is not MISSING:
                return value
        # Under SAME, the keys of the part itself are taken from these records.
        return self if source == SAME else MISSING

    def require(self, names: Iterable[str]) -> None:
        """Raise ValueError where a mapping has another key."""
        for record in self:
            if isinstance(record, Mapping) and (unknown := record.keys() - set(names)):
                raise ValueError(f"not declared: {', '.join(sorted(unknown))}")


def _at(record: Any, source: str) -> Any:
    """Return what a path leads to, or the null on its way; `MISSING` where it leads to nothing."""
    for step in source.split("."):
        if record is None:
            return None
        record = getattr(record, step, MISSING)
    return record


def parts(annotation: Any) -> Part:
    """Return what a value of a type, such as a document, consists of."""
    # A cached function has no types for mypy.
    return _parts(annotation)


@cache
def _parts(annotation: Any) -> Part:
    """Return the part of an annotation: by its form first (Annotated, a union, a list, a mapping),
    then by its class.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        # Each of them is an `Allowed`: keywords of a JSON Schema with their values.
        keywords = dict(pair for marks in annotation.__metadata__ for pair in marks)
        return replace(parts(arguments[0]), allowed=keywords)
    if annotation == int | float:  # a part without a type stays as it is: 5 does not become 5.0
        return Part()
    if origin in (Union, types.UnionType):
        only, *others = (parts(kind) for kind in arguments if kind is not types.NoneType)
        assert not others, f"{annotation}: only a type or null can be told apart in a document"
        return replace(only, is_nullable=True)
    if origin in (list, tuple):
        return Part("array", items=parts(arguments[0]))
    if origin in (dict, Mapping):
        return Part("object", items=parts(arguments[1]))
    if is_dataclass(annotation):
        # The docstring of a record with options is for help pages: documents describe each option.
        text = "" if options_of(annotation) else cleandoc(annotation.__doc__ or "")
        return Part("object", text=text, keys=_ordered(annotation))
    return Part(_TYPES.get(annotation))


def _keys(record: Any) -> Iterator[tuple[str, Part]]:
    """Yield (key, part) for the fields of a record that documents have. Of a record that people set
    by options, these are its options, whose sentence and bounds are those of `Option`.
    """
    options = options_of(record)
    for each in fields(record):
        told, source = each.metadata.get("told", ""), each.metadata.get("of") or each.name
        # `untold` marks a field with None: documents do not have it.
        if told is None or (options and each.name not in options):
            continue
        part = replace(parts(each.type), told=told, source=source)
        if options:
            option = options[each.name]
            allowed: dict[str, Any] = {"enum": tuple(option.values)} if option.values else {}
            if part.type == "integer":
                allowed["minimum"] = option.least
            part = replace(part, told=option.told, allowed=allowed)
        # A record always has all of its fields; a document's sources may lack one.
        elif each.default is not MISSING and not issubclass(record, Record):
            part = replace(part, is_required=False, default=each.default)
        yield each.metadata.get("key") or each.name, part


def _ordered(record: Any) -> dict[str, Part]:
    """Return the parts of a record by key: its fields, and its properties by `told_of`, each after
    the key that it names, or last.
    """
    pairs = list(_keys(record))
    for name, member in vars(record).items():
        getter: Any = member.fget if isinstance(member, property) else None
        if hasattr(getter, "told"):
            part = replace(parts(getter.__annotations__["return"]), told=getter.told, source=name)
            keys = [key for key, _ in pairs]
            # The index in `pairs` at which it is inserted.
            place = keys.index(getter.after) + 1 if getter.after else len(pairs)
            pairs.insert(place, (getter.key or name, part))
    return dict(pairs)

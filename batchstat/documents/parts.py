"""What documents consist of, as the fields of records declare it: for JSON, schemas and limits."""

import operator
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from inspect import cleandoc
from itertools import chain
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from batchstat.parameters import options_of
from batchstat.records import SAME, Record

Kind = Literal["ratio", "count", "number"]
"""A ratio in [0, 1], a whole number, or any other number that is not negative."""

_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", dict: "object"}
_IS_OUTSIDE = {
    "minimum": operator.lt,
    "maximum": operator.gt,
    "exclusiveMinimum": operator.le,
    "exclusiveMaximum": operator.ge,
}
"""For each keyword of JSON Schemas that bounds numbers: whether a number is outside of a bound."""


@dataclass(frozen=True)
class Part:
    """A part of a document."""

    type: str | None = None  # its type in JSON; None for any
    text: str = ""
    told: str = ""
    source: str = ""
    is_required: bool = True
    default: Any = None  # the value where there is none
    is_nullable: bool = False
    keys: Mapping[str, "Part"] = field(default_factory=dict)  # the parts of an object, by key
    items: "Part | None" = None
    allowed: Mapping[str, Any] = field(default_factory=dict)  # other keywords of its JSON Schema

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
        """Whether an object may have no other keys than `keys`: if none of these is required."""
        return not any(each.is_required for each in self.keys.values())

    def json(self, value: Any) -> Any:
        """Return its value as `json.dumps` takes it. Raises ValueError unless it is as declared."""
        if value is None:
            # A part without a type may be anything, and so null.
            if self.is_nullable or self.type is None:
                return None
            raise ValueError(f"{self.source} is None")
        if self.keys:
            sources = value if isinstance(value, Sources) else Sources([value])
            return dict(self._values_by_key(sources))
        if self.type == "array" and self.items is not None:
            return [self.items.json(item) for item in value]
        if self.type == "object":
            return dict(value)
        # JSON has a ratio of 1 as 1.0, computed or given, so that files compare as bytes.
        if self.type == "number":
            value = float(value)
        for keyword, bound in self.allowed.items():
            if keyword in _IS_OUTSIDE and _IS_OUTSIDE[keyword](value, bound):
                raise ValueError(f"{self.source}={value}: {keyword} is {bound}")
        return value

    def _values_by_key(self, sources: "Sources") -> Iterator[tuple[str, Any]]:
        """Yield (key, JSON value) for each declared key that one of the sources has."""
        # If no key is required, a key that is misspelt in a source would only seem to be missing.
        if self.is_closed:
            for record in sources:
                if isinstance(record, Mapping) and (unknown := record.keys() - set(self.keys)):
                    raise ValueError(f"not declared: {', '.join(sorted(unknown))}")
        for name, part in self.keys.items():
            value = sources.get(name, part.source)
            if value is not MISSING:
                yield name, part.json(value)
            elif part.is_required:
                raise ValueError(f"no source has {name}")


class Sources(tuple[Any, ...]):
    """Several records as one: the first that has a key wins."""

    def get(self, name: str, source: str) -> Any:
        """Return the value of a key; `MISSING` where there is none."""
        for record in self:
            if isinstance(record, Mapping):
                value = record.get(name, MISSING)
            else:
                value = record
                for attribute in source.split("."):
                    value = None if value is None else getattr(value, attribute, MISSING)
            if value is not MISSING:
                return value
        # SAME marks an object that no record holds: its own keys are taken from these records.
        return self if source == SAME else MISSING


def _parts(annotation: Any) -> Part:
    """Return the part that a type describes, with the parts below it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        # The metadata are `Allowed`s: pairs of a keyword of a JSON Schema and its value.
        keywords = dict(chain.from_iterable(annotation.__metadata__))
        return replace(parts(arguments[0]), allowed=keywords)
    if annotation == int | float:  # a part without a type stays as it is: 5 does not become 5.0
        return Part()
    if origin in (Union, types.UnionType):  # a type, or None
        not_null, *others = (parts(each) for each in arguments if each is not types.NoneType)
        assert not others, f"{annotation}: only a type or null can be told apart in a document"
        return replace(not_null, is_nullable=True)
    if origin in (list, tuple):
        return Part("array", items=parts(arguments[0]))
    if origin in (dict, Mapping):
        return Part("object", items=parts(arguments[1]))  # the keys are any texts
    if is_dataclass(annotation):
        # The docstring of a record with options is for help pages: documents describe each option.
        documented = "" if options_of(annotation) else cleandoc(annotation.__doc__ or "")
        text = documented.partition("\n\nExample:")[0]
        return Part("object", text=text, keys=_parts_by_key(annotation))
    return Part(_TYPES.get(annotation))


parts: Callable[[Any], Part] = cache(_parts)  # mypy does not take a dataclass for hashable


def _field_parts(record: Any) -> Iterator[tuple[str, Part]]:
    """Yield (key, part) for each field of a record that documents have."""
    # Of a record that people set, documents have the fields that are options.
    options = options_of(record)  # by the name of their field; empty for any other record
    for each in fields(record):
        sentence, source = each.metadata.get("told", ""), each.metadata.get("of") or each.name
        # `untold` gives None as the sentence of a field that documents do not have.
        if sentence is None or (options and each.name not in options):
            continue
        part = replace(parts(each.type), told=sentence, source=source)
        if options:
            option = options[each.name]
            allowed: dict[str, Any] = {"enum": tuple(option.values)} if option.values else {}
            if part.type == "integer":
                allowed["minimum"] = option.least
            part = replace(part, told=option.told, allowed=allowed)
        # A `Record` always has all of its fields; the sources of a `Document` may lack one.
        elif each.default is not MISSING and not issubclass(record, Record):
            part = replace(part, is_required=False, default=each.default)
        yield each.metadata.get("key") or each.name, part


def _parts_by_key(record: Any) -> dict[str, Part]:
    """Return the parts of a record by key, in the sequence of its document."""
    pairs = list(_field_parts(record))
    for name, member in vars(record).items():
        getter: Any = member.fget if isinstance(member, property) else None
        # `told_of` has put told, after and key on the getter.
        if hasattr(getter, "told"):
            part = replace(parts(getter.__annotations__["return"]), told=getter.told, source=name)
            keys = [key for key, _ in pairs]
            index = keys.index(getter.after) + 1 if getter.after else len(pairs)
            pairs.insert(index, (getter.key or name, part))
    return dict(pairs)

"""Paths into nested records: where the samples of a file are, and columns inside of objects."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from batchstat.errors import OptionError
from batchstat.words import short

EACH = "[]"  # the step from a list to each of its elements, or from an object to each of its values
_ABSENT = object()
_MOST_STEPS = 20


def steps_of(path: str) -> list[str]:
    """Return the keys and `EACH`s of a path such as `data[].paragraphs[]`. Raises OptionError."""
    steps: list[str] = []
    for part in path.split("."):
        key = part.rstrip("[]")
        lists = part[len(key) :]
        is_first = not steps
        if lists.replace(EACH, "") or (not key and not (is_first and lists)):
            raise OptionError(
                f"records={short(path)}",
                "must be keys with dots between them, and [] behind "
                "those of lists, as in data[].paragraphs[].qas[]",
            )
        steps += [key] if key else []
        steps += [EACH] * (len(lists) // len(EACH))
    steps += [] if steps[-1] == EACH else [EACH]
    if len(steps) > _MOST_STEPS:
        raise OptionError(f"records={short(path)}: has more than {_MOST_STEPS} steps")
    return steps


def expanded(value: object, steps: Sequence[str]) -> Iterator[object]:
    """Yield the records at the end of steps from a value, with the columns of objects around it."""
    if not steps:
        yield value
        return
    step, later = steps[0], steps[1:]
    if step == EACH:
        elements: Iterable[object] = value if isinstance(value, list) else ()
        for element in value.values() if isinstance(value, dict) else elements:
            yield from expanded(element, later)
    elif isinstance(value, dict) and step in value:
        around = {key: item for key, item in value.items() if key != step}
        for record in expanded(value[step], later):
            record = as_record(record)
            yield {**around, **record} if isinstance(record, dict) else record


def as_record(value: object) -> object:
    """Return a list as an object with the columns 0, 1, …, and a text as one with `text`."""
    if isinstance(value, list):
        return {str(i): item for i, item in enumerate(value)}
    return {"text": value} if isinstance(value, str) else value


def with_nested(record: Any, names: Sequence[str]) -> Any:
    """Return a record with its columns of these names inside of objects, such as `data.text`."""
    if not isinstance(record, dict):
        return record
    found = {name: nested(record, name, _ABSENT) for name in names if name not in record}
    found = {name: value for name, value in found.items() if value is not _ABSENT}
    return {**record, **found} if found else record


def nested(value: Any, name: str, otherwise: object = None) -> Any:
    """Return the value at the end of a dotted name; `otherwise` if there is none."""
    for key in name.split("."):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        else:
            return otherwise
    return value


@dataclass(frozen=True)
class Inside:
    """What is inside of the objects and lists of a record, as far as a message names it."""

    texts: Sequence[str] = ()
    words: Sequence[str] = ()
    chats: Sequence[str] = ()
    lists: Sequence[str] = ()
    may_be_alpaca: bool = False


NOTHING_INSIDE = Inside()  # of a file without nested columns


def inside_of(record: dict[str, Any], path: str) -> Inside:
    """Return what is inside of a record, down to three levels of its first keys."""
    first = list(record.items())[:_SHOWN]
    lists = [(name, value[0]) for name, value in first if isinstance(value, list) and value]
    return Inside(
        texts=[f"{name}.{path}" for name, value in first for path in _texts_in(value, 2)],
        words=[name for name, element in lists if isinstance(element, str)],
        chats=[name for name, element in lists if _is_message(element)],
        lists=[
            f"{path}.{name}".strip(".")
            for name, element in lists
            if isinstance(element, dict) and not _is_message(element)
        ],
        may_be_alpaca={"instruction", "output"} <= record.keys(),
    )


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and bool({"role", "from"} & value.keys())


def _texts_in(value: object, depth: int) -> Iterator[str]:
    for name, item in list(value.items())[:_SHOWN] if isinstance(value, dict) and depth else ():
        if isinstance(item, str):
            yield name
        yield from (f"{name}.{path}" for path in _texts_in(item, depth - 1))


_SHOWN = 20  # keys of an object that are looked at for messages

"""Numbers of a report by their JSON path, such as `strategy.padding_ratio`: keys separated by dots;
`[3]` selects an element of a list, `[label=spam]` the one with that value (in quotes if it contains
brackets or quotes), `[label=null]` the one without. What a report declares decides before anything
is counted which numbers there are.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from batchstat.documents.parts import Kind, Part, parts
from batchstat.errors import InputError, OptionError, unknown
from batchstat.gate.quantities import Number

_QUOTED = r'"(?:[^"\\]|\\.)*"'  # a string as JSON writes it
_STEP = re.compile(rf"\.?(\w+)|\[(\d+)\]|\[(\w+)=({_QUOTED}|.*?)\](?=[.\[]|$)", re.DOTALL)

_ON_DEVICE = {
    "strategy.seconds": "a calibration that has times with --calibration",
    "strategy.peak_bytes": "a calibration that has memory with --calibration",
    "strategy.cost": "a calibration that has times with --calibration, and --cost-per-hour",
    "strategy.rank_idle_time": "a calibration that has times with --calibration",
}
"""Numbers that need a calibrated device, with what to name."""

Step = str | int | tuple[str, str]
"""A step of a path: a key; the place of an element; or a key of elements, and the value wanted."""


def kind_at(path: str) -> Kind:
    """Return the kind of number that is declared at a path. Raises OptionError if none is."""
    part: Part | None = _declared()
    for step in _steps(path):
        part = None if part is None else _part_below(part, step)
    if part is None:
        raise unknown("number of the report", path, [name for name, _ in numbers()])
    if part.kind is None:
        raise OptionError(f"{path} is not a number in the report")
    return part.kind


def numbers() -> Iterator[tuple[str, Kind]]:
    """Yield every number of a report, with its path; `[]` for the elements of a list."""
    yield from _numbers(_declared(), "")


def _declared() -> Part:
    from batchstat.documents.comparison import Report  # which a command without limits needs not

    return parts(Report)


def _numbers(part: Part, path: str) -> Iterator[tuple[str, Kind]]:
    """Yield the numbers in a part of a report, to which a path leads."""
    if part.kind is not None:
        yield path, part.kind
    for name, part_below in part.keys.items():
        yield from _numbers(part_below, f"{path}.{name}" if path else name)
    if part.items is not None:
        yield from _numbers(part.items, f"{path}[]")


def value_at(report: Mapping[str, Any], path: str) -> Number:
    """Return the number at a path of a report. Raises InputError where the report has none."""
    value: Any = report
    part: Part | None = _declared()
    for step in _steps(path):
        # Both go one step down: `part` in what the report declares, `value` in what it holds.
        part = None if part is None else _part_below(part, step)
        value = _element(value, step)
        # A report leaves out some defaults: a reason of skipping that did not occur is 0.
        if value is None and part is not None:
            value = part.default
        if value is None:
            raise InputError(f"the report has no {path}", _hint(path))
    return cast(Number, value)


def _hint(path: str) -> str:
    """Return why a report may not have the number at a path, and what to do."""
    if path.startswith("class"):
        return "was a label column read?"
    if path in _ON_DEVICE:
        return f"name {_ON_DEVICE[path]}"
    if "trained" in path:
        return (
            "which tokens are trained is unknown, or their loss; profile the corpus with "
            "--prompt-column and --completion-column, --assistant-only-loss or --trained-column, "
            "or pass --loss to take all tokens as trained"
        )
    return ""


def _steps(path: str) -> list[Step]:
    """Divide a path into steps: `a[b=c].d` into `a`, `(b, c)` and `d`. Raises OptionError."""
    steps: list[Step] = []
    start = 0
    while start < len(path):
        match = _STEP.match(path, start)
        # A step may begin with a dot, but not the first one.
        if match is None or (path[start] == "." and start == 0):
            raise OptionError(f"{path!r} is not a path", "write keys separated by dots")
        # A match has a key (`strategy`), an index (`[3]`), or a name and a value (`[label=spam]`).
        key, index, name, wanted = match.groups()
        element: Step = int(index) if index else (name, wanted)
        steps.append(key or element)
        start = match.end()
    return steps


def _part_below(part: Part, step: Step) -> Part | None:
    """Return what a report declares one step below a part; None if nothing."""
    if isinstance(step, str):
        return part.keys.get(step)
    element = part.items  # the one declaration of all elements of a list; None for other parts
    if element is None or isinstance(step, int):
        return element
    key, _ = step  # `[label=spam]`: the elements must have the key
    return element if key in element.keys else None


def _element(value: Any, step: Step) -> Any:
    """Return what a report holds one step below an object or a list; None if nothing."""
    if isinstance(step, str):
        return value.get(step)
    if isinstance(step, int):
        return value[step] if step < len(value) else None
    # The first element whose key has this value, such as the class with a label.
    key, wanted = step
    if wanted == "null":
        return next((element for element in value if element[key] is None), None)
    if re.fullmatch(_QUOTED, wanted, re.DOTALL):
        # It may hold a line end as it is, which JSON would have escaped.
        wanted = json.loads(wanted, strict=False)
    # str(None) must not be taken for the text "None".
    not_null = (element for element in value if element[key] is not None)
    return next((element for element in not_null if str(element[key]) == wanted), None)

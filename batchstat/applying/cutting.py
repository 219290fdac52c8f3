"""Cuts the columns at the end of a batch that are padding in every row."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_DEPTH = 3  # levels of mappings and sequences, one in another, that are looked into
COUNTING = "counting"  # instead of a value of padding: positions, each one more than that before


class UnknownError(Exception):
    """A batch holds something other than padding where columns would be cut, or another shape."""


@dataclass(frozen=True)
class Width:
    """Arrays that are padded to one width: those of an encoder, say, or of chosen answers."""

    # (place, value of padding) of the arrays that tell where the padding begins. A place leads to
    # an array: `("inputs", 0)` is `batch["inputs"][0]`.
    ends: tuple[tuple[tuple[Any, ...], float], ...]
    # For each array, by its place: the axes that have this width.
    axes: dict[tuple[Any, ...], tuple[int, ...]]
    # For each array: the values that stand where columns may be cut, or `COUNTING`.
    values: dict[tuple[Any, ...], tuple[Any, ...]]
    floor: int = 1  # no batch is cut below this

    def kept(self, arrays: Mapping[tuple[Any, ...], Any], multiple: int) -> tuple[int, int]:
        """Return (columns of a batch, columns that are kept). Raises UnknownError."""
        width, last = 0, 0
        for place, value in self.ends:
            if place not in arrays:
                raise UnknownError("an array that tells padding is missing")
            array = arrays[place]
            width = int(array.shape[-1])
            last = max(last, *row_lengths(array, value))
        kept = -(-max(last, self.floor, 1) // multiple) * multiple
        return width, min(kept, width)

    def cut(
        self, arrays: Mapping[tuple[Any, ...], Any], width: int, kept: int
    ) -> dict[tuple[Any, ...], Any]:
        """Return the arrays of this width with the first `kept` columns. Raises UnknownError where
        others are not padding.
        """
        found = {}
        for place, axes in self.axes.items():
            if place not in arrays:
                continue
            array = arrays[place]
            if any(axis >= array.ndim or array.shape[axis] != width for axis in axes):
                raise UnknownError("%s has another shape" % named(place))
            if tail_value(array, axes, kept) not in self.values[place]:
                raise UnknownError("%s does not end in padding" % named(place))
            found[place] = narrowed(array, axes, kept)
        return found


@dataclass(frozen=True)
class Cut:
    """How the batches of a loader are cut."""

    widths: tuple[Width, ...]
    multiple: int = 1  # to which a width is rounded up

    def __call__(self, data: Any) -> tuple[Any, int, int]:
        """Return (a batch without the padding at its end, its tokens before, its tokens now).
        Raises UnknownError for a batch that is not as those of the dry run were.
        """
        arrays = dict(arrays_by_place(data))
        new: dict[tuple[Any, ...], Any] = {}
        before = after = 0
        for each in self.widths:
            width, kept = each.kept(arrays, self.multiple)
            rows = int(arrays[each.ends[0][0]].shape[0])
            before, after = before + rows * width, after + rows * kept
            if kept < width:
                new.update(each.cut(arrays, width, kept))
        return (replaced(data, new) if new else data), before, after


def named(place: tuple[Any, ...]) -> str:
    """Return the name of a place for an error."""
    return ".".join(map(str, place)) or "the batch"


def row_lengths(array: Any, value: float) -> list[int]:
    """Return up to which column each row of an array has another value than this one."""
    import torch

    is_other = (array != value).reshape(array.shape[0], -1)
    lengths: list[int] = (is_other * torch.arange(1, is_other.shape[1] + 1)).amax(1).tolist()
    return lengths


def narrowed(array: Any, axes: tuple[int, ...], kept: int) -> Any:
    """Return an array with its first `kept` places of these axes, in memory of its own: some models
    ask for that, as T5, which calls `labels.view(-1)`.
    """
    for axis in axes:
        array = array.narrow(axis, 0, kept)
    return array.contiguous()


def tail_value(array: Any, axes: tuple[int, ...], kept: int) -> Any:
    """Return the value that an array has wherever it would be cut, `COUNTING`, or None for several
    values. Of a mask of pairs, what the columns that stay do not see.
    """
    # Rows of padding that attend to something go whatever they hold: nothing reads them.
    rest = narrowed(array, axes[:-1], kept)
    axis = axes[-1]
    tail = rest.narrow(axis, kept, array.shape[axis] - kept)
    if not tail.numel():
        return None
    first = tail.reshape(-1)[0]
    if bool((tail == first).all()):
        return first.item()
    before = rest.narrow(axis, kept - 1, array.shape[axis] - kept)
    return COUNTING if not tail.is_floating_point() and bool((tail == before + 1).all()) else None


def arrays_by_place(
    data: Any, place: tuple[Any, ...] = (), anywhere: bool = False
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the tensors in a batch of mappings, sequences and data classes, each with its place:
    those of the processor, or `anywhere`.
    """
    if hasattr(data, "is_floating_point"):  # a tensor of torch
        if data.layout == _strided() and (anywhere or data.device.type == "cpu"):
            yield place, data
    elif len(place) <= MOST_DEPTH:
        for key, item in _items(data):
            yield from arrays_by_place(item, (*place, key), anywhere)


def _strided() -> Any:
    import torch

    return torch.strided


def _items(data: Any) -> list[tuple[Any, Any]]:
    if isinstance(data, Mapping):
        return list(data.items())
    if isinstance(data, (list, tuple)):
        return list(enumerate(data))
    # Data classes only: every other object of a script has a __dict__, too.
    return list(vars(data).items()) if hasattr(data, "__dataclass_fields__") else []


def replaced(data: Any, new: Mapping[tuple[Any, ...], Any], place: tuple[Any, ...] = ()) -> Any:
    """Return a batch with other arrays at some places. What holds them is copied: a data set may
    hand out batches that it keeps.
    """
    if place in new:
        return new[place]
    if not any(each[: len(place)] == place for each in new):
        return data
    items = [(key, replaced(item, new, (*place, key))) for key, item in _items(data)]
    if hasattr(data, "_fields"):  # a namedtuple
        return type(data)(*(item for _, item in items))
    if isinstance(data, (list, tuple)):
        return type(data)(item for _, item in items)
    changed = copy.copy(data)
    for key, item in items:
        if isinstance(data, Mapping):
            changed[key] = item
        else:  # a data class, which may be frozen
            object.__setattr__(changed, key, item)
    return changed


def to_json(cut: Cut) -> dict[str, Any]:
    """Return a cut as JSON has it."""
    return {"multiple": cut.multiple, "widths": [_width_to_json(each) for each in cut.widths]}


def _width_to_json(width: Width) -> dict[str, Any]:
    return {
        "ends": [[list(place), value] for place, value in width.ends],
        "axes": [[list(place), list(axes)] for place, axes in width.axes.items()],
        "values": [[list(place), list(values)] for place, values in width.values.items()],
        "floor": width.floor,
    }


def from_json(cut: Mapping[str, Any]) -> Cut:
    """Return a cut that `to_json` wrote."""
    widths = [
        Width(
            ends=tuple((tuple(place), value) for place, value in each["ends"]),
            axes={tuple(place): tuple(axes) for place, axes in each["axes"]},
            values={tuple(place): tuple(values) for place, values in each["values"]},
            floor=each["floor"],
        )
        for each in cut["widths"]
    ]
    return Cut(tuple(widths), cut["multiple"])

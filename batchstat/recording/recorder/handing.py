"""How a loop hands the batches of its loader to its model, learnt from batches that it computed: so
are those read that it does not compute in a dry run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .read_batches import ReadBatch
from .reading import token_ids

_WAYS: dict[str, Any] = {
    "whole": lambda array, _: array,
    "first": lambda array, fewer: array[:, : array.shape[1] - fewer],
    "last": lambda array, fewer: array[:, fewer:],
    "turned": lambda array, _: array.T,
}
"""What of an array a loop hands on: a model of language is often given all tokens but the last."""


class Handing:
    """The arguments of the forwards of a batch, as places in what a loader hands out.

    A loop takes batches apart (`model(*batch)`, labels left out), may cut a column off, and may
    make a mask by itself. A forward of which the token ids are found nowhere is not explained.
    """

    def __init__(self) -> None:
        """Begin without knowing any."""
        self._forwards: list[dict[tuple[Any, ...], tuple[Any, ...]]] = []
        self._pad_token_id: Any = None
        self._by = ""

    @property
    def is_known(self) -> bool:
        """Whether the last batch that was computed is explained."""
        return bool(self._forwards)

    def learn(self, computed: Sequence[tuple[list[ReadBatch], Any]], data: Any) -> bool:
        """Learn from a batch that was computed; return whether it is explained.

        Args:
            computed: of each forward, what it computes, and the arrays that it was given, by their
                names.
            data: what the loader handed out.
        """
        handed_out = dict(_arrays(data))
        self._forwards = []
        forwards = []
        for parts, arguments in computed:
            computed_arrays = dict(_arrays(arguments))
            places = dict(_places_of(computed_arrays, handed_out))
            is_found = {id(computed_arrays[name]) for name in places}
            if id(token_ids(arguments)) not in is_found:
                return False
            # A mask that is found nowhere is the loop's own: what it leaves out is padding.
            for read in parts if len(places) < len(computed_arrays) else ():
                if read.keep is not None and read.ids is not None:
                    padding = set(read.ids[~read.keep].reshape(-1).tolist())
                    if len(padding) == 1:
                        self._pad_token_id, self._by = padding.pop(), read.by
            forwards.append(places)
        self._forwards = forwards
        return True

    def read(self, data: Any, model: Any) -> list[ReadBatch]:
        """Return what the forwards of a batch would compute of what a loader hands out."""
        handed_out = dict(_arrays(data))
        parts: list[ReadBatch] = []
        for places in self._forwards:
            arguments: dict[Any, Any] = {}
            for name, (place, way, fewer) in places.items():
                if place not in handed_out:
                    continue
                inner = arguments
                for each in name[:-1]:
                    inner = inner.setdefault(each, {})
                inner[name[-1]] = _WAYS[way](handed_out[place], fewer)
            parts += model.read(arguments, self._pad_token_id)
        if self._by:
            for read in parts:
                read.by = self._by
        return parts


def _places_of(
    arguments: dict[tuple[Any, ...], Any], handed_out: dict[tuple[Any, ...], Any]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield each argument that is found, with its place, and what of it is handed on."""
    for name, array in arguments.items():
        # Its own name first: labels of a causal model are often equal to its token ids.
        for place in [name] * (name in handed_out) + list(handed_out):
            way = _way_of(array, handed_out[place])
            if way is not None:
                yield name, (place, *way)
                break


def _way_of(array: Any, other: Any) -> tuple[str, int] | None:
    """Return what of another array an array is; None if it is none of it."""
    shape, whole = tuple(array.shape), tuple(other.shape)
    if shape == whole and bool((array == other).all()):
        return "whole", 0
    if len(shape) != 2 or len(whole) != 2:
        return None
    fewer = whole[1] - shape[1]
    for way in ("first", "last", "turned"):
        if way != "turned" and not (shape[0] == whole[0] and 0 < fewer < whole[1]):
            continue
        part = _WAYS[way](other, fewer)
        if tuple(part.shape) == shape and bool((array == part).all()):
            return way, fewer
    return None


def _arrays(nested: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the arrays in mappings and sequences, each with its place."""
    if isinstance(nested, dict):
        for key, each in nested.items():
            yield from _arrays(each, (*place, key))
    elif isinstance(nested, list):
        for number, each in enumerate(nested):
            yield from _arrays(each, (*place, number))
    elif nested is not None:
        yield place, nested

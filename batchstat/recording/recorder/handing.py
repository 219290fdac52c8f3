"""How a loop hands the batches of its loader to its model.

A dry run learns it from the first batches, which are computed, and reads the others by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .read_batches import ReadBatch
from .reading import token_ids

_CHANGES: dict[str, Any] = {
    "whole": lambda array, _: array,
    "first": lambda array, cut_columns: array[:, : array.shape[1] - cut_columns],
    "last": lambda array, cut_columns: array[:, cut_columns:],
    "turned": lambda array, _: array.T,
}
"""How a loop changes an array of its loader before it is an argument of the model: `cut_columns`
are cut off. A language model is often given all tokens but the last ("first").
"""


class Handing:
    """For each forward of a batch, which array of the loader's batch each of its arguments is.

    A loop takes batches apart (`model(*batch)`, labels left out), may cut a column off, and may
    make a mask by itself. A forward whose token ids are not in the loader's batch is not explained.

    A place is the keys and indices that lead to an array: `("inputs", 0)` is
    `batch["inputs"][0]`.
    """

    def __init__(self) -> None:
        """Begin without knowing any."""
        # For each forward: place of an argument -> its place in the batch, change, cut_columns.
        self._forwards: list[dict[tuple[Any, ...], tuple[Any, ...]]] = []
        # The padding id, learnt from a mask that the loop made, and `ReadBatch.by` of the batch
        # that had this mask.
        self._pad_token_id: Any = None
        self._by = ""

    @property
    def is_known(self) -> bool:
        """Whether the last batch that was computed is explained."""
        return bool(self._forwards)

    def learn(self, computed: Sequence[tuple[list[ReadBatch], Any]], data: Any) -> bool:
        """Learn from a batch that was computed; return whether it is explained.

        Args:
            computed: for each forward, what it computes, and the arrays that it was given, by the
                names of its arguments.
            data: the loader's batch that it may come from.
        """
        handed_out = dict(_arrays(data))
        self._forwards = []
        forwards = []
        for parts, arguments in computed:
            computed_arrays = dict(_arrays(arguments))
            places = dict(_found_places(computed_arrays, handed_out))
            # Arrays are told apart by `id`: `token_ids` returns one of the arguments themselves.
            explained_arrays = {id(computed_arrays[argument_place]) for argument_place in places}
            if id(token_ids(arguments)) not in explained_arrays:
                # Not this loader's batch, or changed in a way that is not known. `_forwards` stays
                # empty: nothing is known until a batch is explained.
                return False
            # An argument that is not in the loader's batch may be a mask that the loop made. If the
            # tokens that it calls padding are all one id, that id marks the padding of later
            # batches, for which the loop makes no mask.
            maybe_masked_by_loop = parts if len(places) < len(computed_arrays) else []
            for read in maybe_masked_by_loop:
                if read.keep is not None and read.ids is not None:
                    padding = set(read.ids[~read.keep].reshape(-1).tolist())
                    if len(padding) == 1:
                        self._pad_token_id, self._by = padding.pop(), read.by
            forwards.append(places)
        self._forwards = forwards
        return True

    def read(self, data: Any, model: Any) -> list[ReadBatch]:
        """Return what the forwards would compute of a batch that was only read, by what was learnt.

        Args:
            data: the loader's batch.
            model: the `Model` that computed the batches before.
        """
        handed_out = dict(_arrays(data))
        parts: list[ReadBatch] = []
        for places in self._forwards:
            # The arguments of the forward, built again: ("inputs", 0) is arguments["inputs"][0].
            arguments: dict[Any, Any] = {}
            for argument_place, (place, change, cut_columns) in places.items():
                if place not in handed_out:  # an array that this batch does not have
                    continue
                inner = arguments
                for key in argument_place[:-1]:
                    inner = inner.setdefault(key, {})
                inner[argument_place[-1]] = _CHANGES[change](handed_out[place], cut_columns)
            parts += model.read(arguments, self._pad_token_id)
        # The loop's own mask told the padding of the computed batches: these are the same kind.
        if self._by:
            for read in parts:
                read.by = self._by
        return parts


def _found_places(
    arguments: dict[tuple[Any, ...], Any], handed_out: dict[tuple[Any, ...], Any]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield each argument that comes from the loader's batch: its place among the arguments, and
    (its place in the batch, change, cut_columns).
    """
    for argument_place, array in arguments.items():
        # The same place first, if the batch has it: labels of a causal model often equal its token
        # ids, so that several arrays may fit. A list times True is that list, times False is empty.
        for place in [argument_place] * (argument_place in handed_out) + list(handed_out):
            change = _change_of(array, handed_out[place])
            if change is not None:
                yield argument_place, (place, *change)
                break


def _change_of(array: Any, loader_array: Any) -> tuple[str, int] | None:
    """Return the change (of `_CHANGES`) and the cut columns that make an argument, `array`, of an
    array of the loader; None if it does not come from that.
    """
    # Sizes of the argument, and of the whole array that it may be a part of.
    shape, whole = tuple(array.shape), tuple(loader_array.shape)
    if shape == whole and bool((array == loader_array).all()):
        return "whole", 0
    if len(shape) != 2 or len(whole) != 2:  # only rows of tokens are cut or turned
        return None
    cut_columns = whole[1] - shape[1]  # "turned" does not use it
    for change in ("first", "last", "turned"):
        # A cut leaves all rows, and at least one column.
        if change != "turned" and not (shape[0] == whole[0] and 0 < cut_columns < whole[1]):
            continue
        changed = _CHANGES[change](loader_array, cut_columns)
        if tuple(changed.shape) == shape and bool((array == changed).all()):
            return change, cut_columns
    return None


def _arrays(nested: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the arrays in nested dictionaries and lists, each with its place."""
    if isinstance(nested, dict):
        for key, item in nested.items():
            yield from _arrays(item, (*place, key))
    elif isinstance(nested, list):
        for number, item in enumerate(nested):
            yield from _arrays(item, (*place, number))
    elif nested is not None:  # an item that is no array of whole numbers was replaced by None
        yield place, nested

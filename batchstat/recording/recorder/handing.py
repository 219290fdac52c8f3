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
        # The padding id, learnt from a mask that the loop made, and the `padding_source` of the
        # computed batch that had this mask.
        self._pad_token_id: Any = None
        self._padding_source = ""

    @property
    def is_known(self) -> bool:
        """Whether the last batch that was computed is explained."""
        return bool(self._forwards)

    def learn(self, computed: Sequence[tuple[list[ReadBatch], Any]], data: Any) -> bool:
        """Learn from the forwards that computed a batch; return whether their token ids come from
        the loader's batch, so that they are explained. If not, nothing is known any more.

        Args:
            computed: for each forward, what it computes, and the arrays that it was given, by the
                names of its arguments.
            data: the loader's batch that it may come from.
        """
        loader_arrays = dict(_arrays_by_place(data))
        self._forwards = []
        forwards = []
        for parts, arguments in computed:
            given_arrays = dict(_arrays_by_place(arguments))
            origins = dict(_origins(given_arrays, loader_arrays))
            # Arrays are told apart by `id`: `token_ids` returns one of the arguments themselves.
            explained_arrays = {id(given_arrays[place]) for place in origins}
            if id(token_ids(arguments)) not in explained_arrays:
                return False
            if len(origins) < len(given_arrays):
                self._learn_padding(parts)
            forwards.append(origins)
        self._forwards = forwards
        return True

    def _learn_padding(self, parts: list[ReadBatch]) -> None:
        """Learn which id pads from what a forward computes with a mask that the loop may have made:
        later batches are only read, so that the loop makes no mask for them.
        """
        for part in parts:
            if part.real_mask is not None and part.ids is not None:
                padding = set(part.ids[~part.real_mask].reshape(-1).tolist())
                if len(padding) == 1:  # else the mask does not mark the padding alone
                    self._pad_token_id, self._padding_source = padding.pop(), part.padding_source

    def read(self, data: Any, model: Any) -> list[ReadBatch]:
        """Return what the forwards would compute of a batch that was only read, by what was learnt.

        Args:
            data: the loader's batch.
            model: the `Model` that computed the batches before.
        """
        loader_arrays = dict(_arrays_by_place(data))
        parts: list[ReadBatch] = []
        for origins in self._forwards:
            # The arguments of the forward, built again: ("inputs", 0) is arguments["inputs"][0].
            arguments: dict[Any, Any] = {}
            for argument_place, (place, change, cut_columns) in origins.items():
                if place not in loader_arrays:  # an array that this batch does not have
                    continue
                container = arguments  # the innermost dictionary around the argument
                for key in argument_place[:-1]:
                    container = container.setdefault(key, {})
                container[argument_place[-1]] = _CHANGES[change](loader_arrays[place], cut_columns)
            parts += model.read(arguments, self._pad_token_id)
        # The loop's own mask told the padding of the computed batches: these are the same kind.
        if self._padding_source:
            for part in parts:
                part.padding_source = self._padding_source
        return parts


def _origins(arguments: dict[Any, Any], loader_arrays: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield, for each argument that comes from the loader's batch, its place among the arguments,
    and its origin: (its place in the batch, change, cut_columns).
    """
    for argument_place, array in arguments.items():
        # The same place first: labels of a causal model often equal its token ids, so that several
        # arrays may fit. (False sorts before True, and sorting keeps the sequence of the others.)
        for place in sorted(loader_arrays, key=lambda place: place != argument_place):
            change = _change_between(loader_arrays[place], array)
            if change is not None:
                yield argument_place, (place, *change)
                break


def _change_between(loader_array: Any, argument: Any) -> tuple[str, int] | None:
    """Return the change (of `_CHANGES`) and the number of cut columns that make an argument of an
    array of the loader; None if no change does.
    """
    from_shape, to_shape = tuple(loader_array.shape), tuple(argument.shape)
    if from_shape == to_shape and bool((loader_array == argument).all()):
        return "whole", 0
    if len(from_shape) != 2 or len(to_shape) != 2:  # only rows of tokens are cut or turned
        return None
    cut_columns = from_shape[1] - to_shape[1]  # "turned" does not use it
    # A cut leaves all rows, and at least one column.
    may_be_cut = from_shape[0] == to_shape[0] and 0 < cut_columns < from_shape[1]
    for change in ("first", "last", "turned") if may_be_cut else ("turned",):
        changed = _CHANGES[change](loader_array, cut_columns)
        if tuple(changed.shape) == to_shape and bool((changed == argument).all()):
            return change, cut_columns
    return None


def _arrays_by_place(nested: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield the arrays in nested dictionaries and lists, each with its place, as (place, array)."""
    if isinstance(nested, dict):
        for key, item in nested.items():
            yield from _arrays_by_place(item, (*place, key))
    elif isinstance(nested, list):
        for number, item in enumerate(nested):
            yield from _arrays_by_place(item, (*place, number))
    elif nested is not None:  # None replaces an item that holds no whole numbers
        yield place, nested

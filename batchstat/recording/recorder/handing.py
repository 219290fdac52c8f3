"""How a loop hands the batches of its loader to its model, as the computed ones show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .read_batches import ReadBatch
from .reading import token_ids

if TYPE_CHECKING:
    from .forward import Forward

_SIDES: dict[str, tuple[int, Any]] = {
    "first": (1, lambda array, width: array[:, :width]),
    "last": (1, lambda array, width: array[:, array.shape[1] - width :]),
    "turned": (1, lambda array, _: array.T),
    "upper": (0, lambda array, length: array[:length]),
}
"""How a loop changes an array of its loader before it is an argument of the model, by the columns
that it keeps: a language model is often given the first ones, all tokens but the last. Where a
column is a sample, these are rows. With the axis of what is kept.
"""
_WIDTHS: dict[str, Any] = {
    "less": lambda width, _longest, number: max(width - number, 0),
    "to": lambda width, _longest, number: min(width, number),
    "longest": lambda _width, longest, _: longest,
    "half": lambda width, _longest, _: max(width // 2, 1),
}
"""How many columns of a batch are kept, by its width and the tokens of its longest row."""


class _Origin:
    """Where an argument of the model comes from: an array of the loader's batch, and its change. A
    place leads to an array: `("inputs", 0)` is `batch["inputs"][0]`.
    """

    def __init__(self, place: tuple[Any, ...], side: str, seen: list[tuple[int, int, int]]) -> None:
        """Find the rules by which all batches were cut, each (width, kept columns, longest row)."""
        self.place, self.side = place, side
        cut, most = max(each[0] - each[1] for each in seen), max(each[1] for each in seen)
        # One column less is what a language model predicts; more are rather cut off to a width.
        rules = [("less", cut), ("to", most)] if cut < 2 else [("to", most), ("less", cut)]
        fitting = [
            (rule, number)
            for rule, number in [*rules, ("longest", 0), ("half", 0)]
            if all(_WIDTHS[rule](width, longest, number) == kept for width, kept, longest in seen)
        ]
        # Batches that were cut to their longest row, or to half, may be so by chance: as long as
        # another rule fits too, it is open which one holds.
        self.rules = [each for each in fitting if each == fitting[0] or (cut and not each[1])]

    def part_of(self, array: Any, longest: Any) -> Any:
        """Return what the model is given of an array: all columns without `longest`; None where the
        computed batches leave open how it is cut.
        """
        if len(array.shape) != 2:
            return array
        axis, change = _SIDES[self.side]
        rules = self.rules if longest is not None else [("less", 0)]
        widths = {_WIDTHS[rule](array.shape[axis], longest, number) for rule, number in rules}
        # No loop cuts off all columns, but for the one that a language model predicts.
        is_open = len(widths) > 1 or (0 in widths and all(number > 1 for _, number in rules))
        return None if is_open else change(array, widths.pop())


def holds_ids(data: Any, forward: Forward) -> bool:
    """Return whether the token ids of a forward come from `data`, a batch of a loader."""
    ids = token_ids(forward.arrays)
    return any(_sides_between(array, ids) for _, array in _arrays_by_place(data))


class Handing:
    """For each forward of a batch, which array of the loader's batch each of its arguments is. A
    loop takes batches apart (`model(*batch)`, labels left out), may cut columns off, and may make a
    mask by itself. A forward whose token ids are not in the loader's batch is not explained.
    """

    def __init__(self) -> None:
        # Of each computed batch: that of the loader; and what each of its forwards computed.
        self._computed: list[tuple[Any, list[tuple[list[ReadBatch], Forward]]]] = []
        self.model: Any = None  # that computed them
        # For each forward: place of an argument -> its origin.
        self._forwards: list[dict[tuple[Any, ...], _Origin]] = []
        # The padding id, learnt from a mask that the loop made, and the `padding_source` of the
        # computed batch that had this mask.
        self._pad_token_id: Any = None
        self._padding_source = ""

    def learn(self, computed: list[tuple[list[ReadBatch], Forward]], data: Any) -> bool:
        """Note the forwards that computed a batch; return whether their token ids come from `data`,
        a batch of the loader, so that they are explained.
        """
        if not all(holds_ids(data, forward) for _, forward in computed):
            return False
        self._computed.append((data, computed))
        self.model = computed[0][1].model
        return True

    def settle(self) -> bool:
        """Find how batches are handed to the model; return whether that explains all of them."""
        n_forwards = {len(computed) for _, computed in self._computed}
        if len(n_forwards) > 1:
            return False
        self._forwards = [self._origins_of(index) for index in range(n_forwards.pop())]
        return all(
            _tokens_of(self.read(data) or [])
            == _tokens_of([part for parts, _ in computed for part in parts])
            for data, computed in self._computed
        )

    def _origins_of(self, index: int) -> dict[tuple[Any, ...], _Origin]:
        """Return the origin of each argument of a forward that has one in all computed batches."""
        # For each argument: the places and sides that fit in all batches in which it is given, with
        # the columns and kept columns of each of these batches, and its number.
        fitting: dict[Any, dict[tuple[Any, str], list[tuple[int, int, int]]]] = {}
        batches = []
        for number, (data, computed) in enumerate(self._computed):
            parts, forward = computed[index]
            loader_arrays = dict(_arrays_by_place(data))
            given = dict(_arrays_by_place(forward.arrays))
            batches.append((loader_arrays, parts, given))
            for place, argument in given.items():
                fits = {
                    (loader_place, side): (*columns, number)
                    for loader_place, array in loader_arrays.items()
                    for side, columns in _sides_between(array, argument).items()
                }
                before = fitting.get(place, {fit: [] for fit in fits})
                both = {fit: [*seen, fits[fit]] for fit, seen in before.items() if fit in fits}
                # The same place first: labels of a causal model often equal its token ids.
                same_place = {fit: seen for fit, seen in both.items() if fit[0] == place}
                fitting[place] = {**same_place, **both}
        whole = {
            place: _Origin(*next(iter(fits)), [(0, 0, 0)])
            for place, fits in fitting.items()
            if fits
        }
        for _, parts, given in batches:
            if not whole.keys() >= given.keys():
                self._learn_padding(parts)
        longest = [self._longest(whole, loader_arrays) for loader_arrays, _, _ in batches]
        origins: dict[tuple[Any, ...], _Origin] = {}
        for place, fitting_batches in fitting.items():
            for fit, seen in fitting_batches.items():
                origin = _Origin(*fit, [(width, kept, longest[n]) for width, kept, n in seen])
                if origin.rules:
                    origins.setdefault(place, origin)
        return origins

    def _learn_padding(self, parts: list[ReadBatch]) -> None:
        """Learn which id pads from a mask that the loop made: batches only read have none."""
        for part in parts:
            if part.real_mask is not None and part.ids is not None:
                padding = set(part.ids[~part.real_mask].reshape(-1).tolist())
                if len(padding) == 1:  # else the mask does not mark the padding alone
                    self._pad_token_id, self._padding_source = padding.pop(), part.padding_source

    def read(self, data: Any) -> list[ReadBatch] | None:
        """Return what would be computed of a loader's batch; None if it is open how it is cut."""
        loader_arrays = dict(_arrays_by_place(data))
        parts: list[ReadBatch] = []
        for origins in self._forwards:
            arguments = _arguments(origins, loader_arrays, self._longest(origins, loader_arrays))
            if arguments is None:
                return None
            parts += self.model.read(arguments, self._pad_token_id)
        # The loop's own mask told the padding of the computed batches: these are the same kind.
        if self._padding_source:
            for part in parts:
                part.padding_source = self._padding_source
        return parts

    def read_whole(self, data: Any) -> list[ReadBatch]:
        """Return what would be computed of a loader's batch if the loop cut none off."""
        loader_arrays = dict(_arrays_by_place(data))
        arguments = [_arguments(origins, loader_arrays, None) for origins in self._forwards]
        return [p for each in arguments for p in self.model.read(each, self._pad_token_id)]

    def _longest(self, origins: Mapping[Any, _Origin], loader_arrays: Any) -> int:
        parts = self.model.read(_arguments(origins, loader_arrays, None), self._pad_token_id)
        # Without any, nothing tells padding: no row is shorter than its batch.
        real = [sum(row) for part in parts for row in part.real or [[part.width]]]
        return max(real, default=0)


def _arguments(origins: Mapping[Any, _Origin], loader_arrays: Any, longest: Any) -> Any:
    """Return the arguments of a forward by their places; None where it is open how one is cut."""
    arguments: dict[Any, Any] = {}
    for argument_place, origin in origins.items():
        if origin.place not in loader_arrays:  # an array that this batch does not have
            continue
        container = arguments  # the innermost dictionary around the argument
        for key in argument_place[:-1]:
            container = container.setdefault(key, {})
        part = origin.part_of(loader_arrays[origin.place], longest)
        if part is None:
            return None
        container[argument_place[-1]] = part
    return arguments


def _sides_between(loader_array: Any, argument: Any) -> dict[str, tuple[int, int]]:
    """Return the sides of an array of the loader (of `_SIDES`) that make an argument: for each, the
    columns of the array and how many of them are kept.
    """
    from_shape, to_shape = tuple(loader_array.shape), tuple(argument.shape)
    if len(from_shape) != 2 or len(to_shape) != 2:  # only rows of tokens are cut or turned
        is_same = from_shape == to_shape and bool((loader_array == argument).all())
        return {"first": (0, 0)} if is_same else {}
    sides = {}
    for side, (axis, change) in _SIDES.items():
        width, kept = from_shape[axis], to_shape[axis]
        array = change(loader_array, kept)
        if tuple(array.shape) == to_shape and bool((array == argument).all()):
            sides[side] = width, width if side == "turned" else kept
    return sides


def _tokens_of(parts: list[ReadBatch]) -> Any:
    return [(part.rows, part.widths, part.real) for part in parts]


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

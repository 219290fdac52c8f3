"""What the batches of a dry run show of a loader: which columns of its batches may be cut."""

from __future__ import annotations

import copy
import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .cutting import Cut, UnknownError, Width, arrays_by_place, named, row_lengths, tail_value
from .sample_lengths import SampleLengths

_MOST_BATCHES = 1000  # that are looked at
_MOST_VALUES = 4  # of padding at the end of one array: more are no padding
_PADDING = (0, 1, -100)  # values that padding has often: of masks, and of labels without loss
_FEWEST_WIDTHS = 3  # different ones, by which a multiple shows that the collator rounds up to
_MOST_MULTIPLE = 64
DEVICE_MULTIPLE = 64  # each new width costs an H200 0.1 s, as docs/explanation/gpu.md says


@dataclass(frozen=True)
class Candidate:
    """A batch that would be cut, for the checks."""

    data: Any  # as the loader handed it out
    tokens: int  # of its longest rows, if it was cut
    extra: Any  # what the trainer passed with it


class _Set:
    """What was seen of one set of token ids, in each batch."""

    def __init__(self) -> None:
        # (place, value) that told the padding in all batches; None before the first.
        self.ends: dict[tuple[Any, float], None] | None = None
        # For each array, the axes that had the width of the token ids in all batches.
        self.axes: dict[Any, tuple[int, ...]] | None = None
        # For each array, what stood at its end; None among them for what is no padding.
        self.values: dict[Any, set[Any]] = {}
        self.columns = 0  # of the longest rows of all batches
        self.widths: set[int] = set()  # of all batches

    def note(self, arrays: Mapping[Any, Any], width: int, longest: int, padding: Any) -> None:
        """Look at a batch, of which this set has these columns, and as many in its longest row."""
        self.columns += longest
        self.widths.add(width)
        ends = {
            (place, value): None
            for place, array in arrays.items()
            if _is_rows(array) and array.shape[-1] == width
            for value in padding
            if max(row_lengths(array, value), default=0) == longest
        }
        self.ends = ends if self.ends is None else {k: None for k in self.ends if k in ends}
        if not self.ends:
            raise UnknownError("no array of its batches tells where the padding begins")
        axes = {place: _axes_of(array, width) for place, array in arrays.items()}
        if self.axes is None:
            self.axes = axes
        # An array that has this size by chance has another one in other batches.
        self.axes = {
            place: tuple(a for a in self.axes.get(place, ()) if a in now)
            for place, now in axes.items()
        }
        for place, own in self.axes.items():
            if own and longest < width:
                value = tail_value(arrays[place], own, longest)
                self.values.setdefault(place, set()).add(value)

    def ends_in_padding(self, place: Any) -> bool:
        """Return whether an array ended in padding where the rows of this set did."""
        values = self.values.get(place, set())
        return None not in values and len(values) <= _MOST_VALUES

    def width(self) -> Width:
        """Return how its arrays are cut. Raises UnknownError."""
        axes = {place: own for place, own in (self.axes or {}).items() if own}
        for place in axes:
            if not self.ends_in_padding(place):
                raise UnknownError("%s is as wide, and does not end in padding" % named(place))
        # A mask first; of the others, any tells the same.
        ends = sorted(self.ends or {}, key=lambda end: "mask" not in str(end[0][-1:]).lower())
        known = {place: tuple(self.values.get(place, ())) for place in axes}
        return Width(ends=(ends[0],), axes=axes, values=known)


class Learner:
    """Looks at the batches of one loader, as it hands them out."""

    def __init__(self, pad_token_id: Any) -> None:
        self.why_not = ""  # why its batches cannot be cut; empty as long as they can
        # The batch that would be the narrowest, and the widest, of those that would be cut.
        self.narrowest: Candidate | None = None
        self.widest: Candidate | None = None
        self._padding = (*_PADDING, *([] if pad_token_id is None else [pad_token_id]))
        self._sets: list[_Set] = []
        self._guessed: int | None = None  # the token that pads, where nothing tells padding
        self._n_batches = 0
        self.lengths = SampleLengths()

    def note(self, data: Any, parts: Sequence[Any], extra: Any = None, numbers: Any = None) -> bool:
        """Look at a batch: what the loader handed out, and what was read of it, a part for each set
        of token ids. `extra` is kept with a batch that the checks may compute; `numbers` are those
        of its samples, None where they are not known. Return whether more batches are looked at.
        """
        self._n_batches += 1
        looks = not self.why_not and self._n_batches <= _MOST_BATCHES
        try:
            if looks:
                _check_readable(data, parts)
                self._look(data, parts, extra)
        except UnknownError as error:
            self.why_not = str(error)
        self.note_lengths(numbers, data)
        return looks and not self.why_not

    def note_lengths(self, numbers: Any, data: Any) -> None:
        """Note how long the samples of a batch are."""
        if not self.why_not:
            ends = [each.ends for each in self._sets]
            self.lengths.note(numbers, dict(arrays_by_place(data)), ends)

    @property
    def fixed_widths(self) -> list[int]:
        """For each set of token ids, the width of all rows; 0 where it varies."""
        return [min(each.widths) if len(each.widths) == 1 else 0 for each in self._sets]

    def multiple(self, asked: int, on_device: bool) -> int:
        """Return the multiple to which widths are rounded up: what the user asks for, or with 0 the
        one that shows.
        """
        widths = set().union(*(each.widths for each in self._sets))
        shown = functools.reduce(math.gcd, widths, 0)
        if len(widths) < _FEWEST_WIDTHS or shown > _MOST_MULTIPLE:
            shown = 1
        if on_device:
            shown *= DEVICE_MULTIPLE // math.gcd(shown, DEVICE_MULTIPLE)
        return asked or shown

    def _look(self, data: Any, parts: Sequence[Any], extra: Any) -> None:
        arrays = dict(arrays_by_place(data))
        is_told = all(part.real is not None for part in parts)
        if not is_told and self._guessed is None:
            self._guessed = _guess_of(parts)
            if self._guessed is None:  # rows that are full: nothing of them is cut
                return
            self._padding = (*self._padding, self._guessed)
        shapes = [shape for part in parts for shape in _shapes_of(part, self._guessed)]
        self._sets = self._sets or [_Set() for _ in shapes]
        if not shapes or len(shapes) != len(self._sets):
            raise UnknownError("its batches do not all have the same sets of token ids")
        shapes = [(width, _with_end(arrays, width, longest)) for width, longest in shapes]
        for one, (width, longest) in zip(self._sets, shapes):
            one.note(arrays, width, longest, self._padding)
        tokens = sum(longest for _, longest in shapes)
        if any(longest < width for width, longest in shapes):
            if self.narrowest is None or tokens < self.narrowest.tokens:
                self.narrowest = Candidate(copy.deepcopy(data), tokens, extra)
            if self.widest is None or tokens > self.widest.tokens:
                self.widest = Candidate(copy.deepcopy(data), tokens, extra)

    @property
    def checked(self) -> list[Any]:
        """The batches to check."""
        return [each.data for each in (self.narrowest, self.widest) if each is not None]

    def cut(self, multiple: int, on_device: bool) -> Cut:
        """Return how the batches of the loader are cut, to a multiple that the user asks for, or
        with 0 to the one that shows. Raises UnknownError where they are not, with why.
        """
        if self.why_not:
            raise UnknownError(self.why_not)
        if self.narrowest is None:
            raise UnknownError("no column of its batches is padding in every row")
        multiple = self.multiple(multiple, on_device)
        cut = Cut(_widths_of(self._sets), multiple)
        # No batch is cut below the width that the checks compute.
        arrays = dict(arrays_by_place(self.narrowest.data))
        floors = [each.kept(arrays, multiple)[1] for each in cut.widths]
        widths = [replace(each, floor=floor) for each, floor in zip(cut.widths, floors)]
        return replace(cut, widths=tuple(widths))


def _check_readable(data: Any, parts: Sequence[Any]) -> None:
    if any(array.device.type != "cpu" for _, array in arrays_by_place(data, anywhere=True)):
        raise UnknownError("its batches are on a device already when they are collated")
    for part in parts:
        if part.doubt:
            raise UnknownError("which of its tokens are padding is not known: " + part.doubt)


def _widths_of(sets: Sequence[_Set]) -> tuple[Width, ...]:
    """Return the widths of sets of token ids; sets that share an array, of one width in every batch
    that was seen, are cut alike.
    """
    _share_out(sets)
    found: list[Width] = []
    for one in sets:
        if not any((one.axes or {}).values()):  # another set has all of its arrays
            continue
        width = one.width()
        shared = [each for each in found if each.axes.keys() & width.axes.keys()]
        for each in shared:
            found.remove(each)
            if any(each.axes[p] != width.axes[p] for p in each.axes.keys() & width.axes.keys()):
                raise UnknownError("an array has the widths of several sets of token ids")
            found_values = {**each.values, **width.values}
            width = Width((*each.ends, *width.ends), {**each.axes, **width.axes}, found_values)
        found.append(width)
    return tuple(found)


def _share_out(sets: Sequence[_Set]) -> None:
    """Give each array that is as wide as several sets of token ids, such as an encoder's and a
    decoder's, to the one of the shortest rows of those with which it ended in padding.
    """
    for place in {place for one in sets for place in one.axes or {}}:
        having = [one for one in sets if (one.axes or {}).get(place)]
        fitting = [one for one in having if one.ends_in_padding(place)]
        for one in having if fitting else []:
            if one is not min(fitting, key=lambda each: each.columns):
                one.axes = {**(one.axes or {}), place: ()}


def _guess_of(parts: Sequence[Any]) -> int | None:
    """Return the token that rows end in most, if any repeats at the end of one. The checks say
    whether it pads: where it is text, the same step without it is another.
    """
    repeats: Counter[int] = Counter()
    for part in parts:
        for token, count in part.ends:
            repeats[token] += count - 1
    return next((token for token, count in repeats.most_common(1) if count), None)


def _with_end(arrays: Mapping[Any, Any], width: int, longest: int) -> int:
    """Return the tokens of the longest row, with the one that ends it where that is the token that
    pads, too: its label is then the last one.
    """
    own = [(each, axes) for each in arrays.values() if (axes := _axes_of(each, width))]

    def n_others(columns: int) -> int:
        return sum(tail_value(each, axes, columns) is None for each, axes in own)

    if longest + 1 < width and n_others(longest) and not n_others(longest + 1):
        return longest + 1
    return longest


def _shapes_of(part: Any, guessed: int | None) -> list[tuple[int, int]]:
    """Return (columns, tokens of the longest row) of a part, of its encoder and its decoder; with
    the token that was guessed to pad.
    """
    if part.real is None:
        ends = [part.ends[n : n + part.rows] for n in range(0, len(part.ends), part.rows)]
        padding = [[count if token == guessed else 0 for token, count in own] for own in ends]
        found = [(width, width - min(own)) for width, own in zip(part.widths, padding)]
        if len(found) < len(part.widths):  # a decoder of which the labels tell the padding
            found.append((part.widths[1], max(part.decoder, default=0)))
        return found
    own = [sum(row) for row in part.real]
    if part.decoder is not None:
        own = [both - decoder for both, decoder in zip(own, part.decoder)]
    longest = max(own, default=0)
    if part.real_mask is not None:
        columns = part.real_mask.any(0).nonzero()
        columns = columns[0] if isinstance(columns, tuple) else columns
        last = int(columns[-1]) + 1 if len(columns) else 0
        if last > longest and not bool(part.real_mask[:, 0].all()):
            raise UnknownError("its padding is on the left, and to cut it would move positions")
        longest = last
    decoder = [(part.widths[1], max(part.decoder, default=0))] if part.decoder is not None else []
    return [(part.widths[0], longest), *decoder]


def _is_rows(array: Any) -> bool:
    return array.ndim > 1 and all(size == 1 for size in array.shape[1:-1])


def _axes_of(array: Any, width: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(1, array.ndim) if array.shape[axis] == width)

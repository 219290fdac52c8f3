"""Classes of samples, and their text: the same class has the same text, whatever its source."""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes
from batchstat.words import short

_IS_INTEGRAL = re.compile(r"-?\d+\.0+").fullmatch
_IS_NUMBER = re.compile(r"-?\d+").fullmatch
_ARE_NUMBERS = re.compile(r"\d+(, ?\d+)+").fullmatch
_OF_INDICATORS = {"0", "1"}
_LONGEST_LIST = 100_000  # characters of a text that is parsed: thousands of classes have fewer


def label_text(label: Any) -> str | None:
    """Return the text by which a label is counted and shown; None if the label is missing. Missing
    are None, NaN, NaT, NA and masked values. An integral float is written as a whole number,
    because another file may hold the same label as an integer: 1.0 is `1`, -0.0 is `0`, 1e+300
    stays. A boolean is `true` or `false`. An empty text names none.
    """
    # pandas' NA is recognized by the name of its class, so that pandas need not be imported.
    if label is None or label is np.ma.masked or type(label).__name__ == "NAType":
        return None
    if isinstance(label, str):
        return str(label) or None  # NumPy's own kind of str becomes a plain one
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    # Only NaN and NaT differ from themselves.
    if label != label:
        return None
    # A larger float keeps the exponent with which Python writes it.
    if isinstance(label, float | np.floating) and abs(float(label)) < 1e16:
        return str(int(label) if label.is_integer() else label)
    return str(label)


@lru_cache(maxsize=1 << 14)  # a column has few classes in many cells
def label_of_cell(cell: str) -> str | None:
    """Return the label in a cell of delimited text, in which pandas may write 1.0 and True."""
    if _IS_INTEGRAL(cell):
        return label_text(float(cell))
    return cell.lower() if cell in ("True", "False") else cell or None


def list_text(values: Iterable[Any]) -> str | None:
    """Return the text of a list of numbers, or booleans as 0 and 1, such as "[0, 1, 1]"; None for
    other lists, or of at most one, which names a class whatever else the corpus has.
    """
    numbers = [value for value in values if value is not None]
    are_booleans = [isinstance(value, bool | np.bool_) for value in numbers]
    if len(numbers) < 2 or (any(are_booleans) and not all(are_booleans)):
        return None
    if not all(isinstance(value, bool | int | float | np.number | np.bool_) for value in numbers):
        return None
    texts = [
        label_text(int(value) if is_boolean else value)
        for value, is_boolean in zip(numbers, are_booleans, strict=True)
    ]
    return f"[{', '.join(text for text in texts if text is not None)}]"


def _listed_classes(names: Sequence[str]) -> list[list[str] | None]:
    """Return for each label the labels in the list that it is the text of; None for other texts."""
    # A list is written as Python or JSON writes it, or as numbers with commas, where all labels of
    # a corpus are numbers or such lists: "2,7" beside "3".
    are_numbers = all(_IS_NUMBER(name) or _ARE_NUMBERS(name) for name in names)
    return [
        re.split(", ?", name) if are_numbers and "," in name else _in_brackets(name)
        for name in names
    ]


def _in_brackets(name: str) -> list[str] | None:
    if not (name.startswith("[") and name.endswith("]")) or len(name) > _LONGEST_LIST:
        return None
    try:
        values = ast.literal_eval(name)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    texts = [None if isinstance(value, list | dict) else label_text(value) for value in values]
    return [text for text in texts if text is not None]


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes of samples: at most one each, or any number if there are `offsets`."""

    codes: Ints  # (n,) index into `names`, -1 for no label; or (offsets[-1],) of all samples
    names: tuple[str, ...]  # the labels that occur, in order of their first sample
    offsets: Ints | None = None  # (n + 1,) codes of each sample; None if every sample has one

    @property
    def samples(self) -> Ints:
        """(n_codes,) sample of each code."""
        if self.offsets is None:
            return np.arange(len(self.codes))
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @classmethod
    def joined(cls, parts: Sequence["Labels"]) -> "Labels":
        """Return the labels of all parts, one part after another; each may have offsets or not."""
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        numbers = {name: i for i, name in enumerate(names)}
        # An empty array first, because np.concatenate raises without any array.
        codes: list[Ints] = [np.empty(0, np.int64)]
        sizes: list[Ints] = [np.empty(0, np.int64)]
        for part in parts:
            # new_codes[code] replaces a code of the part; -1, no label, takes the last: -1.
            new_codes = np.array([*(numbers[name] for name in part.names), -1], np.int64)
            codes.append(new_codes[part.codes])
            # How many codes each sample has: one where there are no offsets.
            offsets = part.offsets
            sizes.append(np.ones_like(part.codes) if offsets is None else np.diff(offsets))
        if all(part.offsets is None for part in parts):
            return cls(np.concatenate(codes), names)
        return cls(np.concatenate(codes), names, offsets_from_sizes(np.concatenate(sizes)))

    def to_list(self) -> list[Any]:
        """Return the label of each sample, None for none; or a list of those of each sample."""
        names = (*self.names, None)  # code -1 takes the last
        texts = [names[code] for code in self.codes.tolist()]
        if self.offsets is None:
            return texts
        return [
            [text for text in texts[first:stop] if text is not None]
            for first, stop in pairwise(self.offsets.tolist())
        ]

    @property
    def are_positions(self) -> bool:
        """Whether all labels are lists of one length that say 0 or 1 of each class, unresolved."""
        lists = _listed_classes(self.names)
        listed = [each for each in lists if each]
        sizes = {len(each) for each in listed}
        holds_only_them = all(_OF_INDICATORS.issuperset(each) for each in listed)
        return None not in lists and len(sizes) == 1 and sizes != {1} and holds_only_them

    def resolved(self, column: str) -> "Labels":
        """Return labels in which a text that lists several classes is these. Lists of one length of
        0 and 1 alone (multi-hot, for BCEWithLogitsLoss) name positions. Raises InputError: lists of
        numbers that are neither.
        """
        lists = _listed_classes(self.names)
        listed = [each for each in lists if each is not None]
        if not listed:
            return self
        if self.are_positions:
            lists = [[str(i) for i, one in enumerate(each) if one == "1"] for each in listed]
        elif fault := _fault_of_lists(listed):
            raise InputError(f"label {column!r} {fault}")
        return self._with_classes(
            [[name] if each is None else each for name, each in zip(self.names, lists, strict=True)]
        )

    def _with_classes(self, classes: Sequence[Sequence[str]]) -> "Labels":
        """Return labels with these classes, none to several, in place of each name."""
        # The sequence of the names stays that of their first samples.
        names = tuple(dict.fromkeys(name for each in classes for name in each))
        numbers = {name: i for i, name in enumerate(names)}
        # -1 in place of no class, and last of all for the code that means no label.
        codes_of = [[numbers[name] for name in dict.fromkeys(each)] or [-1] for each in classes]
        codes_of.append([-1])
        flat = np.array([code for each in codes_of for code in each], np.int64)
        begins = offsets_from_sizes(np.array([len(each) for each in codes_of]))
        groups, positions = gather_groups(begins, self.codes % len(codes_of))
        return Labels(
            flat[positions], names, groups if self.offsets is None else groups[self.offsets]
        )

    def take(self, samples: Ints) -> "Labels":
        """Return the labels of the samples at these positions, in this order; all names stay."""
        if self.offsets is None:
            return Labels(self.codes[samples], self.names)
        offsets, codes = gather_groups(self.offsets, samples)
        return Labels(self.codes[codes], self.names, offsets)


def _fault_of_lists(lists: Sequence[Sequence[str]]) -> str:
    """Return what is wrong with lists of labels as classes; empty if nothing is."""
    for each in lists:
        if any(map(_is_fraction, each)):
            shown = short(", ".join(each))
            return f"has lists such as {shown}, which name no classes: leave it out"
    # As numbers of classes, one would be there twice.
    repeats = any(len(set(each)) < len(each) for each in lists)
    if repeats and all(_OF_INDICATORS.issuperset(each) for each in lists):
        return (
            "has lists of 0 and 1 of several lengths, which are neither classes nor 0 or 1 for "
            "each class: leave it out"
        )
    return ""


def _is_fraction(text: str) -> bool:
    try:
        return not float(text).is_integer()
    except ValueError:  # a name
        return False

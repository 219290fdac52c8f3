"""Classes of samples, and their text: the same class has the same text, whatever its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchstat.lengths.arrays import Ints, gather_groups, offsets_from_sizes

_MOST_DIGITS = 1e16
"""From this value on, Python writes a float with an exponent."""


def label_text(label: Any) -> str | None:
    """Return the text by which a label is counted and shown; None if the label is missing.

    Missing are None, NaN, NaT, NA and masked values. An integral float is written as a whole
    number, because another file may hold the same label as an integer: 1.0 is `1`, -0.0 is `0`,
    1e+300 stays. A boolean is `true` or `false`.
    """
    # pandas' NA is recognized by the name of its class, so that pandas need not be imported.
    if label is None or label is np.ma.masked or type(label).__name__ == "NAType":
        return None
    if isinstance(label, str):
        return str(label)  # NumPy's own kind of str becomes a plain one
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    # Only NaN and NaT differ from themselves.
    if label != label:
        return None
    # A larger float keeps the exponent with which Python writes it.
    if isinstance(label, float | np.floating) and abs(float(label)) < _MOST_DIGITS:
        return str(int(label) if label.is_integer() else label)
    return str(label)


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes of samples: at most one each, or any number if there are `offsets`.

    Attributes:
        codes: (n,) index into `names`, -1 for a sample without a label; or (offsets[-1],) those
            of all samples in order.
        names: the labels that occur, in order of their first sample.
        offsets: (n + 1,) sample i has codes[offsets[i] : offsets[i + 1]]; None if every sample
            has one code.
    """

    codes: Ints
    names: tuple[str, ...]
    offsets: Ints | None = None

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
            # new_codes[code] replaces a code of the part. Code -1, no label, stays -1: it takes the
            # last element.
            new_codes = np.array([*(numbers[name] for name in part.names), -1], np.int64)
            codes.append(new_codes[part.codes])
            # How many codes each sample has: one where there are no offsets.
            offsets = part.offsets
            sizes.append(np.ones_like(part.codes) if offsets is None else np.diff(offsets))
        if all(part.offsets is None for part in parts):
            return cls(np.concatenate(codes), names)
        return cls(np.concatenate(codes), names, offsets_from_sizes(np.concatenate(sizes)))

    def take(self, samples: Ints) -> "Labels":
        """Return the labels of the samples at these positions, in this order; all names stay."""
        if self.offsets is None:
            return Labels(self.codes[samples], self.names)
        offsets, codes = gather_groups(self.offsets, samples)
        return Labels(self.codes[codes], self.names, offsets)

"""`Classes`: the one class that each sample counts in when classes are balanced."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from batchstat.errors import InputError, did_you_mean
from batchstat.lengths.arrays import Ints
from batchstat.lengths.labels import label_text


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of every sample, or none. Every class has at least one sample.

    A sample with several labels belongs to the rarest of them (the first in the corpus, if several
    are equally rare), so no sample counts twice. One without a label belongs to no class.

    Attributes:
        codes: (n,) index into `names`; −1 for no class.
        names: the classes, in the order of their first sample in the corpus.
        multilabel_count: number of samples with several labels.
    """

    codes: Ints
    names: tuple[str, ...]
    multilabel_count: int = 0

    @cached_property
    def sizes(self) -> Ints:
        """(n_classes,) number of samples of each class."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))

    @cached_property
    def members(self) -> list[Ints]:
        """(n_members,) the samples of each class, ascending."""
        order = np.argsort(self.codes, kind="stable")
        return np.split(order[np.count_nonzero(self.codes < 0) :], np.cumsum(self.sizes)[:-1])

    @cached_property
    def all_members(self) -> Ints:
        """(n_members,) the samples of all classes, ascending."""
        return np.flatnonzero(self.codes >= 0)

    @property
    def unlabelled_count(self) -> int:
        """Number of samples without a class."""
        return len(self.codes) - len(self.all_members)

    @classmethod
    def of(
        cls,
        codes: Ints,
        names: Sequence[str],
        offsets: Ints | None = None,
        keep: Sequence[str] = (),
    ) -> "Classes":
        """Build classes from encoded labels.

        Args:
            codes: (n,) or (offsets[-1],) index into `names`; −1 for no label.
            names: the labels, in the order of their first sample.
            offsets: (n + 1,) sample i has codes[offsets[i] : offsets[i + 1]], at least one; None
                if each has one.
            keep: the labels that count, if any are given; others are treated as no label.

        Raises:
            InputError: a label to keep does not occur, or no sample has a label.
        """
        for label in keep:
            if label not in names:
                raise InputError(f"no sample has the label {label!r}{not_there(label, names)}")
        kept = np.array([not keep or name in keep for name in names] + [False])
        used = np.where(kept[codes], codes, -1)
        counts = np.bincount(used + 1, minlength=len(names) + 1)[1:]
        if not counts.any():
            raise InputError("no sample has a label, so there are no classes to balance")
        several = 0
        if offsets is not None:
            several = int(np.count_nonzero(np.add.reduceat(used >= 0, offsets[:-1]) > 1))
            rarest_first = np.append(np.argsort(counts, kind="stable"), -1)
            rank = np.empty_like(rarest_first)
            rank[rarest_first] = np.arange(len(rank))
            used = rarest_first[np.minimum.reduceat(rank[used], offsets[:-1])]
        present = np.bincount(used + 1, minlength=len(names) + 1)[1:] > 0
        dense = np.append(np.cumsum(present) - 1, -1)
        named = tuple(name for name, there in zip(names, present, strict=True) if there)
        return cls(dense[used], named, several)

    @classmethod
    def encode(cls, labels: Iterable[object], keep: Sequence[str] = ()) -> "Classes":
        """Build classes from the labels of each sample, of any type, by their `label_text`.

        A list, tuple, set or array holds several labels.

        Raises:
            InputError: see `of`.
        """
        known: dict[str, int] = {}
        codes: list[int] = []
        offsets = [0]
        several = False
        for label in map(_plain, labels):
            if isinstance(label, _SEVERAL) and label is not np.ma.masked:
                several = True
                texts = (label_text(_plain(one)) for one in label)
                each = [known.setdefault(text, len(known)) for text in texts if text is not None]
                codes += list(dict.fromkeys(each)) or [-1]
            else:
                text = label_text(label)
                codes.append(-1 if text is None else known.setdefault(text, len(known)))
            offsets.append(len(codes))
        ends = np.array(offsets) if several else None
        return cls.of(np.array(codes, dtype=np.int64), tuple(known), ends, keep)


def _plain(label: Any) -> Any:
    """Return an Arrow scalar, or a number of NumPy or torch, as a Python value."""
    if hasattr(label, "as_py"):
        return label.as_py()
    if label is np.ma.masked or isinstance(label, np.floating):
        return label
    return label.item() if hasattr(label, "item") and getattr(label, "ndim", 1) == 0 else label


def not_there(label: str, names: Sequence[str]) -> str:
    """Return the end of a message about a missing label: the nearest one, or those that exist."""
    nearest = did_you_mean(label, names)
    first_names = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f": {nearest}" if nearest else f" (has: {first_names})"


_SHOWN = 20
_SEVERAL = (list, tuple, set, frozenset, np.ndarray)

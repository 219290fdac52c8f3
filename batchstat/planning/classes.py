"""`Classes`: the one class that each sample counts in when classes are balanced."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from batchstat.errors import InputError, did_you_mean
from batchstat.lengths.arrays import Ints
from batchstat.lengths.labels import Labels, label_text, list_text

_SHOWN = 20  # labels that a message lists at most


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of every sample, or none. Every class has at least one sample. A sample with
    several labels belongs to the rarest of them (the first in the corpus, if several are equally
    rare), so no sample counts twice. One without a label belongs to no class.
    """

    codes: Ints  # (n,) index into `names`; −1 for no class
    names: tuple[str, ...]  # the classes, in the order of their first sample in the corpus
    multilabel_count: int = 0  # number of samples with several labels

    @cached_property
    def sizes(self) -> Ints:
        """(n_classes,) number of samples of each class."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))

    @cached_property
    def members(self) -> list[Ints]:
        """A list with (n_members,) samples of each class, ascending."""
        order = np.argsort(self.codes, kind="stable")
        # Without a class (−1) comes first, then class by class.
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
        """Build classes from encoded labels: `codes` (n,) index `names`, the labels in the order of
        their first sample; −1 for none. With `offsets` (n + 1,), sample i has codes[offsets[i] :
        offsets[i + 1]], at least one. If labels to `keep` are given, others are as no label. A
        label in which no sample counts becomes no class. Raises InputError: a label to keep does
        not occur, or no sample has a label.
        """
        for label in keep:
            if label not in names:
                raise InputError(f"no sample has the label {label!r}{not_there(label, names)}")
        # Code −1, no label, takes the last element: it is never kept.
        is_kept = np.array([not keep or name in keep for name in names] + [False])
        labels = np.where(is_kept[codes], codes, -1)
        # Samples of each label: code −1 is counted at 0, which is cut off.
        counts = np.bincount(labels + 1, minlength=len(names) + 1)[1:]
        if not counts.any():
            raise InputError("no sample has a label, so there are no classes to balance")
        n_multilabel = 0
        if offsets is not None:
            # (n,) labels of each sample: reduceat adds up from each offset to the next.
            labels_per_sample = np.add.reduceat(labels >= 0, offsets[:-1])
            n_multilabel = int(np.count_nonzero(labels_per_sample > 1))
            # A sample counts for its rarest label, of equally rare ones the first. rank[label] is 0
            # for the rarest; the last element, which −1 takes, is the highest.
            rarest_first = np.append(np.argsort(counts, kind="stable"), -1)
            rank = np.empty_like(rarest_first)
            rank[rarest_first] = np.arange(len(rank))
            labels = rarest_first[np.minimum.reduceat(rank[labels], offsets[:-1])]
            counts = np.bincount(labels + 1, minlength=len(names) + 1)[1:]
        # Number the labels in which a sample still counts from 0, without gaps; −1 stays −1.
        class_of_label = np.append(np.cumsum(counts > 0) - 1, -1)
        class_names = tuple(name for name, count in zip(names, counts, strict=True) if count)
        return cls(class_of_label[labels], class_names, n_multilabel)

    @classmethod
    def encode(cls, labels: Iterable[object], keep: Sequence[str] = ()) -> "Classes":
        """Build classes from labels of any type; those with the same `label_text` are one. A list,
        tuple, set or array holds several labels: [["a", "b"], "b"] makes sample 0 an "a", the rarer
        one. Lists of 0 and 1 are as of `Labels.resolved`. Raises InputError as that and `of` do.
        """
        code_of: dict[str, int] = {}  # of each text, in the order of their first samples
        codes: list[int] = []
        offsets = [0]
        is_multilabel = False
        for label in map(_as_python, labels):
            # NumPy's masked value is an array, too, and means no label.
            are_several = isinstance(label, list | tuple | set | frozenset | np.ndarray)
            if are_several and label is not np.ma.masked:
                is_multilabel = True
                several = list(map(_as_python, label))
                # The same label twice counts once; None is no label.
                numbers = None if isinstance(label, set | frozenset) else list_text(several)
                texts = [numbers] if numbers else map(label_text, several)
                distinct_texts = dict.fromkeys(text for text in texts if text is not None)
                codes += [code_of.setdefault(key, len(code_of)) for key in distinct_texts] or [-1]
            else:
                text = label_text(label)
                codes.append(-1 if text is None else code_of.setdefault(text, len(code_of)))
            offsets.append(len(codes))
        label_offsets = np.array(offsets) if is_multilabel else None
        found = Labels(np.array(codes, dtype=np.int64), tuple(code_of), label_offsets)
        found = found.resolved("labels") if is_multilabel else found
        return cls.of(found.codes, found.names, found.offsets, keep)


def _as_python(label: Any) -> Any:
    """Return a label in Python's own type: the text of a tensor of 3 would be "tensor(3)"."""
    # A float32 of 0.1 keeps its short text in NumPy; in Arrow or torch, 0.10000000149011612.
    if hasattr(label, "as_py"):  # a scalar of Arrow
        return label.as_py()
    if isinstance(label, np.floating):
        return label
    if label is np.ma.masked:  # there is no label; as a number of Python it would be 0.0
        return label
    # Other scalars of NumPy or torch; an array, even of a single element, is a list of labels.
    is_scalar = hasattr(label, "item") and getattr(label, "ndim", None) == 0
    return label.item() if is_scalar else label


def not_there(label: str, names: Sequence[str]) -> str:
    """Return the end of a message: the most similar of `names` to `label`, or else the first."""
    nearest = did_you_mean(label, names)
    first_names = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f": {nearest}" if nearest else f" (has: {first_names})"

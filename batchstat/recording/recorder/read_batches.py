"""`ReadBatch`: what a batch computes, as it was read from its arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

IGNORED = -100  # the label of a token without loss, in torch and transformers
NOTHING = "nothing"  # what is said of token ids without any mask
POSITIONS = "position_ids"  # what says which tokens are real where samples begin again in a row


@dataclass(eq=False)
class ReadBatch:
    """One forward pass."""

    rows: int
    width: int  # tokens to which every row is padded; of an encoder and a decoder, both together
    widths: tuple[int, ...] = ()  # (width,), or the widths of encoder and decoder
    # For each row, the number of real tokens of each of its samples, and of those that carry loss;
    # None where that is not known.
    real: list[list[int]] | None = None
    trained: list[list[int]] | None = None
    # Where the label of a token stands: "shifted", at the token, so that the model moves labels by
    # one; "as they are", where it is predicted; "of rows", where each row has one label or output,
    # as of a classifier; or "unknown".
    loss: str = "unknown"
    # The number of labels of each row that are not ignored, and of these that are no padding.
    # Empty without labels of tokens; the latter also where none of these is padding.
    labelled: list[int] = field(default_factory=list)
    labelled_real: list[int] = field(default_factory=list)
    # The number of real tokens of each row in a decoder; None without one.
    decoder: list[int] | None = None
    padding_source: str = NOTHING  # what tells padding from text, such as "attention_mask"
    is_straight: bool = False  # whether it is one row with positions 0, 1, 2 and so on
    # (the last token, how often it repeats at the end) of each row; only where `real` is not known.
    ends: list[tuple[int, int]] = field(default_factory=list)
    trained_padding: int = 0  # number of tokens that are padding and carry loss
    doubt: str = ""  # why it is not known what it computes; empty where that is known
    ids: Any = None  # the token ids; None where several sets of them are one batch
    # (n_rows, width) which of the ids are real; None where those are the first ones, or not known.
    real_mask: Any = None

    def __post_init__(self) -> None:
        """Take the width alone where there is no decoder."""
        self.widths = self.widths or (self.width,)


def single_samples(numbers: list[int]) -> list[list[int]]:
    """Return the numbers of rows that hold one sample each: `[3, 5]` -> `[[3], [5]]`."""
    return [[number] for number in numbers]


def samples_of(lengths: list[int]) -> list[list[int]]:
    """Return the lengths of the samples in rows of at most one each: `[3, 0]` -> `[[3], []]`."""
    return [[length] if length else [] for length in lengths]


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the sizes of an array; () for anything else."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else ()


def is_whole(value: Any) -> bool:
    """Return whether an array holds whole numbers, and not only true and false."""
    # A dtype of NumPy has a kind, "i" or "u"; one of torch is named, as torch.int64.
    dtype = getattr(value, "dtype", "")
    return getattr(dtype, "kind", "") in ("i", "u") or "int" in str(dtype)


def is_equal(array: Any, other: Any) -> bool:
    """Return whether two arrays, None instead of one, hold the same numbers in the same shape."""
    return shape_of(array) == shape_of(other) != () and bool((array == other).all())

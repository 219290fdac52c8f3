"""`ReadBatch`: what a batch computes, as it was read from its arrays."""

from __future__ import annotations

from typing import Any

IGNORED = -100  # the label of a token without loss, in torch and transformers

NOTHING = "nothing"  # what is said of token ids without any mask

POSITIONS = "position_ids"  # what says which tokens are real where samples begin again in a row


class ReadBatch:
    """One forward pass.

    Attributes:
        rows: number of rows.
        width: tokens to which every row is padded; of an encoder and a decoder, both together.
        widths: (width,), or the widths of encoder and decoder.
        real: for each row, the number of real tokens of each of its samples; None where nothing
            says which tokens are padding.
        trained: for each row, the number of tokens of each of its samples that carry loss; None
            where that is not known.
        loss: where the label of a token stands: "shifted", at the token, so that the model moves
            labels by one; "as they are", where it is predicted; "of rows", where each row has one
            label or output, as of a classifier; or "unknown".
        labelled: the number of labels of each row that are not ignored; empty without labels of
            tokens.
        labelled_real: the number of these that are no padding either; empty where all of them are.
        decoder: the number of real tokens of each row in a decoder; None without one.
        padding_source: what tells padding from text, such as "attention_mask".
        is_straight: whether it is one row with positions 0, 1, 2 and so on.
        ends: (the last token, how often it repeats at the end) of each row; only where nothing says
            which tokens are padding.
        trained_padding: number of tokens that are padding and carry loss.
        doubt: why it is not known what it computes; empty where that is known.
        ids: the token ids; None where several sets of them are one batch.
        real_mask: which of the ids are real, an array of their shape; None where the real tokens of
            a row are its first ones, or are not known.
    """

    def __init__(self, rows: int, width: int) -> None:
        """Start with what every batch has."""
        self.rows, self.width = rows, width
        self.widths: tuple[int, ...] = (width,)
        self.real: list[list[int]] | None = None
        self.trained: list[list[int]] | None = None
        self.labelled: list[int] = []
        self.labelled_real: list[int] = []
        self.decoder: list[int] | None = None
        self.is_straight = False
        self.ends: list[tuple[int, int]] = []
        self.padding_source, self.loss, self.trained_padding = NOTHING, "unknown", 0
        self.doubt = ""
        self.ids: Any = None
        self.real_mask: Any = None


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
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind in ("i", "u") if kind is not None else "int" in str(getattr(value, "dtype", ""))

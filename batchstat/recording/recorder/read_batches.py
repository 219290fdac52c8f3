"""What a batch computes, as it was read."""

from __future__ import annotations

from typing import Any

IGNORED = -100
"""The label of a token without loss, in torch and transformers."""

NOTHING = "nothing"
"""What is said of token ids without any mask."""

POSITIONS = "position_ids"
"""What says which tokens are real where samples begin again in a row."""


class ReadBatch:
    """One forward pass.

    Attributes:
        rows: number of rows.
        width: tokens to which every row is padded; of an encoder and a decoder, both together.
        widths: the width of each of them.
        real: real tokens of each sample of each row; None where nothing says which are padding.
        trained: tokens that carry loss, of the same; None where that is not known.
        loss: how labels and tokens belong together: "shifted" by the model, "as they are", or
            "unknown".
        labelled: labels of each row that are not ignored; empty without labels of tokens.
        decoder: real tokens of each row in a decoder; None without one.
        by: what says which tokens are real.
        is_straight: whether it is one row whose positions count its tokens.
        ends: the last token of each row and how often it stands there in a row, where nothing says
            which are padding.
        trained_padding: tokens that are padding and carry loss.
        ids: the token ids; None of several sets in one batch.
        keep: which of them are real; None where a row's are the first ones, or it is not known.
    """

    def __init__(self, rows: int, width: int) -> None:
        """Start with what every batch has."""
        self.rows, self.width = rows, width
        self.widths: tuple[int, ...] = (width,)
        self.real: list[list[int]] | None = None
        self.trained: list[list[int]] | None = None
        self.labelled: list[int] = []
        self.decoder: list[int] | None = None
        self.is_straight = False
        self.ends: list[tuple[int, int]] = []
        self.loss, self.by, self.trained_padding = "unknown", NOTHING, 0
        self.ids: Any = None
        self.keep: Any = None


def each_of(numbers: list[int]) -> list[list[int]]:
    """Return the numbers of rows that hold one sample."""
    return [[number] for number in numbers]


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the sizes of an array; () for anything else."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else ()


def is_whole(value: Any) -> bool:
    """Return whether an array holds whole numbers, and not only true and false."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind in ("i", "u") if kind is not None else "int" in str(getattr(value, "dtype", ""))
